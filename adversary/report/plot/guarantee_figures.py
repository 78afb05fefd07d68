"""Figures of guarantees and losses: trade-off curves, posterior against prior, epsilon against delta.

Losses are drawn solid, as their curves are attained; definitions dashed, as bounds on all their mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    as_given,
    check_positive,
    check_probability,
    format_bound,
    logit,
    paired_arrays,
    percent,
    tied,
)
from adversary.privacy import TOLERANCE, Guarantee, tolerated
from adversary.privacy.definitions import ZeroConcentratedDP, mu_of_rho, pbdp_delta_markov, simple_epsilon
from adversary.privacy.losses import GaussianLoss, PrivacyLoss
from adversary.report.plot import marks, sheet
from adversary.report.plot.interval_figures import at_most

Guarantees = Guarantee | Mapping[str, Guarantee]

# Style of thin lines from which values are read off.
READING: Any = {"color": sheet.LINE, "zorder": 0, "lw": 1.0}

# Levels of a trade-off curve, dense near 0, where it is steep.
LEVELS = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121), np.linspace(0.0, 1.0, 101)]))

# Markers of tests, by adversary.
MARKERS = "osD^vP*X"

# False-alarm rate at which the title of a trade-off states the power.
TITLE_LEVEL = 0.05

# Longest name in a key, in letters; longer ones are broken.
LONG_NAME = 40


@sheet.house_style
def trade_off(
    guarantees: Guarantees,
    points: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Power of the best test against its level, with what tests have achieved, on one square panel.

    Parameters
    ----------
    guarantees : by name, or one; each in its own direction, P ("in") against Q ("out"). Losses are solid, being
        attained; definitions dashed
    points : (level, power) of tests by name, one or several each: an audited adversary's false alarms and detections
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : levels across, power up.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value

    Examples
    --------
    >>> import adversary as adv
    >>> ax = adv.plot.trade_off({"epsilon = 1": adv.PureDP(1.0), "rho = 1/2": adv.ZeroConcentratedDP(0.5)})
    >>> print(" ".join(ax.figure.get_suptitle().split()))
    At 5% false alarms no test detects more than 13.6% under epsilon = 1, or 33.6% under rho = 1/2
    """
    tests = _checked_points(points or {})
    # A curve has two hundred levels, each of them seconds of work for the sharpest bracket of several noisy counts.
    named = {
        name: one.coarse if isinstance(one, PrivacyLoss) else one for name, one in named_guarantees(guarantees).items()
    }
    power_at = {name: float(one.power(TITLE_LEVEL)) for name, one in named.items()}
    own = ax is None
    ax = sheet.panel(ax)
    ax.plot(LEVELS, LEVELS, color=sheet.QUIET, lw=1.0, zorder=0, gid="no information")
    ax.axvline(TITLE_LEVEL, **READING)
    lines = []
    for (name, one), colour in marks.coloured(named.items()):
        power = as_array(one.power(LEVELS))
        (drawn,) = ax.plot(LEVELS, power, color=colour, gid=f"power {name}", **line(one))
        ax.plot(TITLE_LEVEL, power_at[name], "o", color=colour, mec=sheet.PAPER, zorder=4)
        drawn.set_label(fill(f"{name}: {at_most(power_at[name])}", LONG_NAME))
        lines.append(drawn)
    for (name, (level, power)), marker in marks.coloured(tests.items(), MARKERS):
        how: Any = {"mec": sheet.PAPER, "clip_on": False, "zorder": 5, "gid": f"point {name}"}
        lines += ax.plot(level, power, marker, ls="", color=sheet.INK, label=fill(name, LONG_NAME), **how)
    ax.set(xlabel="false alarms of the test", ylabel="detections of the test", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    ax.set_aspect("equal", adjustable="box")
    ax.set_anchor("W")
    marks.in_percent(ax.xaxis, ax.yaxis)
    place = {"rotation": 45.0, "rotation_mode": "anchor", "color": sheet.QUIET, "va": "top"}
    marks.note_at(ax, (0.5, 0.5), "no information", (3.0, -3.0), **place)
    title = _closest_test(named, tests) if tests else _powers_title(power_at)
    shape = f"{len(named)} curve{'s' * (len(named) > 1)} from none to all, above the diagonal of no information."
    about = f"Beside each name: most detections at {percent(TITLE_LEVEL)} false alarms"
    if sheet.size().stacked and own:
        marks.key(ax, {}, lines)
        sheet.headline(ax, title, about, shape=shape, body=330.0)
    else:
        sheet.headline(ax, title, about, shape=shape, body=sheet.size().height - 80.0)
        ax.legend(handles=lines, loc="center left", bbox_to_anchor=(1.04, 0.5), borderaxespad=0.0, labelspacing=0.9)
    return ax


def _checked_points(points: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, tuple[Floats, Floats]]:
    """(levels, powers) of tests by name, as arrays of probabilities of one length."""
    checked = {}
    for name, pair in points.items():
        level, power = paired_arrays(dict(zip(("level", "power"), pair, strict=True)))
        a, t = np.broadcast_arrays(check_probability("level", level), check_probability("power", power))
        checked[str(name)] = np.ravel(a), np.ravel(t)
    return checked


def _powers_title(power_at: Mapping[str, float]) -> str:
    """Title: bound on the detections of any test at `TITLE_LEVEL` false alarms, under the best and worst guarantee.

    `power_at` is that bound for each guarantee, by its name.
    """
    least, most = (pick(power_at, key=power_at.__getitem__) for pick in (min, max))
    ends = f"{at_most(power_at[least])} under {least}, or {at_most(power_at[most])} under {most}"
    power_words = at_most(power_at[most]) if power_at[least] == power_at[most] else ends
    return f"At {percent(TITLE_LEVEL)} false alarms no test detects more than {power_words}"


def _closest_test(named: Mapping[str, Guarantee], tests: Mapping[str, tuple[Floats, Floats]]) -> str:
    """Title: the test that comes closest to the most detections that a guarantee allows at its false alarms."""
    candidates = []
    for test, (level, power) in tests.items():
        for name, one in named.items():
            limit = np.maximum(as_array(one.power(level)), level)
            used = np.where(power > level, (power - level) / np.maximum(limit - level, TOLERANCE), 0.0)
            i = int(np.argmax(used))
            candidates.append((float(used[i]), test, float(level[i]), float(power[i]), name, float(limit[i])))
    _, who, alarms, detections, whose, allowed = max(candidates)
    near = {test for (_, test, *_), one in zip(candidates, tied([used for used, *_ in candidates]), strict=True) if one}
    also = f", as {len(near) - 1} more," if len(near) > 1 else ""
    start = f"{who}{also} detects {percent(detections)} at {percent(alarms)} false alarms"
    if detections > tolerated(allowed):
        return f"{start}: {whose} allows no more than {at_most(allowed)}"
    if detections >= allowed * (1.0 - 1e-6):
        return f"{start}, as much as any test can"
    return f"{start}; {whose} allows {at_most(allowed)}"


# Smallest prior of the figure, unless a smaller one is given.
RARE = 1e-3


@sheet.house_style
def posterior_by_prior(
    within: Guarantee, chance: float = 0.0, priors: Sequence[float] = (0.01, 0.1, 0.5), *, ax: Axes | None = None
) -> Axes:
    """Range of posteriors that an adversary may end with, at every prior, on axes of log odds.

    Parameters
    ----------
    within : bounds
    chance : probability with which they may fail
    priors : marked
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : log odds of the prior across, of the posterior up.

    Examples
    --------
    >>> import adversary as adv
    >>> ax = adv.plot.posterior_by_prior(adv.PureDP(1.0))
    >>> print(ax.figure.get_suptitle())
    A prior of 50% may become 26.8% to 73.2%
    """
    marked = np.unique(np.clip(priors, 0.0, 1.0))
    least = float(min(RARE, 0.5 * min(marked[marked > 0.0], default=RARE)))
    end = float(logit(1.0 - least))
    x = 1.0 / (1.0 + np.exp(-np.linspace(-end, end, 401)))
    low, high = within.posterior_bounds(x)
    ends = within.posterior_bounds(marked)
    ax = sheet.panel(ax)
    across, up = (logit(np.clip(one, least / 1e3, 1.0 - least / 1e3)) for one in (x, (low, high)))
    ax.fill_between(across, up[0], up[1], color=sheet.AFTER, alpha=marks.BAND, lw=0)
    ax.plot(across, up[1], color=sheet.AFTER, gid="highest")
    ax.plot(across, up[0], color=sheet.FINDING, gid="lowest")
    ax.plot(across, across, color=sheet.INK, lw=1.0, gid="unmoved")
    for end, colour in zip(ends, (sheet.FINDING, sheet.AFTER), strict=True):
        seen = (np.minimum(marked, end) >= least) & (np.maximum(marked, end) <= 1.0 - least)
        # the layout would make room for an empty line at the corner of the figure
        if seen.any():
            dots = logit(marked[seen]), logit(end[seen])
            ax.plot(*dots, "o", color=colour, mec=sheet.PAPER, clip_on=False, zorder=5)
    marks.odds_axis(ax, least, 1.0 - least)
    marks.odds_axis(ax, least, 1.0 - least, "y")
    ax.set(xlabel="probability before the release", ylabel="probability after it")
    at = float(marked[np.argmax(ends[1] - marked)])
    lowest, highest = within.posterior_bounds(at)
    failing = f"; may fail with probability {percent(chance)}" if chance else ""
    sheet.headline(
        ax, f"A prior of {percent(at)} may become {at_most(lowest, upper=False)} to {at_most(highest)}",
        f"Band: what the guarantee allows any adversary{failing}", "Dots: the priors asked for. Axes of log odds.",
        "Two curves beside the diagonal, as far from it at every prior.",
    )  # fmt: skip
    right = float(ax.get_xlim()[1])
    labels = [("the most", up[1], sheet.AFTER), ("before", across, sheet.INK), ("the least", up[0], sheet.FINDING)]
    marks.edge_labels(ax, [(float(np.interp(right, across, y)), text, colour) for text, y, colour in labels])
    return ax


# Delta at which the title states epsilon, if it is on the axis.
REFERENCE = 1e-10

# Line style of Gaussian noise, drawn on top for comparison, as other noise often has the same curve.
COMPARED = (0, (1, 1.2))


@sheet.house_style
def epsilon_delta(
    guarantees: Guarantees | None = None,
    *,
    rho: float | Fraction | None = None,
    deltas: ArrayLike = (1e-12, 0.1),
    ax: Axes | None = None,
) -> Axes:
    """Epsilon against delta: how much each sharper reading of the same noise saves.

    Parameters
    ----------
    guarantees : by name, or one, in their worse direction; of a loss the certified interval is drawn
    rho : zCDP of the release: its simple conversion, its tight one, and Gaussian noise with the same rho
    deltas : in (0, 1); the axis runs from the largest to the smallest
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : delta across, falling; epsilon up.

    Raises
    ------
    ValueError : naming the argument, the rule and the value

    Examples
    --------
    >>> import adversary as adv
    >>> ax = adv.plot.epsilon_delta(rho=2.63)
    >>> print(" ".join(ax.figure.get_suptitle().split()))
    At delta = 1e-10, epsilon is 18.2 (simple zCDP), or 16.8 (Gaussian noise)
    """
    rungs, (low, high) = _rungs(rho, guarantees), _range("deltas", deltas)
    reference = REFERENCE if low <= REFERENCE <= high else low
    ends = {name: [float(rung.epsilon(d)) for d in (high, reference, low)] for name, rung in rungs.items()}
    top = 1.06 * max((end[2] for end in ends.values() if np.isfinite(end[2])), default=1.0)
    ax = sheet.panel(ax)
    ax.set(xscale="log", xlim=(low, high), ylim=(0.0, top), xlabel="delta", ylabel="epsilon (nats)")
    labels: list[marks.Label] = []
    above = np.inf
    for name, colour in marks.coloured(sorted(rungs, key=lambda name: -ends[name][1])):
        first, here, last = ends[name]
        _draw_rung(ax, name, rungs[name], np.linspace(min(first, top), min(last, top), 201), colour)
        if np.isfinite(here):
            ax.plot(reference, here, "o", color=colour, mec=sheet.PAPER, zorder=5, gid=f"asked {name}")
        saved = f", {above - here:.2f} less" if 0.005 < above - here < np.inf else ""
        labels.append((min(last, top), f"{name}: {format_bound(here, True, 3)}{saved}", colour))
        above = here
    ax.axvline(reference, **READING)
    marks.few_ticks(ax, "y")
    marks.plain_log_axis(ax, "x", as_given)
    ax.invert_xaxis()
    epsilon_at_reference = {name: end[1] for name, end in ends.items()}
    sheet.headline(
        ax, _epsilon_range_words(epsilon_at_reference, reference, rho is None or guarantees is None),
        f"Numbers: epsilon at delta = {as_given(reference)}, the thin line",
        shape=f"{len(rungs)} curve{'s' * (len(rungs) > 1)} that rise as delta falls.",
    )  # fmt: skip
    marks.edge_labels(ax, labels)
    return ax


class _Rung(NamedTuple):
    """Curve of epsilon against delta: certified (lower, upper) delta at an epsilon, epsilon at a delta, line style."""

    profile: Callable[[Floats], tuple[Any, Any]]
    epsilon: Callable[[float], Any]
    line: dict[str, Any]


def _rungs(rho: float | Fraction | None, guarantees: Guarantees | None) -> dict[str, _Rung]:
    """Curves by name: three for a rho (simple and tight conversion, Gaussian noise), and one for each guarantee."""
    if rho is None and guarantees is None:
        raise ValueError("rho or guarantees must be given: there is nothing to draw")
    rungs: dict[str, _Rung] = {}
    if rho is not None:
        r = float(check_positive("rho", rho))
        tight = ZeroConcentratedDP(r)
        rungs["simple zCDP"] = _Rung(lambda e: _simple(r, e), lambda d: simple_epsilon(r, d), line(tight))
        rungs["tight zCDP"] = _rung(tight)
        gaussian = _rung(GaussianLoss(mu_of_rho(r)))
        rungs["Gaussian noise"] = gaussian._replace(line={"ls": COMPARED, "zorder": 3})
    named = {} if guarantees is None else named_guarantees(guarantees)
    return rungs | {name: _rung(one) for name, one in named.items()}


def _simple(rho: float, epsilon: Floats) -> tuple[Any, Any]:
    """(lower, upper) delta of the simple conversion: exp(-(epsilon - rho)^2 / (4 rho)) for epsilon above rho."""
    return (pbdp_delta_markov(epsilon, rho=rho),) * 2


def _rung(one: Guarantee) -> _Rung:
    """Curve of a guarantee in its worse direction; for a loss with the certified interval."""

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
    """Draw a curve of epsilon against delta, and the certified interval of delta, visible if it is wide."""
    low, high = (np.maximum(end, ax.get_xlim()[0]) for end in rung.profile(epsilon))
    ax.plot(high, epsilon, color=colour, gid=f"epsilon {name}", **rung.line)
    ax.fill_betweenx(epsilon, low, high, color=colour, alpha=0.25, lw=0, gid=f"certified {name}")


def _epsilon_range_words(epsilon: Mapping[str, float], delta: float, alone: bool) -> str:
    """Title: the largest epsilon at a delta, and the smallest; unless `alone`, the last guarantee instead of that."""
    most = max(epsilon, key=epsilon.__getitem__)
    least = min(epsilon, key=epsilon.__getitem__) if alone else list(epsilon)[-1]
    start = f"At delta = {as_given(delta)}, epsilon is {format_bound(epsilon[most], True, 3)} ({most})"
    return start if least == most else f"{start}, or {format_bound(epsilon[least], True, 3)} ({least})"


def _range(name: str, values: ArrayLike) -> tuple[float, float]:
    """(smallest, largest) of at least two different probabilities strictly between 0 and 1, else ValueError."""
    x = np.unique(check_probability(name, values))
    if x.size < 2 or not 0.0 < x[0] < x[-1] < 1.0:
        raise ValueError(f"{name} must hold two different values strictly between 0 and 1, got {values!r}")
    return float(x[0]), float(x[-1])


def named_guarantees(guarantees: Guarantees) -> dict[str, Guarantee]:
    """Guarantees by name; a single one is named after its definition."""
    given = {guarantees.definition: guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not given:
        raise ValueError("guarantees must hold at least one, got none")
    for name, one in given.items():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be guarantees or losses, got {type(one).__name__} as {name!r}")
    return {str(name): one for name, one in given.items()}


def line(one: Guarantee) -> dict[str, Any]:
    """Line style: solid for a loss, whose curves are attained; dashed and on top for the bounds of a definition."""
    return {"ls": "-", "zorder": 2} if isinstance(one, PrivacyLoss) else {"ls": marks.BOUND, "zorder": 3}
