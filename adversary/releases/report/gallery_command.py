"""`adversary gallery`: real releases, each with the most that its guarantee lets an adversary conclude."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from adversary._core import check_probability
from adversary.releases.audited_records import PRIORS, gallery
from adversary.releases.record_file import read, records
from adversary.releases.report import gallery_answer
from adversary.report.commands import options
from adversary.report.kit import Answer


@options.answering()
def gallery_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Records of your own (TOML) or of the deployments registry (YAML), in place of those that come with "
            "the toolkit.",
            metavar="[RECORD]...",
        ),
    ] = None,
    prior: options.Priors = [*PRIORS],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Seed of scenarios that are simulated.")] = options.SEED,
) -> Answer:
    """Real releases: how far the guarantee of each lets a belief rise, and what one adversary expects."""
    check_probability("--prior", prior)
    for file in files or ():
        if not (file.suffix or file.exists()):
            raise ValueError(
                f"{file} must be a file of a record of your own, such as mine.toml: those that come with the toolkit "
                "are shown without it, every one with --full"
            )
    with options.extras():
        named = gallery_answer.named([read(file) for file in files]) if files else records()
    tree = gallery_answer.solve(named, gallery(named, prior, seed), own=bool(files))
    return Answer(tree, partial(gallery_answer.document, named))
