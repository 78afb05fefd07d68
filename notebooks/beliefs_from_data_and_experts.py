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
# # Beliefs from data and experts

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

import adversary as adv

seen = [9, 14, 7, 11, 16, 12, 8, 10, 13, 15, 6, 12]
beliefs = {
    "a sure expert: 10 to 12": adv.law_between(10, 12),
    "an expert: 8 to 15": adv.law_between(8, 15),
    "an expert: 5 to 20": adv.law_between(5, 20),
    "last census, 12 streets": adv.law_of_counts(seen),
    "a survey: 3 of about 11": adv.law_of_sample(3, 11.0),
}
adversaries = {"knows everybody else": adv.Adversary(0.2, known=11)}
for name, law in beliefs.items():
    others = {"street": adv.Others(law)}
    adversaries[name] = adv.Adversary(0.2, beliefs=others)
plan = adv.Plan([adv.Level("street", adv.Geometric(epsilon=1.0))])
tree = adv.audit(plan, adversaries, {"street": 12, "in": 1})
average = tree["risk"]["posterior_mean"].to_series()
assert (100 * average).round().tolist() == [32, 26, 19, 20, 19, 22]

adv.plot.style()
ax = adv.plot.before_after(tree)
adv.plot.headline(
    ax,
    "Knowing the other eleven takes 20% to 32%; a range adds little",
    shape="A row for each adversary, from 20% before the release: 32% for who "
    "knows everybody else, 19 to 26% for who believes something of them. The "
    "guarantee allows 40.5% to all.",
)
plt.show()

# %% [markdown]
# **In short.** Twelve people of a street have a trait, the target among them. The count is published with noise of
# epsilon 1. An adversary gives the target 20% beforehand. (Made-up numbers.)
#
# - Who knows the other eleven goes from 20% to 32% on average. An expert who is 90% sure of 10 to 12 others gets to
#   26%; one who is sure of 5 to 20 stays at 20%.
# - Last census' counts of twelve like streets, or three in a sample of about eleven, end at 19% and 22%.
# - A belief that is twenty people too high turns the release against the truth: below 9%.
#
# ## An expert: "between 5 and 20, I am 90% sure"
#
# `law_between` is the distribution of greatest entropy with that much probability between two counts: negative
# binomial, or binomial where the counts are close. It is about everybody *but* the target. `Others` makes it a
# belief.

# %%
import numpy as np
import pandas as pd

import adversary as adv

plan = adv.Plan([adv.Level("street", adv.Geometric(epsilon=1.0))])
truth = {"street": 12, "in": 1}


def after(law, truth=truth):
    """Probability after the release, on average, from 20%."""
    who = adv.Adversary(prior=0.2, beliefs={"street": adv.Others(law)})
    return adv.audit(plan, who, truth)["risk"]["posterior_mean"].item()


rows = {}
for low, high in ((10, 12), (8, 15), (5, 20), (2, 30)):
    law = adv.law_between(low, high, mass=0.9)
    rows[f"{low} to {high}"] = {
        "distribution": law.dist.name,
        "mean": f"{law.mean():.1f}",
        "standard deviation": f"{law.std():.1f}",
        "20% becomes": f"{after(law):.0%}",
    }
experts = pd.DataFrame(rows).T.rename_axis("others, 90% sure")
experts

# %% [markdown]
# Why can it fall below 20%, though the target is in? Because eleven others are there and the expert of 8 to 15
# expects twelve: a release of 12 then looks like a street without the target. On average over what the expert
# believes, the truth gains; over the releases of this one street it need not.
#
# A distribution elicited by hand with PreliZ works as well: `adv.Others(pz.NegativeBinomial(mu=11, alpha=5))`.
#
# ## Data: counts that were seen
#
# Counts of last decade, or of like streets, are a belief as they stand. `law_of_counts` takes this street to be like
# one of them. Twelve counts make a jagged distribution: 12 was seen twice, 11 once. The smooth alternative says that
# all streets share an unknown rate; `GammaPoisson` starts from 133 people in 12 streets.

# %%
seen = [9, 14, 7, 11, 16, 12, 8, 10, 13, 15, 6, 12]
jagged = adv.law_of_counts(seen)
smooth = adv.GammaPoisson(shape=sum(seen), rate=len(seen))
by_rate = adv.Adversary(prior=0.2, beliefs={"street": smooth})
risk = adv.audit(plan, by_rate, truth)["risk"]
print(f"like one of the twelve: 20% becomes {after(jagged):.1%}")
print(f"one unknown rate:       20% becomes {risk['posterior_mean']:.1%}")

# %% [markdown]
# ## Data: a sample
#
# A survey found three others with the trait, and their sampling weights add up to eleven: fk and Fk of sdcMicro's
# individual risk. `law_of_sample` is its distribution of the count in the population.

# %%
survey = adv.law_of_sample(sampled=3, population=11)
print(f"mean {survey.mean():.1f}, standard deviation {survey.std():.1f}")
print(f"20% becomes {after(survey):.1%}")

# %% [markdown]
# ## Both
#
# Half expert, half survey: a belief may be any list of probabilities, here the average of two.

# %%
count = np.arange(200)
expert = adv.law_between(5, 20).pmf(count)
mixed = (expert + survey.pmf(count)) / 2
print(f"20% becomes {after(mixed / mixed.sum()):.1%}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(layout="constrained")
shown = {
    "expert, 5 to 20": expert,
    "twelve streets": np.pad(jagged, (0, 200 - jagged.size)),
    "survey, 3 of about 11": survey.pmf(count),
}
for name, probs in shown.items():
    ax.plot(count[:36], 100 * probs[:36], "o-", ms=3, label=name)
ax.axvline(11, color=adv.plot.PALETTE["ink"], lw=1.2)
ax.annotate(
    "truth: 11", (11, 16.4), (-6, 0), textcoords="offset points", ha="right"
)
ax.legend(frameon=False)
ax.set(xlim=(0, 35), ylim=(0, 17.5))
ax.yaxis.set_major_formatter("{x:.0f}%")
ax.set_xlabel("others in the street who have the trait")
ax.set_ylabel("probability, to the adversary")
adv.plot.headline(
    ax,
    "Twelve counts give a jagged belief, a range a smooth one",
    shape="Three distributions of the number of others around the true 11; "
    "that of the twelve streets jumps up and down between 6 and 16.",
)
plt.show()

# %% [markdown]
# ## When the belief is wrong
#
# The guarantee holds for any belief about others; being right is the adversary's own problem. An expert who is sure
# of 30 to 40 others reads a release near 12 as "even fewer than I thought", and the target as absent.

# %% tags=["hide-input"]
middle = np.arange(5, 36, 3)
errors = {"in": [], "out": []}
for m in middle:
    law = adv.law_between(max(m - 5, 0), m + 5)
    errors["in"].append(after(law))
    errors["out"].append(after(law, {"street": 11, "in": 0}))
fig, ax = plt.subplots(layout="constrained")
for side, words in {"in": "target in", "out": "target not in"}.items():
    ax.plot(middle, 100 * np.array(errors[side]), "o-", label=words)
adv.plot.label_ends(ax)
ax.axhline(20, color=adv.plot.PALETTE["ink"], lw=1.2)
ax.annotate("before", (5, 20), (0, 5), textcoords="offset points")
ax.axvline(11, color=adv.plot.PALETTE["quiet"], lw=1, ls=":")
ax.annotate("truth", (11, 1), (5, 0), textcoords="offset points")
ax.set(xlim=(4, 36), ylim=(0, 30))
ax.yaxis.set_major_formatter("{x:.0f}%")
ax.set_xlabel("middle of the range that the expert gives (5 people either way)")
ax.set_ylabel("probability after, on average")
adv.plot.headline(
    ax,
    "A belief twenty too high takes 20% below 9%, whatever the truth",
    shape="Two nearly equal curves that fall from 24% where the expert "
    "expects too few to 8% where too many.",
)
plt.show()

# %% tags=["remove-cell"]
assert experts["20% becomes"].tolist() == ["26%", "19%", "20%", "20%"]
assert abs(after(jagged) - 0.191) < 5e-4
assert abs(risk["posterior_mean"].item() - 0.211) < 5e-4
assert abs(after(survey) - 0.217) < 5e-4
assert sum(seen) == 133
assert max(errors["in"][-2], errors["out"][-2]) < 0.09
bound = tree["bound"]["posterior"].sel(side="upper").values
assert np.isclose(bound, 0.4046, atol=5e-5).all()
print(np.round(errors["in"], 3), np.round(errors["out"], 3))

# %% [markdown]
# ## In a file
#
# The same beliefs in a scenario for `adversary audit`:
#
# ```toml
# [adversaries.expert.beliefs]
# street = { between = [5, 20], mass = 0.9 }
#
# [adversaries.census.beliefs]
# street = { counts = "streets.csv", column = "people" }
#
# [adversaries.survey.beliefs]
# street = { sampled = 3, population = 11 }
# ```
#
# ## What this does not say
#
# - Not which belief an adversary has. Audit several, the best informed among them; their largest answer is what
#   counts.
# - Averages are over releases of one truth. An average below the prior is no protection: it is an adversary who is
#   misled, and another street would mislead them the other way.
# - The bound needs a belief about others that does not depend on the target. Where people resemble each other, what
#   is learned about the group is learned about its members, and no noise prevents that.
