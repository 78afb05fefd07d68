"""Atomic writing of a Noisy Measurement File in the published layout.

Files are written into a temporary directory beside the final one, which is renamed at the end. The next run removes
leftovers of a process that was killed, and restores a directory that it was about to replace. Records of one query form
row groups of their own, so that programs which read another query skip them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import exclusive_lock
from adversary.census.nmf.file_layout import CONSTRAINTS, EQUAL, MEASUREMENTS, SUFFIX, arrow, folder
from adversary.census.nmf.products import Shape

# Largest number of counts in one row group: 16 MiB before compression.
NUMBERS = 2**21

# Files that a directory may have beside its products; one with any other file is never overwritten.
ALSO_ALLOWED = frozenset({"README.md", "truth.parquet", "state_totals.csv"})
WIDTHS = ("int16", "int32", "int64")

# Suffix of the temporary name of a directory while it is replaced.
OLD = ".old"


@dataclass(frozen=True)
class Records:
    """Answers to one query in some units, to be written; without units that were not measured.

    Parameters
    ----------
    query : name without suffix
    geocodes : (unit,)
    values : (unit, cell) whole numbers
    variance : (unit,) or one number; None for a constraint
    shape : lengths of the axes; `values` has their product as number of cells
    axes : word of each axis in the query, "*" if it is summed over
    plb : zCDP budget rho of the query, (unit,) or one number; None in constraints
    sign : sign of a constraint
    """

    query: str
    geocodes: Sequence[str]
    values: Any
    variance: ArrayLike | None
    shape: Shape
    axes: Mapping[str, str] = field(default_factory=dict)
    plb: ArrayLike | None = None
    sign: str = EQUAL

    @property
    def kind(self) -> str:
        """`MEASUREMENTS` or `CONSTRAINTS`, by whether there is a variance."""
        return CONSTRAINTS if self.variance is None else MEASUREMENTS

    def tables(self, metadata: Mapping[str, str], width: str) -> Iterator[Any]:
        """Yield Arrow tables of at most `NUMBERS` counts, as integers of type `width`."""
        size = int(np.prod(self.shape))
        rows = max(1, NUMBERS // size)
        for start in range(0, len(self.geocodes), rows):
            yield self._table(slice(start, start + rows), size, metadata, width)

    def _table(self, rows: slice, size: int, metadata: Mapping[str, str], width: str) -> Any:
        """Arrow table of some rows; `size` is the number of cells."""
        pa = arrow()
        names = self.geocodes[rows]
        n = len(names)

        def numbers(values: Any) -> Any:
            return pa.array(np.broadcast_to(np.asarray(values, np.float32), len(self.geocodes))[rows])

        flat = pa.array(np.ascontiguousarray(self.values[rows]).ravel().astype(width))
        columns: dict[str, Any] = {
            "geocode": pa.array(names, pa.string()),
            "query_name": pa.array([self.query + SUFFIX[self.kind]] * n, pa.string()),
            **({"sign": pa.array([self.sign] * n, pa.string())} if self.variance is None else {}),
            **{name: pa.array([label] * n, pa.string()) for name, label in self.axes.items()},
            "query_shape": pa.array([list(self.shape)] * n, pa.list_(pa.int64())),
            "value": pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * size), flat),
            "variance": numbers(0.0 if self.variance is None else self.variance),
        }
        if self.plb is not None:
            columns["plb"] = numbers(self.plb)
        return pa.table(columns, metadata=dict(metadata))


class Writer:
    """Context manager that writes a directory: complete under its final name at the end, or absent after an error.

    Parameters
    ----------
    directory : its final name; it must not exist, or be empty
    product : name of the product folder in it
    overwrite : replace a Noisy Measurement File of that name; a directory with other files is never replaced
    metadata : key-value metadata of every Parquet file
    readme : text of README.md in the directory
    """

    def __init__(
        self, directory: str | Path, product: str, *, overwrite: bool = False,
        metadata: Mapping[str, str] | None = None, readme: str = "",
    ) -> None:  # fmt: skip
        self.directory, self.product = Path(directory), product
        self.metadata, self.readme = dict(metadata or {}), readme
        self.overwrite = overwrite
        arrow()
        _refuse_existing(self.directory, overwrite)
        self._parts: dict[Path, int] = {}

    def __enter__(self) -> Self:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(self.directory)
        _refuse_existing(self.directory, self.overwrite)
        temporary = tempfile.mkdtemp(prefix=f".{self.directory.name}.", dir=self.directory.parent)
        self.temporary, self._held = Path(temporary), ExitStack()
        self._held.enter_context(exclusive_lock(self.temporary))
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
            self._held.close()

    def _finish(self) -> None:
        """Rename the finished directory to its final name; a directory it replaces is restored if that fails."""
        if self.readme:
            (self.temporary / "README.md").write_text(self.readme, encoding="utf-8")
        _refuse_existing(self.directory, self.overwrite)
        if not self.directory.exists():
            self.temporary.rename(self.directory)
            return
        old = self.temporary.with_name(self.temporary.name + OLD)
        with exclusive_lock(self.directory):
            self.directory.rename(old)
            try:
                self.temporary.rename(self.directory)
            except OSError:
                old.rename(self.directory)
                raise
            shutil.rmtree(old, ignore_errors=True)

    def write_level(self, level: str, records: Sequence[Records], partition: Mapping[str, str] | None = None) -> None:
        """Write records of a level, measurements and constraints, into one new file of each kind in a partition.

        Counts have the smallest integer type that fits all counts of the file, so types differ between files.
        """
        for kind in (MEASUREMENTS, CONSTRAINTS):
            chosen = [one for one in records if one.kind == kind and len(one.geocodes)]
            largest = max((int(np.abs(one.values).max(initial=0)) for one in chosen), default=0)
            width = next(name for name in WIDTHS if largest <= np.iinfo(name).max)
            tables = (table for one in chosen for table in one.tables(self.metadata, width))
            self._file(folder(self.temporary / self.product, level, kind), partition, tables)

    def _file(self, base: Path, partition: Mapping[str, str] | None, tables: Iterator[Any]) -> None:
        """Write Arrow tables into the next numbered file of a partition; nothing if there are none."""
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
    """Open a Parquet file for writing, with dictionary encoding and zstd compression."""
    with arrow().parquet.ParquetWriter(path, schema, compression="zstd") as file:
        yield file


def _remove_leftovers(directory: Path) -> None:
    """Remove temporary directories of killed processes beside a directory, recognised by their free locks."""
    pattern = re.compile(rf"\.{re.escape(directory.name)}\.[a-z0-9_]{{8}}({re.escape(OLD)})?")
    for path in sorted(directory.parent.glob(".*")):
        if pattern.fullmatch(path.name) and path.is_dir():
            with suppress(OSError), exclusive_lock(path):
                if path.name.endswith(OLD) and not directory.exists():
                    path.rename(directory)
                else:
                    shutil.rmtree(path, ignore_errors=True)


def _refuse_existing(directory: Path, overwrite: bool) -> None:
    """FileExistsError if the directory exists and may not be replaced."""
    if not os.path.lexists(directory) or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not directory.is_dir():
        raise FileExistsError(f"{directory}: there is a file of this name")
    if not overwrite:
        raise FileExistsError(f"{directory}: it exists already, and is not overwritten unless `overwrite` is set")
    foreign = [one.name for one in directory.iterdir() if not _is_part_of_file(one)]
    if foreign:
        raise FileExistsError(f"{directory}: not overwritten, {foreign[0]} does not belong to a Noisy Measurement File")


def _is_part_of_file(path: Path) -> bool:
    """True if a path may lie in the directory of a Noisy Measurement File."""
    return path.name in ALSO_ALLOWED or (path.is_dir() and path.name.endswith("_PROD"))
