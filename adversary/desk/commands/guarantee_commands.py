"""`adversary bounds`, `epsilon`, `census`: what a guarantee allows, which one keeps a risk, and those of 2020."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import bounds_answer, census_answer, epsilon_answer
from adversary.desk.commands import options
from adversary.desk.files import load_profile_file
from adversary.desk.kit import Document
from adversary.policy.census import CensusScenario, dhc, pl94
from adversary.policy.census import scenario as census_scenario


@options.answering()
def bounds_command(
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    mu: options.Mu = None,
    delta: Annotated[
        str | None,
        typer.Option(help="With --epsilon: its delta. With --rho or --mu: show epsilon there too.", metavar="NUMBER"),
    ] = None,
    prior: options.Priors = None,
    level: options.Levels = None,
    failure: options.Failure = str(bounds_answer.FAILURE),
) -> Document:
    """What a guarantee allows any adversary: beliefs, tests, and epsilon at a delta."""
    given = {"epsilon": epsilon, "rho": rho, "mu": mu, "delta": delta}
    parsed = {name: None if text is None else options.number(f"--{name}", text) for name, text in given.items()}
    deltas = bounds_answer.deltas_of(parsed["delta"])
    guarantee, parameters = bounds_answer.guarantee_of(**parsed)
    priors = options.several("--prior", prior, bounds_answer.PRIORS)
    levels, chance = options.several("--level", level, bounds_answer.LEVELS), options.number("--failure", failure)
    tree = bounds_answer.solve(guarantee, parameters, priors, levels, deltas, chance)
    return bounds_answer.document(guarantee, parameters, tree)


@options.answering("profile")
def epsilon_command(
    profile: Annotated[Path, typer.Argument(help="Profile file (TOML).", metavar="PROFILE.toml")],
    statistic: Annotated[
        str | None,
        typer.Option(help='"any": anything may be published; "count": one count only. Else as the file says.'),
    ] = None,
    round_down: Annotated[
        str | None, typer.Option(help="Decimals to keep of epsilon; else as the file says.", metavar="N")
    ] = None,
) -> Document:
    """The largest epsilon that keeps a tolerated risk, who needs it, and what it costs in accuracy."""
    digits = None if round_down is None else options.whole("--round-down", round_down)
    file = load_profile_file(profile).asked(statistic, digits)
    recommended = epsilon_answer.recommend(file)
    return epsilon_answer.document(file, recommended, epsilon_answer.solve(file, recommended))


census_command = typer.Typer(no_args_is_help=True)


@census_command.command("scenario", epilog="Example: adversary census scenario C --out census_c")
@options.answering()
def scenario_command(
    name: Annotated[str | None, typer.Argument(help="A to H; all are listed without.", metavar="[NAME]")] = None,
    cells: options.Cells = "2",
    prior: options.Priors = None,
    level: options.Levels = None,
    failure: options.Failure = str(bounds_answer.FAILURE),
) -> Document:
    """A concern of Kifer et al. (2022): the queries that bear on it, their privacy cost, and what they allow."""
    if name is None:
        return census_answer.document_of_every(census_answer.solve_every(options.whole("--cells", cells)))
    return _answer(lambda: census_scenario(name, options.whole("--cells", cells)), prior, level, failure)


@census_command.command("release", epilog="Example: adversary census release --prior 1/100")
@options.answering()
def release_command(
    cells: options.Cells = "2",
    prior: options.Priors = None,
    level: options.Levels = None,
    failure: options.Failure = str(bounds_answer.FAILURE),
) -> Document:
    """The whole redistricting release of 2020, persons and housing: a record of which everything changes."""
    return _answer(lambda: pl94(options.whole("--cells", cells)), prior, level, failure)


@census_command.command("dhc", epilog="Example: adversary census dhc data/census2020_dhc_path_1.csv")
@options.answering()
def dhc_command(
    path: Annotated[
        Path, typer.Argument(help="Allocation file: a column per level, a row per query.", metavar="PATH.csv")
    ],
    cells: options.Cells = "2",
    prior: options.Priors = None,
    level: options.Levels = None,
    failure: options.Failure = str(bounds_answer.FAILURE),
) -> Document:
    """All queries of an allocation file, such as one geographic path of the 2020 DHC release."""
    return _answer(lambda: _dhc_scenario(path, options.whole("--cells", cells)), prior, level, failure)


def _dhc_scenario(path: Path, cells: int) -> CensusScenario:
    """`dhc`, with the file named in what is wrong with it."""
    try:
        return dhc(path, cells)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _answer(
    make: Callable[[], CensusScenario], prior: list[str] | None, level: list[str] | None, failure: str
) -> Document:
    """A concern priced and composed."""
    priors = options.several("--prior", prior, bounds_answer.PRIORS)
    levels = options.several("--level", level, bounds_answer.LEVELS)
    made, chance = make(), options.number("--failure", failure)
    return census_answer.document(made, census_answer.solve(made, priors, levels, chance))
