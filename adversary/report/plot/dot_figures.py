"""Quantile dot plots: equally likely releases, each a dot at its posterior."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from adversary._core import DEFAULT_FAILURE, Floats, check_probability, check_whole, logit, percent
from adversary.privacy.losses import PrivacyLoss
from adversary.report.plot import marks, sheet

# Width of a bin of a hundred dots, in log odds.
BIN = 0.15

# Diameter of a dot over the width of its bin.
FILLED = 0.86

# Posteriors closer to 0 or 1 than this are drawn at it.
FARTHEST = 1e-5

# Pixels from the bottom of the dots to the end of their row.
FOOT = 14.0


class _DotRow(NamedTuple):
    """Dots of one loss: log odds and height above the line of each, which are over the threshold, and the bounds."""

    name: str
    x: Floats
    height: Floats
    over: Any
    ends: tuple[float, float]

    def counted(self) -> str:
        """Number of dots over the threshold, in words."""
        return f"{int(self.over.sum())} of {self.x.size}"


@sheet.house_style
def quantile_dots(
    losses: PrivacyLoss | Mapping[str, PrivacyLoss],
    prior: float = 0.5,
    *,
    truth: str = "in",
    dots: int | None = None,
    above: float = 0.9,
    failure: float = DEFAULT_FAILURE,
    title: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Posteriors of equally likely releases, a dot each on an axis of log odds, a row for each loss.

    Dots over a threshold are in the second colour, and counted beside the name of the row. The bracket is the bound for
    every adversary whose beliefs about others do not depend on the person.

    Parameters
    ----------
    losses : privacy losses by name; the adversary knows everybody else
    prior : in (0, 1), before the release
    truth : "in" or "out"
    dots : number of releases, the middles of as many equal shares; 100, on a phone 50
    above : posterior over which dots are counted
    failure : probability with which the bound may fail
    title : the finding, in place of a count
    note : sentences at the foot, after that on the bracket
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : log odds across, pixels down.

    Raises
    ------
    ValueError : naming the argument, the rule and the value

    Examples
    --------
    >>> import adversary as adv
    >>> noises = {"rho 0.1": adv.DiscreteGaussian.from_rho(0.1), "rho 1": adv.DiscreteGaussian.from_rho(1)}
    >>> ax = adv.plot.quantile_dots({name: noise.privacy_loss() for name, noise in noises.items()})
    >>> print(ax.figure.get_suptitle())
    22 of 100 releases leave the adversary over 90% sure (rho 1)
    """
    named = {"": losses} if isinstance(losses, PrivacyLoss) else dict(losses)
    if not named:
        raise ValueError("losses must hold at least one, got none")
    phone = sheet.size().stacked
    number = int(check_whole("dots", dots if dots is not None else 50 if phone else 100, minimum=1))
    check_probability("prior", prior)
    step = BIN * 100.0 / number
    rows = [_row(name, loss, prior, truth, number, above, failure, step) for name, loss in named.items()]
    ax = sheet.panel(ax)
    every = np.concatenate([row.x for row in rows])
    low = min(float(every.min()), float(logit(min(prior, 0.01)))) - step
    high = max(float(every.max()), float(logit(max(prior, 0.99)))) + step
    ax.set_xlim(low, high)
    labels = [_label(ax, row, above, phone) for row in rows]
    most = max(rows, key=lambda row: int(row.over.sum()))
    counts = "; ".join(f"{row.name}: {row.counted()} over {percent(above)}" for row in rows)
    title_text = title or f"{most.counted()} releases leave the adversary over {percent(above)} sure"
    title_text += f" ({most.name})" if not title and most.name else ""
    is_sure = "how sure it leaves an adversary who knows everybody else"
    bound = f"Bracket: bound for any adversary{f', in {percent(1.0 - failure)} of releases' if failure else ''}."
    words: Any = {
        "subtitle": f"Each dot is one of {number} equally likely releases: {is_sure}",
        "note": f"{bound} {note}".strip(), "shape": f"Rows of dots. {counts}.",
    }  # fmt: skip
    marks.odds_axis(ax, _probability(low), _probability(high))
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(fill(_axis_words(prior, truth), 46 if phone else 64 if sheet.size().width < 1000 else 110))
    sheet.headline(ax, title_text, **words)
    marks.settle(ax)
    width = float(ax.get_window_extent().width)
    pitch = width * step / (high - low)
    gap = (46.0 if phone else 37.0) + FOOT
    lift = 0.0 if phone else 20.0
    heights = [max(float(row.height.max() + 0.5) * pitch, 0.0 if phone else 12.0) + gap for row in rows]
    heights[0] -= lift
    below = 8.0 + 34.0 + 17.0 * len(ax.get_xlabel().split("\n"))
    sheet.headline(ax, title_text, **words, body=sum(heights) + below)
    marks.settle(ax)
    tall = float(ax.get_window_extent().height)
    # of axes that the user made lower or higher
    scale = tall / (sum(heights) + 8.0)
    ax.set_ylim(tall, 0.0)
    ax.axvline(float(logit(prior)), color=sheet.INK, lw=sheet.POINT * 1.2, zorder=0, gid="before")
    marks.note_at(ax, (float(logit(prior)), 0.0), "before", (0.0, 3.0))
    ax.axvline(float(logit(above)), color=sheet.LINE, lw=sheet.POINT, zorder=0, gid="above")
    y = 0.0
    for row, height, texts in zip(rows, heights, labels, strict=True):
        y += height * scale
        _draw(ax, row, y - FOOT, pitch, phone)
        for text in texts:
            text.xy = (text.xy[0], y - FOOT - (float(row.height.max() + 0.5) * pitch + 6.0 if phone else 0.0))
    return ax


def _row(
    name: str, loss: PrivacyLoss, prior: float, truth: str, dots: int, above: float, failure: float, step: float
) -> _DotRow:
    """Dots of one loss, stacked over their bins."""
    shares = (np.arange(dots) + 0.5) / dots
    posterior = np.asarray(loss.posterior(prior).quantile(shares, truth))
    x = np.asarray(logit(np.clip(posterior, FARTHEST, 1.0 - FARTHEST)))
    bins = np.round(x / step).astype(int).tolist()
    seen: dict[int, int] = {}
    height = []
    for one in bins:
        height.append(seen.get(one, 0) + 0.5)
        seen[one] = seen.get(one, 0) + 1
    low, high = (float(end) for end in loss.posterior_bounds(prior, failure))
    return _DotRow(name, np.array(bins) * step, np.array(height), posterior > above, (low, high))


def _probability(log_odds: float) -> float:
    """Probability of log odds."""
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def _axis_words(prior: float, truth: str) -> str:
    """Label of the axis of posteriors."""
    if truth != "in":
        return f"after the release: probability that the person is in, {percent(prior)} before"
    if prior == 0.5:
        return "after the release: probability of the true one of two possibilities that were equally likely before"
    return f"after the release: probability of the true possibility, {percent(prior)} before"


def _label(ax: Axes, row: _DotRow, above: float, phone: bool) -> list[Any]:
    """Write the row's name in bold and its count, left of the dots, or above them on a phone; return both texts."""
    colour = sheet.FINDING if row.over.any() else sheet.QUIET
    points = sheet.POINT * sheet.size().label
    where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
    if phone:
        clear: Any = {"bbox": {"fc": sheet.PAPER, "ec": "none", "pad": 1.0}}
        name = ax.annotate(
            row.name, (0.0, 0.0), (0.0, 0.0), fontweight="bold", va="bottom", ha="left", **where, **clear
        )
        text = f"{row.counted()} over {percent(above)}"
        count = ax.annotate(text, (1.0, 0.0), (0.0, 0.0), color=colour, va="bottom", ha="right", **where)
        return [name, count]
    big = points * (1.2 if sheet.size().width > 1000 else 1.0)
    named = fill(row.name, 40 if sheet.size().width > 1000 else 24)
    name = ax.annotate(named, (0.0, 0.0), (-16.0, 9.0), fontweight="bold", va="bottom", ha="right", fontsize=big,
                       **where)  # fmt: skip
    text = fill(f"{row.counted()} leave them over {percent(above)} sure", 40 if sheet.size().width > 1000 else 20)
    count = ax.annotate(text, (0.0, 0.0), (-16.0, 5.0), color=colour, va="top", ha="right", **where)
    return [name, count]


def _draw(ax: Axes, row: _DotRow, base: float, pitch: float, phone: bool) -> None:
    """Draw the dots of a row over its base line, and the bracket of bounds under it."""
    points = sheet.POINT * pitch * FILLED
    for which, colour, gid in ((~row.over, sheet.AFTER, "dots"), (row.over, sheet.FINDING, "over")):
        ax.plot(row.x[which], base - row.height[which] * pitch, "o", color=colour, ms=points, mew=0.0,
                gid=f"{gid} {row.name}")  # fmt: skip
    left, right = ax.get_xlim()
    ends = [float(logit(np.clip(end, 1e-12, 1.0 - 1e-12))) for end in row.ends]
    shown = [max(ends[0], left), min(ends[1], right)]
    ax.plot(shown, [base + 6.0] * 2, color=sheet.QUIET, lw=sheet.POINT, clip_on=False, gid=f"bracket {row.name}")
    for end, at, arrow in zip(ends, shown, "<>", strict=True):
        if end == at:
            ax.plot([at] * 2, [base + 2.0, base + 10.0], color=sheet.QUIET, lw=sheet.POINT, clip_on=False)
        else:
            ax.plot(at, base + 6.0, arrow, color=sheet.QUIET, ms=4.0, mew=0.0, clip_on=False)
