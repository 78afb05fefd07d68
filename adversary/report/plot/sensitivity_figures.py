"""How far an adversary's conclusions move with what went in: one input at a time, or along one of them.

A tornado shows the range of one measure as each input goes over its values, all others as they are, longest bar on top.
A fan shows the posteriors of nine releases in ten, and of the middle half, along one input. Both show both truths:
a belief that makes an adversary look clever with the target in can make them wrong with the target out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from adversary._core import PERCENT, as_given, format_number, format_probability, join_words, percent, quoted, sentence
from adversary.driver import TRUTHS, most_moving
from adversary.report.plot import sheet as kit
from adversary.report.plot.sheet import Panels

INPUTS = {
    "prior": "prior", "rho": "budget rho", "beliefs": "beliefs about others", "siblings": "number of siblings",
    "releases": "number of releases",
}  # fmt: skip
"""What the inputs of a sweep are called; a level's own siblings are called by their dim."""
MEASURES = {"posterior_mean": "expected posterior", "difference_mean": "expected difference"}
LIMITS = {"posterior_mean": (0.0, 1.0), "difference_mean": (-1.0, 1.0)}
"""Between which values a measure lies."""
LOWER, UPPER = kit.COLOURS[1], kit.BLUE
WIDE = 20.0
"""Inputs and posteriors that span more than this factor are drawn on a log axis."""


@kit.house_style
def tornado(found: xr.Dataset, measure: str = "posterior_mean") -> Panels:
    """Tornado plot of a measure: each input varied over its range, all others fixed.

    Parameters
    ----------
    found : from `adversary.driver.sensitivity.one_at_a_time`
    measure : one of its measures

    Raises
    ------
    ValueError : an unknown measure, or no truth that the adversary considers possible
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {quoted(MEASURES)}, got {measure!r}")
    sides = _possible(found[measure].sel(end="base"))
    values = found[measure].sel(truth=sides)
    swing = (values.sel(end="high") - values.sel(end="low")).max("truth")
    names = [str(name) for name in found["input"].values[np.argsort(-swing.values, kind="stable")]]
    axes = kit.panels(5.6 * len(sides) + 1.2, 1.9 + 0.62 * len(names), 1, len(sides), sharey=True)
    said = _value_format(measure)
    for ax, side in zip(np.ravel(axes), sides, strict=True):
        for i, name in enumerate(names):
            _bar(ax, i, found.sel(input=name, truth=side), measure, name)
        base = float(values.sel(truth=side, end="base")[0])
        ax.plot([base, base], [-0.5, len(names) - 0.4], color=kit.INK, lw=1.2, gid=f"base {side}")
        ax.annotate(f"as it is: {said(base)}", (base, -0.58), ha="center", va="bottom", fontsize=9.5, color=kit.INK)
        ax.set_yticks(range(len(names)), [INPUTS.get(name, name) for name in names])
        ax.set_ylim(len(names) - 0.4, -0.95)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        _value_axis(ax, found[measure].sel(truth=side), measure)
        kit.panel_title(ax, f"target {side}")
    widest = values.sel(input=names[0], end="high") - values.sel(input=names[0], end="low")
    first, side = names[0], sides[int(widest.argmax("truth"))]
    low, high = (said(float(values.sel(input=first, truth=side, end=end))) for end in ("low", "high"))
    what = moving_words(found, measure)
    ends = f": {low} to {high} with the target {side}" if len(most_moving(found, measure)) == 1 else ""
    kit.title(axes, what + ends)
    return np.ravel(axes)


def moving_words(found: xr.Dataset, measure: str = "posterior_mean") -> str:
    """Sentence on the inputs that move a measure most; ties are named together."""
    names, size = most_moving(found, measure), found.sizes["input"]
    if not names:
        return f"No input moves the {MEASURES[measure]}"
    called = [f"the {INPUTS.get(name, name)}" for name in names]
    if len(names) > 1:
        return (
            f"{sentence(join_words(called))} move the {MEASURES[measure]} equally{', and most' * (len(names) < size)}"
        )
    return f"{sentence(called[0])} moves the {MEASURES[measure]}{' most' * (size > 1)}"


def _value_axis(ax: Axes, values: xr.DataArray, measure: str) -> None:
    """Round ticks on an axis with room for labels; where the measure cannot go on (0, 1), the axis line ends."""
    low, high = float(values.min()), float(values.max())
    room = 0.34 * max(high - low, 1e-9)  # for a label beside the longest bar
    low, high = low - room, high + room
    ends = LIMITS[measure]
    ax.set_xlim(low, high)
    ax.set_xlabel(MEASURES[measure])
    inside = max(low, ends[0]), min(high, ends[1])
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(*inside)
    ax.set_xticks([tick for tick in ticks if inside[0] - 1e-9 <= tick <= inside[1] + 1e-9])
    ax.spines["bottom"].set_bounds(*inside)
    sign = " points" if ends[0] < 0.0 else PERCENT
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round(100.0 * x, 9):g}{sign}"))


def _bar(ax: Axes, place: int, one: xr.Dataset, measure: str, name: str) -> None:
    """From the least value over the base to the largest, each end with the input's value there."""
    low, base, high = (float(value) for value in one[measure].values)
    if not np.isfinite(base):
        return
    for start, end, which, colour, side in ((low, base, "low", LOWER, "right"), (base, high, "high", UPPER, "left")):
        if end <= start:
            continue
        ax.barh(place, end - start, 0.5, left=start, color=colour, alpha=0.85, gid=f"{name} {which}")
        at = str(one[f"at_{measure}"].sel(end=which).item())
        ax.annotate(
            input_value(name, at), (low if which == "low" else high, place), xytext=(-5 if which == "low" else 5, 0),
            textcoords="offset points", va="center", ha=side, fontsize=9.5, color=colour,
        )  # fmt: skip


def input_value(name: str, text: str) -> str:
    """The value of an input as a label says it.

    Parameters
    ----------
    name : of the input: "prior", "beliefs" or that of a number
    text : the value, a number or a name

    >>> input_value("rho", "0.123456"), input_value("beliefs", "uniform")
    ('0.1235', 'uniform')
    """
    if name == "prior":
        return percent(float(text))
    return text if name == "beliefs" else f"{float(text):.4g}"


def _value_format(measure: str) -> Callable[[float], str]:
    """Formatter for values of a measure."""
    if measure == "ratio_mean":
        return format_number
    if measure == "difference_mean":
        return lambda x: f"{100.0 * x:+.3g} points" if x else "0"
    return lambda p: percent(min(max(p, 0.0), 1.0))


def _possible(values: xr.DataArray) -> list[str]:
    """The truths that the adversary holds possible."""
    found = [side for side in TRUTHS if bool(np.isfinite(values.sel(truth=side).values).any())]
    if not found:
        raise ValueError("the adversary holds no truth possible")
    return found


@kit.house_style
def fan(swept: xr.Dataset, along: str, *, own: float | None = None) -> Panels:
    """Posterior over releases along one input: central 90 % and 50 % of releases, median and mean.

    Along priors that span more than a factor of twenty the ratio is drawn: the posterior would only follow the prior.

    Parameters
    ----------
    swept : from `adversary.driver.sensitivity.sweep`, over that input only; or of that form, over numbers of releases
    along : the dim, with numbers for coordinates
    own : the scenario's own value of the input, marked where it lies on the axis

    Raises
    ------
    ValueError : the dim is missing, or is not the only one
    """
    if set(swept["posterior_mean"].dims) != {along, "truth"}:
        dims = swept["posterior_mean"].dims
        raise ValueError(f"along must be the only input swept, got {along!r} where the dims are {dims}")
    swept = swept.sortby(along)
    x = swept[along].values.astype(float)
    measure = "ratio" if along == "prior" and x[-1] > WIDE * x[0] else "posterior"
    mean, bands = swept[f"{measure}_mean"], swept[f"{measure}_quantile"]
    sides = _possible(mean)
    axes = kit.panels(5.2 * len(sides) + 0.6, 4.9, 1, len(sides), sharey=True)
    axes = np.ravel(axes)
    for ax, side in zip(axes, sides, strict=True):
        _draw_fan(ax, x, mean.sel(truth=side).values, bands.sel(truth=side).transpose(along, "quantile").values)
        if along == "prior":
            ax.plot(x, x if measure == "posterior" else np.ones(x.size), color=kit.GREY, lw=1.2, gid="unmoved")
        _input_axis(ax, along, x)
        if own is not None and x[0] <= own <= x[-1]:
            ax.axvline(own, color=kit.INK, lw=1.0, ls=kit.MARK, gid="own")
    if measure == "posterior":
        rare = float(mean.sel(truth=sides).max()) < 1.0 / WIDE
        kit.probability_axis(axes[0], "posterior that the target is in", log=rare)
    else:
        axes[0].set(yscale="log", ylabel="ratio: posterior / prior")
        kit.plain_log_axis(axes[0], "y")
    key = "light band: nine releases in ten; dark: the middle half\nline: expected; dotted: median"
    if own is not None and x[0] <= own <= x[-1]:
        key += f"; dashed: as it is, {input_value(along, str(own))}"
    for ax, side in zip(axes, sides, strict=True):
        kit.panel_title(ax, f"target {side}\n" + (key if ax is axes[0] else "\n"))
    kit.title(axes, _fan_finding(mean, along, measure, sides))
    return axes


def _draw_fan(ax: Axes, x: Any, mean: Any, bands: Any) -> None:
    """Bands and lines through the same points, straight in between."""
    marker = "o" if x.size < 12 else ""
    ax.fill_between(x, bands[:, 0], bands[:, 4], color=kit.BLUE, alpha=0.16, lw=0, gid="nine in ten")
    ax.fill_between(x, bands[:, 1], bands[:, 3], color=kit.BLUE, alpha=0.30, lw=0, gid="middle half")
    ax.plot(x, bands[:, 2], color=kit.BLUE, lw=1.4, ls=(0, (1, 1.5)), gid="median")
    ax.plot(x, mean, color=kit.BLUE, marker=marker, ms=5, gid="mean")


def _input_axis(ax: Axes, along: str, x: Any) -> None:
    ax.set_xlabel((INPUTS | {"rho": "budget rho of the whole plan (zCDP)"}).get(along, along))
    if x.size > 1:
        ax.set_xlim(x[0], x[-1])
    if x[0] > 0 and x[-1] > WIDE * x[0]:
        ax.set_xscale("log")
        kit.plain_log_axis(ax, "x", percent if along == "prior" else as_given)
    elif along == "prior":
        kit.in_percent(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=along != "rho"))


def _fan_finding(mean: xr.DataArray, along: str, measure: str, sides: list[str]) -> str:
    """From which average to which, under each truth."""
    low, high = (input_value(along, str(v)) for v in mean[along].values[[0, -1]].astype(float))
    start = f"A {INPUTS.get(along, along)} of {low} to {high} takes"
    said, told = _value_format(f"{measure}_mean"), []
    for side in sides:
        ends = mean.sel(truth=side).values[[0, -1]]
        exactly = format_probability if measure == "posterior" and said(ends[0]) == said(ends[1]) else said
        told.append(f"from {exactly(ends[0])} to {exactly(ends[1])} with the target {side}")
    return f"{start} the expected {measure} {', '.join(told)}"
