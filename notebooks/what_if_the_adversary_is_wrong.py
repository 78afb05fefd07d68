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
# # What if the adversary is wrong?

# %% tags=["hide-input"]
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import preliz as pz

import adversary as adv

adv.plot.style()
plt.rcParams["savefig.bbox"] = "standard"  # PreliZ crops figures to their axes
data = Path("data") if Path("data").is_dir() else Path("../data")
granville = adv.load_scenario(data / "granville_1940.toml")
plan, block = granville.plan, granville.plan.levels[0].mechanism
elicited = pz.NegativeBinomial()
pz.maxent(elicited, 0, 10, 0.9, plot=False)
beliefs = {
    "flat": adv.Uniform(),
    "up to 10": adv.Uniform(upper=10),
    "gamma-Poisson": adv.GammaPoisson(shape=2.0, rate=1.0),
    "each sibling": adv.Each(pz.Poisson(mu=0.1)),
    "elicited": adv.Others(elicited),
    "sure of 1": adv.Point(1),
    "sure of 25": adv.Point(25),
}
base = adv.Adversary(0.5, 0, {"block group": beliefs["gamma-Poisson"]})
ends = adv.sensitivity.one_at_a_time(
    plan,
    base,
    {"block": 1, "block group": 1},
    prior=[0.1, 0.3, 0.5, 0.7, 0.9],
    rho=[0.1, 0.25, 0.6, 1.4],
    siblings=[3, 9, 27, 81],
    beliefs={name: {"block group": one} for name, one in beliefs.items()},
    progress=False,
)
axes = adv.plot.tornado(ends, "difference_mean")
adv.plot.headline(
    axes,
    "With the target in, beliefs about others matter most; with it out, "
    "budget and beliefs",
    "Expected change of a 50% suspicion, each input over its range, the "
    "others as they are",
    shape="Two panels of bars, one for each truth, on one scale.",
)
plt.show()

# %% [markdown]
# **In short.** What an adversary learns depends on what they believed before, about the target and about everybody
# else. Nobody knows these beliefs, so we let them vary, for one district of the 1940 census under the noise of 2020:
#
# - With the target in, beliefs about *others* move the expected difference by 16 points; the budget, over a factor of
#   14, by 5, and the prior by as much. With the target out, beliefs and budget matter about equally.
# - A belief that helps under one truth hurts under the other: sure of a wrong total, an adversary guesses right in 73%
#   of releases if the target is in, and in 43% if not.
# - The guarantee's bounds hold for all of them, and are the only part that asks for no belief.

# %% [markdown]
# ## One district, seven adversaries
#
# The district is 39-14 of [One person in one block](one_person_in_one_block.ipynb). It plays the block, its county with
# 27 other districts the block group. All adversaries know the others in the district and start at even odds about the
# target. They differ in what they believe of the county. Nobody else there has the trait, so the true count is 1 with
# the target in, and 0 with the target out.

# %%
from pathlib import Path

import numpy as np
import pandas as pd
import preliz as pz

import adversary as adv

data = Path("data") if Path("data").is_dir() else Path("../data")
granville = adv.load_scenario(data / "granville_1940.toml")
plan, block = granville.plan, granville.plan.levels[0].mechanism
truths = {
    "in": {"block": 1, "block group": 1},
    "out": {"block": 0, "block group": 0},
}
elicited = pz.NegativeBinomial()
pz.maxent(elicited, 0, 10, 0.9, plot=False)  # "0 to 10, nine in ten", see below
beliefs = {
    "flat": adv.Uniform(),  # any total, equally likely; improper
    "up to 10": adv.Uniform(upper=10),
    "gamma-Poisson": adv.GammaPoisson(shape=2.0, rate=1.0),  # unknown rate
    "each sibling": adv.Each(pz.Poisson(mu=0.1)),  # 27 districts
    "elicited": adv.Others(elicited),
    "sure of 1": adv.Point(1),  # right, with the target in
    "sure of 25": adv.Point(25),  # wrong
}
adversaries = {
    name: adv.Adversary(0.5, known=0, beliefs={"block group": belief})
    for name, belief in beliefs.items()
}
audit = adv.audit(
    plan,
    adversaries,
    truths,
    guarantee=granville.guarantee,
    rng=1940,
    progress=False,
)
correct = audit["risk"]["prob_correct"].to_pandas().T[["in", "out"]]
correct.assign(average=correct.mean(axis=1)).round(2)

# %% tags=["hide-input"]
just_block = adv.Plan([adv.Level("block", block)])
alone = adv.audit(
    just_block, adv.Adversary(0.5), {"in": {"block": 1}, "out": {"block": 0}}
)["risk"]["prob_correct"]
figure, ax = plt.subplots(figsize=(6.4, 4.8))
ax.plot([0, 1], [1, 0], ls=(0, (5, 2)), color="#5F6B7A", lw=1.2, zorder=0)
ax.plot(correct["in"], correct["out"], "o", color="C0")
ax.plot(*alone.values, "o", color="C1")
shifts = {
    "each sibling": (0, 9),
    "elicited": (9, 1),
    "flat": (9, -3),
    "up to 10": (-9, -9),
}
for name in beliefs:
    shift = shifts.get(name, (9, 2))
    side = "right" if shift[0] < 0 else "left" if shift[0] else "center"
    ax.annotate(
        name,
        correct.loc[name],
        shift,
        textcoords="offset points",
        ha=side,
        color="C0",
    )
ax.annotate(
    "the block's count alone",
    alone.values,
    (-9, 9),
    textcoords="offset points",
    color="C1",
    ha="right",
)
ax.annotate(
    "a coin",
    (0.6, 0.4),
    (-6, -12),
    textcoords="offset points",
    color="#5F6B7A",
    ha="right",
)
ax.set(xlim=(0.15, 0.95), ylim=(0.3, 1))
ax.set_xlabel("right guesses, target in")
ax.set_ylabel("right guesses, target out")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    f"Beliefs differ by {100 * np.ptp(correct['in']):.0f} points under one "
    f"truth, by {100 * np.ptp(correct.mean(axis=1)):.0f} over both",
    "Share of releases with a right best guess; seven beliefs about the county",
    shape="Dots from the upper left to the lower right, all above the dashed "
    "diagonal.",
)
plt.show()

# %% tags=["remove-cell"]
assert (audit["bound"]["status"] == "holds").all()
average = correct.mean(axis=1)
assert correct["in"].max() - correct["in"].min() > 0.45
assert average.max() - average.min() < 0.05
assert average.min() > 0.58
assert correct.loc["sure of 25"].round(2).tolist() == [0.73, 0.43]

# %% [markdown]
# The numbers are how often the best guess is right. On the dashed line are those who toss a coin, fair or not; distance
# from it is what the release adds, and there the adversaries are close together. One truth alone would make the
# worst-informed adversary look like the cleverest, so everything here is shown under both.
#
# ## A truth that contradicts
#
# A belief can give the truth probability zero. `audit` refuses such an adversary, because no posterior is defined once
# a release rules the belief out. `Point` is the exception: an adversary certain of one total, possibly wrong, whom
# noise can never contradict.

# %%
try:
    adv.audit(plan, adversaries["up to 10"], {"block": 1, "block group": 101})
except ValueError as error:
    print(error)

# %% [markdown]
# In a sweep a contradiction is not an error but a missing value:

# %%
limits = {
    f"at most {top}": {"block group": adv.Uniform(upper=top)}
    for top in (2, 3, 10)
}
limits["sure of 25"] = {"block group": adv.Point(25)}
crowded = {"block": 1, "block group": 3}
swept = adv.sensitivity.sweep(
    plan, adversaries["flat"], crowded, beliefs=limits, progress=False
)
swept["posterior_mean"].to_pandas().round(3)

# %% tags=["remove-cell"]
possible = swept["possible"].sel(truth="in").values.tolist()
assert possible == [False, True, True, True]

# %% [markdown]
# ## Which input matters most?
#
# Each input over its range, the others as they are: the figure on top. The prior moves the expected posterior most, but
# mostly because it is where the posterior starts. The expected *difference* from it shows what the release does.

# %%
base, counts = adversaries["gamma-Poisson"], truths["in"]
ends = adv.sensitivity.one_at_a_time(
    plan,
    base,
    counts,
    prior=[0.1, 0.3, 0.5, 0.7, 0.9],
    rho=[0.1, 0.25, 0.6, 1.4],
    siblings=[3, 9, 27, 81],
    beliefs={name: {"block group": one} for name, one in beliefs.items()},
    progress=False,
)
difference = ends["difference_mean"]
swing = difference.sel(end="high") - difference.sel(end="low")
(100 * swing).rename("points").to_pandas().round(0)

# %% tags=["remove-cell"]
by_input = swing.sel(truth="in")
assert round(100 * float(by_input.sel(input="beliefs"))) == 16
assert [
    round(100 * float(by_input.sel(input=one))) for one in ("rho", "prior")
] == [5, 5]
assert (
    by_input.sel(input="beliefs")
    > 2.5 * by_input.sel(input=["prior", "rho"]).max()
)
assert swing.sel(truth="out", input="beliefs") > 0.8 * swing.sel(
    truth="out", input="rho"
)

# %% [markdown]
# The number of siblings hardly matters. A risk that was worked out for a single belief says little by itself.
#
# Averages hide how far single releases go. The fan shows 9 of 10 releases, and the middle half, along the budget.

# %% tags=["hide-input"]
budgets = np.geomspace(0.05, 5.0, 13)
by_rho = adv.sensitivity.sweep(
    plan, base, counts, rho=budgets, progress=False, coarse=True
)
adv.plot.fan(by_rho, "rho")
plt.show()

# %% [markdown]
# Along priors the ratio of posterior to prior says more: the smaller the prior, the larger the ratio, up to a limit
# that the noise sets. For the adversary who is sure of the total it is exp(2 rho (1 + 1/27)), with the block's rho: the
# other 27 districts tell a 27th as much.

# %%
priors = [0.001, 0.01, 0.1, 0.5]
sure = adversaries["sure of 1"]
by_prior = adv.sensitivity.sweep(
    plan, sure, counts, prior=priors, progress=False
)
ratio = by_prior["ratio_mean"].sel(truth="in").to_pandas()
print(f"limit: {np.exp(2 * block.rho() * 28 / 27):.3f}")
ratio.round(3).to_frame("expected ratio")

# %% tags=["remove-cell"]
limit = np.exp(2 * block.rho() * 28 / 27)
assert 0.999 * limit < ratio.iloc[0] < limit

# %% [markdown]
# ## Beliefs from people: PreliZ
#
# The elicited adversary said: "between 0 and 10 others in the county, nine chances in ten". Many distributions fit that
# sentence; PreliZ's `maxent` picks the one of a family that says least besides. Any frozen discrete PreliZ distribution
# is a belief, as it is.

# %%
rare = pz.Poisson()
pz.maxent(rare, 0, 10, 0.9, plot=False)
families = {
    "negative binomial": elicited,
    "Poisson": rare,
    "uniform on 0 to 10": pz.DiscreteUniform(0, 10),
}
experts = {
    name: adv.Adversary(0.5, 0, {"block group": adv.Others(family)})
    for name, family in families.items()
}
elicitation = adv.audit(plan, experts, truths, progress=False)
elicitation["risk"]["posterior_mean"].to_pandas().T.round(2)

# %% tags=["hide-input"]
figure, ax = plt.subplots()
people = np.arange(0, 17)
for i, (name, family) in enumerate(families.items()):
    chance = family.pdf(people)
    ax.plot(people, chance, "o-", color=f"C{i}", ms=4)
    place = [(0.4, 0.125), (9, 0.115), (10.4, 0.088)][i]
    ax.annotate(name, place, color=f"C{i}")
ax.set(xticks=range(0, 17, 2), ylim=(0, None))
ax.set_xlabel("others with the trait in the county")
ax.set_ylabel("probability")
ax.yaxis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "One sentence gives three distributions, and answers 13 points apart",
    "The sentence: between 0 and 10, with nine chances in ten",
    shape="Three curves over counts: skewed, bell-shaped and flat.",
)
plt.show()

# %% tags=["remove-cell"]
means = elicitation["risk"]["posterior_mean"]
spread = means.max("adversary") - means.min("adversary")
assert rare.pdf(0) < 0.001 < elicited.pdf(0)
assert means.sel(truth="in").idxmin("adversary") == "Poisson"
assert [
    round(100 * float(spread.sel(truth=side))) for side in ("in", "out")
] == [13, 11]

# %% [markdown]
# The sentence does not settle the answer: the three end up to 13 points apart. The Poisson distribution puts nearly
# nothing on a county without others, which is the truth; its adversary takes the low county counts for evidence that
# the target is not there either.
#
# ## Power-scaling: does the prior matter for *this* release?
#
# Averages are for those who publish. Whoever holds one release asks whether its posterior depends on the prior. ArviZ
# answers from draws: raise prior or likelihood to a power near one, and see whether the posterior moves. It needs the
# log densities of both, which `models.fit` stores.
#
# The gamma-Poisson adversary as a PyMC model has the unknown rate as a continuous latent. Its discrete latents are
# summed out, the rate is sampled with nutpie, and the discrete ones are drawn back. In the *quiet* release the county
# shows few people, as this adversary expects; in the *loud* one 14, where the prior rate has mean 2.

# %%
from adversary import models

model = models.hierarchical_counts(plan, base, rates=True)
releases = {
    "quiet": plan.observe(
        {"block": 2, "block group": 1}, sibling_sum={"block": -1}
    ),
    "loud": plan.observe(
        {"block": 2, "block group": 14}, sibling_sum={"block": 16}
    ),
}
fits = {
    name: models.fit(
        model,
        adv.observed(release),
        sampling=adv.Sampling(draws=3000),
        rng=1940,
        progress=False,
    )
    for name, release in releases.items()
}
rows = {
    name: {
        "sampled": float(fits[name]["estimate"]["posterior"]),
        "standard error": float(fits[name]["estimate"]["mcse"]),
        "exact": float(base.posterior(plan, release)["posterior"]),
    }
    for name, release in releases.items()
}
pd.DataFrame(rows).T.round(4)

# %%
import logging

import arviz as az

logging.getLogger("arviz_stats").setLevel("ERROR")  # said in its table too
scaled = {
    name: az.psense_summary(fit, prior_var_names=["rate[block group]"])
    for name, fit in fits.items()
}
pd.DataFrame({name: one.loc["in"] for name, one in scaled.items()}).T

# %% tags=["remove-cell"]
for one in rows.values():
    assert abs(one["sampled"] - one["exact"]) < 4 * one["standard error"]
assert (
    scaled["quiet"].loc["in", "prior"]
    < 0.05
    < scaled["loud"].loc["in", "prior"]
)

# %% [markdown]
# The exact engine integrates the rate out (a negative binomial) and agrees within the standard errors of the draws.
# After the quiet release the conclusion about the target is insensitive to the prior on the rate: `prior` is below the
# usual threshold of 0.05. After the loud one it is above, and ArviZ reports a conflict of prior and data: an adversary
# who expects few others takes a full county partly as a sign that the target is one of them.

# %% tags=["hide-input"]
figure, ax = plt.subplots()
quiet, loud = (
    float(fits[name]["posterior"]["rate[block group]"].mean())
    for name in ("quiet", "loud")
)
for i, (name, fit) in enumerate(fits.items()):
    rate = fit["posterior"]["rate[block group]"].values.ravel()
    ax.hist(
        rate,
        bins=np.linspace(0, 16, 65),
        density=True,
        histtype="step",
        color=f"C{i}",
        lw=2,
    )
    ax.annotate(
        f"after the {name} release",
        [(2.0, 0.4), (8.2, 0.17)][i],
        color=f"C{i}",
    )
grid = np.linspace(0.01, 16, 300)
ax.plot(grid, pz.Gamma(2.0, 1.0).pdf(grid), color="#1F2933", lw=1.2)
ax.annotate("before", (3.3, 0.12))
ax.set_xlabel("rate: expected number of others in the county")
ax.set_yticks([])
ax.spines["left"].set_visible(False)
adv.plot.headline(
    ax,
    f"The loud release takes the expected rate from 2 to {loud:.1f}, the "
    f"quiet one to {quiet:.1f}",
    "Draws of the unknown rate after two releases",
    shape="Two histograms; one lies near the prior curve, the other at three "
    "times its mean.",
)
plt.show()

# %% [markdown]
# Power-scaling stays near one prior; how far different adversaries are apart it does not say. Exact posteriors of the
# two releases do:

# %%
ends = {
    name: [
        float(who.posterior(plan, one)["posterior"])
        for one in releases.values()
    ]
    for name, who in adversaries.items()
}
pd.DataFrame(ends, index=list(releases)).T.round(2)

# %% tags=["remove-cell"]
powers = {a: adv.GammaPoisson(1 + a, a) for a in (0.5, 0.8, 1.0, 1.25, 2.0)}
moved = {
    name: np.ptp(
        [
            float(
                adv.Adversary(0.5, 0, {"block group": one}).posterior(
                    plan, release
                )["posterior"]
            )
            for one in powers.values()
        ]
    )
    for name, release in releases.items()
}
assert moved["loud"] > 5 * moved["quiet"]

# %% [markdown]
# ## Many releases
#
# One release leaves the prior nearly where it was. What do many do? `risk.sequential` reads releases of one count one
# after the other; every posterior is the prior of the next. The factors depend on the order, their product does not.

# %% tags=["hide-input"]
rng, length = np.random.default_rng(39), 60
last = {}
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.6), sharey=True)
for ax, (side, count) in zip(axes, (("in", 1), ("out", 0)), strict=True):
    numbers = block.sample(count, rng, length)
    for i, prior in enumerate((0.02, 0.1, 0.5)):
        run = adv.risk.sequential(
            numbers, block, known=0, prior=prior, truth=side
        )
        path = np.r_[prior, run["posterior"].values]
        ax.plot(range(length + 1), path, color=f"C{i}")
        if side == "out":
            ax.annotate(
                f"{prior:.0%}",
                (0, prior),
                (-5, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                color=f"C{i}",
            )
        last[side, prior] = float(path[-1])
    ax.set(ylim=(0, 1), xlim=(0, length), xlabel="releases read")
    ax.set_title(f"target {side}")
    ax.yaxis.set_major_formatter(lambda p, _: f"{p:.0%}")
axes[0].set_ylabel("probability that the target is in")
adv.plot.headline(
    axes,
    "Sixty releases largely settle what one leaves open",
    "Releases of one count, read one after the other, from three priors",
    shape="Two panels; three curves rise to one, or fall to zero.",
)
plt.show()

# %% tags=["remove-cell"]
there, back = (
    adv.risk.sequential(order, block, known=0, prior=0.1)
    for order in ([3, 0], [0, 3])
)
np.testing.assert_allclose(there["factor"], [1.543226, 0.918934], atol=1e-6)
np.testing.assert_allclose(back["factor"], [0.914173, 1.551262], atol=1e-6)
assert np.isclose(there["ratio"][-1], back["ratio"][-1])
five = [
    float(adv.risk.sequential([1] * 5, block, 0, p)["posterior_mean"])
    for p in (0.1, 0.5)
]
np.testing.assert_allclose(five, [0.192711, 0.601372], atol=1e-6)
assert all(
    (p > 0.8) if side == "in" else (p < 0.1) for (side, _), p in last.items()
)

# %%
averages = {
    count: [
        float(adv.risk.sequential([1] * count, block, 0, p)["posterior_mean"])
        for p in (0.1, 0.5)
    ]
    for count in (1, 5, 20, 60)
}
pd.DataFrame(averages, index=["from 10%", "from 50%"]).round(2)

# %% [markdown]
# The table has the average after so many releases, with the target in.
#
# ## What this does not say
#
# Which of the beliefs is the right one. Show both truths; take the bounds, not the averages, where nothing is known
# about the adversary.
