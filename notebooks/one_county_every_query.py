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
# # One county, every query

# %% tags=["hide-input"]
# %matplotlib inline
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import adversary as adv

adv.plot.style()
nmf, spine = adv.nmf, adv.spine
folder = tempfile.TemporaryDirectory()
recipe = nmf.Recipe(
    blocks=300, counties=1, seed=12, areas=0, shape=(2, 2, 2, 7)
)
file = nmf.synthesise(Path(folder.name) / "county", recipe)


def read_twice(query, cells):
    """Ratio and sd of every block that exact counts do not settle."""
    found = {}
    for which in ("one", "all"):
        read = nmf.read(file, query, cells=cells, state="99", queries=which)
        posterior = spine.posterior(
            read.tree,
            read.released,
            read.rho,
            spine.SharedRate(),
            bounds=(read.low, read.high),
            whole=False,
        )
        members = posterior.membership(0.1)
        frame = pd.DataFrame(
            {
                "ratio": members["ratio"],
                "sd": posterior.sd.values[read.tree.leaves],
            }
        )
        found[which] = frame[members["status"].values <= 1]
    return found


tables = {
    "one detailed cell": read_twice("DETAILED", (0, 1, 0, 2)),
    "block total": read_twice("TOTAL", None),
}
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.8), sharey=True)
medians = {}
for ax, (name, both) in zip(axes, tables.items(), strict=True):
    for which, colour in (("one", "#5F6B7A"), ("all", "C0")):
        far = np.exp(np.abs(np.log(both[which]["ratio"]))).sort_values() - 1
        medians[name, which] = 100 * float(far.median())
        ax.plot(np.linspace(0, 1, far.size), 100 * far, color=colour)
    ax.set(xlabel="blocks", title=name, xlim=(0, 1))
    adv.plot.in_percent(ax.xaxis)
axes[0].set(ylim=(0, 130), ylabel="moved from the prior, up or down, %")
axes[0].annotate("all queries read", (0.42, 60), color="C0")
axes[0].annotate("one query read", (0.5, 6), color="#5F6B7A")
adv.plot.headline(
    axes,
    "Reading all queries moves the middle block by 24% of its prior, not by "
    "16%",
    "A made-up county of 300 blocks; an adversary who does not know the others",
    shape="Two panels of rising curves; that of all queries lies above that "
    "of one.",
)
plt.show()

# %% [markdown]
# **In short.** The noisy measurements of the 2020 Census hold eleven queries about the persons of every block, block
# group, tract, county and state. A report of risk that reads one of them says what one table reveals; anybody can read
# all eleven:
#
# - An adversary who knows everybody else goes from 10% to 14% on average by one query, to 25% by all.
# - One who does not is moved by 16% of their prior in the middle block of one detailed cell, and by 24%: of a block's
#   total by 0.8% and 2.1%.
# - Even that leaves out that no cell is negative, which for totals of small blocks is worth a factor of two to four in
#   the standard deviation.

# %% [markdown]
# ## Who knows everybody else
#
# To somebody who knows all others of a unit, every query of it is one more noisy count of the same person: the answer
# less the others. Log Bayes factors add up. `Plan(queries=...)` names the other queries; in a scenario file they are
# `[plan.level.queries]`. Here the cell's own query is the detailed one, which has most of the block's budget.

# %%
from itertools import pairwise

import pandas as pd

import adversary as adv

persons = adv.census.PERSONS
own = "HHGQ*VOTINGAGE*HISPANIC*CENRACE"
levels = ["block", "block group", "tract", "county"]


def noise(level, query):
    """Noise of a query at a level, of the two cells that change."""
    rho = persons.rho_star(level, query)
    return adv.DiscreteGaussian.from_rho(rho, cells=2)


plan = adv.Plan(
    [
        adv.Level(name, noise(name, own), None if name == "county" else 10)
        for name in levels
    ],
    neighbours="bounded",
    queries={
        name: {q: noise(name, q) for q in persons.queries if q != own}
        for name in levels
    },
)
others = {"block": 2, "block group": 12, "tract": 52, "county": 212}
beliefs = {
    name: adv.Known(others[name] - others[inside])
    for inside, name in pairwise(levels)
}
truth = {name: count + 1 for name, count in others.items()}
knowing = adv.Adversary(prior=0.1, known=2, beliefs=beliefs)
also = ("queries", "both_truths")
tree = adv.audit(plan, knowing, truth, also=also, draws=4000, rng=1)
risk = tree["queries"].to_dataset().sel(target="in")
high = risk["posterior_quantile"].sel(quantile=0.95)
columns = {"on average": risk["posterior_mean"], "1 in 20 above": high}
pd.DataFrame(columns, index=["one query", "all queries"]).round(2)

# %% [markdown]
# The audit simulates; its result is the sum of the losses, which `adv.tables.path_loss` composes without a plan:

# %%
every = adv.tables.pl94_persons()
noises = {q.name: [noise(level, q.name) for level in levels] for q in every}
loss = adv.tables.path_loss(every, noises, present=0)
exact = loss.posterior(0.1).mean("in")
print(f"all queries: {exact:.1%} from the sum of losses")
print(f"simulated:   {float(risk['posterior_mean'][1]):.1%}")

# %% tags=["remove-cell"]
assert levels == [
    name for name in persons.levels if name not in ("state", "nation")
]
assert abs(exact - float(risk["posterior_mean"][1])) < 0.01
assert risk["posterior_mean"].values.round(2).tolist() == [0.14, 0.25]

# %% [markdown]
# ## A county, read twice
#
# Without knowing the others there is no such sum: an answer's other people are not known either. `nmf.read` with
# `queries="all"` replaces the answers of each unit by the best linear estimate of the cell from all of them, and keeps
# the one query beside it. The first rows are of one cell of the detailed histogram, the others of a table's total; the
# figure on top has every block.

# %%
import tempfile
from pathlib import Path

nmf, spine = adv.nmf, adv.spine
folder = tempfile.TemporaryDirectory()
recipe = nmf.Recipe(
    blocks=300, counties=1, seed=12, areas=0, shape=(2, 2, 2, 7)
)
file = nmf.synthesise(Path(folder.name) / "county", recipe)


def read(query, cells, queries):
    """Ratio and sd of every block that exact counts do not settle."""
    read = nmf.read(file, query, cells=cells, state="99", queries=queries)
    bounds = read.low, read.high
    found = spine.posterior(
        read.tree, read.released, read.rho, bounds=bounds, whole=False
    )
    members = found.membership(0.1)
    sd = found.sd.values[read.tree.leaves]
    frame = pd.DataFrame({"ratio": members["ratio"], "sd": sd})
    return frame[members["status"].values <= 1]


summary = {}
for name, what in {
    "detailed cell": ("DETAILED", (0, 1, 0, 2)),
    "block total": ("TOTAL", None),
}.items():
    for queries in ("one", "all"):
        one = read(*what, queries)
        summary[name, queries] = {
            "sd, people": one["sd"].median(),
            "median ratio": one["ratio"].median(),
            "1 in 20 above": one["ratio"].quantile(0.95),
            "largest": one["ratio"].max(),
        }
pd.DataFrame(summary).T.round(2)

# %% tags=["remove-cell"]
assert [round(one, 1) for one in medians.values()] == [15.9, 23.5, 0.8, 2.1]
folder.cleanup()

# %% [markdown]
# ## What estimates leave out
#
# A best linear estimate does not know that counts are not negative. In a histogram of mostly empty cells that is worth
# a lot: `sample_histograms` samples the whole posterior of a block group, every cell of every block. Totals of four
# small blocks of 56 cells, three ways:

# %%
import numpy as np

rng = np.random.default_rng(3)
tables, sample = adv.tables, adv.census.histograms.sample_histograms
blocks = {f"block {i}": "group" for i in range(4)}
group = spine.Tree.of({"group": None} | blocks)
shape, people = (2, 2, 2, 7), np.array([0, 8, 20, 45])
axes = {
    "TOTAL": "****",
    "VOTINGAGE": "*d**",
    "HISPANIC": "**d*",
    "HHGQ*VOTINGAGE*HISPANIC*CENRACE": "dddd",
}
words = {"d": "detailed", "*": "*"}
asked = [
    tables.Query.of(name, shape, [words[letter] for letter in code])
    for name, code in axes.items()
]
share = np.zeros(shape)
ages = np.multiply.outer([0.85, 0.15], [0.75, 0.15, 0.1])
share[0, :, :, :3] = np.multiply.outer([0.25, 0.75], ages)
leaves = np.stack([rng.multinomial(n, share.ravel()) for n in people])
counts = np.vstack([leaves.sum(axis=0), leaves])
units = ["block group", *["block"] * 4]
variance = {
    q.name: 1 / np.array([float(persons.rho_star(x, q.name)) for x in units])
    for q in asked
}
released = {}
for q in asked:
    sd = np.sqrt(variance[q.name])[:, None]
    released[q.name] = q.answer(counts) + np.rint(
        rng.normal(size=(5, q.size)) * sd
    )

# %%
draws = sample(group, asked, released, variance, draws=1500, chains=2, rng=1)
draws = draws["histogram"].sum("cell")
estimate = tables.effective_measurements(asked, released, variance, of=asked[0])
totals, rho = estimate["estimate"].values, estimate["rho"].values
linear = spine.posterior(group, totals[:, 0], rho[:, 0], whole=False)
alone = spine.posterior(group, released["TOTAL"][:, 0], 0.5 / variance["TOTAL"])
columns = {
    "people": people,
    "sd, one query": alone.sd.values[1:],
    "sd, all linear": linear.sd.values[1:],
    "sd, all sampled": draws.std(("chain", "draw")).values,
}
pd.DataFrame(columns, index=group.names[1:]).round(1)

# %% tags=["remove-cell"]
gain = linear.sd.values[1:] / draws.std(("chain", "draw")).values
assert gain.min() > 2

# %% [markdown]
# ## What this does not say
#
# The county is made up; its layout, queries and noise are those of the redistricting release. A report that names one
# query is a lower bound: `Plan(queries=...)` and `adversary spine --queries all` put the risk under all of them beside
# it. Best linear estimates are still a lower bound where cells are nearly empty; the page of `adversary spine` says by
# how much at most.
