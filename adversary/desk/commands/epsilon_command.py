"""`adversary epsilon`: from the risk an agency tolerates, in a profile file, to the largest epsilon that keeps it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import epsilon_answer
from adversary.desk.commands.options import Json, directory, one_line_errors, whole
from adversary.desk.files import load_profile_file
from adversary.desk.kit import tell


def epsilon_command(
    profile: Annotated[Path, typer.Argument(help="Profile file (TOML).", metavar="PROFILE.toml")],
    statistic: Annotated[
        str | None,
        typer.Option(help='"any": anything may be published; "count": one count only. Else as the file says.'),
    ] = None,
    round_down: Annotated[
        str | None, typer.Option(help="Decimals to keep of epsilon; else as the file says.", metavar="N")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for figures, SVG and PNG, and budget.nc.", metavar="DIR")
    ] = None,
    as_json: Json = False,
) -> None:
    """The largest epsilon that keeps a tolerated risk, who needs it, and what it costs in accuracy."""
    with one_line_errors(profile), directory(out) as folder:
        digits = None if round_down is None else whole("--round-down", round_down)
        answer = epsilon_answer.work_out(load_profile_file(profile).asked(statistic, digits))
        found = epsilon_answer.summary(answer)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(epsilon_answer.figures(answer), folder, epsilon_answer.data(answer), "budget.nc")
    tell(found, epsilon_answer.show, as_json)
    if out is not None:
        if missing := epsilon_answer.left_out(answer):
            print(missing, file=sys.stderr)
        print(f"figures and data in {out}", file=sys.stderr)
