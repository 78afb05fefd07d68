"""The command line: `adversary audit SCENARIO.toml` prints a table, one JSON object, or a report in a directory.

PyMC, matplotlib and Jinja2 are imported only where an engine or a report needs them. What is wrong with the input is
said in one line on standard error, with exit code 2 and nothing written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adversary.desk import words
from adversary.desk.scenarios import Scenario, load_scenario
from adversary.driver import ENGINES, audit
from adversary.reader.risk import DRAWS

SEED = 2020
"""Where none is given: a run that is repeated, or resumed, gives the same numbers."""

MEASURES = ("posterior_mean", "ratio_mean", "prob_correct", "tie_mass")
app = typer.Typer(name="adversary", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Entry point of the `adversary` command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        print(f"adversary {version('adversary')}")
        raise typer.Exit


@app.callback()
def adversary(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """What a real reader could learn about one person from a differentially private release."""
    del version


@app.command("audit")
def audit_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).", metavar="SCENARIO.toml")],
    engine: Annotated[str, typer.Option(help=f"How to compute: {', '.join(ENGINES)}.")] = "exact",
    draws: Annotated[int, typer.Option(help="Simulated releases, where releases are simulated.")] = DRAWS,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = SEED,
    out: Annotated[Path | None, typer.Option(help="Directory for report.html and audit.nc.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    truth: Annotated[
        list[str] | None,
        typer.Option(help='Replace a true count: "block group=10"; may be repeated.', metavar="LEVEL=COUNT"),
    ] = None,
    failure: Annotated[
        float | None, typer.Option(help="Probability with which a bound that is not certain may fail.")
    ] = None,
) -> None:
    """What the scenario's readers learn, averaged over releases, and what was promised."""
    with _told():
        read = _read(scenario, truth or [])
        chance = read.failure if failure is None else failure

        def run(store: Path | None) -> xr.DataTree:
            return audit(
                read.plan,
                read.adversary,
                read.truth,
                guarantee=read.guarantee,
                failure=chance,
                engine=engine,
                draws=draws,
                rng=seed,
                store=store,
            )

        tree = run(None) if out is None else _reported(read, out, run, [engine, draws, seed, chance])
        answer = json.dumps(summary(read, tree), indent=2, allow_nan=False) if as_json else ""
    if as_json:
        print(answer)
    else:
        show(read, tree, Console(width=None if sys.stdout.isatty() else 120))
    if out is not None:
        print(f"report and data in {out}", file=sys.stderr)


@contextmanager
def _told() -> Iterator[None]:
    """Errors in the input in one line, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print("error: " + " ".join(text.split()), file=sys.stderr)
        raise typer.Exit(2) from None


def _read(path: Path, changes: list[str]) -> Scenario:
    scenario = load_scenario(path)
    return scenario.with_truth(dict(map(_count, changes))) if changes else scenario


def _count(text: str) -> tuple[str, Any]:
    """ "block group=10" as ("block group", 10), and "block=1,34" as ("block", [1, 34])."""
    name, sign, value = text.partition("=")
    try:
        numbers = [json.loads(part) for part in value.split(",")]
    except json.JSONDecodeError:
        numbers = []
    if not sign or not name.strip() or not numbers:
        raise ValueError(f"--truth must be LEVEL=COUNT, such as 'block group=10', got {text!r}")
    return name.strip(), numbers if len(numbers) > 1 else numbers[0]


def _reported(scenario: Scenario, out: Path, run: Callable[[Path], xr.DataTree], how: list[Any]) -> xr.DataTree:
    """Audit and write the report. Finished blocks wait in DIR/.blocks, named after the work, until it is all done."""
    from adversary.desk.report import check_directory, write_report

    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    work = json.dumps([scenario.document, *how], sort_keys=True, default=str)
    store = out / ".blocks" / hashlib.sha256(work.encode()).hexdigest()[:16]
    try:
        check_directory(out)
        tree = run(store)
        write_report(scenario, tree, out)
    except (ValueError, TypeError, OSError):
        _remove(out, store, made)
        raise
    _remove(out, store, [])
    return tree


def _remove(out: Path, store: Path, made: list[Path]) -> None:
    """The blocks of this work, and folders made for it, as far as they are empty."""
    shutil.rmtree(store, ignore_errors=True)
    for folder in (out / ".blocks", *made):
        with suppress(OSError):
            folder.rmdir()


def summary(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """The audit as one JSON object: numbers if there is one reader, else objects keyed by the readers' names.

    With several truths, objects keyed by the truths' names lie inside those. What is not a finite number is null.
    """
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    result: dict[str, Any] = {
        "title": scenario.title,
        "engine": tree.attrs["engine"],
        "seed": tree.attrs["seed"],
        "neighbours": scenario.neighbours,
        "cells": scenario.plan.cells,
        "truth": scenario.truth,
    }
    for name in (*MEASURES, *(name for name in ("prior", "invariant_ratio") if name in risk)):
        result[name] = _keyed(risk[name], lambda one: _finite(one.item()))
    if "mcse" in risk:
        errors = risk["mcse"]
        measures = [str(name) for name in errors["measure"].values]
        result["mcse"] = _keyed(errors, lambda one: dict(zip(measures, map(_finite, one.values), strict=True)))
    result["bounds"] = _keyed(bound, _bounds)
    return result


def _keyed(data: Any, read: Callable[[Any], Any]) -> Any:
    """`read` of the data for every reader and truth."""
    for dim in ("adversary", "truth"):
        if dim in data.dims:
            return {str(name): _keyed(data.sel({dim: name}, drop=True), read) for name in data[dim].values}
    return read(data)


def _bounds(bound: xr.Dataset) -> dict[str, Any]:
    rows = {}
    for name in bound["definition"].values:
        one = bound.sel(definition=name)
        intervals = {key: [_finite(v) for v in one[key].values] for key in ("posterior", "ratio", "difference")}
        rows[str(name)] = {
            **intervals,
            "outside": _finite(one["outside"].item()),
            "failure": _finite(one["failure"].item()),
            "k": int(one["k"]),
            "status": str(one["status"].item()),
        }
    return rows


def _finite(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None


def show(scenario: Scenario, tree: xr.DataTree, console: Console) -> None:
    """The audit as tables: readers and what they learn, then every bound with its status."""
    console.print(Text(scenario.title or scenario.path.name, style="bold"))
    for name, one, part in words.cases(scenario, tree):
        counts = ", ".join(f"{level} {count}" for level, count in one.truth.items())
        where = f"{name}: " if name else ""
        console.print(Text(f"{where}true counts {counts}; {scenario.neighbours} neighbours; {_how(part)}"))
        console.print(_learned(one, part))
        console.print(_promised(one, part))
        for status in np.unique(part["bound"].to_dataset()["status"].values):
            if status != "holds":
                console.print(Text(words.STATUS[str(status)], style="red"))


def _how(tree: xr.DataTree) -> str:
    if tree["risk"]["posterior_mean"].attrs.get("direction") == "exact":
        return f"engine {tree.attrs['engine']}, exact averages over releases"
    draws, seed = tree.attrs["draws"], tree.attrs["seed"]
    return f"engine {tree.attrs['engine']}, {draws} simulated releases, seed {seed}, ± standard error"


def _learned(scenario: Scenario, tree: xr.DataTree) -> Table:
    given = "invariant_ratio" in tree["risk"].to_dataset()
    table = _table("What the reader learns", ["reader"])
    for head in (
        "prior given exact levels" if given else "prior",
        "expected posterior",
        "expected ratio",
        "right guesses",
        "ties",
    ):
        table.add_column(head, justify="right")
    for name in words.readers_of(scenario):
        one = words.of_reader(tree["risk"].to_dataset(), name)
        ratio = words.figure_of(float(one["ratio_mean"])) + words.error(one, "ratio_mean")
        posterior, correct = (
            words.share(float(one[key])) + words.error(one, key, 100.0) for key in ("posterior_mean", "prob_correct")
        )
        cells = [name or "the reader", words.share(float(one["prior"])), posterior, ratio, correct]
        table.add_row(*map(Text, [*cells, words.share(float(one["tie_mass"]))]))
    return table


def _promised(scenario: Scenario, tree: xr.DataTree) -> Table:
    table = _table("What was promised (lower ends rounded down, upper ends up)", ["reader", "promise"])
    for head in ("posterior", "ratio", "may fail in", "releases beyond", "k"):
        table.add_column(head, justify="right")
    table.add_column("status")
    for name in words.readers_of(scenario):
        bound = words.of_reader(tree["bound"].to_dataset(), name)
        for definition in bound["definition"].values:
            one = bound.sel(definition=definition)
            status = str(one["status"].item())
            cells = [
                name or "the reader",
                words.called(str(definition)),
                words.between(*map(float, one["posterior"].values), percent=True),
                words.between(*map(float, one["ratio"].values)),
                words.share(float(one["failure"])),
                words.beyond(float(one["outside"])),
                str(int(one["k"])),
            ]
            style = "green" if status == "holds" else "red"
            table.add_row(*map(Text, cells), Text(status, style=style))
    return table


def _table(title: str, heads: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head)
    return table


if __name__ == "__main__":
    main()
