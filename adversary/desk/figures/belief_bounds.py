"""The range of posteriors that a guarantee allows, at every prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from adversary._core import between, percent
from adversary.desk.kit import (
    BLUE,
    COLOURS,
    GREY,
    edge_labels,
    finding,
    in_percent,
    panel_title,
    plain_log_axis,
    styled,
    ticks_right,
)
from adversary.privacy import Guarantee

RARE = 1e-4
"""Smallest prior of the figure."""


@styled
def posterior_by_prior(within: Guarantee, chance: float, priors: Sequence[float]) -> Figure:
    """Between which posteriors an adversary may end, at every prior: on plain axes, and on log axes for rare traits.

    Parameters
    ----------
    within, chance : bounds that hold but for a probability, as `bounds.certain` gives them
    priors : marked
    """
    figure = Figure(figsize=(11.6, 4.9), layout="constrained")
    whole, rare = figure.subplots(1, 2)
    whole.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    rare.set(xscale="log", yscale="log", xlim=(RARE, 1.0), ylim=(RARE / 10.0, 1.0))
    x = np.union1d(np.linspace(0.0, 1.0, 201), np.geomspace(RARE, 1.0, 201))
    low, high = within.posterior_bounds(x)
    marked = np.unique(np.clip(priors, 0.0, 1.0))
    ends = within.posterior_bounds(marked)
    for ax in (whole, rare):
        least = ax.get_ylim()[0]  # zero has no place on a log axis
        ax.fill_between(x, np.maximum(low, least), np.maximum(high, least), color=BLUE, alpha=0.12, lw=0)
        ax.plot(x, np.maximum(high, least), color=BLUE, gid="highest")
        ax.plot(x, np.maximum(low, least), color=COLOURS[1], gid="lowest")
        ax.plot(x, x, color=GREY, lw=1.2, zorder=0, gid="unmoved")
        ax.vlines(marked, *np.maximum(ends, least), color=GREY, lw=1.0, zorder=1)
        for end, colour in zip(ends, (COLOURS[1], BLUE), strict=True):
            if (inside := end >= least).any():
                ax.plot(marked[inside], end[inside], "o", color=colour, ms=6, mec="white", clip_on=False, zorder=5)
        ax.set(xlabel="prior that the target is in", ylabel="posterior")
    in_percent(whole.xaxis, whole.yaxis)
    plain_log_axis(rare, "x", percent)
    plain_log_axis(rare, "y", percent)
    ticks_right(rare)
    first = within.posterior_bounds(RARE)
    labels: list[Any] = [(RARE, "unmoved", GREY), (first[1], "highest", BLUE), (first[0], "lowest", COLOURS[1])]
    edge_labels(rare, labels, RARE, offset=-8.0)
    panel_title(whole, f"Every prior{f'; a bound may fail with probability {percent(chance)}' if chance else ''}")
    panel_title(rare, "Rare traits, on log axes; dots: the priors asked for")
    at = float(marked[np.argmax(ends[1] - marked)])
    found = between(*within.posterior_bounds(at), percent=True)
    finding(figure, f"A prior of {percent(at)} may become a posterior of {found}")
    return figure
