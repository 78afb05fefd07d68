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
# # Audit your table in five minutes
#
# You plan to publish counts with noise. In which cell would an adversary learn most about one person, and how does
# that compare with the most that the noise allows?
#
# The table below has a row for each block, columns that say in which block group and tract it lies, and a column for
# each count. Replace the file by your own: `pd.read_csv("my_counts.csv")`.

# %%
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from scipy import stats

import adversary as adv

data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
counts = pd.read_csv(data / "town_counts.csv")
counts.head(8)

# %% [markdown]
# ## The planned noise
#
# Each level is published with discrete Gaussian noise. `rho` is the budget of zero-concentrated differential privacy
# for one count of that level: the larger, the less noise (variance 1 / (2 rho)).

# %%
rho = {"block": 0.1, "group": 0.1, "tract": 0.1}
plan = [adv.Level(name, adv.DiscreteGaussian.from_rho(value)) for name, value in rho.items()]
risks = adv.audit_table(counts, plan, rng=0)
risks[["block", "cell", "count", "target", "prior", "posterior_mean", "posterior_high", "bound"]].head(6).round(4)

# %% [markdown]
# One row for each cell, worst first. The adversary starts from even odds that one person is in the cell (`prior`) and
# knows everybody else in it. `posterior_mean` is their probability after the release, averaged over the noise;
# `posterior_high` is exceeded in one release of twenty; `bound` is the most that the plan's own privacy loss allows
# any adversary of this prior whose beliefs about everybody else do not depend on the person, but for one release of
# twenty. Where a cell is empty, the person is not in it (`target` is "out").

# %%
worst = risks.iloc[::-1]
figure, ax = plt.subplots(figsize=(7.5, 4.6))
names = [f"{row.block}, {row.cell}" for row in worst.itertuples()]
ax.plot(worst.posterior_high, names, "|", color="#0072B2", ms=12, label="exceeded in one release of twenty")
ax.plot(worst.posterior_mean, names, "o", color="#0072B2", label="after the release, on average")
ax.axvline(0.5, color="#D55E00", label="before")
ax.axvline(float(risks.bound.iloc[0]), color="#222222", lw=1, label="bound")
ax.set(xlabel="probability that the person is in the cell", title="No cell comes near the bound")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.62, 0.02))
plt.show()

# %% [markdown]
# ## How much noise is enough?
#
# The same table under five budgets, spent evenly on the three levels:

# %%
rows = []
for total in (0.03, 0.1, 0.3, 1.0, 3.0):
    noise = adv.DiscreteGaussian.from_rho(total / 3)
    found = adv.audit_table(counts, [adv.Level(name, noise) for name in rho], rng=0)
    rows.append((total, found.posterior_mean.max(), found.posterior_high.max(), found.bound.max()))
pd.DataFrame(rows, columns=["rho in all", "worst cell, on average", "one release of twenty", "bound"]).round(3)

# %% [markdown]
# ## Another adversary
#
# Somebody who gives the person a chance of one in a hundred to begin with, and expects about 10 more people of a kind
# in the group and 40 in the tract:

# %%
sceptic = adv.Adversary(0.01, beliefs={"group": stats.poisson(10), "tract": stats.poisson(40)})
found = adv.audit_table(counts, plan, sceptic, rng=0)
found[["block", "cell", "count", "prior", "posterior_mean", "ratio_mean", "bound"]].head(4).round(4)

# %% [markdown]
# The first table of this page on the command line, rho 0.1 at each of the three levels, with a page for others to
# read. One number, as in `--rho 0.3`, is the budget in all: it is split evenly over the levels, and the answer says so.
#
# ```sh
# uv run adversary table data/town_counts.csv --rho 0.1,0.1,0.1 --levels block,group,tract --seed 0 --out found
# ```
#
# Next: [one person in one block](01_one_person_in_one_block.ipynb) shows what stands behind these numbers.
