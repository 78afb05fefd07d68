"""Further groups of an audit about other plans: fewer releases of a count, raw numbers, other budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import blocks
from adversary.adversaries.path import settle_truth
from adversary.adversaries.plans import NOT_LEVELS, Plan
from adversary.adversaries.postprocessing import Coarsened
from adversary.driver.both_truths import SIDES, possible_truths, risk_by_side
from adversary.driver.case import Bounds, own_loss
from adversary.driver.groups import Alternative, AuditGroup, Question, side_by_side
from adversary.driver.posteriors import Groups
from adversary.privacy.mechanisms import Mechanism

# Multiples of a plan's budget, six to a power of ten.
FACTORS = np.geomspace(0.1, 10.0, 13)

# Simulated releases for a point of a curve: a power of two, for scrambled sequences.
COARSE_DRAWS = 4096


def alternatives_group(question: Question) -> Groups:
    """Group `alternatives` (alternative): risk under other plans, each with its own adversary and truth."""
    if not question.alternatives:
        return {}
    side = "in" if question.truth.target else "out"
    compared = _compared(question, question.alternatives, "alternative", [side]).sel(target=side, drop=True)
    return {"alternatives": compared.drop_vars(["wrong_to_right", "right_to_wrong"], errors="ignore")}


def _compared(
    question: Question, cases: Mapping[Any, Alternative], dim: str, sides: Sequence[str] = SIDES
) -> xr.Dataset:
    """Risk of every case under the truths of `sides`, along a new dim."""
    laws, rows = question.laws, {}
    for key in blocks.track(list(cases), f"risk by {dim}"):
        plan, adversary, truth = cases[key]
        truths = possible_truths(laws, plan, adversary, settle_truth(plan, adversary, truth), sides)
        rows[key] = risk_by_side(laws, plan, adversary, truths, sides)
    return side_by_side(rows, dim)


def repeated_group(question: Question) -> Groups:
    """Group `repeated` (count, releases, target): risk after 1, 2, ... releases of a count that is published again."""
    plan, groups = question.plan, {}
    for start, end in _runs(plan):
        shortened = {
            number: _first_of(plan, question.counts, start, end, number) for number in range(1, end - start + 1)
        }
        cases = {number: (shorter, question.adversary, counts) for number, (shorter, counts) in shortened.items()}
        groups[plan.names[start]] = _compared(question, cases, "releases")
    return {"repeated": side_by_side(groups, "count")} if groups else {}


def queries_group(question: Question) -> Groups:
    """Group `queries` (published, target): risk given the query of the cell alone, and given all of the unit's."""
    plan, adversary, truth = question.plan, question.adversary, question.counts
    alone = plan.without_queries()
    if alone == plan:
        return {}
    own_counts = {name: value for name, value in truth.items() if name in (*alone.names, *NOT_LEVELS)}
    cases = {"one": (alone, adversary, own_counts), "all": (plan, adversary, truth)}
    return {"queries": _compared(question, cases, "published")}


def _runs(plan: Plan) -> Iterator[tuple[int, int]]:
    """Runs of consecutive levels of the same people, as index ranges (start, end) with `end` excluded."""
    start = 0
    for i, level in enumerate(plan.levels):
        if level.siblings != 0:
            if i > start and plan.levels[start].query_of is None:
                yield start, i + 1
            start = i + 1


def _first_of(plan: Plan, truth: Mapping[str, Any], start: int, end: int, number: int) -> tuple[Plan, dict[str, Any]]:
    """Plan and counts with only the first `number` of the levels from `start` to `end`."""
    last, shortened = plan.levels[end - 1], plan.levels[start + number - 1]
    levels = (*plan.levels[: start + number - 1], replace(shortened, siblings=last.siblings), *plan.levels[end:])
    dropped = {level.name for level in plan.levels[start + number : end]}
    counts = {name: value for name, value in truth.items() if name not in dropped}
    if last.name in truth.get("siblings", {}):
        counts["siblings"] = {
            shortened.name if name == last.name else name: each for name, each in truth["siblings"].items()
        }
    return replace_levels(plan, levels), counts


def replace_levels(plan: Plan, levels: Any) -> Plan:
    """Plan with other levels, and without post-processing across levels."""
    return replace(plan, levels=tuple(levels), postprocessing=None)


def is_processed(plan: Plan) -> bool:
    """True if numbers are post-processed, each alone (rounded, clamped) or across levels."""
    return plan.postprocessing is not None or any(isinstance(one.mechanism, Coarsened) for one in plan.levels)


def _raw(mechanism: Mechanism) -> Mechanism:
    """The mechanism without rounding or clamping."""
    return mechanism.noise if isinstance(mechanism, Coarsened) else mechanism


def postprocessing_group(question: Question) -> Groups:
    """Group `postprocessing` (published, target): risk of the cell's raw release, as published, and of everything raw.

    What is computed from a release reveals no more than the release, to an adversary whose beliefs are right: "raw"
    bounds "published". The raw release of the target's cell alone does not, since adjusting a cell to its parent mixes
    the siblings' releases into it.
    """
    plan, adversary, truth = question.plan, question.adversary, question.counts
    if not is_processed(plan):
        return {}
    lowest = plan.levels[plan.own]
    alone = replace_levels(plan, [replace(lowest, mechanism=_raw(lowest.mechanism), siblings=None)])
    raw = replace_levels(plan, [replace(level, mechanism=_raw(level.mechanism)) for level in plan.levels])
    beliefs = {name: belief for name, belief in adversary.beliefs.items() if name == lowest.name}
    own_counts = {name: value for name, value in truth.items() if name in (lowest.name, "in")}
    cases: dict[str, Alternative] = {
        "cell": (alone, replace(adversary, beliefs=beliefs), own_counts),
        "published": (plan, adversary, truth),
        "raw": (raw, adversary, truth),
    }
    return {"postprocessing": _compared(question, cases, "published")}


def budgets_group(question: Question) -> Groups:
    """Group `budgets` (budget): expected posterior, and bound of the plan's own loss, at multiples of its budget.

    Absent if a level has noise without a budget, or with one that cannot be scaled.
    """
    laws, plan, adversary = question.laws, question.plan, question.adversary
    if not np.isfinite(total := plan.total_rho):
        return {}
    try:
        plans = [plan.scaled(float(factor)) for factor in FACTORS]
    except ValueError:
        return {}
    means, limit = [], np.empty(FACTORS.size)
    for i in blocks.track(range(FACTORS.size), "budgets"):
        scaled = plans[i]
        law = laws.of(scaled, adversary, question.truth, draws=min(laws.draws, COARSE_DRAWS), coarse=True)
        means.append(law.posterior_mean()[0])
        bounds = Bounds.of(scaled, adversary, question.failure)
        limit[i] = bounds.limit(own_loss(scaled, bounds.count_shift))[1]
    estimate = {"direction": "estimate"}
    return {
        "budgets": xr.Dataset(
            {
                "posterior_mean": (("budget", *law.dims), np.array(means), estimate),
                "loss_bound": ("budget", limit, {"direction": "upper"}),
            },
            {"budget": FACTORS, "rho": ("budget", FACTORS * total)},
        )
    }


GROUPS = {
    "alternatives": AuditGroup("What else the same budget could mean", alternatives_group, given=True),
    "queries": AuditGroup("One query and all", queries_group, shown=True),
    "repeated": AuditGroup("Repeated releases", repeated_group),
    "postprocessing": AuditGroup("Post-processing", postprocessing_group),
    "budgets": AuditGroup("Other budgets", budgets_group),
}
"""Further groups of an audit, about other plans, by name."""
