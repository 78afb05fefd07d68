"""Figures of what totals published exactly cost: odds against their limits, beliefs about a table, and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from adversary._core import Floats, format_number, format_probability, percent
from adversary.privacy.definitions import PureDP
from adversary.report.kit.audit_words import definition_words
from adversary.report.plot import sheet as kit
from adversary.report.plot.sheet import Panels

_POINTS = 400


@kit.house_style
def odds_moved(limits: xr.Dataset, moves: Mapping[str, tuple[Floats, Floats]], *, ax: Axes | None = None) -> Axes:
    """Share of releases that move the odds beyond a factor, with the bounds that use and ignore the exact totals.

    Parameters
    ----------
    limits : of `exact_adversaries.solve`
    moves : by adversary, the shift of the log odds by every release, and its weight

    Raises
    ------
    ValueError : every adversary is certain before the noise is read
    """
    if not moves:
        raise ValueError("every adversary is sure before the noise is read")
    rows = limits.sel(definition=_telling(limits, list(moves)), adversary=list(moves))
    ends = {key: float(rows[key][0]) for key in ("single_record_bound", "semi_adjacency_bound")}
    ax = kit.panel(ax, 6.8, 4.6)
    reached = (float(np.abs(moved[weight > 1e-6]).max(initial=0.0)) for moved, weight in moves.values())
    most = 1.15 * max([*(end for end in ends.values() if np.isfinite(end)), *reached])
    at = np.linspace(0.0, most, _POINTS)
    drawn, colours = dict[bytes, tuple[Floats, list[str]]](), dict[str, str]()
    for name, (moved, weight) in moves.items():
        further = _share_beyond(np.abs(moved), weight, at)
        drawn.setdefault(np.round(further, 9).tobytes(), (further, []))[1].append(name)
    for (further, names), colour in kit.coloured(drawn.values()):
        text = ",\n".join(name or "the adversary" for name in names)
        ax.plot(at, further, color=colour, drawstyle="steps-post", gid=f"moved {names[0]}")
        colours[text] = colour
    ax.set(xlim=(0.0, most), ylim=(0.0, 1.12))
    texts = {"single_record_bound": "one record", "semi_adjacency_bound": f"a(t) = {limits.attrs['semi_adjacency']}"}
    for (key, text), colour in zip(texts.items(), (kit.BOUND_COLOURS[0], kit.INK), strict=True):
        if np.isfinite(ends[key]):
            ax.axvline(ends[key], color=colour, lw=1.6, ls=kit.BOUND, gid=key)
            place: Any = {"xytext": (5, 0), "textcoords": "offset points", "va": "top", "fontsize": 9.5}
            ax.annotate(text, (ends[key], 1.1), color=colour, **place)
    if list(moves) != [""]:
        kit.key(ax, colours, columns=2)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda e, _: f"{e:g}\n×{_factor(e)}"))
    kit.in_percent(ax.yaxis)
    ax.set(xlabel="change of the log odds, and of the odds, after the totals", ylabel="releases that move them further")
    kit.title(ax, _moved_title(rows))
    return ax


def _factor(e: float) -> str:
    """exp(e) in three digits, thousands written out."""
    factor = float(f"{np.exp(e):.3g}")
    return f"{factor:,.0f}" if 1e3 <= factor < 1e7 else f"{factor:g}"


def _telling(limits: xr.Dataset, names: list[str]) -> str:
    """The first definition that releases exceed if it is applied to one record; else the one with the lowest bound."""
    kept = limits.sel(adversary=names, definition=~(limits["status"] == "violated").any("adversary"))
    passed = kept["single_record_exceeded"].any("adversary")
    order = kept["semi_adjacency_bound"].isel(adversary=0).where(~passed, -np.inf)
    return str(kept["definition"].values[int(np.argmin(order.values))])


def _share_beyond(size: Floats, weight: Floats, at: Floats) -> Floats:
    """Share of releases that move the log odds by more than each of these."""
    order = np.argsort(size)
    above = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(above[np.searchsorted(size[order], at * (1 + 1e-9) + 1e-12, side="right")])


def _moved_title(rows: xr.Dataset) -> str:
    name, beyond = definition_words(str(rows["definition"].item())), rows["prob_beyond_single_record"].fillna(0.0)
    if not np.isfinite(rows["single_record_bound"][0]):
        return f"{name} sets no bound that is certain"
    if not bool(rows["single_record_exceeded"].any()):
        return f"No adversary exceeds {name} for one record"
    return f"{format_probability(float(beyond.max()))} of releases exceed {name} for one record"


@kit.house_style
def table_beliefs(found: xr.Dataset, features: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Probability of each cell for a record: prior, given the margins, and after the release with its limits."""
    cells = [(i, j) for i in range(found.sizes["row"]) for j in range(found.sizes["column"])]
    ax = kit.panel(ax, 6.8, 1.6 + 0.42 * len(cells))
    steps = {"prior": ("prior", kit.GREY), "given": ("given the margins", kit.COLOURS[1])}
    steps |= {"posterior": ("after the release", kit.BLUE)} if "posterior" in found else {}
    place = np.arange(len(cells))[::-1]
    if "posterior" in found and "odds_bound" in found and np.isfinite(float(found["odds_bound"])):
        low, high = PureDP(float(found["odds_bound"])).posterior_bounds(found["given"].values.ravel())
        ax.hlines(place, low, high, color=kit.BLUE, alpha=0.18, lw=9, gid="limits")
    for name, (text, colour) in steps.items():
        ax.plot(found[name].values.ravel(), place, "o", color=colour, ms=7, mec="white", label=text, gid=name)
    ax.set_yticks(place, [f"{features[0]} {i + 1}, {features[1]} {j + 1}" for i, j in cells])
    ax.set(xlim=(0.0, None), ylim=(-0.6, len(cells) - 0.4), xlabel="probability that an unknown record is in the cell")
    kit.in_percent(ax.xaxis)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(steps), frameon=False, fontsize=9.5)
    largest = float(np.nanmax(np.abs(np.log(found["invariant_ratio"].values[found["given"].values > 0]))))
    kit.title(ax, f"Margins alone change a cell's probability up to {format_number(float(np.exp(largest)))}-fold")
    return ax


@kit.house_style
def noise_costs(one: xr.Dataset) -> Panels:
    """Expected length of the noise made for the margins against the usual one, for changes of one number of records."""
    own = {str(name): float(one["own"].sel(mechanism=name)) for name in one["mechanism"].values}
    usual = {str(name): float(one["naive"].sel(baseline=name)) for name in one["baseline"].values}
    pure, norms = ([name for name in names if name != "gaussian"] for names in (own, usual))
    panels = [
        (f"Gaussian DP, mu = {one.attrs['mu']:g}", ["gaussian"], ["gaussian"]),
        (f"Pure DP, epsilon = {one.attrs['epsilon']:g}", pure, norms),
    ]
    axes = kit.panels(6.8, 5.6, 2)
    for ax, (name, ours, theirs) in zip(axes, panels, strict=True):
        values = [*(own[k] for k in ours), *(usual[k] for k in theirs)]
        texts = [*(f"made for the margins\n({k})" for k in ours), *(f"usual ({k})" for k in theirs)]
        colours = [kit.BLUE] * len(ours) + [kit.GREY] * len(theirs)
        place = np.arange(len(values))[::-1]
        ax.barh(place, values, color=colours, height=0.62)
        for y, value in zip(place, values, strict=True):
            beside: Any = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 9.5}
            ax.annotate(format_number(value), (value, y), **beside)
        ax.set_yticks(place, texts)
        ax.set(xlim=(0.0, 1.18 * max(values)), xlabel="expected length of the noise (people)")
        kit.panel_title(ax, name)
    shorter = percent(1.0 - own["gaussian"] / usual["gaussian"])
    kit.title(axes, f"Gaussian noise made for the margins is {shorter} shorter")
    return axes
