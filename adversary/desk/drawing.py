"""The look of every figure: colours, style, and labels that stand beside what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, NullFormatter

from adversary.desk.safe_text import printable

BLUE, GREY, LIGHT, INK = "#0072B2", "#777777", "#DDE3E8", "#222222"
COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#A6761D", "#56B4E9", "#5B4B9E")
"""For readers: after Okabe and Ito, distinct to every common form of colour blindness."""
BOUND_COLOURS = ("#D55E00", "#CC79A7", "#A6761D", "#009E73", "#5B4B9E", INK)

STYLE: Any = {
    "font.size": 10.5,
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
    "svg.hashsalt": "adversary",
}


def styled(function: Callable[..., Figure]) -> Callable[..., Figure]:
    """A figure function drawn in the house style, whatever style is set outside, its texts safe to show."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Figure:
        with mpl.rc_context(STYLE):
            figure = function(*args, **kwargs)
            _make_printable(figure)
            return figure

    return wrapped


def _make_printable(figure: Figure) -> None:
    """Texts, and the names that marks bear in an SVG, without control characters."""
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            named = axis.get_major_formatter()
            if isinstance(named, FuncFormatter):  # also of ticks that have names
                named.func = partial(_printable_tick, named.func)
    for one in figure.findobj():
        if isinstance(one, Text) and not one.get_text().isprintable():
            one.set_text(printable(one.get_text()))
        if isinstance(name := one.get_gid(), str):
            one.set_gid(printable(name))


def _printable_tick(text: Callable[[float, Any], str], value: float, place: Any) -> str:
    return printable(text(value, place))


def edge_labels(ax: Axes, labels: list[tuple[float, str, str]], x: float, *, offset: float) -> None:
    """Labels of curves at one edge of the axes, pushed apart where they would overlap, with a line to their curve."""
    height = float(ax.figure.get_size_inches()[1]) * 72.0 * 0.72  # type: ignore[union-attr]
    scale = ax.transAxes.inverted()
    low, high = sorted(ax.get_ylim())
    ends = [float(scale.transform(ax.transData.transform((x, min(max(y, low), high))))[1]) for y, _, _ in labels]
    sizes = [12.5 * (text.count("\n") + 1) / height for _, text, _ in labels]
    for i, place in enumerate(apart(ends, sizes)):
        _, text, colour = labels[i]
        edge = 1.0 if offset > 0 else 0.0
        moved = abs(place - ends[i]) > 0.012
        ax.annotate(
            text, (edge, ends[i]), xycoords="axes fraction",
            xytext=(offset + (8.0 if offset > 0 else -8.0) * moved, (place - ends[i]) * height),
            textcoords="offset points", va="center", ha="left" if offset > 0 else "right",
            color=colour, fontsize=9.5, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.7, "shrinkA": 1, "shrinkB": 0} if moved else None,
        )  # fmt: skip


def apart(places: Sequence[float], sizes: Sequence[float]) -> list[float]:
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


def plain_log_axis(ax: Axes, which: str, text: Callable[[float], str]) -> None:
    """Ticks of a log axis as plain numbers, at 1, 2 and 5 where the axis is short."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    decades = np.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades < 2.6 else (1.0,)
    ticks = [m * 10.0**e for e in range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1) for m in steps]
    axis.set_ticks([tick for tick in ticks if low * 0.999 <= tick <= high * 1.001])
    axis.set_major_formatter(FuncFormatter(lambda v, _: text(v)))
    axis.set_minor_formatter(NullFormatter())
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)


def finding(figure: Figure, text: str) -> None:
    """The figure's title: what it shows, as a sentence."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=12.0, fontweight="bold")


def panel_title(ax: Axes, text: str) -> None:
    """A quieter title for one of several axes."""
    ax.set_title(text, fontsize=10.5, fontweight="normal")
