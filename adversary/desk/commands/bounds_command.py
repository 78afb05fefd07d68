"""`adversary bounds`: what a guarantee allows any adversary."""

from __future__ import annotations

from typing import Annotated

import typer

from adversary.desk.answers import bounds_answer
from adversary.desk.commands.options import Failure, Levels, Priors, answering, number, several
from adversary.desk.kit import Document


@answering()
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
) -> Document:
    """What a guarantee allows any adversary: beliefs, tests, and epsilon at a delta."""
    given = {"epsilon": epsilon, "rho": rho, "mu": mu, "delta": delta}
    parsed = {name: None if text is None else number(f"--{name}", text) for name, text in given.items()}
    deltas = bounds_answer.deltas_of(parsed["delta"])
    guarantee, parameters = bounds_answer.guarantee_of(**parsed)
    priors = several("--prior", prior, bounds_answer.PRIORS)
    levels, chance = several("--level", level, bounds_answer.LEVELS), number("--failure", failure)
    tree = bounds_answer.solve(guarantee, parameters, priors, levels, deltas, chance)
    return bounds_answer.document(guarantee, parameters, tree)
