"""Posteriors of many releases as arrays: one row a release, marginals on panels, solved in threads.

Between the objects users hold and the compiled quadrature. A row is solved by itself, so that no result depends on the
number of threads or on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._numeric import Floats, Integers, as_array
from adversary.analyst.marginals import Marginal, in_pieces
from adversary.analyst.noisy import BoundedRelease
from adversary.analyst.priors import Flat, NormalInverseGamma, Prior

Pair = tuple[Floats, Floats]

FIRST = {
    True: ((20.0, (4, 3)), (200.0, (4, 4)), (np.inf, (4, 5))),
    False: ((np.inf, (7, 5)),),
}
"""Panels of mean and variance for up to so many records, which sharpen corners: under a flat prior, or one that may
have a scale of its own."""
MORE = {True: ((6, 6), (10, 8), (16, 14)), False: ((10, 8), (16, 14))}
"""Panels for rows that fewer do not hold."""
_ROUNDS = 12
_SETTLED = 0.01
_WIDE = 20
"""Panels over all there is, where a prior of the user's own is first looked at."""


@dataclass(frozen=True)
class Question:
    """What is asked of one row after another: numbers of the releases and priors as the compiled code wants them."""

    seen: Floats
    beliefs: Floats
    caps: Floats
    constrained: bool
    normalised: bool
    log_density: Callable[[Floats, Floats], Floats] | None = None

    @property
    def flat(self) -> bool:
        """Whether the prior is flat for all rows."""
        return self.log_density is None and not self.beliefs[:, 0].any()

    @classmethod
    def of(
        cls, release: BoundedRelease, prior: Prior, constrained: bool, normalised: bool, caps: Floats
    ) -> tuple[Question, tuple[int, ...]]:
        """The question and its shape: releases and priors against one another."""
        from adversary.analyst.capped import KINDS

        unit = prior.on_unit(release.bounds) if isinstance(prior, NormalInverseGamma) else None
        shape = np.broadcast_shapes(release.shape, () if unit is None else unit.shape)
        kinds = [KINDS[release.noise] if x is not None else KINDS["none"] for x in (release.mean, release.variance)]
        centres = [np.where(np.isnan(x), 0.5, x) for x in (release.unit_mean, release.unit_variance)]
        scales = [np.where(np.isfinite(x), x, 1.0) for x in release.unit_scales]
        seen = (release.size, kinds[0], scales[0], centres[0], kinds[1], scales[1], centres[1])
        belief = (
            (0, 0.5, 1.0, 1.0, 1.0) if unit is None else (1, unit.mu0, unit.kappa0, unit.nu0, as_array(unit.s0) ** 2)
        )
        return cls(
            _rows(seen, shape),
            _rows(belief, shape),
            _rows((caps,), shape)[:, 0].copy(),
            constrained,
            normalised,
            None if isinstance(prior, (Flat, NormalInverseGamma)) else _on_unit(prior, release.bounds),
        ), shape


@dataclass(frozen=True)
class Solution:
    """Marginals of mu and sigma2 on [0, 1] for every row, their log mass and the mismatch of both integrations."""

    question: Question
    mean: Marginal
    variance: Marginal
    log_mass: Floats
    mismatch: Floats

    def log_likelihood(self, i: int, mu: Floats, v: Floats) -> Floats:
        """Log density of the released numbers of one row at every (mu, sigma2), on [0, 1], shape (mu, sigma2)."""
        from adversary.analyst.capped import nothing_of
        from adversary.analyst.kernels import fill_grid
        from adversary.analyst.quadrature import seen_of

        seen, logs = seen_of(self.question.seen[i]), np.empty((mu.size, v.size))
        fill_grid(logs, mu, v, seen, self.question.constrained)
        if self.question.normalised:
            mass = np.empty_like(logs)
            fill_grid(mass, mu, v, nothing_of(seen.n), True)
            logs -= mass
        return logs

    def joint(self, i: int, *, limit: bool = False) -> tuple[Floats, Floats, Floats]:
        """mu (..., 1), sigma2 (...,) and weights (mu, sigma2) of one row; with `limit`, only of its part in the region.

        Without `limit` the weights sum to 1, with it to the probability of the region: there panels are finer, as the
        edge of the region runs through them.
        """
        from adversary.analyst import quadrature

        ask, lines = self.question, _lines(self, i)
        mean, variance = self.mean.row(i), self.variance.row(i)
        if limit:
            mean, variance = mean.finer(), variance.finer(0.5 * np.log(0.25))
        logs = _log_posterior(ask, i, lines, mean.edges[0], variance.edges[0])
        weights = quadrature.joint_weights(logs, mean.edges[0], variance.edges[0], lines, limit)
        return mean.nodes()[0][0][:, None], variance.nodes()[0][0], np.asarray(weights)


def solve_all(question: Question) -> Solution:
    """Every row, on all processors.

    Raises
    ------
    RuntimeError : no mass was found; the first such row is named
    """
    from adversary.analyst.panels import SINH, TOLERANCE, WITHIN

    rows = len(question.seen)
    which, sizes = _first_sizes(question)
    size = (max(means for means, _ in sizes), max(variances for _, variances in sizes))
    lines, totals, edges, values = _spaces(rows, size)
    for i, first in enumerate(sizes):
        _solve_into(question, np.flatnonzero(which == i), first, size, lines, totals, edges, values)
    for more in MORE[question.flat]:
        hard = np.flatnonzero(~(totals[:, 1] < TOLERANCE))
        if not len(hard):
            break
        edges, values = _widened(edges, values, size, more)
        size = more
        _solve_into(question, hard, size, size, lines, totals, edges, values)
    lost = ~(np.isfinite(totals[:, 0]) & np.isfinite(values[0]).all(1) & np.isfinite(values[1]).all(1))
    if lost.any():
        i = int(np.argmax(lost))
        raise RuntimeError(
            f"no posterior mass was found for release {i}: mean and variance {question.seen[i, [3, 6]].tolist()}, "
            f"n {question.seen[i, 0]:g}; the prior may have no mass on what the data can be, or hardly any"
        )
    mean = Marginal(
        np.stack([np.full(rows, float(WITHIN if question.constrained else SINH)), lines[:, 0], lines[:, 1]], -1),
        edges[0],
        values[0],
    )
    variance = Marginal(np.stack([lines[:, 2], np.zeros(rows), np.zeros(rows)], -1), edges[1], values[1])
    return Solution(question, mean, variance, totals[:, 0], totals[:, 1])


def _first_sizes(question: Question) -> tuple[Integers, list[tuple[int, int]]]:
    """On which of some sizes, panels (mean, variance), every row is first solved, by its number of records."""
    most, sizes = zip(*FIRST[question.flat], strict=True)
    used, which = np.unique(np.searchsorted(most, question.seen[:, 0]), return_inverse=True)
    return which, [sizes[i] for i in used] or [sizes[0]]


def _solve_into(
    question: Question,
    chosen: Integers,
    size: tuple[int, int],
    wide: tuple[int, int],
    lines: Floats,
    totals: Floats,
    edges: Pair,
    values: Pair,
) -> None:
    """Solve the chosen rows on panels of a size, into arrays with room for wider ones."""
    if size == wide and len(chosen) == len(totals):
        _solve_rows(question, chosen, lines, totals, edges, values)
        return
    spaces = _spaces(len(chosen), size)
    _solve_rows(question, chosen, *spaces)
    lines[chosen], totals[chosen] = spaces[0], spaces[1]
    found = _widened(spaces[2], spaces[3], size, wide)
    for kept, better in zip((*edges, *values), (*found[0], *found[1]), strict=True):
        kept[chosen] = better


def _spaces(rows: int, size: tuple[int, int]) -> tuple[Floats, Floats, Pair, Pair]:
    """Room for lines, totals, edges and values of so many rows on so many panels of (mean, variance)."""
    from adversary.analyst.panels import ORDER

    edges = np.empty((rows, size[0] + 1)), np.empty((rows, size[1] + 1))
    values = np.empty((rows, size[0] * ORDER)), np.empty((rows, size[1] * ORDER))
    return np.empty((rows, 4)), np.empty((rows, 2)), edges, values


def _solve_rows(question: Question, chosen: Integers, lines: Floats, totals: Floats, edges: Pair, values: Pair) -> None:
    """Solve the chosen rows, in threads."""
    from adversary.analyst import quadrature as q
    from adversary.analyst.compiled import call

    seen, beliefs, caps = question.seen[chosen], question.beliefs[chosen], question.caps[chosen]
    flags = (question.constrained, question.normalised)

    def work(rows: slice) -> None:
        call(q.solve_many, seen, beliefs, flags, caps, rows.start, rows.stop, lines, edges, values, totals)

    in_pieces(work, len(chosen))
    if question.log_density is not None:
        for row, i in enumerate(chosen):
            _refine(question, int(i), row, lines, edges, values, totals)


def _widened(edges: Pair, values: Pair, old: tuple[int, int], new: tuple[int, int]) -> tuple[Pair, Pair]:
    """The same rows with panels of no width behind the others, so that all rows have as many."""
    from adversary.analyst.panels import ORDER

    more = [n - o for n, o in zip(new, old, strict=True)]
    wide = [np.concatenate([e, np.repeat(e[:, -1:], m, axis=1)], axis=1) for e, m in zip(edges, more, strict=True)]
    long = [
        np.concatenate([v, np.repeat(v[:, -1:], m * ORDER, axis=1)], axis=1) for v, m in zip(values, more, strict=True)
    ]
    return (wide[0], wide[1]), (long[0], long[1])


def _lines(solution: Solution, i: int) -> Any:
    from adversary.analyst.lines import Lines

    _, centre, spread = solution.mean.lines[i]
    return Lines(centre, spread, int(solution.variance.lines[i, 0]), 0.0)


def _log_posterior(question: Question, i: int, lines: Any, mean_edges: Floats, variance_edges: Floats) -> Floats:
    """Log of prior times likelihood at the points of the panels, (mean, variance)."""
    from adversary.analyst import levels, panels
    from adversary.analyst import quadrature as q

    logs = np.empty(((len(mean_edges) - 1) * panels.ORDER, (len(variance_edges) - 1) * panels.ORDER))
    seen, belief = q.seen_of(question.seen[i]), q.belief_of(question.beliefs[i])
    q.fill_posterior(logs, mean_edges, variance_edges, lines, seen, belief, question.normalised, np.inf)
    if question.log_density is not None:
        mu = levels.many_nodes(np.array([[0.0, lines.centre, lines.spread]]), mean_edges[None])[0][0]
        v = levels.many_nodes(np.array([[lines.kind, 0.0, 0.0]]), variance_edges[None])[0][0]
        logs += question.log_density(mu[:, None], v)
    return logs


def _refine(question: Question, i: int, row: int, lines: Floats, edges: Pair, values: Pair, totals: Floats) -> None:
    """One row under a prior of the user's own: panels over all the region, then closer and closer to the posterior."""
    from adversary.analyst import layouts, panels
    from adversary.analyst import quadrature as q
    from adversary.analyst.lines import Lines

    line = Lines(lines[row, 0], lines[row, 1], int(lines[row, 2]), lines[row, 3])
    mean_edges, variance_edges = edges[0][row], edges[1][row]
    reach = 3.0 * (mean_edges[-1] - mean_edges[0])
    low, high = mean_edges[0] - reach, mean_edges[-1] + reach
    if question.constrained:
        low, high = np.arcsinh((np.array([0.0, 1.0]) - line.centre) / line.spread)
    widest = np.linspace(low, high, _WIDE + 1), np.linspace(-14.0, line.top, _WIDE + 1)
    rough = np.empty(_WIDE * panels.ORDER), np.empty(_WIDE * panels.ORDER)
    totals[row] = q.integrate(_log_posterior(question, i, line, *widest), *widest, line, *rough)
    if not np.isfinite(totals[row, 0]):
        return
    layouts.lay_again(widest[0], rough[0], low, high, mean_edges)
    layouts.lay_again(widest[1], rough[1], -20.0, line.top, variance_edges)
    for _ in range(_ROUNDS):
        logs = _log_posterior(question, i, line, mean_edges, variance_edges)
        totals[row] = q.integrate(logs, mean_edges, variance_edges, line, values[0][row], values[1][row])
        if not np.isfinite(totals[row, 0]):
            return
        kind = panels.WITHIN if question.constrained else panels.SINH
        mean = panels.density_of(kind, line.centre, line.spread, mean_edges, values[0][row])
        variance = panels.density_of(line.kind, 0.0, 0.0, variance_edges, values[1][row])
        totals[row, 1] = max(totals[row, 1], panels.unresolved(mean), panels.unresolved(variance))
        before = mean_edges.copy(), variance_edges.copy()
        layouts.lay_again(mean_edges, values[0][row], low, high, mean_edges)
        layouts.lay_again(variance_edges, values[1][row], -20.0, line.top, variance_edges)
        moved = max(
            np.abs(b - e).max() / (e[-1] - e[0]) for b, e in zip(before, (mean_edges, variance_edges), strict=True)
        )
        if moved < _SETTLED:
            mean_edges[:], variance_edges[:] = before
            return
    mean_edges[:], variance_edges[:] = before


def _rows(columns: tuple[Any, ...], shape: tuple[int, ...]) -> Floats:
    found = np.empty((*shape, len(columns)))
    for j, column in enumerate(columns):
        found[..., j] = column
    return found.reshape(-1, len(columns))


def _on_unit(prior: Prior, bounds: tuple[float, float]) -> Callable[[Floats, Floats], Floats]:
    """A log density of the user's on [0, 1]; the constant of the change of units is left out."""
    low, width = bounds[0], bounds[1] - bounds[0]
    assert callable(prior)

    def log_density(mu: Floats, v: Floats) -> Floats:
        shape = np.broadcast_shapes(mu.shape, v.shape)
        logs = np.asarray(prior(low + width * mu, width**2 * v), dtype=np.float64)
        if np.isnan(logs).any():
            raise ValueError("the prior's log density is not a number somewhere in the region")
        return np.broadcast_to(logs, shape)

    return log_density
