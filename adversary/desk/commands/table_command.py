"""`adversary table`: the risk of one person in every cell of a table of counts, under planned noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import counts_answer
from adversary.desk.commands.options import SEED, Failure, answering, number
from adversary.desk.files import load_counts
from adversary.desk.kit import Document
from adversary.privacy.mechanisms import DiscreteGaussian, Geometric, Mechanism


@answering("counts")
def table_command(
    counts: Annotated[
        Path,
        typer.Argument(help="Counts (CSV): a row for each unit, or the columns cell and count.", metavar="COUNTS.csv"),
    ],
    levels: Annotated[
        str, typer.Option(help="Columns that name a unit and those it lies in, lowest first.", metavar="A,B,C")
    ],
    rho: Annotated[
        str | None, typer.Option(help="Discrete Gaussian noise: zCDP of all levels, or of each.", metavar="NUMBERS")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Geometric noise: pure DP of all levels, or of each.", metavar="NUMBERS")
    ] = None,
    cells: Annotated[
        str | None, typer.Option(help="Columns of counts.", show_default="all but the levels", metavar="A,B")
    ] = None,
    prior: Annotated[str, typer.Option(help="The adversary's prior, such as 0.1 or 1/864.", metavar="P")] = "1/2",
    failure: Failure = "0.05",
    seed: Annotated[int, typer.Option(help="Seed of simulated releases.")] = SEED,
) -> Document:
    """What an adversary learns about one person in every cell of a table."""
    names = [name.strip() for name in levels.split(",")]
    if (rho is None) == (epsilon is None):
        raise ValueError("--rho or --epsilon must be given, and not both")
    option, text = ("--rho", rho) if rho is not None else ("--epsilon", str(epsilon))
    law: Callable[[float], Mechanism] = Geometric if rho is None else DiscreteGaussian.from_rho
    noises = dict(zip(names, map(law, counts_answer.shares(text, number, option, names)), strict=True))
    frame, where = load_counts(counts)
    chosen = None if cells is None else [name.strip() for name in cells.split(",")]
    chance = number("--failure", failure)
    tree = counts_answer.solve(frame, noises, number("--prior", prior), chosen, chance, seed, where)
    return counts_answer.document(counts.stem, tree)
