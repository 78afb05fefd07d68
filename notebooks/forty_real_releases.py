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
# # Forty real releases

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
tree = adv.releases.gallery()
adv.plot.gallery(tree)
plt.show()

# %% [markdown]
# **In short.** Agencies and companies publish numbers under guarantees with names such as "epsilon 2.64" or "rho
# 1.257". An adversary gives 1% to something about you; how sure can the release make them? A dashed line ends at what
# the guarantee allows any adversary whose beliefs about everybody else do not depend on you; a dot is what one
# adversary, described in the record of the release, reaches on average where the person is in.
#
# - **A guarantee can allow nearly everything while one adversary learns nearly nothing.** The 2020 redistricting data
#   allow 97.5%. The bound is about the worst output, the worst neighbor and all tables together; the adversary reads a
#   few numbers.
# - **Suppression and rounding guarantee nothing.** Where totals are exact, a hidden count follows from them; rounding
#   that is drawn afresh at each request averages out.
# - **The unit matters as much as epsilon.** A day, a report or one visit of yours is not you: at Google's 2.64 for a
#   day, 1% becomes at most 12.4% in one day, and anything over a year.

# %% [markdown]
# ## Four of them
#
# Once as the publisher states it, and once for a person who is replaced by another.

# %%
import numpy as np

import adversary as adv

# tree = adv.releases.gallery(), in the folded cell on top
bounds = tree["bounds"].to_dataset().isel(prior=0, drop=True)
table = bounds["posterior"].to_series().unstack("relation")
table.insert(0, "unit", bounds["unit"].to_series())
names = ["google_mobility", "census_pl94", "census_sdhc", "wikimedia_russia"]
table.loc[names].round(3)

# %% [markdown]
# ## Neighbors: the same letter, another guarantee
#
# The rho of the redistricting data, 2.63, is for a person who is replaced by another. That of the Supplemental DHC,
# 1.257, is for one who is added or removed; for a replaced person the bureau states 2.515. One looks like half of the
# other; for a replaced person they are nearly the same: compare the column `replaced`.
#
# ## One day, and a year
#
# Many guarantees are for one day of one person. Whoever is in the data every day has all days against them, and the
# losses add up. How far 1% may grow:

# %%
stated = bounds.sel(relation="stated")
records = adv.releases.records()
for name in ("google_mobility", "wikimedia_views", "wikimedia_russia"):
    one, periods = stated.sel(release=name), records[name].unit.periods
    day, year = float(one["posterior"]), float(one["posterior_year"])
    print(f"{records[name].title}: {day:.1%} in one of {periods} periods,")
    print(f"    {year:.1%} over a year")

# %% tags=["remove-cell"]
day = stated["posterior"].sel(release="google_mobility")
assert np.ceil(1000 * float(day)) == 124 or round(float(day), 3) == 0.124
assert round(float(stated["posterior"].sel(release="census_pl94")), 3) == 0.975
assert float(stated["posterior_year"].sel(release="google_mobility")) > 0.999

# %% [markdown]
# ## What one adversary expects
#
# Each scenario has a truth, an adversary, and the noise of the part of the release that they read. From even odds, on
# average, and in 9 of 10 releases:

# %%
scenarios = tree["scenarios"].to_dataset().sel(prior=0.5, drop=True)
columns = ["scenario", "posterior", "lower", "upper"]
expected = scenarios[columns].to_dataframe().set_index("scenario", append=True)
expected[["posterior", "lower", "upper"]].astype(float).round(2)

# %% [markdown]
# ## Numbers that do not agree
#
# A record can hold checks: a stated number, and the sum, product or conversion that should give it. These do not. The
# 15.29 of the demographic file, for instance, is the sum of three budgets, one of which belongs to another product,
# and its epsilons come from a simpler conversion than those of the redistricting data.

# %%
findings = tree["findings"].to_dataset().to_dataframe()
findings = findings.set_index("release")[["about", "stated", "computed"]]
findings.map(lambda x: f"{x:,.4g}" if isinstance(x, float) else x)

# %% [markdown]
# ## A record of your own
#
# A record is a file: who, what, when, the unit, the guarantee, the sources; where they are known, the plan and one
# scenario. `adversary init gallery mine.toml` makes one to begin with, `adversary gallery mine.toml` audits it, and
# records of the registry (YAML) are read as they are. `adversary gallery --out DIR` makes the page of all of them,
# with the sources.

# %%
record = records["census_sdhc"]
print(record.title)
print("guarantee:", adv.ZeroConcentratedDP(round(record.guarantee.rho, 3)))
print("not known:", record.unknown)

# %% [markdown]
# ## What this does not say
#
# Whether a release is good. A record is what we could read in public; what is not known is said in it, and a correction
# is one line in a file.
