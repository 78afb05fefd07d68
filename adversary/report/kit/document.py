"""What a command answers, for people: sections about labelled numbers, under the title and verdict that these have.

A `Document` is shown in three ways (`rendering`): on the screen, as a page, as Markdown. Its numbers are a DataTree
(`answer`), which JSON and the data file are written from; a table only arranges them for reading.
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
    """A figure that is drawn once, when the page is written.

    Parameters
    ----------
    name : of its file
    draw : draws it, and returns its axes; ValueError where there is nothing to show
    caption : under it
    finding : what it shows, for those who cannot see it; the caption where not given
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
        """The figure drawn for the width of a phone; or the reason why there is none."""
        return self._drawn("phone")

    def _drawn(self, size: str) -> bytes | str:
        try:
            with offscreen(size):
                return to_svg(self.draw(), "page", self.finding or self.caption)
        except Exception as error:
            return f"Left out: {self.caption} ({error_text(error)})"


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
        """True if the section, or a part of it, has content."""
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
        # a cell fails where it is written
        _ = [table.texts for part in parts for table in part.tables]
    except Exception as error:
        return Section(title, failure=error_text(error))
    return section


@dataclass
class Card:
    """What stands under the verdict: few numbers with what they are, one picture, one sentence."""

    numbers: list[tuple[str, str]] = field(default_factory=list)
    figure: Figure | None = None
    sentence: str = ""


@dataclass
class Document:
    """An answer.

    Parameters
    ----------
    data : labelled numbers with their `Summary`: title, verdict and warnings; attributes say where they come from
    card : what stands under the verdict
    lead : sentences before the first section
    sections : in the order of reading
    provenance : names and values, last
    understood : of the input, sentences before any number
    partly : the verdict holds, but not for all that was asked about: its bar is amber
    workbook : the tables are written as one Excel file too
    todo : the command that comes next, in a sentence, where all sections are not printed
    main : the table that the screen shows unless all are asked for; the first where not given
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
        """All sections, those inside others after them."""
        for section in self.sections:
            yield from section.walk()

    @property
    def on_screen(self) -> list[Table]:
        """Tables of the sections that the screen shows."""
        shown = [one for one in self.sections if one.on_screen and one.says]
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
        """Leave out figures that look like an earlier one, as under a second truth."""
        # names of clips follow from the last bits of a layout, which differ from drawing to drawing
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
    """Decorator of a function that makes a document of a DataTree: where it fails, one of the numbers alone.

    Parameters
    ----------
    make : takes the tree as one of its arguments

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
