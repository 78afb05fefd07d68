"""Figures of a whole spine: the risk of every block, what the posterior makes of noisy counts, errors.

Every function takes the columns of results, or what was made of them, and gives a matplotlib `Figure` with the finding
in its title.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from adversary._core import Floats, check_positive, format_bound, format_number, percent
from adversary.census.nmf.runs import Columns, LevelFindings, blocks, column, levels_of
from adversary.report.plot import sheet as kit
from adversary.report.plot.sheet import Panels

BINS = 60
CLOUD = 4000
"""Points of a panel above which they are drawn as pixels, so that a page stays small."""


@kit.house_style
def block_ratios(
    table: Columns,
    bounds: tuple[float, float] | None = None,
    threshold: float | None = None,
    failure: float = 0.0,
) -> Panels:
    """The ratio of posterior to prior over all blocks: how they are spread, and the share beyond any ratio.

    Parameters
    ----------
    table : with `ratio`, and `status` if there is one: only proven answers count, ratios of 0 among them, which a
        logarithmic axis cannot show; with `protected` as well, shares beyond the bounds are of the blocks it says
    bounds : least and largest ratio that the guarantee allows, dashed
    threshold : a ratio to read a share off at
    failure : with which the bounds may fail
    """
    everywhere = blocks(table, "ratio")
    ratio = everywhere[everywhere > 0]
    if not ratio.size:
        raise ValueError("no block has a proven ratio" + " above zero" * bool(everywhere.size))
    inside = everywhere[column(table, "protected")] if "protected" in table else everywhere
    axes = spread, beyond = kit.panels(11.0, 4.8, 1, 2, sharex=True)
    least, most = bounds or (float(ratio.min()), float(ratio.max()))
    reach = [ratio.min(), ratio.max(), threshold or ratio.max(), *(x for x in (least, most) if 0 < x < np.inf)]
    low, high = 0.93 * min(reach), 1.07 * max(reach)
    spread.set(xscale="log", xlim=(low, high), ylabel="blocks", xlabel="posterior over prior")
    spread.hist(ratio, np.geomspace(low, high, BINS + 1), color=kit.BLUE, alpha=0.75, lw=0, gid="blocks")
    spread.yaxis.set_major_locator(MaxNLocator(integer=True))
    at = np.sort(ratio)
    share = np.arange(at.size, 0, -1) / everywhere.size
    beyond.plot(at, share, color=kit.BLUE, drawstyle="steps-pre", gid="beyond")
    beyond.set(yscale="log", ylim=(0.7 / everywhere.size, 1.4))
    beyond.set(ylabel="share of blocks at or above", xlabel="posterior over prior")
    for ax in (spread, beyond):
        ax.axvline(1.0, color=kit.GREY, lw=1.0, zorder=0, gid="unmoved")
        for end, name in ((least, "least"), (most, "largest")):
            if bounds and 0 < end < np.inf:
                ax.axvline(end, color=kit.INK, lw=1.4, ls=kit.BOUND, gid=name)
                side = -1 if name == "largest" else 1
                ax.annotate(
                    f"{name} allowed, {format_bound(end, name == 'largest', 3)}", (end, 0.97), (4.0 * side, 0.0),
                    xycoords=("data", "axes fraction"), textcoords="offset points", rotation=90, fontsize=9,
                    ha="right" if side < 0 else "left", va="top",
                )  # fmt: skip
    said = f"{percent(float((inside > most).mean()))} of blocks above the bound" if bounds and inside.size else ""
    if threshold is not None:
        check_positive("threshold", threshold)
        over = float((everywhere >= threshold).mean())
        if over > 0:
            beyond.plot([threshold], [over], "o", color=kit.ORANGE, ms=7, mec="white", zorder=5, gid="threshold")
        said = f"{percent(over)} of blocks at {threshold:g} or more{', ' * bool(said)}{said}"
    kit.plain_log_axis(spread, "x")
    kit.plain_log_axis(beyond, "y", percent)
    kit.panel_title(spread, "grey: an adversary who learns nothing")
    kit.panel_title(beyond, f"bounds may fail with probability {percent(failure)}" if failure and bounds else "")
    if not said:
        half, rare = (format_number(float(x)) for x in np.quantile(everywhere, (0.5, 0.99)))
        said = f"half of all blocks above {half}, one in a hundred above {rare}"
    kit.title(axes, f"A person's presence, block by block: {said}")
    return axes


@kit.house_style
def shrinkage(table: Columns | Mapping[str, LevelFindings]) -> Panels:
    """Posterior mean against noisy count, level by level, with the diagonal; axes are linear about zero, then log.

    `table` has `level`, `noisy`, `mean`, and `variance` if exact counts, 0 there, are to be left out; or is what was
    found level by level, as `Findings` have it. Units that were not measured are left out, and levels of one unit.
    """
    levels = _levels(table)
    shown = {name: one for name, one in levels.items() if one.measured > 1}
    if not shown:
        raise ValueError("no level has two units that were measured")
    rows = -(-len(shown) // 3)
    columns = -(-len(shown) // rows)
    grid = kit.panels(max(3.9 * columns, 6.0), 0.6 + 3.9 * rows, rows, columns, squeeze=False)
    grid = grid.ravel()
    for ax, (name, one) in zip(grid, shown.items(), strict=False):
        _cloud(ax, one.points, name, one.measured)
    for ax in grid[len(shown) :]:
        ax.set_axis_off()
    grid[0].set_ylabel("posterior mean, people")
    name, last = list(shown.items())[-1]
    kit.title(
        grid,
        f"{name} counts move by {format_number(float(np.sqrt(last.squares / last.measured)))} people (root mean "
        "square); "
        f"{percent(last.below / last.measured)} of them were published below zero",
    )
    return grid[: len(shown)]


@kit.house_style
def cell_ratios(cells: Any, most: int = 40, *, ax: Axes | None = None) -> Axes:
    """Ratios of posterior to prior by cell: from the median block to the largest, with what 95% of blocks stay below.

    Parameters
    ----------
    cells : Dataset over "cell" of `label`, `half`, `high` and `largest`, in the order of the rows
    most : cells that are drawn, the first ones
    """
    some = cells.isel(cell=np.flatnonzero(np.isfinite(cells["largest"].values))[:most])
    if not some.sizes["cell"]:
        raise ValueError("no cell has a proven ratio")
    count = some.sizes["cell"]
    at = np.arange(count)[::-1]
    ax = kit.panel(ax, 9.0, 1.6 + 0.22 * count)
    half, high, largest = (np.maximum(some[name].values, 1e-12) for name in ("half", "high", "largest"))
    ax.hlines(at, half, largest, color=kit.BLUE, lw=3.0, alpha=0.4, gid="spread")
    ax.plot(high, at, "|", color=kit.INK, ms=8, gid="most")
    ax.plot(largest, at, "o", color=kit.BLUE, ms=4, gid="largest")
    ax.axvline(1.0, color=kit.GREY, lw=1.0, zorder=0)
    names = [str(name) for name in some["label"].values]
    ax.set_yticks(at, [name if len(name) <= 60 else f"{name[:59]}..." for name in names], fontsize=7)
    ax.set(xscale="log", xlabel="posterior over prior", ylim=(-0.8, count - 0.2))
    kit.plain_log_axis(ax, "x")
    rest = f" (the first {count} of {cells.sizes['cell']})" * (cells.sizes["cell"] > count)
    kit.title(ax, f"Largest ratios by cell, {format_number(float(largest.max()))} the most{rest}")
    return ax


@kit.house_style
def block_cells(cells: Any, most: int = 24, *, ax: Axes | None = None) -> Axes:
    """Cells of one block with the largest posterior means: noisy counts with their noise, posterior means and sets.

    Parameters
    ----------
    cells : Dataset over "row" of `query`, `label`, `noisy`, `noise_sd`, `mean`, `hdi_lower` and `hdi_upper`
    most : cells that are drawn
    """
    mean = cells["mean"].values
    order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:most][::-1]
    if not np.isfinite(mean[order]).any():
        raise ValueError("no cell has a posterior")
    ax = kit.panel(ax, 9.0, 1.6 + 0.3 * order.size)
    at, (low, high) = np.arange(order.size), (cells[name].values[order] for name in ("hdi_lower", "hdi_upper"))
    noisy, sd = cells["noisy"].values[order], np.nan_to_num(cells["noise_sd"].values[order])
    ax.hlines(at, low, high, color=kit.BLUE, lw=5.0, alpha=0.35, gid="sets")
    ax.plot(mean[order], at, "o", color=kit.BLUE, ms=5, gid="means")
    ax.errorbar(noisy, at - 0.25, xerr=sd, fmt="o", color=kit.ORANGE, ms=3, lw=1.0, gid="noisy")
    names = [f"{q}: {c}" for q, c in zip(cells["query"].values[order], cells["label"].values[order], strict=True)]
    ax.set_yticks(at, [name if len(name) <= 56 else f"{name[:55]}..." for name in names], fontsize=8)
    ax.set(xlabel="people", ylim=(-0.8, order.size - 0.2))
    ax.axvline(0.0, color=kit.LIGHT, lw=1.0, zorder=0)
    kit.title(ax, f"{order.size} of {mean.size:,} cells: what the posterior makes of noisy counts")
    return ax


def _levels(table: Any) -> Mapping[str, LevelFindings]:
    first = next(iter(table.values()), None) if isinstance(table, Mapping) else None
    return table if isinstance(first, LevelFindings) else levels_of(table)


def _cloud(ax: Axes, points: Floats, name: str, measured: int) -> None:
    """One level, (noisy, mean): an asinh axis in both directions, with ticks at round numbers."""
    noisy, mean = points
    width = max(float(np.median(np.abs(noisy))) / 2.0, 2.0)
    low, high = min(float(noisy.min()), 0.0), max(float(noisy.max()), float(mean.max()), 1.0)
    ax.set_xscale("asinh", linear_width=width)
    ax.set_yscale("asinh", linear_width=width)
    ax.plot([low, high], [low, high], color=kit.GREY, lw=1.0, zorder=1, gid="diagonal")
    ax.axhline(0.0, color=kit.LIGHT, lw=1.0, zorder=0)
    alpha = float(np.clip(40.0 / np.sqrt(noisy.size) / 2.0, 0.12, 0.8))
    ax.plot(
        noisy, mean, "o", ms=3, mew=0, color=kit.BLUE, alpha=alpha, zorder=2, gid=name, rasterized=noisy.size > CLOUD,
    )  # fmt: skip
    ticks = _round_ticks(low, high, width)
    ax.set_xticks(ticks, [f"{t:,.0f}" for t in ticks])
    ax.set_yticks(ticks, [f"{t:,.0f}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel("noisy count, people")
    kit.panel_title(ax, f"{name}, {measured:,} measured")


def _round_ticks(low: float, high: float, width: float) -> list[float]:
    """Zero and powers of ten that an asinh axis of this width keeps apart; where too few, halves of the range."""
    size = 10.0 ** np.arange(0, 10)
    size = size[size >= 0.8 * width]
    ticks = [-float(t) for t in size[::-1] if -t >= low] + [0.0] + [float(t) for t in size if t <= high]
    return ticks if len(ticks) > 2 else sorted({*ticks, float(f"{high:.1g}")})
