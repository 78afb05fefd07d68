r"""Compiled: a density on a line, as its values at Gauss-Legendre points of panels, and what is read off it.

A panel holds ORDER points; between them the logarithm of the density is their polynomial, so that probabilities and the
level sets of highest density follow without further evaluations. The line is t; the quantity itself is x = map(t):

    SINH x = a + b sinh(t)    WITHIN the same, in [0, 1]    COSH x = 1 / (4 cosh(t)^2), t <= 0    EXP x = exp(2 t)

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre

from adversary.analyst.compiled import compiled

SINH, COSH, EXP, WITHIN = 0, 1, 2, 3
ORDER = 10
GOLDEN = 0.6180339887498949
FINE = 16
"""Steps in which a panel is gone over when a level is sought, before Newton's method."""

_LOST = 1e-9
_FLOOR = 60.0

NODES, WEIGHTS = legendre.leggauss(ORDER)
_AT_NODES = legendre.legvander(NODES, ORDER - 1)
_TO_SERIES = (_AT_NODES * WEIGHTS[:, None]).T * (np.arange(ORDER)[:, None] + 0.5)


class Density(NamedTuple):
    """A density of t on panels: the kind of map and its numbers, edges, series of logarithms, mass below each edge."""

    kind: int
    a: float
    b: float
    edges: Any
    series: Any
    masses: Any


@compiled
def forward(kind, a, b, t):
    """x of t."""
    if kind in (SINH, WITHIN):
        return a + b * math.sinh(t)
    if kind == COSH:
        e = math.exp(-2.0 * abs(t))
        return e / (1.0 + e) ** 2
    return math.exp(2.0 * t)


@compiled
def jacobian(kind, b, t):
    """dx / dt."""
    if kind in (SINH, WITHIN):
        return b * math.cosh(t)
    if kind == COSH:
        e = math.exp(-2.0 * abs(t))
        return 2.0 * e / (1.0 + e) ** 2 * math.tanh(abs(t))
    return 2.0 * math.exp(2.0 * t)


@compiled
def backward(kind, a, b, x):
    """t of x; ends of the line beyond its range."""
    if kind in (SINH, WITHIN):
        return math.asinh((x - a) / b)
    if x <= 0.0:
        return -np.inf
    if kind == COSH:
        return -math.acosh(0.5 / math.sqrt(x)) if x < 0.25 else 0.0
    return 0.5 * math.log(x)


@compiled
def placed(edges):
    """Points of all panels, and their weights."""
    panels = edges.size - 1
    nodes, weights = np.empty(panels * ORDER), np.empty(panels * ORDER)
    for p in range(panels):
        half, middle = 0.5 * (edges[p + 1] - edges[p]), 0.5 * (edges[p + 1] + edges[p])
        for i in range(ORDER):
            nodes[p * ORDER + i] = middle + half * NODES[i]
            weights[p * ORDER + i] = half * WEIGHTS[i]
    return nodes, weights


@compiled
def weights_up_to(x, out):
    """Weights at the nodes of [-1, 1] of the integral from -1 to x: the node polynomials integrated."""
    before, now = 1.0, x
    total = x + 1.0
    for i in range(ORDER):
        out[i] = total
    for degree in range(1, ORDER):
        after = ((2.0 * degree + 1.0) * x * now - degree * before) / (degree + 1.0)
        rise = after - before
        for i in range(ORDER):
            out[i] += _AT_NODES[i, degree] * rise
        before, now = now, after
    for i in range(ORDER):
        out[i] *= 0.5 * WEIGHTS[i]


@compiled
def add_weights(edges, start, stop, out, work):
    """Weights at all nodes of the integral over [start, stop]."""
    for p in range(edges.size - 1):
        lo, hi = edges[p], edges[p + 1]
        half = 0.5 * (hi - lo)
        base = p * ORDER
        for i in range(ORDER):
            out[base + i] = 0.0
        if stop <= lo or start >= hi:
            continue
        if stop >= hi:
            for i in range(ORDER):
                out[base + i] = half * WEIGHTS[i]
        else:
            weights_up_to((stop - lo) / half - 1.0, work)
            for i in range(ORDER):
                out[base + i] = half * work[i]
        if start > lo:
            weights_up_to((start - lo) / half - 1.0, work)
            for i in range(ORDER):
                out[base + i] -= half * work[i]


@compiled
def bare(kind, a, b, t):
    """What a density of t goes to zero with, at the edge of what is feasible: taken off before its logarithm is."""
    if kind == COSH:
        return math.tanh(t) ** 2
    if kind == WITHIN:
        x = forward(kind, a, b, t)
        return max(x * (1.0 - x), 1e-300)
    return 1.0


@compiled
def density_of(kind, a, b, edges, values):
    """The density of one row: its logarithm, less that of `bare`, as a series on each panel, and the panels' masses."""
    panels = edges.size - 1
    nodes, weights = placed(edges)
    top = values.max()
    logs = np.empty(values.size)
    for i in range(values.size):
        floor = top * math.exp(-_FLOOR)
        logs[i] = math.log(max(values[i], floor) / max(bare(kind, a, b, nodes[i]), 1e-300))
    series, masses = np.empty((panels, ORDER)), np.zeros(panels + 1)
    for p in range(panels):
        for degree in range(ORDER):
            total = 0.0
            for i in range(ORDER):
                total += _TO_SERIES[degree, i] * logs[p * ORDER + i]
            series[p, degree] = total
        mass = 0.0
        for i in range(p * ORDER, (p + 1) * ORDER):
            mass += weights[i] * values[i]
        masses[p + 1] = masses[p] + mass
    return Density(kind, a, b, edges, series, masses)


@compiled
def value_in(law, p, t):
    """The density at t, which lies in panel p."""
    x = 2.0 * (t - law.edges[p]) / (law.edges[p + 1] - law.edges[p]) - 1.0
    before, now = 1.0, x
    total = law.series[p, 0] + law.series[p, 1] * x
    for degree in range(1, ORDER - 1):
        after = ((2.0 * degree + 1.0) * x * now - degree * before) / (degree + 1.0)
        total += law.series[p, degree + 1] * after
        before, now = now, after
    return math.exp(min(total, 600.0)) * bare(law.kind, law.a, law.b, t)


@compiled
def panel_of(law, t):
    """Index of the panel that holds t."""
    p = 0
    while p < law.edges.size - 2 and t > law.edges[p + 1]:
        p += 1
    return p


@compiled
def value_at(law, t):
    """The density at t; 0 outside."""
    if t < law.edges[0] or t > law.edges[law.edges.size - 1]:
        return 0.0
    return value_in(law, panel_of(law, t), t)


@compiled
def mass_between(law, p, start, stop):
    """The integral of the density over a stretch of panel p, by Gauss-Legendre."""
    half, middle = 0.5 * (stop - start), 0.5 * (stop + start)
    total = 0.0
    for i in range(ORDER):
        total += WEIGHTS[i] * value_in(law, p, middle + half * NODES[i])
    return half * total


@compiled
def mass_up_to(law, t):
    """The integral of the density up to t: from the nearer end of its panel."""
    last = law.edges.size - 1
    if t <= law.edges[0]:
        return 0.0
    if t >= law.edges[last]:
        return law.masses[last]
    p = panel_of(law, t)
    if 2.0 * t < law.edges[p] + law.edges[p + 1]:
        return law.masses[p] + mass_between(law, p, law.edges[p], t)
    return law.masses[p + 1] - mass_between(law, p, t, law.edges[p + 1])


@compiled
def unresolved(law):
    """How far the series, integrated on half panels, are from the masses of the panels, relative to all."""
    lost = 0.0
    for p in range(law.edges.size - 1):
        middle = 0.5 * (law.edges[p] + law.edges[p + 1])
        mass = mass_between(law, p, law.edges[p], middle) + mass_between(law, p, middle, law.edges[p + 1])
        lost += abs(mass - (law.masses[p + 1] - law.masses[p]))
    return lost / law.masses[law.masses.size - 1]


@compiled
def height_at(law, t):
    """Density of x at t."""
    slope = jacobian(law.kind, law.b, t)
    return value_at(law, t) / slope if slope > 0.0 else 0.0


@compiled
def go_over(law):
    """t, the density of x and the mass below at FINE steps of every panel."""
    panels = law.edges.size - 1
    count = panels * FINE + 1
    ts, heights, masses = np.empty(count), np.empty(count), np.empty(count)
    shift = 1.0 / math.sqrt(3.0)
    ts[0], masses[0] = law.edges[0], 0.0
    for p in range(panels):
        step = (law.edges[p + 1] - law.edges[p]) / FINE
        rough = 0.0
        for j in range(p * FINE + 1, (p + 1) * FINE + 1):
            ts[j] = law.edges[p] + step * (j - p * FINE)
            middle = ts[j] - 0.5 * step
            rough += (
                0.5
                * step
                * (value_in(law, p, middle - 0.5 * step * shift) + value_in(law, p, middle + 0.5 * step * shift))
            )
            masses[j] = rough
        for j in range(p * FINE + 1, (p + 1) * FINE + 1):  # to the mass of the panel
            share = masses[j] / rough if rough > 0.0 else 1.0
            masses[j] = law.masses[p] + share * (law.masses[p + 1] - law.masses[p])
    for j in range(count):
        heights[j] = height_at(law, ts[j])
    first = 0
    if law.kind == COSH or law.kind == EXP:  # below a share _LOST the density of a variance is rounding: held
        while first < count - 2 and masses[first] < _LOST * masses[count - 1]:
            first += 1
    for j in range(first):
        heights[j] = heights[first]
    return ts, heights, masses


@compiled
def quantile_of(law, q):
    """The t below which a share q of the mass lies, by bisection."""
    target = q * law.masses[law.masses.size - 1]
    lo, hi = law.edges[0], law.edges[law.edges.size - 1]
    for p in range(law.edges.size - 1):
        if law.masses[p + 1] >= target:
            lo, hi = law.edges[p], law.edges[p + 1]
            break
    for _ in range(50):
        middle = 0.5 * (lo + hi)
        if mass_up_to(law, middle) < target:
            lo = middle
        else:
            hi = middle
    return 0.5 * (lo + hi)


@compiled
def polish(law, lo, hi, prob):
    """Newton's method for the two ends of equal height that hold a share `prob`: heights equal, mass right."""
    first, second = lo, hi
    span = hi - lo
    step = 1e-5 * span
    target = prob * law.masses[law.masses.size - 1]
    for _ in range(8):
        h_lo, h_hi = height_at(law, lo), height_at(law, hi)
        if not (h_lo > 0.0 and h_hi > 0.0):
            return first, second
        gap = math.log(h_hi / h_lo)
        d_lo = math.log(height_at(law, lo + step) / h_lo) / step
        d_hi = math.log(h_hi / height_at(law, hi - step)) / step
        t_lo, t_hi = value_at(law, lo), value_at(law, hi)
        short = target - (mass_up_to(law, hi) - mass_up_to(law, lo))
        # [-d_lo, d_hi; -t_lo, t_hi] (move_lo, move_hi) = (-gap, short)
        det = -d_lo * t_hi + d_hi * t_lo
        if not abs(det) > 0.0:
            return first, second
        move_lo, move_hi = (-gap * t_hi - d_hi * short) / det, (-d_lo * short - t_lo * gap) / det
        if not abs(move_lo) + abs(move_hi) < 0.2 * span:
            return first, second
        lo, hi = lo + move_lo, hi + move_hi
        if lo < law.edges[0] or hi > law.edges[law.edges.size - 1] or lo >= hi:
            return first, second
        if abs(move_lo) + abs(move_hi) < 1e-10 * span:
            break
    return lo, hi


@compiled
def above(level, ts, heights, masses, starts, stops):
    """Stretches of t where the density of x exceeds a level, ends by straight lines; their number and mass."""
    found, mass, begun = 0, 0.0, 0.0
    inside = heights[0] > level
    if inside:
        starts[0] = ts[0]
    for j in range(1, ts.size):
        if inside == (heights[j] > level):
            continue
        share = (level - heights[j - 1]) / (heights[j] - heights[j - 1])
        t = ts[j - 1] + share * (ts[j] - ts[j - 1])
        below = masses[j - 1] + share * (masses[j] - masses[j - 1])
        if inside:
            stops[found] = t
            mass += below - begun
            found += 1
            if found == starts.size:
                return found, mass
        else:
            starts[found] = t
            begun = below
        inside = not inside
    if inside:
        stops[found] = ts[ts.size - 1]
        mass += masses[ts.size - 1] - begun
        found += 1
    return found, mass


@compiled
def highest(law, prob, starts, stops):
    """Stretches of highest density with a share `prob`, in t; their number."""
    ts, heights, masses = go_over(law)
    last = ts.size - 1
    lo, hi = 0.0, heights.max()
    for _ in range(45):
        level = 0.5 * (lo + hi)
        _, mass = above(level, ts, heights, masses, starts, stops)
        if mass > prob * masses[last]:
            lo = level
        else:
            hi = level
    found, _ = above(lo, ts, heights, masses, starts, stops)
    if found == 1:
        if starts[0] <= ts[0]:
            stops[0] = quantile_of(law, prob)
        elif stops[0] >= ts[last]:
            starts[0] = quantile_of(law, 1.0 - prob)
        else:
            starts[0], stops[0] = polish(law, starts[0], stops[0], prob)
    return found


@compiled
def shortest(law, prob):
    """The shortest interval of x with a share `prob` of the mass, over the steps: for several modes."""
    ts, _, masses = go_over(law)
    last = ts.size - 1
    target = prob * masses[last]
    best, best_lo, best_hi = np.inf, ts[0], ts[last]
    j = 0
    for i in range(last):
        while j < last and masses[j] - masses[i] < target:
            j += 1
        if masses[j] - masses[i] < target:
            break
        rise = masses[j] - masses[j - 1]
        back = (masses[j] - masses[i] - target) / rise if rise > 0.0 else 0.0
        hi = ts[j] - back * (ts[j] - ts[j - 1])
        length = forward(law.kind, law.a, law.b, hi) - forward(law.kind, law.a, law.b, ts[i])
        if length < best:
            best, best_lo, best_hi = length, ts[i], hi
    return best_lo, best_hi


@compiled
def interval(law, prob):
    """(low, high) in t: the stretch of highest density, or the shortest interval where there are several."""
    starts, stops = np.empty(32), np.empty(32)
    if highest(law, prob, starts, stops) == 1:
        return starts[0], stops[0]
    return shortest(law, prob)


@compiled
def mode_of(law):
    """t of the highest density of x: the best step, then golden section about it."""
    ts, heights, _ = go_over(law)
    best = np.argmax(heights)
    lo, hi = ts[max(best - 1, 0)], ts[min(best + 1, ts.size - 1)]
    for _ in range(40):
        first, second = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
        if height_at(law, first) > height_at(law, second):
            hi = second
        else:
            lo = first
    return 0.5 * (lo + hi)


@compiled
def row_of(lines, edges, values, i):
    """One row of arrays as a density."""
    return density_of(int(lines[i, 0]), lines[i, 1], lines[i, 2], edges[i], values[i])


@compiled
def starts_at_zero(law, t):
    """Whether t is the low end of a variance, which stands for 0."""
    return (law.kind == COSH or law.kind == EXP) and t <= law.edges[0]


@compiled
def x_of(law, t):
    """x at t; 0 at the low end of a variance."""
    return 0.0 if starts_at_zero(law, t) else forward(law.kind, law.a, law.b, t)


@compiled
def many_intervals(lines, edges, values, prob):
    """`interval` of every row, as x; `lines` (row, 3): kind of map, a, b."""
    out = np.empty((values.shape[0], 2))
    for i in range(values.shape[0]):
        law = row_of(lines, edges, values, i)
        lo, hi = interval(law, prob)
        out[i, 0], out[i, 1] = x_of(law, lo), x_of(law, hi)
    return out


@compiled
def many_modes(lines, edges, values):
    """`mode_of` of every row, as x; 0 where a density still rises at the low end of a variance."""
    out = np.empty(values.shape[0])
    for i in range(values.shape[0]):
        law = row_of(lines, edges, values, i)
        t = mode_of(law)
        out[i] = 0.0 if starts_at_zero(law, t - 1e-9 * abs(t)) else forward(law.kind, law.a, law.b, t)
    return out


@compiled
def many_quantiles(lines, edges, values, shares):
    """x below which each share of the mass lies, (row, share)."""
    out = np.empty((values.shape[0], shares.size))
    for i in range(values.shape[0]):
        law = row_of(lines, edges, values, i)
        for j in range(shares.size):
            out[i, j] = forward(law.kind, law.a, law.b, quantile_of(law, shares[j]))
    return out


@compiled
def many_densities(lines, edges, values, points):
    """Density of x at points, (row, point)."""
    out = np.zeros((values.shape[0], points.shape[1]))
    for i in range(values.shape[0]):
        law = row_of(lines, edges, values, i)
        for j in range(points.shape[1]):
            out[i, j] = height_at(law, backward(law.kind, law.a, law.b, points[i, j]))
    return out


@compiled
def many_masses(lines, edges, values, points):
    """Probability of x below points, (row, point)."""
    out = np.empty((values.shape[0], points.shape[1]))
    for i in range(values.shape[0]):
        law = row_of(lines, edges, values, i)
        for j in range(points.shape[1]):
            out[i, j] = mass_up_to(law, backward(law.kind, law.a, law.b, points[i, j])) / law.masses[-1]
    return out


@compiled
def many_nodes(lines, edges):
    """Points of every row as x, and their weights for integrals of a density of t, (row, node) each."""
    rows, panels = edges.shape[0], edges.shape[1] - 1
    nodes, weights = np.empty((rows, panels * ORDER)), np.empty((rows, panels * ORDER))
    for i in range(rows):
        nodes[i], weights[i] = placed(edges[i])
        for j in range(panels * ORDER):
            nodes[i, j] = forward(int(lines[i, 0]), lines[i, 1], lines[i, 2], nodes[i, j])
    return nodes, weights
