"""The section on sensitivity: how far the answers move with prior, budget, siblings and beliefs, under both truths.

Every input is gone over alone, all others as they are in the file. Of several readers the first is the one whose inputs
move.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.text import Text

from adversary._core import figure_of, finite, give_or_take, share
from adversary.desk.files import Ranges, Scenario
from adversary.desk.kit import (
    FOR_GROUPS,
    SWEPT_DRAWS,
    PageSection,
    PageTable,
    add,
    as_audited,
    readers_of,
    safe_names,
    show_warnings,
    shown,
    source,
    spread_of,
    table,
)
from adversary.desk.report import descriptions
from adversary.driver import TRUTHS, base_and_sweeps, extremes, sweep
from adversary.reader.plans import Plan
from adversary.reader.risk import cautions

SMOOTH = {"prior": "priors", "rho": "budgets, every level with the same factor"}
"""Inputs of which a fan is drawn between the ends of what the file asks for."""
HEADS = (
    "expected posterior, in",
    "expected posterior, out",
    "expected ratio, in",
    "right guesses, in",
    "right guesses, out",
)
FAN = ("posterior_mean", "ratio_mean", "posterior_quantile", "ratio_quantile")
"""What a fan draws."""
MOVED = 0.005
"""A change of an expected posterior below this is called small."""


@dataclass(frozen=True)
class SweepResult:
    """What a scenario's [sensitivity] asks for, gone over.

    Parameters
    ----------
    scenario : with one truth
    reader : name of the reader whose inputs move
    base : risk under both truths, everything as it is
    swept : a sweep over each input alone, by dim
    """

    scenario: Scenario
    reader: str
    base: xr.Dataset
    swept: dict[str, xr.Dataset]

    @cached_property
    def extremes(self) -> xr.Dataset:
        """What a tornado draws."""
        return extremes(self.base, self.swept)

    def rows(self) -> Iterator[tuple[str, Any, xr.Dataset]]:
        """(input, value, risk by truth), first everything as it is."""
        yield "", None, self.base
        for dim, one in self.swept.items():
            for value in one[dim].values:
                yield dim, value.item() if hasattr(value, "item") else value, one.sel({dim: value})

    def smooth(self, dim: str) -> xr.Dataset:
        """A denser sweep over prior or rho, between the ends of what the file asks for.

        The file's own values, and the scenario's where it lies between them, are among the points: from the laws of
        the table, while those in between may be from fewer simulated releases.
        """
        ends = self.swept[dim][dim].values
        if ends.size < 2:
            raise ValueError(f"a fan needs two values of {dim} at least, got {ends.tolist()}")
        kept = self.swept[dim].sel({dim: ends > 0.0})
        base = self.own(dim)
        exact = [kept]
        if ends.min() <= base <= ends.max() and not np.isclose(kept[dim].values, base, rtol=1e-9, atol=0.0).any():
            exact.append(self.base.expand_dims({dim: [base]}))
        values = np.geomspace(max(ends.min(), 1e-6), ends.max(), _points(dim, self.scenario.plan))
        known = np.concatenate([one[dim].values for one in exact])
        values = values[[not np.isclose(value, known, rtol=1e-3, atol=0.0).any() for value in values]]
        reader, given = readers_of(self.scenario)[self.reader], {dim: values}
        plan, truth = self.scenario.plan, self.scenario.truth
        between = sweep(plan, reader, truth, **given, draws=SWEPT_DRAWS, rng=0, coarse=True)  # type: ignore[arg-type]
        parts = [one[list(FAN)].drop_vars("budget", errors="ignore") for one in (between, *exact)]
        return xr.concat(parts, dim).sortby(dim).assign_attrs(self.base.attrs)

    def own(self, dim: str) -> float:
        """The scenario's own prior or budget."""
        return float(self.base.attrs[f"base_{dim}"])


def _points(dim: str, plan: Plan) -> int:
    """Points of a fan: many along priors, which share a law; few along budgets of a plan of many levels."""
    return 41 if dim == "prior" else 21 if len(plan.levels) < 3 else 9


def run_sweeps(scenario: Scenario, tree: xr.DataTree | None = None, *, progress: bool = True) -> SweepResult:
    """The sweeps a scenario of one truth asks for; where laws are simulated, from the releases of its audit if given.

    Raises
    ------
    ValueError : the file asks for none
    """
    if scenario.sensitivity is None:
        raise ValueError(
            f"{scenario.path}: sensitivity: is required to go over anything (a table with prior, rho, siblings or "
            "beliefs), and missing"
        )
    ranges: Ranges = scenario.sensitivity
    name = next(iter(readers_of(scenario)))
    reader = readers_of(scenario)[name]
    drawn = {"draws": SWEPT_DRAWS, "rng": 0} if tree is None else as_audited(scenario, tree)
    base, swept = base_and_sweeps(scenario.plan, reader, scenario.truth, **ranges.given, **drawn, progress=progress)
    return SweepResult(scenario, name, base, swept)


def figures_of(gone: SweepResult) -> dict[str, tuple[Callable[[], Any], str]]:
    """Every figure by name: how to draw it, and its caption."""
    from adversary.desk.figures import tornado

    whose = f" of reader {gone.reader}" if gone.reader else ""
    drawn: dict[str, tuple[Callable[[], Any], str]] = {
        "tornado": (
            partial(tornado.tornado, gone.extremes),
            f"How far the expected posterior{whose} moves as one input goes over its values, all others as they are. "
            "Ends are labelled with the input's value there.",
        )
    }
    for dim, what in SMOOTH.items():
        if dim in gone.swept and gone.swept[dim].sizes[dim] > 1:
            drawn[f"fan_{dim}"] = (partial(_fan, gone, dim), f"What releases do to the reader{whose} at other {what}.")
    return drawn


def _fan(gone: SweepResult, dim: str) -> Any:
    from adversary.desk.figures import tornado

    return tornado.fan(gone.smooth(dim), dim, own=gone.own(dim))


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report; None where the file asks for none."""
    if scenario.sensitivity is None:
        return None
    gone = run_sweeps(scenario, tree)
    rows = PageTable(["input", "value", *HEADS], texts=2)
    for dim, value, risk in gone.rows():
        rows.add(*named(dim, value), *cells(risk), used=not dim)
    whose = f" Reader {gone.reader}'s inputs move." if gone.reader else ""
    lines = [
        *source(tree),
        f"What if the reader, or the plan, were otherwise? One input moves at a time, all others as they "
        f"are; the target is truly in, or truly out.{whose}",
    ]
    figures = [shown(draw, text) for draw, text in figures_of(gone).values()]
    return PageSection("Sensitivity", lines, rows, notes=[*sibling_lines(gone), *belief_lines(gone)], figures=figures)


def named(dim: str, value: Any) -> tuple[str, str]:
    """An input and its value in words."""
    if not dim:
        return "as it is", ""
    from adversary.desk.figures import INPUTS, input_value

    return INPUTS.get(dim, dim), input_value(dim, str(value))


def cells(risk: xr.Dataset) -> list[str]:
    """One row: expected posterior, ratio and right guesses under both truths."""

    def at(measure: str, truth: str, say: Callable[[float], str]) -> str:
        if not bool(risk["possible"].sel(truth=truth)):
            return "not possible"
        error = spread_of(risk.sel(truth=truth), measure)
        return say(float(risk[measure].sel(truth=truth))) + give_or_take(error * (100.0 if say is share else 1.0))

    return [
        *(at("posterior_mean", truth, share) for truth in TRUTHS),
        at("ratio_mean", "in", figure_of),
        *(at("prob_correct", truth, share) for truth in TRUTHS),
    ]


def sibling_lines(gone: SweepResult) -> Iterator[str]:
    """What a sweep over siblings leaves as it is."""
    if any(dim.startswith("siblings") for dim in gone.swept):
        yield (
            "Another number of siblings changes what is published beside the unit, and nothing else: the beliefs stay "
            "as the file has them, also those about the people of all siblings together (a total, or an exposure)."
        )


def belief_lines(gone: SweepResult) -> Iterator[str]:
    """What each belief does beside the reader's own: one sentence for each, always of both truths."""
    if "beliefs" not in gone.swept:
        return
    swept = gone.swept["beliefs"]
    for name in swept["beliefs"].values:
        yield belief_line(str(name), gone.base, swept.sel(beliefs=name))
    if swept.attrs.get("impossible"):
        yield f"Truths that a belief rules out: {swept.attrs['impossible']}."


def belief_line(name: str, base: xr.Dataset, risk: xr.Dataset) -> str:
    """Where a belief takes the reader, the target in and the target out."""
    if not bool((risk["possible"] & base["possible"]).all()):
        return f"With the belief “{name}” only one truth is possible: there is nothing left to guess."
    moved = {t: float(risk["posterior_mean"].sel(truth=t) - base["posterior_mean"].sel(truth=t)) for t in TRUTHS}
    now = {t: share(float(risk["posterior_mean"].sel(truth=t))) for t in TRUTHS}
    was = {t: share(float(base["posterior_mean"].sel(truth=t))) for t in TRUTHS}
    right = {t: share(float(risk["prob_correct"].sel(truth=t))) for t in TRUTHS}
    numbers = (
        f"the expected posterior is {now['in']} with the target in (as it is: {was['in']}) and {now['out']} with the "
        f"target out ({was['out']}); guesses are right in {right['in']} and {right['out']} of releases"
    )
    return f"The belief “{name}” {_effect(moved)}: {numbers}."


def _effect(moved: dict[str, float]) -> str:
    present, out = moved["in"], moved["out"]
    if abs(present) < MOVED and abs(out) < MOVED:
        return "makes little difference"
    if present > -MOVED and out > -MOVED:
        return "pushes towards “in” whatever the truth, which helps with the target in and misleads with it out"
    if present < MOVED and out < MOVED:
        return "pushes towards “out” whatever the truth, which helps with the target out and misleads with it in"
    return "tells the two truths apart better" if present > 0 else "tells the two truths apart worse"


def answer(gone: SweepResult) -> dict[str, Any]:
    """The rows as JSON can hold them."""
    rows = []
    for dim, value, risk in gone.rows():
        row: dict[str, Any] = {"input": dim or "as it is", "value": value}
        for truth in TRUTHS:
            one = risk.sel(truth=truth)
            if not bool(one["possible"]):
                row[truth] = None
                continue
            row[truth] = {name: finite(one[name].item()) for name in ("posterior_mean", "ratio_mean", "prob_correct")}
            row[truth]["posterior_quantile"] = [finite(p) for p in one["posterior_quantile"].values]
        rows.append(row)
    return {"reader": gone.reader or None, "quantiles": gone.base["quantile"].values.tolist(), "rows": rows}


def answers(scenario: Scenario, every: Mapping[str, SweepResult]) -> dict[str, Any]:
    """The sweeps of every truth as one JSON object: rows, or rows by truth where the file has several."""
    found = {name: answer(gone) for name, gone in every.items()}
    start = {"title": scenario.title, "neighbours": scenario.neighbours, "truth": scenario.truth}
    start["warnings"] = warnings(every)
    return start | found.get("", {"sensitivity": found})


def data_of(every: Mapping[str, SweepResult]) -> xr.DataTree:
    """The sweeps as groups: `base`, `tornado`, and one for each input, under the name of the truth if it has one."""
    groups: dict[str, xr.Dataset] = {}
    truths = safe_names(every, FOR_GROUPS)
    for name, gone in every.items():
        parts = {"base": gone.base, "tornado": gone.extremes, **gone.swept}
        called = safe_names(parts, FOR_GROUPS)
        start, told = (f"{truths[name]}/", {"truth": name}) if name else ("", {})
        groups |= {f"{start}{called[dim]}": one.assign_attrs(told) for dim, one in parts.items()}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs["warnings"] = json.dumps(warnings(every))
    return tree


def warnings(every: Mapping[str, SweepResult]) -> list[str]:
    """What to know before the answers about the reader as they are, in the file, are believed."""
    one = next(iter(every.values()))
    truths = [gone.scenario.truth for gone in every.values()]
    return cautions(one.scenario.plan, [readers_of(one.scenario)[one.reader]], truths)


def show_every(every: Mapping[str, SweepResult], console: Console) -> None:
    """The sweeps of every truth, by name."""
    for name, gone in every.items():
        show(gone, console, name)
    show_warnings(warnings(every), console)


def show(gone: SweepResult, console: Console, name: str = "") -> None:
    """The sweeps as one table, with what each belief does; `name` is that of the truth."""
    console.print(Text(gone.scenario.title or gone.scenario.path.name, style="bold"))
    whose = f"; the inputs of reader {gone.reader} move" if gone.reader else ""
    where = f"{name}: " if name else ""
    console.print(Text(f"{where}true counts {descriptions.counts(gone.scenario)}; one input at a time{whose}"))
    made = table("How far the answers move, under both truths", ["input", "value"], HEADS)
    for dim, value, risk in gone.rows():
        add(made, *named(dim, value), *cells(risk))
    console.print(made)
    for line in (*sibling_lines(gone), *belief_lines(gone)):
        console.print(Text(line))
