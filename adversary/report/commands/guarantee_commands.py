"""`adversary bounds` and `epsilon`: the most that a guarantee allows, and the epsilon that a tolerated risk allows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adversary._core import DEFAULT_FAILURE
from adversary.report.answers import bounds_answer, epsilon_answer
from adversary.report.commands import options
from adversary.report.files import load_guarantee, load_profile_file
from adversary.report.kit import Answer

# Default priors and levels of tests.
PRIORS, LEVELS = [*bounds_answer.PRIORS], [*bounds_answer.LEVELS]


FileFailure = Annotated[
    float | None,
    typer.Option(
        help="Probability with which a bound that is not certain may fail; else the file's, or 0.05.", metavar="P"
    ),
]


@options.answering("file")
def bounds_command(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="File (TOML) with a table guarantee and no plan, in place of --epsilon, --rho or --mu; its table "
            "privacy_unit says whom it protects.",
            metavar="GUARANTEE.toml",
        ),
    ] = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    mu: options.Mu = None,
    delta: Annotated[
        float | None,
        typer.Option(help="With --epsilon: its delta. With --rho or --mu: show epsilon there too.", metavar="NUMBER"),
    ] = None,
    prior: options.Priors = PRIORS,
    level: options.Levels = LEVELS,
    failure: FileFailure = None,
    baseline: Annotated[
        list[float] | None,
        typer.Option(
            "--baseline", help="Success of an attack without the release, such as 0.01; may be repeated.", metavar="P"
        ),
    ] = None,
) -> Answer:
    """What a guarantee allows adversaries to conclude: beliefs, tests, and epsilon at a delta."""
    deltas = bounds_answer.deltas_of(delta)
    if file is None:
        guarantee, parameters = options.guarantee_of(epsilon, rho, mu, delta)
        unit, chance, name = None, DEFAULT_FAILURE, ""
    else:
        options.only_file(epsilon, rho, mu)
        guarantee_file = load_guarantee(file)
        guarantee, unit, chance, name = (
            guarantee_file.guarantee,
            guarantee_file.unit,
            guarantee_file.failure,
            guarantee_file.title,
        )
        parameters = {name: float(x) for name, x in guarantee.parameters.items()}
    tree = bounds_answer.solve(
        guarantee, parameters, prior, level, deltas, chance if failure is None else failure, unit, name, baseline or ()
    )
    shown = delta if epsilon is None else None  # beside --epsilon it is a part of the guarantee
    return Answer(tree, partial(bounds_answer.document, guarantee, parameters, unit=unit, delta=shown))


@options.answering("profile")
def epsilon_command(
    profile: Annotated[Path, typer.Argument(help="Profile file (TOML).", metavar="PROFILE.toml")],
    statistic: Annotated[
        str | None,
        typer.Option(help='"any": anything may be published; "count": one count only. Else as the file says.'),
    ] = None,
    round_down: Annotated[
        int | None, typer.Option(help="Decimals to keep of epsilon; else as the file says.", metavar="N")
    ] = None,
) -> Answer:
    """The largest epsilon that keeps a tolerated risk, who needs it, and what it costs in accuracy."""
    file = load_profile_file(profile).with_options(statistic, round_down)
    recommended = epsilon_answer.recommend(file)
    tree = epsilon_answer.solve(file, recommended)
    return Answer(tree, partial(epsilon_answer.document, file, recommended))
