"""Records of one level: of the wanted query or of every query, and of the constraints; units and wanted cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Integers, closest_name
from adversary.census.nmf.estimates import row_classes
from adversary.census.nmf.exact_counts import NOISY_TABLES
from adversary.census.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, bare, folder, spelling_in_file
from adversary.census.nmf.parquet_source import ParquetSource
from adversary.census.nmf.products import Product
from adversary.census.nmf.records import US, NmfColumn, query_header, read_columns
from adversary.census.nmf.units import NOT_IN_FILES, WHOLE_STATE, Codes, places_of, sort_by_key, whole_states


@dataclass(frozen=True, eq=False)
class LevelRecords:
    """Records of a level: measurements and constraints by query name as in the file, and geocodes of its units."""

    name: str
    measured: dict[str, NmfColumn]
    known: dict[str, NmfColumn]
    units: Codes

    def location(self, code: str) -> str:
        """File, geocode and query of one record of a unit, for error messages."""
        for column in (*self.measured.values(), *self.known.values()):
            if (rows := np.flatnonzero(column.geocodes == code)).size:
                return column.location(int(rows[0]))
        return f"geocode {code} of level {self.name}"


def code_lengths(path: Path, levels: tuple[str, ...], root: str = "") -> dict[str, int]:
    """Number of characters of the geocodes of each level, from the first record in the partitions of `root`."""
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
    """Read the records of a level: of one query or of every query, and of the exact constraints.

    Parameters
    ----------
    path, product : the product folder, and its levels and axes
    level : name of the level
    root : beginning of the geocodes to read; "": all
    wanted : query and cells; None: the first cell of every query, for `check`
    every : read all queries, to estimate the cells of `wanted` from them
    faults : list to which faults are added; None: the first one raises ValueError
    progress : show a progress bar
    """
    sources = [
        ParquetSource(folder(path, level, kind), level, kind, "" if level == US else root)
        for kind in (MEASUREMENTS, CONSTRAINTS)
    ]
    progress_name = f"{level} " * progress
    if wanted is None:
        measured = read_columns(sources[0], product, None, [0], faults, progress_name)
        known = read_columns(sources[1], product, NOISY_TABLES, [0], faults)
        known |= read_columns(sources[1], product, None, "all", faults, progress_name, NOISY_TABLES)
    else:
        name = None if every else spelling_in_file(wanted.query, sources[0].query_names())
        cells = "all" if every or has_two_cells(wanted) else wanted.cells
        measured = {}
        if every or name:
            classes = partial(row_classes, product, wanted) if every else None
            measured = read_columns(
                sources[0], product, name and [name], cells, faults, progress_name, labelling=classes
            )
        known = read_columns(sources[1], product, None, "all", faults, progress_name, NOISY_TABLES)
    codes = [column.geocodes for column in (*measured.values(), *known.values())]
    units = np.unique(np.concatenate([np.zeros(0, dtype=np.str_), *codes]))
    records = LevelRecords(level, measured, known, units)
    sizes = np.char.str_len(units) if units.size else np.zeros(0, dtype=np.int64)
    if units.size and level != US and (wrong_length := np.flatnonzero(sizes != np.bincount(sizes).argmax())).size:
        usual = np.bincount(sizes).argmax()
        fault = f"its geocode has {sizes[wrong_length[0]]} characters, the others of level {level} {usual}"
        if faults is None:
            raise ValueError(f"{records.location(str(units[wrong_length[0]]))}: {fault}")
        faults.append(f"{records.location(str(units[wrong_length[0]]))}: {fault}")
        records = replace(records, units=np.delete(units, wrong_length))
    return records


def records_of(units: Codes, column: NmfColumn) -> tuple[Integers, Integers]:
    """Units with a record in a column, as positions among the sorted units, and the rows of these records."""
    place = places_of(units, column.geocodes)
    present = np.flatnonzero(place >= 0)
    return place[present], present


def units_by_level(
    names: tuple[str, ...], levels_read: Mapping[str, LevelRecords], lengths: Mapping[str, int]
) -> dict[str, Codes]:
    """Geocodes of every level, sorted; a level without constraints, which list all units, also gets all parents."""
    units: dict[str, Codes] = {}
    for name, below in zip(names[::-1], (None, *names[::-1]), strict=False):
        if name == WHOLE_STATE:
            units[name] = whole_states(units["State"])
            continue
        units[name] = levels_read[name].units
        if below is not None and not levels_read[name].known and name != US:
            parents = units[below].astype(f"<U{lengths.get(name, 1)}")
            units[name] = np.unique(np.concatenate([units[name], parents]))
        if name == US and not units[name].size:
            units[name] = np.array([US])
    return {name: sort_by_key(codes) for name, codes in units.items()}


def describe_unit(levels_read: Mapping[str, LevelRecords], level: str, code: str) -> str:
    """File, geocode and query of one record of a unit at a level, for error messages."""
    return levels_read[level].location(code) if level in levels_read else f"geocode {code} of level {level}"


def find_query(path: Path, product: Product, levels: tuple[str, ...], root: str, query: str, cells: Any) -> NmfColumn:
    """Header of a query: shape, axis words and wanted cells, from the first level that has it.

    Measurements come before constraints. ValueError if the query, or the root, is not in the file.
    """
    names: set[str] = set()
    sources = [
        ParquetSource(folder(path, level, kind), level, kind, "" if level == US else root)
        for kind in (MEASUREMENTS, CONSTRAINTS)
        for level in levels
        if level not in NOT_IN_FILES
    ]
    for source in sources:
        listed = source.query_names()
        names |= {bare(one) for one in listed if source.kind == MEASUREMENTS}
        name = spelling_in_file(query, listed)
        if name and (column := query_header(source, product, name, cells)) is not None:
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


def column_of_query(wanted: NmfColumn, level: LevelRecords) -> NmfColumn | None:
    """Measurements of the wanted query at a level; None if it was not measured there."""
    return next((column for column in level.measured.values() if spelling_in_file(wanted.query, [column.query])), None)


def has_two_cells(wanted: NmfColumn) -> bool:
    """True if a query has two cells: if their sum is exact, each then has two measurements."""
    return int(np.prod(wanted.shape or (0,))) == 2


def check_same_shape(column: NmfColumn, first: NmfColumn) -> None:
    """ValueError if a query's shape or axes differ from those of its records at another level."""
    for what, mine, theirs in (("query_shape", column.shape, first.shape), ("axes", column.words, first.words)):
        if mine != theirs:
            where = f"{column.paths[0]}: query {column.query}"
            raise ValueError(f"{where} has {what} {mine}, which is {theirs} in {first.paths[0]}")
