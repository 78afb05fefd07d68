"""Writing a Noisy Measurement File: whole or not at all.

Everything goes into a directory with a temporary name beside the final one, which takes its place by one renaming.
Records of one query stand together in row groups of their own, so that a reader of another query skips them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, check_non_negative
from adversary.nmf.file_layout import (
    CONSTRAINTS,
    MEASUREMENTS,
    PARENTS,
    PARTITIONS,
    SUFFIX,
    Shape,
    arrow,
    bare,
    folder,
)
from adversary.nmf.record_check import LARGEST
from adversary.reader.spine import Tree

NUMBERS = 2**21
"""Counts in one row group, at most: 16 MiB before they are packed."""

LEAVES_BEHIND = frozenset({"README.md", "truth.parquet"})
"""What a directory may hold beside its levels and still be taken for a Noisy Measurement File when overwriting."""


@dataclass(frozen=True)
class Records:
    """Answers to one query in some units, ready to be written.

    Parameters
    ----------
    query : with or without its suffix
    geocodes : (unit,)
    values : (unit, cell) whole numbers; rows that are not measured may hold anything
    variance : (unit,) or one number, infinite where not measured; None for a constraint
    shape : lengths of the axes, of which `values` has the product in cells
    plb : privacy-loss budget of the query, in zCDP; absent in constraints
    sign : of a constraint
    axes : what each attribute is in the query, "*" where it is summed over
    """

    query: str
    geocodes: Sequence[str]
    values: Any
    variance: ArrayLike | None
    shape: Shape
    plb: ArrayLike | None = None
    sign: str = "="
    axes: Mapping[str, str] | None = None

    @property
    def kind(self) -> str:
        """Of measurements, or of constraints."""
        return CONSTRAINTS if self.variance is None else MEASUREMENTS

    def tables(self, metadata: Mapping[str, str]) -> Iterator[Any]:
        """Arrow tables of at most `NUMBERS` counts."""
        size = int(np.prod(self.shape))
        rows = max(1, NUMBERS // size)
        for start in range(0, len(self.geocodes), rows):
            yield self._table(slice(start, start + rows), size, metadata)

    def _table(self, rows: slice, size: int, metadata: Mapping[str, str]) -> Any:
        pa = arrow()
        names, values = self.geocodes[rows], self.values[rows]
        n = len(names)
        columns: dict[str, Any] = {
            "geocode": pa.array(names, pa.string()),
            "query_name": pa.array([bare(self.query) + SUFFIX[self.kind]] * n, pa.string()),
            **{name: pa.array([label] * n, pa.string()) for name, label in (self.axes or {}).items()},
            "query_shape": pa.array([list(self.shape)] * n, pa.list_(pa.int64())),
        }
        if self.variance is None:
            columns["sign"] = pa.array([self.sign] * n, pa.string())
            columns["value"] = _lists(values, size)
        else:
            variance = np.broadcast_to(np.asarray(self.variance, dtype=np.float64), len(self.geocodes))[rows]
            columns["value"] = _lists(values, size, np.isinf(variance))
            columns["variance"] = pa.array(variance)
            if self.plb is not None:
                columns["plb"] = pa.array(np.broadcast_to(np.asarray(self.plb, np.float64), len(self.geocodes))[rows])
        return pa.table(columns, metadata=dict(metadata))


class Writer:
    """A directory being written, in a `with` block: at its end it is there under its name, or, after an error, nothing.

    Parameters
    ----------
    directory : its final name; it must not exist, or be empty
    overwrite : take the place of a Noisy Measurement File of that name; a directory with anything else is never touched
    metadata : kept in every Parquet file
    readme : text of the README.md beside them
    """

    def __init__(
        self, directory: str | Path, *, overwrite: bool = False, metadata: Mapping[str, str] | None = None,
        readme: str = "",
    ) -> None:  # fmt: skip
        self.directory, self.metadata, self.readme = Path(directory), dict(metadata or {}), readme
        self.overwrite = overwrite
        arrow()
        _refuse_existing(self.directory, overwrite)
        self._parts: dict[Path, int] = {}

    def __enter__(self) -> Self:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f".{self.directory.name}.", dir=self.directory.parent)
        self.temporary = Path(made)
        self.temporary.chmod(0o755)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del error, trace
        try:
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def _finish(self) -> None:
        """The finished directory gets its name; what had it before is put back if that fails."""
        if self.readme:
            (self.temporary / "README.md").write_text(self.readme, encoding="utf-8")
        _refuse_existing(self.directory, self.overwrite)
        if not self.directory.exists():
            self.temporary.rename(self.directory)
            return
        old = self.temporary.with_name(self.temporary.name + ".old")
        self.directory.rename(old)
        try:
            self.temporary.rename(self.directory)
        except OSError:
            old.rename(self.directory)
            raise
        shutil.rmtree(old, ignore_errors=True)

    def put(self, level: str, records: Sequence[Records], partition: Mapping[str, str] | None = None) -> None:
        """Write records of a level, measurements and constraints, into one new file of each kind in a partition."""
        for kind in (MEASUREMENTS, CONSTRAINTS):
            tables = (table for one in records if one.kind == kind for table in one.tables(self.metadata))
            self._file(folder(self.temporary, level, kind), partition, tables)

    def put_parents(
        self, level: str, geocodes: Sequence[str], parents: Sequence[str], partition: Mapping[str, str] | None = None
    ) -> None:
        """Write which unit of the level above each of these lies in ("" at the top)."""
        pa = arrow()
        columns = {"geocode": pa.array(geocodes, pa.string()), "parent": pa.array(parents, pa.string())}
        self._file(folder(self.temporary, level, PARENTS), partition, iter([pa.table(columns, metadata=self.metadata)]))

    def _file(self, base: Path, partition: Mapping[str, str] | None, tables: Iterator[Any]) -> None:
        first = next(tables, None)
        if first is None:
            return
        parts = [f"{name}={quote(value, safe='')}" for name, value in (partition or {}).items()]
        place = base.joinpath(*parts)
        place.mkdir(parents=True, exist_ok=True)
        number = self._parts[place] = self._parts.get(place, -1) + 1
        with parquet_file(place / f"part-{number:05d}.parquet", first.schema) as file:
            file.write_table(first)
            for table in tables:
                file.write_table(table.cast(first.schema))


@contextmanager
def parquet_file(path: Path, schema: Any) -> Iterator[Any]:
    """A Parquet file being written, as all of ours are: texts and counts as dictionaries, packed by zstd."""
    with arrow().parquet.ParquetWriter(path, schema, compression="zstd") as file:
        yield file


@dataclass(frozen=True)
class Answers:
    """Answers to one query in all units of a tree, for `write`.

    Parameters
    ----------
    released : (node,) or (node, cell) whole numbers; anything where not measured
    rho : (node,), one for all cells of a unit: 1 / (2 variance), 0 where not measured, infinite for a constraint
    shape : lengths of the query's axes; one of the number of cells where left out
    """

    released: Any
    rho: Any
    shape: Shape | None = None


def write(
    directory: str | Path,
    tree: Tree,
    answers: Mapping[str, Answers],
    *,
    overwrite: bool = False,
    metadata: Mapping[str, str] | None = None,
    readme: str = "",
) -> Path:
    """Write a Noisy Measurement File: the answers to some queries in all units of a tree, and the parent of each unit.

    A unit whose rho is 0 has a record of infinite variance. Units below a level State or County lie in partitions.

    Parameters
    ----------
    directory : where to write; it must not exist, or be empty
    tree : the units
    answers : by name of the query
    overwrite : replace a Noisy Measurement File of that name
    metadata : kept in every Parquet file
    readme : text of the README.md beside them

    Returns
    -------
    The directory.

    Raises
    ------
    ValueError : an answer that is not whole, a unit whose cells have several rho, or a wrong shape
    FileExistsError : the directory has files, and `overwrite` is False or they are of no Noisy Measurement File
    ImportError : pyarrow is not installed
    """
    checked = {query: _checked(tree, query, one) for query, one in answers.items()}
    places = [_ancestors(tree, name) for name in PARTITIONS]
    with Writer(directory, overwrite=overwrite, metadata=metadata, readme=readme) as writer:
        for depth, level in enumerate(tree.levels):
            nodes = np.flatnonzero(tree.level == depth)
            keys = np.stack([place[nodes] for place in places])
            for group in np.unique(keys, axis=1).T:
                here = nodes[(keys == group[:, None]).all(axis=0)]
                partition = _partition(tree, group)
                records = [one for query, answer in checked.items() for one in _records(tree, query, answer, here)]
                writer.put(level, records, partition)
                above = [str(tree.names[i]) if i >= 0 else "" for i in tree.parent[here]]
                writer.put_parents(level, tree.names[here].tolist(), above, partition)
    return Path(directory)


def _checked(tree: Tree, query: str, answers: Answers) -> tuple[Floats, Floats, Shape]:
    released = np.asarray(answers.released, dtype=np.float64).reshape(len(tree), -1)
    rho = check_non_negative(f"rho of query {query}", answers.rho, finite=False).reshape(len(tree), -1)
    if (mixed := np.flatnonzero((rho != rho[:, :1]).any(axis=1))).size:
        raise ValueError(
            f"query {query} has several rho in the cells of unit {str(tree.names[mixed[0]])!r}: one is recorded"
        )
    odd = (rho[:, 0] > 0) & ~((np.abs(released) <= LARGEST) & (released == np.rint(released))).all(axis=1)
    if odd.any():
        raise ValueError(f"query {query} must have whole answers, it has not in unit {str(tree.names[odd.argmax()])!r}")
    shape = answers.shape or (released.shape[1],)
    if int(np.prod(shape)) != released.shape[1]:
        raise ValueError(f"query {query} has {released.shape[1]} cells, which do not fill the shape {shape}")
    return released, rho[:, 0], tuple(shape)


def _records(tree: Tree, query: str, answer: tuple[Floats, Floats, Shape], nodes: Integers) -> Iterator[Records]:
    released, rho, shape = answer
    exact = np.isinf(rho[nodes])
    for part, variance in ((nodes[~exact], True), (nodes[exact], False)):
        if part.size:
            with np.errstate(divide="ignore"):
                spread = 0.5 / rho[part] if variance else None
            counts = np.where(rho[part, None] > 0, released[part], 0).astype(np.int64)
            yield Records(query, tree.names[part].tolist(), counts, spread, shape)


def _ancestors(tree: Tree, level: str) -> Integers:
    """(node,) the unit of that level which a node is or lies in; -1 for none."""
    found = np.full(len(tree), -1)
    if level in tree.levels:
        top = tree.levels.index(level)
        found[tree.level == top] = np.flatnonzero(tree.level == top)
        for depth in range(top + 1, len(tree.levels)):
            nodes = np.flatnonzero(tree.level == depth)
            found[nodes] = found[tree.parent[nodes]]
    return found


def _partition(tree: Tree, group: Integers) -> dict[str, str]:
    """Geocodes of the partitions, that of a county without its state's where it begins with it."""
    names = [str(tree.names[i]) if i >= 0 else "" for i in group]
    if names[0] and names[1].startswith(names[0]) and names[1] != names[0]:
        names[1] = names[1].removeprefix(names[0])
    return {level: name for level, name in zip(PARTITIONS, names, strict=True) if name}


def _lists(values: Any, size: int, empty: Any = None) -> Any:
    """(unit, cell) counts as an Arrow array of lists; no list where `empty`."""
    pa = arrow()
    flat = pa.array(np.ascontiguousarray(values, dtype=np.int64).ravel())
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32) * size)
    mask = None if empty is None or not np.any(empty) else pa.array(np.asarray(empty))
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def _refuse_existing(directory: Path, overwrite: bool) -> None:
    if not os.path.lexists(directory) or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not directory.is_dir():
        raise FileExistsError(f"{directory}: there is a file of this name")
    if not overwrite:
        raise FileExistsError(f"{directory}: there is one already, and it is not overwritten unless told so")
    strange = [one.name for one in directory.iterdir() if not _ours(one)]
    if strange:
        raise FileExistsError(f"{directory}: not overwritten, {strange[0]} does not belong to a Noisy Measurement File")


def _ours(path: Path) -> bool:
    return path.name in LEAVES_BEHIND or (path.is_dir() and path.suffix == ".parquet")
