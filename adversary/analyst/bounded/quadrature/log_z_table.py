r"""Compiled: log Z(u; v) of one variance in a table, read between its nodes by quintic polynomials in w = log u.

Z is cumulated from below over segments of equal steps: a tail, where log Z is nearly straight, and both sides of the
corner of Laplace noise. Further down, where the integrand rises too fast for that, Z is integrated for each node by
itself. The first two derivatives of log Z at the nodes are known, which gives the polynomials.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary.analyst.bounded.quadrature.decorator import compiled, compiled_freely, compiled_in_place
from adversary.analyst.bounded.quadrature.sample_variance import (
    DEPTH,
    LAPLACE,
    constant_of,
    fallen,
    law_of,
    log_cap,
    log_mass,
    log_up_to,
    mass_at,
    peak_of,
    side_of,
    slope_at,
)

SEGMENT = 15
"""Intervals of a table between two corners."""
_SEGMENTS = 5
_TAIL = 12.0
"""Nats under the peak at which the tail begins."""
_DEEP = 22.0
"""Nats under the start of the tail at which every node is integrated by itself."""
_LAGUERRE = 8
_XL, _WL = np.polynomial.laguerre.laggauss(_LAGUERRE)
_X3, _W3 = np.polynomial.legendre.leggauss(3)


class Table(NamedTuple):
    """log Z(u(y); v) against y, relative to its largest value.

    rows: coefficients of the segments; edges: w where they begin and where the last ends; paces: intervals per unit of
    w of each. Below the first it goes straight on with `slope`. For y in [flat, 1 - flat] Z
    is at its largest, of log `total`; `corner` is the y <= 1/2 at which the noise has its corner, -1 if it is not here.
    """

    rows: Any
    edges: Any
    paces: Any
    slope: float
    flat: float
    corner: float
    total: float
    size: float


@compiled
def new_rows():
    """Room for one table: coefficients, edges and paces of its segments."""
    return np.zeros((_SEGMENTS * SEGMENT, 6)), np.zeros((2, _SEGMENTS + 1))


@compiled_freely
def exps(logs, count):
    """exp of each of the first `count` numbers, none of them above 36, in place; below -700 it is exp(-700).

    exp(x) is the 16,384th power of a short series: to 4e-12 relative where x is above -36, to 2e-7 at -700. There are
    no branches, so that several are worked out at once.
    """
    for j in range(count):
        x = logs[j]
        x = (x if x > -700.0 else -700.0) * (1.0 / 16384.0)
        e = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))))
        for _ in range(14):
            e = e * e
        logs[j] = e


@compiled
def fill_row(row, h, before, after):
    """Quintic coefficients over a step h from log Z and its first two derivatives in w at both ends."""
    c1, c2 = before[1] * h, 0.5 * before[2] * h * h
    rise = after[0] - before[0] - c1 - c2
    d1, d2 = after[1] * h - c1 - 2.0 * c2, after[2] * h * h - 2.0 * c2
    row[0], row[1], row[2] = before[0], c1, c2
    row[3] = 10.0 * rise - 4.0 * d1 + 0.5 * d2
    row[4] = -15.0 * rise + 7.0 * d1 - d2
    row[5] = 6.0 * rise - 3.0 * d1 + 0.5 * d2


@compiled
def log_below(w, peak, law):
    """log Z(exp(w); v) up to `constant_of` far down its tail: by Gauss-Laguerre along the slope, if smooth."""
    x = math.exp(w)
    slope = slope_at(x, law, -1)
    if (law.kind == LAPLACE and 0.0 < law.centre < x) or not slope > 0.0:
        return log_up_to(w, peak, law)
    start, total = mass_at(x, w, law), 0.0
    for i in range(_LAGUERRE):
        total += _WL[i] * math.exp(log_mass(w - _XL[i] / slope, law) - start + _XL[i])
    return start + math.log(total / slope)


@compiled
def node_at(w, log_z, law, side):
    """log Z and its first two derivatives in w."""
    x = math.exp(w)
    first = math.exp(mass_at(x, w, law) - log_z)
    return log_z, first, first * (slope_at(x, law, side) - first)


@compiled
def fill_deep(rows, lo, hi, peak, law):
    """Coefficients of log Z on SEGMENT equal intervals of [lo, hi], each node by itself."""
    h = (hi - lo) / SEGMENT
    before = node_at(lo, log_below(lo, peak, law), law, 1)
    for i in range(SEGMENT):
        w = lo + (i + 1.0) * h
        after = node_at(w, log_below(w, peak, law), law, -1)
        fill_row(rows[i], h, before, after)
        before = after


@compiled
def fill_segment(rows, lo, hi, z, law, offset, work):
    """Coefficients of log Z on SEGMENT equal intervals of [lo, hi], from Z exp(-offset) at lo; returns that at hi."""
    h = (hi - lo) / SEGMENT
    x, ratio = math.exp(lo), math.exp(h)
    near = math.exp(0.5 * h * (1.0 + _X3[0])), math.exp(0.5 * h), math.exp(0.5 * h * (1.0 + _X3[2]))
    for i in range(SEGMENT):
        w = lo + i * h
        for j in range(3):
            work[4 * i + j] = mass_at(x * near[j], w + 0.5 * h * (1.0 + _X3[j]), law) - offset
        x *= ratio
        work[4 * i + 3] = mass_at(x, w + h, law) - offset
    exps(work, 4 * SEGMENT)
    x = math.exp(lo)
    before = node_at(lo, math.log(z) + offset, law, 1)
    for i in range(SEGMENT):
        z += 0.5 * h * (_W3[0] * work[4 * i] + _W3[1] * work[4 * i + 1] + _W3[2] * work[4 * i + 2])
        x *= ratio
        first = work[4 * i + 3] / z
        after = math.log(z) + offset, first, first * (slope_at(x, law, -1) - first)
        fill_row(rows[i], h, before, after)
        before = after
    return z


@compiled
def table_of(room, v, low, seen):
    """The table from w = `low` up to where Z stops growing or u ends; with `low` beyond that, Z is one number."""
    rows, edges, paces = room[0], room[1][0], room[1][1]
    law = law_of(v, seen)
    peak = peak_of(law)
    last = min(fallen(peak, 1.0, DEPTH, law), log_cap(0.5, seen.n))
    flat = side_of(last, seen.n)
    edges[:], paces[:] = last, 0.0
    if low >= last:
        total = constant_of(law) + log_up_to(last, peak, law)
        return Table(rows, edges, paces, 0.0, flat, -1.0, total, seen.n)
    low = min(low, last - 1e-6)
    top = min(peak, last)
    corner = math.log(law.centre) if law.kind == LAPLACE and law.centre > 0.0 else last
    tail = fallen(top, -1.0, _TAIL, law)
    deep = low
    if log_mass(low, law) < log_mass(tail, law) - _DEEP:
        deep = fallen(tail, -1.0, _DEEP, law)
    second = min(max(min(tail, corner), deep), last)
    third = min(max(max(tail, corner), deep), last)
    marks = (deep, second, third, last)
    edges[0], used = low, 0
    if deep > low:
        fill_deep(rows, low, deep, peak, law)
        edges[1], paces[0], used = deep, SEGMENT / (deep - low), 1
    offset = log_mass(min(max(top, deep), last), law)
    far = log_mass(deep, law) < log_mass(top, law) - _DEEP
    z = math.exp((log_below(deep, peak, law) if far else log_up_to(deep, peak, law)) - offset)
    work = np.empty(4 * SEGMENT)
    for i in range(3):
        start, stop = marks[i], marks[i + 1]
        while start < stop:
            end = stop
            if start == corner:  # behind it log Z turns on the scale of its own slope, which widens from there
                length = max(0.5 * SEGMENT * z / math.exp(log_mass(start, law) - offset), 1e-4 * (stop - start))
                end = start + length if length < 0.8 * (stop - start) else stop
            z = fill_segment(rows[used * SEGMENT : (used + 1) * SEGMENT], start, end, z, law, offset, work)
            paces[used] = SEGMENT / (end - start)
            used += 1
            edges[used] = start = end
    largest = math.log(z) + offset
    rows[:, 0] -= largest
    turn = side_of(corner, seen.n) if low < corner < last else -1.0
    return Table(
        rows,
        edges,
        paces,
        rows[0, 1] * paces[0],
        flat,
        turn,
        constant_of(law) + largest,
        seen.n,
    )


@compiled_in_place
def place_of(table, w):
    """Row of the interval that holds w, how far w is into it, and intervals per unit of w."""
    edges, k = table.edges, 0
    while w >= edges[k + 1] and table.paces[k + 1] > 0.0:
        k += 1
    pace = table.paces[k]
    place = (w - edges[k]) * pace
    i = max(min(int(place), SEGMENT - 1), 0)
    return k * SEGMENT + i, place - i, pace


@compiled_in_place
def log_z_at(table, y):
    """log Z(u(y)) relative to its largest value."""
    if table.flat <= y <= 1.0 - table.flat:
        return 0.0
    w = log_cap(y, table.size)
    if w == -np.inf:
        return w
    c = table.rows
    if w < table.edges[0]:
        return c[0, 0] + (w - table.edges[0]) * table.slope
    i, t, _ = place_of(table, w)
    return c[i, 0] + t * (c[i, 1] + t * (c[i, 2] + t * (c[i, 3] + t * (c[i, 4] + t * c[i, 5]))))


@compiled
def bend_at(table, y):
    """How fast log Z(u(y)) bends downwards: minus its second derivative in y."""
    if table.flat <= y <= 1.0 - table.flat:
        return 0.0
    w = log_cap(y, table.size)
    slope, bend = table.slope, 0.0
    if w >= table.edges[0]:
        c = table.rows
        i, t, pace = place_of(table, w)
        slope = pace * (c[i, 1] + t * (2.0 * c[i, 2] + t * (3.0 * c[i, 3] + t * (4.0 * c[i, 4] + 5.0 * t * c[i, 5]))))
        bend = pace * pace * (2.0 * c[i, 2] + t * (6.0 * c[i, 3] + t * (12.0 * c[i, 4] + 20.0 * t * c[i, 5])))
    rise, turn = (1.0 - 2.0 * y) / (y * (1.0 - y)), -1.0 / (y * y) - 1.0 / ((1.0 - y) * (1.0 - y))
    return max(0.0, -bend * rise * rise - slope * turn)
