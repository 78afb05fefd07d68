"""Posteriors of many releases as arrays: one row a release, marginals on panels, solved in threads.

Every row is solved at least twice, on other panels that reach further. The difference of its last two solutions is the
estimate of its error; the last one is the answer.

Between the objects users hold and the compiled quadrature. A row is solved by itself, so that no result depends on the
number of threads or on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, as_array
from adversary.analyst.bounded.bounded_release import BoundedRelease
from adversary.analyst.bounded.marginal import Marginal, in_pieces
from adversary.analyst.bounded.prior import Flat, NormalInverseGamma, Prior

Pair = tuple[Floats, Floats]

FIRST = {
    True: ((20.0, (4, 3), (6, 4)), (200.0, (4, 4), (6, 5)), (np.inf, (4, 5), (6, 6))),
    False: ((np.inf, (6, 5), (9, 7)),),
}
"""Panels of mean and variance in the first two solutions for up to so many records, which sharpen corners: under a flat
prior, or one that may have a scale of its own."""
MORE = ((10, 8), (16, 14), (30, 24))
"""Panels of further solutions."""
DEPTHS = (18.0, 24.0, 24.0, 30.0, 36.0)
"""Nats below the top of a density at which the panels of each solution end."""
CLOSE = 3.8e-3
"""Estimated error with which a row is not solved again: two solutions then differ by less than 1e-4."""
_SAFETY = 40.0
"""Error of a solution over its difference from the one before, in all but 1 of 100 settings: mostly below 1, but two
solutions whose panels miss the same bend differ by as little as 1/37 of what either is off."""
_LEAST = 3e-5
"""Estimated error at least: two solutions may differ by less than either is off, and share the integrals within."""
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

    def rows(self, chosen: Integers) -> Question:
        """What is asked of some rows."""
        return replace(self, seen=self.seen[chosen], beliefs=self.beliefs[chosen], caps=self.caps[chosen])

    def has_moment(self, power: float) -> Any:
        """Whether sigma2^power has a mean: flat, without bounds and cap, its density falls as v^-(n-1)/2."""
        if self.constrained or not self.flat:
            return np.ones(len(self.seen), bool)
        return (self.caps < np.inf) | (self.seen[:, 0] > 2.0 * power + 3.0)

    @classmethod
    def of(
        cls, release: BoundedRelease, prior: Prior, constrained: bool, normalised: bool, caps: Floats
    ) -> tuple[Question, tuple[int, ...]]:
        """The question and its shape: releases and priors against one another."""
        from adversary.analyst.bounded.quadrature import KINDS

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
    """Marginals of mu and sigma2 on [0, 1] for every row, their log mass and the estimate of its and their error."""

    question: Question
    mean: Marginal
    variance: Marginal
    log_mass: Floats
    quadrature_error: Floats

    def rows(self, chosen: Integers) -> Solution:
        """Some rows of it."""
        mean, variance = self.mean.rows(chosen), self.variance.rows(chosen)
        return Solution(
            self.question.rows(chosen), mean, variance, self.log_mass[chosen], self.quadrature_error[chosen]
        )

    def log_likelihood(self, i: int, mu: Floats, v: Floats) -> Floats:
        """Log density of the released numbers of one row at every (mu, sigma2), on [0, 1], shape (mu, sigma2)."""
        from adversary.analyst.bounded.quadrature import fill_grid, nothing_of, seen_of

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
        from adversary.analyst.bounded.quadrature import solve as quadrature

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
    everyone = np.arange(len(question.seen))
    found = _checked(_first(question, 0), _first(question, 1))
    for size, depth in zip(MORE, DEPTHS[2:], strict=True):
        hard = np.flatnonzero(~(found.quadrature_error < CLOSE))
        if not len(hard):
            break
        better = _checked(found.rows(hard), _solved(question.rows(hard), size, depth))
        found = _together(question, [(everyone, found), (hard, better)])
    lost = ~(np.isfinite(found.log_mass) & np.isfinite(found.mean.values).all(1))
    lost |= ~np.isfinite(found.variance.values).all(1)
    if lost.any():
        i = int(np.argmax(lost))
        raise RuntimeError(
            f"no posterior mass was found for release {i}: mean and variance {question.seen[i, [3, 6]].tolist()}, "
            f"n {question.seen[i, 0]:g}; the prior may have no mass on what the data can be, or hardly any"
        )
    return found


def _first(question: Question, turn: int) -> Solution:
    """The first solution (turn 0) or the second of every row: its number of records says on how many panels."""
    most, *sizes = zip(*FIRST[question.flat], strict=True)
    which = np.searchsorted(most, question.seen[:, 0])
    parts = []
    for i, size in enumerate(sizes[turn]):
        rows = np.flatnonzero(which == i)
        if len(rows) or not len(which):
            parts.append((rows, _solved(question.rows(rows), size, DEPTHS[turn])))
    return _together(question, parts)


def _checked(before: Solution, found: Solution) -> Solution:
    """The later of two solutions, its error estimated by how far they differ as well.

    Compared are log masses, probabilities, means in units of the standard deviation, and logs of that.
    """
    from adversary.analyst.bounded.quadrature import levels

    ask, gaps = found.question, [found.quadrature_error]
    moments: tuple[tuple[str, float, Callable[[Floats], Floats]], ...] = (
        ("mean", 1.0, lambda x: x),
        ("variance", 1.0, np.sqrt),
        ("variance", 2.0, lambda x: x),
    )
    with np.errstate(all="ignore"):  # rows without mass, which are found out later
        gaps.append(np.abs(found.log_mass - before.log_mass))
        for old, new in ((before.mean, found.mean), (before.variance, found.variance)):
            gaps.append(levels.many_gaps(new.lines, old.edges, old.values, new.edges, new.values))
        for name, power, function in moments:
            (mean, sd), (other, other_sd) = (_moments(getattr(one, name), function) for one in (found, before))
            finite = ask.has_moment(power)
            gaps.append(np.where(finite, np.abs(mean - other) / sd, 0.0))
            gaps.append(np.where(finite, np.abs(np.log(sd / other_sd)), 0.0))
        return replace(found, quadrature_error=_SAFETY * np.max(gaps, 0) + _LEAST)


def _moments(marginal: Marginal, function: Callable[[Floats], Floats]) -> Pair:
    """Mean and standard deviation of a function of x, on [0, 1], (row,) each."""
    mean = marginal.moments(function)
    return mean, np.sqrt(marginal.moments(lambda x: (function(x) - mean[:, None]) ** 2))


def _solved(question: Question, size: tuple[int, int], depth: float) -> Solution:
    """Every row on so many panels of (mean, variance), in threads; as its error, what one solution knows of it."""
    from adversary._core import call
    from adversary.analyst.bounded.quadrature import ORDER, SINH, WITHIN
    from adversary.analyst.bounded.quadrature import solve as q

    rows = len(question.seen)
    edges = np.empty((rows, size[0] + 1)), np.empty((rows, size[1] + 1))
    values = np.empty((rows, size[0] * ORDER)), np.empty((rows, size[1] * ORDER))
    lines, totals = np.empty((rows, 4)), np.empty((rows, 2))
    ask = question.seen, question.beliefs, (question.constrained, question.normalised), question.caps, depth

    def work(part: slice) -> None:
        call(q.solve_many, *ask, part.start, part.stop, lines, edges, values, totals)

    in_pieces(work, rows)
    if question.log_density is not None:
        for i in range(rows):
            _refine(question, i, depth, lines, edges, values, totals)
    kinds = np.full(rows, float(WITHIN if question.constrained else SINH))
    mean = Marginal(np.stack([kinds, lines[:, 0], lines[:, 1]], -1), edges[0], values[0])
    variance = Marginal(np.stack([lines[:, 2], np.zeros(rows), np.zeros(rows)], -1), edges[1], values[1])
    return Solution(question, mean, variance, totals[:, 0], totals[:, 1])


def _together(question: Question, parts: list[tuple[Integers, Solution]]) -> Solution:
    """The rows of several solutions at their places, the later before the earlier."""
    marginals = []
    for name in ("mean", "variance"):
        panels = max(getattr(part, name).edges.shape[1] for _, part in parts) - 1
        wide = [(rows, getattr(part, name).widened(panels)) for rows, part in parts]
        marginals.append(Marginal(*(_scattered(question, [(rows, one[k]) for rows, one in wide]) for k in range(3))))
    log_mass = _scattered(question, [(rows, part.log_mass) for rows, part in parts])
    error = _scattered(question, [(rows, part.quadrature_error) for rows, part in parts])
    return Solution(question, marginals[0], marginals[1], log_mass, error)


def _scattered(question: Question, parts: list[tuple[Integers, Floats]]) -> Floats:
    """Rows of several arrays at their places in one."""
    found = np.empty((len(question.seen), *parts[0][1].shape[1:]))
    for rows, array in parts:
        found[rows] = array
    return found


def _lines(solution: Solution, i: int) -> Any:
    from adversary.analyst.bounded.quadrature import Lines

    _, centre, spread = solution.mean.lines[i]
    return Lines(centre, spread, int(solution.variance.lines[i, 0]), 0.0)


def _log_posterior(question: Question, i: int, lines: Any, mean_edges: Floats, variance_edges: Floats) -> Floats:
    """Log of prior times likelihood at the points of the panels, (mean, variance)."""
    from adversary.analyst.bounded.quadrature import levels, panels
    from adversary.analyst.bounded.quadrature import solve as q

    logs = np.empty(((len(mean_edges) - 1) * panels.ORDER, (len(variance_edges) - 1) * panels.ORDER))
    seen, belief = q.seen_of(question.seen[i]), q.belief_of(question.beliefs[i])
    q.fill_posterior(logs, mean_edges, variance_edges, lines, seen, belief, question.normalised, np.inf)
    if question.log_density is not None:
        mu = levels.many_nodes(np.array([[0.0, lines.centre, lines.spread]]), mean_edges[None])[0][0]
        v = levels.many_nodes(np.array([[lines.kind, 0.0, 0.0]]), variance_edges[None])[0][0]
        logs += question.log_density(mu[:, None], v)
    return logs


def _refine(question: Question, i: int, depth: float, lines: Floats, edges: Pair, values: Pair, totals: Floats) -> None:
    """One row under a prior of the user's own: panels over all the region, then closer and closer to the posterior."""
    from adversary.analyst.bounded.quadrature import Lines, panel_edges, panels
    from adversary.analyst.bounded.quadrature import solve as q

    line = Lines(lines[i, 0], lines[i, 1], int(lines[i, 2]), lines[i, 3])
    mean_edges, variance_edges = edges[0][i], edges[1][i]
    reach = 3.0 * (mean_edges[-1] - mean_edges[0])
    low, high = mean_edges[0] - reach, mean_edges[-1] + reach
    if question.constrained:
        low, high = np.arcsinh((np.array([0.0, 1.0]) - line.centre) / line.spread)
    widest = np.linspace(low, high, _WIDE + 1), np.linspace(-14.0, line.top, _WIDE + 1)
    rough = np.empty(_WIDE * panels.ORDER), np.empty(_WIDE * panels.ORDER)
    totals[i] = q.integrate(_log_posterior(question, i, line, *widest), *widest, line, *rough)
    if not np.isfinite(totals[i, 0]):
        return
    panel_edges.lay_again(widest[0], rough[0], low, high, depth, mean_edges)
    panel_edges.lay_again(widest[1], rough[1], -20.0, line.top, depth, variance_edges)
    for _ in range(_ROUNDS):
        logs = _log_posterior(question, i, line, mean_edges, variance_edges)
        totals[i] = q.integrate(logs, mean_edges, variance_edges, line, values[0][i], values[1][i])
        if not np.isfinite(totals[i, 0]):
            return
        kind = panels.WITHIN if question.constrained else panels.SINH
        mean = panels.density_of(kind, line.centre, line.spread, mean_edges, values[0][i])
        variance = panels.density_of(line.kind, 0.0, 0.0, variance_edges, values[1][i])
        totals[i, 1] = max(totals[i, 1], panels.unresolved(mean), panels.unresolved(variance))
        before = mean_edges.copy(), variance_edges.copy()
        panel_edges.lay_again(mean_edges, values[0][i], low, high, depth, mean_edges)
        panel_edges.lay_again(variance_edges, values[1][i], -20.0, line.top, depth, variance_edges)
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
