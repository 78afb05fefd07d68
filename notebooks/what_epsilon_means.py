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

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np

import adversary as adv

adv.plot.style()
prior = np.linspace(0, 1, 401)
figure, ax = plt.subplots()
for epsilon, colour in {0.5: "C2", 1.0: "C0", 2.0: "C1", 4.0: "C3"}.items():
    most = adv.PureDP(epsilon).posterior_bounds(prior)[1]
    ax.plot(prior, most, color=colour)
    at = adv.PureDP(epsilon).posterior_bounds(0.25)[1]
    ax.annotate(
        f"epsilon = {epsilon:g}",
        (0.25, at),
        (6, -10),
        textcoords="offset points",
        color=colour,
        bbox={"fc": "white", "ec": "none", "pad": 1},
    )
ax.plot(prior, prior, color="#1F2933", lw=1.2)
ax.annotate("no change", (0.6, 0.6), (6, -12), textcoords="offset points")
ax.plot(0.5, adv.PureDP(1.0).posterior_bounds(0.5)[1], "o", color="C0", ms=7)
ax.set(xlim=(0, 1), ylim=(0, 1.02))
ax.set_xlabel("probability before the release")
ax.set_ylabel("probability after it, at most")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda p, _: f"{p:.0%}")
adv.plot.headline(
    ax,
    "Epsilon = 1 lets a suspicion of 50% grow to at most 73.2%",
    "The most that any adversary may come to believe about one person, by "
    "epsilon",
    shape="Four curves above the diagonal; the larger epsilon, the further "
    "above.",
)
plt.show()

# %% [markdown]
# **In short.** A privacy guarantee covers every adversary whose beliefs about everybody else do not depend on the
# person, whatever else they know and whatever they do with the release:
#
# - At epsilon = 1 a suspicion of 50% becomes at most 73.2%, one of 1% at most 2.68%.
# - No test with 5% false alarms detects more than 13.6% of the people who are in.
# - The same noise is rho 0.005 for one page view and 1.5 for a device over thirty days: a number without its unit, its
#   neighbours and its delta guarantees nothing in particular.
#
# All of it is one object seen from several sides, the distribution of the log-likelihood ratio of the release, and all
# of it is computed exactly. References: Kazan, Sharma, Zhang, Jiang and Yan (2025), "Interpreting differential privacy
# in terms of disclosure risk"; Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of
# differential privacy: applications to the 2020 Census".

# %% [markdown]
# ## What an adversary can come to believe
#
# Under pure epsilon-DP the odds of any hypothesis about one person move by at most a factor e^epsilon. What that means
# for a probability depends on where the adversary starts. At epsilon = 1 a rare trait can become 2.7 times as likely,
# and is still rare.

# %%
import numpy as np
import pandas as pd

import adversary as adv

guarantee = adv.PureDP(1.0)
priors = np.array([0.001, 0.01, 0.1, 0.5, 0.9])
lowest, highest = guarantee.posterior_bounds(priors)
bounds = {"at least": lowest, "at most": highest, "ratio": highest / priors}
pd.DataFrame(bounds, index=pd.Index(priors, name="prior")).round(4)

# %% tags=["remove-cell"]
assert [int(np.ceil(1e4 * highest[i])) for i in (1, 3)] == [268, 7311]
worst, rise = adv.definitions.worst_prior(1.0)
assert np.isclose(rise, np.tanh(0.25))

# %% [markdown]
# The largest rise, posterior minus prior, is tanh(epsilon / 4): at most 24.5 points at epsilon = 1, at a prior of 38%.
#
# ## What any test can detect
#
# The same guarantee without priors: decide "in" or "out" from the release. The figure shows the best test under four
# guarantees of about the same size.

# %% tags=["hide-input"]
kinds = {
    "pure DP, epsilon 1": guarantee,
    "Laplace noise": adv.Laplace(1.0).privacy_loss(),
    "Gaussian noise, mu 1": adv.Gaussian(1.0).privacy_loss(),
    "zCDP, rho 1/2": adv.ZeroConcentratedDP(0.5),
}
adv.plot.trade_off(kinds)
plt.show()

# %% [markdown]
# Laplace noise of epsilon = 1 reaches the limit of pure DP where false alarms are few or many, and stays below it in
# between. Gaussian noise of mu = 1 has rho = 1/2; its own curve lies well below that of zCDP, because zCDP has to allow
# for every mechanism of that rho.
#
# Who is protected? The guarantee is about one unit of privacy, here a person. A family of three whose records change
# together gets three times the epsilon under pure DP, nine times the rho under zCDP, three times the mu under Gaussian
# DP:

# %%
kinds = {
    "pure DP, epsilon 1": guarantee,
    "Laplace noise": adv.Laplace(1.0).privacy_loss(),
    "Gaussian noise, mu 1": adv.Gaussian(1.0).privacy_loss(),
    "zCDP, rho 1/2": adv.ZeroConcentratedDP(0.5),
}
power = {
    name: [one.power(0.05), one.group(3).power(0.05)]
    for name, one in kinds.items()
}
columns = ["detected, one person", "detected, family of three"]
pd.DataFrame(power, index=columns).T.round(3)

# %% tags=["remove-cell"]
assert round(guarantee.power(0.05), 3) == 0.136
assert round(adv.ZeroConcentratedDP(0.5).power(0.05), 3) == 0.336

# %% [markdown]
# ## The same noise, another unit of privacy
#
# A release protects whoever it was made for. Noise of variance 100 on page views is zCDP of rho 0.005 for one view of
# one page, 0.05 for a device that views ten pages a day, and 1.5 for the same device over thirty days: one noise, three
# guarantees. [Who is protected](concepts/who_is_protected.md) has households, devices, reports and periods.

# %%
page = adv.Level("page", adv.DiscreteGaussian(10.0))
units = {
    "one view of one page": adv.PrivacyUnit("view"),
    "a device in a day, ten pages": adv.PrivacyUnit("device-day", cells=10),
    "the same over thirty days": adv.PrivacyUnit(
        "device-day", cells=10, periods=30
    ),
}
costs = {}
for name, unit in units.items():
    rho = adv.Plan([page], privacy_unit=unit).total_rho
    every = unit.over_periods(adv.ZeroConcentratedDP(rho))
    most = every.posterior_bounds(0.5, failure=0.05)[1]
    costs[name] = {"rho": every.rho, "from 50% to at most": most}
pd.DataFrame(costs).T.round(3)

# %% tags=["remove-cell"]
assert [round(one["rho"], 3) for one in costs.values()] == [0.005, 0.05, 1.5]

# %% [markdown]
# ## The distribution of one adversary's posterior
#
# Bounds are about the worst release. What happens to an adversary who sees one typical release? The posterior is random
# because the noise is, and its distribution is that of the privacy loss seen through Bayes' rule. Take the noise of one
# block count of the 2020 Census, rho = 0.0992, and an adversary who knows everybody else in the block. At even odds the
# posterior is 52% on average if the target is in, and 48% if not.

# %%
noise = adv.DiscreteGaussian.from_rho(0.0992)
even = noise.privacy_loss().posterior(0.5)
zcdp = adv.ZeroConcentratedDP(0.0992)
low, high = zcdp.posterior_bounds(0.5, failure=0.05)
outside = 1 - even.cdf(high, "in") + even.cdf(low, "in")
print(f"on average {even.mean('in'):.0%} if in, {even.mean('out'):.0%} if out")
print(f"zCDP lets 5% of releases end outside {low:.1%} to {high:.1%}")
print(f"releases that do: {outside:.2%}")

# %% tags=["hide-input"]
priors = {"1 in 2": 0.5, "1 in 10": 0.1, "1 in 100": 0.01, "1 in 1,000": 0.001}
figure, ax = plt.subplots(figsize=(7.2, 3.4))
for y, p in enumerate(reversed(priors.values())):
    one = noise.privacy_loss().posterior(p)
    ends = one.quantile(np.array([0.05, 0.95]), "in")
    least, most = zcdp.posterior_bounds(p, 0.05)
    ax.plot([least, most], [y, y], color="#5F6B7A", lw=1, marker="|", ms=10)
    ax.plot(ends, [y, y], "C0", lw=12, alpha=0.22, solid_capstyle="butt")
    ax.plot(one.mean("in"), y, "o", color="C0")
    ax.plot([p, p], [y - 0.25, y + 0.25], color="#1F2933", lw=1.2)
near = {"textcoords": "offset points"}
ends = noise.privacy_loss().posterior(0.001).quantile(0.05, "in")
most = zcdp.posterior_bounds(0.001, 0.05)[1]
ax.annotate("bound of zCDP", (most, 0), (8, -4), color="#5F6B7A", **near)
ax.annotate("9 of 10 releases", (ends, 0), (0, -22), color="C0", **near)
ax.annotate("before", (0.001, 0.25), (-2, 4), ha="right", **near)
ax.annotate("average", (0.00122, 0.1), (2, 8), color="C0", **near)
ax.set_yticks(range(4), reversed(priors))
ax.set(xscale="log", xlim=(2e-4, 1.5), ylim=(-0.5, 3.7))
ax.set_xticks([0.001, 0.01, 0.1, 0.5], ["0.1%", "1%", "10%", "50%"])
ax.minorticks_off()
ax.set_xlabel("probability after the release, for a target who is in")
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
adv.plot.headline(
    ax,
    "From 1 in 1,000, 99 of 100 releases leave the adversary below 3 in 1,000",
    "One block count of the 2020 Census (rho 0.0992), four priors",
    shape="Four rows of intervals on a log axis, each narrow and inside its "
    "bound.",
)
plt.show()

# %% tags=["remove-cell"]
assert round(even.mean("in"), 3) == 0.524
assert np.isclose(even.mean("in") + even.mean("out"), 1.0)
assert round(outside, 4) == 0.0085
assert 1 - noise.privacy_loss().posterior(0.001).cdf(0.003, "in") < 0.01

# %% [markdown]
# This distribution is tighter than any bound, but it holds for one release and one adversary only. Post-processing
# changes it, and so does knowing less about the other people
# ([One person in one block](one_person_in_one_block.ipynb) computes that case).
#
# ## What one record changes
#
# So far the adversary knew everybody else, so that all that could be learned was about the target. Now an adversary who
# does not. Of the ten other people in a street either all smoke or none do, at even odds, and the target does as they
# do with probability 0.95. The number of smokers is published with geometric noise of epsilon = 1, and it comes out as
# 11.

# %%
import xarray as xr

counterfactual = adv.counterfactual
rest = {"rest": [0, 10]}
record = {"record": ["does not smoke", "smokes"]}
others = xr.DataArray([0.5, 0.5], coords=rest)
target = xr.DataArray([[0.95, 0.05], [0.05, 0.95]], coords=rest | record)
smokers = others["rest"] + xr.DataArray([0, 1], coords=record)
worlds = counterfactual.compare_worlds(
    others, target, counterfactual.log_likelihood(adv.Geometric(1.0), smokers)
)
smokes = worlds.sel(record="smokes", drop=True)[["actual", "counterfactual"]]
smokes.sel(release=[0, 5, 6, 11]).to_pandas().round(3)

# %% tags=["remove-cell"]
assert round(float(smokes["actual"].sel(release=11)), 2) == 0.98
assert round(float(smokes["counterfactual"].sel(release=11)), 2) == 0.95
compared = counterfactual.semantics(worlds, guarantee, [0.25, 0.5, 0.75, 1.0])
assert bool(compared["holds"].all())
assert float(compared["largest"].max()) <= float(compared["largest_bound"])

# %% [markdown]
# The adversary moves from 50% to 98% (`actual`), far beyond the 73.2% for somebody who knows everybody else. Is the
# guarantee violated? No: in the counterfactual world, where the release is made without the target's record, the same
# adversary would reach 95%. That they all smoke is what the release is for; the target's own record adds a factor of
# 1.03. The guarantee bounds this factor, posterior to posterior, at e^epsilon whatever the prior.
#
# ## What this does not say
#
# - Nothing about what a release teaches about a group, and so about everybody in it: see the street above.
# - Nothing about facts that are published exactly. Invariants restrict which pairs of data sets can be compared at all.
# - Nothing about many releases: [epsilon, delta and composition](epsilon_delta_and_composition.ipynb) adds them up.
# - Not that the worst case happens. The distribution of the posterior says what to expect; the bound says what cannot
#   happen.
