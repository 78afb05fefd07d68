"""Panels of both lines: by rough values first, then by what a solution on other panels found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, log_sum_exp
from adversary.bounded.quadrature.marginal import COSH, SINH, Marginal, backward, fall_outwards, forward, jacobian
from adversary.bounded.quadrature.question import Question, log_likelihood
from adversary.bounded.quadrature.sample_statistics import log_density

Pair = tuple[Floats, Floats]
Panels = tuple[Marginal, Marginal]

_POINTS, _MANY_POINTS = 28, 48
"""Points of either line in a first look, under a prior of the wing's and under one of the user's own."""
_SLACK, FAR = 8.0, 8.0
"""Nats by which a first look may be wrong; nats below the ends of panels at which a point counts no more."""
_FLAT, _TEMPER = 36.0, 6.0
"""Nats under which a density counts as level where panels are shared out, and the root of it that is."""
_SPARE, _RISES, _SHY = 4.0, 12.0, 0.25
"""Nats that panels may end short of their depth; below which a density does not rise again; the share of the way to the
end of a line that is kept clear of under a conjugate prior, which falls to 0 there faster than any power."""
_GAMMA = 45.0
"""Nats below the top at which a gamma law ends."""
_MANY = 50.0
"""Records from which on the gamma law of the sample variance is narrow beside a panel."""


def first_panels(question: Question, size: tuple[int, int], depth: float) -> tuple[Marginal, Marginal, Floats]:
    """Panels laid by rough values, over all there is and then ever closer; the log density below which none counts."""
    rows, (centre, spread, low, high) = len(question.seen), _lines(question)
    kinds, own = question.kinds, question.of_data or question.log_density is not None
    t, s = (np.linspace(a, b, _MANY_POINTS if own else _POINTS, axis=-1) for a, b in zip(low, high, strict=True))

    def along(some: Integers, t: Floats, s: Floats) -> Floats:
        return _rough(question.rows(some), t, s, centre[some], spread[some])

    def along_both(some: Integers, t: Floats, s: Floats) -> tuple[Floats, ...]:
        values = along(some, t, s)
        return log_sum_exp(values, 2), log_sum_exp(values, 1)

    def along_s(some: Integers, s: Floats) -> tuple[Floats, ...]:
        return (_profile(question.rows(some), s),)

    def along_t(some: Integers, t: Floats) -> tuple[Floats, ...]:
        return (log_sum_exp(along(some, t, s[some]), 2),)

    everyone = np.arange(rows)
    if own:
        (t, s), (logs_t, logs_s) = _closer([t, s], along_both, depth)
    else:
        (s,), (logs_s,) = _closer([s], along_s, depth)
        s = _equal_share_edges(s, logs_s, _POINTS - 1)
        logs_s = along_s(everyone, s)[0]
        if question.constrained:  # no mean is feasible with less than the smallest variance
            half = 0.5 * np.tanh(-s[:, 0])
            ends = backward(SINH, centre, spread, np.stack([0.5 - half, 0.5 + half]))
            t = np.linspace(np.maximum(ends[0], low[0]), np.minimum(ends[1], high[0]), _POINTS, axis=-1)
        (t,), (logs_t,) = _closer([t], along_t, depth)
    t = _equal_share_edges(t, logs_t, t.shape[1] - 1)
    values = along(everyone, t, s)
    logs_t, logs_s = log_sum_exp(values, 2), log_sum_exp(values, 1) if own else logs_s
    corners, none = _corners(question), np.zeros((rows, 0))
    t, s = _equal_share_edges(t, logs_t, size[0]), _equal_share_edges(s, logs_s, size[1])
    mean = Marginal(kinds[0], centre, spread, _edges_on_corner(t, corners[0]), none)
    variance = Marginal(kinds[1], np.zeros(rows), np.ones(rows), _edges_on_corner(s, corners[1]), none)
    return mean, variance, values.max((1, 2)) - depth - FAR - _SLACK


def _closer(
    points: list[Floats], evaluate: Callable[..., tuple[Floats, ...]], depth: float
) -> tuple[list[Floats], list[Floats]]:
    """Points (row, point) along one line or both that close in on a density until it fills them, and its logs there."""
    logs = [np.zeros_like(x) for x in points]
    active = np.arange(len(points[0]))
    for _ in range(60):
        if not len(active):
            break
        going, each = np.zeros(len(active), bool), np.arange(len(active))
        for axis, found in enumerate(evaluate(active, *(x[active] for x in points))):
            old = points[axis][active]
            kept = found > found.max(1, keepdims=True) - depth - _SLACK
            first = np.maximum(kept.argmax(1) - 1, 0)
            last = np.minimum(old.shape[1] - kept[:, ::-1].argmax(1), old.shape[1] - 1)
            low, high = old[each, first], old[each, last]
            shrunk = high - low < 0.6 * (old[:, -1] - old[:, 0])
            logs[axis][active] = found
            points[axis][active] = np.where(shrunk[:, None], np.linspace(low, high, old.shape[1], axis=-1), old)
            going |= shrunk
        active = active[going]
    return points, logs


def next_panels(question: Question, mean: Marginal, variance: Marginal, size: tuple[int, int], depth: float) -> Panels:
    """So many panels of both lines, laid by the densities on others."""
    (_, _, low, high), corners, found = _lines(question), _corners(question), []
    shy = question.beliefs[:, 0] * _SHY
    for axis, old in enumerate((mean, variance)):
        edges = _laid_again(old, low[axis], high[axis], depth, size[axis], shy)
        found.append(replace(old, edges=_edges_on_corner(edges, corners[axis])))
    return found[0], found[1]


def _lines(question: Question) -> tuple[Floats, Floats, Pair, Pair]:
    """Centre and spread of the line of the mean; where the lines of mean and variance begin, and end."""
    n, kind, scale, mean = question.seen.T[:4]
    informed, mu0, kappa, _, s2 = question.beliefs.T
    centre = np.where(kind > 0.0, mean, np.where(informed > 0.0, mu0, 0.5))
    spread = np.where(kind > 0.0, scale, np.where(informed > 0.0, np.sqrt(s2 / kappa), 0.25))
    lowest = np.where(informed > 0.0, np.minimum(-20.0, 0.5 * np.log(s2) - 6.0), -20.0)
    if question.constrained:
        centre, spread = np.clip(centre, 0.0, 1.0), np.minimum(spread, 1.0)
        low, high = np.arcsinh(-centre / spread), np.arcsinh((1.0 - centre) / spread)
        caps = 0.25 if question.of_data else np.minimum(question.caps, 0.25)
        return centre, spread, (low, lowest), (high, backward(COSH, 0.0, 1.0, caps + 0.0 * high))
    top = np.minimum(0.5 * np.log(question.caps), 60.0)
    largest = np.exp(2.0 * top)
    reach = 12.0 * np.sqrt(largest / n) + np.where(kind > 0.0, 40.0 * scale, 0.0)
    reach += np.where(informed > 0.0, 12.0 * np.sqrt(largest / kappa), 0.0)
    middle = np.where(informed > 0.0, mu0, centre)
    low, high = (
        (np.minimum(middle, centre) - reach - centre) / spread,
        (np.maximum(middle, centre) + reach - centre) / spread,
    )
    if question.of_data:  # beyond the cap on sigma2 by what the gamma law and the noise allow
        seen, nats = question.seen, 2.0 * _GAMMA / (n - 1.0)
        further = np.where(seen[:, 4] > 0.0, np.maximum(seen[:, 6], 0.0) + 40.0 * seen[:, 5], 0.0)
        top = np.minimum(0.5 * np.log(largest * (1.0 + 2.0 * np.sqrt(nats) + 2.0 * nats) + further), 60.0)
    return centre, spread, (np.arcsinh(low), lowest), (np.arcsinh(high), top)


def _corners(question: Question) -> Pair:
    """Points of both lines at which densities have corners: the released mean; the released variance, of the population
    where many records do not round it off."""
    n, kind, variance = question.seen[:, 0], question.seen[:, 4], question.seen[:, 6]
    sharp = n >= (0.0 if question.of_data else _MANY)
    at = backward(question.kinds[1], 0.0, 1.0, variance * ((n - 1.0) / n if question.of_data else 1.0))
    return np.zeros(len(n)), np.where((kind == 1.0) & (variance > 0.0) & sharp, at, np.inf)


def _rough(question: Question, t: Floats, s: Floats, centre: Floats, spread: Floats) -> Floats:
    """Log of prior times likelihood per dt ds, roughly, (row, mean, variance)."""
    kinds = question.kinds
    s = np.minimum(s, -1e-6) if question.constrained else s
    mu, v = forward(kinds[0], centre[:, None], spread[:, None], t), forward(kinds[1], 0.0, 1.0, s)
    if question.of_data:
        logs = log_density(question, mu, v)
    else:
        logs = log_likelihood(question.seen, mu[..., None], v, question.constrained, rough=True)[:, :, 0]
        logs = logs + question.log_prior(mu, v)
    if question.constrained:
        logs = np.where(v[:, None] < (mu * (1.0 - mu))[..., None], logs, -np.inf)
    heights = np.log(jacobian(kinds[0], spread[:, None], t))[..., None] + np.log(jacobian(kinds[1], 1.0, s))[:, None]
    return np.asarray(logs + heights)


def _profile(question: Question, s: Floats) -> Floats:
    """Log density of s, roughly: the likeliest mean and statistics, times the widths of their laws, (row, point)."""
    s = np.minimum(s, -1e-6) if question.constrained else s
    v, (n, kind, scale) = forward(question.kinds[1], 0.0, 1.0, s), question.seen.T[:3, :, None]
    ends = np.stack([-1e30 + 0.0 * v, 1e30 + 0.0 * v], -1)
    if question.constrained:
        half = 0.5 * np.tanh(-s)
        ends = np.stack([v / (0.5 + half), 0.5 + half], -1)
    each = np.where(np.eye(s.shape[1], dtype=bool), -np.inf, np.inf)
    informed, mu0, kappa, nu, s2 = question.beliefs.T[..., None]
    seen = np.concatenate([question.seen, np.where(informed > 0.0, mu0, 0.0), informed * kappa], 1)
    least = np.repeat(each[None], len(s), 0)
    logs = log_likelihood(seen, ends, v, question.constrained, least, rough=True)[:, :, 0].diagonal(0, 1, 2)
    prior = -(0.5 * nu + 1.0) * np.log(v) - 0.5 * nu * s2 / v
    wide = np.sqrt(v * (1.0 / n + 1.0 / kappa))
    prior = prior + np.log(np.where(kind > 0.0, np.minimum(wide, 3.0 * scale), wide))
    return np.asarray(logs + np.log(jacobian(question.kinds[1], 1.0, s)) + np.where(informed > 0.0, prior, 0.0))


def _equal_share_edges(points: Floats, logs: Floats, panels: int) -> Floats:
    """Edges (row, edge) that give every panel the same share of a monitor of the densities, each to the power 1 / 6.

    The monitor counts how far that rises and falls, and a little of its mass: panels come where a density turns and
    are long where it is straight.
    """
    top = logs.max(1, keepdims=True)
    heights = np.exp(np.maximum(logs - np.where(top > -np.inf, top, 0.0), -_FLAT) / _TEMPER)
    length = points[:, -1:] - points[:, :1]
    steps = np.abs(np.diff(heights)) + 0.5 * (heights[:, 1:] + heights[:, :-1]) * np.diff(points) / length
    running = np.concatenate([np.zeros((len(points), 1)), np.cumsum(steps, 1)], 1)
    shares = np.linspace(0.0, 1.0, panels + 1)
    return np.array([np.interp(shares * r[-1], r, p) for r, p in zip(running, points, strict=True)]).reshape(
        -1, panels + 1
    )


def _laid_again(old: Marginal, low: Floats, high: Floats, depth: float, panels: int, shy: Floats) -> Floats:
    """New edges from densities at the points of panels: closer where they lie, further where they go on.

    A share of the way to the ends of the line is kept clear: there a conjugate prior falls faster than any power.
    """
    points = np.concatenate([old.edges[:, :1], old.points[0], old.edges[:, -1:]], 1)
    highest = old.values.max(1, keepdims=True)
    inner = np.log(np.maximum(old.values / np.where(highest > 0.0, highest, 1.0), 1e-300))
    inner = fall_outwards(inner, *_ends(inner > -_RISES))
    logs = np.concatenate([inner[:, :1], inner, inner[:, -1:]], 1)
    first, last = _ends(inner >= -depth)
    last = last + 2
    most = 0.5 * (np.take_along_axis(points, last, 1) - np.take_along_axis(points, first, 1))[:, 0]
    sides = (0, 1, 4, low, -1.0, first == 0), (-1, -2, -5, high, 1.0, last == points.shape[1] - 1)
    for end, near, inside, line, out, reached in sides:
        room, spare = out * (line - points[:, end]), logs[:, near] + depth
        rise = np.maximum(logs[:, inside] - logs[:, near], 0.0)
        rise = rise / np.maximum(out * (points[:, near] - points[:, inside]), 1e-300)
        step = np.minimum(np.minimum(most, (1.0 - shy) * room), spare / np.maximum(rise, 1e-9))
        further = reached[:, 0] & (spare > _SPARE) & (room > 0.0)
        points[:, end] += np.where(further, out * step, 0.0)
        logs[:, end] = np.where(further, logs[:, near] - rise * step, logs[:, end])
    kept = np.clip(np.arange(points.shape[1]), first, last)
    edges = _equal_share_edges(np.take_along_axis(points, kept, 1), np.take_along_axis(logs, kept, 1), panels)
    return np.where(highest > 0.0, edges, np.linspace(old.edges[:, 0], old.edges[:, -1], panels + 1, axis=-1))


def _ends(inside: Any) -> tuple[Integers, Integers]:
    """The first and the last place of every row that is inside, (row, 1) each."""
    return inside.argmax(1)[:, None], inside.shape[1] - 1 - inside[:, ::-1].argmax(1)[:, None]


def _edges_on_corner(edges: Floats, corners: Floats) -> Floats:
    """Edges (row, edge) whose inner one nearest to a corner (row,), if that lies between the outer ones, is on it."""
    inside = np.flatnonzero((edges[:, 0] < corners) & (corners < edges[:, -1]))
    if edges.shape[1] > 2 and len(inside):
        nearest = 1 + np.abs(edges[inside, 1:-1] - corners[inside, None]).argmin(1)
        edges[inside, nearest] = corners[inside]
    return edges
