"""Noisy Measurement Files: the published counts of every unit of a geographic spine, and the noise in them.

`read` turns the answers to a query, or to all queries together, into what the exact engine takes: a tree of units,
released counts and rho of each, so that the likelihood of a count x is exp(-rho (released - x)^2), and what is known
exactly. Nothing is loaded whole, and no record is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.census.nmf.estimates import Estimates, combine_queries
from adversary.census.nmf.exact_counts import NOISY_TABLES, State, excluded, limits, state_totals
from adversary.census.nmf.file_layout import EQUAL, levels_of, open_product, product_of
from adversary.census.nmf.level_records import (
    LevelRecords,
    asked_column,
    code_lengths,
    gather,
    named_in,
    one_shape,
    own_column,
    records_of,
    twofold,
    units_by_level,
)
from adversary.census.nmf.products import Product, Shape
from adversary.census.nmf.records import NmfColumn, label_of
from adversary.census.nmf.units import (
    EXTRACT,
    MADE_UP,
    WHOLE_STATE,
    Codes,
    build_tree,
    held_together,
    levels_below,
    root_of,
)
from adversary.census.spine import Tree

# Of `Measurements`.
ARRAYS = ("released", "rho", "low", "high", "published", "moved", "settled")

# Standard deviations of its parts' noise beyond which a state's total is of another population, and not used.
FARTHEST = 12.0


@dataclass(frozen=True, eq=False)
class Measurements:
    """The answers to one query in every unit of a tree, or the estimates of its cells from all queries.

    Parameters
    ----------
    tree : the units, parents before children
    released : (node,) or (node, cell) noisy counts, or estimates, which need not be whole; NaN where there are none;
        the count itself where it is exact
    rho : as `released`; 1 / (2 variance), 0 where not measured, infinite where the count is known exactly
    low, high : as `released`; least and largest counts that published bounds allow
    published : as `released`; the noisy counts, also where the count is known exactly; NaN where not measured
    moved : as `released`; sum of 1 / (2 variance) over all noisy answers that were read and count a person of the cell
    settled : as `released`; whether an answer that counts such a person is exact
    query, shape : the query, as the file spells it, and the lengths of its axes
    cells, labels : (cell,) flat indices of the cells in the shape, in C order, and the cells in words
    exact : what was used that has no noise, in words
    notes : what the file says of the query and is not used, in words
    states : names and totals of states by their two digits
    product, synthetic : name of the product, and whether the file says that nobody in it exists
    alone : of all queries together, the same under the query alone
    """

    tree: Tree
    released: Floats
    rho: Floats
    low: Floats
    high: Floats
    published: Floats
    moved: Floats
    settled: Any
    query: str
    shape: Shape
    cells: Integers
    labels: tuple[str, ...]
    exact: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    states: Mapping[str, State] | None = None
    product: str = ""
    synthetic: bool = False
    alone: Measurements | None = None

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest counts, as `spine.posterior` takes them."""
        return self.low, self.high

    def cell(self, index: int = 0) -> tuple[int, ...]:
        """A cell's place on each axis of the shape."""
        return tuple(map(int, np.unravel_index(int(self.cells[index]), self.shape)))

    def part(self, nodes: Integers, tree: Tree) -> Measurements:
        """Measurements of some of the units, which make up a tree."""
        alone = None if self.alone is None else self.alone.part(nodes, tree)
        return replace(self, tree=tree, alone=alone, **{name: getattr(self, name)[nodes] for name in ARRAYS})


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
    """The noisy counts of a query's cells in every unit, and what is known of them exactly.

    Parameters
    ----------
    directory : a product folder, or the archive it lies in
    query : its name, with or without the suffix `_dpq`
    cells : a flat index, a tuple with an index per axis (axes of length one may be left out), a label such as
        "Hispanic, 18 and over", a list of them, or "all"; may be left out where the query has one cell. A list makes
        (node, cell) arrays, one cell (node,)
    product : name of the product folder, or a part of it, where the directory has several
    root : geocode of the unit whose tree is read; the whole file where left out
    state, county : the same by FIPS code: a state of two digits, in both its parts, or a county of five, outside
        American Indian, Alaska Native and Hawaiian areas
    totals : CSV file of exact state totals, with columns state, name, population; the one beside the file, or that of
        the 2020 Census, where left out
    queries : "one", or "all": estimates of the cells from every query and exact count of a unit, by generalised least
        squares, see `reader.queries.effective_measurements`; `alone` then has the one query
    progress : show a bar with the time left for every level

    Of an extract its levels are read: several uppermost units hang under one, of level "Extract", of which nothing is
    known; the lowest are the leaves.

    A unit without a record was not measured: rho 0. Bounds that meet, structural zeros and state totals are exact, and
    take the measurement's place; bounds of the smallest units are kept as bounds. Of a query of two cells whose sum is
    exact, each is measured twice: by its own answer, and by the sum less the other's.

    rho is 1 / (2 variance) as recorded, whichever neighbours the budget was for. The variance of a discrete Gaussian
    and its sigma^2 agree to a relative 1e-6 from sigma = 1 on; files of ours record sigma^2.

    Raises
    ------
    ValueError, OSError : anything is missing or malformed; the message names file, geocode and query
    ImportError : pyarrow is not installed
    """
    if queries not in ("one", "all"):
        raise ValueError(f"queries must be 'one' or 'all', got {queries!r}")
    path = open_product(directory, product)
    kind, synthetic = product_of(path)
    every, code = levels_of(path, kind), root_of(root, state, county)
    lengths = code_lengths(path, every, code)
    names = levels_below(code, lengths, every)
    wanted = asked_column(path, kind, names, code, query, cells)
    levels_read = {
        name: gather(path, kind, name, code, wanted, queries == "all", progress=progress)
        for name in names
        if name != WHOLE_STATE
    }
    units = units_by_level(names, levels_read, lengths)
    if not code:
        names, units = held_together(names, units)
    if units[names[0]].size != 1:
        _refuse_root(path, names[0], units[names[0]], code)
    tree, faults = build_tree(names, units, lambda level, unit: named_in(levels_read, level, unit))
    if faults:
        raise ValueError(faults[0])
    for level in levels_read.values():
        if (column := own_column(wanted, level)) is not None:
            one_shape(column, wanted)
    return _fill_tree(tree, kind, wanted, levels_read, state_totals(totals, path), synthetic, queries == "all")


def _refuse_root(path: Path, level: str, units: Codes, root: str) -> None:
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
    """Answers in the rows of the tree, then what is exact; under one query, and under all of them."""
    size, count = len(tree), wanted.cells.size
    readings = [
        Estimates(np.full((size, count), np.nan), np.zeros((size, count)), np.zeros(size), np.zeros(size, dtype=bool))
        for _ in range(1 + every)
    ]
    high, low, published = np.full((size, count), np.inf), np.zeros((size, count)), np.full((size, count), np.nan)
    limiting: dict[str, list[str]] = {}
    idle: set[str] = set()
    notes = _notes_of_extract(tree.levels, product)
    starts = np.searchsorted(tree.level, np.arange(len(tree.levels) + 1))
    for name, start, stop in zip(tree.levels, starts, starts[1:], strict=False):
        here = slice(int(start), int(stop))
        units = tree.names[here]
        if name in MADE_UP:
            continue
        level = levels_read[name]
        own = {one: column for one, column in level.measured.items() if column is own_column(wanted, level)}
        places = {one: records_of(units, column) for one, column in (*level.measured.items(), *level.known.items())}
        single_cells = {one: c for one, c in level.known.items() if twofold(wanted) and c.values.shape[1] == 1}
        sums = {one: column for one, column in single_cells.items() if (column.sign == EQUAL).any()}
        alone, column = next(iter(own.items()), ("", None))
        single = _single_query(wanted, column, places.get(alone), units.size)
        published[here] = single.released
        if not own:
            notes.append(f"{name}: {wanted.query} is not measured at this level")
        estimated = [combine_queries(product, wanted, own, sums, places, units.size) if sums else single]
        estimated += (
            [combine_queries(product, wanted, level.measured, level.known, places, units.size)] if every else []
        )
        for reading, estimates in zip(readings, estimated, strict=True):
            for old, new in zip(reading, estimates, strict=True):
                old[here] = new
        rows = {one: places[one] for one in level.known}
        least, most, used, unused = limits(product, wanted, level.known, units.size, rows, name == tree.levels[-1])
        if (wrong := excluded(units, least, most)) is not None:
            raise ValueError(f"{level.named(wrong[0])}: {wrong[1]}")
        fixed = least == most
        for reading in readings:
            reading.released[here] = np.where(fixed, least, reading.released[here])
            reading.rho[here] = np.where(fixed, np.inf, reading.rho[here])
        if name == tree.levels[-1]:
            low[here], high[here] = least, most
        used += sums
        for one in dict.fromkeys(used):
            limiting.setdefault(one, []).append(name)
        idle |= set(unused) - set(used)
    exact = [f"{one} ({', '.join(levels)})" for one, levels in limiting.items()]
    if idle := idle - set(limiting):
        notes.append(f"constraints that do not limit the cells read: {', '.join(sorted(idle))}")
    if "relgq" in product.axes:
        notes.append(f"{', '.join(NOISY_TABLES)} has noise in it, and is not used")
    for node in np.flatnonzero(tree.level == tree.levels.index(WHOLE_STATE)) if WHOLE_STATE in tree.levels else ():
        remarks = [_state_total(tree, int(node), product, wanted, *reading[:2], states) for reading in readings]
        (exact if remarks[0].endswith("residents") else notes).extend([remarks[0]] * bool(remarks[0]))
        if every and product.residents and str(tree.names[node]) in states:
            readings[1].settled[node] = True
    assert wanted.shape is not None
    labels = tuple(label_of(product, wanted, int(cell)) for cell in wanted.cells)
    results: list[Measurements] = []
    for released, rho, moved, settled in readings:
        limits_of = low.copy(), high.copy()
        _raise_bounds(tree, rho, *limits_of)
        rho[np.isnan(released)] = 0.0
        limits_of[0][rho == np.inf], limits_of[1][rho == np.inf] = 0.0, np.inf
        noise = np.broadcast_to(moved[:, None], rho.shape)
        # of one query an exact count takes its noisy one's place
        if not results:
            noise = np.where(np.isinf(rho), 0.0, noise)
        made = [released, rho, *limits_of, published, noise, settled[:, None] | np.isinf(rho)]
        arrays: Any = {name: one[:, 0] if wanted.single else one for name, one in zip(ARRAYS, made, strict=True)}
        about: Any = {"exact": tuple(exact), "notes": tuple(notes), "product": product.name, "synthetic": synthetic}
        about |= {
            "query": wanted.query,
            "shape": wanted.shape,
            "cells": wanted.cells,
            "labels": labels,
            "states": states,
        }
        results.append(Measurements(tree=tree, **arrays, **about))
    return replace(results[-1], alone=results[0]) if every else results[0]


def _notes_of_extract(levels: tuple[str, ...], product: Product) -> list[str]:
    """Notes on a file that lacks the uppermost or the lowest levels of its product."""
    notes: list[str] = []
    if levels[0] == EXTRACT:
        shared = "; a rate that leaves share is one for all of them" * (len(levels) == 2)
        notes.append(f"nothing above level {levels[1]} is in the file, so that no total binds its units{shared}")
    if levels[-1] != product.levels[-1]:
        notes.append(f"nothing below level {levels[-1]} is in the file: its units are what pages call blocks")
    return notes


def _single_query(wanted: NmfColumn, column: NmfColumn | None, places: Any, units: int) -> Estimates:
    """The answers to the query alone."""
    released, rho = np.full((units, wanted.cells.size), np.nan), np.zeros(units)
    settled = np.zeros(units, dtype=bool)
    if column is not None:
        place, record_rows = places
        released[place] = column.own(wanted)[record_rows]
        with np.errstate(divide="ignore"):
            rho[place] = np.where(np.isfinite(column.variance), 0.5 / column.variance, 0.0)[record_rows]
        settled = np.isinf(rho)
    moved = np.where(settled, 0.0, rho)
    return Estimates(released, np.repeat(rho[:, None], wanted.cells.size, axis=1), moved, settled)


def _raise_bounds(tree: Tree, rho: Floats, low: Floats, high: Floats) -> None:
    """Bounds of only children, which were bypassed, go to the parents that were measured in their place."""
    limited = (low > 0) | np.isfinite(high)
    for unit in np.flatnonzero((limited & (rho == 0)).any(axis=1)):
        v = int(unit)
        while v > 0 and tree.children[tree.parent[v]] == 1 and not (rho[v] > 0).any():
            v = int(tree.parent[v])
        if v != unit and (rho[v] > 0).all():
            low[v], high[v], low[unit], high[unit] = low[unit].copy(), high[unit].copy(), 0.0, np.inf


def _state_total(
    tree: Tree,
    node: int,
    product: Product,
    wanted: NmfColumn,
    released: Floats,
    rho: Floats,
    states: Mapping[str, State],
) -> str:
    """Fix a whole state's count where the query has its population; what is to be said of it."""
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
        away = np.abs(released[parts][:, total].sum(axis=0) - state.population)
        if (away > FARTHEST * np.sqrt(0.5 * (1.0 / precision).sum(axis=0)) + 0.5).any():
            return (
                f"{WHOLE_STATE}: the total of {state.name} does not fit the noisy counts of its parts and is not used"
            )
    released[node, total], rho[node, total] = state.population, np.inf
    return f"{WHOLE_STATE}: {state.name} has {state.population:,} residents"
