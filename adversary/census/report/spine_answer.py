"""Answer about every block of a Noisy Measurement File: distribution of the risk, worst blocks, guarantee, input.

All groups have the dimension "cell". The answer has sums, quantiles and the worst blocks of each cell, from `Findings`;
the results of each block are in the Parquet files of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary._core import DEFAULT_FAILURE, Floats, ranks_shown, shared_ranks, tied
from adversary.census.nmf.runs import (
    MISTAKEN,
    PROVEN,
    QUANTILES,
    Columns,
    Findings,
    Run,
    RunInput,
    cells_of,
    column,
    of_cell,
)
from adversary.census.report.spine_verdict import SpineVerdict
from adversary.report.kit import Summary

# Ratios of posterior to prior at which blocks are counted.
THRESHOLDS = (2.0,)
PRIORS = (0.01, 0.1, 0.5)
"""Priors for which the bounds of the guarantee are shown, beside the adversary's own."""

# Number of cells with figures; tables have all cells.
DRAWN_CELLS = 3

# Meaning of the status of a block, on the page.
MEANING = {
    "ok": "proven within the tolerance",
    "rerun": "proven after recomputing windows around the known count",
    "certain": "determined by exact counts; no noise protects it",
    "impossible": "the known count contradicts the exact counts",
    MISTAKEN: "the release contradicts the known count; excluded from all other numbers",
    "unresolved": "not proven, so no number is given",
    "loose": "the truncated mass may exceed the tolerance",
}


class Cell(NamedTuple):
    """Cell of the query: flat index, label, summary of its blocks, and log evidence (NaN if unknown)."""

    number: int
    label: str
    findings: Findings
    log_evidence: float = np.nan


def solve(
    run_input: RunInput, finished: Run, thresholds: Sequence[float] = THRESHOLDS, failure: float = DEFAULT_FAILURE
) -> tuple[xr.DataTree, list[Cell]]:
    """Answer from a finished `nmf.runs.run`, see `gather`; one cell of its files is in memory at a time."""
    labels = dict(zip(finished.measurements.cells.tolist(), finished.measurements.labels, strict=True))
    evidence = None if finished.above is None else np.ravel(finished.above.log_evidence)
    cells = (
        Cell(
            number,
            labels[number],
            of_cell(finished.files, number, failure),
            np.nan if evidence is None else float(evidence[i]),
        )
        for i, number in enumerate(cells_of(finished.files))
    )
    about = run_input.parameters | {
        "query": finished.measurements.query,
        "directory": str(run_input.directory),
        "out": str(finished.out),
        "pieces": len(finished.pieces),
        "kept": list(finished.unchanged),
        "damaged": list(finished.damaged),
        "exact": list(finished.measurements.exact),
        "notes": list(finished.measurements.notes),
        "synthetic": finished.measurements.synthetic,
    }
    return gather(cells, about, thresholds, failure)


def gather(
    cells: Iterable[Cell],
    about: Mapping[str, Any],
    thresholds: Sequence[float] = THRESHOLDS,
    failure: float = DEFAULT_FAILURE,
    errors: xr.Dataset | None = None,
) -> tuple[xr.DataTree, list[Cell]]:
    """Tree with the numbers of every cell.

    Parameters
    ----------
    cells : summaries of the cells, iterated once
    about : `query` and `prior` of the adversary, and further inputs, such as `known` (None, a number of others, or
        words), `mistaken`, `prob`, `tolerance`, `leaf_prior`, `exact`, `notes` and `synthetic`
    thresholds : ratios of posterior to prior at which blocks are counted
    failure : failure probability of the guarantee's bounds, over releases
    errors : from `nmf.runs.block_results.errors`, if the true counts are known

    Returns
    -------
    DataTree over "cell" with attributes `about` and groups `cells` (counts and evidence), `risk` (quantile; of the
    blocks that noise protects), `thresholds` (threshold), `statuses` (status), `guarantee`, `bounds` (prior, side),
    `levels` (level), `worst` and `mistaken` (rank), and `errors` (level, estimate) if given; and the first cells, for
    figures
    """
    numbers, parts = [], []
    drawn: list[Cell] = []
    for one in cells:
        numbers.append(one.number)
        parts.append(_numbers(one, float(about["prior"]), thresholds))
        drawn += [one] * (len(drawn) < DRAWN_CELLS)
    names = [name for name in parts[0] if any(part[name].sizes.get("rank") != 0 for part in parts)]
    groups = {
        name: xr.concat([part[name] for part in parts], "cell", join="outer", fill_value=EMPTY).assign_coords(
            cell=numbers
        )
        for name in names
    }
    groups |= {} if errors is None else {"errors": errors}
    tree = xr.DataTree.from_dict(groups)
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in about.items()}
    serialised = {
        name: value if isinstance(value, str | int | float) else json.dumps(value) for name, value in attributes.items()
    }
    tree.attrs = {name: value for name, value in serialised.items() if value != "null"} | {"failure": float(failure)}
    verdict = SpineVerdict(tree)
    Summary(verdict.title, list(tree.children), *verdict.verdict, list(verdict.warnings())).on(tree)
    return tree, drawn


# Fill values for a cell with fewer rows in a group than another cell; numbers are filled with NaN.
EMPTY: dict[Any, Any] = {"geocode": "", "name": "", "status": "", "place": "", "blocks": 0, "one_query_blocks": 0}


def _numbers(cell: Cell, prior: float, thresholds: Sequence[float]) -> dict[str, xr.Dataset]:
    """Datasets by group for one cell, see `gather`."""
    findings, bound = cell.findings, cell.findings.guarantee
    truncation_bound = np.nan if findings.truncation_bound is None else findings.truncation_bound
    error = float(np.nan_to_num(truncation_bound)) / prior if prior else 0.0
    below, above = findings.beyond(prior)
    spread = _quantiles(findings.ratios[findings.protected])
    risk = {"ratio": spread, "posterior": np.minimum(spread * prior, 1.0)}
    further_columns, has_all_queries = [], bool(findings.single_query_status)
    if has_all_queries:  # all queries were read
        risk["one_query_ratio"], further_columns = (
            _quantiles(findings.single_query_ratios[findings.protected]),
            ["one_query_posterior"],
        )
    levels = xr.Dataset(
        {name: ("level", [getattr(one, name) for one in findings.levels.values()]) for name in COUNTED},
        {"level": list(findings.levels)},
    )
    squares = {"exact_error": ("moved", "replaced"), "shift": ("squares", "measured")}
    for name, (total, number) in squares.items():
        means = [getattr(one, total) / (getattr(one, number) or np.nan) for one in findings.levels.values()]
        levels[name] = ("level", np.sqrt(means))
    deviations = [np.sqrt(one.variance) if one.measured else (np.nan, np.nan) for one in findings.levels.values()]
    levels["least_sd"], levels["largest_sd"] = (("level", [pair[i] for pair in deviations]) for i in (0, 1))
    priors = sorted({*PRIORS, prior})
    names = list(dict.fromkeys([*MEANING, *findings.status, *findings.single_query_status]))
    counts = {"blocks": findings.status} | (
        {"one_query_blocks": findings.single_query_status} if has_all_queries else {}
    )
    return {
        "cells": xr.Dataset(
            {
                "label": cell.label, "leaves": findings.leaves, "answered": findings.ratios.size,
                "most": int(tied(findings.ratios, error).sum()),
                "unprotected": findings.unprotected, "log_evidence": cell.log_evidence,
                "unproven": sum(n for name, n in findings.status.items() if name not in (*PROVEN, MISTAKEN)),
                "surely_there": int((findings.ratios[~findings.protected] * prior >= 1.0).sum()),
                "truncation_bound": ((), truncation_bound, {"direction": "upper"}),
            }
        ),
        "risk": xr.Dataset(
            {name: ("quantile", values) for name, values in risk.items()}, {"quantile": list(QUANTILES)}
        ),
        "thresholds": xr.Dataset(
            {"share": ("threshold", [findings.at_least(x) for x in thresholds])}, {"threshold": list(thresholds)}
        ),
        "statuses": xr.Dataset(
            {name: ("status", [of.get(x, 0) for x in names]) for name, of in counts.items()}, {"status": names}
        ),
        "guarantee": xr.Dataset(
            {
                "definition": bound.guarantee.definition, "path_rho": bound.rho, "records": bound.records,
                "rho": bound.total, "share_below": below, "share_above": above,
            }
        ),
        "bounds": xr.Dataset(
            {
                "posterior": (("prior", "side"), [bound.posterior(p) for p in priors]),
                "ratio": (("prior", "side"), [bound.ratio(p) for p in priors]),
            },
            {"prior": priors, "side": ["lower", "upper"]},
        ),
        "levels": levels,
        "worst": _rank_rows(
            findings.worst, ("noisy", "mean", "hdi_lower", "hdi_upper", "posterior", "ratio", *further_columns), error
        ),
        "mistaken": _rank_rows(findings.mistaken, ("noisy", "mean", "known", "tail")),
    }  # fmt: skip


def _quantiles(ratios: Floats) -> Floats:
    """Quantiles of ratios at `QUANTILES`; NaN if a ratio is NaN, or if there are none."""
    return np.asarray(np.quantile(ratios if ratios.size else np.array([np.nan]), QUANTILES), dtype=np.float64)


COUNTED = ("units", "measured", "exact", "bounded", "replaced", "below")


def _rank_rows(table: Columns, numbers: Sequence[str], error: float = 0.0) -> xr.Dataset:
    """Dataset of blocks over "rank"; "place" is the rank in words, shared by ratios that agree within the error.

    table : columns of the blocks, in order; numbers : names of numeric columns
    """
    size = len(table.get("geocode", ()))
    columns: dict[str, Any] = {}
    for name in ("geocode", "name", "status"):
        words = table.get(name, [""] * size)
        columns[name] = ("rank", np.array(["" if one is None else str(one) for one in words], dtype=str))
    for name in numbers:
        values = column(table, name).astype(np.float64) if name in table else np.full(size, np.nan)
        columns[name] = ("rank", values)
    ranks = shared_ranks(columns["ratio"][1], error) if "ratio" in columns else range(1, size + 1)
    columns["place"] = ("rank", np.array(ranks_shown(ranks), dtype=str))
    return xr.Dataset(columns, {"rank": np.arange(1, size + 1)})
