"""The command line: commands that print tables or one JSON object, or write a directory of figures and data.

PyMC, matplotlib and Jinja2 are imported only where an engine, a figure or a report needs them. What is wrong with the
input is said in one line on standard error, with exit code 2 and nothing written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr
from rich.console import Console

from adversary._core import __version__, alone, remove_empty
from adversary.desk.answers import (
    bounds_answer,
    census_tables,
    profile_verdict,
)
from adversary.desk.commands.epsilon_command import epsilon_command
from adversary.desk.commands.explain_command import explain_command
from adversary.desk.commands.infer_command import infer_command
from adversary.desk.commands.invariants_command import invariants_command
from adversary.desk.commands.nmf_command import nmf_app
from adversary.desk.commands.options import (
    SEED,
    Cells,
    Failure,
    Figures,
    Json,
    Levels,
    Priors,
    Scheduler,
    Truths,
    Workers,
    directory,
    extras,
    number,
    read_scenario,
    several,
    told,
    whole,
)
from adversary.desk.commands.spine_command import spine_command
from adversary.desk.files import Scenario
from adversary.desk.kit import audit_words, console, json_text, safe_names, tell
from adversary.desk.report import MEASURES as MEASURES
from adversary.desk.report import audit_answer, sensitivity_section
from adversary.driver import ENGINES, audit
from adversary.policy.census import SCENARIOS, CensusScenario, dhc, pl94
from adversary.policy.census import scenario as census_scenario
from adversary.reader.risk import DRAWS

RESUME = "the same command goes on from the finished blocks"
app = typer.Typer(name="adversary", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
census = typer.Typer(no_args_is_help=True, help="What the noise of the 2020 Census leaves to a reader, by concern.")
app.add_typer(census, name="census")
app.add_typer(nmf_app, name="nmf")
app.command("epsilon")(epsilon_command)
app.command("explain")(explain_command)
app.command("infer")(infer_command)
app.command("invariants")(invariants_command)
app.command("spine")(spine_command)


def main() -> None:
    """Entry point of the `adversary` command; a warning is one line on standard error."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    app()


def _version(wanted: bool) -> None:
    if wanted:
        print(f"adversary {__version__}")
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
    with told(scenario, interrupted="" if out is None else f"{RESUME} in {out / '.blocks'}"):
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


@app.command("sensitivity")
def sensitivity_command(
    scenario: Annotated[
        Path, typer.Argument(help=r"Scenario file with a table \[sensitivity].", metavar="SCENARIO.toml")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory for figures, SVG and PNG, and sensitivity.nc.", metavar="DIR")
    ] = None,
    as_json: Json = False,
    truth: Truths = None,
) -> None:
    """How far the answers move with prior, budget, siblings and beliefs, with the target in and with the target out."""
    with told(scenario), directory(out) as folder:
        read = read_scenario(scenario, truth)
        every = {name: sensitivity_section.gone_over(one) for name, one in audit_words.truths(read).items()}
        if folder is not None:
            from adversary.desk.answers import figure_files

            files = safe_names(every)
            drawn = {
                "_".join(filter(None, [files[name], figure])): draw
                for name, gone in every.items()
                for figure, (draw, _) in sensitivity_section.figures_of(gone).items()
            }
            figure_files.write(
                figure_files.of_sweeps(drawn), folder, sensitivity_section.data_of(every), "sensitivity.nc"
            )
        answer = sensitivity_section.answers(read, every)
    _print(answer, lambda _, to: sensitivity_section.show_every(every, to), out, as_json)


@app.command("bounds")
def bounds_command(
    epsilon: Annotated[
        str | None, typer.Option(help="Pure DP with this epsilon; with --delta, approximate DP.", metavar="NUMBER")
    ] = None,
    rho: Annotated[str | None, typer.Option(help="Zero-concentrated DP with this rho.", metavar="NUMBER")] = None,
    mu: Annotated[str | None, typer.Option(help="Gaussian DP with this mu.", metavar="NUMBER")] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="With --epsilon: its delta. With --rho or --mu: show epsilon there too.", metavar="NUMBER"),
    ] = None,
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
    out: Figures = None,
    as_json: Json = False,
) -> None:
    """What a guarantee leaves open to any reader: beliefs, tests, and epsilon at a delta."""
    with told(), directory(out) as folder:
        given = {"epsilon": epsilon, "rho": rho, "mu": mu, "delta": delta}
        parsed = {name: None if text is None else number(f"--{name}", text) for name, text in given.items()}
        deltas = bounds_answer.deltas_of(parsed["delta"])
        guarantee, parameters = bounds_answer.guarantee_of(**parsed)
        priors = several("--prior", prior, bounds_answer.PRIORS)
        levels, chance = several("--level", level, bounds_answer.LEVELS), number("--failure", failure)
        answer = bounds_answer.summary(guarantee, parameters, priors, levels, deltas, chance)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(
                figure_files.of_guarantee(guarantee, bounds_answer.title(answer), priors, chance), folder
            )
    _print(answer, bounds_answer.show, out, as_json)


@census.command("scenario")
def scenario_command(
    name: Annotated[str | None, typer.Argument(help="A to H; all are listed without.", metavar="[NAME]")] = None,
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
    out: Figures = None,
    as_json: Json = False,
) -> None:
    """A concern of Kifer et al. (2022): the queries that tell, what they cost, and what they leave open."""
    if name is not None:
        _concern(lambda: census_scenario(name, whole("--cells", cells)), prior, level, failure, out, as_json)
        return
    with told():
        if out is not None:
            raise ValueError(f"--out needs the name of a scenario, one of {', '.join(SCENARIOS)}")
        listed = census_tables.every_scenario(whole("--cells", cells))
    _print(listed, census_tables.show_every, out, as_json)


@census.command("release")
def release_command(
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
    out: Figures = None,
    as_json: Json = False,
) -> None:
    """The whole redistricting release of 2020, persons and housing: a record of which everything changes."""
    _concern(lambda: pl94(whole("--cells", cells)), prior, level, failure, out, as_json)


@census.command("dhc")
def dhc_command(
    path: Annotated[
        Path, typer.Argument(help="Allocation file: a column per level, a row per query.", metavar="PATH.csv")
    ],
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
    out: Figures = None,
    as_json: Json = False,
) -> None:
    """All queries of an allocation file, such as one geographic path of the 2020 DHC release."""
    _concern(lambda: _allocated(path, whole("--cells", cells)), prior, level, failure, out, as_json)


def _allocated(path: Path, cells: int) -> CensusScenario:
    """`dhc`, with the file named in what is wrong with it."""
    try:
        return dhc(path, cells)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _concern(
    make: Callable[[], CensusScenario],
    prior: list[str] | None,
    level: list[str] | None,
    failure: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """A concern priced, composed, drawn and printed."""
    with told(), directory(out) as folder:
        priors, levels = (
            several("--prior", prior, bounds_answer.PRIORS),
            several("--level", level, bounds_answer.LEVELS),
        )
        made, chance = make(), number("--failure", failure)
        answer = census_tables.summary(made, priors, levels, chance)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(figure_files.of_concern(made, priors, chance), folder)
    _print(answer, census_tables.show, out, as_json)


def _print(answer: Any, show: Callable[[Any, Console], None], out: Path | None, as_json: bool) -> None:
    tell(answer, show, as_json)
    if out is not None:
        print(f"figures in {out}", file=sys.stderr)


def _reported(
    scenario: Scenario, out: Path, run: Callable[[Path], xr.DataTree], how: list[Any], force: bool
) -> xr.DataTree:
    """Audit and write the report. Finished blocks wait in DIR/.blocks, named after the work, until that is written."""
    from adversary.desk.report import NAMES, check_directory, check_replaced, write_report

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


if __name__ == "__main__":
    main()
