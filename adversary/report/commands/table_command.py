"""`adversary table` and `plan`: the risk in every cell of a table under planned noise, and the noise for a profile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adversary._core import DEFAULT_FAILURE
from adversary.privacy.mechanisms import DiscreteGaussian, Geometric, Mechanism, listable
from adversary.report.answers import counts_answer
from adversary.report.commands.options import SEED, Failure, answering, number
from adversary.report.files import load_profile_file, load_table_data
from adversary.report.kit import Answer

Counts = Annotated[
    Path, typer.Argument(help="Counts (CSV): a row for each unit, or the columns cell and count.", metavar="COUNTS.csv")
]
LevelNames = Annotated[
    str, typer.Option("--levels", help="Columns that name a unit and those it lies in, lowest first.", metavar="A,B,C")
]
Counted = Annotated[
    str | None,
    typer.Option("--cells", help="Columns of counts.", show_default="all but the levels", metavar="A,B"),
]


@answering("counts")
def table_command(
    counts: Counts,
    levels: LevelNames,
    rho: Annotated[
        str | None, typer.Option(help="Discrete Gaussian noise: zCDP of all levels, or of each.", metavar="NUMBERS")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Geometric noise: pure DP of all levels, or of each.", metavar="NUMBERS")
    ] = None,
    cells: Counted = None,
    prior: Annotated[float, typer.Option(help="The adversary's prior, such as 0.1 or 1/864.", metavar="P")] = 0.5,
    failure: Failure = DEFAULT_FAILURE,
    seed: Annotated[int, typer.Option(help="Seed of simulated releases.")] = SEED,
) -> Answer:
    """What an adversary learns about one person in every cell of a table, under planned noise."""
    names = _names(levels)
    if (rho is None) == (epsilon is None):
        raise ValueError("--rho or --epsilon must be given, and not both")
    option, text = ("--rho", rho) if rho is not None else ("--epsilon", str(epsilon))
    law: Callable[[float], Mechanism] = Geometric if rho is None else DiscreteGaussian.from_rho
    budgets = counts_answer.shares(text, number, option, names)
    noises = dict(zip(names, (_noise(option, law, budget) for budget in budgets), strict=True))
    frame, where = load_table_data(counts)
    chosen = None if cells is None else _names(cells)
    tree = counts_answer.solve(counts.stem, frame, noises, prior, chosen, failure, seed, where)
    return Answer(tree, counts_answer.document)


@answering("counts")
def plan_command(
    counts: Counts,
    profile: Annotated[Path, typer.Option(help="Profile file (TOML) with the tolerated risk.", metavar="PROFILE.toml")],
    levels: LevelNames,
    cells: Counted = None,
) -> Answer:
    """The noise of a table's levels that keeps a tolerated risk with the least error."""
    file = load_profile_file(profile)
    if len(file.profiles) != 1:
        raise ValueError(f"{profile}: must have one profile, got {', '.join(file.profiles)}")
    frame, where = load_table_data(counts)
    tolerated, chosen = next(iter(file.profiles.values())), None if cells is None else _names(cells)
    how = {"failure": file.failure, "statistic": file.statistic, "releases": file.releases or 1}
    tree = counts_answer.solve_plan(counts.stem, frame, _names(levels), tolerated, chosen, where, **how)
    return Answer(tree, partial(counts_answer.plan_document, counts))


def _noise(option: str, law: Callable[[float], Mechanism], budget: float) -> Mechanism:
    """The noise of a level, or an error that names the option."""
    try:
        made = law(budget)
        listable(made, int(made.reach()))
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    return made


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
