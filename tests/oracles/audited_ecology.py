"""Audited models of ecology and of capture: occupancy, abundance, survival, detection."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.stats as st
from scipy.special import beta as beta_function
from scipy.special import comb, expit

import adversary as adv
from adversary.models.noise import released as R

from .audited import (
    Audited,
    by_nodes,
    by_states,
    cells,
    discrete_gaussian,
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


def occupancy() -> Audited:
    """Three sites, each occupied or not, visited four times; the first is the target."""
    with pm.Model(coords={"site": range(3)}) as model:
        psi, p = pm.Beta("psi", 2, 2), pm.Beta("p", 3, 3)
        z = pm.Bernoulli("z", psi, dims="site")
        pm.Deterministic("in", z[0])
        R("noisy", G1, pm.Binomial("detections", 4, z * p, dims="site"), dims="site")
    (psi, p), weight = product(
        of_density(interval(0, 1, 40), st.beta(2, 2).pdf), of_density(interval(0, 1, 40), st.beta(3, 3).pdf)
    )
    law, noise = st.binom.pmf(np.arange(5), 4, p[:, None]), geometric(1.0)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        either = [psi[:, None] * seen(noise, y[:, j], law) + (1 - psi)[:, None] * noise(y[:, j]) for j in (1, 2)]
        own = seen(noise, y[:, 0], law) if t else noise(y[:, 0])[None]
        return own * either[0] * either[1]

    return Audited(model, ("noisy",), by_nodes(weight, psi, parts), 0.5)


def abundance_by_two_visits() -> Audited:
    """An unknown number of animals, counted twice with an unknown chance."""
    with pm.Model() as model:
        p, number = pm.Beta("p", 3, 2), pm.DiscreteUniform("number", 1, 9)
        counts = pm.Binomial("counts", number, p, shape=2)
        R("noisy", G1, counts + pm.Bernoulli("in", p))
    (p,), weight = product(of_density(interval(0, 1, 60), st.beta(3, 2).pdf))
    noise = geometric(1.0)

    def parts(data, t):  # type: ignore[no-untyped-def]
        y, found = data["noisy"], 0.0
        for n in range(1, 10):
            law = st.binom.pmf(np.arange(n + 1), n, p[:, None])
            found = found + seen(noise, y[:, 0] - t, law) * seen(noise, y[:, 1] - t, law) / 9
        return found

    return Audited(model, ("noisy",), by_nodes(weight, p, parts), 0.6)


def capture_and_recapture() -> Audited:
    """Two occasions: caught first, caught again, caught the second time only."""
    with pm.Model() as model:
        p1, p2 = pm.Beta("p1", 2, 2), pm.Beta("p2", 2, 3)
        number = pm.DiscreteUniform("number", 3, 8)
        first = pm.Binomial("first", number, p1)
        again, new = pm.Binomial("again", first, p2), pm.Binomial("new", number - first, p2)
        t1, t2 = pm.Bernoulli("in", p1), pm.Bernoulli("in_second", p2)
        R("noisy", G1, pt.stack([first + t1, again + new + t2, again + t1 * t2]))
    rows = [(n, a, b, c) for n in range(3, 9) for a in range(n + 1) for b in range(a + 1) for c in range(n - a + 1)]
    n, a, b, c = np.array(rows).T
    ways = comb(n, a) * comb(a, b) * comb(n - a, c) / 6
    chance, counts, target = [], [], []
    for t1, t2 in itertools.product((0, 1), repeat=2):
        first = beta_function(2 + a + t1, 3 + n - a - t1) / beta_function(2, 2)
        chance.append(ways * first * beta_function(2 + b + c + t2, 4 + n - b - c - t2) / beta_function(2, 3))
        counts.append(np.stack([a + t1, b + c + t2, b + t1 * t2], axis=1))
        target.append(np.full(n.size, t1))
    every, noise = np.concatenate(counts), geometric(1.0)
    masses = by_states(np.concatenate(chance), np.concatenate(target), lambda data: cells(noise, data["noisy"], every))
    return Audited(model, ("noisy",), masses, 0.5)


def removal() -> Audited:
    """Animals caught and removed on two occasions."""
    with pm.Model() as model:
        p, number = pm.Beta("p", 2, 2), pm.DiscreteUniform("number", 2, 12)
        first = pm.Binomial("first", number, p)
        second = pm.Binomial("second", number - first, p)
        R("noisy", DG, pt.stack([first + pm.Bernoulli("in", p), second]))
    rows = np.array([(n, a, b) for n in range(2, 13) for a in range(n + 1) for b in range(n - a + 1)])
    n, a, b = rows.T
    ways = comb(n, a) * comb(n - a, b) / 11 / beta_function(2, 2)
    caught, left = a + b, (n - a) + (n - a - b)
    chance = [ways * beta_function(2 + caught + t, 3 + left - t) for t in (0, 1)]
    every = np.concatenate([np.stack([a + t, b], axis=1) for t in (0, 1)])
    noise, target = discrete_gaussian(RHO), np.repeat([0, 1], n.size)
    masses = by_states(np.concatenate(chance), target, lambda data: cells(noise, data["noisy"], every))
    return Audited(model, ("noisy",), masses, 0.5)


def distance_sampling() -> Audited:
    """Animals at known distances, seen with a chance that falls at an unknown rate."""
    distance = np.array([0.2, 0.5, 0.8, 1.1, 1.5, 2.0, 2.6])
    with pm.Model() as model:
        s = pm.Gamma("s", 4.0, 3.0)
        sighted = pm.Bernoulli("sighted", pm.math.exp(-(distance**2) / (2 * s**2)), shape=7)
        target = pm.Bernoulli("in", pm.math.exp(-1 / (2 * s**2)))
        R("noisy", adv.Laplace(1.0), sighted.sum() + target)
    s, weight = of_density(interval(1e-3, 8, 160), st.gamma(4, scale=1 / 3).pdf)
    p, law = np.exp(-(distance**2) / (2 * s[:, None] ** 2)), np.ones((s.size, 1))
    for own in p.T[..., None]:
        law = np.pad(law, ((0, 0), (0, 1))) * (1 - own) + np.pad(law, ((0, 0), (1, 0))) * own
    chance, noise = np.exp(-1 / (2 * s**2)), laplace(1.0)
    masses = by_nodes(weight, chance, lambda data, t: seen(noise, data["noisy"] - t, law))
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def absent_or_undetected() -> Audited:
    """Counts at two sites that are zero because nothing lives there, or by chance."""
    with pm.Model() as model:
        psi, p = pm.Beta("psi", 3, 2), pm.Beta("p", 2, 3)
        counts = pm.ZeroInflatedBinomial("counts", psi, 6, p, shape=2)
        R("noisy", G1, pt.inc_subtensor(counts[0], pm.Bernoulli("in", psi * p)))
    (psi, p), weight = product(
        of_density(interval(0, 1, 40), st.beta(3, 2).pdf), of_density(interval(0, 1, 40), st.beta(2, 3).pdf)
    )
    law, noise = psi[:, None] * st.binom.pmf(np.arange(7), 6, p[:, None]), geometric(1.0)
    law[:, 0] += 1 - psi
    masses = by_nodes(
        weight,
        psi * p,
        lambda data, t: seen(noise, data["noisy"][:, 0] - t, law) * seen(noise, data["noisy"][:, 1], law),
    )
    return Audited(model, ("noisy",), masses, 0.24)


def lost_tags() -> Audited:
    """Of ten marked animals some lose their tags; those seen with a tag and without are released."""
    with pm.Model() as model:
        kept = pm.Binomial("kept", 10, 0.8)
        tagged, bare = pm.Binomial("tagged", kept, 0.5), pm.Binomial("bare", 10 - kept, 0.5)
        target = pm.Bernoulli("in", 0.5)
        R("noisy", adv.Geometric(0.8), pt.stack([tagged + target, bare + 1 - target]))
    rows = np.array([(k, a, b) for k in range(11) for a in range(k + 1) for b in range(11 - k)])
    k, a, b = rows.T
    chance = st.binom.pmf(k, 10, 0.8) * st.binom.pmf(a, k, 0.5) * st.binom.pmf(b, 10 - k, 0.5) / 2
    every = np.concatenate([np.stack([a + t, b + 1 - t], axis=1) for t in (0, 1)])
    noise, target = geometric(0.8), np.repeat([0, 1], k.size)
    masses = by_states(np.tile(chance, 2), target, lambda data: cells(noise, data["noisy"], every))
    return Audited(model, ("noisy",), masses, 0.5)


def abundance_over_years() -> Audited:
    """A log abundance that walks at random for three years."""
    with pm.Model(coords={"year": range(3)}) as model:
        x = pm.GaussianRandomWalk("x", mu=0.1, sigma=0.4, init_dist=pm.Normal.dist(1.0, 0.5), dims="year")
        target = pm.Bernoulli("in", pm.math.sigmoid(x[2] - 1))
        R("noisy", DG, pt.inc_subtensor(pm.Poisson("counts", pm.math.exp(x), dims="year")[2], target), dims="year")
    x, w = interval(-3.5, 5.5, 220)
    start = w * st.norm.pdf(x, 1.0, 0.5)
    step = w[None] * st.norm.pdf(x[None], x[:, None] + 0.1, 0.4)
    law, noise, p = st.poisson.pmf(np.arange(400), np.exp(x)[:, None]), discrete_gaussian(RHO), expit(x - 1)

    def masses(data):  # type: ignore[no-untyped-def]
        y = data["noisy"]
        ahead = step.T @ (start[:, None] * seen(noise, y[:, 0], law))
        ahead = step.T @ (ahead * seen(noise, y[:, 1], law))
        return np.stack([chance @ (ahead * seen(noise, y[:, 2] - t, law)) for t, chance in ((0, 1 - p), (1, p))])

    return Audited(model, ("noisy",), masses, float(p @ (step.T @ (step.T @ start))))


def two_species() -> Audited:
    """Two species whose abundances are correlated."""
    cov = np.array([[0.3, -0.2], [-0.2, 0.3]])
    with pm.Model(coords={"species": ["prey", "predator"]}) as model:
        x = pm.MvNormal("x", np.array([1.2, 0.5]), cov, dims="species")
        counts = pm.Poisson("counts", pm.math.exp(x), dims="species")
        R("noisy", DG, pt.inc_subtensor(counts[1], pm.Bernoulli("in", pm.math.sigmoid(x[1]))), dims="species")
    z, wz = standard_normal(50)
    (u, v), weight = product((z, wz), (z, wz))
    root = np.linalg.cholesky(cov)
    prey, predator = 1.2 + root[0, 0] * u, 0.5 + root[1, 0] * u + root[1, 1] * v
    k, noise, chance = np.arange(300), discrete_gaussian(RHO), expit(predator)
    a, b = st.poisson.pmf(k, np.exp(prey)[:, None]), st.poisson.pmf(k, np.exp(predator)[:, None])
    masses = by_nodes(
        weight,
        chance,
        lambda data, t: seen(noise, data["noisy"][:, 0], a) * seen(noise, data["noisy"][:, 1] - t, b),
    )
    return Audited(model, ("noisy",), masses, float(weight @ chance))


def survival() -> Audited:
    """Those alive after one year and after two; the target is alive after two."""
    with pm.Model() as model:
        phi = pm.Beta("phi", 6, 3)
        first = pm.Binomial("first", 10, phi)
        second = pm.Binomial("second", first, phi)
        target = pm.Bernoulli("in", phi**2)
        R("noisy", G1, pt.stack([first, second + target]))
    phi, weight = of_density(interval(0, 1, 60), st.beta(6, 3).pdf)
    rows = np.array([(a, b) for a in range(11) for b in range(a + 1)])
    a, b = rows.T
    p = st.binom.pmf(a, 10, phi[:, None]) * st.binom.pmf(b, a, phi[:, None])
    chance = [(weight * q) @ p for q in (1 - phi**2, phi**2)]
    every = np.concatenate([np.stack([a, b + t], axis=1) for t in (0, 1)])
    noise, target = geometric(1.0), np.repeat([0, 1], a.size)
    masses = by_states(np.concatenate(chance), target, lambda data: cells(noise, data["noisy"], every))
    return Audited(model, ("noisy",), masses, float(weight @ phi**2))


def nests() -> Audited:
    """Nests that succeed with a chance of unknown mean and a slope in the date."""
    date = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    n = np.array([3, 4, 5, 4, 3])
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", -0.5, 0.5)
        fledged = pm.Binomial("fledged", n, pm.math.sigmoid(a + b * date), shape=5)
        R("noisy", G1, pt.inc_subtensor(fledged[4], pm.Bernoulli("in", pm.math.sigmoid(a + b))), shape=5)
    z, w = standard_normal(50)
    (u, v), weight = product((z, w), (z, w))
    p, noise = expit(u[:, None] + (-0.5 + 0.5 * v[:, None]) * date), geometric(1.0)

    def parts(data, t):  # type: ignore[no-untyped-def]
        found = 1.0
        for j in range(5):
            law = st.binom.pmf(np.arange(n[j] + 1), n[j], p[:, j][:, None])
            found = found * seen(noise, data["noisy"][:, j] - (t if j == 4 else 0), law)
        return found

    return Audited(model, ("noisy",), by_nodes(weight, p[:, 4], parts), float(weight @ p[:, 4]))


def false_detections() -> Audited:
    """Call recordings: true ones where the species is, false ones everywhere."""
    with pm.Model() as model:
        true, false = pm.Gamma("true", 4, 1), pm.Gamma("false", 2, 2)
        target = pm.Bernoulli("in", 0.35)
        R("noisy", DG, pm.Poisson("calls", false + true * target, shape=2))
    (true, false), weight = product(
        of_density(interval(0, 16, 40), st.gamma(4).pdf), of_density(interval(0, 8, 40), st.gamma(2, scale=0.5).pdf)
    )
    k, noise = np.arange(80), discrete_gaussian(RHO)
    laws = [st.poisson.pmf(k, (false + t * true)[:, None]) for t in (0, 1)]
    masses = by_nodes(
        weight,
        np.full(true.size, 0.35),
        lambda data, t: seen(noise, data["noisy"][:, 0], laws[t]) * seen(noise, data["noisy"][:, 1], laws[t]),
    )
    return Audited(model, ("noisy",), masses, 0.35)


ECOLOGY = {
    "occupancy": occupancy,
    "abundance by two visits": abundance_by_two_visits,
    "capture and recapture": capture_and_recapture,
    "removal": removal,
    "distance sampling": distance_sampling,
    "absent or undetected": absent_or_undetected,
    "lost tags": lost_tags,
    "abundance over years": abundance_over_years,
    "two species": two_species,
    "survival": survival,
    "nests": nests,
    "false detections": false_detections,
}
"""Models by name."""
