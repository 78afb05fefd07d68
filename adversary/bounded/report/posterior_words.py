"""Names of parameters for screen and page, and the shortest interval of draws."""

from __future__ import annotations

from typing import Any

from adversary._core import Floats

PARAMETERS = {
    "population": {"mu": "population mean", "sigma": "population standard deviation", "sigma2": "population variance"},
    "data": {"mu": "sample mean", "sigma": "sample standard deviation", "sigma2": "sample variance"},
}
"""Names of mu, sigma and sigma2 of the population, and of the data themselves."""
COEFFICIENTS = {"intercept": "intercept", "slope": "slope", "sigma": "residual standard deviation"}


def shortest(draws: Floats, prob: float) -> tuple[float, float]:
    """Shortest interval that contains a share `prob` of the draws."""
    from arviz_stats.base import array_stats as typed  # type: ignore[attr-defined]

    array_stats: Any = typed
    low, high = array_stats.hdi(draws, prob, axis=0)
    return float(low), float(high)


def on_variables(x: str, y: str) -> str:
    """Phrase "of y on x" for the names of the variables that are known.

    >>> "slope" + on_variables("age", "income"), "slope" + on_variables("", "")
    ('slope of income on age', 'slope')
    """
    return f"{f' of {y}' * bool(y)}{f' on {x}' * bool(x)}"
