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

from adversary._core import Floats, Integers
from adversary.reader.spine.leaf_priors import LeafPrior, SharedRate
from adversary.reader.spine.membership import CERTAIN, IMPOSSIBLE, OK, UNRESOLVED, log_bayes_factors
from adversary.reader.spine.solution import TRUSTED, Solution, downwards
from adversary.reader.spine.tree import Tree

FINER = 1e-80
"""Trims of a second try, where what the leaf's window leaves out could matter."""


def unknown_others(tree: Tree, prior: LeafPrior, solution: Solution, reruns: int) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors of one more for a reader who does not know the others, error bounds, and statuses."""
    pmf = prior.laws(tree.leaves.size).pmf
    if pmf is not None:
        return _by_listed_law(tree, np.asarray(pmf), solution, reruns)
    factor, error = _expected_ratio(tree, prior, solution, solution.truncation_bound)
    certain = solution.layout.units["high"][tree.leaves] == 0
    if not (error <= TRUSTED)[~certain].all() and solution.tau > FINER:
        better, proven = _expected_ratio(tree, prior, *_finer(solution))
        gain = proven < error
        factor[gain], error[gain] = better[gain], proven[gain]
    status = np.where(certain, CERTAIN, np.where(error <= TRUSTED, OK, UNRESOLVED))
    factor[certain], error[certain] = -np.inf, 0.0
    factor[status == UNRESOLVED] = np.nan
    return factor, error, status


def _expected_ratio(tree: Tree, prior: LeafPrior, solution: Solution, dropped: float) -> tuple[Floats, Floats]:
    """(leaf,) log of the expected ratio of laws, and a bound on its error."""
    from adversary._core import call
    from adversary.reader.spine.compiled import downward

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
        unbounded = (windows["low"] + sizes + tail) / units["start"]  # a Poisson law: its tail falls geometrically
        bound = np.where(units["slope"] > 0, bound, unbounded)
        if isinstance(prior, SharedRate):
            bound = bound * np.exp(-prior.eta.min())
        expected = np.where(mass > 0, raised * moved / mass, 0.0)
        loss = dropped * np.maximum(1.0, bound / expected)
        return np.log(expected), np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), np.inf)


def _finer(solution: Solution) -> tuple[Solution, float]:
    """The same on wider windows, and what they leave out."""
    from adversary._core import call
    from adversary.reader.spine.compiled import upward

    made, theta = solution.layout, solution.theta.copy()
    found, _, wide = call(upward, made, theta, FINER, False)
    if wide >= 0:
        return solution, np.inf
    outer, _, dropped = downwards(made, theta, FINER, found, solution.outside)
    return replace(solution, theta=theta, messages=found, outer=outer, tau=FINER, memo={}), dropped


def _by_listed_law(tree: Tree, pmf: Floats, solution: Solution, reruns: int) -> tuple[Floats, Floats, Integers]:
    """The same for a law that is a list, which may end where one more is possible: B count by count."""
    support = np.flatnonzero(pmf)
    counts = np.arange(support[0], support[-1] + 2)
    size = tree.leaves.size
    log, wrong = np.zeros((counts.size, size)), np.zeros((counts.size, size))
    for i, known in enumerate(counts[:-1]):
        step, error, status = log_bayes_factors(tree, solution, np.full(size, known), reruns)
        begins, never = np.isposinf(step), status == IMPOSSIBLE
        log[: i + 1, begins] = -np.inf
        log[i + 1] = np.where(begins, 0.0, np.where(never, -np.inf, log[i] + np.where(never, 0.0, step)))
        log[i + 1, np.isneginf(log[i]) & ~begins & (i > 0)] = -np.inf
        wrong[i + 1] = wrong[i] + error
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.log(pmf[support[0] : support[-1] + 1])[:, None]
        top = np.nanmax(log, axis=0)
        without = np.log(np.exp(log[:-1] - top + weight).sum(axis=0))
        within = np.log(np.exp(log[1:] - top + weight).sum(axis=0))
        factor, error = within - without, wrong[-1]
    settled = np.isinf(factor)
    status = np.where(settled, CERTAIN, np.where(np.isfinite(factor) & (error <= TRUSTED), OK, UNRESOLVED))
    return np.where(status == UNRESOLVED, np.nan, factor), np.where(settled, 0.0, error), status


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
