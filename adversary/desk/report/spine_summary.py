"""What a run over a whole spine found, in a few numbers: evidence, ledger, and what readers learn about each leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from adversary.desk.kit import screen as tables
from adversary.desk.report.spine_page import warnings
from adversary.nmf.runs import FAILURE, QUANTILES, Findings, Question, Run, cells_of, of_cell

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
    files, above = made.files, made.above
    return {
        "directory": question.directory,
        "out": str(made.out),
        **question.parameters,
        "pieces": len(made.pieces),
        "kept": list(made.kept),
        "damaged": list(made.damaged),
        "by_cell": [
            {
                "cell": cell,
                "log_evidence": None if above is None else tables.finite(np.ravel(above.log_evidence)[i]),
                **_of_cell(found, question, thresholds),
                "warnings": warnings(question, made, found, failure),
            }
            for i, cell in enumerate(cells_of(files))
            for found in [of_cell(files, cell, failure)]
        ],
    }


def show(answer: dict[str, Any], console: Console) -> None:
    """Print it."""
    for name in answer["damaged"]:
        console.print(Text(f"{name}: its file was damaged, and was made anew"))
    for one in answer["by_cell"]:
        console.print(
            Text(f"{answer['query']}, cell {one['cell']}: {one['leaves']:,} leaves in {answer['pieces']} pieces")
        )
        ledger = f"mass left out at most {one['dropped']:.1e}"
        evidence = one["log_evidence"]
        console.print(Text(ledger if evidence is None else f"log evidence {evidence:.6f}; {ledger}"))
        title = f"posterior / prior of one more person, prior {answer['prior']:g}, {answer['known']} known"
        table = tables.table(title, (), [f"{100 * q:g} %" for q in QUANTILES])
        tables.add(table, *(_number(x) for x in one["ratio_quantiles"]))
        tables.put(table, console)
        bound = one["bound"]
        shares = tables.table("leaves at or above", ("ratio",), ("value", "share"))
        for row in one["thresholds"]:
            tables.add(shares, "threshold", f"{row['ratio']:g}", f"{100 * row['share']:.2f} %")
        told = f"bound, {bound['definition']}, failure {bound['failure']:g}"
        tables.add(shares, told, f"{bound['ratio']:.4g}", f"{100 * bound['share']:.2f} %")
        tables.put(shares, console)
        for line in (bound["note"], _apart(bound["unprotected"])):
            if line:
                console.print(Text(line))
        worst = tables.table("largest", ("geocode", "status"), ("noisy", "mean", "posterior", "ratio"))
        for row in one["worst"]:
            numbers = (row[name] for name in ("noisy", "mean", "posterior", "ratio"))
            tables.add(worst, row["geocode"], row["status"], *(_number(x) for x in numbers))
        tables.put(worst, console)
        told = ", ".join(f"{number:,} {word}" for word, number in one["status"].items())
        console.print("", Text(f"answers: {told}"), *(Text(f"note: {note}") for note in one["notes"]), sep="\n")
        tables.show_warnings(one["warnings"], console)


def _apart(unprotected: int) -> str:
    return f"no noise protects {unprotected:,} leaves, of which exact counts tell all; the bound is not about them" * (
        unprotected > 0
    )


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4g}"


def _of_cell(found: Findings, question: Question, thresholds: Any) -> dict[str, Any]:
    promised, ratios = found.promised, found.ratios
    nothing = not np.isfinite(promised.rho)
    least, most = promised.ratio(question.prior)
    below, above = found.beyond(question.prior)
    spread = tables.numbers(np.quantile(ratios, QUANTILES)) if ratios.size else [None] * len(QUANTILES)
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
        "worst": [
            {name: str(found.worst[name][i]) for name in ("geocode", "status")}
            | {name: tables.finite(found.worst[name][i]) for name in ("noisy", "mean", "posterior", "ratio")}
            for i in range(min(WORST, len(found.worst.get("ratio", ()))))
        ],
        "notes": list(found.notes),
    }
