"""`adversary spine`: posteriors of every unit of a Noisy Measurement File, and of one more person in every block."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from adversary._core import DEFAULT_FAILURE, check_positive, check_probability, check_whole
from adversary.census import spine
from adversary.census.nmf.runs import FORMS, RunInput, leaf_prior, run, write_blocks_csv
from adversary.census.report import spine_answer, spine_block, spine_page
from adversary.report.commands.options import (
    COMPILED,
    Directory,
    Output,
    Product,
    Scheduler,
    Workers,
    ended_as_interrupted,
    extras,
    one_line_errors,
    with_output,
)
from adversary.report.commands.options import directory as made_directory
from adversary.report.kit import Answer


@with_output
def spine_command(
    directory: Directory,
    output: Output,
    query: Annotated[
        str | None,
        typer.Option(
            help='A query of the file, such as TOTAL or "HISPANIC*CENRACE".', show_default="with --block: every one"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for Parquet files, blocks.csv, report.html, data.nc, tables and figures; needed but for "
            "--block.",
            metavar="DIR",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            help="One block by its GEOID: every cell and query of it, and persons beside housing units.",
            metavar="GEOID",
        ),
    ] = None,
    households: Annotated[
        Path | None,
        typer.Option(
            help="With --block: CSV file of published households by size, columns geocode, size, noisy and variance.",
            metavar="FILE",
        ),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv/--no-csv", help="Write blocks.csv: every block and cell, one row each.")
    ] = True,
    cell: Annotated[
        list[str] | None,
        typer.Option(
            help="A cell of the query: its number, one number per axis such as 0,1,0,2, or in words such as "
            "'Hispanic, 18 and over'; may be repeated; all.",
            show_default="the only one",
        ),
    ] = None,
    queries: Annotated[
        str, typer.Option(help="What is read: one, the query alone; or all, for estimates of its cells from all.")
    ] = "one",
    prior: Annotated[float, typer.Option(help="An adversary's prior that one more person is in the block.")] = 0.1,
    known: Annotated[
        str | None,
        typer.Option(
            help="How many others the adversary knows to be in the block's cell: a CSV file with columns geocode and "
            "known, or one number for all blocks.",
            metavar="FILE|N",
            show_default="not known: they follow the prior",
        ),
    ] = None,
    mistaken: Annotated[
        float, typer.Option(help="Posterior probability below which what is known is taken to be wrong.", metavar="P")
    ] = 0.001,
    product: Product = None,
    state: Annotated[str | None, typer.Option(help="FIPS code of one state, such as 44.", metavar="SS")] = None,
    county: Annotated[str | None, typer.Option(help="FIPS code of one county, such as 44007.", metavar="SSCCC")] = None,
    root: Annotated[str | None, typer.Option(help="Geocode of one unit of the file.", metavar="GEOCODE")] = None,
    totals: Annotated[
        Path | None,
        typer.Option(
            "--state-totals",
            help="CSV file of exact state totals: columns state, name, population.",
            show_default="beside the file, or of the 2020 Census",
        ),
    ] = None,
    leaves: Annotated[
        str, typer.Option("--leaf-prior", help=f"Of the counts of blocks: {FORMS}.", metavar="PRIOR")
    ] = "shared-rate",
    threshold: Annotated[
        list[float], typer.Option(help="Ratio of posterior to prior to count blocks above; may be repeated.")
    ] = [*spine_answer.THRESHOLDS],  # noqa: B006
    failure: Annotated[
        float, typer.Option(help="Probability with which the bound may fail.", metavar="P")
    ] = DEFAULT_FAILURE,
    level: Annotated[str, typer.Option(help="Level whose units are done one by one.")] = "County",
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a DIR that has results of the same work.")] = False,
) -> None:
    """The exact posterior of every count of a geographic spine, and what it reveals about one person by block.

    Parquet files by county, a CSV file of all blocks, and one page, with its numbers and tables, for all cells. With
    --block, one block only: every cell and query of it, and persons beside housing units.
    """
    with one_line_errors(interrupted="go on with --resume"), ended_as_interrupted():
        if households is not None and block is None:
            raise ValueError("--households stands beside the persons of one block: name it with --block GEOID")
        if block is None and (query is None or out is None):
            missing = "--query" if query is None else "--out"
            raise ValueError(f"{missing} must be given, or one block with --block GEOID")
        run_input = RunInput(
            str(directory), query or "total", _cells(cell), leaf_prior(leaves), prior, _parse_known(known),
            mistaken, level=level, product=product, root=root, state=state, county=county,
            totals=None if totals is None else str(totals), queries=queries,
        )  # fmt: skip
        thresholds = check_positive("--threshold", threshold)
        failure_probability = float(check_probability("--failure", failure))
        if block is not None:
            wanted = [query] if query is not None else []
            with extras(), made_directory(out):
                answer = spine_block.solve_block(run_input, block, None if query and cell else wanted, households)
                output.deliver(Answer(answer, spine_block.document))
            return
        assert out is not None
        with extras():
            finished = run(run_input, out, resume=resume, scheduler=scheduler, workers=workers, progress=True)
        if as_csv:
            write_blocks_csv(finished, out / "blocks.csv")
        tree, drawn = spine_answer.solve(run_input, finished, thresholds.tolist(), failure_probability)
        output.deliver(Answer(tree, partial(spine_page.document, drawn=drawn)))


def _cells(texts: list[str] | None) -> Any:
    """Parse --cell: None, "all", or a list of flat indices, tuples and labels."""
    if not texts or texts == ["all"]:
        return texts and "all"
    cells: list[Any] = []
    for text in texts:
        parts = text.strip().split(",")
        if all(part.strip().isdigit() for part in parts):
            places = tuple(int(part) for part in parts)
            cells.append(places[0] if len(places) == 1 else places)
        elif any(letter.isalpha() for letter in text):
            cells.append(text.strip())
        else:
            raise ValueError(
                f"--cell must be a number, such as 5, one per axis, such as 0,1,0,2, or words, got {text!r}"
            )
    return cells


def _parse_known(text: str | None) -> int | str | None:
    """Parse --known: None, a number, or the path of a file."""
    try:
        return None if text is None else int(check_whole("--known", float(text), minimum=0))
    except ValueError:
        if text is None or not Path(text).is_file():
            rule = "must be a CSV file with columns geocode and known, or a whole number of people"
            raise ValueError(f"--known {rule}, got {text!r}") from None
        return text


def compile_ahead() -> None:
    """Compile the functions of `census.spine` for this machine into the disk cache."""
    tree = spine.Tree.of({"county": None, "group": "county", "a": "group", "b": "group"})
    posterior = spine.posterior(tree, [2, 2, 1, 1], 0.5)
    posterior.membership(known=1)
    posterior.hdi()
    spine.upward_message(tree, [2, 2, 1, 1], 0.5)


COMPILED.append(compile_ahead)
