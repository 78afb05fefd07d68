"""Posteriors of many releases as arrays: one row a release, marginals on panels, solved in threads.

Panels over all there is close in on the posterior, by what it is found to be. Then every row is solved at least twice,
on other panels that reach further. The difference of its last two solutions is the estimate of its error; the last one
is the answer. A row is solved by itself, so that no result depends on the number of threads or on its neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, in_threads
from adversary.analyst.bounded.marginal import Marginal
from adversary.analyst.bounded.quadrature.panels import (
    ORDER,
    backward,
    lay,
    placed,
    slope,
    snap,
    weights_up_to,
)
from adversary.analyst.bounded.question import Question

FIRST = {True: ((4, 4), (6, 5)), False: ((6, 5), (9, 7))}
"""Panels of mean and variance in the first two solutions: under a flat prior, or one that may have its own scale."""
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
_ROUNDS, _WIDE = 14, (3, 2)
"""Times that panels close in at most, and how many there are meanwhile."""
_SETTLED = 0.3
"""Share of its reach that a density still has when panels no longer close in."""
_MANY = 50.0
"""Records from which on the gamma law of the sample variance is narrow beside a panel."""
_AT_ONCE = 16


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
        return self.question.rows(np.array([i])).log_likelihood(mu[None], v[None])[0]

    def joint(self, i: int, *, limit: bool = False) -> tuple[Floats, Floats, Floats]:
        """mu (..., 1), sigma2 (...,) and weights (mu, sigma2) of one row; with `limit`, only of its part in the region.

        Without `limit` the weights sum to 1, with it to the probability of the region: there panels are finer, as the
        edge of the region runs through them.
        """
        one = self.rows(np.array([i]))
        ask, edges = one.question, (one.mean.edges, one.variance.edges)
        if limit:
            edges = _cut(edges[0]), _cut(edges[1], 0.5 * np.log(0.25))
        lines = ask.lines
        logs, (t, s) = _log_posterior(ask, *edges), (placed(x) for x in edges)
        mu, v = lines.mu(t[0]), lines.v(s[0])
        half = np.sqrt(np.maximum(0.25 - v, 0.0))
        mass = np.exp(logs - logs.max())[0] * s[1]
        columns = t[1].T
        if ask.constrained or limit:
            start, stop = (weights_up_to(edges[0], lines.t(0.5 + side * half))[0] for side in (-1.0, 1.0))
            columns = (stop - start).T
        total = (mass * (t[1].T if limit else columns)).sum()
        return mu.T, v[0], mass * columns / total


def _cut(edges: Floats, turn: float | None = None) -> Floats:
    """Edges (1, edge) with every panel cut in three, and finer and finer below `turn`."""
    panels = edges.shape[1] - 1
    found = np.interp(np.arange(3 * panels + 1) / 3.0, np.arange(panels + 1), edges[0])
    if turn is not None and found[0] < turn < found[-1]:
        below = found[found < turn]
        graded = turn - (turn - below[-1]) * 0.2 ** np.arange(7)
        found = np.concatenate([below[:-1], graded, [turn], found[found > turn]])
    return found[None]


def solve_all(question: Question) -> Solution:
    """The posteriors of all rows.

    Raises
    ------
    RuntimeError : a prior with no mass where the data can be, or hardly any
    """
    rows = np.arange(len(question.caps))
    pieces = [rows[start : start + _AT_ONCE] for start in range(0, max(len(rows), 1), _AT_ONCE)]
    parts = list(in_threads(lambda piece: _solved(question.rows(piece)), pieces, os.cpu_count() or 1))
    found = _together(question, list(zip(pieces, parts, strict=True)))
    lost = ~(np.isfinite(found.log_mass) & np.isfinite(found.mean.values).all(1))
    lost |= ~np.isfinite(found.variance.values).all(1)
    if lost.any():
        i, seen = int(np.argmax(lost)), question.seen
        raise RuntimeError(
            f"no posterior mass was found for release {i}: mean and variance {[seen.mean[i], seen.variance[i]]}, "
            f"n {seen.n[i]:g}; the prior may have no mass on what the data can be, or hardly any"
        )
    return found


@np.errstate(all="ignore")  # rows without mass, which are found out later
def _solved(question: Question) -> Solution:
    """Some rows: panels that close in, two solutions, and more where these differ."""
    edges = _closed_in(question)
    found = _on_panels(question, edges, FIRST[question.flat][0], DEPTHS[0])
    everyone = np.arange(len(question.caps))
    hard = everyone
    for size, depth in zip((FIRST[question.flat][1], *MORE), DEPTHS[1:], strict=True):
        last = found.rows(hard)
        better = _on_panels(last.question, (last.mean.edges, last.variance.edges), size, depth, last)
        found = _together(question, [(everyone, found), (hard, _checked(last, better))])
        hard = np.flatnonzero(~(found.quadrature_error < CLOSE))
        if not hard.size:
            break
    return found


def _limits(question: Question) -> tuple[Floats, Floats, Floats, Floats]:
    """Where the lines of mean and variance end, (row,) each: within them lies all that could count."""
    lines, seen = question.lines, question.seen
    deepest = np.full(len(seen.n), -24.0)
    if question.beliefs is not None:
        deepest = np.minimum(deepest, 0.5 * np.log(question.beliefs[:, 3]) - 8.0)
    if question.constrained:
        low, high = lines.t(np.array([[0.0, 1.0]])).T
        return low, high, deepest, lines.top
    v = np.exp(2.0 * np.minimum(lines.top, 6.0))
    middle, reach = lines.centre, 12.0 * np.sqrt(v / seen.n)
    if seen.kinds[0] != "none":
        reach = reach + 40.0 * seen.mean_scale
    if question.beliefs is not None:
        middle = question.beliefs[:, 0]
        reach = reach + 12.0 * np.sqrt(v / question.beliefs[:, 1])
    ends = np.minimum(middle, lines.centre) - reach, np.maximum(middle, lines.centre) + reach
    low, high = lines.t(np.stack(ends, -1)).T
    return low, high, deepest, lines.top


def _closed_in(question: Question) -> tuple[Floats, Floats]:
    """Edges of a few panels about the posterior of every row: from all there is, closer and closer."""
    low, high, deepest, top = _limits(question)
    shares = [np.linspace(0.0, 1.0, size + 1) for size in _WIDE]
    start = np.maximum(np.minimum(-14.0, top - 5.0), deepest)
    mean, variance = (
        low[:, None] + (high - low)[:, None] * shares[0],
        start[:, None] + (top - start)[:, None] * shares[1],
    )
    open_ = np.arange(len(low))
    for _ in range(_ROUNDS):
        some, edges = question.rows(open_), (mean[open_], variance[open_])
        _, _, values = _integrated(some, *edges)
        fresh = _laid(some, edges, values, _WIDE, DEPTHS[0])
        mean[open_], variance[open_] = fresh
        kept = [_share_kept(a, b) for a, b in zip(edges, fresh, strict=True)]
        moving = np.minimum(*kept) < _SETTLED
        open_ = open_[moving]
        if not open_.size:
            break
    return mean, variance


def _share_kept(before: Floats, after: Floats) -> Floats:
    """Reach of panels over what it was: the smaller of the two over the larger."""
    old, new = before[:, -1] - before[:, 0], after[:, -1] - after[:, 0]
    return np.minimum(old, new) / np.maximum(old, new)


def _laid(
    question: Question, edges: tuple[Floats, Floats], values: tuple[Floats, Floats], size: tuple[int, int], depth: float
) -> tuple[Floats, Floats]:
    """New edges of so many panels of (mean, variance) by the densities found on others."""
    low, high, deepest, top = _limits(question)
    logs = [np.log(np.maximum(x, 1e-300)) for x in values]
    mean = lay(edges[0], logs[0], low, high, depth, size[0])
    variance = lay(edges[1], logs[1], deepest, top, depth, size[1])
    seen = question.seen
    if seen.kinds[0] == "laplace":
        snap(mean, np.zeros(len(mean)))
    if seen.kinds[1] == "laplace":
        corner = backward(question.lines.variance, 0.0, 0.0, seen.variance)
        snap(variance, np.where((seen.n >= _MANY) & (seen.variance > 0.0), corner, np.inf))
    return mean, variance


def _last_of(mu: Floats) -> Floats:
    """The largest s that is feasible with a mean: v = mu (1 - mu); none outside [0, 1]."""
    return np.where((mu > 0.0) & (mu < 1.0), -np.arctanh(np.abs(1.0 - 2.0 * np.clip(mu, 1e-300, 1.0))), -np.inf)


def _log_posterior(question: Question, mean_edges: Floats, variance_edges: Floats) -> Floats:
    """Log of prior times likelihood per unit of t and s at the points of the panels, (row, mean, variance).

    -inf in panels beyond the region.
    """
    lines = question.lines
    t, s = placed(mean_edges)[0], placed(variance_edges)[0]
    mu, v = lines.mu(t), lines.v(s)
    reached: Any = True
    if question.constrained:
        ends = lines.mu(mean_edges)
        best = np.clip(0.5, ends[:, :-1], ends[:, 1:])
        reached = variance_edges[:, None, :-1] < _last_of(best)[:, :, None]
        reached = np.repeat(np.repeat(reached, ORDER, 1), ORDER, 2)
    logs = question.log_likelihood(mu, v, reached) + question.log_prior(mu, v)
    logs += np.log(slope(lines.mean, lines.spread[:, None], t))[:, :, None]
    logs += np.log(slope(lines.variance, 0.0, s))[:, None, :]
    return np.asarray(np.where(np.isnan(logs), -np.inf, logs))


def _integrated(
    question: Question, mean_edges: Floats, variance_edges: Floats
) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Log mass (row,), how far the two orders of integration differ, and both marginals, which integrate to 1.

    Panels that the edge of the region crosses are integrated up to it through the polynomial of their points.
    """
    lines = question.lines
    logs = _log_posterior(question, mean_edges, variance_edges)
    (t, mean_weights), (s, variance_weights) = placed(mean_edges), placed(variance_edges)
    top = logs.max((1, 2))
    density = np.exp(logs - top[:, None, None])
    if question.constrained:
        v = lines.v(s)
        half = np.sqrt(np.maximum(0.25 - v, 0.0))
        small = v / (0.5 + half)
        rows = weights_up_to(variance_edges, _last_of(lines.mu(t)))
        columns = weights_up_to(mean_edges, lines.t(0.5 + half)) - weights_up_to(mean_edges, lines.t(small))
        mean, variance = (density * rows).sum(-1), (density * np.swapaxes(columns, 1, 2)).sum(1)
    else:
        mean = (density * variance_weights[:, None, :]).sum(-1)
        variance = (density * mean_weights[:, :, None]).sum(1)
    mean, variance = np.maximum(mean, 0.0), np.maximum(variance, 0.0)
    first, second = (mean_weights * mean).sum(-1), (variance_weights * variance).sum(-1)
    return top + np.log(first), np.abs(np.log(first / second)), (mean / first[:, None], variance / second[:, None])


def _on_panels(
    question: Question,
    edges: tuple[Floats, Floats],
    size: tuple[int, int],
    depth: float,
    before: Solution | None = None,
) -> Solution:
    """Every row on so many panels, laid by what was found on others; as its error, what one solution knows of it."""
    values = (before.mean.values, before.variance.values) if before else _integrated(question, *edges)[2]
    edges = _laid(question, edges, values, size, depth)
    log_mass, error, values = _integrated(question, *edges)
    lines, none = question.lines, np.zeros(len(log_mass))
    mean = Marginal(lines.mean, lines.centre, lines.spread, edges[0], values[0])
    variance = Marginal(lines.variance, none, none, edges[1], values[1])
    error = np.maximum(error, np.maximum(mean.unresolved(), variance.unresolved()))
    low, high, deepest, top = _limits(question)
    for one, start, stop in ((mean, low, high), (variance, deepest, top)):
        level, spare = one.values.max(-1) * np.exp(-11.0), 1e-6 * (one.edges[:, -1] - one.edges[:, 0])
        short = (one.values[:, 0] > level) & (one.edges[:, 0] > start + spare)
        short |= (one.values[:, -1] > level) & (one.edges[:, -1] < stop - spare)
        error = np.where(short, np.maximum(error, 1.0), error)
    return Solution(question, mean, variance, log_mass, error)


def _checked(before: Solution, found: Solution) -> Solution:
    """The later of two solutions, its error estimated by how far they differ as well.

    Compared are log masses, probabilities, means in units of the standard deviation, and logs of that.
    """
    ask, gaps = found.question, [found.quadrature_error, np.abs(found.log_mass - before.log_mass)]
    moments: tuple[tuple[str, float, Callable[[Floats], Floats]], ...] = (
        ("mean", 1.0, lambda x: x),
        ("variance", 1.0, np.sqrt),
        ("variance", 2.0, lambda x: x),
    )
    for old, new in ((before.mean, found.mean), (before.variance, found.variance)):
        places = np.concatenate([old.edges, new.edges], -1)
        gaps.append(np.abs(new.shares_below(places) - old.shares_below(places)).max(-1))
    for name, power, function in moments:
        (mean, sd), (other, other_sd) = (_moments(getattr(one, name), function) for one in (found, before))
        finite = ask.has_moment(power)
        gaps.append(np.where(finite, np.abs(mean - other) / sd, 0.0))
        gaps.append(np.where(finite, np.abs(np.log(sd / other_sd)), 0.0))
    return replace(found, quadrature_error=_SAFETY * np.max(gaps, 0) + _LEAST)


def _moments(marginal: Marginal, function: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of a function of x, on [0, 1], (row,) each."""
    mean = marginal.moments(function)
    return mean, np.sqrt(marginal.moments(lambda x: (function(x) - mean[:, None]) ** 2))


def _together(question: Question, parts: list[tuple[Integers, Solution]]) -> Solution:
    """The rows of several solutions at their places, the later before the earlier."""
    first, count = parts[0][1], len(question.caps)

    def scattered(arrays: list[Floats]) -> Floats:
        found = np.empty((count, *arrays[0].shape[1:]))
        for (rows, _), array in zip(parts, arrays, strict=True):
            found[rows] = array
        return found

    def marginal(name: str) -> Marginal:
        panels = max(getattr(part, name).edges.shape[1] for _, part in parts) - 1
        wide = [getattr(part, name).widened(panels) for _, part in parts]
        a, b, edges, values = (scattered([getattr(x, n) for x in wide]) for n in ("a", "b", "edges", "values"))
        return Marginal(getattr(first, name).kind, a, b, edges, values)

    log_mass, error = (scattered([getattr(p, n) for _, p in parts]) for n in ("log_mass", "quadrature_error"))
    return Solution(question, marginal("mean"), marginal("variance"), log_mass, error)
