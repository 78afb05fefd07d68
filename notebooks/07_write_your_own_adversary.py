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
# # Write your own adversary
#
# An adversary is a PyMC model whose release is left free. If the library does not have the reader you fear, write the
# model; `audit` turns it into risk averaged over releases, with the bounds beside it. This notebook writes one in less
# than thirty lines, audits it, compares it with readers the library has, adds a continuous unknown, and asks by
# simulation whether the posteriors are right.
#
# The reader: a count of people with some trait is published for a block. The target lives with a *housemate*, and
# people who live together often share the trait. Nobody else in the block is in question. None of the library's beliefs
# says this; to them what other people have does not depend on the target.

# %%
import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.integrate import quad
from scipy.stats import norm, poisson

import adversary as adv
from adversary import models

plt.rcParams.update({"figure.figsize": (7.5, 3.6), "axes.spines.top": False, "axes.spines.right": False})
warnings.filterwarnings("ignore", message="Numba will use object mode")  # draws of noise are made by NumPy

# %% [markdown]
# ## The model

# %%
plan = adv.Plan([adv.Level("block", adv.Geometric(epsilon=1.0))])
promise = adv.PureDP(1.0)
PRIOR, ALIKE, APART = 0.3, 0.8, 0.1


def housemates():
    """The target has the trait or not; the housemate too, depending on the target; their sum is published noisy."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=PRIOR)
        mate = pm.Bernoulli("mate", p=pm.math.switch(target, ALIKE, APART))
        count = pm.Deterministic("count[block]", target + mate)
        models.Geometric("noisy[block]", mu=count, epsilon=1.0)
    return model


model = housemates()
print("left free:", [variable.name for variable in model.free_RVs])

# %% [markdown]
# Three rules make it auditable: there is a target with values 0 and 1; the release has the name `noisy[level]` of the
# plan (or plain `noisy` where there is one level); and it is not observed. `models.noise.released(name, mechanism,
# count)` gives the law of any mechanism of the library; here `models.Geometric` is spelled out, since we shall want to
# change it.
#
# Look before using it: what does this reader expect to see?

# %%
names = ["in", "mate", "count[block]", "noisy[block]"]
drawn = pm.draw([model[name] for name in names], draws=5000, random_seed=7)
expected = pd.DataFrame(dict(zip(names, drawn, strict=True)))
shares = expected.groupby("in")["noisy[block]"].value_counts(normalize=True).unstack("in").sort_index()
figure, axis = plt.subplots()
for value, label in ((0, "target out"), (1, "target in")):
    axis.plot(shares[value], drawstyle="steps-mid", label=label)
axis.set(xlim=(-5, 8), xlabel="published count", ylabel="probability")
axis.set_title("What the reader expects: 0 with the target out, 2 with the target in")
axis.legend(frameon=False)
plt.show()

# %%
both = expected.groupby("in")["mate"].mean()
assert abs(both[0] - APART) < 0.02
assert abs(both[1] - ALIKE) < 0.03
print(f"housemate has the trait: {both[0]:.3f} with the target out, {both[1]:.3f} with the target in")
print(f"correlation of the two: {expected['in'].corr(expected['mate']):.3f}")

# %% [markdown]
# ## Its audit
#
# All latents are discrete and finite, so `audit` enumerates: posteriors are exact, and so are the averages. The truth
# must say whether the target is in, since a count of 1 does not. `records` says in how many records the two hypotheses
# differ; no model says that by itself. Here it is two people's, as the housemate's law moves with the target.

# %%
truths = {
    "both": {"block": 2, "in": 1},
    "only the target": {"block": 1, "in": 1},
    "only the housemate": {"block": 1, "in": 0},
    "nobody": {"block": 0, "in": 0},
}
tree = adv.audit(plan, model, truths, target="in", records=2, guarantee=promise, progress=False)
summary = tree["risk"].to_dataset()[["posterior_mean", "prob_correct"]].to_pandas()
summary["bound on the posterior"] = tree["bound"]["posterior"].sel(definition="pure DP", side="upper").to_pandas()
summary["status"] = tree["bound"]["status"].sel(definition="pure DP").to_pandas()
assert (summary["status"] == "holds").all()
summary.round(4)

# %% [markdown]
# The promise is epsilon = 1 for one record. What if we claim that one record is all this reader's hypotheses differ in?

# %%
claimed = adv.audit(plan, model, truths["both"], records=1, guarantee=promise, progress=False)["bound"].to_dataset()
assert claimed["status"].sel(definition="pure DP") == "exceeded"
claimed[["k", "loss_bound", "outside", "status"]].to_pandas()

# %% [markdown]
# `exceeded`, not `violated`: the mechanism keeps its promise. The claim was wrong. A release about two people who are
# alike tells of one through the other, and a promise for one record does not cover that.
#
# Trust, but check: with two unknown people a posterior is four terms.

# %%
published = np.arange(-8, 13)


def by_hand(log_noise):
    """P(in | release) from log P(release | count), counts 0, 1, 2."""
    nobody, one, two = (np.exp([log_noise(k, count) for k in published]) for count in range(3))
    present = PRIOR * ((1 - ALIKE) * one + ALIKE * two)
    return present / (present + (1 - PRIOR) * ((1 - APART) * nobody + APART * one))


enumerated = adv.enumerate_posterior(model, {"noisy[block]": published})["posterior"].values
exact = by_hand(plan.levels[0].mechanism.log_prob)
print(f"largest difference: {np.abs(enumerated - exact).max():.1e}")
assert np.allclose(enumerated, exact, atol=1e-12)

# %% [markdown]
# ## The nearest readers in the library
#
# Two built-in readers come close. To one the housemate is a stranger: the trait with chance 0.31, whatever the target
# has. To the other the two always agree: the count is 0 or 2. One mapping holds models and adversaries side by side.

# %%
chance = PRIOR * ALIKE + (1 - PRIOR) * APART
readers = {
    "strangers": adv.Adversary(PRIOR, beliefs={"block": [1 - chance, chance]}),
    "housemates": model,
    "always alike": adv.Adversary(PRIOR, hypotheses=(0, 2)),
}
agreed = {name: truths[name] for name in ("both", "nobody")}
compared = adv.audit(plan, readers, agreed, records=2, progress=False)["risk"]["posterior_mean"]
assert compared.sel(truth="both").values.argsort().tolist() == [0, 1, 2]
assert compared.sel(truth="nobody").values.argsort().tolist() == [2, 1, 0]
compared.to_pandas().round(4)

# %%
posteriors = {"housemates": enumerated}
for name in ("strangers", "always alike"):
    release = plan.observe({"block": published})
    posteriors[name] = readers[name].posterior(plan, release)["posterior"].values
figure, axis = plt.subplots()
for name in readers:
    axis.plot(published, posteriors[name], ".-", label=name)
axis.axhline(PRIOR, color="0.8", zorder=0)
axis.set(xticks=range(-8, 13, 2), xlabel="published count", ylabel="P(target in | release)")
axis.set_title("A housemate who is alike doubles the signal")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# "Doubles": the log Bayes factor of a large release is at most 1 (the epsilon) for strangers and 2 for a pair that is
# always alike; our reader is in between.

# %%
log_factors = {name: np.log(p / (1 - p)) - np.log(PRIOR / (1 - PRIOR)) for name, p in posteriors.items()}
largest = {name: float(factor.max()) for name, factor in log_factors.items()}
assert largest["strangers"] <= 1.0 + 1e-9 < largest["housemates"] < largest["always alike"] <= 2.0 + 1e-9
print({name: round(value, 4) for name, value in largest.items()})

# %% [markdown]
# ## A continuous unknown
#
# Now the reader does not believe the agency: the noise may be wider than announced, or narrower. One more line makes
# epsilon a latent, within a factor of four of 1 nineteen times in twenty.

# %%
SPREAD = 0.7


def doubters():
    """As `housemates`, with the scale of the noise unknown."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=PRIOR)
        mate = pm.Bernoulli("mate", p=pm.math.switch(target, ALIKE, APART))
        count = pm.Deterministic("count[block]", target + mate)
        epsilon = pm.LogNormal("epsilon", mu=0.0, sigma=SPREAD)
        models.Geometric("noisy[block]", mu=count, epsilon=epsilon)
    return model


doubting = doubters()
doubt = adv.audit(plan, doubting, truths["both"], records=2, guarantee=promise, draws=60, rng=7, progress=False)
estimate = doubt["estimate"].to_dataset()
risk = doubt["risk"].to_dataset()
print(doubt["estimate"].attrs["method"])
print(f"{estimate.sizes['release']} releases fitted; status {risk['status'].item()}, {risk['unreliable_mass'].item()}")
estimate[["mcse", "r_hat", "ess", "divergences"]].to_dataframe().describe().loc[["min", "50%", "max"]].round(4)

# %% [markdown]
# The discrete latents are summed out, epsilon is sampled by nutpie: one compile, one fit per distinct release, and the
# diagnostics of all of them travel with the result. Had some failed, the averages would be missing and the status
# `unreliable`. With one continuous unknown we can check by quadrature.

# %%
noisy = doubt["release"]["noisy"].values[:, 0]


def doubted(k, count):
    """log P(release | count), the scale of the noise integrated out."""

    def density(z):
        return norm.pdf(z) * np.exp(adv.Geometric(np.exp(SPREAD * z)).log_prob(k, count))

    return np.log(quad(density, -7.0, 7.0, limit=200)[0])


smooth = by_hand(doubted)
fitted = pd.Series(estimate["posterior"].values, index=noisy)
errors = pd.Series(estimate["mcse"].values, index=noisy)
inside = fitted.index.intersection(published)
z = (fitted[inside] - pd.Series(smooth, index=published)[inside]) / errors[inside]
print(f"{len(inside)} releases against quadrature, in standard errors: up to {z.abs().max():.1f}, spread {z.std():.2f}")
assert z.abs().max() < 4.5

# %%
figure, axis = plt.subplots()
axis.plot(published, enumerated, color="0.6", label="believes the announced noise")
axis.plot(published, smooth, color="tab:blue", label="doubts it, by quadrature")
bars = {"fmt": "o", "ms": 3.5, "color": "tab:orange", "label": "doubts it, sampled"}
axis.errorbar(inside, fitted[inside], 2 * errors[inside], **bars)
axis.axhline(PRIOR, color="0.8", zorder=0)
axis.set(xticks=range(-8, 13, 2), xlabel="published count", ylabel="P(target in | release)")
axis.set_title("Who doubts the noise takes extreme releases for wide noise")
axis.legend(frameon=False, fontsize=9)
plt.show()

# %% [markdown]
# A large release no longer convinces: it is evidence that the noise is wide, and the posterior goes back to where it
# started. A release of exactly 2 convinces more than before, because it fits narrow noise well. Here that stays just
# inside the bound. Nothing says it must: this reader is wrong about the noise, the bound is for those who are not, and
# where such a reader goes beyond it the status is `exceeded`.

# %%
lower, upper = doubt["bound"]["posterior"].sel(definition="pure DP").values
at_two = int(np.flatnonzero(published == 2)[0])
print(f"after a 2: {enumerated[at_two]:.3f} for who believes the noise, {smooth[at_two]:.3f} for who doubts it")
print(f"bound for two records: {lower:.3f} to {upper:.3f};", doubt["bound"]["status"].sel(definition="pure DP").item())
assert enumerated[at_two] < smooth[at_two] < upper
assert abs(smooth[-1] - PRIOR) < abs(enumerated[-1] - PRIOR)

# %% [markdown]
# ## One release, with ArviZ
#
# `models.fit` gives the posterior of one release as a DataTree that ArviZ opens.

# %%
seven = models.fit(doubting, {"noisy[block]": 7}, draws=500, tune=300, rng=7, progress=False)
az.summary(seven, var_names=["in", "mate", "epsilon"], round_to=3)

# %%
az.plot_trace_dist(seven, var_names=["epsilon"])
plt.show()

# %%
after = seven["posterior"]["epsilon"].values.ravel()
figure, axis = plt.subplots()
edges = np.linspace(0, 4, 81)
axis.hist(after, bins=edges, density=True, histtype="stepfilled", alpha=0.5, label="after a published 7")
axis.plot(edges[1:], norm.pdf(np.log(edges[1:]) / SPREAD) / (SPREAD * edges[1:]), color="0.4", label="prior")
axis.set(xlabel="epsilon of the noise, as the reader sees it", ylabel="density", xlim=(0, 4))
axis.set_title("A published 7 makes the reader think of wide noise")
axis.legend(frameon=False)
plt.show()
print(f"median of epsilon: 1 before, {np.median(after):.2f} after")
assert np.median(after) < 0.7

# %% [markdown]
# ## Are the posteriors right?
#
# A model may be enumerated faultlessly and still be asked the wrong question; a sampler may have a bug that its own
# diagnostics do not see. Simulation-based calibration looks at that: draw a truth and a release from the model, and see
# where the truth falls in its posterior. Over many simulations that place must be uniform.

# %%
right = models.calibrate(model, simulations=5000, rng=7, progress=False)
print("enumerated:", models.uniformity(right)["overall"].item())
assert models.uniformity(right)["overall"] > 1e-3
az.plot_ecdf_pit(right, var_names=["in", "mate"])
plt.show()

# %% [markdown]
# The lines are differences from a straight one; ArviZ's test finds nothing at its level of 0.01. `uniformity` gives
# p-values for all quantities, corrected for their number; take less than 1e-6 for wrong.
#
# The sampled model takes one fit per simulation, so we do fewer.

# %%
sampled = models.calibrate(doubting, simulations=60, rng=1940, progress=False)
print("engine:", sampled.attrs["engine"], "overall:", models.uniformity(sampled)["overall"].item())
assert models.uniformity(sampled)["overall"] > 1e-3
models.uniformity(sampled)["adjusted"].to_pandas().round(3)

# %% [markdown]
# ### A test that can fail
#
# Two wrong posteriors. The first reader forgets the housemate: a posterior from another model than the one that draws
# the truth. ArviZ marks where the line leaves what chance allows.


# %%
def loner():
    """Nobody but the target is in question."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=PRIOR)
        models.Geometric("noisy[block]", mu=target, epsilon=1.0)
    return model


options = {"variables": ["in"], "simulations": 20_000, "rng": 7, "progress": False}
forgetful = models.calibrate(model, posterior=models.Enumerated.of(loner(), ["in"]), **options)
print("forgets the housemate:", models.uniformity(forgetful)["overall"].item())
assert models.uniformity(forgetful)["overall"] < 1e-6
az.plot_ecdf_pit(forgetful)
plt.show()

# %% [markdown]
# The second is the sampler of the published study (`01_one_person_in_one_block`), whose update of the block's count
# forgets that it cannot exceed the block group's. It runs without any warning. Its stationary law is known exactly:

# %%
levels = [adv.Level("block", adv.DiscreteGaussian.from_rho(0.4), siblings=3)]
levels += [adv.Level("block group", adv.DiscreteGaussian.from_rho(0.6))]
nested, unsure = adv.Plan(levels), adv.Adversary(0.5, beliefs={"block group": adv.Uniform(upper=2)})


def published_chain(observed):
    """What the published sampler says of the target."""
    inside = models.published_gibbs_law(nested, unsure, observed)
    return {"in": (np.array([0, 1]), np.stack([1 - inside, inside], axis=-1))}


stated = models.hierarchical_counts(nested, unsure)
chain = models.calibrate(stated, posterior=published_chain, **options)
proper = models.calibrate(stated, posterior=models.posterior_of(nested, unsure), **options)
verdicts = {name: models.uniformity(one)["overall"].item() for name, one in (("chain", chain), ("exact", proper))}
print(verdicts)
assert verdicts["chain"] < 1e-6
assert verdicts["exact"] > 1e-3

# %% [markdown]
# The place of `in` by itself would hardly have found it, with 20,000 simulations. `calibrate` also looks at the place
# of log p(release | in), which sees the release, and there the fault is plain.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
within = 1.63 / np.sqrt(options["simulations"])
for axis, group, label in zip(axes, ("prior_sbc", "likelihood_sbc"), ("“in”", "log p(release | in)"), strict=True):
    for name, one in (("exact reader", proper), ("published chain", chain)):
        u = np.sort(one[group]["in"].values.ravel())
        axis.plot(u, np.arange(1, u.size + 1) / u.size - u, label=name)
    axis.axhspan(-within, within, color="0.92", zorder=0)
    axis.set(xlabel=f"place of {label} in its posterior")
axes[0].set_ylabel("ECDF minus uniform")
axes[0].legend(frameon=False)
figure.suptitle("The published chain misplaces the likelihood; grey: 99 % of right readers stay inside")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## What is refused
#
# Models that cannot be audited are refused with the reason and the remedy.


# %%
def small(name="noisy[block]", others=None, **kwargs):
    """A target, others if asked, and a release called `name`."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=PRIOR)
        people = target if others is None else target + pm.Poisson("others", others)
        models.Geometric(name, mu=people, epsilon=1.0, **kwargs)
    return model


refused = {
    "release observed": (small(observed=2), {"block": 2, "in": 1}, {}),
    "no such target": (model, {"block": 2, "in": 1}, {"target": "present"}),
    "misspelt level": (small("noisy[blok]"), {"block": 1, "in": 1}, {}),
    "no release": (small("published"), {"block": 1, "in": 1}, {}),
    "truth is silent": (model, {"block": 2}, {}),
    "infinite support": (small(others=2.0), {"block": 2, "in": 1}, {}),
}
for name, (one, truth, more) in refused.items():
    try:
        adv.audit(plan, one, truth, progress=False, **more)
    except ValueError as error:
        print(f"{name}: {error}\n")
    else:
        raise AssertionError(name)

# %% [markdown]
# The last one with its remedy:

# %%
bounded = adv.audit(plan, small(others=2.0), {"block": 2, "in": 1}, support={"others": range(30)}, progress=False)
library = adv.Adversary(PRIOR, beliefs={"block": poisson(2.0)})
built_in = adv.audit(plan, library, {"block": 2, "in": 1}, progress=False)
found = [float(one["risk"]["posterior_mean"]) for one in (bounded, built_in)]
print(f"expected posterior: own model {found[0]:.9f}, the library's reader {found[1]:.9f}")
assert np.isclose(*found, rtol=1e-9)
