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
# A privacy guarantee covers every adversary whose beliefs about everybody else do not depend on the person, whatever
# else they know and whatever they do with the release. This notebook states it in five ways: as a bound on what such an
# adversary can come to believe, as a limit on any test, as a curve of (epsilon, delta), as the law of one adversary's
# posterior, and as the difference that one person's own record makes. They are five views of one
# object, the law of the log-likelihood ratio of the release, and all of them are computed exactly.
#
# References: Kazan, Sharma, Zhang, Jiang and Yan (2025), "Interpreting differential privacy in terms of disclosure
# risk"; Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential privacy:
# applications to the 2020 Census".

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from IPython.display import display

import adversary as adv

plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## What an adversary can come to believe
#
# Under pure epsilon-DP the odds of any hypothesis about one person move by at most a factor e^epsilon. In terms of
# probabilities that depends on where the adversary starts: at epsilon = 1 a rare trait can become 2.7 times as likely,
# and is still rare; an adversary at even odds can at most go from 50 % to 73.1 %. The largest rise, posterior minus
# prior, is tanh(epsilon / 4), at a prior somewhat below one half.

# %%
guarantee = adv.PureDP(1.0)
priors = np.array([0.001, 0.01, 0.1, 0.5, 0.9])
lowest, highest = guarantee.posterior_bounds(priors)
ratio = guarantee.ratio_bounds(priors)[1]
assert round(highest[3], 3) == 0.731
bounds = {"prior": priors, "lowest posterior": lowest, "highest": highest, "highest / prior": ratio}
display(pd.DataFrame(bounds).round(4))

p = np.linspace(0.001, 0.999, 500)
figure, axis = plt.subplots()
for epsilon in (0.5, 1.0, 2.0, 4.0):
    (line,) = axis.plot(p, adv.PureDP(epsilon).difference_bounds(p)[1])
    worst, rise = adv.definitions.worst_prior(epsilon)
    axis.plot(worst, rise, "o", color=line.get_color())
    axis.annotate(f"epsilon {epsilon:g}: {rise:.2f}", (worst, rise), (4, 4), textcoords="offset points")
axis.set(xlabel="prior", ylabel="posterior - prior, at most", xlim=(0, 1), ylim=(0, 0.88))
axis.set_title("The larger epsilon, the rarer the trait that is given away most")
plt.show()

# %% [markdown]
# ## What any test can detect
#
# The same guarantee without priors: decide "in" or "out" from the release. With 5 % false alarms, no test detects more
# than 13.6 % of those who are in at epsilon = 1. Laplace noise of that epsilon reaches the limit where false alarms
# are few or many, and stays below it in between; a Gaussian, or zCDP, guarantees a different shape altogether.
# Gaussian noise with mu = 1 has rho = 1/2. Its own curve lies well below that of zCDP with the same rho, because zCDP
# has to allow for every mechanism of that rho.
#
# Who is protected? The guarantee is about one unit of privacy, here a person. A family of three, all of whose records
# change together, gets three times the epsilon under pure DP, nine times the rho under zCDP, three times the mu under
# Gaussian DP. The table has the power at 5 % for both, the advantage and the area under the ROC curve.

# %%
kinds = {
    "pure DP, epsilon 1": guarantee,
    "Laplace noise": adv.Laplace(1.0).privacy_loss(),
    "Gaussian noise, mu 1": adv.Gaussian(1.0).privacy_loss(),
    "zCDP, rho 1/2": adv.ZeroConcentratedDP(0.5),
}
assert round(guarantee.power(0.05), 3) == 0.136
summary = {
    name: {
        "one person, at 5 %": one.power(0.05),
        "three, at 5 %": one.group(3).power(0.05),
        "advantage": one.advantage,
        "AUC": one.auc,
    }
    for name, one in kinds.items()
}
display(pd.DataFrame(summary).T.round(4))
adv.plot.trade_off(kinds)

# %% [markdown]
# ## The same noise, another unit of privacy
#
# A release protects whoever it was made for. Noise of variance 100 on page views is zCDP of rho 0.005 for one view of
# one page, 0.05 for a device that views ten pages a day, and 1.5 for the same device over thirty days: one noise, three
# guarantees. "Who is protected, and by how much" (a how-to page) has households, devices, reports and periods.

# %%
noise = adv.DiscreteGaussian(10.0)
units = {
    "one view of one page": adv.PrivacyUnit("view"),
    "a device in a day, ten pages": adv.PrivacyUnit("device-day", cells=10),
    "the same over thirty days": adv.PrivacyUnit("device-day", cells=10, periods=30),
}
costs = {}
for name, unit in units.items():
    plan = adv.Plan([adv.Level("page", noise)], privacy_unit=unit)
    period = adv.ZeroConcentratedDP(plan.total_rho)
    every = unit.over_periods(period)
    costs[name] = {"rho": every.rho, "from 50 % to at most": every.posterior_bounds(0.5, failure=0.05)[1]}
assert [round(one["rho"], 3) for one in costs.values()] == [0.005, 0.05, 1.5]
display(pd.DataFrame(costs).T.round(4))

# %% [markdown]
# ## Epsilon and delta: a curve, not a number
#
# The 2020 Census redistricting data were announced as rho = 2.63. To turn this into an epsilon one chooses a delta, and
# a conversion. The published simple one says 18.20 at delta = 1e-10 (upper bounds are rounded up); the tight one 17.44;
# and the noise that was really used, 142 discrete Gaussians composed exactly, needs 16.75. The noise is the same in all
# three: only the bookkeeping differs.

# %%
rho = 2.63
release = adv.census.pl94().loss
tight = adv.ZeroConcentratedDP(rho)
epsilons = [adv.definitions.simple_epsilon(rho, 1e-10), tight.epsilon(1e-10), release.epsilon(1e-10)]
assert [np.ceil(100 * e) for e in epsilons] == [1820, 1744, 1675]
adv.plot.epsilon_delta({"the noise itself": release}, rho=rho)

# %% [markdown]
# delta is *not* the probability that the loss exceeds epsilon. It is smaller: a release whose likelihood ratio is
# e^loss counts only for the part 1 - e^(epsilon - loss) of its probability. And the probability itself is no safe
# guarantee, since post-processing can raise it. What survives post-processing is the probabilistic bound (pbDP), which
# is larger. The first table is at epsilon = 5 for the Gaussian with rho = 2.63.
#
# How can post-processing raise a tail? Ask a yes-no question twice, with randomised response of epsilon = 1. With both
# answers, the loss exceeds 1/2 with probability 0.534, which is when they agree on the truth. Throw the second answer
# away, and it does so with probability 0.731: less information, but a larger tail. The pbDP column covers both.

# %%
gaussian = adv.Gaussian(1.0 / np.sqrt(2.0 * rho)).privacy_loss()
at = 5.0
views = {
    "delta(5), of (epsilon, delta)-DP": gaussian.delta(at),
    "P(loss > 5), of the release as it is": gaussian.tail(at)[0],
    "P(loss > 5), after any post-processing (pbDP)": gaussian.pbdp_delta(at),
    "the same, from rho alone": adv.definitions.pbdp_delta_markov(at, rho=rho),
}
assert list(views.values()) == sorted(views.values())
display(pd.Series(views, name="epsilon 5").round(4).to_frame())

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
# So with a delta, bounds on beliefs hold except with a stated probability. How sure can an adversary at even odds
# become of which block of a block group somebody lives in? The concern is scenario A of `the_2020_census_budget`,
# with rho = 0.1115: at most 78.8 % by rho alone, and at most 75.6 % by the noise itself, in 95 % of releases and after
# any post-processing.

# %%
block = adv.census.scenario("A")
guarantees = {"rho alone": adv.ZeroConcentratedDP(float(block.rho)), "the noise itself": block.loss}
failures = [1e-10, 1e-4, 0.01, 0.05]
bounds = {name: [one.posterior_bounds(0.5, f)[1] for f in failures] for name, one in guarantees.items()}
assert [np.ceil(1000 * bounds[name][-1]) for name in guarantees] == [788, 756]
pd.DataFrame(bounds, index=pd.Index(failures, name="failure")).round(4)

# %% [markdown]
# ## Adding up
#
# A hundred releases at epsilon = 0.1 each cost 10 by addition. Once a delta is allowed they cost less, and the optimal
# composition is much below the published formula: 5.96 against 7.49 at delta = 1e-9. `n * g` and `+` compose,
# guarantees and noise alike.

# %%
hundred = 100 * adv.PureDP(0.1)
costs = {
    delta: {
        "basic": 10.0,
        "advanced": adv.definitions.compose_advanced([0.1] * 100, delta),
        "optimal": hundred.epsilon(delta),
    }
    for delta in (1e-9, 1e-6, 1e-3)
}
assert round(costs[1e-9]["optimal"], 2) == 5.96
assert round(costs[1e-9]["advanced"], 2) == 7.49
pd.DataFrame(costs).T.rename_axis("delta").round(4)

# %% [markdown]
# ## The law of one adversary's posterior
#
# Bounds are about the worst release. What happens to an adversary who sees one typical release? The posterior is a
# random variable, because the noise is, and its law is the law of the privacy loss seen through Bayes' rule. Take the
# noise of one block count of the 2020 Census, rho = 0.0992, and an adversary who knows everybody else in the block.
# The expected posterior is 52.4 % if the target is in, 47.6 % if not. Single releases can mislead by much more than
# that, in either direction, and the bound of zCDP (grey) covers 95 % of them.

# %%
noise = adv.DiscreteGaussian.from_rho(0.0992)
law = noise.privacy_loss().posterior(0.5)
quantiles = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
shown = pd.DataFrame({truth: law.quantile(quantiles, truth) for truth in ("in", "out")}, index=quantiles)
assert round(law.mean("in"), 3) == 0.524
assert np.isclose(law.mean("in") + law.mean("out"), 1.0)
print(f"expected posterior if in {law.mean('in'):.4f}, if out {law.mean('out'):.4f}")
display(shown.rename_axis("quantile").round(4))


def draw(laws, x, title, scale="linear"):
    """Share of releases with a larger posterior, target in (solid) and out (dotted), and the bounds of zCDP (grey)."""
    _, ax = plt.subplots()
    for i, (name, one) in enumerate(laws.items()):
        for truth, style in (("in", "-"), ("out", ":")):
            label = f"{name}, {truth}: mean {one.mean(truth):.2%}"
            ax.plot(x, 1.0 - one.cdf(x, truth), style, color=f"C{i}", label=label)
        ax.axvspan(*adv.ZeroConcentratedDP(0.0992).posterior_bounds(one.prior, 0.05), color="grey", alpha=0.12, lw=0)
    ax.set(xscale=scale, xlabel="posterior that the target is in", ylabel="share of releases with a larger posterior")
    ax.set_title(title, loc="left")
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    plt.show()


draw({"one block count": law}, np.linspace(0.0, 1.0, 1201), "Most releases of one block count move a belief little")

# %% [markdown]
# This law is sharper than every bound, but it belongs to this release and this adversary. Post-processing can change
# it, and an adversary who knows less than everybody else has another one: the audit in `one_person_in_one_block`
# computes it. For several priors, on a log axis:

# %%
adversaries = {f"prior {p:g}": noise.privacy_loss().posterior(p) for p in (0.5, 0.1, 0.01, 0.001)}
draw(adversaries, np.geomspace(1e-4, 1.0, 1201), "A small prior stays small", "log")

# %% [markdown]
# ## What one record changes: from posterior to posterior
#
# So far the adversary knew everybody else, so that all that could be learned was about the target. Now an adversary
# who does not. Of the ten other people in a street either all smoke or none do, at even odds, and the target does as
# they do with probability 0.95. The number of smokers is published with geometric noise of epsilon = 1, and it comes
# out as 11.
#
# The adversary moves from 50 % to 98 %, far beyond the bound for somebody who knows everybody else at epsilon = 1
# (73.1 %). Is the guarantee violated? No: in the counterfactual world, where the release is made without the target's
# record, the same adversary would reach 95 %. That they all smoke is what the release is for; the target's own record
# adds a factor 1.03. The guarantee bounds this factor, posterior to posterior, at e^epsilon whatever the prior. The
# second table has what these worlds achieve beside the bound of each theorem.

# %%
labels = {"rest": [0, 10], "record": ["does not smoke", "smokes"]}
others = xr.DataArray([0.5, 0.5], dims="rest", coords={"rest": labels["rest"]})
target = xr.DataArray([[0.95, 0.05], [0.05, 0.95]], dims=("rest", "record"), coords=labels)
answers = others["rest"] + xr.DataArray([0, 1], dims="record", coords={"record": labels["record"]})
worlds = adv.counterfactual.compare_worlds(
    others, target, adv.counterfactual.log_likelihood(adv.Geometric(1.0), answers)
)
smokes = worlds.sel(record="smokes")
seen = smokes.sel(release=[0, 1, 5, 6, 10, 11])[["actual", "counterfactual", "log_ratio"]]
assert round(float(smokes["actual"].sel(release=11)), 2) == 0.98
assert round(float(smokes["counterfactual"].sel(release=11)), 2) == 0.95
display(seen.to_pandas().drop(columns="record").round(4))

compared = adv.counterfactual.semantics(worlds, guarantee, [0.25, 0.5, 0.75, 1.0])
assert bool(compared["holds"].all())
assert float(compared["largest"].max()) <= float(compared["largest_bound"])
print(f"largest |log ratio| {float(compared['largest'].max()):.4f}, allowed {float(compared['largest_bound']):.4f}")
for theorem in ("7.1", "7.5"):
    print(theorem, str(compared["event"].sel(theorem=theorem).values))
table = compared.sel(record="smokes", theorem=["7.1", "7.5"])
pd.concat({name: table[name].to_pandas() for name in ("achieved", "bound")}).round(4)

# %% [markdown]
# ## What epsilon does not say
#
# - Nothing about what a release teaches about a group, and so about everybody in it: see the street above.
# - Nothing about facts that are published exactly. Invariants restrict which pairs of data sets can be compared at all.
# - Nothing about one number without its partner: an epsilon without its delta, its neighbours (add or remove a person,
#   or change one) and its unit (a person, a household, one answer) guarantees nothing in particular.
# - Not that the worst case happens. The law of the posterior is what happens; the bound is what cannot.
