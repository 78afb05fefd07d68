r"""Posteriors of many releases as arrays: one row a release, both marginals on panels, solved in threads.

.. math::

    p(t) = \int p(\mu, v) g(\mu, v)\, 1[v \le \mu(1-\mu)]\, ds, \qquad p(s) = \int \dots\, dt

with the mean as :math:`\mu(t)` and the variance as :math:`v(s)`. Panels that the edge of the region crosses are
integrated up to it through the polynomial of their points. Every row is solved at least twice, on panels laid by the
solution before; the difference of its last two solutions is the estimate of its error, the last one the answer. A row
is solved by itself, so that no result depends on its neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, in_threads
from adversary.bounded.quadrature.marginal import ORDER, Marginal, jacobian, last_of, weights_up_to
from adversary.bounded.quadrature.panel_edges import FAR, first_panels, next_panels
from adversary.bounded.quadrature.question import Question, log_likelihood
from adversary.bounded.quadrature.sample_statistics import log_density

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
CLOSE = 5.7e-3
"""Estimated error with which a row is not solved again: two solutions then differ by less than 1e-4."""
_SAFETY = 60.0
"""Error of a solution over its difference from the one before, in all but 1 of 100 settings: mostly below 1, but two
solutions whose panels miss the same bend differ by as little as 1/37 of what either is off."""
_LEAST = 3e-5
"""Estimated error at least: two solutions may differ by less than either is off, and share the integrals within."""
_NOISE = 1e-12
"""Share of the highest density below which that of the data is rounding: nothing smooths the region's edge there."""
_AT_ONCE = 64


@dataclass(frozen=True)
class Solution:
    """Marginals of mu and sigma2 on [0, 1] for every row, their log mass and the estimate of its and their error."""

    question: Question
    mean: Marginal
    variance: Marginal
    log_mass: Floats
    quadrature_error: Floats

    @cached_property
    def deviation(self) -> Marginal:
        """Marginal of sigma, on the panels of sigma2."""
        return self.variance.root()

    def rows(self, chosen: Integers) -> Solution:
        """Some rows of it."""
        mean, variance = self.mean.rows(chosen), self.variance.rows(chosen)
        return Solution(
            self.question.rows(chosen), mean, variance, self.log_mass[chosen], self.quadrature_error[chosen]
        )

    def log_likelihood(self, i: int, mu: Floats, v: Floats) -> Floats:
        """Log density of the released numbers of one row at every (mu, sigma2), on [0, 1], shape (mu, sigma2).

        Of the data's own, their density with the released numbers, which holds the prior.
        """
        ask = self.question.rows(np.array([i]))
        if ask.of_data:
            return np.asarray(log_density(ask, mu[None], v[None])[0])
        return _log_likelihood(ask, mu[None, :, None], v[None])[0, :, 0]

    def joint(self, i: int, *, limit: bool = False) -> tuple[Floats, Floats, Floats]:
        """mu (..., 1), sigma2 (...,) and weights (mu, sigma2) of one row; with `limit`, only of its part in the region.

        Without `limit` the weights sum to 1, with it to the probability of the region: there panels are finer, as the
        edge of the region runs through them.
        """
        one = np.array([i])
        ask, mean, variance = self.question.rows(one), self.mean.rows(one), self.variance.rows(one)
        if limit:
            mean, variance = mean.finer(), variance.finer(0.5 * np.log(0.25))
        logs = _log_posterior(ask, mean, variance)[0]
        weights = np.exp(logs - logs.max())
        columns, rows = mean.points[1][0][:, None], variance.points[1][0]
        v = variance.nodes()[0][0]
        whole = weights * columns * rows
        if ask.constrained or limit:
            half = np.sqrt(np.maximum(0.25 - v, 0.0))
            columns = weights_up_to(mean.edges, mean.t((0.5 + half)[None]))[0]
            columns = (columns - weights_up_to(mean.edges, mean.t((0.5 - half)[None]))[0]).T
        inside = weights * columns * rows
        return mean.nodes()[0][0][:, None], v, inside / (whole if limit else inside).sum()


def solve_all(question: Question) -> Solution:
    """Every row, on all processors.

    Raises
    ------
    RuntimeError : no mass was found; the first such row is named
    """
    parts = map_rows(lambda rows: (rows, _solve_rows(question.rows(rows))), len(question.seen))
    found = _together(question, parts)
    lost = ~(np.isfinite(found.log_mass) & np.isfinite(found.mean.values).all(1))
    lost |= ~np.isfinite(found.variance.values).all(1)
    if lost.any():
        i = int(np.argmax(lost))
        raise RuntimeError(
            f"no posterior mass was found for release {i}: mean and variance {question.seen[i, [3, 6]].tolist()}, "
            f"n {question.seen[i, 0]:g}; the prior may have no mass on what the data can be, or hardly any"
        )
    return found


def map_rows[R](function: Callable[[Integers], R], rows: int) -> list[R]:
    """A function of one group of rows after another, on all processors."""
    groups = [np.arange(start, min(start + _AT_ONCE, rows)) for start in range(0, max(rows, 1), _AT_ONCE)]
    return in_threads(function, groups, os.cpu_count() or 1)


def _solve_rows(question: Question) -> Solution:
    """Some rows, on more and more panels, until two solutions agree."""
    most, *sizes = zip(*FIRST[question.flat], strict=True)
    which = np.searchsorted(most, question.seen[:, 0])
    parts = []
    for i in np.unique(which) if len(which) else [0]:
        rows = np.flatnonzero(which == i)
        ask = question.rows(rows)
        before = _integrate(ask, *first_panels(ask, sizes[0][i], DEPTHS[0]))
        parts.append((rows, _again(before, sizes[1][i], DEPTHS[1])))
    found = _together(question, parts)
    for size, depth in zip(MORE, DEPTHS[2:], strict=True):
        hard = np.flatnonzero(~(found.quadrature_error < CLOSE))
        if not len(hard):
            break
        better = _again(found.rows(hard), size, depth)
        found = _together(question, [(np.arange(len(which)), found), (hard, better)])
    return found


def _log_likelihood(question: Question, mu: Floats, v: Floats, least: Floats | None = None) -> Floats:
    """`log_likelihood` of a question's rows, less the log of the feasible mass where that is wanted."""
    logs = log_likelihood(question.seen, mu, v, question.constrained, None if question.normalised else least)
    if question.normalised:
        nothing = np.zeros_like(question.seen)
        nothing[:, 0], nothing[:, [2, 5]], nothing[:, [3, 6]] = question.seen[:, 0], 1.0, 0.5
        mass = log_likelihood(nothing, mu, v, True)
        logs = np.where(logs > -np.inf, logs - mass, -np.inf)
    return logs


def _log_posterior(question: Question, mean: Marginal, variance: Marginal, level: Floats | None = None) -> Floats:
    """Log of prior times likelihood per dt ds at the points of panels, (row, mean, variance); -inf beyond the region.

    Also -inf in panels that are below a `level` (row,).
    """
    t, s = mean.points[0], variance.points[0]
    mu, v = mean.x(t), variance.x(s)
    rows, panels = len(mu), mean.edges.shape[1] - 1
    with np.errstate(divide="ignore"):
        heights = np.log(jacobian(mean.kind, mean.b[:, None], t))[..., None]
        heights = heights + np.log(jacobian(variance.kind, 1.0, s))[:, None]
    if question.of_data:
        return heights + log_density(question, mu, v)
    heights = heights + question.log_prior(mu, v)
    least = np.full((rows, panels, s.shape[1]), -np.inf)
    if level is not None:
        least = level[:, None, None] - heights.reshape(rows, panels, ORDER, s.shape[1]).max(2)
    if question.constrained:
        ends = mean.x(mean.edges)
        nearest = np.clip(0.5, ends[:, :-1], ends[:, 1:])
        first = np.repeat(variance.edges[:, :-1], ORDER, 1)
        least = np.where(first[:, None] < last_of(nearest)[..., None], least, np.inf)
    grouped = mu.reshape(rows, panels, ORDER)
    if question.normalised:
        logs = np.where(least[:, :, None] < np.inf, _log_likelihood(question, grouped, v), -np.inf)
    else:
        logs = _log_likelihood(question, grouped, v, least)
    return np.asarray(logs.reshape(heights.shape) + heights)


def _integrate(question: Question, mean: Marginal, variance: Marginal, level: Floats) -> Solution:
    """Both marginals on their panels; as the error, how far the two orders of integration and the panels are apart."""
    logs = _log_posterior(question, mean, variance, level)
    top = logs.max((1, 2), keepdims=True)
    weights = np.exp(logs - np.where(top > -np.inf, top, 0.0))
    (t, mean_weights), (s, variance_weights) = mean.points, variance.points
    along_s: Any = variance_weights[:, None]
    along_t: Any = mean_weights[:, None]
    if question.constrained:
        along_s = weights_up_to(variance.edges, last_of(mean.x(t)))
        e = np.exp(2.0 * s)
        along_t = weights_up_to(mean.edges, mean.t(1.0 / (1.0 + e))) - weights_up_to(mean.edges, mean.t(e / (1.0 + e)))
    first, second = (along_s * weights).sum(2), (along_t.swapaxes(1, 2) * weights).sum(1)
    least = _NOISE if question.of_data and question.constrained else 0.0
    first, second = (np.maximum(x, least * np.maximum(x.max(1, keepdims=True), 0.0)) for x in (first, second))
    masses = (mean_weights * first).sum(1), (variance_weights * second).sum(1)
    good = (masses[0] > 0.0) & (masses[1] > 0.0)
    safe = [np.where(good, mass, 1.0) for mass in masses]
    mean = replace(mean, values=first / safe[0][:, None])
    variance = replace(variance, values=second / safe[1][:, None])
    log_mass = np.where(good, top[:, 0, 0] + np.log(safe[0]), -np.inf)
    with np.errstate(all="ignore"):
        error = np.maximum(np.abs(np.log(safe[0] / safe[1])), np.maximum(mean.unresolved, variance.unresolved))
    return Solution(question, mean, variance, log_mass, np.where(good, error, 1.0))


def _again(before: Solution, size: tuple[int, int], depth: float) -> Solution:
    """A further solution on so many panels, laid by the one before."""
    ask, mean, variance = before.question, before.mean, before.variance
    area = mean.points[1].sum(1) * variance.points[1].sum(1)
    found = _integrate(
        ask, *next_panels(ask, mean, variance, size, depth), before.log_mass - np.log(area) - depth - FAR
    )
    return _with_error(before, found)


def _with_error(before: Solution, found: Solution) -> Solution:
    """The later of two solutions, its error estimated by how far they differ as well.

    Compared are log masses, probabilities, means in units of the standard deviation, and logs of that.
    """
    ask, gaps = found.question, [found.quadrature_error]
    moments: tuple[tuple[str, float, Callable[[Floats], Floats]], ...] = (
        ("mean", 1.0, lambda x: x),
        ("variance", 1.0, np.sqrt),
        ("variance", 2.0, lambda x: x),
    )
    with np.errstate(all="ignore"):  # rows without mass, which are found out later
        gaps.append(np.abs(found.log_mass - before.log_mass))
        for old, new in ((before.mean, found.mean), (before.variance, found.variance)):
            at = np.concatenate([old.edges, new.edges], 1)
            gaps.append(np.abs(old.masses_at(at) / old.total - new.masses_at(at) / new.total).max(1))
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
    marginals = []
    for name in ("mean", "variance"):
        panels = max(getattr(part, name).edges.shape[1] for _, part in parts) - 1
        wide = [(rows, getattr(part, name).pad_panels(panels)) for rows, part in parts]
        fields = ("a", "b", "edges", "values")
        arrays = (_scatter(question, [(rows, getattr(one, field)) for rows, one in wide]) for field in fields)
        marginals.append(Marginal(wide[0][1].kind, *arrays))
    log_mass = _scatter(question, [(rows, part.log_mass) for rows, part in parts])
    error = _scatter(question, [(rows, part.quadrature_error) for rows, part in parts])
    return Solution(question, marginals[0], marginals[1], log_mass, error)


def _scatter(question: Question, parts: list[tuple[Integers, Floats]]) -> Floats:
    """Rows of several arrays at their places in one."""
    found = np.empty((len(question.seen), *parts[0][1].shape[1:]))
    for rows, array in parts:
        found[rows] = array
    return found
