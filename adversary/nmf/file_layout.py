"""The layout of a Noisy Measurement File: its levels, its kinds of records, their columns, queries and cells.

A file is a directory. `<Geolevel>.parquet/DPQuery` holds noisy answers, `<Geolevel>.parquet/Constraint` what is known
without noise, each a set of Parquet files that may lie in partitions `State=.../County=...`. A record is the answer to
one query in one unit: a list of whole numbers, flattened in C order over the query's shape, with one variance for all.

Which unit lies in which is data of its own, `Parents.parquet/<Geolevel>` with columns geocode and parent, because the
geocode of a parent need not begin that of its children (it does in the tabulation spine, not in the optimized one).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Integers, check_whole, missing_extra

SPINES = (
    ("US", "State", "County", "Tract", "Block_Group", "Block"),
    ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block"),
)
"""Levels from the top down: of the redistricting release, and of the demographic and housing one."""

MEASUREMENTS, CONSTRAINTS = "DPQuery", "Constraint"
KINDS = (MEASUREMENTS, CONSTRAINTS)
SUFFIX = {MEASUREMENTS: "_dpq", CONSTRAINTS: "_con"}
"""What the name of a query ends with among the records of each kind."""

PARENTS = "Parents"
PARTITIONS = ("State", "County")
EQUAL = frozenset({"=", "==", "eq"})
INEQUALITIES = frozenset({">=", "<=", "ge", "le", ">", "<", "gt", "lt"})

Shape = tuple[int, ...]


def arrow() -> Any:
    """pyarrow with its datasets, or ImportError that names the extra it comes with."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("Noisy Measurement Files need pyarrow", "scale") from error
    return pyarrow


def opened(directory: str | Path) -> Path:
    """The directory of a Noisy Measurement File; FileNotFoundError or NotADirectoryError naming it otherwise."""
    path = Path(directory)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such directory")
    if not path.is_dir():
        raise NotADirectoryError(f"{path}: a Noisy Measurement File is a directory, this is a file")
    return path


def made_up(directory: Path) -> bool:
    """Whether a file says that its population is made up, as ours do in their metadata."""
    pa = arrow()
    first = next((file for file in sorted(directory.glob("*.parquet/**/*.parquet")) if file.is_file()), None)
    try:
        metadata = {} if first is None else pa.parquet.read_schema(first).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return bool(metadata.get(b"synthetic") == b"true")


def meant(name: str, known: Iterable[str]) -> str:
    """What to add to the error about a name that is not there: the closest that is, or nothing.

    >>> meant("detialed", ["detailed", "total"])
    "; did you mean 'detailed'?"
    """
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, 1, 0.75)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def folder(directory: Path, level: str, kind: str) -> Path:
    """Where the records of a kind lie at a level; the level's parents for `PARENTS`."""
    return directory / f"{PARENTS}.parquet" / level if kind == PARENTS else directory / f"{level}.parquet" / kind


def present(directory: Path) -> list[str]:
    """Names of the levels that the directory has, in no order."""
    found = (path.name.removesuffix(".parquet") for path in directory.glob("*.parquet") if path.is_dir())
    return sorted(name for name in found if name != PARENTS)


def levels_of(directory: Path, levels: Sequence[str] | None = None) -> tuple[str, ...]:
    """The levels to read, from the top down.

    Without `levels`, all that are there: they must be neighbours in one of `SPINES`. FileNotFoundError naming a level
    that is asked for, skipped, or listed among the parents, and has no directory; ValueError for one that is in no
    spine, or no level at all.
    """
    there = present(directory)
    if levels is not None:
        asked = tuple(levels)
        if not asked or len(set(asked)) < len(asked):
            raise ValueError(f"levels must be distinct and at least one, got {list(asked)}")
        _all_there(directory, asked, there)
        return asked
    if not there:
        raise ValueError(f"{directory}: this is no Noisy Measurement File, it has no <Geolevel>.parquet directory")
    for spine in SPINES:
        if set(there) <= set(spine):
            _all_there(directory, _listed(directory), there)
            places = [spine.index(name) for name in there]
            whole = spine[min(places) : max(places) + 1]
            _all_there(directory, whole, there)
            return whole
    known = {name for spine in SPINES for name in spine}
    strange = [name for name in there if name not in known] or there
    raise ValueError(
        f"{directory}: {strange[0]}.parquet is no level of the spines known ({' > '.join(SPINES[0])}; "
        f"{' > '.join(SPINES[1])}); name the levels, from the top down"
    )


def _listed(directory: Path) -> list[str]:
    """Levels of the spines of which the file has a table of parents."""
    tables = directory / f"{PARENTS}.parquet"
    known = dict.fromkeys(name for spine in SPINES for name in spine)
    return [name for name in known if (tables / name).is_dir()]


def _all_there(directory: Path, wanted: Iterable[str], there: Sequence[str]) -> None:
    for name in wanted:
        if name not in there:
            told = f"level {name} is absent, there is no directory {name}.parquet{meant(name, there)}"
            raise FileNotFoundError(f"{directory}: {told}")


def bare(query: str) -> str:
    """A query's name without its suffix, attributes crossed by " * " and in lower case.

    >>> bare("TOTAL"), bare("hispanic*cenrace_dpq")
    ('total', 'hispanic * cenrace')
    """
    name = query.strip()
    for suffix in SUFFIX.values():
        name = name.removesuffix(suffix)
    return " * ".join(part.strip() for part in name.split("*")).lower()


def flat_cells(cells: Any, shape: Shape, query: str) -> tuple[Integers, bool]:
    """(cell,) flat indices of the cells asked for, and whether one cell was meant rather than a list of them.

    A cell is a flat index, or a tuple with an index per axis of the shape; axes of length one may be left out. `cells`
    is one, or a list of them, or "all"; None is the only cell there is. ValueError naming query, cell and shape.

    >>> flat_cells([(1, 0), 5], (2, 1, 3), "race")[0].tolist()
    [3, 5]
    """
    size = int(np.prod(shape))
    across = " x ".join(map(str, shape))
    if cells is None:
        if size != 1:
            raise ValueError(f"query {query} has {across} cells: say which, one or a list of them, or 'all'")
        return np.zeros(1, dtype=np.int64), True
    if isinstance(cells, str):
        if cells != "all":
            raise ValueError(f"cells must be indices or 'all', got {cells!r}")
        return np.arange(size), False
    one = not isinstance(cells, (list, np.ndarray, range))
    listed = [cells] if one else list(cells)
    if not listed:
        raise ValueError(f"cells must name one cell of query {query} at least, got none")
    found = np.array([_flat(cell, shape, across, query) for cell in listed], dtype=np.int64)
    if np.unique(found).size < found.size:
        raise ValueError(f"cells must be distinct, got {listed}")
    return found, one


def _flat(cell: Any, shape: Shape, across: str, query: str) -> int:
    index: tuple[int, ...] = (int(check_whole("cell", cell)),) if not isinstance(cell, tuple) else ()
    lengths: tuple[int, ...] = (int(np.prod(shape)),)
    if isinstance(cell, tuple):
        long = tuple(n for n in shape if n > 1)
        index = tuple(int(check_whole("cell", i)) for i in cell)
        lengths = shape if len(cell) == len(shape) else long
    if len(index) != len(lengths) or not all(0 <= i < n for i, n in zip(index, lengths, strict=False)):
        raise ValueError(f"cell {cell} lies outside query {query}, which has {across} cells")
    return int(np.ravel_multi_index(index, lengths)) if lengths else 0
