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
#
# Some numbers are always published as they are: the population of a state, how many people live in a district. Beside
# them stand noisy tables with a privacy guarantee. Three things change once a total is exact, and this notebook
# measures each of them:
#
# 1. data sets that do not fit the total are ruled out, and with them neighbours that the guarantee covers;
# 2. the total itself informs adversaries, which no privacy parameter limits;
# 3. noise can be made for what remains uncertain, and be much smaller.
#
# The theory is that of Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics". Where the computation
# contradicts a printed statement, both are shown.

# %%
# %matplotlib inline
import itertools
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.stats
from IPython.display import display

import adversary as adv
from adversary.report.files.table_file import load_table_file
from adversary.report.sections import exact_adversaries

data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"

# %% [markdown]
# ## Three people, two of whom have the trait
#
# Take every data set of three people, each with or without a trait, and publish how many have it: two. Three data
# sets are left. No two of them differ in a single record: if somebody is to lose the trait, somebody else must gain it.
#
# Each person answers by randomised response with epsilon = 1, and the answers are (0, 1, 1). An adversary who holds the
# three data sets equally likely ends at 79 % for the right one. Had the odds been held within a factor e, as the
# guarantee for one record states, the adversary could not have passed 58 %.

# %%
everything = list(itertools.product([0, 1], repeat=3))
left = adv.invariants.conforming(everything, sum, 2)
print("left:", left)
print("records that have to change together, a(t):", adv.invariants.semi_adjacency_of(left))
assert adv.invariants.semi_adjacency_of(left) == 2
response = adv.RandomizedResponse(epsilon=1.0)
given = adv.literature.frameworks.JointLaw.listed(everything, np.full(8, 1 / 8)).given(lambda world: sum(world) == 2)
after = given.after(adv.literature.record_log_likelihood(response, [0, 1, 1], given))
posterior = after.mass({"record 0": 0, "record 1": 1, "record 2": 1})
capped = np.e / (np.e + 2)
print(f"posterior of (0, 1, 1): {posterior:.6f}; by the guarantee for one record at most {capped:.6f}")
assert abs(posterior - 1 / (1 + 2 * np.exp(-2))) < 1e-12
assert posterior > capped

# %% [markdown]
# The guarantee that holds between data sets two records apart is `guarantee.group(2)`; `guarantee.given` looks the
# number up. For pure DP that is better than "2 epsilon": the same largest loss, but most releases reveal less.
#
# And if the total is three, everybody has the trait. One data set is left, and none of them changes into another: that
# is not "no loss", it is full disclosure. The library says so, whatever the noise.

# %%
guarantee = adv.PureDP(1.0)
beside = guarantee.given(adv.invariants.Margins([[1, 2]]))
print(beside.definition, "with a largest loss of", beside.loss_bound(0.0))
guesses = [(1 + one.advantage) / 2 for one in (beside, adv.PureDP(2.0))]
print(f"best balanced guess: {guesses[0]:.6f}, against {guesses[1]:.6f} at 2 epsilon")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    gone = guarantee.given(adv.invariants.Margins([[0, 3]]))
print(gone, "-", said[0].message)
assert gone == adv.NoPrivacy()
adv.plot.trade_off({"one record": guarantee, "two records": beside, "pure DP at 2 epsilon": adv.PureDP(2.0)})

# %% [markdown]
# ## A district of 45 people
#
# Enumeration district 28-21 of the 1940 census had 45 people in three cells: 34, 10 and 1. Say its total is published
# exactly and its cells with geometric noise of epsilon = 0.5. Four adversaries wonder whether a certain person is the
# one in the third cell. They start at one half and differ in what they hold of the other people in the district.
#
# The two ratios are kept apart because only that of the noise has a limit. "Counted everybody" knows of 44 others; the
# total of 45 then settles the question before any noise is added. No epsilon, however small, would have helped.
#
# For the other three the guarantee for one record, a factor exp(0.5), is passed in half of all releases. It is not
# violated: it covers data sets that the total has ruled out. Beside the total the bound is exp(1).

# %%
scenario = adv.load_scenario(data / "districts_1940_total.toml")
what = (scenario.plan, scenario.adversary, scenario.truth)
tree = adv.audit(*what, guarantee=scenario.guarantee, invariants=scenario.margins, rng=1, progress=False)
risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset().sel(definition="pure DP")
steps = {
    "given the total": risk.prior,
    "after the release": risk.posterior_mean,
    "ratio of the total": risk.invariant_ratio,
}
steps["ratio of the noise"] = risk.ratio_mean
display(pd.DataFrame({name: one.to_series() for name, one in steps.items()}).round(4))

limits = {"one record (no bound)": bound.single_record_bound, "passed in": bound.prob_beyond_single_record}
limits |= {"k": bound.k, "limit at k": bound.loss_bound, "at a(t)": bound.semi_loss_bound, "passed": bound.outside}
frame = pd.DataFrame({name: one.to_series() for name, one in limits.items()})
assert frame["passed"].max() == 0.0
assert frame["passed in"].drop("counted everybody").min() > 0.5
display(frame.round(4))

limits = exact_adversaries.solve(scenario, tree)["limits"]
adv.plot.odds_moved(limits, exact_adversaries.moves(scenario, tree))

# %% [markdown]
# How much a total reveals depends on how well an adversary knows the others. Let the adversary be in doubt about fewer
# and fewer of them, each as likely in the district as not: the same exact number moves the adversary from nowhere to
# certainty, while the noise adds no more than before.

# %%
doubtful = [0, 2, 4, 6, 10, 20, 44]
rows = []
for people in doubtful:
    sure = 44 - people // 2
    law = scipy.stats.binom(people, 0.5, loc=sure) if people else scipy.stats.randint(44, 45)
    adversary = adv.Adversary(0.5, 0, {"district": adv.Others(law)})
    one = adv.audit(scenario.plan, adversary, scenario.truth, progress=False)["risk"]
    rows.append((people, float(one["prior"]), float(one["posterior_mean"])))
figure, ax = plt.subplots()
ax.plot(doubtful, [row[1] for row in rows], "o-", color=ORANGE, label="given the total")
ax.plot(doubtful, [row[2] for row in rows], "o-", color=BLUE, label="after the release, on average")
ax.axhline(0.5, color=GREY, lw=1)
ax.set(
    xlabel="others of whom the adversary is not sure",
    ylabel="probability of “in”",
    title="The fewer in doubt, the more the total reveals",
)
ax.legend(frameon=False)
assert rows[0][1] == 1.0
plt.show()

# %% [markdown]
# ## The 2020 redistricting release
#
# State populations were published exactly; everything below had noise that adds up to rho = 2.56. Moving somebody
# across a state border takes two changed records, and zCDP grows with the square: 10.24. Within a state one record
# changes by itself, and 2.56 stays.

# %%
census = adv.ZeroConcentratedDP(2.56)
states = census.given(adv.invariants.Margins([[576851, 643077]]))
for name, one in {"within a state": census, "across states": states}.items():
    tight, simple = one.epsilon(1e-10), adv.definitions.simple_epsilon(one.rho, 1e-10)
    print(f"{name}: rho = {one.rho:.2f}, epsilon at 1e-10 {tight:.2f} (by the simple formula {simple:.5f})")
assert abs(states.rho - 10.24) < 1e-12
adv.plot.trade_off({"within a state": census, "across states": states})

# %% [markdown]
# ## Several exact margins
#
# With more published features more records may have to change: to turn a record that agrees with nobody into another,
# each feature may need a partner of its own, so a(t) is at most one more than the number of features. The definition
# as printed takes the best case over data sets as well, and gives 2 whatever the number of features; the text, the
# proofs and the bounds need the worst case.
#
# The printed reading is not enough. Three people, two features with margins (2, 1) each, and randomised response with
# four answers at epsilon = 1: the odds of one record move by a factor of 10.8, beyond e^2 = 7.4 and within
# e^3 = 20.1.

# %%
for margins in ([[2, 1]], [[2, 1], [2, 1]], [[2, 2], [2, 2]], [[2, 1, 1], [3, 1], [2, 2]], [[9, 1], [8, 2], [7, 3]]):
    worst, literal = (adv.invariants.semi_adjacency(margins, reading=reading) for reading in ("worst", "literal"))
    print(f"{margins}: a(t) = {worst}, as printed {literal}; {adv.invariants.Margins(margins).databases:,} data sets")
cells = list(itertools.product([0, 1], repeat=2))
worlds = [tuple(cells.index(record) for record in world) for world in adv.invariants.Margins([[2, 1], [2, 1]]).listed]
flat = adv.literature.frameworks.JointLaw.listed(worlds, np.full(len(worlds), 1 / len(worlds)))
released = list(itertools.product(range(4), repeat=3))
answers = adv.literature.record_log_likelihood(adv.RandomizedResponse(epsilon=1.0, categories=4), released, flat)
largest = float(np.exp(adv.literature.record_odds(flat, answers, adv.PureDP(1.0)).log_odds_factor.max()))
print(f"largest factor: {largest:.6f}; e^2 = {np.exp(2):.3f}, e^3 = {np.exp(3):.3f}")
assert abs(largest - 10.803666) < 1e-5

# %% [markdown]
# The a(t) bound assumes a prior under which records are independent. An adversary who expects two features to go
# together may need more: with the person's cell the likeliest place of everybody else changes. `radius` is the number
# of records at which the bound of this adversary holds.

# %%
margins = [[1, 1, 1, 1], [2, 2]]
tied = np.array([[0.0005, 0.1391], [0.5272, 0.0001], [0.0753, 0.0602], [0.0014, 0.1962]])
radii = {}
for name, prior in {"nothing to do with each other": None, "tied": tied / tied.sum()}.items():
    found = adv.known_totals.table_posterior(margins, prior=prior, guarantee=guarantee)
    radii[name] = int(found.radius)
    print(f"{name}: {radii[name]} records; a(t) = {adv.invariants.semi_adjacency(margins)}")
assert list(radii.values()) == [3, 4]

# %% [markdown]
# ## Noise made for what remains uncertain
#
# Where both margins of a table are exact, a 2 x 2 table has one number left to hide. Noise made for it moves all cells
# together and keeps the margins; the usual noise goes into every cell and has to cover three records.

# %%
town = load_table_file(data / "town_table.toml")
costs = adv.invariants.compare_costs(*town.invariants.margins.counts)
space = adv.invariants.sensitivity_space(*town.invariants.margins.counts, adjacency=3)
mechanism = adv.invariants.KNorm(space, epsilon=1.0)
noisy = mechanism.sample([[4, 8], [3, 6]], np.random.default_rng(2020))
print(noisy.round(2), "margins:", noisy.sum(1).round(9), noisy.sum(0).round(9))
np.testing.assert_allclose(noisy.sum(0), [7, 14])
adv.plot.noise_costs(costs.sel(adjacency=3))

# %% [markdown]
# And what an adversary of either release learns of one person. The margins alone do most of it.

# %%
found = adv.known_totals.table_posterior(
    town.invariants.margins, town.released, town.mechanism, guarantee=town.guarantees["pure DP"]
)
adv.plot.table_beliefs(found, town.invariants.features)

# %% [markdown]
# ## In short
#
# - Beside exact totals, use the guarantee for a(t) records: `guarantee.given(adv.invariants.Margins(...))`. The one
#   for a single record is no bound.
# - Keep two numbers apart: the effect of the total, `invariant_ratio`, which nothing limits, and that of the noise,
#   `ratio`.
# - Several totals are looked up together; their a(t) do not add up.
# - `adversary invariants` does all of this for a scenario or a table file.
