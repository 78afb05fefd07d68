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
# # Splitting a budget over tables

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import pandas as pd

import adversary as adv

people = pd.read_csv("../data/districts.csv", dtype=str)
tables = {
    "districts by age and sex": ["district", "age", "sex"],
    "regions by age": ["region", "age"],
    "districts": ["district"],
}
profile = adv.RiskProfile.difference(0.2)
split = adv.budget.split_rho(people, tables, profile)

adv.plot.style()
colour = adv.plot.PALETTE
fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
keys = {"even_error": colour["ink"], "error": colour["after"]}
for y, name in enumerate(reversed(tables)):
    errors = {key: 100 * split[key].sel(table=name).item() for key in keys}
    ax.plot([*errors.values()], [y, y], color=colour["line"], zorder=1)
    for key, x in errors.items():
        fill = "white" if key == "even_error" else keys[key]
        ax.plot(x, y, "o", ms=9, mfc=fill, mec=keys[key], mew=1.5)
        ax.text(x, y + 0.13, f"{x:.0f}%", color=keys[key], ha="center")
ax.text(78.6, 1.7, "even split", color=colour["ink"], ha="center")
ax.text(51, 1.7, "by mean count", color=colour["after"], ha="center")
ax.set_yticks(range(3), [*tables][::-1])
ax.set(xlim=(0, 90), ylim=(-0.3, 2.4))
ax.xaxis.set_major_formatter("{x:.0f}%")
ax.set_xlabel("standard deviation of the noise, of the mean count")
ax.spines["left"].set_visible(False)
ax.tick_params("y", length=0)
adv.plot.headline(
    ax,
    "Split by mean count, the finest table's error drops to 51%",
    shape="A row for each table, from an even split to one by mean count: "
    "districts by age and sex 79 to 51%, regions by age 13 to 21%, districts "
    "8 to 16%.",
)
plt.show()

# %% [markdown]
# **In short.** The 765 people of six districts are made up. The tables are districts by age and sex, regions by age,
# and districts.
#
# - Nobody may become more than 20 points surer of anything about a person: this allows three tables a total of rho =
#   0.015, in 95% of releases.
# - Split evenly, the finest table is off by 79% of its mean count. Split so that the squared relative errors add up
#   to least, it is off by 51%; the price is 21% instead of 13% in the table of regions, 16% instead of 8% in that of
#   districts.
# - Half the tolerated rise doubles every error; a second release of the same people multiplies it by 1.4.
#
#
# ## From a tolerated rise to noise
#
# A risk profile says how far any adversary's probability may rise. `split_rho` finds the largest total budget that
# keeps it and divides it: each table gets a share proportional to 1 / sqrt(mean count) at equal weights. `rho` is the
# budget of discrete Gaussian noise of variance 1 / (2 rho).

# %%
import pandas as pd

import adversary as adv

people = pd.read_csv("../data/districts.csv", dtype=str)
tables = {
    "districts by age and sex": ["district", "age", "sex"],
    "regions by age": ["region", "age"],
    "districts": ["district"],
}
profile = adv.RiskProfile.difference(0.2)  # no rise above 20 points
split = adv.budget.split_rho(people, tables, profile)
print(f"rho in all: {split.total:.3f}")
shown = ["mean_count", "rho", "deviation", "error", "even_error"]
digits = {"mean_count": 0, "rho": 4, "deviation": 1}
split[shown].to_dataframe().round(digits | dict.fromkeys(shown[3:], 2))

# %% [markdown]
# `deviation` is the standard deviation of the noise, in people; `error` is the same over the mean count; `even_error`
# is what an even split of the same total would give.
#
# ## Does it keep the profile?
#
# `audit_tables` takes the plan as an adversary sees it: one who knows everybody else in the file and asks whether the
# person is there. `posterior_high` is exceeded in 1 of 20 releases; `bound` holds for every adversary of this prior,
# in 95% of releases.

# %%
planned = [
    adv.PublishedTable(by, adv.DiscreteGaussian.from_rho(rho), name)
    for (name, by), rho in zip(
        tables.items(), split["rho"].values.tolist(), strict=True
    )
]
rows = {}
for prior in (0.01, 0.1, 0.4, 0.5):
    adversary = adv.TableAdversary(prior, knows="everybody")
    worst = adv.audit_tables(people, planned, adversary).iloc[0]
    rows[prior] = worst[["posterior_mean", "posterior_high", "bound"]]
risks = pd.DataFrame(rows).T.astype(float).rename_axis("prior")
risks.map("{:.1%}".format)

# %% [markdown]
# The worst cell of the file takes 40% to 40.4% on average and to 47% in 1 of 20 releases; no adversary gets above
# 50%. The profile would let them reach 60%. It is kept with room to spare here because it also covers adversaries who
# ask *which* cell somebody is in. A wrong guess then moves two counts of each table, not one.
#
# ## What each table costs
#
# A table that decisions depend on can get a weight. Nine times the weight for the districts cuts their error from 16%
# to 10%; the others pay.

# %%
weighed = adv.budget.split_rho(
    people, tables, profile, weights={"districts": 9}
)
pd.DataFrame(
    {
        "equal weights": split["error"].to_series(),
        "districts 9": weighed["error"].to_series(),
        "even split": split["even_error"].to_series(),
    }
).map("{:.0%}".format)

# %% [markdown]
# Weights move errors between tables. What moves all of them is the tolerated rise.

# %% tags=["hide-input"]
rises = [0.05, 0.1, 0.2, 0.3, 0.4]
errors = pd.DataFrame(
    {
        rise: adv.budget.split_rho(
            people, tables, adv.RiskProfile.difference(rise)
        )["error"].to_series()
        for rise in rises
    }
).T
fig, ax = plt.subplots(layout="constrained")
for name in errors:
    ax.plot(errors.index * 100, errors[name] * 100, "o-", label=name)
ax.set(xscale="log", yscale="log", xlim=(4.5, 41))
ax.set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
ax.set_yticks([10, 20, 50, 100, 200], ["10%", "20%", "50%", "100%", "200%"])
ax.minorticks_off()
ax.set_xlabel("tolerated rise of a probability (percentage points)")
ax.set_ylabel("error, of the mean count")
adv.plot.label_ends(ax)
adv.plot.headline(
    ax,
    "Half the tolerated rise doubles the error of every table",
    shape="Three parallel lines that fall from 5 to 40 points.",
)
plt.show()

# %% [markdown]
# ## Next year, the same people
#
# Whoever is in this year's tables and in next year's is in two releases. The profile is about both together, so each
# release gets half of the budget.

# %%
years = {}
for releases in (1, 2, 4):
    each = adv.budget.split_rho(people, tables, profile, releases=releases)
    error = each["error"].sel(table="districts by age and sex").item()
    years[releases] = {"rho of each": each["total"].item(), "error": error}
pd.DataFrame(years).T.rename_axis("releases").round(4)

# %% [markdown]
# A ledger keeps what is spent against a limit and refuses what would overspend it.

# %%
total = split["total"].item()
ledger = adv.budget.Ledger(adv.ZeroConcentratedDP(total))
half = adv.ZeroConcentratedDP(total / 2)
ledger.add("tables of 2025", half)
ledger.add("tables of 2026", half)
try:
    ledger.add("one more table", adv.ZeroConcentratedDP(0.001))
except ValueError as refusal:
    print(refusal)

# %% tags=["remove-cell"]
assert round(total, 3) == 0.015
assert split["error"].values.round(2).tolist() == [0.51, 0.21, 0.16]
assert split["even_error"].values.round(2).tolist() == [0.79, 0.13, 0.08]
assert risks.loc[0.4].round(3).tolist() == [0.404, 0.473, 0.5]
assert round(weighed["error"].sel(table="districts").item(), 2) == 0.1
assert ((errors.loc[0.1] / errors.loc[0.2]).round(1) == 2).all()
assert round(years[2]["error"] / years[1]["error"], 1) == 1.4

# %% [markdown]
# ## On the command line
#
# With a file `rise.toml` that holds the profile,
#
# ```toml
# [profile]
# kind = "difference"
# by = 0.2
# ```
#
# `adversary plan` prints this split and the command that audits everybody under it:
#
# ```sh
# uv run adversary plan data/districts.csv --profile rise.toml \
#   --table "district: age x sex" --table "region: age" --table "district: total"
# ```
#
# ## What this does not say
#
# - Not which risk to tolerate. Twenty points is a choice; the notebook on choosing epsilon compares others.
# - Nothing about bias: noisy counts are published as they are, negative ones too. Rounding or making tables add up
#   changes errors, not the guarantee.
# - Only independent discrete Gaussian noise is split. Measuring other queries and computing the tables from them can
#   do better for the same budget.
# - The counts themselves set the shares. Where these are confidential, take last year's.
