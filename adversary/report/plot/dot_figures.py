"""Quantile dots: so many equally likely releases, each a dot where it leaves the adversary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from adversary._core import DEFAULT_FAILURE, Floats, check_probability, logit, percent
from adversary.privacy.losses import PrivacyLoss
from adversary.report.plot import sheet as kit

TICKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
"""Of the axis of log odds."""
BIN = 0.15
"""Width of a bin of a hundred dots, in log odds."""
END = logit(0.9997)
"""Farthest that the axis goes."""


@kit.house_style
def quantile_dots(
    losses: PrivacyLoss | Mapping[str, PrivacyLoss],
    prior: float = 0.5,
    *,
    truth: str = "in",
    dots: int = 100,
    above: float = 0.9,
    failure: float = DEFAULT_FAILURE,
    ax: Axes | None = None,
) -> Axes:
    """Posteriors of equally likely releases, a dot each on an axis of log odds, a row for each loss.

    Dots over a threshold are in the second colour, and counted under the name of the row. The bracket is the bound for
    every adversary whose beliefs about others do not depend on the person.

    Parameters
    ----------
    losses : privacy losses by name; the adversary knows everybody else
    prior : in (0, 1), before the release
    truth : "in" or "out"
    dots : number of releases, the middles of as many equal shares
    above : posterior over which dots are counted
    failure : probability with which the bound may fail
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : naming the argument, the rule and the value
    """
    named = {"": losses} if isinstance(losses, PrivacyLoss) else dict(losses)
    if not named:
        raise ValueError("losses must hold at least one, got none")
    check_probability("prior", prior)
    shares = (np.arange(dots) + 0.5) / dots
    step = BIN * 100.0 / dots
    ax = kit.panel(ax, 9.0, 1.6 + 1.1 * len(named))
    base, counts, names, places = 0.0, list[int](), list[str](), list[float]()
    low = min(0.01, prior)
    for name, loss in reversed(named.items()):
        x = np.clip(logit(np.asarray(loss.posterior(prior).quantile(shares, truth))), logit(1e-4), END)
        heights = _stacked(x, step)
        over = x > logit(above)
        for which, colour in ((~over, kit.BLUE), (over, kit.ORANGE)):
            ax.plot(np.round(x[which] / step) * step, base + heights[which], "o", color=colour, ms=4, mew=0)
        ends = [float(end) for end in loss.posterior_bounds(prior, failure)]
        ax.plot(np.clip(logit(np.array(ends)), logit(1e-4), END), [base - 0.6] * 2, "|-", color=kit.GREY, lw=1)
        low = min(low, float(x.min()))
        counts.append(int(over.sum()))
        names.append(f"{name}\n{counts[-1]} of {dots} over {percent(above)}")
        places.append(base + 1.5)
        base += float(heights.max()) + 4.0
    ax.axvline(float(logit(prior)), color=kit.INK, lw=1.2, zorder=0)
    ticks = [tick for tick in TICKS if tick <= 0.999]
    ax.set_xticks([float(logit(tick)) for tick in ticks], [percent(tick) for tick in ticks])
    ax.set_yticks(places, names)
    ax.set_xlabel("probability after the release")
    kit.headline(ax, f"{max(counts)} of {dots} releases leave the adversary over {percent(above)} sure")
    return ax


def _stacked(x: Floats, step: float) -> Any:
    """Height of every dot over its bin, from 0.5 on."""
    bins = np.round(x / step).astype(int)
    seen: dict[int, int] = {}
    heights = []
    for one in bins.tolist():
        seen[one] = seen.get(one, 0) + 1
        heights.append(seen[one] - 0.5)
    return np.array(heights)
