"""`adversary spine`: every unit of a Noisy Measurement File at once, and what readers learn in every block."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from adversary._core import check_positive, check_probability, finite, numbers, save_bytes
from adversary.desk.commands.options import Json as Json
from adversary.desk.commands.options import Scheduler as Scheduler
from adversary.desk.commands.options import Workers as Workers
from adversary.desk.commands.options import extras, number, one_line_errors, several
from adversary.desk.kit import json_text, screen, tell
from adversary.desk.report import write_reports
from adversary.desk.report.spine_page import warnings
from adversary.nmf.runs import FAILURE, FORMS, QUANTILES, Findings, Question, Run, cells_of, leaf_prior, of_cell, run

THRESHOLDS = (2.0,)
WORST = 10
EXACT = (
    "exact counts on the way: with them fixed, one person here is one less elsewhere, and both places are measured; "
    "rho is doubled"
)


def summary(question: Question, made: Run, thresholds: Any = THRESHOLDS, failure: float = FAILURE) -> dict[str, Any]:
    """Numbers of a run: by cell, the quantiles of the leaves' ratios, shares above thresholds, bound, worst leaves.

    The files are read one after the other, see `spine_findings`; the page is written from the same findings.

    thresholds : ratios of posterior to prior
    failure : probability with which the guarantee's bound may fail
    """
    files, above, read = made.files, made.above, made.read
    labels = dict(zip(read.cells.tolist(), read.labels, strict=True))
    return {
        "directory": question.directory,
        "out": str(made.out),
        **question.parameters,
        "pieces": len(made.pieces),
        "kept": list(made.kept),
        "damaged": list(made.damaged),
        "exact": list(read.exact),
        "notes": list(read.notes),
        "by_cell": [
            {
                "cell": cell,
                "label": labels[cell],
                "log_evidence": None if above is None else finite(np.ravel(above.log_evidence)[i]),
                **_of_cell(found, question, thresholds),
                "warnings": warnings(question, made, found, failure),
            }
            for i, cell in enumerate(cells_of(files))
            for found in [of_cell(files, cell, failure)]
        ],
    }


def _of_cell(found: Findings, question: Question, thresholds: Any) -> dict[str, Any]:
    promised, ratios = found.promised, found.ratios
    nothing = not np.isfinite(promised.rho)
    least, most = promised.ratio(question.prior)
    below, above = found.beyond(question.prior)
    spread = numbers(np.quantile(ratios, QUANTILES)) if ratios.size else [None] * len(QUANTILES)
    return {
        "leaves": found.leaves,
        "answered": int(ratios.size),
        "status": found.status,
        "dropped": found.dropped,
        "ratio_quantiles": spread,
        "thresholds": [{"ratio": float(t), "share": found.at_least(t)} for t in thresholds],
        "bound": {
            "definition": promised.guarantee.definition,
            "rho": None if nothing else promised.total,
            "failure": promised.failure,
            "least": least,
            "ratio": most,
            "below": below,
            "share": above,
            "unprotected": found.unprotected,
            "note": EXACT if promised.records > 1 else "",
        },
        "worst": _rows(found.worst, ("noisy", "mean", "posterior", "ratio")),
        "mistaken": _rows(found.mistaken, ("noisy", "mean", "known", "tail")),
        "exact": {name: one.exact for name, one in found.levels.items() if one.exact},
    }


def _rows(table: dict[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some rows of blocks, ready for JSON."""
    return [
        {name: str(table[name][i]) for name in ("geocode", "name", "status") if name in table and table[name][i]}
        | {name: finite(table[name][i]) for name in names}
        for i in range(min(WORST, len(table.get("geocode", ()))))
    ]


SUMMARY = "summary.json"


def spine_command(
    directory: Annotated[Path, typer.Argument(help="Noisy Measurement File, a directory.", metavar="NMF_DIR")],
    query: Annotated[str, typer.Option(help='A query of the file, such as TOTAL or "HISPANIC*CENRACE".')],
    out: Annotated[Path, typer.Option(help="Directory for the results, as Parquet.", metavar="DIR")],
    cell: Annotated[
        list[str] | None,
        typer.Option(
            help="A cell of the query: its number, one number per axis such as 0,1,0,2, or in words such as "
            "'Hispanic, 18 and over'; may be repeated; all.",
            show_default="the only one",
        ),
    ] = None,
    prior: Annotated[str, typer.Option(help="Prior of a block's reader that one more person is there.")] = "0.1",
    known: Annotated[
        str | None,
        typer.Option(
            help="How many others that reader knows to be in the block's cell: a CSV file with columns geocode and "
            "known, or one number for all blocks.",
            metavar="FILE|N",
            show_default="not known: they follow the prior",
        ),
    ] = None,
    mistaken: Annotated[
        str, typer.Option(help="Posterior probability below which what is known is taken to be wrong.", metavar="P")
    ] = "0.001",
    product: Annotated[
        str | None, typer.Option(help="Product folder, where the archive has several, such as US_Person_PL_PROD.")
    ] = None,
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
    with one_line_errors(interrupted="go on with --resume"), _ended_as_interrupted():
        question = Question(
            str(directory), query, _cells(cell), leaf_prior(leaves), number("--prior", prior), _known(known),
            number("--mistaken", mistaken), level=level, product=product, root=root, state=state, county=county,
            totals=None if totals is None else str(totals),
        )  # fmt: skip
        thresholds = check_positive("--threshold", several("--threshold", threshold, THRESHOLDS)).tolist()
        chance = float(check_probability("--failure", number("--failure", failure)))
        with extras():
            made = run(question, out, resume=resume, scheduler=scheduler, workers=workers, progress=True)
        answer: dict[str, Any] = summary(question, made, thresholds, chance)
        save_bytes(out / SUMMARY, json_text(answer).encode())
        pages = write_reports(question, made, failure=chance, thresholds=thresholds)
    tell(answer, _show, as_json)
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
    """None, "all", or a list of flat indices, of tuples, and of labels."""
    if not texts or texts == ["all"]:
        return texts and "all"
    found: list[Any] = []
    for text in texts:
        parts = text.strip().split(",")
        if all(part.strip().isdigit() for part in parts):
            places = tuple(int(part) for part in parts)
            found.append(places[0] if len(places) == 1 else places)
        elif any(letter.isalpha() for letter in text):
            found.append(text.strip())
        else:
            raise ValueError(
                f"--cell must be a number, such as 5, one per axis, such as 0,1,0,2, or words, got {text!r}"
            )
    return found


def _known(text: str | None) -> int | str | None:
    """Nothing, a number, or a file."""
    return int(text) if text is not None and text.strip().isdigit() else text


def _show(answer: dict[str, Any], console: Console) -> None:
    """Print it."""
    for name in answer["damaged"]:
        console.print(Text(f"{name}: its file was damaged, and was made anew"))
    for one in answer["by_cell"]:
        console.print(
            Text(
                f"{answer['query']}, cell {one['cell']} ({one['label']}): {one['leaves']:,} leaves in "
                f"{answer['pieces']} pieces"
            )
        )
        ledger = f"mass left out at most {one['dropped']:.1e}"
        evidence = one["log_evidence"]
        console.print(Text(ledger if evidence is None else f"log evidence {evidence:.6f}; {ledger}"))
        title = f"posterior / prior of one more person, prior {answer['prior']:g}, {_others(answer['known'])}"
        table = screen.table(title, (), [f"{100 * q:g} %" for q in QUANTILES])
        screen.add(table, *(_number(x) for x in one["ratio_quantiles"]))
        screen.put(table, console)
        bound = one["bound"]
        shares = screen.table("leaves at or above", ("ratio",), ("value", "share"))
        for row in one["thresholds"]:
            screen.add(shares, "threshold", f"{row['ratio']:g}", f"{100 * row['share']:.2f} %")
        name = f"bound, {bound['definition']}, failure {bound['failure']:g}"
        screen.add(shares, name, f"{bound['ratio']:.4g}", f"{100 * bound['share']:.2f} %")
        screen.put(shares, console)
        for line in (bound["note"], _apart(bound["unprotected"])):
            if line:
                console.print(Text(line))
        worst = screen.table("largest", ("geocode", "status"), ("noisy", "mean", "posterior", "ratio"))
        for row in one["worst"]:
            numbers = (row[name] for name in ("noisy", "mean", "posterior", "ratio"))
            screen.add(worst, row.get("name", row["geocode"]), row["status"], *(_number(x) for x in numbers))
        screen.put(worst, console)
        if one["mistaken"]:
            wrong = screen.table("readers mistaken", ("block",), ("noisy", "mean", "known", "probability"))
            for row in one["mistaken"]:
                numbers = (row[name] for name in ("noisy", "mean", "known", "tail"))
                screen.add(wrong, row.get("name", row["geocode"]), *(_number(x) for x in numbers))
            screen.put(wrong, console)
        status = ", ".join(f"{number:,} {word}" for word, number in one["status"].items())
        exact = ", ".join(f"{number:,} at level {name}" for name, number in one["exact"].items())
        console.print("", Text(f"answers: {status}"), *[Text(f"exact counts: {exact}")] * bool(exact), sep="\n")
        screen.show_warnings(one["warnings"], console)
    console.print(*(Text(f"exact: {one}") for one in answer["exact"]), sep="\n")
    console.print(*(Text(f"note: {note}") for note in answer["notes"]), sep="\n")


def _others(known: Any) -> str:
    """What the reader knows of the others, in a few words."""
    return "others unknown" if known is None else f"{known} known" if isinstance(known, int) else f"others from {known}"


def _apart(unprotected: int) -> str:
    return f"no noise protects {unprotected:,} leaves, of which exact counts tell all; the bound is not about them" * (
        unprotected > 0
    )


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4g}"
