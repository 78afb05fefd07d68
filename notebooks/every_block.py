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
# # Every block of a county

# %% tags=["hide-input"]
# %matplotlib inline
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import adversary as adv

adv.plot.style()
nmf, spine = adv.nmf, adv.spine
folder = tempfile.TemporaryDirectory()
recipe = nmf.Recipe(
    blocks=2000,
    counties=1,
    seed=7,
    shape=(2, 2, 2, 7),
    queries=("TOTAL", "DETAILED"),
)
file = nmf.synthesise(Path(folder.name) / "county", recipe)
read = nmf.read(file, "DETAILED", cells=(0, 1, 0, 2), state="99")
tree, rho = read.tree, read.rho
ratio = (
    spine.posterior(tree, read.released, rho)
    .membership(prior=0.1)["ratio"]
    .values
)
noisy = np.isfinite(rho[tree.leaves])
tract = tree.parent[tree.parent[tree.leaves]]
rows = np.unique(tract, return_inverse=True)[1]
place = np.arange(rows.size) - np.searchsorted(rows, rows)
area = np.full((rows.max() + 1, place.max() + 1), np.nan)
area[rows, place] = np.where(noisy, ratio, np.nan)
figure, ax = plt.subplots(figsize=(7.2, 4.0))
image = ax.imshow(
    np.log2(area),
    aspect="auto",
    cmap="RdBu_r",
    vmin=-1.5,
    vmax=1.5,
    interpolation="nearest",
)
ax.set(xlabel="block within the tract", ylabel="tract")
bar = figure.colorbar(image, ax=ax, ticks=[-1, 0, 1])
bar.ax.set_yticklabels(["halved", "unmoved", "doubled"])
adv.plot.headline(
    ax,
    "In 96 of 100 blocks the adversary's probability grows by less than half",
    "Posterior over prior (10%) of one more person in each of 1,658 blocks",
    shape="A map of small squares, mostly pale; a few are dark, stripes are "
    "block groups.",
)
plt.show()

# %% [markdown]
# **In short.** The 2020 Census published its noisy measurements: counts of every block, block group, tract, county and
# state. Here is a whole county at once, made up, as no real person should be the example:
#
# - An adversary who does not know the others in a block, and gives one more person 10%, is moved up by less than half
#   in 96 of 100 blocks with housing, and in no block beyond the bound, 4.54 times.
# - The exact posterior of every count, from all levels together, is off by 1.6 people per block (root mean square);
#   least squares by 2.8.
# - 17% of blocks have no housing: no noise protects what exact counts settle there.

# %% [markdown]
# ## Make a file and read one cell of it
#
# Layout, budget and noise are those of the redistricting release. Two queries are enough: the total, and the detailed
# histogram (here of 2 x 2 x 2 x 7 cells rather than 2,016). The cell is adults of one ethnicity and the third race, in
# households.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import adversary as adv

nmf, spine = adv.nmf, adv.spine
folder = tempfile.TemporaryDirectory()
recipe = nmf.Recipe(
    blocks=2000,
    counties=1,
    seed=7,
    shape=(2, 2, 2, 7),
    queries=("TOTAL", "DETAILED"),
)
file = nmf.synthesise(Path(folder.name) / "county", recipe)
cell = (0, 1, 0, 2)
read = nmf.read(file, "DETAILED", cells=cell, state="99")
tree, released, rho = read.tree, read.released, read.rho
truth = nmf.truth_of(file, tree.names, read.query, read.cells)[:, 0]
truth = truth.astype(int)
print(read.labels[0])

level = np.asarray(tree.levels)[tree.level]
measured = (rho > 0) & np.isfinite(rho)
units = pd.DataFrame(
    {
        "units": 1,
        "measured": measured,
        "known exactly": np.isinf(rho),
        "empty": truth == 0,
    }
)
units.groupby(level, sort=False).sum()

# %% [markdown]
# ## The posterior of every count
#
# Leaf counts have a prior; every other count is a sum. `posterior` combines all measurements exactly: there is no
# sampling, and what was left out of the sums is proven to be less than `truncation_bound`. The prior, that of
# `posterior` if none is given, says that each block group has a rate of its own, which nobody knows: negative binomial
# counts, a grid of eleven rates, integrated exactly.

# %%
found = spine.posterior(tree, released, rho, spine.SharedRate())
print(f"{len(tree):,} units: {found.status}")
print("left out: less than 1e-12" if found.truncation_bound < 1e-12 else "?")

# %% tags=["remove-cell"]
assert found.status == "ok"
assert found.truncation_bound < 1e-12
sums = np.zeros(len(tree))
np.add.at(sums, tree.parent[1:], found.mean.values[1:])
inner = tree.children > 0
assert np.allclose(sums[inner], found.mean.values[inner], rtol=1e-9)

# %% tags=["hide-input"]
block = tree.names[tree.leaves[np.argmax(released[tree.leaves])]]
here = tree.index(block)
pmf = found.pmf(block)
counts, chance = pmf["count"].values, pmf.values
cumulative = np.cumsum(chance)
low, high = (int(counts[np.searchsorted(cumulative, q)]) for q in (0.05, 0.95))
figure, ax = plt.subplots()
ax.bar(counts, chance, color="C0", width=0.8)
top = 1.06 * chance.max()
ax.axvline(truth[here], color="#1F2933", lw=1.4)
ax.axvline(released[here], color="C1", lw=1.4, ls=(0, (5, 2)))
ax.annotate(
    f"truth: {truth[here]}",
    (truth[here], top),
    (-5, 0),
    textcoords="offset points",
    ha="right",
)
ax.annotate(
    f"noisy count: {released[here]:.0f}",
    (released[here], top),
    (5, 0),
    textcoords="offset points",
    color="C1",
)
ax.set(
    xlabel="people in the block",
    ylabel="posterior probability",
    ylim=(0, 1.15 * chance.max()),
)
adv.plot.in_percent(ax.yaxis)
adv.plot.headline(
    ax,
    "The block with the largest noisy count, 78, holds 76 people",
    f"The model gives 9 of 10 of its probability to {low} to {high}",
    shape="Bars of a bell-shaped posterior around 77.",
)
plt.show()

# %% tags=["remove-cell"]
assert (truth[here], round(float(released[here]))) == (76, 78)
assert (low, high) == (72, 82)

# %% [markdown]
# The mean of a sum is the sum of the means, at every unit, although nothing forced the noisy counts to add up.
#
# ## What an adversary learns in every block
#
# One adversary for each block: they do not know the others in it, believe of them what the prior says, given everything
# else that was published, and give one more person a probability of 10%. A person more or less in a block moves one
# count at each level, so the guarantee is zero-concentrated DP with the sum of rho along the path.

# %%
path = np.where(np.isfinite(rho), rho, 0.0)
for unit in range(1, len(tree)):  # parents come first
    path[unit] += path[tree.parent[unit]]
noisy = np.isfinite(rho[tree.leaves])
guarantee = adv.ZeroConcentratedDP(path[tree.leaves][noisy].max())
low, high = guarantee.ratio_bounds(0.1, 0.05)

members = found.membership(prior=0.1)
ratio = members["ratio"].values[noisy]
print(
    f"rho of a path {guarantee.rho:.3f}: ratio {low:.3f} to {high:.2f} allowed"
)
print(f"reached: {ratio.min():.2f} to {ratio.max():.2f}")
print(f"below 1.5 in {np.mean(ratio < 1.5):.0%} of blocks")
print(f"no housing, so no noise: {np.mean(~noisy):.0%} of blocks")

# %% tags=["remove-cell"]
assert not ((ratio < low) | (ratio > high)).any()
assert round(float(guarantee.rho), 3) == 0.249
assert high < 4.54
assert round(np.mean(ratio < 1.5), 2) == 0.96

# %% tags=["hide-input"]
adv.plot.block_ratios(
    {"ratio": ratio}, (low, high), threshold=1.5, failure=0.05
)
plt.show()

# %% [markdown]
# In the map on top, blocks are in the order of the tree, one row for each tract. Single blocks stand out where their
# own noise happened to be large; stripes are block groups, whose noise all of their blocks share.
#
# An adversary who knows everybody else in the block, as an agency may that has its own counts, learns more where blocks
# are large. The bound covers that adversary too, as long as they are right. One who takes every block to be empty is
# wrong wherever people live, and is carried far beyond the bounds. The guarantee is not broken: the release contradicts
# what they claim to know, and `tail`, the posterior probability of counts as low as that, says so.

# %%
others = truth[tree.leaves]
right = found.membership(prior=0.1, known=others)
wrong = found.membership(prior=0.1, known=0)
print(
    f"knows the others: largest ratio {right['ratio'].values[noisy].max():.2f}"
)
beyond = (wrong["ratio"].values > high) & noisy
mistaken = wrong["tail"].values < 1e-3
print(f"takes all to be empty: beyond the bound in {beyond.sum()} blocks,")
print(f"and mistaken beyond doubt in {(beyond & mistaken).sum()} of them")

# %% tags=["remove-cell"]
strong = right["ratio"].values[noisy]
assert np.mean((strong > high) | (strong < low)) <= 0.05
assert beyond.sum() > 0
assert others[beyond].min() > 0
assert (beyond & mistaken).sum() == beyond.sum()

# %% [markdown]
# ## The prior matters
#
# A flat prior on every block says nothing about one block and a lot about sums: n of them put weight s^(n - 1) on a
# total s. In a county of mostly empty blocks that adds up. A rate per block group keeps what blocks say about one
# another and leaves the sums to the measurements. Least squares, from which agencies publish tables, is unbiased and
# does not know that counts are not negative.

# %%
flat = spine.posterior(tree, released, rho, spine.Flat())
squares = spine.least_squares(tree, released, rho)
estimates = {
    "rate per block group": found.mean.values,
    "flat": flat.mean.values,
    "least squares": squares["mean"].values,
    "noisy count": np.where(measured, released, np.nan),
}
wanted = ["State", "Tract", "Block_Group", "Block"]
errors = pd.DataFrame(
    {name: (one - truth) ** 2 for name, one in estimates.items()}
)
rmse = errors.groupby(level).mean().loc[wanted] ** 0.5
rmse.round(1)

# %% [markdown]
# How often do intervals of 90% hold the truth?

# %%
reach = 1.645 * squares["sd"].values
covered = pd.DataFrame(
    {
        "rate per block group": found.covers(truth, 0.9),
        "flat": flat.covers(truth, 0.9),
        "least squares": np.abs(squares["mean"].values - truth) <= reach + 1e-9,
    }
)
cover = covered.groupby(level).mean().loc[wanted[1:]]
cover.map("{:.0%}".format)

# %% tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.2, 3.4))
shift = {"rate per block group": 0.18, "flat": 0.0, "least squares": -0.18}
marks = dict(zip(shift, ("C0", "C1", "C2"), strict=True))
for name, one in cover.items():
    y = np.arange(3)[::-1] + shift[name]
    units = np.array([24, 62, 2000])
    error = 2 * np.sqrt(one * (1 - one) / units)
    ax.errorbar(one, y, xerr=error, fmt="o", color=marks[name], elinewidth=1.2)
    ax.annotate(
        name,
        (float(one.iloc[0]) - float(error.iloc[0]), y[0]),
        (-6, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        color=marks[name],
    )
ax.axvline(0.9, color="#1F2933", lw=1.2, ls=(0, (5, 2)))
ax.set_yticks([2, 1, 0], ["24 tracts", "62 block groups", "2,000 blocks"])
ax.set(
    xlim=(0.5, 1.01),
    ylim=(-0.5, 2.6),
    xlabel="units whose 90% interval holds the truth",
)
adv.plot.in_percent(ax.xaxis)
adv.plot.headline(
    ax,
    "With a flat prior, 90% intervals hold the truth in 79% of tracts",
    "Two standard errors; dashed: 90%; one tract of 24 is 4 points",
    shape="Three rows of three dots; those of the flat prior lie lowest among "
    "tracts.",
)
plt.show()

# %% tags=["remove-cell"]
assert cover["rate per block group"].round(2).tolist() == [0.88, 0.92, 0.94]
assert round(cover["flat"].iloc[0], 2) == 0.79
assert (
    rmse.loc["Block", "rate per block group"]
    < 0.75 * rmse.loc["Block", "least squares"]
)
assert (
    rmse.loc["Block_Group", "flat"]
    > 1.15 * rmse.loc["Block_Group", "rate per block group"]
)
assert rmse.loc["Block", ["rate per block group", "least squares"]].round(
    1
).tolist() == [1.6, 2.8]
excess = (flat.mean.values[0] - squares["mean"].values[0]) / float(
    squares["sd"][0]
)
assert excess > 1.0
leaf = tree.leaves[noisy]
moved = np.sqrt(np.mean((found.mean.values[leaf] - released[leaf]) ** 2))
assert round(float(moved), 1) == 2.5
assert round(float(np.mean(released[leaf] < 0)), 1) == 0.3

# %% [markdown]
# Sets of whole numbers hold a little more than 90% by themselves. The model corrects block counts by 2.5 people (root
# mean square); 30% of them had been published negative.
#
# ## Exact totals
#
# State populations are published as they are. An exact count is a measurement with infinite rho; whatever else is
# computed then adds up to it. Somebody else must then make up for a person more: two records change together.

# %%
exact = rho.copy()
exact[0] = np.inf
held = spine.posterior(
    tree, np.where(np.isinf(exact), truth, released), exact, spine.SharedRate()
)
total = held.mean.values[tree.leaves].sum()
print(f"state total {truth[0]:,}, sum of all block means {total:,.0f}")
twice = adv.ZeroConcentratedDP(2 * guarantee.rho)
print(f"largest ratio allowed: {twice.ratio_bounds(0.1, 0.05)[1]:.2f}")

# %% tags=["remove-cell"]
assert abs(total - truth[0]) < 1e-6
assert float(held.sd[0]) == 0.0

# %% [markdown]
# ## What it costs
#
# Time per node does not depend on the size of the tree, so the nation can be extrapolated: 8.1 million blocks, about 4%
# more units above them, and 2,016 cells. It was **not** run. The estimate takes the cells of a nation to cost what this
# cell of a made-up county costs, cores to be as fast as this one and never to wait for one another, and leaves out
# reading and writing.

# %% tags=["measured"]
import time

recipe = nmf.Recipe(6000, 1, 7, (2, 2, 2, 7), ("TOTAL", "DETAILED"))
larger = nmf.synthesise(Path(folder.name) / "larger", recipe)
one = nmf.read(larger, "DETAILED", cells=cell, state="99")
began = time.perf_counter()
spine.posterior(one.tree, one.released, one.rho).membership(0.1)
each = (time.perf_counter() - began) / len(one.tree)
nation = each * 8.1e6 * 1.04
print(f"{1e6 * each:.0f} microseconds a node")
print(f"the nation: {nation / 60:.0f} minutes a cell on one core,")
print(f"{2016 * nation / 3600 / 64:.0f} hours for all cells on 64 cores")

# %% tags=["remove-cell"]
folder.cleanup()

# %% [markdown]
# `adversary spine` does all of this county by county, on many cores, goes on where it was interrupted, and makes a page
# for somebody who was not here.
#
# ## What this does not say
#
# The bound is for adversaries whose belief about everybody else is right: look at `known` before you look at a map. It
# is about the one query that was read; [One county, every query](one_county_every_query.ipynb) reads all of them.
