"""True counts behind a release and the target's side, checked against the plan and the adversary's beliefs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adversary._core import Integers
from adversary.adversaries.beliefs import Belief
from adversary.adversaries.path.adversary import Adversary
from adversary.adversaries.plans import NOT_LEVELS, Plan


@dataclass(frozen=True)
class Truth:
    """True counts, and whether the target is in.

    Parameters
    ----------
    counts : true counts in people, (level, cell)
    target : 1 if in, 0 if out
    siblings : true counts of single siblings, (sibling, cell), by level name; empty where none are given
    """

    counts: Integers
    target: int
    siblings: Mapping[str, Integers] = field(default_factory=dict)

    def by_level(self, plan: Plan) -> dict[str, Any]:
        """The counts as a truth mapping for `plan.release`."""
        single = plan.cells == 1
        counts: dict[str, Any] = {
            name: int(row[0]) if single else row for name, row in zip(plan.names, self.counts, strict=True)
        }
        if not self.siblings:
            return counts
        return counts | {"siblings": {name: each[:, 0] if single else each for name, each in self.siblings.items()}}


def settle_truth(plan: Plan, adversary: Adversary, truth: Mapping[str, Any]) -> Truth:
    """Check true counts against the plan and the adversary's beliefs, and determine whether the target is in.

    A truth that a belief excludes is refused. The exception is `Point`: an adversary may be sure of a wrong total.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : true count of each level by name, a number or one per cell. With two cells, single counts are those of the
        first cell, and the second cell is assumed to hold as many others. "in": 1 or 0 is the target's side, required
        if the counts do not determine it. "siblings": {level: counts} lists the counts of single siblings: as many as
        the plan has there, with the sum count of the level above - count of the unit

    Returns
    -------
    Truth

    Raises
    ------
    ValueError : the plan, a belief or an exact level excludes the truth, or the target's side is not determined
    TypeError : `adversary` is not an Adversary

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> settle_truth(Plan([Level("block", Geometric(1.0))]), Adversary(known=3), {"block": 4}).target
    1
    """
    if not isinstance(adversary, Adversary):
        raise TypeError(
            f"adversary must be an Adversary, got {type(adversary).__name__}: a pm.Model is for adversary.audit"
        )
    named = truth.get("in")
    if named is not None and named not in (0, 1):
        raise ValueError(f'truth: "in" must be 0 or 1, got {named!r}')
    cells = {name: value for name, value in truth.items() if name not in NOT_LEVELS}
    single = plan.cells > 1 and all(np.ndim(value) == 0 for value in cells.values())
    one_cell = Plan(plan.levels) if single else plan
    counts = one_cell.counts(cells)
    lowest = adversary.level_beliefs(plan, 0)[0]
    held = [t for t in (0, 1) if np.isfinite(lowest.log_prob(counts[0, 0], adversary.contributions(0)[t]))]
    if not held:
        supports = [lowest.support(k) for k in sorted(adversary.contributions(0))]
        raise ValueError(
            f"truth of level {plan.names[0]!r} is {counts[0, 0]}, outside the adversary's belief"
            f"{'' if lowest.known_count is None else f' ({lowest.known_count} others are known there)'}: "
            f"possible from {supports[0][0]} to {supports[1][1] if supports[1][1] is not None else 'any number'}"
        )
    if named is None and len(held) > 1:
        raise ValueError('the counts do not settle whether the target is in: add "in" = 1 or 0 to the truth')
    if named is not None and named not in held:
        raise ValueError(f'truth: "in" = {named} contradicts a count of {counts[0, 0]} at level {plan.names[0]!r}')
    target = held[0] if named is None else int(named)
    if single:
        known = adversary.known if isinstance(adversary.known, int) else adversary.known[1]
        other = known + adversary.contributions(1)[target] + counts[:, 0] - counts[0, 0]
        counts = np.stack([counts[:, 0], other], axis=1)
    siblings = one_cell.sibling_counts({**cells, "siblings": truth.get("siblings", {})})
    siblings = {name: np.repeat(each, 2, axis=1) if single else each for name, each in siblings.items()}
    for cell in range(plan.cells):
        chain, below = adversary.level_beliefs(plan, cell), adversary.contributions(cell)[target]
        for level, belief, count in zip(plan.levels, chain, counts[:, cell], strict=True):
            if belief.known_total is None and not np.isfinite(belief.log_prob(count, below)):
                raise ValueError(
                    f"truth of level {level.name!r} is {count}, outside the adversary's belief {belief} "
                    f"(count inside: {below})"
                )
            if level.is_exact and belief.known_total not in (None, count):
                raise ValueError(
                    f"truth of level {level.name!r} is {count} and published exactly, "
                    f"but the adversary is sure of {belief.known_total}"
                )
            below = count
        for name, each in siblings.items():
            _check_each(name, chain[plan.names.index(name) + 1], each[:, cell])
    return Truth(counts, target, siblings)


def _check_each(name: str, belief: Belief, counts: Integers) -> None:
    """ValueError where a belief about each sibling excludes one of them."""
    if belief.each is not None:
        excluded = np.isneginf(belief.each.log_one(counts.astype(np.float64)))
        if excluded.any():
            raise ValueError(
                f"truth: a sibling of level {name!r} has a count of {counts[excluded][0]}, outside the "
                f"adversary's {belief}"
            )


def opposite(plan: Plan, adversary: Adversary, truth: Truth) -> Truth:
    """The truth under the other hypothesis: the target changes side, everybody else stays.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : checked true counts, from `settle_truth`

    Returns
    -------
    Truth, checked by `settle_truth`

    Raises
    ------
    ValueError : the adversary's beliefs, or an exact level, rule it out

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> plan, adversary = Plan([Level("block", Geometric(1.0))]), Adversary(known=3)
    >>> opposite(plan, adversary, settle_truth(plan, adversary, {"block": 4})).counts.tolist()
    [[3]]
    """
    target = 1 - truth.target
    moved = [
        adversary.contributions(cell)[target] - adversary.contributions(cell)[1 - target] for cell in range(plan.cells)
    ]
    other = Truth(truth.counts + np.array(moved), target, truth.siblings)
    return settle_truth(plan, adversary, {**other.by_level(plan), "in": target})
