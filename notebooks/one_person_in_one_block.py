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

# %% tags=["hide-input"]
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
data = Path("data") if Path("data").is_dir() else Path("../data")
dare = adv.load_scenario(data / "dare_1940.toml")
audit = adv.audit(
    dare.plan, dare.adversary, dare.truth, guarantee=dare.guarantee, rng=1940
)
ax = adv.plot.before_after(audit)
adv.plot.headline(
    ax,
    "One noisy count moves a 50% suspicion to 52% on average",
    "The true count is 1; the guarantee (zCDP) allows 77.5%",
    shape="Five rows of intervals by prior, each inside its dashed bound.",
)
plt.show()

# %% [markdown]
# **In short.** A neighbour knows everybody in a district of the 1940 census but one person. The agency publishes one
# count with the noise that the 2020 Census gave a block:
#
# - A suspicion of 50% becomes 52% on average, and exceeds 71% in 1 of 20 releases. The guarantee allows at most 77.5%.
# - A suspicion of 1 in 864 becomes 1 in 709 on average: multiplied by more (1.22), and still small.
# - The study that we follow prints 57.0% for one release of a block inside a block group. The model it states gives
#   50.3%: its sampler forgot that a block has no more people than its block group.

# %% [markdown]
# ## A single block
#
# District 28-21 has 45 people, and one of them is alone in a cell of the table. A scenario file holds the plan, the
# adversaries (here five priors), the truth and the guarantee. The setting is that of Kazan and Reiter (2025),
# *Statistica Sinica* 35.
#
# One release first. If the agency publishes 2, an adversary at even odds moves to 57%:

# %%
from pathlib import Path

import numpy as np
import xarray as xr

import adversary as adv

data = Path("data") if Path("data").is_dir() else Path("../data")
dare = adv.load_scenario(data / "dare_1940.toml")
released = dare.plan.observe({"block": np.arange(-6, 9)})
table = {
    prior: adversary.posterior(dare.plan, released)["posterior"]
    for prior, adversary in dare.adversary.items()
}
table = xr.Dataset(table).assign_coords(release=np.arange(-6, 9))
table.sel(release=[1, 2, 4]).to_pandas().T.round(3)

# %% tags=["remove-cell"]
assert round(float(table["1/2"].sel(release=2)), 3) == 0.574

# %% [markdown]
# Which release will be published is chance, so `audit` averages over all of them, exactly. This is the figure on top.
# The bounds below it are for any adversary of the same prior: what the guarantee allows (`zCDP`), and the plan's own,
# sharper `privacy loss`.

# %%
audit = adv.audit(
    dare.plan, dare.adversary, dare.truth, guarantee=dare.guarantee, rng=1940
)
risk, bound = audit["risk"].to_dataset(), audit["bound"].to_dataset()
summary = risk[["posterior_mean", "ratio_mean", "prob_correct"]].to_pandas()
most = bound["posterior"].sel(side="upper").to_pandas()
summary.join(most[["zCDP", "privacy loss"]].add_prefix("at most, ")).round(4)

# %% tags=["remove-cell"]
half = dare.plan.privacy_loss().posterior(0.5)
assert round(float(summary.loc["1/2", "posterior_mean"]), 3) == 0.524
assert round(float(half.quantile(0.95, "in")), 2) == 0.71
assert 0.774 < most.loc["1/2", "zCDP"] < 0.775
assert round(1 / float(summary.loc["1/864", "posterior_mean"])) == 709

# %% [markdown]
# `prob_correct` is how often the adversary's best guess is right. Somebody at 1 in 5 or below nearly always keeps
# guessing "out", whatever is published.
#
# ## A block inside a block group
#
# District 39-14 is one of 28 in its county; the district plays the block, the county the block group. The county's
# count and the sum over the other 27 districts are published too, and each says something about the target.

# %%
granville = adv.load_scenario(data / "granville_1940.toml")
plan, adversary = granville.plan, granville.adversary
release = plan.observe(
    {"block": 2, "block group": 1}, sibling_sum={"block": -1}
)
posterior = adversary.posterior(plan, release)
print(f"P(target in | this release) = {float(posterior['posterior']):.3f}")
posterior["count"].sel(value=slice(0, 6)).to_pandas().round(3)

# %% [markdown]
# The same adversary as a PyMC model, with the release left free: one model serves prior prediction, conditioning and
# enumeration. The adversary's belief about the county has no upper end; the model needs one (60).

# %%
import arviz as az
import pymc as pm

from adversary import models

model = models.hierarchical_counts(plan, adversary, upper=60)
observed = adv.observed(release)
enumerated = adv.enumerate_posterior(model, observed)
print(f"enumeration of the model: {float(enumerated['posterior']):.3f}")

with pm.observe(model, observed):
    step = adv.literature.ExactGibbs()
    draws = pm.sample(
        250,
        tune=50,
        chains=4,
        cores=1,
        step=step,
        random_seed=1940,
        progressbar=False,
        quiet=True,
    )
columns = ["mean", "mcse_mean", "ess_bulk", "r_hat"]
az.summary(draws, var_names=["in"], round_to=3)[columns]

# %% tags=["remove-cell"]
exact = float(posterior["posterior"])
every = az.summary(draws, var_names=["in"], round_to="none")
sampled, error = float(every["mean"].iloc[0]), float(every["mcse_mean"].iloc[0])
assert abs(float(enumerated["posterior"]) - exact) < 1e-9
assert abs(sampled - exact) < 3 * error
assert round(exact, 3) == 0.503

# %% [markdown]
# Enumeration agrees to nine digits. Sampling agrees within its standard error (`mcse_mean`). Its step draws each latent
# from its exact full conditional, with the constraint *count in the block <= count in the block group* in each.
#
# ## The published sampler
#
# For this release the study prints 57.0%. Its Gibbs sampler updates the block's count without the constraint. No joint
# distribution has those two conditionals, but the chain still has a stationary distribution, which needs no simulation:

# %%
faulty = float(
    adv.literature.published_gibbs_probability(plan, adversary, observed)
)
print(f"the published chain, run for ever: {faulty:.3f} (printed: 0.570)")

# %% tags=["hide-input"]

totals = [1, 2, 3, 4, 10, 100]
truths = {str(x2): {"block": 1, "block group": x2} for x2 in totals}
hierarchy = adv.audit(plan, adversary, truths, rng=1940)
correct = hierarchy["risk"]["prob_correct"]
single = adv.audit(dare.plan, adv.Adversary(0.5, 0), {"block": 1})
alone = float(single["risk"]["prob_correct"])


def published(truth: str) -> float:
    """P(best guess is right) of the published chain, over the same releases."""
    table = hierarchy["release"].to_dataset().sel(truth=truth)
    table = table.isel(release=np.flatnonzero(table["weight"] > 1e-9))
    chance = adv.literature.published_gibbs_probability(
        plan, adversary, adv.observed(table)
    )
    return float(table["weight"] @ xr.DataArray(chance > 0.5, dims="release"))


chain = [published(truth) for truth in truths]
figure, ax = plt.subplots()
ax.plot(correct, "o-", color="C0")
ax.plot(chain, "o-", color="C1")
ax.axhline(alone, ls=(0, (5, 2)), color="#5F6B7A", lw=1.2, zorder=0)
side = {"textcoords": "offset points", "va": "center"}
ax.annotate("the stated model", (1, correct[1]), (12, -4), color="C0", **side)
ax.annotate("the published chain", (0, chain[0]), (0, 12), color="C1", **side)
ax.annotate(
    "the block alone",
    (4, alone),
    (0, -12),
    color="#5F6B7A",
    ha="center",
    **side,
)
ax.set_xticks(range(len(totals)), totals)
ax.set(xlabel="true count of such people in the county", ylim=(0.25, 0.65))
ax.set_ylabel("releases with a right best guess")
ax.yaxis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "Where nobody else is there, guesses are right in 32%, not 59%",
    "Releases with a right best guess, target in, by the true count in the "
    "county",
    shape="Two lines: the published chain is flat at 59%, the stated model "
    "rises from 32% to 59%.",
)
plt.show()

# %% tags=["remove-cell"]
assert round(float(correct[0]), 2) == 0.32
assert round(chain[0], 2) == 0.59
assert round(faulty, 3) == 0.578

# %% [markdown]
# The slip matters most where such people are rare. With the target the only one in the county, the constraint turns low
# county counts into evidence for "out", and the best guess is right far *less* often than without the county's table.
# With ten of them, the second level hardly matters.
#
# ## How much of this is the prior?
#
# The same data, the same noise, different beliefs about the county. A flat improper belief about nested counts is not
# neutral about the target. An adversary who is sure of a wrong county total does better or worse by luck of the truth.

# %%
from scipy.stats import poisson

beliefs = {
    "improper uniform": adv.Uniform(),
    "uniform up to 10": adv.Uniform(upper=10),
    "sure of 1 (right)": adv.Point(1),
    "sure of 25 (wrong)": adv.Point(25),
    "others Poisson(3)": adv.Others(poisson(3)),
}
adversaries = {
    name: adv.Adversary(0.5, 0, {"block group": belief})
    for name, belief in beliefs.items()
}
compared = adv.audit(
    plan,
    adversaries,
    {"block": 1, "block group": 1},
    guarantee=granville.guarantee,
    rng=1940,
)
by_belief = compared["risk"].to_dataset()[["posterior_mean", "prob_correct"]]
status = compared["bound"]["status"].sel(definition="zCDP").to_pandas()
by_belief.to_pandas().assign(zCDP=status).round(3)

# %% [markdown]
# Every status is `holds`: whatever this adversary believes, releases go beyond the bound less often than the guarantee
# allows. Claim nine tenths of what the plan really spends, and the audit says `violated`:

# %%
claimed = adv.ZeroConcentratedDP(0.9 * granville.guarantee["zCDP"].rho)
caught = adv.audit(plan, adversary, granville.truth, guarantee=claimed)
print(caught["bound"]["status"].sel(definition="zCDP").item())

# %% tags=["remove-cell"]
assert (status == "holds").all()
assert caught["bound"]["status"].sel(definition="zCDP") == "violated"

# %% [markdown]
# ## What this does not say
#
# These are averages for one adversary at a time. Whether such an adversary is likely is for you to judge;
# [What if the adversary is wrong?](what_if_the_adversary_is_wrong.ipynb) varies the beliefs, and
# [What epsilon means](what_epsilon_means.ipynb) is about the bounds, which ask for no belief.
