r"""What a reader who does not know the others of a leaf learns about one more person there, with a proven bound.

The others follow the leaf's law given everything else. With B(x) the likelihood of x people in the leaf, its own
measurement and all that the rest of the tree says,

.. math:: \text{log Bayes factor} = \log \sum_x p(x) B(x + 1) - \log \sum_x p(x) B(x)
   = \log E[p(X - 1) / p(X)]

over the posterior of the count X; under a flat law that is log(1 - P(X = 0)). The ratio of laws is bounded, so that
what the windows leave out moves the expectation by no more than that bound times `truncation_bound`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from adversary._core import Floats, Integers
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate
from adversary.census.spine.membership import CERTAIN, OK, UNRESOLVED, log_likelihoods, own_likelihood, with_limits
from adversary.census.spine.problem import feasible
from adversary.census.spine.solution import TRUSTED, Solution, downwards
from adversary.census.spine.tree import Tree

# Trims of a second try, where what the leaf's window leaves out could matter.
FINER = 1e-80


def unknown_others(tree: Tree, prior: LeafPrior, solution: Solution) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors of one more for a reader who does not know the others, error bounds, and statuses."""
    pmf = prior.laws(tree.leaves.size).pmf
    if pmf is not None:
        return _by_listed_law(tree, np.asarray(pmf), solution)
    factor, error = _expected_ratio(tree, prior, solution, solution.truncation_bound)
    certain = solution.layout.units["high"][tree.leaves] == 0
    low, high = solution.bounds.low[tree.leaves], solution.bounds.high[tree.leaves]
    if not (error <= TRUSTED)[~certain].all() and solution.tau > FINER:
        better, proven = _expected_ratio(tree, prior, *_finer(solution))
        gain = proven < error
        factor[gain], error[gain] = better[gain], proven[gain]
    if isinstance(prior, SharedRate) and (settled := (low == high) & ~certain).any():
        factor[settled], error[settled] = prior.log_ratio_alone(low[settled]), 0.0
    status = np.where(certain, CERTAIN, np.where(error <= TRUSTED, OK, UNRESOLVED))
    factor[certain], error[certain] = -np.inf, 0.0
    factor[status == UNRESOLVED] = np.nan
    return factor, error, status


def _expected_ratio(tree: Tree, prior: LeafPrior, solution: Solution, dropped: float) -> tuple[Floats, Floats]:
    """(leaf,) log of the expected ratio of laws, and a bound on its error."""
    from adversary._core import call
    from adversary.census.spine.compiled import downward

    made, messages, lifted = solution.layout, solution.messages, solution.outer.copy()
    raised = call(downward, made, solution.theta, solution.tau, messages, lifted, True)[tree.leaves]
    windows, units = messages.windows[tree.leaves], made.units[tree.leaves]
    place, count, starts, sizes = _windows(windows)
    ends = starts + sizes
    slope, start = (np.repeat(units[name], sizes) for name in ("slope", "start"))
    law = np.where(count > 0, count / (slope * np.maximum(count - 1, 0) + start), 0.0)
    mass = messages.data[place] * lifted[place]
    mass, moved = np.add.reduceat(mass, starts), np.add.reduceat(mass * law, starts)
    last = messages.data[place[ends - 1]]
    before = messages.data[place[np.maximum(ends - 2, starts)]]
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(
            units["low"] == units["high"], 0.0, np.where(last < before, 1.0 / (1.0 - last / before), np.inf)
        )
        bound = np.maximum(1.0 / units["start"], 1.0 / units["slope"])
        # of a Poisson law: its tail falls geometrically
        farthest = windows["low"] + sizes + tail
        unbounded = np.minimum(farthest, units["high"]) / units["start"]
        bound = np.where(units["slope"] > 0, bound, unbounded)
        if isinstance(prior, SharedRate):
            bound = bound * np.exp(-prior.eta.min())
        expected = np.where(mass > 0, raised * moved / mass, 0.0)
        loss = dropped * np.maximum(1.0, bound / expected)
        return np.log(expected), np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), np.inf)


def _finer(solution: Solution) -> tuple[Solution, float]:
    """The solution on wider windows, and the mass that they leave out."""
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    made, theta = solution.layout, solution.theta.copy()
    upward_messages, _, wide = call(upward, made, theta, FINER, False)
    if wide >= 0:
        return solution, np.inf
    outer, _, dropped = downwards(made, theta, FINER, upward_messages, solution.outside)
    return replace(solution, theta=theta, messages=upward_messages, outer=outer, tau=FINER, memo={}), dropped


def _by_listed_law(tree: Tree, pmf: Floats, solution: Solution) -> tuple[Floats, Floats, Integers]:
    """Log ratios, errors, statuses for a law that is a list, which may end where one more is possible: B by count."""
    factor, error, certain = _listed_ratio(tree, pmf, solution)
    if not (error <= TRUSTED)[~certain].all() and solution.tau > FINER:
        better, proven, _ = _listed_ratio(tree, pmf, _finer(solution)[0])
        gain = proven < error
        factor[gain], error[gain] = better[gain], proven[gain]
    status = np.where(certain, CERTAIN, np.where(error <= TRUSTED, OK, UNRESOLVED))
    return np.where(status == UNRESOLVED, np.nan, factor), np.where(certain, 0.0, error), status


def _listed_ratio(tree: Tree, pmf: Floats, solution: Solution) -> tuple[Floats, Floats, Any]:
    """(leaf,) log of the ratio of sums, a bound on its error, and whether one more is excluded."""
    solution = _with_room(tree, solution)
    support = np.flatnonzero(pmf)
    first, leaves, known = int(support[0]), tree.leaves, np.full(len(tree), -1, dtype=np.int64)
    size = int(support[-1]) + 2 - first
    logs, lacking = np.full((size + 1, leaves.size), -np.inf), np.full((size + 1, leaves.size), -np.inf)
    for i in range(0, size, 2):
        known[leaves] = first + i
        pair = log_likelihoods(solution, known)[:2]
        for k in (i, i + 1):
            own, possible = own_likelihood(solution, leaves, np.full(leaves.size, first + k))
            logs[k], lacking[k] = (np.where(possible, one[leaves, k - i] + own, -np.inf) for one in pair)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weight = np.log(pmf[first : first + size - 1])[:, None]
        sums = [logsumexp(weight + part, axis=0) for part in (logs[: size - 1], logs[1:size])]
        missing = [logsumexp(weight + part, axis=0) for part in (lacking[: size - 1], lacking[1:size])]
        errors = [np.where(s > -np.inf, np.exp(m - s), np.inf) for m, s in zip(missing, sums, strict=True)]
        return sums[1] - sums[0], np.log1p(np.maximum(*errors)), np.isneginf(missing[1])


def _with_room(tree: Tree, solution: Solution) -> Solution:
    """The solution with limits, and windows, that leave room for one person more in a leaf than its law allows."""
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    bounds, units, theta = solution.bounds, solution.layout.units, solution.theta.copy()
    outer = float(bounds.outer_low[0]), float(bounds.outer_high[0])
    limits = feasible(tree, units["least"], units["most"], bounds.own_low, bounds.own_high + 1.0, outer)
    if (limits.low == bounds.low).all():
        return solution
    made = with_limits(solution.layout, limits.low, limits.high)
    messages, _, wide = call(upward, made, theta, solution.tau, False)
    return solution if wide >= 0 else replace(solution, layout=made, bounds=limits, theta=theta, messages=messages)


def tail_probability(tree: Tree, solution: Solution, known: Any) -> Floats:
    """(leaf,) posterior probability of a count as far off as what a reader knows, or farther, on the side it lies.

    The least of P(X <= known + 1) and P(X >= known), nobody's own knowledge used; NaN where nothing is known.
    """
    messages = solution.messages
    place, count, starts, sizes = _windows(messages.windows[tree.leaves])
    mass = messages.data[place] * solution.outer[place]
    own = np.repeat(np.nan_to_num(known), sizes)
    below, above = (np.add.reduceat(np.where(here, mass, 0.0), starts) for here in (count <= own + 1, count >= own))
    with np.errstate(invalid="ignore", divide="ignore"):
        least = np.minimum(below, above) / np.add.reduceat(mass, starts)
    return np.where(np.isnan(known), np.nan, least)


def _windows(windows: Any) -> tuple[Integers, Integers, Integers, Integers]:
    """Places and counts of all numbers of some units, where each unit's begin, and how many they are."""
    sizes = windows["size"].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    step = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    return np.repeat(windows["place"], sizes) + step, np.repeat(windows["low"], sizes) + step, starts, sizes
