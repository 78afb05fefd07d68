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
#
# The 2020 redistricting tables were published with rho = 2.63 of zero-concentrated differential privacy. What does this
# number guarantee, and to whom? A person whose *every* answer is in doubt is protected by all of it; somebody who only
# wants their race, or their block, to stay uncertain is protected by more noise than that, because most queries do not
# depend on the answer. We price eight such concerns in exact fractions, and turn each price into the power of the best
# test that any adversary could run.
#
# The budget and the scenarios are those of Kifer et al. (2022), "Bayesian and frequentist semantics for common
# variations of differential privacy"; where the tables of that paper and the numbers it prints disagree, we show both.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display
from matplotlib.colors import LogNorm

import adversary as adv

data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
levels = np.array([0.01, 0.05, 0.10])
census = adv.census

# %% [markdown]
# ## Seventy-one queries
#
# Persons got 2.56, housing units 0.07. A share of each went to every geographic level, and within a level a share to
# every query. Noise in each cell of a query is a discrete Gaussian with sigma^2 = 1 / rho_star. Everything is a
# fraction, so that "sums to 2.63" can be checked with an equals sign.

# %%
budget = census.budget_table()
release = census.pl94()
print(f"{len(release.queries)} queries, {sum(query.cells for query in release.queries)} noises, rho = {release.rho}")
print(f"the population of a state: rho_star = {census.rho_star('State', 'TOTAL')}")
largest = budget.stack(pair=("level", "query")).to_pandas().sort_values(ascending=False).head(8)
print(f"eight queries of 71 carry {largest.sum() / float(release.rho):.0%} of the budget")
figure, axis = plt.subplots(figsize=(8.5, 4.2))
image = axis.imshow(budget.where(budget > 0), norm=LogNorm(1e-4, 1), cmap="viridis", aspect="auto")
axis.set(xticks=range(6), xticklabels=budget["level"].values, yticks=range(12), yticklabels=budget["query"].values)
axis.set(title="A few of the 71 queries carry nearly all of the budget")
figure.colorbar(image, label="rho, log scale")
plt.show()

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

# %% [markdown]
# ## Eight scenarios
#
# The paper prices eight concerns, A to H. A and B follow from its tables; C to H do not. The sums are larger by 0.057
# to 0.059 every time, which means that the protection is a little less than stated. The printed values are constants to
# compare with.

# %%
scenarios = {name: census.scenario(name) for name in census.SCENARIOS}
prices = pd.DataFrame(
    {
        "concern": [made.concern for made in scenarios.values()],
        "queries": [len(made.queries) for made in scenarios.values()],
        "rho": [float(made.rho) for made in scenarios.values()],
        "printed": [float(made.published_rho) for made in scenarios.values()],
    },
    index=list(scenarios),
)
display(prices.assign(short=prices["rho"] - prices["printed"]).round(6))

figure, axis = plt.subplots()
bottom = np.zeros(len(scenarios))
for level in census.LEVELS:
    part = [float(sum(query.rho for query in made.queries if query.level == level)) for made in scenarios.values()]
    axis.bar(list(scenarios), part, bottom=bottom, label=level)
    bottom += part
axis.plot(list(scenarios), prices["printed"], "k_", markersize=24, label="printed")
axis.set(xlabel="scenario", ylabel="rho", title="C to H cost more than printed")
axis.legend(frameon=False, bbox_to_anchor=(1.01, 1))
plt.show()


# %% [markdown]
# ## What an adversary could detect
#
# A test decides, from everything published, whether the record is this one or the other. With 5 % false alarms allowed,
# how often does the best test detect the change? `loss.power` answers for the discrete noise that was really used, up
# to 142 different lattices at once; the paper had to simulate. Beside it stand the Gaussian with the same rho, and
# what zCDP alone, knowing nothing but rho, has to allow.


# %%
def powers(made: adv.census.CensusScenario) -> dict[str, float]:
    """Power at the three levels: exact, of the Gaussian with the same rho, and allowed by zCDP."""
    rho = float(made.rho)
    answers = {
        "exact": made.loss.power(levels),
        "Gaussian": adv.GaussianDP(np.sqrt(2 * rho)).power(levels),
        "zCDP allows": adv.ZeroConcentratedDP(rho).power(levels),
    }
    return {f"{name}, {level:.0%}": power[i] for name, power in answers.items() for i, level in enumerate(levels)}


table = pd.DataFrame({name: powers(made) for name, made in (scenarios | {"all": release}).items()}).T
display(table.round(4))

grid = np.concatenate([np.geomspace(1e-4, 0.01, 30), np.linspace(0.01, 1, 100)[1:]])
figure, axis = plt.subplots(figsize=(5, 4.5))
for name, made in {"A": scenarios["A"], "C": scenarios["C"], "E": scenarios["E"], "all": release}.items():
    axis.plot(grid, made.loss.power(grid), label=f"{name}: {made.concern}")
axis.plot([0, 1], [0, 1], color="0.7", linestyle="--", zorder=0)
axis.set(
    xlabel="level (false alarms)", ylabel="power (detections)", title="The whole record is detected, a block hardly"
)
axis.legend(frameon=False, loc="lower right", fontsize="small")
plt.show()

# %% [markdown]
# With 5 % false alarms, an adversary who wonders which block of a block group somebody lives in detects the difference
# in 12 % of cases; blind guessing would, in 5 %. With everything about the record in doubt: in 74 %.
#
# ### Printed and corrected
#
# The powers printed for C and D follow from the printed rho. From the tables they are one to two points higher.

# %%
columns = {}
for source, rhos in {"printed": prices["printed"], "tables": prices["rho"]}.items():
    power = np.array([adv.GaussianDP(np.sqrt(2 * rho)).power(levels) for rho in rhos])
    columns |= {f"{source}, {level:.0%}": power[:, i] for i, level in enumerate(levels)}
pd.DataFrame(columns, index=prices.index).round(4)

# %% [markdown]
# ### When the Gaussian shortcut fails
#
# For the whole release the discrete noise behaves like a Gaussian to nine digits. That is the luck of many scales: the
# person queries of the state level alone share one coarse lattice, on which the shortcut is off in the fourth digit.

# %%
persons = set(census.QUERIES) - {"OCCUPANCY STATUS"}
elsewhere = {pair: 0 for pair in census.RHO_STAR if pair[0] != "state" or pair[1] not in persons}
state = census.pl94(cells=elsewhere)
shortcut = adv.GaussianDP(np.sqrt(2 * float(state.rho)))
print(f"state level: exact {state.loss.power(0.05):.10f}, Gaussian {shortcut.power(0.05):.10f}")
shortcut = adv.GaussianDP(np.sqrt(2 * float(release.rho)))
print(f"all levels:  exact {release.loss.power(0.05):.10f}, Gaussian {shortcut.power(0.05):.10f}")

# %% [markdown]
# ## From tests to beliefs
#
# The same loss says how far one adversary's belief can move. At even odds, the posterior of a true hypothesis is spread
# over releases as in the first table; the narrower, the less the release says. The second table has an epsilon at
# delta = 1e-10: the published simple conversion, the tight one from rho alone, and the exact one from the noise
# itself.

# %%
quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
beliefs = {
    f"{name}: {made.concern}": made.loss.posterior(0.5).quantile(np.array(quantiles), "in")
    for name, made in {"A": scenarios["A"], "C": scenarios["C"], "E": scenarios["E"], "all": release}.items()
}
display(pd.DataFrame(beliefs, index=[f"{q:.0%}" for q in quantiles]).T.round(3))

rho = float(release.rho)
conversions = pd.Series(
    {
        "simple zCDP": adv.definitions.simple_epsilon(rho, 1e-10),
        "tight zCDP": adv.ZeroConcentratedDP(rho).epsilon(1e-10),
        "exact": release.loss.epsilon(1e-10),
    }
)
display(conversions.round(4).to_frame("epsilon"))

# %% [markdown]
# ## Concerns of one's own
#
# `custom_scenario` prices anything the rules cover. Group quarters are in none of the eight scenarios; a student may
# mind whether the tables give away that they live in a dormitory rather than at home, within the county. The number of
# changed cells is an assumption too. A move that empties one housing unit and fills another changes four occupancy
# cells at every level below the nation, and none in the nation; the paper counts two everywhere.

# %%
dormitory = census.custom_scenario(hide_within="county", attributes="group quarters", name="dormitory")
print(f"{dormitory.concern}: {len(dormitory.queries)} queries, rho = {float(dormitory.rho):.4f}")
print(f"power at 5 %: {dormitory.loss.power(0.05):.4f}")
moved = census.pl94(cells={"OCCUPANCY STATUS": 4, ("US", "OCCUPANCY STATUS"): 0})
print(f"four occupancy cells: rho {float(release.rho):.6f} -> {float(moved.rho):.6f}")
print(f"power at 5 %: {release.loss.power(0.05):.6f} -> {moved.loss.power(0.05):.6f}")

# %% [markdown]
# ## Another release: one path of the DHC
#
# The Demographic and Housing Characteristics tables have an allocation of their own. One path from the nation to a
# block spends 4.9622 on 70 queries with 11 different scales. Far out in the tail the conversions differ most, and an
# exact answer needs more than a fine grid. At the right end of the figure the simple conversion is at 1e-20, the truth
# some hundred times lower; the two ends of its certified bracket are one line.

# %%
path = census.dhc(data / "census2020_dhc_path_1.csv")
by_level = path.table.sum("query").to_pandas()
print(f"rho = {path.rho} = {float(path.rho)}, {sum(query.cells for query in path.queries)} noises")
display(by_level.to_frame("rho").round(4))

target = np.geomspace(0.5, 1e-20, 42)
epsilon = float(path.rho) + 2 * np.sqrt(float(path.rho) * np.log(1 / target))
lower, upper = path.loss.bracket.delta(epsilon)
figure, axis = plt.subplots()
axis.semilogy(epsilon, target, label="simple zCDP")
axis.semilogy(epsilon, adv.ZeroConcentratedDP(float(path.rho)).delta(epsilon), label="tight zCDP")
axis.semilogy(epsilon, adv.GaussianDP(np.sqrt(2 * float(path.rho))).delta(epsilon), label="Gaussian with the same rho")
axis.semilogy(epsilon, upper, "k:", label="discrete noise, certified")
axis.set(xlabel="epsilon", ylabel="delta", title="The noise itself needs the least delta (one path of the DHC)")
axis.legend(frameon=False)
plt.show()
print(f"relative width of the bracket: at most {np.max((upper - lower) / lower):.0e}")
print(f"epsilon at delta = 1e-10: {path.loss.epsilon(1e-10):.10f}")

# %% [markdown]
# ## What this does not say
#
# State totals and the numbers of housing units and of occupied group quarters were published exactly. No rho covers
# them: they restrict which pairs of records can be compared at all. And a test between two given records is the hardest
# case for the publisher; `one_person_in_one_block` shows what a particular adversary, with a prior and with beliefs
# about everybody else, learns on average.
