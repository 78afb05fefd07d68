r"""Marginal distributions on a grid: log densities at nodes, with moments, quantiles and intervals.

The quantity is x = x(t) on a line t, for the mean and the variance, with the bounds of the data and without:

    INSIDE x = 1 / (1 + exp(-2 t))   SINH x = a + b sinh(t)   COSH x = (4 cosh(t)^2)^-b, t <= 0   EXP x = exp(2 b t)

with b = 1 for the variance, and b = 1/2 for the standard deviation on the same line. In these coordinates the feasible
means and variances are |t of mean| <= |t of variance|. Between nodes the log density is linear in t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._core import Floats

INSIDE, SINH, COSH, EXP = "inside", "sinh", "cosh", "exp"

# Number of interpolated steps between two nodes of a grid.
FINER = 5

# Lower bound on a log density, relative to the maximum.
LOWEST = -700.0


@dataclass(frozen=True)
class Line:
    """Map from the coordinate t to a quantity x; see the module."""

    kind: str
    a: float = 0.0
    b: float = 1.0

    def x(self, t: Any) -> Floats:
        """Quantity x at t."""
        if self.kind == INSIDE:
            return np.asarray(expit(2.0 * np.asarray(t)))
        if self.kind == SINH:
            return np.asarray(self.a + self.b * np.sinh(t))
        if self.kind == COSH:
            e = np.exp(-2.0 * np.abs(t))
            return np.asarray((e / (1.0 + e) ** 2) ** self.b)
        return np.asarray(np.exp(2.0 * self.b * np.asarray(t)))

    def log_slope(self, t: Floats) -> Floats:
        """log dx / dt."""
        with np.errstate(divide="ignore"):
            if self.kind == INSIDE:
                return np.asarray(np.log(2.0) - 2.0 * np.logaddexp(t, -t))
            if self.kind == SINH:
                return np.asarray(np.log(self.b) + np.logaddexp(t, -t) - np.log(2.0))
            tail = np.log(np.tanh(np.abs(t))) if self.kind == COSH else 0.0
            height = -2.0 * np.logaddexp(t, -t) if self.kind == COSH else 2.0 * t
            return np.asarray(np.log(2.0 * self.b) + self.b * height + tail)

    def log_fall(self, t: Floats) -> Floats:
        """Log of the factor by which a density of t vanishes at the upper end: tanh(t)^2 for a feasible variance."""
        return np.asarray(2.0 * np.log(np.tanh(np.abs(t)))) if self.kind == COSH else np.zeros(t.shape)

    def t(self, x: Any) -> Floats:
        """Coordinate t of a quantity x; the ends of the line if x is out of range."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind == INSIDE:
                return np.asarray(np.arctanh(np.clip(2.0 * np.asarray(x) - 1.0, -1.0, 1.0)))
            if self.kind == SINH:
                return np.asarray(np.arcsinh((x - self.a) / self.b))
            root = np.maximum(x, 0.0) ** (0.5 / self.b)
            if self.kind == EXP:
                return np.asarray(np.log(root))
            return np.asarray(np.where(root < 0.5, -np.arccosh(np.maximum(0.5 / root, 1.0)), 0.0))


@dataclass(frozen=True)
class LineLaw:
    """Marginal distribution: nodes t of a line, and the log density of t relative to its maximum on the grid."""

    line: Line
    nodes: Floats
    logs: Floats

    @classmethod
    def of(cls, line: Line, nodes: Floats, density: Floats) -> LineLaw:
        """Interpolate densities at nodes, some of which may be 0, by monotone cubics (PCHIP) of their logarithm.

        The density of a feasible variance goes to 0 like tanh(t)^2 at its upper end; this factor is not interpolated.
        """
        from scipy.interpolate import PchipInterpolator

        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(density / density.max()), LOWEST)
            fine = np.interp(np.arange(FINER * (nodes.size - 1) + 1) / FINER, np.arange(nodes.size), nodes)
            bare = line.log_fall(nodes)
            some = np.isfinite(bare)
            smooth = PchipInterpolator(nodes[some], (logs - bare)[some])(np.minimum(fine, nodes[some][-1]))
            logs = smooth + line.log_fall(fine)
        return cls(line, fine, np.maximum(logs, LOWEST))

    def root(self) -> LineLaw:
        """Marginal of the standard deviation, from that of the variance, on the same nodes."""
        return replace(self, line=replace(self.line, b=0.5 * self.line.b))

    @cached_property
    def below(self) -> Floats:
        """Unnormalised mass below every node."""
        sums = np.concatenate([[0.0], np.cumsum(_cell(self.logs[:-1], self.logs[1:], np.diff(self.nodes)))])
        return np.asarray(sums)

    @cached_property
    def weights(self) -> Floats:
        """Probabilities of the nodes, for moments."""
        result = np.exp(self.logs) * trapezoid_weights(self.nodes)
        return np.asarray(result / result.sum())

    @cached_property
    def heights(self) -> Floats:
        """Log density of x at the nodes."""
        with np.errstate(invalid="ignore"):
            logs = self.logs - self.line.log_slope(self.nodes)
        return np.where(np.isfinite(logs), logs, LOWEST)

    @cached_property
    def x(self) -> Floats:
        """The quantity at the nodes."""
        return self.line.x(self.nodes)

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        mean = float((self.weights * self.x).sum())
        return mean, float(np.sqrt((self.weights * (self.x - mean) ** 2).sum()))

    def _mass_below(self, t: Floats) -> Floats:
        t = np.clip(t, self.nodes[0], self.nodes[-1])
        i = np.clip(np.searchsorted(self.nodes, t, side="right") - 1, 0, self.nodes.size - 2)
        return np.asarray(self.below[i] + _cell(self.logs[i], np.interp(t, self.nodes, self.logs), t - self.nodes[i]))

    def cdf(self, x: ArrayLike) -> Floats:
        """Cdf at x."""
        return np.asarray(self._mass_below(self.line.t(x)) / self.below[-1])

    def density(self, x: ArrayLike) -> Floats:
        """Density of x; 0 beyond the grid."""
        t = self.line.t(x)
        inside = (t >= self.nodes[0]) & (t <= self.nodes[-1])
        held = np.clip(t, self.nodes[0], self.nodes[-1])
        with np.errstate(invalid="ignore", over="ignore"):
            result = np.exp(np.interp(held, self.nodes, self.logs) - self.line.log_slope(held)) / self.below[-1]
        return np.where(inside & np.isfinite(result), result, 0.0)

    def _places(self, shares: Floats) -> Floats:
        """Quantiles in t at the probabilities `shares`."""
        mass = np.asarray(shares) * self.below[-1]
        i = np.clip(np.searchsorted(self.below, mass, side="right") - 1, 0, self.nodes.size - 2)
        width = self.nodes[i + 1] - self.nodes[i]
        slope = (self.logs[i + 1] - self.logs[i]) / width
        flat = (mass - self.below[i]) * np.exp(-self.logs[i])
        with np.errstate(divide="ignore", invalid="ignore"):
            way = np.where(np.abs(slope * flat) > 1e-8, np.log1p(np.maximum(slope * flat, -1.0)) / slope, flat)
        return np.asarray(self.nodes[i] + np.clip(np.nan_to_num(way, nan=0.0, posinf=np.inf), 0.0, width))

    def quantiles(self, shares: Any) -> Floats:
        """Quantiles of x at the probabilities `shares`."""
        return self.line.x(self._places(shares))

    @cached_property
    def mode(self) -> float:
        """Mode of x, from a parabola through the highest nodes of the grid."""
        h, t = self.heights[::FINER], self.nodes[::FINER]
        i = int(np.argmax(h))
        if i == 0 or i == t.size - 1:
            return self._end(t[i])
        left, right = (h[i] - h[i - 1]) / (t[i] - t[i - 1]), (h[i + 1] - h[i]) / (t[i + 1] - t[i])
        bend = (left - right) / (0.5 * (t[i + 1] - t[i - 1]))
        top = 0.5 * (t[i] + t[i - 1]) + left / bend if bend > 0.0 else t[i]
        return float(self.line.x(np.clip(top, t[i - 1], t[i + 1])))

    def _end(self, t: float) -> float:
        """x at an end of a stretch; 0 at the low end of a variance's grid."""
        return 0.0 if t <= self.nodes[0] and self.line.kind in (COSH, EXP) else float(self.line.x(t))

    def _above(self, level: float) -> tuple[Floats, Floats]:
        """Starts and ends of the stretches of t where the log density of x is above a level."""
        h, t = self.heights, self.nodes
        over = h > level
        turns = np.flatnonzero(over[1:] != over[:-1])
        ends = t[turns] + (level - h[turns]) / (h[turns + 1] - h[turns]) * (t[turns + 1] - t[turns])
        ends = np.concatenate([t[:1][over[:1]], ends, t[-1:][over[-1:]]])
        return ends[::2], ends[1::2]

    def stretches(self, prob: float) -> list[tuple[float, float]]:
        """Highest density region with probability `prob`, as a list of intervals."""
        low, high = float(self.heights.max()) - 100.0, float(self.heights.max())
        for _ in range(50):
            level = 0.5 * (low + high)
            starts, stops = self._above(level)
            mass = (self._mass_below(stops) - self._mass_below(starts)).sum()
            low, high = (level, high) if mass > prob * self.below[-1] else (low, level)
        return [(self._end(a), self._end(b)) for a, b in zip(*self._above(low), strict=True)]

    def interval(self, prob: float) -> tuple[float, float]:
        """Highest density interval; the shortest interval if the region is not connected."""
        result = self.stretches(prob)
        if len(result) == 1:
            return result[0]
        starts = np.union1d(np.linspace(0.0, 1.0 - prob, 2001), self.below / self.below[-1])
        starts = starts[starts <= 1.0 - prob]
        ends = self.quantiles(np.stack([starts, starts + prob]))
        best = int(np.argmin(ends[1] - ends[0]))
        return float(ends[0, best]), float(ends[1, best])


def _cell(first: Floats, last: Floats, width: Floats) -> Floats:
    """Integral of exp of a linear function with end values `first` and `last` over `width`."""
    rise = last - first
    small = np.abs(rise) < 1e-6
    share = np.expm1(rise) / np.where(small, 1.0, rise)
    return np.asarray(width * np.exp(first) * np.where(small, 1.0 + 0.5 * rise, share))


def trapezoid_weights(nodes: Floats) -> Floats:
    """Weights of the trapezoid rule."""
    steps = np.diff(nodes)
    return np.asarray(0.5 * (np.concatenate([steps, [0.0]]) + np.concatenate([[0.0], steps])))
