"""What a command answers, as one object: a title, a verdict, sections, and the labelled numbers they are about.

A `Document` is shown in three ways (`rendering`): on the screen, as a page, as Markdown. Its numbers are a DataTree, of
which JSON lists `records` and the data file holds everything; a table only arranges them for reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary._core import (
    PERCENT,
    as_given,
    finite,
    format_bound,
    format_interval,
    format_number,
    format_probability,
    give_or_take,
    interval,
    outward_percent,
)

SCHEMA = 1
"""Version of the keys of JSON records."""

NARROW = 410.0
"""Points of a figure that a phone shows whole."""


class Measured(NamedTuple):
    """An estimate and its standard error; 0 where the value is exact."""

    value: float
    error: float = 0.0


FORMATS: dict[str, tuple[Callable[[Any], str], float]] = {
    "text": (str, 0.0),
    "status": (str, 0.0),
    "count": (lambda n: f"{int(n):,}", 0.0),
    "number": (format_number, 1.0),
    "parameter": (as_given, 1.0),
    "probability": (format_probability, 100.0),
    "chance": (lambda p: f"< 0.01{PERCENT}" if 0.0 < p < 1e-4 else format_probability(p), 100.0),
    "points": (lambda d: format_number(100.0 * d), 100.0),
    "at least": (lambda x: format_bound(x, False), 1.0),
    "at most": (lambda x: format_bound(x, True), 1.0),
    "% at most": (lambda p: outward_percent(p, True) + PERCENT, 100.0),
    "interval": (lambda ends: format_interval(*ends), 1.0),
    "% interval": (lambda ends: format_interval(*ends, percent=True), 100.0),
    "% certified": (lambda ends: format_interval(*ends, percent=True, digits=8), 100.0),
    "posterior interval": (interval, 1.0),
    "points interval": (lambda ends: format_interval(*(100.0 * end for end in ends)), 100.0),
}
"""How a value of each kind of column is written, and the unit in which its standard error is; bounds round outward.

A parameter is as it was given; a chance is a probability of which it does not matter how small it is; "% certified" is
of an interval that is too narrow for four digits."""
WORDS = ("text", "status")


class Column(NamedTuple):
    """A head, and the kind of its values: one of `FORMATS`."""

    head: str
    kind: str = "text"

    def shown(self, cell: Any) -> str:
        """A cell as text: nothing for None, words as they are."""
        if cell is None or isinstance(cell, str):
            return cell or ""
        write, unit = FORMATS[self.kind]
        if isinstance(cell, Measured):
            return write(cell.value) + give_or_take(unit * cell.error)
        return write(cell)


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
    """

    columns: Sequence[Sequence[str]]
    rows: list[Sequence[Any]] = field(default_factory=list)
    title: str = ""
    notes: list[str] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)
    name: str = ""

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

    @property
    def typed(self) -> list[Column]:
        """The columns."""
        return [one for one in self.columns if isinstance(one, Column)]

    @property
    def texts(self) -> list[list[str]]:
        """Every cell as it is shown."""
        return [[column.shown(cell) for column, cell in zip(self.typed, row, strict=True)] for row in self.rows]


@dataclass
class Figure:
    """A figure that is drawn once, when the page is written.

    Parameters
    ----------
    name : of its file
    draw : makes the matplotlib figure; ValueError where there is nothing to show
    caption : under it
    finding : what it shows, for those who cannot see it; the caption where not given
    """

    name: str
    draw: Callable[[], Any]
    caption: str
    finding: str = ""

    @property
    def narrow(self) -> bool:
        """Whether its texts stay legible at the width of a phone."""
        found = re.search(rb'width="([\d.]+)pt"', self.svg) if isinstance(self.svg, bytes) else None
        return found is not None and float(found[1]) <= NARROW

    @cached_property
    def svg(self) -> bytes | str:
        """The same bytes for the same figure, or why there is none."""
        import matplotlib as mpl

        from adversary.desk.kit.style import STYLE

        buffer = BytesIO()
        try:
            figure = self.draw()
        except ValueError as error:
            return f"Left out: {self.caption} ({error})"
        with mpl.rc_context({key: STYLE[key] for key in STYLE if key.startswith("svg.")}):
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


@dataclass
class Section:
    """Part of a document: its finding first, then paragraphs, tables, figures and notes; parts of its own after them.

    `folded` sections are closed on a page until they are opened, and open in print.
    """

    title: str
    finding: str = ""
    paragraphs: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: list[Section] = field(default_factory=list)
    folded: bool = False
    on_screen: bool = True

    def walk(self) -> Iterator[Section]:
        """This section and those inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def says(self) -> bool:
        """Whether there is anything to read in it."""
        own = self.finding or self.paragraphs or self.tables or self.notes
        return bool(own) or any(part.says for part in self.parts)

    def drop_empty_parts(self) -> None:
        """Leave out parts in which nothing is left."""
        for part in self.parts:
            part.drop_empty_parts()
        self.parts = [part for part in self.parts if part.says or any(one.figures for one in part.walk())]


@dataclass
class Card:
    """What comes first: a verdict, few numbers with what they are, one picture, one sentence.

    `status` is "holds", "exceeded", "violated", or "" where nothing is judged.
    """

    verdict: str
    status: str = ""
    numbers: list[tuple[str, str]] = field(default_factory=list)
    figure: Figure | None = None
    sentence: str = ""


@dataclass
class Document:
    """An answer.

    Parameters
    ----------
    title : of the file or the question
    data : labelled numbers; their attributes say where they come from
    listed : groups of `data` whose numbers JSON lists
    card : the verdict
    lead : sentences before the first section
    sections : in the order of reading
    warnings : what to know before the numbers are believed
    provenance : names and values, last
    code : with which a command that shows it ends
    """

    title: str
    data: xr.DataTree
    listed: Sequence[str] = ()
    card: Card | None = None
    lead: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    provenance: list[tuple[str, str]] = field(default_factory=list)
    code: int = 0

    @property
    def every_section(self) -> Iterator[Section]:
        """All sections, those inside others after them."""
        for section in self.sections:
            yield from section.walk()

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        first = [self.card.figure] if self.card and self.card.figure else []
        return [*first, *(figure for section in self.every_section for figure in section.figures)]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [table for section in self.every_section for table in section.tables]

    def draw_once(self) -> None:
        """Leave out figures that look like an earlier one, as under a second truth."""
        drawn: set[bytes | str] = set()
        for section in self.every_section:
            fresh = [one for one in section.figures if one.svg not in drawn]
            drawn.update(one.svg for one in fresh)
            section.figures[:] = fresh
        for section in self.sections:
            section.drop_empty_parts()

    def as_json(self) -> dict[str, Any]:
        """Title, verdict, warnings and records under stable keys."""
        return {
            "schema": SCHEMA,
            "title": self.title,
            "attributes": {str(key): _plain(value) for key, value in self.data.attrs.items()},
            "verdict": {"text": self.card.verdict, "status": self.card.status} if self.card else None,
            "warnings": list(self.warnings),
            "records": [one for group in self.listed for one in records(self.data[group].to_dataset(), group)],
        }


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
        plain = _plain(value)
        if plain is None:
            return absent if np.isnan(value) else float(value)
        return Measured(plain, float(error)) if error > 0.0 else words.get(plain, plain)

    return [cell(value, error) for value, error in zip(values, errors, strict=True)]


def records(dataset: xr.Dataset, group: str = "") -> Iterator[dict[str, Any]]:
    """Every number of a dataset with its labels.

    Parameters
    ----------
    dataset : an array "mcse" over "measure", if there is one, has the standard errors of the arrays it names; an
        array's attribute "direction" says whether its numbers are exact, estimates or bounds, and labels along "side"
        or "end" which bound each is
    group : where it is from

    Returns
    -------
    dicts of `group`, the labels by dimension, `quantity`, `value` (a finite number, words, or None), `error` (a
    standard error, or None) and `direction` ("exact", "estimate", "lower" or "upper").

    >>> one = xr.Dataset({"ratio": ("side", [0.5, 2.0])}, {"side": ["lower", "upper"]})
    >>> [(row["quantity"], row["value"], row["direction"]) for row in records(one)]
    [('ratio', 0.5, 'lower'), ('ratio', 2.0, 'upper')]
    """
    errors = dataset.get("mcse")
    has_error = [] if errors is None else [str(name) for name in errors["measure"].values]
    for name, array in dataset.data_vars.items():
        if name == "mcse":
            continue
        dims = [str(dim) for dim in array.dims]
        labels = [[_plain(label) for label in array[dim].values] for dim in dims]
        values = np.asarray(array.values)
        spread = None
        if errors is not None and str(name) in has_error:
            spread = np.asarray(errors.sel(measure=str(name)).transpose(*dims).values)
        for place, where in zip(np.ndindex(values.shape), product(*labels), strict=True):
            named = dict(zip(dims, where, strict=True))
            side = str(named.get("side", named.get("end", "")))
            direction = side if side in ("lower", "upper") else str(array.attrs.get("direction", "exact"))
            error = None if spread is None else finite(spread[place])
            yield {
                "group": group,
                **named,
                "quantity": str(name),
                "value": _plain(values[place]),
                "error": error,
                "direction": direction,
            }


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are finite, words, or None."""
    if value is None or isinstance(value, str):
        return value and str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, np.floating | float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Iterable):
        return [_plain(one) for one in value]
    return str(value)
