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
#
# Agencies and companies publish numbers under guarantees with names such as "epsilon 2.64" or "rho 1.257". The field
# keeps a registry of them, and leaves open what the parameters mean for a person. Here each is put into that
# question: an adversary gives 1 % to something about you; how sure can the release make them?

# %%
# %matplotlib inline
import adversary as adv

tree = adv.releases.gallery()
adv.plot.gallery(tree)

# %% [markdown]
# A bar is what the guarantee allows any adversary whose beliefs about everybody else do not depend on you. A dot is
# the belief that one adversary, described in the record of the release, reaches on average where the person is in.
# Three things stand out.
#
# - **A guarantee can allow nearly everything while one adversary learns nearly nothing.** The bound speaks of the
#   worst output, the worst neighbor and all tables together; the adversary reads a few numbers.
# - **Suppression and rounding guarantee nothing.** Where totals are exact, a hidden count follows from them; rounding
#   that is drawn afresh at each request averages out.
# - **The unit matters as much as epsilon.** A day, a report or one visit of yours is not you.

# %%
bounds = tree["bounds"].to_dataset()
table = bounds["posterior"].isel(prior=0, drop=True).to_dataframe()["posterior"].unstack()
table.insert(0, "unit", bounds["unit"].to_series())
table.insert(0, "guarantee", bounds["guarantee"].to_series())
table.loc[["google_mobility", "census_pl94", "census_sdhc", "wikimedia_russia"]].round(4)

# %% [markdown]
# ## Neighbors: the same letter, another guarantee
#
# The rho of the redistricting data, 2.63, is for a person who is replaced by another. That of the Supplemental DHC,
# 1.257, is for one who is added or removed; for a replaced person the bureau states 2.515. Side by side one looks
# like half of the other; for a replaced person they are nearly the same: compare the column `replaced`.
#
# ## One day, and a year
#
# Many guarantees are for one day of one person. Whoever is in the data every day has all days against them, and the
# losses add up.

# %%
year = bounds["posterior_year"].sel(relation="stated").isel(prior=0, drop=True)
day = bounds["posterior"].sel(relation="stated").isel(prior=0, drop=True)
both = adv.releases.records()
for name in ("google_mobility", "wikimedia_views", "wikimedia_russia"):
    periods = both[name].unit.periods
    print(
        f"{both[name].title}: 1 % becomes at most {float(day.sel(release=name)):.2%} in one of {periods} periods, "
        f"{float(year.sel(release=name)):.2%} over a year"
    )

# %% [markdown]
# ## What one adversary expects
#
# Each scenario has a truth, an adversary, and the noise of the part of the release that they read.

# %%
scenarios = tree["scenarios"].to_dataset()
for name in scenarios["release"].values:
    one = scenarios.sel(release=name, prior=0.5)
    mean, low, high = (float(one[key]) for key in ("posterior", "lower", "upper"))
    print(f"{both[name].title}, {one.scenario.item()}:")
    print(f"    50 % becomes {mean:.1%} on average, {low:.1%} to {high:.1%} in nine releases of ten")

# %% [markdown]
# ## Numbers that do not agree
#
# A record can hold checks: a stated number, and the sum, product or conversion that should give it. These do not. The
# 15.29 of the demographic file, for instance, is the sum of three budgets, one of which belongs to another product,
# and its epsilons come from a simpler conversion than those of the redistricting data.

# %%
tree["findings"].to_dataset().to_dataframe()[["release", "about", "stated", "computed"]]

# %% [markdown]
# ## A record of your own
#
# A record is a file: who, what, when, the unit, the guarantee, the sources; where they are known, the plan and one
# scenario. `adversary init gallery mine.toml` makes one to begin with, `adversary gallery mine.toml` audits it, and
# records of the registry (YAML) are read as they are. `adversary gallery --out DIR` makes the page of all of them,
# with the sources.

# %%
record = both["census_sdhc"]
print(record.title, record.unit, record.guarantee, record.replaced, sep="\n")
print("Not known:", record.unknown)
