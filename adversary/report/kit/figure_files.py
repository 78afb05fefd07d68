"""From a matplotlib figure to a file: whose figure it is, its alternative text, its SVG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING, Any

from adversary.report.kit.safe_text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFSCREEN: ContextVar[bool] = ContextVar("offscreen", default=False)
"""True while a page is drawn: its figures are no windows, and pyplot does not hold them."""

SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "adversary"}
"""Settings: letters stay letters, and the same figure is the same bytes."""


@contextmanager
def offscreen() -> Iterator[None]:
    """Figures for a file alone, which pyplot neither shows nor holds."""
    before = OFFSCREEN.set(True)
    try:
        yield
    finally:
        OFFSCREEN.reset(before)


def figure_of(axes: Any) -> Figure:
    """Figure of axes, of several of them, or itself.

    Parameters
    ----------
    axes : one, an array of them, or a figure
    """
    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

    first = axes if isinstance(axes, Artist) else np.ravel(axes)[0]
    found = first if isinstance(first, Figure) else first.get_figure(root=True)
    assert isinstance(found, Figure)
    return found


def alt_text(axes: Any) -> str:
    """Alternative text of a figure: its title and a sentence on its shape, or "" where nothing has set one.

    Parameters
    ----------
    axes : of the figure, or itself
    """
    return str(figure_of(axes).get_label())


def to_svg(axes: Any) -> bytes:
    """SVG of a figure, the same bytes for the same figure.

    Parameters
    ----------
    axes : of the figure, or itself
    """
    import matplotlib as mpl

    buffer = BytesIO()
    with mpl.rc_context(SVG):
        figure_of(axes).savefig(buffer, format="svg", metadata={"Date": None})
    return printable(buffer.getvalue().decode()).encode()
