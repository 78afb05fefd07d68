"""Figures of sensitivity: a tornado of all inputs one at a time, a fan along one input, a map over two.

A tornado shows the range of one measure as each input goes over its values, all others fixed, the longest bar on top.
A fan shows the 90 % and 50 % intervals of posteriors over releases along one input. Both are for both truths: a belief
that makes an adversary look clever with the target in can make them wrong with the target out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from adversary._core import PERCENT, as_given, join_words, percent, quoted, sentence
from adversary.driver import TRUTHS, most_moving
from adversary.report.plot import marks, sheet

INPUTS = {
    "prior": "prior", "rho": "budget rho", "beliefs": "beliefs about others", "siblings": "number of siblings",
    "releases": "number of releases",
}  # fmt: skip
"""Labels of the inputs of a sweep; siblings of one level are labelled by their dim."""
MEASURES = {"posterior_mean": "average posterior", "difference_mean": "average difference"}

# Range of each measure.
LIMITS = {"posterior_mean": (0.0, 1.0), "difference_mean": (-1.0, 1.0)}
LOWER, UPPER = sheet.FINDING, sheet.AFTER

# Inputs and posteriors that span more than this factor are drawn on a log axis.
WIDE = 20.0

# Letters in a line of an input's name.
LETTERS = 22


@sheet.house_style
def tornado(extremes: xr.Dataset, measure: str = "posterior_mean") -> sheet.Panels:
    """Tornado plot of a measure: each input varied over its range, all others fixed, the one that moves it most on top.

    Parameters
    ----------
    extremes : of `adversary.sensitivity.one_at_a_time`
    measure : one of its measures, "posterior_mean" or "difference_mean"

    Returns
    -------
    array of Axes : target in, target out, as far as the adversary holds them possible; one ranking, one scale.

    Raises
    ------
    ValueError : an unknown measure, or no truth that the adversary considers possible

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> sweep = adv.sensitivity.one_at_a_time
    >>> extremes = sweep(plan, adv.Adversary(0.5), {"block": 1}, prior=[0.2, 0.9], rho=[0.05, 0.3])
    >>> axes = adv.plot.tornado(extremes)
    >>> print(axes[0].figure.get_suptitle())
    The prior moves the average posterior most, by up to 69 points
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {quoted(MEASURES)}, got {measure!r}")
    sides = _possible(extremes[measure].sel(end="base"))
    values = extremes[measure].sel(truth=sides)
    swing = (values.sel(end="high") - values.sel(end="low")).max("truth")
    names = [str(name) for name in extremes["input"].values[np.argsort(-swing.values, kind="stable")]]
    body = 2.0 * sheet.PITCH + 0.9 * sheet.PITCH * len(names)
    tall = (body + 40.0) * (len(sides) if sheet.size().stacked else 1)
    axes = sheet.panels(len(sides), tall + 100.0, sharey=True, sharex=True)
    shown = _value_format(measure)
    for ax, side in zip(axes, sides, strict=True):
        for i, name in enumerate(names):
            _bar(ax, i, extremes.sel(input=name, truth=side), measure, name)
        base = float(values.sel(truth=side, end="base")[0])
        ax.plot([base, base], [-0.5, len(names) - 0.4], color=sheet.INK, lw=1.2 * sheet.POINT, gid=f"base {side}")
        marks.note_at(ax, (base, -0.55), f"as it is: {shown(base)}", (0.0, 2.0))
        marks.rows(ax, [INPUTS.get(name, name) for name in names], letters=LETTERS)
        ax.set_ylim(len(names) - 0.4, -1.0)
        ax.set_title(f"target {side}")
        _value_axis(ax, values, measure)
    most = float(swing.max())
    moved = most_moving(extremes, measure)
    ends = f", by up to {100.0 * most:.2g} points" if len(moved) == 1 else ""
    sheet.headline(
        axes, moving_words(extremes, measure) + ends, "One input changes at a time, all others as they are", "",
        f"Bars of {len(names)} inputs for each truth, the longest on top: {INPUTS.get(names[0], names[0])}.", body=tall,
    )  # fmt: skip
    return axes


def moving_words(extremes: xr.Dataset, measure: str = "posterior_mean") -> str:
    """Sentence on the inputs that move a measure most; ties are named together.

    Parameters
    ----------
    extremes : smallest and largest value of each measure by `input`, as `adversary.sensitivity` gives them
    measure : name of the measure

    Returns
    -------
    A sentence without a full stop.
    """
    names, size = most_moving(extremes, measure), extremes.sizes["input"]
    if not names:
        return f"No input moves the {MEASURES[measure]}"
    called = [f"the {INPUTS.get(name, name)}" for name in names]
    if len(names) > 1:
        return (
            f"{sentence(join_words(called))} move the {MEASURES[measure]} equally{', and most' * (len(names) < size)}"
        )
    return f"{sentence(called[0])} moves the {MEASURES[measure]}{' most' * (size > 1)}"


def _value_axis(ax: Axes, values: xr.DataArray, measure: str) -> None:
    """Set round ticks and room for labels on the axis of a measure, whose line ends at the limits of the measure."""
    low, high = float(values.min()), float(values.max())
    # for a label beside the longest bar
    room = (0.5 if sheet.size().stacked else 0.36) * max(high - low, 1e-9)
    low, high = low - room, high + room
    ends = LIMITS[measure]
    ax.set_xlim(low, high)
    points = ends[0] < 0.0
    ax.set_xlabel(f"{MEASURES[measure]}{' (points)' * points}")
    inside = max(low, ends[0]), min(high, ends[1])
    ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(*inside)
    ax.set_xticks([tick for tick in ticks if inside[0] - 1e-9 <= tick <= inside[1] + 1e-9])
    ax.spines["bottom"].set_bounds(*inside)
    sign = "" if points else PERCENT
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round(100.0 * x, 9):g}{sign}".replace("-", "\u2212")))


def _bar(ax: Axes, place: int, one: xr.Dataset, measure: str, name: str) -> None:
    """Draw the bar of one input, from the least value over the base to the largest, with the input's values there."""
    low, base, high = (float(value) for value in one[measure].values)
    if not np.isfinite(base):
        return
    for start, end, which, colour in ((low, base, "low", LOWER), (base, high, "high", UPPER)):
        if end <= start:
            continue
        ax.barh(place, end - start, 0.5, left=start, color=colour, alpha=0.85, gid=f"{name} {which}")
        at = str(one[f"at_{measure}"].sel(end=which).item())
        side = -1.0 if which == "low" else 1.0
        marks.note_at(ax, (low if which == "low" else high, place), input_value(name, at), (6.0 * side, 0.0),
                      va="center", ha="right" if which == "low" else "left", color=colour)  # fmt: skip


def input_value(name: str, text: str) -> str:
    """Value of an input as a label.

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
        return lambda x: f"{x:.3g}"
    if measure == "difference_mean":
        return lambda x: f"{100.0 * x:+.2g} points".replace("-", "\u2212") if x else "0"
    return lambda p: percent(min(max(p, 0.0), 1.0))


def _possible(values: xr.DataArray) -> list[str]:
    """Truths that the adversary considers possible; ValueError if there are none."""
    possible = [side for side in TRUTHS if bool(np.isfinite(values.sel(truth=side).values).any())]
    if not possible:
        raise ValueError("the adversary holds no truth possible")
    return possible


@sheet.house_style
def fan(swept: xr.Dataset, along: str, *, own: float | None = None) -> sheet.Panels:
    """Posterior over releases along one input: central 90% and 50% of releases, and the average.

    Along priors that span more than a factor of twenty the ratio is drawn: the posterior would only follow the prior.

    Parameters
    ----------
    swept : of `adversary.sensitivity.sweep`, over that input only; or of that form, over numbers of releases
    along : the dim, with numbers for coordinates
    own : the scenario's own value of the input, marked where it lies on the axis

    Returns
    -------
    array of Axes : target in, target out, as far as the adversary holds them possible.

    Raises
    ------
    ValueError : the dim is missing, or is not the only one

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> swept = adv.sensitivity.sweep(plan, adv.Adversary(0.5), {"block": 1}, rho=[0.05, 0.1, 0.3, 0.9])
    >>> axes = adv.plot.fan(swept, "rho")
    >>> print(" ".join(axes[0].figure.get_suptitle().split()))
    Between budget rho 0.05 and 0.9 the average posterior goes from 51% to 66%
    """
    if set(swept["posterior_mean"].dims) != {along, "truth"}:
        dims = swept["posterior_mean"].dims
        raise ValueError(f"along must be the only input swept, got {along!r} where the dims are {dims}")
    swept = swept.sortby(along)
    x = swept[along].values.astype(float)
    measure = "ratio" if along == "prior" and x[-1] > WIDE * x[0] else "posterior"
    mean, bands = swept[f"{measure}_mean"], swept[f"{measure}_quantile"]
    sides = _possible(mean)
    axes = sheet.panels(len(sides), sharey=True)
    for ax, side in zip(axes, sides, strict=True):
        _draw_fan(ax, x, mean.sel(truth=side).values, bands.sel(truth=side).transpose(along, "quantile").values)
        if along == "prior":
            ax.plot(x, x if measure == "posterior" else np.ones(x.size), color=sheet.INK, lw=1.0, gid="unmoved")
        _input_axis(ax, along, x)
        if own is not None and x[0] <= own <= x[-1]:
            ax.axvline(own, color=sheet.INK, lw=1.0, ls=marks.MARK, gid="own")
    if measure == "posterior":
        rare = float(mean.sel(truth=sides).max()) < 1.0 / WIDE
        marks.probability_axis(axes[0], "probability that the person is in", log=rare)
    else:
        axes[0].set(yscale="log", ylabel="posterior over prior")
        marks.plain_log_axis(axes[0], "y")
    for ax, side in zip(axes, sides, strict=True):
        ax.set_title(f"target {side}")
        if sheet.size().stacked:
            ax.set_ylabel(axes[0].get_ylabel())
    is_marked = own is not None and bool(x[0] <= own <= x[-1])
    marked = f"; dashed line: as it is, {input_value(along, str(own))}" if is_marked else ""
    sheet.headline(
        axes, _fan_finding(mean, along, measure, sides), f"Line: average over releases{marked}", "",
        f"Bands of 9 in 10 and of half of the releases along {INPUTS.get(along, along)}, a panel for each truth.",
    )  # fmt: skip
    end = bands.sel(truth=sides[-1]).transpose(along, "quantile").values[-1]
    last = float(mean.sel(truth=sides[-1]).values[-1])
    labels = [
        (0.5 * (end[3] + end[4]), "in 9 of 10 releases", sheet.AFTER), (last, "average", sheet.AFTER),
        (0.5 * (end[1] + min(last, end[2])), "in half of them", sheet.AFTER),
    ]  # fmt: skip
    marks.edge_labels(axes[-1], labels, width=11)
    return axes


def _draw_fan(ax: Axes, x: Any, mean: Any, bands: Any) -> None:
    """Draw the bands, median and mean of a fan, straight between its points."""
    marker = "o" if x.size < 12 else ""
    ax.fill_between(x, bands[:, 0], bands[:, 4], color=sheet.AFTER, alpha=marks.BAND, lw=0, gid="nine in ten")
    ax.fill_between(x, bands[:, 1], bands[:, 3], color=sheet.AFTER, alpha=marks.CORE, lw=0, gid="middle half")
    ax.plot(x, bands[:, 2], color=sheet.AFTER, lw=1.0, ls=(0, (1, 1.5)), gid="median")
    ax.plot(x, mean, color=sheet.AFTER, marker=marker, ms=4, gid="mean")


def _input_axis(ax: Axes, along: str, x: Any) -> None:
    """Set label, scale and ticks of the axis of an input."""
    ax.set_xlabel((INPUTS | {"rho": "budget rho of the whole plan (zCDP)"}).get(along, along))
    if x.size > 1:
        ax.set_xlim(x[0], x[-1])
    if x[0] > 0 and x[-1] > WIDE * x[0]:
        ax.set_xscale("log")
        marks.plain_log_axis(ax, "x", percent if along == "prior" else as_given)
    elif along == "prior":
        marks.in_percent(ax.xaxis)
    else:
        marks.few_ticks(ax, "x", integer=along not in ("rho", "prior"))


def _fan_finding(mean: xr.DataArray, along: str, measure: str, sides: list[str]) -> str:
    """Title: the change of the average along the input, under the first truth."""
    shown = _value_format(f"{measure}_mean")
    start, end = (shown(float(y)) for y in mean.sel(truth=sides[0]).values[[0, -1]])
    if measure == "ratio":
        return f"One release multiplies a small prior by {start} on average, a large one by {end}"
    low, high = (input_value(along, str(v)) for v in mean[along].values[[0, -1]].astype(float))
    name = INPUTS.get(along, along)
    moved = f"goes from {start} to {end}" if start != end else f"stays at {start}"
    return f"Between {name} {low} and {high} the average posterior {moved}"


@sheet.house_style
def posterior_map(swept: xr.Dataset, *, truth: str = "in", ax: Axes | None = None) -> Axes:
    """Average posterior over two inputs, white where the release leaves the adversary at the prior.

    Parameters
    ----------
    swept : of `adversary.sensitivity.sweep` over two inputs
    truth : "in" or "out"
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : the first input across, the second up, one cell for each pair.

    Raises
    ------
    ValueError : not two inputs, or a truth that the adversary holds impossible

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> inputs = {"prior": [0.1, 0.3, 0.5, 0.7], "rho": [0.05, 0.2, 0.8]}
    >>> ax = adv.plot.posterior_map(adv.sensitivity.sweep(plan, adv.Adversary(0.5), {"block": 1}, **inputs))
    >>> print(" ".join(ax.figure.get_suptitle().split()))
    At prior 30% and budget rho 0.8, the release moves the average posterior most, by 19 points
    """
    posterior = swept["posterior_mean"].sel(truth=truth)
    if posterior.ndim != 2:
        raise ValueError(f"swept must be over two inputs, got {posterior.dims}")
    if not bool(np.isfinite(posterior.values).any()):
        raise ValueError(f"truth: the adversary holds {truth!r} impossible")
    across, up = (str(dim) for dim in posterior.dims)
    values = swept["difference_mean"].sel(truth=truth).transpose(up, across).values
    shown = posterior.transpose(up, across)
    largest_difference = max(float(np.nanmax(np.abs(values))), 1e-9)
    ax = sheet.panel(ax)
    image = ax.pcolormesh(
        values, cmap="RdBu_r", vmin=-largest_difference, vmax=largest_difference, edgecolors=sheet.PAPER, linewidth=1.0
    )
    image.set_gid("moved")
    if values.size <= 60:
        for (i, j), p in np.ndenumerate(shown.values):
            # colours of the map are the same in the dark, and so are its letters
            colour = "#FFFFFE" if abs(values[i, j]) > 0.6 * largest_difference else "#1F2934"
            ax.text(
                j + 0.5, i + 0.5, percent(float(p)) if np.isfinite(p) else "", ha="center", va="center", color=colour
            )
    for axis, dim in ((ax.xaxis, across), (ax.yaxis, up)):
        axis.set_ticks(np.arange(swept.sizes[dim]) + 0.5, [input_value(dim, str(one)) for one in swept[dim].values])
        axis.set_label_text(INPUTS.get(dim, dim))
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(False)
    place: Any = {"location": "bottom", "shrink": 0.7, "pad": 0.02} if sheet.size().stacked else {"pad": 0.02}
    bar = sheet.figure_of(ax).colorbar(image, ax=ax, ticks=[-largest_difference, 0.0, largest_difference], **place)
    size = f"{100.0 * largest_difference:.2g}"
    texts = [f"\u2212{size}", "unmoved", f"+{size} points"]
    bar.set_ticks([-largest_difference, 0.0, largest_difference], labels=texts)
    bar.outline.set_visible(False)
    i, j = np.unravel_index(int(np.nanargmax(np.abs(values))), values.shape)
    at = " and ".join(
        f"{INPUTS.get(dim, dim)} {input_value(dim, str(swept[dim].values[k]))}" for dim, k in ((across, j), (up, i))
    )
    sheet.headline(
        ax, f"At {at}, the release moves the average posterior most, by {size} points",
        f"Cells: average posterior, the target {truth}; white: as before the release", "",
        f"A map of {values.shape[1]} by {values.shape[0]} cells.",
    )  # fmt: skip
    return ax
