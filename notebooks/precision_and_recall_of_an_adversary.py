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
#
# An adversary who must decide, person by person, who is in the data makes two kinds of mistakes. *Recall* is the share
# of the people who are in that the adversary finds; *precision* is the share of those named who really are in. People
# who have to defend a privacy budget are often asked about these two, not about epsilon. This notebook goes both ways:
# from a guarantee to the best precision and recall that any adversary can have, and from a limit on those back to an
# epsilon, when there is one.
#
# Reference: Liu, He, Chanyaswad, Wang and Mittal (2019), "Investigating statistical privacy frameworks from the
# perspective of hypothesis testing", PoPETs 2019(3).

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import display

import adversary as adv
from adversary.privacy import decisions

plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## The best test
#
# A count is published with Laplace noise of scale 1/2: epsilon = 2 for one person. The adversary knows everybody else,
# starts at even odds, and decides "in" if the release is large enough. How large? That depends on what a good decision
# is. F_beta combines both shares; beta below 1 values precision more, above 1 recall. `release_threshold` is in people
# above the count without the target.

# %% [markdown]
# The rule behind the table holds for every mechanism: decide "in" where the posterior is at least F / (1 + beta^2), F
# being the score that this very rule achieves. At beta = 1 that is half of the best F1, 0.41 here; so the best decision
# by F1 says "in" even to people who are more likely out than in.
#
# In the figure every point below a curve can be had by some test, and no point above it. Laplace noise starts flat:
# half of the releases of those who are in carry the largest likelihood ratio, e^2. Gaussian noise has no largest ratio,
# and precision goes to 100 % as recall goes to zero. The dashed curve is the limit for *any* mechanism of epsilon = 2,
# and randomised response reaches it. The second table has numbers that need no beta: average precision (the area under
# these curves), the area under the ROC curve, the largest gap between detections and false alarms, and the least
# probability of a wrong decision at even odds.

# %%
laplace = adv.Laplace(0.5).privacy_loss()
best = decisions.max_f_score(laplace, prior=0.5, beta=[0.5, 1, 2])
assert round(float(best["f_score"].sel(beta=1)), 3) == 0.819
display(best.to_pandas().T.round(4))

gaussian = adv.Gaussian(1.0).privacy_loss()
kinds = {"Laplace noise": laplace, "any pure DP": adv.PureDP(2.0), "Gaussian noise": gaussian}


def draw(kinds, prior, title, betas=(1.0,)):
    """Precision of the best test against its recall; dots have the largest F_beta, whose values the legend gives."""
    _, ax = plt.subplots()
    for i, (name, one) in enumerate(kinds.items()):
        curve, top = decisions.pr_curve(one, prior), decisions.max_f_score(one, prior, list(betas))
        scores = ", ".join(f"F{beta:g} {score:.3f}" for beta, score in zip(betas, top["f_score"].values, strict=True))
        ax.plot(curve["recall"], curve["precision"], color=f"C{i}", label=f"{name}: {scores}")
        ax.plot(top["recall"], top["precision"], "o", color=f"C{i}", mec="white")
    ax.axhline(prior, color="grey", lw=1)
    ax.set(xlabel="recall: P(says “in” | in)", ylabel="precision: P(in | says “in”)", xlim=(0, 1), ylim=(0, None))
    ax.set_title(title, loc="left")
    ax.legend(frameon=False, fontsize=8)
    plt.show()


draw(kinds, 0.5, "Laplace noise stays below the limit of pure DP", (0.5, 1.0, 2.0))

numbers = {
    name: {
        "average precision": decisions.average_precision(one),
        "AUC": one.auc,
        "advantage": one.advantage,
        "Bayes error": decisions.bayes_error(one),
    }
    for name, one in kinds.items()
}
pd.DataFrame(numbers).T.round(4)

# %% [markdown]
# ## A score that does not start at zero
#
# Naming everybody has recall 1 and precision equal to the prior. At even odds that is an F1 of 2/3 without looking at
# the release, so no amount of noise brings the best F1 below 2/3. Under Laplace noise the best F1 stays exactly there
# up to epsilon = log 2 = 0.69, although the precision-recall curve does move: F-scores cannot tell small epsilons
# apart.

# %%
epsilon = np.linspace(0.02, 5.0, 60)
figure, axis = plt.subplots()
families = {
    "any pure DP": (adv.PureDP, "--"),
    "Laplace noise": (lambda e: adv.Laplace(1.0 / e).privacy_loss(), "-"),
}
for name, (family, style) in families.items():
    (line,) = axis.plot(epsilon, [family(e).f_score(0.5) for e in epsilon], style)
    axis.annotate(name, (3.0, family(3.0).f_score(0.5)), (8, -12), textcoords="offset points", color=line.get_color())
axis.axhline(2 / 3, color="0.6", linestyle=":")
axis.axvline(np.log(2), color="0.6", linestyle=":")
axis.annotate("always “in”", (3.9, 2 / 3), (0, 4), textcoords="offset points")
axis.annotate("log 2", (np.log(2), 0.95), (4, 0), textcoords="offset points")
axis.set(xlabel="epsilon", ylabel="best F1 at even odds", title="Below log 2 the best F1 is that of saying “in” always")
plt.show()
assert np.isclose(adv.Laplace(2.0).privacy_loss().f_score(0.5), 2 / 3)

# %% [markdown]
# ## From a limit to an epsilon
#
# Turn the question round: no adversary's F1 may exceed 0.9. With Laplace noise that allows epsilon = 3.21; for an
# arbitrary epsilon-DP mechanism only 2.20, since other mechanisms of the same epsilon reveal more. The answer for
# Gaussian noise is a mu, because a Gaussian has an epsilon only together with a delta. An epsilon found for Laplace
# noise is safe for Laplace noise only: as a guarantee of pure DP, by whatever mechanism, the same 3.21 allows an F1 of
# 0.96.

# %%
allowed = {name: decisions.epsilon_from_f_score(0.9, mechanism=name) for name in ("laplace", "any", "gaussian")}
assert round(allowed["laplace"].epsilon, 2) == 3.21
assert round(allowed["any"].epsilon, 2) == 2.20
for name, target in allowed.items():
    print(f"{name:9s} {target!r}")
print(f"the Gaussian's epsilon at delta = 1e-6: {allowed['gaussian'].guarantee.epsilon(1e-6):.2f}")
limit = allowed["laplace"].epsilon
any_mechanism = adv.PureDP(limit).f_score(0.5)
assert round(any_mechanism, 2) == 0.96
assert np.isclose(adv.PureDP(allowed["any"].epsilon).f_score(0.5), 0.9)
print(f"Laplace noise of epsilon {limit:.2f}: best F1 {adv.Laplace(1.0 / limit).privacy_loss().f_score(0.5):.4f}")
print(f"any mechanism of epsilon {limit:.2f}: best F1 {any_mechanism:.4f}")

# %% [markdown]
# ### What "unattainable" means
#
# Epsilons for limits on the F-score (rows) and betas (columns), for Laplace noise at even odds, as in Table 1 of the
# paper. An empty cell is a limit below the score of always saying "in": no epsilon satisfies it, not even 0. This is a
# status, never a number; where the paper prints one, it is the epsilon of the floor instead (`allow_floor=True`).
#
# There are three answers to a limit: "attained", the largest epsilon that satisfies it; "unattainable", none does;
# "unconstrained", all do. The second table asks the same for a point of the precision-recall plane (nobody who finds
# 90 % may be right in more than 90 % of cases) and for the posterior itself (nobody may become more than 75 % sure).

# %%
limits, betas = [0.55, 0.58, 0.62, 0.67, 0.76, 0.83, 0.90, 0.95], [0.5, 0.6, 0.8, 1.0, 1.5, 2.0]
table = decisions.epsilon_from_f_score(limits, betas)
status = table["status"].to_series().value_counts()
print(status.to_dict())
print("F0.5 of 0.55:", decisions.epsilon_from_f_score(0.55, 0.5))
print("with the floor:", decisions.epsilon_from_f_score(0.55, 0.5, allow_floor=True))
display(table["epsilon"].to_pandas().round(2))

questions = {
    "precision 90 % at recall 90 %": lambda kind: decisions.epsilon_from_point(0.9, 0.9, mechanism=kind),
    "precision 30 % at recall 90 %": lambda kind: decisions.epsilon_from_point(0.3, 0.9, mechanism=kind),
    "precision 90 % at recall 100 %": lambda kind: decisions.epsilon_from_point(0.9, 1.0, mechanism=kind),
    "posterior 75 %": lambda kind: decisions.epsilon_from_posterior(0.75, mechanism=kind),
    "posterior 100 %": lambda kind: decisions.epsilon_from_posterior(1.0, mechanism=kind),
}
answers = {kind: [repr(ask(kind)) for ask in questions.values()] for kind in ("laplace", "any", "gaussian")}
pd.DataFrame(answers, index=list(questions))

# %% [markdown]
# A precision of 30 % is below the prior of 50 %: whoever names people at random is right more often. At recall 100 %
# everybody is named, and precision is the prior whatever the noise. And Gaussian noise allows every posterior, with
# small probability, so that a cap below 100 % leaves only mu = 0.

# %% [markdown]
# ## Auxiliary information
#
# What an adversary knows beforehand, about the population, about friends of the target or about the target's past,
# moves the prior odds. It does not move the likelihood ratio of an adversary who knows all other records, so
# everything above stays, at another prior. Take a joint law of the target's trait and a friend's: with a friend known
# to have the trait the prior is 73 % instead of 50 %, and so is the precision of always saying "yes".
#
# The paper summarises such knowledge by three coefficients, for how uneven the prior is, what correlated records
# add, and what the past adds. They are worst cases; where the worst cases belong to different values they do not go
# together, and the answer is an error and not a probability above one.

# %%
joint = xr.DataArray(
    [[0.35, 0.15], [0.10, 0.40]], dims=("value", "friend"), coords={"value": ["no", "yes"], "friend": ["no", "yes"]}
)
known = decisions.conditional_priors(joint)
prior = float(known["prior"].sel(value="yes", friend="yes"))
assert np.isclose(prior, 0.4 / 0.55)
display(known["prior"].to_pandas().round(4))
print(decisions.coefficients_from_joint(joint).to_pandas().to_string())
print(f"largest rho_c beside rho_p = 0.2: {decisions.largest_correlation(0.2):.4f}")
try:
    decisions.odds_from_coefficients(0.2, 0.5)
except ValueError as error:
    print(error)
adversaries = {
    "knows nothing": 0.5,
    "uneven prior, rho_p = 0.2": decisions.prior_from_coefficients(0.2),
    "and friends, rho_c = 0.1": decisions.prior_from_coefficients(0.2, 0.1),
    "and the past, rho_t = 0.1": decisions.prior_from_coefficients(0.2, 0.1, 0.1),
}
one = adv.Laplace(1.0).privacy_loss()
pd.DataFrame(
    {
        name: {
            "prior": p,
            "floor of F1": decisions.f_score(p, 1.0),
            "best F1, epsilon 1": one.f_score(p),
            "epsilon for F1 0.9": float(decisions.epsilon_from_f_score(0.9, prior=p)),
        }
        for name, p in adversaries.items()
    }
).T.round(4)

# %% [markdown]
# ### Rare targets
#
# The opposite case is more common in practice. If one person in a hundred is in, an adversary at epsilon = 1 is wrong
# about nearly everybody named: precision is at most 2.7 %. An attack that looks good on a balanced test set (1:1) says
# little about one on a population.

# %%
assert np.isclose(adv.PureDP(1.0).posterior_bounds(0.01)[1], adv.PureDP(1.0).precision(0.0, 0.01))
assert np.ceil(1000 * adv.PureDP(1.0).posterior_bounds(0.01)[1]) == 27
rare = {"Laplace noise": one, "any pure DP": adv.PureDP(1.0)}
draw(rare, 0.01, "Rare targets: nearly everybody named is out")

# %% [markdown]
# ### An adversary who does not know the others
#
# If correlated records are *not* known they have to be averaged over, and then correlation does enter the likelihood
# ratio. Two records that agree four times in five, their sum published with Laplace noise of scale 1: the mechanism is
# 1-DP, but the epsilon about one record is up to 1.57, because the other one moves with it.

# %%
agree = adv.literature.frameworks.JointLaw([[0.4, 0.1], [0.1, 0.4]])
compared = adv.literature.frameworks.compare(agree, sum, adv.Laplace(1.0))
assert round(float(compared["epsilon"].sel(framework="inferential", level="record")), 2) == 1.57
compared["epsilon"].to_pandas().round(4)

# %% [markdown]
# ## Any attack, from its baseline
#
# The field says risk as the success of an attack against its baseline: how often the best guess is right without the
# release. Under a guarantee, an attack of any kind (membership, an attribute, reconstruction of a record) that succeeds
# with probability b without the release succeeds with at most the power of a test at level b.

# %%
baselines = [0.01, 0.1, 0.5]
guarantees = {"pure DP, epsilon 1": adv.PureDP(1.0), "zCDP, rho 2.63": adv.ZeroConcentratedDP(2.63)}
success = {name: one.attack_success(baselines) for name, one in guarantees.items()}
assert np.isclose(success["zCDP, rho 2.63"][0], 0.698, atol=5e-4)
pd.DataFrame(success, index=pd.Index(baselines, name="baseline")).round(3)

# %% [markdown]
# An attribute of three values, the best guess right in 60 % of cases. What randomised response of epsilon 1 leaves is
# exact; what the guarantee allows lies above it.

# %%
prior = [0.6, 0.3, 0.1]
report = decisions.attribute_of_report(adv.RandomizedResponse(1.0, 3), prior)
allowed = decisions.attribute_bound(adv.PureDP(1.0), prior)
assert report.baseline <= report.expected <= allowed.expected
pd.DataFrame({"randomised response": report, "any pure DP": allowed}, index=list(report._fields)).round(3)

# %% [markdown]
# ## What an attack proves
#
# The last direction: an attack was run, and it worked this well. Which epsilon does that prove at least? We attack the
# Laplace mechanism of epsilon = 2 with its best F1 test, a thousand times with the target in and a thousand times out.
#
# Without knowing the noise the counts prove less, because Laplace noise stays below what epsilon = 2 allows; knowing
# that it is Laplace's, nearly the whole epsilon is proved. In the trade-off the dot is at the true rates of this test:
# as good as Laplace noise permits, and well below the corner that randomised response would reach.

# %%
rng = np.random.default_rng(2019)
mechanism, trials = adv.Laplace(0.5), 1000
threshold = float(best["release_threshold"].sel(beta=1))
hits = int((mechanism.sample(1.0, rng, trials) > threshold).sum())
false_alarms = int((mechanism.sample(0.0, rng, trials) > threshold).sum())
proved = {
    kind: decisions.epsilon_lower_bound_from_counts(hits, trials, false_alarms, trials, mechanism=kind)
    for kind in ("any", "laplace")
}
assert all(0.5 < bound.epsilon < 2.0 for bound in proved.values())
print(f"recall {hits / trials:.3f}, false alarms {false_alarms / trials:.3f}")
for kind, bound in proved.items():
    print(f"{kind}: epsilon is at least {bound.epsilon:.3f}, with 95 % confidence")
attack = {"the attack": (float(best["level"].sel(beta=1)), float(best["recall"].sel(beta=1)))}
adv.plot.trade_off({"Laplace noise": laplace, "any pure DP": adv.PureDP(2.0)}, attack)

# %% [markdown]
# ## A census release
#
# Everything here takes any loss. The 2020 redistricting release (`the_2020_census_budget`) in an adversary's hands,
# at even odds: which block of a block group somebody lives in, the race recorded, and the whole record.

# %%
release = {name: adv.census.scenario(letter).loss for name, letter in {"block (A)": "A", "race (C)": "C"}.items()}
release["whole record"] = adv.census.pl94().loss
draw(release, 0.5, "The whole record is found with more precision than the block or the race")
