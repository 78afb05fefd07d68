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

# %% tags=["hide-input"]
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import adversary as adv
from adversary import models

released = models.noise.released
adv.plot.style()


def housemates():
    """A block: the target and a housemate, who are often alike."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=0.3)
        alike = pm.math.switch(target, np.float64(0.8), np.float64(0.1))
        mate = pm.Bernoulli("mate", p=alike)
        released("noisy", adv.Geometric(epsilon=1.0), target + mate)
    return model


def visits():
    """A clinic over three years: a hidden Markov chain."""
    with pm.Model(coords={"year": [2021, 2022, 2023]}) as model:
        stays = pm.Beta("stays", 4.0, 2.0)
        states = [pm.Bernoulli("ill[2021]", 0.3)]
        for year in (2022, 2023):
            ill = pm.math.switch(states[-1], stays, 0.1)
            states.append(pm.Bernoulli(f"ill[{year}]", ill))
        pm.Deterministic("in", states[-1])
        counts = 2 + pm.math.stack(states)
        released("noisy", adv.DiscreteGaussian(sigma=1.0), counts, dims="year")
    return model


def survey():
    """Ten incomes: their noisy mean and noisy total, with unlike noises."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", 0.5)
        mean = pm.Normal("mean of the others", 5.0, 1.0)
        total = 9.0 * mean + 5.0 + 4.0 * target
        laplace = adv.Laplace.from_epsilon(0.5, sensitivity=0.4)
        gaussian = adv.Gaussian.from_rho(2 / 9, sensitivity=4.0)
        released("noisy mean", laplace, total / 10.0)
        released("noisy total", gaussian, total)
    return model


def households():
    """Take-up of a benefit: shared by twelve households, its level unknown."""
    with pm.Model() as model:
        level = pm.Normal("level", -0.5, 1.0)
        target = pm.Bernoulli("in", pm.math.sigmoid(level))
        others = pm.Binomial("others", 11, pm.math.sigmoid(level))
        released("noisy", adv.DiscreteGaussian.from_rho(0.1), target + others)
    return model


ill = {"ill[2021]": 1, "ill[2022]": 0, "ill[2023]": 1, "in": 1}
earns = {"in": 1, "mean of the others": 5.5}
both = {"released": ["noisy mean", "noisy total"]}
some = {"draws": 300, "rng": 1, "progress": False}
audits = {
    "census block": adv.audit_model(
        housemates(),
        {"in": 1, "mate": 1},
        records=2,
        rng=1,
        guarantee=adv.PureDP(1.0),
    ),
    "hospital visits": adv.audit_model(visits(), ill, **some),
    "survey of incomes": adv.audit_model(
        survey(), earns, guarantee=adv.ApproximateDP(3.5, 1e-3), **both, **some
    ),
    "households": adv.audit_model(
        households(), {"in": 1, "others": 8}, records=12, **some
    ),
}
figure, ax = plt.subplots(figsize=(7.2, 3.9))
rows = {}
for y, (name, tree) in zip((3, 2, 1, 0), audits.items(), strict=True):
    learned = tree["exact" if "exact" in tree.children else "estimate"]
    posterior = learned["posterior"].values
    order = np.argsort(posterior)
    share = np.cumsum(tree["release"]["weight"].values[order])
    low, high = (
        posterior[order][np.searchsorted(share, q)] for q in (0.05, 0.95)
    )
    risk = tree["risk"].to_dataset()
    own = tree["bound"].to_dataset().sel(definition="privacy loss")
    before, after = float(risk["prior"]), float(risk["posterior_mean"])
    most = float(own["posterior"].sel(side="upper"))
    rows[name] = (before, after, most)
    ax.plot(
        [low, high],
        [y, y],
        color="C0",
        lw=12,
        alpha=0.22,
        solid_capstyle="butt",
    )
    ax.plot(after, y, "o", color="C0")
    ax.plot([before, before], [y - 0.2, y + 0.2], color="#1F2933", lw=1.4)
    ax.plot(
        [most, most],
        [y - 0.2, y + 0.2],
        color="#1F2933",
        lw=1.4,
        ls=(0, (3, 2)),
    )
    if y == 3:
        above = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
        ax.annotate("before", (before, y + 0.2), (0, 2), **above)
        ax.annotate("average", (after, y), (0, 8), color="C0", **above)
        ax.annotate("bound", (most, y + 0.2), (8, 2), **above)
ax.set_yticks((3, 2, 1, 0), audits)
ax.set(xlim=(0, 1.02), ylim=(-0.5, 3.7))
ax.set_xlabel(
    "probability of what the target keeps secret; band: 9 of 10 releases"
)
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
adv.plot.in_percent(ax.xaxis)
adv.plot.headline(
    ax,
    "Knowing that housemates are alike takes an adversary from 30% to 58%",
    "Four PyMC models, each audited in one line, on one axis",
    shape="Four rows of intervals with the probability before, after and its "
    "bound.",
)
plt.show()

# %% [markdown]
# **In short.** An adversary is a PyMC model whose release is left free. If the library does not have the one you fear,
# write the model; `audit_model` draws releases under a truth that you name, computes what each says about the target,
# averages, and puts the bounds beside it:
#
# - Someone who knows that housemates are often alike goes from 30% to 58% on average after one noisy count of a block;
#   two records stand behind the secret, and their guarantee allows 76.1%.
# - Claim that one record is all there is, and the audit says `exceeded`: 83% of releases pass the bound of one record.
# - Where a fit cannot be trusted the answer is `unreliable` and the average missing; mistakes in a model are refused
#   with their remedy.

# %% [markdown]
# ## A census block
#
# A block's count of people with some trait is published. The target lives with a housemate, and people who live
# together often share the trait: none of the library's beliefs says this. `models.noise.released` makes the release, so
# that the audit knows its mechanism. Two people's records differ between the two hypotheses (`records`): no model says
# that by itself.

# %%
import numpy as np
import pymc as pm

import adversary as adv
from adversary import models


def housemates():
    """The target has the trait or not; the housemate, depending on that."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=0.3)
        alike = pm.math.switch(target, np.float64(0.8), np.float64(0.1))
        mate = pm.Bernoulli("mate", p=alike)
        noise = adv.Geometric(epsilon=1.0)
        models.noise.released("noisy", noise, target + mate)
    return model


block, guarantee = housemates(), adv.PureDP(1.0)
truth = {"in": 1, "mate": 1}
tree = adv.audit_model(block, truth, records=2, guarantee=guarantee, rng=1)
risk = tree["risk"].to_dataset()
print(
    f"before {risk['prior']:.0%}, after {risk['posterior_mean']:.0%} on average"
)
print(f"the best guess is right in {risk['prob_correct']:.0%} of releases")
tree["bound"].to_dataset()[["k", "loss_bound", "outside", "status"]].to_pandas()

# %% tags=["remove-cell"]
noisy = tree["release"]["noisy"].values
none, one, two = (
    np.exp(adv.Geometric(1.0).log_prob(noisy, n)) for n in range(3)
)
present = 0.3 * (0.2 * one + 0.8 * two)
exact = present / (present + 0.7 * (0.9 * none + 0.1 * one))
assert np.allclose(tree["exact"]["posterior"], exact, atol=1e-12)
assert [round(one, 2) for one in rows["census block"][:2]] == [0.3, 0.58]
assert np.ceil(1000 * rows["census block"][2]) == 761

# %% [markdown]
# All latents are discrete and few, so their states are enumerated: posteriors are exact, and only the average over
# simulated releases has an error.
#
# The audit claims two records. What if we claim that one is all that this adversary's hypotheses differ in?

# %%
claimed = adv.audit_model(block, truth, records=1, guarantee=guarantee, rng=1)
claimed = claimed["bound"].to_dataset()
claimed[["k", "loss_bound", "outside", "status"]].to_pandas().round(2)

# %% tags=["remove-cell"]
assert claimed["status"].sel(definition="pure DP") == "exceeded"
assert round(float(claimed["outside"].sel(definition="pure DP")), 2) == 0.83

# %% [markdown]
# `exceeded`, not `violated`: the mechanism keeps its guarantee. The claim was wrong. A release about two people who are
# alike speaks of one through the other, and a guarantee for one record does not cover that.
#
# ## Three more fields
#
# The other rows of the figure; their models are in the folded cell on top.
#
# - **Hospital visits.** A clinic publishes how many patients had a condition in each of three years. Everybody else's
#   condition is known; the target's comes and goes, and how long it stays is not known. The released variable is a
#   vector over years, and one person can be counted in each of them: the losses are composed. The persistence is
#   continuous: its draws from the prior are weighed by every release, the states summed out exactly for each draw.
# - **A survey's mean and total.** Ten incomes, published as a noisy mean and a noisy total, with Laplace and Gaussian
#   noise. The target is known to earn 9 or 5 (in thousands). One record moves the total by up to 4 and the mean by up
#   to 0.4; the noise is calibrated for that (`sensitivity`).
# - **Households.** A region publishes how many of twelve households received a benefit. Take-up varies between regions,
#   so that the others' take-up says something about the target's. All twelve records differ between the two hypotheses,
#   and the bound is that for twelve: it allows nearly everything.

# %% tags=["remove-cell"]
from scipy.special import expit
from scipy.stats import binom, laplace, norm

for tree in audits.values():
    assert tree["bound"]["status"].sel(definition="privacy loss") == "holds"
assert float(audits["hospital visits"]["estimate"]["k_hat"].max()) < 0.7
tree, x = audits["survey of incomes"], np.linspace(0.0, 10.0, 4001)
totals = [9.0 * x + 5.0 + 4.0 * target for target in (1, 0)]
seen = [tree["release"][name].values[:, None] for name in both["released"]]
parts = [
    (
        laplace.pdf(seen[0], t / 10.0, 0.8)
        * norm.pdf(seen[1], t, 6.0)
        * norm.pdf(x, 5.0, 1.0)
    ).sum(axis=1)
    for t in totals
]
estimate = tree["estimate"].to_dataset()
z = (
    estimate["posterior"].values - parts[0] / (parts[0] + parts[1])
) / estimate["mcse"].values
assert np.abs(z).max() < 4.5
tree, x, k = (
    audits["households"],
    np.linspace(-8.0, 7.0, 3001)[:, None],
    np.arange(12),
)
others = binom.pmf(k, 11, expit(x)) * norm.pdf(x, -0.5, 1.0)
noise, seen = (
    adv.DiscreteGaussian.from_rho(0.1),
    tree["release"]["noisy"].values,
)
parts = [
    np.exp(noise.log_prob(seen[:, None], k + i)) @ (others * p).sum(axis=0)
    for i, p in ((1, expit(x)), (0, expit(-x)))
]
estimate = tree["estimate"].to_dataset()
z = (
    estimate["posterior"].values - parts[0] / (parts[0] + parts[1])
) / estimate["mcse"].values
assert np.abs(z).max() < 4.5

# %% [markdown]
# Each posterior of the last two was checked by quadrature: they agree within their standard errors.
#
# ## What the truth leaves open
#
# A truth must say whether the target is in. Of the other latents it names as many as you like; those it leaves open are
# drawn from their distribution *given what it says*, side data observed in the model included.

# %%
clinic = visits()  # from the folded cell
known = adv.audit_model(clinic, {"in": 1}, draws=300, rng=2, progress=False)
release = known["release"].to_dataset()
early = (release["weight"] * (release["noisy"].sel(year=2021) - 2)).sum()
print(f"target ill in 2021: {early:.0%} where ill in 2023, 30% in general")

# %% tags=["remove-cell"]
assert early > 0.35

# %% [markdown]
# ## One release, with ArviZ
#
# `models.fit` gives the posterior of one release as a DataTree that ArviZ opens.

# %%
import arviz as az

seen = models.fit(clinic, {"noisy": [3, 2, 3]}, rng=7, progress=False)
names = ["ill[2021]", "ill[2022]", "ill[2023]", "stays"]
columns = ["mean", "sd", "mcse_mean", "ess_bulk", "r_hat"]
az.summary(seen, var_names=names, round_to=2)[columns]

# %% [markdown]
# ## No number rather than a wrong one
#
# This adversary is all but sure where the count lies, and the release is somewhere else. One draw of the prior in a
# hundred million would explain it, and no draw does. Such a release is called `unreliable`; averages are then missing,
# and bounds are given in which its posterior is anything between 0 and 1.


# %%
def certain():
    """Two places, one of which is next to impossible."""
    with pm.Model() as model:
        weights, places = np.array([1 - 1e-8, 1e-8]), np.array([0.0, 900.0])
        place = pm.NormalMixture("place", weights, places, sigma=1.0)
        target = pm.Bernoulli("in", pm.math.sigmoid(place))
        models.noise.released("noisy", adv.Gaussian(sigma=5.0), place + target)
    return model


def elsewhere(rng, size):
    """Releases of one's own making: one in ten from the other place."""
    place = np.where(np.arange(size) % 10 == 0, 900.0, 0.0)
    return {"noisy": place + rng.normal(0, 5, size)}


trap = adv.audit_model(
    certain(),
    {"in": 1},
    simulate=elsewhere,
    draws=50,
    rng=1,
    progress=False,
)
risk = trap["risk"].to_dataset()
print(risk["status"].item(), "-", trap["risk"].attrs["reason"])
print(f"average posterior: {risk['posterior_mean']:.2f}, between")
risk[["lower", "upper"]].sel(measure="posterior_mean").to_pandas().round(2)

# %% [markdown]
# Models that cannot be audited are refused with the reason and the remedy:

# %%
mistakes = {
    "truth is silent": (block, {"mate": 1}, {}),
    "no such latent": (block, {"in": 1, "maet": 1}, {}),
    "no such release": (block, {"in": 1}, {"released": ["nosy"]}),
    "another dimension": (clinic, {"in": 1, "stays": [0.5, 0.5]}, {}),
}
for name, (model, truth, more) in mistakes.items():
    try:
        adv.audit_model(model, truth, draws=10, **more)
    except ValueError as error:
        print(f"{name}: {error}\n")

# %% tags=["remove-cell"]
assert np.isnan(risk["posterior_mean"])
for model, truth, more in mistakes.values():
    try:
        adv.audit_model(model, truth, draws=10, **more)
    except ValueError:
        continue
    raise AssertionError(truth)

# %% [markdown]
# ## Are the posteriors right?
#
# A model may be enumerated faultlessly and still be asked the wrong question. Simulation-based calibration looks at
# that: draw a truth and a release from the model, and see where the truth falls in its posterior. Over many simulations
# that place must be uniform. `uniformity` gives p-values, corrected for the number of quantities; take less than 1e-6
# for wrong.


# %%
def loner():
    """Nobody but the target is in question: the housemate is forgotten."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=0.3)
        models.noise.released("noisy", adv.Geometric(epsilon=1.0), target)
    return model


right = models.calibrate(block, simulations=5000, rng=7, progress=False)
wrong = models.calibrate(
    block,
    posterior=models.Enumerated.of(loner(), ["in"]),
    variables=["in"],
    simulations=20_000,
    rng=7,
    progress=False,
)
p_right, p_wrong = (
    float(models.uniformity(one)["overall"]) for one in (right, wrong)
)
print(f"the model itself: p = {p_right:.2f}")
print(
    f"forgets the housemate: p {'below 1e-12' if p_wrong < 1e-12 else p_wrong}"
)

# %% tags=["remove-cell"]
assert p_right > 1e-3
assert p_wrong < 1e-6

# %% [markdown]
# ## Beside a plan
#
# Where the releases are those of a `Plan`, `audit` takes the model in the place of an `Adversary`, beside others: its
# released variables are then called as the plan's, `noisy[level]` or plain `noisy`.

# %%
plan = adv.Plan([adv.Level("block", adv.Geometric(epsilon=1.0))])
alike = 0.3 * 0.8 + 0.7 * 0.1
adversaries = {
    "strangers": adv.Adversary(0.3, beliefs={"block": [1 - alike, alike]}),
    "housemates": block,
    "always alike": adv.Adversary(0.3, hypotheses=(0, 2)),
}
truths = {"both": {"block": 2, "in": 1}, "nobody": {"block": 0, "in": 0}}
compared = adv.audit(plan, adversaries, truths, records=2, progress=False)
means = compared["risk"]["posterior_mean"]
means.to_pandas().round(2)

# %% tags=["remove-cell"]
assert means.sel(truth="both").values.argsort().tolist() == [0, 1, 2]
assert means.sel(truth="nobody").values.argsort().tolist() == [2, 1, 0]

# %% [markdown]
# ## What this does not say
#
# Whether your model is the adversary you should fear. [Adversaries from the
# literature](adversaries_from_the_literature.ipynb) has six that others have used, as models to start from.
