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
# # Write your own adversary
#
# An adversary is a PyMC model whose release is left free. If the library does not have the one you fear, write the
# model: `audit_model` draws releases under a truth you name, finds what each tells about the target, averages, and puts
# the bounds beside it. The released variables may be of any number, shape and kind. Four models from four fields
# follow, each audited in a line or two; then what the answers mean, when they are refused, and how to check a model by
# simulation.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit
from scipy.stats import binom, laplace, norm

import adversary as adv
from adversary import models

released = models.noise.released
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
audited = {}

# %% [markdown]
# ## A census block
#
# A block's count of people with some trait is published. The target lives with a housemate, and people who live
# together often share the trait: none of the library's beliefs says this. `models.noise.released` makes the release, so
# that the audit knows its mechanism. Two people's records differ between the two hypotheses (`records`): no model says
# that by itself.
#
# All latents are discrete and few, so their states are enumerated: posteriors are exact, and only the average over
# simulated releases has an error. With two unknown people a posterior is four terms:

# %%
PRIOR, ALIKE, APART = 0.3, 0.8, 0.1


def housemates():
    """The target has the trait or not; the housemate too, depending on the target; their sum is published noisy."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=np.float64(PRIOR))
        mate = pm.Bernoulli("mate", p=pm.math.switch(target, np.float64(ALIKE), np.float64(APART)))
        released("noisy", adv.Geometric(epsilon=1.0), target + mate)
    return model


block = housemates()
audited["census block"] = adv.audit_model(block, {"in": 1, "mate": 1}, records=2, guarantee=adv.PureDP(1.0), rng=1)

tree = audited["census block"]
noisy = tree["release"]["noisy"].values
nobody, one, two = (np.exp(adv.Geometric(1.0).log_prob(noisy, count)) for count in range(3))
present = PRIOR * ((1 - ALIKE) * one + ALIKE * two)
exact = present / (present + (1 - PRIOR) * ((1 - APART) * nobody + APART * one))
print(tree["exact"].attrs["method"], f"; largest difference {np.abs(tree['exact']['posterior'] - exact).max():.1e}")
assert np.allclose(tree["exact"]["posterior"], exact, atol=1e-12)

# %% [markdown]
# ## Hospital visits over years
#
# A clinic publishes how many patients had a condition in each of three years: 3, 2 and 3, with noise. Everybody else's
# condition is known (two had it each year); the target's comes and goes, and how long it stays is not known. Was it
# there in the last year? The released variable is a vector over years, and one person can be counted in each of them:
# the loss of all three releases is composed.


# %%
def visits():
    """A hidden Markov chain with an unknown persistence."""
    with pm.Model(coords={"year": [2021, 2022, 2023]}) as model:
        stays = pm.Beta("stays", 4.0, 2.0)
        states = [pm.Bernoulli("ill[2021]", 0.3)]
        for year in (2022, 2023):
            states.append(pm.Bernoulli(f"ill[{year}]", pm.math.switch(states[-1], stays, 0.1)))
        pm.Deterministic("in", states[-1])
        released("noisy", adv.DiscreteGaussian(sigma=1.0), 2 + pm.math.stack(states), dims="year")
    return model


clinic = visits()
truth = {"ill[2021]": 1, "ill[2022]": 0, "ill[2023]": 1, "in": 1}
audited["hospital visits"] = adv.audit_model(clinic, truth, draws=300, rng=1, progress=False)
audited["hospital visits"]["estimate"].to_dataset()[["mcse", "ess", "k_hat"]].to_dataframe().describe().round(4)

# %% [markdown]
# The persistence is continuous: its draws from the prior are weighed by every release, the states summed out exactly
# for each draw. `k_hat` is the shape of the tail of these weights; up to 0.7 their averages can be trusted.
#
# ## A survey's mean and total
#
# A survey of ten incomes publishes their noisy mean and their noisy total, both real numbers, with Laplace and Gaussian
# noise. The target is known to earn 9 or 5 (in thousands); what others earn on average is not known. One record moves
# the total by up to 4 and the mean by up to 0.4: the noise is calibrated for that (`sensitivity`).
#
# With one continuous unknown every posterior can be checked by quadrature.


# %%
def survey():
    """Two releases of one sum, with unlike noises."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", 0.5)
        mean = pm.Normal("mean of the others", 5.0, 1.0)
        total = 9.0 * mean + 5.0 + 4.0 * target
        released("noisy mean", adv.Laplace.from_epsilon(0.5, sensitivity=0.4), total / 10.0)
        released("noisy total", adv.Gaussian.from_rho(2 / 9, sensitivity=4.0), total)
    return model


incomes = survey()
options = {"released": ["noisy mean", "noisy total"], "guarantee": {"as promised": adv.ApproximateDP(3.5, 1e-3)}}
truth = {"in": 1, "mean of the others": 5.5}
audited["survey"] = adv.audit_model(incomes, truth, **options, draws=300, rng=1, progress=False)

tree, x = audited["survey"], np.linspace(0.0, 10.0, 4001)
totals = [9.0 * x + 5.0 + 4.0 * target for target in (1, 0)]
seen = [tree["release"][name].values[:, None] for name in options["released"]]
laws = [laplace.pdf(seen[0], t / 10.0, 0.8) * norm.pdf(seen[1], t, 6.0) * norm.pdf(x, 5.0, 1.0) for t in totals]
expected = laws[0].sum(axis=1) / (laws[0] + laws[1]).sum(axis=1)
z = (tree["estimate"]["posterior"].values - expected) / tree["estimate"]["mcse"].values
print(f"{z.size} releases against quadrature, in standard errors: up to {np.abs(z).max():.1f}, spread {z.std():.2f}")
assert np.abs(z).max() < 4.5

# %% [markdown]
# ## Households
#
# A region publishes how many households received a benefit, and the target's own household is one of twelve. Take-up
# varies between regions by more than anybody knows, so that the others' take-up tells about the target's. All twelve
# records differ between the two hypotheses, and the bound is that for twelve.


# %%
def households():
    """Take-up is shared: a normal on the logit scale."""
    with pm.Model() as model:
        level = pm.Normal("level", -0.5, 1.0)
        target = pm.Bernoulli("in", pm.math.sigmoid(level))
        others = pm.Binomial("others", 11, pm.math.sigmoid(level))
        released("noisy", adv.DiscreteGaussian.from_rho(0.1), target + others)
    return model


region = households()
audited["households"] = adv.audit_model(region, {"in": 1, "others": 8}, records=12, draws=300, rng=1, progress=False)
tree, x, k = audited["households"], np.linspace(-8.0, 7.0, 3001)[:, None], np.arange(12)
law, others = adv.DiscreteGaussian.from_rho(0.1), binom.pmf(k, 11, expit(x)) * norm.pdf(x, -0.5, 1.0)
seen = tree["release"]["noisy"].values
chances = ((1, expit(x)), (0, expit(-x)))
parts = [np.exp(law.log_prob(seen[:, None], k + i)) @ (others * p).sum(axis=0) for i, p in chances]
z = (tree["estimate"]["posterior"].values - parts[0] / (parts[0] + parts[1])) / tree["estimate"]["mcse"].values
assert np.abs(z).max() < 4.5

# %% [markdown]
# ## Side by side
#
# The same columns whatever the model: the average posterior, how often the best guess is right, and the largest
# posterior that the model's own mechanisms allow at that prior.

# %%
figure, axis = plt.subplots()
for name, tree in audited.items():
    group = "exact" if "exact" in tree.children else "estimate"
    order = np.argsort(tree[group]["posterior"].values)
    share = np.cumsum(tree["release"]["weight"].values[order])
    axis.plot(tree[group]["posterior"].values[order], share, drawstyle="steps-post", label=name)
axis.set(xlabel="P(target in | release)", ylabel="share of releases", xlim=(0, 1))
axis.set_title("What a release tells, over the releases of one truth")
axis.legend(frameon=False)
plt.show()

table = {}
for name, tree in audited.items():
    risk, own = tree["risk"].to_dataset(), tree["bound"].sel(definition="privacy loss")
    table[name] = {
        "prior": risk["prior"].item(),
        "average posterior": risk["posterior_mean"].item(),
        "P(correct)": risk["prob_correct"].item(),
        "bound on the posterior": own["posterior"].sel(side="upper").item(),
        "bound": own["status"].item(),
        "releases": tree.attrs["draws"],
    }
    assert own["status"].item() == "holds"
pd.DataFrame(table).transpose()

# %% [markdown]
# The housemate's audit claims two records. What if we claim that one is all this adversary's hypotheses differ in?

# %%
claimed = adv.audit_model(block, {"in": 1, "mate": 1}, records=1, guarantee=adv.PureDP(1.0), rng=1)[
    "bound"
].to_dataset()
assert claimed["status"].sel(definition="pure DP") == "exceeded"
claimed[["k", "loss_bound", "outside", "status"]].to_pandas()

# %% [markdown]
# `exceeded`, not `violated`: the mechanism keeps its guarantee. The claim was wrong. A release about two people who are
# alike tells of one through the other, and a guarantee for one record does not cover that.
#
# ## What the truth leaves open
#
# A truth must say whether the target is in. Of the other latents it names as many as you like; those it leaves open are
# drawn from their law *given what it says*, side data observed in the model included.

# %%
known = adv.audit_model(clinic, {"in": 1}, draws=300, rng=2, progress=False)
early = known["release"]["noisy"].sel(year=2021)
share = float((known["release"]["weight"] * (early - 2)).sum())
print(f"target ill in 2021, given ill in 2023: {share:.2f} on average; without that: 0.30")
assert share > 0.35

# %% [markdown]
# ## One release, with ArviZ
#
# `models.fit` gives the posterior of one release as a DataTree that ArviZ opens.

# %%
seen = models.fit(clinic, {"noisy": [3, 2, 3]}, rng=7, progress=False)
az.plot_trace_dist(seen, var_names=["stays"])
plt.show()
az.summary(seen, var_names=["ill[2021]", "ill[2022]", "ill[2023]", "stays"], round_to=3)

# %% [markdown]
# ## No number rather than a wrong one
#
# This adversary is all but sure where the count lies, and the release is somewhere else. One draw of the prior in a
# hundred million would explain it, and no draw does. Such a release is called `unreliable`; averages are then missing,
# and bounds are given in which its posterior is anything between 0 and 1.
#
# Models that cannot be audited are refused with the reason and the remedy; here are five mistakes.


# %%
def certain():
    """Two places, one of which is next to impossible."""
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([1 - 1e-8, 1e-8]), np.array([0.0, 60.0]), sigma=1.0)
        released("noisy", adv.Gaussian(sigma=5.0), place + pm.Bernoulli("in", pm.math.sigmoid(place)))
    return model


def elsewhere(rng, size):
    """Releases of one's own making: one in ten from the other place."""
    return {"noisy": np.where(np.arange(size) % 10 == 0, 60.0, 0.0) + rng.normal(0, 5, size)}


trap = adv.audit_model(certain(), {"in": 1}, simulate=elsewhere, draws=50, rng=1, progress=False)
risk = trap["risk"].to_dataset()
print(risk["status"].item(), f"{risk['unreliable_mass'].item():.2f}", trap["risk"].attrs["reason"])
assert np.isnan(risk["posterior_mean"])
refused = {
    "truth is silent": (block, {"mate": 1}, {}),
    "no such latent": (block, {"in": 1, "maet": 1}, {}),
    "no such target": (block, {"present": 1}, {"target": "present"}),
    "no such release": (block, {"in": 1}, {"released": ["nosy"]}),
    "another dimension": (clinic, {"in": 1, "stays": [0.5, 0.5]}, {}),
}
for name, (one, truth, more) in refused.items():
    try:
        adv.audit_model(one, truth, draws=10, **more)
    except ValueError as error:
        print(f"{name}: {error}\n")
    else:
        raise AssertionError(name)
risk[["lower", "upper"]].to_dataframe().loc[["posterior_mean", "prob_correct"]].round(3)

# %% [markdown]
# ## Are the posteriors right?
#
# A model may be enumerated faultlessly and still be asked the wrong question. Simulation-based calibration looks at
# that: draw a truth and a release from the model, and see where the truth falls in its posterior. Over many simulations
# that place must be uniform.

# %%
right = models.calibrate(block, simulations=5000, rng=7, progress=False)
print("right:", models.uniformity(right)["overall"].item())
assert models.uniformity(right)["overall"] > 1e-3
az.plot_ecdf_pit(right, var_names=["in", "mate"])
plt.show()


def loner():
    """Nobody but the target is in question: the housemate is forgotten."""
    with pm.Model() as model:
        released("noisy", adv.Geometric(epsilon=1.0), pm.Bernoulli("in", p=np.float64(PRIOR)))
    return model


forgetful = models.Enumerated.of(loner(), ["in"])
wrong = models.calibrate(block, posterior=forgetful, variables=["in"], simulations=20_000, rng=7, progress=False)
print("forgets the housemate:", models.uniformity(wrong)["overall"].item())
assert models.uniformity(wrong)["overall"] < 1e-6

# %% [markdown]
# The lines are differences from a straight one; ArviZ's test finds nothing at its level of 0.01. `uniformity` gives
# p-values for all quantities, corrected for their number; take less than 1e-6 for wrong.
#
# ## Beside a plan
#
# Where the releases are those of a `Plan`, `audit` takes the model in the place of an `Adversary`, beside others: its
# released variables are then called as the plan's, `noisy[level]` or plain `noisy`.

# %%
plan = adv.Plan([adv.Level("block", adv.Geometric(epsilon=1.0))])
chance = PRIOR * ALIKE + (1 - PRIOR) * APART
readers = {
    "strangers": adv.Adversary(PRIOR, beliefs={"block": [1 - chance, chance]}),
    "housemates": block,
    "always alike": adv.Adversary(PRIOR, hypotheses=(0, 2)),
}
truths = {"both": {"block": 2, "in": 1}, "nobody": {"block": 0, "in": 0}}
compared = adv.audit(plan, readers, truths, records=2, progress=False)["risk"]["posterior_mean"]
assert compared.sel(truth="both").values.argsort().tolist() == [0, 1, 2]
assert compared.sel(truth="nobody").values.argsort().tolist() == [2, 1, 0]
compared.to_pandas().round(4)
