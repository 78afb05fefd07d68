"""Marginal densities of posteriors on panels, one a row, and what is read off them, for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adversary._core import Floats, Integers
from adversary.analyst.bounded.quadrature.panels import (
    NODES,
    ORDER,
    TO_SERIES,
    WEIGHTS,
    backward,
    bare,
    forward,
    placed,
    slope,
)

_FINE = 16
"""Steps in which a panel is gone over when a level is sought, before Newton's method."""
_FLOOR = 60.0
_LOST, _RARE = 1e-9, 1e-5


def _at(array: Floats, places: Integers) -> Floats:
    return np.take_along_axis(array, places, -1)


@dataclass(frozen=True)
class Marginal:
    """Densities of t on panels, one a row: the kind of map and its numbers (row,), edges, values at points."""

    kind: str
    a: Floats
    b: Floats
    edges: Floats
    values: Floats

    def rows(self, chosen: Integers) -> Marginal:
        """Some of them."""
        return Marginal(self.kind, *(x[chosen] for x in (self.a, self.b, self.edges, self.values)))

    def widened(self, panels: int) -> Marginal:
        """The same with panels of no width behind the others, `panels` in all."""
        more = panels + 1 - self.edges.shape[1]
        edges = np.pad(self.edges, ((0, 0), (0, more)), mode="edge")
        return Marginal(self.kind, self.a, self.b, edges, np.pad(self.values, ((0, 0), (0, more * ORDER)), mode="edge"))

    def x(self, t: Floats) -> Floats:
        """x at t (row, place); 0 at the low end of a variance."""
        found = forward(self.kind, self.a[:, None], self.b[:, None], t)
        return np.where(t <= self.edges[:, :1], 0.0, found) if self.kind in ("cosh", "exp") else found

    @cached_property
    def _series(self) -> Floats:
        """Legendre coefficients of the logarithm of every panel, less that of `bare`, (row, panel, degree)."""
        t, _ = placed(self.edges)
        floor = self.values.max(-1, keepdims=True) * np.exp(-_FLOOR)
        logs = np.maximum(self.values, floor) / np.maximum(bare(self.kind, self.a[:, None], self.b[:, None], t), 1e-300)
        logs = np.log(logs).reshape(len(t), -1, ORDER)
        return np.asarray(np.einsum("rpj,kj->rpk", logs, TO_SERIES))

    @cached_property
    def _masses(self) -> Floats:
        """Mass below every edge, (row, edge)."""
        parts = (placed(self.edges)[1] * self.values).reshape(len(self.values), -1, ORDER).sum(-1)
        return np.concatenate([np.zeros((len(parts), 1)), np.cumsum(parts, -1)], -1)

    def _panel(self, t: Floats) -> Integers:
        last = (self.edges[:, 1:] > self.edges[:, :-1]).sum(-1) - 1
        found = (self.edges[:, None, 1:-1] < t[:, :, None]).sum(-1)
        return np.asarray(np.minimum(found, last[:, None]))

    def _value_in(self, panel: Integers, t: Floats) -> Floats:
        """Density of t (row, place) by the polynomials of given panels."""
        lo, hi = _at(self.edges, panel), _at(self.edges, panel + 1)
        x = 2.0 * (t - lo) / np.maximum(hi - lo, 1e-300) - 1.0
        series = np.moveaxis(np.take_along_axis(self._series, panel[:, :, None], 1), -1, 0)
        after, now = 0.0 * x, 0.0 * x  # Clenshaw
        for k in range(ORDER - 1, 0, -1):
            now, after = series[k] + (2.0 * k + 1.0) / (k + 1.0) * x * now - (k + 1.0) / (k + 2.0) * after, now
        logs = series[0] + x * now - 0.5 * after
        return np.exp(np.minimum(logs, 600.0)) * bare(self.kind, self.a[:, None], self.b[:, None], t)

    def _value(self, t: Floats) -> Floats:
        """Density of t; 0 outside."""
        found = self._value_in(self._panel(t), t)
        return np.where((t < self.edges[:, :1]) | (t > self.edges[:, -1:]), 0.0, found)

    def _height(self, t: Floats) -> Floats:
        """Density of x at t."""
        rise = slope(self.kind, self.b[:, None], t)
        return np.where(rise > 0.0, self._value(t) / np.where(rise > 0.0, rise, 1.0), 0.0)

    def _mass(self, t: Floats) -> Floats:
        """Mass of t (row, place) below: from the nearer end of its panel."""
        t = np.clip(t, self.edges[:, :1], self.edges[:, -1:])
        panel = self._panel(t)
        lo, hi = _at(self.edges, panel), _at(self.edges, panel + 1)
        near = np.where(2.0 * t < lo + hi, lo, hi)
        half = 0.5 * (t - near)
        points = (near + half)[:, :, None] + half[:, :, None] * NODES
        many = np.repeat(panel, ORDER, -1)
        parts = self._value_in(many, points.reshape(len(t), -1)).reshape(points.shape)
        return _at(self._masses, np.where(near == lo, panel, panel + 1)) + half * (parts * WEIGHTS).sum(-1)

    @cached_property
    def _steps(self) -> tuple[Floats, Floats, Floats]:
        """t, the density of x and the mass below at _FINE steps of every panel."""
        shares = np.arange(_FINE) / _FINE
        edges = self.edges[:, :-1, None] + np.diff(self.edges)[:, :, None] * shares
        ts = np.concatenate([edges.reshape(len(self.edges), -1), self.edges[:, -1:]], -1)
        panels = self.edges.shape[1] - 1
        panel = np.broadcast_to(np.repeat(np.arange(panels), _FINE), (len(ts), panels * _FINE))
        half, middle = 0.5 * np.diff(ts), 0.5 * (ts[:, 1:] + ts[:, :-1])
        parts = sum(self._value_in(panel, middle + side * half / np.sqrt(3.0)) for side in (-1.0, 1.0)) * half
        rough = np.cumsum(parts.reshape(len(ts), panels, _FINE), -1)
        whole = np.diff(self._masses)[:, :, None]
        masses = self._masses[:, :-1, None] + rough / np.maximum(rough[:, :, -1:], 1e-300) * whole
        masses = np.concatenate([np.zeros((len(ts), 1)), masses.reshape(len(ts), -1)], -1)
        heights = self._height(ts)
        total = masses[:, -1:]
        if self.kind in ("cosh", "exp"):  # where hardly any mass lies, that of a variance is rounding: it is held
            held = np.argmax(masses >= _LOST * total, -1)[:, None]
            heights = np.where(np.arange(ts.shape[1]) < held, _at(heights, held), heights)
        for turn in (1, -1):  # towards an end beyond which hardly any mass lies, a density does not rise
            rest = masses if turn == 1 else total - masses[:, ::-1]
            high = heights[:, ::turn]
            start = np.argmax(rest >= _RARE * total, -1)[:, None]
            kept = np.where(np.arange(ts.shape[1]) <= start, high, np.inf)
            high = np.minimum(high, np.minimum.accumulate(kept[:, ::-1], -1)[:, ::-1])
            heights = high[:, ::turn]
        return ts, heights, masses

    def intervals(self, prob: float) -> Floats:
        """Intervals of highest density, (row, 2): with several stretches of it, the shortest interval."""
        ts, heights, _ = self._steps
        level = self._level(prob)
        inside = heights > level[:, None]
        count = np.diff(inside.astype(np.int8), axis=-1, prepend=0)
        several = (count == 1).sum(-1) != 1
        first, last = np.argmax(inside, -1), inside.shape[1] - 1 - np.argmax(inside[:, ::-1], -1)
        rows = np.arange(len(ts))

        def crossing(inner: Integers, outer: Integers) -> Floats:
            outer = np.clip(outer, 0, ts.shape[1] - 1)
            fall = heights[rows, inner] - heights[rows, outer]
            share = np.where(fall > 0.0, (heights[rows, inner] - level) / np.where(fall > 0.0, fall, 1.0), 1.0)
            return ts[rows, inner] + share * (ts[rows, outer] - ts[rows, inner])

        found = np.stack([crossing(first, first - 1), crossing(last, last + 1)], -1)
        inner = (found[:, 0] > ts[:, 0]) & (found[:, 1] < ts[:, -1]) & ~several
        if inner.any():
            some = np.flatnonzero(inner)
            found[some] = self.rows(some)._polished(found[some], prob)
        # an interval that begins or ends with the line has the other end at a quantile
        below, above = self._quantiles(np.array([1.0 - prob, prob])).T
        found[:, 1] = np.where((found[:, 0] <= ts[:, 0]) & ~several, above, found[:, 1])
        found[:, 0] = np.where((found[:, 1] >= ts[:, -1]) & ~several, below, found[:, 0])
        for i in np.flatnonzero(several):
            found[i] = self._shortest(i, prob)
        return self.x(found)

    def _level(self, prob: float) -> Floats:
        """The level above which the density of x has this share of the mass, (row,), by straight lines."""
        _, heights, masses = self._steps
        parts, total = np.diff(masses), masses[:, -1]
        upper, lower = np.maximum(heights[:, 1:], heights[:, :-1]), np.minimum(heights[:, 1:], heights[:, :-1])
        span = np.maximum(upper - lower, 1e-300)
        low, high = np.zeros(len(total)), heights.max(-1)
        for _ in range(44):
            middle = 0.5 * (low + high)
            share = np.clip((upper - middle[:, None]) / span, 0.0, 1.0)
            enough = (parts * share).sum(-1) > prob * total
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return np.asarray(low)

    def _polished(self, ends: Floats, prob: float) -> Floats:
        """Newton's method for two ends of equal height that hold a share of the mass: heights equal, mass right."""
        found, target = ends.copy(), prob * self._masses[:, -1]
        span = ends[:, 1] - ends[:, 0]
        step = 1e-5 * span
        with np.errstate(all="ignore"):
            good = np.ones(len(ends), bool)
            for _ in range(8):
                lo, hi = found.T
                high = self._height(np.stack([lo, lo + step, hi - step, hi], -1))
                t_lo, t_hi = (high[:, [0, 3]] * slope(self.kind, self.b[:, None], found)).T
                below = self._mass(found)
                gap, short = np.log(high[:, 3] / high[:, 0]), target - (below[:, 1] - below[:, 0])
                d_lo, d_hi = np.log(high[:, 1] / high[:, 0]) / step, np.log(high[:, 3] / high[:, 2]) / step
                # [-d_lo, d_hi; -t_lo, t_hi] (move_lo, move_hi) = (-gap, short)
                det = d_hi * t_lo - d_lo * t_hi
                moves = np.stack([-gap * t_hi - d_hi * short, -d_lo * short - t_lo * gap], -1) / det[:, None]
                size = np.abs(moves).sum(-1)
                good &= np.isfinite(size) & (size < 0.2 * span)
                fresh = found + moves
                good &= (fresh[:, 0] > self.edges[:, 0]) & (fresh[:, 1] < self.edges[:, -1])
                found = np.where(good[:, None], fresh, ends)
                if not (good & (size > 1e-10 * span)).any():
                    break
        return found

    def _shortest(self, i: int, prob: float) -> tuple[float, float]:
        """The shortest interval of x of one row, over the steps: for several stretches of highest density."""
        ts, _, masses = (x[i] for x in self._steps)
        starts = np.flatnonzero(masses + prob * masses[-1] <= masses[-1])
        stops = np.interp(masses[starts] + prob * masses[-1], masses, ts)
        pairs = self.rows(np.array([i])).x(np.concatenate([ts[starts], stops])[None])[0].reshape(2, -1)
        best = int(np.argmin(pairs[1] - pairs[0]))
        return float(ts[starts[best]]), float(stops[best])

    def stretches(self, prob: float) -> list[tuple[float, float]]:
        """The set of highest density of the first row, as a union of intervals."""
        (ts,), (heights,), _ = (x[:1] for x in self._steps)
        level = self._level(prob)[0]
        above = np.concatenate([[False], heights > level, [False]])
        turns = np.flatnonzero(np.diff(above.astype(np.int8)))
        if turns.size == 2:
            low, high = self.rows(np.array([0])).intervals(prob)[0]
            return [(float(low), float(high))]
        ends = []
        for j in turns:
            i = min(max(j, 1), ts.size - 1)
            rise = heights[i] - heights[i - 1]
            share = np.clip((level - heights[i - 1]) / rise, 0.0, 1.0) if rise and 0 < j < ts.size else float(j > 0)
            ends.append(ts[i - 1] + share * (ts[i] - ts[i - 1]))
        x = self.rows(np.array([0])).x(np.array([ends]))[0]
        return [(float(lo), float(hi)) for lo, hi in zip(x[::2], x[1::2], strict=True)]

    def modes(self) -> Floats:
        """Where each density of x is highest, (row,); 0 where it still rises at the low end of a variance."""
        ts, heights, _ = self._steps
        best = np.argmax(heights, -1)[:, None]
        lo, hi = _at(ts, np.maximum(best - 1, 0)), _at(ts, np.minimum(best + 1, ts.shape[1] - 1))
        for _ in range(7):
            points = lo + (hi - lo) * np.linspace(0.0, 1.0, 17)
            best = np.argmax(self._height(points), -1)[:, None]
            lo, hi = _at(points, np.maximum(best - 1, 0)), _at(points, np.minimum(best + 1, 16))
        t = np.where(best == 0, lo, 0.5 * (lo + hi))
        return np.asarray(self.x(t)[:, 0])

    def quantiles(self, shares: Floats) -> Floats:
        """(row, share)."""
        return forward(self.kind, self.a[:, None], self.b[:, None], self._quantiles(shares))

    def _quantiles(self, shares: Floats) -> Floats:
        """As t, (row, share)."""
        ts, _, masses = self._steps
        targets = shares * masses[:, -1:]
        place = np.stack([np.searchsorted(row, q) for row, q in zip(masses, targets, strict=True)])
        place = np.clip(place, 1, ts.shape[1] - 1)
        lo, hi = _at(ts, place - 1), _at(ts, place)
        below, above = _at(masses, place - 1), _at(masses, place)
        t = lo + (hi - lo) * np.clip((targets - below) / np.maximum(above - below, 1e-300), 0.0, 1.0)
        for _ in range(4):
            value = self._value(t)
            step = (targets - self._mass(t)) / np.where(value > 0.0, value, np.inf)
            t = np.clip(t + step, lo, hi)
        return np.asarray(t)

    def densities(self, points: Floats) -> Floats:
        """Densities of x at points (row, point)."""
        return self._height(self._t(points))

    def masses(self, points: Floats) -> Floats:
        """Probabilities below points (row, point)."""
        return self._mass(self._t(points)) / self._masses[:, -1:]

    def shares_below(self, t: Floats) -> Floats:
        """Probabilities below places t on the line, (row, place)."""
        return self._mass(t) / self._masses[:, -1:]

    def _t(self, points: Floats) -> Floats:
        return backward(self.kind, self.a[:, None], self.b[:, None], points)

    def nodes(self) -> tuple[Floats, Floats]:
        """Points of x and their probabilities, (row, node) each: for moments."""
        t, weights = placed(self.edges)
        return forward(self.kind, self.a[:, None], self.b[:, None], t), weights * self.values

    def moments(self, function: Callable[[Floats], Floats]) -> Floats:
        """Means of a function of x, (row,)."""
        x, probs = self.nodes()
        return np.asarray((probs * function(x)).sum(-1) / probs.sum(-1))

    def unresolved(self) -> Floats:
        """How far the polynomials, integrated on half panels, are from the masses of the panels, relative to all."""
        whole = self._masses[:, -1]
        middle = 0.5 * (self.edges[:, 1:] + self.edges[:, :-1])
        parts = 0.0
        panel = np.broadcast_to(np.repeat(np.arange(middle.shape[1]), ORDER), (len(whole), middle.shape[1] * ORDER))
        for lo, hi in ((self.edges[:, :-1], middle), (middle, self.edges[:, 1:])):
            half = 0.5 * (hi - lo)[:, :, None]
            points = 0.5 * (hi + lo)[:, :, None] + half * NODES
            values = self._value_in(panel, points.reshape(len(whole), -1)).reshape(points.shape)
            parts = parts + (half * WEIGHTS * values).sum(-1)
        return np.asarray(np.abs(parts - np.diff(self._masses)).sum(-1) / whole)
