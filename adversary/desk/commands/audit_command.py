"""`adversary audit`: what a scenario's readers learn, averaged over releases; tables, one JSON object, or a page."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from adversary._core import alone, remove_empty
from adversary.desk.answers import (
    profile_verdict,
)
from adversary.desk.commands.options import (
    SEED,
    Scheduler,
    Truths,
    Workers,
    extras,
    one_line_errors,
    read_scenario,
)
from adversary.desk.files import Scenario
from adversary.desk.kit import console, json_text
from adversary.desk.report import audit_answer
from adversary.driver import ENGINES, audit
from adversary.reader.risk import DRAWS

RESUME = "the same command goes on from the finished blocks"


def audit_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).", metavar="SCENARIO.toml")],
    engine: Annotated[str, typer.Option(help=f"How to compute: {', '.join(ENGINES)}.")] = "exact",
    draws: Annotated[
        int | None,
        typer.Option(
            help="Simulated releases, where releases are simulated.", show_default=f"{DRAWS}; fitted ones 1000"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = SEED,
    out: Annotated[Path | None, typer.Option(help="Directory for report.html and audit.nc.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    truth: Truths = None,
    failure: Annotated[
        float | None, typer.Option(help="Probability with which a bound that is not certain may fail.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the report of another scenario in DIR.")] = False,
) -> None:
    """What the scenario's readers learn, averaged over releases, and what was promised."""
    with one_line_errors(scenario, interrupted="" if out is None else f"{RESUME} in {out / '.blocks'}"):
        read = read_scenario(scenario, truth)
        chance = read.failure if failure is None else failure

        def run(store: Path | None) -> xr.DataTree:
            with extras():
                found = audit(
                    read.plan,
                    read.adversary,
                    read.truth,
                    guarantee=read.guarantee,
                    invariants=read.margins,
                    failure=chance,
                    engine=engine,
                    draws=draws,
                    rng=seed,
                    store=store,
                    scheduler=scheduler,
                    workers=workers,
                )
            return profile_verdict.judged(read, found)

        tree = run(None) if out is None else _reported(read, out, run, [engine, draws, seed, chance], force)
        answer = json_text(audit_answer.summary(read, tree)) if as_json else ""
    if as_json:
        print(answer)
    else:
        audit_answer.show(read, tree, console())
    if out is not None:
        print(f"report and data in {out}", file=sys.stderr)


def _reported(
    scenario: Scenario, out: Path, run: Callable[[Path], xr.DataTree], how: list[Any], force: bool
) -> xr.DataTree:
    """Audit and write the report. Finished blocks wait in DIR/.blocks, named after the work, until that is written."""
    from adversary.desk.kit import check_directory
    from adversary.desk.report import NAMES, check_replaced, write_report

    named = hashlib.sha256(json.dumps(scenario.document, sort_keys=True, default=str).encode()).hexdigest()
    if not force:
        check_replaced(out, named)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    work = json.dumps([scenario.document, *how], sort_keys=True, default=str)
    store = out / ".blocks" / hashlib.sha256(work.encode()).hexdigest()[:16]
    try:
        with alone(check_directory(out)):
            for left in (part for name in NAMES for part in out.glob(f".[0-9]*-{name}")):  # of a run that was killed
                left.unlink(missing_ok=True)
            tree = run(store)
            tree.attrs["scenario"] = named
            write_report(scenario, tree, out)
            shutil.rmtree(store, ignore_errors=True)
    except Exception as error:
        if any(store.glob("*.npy")):
            error.add_note(f"({RESUME} in {store})")
        raise
    finally:
        remove_empty((store, store.parent, *made))
    return tree
