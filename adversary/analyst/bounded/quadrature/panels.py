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

from adversary.analyst.bounded.quadrature.decorator import compiled

SINH, COSH, EXP, WITHIN = 0, 1, 2, 3
ORDER = 10
GOLDEN = 0.6180339887498949
TOLERANCE = 2e-5
"""Mismatch above which panels are laid again, and then multiplied."""

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
