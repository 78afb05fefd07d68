"""`adversary epsilon`: from the risk an agency tolerates, in a profile file, to the largest epsilon that keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import epsilon_answer
from adversary.desk.commands.options import answering, whole
from adversary.desk.files import load_profile_file
from adversary.desk.kit import Document


@answering("profile")
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
    digits = None if round_down is None else whole("--round-down", round_down)
    file = load_profile_file(profile).asked(statistic, digits)
    recommended = epsilon_answer.recommend(file)
    return epsilon_answer.document(file, recommended, epsilon_answer.solve(file, recommended))
