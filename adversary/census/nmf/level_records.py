"""Records of one level, or of all: those of the query that is asked about, of every query, and of constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Integers, closest_name
from adversary.census.nmf.estimates import labels_for
from adversary.census.nmf.exact_counts import NOISY_TABLES
from adversary.census.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, bare, folder, spelling_in_file
from adversary.census.nmf.parquet_source import ParquetSource
from adversary.census.nmf.products import Product
from adversary.census.nmf.records import US, NmfColumn, collect, first_column
from adversary.census.nmf.units import MADE_UP, WHOLE_STATE, Codes, in_order, places_of, whole_states


@dataclass(frozen=True, eq=False)
class LevelRecords:
    """Records of a level: of the query by the name that the file has, of constraints by name, and its units."""

    name: str
    measured: dict[str, NmfColumn]
    known: dict[str, NmfColumn]
    units: Codes

    def named(self, code: str) -> str:
        """File, geocode and query of a record of a unit."""
        for column in (*self.measured.values(), *self.known.values()):
            if (rows := np.flatnonzero(column.geocodes == code)).size:
                return column.named(int(rows[0]))
        return f"geocode {code} of level {self.name}"


def code_lengths(path: Path, levels: tuple[str, ...], root: str = "") -> dict[str, int]:
    """Number of characters of the geocodes of each level, by the first record in the partitions of a root."""
    lengths: dict[str, int] = {}
    for level in levels[1:] if root and levels[0] == US else levels:
        sources = (ParquetSource(folder(path, level, kind), level, kind, root) for kind in (MEASUREMENTS, CONSTRAINTS))
        codes = (source.first_geocode() for source in sources)
        if (code := next((one for one in codes if one is not None), None)) is not None:
            lengths[level] = len(code)
    return lengths


def gather(
    path: Path, product: Product, level: str, root: str, wanted: NmfColumn | None, every: bool = False,
    faults: list[str] | None = None, progress: bool = False,
) -> LevelRecords:  # fmt: skip
    """Records of a level: of one query, or of every one, and of the constraints that are exact.

    wanted : the query and its cells; None: the first cell of every query, and all of constraints that are exact
    every : whether all of its queries are wanted, for estimates of the cells of the one
    """
    sources = [
        ParquetSource(folder(path, level, kind), level, kind, "" if level == US else root)
        for kind in (MEASUREMENTS, CONSTRAINTS)
    ]
    progress_name = f"{level} " * progress
    if wanted is None:
        measured = collect(sources[0], product, None, [0], faults, progress_name)
        known = collect(sources[1], product, NOISY_TABLES, [0], faults)
        known |= collect(sources[1], product, None, "all", faults, progress_name, NOISY_TABLES)
    else:
        name = None if every else spelling_in_file(wanted.query, sources[0].query_names())
        cells = "all" if every or twofold(wanted) else wanted.cells
        measured = {}
        if every or name:
            classes = partial(labels_for, product, wanted) if every else None
            measured = collect(sources[0], product, name and [name], cells, faults, progress_name, labelling=classes)
        known = collect(sources[1], product, None, "all", faults, progress_name, NOISY_TABLES)
    codes = [column.geocodes for column in (*measured.values(), *known.values())]
    units = np.unique(np.concatenate([np.zeros(0, dtype=np.str_), *codes]))
    made = LevelRecords(level, measured, known, units)
    sizes = np.char.str_len(units) if units.size else np.zeros(0, dtype=np.int64)
    if units.size and level != US and (odd := np.flatnonzero(sizes != np.bincount(sizes).argmax())).size:
        fault = f"its geocode has {sizes[odd[0]]} characters, the others of level {level} {np.bincount(sizes).argmax()}"
        if faults is None:
            raise ValueError(f"{made.named(str(units[odd[0]]))}: {fault}")
        faults.append(f"{made.named(str(units[odd[0]]))}: {fault}")
        made = replace(made, units=np.delete(units, odd))
    return made


def records_of(units: Codes, column: NmfColumn) -> tuple[Integers, Integers]:
    """Places among the sorted units of those that have a record in a column, and these records."""
    place = places_of(units, column.geocodes)
    present = np.flatnonzero(place >= 0)
    return place[present], present


def units_by_level(
    names: tuple[str, ...], levels_read: Mapping[str, LevelRecords], lengths: Mapping[str, int]
) -> dict[str, Codes]:
    """Units of every level; where a level has no constraints to list them, those that its children lie in, too."""
    units: dict[str, Codes] = {}
    for name, below in zip(names[::-1], (None, *names[::-1]), strict=False):
        if name == WHOLE_STATE:
            units[name] = whole_states(units["State"])
            continue
        units[name] = levels_read[name].units
        if below is not None and not levels_read[name].known and name != US:
            above = units[below].astype(f"<U{lengths.get(name, 1)}")
            units[name] = np.unique(np.concatenate([units[name], above]))
        if name == US and not units[name].size:
            units[name] = np.array([US])
    return {name: in_order(codes) for name, codes in units.items()}


def named_in(levels_read: Mapping[str, LevelRecords], level: str, code: str) -> str:
    """File, geocode and query of a unit."""
    return levels_read[level].named(code) if level in levels_read else f"geocode {code} of level {level}"


def asked_column(path: Path, product: Product, levels: tuple[str, ...], root: str, query: str, cells: Any) -> NmfColumn:
    """The query with its shape, words and cells, as the first level that has it, measured or else known exactly."""
    names: set[str] = set()
    sources = [
        ParquetSource(folder(path, level, kind), level, kind, "" if level == US else root)
        for kind in (MEASUREMENTS, CONSTRAINTS)
        for level in levels
        if level not in MADE_UP
    ]
    for source in sources:
        listed = source.query_names()
        names |= {bare(one) for one in listed if source.kind == MEASUREMENTS}
        name = spelling_in_file(query, listed)
        if name and (column := first_column(source, product, name, cells)) is not None:
            return column
    if root and not any(True for source in sources for _ in source.batches(["geocode"])):
        every = ParquetSource(sources[0].path, sources[0].level, sources[0].kind, "")
        codes = {code for _, batch in every.batches(["geocode"]) for code in batch["geocode"].unique().to_pylist()}
        units = sorted({code[1:3] for code in codes} if levels[0] == WHOLE_STATE else codes)
        some = f"; there are {', '.join(units[:3])}{', ...' if len(units) > 3 else ''}" if units else ""
        raise ValueError(f"{path}: there is no unit {root!r} at level {levels[0]}{closest_name(root, units) or some}")
    raise ValueError(
        f"{path}: query {query!r} is not there; there are {', '.join(sorted(names)) or 'none'}"
        f"{closest_name(bare(query), sorted(names))}"
    )


def own_column(wanted: NmfColumn, level: LevelRecords) -> NmfColumn | None:
    """The query's column at a level."""
    return next((column for column in level.measured.values() if spelling_in_file(wanted.query, [column.query])), None)


def twofold(wanted: NmfColumn) -> bool:
    """True where a query has two cells, of which each is measured twice where their sum is known."""
    return int(np.prod(wanted.shape or (0,))) == 2


def one_shape(column: NmfColumn, first: NmfColumn) -> None:
    """ValueError where a query's shape or axes are not those of its records at another level."""
    for what, mine, theirs in (("query_shape", column.shape, first.shape), ("axes", column.words, first.words)):
        if mine != theirs:
            where = f"{column.paths[0]}: query {column.query}"
            raise ValueError(f"{where} has {what} {mine}, which is {theirs} in {first.paths[0]}")
