"""Figures of a whole spine: the risk of every block, posterior means against noisy counts, cells.

Every function takes columns of results, or summaries of them, and draws panels with the main finding as headline.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from adversary._core import Floats, check_positive, format_bound, percent
from adversary.census.nmf.runs import Columns, LevelFindings, blocks, column, levels_of
from adversary.report.plot import marks, sheet

# Bins of the histogram of ratios.
BINS = 60

# Number of points of a panel above which they are rasterised, so that a page stays small.
CLOUD = 4000


@sheet.house_style
def block_ratios(
    table: Columns,
    bounds: tuple[float, float] | None = None,
    threshold: float | None = None,
    failure: float = 0.0,
) -> sheet.Panels:
    """Distribution of the ratio of posterior to prior over all blocks: histogram, and share of blocks above any ratio.

    Parameters
    ----------
    table : columns `ratio` and, optionally, `status`: only proven blocks count, including ratios of 0, which a
        logarithmic axis cannot show; with a column `protected`, shares beyond the bounds are of these blocks
    bounds : smallest and largest ratio that the guarantee allows, drawn dashed
    threshold : ratio at which a share is marked
    failure : failure probability of the bounds, over releases
    """
    proven = blocks(table, "ratio")
    ratio = proven[proven > 0]
    if not ratio.size:
        raise ValueError("no block has a proven ratio" + " above zero" * bool(proven.size))
    protected = proven[column(table, "protected")] if "protected" in table else proven
    axes = spread, beyond = sheet.panels(2)
    least, most = bounds or (float(ratio.min()), float(ratio.max()))
    shown_values = [ratio.min(), ratio.max(), threshold or ratio.max(), *(x for x in (least, most) if 0 < x < np.inf)]
    low, high = 0.93 * min(shown_values), 1.07 * max(shown_values)
    spread.set(xscale="log", xlim=(low, high), ylabel="blocks", xlabel="posterior over prior")
    spread.hist(ratio, np.geomspace(low, high, BINS + 1), color=sheet.AFTER, alpha=0.75, lw=0, gid="blocks")
    spread.yaxis.set_major_locator(MaxNLocator(integer=True))
    sorted_ratios = np.sort(ratio)
    share = np.arange(sorted_ratios.size, 0, -1) / proven.size
    beyond.plot(sorted_ratios, share, color=sheet.AFTER, drawstyle="steps-pre", gid="beyond")
    beyond.set(yscale="log", ylim=(0.7 / proven.size, 1.4))
    beyond.set(ylabel="share of blocks at or above", xlabel="posterior over prior")
    for ax in (spread, beyond):
        ax.axvline(1.0, color=sheet.QUIET, lw=1.0, zorder=0, gid="unmoved")
        for end, name in ((least, "least"), (most, "largest")):
            if bounds and 0 < end < np.inf:
                ax.axvline(end, color=sheet.INK, lw=1.4, ls=marks.BOUND, gid=name)
                side = -1 if name == "largest" else 1
                text = f"{'bound' if name == 'largest' else name} {format_bound(end, name == 'largest', 3)}"
                ax.annotate(
                    text, (end, 0.97), (4.0 * side, 0.0),
                    xycoords=("data", "axes fraction"), textcoords="offset points", rotation=90,
                    ha="right" if side < 0 else "left", va="top",
                )  # fmt: skip
    beyond_bound = percent(float((protected > most).mean())) if bounds and protected.size else ""
    claim = ""
    if threshold is not None:
        check_positive("threshold", threshold)
        share_above = float((proven >= threshold).mean())
        if share_above > 0:
            beyond.plot(
                [threshold], [share_above], "o", color=sheet.FINDING, ms=7, mec=sheet.PAPER, zorder=5, gid="threshold"
            )
        within = "" if beyond_bound == "" else f"; {beyond_bound.replace(percent(0.0), 'none')} are beyond the bound"
        claim = f"In {percent(1.0 - share_above)} of blocks the probability grows less than {threshold:g}-fold{within}"
    marks.plain_log_axis(spread, "x")
    marks.plain_log_axis(beyond, "y", percent)
    spread.set_title("blocks by ratio")
    beyond.set_title("share of blocks at or above a ratio")
    median, percentile_99 = (f"{float(x):.2g}" for x in np.quantile(proven, (0.5, 0.99)))
    note = "Grey line: an adversary who learns nothing."
    if failure and bounds:
        note += f" Bounds may fail in 1 of {1.0 / failure:.0f} releases." if failure < 1.0 else ""
    sheet.headline(
        axes,
        claim or f"In half of all blocks the probability grows {median}-fold or more, in 1 of 100 {percentile_99}-fold",
        "How much the posterior that a person is in exceeds the prior, block by block", note,
        f"{proven.size:,} blocks: the middle one at {median}, 1 in 100 above {percentile_99}.",
    )  # fmt: skip
    return axes


@sheet.house_style
def shrinkage(table: Columns | Mapping[str, LevelFindings]) -> sheet.Panels:
    """Posterior mean against noisy count, by level, with the diagonal; axes are linear near zero, then logarithmic.

    Units without a measurement, and levels with one measured unit, are not drawn.

    Parameters
    ----------
    table : columns `level`, `noisy`, `mean` and, to exclude exact counts, `variance` (0 for these); or `LevelFindings`
        by level

    Raises
    ------
    ValueError : no level has two measured units
    """
    levels = _levels(table)
    shown = {name: one for name, one in levels.items() if one.measured > 1}
    if not shown:
        raise ValueError("no level has two units that were measured")
    rows = -(-len(shown) // 3)
    columns = -(-len(shown) // rows)
    grid = sheet.grid(len(shown), columns, 300.0)
    for ax, (name, one) in zip(grid, shown.items(), strict=False):
        _cloud(ax, one.points, name, one.measured)
    grid[0].set_ylabel("posterior mean, people")
    name, lowest = list(shown.items())[-1]
    sheet.headline(
        grid,
        f"The model corrects {name} counts by {float(np.sqrt(lowest.squares / lowest.measured)):.2g} people; "
        f"{percent(lowest.below / lowest.measured)} had been published negative",
        "Posterior mean against noisy count; line: not corrected",
        shape=f"Clouds of points for {len(shown)} levels, close to the diagonal where counts are large.",
    )
    return grid


@sheet.house_style
def cell_ratios(cells: Any, most: int = 40, *, ax: Axes | None = None) -> Axes:
    """Ratios of posterior to prior by cell: from the median block to the largest, with the 95 % quantile.

    Parameters
    ----------
    cells : Dataset over "cell" of `label`, `half`, `high` and `largest`, in the order of the rows
    most : number of cells to draw, the first ones
    """
    drawn = cells.isel(cell=np.flatnonzero(np.isfinite(cells["largest"].values))[:most])
    if not drawn.sizes["cell"]:
        raise ValueError("no cell has a proven ratio")
    count = drawn.sizes["cell"]
    heights = np.arange(count)[::-1]
    ax = sheet.panel(ax, 24.0 * count + 160.0)
    half, high, largest = (np.maximum(drawn[name].values, 1e-12) for name in ("half", "high", "largest"))
    ax.hlines(heights, half, largest, color=sheet.AFTER, lw=3.0, alpha=0.4, gid="spread")
    ax.plot(high, heights, "|", color=sheet.INK, ms=8, gid="most")
    ax.plot(largest, heights, "o", color=sheet.AFTER, ms=4, gid="largest")
    ax.axvline(1.0, color=sheet.QUIET, lw=1.0, zorder=0)
    names = [str(name) for name in drawn["label"].values]
    ax.set_yticks(heights, [fill(name, 22 if sheet.size().stacked else 44) for name in names])
    ax.tick_params(axis="y", labelsize=sheet.POINT * sheet.NOTE)
    ax.set(xscale="log", xlabel="posterior over prior", ylim=(-0.8, count - 0.2))
    marks.plain_log_axis(ax, "x")
    rest = f" (the first {count} of {cells.sizes['cell']})" * (cells.sizes["cell"] > count)
    first = names[int(np.argmax(largest))]
    sheet.headline(
        ax, f"The largest ratio of posterior to prior is {float(largest.max()):.2g}, in {first}",
        f"Line: from the median block to the largest; tick: 95% of blocks stay below{rest}",
        shape=f"{count} rows of ratios by cell.",
    )  # fmt: skip
    return ax


@sheet.house_style
def block_cells(cells: Any, most: int = 24, *, ax: Axes | None = None) -> Axes:
    """Noisy counts, posterior means and sets of the cells of one block with the largest posterior means.

    Parameters
    ----------
    cells : Dataset over "row" of `query`, `label`, `noisy`, `noise_sd`, `mean`, `hdi_lower` and `hdi_upper`
    most : number of cells to draw
    """
    mean = cells["mean"].values
    order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:most][::-1]
    if not np.isfinite(mean[order]).any():
        raise ValueError("no cell has a posterior")
    ax = sheet.panel(ax, 30.0 * order.size + 160.0)
    heights, (low, high) = np.arange(order.size), (cells[name].values[order] for name in ("hdi_lower", "hdi_upper"))
    noisy, sd = cells["noisy"].values[order], np.nan_to_num(cells["noise_sd"].values[order])
    ax.hlines(heights, low, high, color=sheet.AFTER, lw=5.0, alpha=0.35, gid="sets")
    ax.plot(mean[order], heights, "o", color=sheet.AFTER, ms=5, gid="means")
    ax.errorbar(noisy, heights - 0.25, xerr=sd, fmt="o", color=sheet.FINDING, ms=3, lw=1.0, gid="noisy")
    names = [f"{q}: {c}" for q, c in zip(cells["query"].values[order], cells["label"].values[order], strict=True)]
    ax.set_yticks(heights, [fill(name, 22 if sheet.size().stacked else 44) for name in names])
    ax.tick_params(axis="y", labelsize=sheet.POINT * sheet.NOTE)
    ax.set(xlabel="people", ylim=(-0.8, order.size - 0.2))
    ax.axvline(0.0, color=sheet.LINE, lw=1.0, zorder=0)
    most_people = int(order[-1])
    sheet.headline(
        ax, f"The cell with the most people, {names[-1]}, holds {mean[most_people]:.2g} by the model",
        f"The {order.size} largest of {mean.size:,} cells; orange: noisy counts with their noise",
        shape=f"{order.size} rows: noisy count, posterior mean and interval of each cell.",
    )  # fmt: skip
    return ax


def _levels(table: Any) -> Mapping[str, LevelFindings]:
    """Summaries by level, from columns of results or as given."""
    first = next(iter(table.values()), None) if isinstance(table, Mapping) else None
    return table if isinstance(first, LevelFindings) else levels_of(table)


def _cloud(ax: Axes, points: Floats, name: str, measured: int) -> None:
    """Draw the points (noisy, mean) of one level on asinh axes, with ticks at round numbers."""
    noisy, mean = points
    width = max(float(np.median(np.abs(noisy))) / 2.0, 2.0)
    low, high = min(float(noisy.min()), 0.0), max(float(noisy.max()), float(mean.max()), 1.0)
    ax.set_xscale("asinh", linear_width=width)
    ax.set_yscale("asinh", linear_width=width)
    ax.plot([low, high], [low, high], color=sheet.QUIET, lw=1.0, zorder=1, gid="diagonal")
    ax.axhline(0.0, color=sheet.LINE, lw=1.0, zorder=0)
    alpha = float(np.clip(40.0 / np.sqrt(noisy.size) / 2.0, 0.12, 0.8))
    style: Any = {"alpha": alpha, "gid": name, "rasterized": noisy.size > CLOUD}
    ax.plot(noisy, mean, "o", ms=3, mew=0, color=sheet.AFTER, zorder=2, **style)
    ticks = _round_ticks(low, high, width)
    ax.set_xticks(ticks, [f"{t:,.0f}" for t in ticks])
    ax.set_yticks(ticks, [f"{t:,.0f}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel("noisy count, people")
    ax.set_title(f"{name}, {measured:,} measured")


def _round_ticks(low: float, high: float, width: float) -> list[float]:
    """Ticks of an asinh axis: zero and powers of ten that do not overlap; if too few, also the rounded upper end."""
    size = 10.0 ** np.arange(0, 10)
    size = size[size >= 0.8 * width]
    ticks = [-float(t) for t in size[::-1] if -t >= low] + [0.0] + [float(t) for t in size if t <= high]
    return ticks if len(ticks) > 2 else sorted({*ticks, float(f"{high:.1g}")})
