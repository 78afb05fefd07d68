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
# # Cell keys, random rounding and suppression

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import adversary as adv

adv.plot.style()
colour = adv.plot.PALETTE


def sure(tree):
    """Share of releases after which the adversary is certain."""
    certain = tree["exact"]["posterior"] > 1 - 1e-12
    return (tree["release"]["weight"] * certain).sum().item()


def asked(noise, times):
    names = [f"request {i + 1}" for i in range(times)]
    siblings = [0] * (times - 1) + [None]
    levels = map(adv.Level, names, [noise] * times, siblings)
    truth = dict.fromkeys(names, 4)
    who = adv.Adversary(0.5, known=3)
    return sure(adv.audit(adv.Plan(levels), who, truth))


def beside_total(noise):
    levels = [adv.Level("clinic", noise, 3), adv.Level("region", adv.Exact())]
    who = adv.Adversary(
        0.5, known=3, beliefs={"region": adv.Each(stats.poisson(15))}
    )
    truth = {"clinic": 4, "region": 54, "siblings": {"clinic": [12, 9, 29]}}
    return sure(adv.audit(adv.Plan(levels), who, truth))


def one_person_more(table):
    three, four = (np.exp(table.log_prob(released, n)) for n in (3, 4))
    return 1 - (three * four).sum()


released = np.arange(20)
hidden = adv.postprocessing.suppressed(adv.Exact(), below=5, least=1)
rounded, noise = adv.RandomRounding(3), adv.Geometric(epsilon=1.0)
keyed = adv.PerturbationTable.from_parameters(D=4, V=2, js=2)
once = [asked(one, 1) for one in (hidden, rounded, keyed, noise)]
again = [beside_total(hidden), asked(rounded, 5), one_person_more(keyed)]
again += [asked(noise, 5)]
shares = [
    [round(100 * x) for x in pair] for pair in zip(once, again, strict=True)
]
rows = [
    "Suppression below 5\nthen the exact total",
    "Random rounding to 3\nasked five times",
    "Cell keys\nthen the count without the person",
    "Geometric noise, epsilon 1\nasked five times",
]
assert shares == [[0, 100], [33, 87], [1, 74], [0, 0]]

fig, ax = plt.subplots(layout="constrained")
for y, (first, second) in enumerate(reversed(shares)):
    ax.plot([first, second], [y, y], color=colour["line"], zorder=1)
    ax.plot(second, y, "o", ms=9, color=colour["finding"], clip_on=False)
    ax.plot(first, y, "o", ms=9, mfc="white", mec=colour["after"], mew=2)
    for x in {first, second} if second > first else ():
        ink = colour["after" if x == first else "finding"]
        ax.text(x, y + 0.17, str(x), color=ink, ha="center", va="bottom")
ax.text(4, 3.17, "one count", color=colour["after"], va="bottom")
ax.text(62, 3.17, "after a second look", color=colour["finding"], va="bottom")
ax.text(4, 0, "never certain", color=colour["quiet"], va="center")
ax.set_yticks(range(4), rows[::-1])
ax.set(xlim=(-2, 100), ylim=(-0.4, 3.6), xticks=range(0, 101, 25))
ax.set_xlabel("releases, of 100, after which a neighbour is certain")
ax.spines["left"].set_visible(False)
ax.tick_params(length=0)
adv.plot.headline(
    ax,
    "A second look undoes office methods in 74 to 100% of releases",
    shape="A row for each method, from one count to a second look: suppression "
    "0 to 100, random rounding 33 to 87, cell keys 1 to 74, geometric noise 0.",
)
plt.show()

# %% [markdown]
# **In short.** The neighbour knows three of the patients of a clinic and wonders whether a fourth is one; before the
# release, that is as likely as not. The person is.
#
# - One count by itself: suppression below 5 never names the person in this figure, cell keys do in 1 of 100 releases,
#   random rounding in 33.
# - A second look: the exact total undoes suppression in every release, five requests undo rounding in 87 of 100, and
#   the keyed count without the person undoes cell keys in 74.
# - Noise of epsilon 1 is never undone for certain. Five requests do take the neighbour from 50% to 81% on average: it
#   has to be budgeted.

# %% [markdown]
# ## Four ways to publish a small count
#
# Statistical offices rarely add noise with a privacy budget. They hide small counts, round at random, or look a
# perturbation up in a table by a key that belongs to the people of the cell. In this package they are all
# `Mechanism`s: a distribution of what is published, for each true count.

# %%
import numpy as np
import pandas as pd

import adversary as adv

suppression = adv.postprocessing.suppressed(adv.Exact(), below=5, least=1)
rounding = adv.RandomRounding(3)
cell_keys = adv.PerturbationTable.from_parameters(D=4, V=2, js=2)
geometric = adv.Geometric(epsilon=1.0)

published, counts = np.arange(9), [0, 1, 2, 3, 4]
rows = [np.exp(cell_keys.log_prob(published, n)) for n in counts]
table = pd.DataFrame(rows, pd.Index(counts, name="true count"), published)
table.map("{:.0%}".format).replace("0%", "")

# %% [markdown]
# This is the perturbation table: row 3 says that a true 3 is published as 3 in 51% of cases, as 4 in 26%, and so on.
# It follows from the three parameters that offices publish: the largest perturbation `D`, the variance `V`, and `js`,
# the counts that never appear (here 1 and 2). An office's own table is read by
# `adv.load_perturbation_table("ptable.csv")`.
#
# ## One count
#
# How sure is the neighbour after one count? `certain` is the share of releases that leave no doubt.

# %%
methods = {
    "suppression below 5": suppression,
    "random rounding to 3": rounding,
    "cell keys": cell_keys,
    "geometric noise, epsilon 1": geometric,
}
neighbour = adv.Adversary(prior=0.5, known=3)
answers = {}
for name, noise in methods.items():
    plan = adv.Plan([adv.Level("clinic", noise)])
    tree = adv.audit(plan, neighbour, {"clinic": 4})
    weight, posterior = tree["release"]["weight"], tree["exact"]["posterior"]
    certain = (weight * (posterior > 1 - 1e-9)).sum()
    answers[name] = {
        "on average": tree["risk"]["posterior_mean"],
        "certain": certain,
    }
pd.DataFrame(answers).T.astype(float).map("{:.1%}".format)

# %% [markdown]
# On average the four are close. They differ in what can go wrong: a rounded 6 cannot come from a 3, so it names the
# person; noise with a budget can always come from either count.
#
# It depends on the count. Suppression hides 1 to 4 and nothing else: at 5 patients the fifth is named in every
# release. Cell keys that never publish 1 and 2 are weakest at the third patient.

# %%
shares = {}
for name, noise in methods.items():
    plan, shares[name] = adv.Plan([adv.Level("clinic", noise)]), {}
    for count in (1, 2, 3, 4, 5, 6):
        who = adv.Adversary(prior=0.5, known=count - 1)
        tree = adv.audit(plan, who, {"clinic": count})
        certain = tree["exact"]["posterior"] > 1 - 1e-9
        shares[name][count] = (tree["release"]["weight"] * certain).sum().item()
by_count = pd.DataFrame(shares).T.rename_axis("certain, by true count")
by_count.map("{:.1%}".format)

# %% tags=["remove-cell"]
one = pd.DataFrame(answers).T.astype(float)
assert one["on average"].round(3).tolist() == [0.5, 0.6, 0.564, 0.607]
assert one["certain"].round(3).tolist() == [0, 0.333, 0.007, 0]
assert [round(float(x), 2) for x in table.loc[3, [3, 4]]] == [0.51, 0.26]
assert by_count.loc["suppression below 5"].tolist() == [1, 0, 0, 0, 1, 1]
assert by_count.loc["cell keys"].idxmax() == 3
assert round(by_count.loc["cell keys", 3], 3) == 0.341

# %% [markdown]
# ## The total
#
# A suppressed count with the region's exact total beside it: the other three clinics have 12, 9 and 29 patients, all
# published, and the total is 54. So the hidden count is 4. Hiding a second count of the region ("complementary
# suppression") is what offices do against this.

# %%
from scipy.stats import poisson

region = adv.Plan(
    [
        adv.Level("clinic", suppression, siblings=3),
        adv.Level("region", adv.Exact()),
    ]
)
beliefs = {"region": adv.Each(poisson(15))}  # about each of the other clinics
reader = adv.Adversary(prior=0.5, known=3, beliefs=beliefs)
truth = {"clinic": 4, "region": 54, "siblings": {"clinic": [12, 9, 29]}}
after = adv.audit(region, reader, truth)["risk"]["posterior_mean"].item()
print(f"suppressed count and exact total: {after:.0%}")

# %% [markdown]
# ## Asking again
#
# A web tool that rounds anew at each request answers five requests with five rounded numbers. As soon as one of them
# is 6, the count is not 3. Cell keys were invented for this: the same people get the same key, and asking again
# brings the same number. Noise with a budget gives away more with every request as well, but by an amount that adds
# up: epsilon 5 after five requests, and never certainty.

# %%
answers = {}
for times in (1, 2, 5):
    names = [f"request {i + 1}" for i in range(times)]
    siblings = [0] * (times - 1) + [None]  # 0: the same people
    truth = dict.fromkeys(names, 4)
    for name in ("random rounding to 3", "geometric noise, epsilon 1"):
        noise = [methods[name]] * times
        plan = adv.Plan(map(adv.Level, names, noise, siblings))
        risk = adv.audit(plan, neighbour, truth)["risk"]
        answers[name, times] = risk["posterior_mean"].item()
pd.Series(answers).unstack().map("{:.0%}".format)

# %% tags=["remove-cell"]
assert round(answers["random rounding to 3", 5], 2) == 0.88
assert round(answers["geometric noise, epsilon 1", 5], 2) == 0.81
assert round(after, 12) == 1

# %% [markdown]
# ## Two tables that differ by one person
#
# The price of keys: the same people get the same number, so other people get another one. Age bands 20 to 64 in one
# table and 20 to 65 in the next have the same key where nobody is 65. If the two published counts differ, somebody
# is, for certain. Among ten people or more, one person changes the published number in about 8 of 10 cases. A table
# with wider perturbations protects a single count better and makes this worse.

# %%
released = np.arange(60)
rows = {}
for V in (1.5, 2, 4):
    table = adv.PerturbationTable.from_parameters(D=6, V=V, js=0)
    before, now = (np.exp(table.log_prob(released, n)) for n in (20, 21))
    rows[V] = {
        "error (standard deviation)": f"{table.variance**0.5:.1f}",
        "one count: certain": f"{now[before < 1e-12].sum():.2%}",
        "with and without: certain": f"{1 - (before * now).sum():.0%}",
    }
wider = pd.DataFrame(rows).T
wider.rename_axis("variance V")

# %% [markdown]
# ## A whole file
#
# `adv.audit_tables` audits everybody in a file under any of these methods; here 765 people of six districts (made-up
# data), by an adversary who knows everybody else and gives each person 10% beforehand.

# %%
people = pd.read_csv("../data/districts.csv", dtype=str)
adversary = adv.TableAdversary(0.1, knows="everybody")
by = ["district", "age", "sex"]
audits = {}
for name, noise in methods.items():
    if noise is not suppression:
        table = adv.PublishedTable(by, noise)
        audits[name] = adv.audit_tables(people, [table], adversary)
worst = {name: risks.iloc[0] for name, risks in audits.items()}
shown = ["count", "prior", "posterior_mean", "posterior_high", "bound"]
pd.DataFrame(worst).T[shown].astype(float).round(2)

# %% [markdown]
# On average the worst person goes from 10% to 38% under rounding and to 39% under cell keys, and in 1 of 20 releases
# to certainty; noise of epsilon 1 leaves nobody above 23%. Neither office method has an epsilon, so the bound for any
# adversary is 100%: with probability 0.33 (rounding) and 0.34 (keys) a release rules the other count out,
# `cell_keys.privacy_loss().infinite_p`.
#
# The same on the command line, with a page for others to read:
#
# ```sh
# uv run adversary tables data/districts.csv --prior 0.1 --knows everybody \
#   --table "district: age x sex, cell key V 2 D 4 js 2" --out page
# ```

# %% tags=["remove-cell"]
top = {name: risk["posterior_mean"] for name, risk in worst.items()}
assert [round(float(x), 2) for x in top.values()] == [0.38, 0.39, 0.18]
highest = audits["geometric noise, epsilon 1"]["posterior_high"].max()
assert round(highest, 3) == 0.232
assert audits["random rounding to 3"]["posterior_high"].max() > 1 - 1e-9
assert round(rounding.privacy_loss().infinite_p, 2) == 0.33
assert round(cell_keys.privacy_loss().infinite_p, 2) == 0.34
assert wider.iloc[:, -1].tolist() == ["81%", "82%", "87%"]

# %% [markdown]
# ## What this does not say
#
# - Not that offices are careless: they combine these methods with rules on which tables may be asked for, and an
#   adversary rarely knows everybody else.
# - Nothing about the keys themselves. Whoever learns them undoes every count.
# - `audit_tables` takes each table's perturbations as drawn anew. Two tables of the same people under one set of keys
#   are the case of the section above: the audit says so in its cautions, and does not add it up.
# - Suppression is audited here as a rule applied to one count. Which further counts an office hides depends on the
#   whole table.
