"""Tables of an answer: rows of values under typed columns, made from labelled arrays, and how each kind is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary._core import (
    DIGITS,
    as_given,
    format_apart,
    format_bound,
    format_chance,
    format_interval,
    format_number,
    format_probability,
    give_or_take,
    interval,
    percentage,
)
from adversary.report.kit.answer import plain_value


class Measured(NamedTuple):
    """An estimate and its standard error; 0 where the value is exact."""

    value: float
    error: float = 0.0


def _certified(ends: tuple[float, float], digits: int) -> str:
    """A certified interval of a probability, in percent; its upper end alone where both round up to the same."""
    low, high = (percentage(end, True, digits) for end in ends)
    return high if low == high else format_interval(*ends, percent=True, digits=digits)


# How a value of each kind of column is written to so many digits, and the unit in which its standard error is.
#
# Bounds round outward. A parameter is as it was given; a chance is a probability of which it does not matter how
# small it is; "% certified" is an interval that is narrower than three digits, or else shown with both ends.
FORMATS: dict[str, tuple[Callable[[Any, int], str], float]] = {
    "text": (lambda text, _: str(text), 0.0),
    "status": (lambda text, _: str(text), 0.0),
    "count": (lambda n, _: f"{int(n):,}", 0.0),
    "number": (format_number, 1.0),
    "parameter": (lambda x, _: as_given(x), 1.0),
    "probability": (format_probability, 100.0),
    "chance": (format_chance, 100.0),
    "points": (lambda d, n: format_number(100.0 * d, n), 100.0),
    "at least": (lambda x, n: format_bound(x, False, n), 1.0),
    "at most": (lambda x, n: format_bound(x, True, n), 1.0),
    "% at most": (lambda p, n: percentage(p, True, n), 100.0),
    "interval": (lambda ends, n: format_interval(*ends, digits=n), 1.0),
    "% interval": (lambda ends, n: format_interval(*ends, percent=True, digits=n), 100.0),
    "% certified": (lambda ends, n: _certified(ends, n), 100.0),
    "posterior interval": (lambda ends, n: interval(ends, n), 1.0),
    "points interval": (lambda ends, n: format_interval(*(100.0 * end for end in ends), digits=n), 100.0),
}

# Kinds of columns whose numbers get more digits where two rows differ in them alone.
FINER = ("number", "probability", "points", "at least", "at most", "% at most")

# Rows of a table whose numbers are compared with one another, at most.
FEW = 12
WORDS = ("text", "status")


class Column(NamedTuple):
    """A head, and the kind of its values: one of `FORMATS`."""

    head: str
    kind: str = "text"

    def shown(self, cell: Any, digits: int = DIGITS) -> str:
        """A cell as text: nothing for None, words as they are."""
        if cell is None or isinstance(cell, str):
            return cell or ""
        write, unit = FORMATS[self.kind]
        if isinstance(cell, Measured):
            return write(cell.value, digits) + give_or_take(unit * cell.error)
        return write(cell, digits)

    def all_shown(self, cells: Sequence[Any]) -> list[str]:
        """Cells below one another as text; of few, those that differ read differently."""
        few = self.kind in FINER and len(cells) <= FEW and not any(isinstance(cell, Measured) for cell in cells)
        return format_apart(self.shown, cells) if few else [self.shown(cell) for cell in cells]


@dataclass
class Table:
    """Rows of values under typed columns.

    Parameters
    ----------
    columns : heads with their kinds, as `Column` or as pairs; a bare head is a column of words
    rows : a cell for each column: a value of its kind, `Measured`, words in its place, or None
    title : above it
    notes : under it
    marked : places of rows to stand out
    name : of its CSV file; the title where not given
    first : heads of the columns that stand where there is room for few; the first ones where not given
    """

    columns: Sequence[Sequence[str]]
    rows: list[Sequence[Any]] = field(default_factory=list)
    title: str = ""
    notes: list[str] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)
    name: str = ""
    first: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.columns = [Column(one) if isinstance(one, str) else Column(*one) for one in self.columns]

    def add(self, *cells: Any, marked: bool = False) -> None:
        """A row, to stand out if `marked`.

        Raises
        ------
        ValueError : it has not one cell for each column
        """
        if len(cells) != len(self.columns):
            raise ValueError(f"a row has {len(self.columns)} cells, got {len(cells)}")
        if marked:
            self.marked.add(len(self.rows))
        self.rows.append(cells)

    def glance(self, columns: int, rows: int) -> Table:
        """The table cut to so many columns, those of `first` if it has any, and to its first rows."""
        heads = [one.head for one in self.typed]
        chosen = [heads.index(head) for head in self.first if head in heads] or [*range(len(heads))]
        places = sorted(chosen[:columns])
        cut: list[Sequence[Any]] = [tuple(row[i] for i in places) for row in self.rows[:rows]]
        marked = {i for i in self.marked if i < rows}
        return Table([self.typed[i] for i in places], cut, marked=marked)

    @property
    def typed(self) -> list[Column]:
        """The columns."""
        return [one for one in self.columns if isinstance(one, Column)]

    @property
    def texts(self) -> list[list[str]]:
        """Every cell as it is shown."""
        columns = [one.all_shown([row[i] for row in self.rows]) for i, one in enumerate(self.typed)]
        return [list(row) for row in zip(*columns, strict=True)]


def tabulate(
    data: xr.Dataset,
    columns: Mapping[str, Sequence[str] | None],
    *,
    name: str,
    called: Mapping[str, Mapping[Any, str]] | None = None,
    where: str = "",
    marked: Mapping[str, Any] | None = None,
    missing: str | None = None,
    **more: Any,
) -> Table:
    """A table with a row for each label of the dimensions that have a column, the first going slowest.

    Parameters
    ----------
    data : arrays over these dimensions or some of them; of intervals also over "side" or "end"; "mcse" over "measure"
        has the standard errors of the arrays it names
    columns : by dimension or array, left out where it is not there, or a dimension whose only label is "", or called
        ""; None for a dimension that has rows and no column
    name : of the table, as are `more`
    called : words for labels, by dimension or array; under None that for a number which is NaN
    where : array that is true where there is a row; everywhere if not given
    marked : labels, by dimension or array, of rows to stand out
    missing : in the place of any other number that is NaN

    >>> data = xr.Dataset({"ratio": ("prior", [2.0, np.nan])}, {"prior": [0.1, 0.5]})
    >>> tabulate(data, {"prior": Column("prior", "probability"), "ratio": Column("ratio", "number")}, name="t").rows
    [(0.1, 2.0), (0.5, None)]
    """
    columns = {key: column for key, column in columns.items() if key in data.variables or key in data.dims}
    dims = [key for key in columns if key in data.dims]
    cells = {key: _cells(data, key, dims, (called or {}).get(key, {}), missing) for key in columns}
    heads = {
        key: head for key, head in columns.items() if head is not None and (key not in dims or set(cells[key]) != {""})
    }
    table = Table(list(heads.values()), name=name, **more)
    there = _flat(data, data[where], dims) if where else None
    for i, row in enumerate(zip(*(cells[key] for key in heads), strict=True)):
        if there is None or there[i]:
            table.add(*row, marked=bool(marked) and all(cells[key][i] == one for key, one in (marked or {}).items()))
    return table


def _flat(data: xr.Dataset, array: xr.DataArray, dims: Sequence[str]) -> Any:
    """(row, ...) values of an array that may lack some of the dimensions of the rows."""
    full = array.broadcast_like(xr.Dataset(coords={dim: data[dim] for dim in dims})).transpose(*dims, ...)
    return full.values.reshape(-1, *(full.sizes[dim] for dim in full.dims if dim not in dims))


def _cells(data: xr.Dataset, key: str, dims: Sequence[str], words: Mapping[Any, str], missing: str | None) -> list[Any]:
    """A column of a table."""
    values = _flat(data, data[key], dims)
    known = "mcse" in data and key in data["measure"].values
    errors = _flat(data, data["mcse"].sel(measure=key, drop=True), dims) if known else np.zeros(len(values))

    absent = words.get(None, missing)

    def cell(value: Any, error: float) -> Any:
        if isinstance(value, np.ndarray):
            return absent if np.isnan(value).all() else tuple(map(float, value))
        plain = plain_value(value)
        if plain is None:
            return absent if np.isnan(value) else float(value)
        return Measured(plain, float(error)) if error > 0.0 else words.get(plain, plain)

    return [cell(value, error) for value, error in zip(values, errors, strict=True)]
