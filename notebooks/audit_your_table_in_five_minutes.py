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
# # Audit your tables in five minutes
#
# You plan to publish several tables of one file, each with noise. Who is most at risk, and how does that compare with
# the most that the noise allows?
#
# The file below has a row for each cell: where, who, and how many people. Replace it by your own,
# `pd.read_csv("my_counts.csv", dtype=str)`: a row for each person, for each cell, or a column for each cell.

# %%
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import adversary as adv

data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
people = pd.read_csv(data / "districts.csv", dtype=str)
people.head(6)

# %% [markdown]
# ## What will be published
#
# Three tables of the same 765 people: districts by age and sex, district totals, and regions by age. Each count gets
# discrete Gaussian noise. `rho` is the budget of zero-concentrated differential privacy for one count: the larger, the
# less noise (variance 1 / (2 rho)). One person is in one count of each table, so the three budgets add up to 0.5.

# %%
noise = adv.DiscreteGaussian.from_rho
tables = [
    adv.PublishedTable(["district", "age", "sex"], noise(0.3)),
    adv.PublishedTable(["district"], noise(0.1), name="district totals"),
    adv.PublishedTable(["region", "age"], noise(0.1)),
]
adversary = adv.TableAdversary(prior=0.1)
risks = adv.audit_tables(people, tables, adversary, rng=0)
print("\n".join(risks.attrs["understood"]))
shown = ["district", "sex", "age", "count", "target", "prior", "posterior_mean", "posterior_high", "bound"]
risks[shown].head(6).round(4)

# %% [markdown]
# First comes what was understood of the file. Then one row for each cell of people whom no table tells apart, worst
# first. The adversary gives the person a chance of 10 % to be in the cell (`prior`) and knows everybody else in it.
# `posterior_mean` is their probability after the release, averaged over the noise; nine releases in ten leave it
# between `posterior_low` and `posterior_high`; `bound` is the most that the noise of all tables together allows any
# adversary of this prior whose beliefs about everybody else do not depend on the person, but for one release in
# twenty. Where a cell is empty, the person is not in it (`target` is "out").
#
# Whoever knows everybody else in the cell learns the same about everyone: the noise is the same wherever the person is.

# %% [markdown]
# ## What the adversary knows of others matters
#
# The same release, to somebody who knows everybody else in the file, and to somebody who knows nobody.

# %%
known = {knows: adv.TableAdversary(0.1, knows) for knows in ("everybody", "cell", "nobody")}
found = {knows: adv.audit_tables(people, tables, who, rng=0) for knows, who in known.items()}
figure, ax = plt.subplots(figsize=(7.0, 4.2))
colours = {"everybody": "#D55E00", "cell": "#0072B2", "nobody": "#009E73"}
for knows, risk in found.items():
    ax.plot(risk["count"], risk.posterior_mean, "o", color=colours[knows], ms=5, alpha=0.7, label=f"knows {knows}")
ax.axhline(0.1, color="#777777", lw=1, label="before")
ax.axhline(float(risks.bound.max()), color="#222222", lw=1, ls="--", label="most by the noise")
ax.set(xlabel="people in the cell", ylabel="probability, on average")
ax.set_title("Who knows more of others learns more of one")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, loc="center right")
plt.show()

# %%
largest = {knows: risk.posterior_mean.max() for knows, risk in found.items()}
assert largest["everybody"] >= largest["cell"] >= largest["nobody"] - 1e-9
pd.Series(largest, name="largest risk, from 10 %").round(4).to_frame()

# %% [markdown]
# ## How much noise is enough?
#
# The same tables under four budgets, divided as above:

# %%
rows = []
for total in (0.1, 0.5, 1.0, 3.0):
    shares = zip(tables, (0.6, 0.2, 0.2), strict=True)
    planned = [adv.PublishedTable(one.by, noise(total * part), one.name) for one, part in shares]
    risk = adv.audit_tables(people, planned, adversary, rng=0)
    rows.append((total, risk.posterior_mean.max(), risk.posterior_high.max(), risk.bound.max()))
pd.DataFrame(rows, columns=["rho in all", "largest risk, on average", "one release of twenty", "bound"]).round(3)

# %% [markdown]
# The first table of this page on the command line, with a page for others to read. A place that is no column, such as
# "country", is the whole file.
#
# ```sh
# uv run adversary tables data/districts.csv --prior 0.1 --table "district: age x sex, rho 0.3" \
#   --table "district: total, rho 0.1" --table "region: age, rho 0.1" --out found
# ```
#
# `adversary plan` goes the other way: from a tolerated risk to the noise of each table.
#
# Next: [one person in one block](one_person_in_one_block.ipynb) shows what stands behind these numbers.
