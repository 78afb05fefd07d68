r"""Compiled: where the posterior of a mean lies, and panels that fit it.

Its density is taken as the largest over a few variances instead of the integral: right to a nat or two, which is enough
for edges of panels.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adversary.analyst.bounded.quadrature.convolution_panels import Sheet, new_room, no_sheet, sheet_of
from adversary.analyst.bounded.quadrature.decorator import compiled
from adversary.analyst.bounded.quadrature.kernels import log_bare, log_kernel, panel_at
from adversary.analyst.bounded.quadrature.panel_edges import COARSE, about_top, share_out, snap, space
from adversary.analyst.bounded.quadrature.panels import COSH, SINH, forward, jacobian
from adversary.analyst.bounded.quadrature.parameter_lines import CONJUGATE, log_prior
from adversary.analyst.bounded.quadrature.sample_variance import NONE, log_all

_BEYOND, _ROUGH = 1.5, 60
"""How far beyond the region a variance is looked at, and panels of its sheet at most."""

_NEAR, _SHY = 0.1, 0.25
"""Share of the way from the end of the line to the top that is near the end; share of this that is kept clear of."""


class Slice(NamedTuple):
    """One variance: its log dv / ds, its sheet under the bounds, log Z without them."""

    v: float
    height: float
    sheet: Sheet
    whole: float


@compiled
def log_slices(t, lines, slices, count, seen, belief):
    """Log density of t, roughly: the largest over a few variances instead of the integral.

    Looks a little beyond the region, so that its edge, where the posterior may lie, is no cliff.
    """
    mu = forward(SINH, lines.centre, lines.spread, t)
    top = -np.inf
    for k in range(count):
        one = slices[k]
        if lines.kind == COSH:
            if not one.v < mu * (1.0 - mu) * _BEYOND:
                continue
            value = log_kernel(mu, one.sheet, panel_at(mu, one.sheet.room.points, one.sheet.panels))
        else:
            value = one.whole + log_bare(mu, one.v / seen.n, seen)
        top = max(top, value + one.height + log_prior(mu, one.v, belief))
    return top + math.log(jacobian(SINH, lines.spread, t))


@compiled
def fall_of_slices(start, step, limit, level, lines, slices, count, seen, belief):
    """Where the density of t falls below a level, going from `start` in growing steps, no further than `limit`."""
    near, far = start, start + step
    while (limit - far) * step > 0.0 and log_slices(far, lines, slices, count, seen, belief) > level:
        near = far
        step *= 1.6
        far = near + step
    if (limit - far) * step <= 0.0:
        far = limit
        if log_slices(limit, lines, slices, count, seen, belief) > level:
            return limit
    for _ in range(5):
        middle = 0.5 * (near + far)
        if log_slices(middle, lines, slices, count, seen, belief) > level:
            near = middle
        else:
            far = middle
    return far


@compiled
def end_of_slices(start, step, limit, level, lines, slices, count, seen, belief):
    """Where panels may end: `fall_of_slices`, or the limit itself where that is near to it.

    A conjugate prior's density falls to 0 before the limit faster than any power, which no panel holds: less near then.
    """
    if belief.kind != CONJUGATE:
        close = limit + _NEAR * (start - limit)
        if log_slices(close, lines, slices, count, seen, belief) > level:
            return limit
        return fall_of_slices(start, step, limit, level, lines, slices, count, seen, belief)
    fall = fall_of_slices(start, step, limit, level, lines, slices, count, seen, belief)
    return limit + _SHY * (fall - limit) if abs(fall - limit) < _NEAR * abs(start - limit) else fall


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
def slice_at(share, variance_edges, lines, seen):
    """The variance at a share of the panels, but not at their very ends."""
    panels = variance_edges.size - 1
    place = min(max(panels * share, 0.5), panels - 0.3)
    p = int(place)
    s = variance_edges[p] + (place - p) * (variance_edges[p + 1] - variance_edges[p])
    v = forward(lines.kind, 0.0, 0.0, s)
    height = math.log(jacobian(lines.kind, 0.0, s))
    if lines.kind != COSH:
        return Slice(v, height, no_sheet(), log_all(v, seen))
    half = math.sqrt(0.25 - v / _BEYOND)
    return Slice(v, height, sheet_of(v, 0.5 - half, 0.5 + half, seen, new_room(), _ROUGH), 0.0)


@compiled
def lay_mean(edges, variance_edges, lines, seen, belief, depth):
    """Edges of the panels of t, from a few variances spread over their panels."""
    first, middle = slice_at(0.0, variance_edges, lines, seen), slice_at(0.5, variance_edges, lines, seen)
    last = slice_at(1.0, variance_edges, lines, seen)
    slices, count = (first, middle, last, last, last), 3
    if belief.kind == CONJUGATE:  # the means of small variances and of large ones may lie apart
        quarter, most = slice_at(0.25, variance_edges, lines, seen), slice_at(0.75, variance_edges, lines, seen)
        slices, count = (first, middle, last, quarter, most), 5
    left, right = ends_of_mean(lines, last.v, seen, belief)
    lo, hi = left, right
    points, logs = np.empty(COARSE), np.empty(COARSE)
    best, turns = 0, 0
    while turns < 40:
        space(points, lo, hi)
        for i in range(COARSE):
            logs[i] = log_slices(points[i], lines, slices, count, seen, belief)
        turns += 1
        best, lo, hi, steep = about_top(points, logs)
        if not steep:
            break
    level, gap, top = logs[best] - depth, points[1] - points[0], points[best]
    low = end_of_slices(top, -gap, left, level, lines, slices, count, seen, belief)
    high = end_of_slices(top, gap, right, level, lines, slices, count, seen, belief)
    if turns > 1 or low > left or high < right:
        space(points, low, high)
        for i in range(COARSE):
            logs[i] = log_slices(points[i], lines, slices, count, seen, belief)
    closer = np.empty(COARSE)
    share_out(points, logs, closer)
    for i in range(COARSE):
        points[i] = closer[i]
        logs[i] = log_slices(closer[i], lines, slices, count, seen, belief)
    share_out(points, logs, edges)
    snap(edges, 0.0)
