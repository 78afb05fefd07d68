"""`adversary audit`: what adversaries learn, averaged over releases, and what guarantees allow."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import xarray as xr

from adversary._core import exclusive_lock, has_blocks, remove_empty
from adversary.adversaries.risk import DRAWS
from adversary.budget import check_word
from adversary.driver import ALSO, ENGINES, EVERYTHING
from adversary.report.answers import audit_answer
from adversary.report.commands import options
from adversary.report.files import Scenario
from adversary.report.kit import DATA, PAGE, Answer, check_directory

if TYPE_CHECKING:
    from adversary.report.kit import Document

# Further groups, which an audit has if a page is written or if they are requested by name.
FURTHER = tuple(name for name in EVERYTHING if name not in ALSO)

# Exit code of `--check` if a guarantee or the risk profile is not satisfied.
CHECK_FAILED = 3
RESUME = "the same command goes on from the finished blocks"


@options.with_output
def audit_command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).", metavar="SCENARIO.toml")],
    output: options.Output,
    engine: Annotated[str, typer.Option(help=f"How to compute: {', '.join(ENGINES)}.")] = "exact",
    draws: Annotated[
        int | None,
        typer.Option(
            help="Simulated releases, where releases are simulated.",
            show_default=f"{DRAWS}, fewer where each takes long to read; fitted ones 1000",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = options.SEED,
    truth: options.Truths = None,
    failure: Annotated[
        float | None, typer.Option(help="Failure probability of bounds that are not certain; else the file's.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Without --out, what else to work out: {', '.join(FURTHER)}; may be repeated.", metavar="GROUP"
        ),
    ] = None,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the report of another scenario in DIR.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 3 unless every guarantee is true and the risk profile kept.")
    ] = False,
) -> None:
    """What an adversary learns about one person, averaged over releases, and what the guarantee allows."""
    out = output.folder
    with options.one_line_errors(scenario, interrupted="" if out is None else f"{RESUME} in {out / '.blocks'}"):
        read = options.read_scenario(scenario, truth)
        chance = read.failure if failure is None else failure
        more = [check_word("--also", name, FURTHER) for name in also or ()]
        how: dict[str, Any] = {"engine": engine, "draws": draws, "rng": seed, "also": more}
        how |= {"scheduler": scheduler, "workers": workers}

        def run(store: Path | None) -> xr.DataTree:
            with options.extras():
                return audit_answer.solve(read, failure=chance, whole=store is not None, store=store, **how)

        def show(tree: xr.DataTree) -> None:
            output.deliver(Answer(tree, partial(_page, read)))

        if out is None:
            show(tree := run(None))
        else:
            tree = _audit_and_report(read, out, run, show, [engine, draws, seed, chance], force)
    if check and (failure_line := audit_answer.check_failure(read, tree)):
        options.end(CHECK_FAILED, failure_line)


def _page(scenario: Scenario, tree: xr.DataTree) -> Document:
    """Document of an audit."""
    # imported late: tables, figures and texts come with it, which JSON does not need
    from adversary.report.answers import audit_page

    return audit_page.document(scenario, tree)


def _audit_and_report(
    scenario: Scenario,
    out: Path,
    run: Callable[[Path], xr.DataTree],
    show: Callable[[xr.DataTree], None],
    how: list[Any],
    force: bool,
) -> xr.DataTree:
    """Audit and write the report, and return the audit.

    Finished blocks of simulations are stored in DIR/.blocks, under a hash of the scenario and options (`how`), until
    the report is written; so an interrupted run can continue.
    """
    if not force:
        check_replaced(out, audit_answer.fingerprint(scenario))
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    work = json.dumps([scenario.document, *how], sort_keys=True, default=str)
    store = out / ".blocks" / hashlib.sha256(work.encode()).hexdigest()[:16]
    try:
        with exclusive_lock(check_directory(out)):
            tree = run(store)
            show(tree)
            shutil.rmtree(store, ignore_errors=True)
    except Exception as error:
        if has_blocks(store):
            error.add_note(f"({RESUME} in {store})")
        raise
    finally:
        if not has_blocks(store):
            shutil.rmtree(store, ignore_errors=True)
        remove_empty((store, store.parent, *made))
    return tree


def check_replaced(folder: Path, scenario: str) -> None:
    """FileExistsError if a folder has a report of another scenario than that of a fingerprint, or a damaged one."""
    if any((folder / name).exists() for name in (PAGE, DATA)):
        try:
            with xr.open_datatree(folder / DATA, engine="h5netcdf") as tree:
                same = tree.attrs.get("scenario") == scenario
        except (OSError, ValueError):
            same = False
        if not same:
            raise FileExistsError(
                f"{folder} has the report of another scenario; give another directory, or --force to replace it"
            )
