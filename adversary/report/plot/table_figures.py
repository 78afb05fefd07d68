"""Figures of published tables: the risk of one person in every cell, by the people in it and by its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from adversary._core import percent
from adversary.report.plot import marks, sheet
from adversary.report.plot.interval_figures import at_most

# With more different cells than this, intervals would overlap and are left out.
MANY = 400

# Largest number of cells of a map in which numbers are written: more do not fit.
NUMBERED = 60

# From so many cells on, a map is drawn by a scale of colours.
COLOURED = 100


@sheet.house_style
def risk_by_count(
    cells: pd.DataFrame | xr.Dataset, *, prior: float | None = None, bound: float | None = None, ax: Axes | None = None
) -> Axes:
    """Average posterior of one person in every cell, by the people in it, with prior and bound.

    Cells that are alike on the page are one dot, the larger the more they are.

    Parameters
    ----------
    cells : of `adversary.audit_tables`: `posterior_mean`, `posterior_low`, `posterior_high` and `count` by row
    prior, bound : probabilities; those of the rows if not given, the bound the largest of them
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : people in the cell across, probability up.

    Raises
    ------
    ValueError : rows of several priors, and none given

    Examples
    --------
    >>> import adversary as adv, pandas as pd
    >>> data = pd.DataFrame({"block": ["a", "b", "c", "d"], "count": [0, 2, 5, 40]})
    >>> table = adv.PublishedTable(by=["block"], noise=adv.DiscreteGaussian.from_rho(0.1))
    >>> ax = adv.plot.risk_by_count(adv.audit_tables(data, [table]))
    >>> print(ax.figure.get_suptitle().split(";")[0])
    The riskiest cell goes from 50% to 52% on average
    """
    if prior is None:
        prior, *more = np.unique(cells["prior"])
        if more:
            raise ValueError(f"prior: the rows have {1 + len(more)}, say which one is drawn")
    bound = float(np.max(cells["bound"])) if bound is None else bound
    columns = ("count", "posterior_mean", "posterior_low", "posterior_high")
    rows = np.stack([np.asarray(cells[name]).astype(np.float64) for name in columns], axis=1)
    # cells that are alike on the page are one point, as large as they are many
    places, many = np.unique(np.round(rows, 4), axis=0, return_counts=True)
    count, risk, low, high = places.T
    ax = sheet.panel(ax)
    wide = places.shape[0] <= MANY
    if wide:
        ax.vlines(count, low, high, color=sheet.AFTER, alpha=marks.CORE, lw=3.0, gid="in 9 of 10 releases")
    ax.scatter(count, risk, s=16.0 + 26.0 * np.log10(many), color=sheet.AFTER, lw=0, gid="people")
    ax.set_xscale("symlog", linthresh=10.0)
    ax.set_xlim(-0.6, max(2.0, 1.15 * count.max()))
    ax.set_xlabel("people in the cell")
    _count_ticks(ax, float(count.max()))
    ax.set_ylim(0.0, min(1.0, 1.12 * max(bound, float(high.max()) if wide else 0.0, float(risk.max()))))
    for level, text, style in ((prior, "before", "-"), (bound, "bound", marks.BOUND)):
        ax.axhline(level, color=sheet.INK, ls=style, lw=1.2 * sheet.POINT, zorder=0, gid=text)
    marks.in_percent(ax.yaxis)
    ax.set_ylabel("probability that the person is in")
    worst = int(np.argmax(risk))
    title = f"The riskiest cell goes from {percent(prior)} to {percent(float(risk[worst]))} on average"
    sheet.headline(
        ax, f"{title}; the noise allows {at_most(bound)}",
        "Dots: average over releases" + "; lines: in 9 of 10 releases" * wide + "; larger dots: more cells", "",
        f"Dots for {rows.shape[0]:,} cells with {count.min():,.0f} to {count.max():,.0f} people, "
        f"between {percent(float(risk.min()))} and {percent(float(risk.max()))}.",
    )  # fmt: skip
    marks.edge_labels(ax, [(float(prior), "before", sheet.INK), (bound, "bound", sheet.INK)])
    return ax


def _count_ticks(ax: Axes, most: float) -> None:
    """Set whole-number ticks on an axis that is linear to ten and logarithmic beyond, as many as are legible."""
    steps, below = ((1, 2, 5), (1, 2, 5)) if most < 1000 and not sheet.size().stacked else ((1,), (5,))
    ticks = [0, *below, *(m * 10**e for e in range(1, 9) for m in steps)]
    shown = sorted({tick for tick in ticks if tick <= max(most, 1.0)})
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.set_xticks(shown, [f"{tick:,}" for tick in shown])
    ax.minorticks_off()


@sheet.house_style
def risk_map(
    cells: pd.DataFrame, rows: str, columns: str, *, measure: str = "posterior_mean", ax: Axes | None = None
) -> Axes:
    """Risk of one person in every cell of a table, the largest where several cells share a row and a column.

    Parameters
    ----------
    cells : of `adversary.audit_tables`
    rows, columns : names of its columns
    measure : a probability that is shown
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : with a cell for each pair.

    Raises
    ------
    ValueError : no such column

    Examples
    --------
    >>> import adversary as adv, pandas as pd
    >>> cells = [("a", "f", 1), ("a", "m", 7), ("b", "f", 3), ("b", "m", 0)]
    >>> data = pd.DataFrame(cells, columns=["block", "sex", "count"])
    >>> table = adv.PublishedTable(by=["block", "sex"], noise=adv.DiscreteGaussian.from_rho(0.3))
    >>> ax = adv.plot.risk_map(adv.audit_tables(data, [table]), "block", "sex")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('sex', 'block')
    """
    for name in (rows, columns, measure):
        if name not in cells:
            raise ValueError(f"cells: has no column {name!r}, only {[*cells]}")
    table = cells.pivot_table(index=rows, columns=columns, values=measure, aggfunc="max", sort=False)
    values = table.to_numpy(dtype=np.float64)
    tall, wide = values.shape
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    ax = sheet.panel(ax, max(sheet.size().height, sheet.PITCH * tall + 160.0))
    if values.size >= COLOURED:
        image: Any = ax.pcolormesh(values, cmap="viridis", vmin=least, vmax=most, rasterized=values.size > 4000)
        ticks = [least, 0.5 * (least + most), most]
        bar = sheet.figure_of(ax).colorbar(image, ax=ax, pad=0.02)
        bar.set_ticks(ticks, labels=[f"{percent(ticks[0])}, least", percent(ticks[1]), f"{percent(ticks[2])}, most"])
        bar.outline.set_visible(False)
    else:
        for (i, j), p in np.ndenumerate(values):
            if np.isfinite(p):
                share = (p - least) / (most - least) if most > least else 0.0
                worst = p == most > least + 5e-3
                ax.add_patch(
                    sheet.cell(j, i, sheet.FINDING if worst else sheet.AFTER, 0.06 + 0.32 * share, f"cell {i} {j}")
                )
                if values.size <= NUMBERED:
                    ax.text(j + 0.5, i + 0.5, percent(float(p)), ha="center", va="center",
                            fontweight="bold" if worst else "normal")  # fmt: skip
    ax.set(xlim=(0, wide), ylim=(tall, 0), xlabel=columns, ylabel=rows)
    every = max(1, -(-wide // (6 if sheet.size().stacked else 14))), max(1, tall // 40)
    for axis, names, step in ((ax.xaxis, table.columns, every[0]), (ax.yaxis, table.index, every[1])):
        shown = range(0, len(names), step)
        axis.set_ticks([i + 0.5 for i in shown], [str(names[i]) for i in shown])
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(False)
    worst_row = cells.loc[cells[measure].idxmax()]
    shared = int((np.abs(values - most) < 5e-5).sum())
    also = f", as in {shared - 1} more" if shared > 1 else ""
    sheet.headline(
        ax, f"The largest risk, {percent(most)}, is at {rows} {worst_row[rows]}, {columns} {worst_row[columns]}{also}",
        "Average posterior of one person in each cell", "",
        f"A map of {tall} by {wide} cells, from {percent(least)} to {percent(most)}.",
    )  # fmt: skip
    return ax
