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
# # One person in one block
#
# A neighbour knows everybody in a block but one person. The statistical agency publishes a noisy count. What has the
# neighbour learned? We answer for two enumeration districts of the 1940 US census under the noise of the 2020 Census,
# exactly, then with PyMC, and see how much of the answer is the neighbour's own prior.
#
# The setting is that of Kazan and Reiter (2025), *Statistica Sinica* 35; so are most of the numbers, and where ours
# differ from theirs we show both and say why.

# %%
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr
from IPython.display import display
from scipy.stats import poisson

import adversary as adv
from adversary import models

data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## A single block
#
# District 28-21: 45 people, and one of them alone in a cell of the table. A scenario file holds the plan, the
# adversaries (five priors), the truth and the guarantee. One release first: if the agency publishes 2, an adversary at
# even odds moves to 57.4 %.

# %%
dare = adv.load_scenario(data / "dare_1940.toml")
block = dare.plan.levels[0].mechanism
print(dare.description)
print(f"noise: sigma^2 = {float(block.sigma2):.4f}, P(no error) = {np.exp(block.log_prob(0, 0)):.4f}")
released = np.arange(-6, 9)
table = xr.concat(
    [adversary.posterior(dare.plan, dare.plan.observe({"block": released})) for adversary in dare.adversary.values()],
    xr.DataArray(list(dare.adversary), dims="prior", name="prior"),
).assign_coords(release=released)
display(table["posterior"].sel(release=[1, 2, 4]).to_pandas().round(3))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
for prior in table["prior"].values:
    left.plot(released, table["posterior"].sel(prior=prior), marker=".", label=f"prior {prior}")
    right.plot(released, table["ratio"].sel(prior=prior), marker=".", label=f"prior {prior}")
left.set(xlabel="released count", ylabel="P(target in | release)", title="A larger count raises the posterior")
right.set(xlabel="released count", ylabel="posterior / prior", title="The smaller the prior, the larger the ratio")
left.legend(frameon=False)
plt.show()

# %% [markdown]
# Which release will be published is chance, so we average over all of them, exactly: 43 values carry all but 1e-18 of
# the mass. The second table has what the guarantee allows; `privacy loss` is the plan's own, sharper line.

# %%
audit = adv.audit(dare.plan, dare.adversary, dare.truth, guarantee=dare.guarantee, rng=1940)
display(audit["risk"].to_dataset()[["posterior_mean", "ratio_mean", "prob_correct"]].to_pandas().round(4))
audit["bound"]["ratio"].sel(side="upper").to_pandas().round(2)

# %% [markdown]
# ## A block inside a block group
#
# District 39-14 is one of 28 in its county; the district plays the block, the county the block group. The county's
# count and the sum over the other 27 districts are published too, and each says something about the target.
#
# `models.hierarchical_counts` writes the same adversary as a PyMC model with the release left free, so that one model
# serves prior prediction, conditioning and enumeration. The improper belief about the county needs an upper end here.

# %%
granville = adv.load_scenario(data / "granville_1940.toml")
plan, adversary = granville.plan, granville.adversary
release = plan.observe({"block": 2, "block group": 1}, sibling_sum={"block": -1})
posterior = adversary.posterior(plan, release)
print(f"P(target in | this release) = {float(posterior['posterior']):.7f}")
display(posterior["count"].sel(value=slice(0, 6)).to_pandas().round(4))

model = models.hierarchical_counts(plan, adversary, upper=60)
observed = adv.observed(release)
enumerated = adv.enumerate_posterior(model, observed)
print(f"enumeration of the model: {float(enumerated['posterior']):.7f}")

# %% [markdown]
# Sampling gives the same, with an error. The step draws every latent from its exact full conditional, with the
# constraint *count in the block <= count in the block group* in each. Read the diagnostics before the mean.

# %%
with pm.observe(model, observed):
    step = adv.literature.ExactGibbs()
    draws = pm.sample(250, tune=50, chains=4, cores=1, step=step, random_seed=1940, progressbar=False, quiet=True)
display(az.summary(draws, var_names=["in"], round_to=4))
sampled = float(draws["posterior"]["in"].mean())
error = float(az.summary(draws, var_names=["in"], round_to="none")["mcse_mean"].iloc[0])
exact = float(posterior["posterior"])
print(f"exact {exact:.5f}, sampled {sampled:.5f} +- {error:.5f} ({(sampled - exact) / error:+.1f} standard errors)")
az.plot_rank(draws, var_names=["in"])
plt.show()

# %% [markdown]
# ## What the published sampler got wrong
#
# For this release the study prints 57.0 %. The model it states gives 50.3 %. Its Gibbs sampler updates the block's
# count without asking that it be at most the block group's. No joint law has those two conditionals, but the chain
# still has a stationary law, which needs no simulation:

# %%
faulty = float(adv.literature.published_gibbs_law(plan, adversary, observed))
print(f"published chain {faulty:.4f} (printed: 0.570), the stated model {exact:.4f}")

# %% [markdown]
# The slip is not small where it counts. With one such person in the county, the constraint makes low county counts
# evidence for "out", and the adversary's best guess is right far *less* often than without the county's table. Far from
# zero the second level hardly matters.

# %%
totals = [1, 2, 3, 4, 10, 100]
truths = {str(x2): {"block": 1, "block group": x2} for x2 in totals}
hierarchy = adv.audit(plan, adversary, truths, rng=1940)
correct = hierarchy["risk"]["prob_correct"]
alone = float(adv.audit(dare.plan, adv.Adversary(0.5, 0), {"block": 1})["risk"]["prob_correct"])


def published(truth: str) -> float:
    """P(best guess is right) if the published chain were run for ever, over the same releases."""
    table = hierarchy["release"].to_dataset().sel(truth=truth)
    table = table.isel(release=np.flatnonzero(table["weight"] > 1e-9))
    chance = adv.literature.published_gibbs_law(plan, adversary, adv.observed(table))
    return float(table["weight"] @ xr.DataArray(chance > 0.5, dims="release"))


chain = [published(truth) for truth in truths]
figure, axis = plt.subplots()
axis.plot(correct, "o", label="the stated model, exact")
axis.plot(chain, "x", color="tab:red", label="the published chain")
axis.axhline(alone, linestyle="--", color="0.5", zorder=0, label="block alone")
axis.set(xticks=range(len(totals)), xticklabels=totals, xlabel="true count in the county")
axis.set(ylabel="P(best guess is right)", title="With few such people in the county, the county's table misleads")
axis.legend(frameon=False, loc="lower right")
plt.show()
correct.to_dataset(name="stated model").assign(published_chain=("truth", chain)).to_pandas().round(6)

# %% [markdown]
# ## How much of this is the prior?
#
# The same data, the same noise, different beliefs about the county. A flat improper belief on nested counts is not
# neutral about the target; an adversary sure of the wrong county total does better or worse by luck of the truth.
#
# Every status is `holds`: whatever this adversary believes, a single release goes beyond the bound less often than the
# guarantee allows. Change the guarantee to nine tenths of what the plan spends, and the audit says `violated`.

# %%
beliefs = {
    "improper uniform": adv.Uniform(),
    "uniform up to 10": adv.Uniform(upper=10),
    "sure of 1 (right)": adv.Point(1),
    "sure of 25 (wrong)": adv.Point(25),
    "others Poisson(3)": adv.Others(poisson(3)),
}
adversaries = {name: adv.Adversary(0.5, 0, {"block group": belief}) for name, belief in beliefs.items()}
sensitivity = adv.audit(plan, adversaries, {"block": 1, "block group": 1}, guarantee=granville.guarantee, rng=1940)
summary = sensitivity["risk"].to_dataset()[["posterior_mean", "prob_correct", "tie_mass"]].to_pandas()
summary["status of zCDP"] = sensitivity["bound"]["status"].sel(definition="zCDP").to_pandas()
display(summary.round(4))

spent = granville.guarantee["zCDP"].rho
caught = adv.audit(plan, adversary, granville.truth, guarantee=adv.ZeroConcentratedDP(0.9 * spent))
print("nine tenths of the budget:", str(caught["bound"]["status"].sel(definition="zCDP").values))
