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
# # What epsilon means
#
# A privacy guarantee is a sentence about every reader, whatever they know and whatever they do with the release. This
# notebook says that sentence in five ways: as a bound on what anybody can come to believe, as a limit on any test, as a
# curve of (epsilon, delta), as the law of one reader's posterior, and as the difference that one person's own record
# makes. They are five views of one object, the law of the log-likelihood ratio of the release, and all of them can be
# asked of it exactly.
#
# References: Kazan and Reiter (2024), "Prior-itizing privacy"; Kifer et al. (2022), "Bayesian and frequentist semantics
# for common variations of differential privacy: applications to the 2020 Census".

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import adversary as adv
from adversary.desk import curves

plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## What anybody can come to believe
#
# Under pure epsilon-DP the odds of any hypothesis about one person move by at most a factor e^epsilon. In terms of
# probabilities that depends on where the reader starts: rare traits can almost triple at epsilon = 1, and still stay
# rare; a reader at even odds can at most go from 50 % to 73.1 %.

# %%
promise = adv.PureDP(1.0)
priors = np.array([0.001, 0.01, 0.1, 0.5, 0.9])
lowest, highest = promise.posterior_bounds(priors)
ratio = promise.ratio_bounds(priors)[1]
assert round(highest[3], 3) == 0.731
pd.DataFrame({"prior": priors, "lowest posterior": lowest, "highest": highest, "highest / prior": ratio}).round(4)

# %% [markdown]
# The largest rise, posterior minus prior, is tanh(epsilon / 4), at a prior somewhat below one half. So one epsilon can
# be read as a price list over all priors:

# %%
p = np.linspace(0.001, 0.999, 500)
figure, axis = plt.subplots()
for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0):
    (line,) = axis.plot(p, adv.PureDP(epsilon).difference_bounds(p)[1])
    worst, rise = adv.guarantees.worst_prior(epsilon)
    axis.plot(worst, rise, "o", color=line.get_color())
    axis.annotate(f"epsilon {epsilon:g}: {rise:.2f}", (worst, rise), (4, 4), textcoords="offset points")
axis.set(xlabel="prior", ylabel="posterior - prior, at most", xlim=(0, 1), ylim=(0, 0.88))
axis.set_title("The larger epsilon, the rarer the trait that is given away most")
plt.show()

# %% [markdown]
# ## What any test can detect
#
# The same promise without priors: decide "in" or "out" from the release. With 5 % false alarms, no test detects more
# than 13.6 % of those who are in at epsilon = 1. Laplace noise of that epsilon is close to the limit where false alarms
# are few or many, and below it in between; a Gaussian, or zCDP, promises a different shape altogether.

# %%
kinds = {
    "pure DP, epsilon 1": promise,
    "Laplace noise": adv.Laplace(1.0).privacy_loss(),
    "Gaussian noise, mu 1": adv.Gaussian(1.0).privacy_loss(),
    "zCDP, rho 1/2": adv.ZeroConcentratedDP(0.5),
}
assert round(promise.power(0.05), 3) == 0.136
curves.trade_off(kinds)

# %% [markdown]
# Gaussian noise with mu = 1 has rho = 1/2. Its own curve lies well below that of zCDP with the same rho, because zCDP
# has to allow for every mechanism of that rho. A guarantee is only as sharp as what it was told.

# %%
summary = {
    name: {"power at 1 %": one.power(0.01), "at 5 %": one.power(0.05), "advantage": one.advantage, "AUC": one.auc}
    for name, one in kinds.items()
}
pd.DataFrame(summary).T.round(4)

# %% [markdown]
# Who is protected? The promise is about one record. A family of three, all of whose records change together, gets three
# times the epsilon under pure DP, nine times the rho under zCDP, three times the mu under Gaussian DP.

# %%
family = {name: one.group(3) for name, one in kinds.items()}
pd.DataFrame(
    {"one person": {n: g.power(0.05) for n, g in kinds.items()}, "three": {n: g.power(0.05) for n, g in family.items()}}
).round(4)

# %% [markdown]
# ## Epsilon and delta: a curve, not a number
#
# The 2020 Census redistricting data were announced as rho = 2.63. To turn this into an epsilon one chooses a delta, and
# a conversion. The published simple one says 18.19 at delta = 1e-10; the tight one 17.43; and the noise that was really
# used, 142 discrete Gaussians composed exactly, needs 16.75. Nothing about the noise changed: only the bookkeeping did.

# %%
rho = 2.63
release = adv.census.pl94_loss()
tight = adv.ZeroConcentratedDP(rho)
epsilons = [adv.guarantees.simple_epsilon(rho, 1e-10), tight.epsilon(1e-10), release.epsilon(1e-10)]
assert [round(float(e), 2) for e in epsilons] == [18.19, 17.43, 16.75]
curves.epsilon_ladder(rho, {"the noise itself": release})

# %% [markdown]
# delta is *not* the probability that the loss exceeds epsilon. It is smaller: a release whose likelihood ratio is
# e^loss counts only for the part 1 - e^(epsilon - loss) of its probability. And the probability itself is no safe
# promise, since post-processing can raise it. What survives post-processing is the probabilistic bound (pbDP), which
# is larger. At epsilon = 5 for the Gaussian with rho = 2.63:

# %%
gaussian = adv.Gaussian(1.0 / np.sqrt(2.0 * rho)).privacy_loss()
at = 5.0
views = {
    "delta(5), of (epsilon, delta)-DP": gaussian.delta(at),
    "P(loss > 5), of the release as it is": gaussian.tail(at)[0],
    "P(loss > 5), after any post-processing (pbDP)": gaussian.pbdp_delta(at),
    "the same, from rho alone": adv.guarantees.pbdp_delta_markov(at, rho=rho),
}
assert list(views.values()) == sorted(views.values())
pd.Series(views).round(4)

# %% [markdown]
# How can post-processing raise a tail? Ask a yes-no question twice, with randomised response of epsilon = 1. With both
# answers, the loss exceeds 1/2 with probability 0.534, which is when they agree on the truth. Throw the second answer
# away, and it does so with probability 0.731: less information, but a larger tail. The pbDP column covers both.

# %%
answer = adv.RandomizedResponse(1.0).privacy_loss()
twice = 2 * answer
tails = {}
for loss in (0.5, 1.5):
    tails[loss] = {"both answers": twice.tail(loss)[0], "the first only": answer.tail(loss)[0]}
    assert twice.pbdp_delta(loss) >= max(tails[loss].values())
    tails[loss]["pbDP of both"] = twice.pbdp_delta(loss)
assert round(tails[0.5]["both answers"], 3) == 0.534
assert round(tails[0.5]["the first only"], 3) == 0.731
pd.DataFrame(tails).T.rename_axis("loss above").round(4)

# %% [markdown]
# So with a delta, bounds on beliefs hold except with some probability, and one says which. For the redistricting
# release at even odds:

# %%
bounds = {}
for failure in (1e-10, 1e-4, 0.01, 0.05):
    for name, one in {"zCDP": tight, "the noise itself": release}.items():
        low, high = one.posterior_bounds(0.5, failure)
        bounds[failure, name] = {"lowest": low, "1 - highest": 1 - high}
pd.DataFrame(bounds).T.rename_axis(["failure", "promise"])

# %% [markdown]
# Those numbers are close to 0 and 1: rho = 2.63 for the whole record promises little about the whole record.
# `03_the_2020_census_budget` shows what it promises about parts of it.

# %% [markdown]
# ## Adding up
#
# Ten releases at epsilon = 0.1 each cost 1.0 by addition. Composed optimally they cost less once a delta is allowed, and
# never more. `n * g` composes; so does `+`, for promises and for noise alike.

# %%
ten = 10 * adv.PureDP(0.1)
rows = {}
for delta in (0.0, 1e-9, 1e-6, 1e-3):
    advanced = adv.guarantees.compose_advanced([0.1] * 10, delta) if delta else np.nan
    laplace = (10 * adv.Laplace(10.0).privacy_loss()).epsilon(delta) if delta else 1.0
    rows[delta] = {"basic": 1.0, "advanced": advanced, "optimal": ten.epsilon(delta), "ten Laplace noises": laplace}
assert all(row["optimal"] <= 1.0 for row in rows.values())
pd.DataFrame(rows).T.rename_axis("delta").round(4)
