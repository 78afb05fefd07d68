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
#
# The noisy measurements of the 2020 Census hold eleven queries about the persons of every block, block group, tract,
# county and state. A report of risk that reads one of them says what one table reveals. Anybody can read all eleven.
# How much does the report understate?
#
# 1. an adversary who knows everybody else in the block: the noise of all queries, and exact answers;
# 2. one who knows nobody else: a county read by one query and by all of them;
# 3. what even that leaves out: that no cell is negative.
#
# The county is made up, as no real person should be the example. Layout, queries and noise are those of the
# redistricting release of 2020.

# %%
# %matplotlib inline
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import adversary as adv
from adversary import nmf
from adversary.adversaries.beliefs import Known
from adversary.census import PERSONS

spine, queries, histograms = adv.spine, adv.tables, adv.census.histograms
plt.rcParams.update({"figure.figsize": (7.5, 3.8), "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"

# %% [markdown]
# ## Who knows everybody else
#
# To somebody who knows all others of a unit, every query of it is one more noisy count of the same person: the answer
# less the others. Log Bayes factors add up. `Plan(queries=...)` names the other queries; in a scenario file they are
# `[plan.level.queries]`. Here the cell's own query is the detailed one, which has most of the block's budget, and
# the adversary knows everybody else in all units.

# %%
OWN = "HHGQ*VOTINGAGE*HISPANIC*CENRACE"
levels = [name for name in PERSONS.levels if name not in ("state", "nation")]


def noise(level, query):
    return adv.DiscreteGaussian.from_rho(PERSONS.rho_star(level, query), cells=2)


plan = adv.Plan(
    [adv.Level(name, noise(name, OWN), None if name == levels[-1] else 10) for name in levels],
    neighbours="bounded",
    queries={name: {q: noise(name, q) for q in PERSONS.queries if q != OWN} for name in levels},
)
beliefs = {name: Known(10 * 4**i) for i, name in enumerate(levels[1:])}
truth = {name: 3 + sum(10 * 4**j for j in range(i)) for i, name in enumerate(levels)}
knowing = adv.Adversary(prior=0.1, known=2, beliefs=beliefs)
tree = adv.audit(plan, knowing, truth, also=("queries", "both_truths"), draws=4000, rng=1)
risk = tree["queries"].to_dataset().sel(target="in")
ends = risk["posterior_quantile"].sel(quantile=0.95)
pd.DataFrame(
    {"expected posterior": risk["posterior_mean"], "95 % of releases are below": ends},
    index=["one query", "all queries"],
).round(4)

# %% [markdown]
# The mean posterior rises two and a half times over the prior instead of one and a half. The audit is the sum of the
# losses, which `queries.path_loss` composes without a plan:

# %%
every = queries.pl94_persons()
law = queries.path_loss(every, {q.name: [noise(level, q.name) for level in levels] for q in every}, present=0)
mean = law.posterior(0.1).mean("in")
simulated = float(risk["posterior_mean"][1])
print(f"expected posterior: {mean:.4f} from the sum of losses, {simulated:.4f} from 4,000 releases of the audit")
assert abs(mean - simulated) < 0.01

# %% [markdown]
# ## A county, read twice
#
# Without knowing the others there is no such sum: an answer's other people are not known either. `nmf.read` with
# `queries="all"` replaces the answers of each unit by the best linear estimate of the cell from all of them, and keeps
# the one query beside it. The first cell is a table's total, the second one cell of the detailed histogram.

# %%
folder = tempfile.TemporaryDirectory()
file = nmf.synthesise(
    Path(folder.name) / "county", nmf.Recipe(blocks=300, counties=1, seed=12, areas=0, shape=(2, 2, 2, 7))
)
prior = spine.SharedRate()


def read_twice(query, cells):
    """Ratio and sd of every block that exact counts do not settle, from one query and from all."""
    found = {}
    for which in ("one", "all"):
        read = nmf.read(file, query, cells=cells, state="99", queries=which)
        posterior = spine.posterior(
            read.tree, read.released, read.rho, prior, bounds=(read.low, read.high), whole=False
        )
        sd = posterior.sd.values[read.tree.leaves]
        members = posterior.membership(0.1)
        found[which] = pd.DataFrame({"ratio": members["ratio"], "sd": sd})[members["status"].values <= 1]
    return found


tables = {"block total": read_twice("TOTAL", None), "one detailed cell": read_twice("DETAILED", (0, 1, 0, 2))}
summary = {
    (name, which): [one["sd"].median(), *one["ratio"].quantile([0.5, 0.95]), one["ratio"].max()]
    for name, found in tables.items()
    for which, one in found.items()
}
pd.DataFrame(summary, index=["median sd, people", "median ratio", "95 %", "largest ratio"]).T.round(3)

# %% [markdown]
# How far the release takes an adversary from the prior, up or down, as a factor: blocks in the order of it. The area
# between the lines is what a report of one query understates.

# %%
figure, axes = plt.subplots(1, 2, layout="constrained")
for ax, (name, found), colour in zip(axes, tables.items(), (BLUE, ORANGE), strict=True):
    factors = {which: np.exp(np.abs(np.log(one["ratio"]))).sort_values() for which, one in found.items()}
    for which, shade in (("one", GREY), ("all", colour)):
        ax.plot(np.linspace(0, 100, factors[which].size), factors[which], color=shade, label=f"{which} read")
    ax.set(title=name, xlabel="blocks, %", ylabel="factor from the prior")
    ax.legend(frameon=False)
    middle = [100 * (factors[which].median() - 1) for which in ("one", "all")]
    print(f"{name}: the middle block is {middle[0]:.1f} % from the prior under one query, {middle[1]:.1f} % under all")

# %% [markdown]
# ## What estimates leave out
#
# A best linear estimate does not know that counts are not negative. In a histogram of mostly empty cells that is worth
# a lot: `sample_histograms` samples the whole posterior of a block group, every cell of every block. Totals of four
# small blocks of 56 cells, three ways:

# %%
rng = np.random.default_rng(3)
group = spine.Tree.of({"group": None} | {f"block {i}": "group" for i in range(4)})
shape, people = (2, 2, 2, 7), np.array([0, 8, 20, 45])
recodes = {"TOTAL": "****", "VOTINGAGE": "*d**", "HISPANIC": "**d*", "HHGQ*VOTINGAGE*HISPANIC*CENRACE": "dddd"}
asked = [
    queries.Query.of(name, shape, ["detailed" if letter == "d" else "*" for letter in word])
    for name, word in recodes.items()
]
share = np.zeros(shape)
share[0, :, :, :3] = np.multiply.outer([0.25, 0.75], np.multiply.outer([0.85, 0.15], [0.75, 0.15, 0.1]))
leaves = np.stack([rng.multinomial(n, share.ravel()) for n in people])
counts = np.vstack([leaves.sum(axis=0), leaves])
variance = {
    q.name: 1 / np.array([float(PERSONS.rho_star(x, q.name)) for x in ["block group", *["block"] * 4]]) for q in asked
}
released = {
    q.name: q.answer(counts) + np.rint(rng.normal(size=(5, q.size)) * np.sqrt(variance[q.name])[:, None]) for q in asked
}
draws = histograms.sample_histograms(group, asked, released, variance, draws=1500, chains=2, rng=1)["histogram"].sum(
    "cell"
)
estimate = queries.effective_measurements(asked, released, variance, of=asked[0])
linear = spine.posterior(group, estimate["estimate"].values[:, 0], estimate["rho"].values[:, 0], prior, whole=False)
alone = spine.posterior(group, released["TOTAL"][:, 0], 0.5 / variance["TOTAL"], prior)
pd.DataFrame(
    {
        "people": people,
        "one query, sd": alone.sd.values[1:],
        "all, linear, sd": linear.sd.values[1:],
        "all, sampled, sd": draws.std(("chain", "draw")).values,
        "sampled mean": draws.mean(("chain", "draw")).values,
    },
    index=group.names[1:],
).round(1)

# %% [markdown]
# ## What to take along
#
# - A report that names one query is a lower bound. `Plan(queries=...)` and `adversary spine --queries all` put the risk
#   under all of them beside it.
# - Detailed cells gain less, since most of a block's budget is theirs. Totals and other sums gain most.
# - Best linear estimates are still a lower bound where cells are nearly empty; the page says by how much at most, and
#   `histograms.sample_histograms` computes it.
