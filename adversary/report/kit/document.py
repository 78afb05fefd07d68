"""What a command answers, as one object: a title, a verdict, sections, and the labelled numbers they are about.

A `Document` is shown in three ways (`rendering`): on the screen, as a page, as Markdown. Its numbers are a DataTree, of
which JSON lists `records` and the data file holds everything; a table only arranges them for reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from io import BytesIO
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import error_text, finite
from adversary.report.kit.safe_text import printable
from adversary.report.kit.tables import Table, plain_value

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

        from adversary.report.kit.style import STYLE

        buffer = BytesIO()
        try:
            figure = self.draw()
            with mpl.rc_context({key: STYLE[key] for key in STYLE if key.startswith("svg.")}):
                figure.savefig(buffer, format="svg", metadata={"Date": None})
        except Exception as error:
            return f"Left out: {self.caption} ({error_text(error)})"
        return printable(buffer.getvalue().decode()).encode()


@dataclass
class Section:
    """Part of a document: its finding first, then paragraphs, tables, figures and notes; parts of its own after them.

    `folded` sections are closed on a page until they are opened, and open in print. `failure` is why there is no more
    in it than the reason: see `attempt`.
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
    failure: str = ""

    def __post_init__(self) -> None:
        self.finding = self.finding or f"Left out: {self.failure}" * bool(self.failure)

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


def attempt[**P, S: Section | None](
    title: str, make: Callable[P, S], /, *args: P.args, **kwargs: P.kwargs
) -> S | Section:
    """The section that a function makes; where it fails, one of this title that says why.

    The numbers and the other sections took long to compute: one that fails must not take them along.

    Parameters
    ----------
    title : of the section in its place
    make : makes the section, or None where there is none
    *args, **kwargs : its arguments

    Returns
    -------
    Section or None, every cell of its tables written once.

    >>> attempt("Ratio", lambda: Section("Ratio", f"{1 / 0}")).finding
    'Left out: ZeroDivisionError: division by zero'
    """
    try:
        section = make(*args, **kwargs)
        parts = () if section is None else section.walk()
        _ = [table.texts for part in parts for table in part.tables]  # a cell fails where it is written
    except Exception as error:
        return Section(title, failure=error_text(error))
    return section


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
    def failures(self) -> list[str]:
        """What could not be made, and why, a line each."""
        return [f"{one.title}: {one.failure}" for one in self.every_section if one.failure]

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


def guarded_document[**P](make: Callable[P, Document]) -> Callable[P, Document]:
    """Decorator of a function that makes a document of a DataTree: where it fails, one of the numbers alone.

    Parameters
    ----------
    make : takes the tree as one of its arguments

    >>> made = guarded_document(lambda tree: Document(tree.attrs["title"], tree))
    >>> made(xr.DataTree.from_dict({"risk": xr.Dataset({"ratio": 2.0})})).failures
    ["Words, tables and figures: KeyError: 'title'"]
    """

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Document:
        try:
            return make(*args, **kwargs)
        except Exception as error:
            tree = next(one for one in (*args, *kwargs.values()) if isinstance(one, xr.DataTree))
            listed = [node.path.strip("/") for node in tree.subtree if node.data_vars and node.path != "/"]
            alone = Section("Words, tables and figures", failure=error_text(error))
            return Document(str(tree.attrs.get("title", "Numbers")), tree, listed, sections=[alone])

    return made


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
