"""Audited models of surveys and of epidemiology: answers, tests, cases, weights, categories."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.stats as st
from scipy.special import comb, expit, gammaln

import adversary as adv
from adversary.models.noise import released as R

from .audited import (
    Audited,
    Floats,
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
G1 = adv.Geometric(1.0)


def randomised_answer() -> Audited:
    """A randomised answer of the target, beside a survey of others with the same coin."""
    right = np.exp(1.0) / (1 + np.exp(1.0))
    with pm.Model() as model:
        share = pm.Beta("share", 2, 5)
        target = pm.Bernoulli("in", share)
        pm.Binomial("survey", 30, share * right + (1 - share) * (1 - right), observed=14)
        R("noisy", adv.RandomizedResponse(1.0, 2), target)
    share, weight = of_density(interval(0, 1), st.beta(2, 5).pdf)
    weight = weight * st.binom.pmf(14, 30, share * right + (1 - share) * (1 - right))
    weight /= weight.sum()

    def parts(data, t):  # type: ignore[no-untyped-def]
        return np.where(data["noisy"] == t, right, 1 - right)[None]

    return Audited(model, ("noisy",), by_nodes(weight, share, parts), float(weight @ share))


def positive_test() -> Audited:
    """The target tested positive; how good the test is and how common the disease, nobody knows."""
    with pm.Model() as model:
        sensitivity, false, share = pm.Beta("sensitivity", 9, 2), pm.Beta("false", 2, 15), pm.Beta("share", 2, 8)
        sick = pm.Bernoulli("in", share)
        pm.Bernoulli("test", pm.math.switch(sick, sensitivity, false), observed=1)
        R("noisy", G1, pm.Binomial("others", 9, share) + sick)
    share, weight = of_density(interval(0, 1), st.beta(2, 8).pdf)
    chance = share * (9 / 11) / (share * (9 / 11) + (1 - share) * (2 / 17))
    weight = weight * (share * (9 / 11) + (1 - share) * (2 / 17))
    weight /= weight.sum()
    law, noise = st.binom.pmf(np.arange(10), 9, share[:, None]), geometric(1.0)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def two_arms() -> Audited:
    """Cases in two arms of a trial; the target is in the second."""
    with pm.Model(coords={"arm": ["placebo", "treated"]}) as model:
        risk = pm.Beta("risk", np.array([3.0, 2.0]), np.array([4.0, 8.0]), dims="arm")
        target = pm.Bernoulli("in", risk[1])
        others = pm.Binomial("others", np.array([12, 11]), risk, dims="arm")
        R("noisy", DG, pt.inc_subtensor(others[1], target), dims="arm")
    risk, weight = of_density(interval(0, 1), st.beta(2, 8).pdf)
    law, noise = st.binom.pmf(np.arange(12), 11, risk[:, None]), discrete_gaussian(RHO)
    masses = by_nodes(weight, risk, lambda data, t: seen(noise, data["noisy"][:, 1] - t, law))
    return Audited(model, ("noisy",), masses, 0.2)


def earlier_cases() -> Audited:
    """Last year's count is public; this year's has noise."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 0.5)
        pm.Poisson("last_year", 3 * rate, observed=11)
        R("noisy", DG, pm.Poisson("others", rate) + pm.Bernoulli("in", pm.math.exp(-rate / 3)))
    rate, weight = of_density(interval(0, 16), lambda x: st.gamma.pdf(x, 2, scale=2) * st.poisson.pmf(11, 3 * x))
    law, noise, chance = st.poisson.pmf(np.arange(60), rate[:, None]), discrete_gaussian(RHO), np.exp(-rate / 3)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def ordered_grades() -> Audited:
    """Grades with unknown cutpoints."""
    with pm.Model(coords={"grade": ["low", "mid", "high"]}) as model:
        cut = pm.Normal("cut", 0, 1.5, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
        low, high = pm.math.sigmoid(cut[0]), pm.math.sigmoid(cut[1])
        grade = pm.OrderedLogistic("grade_of_target", eta=0.5, cutpoints=cut, compute_p=False)
        others = pm.Multinomial("others", n=5, p=pt.stack([low, high - low, 1 - high]))
        pm.Deterministic("in", pm.math.eq(grade, 2).astype("int64"))
        R("noisy", G1, pt.inc_subtensor(others[grade], 1), dims="grade")
    x, w = interval(-9, 9, 300)
    first, second = np.meshgrid(x, x, indexing="ij")
    pair = np.outer(w * st.norm.pdf(x, 0, 1.5), w * st.norm.pdf(x, 0, 1.5))
    # Nodes on the diagonal stand for a half of their cell.
    pair = np.where(first < second, pair, np.where(first == second, pair / 2, 0.0))
    keep = pair > 1e-14
    a, b, weight = first[keep], second[keep], pair[keep] / pair[keep].sum()

    def shares(eta: float) -> Floats:
        return np.stack([expit(a - eta), expit(b - eta) - expit(a - eta), expit(eta - b)], axis=1)

    rows = np.array([c for c in itertools.product(range(6), repeat=3) if sum(c) == 5])
    log_p = np.log(np.maximum(shares(0.0), 1e-300)) @ rows.T + gammaln(6) - gammaln(rows + 1).sum(axis=1)
    own = shares(0.5)
    chance = np.concatenate([(weight * own[:, r]) @ np.exp(log_p) for r in range(3)])
    counts = np.concatenate([rows + np.eye(3, dtype=int)[r] for r in range(3)])
    noise, target = geometric(1.0), np.repeat([0, 0, 1], len(rows))
    masses = by_states(chance, target, lambda data: cells(noise, data["noisy"], counts))
    return Audited(model, ("noisy",), masses, float(weight @ own[:, 2]))


def chain_of_infections() -> Audited:
    """Two generations of infections in a household of six; the target is the first case's neighbour."""
    with pm.Model() as model:
        q = pm.Beta("q", 2, 4)
        first = pm.Binomial("first", 5, q)
        second = pm.Binomial("second", 5 - first, 1 - (1 - q) ** first)
        target = pm.Bernoulli("in", q)
        R("noisy", G1, pt.stack([first + target, second]))
    q, weight = of_density(interval(0, 1), st.beta(2, 4).pdf)
    chance, states = [], []
    for a in range(6):
        for b in range(6 - a):
            p = st.binom.pmf(a, 5, q) * st.binom.pmf(b, 5 - a, 1 - (1 - q) ** a)
            chance += [float((weight * p) @ (1 - q)), float((weight * p) @ q)]
            states += [(a, b), (a + 1, b)]
    counts, noise = np.array(states), geometric(1.0)
    target = np.tile([0, 1], len(states) // 2)
    return Audited(
        model, ("noisy",), by_states(chance, target, lambda data: cells(noise, data["noisy"], counts)), 1 / 3
    )


def weighted_total() -> Audited:
    """A total with survey weights, of people who each have the trait or not."""
    weights = np.array([1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    with pm.Model() as model:
        level = pm.Normal("level", -0.5, 0.7)
        people = pm.Bernoulli("people", pm.math.sigmoid(level), shape=10)
        target = pm.Bernoulli("in", pm.math.sigmoid(level))
        R("noisy", adv.Laplace(4.0), (people * weights).sum() + 4 * target)
    z, weight = standard_normal(60)
    p = expit(-0.5 + 0.7 * z)
    law = np.ones((p.size, 1))
    for w in weights:
        longer = np.zeros((p.size, law.shape[1] + w))
        longer[:, :-w] += law * (1 - p[:, None])
        longer[:, w:] += law * p[:, None]
        law = longer
    noise = laplace(4.0)
    masses = by_nodes(weight, p, lambda data, t: seen(noise, data["noisy"] - 4 * t, law))
    return Audited(model, ("noisy",), masses, float(weight @ p))


def strata() -> Audited:
    """Three strata with effects around a common one of unknown spread."""
    n = np.array([9, 7, 8])
    with pm.Model(coords={"stratum": range(3)}) as model:
        spread = pm.HalfNormal("spread", 0.8)
        z = pm.Normal("z", 0, 1, dims="stratum")
        p = pm.math.sigmoid(-1 + spread * z)
        target = pm.Bernoulli("in", p[0])
        R("noisy", DG, pt.inc_subtensor(pm.Binomial("others", n, p, dims="stratum")[0], target), dims="stratum")
    s, ws = of_density(interval(0, 4.5, 50), st.halfnorm(scale=0.8).pdf)
    z, wz = standard_normal(50)
    p, noise = expit(-1 + s[:, None] * z), discrete_gaussian(RHO)

    def masses(data):  # type: ignore[no-untyped-def]
        def given_spread(j, t, chance):  # type: ignore[no-untyped-def]
            law = st.binom.pmf(np.arange(n[j] + 1), n[j], p.ravel()[:, None])
            own = seen(noise, data["noisy"][:, j] - t, law).reshape(*p.shape, -1)
            return np.einsum("sz,szr->sr", wz * chance, own)

        rest = given_spread(1, 0, np.ones_like(p)) * given_spread(2, 0, np.ones_like(p))
        return np.stack([ws @ (rest * given_spread(0, t, q)) for t, q in ((0, 1 - p), (1, p))])

    return Audited(model, ("noisy",), masses, float(ws @ (p @ wz)))


def non_response() -> Audited:
    """The target is counted only if they answered."""
    with pm.Model() as model:
        trait, answered = pm.Bernoulli("in", 0.25), pm.Bernoulli("answered", 0.8)
        R("noisy", adv.Geometric(1.5), pm.Binomial("others", 12, 0.2) + trait * answered)
    law, noise = st.binom.pmf(np.arange(13), 12, 0.2)[None], geometric(1.5)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return 0.8 * seen(noise, y - t, law) + 0.2 * seen(noise, y, law)

    return Audited(model, ("noisy",), by_nodes(np.ones(1), np.array([0.25]), parts), 0.25)


def two_waves() -> Audited:
    """The same population a year later: some stayed, some came; the target stayed."""
    with pm.Model(coords={"year": [1, 2]}) as model:
        stay = pm.Beta("stay", 8, 2)
        first = pm.Poisson("first", 4.0)
        second = pm.Binomial("stayed", first, stay) + pm.Poisson("came", 1.0)
        target = pm.Bernoulli("in", 0.5)
        R("noisy", G1, pt.stack([first + target, second + target]), dims="year")
    stay, weight = of_density(interval(0, 1, 60), st.beta(8, 2).pdf)
    counts, chance = [], []
    for a in range(25):
        stayed = weight @ st.binom.pmf(np.arange(a + 1), a, stay[:, None])
        for b, p in enumerate(np.convolve(stayed, st.poisson.pmf(np.arange(20), 1.0))):
            counts.append((a, b))
            chance.append(float(st.poisson.pmf(a, 4.0) * p))
    every, noise = np.array(counts), geometric(1.0)

    def density(data):  # type: ignore[no-untyped-def]
        return np.concatenate([cells(noise, data["noisy"], every + t) for t in (0, 1)])

    masses = by_states(np.tile(chance, 2) * 0.5, np.repeat([0, 1], len(chance)), density)
    return Audited(model, ("noisy",), masses, 0.5)


def rare_trait() -> Audited:
    """One person of a hundred has a score as high as the target's may be."""
    limit = 2.3
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        target = pm.Deterministic("in", (x > limit).astype("int64"))
        R("noisy", G1, target + pm.Binomial("others", 20, pm.math.sigmoid(x)))
    parts = [interval(-8.5, limit, 150), interval(limit, 8.5, 80)]
    x, w = (np.concatenate(some) for some in zip(*parts, strict=True))
    weight = w * st.norm.pdf(x)
    law, noise = st.binom.pmf(np.arange(21), 20, expit(x)[:, None]), geometric(1.0)
    masses = by_nodes(weight, (x > limit).astype(float), lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(st.norm.sf(limit)))


def unknown_noise() -> Audited:
    """Noise of an unknown scale in three cells."""
    with pm.Model() as model:
        s, target = pm.InverseGamma("s", 2, 2), pm.Bernoulli("in", 0.3)
        others = pm.Binomial("others", 6, 0.4, shape=3)
        pm.Laplace("noisy", pt.inc_subtensor(others[0], target).astype("float64"), s, shape=3)
    u, w = interval(-4.5, 6.5, 250)
    s = np.exp(u)
    weight = w * st.invgamma.pdf(s, 2, scale=2) * s
    k, law = np.arange(7), st.binom.pmf(np.arange(7), 6, 0.4)

    def parts(data, t):  # type: ignore[no-untyped-def]
        found = np.ones((s.size, len(data["noisy"])))
        for j in range(3):
            away = data["noisy"][None, :, None, j] - k - (t if j == 0 else 0)
            found *= (np.exp(-np.abs(away) / s[:, None, None]) / (2 * s[:, None, None])) @ law
        return found

    return Audited(model, ("noisy",), by_nodes(weight, np.full(s.size, 0.3), parts), 0.3)


def reporting_delay() -> Audited:
    """Cases of which a share is reported late, in two released numbers."""
    with pm.Model() as model:
        rate, late = pm.Gamma("rate", 5.0, 1.0), pm.Beta("late", 2, 6)
        cases = pm.Poisson("cases", rate)
        early = pm.Binomial("early", cases, 1 - late)
        target = pm.Bernoulli("in", 0.3)
        R("noisy", G1, pt.stack([early + target, cases - early]))
    (rate, late), weight = product(
        of_density(interval(0, 20, 60), st.gamma(5).pdf), of_density(interval(0, 1, 40), st.beta(2, 6).pdf)
    )
    k, noise = np.arange(50), geometric(1.0)  # a thinned Poisson count is two independent ones
    a, b = st.poisson.pmf(k, (rate * (1 - late))[:, None]), st.poisson.pmf(k, (rate * late)[:, None])
    masses = by_nodes(
        weight,
        np.full(rate.size, 0.3),
        lambda data, t: seen(noise, data["noisy"][:, 0] - t, a) * seen(noise, data["noisy"][:, 1], b),
    )
    return Audited(model, ("noisy",), masses, 0.3)


def mean_of_a_survey() -> Audited:
    """A noisy mean of incomes of which the target's is high or not; the others' scatter around an unknown level."""
    with pm.Model() as model:
        level = pm.Normal("level", 2.0, 1.0)
        others = pm.Normal("others", level, 1.0, shape=4)
        target = pm.Bernoulli("in", pm.math.sigmoid(level - 3))
        R("noisy", adv.Gaussian(0.6), (others.sum() + 2 + 3 * target) / 5)
    z, weight = standard_normal(80)
    level = 2.0 + z
    chance, noise = expit(level - 3), gaussian(float(np.hypot(0.6, 2 / 5)))

    def parts(data, t):  # type: ignore[no-untyped-def]
        return noise(data["noisy"][None] - ((4 * level + 2 + 3 * t) / 5)[:, None])

    return Audited(model, ("noisy",), by_nodes(weight, chance, parts), float(weight @ chance))


def pooled_tests() -> Audited:
    """Pools of three samples; a pool is positive if one of them is, and positive pools are counted."""
    with pm.Model() as model:
        share = pm.Beta("share", 1.5, 8)
        sick = pm.Bernoulli("in", share)
        pools = pm.Binomial("pools", 6, 1 - (1 - share) ** 3)
        mates = pm.Bernoulli("mates", 1 - (1 - share) ** 2)
        R("noisy", G1, pools + pm.math.maximum(sick, mates))
    u, w = interval(0, 1, 80)
    share, weight = u**2, w * 2 * u * st.beta.pdf(u**2, 1.5, 8)
    weight /= weight.sum()
    law, noise = st.binom.pmf(np.arange(7), 6, (1 - (1 - share) ** 3)[:, None]), geometric(1.0)
    mates = (1 - (1 - share) ** 2)[:, None]

    def parts(data, t):  # type: ignore[no-untyped-def]
        one, none = seen(noise, data["noisy"] - 1, law), seen(noise, data["noisy"], law)
        return one if t else mates * one + (1 - mates) * none

    return Audited(model, ("noisy",), by_nodes(weight, share, parts), float(weight @ share))


def sampled_fraction() -> Audited:
    """How many of a sample have the trait; the target may be among those sampled."""
    with pm.Model() as model:
        sampled = pm.HyperGeometric("sampled", N=9, k=5, n=4, shape=2)
        target = pm.Bernoulli("in", sampled[0] / 4.0)
        R("noisy", adv.Geometric(0.9), pt.set_subtensor(sampled[1], sampled[1] + target))
    k = np.arange(5)
    law = comb(5, k) * comb(4, 4 - k) / comb(9, 4)
    noise = geometric(0.9)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        return noise(y[None, :, 0] - k[:, None]) * seen(noise, y[:, 1] - t, law[None])

    return Audited(model, ("noisy",), by_nodes(law, k / 4, parts), float(law @ k / 4))


SURVEYS = {
    "a randomised answer": randomised_answer,
    "a positive test": positive_test,
    "two arms of a trial": two_arms,
    "last year's cases": earlier_cases,
    "ordered grades": ordered_grades,
    "a chain of infections": chain_of_infections,
    "a weighted total": weighted_total,
    "strata": strata,
    "non-response": non_response,
    "two waves": two_waves,
    "a rare trait": rare_trait,
    "noise of unknown scale": unknown_noise,
    "late reports": reporting_delay,
    "a mean of incomes": mean_of_a_survey,
    "pooled tests": pooled_tests,
    "a sampled fraction": sampled_fraction,
}
"""Models by name."""
