"""Rendering of a document on the screen, as a self-contained HTML page, and as Markdown; of its tables as CSV.

Texts from files are made safe here, once: no control characters on the screen, no markup in Markdown, all escaped on a
page.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from adversary._core import first_sentence, join_words
from adversary.report.kit.document import Card, Document, Figure, Section
from adversary.report.kit.figure_files import inline_svg
from adversary.report.kit.safe_text import printable
from adversary.report.kit.tables import WORDS, Measured, Table
from adversary.report.words import environment

# Width of output that is not printed on a terminal.
WIDTH = 120

# Words of up to so many letters are not broken in a table on the screen.
NAME = 26

# Largest size of the one table that is printed by default.
COLUMNS, ROWS = 6, 12
COLOURS = {"holds": "green", "exceeded": "red", "violated": "red", "unreliable": "red"}


class Screen(Console):
    """Console of rich that removes control characters from all texts, which may come from files."""

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Segments of text to write, made printable."""
        for text, style, control in super().render(renderable, options):
            yield Segment(printable(text), style, control)


def console() -> Console:
    """Console on standard output, as wide as the terminal."""
    return Screen(width=None if sys.stdout.isatty() else WIDTH)


def show(document: Document, *, full: bool = True) -> None:
    """Print a document; figures are left out.

    Parameters
    ----------
    document : the answer
    full : print every section; otherwise the card, one table and the first sentence of every caution
    """
    screen, tables = console(), document.on_screen
    summary = document.summary
    screen.print(Text(summary.title, style="bold"))
    for line in document.understood:
        screen.print(Text(line, style="dim"))
    if summary.verdict:
        partly = document.partly and summary.status == "holds"
        screen.print(Text(summary.verdict, style="yellow" if partly else COLOURS.get(summary.status, "bold")))
    if document.card:
        _show_card(document.card, screen)
    # an answer without tables is in words alone, all of which are printed
    if full or not tables:
        for line in document.lead:
            screen.print(Text(line))
        for section in document.sections:
            _show_section(section, screen)
    else:
        _show_main(document.main or tables[0], len(tables), screen)
        if document.todo:
            screen.print(Text(document.todo), overflow="ignore", crop=False, soft_wrap=True)
    # last, so that they stand above the prompt
    for line in summary.warnings:
        screen.print(Text(f"\nTake care. {line if full else first_sentence(line)}", style="bold"))


def _show_main(table: Table, tables: int, screen: Console) -> None:
    """Print one table, cut to a few columns and rows, and a line on what `--full` prints."""
    short = table.cut_to(COLUMNS, ROWS)
    screen.print("", _grid(short, max(NAME, 2 * screen.width // 5)), sep="\n")
    rows, columns = len(table.rows) - len(short.rows), len(table.typed) - len(short.typed)
    left = [f"{n:,} more {word}{'s' * (n > 1)}" for n, word in ((rows, "row"), (columns, "column")) if n]
    left += [f"{tables - 1} more table{'s' * (tables > 2)}"] * (tables > 1)
    screen.print(Text(f"--full prints {join_words(left) if left else 'the notes too'}.", style="dim"))


def _show_card(card: Card, screen: Console) -> None:
    """Print the numbers and the sentence of a card."""
    for name, value in card.numbers:
        screen.print(Text(f"  {name}: {value}"))
    if card.sentence:
        screen.print(Text(card.sentence))


def _show_section(section: Section, screen: Console) -> None:
    if not (section.on_screen and section.has_content):
        return
    screen.print("", Text(section.title, style="bold"), sep="\n")
    # paragraphs of running text get blank lines between them, lines about a table do not
    apart = "\n" * (len(section.paragraphs) > 1 and not section.tables)
    for line in (section.finding, *section.paragraphs):
        if line:
            # never cropped, so that a path can be copied
            screen.print(Text(line + apart), overflow="ignore", crop=False)
    for table in section.tables:
        if table.title:
            screen.print(Text(table.title))
        screen.print(_grid(table))
        for note in table.notes:
            screen.print(Text(note, style="dim"))
    for note in section.notes:
        screen.print(Text(note, style="dim"))
    for part in section.parts:
        _show_section(part, screen)


def _grid(table: Table, name: int = NAME) -> Grid:
    """Table of rich; words of up to `name` letters in its first column are not broken."""
    made, texts = Grid(box=None, pad_edge=False, header_style="bold"), table.texts
    for place, column in enumerate(table.typed):
        # folded, never cut: codes may differ in their last digits alone
        words = column.kind in WORDS
        short = words and all(len(row[place]) <= (NAME if place else name) for row in texts)
        made.add_column(Text(column.head), justify="left" if words else "right", overflow="fold", no_wrap=short)
    for i, row in enumerate(texts):
        cells = [
            Text(text, style=COLOURS.get(text, "") if column.kind == "status" else "bold" * (i in table.marked))
            for column, text in zip(table.typed, row, strict=True)
        ]
        made.add_row(*cells)
    return made


def to_markdown(document: Document) -> str:
    """The document as Markdown; figures as links to their files."""
    summary, card = document.summary, document.card
    lines = [f"# {_plain(summary.title)}", "", *(f"- {_plain(line)}" for line in document.understood)]
    lines += [""] * bool(document.understood)
    lines += [f"**{_plain(summary.verdict)}**", ""] * bool(summary.verdict)
    if card:
        lines += [f"- {_plain(name)}: {_plain(value)}" for name, value in card.numbers] + [""] * bool(card.numbers)
        lines += [text for figure in [card.figure] if figure for text in (_link(figure), "")]
        lines += _apart([card.sentence])
    lines += _apart(document.lead)
    for section in document.sections:
        lines += _section_lines(section, 2)
    lines += [text for line in summary.warnings for text in (f"> **Take care.** {_plain(line)}", "")]
    return "\n".join(lines).rstrip() + "\n"


def _apart(lines: Iterable[str]) -> Iterator[str]:
    """Paragraphs, with a blank line after each."""
    yield from (text for line in lines if line for text in (_plain(line), ""))


def _section_lines(section: Section, depth: int) -> Iterator[str]:
    yield from ("#" * depth + " " + _plain(section.title), "")
    yield from _apart([section.finding, *section.paragraphs])
    for table in section.tables:
        yield from _apart([table.title])
        yield "| " + " | ".join(_plain(column.head) for column in table.typed) + " |"
        yield "|" + "|".join("---" if column.kind in WORDS else "---:" for column in table.typed) + "|"
        yield from ("| " + " | ".join(map(_plain, row)) + " |" for row in table.texts)
        yield ""
        yield from _apart(table.notes)
    yield from (text for figure in section.figures for text in (_link(figure), ""))
    yield from _apart(section.notes)
    for part in section.parts:
        yield from _section_lines(part, depth + 1)


def _link(figure: Figure) -> str:
    """Markdown image of a figure's file, with its caption."""
    return f"![{_plain(figure.caption)}]({figure.name}.svg)"


def _plain(text: str) -> str:
    """Text on one line, with the characters of Markdown's markup escaped."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(printable(text).split()))


def to_csv(table: Table) -> str:
    """CSV of a table with unrounded numbers: two columns for an interval, and a further one for standard errors."""
    intervals = [column.kind.endswith("interval") for column in table.typed]
    errors = [any(isinstance(row[i], Measured) and row[i].error for row in table.rows) for i in range(len(table.typed))]
    heads: list[str] = []
    for column, ends, spread in zip(table.typed, intervals, errors, strict=True):
        heads += [f"{column.head}, lower", f"{column.head}, upper"] if ends else [column.head]
        heads += [f"{column.head}, standard error"] * spread
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_inert, heads))
    for row in table.rows:
        cells: list[Any] = []
        for cell, ends, spread in zip(row, intervals, errors, strict=True):
            value = cell.value if isinstance(cell, Measured) else cell
            cells += (list(value) if isinstance(value, tuple) else [value, value]) if ends else [value]
            cells += [cell.error if isinstance(cell, Measured) else None] * spread
        writer.writerow(map(_inert, cells))
    return buffer.getvalue()


def to_workbook(tables: Mapping[str, Table]) -> bytes:
    """Excel file of tables, a sheet each, with unrounded numbers and no cell that is read as a formula.

    Parameters
    ----------
    tables : by name of the sheet

    Raises
    ------
    ImportError : openpyxl is not installed
    """
    import pandas as pd

    buffer = BytesIO()
    with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
        for name, table in tables.items():
            words = {one.head: str for one in table.typed if one.kind in WORDS}
            frame = pd.read_csv(StringIO(to_csv(table)), dtype=words, keep_default_na=False)
            frame.to_excel(writer, sheet_name=name[:31], index=False)
    return buffer.getvalue()


def _inert(cell: Any) -> Any:
    """Cell that spreadsheets do not read as a formula: an apostrophe before such text, "" for None."""
    if not isinstance(cell, str):
        return "" if cell is None else cell
    text = printable(cell)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text


def to_html(document: Document) -> str:
    """HTML page of a document: all values are escaped and made printable, and an undefined one is an error."""
    folder = Path(__file__).parent / "templates"
    made = environment(folder, autoescape=True, finalize=_finalize, trim_blocks=True).get_template("document.html.j2")
    return printable(made.render(document=document, words=WORDS, inline=inline, coded=_coded))


def inline(figure: Figure) -> str:
    """SVG of a figure for a wide page and for a phone, of which CSS shows one; "" if it could not be drawn."""
    from markupsafe import Markup

    made = {"column": figure.svg, "phone": figure.phone_svg}
    drawn = {size: inline_svg(svg, f"{figure.name}-{size}") for size, svg in made.items() if isinstance(svg, bytes)}
    return Markup("".join(f'<div class="{size}">{svg}</div>' for size, svg in drawn.items()))


def _coded(text: str) -> Any:
    """A text for a page, escaped, in which names between backticks are code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(printable(text)))))


def _finalize(value: Any) -> Any:
    """Printable form of a value put into a page; the output of macros stays as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
