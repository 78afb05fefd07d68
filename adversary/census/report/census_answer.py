"""Answer about a scenario of the 2020 Census: queries that change, rho, power of tests, epsilon, bounds on beliefs.

The discrete noise of all these queries is composed exactly. For comparison: the Gaussian with the same rho, which is no
bound, and the bounds of zCDP alone (Kifer et al. 2022, Theorem 6.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    DEFAULT_FAILURE,
    as_array,
    blocks,
    check_probability,
    format_number,
    percentage,
    those_tied,
    tied,
)
from adversary.census.concerns import SCENARIOS, Cells, CensusScenario, scenario
from adversary.privacy.definitions import GaussianDP, ZeroConcentratedDP, mu_of_rho, simple_epsilon
from adversary.report.answers import bounds_answer
from adversary.report.kit import Column, Document, Section, Summary, Table, attempt, guarded_document, tabulate


def solve_every(cells: Cells = 2) -> xr.DataTree:
    """Answer about the scenarios A to H: group `scenarios`, from `prices`.

    cells : number of changed cells of a query, as for `scenario`
    """
    tree = xr.DataTree.from_dict({"scenarios": prices([scenario(name, cells) for name in SCENARIOS])})
    return Summary("Concerns about the 2020 Census (Kifer et al. 2022, section 8.2)", ("scenarios",)).on(tree)


def prices(scenarios: Sequence[CensusScenario]) -> xr.Dataset:
    """Dataset over "scenario": number of queries and changed cells, rho, exact rho as text, and rho as printed."""
    columns = {
        "concern": [one.concern for one in scenarios],
        "queries": [len(one.queries) for one in scenarios],
        "cells": [sum(query.cells for query in one.queries) for one in scenarios],
        "rho": [float(one.rho) for one in scenarios],
        "rho_exact": [str(one.rho) for one in scenarios],
        "rho_printed": [np.nan if one.published_rho is None else float(one.published_rho) for one in scenarios],
    }
    return xr.Dataset(
        {name: ("scenario", np.array(column)) for name, column in columns.items()},
        {"scenario": [one.name for one in scenarios]},
    )


def solve(
    census_scenario: CensusScenario,
    priors: Sequence[float] = bounds_answer.PRIORS,
    levels: Sequence[float] = bounds_answer.LEVELS,
    failure: float = DEFAULT_FAILURE,
    deltas: Sequence[float] = bounds_answer.DELTAS,
) -> xr.DataTree:
    """Answer about one scenario: the groups of `bounds_answer.solve`, `scenarios` (one) and `queries`.

    Power and epsilon are given for the exact composition (certified), the Gaussian with the same rho, and zCDP.

    Parameters
    ----------
    census_scenario : the scenario
    priors : prior probabilities of the adversary
    levels : false alarm rates of tests
    failure : failure probability of the bounds on beliefs, over releases
    deltas : deltas at which epsilon is given

    Returns
    -------
    DataTree
    """
    check_probability("level", levels)
    check_probability("prior", priors)
    check_probability("failure", failure)
    jobs: dict[str, Callable[[], Any]] = {
        "tests": lambda: _powers(census_scenario, levels),
        "epsilon": lambda: _epsilons(census_scenario, deltas),
        "beliefs": lambda: bounds_answer.beliefs(census_scenario.loss, priors, failure),
    }
    solved = {
        name: jobs[name]() for name in blocks.track(list(jobs), f"composing {len(census_scenario.queries)} queries")
    }
    groups = {
        "scenarios": prices([census_scenario]),
        "queries": _queries(census_scenario),
        **solved,
        **solved.pop("beliefs"),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(
        concern=census_scenario.concern, rho=str(census_scenario.rho), failure=groups["beliefs"].attrs["failure"]
    )
    title = f"{'Scenario ' * (census_scenario.name in SCENARIOS)}{census_scenario.name}: {census_scenario.concern}"
    listed = ("scenarios", "queries", "tests", "epsilon", "beliefs", "any_prior")
    return Summary(title, listed, bounds_answer.verdict(groups["beliefs"])).on(tree)


def _queries(census_scenario: CensusScenario) -> xr.Dataset:
    """Dataset of a scenario's queries, numbered from 0: `level`, `name`, `rho_star` as text, and number of `cells`."""
    queries = list(census_scenario.queries)
    words = {"level": [one.level for one in queries], "name": [one.query for one in queries]}
    words["rho_star"] = [str(one.rho_star) for one in queries]
    columns = {name: np.array(column, dtype=str) for name, column in words.items()}
    columns["cells"] = np.array([one.cells for one in queries], dtype=int)
    return xr.Dataset({name: ("query", column) for name, column in columns.items()}, {"query": np.arange(len(queries))})


def _same_rho(census_scenario: CensusScenario) -> tuple[GaussianDP, ZeroConcentratedDP]:
    """Gaussian DP and zCDP with the rho of a scenario."""
    rho = float(census_scenario.rho)
    return GaussianDP(mu_of_rho(rho)), ZeroConcentratedDP(rho)


def _powers(census_scenario: CensusScenario, levels: Sequence[float]) -> xr.Dataset:
    """Dataset over "level" of the power of tests: exact composition, Gaussian, zCDP."""
    a = as_array(levels)
    gaussian, concentrated = _same_rho(census_scenario)
    powers = {
        "power": (("level", "side"), np.transpose(census_scenario.loss.bracket.power(a))),
        "gaussian_power": ("level", as_array(gaussian.power(a)), {"direction": "estimate"}),
        "zcdp_power": ("level", as_array(concentrated.power(a)), {"direction": "upper"}),
    }
    return xr.Dataset(powers, {"level": a, "side": bounds_answer.SIDES})


def _epsilons(census_scenario: CensusScenario, deltas: Sequence[float]) -> xr.Dataset:
    """Dataset over "delta" of epsilon: exact composition, Gaussian, zCDP."""
    gaussian, concentrated = _same_rho(census_scenario)
    above = {"direction": "upper"}
    epsilons = {
        "epsilon": ("delta", np.array([census_scenario.loss.epsilon(d) for d in deltas]), above),
        "gaussian_epsilon": ("delta", np.array([gaussian.epsilon(d) for d in deltas]), {"direction": "estimate"}),
        "zcdp_epsilon": ("delta", np.array([concentrated.epsilon(d) for d in deltas]), above),
        "simple_epsilon": ("delta", np.array([simple_epsilon(concentrated.rho, d) for d in deltas]), above),
    }
    return xr.Dataset(epsilons, {"delta": list(deltas)})


@guarded_document
def document_of_every(tree: xr.DataTree) -> Document:
    """Document from the tree of `solve_every`."""
    scenarios = tree["scenarios"].to_dataset()
    columns = {
        "scenario": "scenario", "concern": "concern", "queries": ("queries", "count"), "rho": ("rho", "number"),
        "rho_printed": ("printed rho", "parameter"),
    }  # fmt: skip
    table = tabulate(scenarios, columns, name="scenarios")
    short = [str(name) for name in scenarios["scenario"].values if _shortfall(scenarios.sel(scenario=name)) is not None]
    ends = [tied(scenarios["rho"].values, largest=largest) for largest in (False, True)]
    least, most = (
        those_tied([str(x) for x in scenarios["scenario"].values[end]], end.size, "scenarios") for end in ends
    )
    remark = (
        f"The printed rho of {', '.join(short)} is less than the sum of the paper's own tables, which is used here."
    )
    return Document(
        tree,
        sections=[
            Section(
                "Scenarios",
                f"Least rho: scenario {least}; most: {most}.",
                tables=[table],
                notes=[remark] * bool(short),
            )
        ],
    )


@guarded_document
def document(census_scenario: CensusScenario, tree: xr.DataTree) -> Document:
    """Document from the scenario and the tree of `solve`."""
    rho, chance = float(census_scenario.rho), float(tree.attrs["failure"])
    ladder = {"rho": rho, "guarantees": {"exact composition": census_scenario.loss}}
    losses = {"exact composition": census_scenario.loss, "zCDP": ZeroConcentratedDP(rho)}
    tests, epsilon = tree["tests"].to_dataset(), tree["epsilon"].to_dataset()
    powers, epsilons = _power_table(tests), bounds_answer.epsilon_table(epsilon, HEADS)
    middle_level, (_, most), _, allowed = powers.rows[len(powers.rows) // 2]
    zcdp_remarks = (
        f"; zCDP alone would allow {percentage(allowed, True)}",
        f"; the tight conversion of zCDP gives {epsilons.texts[-1][3]}",
    )
    return Document(
        tree,
        card=bounds_answer.card(
            tree,
            bounds_answer.certain(census_scenario.loss, chance),
            (middle_level, most),
            tuple(epsilons.rows[-1][:2]),
        ),
        lead=[_cost(tree), bounds_answer.LEAD.format(person="person")],
        sections=[
            attempt(bounds_answer.BELIEFS, bounds_answer.belief_section, tree),
            *bounds_answer.noise_sections(powers, epsilons, (middle_level, most), losses, ladder, zcdp_remarks),
            attempt("Queries counted", _query_section, census_scenario),
        ],
    )


def _cost(tree: xr.DataTree) -> str:
    """Sentence with queries, cells and rho, and the printed rho if it differs from the sum of the paper's tables."""
    one = tree["scenarios"].to_dataset().isel(scenario=0)
    rho = format_number(float(one["rho"]))
    counted = (
        f"{int(one['queries'])} queries are counted, in which {int(one['cells'])} noisy cells change; rho = {rho}."
    )
    short = _shortfall(one)
    if short is None:
        return counted
    side = "less" if short > 0 else "more"
    by = f"{format_number(abs(short))} {side} than the sum of its own tables, which is used here"
    return f"{counted} The paper prints rho = {float(one['rho_printed']):g}, {by}."


def _shortfall(one: xr.Dataset) -> float | None:
    """Exact minus printed rho; None if the difference is rounding, or nothing is printed."""
    printed = float(one["rho_printed"])
    if np.isnan(printed):
        return None
    exact, digits = Fraction(str(one["rho_exact"].values)), len(f"{printed:g}".partition(".")[2])
    return None if float(round(exact, digits)) == printed else float(exact) - printed


def _power_table(tests: xr.Dataset) -> Table:
    """Table of the power of tests."""
    columns = {
        "level": ("false alarms", "probability"), "power": ("exact composition, certified", "% certified"),
        "gaussian_power": ("Gaussian, same rho", "probability"), "zcdp_power": ("zCDP allows", "% at most"),
    }  # fmt: skip
    return tabulate(tests, columns, title="Detections of the best test (power)", name="tests")


HEADS = {
    "epsilon": "exact composition", "gaussian_epsilon": "Gaussian, same rho", "zcdp_epsilon": "zCDP (tight)",
    "simple_epsilon": "zCDP (simple)",
}  # fmt: skip


def _query_section(census_scenario: CensusScenario) -> Section:
    """Section with the levels, their queries that change, and the rho of these."""
    table = Table(["level", Column("rho", "number"), "queries"], name="queries")
    previous = ""
    for level in dict.fromkeys(one.level for one in census_scenario.queries):
        queries = [one for one in census_scenario.queries if one.level == level]
        names = ", ".join(one.query for one in queries)
        table.add(
            level,
            float(sum(one.rho_star * one.cells / 2 for one in queries)),
            "the same" if names == previous else names,
        )
        previous = names
    rho = [float(row[1]) for row in table.rows]
    most = [str(row[0]) for row, one in zip(table.rows, tied(rho), strict=True) if one]
    finding = f"Most rho is spent at {those_tied(most, len(rho), 'levels')}: {format_number(max(rho))}." if rho else ""
    return Section("Queries counted", finding, tables=[table])
