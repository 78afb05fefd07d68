"""Compiled: what is read off densities on panels: sets of highest density, intervals, quantiles, modes, probabilities.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.analyst.bounded.quadrature.decorator import compiled
from adversary.analyst.bounded.quadrature.panels import (
    COSH,
    EXP,
    GOLDEN,
    ORDER,
    backward,
    density_of,
    forward,
    jacobian,
    mass_up_to,
    placed,
    value_at,
    value_in,
)

FINE = 16
"""Steps in which a panel is gone over when a level is sought, before Newton's method."""
_LOST, _RARE = 1e-9, 1e-5


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
    total = masses[count - 1]
    for j in range(count - 2, -1, -1):  # towards an end beyond which hardly any mass lies, a density does not rise
        if (law.kind == COSH or law.kind == EXP) and masses[j] < _LOST * total:  # that of a variance is rounding: held
            heights[j] = heights[j + 1]
        elif masses[j] < _RARE * total:
            heights[j] = min(heights[j], heights[j + 1])
    for j in range(1, count):
        if total - masses[j] < _RARE * total:
            heights[j] = min(heights[j], heights[j - 1])
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


@compiled
def many_gaps(lines, edges, values, other_edges, other_values):
    """Largest difference of two distributions of every row on one line, at the edges of their panels, (row,)."""
    out = np.zeros(values.shape[0])
    for i in range(values.shape[0]):
        first, second = row_of(lines, edges, values, i), row_of(lines, other_edges, other_values, i)
        for law in (first, second):
            for t in law.edges:
                below = mass_up_to(first, t) / first.masses[-1]
                out[i] = max(out[i], abs(below - mass_up_to(second, t) / second.masses[-1]))
    return out
