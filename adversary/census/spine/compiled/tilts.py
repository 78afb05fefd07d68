r"""Compiled: tilts in which the children of each unit are convolved, by Newton's method for the saddle point.

Any tilts give the right answer; those with theta_v = t_v + d/dx(-log f_v) at the sum x of the children's tilted means
put the windows where the posterior is. A sweep passes up every unit's mean as a linear function A - C t of the tilt t
above it (C is its variance), and then passes down the means.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.layout import (
    factor_slope,
    is_measured,
    largest_eta,
    log_factor,
    tilt_above,
    tilted_argmax,
    tilted_maximum,
)
from adversary.census.spine.compiled.leaves import approximate_mode, leaf_mode, trace_leaf_weights

compiled, inner = compilers(__file__)

# Longest step of a tilt in the first half of the sweeps, and the largest tilt, nats per person: with larger ones,
# rounding errors of exp(-tilt x) would be visible.
STEP, FARTHEST = 8.0, 1e6

# Largest change of a tilt in the last sweep, and the maximum number of sweeps. In the second half of them, steps that
# keep their direction double: noisy counts that differ by hundreds of standard deviations need tilts far out.
CLOSE, SWEEPS = 1e-2, 120

# Standard deviation of a sum of children above which the change of a tilt is weighted in proportion to it: the sum
# moves by variance times change.
WIDE = 33.0

# A leaf's moments are reused while the tilt above it changes by less than this.
SAME = 1e-3
ROUGH = 1e-5
"""Share of mass that the moments of leaves may lack: tilts need not be exact."""

# Variance of a sum below which its mean is taken not to depend on the tilt.
STIFF = 1e-12

# Margin to a tilt at which a unit's factor would grow without end.
INSIDE = 1e-9


@inner
def given_moments(L, v, t):
    """Mean and variance under tilt t of a leaf whose prior is a list of values in `Layout.given`."""
    unit = L.units[v]
    first, size, low = unit.given_first, unit.given_size, unit.given_low
    net_tilt = t - unit.given_tilt
    logs = np.full(size, -np.inf)
    top = -np.inf
    for k in range(size):
        x = low + k
        if L.given[first + k] > 0.0 and unit.low <= x <= unit.high:
            logs[k] = math.log(L.given[first + k]) + log_factor(L, v, x) - net_tilt * x
            top = max(top, logs[k])
    total, mean, square = 0.0, 0.0, 0.0
    for k in range(size):
        w = math.exp(logs[k] - top) if logs[k] > -np.inf else 0.0
        total += w
        mean += w * k
        square += w * k * k
    mean /= total
    return low + mean, max(square / total - mean * mean, 0.0)


@inner
def leaf_moments(L, v, t):
    """Mean and variance of a leaf under tilt t.

    The trace starts at the mode near the measurement. A prior that falls steeply at first may put a second mode at 0;
    relative to that one, weights could overflow.
    """
    if L.units[v].given_size > 0:
        return given_moments(L, v, t)
    mode = leaf_mode(L, v, t, approximate_mode(L, v, t))
    _, _, total, first, second, _ = trace_leaf_weights(L, v, t, mode, ROUGH, np.zeros(0))
    mean = first / total
    return mode + mean, max(second / total - mean * mean, 0.0)


@compiled
def lowest_tilts(L):
    """Infimum of the tilts for which the messages of each unit's children have a finite sum.

    Parameters
    ----------
    L : Layout of one cell

    Returns
    -------
    (unit,) nats per person; -inf where every tilt is allowed
    """
    n = L.units.size
    least = np.full(n, -np.inf)
    for v in range(n - 1, 0, -1):
        unit = L.units[v]
        u = unit.parent
        if unit.given_dropped > 0.0:
            if unit.rho == 0.0 and unit.table_size == 0 and unit.high >= 1 << 60:
                least[u] = max(least[u], unit.given_tilt - unit.alpha)
        elif unit.children == 0:
            if unit.given_size == 0 and unit.rho == 0.0 and unit.high >= 1 << 60:
                least[u] = max(least[u], math.log(unit.slope) - unit.alpha if unit.slope > 0.0 else -np.inf)
        elif unit.rho == 0.0 and unit.table_size == 0 and unit.high >= 1 << 60:
            rate = largest_eta(L) if unit.sharing > 0 else 0.0
            least[u] = max(least[u], least[v] + rate - unit.alpha)
    return least


@inner
def truncated_exponential_moments(net_tilt, low, high):
    """Log of the integral of exp(-net_tilt x) over [low, high], and mean and variance of x under this density."""
    width = high - low
    decay = abs(net_tilt) * width
    if decay < 1e-3:
        log, mean, variance = math.log(width) - 0.5 * decay, 0.5 - decay / 12.0, 1.0 / 12.0
    else:
        rest = math.exp(-decay)
        log = math.log(width) + math.log(-math.expm1(-decay) / decay)
        mean = 1.0 / decay - rest / -math.expm1(-decay)
        variance = max(1.0 / decay**2 - rest / math.expm1(-decay) ** 2, 0.0)
    if net_tilt < 0.0:
        return log - net_tilt * high, high - width * mean, width * width * variance
    return log - net_tilt * low, low + width * mean, width * width * variance


@inner
def linearise_rate_mixture(L, v, net_tilt):
    """(x, slope, curvature) of a unit with a shared rate, from the bound on its factor, averaged over all rates.

    `log_factor_bound` is convex in the tilt; its slope is minus the weighted average, over rates, of the count that
    maximises each component. The resulting tilt preserves all components of a mixture whose rates lie far apart; a tilt
    at the maximum of the factor would preserve one. If counts are limited and not measured, the integral over counts
    replaces the maximum, whose location would jump between the limits.
    """
    unit = L.units[v]
    top = -np.inf
    total, first, second, within = 0.0, 0.0, 0.0, 0.0
    for turn in range(2):
        for j in range(L.rates.size):
            rate = L.rates[j]
            if unit.rho > 0.0:
                log = tilted_maximum(unit.released, unit.rho, unit.alpha, net_tilt - rate.eta, unit.low, unit.high)
                x = tilted_argmax(unit.released, unit.rho, unit.alpha, net_tilt - rate.eta, unit.low, unit.high)
                own_variance = 0.5 / unit.rho if unit.low < x < unit.high else 0.0
            else:
                log, x, own_variance = truncated_exponential_moments(
                    net_tilt - rate.eta, float(unit.low), float(unit.high)
                )
            log += rate.log_weight + unit.sharing * rate.log_norm - rate.eta * unit.settled
            if turn == 0:
                top = max(top, log)
            else:
                w = math.exp(log - top)
                total += w
                first += w * x
                second += w * x * x
                within += w * own_variance
    mean = first / total
    least = 0.025 / unit.rho if unit.rho > 0.0 else 1.0
    growth = max(within / total + second / total - mean * mean, least)
    return mean, -net_tilt, 1.0 / growth


@inner
def linearise_factor(L, v, t, theta, x, keep_all_rates):
    """(x, slope, curvature): expansion point of a unit's factor in one sweep; derivatives of minus its log there."""
    unit = L.units[v]
    if keep_all_rates and unit.sharing > 0 and (unit.rho > 0.0 or unit.near > 0) and unit.table_size == 0:
        return linearise_rate_mixture(L, v, t - theta)
    slope, curvature = factor_slope(L, v, x)
    return x, slope, curvature


@compiled
def find_tilts(L, keep_all_rates):
    """Saddle point tilts of all internal units, by Newton's method.

    Parameters
    ----------
    L : Layout of one cell
    keep_all_rates : whether units with a shared rate are tilted by `linearise_rate_mixture`, for all rates at once

    Returns
    -------
    (theta, sweeps): (unit,) tilts in nats per person, and the number of sweeps, at most `SWEEPS`
    """
    n = L.units.size
    least = lowest_tilts(L)
    theta = np.zeros(n)
    intercept, own_variance = np.zeros(n), np.zeros(n)
    child_intercept, child_variance = np.zeros(n), np.zeros(n)
    expanded_at, last_change, step_limit = np.zeros(n), np.zeros(n), np.full(n, STEP)
    for v in range(n):
        if least[v] >= 0.0:
            theta[v] = least[v] + 1.0
        expanded_at[v] = max(L.units[v].released, 0.0) if L.units[v].children > 0 else np.nan
    points, slopes, curvatures = np.zeros(n), np.zeros(n), np.zeros(n)
    own_mean, child_mean, step, slope_at_start = np.zeros(n), np.zeros(n), np.zeros(n), 0.0
    sweeps = 0
    for sweep in range(SWEEPS):
        sweeps += 1
        most = STEP if 2 * sweep < SWEEPS else FARTHEST
        for v in range(n):
            child_intercept[v] = child_variance[v] = child_mean[v] = 0.0
        for v in range(n - 1, -1, -1):
            t, unit = tilt_above(L, theta, v), L.units[v]
            if unit.low == unit.high:
                intercept[v], own_variance[v], own_mean[v] = float(unit.low), 0.0, float(unit.low)
            elif unit.children == 0:
                if not abs(t - expanded_at[v]) < SAME:
                    mean, variance = leaf_moments(L, v, t)
                    intercept[v], own_variance[v], expanded_at[v] = mean + variance * t, variance, t
                own_mean[v] = intercept[v] - own_variance[v] * t
            else:
                x, slope, curvature = linearise_factor(L, v, t, theta[v], expanded_at[v], keep_all_rates)
                points[v], slopes[v], curvatures[v] = x, slope, curvature
                c = child_variance[v]
                intercept[v] = (child_intercept[v] + c * (curvature * x - slope)) / (1.0 + curvature * c)
                own_variance[v] = c / (1.0 + curvature * c)
                own_mean[v] = x + (theta[v] - t - slope) / curvature if curvature > 0.0 else child_mean[v]
            if v > 0:
                child_intercept[unit.parent] += intercept[v]
                child_variance[unit.parent] += own_variance[v]
                child_mean[unit.parent] += own_mean[v]
        # slope of the bound along the last step at its end; `slope_at_start` at its start
        slope_at_end = 0.0
        for v in range(n):
            if L.units[v].children > 0:
                slope_at_end += step[v] * (own_mean[v] - child_mean[v])
        # the bound is convex: its minimum lies between start and end
        if keep_all_rates and slope_at_start < 0.0 and slope_at_end > -0.5 * slope_at_start:
            share = max(-slope_at_start / (slope_at_end - slope_at_start), 0.1)
            for v in range(n):
                theta[v] -= (1.0 - share) * step[v]
                step[v] *= share
            slope_at_start *= share
            continue
        largest = slope_at_start = 0.0
        for v in range(n):
            unit = L.units[v]
            if unit.children == 0:
                continue
            t = tilt_above(L, theta, v)
            if unit.low == unit.high:
                x = float(unit.low)
                excess = child_intercept[v] - child_variance[v] * theta[v] - x
                if child_variance[v] > STIFF:
                    wanted = theta[v] + excess / child_variance[v]
                else:  # all children are at a limit of their counts
                    wanted = theta[v] + (math.copysign(STEP, excess) if abs(excess) > 0.5 else 0.0)
            else:
                x = intercept[v] - own_variance[v] * t
                wanted = t + slopes[v] + curvatures[v] * (x - points[v])
            change = wanted - theta[v]
            # a change of direction: halve the step, as mixtures of rates may be concave
            if change * last_change[v] < 0.0 and not keep_all_rates:
                step_limit[v] = min(step_limit[v], 0.5 * abs(last_change[v]))
            elif abs(change) > step_limit[v]:  # the same direction again: undo the halving of an early turn
                step_limit[v] = min(2.0 * step_limit[v], most)
            change = last_change[v] = min(max(change, -step_limit[v]), step_limit[v])
            new = min(max(theta[v] + change, -FARTHEST), FARTHEST)
            if new <= least[v]:
                new = 0.5 * (theta[v] + least[v]) if theta[v] > least[v] else least[v] + 0.5
            step[v] = new - theta[v]
            largest = max(largest, abs(step[v]) * max(1.0, math.sqrt(child_variance[v]) / WIDE))
            slope_at_start += step[v] * (own_mean[v] - child_mean[v])
            theta[v] = new
            if new != wanted:
                x = child_intercept[v] - child_variance[v] * new
            expanded_at[v] = min(max(x, float(unit.low)), float(unit.high))
        if largest < CLOSE:
            break
    return limit_tilts(L, theta), sweeps


@inner
def final_slope(L, v):
    """Slope of minus a unit's log likelihood as counts grow: alpha, last step of a table, or infinite (Gaussian)."""
    unit = L.units[v]
    if unit.rho > 0.0:
        return np.inf
    if unit.table_size < 2:
        return unit.alpha
    end = unit.table_first + unit.table_size - 1
    fall = L.table[end - 1] - L.table[end]
    return fall if math.isfinite(fall) else np.inf


@inner
def limit_tilts(L, theta):
    """Limit the tilts in `theta`, in place, to where no unit's factor grows without end, and return them.

    Concerns units with children, if their count is neither exact nor limited by `within_reach`. A unit with neither a
    likelihood of its own nor a shared rate gets exactly the tilt of its parent.
    """
    for v in range(L.units.size):
        unit = L.units[v]
        if unit.children > 0 and unit.low < unit.high and unit.near == 0:
            t = tilt_above(L, theta, v)
            most = t + final_slope(L, v) - INSIDE
            if unit.sharing > 0:
                most -= largest_eta(L)
            theta[v] = min(theta[v], most) if is_measured(L, v) or unit.sharing > 0 else t
    return theta
