"""Several answers about a unit as one measurement of each cell that is asked about: all queries, and exact counts.

The estimate is that of `reader.queries.effective`: generalised least squares, unit by unit. Categories that a unit
cannot have, such as facilities that are not there, are left out of its histogram first. The weights of an answer's rows
are the same for rows that stand in the same relation to the cell on every axis; of a long axis only the sums of such
rows are kept, so that memory does not grow with the histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats, Integers
from adversary.adversaries.tables import Query, linear_weights
from adversary.census.nmf.file_layout import AT_LEAST, EQUAL
from adversary.census.nmf.products import GROUPINGS, Product
from adversary.census.nmf.records import Labels, NmfColumn

# Axes of so many categories at most keep all of their rows, as any of these may be left out in a unit.
SHORT = 8

# Cells of the coarsest histogram from which all queries that collapse or group an axis follow, at most.
FINEST = 1024
Places = Mapping[str, tuple[Any, Any]]


class QueryAnswer(NamedTuple):
    """Answers to a query: places of the units that have a record, and these records."""

    column: NmfColumn
    query: Query
    place: Integers
    records: Integers


class Estimates(NamedTuple):
    """(unit, cell) estimates and rho of them, and (unit,) rho of all noisy answers, and whether any answer is exact."""

    released: Floats
    rho: Floats
    moved: Floats
    settled: Any


def query_of(product: Product, column: NmfColumn) -> Query | None:
    """A query of a file as a marginal of the histogram; None where it does not count every cell once."""
    groups = []
    for (axis, categories), word, length in zip(product.axes.items(), column.words, column.shape or (), strict=True):
        known_groups = product.groups(axis, word, length) or ()
        row = np.full(len(categories), -1)
        for i, one in enumerate(known_groups):
            row[list(one.members)] = i
        if (row < 0).any() or sum(len(one.members) for one in known_groups) != row.size:
            return None
        groups.append(tuple(row.tolist()))
    return Query(column.query, tuple(groups))


def labels_for(product: Product, wanted: NmfColumn, column: NmfColumn) -> list[Labels] | None:
    """For each cell wanted about, (row,) classes of a query's rows on every axis; None: each row by itself.

    Rows of a class have the same weight in the cell's estimate: on a long axis those of one group of every known
    grouping, in the cell or not.
    """
    query, table = query_of(product, column), query_of(product, wanted)
    assert table is not None
    if query is None:
        return [tuple(np.zeros(n, dtype=np.int64) for n in column.shape or ())]
    index = np.unravel_index(wanted.cells, table.shape)
    made = []
    for cell in range(wanted.cells.size):
        classes = []
        for a, (axis, categories) in enumerate(product.axes.items()):
            rows = query.shape[a]
            if rows < len(categories) or rows <= SHORT:
                classes.append(np.arange(rows))
                continue
            inside = [np.equal(table.groups[a], index[a][cell])]
            for word in GROUPINGS.get(axis, {}):
                inside += [np.isin(np.arange(rows), list(one.members)) for one in GROUPINGS[axis][word]]
            classes.append(np.unique(np.array(inside), axis=1, return_inverse=True)[1].ravel().astype(np.int64))
        made.append(tuple(classes))
    parts_in_all = sum(int(np.prod([one.max() + 1 for one in labels])) for labels in made)
    return made if parts_in_all < query.size else None


def combine_queries(
    product: Product, wanted: NmfColumn, measured: Mapping[str, NmfColumn], known: Mapping[str, NmfColumn],
    places: Places, units: int,
) -> Estimates:  # fmt: skip
    """Best linear unbiased estimates of the wanted cells in every unit of a level; answers and constraints that
    count a cell twice or not at all are left out. ValueError for groupings that are too fine.
    """
    table = query_of(product, wanted)
    assert table is not None
    every = {**measured, **known}
    listed = [QueryAnswer(c, q, *places[name]) for name, c in every.items() if (q := query_of(product, c)) is not None]
    variance = np.full((units, len(listed)), np.inf)
    for i, (column, _, place, records) in enumerate(listed):
        variance[place, i] = np.where(column.sign[records] == EQUAL, column.variance[records], np.inf)
    if not listed or not np.isfinite(variance).any():
        nothing = np.zeros(units)
        shape = (units, wanted.cells.size)
        return Estimates(np.full(shape, np.nan), np.zeros(shape), nothing, nothing > 0)
    allowed = _allowed_categories(product, known, places, units)
    with np.errstate(divide="ignore"):
        moved = np.where(variance > 0, 0.5 / variance, 0.0).sum(axis=1)
    estimate = np.full((units, wanted.cells.size), np.nan)
    spread = np.full((units, wanted.cells.size), np.inf)
    patterns, which = np.unique(np.concatenate([variance, *allowed], axis=1), axis=0, return_inverse=True)
    ends = np.cumsum([len(listed), *(one.shape[1] for one in allowed)])
    for i, pattern in enumerate(patterns):
        here = np.flatnonzero(which.ravel() == i)
        there = [part > 0 for part in np.split(pattern, ends)[1:-1]]
        _estimate(wanted, table, listed, pattern[: len(listed)], there, here, estimate, spread)
    exact = spread == 0
    estimate[exact] = np.rint(estimate[exact])
    with np.errstate(divide="ignore"):
        return Estimates(estimate, 0.5 / spread, moved, (variance == 0).any(axis=1))


def _estimate(
    wanted: NmfColumn, table: Query, listed: list[QueryAnswer], variance: Floats, there: list[Any], here: Integers,
    estimate: Floats, spread: Floats,
) -> None:  # fmt: skip
    """Fill in estimates and variances of the units that have the same answers and the same categories."""
    parts = [_restrict(answer.query, there) for answer in listed]
    smaller, rows = _restrict(table, there)
    index = np.unravel_index(wanted.cells, table.shape)
    cells = np.flatnonzero(np.all([np.isin(i, row) for i, row in zip(index, rows, strict=True)], axis=0))
    if not cells.size:
        return
    atoms = [len({*zip(*(q.groups[a] for q, _ in parts if max(q.groups[a]) + 1 < len(q.groups[a])), strict=True)})
             for a in range(len(rows))]  # fmt: skip
    if np.prod(np.maximum(atoms, 1)) > FINEST:
        raise ValueError(f"all queries together group the histogram into more than {FINEST} cells: ask for one query")
    flat = np.ravel_multi_index(
        tuple(np.searchsorted(row, i[cells]) for i, row in zip(index, rows, strict=True)), smaller.shape
    )
    weights, own = linear_weights([query for query, _ in parts], variance, np.asarray(flat), smaller)
    total = np.zeros((here.size, cells.size))
    for k, ((column, query, place, records), (part, part_axes)) in enumerate(zip(listed, parts, strict=True)):
        if not np.isfinite(variance[k]):
            continue
        order = np.full(int(place.max(initial=-1)) + 1, -1)
        order[place] = records
        values = column.values[order[here]]
        if column.labels is None:
            full = np.zeros((cells.size, *query.shape))
            full[np.ix_(range(cells.size), *part_axes)] = weights[k].reshape(cells.size, *part.shape)
            total += values @ full.reshape(cells.size, -1).T
            continue
        start = 0
        for cell, labels in enumerate(column.labels):
            shape = tuple(int(one.max()) + 1 for one in labels)
            stop = start + int(np.prod(shape))
            if (at := np.flatnonzero(cells == cell)).size:
                one, own_rows = (
                    np.zeros(shape),
                    np.ix_(*(label[row] for label, row in zip(labels, part_axes, strict=True))),
                )
                one[own_rows] = weights[k][at[0]].reshape(part.shape)
                total[:, at[0]] += values[:, start:stop] @ one.ravel()
            start = stop
    estimate[np.ix_(here, cells)] = np.where(np.isfinite(own), total, np.nan)
    spread[np.ix_(here, cells)] = own


def _restrict(query: Query, there: list[Any]) -> tuple[Query, list[Integers]]:
    """A query of the categories that are there, and which of its rows on every axis these are."""
    groups, rows = [], []
    for group, here in zip(query.groups, there, strict=True):
        row, again = np.unique(np.asarray(group)[here], return_inverse=True)
        groups.append(tuple(again.ravel().tolist()))
        rows.append(row.astype(np.int64))
    return Query(query.name, tuple(groups)), rows


def _allowed_categories(product: Product, known: Mapping[str, NmfColumn], places: Places, units: int) -> list[Any]:
    """For every axis (unit, category) whether anybody can be in a category; all of them on long axes."""
    sizes = [len(categories) for categories in product.axes.values()]
    allowed = [np.ones((units, n), dtype=bool) for n in sizes]
    for name, column in known.items():
        query = query_of(product, column)
        if query is None:
            continue
        long = [a for a, n in enumerate(query.shape) if n > 1]
        if len(long) != 1 or sizes[long[0]] > SHORT:
            continue
        place, records = places[name]
        empty = (column.values[records] == 0) & (column.sign[records] != AT_LEAST)[:, None]
        nobody = empty[:, np.asarray(query.groups[long[0]])]
        # a unit without anybody is settled cell by cell
        keep = ~nobody.all(axis=1)
        allowed[long[0]][place[keep]] &= ~nobody[keep]
    return allowed
