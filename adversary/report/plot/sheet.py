"""Style sheet of all figures: colours, sizes, fonts, title, subtitle, note and alternative text.

Lengths are CSS pixels; a figure is drawn at the size at which it is shown, 100 pixels an inch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from adversary.report.kit.figure_files import LIGHT, OFFSCREEN, SIZE, SVG
from adversary.report.kit.figure_files import alt_text as alt_text
from adversary.report.kit.figure_files import figure_of as figure_of
from adversary.report.kit.safe_text import printable

PALETTE = LIGHT
INK, QUIET, LINE, IMPOSSIBLE, AFTER, FINDING, THIRD, FOURTH, PAPER = PALETTE.values()

# Colours of lines of one kind, in this order; a fifth is grey.
COLOURS = (AFTER, FINDING, THIRD, FOURTH, QUIET)


class Size(NamedTuple):
    """Size of figures for one width of the page, in pixels.

    Parameters
    ----------
    width, height : of a figure with one panel
    pair : height of a figure with two panels, which are one above the other if `stacked`
    title, subtitle, label : height of letters
    line, dot : width of lines, diameter of dots
    least : smallest height of the axes with their labels
    """

    width: float
    height: float
    pair: float
    stacked: bool
    title: float
    subtitle: float
    label: float
    line: float
    dot: float
    least: float


SIZES = {
    "phone": Size(358, 280, 520, True, 16, 13, 12, 1.6, 6, 225),
    "column": Size(720, 400, 360, False, 18, 14, 13, 2.0, 7, 270),
    "wide": Size(1060, 520, 420, False, 22, 16, 13, 2.0, 8, 360),
}
MARGIN = 14.0

# Height of the letters of a note.
NOTE = 12.0

# Share of the width that a line of text may take: letters of SVG and PNG differ by a percent or two.
ROOM = 0.96

# Height of a row of a figure with rows.
PITCH = 34.0

# Pixels in an inch.
INCH = 100.0

# Points in a pixel: 72 points are an inch.
POINT = 0.72

# Array of several axes.
Panels = NDArray[Any]


def size() -> Size:
    """Size at which figures are drawn at present."""
    return SIZES[SIZE.get()]


def settings() -> Any:
    """Matplotlib's settings at the present size."""
    one = size()
    label = POINT * one.label
    return {
        "figure.figsize": (one.width / INCH, one.height / INCH),
        "figure.dpi": INCH,
        # other libraries set "tight" when they are imported, which cuts titles off
        "savefig.bbox": "standard",
        "figure.constrained_layout.use": True,
        "figure.max_open_warning": 0,
        "figure.facecolor": PAPER,
        "font.family": ["DejaVu Sans"],
        "font.size": label,
        "text.hinting": "none",
        "text.parse_math": False,
        "text.color": INK,
        "axes.facecolor": "none",
        "axes.edgecolor": LINE,
        "axes.linewidth": POINT,
        "axes.labelcolor": INK,
        "axes.labelsize": label,
        "axes.titlesize": POINT * one.subtitle,
        "axes.titleweight": "normal",
        "axes.titlecolor": QUIET,
        "axes.titlelocation": "left",
        "axes.titlepad": 8.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.axisbelow": True,
        "xtick.color": LINE,
        "ytick.color": LINE,
        "xtick.labelcolor": QUIET,
        "ytick.labelcolor": QUIET,
        "xtick.labelsize": label,
        "ytick.labelsize": label,
        "xtick.major.width": POINT,
        "ytick.major.width": POINT,
        "lines.linewidth": POINT * one.line,
        "lines.markersize": POINT * one.dot,
        "legend.frameon": False,
        "legend.fontsize": label,
        **SVG,
    }


def style(size: str = "column") -> ExitStack:
    """Set the style sheet of every figure here: `adv.plot.style()` for good, `with adv.plot.style():` for a block.

    Figures of `adversary.plot` have it in any case; this sets it for those drawn by hand as well. In a notebook,
    outputs are sharp on fine screens, are not cropped, and carry their alternative text.

    Parameters
    ----------
    size : what figures are drawn for: "phone" (358 pixels wide), "column" (720) or "wide" (1,060)

    Returns
    -------
    ExitStack : restores the former settings when a `with` block ends.

    Raises
    ------
    ValueError : another size

    >>> import matplotlib as mpl
    >>> with style():
    ...     [float(side) for side in mpl.rcParams["figure.figsize"]], mpl.rcParams["figure.dpi"]
    ([7.2, 4.0], 100.0)
    """
    if size not in SIZES:
        raise ValueError(f"size must be one of {[*SIZES]}, got {size!r}")
    undo, before = ExitStack(), SIZE.set(size)
    undo.callback(dict.update, mpl.rcParams, dict(mpl.rcParams))
    undo.callback(SIZE.reset, before)
    mpl.rcParams.update(settings())
    if "IPython" in sys.modules and "inline" in str(mpl.get_backend(auto_select=False)):
        _set_notebook()
    return undo


def _set_notebook() -> None:
    """Make outputs of a notebook sharp and uncropped, with the alternative text as their plain text."""
    from IPython import get_ipython
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    shell: Any = get_ipython()
    if shell is not None:
        set_matplotlib_formats("retina", bbox_inches=None)  # type: ignore[no-untyped-call]
        plain = shell.display_formatter.formatters["text/plain"]
        plain.for_type(Figure, lambda figure, printer, _: printer.text(alt_text(figure) or repr(figure)))


def house_style[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Decorator of a figure function: it draws in this style sheet, whatever is set outside, with printable texts."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(settings()):
            axes = function(*args, **kwargs)
            _make_printable(figure_of(axes))
            return axes

    return wrapped


def _make_printable(figure: Figure) -> None:
    """Remove control characters from all texts of a figure, and from the ids of marks in its SVG."""
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            named = axis.get_major_formatter()
            # ticks with names have such a formatter too
            if isinstance(named, FuncFormatter):
                named.func = partial(lambda text, *at: printable(str(text(*at))), named.func)
    parts = [part for ax in figure.axes for part in ax.get_children() if not isinstance(part, Axis)]
    labels = [axis.label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    every = (inner for part in (*parts, *figure.legends) for inner in part.findobj())
    for one in (*figure.texts, *labels, *every):
        if isinstance(one, Text) and not one.get_text().isprintable():
            one.set_text(printable(one.get_text()))
        if isinstance(name := one.get_gid(), str):
            one.set_gid(printable(name))


def panel(ax: Axes | None, height: float | None = None) -> Axes:
    """Axes to draw on: the given one, or that of a new figure.

    Parameters
    ----------
    ax : given by the user, or None
    height : of the figure, in pixels; the size's own if not given
    """
    return ax if ax is not None else _new_figure(height or size().height).subplots()


def panels(count: int, height: float | None = None, *, stacked: bool | None = None, **how: Any) -> Panels:
    """Axes of a new figure with several panels, side by side, or one above the other on a phone.

    Parameters
    ----------
    count : number of axes
    height : of the figure, in pixels; the size's own if not given
    stacked : one above the other at any size
    how : further arguments of `Figure.subplots`
    """
    one = size()
    upright = one.stacked if stacked is None else stacked
    tall = (
        (one.height if count == 1 else one.pair / 2 * count if one.stacked else one.pair) if height is None else height
    )
    return np.ravel(_new_figure(tall).subplots(*((count, 1) if upright else (1, count)), **how))


def grid(count: int, columns: int, height: float) -> Panels:
    """Axes of a new figure with many small panels: `columns` in a row (two on a phone), each of a height in pixels."""
    columns = min(columns, 2) if size().stacked else columns
    rows = -(-count // columns)
    axes = np.ravel(_new_figure(height * rows + 90.0).subplots(rows, columns))
    for ax in axes[count:]:
        ax.remove()
    return axes[:count]


def _new_figure(height: float) -> Figure:
    """New figure of a height in pixels, shown by pyplot unless it is drawn for a page."""
    how: Any = {"figsize": (size().width / INCH, height / INCH), "layout": "constrained"}
    if OFFSCREEN.get():
        return Figure(**how)
    import matplotlib.pyplot as plt

    return plt.figure(**how)


def headline(
    axes: Any, title: str, subtitle: str = "", note: str = "", shape: str = "", *, body: float | None = None
) -> None:
    """Write a figure's title, subtitle, note and alternative text, and fit its height to them.

    If the axes are one of several panels, only the title is written. Call it after `key` and before `label_ends`.

    Parameters
    ----------
    axes : of the figure, one or several
    title : the finding, a sentence with at most two numbers
    subtitle : one line in a quiet colour: who, truth, average of what
    note : source and caveats, one line below the axes
    shape : a sentence on what can be seen; with the title it is the alternative text
    body : height of the axes with their labels, in pixels; if not given, the figure keeps its height where it can

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> headline(ax, "the cost rises with the count", shape="A line from 1 to 9.")
    >>> alt_text(ax)
    'The cost rises with the count. A line from 1 to 9.'
    """
    figure, text = figure_of(axes), printable(title[:1].upper() + title[1:])
    _make_printable(figure)
    figure.set_label(f"{' '.join(text.split()).rstrip('.')}. {printable(shape)}".strip())
    if not _is_whole(figure, axes):
        one: Axes = np.ravel(axes)[0]
        one.set_title(text, color=INK, fontweight="bold")
        return
    for old in [part for part in figure.texts if part.get_gid() in ("subtitle", "note")]:
        old.remove()
    # a figure that is saved with bbox_inches="tight" keeps its title and its note
    figure.patch.set_in_layout(True)
    width, how = float(figure.bbox.width), size()
    room = ROOM * (width - 2.0 * MARGIN)
    if how.stacked:
        _lay_labels(axes)
    top = MARGIN
    made = figure.suptitle(text, x=MARGIN / width, y=1.0, ha="left", va="top", fontsize=POINT * how.title, color=INK)
    made.set(fontweight="bold", in_layout=False, linespacing=1.15)
    places: list[tuple[Any, float]] = [(made, top)]
    top += _fit_title(made, room)
    if subtitle:
        below = _text(figure, subtitle, how.subtitle, "subtitle", va="top")
        places.append((below, top + 5.0))
        top += 5.0 + _wrap(below, room)
    foot = MARGIN
    if note:
        last = _text(figure, note, NOTE, "note", va="bottom")
        places.append((last, -foot))
        foot += _wrap(last, room) + 8.0
    for legend in figure.legends:
        legend.set_in_layout(False)
        legend.set_bbox_to_anchor((MARGIN / width, foot))
        places.append((legend, -foot))
        foot += float(legend.get_window_extent().height) + 6.0
    top += 10.0
    height = top + foot + body if body else max(float(figure.bbox.height), top + foot + how.least)
    figure.set_figheight(height / figure.dpi)
    for part, y in places:
        at = 1.0 - y / height if y > 0 else -y / height
        if isinstance(part, Text):
            part.set_y(at)
        else:
            part.set_bbox_to_anchor((MARGIN / width, at), transform=figure.transFigure)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    engine: Any = figure.get_layout_engine()
    across = 1.0 - 2.0 * MARGIN / width
    engine.set(rect=(MARGIN / width, foot / height, across, 1.0 - (top + foot) / height), w_pad=0.02, h_pad=0.02)


def cell(column: int, row: int, colour: str, opacity: float, gid: str) -> Rectangle:
    """Square of a map at a column and row, with a gap around it."""
    return Rectangle((column + 0.02, row + 0.04), 0.96, 0.92, color=colour, alpha=opacity, lw=0, gid=gid)


def _is_whole(figure: Figure, axes: Any) -> bool:
    """True if these axes are all panels of a figure, apart from twins and colour bars."""
    places = [one.get_subplotspec() for one in figure.axes]
    return len({id(place) for place in places if place is not None}) <= np.size(axes)


def _lay_labels(axes: Any) -> None:
    """Move labels of vertical axes above the axes, as there is no room beside them on a phone."""
    for one in np.ravel(axes):
        over, label = one.get_title(loc="left"), one.get_ylabel()
        place = one.get_subplotspec()
        columns = place.get_gridspec().ncols if place else 1
        one.set_ylabel("")
        text = over if label in over else f"{over}{': ' * bool(over)}{label}"
        if label or (over and columns > 1):
            one.set_title(fill(text, 46 if columns == 1 else 40 // columns), color=QUIET, fontsize=POINT * NOTE)


def _text(figure: Figure, text: str, letters: float, gid: str, **how: Any) -> Text:
    """Text of a figure in the quiet colour at its left margin, of a height of letters in pixels."""
    made = figure.text(MARGIN / float(figure.bbox.width), 0.0, printable(text), ha="left", color=QUIET, **how)
    made.set(fontsize=POINT * letters, in_layout=False, gid=gid, linespacing=1.2)
    return made


def _fit_title(made: Text, room: float) -> float:
    """Break a title into lines, with letters up to a tenth smaller if that saves one; return its height in pixels."""
    text, points = made.get_text(), float(made.get_fontsize())
    heights = {}
    for share in (1.0, 0.95, 0.9):
        made.set(text=text, fontsize=share * points)
        _wrap(made, room)
        heights[share] = made.get_text().count("\n")
    best = min(heights, key=lambda share: (heights[share], -share))
    made.set(text=text, fontsize=best * points)
    return _wrap(made, room)


def _wrap(made: Text, room: float) -> float:
    """Break a text into lines that fit a width; return its height in pixels."""
    lines = made.get_text().split("\n")
    letters = max(map(len, lines))
    while (wide := float(made.get_window_extent().width)) > room and letters > 1:
        letters = min(letters - 1, int(letters * room / wide) + 1)
        made.set_text("\n".join(fill(line, letters) for line in lines))
    return float(made.get_window_extent().height)
