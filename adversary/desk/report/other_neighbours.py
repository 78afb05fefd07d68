"""The section that tells what the same budget would mean for the other neighbours."""

from __future__ import annotations

import xarray as xr
from scipy.special import expit

from adversary._core import figure_of, give_or_take, logit, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageTable, error, is_exact, of_reader, readers_of, stated
from adversary.reader.path import Adversary, settle_truth
from adversary.reader.risk import bayes_factor_law, invariant_factor

ALTERNATIVES = (("unbounded", 1), ("bounded", 1), ("bounded", 2))


def neighbours(scenario: Scenario, truth: str) -> list[str]:
    """What the budget means here, and what else it could have meant."""
    unbounded = (
        "a record is added or removed (unbounded neighbours): one count of every query moves by one, and the budget "
        "rho buys noise with sigma² = 1/(2 rho)"
    )
    bounded = (
        "a record changes (bounded neighbours, as in the 2020 Census): two counts of every query move by one each, and "
        "the same rho buys noise with sigma² = 1/rho, twice the variance"
    )
    mine, other = (unbounded, bounded) if scenario.neighbours == "unbounded" else (bounded, unbounded)
    return [
        f"This scenario's budget speaks of neighbours between which {mine}.",
        f"The same budget could have been meant for neighbours between which {other}. Under bounded neighbours it also "
        "matters whether the reader watches the target's cell alone or both cells that a change would move. The table "
        f"gives the averages under each reading of the budget{f', for the truth {truth}' if truth else ''}.",
    ]


def alternatives(scenario: Scenario, tree: xr.DataTree) -> tuple[PageTable, list[str]]:
    """The same budget and reader under the other neighbours, and why some do not apply."""
    several = isinstance(scenario.adversary, dict)
    heads = ["neighbours", "cells read", *["reader"] * several, "noise variance, level by level (people²)"]
    table = PageTable([*heads, "expected posterior", "ratio", "right guesses"], texts=len(heads) - 1)
    own, notes = (scenario.neighbours, scenario.plan.cells), list[str]()
    if not is_exact(tree):
        notes.append("The rows that are not highlighted come from the exact engine.")
    for neighbours, cells in sorted({*ALTERNATIVES, own}, key=lambda pair: (pair[0] == "bounded", pair[1])):
        used = (neighbours, cells) == own
        try:
            other = scenario if used else scenario.with_neighbours(neighbours, cells)
        except (ValueError, TypeError) as refused:
            cell = "one" if cells == 1 else "both"
            table.add(neighbours, cell, *["–"] * several, "does not apply", "–", "–", "–")
            reason = str(refused).removeprefix(f"{scenario.path}: ")
            notes.append(f"Neighbours {neighbours}, {cell} read: {reason}.")
            continue
        variance = ", ".join(_variances(other))
        for name, one in readers_of(other).items():
            numbers = _averages(tree, name) if used else _computed(other, one)
            if used:
                numbers = [stated(of_reader(tree["risk"].to_dataset(), name), number) for number in numbers]
            cell = "one" if cells == 1 else "both"
            table.add(neighbours, cell, *[name] * several, variance, *numbers, used=used)
    return table, notes


def _variances(scenario: Scenario) -> list[str]:
    """Noise variance of every level of the file, once where it is published several times."""
    by_level = {scenario.origins[level.name]: level.mechanism.variance for level in scenario.plan.levels}
    return [figure_of(variance) for variance in by_level.values()]


def _averages(tree: xr.DataTree, name: str) -> list[str]:
    one = of_reader(tree["risk"].to_dataset(), name)
    posterior, correct = (share(float(one[key])) + error(one, key, 100.0) for key in ("posterior_mean", "prob_correct"))
    return [posterior, figure_of(float(one["ratio_mean"])) + error(one, "ratio_mean"), correct]


def _computed(scenario: Scenario, one: Adversary) -> list[str]:
    truth = settle_truth(scenario.plan, one, scenario.truth)
    law = bayes_factor_law(scenario.plan, one, truth, rng=0, progress=True)
    (correct, unsure), (posterior, spread) = law.prob_correct(), law.posterior_mean()
    invariant = invariant_factor(scenario.plan, one, truth)
    base = float(expit(logit(one.prior) + invariant)) if invariant else 0.0
    ratio, wide = (posterior / base, spread / base) if base else law.ratio_mean()
    return [
        share(posterior) + give_or_take(100.0 * spread),
        figure_of(ratio) + give_or_take(wide),
        share(correct) + give_or_take(100.0 * unsure),
    ]
