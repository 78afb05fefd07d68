"""`adversary sensitivity`: how the answers change with prior, budget, siblings and beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import sensitivity_answer
from adversary.desk.commands.options import Form, Json, Out, Quiet, Truths, directory, one_line_errors, read_scenario
from adversary.desk.kit import check_form, deliver


def sensitivity_command(
    scenario: Annotated[
        Path, typer.Argument(help=r"Scenario file with a table \[sensitivity].", metavar="SCENARIO.toml")
    ],
    out: Out = None,
    as_json: Json = False,
    form: Form = "text",
    quiet: Quiet = False,
    truth: Truths = None,
) -> None:
    """How far the answers move with prior, budget, siblings and beliefs, under both truths."""
    with one_line_errors(scenario), directory(out) as folder:
        shown = check_form("json" if as_json else form)
        read = read_scenario(scenario, truth)
        deliver(sensitivity_answer.document(read, sensitivity_answer.solve(read)), shown, folder, quiet=quiet)
