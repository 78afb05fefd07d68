"""Noisy Measurement Files: the published counts of every unit of a geographic spine, and the noise in them.

`read` turns the answers to a query, or to all queries together, into the input of `census.spine.posterior`: a tree of
units, noisy counts and rho, with likelihood exp(-rho (released - x)^2) of a count x, and exact information. Files are
streamed, and no record is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.census.nmf.estimates import Estimates, combine_queries
from adversary.census.nmf.exact_counts import NOISY_TABLES, State, constraint_limits, first_contradiction, state_totals
from adversary.census.nmf.file_layout import EQUAL, levels_of, open_product, product_of
from adversary.census.nmf.level_records import (
    LevelRecords,
    check_same_shape,
    code_lengths,
    column_of_query,
    describe_unit,
    find_query,
    gather,
    has_two_cells,
    records_of,
    units_by_level,
)
from adversary.census.nmf.products import Product, Shape
from adversary.census.nmf.records import NmfColumn, label_of
from adversary.census.nmf.units import (
    EXTRACT,
    NOT_IN_FILES,
    WHOLE_STATE,
    Codes,
    build_tree,
    levels_below,
    root_geocode,
    under_one_root,
)
from adversary.census.spine import Tree

# Arrays of `Measurements` with a row per unit.
ARRAYS = ("released", "rho", "low", "high", "published", "total_precision", "has_exact")

# Standard deviations of the noise of its parts by which a state total may differ from their sum. A larger gap means
# that the total is of another population, so it is not used.
FARTHEST = 12.0


@dataclass(frozen=True, eq=False)
class Measurements:
    """Answers to one query in every unit of a tree, or estimates of its cells from all queries.

    Parameters
    ----------
    tree : the units, parents before children
    released : (node,) or (node, cell) noisy counts, or estimates, which need not be whole; exact counts where known;
        NaN where there is neither
    rho : as `released`; 1 / (2 variance), 0 if not measured, infinite if exact
    low, high : as `released`; smallest and largest counts that published bounds allow
    published : as `released`; noisy counts, also of exact counts; NaN if not measured
    total_precision : as `released`; sum of 1 / (2 variance) over all noisy answers that were read and count a person of
        the cell
    has_exact : as `released`; True if an answer that counts such a person is exact
    query, shape : name of the query as in the file, and the lengths of its axes
    cells, labels : (cell,) flat indices of the cells in the shape, in C order, and their descriptions
    exact : exact information that was used, in words
    notes : information about the query that was not used, in words
    states : names and totals of states by their two digits
    product, synthetic : name of the product, and True if the file declares itself synthetic
    single_query : with `queries="all"`, the measurements of the query alone; otherwise None
    """

    tree: Tree
    released: Floats
    rho: Floats
    low: Floats
    high: Floats
    published: Floats
    total_precision: Floats
    has_exact: Any
    query: str
    shape: Shape
    cells: Integers
    labels: tuple[str, ...]
    exact: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    states: Mapping[str, State] | None = None
    product: str = ""
    synthetic: bool = False
    single_query: Measurements | None = None

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """(low, high), the argument `bounds` of `spine.posterior`."""
        return self.low, self.high

    def cell(self, index: int = 0) -> tuple[int, ...]:
        """Indices of a cell on the axes of the shape."""
        return tuple(map(int, np.unravel_index(int(self.cells[index]), self.shape)))

    def part(self, nodes: Integers, tree: Tree) -> Measurements:
        """Measurements of the units `nodes`, which form the tree `tree`."""
        single_query = None if self.single_query is None else self.single_query.part(nodes, tree)
        return replace(
            self, tree=tree, single_query=single_query, **{name: getattr(self, name)[nodes] for name in ARRAYS}
        )


def read(
    directory: str | Path,
    query: str,
    cells: Any = None,
    *,
    product: str | None = None,
    root: str | None = None,
    state: str | None = None,
    county: str | None = None,
    totals: str | Path | None = None,
    queries: str = "one",
    progress: bool = False,
) -> Measurements:
    """Read the noisy counts of a query's cells in every unit, and exact information about them.

    Parameters
    ----------
    directory : a product folder, or the archive it lies in
    query : its name, with or without the suffix `_dpq`
    cells : a flat index, a tuple with an index per axis (axes of length one may be left out), a label such as
        "Hispanic, 18 and over", a list of these, or "all"; optional if the query has one cell. A list gives
        (node, cell) arrays, one cell (node,)
    product : name of the product folder, or a part of it, if the directory has several
    root : geocode of the unit whose subtree is read; default the whole file
    state, county : the root by FIPS code: a state of two digits, with both its parts, or a county of five, outside
        American Indian, Alaska Native and Hawaiian areas
    totals : CSV file of exact state totals, with columns state, name, population; default the one beside the product
        folder, or the 2020 Census
    queries : "one", or "all": estimates of the cells from every query and exact count of a unit, by generalised least
        squares, see `adversaries.tables.effective_measurements`; `single_query` then has the query alone
    progress : show a bar with the time left for every level

    Returns
    -------
    Measurements

    Notes
    -----
    In an extract, the lowest levels of the file are the leaves, and several uppermost units are joined under a root of
    level "Extract", which has no measurement.

    A unit without a record was not measured: rho 0. Bounds that meet, structural zeros and state totals are exact, and
    replace the measurement; bounds of the smallest units stay bounds. If a query has two cells whose sum is exact, each
    cell has two measurements: its own answer, and the sum minus the other's.

    rho is 1 / (2 variance) as recorded, whichever neighbours the budget was for. The variance of a discrete Gaussian
    and its sigma^2 agree to a relative 1e-6 for sigma >= 1; files written by `synthesise` record sigma^2.

    Raises
    ------
    ValueError, OSError : anything is missing or malformed; the message names file, geocode and query
    ImportError : pyarrow is not installed
    """
    if queries not in ("one", "all"):
        raise ValueError(f"queries must be 'one' or 'all', got {queries!r}")
    path = open_product(directory, product)
    layout, synthetic = product_of(path)
    all_levels, geocode = levels_of(path, layout), root_geocode(root, state, county)
    lengths = code_lengths(path, all_levels, geocode)
    names = levels_below(geocode, lengths, all_levels)
    wanted = find_query(path, layout, names, geocode, query, cells)
    levels_read = {
        name: gather(path, layout, name, geocode, wanted, queries == "all", progress=progress)
        for name in names
        if name != WHOLE_STATE
    }
    units = units_by_level(names, levels_read, lengths)
    if not geocode:
        names, units = under_one_root(names, units)
    if units[names[0]].size != 1:
        _refuse_root(path, names[0], units[names[0]], geocode)
    tree, faults = build_tree(names, units, lambda level, unit: describe_unit(levels_read, level, unit))
    if faults:
        raise ValueError(faults[0])
    for level in levels_read.values():
        if (column := column_of_query(wanted, level)) is not None:
            check_same_shape(column, wanted)
    return _fill_tree(tree, layout, wanted, levels_read, state_totals(totals, path), synthetic, queries == "all")


def _refuse_root(path: Path, level: str, units: Codes, root: str) -> None:
    """ValueError for a file in which the root is absent, or not unique."""
    if units.size == 0:
        raise ValueError(f"{path}: there is no unit {root!r} at level {level}" if root else f"{path}: no unit is there")
    raise ValueError(
        f"{path}: level {level} has {units.size} units, {units[0]}, {units[1]}, ...: name the one to read with root, "
        "state or county"
    )


def _fill_tree(
    tree: Tree, product: Product, wanted: NmfColumn, levels_read: Mapping[str, LevelRecords],
    states: Mapping[str, State], synthetic: bool, every: bool,
) -> Measurements:  # fmt: skip
    """Measurements of a tree: answers in the order of its units, then exact information; for one query, or for all.

    every : also estimate from all queries; the result then has the query alone as `single_query`
    """
    size, count = len(tree), wanted.cells.size
    estimates_by_reading = [
        Estimates(np.full((size, count), np.nan), np.zeros((size, count)), np.zeros(size), np.zeros(size, dtype=bool))
        for _ in range(1 + every)
    ]
    high, low, published = np.full((size, count), np.inf), np.zeros((size, count)), np.full((size, count), np.nan)
    used_at: dict[str, list[str]] = {}
    unused_constraints: set[str] = set()
    notes = _notes_of_extract(tree.levels, product)
    starts = np.searchsorted(tree.level, np.arange(len(tree.levels) + 1))
    for name, start, stop in zip(tree.levels, starts, starts[1:], strict=False):
        nodes = slice(int(start), int(stop))
        units = tree.names[nodes]
        if name in NOT_IN_FILES:
            continue
        level = levels_read[name]
        own = {one: column for one, column in level.measured.items() if column is column_of_query(wanted, level)}
        places = {one: records_of(units, column) for one, column in (*level.measured.items(), *level.known.items())}
        single_cells = {one: c for one, c in level.known.items() if has_two_cells(wanted) and c.values.shape[1] == 1}
        exact_sums = {one: column for one, column in single_cells.items() if (column.sign == EQUAL).any()}
        own_name, column = next(iter(own.items()), ("", None))
        single = _single_query(wanted, column, places.get(own_name), units.size)
        published[nodes] = single.released
        if not own:
            notes.append(f"{name}: {wanted.query} is not measured at this level")
        estimated = [combine_queries(product, wanted, own, exact_sums, places, units.size) if exact_sums else single]
        estimated += (
            [combine_queries(product, wanted, level.measured, level.known, places, units.size)] if every else []
        )
        for filled, estimates in zip(estimates_by_reading, estimated, strict=True):
            for old, new in zip(filled, estimates, strict=True):
                old[nodes] = new
        rows = {one: places[one] for one in level.known}
        least, most, used, unused = constraint_limits(
            product, wanted, level.known, units.size, rows, name == tree.levels[-1]
        )
        if (contradiction := first_contradiction(units, least, most)) is not None:
            raise ValueError(f"{level.location(contradiction[0])}: {contradiction[1]}")
        is_exact = least == most
        for filled in estimates_by_reading:
            filled.released[nodes] = np.where(is_exact, least, filled.released[nodes])
            filled.rho[nodes] = np.where(is_exact, np.inf, filled.rho[nodes])
        if name == tree.levels[-1]:
            low[nodes], high[nodes] = least, most
        used += exact_sums
        for one in dict.fromkeys(used):
            used_at.setdefault(one, []).append(name)
        unused_constraints |= set(unused) - set(used)
    exact = [f"{one} ({', '.join(levels)})" for one, levels in used_at.items()]
    if unused_constraints := unused_constraints - set(used_at):
        notes.append(f"constraints that do not limit the cells read: {', '.join(sorted(unused_constraints))}")
    if "relgq" in product.axes:
        notes.append(f"{', '.join(NOISY_TABLES)} has noise in it, and is not used")
    for node in np.flatnonzero(tree.level == tree.levels.index(WHOLE_STATE)) if WHOLE_STATE in tree.levels else ():
        remarks = [
            _fix_state_total(tree, int(node), product, wanted, *reading[:2], states) for reading in estimates_by_reading
        ]
        (exact if remarks[0].endswith("residents") else notes).extend([remarks[0]] * bool(remarks[0]))
        if every and product.residents and str(tree.names[node]) in states:
            estimates_by_reading[1].has_exact[node] = True
    assert wanted.shape is not None
    labels = tuple(label_of(product, wanted, int(cell)) for cell in wanted.cells)
    results: list[Measurements] = []
    for released, rho, total_precision, has_exact in estimates_by_reading:
        limits_of = low.copy(), high.copy()
        _move_bounds_to_parents(tree, rho, *limits_of)
        rho[np.isnan(released)] = 0.0
        limits_of[0][rho == np.inf], limits_of[1][rho == np.inf] = 0.0, np.inf
        noise = np.broadcast_to(total_precision[:, None], rho.shape)
        # for one query, an exact count replaces its noisy one, which then reveals nothing more
        if not results:
            noise = np.where(np.isinf(rho), 0.0, noise)
        columns = [released, rho, *limits_of, published, noise, has_exact[:, None] | np.isinf(rho)]
        arrays: Any = {name: one[:, 0] if wanted.single else one for name, one in zip(ARRAYS, columns, strict=True)}
        details: Any = {"exact": tuple(exact), "notes": tuple(notes), "product": product.name, "synthetic": synthetic}
        details |= {
            "query": wanted.query,
            "shape": wanted.shape,
            "cells": wanted.cells,
            "labels": labels,
            "states": states,
        }
        results.append(Measurements(tree=tree, **arrays, **details))
    return replace(results[-1], single_query=results[0]) if every else results[0]


def _notes_of_extract(levels: tuple[str, ...], product: Product) -> list[str]:
    """Notes for a file that lacks the uppermost or the lowest levels of its product."""
    notes: list[str] = []
    if levels[0] == EXTRACT:
        shared = "; a rate that leaves share is one for all of them" * (len(levels) == 2)
        notes.append(f"nothing above level {levels[1]} is in the file, so that no total binds its units{shared}")
    if levels[-1] != product.levels[-1]:
        notes.append(f"nothing below level {levels[-1]} is in the file: its units are what pages call blocks")
    return notes


def _single_query(wanted: NmfColumn, column: NmfColumn | None, places: Any, units: int) -> Estimates:
    """Measurements of the query alone, in the form of estimates."""
    released, rho = np.full((units, wanted.cells.size), np.nan), np.zeros(units)
    has_exact = np.zeros(units, dtype=bool)
    if column is not None:
        place, record_rows = places
        released[place] = column.answers_in(wanted)[record_rows]
        with np.errstate(divide="ignore"):
            rho[place] = np.where(np.isfinite(column.variance), 0.5 / column.variance, 0.0)[record_rows]
        has_exact = np.isinf(rho)
    total_precision = np.where(has_exact, 0.0, rho)
    return Estimates(released, np.repeat(rho[:, None], wanted.cells.size, axis=1), total_precision, has_exact)


def _move_bounds_to_parents(tree: Tree, rho: Floats, low: Floats, high: Floats) -> None:
    """Move bounds of only children, which were bypassed, to the ancestors that were measured in their place."""
    limited = (low > 0) | np.isfinite(high)
    for unit in np.flatnonzero((limited & (rho == 0)).any(axis=1)):
        v = int(unit)
        while v > 0 and tree.children[tree.parent[v]] == 1 and not (rho[v] > 0).any():
            v = int(tree.parent[v])
        if v != unit and (rho[v] > 0).all():
            low[v], high[v], low[unit], high[unit] = low[unit].copy(), high[unit].copy(), 0.0, np.inf


def _fix_state_total(
    tree: Tree,
    node: int,
    product: Product,
    wanted: NmfColumn,
    released: Floats,
    rho: Floats,
    states: Mapping[str, State],
) -> str:
    """Fix a whole state's count, in place, if a cell is its population; return a note about it, or ""."""
    assert wanted.shape is not None
    state = states.get(str(tree.names[node]))
    total = np.array([label_of(product, wanted, int(cell)) == product.total for cell in wanted.cells])
    if product.residents is False or not total.any():
        return ""
    if state is None:
        return f"{WHOLE_STATE}: no total of state {tree.names[node]} is known"
    parts = np.flatnonzero(tree.parent == node)
    precision = rho[parts][:, total]
    if (precision > 0).all():
        gap = np.abs(released[parts][:, total].sum(axis=0) - state.population)
        if (gap > FARTHEST * np.sqrt(0.5 * (1.0 / precision).sum(axis=0)) + 0.5).any():
            return (
                f"{WHOLE_STATE}: the total of {state.name} does not fit the noisy counts of its parts and is not used"
            )
    released[node, total], rho[node, total] = state.population, np.inf
    return f"{WHOLE_STATE}: {state.name} has {state.population:,} residents"
