"""What a run over a whole spine found, in a few numbers: evidence, ledger, and what readers learn about each leaf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from adversary.desk import tables
from adversary.desk.nmf_layout import arrow
from adversary.desk.spine_results import FAILURE, QUANTILES, Promise, statuses
from adversary.desk.spine_runs import Question, Run

THRESHOLDS = (2.0,)
WORST = 10
READ = ("geocode", "cell", "noisy", "variance", "mean", "posterior", "ratio", "status", "dropped")
EXACT = (
    "exact counts on the way: with them fixed, one person here is one less elsewhere, and both places are measured; "
    "rho is doubled"
)


def summary(question: Question, made: Run, thresholds: Any = THRESHOLDS, failure: float = FAILURE) -> dict[str, Any]:
    """Numbers of a run: by cell, the quantiles of the leaves' ratios, shares above thresholds, bound, worst leaves.

    thresholds : ratios of posterior to prior
    failure : probability with which the guarantee's bound may fail
    """
    leaves = _leaves(made.pieces.values())
    cells = np.unique(leaves["cell"]).astype(int).tolist()
    above = made.above
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
                **_of_cell({k: v[leaves["cell"] == cell] for k, v in leaves.items()}, question, thresholds, failure),
            }
            for i, cell in enumerate(cells)
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
        shares = tables.table("leaves above", ("ratio",), ("value", "share"))
        for row in one["thresholds"]:
            tables.add(shares, "threshold", f"{row['ratio']:g}", f"{100 * row['share']:.2f} %")
        told = f"bound, {bound['definition']}, failure {bound['failure']:g}"
        tables.add(shares, told, f"{bound['ratio']:.4g}", f"{100 * bound['share']:.2f} %")
        tables.put(shares, console)
        if bound["note"]:
            console.print(Text(bound["note"]))
        worst = tables.table("largest", ("geocode", "status"), ("noisy", "mean", "posterior", "ratio"))
        for row in one["worst"]:
            numbers = (row[name] for name in ("noisy", "mean", "posterior", "ratio"))
            tables.add(worst, row["geocode"], row["status"], *(_number(x) for x in numbers))
        tables.put(worst, console)
        told = ", ".join(f"{number:,} {word}" for word, number in one["status"].items())
        console.print("", Text(f"answers: {told}"), sep="\n")


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4g}"


def _leaves(files: Any) -> dict[str, Any]:
    """Columns of all leaves, a file at a time."""
    pa = arrow()
    names = [*READ, "path_rho", "path_exact"]
    is_leaf = pa.compute.is_valid(pa.compute.field("path_rho"))
    parts = [pa.parquet.ParquetFile(Path(file)).read(columns=names).filter(is_leaf) for file in files]
    whole = pa.concat_tables(parts)
    return {name: whole[name].to_numpy() for name in names}


def _of_cell(leaves: dict[str, Any], question: Question, thresholds: Any, failure: float) -> dict[str, Any]:
    ratio = leaves["ratio"].astype(np.float64)
    answered = ratio[~np.isnan(ratio)]
    exact, known = bool(leaves["path_exact"].any()), bool((leaves["variance"] == 0).any())
    promised = Promise(np.inf if known else float(leaves["path_rho"].max()), 2 if exact else 1, failure)
    limit = promised.ratio(question.prior)[1]
    order = np.argsort(np.where(np.isnan(ratio), -np.inf, -ratio), kind="stable")
    worst = [i for i in order if not np.isnan(ratio[i])][:WORST]
    spread = tables.numbers(np.quantile(answered, QUANTILES)) if answered.size else [None] * len(QUANTILES)
    return {
        "leaves": int(ratio.size),
        "answered": int(answered.size),
        "status": statuses(leaves),
        "dropped": float(leaves["dropped"].max()),
        "ratio_quantiles": spread,
        "thresholds": [{"ratio": float(t), "share": _share(answered, t)} for t in thresholds],
        "bound": {
            "definition": promised.guarantee.definition,
            "rho": None if known else promised.records * promised.rho,
            "failure": failure,
            "ratio": limit,
            "share": _share(answered, limit),
            "note": EXACT if exact and not known else "",
        },
        "worst": [
            {name: str(leaves[name][i]) for name in ("geocode", "status")}
            | {name: tables.finite(leaves[name][i]) for name in ("noisy", "mean", "posterior", "ratio")}
            for i in worst
        ],
    }


def _share(ratios: Any, above: float) -> float:
    return float((ratios > above).mean()) if ratios.size else 0.0
