"""Tables of an answer: rows of values under typed columns, made from labelled arrays, and the format of each type."""

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


# Formats by kind of column: a function of (value, digits), and the factor of the standard error's unit.
#
# Bounds round outward. A parameter is written as it was given; a chance is a probability whose size does not matter
# once it is small; "% certified" is an interval that is narrower than three digits, or else
# shown with both ends.
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

# Up to so many rows numbers get the digits that tell them apart: in longer tables they would be too wide.
FEW = 12
WORDS = ("text", "status")


class Column(NamedTuple):
    """Column of a table: its head, and the kind of its values, one of `FORMATS`."""

    head: str
    kind: str = "text"

    def shown(self, cell: Any, digits: int = DIGITS) -> str:
        """A cell as text: "" for None, words unchanged."""
        if cell is None or isinstance(cell, str):
            return cell or ""
        write, unit = FORMATS[self.kind]
        if isinstance(cell, Measured):
            # an error next to the rounding of doubles is that of a number that every release shares
            error = cell.error if cell.error > 1e-12 * abs(cell.value) else 0.0
            return write(cell.value, digits) + give_or_take(unit * error)
        return write(cell, digits)

    def all_shown(self, cells: Sequence[Any]) -> list[str]:
        """Cells of the column as text; if there are few, values that differ get enough digits to show it."""
        few = self.kind in FINER and len(cells) <= FEW and not any(isinstance(cell, Measured) for cell in cells)
        return format_apart(self.shown, cells) if few else [self.shown(cell) for cell in cells]


@dataclass
class Table:
    """Rows of values under typed columns.

    Parameters
    ----------
    columns : heads with their kinds, as `Column` or as pairs; a head alone is a column of words
    rows : a cell for each column: a value of its kind, `Measured`, words in its place, or None
    title : above it
    notes : under it
    marked : indices of rows to highlight
    name : of its CSV file; the title if not given
    first : heads of the columns to show if there is room for few; the first ones if not given
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
        """Append a row, to be highlighted if `marked`.

        Raises
        ------
        ValueError : it has not one cell for each column
        """
        if len(cells) != len(self.columns):
            raise ValueError(f"a row has {len(self.columns)} cells, got {len(cells)}")
        if marked:
            self.marked.add(len(self.rows))
        self.rows.append(cells)

    def cut_to(self, columns: int, rows: int) -> Table:
        """Copy cut to so many columns, those of `first` before others, and to the first rows."""
        heads = [one.head for one in self.typed]
        chosen = [heads.index(head) for head in self.first if head in heads] or [*range(len(heads))]
        places = sorted(chosen[:columns])
        cut: list[Sequence[Any]] = [tuple(row[i] for i in places) for row in self.rows[:rows]]
        marked = {i for i in self.marked if i < rows}
        return Table([self.typed[i] for i in places], cut, marked=marked)

    @property
    def typed(self) -> list[Column]:
        """The columns as `Column`."""
        return [one for one in self.columns if isinstance(one, Column)]

    @property
    def texts(self) -> list[list[str]]:
        """Every cell as text, row by row."""
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
    """Table with a row for each combination of labels of the dimensions in `columns`, the first varying slowest.

    Parameters
    ----------
    data : arrays over these dimensions or some of them; of intervals also over "side" or "end"; "mcse" over "measure"
        has the standard errors of the arrays it names
    columns : column of each dimension or array; None for a dimension that has rows and no column. Left out are names
        that are not in the data, and dimensions whose only label is, or is called, ""
    name : of the table, as are `more`
    called : words for labels, by dimension or array; under None the word for NaN
    where : name of an array that is true where there is a row; without it there is one everywhere
    marked : labels, by dimension or array, of rows to highlight
    missing : words for NaN in all other arrays

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
    """Values (row, ...) of an array, repeated along dimensions of the rows that it lacks."""
    full = array.broadcast_like(xr.Dataset(coords={dim: data[dim] for dim in dims})).transpose(*dims, ...)
    return full.values.reshape(-1, *(full.sizes[dim] for dim in full.dims if dim not in dims))


def _cells(data: xr.Dataset, key: str, dims: Sequence[str], words: Mapping[Any, str], missing: str | None) -> list[Any]:
    """Cells of the column `key`: words for labels, `Measured` if there is an error, `missing` for NaN."""
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
