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
# # Precision and recall of an adversary

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np

import adversary as adv

adv.plot.style()
decisions = adv.decisions
figure, ax = plt.subplots()
for prior, name in {
    0.5: "1 in 2",
    0.1: "1 in 10",
    0.01: "1 in 100",
}.items():
    curve = decisions.pr_curve(adv.PureDP(1.0), prior)
    colour = "C1" if prior == 0.01 else "C0"
    ax.plot(curve["recall"], curve["precision"], color=colour)
    ax.axhline(prior, color="#5F6B7A", lw=1, ls=(0, (1, 2)), zorder=0)
    most = float(curve["precision"].max())
    ax.annotate(
        f"{name} is in: at most {np.ceil(1000 * most) / 10:.1f}% right",
        (0.05, most), (0, 5), textcoords="offset points", color=colour,
    )  # fmt: skip
ax.annotate(
    "naming people at random",
    (0.55, 0.5),
    (0, -14),
    textcoords="offset points",
    color="#5F6B7A",
)
ax.set(xlim=(0, 1), ylim=(0, 1))
ax.set_xlabel("recall: share of the people who are in that are named")
ax.set_ylabel("precision: share of those named who are in")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "With one target in 100, at most 3 of 100 people named are right",
    "The best precision at every recall under epsilon = 1, by how many are in",
    shape="Three curves, flat and then falling, at 73%, 23% and 3%.",
)
plt.show()

# %% [markdown]
# **In short.** An adversary who must decide, person by person, who is in the data makes two kinds of mistakes. *Recall*
# is the share of the people who are in that they name; *precision* is the share of those named who really are in. Under
# epsilon = 1 (figure: the best that any adversary can do):
#
# - If one person in two is in, at most 73.2% of those named are; if one in 100, at most 2.7%. An attack that looks good
#   on a balanced test set says little about one on a population.
# - Turned round: "no adversary's F1 above 0.9" allows epsilon = 3.20 with Laplace noise, and 2.19 whatever the noise.
# - An attack that was run proves an epsilon too: 1000 trials against Laplace noise of epsilon = 2 prove at least 1.97,
#   and 1.63 if the noise is not known.
#
# Reference: Liu, He, Chanyaswad, Wang and Mittal (2019), "Investigating statistical privacy frameworks from the
# perspective of hypothesis testing", PoPETs 2019(3).

# %% [markdown]
# ## The best test
#
# A count is published with Laplace noise of scale 1/2: epsilon = 2 for one person. The adversary knows everybody else,
# starts at even odds, and decides "in" if the release is large enough. How large depends on what a good decision is.
# F_beta combines precision and recall; beta below 1 values precision more, above 1 recall.

# %%
import numpy as np
import pandas as pd

import adversary as adv

decisions = adv.decisions
laplace = adv.Laplace(0.5).privacy_loss()
best = decisions.max_f_score(laplace, prior=0.5, beta=[0.5, 1, 2])
rows = ["f_score", "precision", "recall", "release_threshold"]
best[rows].to_pandas().T.round(3)

# %% [markdown]
# `release_threshold` is in people above the count without the target. The rule behind the table holds for every
# mechanism: decide "in" where the posterior is at least F / (1 + beta^2), F being the score that this very rule
# achieves. At beta = 1 that is half of the best F1, 0.41 here; so the best decision by F1 says "in" even of people who
# are more likely out than in.

# %% tags=["hide-input"]
gaussian = adv.Gaussian(1.0).privacy_loss()
kinds = {
    "any pure DP, epsilon 2": adv.PureDP(2.0),
    "Laplace noise, epsilon 2": laplace,
    "Gaussian noise, mu 1": gaussian,
}
figure, ax = plt.subplots()
for i, (name, one) in enumerate(kinds.items()):
    curve = decisions.pr_curve(one, 0.5)
    recall, precision = curve["recall"].values, curve["precision"].values
    ax.plot(recall, precision, color=f"C{i}", ls=(0, (5, 2)) if i == 0 else "-")
    top = decisions.max_f_score(one, 0.5, [1.0])
    ax.plot(top["recall"], top["precision"], "o", color=f"C{i}")
    place = [(0.5, 0.895), (0.4, 0.845), (0.2, 0.7)][i]
    ax.annotate(name, place, color=f"C{i}")
ax.axhline(0.5, color="#5F6B7A", lw=1, ls=(0, (1, 2)))
ax.annotate(
    "everybody is named",
    (0.02, 0.5),
    (0, 5),
    textcoords="offset points",
    color="#5F6B7A",
)
ax.set(xlim=(0, 1), ylim=(0.45, 1.02), xlabel="recall", ylabel="precision")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "Laplace noise stays below the limit of pure DP",
    "Precision against recall of the best test, at even odds",
    shape="Three falling curves; the dashed limit is the highest of the two "
    "with epsilon 2.",
)
plt.show()

# %% [markdown]
# Every point below a curve can be had by some test, and no point above it; dots have the best F1. Laplace noise starts
# flat: half of the releases of those who are in carry the largest likelihood ratio, e^2. Gaussian noise has no largest
# ratio, and precision goes to 100% as recall goes to zero. The dashed curve is the limit for *any* mechanism of epsilon
# = 2, and randomised response reaches it. These numbers need no beta:

# %%
kinds = {
    "any pure DP, epsilon 2": adv.PureDP(2.0),
    "Laplace noise, epsilon 2": laplace,
    "Gaussian noise, mu 1": adv.Gaussian(1.0).privacy_loss(),
}
numbers = {
    name: {
        "average precision": decisions.average_precision(one),
        "area under ROC": one.auc,
        "advantage": one.advantage,
        "Bayes error": decisions.bayes_error(one),
    }
    for name, one in kinds.items()
}
pd.DataFrame(numbers).T.round(3)

# %% tags=["remove-cell"]
assert round(float(best["f_score"].sel(beta=1)), 3) == 0.819
assert np.isclose(adv.Laplace(2.0).privacy_loss().f_score(0.5), 2 / 3)
half, rare = (adv.PureDP(1.0).posterior_bounds(p)[1] for p in (0.5, 0.01))
assert np.ceil(1000 * half) == 732
assert np.ceil(1000 * rare) == 27
assert np.isclose(rare, adv.PureDP(1.0).precision(0.0, 0.01))

# %% [markdown]
# ### A score that does not start at zero
#
# Naming everybody has recall 1 and precision equal to the prior. At even odds that is an F1 of 2/3 without looking at
# the release, so no amount of noise brings the best F1 below 2/3. Under Laplace noise the best F1 stays exactly there
# up to epsilon = log 2 = 0.69: F-scores cannot tell small epsilons apart.
#
# ## From a limit to an epsilon
#
# Turn the question round: no adversary's F1 may exceed 0.9. With Laplace noise that allows epsilon = 3.20; for an
# arbitrary epsilon-DP mechanism only 2.19, since other mechanisms of the same epsilon reveal more. The answer for
# Gaussian noise is a mu, because a Gaussian has an epsilon only together with a delta.

# %%
for kind in ("laplace", "any", "gaussian"):
    print(kind, decisions.epsilon_from_f_score(0.9, mechanism=kind))

# %% tags=["remove-cell"]
allowed = {
    kind: decisions.epsilon_from_f_score(0.9, mechanism=kind).epsilon
    for kind in ("laplace", "any")
}
assert 3.20 < allowed["laplace"] < 3.21
assert 2.19 < allowed["any"] < 2.20
assert round(adv.PureDP(allowed["laplace"]).f_score(0.5), 2) == 0.96
assert np.isclose(adv.PureDP(allowed["any"]).f_score(0.5), 0.9)

# %% [markdown]
# An epsilon that was computed for Laplace noise is safe for Laplace noise only: as a guarantee of pure DP, by whatever
# mechanism, the same 3.20 allows an F1 of 0.96.
#
# There are three answers to a limit: "attained", the largest epsilon that satisfies it; "unattainable", none does, not
# even 0; "unconstrained", all do. The table has epsilons for limits on the F-score (rows) and betas (columns), for
# Laplace noise at even odds, as in Table 1 of the paper. An empty cell is a limit below the score of always saying
# "in". Where the paper prints a number there, it is the epsilon of that floor (`allow_floor=True`).

# %%
limits, betas = [0.55, 0.62, 0.67, 0.76, 0.83, 0.90, 0.95], [0.5, 0.8, 1.0, 2.0]
table = decisions.epsilon_from_f_score(limits, betas)
np.floor(100 * table["epsilon"].to_pandas()) / 100

# %% [markdown]
# The same for a point of the precision-recall plane, and for the posterior itself:

# %%
ask = decisions.epsilon_from_point, decisions.epsilon_from_posterior
answers = {
    kind: {
        "precision 90% at recall 90%": ask[0](0.9, 0.9, mechanism=kind).epsilon,
        "precision 30% at recall 90%": ask[0](0.3, 0.9, mechanism=kind).epsilon,
        "precision 90% at recall 100%": ask[0](
            0.9, 1.0, mechanism=kind
        ).epsilon,
        "posterior 75%": ask[1](0.75, mechanism=kind).epsilon,
    }
    for kind in ("laplace", "any")
}
np.floor(100 * pd.DataFrame(answers)) / 100

# %% tags=["remove-cell"]
assert "unattainable" in repr(ask[0](0.3, 0.9, mechanism="any"))
assert "unconstrained" in repr(ask[0](0.9, 1.0, mechanism="any"))
assert "mu 0," in repr(ask[1](0.75, mechanism="gaussian"))
status = table["status"].sel(beta=0.5, f=0.55).item()
assert status == "unattainable"

# %% [markdown]
# A precision of 30% is below the prior of 50%: whoever names people at random is right more often, and no epsilon
# attains it (NaN). At recall 100% everybody is named, and precision is the prior whatever the noise (infinite).
# Gaussian noise allows every posterior, with small probability, so that a cap below 100% leaves only mu = 0.

# %% [markdown]
# ## Auxiliary information
#
# What an adversary knows beforehand, about the population, about friends of the target or about the target's past,
# moves the prior odds. It does not move the likelihood ratio of an adversary who knows all other records, so everything
# above stays, at another prior. Take a joint distribution of the target's trait and a friend's: with a friend known to
# have the trait the prior is 73% instead of 50%, and so is the precision of always saying "yes".

# %%
import xarray as xr

labels = {"value": ["no", "yes"], "friend": ["no", "yes"]}
joint = xr.DataArray([[0.35, 0.15], [0.10, 0.40]], coords=labels)
decisions.conditional_priors(joint)["prior"].to_pandas().round(2)

# %% tags=["remove-cell"]
known = decisions.conditional_priors(joint)["prior"]
assert np.isclose(float(known.sel(value="yes", friend="yes")), 0.4 / 0.55)

# %% [markdown]
# The paper summarises auxiliary knowledge by three worst-case coefficients: uneven prior, correlated records, and past
# releases. Worst cases attained at different values cannot occur together; such a combination raises an error instead
# of returning a probability above one.

# %%
coefficients = decisions.prior_from_coefficients
adversaries = {
    "knows nothing": 0.5,
    "uneven prior, 0.2": coefficients(0.2),
    "and friends, 0.1": coefficients(0.2, 0.1),
    "and the past, 0.1": coefficients(0.2, 0.1, 0.1),
}
noise = adv.Laplace(1.0).privacy_loss()
rows = {
    name: {
        "prior": p,
        "best F1, epsilon 1": noise.f_score(p),
        "epsilon for F1 0.9": decisions.epsilon_from_f_score(
            0.9, prior=p
        ).epsilon,
    }
    for name, p in adversaries.items()
}
try:
    decisions.odds_from_coefficients(0.2, 0.5)
except ValueError as error:
    print(error)
np.floor(100 * pd.DataFrame(rows).T) / 100

# %% [markdown]
# ### An adversary who does not know the others
#
# If correlated records are *not* known they have to be averaged over, and then correlation does enter the likelihood
# ratio. Two records that agree four times in five, their sum published with Laplace noise of scale 1: the mechanism is
# 1-DP, but the epsilon about one record is up to 1.57, because the other one moves with it.

# %%
frameworks = adv.literature.frameworks
agree = frameworks.JointDistribution([[0.4, 0.1], [0.1, 0.4]])
compared = frameworks.compare(agree, sum, adv.Laplace(1.0))["epsilon"]
compared.sel(framework=["DP", "inferential"]).to_pandas().round(2)

# %% tags=["remove-cell"]
one = compared.sel(framework="inferential", level="record")
assert round(float(one), 2) == 1.57

# %% [markdown]
# ## Any attack, from its baseline
#
# The field says risk as the success of an attack against its baseline: how often the best guess is right without the
# release. Under a guarantee, an attack of any kind (membership, an attribute, reconstruction of a record) that succeeds
# with probability b without the release succeeds with at most the power of a test at level b.

# %%
baselines = [0.01, 0.1, 0.5]
success = {
    "pure DP, epsilon 1": adv.PureDP(1.0).attack_success(baselines),
    "zCDP, rho 2.63": adv.ZeroConcentratedDP(2.63).attack_success(baselines),
}
pd.DataFrame(success, index=pd.Index(baselines, name="baseline")).round(3)

# %% tags=["remove-cell"]
assert np.isclose(success["zCDP, rho 2.63"][0], 0.698, atol=5e-4)
prior = [0.6, 0.3, 0.1]
report = decisions.attribute_of_report(adv.RandomizedResponse(1.0, 3), prior)
bound = decisions.attribute_bound(adv.PureDP(1.0), prior)
assert report.baseline <= report.expected <= bound.expected
assert round(report.expected, 2) == 0.65
assert round(bound.expected, 2) == 0.66

# %% [markdown]
# An attribute of three values, say, and a best guess that is right in 60% of cases: randomised response of epsilon 1
# leaves it right in 65%, and no mechanism of epsilon 1 in more than 66% (`decisions.attribute_of_report`,
# `decisions.attribute_bound`).
#
# ## What an attack proves
#
# The last direction: an attack was run, and it worked this well. Which epsilon does that prove at least? We attack the
# Laplace mechanism of epsilon = 2 with its best F1 test, a thousand times with the target in and a thousand times out.

# %%
rng, trials = np.random.default_rng(2019), 1000
threshold = float(best["release_threshold"].sel(beta=1))
mechanism = adv.Laplace(0.5)
hits = int((mechanism.sample(1.0, rng, trials) > threshold).sum())
alarms = int((mechanism.sample(0.0, rng, trials) > threshold).sum())
print(f"recall {hits / trials:.0%}, false alarms {alarms / trials:.0%}")
for kind in ("any", "laplace"):
    proved = decisions.epsilon_lower_bound_from_counts(
        hits, trials, alarms, trials, mechanism=kind
    )
    least = np.floor(100 * proved.epsilon) / 100
    print(f"{kind}: epsilon at least {least:.2f}, with 95% confidence")

# %% tags=["remove-cell"]
assert 1.97 < proved.epsilon < 2.0

# %% tags=["hide-input"]
rates = best.sel(beta=1)
attack = {"the attack": (float(rates["level"]), float(rates["recall"]))}
adv.plot.trade_off(
    {"Laplace noise": laplace, "any pure DP": adv.PureDP(2.0)}, attack
)
plt.show()

# %% [markdown]
# The dot is at the true rates of this test. Without knowing the noise the counts prove less, because Laplace noise
# stays below what epsilon = 2 allows; knowing that it is Laplace's, nearly the whole epsilon is proved.
#
# ## What this does not say
#
# All of it is about one person at a time and the best test of one adversary. It takes any loss: for the 2020 Census
# see [the 2020 Census budget](the_2020_census_budget.ipynb).
