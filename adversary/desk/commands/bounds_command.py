"""`adversary bounds`: what a guarantee allows against every reader."""

from __future__ import annotations

from typing import Annotated

import typer

from adversary.desk.answers import (
    bounds_answer,
)
from adversary.desk.commands.options import (
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
)


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
    with one_line_errors(), directory(out) as folder:
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
    print_answer(answer, bounds_answer.show, out, as_json)
