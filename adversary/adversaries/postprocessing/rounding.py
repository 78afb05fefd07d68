"""Rounding to the nearest whole number with three rules for ties, exact in integer arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Floats, quoted

TIES = {
    "half_even": "those half way to the even one",
    "half_up": "those half way upwards",
    "half_down": "those half way downwards",
}
"""Rule for numbers half way between two whole numbers, in words."""
RULES = tuple(TIES)


def check_rule(name: str, rule: str) -> str:
    """The rule unchanged; ValueError, naming the argument, if it is unknown."""
    if rule not in RULES:
        raise ValueError(f"{name} must be one of {quoted(RULES)}, got {rule!r}")
    return rule


def ties_go_down(index: Any, rule: str) -> NDArray[np.bool_]:
    """True where index + 1/2 is rounded down to index, for whole numbers `index`."""
    if rule == "half_even":
        return np.asarray(np.asarray(index) % 2 == 0)
    return np.full(np.shape(index), rule == "half_down")


def nearest(numerator: ArrayLike, denominator: ArrayLike, rule: str) -> Any:
    """The whole number nearest to numerator / denominator, an array of the numerator's kind; denominator > 0.

    No quotient is formed, so ties are exact: q + 1 if the remainder r has 2 r > denominator, q if less, the rule if
    equal.
    """
    q, r = np.divmod(numerator, denominator)
    up = (2 * r > denominator) | ((2 * r == denominator) & ~ties_go_down(q, rule))
    return q + up


def last_numerator(index: Floats, denominator: int, rule: str) -> Floats:
    """The largest whole numerator whose quotient is rounded to at most `index`; infinite for infinite `index`.

    The tie above `index` has the numerator (index + 1/2) * denominator, a whole number for even denominators only.
    """
    tie = denominator % 2 == 0
    finite = np.isfinite(index)
    whole = np.where(finite, index, 0.0)
    edge = whole * denominator + denominator // 2 - (tie & ~ties_go_down(whole, rule))
    return np.where(finite, edge, index)
