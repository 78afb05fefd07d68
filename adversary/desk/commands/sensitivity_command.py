"""`adversary sensitivity`: how the answers change with prior, budget, siblings and beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import sensitivity_answer
from adversary.desk.commands.options import Form, Json, Out, Quiet, Truths, answering, read_scenario


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
    with answering(form, as_json, quiet, out, file=scenario) as answer:
        read = read_scenario(scenario, truth)
        answer(sensitivity_answer.document(read, sensitivity_answer.solve(read)))
