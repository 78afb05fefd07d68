"""Posteriors in one block of a Noisy Measurement File: every cell of every query, and persons beside housing units.

Only the part of the spine below the unit two levels above the block is read, usually its tract: measurements of higher
levels carry almost no information about one block. Every cell has its own exact posterior; sums are not reconciled.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats
from adversary.census import spine
from adversary.census.nmf.file_layout import (
    CONSTRAINTS,
    MEASUREMENTS,
    bare,
    folder,
    level_names,
    levels_of,
    open_product,
)
from adversary.census.nmf.file_layout import product_of as product_in
from adversary.census.nmf.level_records import code_lengths
from adversary.census.nmf.measurements import Measurements
from adversary.census.nmf.parquet_source import ParquetSource
from adversary.census.nmf.runs.run_input import RunInput
from adversary.census.nmf.runs.unit_table import MISTAKEN, path_rho, unit_columns, with_leaves
from adversary.census.nmf.units import geoid, root_geocode

# Number of levels above the block at which the unit lies whose subtree is read.
LEVELS_ABOVE = 2
SHOWN = ("noisy", "variance", "mean", "sd", "hdi_lower", "hdi_upper", "p_zero", "known", "posterior", "ratio", "status",
         "path_rho", "one_query_mean", "one_query_sd")  # fmt: skip

# Label of the cell of persons in households, and of the cell of occupied housing units.
HOUSEHOLDS = "households"
OCCUPIED = "occupied"


def find_block(path: Path, geocode: str, root: str = "") -> tuple[str, str, int]:
    """Geocode of a block by GEOID or geocode, of the unit `LEVELS_ABOVE` levels above it, and the number of blocks.

    Raises
    ------
    ValueError : the block is not in the file; the message names the nearest ones and the number of blocks
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
        position = bisect(listed, wanted)
        nearest = " and ".join(repr(one) for one in listed[max(position - 1, 0) : position + 1])
        raise ValueError(f"{path}: there is no block {wanted!r} among its {len(codes):,} blocks; nearest: {nearest}")
    lengths = code_lengths(path, levels, root)
    upper_level = levels[max(len(levels) - 1 - LEVELS_ABOVE, 0)]
    return code, code[: lengths.get(upper_level, 0)], len(codes)


def read_block(run_input: RunInput, geocode: str, queries: list[str] | None = None) -> tuple[dict[str, Any], str, int]:
    """Columns of every cell of every query in one block: `SHOWN`, with `query`, `cell` and `label`.

    Parameters
    ----------
    run_input : file, beliefs and query; its query and cells are used if `queries` is None
    geocode : GEOID, or geocode of the file
    queries : names of queries, all cells of which are wanted; an empty list: all of the block's level

    Returns
    -------
    columns, the geocode, and the number of blocks of the file
    """
    path = open_product(run_input.directory, run_input.product)
    given = root_geocode(run_input.root, run_input.state, run_input.county)
    code, root, blocks = find_block(path, geocode, given)
    lowest = levels_of(path, product_in(path)[0])[-1]
    wanted = [(run_input.query, run_input.cells)]
    if queries is not None:
        source = ParquetSource(folder(path, lowest, MEASUREMENTS), lowest, MEASUREMENTS, root)
        wanted = [(bare(one), "all") for one in queries or source.query_names()]
    parts: list[dict[str, Any]] = []
    for query, cells in wanted:
        one = replace(run_input, query=query, cells=cells, root=given or root, state=None, county=None)
        parts.append(_block_columns(one, one.read(), code))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, code, blocks


def _block_columns(run_input: RunInput, measurements: Measurements, code: str) -> dict[str, Any]:
    """Columns of the cells of one query in one block, by name."""
    known = run_input.others(measurements.tree)
    posterior = solve_cells(run_input, measurements)
    count = len(posterior.solutions)
    membership = posterior.membership(
        run_input.prior, None if known is None else np.repeat(known[:, None], count, axis=1)
    )
    table = with_leaves(
        unit_columns(posterior, measurements, run_input.prob),
        measurements.tree,
        membership,
        path_rho(measurements),
        run_input.mistaken,
    )
    here = np.flatnonzero(table["geocode"] == code)
    rows = {name: np.asarray(table[name])[here] for name in SHOWN}
    names = {"query": [measurements.query] * here.size, "label": [*measurements.labels]}
    return {
        **{name: np.array(words, dtype=object) for name, words in names.items()},
        "cell": measurements.cells,
        **rows,
        "mistaken": rows["status"] == MISTAKEN,
    }


def solve_cells(run_input: RunInput, measurements: Measurements) -> spine.SpinePosterior:
    """Posterior of all cells that were read, followed by the same cells from one query if there is a `single_query`."""
    readings = [measurements] if measurements.single_query is None else [measurements, measurements.single_query]
    released, rho, low, high = (
        np.concatenate([getattr(one, name).reshape(len(measurements.tree), -1) for one in readings], axis=1)
        for name in ("released", "rho", "low", "high")
    )
    return spine.posterior(
        measurements.tree,
        released,
        rho,
        run_input.leaf_prior,
        bounds=(low, high),
        tolerance=run_input.tolerance,
        whole=False,
    )


def persons_and_housing(run_input: RunInput, code: str, persons: dict[str, Any]) -> tuple[dict[str, Any], Any] | None:
    """Test and joint posterior of a block's persons and occupied housing units, from two products in one archive.

    Parameters
    ----------
    run_input : of the product of persons
    code : geocode of the block
    persons : columns of the block, from `read_block`

    Returns
    -------
    The test (`spine.persons_beside_households`) as numbers, and the posteriors (`spine.households_and_persons`); None
    if there is no product of housing units, or no noisy count of persons
    """
    path = open_product(run_input.directory, run_input.product)
    housing_path = next((one for one in sorted(path.parent.iterdir()) if _has_housing_units(one, path)), None)
    if housing_path is None:
        return None
    label = np.char.lower(np.asarray(persons["label"], dtype=str))
    rows = np.flatnonzero((label == HOUSEHOLDS) & np.isfinite(persons["noisy"].astype(float)))
    only_households = rows.size > 0
    if not only_households:
        rows = np.flatnonzero(np.char.lower(np.asarray(persons["query"], dtype=str)) == "total")
    given = root_geocode(run_input.root, run_input.state, run_input.county)
    if not rows.size:
        return None
    query, cell = str(persons["query"][rows[0]]), int(persons["cell"][rows[0]])
    root = given or find_block(housing_path, code)[1]
    persons_input = replace(run_input, query=query, cells=[cell], root=root, state=None, county=None)
    housing_input = replace(
        persons_input, directory=str(housing_path), product=None, query="detailed", cells=OCCUPIED, queries="one"
    )
    pmfs, numbers = [], []
    for one in (persons_input, housing_input):
        measurements = one.read()
        posterior, node = solve_cells(one, measurements), int(measurements.tree.index(code))
        pmfs.append(posterior.pmf(code))
        rho = float(measurements.rho.reshape(len(measurements.tree), -1)[node, 0])
        noisy = float(measurements.published.reshape(len(measurements.tree), -1)[node, 0])
        exact = np.isinf(rho)
        count = float(measurements.released.reshape(len(measurements.tree), -1)[node, 0]) if exact else noisy
        numbers.append((count, 0.0 if exact else 0.5 / rho if rho > 0 else np.nan))
    joint = spine.households_and_persons(pmfs[0], pmfs[1], only_households=only_households)
    (count, variance), (occupied, spread) = numbers
    if not np.isfinite([count, variance, occupied, spread]).all():
        return None
    test = spine.persons_beside_households(count, variance, occupied, spread)
    test_numbers: dict[str, Any] = {str(name): float(value) for name, value in test.data_vars.items()}
    return {"persons": count, "what": "occupied housing units", "query": query, **test_numbers}, joint


def _has_housing_units(folder_path: Path, persons: Path) -> bool:
    """True if a folder is the product of housing units of the same area."""
    same = folder_path.is_dir() and folder_path != persons and folder_path.name[:2] == persons.name[:2]
    return bool(same and level_names(folder_path) and set(product_in(folder_path)[0].axes) == {"h1"})


def variances_by_size(rows: list[dict[str, str]], code: str) -> tuple[Floats, Floats, Floats]:
    """(size,) sizes, noisy counts and variances of households in one block, from rows of a table.

    rows : one dict per row, with geocode, size, noisy, variance

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
