"""Figures of what a recommended epsilon costs: the error of the noise, and decisions that it turns round."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from adversary._core import Floats, as_array, figure_of, share, shown_epsilon
from adversary.desk.figures.epsilon_map import BINDS, panels, short
from adversary.desk.kit import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    LIGHT,
    apart,
    in_percent,
    plain_log_axis,
    styled,
    ticks_right,
    title,
)

BELOW = (0, (4, 2))
"""Line style of true rates below the target."""


def with_noise(table: xr.Dataset) -> xr.Dataset:
    """The profiles of a trade-off table that have an epsilon above 0, and noise with an error, by rising epsilon."""
    errors, epsilon = as_array(table["rmse"]), as_array(table["epsilon"])
    drawn = np.isfinite(errors) & (errors > 0.0) & np.isfinite(epsilon) & (epsilon > 0.0)
    return table.isel(profile=np.flatnonzero(drawn)).sortby("epsilon")


@styled
def accuracy(table: xr.Dataset, round_down: int | None = None) -> Figure:
    """Error of the noise, and how often the published rate is on the wrong side of its target, against epsilon.

    Parameters
    ----------
    table : from `adversary.policy.budget.tradeoff_table`; profiles without noise, or without an epsilon above 0, are
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
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    error, wrong = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.25))
    epsilon = as_array(table["epsilon"])
    room = max(epsilon[-1] / epsilon[0], 1.5) ** 0.04
    error.set(xscale="log", xlim=(epsilon[0] / room, epsilon[-1] * room), ylabel="RMSE, in people")
    error.plot(epsilon, table["rmse"], "o-", color=INK, ms=5, gid="rmse")
    for deviation, colour in zip(table["deviation"].values, cycle(COLOURS), strict=False):
        for side in table["side"].values:
            chance = as_array(table["switch"].sel(deviation=deviation, side=side))
            style: Any = {"ls": BELOW, "zorder": 3} if side == "below" else {"label": f"{1000.0 * deviation:.4g}"}
            wrong.plot(epsilon, chance, marker="o", color=colour, ms=5, gid=f"{deviation:g} {side}", **style)
    wrong.set(xlabel="epsilon", ylabel="wrong decisions")
    in_percent(wrong.yaxis)
    for ax in (error, wrong):
        ax.set_ylim(0.0, ax.get_ylim()[1])
        ax.vlines(epsilon, *ax.get_ylim(), color=GREY, lw=0.6, zorder=0)
        ticks_right(ax)
    plain_log_axis(wrong, "x", lambda e: f"{e:g}")
    _names_above(error, epsilon, [str(name) for name in table["profile"].values])
    heading = "true rate to target,\nper 1,000; dashed:\nbelow the target"
    wrong.legend(title=heading, framealpha=1.0, edgecolor="none", fontsize=9.5)
    title(figure, _falling(table, round_down))
    return figure


def _falling(table: xr.Dataset, digits: int | None) -> str:
    """The finding: the error at the smallest epsilon and at the largest."""
    ends = table.isel(profile=0), table.isel(profile=-1)
    start, end = (shown_epsilon(float(one["epsilon"]), np.inf, digits) for one in ends)
    high, low = (figure_of(float(one["rmse"])) for one in ends)
    falls = f"RMSE stays at {high}" if high == low else f"RMSE falls from {high} to {low}"
    return f"{falls} between epsilon {start} and {end}"


def _accuracy_of_one(row: xr.Dataset, digits: int | None) -> Figure:
    """Wrong decisions against the true rate."""
    figure, (ax,) = panels(1)
    signs = xr.DataArray([1.0 if side == "above" else -1.0 for side in row["side"].values], dims="side")
    x = as_array(1000.0 * (row.attrs["target"] + signs * row["deviation"])).ravel()
    chance = as_array(row["switch"].transpose("side", "deviation")).ravel()
    order = [int(i) for i in np.unique(x, return_index=True)[1] if np.isfinite(chance[i])]
    ax.vlines(x[order], 0.0, chance[order], color=LIGHT, lw=1.4, zorder=0)
    ax.plot(x[order], chance[order], "o", color=BLUE, ms=7, gid="wrong")
    ax.axvline(1000.0 * row.attrs["target"], color=BINDS, lw=1.2, ls=(0, (4, 3)), gid="target")
    ax.set(xlabel="true rate, per 1,000 (dashed: the target)", ylabel="wrong decisions", xticks=np.unique(x[order]))
    ax.set_ylim(0.0, 1.25 * float(np.nanmax(chance)) or 1.0)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
    in_percent(ax.yaxis)
    close = min(np.diff(x[order]), default=1.0) < 0.09 * float(np.ptp(x[order]))
    for i in order:
        ax.annotate(share(float(chance[i])), (x[i], chance[i]), xytext=(0.0, 7.0), textcoords="offset points",
                    ha="center", va="bottom", rotation=90 if close else 0, fontsize=9.5, color=INK,
                    bbox={"fc": "white", "ec": "none", "pad": 0.5})  # fmt: skip
    shown = shown_epsilon(float(row["epsilon"]), np.inf, digits)
    error = figure_of(float(row["rmse"]))
    worst = share(float(np.nanmax(chance)))
    title(figure, f"Epsilon = {shown}: RMSE {error}, up to {worst} wrong decisions")
    return figure


def _names_above(ax: Axes, epsilon: Floats, names: list[str]) -> None:
    """Names of profiles over their epsilon, upright, pushed apart where they would overlap."""
    width = float(ax.figure.get_size_inches()[0]) * 72.0 * 0.8  # type: ignore[union-attr]
    scale = ax.transData + ax.transAxes.inverted()
    ends = [float(scale.transform((e, 0.0))[0]) for e in epsilon]
    for name, end, place in zip(names, ends, apart(ends, [12.5 / width] * len(ends)), strict=True):
        ax.annotate(
            short(name), (end, 1.0), xycoords="axes fraction", xytext=((place - end) * width, 12.0),
            textcoords="offset points", rotation=90, ha="center", va="bottom", fontsize=9.0, color=INK,
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6, "shrinkA": 0, "shrinkB": 0}, annotation_clip=False,
        )  # fmt: skip
