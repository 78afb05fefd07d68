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

# %% tags=["hide-input"]
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import adversary as adv

adv.plot.style()
here = [folder for folder in (Path("data"), Path("../data")) if folder.is_dir()]
people = pd.read_csv(here[0] / "districts.csv", dtype=str)
noise = adv.DiscreteGaussian.from_rho
tables = [
    adv.PublishedTable(["district", "age", "sex"], noise(0.3)),
    adv.PublishedTable(["district"], noise(0.1), name="district totals"),
    adv.PublishedTable(["region", "age"], noise(0.1)),
]
by_knowledge = {
    knows: adv.audit_tables(
        people, tables, adv.TableAdversary(0.1, knows), rng=0
    )
    for knows in ("everybody", "cell", "nobody")
}
names = {
    "everybody": "everybody else in the file",
    "cell": "everybody else in the cell",
    "nobody": "nobody",
}
figure, ax = plt.subplots(figsize=(7.2, 3.2))
for y, risks in zip((2, 1, 0), by_knowledge.values(), strict=True):
    worst = risks.iloc[0]
    ax.plot(
        [worst.posterior_low, worst.posterior_high], [y, y], "C0", lw=12,
        alpha=0.22, solid_capstyle="butt",
    )  # fmt: skip
    ax.plot(worst.posterior_mean, y, "o", color="C0", ms=8)
    ax.annotate(
        f"{worst.posterior_mean:.0%}", (worst.posterior_mean, y), (0, 11),
        textcoords="offset points", ha="center", color="C0",
    )  # fmt: skip
bound = float(risks.bound.max())
ax.axvline(0.1, color="#1F2933", lw=1.2)
ax.axvline(bound, color="#1F2933", lw=1.4, ls=(0, (5, 2)))
top = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
ax.annotate("before", (0.1, 1), (4, -4), va="top", **top)
ax.annotate(
    f"bound, {bound + 5e-4:.1%}",
    (bound, 1),
    (-4, -4),
    va="top",
    ha="right",
    **top,
)
worst = by_knowledge["everybody"].iloc[0]
ax.annotate(
    "9 of 10 releases",
    (worst.posterior_high, 2),
    (-2, -20),
    ha="right",
    textcoords="offset points",
    color="C0",
)
ax.set_yticks([2, 1, 0], names.values())
ax.set(xlim=(0, 0.65), ylim=(-0.5, 2.7))
ax.set_xlabel("probability that the person is in the cell")
ax.set_ylabel("the adversary knows")
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
ax.xaxis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "Whoever knows everybody else goes from 10% to 19% on average",
    "The riskiest cell of three noisy tables, rho 0.5 in all",
    shape="Three rows of intervals by what the adversary knows; all end below "
    "the bound of 58.4%.",
)
plt.show()

# %% [markdown]
# **In short.** Three noisy tables of one file of 765 people, rho 0.5 in all, and an adversary who gives one person a
# chance of 10% to be in a cell:
#
# - Knowing everybody else in the cell, they end at 17% on average and above 39% in 1 of 20 releases. Knowing everybody
#   else in the file: 19% and 48%. Knowing nobody: 10%, as before.
# - No adversary of this prior can pass 58.4%, except in 1 of 20 releases, whatever else they know.
# - Twice the budget takes the 17% to 24%, six times the budget to 50%.

# %% [markdown]
# ## What will be published
#
# The file has a row for each cell: where, who, and how many people. Replace it by your own: a row for each person, a
# row for each cell, or a column for each cell are all understood.

# %%
from pathlib import Path

import pandas as pd

import adversary as adv

data = Path("data") if Path("data").is_dir() else Path("../data")
people = pd.read_csv(data / "districts.csv", dtype=str)
people.head(4)

# %% [markdown]
# Three tables are planned: districts by age and sex, district totals, and regions by age. Each count gets discrete
# Gaussian noise. `rho` is the budget of zero-concentrated differential privacy (zCDP) of one count: the larger, the
# less noise (variance 1 / (2 rho)). One person is in one count of each table, so the budgets add up: 0.3 + 0.1 + 0.1
# is rho 0.5 in all.

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

# %%
shown = ["district", "sex", "age", "count", "target"]
shown += ["prior", "posterior_mean", "posterior_high", "bound"]
risks[shown].iloc[[0, 1, 2, -1]].round(3)

# %% [markdown]
# Each row is one cell of people whom no table tells apart; the riskiest come first, and the last row is the least. The
# adversary knows everybody else in the cell and gives one more person a chance of 10% to be there (`prior`). After the
# release the probability is `posterior_mean` on average and above `posterior_high` in 1 of 20 releases. No adversary
# can pass `bound` except with 5% probability, as long as their beliefs about everybody else do not depend on the
# person. In empty cells the person is truly absent (`target` "out"), so a *lower* posterior means that the adversary
# learned more.
#
# All cells with people are alike here: whoever knows everybody else in a cell sees the person through the same noise,
# wherever they are.
#
# ## What the adversary knows of others matters
#
# The same release, to somebody who knows everybody else in the file, everybody else in the cell, or nobody. This is
# the figure on top.

# %%
known = {
    knows: adv.TableAdversary(0.1, knows)
    for knows in ("everybody", "cell", "nobody")
}
by_knowledge = {
    knows: adv.audit_tables(people, tables, who, rng=0)
    for knows, who in known.items()
}
worst = {knows: risk.iloc[0] for knows, risk in by_knowledge.items()}
pd.DataFrame(worst).T[["posterior_mean", "posterior_high"]].astype(float).round(
    3
)

# %% tags=["remove-cell"]
largest = {name: one["posterior_mean"] for name, one in worst.items()}
assert largest["everybody"] >= largest["cell"] >= largest["nobody"] - 1e-9
assert [round(one, 2) for one in largest.values()] == [0.19, 0.17, 0.10]
assert round(worst["cell"]["posterior_high"], 2) == 0.39
assert round(worst["everybody"]["posterior_high"], 2) == 0.48
assert 0.583 < risks.bound.max() < 0.584

# %% [markdown]
# ## How much noise is enough?
#
# The same tables under four budgets, divided as above:

# %%
rows = []
for total in (0.1, 0.5, 1.0, 3.0):
    planned = [
        adv.PublishedTable(table.by, noise(total * share), table.name)
        for table, share in zip(tables, (0.6, 0.2, 0.2), strict=True)
    ]
    risk = adv.audit_tables(people, planned, adversary, rng=0)
    worst = risk[["posterior_mean", "posterior_high", "bound"]].max()
    rows.append({"rho in all": total} | worst.to_dict())
budgets = pd.DataFrame(rows).set_index("rho in all")
budgets.round(3)

# %% tags=["remove-cell"]
assert budgets["posterior_mean"].round(2).tolist() == [0.11, 0.17, 0.24, 0.50]

# %% [markdown]
# ## The same on the command line
#
# The first table of this page, budget for budget, with a page for others to read. A place that is no column, such as
# "country", is the whole file.
#
# ```sh
# uv run adversary tables data/districts.csv --prior 0.1 --table "district: age x sex, rho 0.3" \
#   --table "district: total, rho 0.1" --table "region: age, rho 0.1" --out audit
# ```
#
# `adversary plan` goes the other way: from a tolerated risk to the noise of each table.
#
# Next: [one person in one block](one_person_in_one_block.ipynb) shows what stands behind these numbers.
