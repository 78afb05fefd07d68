"""Warnings about average risks under improper beliefs, which are tilted towards "out" if the true count is small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from adversary.adversaries.path import Adversary, settle_truth
from adversary.adversaries.plans import Plan

# Standard deviations of the noise below which a number of others is small: releases below 0 are then not rare.
NEAR = 4.0


def cautions(plan: Plan, readers: Iterable[Adversary], truths: Iterable[Mapping[str, Any]]) -> list[str]:
    """Warnings about improper uniform beliefs where the true count is small: average risk then leans towards "out".

    Parameters
    ----------
    plan : the published counts
    readers : adversaries
    truths : true counts by level name, as for `settle_truth`; every adversary meets every truth

    Returns
    -------
    One sentence for each level concerned, naming the counts; empty if there is none. A count is small if it is less
    than `NEAR` standard deviations of the level's noise above the count inside.

    Raises
    ------
    ValueError : a truth that the plan or an adversary's beliefs exclude
    """
    tilted: dict[str, set[int]] = {}
    for adversary, truth in product(readers, truths):
        for name, count in _tilted_beliefs(plan, adversary, truth):
            tilted.setdefault(name, set()).add(count)
    return [
        tilt_warning(plan, name, f"the true count there is small ({' or '.join(map(str, sorted(counts)))})")
        for name, counts in tilted.items()
    ]


def _tilted_beliefs(plan: Plan, adversary: Adversary, truth: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """(level, true count) of every improper belief about a count with few others."""
    counts = settle_truth(plan, adversary, truth).counts
    for cell in range(plan.cells):
        for i, given in enumerate(adversary.level_beliefs(plan, cell)):
            inside = counts[i - 1, cell] if i else 0
            if not given.proper and counts[i, cell] - inside < few_others(plan, i):
                yield plan.names[i], int(counts[i, cell])


def few_others(plan: Plan, level: int) -> float:
    """Number of others below which a count is small: releases below the count inside are then not rare.

    Parameters
    ----------
    plan : the published counts
    level : place of the level, from 0 for the lowest

    Returns
    -------
    People, `NEAR` standard deviations of the level's noise
    """
    return float(NEAR * np.sqrt(plan.levels[level].mechanism.variance))


def tilt_warning(plan: Plan, name: str, small: str) -> str:
    """The warning about an improper uniform belief.

    Parameters
    ----------
    plan : the published counts
    name : name of the level that the belief is about
    small : clause that names the small count
    """
    return (
        f"These averages lean towards “out”, because the belief about the {name} is flat without an upper end and "
        f"{small}: give it an end, such as `upper = 100`. If the target is in, the smallest total is ruled out, so a "
        f"release that points to a small total counts as evidence for “out”, whatever the {plan.levels[0].unit}'s own "
        "count shows. The effect shrinks as the total grows; a belief with an end does not have it."
    )
