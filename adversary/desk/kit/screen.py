"""Tables for the screen of the commands that are no documents yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from adversary.desk.kit.rendering import console, json_text


def table(title: str, texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """An empty table with columns of words, then columns of numbers."""
    made = Table(title=Text(title), title_justify="left", title_style="", box=None, pad_edge=False, header_style="bold")
    for head in texts:
        made.add_column(Text(head))
    for head in numbers:
        made.add_column(Text(head), justify="right")
    return made


def add(to: Table, *cells: str) -> None:
    """A row of plain text: nothing in it is read as markup."""
    to.add_row(*map(Text, cells))


def put(made: Table, to: Console) -> None:
    """A table after a blank line and its title, which may be wider than the table."""
    to.print("", Text(str(made.title)), sep="\n")
    made.title = None
    to.print(made)


def show_warnings(lines: Sequence[str], to: Console) -> None:
    """What to know before the numbers are believed; last, where the eye ends."""
    for line in lines:
        to.print(Text(f"Take care. {line}", style="bold"))


def tell(answer: Any, show: Callable[[Any, Console], None], as_json: bool) -> None:
    """Print an answer: one JSON object, or its tables."""
    if as_json:
        print(json_text(answer))
    else:
        show(answer, console())
