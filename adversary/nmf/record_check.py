"""Records of one query at one level, checked batch by batch; what is malformed is told with file, geocode and query.

A batch is dropped once the wanted cells are taken from it: memory grows with units and cells, not with the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.nmf.file_layout import CONSTRAINTS, MEASUREMENTS, SUFFIX, Shape, arrow, bare, flat_cells
from adversary.nmf.parquet_source import Source, Words, texts
from adversary.reader.spine import VARIANCES, plausible

LARGEST = 2.0**53
"""Beyond it a count is no longer a whole number of float64."""


@dataclass
class Column:
    """The wanted cells of one query at one level.

    Parameters
    ----------
    geocodes : (record,) units; values : (record, cell) answers, NaN where not measured; variance : (record,), infinite
        where not measured and 0 for a constraint; sign : (record,), "=" for a measurement
    shape : of the query, None if there is no record; single : whether one cell was asked for, not a list
    """

    source: Source
    query: str
    geocodes: Words
    values: Floats
    variance: Floats
    sign: Words
    file: Integers
    paths: list[str]
    shape: Shape | None
    cells: Integers
    single: bool

    def named(self, record: int) -> str:
        """File, geocode and query of a record."""
        return _where(self.paths[int(self.file[record])], self.geocodes[record], self.query)


def spellings(query: str, kind: str) -> list[str]:
    """Names under which a query may be written among the records of a kind."""
    return list(dict.fromkeys([query, query + SUFFIX[kind], bare(query) + SUFFIX[kind], bare(query)]))


def collect(source: Source, query: str, cells: Any, faults: list[str] | None = None, progress: str = "") -> Column:
    """The wanted cells of a query, from every record that has it.

    Parameters
    ----------
    cells : as `flat_cells` takes them
    faults : what is malformed is added here, and its records left out; without it, ValueError for the first
    """
    pa = arrow()
    condition = pa.dataset.field("query_name").isin(spellings(query, source.kind))
    wanted = ["geocode", "query_name", "query_shape", "value"]
    wanted.append("variance" if source.kind == MEASUREMENTS else "sign")
    column = Column(source, bare(query), *_nothing(), [], None, np.zeros(0, dtype=np.int64), True)
    parts: list[tuple[Any, ...]] = []
    for path, batch in source.batches(wanted, condition, progress, faults):
        taken = _Batch(path, column.query, batch, source.kind).take(column, cells, faults)
        if not column.paths or column.paths[-1] != path:
            column.paths.append(path)
        parts.append((*taken, np.full(taken[0].size, len(column.paths) - 1, dtype=np.int64)))
    if parts:
        joined = [np.concatenate([part[i] for part in parts]) for i in range(5)]
        column.geocodes, column.values, column.variance, column.sign, column.file = joined
    _refuse_twice(column, faults)
    return column


def one_shape(column: Column, shape: Shape, path: Path) -> None:
    """ValueError where a query's shape is not that of its records elsewhere."""
    if column.shape is not None and column.shape != shape:
        raise ValueError(
            f"{column.source.path}: query {column.query} has query_shape {column.shape}, which is {shape} in {path}"
        )


class _Batch:
    """One batch of records, checked."""

    def __init__(self, path: str, query: str, batch: Any, kind: str) -> None:
        self.path, self.query, self.batch, self.kind = path, query, batch, kind
        self.geocodes = texts(batch.column(0)).to_numpy(zero_copy_only=False)
        self.good = np.ones(batch.num_rows, dtype=bool)
        self.faults: list[str] = []

    def refuse(self, bad: NDArray[np.bool_], what: Any) -> None:
        """Note what is wrong with the first of the bad records, and leave all of them out."""
        bad = bad & self.good
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            more = f" (and {bad.sum() - 1} more records of this file)" if bad.sum() > 1 else ""
            self.faults.append(f"{_where(self.path, self.geocodes[first], self.query)}: {what(first)}{more}")
            self.good &= ~bad

    def take(self, column: Column, cells: Any, faults: list[str] | None) -> tuple[Any, ...]:
        """(geocodes, values, variance, sign) of the good records."""
        self.refuse((self.geocodes == None) | (self.geocodes == ""), lambda i: "the geocode is missing")  # noqa: E711
        variance, sign = self._variance(), self._sign()
        values = self._values(column, cells, np.isfinite(variance), variance == 0)
        if self.faults and faults is None:
            raise ValueError(self.faults[0])
        if faults is not None:
            faults.extend(self.faults)
        good = self.good
        return self.geocodes[good], values[good], variance[good], sign[good]

    def _variance(self) -> Floats:
        """Infinite where it is absent; constraints have none."""
        if self.kind == CONSTRAINTS:
            return np.zeros(self.batch.num_rows)
        column = self.batch.column(4)
        raw = column.to_numpy(zero_copy_only=False).astype(np.float64)
        null = column.is_null().to_numpy(zero_copy_only=False)
        self.refuse(np.isnan(raw) & ~null, lambda i: "variance is NaN")
        variance = np.where(null, np.inf, raw) + 0.0  # -0.0 is 0
        self.refuse(variance < 0, lambda i: f"variance must be non-negative, got {variance[i]:g}")
        rule = "variance must be 0 (exact), infinite (not measured) or within [{:g}, {:g}]".format(*VARIANCES)
        self.refuse((variance > 0) & ~plausible(variance), lambda i: f"{rule}, got {variance[i]:g}")
        return variance

    def _sign(self) -> Words:
        if self.kind == MEASUREMENTS:
            return np.full(self.batch.num_rows, "=", dtype=object)
        return np.asarray(texts(self.batch.column(4)).to_numpy(zero_copy_only=False), dtype=object)

    def _shape(self, column: Column, cells: Any) -> Shape:
        """The one shape of the query, which the first record sets, and with it where the wanted cells are."""
        shapes = self.batch.column(2)
        if column.shape is None:
            first = next((shape for shape in shapes.to_pylist() if shape), None)
            if first is None or any(n is None or n < 1 for n in first):
                raise ValueError(
                    f"{_where(self.path, self.geocodes[0], self.query)}: "
                    f"query_shape must be lengths of axes, got {first}"
                )
            column.shape = tuple(map(int, first))
            column.cells, column.single = flat_cells(cells, column.shape, self.query)
        shape, pa = column.shape, arrow()
        lengths = pa.compute.list_value_length(shapes).fill_null(0).to_numpy(zero_copy_only=False)
        odd = lengths != len(shape)
        if not odd.any():
            flat = shapes.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(shape))
            odd = (flat != np.array(shape)).any(axis=1)
        self.refuse(odd, lambda i: f"query_shape {shapes[i].as_py()} is not that of the other records, {list(shape)}")
        return shape

    def _values(self, column: Column, cells: Any, measured: NDArray[np.bool_], exact: NDArray[np.bool_]) -> Floats:
        """(record, cell) answers; NaN in records that were not measured and hold none."""
        shape, pa = self._shape(column, cells), arrow()
        size, lists = int(np.prod(shape)), self.batch.column(3)
        lengths = pa.compute.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        empty = (lengths == 0) & ~measured
        across = " x ".join(map(str, shape))
        self.refuse(
            (lengths != size) & ~empty,
            lambda i: f"{lengths[i]} values do not fill the shape {across} ({size} cells)",
        )
        values = np.full((self.batch.num_rows, column.cells.size), np.nan)
        rows = np.flatnonzero((lengths == size) & measured)
        if rows.size:
            chosen = lists if rows.size == lengths.size else lists.take(pa.array(rows))
            numbers = chosen.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            numbers = numbers.reshape(-1, size)
            bad = np.zeros(self.batch.num_rows, dtype=bool)
            bad[rows] = ~((np.abs(numbers) <= LARGEST) & (numbers == np.rint(numbers))).all(axis=1)
            self.refuse(bad, lambda i: f"values must be whole numbers, got {_odd(lists[i].as_py())}")
            bad[rows] = (numbers < 0).any(axis=1) & exact[rows]
            what = "a constraint" if self.kind == CONSTRAINTS else "an exact count"
            self.refuse(bad, lambda i: f"{what} must be non-negative, got {min(lists[i].as_py())}")
            values[rows] = numbers[:, column.cells]
        return values


def _refuse_twice(column: Column, faults: list[str] | None) -> None:
    """A unit has one answer to a query: ValueError, or a fault, naming one that has two."""
    codes, first = np.unique(column.geocodes.astype(str), return_index=True)
    if codes.size == column.geocodes.size:
        return
    again = np.setdiff1d(np.arange(column.geocodes.size), first)
    said = f"{column.named(int(again[0]))}: there is more than one record of this unit"
    if faults is None:
        raise ValueError(said)
    faults.append(said + (f" (and {again.size - 1} more)" if again.size > 1 else ""))


def _nothing() -> tuple[Words, Floats, Floats, Words, Integers]:
    none = np.zeros(0, dtype=object)
    return none, np.zeros((0, 0)), np.zeros(0), none, np.zeros(0, dtype=np.int64)


def _where(path: str, geocode: Any, query: str) -> str:
    return f"{path}: geocode {geocode}: query {query}"


def _odd(values: Sequence[Any]) -> Any:
    return next(value for value in values if value is None or not (abs(value) <= LARGEST and value == round(value)))
