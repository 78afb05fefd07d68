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
# # The 2020 Census budget

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
census = adv.census
losses = {
    "Block within its block group": census.scenario("A").loss,
    "Block within its tract": census.scenario("B").loss,
    "Race": census.scenario("C").loss,
    "The whole record": census.pl94().loss,
}
ax = adv.plot.quantile_dots(losses)
adv.plot.headline(
    ax,
    "The 2020 Census hides your block among its neighbours, not your record",
    "100 equally likely releases: how sure each leaves an adversary who knows "
    "everybody else",
    "Bracket: bound for any adversary in 95% of releases. Both possibilities "
    "are in one state.",
    shape="Rows of 100 dots; 0, 18, 20 and 57 of them lie above 90%.",
)
plt.show()

# %% [markdown]
# **In short.** The 2020 redistricting tables were published with rho = 2.63 of zero-concentrated differential privacy
# (zCDP). Take two possibilities about you in one state, equally likely beforehand, and an adversary who knows everybody
# else:
#
# - Which block of a block group you live in: 0 of 100 equally likely releases make them over 90% sure of the truth.
#   Which block of a tract: 18. Your race: 20. Your whole record: 57.
# - With 5% false alarms the best test detects a block in its block group in 12% of cases, a whole record in 74%.
# - The printed prices of six of eight concerns are too small by 0.057 to 0.059: the paper's tables give more.
#
# The budget and the scenarios are those of Kifer et al. (2022), "Bayesian and frequentist semantics for common
# variations of differential privacy".

# %% [markdown]
# ## Seventy-one queries
#
# Persons got 2.56, housing units 0.07. A share of each went to every geographic level, and within a level a share to
# every query. Noise in each cell of a query is a discrete Gaussian with sigma^2 = 1 / rho_star. Everything is a
# fraction, so that "sums to 2.63" can be checked with an equals sign.

# %%
import adversary as adv

census = adv.census
release = census.pl94()
cells = sum(query.cells for query in release.queries)
print(f"{len(release.queries)} queries, {cells} noises, rho = {release.rho}")
budget = census.budget_table().to_series().dropna()
largest = budget.sort_values(ascending=False).head(8)
print(f"eight queries of 71 carry {largest.sum() / 2.63:.0%} of the budget")

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.2, 3.6))
names = [f"{query.lower()}, {level}" for level, query in largest.index]
place = range(len(largest))[::-1]
ax.barh(place, largest, color="C0", height=0.62)
for y, rho in zip(place, largest, strict=True):
    ax.annotate(
        f"{rho:.2f}",
        (rho, y),
        (5, 0),
        textcoords="offset points",
        va="center",
    )
ax.set_yticks(place, names)
ax.set(xlabel="rho", xlim=(0, 1.1 * largest.max()))
adv.plot.headline(
    ax,
    "Eight of 71 queries carry 87% of the budget",
    "rho of persons and housing units, by query and level",
    shape="Eight bars, the longest first.",
)
plt.show()

# %% tags=["remove-cell"]
assert len(release.queries) == 71
assert release.rho == budget.sum() or abs(budget.sum() - 2.63) < 1e-12
assert round(largest.sum() / 2.63, 2) == 0.87

# %% [markdown]
# ## What changes when one record does
#
# Replace one person's record by another. In every query that depends on what changed, one cell loses a person and one
# gains one: two noises hide the difference, and the query costs its rho_star. The queries that do not change cost
# nothing. So a *concern* is a set of queries:
#
# - where I live, within an area: all queries at every level finer than the area;
# - an attribute of mine: the person queries whose name contains it, at all six levels;
# - several concerns: the union.
#
# The paper prices eight concerns, A to H. A and B follow from its tables. C to H do not: the sums are larger every
# time, which means that the protection is a little less than stated.

# %%
import numpy as np
import pandas as pd

scenarios = {name: census.scenario(name) for name in census.SCENARIOS}
prices = pd.DataFrame(
    {
        "concern": [one.concern for one in scenarios.values()],
        "queries": [len(one.queries) for one in scenarios.values()],
        "rho": [float(one.rho) for one in scenarios.values()],
        "printed": [float(one.published_rho) for one in scenarios.values()],
    },
    index=list(scenarios),
)
prices["short by"] = prices["rho"] - prices["printed"]
prices.round(3)

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.2, 3.8))
place = np.arange(len(prices))[::-1]
ax.hlines(place, prices["printed"], prices["rho"], color="#5F6B7A", lw=1.2)
ax.plot(prices["printed"], place, "o", color="#5F6B7A", mfc="white")
ax.plot(prices["rho"], place, "o", color="C1")
for y, one in zip(place, prices.itertuples(), strict=True):
    short = one.rho - one.printed
    if short > 0.01:
        ax.annotate(
            f"+{short:.3f}",
            (one.rho, y),
            (8, 0),
            textcoords="offset points",
            va="center",
            color="C1",
        )
up = {"textcoords": "offset points", "va": "center"}
ax.annotate(
    "printed",
    (prices["printed"].iloc[2], place[2]),
    (-8, 0),
    ha="right",
    color="#5F6B7A",
    **up,
)
ax.annotate(
    "sum of its tables",
    (prices["rho"].iloc[2], place[2]),
    (52, 0),
    color="C1",
    **up,
)
ax.set_yticks(
    place, [f"{name}: {one}" for name, one in prices["concern"].items()]
)
ax.set(xlabel="rho of the concern", xlim=(0, 2.0))
adv.plot.headline(
    ax,
    "Six of eight concerns cost 0.057 to 0.059 more than printed",
    "rho of a concern: printed, and summed from the printed tables",
    shape="Eight rows; A and B agree, C to H lie apart by nearly the same "
    "distance.",
)
plt.show()

# %% tags=["remove-cell"]
short = prices["short by"]
assert short[:2].abs().max() < 5e-5
assert short[2:].min() > 0.0565
assert short[2:].max() < 0.0595

# %% [markdown]
# ## What an adversary could detect
#
# A test decides, from everything published, whether the record is this one or the other. With 5% false alarms allowed,
# how often does the best test detect the change? `loss.power` answers for the discrete noise that was really used, up
# to 142 different lattices at once; the paper had to simulate. Beside it stands what zCDP alone, knowing nothing but
# rho, has to allow.

# %%
powers = {}
for name, made in (scenarios | {"all": release}).items():
    allowed = adv.ZeroConcentratedDP(float(made.rho))
    powers[f"{name}: {made.concern}"] = {
        "1% false alarms": made.loss.power(0.01),
        "5%": made.loss.power(0.05),
        "zCDP allows, 5%": allowed.power(0.05),
    }
powers = pd.DataFrame(powers).T
powers.round(3)

# %% tags=["hide-input"]
adv.plot.trade_off(
    {
        "the whole record": release.loss,
        "race and block within its tract": scenarios["E"].loss,
        "race": scenarios["C"].loss,
        "block within its block group": scenarios["A"].loss,
    }
)
plt.show()

# %% tags=["remove-cell"]
assert round(powers["5%"].iloc[0], 2) == 0.12
assert round(powers["5%"].iloc[-1], 2) == 0.74
printed = adv.GaussianDP(np.sqrt(2 * prices.loc["C", "printed"])).power(0.05)
assert 0.395 < printed < 0.396
assert round(powers["5%"].iloc[2], 3) == 0.412

# %% [markdown]
# An adversary who wonders which block of a block group somebody lives in detects the difference in 12% of cases; blind
# guessing would, in 5%. With everything about the record in doubt: in 74%. The power printed for race follows from the
# printed rho, 39.6%; from the tables it is 41.2%.
#
# ### Where the Gaussian shortcut fails
#
# For the whole release the discrete noise behaves like a Gaussian to nine digits. That is the luck of many scales: the
# person queries of the state level alone share one coarse lattice, on which the shortcut is off in the fourth digit.

# %%
persons = set(census.QUERIES) - {"OCCUPANCY STATUS"}
elsewhere = {
    pair: 0
    for pair in census.RHO_STAR
    if pair[0] != "state" or pair[1] not in persons
}
state = census.pl94(cells=elsewhere)
for name, one in {"state level": state, "all levels": release}.items():
    shortcut = adv.GaussianDP(np.sqrt(2 * float(one.rho))).power(0.05)
    exact = one.loss.power(0.05)
    print(f"{name}: exact {exact:.4f}, off by {shortcut - exact:.0e}")

# %% tags=["remove-cell"]
assert abs(shortcut - exact) < 1e-8
shortcut = adv.GaussianDP(np.sqrt(2 * float(state.rho))).power(0.05)
assert 1e-4 < abs(state.loss.power(0.05) - shortcut) < 1e-3

# %% [markdown]
# ## From tests to beliefs
#
# The same loss says how far one adversary's belief can move; the figure on top shows a hundred releases of each. Here
# are the quantiles over releases, at even odds and for the true possibility:

# %%
quantiles = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
beliefs = {
    f"{name}: {made.concern}": made.loss.posterior(0.5).quantile(
        quantiles, "in"
    )
    for name, made in (scenarios | {"all": release}).items()
}
columns = [f"{q:.0%}" for q in quantiles]
pd.DataFrame(beliefs, index=columns).T.round(2)

# %% tags=["remove-cell"]
places = (np.arange(100) + 0.5) / 100
sure = [
    one.posterior(0.5).quantile(places, "in") > 0.9 for one in losses.values()
]
assert [int(one.sum()) for one in sure] == [0, 18, 20, 57]

# %% [markdown]
# ## Concerns of one's own
#
# `custom_scenario` prices anything the rules cover. Group quarters are in none of the eight scenarios; a student may
# mind whether the tables give away that they live in a dormitory rather than at home, within the county. The number of
# changed cells is an assumption too: a move that empties one housing unit and fills another changes four occupancy
# cells at every level below the nation, and none in the nation; the paper counts two everywhere.

# %%
dormitory = census.custom_scenario(
    hide_within="county", attributes="group quarters", name="dormitory"
)
moves = {"OCCUPANCY STATUS": 4, ("US", "OCCUPANCY STATUS"): 0}
cases = {
    "dormitory or home, within the county": dormitory,
    "the whole record": release,
    "the same, with four occupancy cells": census.pl94(cells=moves),
}
for name, one in cases.items():
    print(
        f"{name}: rho {float(one.rho):.2f}, power at 5% "
        f"{one.loss.power(0.05):.1%}"
    )

# %% [markdown]
# ## Another release: one path of the DHC
#
# The Demographic and Housing Characteristics tables have an allocation of their own. One path from the nation to a
# block spends 4.96 on 70 queries with 11 different scales. Far out in the tail the conversions differ most, and an
# exact answer needs more than a fine grid:

# %%
from pathlib import Path

data = Path("data") if Path("data").is_dir() else Path("../data")
path = census.dhc(data / "census2020_dhc_path_1.csv")
rho = float(path.rho)
epsilons = {
    delta: [
        adv.definitions.simple_epsilon(rho, delta),
        adv.ZeroConcentratedDP(rho).epsilon(delta),
        path.loss.epsilon(delta),
    ]
    for delta in (1e-6, 1e-10, 1e-20)
}
columns = ["simple zCDP", "tight zCDP", "the noise itself"]
pd.DataFrame(epsilons, index=columns).T.round(2)

# %% tags=["hide-input"]
adv.plot.epsilon_delta({"the noise itself": path.loss}, rho=rho)
plt.show()

# %% tags=["remove-cell"]
lower, upper = path.loss.bracket.delta(np.array([20.0, 30.0, 40.0]))
assert ((upper - lower) / lower).max() < 1e-11
assert round(rho, 4) == 4.9622

# %% [markdown]
# ## What this does not say
#
# State totals and the numbers of housing units and of occupied group quarters were published exactly. No rho covers
# them: they restrict which pairs of records can be compared at all. And a test between two given records is the hardest
# case for the publisher; [one person in one block](one_person_in_one_block.ipynb) shows what a particular adversary,
# with a prior and with beliefs about everybody else, learns on average.
