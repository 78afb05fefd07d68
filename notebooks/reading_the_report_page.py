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
# # Reading the report page

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

import adversary as adv

scenario = adv.load_scenario("../data/dare_1940.toml")
tree = adv.audit(
    scenario.plan,
    scenario.adversary,
    scenario.truth,
    guarantee=scenario.guarantee,
    rng=0,
)
row = tree["risk"].to_dataset().sel(adversary="1/5")
bound = tree["bound"]["posterior"].sel(adversary="1/5", definition="zCDP")
before, after = 100 * row["prior"].item(), 100 * row["posterior_mean"].item()
low, high = 100 * row["posterior_quantile"].values[[0, -1]]
least, most = 100 * bound.values

adv.plot.style()
colour = adv.plot.PALETTE
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.plot([low, high], [0, 0], color=colour["after"], lw=16, alpha=0.3)
ax.plot([before] * 2, [-0.12, 0.12], color=colour["ink"], lw=2)
ax.plot(after, 0, "o", ms=10, color=colour["after"])
for end in (least, most):
    ax.plot([end] * 2, [-0.2, 0.2], color=colour["ink"], lw=1.4, ls=(0, (5, 2)))
marks = [
    (before, 0.12, 5, 0.62, "1  before the release: 20%"),
    (after, 0.06, 25, 0.38, "2  after it, on average: 23%"),
    (33, -0.07, 20, -0.45, "3  in 9 of 10 releases: 11% to 38%"),
    (most, -0.2, 38, -0.72, "4  at most, by the guarantee: 46.3%"),
]
for x, y, at, height, words in marks:
    ax.annotate(
        words,
        (x, y),
        (at, height),
        va="center",
        arrowprops={"arrowstyle": "-", "color": colour["quiet"], "shrinkB": 0},
    )
ax.set(xlim=(0, 62), ylim=(-0.85, 0.75), yticks=[])
ax.xaxis.set_major_formatter("{x:.0f}%")
ax.set_xlabel("probability, to the adversary, that the person is in the cell")
ax.spines["left"].set_visible(False)
adv.plot.headline(
    ax,
    "Four numbers to read: a 20% suspicion becomes 23% on average",
    shape="One row with four marks: before 20%, after on average 23%, nine of "
    "ten releases from 11 to 38%, bounds at 6.7 and 46.3%.",
)
assert [round(x) for x in (before, after, low, high)] == [20, 23, 11, 38]
assert 46.2 < most <= 46.3
plt.show()

# %% [markdown]
# **In short.** A review board gets one page, `report.html`. It needs no code to read it, and this is how.
#
# - The card on top has a verdict and four numbers: what somebody suspected before (20%), what they conclude on
#   average (23%), in 9 of 10 releases (11% to 38%), and the most that the guarantee allows anybody (46.3%).
# - The four belong to *one* adversary, who is described. Ask first whether that is the person you worry about.
# - "Holds" means that the noise keeps what was guaranteed. Whether 46.3% is acceptable is for the board to say.
#
# ## The page
#
# Somebody who knows the code makes it, once. The example is a count of one cell of a district of 1940 with 45 people,
# under a share of the noise of the 2020 Census:
#
# ```sh
# uv run adversary audit data/dare_1940.toml --out page
# ```
#
# The card at the top of the page says:

# %% tags=["hide-input"]
import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
command = [sys.executable, "-m", "adversary", "audit", "../data/dare_1940.toml"]
command += ["--out", str(folder), "--quiet"]
subprocess.run(command, check=True, capture_output=True)
page = (folder / "report.html").read_text(encoding="utf-8")


def text(part):
    """A piece of the page without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


pairs = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page, re.S)[:4]
card = "\n  ".join(
    [
        text(re.search(r'<p class="verdict">(.*?)</p>', page, re.S)[1]),
        *(f"{text(name)}: {text(value)}" for name, value in pairs),
    ]
)
print(card)

# %% [markdown]
# ## 1 Before
#
# Where the adversary starts: a *prior*, before anything is published. The page has several, because a board cannot
# know it. Compare numbers with the one they start from: 3% is a scandal from 0.1% and nothing from 2.9%.

# %%
import numpy as np
import pandas as pd

risk, limits = tree["risk"].to_dataset(), tree["bound"]["posterior"]
quantile = risk["posterior_quantile"]
columns = {
    "before": risk["prior"],
    "on average": risk["posterior_mean"],
    "9 of 10, from": quantile.isel(quantile=0),
    "to": quantile.isel(quantile=-1),
    "at most": limits.sel(definition="zCDP", side="upper"),
}
table = pd.DataFrame({name: one.to_series() for name, one in columns.items()})
outward = {  # ends of ranges and bounds are rounded outwards
    name: (np.floor if "from" in name else np.ceil)(1000 * table[name]) / 10
    for name in ("9 of 10, from", "to", "at most")
}
(100 * table).round(1).assign(**outward).map("{:.1f}%".format).head(4)

# %% [markdown]
# This is the table "What the adversary learns" of the page, a row for each adversary (four of the five).
#
# ## 2 On average, 3 in 9 of 10 releases
#
# Noise is random: the same data could have been published with other noise. The average is over all those releases.
# Any single one may say more or less, and 9 of 10 end in the range; so in 1 of 20 the adversary ends above its upper
# end. A board that worries about the unlucky release reads the range, not the average.
#
# ## 4 At most
#
# The bound is of another kind. It does not depend on who the adversary is or what they compute, if only what they
# believe of other people does not depend on this person. It comes from the guarantee, holds in 95% of releases (the
# page says so), and is always wider. Where average and bound are far apart, the page describes one adversary, and the
# bound all of them.
#
# The figure of the page shows the four numbers for every adversary:

# %% tags=["hide-input"]
ax = adv.plot.before_after(tree)
adv.plot.headline(
    ax,
    "From 50% the guarantee allows 77.5%, from 0.12% only 0.40%",
    shape="A row for each of five adversaries; the smaller the suspicion, the "
    "smaller what it becomes.",
)
plt.show()

# %% [markdown]
# ## The verdict, and what to do about it
#
# | on the page | it means | the board |
# |---|---|---|
# | holds, green | the noise keeps what was guaranteed | judges whether that is little enough |
# | violated | the noise is too small for the stated guarantee | sends it back |
# | exceeded | the guarantee is true, an adversary's beliefs about others are not | asks who that adversary is |
# | unreliable | a number could not be computed well enough, and is not shown | asks for more draws |
# | profile kept or broken | a risk that the office tolerates, from a file, is kept or not | reads the limit it names |
#
# Had this plan been announced as zCDP with rho 0.05, half of what the noise costs:

# %%
claimed = adv.audit(
    scenario.plan,
    scenario.adversary,
    scenario.truth,
    guarantee=adv.ZeroConcentratedDP(0.05),
    rng=0,
)
print(f"spent: rho {scenario.plan.total_rho:.3f}; claimed: rho 0.05")
print("status:", *set(claimed["bound"]["status"].values[:, 0]))

# %% [markdown]
# ## Six questions for the board
#
# 1. **Who?** Is there an adversary among the rows who knows as much as a neighbour, an employer, an insurer would?
# 2. **What about?** "In the cell" is one question about one person. Which one would hurt?
# 3. **Everything counted?** Does the section "What is published" list all tables of these people, those of last year
#    too?
# 4. **Whose guarantee?** "For whom this holds": of one record, a household, a day? k is how many of them differ.
# 5. **Anything exact?** Totals published without noise are listed apart: no noise protects against them.
# 6. **The unlucky release?** Is the upper end of "9 of 10" still tolerable?
#
# ## In words
#
# The page ends with the same in sentences that can be quoted. `adv.explain(tree)` writes them:

# %%
sentences = adv.explain(tree).split("\n\n")
print(sentences[2])
print()
print(sentences[-1])

# %% tags=["remove-cell"]
assert outward["at most"].tolist() == [77.5, 46.3, 27.7, 6.6, 0.4]
assert (outward["9 of 10, from"]["1/5"], outward["to"]["1/5"]) == (11, 38)
assert round(scenario.plan.total_rho, 3) == 0.099
assert set(claimed["bound"]["status"].values[:, 0]) == {"violated"}
assert "9 of 10 releases: 11% to 38%" in card

# %% [markdown]
# ## What this does not say
#
# - Not what is acceptable. The page has no threshold of its own; a profile file states one, and the page then judges
#   by it.
# - Nothing about use: a page on risk does not say whether the numbers are still worth publishing.
# - Only what was written into the scenario was audited. A table that is missing there is missing on the page.
#
# Counts and priors: Kazan and Reiter (2025), Statistica Sinica 35, from the 1940 census.
