"""One block of a Noisy Measurement File: every cell of every query there, and persons beside housing units.

What is read is the part of the spine two levels above the block, most often its tract: farther levels say next to
nothing about one block. Every cell has its own exact posterior; cells are not made to add up.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats
from adversary.census import spine
from adversary.census.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, bare, folder, levels_of, open_product, present
from adversary.census.nmf.file_layout import product_of as product_in
from adversary.census.nmf.level_records import code_lengths
from adversary.census.nmf.measurements import Measurements
from adversary.census.nmf.parquet_source import ParquetSource
from adversary.census.nmf.runs.county_runs import RunInput
from adversary.census.nmf.runs.unit_table import MISTAKEN, path_rho, unit_columns, with_leaves
from adversary.census.nmf.units import geoid, root_of

# Levels above the block whose unit is read with all that lies in it.
ABOVE = 2
SHOWN = ("noisy", "variance", "mean", "sd", "hdi_lower", "hdi_upper", "p_zero", "known", "posterior", "ratio", "status",
         "path_rho", "one_query_mean", "one_query_sd")  # fmt: skip

# Cell of persons in households, alone.
HOUSEHOLDS = "households"
OCCUPIED = "occupied"


def find_block(path: Path, geocode: str, root: str = "") -> tuple[str, str, int]:
    """Geocode of a block by GEOID or geocode, of the unit `ABOVE` levels above it, and the number of blocks.

    Raises
    ------
    ValueError : it is not in the file; the message names the nearest, and how many blocks there are
    """
    levels = levels_of(path, product_in(path)[0])
    lowest, wanted = levels[-1], geocode.strip()
    if not (wanted.isalnum() and wanted):
        raise ValueError(f"block must be a GEOID of 15 digits, or a geocode of the file, got {geocode!r}")
    codes: set[str] = set()
    for kind in (CONSTRAINTS, MEASUREMENTS):
        for _, batch in ParquetSource(folder(path, lowest, kind), lowest, kind, root).batches(["geocode"]):
            codes |= set(batch.column("geocode").unique().to_pylist())
        if codes:
            break
    names = {geoid(code): code for code in codes if code}
    code = wanted if wanted in codes else names.get(wanted)
    if code is None:
        listed = sorted(names if len(wanted) <= len(next(iter(names), "")) else codes)
        at = bisect(listed, wanted)
        near = " and ".join(repr(one) for one in listed[max(at - 1, 0) : at + 1])
        raise ValueError(f"{path}: there is no block {wanted!r} among its {len(codes):,} blocks; nearest: {near}")
    lengths = code_lengths(path, levels, root)
    above = levels[max(len(levels) - 1 - ABOVE, 0)]
    return code, code[: lengths.get(above, 0)], len(codes)


def read_block(question: RunInput, geocode: str, queries: list[str] | None = None) -> tuple[dict[str, Any], str, int]:
    """Columns of every cell of every query in one block: `SHOWN`, with `query`, `cell` and `label`.

    Parameters
    ----------
    question : its query and cells are used where `queries` is None
    geocode : GEOID, or geocode of the file
    queries : names of queries, all cells of which are wanted; an empty list: all of the block's level

    Returns
    -------
    columns, the geocode, and the number of blocks of the file
    """
    path = open_product(question.directory, question.product)
    given = root_of(question.root, question.state, question.county)
    code, root, blocks = find_block(path, geocode, given)
    lowest = levels_of(path, product_in(path)[0])[-1]
    wanted = [(question.query, question.cells)]
    if queries is not None:
        source = ParquetSource(folder(path, lowest, MEASUREMENTS), lowest, MEASUREMENTS, root)
        wanted = [(bare(one), "all") for one in queries or source.query_names()]
    parts: list[dict[str, Any]] = []
    for query, cells in wanted:
        one = replace(question, query=query, cells=cells, root=given or root, state=None, county=None)
        parts.append(_block_columns(one, one.read(), code))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, code, blocks


def _block_columns(question: RunInput, read: Measurements, code: str) -> dict[str, Any]:
    """Columns of the cells of one query, in one block."""
    known = question.others(read.tree)
    posterior = solve_cells(question, read)
    count = len(posterior.solutions)
    members = posterior.membership(question.prior, None if known is None else np.repeat(known[:, None], count, axis=1))
    table = with_leaves(
        unit_columns(posterior, read, question.prob), read.tree, members, path_rho(read), question.mistaken
    )
    here = np.flatnonzero(table["geocode"] == code)
    rows = {name: np.asarray(table[name])[here] for name in SHOWN}
    names = {"query": [read.query] * here.size, "label": [*read.labels]}
    return {
        **{name: np.array(words, dtype=object) for name, words in names.items()},
        "cell": read.cells,
        **rows,
        "mistaken": rows["status"] == MISTAKEN,
    }


def solve_cells(question: RunInput, read: Measurements) -> spine.SpinePosterior:
    """Posterior of all cells that were read, after them the same under one query, where all were read."""
    readings = [read] if read.alone is None else [read, read.alone]
    released, rho, low, high = (
        np.concatenate([getattr(one, name).reshape(len(read.tree), -1) for one in readings], axis=1)
        for name in ("released", "rho", "low", "high")
    )
    return spine.posterior(
        read.tree, released, rho, question.leaf_prior, bounds=(low, high), tolerance=question.tolerance, whole=False
    )


def housing_beside(question: RunInput, code: str, persons: dict[str, Any]) -> tuple[dict[str, Any], Any] | None:
    """Persons of a block beside its occupied housing units, from the product of housing units that lies beside theirs.

    Returns
    -------
    The comparison as numbers, and `spine.households_and_persons`; None where no such product, or no persons, are there
    """
    path = open_product(question.directory, question.product)
    units = next((one for one in sorted(path.parent.iterdir()) if _holds_units(one, path)), None)
    if units is None:
        return None
    label = np.char.lower(np.asarray(persons["label"], dtype=str))
    rows = np.flatnonzero((label == HOUSEHOLDS) & np.isfinite(persons["noisy"].astype(float)))
    only = rows.size > 0
    if not only:
        rows = np.flatnonzero(np.char.lower(np.asarray(persons["query"], dtype=str)) == "total")
    given = root_of(question.root, question.state, question.county)
    if not rows.size:
        return None
    query, cell = str(persons["query"][rows[0]]), int(persons["cell"][rows[0]])
    root = given or find_block(units, code)[1]
    own = replace(question, query=query, cells=[cell], root=root, state=None, county=None)
    theirs = replace(own, directory=str(units), product=None, query="detailed", cells=OCCUPIED, queries="one")
    laws, numbers = [], []
    for one in (own, theirs):
        read = one.read()
        posterior, at = solve_cells(one, read), int(read.tree.index(code))
        laws.append(posterior.pmf(code))
        rho = float(read.rho.reshape(len(read.tree), -1)[at, 0])
        noisy = float(read.published.reshape(len(read.tree), -1)[at, 0])
        exact = np.isinf(rho)
        count = float(read.released.reshape(len(read.tree), -1)[at, 0]) if exact else noisy
        numbers.append((count, 0.0 if exact else 0.5 / rho if rho > 0 else np.nan))
    both = spine.households_and_persons(laws[0], laws[1], only_households=only)
    (count, variance), (occupied, spread) = numbers
    if not np.isfinite([count, variance, occupied, spread]).all():
        return None
    compared = spine.persons_beside_households(count, variance, occupied, spread)
    numbers_of: dict[str, Any] = {str(name): float(value) for name, value in compared.data_vars.items()}
    return {"persons": count, "what": "occupied housing units", "query": query, **numbers_of}, both


def _holds_units(folder_path: Path, persons: Path) -> bool:
    """True where a folder is the product of housing units of the same area."""
    same = folder_path.is_dir() and folder_path != persons and folder_path.name[:2] == persons.name[:2]
    return bool(same and present(folder_path) and set(product_in(folder_path)[0].axes) == {"h1"})


def variances_by_size(rows: list[dict[str, str]], code: str) -> tuple[Floats, Floats, Floats]:
    """(size,) sizes, counts and variances of households in one block, from rows with geocode, size, noisy, variance.

    Raises
    ------
    ValueError : no row is of the block, or a number is missing
    """
    here = [row for row in rows if str(row.get("geocode", "")).strip() in (code, geoid(code))]
    if not here:
        raise ValueError(f"none of its {len(rows)} rows is of block {geoid(code)}")
    try:
        table = np.array([[float(row[name]) for name in ("size", "noisy", "variance")] for row in here])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"rows must have columns geocode, size, noisy and variance, got {here[0]}") from None
    return table[:, 0], table[:, 1], table[:, 2]
