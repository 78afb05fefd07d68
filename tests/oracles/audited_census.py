"""Audited models of the census: counts in blocks and block groups, households, records in tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.stats as st
from scipy.special import expit, gammaln

import adversary as adv
from adversary.models.noise import released as R

from .audited import (
    Audited,
    by_nodes,
    by_states,
    cells,
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
K = np.arange(60)


def unknown_rate() -> Audited:
    """A block whose rate is unknown."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        R("noisy", DG, pm.Poisson("others", rate) + pm.Bernoulli("in", 0.3))
    rate, weight = of_density(interval(0, 25), st.gamma(3).pdf)
    law, noise = st.poisson.pmf(K, rate[:, None]), discrete_gaussian(RHO)
    parts = by_nodes(weight, np.full(rate.size, 0.3), lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), parts, 0.3)


def blocks_of_one_rate() -> Audited:
    """Three blocks of one rate; the target is in the first with a chance that rises with it."""
    with pm.Model(coords={"block": [1, 2, 3]}) as model:
        rate = pm.Gamma("rate", 4.0, 2.0)
        others = pm.Poisson("others", rate, dims="block")
        target = pm.Bernoulli("in", 1 - pm.math.exp(-rate / 4))
        R("noisy", DG, pt.inc_subtensor(others[0], target), dims="block")
    rate, weight = of_density(interval(0, 15), st.gamma(4, scale=0.5).pdf)
    law, noise, chance = st.poisson.pmf(K, rate[:, None]), discrete_gaussian(RHO), 1 - np.exp(-rate / 4)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return seen(noise, y[:, 0] - t, law) * seen(noise, y[:, 1], law) * seen(noise, y[:, 2], law)

    return Audited(model, ("noisy",), by_nodes(weight, chance, parts), float(weight @ chance))


def block_and_group() -> Audited:
    """A block and the block group that it is in, both released, of one unknown rate."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.5)
        a, b = pm.Poisson("block", rate), pm.Poisson("rest", 2 * rate)
        target = pm.Bernoulli("in", 0.4)
        R("noisy", adv.Geometric(1.0), pt.stack([a + target, a + b + target]))
    rate, weight = of_density(interval(0, 14, 60), st.gamma(3, scale=1 / 1.5).pdf)
    k, noise = np.arange(45), geometric(1.0)
    joint = weight @ (st.poisson.pmf(k, rate[:, None])[:, :, None] * st.poisson.pmf(k, 2 * rate[:, None])[:, None]
                      ).reshape(rate.size, -1)  # fmt: skip
    a, b = (one.ravel() for one in np.meshgrid(k, k, indexing="ij"))

    def density(data):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return np.concatenate([cells(noise, y, np.stack([a + t, a + b + t], axis=1)) for t in (0, 1)])

    chance, target = np.concatenate([0.6 * joint, 0.4 * joint]), np.repeat([0, 1], a.size)
    return Audited(model, ("noisy",), by_states(chance, target, density), 0.4)


def record_in_block_groups() -> Audited:
    """A record of one of three races, in two blocks whose shares are unknown."""
    n, alpha = (3, 4), np.array([2.0, 1.5, 1.0])
    with pm.Model(coords={"block": [1, 2], "race": list("xyz")}) as model:
        share = pm.Dirichlet("share", alpha, dims="race")
        record = pm.Categorical("record", p=share)
        others = pm.Multinomial("others", n=np.array(n), p=share, dims=("block", "race"))
        pm.Deterministic("in", pm.math.eq(record, 0).astype("int64"))
        R("noisy", adv.Geometric(0.7), pt.inc_subtensor(others[0, record], 1), dims=("block", "race"))
    rows = [np.array([c for c in itertools.product(range(m + 1), repeat=3) if sum(c) == m]) for m in n]
    chance, target, counts = [], [], []
    for first, second, record in itertools.product(*rows, range(3)):
        total = first + second + np.eye(3, dtype=int)[record]
        log_p = sum(gammaln(sum(c) + 1) - gammaln(c + 1).sum() for c in (first, second))
        log_p += gammaln(alpha.sum()) - gammaln(alpha.sum() + total.sum())
        log_p += (gammaln(alpha + total) - gammaln(alpha)).sum()
        chance.append(math.exp(log_p))
        target.append(int(record == 0))
        counts.append(np.concatenate([first + np.eye(3, dtype=int)[record], second]))
    every, noise = np.array(counts), geometric(0.7)
    masses = by_states(chance, target, lambda data: cells(noise, data["noisy"].reshape(-1, 6), every))
    return Audited(model, ("noisy",), masses, float(alpha[0] / alpha.sum()))


def zero_inflated_households() -> Audited:
    """Households that may be none for a reason of their own."""
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 3, 2), pm.Gamma("mu", 4, 2)
        others = pm.ZeroInflatedPoisson("households", psi, mu, shape=2)
        target = pm.Bernoulli("in", psi * (1 - pm.math.exp(-mu)))
        R("noisy", adv.Geometric(1.0), pt.inc_subtensor(others[0], target))
    (psi, mu), weight = product(
        of_density(interval(0, 1, 40), st.beta(3, 2).pdf), of_density(interval(0, 12, 50), st.gamma(4, scale=0.5).pdf)
    )
    law = psi[:, None] * st.poisson.pmf(K, mu[:, None])
    law[:, 0] += 1 - psi
    chance, noise = psi * (1 - np.exp(-mu)), geometric(1.0)
    masses = by_nodes(
        weight,
        chance,
        lambda data, t: seen(noise, data["noisy"][:, 0] - t, law) * seen(noise, data["noisy"][:, 1], law),
    )
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def unknown_overdispersion() -> Audited:
    """Counts more spread than Poisson's, by how much nobody knows."""
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 3.0, 1.0)
        others = pm.NegativeBinomial("others", mu=4.0, alpha=alpha, shape=2)
        R("noisy", DG, pt.inc_subtensor(others[0], pm.Bernoulli("in", 0.5)))
    alpha, weight = of_density(interval(0, 25, 120), st.gamma(3).pdf)
    law, noise = st.nbinom.pmf(np.arange(300), alpha[:, None], (alpha / (alpha + 4))[:, None]), discrete_gaussian(RHO)
    masses = by_nodes(
        weight,
        np.full(alpha.size, 0.5),
        lambda data, t: seen(noise, data["noisy"][:, 0] - t, law) * seen(noise, data["noisy"][:, 1], law),
    )
    return Audited(model, ("noisy",), masses, 0.5)


def unknown_share() -> Audited:
    """A trait whose share is unknown, the target's chance as well."""
    with pm.Model() as model:
        share = pm.Beta("share", 2, 5)
        R("noisy", adv.Geometric(1.0), pm.Binomial("others", 10, share) + pm.Bernoulli("in", share))
    share, weight = of_density(interval(0, 1), st.beta(2, 5).pdf)
    law, noise = st.binom.pmf(np.arange(11), 10, share[:, None]), geometric(1.0)
    masses = by_nodes(weight, share, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, 2 / 7)


def tracts_around_a_mean() -> Audited:
    """Three tracts whose log rates scatter around a mean that is unknown too."""
    with pm.Model(coords={"tract": list("abc")}) as model:
        mean = pm.Normal("mean", 1.0, 0.5)
        x = pm.Normal("x", mean, 0.4, dims="tract")
        target = pm.Bernoulli("in", pm.math.sigmoid(x[0] - 1.5))
        others = pm.Poisson("others", pm.math.exp(x), dims="tract")
        R("noisy", DG, pt.inc_subtensor(others[0], target), dims="tract")
    z, w = standard_normal(40)
    mean, x = 1.0 + 0.5 * z, (1.0 + 0.5 * z)[:, None] + 0.4 * z
    law, noise = st.poisson.pmf(np.arange(300), np.exp(x).ravel()[:, None]), discrete_gaussian(RHO)
    p = expit(x - 1.5)

    def masses(data):  # type: ignore[no-untyped-def]
        y = data["noisy"]

        def given_mean(j, t, chance):  # type: ignore[no-untyped-def]
            return np.einsum("mz,mzr->mr", w * chance, seen(noise, y[:, j] - t, law).reshape(*x.shape, -1))

        rest = given_mean(1, 0, np.ones_like(x)) * given_mean(2, 0, np.ones_like(x))
        return np.stack([w @ (rest * given_mean(0, t, q)) for t, q in ((0, 1 - p), (1, p))])

    del mean
    return Audited(model, ("noisy",), masses, float(w @ (p @ w)))


def mixture_of_beliefs() -> Audited:
    """One of three beliefs about a block is right."""
    with pm.Model() as model:
        laws = [pm.Poisson.dist(3.0), pm.Binomial.dist(30, 0.5), pm.NegativeBinomial.dist(mu=8.0, alpha=0.7)]
        others = pm.Mixture("others", w=[0.5, 0.3, 0.2], comp_dists=laws)
        R("noisy", adv.Laplace(1.5), others + pm.Bernoulli("in", 0.01))
    k = np.arange(400)
    law = 0.5 * st.poisson.pmf(k, 3) + 0.3 * st.binom.pmf(k, 30, 0.5) + 0.2 * st.nbinom.pmf(k, 0.7, 0.7 / 8.7)
    noise = laplace(1.5)
    masses = by_nodes(np.ones(1), np.array([0.01]), lambda data, t: seen(noise, data["noisy"] - t, law[None]))
    return Audited(model, ("noisy",), masses, 0.01)


def ages_of_a_known_total() -> Audited:
    """Six people over four ages, of whom one is the target."""
    p = np.array([0.4, 0.3, 0.2, 0.1])
    with pm.Model(coords={"age": range(4)}) as model:
        record = pm.Categorical("record", p)
        others = pm.Multinomial("others", n=6, p=p, dims="age")
        pm.Deterministic("in", pm.math.ge(record, 2).astype("int64"))
        R("noisy", adv.Geometric(0.8), pt.inc_subtensor(others[record], 1), dims="age")
    rows = np.array([c for c in itertools.product(range(7), repeat=4) if sum(c) == 6])
    chance = st.multinomial(6, p).pmf(rows)
    counts = np.concatenate([rows + np.eye(4, dtype=int)[r] for r in range(4)])
    weight, target = np.concatenate([chance * q for q in p]), np.repeat([0, 0, 1, 1], len(rows))
    noise = geometric(0.8)
    return Audited(model, ("noisy",), by_states(weight, target, lambda data: cells(noise, data["noisy"], counts)), 0.3)


def truncated_and_censored() -> Audited:
    """A truncated rate, a truncated count, and a release that is cut at both ends."""
    with pm.Model() as model:
        mu = pm.Truncated("mu", pm.Gamma.dist(2, 0.5), lower=1, upper=9)
        others = pm.Truncated("others", pm.Poisson.dist(mu), upper=12)
        target = pm.Bernoulli("in", 0.2)
        pm.Censored("noisy", pm.Normal.dist(others + 2 * target, 1.5), lower=0, upper=11)
    mu, weight = of_density(interval(1, 9), st.gamma(2, scale=2).pdf)
    law = st.poisson.pmf(np.arange(13), mu[:, None])
    law = weight @ (law / law.sum(axis=1, keepdims=True))
    k = np.arange(13)[:, None]

    def parts(data, t):  # type: ignore[no-untyped-def]
        y, c = data["noisy"][None], k + 2 * t
        low, high = st.norm.cdf(0, c, 1.5), st.norm.sf(11, c, 1.5)
        return law[None] @ np.where(y <= 0, low, np.where(y >= 11, high, gaussian(1.5)(y - c)))

    return Audited(model, ("noisy",), by_nodes(np.ones(1), np.array([0.2]), parts), 0.2)


def never_below_zero() -> Audited:
    """Noise that is set to zero where it would make a count negative, on two cells of one rate."""
    with pm.Model() as model:
        rate = pm.Exponential("rate", 0.7)
        others = pm.Poisson("others", rate, shape=2)
        R("noisy", adv.postprocessing.clamped(adv.Geometric(0.6)), pt.inc_subtensor(others[1], pm.Bernoulli("in", 0.2)))
    rate, weight = of_density(interval(0, 30, 120), st.expon(scale=1 / 0.7).pdf)
    law, own = st.poisson.pmf(K, rate[:, None]), geometric(0.6)
    a = math.exp(-0.6)

    def clamped(y, t):  # type: ignore[no-untyped-def]
        c = (K + t)[:, None]
        return law @ np.where(y[None] == 0, a**c / (1 + a), np.where(y[None] > 0, own(y[None] - c), 0.0))

    masses = by_nodes(
        weight,
        np.full(rate.size, 0.2),
        lambda data, t: clamped(data["noisy"][:, 0], 0) * clamped(data["noisy"][:, 1], t),
    )
    return Audited(model, ("noisy",), masses, 0.2)


def rounded_to_threes() -> Audited:
    """Laplace noise set to zero below it and rounded to threes, as a law of one's own."""
    s = 2.0

    def logp(value, c):  # type: ignore[no-untyped-def]
        v = value.astype("float64")

        def cdf(z):  # type: ignore[no-untyped-def]
            return pt.switch(z < 0, 0.5 * pt.exp(z / s), 1 - 0.5 * pt.exp(-z / s))

        mass = cdf(v + 1.5 - c) - pt.switch(v <= 0, 0.0, cdf(v - 1.5 - c))
        whole = pt.ge(value, 0) & pt.eq(value % 3, 0)
        return pt.switch(whole, pt.log(pt.maximum(mass, 1e-300)), -np.inf)

    def random(c, rng=None, size=None):  # type: ignore[no-untyped-def]
        noisy = c + rng.laplace(0, s, size=np.shape(c) if size is None else size)
        return (3 * np.round(np.maximum(noisy, 0) / 3)).astype("int64")

    with pm.Model() as model:
        total = pm.Binomial("total", 15, 0.4)
        a = pm.BetaBinomial("a", alpha=2.0, beta=3.0, n=total)
        target = pm.Bernoulli("in", 0.5)
        value = pt.stack([a + target, total - a]).astype("float64")
        pm.CustomDist("noisy", value, logp=logp, random=random, dtype="int64", shape=2)
    states = np.array([(n, a) for n in range(16) for a in range(n + 1)])
    n, a = states.T
    weight = st.binom.pmf(n, 15, 0.4) * st.betabinom.pmf(a, n, 2, 3)

    def law(y, c):  # type: ignore[no-untyped-def]
        low = np.where(y <= 0, 0, st.laplace.cdf(y - 1.5 - c, 0, s))
        return st.laplace.cdf(y + 1.5 - c, 0, s) - low

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return (weight @ (law(y[None, :, 0], (a + t)[:, None]) * law(y[None, :, 1], (n - a)[:, None])))[None]

    return Audited(model, ("noisy",), by_nodes(np.ones(1), np.array([0.5]), parts), 0.5)


CENSUS = {
    "a block of unknown rate": unknown_rate,
    "three blocks of one rate": blocks_of_one_rate,
    "a block and its block group": block_and_group,
    "a record in block groups": record_in_block_groups,
    "zero-inflated households": zero_inflated_households,
    "unknown overdispersion": unknown_overdispersion,
    "a trait of unknown share": unknown_share,
    "tracts around a mean": tracts_around_a_mean,
    "a mixture of beliefs": mixture_of_beliefs,
    "ages of a known total": ages_of_a_known_total,
    "truncated and censored": truncated_and_censored,
    "never below zero": never_below_zero,
    "rounded to threes": rounded_to_threes,
}
"""Models by name."""
