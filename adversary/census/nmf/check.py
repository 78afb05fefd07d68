"""Contents and faults of a Noisy Measurement File, for `adversary nmf check`.

Faults are the errors of `nmf.read`, collected instead of raised, and departures from the documentation of the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary.census.nmf.exact_counts import NOISY_TABLES, constraint_limits, first_contradiction
from adversary.census.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, bare, levels_of, open_product, product_of
from adversary.census.nmf.level_records import (
    LevelRecords,
    check_same_shape,
    code_lengths,
    describe_unit,
    gather,
    records_of,
    units_by_level,
)
from adversary.census.nmf.products import Product
from adversary.census.nmf.records import NmfColumn
from adversary.census.nmf.units import EXTRACT, build_tree, levels_below, under_one_root
from adversary.census.spine import Tree

# Documented lengths of geocodes, in characters.
DOCUMENTED = {"State": 3, "County": 8}

# Largest number of cells of a query that is compared with constraints.
MOST_CELLS = 64


def contents(directory: str | Path, product: str | None = None, *, progress: bool = False) -> dict[str, Any]:
    """Levels, units, queries, shapes, variances and problems of a file, from one pass over all records.

    Memory holds names, one cell of each query, and the constraints. Missing or malformed records are listed in
    `problems`, with file, geocode and query; the only error raised is for a directory that is no such file.

    Parameters
    ----------
    directory : a product folder, or the archive it lies in
    product : name of the product folder, or a part of it, if there are several
    progress : show a progress bar

    Returns
    -------
    dict, ready for JSON
    """
    path = open_product(directory, product)
    layout, synthetic = product_of(path)
    problems: list[str] = []
    levels = levels_of(path, layout)
    levels_read = {name: gather(path, layout, name, "", None, faults=problems, progress=progress) for name in levels}
    for level in levels_read.values():
        if level.units.size and (wrong := DOCUMENTED.get(level.name, len(level.units[0]))) != len(level.units[0]):
            fault = f"its geocode has {len(level.units[0])} characters, documented are {wrong}"
            problems.append(f"{level.location(str(level.units[0]))}: {fault}")
        if not level.units.size:
            problems.append(f"{path / level.name}.parquet: there is no record that can be read")
    if all(level.units.size for level in levels_read.values()):
        names = levels_below("", {}, levels)
        units = units_by_level(names, levels_read, code_lengths(path, levels))
        names, units_under_root = under_one_root(names, units)
        tree, faults = build_tree(names, units_under_root, lambda level, code: describe_unit(levels_read, level, code))
        problems += faults
        if not faults:
            problems += [*_missing_records(tree, levels_read), *_contradictions(tree, layout, levels_read)]
    problems += _shapes(layout, levels_read)
    files = [file for file in path.rglob("*.parquet") if file.is_file()]
    return {
        "directory": str(path),
        "product": layout.name,
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "synthetic": synthetic,
        "absent": [name for name in layout.levels if name not in levels],
        "levels": [
            {
                "level": level.name,
                "units": int(level.units.size),
                "queries": [
                    *(_query(column, MEASUREMENTS) for column in level.measured.values()),
                    *(_query(column, CONSTRAINTS) for column in level.known.values()),
                ],
            }
            for level in levels_read.values()
        ],
        "problems": list(dict.fromkeys(problems)),
    }


def _missing_records(tree: Tree, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Faults: units without a record of a query that others of their level have, unless they are only children."""
    may_lack = np.ones(len(tree), dtype=bool)
    may_lack[1:] = tree.children[tree.parent[1:]] == 1
    # an extract lacks the parents of its uppermost units, so it is unknown which of these are only children
    if tree.levels[0] == EXTRACT:
        may_lack[tree.level == 1] = True
    for level in levels_read.values():
        expected = tree.names[(tree.level == tree.levels.index(level.name)) & ~may_lack]
        for column in level.measured.values():
            if (missing := np.setdiff1d(expected, column.geocodes)).size:
                more = f" ({missing.size} such)" if missing.size > 1 else ""
                yield f"{level.location(str(missing[0]))}: no record of query {column.query}, and no only child{more}"


def _contradictions(tree: Tree, product: Product, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Faults: units whose constraints, or those of the units in them, no count satisfies; for every short query."""
    columns = [column for level in levels_read.values() for column in (*level.measured.values(), *level.known.values())]
    short = {one.query: one for one in columns if one.shape is not None and 0 < np.prod(one.shape) <= MOST_CELLS}
    for column in short.values():
        all_cells = replace(column, cells=np.arange(int(np.prod(column.shape or ()))))
        low, high = np.zeros((len(tree), all_cells.cells.size)), np.full((len(tree), all_cells.cells.size), np.inf)
        for level in levels_read.values():
            here = tree.level == tree.levels.index(level.name)
            known = {name: one for name, one in level.known.items() if name not in NOISY_TABLES}
            rows = {name: records_of(tree.names[here], one) for name, one in known.items()}
            low[here], high[here] = constraint_limits(product, all_cells, known, int(here.sum()), rows, True)[:2]
            if (contradiction := first_contradiction(tree.names[here], low[here], high[here])) is not None:
                yield f"{level.location(contradiction[0])}: {contradiction[1]}"
        if not (low > high).any():
            below = np.zeros_like(low)
            for v in range(len(tree) - 1, 0, -1):
                below[tree.parent[v]] += np.maximum(low[v], below[v])
            if (
                contradiction := first_contradiction(tree.names[::-1], below[::-1], high[::-1])
            ) is not None:  # the lowest such unit
                place = levels_read.get(tree.levels[int(tree.level[tree.index(contradiction[0])])])
                named = contradiction[0] if place is None else place.location(contradiction[0])
                yield f"{named}: {contradiction[1]}, of {column.query} and of what lies in it"


def _shapes(product: Product, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Faults: shapes and axes that differ from the product's, or from those of the query at another level."""
    first: dict[str, NmfColumn] = {}
    for level in levels_read.values():
        for column in (*level.measured.values(), *level.known.values()):
            if column.shape is None:
                continue
            try:
                check_same_shape(column, first.setdefault(column.query, column))
            except ValueError as error:
                yield str(error)
            for axis, word, length in zip(product.axes, column.words, column.shape, strict=True):
                full = len(product.axes[axis])
                expected = 1 if word == "*" else full if word in (axis, "detailed") else length
                if length != expected or length > full:
                    fault = f"axis {axis} ({word}) has {length} categories, documented are {min(expected, full)}"
                    yield f"{column.location(0)}: {fault}"


def _query(column: NmfColumn, kind: str) -> dict[str, Any]:
    """Listing of one query: name, kind, shape, number of units, range of variances."""
    finite = column.variance[np.isfinite(column.variance)]
    exact = kind == CONSTRAINTS
    return {
        "query": bare(column.query),
        "kind": " ".join(["constraint", *sorted(set(map(str, column.sign)))]) if exact else "measurement",
        "shape": None if column.shape is None else list(column.shape),
        "units": int(column.geocodes.size),
        "measured": int(finite.size),
        "variance": None if exact or not finite.size else [float(finite.min()), float(finite.max())],
    }
