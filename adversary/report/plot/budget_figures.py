"""Figures of a recommended epsilon: its cost in accuracy, and its division over several releases.

Every function takes a result of the library and returns matplotlib axes, with the finding as title.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from adversary._core import Floats, as_array, format_bound, percent, shown_epsilon
from adversary.report.plot import epsilon_map, marks, sheet


@sheet.house_style
def epsilon_by_releases(curves: Mapping[str, xr.Dataset] | xr.Dataset) -> Axes | sheet.Panels:
    """Epsilon of each of several releases that together satisfy the profile, one line per composition.

    Parameters
    ----------
    curves : by name of the profile, from `adversary.budget.release_curve`; lines without a finite budget
        above 0 are left out

    Raises
    ------
    ValueError : no line has one
    """
    curves = {"": curves} if isinstance(curves, xr.Dataset) else curves
    single = len(curves) == 1
    axes = epsilon_map.panels(len(curves))
    every = [curve["parameter"] for curve in curves.values()]
    spent = [one.where((one > 0.0) & np.isfinite(one)) for one in every]
    if not any(bool(np.isfinite(one).any()) for one in spent):
        raise ValueError("curves must hold a finite budget above 0 to draw, got none")
    low, high = (pick([float(getattr(one, end)()) for one in spent]) for pick, end in ((min, "min"), (max, "max")))
    ways = [str(how) for how in spent[0]["composition"].values]
    colours = dict(marks.coloured(ways))
    ends: list[marks.Label] = []
    for ax, (name, one) in zip(axes, zip(curves, spent, strict=True), strict=True):
        counts = as_array(one["releases"])
        ax.set(xscale="log", yscale="log", xlim=(1.0, counts[-1]), ylim=(0.8 * low, 1.15 * high))
        ax.set(xlabel="number of releases", ylabel="epsilon of each release")
        shares: dict[str, list[str]] = {}
        for how, colour in colours.items():
            line = as_array(one.sel(composition=how))
            ax.plot(counts, line, "o-", color=colour, ms=4, gid=how, zorder=2.0 + (how == "exact"))
            if np.isfinite(line[-1]):
                shares.setdefault(format_bound(float(line[-1]), False), []).append(how)
        labels = [(float(e), f"{', '.join(names)}: {e}", colours[names[-1]]) for e, names in shares.items()]
        marks.plain_log_axis(ax, "x")
        marks.plain_log_axis(ax, "y")
        if single:
            ends += labels
        else:
            ax.set_title(epsilon_map.in_two_lines(name))
    if not single:
        marks.key(axes, colours)
    epsilon_map.outer_labels(axes)
    budgets = every[0].isel(releases=-1)
    most, count = float(budgets.where(np.isfinite(budgets), 0.0).max()), int(budgets["releases"])
    claim = f"Each of {count} releases may spend epsilon = {format_bound(most, False, 3)}"
    title = claim if single and most else f"{count} releases share the epsilon of each profile"
    shape = f"Epsilon falls with the number of releases, a line for each of {len(ways)} compositions."
    sheet.headline(axes, title, "Lines: ways to compose the releases", shape=shape)
    marks.edge_labels(axes[0], ends)
    return axes[0] if single else axes


# Line style of true rates below the target.
BELOW = (0, (4, 2))


def with_noise(table: xr.Dataset) -> xr.Dataset:
    """Profiles of a trade-off table with epsilon and noise error (`rmse`) finite and above 0, by rising epsilon."""
    errors, epsilon = as_array(table["rmse"]), as_array(table["epsilon"])
    drawn = np.isfinite(errors) & (errors > 0.0) & np.isfinite(epsilon) & (epsilon > 0.0)
    return table.isel(profile=np.flatnonzero(drawn)).sortby("epsilon")


@sheet.house_style
def accuracy(table: xr.Dataset, round_down: int | None = None) -> Axes | sheet.Panels:
    """Error of the noise, and how often the published rate is on the wrong side of its target, against epsilon.

    Parameters
    ----------
    table : from `adversary.budget.tradeoff_table`; profiles without noise, or without an epsilon above 0, are
        left out. Of a single one wrong decisions are drawn against the distance of the true rate from the target.
    round_down : decimals that the table's epsilon was rounded down to

    Raises
    ------
    ValueError : no profile is left
    """
    table = with_noise(table)
    if not table.sizes["profile"]:
        raise ValueError("table must hold a profile with noise to draw, got none")
    if table.sizes["profile"] == 1:
        return _accuracy_of_one(table.isel(profile=0), round_down)
    axes = error, wrong = sheet.panels(2, 600.0, stacked=True, sharex=True, height_ratios=(1.0, 1.25))
    epsilon = as_array(table["epsilon"])
    room = max(epsilon[-1] / epsilon[0], 1.5) ** 0.04
    error.set(xscale="log", xlim=(epsilon[0] / room, epsilon[-1] * room), ylabel="error (people)")
    error.plot(epsilon, table["rmse"], "o-", color=sheet.INK, ms=5, gid="rmse")
    for deviation, colour in marks.coloured(table["deviation"].values):
        for side in table["side"].values:
            chance = as_array(table["switch"].sel(deviation=deviation, side=side))
            style: Any = {"ls": BELOW, "zorder": 3} if side == "below" else {"label": f"{1000.0 * deviation:.4g}"}
            wrong.plot(epsilon, chance, marker="o", color=colour, ms=5, gid=f"{deviation:g} {side}", **style)
    wrong.set(xlabel="epsilon", ylabel="wrong decisions")
    marks.in_percent(wrong.yaxis)
    for ax in (error, wrong):
        ax.set_ylim(0.0, ax.get_ylim()[1])
        ax.vlines(epsilon, *ax.get_ylim(), color=sheet.LINE, lw=0.7, zorder=0)
        marks.few_ticks(ax, "y")
        marks.ticks_right(ax)
    marks.plain_log_axis(wrong, "x")
    marks.key(axes, {}, wrong.get_legend_handles_labels()[0])
    about = "Wrong decisions by distance of the true rate from the target, per 1,000; dashed: below it"
    shape = "Two panels over epsilon: the error of the noisy count falls, and so do wrong decisions."
    sheet.headline(axes, _falling(table, round_down), about, shape=shape)
    _names_above(error, epsilon, [str(name) for name in table["profile"].values])
    return axes


def _falling(table: xr.Dataset, digits: int | None) -> str:
    """Title: the error at the smallest epsilon and at the largest."""
    ends = table.isel(profile=0), table.isel(profile=-1)
    start, end = (shown_epsilon(float(one["epsilon"]), np.inf, digits) for one in ends)
    high, low = (f"{float(one['rmse']):.2g}" for one in ends)
    falls = f"The error stays at {high} people" if high == low else f"The error falls from {high} to {low} people"
    return f"{falls} between epsilon {start} and {end}"


def _accuracy_of_one(row: xr.Dataset, digits: int | None) -> Axes:
    """Wrong decisions against the true rate, for a single profile."""
    ax: Axes = epsilon_map.panels(1)[0]
    signs = xr.DataArray([1.0 if side == "above" else -1.0 for side in row["side"].values], dims="side")
    x = as_array(1000.0 * (row.attrs["target"] + signs * row["deviation"])).ravel()
    chance = as_array(row["switch"].transpose("side", "deviation")).ravel()
    order = [int(i) for i in np.unique(x, return_index=True)[1] if np.isfinite(chance[i])]
    ax.vlines(x[order], 0.0, chance[order], color=sheet.LINE, lw=1.4, zorder=0)
    ax.plot(x[order], chance[order], "o", color=sheet.AFTER, ms=7, gid="wrong")
    ax.axvline(1000.0 * row.attrs["target"], color=epsilon_map.BINDS, lw=1.2, ls=marks.MARK, gid="target")
    ax.set(xlabel="true rate, per 1,000 (dashed: the target)", ylabel="wrong decisions", xticks=np.unique(x[order]))
    ax.set_ylim(0.0, 1.25 * float(np.nanmax(chance)) or 1.0)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
    marks.in_percent(ax.yaxis)
    close = min(np.diff(x[order]), default=1.0) < 0.09 * float(np.ptp(x[order]))
    for i in order:
        ax.annotate(percent(float(chance[i])), (x[i], chance[i]), xytext=(0.0, 7.0),
                    textcoords="offset points",
                    ha="center", va="bottom", rotation=90 if close else 0, color=sheet.INK,
                    bbox={"fc": sheet.PAPER, "ec": "none", "pad": 0.5})  # fmt: skip
    epsilon_words = shown_epsilon(float(row["epsilon"]), np.inf, digits)
    worst = percent(float(np.nanmax(chance)))
    sheet.headline(
        ax, f"At epsilon = {epsilon_words} up to {worst} of decisions are wrong",
        f"Error of the noisy count: {float(row['rmse']):.2g} people", "",
        "Wrong decisions by true rate: most beside the target, fewer the farther from it.",
    )  # fmt: skip
    return ax


def _names_above(ax: Axes, epsilon: Floats, names: list[str]) -> None:
    """Write names of profiles over their epsilon, upright, pushed apart where they would overlap."""
    marks.settle(ax)
    # on a phone the axis is named there
    above = 26.0 if sheet.size().stacked else 10.0
    width = float(ax.get_window_extent().width) * sheet.POINT
    scale = ax.transData + ax.transAxes.inverted()
    ends = [float(scale.transform((e, 0.0))[0]) for e in epsilon]
    for name, end, place in zip(names, ends, marks.separate_labels(ends, [15.0 / width] * len(ends)), strict=True):
        ax.annotate(
            epsilon_map.short(name), (end, 1.0), xycoords="axes fraction", xytext=((place - end) * width, above),
            textcoords="offset points", rotation=90, ha="center", va="bottom", annotation_clip=False,
            color=sheet.INK,
            arrowprops={"arrowstyle": "-", "color": sheet.QUIET, "lw": 0.6, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
