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
#
# The 2020 Census published its noisy measurements: counts of every block, block group, tract, county and state, each
# with noise of a known law. So far we followed one path through such a tree. Here is the whole tree at once:
#
# 1. the exact posterior of every count, from the noisy counts of all levels together;
# 2. in every block, what an adversary learns about one more person: one who does not know the others there, and one who
#    does;
# 3. what the prior is worth, measured against the truth and against least squares;
# 4. what it costs, and what the nation would take.
#
# The county is made up, as no real person should be the example. Layout, budget and noise are those of the
# redistricting release of 2020.

# %%
# %matplotlib inline
import os
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import adversary as adv
from adversary import nmf
from adversary.census.nmf.runs import findings
from adversary.census.nmf.runs.block_results import errors, path_guarantee, results
from adversary.census.report import spine_answer, spine_page
from adversary.report.kit import write

spine = adv.spine
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"

# %% [markdown]
# ## Make a file and read one cell of it
#
# Two queries are enough: the total, and the detailed histogram (here of 2 x 2 x 2 x 7 cells rather than 2,016). The
# cell is adults of one ethnicity and the third race, in households.

# %%
folder = tempfile.TemporaryDirectory()
file = nmf.synthesise(
    Path(folder.name) / "county",
    nmf.Recipe(blocks=2000, counties=1, seed=7, shape=(2, 2, 2, 7), queries=("TOTAL", "DETAILED")),
)
read = nmf.read(file, "DETAILED", cells=(0, 1, 0, 2), state="99")
tree, released, rho = read.tree, read.released, read.rho
print(read.labels[0], "-", *read.exact)
truth = nmf.truth_of(file, tree.names, read.query, read.cells)[:, 0].astype(int)
level = np.asarray(tree.levels)[tree.level]
pd.DataFrame(
    {
        "units": pd.Series(level).value_counts(sort=False),
        "measured": pd.Series((rho > 0) & np.isfinite(rho)).groupby(level, sort=False).sum(),
        "known exactly": pd.Series(np.isinf(rho)).groupby(level, sort=False).sum(),
        "sd of the noise": pd.Series(np.sqrt(0.5 / np.maximum(rho, 1e-9)))
        .where((rho > 0) & np.isfinite(rho))
        .groupby(level)
        .median(),
        "empty, %": pd.Series(100.0 * (truth == 0)).groupby(level).mean(),
    }
).reindex(tree.levels).round(2)

# %% [markdown]
# ## The posterior of every count
#
# Leaf counts have a prior; every other count is a sum. `posterior` combines all measurements exactly: there is no
# sampling, and what was left out of the sums is proven to be less than `truncation_bound`.
#
# The prior, that of `posterior` if none is given, says that each block group has a rate of its own, which nobody knows:
# negative binomial counts, a grid of eleven rates, integrated exactly. `fit_rate_prior` could learn the weights of the
# grid; equal ones do.
#
# The mean of a sum is the sum of the means, at every unit, although nothing forced the noisy counts to add up:

# %%
prior = spine.SharedRate()
found = spine.posterior(tree, released, rho, prior)
print(found)
print("proven bound on everything left out:", found.truncation_bound, "-", found.status)
assert found.status == "ok"
assert found.truncation_bound < 1e-10

sums = np.zeros(len(tree))
np.add.at(sums, tree.parent[1:], found.mean.values[1:])
inner = tree.children > 0
print("largest difference between a mean and the sum of its parts:", np.abs(sums - found.mean.values)[inner].max())
assert np.allclose(sums[inner], found.mean.values[inner], rtol=1e-9)

block = tree.names[tree.leaves[np.argmax(released[tree.leaves])]]
pmf = found.pmf(block)
figure, ax = plt.subplots()
ax.bar(pmf["count"], pmf, color=BLUE, width=0.8)
ax.axvline(released[tree.index(block)], color=ORANGE, ls="--", label="noisy count")
ax.axvline(truth[tree.index(block)], color=GREY, label="truth")
ax.set(xlabel=f"people in block {block}", ylabel="posterior probability", title="The largest noisy count")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What an adversary learns in every block
#
# One adversary for each block: they do not know the others in it, believe of them what the prior says, given everything
# else that was published, and give one more person a probability of 10 %. Beside the answer stands what the noise
# guarantees: a person more or less in a block moves one count at each level, so the guarantee is zero-concentrated DP
# with the sum of rho along the path.

# %%
others = truth[tree.leaves]
members = found.membership(prior=0.1)
table = results(released, rho, found, members, cell=int(read.cells[0]))
promised = path_guarantee(table)
low, high = promised.ratio(0.1)
ratio = members["ratio"].values
noisy = np.isfinite(rho[tree.leaves])
outside = np.mean(((ratio < low) | (ratio > high))[noisy])
print(f"rho of the path {promised.rho:.4f}; ratio within {low:.3f} to {high:.3f}, but for 5 % of releases")
print(f"blocks outside: {100 * outside:.2f} %; average of the posterior {members['posterior'].values.mean():.4f}")
assert outside <= 0.05
assert outside == 0
assert set(table["status"]) <= {"ok", "certain"}  # proven, or settled by what is known exactly
print(f"{np.mean(~noisy):.1%} of blocks have no housing: no noise protects what is asked there")
adv.plot.block_ratios(table, (low, high), threshold=1.5, failure=0.05)

# %% [markdown]
# An adversary who knows everybody else in the block, as an agency may that has its own counts, learns more where blocks
# are large. The bound covers that adversary too, as long as they are right.
#
# Had the person been there, every count above would have been one higher, and so would the same noise have been
# published. For ten blocks, one at a time, with the same noise: the log Bayes factor moves up by about 2 rho of the
# block itself where the levels above say little, since the other counts are unknown; and by up to 2 rho of the whole
# path where the rest of the block group is all but known, as it is where its other blocks are plainly empty.

# %%
knowing = found.membership(prior=0.1, known=others)
strong = knowing["ratio"].values
print(f"largest ratio: {ratio.max():.2f} for who does not know the others, {strong.max():.2f} for who does")
print(f"beyond the bound of {high:.2f}: {100 * np.mean(strong[noisy] > high):.2f} %")
assert np.mean((strong[noisy] > high) | (strong[noisy] < low)) <= 0.05

moved = []
for leaf in tree.leaves[noisy][:: int(noisy.sum()) // 10][:10]:
    path, v = np.zeros(len(tree)), int(leaf)
    while v >= 0:
        path[v], v = 1.0, int(tree.parent[v])
    there = spine.posterior(tree, released + path, rho, prior).membership(prior=0.1, known=others)
    here = int(np.flatnonzero(tree.leaves == leaf)[0])
    moved.append((tree.names[leaf], 2 * rho[leaf], *(float(m["log_bayes_factor"][here]) for m in (knowing, there))))
frame = pd.DataFrame(moved, columns=["block", "2 rho of the block", "not there", "there"]).set_index("block")
assert (frame["there"] > frame["not there"]).all()
frame.round(3)

# %% [markdown]
# A map of the risk: blocks in the order of the tree, one row for each tract, darker where more is learned. Single
# blocks stand out where their own noise happened to be large; stripes are block groups, whose noise all of their blocks
# share.

# %%
tract = tree.parent[tree.parent[tree.leaves]]
rows = np.unique(tract, return_inverse=True)[1]
place = np.arange(rows.size) - np.searchsorted(rows, rows)
area = np.full((rows.max() + 1, place.max() + 1), np.nan)
area[rows, place] = np.where(noisy, ratio, np.nan)
figure, ax = plt.subplots(figsize=(10, 3.6))
shown = ax.imshow(np.log2(area), aspect="auto", cmap="RdBu_r", vmin=-1.5, vmax=1.5, interpolation="nearest")
ax.set(xlabel="block within the tract", ylabel="tract", title="Posterior over prior, block by block")
bar = figure.colorbar(shown, ax=ax, ticks=[-1, 0, 1])
bar.ax.set_yticklabels(["halved", "unmoved", "doubled"])
plt.show()

# %% [markdown]
# An adversary who takes every block to be empty is another matter. Where people live they are wrong about everybody
# else, and are carried far beyond the bounds. The guarantee is not broken: the release contradicts what they claim to
# know, and the posterior probability of counts as low as that says so. Such blocks are listed apart, never among the
# worst.

# %%
naive = found.membership(prior=0.1, known=0)
beyond, mistaken = (naive["ratio"].values > high) & noisy, naive["tail"].values < 1e-3
print(f"beyond the bound: {beyond.sum()} blocks, of which {(beyond & mistaken).sum()} are mistaken beyond doubt")
assert beyond.sum() > 0
assert others[beyond].min() > 0

# %% [markdown]
# ## The prior matters
#
# A flat prior on every block says nothing about one block and a lot about sums: n of them put weight s^(n - 1) on a
# total s. In a county of mostly empty blocks that adds up. A rate per block group keeps what blocks teach one another
# and leaves the sums to the measurements. Least squares, from which agencies publish tables, is unbiased and does not
# know that counts are not negative.

# %%
flat = spine.posterior(tree, released, rho, spine.Flat())
squares = spine.least_squares(tree, released, rho)
estimates = {"rate per block group": found, "flat": flat, "least squares": squares, "noisy count": released}
checked = errors(tree, truth, estimates)
checked["rmse"].to_pandas().round(2)

# %% [markdown]
# How often intervals of 90 % hold the truth. Sets of whole numbers hold more than they are asked for, so the fair
# comparison is with the probability they claim (right).

# %%
checked[["coverage", "claimed"]].to_array("of").plot.line(
    x="level", hue="estimate", col="of", marker="o", figsize=(9, 3.2)
)
plt.show()

blocks = checked.sel(level="Block")["rmse"]
assert blocks.sel(estimate="rate per block group") < 0.75 * blocks.sel(estimate="least squares")
groups = checked.sel(level="Block_Group")
assert groups["rmse"].sel(estimate="flat") > 1.15 * groups["rmse"].sel(estimate="rate per block group")
excess = (flat.mean.values[0] - squares["mean"].values[0]) / float(squares["sd"][0])
print("mean error of a block group:", groups["bias"].to_series().round(2).to_dict())
print(f"flat, above least squares at the state: {excess:.1f} standard deviations")
assert excess > 1.0
adv.plot.shrinkage(table)

# %% [markdown]
# ## Exact totals
#
# State populations are published as they are. An exact count is a measurement with infinite rho; whatever else is
# found then adds up to it.

# %%
exact = rho.copy()
exact[0] = np.inf
held = spine.posterior(tree, np.where(np.isinf(exact), truth, released), exact, prior)
total = held.mean.values[tree.leaves].sum()
print(f"state total {truth[0]}, sum of all block means {total:.9f}, sd of the state {float(held.sd[0])}")
assert abs(total - truth[0]) < 1e-6
assert float(held.sd[0]) == 0.0
within = results(np.where(np.isinf(exact), truth, released), exact, held, held.membership(0.1, others))
beside = path_guarantee(within)
print(f"records that change together: {beside.records}; largest ratio promised {beside.ratio(0.1)[1]:.2f}")
assert beside.records == 2

# %% [markdown]
# ## What it costs
#
# Time per node should not depend on the size of the tree. Three counties, the same cell, everything computed (the
# posterior of every unit, the answer in every block), compilation apart.
#
# ### The nation: an extrapolation
#
# There are 8.1 million blocks, and about 4 % more units above them; the detailed query has 2,016 cells. What follows
# multiplies the slope above by those numbers. It was **not** run. It takes the cells of a nation to cost what this cell
# of a made-up county costs (emptier cells are cheaper, crowded ones dearer), cores to be as fast as this one and never
# to wait for one another, and leaves out reading and writing. Counties are independent but for one message up and one
# down, and cells entirely, so there is enough to share out.

# %% tags=["measured"]
rows = []
for number in (2000, 6000, 18000):
    made = nmf.synthesise(
        Path(folder.name) / f"of {number}", nmf.Recipe(number, 1, 7, (2, 2, 2, 7), ("TOTAL", "DETAILED"))
    )
    one = nmf.read(made, "DETAILED", cells=(0, 1, 0, 2), state="99")
    times = []
    for _ in range(3):
        began = time.perf_counter()
        spine.posterior(one.tree, one.released, one.rho, prior).membership(0.1)
        times.append(time.perf_counter() - began)
    rows.append((number, len(one.tree), min(times)))
cost = pd.DataFrame(rows, columns=["blocks", "nodes", "seconds"])
cost["microseconds per node"] = 1e6 * cost.seconds / cost.nodes
cost.round(3)

slope, start = np.polyfit(cost.nodes, cost.seconds, 1)
figure, ax = plt.subplots()
ax.plot(cost.nodes, cost.seconds, "o", color=BLUE, label="measured")
ax.plot(cost.nodes, start + slope * cost.nodes, color=GREY, lw=1, label=f"{1e6 * slope:.0f} microseconds per node")
ax.set(xlabel="nodes", ylabel="seconds", title="Cost grows with the number of nodes", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

nodes = 8.1e6 * 1.04
one_cell = slope * nodes
plan = pd.DataFrame({"cores": [1, 8, 64, 512, 2048]})
plan["one cell, minutes"] = one_cell / 60 / plan.cores
plan["all 2,016 cells, hours"] = 2016 * one_cell / 3600 / plan.cores
print(f"this machine has {os.cpu_count()} cores; an extrapolation from {cost.nodes.max():,} nodes to {nodes:,.0f}")
plan.round(2)

# %% [markdown]
# ## The page
#
# Everything above, for somebody who was not here:

# %% tags=["measured"]
about = {
    "directory": "a made-up county", "query": read.query, "prior": 0.1, "tolerance": 1e-10, "synthetic": True,
    "leaf_prior": "negative binomial, one of eleven rates for each block group",
    "exact": list(read.exact), "notes": list(read.notes),
}  # fmt: skip
cell = spine_answer.Cell(0, read.labels[0], findings([table]))
document = spine_page.document(*spine_answer.gather([cell], about, errors=checked))
for path in write(document, Path(folder.name)):
    print(path.name, f"{path.stat().st_size / 1024:.0f} KiB")
folder.cleanup()

# %% [markdown]
# ## In short
#
# - `adv.spine.posterior(tree, released, rho)` is the law of every count at once; `.membership(prior)` what one
#   adversary in each block learns, who does not know the others unless `known` is given; `.truncation_bound` what was
#   left out, proven.
# - Leave the sums to the measurements: a rate per block group, not a flat prior.
# - The bound is for adversaries whose belief about everybody else is right. Look at `known` before you look at a map.
# - `adversary spine` does this county by county, on many cores, and goes on where it was interrupted.
