"""Marks that several figures of guarantees share: names, line styles, percentages, and titles of any length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from adversary._core import PERCENT, outward_percent, percent
from adversary.desk.kit.style import finding
from adversary.privacy import Guarantee
from adversary.privacy.losses import PrivacyLoss

Guarantees = Guarantee | Mapping[str, Guarantee]
Label = tuple[float, str, str]

BOUND: Any = (0, (5, 2))
"""Line style of what no mechanism exceeds."""
READING: Any = {"lw": 0.9, "ls": (0, (1, 2))}
"""Thin dotted lines to read values off."""


def named_guarantees(guarantees: Guarantees) -> dict[str, Guarantee]:
    """Guarantees by name; a single one is called by its definition."""
    given = {guarantees.definition: guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not given:
        raise ValueError("guarantees must hold at least one, got none")
    for name, one in given.items():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be guarantees or losses, got {type(one).__name__} as {name!r}")
    return {str(name): one for name, one in given.items()}


def span(values: Mapping[str, float], said: Callable[[float], str]) -> str:
    """The least and the largest of named values."""
    least, most = (pick(values, key=values.__getitem__) for pick in (min, max))
    if least == most:
        return said(values[most])
    return f"{said(values[least])} ({least}) to {said(values[most])} ({most})"


def at_most(p: float) -> str:
    """An upper end in percent, rounded up to three digits."""
    return f"{outward_percent(p, True, 3)}{PERCENT}"


def line(one: Guarantee) -> dict[str, Any]:
    """Solid for a loss, whose curves are attained; dashed, and drawn on top, for the bounds of a definition."""
    return {"ls": "-", "zorder": 2} if isinstance(one, PrivacyLoss) else {"ls": BOUND, "zorder": 3}


def in_percent(*axes: Axis) -> None:
    """Ticks in percent."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))


def ticks_right(ax: Axes) -> None:
    """Vertical axis on the right, so that labels can stand at the left ends of curves."""
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)


def title(figure: Figure, text: str) -> None:
    """The finding, from its first letter on a sentence."""
    finding(figure, text[:1].upper() + text[1:])
