"""The command `adversary invariants`: what statistics published exactly cost, of a scenario or of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr
from rich.console import Console
from rich.text import Text

from adversary._core import blocks
from adversary.desk.answers import (
    exact_adversaries,
    exact_guarantees,
    table_answer,
)
from adversary.desk.commands.options import SEED, Json, Truths, directory, number, one_line_errors, read_scenario
from adversary.desk.files import Scenario, load_table_file, read_toml
from adversary.desk.kit import audit_words, exact_words, safe_names, tell
from adversary.desk.report import how
from adversary.driver import audit
from adversary.reader.conditioned import ExactTotals


@dataclass(frozen=True)
class Worked:
    """A file worked out: its answer as one JSON object, how to show it, its figures by name, and its data."""

    found: dict[str, Any]
    show: Callable[[Mapping[str, Any], Console], None]
    figures: Callable[[], dict[str, Any]]
    data: xr.DataTree


def invariants_command(
    scenario: Annotated[
        Path,
        typer.Argument(
            help=r"Scenario file with an exact level or \[invariants], or a table file.", metavar="SCENARIO.toml"
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory for figures, SVG and PNG, and invariants.nc.", metavar="DIR")
    ] = None,
    as_json: Json = False,
    truth: Truths = None,
    failure: Annotated[
        str | None, typer.Option(help="Probability with which a bound that is not certain may fail.", metavar="P")
    ] = None,
) -> None:
    """What exact totals beside a noisy release cost: guarantees before and after, and what readers learn."""
    with one_line_errors(scenario), directory(out) as folder:
        chance = None if failure is None else number("--failure", failure)
        worked = _table(scenario, truth, chance) if _is_table(scenario) else _plan(scenario, truth, chance)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(worked.figures(), folder, worked.data, "invariants.nc")
    tell(worked.found, worked.show, as_json)
    if out is not None:
        print(f"figures and data in {out}", file=sys.stderr)


def _is_table(path: Path) -> bool:
    document = read_toml(path)
    if "table" in document and "plan" in document:
        raise ValueError(f"{path}: give either [plan] or [table], got both")
    return "table" in document


def _plan(path: Path, changes: list[str] | None, failure: float | None) -> Worked:
    """A scenario, audited by the exact engine."""
    scenario = read_scenario(path, changes)
    totals = exact_adversaries.published(scenario)
    chance = scenario.failure if failure is None else failure
    what = (scenario.plan, scenario.adversary, scenario.truth)
    tree = audit(
        *what, guarantee=scenario.guarantee, invariants=scenario.margins, failure=chance, rng=SEED, progress=True
    )
    every = audit_words.cases(scenario, tree)
    answers = {name: exact_adversaries.summary(one, part) for name, one, part in every}
    said = {name: exact_adversaries.sentences(one) for name, one in answers.items()}
    first = next(iter(answers.values()))
    common = {key: first[key] for key in ("published", "promises", "composition")}
    cases = {name: {"readers": one["readers"], "words": said[name]} for name, one in answers.items()}
    found = {
        **_about(scenario), "kind": "plan", "engine": how(every[0][2]), **common,
        **cases.get("", {"truths": cases}),
        "conclusion": exact_words.verdict(first),
    }  # fmt: skip
    tree.attrs.update(title=found["title"], source=scenario.source)
    return Worked(found, _show_plan, lambda: _figures(scenario, totals, every, answers), tree)


def _about(file: Any) -> dict[str, str]:
    return {"title": file.title or file.path.name, "description": file.description, "source": file.source}


def _show_plan(found: Mapping[str, Any], console: Console) -> None:
    _show_first(found, console)
    if any(case["readers"] for case in found.get("truths", {"": found}).values()):
        console.print(Text(f"What follows: {found['engine']}"))
    for name, case in found.get("truths", {"": found}).items():
        if name:
            console.print(Text(f"\nUnder the truth {name}"))
        exact_adversaries.show(case, console)
        console.print()
        for sentence in case["words"]:
            console.print(Text(sentence))


def _show_first(found: Mapping[str, Any], console: Console) -> None:
    """What does not depend on a reader."""
    console.print(Text(found["title"], style="bold"))
    console.print(Text(found["conclusion"]))
    exact_guarantees.show_margins(found["published"], console)
    if found["promises"]:
        exact_guarantees.show_promises(found["promises"], found["published"]["records_covered"], console)
    exact_guarantees.show_composition(found["composition"], console)


def _figures(scenario: Scenario, totals: ExactTotals, every: list[Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """The odds of every truth against their limits, and the first promise before and after."""
    from adversary.desk.figures import exact_figures, trade_off_curves

    drawn: dict[str, Callable[[], Any]] = {}
    files = safe_names(name for name, _, _ in every)
    for name, one, part in every:
        moves = exact_adversaries.moves(one, part)
        if moves:
            drawn["_".join(filter(None, [files[name], "odds"]))] = partial(
                exact_figures.odds_moved, answers[name], moves
            )
    for name, promise in list((scenario.guarantee or {}).items())[:1]:
        if not totals.disclosed:
            both = {f"{name}, one record": promise.group(totals.each), f"{name}, beside it": totals.promised(promise)}
            drawn["promise"] = partial(trade_off_curves.trade_off, both)
    return {key: drawn[key]() for key in blocks.track(list(drawn), "drawing")}


def _table(path: Path, changes: list[str] | None, failure: float | None) -> Worked:
    """A table file."""
    if changes:
        raise ValueError(f"--truth replaces counts of a scenario; {path} is a table file, got {changes[0]!r}")
    answer = table_answer.work_out(load_table_file(path, failure))
    file = answer.file
    summary = table_answer.summary(answer)
    said = [*exact_words.cost(summary), *exact_words.of_table(summary)]
    found = {**_about(file), "kind": "table", **summary, "words": said, "conclusion": exact_words.verdict(summary)}

    def show(found: Mapping[str, Any], console: Console) -> None:
        _show_first(found, console)
        table_answer.show(found, file.invariants.named, console)
        console.print()
        for sentence in found["words"]:
            console.print(Text(sentence))

    return Worked(found, show, lambda: table_answer.figures(answer), table_answer.data(answer))
