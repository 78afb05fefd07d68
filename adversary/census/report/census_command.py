"""`adversary census`: scenarios of the 2020 Census, its five data products, and allocation files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adversary._core import DEFAULT_FAILURE
from adversary.census import CensusScenario, dhc, pl94, product
from adversary.census import scenario as census_scenario
from adversary.census.report import census_answer, product_answer
from adversary.report.answers import bounds_answer
from adversary.report.commands import options
from adversary.report.kit import Answer

PRIORS, LEVELS = [*bounds_answer.PRIORS], [*bounds_answer.LEVELS]
"""Default priors and false alarm rates."""

census_command = typer.Typer(no_args_is_help=True)


@census_command.command("scenario", epilog="Example: adversary census scenario C --out census_c")
@options.answering()
def scenario_command(
    name: Annotated[str | None, typer.Argument(help="A to H; all are listed without.", metavar="[NAME]")] = None,
    cells: options.Cells = 2,
    prior: options.Priors = PRIORS,
    level: options.Levels = LEVELS,
    failure: options.Failure = DEFAULT_FAILURE,
) -> Answer:
    """A concern of Kifer et al. (2022): the queries that bear on it, their privacy cost, and what they allow."""
    if name is None:
        return Answer(census_answer.solve_every(cells), census_answer.document_of_every)
    return _answer(census_scenario(name, cells), prior, level, failure)


@census_command.command("release", epilog="Example: adversary census release --prior 1/100")
@options.answering()
def release_command(
    cells: options.Cells = 2,
    prior: options.Priors = PRIORS,
    level: options.Levels = LEVELS,
    failure: options.Failure = DEFAULT_FAILURE,
) -> Answer:
    """The whole redistricting release of 2020, persons and housing: a record of which everything changes."""
    return _answer(pl94(cells), prior, level, failure)


@census_command.command("dhc", epilog="Example: adversary census dhc data/census2020_dhc_path_1.csv")
@options.answering("path")
def dhc_command(
    path: Annotated[
        Path, typer.Argument(help="Allocation file: a column per level, a row per query.", metavar="PATH.csv")
    ],
    cells: options.Cells = 2,
    prior: options.Priors = PRIORS,
    level: options.Levels = LEVELS,
    failure: options.Failure = DEFAULT_FAILURE,
) -> Answer:
    """All queries of an allocation file, such as one geographic path of the 2020 DHC release."""
    return _answer(dhc(path, cells), prior, level, failure)


@census_command.command("products", epilog="Example: adversary census products")
@options.answering()
def products_command(prior: options.Priors = PRIORS, failure: options.Failure = DEFAULT_FAILURE) -> Answer:
    """The five data products of 2020 side by side: their budgets, as summed and as stated, and what they allow."""
    return Answer(product_answer.solve_every(prior, failure), product_answer.document_of_every)


@census_command.command("product", epilog="Example: adversary census product DDHC-A --out ddhc_a")
@options.answering()
def product_command(
    name: Annotated[str, typer.Argument(help="PL94, DHC, DDHC-A, DDHC-B or S-DHC.", metavar="NAME")],
    prior: options.Priors = PRIORS,
    failure: options.Failure = DEFAULT_FAILURE,
) -> Answer:
    """One data product of 2020: budgets and margins of error by table, which tables exist, and what it allows."""
    data_product = product(name)
    return Answer(product_answer.solve(data_product, prior, failure), partial(product_answer.document, data_product))


def _answer(concern: CensusScenario, prior: list[float], level: list[float], failure: float) -> Answer:
    """Answer about one scenario, with its document."""
    return Answer(census_answer.solve(concern, prior, level, failure), partial(census_answer.document, concern))
