"""What a concern about the 2020 Census costs, and what it leaves to a reader: as one JSON object and as tables.

The discrete noise of all counted queries is composed exactly; beside it stand the Gaussian with the same rho, which is
no bound, and what zCDP alone allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adversary._core import as_array, blocks, check_probability, finite, numbers
from adversary.desk.answers.bounds_answer import (
    DELTAS,
    FAILURE,
    LEVELS,
    PRIORS,
    above,
    beliefs,
    share_above,
    show_beliefs,
)
from adversary.desk.kit import add, audit_words, put, table
from adversary.policy.census import SCENARIOS, Cells, CensusScenario, scenario
from adversary.privacy.definitions import GaussianDP, ZeroConcentratedDP, simple_epsilon

DIGITS = 8
"""Significant digits of certified intervals."""


def every_scenario(cells: Cells = 2) -> dict[str, Any]:
    """Concern, number of queries and rho of the scenarios A to H."""
    return {name: _price(scenario(name, cells)) for name in SCENARIOS}


def summary(
    made: CensusScenario,
    priors: Sequence[float] = PRIORS,
    levels: Sequence[float] = LEVELS,
    failure: float = FAILURE,
    deltas: Sequence[float] = DELTAS,
) -> dict[str, Any]:
    """A concern as one JSON object: the queries counted, rho, and what follows.

    `power` holds, for every level, the certified interval of the exact composition, the power of the Gaussian with the
    same rho and the most that zCDP allows (Kifer et al. 2022, Theorem 6.3); `epsilon` the same at every delta, with the
    published simple conversion of zCDP. The rest is as in `bounds.beliefs`.
    """
    check_probability("level", levels)
    check_probability("prior", priors)
    check_probability("failure", failure)
    jobs: dict[str, Callable[[], Any]] = {
        "power": lambda: _powers(made, levels),
        "epsilon": lambda: _epsilons(made, deltas),
        "beliefs": lambda: beliefs(made.loss, priors, failure),
    }
    done = {name: jobs[name]() for name in blocks.track(list(jobs), f"composing {len(made.queries)} queries")}
    return {
        "name": made.name,
        **_price(made),
        "counted": [
            {"level": level, "query": query, "rho_star": str(rho), "cells": cells}
            for level, query, rho, cells in made.queries
        ],
        "power": done["power"],
        "epsilon": done["epsilon"],
        **done["beliefs"],
    }


def _price(made: CensusScenario) -> dict[str, Any]:
    printed = made.published_rho
    return {
        "concern": made.concern,
        "queries": len(made.queries),
        "cells": sum(query.cells for query in made.queries),
        "rho": {"exact": str(made.rho), "value": float(made.rho)},
        "rho_printed": None if printed is None else float(printed),
    }


def _same_rho(made: CensusScenario) -> tuple[GaussianDP, ZeroConcentratedDP]:
    rho = float(made.rho)
    return GaussianDP(float(np.sqrt(2.0 * rho))), ZeroConcentratedDP(rho)


def _powers(made: CensusScenario, levels: Sequence[float]) -> list[dict[str, Any]]:
    a = as_array(levels)
    gaussian, concentrated = _same_rho(made)
    columns = (levels, *made.loss.bracket.power(a), gaussian.power(a), concentrated.power(a))
    return [
        {"level": float(level), "exact": numbers((low, high)), "gaussian": finite(same), "zcdp": finite(most)}
        for level, low, high, same, most in zip(*columns, strict=True)
    ]


def _epsilons(made: CensusScenario, deltas: Sequence[float]) -> list[dict[str, Any]]:
    gaussian, concentrated = _same_rho(made)
    return [
        {
            "delta": float(d),
            "exact": finite(made.loss.epsilon(d)),
            "gaussian": finite(gaussian.epsilon(d)),
            "zcdp": finite(concentrated.epsilon(d)),
            "zcdp_simple": finite(simple_epsilon(concentrated.rho, d)),
        }
        for d in deltas
    ]


def show_every(answer: Mapping[str, Any], console: Console) -> None:
    """`every_scenario` as a table."""
    listed = table("Concerns of Kifer et al. 2022, section 8.2", ["", "concern"], ["queries", "rho", "printed rho"])
    for name, one in answer.items():
        printed = "" if one["rho_printed"] is None else f"{one['rho_printed']:g}"
        add(listed, name, one["concern"], str(one["queries"]), f"{one['rho']['value']:.6f}", printed)
    put(listed, console)
    missed = [name for name, one in answer.items() if _short(one) is not None]
    if missed:
        console.print(
            Text(f"\nPrinted rho: in the paper. Those of {', '.join(missed)} fall short of the sums of its own tables.")
        )


def show(answer: dict[str, Any], console: Console) -> None:
    """A `summary` as tables."""
    rho = answer["rho"]
    kind = "Scenario " * (answer["name"] in SCENARIOS)
    console.print(Text(f"{kind}{answer['name']}: {answer['concern']}", style="bold"))
    counted = f"{answer['queries']} queries counted, {answer['cells']} noisy cells changed"
    console.print(Text(f"{counted}; rho = {' = '.join(dict.fromkeys([rho['exact'], format(rho['value'], '.10g')]))}"))
    if (short := _short(answer)) is not None:
        off = f"{abs(short):.6f} {'less' if short > 0 else 'more'} than the sum of its own tables, which is used here"
        console.print(Text(f"rho printed in the paper: {answer['rho_printed']:g}, {off}"))
    put(_queries(answer), console)
    heads = ["false alarms (level)", "exact composition, certified", "Gaussian, same rho", "zCDP allows"]
    powers = table("Detections by the best test (power)", [], heads)
    for row in answer["power"]:
        add(
            powers, audit_words.percent(row["level"]), _certified(*row["exact"]),
            f"{100.0 * row['gaussian']:#.{DIGITS}g}{audit_words.PERCENT}", share_above(row["zcdp"]),
        )  # fmt: skip
    put(powers, console)
    heads = ["delta", "exact composition", "Gaussian, same rho", "zCDP (tight)", "zCDP (simple)"]
    epsilons = table("Epsilon of approximate DP (upper ends rounded up)", [], heads)
    for row in answer["epsilon"]:
        add(
            epsilons, f"{row['delta']:.15g}", above(row["exact"], DIGITS), above(row["gaussian"], DIGITS),
            above(row["zcdp"]), above(row["zcdp_simple"]),
        )  # fmt: skip
    put(epsilons, console)
    show_beliefs(answer, console)


def _queries(answer: dict[str, Any]) -> Table:
    counted = table("Queries counted", ["level"], ["rho"])
    counted.add_column("queries")
    before = ""
    for level in dict.fromkeys(query["level"] for query in answer["counted"]):
        here = [query for query in answer["counted"] if query["level"] == level]
        rho = sum(Fraction(query["rho_star"]) * query["cells"] / 2 for query in here)
        names = ", ".join(query["query"] for query in here)
        add(counted, level, f"{float(rho):.6f}", "the same" if names == before else names)
        before = names
    return counted


def _certified(low: float, high: float) -> str:
    ends = audit_words.outward(100.0 * low, False, DIGITS), audit_words.outward(100.0 * high, True, DIGITS)
    return f"{ends[0]} to {ends[1]}{audit_words.PERCENT}"


def _short(answer: Mapping[str, Any]) -> float | None:
    """By how much the printed rho falls short, where that is more than its own rounding."""
    printed = answer["rho_printed"]
    if printed is None:
        return None
    exact, digits = Fraction(answer["rho"]["exact"]), len(f"{printed:g}".partition(".")[2])
    return None if float(round(exact, digits)) == printed else float(exact) - printed
