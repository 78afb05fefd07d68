"""`adversary sensitivity`: how the answers change with prior, budget, siblings and beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.answers import sensitivity_answer
from adversary.desk.commands.options import Truths, answering, read_scenario
from adversary.desk.kit import Document


@answering("scenario")
def sensitivity_command(
    scenario: Annotated[
        Path, typer.Argument(help=r"Scenario file with a table \[sensitivity].", metavar="SCENARIO.toml")
    ],
    truth: Truths = None,
) -> Document:
    """How far the answers move with prior, budget, siblings and beliefs, under both truths."""
    read = read_scenario(scenario, truth)
    return sensitivity_answer.document(read, sensitivity_answer.solve(read))
