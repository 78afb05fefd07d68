"""Guarantees and losses as curves: what the best test detects, how precise it is, what a delta costs, what is believed.

Every function takes guarantees or losses by name and returns a matplotlib `Figure` with the finding in its title.
Losses are drawn solid, their curves being attained; definitions dashed, as bounds none of their mechanisms exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_positive, check_probability, outward, percent, share
from adversary.desk.figures.epsilon_delta import epsilon_ladder as epsilon_ladder
from adversary.desk.figures.posterior_law import posterior_law as posterior_law
from adversary.desk.kit import (
    COLOURS,
    GREY,
    INK,
    READING,
    Guarantees,
    Label,
    apart,
    at_most,
    edge_labels,
    in_percent,
    line,
    named_guarantees,
    panel_title,
    plain_log_axis,
    styled,
    ticks_right,
    title,
)
from adversary.desk.kit.marks import span
from adversary.privacy import TOLERANCE, Guarantee, decisions
from adversary.privacy.losses import PrivacyLoss

LEVELS = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121), np.linspace(0.0, 1.0, 101)]))
"""Levels of a trade-off, the smallest positive one where its log axes begin."""
ASKED = 0.05
"""Level at which the title of a trade-off speaks."""


@styled
def trade_off(guarantees: Guarantees, points: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None) -> Figure:
    """Power of the best test against its level, on plain axes and on log axes from 0.001, and what tests have achieved.

    Parameters
    ----------
    guarantees : by name, or one; each in its own direction, P ("in") against Q ("out")
    points : (level, power) of tests by name, one or several each: an audited adversary's false alarms and detections
    """
    named, tests = named_guarantees(guarantees), _checked_points(points or {})
    figure = Figure(figsize=(11.6, 4.9), layout="constrained")
    whole, small = figure.subplots(1, 2)
    whole.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    small.set(xscale="log", yscale="log", xlim=(1e-3, 1.0), ylim=(1e-3, 1.0))
    asked = {name: float(one.power(ASKED)) for name, one in named.items()}
    labels: list[Label] = [(1e-3, "no information", GREY)]
    for (name, one), colour in zip(named.items(), cycle(COLOURS), strict=False):
        power = as_array(one.power(LEVELS))
        for ax, start in ((whole, 0), (small, 1)):
            ax.plot(LEVELS[start:], power[start:], color=colour, gid=f"power {name}", **line(one))
        labels.append((float(power[1]), f"{name}: {at_most(asked[name])}", colour))
    for ax in (whole, small):
        ax.plot(LEVELS[1:], LEVELS[1:], color=GREY, lw=1.2, zorder=0, gid="no information")
        ax.axvline(ASKED, color=GREY, zorder=0, **READING)
        ax.set(xlabel="level: false alarms, P(says “in” | out)", ylabel="power: detections, P(says “in” | in)")
        for name, (level, power) in tests.items():
            ax.plot(level, power, "o", color=INK, ms=6, mec="white", clip_on=ax is small, zorder=5, gid=f"point {name}")
        _beside(ax, tests)
    in_percent(whole.xaxis, whole.yaxis)
    for which in ("x", "y"):
        plain_log_axis(small, which, percent)
    ticks_right(small)
    edge_labels(small, labels, 1e-3, offset=-8.0)
    panel_title(whole, "Every level")
    panel_title(small, f"Log axes; percentages: power at {percent(ASKED)} level")
    title(figure, _closest_test(named, tests) if tests else _detected(asked))
    return figure


@styled
def precision_recall(guarantees: Guarantees, prior: float = 0.5, beta: ArrayLike = (0.5, 1.0, 2.0)) -> Figure:
    """Precision of the best test against its recall, one panel for each beta, with the test of largest F_beta.

    Parameters
    ----------
    guarantees : by name, or one
    prior : probability that the target is in, strictly between 0 and 1
    beta : > 0; below 1 precision weighs more, above 1 recall
    """
    named, betas, p = named_guarantees(guarantees), np.atleast_1d(check_positive("beta", beta)), float(prior)
    best = {name: decisions.max_f_score(one, p, betas) for name, one in named.items()}
    curves = {name: decisions.pr_curve(one, p) for name, one in named.items()}
    figure = Figure(figsize=(max(8.0, 3.4 + 3.4 * betas.size), 4.7), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, betas.size, sharey=True))
    tallest = max(float(curve["precision"].sel(recall=slice(0.02, None)).max()) for curve in curves.values())
    for i, (ax, b) in enumerate(zip(axes, betas, strict=True)):
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, min(1.0, 1.15 * tallest)), xlabel="recall: P(says “in” | in)")
        _contours(ax, float(b))
        ax.axhline(p, color=GREY, lw=1.2, gid="prior")
        labels: list[Label] = [(p, f"always “in”: {decisions.f_score(p, 1.0, b):#.3g}", GREY)]
        for (name, curve), colour in zip(curves.items(), cycle(COLOURS), strict=False):
            ax.plot(curve["recall"], curve["precision"], color=colour, gid=f"curve {name}", **line(named[name]))
            recall, precision, score = (float(best[name][key][i]) for key in ("recall", "precision", "f_score"))
            ax.plot(recall, precision, "o", color=colour, ms=7, mec="white", clip_on=False, zorder=5,
                    gid=f"best {name} {b:g}")  # fmt: skip
            ax.plot([recall, 1.0], [precision] * 2, color=colour, **READING)
            labels.append((precision, f"{name}: {_score(named[name], score)}", colour))
        ax.set_xticks(np.linspace(0.0, 1.0, 5))
        in_percent(ax.xaxis, ax.yaxis)
        edge_labels(ax, labels, 1.0, offset=6.0)
        panel_title(ax, f"beta = {b:g}: {_weighs(float(b))}\n")
    axes[0].set_ylabel("precision: P(in | says “in”)")
    middle = int(np.argmin(np.abs(np.log(betas))))
    scores = {name: float(one["f_score"][middle]) for name, one in best.items()}
    title(figure, _scored(named, scores, float(betas[middle]), p))
    return figure


def _contours(ax: Axes, beta: float) -> None:
    """Points of equal F_beta: precision = F recall / ((1 + beta^2) recall - beta^2 F), named at the top."""
    top, b2, last = ax.get_ylim()[1], beta**2, 0.0
    corner = (1.0 + b2) * top / (b2 * top + 1.0)
    for score in MaxNLocator(12, steps=[1, 2, 5, 10]).tick_values(0.0, corner):
        start = b2 * score * top / ((1.0 + b2) * top - score) if score < corner * (1.0 - 1e-9) else np.inf
        if not last + 0.07 <= start < 1.0:
            continue
        last = start
        recall = np.linspace(start, 1.0, 201)
        precision = score * recall / ((1.0 + b2) * recall - b2 * score)
        ax.plot(recall, precision, color=GREY, lw=0.6, alpha=0.6, zorder=0, gid=f"F {score:g}")
        ax.annotate(
            f"{score:.3g}", (start, top), xytext=(0.0, 2.0), textcoords="offset points", ha="center", fontsize=7.5,
            color=GREY,
        )  # fmt: skip


def _weighs(beta: float) -> str:
    """What a beta says of precision and recall."""
    if beta == 1.0:
        return "F weighs both alike"
    return f"F weighs {'recall' if beta > 1.0 else 'precision'} more"


def _score(one: Guarantee, score: float) -> str:
    """An F-score to three digits; the bound of a definition rounded up."""
    return f"{score:#.3g}" if isinstance(one, PrivacyLoss) else outward(score, True, 3)


def _scored(named: Mapping[str, Guarantee], scores: Mapping[str, float], beta: float, prior: float) -> str:
    """The least and the largest F-score."""
    said = {score: _score(named[name], score) for name, score in scores.items()}
    bounds = not any(isinstance(one, PrivacyLoss) for one in named.values())
    is_ = "is at most" if bounds else "is"
    return f"At a prior of {percent(prior)} the best F{beta:g} {is_} {span(scores, said.__getitem__)}"


def _checked_points(points: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, tuple[Floats, Floats]]:
    found = {}
    for name, (level, power) in points.items():
        a, t = np.broadcast_arrays(check_probability("level", level), check_probability("power", power))
        found[str(name)] = np.ravel(a), np.ravel(t)
    return found


def _detected(asked: Mapping[str, float]) -> str:
    """The weakest and the strongest at the level asked."""
    return f"With {percent(ASKED)} false alarms no test detects more than {span(asked, at_most)}"


def _closest_test(named: Mapping[str, Guarantee], tests: Mapping[str, tuple[Floats, Floats]]) -> str:
    """The test that uses up most of the detections that its false alarms leave room for."""
    found = []
    for test, (level, power) in tests.items():
        for name, one in named.items():
            limit = np.maximum(as_array(one.power(level)), level)
            used = np.where(power > level, (power - level) / np.maximum(limit - level, TOLERANCE), 0.0)
            i = int(np.argmax(used))
            found.append((float(used[i]), test, float(level[i]), float(power[i]), name, float(limit[i])))
    _, who, alarms, detections, whose, allowed = max(found)
    start = f"{who} detects {share(detections)} with {share(alarms)} false alarms"
    if detections > allowed * (1.0 + TOLERANCE):
        return f"{start}: {whose} allows no more than {at_most(allowed)}"
    return f"Closest to a limit: {start}; {whose} allows {at_most(allowed)}"


def _beside(ax: Axes, tests: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Names of tests beside the dot farthest above the diagonal, pushed apart where they would overlap."""
    height = float(ax.figure.get_size_inches()[1]) * 72.0 * 0.72  # type: ignore[union-attr]
    scale, start = ax.transData + ax.transAxes.inverted(), max(ax.get_xlim()[0], 0.0)
    farthest = {name: int(np.argmax(power - level)) for name, (level, power) in tests.items()}
    dots = {name: (tests[name][0][i], tests[name][1][i]) for name, i in farthest.items()}
    dots = {name: dot for name, dot in dots.items() if min(dot) >= start}
    places = [scale.transform(dot) for dot in dots.values()]
    apart_at = apart([float(y) for _, y in places], [12.5 / height] * len(places))
    for (name, dot), (x, y), place in zip(dots.items(), places, apart_at, strict=True):
        side = 1.0 if x < 0.65 else -1.0
        raised = (place - y) * height - (4.0 * side if y > 0.04 else -8.0)
        ax.annotate(
            name, dot, xytext=(9.0 * side, raised), textcoords="offset points", va="center", fontsize=9.0, color=INK,
            ha="left" if side > 0 else "right", zorder=4, path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip
