"""Maps: the posterior over two inputs, and the risk of every cell of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import FuncFormatter

from adversary._core import percent
from adversary.report.plot import sheet as kit
from adversary.report.plot.sensitivity_figures import INPUTS, input_value


@kit.house_style
def posterior_map(
    swept: xr.Dataset, *, truth: str = "in", measure: str = "posterior_mean", ax: Axes | None = None
) -> Axes:
    """Expected posterior over two inputs, white where the release leaves the adversary at the prior.

    Parameters
    ----------
    swept : of `adversary.sensitivity.sweep` over two inputs
    truth : "in" or "out"
    measure : "posterior_mean", drawn as its difference from the prior
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : not two inputs
    """
    found = swept[measure].sel(truth=truth)
    if found.ndim != 2:
        raise ValueError(f"swept must be over two inputs, got {found.dims}")
    across, up = (str(dim) for dim in found.dims)
    prior = swept["prior"] if "prior" in swept.dims else found.min()
    moved = (found - prior).transpose(up, across)
    reach = max(float(np.abs(moved).max()), 1e-9)
    ax = kit.panel(ax, 7.2, 4.0)
    image = ax.imshow(
        moved.values, origin="lower", aspect="auto", cmap="RdBu_r", norm=TwoSlopeNorm(0.0, -reach, reach),
    )  # fmt: skip
    for axis, dim in ((ax.xaxis, across), (ax.yaxis, up)):
        axis.set_ticks(range(swept.sizes[dim]), [input_value(dim, str(one)) for one in swept[dim].values])
        axis.set_label_text(INPUTS.get(dim, dim))
    bar = kit.figure_of(ax).colorbar(image, ax=ax)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:+.0f}"))
    bar.set_label("points from the prior")
    kit.headline(ax, f"The expected posterior moves by up to {100 * reach:.2g} points")
    return ax


@kit.house_style
def risk_map(
    found: pd.DataFrame, rows: str, columns: str, *, measure: str = "posterior_mean", ax: Axes | None = None
) -> Axes:
    """Risk of one person in every cell of a table, the largest where several cells share a row and a column.

    Parameters
    ----------
    found : of `adversary.audit_tables`
    rows, columns : names of its columns
    measure : what is shown
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : no such column
    """
    for name in (rows, columns, measure):
        if name not in found:
            raise ValueError(f"found: has no column {name!r}, only {[*found]}")
    table = found.pivot_table(index=rows, columns=columns, values=measure, aggfunc="max", sort=False)
    ax = kit.panel(ax, 7.2, 4.0)
    image = ax.imshow(table.to_numpy(), aspect="auto", cmap="viridis")
    ax.set_xticks(range(table.shape[1]), map(str, table.columns))
    ax.set_yticks(range(table.shape[0]), map(str, table.index))
    ax.set(xlabel=columns, ylabel=rows)
    bar = kit.figure_of(ax).colorbar(image, ax=ax)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: percent(x)))
    worst = found.loc[found[measure].idxmax()]
    kit.headline(ax, f"The largest risk, {percent(worst[measure])}, is at {worst[rows]}, {worst[columns]}")
    return ax
