"""Noisy Measurement Files: the published counts of every unit of a geographic spine, and the noise in them.

`read` turns the answers to one query into what the exact engine takes: a tree of units, whole released counts, and rho
of each, so that the likelihood of a count x is exp(-rho (released - x)^2). `write` is its inverse, and
`synthesise` makes up a population and a file of it. Nothing is loaded whole (`nmf_records`); the layout is that of
the 2020 Census as readers of it expect (`nmf_layout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.nmf.file_layout import (
    CONSTRAINTS,
    EQUAL,
    INEQUALITIES,
    KINDS,
    MEASUREMENTS,
    PARTITIONS,
    SPINES,
    Shape,
    arrow,
    bare,
    flat_cells,
    folder,
    levels_of,
    meant,
    opened,
)
from adversary.nmf.parents import Parents, Units, refuse_tangles, units_of
from adversary.nmf.parquet_source import Source
from adversary.nmf.record_check import Column, collect, one_shape
from adversary.nmf.writer import Answers as Answers
from adversary.nmf.writer import write as write
from adversary.reader.spine import Tree


@dataclass(frozen=True)
class Measurements:
    """The answers to one query in every unit of a tree.

    Parameters
    ----------
    tree : the units, parents before children
    released : (node,) or (node, cell) whole numbers, NaN where not measured
    rho : as `released`; 1 / (2 variance), 0 where not measured, infinite where the count is known exactly
    query, shape : the query, and the lengths of its axes
    cells : (cell,) flat indices of the cells in the shape, in C order
    notes : what the file says of the query and is not used, in words
    """

    tree: Tree
    released: Floats
    rho: Floats
    query: str
    shape: Shape
    cells: Integers
    notes: tuple[str, ...] = ()

    def cell(self, index: int = 0) -> tuple[int, ...]:
        """A cell's place on each axis of the shape."""
        return tuple(map(int, np.unravel_index(int(self.cells[index]), self.shape)))


def read(
    directory: str | Path,
    query: str,
    cells: Any = None,
    *,
    levels: Sequence[str] | None = None,
    root: str | None = None,
    state: str | None = None,
    county: str | None = None,
    parents: Parents = None,
    progress: bool = False,
) -> Measurements:
    """The noisy counts of a query's cells in every unit, and the invariants among them.

    Parameters
    ----------
    query : its name, with or without the suffix `_dpq`
    cells : a flat index, a tuple with an index per axis (axes of length one may be left out), a list of either, or
        "all"; may be left out where the query has one cell. A list makes (node, cell) arrays, one cell (node,)
    levels : from the top down; all that the file has where left out
    root : geocode of the unit of the top level whose tree is read; may be left out where there is only one
    state, county : partitions to read, which spares the others; the top level must then lie inside of them
    parents : who lies in whom, as `units_of` takes it
    progress : show a bar with the time left for every level

    A measurement of infinite variance, or none, is no measurement: rho 0; one of variance 0 is exact. A constraint "="
    of the same query is exact too, and takes the measurement's place. Others are not used, and `notes` say so.

    rho is 1 / (2 variance) as recorded, whichever neighbours the budget was for. The variance of a discrete Gaussian
    and its sigma^2 agree to a relative 1e-6 from sigma = 1 on; files of ours record sigma^2.

    Raises
    ------
    ValueError, OSError : anything is missing or malformed; the message names file, geocode and query
    ImportError : pyarrow is not installed
    """
    path = opened(directory)
    names = levels_of(path, levels)
    where = _partitions(names, state, county)
    every = units_of(path, names, where, parents)
    units = _rooted(path, every, root)
    tree, order = _planted(path, units)
    sources = [{kind: Source(folder(path, one.level, kind), one.level, kind, where) for kind in KINDS} for one in units]
    columns = [
        {kind: collect(source[kind], query, cells, progress=f"{one.level} {kind}" * progress) for kind in KINDS}
        for one, source in zip(units, sources, strict=True)
    ]
    shape = _one_shape(path, query, [column[kind] for column in columns for kind in KINDS])
    chosen, single = flat_cells(cells, shape, query)
    total = sum(one.names.size for one in units)
    released, rho = np.full((total, chosen.size), np.nan), np.zeros((total, chosen.size))
    notes: list[str] = []
    start = 0
    for whole, one, source, column in zip(every, units, sources, columns, strict=True):
        rows = slice(start, start + one.names.size)
        _place(whole, one, column, released[rows], rho[rows], notes)
        notes += _unused(source[CONSTRAINTS], query)
        start += one.names.size
    released, rho = released[order], rho[order]
    if single:
        released, rho = released[:, 0], rho[:, 0]
    return Measurements(tree, released, rho, bare(query), shape, chosen, tuple(notes))


def subtrees(directory: str | Path, level: str = "County") -> list[dict[str, str]]:
    """Units of a level that a Noisy Measurement File has records of, as keywords for `read`.

    Parameters
    ----------
    directory : of the Noisy Measurement File
    level : name of a level, such as "County"

    Returns
    -------
    One dictionary per unit, sorted by geocode: `root`, and `state` and `county` where it lies in such a partition.

    Raises
    ------
    OSError, ValueError : no such directory or level, or a malformed file
    ImportError : pyarrow is not installed
    """
    path = opened(directory)
    levels_of(path, [level])
    found: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        for keys, geocodes in Source(folder(path, level, kind), level, kind).geocodes_by_partition():
            inside = {name.lower(): value for name, value in keys.items()}
            for geocode in geocodes.to_pylist():
                found.setdefault(geocode, {"root": geocode, **inside})
    return [found[name] for name in sorted(found)]


def _partitions(levels: tuple[str, ...], state: str | None, county: str | None) -> dict[str, str]:
    """Partitions to read; ValueError if the top level reaches beyond them."""
    where = {name: str(value) for name, value in zip(PARTITIONS, (state, county), strict=True) if value is not None}
    for name in where:
        over = {above for spine in SPINES for above in spine[: spine.index(name)]}
        if levels[0] in over:
            raise ValueError(
                f"{name.lower()} {where[name]!r} is only a part of level {levels[0]}: read the levels from {name} down"
            )
    return where


def _rooted(path: Path, units: list[Units], root: str | None) -> list[Units]:
    """What lies below one unit of the top level."""
    top = units[0]
    if root is None:
        if top.names.size > 1:
            raise ValueError(
                f"{path}: level {top.level} has {top.names.size} units, {top.names[0]}, {top.names[1]}, ...: "
                "name the one to read with root"
            )
        return units
    if root not in set(top.names):
        raise ValueError(f"{path}: there is no unit {root!r} at level {top.level}")
    kept = [Units(top.level, np.array([root], dtype=object), np.array([""], dtype=object))]
    for one in units[1:]:
        known = set(kept[-1].names)
        inside = np.array([name in known for name in one.parents], dtype=bool)
        kept.append(Units(one.level, one.names[inside], one.parents[inside]))
    return kept


def _planted(path: Path, units: list[Units]) -> tuple[Tree, Integers]:
    """The tree, and for each of its nodes the place among the units, level by level."""
    refuse_tangles(path, units)
    names = np.concatenate([one.names for one in units])
    tree = Tree.of((names, np.concatenate([one.parents for one in units])), tuple(one.level for one in units))
    return tree, tree.order(names)


def _one_shape(path: Path, query: str, columns: list[Column]) -> Shape:
    """The shape of the query, the same in all records."""
    shaped = [column for column in columns if column.shape is not None]
    if not shaped:
        found = sorted({bare(name) for column in columns for name in column.source.query_names()})
        told = f"there are {', '.join(found) or 'none'}{meant(bare(query), found)}"
        raise ValueError(f"{path}: query {query!r} is not there; {told}")
    first = shaped[0]
    assert first.shape is not None
    for column in shaped[1:]:
        one_shape(column, first.shape, first.source.path)
    return first.shape


def _place(
    every: Units, units: Units, columns: dict[str, Column], released: Floats, rho: Floats, notes: list[str]
) -> None:
    """Answers of a level to the rows of its units; what is exact comes last, and stays."""
    measured, known = columns[MEASUREMENTS], columns[CONSTRAINTS]
    rows, kept = _rows(every, units, measured)
    with np.errstate(divide="ignore"):
        precision = np.where(np.isfinite(measured.variance), 0.5 / measured.variance, 0.0)[kept]
    if measured.shape is not None:
        released[rows] = measured.values[kept]
        rho[rows] = precision[:, None]
    if not (rho > 0).any() and not known.geocodes.size:
        notes.append(f"{units.level}: {measured.query} is not measured at this level")
    silent = np.setdiff1d(
        units.names.astype(str), np.union1d(measured.geocodes.astype(str), known.geocodes.astype(str))
    )
    if silent.size and (measured.geocodes.size or known.geocodes.size):
        notes.append(
            f"{units.level}: {silent.size:,} of {units.names.size:,} units have no record of {measured.query}, such as "
            f"{silent[0]}; they are taken as not measured"
        )
    strange = np.array([sign not in EQUAL | INEQUALITIES for sign in known.sign], dtype=bool)
    if strange.any():
        first = int(np.flatnonzero(strange)[0])
        raise ValueError(f"{known.named(first)}: sign must be =, >= or <=, got {known.sign[first]!r}")
    rows, kept = _rows(every, units, known)
    if known.shape is not None:
        exact = np.isin(known.sign[kept].astype(str), list(EQUAL))
        released[rows[exact]] = known.values[kept][exact]
        rho[rows[exact]] = np.inf
        if left := int((~exact).sum()):
            notes.append(f"{units.level}: {left} constraints of {known.query} are inequalities, which are not used")


def _rows(every: Units, units: Units, column: Column) -> tuple[Integers, Integers]:
    """Rows of the units that records are of, and those records; ValueError naming one that is of no unit of the level.

    When a part of a level is read, records of its other units are left out.
    """
    rows = _places(column, units)
    outside = np.flatnonzero(rows < 0)
    if outside.size:
        lost = outside[_places(column, every)[outside] < 0]
        if lost.size:
            raise ValueError(f"{column.named(int(lost[0]))}: an orphan, it is no unit of level {units.level}")
    kept = np.flatnonzero(rows >= 0)
    return rows[kept], kept


def _places(column: Column, units: Units) -> Integers:
    """(record,) place of every record's unit among the units; -1 for none."""
    pa = arrow()
    known = pa.array(units.names, pa.string())
    place = pa.compute.index_in(pa.array(column.geocodes, pa.string()), value_set=known).fill_null(-1)
    return np.asarray(place.to_numpy(zero_copy_only=False), dtype=np.int64)


def _unused(source: Source, query: str) -> list[str]:
    """What else is known at a level, of other queries: not used."""
    others = [name for name in source.query_names() if bare(name) != bare(query)]
    return [f"{source.level}: constraint {name} is of another query and not used" for name in others]
