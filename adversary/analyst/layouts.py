r"""Compiled: where the posterior of a mean and a variance lies, and panels that fit it.

The line of the mean is t, mu = centre + spread sinh(t), fine about the released mean. The line of the variance is s,
v = 1 / (4 cosh(s)^2) under the bounds, so that v <= mu (1 - mu) reads s <= -|logit mu| / 2, and v = exp(2 s) without.
For a given s the posterior is log-concave in the mean, which is what makes the searches here safe: a top found
between its neighbours is the top. Searches use rough values, right to a nat or two; edges need no more.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary.analyst.compiled import compiled
from adversary.analyst.kernels import (
    NONE,
    fill_table,
    law_of,
    log_all,
    log_convolved,
    log_whole,
    new_tables,
    peak_of,
    rough_log_h,
)
from adversary.analyst.panels import COSH, GOLDEN, SINH, forward, jacobian, placed

FLAT, CONJUGATE = 0, 1
_SLICES = 5

DEPTH = 18.0
"""Nats below the top at which panels end."""
_TEMPER = 6.0
_MASS = 1.0
_COARSE = 24
_ENOUGH = 14.0


class Belief(NamedTuple):
    """A prior on [0, 1]: flat, or normal-inverse-gamma with s2 the square of s0."""

    kind: int
    mu0: float
    kappa: float
    nu: float
    s2: float


class Lines(NamedTuple):
    """The lines of mean and variance: mu = centre + spread sinh(t); the kind of map of s, and its upper end."""

    centre: float
    spread: float
    kind: int
    top: float


class Slices(NamedTuple):
    """A few variances: their tables of Z and ends of these, log Z without bounds, log dv / ds."""

    variances: Any
    tables: Any
    ends: Any
    wholes: Any
    heights: Any


@compiled
def log_prior(mu, v, belief):
    """Log density of the prior, 0 where it is flat."""
    if belief.kind == FLAT:
        return 0.0
    half = 0.5 * belief.nu
    variance = half * math.log(half * belief.s2) - math.lgamma(half) - (half + 1.0) * math.log(v) - half * belief.s2 / v
    return (
        variance + 0.5 * math.log(belief.kappa / (2.0 * math.pi * v)) - 0.5 * belief.kappa * (mu - belief.mu0) ** 2 / v
    )


@compiled
def rough_slice(y, v, peak, law, seen, belief):
    """Log of the joint density of (y, v) with mu and S2 integrated out, roughly: concave in y."""
    value = rough_log_h(y, peak, law, seen)
    middle, sd = y, math.sqrt(v / seen.n)
    if belief.kind == CONJUGATE:
        worth = seen.n + belief.kappa
        middle, sd = (seen.n * y + belief.kappa * belief.mu0) / worth, math.sqrt(v / worth)
        both = v * (1.0 / seen.n + 1.0 / belief.kappa)
        value -= 0.5 * (y - belief.mu0) ** 2 / both + 0.5 * math.log(both)
    half = math.sqrt(max(0.25 - v, 0.0))
    out = max(abs(middle - 0.5) - half, 0.0) / sd
    return value - 0.5 * out * out - math.log1p(out) + math.log(min(1.0, 2.0 * half / (2.5 * sd) + 1e-300))


@compiled
def sample_mean_at(t, seen):
    """The sample mean on its line: geometric about the released mean, whose noise may be far narrower than [0, 1]."""
    return seen.mean + seen.mean_scale * math.sinh(t) if seen.mean_noise != NONE else t


@compiled
def best_slice(v, law, seen, belief):
    """The largest `rough_slice` over sample means, by golden section."""
    peak = peak_of(law)
    lo, hi = 0.0, 1.0
    top = -np.inf
    if seen.mean_noise != NONE:
        lo, hi = math.asinh(-seen.mean / seen.mean_scale), math.asinh((1.0 - seen.mean) / seen.mean_scale)
        if 0.0 < seen.mean < 1.0:
            top = rough_slice(seen.mean, v, peak, law, seen, belief)
    first, second = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
    below = rough_slice(sample_mean_at(first, seen), v, peak, law, seen, belief)
    above = rough_slice(sample_mean_at(second, seen), v, peak, law, seen, belief)
    for _ in range(24):
        if abs(above - below) < 0.05:
            between = rough_slice(sample_mean_at(0.5 * (first + second), seen), v, peak, law, seen, belief)
            if between < max(above, below) + 0.1:
                break
        if below > above:
            hi, second, above = second, first, below
            first = hi - GOLDEN * (hi - lo)
            below = rough_slice(sample_mean_at(first, seen), v, peak, law, seen, belief)
        else:
            lo, first, below = first, second, above
            second = lo + GOLDEN * (hi - lo)
            above = rough_slice(sample_mean_at(second, seen), v, peak, law, seen, belief)
    return max(top, max(below, above))


@compiled
def rough_profile(s, kind, seen, belief):
    """Log density of s, roughly: under the bounds, that of the likeliest sample mean; otherwise in closed form."""
    if kind == COSH:
        s = min(s, -1e-6)
    v = forward(kind, 0.0, 0.0, s)
    value = math.log(jacobian(kind, 0.0, s))
    if belief.kind == CONJUGATE:
        value -= (0.5 * belief.nu + 1.0) * math.log(v) + 0.5 * belief.nu * belief.s2 / v
    law = law_of(v, seen)
    if kind == COSH:
        return value + law.alpha * math.log(law.beta) + best_slice(v, law, seen, belief)
    value += log_all(v, seen)
    if belief.kind == CONJUGATE:
        value += log_whole(seen.mean - belief.mu0, v * (1.0 / seen.n + 1.0 / belief.kappa), seen)
    return value


@compiled
def share_out(points, logs, edges):
    """Edges that give every panel the same share of a monitor of the density f, tempered to f^(1 / _TEMPER).

    The monitor counts how far the tempered density rises and falls, and a little of its mass: panels come where the
    density turns and are long where it is straight.
    """
    count, panels = points.size, edges.size - 1
    top = logs.max()
    running = np.zeros(count)
    length = points[count - 1] - points[0]
    before = math.exp(max(logs[0] - top, -2.0 * DEPTH) / _TEMPER)
    for i in range(1, count):
        after = math.exp(max(logs[i] - top, -2.0 * DEPTH) / _TEMPER)
        mass = 0.5 * (before + after) * (points[i] - points[i - 1]) / length
        running[i] = running[i - 1] + abs(after - before) + _MASS * mass
        before = after
    edges[0], edges[panels] = points[0], points[count - 1]
    i = 1
    for p in range(1, panels):
        target = running[count - 1] * p / panels
        while i < count - 1 and running[i] < target:
            i += 1
        share = (target - running[i - 1]) / (running[i] - running[i - 1])
        edges[p] = points[i - 1] + share * (points[i] - points[i - 1])


@compiled
def lay_variance(edges, kind, top, seen, belief):
    """Edges of the panels of s, below `top`: from the profile of the density, to DEPTH nats under its peak."""
    points, logs = np.empty(_COARSE), np.empty(_COARSE)
    lo, hi = -20.0, top
    if belief.kind == CONJUGATE:
        lo = min(lo, 0.5 * math.log(belief.s2) - 6.0)
    deepest, best = lo - 20.0, 0
    for _ in range(40):
        for i in range(_COARSE):
            points[i] = lo + (hi - lo) * i / (_COARSE - 1.0)
            logs[i] = rough_profile(points[i], kind, seen, belief)
        best = int(np.argmax(logs))
        before, after = max(best - 1, 0), min(best + 1, _COARSE - 1)
        if logs[best] - min(logs[before], logs[after]) < 6.0:
            break
        lo, hi = points[before], points[after]
    level, gap = logs[best] - DEPTH, points[1] - points[0]
    ends = (
        fall_of_profile(points[best], -gap, deepest, level, kind, seen, belief),
        fall_of_profile(points[best], gap, top, level, kind, seen, belief),
    )
    for i in range(_COARSE):
        points[i] = ends[0] + (ends[1] - ends[0]) * i / (_COARSE - 1.0)
    closer = np.empty(_COARSE)
    for turn in range(2):
        for i in range(_COARSE):
            logs[i] = rough_profile(points[i], kind, seen, belief)
        if turn == 0:  # once more where it turns
            share_out(points, logs, closer)
            points[:] = closer
    share_out(points, logs, edges)


@compiled
def fall_of_profile(start, step, limit, level, kind, seen, belief):
    """Where the profile of s falls below a level, going from `start` in growing steps, no further than `limit`."""
    near, far = start, start + step
    while (limit - far) * step > 0.0 and rough_profile(far, kind, seen, belief) > level:
        near = far
        step *= 2.0
        far = near + step
    if (limit - far) * step <= 0.0:
        if rough_profile(limit, kind, seen, belief) > level:
            return limit
        far = limit
    for _ in range(5):
        middle = 0.5 * (near + far)
        if rough_profile(middle, kind, seen, belief) > level:
            near = middle
        else:
            far = middle
    return far


@compiled
def log_slices(t, lines, slices, seen, belief):
    """Log density of t, roughly: the largest over a few variances instead of the integral; and over feasible ones.

    The first looks a little beyond the region, so that its edge, where the posterior may lie, is no cliff.
    """
    mu = forward(SINH, lines.centre, lines.spread, t)
    slope = math.log(jacobian(SINH, lines.spread, t))
    top, feasible = -np.inf, -np.inf
    for k in range(slices.variances.size):
        v = slices.variances[k]
        if lines.kind == COSH:
            if not v < mu * (1.0 - mu) * 1.5:
                continue
            value = log_convolved(mu, v, seen, slices.tables[k], slices.ends[k], -np.inf)
        else:
            value = slices.wholes[k] + log_whole(seen.mean - mu, v / seen.n, seen)
        value += slices.heights[k] + log_prior(mu, v, belief) + slope
        top = max(top, value)
        if lines.kind != COSH or v < mu * (1.0 - mu):
            feasible = max(feasible, value)
    return top, feasible


@compiled
def fall_of_slices(start, step, limit, level, lines, slices, seen, belief):
    """Where the density of t falls below a level, going from `start` in growing steps, no further than `limit`."""
    near, far = start, start + step
    while (limit - far) * step > 0.0 and (log_slices(far, lines, slices, seen, belief)[0] > level):
        near = far
        step *= 1.6
        far = near + step
    if (limit - far) * step <= 0.0:
        far = limit
        if log_slices(limit, lines, slices, seen, belief)[0] > level:
            return limit
    for _ in range(5):
        middle = 0.5 * (near + far)
        if log_slices(middle, lines, slices, seen, belief)[0] > level:
            near = middle
        else:
            far = middle
    return far


@compiled
def ends_of_mean(lines, largest, seen, belief):
    """Where the line of the mean ends: at 0 and 1 under the bounds, else far from all that pulls at it."""
    if lines.kind == COSH:
        return math.asinh(-lines.centre / lines.spread), math.asinh((1.0 - lines.centre) / lines.spread)
    middle, reach = lines.centre, 12.0 * math.sqrt(largest / seen.n)
    if seen.mean_noise != NONE:
        reach += 40.0 * seen.mean_scale
    if belief.kind == CONJUGATE:
        middle = belief.mu0
        reach += 12.0 * math.sqrt(largest / belief.kappa)
    low, high = min(middle, lines.centre) - reach, max(middle, lines.centre) + reach
    return math.asinh((low - lines.centre) / lines.spread), math.asinh((high - lines.centre) / lines.spread)


@compiled
def slices_of(variance_edges, lines, seen):
    """Variances at equal shares of the panels, but not at their very ends."""
    panels = variance_edges.size - 1
    tables, ends = new_tables(_SLICES)
    slices = Slices(np.empty(_SLICES), tables, ends, np.zeros(_SLICES), np.empty(_SLICES))
    for k in range(_SLICES):
        place = min(max(panels * k / (_SLICES - 1.0), 0.5), panels - 0.3)
        p = int(place)
        s = variance_edges[p] + (place - p) * (variance_edges[p + 1] - variance_edges[p])
        v = slices.variances[k] = forward(lines.kind, 0.0, 0.0, s)
        slices.heights[k] = math.log(jacobian(lines.kind, 0.0, s))
        if lines.kind == COSH:
            fill_table(tables[k], ends[k], v, seen)
        else:
            slices.wholes[k] = log_all(v, seen)
    return slices


@compiled
def lay_mean(edges, variance_edges, lines, seen, belief):
    """Edges of the panels of t, from a few variances spread over their panels.

    Returns the largest log density seen in the region.
    """
    slices = slices_of(variance_edges, lines, seen)
    lo, hi = ends_of_mean(lines, slices.variances[-1], seen, belief)
    left, right = lo, hi
    points, logs = np.empty(_COARSE), np.empty(_COARSE)
    best = 0
    for _ in range(40):
        for i in range(_COARSE):
            points[i] = lo + (hi - lo) * i / (_COARSE - 1.0)
            logs[i], _ = log_slices(points[i], lines, slices, seen, belief)
        best = int(np.argmax(logs))
        before, after = max(best - 1, 0), min(best + 1, _COARSE - 1)
        if logs[best] - min(logs[before], logs[after]) < 6.0:
            break
        lo, hi = points[before], points[after]
    level, gap, top = logs[best] - DEPTH, points[1] - points[0], -np.inf
    low = fall_of_slices(points[best], -gap, left, level, lines, slices, seen, belief)
    high = fall_of_slices(points[best], gap, right, level, lines, slices, seen, belief)
    if low - left < 0.1 * (high - low):  # so near the end of the line that it may as well be there
        low = left
    if right - high < 0.1 * (high - low):
        high = right
    for i in range(_COARSE):
        points[i] = low + (high - low) * i / (_COARSE - 1.0)
    closer = np.empty(_COARSE)
    for turn in range(2):
        for i in range(_COARSE):
            logs[i], inside = log_slices(points[i], lines, slices, seen, belief)
            top = max(top, inside)
        if turn == 0:
            share_out(points, logs, closer)
            points[:] = closer
    share_out(points, logs, edges)
    snap(edges)
    return top


@compiled
def lay_again(edges, values, low, high):
    """Edges of the panels from the density at their own points: closer where it lies, further where it goes on.

    `low` and `high` are where the line ends. The released mean is not looked after: `snap` does.
    """
    panels = edges.size - 1
    count = values.size + 2
    points = np.empty(count)
    points[1:-1], _ = placed(edges)
    points[0], points[count - 1] = edges[0], edges[panels]
    logs = np.empty(count)
    top = values.max()
    for i in range(count - 2):
        logs[i + 1] = math.log(max(values[i] / top, 1e-300))
    logs[0], logs[count - 1] = logs[1], logs[count - 2]
    first, last = 0, count - 1
    while first < count - 3 and logs[first + 1] < -DEPTH:
        first += 1
    while last > first + 2 and logs[last - 1] < -DEPTH:
        last -= 1
    if first == 0 and logs[1] > -_ENOUGH and edges[0] > low:
        points[0] = max(low, points[0] - 0.5 * (points[last] - points[0]))
        logs[0] = max(-2.0 * DEPTH, logs[1] - (logs[4] - logs[1]) / (points[4] - points[1]) * (points[1] - points[0]))
    if last == count - 1 and logs[last - 1] > -_ENOUGH and edges[panels] < high:
        points[last] = min(high, points[last] + 0.5 * (points[last] - points[first]))
        rise = (logs[last - 1] - logs[last - 4]) / (points[last - 1] - points[last - 4])
        logs[last] = max(-2.0 * DEPTH, logs[last - 1] + rise * (points[last] - points[last - 1]))
    share_out(points[first : last + 1].copy(), logs[first : last + 1].copy(), edges)


@compiled
def snap(edges):
    """Move the inner edge nearest to t = 0, where Laplace noise has its corner, onto it."""
    panels = edges.size - 1
    if not edges[0] < 0.0 < edges[panels]:
        return
    nearest = 1
    for p in range(1, panels):
        if abs(edges[p]) < abs(edges[nearest]):
            nearest = p
    edges[nearest] = 0.0
