"""Estimates of cells from all queries and exact counts of a unit, each as one measurement.

Generalised least squares, unit by unit, as in `adversaries.tables.effective`. Categories that a unit cannot have, such
as facilities that it lacks, are first removed from its histogram. Rows of a query that are in the same relation to the
cell on every axis have the same weight; so for a long axis only sums over such classes of rows are stored, and memory
does not grow with the histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats, Integers
from adversary.adversaries.tables import Query, linear_weights
from adversary.census.nmf.file_layout import AT_LEAST, EQUAL
from adversary.census.nmf.products import GROUPINGS, Product
from adversary.census.nmf.records import NmfColumn, RowClasses

# Largest number of categories of an axis whose rows are all stored: any of them may be impossible in some unit.
SHORT = 8

# Largest number of cells of the coarsest histogram from which all queries that group an axis can be computed: the
# least squares problem has this size.
FINEST = 1024
Places = Mapping[str, tuple[Any, Any]]


class QueryAnswer(NamedTuple):
    """Answers to a query: `place`, the units that have a record, and `records`, their rows in `column`."""

    column: NmfColumn
    query: Query
    place: Integers
    records: Integers


class Estimates(NamedTuple):
    """(unit, cell) estimates and their rho; (unit,) sum of rho over all noisy answers, and True if any is exact."""

    released: Floats
    rho: Floats
    total_precision: Floats
    has_exact: Any


def query_of(product: Product, column: NmfColumn) -> Query | None:
    """Query of a file as a marginal of the histogram; None if it does not count every cell exactly once."""
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


def row_classes(product: Product, wanted: NmfColumn, column: NmfColumn) -> list[RowClasses] | None:
    """For each wanted cell, and each axis, the (row,) class of every row of a query; None: every row its own class.

    Rows of a class have the same weight in the cell's estimate. On a long axis, two rows are of one class if every
    known grouping has them in the same group, and both or neither are in the cell.
    """
    query, table = query_of(product, column), query_of(product, wanted)
    assert table is not None
    if query is None:
        return [tuple(np.zeros(n, dtype=np.int64) for n in column.shape or ())]
    index = np.unravel_index(wanted.cells, table.shape)
    classes_by_cell = []
    for cell in range(wanted.cells.size):
        classes = []
        for a, (axis, categories) in enumerate(product.axes.items()):
            rows = query.shape[a]
            if rows < len(categories) or rows <= SHORT:
                classes.append(np.arange(rows))
                continue
            memberships = [np.equal(table.groups[a], index[a][cell])]
            for word in GROUPINGS.get(axis, {}):
                memberships += [np.isin(np.arange(rows), list(one.members)) for one in GROUPINGS[axis][word]]
            classes.append(np.unique(np.array(memberships), axis=1, return_inverse=True)[1].ravel().astype(np.int64))
        classes_by_cell.append(tuple(classes))
    total = sum(int(np.prod([one.max() + 1 for one in labels])) for labels in classes_by_cell)
    return classes_by_cell if total < query.size else None


def combine_queries(
    product: Product, wanted: NmfColumn, measured: Mapping[str, NmfColumn], known: Mapping[str, NmfColumn],
    places: Places, units: int,
) -> Estimates:  # fmt: skip
    """Best linear unbiased estimates of the wanted cells in every unit of a level.

    Answers and constraints that do not count every cell exactly once are not used.

    Parameters
    ----------
    product : levels and axes of the file
    wanted : query and cells to estimate
    measured, known : measurements and constraints by name
    places : for each name, the units that have a record, and the rows of these records
    units : number of units of the level

    Raises
    ------
    ValueError : all queries together group the histogram too finely
    """
    table = query_of(product, wanted)
    assert table is not None
    columns = {**measured, **known}
    answers = [
        QueryAnswer(c, q, *places[name]) for name, c in columns.items() if (q := query_of(product, c)) is not None
    ]
    variance = np.full((units, len(answers)), np.inf)
    for i, (column, _, place, records) in enumerate(answers):
        variance[place, i] = np.where(column.sign[records] == EQUAL, column.variance[records], np.inf)
    if not answers or not np.isfinite(variance).any():
        zeros = np.zeros(units)
        shape = (units, wanted.cells.size)
        return Estimates(np.full(shape, np.nan), np.zeros(shape), zeros, zeros > 0)
    allowed = _allowed_categories(product, known, places, units)
    with np.errstate(divide="ignore"):
        total_precision = np.where(variance > 0, 0.5 / variance, 0.0).sum(axis=1)
    estimate = np.full((units, wanted.cells.size), np.nan)
    estimate_variance = np.full((units, wanted.cells.size), np.inf)
    patterns, pattern_of_unit = np.unique(np.concatenate([variance, *allowed], axis=1), axis=0, return_inverse=True)
    ends = np.cumsum([len(answers), *(one.shape[1] for one in allowed)])
    for i, pattern in enumerate(patterns):
        units_with_pattern = np.flatnonzero(pattern_of_unit.ravel() == i)
        present = [part > 0 for part in np.split(pattern, ends)[1:-1]]
        _fill_estimates(
            wanted, table, answers, pattern[: len(answers)], present, units_with_pattern, estimate, estimate_variance
        )
    exact = estimate_variance == 0
    estimate[exact] = np.rint(estimate[exact])
    with np.errstate(divide="ignore"):
        return Estimates(estimate, 0.5 / estimate_variance, total_precision, (variance == 0).any(axis=1))


def _fill_estimates(
    wanted: NmfColumn, table: Query, answers: list[QueryAnswer], variance: Floats, present: list[Any], units: Integers,
    estimate: Floats, estimate_variance: Floats,
) -> None:  # fmt: skip
    """Fill in estimates and variances of `units`, which have the same answers and the same possible categories."""
    parts = [_restrict(answer.query, present) for answer in answers]
    smaller, rows = _restrict(table, present)
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
    weights, variances = linear_weights([query for query, _ in parts], variance, np.asarray(flat), smaller)
    total = np.zeros((units.size, cells.size))
    for k, ((column, query, place, records), (part, part_axes)) in enumerate(zip(answers, parts, strict=True)):
        if not np.isfinite(variance[k]):
            continue
        order = np.full(int(place.max(initial=-1)) + 1, -1)
        order[place] = records
        values = column.values[order[units]]
        if column.labels is None:
            full = np.zeros((cells.size, *query.shape))
            full[np.ix_(range(cells.size), *part_axes)] = weights[k].reshape(cells.size, *part.shape)
            total += values @ full.reshape(cells.size, -1).T
            continue
        start = 0
        for cell, labels in enumerate(column.labels):
            shape = tuple(int(one.max()) + 1 for one in labels)
            stop = start + int(np.prod(shape))
            if (position := np.flatnonzero(cells == cell)).size:
                by_class, own_rows = (
                    np.zeros(shape),
                    np.ix_(*(label[row] for label, row in zip(labels, part_axes, strict=True))),
                )
                by_class[own_rows] = weights[k][position[0]].reshape(part.shape)
                total[:, position[0]] += values[:, start:stop] @ by_class.ravel()
            start = stop
    estimate[np.ix_(units, cells)] = np.where(np.isfinite(variances), total, np.nan)
    estimate_variance[np.ix_(units, cells)] = variances


def _restrict(query: Query, present: list[Any]) -> tuple[Query, list[Integers]]:
    """Query restricted to the present categories, and for every axis the indices of its rows that remain."""
    groups, rows = [], []
    for group, is_present in zip(query.groups, present, strict=True):
        row, renumbered = np.unique(np.asarray(group)[is_present], return_inverse=True)
        groups.append(tuple(renumbered.ravel().tolist()))
        rows.append(row.astype(np.int64))
    return Query(query.name, tuple(groups)), rows


def _allowed_categories(product: Product, known: Mapping[str, NmfColumn], places: Places, units: int) -> list[Any]:
    """For every axis, (unit, category) True where constraints allow people; all True on long axes."""
    sizes = [len(categories) for categories in product.axes.values()]
    allowed = [np.ones((units, n), dtype=bool) for n in sizes]
    for name, column in known.items():
        query = query_of(product, column)
        if query is None:
            continue
        long_axes = [a for a, n in enumerate(query.shape) if n > 1]
        if len(long_axes) != 1 or sizes[long_axes[0]] > SHORT:
            continue
        place, records = places[name]
        empty = (column.values[records] == 0) & (column.sign[records] != AT_LEAST)[:, None]
        nobody = empty[:, np.asarray(query.groups[long_axes[0]])]
        # if no category is possible the unit is empty: its cells are then exact zeros by their own constraints
        inhabited = ~nobody.all(axis=1)
        allowed[long_axes[0]][place[inhabited]] &= ~nobody[inhabited]
    return allowed
