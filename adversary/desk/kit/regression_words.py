"""What draws of a regression line say: intervals, what the line is of, and one plain conclusion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adversary._core import Floats, percent
from adversary.analyst.regression import LARGEST_RHAT as UNRELIABLE
from adversary.desk.kit.bounded_words import shorter, span

LARGEST_RHAT = 1.01
"""R-hat above which draws come with a note; above `UNRELIABLE` the sampler warns by itself."""

NAMES = {"intercept": "intercept", "slope": "slope", "sigma": "residual deviation"}
"""Of the quantities, as people call them."""


def shortest(draws: Floats, prob: float) -> tuple[float, float]:
    """The shortest interval with so much of the draws."""
    from arviz_stats.base import array_stats as typed  # type: ignore[attr-defined]

    array_stats: Any = typed
    low, high = array_stats.hdi(draws, prob, axis=0)
    return float(low), float(high)


def of_what(x: str, y: str) -> str:
    """Of what on what, as far as it is known.

    >>> "slope" + of_what("age", "income"), "slope" + of_what("", "")
    ('slope of income on age', 'slope')
    """
    return f"{f' of {y}' * bool(y)}{f' on {x}' * bool(x)}"


def counted(p: float) -> str:
    """A share of draws, in percent: no more digits than a few thousand draws have."""
    return percent(round(p, 3))


def unmixed(shown: Mapping[str, Any]) -> list[str]:
    """A note for every reading, by what it is called, whose chains have not quite become one."""
    return [
        f"{called} R-hat is {one['r_hat']:.3f}, above {LARGEST_RHAT:g}: the chains differ a little still, and the "
        f"draws are worth {one['ess']:,.0f} independent ones; more draws in [posterior] make the last digits surer"
        for called, one in shown.items()
        if one["r_hat"] is not None and one["ess"] is not None and LARGEST_RHAT < one["r_hat"] <= UNRELIABLE
    ]


def conclusion(found: Mapping[str, Any]) -> str:
    """A `summary` in plain sentences: where the slope lies, which way it goes, and what the bounds give."""
    main, slope = found[found["main"]], f"slope{of_what(found['x'], found['y'])}"
    interval = f"With probability {percent(found['prob'])} the {slope} is {span(main['slope']['hdi'])}"
    return f"{interval}; it is above 0 with probability {counted(main['positive'])}. {_gain(found)}"


def _gain(found: Mapping[str, Any]) -> str:
    """What the bounds give, for free."""
    using, ignoring = found["constrained"], found["unconstrained"]
    if using["refused"]:
        return f"Knowing the bounds is not used, and could not be: {using['refused']}."
    lost = f"gives {counted(ignoring['infeasible'])} of its belief to sums and lines that no such data have"
    change = shorter(using["slope"]["hdi"], ignoring["slope"]["hdi"])
    if found["main"] == "constrained":
        made = f"costs no privacy and makes that interval {change}"
        return f"Knowing the bounds of both variables {made}; a reading that ignores them {lost}."
    return f"This reading {lost}; knowing the bounds costs no privacy and would make that interval {change}."
