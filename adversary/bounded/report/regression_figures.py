"""Figures of posteriors given the noisy sums of a regression: densities of the parameters, and the line.

Every function takes draws by name, the main posterior first, and draws axes with the finding as headline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from adversary._core import Floats, interval, percent
from adversary.bounded.regression import RegressionRelease
from adversary.bounded.report.posterior_words import COEFFICIENTS, shortest
from adversary.report.plot import marks, sheet

type Draws = Mapping[str, xr.Dataset]

# Cells of a density.
CELLS = 70

# Points along a line.
POINTS = 61


@sheet.house_style
def regression_marginals(draws: Draws, prob: float = 0.95) -> sheet.Panels:
    """Densities of intercept, slope and residual deviation; shortest interval of the first posterior shaded.

    Parameters
    ----------
    draws : by name; intercept, slope and sigma, dims (chain, draw)
    prob : of the shaded interval
    """
    axes = sheet.panels(3, 640.0, stacked=True)
    for ax, name in zip(axes, COEFFICIENTS, strict=True):
        values = {called: np.ravel(one[name].values) for called, one in draws.items()}
        edges = np.linspace(*_range(list(values.values())), CELLS + 1)
        low, high = shortest(next(iter(values.values())), prob)
        ax.axvspan(low, high, color=sheet.AFTER, alpha=0.12, lw=0, gid=f"interval {name}")
        for (called, drawn), colour in marks.coloured(values.items()):
            height, _ = np.histogram(drawn, edges)
            ax.stairs(height / (drawn.size * np.diff(edges)), edges, color=colour, lw=1.8, gid=f"{name} {called}")
        ax.set(xlim=(edges[0], edges[-1]))
        marks.density_axis(ax)
        ax.set_title(f"{COEFFICIENTS[name]}: {interval((low, high))}")
    shaded = Patch(color=sheet.AFTER, alpha=0.12, lw=0, label=f"shortest interval, {percent(prob)}")
    marks.key(axes, dict(marks.coloured(draws)), [shaded])
    ends = interval(shortest(np.ravel(next(iter(draws.values())).slope.values), prob))
    sheet.headline(
        axes, f"The slope is {ends} with probability {percent(prob)}",
        shape="Three panels of densities: intercept, slope and residual deviation.",
    )  # fmt: skip
    return axes


@sheet.house_style
def regression_lines(
    draws: Draws, release: RegressionRelease, prob: float = 0.95, *, x: str = "", y: str = "", ax: Axes | None = None
) -> Axes:
    """Regression line over the range of x: median, and pointwise band of probability `prob`.

    Values of y outside its bounds are grey.

    Parameters
    ----------
    draws : by name; intercept and slope, dims (chain, draw)
    release : with the bounds of x and y
    prob : of the band
    x, y : names of the axes
    ax : to draw on; a new figure if not given
    """
    ax = sheet.panel(ax)
    at, (low, high) = np.linspace(*release.x_bounds, POINTS), release.y_bounds
    tails = np.array([(1.0 - prob) / 2.0, 0.5, (1.0 + prob) / 2.0])
    bands: dict[str, Floats] = {}
    for i, ((name, one), colour) in enumerate(marks.coloured(draws.items())):
        heights = np.ravel(one.intercept.values)[:, None] + np.ravel(one.slope.values)[:, None] * at
        bands[name] = below, middle, above = np.quantile(heights, tails, axis=0)
        if i == 0:
            ax.fill_between(at, below, above, color=colour, alpha=0.18, lw=0, gid=f"band {name}")
        ax.plot(at, middle, color=colour, gid=name)
        for edge in (below, above):
            ax.plot(at, edge, color=colour, lw=1.2, ls="-" if i == 0 else marks.BOUND)
    floor, roof = (float(pick(list(bands.values()))) for pick in (np.min, np.max))
    room = 0.04 * (high - low)
    ax.set(xlim=(at[0], at[-1]), ylim=(min(floor, low) - room, max(roof, high) + room))
    for start, end in ((ax.get_ylim()[0], low), (high, ax.get_ylim()[1])):
        ax.axhspan(start, end, color=sheet.IMPOSSIBLE, lw=0, zorder=0, gid="impossible")
    ax.set(xlabel=x or "x", ylabel=y or "y")
    more: list[Any] = [Patch(color=sheet.AFTER, alpha=0.18, lw=0, label=f"band, {percent(prob)} at each x")]
    for name, colour in marks.coloured(list(draws)[1:], sheet.COLOURS[1:]):
        more.append(Line2D([], [], color=colour, lw=1.2, ls=marks.BOUND, label=f"band {name}"))
    beyond = Patch(color=sheet.IMPOSSIBLE, lw=0, label="beyond the bounds")
    marks.key(ax, dict(marks.coloured(draws)), [*more, beyond])
    up = float((next(iter(draws.values())).slope > 0.0).mean())
    sheet.headline(
        ax, f"The line rises with probability {percent(round(up, 2))}", "Median line, and its band at each place",
        shape="A line with its band over the range of the regressor.",
    )  # fmt: skip
    return ax


def _range(values: list[Floats]) -> tuple[float, float]:
    """Axis range from the 0.1% to the 99.9% quantile, over all sets of draws."""
    ends = np.quantile(values, [0.001, 0.999], axis=1)
    return float(ends[0].min()), float(ends[1].max())
