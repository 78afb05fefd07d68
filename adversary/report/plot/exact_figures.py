"""Figures on the cost of exact totals: shifts of the odds against bounds, beliefs about a table, lengths of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from adversary._core import Floats, format_probability, percent
from adversary.privacy.definitions import PureDP
from adversary.report.kit.audit_words import definition_words
from adversary.report.plot import marks, sheet

# Points of a curve.
_POINTS = 400


@sheet.house_style
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
    ax = sheet.panel(ax)
    reached = (float(np.abs(moved[weight > 1e-6]).max(initial=0.0)) for moved, weight in moves.values())
    most = 1.15 * max([*(end for end in ends.values() if np.isfinite(end)), *reached])
    at = np.linspace(0.0, most, _POINTS)
    drawn, colours = dict[bytes, tuple[Floats, list[str]]](), dict[str, str]()
    for name, (moved, weight) in moves.items():
        further = _share_beyond(np.abs(moved), weight, at)
        drawn.setdefault(np.round(further, 9).tobytes(), (further, []))[1].append(name)
    for (further, names), colour in marks.coloured(drawn.values()):
        text = ",\n".join(name or "the adversary" for name in names)
        ax.plot(at, further, color=colour, drawstyle="steps-post", gid=f"moved {names[0]}")
        colours[text] = colour
    ax.set(xlim=(0.0, most), ylim=(0.0, 1.12))
    texts = {"single_record_bound": "one record", "semi_adjacency_bound": f"a(t) = {limits.attrs['semi_adjacency']}"}
    for (key, text), colour in zip(texts.items(), (sheet.FINDING, sheet.INK), strict=True):
        if np.isfinite(ends[key]):
            ax.axvline(ends[key], color=colour, lw=1.6, ls=marks.BOUND, gid=key)
            place: Any = {"xytext": (5, 0), "textcoords": "offset points", "va": "top"}
            ax.annotate(text, (ends[key], 1.1), color=colour, **place)
    if list(moves) != [""]:
        marks.key(ax, colours)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda e, _: f"{e:g}\n×{_factor(e)}"))
    marks.in_percent(ax.yaxis)
    ax.set(xlabel="change of the log odds (nats), and of the odds", ylabel="releases that move them further")
    shape = f"{len(colours)} falling curve{'s' * (len(colours) > 1)}, dashed lines at the bounds."
    sheet.headline(ax, _moved_title(rows), "Share of releases beyond each change; dashed: bounds", shape=shape)
    return ax


def _factor(e: float) -> str:
    """exp(e) as text with three digits, numbers in the thousands written out."""
    factor = float(f"{np.exp(e):.3g}")
    return f"{factor:,.0f}" if 1e3 <= factor < 1e7 else f"{factor:g}"


def _telling(limits: xr.Dataset, names: list[str]) -> str:
    """Definition to draw: the first that releases exceed for a single record, else the one with the lowest bound."""
    selected = limits.sel(adversary=names, definition=~(limits["status"] == "violated").any("adversary"))
    passed = selected["single_record_exceeded"].any("adversary")
    order = selected["semi_adjacency_bound"].isel(adversary=0).where(~passed, -np.inf)
    return str(selected["definition"].values[int(np.argmin(order.values))])


def _share_beyond(size: Floats, weight: Floats, at: Floats) -> Floats:
    """Share of releases whose shift of the log odds is larger than each of `at`."""
    order = np.argsort(size)
    above = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(above[np.searchsorted(size[order], at * (1 + 1e-9) + 1e-12, side="right")])


def _moved_title(rows: xr.Dataset) -> str:
    """Title: the share of releases that exceed a definition for one record."""
    name, beyond = definition_words(str(rows["definition"].item())), rows["prob_beyond_single_record"].fillna(0.0)
    if not np.isfinite(rows["single_record_bound"][0]):
        return f"{name} sets no bound that is certain"
    if not bool(rows["single_record_exceeded"].any()):
        return f"No adversary exceeds {name} for one record"
    return f"{format_probability(float(beyond.max()))} of releases exceed {name} for one record"


@sheet.house_style
def table_beliefs(posterior: xr.Dataset, features: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Probability of each cell for a record: prior, given the margins, and after the release with its limits.

    Parameters
    ----------
    posterior : `prior`, `given` and, after a noisy release, `posterior` (row, column), probabilities; `odds_bound`, the
        limit of the log odds ratio, if there is one
    features : names of the two features, rows first
    ax : axes to draw on; a new figure by default

    Returns
    -------
    The axes.
    """
    cells = [(i, j) for i in range(posterior.sizes["row"]) for j in range(posterior.sizes["column"])]
    ax = sheet.panel(ax, 150.0 + sheet.PITCH * len(cells))
    steps = {"prior": ("before", sheet.INK), "given": ("with the margins", sheet.FINDING)}
    steps |= {"posterior": ("after the release", sheet.AFTER)} if "posterior" in posterior else {}
    place = np.arange(len(cells))[::-1]
    if "posterior" in posterior and "odds_bound" in posterior and np.isfinite(float(posterior["odds_bound"])):
        low, high = PureDP(float(posterior["odds_bound"])).posterior_bounds(posterior["given"].values.ravel())
        ax.hlines(place, low, high, color=sheet.AFTER, alpha=marks.BAND, lw=9, gid="limits")
    for name, (text, colour) in steps.items():
        ax.plot(posterior[name].values.ravel(), place, "o", color=colour, ms=7, mec=sheet.PAPER, label=text, gid=name)
    ax.set_yticks(place, [f"{features[0]} {i + 1}, {features[1]} {j + 1}" for i, j in cells])
    ax.set(xlim=(0.0, None), ylim=(-0.6, len(cells) - 0.4), xlabel="probability that an unknown record is in the cell")
    marks.in_percent(ax.xaxis)
    marks.key(ax, {}, ax.get_legend_handles_labels()[0])
    largest = float(np.nanmax(np.abs(np.log(posterior["invariant_ratio"].values[posterior["given"].values > 0]))))
    sheet.headline(
        ax, f"Margins alone change a cell's probability up to {float(np.exp(largest)):.2g}-fold",
        "An unknown record: before, with the margins, and after the noisy table",
        shape=f"Dots of {len(steps)} steps for each of {len(cells)} cells.", body=60.0 + sheet.PITCH * len(cells),
    )  # fmt: skip
    return ax


@sheet.house_style
def noise_costs(one: xr.Dataset) -> sheet.Panels:
    """Expected length of the noise made for the margins against the usual one, for changes of one number of records.

    Parameters
    ----------
    one : group `costs` of an invariants answer at one number of records: `own` (mechanism) and `naive` (baseline),
        expected lengths of noise in records; attributes `mu` and `epsilon`

    Returns
    -------
    Axes of two panels: Gaussian DP above, pure DP below.
    """
    own = {str(name): float(one["own"].sel(mechanism=name)) for name in one["mechanism"].values}
    usual = {str(name): float(one["naive"].sel(baseline=name)) for name in one["baseline"].values}
    pure, norms = ([name for name in names if name != "gaussian"] for names in (own, usual))
    panels = [
        (f"Gaussian DP, mu = {one.attrs['mu']:g}", ["gaussian"], ["gaussian"]),
        (f"Pure DP, epsilon = {one.attrs['epsilon']:g}", pure, norms),
    ]
    axes = sheet.panels(2, 470.0, stacked=True)
    for ax, (name, ours, theirs) in zip(axes, panels, strict=True):
        values = [*(own[k] for k in ours), *(usual[k] for k in theirs)]
        texts = [*(f"made for the margins\n({k})" for k in ours), *(f"usual ({k})" for k in theirs)]
        colours = [sheet.AFTER] * len(ours) + [sheet.QUIET] * len(theirs)
        place = np.arange(len(values))[::-1]
        ax.barh(place, values, color=colours, height=0.62)
        for y, value in zip(place, values, strict=True):
            beside: Any = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(f"{value:.2g}", (value, y), **beside)
        ax.set_yticks(place, texts)
        ax.set(xlim=(0.0, 1.18 * max(values)), xlabel="expected length of the noise (people)")
        ax.set_title(name)
    shorter = percent(1.0 - own["gaussian"] / usual["gaussian"])
    sheet.headline(
        axes, f"Gaussian noise made for the margins is {shorter} shorter", "Expected length of the noise by mechanism",
        shape="Bars for each mechanism, made for the margins and usual, in two panels.",
    )  # fmt: skip
    return axes
