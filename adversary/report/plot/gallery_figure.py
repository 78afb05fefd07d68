"""Figure of the gallery: the bound of every release on one axis of log odds, and one adversary's expectation."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adversary._core import logit, percent
from adversary.report.plot import marks, sheet

EVEN = 0.5

# End of the axis; bounds beyond it are drawn there with an arrow head.
LAST = 0.9995

# Height of a row in pixels; more on a phone, where names take two lines.
PITCH = 23.0
PHONE_PITCH = 36.0


@sheet.house_style
def gallery(tree: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Bounds of many releases on one axis, and what one adversary expects, worst first, local releases apart.

    Parameters
    ----------
    tree : of `adversary.releases.gallery`: group "bounds" with `posterior` (release, relation, prior), `title` and
        `model`, and group "scenarios", if there is one, with `posterior` (release, prior) and `status`
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : with one row each.

    Raises
    ------
    ValueError : no release has a bound

    Examples
    --------
    >>> import adversary as adv, xarray as xr
    >>> bounds = xr.Dataset(
    ...     {"posterior": (("release", "relation", "prior"), [[[0.8], [0.9]], [[0.1], [0.2]]])},
    ...     {"release": ["one", "two"], "relation": ["stated", "replaced"], "prior": [0.01]},
    ... )
    >>> bounds = bounds.assign(title=("release", ["One", "Two"]), model=("release", ["central", "central"]))
    >>> ax = adv.plot.gallery(xr.DataTree.from_dict({"bounds": bounds}))
    >>> print(" ".join(ax.figure.get_suptitle().split()))
    Under 1 of 2 releases a suspicion of 1% can become the likelier possibility
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
    phone = sheet.size().stacked
    body = (PHONE_PITCH if phone else PITCH) * len(rows) + 60.0
    ax = sheet.panel(ax, body + 120.0)
    ax.set_ylim(len(rows) - 0.3, -0.9)
    start = min(prior, 0.01)
    ax.axvline(float(logit(prior)), color=sheet.INK, lw=1.2 * sheet.POINT, zorder=1, gid="prior")
    ax.axvline(float(logit(EVEN)), color=sheet.LINE, lw=sheet.POINT, zorder=0, gid="even")
    above = 0
    for place, name in enumerate(rows):
        if name is None:
            where: Any = {"xycoords": ("axes fraction", "data"), "xytext": (8, 0), "textcoords": "offset points"}
            head = fill("noise added by each person", 16 if phone else 40)
            made = ax.annotate(head, (0.0, place), va="center", fontweight="bold", **where)
            made.set_in_layout(False)
            continue
        row = bounds.sel(release=name)
        stated, replaced = (float(row["posterior"].sel(relation=one)) for one in ("stated", "replaced"))
        above += stated > EVEN
        _draw_row(ax, place, name, prior, (stated, replaced), expected.get(name))
    names = [str(bounds["title"].sel(release=one).item()) for one in rows if one]
    places = [i for i, one in enumerate(rows) if one]
    ax.set_yticks(places, [fill(name, 22) if phone else name for name in names])
    ax.tick_params(axis="y", length=0, labelcolor=sheet.INK, labelsize=sheet.POINT * sheet.NOTE)
    ax.spines["left"].set_visible(False)
    marks.odds_axis(ax, start / 1.3, LAST)
    ax.set_xlabel(fill(f"probability that the person is in, {percent(prior)} before", 34 if phone else 80))
    handles = [
        Line2D([], [], color=sheet.INK, lw=marks.BOUND_WIDTH, ls=marks.BOUND, label="bound for any adversary"),
        Line2D([], [], color=sheet.FINDING, lw=marks.BOUND_WIDTH, ls=marks.BOUND, label=f"bound over {percent(EVEN)}"),
        Line2D([], [], color=sheet.INK, ls="", marker="|", ms=8, mew=1.6, label="the same, a replaced unit"),
        Line2D([], [], color=sheet.AFTER, ls="", marker="o", ms=5, label="one adversary, on average"),
    ]
    marks.key(ax, {}, handles)
    total = bounds.sizes["release"]
    sheet.headline(
        ax, f"Under {above} of {total} releases a suspicion of {percent(prior)} can become the likelier possibility",
        f"What each published guarantee allows an adversary who starts from {percent(prior)}",
        shape=f"{total} rows of bounds, the largest on top: {names[0]}; the smallest at the end of its group.",
        body=body,
    )  # fmt: skip
    return ax


def _expected(tree: xr.DataTree) -> dict[str, float]:
    """Expected posterior at the first prior, by release, of the scenarios with status "ok"."""
    if "scenarios" not in tree:
        return {}
    scenarios = tree["scenarios"].to_dataset().isel(prior=0)
    scenarios = scenarios.isel(release=np.flatnonzero(scenarios["status"].values == "ok"))
    return dict(zip(map(str, scenarios["release"].values), scenarios["posterior"].values.tolist(), strict=True))


def _draw_row(ax: Axes, place: int, name: str, prior: float, most: tuple[float, float], mean: float | None) -> None:
    """Draw one release: its bound, that for a replaced unit, and one adversary's expected posterior if there is one."""
    colour = sheet.FINDING if most[0] > EVEN else sheet.INK
    ends = [float(logit(min(one, LAST))) for one in most]
    ax.plot([float(logit(prior)), ends[0]], [place, place], color=colour, lw=marks.BOUND_WIDTH * sheet.POINT,
            ls=marks.BOUND, zorder=2, gid=name)  # fmt: skip
    ax.plot(ends[0], place, ">" if most[0] > LAST else "s", color=colour, ms=5, mew=0, clip_on=False, zorder=3)
    if most[1] > most[0] * (1.0 + 1e-9):
        ax.plot(ends[1], place, "|", color=colour, ms=8, mew=1.6, clip_on=False, zorder=3)
    if mean is not None:
        at = float(logit(min(max(mean, 1e-3), LAST)))
        ax.plot(at, place, "o", color=sheet.AFTER, ms=5, mec=sheet.PAPER, clip_on=False, zorder=5)
