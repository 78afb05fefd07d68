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
#
# Here an honest analyst uses a release to learn about a population, not about one person. All they hold is a noisy
# mean and a noisy variance of 43 blood lead values, and one more public fact: no value is below 0 or above 100
# micrograms per decilitre. We ask what follows, what the bounds are worth, how much the prior decides, and, by
# simulation, how often such intervals are right.
#
# The example and the study are those of Kazan (2026), chapter 4. Where the computation contradicts a printed number,
# both are shown.

# %%
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

import adversary as adv
from adversary.bounded.report.posterior_figures import joint_density
from adversary.bounded.report.release_file import load_release_file

bounded = adv.bounded
data = next(folder for folder in (Path("data"), Path("../data")) if folder.is_dir())
plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
span = "{0[0]:.4g} to {0[1]:.4g}".format

# %% [markdown]
# ## What was released
#
# One changed value moves the mean of n values in [a, b] by at most (b - a)/n and their variance by at most (b -
# a)^2/n. Laplace noise of these scales over epsilon was added, epsilon = 0.25 for each:
#
# $$Y^* = \bar Y + \mathrm{Laplace}\Big(\frac{b - a}{n \epsilon_1}\Big), \qquad
#   S^* = S^2 + \mathrm{Laplace}\Big(\frac{(b - a)^2}{n \epsilon_2}\Big).$$
#
# The noise on the variance is of the size of the variance. A standard deviation of 47 is almost more than is
# possible: values in [0, 100] with mean mu have a variance of at most (mu - 0)(100 - mu), attained when all are at
# the ends.

# %%
file = load_release_file(data / "blood_lead.toml")
release, words = file.release, {"quantity": file.quantity, "unit": file.unit}
scales = [float(scale) for scale in release.unit_scales]
print(
    f"released: mean {release.mean:.2f}, variance {release.variance:.1f}, which is {release.variance**0.5:.2f} squared"
)
print(f"noise: {100 * scales[0]:.1f} on the mean, {100**2 * scales[1]:.0f} on the variance")
print("confidential: mean 32.08, standard deviation 16.98")
largest = (release.mean * (100 - release.mean)) ** 0.5
print(f"largest standard deviation of values in [0, 100] with mean {release.mean:.1f}: {largest:.2f}")
assert release.variance**0.5 > 0.99 * largest


# %% [markdown]
# ## With and without the bounds
#
# The model says that values are normal with mean mu and standard deviation sigma, so that the true statistics are
# normal and gamma around them, and the noise comes on top. Under a flat prior the posterior is a sum over a grid,
# without draws, and takes milliseconds. Most of it is about nothing that could be: lead below zero, or deviations that
# the interval has no room for.
#
# The bounds add two facts: sigma^2 <= (mu - a)(b - mu) for the population, and the like for the sample before noise was
# added. The curator used the bounds to make the noise and published them; using them again costs no privacy. The
# impossible part cannot simply be cut off afterwards: the sample that was measured had to be feasible as well, whatever
# the population, and that says more about sigma.


# %%
def row(one):
    """Summary of a posterior."""
    ends = {name: one.hdi(name, 0.95) for name in ("mu", "sigma")}
    return {
        "mean of mu": one.mean("mu"),
        "sd of mu": one.sd("mu"),
        "mode of mu": one.mode("mu"),
        "95 % of mu": span(ends["mu"]),
        "length": float(np.diff(ends["mu"])[0]),
        "95 % of sigma": span(ends["sigma"]),
        "impossible": one.infeasible,
    }


ignoring = bounded.posterior(release, "flat", constrained=False)
using = bounded.posterior(release, "flat")
both = {"using the bounds": using, "ignoring the bounds": ignoring}
new = ignoring.predictive()
print(f"without the bounds a new value is below 0 with probability {new.below:.3f}, above 100 with {new.above:.3f}")
assert ignoring.infeasible > 0.5
assert new.outside > 0.3
lengths = pd.DataFrame({name: row(one) for name, one in both.items()}).T
assert lengths["length"].iloc[0] < 0.8 * lengths["length"].iloc[1]
display(lengths.rename_axis("flat prior"))

mu, sigma = np.linspace(0, 100, 401), np.linspace(0.1, 50, 400)
kept = joint_density(ignoring, mu, sigma) * (sigma**2 <= mu[:, None] * (100 - mu[:, None]))
cut = float((kept * sigma**2).sum() / kept.sum())
of = {"ignored": ignoring.mean("sigma2"), "cut off afterwards": cut, "used": using.mean("sigma2")}
print("mean of sigma^2, with the bounds", ", ".join(f"{how}: {x:.0f}" for how, x in of.items()))
assert using.mean("sigma2") < cut - 20
adv.plot.posterior_joint(both, **words)

# %% [markdown]
# ## Which prior?
#
# A flat prior over what is feasible is not neutral. It is a Beta(2, 2) for the mean, which prefers the middle of the
# interval. For lead, the middle of [0, 100] is no sensible guess. Where something is known, such as the mean (12.5) and
# the standard deviation (3.8) of other people, it can be said with its worth, here that of one value each (dashed).
#
# In print are intervals of 5,000 correlated draws: [1.9, 42.0] for mu and [1.0^2, 39.3^2] for sigma^2 with the bounds,
# [3.4, 48.2] and [1.2^2, 50.8^2] without. The shortest ones are [5.47, 44.70] and [0.87^2, 39.67^2] with the bounds,
# [4.02, 47.71] and [0.85^2, 49.90^2] without: a sampler whose draws are worth about 30 independent ones cannot place an
# end better than that. The shortest interval of sigma, in the table, is not that of sigma^2 under a root. Printed modes
# "about 16 and 5^2" are those of a kernel that smooths the draws.

# %%
informed = bounded.posterior(release, file.prior)
ignoring_informed = bounded.posterior(release, file.prior, constrained=False)
three = {"informed": row(informed), "informed, ignoring the bounds": row(ignoring_informed), "flat": row(using)}
display(pd.DataFrame(three).T.rename_axis("prior"))
print(
    f"modes without the bounds: mu {ignoring_informed.mode('mu'):.2f}, sigma^2 {ignoring_informed.mode('sigma2'):.2f}"
)
assert abs(ignoring_informed.mode("mu") - 13.36) < 0.3
adv.plot.posterior_marginals({"using the bounds": informed, "ignoring the bounds": ignoring_informed}, **words)

# %% [markdown]
# How much does it matter where the prior puts the mean? Arrays of priors are one call.

# %%
centre = np.linspace(2, 98, 49)
figure, axis = plt.subplots()
moved = {}
for worth, colour in ((1, BLUE), (10, ORANGE)):
    many = bounded.posterior(release, bounded.NormalInverseGamma(centre, worth, 3.0, 20.0))
    ends = np.asarray(many.hdi("mu", 0.95))
    moved[worth] = float(np.ptp(many.mean("mu")))
    axis.fill_between(centre, ends[:, 0], ends[:, 1], color=colour, alpha=0.15, lw=0)
    axis.plot(centre, many.mean("mu"), color=colour, label=f"worth {worth} of 43 values")
axis.axhline(release.mean, color=GREY, lw=1, ls="--", label="released mean")
axis.set(xlabel="centre of the prior", ylabel="mu, with 95 %", xlim=(2, 98), ylim=(0, 100))
axis.set_title("The more a prior is worth, the further it pulls", loc="left")
axis.legend(frameon=False, fontsize=9)
assert moved[10] > moved[1]
plt.show()

# %% [markdown]
# The data can say which of several priors they go with: the marginal likelihood of the two released numbers.

# %%
priors = {
    "mean 12.5, sd 3.8, worth 1": file.prior,
    "mean 12.5, sd 3.8, worth 20": bounded.NormalInverseGamma(12.5, 20, 20, 3.8),
    "mean 30, sd 20, worth 5": bounded.NormalInverseGamma(30, 5, 5, 20.0),
    "flat on the region": "flat",
}
found = {name: bounded.posterior(release, prior) for name, prior in priors.items()}
evidence = pd.Series({name: one.log_evidence for name, one in found.items()}, name="log marginal likelihood")
table = pd.DataFrame({name: row(one) for name, one in found.items()}).T.join(evidence)
assert evidence["mean 12.5, sd 3.8, worth 20"] == evidence.min()
table.rename_axis("prior")

# %% [markdown]
# Some priors give no answer at all. With a density proportional to 1/sigma^2, a textbook choice without noise, the
# posterior is infinite near sigma = 0, bounds or not; and without the bounds a flat prior needs more than three
# values.

# %%
few = bounded.BoundedRelease(34.3, 2224.8, n=3, epsilon=(0.25, 0.25), bounds=(0, 100))
for prior, how in (("jeffreys", {}), ("flat", {"constrained": False})):
    try:
        bounded.posterior(few, prior, **how)
    except ValueError as error:
        print(f"{prior}: {error}\n")
    else:
        raise AssertionError("an improper posterior was not refused")
print(f"with the bounds, three values: 95 % of mu within {span(bounded.posterior(few).hdi('mu', 0.95))}")

# %% [markdown]
# ## The 43 values themselves
#
# So far mu was the mean of the population that the 43 values are drawn from. The released numbers are of the values
# themselves, and `quantity="data"` asks for their mean and standard deviation. The noise alone separates the two from
# what was released. However large the budget, 43 values leave the mean of the population unsure by about sigma over
# the root of 43.

# %%
spread = {}
for epsilon in (0.25, 1.0, 4.0, 16.0):
    one = bounded.BoundedRelease(32.08, 16.98**2, 43, (epsilon, epsilon), (0, 100))
    spread[epsilon] = {of: float(bounded.posterior(one, quantity=of).sd("mu")) for of in bounded.QUANTITIES}
apart = pd.DataFrame(spread).T.rename_axis("epsilon of each")
assert apart["data"].iloc[-1] < 0.5 < 2.0 < apart["population"].iloc[-1]
apart.round(3)

# %% [markdown]
# ## What a larger budget buys
#
# The release is one call for arrays as well. The same confidential sample, released two hundred times at each of
# several budgets:

# %%
rng = np.random.default_rng(9)
sample = rng.beta(0.32 * 6.5, 0.68 * 6.5, size=43) * 100
budgets = np.array([0.05, 0.1, 0.25, 0.5, 1.0, 2.0])
gain = {}
for name, constrained in (("using the bounds", True), ("ignoring the bounds", False)):
    gain[name] = []
    for epsilon in budgets:
        rng = np.random.default_rng(9)
        many = bounded.BoundedRelease.of(np.tile(sample, (200, 1)), (epsilon, epsilon), (0, 100), rng)
        ends = np.asarray(bounded.posterior(many, "flat", constrained).hdi("mu", 0.95))
        gain[name].append(float(np.median(ends[:, 1] - ends[:, 0])))
figure, axis = plt.subplots()
for (name, length), colour in zip(gain.items(), (BLUE, ORANGE), strict=True):
    axis.plot(budgets, length, "o-", color=colour, label=name)
axis.axhline(100, color=GREY, lw=1, ls="--", label="all that is possible")
axis.set(
    xscale="log", yscale="log", xlabel="epsilon of each of mean and variance", ylabel="length of the 95 % interval"
)
axis.set_xticks(budgets, [f"{e:g}" for e in budgets])
axis.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
axis.minorticks_off()
axis.set_title("The bounds matter most where the noise is largest", loc="left")
axis.legend(frameon=False)
assert gain["using the bounds"][0] < 0.6 * gain["ignoring the bounds"][0]
assert gain["using the bounds"][-1] < 1.1 * gain["ignoring the bounds"][-1]
plt.show()

# %% [markdown]
# ## How often are such intervals right?
#
# A 95 % interval of a posterior holds 95 % of a belief. Whether it covers a fixed truth in 95 % of all releases is
# another question, and one that can be measured: draw data from a normal law cut to [0, 1], release, compute, look,
# and repeat. One truth is close to an end of the interval, one in the middle; epsilon = 0.1 for each statistic. Here
# are 400 data sets in each cell. The published study has 10,000, from a sampler that took 10 to 20 hours for each;
# its coverage and mean length are beside ours.

# %%
truths = {"mu = 0.1": (0.1, 0.04), "mu = 0.5": (0.5, 0.2)}
study = bounded.coverage_study(n=[32, 100, 1000], truths=truths, epsilon=0.1, datasets=400, rng=2026)
printed = {
    ("mu = 0.1", True): [(0.7835, 0.7162), (0.9283, 0.4115), (0.9472, 0.0595)],
    ("mu = 0.1", False): [(0.9511, 1.9076), (0.9483, 0.6065), (0.9484, 0.0598)],
    ("mu = 0.5", True): [(1.0000, 0.7132), (0.9426, 0.4901), (0.9480, 0.0633)],
    ("mu = 0.5", False): [(0.9538, 1.9076), (0.9489, 0.6087), (0.9514, 0.0633)],
}
rows = []
for (truth, constrained), values in printed.items():
    for n, (coverage, length) in zip((32, 100, 1000), values, strict=True):
        cell = study.sel(truth=truth, n=n, constrained=constrained).squeeze()
        ours = {key: float(cell[key]) for key in ("coverage", "coverage_mcse", "length", "length_mcse")}
        assert abs(ours["coverage"] - coverage) < 5 * ours["coverage_mcse"] + 0.005
        assert abs(ours["length"] / length - 1) < 0.04 + 5 * ours["length_mcse"] / length
        name = "using" if constrained else "ignoring"
        rows.append(
            {"truth": truth, "bounds": name, "n": n, **ours, "printed coverage": coverage, "printed length": length}
        )
display(pd.DataFrame(rows).set_index(["truth", "bounds", "n"]).round(4))

panels = (
    study["coverage"]
    .squeeze("prior")
    .squeeze("epsilon")
    .plot.line(x="n", hue="constrained", col="truth", marker="o", xscale="log")
)
for ax in panels.axs.flat:
    ax.axhline(0.95, color="grey", lw=1, ls="--")
panels.fig.suptitle("Near an end, small samples are covered too seldom with a flat prior", y=1.04)
plt.show()

# %% [markdown]
# Where the noise is large, intervals without the bounds are longer than the whole interval of possible values: they
# cover because they say next to nothing. With the bounds they are shorter by more than half. But a truth close to an
# end is then covered too seldom: the flat prior on the feasible region prefers the middle, and at n = 32 the data
# cannot correct it. In the middle it errs the other way. From a few hundred values on, both analyses are alike.
#
# So the prior decides, and it can be chosen. The same study, at n = 32 and the truth near the end, with a prior that
# knows something true, and with one that is mistaken:

# %%
beliefs = {
    "flat": "flat",
    "near the truth": bounded.NormalInverseGamma(0.15, 1.0, 3.0, 0.1),
    "mistaken": bounded.NormalInverseGamma(0.7, 5.0, 3.0, 0.1),
}
which = bounded.coverage_study(
    n=32, truths=(0.1, 0.04), epsilon=0.1, priors=beliefs, constrained=True, datasets=400, rng=2026
).squeeze()
assert float(which["coverage"].sel(prior="mistaken")) < 0.5 < float(which["coverage"].sel(prior="near the truth"))
which[["coverage", "coverage_mcse", "length"]].to_dataframe()[["coverage", "coverage_mcse", "length"]].round(3)

# %% [markdown]
# Bounds are free; a prior is not. Its worth must be known from somewhere, and the command `adversary infer` with
# `--prior` shows at once what depends on it.
#
# ## What this does not say
#
# The mean and deviation are bounded as those of data in [a, b] must be, and then used as the parameters of a normal
# law, which has no bounds. For values that crowd at an end, such as lead, the normal law is a poor picture of a
# single value, while its mean and deviation are still what was published. And nothing here is about one person:
# whoever publishes with epsilon = 0.5 in total gives each of the 43 the same guarantee, whatever an analyst does
# afterwards.
