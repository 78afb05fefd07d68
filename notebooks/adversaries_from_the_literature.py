# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Adversaries from the literature
#
# Papers on disclosure risk each bring an adversary of their own. `adversary.models.published` has six of them, each a
# PyMC model with its release left free, built in one line and audited in another. This notebook redoes one number or
# figure of each paper. What the models have in common: a target called `in`, and released variables called `noisy`.

# %%
# %matplotlib inline
import math

import matplotlib.pyplot as plt
import numpy as np

import adversary as adv
from adversary.budget import lee_clifton_epsilon
from adversary.models import published

plt.rcParams.update({"figure.figsize": (7.0, 3.4), "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
RHO = 2.56 * 165 / 4099 * 3945 / 4097  # of one cell of a block, 2020 Census


def audit(model, **options):
    """An audit with the target in; its risk group."""
    return adv.audit_model(model, {"in": 1}, rng=1, progress=False, **options)["risk"].to_dataset()


# %% [markdown]
# ## Kazan and Reiter: everybody else in the block is known
#
# The adversary knows every record of a block but the target's, holds that the target is in a cell with probability 1/2,
# and reads the cell's count with the noise of the 2020 Census. Their Figures 2.5 and 2.6 show that 58.89 % of such
# guesses are right. The average posterior is 52.37 %.

# %%
risk = audit(published.kazan_reiter(RHO))
print(f"guesses that are right: {risk.prob_correct.item():.4f} +- {risk.mcse.sel(measure='prob_correct').item():.4f}")
print(f"average posterior:      {risk.posterior_mean.item():.4f}")
exact = adv.enumerate_posterior(published.kazan_reiter(RHO), {"noisy[level 1]": np.arange(-60, 63)})["posterior"].values
k = np.arange(-61, 62)
noise = np.exp(-RHO * k.astype(float) ** 2)
noise /= noise.sum()
print(f"without simulation:     {noise @ (exact > 0.5):.6f} and {noise @ exact:.6f}")

# %% [markdown]
# The rarer the trait, the more the release multiplies its probability, and the less probable it stays. The limit of the
# ratio for priors near 0 is exp(2 rho).

# %%
priors = np.array([1e-4, 1e-3, 0.01, 0.1, 0.2, 0.5])
seen = {"noisy[level 1]": k + 1}
means = [noise @ adv.enumerate_posterior(published.kazan_reiter(RHO, p), seen)["posterior"].values for p in priors]
for p, mean in zip(priors, means, strict=True):
    print(f"prior {p:6.4f}: average posterior {mean:.6f}, {mean / p:.4f} times the prior")
print(f"limit: {math.exp(2 * RHO):.4f}")

# %% [markdown]
# ## The neighbor of the census papers
#
# The 2020 Census protects a record that is *replaced*: two cells of every query change, and the noise of each has twice
# the variance. Its neighbor knows all records but one attribute of one person and reads both cells. On average they
# learn as much as Kazan and Reiter's adversary of one cell with half that variance.

# %%
both = audit(published.census_neighbor(RHO))
one = audit(published.census_neighbor(RHO, both_cells=False))
print(f"both cells: average posterior {both.posterior_mean.item():.4f}, the first only {one.posterior_mean.item():.4f}")

# %% [markdown]
# ## The differencing attacker
#
# Two totals that differ by one person need no model at all when they are exact: their difference is the person. With
# noise of epsilon each, that difference carries two noises. The adversary below gives the target a prior of 1 %.

# %%
print(f"exact totals: average posterior {audit(published.differencing(adv.Exact(), 0.01)).posterior_mean.item():.4f}")
epsilons = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0]
found = [audit(published.differencing(adv.Geometric(e), 0.01)).posterior_mean.item() for e in epsilons]
for epsilon, mean in zip(epsilons, found, strict=True):
    print(f"epsilon {epsilon:3.1f} of each total: average posterior {mean:.4f}")
fig, ax = plt.subplots()
ax.plot(epsilons, found, "o-", color=BLUE)
ax.axhline(0.01, color=GREY, lw=1)
ax.set(xlabel="epsilon of each total", ylabel="average posterior", title="Differencing of two noisy totals")
fig.tight_layout()

# %% [markdown]
# ## Lee and Clifton: who is absent?
#
# Four people with the values 1, 2, 3, 4 are known; one of them is not in the data, and their mean is published. For a
# posterior of at most 1/3 of any person, Lee and Clifton allow epsilon = 0.337888. The figure is the posterior of each
# person by what is published.

# %%
people, limit = [1.0, 2.0, 3.0, 4.0], 1 / 3
epsilon = lee_clifton_epsilon(people, np.mean, limit)
scale = (5 / 6) / epsilon
print(f"epsilon = {epsilon:.6f}, scale of the noise {scale:.4f}")
x = np.linspace(-4, 9, 261)
fig, ax = plt.subplots()
for person, color in zip(range(4), (BLUE, "#56B4E9", "#E69F00", ORANGE), strict=True):
    model = published.lee_clifton(people, np.mean, adv.Laplace(scale), target=person)
    posterior = adv.enumerate_posterior(model, {"noisy": x})["posterior"].values
    ax.plot(x, posterior, color=color, label=f"{people[person]:.0f}")
    print(f"person with {people[person]:.0f}: posterior from {posterior.min():.4f} to {posterior.max():.4f}")
ax.axhline(limit, color=GREY, lw=1)
ax.set(xlabel="published mean", ylabel="posterior of being absent", title="No posterior above 1/3")
ax.legend(title="value", frameon=False)
fig.tight_layout()

# %% [markdown]
# The largest is 0.303: the bound puts all other people as far from the target as the farthest one is.
#
# ## McClure and Reiter: synthetic data
#
# A synthesizer draws a share from a beta posterior and synthetic records from it. Its pseudo-counts make it
# epsilon-differentially private. The intruder knows all records but the target's. On average they learn next to
# nothing; of a data set in which the target is the only one with a 1, the largest factor is exp(epsilon).

# %%
for epsilon in (0.1, 1.0, 3.0):
    alone = published.mcclure_reiter(epsilon, 0.5, known=0)
    among = published.mcclure_reiter(epsilon, 0.5, known=50)
    worst = adv.enumerate_posterior(alone, {"noisy": 100})["posterior"].item()
    print(
        f"epsilon {epsilon:3.1f}: average posterior {audit(alone).posterior_mean.item():.4f} alone and "
        f"{audit(among).posterior_mean.item():.4f} among 50; worst {worst:.6f}, "
        f"bound {1 / (1 + math.exp(-epsilon)):.6f}"
    )

# %% [markdown]
# ## Reconstruction of a small block
#
# Seven people, three features of two values each. Their tables are published: each feature by itself, or every pair of
# features. Exact tables of pairs leave few blocks that agree with all of them, and more than triple the probability of
# a rare record. Certain it is of nobody: a block that is reconstructed completely still has seven people in it.

# %%
shares = np.array([0.25, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05]).reshape(2, 2, 2)
tables = {"one feature each": [[0], [1], [2]], "pairs of features": [[0, 1], [0, 2], [1, 2]]}
for name, by in tables.items():
    for noise_name, mechanism in (("exact", adv.Exact()), ("epsilon 1 a table", adv.Geometric(1.0))):
        model = published.block_reconstruction(shares, 7, by, mechanism, (1, 1, 1))
        tree = adv.audit_model(model, {"in": 1}, rng=1, draws=300, progress=False)
        many = (tree["release"]["weight"] * (tree["exact"]["posterior"] > 0.25)).sum().item()
        print(f"{name}, {noise_name}: average posterior {tree['risk']['posterior_mean'].item():.4f} (prior 0.05)")
        print(f"   above 25 % in {many:.2f} of releases")

# %% [markdown]
# With noise no block is ruled out, and the guarantee bounds every such attack, whoever makes it. Every number above is
# redone by `tests/papers/test_published_adversaries.py` or stands in it.
#
# References: Kazan and Reiter (2025), Statistica Sinica 35; Kifer et al. (2022), semantics for the 2020 Census;
# Denning, Denning and Schwartz (1979), ACM TODS 4; Lee and Clifton (2011), ISC; McClure and Reiter (2012), Transactions
# on Data Privacy 5; Garfinkel, Abowd and Martindale (2018), ACM Queue 16.
