"""Marginal densities of posteriors on panels, one a row, and what is read off them.

Between the objects users hold and the compiled code, which is imported in the methods.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, in_threads

_AT_ONCE = 64


def in_pieces[R](function: Callable[[slice], R], rows: int) -> list[R]:
    """The function of one piece of the rows after another, in threads; of nothing where there are none."""
    pieces = [slice(start, min(start + _AT_ONCE, rows)) for start in range(0, max(rows, 1), _AT_ONCE)]
    return in_threads(function, pieces, os.cpu_count() or 1)


@dataclass(frozen=True)
class Marginal:
    """Densities on panels, one a row: the kind of map and its two numbers, edges of panels, density at their points."""

    lines: Floats
    edges: Floats
    values: Floats

    def row(self, i: int) -> Marginal:
        """One of them, still as a row."""
        return self.rows(np.array([i]))

    def rows(self, chosen: Integers) -> Marginal:
        """Some of them."""
        return Marginal(self.lines[chosen], self.edges[chosen], self.values[chosen])

    def widened(self, panels: int) -> tuple[Floats, Floats, Floats]:
        """Its arrays with panels of no width behind the others, `panels` in all."""
        more = panels + 1 - self.edges.shape[1]
        points = self.values.shape[1] // (self.edges.shape[1] - 1)
        edges = np.pad(self.edges, ((0, 0), (0, more)), mode="edge")
        return self.lines, edges, np.pad(self.values, ((0, 0), (0, more * points)), mode="edge")

    def intervals(self, prob: float) -> Floats:
        """Intervals of highest density, (row, 2)."""
        from adversary.analyst.bounded.quadrature import levels

        return self._each_row(levels.many_intervals, prob)

    def _each_row(self, function: Any, *rest: Any, by_row: Floats | None = None) -> Floats:
        """A compiled function of lines, edges, values, of the row's own numbers if there are any, and of the rest."""
        from adversary._core import call

        given = [self.lines, self.edges, self.values] + ([] if by_row is None else [by_row])
        return np.concatenate(
            in_pieces(lambda rows: call(function, *(x[rows] for x in given), *rest), len(self.values))
        )

    def stretches(self, prob: float) -> list[tuple[float, float]]:
        """The set of highest density of the first row, as a union of intervals."""
        from adversary.analyst.bounded.quadrature import levels

        law = levels.row_of(self.lines, self.edges, self.values, 0)
        starts, stops = np.empty(32), np.empty(32)
        count = levels.highest(law, prob, starts, stops)
        return [
            (levels.x_of(law, lo), levels.x_of(law, hi)) for lo, hi in zip(starts[:count], stops[:count], strict=True)
        ]

    def modes(self) -> Floats:
        """Where each density of x is highest, (row,)."""
        from adversary.analyst.bounded.quadrature import levels

        return self._each_row(levels.many_modes)

    def quantiles(self, shares: Floats) -> Floats:
        """(row, share)."""
        from adversary.analyst.bounded.quadrature import levels

        return self._each_row(levels.many_quantiles, shares)

    def densities(self, points: Floats) -> Floats:
        """Densities of x at points (row, point)."""
        from adversary.analyst.bounded.quadrature import levels

        return self._each_row(levels.many_densities, by_row=points)

    def masses(self, points: Floats) -> Floats:
        """Probabilities below points (row, point)."""
        from adversary.analyst.bounded.quadrature import levels

        return self._each_row(levels.many_masses, by_row=points)

    def nodes(self) -> tuple[Floats, Floats]:
        """Points of x and their probabilities, (row, node) each: for moments."""
        from adversary.analyst.bounded.quadrature import levels

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
