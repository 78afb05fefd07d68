"""Document of an answer, for people: sections of text, tables and figures about the labelled numbers of a DataTree.

A `Document` is shown in three ways (`rendering`): on the screen, as a page, as Markdown. JSON and the data file are
written from the DataTree (`answer`) alone; tables only arrange its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any

import xarray as xr

from adversary._core import error_text
from adversary.report.kit.answer import Summary, summary_of
from adversary.report.kit.figure_files import offscreen, to_svg
from adversary.report.kit.tables import Table


@dataclass
class Figure:
    """Figure that is drawn once, when the page is written.

    Parameters
    ----------
    name : of its file
    draw : function that draws it and returns its axes; ValueError if there is nothing to show
    caption : under it
    finding : alternative text, the caption if not given
    """

    name: str
    draw: Callable[[], Any]
    caption: str
    finding: str = ""

    @cached_property
    def svg(self) -> bytes | str:
        """SVG of the figure, the same bytes for the same figure; or the reason why there is none."""
        return self._drawn("column")

    @cached_property
    def phone_svg(self) -> bytes | str:
        """SVG of the figure drawn for the width of a phone; or the reason why there is none."""
        return self._drawn("phone")

    def _drawn(self, size: str) -> bytes | str:
        """SVG drawn for a width, or a sentence with the error."""
        try:
            with offscreen(size):
                return to_svg(self.draw(), "page", self.finding or self.caption)
        except Exception as error:
            return f"Left out: {self.caption} ({error_text(error)})"


@dataclass
class Section:
    """Part of a document: its finding first, then paragraphs, tables, figures and notes, then sections inside it.

    `folded` sections are closed on a page until they are opened, and open in print. `failure` is the error of a section
    that could not be made, which has nothing else: see `attempt`.
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
        """The section and all sections inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def has_content(self) -> bool:
        """True if the section, or a part of it, has content."""
        own = self.finding or self.paragraphs or self.tables or self.notes
        return bool(own) or any(part.has_content for part in self.parts)

    def drop_empty_parts(self) -> None:
        """Remove sections inside it that have no content and no figures."""
        for part in self.parts:
            part.drop_empty_parts()
        self.parts = [part for part in self.parts if part.has_content or any(one.figures for one in part.walk())]


def attempt[**P, S: Section | None](
    title: str, make: Callable[P, S], /, *args: P.args, **kwargs: P.kwargs
) -> S | Section:
    """Section that a function makes, or one with the error if the function fails.

    Numbers and other sections took long to compute: an error in one section must not discard them.

    Parameters
    ----------
    title : of the section that replaces a failed one
    make : function that returns the section, or None
    *args, **kwargs : its arguments

    Returns
    -------
    Section or None; every cell of its tables can be formatted

    >>> attempt("Ratio", lambda: Section("Ratio", f"{1 / 0}")).finding
    'Left out: ZeroDivisionError: division by zero'
    """
    try:
        section = make(*args, **kwargs)
        parts = () if section is None else section.walk()
        # formatting is tried here, since a cell with a wrong value fails only then
        _ = [table.texts for part in parts for table in part.tables]
    except Exception as error:
        return Section(title, failure=error_text(error))
    return section


@dataclass
class Card:
    """Card under the verdict: a few numbers with their names, one figure, one sentence."""

    numbers: list[tuple[str, str]] = field(default_factory=list)
    figure: Figure | None = None
    sentence: str = ""


@dataclass
class Document:
    """Document of an answer.

    Parameters
    ----------
    data : labelled numbers with their `Summary` (title, verdict and warnings); attributes have their provenance
    card : under the verdict
    lead : sentences before the first section
    sections : in the order of reading
    provenance : names and values, last
    understood : sentences on how the input was understood, before any number
    partly : True if the verdict is good for a part of the input only: its bar is then amber
    workbook : whether the tables are written as one Excel file too
    todo : the next command, in a sentence, if not all sections are printed
    main : the one table that the screen shows by default; the first if not given
    """

    data: xr.DataTree
    card: Card | None = None
    lead: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    provenance: list[tuple[str, str]] = field(default_factory=list)
    understood: Sequence[str] = ()
    workbook: bool = False
    partly: bool = False
    todo: str = ""
    main: Table | None = None

    @property
    def summary(self) -> Summary:
        """Title, verdict and warnings of its numbers."""
        return summary_of(self.data)

    @property
    def every_section(self) -> Iterator[Section]:
        """All sections, each before those inside it."""
        for section in self.sections:
            yield from section.walk()

    @property
    def on_screen(self) -> list[Table]:
        """Tables of the sections that the screen shows."""
        shown = [one for one in self.sections if one.on_screen and one.has_content]
        return [table for section in shown for part in section.walk() if part.on_screen for table in part.tables]

    @property
    def failures(self) -> list[str]:
        """Sections that could not be made, with the reason, one line each."""
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
        """Remove figures that look like an earlier one, such as that of another truth."""
        # ids of clip paths depend on the last bits of the layout, which differ between drawings
        clips = re.compile(rb"\bp[0-9a-f]{10}\b")
        drawn: set[bytes | str] = set()
        for section in self.every_section:
            looks = [clips.sub(b"", one.svg) if isinstance(one.svg, bytes) else one.svg for one in section.figures]
            fresh = [one for one, look in zip(section.figures, looks, strict=True) if look not in drawn]
            drawn.update(looks)
            section.figures[:] = fresh
        for section in self.sections:
            section.drop_empty_parts()


def guarded_document[**P](make: Callable[P, Document]) -> Callable[P, Document]:
    """Decorator of a function that makes a document of a DataTree: if it fails, the document has the error alone.

    Parameters
    ----------
    make : function that has the tree among its arguments

    >>> made = guarded_document(lambda tree: Document(tree, lead=[tree.attrs["title"]]))
    >>> made(xr.DataTree.from_dict({"risk": xr.Dataset({"ratio": 2.0})})).failures
    ["Words, tables and figures: KeyError: 'title'"]
    """

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Document:
        try:
            return make(*args, **kwargs)
        except Exception as error:
            tree = next(one for one in (*args, *kwargs.values()) if isinstance(one, xr.DataTree))
            return Document(tree, sections=[Section("Words, tables and figures", failure=error_text(error))])

    return made
