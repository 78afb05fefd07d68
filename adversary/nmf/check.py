"""What a Noisy Measurement File holds, and everything that is wrong with it: `adversary nmf check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from adversary.nmf.file_layout import (
    CONSTRAINTS,
    EQUAL,
    INEQUALITIES,
    KINDS,
    MEASUREMENTS,
    Shape,
    bare,
    folder,
    levels_of,
    made_up,
    opened,
)
from adversary.nmf.parents import Units, refuse_strays, refuse_tangles, table_of, units_of
from adversary.nmf.parquet_source import Source
from adversary.nmf.record_check import Column, collect, one_shape


def contents(directory: str | Path, *, progress: bool = False) -> dict[str, Any]:
    """Levels, units, queries, shapes, variances and problems of a file, all records gone through.

    Nothing is held but names and one cell of one query at one level at a time. What is missing or malformed is listed
    in `problems`, with file, geocode and query; only a directory that is no such file at all raises.
    """
    path = opened(directory)
    problems: list[str] = []
    levels = levels_of(path)
    units = _units(path, levels, problems)
    try:
        refuse_strays(path, list(units.values()))
    except ValueError as error:
        problems.append(str(error))
    files = [file for file in path.rglob("*.parquet") if file.is_file()]
    shapes: dict[str, tuple[Shape, Path]] = {}
    return {
        "directory": str(path),
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "synthetic": made_up(path),
        "parents": "table" if any(table_of(path, level, None) for level in levels[1:]) else "prefix of the geocode",
        "levels": [_level(path, level, units.get(level), shapes, problems, progress) for level in levels],
        "problems": list(dict.fromkeys(problems)),
    }


def refuse_problems(directory: str | Path, *, progress: bool = False) -> None:
    """ValueError with the first of the problems, for whoever reads a part of the file only."""
    problems = contents(directory, progress=progress)["problems"]
    if problems:
        more = f" (and {len(problems) - 1} more: see adversary nmf check)" if len(problems) > 1 else ""
        raise ValueError(problems[0] + more)


def _units(path: Path, levels: tuple[str, ...], problems: list[str]) -> dict[str, Units]:
    """Units by level, down to the first level that is broken."""
    for depth in range(len(levels), 0, -1):
        try:
            found = units_of(path, levels[:depth], {}, None)
            if depth == len(levels):
                refuse_tangles(path, found)
        except (ValueError, OSError) as error:
            problems[:] = [str(error)]
        else:
            return {one.level: one for one in found}
    return {}


def _level(
    path: Path, level: str, units: Units | None, shapes: dict[str, tuple[Shape, Path]], problems: list[str],
    progress: bool,
) -> dict[str, Any]:  # fmt: skip
    queries = []
    recorded: set[str] = set()
    for kind in KINDS:
        source = Source(folder(path, level, kind), level, kind)
        for name in source.query_names(problems):
            try:
                column = collect(source, name, [0], problems, f"{level} {name}" if progress else "")
            except ValueError as error:
                problems.append(str(error))
                continue
            if column.shape is not None:
                try:
                    one_shape(column, *shapes.setdefault(column.query, (column.shape, source.path)))
                except ValueError as error:
                    problems.append(str(error))
            _orphans(column, units, problems)
            queries.append(_query(column, kind, problems))
            recorded.update(column.geocodes)
    if queries and units is not None and (silent := [name for name in units.names if name not in recorded]):
        problems.append(
            f"{path / (level + '.parquet')}: geocode {silent[0]} has no record that can be read, "
            f"neither {MEASUREMENTS} nor {CONSTRAINTS} ({len(silent)} such)"
        )
    if not queries:
        problems.append(f"{path / (level + '.parquet')}: there is no record, neither {MEASUREMENTS} nor {CONSTRAINTS}")
    return {"level": level, "units": None if units is None else int(units.names.size), "queries": queries}


def _query(column: Column, kind: str, problems: list[str]) -> dict[str, Any]:
    finite = column.variance[np.isfinite(column.variance)]
    exact = kind == CONSTRAINTS
    strange = [i for i, sign in enumerate(column.sign) if sign not in EQUAL | INEQUALITIES]
    if strange:
        problems.append(f"{column.named(strange[0])}: sign must be =, >= or <=, got {column.sign[strange[0]]!r}")
    return {
        "query": bare(column.query),
        "kind": " ".join(["constraint", *sorted(set(map(str, column.sign)))]) if exact else "measurement",
        "shape": None if column.shape is None else list(column.shape),
        "units": int(column.geocodes.size),
        "measured": int(finite.size),
        "variance": None if exact or not finite.size else [float(finite.min()), float(finite.max())],
    }


def _orphans(column: Column, units: Units | None, problems: list[str]) -> None:
    if units is not None:
        known = set(units.names)
        lost = [i for i, name in enumerate(column.geocodes) if name not in known]
        if lost:
            more = f" ({len(lost)} such)" if len(lost) > 1 else ""
            problems.append(f"{column.named(lost[0])}: an orphan, it is no unit of level {units.level}{more}")
