"""Guarantees and losses as curves: what the best test detects at each level.

Losses are drawn solid, their curves being attained; definitions dashed, as bounds none of their mechanisms exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability, percent, share
from adversary.desk.kit import (
    COLOURS,
    GREY,
    INK,
    READING,
    Guarantees,
    Label,
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
from adversary.privacy import TOLERANCE, Guarantee

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
    start = f"{who} detects {share(detections)} with {share(alarms)} false alarms"
    if detections > allowed * (1.0 + TOLERANCE):
        return f"{start}: {whose} allows no more than {at_most(allowed)}"
    return f"Closest to a limit: {start}; {whose} allows {at_most(allowed)}"
