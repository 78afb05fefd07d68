"""`adversary infer`: from noisy statistics, in a release file, to the real ones, with the bounds for free."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from adversary.desk.answers import bounded_answer, regression_answer
from adversary.desk.commands.options import Json, directory, number, one_line_errors
from adversary.desk.files import RegressionFile, load_any_release_file, parse_prior
from adversary.desk.kit import tell


def infer_command(
    release: Annotated[Path, typer.Argument(help="Release file (TOML).", metavar="RELEASE.toml")],
    prior: Annotated[
        str | None,
        typer.Option(help='"flat", or mu0,kappa0,nu0,s0 such as 12.5,1,1,3.8; else as the file says.', metavar="PRIOR"),
    ] = None,
    prob: Annotated[
        str | None, typer.Option(help="Probability of every interval; else as the file says.", metavar="P")
    ] = None,
    unconstrained: Annotated[
        bool, typer.Option("--unconstrained", help="Ignore the bounds, except in the comparison.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Directory for figures, SVG and PNG, and posterior.nc.", metavar="DIR")
    ] = None,
    as_json: Json = False,
) -> None:
    """The real mean and deviation behind noisy ones, or the line behind noisy sums, with the bounds for free."""
    with one_line_errors(release), directory(out) as folder:
        with _noted() as notes:
            believed = None if prior is None else parse_prior(prior)
            chance = None if prob is None else number("--prob", prob)
            file = load_any_release_file(release).asked(believed, chance, False if unconstrained else None)
            kind: Any = regression_answer if isinstance(file, RegressionFile) else bounded_answer
            worked_out = kind.work_out(file)
        answer = replace(worked_out, notes=tuple(notes))
        found = kind.summary(answer)
        if folder is not None:
            from adversary.desk.answers import figure_files

            figure_files.write(kind.figures(answer), folder, kind.data(answer), "posterior.nc")
    tell(found, kind.show, as_json)
    if out is not None:
        print(f"figures and data in {out}", file=sys.stderr)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Warnings, each once, to be told as notes."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning))
