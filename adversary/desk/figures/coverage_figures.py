"""Figures of a simulation study: how long intervals are, how often they cover, and how far estimates miss, against n.

Each takes the answer of `analyst.bounded.study.coverage_study`. A column is a truth, a row a pair of budgets, a line
a prior with the bounds (solid) or without them (dashed). Shaded is what two Monte Carlo standard errors leave open: of
a line, or, of coverage, about the nominal level.
"""

from __future__ import annotations

from itertools import cycle, product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from adversary._core import as_array, figure_of, percent
from adversary.desk.kit import BLUE, COLOURS, GREY, INK, LIGHT, in_percent, panel_title, plain_log_axis, styled, title

ORANGE = COLOURS[1]
DASHED: Any = (0, (4, 2))
"""Line style of posteriors that ignore the bounds."""
USES = {True: "with the bounds", False: "without the bounds"}
ERRORS = 2.0
"""Monte Carlo standard errors on either side of what is shaded."""
NAMES = {"mu": "mu", "sigma": "sigma", "sigma2": "sigma²"}


class _Line(NamedTuple):
    """One prior, with or without the bounds."""

    prior: str
    constrained: bool
    name: str
    style: dict[str, Any]


@styled
def length(study: xr.Dataset) -> Figure:
    """Mean length of the intervals."""
    figure, axes = _panels(study)
    for (row, column), ax in np.ndenumerate(axes):
        _curves(ax, study.isel(epsilon=row, truth=column), "length")
    _finish(figure, axes, study, f"mean length of the interval of {NAMES[study.attrs['parameter']]}", log=True)
    title(figure, _gain(study, "length", "intervals", "long"))
    return figure


@styled
def rmse(study: xr.Dataset, estimate: str = "mode") -> Figure:
    """Root mean square error of an estimate: the "mode" of the marginal posterior, or its "mean".

    Raises
    ------
    ValueError : another estimate
    """
    if estimate not in study["estimate"].values:
        raise ValueError(f"estimate must be one of {', '.join(map(str, study['estimate'].values))}, got {estimate!r}")
    chosen = study.sel(estimate=estimate)
    figure, axes = _panels(study)
    for (row, column), ax in np.ndenumerate(axes):
        _curves(ax, chosen.isel(epsilon=row, truth=column), "rmse")
    _finish(figure, axes, study, f"RMSE of the {estimate} of {NAMES[study.attrs['parameter']]}", log=True)
    title(figure, _gain(chosen, "rmse", "errors", "large"))
    return figure


@styled
def coverage(study: xr.Dataset) -> Figure:
    """Share of data sets whose interval covers the true value, the nominal level, and what chance explains about it."""
    nominal = float(study.attrs["prob"])
    half = ERRORS * np.sqrt(nominal * (1.0 - nominal) / study.attrs["datasets"])
    figure, axes = _panels(study)
    for (row, column), ax in np.ndenumerate(axes):
        ax.axhspan(nominal - half, min(nominal + half, 1.0), color=LIGHT, lw=0, zorder=0, gid="chance")
        ax.axhline(nominal, color=INK, lw=1.0, zorder=1, gid="nominal")
        _curves(ax, study.isel(epsilon=row, truth=column), "coverage", shaded=False)
    least = min(float(study["coverage"].min()), nominal - half)
    room = 0.04 * (1.0 - least)
    axes[0, 0].set_ylim(max(least - room, -0.01), 1.0 + room)
    extra: list[Any] = [
        Line2D([], [], color=INK, lw=1.0, label=f"nominal, {percent(nominal)}"),
        Patch(color=LIGHT, label=f"within {ERRORS:g} standard errors of it"),
    ]
    _finish(figure, axes, study, f"coverage of {NAMES[study.attrs['parameter']]}", log=False, extra=extra)
    title(figure, _covered(study))
    return figure


def _panels(study: xr.Dataset) -> tuple[Figure, Any]:
    rows, columns = study.sizes["epsilon"], study.sizes["truth"]
    figure = Figure(figsize=(max(2.2 + 3.9 * columns, 7.2), 1.9 + 3.0 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for (row, column), ax in np.ndenumerate(axes):
        words = [str(study["truth"].values[column])] + [_epsilon(study, row)] * (rows > 1)
        panel_title(ax, "\n".join(words))
    return figure, axes


def _lines(study: xr.Dataset) -> list[_Line]:
    """Colours tell the use of the bounds apart, or priors where there are several; dashes always the bounds."""
    priors, uses = [str(name) for name in study["prior"].values], [bool(use) for use in study["constrained"].values]
    colours = dict(zip(priors, cycle(COLOURS), strict=False))
    lines = []
    for prior, use in product(priors, uses):
        colour = colours[prior] if len(priors) > 1 else BLUE if use else ORANGE
        name = f"{prior}, {USES[use]}" if len(priors) > 1 else USES[use]
        lines.append(_Line(prior, use, name, {"color": colour, "ls": "-" if use else DASHED}))
    return lines


def _curves(ax: Axes, cell: xr.Dataset, name: str, *, shaded: bool = True) -> None:
    """One variable against n, for every line; shaded is what its Monte Carlo standard errors leave open."""
    n = as_array(cell["n"])
    order = np.argsort(n)
    for prior, use, label, style in _lines(cell):
        one = cell.sel(prior=prior, constrained=use).isel(n=order)
        value, error = as_array(one[name]), ERRORS * np.nan_to_num(as_array(one[f"{name}_mcse"]))
        if shaded:
            low = np.maximum(value - error, 0.5 * value)
            ax.fill_between(n[order], low, value + error, color=style["color"], alpha=0.2, lw=0, gid="error")
        ax.plot(n[order], value, marker="o", ms=4, zorder=3.0 + use, gid=label, **style)


def _finish(
    figure: Figure, axes: Any, study: xr.Dataset, label: str, *, log: bool, extra: list[Any] | None = None
) -> None:
    """Axes that read as plain numbers, labels on the outer ones, and one legend below all."""
    n = as_array(study["n"])
    first = axes[0, 0]
    first.set(xscale="log", xlim=(n.min() / 1.12, n.max() * 1.12) if n.min() < n.max() else (n[0] / 2.0, 2.0 * n[0]))
    plain_log_axis(first, "x", lambda size: f"{size:,.0f}")
    if log:
        first.set_yscale("log")
        plain_log_axis(first, "y", lambda value: f"{value:g}")
    else:
        in_percent(first.yaxis)
    for ax in axes[-1]:
        ax.set_xlabel(f"n, number of values ({study.attrs['datasets']:,} data sets each)")
    for ax in axes[:, 0]:
        ax.set_ylabel(label)
    handles = [Line2D([], [], marker="o", ms=4, label=line.name, **line.style) for line in _lines(study)]
    handles += extra or [Patch(color=GREY, alpha=0.2, label=f"± {ERRORS:g} Monte Carlo standard errors")]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2 if len(handles) > 3 else len(handles), frameon=False
    )


def _gain(study: xr.Dataset, name: str, what: str, how: str) -> str:
    """How much larger a variable is without the bounds, at most; its range where only one use of them was studied."""
    if study.sizes["constrained"] < 2:
        low, high = (figure_of(float(end)) for end in (study[name].min(), study[name].max()))
        return f"{what} {USES[bool(study['constrained'])]}: {low} to {high}"
    times = float((study[name].sel(constrained=False) / study[name].sel(constrained=True)).max())
    return f"ignoring the bounds makes {what} up to {times:.3g} times as {how}"


def _covered(study: xr.Dataset) -> str:
    """The least and the largest coverage."""
    least, most = (percent(float(end)) for end in (study["coverage"].min(), study["coverage"].max()))
    return f"{percent(float(study.attrs['prob']))} intervals cover in {least} to {most} of data sets"


def _epsilon(study: xr.Dataset, row: int) -> str:
    first, second = (float(study[f"epsilon_{part}"].values[row]) for part in ("mean", "variance"))
    return f"epsilon = {first:g} + {second:g}"
