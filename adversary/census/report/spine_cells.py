"""Page about many cells of a query: a list of cells, one section for each, and once the sections they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary._core import format_chance, format_number, format_probability
from adversary.census import report
from adversary.report.kit import Figure, Section, Table, attempt, tabulate

# Number of blocks that the section of a cell lists.
BLOCKS = 5


def sections(page: Any) -> list[Section]:
    """Sections about cells: the list, the part cell by cell, the guarantee, the input.

    Parameters
    ----------
    page : `spine_page._Page`: numbers by group over "cell", and tables of them
    """
    return [
        attempt("The cells", lambda: _list(page)),
        attempt("Cell by cell", lambda: _parts(page)),
        attempt("The guarantee", lambda: _guarantee(page)),
        attempt("What was read", lambda: _read(page)),
    ]


def ranked(page: Any) -> list[int]:
    """Positions of the cells in order of decreasing largest ratio; cells without a proven answer last."""
    largest = page.data["risk"]["ratio"].isel(quantile=-1).values
    order = np.where(np.isfinite(largest) & page.answered, largest, -1.0)
    return [int(i) for i in np.argsort(-order, kind="stable")]


def _overview(page: Any) -> xr.Dataset:
    """Dataset with one row per cell, in the order of `ranked`."""
    order, risk, cells = ranked(page), page.data["risk"]["ratio"], page.data["cells"]
    bound = page.data["bounds"]["ratio"].sel(prior=page.prior, side="upper", drop=True)
    columns = {
        "place": ("cell", np.arange(1, len(order) + 1)[np.argsort(order)]),
        "label": ("cell", np.array([label or "" for label in page.labels], dtype=str)),
        "half": risk.sel(quantile=0.5, drop=True),
        "high": risk.sel(quantile=0.95, drop=True),
        "largest": risk.sel(quantile=1.0, drop=True),
        "allowed": bound,
        "beyond": page.data["guarantee"]["share_below"] + page.data["guarantee"]["share_above"],
        "answered": cells["answered"],
        "unproven": cells["unproven"],
        "unprotected": cells["unprotected"],
    }
    if "mistaken" in page.data:
        columns["mistaken"] = (page.data["mistaken"]["geocode"] != "").sum("rank")
    return xr.Dataset(columns).isel(cell=order).assign_coords(cell=cells["cell"].values[order])


def _list(page: Any) -> Section:
    """Section with the list of cells."""
    overview = _overview(page)
    columns = {
        "cell": None, "place": ("", "count"), "label": "cell", "largest": ("largest ratio", "number"),
        "high": ("95% of blocks below", "number"), "half": ("half below", "number"),
        "allowed": ("allowed", "at most"), "beyond": ("blocks beyond the bounds", "probability"),
        "answered": ("blocks", "count"), "unprotected": ("not protected", "count"), "unproven": ("no number", "count"),
        "mistaken": ("mistaken, at least", "count"),
    }  # fmt: skip
    if not (overview["unproven"] > 0).any():
        columns.pop("unproven")
    largest = overview["largest"].dropna("cell")
    finding = ""
    if largest.size:
        finding = (
            f"Largest ratios of the {page.data['cells'].sizes['cell']:,} cells lie between "
            f"{format_number(float(largest.min()))} and {format_number(float(largest.max()))}."
        )
    return Section(
        "The cells",
        finding,
        ["Cells where most is learned come first. Each has a section below, in the same order."],
        [tabulate(overview, columns, name="cells")],
        [
            Figure(
                "cells",
                lambda: report.spine_figures.cell_ratios(overview),
                "Bars reach from the median block to the largest ratio; the tick is what 95% of blocks stay below.",
            )
        ],
        ["Ratios are of the blocks that noise protects; all blocks are in blocks.csv, unless --no-csv left it out."],
    )


def _parts(page: Any) -> Section:
    """Section with one part per cell."""
    parts = [_cell(page, i) for i in ranked(page)]
    return Section("Cell by cell", f"{len(parts):,} cells, the worst blocks of each.", parts=parts, on_screen=False)


def _cell(page: Any, i: int) -> Section:
    """Section of one cell: distribution of its risk, and its worst blocks."""
    numbers, risk = page.of("cells", i), page.of("risk", i)["ratio"]
    title, words = page.labels[i] or str(int(numbers["cell"])), []
    low, half, high = (float(risk.sel(quantile=q)) for q in (0.0, 0.5, 1.0))
    if np.isfinite(half):
        posterior = format_probability(min(high * page.prior, 1.0))
        words.append(
            f"Ratios from {format_number(low)} to {format_number(high)}, half of them below {format_number(half)}; "
            f"the largest posterior is {posterior}."
        )
    else:
        words.append("No block that noise protects has a proven answer.")
    shares = page.of("thresholds", i)["share"].to_series()
    words += [f"{format_chance(float(p))} of blocks have a ratio of {at:g} or more." for at, p in shares.items()]
    other_statuses = {
        name: int(n) for name, n in page.of("statuses", i)["blocks"].to_series().items() if n and name != "ok"
    }
    words += [f"Blocks that are {name}: {count:,}." for name, count in other_statuses.items()]
    return Section(title, words[0], [" ".join(words[1:])], _worst(page, i), folded=True)


def _worst(page: Any, i: int) -> list[Table]:
    """Table of the blocks of a cell with the largest ratios; empty list if there is none."""
    if "worst" not in page.data:
        return []
    rows = page.of("worst", i).isel(rank=slice(0, BLOCKS))
    rows = rows.assign(
        block=rows["name"].where(rows["name"] != "", rows["geocode"]), there=rows["geocode"] != "",
    )  # fmt: skip
    columns = {
        "rank": None, "block": "block", "noisy": ("noisy count", "count"), "posterior": ("posterior", "probability"),
        "ratio": ("ratio", "number"), "mean": ("posterior mean", "number"),
        "one_query_posterior": ("under one query", "probability"), "place": "rank", "status": "status",
    }  # fmt: skip
    table = tabulate(rows, columns, name=f"worst_{int(page.data['cells']['cell'][i])}", where="there")
    return [table] * bool(table.rows)


def _guarantee(page: Any) -> Section:
    """Section on the guarantee of the cell with the largest ratio; the list has the bounds of the others."""
    section: Section = page.guarantee()
    for table in section.tables:
        _only_most(page, table, "the list of cells has the bounds of all.")
    return section


def _read(page: Any) -> Section:
    """Section on the measurements of the most informative cell; the others were measured by the same queries."""
    section: Section = page.read()
    section.tables = [table for table in section.tables if table.name != "cells"]
    for table in section.tables:
        _only_most(page, table, "the others were measured by the same queries.")
    section.figures = section.figures[:1]
    return section


def _only_most(page: Any, table: Table, rest: str) -> None:
    """Restrict a table, in place, to the rows of the cell with the largest ratio, without its column of cells.

    rest : end of the note on the other cells
    """
    heads = [column[0] for column in table.columns]
    if "cell" not in heads:
        return
    place, label = heads.index("cell"), page.labels[page.most]
    chosen_rows = [i for i, row in enumerate(table.rows) if row[place] == label]
    table.marked = {chosen_rows.index(i) for i in table.marked if i in chosen_rows}
    table.rows = [[value for j, value in enumerate(table.rows[i]) if j != place] for i in chosen_rows]
    table.columns = [column for j, column in enumerate(table.columns) if j != place]
    table.notes.append(f"Of the cell {label}; {rest}")
