"""Marks and texts inside axes: labels at the ends of curves, ticks as plain numbers, keys, named rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from adversary._core import as_given, logit, percent
from adversary.report.plot import sheet

# Line style of bounds.
BOUND: Any = (0, (5, 2))
BOUND_WIDTH = 1.4

# Line style of a marked value, such as the scenario's own.
MARK: Any = (0, (4, 3))

# Opacities of the 90 % and the 50 % interval over releases.
BAND, CORE = 0.18, 0.38

# Height of a line of a tick label with a gap, in points.
LINE = 13.0

# Probabilities that may be ticks of an axis of log odds.
ODDS_TICKS = (1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)

Label = tuple[float, str, str]


def label_ends(ax: Axes, names: Mapping[str, str] | None = None) -> None:
    """Write the name of every line beside its right end, in its colour, pushed apart where names would overlap.

    Call it last, after `headline`.

    Parameters
    ----------
    ax : with lines that have labels
    names : what to write instead, by label

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> _ = ax.plot([1, 2], [3, 4], label="rising")
    >>> label_ends(ax)
    >>> [text.get_text() for text in ax.texts]
    ['rising']
    """
    labels = []
    for one in ax.lines:
        label = str(one.get_label())
        ends = [float(y) for y in np.asarray(one.get_ydata(), dtype=float) if np.isfinite(y)]
        if ends and not label.startswith("_"):
            labels.append((ends[-1], (names or {}).get(label, label), to_hex(one.get_color())))
    edge_labels(ax, labels)


def edge_labels(ax: Axes, labels: Sequence[Label], *, left: bool = False, width: int = 0) -> None:
    """Write labels of curves at one edge of the axes, pushed apart where they would overlap, with lines to the curves.

    Parameters
    ----------
    ax : with its limits and its title set
    labels : height in data, text and colour of each
    left : at the left edge
    width : letters of a line of a label; by the width of the figure if not given
    """
    if not labels:
        return
    letters = width or (15 if sheet.size().stacked else 30)
    texts = [fill(text, letters) if "\n" not in text else text for _, text, _ in labels]
    settle(ax)
    height = float(ax.get_window_extent().height) * sheet.POINT
    points = sheet.POINT * sheet.size().label
    low, high = sorted(ax.get_ylim())
    x = ax.get_xlim()[0 if left else 1]
    scale = ax.transData + ax.transAxes.inverted()
    ends = [float(scale.transform((x, min(max(y, low), high)))[1]) for y, _, _ in labels]
    sizes = [1.28 * points * (text.count("\n") + 1) / height for text in texts]
    places = separate_labels(ends, sizes, 1.28 * points / height / 2.0)
    moved = np.abs(np.subtract(places, ends)) > 0.6 * points / height
    sign = -1.0 if left else 1.0
    # the same for all labels, so that no line crosses another label
    beside = sign * (5.0 + 9.0 * moved.any())
    line_of: dict[str, Any] = {"arrowstyle": "-", "lw": 0.7, "shrinkA": 1, "shrinkB": 0, "relpos": (float(left), 0.5)}
    for (_, _, colour), text, end, place, line in zip(labels, texts, ends, places, moved, strict=True):
        ax.annotate(
            text, (0.0 if left else 1.0, end), xycoords="axes fraction", xytext=(beside, (place - end) * height),
            textcoords="offset points", va="center", ha="right" if left else "left", color=colour, fontsize=points,
            linespacing=1.1, annotation_clip=False, arrowprops={"color": colour, **line_of} if line else None,
        )  # fmt: skip


def settle(ax: Axes) -> None:
    """Lay out the figure, so that the axes have their final place and texts can be measured."""
    figure = sheet.figure_of(ax)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()


def separate_labels(places: Sequence[float], sizes: Sequence[float], over: float = np.inf) -> list[float]:
    """Places of labels of given sizes, pushed apart until none overlap, in the same order.

    Labels are parts of an axis from 0 to 1; none reaches further than `over` beyond its ends, where all have room.
    """
    order = np.argsort(places, kind="stable")
    place, size = np.array(places, dtype=float)[order], np.array(sizes, dtype=float)[order]
    ends = size / 2 - over, 1.0 + over - size / 2
    for _ in range(200):
        if size.sum() <= 1.0:
            place = np.clip(place, *ends)
        overlap = (size[1:] + size[:-1]) / 2 - np.diff(place)
        if not (overlap > 1e-4).any():
            break
        push = np.maximum(overlap, 0.0) / 2
        place[:-1] -= push
        place[1:] += push
    result = np.empty_like(place)
    result[order] = place
    return [float(p) for p in result]


def note_at(ax: Axes, at: tuple[float, float], text: str, offset: tuple[float, float] = (0.0, 4.0), **how: Any) -> None:
    """Write a text beside a mark, at an offset in pixels."""
    put: dict[str, Any] = {"ha": "center", "va": "bottom", "color": sheet.INK, "annotation_clip": False} | how
    away = (sheet.POINT * offset[0], sheet.POINT * offset[1])
    put.setdefault("fontsize", sheet.POINT * sheet.size().label)
    ax.annotate(text, at, xytext=away, textcoords="offset points", **put)


def plain_log_axis(ax: Axes, which: str, text: Callable[[float], str] = as_given) -> None:
    """Set ticks of a log axis as plain numbers: at 1, 2 and 5 if the axis is short, else at powers of ten."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    ends = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1
    most = 5 if sheet.size().stacked else 7
    dense: list[tuple[tuple[float, ...], int]] = [((1.0, 2.0, 5.0), 1)] * bool(high / low < 10.0**2.6)
    for steps, decades in (*dense, *(((1.0,), every) for every in (1, 2, 3, 5, 10, 20, 50, 100, 200))):
        ticks = [m * 10.0**e for e in range(*ends) if e % decades == 0 for m in steps]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        fits = _legible(ax, which, np.log10(np.divide(ticks, low)) / np.log10(high / low), list(map(text, ticks)))
        if fits and len(ticks) <= most:
            break
    # an axis of less than a factor of two
    if len(ticks) < 2:
        ticks = [tick for tick in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high]
    axis.set_ticks(ticks)
    axis.set_major_formatter(FuncFormatter(lambda v, _: text(v)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)


def _legible(ax: Axes, which: str, places: Any, texts: Sequence[str]) -> bool:
    """True if tick labels at these shares of an axis do not overlap, with a margin for the layout."""
    figure = sheet.figure_of(ax)
    box = ax.get_position()
    across = which == "x"
    length = 72.0 * float(figure.get_size_inches()[0 if across else 1]) * (box.width if across else box.height)
    letter = 0.64 * sheet.POINT * sheet.size().label
    sizes = np.array([letter * len(text) + 6.0 if across else LINE for text in texts])
    return bool((0.8 * length * np.diff(places) >= (sizes[1:] + sizes[:-1]) / 2.0).all())


def odds_axis(ax: Axes, low: float, high: float, which: str = "x") -> None:
    """Make an axis one of log odds between two probabilities, with ticks in percent.

    Parameters
    ----------
    ax : whose data are log odds
    low, high : probabilities at its ends
    which : "x" or "y"
    """
    ends = [float(logit(end)) for end in (low, high)]
    (ax.set_xlim if which == "x" else ax.set_ylim)(*ends)
    inside = [tick for tick in ODDS_TICKS if low <= tick <= high]
    places = (logit(np.array(inside)) - ends[0]) / (ends[1] - ends[0])
    while len(inside) > 3 and not _legible(ax, which, places, list(map(percent, inside))):
        keep = [i for i, tick in enumerate(inside) if tick == 0.5 or i % 2 == 0]
        if len(keep) == len(inside):
            break
        inside, places = [inside[i] for i in keep], places[keep]
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(FixedLocator([float(logit(tick)) for tick in inside]))
    axis.set_major_formatter(FuncFormatter(lambda x, _: percent(float(1.0 / (1.0 + np.exp(-x))))))
    axis.set_minor_locator(NullLocator())


def coloured[T](items: Iterable[T], colours: Sequence[str] = sheet.COLOURS) -> Iterator[tuple[T, str]]:
    """Pairs of items and colours; colours are repeated if there are more items."""
    return zip(items, cycle(colours), strict=False)


def key(axes: Any, colours: Mapping[str, str], more: Iterable[Artist] = ()) -> None:
    """Write a key of lines by name and colour, and other marks, under the axes, in as many columns as fit."""
    lines = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    figure, handles = sheet.figure_of(axes), [*lines, *more]
    for old in figure.legends:
        old.remove()
    for columns in range(len(handles), 0, -1):
        made = figure.legend(handles=handles, loc="lower left", ncols=columns, borderpad=0.2, borderaxespad=0.0)
        wide = float(made.get_window_extent().width)
        if columns == 1 or wide <= float(figure.bbox.width) - 2.0 * sheet.MARGIN:
            break
        made.remove()


def in_percent(*axes: Axis) -> None:
    """Write ticks in percent.

    Parameters
    ----------
    axes : such as `ax.xaxis`
    """
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda p, _: percent(round(p, 12))))


def probability_axis(ax: Axes, label: str, *, log: bool) -> None:
    """Make the vertical axis one of probabilities in percent: from 0 to 1, or on a log scale."""
    ax.set_ylabel(label)
    if log:
        ax.set_yscale("log")
        ax.set_ylim(top=min(1.0, ax.get_ylim()[1]))
        plain_log_axis(ax, "y", percent)
    else:
        ax.set_ylim(0.0, 1.0)
        in_percent(ax.yaxis)


def few_ticks(ax: Axes, which: str = "both", *, integer: bool = False) -> None:
    """Set at most seven ticks on an axis, five on a phone."""
    most = 5 if sheet.size().stacked else 7
    for axis, name in ((ax.xaxis, "x"), (ax.yaxis, "y")):
        if which in (name, "both"):
            axis.set_major_locator(MaxNLocator(most - 1, steps=[1, 2, 2.5, 5, 10], integer=integer))


def rows(ax: Axes, names: Sequence[str], *, letters: int = 0) -> None:
    """Make the vertical axis one of named rows, the first on top.

    Parameters
    ----------
    ax : of the figure
    names : of the rows
    letters : of a line of a name; by the width of the figure if not given
    """
    width = letters or (14 if sheet.size().stacked else 30)
    ax.set_yticks(range(len(names)), [fill(name, width) for name in names])
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.tick_params(axis="y", length=0, labelcolor=sheet.INK)
    ax.spines["left"].set_visible(False)


def density_axis(ax: Axes) -> None:
    """Remove the scale of the vertical axis, as the height of a density means nothing."""
    ax.set(yticks=[], ylabel="density")
    ax.spines["left"].set_visible(False)


def ticks_right(ax: Axes) -> None:
    """Move the vertical axis to the right, so that labels can stand at the left ends of curves."""
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)
