"""Every release on one axis of log odds: what its guarantee allows, and what one adversary expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from adversary._core import logit, percent
from adversary.report.plot import sheet as kit

LAST = 0.9995
"""End of the axis; bounds beyond it are drawn there with an arrow head."""
TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
EVEN = 0.5
PITCH = 0.205
"""Inches from row to row."""


@kit.house_style
def gallery(tree: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Bounds of many releases on one axis, and what one adversary expects, worst first, local releases apart.

    Parameters
    ----------
    tree : of `adversary.releases.gallery`: group "bounds" with `posterior` (release, relation, prior), `title` and
        `model`, and group "scenarios", if there is one, with `posterior` (release, prior) and `status`
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : no release has a bound
    """
    bounds = tree["bounds"].to_dataset().isel(prior=0)
    bounds = bounds.isel(release=np.flatnonzero(np.isfinite(bounds["posterior"].sel(relation="stated").values)))
    if not bounds.sizes["release"]:
        raise ValueError("no release has published parameters: there is nothing to draw")
    prior = float(bounds["prior"])
    expected = _expected(tree)
    local = bounds["model"].values == "local"
    rows: list[str | None] = [str(name) for name in bounds["release"].values[~local]]
    rows += [None, *map(str, bounds["release"].values[local])] if local.any() else []
    ax = kit.panel(ax, 10.2, 1.5 + PITCH * len(rows))
    start = min(prior, 0.01)
    ax.set(xlim=(logit(start) - 0.25, logit(LAST)), ylim=(len(rows) - 0.3, -0.9))
    for tick in TICKS:
        ax.axvline(float(logit(tick)), color=kit.LIGHT, lw=0.8, zorder=0)
    ax.axvline(float(logit(prior)), color=kit.INK, lw=1.2, zorder=1, gid="prior")
    above = 0
    for place, name in enumerate(rows):
        if name is None:
            where: Any = {"xycoords": ("axes fraction", "data"), "xytext": (14, 0), "textcoords": "offset points"}
            ax.annotate("noise added by each person", (0.0, place), va="center", fontsize=9, fontweight="bold", **where)
            continue
        row = bounds.sel(release=name)
        stated, replaced = (float(row["posterior"].sel(relation=one)) for one in ("stated", "replaced"))
        above += stated > EVEN
        _draw_row(ax, place, name, prior, (stated, replaced), expected.get(name))
    names = [str(bounds["title"].sel(release=one).item()) for one in rows if one]
    ax.set_yticks([i for i, one in enumerate(rows) if one], names)
    ax.tick_params(axis="y", length=0, labelsize=8.5)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(FixedLocator(logit(TICKS).tolist()))
    ax.xaxis.set_major_formatter(FixedFormatter([percent(tick) for tick in TICKS]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"probability that the person is in, for an adversary who believed {percent(prior)} before")
    handles: Any = [
        ax.plot([], [], color=kit.INK, lw=1.4, ls=kit.BOUND, label="any adversary: at most, as stated")[0],
        ax.plot([], [], "|", color=kit.INK, ms=8, mew=1.6, label="the same for a replaced unit")[0],
        ax.plot([], [], "o", color=kit.BLUE, ms=5, label="one adversary: expected")[0],
    ]
    kit.figure_of(ax).legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    total = bounds.sizes["release"]
    kit.title(ax, f"{above} of {total} releases let a belief of {percent(prior)} become the likelier possibility")
    return ax


def _expected(tree: xr.DataTree) -> dict[str, float]:
    """Expected posterior at the first prior by release, of the scenarios whose numbers stand."""
    if "scenarios" not in tree:
        return {}
    found = tree["scenarios"].to_dataset().isel(prior=0)
    found = found.isel(release=np.flatnonzero(found["status"].values == "ok"))
    return dict(zip(map(str, found["release"].values), found["posterior"].values.tolist(), strict=True))


def _draw_row(ax: Any, place: int, name: str, prior: float, most: tuple[float, float], mean: float | None) -> None:
    """The bound of one release, with its end, and what one adversary expects."""
    colour = kit.COLOURS[1] if most[0] > EVEN else kit.INK
    ends = [min(one, LAST) for one in most]
    ax.plot([logit(prior), logit(ends[0])], [place, place], color=colour, lw=1.4, ls=kit.BOUND, zorder=2, gid=name)
    marker = ">" if most[0] > LAST else "s"
    ax.plot(logit(ends[0]), place, marker, color=colour, ms=5, clip_on=False, zorder=3)
    if most[1] > most[0] * (1.0 + 1e-9):
        ax.plot(logit(ends[1]), place, "|", color=colour, ms=8, mew=1.6, clip_on=False, zorder=3)
    if mean is not None:
        at = logit(min(max(mean, 1e-3), LAST))
        ax.plot(at, place, "o", color=kit.BLUE, ms=5, mec="white", clip_on=False, zorder=5)
