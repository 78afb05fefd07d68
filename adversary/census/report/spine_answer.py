"""Every block of a Noisy Measurement File: how the risk is spread, the worst blocks, the guarantee, what was read.

Cells of a query stand beside one another in every table. Of a cell only sums, quantiles and the worst blocks are kept,
as `Findings` has them; what was found in each block is in the Parquet files of the run.
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
"""For which the guarantee's bounds are shown, beside the adversary's own."""

# Cells whose figures are drawn; tables have all.
DRAWN_CELLS = 3

# What a block's status means.
MEANING = {
    "ok": "found, and proven to the tolerance",
    "rerun": "found and proven in a second run, with windows about what the adversary knows",
    "certain": "settled by counts that are published exactly; no noise protects it",
    "impossible": "what the adversary is said to know contradicts the exact counts",
    MISTAKEN: "the release contradicts what the adversary is said to know; left out of all other numbers",
    "unresolved": "not proven, so that no number is given",
    "loose": "more may have been left out than the tolerance allows",
}


class Cell(NamedTuple):
    """A cell of the query: its number, its label, what was found in its blocks, and the log evidence where known."""

    number: int
    label: str
    findings: Findings
    log_evidence: float = np.nan


def solve(
    question: RunInput, made: Run, thresholds: Sequence[float] = THRESHOLDS, failure: float = DEFAULT_FAILURE
) -> tuple[xr.DataTree, list[Cell]]:
    """Answer of `nmf.runs.run` to a question, as `gather` gives it; one cell of its files is held at a time."""
    labels = dict(zip(made.measurements.cells.tolist(), made.measurements.labels, strict=True))
    evidence = None if made.above is None else np.ravel(made.above.log_evidence)
    cells = (
        Cell(
            number,
            labels[number],
            of_cell(made.files, number, failure),
            np.nan if evidence is None else float(evidence[i]),
        )
        for i, number in enumerate(cells_of(made.files))
    )
    about = question.parameters | {
        "query": made.measurements.query,
        "directory": str(question.directory),
        "out": str(made.out),
        "pieces": len(made.pieces),
        "kept": list(made.unchanged),
        "damaged": list(made.damaged),
        "exact": list(made.measurements.exact),
        "notes": list(made.measurements.notes),
        "synthetic": made.measurements.synthetic,
    }
    return gather(cells, about, thresholds, failure)


def gather(
    cells: Iterable[Cell],
    about: Mapping[str, Any],
    thresholds: Sequence[float] = THRESHOLDS,
    failure: float = DEFAULT_FAILURE,
    errors: xr.Dataset | None = None,
) -> tuple[xr.DataTree, list[Cell]]:
    """Numbers of every cell in one tree.

    Parameters
    ----------
    cells : gone through once
    about : `query` and `prior` of the adversary; what else was asked and read, such as `known` (None, a number of
        others, or words), `mistaken`, `prob`, `tolerance`, `leaf_prior`, `exact`, `notes` and `synthetic`
    thresholds : ratios of posterior to prior
    failure : probability with which the guarantee's bound may fail
    errors : of `nmf.runs.block_results.errors`, where the truth is known

    Returns
    -------
    DataTree over cell, its attributes `about`, with groups `cells` (counts and evidence), `risk` (quantile: of the
    blocks that noise protects; counts that are published exactly settle the others),
    `thresholds` (threshold), `statuses` (status), `guarantee`, `bounds` (prior, side), `levels` (level), `worst` and
    `mistaken` (rank), and `errors` (level, estimate) where given; and the first cells, of which figures are drawn.
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
    given = {name: int(value) if isinstance(value, bool) else value for name, value in about.items()}
    plain = {
        name: value if isinstance(value, str | int | float) else json.dumps(value) for name, value in given.items()
    }
    tree.attrs = {name: value for name, value in plain.items() if value != "null"} | {"failure": float(failure)}
    about_all = SpineVerdict(tree)
    Summary(about_all.title, list(tree.children), *about_all.verdict, list(about_all.warnings())).on(tree)
    return tree, drawn


# Of a cell that has fewer blocks in a table than another; numbers are NaN there.
EMPTY: dict[Any, Any] = {"geocode": "", "name": "", "status": "", "place": "", "blocks": 0, "one_query_blocks": 0}


def _numbers(cell: Cell, prior: float, thresholds: Sequence[float]) -> dict[str, xr.Dataset]:
    findings, bound = cell.findings, cell.findings.guarantee
    left_out = np.nan if findings.truncation_bound is None else findings.truncation_bound
    error = float(np.nan_to_num(left_out)) / prior if prior else 0.0
    below, above = findings.beyond(prior)
    spread = _quantiles(findings.ratios[findings.protected])
    risk = {"ratio": spread, "posterior": np.minimum(spread * prior, 1.0)}
    more, both = [], bool(findings.single_query_status)
    if both:  # all queries were read
        risk["one_query_ratio"], more = (
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
    counts = {"blocks": findings.status} | ({"one_query_blocks": findings.single_query_status} if both else {})
    return {
        "cells": xr.Dataset(
            {
                "label": cell.label, "leaves": findings.leaves, "answered": findings.ratios.size,
                "most": int(tied(findings.ratios, error).sum()),
                "unprotected": findings.unprotected, "log_evidence": cell.log_evidence,
                "unproven": sum(n for name, n in findings.status.items() if name not in (*PROVEN, MISTAKEN)),
                "surely_there": int((findings.ratios[~findings.protected] * prior >= 1.0).sum()),
                "truncation_bound": ((), left_out, {"direction": "upper"}),
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
            findings.worst, ("noisy", "mean", "hdi_lower", "hdi_upper", "posterior", "ratio", *more), error
        ),
        "mistaken": _rank_rows(findings.mistaken, ("noisy", "mean", "known", "tail")),
    }  # fmt: skip


def _quantiles(ratios: Floats) -> Floats:
    """Of the blocks that noise protects; NaN where one block's ratio is, or there is none."""
    return np.asarray(np.quantile(ratios if ratios.size else np.array([np.nan]), QUANTILES), dtype=np.float64)


COUNTED = ("units", "measured", "exact", "bounded", "replaced", "below")


def _rank_rows(table: Columns, numbers: Sequence[str], error: float = 0.0) -> xr.Dataset:
    """Rows of blocks over "rank"; "place" is the rank in words, shared by ratios that the error does not tell apart."""
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
