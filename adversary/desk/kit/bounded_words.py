"""What a posterior of a mean and a standard deviation says: intervals rounded outward, one plain conclusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from adversary._core import figure_of, percent
from adversary.analyst.bounded import UNSURE

USING, IGNORING = "using the bounds", "ignoring the bounds"
NAMES = {"mu": "mean", "sigma": "standard deviation", "sigma2": "variance"}
"""Of the quantities, as people call them."""


def decimals(scale: float, digits: int = 3) -> int:
    """Decimals that show so many significant digits of a scale.

    >>> decimals(12.3), decimals(0.0123), decimals(1230.0)
    (1, 4, 0)
    """
    return 0 if not 0.0 < scale < np.inf else int(np.clip(digits - 1 - np.floor(np.log10(scale)), 0, 15))


def nearly(x: float, scale: float) -> str:
    """A number to four digits of what it can be told from."""
    if not np.isfinite(x):
        return figure_of(x)
    text = f"{x:.{decimals(scale, 4)}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def span(ends: Sequence[float], digits: int = 3) -> str:
    """An interval, rounded outward to so many digits of its length.

    >>> span([3.0049, 65.601]), span([0, 0.123456])
    ('3.0 to 65.7', '0 to 0.124')
    """
    low, high = (float(end) for end in ends)
    places = decimals(high - low, digits)
    return f"{_end(low, places, ROUND_FLOOR)} to {_end(high, places, ROUND_CEILING)}"


def _end(x: float, places: int, rounding: str) -> str:
    if x == 0.0 or not np.isfinite(x):
        return "0" if x == 0.0 else figure_of(x)
    return f"{Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), rounding):f}"


def with_unit(text: str, unit: str) -> str:
    """A number with its unit, if it has one."""
    return f"{text} {unit}".rstrip()


def conclusion(found: Mapping[str, Any]) -> str:
    """A `summary` of `answers.bounded_answer` in plain sentences: where mean and sd lie, and what the bounds give."""
    main = found["constrained" if found["main"] == "constrained" else "unconstrained"]
    whose = f" of {found['quantity']}" if found["quantity"] else ""
    mean, sd = (with_unit(span(main[name]["hdi"]), found["unit"]) for name in ("mu", "sigma"))
    said = f"With probability {percent(found['prob'])} the mean{whose} is {mean}"
    return f"{said}; with the same probability the standard deviation is {sd}. {_gain(found)}"


def _gain(found: Mapping[str, Any]) -> str:
    """What the bounds give, for free."""
    using, ignoring = found["constrained"], found["unconstrained"]
    low, high = found["release"]["bounds"]
    known = f"that every value is between {low:g} and {high:g}"
    if ignoring["refused"]:
        return f"Without knowing {known}, nothing would follow: {ignoring['refused']}."
    if using["refused"]:
        return f"Knowing {known} is not used, and could not be: {using['refused']}."
    lost = f"gives {percent(ignoring['infeasible'])} of its belief to means and deviations that no such data have"
    mean, sd = (shorter(using[name]["hdi"], ignoring[name]["hdi"]) for name in ("mu", "sigma"))
    ends = f"the interval of the mean {mean} and that of the standard deviation {sd}"
    if found["main"] == "constrained":
        return f"Knowing {known} costs no privacy and makes {ends}; a reading that ignores it {lost}."
    return f"This reading {lost}; knowing {known} costs no privacy and would make {ends}."


def error_of(error: float | None) -> str:
    """An estimate of an error, to one digit."""
    return "unknown" if error is None else f"{error:.0e}"


def unsure(shown: Mapping[str, Any]) -> list[str]:
    """A note for every reading, by what it is called, whose quadrature has not converged."""
    return [
        f"the numbers {called} are not to be used: their quadrature has not converged (estimated error "
        f"{error_of(one['quadrature_error'])}); prior and release contradict one another, or the release itself"
        for called, one in shown.items()
        if one["quadrature_error"] is None or one["quadrature_error"] > UNSURE
    ]


def shorter(using: Sequence[float], ignoring: Sequence[float]) -> str:
    """One length against another, in percent."""
    if not ignoring[1] > ignoring[0]:
        return "no shorter"
    ratio = (using[1] - using[0]) / (ignoring[1] - ignoring[0])
    change = round(100.0 * abs(1.0 - ratio))
    return "no shorter" if change == 0 else f"{change} % {'shorter' if ratio < 1.0 else 'longer'}"
