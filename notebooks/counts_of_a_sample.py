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
# # Counts of a sample

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

import adversary as adv

rates = {
    "knows that you were drawn": 1.0,
    "1 in 2 is drawn": 0.5,
    "1 in 5": 0.2,
    "1 in 10": 0.1,
    "1 in 100": 0.01,
}
adversaries = {
    name: adv.Adversary(prior=0.2, known=3, sampling_rate=rate)
    for name, rate in rates.items()
}
plan = adv.Plan([adv.Level("town", adv.Geometric(epsilon=1.0))])
tree = adv.audit(plan, adversaries, {"town": 4})
average = tree["risk"]["posterior_mean"].to_series()
most = tree["bound"]["posterior"].sel(side="upper").squeeze().to_series()
assert (100 * average).round(1).tolist() == [31.8, 27.1, 23.2, 21.7, 20.2]
assert (1000 * most + 0.5).round().tolist() == [405, 318, 252, 227, 203]

adv.plot.style()
ax = adv.plot.before_after(tree)
adv.plot.headline(
    ax,
    "Not knowing who was drawn lowers the bound from 40.5% to 22.7%",
    shape="A row for each sampling rate, from 20% before the release: bounds "
    "fall from 40.5% for who knows that you were drawn to 22.7% at a rate of "
    "1 in 10 and 20.3% at 1 in 100.",
)
plt.show()

# %% [markdown]
# **In short.** A survey draws people at random and publishes how many of the drawn have a trait, with noise of
# epsilon 1. An adversary gives you 20% to have it and knows who else in the sample does. You were drawn, and you have
# it. (Made-up numbers.)
#
# - Who knows that you were drawn goes from 20% to 32% on average, and to 40.5% at most. Who only knows that 1 in 10
#   people is drawn goes to 21.7%, and to 22.7% at most.
# - On a sample of 1 in 10, noise of epsilon 2 protects like epsilon 0.49 on everybody, to adversaries who do not know
#   who was drawn.
# - A new sample each month keeps this up: 37.5% at most after twelve. The same panel twelve times allows 96.4%.
#
# ## Who knows that you were drawn?
#
# `sampling_rate` is what the adversary knows of the sample: everybody is drawn independently with this probability,
# and the adversary does not know whether the target was. The Bayes factor BF of who knows it becomes 1 - q + q BF.

# %%
import pandas as pd

import adversary as adv

plan = adv.Plan([adv.Level("town", adv.Geometric(epsilon=1.0))])
rows = {}
for rate in (1, 0.5, 0.2, 0.1, 0.01):
    who = adv.Adversary(prior=0.2, known=3, sampling_rate=rate)
    tree = adv.audit(plan, who, {"town": 4})
    risk, bound = tree["risk"], tree["bound"]["posterior"]
    rows[rate] = {
        "on average": risk["posterior_mean"].item(),
        "in 1 of 20 above": risk["posterior_quantile"].values[-1],
        "at most": bound.sel(side="upper").item(),
    }
by_rate = pd.DataFrame(rows).T.rename_axis("rate")
by_rate.map("{:.1%}".format)

# %% [markdown]
# The first row is the adversary to plan for where being drawn is known: an interviewer came, a card was sent, the
# person says so. Sampling protects only against who does not know.
#
# ## How much noise does a sample need?
#
# The loss of a mechanism on a random sample is `sampled_loss`; its epsilon is what the noise is worth to everybody
# who does not know who was drawn.

# %%
epsilons = {
    rate: {
        own: adv.sampled_loss(
            adv.Geometric(epsilon=own).privacy_loss(), rate
        ).epsilon(0.0)
        for own in (0.5, 1.0, 2.0, 3.0)
    }
    for rate in (0.5, 0.1, 0.01)
}
amplified = pd.DataFrame(epsilons).T.rename_axis("rate")
amplified.columns.name = "epsilon of the noise"
amplified.round(2)

# %% [markdown]
# ## Every month: a new sample, or the same panel?
#
# With a new sample each month, every month has a chance of 9 in 10 to say nothing about you, and the losses of the
# months add up. A panel is drawn once: who is in it is in all twelve months, so the sampling helps once only.
# Averages are over all who have the trait, drawn or not.

# %%
month = adv.Geometric(epsilon=1.0).privacy_loss()
designs = {
    "a new sample each month": 12 * adv.sampled_loss(month, 0.1),
    "the same panel": adv.sampled_loss(12 * month, 0.1),
    "the same panel, known to be in it": 12 * month,
}
year = pd.DataFrame(
    {
        name: {
            "on average": loss.posterior(0.2).mean("in"),
            "at most, in 95% of years": loss.posterior_bounds(0.2, 0.05)[1],
        }
        for name, loss in designs.items()
    }
).T
year.map("{:.1%}".format)

# %% tags=["hide-input"]
months = range(1, 13)
fig, ax = plt.subplots(layout="constrained")
for name, loss in {
    "new samples": lambda n: n * adv.sampled_loss(month, 0.1),
    "one panel": lambda n: adv.sampled_loss(n * month, 0.1),
    "a known panel": lambda n: n * month,
}.items():
    tops = [loss(n).posterior_bounds(0.2, 0.05)[1] for n in months]
    ax.plot(months, [100 * top for top in tops], "o-", label=name)
adv.plot.label_ends(ax)
ax.axhline(20, color=adv.plot.PALETTE["ink"], lw=1.2)
ax.annotate("before", (1, 20), (0, -13), textcoords="offset points")
ax.set(xlim=(0.7, 12.3), ylim=(0, 102), xticks=[1, 3, 6, 9, 12])
ax.yaxis.set_major_formatter("{x:.0f}%")
ax.set_xlabel("months of publications")
ax.set_ylabel("probability after, at most (95%)")
adv.plot.headline(
    ax,
    "After a year new samples allow 37.5%, a panel 96.4%",
    shape="Three rising curves over 20%: a known panel passes 90% after four "
    "months, an unknown one after ten, new samples stay below 38%.",
)
plt.show()

# %% [markdown]
# ## A sample of fixed size
#
# `sampling_rate` is for independent draws. In a sample of exactly ten of a hundred people, somebody else takes the
# place of who is not drawn. Such a sample is a PyMC model of its own; 40 of the other 99 have the trait, and the
# adversary does not know who of them was drawn.

# %%
import numpy as np
import pymc as pm

from adversary import models

noise = adv.Geometric(epsilon=1.0)
with pm.Model() as fixed_size:
    target = pm.Bernoulli("in", np.float64(0.2))
    drawn = pm.Bernoulli("drawn", np.float64(0.1))
    others = pm.HyperGeometric("others", N=99, k=40, n=10 - drawn)
    models.noise.released("noisy", noise, others + target * drawn)

truth = {"in": 1, "drawn": 1, "others": 4}
tree = adv.audit_model(fixed_size, truth, rng=1, progress=False)
print(f"20% becomes {tree['risk']['posterior_mean']:.2%} on average")

# %% tags=["remove-cell"]
assert (1000 * by_rate["at most"] + 0.5).round().tolist() == [
    405,
    318,
    252,
    227,
    203,
]
assert round(amplified.loc[0.1, 2.0], 2) == 0.49
assert (year * 1000).round().astype(int).values.tolist() == [
    [216, 375],
    [244, 964],
    [876, 1000],
]
assert round(float(tree["risk"]["posterior_mean"]), 4) == 0.2045

# %% [markdown]
# ## In a file
#
# In a scenario for `adversary audit`, the key is `sampling_rate`, beside the adversary's prior:
#
# ```toml
# [adversary]
# prior = 0.2
# known = 3
# sampling_rate = 0.1
# ```
#
# Counts of a sample that are published *exactly* are refused with this key: they tell by themselves who may have been
# drawn.
#
# ## What this does not say
#
# - Nothing about weights. A count times its sampling weight says what the count says.
# - Being drawn is often no secret. Then the first row counts, and the rest is no protection.
# - Published microdata of the sample are another matter: there a rare record says by itself who was drawn.
# - Households are often drawn together. Four people who are in or out of a sample at once are one unit of it.
