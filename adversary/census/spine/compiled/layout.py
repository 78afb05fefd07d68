r"""Compiled: a tree of counts as plain arrays, and the factor with which each unit's own measurement enters.

The factor of unit v at count x is

.. math::

    f_v(x) = \exp(-\rho_v (y_v - x)^2 - \alpha_v |y_v - x|)\; H_v(x)\; T_v(x)

with the noisy count y, a discrete Gaussian (rho) or two-sided geometric (alpha) measurement, the mixture H over rates
for leaves that share an unknown rate, and any other likelihood as a table T. Given rate j of the grid, the prior of
each of n leaves is c(x) exp(eta_j x) k_j, so the mixture is a function of their total X alone:
H(X) = sum_j w_j k_j^n exp(eta_j X). Leaves whose count exact information determines ("settled") do not share the rate:
n and X exclude them.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

_, inner = compilers(__file__)


# Stands for "no upper limit": larger than any count. Twice this number still fits 64 bits.
UNBOUNDED = 1 << 61

# Smallest share of mass that a trim may drop: products of doubles underflow at 1e-308.
FINEST = 1e-280

UNIT = np.dtype(
    [(name, np.int64) for name in ("parent", "first", "children", "low", "high", "sharing", "settled", "near")]
    + [(name, np.int64) for name in ("given_first", "given_size", "given_low", "table_first", "table_size")]
    + [(name, np.float64) for name in ("released", "rho", "alpha", "slope", "start", "base")]
    + [(name, np.float64) for name in ("given_tilt", "given_dropped", "least", "most", "trim")]
)
"""Record of one unit, in breadth-first order.

parent, first, children : index of the parent (-1: root) and of the first child, number of children
low, high : smallest and largest possible count; equal if the count is exact
sharing, settled : number of leaves that share a rate within this unit (0: none); people in its settled leaves
near : 1 if `low` and `high` are plausible limits from `within_reach`, 0 if they are exact limits
given_first, given_size, given_low : a leaf's own message, in `Layout.given`, from count `given_low` (size 0: none)
given_tilt, given_dropped : tilt of that message, and the bound on the mass that it lacks
table_first, table_size : log likelihood of counts 0, 1, ... in `Layout.table` (size 0: none)
released, rho, alpha : noisy count, discrete Gaussian rho and geometric alpha (0: not measured that way)
slope, start, base : leaf prior, prior(x + 1) / prior(x) = (slope x + start) / (x + 1), base = log prior(0)
least, most : limits of the unit's own count that are known without noise
trim : factor on the share of mass that one trim of its windows may drop
"""
RATE = np.dtype([(name, np.float64) for name in ("eta", "log_weight", "log_norm")])


class Layout(NamedTuple):
    """One cell of a tree: records of `UNIT` in breadth-first order, records of `RATE`, the arrays they index, and the
    tilt of the message to the root.
    """

    units: Any
    rates: Any
    given: Any
    table: Any
    top_tilt: float


@inner
def largest_eta(L):
    """The largest eta of the grid."""
    top = -np.inf
    for j in range(L.rates.size):
        top = max(top, L.rates[j].eta)
    return top


@inner
def tilt_above(L, theta, v):
    """Tilt of a unit's stored message: the tilt in which its parent's children are combined, nats per person."""
    return theta[L.units[v].parent] if v > 0 else L.top_tilt


@inner
def trim_share(L, tau, v):
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
def log_rate_mixture(L, leaves, x):
    """log H(x) for a number of leaves that share a rate: log sum_j w_j k_j^leaves exp(eta_j x)."""
    top = -np.inf
    for j in range(L.rates.size):
        top = max(top, L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x)
    total = 0.0
    for j in range(L.rates.size):
        total += math.exp(L.rates[j].log_weight + leaves * L.rates[j].log_norm + L.rates[j].eta * x - top)
    return top + math.log(total)


@inner
def rate_moments(L, leaves, x):
    """Posterior mean and variance of eta given the total x of the leaves: first two derivatives of log H."""
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
def sharing_leaves(L, v):
    """Number of leaves that share a rate within a unit, -1 if none do."""
    return L.units[v].sharing if L.units[v].sharing > 0 else -1


@inner
def log_factor(L, v, x):
    """Log of a unit's own factor at count x: its likelihood, times H if leaves share a rate within it."""
    value = log_likelihood(L, v, x)
    if L.units[v].sharing > 0:
        value += log_rate_mixture(L, L.units[v].sharing, x - L.units[v].settled)
    return value


@inner
def tilted_argmax(released, rho, alpha, net_tilt, low, high):
    """Real x in [low, high] that maximises `tilted_log_likelihood`; infinite if it grows without end."""
    beyond = abs(net_tilt) - alpha
    if beyond <= 0.0:
        x = released if alpha > 0.0 or rho > 0.0 else float(low)
    elif rho > 0.0:
        x = released - math.copysign(beyond / (2.0 * rho), net_tilt)
    elif net_tilt > 0.0:
        x = float(low)
    else:
        x = float(high) if high < UNBOUNDED else np.inf
    return x if x == np.inf else min(max(x, float(low)), float(high))


@inner
def tilted_log_likelihood(released, rho, alpha, net_tilt, x):
    """-rho (released - x)^2 - alpha |released - x| - net_tilt x; infinite if x is."""
    gap = released - x
    return np.inf if x == np.inf else -rho * gap * gap - alpha * abs(gap) - net_tilt * x


@inner
def tilted_maximum(released, rho, alpha, net_tilt, low, high):
    """Maximum of `tilted_log_likelihood` over real x in [low, high]."""
    return tilted_log_likelihood(
        released, rho, alpha, net_tilt, tilted_argmax(released, rho, alpha, net_tilt, low, high)
    )


@inner
def tilted_maximum_whole(released, rho, alpha, net_tilt, low, high):
    """Maximum of `tilted_log_likelihood` over whole x in [low, high].

    The function is concave, so the maximum is at one of the two whole numbers next to the real maximiser.
    """
    x = tilted_argmax(released, rho, alpha, net_tilt, low, high)
    below, above = (
        tilted_log_likelihood(released, rho, alpha, net_tilt, math.floor(x)),
        tilted_log_likelihood(released, rho, alpha, net_tilt, math.ceil(x)),
    )
    return max(below, above)


@inner
def log_factor_bound(L, v, net_tilt, leaves, x):
    """Upper bound on log L_v(X) H(X - x - settled) - net_tilt X over the possible counts X of a unit.

    The factor of the unit, divided by the exponential of this bound, is at most 1.

    leaves : number of leaves in the mixture H; negative: no shared rate, H = 1
    x : people in X, beside those of settled leaves, who are not draws of the rate
    """
    return log_factor_bound_within(L, v, net_tilt, leaves, x, L.units[v].low, L.units[v].high)


@inner
def log_factor_bound_within(L, v, net_tilt, leaves, x, low, high):
    """`log_factor_bound` over the counts from low to high only; -inf if there are none."""
    unit = L.units[v]
    low, high = max(low, unit.low), min(high, unit.high)
    x += unit.settled
    top = -np.inf
    if low > high:
        return top
    if unit.table_size > 0:
        for k in range(max(0, low), min(unit.table_size - 1, high) + 1):
            value = log_likelihood(L, v, k) - net_tilt * k
            if leaves >= 0:
                value += log_rate_mixture(L, leaves, k - x)
            top = max(top, value)
        return top
    if leaves < 0:
        return tilted_maximum_whole(unit.released, unit.rho, unit.alpha, net_tilt, low, high)
    total = 0.0
    for turn in range(2):
        for j in range(L.rates.size):
            rate = L.rates[j]
            peak = rate.log_weight + leaves * rate.log_norm - rate.eta * x
            peak += tilted_maximum_whole(unit.released, unit.rho, unit.alpha, net_tilt - rate.eta, low, high)
            if turn == 0:
                top = max(top, peak)
            else:
                total += math.exp(peak - top)
    return top + math.log(total)


@inner
def likelihood_slope(L, v, x):
    """First and second derivative of minus the log likelihood at x, with the geometric one's corner smoothed."""
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
def factor_slope(L, v, x):
    """First and second derivative of minus the log of the unit's factor at x; a negative curvature is set to 0."""
    slope, curvature = likelihood_slope(L, v, x)
    if L.units[v].sharing > 0:
        mean, variance = rate_moments(L, L.units[v].sharing, max(x - L.units[v].settled, 0.0))
        slope -= mean
        curvature -= variance
    return slope, max(curvature, 0.0)
