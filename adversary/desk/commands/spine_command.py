"""`adversary spine`: every unit of a Noisy Measurement File at once, and what readers learn in every block."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from adversary._core import check_positive, check_probability, save_bytes
from adversary.desk.commands.options import Json as Json
from adversary.desk.commands.options import Scheduler as Scheduler
from adversary.desk.commands.options import Workers as Workers
from adversary.desk.commands.options import extras, number, several, told
from adversary.desk.kit import json_text, tell
from adversary.desk.report import THRESHOLDS, show, summary, write_reports
from adversary.nmf.runs import FORMS, Question, leaf_prior, run

SUMMARY = "summary.json"


def spine_command(
    directory: Annotated[Path, typer.Argument(help="Noisy Measurement File, a directory.", metavar="NMF_DIR")],
    query: Annotated[str, typer.Option(help='A query of the file, such as TOTAL or "HISPANIC*CENRACE".')],
    out: Annotated[Path, typer.Option(help="Directory for the results, as Parquet.", metavar="DIR")],
    cell: Annotated[
        list[str] | None,
        typer.Option(
            help="A cell of the query: its number, or one number per attribute such as 0,1,0,2; may be repeated; all.",
            show_default="the only one",
        ),
    ] = None,
    prior: Annotated[str, typer.Option(help="Prior of a block's reader that one more person is there.")] = "0.1",
    known: Annotated[int, typer.Option(help="How many others that reader knows to be in the block's cell.")] = 0,
    leaves: Annotated[
        str, typer.Option("--leaf-prior", help=f"Of the counts of blocks: {FORMS}.", metavar="PRIOR")
    ] = "shared-rate",
    threshold: Annotated[
        list[str] | None,
        typer.Option(help="Ratio of posterior to prior to count blocks above; may be repeated.", show_default="2"),
    ] = None,
    failure: Annotated[str, typer.Option(help="Probability with which the bound may fail.", metavar="P")] = "0.05",
    level: Annotated[str, typer.Option(help="Level whose units are done one by one.")] = "County",
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a DIR that has results of the same work.")] = False,
    as_json: Json = False,
) -> None:
    """The exact posterior of every count of a spine, and what a reader learns about one person in every block.

    Parquet files by county, a summary as JSON, and a page for every cell.
    """
    with told(interrupted="go on with --resume"), _ended_as_interrupted():
        question = Question(
            str(directory), query, _cells(cell), leaf_prior(leaves), number("--prior", prior), known, level=level
        )
        thresholds = check_positive("--threshold", several("--threshold", threshold, THRESHOLDS)).tolist()
        chance = float(check_probability("--failure", number("--failure", failure)))
        with extras():
            made = run(question, out, resume=resume, scheduler=scheduler, workers=workers, progress=True)
        answer: dict[str, Any] = summary(question, made, thresholds, chance)
        save_bytes(out / SUMMARY, json_text(answer).encode())
        pages = write_reports(question, made, failure=chance, thresholds=thresholds)
    tell(answer, show, as_json)
    for name in made.damaged if as_json else ():
        print(f"{name}: its file was damaged, and was made anew", file=sys.stderr)
    print(f"results in {out}, to be read in {', '.join(str(page) for page in pages)}", file=sys.stderr)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """What ends the process by SIGTERM ends it as Ctrl-C does: workers go with it, and it is said how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _cells(texts: list[str] | None) -> Any:
    """None, "all", or a list of flat indices and of tuples."""
    if not texts or texts == ["all"]:
        return texts and "all"
    try:
        read = [json.loads(f"[{text}]") for text in texts]
    except ValueError:
        read = []
    if not read or not all(part and all(type(i) is int for i in part) for part in read):
        raise ValueError(f"--cell must be a number, such as 5, or one per attribute, such as 0,1,0,2, got {texts}")
    return [part[0] if len(part) == 1 else tuple(part) for part in read]
