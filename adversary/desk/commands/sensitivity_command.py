"""`adversary sensitivity`: how the answers change with prior, budget, siblings and beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adversary.desk.commands.options import (
    Json,
    Truths,
    directory,
    one_line_errors,
    print_answer,
    read_scenario,
)
from adversary.desk.kit import audit_words, safe_names
from adversary.desk.report import sensitivity_section


def sensitivity_command(
    scenario: Annotated[
        Path, typer.Argument(help=r"Scenario file with a table \[sensitivity].", metavar="SCENARIO.toml")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory for figures, SVG and PNG, and sensitivity.nc.", metavar="DIR")
    ] = None,
    as_json: Json = False,
    truth: Truths = None,
) -> None:
    """How far the answers move with prior, budget, siblings and beliefs, under both truths."""
    with one_line_errors(scenario), directory(out) as folder:
        read = read_scenario(scenario, truth)
        every = {name: sensitivity_section.run_sweeps(one) for name, one in audit_words.truths(read).items()}
        if folder is not None:
            from adversary.desk.answers import figure_files

            files = safe_names(every)
            drawn = {
                "_".join(filter(None, [files[name], figure])): draw
                for name, gone in every.items()
                for figure, (draw, _) in sensitivity_section.figures_of(gone).items()
            }
            figure_files.write(
                figure_files.of_sweeps(drawn), folder, sensitivity_section.data_of(every), "sensitivity.nc"
            )
        answer = sensitivity_section.answers(read, every)
    print_answer(answer, lambda _, to: sensitivity_section.show_every(every, to), out, as_json)
