"""Figures of a recommended epsilon: who needs it, what it keeps, what it costs in accuracy, what releases share of it.

Every function takes what the library returned and gives a matplotlib `Figure` with the finding in its title.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from adversary._core import as_array, outward
from adversary.desk.figures.epsilon_map import (
    BINDS,
    RARE,
    Slice,
    dot,
    free_prior,
    in_two_lines,
    outer_labels,
    panels,
    prior_axis,
    shown,
)
from adversary.desk.kit import (
    BLUE,
    COLOURS,
    GREY,
    LIGHT,
    edge_labels,
    panel_title,
    plain_log_axis,
    styled,
    title,
)
from adversary.policy.budget import BOUNDED, Recommendation, relative_risk_bound

RATIOS = {"largest possible": GREY, "tolerated": BINDS, "kept": BLUE}
"""Lines of ratios by name, and their colours."""


@styled
def tolerated_and_kept(recommended: Mapping[str, Recommendation]) -> Figure:
    """The ratio a profile tolerates and the bound that its epsilon keeps, on slices through the adversary who binds.

    Parameters
    ----------
    recommended : by name; those with a finite epsilon above 0 are drawn

    Raises
    ------
    ValueError : there is none
    """
    bounded = {name: one for name, one in recommended.items() if one.status == BOUNDED and one.epsilon > 0.0}
    if not bounded:
        raise ValueError("recommended must hold a finite epsilon above 0, got none: there is no bound to draw")
    single = len(bounded) == 1
    pairs = [(name, one, cut) for name, one in bounded.items() for cut in _slices(one, every=single)]
    figure, axes = panels(len(pairs))
    for ax, (name, one, cut) in zip(axes, pairs, strict=True):
        _ratios(ax, one, cut, small=not single)
        panel_title(ax, cut.words if single else in_two_lines(name))
    handles = [Line2D([], [], color=colour, label=text) for text, colour in RATIOS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    outer_labels(axes)
    (one, *others) = bounded.values()
    least = "" if others else f"At epsilon = {shown(one)} "
    title(figure, f"{least}no adversary exceeds the tolerated ratio")
    return figure


def _slices(one: Recommendation, *, every: bool) -> list[Slice]:
    """The slices through the adversary who binds: along the prior in which adversaries differ, or along both."""
    free = free_prior(one.profile)
    names = (free,) if free is not None else ("value", "inclusion") if every else ("value",)
    own = {"inclusion": one.inclusion, "value": one.value}
    fixed = {"inclusion": one.value, "value": one.inclusion}
    x = np.geomspace(RARE, 1.0, 401 if every else 151)
    ends = {"inclusion": one.profile.domain[0], "value": one.profile.domain[1]}
    return [Slice(name, fixed[name], np.union1d(x, np.maximum((own[name], *ends[name]), RARE))) for name in names]


def _ratios(ax: Axes, one: Recommendation, cut: Slice, *, small: bool) -> None:
    """Ratios along a slice."""
    p, q = cut.readers
    tolerated, most = as_array(one.profile(p, q)), 1.0 / (np.asarray(p) * q)
    reached = as_array(relative_risk_bound(p, q, one.epsilon, "upper", one.statistic))
    top = 1.0 + 2.5 * (float(reached.max()) - 1.0)
    prior_axis(ax, cut, min(float(cut.x[0]), RARE), small=small)
    ax.set(ylim=(1.0, top), ylabel="posterior / prior")
    room = np.minimum(np.minimum(tolerated, most), top)
    ax.fill_between(cut.x, reached, room, color=BLUE, alpha=0.1, lw=0, gid="spare")
    ax.fill_between(cut.x, np.minimum(most, top), top, color=LIGHT, lw=0, gid="impossible")
    ax.plot(cut.x, most, color=GREY, lw=1.2, gid="possible")
    ax.plot(cut.x, np.where(np.isfinite(tolerated), tolerated, np.nan), color=BINDS, gid="tolerated")
    ax.plot(cut.x, reached, color=BLUE, gid="kept")
    own = one.inclusion if cut.along == "inclusion" else one.value
    at = int(np.argmin(np.abs(cut.x - own)))
    dot(ax, (float(cut.x[at]), float(reached[at])), one)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda r, _: f"{r:g}"))


@styled
def per_release(curves: Mapping[str, xr.Dataset]) -> Figure:
    """What each of several releases may spend so that all together keep the profile, one line per composition.

    Parameters
    ----------
    curves : by name of the profile, from `adversary.policy.budget.release_curve`; what has no finite budget above 0
        is left out

    Raises
    ------
    ValueError : nothing has
    """
    single = len(curves) == 1
    figure, axes = panels(len(curves))
    every = [curve["parameter"] for curve in curves.values()]
    shown = [one.where((one > 0.0) & np.isfinite(one)) for one in every]
    if not any(bool(np.isfinite(one).any()) for one in shown):
        raise ValueError("curves must hold a finite budget above 0 to draw, got none")
    low, high = (pick([float(getattr(one, end)()) for one in shown]) for pick, end in ((min, "min"), (max, "max")))
    ways = [str(how) for how in shown[0]["composition"].values]
    for ax, (name, one) in zip(axes, zip(curves, shown, strict=True), strict=True):
        counts = as_array(one["releases"])
        ax.set(xscale="log", yscale="log", xlim=(1.0, counts[-1]), ylim=(0.8 * low, 1.15 * high))
        ax.set(xlabel="number of releases", ylabel="epsilon of each release")
        shares: dict[str, list[str]] = {}
        for how, colour in zip(ways, cycle(COLOURS), strict=False):
            line = as_array(one.sel(composition=how))
            ax.plot(counts, line, "o-", color=colour, ms=4, gid=how, zorder=2.0 + (how == "exact"))
            if np.isfinite(line[-1]):
                shares.setdefault(outward(float(line[-1]), False), []).append(how)
        last = dict(zip(ways, cycle(COLOURS), strict=False))
        labels = [(float(e), f"{', '.join(names)}: {e}", last[names[-1]]) for e, names in shares.items()]
        plain_log_axis(ax, "x", lambda n: f"{n:g}")
        plain_log_axis(ax, "y", lambda e: f"{e:g}")
        if single:
            edge_labels(ax, labels, counts[-1], offset=8.0)
        else:
            panel_title(ax, in_two_lines(name))
    if not single:
        handles = [Line2D([], [], color=c, label=how) for how, c in zip(ways, cycle(COLOURS), strict=False)]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(ways), frameon=False)
    outer_labels(axes)
    budgets = every[0].isel(releases=-1)
    most, count = float(budgets.where(np.isfinite(budgets), 0.0).max()), int(budgets["releases"])
    said = f"Each of {count} releases may spend epsilon = {outward(most, False)}"
    title(figure, said if single and most else f"What each of {count} releases may spend")
    return figure
