"""The law of a reader's posterior over releases, beside the posteriors that a guarantee allows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adversary._core import Floats, as_array, between, percent
from adversary.desk.kit import (
    BOUND,
    COLOURS,
    GREY,
    READING,
    Guarantees,
    Label,
    edge_labels,
    in_percent,
    named_guarantees,
    panel_title,
    plain_log_axis,
    styled,
    title,
)
from adversary.privacy import Guarantee
from adversary.privacy.losses import TRUTHS, PosteriorOf

Laws = PosteriorOf | Mapping[str, PosteriorOf]

RARE = 0.02
"""Posteriors are drawn on a log axis for priors below this."""
FEW = 5
"""Bounds are dashed down to the axis while there are no more than this."""


@styled
def posterior_law(laws: Laws, guarantee: Guarantees | None = None, failure: float = 0.0) -> Figure:
    """How often a reader's posterior is above each value, under both truths, beside what the guarantee allows.

    Parameters
    ----------
    laws : by name, or one, of one prior each: `loss.posterior(prior)`, or an audited reader's
    guarantee : its posterior bounds at each prior, one or several by name
    failure : probability that the bounds may leave out, as in `posterior_bounds`
    """
    named, promises = _named_laws(laws), {} if guarantee is None else named_guarantees(guarantee)
    rows = _promised(named, promises, failure)
    x, top = _posteriors(named, rows), 1.02 + 0.08 * len(rows)
    figure = Figure(figsize=(9.6, max(5.0, 1.6 + 0.22 * (2 * len(named) + len(rows)))), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xlim=(x[0], x[-1]), ylim=(0.0, top), xlabel="posterior that the target is in", yticks=np.linspace(0, 1, 6))
    ax.set_ylabel("share of releases with a larger posterior")
    in_percent(ax.yaxis) if x[0] > 0.0 else in_percent(ax.xaxis, ax.yaxis)
    if x[0] > 0.0:
        ax.set_xscale("log")
        plain_log_axis(ax, "x", percent)
    means: dict[str, dict[str, float]] = {}
    labels: list[Label] = []
    for i, (name, law) in enumerate(named.items()):
        ax.axvline(_prior(law), 0.0, 1.0 / top, color=GREY, lw=1.0, zorder=0, gid=f"prior {name}")
        for side, truth in enumerate(TRUTHS):
            height = 1.0 - (side * len(named) + i + 1.0) / (2.0 * len(named) + 1.0)
            colour = COLOURS[(side if len(named) == 1 else i) % len(COLOURS)]
            mean = means.setdefault(truth, {}).setdefault(name, float(law.mean(truth)))
            _draw_law(ax, name, law, truth, mean, x, height, colour)
            labels.append((height, f"{name}, {truth}: mean {percent(mean)}".lstrip(", "), colour))
    labels += _draw_promises(ax, rows)
    edge_labels(ax, labels, x[-1], offset=6.0)
    kept = f"; bounds hold in {percent(1.0 - failure)} of releases" if rows and failure else ""
    panel_title(ax, f"thick: the target is in; thin: it is out; dots: means; grey: prior{kept}")
    title(figure, _believed(means, rows))
    return figure


def _draw_law(
    ax: Axes, name: str, law: PosteriorOf, truth: str, mean: float, x: Floats, height: float, colour: str
) -> None:
    """P(posterior > x) under one truth, its mean, and a line to the label."""
    width = 2.0 if truth == "in" else 1.1
    beyond, at_mean = (1.0 - as_array(law.cdf(at, truth)) for at in (x, mean))
    ax.plot(x, beyond, color=colour, lw=width, drawstyle="steps-post", gid=f"{truth} {name}")
    ax.plot(mean, at_mean, "o", color=colour, ms=7, mec="white", zorder=5, gid=f"mean {truth} {name}")
    ax.plot([law.quantile(1.0 - height, truth), x[-1]], [height] * 2, color=colour, **READING)


class _Promise(NamedTuple):
    """Bounds of one guarantee at one prior."""

    name: str
    prior: float
    low: float
    high: float
    colour: str


def _promised(laws: Mapping[str, PosteriorOf], promises: Mapping[str, Guarantee], failure: float) -> list[_Promise]:
    """What each guarantee allows at each prior; a single one in the colour of the first law with the prior."""
    first = {_prior(law): colour for law, colour in reversed(list(zip(laws.values(), cycle(COLOURS), strict=False)))}
    priors = dict.fromkeys(_prior(law) for law in laws.values())
    rows = []
    for (name, one), colour in zip(promises.items(), cycle(COLOURS[::-1]), strict=False):
        for prior in priors:
            low, high = one.posterior_bounds(prior, failure)
            shared = len(priors) == 1 or len(promises) > 1
            rows.append(_Promise(name, prior, float(low), float(high), colour if shared else first[prior]))
    return rows


def _draw_promises(ax: Axes, rows: list[_Promise]) -> list[Label]:
    """Each promise as an interval above the curves, dashed down to the axis at both ends; their labels."""
    labels = []
    several = len({row.prior for row in rows}) > 1
    for i, row in enumerate(reversed(rows)):
        at, which = 1.06 + 0.08 * i, f"{row.name} {row.prior:g}"
        ax.plot([row.low, row.high], [at, at], "|-", color=row.colour, lw=1.2, ms=7, gid=f"bound {which}")
        for end in (row.low, row.high) if len(rows) <= FEW else ():
            ax.plot([end, end], [0.0, at], color=row.colour, lw=1.2, ls=BOUND, gid=f"end {which}")
        start = f" at prior {percent(row.prior)}" if several else ""
        labels.append((at, f"{row.name}{start}: {between(row.low, row.high, percent=True)}", row.colour))
    return labels


def _posteriors(laws: Mapping[str, PosteriorOf], rows: list[_Promise]) -> Floats:
    """Where the laws are drawn: all of [0, 1], or log-spaced about them where a prior is rare."""
    smallest = min(_prior(law) for law in laws.values())
    if not 0.0 < smallest < RARE:
        return np.linspace(0.0, 1.0, 1201)
    ends = [law.quantile([1e-3, 1.0 - 1e-3], truth) for law in laws.values() for truth in TRUTHS]
    every = np.concatenate([*ends, [end for row in rows for end in (row.low, row.high)]])
    return np.geomspace(max(every.min(), 1e-2 * smallest) / 1.3, min(1.0, 1.3 * every.max()), 1201)


def _believed(means: Mapping[str, Mapping[str, float]], rows: list[_Promise]) -> str:
    """Expected posteriors, and the tightest promise where there is one prior."""
    names = list(means["in"])
    true, false = (
        " to ".join(dict.fromkeys(percent(pick(means[truth].values())) for pick in (min, max))) for truth in TRUTHS
    )
    whose = "The expected posterior is" if len(names) == 1 else "Expected posteriors are"
    said = f"{whose} {true} if the target is in, {false} if not"
    if len({row.prior for row in rows}) != 1:
        return said
    tightest = min(rows, key=lambda row: row.high - row.low)
    return f"{said}; {tightest.name} allows {between(tightest.low, tightest.high, percent=True)}"


def _prior(law: PosteriorOf) -> float:
    return float(as_array(law.prior))


def _named_laws(laws: Laws) -> dict[str, PosteriorOf]:
    """Laws by name, each of one prior; a single one needs no name."""
    given = {"": laws} if isinstance(laws, PosteriorOf) else dict(laws)
    if not given:
        raise ValueError("laws must hold at least one, got none")
    for name, law in given.items():
        if not isinstance(law, PosteriorOf):
            raise TypeError(
                f"laws must be laws of a posterior, as loss.posterior(prior), got {type(law).__name__} as {name!r}"
            )
        if np.ndim(law.prior):
            raise ValueError(f"prior must be one number for each law, got {np.size(law.prior)} as {name!r}")
    return {str(name): law for name, law in given.items()}
