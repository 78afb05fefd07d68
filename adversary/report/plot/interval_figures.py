"""Interval figures with a row for each adversary or plan: prior, expected posterior, 90 % interval and bound."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from adversary._core import logit, percent, percentage
from adversary.driver import OWN, shown_bound
from adversary.report.kit import group_of_adversary
from adversary.report.kit.audit_words import bound_name, unreliable
from adversary.report.plot import marks, sheet

MOST_ROWS = 12

# If priors differ by more than this factor, the axis is one of log odds.
WIDE = 10.0

# Height of a band in pixels.
THICK = 12.0

# Where an axis of probabilities may end below 100%.
ROUND_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75)

# Share of the axis that the words on the prior, the average and the bound take beside each other.
BESIDE = 0.22


class Row(NamedTuple):
    """Row of an interval figure: prior, expected posterior, 90 % interval over releases, and bounds."""

    name: str
    prior: float
    mean: float
    low: float
    high: float
    least: float
    most: float


def odds_words(name: str, prior: float) -> str:
    """Name of an adversary for a row: odds in words if it is their prior as a fraction, or if there is no name.

    Parameters
    ----------
    name : of the adversary
    prior : their prior

    >>> odds_words("1/5", 0.2), odds_words("", 0.5), odds_words("neighbour", 0.5)
    ('1 in 5', 'even odds', 'neighbour')
    """
    try:
        is_prior = not name or float(Fraction(name)) == prior
    except (ValueError, ZeroDivisionError):
        is_prior = False
    if not is_prior or not 0.0 < prior < 1.0:
        return name or percent(prior)
    return "even odds" if prior == 0.5 else f"1 in {1.0 / prior:,.0f}" if _is_whole(1.0 / prior) else percent(prior)


def _is_whole(x: float) -> bool:
    """True for a whole number, up to rounding."""
    return abs(x - round(x)) < 1e-9 * x


def at_most(p: float, upper: bool = True) -> str:
    """Bound on a probability in percent, rounded outward to three digits.

    Parameters
    ----------
    p : probability
    upper : False for a lower bound
    """
    return percentage(p, upper)


@sheet.house_style
def before_after(audit: xr.DataTree | pd.DataFrame | xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Prior, average posterior, 90 % interval over releases and bound: a row for each adversary or row of a table.

    Parameters
    ----------
    audit : of `adversary.audit`, under one truth; or at most twelve rows of a table with `prior`, `posterior_mean`,
        `posterior_low`, `posterior_high` and `bound`, as of `adversary.audit_tables`, named by the index
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : with one row each, the largest prior on top.

    Raises
    ------
    ValueError : no row, or more than twelve

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> adversaries = {"even odds": adv.Adversary(0.5), "1 in 5": adv.Adversary(0.2), "1 in 50": adv.Adversary(0.02)}
    >>> tree = adv.audit(plan, adversaries, {"block": 1}, guarantee=adv.ZeroConcentratedDP(0.1))
    >>> ax = adv.plot.before_after(tree)
    >>> print(adv.plot.alt_text(ax).split(";")[0])
    One noisy count moves a 20% suspicion to 23% on average
    """
    if not isinstance(audit, xr.DataTree):
        return _of_table(audit, ax)
    risk, bound = audit["risk"].to_dataset(), shown_bound(audit["bound"].to_dataset())
    every = []
    for name in map(str, risk["adversary"].values) if "adversary" in risk.dims else [""]:
        one, limits = group_of_adversary(risk, name), group_of_adversary(bound, name)["posterior"]
        low, high = (float(one["posterior_quantile"][i]) for i in (0, -1))
        least, most = (float(limits.sel(side=side)) for side in ("lower", "upper"))
        prior = float(one["prior"])
        every.append(Row(odds_words(name, prior), prior, float(one["posterior_mean"]), low, high, least, most))
    every.sort(key=lambda row: -row.prior)
    release = audit["release"].to_dataset()
    unit = str(release["level"].values[0])
    ax = interval_rows(every, f"probability that the person is in the {unit}", ax)
    truth = str(audit.attrs.get("target", "in"))
    one_count = release.sizes["level"] * release.sizes.get("cell", 1) == 1
    worst = max(every, key=lambda row: abs(row.mean - row.prior))  # whom the page's headline names
    allows = "the noise" if str(bound["definition"].values.flat[0]) == OWN else "the guarantee"
    title = f"{'One noisy count' if one_count else 'The release'} {moved_words(worst)} on average"
    if np.isfinite(worst.most) and not unreliable(risk):
        title += f"; {allows} allows {at_most(worst.most)}"
    failure = float(bound["failure"].max())
    sheet.headline(
        ax, title, f"The person is {'in' if truth == 'in' else 'not in'} the {unit}; averages over releases",
        f"Bound: by {bound_name(bound)}, for any adversary{beyond_words(failure)}.", shape_words(every),
        body=_body(len(every)),
    )  # fmt: skip
    return ax


def beyond_words(failure: float) -> str:
    """Clause on the failure probability of a bound, to follow it; "" if it is certain."""
    if not failure:
        return ""
    return ", in all but 1 of 20 releases" if failure == 0.05 else f", with probability {percent(1.0 - failure)}"


def moved_words(row: Row) -> str:
    """Clause on the change from prior to expected posterior, to follow a subject."""
    before, after = percent(row.prior), percent(row.mean)
    if before == after:
        return f"leaves a {before} suspicion at {after}"
    return f"moves a {before} suspicion to {after}"


def shape_words(rows: Sequence[Row]) -> str:
    """Alternative text of rows: their number, the first and the last."""
    first, last = rows[0], rows[-1]
    first_text = f"{first.name}: before {percent(first.prior)}, after {percent(first.mean)}, "
    first_text += f"in 9 of 10 releases {percent(first.low)} to {percent(first.high)}, bound {at_most(first.most)}"
    more = f"; the last, {last.name}: {percent(last.prior)} and {percent(last.mean)}" if len(rows) > 1 else ""
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} of intervals. The first, {first_text}{more}."


def _of_table(cells: pd.DataFrame | xr.Dataset, ax: Axes | None) -> Axes:
    """Figure of the rows of a table, as of `audit_tables`."""
    table = cells.to_dataframe() if isinstance(cells, xr.Dataset) else cells
    if not 1 <= len(table) <= MOST_ROWS:
        raise ValueError(f"audit must hold 1 to {MOST_ROWS} rows to draw, got {len(table)}: use .head({MOST_ROWS})")
    columns = ["prior", "posterior_mean", "posterior_low", "posterior_high", "bound"]
    every = [
        Row(str(name), *(float(one) for one in (*values[:4], 0.0, values[4])))
        for name, values in zip(table.index, table[columns].to_numpy(), strict=True)
    ]
    ax = interval_rows(every, "probability that the person is in the cell", ax)
    worst = max(every, key=lambda row: row.mean)
    title = f"The largest risk goes from {percent(worst.prior)} to {percent(worst.mean)} on average"
    title += f"; the noise allows {at_most(worst.most)}" * bool(np.isfinite(worst.most))
    sheet.headline(ax, title, "Each row is one person; averages over releases", shape=shape_words(every),
                   body=_body(len(every)))  # fmt: skip
    return ax


@sheet.house_style
def compared_ranges(compared: xr.Dataset) -> Axes:
    """Plans on one axis: prior, expected posterior, 9 of 10 releases and bound of every truth and adversary.

    Parameters
    ----------
    compared : group `compared` of a comparison: `prior`, `posterior_mean`, `low`, `high` and `bound` (file, truth,
        adversary), probabilities

    Returns
    -------
    The axes.
    """
    places = compared.stack(row=("truth", "adversary", "file")).dropna("row", subset=["posterior_mean"])
    every = []
    for i, labels in enumerate(places["row"].values):
        one = places.isel(row=i)
        prior, mean, low, high, most = (float(one[key]) for key in ("prior", "posterior_mean", "low", "high", "bound"))
        every.append(Row(", ".join(filter(None, map(str, labels))), prior, mean, low, high, 0.0, most))
    ax = interval_rows(every, "probability that the person is in", None)
    means = compared["posterior_mean"].max([dim for dim in compared["posterior_mean"].dims if dim != "file"])
    ends = [means.isel(file=int(pick(means.values))) for pick in (np.argmin, np.argmax)]
    first, last = (f"{percent(float(one))} with {one['file'].item()}" for one in ends)
    sheet.headline(
        ax, f"The largest risk is {first}, {last}" if first != last else f"The largest risk is {last}",
        "Averages over releases", shape=shape_words(every), body=_body(len(every)),
    )  # fmt: skip
    return ax


def _body(count: int) -> float:
    """Height in pixels of axes with so many rows, the texts over the first and the axis below the last."""
    return sheet.PITCH * count + 110.0


def interval_rows(every: Sequence[Row], label: str, ax: Axes | None) -> Axes:
    """Draw a row each, and name the marks on the first.

    Parameters
    ----------
    every : rows, the first on top
    label : of the axis of probabilities
    ax : to draw on; a new figure if not given
    """
    ax = sheet.panel(ax, _body(len(every)) + 80.0)
    wide = max(row.prior for row in every) > WIDE * min(row.prior for row in every) > 0.0

    def at(p: float) -> float:
        return float(logit(min(max(p, ends[0]), ends[1]))) if wide else p

    inside = [p for row in every for p in (row.least, row.low, row.mean, row.high, row.most) if 0.0 < p < 1.0]
    ends = (0.6 * min(inside, default=0.01), 1.0 - 0.6 * (1.0 - max(inside, default=0.99)))
    for i, row in enumerate(every):
        most = row.most if np.isfinite(row.most) else 1.0
        low, high = at(row.least if wide else max(row.least, 0.0)), at(most)
        ax.plot([low, high], [i, i], color=sheet.INK, lw=sheet.POINT * marks.BOUND_WIDTH, ls=marks.BOUND, zorder=1,
                gid=f"bound {row.name}")  # fmt: skip
        ax.plot([low, high], [i, i], "|", color=sheet.INK, ms=9, mew=1.0, zorder=1)
        ax.plot([at(row.low), at(row.high)], [i, i], color=sheet.PAPER, lw=sheet.POINT * THICK,
                solid_capstyle="butt", zorder=2)  # fmt: skip
        ax.plot([at(row.low), at(row.high)], [i, i], color=sheet.AFTER, lw=sheet.POINT * THICK, alpha=marks.CORE,
                solid_capstyle="butt", zorder=2, gid=f"90% {row.name}")  # fmt: skip
        # down to the band's lower edge, below which the first row is named
        foot = i + 0.5 * THICK / sheet.PITCH
        ax.vlines(at(row.prior), i - 0.28, foot, color=sheet.INK, lw=sheet.POINT * 2.0, zorder=3,
                  gid=f"prior {row.name}")  # fmt: skip
        ax.plot(at(row.mean), i, "o", color=sheet.AFTER, mec=sheet.PAPER, mew=0.8, zorder=4,
                gid=f"expected {row.name}")  # fmt: skip
    marks.rows(ax, [row.name for row in every])
    if len(every) == 1:
        ax.set_yticks([])
    ax.set_ylim(len(every) - 0.4, -1.25)
    if wide:
        marks.odds_axis(ax, *ends)
    else:
        ax.set_xlim(0.0, _round_end(inside))
        marks.in_percent(ax.xaxis)
    ax.set_xlabel(label)
    _name_marks(ax, every[0], at)
    return ax


def _round_end(inside: Sequence[float]) -> float:
    """The end of an axis from 0 that holds these probabilities: a round one, or 100%."""
    most = 1.1 * max(inside, default=1.0)
    return next((end for end in ROUND_ENDS if most <= end), 1.0)


def _name_marks(ax: Axes, row: Row, at: object) -> None:
    """Write names for the marks of the first row; `at` converts a probability to the axis."""
    place = at if callable(at) else float
    later = row.mean >= row.prior
    marks.note_at(
        ax, (place(row.prior), 0.0), "before", (-3.0 if later else 3.0, 10.0), ha="right" if later else "left"
    )
    marks.note_at(ax, (place(row.mean), 0.0), "after", (3.0 if later else -3.0, 10.0), ha="left" if later else "right",
                  color=sheet.AFTER)  # fmt: skip
    marks.note_at(ax, (place(0.5 * (row.low + row.high)), 0.0), "in 9 of 10 releases", (0.0, -8.0), va="top",
                  color=sheet.AFTER)  # fmt: skip
    end = row.most if np.isfinite(row.most) else 1.0
    left, right = ax.get_xlim()
    near = min(abs(place(end) - place(p)) for p in (row.prior, row.mean)) < BESIDE * (right - left)
    marks.note_at(ax, (place(end), 0.0), "bound", (0.0, 24.0 if near else 10.0), ha="center")
