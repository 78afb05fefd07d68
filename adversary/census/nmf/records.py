"""Reading and checking the records of some queries at one level, batch by batch.

Errors name file, geocode and query. Only the wanted cells of a batch are stored: memory grows with units and cells, not
with the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.census.nmf.file_layout import CONSTRAINTS, FEW, MEASUREMENTS, NAMED_SIGNS, SIGNS, arrow, bare, flat_cells
from adversary.census.nmf.parquet_source import ParquetSource, PartitionedFile, as_strings
from adversary.census.nmf.products import Product, Shape
from adversary.census.spine import VARIANCES, plausible
from adversary.privacy.mechanisms import DiscreteGaussian

# Largest count that float64 represents exactly, with all smaller ones.
LARGEST = 2.0**53

# Relative difference between a variance and its budget up to which they agree: files record rounded numbers.
CLOSE = 1e-4
US = "US"

# Geocodes of the United States in published and in older files; trees and results have `US`.
US_GEOCODES = ("", "0", US)
Words = NDArray[np.object_]
RowClasses = tuple[Integers, ...]
"""For every axis of a query, the (row,) class of each of its rows."""
Labelling = Callable[["NmfColumn"], list[RowClasses] | None]


@dataclass
class NmfColumn:
    """Wanted cells of one query at one level.

    Parameters
    ----------
    query : name as in the file, without suffix
    shape, words : lengths of the axes, and the word of every axis; None and () if there is no record
    cells, single : (cell,) flat indices of the cells, and whether a single one was requested rather than a list
    labels : for every wanted cell, classes of rows; `values` then has sums over classes, cell after cell. None: cells
    paths : files with records
    parts : checked batches that are not joined yet
    geocodes : (record,) units
    values : (record, cell) answers, NaN if not measured
    variance : (record,), infinite if not measured, 0 for a constraint
    sign : (record,), "=" for a measurement
    file : (record,) index into `paths`
    """

    query: str
    shape: Shape | None = None
    words: tuple[str, ...] = ()
    cells: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    single: bool = True
    labels: list[RowClasses] | None = None
    paths: list[str] = field(default_factory=list)
    parts: list[tuple[Any, ...]] = field(default_factory=list)
    geocodes: Any = field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    values: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    variance: Floats = field(default_factory=lambda: np.zeros(0))
    sign: Words = field(default_factory=lambda: np.zeros(0, dtype=object))
    file: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def location(self, record: int) -> str:
        """File, geocode and query of a record, for error messages."""
        return _location(self.paths[int(self.file[record])], self.geocodes[record], self.query)

    def answers_in(self, wanted: NmfColumn) -> Floats:
        """(record, cell) answers in the cells of `wanted`, which is of the same query."""
        if self.labels is None:
            return self.values if np.array_equal(self.cells, wanted.cells) else self.values[:, wanted.cells]
        assert self.shape is not None
        parts, start = [], 0
        for cell, labels in zip(wanted.cells, self.labels, strict=True):
            shape = tuple(int(label.max()) + 1 for label in labels)
            place = tuple(label[i] for label, i in zip(labels, np.unravel_index(cell, self.shape), strict=True))
            parts.append(self.values[:, start + np.ravel_multi_index(place, shape)])
            start += int(np.prod(shape))
        return np.stack(parts, axis=1)

    def join_batches(self, faults: list[str] | None) -> NmfColumn:
        """Join the batches, in place; a unit with two records is a fault."""
        if self.parts:
            names, self.values, self.variance, self.sign, self.file = (
                np.concatenate([part[i] for part in self.parts]) for i in range(5)
            )
            self.geocodes, self.parts = names.astype(np.str_), []
        first = np.unique(self.geocodes, return_index=True)[1]
        if first.size < self.geocodes.size:
            again = np.setdiff1d(np.arange(self.geocodes.size), first)
            more = f" (and {again.size - 1} more)" if again.size > 1 else ""
            _report_fault(faults, f"{self.location(int(again[0]))}: there is more than one record of this unit{more}")
        return self


def read_columns(
    source: ParquetSource, product: Product, queries: Sequence[str] | None, cells: Any, faults: list[str] | None = None,
    progress: str = "", without: Sequence[str] = (), labelling: Labelling | None = None,
) -> dict[str, NmfColumn]:  # fmt: skip
    """Read the wanted cells of some queries in one pass.

    Parameters
    ----------
    source : files of one kind at one level
    product : levels and axes of the file
    queries : names of queries; None: all but those of `without`
    cells : wanted cells, see `flat_cells`
    faults : list to which faults are added, their records being skipped; None: the first one raises ValueError
    progress : label of a progress bar; "": none
    labelling : function of a column that returns classes of rows; sums over these are then read instead of cells

    Returns
    -------
    columns by name of the query, sorted
    """
    pa = arrow()
    name_field = pa.dataset.field("query_name")
    condition = name_field.isin(list(queries)) if queries is not None else None
    if queries is None and without:
        condition = ~name_field.isin(list(without)) | name_field.is_null()
    wanted = ["geocode", "query_name", "query_shape", "value", *product.axes]
    wanted.append("sign" if source.kind == CONSTRAINTS else "variance")
    columns: dict[str, NmfColumn] = {}
    budget = ["plb"] * (source.kind == MEASUREMENTS)
    for file, batch in source.batches(wanted, condition, progress, faults, budget):
        names = as_strings(batch.column(1))
        several = names.unique().to_pylist()
        for name in several:
            if name is None or not name.strip():
                _report_fault(faults, f"{file.path}: query_name is missing in a record")
                continue
            column = columns.setdefault(name, NmfColumn(bare(name)))
            rows = batch.filter(pa.compute.equal(names, name)) if len(several) > 1 else batch
            try:
                _QueryBatch(file, column.query, rows, source, product, labelling).append_to(column, cells, faults)
            except ValueError as error:  # reported with geocode and query; other records are still read
                _report_fault(faults, str(error))
    return {name: column.join_batches(faults) for name, column in sorted(columns.items())}


def query_header(source: ParquetSource, product: Product, query: str, cells: Any) -> NmfColumn | None:
    """Column without records: shape, words and cells of a query from its first records; None if there are none."""
    condition = arrow().dataset.field("query_name") == query
    for file, batch in source.batches(["geocode", "query_name", "query_shape", *product.axes], condition):
        column = NmfColumn(bare(query), paths=[file.path])
        _QueryBatch(file, column.query, batch, source, product).shape(column, cells)
        return column
    return None


class _QueryBatch:
    """Records of one query in one batch, being checked; `good` marks those without a fault so far."""

    def __init__(
        self,
        file: PartitionedFile,
        query: str,
        batch: Any,
        source: ParquetSource,
        product: Product,
        labelling: Labelling | None = None,
    ) -> None:
        self.labelling = labelling
        self.file, self.query, self.batch, self.kind, self.product = file, query, batch, source.kind, product
        self.codes = as_strings(batch.column("geocode"))
        geocodes = self.codes.to_numpy(zero_copy_only=False)
        self.good = np.ones(batch.num_rows, dtype=bool)
        if source.level == US:
            geocodes = np.array([US if code in US_GEOCODES else code for code in geocodes], dtype=object)
        elif source.root:
            self.good = np.array([bool(code) and _is_below(code, source.root) for code in geocodes])
        self.geocodes = geocodes
        self.faults: list[str] = []

    def refuse(self, bad: NDArray[np.bool_], what: Callable[[int], str]) -> None:
        """Note the fault of the first bad record, and exclude all bad ones."""
        bad = bad & self.good
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            more = f" (and {bad.sum() - 1} more records of this file)" if bad.sum() > 1 else ""
            self.faults.append(f"{_location(self.file.path, self.geocodes[first], self.query)}: {what(first)}{more}")
            self.good &= ~bad

    def append_to(self, column: NmfColumn, cells: Any, faults: list[str] | None) -> None:
        """Check all fields, and append the wanted cells of the good records to their column."""
        self.refuse((self.geocodes == None) | (self.geocodes == ""), lambda i: "the geocode is missing")  # noqa: E711
        self.refuse(
            self.file.outside_partitions(self.codes),
            lambda i: f"it does not belong into partition {self.file.codes[0]}",
        )
        variance, sign = self._variance(), self._sign()
        values = self._values(column, cells, np.isfinite(variance), variance == 0)
        if self.faults and faults is None:
            raise ValueError(self.faults[0])
        if faults is not None:
            faults.extend(self.faults)
        if not column.paths or column.paths[-1] != self.file.path:
            column.paths.append(self.file.path)
        good = self.good
        file_number = np.full(int(good.sum()), len(column.paths) - 1, dtype=np.int64)
        column.parts.append((self.geocodes[good], values[good], variance[good], sign[good], file_number))

    def _variance(self) -> Floats:
        """(record,) checked variances; infinite if absent, 0 for constraints."""
        if self.kind == CONSTRAINTS:
            return np.zeros(self.batch.num_rows)
        column = self.batch.column("variance")
        raw = column.to_numpy(zero_copy_only=False).astype(np.float64)
        null = column.is_null().to_numpy(zero_copy_only=False)
        self.refuse(np.isnan(raw) & ~null, lambda i: "variance is NaN")
        variance = np.where(null, np.inf, raw) + 0.0  # -0.0 is 0
        self.refuse(variance < 0, lambda i: f"variance must be non-negative, got {variance[i]:g}")
        rule = "variance must be 0 (exact) or within [{:g}, {:g}]; of a unit that is not measured there is no record"
        odd = (variance > 0) & ~null & (np.isinf(variance) | ~plausible(variance))
        self.refuse(odd, lambda i: f"{rule.format(*VARIANCES)}, got {variance[i]:g}")
        if "plb" in self.batch.schema.names:
            column = self.batch.column("plb")
            budget = column.to_numpy(zero_copy_only=False).astype(np.float64)
            given = ~column.is_null().to_numpy(zero_copy_only=False)
            wrong = given & np.isfinite(variance) & (variance > 0) & ~_budget_matches(budget, variance)
            self.refuse(wrong, lambda i: f"plb must be 1 / variance, {1 / variance[i]:g}, got {budget[i]:g}")
        return variance

    def _sign(self) -> Words:
        """(record,) checked signs: one of =, >= and <=."""
        if self.kind == MEASUREMENTS:
            return np.full(self.batch.num_rows, "=", dtype=object)
        raw = as_strings(self.batch.column("sign")).to_numpy(zero_copy_only=False)
        self.refuse(
            np.array([one not in SIGNS for one in raw], dtype=bool),
            lambda i: f"sign must be =, >= or <=, got {raw[i]!r}",
        )
        sign = np.array([SIGNS.get(one, one) for one in raw], dtype=object)
        for end, wanted in NAMED_SIGNS.items():
            if bare(self.query).endswith(end):
                self.refuse(sign != wanted, lambda i, w=wanted: f"sign must be {w}, as its name says, got {raw[i]!r}")  # type: ignore[misc]
        return sign

    def shape(self, column: NmfColumn, cells: Any) -> Shape:
        """Shape of the query. The first record sets shape, words and cells of the column; later ones must agree."""
        shapes = self.batch.column("query_shape")
        words = [as_strings(self.batch.column(axis)) for axis in self.product.axes]
        if column.shape is None:
            first = next((shape for shape in shapes.to_pylist() if shape), None)
            if first is None or any(n is None or n < 1 for n in first) or len(first) != len(words):
                raise ValueError(
                    f"{_location(self.file.path, self.geocodes[0], self.query)}: query_shape must be lengths of the "
                    f"{len(words)} axes {', '.join(self.product.axes)}, got {first}"
                )
            column.shape = tuple(map(int, first))
            column.words = tuple(str(word[0].as_py() or "*").strip() for word in words)
            size = int(np.prod(column.shape))
            worded = _has_labels(cells) or (cells is None and size <= FEW)
            names = [label_of(self.product, column, i) for i in range(size)] if worded else ()
            column.cells, column.single = flat_cells(cells, column.shape, self.query, names)
            column.labels = None if self.labelling is None else self.labelling(column)
        shape, pa = column.shape, arrow()
        lengths = pa.compute.list_value_length(shapes).fill_null(0).to_numpy(zero_copy_only=False)
        odd = lengths != len(shape)
        if not odd.any():
            flat = shapes.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(shape))
            odd = (flat != np.array(shape)).any(axis=1)
        self.refuse(odd, lambda i: f"query_shape {shapes[i].as_py()} is not that of the other records, {list(shape)}")
        for axis, word, expected in zip(self.product.axes, words, column.words, strict=True):
            other = pa.compute.not_equal(word.fill_null("*"), expected).to_numpy(zero_copy_only=False)
            fault = f"axis {axis} must hold {expected!r}, as in the other records, got "
            self.refuse(other, lambda i, fault=fault, word=word: f"{fault}{word[i].as_py()!r}")  # type: ignore[misc]
        return shape

    def _values(self, column: NmfColumn, cells: Any, measured: NDArray[np.bool_], exact: NDArray[np.bool_]) -> Floats:
        """(record, cell) checked answers, or sums over classes of rows; NaN in records without a measurement."""
        shape, pa = self.shape(column, cells), arrow()
        size, lists = int(np.prod(shape)), self.batch.column("value")
        lengths = pa.compute.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        empty = (lengths == 0) & ~measured
        across = " x ".join(map(str, shape))
        self.refuse(
            (lengths != size) & ~empty,
            lambda i: f"{lengths[i]} values do not fill the shape {across} ({size} cells)",
        )
        labels = column.labels or []
        width = sum(int(np.prod([one.max() + 1 for one in label])) for label in labels) or column.cells.size
        values = np.full((self.batch.num_rows, width), np.nan)
        rows = np.flatnonzero((lengths == size) & measured)
        if rows.size:
            chosen = lists if rows.size == lengths.size else lists.take(pa.array(rows))
            numbers = chosen.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            numbers = numbers.reshape(-1, size)
            bad = np.zeros(self.batch.num_rows, dtype=bool)
            bad[rows] = ~((np.abs(numbers) <= LARGEST) & (numbers == np.rint(numbers))).all(axis=1)
            self.refuse(bad, lambda i: f"values must be whole numbers, got {_first_bad_value(lists[i].as_py())}")
            bad[rows] = (numbers < 0).any(axis=1) & exact[rows]
            what = "a constraint" if self.kind == CONSTRAINTS else "an exact count"
            self.refuse(bad, lambda i: f"{what} must be non-negative, got {min(lists[i].as_py())}")
            values[rows] = class_sums(numbers, shape, labels) if labels else numbers[:, column.cells]
        return values


def class_sums(numbers: Floats, shape: Shape, labels: list[RowClasses]) -> Floats:
    """(record, class) sums of (record, row) answers over classes of rows, one list of classes after another."""
    parts = []
    for one in labels:
        summed = numbers.reshape(-1, *shape)
        for label in one:
            summed = np.tensordot(
                summed, np.eye(int(label.max()) + 1)[label], axes=(1, 0)
            )  # the summed axis moves to the end
        parts.append(summed.reshape(numbers.shape[0], -1))
    return np.concatenate(parts, axis=1)


def label_of(product: Product, column: NmfColumn, cell: int) -> str:
    """Description of a cell of a query, such as "Hispanic, 18 and over"."""
    assert column.shape is not None
    return product.label(column.words, column.shape, np.array(np.unravel_index(cell, column.shape)))


def _budget_matches(budget: Floats, variance: Floats) -> NDArray[np.bool_]:
    """True where a variance, or sigma^2, is that of discrete Gaussian noise with budget rho for bounded neighbours."""
    with np.errstate(invalid="ignore", over="ignore"):
        fits = np.abs(budget * variance - 1.0) <= CLOSE
        # below sigma^2 = 2 the variance is no longer sigma^2
        narrow = ~fits & np.isfinite(budget) & (budget > 0.5)
    for one in np.unique(budget[narrow]):
        here = narrow & (budget == one)
        fits[here] = np.abs(variance[here] / DiscreteGaussian(sigma2=1.0 / one).variance - 1.0) <= CLOSE
    return fits


def _has_labels(cells: Any) -> bool:
    """True if any cell is given by its label."""
    return any(isinstance(one, str) for one in (cells if isinstance(cells, list) else [cells])) and cells != "all"


def _is_below(code: str, root: str) -> bool:
    """True if a geocode lies below the root: two digits of a state, or the beginning of the geocode."""
    return code[1:3] == root if len(root) == 2 else code.startswith(root)


def _report_fault(faults: list[str] | None, fault: str) -> None:
    """Append a fault to the list, or raise it as ValueError if there is no list."""
    if faults is None:
        raise ValueError(fault)
    faults.append(fault)


def _location(path: str, geocode: Any, query: str) -> str:
    """File, geocode and query, for error messages."""
    return f"{path}: geocode {geocode}: query {query}"


def _first_bad_value(values: Sequence[Any]) -> Any:
    """First value that is missing, not whole, or too large."""
    return next(value for value in values if value is None or not (abs(value) <= LARGEST and value == round(value)))
