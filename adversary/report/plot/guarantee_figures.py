"""Guarantees and losses as curves: what tests detect, what beliefs may become, epsilon against delta.

Losses are drawn solid, their curves being attained; definitions dashed, as bounds none of their mechanisms exceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from adversary._core import (
    PERCENT,
    Floats,
    as_array,
    as_given,
    check_positive,
    check_probability,
    format_bound,
    format_interval,
    format_probability,
    outward_percent,
    paired_arrays,
    percent,
    tied,
)
from adversary.privacy import TOLERANCE, Guarantee, tolerated
from adversary.privacy.definitions import ZeroConcentratedDP, mu_of_rho, pbdp_delta_markov, simple_epsilon
from adversary.privacy.losses import GaussianLoss, PrivacyLoss
from adversary.report.plot import sheet as kit

Guarantees = Guarantee | Mapping[str, Guarantee]
Label = tuple[float, str, str]
READING: Any = {"color": kit.GREY, "zorder": 0, "lw": 0.9, "ls": (0, (1, 2))}
"""Thin dotted lines to read values off."""
LEVELS = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121), np.linspace(0.0, 1.0, 101)]))
"""Levels of a trade-off, the smallest positive one where its log axes begin."""
MARKERS = "osD^vP*X"
"""Of tests, by adversary."""
ASKED = 0.05
"""Level at which the title of a trade-off speaks."""


@kit.house_style
def trade_off(
    guarantees: Guarantees,
    points: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Power of the best test against its level, on plain axes and on log axes from 0.001, and what tests have achieved.

    Parameters
    ----------
    guarantees : by name, or one; each in its own direction, P ("in") against Q ("out")
    points : (level, power) of tests by name, one or several each: an audited adversary's false alarms and detections
    """
    named, tests = named_guarantees(guarantees), _checked_points(points or {})
    axes = whole, small = kit.plain_and_log((1e-3, 1e-3))
    asked = {name: float(one.power(ASKED)) for name, one in named.items()}
    labels: list[Label] = [(1e-3, "no information", kit.GREY)]
    for (name, one), colour in kit.coloured(named.items()):
        power = as_array(one.power(LEVELS))
        for ax, start in ((whole, 0), (small, 1)):
            ax.plot(LEVELS[start:], power[start:], color=colour, gid=f"power {name}", **line(one))
        labels.append((float(power[1]), f"{name}: {at_most(asked[name])}", colour))
    for ax in (whole, small):
        ax.plot(LEVELS[1:], LEVELS[1:], color=kit.GREY, lw=1.2, zorder=0, gid="no information")
        ax.axvline(ASKED, **READING)
        ax.set(xlabel="level: false alarms, P(says “in” | out)", ylabel="power: detections, P(says “in” | in)")
        for (name, (level, power)), marker in kit.coloured(tests.items(), MARKERS):
            how: Any = {"ms": 6, "mec": "white", "clip_on": ax is small, "zorder": 5, "gid": f"point {name}"}
            ax.plot(level, power, marker, color=kit.INK, label=name, **how)
    if tests:
        kit.key(axes, {}, [one for one in whole.lines if one.get_label() in tests])
    kit.edge_labels(small, labels, 1e-3, offset=-8.0)
    kit.panel_title(whole, "Every level")
    kit.panel_title(small, f"Log axes; percentages: power at {percent(ASKED)} level")
    kit.title(axes, _closest_test(named, tests) if tests else _power_words(asked))
    return axes[0]  # type: ignore[no-any-return]


def _checked_points(points: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, tuple[Floats, Floats]]:
    found = {}
    for name, pair in points.items():
        level, power = paired_arrays(dict(zip(("level", "power"), pair, strict=True)))
        a, t = np.broadcast_arrays(check_probability("level", level), check_probability("power", power))
        found[str(name)] = np.ravel(a), np.ravel(t)
    return found


def _power_words(asked: Mapping[str, float]) -> str:
    """The weakest and the strongest at the level asked."""
    least, most = (pick(asked, key=asked.__getitem__) for pick in (min, max))
    ends = f"{at_most(asked[least])} ({least}) to {at_most(asked[most])} ({most})"
    said = at_most(asked[most]) if asked[least] == asked[most] else ends
    return f"With {percent(ASKED)} false alarms no test detects more than {said}"


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
    near = {test for (_, test, *_), one in zip(found, tied([used for used, *_ in found]), strict=True) if one}
    also = f", as {len(near) - 1} more," if len(near) > 1 else ""
    start = f"{who}{also} detects {format_probability(detections)} with {format_probability(alarms)} false alarms"
    if detections > tolerated(allowed):
        return f"{start}: {whose} allows no more than {at_most(allowed)}"
    return f"Closest to a limit: {start}; {whose} allows {at_most(allowed)}"


RARE = 1e-4
"""Smallest prior of the figure."""


@kit.house_style
def posterior_by_prior(
    within: Guarantee, chance: float = 0.0, priors: Sequence[float] = (0.01, 0.1, 0.5), *, ax: Axes | None = None
) -> Axes:
    """Between which posteriors an adversary may end, at every prior: on plain axes, and on log axes for rare traits.

    Parameters
    ----------
    within, chance : bounds that hold but for a probability, as `bounds.certain` gives them
    priors : marked
    """
    axes = whole, rare = kit.plain_and_log((RARE, RARE / 10.0))
    x = np.union1d(np.linspace(0.0, 1.0, 201), np.geomspace(RARE, 1.0, 201))
    low, high = within.posterior_bounds(x)
    marked = np.unique(np.clip(priors, 0.0, 1.0))
    ends = within.posterior_bounds(marked)
    for ax in (whole, rare):
        least = ax.get_ylim()[0]  # zero has no place on a log axis
        ax.fill_between(x, np.maximum(low, least), np.maximum(high, least), color=kit.BLUE, alpha=0.12, lw=0)
        ax.plot(x, np.maximum(high, least), color=kit.BLUE, gid="highest")
        ax.plot(x, np.maximum(low, least), color=kit.COLOURS[1], gid="lowest")
        ax.plot(x, x, color=kit.GREY, lw=1.2, zorder=0, gid="unmoved")
        ax.vlines(marked, *np.maximum(ends, least), color=kit.GREY, lw=1.0, zorder=1)
        for end, colour in zip(ends, (kit.COLOURS[1], kit.BLUE), strict=True):
            if (inside := end >= least).any():
                ax.plot(marked[inside], end[inside], "o", color=colour, ms=6, mec="white", clip_on=False, zorder=5)
        ax.set(xlabel="prior that the target is in", ylabel="posterior")
    first = within.posterior_bounds(RARE)
    places = {"unmoved": (RARE, kit.GREY), "highest": (first[1], kit.BLUE), "lowest": (first[0], kit.COLOURS[1])}
    labels: list[Label] = [(float(at), text, colour) for text, (at, colour) in places.items()]
    kit.edge_labels(rare, labels, RARE, offset=-8.0)
    kit.panel_title(whole, f"Every prior{f'; a bound may fail with probability {percent(chance)}' if chance else ''}")
    kit.panel_title(rare, "Rare traits, on log axes; dots: the priors asked for")
    at = float(marked[np.argmax(ends[1] - marked)])
    found = format_interval(*within.posterior_bounds(at), percent=True)
    kit.title(axes, f"A prior of {percent(at)} may become a posterior of {found}")
    return axes[0]  # type: ignore[no-any-return]


REFERENCE = 1e-10
"""Delta at which the title speaks, where the axis holds it."""
COMPARED = (0, (1, 1.2))
"""Line style of Gaussian noise, which is there to compare with: on top, as other noise often needs the same epsilon."""


@kit.house_style
def epsilon_delta(
    guarantees: Guarantees | None = None,
    *,
    rho: float | Fraction | None = None,
    deltas: ArrayLike = (1e-12, 0.1),
    ax: Axes | None = None,
) -> Axes:
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
    ax = kit.panel(ax, 9.6, 5.0)
    ax.set(xscale="log", xlim=(low, high), ylim=(0.0, top), xlabel="delta", ylabel="epsilon (nats)")
    labels: list[Label] = []
    above = np.inf
    for name, colour in kit.coloured(sorted(rungs, key=lambda name: -ends[name][1])):
        first, here, last = ends[name]
        _draw_rung(ax, name, rungs[name], np.linspace(min(first, top), min(last, top), 201), colour)
        if np.isfinite(here):
            ax.plot(asked, here, "o", color=colour, ms=6, mec="white", zorder=5, gid=f"asked {name}")
        saved = f", {above - here:.2f} less" if 0.005 < above - here < np.inf else ""
        labels.append((min(last, top), f"{name}: {format_bound(here, True)}{saved}", colour))
        above = here
    ax.axvline(asked, **READING)
    kit.plain_log_axis(ax, "x", as_given)
    ax.invert_xaxis()
    kit.edge_labels(ax, labels, low, offset=8.0)
    kit.panel_title(ax, f"numbers: epsilon at delta = {as_given(asked)}, the dotted line")
    kit.title(
        ax,
        _epsilon_range_words({name: end[1] for name, end in ends.items()}, asked, rho is None or guarantees is None),
    )
    return ax


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
        gaussian = _rung(GaussianLoss(mu_of_rho(r)))
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


def _epsilon_range_words(epsilon: Mapping[str, float], delta: float, alone: bool) -> str:
    """The dearest reading at one delta, and the cheapest; beside readings of rho the last guarantee given."""
    most = max(epsilon, key=epsilon.__getitem__)
    least = min(epsilon, key=epsilon.__getitem__) if alone else list(epsilon)[-1]
    start = f"At delta = {as_given(delta)} epsilon is {format_bound(epsilon[most], True)} ({most})"
    return start if least == most else f"{start}, or {format_bound(epsilon[least], True)} ({least})"


def _range(name: str, values: ArrayLike) -> tuple[float, float]:
    """The smallest and the largest of probabilities strictly between 0 and 1, two different ones at least."""
    x = np.unique(check_probability(name, values))
    if x.size < 2 or not 0.0 < x[0] < x[-1] < 1.0:
        raise ValueError(f"{name} must hold two different values strictly between 0 and 1, got {values!r}")
    return float(x[0]), float(x[-1])


def named_guarantees(guarantees: Guarantees) -> dict[str, Guarantee]:
    """Guarantees by name; a single one is called by its definition."""
    given = {guarantees.definition: guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not given:
        raise ValueError("guarantees must hold at least one, got none")
    for name, one in given.items():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be guarantees or losses, got {type(one).__name__} as {name!r}")
    return {str(name): one for name, one in given.items()}


def at_most(p: float) -> str:
    """An upper end in percent, rounded up to three digits."""
    return f"{outward_percent(p, True, 3)}{PERCENT}"


def line(one: Guarantee) -> dict[str, Any]:
    """Solid for a loss, whose curves are attained; dashed, and drawn on top, for the bounds of a definition."""
    return {"ls": "-", "zorder": 2} if isinstance(one, PrivacyLoss) else {"ls": kit.BOUND, "zorder": 3}
