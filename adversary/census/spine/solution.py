"""One cell of a tree solved: tilts, messages and ledger, tried again on wider windows where too much was left out."""

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

# Share of mass that a trim may drop, at first.
TAU = 1e-22

# The same where a message is made before the tilt in which it will be read is known.
CHUNK_TAU = 1e-34
TRIES = 3
ROUGH = 1e-12
"""Mass that a subtree's message may lack before other limits, and then finer trims, are tried."""

# Largest proven error of anything that is given as a number.
TRUSTED = 1e-6

# In place of an infinite ledger.
ENDLESS = 1e300

# Standard deviations beyond which a noisy count is not explained by noise: it happens with probability 1e-197.
NO_NOISE = 30.0
NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Solution:
    """One cell: what the compiled code was given, and the messages it found."""

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
    """Where a rate is shared, if one is."""
    lodged: Integers
    """Only children that hold the measurements of their parents: see `with_sole_children`."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What was worked out from it before."""
    unlimited: Any = None
    """Of a solution with limits of `within_reach`: a function that solves without them."""

    def without_limits(self) -> Solution | None:
        """The solution without these limits; None where it has none, or the other is not resolved."""
        if self.unlimited is not None and "unlimited" not in self.memo:
            try:
                self.memo["unlimited"] = self.unlimited()
            except ValueError:  # too many counts
                self.memo["unlimited"] = None
        unlimited: Solution | None = self.memo.get("unlimited")
        return unlimited if unlimited is not None and unlimited.resolved else None

    @property
    def resolved(self) -> bool:
        """True where so little was left out that moments and probabilities are given."""
        return self.truncation_bound <= TRUSTED

    def telling(self, unit: int) -> Solution:
        """This solution with what was measured above a unit above it, if some of it was moved to the unit or below.

        What was moved further up stays where it is: there the tilts are those of units without a measurement. The
        unit's own becomes that of a unit below a measurement, for whoever goes on below without it.
        """
        if unit not in self.lodged:
            return self
        units, chain = self.layout.units.copy(), [unit]
        while units["children"][chain[-1]] and units["first"][chain[-1]] in self.lodged:
            chain.append(int(units["first"][chain[-1]]))
        for child in chain[::-1]:
            for name in ("released", "rho"):
                units[name][units["parent"][child]], units[name][child] = units[name][child], 0.0
        above, theta = units[units["parent"][unit]], self.theta.copy()
        theta[units["parent"][unit]] += 2.0 * above["rho"] * np.nan_to_num(self.mean[unit] - above["released"])
        made = self.layout._replace(units=units)
        outer = told_from_above(made, theta, self.tau, self.messages, self.outside)
        return replace(self, layout=made, theta=theta, outer=outer, memo={})


def solve(
    tree: Tree,
    like: Likelihood,
    prior: LeafPrior,
    messages: Mapping[str, Message],
    outside: Message | None,
    tolerance: float,
    tau: float = TAU,
) -> Solution:
    """Messages up and down, with smaller trims until the ledger is within the tolerance, three times at most.

    Where leaves or units that share a rate are not measured, their counts are limited to what the measurements of
    others leave possible, unless some measurement is then not explained by noise. What an adversary knows against all
    measurements is answered `unlimited`. Tilts that keep all shared rates are one try more.
    """
    here, lodged = with_sole_children(tree, like, messages)
    made, bounds = layout(tree, here, prior, messages, outside)
    check_proper(tree, made, outside)
    near = None if messages else within_reach(tree, here, made, bounds)
    some = partial(_solve_layout, tree, like, prior, bounds, lodged, messages, outside, tolerance, tau)
    unlimited = partial(some, made)
    if near is not None:
        solved = some(near)
        if solved and solved.truncation_bound <= tolerance and _farthest(tree, like, solved.mean)[1] <= NO_NOISE:
            return replace(solved, unlimited=unlimited)
    solved = unlimited()
    assert solved is not None
    return solved


def _solve_layout(
    tree: Tree, like: Likelihood, prior: LeafPrior, bounds: Limits, lodged: Integers, messages: Mapping[str, Message],
    outside: Message | None, tolerance: float, tau: float, made: Any,
) -> Solution | None:  # fmt: skip
    """The solution of one layout; None where its counts are limited, and nothing is possible."""
    from adversary._core import call
    from adversary.census.spine.compiled import saddle, upward

    theta, sweeps = call(saddle, made, False)
    tentative, blend = bool(made.units["near"].any()), bool(made.units["sharing"].any())
    attempt, tries = 0, TRIES
    while True:
        upward_messages, scale, wide = call(upward, made, theta, tau, False)
        if wide >= 0 and tentative:
            return None
        _check_wide(tree, wide)
        outer, (mean, variance, mass), dropped = downwards(made, theta, tau, upward_messages, outside)
        attempt += 1
        if dropped <= tolerance or attempt == tries:
            break
        if blend and not dropped < 1.0:
            theta, sweeps = call(saddle, made, True)
            tries, blend = tries + 1, False  # a try of tilts is none of trims
            continue
        made, blend = _finer_trims(tree, made, upward_messages.windows["dropped"], dropped, tolerance, tau), False
    possible = bool(np.isfinite(scale) and (mass > 0).all())
    if not possible and tentative:
        return None
    if not possible and outside is None and not messages:
        unit = str(tree.names[int(np.flatnonzero(~(mass > 0))[0])]) if np.isfinite(scale) else str(tree.names[0])
        _refuse_contradiction(tree, like)
        raise ValueError(
            f"no counts of unit {unit!r} were found with the measurements and priors given: none are possible, or the "
            "windows of counts that were tried miss them"
        )
    within = prior.within if isinstance(prior, SharedRate) else None
    # on the windows of messages that were made without what they now meet
    if not possible:
        dropped = np.inf
    if not dropped <= TRUSTED:
        scale, mean, variance = np.nan, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    evidence = float(scale) if outside is None else np.nan
    return Solution(
        made,
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
        lodged,
    )


def _finer_trims(tree: Tree, made: Any, lost: Floats, dropped: float, tolerance: float, tau: float) -> Any:
    """The layout with finer trims for a next try: finest where most of a unit's ledger comes from its own factor.

    A unit whose own measurement says little about what lies far off has a ledger many times that of its parts together;
    so much less may then be trimmed in all that lies in it, and in nothing else. Where no unit stands out, all trims
    are finer.

    lost : (unit,) ledger of every message; dropped : that of all together
    """
    lost, dropped = (np.minimum(np.nan_to_num(one, nan=ENDLESS), ENDLESS) for one in (lost, dropped))
    parts = np.bincount(tree.parent[1:], lost[1:], len(tree))
    with np.errstate(over="ignore"):
        growth = np.maximum(np.where(tree.children > 0, lost, 0.0) / (parts + tau), 1.0)
        growth[0] *= max(1.0, dropped / max(lost[0], tau))
        for here in tree.generations[1:]:
            growth[here] *= growth[tree.parent[here]]
        trim = np.minimum(1.0, 1e-2 * tolerance / (len(tree) * tau * growth))
    if trim.min() == 1.0:
        trim = np.full(len(tree), min(1e-4, 1e-2 * tolerance / dropped))
    units = made.units.copy()
    units["trim"] *= trim
    return made._replace(units=units)


def downwards(
    made: Any, theta: Floats, tau: float, messages: Any, outside: Message | None
) -> tuple[Floats, tuple[Floats, Floats, Floats], float]:
    """Messages to units, their (mean, variance, mass), and the bound on what all windows leave out."""
    from adversary._core import call
    from adversary.census.spine.compiled import posterior_moments

    outer = told_from_above(made, theta, tau, messages, outside)
    moments = call(posterior_moments, messages, outer)
    dropped, mass = float(messages.windows["dropped"][0]), float(moments[2][0])
    if outside is not None:
        dropped = dropped / mass + outside.truncation_bound if mass > 0 else np.inf
    return outer, moments, dropped


def told_from_above(made: Any, theta: Floats, tau: float, messages: Any, outside: Message | None) -> Floats:
    """Numbers laid out as those of the messages from below: what everything else says about every unit."""
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
    call(downward, made, theta, tau, messages, outer, False)
    return outer


def _refuse_contradiction(tree: Tree, like: Likelihood) -> None:
    """ValueError naming the noisy count that is farthest from its estimate out of all, where that is no noise."""
    mean, _ = two_passes(tree, np.where(like.rho > 0, like.released, 0.0)[:, None], like.rho[:, None])
    v, away = _farthest(tree, like, np.maximum(mean[:, 0], 0.0))
    if away > NO_NOISE:
        raise ValueError(
            f"the noisy counts contradict each other: that of unit {str(tree.names[v])!r}, {like.released[v]:.0f}, is "
            f"{away:.3g} standard deviations of its noise away from what all of them say, {max(mean[v, 0], 0.0):.4g}"
        )


def _farthest(tree: Tree, like: Likelihood, mean: Floats) -> tuple[int, float]:
    """The unit whose noisy count is farthest from a mean, and how many standard deviations of its noise."""
    finite = (like.rho > 0) & np.isfinite(like.rho)
    away = np.nan_to_num(np.abs(like.released - mean)) * np.sqrt(2.0 * np.where(finite, like.rho, 0.0))
    v = int(np.argmax(away))
    return v, float(away[v])


def _check_wide(tree: Tree, unit: int) -> None:
    """ValueError naming a unit whose children have too many counts."""
    if unit >= 0:
        raise ValueError(
            f"the {tree.children[unit]:,} children of unit {str(tree.names[unit])!r} leave too many counts possible: "
            "to combine them would take more than 1e12 products or 4 GiB; measure them with less noise, or give their "
            "counts a prior that says more"
        )


def rise_one(tree: Tree, like: Likelihood, prior: LeafPrior, tau: float) -> Message:
    """A subtree's message, without the measurement of its top.

    Where too much is left out the next try is the first of these not yet made: with limits of counts as `solve` has
    them, with tilts that keep all shared rates, with finer trims.
    """
    from adversary._core import call
    from adversary.census.spine.compiled import domains, saddle, upward

    if tree.children[0] == 0:
        raise ValueError(f"unit {str(tree.names[0])!r} has no children: there is no message to make")
    like, _ = with_sole_children(tree, like, {}, 1)
    made, bounds = layout(tree, like, prior, {}, None)
    if made.units["sharing"][0]:
        raise ValueError(f"a rate is shared within {str(tree.names[0])!r}: its top must lie above what shares a rate")
    least = float(call(domains, made)[0])
    made = made._replace(top_tilt=max(0.0, least + 1.0) if np.isfinite(least) and least >= 0.0 else 0.0)
    layer, blend = made, False
    for attempt in range(TRIES + 1):
        theta, _ = call(saddle, layer, blend)
        upward_messages, scale, wide = call(upward, layer, theta, tau, True)
        top = upward_messages.windows[0]
        if wide < 0 and top["dropped"] <= ROUGH:
            break
        near = within_reach(tree, like, made, bounds) if attempt == 0 else None
        if near is not None:
            layer = near
        elif not blend and not top["dropped"] < 1.0 and made.units["sharing"].any():
            blend = True
        elif wide < 0:
            layer = _finer_trims(tree, layer, upward_messages.windows["dropped"], float(top["dropped"]), ROUGH, tau)
    _check_wide(tree, wide)
    within = (float(bounds.low[0]), float(bounds.high[0]))
    values = upward_messages.data[top["place"] : top["place"] + top["size"]].copy()
    return Message(int(top["low"]), values, float(theta[0]), float(scale), float(top["dropped"]), within)


def with_sole_children(
    tree: Tree, like: Likelihood, messages: Mapping[str, Message], first: int = 0
) -> tuple[Likelihood, Integers]:
    """The likelihood with the noisy counts of units moved to their only children where these have none; these children.

    Their counts are the same, so no answer changes. But a rate shared in such a child is then tilted by what was
    measured: without it no tilt but that above is allowed there, in which most of the mixture may lie off the windows.
    And what the message of a piece lacks may lie anywhere: only what is measured there limits its weight.

    first : the first unit whose noisy count may move
    """
    released, rho, lodged = like.released.copy(), like.rho.copy(), []
    holds = tree.children > 0
    holds[tree.index(list(messages))] = True
    for child in np.flatnonzero(holds & (rho == 0) & (like.alpha == 0)):
        unit = tree.parent[child]
        if unit >= first and tree.children[unit] == 1 and 0 < rho[unit] < np.inf and child not in like.tables:
            released[child], rho[child], rho[unit] = released[unit], rho[unit], 0.0
            lodged.append(child)
    return like._replace(released=released, rho=rho), np.array(lodged, dtype=np.int64)


def map_threads(function: Any, items: Sequence[Any], workers: int) -> list[Any]:
    """The function of every item, by so many threads."""
    return in_threads(function, items, int(check_whole("workers", workers, minimum=1)))
