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
# # A noisy mean and variance

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt

import adversary as adv

adv.plot.style()
bounded = adv.bounded
release = bounded.BoundedRelease(34.3, 2224.8, 43, (0.25, 0.25), (0, 100))
using = bounded.posterior(release, "flat")
ignoring = bounded.posterior(release, "flat", constrained=False)
both = {"using the bounds": using, "ignoring the bounds": ignoring}
ax = adv.plot.posterior_joint(both, quantity="blood lead", unit="µg/dl")
adv.plot.headline(
    ax,
    "Knowing that values lie in 0 to 100 shortens the interval of the mean "
    "from 63 to 44",
    "Regions with 50% and 95% of either posterior; grey: impossible",
    shape="Two pairs of contours, the smaller pair inside a half circle of "
    "what is possible.",
)
plt.show()

# %% [markdown]
# **In short.** An honest analyst uses a release to learn about a population, not about one person. All they hold is a
# noisy mean and a noisy variance of 43 blood lead values, and that no value is below 0 or above 100:
#
# - Using these bounds, which costs no privacy, takes the 95% interval of the mean from [3, 66] to [18, 62].
# - Ignoring them puts 61% of the posterior where nothing can be, and 34% of new values outside the bounds.
# - A flat prior is not neutral: with 32 values and a mean near the end, the 95% interval covers the truth in 78% of
#   releases (10,000 data sets of the thesis; our 100 agree).
#
# The example and the study are those of Kazan (2026), chapter 4.

# %% [markdown]
# ## What was released
#
# One changed value moves the mean of n values in [a, b] by at most (b - a)/n and their variance by at most
# (b - a)^2/n. Laplace noise of these scales over epsilon was added, epsilon = 0.25 for each:
#
# $$Y^* = \bar Y + \mathrm{Laplace}\Big(\frac{b - a}{n \epsilon_1}\Big), \qquad
#   S^* = S^2 + \mathrm{Laplace}\Big(\frac{(b - a)^2}{n \epsilon_2}\Big).$$

# %%
import numpy as np
import pandas as pd

import adversary as adv

bounded = adv.bounded
release = bounded.BoundedRelease(
    mean=34.3, variance=2224.8, n=43, epsilon=(0.25, 0.25), bounds=(0, 100)
)
noise = [float(scale) for scale in release.unit_scales]
print(f"noise: {100 * noise[0]:.1f} on the mean, {100**2 * noise[1]:.0f} on")
print(
    f"the variance, which was released as {release.variance**0.5:.1f} squared"
)

# %% tags=["remove-cell"]
largest = (34.3 * (100 - 34.3)) ** 0.5
assert round(largest, 1) == 47.5
assert release.variance**0.5 > 0.99 * largest

# %% [markdown]
# The noise on the variance is of the size of the variance. A standard deviation of 47 is almost more than is possible:
# values in [0, 100] with mean mu have a variance of at most (mu - 0)(100 - mu), attained when all are at the ends; at a
# mean of 34.3 that is 47.5 squared. The confidential values have a mean of 32.08 and a standard deviation of 16.98.
#
# ## With and without the bounds
#
# The model says that values are normal with mean mu and standard deviation sigma, so that the true statistics are
# normal and gamma around them, and the noise comes on top. Under a flat prior the posterior is a sum over a grid,
# without draws, and takes milliseconds. Most of it is about nothing that could be: lead below zero, or deviations that
# the interval has no room for.
#
# The bounds add two facts: sigma^2 <= (mu - a)(b - mu) for the population, and the same for the sample before noise was
# added. The curator used the bounds to make the noise and published them; using them again costs no privacy.


# %%
def row(one):
    """Summary of a posterior."""
    mu, sigma = (one.hdi(name, 0.95) for name in ("mu", "sigma"))
    return {
        "mean of mu": f"{one.mean('mu'):.1f}",
        "95% of mu": f"{mu[0]:.1f} to {mu[1]:.1f}",
        "95% of sigma": f"{sigma[0]:.1f} to {sigma[1]:.1f}",
        "impossible": f"{one.infeasible:.0%}",
    }


using = bounded.posterior(release, "flat")
ignoring = bounded.posterior(release, "flat", constrained=False)
both = {"using the bounds": using, "ignoring the bounds": ignoring}
pd.DataFrame({name: row(one) for name, one in both.items()}).T

# %% tags=["remove-cell"]
lengths = [float(np.diff(one.hdi("mu", 0.95))[0]) for one in both.values()]
assert [round(one) for one in lengths] == [44, 63]
assert round(ignoring.infeasible, 2) == 0.61
new = ignoring.predictive()
assert round(new.outside, 2) == 0.34
assert new.below > 0.24

# %% [markdown]
# The impossible part cannot simply be cut off afterwards: the sample that was measured had to be feasible as well,
# whatever the population, and that says more about sigma.

# %%
draws = ignoring.sample(50_000, 1)["posterior"].to_dataset()
mu, variance = draws["mu"].values, draws["sigma"].values ** 2
cut = variance[variance <= mu * (100 - mu)].mean()
print("mean of sigma^2, with the bounds")
print(f"ignored: {ignoring.mean('sigma2'):,.0f}")
print(f"cut off afterwards: {cut:,.0f}")
print(f"used: {using.mean('sigma2'):,.0f}")

# %% tags=["remove-cell"]
assert using.mean("sigma2") < cut - 20

# %% [markdown]
# ## Which prior?
#
# A flat prior over what is feasible is not neutral. It is a Beta(2, 2) for the mean, which prefers the middle of the
# interval. For lead, the middle of [0, 100] is no sensible guess. Where something is known, such as the mean (12.5) and
# the standard deviation (3.8) of other people, it can be said with its worth in values:

# %%
prior = bounded.NormalInverseGamma
priors = {
    "flat": "flat",
    "12.5 and 3.8, worth 1 value": prior(12.5, 1, 1, 3.8),
    "12.5 and 3.8, worth 20": prior(12.5, 20, 20, 3.8),
    "30 and 20, worth 5": prior(30, 5, 5, 20.0),
}
found = {name: bounded.posterior(release, one) for name, one in priors.items()}
table = pd.DataFrame({name: row(one) for name, one in found.items()}).T
evidence = {name: f"{one.log_evidence:.1f}" for name, one in found.items()}
table.assign(log_evidence=evidence)

# %% tags=["hide-input"]
informed = prior(12.5, 1, 1, 3.8)
pair = {
    "using the bounds": bounded.posterior(release, informed),
    "ignoring the bounds": bounded.posterior(
        release, informed, constrained=False
    ),
}
adv.plot.posterior_marginals(pair, quantity="blood lead", unit="µg/dl")
plt.show()

# %% tags=["remove-cell"]
assert found["12.5 and 3.8, worth 20"].log_evidence == min(
    one.log_evidence for one in found.values()
)
assert abs(pair["ignoring the bounds"].mode("mu") - 13.36) < 0.3
ends = pair["using the bounds"].hdi("mu", 0.95)
assert [round(float(end), 1) for end in ends] == [5.5, 44.7]

# %% [markdown]
# The data can say which of several priors they go with (`log_evidence`, of the two released numbers): least with the
# one that is sure of the other people's mean.
#
# The thesis prints intervals of 5,000 correlated draws for the informed prior: [1.9, 42.0] for mu with the bounds,
# [3.4, 48.2] without. The shortest ones are [5.5, 44.7] and [4.0, 47.7]: a sampler whose draws are worth about 30
# independent ones cannot place an end better than that.
#
# How much does it matter where the prior puts the mean? Arrays of priors are one call:

# %% tags=["hide-input"]
centre = np.linspace(2, 98, 49)
figure, ax = plt.subplots()
moved = {}
for worth, colour in ((1, "C0"), (10, "C1")):
    many = bounded.posterior(release, prior(centre, worth, 3.0, 20.0))
    ends = np.asarray(many.hdi("mu", 0.95))
    moved[worth] = float(np.ptp(many.mean("mu")))
    ax.fill_between(
        centre, ends[:, 0], ends[:, 1], color=colour, alpha=0.15, lw=0
    )
    ax.plot(centre, many.mean("mu"), color=colour)
    at = (70, float(many.mean("mu")[35]))
    text = "prior worth 1 value" if worth == 1 else "worth 10 of 43"
    ax.annotate(
        text,
        at,
        (0, -16 if worth == 1 else 10),
        textcoords="offset points",
        color=colour,
        ha="right" if worth > 1 else "left",
    )
ax.axhline(34.3, color="#1F2933", lw=1.2, ls=(0, (5, 2)))
ax.annotate("released mean", (4, 34.3), (0, 4), textcoords="offset points")
ax.set(xlim=(2, 98), ylim=(0, 100))
ax.set(xlabel="centre of the prior", ylabel="mean of the population, with 95%")
adv.plot.headline(
    ax,
    f"A prior worth 10 values moves the mean by up to {moved[10]:.0f}, one "
    f"worth 1 by {moved[1]:.0f}",
    "Posterior mean and 95% interval, using the bounds",
    shape="Two rising curves with bands; that of the weightier prior is "
    "steeper.",
)
plt.show()

# %% tags=["remove-cell"]
assert moved[10] > moved[1]

# %% [markdown]
# Some priors give no answer at all. With a density proportional to 1/sigma^2, a textbook choice without noise, the
# posterior is infinite near sigma = 0, bounds or not; and without the bounds a flat prior needs more than three
# values.

# %%
few = bounded.BoundedRelease(34.3, 2224.8, 3, (0.25, 0.25), (0, 100))
for name, how in (("jeffreys", {}), ("flat", {"constrained": False})):
    try:
        bounded.posterior(few, name, **how)
    except ValueError as error:
        print(f"{name}: {error}\n")

# %% tags=["remove-cell"]
import pytest

for name, how in (("jeffreys", {}), ("flat", {"constrained": False})):
    with pytest.raises(ValueError, match="improper"):
        bounded.posterior(few, name, **how)

# %% [markdown]
# ## The 43 values themselves
#
# So far mu was the mean of the population that the 43 values are drawn from. The released numbers are of the values
# themselves, and `quantity="data"` gives their mean and standard deviation. The noise alone separates the two from what
# was released. However large the budget, 43 values leave the mean of the population unsure by about sigma over the root
# of 43.

# %%
spread = {}
for epsilon in (0.25, 1.0, 4.0, 16.0):
    one = bounded.BoundedRelease(
        32.08, 16.98**2, 43, (epsilon, epsilon), (0, 100)
    )
    spread[epsilon] = {
        of: float(bounded.posterior(one, quantity=of).sd("mu"))
        for of in ("population", "data")
    }
spread = pd.DataFrame(spread).T.rename_axis("epsilon of each")
spread.add_prefix("sd of the mean, ").round(1)

# %% tags=["remove-cell"]
assert spread["data"].iloc[-1] < 0.5 < 2.0 < spread["population"].iloc[-1]

# %% [markdown]
# ## What a larger budget buys
#
# The release is one call for arrays as well. The same confidential sample, released forty times at each of several
# budgets:

# %% tags=["hide-input"]
rng = np.random.default_rng(9)
sample = rng.beta(0.32 * 6.5, 0.68 * 6.5, size=43) * 100
budgets = np.array([0.05, 0.1, 0.25, 0.5, 2.0])
gain = {}
for name, constrained in (("using the bounds", True), ("ignoring them", False)):
    gain[name] = []
    for epsilon in budgets:
        rng = np.random.default_rng(9)
        many = bounded.BoundedRelease.of(
            np.tile(sample, (40, 1)), (epsilon, epsilon), (0, 100), rng
        )
        ends = np.asarray(
            bounded.posterior(many, "flat", constrained).hdi("mu", 0.95)
        )
        gain[name].append(float(np.median(ends[:, 1] - ends[:, 0])))
figure, ax = plt.subplots()
for i, (name, length) in enumerate(gain.items()):
    ax.plot(budgets, length, "o-", color=f"C{i}")
    ax.annotate(
        name,
        (budgets[1], length[1]),
        [(-60, -32), (10, 4)][i],
        textcoords="offset points",
        color=f"C{i}",
    )
ax.axhline(100, color="#1F2933", lw=1.2, ls=(0, (5, 2)))
ax.annotate(
    "all that is possible",
    (2, 100),
    (0, 4),
    textcoords="offset points",
    ha="right",
)
ax.set(xscale="log", yscale="log")
ax.set(xlabel="epsilon of each of mean and variance")
ax.set_ylabel("length of the 95% interval of the mean")
ax.set_xticks(budgets, [f"{e:g}" for e in budgets])
ax.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
ax.minorticks_off()
adv.plot.headline(
    ax,
    f"Where the noise is largest, bounds shorten the interval from "
    f"{gain['ignoring them'][0]:.0f} to {gain['using the bounds'][0]:.0f}",
    "Median over 40 releases of one sample of 43 values",
    shape="Two falling lines that meet at the largest budget.",
)
plt.show()

# %% tags=["remove-cell"]
assert gain["using the bounds"][0] < 0.6 * gain["ignoring them"][0]
assert gain["using the bounds"][-1] < 1.1 * gain["ignoring them"][-1]

# %% [markdown]
# ## How often are such intervals right?
#
# A 95% interval of a posterior holds 95% of a belief. Whether it covers a fixed truth in 95% of all releases is another
# question, and one that can be measured: draw data from a normal distribution cut to [0, 1], release, compute, look,
# and repeat. One truth is close to an end of the interval, one in the middle; epsilon = 0.1 for each statistic. Here
# are 100 data sets in each cell; for a few the quadrature does not converge, and warns. The published study has 10,000,
# from a sampler that took 10 to 20 hours for each cell.

# %%
import warnings

truths = {"near the end": (0.1, 0.04), "in the middle": (0.5, 0.2)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    study = bounded.coverage_study(
        n=[32, 100, 1000], truths=truths, epsilon=0.1, datasets=100, rng=2026
    )
study = study.squeeze(["prior", "epsilon"], drop=True)
coverage = study["coverage"].to_series().unstack("n")
coverage.map("{:.1%}".format)

# %% tags=["hide-input"]
figure, axes = plt.subplots(1, 2, sharey=True, figsize=(7.2, 3.8))
for ax, truth in zip(axes, truths, strict=True):
    for i, (constrained, name) in enumerate(
        ((True, "using the bounds"), (False, "ignoring them"))
    ):
        one = study.sel(truth=truth, constrained=constrained)
        x = np.arange(3) + 0.12 * (2 * i - 1)
        ax.errorbar(
            x,
            one["coverage"],
            2 * one["coverage_mcse"],
            fmt="o",
            color=f"C{i}",
            elinewidth=1.2,
        )
        if truth == "near the end":
            place = (x[0], float(one["coverage"][0]))
            ax.annotate(
                name,
                place,
                (10, -5 if i == 0 else 14),
                textcoords="offset points",
                color=f"C{i}",
            )
    ax.axhline(0.95, color="#1F2933", lw=1.2, ls=(0, (5, 2)))
    ax.set_xticks(range(3), ["32", "100", "1,000"])
    ax.set(xlim=(-0.5, 2.5), ylim=(0.6, 1.03), xlabel="values")
    ax.set_title(f"mean {truth} ({truths[truth][0]})")
axes[0].set_ylabel("releases whose interval covers")
adv.plot.in_percent(axes[0].yaxis)
adv.plot.headline(
    axes,
    "With 32 values and a mean near the end, the interval covers too seldom",
    "100 data sets each, two standard errors; dashed: 95%. The thesis: 78%",
    shape="Two panels of dots around the line at 95%; one dot lies far below "
    "it.",
)
plt.show()

# %% tags=["remove-cell"]
printed = {
    ("near the end", True): [
        (0.7835, 0.7162),
        (0.9283, 0.4115),
        (0.9472, 0.0595),
    ],
    ("near the end", False): [
        (0.9511, 1.9076),
        (0.9483, 0.6065),
        (0.9484, 0.0598),
    ],
    ("in the middle", True): [
        (1.0000, 0.7132),
        (0.9426, 0.4901),
        (0.9480, 0.0633),
    ],
    ("in the middle", False): [
        (0.9538, 1.9076),
        (0.9489, 0.6087),
        (0.9514, 0.0633),
    ],
}
for (truth, constrained), values in printed.items():
    for n, (share, length) in zip((32, 100, 1000), values, strict=True):
        cell = study.sel(truth=truth, n=n, constrained=constrained)
        assert (
            abs(float(cell["coverage"]) - share)
            < 5 * float(cell["coverage_mcse"]) + 0.005
        )
        assert (
            abs(float(cell["length"]) / length - 1)
            < 0.04 + 5 * float(cell["length_mcse"]) / length
        )
first = study["coverage"].sel(truth="near the end", n=32, constrained=True)
assert float(first) < 0.9

# %% [markdown]
# All twelve agree with the printed ones within their errors. Where the noise is large, intervals without the bounds are
# longer than the whole interval of possible values: they cover because they say next to nothing. With the bounds they
# are shorter by more than half. But a truth close to an end is then covered too seldom: the flat prior on the feasible
# region prefers the middle, and at n = 32 the data cannot correct it. In the middle it errs the other way. From a few
# hundred values on, both analyses are alike.
#
# So the prior decides, and it can be chosen. The same study, at n = 32 and the truth near the end, with a prior that
# knows something true, and with one that is mistaken:

# %%
beliefs = {
    "flat": "flat",
    "near the truth": bounded.NormalInverseGamma(0.15, 1.0, 3.0, 0.1),
    "mistaken": bounded.NormalInverseGamma(0.7, 5.0, 3.0, 0.1),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    which = bounded.coverage_study(
        n=32,
        truths=(0.1, 0.04),
        epsilon=0.1,
        priors=beliefs,
        constrained=True,
        datasets=60,
        rng=2026,
    ).squeeze(drop=True)
which[["coverage", "length"]].to_dataframe().round(2)

# %% tags=["remove-cell"]
share = which["coverage"]
assert (
    float(share.sel(prior="mistaken"))
    < 0.5
    < float(share.sel(prior="near the truth"))
)

# %% [markdown]
# ## What this does not say
#
# Bounds are free; a prior is not, and the command `adversary infer` with `--prior` shows at once what depends on it.
# The mean and deviation are bounded as those of data in [a, b] must be, and then used as the parameters of a normal
# distribution, which has no bounds. For values that crowd at an end, such as lead, that is a poor picture of a single
# value, while its mean and deviation are still what was published. And nothing here is about one person: whoever
# publishes with epsilon = 0.5 in total gives each of the 43 the same guarantee, whatever an analyst does afterwards.
