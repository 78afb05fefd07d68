"""Guarantees and losses as curves: what tests detect, what beliefs may become, epsilon against delta.

Losses are drawn solid, their curves being attained; definitions dashed, as bounds none of their mechanisms exceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    between,
    check_positive,
    check_probability,
    format_bound,
    format_probability,
    percent,
)
from adversary.desk.kit import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    READING,
    Guarantees,
    Label,
    at_most,
    edge_labels,
    finding,
    in_percent,
    line,
    named_guarantees,
    panel_title,
    plain_log_axis,
    styled,
    ticks_right,
    title,
)
from adversary.desk.kit.style import span
from adversary.privacy import TOLERANCE, Guarantee
from adversary.privacy.definitions import ZeroConcentratedDP, pbdp_delta_markov, simple_epsilon
from adversary.privacy.losses import GaussianLoss, PrivacyLoss

LEVELS = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121), np.linspace(0.0, 1.0, 101)]))
"""Levels of a trade-off, the smallest positive one where its log axes begin."""
MARKERS = "osD^vP*X"
"""Of tests, by adversary."""
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
        for (name, (level, power)), marker in zip(tests.items(), cycle(MARKERS), strict=False):
            how: Any = {"ms": 6, "mec": "white", "clip_on": ax is small, "zorder": 5, "gid": f"point {name}"}
            ax.plot(level, power, marker, color=INK, label=name, **how)
    if tests:
        marks = [one for one in whole.lines if one.get_label() in tests]
        figure.legend(handles=marks, loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
    in_percent(whole.xaxis, whole.yaxis)
    for which in ("x", "y"):
        plain_log_axis(small, which, percent)
    ticks_right(small)
    edge_labels(small, labels, 1e-3, offset=-8.0)
    panel_title(whole, "Every level")
    panel_title(small, f"Log axes; percentages: power at {percent(ASKED)} level")
    title(figure, _closest_test(named, tests) if tests else _detected(asked))
    return figure


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
    start = f"{who} detects {format_probability(detections)} with {format_probability(alarms)} false alarms"
    if detections > allowed * (1.0 + TOLERANCE):
        return f"{start}: {whose} allows no more than {at_most(allowed)}"
    return f"Closest to a limit: {start}; {whose} allows {at_most(allowed)}"


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


REFERENCE = 1e-10
"""Delta at which the title speaks, where the axis holds it."""
COMPARED = (0, (1, 1.2))
"""Line style of Gaussian noise, which is there to compare with: on top, as other noise often needs the same epsilon."""


@styled
def epsilon_ladder(
    rho: float | Fraction | None = None, guarantees: Guarantees | None = None, deltas: ArrayLike = (1e-12, 0.1)
) -> Figure:
    """Epsilon against delta, rung by rung: how much each sharper reading of the same noise saves.

    Parameters
    ----------
    rho : zCDP of the release: its simple conversion, its tight one, and Gaussian noise with the same rho
    guarantees : further rungs by name, in their worse direction; of a loss the certified interval is drawn
    deltas : in (0, 1); the axis runs from the largest to the smallest
    """
    rungs, (low, high) = _rungs(rho, guarantees), _range("deltas", deltas)
    asked = REFERENCE if low <= REFERENCE <= high else low
    ends = {name: [float(rung.epsilon(d)) for d in (high, asked, low)] for name, rung in rungs.items()}
    top = 1.06 * max((end[2] for end in ends.values() if np.isfinite(end[2])), default=1.0)
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xscale="log", xlim=(low, high), ylim=(0.0, top), xlabel="delta", ylabel="epsilon (nats)")
    labels: list[Label] = []
    above = np.inf
    for name, colour in zip(sorted(rungs, key=lambda name: -ends[name][1]), cycle(COLOURS), strict=False):
        first, here, last = ends[name]
        _draw_rung(ax, name, rungs[name], np.linspace(min(first, top), min(last, top), 201), colour)
        if np.isfinite(here):
            ax.plot(asked, here, "o", color=colour, ms=6, mec="white", zorder=5, gid=f"asked {name}")
        saved = f", {above - here:.2f} less" if 0.005 < above - here < np.inf else ""
        labels.append((min(last, top), f"{name}: {format_bound(here, True)}{saved}", colour))
        above = here
    ax.axvline(asked, color=GREY, zorder=0, **READING)
    _decades(ax)
    ax.invert_xaxis()
    edge_labels(ax, labels, low, offset=8.0)
    panel_title(ax, f"numbers: epsilon at delta = {_plain(asked)}, the dotted line")
    title(figure, _saved({name: end[1] for name, end in ends.items()}, asked, rho is None or guarantees is None))
    return figure


class _Rung(NamedTuple):
    """A reading of the noise: certified (lower, upper) delta at an epsilon, and the epsilon of a delta."""

    profile: Callable[[Floats], tuple[Any, Any]]
    epsilon: Callable[[float], Any]
    line: dict[str, Any]


def _rungs(rho: float | Fraction | None, guarantees: Guarantees | None) -> dict[str, _Rung]:
    """The three readings of a rho, and each guarantee's own."""
    if rho is None and guarantees is None:
        raise ValueError("rho or guarantees must be given: there is nothing to draw")
    found: dict[str, _Rung] = {}
    if rho is not None:
        r = float(check_positive("rho", rho))
        tight = ZeroConcentratedDP(r)
        found["simple zCDP"] = _Rung(lambda e: _simple(r, e), lambda d: simple_epsilon(r, d), line(tight))
        found["tight zCDP"] = _rung(tight)
        gaussian = _rung(GaussianLoss(float(np.sqrt(2.0 * r))))
        found["Gaussian noise"] = gaussian._replace(line={"ls": COMPARED, "zorder": 3})
    named = {} if guarantees is None else named_guarantees(guarantees)
    return found | {name: _rung(one) for name, one in named.items()}


def _simple(rho: float, epsilon: Floats) -> tuple[Any, Any]:
    """exp(-(epsilon - rho)^2 / (4 rho)) above rho: the simple conversion read the other way."""
    return (pbdp_delta_markov(epsilon, rho=rho),) * 2


def _rung(one: Guarantee) -> _Rung:
    """A guarantee in its worse direction; of a loss the certified interval."""

    def certified(epsilon: Floats) -> tuple[Any, Any]:
        sides = [one] if one.swapped is one else [one, one.swapped]
        ends = [
            side.bracket.delta(epsilon) if isinstance(side, PrivacyLoss) else (side.delta(epsilon),) * 2
            for side in sides
        ]
        low, high = (np.max([as_array(end[i]) for end in ends], axis=0) for i in (0, 1))
        return low, high

    return _Rung(certified, one.epsilon, line(one))


def _draw_rung(ax: Axes, name: str, rung: _Rung, epsilon: Floats, colour: str) -> None:
    """Epsilon against delta, and the certified interval of delta, which is seen where it is wide."""
    low, high = (np.maximum(end, ax.get_xlim()[0]) for end in rung.profile(epsilon))
    ax.plot(high, epsilon, color=colour, gid=f"epsilon {name}", **rung.line)
    ax.fill_betweenx(epsilon, low, high, color=colour, alpha=0.25, lw=0, gid=f"certified {name}")


def _decades(ax: Axes) -> None:
    """Powers of ten on the horizontal axis, at most eight of them labelled."""
    low, high = (int(np.rint(10.0 * np.log10(end))) / 10.0 for end in ax.get_xlim())
    step = max(1, int(np.ceil((high - low) / 8.0)))
    powers = np.arange(int(np.floor(high)), int(np.ceil(low)) - 1, -step)
    ax.set_xticks(10.0**powers, [_plain(10.0**power) for power in powers])
    ax.set_xticks([], minor=True)


def _saved(epsilon: Mapping[str, float], delta: float, alone: bool) -> str:
    """The dearest reading at one delta, and the cheapest; beside readings of rho the last guarantee given."""
    most = max(epsilon, key=epsilon.__getitem__)
    least = min(epsilon, key=epsilon.__getitem__) if alone else list(epsilon)[-1]
    start = f"At delta = {_plain(delta)} epsilon is {format_bound(epsilon[most], True)} ({most})"
    return start if least == most else f"{start}, or {format_bound(epsilon[least], True)} ({least})"


def _plain(delta: float) -> str:
    """A delta as people write it."""
    return f"{delta:g}".replace("e-0", "e-")


def _range(name: str, values: ArrayLike) -> tuple[float, float]:
    """The smallest and the largest of probabilities strictly between 0 and 1, two different ones at least."""
    x = np.unique(check_probability(name, values))
    if x.size < 2 or not 0.0 < x[0] < x[-1] < 1.0:
        raise ValueError(f"{name} must hold two different values strictly between 0 and 1, got {values!r}")
    return float(x[0]), float(x[-1])
