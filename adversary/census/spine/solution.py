"""Solution of one cell of a tree: tilts, messages, and the bound on truncated mass, recomputed until it is small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, check_whole, in_threads
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate
from adversary.census.spine.problem import Likelihood, Limits, Message, check_proper, layout, within_reach
from adversary.census.spine.squares import two_passes
from adversary.census.spine.tree import Tree

# Share of mass that one trim of a window may drop in the first attempt: far below the tolerance, as factors of other
# units amplify it (see `_finer_trims`).
TAU = 1e-22

# The same for a message of a piece: the tilt in which the rest of the tree uses it is not known yet.
CHUNK_TAU = 1e-34

# Attempts with ever finer trims.
TRIES = 3
ROUGH = 1e-12
"""Share of mass that a subtree's message may lack before other limits, and then finer trims, are tried."""

# Largest proven error of a reported number; results with a larger one are "unresolved".
TRUSTED = 1e-6

# Replaces an infinite truncation bound, so that quotients of bounds are finite.
ENDLESS = 1e300

# Standard deviations beyond which noise does not explain a noisy count: the probability is 1e-197.
NO_NOISE = 30.0
NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of one cell: inputs of the compiled code, and its messages.

    `mean`, `variance` and `mass` are (unit,): posterior moments in people, and the sum of the product of the upward and
    the downward message (`outer`). `theta` is (unit,) tilts in nats per person, `truncation_bound` bounds the
    probability of counts off the windows.
    """

    layout: Any
    bounds: Limits
    theta: Floats
    messages: Any
    outer: Floats
    mean: Floats
    variance: Floats
    mass: Floats
    log_evidence: float
    truncation_bound: float
    tau: float
    sweeps: int
    outside: Message | None
    within: str | None
    """`SharedRate.within`, or None for other priors."""
    sole_children: Integers
    """Only children to which their parents' measurements were moved: see `move_to_sole_children`."""
    memo: dict[str, Any] = field(default_factory=dict)
    """Results computed from this solution before."""
    unlimited: Any = None
    """For a solution with limits from `within_reach`: a function that solves without them; otherwise None."""

    def without_limits(self) -> Solution | None:
        """Solution without the limits from `within_reach`; None if there are none, or if it is not resolved."""
        if self.unlimited is not None and "unlimited" not in self.memo:
            try:
                self.memo["unlimited"] = self.unlimited()
            except ValueError:  # too many counts
                self.memo["unlimited"] = None
        unlimited: Solution | None = self.memo.get("unlimited")
        return unlimited if unlimited is not None and unlimited.resolved else None

    @property
    def resolved(self) -> bool:
        """True if the truncation bound is small enough to report moments and probabilities."""
        return self.truncation_bound <= TRUSTED

    def with_measurements_above(self, unit: int) -> Solution:
        """Solution with the measurements that `move_to_sole_children` moved to a unit returned to the ancestors.

        The downward message of the unit then contains them, as a piece below the unit needs. Measurements that were
        moved between units further up stay: the product over these units is the same.
        """
        if unit not in self.sole_children:
            return self
        units, moved_along = self.layout.units.copy(), [unit]
        while units["children"][moved_along[-1]] and units["first"][moved_along[-1]] in self.sole_children:
            moved_along.append(int(units["first"][moved_along[-1]]))
        for child in moved_along[::-1]:
            for name in ("released", "rho"):
                units[name][units["parent"][child]], units[name][child] = units[name][child], 0.0
        parent, theta = units[units["parent"][unit]], self.theta.copy()
        theta[units["parent"][unit]] += 2.0 * parent["rho"] * np.nan_to_num(self.mean[unit] - parent["released"])
        cell_layout = self.layout._replace(units=units)
        outer = downward_messages(cell_layout, theta, self.tau, self.messages, self.outside)
        return replace(self, layout=cell_layout, theta=theta, outer=outer, memo={})


def solve(
    tree: Tree,
    like: Likelihood,
    prior: LeafPrior,
    messages: Mapping[str, Message],
    outside: Message | None,
    tolerance: float,
    tau: float = TAU,
) -> Solution:
    """Solve one cell: upward and downward pass, with finer trims until the truncation bound is within the tolerance.

    At most `TRIES` attempts, and one more with tilts that preserve all shared rates. Counts of unmeasured leaves, and
    of units within which a rate is shared, are limited to those that are plausible given other measurements, unless
    some measurement is then not explained by noise. `Solution.unlimited` solves without these limits, for adversaries
    whose knowledge contradicts the measurements.
    """
    moved, sole_children = move_to_sole_children(tree, like, messages)
    cell_layout, bounds = layout(tree, moved, prior, messages, outside)
    check_proper(tree, cell_layout, outside)
    limited = None if messages else within_reach(tree, moved, cell_layout, bounds)
    solve_layout = partial(_solve_layout, tree, like, prior, bounds, sole_children, messages, outside, tolerance, tau)
    unlimited = partial(solve_layout, cell_layout)
    if limited is not None:
        solution = solve_layout(limited)
        if (
            solution
            and solution.truncation_bound <= tolerance
            and _worst_outlier(tree, like, solution.mean)[1] <= NO_NOISE
        ):
            return replace(solution, unlimited=unlimited)
    solution = unlimited()
    assert solution is not None
    return solution


def _solve_layout(
    tree: Tree, like: Likelihood, prior: LeafPrior, bounds: Limits, sole_children: Integers,
    messages: Mapping[str, Message], outside: Message | None, tolerance: float, tau: float, cell_layout: Any,
) -> Solution | None:  # fmt: skip
    """Solution of one layout; None if its counts are limited and no counts are possible within the limits."""
    from adversary._core import call
    from adversary.census.spine.compiled import find_tilts, upward

    theta, sweeps = call(find_tilts, cell_layout, False)
    is_limited, can_keep_all_rates = bool(cell_layout.units["near"].any()), bool(cell_layout.units["sharing"].any())
    attempt, tries = 0, TRIES
    while True:
        upward_messages, scale, oversized = call(upward, cell_layout, theta, tau, False)
        if oversized >= 0 and is_limited:
            return None
        _refuse_unit(tree, oversized)
        outer, (mean, variance, mass), dropped = downward_pass(cell_layout, theta, tau, upward_messages, outside)
        attempt += 1
        if dropped <= tolerance or attempt == tries:
            break
        if can_keep_all_rates and not dropped < 1.0:
            theta, sweeps = call(find_tilts, cell_layout, True)
            tries, can_keep_all_rates = tries + 1, False  # not counted as an attempt with finer trims
            continue
        cell_layout, can_keep_all_rates = (
            _finer_trims(tree, cell_layout, upward_messages.windows["dropped"], dropped, tolerance, tau),
            False,
        )
    possible = bool(np.isfinite(scale) and (mass > 0).all())
    if not possible and is_limited:
        return None
    if not possible and outside is None and not messages:
        unit = str(tree.names[int(np.flatnonzero(~(mass > 0))[0])]) if np.isfinite(scale) else str(tree.names[0])
        _refuse_contradiction(tree, like)
        raise ValueError(
            f"no counts of unit {unit!r} were found with the measurements and priors given: none are possible, or the "
            "windows of counts that were tried miss them"
        )
    within = prior.within if isinstance(prior, SharedRate) else None
    # windows of messages from pieces were laid without this tree's information, and may miss all possible counts
    if not possible:
        dropped = np.inf
    if not dropped <= TRUSTED:
        scale, mean, variance = np.nan, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    evidence = float(scale) if outside is None else np.nan
    return Solution(
        cell_layout,
        bounds,
        theta,
        upward_messages,
        outer,
        mean,
        variance,
        mass,
        evidence,
        dropped,
        tau,
        sweeps,
        outside,
        within,
        sole_children,
    )


def _finer_trims(
    tree: Tree, cell_layout: Any, dropped_below: Floats, dropped: float, tolerance: float, tau: float
) -> Any:
    """Layout with finer trims for the next attempt, finest below units whose factor amplifies the truncation bound.

    Multiplying by a unit's factor can make its bound many times the sum of its children's; trims within that unit, and
    only there, are then finer by the same ratio. If no unit stands out, all trims are finer.

    dropped_below : (unit,) truncation bound of every message
    dropped : truncation bound of the whole tree
    """
    dropped_below, dropped = (np.minimum(np.nan_to_num(one, nan=ENDLESS), ENDLESS) for one in (dropped_below, dropped))
    parts = np.bincount(tree.parent[1:], dropped_below[1:], len(tree))
    with np.errstate(over="ignore"):
        amplification = np.maximum(np.where(tree.children > 0, dropped_below, 0.0) / (parts + tau), 1.0)
        amplification[0] *= max(1.0, dropped / max(dropped_below[0], tau))
        for level in tree.generations[1:]:
            amplification[level] *= amplification[tree.parent[level]]
        trim = np.minimum(1.0, 1e-2 * tolerance / (len(tree) * tau * amplification))
    if trim.min() == 1.0:
        trim = np.full(len(tree), min(1e-4, 1e-2 * tolerance / dropped))
    units = cell_layout.units.copy()
    units["trim"] *= trim
    return cell_layout._replace(units=units)


def downward_pass(
    cell_layout: Any, theta: Floats, tau: float, messages: Any, outside: Message | None
) -> tuple[Floats, tuple[Floats, Floats, Floats], float]:
    """Downward messages, posterior (mean, variance, mass) of every unit, and the bound on the truncated mass."""
    from adversary._core import call
    from adversary.census.spine.compiled import posterior_moments

    outer = downward_messages(cell_layout, theta, tau, messages, outside)
    moments = call(posterior_moments, messages, outer)
    dropped, mass = float(messages.windows["dropped"][0]), float(moments[2][0])
    if outside is not None:
        dropped = dropped / mass + outside.truncation_bound if mass > 0 else np.inf
    return outer, moments, dropped


def downward_messages(cell_layout: Any, theta: Floats, tau: float, messages: Any, outside: Message | None) -> Floats:
    """Messages from above to all units, as one array laid out like `messages.data`; the root's is `outside`, or ones.

    Parameters
    ----------
    cell_layout : Layout of one cell
    theta : (unit,) tilts of internal units, as `upward` left them
    tau : share of mass that one trim of a window may drop
    messages : messages from below, from `upward`
    outside : message to the root from outside the tree, zero beyond its values; None if there is none
    """
    from adversary._core import call
    from adversary.census.spine.compiled import downward

    outer, root = np.zeros(messages.data.size), messages.windows[0]
    values = np.ones(root["size"])
    if outside is not None:
        values = np.zeros(root["size"])
        first = int(root["low"]) - outside.lowest
        begin, stop = max(0, -first), min(values.size, outside.values.size - first)
        values[begin : max(begin, stop)] = outside.values[first + begin : max(first + begin, first + stop)]
    outer[root["place"] : root["place"] + root["size"]] = values
    call(downward, cell_layout, theta, tau, messages, outer, False)
    return outer


def _refuse_contradiction(tree: Tree, like: Likelihood) -> None:
    """ValueError naming the noisy count farthest from its least squares estimate, if noise does not explain it."""
    mean, _ = two_passes(tree, np.where(like.rho > 0, like.released, 0.0)[:, None], like.rho[:, None])
    v, deviations = _worst_outlier(tree, like, np.maximum(mean[:, 0], 0.0))
    if deviations > NO_NOISE:
        raise ValueError(
            f"the noisy counts contradict each other: that of unit {str(tree.names[v])!r}, {like.released[v]:.0f}, is "
            f"{deviations:.3g} standard deviations of its noise away from the estimate from all of them, "
            f"{max(mean[v, 0], 0.0):.4g}"
        )


def _worst_outlier(tree: Tree, like: Likelihood, mean: Floats) -> tuple[int, float]:
    """Unit whose noisy count is farthest from a mean, and the distance in standard deviations of its noise."""
    finite = (like.rho > 0) & np.isfinite(like.rho)
    deviations = np.nan_to_num(np.abs(like.released - mean)) * np.sqrt(2.0 * np.where(finite, like.rho, 0.0))
    v = int(np.argmax(deviations))
    return v, float(deviations[v])


def _refuse_unit(tree: Tree, unit: int) -> None:
    """ValueError naming a unit whose children have too many possible counts; nothing for -1."""
    if unit >= 0:
        raise ValueError(
            f"the {tree.children[unit]:,} children of unit {str(tree.names[unit])!r} leave too many counts possible: "
            "to combine them would take more than 1e12 products or 4 GiB; measure them with less noise, or give their "
            "counts a prior that says more"
        )


def upward_message_of_cell(tree: Tree, like: Likelihood, prior: LeafPrior, tau: float) -> Message:
    """Upward message of a subtree in one cell, without the measurement of its top.

    If the truncation bound is too large, further attempts follow in this order: with the limits of `within_reach`, with
    tilts that preserve all shared rates, with finer trims.
    """
    from adversary._core import call
    from adversary.census.spine.compiled import find_tilts, lowest_tilts, upward

    if tree.children[0] == 0:
        raise ValueError(f"unit {str(tree.names[0])!r} has no children: there is no message to make")
    like, _ = move_to_sole_children(tree, like, {}, 1)
    cell_layout, bounds = layout(tree, like, prior, {}, None)
    if cell_layout.units["sharing"][0]:
        raise ValueError(f"a rate is shared within {str(tree.names[0])!r}: its top must lie above what shares a rate")
    least = float(call(lowest_tilts, cell_layout)[0])
    cell_layout = cell_layout._replace(top_tilt=max(0.0, least + 1.0) if np.isfinite(least) and least >= 0.0 else 0.0)
    attempt_layout, keep_all_rates = cell_layout, False
    for attempt in range(TRIES + 1):
        theta, _ = call(find_tilts, attempt_layout, keep_all_rates)
        upward_messages, scale, oversized = call(upward, attempt_layout, theta, tau, True)
        top_window = upward_messages.windows[0]
        if oversized < 0 and top_window["dropped"] <= ROUGH:
            break
        limited = within_reach(tree, like, cell_layout, bounds) if attempt == 0 else None
        if limited is not None:
            attempt_layout = limited
        elif not keep_all_rates and not top_window["dropped"] < 1.0 and cell_layout.units["sharing"].any():
            keep_all_rates = True
        elif oversized < 0:
            attempt_layout = _finer_trims(
                tree, attempt_layout, upward_messages.windows["dropped"], float(top_window["dropped"]), ROUGH, tau
            )
    _refuse_unit(tree, oversized)
    within = (float(bounds.low[0]), float(bounds.high[0]))
    values = upward_messages.data[top_window["place"] : top_window["place"] + top_window["size"]].copy()
    return Message(int(top_window["low"]), values, float(theta[0]), float(scale), float(top_window["dropped"]), within)


def move_to_sole_children(
    tree: Tree, like: Likelihood, messages: Mapping[str, Message], first: int = 0
) -> tuple[Likelihood, Integers]:
    """Likelihood with the noisy count of each unit moved to its only child, if that has none, and these children.

    Parent and only child have the same count, so no answer changes. The move helps for two reasons. A unit with a
    shared rate needs a measurement of its own to have a tilt of its own; in the tilt of its parent, most of the mixture
    may lie off the windows. And the mass that the message of a piece lacks may lie at any count: only a measurement at
    the piece's top bounds its weight.

    first : index of the first unit whose noisy count may move
    """
    released, rho, sole_children = like.released.copy(), like.rho.copy(), []
    may_hold = tree.children > 0
    may_hold[tree.index(list(messages))] = True
    for child in np.flatnonzero(may_hold & (rho == 0) & (like.alpha == 0)):
        unit = tree.parent[child]
        if unit >= first and tree.children[unit] == 1 and 0 < rho[unit] < np.inf and child not in like.tables:
            released[child], rho[child], rho[unit] = released[unit], rho[unit], 0.0
            sole_children.append(child)
    return like._replace(released=released, rho=rho), np.array(sole_children, dtype=np.int64)


def map_threads(function: Any, items: Sequence[Any], workers: int) -> list[Any]:
    """List of `function(item)` for every item, computed by `workers` threads."""
    return in_threads(function, items, int(check_whole("workers", workers, minimum=1)))
