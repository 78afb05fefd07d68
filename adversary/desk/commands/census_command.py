"""`adversary census`: what the noise of the 2020 Census allows an adversary to learn, by concern."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import bounds_answer, census_answer
from adversary.desk.commands.options import Cells, Failure, Levels, Priors, answering, number, several, whole
from adversary.desk.kit import Document
from adversary.policy.census import CensusScenario, dhc, pl94
from adversary.policy.census import scenario as census_scenario

census_command = typer.Typer(no_args_is_help=True)


@census_command.command("scenario", epilog="Example: adversary census scenario C --out census_c")
@answering()
def scenario_command(
    name: Annotated[str | None, typer.Argument(help="A to H; all are listed without.", metavar="[NAME]")] = None,
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
) -> Document:
    """A concern of Kifer et al. (2022): the queries that bear on it, their privacy cost, and what they allow."""
    if name is None:
        return census_answer.document_of_every(census_answer.solve_every(whole("--cells", cells)))
    return _answer(lambda: census_scenario(name, whole("--cells", cells)), prior, level, failure)


@census_command.command("release", epilog="Example: adversary census release --prior 1/100")
@answering()
def release_command(
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
) -> Document:
    """The whole redistricting release of 2020, persons and housing: a record of which everything changes."""
    return _answer(lambda: pl94(whole("--cells", cells)), prior, level, failure)


@census_command.command("dhc", epilog="Example: adversary census dhc data/census2020_dhc_path_1.csv")
@answering()
def dhc_command(
    path: Annotated[
        Path, typer.Argument(help="Allocation file: a column per level, a row per query.", metavar="PATH.csv")
    ],
    cells: Cells = "2",
    prior: Priors = None,
    level: Levels = None,
    failure: Failure = str(bounds_answer.FAILURE),
) -> Document:
    """All queries of an allocation file, such as one geographic path of the 2020 DHC release."""
    return _answer(lambda: _allocated(path, whole("--cells", cells)), prior, level, failure)


def _allocated(path: Path, cells: int) -> CensusScenario:
    """`dhc`, with the file named in what is wrong with it."""
    try:
        return dhc(path, cells)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _answer(
    make: Callable[[], CensusScenario], prior: list[str] | None, level: list[str] | None, failure: str
) -> Document:
    """A concern priced and composed."""
    priors = several("--prior", prior, bounds_answer.PRIORS)
    levels = several("--level", level, bounds_answer.LEVELS)
    made, chance = make(), number("--failure", failure)
    return census_answer.document(made, census_answer.solve(made, priors, levels, chance))
