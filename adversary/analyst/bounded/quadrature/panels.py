r"""Densities on lines, one a row, as their values at Gauss-Legendre points of panels; where panels should lie.

A panel holds ORDER points; between them the logarithm of the density is their polynomial. The line is t; the quantity
itself is x = map(t):

    sinh x = a + b sinh(t)    within the same, in [0, 1]    cosh x = 1 / (4 cosh(t)^2), t <= 0    exp x = exp(2 t)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._core import Floats

ORDER = 10
NODES, WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
_AT_NODES = np.polynomial.legendre.legvander(NODES, ORDER - 1)
TO_SERIES = (_AT_NODES * WEIGHTS[:, None]).T * (np.arange(ORDER)[:, None] + 0.5)
"""Legendre coefficients of the polynomial through values at the points of a panel."""
_FLAT, _TEMPER, _SPARE = 36.0, 6.0, 4.0
"""Nats below the top under which a density counts as level where panels are laid; the power by which it is tempered;
nats that panels may end short of their depth before they are laid further out."""


def forward(kind: str, a: Any, b: Any, t: Floats) -> Floats:
    """x of t."""
    if kind in ("sinh", "within"):
        return np.asarray(a + b * np.sinh(t))
    if kind == "cosh":
        e = np.exp(-2.0 * np.abs(t))
        return np.asarray(e / (1.0 + e) ** 2)
    return np.exp(2.0 * t)


def slope(kind: str, b: Any, t: Floats) -> Floats:
    """dx / dt."""
    if kind in ("sinh", "within"):
        return np.asarray(b * np.cosh(t))
    if kind == "cosh":
        e = np.exp(-2.0 * np.abs(t))
        return np.asarray(2.0 * e / (1.0 + e) ** 2 * np.tanh(np.abs(t)))
    return 2.0 * np.exp(2.0 * t)


def backward(kind: str, a: Any, b: Any, x: Any) -> Floats:
    """t of x; ends of the line beyond its range."""
    x = np.asarray(x, dtype=np.float64)
    if kind in ("sinh", "within"):
        return np.asarray(np.arcsinh((x - a) / b))
    with np.errstate(divide="ignore"):
        root = np.sqrt(np.maximum(x, 0.0))
        if kind == "cosh":
            return -np.arccosh(np.maximum(0.5 / root, 1.0))
        return np.log(root)


def bare(kind: str, a: Any, b: Any, t: Floats) -> Floats:
    """What a density of t goes to zero with, at the edge of what is feasible: taken off before its logarithm is."""
    if kind == "cosh":
        return np.tanh(t) ** 2
    if kind == "within":
        x = forward(kind, a, b, t)
        return np.maximum(x * (1.0 - x), 1e-300)
    return np.ones(t.shape)


def placed(edges: Floats) -> tuple[Floats, Floats]:
    """Points of all panels between edges (row, edge), and their weights, (row, point) each."""
    half, middle = 0.5 * np.diff(edges)[..., None], 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None]
    return (middle + half * NODES).reshape(len(edges), -1), (half * WEIGHTS).reshape(len(edges), -1)


def legendre(x: Floats, count: int) -> Floats:
    """Legendre polynomials of degree 0 to count - 1, along a last axis."""
    found = np.empty((*x.shape, count))
    found[..., 0], found[..., 1] = 1.0, x
    for k in range(1, count - 1):
        found[..., k + 1] = ((2.0 * k + 1.0) * x * found[..., k] - k * found[..., k - 1]) / (k + 1.0)
    return found


def weights_up_to(edges: Floats, stop: Floats) -> Floats:
    """Weights at all points of the integral up to `stop` (row, place) of panels: (row, place, point)."""
    half = 0.5 * np.diff(edges)[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.clip((stop[:, :, None] - edges[:, None, :-1]) / half - 1.0, -1.0, 1.0)
    x = np.where(half > 0.0, x, -1.0)
    rises = legendre(x, ORDER + 1)
    parts = np.empty((*x.shape, ORDER))
    parts[..., 0] = x + 1.0
    parts[..., 1:] = rises[..., 2:] - rises[..., :-2]
    found = np.einsum("rsqk,jk->rsqj", parts, _AT_NODES) * (0.5 * WEIGHTS) * half[..., None]
    return np.asarray(found.reshape(*stop.shape, -1))


def lay(edges: Floats, logs: Floats, low: Floats, high: Floats, depth: float, panels: int) -> Floats:
    """New edges, (row, panels + 1), from log densities (row, point) at the points of panels.

    Closer where the density lies, further out where it goes on; `low` and `high` are where the line ends, and panels
    end `depth` nats below the top. Each has the same share of a monitor of the density to the power 1 / _TEMPER: how
    far it rises and falls, and a little of its mass, so that panels are short where it turns.
    """
    points = np.concatenate([edges[:, :1], placed(edges)[0], edges[:, -1:]], -1)
    logs = np.maximum(logs - logs.max(-1, keepdims=True), -1e3)
    logs = np.concatenate([logs[:, :1], logs, logs[:, -1:]], -1)
    count, rows = points.shape[1], np.arange(len(points))
    inside = logs > -depth
    first = np.maximum(np.argmax(inside, -1) - 1, 0)
    last = np.minimum(count - np.argmax(inside[:, ::-1], -1), count - 1)
    length = points[rows, last] - points[rows, first]
    for turn, end, limit, at in ((-1.0, 0, low, (1, 4)), (1.0, count - 1, high, (count - 2, count - 5))):
        beyond = (logs[:, at[0]] > _SPARE - depth) & (turn * (limit - points[:, end]) > 0.0)
        moved = points[:, end] + turn * np.minimum(0.5 * length, turn * (limit - points[:, end]))
        rise = (logs[:, at[0]] - logs[:, at[1]]) / (points[:, at[0]] - points[:, at[1]])
        guess = np.minimum(np.maximum(logs[:, at[0]] + rise * (moved - points[:, at[0]]), -_FLAT), 20.0)
        points[:, end] = np.where(beyond, moved, points[:, end])
        logs[:, end] = np.where(beyond, guess, logs[:, end])
    tempered = np.exp(np.maximum(logs, -_FLAT) / _TEMPER)
    steps = np.diff(points)
    shares = np.abs(np.diff(tempered)) + 0.5 * (tempered[:, 1:] + tempered[:, :-1]) * steps / length[:, None]
    place = np.arange(count - 1)
    shares = np.where((place >= first[:, None]) & (place < last[:, None]), shares + 1e-12, 0.0)
    running = np.concatenate([np.zeros((len(points), 1)), np.cumsum(shares, -1)], -1)
    targets = running[:, -1:] * np.arange(1, panels) / panels
    at_ = np.clip((running[:, None, :] < targets[:, :, None]).sum(-1), 1, count - 1)
    before, after = (np.take_along_axis(running, i, -1) for i in (at_ - 1, at_))
    start, stop = (np.take_along_axis(points, i, -1) for i in (at_ - 1, at_))
    inner = start + (targets - before) / np.maximum(after - before, 1e-300) * (stop - start)
    return np.concatenate([points[rows, first][:, None], inner, points[rows, last][:, None]], -1)


def snap(edges: Floats, corner: Floats) -> None:
    """Move the inner edge nearest to a corner (row,), if it lies between the outer ones, onto it."""
    if edges.shape[1] < 3:
        return
    rows = np.flatnonzero((corner > edges[:, 0]) & (corner < edges[:, -1]))
    edges[rows, 1 + np.argmin(np.abs(edges[rows, 1:-1] - corner[rows, None]), -1)] = corner[rows]
