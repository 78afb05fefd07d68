"""Which unit lies in which: a table where the file has one, else the geocodes, where a parent's begins its child's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from adversary.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, PARENTS, arrow, folder
from adversary.nmf.parquet_source import Source, Words, texts

PREFIX = "prefix"
"""Instead of a table: the parent is the unit of the level above whose geocode begins the child's, the longest one."""

ONLY = "US"
"""A level whose one unit holds every unit below, whatever its geocode."""

Parents = Mapping[str, str] | str | Path | None


@dataclass(frozen=True)
class Units:
    """Units of one level and their parents: (unit,) geocodes, in the order of the file; parents are "" at the top."""

    level: str
    names: Words
    parents: Words


def units_of(directory: Path, levels: tuple[str, ...], where: dict[str, str], parents: Parents) -> list[Units]:
    """Units of every level, the top first.

    Parameters
    ----------
    parents : a mapping of geocodes to those of their parents; a directory laid out as `Parents.parquet`; "prefix"; or
        None for the file's own table, and the prefix rule where it has none
    """
    found: list[Units] = []
    for level in levels:
        above = found[-1] if found else None
        found.append(_units(directory, level, where, parents, above))
    return found


def refuse_tangles(directory: Path, units: list[Units]) -> None:
    """ValueError naming a unit above the lowest level with none below it, or one that is on two levels."""
    for above, one in pairwise(units):
        barren = np.setdiff1d(above.names.astype(str), one.parents.astype(str))
        if barren.size:
            raise ValueError(
                f"{directory}: geocode {barren[0]} of level {above.level} has no unit of level {one.level} in it "
                f"({barren.size} such)"
            )
    names = np.concatenate([one.names for one in units])
    where = np.repeat(np.arange(len(units)), [one.names.size for one in units])
    seen, count = np.unique(names.astype(str), return_counts=True)
    if (twice := np.flatnonzero(count > 1)).size:
        both = [units[int(i)].level for i in where[names == seen[twice[0]]]]
        raise ValueError(f"{directory}: geocode {seen[twice[0]]} is a unit of levels {both[0]} and {both[1]}")


def refuse_strays(directory: Path, units: list[Units]) -> None:
    """ValueError naming a unit with files in two partitions, or in another one than its parent.

    Whoever reads one partition would miss it. Partitions that name less, such as the state only, agree with more.
    """
    pa = arrow()
    seen: list[dict[str, str]] = []
    above: tuple[Any, Any] | None = None
    for one in units:
        names, own = pa.array(one.names, pa.string()), np.full(one.names.size, -1)
        for kind in (PARENTS, MEASUREMENTS, CONSTRAINTS):
            for keys, geocodes in Source(folder(directory, one.level, kind), one.level, kind).geocodes_by_partition():
                if not keys:
                    continue
                if keys not in seen:
                    seen.append(keys)
                rows = pa.compute.index_in(geocodes, value_set=names).drop_null().to_numpy(zero_copy_only=False)
                there = own[rows]
                for code in np.unique(there[there >= 0]):
                    row = rows[there == code][0]
                    said = f"{_shown(keys)} ({kind}), and in {_shown(seen[code])}"
                    _agree(directory, one, row, keys, seen[code], said)
                longer = [code < 0 or len(seen[code]) < len(keys) for code in range(-1, len(seen))]
                own[rows] = np.where(np.array(longer)[there + 1], seen.index(keys), there)
        if above is not None:
            parents = pa.compute.index_in(pa.array(one.parents, pa.string()), value_set=above[0]).fill_null(-1)
            over = above[1][parents.to_numpy(zero_copy_only=False)]
            both = np.flatnonzero((own >= 0) & (over >= 0))
            for row in both[np.unique(np.stack([own, over])[:, both], axis=1, return_index=True)[1]]:
                said = f"{_shown(seen[own[row]])}, and its parent {one.parents[row]} in {_shown(seen[over[row]])}"
                _agree(directory, one, row, seen[own[row]], seen[over[row]], said)
        above = names, own


def _agree(directory: Path, units: Units, row: Any, one: dict[str, str], other: dict[str, str], said: str) -> None:
    if any(one[name] != other[name] for name in one.keys() & other.keys()):
        raise ValueError(f"{directory}: geocode {units.names[row]} of level {units.level} lies in partition {said}")


def _shown(keys: dict[str, str]) -> str:
    return "/".join(f"{name}={value}" for name, value in sorted(keys.items(), reverse=True))


def table_of(directory: Path, level: str, parents: Parents) -> Path | None:
    """Where the table of a level's parents lies, if there is one."""
    if isinstance(parents, Mapping) or parents == PREFIX:
        return None
    path = folder(directory, level, PARENTS) if parents is None else Path(parents) / level
    if parents is not None and not path.is_dir():
        raise FileNotFoundError(f"{path}: there is no table of the parents of level {level}")
    return path if path.is_dir() else None


def _units(directory: Path, level: str, where: dict[str, str], parents: Parents, above: Units | None) -> Units:
    table = table_of(directory, level, parents)
    if table is not None:
        names, over = _listed(Source(table, level, PARENTS, where))
    else:
        names = _mentioned(directory, level, where)
        over = None
    if names.size == 0:
        asked = "".join(f" with {key} {value!r}" for key, value in where.items())
        raise ValueError(f"{directory}: level {level} has no unit{asked}")
    _refuse_twice(directory, level, names)
    if above is None:
        return Units(level, names, np.full(names.size, "", dtype=object))
    if over is None:
        over = _mapped(names, parents) if isinstance(parents, Mapping) else _prefixes(names, above)
    _refuse_orphans(table or directory, level, names, over, above)
    return Units(level, names, over)


def _listed(source: Source) -> tuple[Words, Words]:
    """(unit,) geocodes and parents of a table."""
    both: list[tuple[Words, Words]] = []
    for path, batch in source.batches(["geocode", "parent"]):
        names, over = (texts(batch.column(i)).to_numpy(zero_copy_only=False) for i in range(2))
        if (bad := (names == None) | (names == "")).any():  # noqa: E711
            raise ValueError(f"{path}: geocode is missing in row {int(np.flatnonzero(bad)[0])}")
        both.append((names, over))
    if not both:
        return np.zeros(0, dtype=object), np.zeros(0, dtype=object)
    return np.concatenate([one for one, _ in both]), np.concatenate([one for _, one in both])


def _mentioned(directory: Path, level: str, where: dict[str, str]) -> Words:
    """(unit,) geocodes of all that has a measurement or a constraint, in the order of the files."""
    pa = arrow()
    both = [
        Source(folder(directory, level, kind), level, kind, where).geocodes() for kind in (MEASUREMENTS, CONSTRAINTS)
    ]
    merged = pa.chunked_array([chunk for one in both for chunk in _chunks(one)], pa.string()).unique()
    return np.asarray(merged.to_numpy(zero_copy_only=False), dtype=object)


def _chunks(array: Any) -> list[Any]:
    return list(array.chunks) if isinstance(array, arrow().ChunkedArray) else [array]


def _mapped(names: Words, parents: Mapping[str, str]) -> Words:
    return np.array([parents.get(name) for name in names], dtype=object)


def _prefixes(names: Words, above: Units) -> Words:
    """(unit,) the longest geocode of the level above that begins each; None where there is none."""
    if above.level == ONLY and above.names.size == 1:
        return np.full(names.size, above.names[0], dtype=object)
    known = set(above.names)
    lengths = sorted({len(name) for name in above.names}, reverse=True)
    begins = (next((name[:n] for n in lengths if n < len(name) and name[:n] in known), None) for name in names)
    return np.array(list(begins), dtype=object)


def _refuse_twice(where: Path, level: str, names: Words) -> None:
    seen, count = np.unique(names.astype(str), return_counts=True)
    if seen.size < names.size:
        raise ValueError(f"{where}: geocode {seen[count > 1][0]} is listed twice at level {level}")


def _refuse_orphans(where: Path, level: str, names: Words, over: Words, above: Units) -> None:
    pa = arrow()
    known = pa.compute.is_in(pa.array(over, pa.string()), value_set=pa.array(above.names, pa.string()))
    lost = np.flatnonzero(~known.to_numpy(zero_copy_only=False) | (over == None))  # noqa: E711
    if lost.size:
        first, parent = names[lost[0]], over[lost[0]]
        of = f"its parent {parent} is not among" if parent is not None else "no parent of it is known among"
        raise ValueError(
            f"{where}: geocode {first} of level {level} is an orphan: {of} the units of level {above.level} "
            f"({lost.size} such)"
        )
