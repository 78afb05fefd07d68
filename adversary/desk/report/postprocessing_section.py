"""The section on post-processing: what is done to the numbers, and what that does to the reader.

What is computed from a release cannot tell more than the release, for a reader whose beliefs are right: the whole raw
release bounds the published one. The raw release of the target's cell alone does not, since adjusting a cell to its
parent mixes the siblings' releases into it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from adversary._core import blocks, figure_of, give_or_take, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, PageTable, as_audited, of_reader, readers_of, source, spread_of, stated
from adversary.desk.report import descriptions
from adversary.driver import TRUTHS, sweep
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan

MEASURES = ("posterior_mean", "ratio_mean", "prob_correct")


def is_processed(plan: Plan) -> bool:
    """Whether anything is done to the numbers after the noise."""
    return plan.postprocessing is not None or any(one.mechanism.steps for one in plan.levels)


def raw(plan: Plan) -> Plan:
    """The plan as it would be if every noisy number were published as it is, the siblings' in sum."""
    levels = tuple(replace(level, mechanism=level.mechanism.noise) for level in plan.levels)
    return Plan(levels, plan.cells, neighbours=plan.neighbours)


def cell_alone(plan: Plan) -> Plan:
    """The raw release of the target's lowest unit, nothing else."""
    lowest = plan.levels[0]
    level = replace(lowest, mechanism=lowest.mechanism.noise, siblings=None)
    return Plan([level], plan.cells, neighbours=plan.neighbours)


def compared(scenario: Scenario, tree: xr.DataTree, reader: Adversary) -> dict[str, xr.Dataset]:
    """Risk under both truths of the cell's raw release alone, of what is published, and of everything raw."""
    plan, lowest = scenario.plan, scenario.plan.names[0]
    beliefs = {name: belief for name, belief in reader.beliefs.items() if name == lowest}
    alone = {name: value for name, value in scenario.truth.items() if name in (lowest, "in")}
    cases = {
        "the cell's raw release alone": (cell_alone(plan), replace(reader, beliefs=beliefs), alone),
        "as published": (plan, reader, scenario.truth),
        "everything raw: the bound": (raw(plan), reader, scenario.truth),
    }
    return {
        name: sweep(*cases[name], **as_audited(scenario, tree), progress=False)
        for name in blocks.track(list(cases), "raw and post-processed")
    }


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report; None where nothing is done to the numbers."""
    if not is_processed(scenario.plan):
        return None
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "release", "expected posterior, in", "expected posterior, out"]
    table = PageTable([*heads, "expected ratio, in", "right guesses, in"], texts=1 + several)
    more: list[str] = []
    for name, reader in readers_of(scenario).items():
        found = compared(scenario, tree, reader)
        risk = of_reader(tree["risk"].to_dataset(), name)
        for what, one in found.items():
            published = what == "as published"
            cells = [stated(risk, cell) if published else cell for cell in _cells(one)]
            table.add(*[name] * several, what, *cells, used=published)
        more.append(_finding(name, found))
    lines = [*source(tree), *descriptions.processing(scenario), _bound_line(scenario)]
    return PageSection("Post-processing", lines, table, notes=[line for line in more if line])


def _cells(one: xr.Dataset) -> list[str]:
    def at(measure: str, truth: str) -> str:
        if not bool(one["possible"].sel(truth=truth)):
            return "not held possible"
        value, error = float(one[measure].sel(truth=truth)), spread_of(one.sel(truth=truth), measure)
        if measure == "ratio_mean":
            return figure_of(value) + give_or_take(error)
        return share(value) + give_or_take(100.0 * error)

    expected = [at("posterior_mean", truth) for truth in TRUTHS]
    return [*expected, at("ratio_mean", "in"), at("prob_correct", "in")]


def _bound_line(scenario: Scenario) -> str:
    mixed = (
        " It can tell more than the raw release of the same cell, because the siblings' releases enter it."
        if scenario.plan.postprocessing is not None
        else ""
    )
    return (
        "What is computed from a release tells no more than the release: for a reader whose beliefs are right, the "
        f"last row bounds the expected posterior with the target in, and every promise still holds.{mixed}"
    )


def _finding(name: str, found: dict[str, xr.Dataset]) -> str:
    """Whether the published numbers tell more or less than the cell's raw release."""
    sides = {what: one["posterior_mean"].sel(truth="in") for what, one in found.items()}
    alone, published, bound = (float(value) for value in sides.values())
    if not (np.isfinite(published) and np.isfinite(alone)):
        return ""
    who = f"For reader {name} the" if name else "The"
    than = "more" if published > alone else "less"
    if abs(published - alone) < 1e-9:
        return ""
    against = f"{share(published)} against {share(alone)}"
    text = f"{who} published numbers tell {than} than the cell's raw release alone: {against}"
    over = published > bound + 1e-9
    return text + (
        f". They take this reader beyond the bound of {share(bound)}, which is for right beliefs: theirs are mistaken "
        "or do not add up to one."
        if over
        else f"; everything raw would tell {share(bound)}."
    )
