"""`adversary compare` and `sensitivity`: two audits side by side, and one with other inputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adversary.driver import ENGINES
from adversary.report.answers import audit_answer, comparison
from adversary.report.commands import options
from adversary.report.commands.tables_command import solve_file
from adversary.report.files import load_tables_file, read_toml
from adversary.report.kit import Answer
from adversary.report.sections import sensitivity_sections as sensitivity_answer


@options.answering()
def compare_command(
    first: Annotated[Path, typer.Argument(help="Scenario file, or one of several tables (TOML).", metavar="A.toml")],
    second: Annotated[Path, typer.Argument(help="Another.", metavar="B.toml")],
    engine: Annotated[str, typer.Option(help=f"How to compute: {', '.join(ENGINES)}.")] = "exact",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = options.SEED,
) -> Answer:
    """Two audits side by side: the same scenario with other noise, other neighbours or another adversary."""
    if first.resolve() == second.resolve():
        raise ValueError(f"{first}: give two different scenarios, got the same file twice")
    both = [("data" in read_toml(path)) for path in (first, second)]
    if all(both):
        if engine != "exact":
            raise ValueError("--engine goes with two scenarios: leave it out for files of several tables")
        files = comparison.named([load_tables_file(path) for path in (first, second)])
        trees = {n: solve_file(one, {}, one.adversary, failure=one.failure, rng=seed) for n, one in files.items()}
        return Answer(comparison.solve_tables(trees), partial(comparison.tables_document, files))
    if any(both):
        raise ValueError(f"{first} and {second}: must be of one kind, two scenarios or two files of several tables")
    read = comparison.named([options.read_scenario(path, None) for path in (first, second)])
    with options.extras():
        audits = {n: (one, audit_answer.solve(one, whole=False, engine=engine, rng=seed)) for n, one in read.items()}
    return Answer(comparison.solve(audits), partial(comparison.document, audits))


@options.answering("scenario")
def sensitivity_command(
    scenario: Annotated[
        Path, typer.Argument(help=r"Scenario file with a table \[sensitivity].", metavar="SCENARIO.toml")
    ],
    truth: options.Truths = None,
) -> Answer:
    """How far the answers move with prior, budget, siblings and beliefs."""
    read = options.read_scenario(scenario, truth)
    return Answer(sensitivity_answer.solve(read), partial(sensitivity_answer.document, read))
