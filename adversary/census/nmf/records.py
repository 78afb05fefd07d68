"""Records of some queries at one level, checked batch by batch; errors name file, geocode and query.

A batch is dropped once the wanted cells are taken from it: memory grows with units and cells, not with the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.census.nmf.file_layout import CONSTRAINTS, FEW, MEASUREMENTS, NAMED_SIGNS, SIGNS, arrow, bare, flat_cells
from adversary.census.nmf.parquet_source import File, ParquetSource, texts
from adversary.census.nmf.products import Product, Shape
from adversary.census.spine import VARIANCES, plausible
from adversary.privacy.mechanisms import DiscreteGaussian

# Beyond it a count is no longer a whole number of float64.
LARGEST = 2.0**53

# Relative difference between a variance and its budget that is rounding.
CLOSE = 1e-4
US = "US"

# Geocodes of the United States, as published and in older files; `US` in trees and results.
TOPS = ("", "0", US)
Words = NDArray[np.object_]
Labels = tuple[Integers, ...]
"""(row,) classes of a query's rows on every axis."""
Labelling = Callable[["NmfColumn"], list[Labels] | None]


@dataclass
class NmfColumn:
    """The wanted cells of one query at one level.

    Parameters
    ----------
    query : as the file spells it, without its suffix
    geocodes : (record,) units; values : (record, cell) answers, NaN where not measured; variance : (record,), infinite
        where not measured and 0 for a constraint; sign : (record,), "=" for a measurement; file : (record,) its file
    shape, words : of the query, and what it holds on every axis; None and () if there is no record
    cells, single : indices of the cells, and whether one was asked for, not a list
    labels : classes of rows, of which `values` has sums: of one list of classes after another; None: of no rows
    """

    query: str
    shape: Shape | None = None
    words: tuple[str, ...] = ()
    cells: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    single: bool = True
    labels: list[Labels] | None = None
    paths: list[str] = field(default_factory=list)
    parts: list[tuple[Any, ...]] = field(default_factory=list)
    geocodes: Any = field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    values: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    variance: Floats = field(default_factory=lambda: np.zeros(0))
    sign: Words = field(default_factory=lambda: np.zeros(0, dtype=object))
    file: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def named(self, record: int) -> str:
        """File, geocode and query of a record."""
        return _where(self.paths[int(self.file[record])], self.geocodes[record], self.query)

    def own(self, wanted: NmfColumn) -> Floats:
        """(record, cell) answers in the cells that are wanted about, of the same query."""
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

    def joined(self, faults: list[str] | None) -> NmfColumn:
        """This column with its batches put together; a unit with two records is refused."""
        if self.parts:
            names, self.values, self.variance, self.sign, self.file = (
                np.concatenate([part[i] for part in self.parts]) for i in range(5)
            )
            self.geocodes, self.parts = names.astype(np.str_), []
        first = np.unique(self.geocodes, return_index=True)[1]
        if first.size < self.geocodes.size:
            again = np.setdiff1d(np.arange(self.geocodes.size), first)
            more = f" (and {again.size - 1} more)" if again.size > 1 else ""
            _tell(faults, f"{self.named(int(again[0]))}: there is more than one record of this unit{more}")
        return self


def collect(
    source: ParquetSource, product: Product, queries: Sequence[str] | None, cells: Any, faults: list[str] | None = None,
    progress: str = "", without: Sequence[str] = (), labelling: Labelling | None = None,
) -> dict[str, NmfColumn]:  # fmt: skip
    """The wanted cells of some queries, or of all but those `without`, or sums over classes of rows, in one pass.

    What is malformed is added to the faults, and its records left out; without them, ValueError for the first.
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
        names = texts(batch.column(1))
        several = names.unique().to_pylist()
        for name in several:
            if name is None or not name.strip():
                _tell(faults, f"{file.path}: query_name is missing in a record")
                continue
            column = columns.setdefault(name, NmfColumn(bare(name)))
            rows = batch.filter(pa.compute.equal(names, name)) if len(several) > 1 else batch
            try:
                _Batch(file, column.query, rows, source, product, labelling).take(column, cells, faults)
            except ValueError as error:  # reported with geocode and query; whatever else the file has is read
                _tell(faults, str(error))
    return {name: column.joined(faults) for name, column in sorted(columns.items())}


def first_column(source: ParquetSource, product: Product, query: str, cells: Any) -> NmfColumn | None:
    """Shape, words and cells of a query as its first records have them; None where there are none."""
    condition = arrow().dataset.field("query_name") == query
    for file, batch in source.batches(["geocode", "query_name", "query_shape", *product.axes], condition):
        column = NmfColumn(bare(query), paths=[file.path])
        _Batch(file, column.query, batch, source, product).shape(column, cells)
        return column
    return None


class _Batch:
    """Some records of one query, checked."""

    def __init__(
        self,
        file: File,
        query: str,
        batch: Any,
        source: ParquetSource,
        product: Product,
        labelling: Labelling | None = None,
    ) -> None:
        self.labelling = labelling
        self.file, self.query, self.batch, self.kind, self.product = file, query, batch, source.kind, product
        self.codes = texts(batch.column("geocode"))
        geocodes = self.codes.to_numpy(zero_copy_only=False)
        self.good = np.ones(batch.num_rows, dtype=bool)
        if source.level == US:
            geocodes = np.array([US if code in TOPS else code for code in geocodes], dtype=object)
        elif source.root:
            self.good = np.array([bool(code) and _inside(code, source.root) for code in geocodes])
        self.geocodes = geocodes
        self.faults: list[str] = []

    def refuse(self, bad: NDArray[np.bool_], what: Callable[[int], str]) -> None:
        """Note what is wrong with the first of the bad records, and leave all of them out."""
        bad = bad & self.good
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            more = f" (and {bad.sum() - 1} more records of this file)" if bad.sum() > 1 else ""
            self.faults.append(f"{_where(self.file.path, self.geocodes[first], self.query)}: {what(first)}{more}")
            self.good &= ~bad

    def take(self, column: NmfColumn, cells: Any, faults: list[str] | None) -> None:
        """Add the wanted cells of the good records to their column."""
        self.refuse((self.geocodes == None) | (self.geocodes == ""), lambda i: "the geocode is missing")  # noqa: E711
        self.refuse(self.file.strays(self.codes), lambda i: f"it does not belong into partition {self.file.codes[0]}")
        variance, sign = self._variance(), self._sign()
        values = self._values(column, cells, np.isfinite(variance), variance == 0)
        if self.faults and faults is None:
            raise ValueError(self.faults[0])
        if faults is not None:
            faults.extend(self.faults)
        if not column.paths or column.paths[-1] != self.file.path:
            column.paths.append(self.file.path)
        good = self.good
        place = np.full(int(good.sum()), len(column.paths) - 1, dtype=np.int64)
        column.parts.append((self.geocodes[good], values[good], variance[good], sign[good], place))

    def _variance(self) -> Floats:
        """Infinite where it is absent; constraints have none."""
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
            wrong = given & np.isfinite(variance) & (variance > 0) & ~_buys(budget, variance)
            self.refuse(wrong, lambda i: f"plb must be 1 / variance, {1 / variance[i]:g}, got {budget[i]:g}")
        return variance

    def _sign(self) -> Words:
        """One of =, >= and <=."""
        if self.kind == MEASUREMENTS:
            return np.full(self.batch.num_rows, "=", dtype=object)
        raw = texts(self.batch.column("sign")).to_numpy(zero_copy_only=False)
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
        """The shape and words of the query, which the first record sets, and with them where the wanted cells are."""
        shapes = self.batch.column("query_shape")
        words = [texts(self.batch.column(axis)) for axis in self.product.axes]
        if column.shape is None:
            first = next((shape for shape in shapes.to_pylist() if shape), None)
            if first is None or any(n is None or n < 1 for n in first) or len(first) != len(words):
                raise ValueError(
                    f"{_where(self.file.path, self.geocodes[0], self.query)}: query_shape must be lengths of the "
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
        """(record, cell) answers; NaN in records that were not measured and hold none."""
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
            self.refuse(bad, lambda i: f"values must be whole numbers, got {_odd(lists[i].as_py())}")
            bad[rows] = (numbers < 0).any(axis=1) & exact[rows]
            what = "a constraint" if self.kind == CONSTRAINTS else "an exact count"
            self.refuse(bad, lambda i: f"{what} must be non-negative, got {min(lists[i].as_py())}")
            values[rows] = sums(numbers, shape, labels) if labels else numbers[:, column.cells]
        return values


def sums(numbers: Floats, shape: Shape, labels: list[Labels]) -> Floats:
    """(record, sum) sums of (record, row) answers over classes of rows, one list of classes after another."""
    parts = []
    for one in labels:
        summed = numbers.reshape(-1, *shape)
        for label in one:
            summed = np.tensordot(summed, np.eye(int(label.max()) + 1)[label], axes=(1, 0))  # the axis goes last
        parts.append(summed.reshape(numbers.shape[0], -1))
    return np.concatenate(parts, axis=1)


def label_of(product: Product, column: NmfColumn, cell: int) -> str:
    """A cell of a query in words."""
    assert column.shape is not None
    return product.label(column.words, column.shape, np.array(np.unravel_index(cell, column.shape)))


def _buys(budget: Floats, variance: Floats) -> NDArray[np.bool_]:
    """True where a budget rho of two neighbours is that of discrete Gaussian noise of a variance, or sigma^2."""
    with np.errstate(invalid="ignore", over="ignore"):
        fits = np.abs(budget * variance - 1.0) <= CLOSE
        # below sigma^2 = 2 the variance is no longer sigma^2
        narrow = ~fits & np.isfinite(budget) & (budget > 0.5)
    for one in np.unique(budget[narrow]):
        here = narrow & (budget == one)
        fits[here] = np.abs(variance[here] / DiscreteGaussian(sigma2=1.0 / one).variance - 1.0) <= CLOSE
    return fits


def _has_labels(cells: Any) -> bool:
    """True where any cell is asked for by its label."""
    return any(isinstance(one, str) for one in (cells if isinstance(cells, list) else [cells])) and cells != "all"


def _inside(code: str, root: str) -> bool:
    return code[1:3] == root if len(root) == 2 else code.startswith(root)


def _tell(faults: list[str] | None, fault: str) -> None:
    if faults is None:
        raise ValueError(fault)
    faults.append(fault)


def _where(path: str, geocode: Any, query: str) -> str:
    return f"{path}: geocode {geocode}: query {query}"


def _odd(values: Sequence[Any]) -> Any:
    return next(value for value in values if value is None or not (abs(value) <= LARGEST and value == round(value)))
