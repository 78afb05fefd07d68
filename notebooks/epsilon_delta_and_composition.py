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
# # Epsilon, delta and composition

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
release = adv.census.pl94().loss
ax = adv.plot.epsilon_delta({"the noise itself": release}, rho=2.63)
adv.plot.headline(
    ax,
    "One noise has a curve of epsilons: 18.2 by one rule, 16.8 by another",
    "The 2020 redistricting data, rho = 2.63; numbers: epsilon at delta = "
    "1e-10",
    shape="Three rising curves; the conversion from rho lies above the noise "
    "itself.",
)
plt.show()

# %% [markdown]
# **In short.** Beyond pure DP a guarantee is no single number: each epsilon has its delta, and releases add up by rules
# that differ in sharpness.
#
# - The 2020 redistricting data, rho = 2.63, have at delta = 1e-10 an epsilon of 18.20 by the simple conversion and of
#   16.75 by the exact composition of their noises.
# - A delta is smaller than the probability that the loss exceeds epsilon, and post-processing can raise that one.
# - A hundred releases of epsilon = 0.1 cost 10 by addition, 7.49 by the published formula and 5.96 by optimal
#   composition, at delta = 1e-9.
#
# What one epsilon means stands in [what epsilon means](what_epsilon_means.ipynb). References: Kifer et al. (2022),
# "Bayesian and frequentist semantics for common variations of differential privacy"; Kairouz, Oh and Viswanath (2015),
# "The composition theorem for differential privacy".

# %% [markdown]
# ## Epsilon and delta: a curve, not a number
#
# The 2020 Census redistricting data were announced as rho = 2.63. To turn this into an epsilon one chooses a delta and
# a conversion. At delta = 1e-10 the published simple conversion gives 18.20, the tight one 17.44, and the noise that
# was really used, 142 discrete Gaussians composed exactly, 16.75. The noise is the same in all three: only the
# bookkeeping differs.

# %%
import numpy as np
import pandas as pd

import adversary as adv

release = adv.census.pl94().loss
tight = adv.ZeroConcentratedDP(2.63)
epsilons = [
    adv.definitions.simple_epsilon(2.63, 1e-10),
    tight.epsilon(1e-10),
    release.epsilon(1e-10),
]
ways = ["simple conversion", "tight conversion", "the noise itself"]
pd.Series(epsilons, ways).round(3).to_frame("epsilon at delta = 1e-10")

# %% tags=["remove-cell"]
assert [np.ceil(100 * e) for e in epsilons] == [1820, 1744, 1675]

# %% [markdown]
# delta is *not* the probability that the loss exceeds epsilon. It is smaller: a release whose likelihood ratio is
# e^loss counts only for the part 1 - e^(epsilon - loss) of its probability. Nor is that probability a safe guarantee,
# since post-processing can raise it. The probabilistic bound that survives post-processing (pbDP) is larger:

# %%
gaussian = adv.Gaussian(1.0 / np.sqrt(2.0 * 2.63)).privacy_loss()
views = {
    "delta of (5, delta)-DP": gaussian.delta(5.0),
    "P(loss > 5), of the release as it is": gaussian.tail(5.0)[0],
    "P(loss > 5), after any post-processing": gaussian.pbdp_delta(5.0),
    "the same, from rho alone": adv.definitions.pbdp_delta_markov(
        5.0, rho=2.63
    ),
}
pd.Series(views).round(3).to_frame("Gaussian noise, rho 2.63")

# %% tags=["remove-cell"]
assert list(views.values()) == sorted(views.values())
answer = adv.RandomizedResponse(1.0).privacy_loss()
twice = 2 * answer
assert round(twice.tail(0.5)[0], 3) == 0.534
assert round(answer.tail(0.5)[0], 3) == 0.731
assert twice.pbdp_delta(0.5) >= 0.731

# %% [markdown]
# How can post-processing raise a tail? Ask a yes-no question twice, with randomised response of epsilon = 1. With both
# answers, the loss exceeds 1/2 with probability 0.53, which is when they agree on the truth. Throw the second answer
# away, and it does so with probability 0.73: less information, but a larger tail.
#
# So with a delta, bounds on beliefs hold except with a stated probability. How sure can an adversary at even odds
# become of which block of a block group somebody lives in? The concern is scenario A of
# [the 2020 Census budget](the_2020_census_budget.ipynb), with rho = 0.1115: at most 78.8% by rho alone, and 75.6% by
# the noise itself, in 95% of releases and after any post-processing.

# %%
block = adv.census.scenario("A")
by_rho = adv.ZeroConcentratedDP(float(block.rho))
failures = [1e-10, 1e-4, 0.01, 0.05]
at_most = {
    "rho alone": [by_rho.posterior_bounds(0.5, f)[1] for f in failures],
    "the noise": [block.loss.posterior_bounds(0.5, f)[1] for f in failures],
}
at_most = pd.DataFrame(at_most, index=pd.Index(failures, name="may fail"))
np.ceil(1000 * at_most) / 1000

# %% tags=["remove-cell"]
assert np.ceil(1000 * at_most.iloc[-1]).tolist() == [788, 756]

# %% [markdown]
# ## Adding up
#
# A hundred releases at epsilon = 0.1 each cost 10 by addition. Once a delta is allowed they cost less, and optimal
# composition is much below the published formula: 5.96 against 7.49 at delta = 1e-9. `n * g` and `+` compose,
# guarantees and noise alike.

# %%
hundred = 100 * adv.PureDP(0.1)
advanced = adv.definitions.compose_advanced
costs = {
    delta: [10.0, advanced([0.1] * 100, delta), hundred.epsilon(delta)]
    for delta in (1e-9, 1e-6, 1e-3)
}
pd.DataFrame(costs, index=["basic", "advanced", "optimal"]).T.round(2)

# %% tags=["remove-cell"]
assert [round(one, 2) for one in costs[1e-9]] == [10.0, 7.49, 5.96]

# %% [markdown]
# ## What this does not say
#
# - Nothing about releases that are chosen after others were seen: [account for releases](tasks/compute/accounting.md)
#   has the rules that hold then.
# - Nothing about one adversary. Their posterior after many releases is one distribution, which `audit` computes.
