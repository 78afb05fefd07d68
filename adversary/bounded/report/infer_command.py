"""`adversary infer`: posterior of the exact mean and deviation given noisy ones, or of a regression line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from adversary.bounded.report import bounded_answer, regression_answer
from adversary.bounded.report.regression_file import RegressionFile, load_any_release_file
from adversary.bounded.report.release_file import parse_prior
from adversary.report.commands.options import answering
from adversary.report.kit import Answer, summary_of


@answering("release")
def infer_command(
    release: Annotated[Path, typer.Argument(help="Release file (TOML).", metavar="RELEASE.toml")],
    prior: Annotated[
        str | None,
        typer.Option(help='"flat", or mu0,kappa0,nu0,s0 such as 12.5,1,1,3.8; default: the file\'s.', metavar="PRIOR"),
    ] = None,
    prob: Annotated[
        float | None, typer.Option(help="Probability of every interval; default: the file's.", metavar="P")
    ] = None,
    unconstrained: Annotated[
        bool, typer.Option("--unconstrained", help="Ignore the bounds of the data, except in the comparison.")
    ] = False,
) -> Answer:
    """The posterior of the real mean and deviation behind noisy ones, or of a regression line behind noisy sums."""
    with _collect_warnings() as notes:
        believed = None if prior is None else parse_prior(prior)
        file = load_any_release_file(release).with_options(believed, prob, False if unconstrained else None)
        kind: Any = regression_answer if isinstance(file, RegressionFile) else bounded_answer
        tree, posteriors = kind.solve(file)
    summary = summary_of(tree)
    summary._replace(warnings=[*notes, *summary.warnings]).on(tree)
    return Answer(tree, partial(kind.document, file, posteriors))


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    """Collect UserWarnings of the block as sentences, each once."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    texts = (str(one.message) for one in caught if issubclass(one.category, UserWarning))
    notes += dict.fromkeys(text if text.endswith(("?", ".")) else f"{text}." for text in texts)
