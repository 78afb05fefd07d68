r"""Compiled: edges of panels that fit a density, from rough values of it, or from what it was found to be.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.analyst.bounded.quadrature.decorator import compiled
from adversary.analyst.bounded.quadrature.panels import ORDER, placed

_FLAT = 36.0
"""Nats below the top under which a rough density counts as level."""
COARSE = 16
"""Points of a rough density."""
_TEMPER = 6.0
_MASS = 1.0
_SPARE = 4.0
"""Nats that panels may end short of their depth before they are laid further out."""
_CLOSE = 6.0


@compiled
def space(points, low, high):
    """Equal steps from low to high."""
    for i in range(points.size):
        points[i] = low + (high - low) * i / (points.size - 1.0)


@compiled
def about_top(points, logs):
    """Index of the largest log, the points on both sides of it, and whether it falls to the deeper by _CLOSE nats."""
    best = int(np.argmax(logs))
    before, after = max(best - 1, 0), min(best + 1, logs.size - 1)
    return best, points[before], points[after], logs[best] - min(logs[before], logs[after]) >= _CLOSE


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
    before = math.exp(max(logs[0] - top, -_FLAT) / _TEMPER)
    for i in range(1, count):
        after = math.exp(max(logs[i] - top, -_FLAT) / _TEMPER)
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
def lay_again(edges, values, low, high, depth, out):
    """New edges `out` from the density at the points of panels: closer where it lies, further where it goes on.

    `low` and `high` are where the line ends, `depth` how many nats below the top panels do. The released mean is not
    looked after: `snap` does.
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
    while first < count - 3 and logs[first + 1] < -depth:
        first += 1
    while last > first + 2 and logs[last - 1] < -depth:
        last -= 1
    if first == 0 and logs[1] > _SPARE - depth and edges[0] > low:
        points[0] = max(low, points[0] - 0.5 * (points[last] - points[0]))
        logs[0] = max(-_FLAT, logs[1] - (logs[4] - logs[1]) / (points[4] - points[1]) * (points[1] - points[0]))
    if last == count - 1 and logs[last - 1] > _SPARE - depth and edges[panels] < high:
        points[last] = min(high, points[last] + 0.5 * (points[last] - points[first]))
        rise = (logs[last - 1] - logs[last - 4]) / (points[last - 1] - points[last - 4])
        logs[last] = max(-_FLAT, logs[last - 1] + rise * (points[last] - points[last - 1]))
    share_out(points[first : last + 1].copy(), logs[first : last + 1].copy(), out)


@compiled
def lay_closer(edges, law):
    """Edges of the panels by what the series of their logarithms still lack: shorter where that is much.

    The last two terms of a series of ORDER, times the mass they stand over, fall with its length to the ORDER - 1.
    """
    panels = edges.size - 1
    needs = np.empty(panels)
    for p in range(panels):
        lack = abs(law.series[p, ORDER - 1]) + abs(law.series[p, ORDER - 2])
        share = (law.masses[p + 1] - law.masses[p]) / law.masses[panels]
        needs[p] = (lack * share + 1e-12) ** (1.0 / (ORDER - 1.0))
    needs = np.maximum(needs, 0.25 * needs.max())
    total, before, p = needs.sum(), 0.0, 0
    old = edges.copy()
    for q in range(1, panels):
        target = total * q / panels
        while before + needs[p] < target:
            before += needs[p]
            p += 1
        edges[q] = old[p] + (target - before) / needs[p] * (old[p + 1] - old[p])


@compiled
def snap(edges, corner):
    """Move the inner edge nearest to the corner of Laplace noise, if it is between the outer ones, onto it."""
    panels = edges.size - 1
    if panels < 2 or not edges[0] < corner < edges[panels]:
        return
    nearest = 1
    for p in range(1, panels):
        if abs(edges[p] - corner) < abs(edges[nearest] - corner):
            nearest = p
    edges[nearest] = corner
