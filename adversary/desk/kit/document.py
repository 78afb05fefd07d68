"""What a command answers, as one object: a title, a verdict, sections, and the labelled numbers they are about.

A `Document` is shown in three ways (`rendering`): on the screen, as a page, as Markdown. Its numbers are a DataTree, of
which JSON lists `records` and the data file holds everything; a table only arranges them for reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import finite
from adversary.desk.kit.tables import Table, plain_value

SCHEMA = 1
"""Version of the keys of JSON records."""

NARROW = 410.0
"""Points of a figure that a phone shows whole."""


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
    code, problem : with which a command that shows it ends, and one line on why where it is not 0
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
    problem: str = ""

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
            "attributes": {str(key): plain_value(value) for key, value in self.data.attrs.items()},
            "verdict": {"text": self.card.verdict, "status": self.card.status} if self.card else None,
            "warnings": list(self.warnings),
            "records": [one for group in self.listed for one in records(self.data[group].to_dataset(), group)],
        }


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
        labels = [[plain_value(label) for label in array[dim].values] for dim in dims]
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
                "value": plain_value(values[place]),
                "error": error,
                "direction": direction,
            }
