"""The log Bayes factor of the releases above the lowest unit: its value and probability for every release.

On the grid of the second step's releases and the siblings' sums, the evidence is one matrix product per hypothesis;
levels further up are looped over. In a large grid the least probable releases are left out before their evidence is
computed. How much work the others are is known before, so that releases are simulated where listing them is more.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import Floats, Integers, as_array, blocks, log_tail_sums
from adversary.adversaries.path import AT_ONCE, EachLink, Path, Truth, log_matrix_product
from adversary.adversaries.plans import Plan, Released
from adversary.adversaries.risk.law_parts import UNSEEN, DiscretePart, probable
from adversary.adversaries.risk.listed_releases import columns, combine_columns, grid

# Largest number of releases in a grid; a twentieth of it for those of all levels but the siblings' sum, and for lists
# whose evidence is computed row by row.
MAX_GRID = 20_000_000
# less than the smallest failure probability that is answered, 1e-14, whose losses it would lower
LEFT_OUT = 2.5e-15
"""Total probability of the least probable releases that a large grid of one cell, or a long list, leaves out."""

# Width of a bin of log weights, nats.
_BIN = 0.05
_LARGE, _LONG, _TRIED = 1_000_000, 20_000, 16
_NEGLIGIBLE = 1e-30
_ROWS = 4096
_PAIRS = 400_000

# Counts gone over whose work equals that of one listed release, of one count in its matrix product, and of one release
# of the levels further up, whose evidence is one row, beside the counts of that row.
_LISTED, _PRODUCT, _MESSAGE = 5.0, 0.007, 100.0


def evidence_above(plan: Plan, path: Path, truth: Truth, cell: int, progress: bool, most: float) -> DiscretePart | None:
    """Distribution of the evidence above the lowest step; None with continuous noise there, or too many releases.

    They are too many if listing them is more work than `most`, in counts gone over.
    """
    above = [i for step in path.steps[1:] for i in step.levels]
    linked = [step.link_level for step in path.steps[:-1]]
    if any(plan.levels[i].mechanism.is_continuous for i in (*above, *linked)):
        return None
    if not any(isinstance(s.link, EachLink) and plan.names[s.link_level] in truth.siblings for s in path.steps):
        return _evidence_part(path, truth, cell, progress, most)
    every = columns(plan, truth, unread=path.steps[0].levels)
    numbers = (column for column in every if column.place[-1] == cell)
    combined = combine_columns(plan, numbers, MAX_GRID // 20)
    if combined is None:
        return None
    released, weights = combined[0].cell(cell), combined[1]
    keep = most_probable(weights)
    if keep.size * path.work(released.rows(keep[:: keep.size // _TRIED + 1])) > most:
        return None
    return DiscretePart(path.evidence_above(released.rows(keep), path.known_counts()), weights[keep])


def most_probable(weights: Floats) -> Integers:
    """Rows of a list of releases without the negligible ones or, of a long list, without `LEFT_OUT` in all."""
    return np.flatnonzero(probable(weights, LEFT_OUT) if weights.size > _LONG else weights > UNSEEN)


def _evidence_part(path: Path, truth: Truth, cell: int, progress: bool, most: float) -> DiscretePart | None:
    """Distribution of the evidence above the lowest step: a grid over the second step's releases and the sibling sum.

    Per hypothesis, log sum_x' exp(A[release, x'] + H[sum, x']) is one matrix product of positive terms, each row scaled
    by its maximum. Levels further up are looped over: each of their releases gives one message.
    """
    counts = truth.counts[:, cell]
    link, low = path.steps[0].link, path.steps[0].link_level
    second = path.steps[1]
    assert link is not None
    sums, sum_weight = link.noise.releases(int(counts[second.levels[0]] - counts[low]))
    own = [n.releases(int(counts[i])) for n, i in zip(second.noises, second.levels, strict=True)]
    further: list[tuple[Floats, Floats]] = []
    columns: list[tuple[str, int]] = []
    for below, step in zip(path.steps[1:-1], path.steps[2:], strict=True):
        assert below.link is not None
        further.append(below.link.noise.releases(int(counts[step.levels[0]] - counts[below.link_level])))
        columns.append(("sum", below.link_level))
        for noise, level in zip(step.noises, step.levels, strict=True):
            further.append(noise.releases(int(counts[level])))
            columns.append(("noisy", level))
    if len(sums) * math.prod(len(values) for values, _ in [*own, *further]) > MAX_GRID or 2 ** len(own) > _ROWS:
        return None
    rows, row_weight = grid(own)
    seen = row_weight > UNSEEN
    rows, row_weight = rows[seen], row_weight[seen]
    beyond, beyond_weight = grid(further) if further else (np.zeros((1, 0)), np.ones(1))
    noisy = np.full((beyond.shape[0], counts.size), 0.0)
    links = np.full((beyond.shape[0], counts.size), np.nan)
    for j, (kind, level) in enumerate(columns):
        (links if kind == "sum" else noisy)[:, level] = beyond[:, j]
    pair = np.outer(beyond_weight, row_weight).ravel()
    least, number = 0.0, pair.size * len(sums)
    if number > _LARGE:
        least, number = _least_kept(pair, sum_weight, LEFT_OUT)
    if number * _LISTED > most:
        return None
    if path.windows.closed_form(0):
        return _closed_form_part(path, (rows, row_weight), (sums, sum_weight), least)
    window = path.second_window(list(rows.T), sums, Released(noisy, links))
    order = np.argsort(-pair, kind="stable")
    order = order[pair[order] * sum_weight.max() >= least]
    used, place = np.unique(order // len(rows), return_inverse=True)
    work = number * (_LISTED + _PRODUCT * window.size) + used.size * len(path.steps[2:]) * (_MESSAGE + window.size)
    if window.size * max(len(sums), len(rows)) > MAX_GRID or work > most:
        return None
    grid_noisy = np.zeros((len(rows), counts.size))
    grid_noisy[:, list(second.levels)] = rows
    likelihood = second.log_likelihood(grid_noisy, np.broadcast_to(window, (len(rows), window.size)))
    x = path.known_counts()
    belief = [as_array(second.belief.log_prob(window, k)) for k in x]
    spread = [link.noise.log_likelihood(sums[:, None], window[None, :] - k) for k in x]
    messages = path.messages_beyond(window, Released(noisy[used], links[used]))
    values, weights = [], []
    starts = range(0, order.size, _ROWS)
    for start in blocks.track(starts, "releases of the upper levels", enabled=progress and len(starts) > 20):
        at = order[start : start + _ROWS]
        upper, row = np.divmod(at, len(rows))
        near = np.flatnonzero(pair[at[0]] * sum_weight >= least)
        weight = np.outer(pair[at], sum_weight[near])
        stacked = likelihood[row] + messages[place[start : start + _ROWS]]
        out, present = (log_matrix_product(stacked + belief[k], spread[k][near]) for k in (0, 1))
        with np.errstate(invalid="ignore"):
            evidence = present - out
        lost = np.argwhere(np.isnan(evidence) & (weight > max(_NEGLIGIBLE, least)))
        # Scaled products underflow for releases far apart: these are evaluated one by one. Impossible ones stay NaN.
        for first in range(0, len(lost), AT_ONCE):
            near_row, total = lost[first : first + AT_ONCE].T
            apart = Released(noisy[upper[near_row]], links[upper[near_row]])
            apart.noisy[:, list(second.levels)] = rows[row[near_row]]
            apart.sums[:, low] = sums[near[total]]
            evidence[near_row, total] = path.evidence_above(apart, path.known_counts())
        keep = ~np.isnan(evidence) & (weight >= least)
        values.append(evidence[keep])
        weights.append(weight[keep])
    return DiscretePart(np.concatenate(values), np.concatenate(weights))


def _closed_form_part(
    path: Path, rows: tuple[Floats, Floats], sums: tuple[Floats, Floats], least: float
) -> DiscretePart:
    """Distribution of the evidence if the sum over the second step's counts has a closed form.

    `rows` are the releases of the second step, (row, level), and `sums` consecutive sums of the siblings below it, each
    with their probabilities.
    """
    (released, row_weight), (totals, sum_weight) = rows, sums
    order = np.argsort(-row_weight, kind="stable")
    order = order[row_weight[order] * sum_weight.max() >= least]
    values, weights = [], []
    size = max(1, _PAIRS // totals.size)
    for start in range(0, order.size, size):
        at = order[start : start + size]
        near = np.flatnonzero(row_weight[at[0]] * sum_weight >= least)
        near = np.arange(near[0], near[-1] + 1)
        weight = np.outer(row_weight[at], sum_weight[near])
        keep = weight >= least
        values.append(_tail_evidence(path, released[at], totals[near])[keep])
        weights.append(weight[keep])
    return DiscretePart(np.concatenate(values), np.concatenate(weights))


def _tail_evidence(path: Path, released: Floats, sums: Floats) -> Floats:
    """Evidence of releases (row, level) with each of these sums, (row, sum), by completing the square.

    With R the curvature of a row's releases about their mean A and a that of the siblings' sum s,

        log sum_{j >= 0} exp(-R (A - x - j)^2 - a (s - j)^2) = tail of R + a at -(R (A - x) + a s) / (R + a)
                                                              - R a / (R + a) (A - x - s)^2.

    The tails of a row are at equal steps of a / (R + a).
    """
    second, link = path.steps[1], path.steps[0].link
    fits = [noise.parabola for noise in (*second.noises, *([link.noise] if link else []))]
    *rho, a = [fit[0] for fit in fits if fit]
    big = sum(rho)
    mean, parts = released @ np.array(rho) / big, []
    for x in path.known_counts():
        gap = mean - x
        tail = log_tail_sums(-(big * gap + a * sums[-1]) / (big + a), a / (big + a), sums.size, big + a)[:, ::-1]
        parts.append(tail - big * a / (big + a) * (gap[:, None] - sums) ** 2)
    return np.asarray(parts[1] - parts[0])


def _least_kept(pair: Floats, other: Floats, lost: float) -> tuple[float, int]:
    """A threshold such that the products of `pair` and `other` below it sum to at most `lost`, and how many are above.

    The products are not formed: weights of `pair` are counted in bins of their logarithm. A bin counts as left out if
    any weight in it is, so the mass left out is bounded from above.
    """
    log_pair, log_other = (np.log(one[one > 0.0]) for one in (pair, other))
    edges = np.arange(log_pair.min() - _BIN, log_pair.max() + 2.0 * _BIN, _BIN)
    mass, number = (
        np.append(0.0, np.cumsum(np.histogram(log_pair, edges, weights=one)[0])) for one in (np.exp(log_pair), None)
    )

    def place(log_least: float) -> Integers:
        return np.clip(np.searchsorted(edges, log_least - log_other), 0, mass.size - 1)

    def below(log_least: float) -> float:
        return float(np.exp(log_other) @ mass[place(log_least)])

    low, high = float(log_pair.min() + log_other.min()), float(log_pair.max() + log_other.max())
    while high - low > _BIN:
        middle = (low + high) / 2.0
        low, high = (middle, high) if below(middle) <= lost else (low, middle)
    if below(low) > lost:
        return 0.0, pair.size * other.size
    return math.exp(low), int((number[-1] - number[place(low)]).sum())
