"""Names of a posterior's parameters in words, and the shortest interval of draws."""

from __future__ import annotations

from typing import Any

from adversary._core import Floats

PARAMETERS = {
    "population": {"mu": "population mean", "sigma": "population standard deviation", "sigma2": "population variance"},
    "data": {"mu": "sample mean", "sigma": "sample standard deviation", "sigma2": "sample variance"},
}
"""Of the population that the values are drawn from, and of the values themselves."""
COEFFICIENTS = {"intercept": "intercept", "slope": "slope", "sigma": "residual standard deviation"}


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
