"""What a Noisy Measurement File holds, and everything that is wrong with it: `adversary nmf check`.

The errors are the reader's own, collected instead of raised; beside them stands where a file departs from what is
documented of its product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary.census.nmf.exact_counts import NOISY_TABLES, excluded, limits
from adversary.census.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, bare, levels_of, open_product, product_of
from adversary.census.nmf.level_records import (
    LevelRecords,
    code_lengths,
    gather,
    named_in,
    one_shape,
    records_of,
    units_by_level,
)
from adversary.census.nmf.products import Product
from adversary.census.nmf.records import NmfColumn
from adversary.census.nmf.units import EXTRACT, build_tree, held_together, levels_below
from adversary.census.spine import Tree

# Characters of geocodes.
DOCUMENTED = {"State": 3, "County": 8}

# Cells of queries that are compared with constraints, at most.
SHORTEST = 64


def contents(directory: str | Path, product: str | None = None, *, progress: bool = False) -> dict[str, Any]:
    """Levels, units, queries, shapes, variances and problems of a file, all records gone through once.

    Nothing is held but names, one cell of each query, and the constraints. What is missing or malformed is listed in
    `problems`, with file, geocode and query; only a directory that is no such file at all raises.
    """
    path = open_product(directory, product)
    kind, synthetic = product_of(path)
    problems: list[str] = []
    levels = levels_of(path, kind)
    levels_read = {name: gather(path, kind, name, "", None, faults=problems, progress=progress) for name in levels}
    for level in levels_read.values():
        if level.units.size and (wrong := DOCUMENTED.get(level.name, len(level.units[0]))) != len(level.units[0]):
            fault = f"its geocode has {len(level.units[0])} characters, documented are {wrong}"
            problems.append(f"{level.named(str(level.units[0]))}: {fault}")
        if not level.units.size:
            problems.append(f"{path / level.name}.parquet: there is no record that can be read")
    if all(level.units.size for level in levels_read.values()):
        names = levels_below("", {}, levels)
        units = units_by_level(names, levels_read, code_lengths(path, levels))
        names, held = held_together(names, units)
        tree, faults = build_tree(names, held, lambda level, code: named_in(levels_read, level, code))
        problems += faults
        if not faults:
            problems += [*_absent(tree, levels_read), *_contradictions(tree, kind, levels_read)]
    problems += _shapes(kind, levels_read)
    files = [file for file in path.rglob("*.parquet") if file.is_file()]
    return {
        "directory": str(path),
        "product": kind.name,
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "synthetic": synthetic,
        "absent": [name for name in kind.levels if name not in levels],
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


def _absent(tree: Tree, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Units without a record of a query that others of their level have, which only an only child may be."""
    lone = np.ones(len(tree), dtype=bool)
    lone[1:] = tree.children[tree.parent[1:]] == 1
    # the file does not say which of the uppermost are only children
    if tree.levels[0] == EXTRACT:
        lone[tree.level == 1] = True
    for level in levels_read.values():
        here = tree.names[(tree.level == tree.levels.index(level.name)) & ~lone]
        for column in level.measured.values():
            if (lost := np.setdiff1d(here, column.geocodes)).size:
                more = f" ({lost.size} such)" if lost.size > 1 else ""
                yield f"{level.named(str(lost[0]))}: no record of query {column.query}, and no only child{more}"


def _contradictions(tree: Tree, product: Product, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Units that constraints leave no count, their own or those of all that lies in them; of every short query."""
    columns = [column for level in levels_read.values() for column in (*level.measured.values(), *level.known.values())]
    short = {one.query: one for one in columns if one.shape is not None and 0 < np.prod(one.shape) <= SHORTEST}
    for column in short.values():
        every = replace(column, cells=np.arange(int(np.prod(column.shape or ()))))
        low, high = np.zeros((len(tree), every.cells.size)), np.full((len(tree), every.cells.size), np.inf)
        for level in levels_read.values():
            here = tree.level == tree.levels.index(level.name)
            known = {name: one for name, one in level.known.items() if name not in NOISY_TABLES}
            rows = {name: records_of(tree.names[here], one) for name, one in known.items()}
            low[here], high[here] = limits(product, every, known, int(here.sum()), rows, True)[:2]
            if (wrong := excluded(tree.names[here], low[here], high[here])) is not None:
                yield f"{level.named(wrong[0])}: {wrong[1]}"
        if not (low > high).any():
            below = np.zeros_like(low)
            for v in range(len(tree) - 1, 0, -1):
                below[tree.parent[v]] += np.maximum(low[v], below[v])
            if (wrong := excluded(tree.names[::-1], below[::-1], high[::-1])) is not None:  # the lowest such unit
                place = levels_read.get(tree.levels[int(tree.level[tree.index(wrong[0])])])
                named = wrong[0] if place is None else place.named(wrong[0])
                yield f"{named}: {wrong[1]}, of {column.query} and of what lies in it"


def _shapes(product: Product, levels_read: dict[str, LevelRecords]) -> Iterator[str]:
    """Shapes and axes that are not those of the product, or of the same query at another level."""
    first: dict[str, NmfColumn] = {}
    for level in levels_read.values():
        for column in (*level.measured.values(), *level.known.values()):
            if column.shape is None:
                continue
            try:
                one_shape(column, first.setdefault(column.query, column))
            except ValueError as error:
                yield str(error)
            for axis, word, length in zip(product.axes, column.words, column.shape, strict=True):
                full = len(product.axes[axis])
                expected = 1 if word == "*" else full if word in (axis, "detailed") else length
                if length != expected or length > full:
                    fault = f"axis {axis} ({word}) has {length} categories, documented are {min(expected, full)}"
                    yield f"{column.named(0)}: {fault}"


def _query(column: NmfColumn, kind: str) -> dict[str, Any]:
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
