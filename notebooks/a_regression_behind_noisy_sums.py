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
# # A regression behind noisy sums

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np

import adversary as adv

states = adv.regression.load_cirrhosis()
drinks = (states["wine"] + states["liquor"]).values
deaths = states["deaths"].values
bounds = {"x_bounds": (30, 177), "y_bounds": (28, 129.9)}
published = adv.regression.RegressionRelease(
    sums=[9.56667, 3.94216, 18.6849, -3.92079, 3.61874],
    moments=[6.15444, 7.43941, 0.99294, 5.27982],
    n=46,
    epsilon=0.1,
    **bounds,
)
tree = adv.regression.gibbs(published, draws=8000, rng=2)
slopes = {"epsilon 0.9, as published": tree["posterior"]["slope"]}
for each in (3.0, 10.0):
    release = adv.regression.RegressionRelease.of(
        drinks, deaths, epsilon=each, rng=1, **bounds
    )
    draws = adv.regression.gibbs(release, draws=2000, rng=1)["posterior"]
    slopes[f"epsilon {9 * each:g}, simulated"] = draws["slope"]
law = adv.regression.nonprivate_posterior(
    (drinks - 30) / 147, (deaths - 28) / 101.9
)
rng = np.random.default_rng(1)
precision = rng.gamma(law.a0, 1 / law.b0, 100_000)
spread = np.sqrt(np.linalg.inv(law.Lambda0)[1, 1] / precision)
themselves = law.mean[1] + spread * rng.standard_normal(100_000)
slopes["the records themselves"] = themselves * 101.9 / 147

adv.plot.style()
colour = adv.plot.PALETTE
fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for y, (name, slope) in enumerate(reversed(slopes.items())):
    low, middle, high = np.quantile(slope, [0.025, 0.5, 0.975])
    ink = colour["finding" if name.endswith("published") else "after"]
    ax.plot([low, high], [y, y], color=ink, lw=7, alpha=0.38)
    ax.plot(middle, y, "o", color=ink)
    positive = float((np.asarray(slope) > 0).mean())
    words = f"{positive:.0%} above 0" if positive < 0.999 else "above 0"
    ax.annotate(words, (high, y), (8, -4), textcoords="offset points")
ax.axvline(0, color=colour["ink"], lw=1.2)
ax.set_yticks(range(len(slopes)), [*slopes][::-1])
ax.set(xlim=(-0.6, 1.05), ylim=(-0.5, len(slopes) - 0.4))
ax.set_xlabel("slope: deaths by cirrhosis for one more unit drunk")
ax.spines["left"].set_visible(False)
ax.tick_params("y", length=0)
adv.plot.headline(
    ax,
    "At epsilon 0.9 even the sign of the slope stays open: 37% above 0",
    shape="95% intervals of the slope in four rows: -0.44 to 0.35 as "
    "published, -0.05 to 0.62 at epsilon 27, 0.30 to 0.69 at epsilon 90, "
    "0.38 to 0.71 for the records themselves.",
)
plt.show()

# %% [markdown]
# **In short.** Nine noisy sums over 46 US states were published: what was drunk there, and deaths from cirrhosis.
# What can be said of the regression of one on the other?
#
# - As published, with epsilon 0.9 in all, the slope is between -0.44 and 0.35 with 95% probability. The slope of the
#   records is 0.66, and no reading of this release finds it.
# - The noisy sums put into the textbook formula give a slope of -2.8, which no such data can have.
# - That both variables are bounded costs no privacy to use, and makes the interval 15% shorter. A sign needs about
#   thirty times the budget.
#
# ## What was published
#
# Both variables are brought to [0, 1] by their public ranges. Five sums of the regression and four moment sums of the
# regressor get Laplace noise, epsilon 0.1 each.

# %%
import numpy as np
import pandas as pd

import adversary as adv

release = adv.regression.RegressionRelease(
    sums=[9.56667, 3.94216, 18.6849, -3.92079, 3.61874],  # x, xx, y, xy, yy
    moments=[6.15444, 7.43941, 0.99294, 5.27982],  # x, x^2, x^3, x^4
    n=46,
    epsilon=0.1,
    x_bounds=(30, 177),
    y_bounds=(28, 129.9),
)
states = adv.regression.load_cirrhosis()
x, y = states["x"].values, states["y"].values
true = [x.sum(), (x * x).sum(), y.sum(), (x * y).sum(), (y * y).sum()]
names = ["x", "xx", "y", "xy", "yy"]
both = {"published": release.noisy_sums[1:], "of the records": true}
pd.DataFrame(both, index=names).round(1)

# %% [markdown]
# The noise has a standard deviation of 14, as large as the sums. The published sum of products is negative, which no
# data in [0, 1] have.
#
# ## The textbook formula
#
# Whoever puts the noisy sums in the place of the true ones gets a number, and no sign that it is worthless.

# %%
sx, sxx, sy, sxy, _ = release.noisy_sums[1:]
plugged = (46 * sxy - sx * sy) / (46 * sxx - sx**2) * 101.9 / 147
least_squares = np.polyfit(drinks, deaths, 1)[0]
print(f"noisy sums: slope {plugged:.1f}; the records: {least_squares:.2f}")

# %% [markdown]
# ## The posterior, noise included
#
# `adv.regression.gibbs` draws intercept, slope and deviation together with the sums that the noise hides, all kept to
# what data within the bounds can have. The draws of the first row of the figure are `gibbs(release, draws=8000,
# rng=2)`. The same with `constrained=False` ignores the bounds.

# %%
ignoring = adv.regression.gibbs(release, constrained=False, draws=5000, rng=2)
rows = {}
for name, one in {"using bounds": tree, "ignoring bounds": ignoring}.items():
    slope = one["posterior"]["slope"]
    low, high = slope.quantile([0.025, 0.975]).values
    rows[name] = {
        "mean": slope.mean().item(),
        "2.5%": low,
        "97.5%": high,
        "P(above 0)": (slope > 0).mean().item(),
        "r_hat": one["posterior"].attrs["r_hat"],
    }
summary = pd.DataFrame(rows).T
summary.round(2)

# %% tags=["remove-cell"]
ends = [np.quantile(one, [0.025, 0.975]).round(2) for one in slopes.values()]
expected = [[-0.44, 0.35], [-0.05, 0.62], [0.3, 0.69], [0.38, 0.71]]
assert np.allclose(ends, expected, atol=0.011)
assert round(float((slopes["epsilon 0.9, as published"] > 0).mean()), 2) == 0.37
assert round(plugged, 1) == -2.8
assert round(least_squares, 2) == 0.66
widths = summary["97.5%"] - summary["2.5%"]
assert round(1 - widths.iloc[0] / widths.iloc[1], 2) == 0.15
assert round(np.median(themselves) * 101.9 / 147, 2) == 0.55
assert summary["r_hat"].max() < 1.01

# %% [markdown]
# The tree opens in ArviZ: `az.plot_forest(tree)`, `az.summary(tree)`.
#
# ## On the command line
#
# ```sh
# uv run adversary infer data/cirrhosis_regression.toml --out page
# ```
#
# reads the same nine numbers from a file, and writes a page with the joint density of intercept and slope.
#
# ## What this does not say
#
# - Nothing causal. States that drink more differ in other ways.
# - The prior matters when the noise is large: it is the default one here, and pulls the slope of the records
#   themselves from 0.66 to 0.55.
# - The noise of the moments of x enters by an approximation. For up to 200 records `models.regression` is exact, and
#   slower.
# - "Simulated" rows are one draw of the noise each. Another draw moves the interval.
#
# Data: Brownlee (1965), pp. 464-465. Release: the seed of the script behind Kazan (2026), dissertation, section 4.5.
# Method: Bernstein and Sheldon (2019), "Differentially private Bayesian linear regression".
