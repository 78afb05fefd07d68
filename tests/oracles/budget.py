"""Slow twins of the arrow from tolerated risk to epsilon, written to be checked by eye.

Nothing is imported from the package. p is a reader's prior that the target is in the data, q that the record is in the
set S given that, r a relative risk: the posterior of both over its prior p q. The statistic is "any", where anything
may be published, or "count", one count of S. Equations 3.x and theorems are those of Chapter 3 of Kazan's doctoral
thesis.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Real = Any  # an mpmath number; the library carries no types
Pmf = Mapping[int, float]
Slack = Callable[[Floats, Floats], Floats]

DIGITS = 40


# ---------------------------------------------------------------------------------------------------------------------
# Theorem 4 by listing every release
# ---------------------------------------------------------------------------------------------------------------------


class Ratios(NamedTuple):
    """The smallest and the largest relative risk over all releases listed."""

    smallest: float
    largest: float


def relative_risk(p: float, q: float, in_s: float, not_in_s: float, out: float) -> float:
    """P(in S, in | t) / (p q), given the probability of the release t if the target is in S, in but not in S, out."""
    return in_s / (p * q * in_s + p * (1 - q) * not_in_s + (1 - p) * out)


def geometric_noise(epsilon: float, reach: int = 12) -> Pmf:
    """Two-sided geometric noise, P(k) ~ exp(-epsilon |k|), on -reach..reach."""
    return {k: math.tanh(epsilon / 2) * math.exp(-epsilon * abs(k)) for k in range(-reach, reach + 1)}


def two_bin_ratios(noise: Pmf, p: float, q: float) -> Ratios:
    """Publish "in S" and "not in S", each plus its own noise, to a reader who knows every other record.

    Only releases whose noise has mass under all three truths are listed, so the ends of a window do not matter.
    """
    inside = [t for t in noise if t - 1 in noise]
    ratios = [
        relative_risk(p, q, noise[s - 1] * noise[t], noise[s] * noise[t - 1], noise[s] * noise[t])
        for s, t in itertools.product(inside, repeat=2)
    ]
    return Ratios(min(ratios), max(ratios))


def one_count_ratios(noise: Pmf, p: float, q: float) -> Ratios:
    """Publish the count of S alone: a target who is not in S moves it as little as one who is out."""
    ratios = [relative_risk(p, q, noise[t - 1], noise[t], noise[t]) for t in noise if t - 1 in noise]
    return Ratios(min(ratios), max(ratios))


def random_mechanism(rng: np.random.Generator, epsilon: float, top: int, releases: int, bins: int = 2) -> Floats:
    """P(release | data), epsilon-DP under add and remove: shape (releases, top + 1, top + 1).

    Data are two counts, "in S" and "not in S", from 0 to top; with one bin the second is not looked at. P is
    proportional to exp(epsilon u / 2), where u moves by at most 1 from one data set to the next: the smallest of
    cones |data - anchor| + height.
    """
    first, second = np.meshgrid(np.arange(top + 1), np.arange(top + 1), indexing="ij")
    utility = np.full((releases, top + 1, top + 1), np.inf)
    for t in range(releases):
        for _ in range(3):
            anchor = rng.uniform(0, top, 2)
            cone = np.abs(first - anchor[0]) + (bins == 2) * np.abs(second - anchor[1]) + rng.uniform(-top, top)
            utility[t] = np.minimum(utility[t], cone)
    weight = np.exp(0.5 * epsilon * utility)
    return np.asarray(weight / weight.sum(axis=0))


def privacy_of(mechanism: Floats) -> float:
    """The largest log ratio between neighbours: one count differs by one."""
    log_prob = np.log(mechanism)
    return float(max(np.abs(np.diff(log_prob, axis=axis)).max() for axis in (1, 2)))


def mechanism_ratios(mechanism: Floats, p: float, q: float, others: Floats) -> Ratios:
    """Relative risks to a reader with the law `others` (top, top) of everybody else's two counts."""
    top = others.shape[0]
    ratios = []
    for law in mechanism:
        in_s, not_in_s, out = (
            float(np.sum(others * law[down : down + top, right : right + top]))
            for down, right in ((1, 0), (0, 1), (0, 0))
        )
        ratios.append(relative_risk(p, q, in_s, not_in_s, out))
    return Ratios(min(ratios), max(ratios))


def bound_by_linear_programme(p: float, q: float, epsilon: float, statistic: str = "any") -> Ratios:
    """Extremes of the relative risk of one release over every (P, N, O) that pure DP allows; no theorem is used.

    P, N and O are the probabilities of the release if the target is in S, in but not in S, and out; scaled so that
    p q P + p (1 - q) N + (1 - p) O = 1, the relative risk is P.
    """
    from scipy.optimize import linprog

    e = math.exp(epsilon)
    neighbours = [[1, 0, -e], [-e, 0, 1], [0, 1, -e], [0, -e, 1]]  # P and O, N and O
    if statistic == "count":
        neighbours += [[0, 1, -1], [0, -1, 1]]  # N = O
    scaled = [[p * q, p * (1 - q), 1 - p]]
    extremes = [
        linprog([sign, 0, 0], A_ub=neighbours, b_ub=[0] * len(neighbours), A_eq=scaled, b_eq=[1]).x[0]
        for sign in (1, -1)
    ]
    return Ratios(*extremes)


# ---------------------------------------------------------------------------------------------------------------------
# Theorem 4 and its inverse with forty digits
# ---------------------------------------------------------------------------------------------------------------------


def with_digits[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run with DIGITS digits."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpmath.workdps(DIGITS):
            return function(*args, **kwargs)

    return run


@with_digits
def exact_bound(p: float, q: float, epsilon: Real, statistic: str = "any", side: str = "upper") -> Real:
    """Theorem 4 at doubles taken as they are: three terms, for the three things that can be true."""
    p, q, x = mpmath.mpf(p), mpmath.mpf(q), mpmath.exp(-epsilon if side == "upper" else epsilon)
    if statistic == "count":
        return 1 / (p * q + x * (1 - p * q))
    return 1 / (p * q + x**2 * p * (1 - q) + x * (1 - p))


@with_digits
def exact_epsilon(p: float, q: float, ratio: float, statistic: str = "any") -> Real:
    """The epsilon at which Theorem 4 gives this ratio, by halving an interval; infinite from 1 / (p q) on."""
    if math.isinf(ratio) or Fraction(ratio) * Fraction(p) * Fraction(q) >= 1:
        return mpmath.inf
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while exact_bound(p, q, high, statistic) < ratio:
        low, high = high, 2 * high
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_bound(p, q, middle, statistic) < ratio else (low, middle)
    return (low + high) / 2


# ---------------------------------------------------------------------------------------------------------------------
# The published forms, as printed
# ---------------------------------------------------------------------------------------------------------------------


def printed_epsilon(p: float, q: float, r: float) -> float:
    """Theorem 5, equation (3.14): two branches, and a difference of nearly equal numbers in the first."""
    if q == 1:
        return math.log((1 - p) / (1 / r - p))
    root = math.sqrt((1 - p) ** 2 + 4 * p * (1 - q) * (1 / r - p * q))
    return math.log(2 * p * (1 - q) / (root - (1 - p)))


def printed_theorem_11(p: float, a: float, r: float) -> float:
    """Inclusion prior fixed at p; the profile is the larger of a / (p q) and r."""
    if p <= a / r:
        return math.log(a * (1 - p) / (p * (1 - a)))
    k = p * r - a
    return math.log(2 * k / (math.sqrt(r**2 * (1 - p) ** 2 + 4 * k * (1 - a)) - r * (1 - p)))


def printed_theorem_12(q: float, a: float, r: float) -> float:
    """Value prior fixed at q; the profile is the larger of a / (p q) and r."""
    if q == 1:
        return math.log((r - a) / (1 - a))
    if q <= a / r:
        return 0.5 * math.log(a * (1 - q) / (q * (1 - a)))
    if q <= 1 / (r + 1):
        return 0.5 * math.log((1 - q) / (1 / r - q))
    k = r * q - a
    return math.log(2 * a * (1 - q) / (math.sqrt(k**2 + 4 * a * q * (1 - q) * (1 - a)) - k))


def authors_grid(profile: Callable[[float, float], float], cells: int = 1000) -> float:
    """The smallest of eps(p, q, profile) on a square grid of priors, as the authors scan it: never below the truth."""
    best = math.inf
    for i, j in itertools.product(range(1, cells + 1), repeat=2):
        p, q = i / cells, j / cells
        c = 1 / profile(p, q) - p * q
        if c > 0:
            best = min(best, math.log(((1 - p) + math.sqrt((1 - p) ** 2 + 4 * p * (1 - q) * c)) / (2 * c)))
    return best


# ---------------------------------------------------------------------------------------------------------------------
# The smallest epsilon over all priors, of many profiles at once
# ---------------------------------------------------------------------------------------------------------------------

NEARLY_ZERO = 1e-18


class Optimum(NamedTuple):
    """The smallest epsilon found and where, one of each per profile."""

    epsilon: Floats
    inclusion: Floats
    value: Floats


def pointwise_epsilon(p: Floats, q: Floats, c: Floats, statistic: str) -> Floats:
    """Theorem 5 with c = 1 / r* - p q, infinite for c <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if statistic == "count":
            epsilon = np.log((1 - p * q) / c)
        else:
            epsilon = np.log(((1 - p) + np.sqrt((1 - p) ** 2 + 4 * p * (1 - q) * c)) / (2 * c))
    return np.where(c > 0, epsilon, np.inf)


def larger_of(ratio: ArrayLike, absolute: ArrayLike) -> Slack:
    """c of r* = max(absolute / (p q), ratio), each an array over profiles; absolute 0 leaves the ratio alone."""
    r, a = (np.asarray(v, float)[..., None, None] for v in (ratio, absolute))
    with np.errstate(divide="ignore"):
        factor = np.where(a > 0, (1 - a) / a, 0)
    return lambda p, q: np.minimum(np.where(a > 0, p * q * factor, np.inf), 1 / r - p * q)


def gain_of(b: ArrayLike) -> Slack:
    """c of r* = 1 + b / (p q): the posterior may exceed the prior by b."""
    b = np.asarray(b, float)[..., None, None]
    return lambda p, q: p * q * (1 - p * q - b) / (p * q + b)


def axis(low: Floats, high: Floats, points: int) -> Floats:
    """Half of the points evenly spaced, half evenly in logarithms, of every interval: shape (n, 2 points)."""
    low = np.maximum(low, NEARLY_ZERO * high)
    even = np.linspace(low, high, points, axis=-1)
    return np.concatenate([even, np.exp(np.linspace(np.log(low), np.log(high), points, axis=-1))], axis=-1)


def global_optimum(
    slack: Callable[[slice], Slack],
    inclusion: tuple[ArrayLike, ArrayLike],
    value: tuple[ArrayLike, ArrayLike],
    statistic: str = "any",
    *,
    points: int = 24,
    zooms: int = 52,
) -> Optimum:
    """Smallest pointwise epsilon over the box of priors of every profile.

    A grid on the whole box, then ever smaller grids of 9 x 9 around the best, in log p and log pq: the line pq = const
    along which a larger-of profile switches is then an axis, and a best point at an end moves the grid along. A prior
    that may be 0 goes down to 1e-18 times its upper end.

    Parameters
    ----------
    slack : c = 1 / r* - p q of some of the profiles, given a slice of them
    inclusion, value : ends of p and q, arrays over profiles (n,)
    """
    ends = np.broadcast_arrays(*(np.asarray(v, float) for v in (*inclusion, *value)))
    chunks = [slice(start, start + 250) for start in range(0, ends[0].size, 250)]
    parts = [_zoom(slack(chunk), [end[chunk] for end in ends], statistic, points, zooms) for chunk in chunks]
    return Optimum(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _zoom(slack: Slack, ends: list[Floats], statistic: str, points: int, zooms: int) -> Optimum:
    """The search of `global_optimum` for one chunk."""
    p0, p1, q0, q1 = (end[:, None, None] for end in ends)
    row = np.arange(p0.shape[0])

    def best_of(p: Floats, q: Floats, best: Optimum | None) -> Optimum:
        p, q = np.broadcast_arrays(p, q)
        epsilon = pointwise_epsilon(p, q, slack(p, q), statistic).reshape(row.size, -1)
        at = epsilon.argmin(axis=1)
        found = [epsilon[row, at], p.reshape(row.size, -1)[row, at], q.reshape(row.size, -1)[row, at]]
        if best is None:
            return Optimum(*found)
        better = found[0] < best.epsilon
        return Optimum(*(np.where(better, new, old) for new, old in zip(found, best, strict=True)))

    best = best_of(axis(ends[0], ends[1], points)[:, :, None], axis(ends[2], ends[3], points)[:, None, :], None)
    offsets, width = np.linspace(-1, 1, 9), 2.0
    for _ in range(zooms):
        log_p = np.log(best.inclusion)
        log_pq = log_p + np.log(best.value)
        p = np.clip(np.exp(log_p[:, None, None] + width * offsets[:, None]), np.maximum(p0, NEARLY_ZERO * p1), p1)
        q = np.exp(log_pq[:, None, None] + width * offsets) / p
        best = best_of(p, np.clip(q, np.maximum(q0, NEARLY_ZERO * q1), q1), best)
        width *= 0.5
    return best


# ---------------------------------------------------------------------------------------------------------------------
# attained: what one or two noisy counts tell, over all their releases
# ---------------------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """A release: its relative risk, and its probability if the target is in S, in but not in S, and out."""

    ratio: Any
    in_s: Any
    not_in_s: Any
    out: Any


def two_count_outcomes(p: Any, q: Any, with_one: Mapping[int, Any], without: Mapping[int, Any]) -> list[Outcome]:
    """Every pair of releases of "in S" and "not in S"; each count is 1 if the target is in it, else 0.

    `with_one` and `without` are the laws of the release of a 1 and of a 0, on the same releases. Fractions stay exact.
    """
    found = []
    for s, t in itertools.product(without, repeat=2):
        in_s, not_in_s, out = with_one[s] * without[t], without[s] * with_one[t], without[s] * without[t]
        found.append(Outcome(relative_risk(p, q, in_s, not_in_s, out), in_s, not_in_s, out))
    return found


def one_count_outcomes(p: Any, q: Any, with_one: Mapping[int, Any], without: Mapping[int, Any]) -> list[Outcome]:
    """Every release of "in S" alone, which a person outside S and an absent one leave at 0."""
    return [
        Outcome(relative_risk(p, q, with_one[s], without[s], without[s]), with_one[s], without[s], without[s])
        for s in without
    ]


def outcome_tails(outcomes: list[Outcome], ratio: Any) -> tuple[float, float, float]:
    """P(relative risk > ratio) if the target is in S, in but not in S, and out."""
    beyond = [outcome for outcome in outcomes if outcome.ratio > ratio]
    return tuple(float(sum(outcome[k] for outcome in beyond)) for k in (1, 2, 3))  # type: ignore[return-value]


def lumped_geometric(x: Fraction) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """Exact laws of a noisy 1 and a noisy 0 when only "at most 0" and "at least 1" are told apart: nothing is lost."""
    tail = x / (1 + x)  # P(noise >= 1)
    return {0: tail, 1: 1 - tail}, {0: 1 - tail, 1: tail}


def two_count_tail(
    density: Callable[[float], float],
    survival: Callable[[float], float],
    reach: float,
    p: float,
    q: float,
    ratio: float,
    truth: str,
) -> float:
    """P(relative risk > ratio) for two counts with continuous noise, by quadrature over both releases.

    The relative risk rises with the release of "in S": bisection finds where it passes `ratio`, given the other
    release, over which an adaptive rule integrates, in pieces split at the noise's kinks, 0 and 1.

    Parameters
    ----------
    density, survival : of the noise, at a real number
    reach : releases beyond -reach and reach + 1 are left out
    """
    from scipy.integrate import quad

    here, there = float(truth == "in S"), float(truth == "not in S")

    def risk(y: float, z: float) -> float:
        in_s = density(y - 1) * density(z)
        return relative_risk(p, q, in_s, density(y) * density(z - 1), density(y) * density(z))

    def given(z: float) -> float:
        low, high = -reach, reach + 1.0
        if risk(high, z) <= ratio:
            return 0.0
        if risk(low, z) > ratio:
            return density(z - there)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if risk(middle, z) > ratio else (middle, high)
        return survival(high - here) * density(z - there)

    cuts = [-reach, -reach / 4, *np.linspace(0.0, 1.0, 9), reach / 4 + 1.0, reach + 1.0]
    pieces = [quad(given, a, b, epsabs=1e-11, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(cuts)]
    return float(sum(pieces))
