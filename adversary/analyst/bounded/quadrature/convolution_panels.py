r"""Compiled: log of q1(Y* - y) Z(u(y); v), with which every mean of one variance is convolved, at points in y.

The points lie on panels no longer than a few times the scale on which the product with the normal density can bend, cut
at the corners of Laplace noise. That product is log-concave in y, which is what makes the searches here safe.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary.analyst.bounded.quadrature.decorator import compiled
from adversary.analyst.bounded.quadrature.log_z_table import Table, bend_at, new_rows, table_of
from adversary.analyst.bounded.quadrature.sample_variance import (
    GAUSSIAN,
    LAPLACE,
    LOG_2PI,
    NONE,
    energy_of,
    law_of,
    log_cap,
    log_height,
    peak_of,
    rough_log_z,
)

POINTS = 8
"""Points of a panel."""
DEPTH = 16.0
"""Nats below the top of the product at which the integral ends."""
FAR = 36.0
"""Noise scales about a corner within which panels are short."""
SPIKE, WHOLE, BARE = 0, -1, -2
"""Instead of a number of panels, of which there would be too many: the normal density is far narrower than the noise;
no bound is in reach; Z is taken at the mean itself, as the normal density is narrow and the noise narrower still."""
_X, _W = np.polynomial.legendre.leggauss(POINTS)
_MOST = 1000
_LENGTH = 5.0
"""Length of a panel in units of the scale on which the product bends."""
_STEEP = 12.0
"""Length of panels near a corner, in units of the noise scale."""
_SPIKE = 0.1
"""Standard deviation in noise scales up to which the corner of Laplace noise does no harm to a spike."""
CLEAR = 5.6
"""Standard deviations of the sample mean about the top of a product beyond which nothing of it counts."""
_MARGIN = 5.0
"""More nats, where the top is known roughly."""


class Room(NamedTuple):
    """Arrays that one `Sheet` after another is written in."""

    rows: Any
    edges: Any
    points: Any
    weights: Any
    logs: Any
    read: Any


class Sheet(NamedTuple):
    """log q1(Y* - y) Z(u(y); v) at points in y, for one variance.

    table: log Z; room: edges of panels, points, their weights and logs (worked out once `read` says so); panels: how
    many there are, or SPIKE, WHOLE, BARE; sd: standard deviation of the sample mean; kind, scale, centre: the noise;
    constant: log of what g has in front of the integral.
    """

    table: Table
    room: Room
    panels: int
    sd: float
    constant: float
    kind: int
    scale: float
    centre: float


@compiled
def new_room():
    """Room for one sheet."""
    points = _MOST * POINTS
    return Room(
        new_rows(),
        np.empty(_MOST + 1),
        np.empty(points),
        np.empty(points),
        np.empty(points),
        np.zeros(_MOST, np.bool_),
    )


@compiled
def no_sheet():
    """A sheet of nothing, where one is asked for but not read."""
    none = np.empty(0)
    rows = np.zeros((0, 6)), np.zeros((0, 0))
    table = Table(rows[0], none, none, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Sheet(table, Room(rows, none, none, none, none, np.zeros(0, np.bool_)), 0, 0.0, 0.0, 0, 0.0, 0.0)


@compiled
def rough_log_h(y, peak, law, seen):
    """Log of q1(Y* - y) Z(u(y); v), up to constants and roughly."""
    w = log_cap(y, seen.n)
    if w == -np.inf:
        return -np.inf
    return rough_log_z(w, peak, law) - energy_of(seen.mean - y, seen.mean_noise, seen.mean_scale)


@compiled
def rough_product(y, mu, sd, peak, law, seen):
    """Log of N(y; mu, sd^2) q1(Y* - y) Z(u(y); v), up to constants and roughly: concave in y."""
    return rough_log_h(y, peak, law, seen) - 0.5 * ((y - mu) / sd) ** 2


@compiled
def end_of_product(mu, side, sd, peak, law, seen):
    """Beyond all that counts of `rough_product`, below (side = -1) or above (side = 1).

    As it is concave, nothing counts beyond a point where it is far under the largest of a few values.
    """
    limit, near = 0.5 + 0.5 * side, min(max(mu, 1e-12), 1.0 - 1e-12)
    released = min(max(seen.mean, 1e-12), 1.0 - 1e-12) if seen.mean_noise != NONE else 0.5
    here = rough_product(near, mu, sd, peak, law, seen)
    best, top = near, here
    for share in (0.2, 1.0):
        for end in (released, 0.5):
            y = near + share * (end - near)
            value = rough_product(y, mu, sd, peak, law, seen)
            if value > top:
                best, top = y, value
    level = top - DEPTH - _MARGIN
    if here < level and (best - near) * side < 0.0:  # between the two
        far = near
        near = best
        for _ in range(40):
            middle = 0.5 * (near + far)
            if rough_product(middle, mu, sd, peak, law, seen) > level:
                near = middle
            else:
                far = middle
            if abs(far - near) < 0.1 * abs(far - best):
                break
        return far
    near = best if (best - near) * side > 0.0 else near
    step = side * 3.0 * sd
    far = near + step
    while (limit - far) * side > 0.0 and rough_product(far, mu, sd, peak, law, seen) > level:
        near = far
        step *= 1.5
        far = near + step
    if (limit - far) * side <= 0.0:  # at 0 and 1 the logarithm has no end: approach it by shares
        gap = near - limit
        while rough_product(limit + gap, mu, sd, peak, law, seen) > level and abs(gap) > 1e-15:
            gap *= 0.5
        return limit + gap
    return far


@compiled
def step_from(y, stop, here, stiffness, table, seen):
    """Where the panel from y towards `stop` ends, and how the product bends there.

    After _LENGTH of the scale on which it bends, which at y is as `here` says, or at `stop`.
    """
    side = 1.0 if stop > y else -1.0
    most = abs(stop - y)
    step, bend = _LENGTH / math.sqrt(here), here
    for _ in range(3):
        step = min(step, most)
        bend = stiffness + bend_at(table, y + 0.9 * side * step)
        there = _LENGTH / math.sqrt(bend)
        if there > 0.7 * step:
            break
        step = max(there, 0.3 * step)
    if most < 1.25 * step:  # no short panel behind this one
        step = most
    if seen.mean_noise == LAPLACE:
        away, steep = (seen.mean - y) * side, _STEEP * seen.mean_scale
        if away > 0.0:
            step = min(step, max(steep, away - FAR * seen.mean_scale))
        elif -away < FAR * seen.mean_scale:
            step = min(step, steep)
    return (stop if step >= most else y + side * step), bend


@compiled
def march(y, goal, stiffness, table, seen, edges, count):
    """Add the ends of panels from y to `goal` to the edges, cut at the corners; their number, too large if too many."""
    low, high = min(y, goal), max(y, goal)
    bend = stiffness + bend_at(table, y)
    while y != goal:
        if count >= edges.size:
            return count + 1
        stop = goal
        for corner in (seen.mean if seen.mean_noise == LAPLACE else 2.0, table.corner, 1.0 - table.corner):
            if low < corner < high and (corner - y) * (stop - corner) > 0.0:
                stop = corner
        y, bend = step_from(y, stop, bend, stiffness, table, seen)
        if y == stop:  # beyond a corner it bends in another way
            bend = stiffness + bend_at(table, y + 1e-9 * (goal - y))
        edges[count] = y
        count += 1
    return count


@compiled
def lay_sheet(low, start, stop, high, stiffness, table, seen, room):
    """Points and weights of panels over [low, start] and [stop, high], from the outer ends; 0 if too many, or many."""
    edges = room.edges
    edges[0] = low
    risen = march(low, start, stiffness, table, seen, edges, 1)
    if risen >= edges.size:
        return 0
    edges[risen] = high
    ends = march(high, stop, stiffness, table, seen, edges, risen + 1)
    if ends > edges.size:
        return 0
    panels = 0
    for e in range(1, risen):
        place_panel(panels, edges[e - 1], edges[e], room)
        panels += 1
    for e in range(ends - 1, risen, -1):
        place_panel(panels, edges[e], edges[e - 1], room)
        panels += 1
    return panels


@compiled
def place_panel(p, low, high, room):
    """Points and weights of a panel, which is not read yet."""
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    room.read[p] = False
    points, weights = room.points[p * POINTS : (p + 1) * POINTS], room.weights[p * POINTS : (p + 1) * POINTS]
    for j in range(POINTS):
        points[j] = middle + half * _X[j]
        weights[j] = half * _W[j]


@compiled
def sheet_of(v, least, most, seen, room, panels=_MOST):
    """The sheet of a variance, for means between `least` and `most`; with fewer panels at most, a rougher one."""
    law = law_of(v, seen)
    peak = peak_of(law)
    sd = math.sqrt(v / seen.n)
    low = end_of_product(least, -1.0, sd, peak, law, seen)
    high = end_of_product(most, 1.0, sd, peak, law, seen)
    table = table_of(room.rows, v, min(log_cap(low, seen.n), log_cap(high, seen.n)), seen)
    stiffness = seen.n / v
    if seen.mean_noise == GAUSSIAN:
        stiffness += 1.0 / seen.mean_scale**2
    narrow = seen.mean_noise == LAPLACE and sd > _SPIKE * seen.mean_scale
    laid = 0
    inner = min(table.flat + 2.0 * CLEAR * sd, 0.5)  # means whose product ends further in need no panels
    start, stop = min(max(inner, low), high), min(max(1.0 - inner, low), high)
    if table.flat <= low and high <= 1.0 - table.flat:
        laid = WHOLE
    elif high - stop + start - low < 0.8 * (_MOST if narrow else panels) * _LENGTH / math.sqrt(stiffness):
        laid = lay_sheet(low, start, stop, high, stiffness, table, seen, room)
    if laid == 0:
        laid = BARE if narrow else SPIKE
    constant = table.total
    if laid > 0 or laid == SPIKE:
        constant += log_height(seen.mean_noise, seen.mean_scale) - math.log(sd) - 0.5 * LOG_2PI
    return Sheet(table, room, laid, sd, constant, seen.mean_noise, seen.mean_scale, seen.mean)
