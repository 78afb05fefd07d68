r"""Compiled: a tree of counts as plain arrays, and the factor with which each unit's own measurement enters.

The factor of unit v at count x is

.. math::

    f_v(x) = \exp(-\rho_v (y_v - x)^2 - \alpha_v |y_v - x|)\; H_v(x)\; T_v(x)

with the noisy count y, a discrete Gaussian (rho) or two-sided geometric (alpha) measurement, the law H of the total of
leaves that share an unknown rate, and any other likelihood as a table T. Leaves with one rate out of a grid have a
prior of the form c(x) exp(eta_j x) k_j; their total X then carries the whole mixture,
H(X) = sum_j w_j k_j^n exp(eta_j X). Leaves whose counts are settled are none of these n, nor are their people of X.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

_, inner = compilers(__file__)


# A count that no unit reaches: the largest one where nothing exact limits it.
UNBOUNDED = 1 << 61

# Share of mass that a trim may drop at the least: products of doubles end at 1e-308.
FINEST = 1e-280

UNIT = np.dtype(
    [(name, np.int64) for name in ("parent", "first", "children", "low", "high", "sharing", "settled", "near")]
    + [(name, np.int64) for name in ("given_first", "given_size", "given_low", "table_first", "table_size")]
    + [(name, np.float64) for name in ("released", "rho", "alpha", "slope", "start", "base")]
    + [(name, np.float64) for name in ("given_tilt", "given_dropped", "least", "most", "trim")]
)
"""A unit: its place in the tree; smallest and largest possible count, one and the same where it is exact; the number of
leaves below whose shared rate ends here (0: none), the people of those beside them whose counts are settled, and
whether its limits are those of `within_reach`; a leaf's own message in `given` and another likelihood in `table` (size
0: none); the measurement; the leaf prior, with prior(x + 1) / prior(x) = (slope x + start) / (x + 1) and
base = log prior(0); `least` and `most`, known of its own count without noise; and the share of what trims may drop
elsewhere that they may drop here.
"""
RATE = np.dtype([(name, np.float64) for name in ("eta", "log_weight", "log_norm")])


class Layout(NamedTuple):
    """One cell of a tree: records of `UNIT` in breadth-first order, of `RATE`, and what they point to."""

    units: Any
    rates: Any
    given: Any
    table: Any
    top_tilt: float


@inner
def top_rate(L):
    """The largest eta of the grid."""
    top = -np.inf
    for j in range(L.rates.size):
        top = max(top, L.rates[j].eta)
    return top


@inner
def tilt_above(L, theta, v):
    """Tilt in which a unit's message is stored: that in which its parent's children are combined."""
    return theta[L.units[v].parent] if v > 0 else L.top_tilt


@inner
def trim_at(L, tau, v):
    """Share of mass that one trim of a unit's windows may drop."""
    return max(tau * L.units[v].trim, FINEST)


@inner
def is_measured(L, v):
    """True if a unit has a likelihood of its own."""
    return L.units[v].rho > 0.0 or L.units[v].alpha > 0.0 or L.units[v].table_size > 0


@inner
def log_likelihood(L, v, x):
    """Log of a unit's own likelihood at a count."""
    gap = L.units[v].released - x
    value = -L.units[v].rho * gap * gap - L.units[v].alpha * abs(gap)
    if L.units[v].table_size > 0:
        value += L.table[L.units[v].table_first + x] if 0 <= x < L.units[v].table_size else -np.inf
    return value


@inner
def log_rates(L, leaves, x):
    """log H(x) of so many leaves that share a rate: log sum_j w_j k_j^leaves exp(eta_j x)."""
    top = -np.inf
    for j in range(L.rates.size):
        top = max(top, L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x)
    total = 0.0
    for j in range(L.rates.size):
        total += math.exp(L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x - top)
    return top + math.log(total)


@inner
def rate_moments(L, leaves, x):
    """Mean and variance of eta given the total: the first two derivatives of log H."""
    top = -np.inf
    for j in range(L.rates.size):
        top = max(top, L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x)
    total, first, second = 0.0, 0.0, 0.0
    for j in range(L.rates.size):
        w = math.exp(L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x - top)
        total += w
        first += w * L.rates[j].eta
        second += w * L.rates[j].eta * L.rates[j].eta
    mean = first / total
    return mean, max(0.0, second / total - mean * mean)


@inner
def sharers(L, v):
    """Number of leaves whose shared rate ends in a unit, -1 where none does."""
    return L.units[v].sharing if L.units[v].sharing > 0 else -1


@inner
def log_factor(L, v, x):
    """Log of a unit's own factor: likelihood, and the law of its total where a shared rate ends here."""
    value = log_likelihood(L, v, x)
    if L.units[v].sharing > 0:
        value += log_rates(L, L.units[v].sharing, x - L.units[v].settled)
    return value


@inner
def summit(released, rho, alpha, drop, low, high):
    """Real x in [low, high] where `log_at` is largest, infinite if there is none."""
    beyond = abs(drop) - alpha
    if beyond <= 0.0:
        x = released if alpha > 0.0 or rho > 0.0 else float(low)
    elif rho > 0.0:
        x = released - math.copysign(beyond / (2.0 * rho), drop)
    elif drop > 0.0:
        x = float(low)
    else:
        x = float(high) if high < UNBOUNDED else np.inf
    return x if x == np.inf else min(max(x, float(low)), float(high))


@inner
def log_at(released, rho, alpha, drop, x):
    """-rho (released - x)^2 - alpha |released - x| - drop x, infinite where x is."""
    gap = released - x
    return np.inf if x == np.inf else -rho * gap * gap - alpha * abs(gap) - drop * x


@inner
def log_summit(released, rho, alpha, drop, low, high):
    """Its largest value over real x in [low, high]."""
    return log_at(released, rho, alpha, drop, summit(released, rho, alpha, drop, low, high))


@inner
def log_whole_summit(released, rho, alpha, drop, low, high):
    """Its largest value over whole x in [low, high]: it is concave, so at one of the two next to the real summit."""
    x = summit(released, rho, alpha, drop, low, high)
    below, above = log_at(released, rho, alpha, drop, math.floor(x)), log_at(released, rho, alpha, drop, math.ceil(x))
    return max(below, above)


@inner
def log_peak(L, v, drop, leaves, x):
    """At least the log of the largest L_v(X) H(X - x) exp(-drop X) over the counts possible, H of so many leaves.

    X - x is without the people of settled leaves, too.
    Without a shared rate (leaves < 0), of L_v(X) exp(-drop X). Divided by it, the factor of a unit is at most 1.
    """
    return log_peak_within(L, v, drop, leaves, x, L.units[v].low, L.units[v].high)


@inner
def log_peak_within(L, v, drop, leaves, x, low, high):
    """`log_peak` over the counts from low to high only; -inf where there are none."""
    unit = L.units[v]
    low, high = max(low, unit.low), min(high, unit.high)
    x += unit.settled
    top = -np.inf
    if low > high:
        return top
    if unit.table_size > 0:
        for k in range(max(0, low), min(unit.table_size - 1, high) + 1):
            value = log_likelihood(L, v, k) - drop * k
            if leaves >= 0:
                value += log_rates(L, leaves, k - x)
            top = max(top, value)
        return top
    if leaves < 0:
        return log_whole_summit(unit.released, unit.rho, unit.alpha, drop, low, high)
    total = 0.0
    for turn in range(2):
        for j in range(L.rates.size):
            rate = L.rates[j]
            peak = rate.log_weight + leaves * rate.log_norm - rate.eta * x
            peak += log_whole_summit(unit.released, unit.rho, unit.alpha, drop - rate.eta, low, high)
            if turn == 0:
                top = max(top, peak)
            else:
                total += math.exp(peak - top)
    return top + math.log(total)


@inner
def likelihood_slope(L, v, x):
    """Derivative and curvature of minus the log likelihood at x; the corner of a geometric one is rounded for this."""
    unit = L.units[v]
    gap = x - unit.released
    slope, curvature = 2.0 * unit.rho * gap, 2.0 * unit.rho
    if unit.alpha > 0.0:
        size = math.sqrt(gap * gap + 0.25)
        slope += unit.alpha * gap / size
        curvature += 0.25 * unit.alpha / size**3
    if unit.table_size > 2:
        place = unit.table_first + int(min(max(round(x), 1), unit.table_size - 2))
        before, here, after = L.table[place - 1], L.table[place], L.table[place + 1]
        if math.isfinite(before) and math.isfinite(here) and math.isfinite(after):
            slope -= 0.5 * (after - before)
            curvature -= after - 2.0 * here + before
    return slope, curvature


@inner
def slope_of(L, v, x):
    """Derivative and curvature of minus the log of the whole factor; a negative curvature is set to 0."""
    slope, curvature = likelihood_slope(L, v, x)
    if L.units[v].sharing > 0:
        mean, variance = rate_moments(L, L.units[v].sharing, max(x - L.units[v].settled, 0.0))
        slope -= mean
        curvature -= variance
    return slope, max(curvature, 0.0)
