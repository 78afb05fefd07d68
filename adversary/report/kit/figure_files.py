"""SVG files of matplotlib figures: the size they are drawn at, their alternative text, and their colours by theme.

Figures are drawn in the light colours. In a page every colour is a variable with the light one as its default, so that
one drawing serves a light and a dark page; a dark file has the dark colours themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

from adversary.report.kit.safe_text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours by role, in either mode. ink: text, bounds and priors; quiet: text of less weight; line: spines and bars;
# impossible: impossible values; after: posteriors; finding: the subject of the title, or the compared case; third and
# fourth: further cases; paper: the background.
LIGHT = {
    "ink": "#1F2933", "quiet": "#5F6B7A", "line": "#D5DBE1", "impossible": "#E9EDF1",
    "after": "#0072B2", "finding": "#B8470B", "third": "#1A6941", "fourth": "#7D3866", "paper": "#FFFFFF",
}  # fmt: skip
DARK = {
    "ink": "#E6EAF0", "quiet": "#A3AEBB", "line": "#36404C", "impossible": "#232A33",
    "after": "#5BB0E8", "finding": "#FF8A4C", "third": "#54BA98", "fourth": "#CF5DBC", "paper": "#14181E",
}  # fmt: skip

# Fonts of an SVG. Layout is measured with DejaVu Sans, the widest of them, so that text fits in every one.
FAMILY = "Inter, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

# True while figures are drawn for a page: pyplot then neither shows nor holds them.
OFFSCREEN: ContextVar[bool] = ContextVar("offscreen", default=False)

# Width that figures are drawn for: "phone", "column" or "wide".
SIZE: ContextVar[str] = ContextVar("size", default="column")

# Settings of matplotlib's SVG: letters as text, not as paths, and the same bytes for the same figure.
SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "adversary"}


@contextmanager
def offscreen(size: str = "column") -> Iterator[None]:
    """Context in which figures are drawn at one size and for a file alone: pyplot neither shows nor holds them."""
    hidden, width = OFFSCREEN.set(True), SIZE.set(size)
    try:
        yield
    finally:
        SIZE.reset(width)
        OFFSCREEN.reset(hidden)


def figure_of(axes: Any) -> Figure:
    """Matplotlib figure of axes.

    Parameters
    ----------
    axes : axes, an array of them, or the figure itself
    """
    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

    first = axes if isinstance(axes, Artist) else np.ravel(axes)[0]
    figure = first if isinstance(first, Figure) else first.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def alt_text(axes: Any) -> str:
    """Alternative text of a figure: its title and a sentence on its shape, or "" where nothing has set one.

    Parameters
    ----------
    axes : of the figure, or itself
    """
    return str(figure_of(axes).get_label())


def to_svg(axes: Any, mode: str = "light", alt: str = "") -> bytes:
    """SVG of a figure with its alternative text, the same bytes for the same figure.

    Parameters
    ----------
    axes : of the figure, or itself
    mode : "light"; "dark"; or "page", every colour a variable of the page with the light one as its default
    alt : alternative text of a figure that has none

    Returns
    -------
    bytes : a file, as wide as it was drawn, in CSS pixels.

    Raises
    ------
    ValueError : another mode

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> _ = figure.text(0.5, 0.5, "x", color=LIGHT["after"])
    >>> b"var(--after, #0072B2)" in to_svg(figure, "page"), b"#5BB0E8" in to_svg(figure, "dark")
    (True, True)
    """
    import matplotlib as mpl

    if mode not in ("light", "dark", "page"):
        raise ValueError(f'mode must be "light", "dark" or "page", got {mode!r}')
    figure, buffer = figure_of(axes), BytesIO()
    with mpl.rc_context(SVG):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, facecolor="none" if mode == "page" else "auto")
    text = printable(buffer.getvalue().decode()).replace("'DejaVu Sans'", FAMILY)
    width, height = (100.0 * float(side) for side in figure.get_size_inches())
    label = escape(printable(alt_text(figure) or alt))
    text = re.sub(r'(<svg [^>]*?)height="[^"]*"', rf'\1height="{height:.0f}"', text, count=1)
    text = re.sub(
        r'(<svg [^>]*?)width="[^"]*"', rf'\1role="img" aria-label="{label}" width="{width:.0f}"', text, count=1
    )
    return _coloured(text, mode).encode()


def _coloured(text: str, mode: str) -> str:
    """Text of an SVG with the light colours replaced by those of a mode."""
    if mode == "light":
        return text
    colours = {
        light.lower(): DARK[role] if mode == "dark" else f"var(--{role}, {light})" for role, light in LIGHT.items()
    }
    return re.sub("|".join(colours), lambda match: colours[match[0]], text)


def inline_svg(svg: bytes, name: str) -> str:
    """SVG element to put into a page: without declaration and metadata, and with ids that are unique on the page.

    Parameters
    ----------
    svg : the file
    name : prefix of the ids that are referred to; other ids are removed

    >>> inline_svg(b'<?xml version="1.0"?><svg><g id="a"/><g id="b c"/><use xlink:href="#a"/></svg>', "no. 1")
    '<svg><g id="no-1-a"/><g/><use xlink:href="#no-1-a"/></svg>'
    """
    text, start = svg.decode(), re.sub(r"\W+", "-", name)
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda match: f' id="{start}-{match[1]}"' if match[1] in used else "", text)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\1{start}-", text).strip()
