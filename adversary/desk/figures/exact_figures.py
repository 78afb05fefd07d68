"""Figures of what totals published exactly cost: odds against their limits, beliefs about a table, and noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from adversary._core import Floats, figure_of, percent, share
from adversary.desk.kit import (
    BLUE,
    BOUND,
    BOUND_COLOURS,
    COLOURS,
    GREY,
    INK,
    in_percent,
    panel_title,
    styled,
    telling,
    title,
)
from adversary.desk.kit.audit_words import called

_POINTS = 400


@styled
def odds_moved(found: Mapping[str, Any], moves: Mapping[str, tuple[Floats, Floats]]) -> Figure:
    """How often releases move the odds by more than a factor, against the limits with and without the exact totals.

    Parameters
    ----------
    found : the summary of `exact_readers`
    moves : by reader, how far every release moves the log odds, and its share

    Raises
    ------
    ValueError : no reader is left to move
    """
    if not moves:
        raise ValueError("every reader is sure before the noise is read")
    definition = _telling(found, moves)
    limits = found["readers"][next(iter(moves))]["bounds"][definition]
    figure = Figure(figsize=(9.6, 4.9), layout="constrained")
    ax = figure.subplots()
    ends = [limits[key] for key in ("naive", "semi_limit") if limits[key] is not None]
    reached = (float(np.abs(moved[weight > 1e-6]).max(initial=0.0)) for moved, weight in moves.values())
    most = 1.15 * max([*ends, *reached])
    at = np.linspace(0.0, most, _POINTS)
    drawn: dict[bytes, tuple[Floats, list[str]]] = {}
    for name, (moved, weight) in moves.items():
        further = _beyond(np.abs(moved), weight, at)
        drawn.setdefault(np.round(further, 9).tobytes(), (further, []))[1].append(name)
    for (further, names), colour in zip(drawn.values(), COLOURS * len(drawn), strict=False):
        text = ",\n".join(name or "the reader" for name in names)
        ax.plot(at, further, color=colour, drawstyle="steps-post", label=text, gid=f"moved {names[0]}")
    ax.set(xlim=(0.0, most), ylim=(0.0, 1.12))
    after = f"a(t) = {found['published']['used']} records"
    for key, text, colour in (("naive", "one record: no bound", BOUND_COLOURS[0]), ("semi_limit", after, INK)):
        if limits[key] is not None:
            ax.axvline(limits[key], color=colour, lw=1.6, ls=BOUND, gid=key)
            place: Any = {"xytext": (5, 0), "textcoords": "offset points", "va": "top", "fontsize": 9.5}
            ax.annotate(text, (limits[key], 1.1), color=colour, **place)
    if list(moves) != [""]:
        ax.legend(loc="center right", framealpha=1.0, edgecolor="none", fontsize=9.5)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda e, _: f"{e:g}\n×{_factor(e)}"))
    in_percent(ax.yaxis)
    ax.set(xlabel="change of the log odds, and of the odds, after the totals", ylabel="releases that move them further")
    title(figure, _moved_title(found, moves, definition))
    return figure


def _factor(e: float) -> str:
    """exp(e) in three digits, thousands written out."""
    factor = float(f"{np.exp(e):.3g}")
    return f"{factor:,.0f}" if 1e3 <= factor < 1e7 else f"{factor:g}"


def _telling(found: Mapping[str, Any], moves: Mapping[str, Any]) -> str:
    """The first promise that releases pass when it is read for one record; else the kept one with the lowest limit."""
    kept, passed = telling(found, moves)
    first = found["readers"][next(iter(moves))]["bounds"]
    limits: dict[str, float] = {key: first[key]["semi_limit"] or np.inf for key in kept}
    return passed[0] if passed else min(limits, key=limits.__getitem__)


def _beyond(size: Floats, weight: Floats, at: Floats) -> Floats:
    """Share of releases that move the log odds by more than each of these."""
    order = np.argsort(size)
    above = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(above[np.searchsorted(size[order], at * (1 + 1e-9) + 1e-12, side="right")])


def _moved_title(found: Mapping[str, Any], moves: Mapping[str, Any], definition: str) -> str:
    rows = {name: found["readers"][name]["bounds"][definition] for name in moves}
    worst = max(rows.values(), key=lambda row: row["naive_outside"] or 0.0)
    if worst["naive"] is None:
        return f"{called(definition)} sets no limit that holds for certain"
    said = f"Beside exact totals {called(definition)} for one record is no bound"
    if not worst["naive_broken"]:
        return f"{said}, though releases pass it no more often than it may fail"
    return f"{said}: {share(worst['naive_outside'])} of releases lead beyond it"


@styled
def table_beliefs(found: xr.Dataset, features: tuple[str, str]) -> Figure:
    """Where a record is believed to be: before anything, given the margins, after the release, with its limits."""
    cells = [(i, j) for i in range(found.sizes["row"]) for j in range(found.sizes["column"])]
    figure = Figure(figsize=(9.6, 1.6 + 0.42 * len(cells)), layout="constrained")
    ax = figure.subplots()
    steps = {"prior": ("before anything", GREY), "given": ("given the margins", COLOURS[1])}
    steps |= {"posterior": ("after the release", BLUE)} if "posterior" in found else {}
    place = np.arange(len(cells))[::-1]
    if "posterior" in found and "odds_bound" in found and np.isfinite(float(found["odds_bound"])):
        low, high = _limits(found)
        ax.hlines(place, low, high, color=BLUE, alpha=0.18, lw=9, gid="limits")
    for name, (text, colour) in steps.items():
        ax.plot(found[name].values.ravel(), place, "o", color=colour, ms=7, mec="white", label=text, gid=name)
    ax.set_yticks(place, [f"{features[0]} {i + 1}, {features[1]} {j + 1}" for i, j in cells])
    ax.set(xlim=(0.0, None), ylim=(-0.6, len(cells) - 0.4), xlabel="probability that an unknown record is in the cell")
    in_percent(ax.xaxis)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(steps), frameon=False, fontsize=9.5)
    largest = float(np.nanmax(np.abs(np.log(found["invariant_ratio"].values[found["given"].values > 0]))))
    bars = "; bars: as far as the promise lets the release move it" if "posterior" in found else ""
    factor = figure_of(float(np.exp(largest)))
    title(figure, f"The margins alone change a cell's probability by a factor of up to {factor}{bars}")
    return figure


def _limits(found: xr.Dataset) -> tuple[Floats, Floats]:
    """Ends of the posterior that the odds bound allows, for each cell."""
    given, bound = found["given"].values.ravel(), float(found["odds_bound"])
    ends = [given * np.exp(sign * bound) / (1.0 - given + given * np.exp(sign * bound)) for sign in (-1.0, 1.0)]
    return ends[0], ends[1]


@styled
def noise_costs(costs: xr.Dataset, records: int) -> Figure:
    """Expected length of the noise made for the margins against the usual one, for changes of so many records."""
    one = costs.sel(adjacency=records)
    own = {str(name): float(one["own"].sel(mechanism=name)) for name in one["mechanism"].values}
    usual = {str(name): float(one["naive"].sel(baseline=name)) for name in one["baseline"].values}
    pure, norms = ([name for name in names if name != "gaussian"] for names in (own, usual))
    panels = [
        (f"Gaussian DP, mu = {costs.attrs['mu']:g}", ["gaussian"], ["gaussian"]),
        (f"Pure DP, epsilon = {costs.attrs['epsilon']:g}", pure, norms),
    ]
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    for ax, (name, ours, theirs) in zip(figure.subplots(1, 2), panels, strict=True):
        values = [*(own[k] for k in ours), *(usual[k] for k in theirs)]
        texts = [*(f"made for the margins\n({k})" for k in ours), *(f"usual ({k})" for k in theirs)]
        colours = [BLUE] * len(ours) + [GREY] * len(theirs)
        place = np.arange(len(values))[::-1]
        ax.barh(place, values, color=colours, height=0.62)
        for y, value in zip(place, values, strict=True):
            beside: Any = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 9.5}
            ax.annotate(figure_of(value), (value, y), **beside)
        ax.set_yticks(place, texts)
        ax.set(xlim=(0.0, 1.18 * max(values)), xlabel="expected length of the noise (people)")
        panel_title(ax, name)
    shorter = percent(1.0 - own["gaussian"] / usual["gaussian"])
    title(
        figure,
        f"For changes of {records} records Gaussian noise made for the margins is {shorter} shorter than the usual",
    )
    return figure
