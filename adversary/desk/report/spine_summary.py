"""What a run over a whole spine found, in a few numbers: evidence, ledger, and what readers learn about each leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._core import finite, numbers
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
        "worst": [
            {name: str(found.worst[name][i]) for name in ("geocode", "status")}
            | {name: finite(found.worst[name][i]) for name in ("noisy", "mean", "posterior", "ratio")}
            for i in range(min(WORST, len(found.worst.get("ratio", ()))))
        ],
        "notes": list(found.notes),
    }
