r"""Densities on panels, one a row, and what is read off them.

A panel holds ORDER Gauss-Legendre points; between them the logarithm of the density is their polynomial. The line is t;
the quantity itself is x = map(t), for the mean and the variance, with the bounds of the data and without:

    SINH x = a + b sinh(t)  WITHIN the same, in [0, 1]  COSH x = (4 cosh(t)^2)^-b, t <= 0  EXP x = exp(2 b t)

with b = 1 for the variance, and b = 1/2 for the standard deviation on the same line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.polynomial.polynomial import polyval, polyvander

from adversary._core import Floats, Integers

SINH, COSH, EXP, WITHIN = 0, 1, 2, 3
ORDER = 10
_FLOOR = 60.0
_STEPS = 16
"""Steps in which a panel is gone over when a level is sought, before Newton's method."""
_LOST, _RARE = 1e-9, 1e-5
_TINY = 1e-300

NODES, WEIGHTS = leggauss(ORDER)
_TO_SERIES = np.linalg.inv(polyvander(NODES, ORDER - 1))
_FROM_START = (-1.0) ** np.arange(1, ORDER + 1)
_TO_INTEGRAL = _TO_SERIES / np.arange(1, ORDER + 1)[:, None]
_STEP_ENDS = np.linspace(-1.0, 1.0, _STEPS + 1)
_PAIR = (_STEP_ENDS[:-1, None] + (1.0 + leggauss(2)[0]) / _STEPS).ravel()


def forward(kind: int, a: Any, b: Any, t: Floats) -> Floats:
    """x of t."""
    if kind in (SINH, WITHIN):
        return np.asarray(a + b * np.sinh(t))
    if kind == COSH:
        e = np.exp(-2.0 * np.abs(t))
        return np.asarray((e / (1.0 + e) ** 2) ** b)
    return np.asarray(np.exp(2.0 * b * t))


def jacobian(kind: int, b: Any, t: Floats) -> Floats:
    """dx / dt."""
    if kind in (SINH, WITHIN):
        return np.asarray(b * np.cosh(t))
    if kind == COSH:
        return np.asarray(2.0 * b * forward(COSH, 0.0, b, t) * np.tanh(np.abs(t)))
    return np.asarray(2.0 * b * forward(EXP, 0.0, b, t))


def backward(kind: int, a: Any, b: Any, x: Any) -> Floats:
    """t of x; ends of the line beyond its range."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind in (SINH, WITHIN):
            return np.asarray(np.arcsinh((x - a) / b))
        root = np.maximum(x, 0.0) ** (0.5 / b)
        if kind == EXP:
            return np.asarray(np.log(root))
        return np.asarray(np.where(root < 0.5, -np.arccosh(np.maximum(0.5 / root, 1.0)), 0.0))


def last_of(mu: Floats) -> Floats:
    """The largest t of a variance that is feasible with a mean: v = mu (1 - mu); none outside [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((mu > 0.0) & (mu < 1.0), -np.arctanh(np.abs(1.0 - 2.0 * mu)), -np.inf)


def fall_outwards(heights: Floats, first: Integers, last: Integers) -> Floats:
    """Heights (row, point) that rise no more towards either end, before a first and after a last point (row, 1)."""
    steps = np.arange(heights.shape[1])
    left = np.minimum.accumulate(np.where(steps <= first, heights, np.inf)[:, ::-1], 1)[:, ::-1]
    right = np.minimum.accumulate(np.where(steps >= last, heights, np.inf), 1)
    return np.where(steps < first, left, np.where(steps > last, right, heights))


def weights_up_to(edges: Floats, stops: Floats) -> Floats:
    """Weights at all nodes of the integrals from the first edge to each of the stops, (row, stop, node)."""
    low, width = edges[:, None, :-1], np.diff(edges)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.clip(2.0 * (stops[..., None] - low) / width - 1.0, -1.0, 1.0)
    rise = np.ascontiguousarray(polyvander(np.nan_to_num(place, nan=1.0), ORDER)[..., 1:]) - _FROM_START
    found = 0.5 * width[..., None] * (rise @ _TO_INTEGRAL)
    return np.asarray(found.reshape(*stops.shape, found.shape[-2] * found.shape[-1]))


def _bare(kind: int, a: Any, b: Any, t: Floats) -> Any:
    """What a density of t goes to zero with, at the edge of what is feasible: taken off before its logarithm is."""
    if kind == COSH:
        return np.tanh(t) ** 2
    if kind == WITHIN:
        x = forward(kind, a, b, t)
        return np.maximum(x * (1.0 - x), _TINY)
    return 1.0


@dataclass(frozen=True)
class Marginal:
    """Densities on panels, one a row: the kind of map, its two numbers, edges, density of t at points."""

    kind: int
    a: Floats
    b: Floats
    edges: Floats
    values: Floats

    def rows(self, chosen: Integers) -> Marginal:
        """Some of them."""
        return Marginal(self.kind, self.a[chosen], self.b[chosen], self.edges[chosen], self.values[chosen])

    def root(self) -> Marginal:
        """Of the standard deviation, from that of the variance: other values on the same line."""
        return replace(self, b=0.5 * self.b)

    def pad_panels(self, panels: int) -> Marginal:
        """The same with panels of no width behind the others, `panels` in all."""
        if not (more := panels + 1 - self.edges.shape[1]):
            return self
        edges = np.pad(self.edges, ((0, 0), (0, more)), mode="edge")
        values = np.pad(self.values, ((0, 0), (0, more * ORDER)), mode="edge")
        return Marginal(self.kind, self.a, self.b, edges, values)

    def x(self, t: Floats) -> Floats:
        """The quantity at points of the line, (row, point)."""
        return forward(self.kind, self.a[:, None], self.b[:, None], t)

    def t(self, x: Floats) -> Floats:
        """Points of the line at values of the quantity, (row, point)."""
        return backward(self.kind, self.a[:, None], self.b[:, None], x)

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """Points of all panels and their weights, (row, node) each."""
        half, middle = 0.5 * np.diff(self.edges), 0.5 * (self.edges[:, 1:] + self.edges[:, :-1])
        nodes, weights = middle[..., None] + half[..., None] * NODES, half[..., None] * WEIGHTS
        shape = len(nodes), nodes.shape[1] * nodes.shape[2]
        return nodes.reshape(shape), weights.reshape(shape)

    @cached_property
    def series(self) -> Floats:
        """Power series of the logarithm, less that of `_bare`, on every panel, (power, row, panel)."""
        nodes = self.points[0]
        floor = self.values.max(1, keepdims=True) * np.exp(-_FLOOR)
        part = _bare(self.kind, self.a[:, None], self.b[:, None], nodes)
        logs = np.log(np.maximum(self.values, np.maximum(floor, _TINY)) / np.maximum(part, _TINY))
        series = logs.reshape(len(logs), logs.shape[1] // ORDER, ORDER) @ _TO_SERIES.T
        return np.moveaxis(series, -1, 0)

    @cached_property
    def below(self) -> Floats:
        """Mass below every edge, (row, edge)."""
        masses = (self.points[1] * self.values).reshape(len(self.edges), self.edges.shape[1] - 1, ORDER).sum(-1)
        return np.concatenate([np.zeros((len(masses), 1)), np.cumsum(masses, 1)], 1)

    @property
    def total(self) -> Floats:
        """Whole mass, (row, 1)."""
        return self.below[:, -1:]

    def _panels(self, t: Floats) -> Integers:
        return np.asarray((t[..., None] > self.edges[:, None, 1:-1]).sum(-1))

    def _within(self, t: Floats, panels: Integers) -> Floats:
        """Density of t at points (row, point, ...) that lie in these panels (row, point)."""
        rows = np.arange(len(t))[:, None]
        more = (1,) * (t.ndim - 2)
        low = self.edges[rows, panels].reshape(*panels.shape, *more)
        high = self.edges[rows, panels + 1].reshape(*panels.shape, *more)
        place = 2.0 * (t - low) / np.where(high > low, high - low, 1.0) - 1.0
        series = self.series[:, rows, panels].reshape(ORDER, *panels.shape, *more)
        a, b = (p.reshape(-1, 1, *more) for p in (self.a, self.b))
        logs = polyval(np.clip(place, -1.0, 1.0), series, tensor=False)
        return np.asarray(np.exp(np.minimum(logs, 600.0)) * _bare(self.kind, a, b, t))

    def values_at(self, t: Floats) -> Floats:
        """Density of t at points (row, point); 0 outside."""
        inside = (t >= self.edges[:, :1]) & (t <= self.edges[:, -1:])
        return np.where(inside, self._within(np.where(inside, t, self.edges[:, :1]), self._panels(t)), 0.0)

    def heights_at(self, t: Floats) -> Floats:
        """Density of x at points of the line (row, point)."""
        return self._per_x(t, self.values_at(t))

    def _per_x(self, t: Floats, values: Floats) -> Floats:
        """Densities of x, from those of t at these points."""
        slope = jacobian(self.kind, self.b[:, None], t)
        return np.where(slope > 0.0, values / np.where(slope > 0.0, slope, 1.0), 0.0)

    def masses_at(self, t: Floats) -> Floats:
        """Mass below points of the line (row, point): from the nearer edge of a panel."""
        t = np.clip(t, self.edges[:, :1], self.edges[:, -1:])
        rows, panels = np.arange(len(t))[:, None], self._panels(t)
        low, high = self.edges[rows, panels], self.edges[rows, panels + 1]
        near = 2.0 * t < low + high
        start, stop = np.where(near, low, t)[..., None], np.where(near, t, high)[..., None]
        nodes = 0.5 * (start + stop) + 0.5 * (stop - start) * NODES
        mass = (0.5 * (stop - start) * WEIGHTS * self._within(nodes, panels)).sum(-1)
        return np.where(near, self.below[rows, panels] + mass, self.below[rows, panels + 1] - mass)

    @cached_property
    def unresolved(self) -> Floats:
        """How far the series, integrated on half panels, are from the masses of the panels, relative to all, (row,)."""
        half = 0.5 * (self.edges[:, 1:] + self.edges[:, :-1])
        panels = np.broadcast_to(np.arange(half.shape[1]), half.shape)
        ends = np.stack([self.edges[:, :-1], half, self.edges[:, 1:]], -1)
        start, stop = ends[..., :-1, None], ends[..., 1:, None]
        nodes = 0.5 * (start + stop) + 0.5 * (stop - start) * NODES
        mass = (0.5 * (stop - start) * WEIGHTS * self._within(nodes, panels)).sum((-2, -1))
        return np.asarray(np.abs(mass - np.diff(self.below)).sum(1) / self.total[:, 0])

    @cached_property
    def _fine(self) -> tuple[Floats, Floats, Floats]:
        """t, density of x and mass below at equal steps of every panel, (row, step) each."""
        rows, panels = len(self.edges), self.edges.shape[1] - 1
        low, width = self.edges[:, :-1, None], np.diff(self.edges)[..., None]
        t = np.minimum(low + width * 0.5 * (1.0 + _STEP_ENDS), self.edges[:, 1:, None])
        pairs = low + width * 0.5 * (1.0 + _PAIR)
        which = np.broadcast_to(np.arange(panels), (rows, panels))
        mass = self._within(pairs, which).reshape(rows, panels, _STEPS, 2).sum(-1)
        mass = np.cumsum(mass, -1)
        mass = mass / np.maximum(mass[..., -1:], _TINY) * np.diff(self.below)[..., None] + self.below[:, :-1, None]
        t = np.concatenate([t[:, :1, 0], t[..., 1:].reshape(rows, panels * (t.shape[2] - 1))], 1)
        masses = np.concatenate([np.zeros((rows, 1)), mass.reshape(rows, panels * _STEPS)], 1)
        return t, self._monotone_ends(self.heights_at(t), masses), masses

    def _monotone_ends(self, heights: Floats, masses: Floats) -> Floats:
        """Heights that do not rise towards an end beyond which hardly any mass lies; that of a variance is held."""
        steps = np.arange(heights.shape[1])
        if self.kind in (COSH, EXP):
            first = (masses < _LOST * self.total).sum(1, keepdims=True)
            heights = np.where(steps < first, np.take_along_axis(heights, first, 1), heights)
        first = (masses < _RARE * self.total).sum(1, keepdims=True)
        last = heights.shape[1] - 1 - (self.total - masses < _RARE * self.total).sum(1, keepdims=True)
        return fall_outwards(heights, first, last)

    def quantiles_t(self, shares: Floats) -> Floats:
        """Points of the line below which shares (share,) of the mass lie, (row, share)."""
        t, _, masses = self._fine
        target = shares * self.total
        after = np.clip((masses[:, None] < target[..., None]).sum(-1), 1, t.shape[1] - 1)
        low, high = np.take_along_axis(t, after - 1, 1), np.take_along_axis(t, after, 1)
        start, stop = np.take_along_axis(masses, after - 1, 1), np.take_along_axis(masses, after, 1)
        found = low + (high - low) * np.clip((target - start) / np.maximum(stop - start, _TINY), 0.0, 1.0)
        for _ in range(4):
            found = found + (target - self.masses_at(found)) / np.maximum(self.values_at(found), _TINY)
            found = np.clip(found, low, high)
        return found

    def quantiles(self, shares: Floats) -> Floats:
        """(row, share)."""
        return self.x(self.quantiles_t(shares))

    def _starts_at_zero(self, t: Floats) -> Any:
        """Whether t is the low end of a variance, which stands for 0."""
        return (t <= self.edges[:, :1]) & (self.kind in (COSH, EXP))

    def _ends(self, t: Floats) -> Floats:
        return np.where(self._starts_at_zero(t), 0.0, self.x(t))

    def _highest(self, prob: float) -> tuple[Floats, Floats, Any]:
        """Level of the density of x above which a share lies, roughly; t and whether each step's end lies above."""
        t, heights, masses = self._fine
        steps, low = np.diff(masses), np.minimum(heights[:, 1:], heights[:, :-1])
        high = np.maximum(heights[:, 1:], heights[:, :-1])
        rise = np.maximum(high - low, _TINY)
        under, over = np.zeros((len(t), 1)), heights.max(1, keepdims=True)
        for _ in range(30):
            level = 0.5 * (under + over)
            mass = (steps * np.clip((high - level) / rise, 0.0, 1.0)).sum(1, keepdims=True)
            more = mass > prob * self.total
            under, over = np.where(more, level, under), np.where(more, over, level)
        return under, t, heights > under

    def _stretches(self, i: int, level: Floats, t: Floats, above: Any) -> list[tuple[float, float]]:
        """Stretches of t of one row above its level, ends by straight lines."""
        heights = self._fine[1][i]
        turns = np.flatnonzero(above[i, 1:] != above[i, :-1])
        share = (level[i, 0] - heights[turns]) / (heights[turns + 1] - heights[turns])
        ends = list(t[i, turns] + share * (t[i, turns + 1] - t[i, turns]))
        ends = ([t[i, 0]] if above[i, 0] else []) + ends + ([t[i, -1]] if above[i, -1] else [])
        return list(zip(ends[::2], ends[1::2], strict=True))

    def _newton_ends(self, lo: Floats, hi: Floats, prob: float) -> tuple[Floats, Floats]:
        """Newton's method for the two ends (row, 1) of equal height that hold a share: heights equal, mass right."""
        first, last, span = lo, hi, hi - lo
        step, good = 1e-5 * span, np.ones_like(lo, bool)
        for _ in range(4):
            points = np.concatenate([lo, lo + step, hi - step, hi], 1)
            values = self.values_at(points)
            t_lo, _, _, t_hi = np.split(values, 4, 1)
            logs = np.log(np.maximum(self._per_x(points, values), _TINY))
            l_lo, l_up, l_down, l_hi = np.split(logs, 4, 1)
            good &= (l_lo > np.log(_TINY)) & (l_hi > np.log(_TINY))
            gap, d_lo, d_hi = l_hi - l_lo, (l_up - l_lo) / step, (l_hi - l_down) / step
            start, stop = np.split(self.masses_at(points[:, [0, 3]]), 2, 1)
            short = prob * self.total - (stop - start)
            det = d_hi * t_lo - d_lo * t_hi
            good &= np.abs(det) > 0.0
            det = np.where(good, det, 1.0)
            move_lo, move_hi = (-gap * t_hi - d_hi * short) / det, (-d_lo * short - t_lo * gap) / det
            good &= np.abs(move_lo) + np.abs(move_hi) < 0.2 * span
            lo, hi = np.where(good, lo + move_lo, first), np.where(good, hi + move_hi, last)
            good &= (lo >= self.edges[:, :1]) & (hi <= self.edges[:, -1:]) & (lo < hi)
            lo, hi = np.where(good, lo, first), np.where(good, hi, last)
        return lo, hi

    def intervals(self, prob: float) -> Floats:
        """Intervals of highest density, or the shortest ones where there are several stretches, (row, 2)."""
        level, t, above = self._highest(prob)
        pieces = (above[:, 1:] > above[:, :-1]).sum(1) + above[:, 0]
        ends = np.empty((len(t), 2))
        for i in range(len(t)):
            ends[i] = self._stretches(i, level, t, above)[0] if pieces[i] == 1 else self._shortest(i, prob)
        at_start, at_end = ends[:, 0] <= t[:, 0], ends[:, 1] >= t[:, -1]
        inner = np.flatnonzero((pieces == 1) & ~at_start & ~at_end)
        if len(inner):
            polished = self.rows(inner)._newton_ends(ends[inner, :1], ends[inner, 1:], prob)
            ends[inner] = np.concatenate(polished, 1)
        for which, side, share in ((at_start, 1, prob), (at_end & ~at_start, 0, 1.0 - prob)):
            some = np.flatnonzero((pieces == 1) & which)
            if len(some):
                ends[some, side] = self.rows(some).quantiles_t(np.array([share]))[:, 0]
        return self._ends(ends)

    def _shortest(self, i: int, prob: float) -> tuple[float, float]:
        """The shortest interval of x with a share of the mass of one row, over its steps."""
        t, _, masses = (x[i] for x in self._fine)
        starts = masses + prob * masses[-1] <= masses[-1]
        stops = np.interp(masses[starts] + prob * masses[-1], masses, t)
        ends = forward(self.kind, self.a[i], self.b[i], np.stack([t[starts], stops]))
        best = int(np.argmin(ends[1] - ends[0]))
        return t[starts][best], stops[best]

    def stretches(self, prob: float) -> list[tuple[float, float]]:
        """The set of highest density of the first row, as a union of intervals."""
        level, t, above = self._highest(prob)
        found = self._stretches(0, level, t, above)
        if len(found) == 1:
            low, high = self.rows(np.array([0])).intervals(prob)[0]
            return [(float(low), float(high))]
        return [tuple(float(x) for x in self._ends(np.array([pair]))[0]) for pair in found]  # type: ignore[misc]

    def modes(self) -> Floats:
        """Where each density of x is highest, (row,): the best step, and ever closer about it."""
        t, heights, _ = self._fine
        best = heights.argmax(1)[:, None]
        low, high = (np.take_along_axis(t, np.clip(best + s, 0, t.shape[1] - 1), 1) for s in (-1, 1))
        for _ in range(8):
            points = low + (high - low) * np.linspace(0.0, 1.0, 17)
            best = self.heights_at(points).argmax(1)[:, None]
            low, high = (np.take_along_axis(points, np.clip(best + s, 0, 16), 1) for s in (-1, 1))
        found = 0.5 * (low + high)
        return np.where(self._starts_at_zero(found - 1e-9 * np.abs(found)), 0.0, self.x(found))[:, 0]

    def densities(self, points: Floats) -> Floats:
        """Densities of x at points (row, point)."""
        return self.heights_at(self.t(points))

    def masses(self, points: Floats) -> Floats:
        """Probabilities below points (row, point)."""
        return np.asarray(self.masses_at(self.t(points)) / self.total)

    def nodes(self) -> tuple[Floats, Floats]:
        """Points of x and their probabilities, (row, node) each: for moments."""
        t, weights = self.points
        return self.x(t), weights * self.values if self.values.size else weights

    def finer(self, turn: float | None = None) -> Marginal:
        """The same line with every panel cut in three, and finer and finer below `turn`; one row, without densities."""
        steps = np.arange(3 * (self.edges.shape[1] - 1) + 1) / 3.0
        edges = np.interp(steps, np.arange(self.edges.shape[1]), self.edges[0])
        if turn is not None and edges[0] < turn < edges[-1]:
            below = edges[edges < turn]
            graded = turn - (turn - below[-1]) * 0.2 ** np.arange(7)
            edges = np.concatenate([below[:-1], graded, [turn], edges[edges > turn]])
        return Marginal(self.kind, self.a, self.b, edges[None], np.zeros((1, 0)))

    def moments(self, function: Callable[[Floats], Floats]) -> Floats:
        """Means of a function of x, (row,)."""
        x, probs = self.nodes()
        one_by_one = np.cumsum([probs * function(x), probs], -1)[..., -1]  # whatever panels of no width follow
        return np.asarray(one_by_one[0] / one_by_one[1])
