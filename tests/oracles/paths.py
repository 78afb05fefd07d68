"""Slow twins of the exact engine, written to be checked by eye.

Every answer here is a plain sum: over all states of the counts, over all releases, over all outcomes of a pair.
Nothing is imported from the package, nothing is clever, and parameters are numbers, lists and functions. A law is a
function of two whole numbers that returns a log probability: `log_prob(release, value)` for noise and
`log_prob(total, inside)` for what a reader believes about a count given the part of it inside the smaller unit.

Equation numbers 2.x are those of Kazan & Reiter (2025, Statistica Sinica 35) as printed in Chapter 2 of Kazan's
doctoral thesis; theorem numbers are those of Chapter 5 of the same thesis. "In" means that the target has the trait.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
from numpy.typing import NDArray

Law = Callable[[int, int], float]
Floats = NDArray[np.float64]
Real = Any  # an mpmath number; the library carries no types

DIGITS = 40


# ---------------------------------------------------------------------------------------------------------------------
# Noise laws, by direct summation
# ---------------------------------------------------------------------------------------------------------------------


@functools.cache
def discrete_gaussian_normaliser(rho: float, digits: int = DIGITS) -> Real:
    """theta(rho) = sum over all whole k of exp(-rho k^2), added until the terms no longer count.

    Takes about sqrt(100 / rho) terms, so any rho above 1e-9 or so is practical. Kazan & Reiter (2025), Definition 3.
    """
    with mpmath.workdps(digits + 10):
        total, k = mpmath.mpf(1), 0
        while True:
            k += 1
            term = 2 * mpmath.exp(-mpmath.mpf(rho) * k * k)
            total += term
            if term < mpmath.mpf(10) ** (-digits - 5) * total:
                return total


def discrete_gaussian_pmf(k: int, rho: float, digits: int = DIGITS) -> Real:
    """P(Z = k) = exp(-rho k^2) / theta(rho). Kazan & Reiter (2025), Definition 3."""
    with mpmath.workdps(digits + 10):
        return mpmath.exp(-mpmath.mpf(rho) * k * k) / discrete_gaussian_normaliser(rho, digits)


def geometric_pmf(k: int, epsilon: float, digits: int = DIGITS) -> Real:
    """P(Z = k) = exp(-epsilon |k|) (1 - exp(-epsilon)) / (1 + exp(-epsilon)), the two-sided geometric law."""
    with mpmath.workdps(digits + 10):
        q = mpmath.exp(-mpmath.mpf(epsilon))
        return q ** abs(k) * (1 - q) / (1 + q)


def upper_tail(pmf: Callable[[int], Real], k: int, digits: int = DIGITS) -> Real:
    """P(Z > k), term by term, for a pmf on the whole numbers that is symmetric about 0 and falls away from it.

    For k < 0 the tail is one minus the mirrored tail, P(Z > k) = 1 - P(Z > -k - 1).
    """
    with mpmath.workdps(digits + 10):
        if k < 0:
            return 1 - upper_tail(pmf, -k - 1, digits)
        total, j = mpmath.mpf(0), k
        while True:
            j += 1
            term = pmf(j)
            total += term
            if term <= mpmath.mpf(10) ** (-digits - 5) * total:
                return total


def discrete_gaussian_table(rho: float, reach: int) -> Floats:
    """Log pmf at -reach, ..., reach, shape (2 reach + 1,)."""
    log_theta = float(mpmath.log(discrete_gaussian_normaliser(rho)))
    return np.array([-rho * k * k - log_theta for k in range(-reach, reach + 1)])


def geometric_table(epsilon: float, reach: int) -> Floats:
    """Log pmf at -reach, ..., reach, shape (2 reach + 1,)."""
    return np.array([float(mpmath.log(geometric_pmf(k, epsilon))) for k in range(-reach, reach + 1)])


def sum_table(table: Floats, count: int) -> Floats:
    """Log pmf of the sum of `count` independent copies, by adding one copy at a time in log space.

    h_{n+1}(k) = sum_j h_n(k - j) pmf(j). All terms are positive and stay logarithms, so tails keep their relative
    accuracy. A table on -r..r gives one on -count r..count r; `count` = 0 is the point mass at 0.
    The law of the noise in a sum of releases: Kazan & Reiter (2025), eq. (2.9), without the approximation made there.
    """
    total = np.zeros(1)
    for _ in range(count):
        longer = np.full(len(total) + len(table) - 1, -np.inf)
        for j, log_prob in enumerate(table):
            longer[j : j + len(total)] = np.logaddexp(longer[j : j + len(total)], total + log_prob)
        total = longer
    return total


def centred(table: Floats) -> Law:
    """Noise law log_prob(release, value) read off a table of odd length about 0; -inf beyond the table."""
    values, reach = table.tolist(), len(table) // 2

    def log_prob(release: int, value: int) -> float:
        error = int(release - value)
        if error != release - value:
            raise ValueError(f"release - value must be a whole number, got {release - value}")
        return float(values[error + reach]) if abs(error) <= reach else -math.inf

    return log_prob


def discrete_gaussian(rho: float, count: int = 1, reach: int = 40) -> Law:
    """Noise law of a sum of `count` values, each released with discrete Gaussian noise cut at -reach..reach."""
    return centred(sum_table(discrete_gaussian_table(rho, reach), count))


def geometric(epsilon: float, count: int = 1, reach: int = 60) -> Law:
    """Noise law of a sum of `count` values, each released with geometric noise cut at -reach..reach."""
    return centred(sum_table(geometric_table(epsilon, reach), count))


# ---------------------------------------------------------------------------------------------------------------------
# What a reader believes: log P(total | inside)
# ---------------------------------------------------------------------------------------------------------------------


def known(others: int) -> Law:
    """The reader knows everybody else: total = others + inside, for sure."""
    return lambda total, inside: 0.0 if total == others + inside else -math.inf


def flat(total: int, inside: int) -> float:
    """Improper uniform on {inside, inside + 1, ...}, constant 0: the prior of Kazan & Reiter (2025), section 2.3.2."""
    return 0.0 if total >= inside else -math.inf


def flat_to(upper: int) -> Law:
    """Proper uniform on {inside, ..., upper}; its constant depends on `inside`. Kazan & Reiter (2025), section 2.9."""
    return lambda total, inside: -math.log(upper - inside + 1) if inside <= total <= upper else -math.inf


def point(value: int) -> Law:
    """The reader is sure of the total, whatever is inside it. Kazan & Reiter (2025), section 2.9."""
    return lambda total, inside: 0.0 if total == value >= inside else -math.inf


def others(pmf: Sequence[float]) -> Law:
    """total - inside has this pmf on 0, 1, ..., independently of `inside`."""
    return lambda total, inside: _log(pmf[total - inside]) if 0 <= total - inside < len(pmf) else -math.inf


# ---------------------------------------------------------------------------------------------------------------------
# Posterior on a path of levels, by listing every state
# ---------------------------------------------------------------------------------------------------------------------


class PathPosterior(NamedTuple):
    """Posterior for one release; `counts[l][x]` = P(X_l = x | release), lowest level l = 0.

    `edge_mass` is the posterior mass of states in which an upper level sits at the last count of its window.
    """

    posterior: float
    log_odds: float
    counts: dict[int, dict[int, float]]
    edge_mass: float


def path_posterior(
    release: Sequence[int],
    sibling_sums: Sequence[int],
    noises: Sequence[Law],
    siblings_noises: Sequence[Law | None],
    beliefs: Sequence[Law],
    prior: float,
    inside: tuple[int, int] = (0, 1),
    *,
    counts: Sequence[Sequence[int]],
) -> PathPosterior:
    """Exact posterior of the target and of every count, by listing all (target, X_1, ..., X_L) in the windows `counts`.

    The weight of one state is

        P(target) prod_l P(X_l | X_{l-1}) P(release_l | X_l) prod_l P(sibling_sum_l | X_{l+1} - X_l),

    with X_0 = inside[target]: Bayes' rule for the model of Kazan & Reiter (2025), section 2.3.2; eq. (2.3) if L = 1.

    Parameters
    ----------
    release : L released counts, lowest level first.
    sibling_sums : L - 1 sums of the releases of the other units; an entry is ignored where its noise is None.
    noises : L laws log_prob(release, value).
    siblings_noises : L - 1 laws log_prob(sum, total of the other units), or None where no sum is published.
    beliefs : L laws log_prob(total, inside).
    prior : P(in), from 0 to 1.
    inside : the target's contribution if "out" and if "in".
    counts : L windows of counts to list; nothing outside them is considered.
    """
    paths = _weigh_paths(release, sibling_sums, noises, siblings_noises, beliefs, prior, inside, counts)
    if not paths:
        raise ValueError("this release is impossible under both hypotheses")
    log_in = _log_sum(weight for path, weight in paths.items() if path[0] == 1)
    log_out = _log_sum(weight for path, weight in paths.items() if path[0] == 0)
    log_all = _log_sum(paths.values())
    ends = [max(window) for window in counts]
    pmfs: dict[int, dict[int, float]] = {level: {} for level in range(len(release))}
    edge_mass = 0.0
    for (_, *path), weight in paths.items():
        prob = math.exp(weight - log_all)
        for level, count in enumerate(path):
            pmfs[level][count] = pmfs[level].get(count, 0.0) + prob
        if any(path[level] == ends[level] for level in range(1, len(path))):
            edge_mass += prob
    return PathPosterior(math.exp(log_in - log_all), log_in - log_out, pmfs, edge_mass)


def _weigh_paths(
    release: Sequence[int],
    sibling_sums: Sequence[int],
    noises: Sequence[Law],
    siblings_noises: Sequence[Law | None],
    beliefs: Sequence[Law],
    prior: float,
    inside: tuple[int, int],
    counts: Sequence[Sequence[int]],
) -> dict[tuple[int, ...], float]:
    """Log weight of every possible path (target, X_1, ..., X_L), grown one level at a time."""
    paths: dict[tuple[int, ...], float] = {(0,): _log(1.0 - prior), (1,): _log(prior)}
    for level in range(len(release)):
        longer: dict[tuple[int, ...], float] = {}
        for path, weight in paths.items():
            below = inside[path[0]] if level == 0 else path[-1]
            for total in counts[level]:
                grown = weight + beliefs[level](total, below) + noises[level](release[level], total)
                siblings_noise = siblings_noises[level - 1] if level > 0 else None
                if siblings_noise is not None and grown > -math.inf:
                    grown += siblings_noise(sibling_sums[level - 1], total - below)
                if grown > -math.inf:
                    longer[(*path, total)] = grown
        paths = longer
    return paths


# ---------------------------------------------------------------------------------------------------------------------
# Averages over releases, by visiting every release
# ---------------------------------------------------------------------------------------------------------------------


class PathRisk(NamedTuple):
    """Averages over the releases visited, under one truth.

    posterior_mean, ratio_mean : mean of P(in | release), and of it divided by the prior; eqs. (2.5), (2.6).
    prob_correct : the reader says "in" when P(in | release) > 1/2, strictly; a tie is "out".
    tie_mass : probability that |log-odds| < 1e-9.
    quantiles : smallest posterior v with P(posterior <= v) >= q, by q.
    wrong_to_right, right_to_wrong : the lowest level alone decides wrongly and the whole path rightly; the reverse.
    mass : probability of the releases visited; what it lacks from 1 is missing from every average.
    """

    posterior_mean: float
    ratio_mean: float
    prob_correct: float
    tie_mass: float
    quantiles: dict[float, float]
    wrong_to_right: float
    right_to_wrong: float
    mass: float


class _Visit(NamedTuple):
    """A row of releases: their probabilities, log Bayes factors of the path and of the lowest level alone."""

    weight: Floats
    log_bayes: Floats
    log_bayes_alone: Floats


TIE = 1e-9


def path_risk(
    truth: Sequence[int],
    target: int,
    noises: Sequence[Law],
    siblings_noises: Sequence[Law | None],
    beliefs: Sequence[Law],
    prior: float,
    inside: tuple[int, int] = (0, 1),
    *,
    counts: Sequence[Sequence[int]],
    releases: Sequence[Sequence[int]],
    sums: Sequence[int] = (),
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
) -> PathRisk:
    """Exact averages over all releases in the windows, for one level or two; the truth stays fixed.

    Kazan & Reiter (2025), eqs. (2.5) and (2.6) for the means, sections 2.2 and 2.4 for decisions under 0-1 loss.

    Parameters
    ----------
    truth : the true counts X_1 (and X_2).
    target : 1 if the target truly is "in", 0 if "out"; only says which decision is right.
    noises, siblings_noises, beliefs, inside, counts : as for `path_posterior`.
    prior : P(in), strictly between 0 and 1.
    releases : one window of released counts per level.
    sums : window of released sibling sums; unused where no sum is published.
    quantiles : levels of the quantiles of P(in | release).
    """
    if not 0.0 < prior < 1.0:
        raise ValueError(f"prior must lie strictly between 0 and 1, got {prior}")
    cached = [functools.cache(noise) for noise in noises]
    if len(truth) == 1:
        visits = _visit_one_level(truth, cached, beliefs, inside, counts, releases)
    elif len(truth) == 2:
        visits = _visit_two_levels(truth, cached, siblings_noises[0], beliefs, inside, counts, releases, sums)
    else:
        raise ValueError(f"one level or two, got {len(truth)}")
    weight, log_bayes, alone = (np.concatenate(column) for column in zip(*visits, strict=True))
    return _summarise(weight, log_bayes, alone, prior, target, quantiles)


def _visit_one_level(
    truth: Sequence[int],
    noises: Sequence[Law],
    beliefs: Sequence[Law],
    inside: tuple[int, int],
    counts: Sequence[Sequence[int]],
    releases: Sequence[Sequence[int]],
) -> Iterator[_Visit]:
    """Every release of the lowest level, one at a time."""
    for first in releases[0]:
        log_out, log_in = (_log_likelihood_alone(first, k, noises[0], beliefs[0], counts[0]) for k in inside)
        weight = np.array([math.exp(noises[0](first, truth[0]))])
        log_bayes = _difference(np.array([log_in]), np.array([log_out]), weight)
        yield _Visit(weight, log_bayes, log_bayes)


def _visit_two_levels(
    truth: Sequence[int],
    noises: Sequence[Law],
    siblings_noise: Law | None,
    beliefs: Sequence[Law],
    inside: tuple[int, int],
    counts: Sequence[Sequence[int]],
    releases: Sequence[Sequence[int]],
    sums: Sequence[int],
) -> Iterator[_Visit]:
    """Every pair of released counts; one row holds all released sibling sums, shape (len(sums),), or (1,) without."""

    @functools.cache
    def sum_row(total: int) -> Floats:
        return np.zeros(1) if siblings_noise is None else np.array([siblings_noise(s, total) for s in sums])

    def log_likelihood(first: int, second: int, contribution: int) -> Floats:
        row = np.full_like(sum_row(0), -np.inf)
        for x1 in counts[0]:
            for x2 in counts[1]:
                believed = beliefs[0](x1, contribution) + beliefs[1](x2, x1)
                log_prob = believed + noises[0](first, x1) + noises[1](second, x2)
                if log_prob > -math.inf:
                    row = np.logaddexp(row, log_prob + sum_row(x2 - x1))
        return row

    for first in releases[0]:
        alone_out, alone_in = (_log_likelihood_alone(first, k, noises[0], beliefs[0], counts[0]) for k in inside)
        for second in releases[1]:
            log_prob = noises[0](first, truth[0]) + noises[1](second, truth[1])
            weight = np.exp(log_prob + sum_row(truth[1] - truth[0]))
            log_out, log_in = (log_likelihood(first, second, k) for k in inside)
            alone = _difference(np.full_like(weight, alone_in), np.full_like(weight, alone_out), weight)
            yield _Visit(weight, _difference(log_in, log_out, weight), alone)


def _log_likelihood_alone(first: int, contribution: int, noise: Law, belief: Law, counts: Sequence[int]) -> float:
    """log P(lowest release | target's contribution), summed over the lowest count."""
    return _log_sum(belief(x1, contribution) + noise(first, x1) for x1 in counts)


def _difference(log_in: Floats, log_out: Floats, weight: Floats) -> Floats:
    """log_in - log_out; a release that happens but is impossible under both hypotheses is an error."""
    impossible = np.isneginf(log_in) & np.isneginf(log_out)
    if np.any(impossible & (weight > 0.0)):
        raise ValueError("a release that the truth can produce is impossible under both hypotheses")
    return np.where(impossible, 0.0, log_in - np.where(impossible, 0.0, log_out))


def _summarise(
    weight: Floats, log_bayes: Floats, alone: Floats, prior: float, target: int, quantiles: Sequence[float]
) -> PathRisk:
    """Weighted averages of ratio = 1 / (p + (1 - p) / Bayes factor), eq. (2.4), and of the decisions."""
    logit = math.log(prior) - math.log1p(-prior)
    ratio = np.exp(-np.logaddexp(math.log(prior), math.log1p(-prior) - log_bayes))
    right = ((logit + log_bayes) >= TIE) == bool(target)
    right_alone = ((logit + alone) >= TIE) == bool(target)
    return PathRisk(
        posterior_mean=prior * _total(weight, ratio),
        ratio_mean=_total(weight, ratio),
        prob_correct=_total(weight, right),
        tie_mass=_total(weight, np.abs(logit + log_bayes) < TIE),
        quantiles={q: _quantile(weight, prior * ratio, q) for q in quantiles},
        wrong_to_right=_total(weight, right & ~right_alone),
        right_to_wrong=_total(weight, ~right & right_alone),
        mass=_total(weight, np.ones_like(weight)),
    )


def _total(weight: Floats, values: NDArray[Any]) -> float:
    return math.fsum((weight * values).tolist())


def _quantile(weight: Floats, values: Floats, q: float) -> float:
    """Smallest value whose cumulative share of the weight reaches q."""
    order = np.argsort(values)
    share = np.cumsum(weight[order]) / np.sum(weight)
    return float(values[order][min(int(np.searchsorted(share, q)), len(values) - 1)])


# ---------------------------------------------------------------------------------------------------------------------
# The Gibbs samplers for two levels, flat belief, others known to be 0
# ---------------------------------------------------------------------------------------------------------------------


def in_given_parent(
    x2: NDArray[Any], first: int, sums: NDArray[Any], rho1: float, siblings: int, prior: float, constrained: bool
) -> Floats:
    """P(X1 = 1 | X2 = x2, data) by Kazan & Reiter (2025), eq. (2.10); broadcasts over x2 and sums.

    Weights exp{-(d+1) rho1/d (k1 - c1)^2} P(k1) at k1 = 0, 1, with c1 = (d first + x2 - sum)/(d+1). `constrained`
    keeps the factor P(x2 | k1), an indicator that k1 <= x2; the published sampler leaves it out.
    """
    d = siblings
    centre = (d * first + x2 - sums) / (d + 1)
    rate = (d + 1) * rho1 / d
    log_bayes = rate * centre**2 - rate * (1.0 - centre) ** 2
    chance = 1.0 / (1.0 + (1.0 - prior) / prior * np.exp(np.clip(-log_bayes, -700.0, 700.0)))
    return np.where(x2 >= 1, chance, 0.0) if constrained else chance


def parent_given_count(
    x1: int, x2: NDArray[Any], second: int, sums: NDArray[Any], rho1: float, rho2: float, siblings: int
) -> Floats:
    """P(X2 = x2 | X1 = x1, data) over a window of x2 (last axis) by Kazan & Reiter (2025), eq. (2.11).

    Weights exp{-(rho2 + rho1/d) (x2 - c2)^2} for x2 >= x1, c2 = (rho2 second + (rho1/d)(sum + x1))/(rho2 + rho1/d).
    """
    small = rho1 / siblings
    centre = (rho2 * second + small * (sums + x1)) / (rho2 + small)
    log_weight = np.where(x2 >= x1, -(rho2 + small) * (x2 - centre) ** 2, -np.inf)
    weight = np.exp(log_weight - np.max(log_weight, axis=-1, keepdims=True))
    return np.asarray(weight / np.sum(weight, axis=-1, keepdims=True), dtype=np.float64)


def gibbs(
    release: tuple[int, int],
    sibling_sum: int,
    rho: tuple[float, float],
    siblings: int,
    prior: float,
    *,
    constrained: bool,
    sweeps: int,
    rng: np.random.Generator,
    window: int = 80,
) -> float:
    """Mean of P(X1 = 1 | X2, data) along one chain that alternates eqs. (2.11) and (2.10), started at X1 = 0.

    `constrained` = True targets the stated model; False is the chain behind the published hierarchical tables.
    """
    x2 = np.arange(window + 1)
    sums = np.array(sibling_sum)
    chance = in_given_parent(x2, release[0], sums, rho[0], siblings, prior, constrained)
    parent = [np.cumsum(parent_given_count(k, x2, release[1], sums, *rho, siblings)) for k in (0, 1)]
    x1, total = 0, 0.0
    for _ in range(sweeps):
        drawn = min(int(np.searchsorted(parent[x1], rng.random(), side="right")), window)
        total += float(chance[drawn])
        x1 = int(rng.random() < chance[drawn])
    return total / sweeps


def gibbs_limit(
    release: tuple[int, int],
    sibling_sums: int | NDArray[Any],
    rho: tuple[float, float],
    siblings: int,
    prior: float,
    *,
    constrained: bool,
    window: int = 80,
) -> Floats:
    """Share of time the chain of `gibbs` spends at X1 = 1 in the long run, without sampling.

    X1 alone is a chain on {0, 1}: it moves to 1 with chance a = E[P(1 | X2) | X1 = 0] from 0 and b = E[P(1 | X2) | X1
    = 1] from 1, hence a / (a + 1 - b). Broadcasts over `sibling_sums`.
    """
    sums = np.asarray(sibling_sums)[..., None]
    x2 = np.arange(window + 1)
    chance = in_given_parent(x2, release[0], sums, rho[0], siblings, prior, constrained)
    a, b = (np.sum(chance * parent_given_count(k, x2, release[1], sums, *rho, siblings), axis=-1) for k in (0, 1))
    return np.asarray(a / (a + 1.0 - b), dtype=np.float64)


# ---------------------------------------------------------------------------------------------------------------------
# Pairs of finite laws
# ---------------------------------------------------------------------------------------------------------------------


def privacy_profile(p: Sequence[float], q: Sequence[float], epsilon: float) -> float:
    """delta(epsilon) = sum_y max(0, p(y) - e^epsilon q(y)): the least delta in (epsilon, delta)-DP, p against q."""
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def renyi_divergence(p: Sequence[float], q: Sequence[float], order: float) -> float:
    """log(sum_y p(y)^order q(y)^(1 - order)) / (order - 1), for order > 1; infinite where q misses mass of p."""
    if any(a > 0.0 and b == 0.0 for a, b in zip(p, q, strict=True)):
        return math.inf
    moment = math.fsum(b * (a / b) ** order for a, b in zip(p, q, strict=True) if b > 0.0)
    return math.log(moment) / (order - 1.0)


def probabilistic_tail(p: Sequence[float], q: Sequence[float], epsilon: float) -> tuple[float, float]:
    """P(|L| > epsilon) under p and under q, L = log p(y)/q(y): both must be <= delta for (epsilon, delta)-PDP.

    Definition before Theorem 22. Equality to within 1e-12 counts as inside.
    """
    under_p, under_q = 0.0, 0.0
    for a, b in zip(p, q, strict=True):
        if (a > 0.0 or b > 0.0) and abs(_log(a) - _log(b)) > epsilon + 1e-12:
            under_p, under_q = under_p + a, under_q + b
    return under_p, under_q


# ---------------------------------------------------------------------------------------------------------------------
# What a guarantee promises about beliefs
# ---------------------------------------------------------------------------------------------------------------------


def posterior_after(prior: float, loss: float) -> float:
    """P(in | y) = p / (p + (1 - p) e^-loss), Theorem 27; `loss` is finite."""
    return float(prior / (prior + (1 - prior) * mpmath.exp(-mpmath.mpf(loss))))


def posterior_bounds(prior: float, epsilon: float) -> tuple[float, float]:
    """p / (p + (1 - p) e^epsilon) <= posterior <= p / (p + (1 - p) e^-epsilon), Theorem 28."""
    return posterior_after(prior, -epsilon), posterior_after(prior, epsilon)


def ratio_bounds(epsilon: float, prior: float = 0.0) -> tuple[float, float]:
    """1 / (p + (1 - p) e^epsilon) <= posterior/prior <= 1 / (p + (1 - p) e^-epsilon).

    Theorem 28 divided by p; the default p = 0 is the bound for every prior, e^-epsilon to e^epsilon, Theorem 29.
    """
    lower, upper = (1 / (prior + (1 - prior) * mpmath.exp(sign * mpmath.mpf(epsilon))) for sign in (1, -1))
    return float(lower), float(upper)


def difference_bounds(epsilon: float, prior: float | None = None) -> tuple[float, float]:
    """posterior - prior: Theorem 28 minus p; for every prior, -+ (e^(eps/2) - 1)/(e^(eps/2) + 1), Theorem 31."""
    if prior is None:
        half = mpmath.exp(mpmath.mpf(epsilon) / 2)
        return float(-(half - 1) / (half + 1)), float((half - 1) / (half + 1))
    lower, upper = posterior_bounds(prior, epsilon)
    return lower - prior, upper - prior


def pdp_epsilon(epsilon: float, delta: float, failure: float) -> float:
    """eps' = log(failure e^eps + delta) - log(failure - delta), Theorem 35.

    (eps, delta)-DP implies (eps', failure)-PDP for delta < failure <= 1; delta = 0 gives back eps.
    """
    if delta == 0.0:
        return epsilon
    if not delta < failure <= 1.0:
        raise ValueError(f"failure must lie above delta and be at most 1, got {failure} and {delta}")
    with mpmath.workdps(DIGITS):
        numerator = mpmath.mpf(failure) * mpmath.exp(epsilon) + mpmath.mpf(delta)
        return float(mpmath.log(numerator) - mpmath.log(mpmath.mpf(failure) - mpmath.mpf(delta)))


def zcdp_direct_epsilon(rho: float, failure: float, points: int = 10_001) -> float:
    """Smallest eps' > rho with (1 + e^-eps') exp(-(eps' - rho)^2 / (4 rho)) <= failure.

    zCDP says E exp((a - 1) L) <= exp(a (a - 1) rho); Markov's inequality at the best a bounds P(L > eps') by the
    exponential above, and the other tail is smaller by e^-eps'. A grid, then a finer grid on the one cell where the
    condition first holds; the answer is the safe end.
    """
    low, high = rho, rho + 2.0 * math.sqrt(rho * math.log(2.0 / failure))
    for _ in range(3):
        grid = np.linspace(low, high, points)
        holds = (1.0 + np.exp(-grid)) * np.exp(-((grid - rho) ** 2) / (4.0 * rho)) <= failure
        holds[-1] = True
        first = int(np.argmax(holds))
        low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    return high


# ---------------------------------------------------------------------------------------------------------------------


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _log_sum(logs: Iterable[float]) -> float:
    """log of the sum of exp(logs); -inf for an empty sum."""
    finite = [x for x in logs if x > -math.inf]
    if not finite:
        return -math.inf
    largest = max(finite)
    return largest + math.log(math.fsum(math.exp(x - largest) for x in finite))
