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
# # What an exact total costs

# %% tags=["hide-input"]
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
data = Path("data") if Path("data").is_dir() else Path("../data")
scenario = adv.load_scenario(data / "districts_1940_total.toml")
tree = adv.audit(
    scenario.plan,
    scenario.adversary,
    scenario.truth,
    guarantee=scenario.guarantee,
    invariants=scenario.margins,
    rng=1,
    progress=False,
)
risk = tree["risk"].to_dataset()
figure, ax = plt.subplots(figsize=(7.2, 3.4))
names = [str(name) for name in risk["adversary"].values]
for y, name in zip(range(len(names))[::-1], names, strict=True):
    one = risk.sel(adversary=name)
    given, after = float(one["prior"]), float(one["posterior_mean"])
    ax.plot([0.5, given], [y, y], color="C1", lw=2, zorder=1)
    ax.plot([given, after], [y, y], color="C0", lw=2, zorder=1)
    ax.plot(0.5, y, "|", color="#1F2933", ms=14, mew=1.4)
    ax.plot(given, y, "o", color="C1", zorder=3)
    ax.plot(
        after,
        y,
        "o",
        color="C0",
        mfc="none" if after == given else "C0",
        ms=8,
        zorder=2,
    )
    text = f"{after:.0%}"
    ax.annotate(
        text,
        (after, y),
        (9, 0),
        textcoords="offset points",
        va="center",
        color="C0",
    )
    if name == names[-1]:
        ax.annotate(
            "given the total",
            (0.78, y),
            (0, 7),
            textcoords="offset points",
            color="C1",
        )
    if name == names[0]:
        ax.annotate(
            "before", (0.5, y), (0, 11), textcoords="offset points", ha="center"
        )
        ax.annotate(
            "after the noisy cells, on average",
            (after, y),
            (0, 11),
            textcoords="offset points",
            color="C0",
        )
ax.set_yticks(range(len(names))[::-1], names)
ax.set(xlim=(0.45, 1.06), ylim=(-0.6, len(names) - 0.2))
ax.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
ax.set_xlabel("probability that the person is in the district")
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
adv.plot.in_percent(ax.xaxis)
adv.plot.headline(
    ax,
    "Whoever counted everybody else goes from 50% to 100% before any noise",
    "A district of 45 people, its total exact, its cells with noise of "
    "epsilon = 0.5",
    shape="Four rows; only the last moves, by the exact total alone.",
)
plt.show()

# %% [markdown]
# **In short.** Some numbers are always published as they are: the population of a state, how many people live in a
# district. Beside them stand noisy tables with a privacy guarantee. Three things change once a total is exact:
#
# - The total itself informs adversaries, which no privacy parameter limits: counting everybody else, 50% becomes 100%.
# - The guarantee for one record is no bound any more: data sets that do not fit the total are ruled out, so two records
#   have to change together. In the district 52% of releases pass it. Use `guarantee.given(margins)`.
# - Noise can be made for what remains uncertain: for a 2 x 2 table with exact margins it is much smaller.
#
# The theory is that of Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics".

# %% [markdown]
# ## Three people, two of whom have the trait
#
# Take every data set of three people, each with or without a trait, and publish how many have it: two. Three data
# sets are left. No two of them differ in a single record: if somebody is to lose the trait, somebody else must gain it.

# %%
import itertools

import numpy as np
import pandas as pd

import adversary as adv

everything = list(itertools.product([0, 1], repeat=3))
left = adv.invariants.conforming(everything, sum, 2)
print("left:", left)
print("records that change together:", adv.invariants.semi_adjacency_of(left))

# %% [markdown]
# Each person answers by randomised response with epsilon = 1, and the answers are (0, 1, 1). An adversary who holds the
# three data sets equally likely ends at 79% for the right one. Had the odds been held within a factor e, as the
# guarantee for one record states, the adversary could not have passed 58%.

# %%
literature = adv.literature
response = adv.RandomizedResponse(epsilon=1.0)
flat = literature.frameworks.JointDistribution.listed(
    everything, np.full(8, 1 / 8)
)
given = flat.given(lambda world: sum(world) == 2)
likelihood = literature.record_log_likelihood(response, [0, 1, 1], given)
after = given.after(likelihood)
right = after.mass({"record 0": 0, "record 1": 1, "record 2": 1})
print(f"(0, 1, 1): {right:.1%}; a factor e would allow {np.e / (np.e + 2):.1%}")

# %% tags=["remove-cell"]
assert adv.invariants.semi_adjacency_of(left) == 2
assert abs(right - 1 / (1 + 2 * np.exp(-2))) < 1e-12
assert right > np.e / (np.e + 2)

# %% [markdown]
# The guarantee that holds between data sets two records apart is `guarantee.group(2)`; `guarantee.given` looks the
# number up. For pure DP that is better than "2 epsilon": the same largest loss, but most releases reveal less. And if
# the total is three, everybody has the trait: one data set is left, and none of them changes into another. That is not
# "no loss", it is full disclosure.

# %%
import warnings

guarantee, Margins = adv.PureDP(1.0), adv.invariants.Margins
beside = guarantee.given(Margins([[1, 2]]))
for name, one in {"two records": beside, "2 epsilon": adv.PureDP(2.0)}.items():
    print(f"{name}: best guess right in {(1 + one.advantage) / 2:.1%}")
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    print("total of three:", guarantee.given(Margins([[0, 3]])))

# %% tags=["hide-input"]
adv.plot.trade_off(
    {
        "one record": guarantee,
        "two records": beside,
        "pure DP at 2 epsilon": adv.PureDP(2.0),
    }
)
plt.show()

# %% tags=["remove-cell"]
assert beside.loss_bound(0.0) == 2.0
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert guarantee.given(Margins([[0, 3]])) == adv.NoPrivacy()
assert "every record is disclosed" in str(said[0].message)

# %% [markdown]
# ## A district of 45 people
#
# Enumeration district 28-21 of the 1940 census had 45 people in three cells: 34, 10 and 1. Say its total is published
# exactly and its cells with geometric noise of epsilon = 0.5. Four adversaries wonder whether a certain person is the
# one in the third cell. They start at one half and differ in what they hold of the other people in the district.

# %%
from pathlib import Path

data = Path("data") if Path("data").is_dir() else Path("../data")
scenario = adv.load_scenario(data / "districts_1940_total.toml")
tree = adv.audit(
    scenario.plan,
    scenario.adversary,
    scenario.truth,
    guarantee=scenario.guarantee,
    invariants=scenario.margins,
    rng=1,
    progress=False,
)
risk = tree["risk"].to_dataset()
columns = {
    "given the total": risk["prior"],
    "after the release": risk["posterior_mean"],
    "ratio of the total": risk["invariant_ratio"],
    "ratio of the noise": risk["ratio_mean"],
}
pd.DataFrame({name: one.to_series() for name, one in columns.items()}).round(2)

# %% [markdown]
# We report two ratios: one for the exact total, one for the noise. Only the second is bounded. The adversary "counted
# everybody" knows the 44 others, so the total of 45 answers the question before any noise is added, whatever the
# epsilon.
#
# For the other three the guarantee for one record, a factor exp(0.5), is passed in half of all releases. It is not
# violated: it covers data sets that the total has ruled out. Beside the total the bound is exp(1), and none passes it.

# %%
bound = tree["bound"].to_dataset().sel(definition="pure DP")
columns = {
    "one record": bound["single_record_bound"],
    "passed in": bound["prob_beyond_single_record"],
    "beside the total": bound["loss_bound"],
    "passed": bound["outside"],
}
limits = pd.DataFrame({name: one.to_series() for name, one in columns.items()})
limits.round(2)

# %% tags=["remove-cell"]
assert limits["passed"].max() == 0.0
assert (
    limits["passed in"].drop("counted everybody").round(2).tolist()
    == [0.52] * 3
)
assert limits["one record"].max() == 0.5
assert limits["beside the total"].max() == 1.0
assert float(risk["prior"].sel(adversary="counted everybody")) == 1.0

# %% [markdown]
# How much a total reveals depends on how well an adversary knows the others. Let the adversary be in doubt about fewer
# and fewer of them, each as likely in the district as not:

# %% tags=["hide-input"]
from scipy.stats import binom, randint

doubtful = [0, 2, 4, 6, 10, 20, 44]
rows = []
for people in doubtful:
    sure = 44 - people // 2
    others = binom(people, 0.5, loc=sure) if people else randint(44, 45)
    adversary = adv.Adversary(0.5, 0, {"district": adv.Others(others)})
    one = adv.audit(scenario.plan, adversary, scenario.truth, progress=False)[
        "risk"
    ]
    rows.append((float(one["prior"]), float(one["posterior_mean"])))
figure, ax = plt.subplots()
ax.plot(doubtful, [row[1] for row in rows], "o-", color="C0")
ax.plot(doubtful, [row[0] for row in rows], "o-", color="C1")
ax.axhline(0.5, color="#1F2933", lw=1.2)
ax.annotate(
    "before", (44, 0.5), (0, -14), textcoords="offset points", ha="right"
)
ax.annotate(
    "given the total",
    (9.5, rows[4][0]),
    (-4, -14),
    textcoords="offset points",
    color="C1",
    ha="right",
)
ax.annotate(
    "after the release, on average",
    (20, rows[5][1]),
    (4, 8),
    textcoords="offset points",
    color="C0",
)
ax.set(xlabel="others of whom the adversary is not sure", ylim=(0.45, 1.03))
ax.set_ylabel("probability that the person is in")
adv.plot.in_percent(ax.yaxis)
adv.plot.headline(
    ax,
    "The fewer are in doubt, the more the same exact total reveals",
    "The noise adds no more than before",
    shape="Two falling curves that start at 100% where nobody is in doubt.",
)
plt.show()

# %% tags=["remove-cell"]
assert rows[0][0] == 1.0

# %% [markdown]
# ## The 2020 redistricting release
#
# State populations were published exactly; everything below had noise that adds up to rho = 2.56. Moving somebody
# across a state border takes two changed records, and zCDP grows with the square: 10.24. Within a state one record
# changes by itself, and 2.56 stays.

# %%
census = adv.ZeroConcentratedDP(2.56)
states = census.given(Margins([[576851, 643077]]))
for name, one in {"within a state": census, "across states": states}.items():
    most = np.ceil(10 * one.epsilon(1e-10)) / 10
    print(f"{name}: rho {one.rho:.2f}, epsilon at delta 1e-10: {most:.1f}")

# %% tags=["remove-cell"]
assert abs(states.rho - 10.24) < 1e-12

# %% [markdown]
# ## Several exact margins
#
# With more published features more records may have to change: to turn a record that agrees with nobody into another,
# each feature may need a partner of its own, so a(t) is at most one more than the number of features. The definition
# as printed takes the best case over data sets as well, and gives 2 whatever the number of features; the text, the
# proofs and the bounds need the worst case.

# %%
tables = [
    [[2, 1]],
    [[2, 1], [2, 1]],
    [[2, 1, 1], [3, 1], [2, 2]],
    [[9, 1], [8, 2], [7, 3]],
]
worst = [adv.invariants.semi_adjacency(one) for one in tables]
literal = [
    adv.invariants.semi_adjacency(one, reading="literal") for one in tables
]
found = {"a(t)": worst, "as printed": literal}
pd.DataFrame(found, index=[str(one) for one in tables])

# %% tags=["remove-cell"]
assert (worst, set(literal)) == ([2, 3, 3, 4], {2})
cells = list(itertools.product([0, 1], repeat=2))
worlds = [
    tuple(cells.index(record) for record in world)
    for world in Margins([[2, 1], [2, 1]]).listed
]
even = literature.frameworks.JointDistribution.listed(
    worlds, np.full(len(worlds), 1 / len(worlds))
)
released = list(itertools.product(range(4), repeat=3))
four = adv.RandomizedResponse(epsilon=1.0, categories=4)
answers = literature.record_log_likelihood(four, released, even)
odds = literature.record_odds(even, answers, adv.PureDP(1.0)).log_odds_factor
assert abs(float(np.exp(odds.max())) - 10.803666) < 1e-5
margins = [[1, 1, 1, 1], [2, 2]]
tied = np.array(
    [[0.0005, 0.1391], [0.5272, 0.0001], [0.0753, 0.0602], [0.0014, 0.1962]]
)
radii = [
    int(
        adv.known_totals.table_posterior(
            margins, prior=prior, guarantee=guarantee
        ).radius
    )
    for prior in (None, tied / tied.sum())
]
assert radii == [3, 4]
assert adv.invariants.semi_adjacency(margins) == 3

# %% [markdown]
# The printed reading is not enough. Three people, two features with margins (2, 1) each, and randomised response with
# four answers at epsilon = 1: the odds of one record move by a factor of 10.8, beyond e^2 = 7.4 and within e^3 = 20.1.
#
# The a(t) bound also assumes a prior under which records are independent. An adversary who expects two features to go
# together may need more: with the person's cell the likeliest place of everybody else changes. The `radius` of
# `adv.known_totals.table_posterior` is the number of records at which the bound of one adversary holds.
#
# ## Noise made for what remains uncertain
#
# Where both margins of a table are exact, a 2 x 2 table has one number left to hide. Noise made for it moves all cells
# together and keeps the margins; the usual noise goes into every cell and has to cover three records.

# %%
town = Margins([[12, 9], [7, 14]])
space = adv.invariants.sensitivity_space(*town.counts, adjacency=3)
mechanism = adv.invariants.KNorm(space, epsilon=1.0)
noisy = mechanism.sample([[4, 8], [3, 6]], np.random.default_rng(2020))
print(noisy.round(1))
print("margins:", noisy.sum(1).round(6), noisy.sum(0).round(6))

# %% tags=["hide-input"]
costs = adv.invariants.compare_costs(*town.counts)
adv.plot.noise_costs(costs.sel(adjacency=3))
plt.show()

# %% tags=["remove-cell"]
np.testing.assert_allclose(noisy.sum(0), [7, 14])

# %% [markdown]
# And what an adversary of the usual release learns of one person. The margins alone do most of it.

# %% tags=["hide-input"]
found = adv.known_totals.table_posterior(
    town, [[6, 8], [1, 6]], adv.Geometric(1.0), guarantee=adv.PureDP(1.0)
)
adv.plot.table_beliefs(found, ["sex", "work"])
plt.show()

# %% [markdown]
# ## What this does not say
#
# That exact totals are a mistake: they are often required. Keep two numbers apart, the effect of the total
# (`invariant_ratio`), which nothing limits, and that of the noise (`ratio`). Several totals are looked up together;
# their a(t) do not add up. `adversary invariants` does all of this for a scenario or a table file.
