"""The look of every figure: colours, style, marks, titles, and labels that stand beside what they name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from itertools import cycle
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from adversary._core import as_given, percent
from adversary.report.kit.figure_files import OFFSCREEN, SVG
from adversary.report.kit.figure_files import alt_text as alt_text
from adversary.report.kit.figure_files import figure_of as figure_of
from adversary.report.kit.safe_text import printable

PALETTE = {
    "ink": "#1F2933", "quiet": "#5F6B7A", "line": "#D5DBE1", "impossible": "#E9EDF1",
    "after": "#0072B2", "finding": "#B8470B", "third": "#1A6941", "fourth": "#7D3866",
}  # fmt: skip
"""Colours by role: text, bounds and what was before; quieter text; spines and bars; what cannot be; the adversary after
the release; what the title speaks of, or what is compared; a third and a fourth thing."""
INK, GREY, LIGHT, BLUE, ORANGE = (PALETTE[role] for role in ("ink", "quiet", "line", "after", "finding"))
COLOURS = (BLUE, ORANGE, PALETTE["third"], PALETTE["fourth"], GREY)
BOUND_COLOURS = (ORANGE, PALETTE["third"], PALETTE["fourth"], GREY, INK)

STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10.5,
    "text.hinting": "none",
    "axes.titlesize": 12.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2.0,
    "text.parse_math": False,
    **SVG,
    "figure.max_open_warning": 0,
    "axes.prop_cycle": cycler(color=COLOURS),
}


ROOM = 0.96
"""Share of a figure's width that a line of its title may take; fonts of SVG and PNG differ by a percent or two."""


LETTER, LINE = 6.6, 13.0
"""Points that a letter and a line of a tick label take, with a gap."""


Panels = NDArray[Any]
"""Several axes, in a row."""


def style() -> ExitStack:
    """Set the style sheet of every figure here: `adv.plot.style()` for good, `with adv.plot.style():` for a block.

    Figures of `adversary.plot` have it in any case; this sets it for those drawn by hand as well. In a notebook,
    outputs are sharp on fine screens, are not cropped, and carry their alternative text.

    Returns
    -------
    ExitStack : restores the former settings when a `with` block ends.

    >>> import matplotlib as mpl
    >>> with style():
    ...     [float(side) for side in mpl.rcParams["figure.figsize"]], mpl.rcParams["figure.dpi"]
    ([7.2, 4.0], 100.0)
    """
    undo = ExitStack()
    undo.callback(dict.update, mpl.rcParams, dict(mpl.rcParams))
    mpl.rcParams.update({**STYLE, "figure.figsize": (7.2, 4.0), "figure.dpi": 100.0})
    if "matplotlib_inline" in sys.modules and "IPython" in sys.modules:
        _set_notebook()
    return undo


def _set_notebook() -> None:
    """Outputs of a notebook: sharp, whole, and with the alternative text as their plain text."""
    from IPython import get_ipython
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    shell: Any = get_ipython()
    if shell is not None:
        set_matplotlib_formats("retina", bbox_inches=None)  # type: ignore[no-untyped-call]
        plain = shell.display_formatter.formatters["text/plain"]
        plain.for_type(Figure, lambda figure, printer, _: printer.text(alt_text(figure)))


def house_style[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """A figure function drawn in the house style, whatever style is set outside, its texts safe to show."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(STYLE):
            axes = function(*args, **kwargs)
            _make_printable(figure_of(axes))
            return axes

    return wrapped


def _make_printable(figure: Figure) -> None:
    """Texts, and the names that marks bear in an SVG, without control characters."""
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            named = axis.get_major_formatter()
            if isinstance(named, FuncFormatter):  # also of ticks that have names
                named.func = partial(lambda text, *at: printable(text(*at)), named.func)
    parts = [part for ax in figure.axes for part in ax.get_children() if not isinstance(part, Axis)]
    labels = [axis.label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    every = (inner for part in (*parts, *figure.legends) for inner in part.findobj())
    for one in (*figure.texts, *labels, *every):
        if isinstance(one, Text) and not one.get_text().isprintable():
            one.set_text(printable(one.get_text()))
        if isinstance(name := one.get_gid(), str):
            one.set_gid(printable(name))


def edge_labels(ax: Axes, labels: list[tuple[float, str, str]], x: float, *, offset: float) -> None:
    """Labels of curves at one edge of the axes, pushed apart where they would overlap, with a line to their curve."""
    height = float(ax.figure.get_size_inches()[1]) * 72.0 * 0.72  # type: ignore[union-attr]
    scale = ax.transAxes.inverted()
    low, high = sorted(ax.get_ylim())
    ends = [float(scale.transform(ax.transData.transform((x, min(max(y, low), high))))[1]) for y, _, _ in labels]
    sizes = [12.5 * (text.count("\n") + 1) / height for _, text, _ in labels]
    places = separate_labels(ends, sizes)
    moved = np.abs(np.subtract(places, ends)) > 0.012
    beside = offset + np.copysign(8.0, offset) * moved.any()  # of all, so that no line crosses another label
    line_of: dict[str, Any] = {"arrowstyle": "-", "lw": 0.7, "shrinkA": 1, "shrinkB": 0, "relpos": (offset < 0, 0.5)}
    for (_, text, colour), end, place, line in zip(labels, ends, places, moved, strict=True):
        ax.annotate(
            text, (1.0 if offset > 0 else 0.0, end), xycoords="axes fraction",
            xytext=(beside, (place - end) * height),
            textcoords="offset points", va="center", ha="left" if offset > 0 else "right",
            color=colour, fontsize=9.5, annotation_clip=False,
            arrowprops={"color": colour, **line_of} if line else None,
        )  # fmt: skip


def label_ends(ax: Axes, names: Mapping[str, str] | None = None) -> None:
    """Write the name of every line beside its right end, in its colour, pushed apart where names would overlap.

    Parameters
    ----------
    ax : with lines that have labels
    names : what to write instead, by label

    >>> from matplotlib.figure import Figure
    >>> ax = Figure(dpi=100).subplots()
    >>> _ = ax.plot([1, 2], [3, 4], label="rising")
    >>> label_ends(ax)
    >>> [text.get_text() for text in ax.texts]
    ['rising']
    """
    drawn = [one for one in ax.lines if not str(one.get_label()).startswith("_")]
    labels = []
    for one in drawn:
        label = str(one.get_label())
        ends = [float(y) for y in np.asarray(one.get_ydata(), dtype=float) if np.isfinite(y)]
        if ends:
            labels.append((ends[-1], (names or {}).get(label, label), to_hex(one.get_color())))
    edge_labels(ax, labels, ax.get_xlim()[1], offset=6.0)


def separate_labels(places: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Places moved as little as a few sweeps need so that no two labels overlap, in the same order."""
    order = np.argsort(places, kind="stable")
    place, size = np.array(places, dtype=float)[order], np.array(sizes, dtype=float)[order]
    for _ in range(200):
        overlap = (size[1:] + size[:-1]) / 2 - np.diff(place)
        if not (overlap > 1e-4).any():
            break
        push = np.maximum(overlap, 0.0) / 2
        place[:-1] -= push
        place[1:] += push
    result = np.empty_like(place)
    result[order] = place
    return [float(p) for p in result]


def plain_log_axis(ax: Axes, which: str, text: Callable[[float], str] = as_given) -> None:
    """Ticks of a log axis as plain numbers, at 1, 2 and 5 where the axis is short and has room for them."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    ends = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1
    dense: list[tuple[tuple[float, ...], int]] = [((1.0, 2.0, 5.0), 1)] * bool(high / low < 10.0**2.6)
    for steps, decades in (*dense, *(((1.0,), every) for every in (1, 2, 3, 5, 10, 20, 50, 100, 200))):
        ticks = [m * 10.0**e for e in range(*ends) if e % decades == 0 for m in steps]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if _legible(ax, which, np.log10(np.divide(ticks, low)) / np.log10(high / low), list(map(text, ticks))):
            break
    if len(ticks) < 2:  # an axis of less than a factor of two
        ticks = [tick for tick in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high]
    axis.set_ticks(ticks)
    axis.set_major_formatter(FuncFormatter(lambda v, _: text(v)))
    axis.set_minor_formatter(NullFormatter())
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)


def _legible(ax: Axes, which: str, places: Any, texts: Sequence[str]) -> bool:
    """True if tick labels at these shares of an axis do not overlap, with a margin for the layout."""
    assert isinstance(ax.figure, Figure)
    box = ax.get_position()
    across = which == "x"
    length = 72.0 * float(ax.figure.get_size_inches()[0 if across else 1]) * (box.width if across else box.height)
    sizes = np.array([LETTER * len(text) if across else LINE for text in texts])
    return bool((0.75 * length * np.diff(places) >= (sizes[1:] + sizes[:-1]) / 2.0).all())


def headline(axes: Any, title: str, subtitle: str = "", note: str = "", shape: str = "") -> None:
    """Write a figure's title, what stands below it and at its foot, and its alternative text.

    Parameters
    ----------
    axes : of the figure, one or several
    title : the finding, a sentence with at most two numbers
    subtitle : one line in a quiet colour: who, truth, average of what
    note : source and caveats, one line below the axes
    shape : a sentence on what can be seen; with the title it is the alternative text

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> headline(ax, "the cost rises with the count", shape="A line from 1 to 9.")
    >>> alt_text(ax)
    'The cost rises with the count. A line from 1 to 9.'
    """
    figure, text = figure_of(axes), printable(title[:1].upper() + title[1:])
    figure.set_label(f"{text.replace(chr(10), ' ').rstrip('.')}. {printable(shape)}".strip())
    first = np.ravel(axes)[0]
    if len(figure.axes) > np.size(axes) and figure.get_layout_engine() is None:
        first.set_title(text)
        return
    _suptitle(figure, text)
    if subtitle:
        first.set_title(printable(subtitle), color=GREY, fontsize=10.0, fontweight="normal")
    if note:
        figure.supxlabel(printable(note), x=0.01, ha="left", fontsize=8.6, color=GREY)


def title(axes: Any, text: str) -> None:
    """`headline` without more."""
    headline(axes, text)


def _suptitle(figure: Figure, text: str) -> None:
    """A title on as many lines as it needs."""
    made = figure.suptitle(text, x=0.01, ha="left", fontsize=12.0, fontweight="bold")
    room, letters = ROOM * figure.bbox.width, len(text)
    while (wide := made.get_window_extent().width) > room and letters > 1:
        letters = min(letters - 1, int(letters * room / wide) + 1)
        made.set_text(fill(text, letters))


def panel_title(ax: Axes, text: str) -> None:
    """A quieter title for one of several axes."""
    ax.set_title(text, fontsize=10.5, fontweight="normal")


BOUND: Any = (0, (5, 2))
"""Line style of what no mechanism exceeds."""
MARK: Any = (0, (4, 3))
"""Line style of a value to look for, such as the scenario's own."""


def panel(ax: Axes | None, width: float, height: float) -> Axes:
    """One axes of a new figure of so many inches; or the one that is given."""
    return ax if ax is not None else _new_figure(width, height).subplots()


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> Panels:
    """Axes of a new figure of so many inches, as of `Figure.subplots`."""
    return np.asarray(_new_figure(width, height).subplots(rows, columns, **how))


def _new_figure(width: float, height: float) -> Figure:
    """A figure that pyplot shows, but where a page is drawn."""
    size: Any = {"figsize": (width, height), "layout": "constrained"}
    if OFFSCREEN.get():
        return Figure(**size)
    import matplotlib.pyplot as plt

    return plt.figure(**size)


def coloured[T](items: Iterable[T], colours: Sequence[str] = COLOURS) -> Iterator[tuple[T, str]]:
    """Each of these with its colour; colours come again where there are more."""
    return zip(items, cycle(colours), strict=False)


def key(axes: Any, colours: Mapping[str, str], more: Iterable[Artist] = (), columns: int = 3) -> None:
    """Names of lines by their colours, and other marks, under the axes."""
    lines = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    figure_of(axes).legend(handles=[*lines, *more], loc="outside lower center", ncols=columns, frameon=False)


def in_percent(*axes: Axis) -> None:
    """Ticks in percent."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))


def probability_axis(ax: Axes, label: str, *, log: bool) -> None:
    """A vertical axis in percent, from 0 to 1 or, for small probabilities or such as lie far apart, on a log scale."""
    ax.set_ylabel(label)
    if log:
        ax.set_yscale("log")
        ax.set_ylim(top=min(1.0, ax.get_ylim()[1]))
        plain_log_axis(ax, "y", percent)
    else:
        ax.set_ylim(0.0, 1.0)
        in_percent(ax.yaxis)


def plain_and_log(least: tuple[float, float]) -> Panels:
    """Two axes of probabilities from 0 to 1, and on log scales from these ends on, which has room at its left."""
    axes = whole, small = panels(11.6, 4.9, 1, 2)
    whole.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    in_percent(whole.xaxis, whole.yaxis)
    small.set(xscale="log", yscale="log", xlim=(least[0], 1.0), ylim=(least[1], 1.0))
    for which in ("x", "y"):
        plain_log_axis(small, which, percent)
    ticks_right(small)
    return axes


def density_axis(ax: Axes) -> None:
    """A vertical axis without a scale, as densities need."""
    ax.set(yticks=[], ylabel="density")
    ax.spines["left"].set_visible(False)


def ticks_right(ax: Axes) -> None:
    """Vertical axis on the right, so that labels can stand at the left ends of curves."""
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)
