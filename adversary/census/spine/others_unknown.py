r"""Bayes factor of one more person in a leaf for an adversary who does not know its other people, with an error bound.

The number of others has the leaf's prior p given everything else. With B(x) the likelihood of x people in the leaf,
from its own measurement and the rest of the tree,

.. math:: \text{log Bayes factor} = \log \sum_x p(x) B(x + 1) - \log \sum_x p(x) B(x)
   = \log E[p(X - 1) / p(X)]

over the posterior of the count X; for a flat prior that is log(1 - P(X = 0)). The ratio of priors is bounded, so the
truncated mass changes the expectation by at most that bound times `truncation_bound`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from adversary._core import Floats, Integers
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate
from adversary.census.spine.membership import CERTAIN, OK, UNRESOLVED, log_likelihoods, own_log_likelihood, with_limits
from adversary.census.spine.problem import feasible
from adversary.census.spine.solution import TRUSTED, Solution, downward_pass
from adversary.census.spine.tree import Tree

# Share of mass that one trim may drop in a second attempt, if the mass off a leaf's window could matter.
FINER = 1e-80


def unknown_others(tree: Tree, prior: LeafPrior, solution: Solution) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors of one more person for an adversary who does not know the others, errors, statuses."""
    pmf = prior.distributions(tree.leaves.size).pmf
    if pmf is not None:
        return _by_enumeration(tree, np.asarray(pmf), solution)
    factor, error = _expected_ratio(tree, prior, solution, solution.truncation_bound)
    certain = solution.layout.units["high"][tree.leaves] == 0
    low, high = solution.bounds.low[tree.leaves], solution.bounds.high[tree.leaves]
    if not (error <= TRUSTED)[~certain].all() and solution.tau > FINER:
        finer, proven = _expected_ratio(tree, prior, *_with_finer_trims(solution))
        gain = proven < error
        factor[gain], error[gain] = finer[gain], proven[gain]
    if isinstance(prior, SharedRate) and (settled := (low == high) & ~certain).any():
        factor[settled], error[settled] = prior.log_ratio_alone(low[settled]), 0.0
    status = np.where(certain, CERTAIN, np.where(error <= TRUSTED, OK, UNRESOLVED))
    factor[certain], error[certain] = -np.inf, 0.0
    factor[status == UNRESOLVED] = np.nan
    return factor, error, status


def _expected_ratio(tree: Tree, prior: LeafPrior, solution: Solution, dropped: float) -> tuple[Floats, Floats]:
    """(leaf,) log E[p(X - 1) / p(X)], and a bound on its error; `dropped`: bound on the truncated mass."""
    from adversary._core import call
    from adversary.census.spine.compiled import downward

    cell_layout, messages, outer_one_more = solution.layout, solution.messages, solution.outer.copy()
    rate_ratio = call(downward, cell_layout, solution.theta, solution.tau, messages, outer_one_more, True)[tree.leaves]
    windows, units = messages.windows[tree.leaves], cell_layout.units[tree.leaves]
    place, count, starts, sizes = _window_entries(windows)
    ends = starts + sizes
    slope, start = (np.repeat(units[name], sizes) for name in ("slope", "start"))
    pmf_ratio = np.where(count > 0, count / (slope * np.maximum(count - 1, 0) + start), 0.0)
    mass = messages.data[place] * outer_one_more[place]
    mass, weighted_mass = np.add.reduceat(mass, starts), np.add.reduceat(mass * pmf_ratio, starts)
    last_value = messages.data[place[ends - 1]]
    value_before = messages.data[place[np.maximum(ends - 2, starts)]]
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(
            units["low"] == units["high"],
            0.0,
            np.where(last_value < value_before, 1.0 / (1.0 - last_value / value_before), np.inf),
        )
        bound = np.maximum(1.0 / units["start"], 1.0 / units["slope"])
        # for a Poisson prior the ratio grows with the count, whose tail decays geometrically
        farthest = windows["low"] + sizes + tail
        poisson_bound = np.minimum(farthest, units["high"]) / units["start"]
        bound = np.where(units["slope"] > 0, bound, poisson_bound)
        if isinstance(prior, SharedRate):
            bound = bound * np.exp(-prior.eta.min())
        expected = np.where(mass > 0, rate_ratio * weighted_mass / mass, 0.0)
        loss = dropped * np.maximum(1.0, bound / expected)
        return np.log(expected), np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), np.inf)


def _with_finer_trims(solution: Solution) -> tuple[Solution, float]:
    """Solution with trims of `FINER`, and the bound on its truncated mass; unchanged and infinite if too large."""
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    cell_layout, theta = solution.layout, solution.theta.copy()
    upward_messages, _, oversized = call(upward, cell_layout, theta, FINER, False)
    if oversized >= 0:
        return solution, np.inf
    outer, _, dropped = downward_pass(cell_layout, theta, FINER, upward_messages, solution.outside)
    return replace(solution, theta=theta, messages=upward_messages, outer=outer, tau=FINER, memo={}), dropped


def _by_enumeration(tree: Tree, pmf: Floats, solution: Solution) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors, errors and statuses for a listed prior, from the likelihood B of every count.

    The prior may end at a count where one more person is possible, so the ratio p(X - 1) / p(X) does not suffice.
    """
    factor, error, certain = _enumerated_ratio(tree, pmf, solution)
    if not (error <= TRUSTED)[~certain].all() and solution.tau > FINER:
        finer, proven, _ = _enumerated_ratio(tree, pmf, _with_finer_trims(solution)[0])
        gain = proven < error
        factor[gain], error[gain] = finer[gain], proven[gain]
    status = np.where(certain, CERTAIN, np.where(error <= TRUSTED, OK, UNRESOLVED))
    return np.where(status == UNRESOLVED, np.nan, factor), np.where(certain, 0.0, error), status


def _enumerated_ratio(tree: Tree, pmf: Floats, solution: Solution) -> tuple[Floats, Floats, Any]:
    """(leaf,) log of sum p(x) B(x + 1) / sum p(x) B(x), a bound on its error, and True where one more is impossible."""
    solution = _with_one_more_allowed(tree, solution)
    support = np.flatnonzero(pmf)
    first, leaves, known = int(support[0]), tree.leaves, np.full(len(tree), -1, dtype=np.int64)
    size = int(support[-1]) + 2 - first
    logs, lacking = np.full((size + 1, leaves.size), -np.inf), np.full((size + 1, leaves.size), -np.inf)
    for i in range(0, size, 2):
        known[leaves] = first + i
        pair = log_likelihoods(solution, known)[:2]
        for k in (i, i + 1):
            own, possible = own_log_likelihood(solution, leaves, np.full(leaves.size, first + k))
            logs[k], lacking[k] = (np.where(possible, one[leaves, k - i] + own, -np.inf) for one in pair)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weight = np.log(pmf[first : first + size - 1])[:, None]
        sums = [logsumexp(weight + part, axis=0) for part in (logs[: size - 1], logs[1:size])]
        missing = [logsumexp(weight + part, axis=0) for part in (lacking[: size - 1], lacking[1:size])]
        errors = [np.where(s > -np.inf, np.exp(m - s), np.inf) for m, s in zip(missing, sums, strict=True)]
        return sums[1] - sums[0], np.log1p(np.maximum(*errors)), np.isneginf(missing[1])


def _with_one_more_allowed(tree: Tree, solution: Solution) -> Solution:
    """Solution with limits and windows that allow one person more in each leaf than its prior does."""
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    bounds, units, theta = solution.bounds, solution.layout.units, solution.theta.copy()
    outer = float(bounds.outer_low[0]), float(bounds.outer_high[0])
    limits = feasible(tree, units["least"], units["most"], bounds.own_low, bounds.own_high + 1.0, outer)
    if (limits.low == bounds.low).all():
        return solution
    cell_layout = with_limits(solution.layout, limits.low, limits.high)
    messages, _, oversized = call(upward, cell_layout, theta, solution.tau, False)
    return (
        solution
        if oversized >= 0
        else replace(solution, layout=cell_layout, bounds=limits, theta=theta, messages=messages)
    )


def tail_probability(tree: Tree, solution: Solution, known: Any) -> Floats:
    """(leaf,) tail probability of the known count under the posterior: min of P(X <= known + 1) and P(X >= known).

    The posterior does not use the adversary's knowledge; NaN where `known` is NaN.
    """
    messages = solution.messages
    place, count, starts, sizes = _window_entries(messages.windows[tree.leaves])
    mass = messages.data[place] * solution.outer[place]
    known_counts = np.repeat(np.nan_to_num(known), sizes)
    below, above = (
        np.add.reduceat(np.where(here, mass, 0.0), starts)
        for here in (count <= known_counts + 1, count >= known_counts)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        least = np.minimum(below, above) / np.add.reduceat(mass, starts)
    return np.where(np.isnan(known), np.nan, least)


def _window_entries(windows: Any) -> tuple[Integers, Integers, Integers, Integers]:
    """(positions, counts) of all values of some units' windows, one after another; (starts, sizes) of each window."""
    sizes = windows["size"].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    step = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    return np.repeat(windows["place"], sizes) + step, np.repeat(windows["low"], sizes) + step, starts, sizes
