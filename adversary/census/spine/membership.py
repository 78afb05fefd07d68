"""What a reader who knows everybody else in a leaf learns about one more person there, with a proven bound.

Where the release contradicts what the reader knows, the windows laid about the release may miss what counts. Tilts and
windows are then laid anew about the known count: in the leaf's parent first, with what everything else says about it,
and further up until the bound is small.
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
"""Of a leaf's answer: proven to the tolerance; so after a second run with windows about what the reader knows; settled
by exact totals, the odds infinite; both outcomes excluded by exact totals; not proven, no number given.
"""
OK, RERUN, CERTAIN, IMPOSSIBLE, UNRESOLVED = range(5)

# In place of a known count: a leaf for which only what it is told is wanted; -1: nothing is.
NOT_ASKED = -2

# In place of the unit at which a second run starts: none would answer.
NOWHERE = -2

# Products of a pass over the whole tree, where it takes fewer: about 0.1 seconds.
LEAST_PASS = 1e8

# Proven error of a log Bayes factor from which on a second run is to find a better one.
SHARP = 1e-12


def log_bayes_factors(tree: Tree, solution: Solution, others: Integers, reruns: int) -> tuple[Floats, Floats, Integers]:
    """(leaf,) log Bayes factors of one more against `others`, bounds on their errors, and statuses.

    reruns : how often at most the whole tree may be gone over, or parts of it that together take as long; none is
        begun that would take longer than what is left

    Siblings with one known count ask for nearly the same tilts: those that one of them was answered in are tried for
    all. Limits of counts may exclude what an adversary knows: whoever has no answer then is answered without them.
    """
    factor, error, status = _within_limits(tree, solution, others, reruns)
    lost = status == UNRESOLVED
    if lost.any() and (wider := solution.without_limits()) is not None:
        limited = _within_limits(tree, wider, others, reruns)
        factor, error, status = (np.where(lost, b, a) for a, b in zip((factor, error, status), limited, strict=True))
    return factor, error, status


def _within_limits(tree: Tree, solution: Solution, others: Integers, reruns: int) -> tuple[Floats, Floats, Integers]:
    """Log Bayes factors of membership, their errors and their statuses, of one solution."""
    leaves = tree.leaves
    known = np.full(len(tree), -1, dtype=np.int64)
    known[leaves] = others
    ratio, wrong, lower_messages = log_ratios(solution, known)
    factor, error = ratio[leaves], wrong[leaves]
    start, limiting = _first_rerun(tree, solution, leaves, others)
    error[limiting] = np.inf
    status = np.where(error <= TRUSTED, OK, UNRESOLVED)
    own, possible = zip(*(own_likelihood(solution, leaves, count) for count in (others, others + 1)), strict=True)
    settled = ~(possible[0] & possible[1])
    unseen = settled & (possible[0] | possible[1]) & bool((solution.layout.given == 0.0).any())  # a law may skip counts
    unseen &= ~np.where(possible[1], factor > -np.inf, factor < np.inf)
    enough = min(TRUSTED, max(SHARP, 1e10 * solution.tau))
    takes = _products(tree, solution)
    allowed, bounds, units = reruns * max(takes[0], LEAST_PASS), solution.bounds, solution.layout.units
    wanting = np.flatnonzero((error > enough) & ~settled & (start != NOWHERE))
    for leaf in wanting[np.argsort(status[wanting] == OK, kind="stable")]:  # first those without an answer
        # a sibling's second run was enough
        if not error[leaf] > enough:
            continue
        alike = wanting[(tree.parent[leaves[wanting]] == tree.parent[leaves[leaf]]) & (start[wanting] == start[leaf])]
        alike = alike[(others[alike] == others[leaf]) & (error[alike] > enough) & (alike != leaf)]
        for limit in (bounds.own_low, bounds.own_high, units["least"], units["most"]):
            alike = alike[limit[leaves[alike]] == limit[leaves[leaf]]]
        rerun_leaves = np.concatenate([[leaf], alike])
        better, proven, work = rerun(
            tree, solution, leaves[rerun_leaves], known, lower_messages, int(start[leaf]), enough, takes, allowed
        )
        allowed -= work
        gain = ~(proven >= error[rerun_leaves])
        factor[rerun_leaves[gain]], error[rerun_leaves[gain]] = better[gain], proven[gain]
        status[rerun_leaves[gain]] = np.where(proven[gain] <= TRUSTED, RERUN, UNRESOLVED)
    factor = np.where(status == UNRESOLVED, np.nan, factor + (own[1] - own[0]))
    factor[settled] = np.where(possible[1], np.inf, np.where(possible[0], -np.inf, np.nan))[settled]
    status[settled] = np.where(possible[0] | possible[1], CERTAIN, IMPOSSIBLE)[settled]
    error[settled] = 0.0
    factor[unseen], error[unseen], status[unseen] = np.nan, np.inf, UNRESOLVED
    return factor, error, status


def log_ratios(solution: Solution, known: Integers, top: Any = None) -> tuple[Floats, Floats, Any]:
    """(unit,) log of what all others say of one more than known, a bound on its error, and what units are told."""
    logs, lacking, lower_messages = log_likelihoods(solution, known, top)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.where(logs > -np.inf, np.exp(lacking - logs), np.inf)
        return logs[:, 1] - logs[:, 0], np.log1p(errors.max(axis=1)), lower_messages


def log_likelihoods(solution: Solution, known: Integers, top: Any = None) -> tuple[Floats, Floats, Any]:
    """(unit, 2) log of what all others say of the known count and of one more, and of what that may lack, up to one
    constant; and what units are told.

    known : -1 for units that are not asked about
    top : what the root is told, as `compiled.RootMessage`, if it is a unit of a larger tree
    """
    from adversary._core import call
    from adversary.census.spine.compiled import RootMessage, memberships

    if top is None:
        outside = solution.outside
        if known.size == 1 and outside is None:
            return np.zeros((1, 2)), np.full((1, 2), -np.inf), None
        top = RootMessage(0, NOTHING, NOTHING, 0.0)
        if outside is not None:
            top = RootMessage(*outside.around or (outside.lowest, outside.values, np.zeros(outside.values.size), 0.0))
    state = (_without_leaves(solution, known), solution.theta, solution.tau, solution.messages)
    if solution.within in (None, "parent"):
        results: tuple[Floats, Floats, Any] = call(memberships, *state, known, -1, top)
        return results
    passes = [call(memberships, *state, known, more, top) for more in (0, 1)]
    logs, lacking = (np.stack([one[part][:, more] for more, one in enumerate(passes)], axis=1) for part in (0, 1))
    return logs, lacking, None


def rerun(
    tree: Tree, solution: Solution, rerun_leaves: Integers, known: Integers, lower_messages: Any, start: int,
    enough: float, takes: Floats | None = None, allowed: float = np.inf,
) -> tuple[Floats, Floats, float]:  # fmt: skip
    """Log ratios and errors of leaves, with tilts and windows anew about the known count of the first; and products.

    The rerun covers the part of the tree below unit `start`, given that unit's downward message. If the first leaf's
    error is above `enough` or not proven, larger and larger parts follow, as far as is allowed. Without downward
    messages the rerun covers the whole tree. Siblings are answered in the last tilts.
    """
    from adversary.census.spine.compiled import RootMessage

    takes = _products(tree, solution) if takes is None else takes
    ratio, error, work = np.full(rerun_leaves.size, np.nan), np.full(rerun_leaves.size, np.inf), 0.0
    v = max(start, 0) if lower_messages is not None else 0
    while work + takes[v] <= allowed:
        part, nodes, below, top = solution, np.arange(len(tree)), tree, None
        if v > 0:
            name = str(tree.names[v])
            nodes, below, top = tree.below(name), tree.subtree(name), RootMessage(*_message_to(lower_messages, v) or ())
            part = _part(solution, tree, nodes)
        places, their = np.searchsorted(nodes, rerun_leaves), known[nodes]
        pinned = _with_known_leaf(below, part, int(places[0]), int(their[places[0]]))
        work += takes[v]
        if pinned is None:
            return ratio, error, work
        better, proven = _leaf_log_ratios(pinned, places[:1], their, top)
        if not proven[0] >= error[0]:
            ratio[0], error[0] = better[0], proven[0]
        if error[0] <= enough or v == 0:
            break
        enough = TRUSTED
        v = int(tree.parent[v])
    else:
        return ratio, error, work
    if rerun_leaves.size > 1 and work + takes[v] <= allowed:
        ratio[1:], error[1:] = _leaf_log_ratios(_for_siblings(below, part, pinned, places), places[1:], their, top)
        work += takes[v]
    return ratio, error, work


def _leaf_log_ratios(part: Solution, places: Integers, known: Integers, top: Any) -> tuple[Floats, Floats]:
    """Log ratios of some leaves of a part, and bounds on their errors."""
    only = np.full(known.size, -1, dtype=np.int64)
    only[places] = known[places]
    ratio, error, _ = log_ratios(part, only, top)
    return ratio[places], error[places]


def _with_known_leaf(tree: Tree, part: Solution, leaf: int, count: int) -> Solution | None:
    """A part in which a leaf is known to have a count, tilts and windows laid anew; None where it would be too much."""
    from adversary._core import call
    from adversary.census.spine.compiled import saddle, upward

    bounds = _with_leaf(tree, part, leaf, count)
    made = with_count_of_leaf(with_limits(part.layout, bounds.low, bounds.high), leaf, count)
    theta, _ = call(saddle, made, False)
    upward_messages, _, wide = call(upward, made, theta, part.tau, False)
    return (
        replace(part, layout=made, bounds=bounds, theta=theta, messages=upward_messages, memo={}) if wide < 0 else None
    )


def _for_siblings(tree: Tree, part: Solution, pinned: Solution, places: Integers) -> Solution:
    """The solution for siblings that are known to have the same count: only the first leaf's own message is another.

    Totals leave a sibling what they left the first leaf: they are alike in all that exact totals see.
    """
    from adversary._core import call
    from adversary.census.spine.compiled import upward

    first, second, of_pinned = int(places[0]), int(places[1]), pinned.messages
    units = pinned.layout.units.copy()
    units[first] = part.layout.units[first]
    units[first]["low"], units[first]["high"] = units[second]["low"], units[second]["high"]
    tilts = replace(part, layout=part.layout._replace(units=units), theta=pinned.theta)
    one, _, _ = call(upward, _part(tilts, tree, places[:1]).layout, np.zeros(1), part.tau, False)
    windows = of_pinned.windows.copy()
    windows[first] = one.windows[0]
    windows[first]["place"] += of_pinned.data.size
    bounds = Limits(*(limit.copy() for limit in pinned.bounds))
    for limits, of in ((bounds.low, np.fmin), (bounds.high, np.fmax)):
        limits[places[1:]] = of(limits[places[1:]], limits[first])
    messages = of_pinned._replace(windows=windows, data=np.concatenate([of_pinned.data, one.data]))
    return replace(tilts, bounds=bounds, messages=messages, memo={})


def _products(tree: Tree, solution: Solution) -> Floats:
    """(unit,) about how many products it takes to go over a unit and all below it."""
    size = solution.messages.windows["size"].astype(np.float64)
    takes = np.zeros(len(tree))
    np.add.at(takes, tree.parent[1:], size[1:] ** 2)
    takes *= 2.0 + np.log2(np.maximum(tree.children, 1))
    for v in range(len(tree) - 1, 0, -1):
        takes[tree.parent[v]] += takes[v]
    return takes


def _first_rerun(tree: Tree, solution: Solution, leaves: Integers, others: Integers) -> tuple[Integers, Integers]:
    """(leaf,) unit whose part of the tree a second run takes first, and the leaves that need one in any case.

    Most often that is the parent. But what a leaf's own prior allows has, through exact totals, limited the counts of
    its siblings: where the reader knows of other counts, all below the lowest exact total above the leaf is gone over
    again, or the whole tree where only bounds lie above. `NOWHERE` where such a total lies outside the tree.
    """
    bounds, units = solution.bounds, solution.layout.units
    exact, bounded = units["least"] == units["most"], (units["least"] > 0.0) | np.isfinite(units["most"])
    start = tree.parent[leaves]
    off = np.flatnonzero((others < bounds.own_low[leaves]) | (others + 1 > bounds.own_high[leaves]))
    limited = bounds.outer_low[0] > 0.0 or np.isfinite(bounds.outer_high[0])
    limiting = []
    for leaf in off:
        v, some = int(start[leaf]), False
        while v >= 0 and not exact[v]:
            some |= bool(bounded[v])
            v = int(tree.parent[v])
        if v >= 0 or limited or some:
            start[leaf] = NOWHERE if v < 0 and limited else max(v, 0)
            limiting.append(leaf)
    return start, np.array(limiting, dtype=np.int64)


def _with_leaf(tree: Tree, solution: Solution, leaf: int, count: int) -> Limits:
    """Bounds that exact totals leave where a leaf has a count or one more, whatever its own prior allows."""
    bounds = solution.bounds
    low, high = bounds.own_low.copy(), bounds.own_high.copy()
    low[leaf], high[leaf] = count, count + 1
    units = solution.layout.units
    outer = float(bounds.outer_low[0]), float(bounds.outer_high[0])
    return feasible(tree, units["least"], units["most"], low, high, outer)


def message_around(solution: Solution, unit: int) -> tuple[int, Floats, Floats, float] | None:
    """Message to a unit, for `Message.around`; None where rates are shared above parents."""
    if solution.within not in (None, "parent"):
        return None
    if "told" not in solution.memo:
        units = solution.layout.units
        known = np.where((units["given_size"] > 0) | (units["children"] > 0), NOT_ASKED, -1)
        low = np.maximum(solution.bounds.outer_low, units["least"])
        # readers of pieces may know better than leaves
        high = np.minimum(solution.bounds.outer_high, units["most"])
        loose = replace(solution, layout=with_limits(solution.layout, low, high))
        solution.memo["told"] = log_ratios(loose, known)[2]
    return _message_to(solution.memo["told"], unit)


def _message_to(lower_messages: Any, unit: int) -> tuple[int, Floats, Floats, float] | None:
    """Message to one unit: (lowest count, values, what they lack, most beyond them)."""
    if lower_messages is None or lower_messages.windows[unit]["size"] == 0:
        return None
    window = lower_messages.windows[unit]
    here = slice(int(window["place"]), int(window["place"] + window["size"]))
    return int(window["low"]), lower_messages.value[here], lower_messages.lack[here], float(lower_messages.most[unit])


def _part(solution: Solution, tree: Tree, nodes: Integers) -> Solution:
    """Part of a solution, of a unit and everything below it; its messages left as they are."""
    units = solution.layout.units[nodes]
    units["parent"][1:] = np.searchsorted(nodes, units["parent"][1:])
    units["first"] = np.searchsorted(nodes, units["first"])
    tilt = float(solution.theta[tree.parent[nodes[0]]])
    bounds = Limits(*(limit[nodes] for limit in solution.bounds))
    return replace(solution, layout=solution.layout._replace(units=units, top_tilt=tilt), bounds=bounds, memo={})


def _without_leaves(solution: Solution, known: Integers) -> Any:
    """The layout with room in every unit for leaves that have the known counts, whatever their own priors allow."""
    units, bounds = solution.layout.units, solution.bounds
    believed = known >= 0
    over = max(0.0, float(np.max(known[believed] + 1 - bounds.high[believed], initial=0.0)))
    under = max(0.0, float(np.max(bounds.low[believed] - known[believed], initial=0.0)))
    if not over and not under:
        return solution.layout
    low = np.maximum(np.maximum(bounds.outer_low, units["least"]), bounds.low - under)
    high = np.minimum(np.minimum(bounds.outer_high, units["most"]), bounds.high + over)
    return with_limits(solution.layout, low, high)


def with_limits(layout: Any, low: Floats, high: Floats) -> Any:
    """The layout with other limits of the counts, but for those of `within_reach`."""
    units = layout.units.copy()
    near = units["near"] > 0
    units["low"] = np.where(near, units["low"], low)
    units["high"] = np.where(near, units["high"], np.where(np.isinf(high), UNBOUNDED, high))
    return layout._replace(units=units)


def own_likelihood(solution: Solution, leaves: Integers, count: Integers) -> tuple[Floats, Any]:
    """(leaf,) log likelihood of a count by the leaf's own measurement, 0 where not possible; and whether it is."""
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
