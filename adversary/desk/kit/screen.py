"""What every command prints with: tables for the screen, and numbers as JSON can hold them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from adversary._core import PERCENT, outward
from adversary._core import between as bounded
from adversary.desk.kit.safe_text import printable

WIDTH = 120
"""Of what is not printed on a terminal."""


class Screen(Console):
    """A console on which texts of other people move no cursor and turn no line."""

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Every piece of text, as it is about to be written."""
        for text, style, control in super().render(renderable, options):
            yield Segment(printable(text), style, control)


def console() -> Console:
    """Standard output, as wide as the terminal."""
    return Screen(width=None if sys.stdout.isatty() else WIDTH)


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


def json_text(answer: Any) -> str:
    """One JSON object, without NaN or infinity."""
    return json.dumps(answer, indent=2, allow_nan=False)


def above(x: float | None, digits: int = 4) -> str:
    """An upper end, rounded up; None is no limit."""
    return outward(math.inf if x is None else x, True, digits)


def share_above(x: float | None, digits: int = 4) -> str:
    """A probability that is an upper end, in percent and rounded up."""
    return above(None if x is None else 100.0 * x, digits) + PERCENT


def between(ends: Sequence[float | None], unit: float = 1.0) -> str:
    """An interval, rounded outward."""
    low, high = (math.inf if end is None else unit * end for end in ends)
    return bounded(low, high)


def points(ends: Sequence[float | None]) -> str:
    """An interval of differences in percentage points; what is only rounding error of a subtraction is 0."""
    return between([None if end is None else end * (abs(end) > 1e-15) for end in ends], 100.0)
