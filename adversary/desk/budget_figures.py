"""Figures of a recommended epsilon: who needs it, what it keeps, what it costs in accuracy, what releases share of it.

Every function takes what the library returned and gives a matplotlib `Figure` with the finding in its title.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from adversary._numeric import Floats, as_array
from adversary.desk.drawing import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    LIGHT,
    apart,
    edge_labels,
    panel_title,
    plain_log_axis,
    styled,
)
from adversary.desk.marks import Label, in_percent, ticks_right, title
from adversary.desk.reader_maps import (
    BINDS,
    RARE,
    Slice,
    dot,
    free_prior,
    outer_labels,
    panels,
    prior_axis,
    short,
)
from adversary.desk.reader_maps import epsilon_by_reader as epsilon_by_reader
from adversary.desk.words import figure_of, outward, percent, share
from adversary.policy.recommendations import BOUNDED, Recommendation
from adversary.policy.risks import relative_risk_bound

BELOW = (0, (4, 2))
"""Line style of true rates below the target."""


@styled
def tolerated_and_kept(recommended: Mapping[str, Recommendation]) -> Figure:
    """The ratio a profile tolerates and the bound that its epsilon keeps, on slices through the reader who binds.

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
    labels: list[Label] = []
    for ax, (name, one, cut) in zip(axes, pairs, strict=True):
        labels = _ratios(ax, one, cut, small=not single)
        panel_title(ax, cut.words if single else short(name))
        if single:
            ticks_right(ax)
            edge_labels(ax, labels, ax.get_xlim()[0], offset=-8.0)
    if not single:
        handles = [Line2D([], [], color=colour, label=text) for _, text, colour in labels]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    outer_labels(axes)
    title(figure, _spare(bounded))
    return figure


def _slices(one: Recommendation, *, every: bool) -> list[Slice]:
    """The slices through the reader who binds: along the prior in which readers differ, or along both."""
    free = free_prior(one.profile)
    names = (free,) if free is not None else ("value", "inclusion") if every else ("value",)
    own = {"inclusion": one.inclusion, "value": one.value}
    fixed = {"inclusion": one.value, "value": one.inclusion}
    x = np.geomspace(RARE, 1.0, 401)
    ends = {"inclusion": one.profile.domain[0], "value": one.profile.domain[1]}
    return [Slice(name, fixed[name], np.union1d(x, np.maximum((own[name], *ends[name]), RARE))) for name in names]


def _ratios(ax: Axes, one: Recommendation, cut: Slice, *, small: bool) -> list[Label]:
    """Tolerated, kept and possible ratios along a slice, and their labels at its left end."""
    p, q = cut.readers
    tolerated, most = as_array(one.profile(p, q)), 1.0 / (np.asarray(p) * q)
    kept = as_array(relative_risk_bound(p, q, one.epsilon, "upper", one.statistic))
    top = 1.0 + 2.5 * (float(kept.max()) - 1.0)
    prior_axis(ax, cut.along, min(float(cut.x[0]), RARE), small=small)
    ax.set(ylim=(1.0, top), ylabel="posterior / prior")
    ax.fill_between(cut.x, kept, np.minimum(np.minimum(tolerated, most), top), color=BLUE, alpha=0.1, lw=0, gid="spare")
    ax.fill_between(cut.x, np.minimum(most, top), top, color=LIGHT, lw=0, gid="impossible")
    ax.plot(cut.x, most, color=GREY, lw=1.2, gid="possible")
    ax.plot(cut.x, np.where(np.isfinite(tolerated), tolerated, np.nan), color=BINDS, gid="tolerated")
    ax.plot(cut.x, kept, color=BLUE, gid="kept")
    own = one.inclusion if cut.along == "inclusion" else one.value
    at = int(np.argmin(np.abs(cut.x - own)))
    dot(ax, (float(cut.x[at]), float(kept[at])), one)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda r, _: f"{r:g}"))
    ends = [min(float(line[0]), top) for line in (most, tolerated, kept)]
    return list(zip(ends, ("largest possible", "tolerated", "kept"), (GREY, BINDS, BLUE), strict=True))


def _spare(bounded: Mapping[str, Recommendation]) -> str:
    """The finding: where the tolerance is used up."""
    if len(bounded) > 1:
        return "Each tolerance is used up by the reader who binds (dot), and kept with room to spare by the others"
    (one,) = bounded.values()
    start = f"At epsilon = {outward(one.epsilon, False)} the tolerance is used up by"
    return f"{start} {'one reader (dot)' if one.attained else 'readers ever closer to the open dot'}; others have room"


@styled
def accuracy(table: xr.Dataset) -> Figure:
    """Error of the noise, and how often the published rate is on the wrong side of its target, against epsilon.

    Parameters
    ----------
    table : from `adversary.policy.utility.tradeoff_table`; profiles whose noise has no error are left out. Of a single
        one wrong decisions are drawn against the distance of the true rate from the target.

    Raises
    ------
    ValueError : no profile is left
    """
    errors = as_array(table["rmse"])
    table = table.isel(profile=np.flatnonzero(np.isfinite(errors) & (errors > 0.0))).sortby("epsilon")
    if not table.sizes["profile"]:
        raise ValueError("table must hold a profile with noise to draw, got none")
    each = f" of each of {table.attrs['releases']} releases" if table.attrs["releases"] > 1 else ""
    if table.sizes["profile"] == 1:
        return _accuracy_of_one(table.isel(profile=0), each)
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    error, wrong = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.25))
    epsilon = as_array(table["epsilon"])
    room = max(epsilon[-1] / epsilon[0], 1.5) ** 0.04
    error.set(xscale="log", xlim=(epsilon[0] / room, epsilon[-1] * room), ylabel="RMSE, in people")
    error.plot(epsilon, table["rmse"], "o-", color=INK, ms=5, gid="rmse")
    labels: list[Label] = []
    for deviation, colour in zip(table["deviation"].values, cycle(COLOURS), strict=False):
        for side in table["side"].values:
            chance = as_array(table["switch"].sel(deviation=deviation, side=side))
            style: Any = {"ls": BELOW, "zorder": 3} if side == "below" else {}
            wrong.plot(epsilon, chance, marker="o", color=colour, ms=5, gid=f"{deviation:g} {side}", **style)
            if np.isfinite(chance[0]):
                labels.append((float(chance[0]), f"{1000.0 * deviation:.4g} {side}", colour))
    wrong.set(xlabel="epsilon", ylabel="wrong decisions")
    in_percent(wrong.yaxis)
    for ax in (error, wrong):
        ax.set_ylim(0.0, ax.get_ylim()[1])
        ax.vlines(epsilon, *ax.get_ylim(), color=GREY, lw=0.6, zorder=0)
        ticks_right(ax)
    plain_log_axis(wrong, "x", lambda e: f"{e:g}")
    edge_labels(wrong, labels, float(epsilon[0]), offset=-8.0)
    _names_above(error, epsilon, [str(name) for name in table["profile"].values])
    panel_title(wrong, "How far the true rate is from the target, per 1,000, and on which side (dashed: below)")
    first, last = table.isel(profile=0), table.isel(profile=-1)
    title(
        figure,
        f"From epsilon = {outward(epsilon[0], False)} to {outward(epsilon[-1], False)} the RMSE{each} falls from "
        f"{figure_of(float(first['rmse']))} to {figure_of(float(last['rmse']))}, and wrong decisions from at most "
        f"{share(float(first['switch'].max()))} to at most {share(float(last['switch'].max()))}",
    )
    return figure


def _accuracy_of_one(row: xr.Dataset, each: str) -> Figure:
    """Wrong decisions against the true rate."""
    figure, (ax,) = panels(1)
    signs = xr.DataArray([1.0 if side == "above" else -1.0 for side in row["side"].values], dims="side")
    x = as_array(1000.0 * (row.attrs["target"] + signs * row["deviation"])).ravel()
    chance = as_array(row["switch"].transpose("side", "deviation")).ravel()
    order = [i for i in np.argsort(x) if np.isfinite(chance[i])]
    ax.vlines(x[order], 0.0, chance[order], color=LIGHT, lw=1.4, zorder=0)
    ax.plot(x[order], chance[order], "o", color=BLUE, ms=7, gid="wrong")
    ax.axvline(1000.0 * row.attrs["target"], color=BINDS, lw=1.2, ls=(0, (4, 3)), gid="target")
    ax.set(xlabel="true rate, per 1,000 (dashed: the target)", ylabel="wrong decisions", xticks=np.unique(x[order]))
    ax.set_ylim(0.0, 1.15 * float(np.nanmax(chance)) or 1.0)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
    in_percent(ax.yaxis)
    for i in order:
        ax.annotate(share(float(chance[i])), (x[i], chance[i]), xytext=(0.0, 7.0), textcoords="offset points",
                    ha="center", fontsize=9.5, color=INK)  # fmt: skip
    shown = outward(float(row["epsilon"]), False)
    error = figure_of(float(row["rmse"]))
    what = "and a rate near its target is on the wrong side of it in up to"
    title(figure, f"At epsilon = {shown} the RMSE{each} is {error}, {what} {share(float(np.nanmax(chance)))}")
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


@styled
def per_release(curves: Mapping[str, xr.Dataset]) -> Figure:
    """What each of several releases may spend so that all together keep the profile, one line per composition.

    Parameters
    ----------
    curves : by name of the profile, from `adversary.policy.promises.release_curve`; what has no finite budget above 0
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
            panel_title(
                ax,
                _agreed(curves[name]),
            )
        else:
            panel_title(ax, short(name))
    if not single:
        handles = [Line2D([], [], color=c, label=how) for how, c in zip(ways, cycle(COLOURS), strict=False)]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(ways), frameon=False)
    outer_labels(axes)
    title(figure, _shared(next(iter(curves.values())), single))
    return figure


def _agreed(curve: xr.Dataset) -> str:
    """What is shared, and how surely it is kept."""
    chance = float(curve.attrs["failure"])
    sure = f"together they may fail to keep the profile with probability {percent(chance)}" if chance else "for certain"
    return f"{curve.attrs['definition']}; {sure}"


def _shared(curve: xr.Dataset, single: bool) -> str:
    """The finding: what a release gets under the best and the plainest composition."""
    last = curve["parameter"].isel(releases=-1)
    last = last.where(np.isfinite(last), 0.0)
    count, basic = int(last["releases"]), float(last.sel(composition="basic"))
    if not single or not float(last.max()):
        return f"What {count} releases may spend each, so that together they keep the profile"
    best = str(last["composition"].values[int(np.argmax(last.values))])
    start = f"Each of {count} releases may spend epsilon = {outward(float(last.max()), False)} by {best} composition"
    return start if best == "basic" or not basic else f"{start}, {outward(basic, False)} by adding up"
