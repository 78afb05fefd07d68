"""Audited models of regression and of machine learning: coefficients, scores, clusters, membership in training data."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.stats as st
from scipy.special import expit, ndtr

import adversary as adv
from adversary.models.noise import released as R

from .audited import (
    Audited,
    Floats,
    by_nodes,
    discrete_gaussian,
    gaussian,
    geometric,
    interval,
    laplace,
    of_density,
    product,
    seen,
    standard_normal,
)

RHO = 0.2
DG = adv.DiscreteGaussian.from_rho(RHO)
G1 = adv.Geometric(1.0)


def added_up(p: Floats) -> Floats:
    """Law (node, count) of a number of successes with chances (node, trial)."""
    law = np.ones((len(p), 1))
    for own in p.T[..., None]:
        law = np.pad(law, ((0, 0), (0, 1))) * (1 - own) + np.pad(law, ((0, 0), (1, 0))) * own
    return law


def _logistic(rows: int) -> Audited:
    rng = np.random.default_rng(rows)
    x = rng.normal(size=rows)
    y = rng.binomial(1, expit(0.8 * x - 1))
    area, own = np.linspace(-1.5, 1.5, 6), 1.2
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.5), pm.Normal("b", 0.0, 1.5)
        pm.Bernoulli("survey", logit_p=a + b * x, observed=y)
        people = pm.Bernoulli("people", logit_p=a + b * area, shape=6)
        R("noisy", G1, people.sum() + pm.Bernoulli("in", logit_p=a + b * own))
    reach = 12 / np.sqrt(rows)
    (a, b), weight = product(interval(-1 - reach, -1 + reach, 50), interval(0.8 - reach, 0.8 + reach, 50))
    eta = a[:, None] + b[:, None] * x
    log_p = st.norm.logpdf(a, 0, 1.5) + st.norm.logpdf(b, 0, 1.5) + (y * eta - np.logaddexp(0, eta)).sum(axis=1)
    weight = weight * np.exp(log_p - log_p.max())
    weight /= weight.sum()
    chance, law = expit(a + b * own), added_up(expit(a[:, None] + b[:, None] * area))
    noise = geometric(1.0)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def logistic_regression() -> Audited:
    """A logistic regression on 60 rows, and six people whose answers are added up."""
    return _logistic(60)


def logistic_regression_of_many() -> Audited:
    """The same on 2,000 rows."""
    return _logistic(2000)


def linear_score() -> Audited:
    """A regression line of 20 rows; the target's response is above a limit."""
    rng = np.random.default_rng(20)
    x = rng.normal(size=20)
    y = 1 + 0.5 * x + rng.normal(size=20)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0)
        pm.Normal("rows", a + b * x, 1.0, observed=y)
        own = pm.Normal("own", a + 1.5 * b, 1.0)
        pm.Deterministic("in", (own > 2.0).astype("int64"))
        R("noisy", adv.Gaussian(1.0), own + 1.0)
    design = np.stack([np.ones(20), x], axis=1)
    cov = np.linalg.inv(design.T @ design + np.eye(2) / 4)
    own = np.array([1.0, 1.5])
    mean, sd = float(own @ cov @ design.T @ y), float(np.sqrt(own @ cov @ own + 1.0))

    def masses(data):  # type: ignore[no-untyped-def]
        seen_one = data["noisy"] - 1.0
        total = st.norm.pdf(seen_one, mean, np.hypot(sd, 1.0))
        centre = (mean + sd**2 * seen_one) / (1 + sd**2)
        above = ndtr((centre - 2.0) / (sd / np.sqrt(1 + sd**2)))
        return np.stack([total * (1 - above), total * above])

    return Audited(model, ("noisy",), masses, float(ndtr((mean - 2.0) / sd)))


def member_of_a_mean() -> Audited:
    """Whether a known vector is among those whose mean is released; the others come from a known population."""
    record = np.array([1.0, -0.5, 0.8])
    with pm.Model() as model:
        others = pm.Normal("others", 0.0, 0.5, shape=3)
        R("noisy", adv.Gaussian(0.4), (others + pm.Bernoulli("in", 0.5) * record))
    noise = gaussian(float(np.hypot(0.4, 0.5)))

    def parts(data, t):  # type: ignore[no-untyped-def]
        return noise(data["noisy"] - t * record).prod(axis=1)[None]

    return Audited(model, ("noisy",), by_nodes(np.ones(1), np.array([0.5]), parts), 0.5)


def clipped_gradient() -> Audited:
    """A noisy sum of clipped gradients, of whose batch the target may be a member."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        others = pm.Normal("others", 0.0, 1.0)
        own = 0.7
        total = pt.clip(scale * others, -1.0, 1.0) + own * pm.Bernoulli("in", 0.25)
        R("noisy", adv.Laplace(0.5), total)
    s, ws = of_density(interval(0, 6, 200), st.halfnorm.pdf)
    z, wz = standard_normal(400)
    value, weight = np.clip(s[:, None] * z, -1, 1).ravel(), np.outer(ws, wz).ravel()
    grid = np.linspace(-1, 1, 4001)  # the law of the clipped value, binned on a fine grid
    place = (value + 1) / 2 * 4000
    low = np.minimum(place.astype(int), 3999)
    law = np.bincount(low, weight * (1 - place + low), 4001) + np.bincount(low + 1, weight * (place - low), 4001)
    noise = laplace(0.5)
    masses = by_nodes(law, np.full(4001, 0.25), lambda data, t: noise(data["noisy"][None] - grid[:, None] - own * t))
    return Audited(model, ("noisy",), masses, 0.25)


def naive_bayes() -> Audited:
    """Features of the target speak for a class; the number of members of each class is released."""
    like = np.array([0.6 * 0.3, 0.2 * 0.5, 0.3 * 0.9])
    with pm.Model(coords={"class": list("abc")}) as model:
        share = pm.Dirichlet("share", np.array([2.0, 2.0, 2.0]), dims="class")
        own = pm.Categorical("class_of_target", share)
        features = pm.math.log(pt.constant(like))[own]
        pm.Potential("features", features)
        others = pm.Multinomial("others", 5, share, dims="class")
        pm.Deterministic("in", pm.math.eq(own, 0).astype("int64"))
        R("noisy", G1, pt.inc_subtensor(others[own], 1), dims="class")
    rows = np.array([c for c in itertools.product(range(6), repeat=3) if sum(c) == 5])
    weight, counts, target = [], [], []
    for r in range(3):  # of 5 others under Dirichlet(2, 2, 2), then the target given these
        chance = st.dirichlet_multinomial([2.0, 2.0, 2.0], 5).pmf(rows) * (2 + rows[:, r]) / 11
        weight.append(chance * like[r])
        counts.append(rows + np.eye(3, dtype=int)[r])
        target.append(np.full(len(rows), int(r == 0)))
    every, chance, noise = np.concatenate(counts), np.concatenate(weight), geometric(1.0)
    chance /= chance.sum()
    inside = np.concatenate(target) == 1

    def masses(data):  # type: ignore[no-untyped-def]
        found = noise(data["noisy"][None] - every[:, None]).prod(axis=-1)
        return np.stack([chance[~inside] @ found[~inside], chance[inside] @ found[inside]])

    return Audited(model, ("noisy",), masses, float(like[0] / like.sum()))


def cluster() -> Audited:
    """A feature of the target speaks for one of two clusters, whose centres are unknown; cluster sizes are released."""
    with pm.Model() as model:
        centre = pm.Normal("centre", np.array([-1.0, 1.0]), 0.6, shape=2)
        own = pm.Bernoulli("in", 0.5)
        pm.Normal("feature", centre[own], 0.8, observed=0.4)
        share = pm.Beta("share", 3, 3)
        R("noisy", DG, pm.Binomial("others", 8, share) + own)
    chance = st.norm.pdf(0.4, np.array([-1.0, 1.0]), 1.0)
    prior = float(chance[1] / chance.sum())
    share, weight = of_density(interval(0, 1, 60), st.beta(3, 3).pdf)
    law, noise = weight @ st.binom.pmf(np.arange(9), 8, share[:, None]), discrete_gaussian(RHO)
    masses = by_nodes(np.ones(1), np.array([prior]), lambda data, t: seen(noise, data["noisy"] - t, law[None]))
    return Audited(model, ("noisy",), masses, prior)


def robust_regression() -> Audited:
    """A line with heavy tails; the target's chance is a function of it."""
    rng = np.random.default_rng(7)
    x = np.linspace(-1, 1, 15)
    y = 0.5 + x + 0.5 * rng.standard_t(3, 15)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.StudentT("rows", nu=3, mu=a + b * x, sigma=0.5, observed=y)
        target = pm.Bernoulli("in", pm.math.sigmoid(a + b))
        R("noisy", G1, pm.Binomial("others", 7, pm.math.sigmoid(a - b)) + target)
    (a, b), weight = product(interval(-2, 3, 70), interval(-2, 4, 70))
    log_p = st.norm.logpdf(a) + st.norm.logpdf(b)
    log_p = log_p + st.t.logpdf((y - a[:, None] - b[:, None] * x) / 0.5, 3).sum(axis=1)
    weight = weight * np.exp(log_p - log_p.max())
    weight /= weight.sum()
    law, noise, chance = st.binom.pmf(np.arange(8), 7, expit(a - b)[:, None]), geometric(1.0), expit(a + b)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def horseshoe() -> Audited:
    """Two areas with effects that are nearly none, or large."""
    with pm.Model() as model:
        size = pm.HalfStudentT("size", nu=3, sigma=0.5, shape=2)
        z = pm.Normal("z", 0.0, 1.0, shape=2)
        rate = pm.math.exp(pt.clip(0.5 + z * size, -8.0, 2.5))
        target = pm.Bernoulli("in", 1 - pm.math.exp(-rate[0] / 5))
        R("noisy", DG, pt.inc_subtensor(pm.Poisson("others", rate, shape=2)[0], target))
    u, wu = interval(-14, 9, 250)
    wu = wu * np.exp(u) * 2 * st.t.pdf(np.exp(u) / 0.5, 3) / 0.5
    z, wz = standard_normal(150)
    x, weight = np.clip(0.5 + np.exp(u)[:, None] * z, -8, 2.5).ravel(), np.outer(wu, wz).ravel()
    grid = np.linspace(-8, 2.5, 3001)
    place = (x + 8) / 10.5 * 3000
    low = np.minimum(place.astype(int), 2999)
    weight = np.bincount(low, weight * (1 - place + low), 3001) + np.bincount(low + 1, weight * (place - low), 3001)
    weight /= weight.sum()
    rate = np.exp(grid)
    law, noise, chance = st.poisson.pmf(np.arange(60), rate[:, None]), discrete_gaussian(RHO), 1 - np.exp(-rate / 5)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"][:, 0] - t, law))

    def both(data):  # type: ignore[no-untyped-def]
        return masses(data) * (weight @ seen(noise, data["noisy"][:, 1], law))

    return Audited(model, ("noisy",), both, float(weight @ chance))


def smooth_rates() -> Audited:
    """Chances along a line that vary smoothly, three places of which are counted."""
    place = np.arange(3.0)[:, None]
    cov = 0.64 * np.exp(-0.5 * (place - place.T) ** 2 / 1.5**2) + 1e-6 * np.eye(3)
    n = np.array([12, 9, 10])
    with pm.Model(coords={"place": list("abc")}) as model:
        f = pm.MvNormal("f", np.full(3, -1.0), cov, dims="place")
        p = pm.math.sigmoid(f)
        target = pm.Bernoulli("in", p[0])
        R("noisy", DG, pt.inc_subtensor(pm.Binomial("others", n, p, dims="place")[0], target), dims="place")
    z, w = standard_normal(28)
    parts_z, weight = product((z, w), (z, w), (z, w))
    p = expit(-1 + np.stack(parts_z, axis=1) @ np.linalg.cholesky(cov).T)
    noise = discrete_gaussian(RHO)
    laws = [st.binom.pmf(np.arange(m + 1), m, p[:, j][:, None]) for j, m in enumerate(n)]

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return seen(noise, y[:, 0] - t, laws[0]) * seen(noise, y[:, 1], laws[1]) * seen(noise, y[:, 2], laws[2])

    return Audited(model, ("noisy",), by_nodes(weight, p[:, 0], parts), float(weight @ p[:, 0]))


def utility() -> Audited:
    """The target chooses what is worth more to them; others choose with chances that follow a common slope."""
    price = np.array([-1.0, 0.0, 1.0])
    with pm.Model() as model:
        slope = pm.Normal("slope", 1.0, 0.5)
        own = pm.Normal("own", slope, 1.0)
        pm.Deterministic("in", (own > 0).astype("int64"))
        buyers = pm.Binomial("buyers", 5, pm.math.invprobit(slope * price), shape=3)
        R("noisy", adv.Laplace(1.5), pt.inc_subtensor(buyers[2], (own > 0).astype("int64")))
    z, weight = standard_normal(60)
    slope = 1 + 0.5 * z
    laws = [st.binom.pmf(np.arange(6), 5, ndtr(slope * c)[:, None]) for c in price]
    noise, chance = laplace(1.5), ndtr(slope)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return seen(noise, y[:, 0], laws[0]) * seen(noise, y[:, 1], laws[1]) * seen(noise, y[:, 2] - t, laws[2])

    return Audited(model, ("noisy",), by_nodes(weight, chance, parts), float(weight @ chance))


def counts_with_an_offset() -> Audited:
    """A Poisson regression with exposures, 40 counts of which are public."""
    rng = np.random.default_rng(40)
    exposure, x = rng.uniform(0.5, 2, 40), rng.normal(size=40)
    y = rng.poisson(exposure * np.exp(0.3 + 0.4 * x))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Poisson("public", exposure * pm.math.exp(a + b * x), observed=y)
        rate = pm.math.exp(a + b * np.array([1.0, 0.0]))
        target = pm.Bernoulli("in", 1 - pm.math.exp(-rate[0]))
        R("noisy", DG, pt.inc_subtensor(pm.Poisson("others", 2 * rate, shape=2)[0], target))
    (a, b), weight = product(interval(-0.8, 1.2, 60), interval(-0.5, 1.3, 60))
    eta = a[:, None] + b[:, None] * x
    log_p = st.norm.logpdf(a) + st.norm.logpdf(b) + (y * eta - exposure * np.exp(eta)).sum(axis=1)
    weight = weight * np.exp(log_p - log_p.max())
    weight /= weight.sum()
    k, noise, chance = np.arange(90), discrete_gaussian(RHO), 1 - np.exp(-np.exp(a + b))
    laws = [st.poisson.pmf(k, 2 * np.exp(eta_one)[:, None]) for eta_one in (a + b, a)]
    masses = by_nodes(
        weight,
        chance,
        lambda data, t: seen(noise, data["noisy"][:, 0] - t, laws[0]) * seen(noise, data["noisy"][:, 1], laws[1]),
    )
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def attention() -> Audited:
    """Scores of three classes by softmax; the target's class is one of them."""
    with pm.Model(coords={"class": list("abc")}) as model:
        score = pm.Normal("score", 0.0, 1.0, shape=2)
        p = pm.math.softmax(pt.concatenate([score, [0.0]]))
        own = pm.Categorical("own", p)
        others = pm.Multinomial("others", 6, p, dims="class")
        pm.Deterministic("in", pm.math.eq(own, 2).astype("int64"))
        R("noisy", G1, pt.inc_subtensor(others[own], 1), dims="class")
    z, w = standard_normal(50)
    (u, v), weight = product((z, w), (z, w))
    p = np.exp(np.stack([u, v, np.zeros_like(u)], axis=1))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.array([c for c in itertools.product(range(7), repeat=3) if sum(c) == 6])
    law = np.exp(np.log(p) @ rows.T) * st.multinomial(6, [1 / 3] * 3).pmf(rows) * 3.0**6
    chance = np.concatenate([(weight * p[:, r]) @ law for r in range(3)])
    every = np.concatenate([rows + np.eye(3, dtype=int)[r] for r in range(3)])
    inside, noise = np.repeat([False, False, True], len(rows)), geometric(1.0)

    def masses(data):  # type: ignore[no-untyped-def]
        found = noise(data["noisy"][None] - every[:, None]).prod(axis=-1)
        return np.stack([chance[~inside] @ found[~inside], chance[inside] @ found[inside]])

    return Audited(model, ("noisy",), masses, float(weight @ p[:, 2]))


def report_noisy_max() -> Audited:
    """The winner of a vote with Gumbel noise is released: the exponential mechanism, as a law of one's own."""

    def logp(value, votes):  # type: ignore[no-untyped-def]
        return pt.special.log_softmax(votes)[value]

    def random(votes, rng=None, size=None):  # type: ignore[no-untyped-def]
        votes = np.asarray(votes)
        shape = votes.shape if size is None else (*np.atleast_1d(size), votes.shape[-1])
        return (votes + rng.gumbel(size=shape)).argmax(axis=-1).astype("int64")

    with pm.Model() as model:
        support = pm.Beta("support", 2, 2)
        yes = pm.Binomial("yes", 6, support)
        target = pm.Bernoulli("in", support)
        votes = pt.stack([yes + target, 7 - yes - target]).astype("float64") / 2
        pm.CustomDist("noisy", votes, logp=logp, random=random, dtype="int64", signature="(k)->()", class_name="Winner")
    yes = st.betabinom.pmf(np.arange(7), 6, 2, 2)
    chance = (2 + np.arange(7)) / 10

    def parts(data, t):  # type: ignore[no-untyped-def]
        k = np.arange(7)
        first = expit((k + t) / 2 - (7 - k - t) / 2)[:, None]
        return np.where(data["noisy"][None] == 0, first, 1 - first)

    return Audited(model, ("noisy",), by_nodes(yes, chance, parts), 0.5)


LEARNING = {
    "a logistic regression": logistic_regression,
    "a logistic regression on 2,000 rows": logistic_regression_of_many,
    "a linear score": linear_score,
    "a member of a mean": member_of_a_mean,
    "a clipped gradient": clipped_gradient,
    "naive Bayes": naive_bayes,
    "a cluster": cluster,
    "a robust regression": robust_regression,
    "a horseshoe": horseshoe,
    "rates along a line": smooth_rates,
    "a choice": utility,
    "counts with an offset": counts_with_an_offset,
    "a softmax": attention,
    "the winner of a vote": report_noisy_max,
}
"""Models by name."""
