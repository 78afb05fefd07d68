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
# # What post-processing leaves
#
# Agencies seldom publish noisy counts as they are. Negative ones become zero, all are rounded, and the counts of blocks
# are moved until they add up to that of their block group. Post-processing cannot break a promise of differential
# privacy. But what does a reader still learn, and is it always less than the raw count would have told? We follow
# section 2.11 of Kazan's thesis (Kazan and Reiter 2025, *Statistica Sinica* 35), exactly where the sums are finite, and
# find one statement there that does not hold.
#
# In the tables "C27" and the like name rows of a list of reference numbers, worked out for this study independently of
# the code here; they stand beside what the code prints.

# %%
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import adversary as adv
from adversary import models, postprocessing

plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})

clamped, rounded = postprocessing.clamped, postprocessing.rounded
LeastSquares, consistency_risk = postprocessing.LeastSquares, postprocessing.consistency_risk

block = adv.DiscreteGaussian.from_rho(adv.census.DETAILED_RHO["block"])
block_group = adv.DiscreteGaussian.from_rho(adv.census.DETAILED_RHO["block group"])
reader = adv.Adversary(prior=0.5, known=0)
print(f"rho of a block's count in the 2020 Census: {block.rho:.6f}, sigma^2 = {block.sigma2:.3f}")

# %% [markdown]
# ## One by one: clamping and rounding
#
# Nobody else in the block has the trait and the target is in, so the true count is 1. A clamped release is
# max(0, x). It is a mechanism that wraps a mechanism, and a plan takes it as such.

# %%
coarsenings = {
    "raw": None,
    "clamped at 0": clamped,
    "to the nearest 3": lambda mechanism: rounded(mechanism, 3),
    "to the nearest 5": lambda mechanism: rounded(mechanism, 5),
    "to the nearest 10": lambda mechanism: rounded(mechanism, 10),
    "clamped, then nearest 5": lambda mechanism: rounded(clamped(mechanism), 5),
}
plans = {name: adv.Plan([adv.Level("block", block)], postprocessing=each) for name, each in coarsenings.items()}
alone = adv.audit(plans, reader, {"block": 1}, progress=False)["risk"].to_dataset()
alone[["posterior_mean", "prob_correct"]].to_pandas().drop(columns="prior", errors="ignore").round(6)

# %% [markdown]
# | C35 | reference | here |
# |---|---|---|
# | expected posterior, clamped at 0 | 0.519729 | the second row above |
# | posterior after a published 0 | 0.411140 | printed below |

# %%
zero = float(reader.posterior(plans["clamped at 0"], plans["clamped at 0"].observe({"block": 0}))["posterior"])
print(f"posterior after a published 0: {zero:.6f}")
assert abs(zero - 0.411140) < 5e-7
assert abs(float(alone["posterior_mean"].sel(plan="clamped at 0")) - 0.519729) < 5e-7
assert (alone["posterior_mean"] <= alone["posterior_mean"].sel(plan="raw")).all()

# %% [markdown]
# Each step merges releases, and a merged release gets one posterior, an average of what it stands for. The figure shows
# that from the side of the noisy count that nobody but the agency sees.

# %%
seen = np.arange(-8, 11)
figure, axis = plt.subplots()
for name in ("raw", "clamped at 0", "to the nearest 5"):
    level = plans[name].levels[0].mechanism
    published = seen if name == "raw" else level.image(seen)
    posterior = reader.posterior(plans[name], plans[name].observe({"block": published}))["posterior"]
    axis.plot(seen, posterior, "." if name == "raw" else "-", drawstyle="steps-mid", label=name)
axis.axhline(0.5, color="0.8", zorder=0)
axis.set(xlabel="noisy count before post-processing", ylabel="P(target in | what is published)")
axis.set_title("Merged releases share one posterior")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# For one count by itself less is always told: the expected posterior of a target who is in only falls. That is the
# data-processing inequality, and it is about *everything the published number is made of*. Keep that in mind.
#
# ## Together: counts that add up to their parent's
#
# Now the block is one of 28 in a block group, whose published count t2 is settled first. The 28 noisy counts are moved
# as little as possible in squares to add up to t2, then cut off and rounded. For the target's block, with noisy count x
# and the noisy counts of its d = 27 siblings adding up to ys,
#
# $$v = \frac{d\,x + t_2 - y_s}{d + 1}, \qquad t_1 = \text{round}(\min(\max(v, 0), t_2)).$$
#
# The reader sees t1 and t2 and knows the true count of the block group, 1. `LeastSquares` is the algorithm,
# `consistency_risk` the reader; both noises are summed out exactly.

# %%
print("the algorithm:", [int(LeastSquares().adjusted(x, -1, 10, siblings=27)) for x in (-3, 0, 1, 4, 40)])
smallest = consistency_risk(parent=1, mechanism=block, siblings=27, count=1, prior=0.5)
smallest[["likelihood", "posterior"]].to_dataframe().unstack("hypothesis").round(6)

# %% [markdown]
# | C28, t2 = 1 | t1 = 0 | t1 = 1 |
# |---|---|---|
# | likelihood, out | 0.592715 | 0.407285 |
# | likelihood, in | 0.413223 | 0.586777 |
# | posterior | 0.410784 | 0.590282 |

# %%
np.testing.assert_allclose(smallest["likelihood"], [[0.592715, 0.407285], [0.413223, 0.586777]], atol=5e-7)
np.testing.assert_allclose(smallest["posterior"], [0.410784, 0.590282], atol=5e-7)
parents, rules = [1, 10, 100], ["half_even", "half_up", "half_down"]


def expected(parent, noise=block, **options):
    """Expected posterior of a target who is in."""
    return float(consistency_risk(parent, noise, siblings=27, count=1, prior=0.5, **options)["posterior_mean"])


by_rule = pd.DataFrame({rule: [expected(t2, rounding=rule) for t2 in parents] for rule in rules}, index=parents)
by_rule.rename_axis(index="t2").round(6)

# %% [markdown]
# The thesis does not say how it rounds a half. It matters little: the three rules differ by less than 1e-4 here.
#
# | C27, half to even | t2 = 1 | t2 = 10 | t2 = 100 | the raw count |
# |---|---|---|---|---|
# | expected posterior | 0.516109 | 0.520861 | 0.523973 | 0.523666 |

# %%
np.testing.assert_allclose(by_rule["half_even"], [0.516109, 0.520861, 0.523973], atol=5e-7)
assert (by_rule.max(axis=1) - by_rule.min(axis=1)).max() < 1e-4
wide = consistency_risk(100, block, siblings=27, count=1, prior=0.5)
wide[["posterior_mean", "raw_posterior_mean", "bound_posterior_mean", "exceeds_raw"]].to_pandas()

# %% [markdown]
# ## A post-processed count can tell more than the raw one
#
# The thesis says that the risk with post-processing never exceeds that of the raw count. At t2 = 100 it does:
# **0.523973 against 0.523666**. The raw count of the *same block* is not all that t1 is made of. The siblings' releases
# enter it, and to a reader who knows the block group's true count these tell of the target too: whoever is not in the
# siblings is here. What cannot be exceeded is what x and ys tell together,
# 0.524502 (C29), the risk of one release with rho (1 + 1/27).

# %%
raw, bound = float(wide["raw_posterior_mean"]), float(wide["bound_posterior_mean"])
single = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(block.rho * 28 / 27))])
by_one_release = float(adv.audit(single, reader, {"block": 1})["risk"]["posterior_mean"])
print(f"raw {raw:.6f}, published {expected(100):.6f}, bound {bound:.6f}, one release {by_one_release:.6f}")
assert raw < expected(100) < bound
assert abs(bound - 0.524502) < 5e-7
assert abs(bound - by_one_release) < 1e-12

# %% [markdown]
# Step by step: the siblings add something, rounding and the cut at zero take something away, and at t2 = 100 the sum is
# positive. To see rounding without the cut we raise t2 by ten times 28: v then ends in the same 28ths, but is never
# near zero.

# %%
steps = {
    "the raw count x": raw,
    "x and the siblings' sum": bound,
    "v, rounded (t2 = 380)": expected(380),
    "v, rounded and cut at 0 (t2 = 100)": expected(100),
    "v, rounded and cut at 0 (t2 = 10)": expected(10),
}
changes = pd.DataFrame({"expected posterior": steps})
changes["over the raw count"] = changes["expected posterior"] - raw
changes.round(6)

# %%
totals = np.r_[np.arange(0, 30), np.arange(30, 200, 5), np.arange(200, 1001, 50)]
processed = [expected(int(t2)) for t2 in totals]
figure, axis = plt.subplots()
axis.plot(totals, processed)
limits = [(raw, "raw count of the block", "0.4"), (bound, "bound: with the siblings' sum", "tab:red")]
for value, name, colour in limits:
    axis.axhline(value, color=colour, linestyle="--")
    axis.annotate(name, (1, value), (0, 3), textcoords="offset points", color=colour)
axis.annotate("published t1", (12, expected(12)), (6, -12), textcoords="offset points", color="tab:blue")
axis.set(xscale="symlog", xlim=(0, 1000), ylim=(0.499, 0.5265), xlabel="published count of the block group, t2")
axis.set(ylabel="expected posterior", title="From t2 = 78 on the published count tells more than the raw one")
plt.show()
crossing = next(t2 for t2 in range(1, 200) if expected(t2) > raw)
print(f"the smallest t2 at which it tells more: {crossing}")

# %% [markdown]
# Small t2 protect: most of the releases are cut off at zero. Large t2 do not: v lies near t2 / 28, far from the cut.
#
# ### Weights
#
# Take the siblings out and the excess goes. With a weight w on the block's own count,
# v = (d w x + t2 - ys) / (d w + 1). Large w leaves x alone, cut off at 0 and at t2: the clamped count of C35. The
# agency's best weight is also best for the reader.

# %%
weights = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), 1, 2, 4, 8, 16]
weighted = pd.Series([expected(100, own_weight=w) for w in weights], index=[float(w) for w in weights])
assert weighted.idxmax() == 1.0
assert abs(weighted[16.0] - float(alone["posterior_mean"].sel(plan="clamped at 0"))) < 1e-9
figure, axis = plt.subplots()
axis.plot(weighted.index, weighted, ".-")
for value, name, colour in limits:
    axis.axhline(value, color=colour, linestyle="--")
    axis.annotate(name, (0.05, value), (0, 3), textcoords="offset points", color=colour)
axis.set(xscale="log", xlabel="weight of the block's own count (its siblings' is 1)", ylabel="expected posterior")
axis.set_title("Equal weights, best for the agency, tell the reader most (t2 = 100)")
plt.show()

# %% [markdown]
# ## "The reduction is minor"
#
# It is, at the census's rho of 0.0992: at most 0.0076 for t2 = 1, and nothing for t2 = 100. The thesis draws rho = 0.5
# too, and there the reference numbers are
#
# | C39, rho = 0.5 | t2 = 1 | t2 = 10 | t2 = 100 | raw |
# |---|---|---|---|---|
# | expected posterior | 0.579646 | 0.590395 | 0.594127 | 0.602029 |

# %%
budgets = np.array([0.02, 0.05, block.rho, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0])
rows = []
for rho in budgets:
    noise = adv.DiscreteGaussian.from_rho(rho)
    found = [consistency_risk(t2, noise, siblings=27, count=1, prior=0.5) for t2 in parents]
    rows.append([float(one["posterior_mean"]) for one in found])
    rows[-1] += [float(found[0]["raw_posterior_mean"]), float(found[0]["bound_posterior_mean"])]
by_rho = pd.DataFrame(rows, index=budgets, columns=[*(f"t2 = {t2}" for t2 in parents), "raw", "bound"])
np.testing.assert_allclose(by_rho.loc[0.5].iloc[:4], [0.579646, 0.590395, 0.594127, 0.602029], atol=5e-7)
np.testing.assert_allclose(by_rho["t2 = 100"].loc[[2.0, 5.0]], [0.690769, 0.872546], atol=5e-7)
by_rho.rename_axis(index="rho").round(6)

# %%
figure, axis = plt.subplots()
for t2 in parents:
    axis.plot(budgets, by_rho["raw"] - by_rho[f"t2 = {t2}"], ".-", label=f"t2 = {t2}")
axis.axhline(0.0, color="0.8", zorder=0)
axis.axvline(block.rho, color="0.6", linestyle=":")
axis.annotate("the census's rho", (block.rho, 0.1), (4, 0), textcoords="offset points", color="0.4")
axis.set(xscale="log", xlabel="rho of a block's count", ylabel="raw minus published, expected posterior")
axis.set_title("Minor at the census's rho; 0.12 at rho = 2 and t2 = 100")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# Why t2 = 100? Without noise v would be 99/28 = 3.54 with the target out and 127/28 = 4.54 with the target in: just
# past a half, so that the siblings' noise decides which way it is rounded. Other t2 have v near a whole number, and
# then the rounding hides nothing. At rho = 2 the risk therefore goes up and down with a period of 28.

# %%
narrow = adv.DiscreteGaussian.from_rho(2.0)
counts = np.arange(1, 121)
wave = np.array([expected(int(t2), narrow) for t2 in counts])
figure, axis = plt.subplots()
axis.plot(counts, wave, ".-")
axis.axhline(by_rho.loc[2.0, "raw"], color="0.4", linestyle="--")
axis.annotate("raw count of the block", (85, by_rho.loc[2.0, "raw"]), (0, 4), textcoords="offset points", color="0.4")
axis.plot(100, wave[99], "o", color="tab:red")
axis.annotate("t2 = 100", (100, wave[99]), (-58, -4), textcoords="offset points", color="tab:red")
axis.set(ylim=(0.66, 0.83), xlabel="published count of the block group, t2", ylabel="expected posterior")
axis.set_title("At rho = 2 it depends on t2 modulo 28 whether rounding protects")
plt.show()
print(f"largest {wave.max():.6f} at t2 = {counts[wave.argmax()]}, smallest {wave[29:].min():.6f}")

# %% [markdown]
# ## Never below zero
#
# The 2020 Census did not cut the counts off after adjusting them: it looked for the nearest counts that are at least
# zero *and* add up. `NonNegative` does so in spirit: the noisy counts are projected on the simplex of total t2, and
# the block's own is rounded. Now t1 depends on every sibling's noisy count, not only on their sum. For one or two
# siblings these are enumerated; for more they are simulated, with a standard error.

# %%
rows = {}
for d in (1, 2, 3, 9, 27):
    projected = consistency_risk(10, block, siblings=d, count=1, prior=0.5, nonnegative=True, rng=1940)
    cut = consistency_risk(10, block, siblings=d, count=1, prior=0.5)
    rows[d] = {
        "projected": float(projected["posterior_mean"]),
        "mcse": float(projected["mcse"]) if "mcse" in projected else 0.0,
        "direction": projected["posterior_mean"].attrs["direction"],
        "least squares, cut off": float(cut["posterior_mean"]),
        "raw count": float(cut["raw_posterior_mean"]),
    }
by_siblings = pd.DataFrame(rows).T.rename_axis(index="siblings")
by_siblings

# %% [markdown]
# With one sibling the two are the same: what is cut off one is cut off the other. With 27 the projection tells less
# than least squares by many standard errors. Ten people for 28 noisy counts: the projection lowers all of them until
# the positive ones add up to ten, and most published counts are zero whether the target is in or out.

# %%
assert by_siblings.loc[1, "projected"] == by_siblings.loc[1, "least squares, cut off"]
gap = by_siblings.loc[27, "least squares, cut off"] - by_siblings.loc[27, "projected"]
assert gap > 10 * by_siblings.loc[27, "mcse"]
projected["likelihood"].sel(release=slice(0, 3)).to_pandas().round(4)

# %% [markdown]
# ## The whole plan
#
# So far t2 was given. In a plan it is a noisy count as well, never below zero, and the average is over both. Beside it
# stand the block's raw count alone and all raw counts together, for a reader who is sure of the block group's count
# and right. Both truths are told: with the target out a protected reader stays *above*.

# %%
levels = [adv.Level("block", block, siblings=27), adv.Level("block group", block_group)]
published = adv.Plan(levels, postprocessing=LeastSquares())
everything = adv.Plan(levels)
sure = adv.Adversary(0.5, known=0, beliefs={"block group": adv.Point(1)})
truth = {"block": 1, "block group": 1}
cases = {
    "the block's raw count": (plans["raw"], reader, {"block": 1}),
    "as published": (published, sure, truth),
    "all raw counts": (everything, sure, truth),
}
whole = pd.DataFrame(
    {
        name: {
            f"expected posterior, {side}": float(one.sel(truth=side))
            for one in [adv.sensitivity.sweep(*case, progress=False)["posterior_mean"]]
            for side in ("in", "out")
        }
        for name, case in cases.items()
    }
).T
assert abs(whole.loc["all raw counts", "expected posterior, in"] - bound) < 1e-12
whole.round(6)

# %% [markdown]
# All raw counts together tell exactly the bound above: the block group's own noisy count is useless to a reader who is
# sure of it. With a true count of 1 most t2 are small, so that what is published protects more than t2 = 100 did.

# %%
release = published.release({"block": 1, "block group": 1}, np.random.default_rng(5), size=2000)
t2 = release["noisy"].sel(level="block group")
print(f"published t2 of at most 3: {float((t2 <= 3).mean()):.3f}; largest of 2000: {int(t2.max())}")

# %% [markdown]
# ### What this reader could do, and what the accounting allows
#
# A promise speaks of every reader. The *empirical epsilon* speaks of one: the smallest e such that this reader's log
# Bayes factor stays within e in 95 % of releases, whether the target is in or out. Post-processing leaves the promise
# where it was; the reader falls behind it.

# %%
rows = {}
for name, (plan, who, counted) in cases.items():
    rows[name] = {
        "this reader": adv.risk.empirical_epsilon(plan, who, counted, failure=0.05),
        "any reader": plan.privacy_loss().loss_bound(0.05),
    }
epsilons = pd.DataFrame(rows).T.rename_axis(columns="epsilon with failure 0.05")
assert abs(epsilons.loc["the block's raw count", "this reader"] - 0.893037) < 1e-6
assert (epsilons["this reader"] <= epsilons["any reader"]).all()
epsilons.round(6)

# %%
promise = adv.ZeroConcentratedDP(block.rho + block_group.rho)
tree = adv.audit(published, sure, truth, guarantee=promise, progress=False)
tree["bound"].to_dataset()[["outside", "failure", "status"]].to_pandas()

# %% [markdown]
# ### The same in PyMC
#
# `models.postprocessed` is the same reader as a model one can change. Its draws run the algorithm on drawn noise; its
# density is the exact likelihood. The reader here is not sure of the block group's count.

# %%
unsure = adv.Adversary(0.5, known=0, beliefs={"block group": adv.Uniform(upper=10)})
model = models.postprocessed(published, unsure)
release = published.observe({"block": [0, 1, 1, 2], "block group": [0, 1, 4, 4]})
both = xr.Dataset(
    {
        "enumerated": ("release", adv.enumerate_posterior(model, adv.observed(release))["posterior"].values),
        "exact": unsure.posterior(published, release)["posterior"],
    }
)
assert np.allclose(both["enumerated"], both["exact"], atol=1e-10)
both.to_pandas().round(6)

# %% [markdown]
# ## In short
#
# * One count by itself: less is told, always. The same holds of everything that is published together.
# * A count adjusted to its parent's is made of its siblings' counts too. Compare it with all of them, not with the raw
#   count of the same block; it can tell more than that one.
# * How much is lost depends on rho, on t2, and on where v falls between two whole numbers. Nothing of it is promised.
#   Who needs a bound should take that of the raw release.
