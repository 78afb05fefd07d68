"""Marginal densities of posteriors on panels, one a row, and what is read off them.

Between the objects users hold and the compiled code, which is imported in the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adversary._numeric import Floats


@dataclass(frozen=True)
class Marginal:
    """Densities on panels, one a row: the kind of map and its two numbers, edges of panels, density at their points."""

    lines: Floats
    edges: Floats
    values: Floats

    def row(self, i: int) -> Marginal:
        """One of them, still as a row."""
        return Marginal(self.lines[i : i + 1], self.edges[i : i + 1], self.values[i : i + 1])

    def intervals(self, prob: float) -> Floats:
        """Intervals of highest density, (row, 2)."""
        from adversary.analyst import levels
        from adversary.analyst.compiled import call

        return np.asarray(call(levels.many_intervals, self.lines, self.edges, self.values, prob))

    def stretches(self, prob: float) -> list[tuple[float, float]]:
        """The set of highest density of the first row, as a union of intervals."""
        from adversary.analyst import levels

        law = levels.row_of(self.lines, self.edges, self.values, 0)
        starts, stops = np.empty(32), np.empty(32)
        count = levels.highest(law, prob, starts, stops)
        return [
            (levels.x_of(law, lo), levels.x_of(law, hi)) for lo, hi in zip(starts[:count], stops[:count], strict=True)
        ]

    def modes(self) -> Floats:
        """Where each density of x is highest, (row,)."""
        from adversary.analyst import levels
        from adversary.analyst.compiled import call

        return np.asarray(call(levels.many_modes, self.lines, self.edges, self.values))

    def quantiles(self, shares: Floats) -> Floats:
        """(row, share)."""
        from adversary.analyst import levels
        from adversary.analyst.compiled import call

        return np.asarray(call(levels.many_quantiles, self.lines, self.edges, self.values, shares))

    def densities(self, points: Floats) -> Floats:
        """Densities of x at points (row, point)."""
        from adversary.analyst import levels
        from adversary.analyst.compiled import call

        return np.asarray(call(levels.many_densities, self.lines, self.edges, self.values, points))

    def masses(self, points: Floats) -> Floats:
        """Probabilities below points (row, point)."""
        from adversary.analyst import levels
        from adversary.analyst.compiled import call

        return np.asarray(call(levels.many_masses, self.lines, self.edges, self.values, points))

    def nodes(self) -> tuple[Floats, Floats]:
        """Points of x and their probabilities, (row, node) each: for moments."""
        from adversary.analyst import levels

        x, weights = levels.many_nodes(self.lines, self.edges)
        return np.asarray(x), np.asarray(weights * self.values if self.values.size else weights)

    def finer(self, turn: float | None = None) -> Marginal:
        """The same line with every panel cut in three, and finer and finer below `turn`; one row, without densities."""
        steps = np.arange(3 * (self.edges.shape[1] - 1) + 1) / 3.0
        edges = np.interp(steps, np.arange(self.edges.shape[1]), self.edges[0])
        if turn is not None and edges[0] < turn < edges[-1]:
            below = edges[edges < turn]
            graded = turn - (turn - below[-1]) * 0.2 ** np.arange(7)
            edges = np.concatenate([below[:-1], graded, [turn], edges[edges > turn]])
        return Marginal(self.lines, edges[None], np.zeros((1, 0)))

    def moments(self, function: Callable[[Floats], Floats]) -> Floats:
        """Means of a function of x, (row,)."""
        x, probs = self.nodes()
        return np.asarray((probs * function(x)).sum(-1) / probs.sum(-1))
