"""Parts of an audit for tables and sentences: groups of one adversary or truth, statuses, and budgets in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    DIGITS,
    format_bound,
    format_interval,
    format_number,
    give_or_take,
    join_words,
    outward_percent,
    percentage,
)
from adversary.adversaries.plans import Plan
from adversary.budget import RiskProfile, largest_tolerated_factor, own_verdict
from adversary.driver import UNRELIABLE as UNRELIABLE
from adversary.driver import group_name, with_posteriors
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
from adversary.privacy.mechanisms import Mechanism
from adversary.report.files import Scenario

STATUS = {
    "holds": "holds",
    "exceeded": "exceeded: this adversary's beliefs are mistaken or improper; the guarantee is true",
    "violated": "violated: the guarantee is false; the plan's own privacy loss exceeds it",
    "unreliable": "unreliable: some posteriors could not be sampled, so that this cannot be judged",
}
"""Statuses of a bound, with their meanings."""


# Columns of `both_targets`.
AVERAGES = {
    "in": ("expected posterior, in", "probability"),
    "out": ("expected posterior, out", "probability"),
    "ratio": ("expected ratio, in", "number"),
}

# Shown instead of an average under a truth that the adversary excludes.
RULED_OUT = {None: "ruled out"}


def group(tree: xr.DataTree, name: str) -> xr.Dataset | None:
    """Group of an audit as a Dataset; None if it has no such group."""
    return tree[name].to_dataset() if name in tree.children else None


def joined(risk: xr.Dataset, **arrays: tuple[xr.Dataset | None, str]) -> xr.Dataset:
    """Dataset of arrays from several groups, under new names, with their errors.

    Parameters
    ----------
    risk : group `risk`, whose adversaries the result has
    **arrays : (group, name of its array) by new name; NaN if the group is None or lacks an adversary
    """
    variables: dict[str, Any] = {}
    errors: dict[str, xr.DataArray] = {}
    for new, (one, name) in arrays.items():
        if one is None:
            variables[new] = np.nan
            continue
        if "adversary" in one.dims:
            one = one.reindex(adversary=risk["adversary"])
        variables[new] = one[name]
        if "mcse" in one and name in one["measure"].values:
            errors[new] = one["mcse"].sel(measure=name, drop=True).fillna(0.0)
    made = xr.Dataset(variables)
    return made.assign(mcse=xr.Dataset(errors).to_dataarray("measure")) if errors else made


def both_targets(risk: xr.Dataset, one: xr.Dataset, **more: tuple[xr.Dataset | None, str]) -> xr.Dataset:
    """Dataset of a group's averages with the target in and out, under the names of `AVERAGES`, and more as `joined`.

    Parameters
    ----------
    risk : group `risk`, whose adversaries the result has
    one : group with dim target
    **more : further arrays, as for `joined`
    """
    inside, outside = (one.sel(target=side, drop=True) for side in ("in", "out"))
    mean = {"in": (inside, "posterior_mean"), "out": (outside, "posterior_mean"), "ratio": (inside, "ratio_mean")}
    return joined(risk, **mean, **more)


def group_of_adversary(data: xr.Dataset, name: str) -> xr.Dataset:
    """Group of an audit for one adversary, with posteriors if it has only log Bayes factors.

    Parameters
    ----------
    data : group of an audit, with dim `adversary` if there are several
    name : of the adversary
    """
    return with_posteriors(data.sel(adversary=name, drop=True) if "adversary" in data.dims else data)


def truths(scenario: Scenario) -> dict[str, Scenario]:
    """Scenarios with one truth each, by the truth's name; a single truth has the name ""."""
    if "truths" not in scenario.document:
        return {"": scenario}
    scenarios = {}
    for name, truth in scenario.truth.items():
        document = {key: value for key, value in scenario.document.items() if key != "truths"}
        document = {**document, "truth": scenario.document["truths"][name]}
        scenarios[str(name)] = replace(scenario, truth=truth, document=document)
    return scenarios


def cases(scenario: Scenario, tree: xr.DataTree) -> list[tuple[str, Scenario, xr.DataTree]]:
    """(name, scenario, audit) of every truth; a single truth has the name ""."""
    listed = []
    for name, one in truths(scenario).items():
        if not name:
            return [("", scenario, tree)]
        groups = {group: node.to_dataset() for group, node in tree.children.items()}
        parts = {group: data.sel(truth=name) if "truth" in data.dims else data for group, data in groups.items()}
        swept = {}
        if "sensitivity" in tree.children:
            swept["sensitivity"] = tree.children["sensitivity"].children[group_name(name)]
        part = xr.DataTree.from_dict({group: xr.DataTree(data) for group, data in parts.items()} | swept)
        part.attrs.update(tree.attrs)
        listed.append((name, one, part))
    return listed


def warnings(tree: xr.DataTree) -> list[str]:
    """Warnings about the averages of an audit."""
    return [str(line) for line in json.loads(tree.attrs.get("warnings", "[]"))]


def is_unlimited(bound: xr.Dataset) -> bool:
    """True if no guarantee, nor the noise's own loss, excludes any posterior."""
    return bool(np.isinf(bound["loss_bound"]).all())


def unreliable(risk: xr.Dataset) -> bool:
    """True if the sampler's diagnostics failed, so that an adversary's averages must not be reported."""
    return "status" in risk and bool((risk["status"] == UNRELIABLE).any())


def error(risk: xr.Dataset, measure: str, unit: float = 1.0) -> str:
    """Standard error of one of an adversary's averages, as text to follow it; "" if it is exact."""
    return give_or_take(unit * float(risk["mcse"].sel(measure=measure))) if "mcse" in risk else ""


def bound_name(shown: xr.Dataset) -> str:
    """Names of the definitions whose bounds `shown_bound` chose, joined by "or"."""
    return join_words(list(dict.fromkeys(definition_words(str(name)) for name in np.ravel(shown["definition"]))), "or")


def may_fail(failure: float) -> str:
    """Sentence, to follow others, on the probability with which a bound fails; "" if it is certain."""
    return f" The bound holds in all but {percentage(failure, True)} of releases." if failure else ""


def nine_in_ten(risk: xr.Dataset, digits: int = DIGITS, most: float = 1.0) -> str:
    """Central 90% interval of an adversary's posterior over releases, the ends rounded outward as in the table.

    Fewer `digits` than those of the table are too few where the upper end would be written beyond its bound `most`.
    """
    low, high = (float(risk["posterior_quantile"][i]) for i in (0, -1))
    limit = np.inf if high > most else float(outward_percent(most, True))
    enough = (n for n in range(digits, DIGITS) if float(outward_percent(high, True, n)) <= limit)
    return format_interval(low, high, percent=True, digits=next(enough, DIGITS))


def budget_words(
    noises: Iterable[tuple[str, Mechanism]], unit: PrivacyUnit | None = None, contribution: float = 1
) -> str:
    """Budget of a plan in words: its total, and its shares by level; "" if no noise has a budget.

    Parameters
    ----------
    noises : (level, its noise), one for each publication; exact levels have no budget
    unit : privacy unit, for the number of counts of a level that one unit changes; 1 if not given
    contribution : largest change of each of these counts by one unit

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> budget_words((name, DiscreteGaussian.from_rho(0.1 / 3)) for name in ("block", "group", "tract"))
    'rho 0.1 in all: 0.0333 at each of 3 levels'
    """
    spent = _budgets(noises, unit, contribution)
    return "; ".join(_divided(name, levels) for name, levels in spent.items())


def _budgets(
    noises: Iterable[tuple[str, Mechanism]], unit: PrivacyUnit | None, contribution: float
) -> dict[str, dict[str, list[float]]]:
    """Budgets spent: by parameter ("rho", "epsilon"), then by level, one for each publication."""
    spent: dict[str, dict[str, list[float]]] = {}
    for level, noise in noises:
        for name, x in {} if noise.is_exact else _nominal(noise, contribution).budget.items():
            counts = 1 if unit is None else unit.cells if noise.is_local else unit.changed_cells
            spent.setdefault(name, {}).setdefault(level, []).append(counts * float(x))
    return spent


def remedy(plan: Plan, profile: RiskProfile, failure: float, statistic: str, releases: int = 1) -> str:
    """Remedy for a plan whose noise does not satisfy a risk profile: the budget that would, or the input to change.

    Parameters
    ----------
    plan : whose noise does not satisfy the profile
    profile, failure, statistic : by which it was judged
    releases : number of equal releases that the levels of the plan are; the budget is of one release

    Returns
    -------
    str, a sentence; its number is rounded down, so that it keeps the profile.

    >>> from adversary.adversaries.plans import Level
    >>> from adversary.privacy.mechanisms import Geometric
    >>> remedy(Plan([Level("block", Geometric(0.5))]), RiskProfile.difference(0.2), 0.05, "any")
    'Noise of epsilon 0.405 would keep it.'
    """
    if not own_verdict(plan, profile, failure, statistic).allowed > 0.0:
        return "No noise keeps it: let profile tolerate more."
    factor = largest_tolerated_factor(plan, profile, failure, statistic=statistic)
    if not (factor > 0.0 and np.isfinite(plan.total_rho)):
        return "No budget is known that would keep it: choose other noise in plan, or let profile tolerate more."
    wider = plan.scaled(factor)
    spent = _budgets([(one.name, one.mechanism) for one in wider.levels], wider.privacy_unit, wider.contribution)
    # rho, unless all noise has epsilon: noises of two kinds have no sum of epsilons
    name, total = "rho", wider.total_rho
    if len(spent) == 1 and "epsilon" in spent:
        name, total = "epsilon", sum(map(sum, spent["epsilon"].values()))
    several = " in all" * (sum(not one.is_exact for one in wider.levels) > releases)
    each = f" in each of {releases:,} releases" * (releases > 1)
    return f"Noise of {name} {format_bound(total / releases, False)}{several}{each} would keep it."


def _nominal(noise: Mechanism, change: float) -> Guarantee:
    """Nominal guarantee of one noisy number, by the parameter of its noise, for a change of that size."""
    single = noise.nominal_guarantee
    if change == 1 or noise.is_local:
        return single
    if isinstance(single, PureDP):
        return PureDP(noise.privacy_loss(change, 1).loss_bound(0.0))
    return ZeroConcentratedDP(noise.rho(change)) if isinstance(single, ZeroConcentratedDP) else single


def _divided(unit: str, levels: Mapping[str, list[float]]) -> str:
    """Budget of one parameter in words: the total and its shares, of each level or one for all equal ones."""
    shares = [_share(level, every) for level, every in levels.items()]
    alike = {_budget_number(x) for every in levels.values() for x in every}
    if len(levels) > 1 and len(alike) == 1 and all(len(every) == 1 for every in levels.values()):
        shares = [f"{alike.pop()} at each of {len(levels)} levels"]
    total = _budget_number(sum(map(sum, levels.values())))
    return (
        f"{unit} {shares[0]}" if sum(map(len, levels.values())) == 1 else f"{unit} {total} in all: {join_words(shares)}"
    )


def _share(level: str, every: list[float]) -> str:
    """Share of one level in words, from the budgets of its publications."""
    alike = {_budget_number(x) for x in every}
    if len(every) > 1 and len(alike) == 1:
        return f"{alike.pop()} in each of {len(every)} releases of the {level}"
    return f"{_budget_number(sum(every))} at the {level}"


def _budget_number(x: float) -> str:
    """Budget as text: in full if that is short, as it was given; else with three digits."""
    text = f"{x:.12g}"
    return text if len(text) <= SHORT else format_number(x)


# Characters of a budget that is written in full.
SHORT = 7


def definition_words(name: str) -> str:
    """Name of a definition in a sentence."""
    return "the plan's own loss" if name == "privacy loss" else name


# Interpretations of a budget: neighbour relation, and number of cells that the adversary reads.
READINGS = (("unbounded", 1), ("bounded", 1), ("bounded", 2))


def readings(scenario: Scenario) -> tuple[dict[str, Scenario], list[str]]:
    """(the scenario under every other interpretation of its budget, by name; reasons for those that do not apply)."""
    scenarios: dict[str, Scenario] = {}
    refused: list[str] = []
    if scenario.is_local:
        # for a unit's own answer both neighbour relations are the same
        return scenarios, refused
    for neighbours, cells in READINGS:
        name = reading(neighbours, cells)
        if (neighbours, cells) == (scenario.neighbours, scenario.plan.cells):
            continue
        try:
            scenarios[name] = scenario.with_neighbours(neighbours, cells)
        except (ValueError, TypeError):
            refused.append(f"{name}, {_unfit(scenario, cells)}")
    return scenarios, refused


def _unfit(scenario: Scenario, cells: int) -> str:
    """Reason, as a clause, why an interpretation of the budget does not apply to a scenario."""
    if cells == 1:
        return "because the scenario's noise, counts or beliefs do not fit it"
    attack = next((one.attack for one in scenario.adversaries.values() if one.attack != "characteristics"), None)
    if attack is not None:
        return f"because a {attack} attack asks about a single cell"
    if scenario.plan.postprocessing is not None:
        return "because the post-processing is of a single cell"
    return "because the scenario describes a single cell"


def reading(neighbours: str, cells: int) -> str:
    """Name of an interpretation of the budget."""
    return f"{neighbours}, {'one cell' if cells == 1 else 'both cells'} read"


def budget(scenario: Scenario) -> str:
    """Budget of a scenario's plan in words: its total, and at each level of the file; "" if its noise has none."""
    levels = [(scenario.origins[level.name], level.mechanism) for level in scenario.plan.levels]
    return budget_words(levels, scenario.plan.privacy_unit, scenario.plan.contribution)
