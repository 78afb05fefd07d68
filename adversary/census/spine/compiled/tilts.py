r"""Compiled: the tilts in which the children of each unit are combined, by Newton's method on the saddle point.

Any tilts give the right answer; those with theta_v = t_v + d/dx(-log f_v) at the sum x of the children's tilted means
put the windows where the posterior is. A sweep goes up with every unit's mean as a line A - C t in the tilt above it,
and down with the means.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.layout import (
    is_measured,
    log_factor,
    log_summit,
    slope_of,
    summit,
    tilt_above,
    top_rate,
)
from adversary.census.spine.compiled.leaves import first_guess, mode_of, walk

compiled, inner = compilers(__file__)

# Longest step of a tilt in the first half of the sweeps, and the largest tilt, beyond which rounding would show.
STEP, FARTHEST = 8.0, 1e6

# A sweep that changes no tilt by more ends the search; so many are the most. In the second half of them steps that
# go on one way double: noisy counts that contradict each other by hundreds of standard deviations meet far out.
CLOSE, SWEEPS = 1e-2, 120

# Standard deviation of a sum of children from which on the change of a tilt counts in proportion to it.
WIDE = 33.0

# A leaf's line holds while the tilt above it has changed by less.
SAME = 1e-3
ROUGH = 1e-5
"""Mass that the moments of leaves may lack."""

# Variance of a sum below which its mean does not follow the tilt.
STIFF = 1e-12

# Distance kept from a tilt at which a unit's factor would grow without end.
INSIDE = 1e-9


@inner
def given_moments(L, v, t):
    """Mean and variance of a leaf with a message of its own, in tilt t."""
    unit = L.units[v]
    first, size, low = unit.given_first, unit.given_size, unit.given_low
    drop = t - unit.given_tilt
    logs = np.full(size, -np.inf)
    top = -np.inf
    for k in range(size):
        x = low + k
        if L.given[first + k] > 0.0 and unit.low <= x <= unit.high:
            logs[k] = math.log(L.given[first + k]) + log_factor(L, v, x) - drop * x
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
    """Mean and variance of a leaf in tilt t.

    From the top that the measurement asks for: at 0 there may be another, of a prior that falls steeply at first, from
    which the law would rise beyond what a double holds.
    """
    if L.units[v].given_size > 0:
        return given_moments(L, v, t)
    mode = mode_of(L, v, t, first_guess(L, v, t))
    _, _, total, first, second, _ = walk(L, v, t, mode, ROUGH, np.zeros(0))
    mean = first / total
    return mode + mean, max(second / total - mean * mean, 0.0)


@compiled
def domains(L):
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
            rate = top_rate(L) if unit.sharing > 0 else 0.0
            least[u] = max(least[u], least[v] + rate - unit.alpha)
    return least


@inner
def flat_moments(drop, low, high):
    """Log of the integral of exp(-drop x) from low to high, and mean and variance of x under it."""
    width = high - low
    fall = abs(drop) * width
    if fall < 1e-3:
        log, mean, variance = math.log(width) - 0.5 * fall, 0.5 - fall / 12.0, 1.0 / 12.0
    else:
        rest = math.exp(-fall)
        log = math.log(width) + math.log(-math.expm1(-fall) / fall)
        mean = 1.0 / fall - rest / -math.expm1(-fall)
        variance = max(1.0 / fall**2 - rest / math.expm1(-fall) ** 2, 0.0)
    if drop < 0.0:
        return log - drop * high, high - width * mean, width * width * variance
    return log - drop * low, low + width * mean, width * width * variance


@inner
def blend_rates(L, v, drop):
    """(x, slope, curvature) of a unit with a shared rate from where its factor's bound lies, over all rates at once.

    log_peak as a function of the tilt is convex, and its slope is where the summits of the rates lie on average. A
    tilt found so keeps all of a mixture whose rates lie far apart, where one at a summit would keep but that summit.
    Where counts are limited and not measured, their sum takes the place of the summit, which jumps from end to end.
    """
    unit = L.units[v]
    top = -np.inf
    total, first, second, spread = 0.0, 0.0, 0.0, 0.0
    for turn in range(2):
        for j in range(L.rates.size):
            rate = L.rates[j]
            if unit.rho > 0.0:
                log = log_summit(unit.released, unit.rho, unit.alpha, drop - rate.eta, unit.low, unit.high)
                x = summit(unit.released, unit.rho, unit.alpha, drop - rate.eta, unit.low, unit.high)
                wide = 0.5 / unit.rho if unit.low < x < unit.high else 0.0
            else:
                log, x, wide = flat_moments(drop - rate.eta, float(unit.low), float(unit.high))
            log += rate.log_weight + unit.sharing * rate.log_norm - rate.eta * unit.settled
            if turn == 0:
                top = max(top, log)
            else:
                w = math.exp(log - top)
                total += w
                first += w * x
                second += w * x * x
                spread += w * wide
    mean = first / total
    least = 0.025 / unit.rho if unit.rho > 0.0 else 1.0
    growth = max(spread / total + second / total - mean * mean, least)
    return mean, -drop, 1.0 / growth


@inner
def line_of(L, v, t, theta, at, blend):
    """(x, slope, curvature): where a unit's factor is followed in one sweep, and minus its log's derivatives there."""
    unit = L.units[v]
    if blend and unit.sharing > 0 and (unit.rho > 0.0 or unit.near > 0) and unit.table_size == 0:
        return blend_rates(L, v, t - theta)
    slope, curvature = slope_of(L, v, at)
    return at, slope, curvature


@compiled
def saddle(L, blend):
    """Saddle point tilts of all internal units, by Newton's method.

    Parameters
    ----------
    L : Layout of one cell
    blend : whether units with a shared rate are tilted so as to keep all rates, rather than for one summit

    Returns
    -------
    (theta, sweeps): (unit,) tilts in nats per person, and the number of sweeps, at most `SWEEPS`
    """
    n = L.units.size
    least = domains(L)
    theta = np.zeros(n)
    line, fall = np.zeros(n), np.zeros(n)
    sums, falls = np.zeros(n), np.zeros(n)
    at, before, longest = np.zeros(n), np.zeros(n), np.full(n, STEP)
    for v in range(n):
        if least[v] >= 0.0:
            theta[v] = least[v] + 1.0
        at[v] = max(L.units[v].released, 0.0) if L.units[v].children > 0 else np.nan
    places, slopes, curvatures = np.zeros(n), np.zeros(n), np.zeros(n)
    means, totals, step, behind = np.zeros(n), np.zeros(n), np.zeros(n), 0.0
    sweeps = 0
    for sweep in range(SWEEPS):
        sweeps += 1
        most = STEP if 2 * sweep < SWEEPS else FARTHEST
        for v in range(n):
            sums[v] = falls[v] = totals[v] = 0.0
        for v in range(n - 1, -1, -1):
            t, unit = tilt_above(L, theta, v), L.units[v]
            if unit.low == unit.high:
                line[v], fall[v], means[v] = float(unit.low), 0.0, float(unit.low)
            elif unit.children == 0:
                if not abs(t - at[v]) < SAME:
                    mean, variance = leaf_moments(L, v, t)
                    line[v], fall[v], at[v] = mean + variance * t, variance, t
                means[v] = line[v] - fall[v] * t
            else:
                x, slope, curvature = line_of(L, v, t, theta[v], at[v], blend)
                places[v], slopes[v], curvatures[v] = x, slope, curvature
                c = falls[v]
                line[v] = (sums[v] + c * (curvature * x - slope)) / (1.0 + curvature * c)
                fall[v] = c / (1.0 + curvature * c)
                means[v] = x + (theta[v] - t - slope) / curvature if curvature > 0.0 else totals[v]
            if v > 0:
                sums[unit.parent] += line[v]
                falls[unit.parent] += fall[v]
                totals[unit.parent] += means[v]
        # slope of the bound along the last step, where it ends; `behind` where it began
        ahead = 0.0
        for v in range(n):
            if L.units[v].children > 0:
                ahead += step[v] * (means[v] - totals[v])
        # the bound is convex: its least value lies on the way
        if blend and behind < 0.0 and ahead > -0.5 * behind:
            share = max(-behind / (ahead - behind), 0.1)
            for v in range(n):
                theta[v] -= (1.0 - share) * step[v]
                step[v] *= share
            behind *= share
            continue
        largest = behind = 0.0
        for v in range(n):
            unit = L.units[v]
            if unit.children == 0:
                continue
            t = tilt_above(L, theta, v)
            if unit.low == unit.high:
                x = float(unit.low)
                off = sums[v] - falls[v] * theta[v] - x
                if falls[v] > STIFF:
                    wanted = theta[v] + off / falls[v]
                else:  # all children at an end of what they can be
                    wanted = theta[v] + (math.copysign(STEP, off) if abs(off) > 0.5 else 0.0)
            else:
                x = line[v] - fall[v] * t
                wanted = t + slopes[v] + curvatures[v] * (x - places[v])
            change = wanted - theta[v]
            # to and fro: mixtures of rates may bend the other way
            if change * before[v] < 0.0 and not blend:
                longest[v] = min(longest[v], 0.5 * abs(before[v]))
            elif abs(change) > longest[v]:  # one way twice: an early turn is not to hold up what follows
                longest[v] = min(2.0 * longest[v], most)
            change = before[v] = min(max(change, -longest[v]), longest[v])
            new = min(max(theta[v] + change, -FARTHEST), FARTHEST)
            if new <= least[v]:
                new = 0.5 * (theta[v] + least[v]) if theta[v] > least[v] else least[v] + 0.5
            step[v] = new - theta[v]
            largest = max(largest, abs(step[v]) * max(1.0, math.sqrt(falls[v]) / WIDE))
            behind += step[v] * (means[v] - totals[v])
            theta[v] = new
            if new != wanted:
                x = sums[v] - falls[v] * new
            at[v] = min(max(x, float(unit.low)), float(unit.high))
        if largest < CLOSE:
            break
    return settle_tilts(L, theta), sweeps


@inner
def last_slope(L, v):
    """Final slope of minus a unit's log likelihood: alpha, or the last step of a table; infinite for a Gaussian."""
    unit = L.units[v]
    if unit.rho > 0.0:
        return np.inf
    if unit.table_size < 2:
        return unit.alpha
    end = unit.table_first + unit.table_size - 1
    fall = L.table[end - 1] - L.table[end]
    return fall if math.isfinite(fall) else np.inf


@inner
def settle_tilts(L, theta):
    """Limit the tilts in `theta`, in place, to where no unit's factor grows without end, and return them.

    Only units with children are concerned whose count is not known exactly and not limited by `within_reach`. One
    with neither a likelihood of its own nor a shared rate gets exactly the tilt of its parent.
    """
    for v in range(L.units.size):
        unit = L.units[v]
        if unit.children > 0 and unit.low < unit.high and unit.near == 0:
            t = tilt_above(L, theta, v)
            most = t + last_slope(L, v) - INSIDE
            if unit.sharing > 0:
                most -= top_rate(L)
            theta[v] = min(theta[v], most) if is_measured(L, v) or unit.sharing > 0 else t
    return theta
