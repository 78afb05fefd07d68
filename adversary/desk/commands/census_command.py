"""`adversary census`: what the noise of the 2020 Census leaves to a reader, by concern."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import (
    bounds_answer,
    census_tables,
)
from adversary.desk.commands.options import (
    Cells,
    Failure,
    Figures,
    Json,
    Levels,
    Priors,
    directory,
    number,
    one_line_errors,
    print_answer,
    several,
    whole,
)
from adversary.policy.census import SCENARIOS, CensusScenario, dhc, pl94
from adversary.policy.census import scenario as census_scenario

census_command = typer.Typer(
    no_args_is_help=True, help="What the noise of the 2020 Census leaves to a reader, by concern."
)


@census_command.command("scenario")
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
    with one_line_errors():
        if out is not None:
            raise ValueError(f"--out needs the name of a scenario, one of {', '.join(SCENARIOS)}")
        listed = census_tables.every_scenario(whole("--cells", cells))
    print_answer(listed, census_tables.show_every, out, as_json)


@census_command.command("release")
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


@census_command.command("dhc")
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
    with one_line_errors(), directory(out) as folder:
        priors, levels = (
            several("--prior", prior, bounds_answer.PRIORS),
            several("--level", level, bounds_answer.LEVELS),
        )
        made, chance = make(), number("--failure", failure)
        answer = census_tables.summary(made, priors, levels, chance)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(figure_files.of_concern(made, priors, chance), folder)
    print_answer(answer, census_tables.show, out, as_json)
