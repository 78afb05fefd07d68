"""Bayes factor of one more person in a leaf for an adversary who knows everybody else there, with an error bound.

If the release contradicts the known count, windows placed around the release may miss it. Tilts and windows are then
recomputed around the known count (a "rerun"): first in the subtree of the leaf's parent, given its downward message,
and then in larger subtrees until the error bound is small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.census.spine.problem import UNBOUNDED, Limits, feasible, with_count_of_leaf
from adversary.census.spine.solution import NOTHING, TRUSTED, Solution
from adversary.census.spine.tree import Tree

STATUS = ("ok", "rerun", "certain", "impossible", "unresolved")
"""Status of a leaf's log Bayes factor, by number.

ok : error bound at most 1e-6
rerun : the same, after recomputing windows around the known count
certain : exact totals decide, the factor is infinite
impossible : exact totals exclude both hypotheses, the factor is NaN
unresolved : no error bound, the factor is NaN
"""
OK, RERUN, CERTAIN, IMPOSSIBLE, UNRESOLVED = range(5)

# Replaces the known count of a unit of which only the downward message is wanted; -1: nothing is wanted.
MESSAGE_ONLY = -2

# Replaces the unit at which a rerun starts, if no rerun within this tree can help.
NO_RERUN = -2

# Smallest cost of a pass over the whole tree that is charged, in products: about 0.1 seconds.
LEAST_PASS = 1e8

# Error bound of a log Bayes factor above which a rerun is attempted.
SHARP = 1e-12


def log_bayes_factors(tree: Tree, solution: Solution, others: Integers, reruns: int) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors of one more person given the known counts `others`, error bounds, and statuses.

    Siblings with the same known count need nearly the same tilts, so a rerun for one of them is tried for all. The
    limits of `within_reach` may exclude a known count; leaves that are unresolved with the limits are solved without.

    others : (leaf,) known number of other people
    reruns : limit of the cost of all reruns, in passes over the whole tree
    """
    factor, error, status = _within_limits(tree, solution, others, reruns)
    unresolved = status == UNRESOLVED
    if unresolved.any() and (unlimited := solution.without_limits()) is not None:
        limited = _within_limits(tree, unlimited, others, reruns)
        factor, error, status = (
            np.where(unresolved, b, a) for a, b in zip((factor, error, status), limited, strict=True)
        )
    return factor, error, status


def _within_limits(tree: Tree, solution: Solution, others: Integers, reruns: int) -> tuple[Floats, Floats, Integers]:
    """`log_bayes_factors` from one solution, with its limits of counts."""
    leaves = tree.leaves
    known = np.full(len(tree), -1, dtype=np.int64)
    known[leaves] = others
    ratio, ratio_error, lower_messages = log_ratios(solution, known)
    factor, error = ratio[leaves], ratio_error[leaves]
    start, limiting = _first_rerun(tree, solution, leaves, others)
    error[limiting] = np.inf
    status = np.where(error <= TRUSTED, OK, UNRESOLVED)
    own_logs, possible = zip(
        *(own_log_likelihood(solution, leaves, count) for count in (others, others + 1)), strict=True
    )
    settled = ~(possible[0] & possible[1])
    maybe_skipped = (
        settled & (possible[0] | possible[1]) & bool((solution.layout.given == 0.0).any())
    )  # a prior may have gaps
    maybe_skipped &= ~np.where(possible[1], factor > -np.inf, factor < np.inf)
    target_error = min(TRUSTED, max(SHARP, 1e10 * solution.tau))
    costs = _cost_below(tree, solution)
    allowed, bounds, units = reruns * max(costs[0], LEAST_PASS), solution.bounds, solution.layout.units
    to_rerun = np.flatnonzero((error > target_error) & ~settled & (start != NO_RERUN))
    for leaf in to_rerun[np.argsort(status[to_rerun] == OK, kind="stable")]:  # unresolved leaves first
        # a sibling's rerun has answered this leaf as well
        if not error[leaf] > target_error:
            continue
        siblings = to_rerun[
            (tree.parent[leaves[to_rerun]] == tree.parent[leaves[leaf]]) & (start[to_rerun] == start[leaf])
        ]
        siblings = siblings[(others[siblings] == others[leaf]) & (error[siblings] > target_error) & (siblings != leaf)]
        for limit in (bounds.own_low, bounds.own_high, units["least"], units["most"]):
            siblings = siblings[limit[leaves[siblings]] == limit[leaves[leaf]]]
        rerun_leaves = np.concatenate([[leaf], siblings])
        better, proven, work = rerun(
            tree, solution, leaves[rerun_leaves], known, lower_messages, int(start[leaf]), target_error, costs, allowed
        )
        allowed -= work
        gain = ~(proven >= error[rerun_leaves])
        factor[rerun_leaves[gain]], error[rerun_leaves[gain]] = better[gain], proven[gain]
        status[rerun_leaves[gain]] = np.where(proven[gain] <= TRUSTED, RERUN, UNRESOLVED)
    factor = np.where(status == UNRESOLVED, np.nan, factor + (own_logs[1] - own_logs[0]))
    factor[settled] = np.where(possible[1], np.inf, np.where(possible[0], -np.inf, np.nan))[settled]
    status[settled] = np.where(possible[0] | possible[1], CERTAIN, IMPOSSIBLE)[settled]
    error[settled] = 0.0
    factor[maybe_skipped], error[maybe_skipped], status[maybe_skipped] = np.nan, np.inf, UNRESOLVED
    return factor, error, status


def log_ratios(solution: Solution, known: Integers, top: Any = None) -> tuple[Floats, Floats, Any]:
    """(unit,) log likelihood ratio of one more than the known count, by all others; error bounds; downward messages.

    Arguments as for `log_likelihoods`.
    """
    logs, lacking, lower_messages = log_likelihoods(solution, known, top)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.where(logs > -np.inf, np.exp(lacking - logs), np.inf)
        return logs[:, 1] - logs[:, 0], np.log1p(errors.max(axis=1)), lower_messages


def log_likelihoods(solution: Solution, known: Integers, top: Any = None) -> tuple[Floats, Floats, Any]:
    """(unit, 2) log likelihoods of the known count and of one more, given all other leaves.

    Parameters
    ----------
    solution : the solved tree
    known : (unit,) known counts; -1 where not wanted
    top : `compiled.RootMessage`, the downward message of the root; None: from `solution.outside`

    Returns
    -------
    log likelihoods, logs of the bounds on what they lack, both up to the same constant, and the downward messages
    (None if a rate is shared above parents)
    """
    from adversary._core import call
    from adversary.census.spine.compiled import RootMessage, known_count_likelihoods

    if top is None:
        outside = solution.outside
        if known.size == 1 and outside is None:
            return np.zeros((1, 2)), np.full((1, 2), -np.inf), None
        top = RootMessage(0, NOTHING, NOTHING, 0.0)
        if outside is not None:
            top = RootMessage(
                *outside.on_wide_window or (outside.lowest, outside.values, np.zeros(outside.values.size), 0.0)
            )
    state = (_layout_for_known(solution, known), solution.theta, solution.tau, solution.messages)
    if solution.within in (None, "parent"):
        results: tuple[Floats, Floats, Any] = call(known_count_likelihoods, *state, known, -1, top)
        return results
    passes = [call(known_count_likelihoods, *state, known, more, top) for more in (0, 1)]
    logs, lacking = (np.stack([one[part][:, more] for more, one in enumerate(passes)], axis=1) for part in (0, 1))
    return logs, lacking, None


def rerun(
    tree: Tree, solution: Solution, rerun_leaves: Integers, known: Integers, lower_messages: Any, start: int,
    target_error: float, costs: Floats | None = None, allowed: float = np.inf,
) -> tuple[Floats, Floats, float]:  # fmt: skip
    """Log ratios of siblings, with tilts and windows recomputed around the known count of the first one.

    The rerun covers the subtree of unit `start`, given that unit's downward message. While the first leaf's error bound
    exceeds `target_error`, larger subtrees follow, within the allowed cost. Without downward messages the rerun covers
    the whole tree. The other leaves use the tilts of the last subtree.

    Parameters
    ----------
    tree, solution : the solved tree
    rerun_leaves : (some,) indices of sibling leaves with the same known count
    known : (unit,) known counts
    lower_messages : downward messages from `log_likelihoods`, or None
    start : unit whose subtree is recomputed first
    target_error : error bound to reach
    costs : (unit,) cost of each subtree, in products
    allowed : limit of the cost

    Returns
    -------
    (some,) log ratios, (some,) error bounds, and the cost, in products
    """
    from adversary.census.spine.compiled import RootMessage

    costs = _cost_below(tree, solution) if costs is None else costs
    ratio, error, work = np.full(rerun_leaves.size, np.nan), np.full(rerun_leaves.size, np.inf), 0.0
    v = max(start, 0) if lower_messages is not None else 0
    while work + costs[v] <= allowed:
        part, nodes, below, top = solution, np.arange(len(tree)), tree, None
        if v > 0:
            name = str(tree.names[v])
            nodes, below, top = tree.below(name), tree.subtree(name), RootMessage(*_message_to(lower_messages, v) or ())
            part = _restricted_to(solution, tree, nodes)
        places, known_below = np.searchsorted(nodes, rerun_leaves), known[nodes]
        pinned = _solution_given_leaf(below, part, int(places[0]), int(known_below[places[0]]))
        work += costs[v]
        if pinned is None:
            return ratio, error, work
        better, proven = _leaf_log_ratios(pinned, places[:1], known_below, top)
        if not proven[0] >= error[0]:
            ratio[0], error[0] = better[0], proven[0]
        if error[0] <= target_error or v == 0:
            break
        target_error = TRUSTED
        v = int(tree.parent[v])
    else:
        return ratio, error, work
    if rerun_leaves.size > 1 and work + costs[v] <= allowed:
        ratio[1:], error[1:] = _leaf_log_ratios(
            _solution_for_siblings(below, part, pinned, places), places[1:], known_below, top
        )
        work += costs[v]
    return ratio, error, work


def _leaf_log_ratios(part: Solution, places: Integers, known: Integers, top: Any) -> tuple[Floats, Floats]:
    """(some,) log ratios of the leaves at `places`, and their error bounds, from the solution of a subtree."""
    known_only = np.full(known.size, -1, dtype=np.int64)
    known_only[places] = known[places]
    ratio, error, _ = log_ratios(part, known_only, top)
    return ratio[places], error[places]


def _solution_given_leaf(tree: Tree, part: Solution, leaf: int, count: int) -> Solution | None:
    """Subtree solved with the count of one leaf known; None if its messages would be too large."""
    from adversary._core import call
    from adversary.census.spine.compiled import find_tilts, upward

    bounds = _limits_with_leaf(tree, part, leaf, count)
    cell_layout = with_count_of_leaf(with_limits(part.layout, bounds.low, bounds.high), leaf, count)
    theta, _ = call(find_tilts, cell_layout, False)
    upward_messages, _, oversized = call(upward, cell_layout, theta, part.tau, False)
    return (
        replace(part, layout=cell_layout, bounds=bounds, theta=theta, messages=upward_messages, memo={})
        if oversized < 0
        else None
    )


def _solution_for_siblings(tree: Tree, part: Solution, pinned: Solution, places: Integers) -> Solution:
    """Solution for siblings with the same known count, from `pinned`, in which the first leaf has that count.

    The first leaf's own message is restored; everything else is the same. Exact totals limit the siblings in the same
    way as the first leaf.
    """
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    first, second, pinned_messages = int(places[0]), int(places[1]), pinned.messages
    units = pinned.layout.units.copy()
    units[first] = part.layout.units[first]
    units[first]["low"], units[first]["high"] = units[second]["low"], units[second]["high"]
    tilts = replace(part, layout=part.layout._replace(units=units), theta=pinned.theta)
    sibling_message, _, _ = call(upward, _restricted_to(tilts, tree, places[:1]).layout, np.zeros(1), part.tau, False)
    windows = pinned_messages.windows.copy()
    windows[first] = sibling_message.windows[0]
    windows[first]["place"] += pinned_messages.data.size
    bounds = Limits(*(limit.copy() for limit in pinned.bounds))
    for limits, of in ((bounds.low, np.fmin), (bounds.high, np.fmax)):
        limits[places[1:]] = of(limits[places[1:]], limits[first])
    messages = pinned_messages._replace(
        windows=windows, data=np.concatenate([pinned_messages.data, sibling_message.data])
    )
    return replace(tilts, bounds=bounds, messages=messages, memo={})


def _cost_below(tree: Tree, solution: Solution) -> Floats:
    """(unit,) approximate number of products of a pass over the subtree of each unit."""
    size = solution.messages.windows["size"].astype(np.float64)
    cost = np.zeros(len(tree))
    np.add.at(cost, tree.parent[1:], size[1:] ** 2)
    cost *= 2.0 + np.log2(np.maximum(tree.children, 1))
    for v in range(len(tree) - 1, 0, -1):
        cost[tree.parent[v]] += cost[v]
    return cost


def _first_rerun(tree: Tree, solution: Solution, leaves: Integers, others: Integers) -> tuple[Integers, Integers]:
    """(leaf,) unit whose subtree a rerun covers first, and positions of the leaves that need a rerun in any case.

    The unit is usually the parent. But the limits of a leaf's own prior have, through exact totals, limited its
    siblings. If the known count lies outside these limits, the rerun covers the subtree of the lowest exact total above
    the leaf, or the whole tree if only bounds lie above it; `NO_RERUN` if the total lies outside the tree.
    """
    bounds, units = solution.bounds, solution.layout.units
    exact, bounded = units["least"] == units["most"], (units["least"] > 0.0) | np.isfinite(units["most"])
    start = tree.parent[leaves]
    outside_prior = np.flatnonzero((others < bounds.own_low[leaves]) | (others + 1 > bounds.own_high[leaves]))
    limited = bounds.outer_low[0] > 0.0 or np.isfinite(bounds.outer_high[0])
    limiting = []
    for leaf in outside_prior:
        v, any_bounded = int(start[leaf]), False
        while v >= 0 and not exact[v]:
            any_bounded |= bool(bounded[v])
            v = int(tree.parent[v])
        if v >= 0 or limited or any_bounded:
            start[leaf] = NO_RERUN if v < 0 and limited else max(v, 0)
            limiting.append(leaf)
    return start, np.array(limiting, dtype=np.int64)


def _limits_with_leaf(tree: Tree, solution: Solution, leaf: int, count: int) -> Limits:
    """Limits by exact totals if one leaf has `count` or one more people, whatever its own prior allows."""
    bounds = solution.bounds
    low, high = bounds.own_low.copy(), bounds.own_high.copy()
    low[leaf], high[leaf] = count, count + 1
    units = solution.layout.units
    outer = float(bounds.outer_low[0]), float(bounds.outer_high[0])
    return feasible(tree, units["least"], units["most"], low, high, outer)


def extended_downward_message(solution: Solution, unit: int) -> tuple[int, Floats, Floats, float] | None:
    """Downward message of a unit for `Message.on_wide_window`; None if rates are shared above parents."""
    if solution.within not in (None, "parent"):
        return None
    if "downward_messages" not in solution.memo:
        units = solution.layout.units
        known = np.where((units["given_size"] > 0) | (units["children"] > 0), MESSAGE_ONLY, -1)
        low = np.maximum(solution.bounds.outer_low, units["least"])
        # wider than `bounds`: adversaries of a piece may know counts that the priors of its leaves exclude
        high = np.minimum(solution.bounds.outer_high, units["most"])
        loose = replace(solution, layout=with_limits(solution.layout, low, high))
        solution.memo["downward_messages"] = log_ratios(loose, known)[2]
    return _message_to(solution.memo["downward_messages"], unit)


def _message_to(lower_messages: Any, unit: int) -> tuple[int, Floats, Floats, float] | None:
    """Downward message of one unit: (lowest count, values, bounds on their errors, bound off the window), or None."""
    if lower_messages is None or lower_messages.windows[unit]["size"] == 0:
        return None
    window = lower_messages.windows[unit]
    here = slice(int(window["place"]), int(window["place"] + window["size"]))
    return (
        int(window["low"]),
        lower_messages.value[here],
        lower_messages.missing[here],
        float(lower_messages.most[unit]),
    )


def _restricted_to(solution: Solution, tree: Tree, nodes: Integers) -> Solution:
    """Solution restricted to the subtree with these nodes; its messages stay those of the whole tree."""
    units = solution.layout.units[nodes]
    units["parent"][1:] = np.searchsorted(nodes, units["parent"][1:])
    units["first"] = np.searchsorted(nodes, units["first"])
    tilt = float(solution.theta[tree.parent[nodes[0]]])
    bounds = Limits(*(limit[nodes] for limit in solution.bounds))
    return replace(solution, layout=solution.layout._replace(units=units, top_tilt=tilt), bounds=bounds, memo={})


def _layout_for_known(solution: Solution, known: Integers) -> Any:
    """Layout whose limits allow every leaf its known count and one more, whatever its own prior allows."""
    units, bounds = solution.layout.units, solution.bounds
    is_known = known >= 0
    over = max(0.0, float(np.max(known[is_known] + 1 - bounds.high[is_known], initial=0.0)))
    under = max(0.0, float(np.max(bounds.low[is_known] - known[is_known], initial=0.0)))
    if not over and not under:
        return solution.layout
    low = np.maximum(np.maximum(bounds.outer_low, units["least"]), bounds.low - under)
    high = np.minimum(np.minimum(bounds.outer_high, units["most"]), bounds.high + over)
    return with_limits(solution.layout, low, high)


def with_limits(layout: Any, low: Floats, high: Floats) -> Any:
    """Layout with other limits (unit,) of the counts; those from `within_reach` stay."""
    units = layout.units.copy()
    near = units["near"] > 0
    units["low"] = np.where(near, units["low"], low)
    units["high"] = np.where(near, units["high"], np.where(np.isinf(high), UNBOUNDED, high))
    return layout._replace(units=units)


def own_log_likelihood(solution: Solution, leaves: Integers, count: Integers) -> tuple[Floats, Any]:
    """(leaf,) log likelihood of a count by the leaf's own measurement, 0 if impossible; True where possible."""
    units, bounds, tables = solution.layout.units[leaves], solution.bounds, solution.layout.table
    gap = units["released"] - count
    log = -units["rho"] * gap**2 - units["alpha"] * np.abs(gap)
    place = np.clip(count, 0, np.maximum(units["table_size"] - 1, 0))
    listed = units["table_size"] > 0
    if listed.any():
        value = tables[np.where(listed, units["table_first"] + place, 0)]
        log = log + np.where(listed, np.where(count < units["table_size"], value, -np.inf), 0.0)
    possible = (count >= np.maximum(bounds.outer_low[leaves], units["least"])) & (log > -np.inf)
    possible &= count <= np.minimum(bounds.outer_high[leaves], units["most"])
    return np.where(possible, log, 0.0), possible
