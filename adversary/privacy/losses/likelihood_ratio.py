"""The best test of "in" against "out" as an object, and how many releases it needs for a power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import as_array, check_probability, past_ties, scalar_or_array, solve_decreasing

FARTHEST = 800.0
"""Losses below minus this have no mass that a double holds."""
MOST = 2**40
"""Releases beyond which a test's power is not looked for."""


@dataclass(frozen=True)
class LikelihoodRatioTest:
    """Decide "in" where the loss L exceeds a threshold, and with a probability where it equals it.

    No test of this level has more power (Neyman and Pearson 1933).

    Parameters
    ----------
    threshold : of the loss, nats
    tie : probability of "in" where L is the threshold
    level : probability of "in" if the target is out
    power : probability of "in" if the target is in
    """

    threshold: float
    tie: float
    level: float
    power: float

    def probability(self, loss: ArrayLike) -> Any:
        """Probability of the decision "in" after releases of these losses.

        Parameters
        ----------
        loss : log likelihood ratios of releases, nats

        Returns
        -------
        probabilities, of the same shape

        >>> LikelihoodRatioTest(threshold=1.0, tie=0.25, level=0.1, power=0.3).probability([0.5, 1.0, 2.0]).tolist()
        [0.0, 0.25, 1.0]
        """
        value, threshold = as_array(loss), as_array(self.threshold)
        above = value > past_ties(threshold)
        tied = ~above & (past_ties(value) >= threshold)
        return scalar_or_array(np.where(above, 1.0, np.where(tied, self.tie, 0.0)))


def likelihood_ratio_test(loss: Any, level: float) -> LikelihoodRatioTest:
    """The likelihood ratio test of a privacy loss whose level is exactly this one."""
    a = float(check_probability("level", level))
    power = float(loss.power(a))
    lowest = max(-float(loss.swapped.maximum), -FARTHEST)
    if a == 0.0:
        return LikelihoodRatioTest(float(loss.maximum), float(np.isinf(loss.maximum)), a, power)
    if a == 1.0:
        return LikelihoodRatioTest(-float(loss.swapped.maximum), 1.0, a, power)
    start = lowest - 1e-9 * (1.0 + abs(lowest))
    if (finite := float(loss.tail(start)[1])) <= a:  # what is left is where P has no mass
        return LikelihoodRatioTest(-np.inf, (a - finite) / (1.0 - finite) if finite < 1.0 else 0.0, a, power)
    threshold = solve_decreasing(lambda t: float(loss.tail(t)[1]) - a, start, max(1.0, start + 1.0))
    above = float(loss.tail(threshold)[1])
    tied = float(loss.tail_from(threshold)[1]) - above
    tie = float(np.clip((a - above) / tied, 0.0, 1.0)) if tied > 1e-12 * a else 0.0
    return LikelihoodRatioTest(threshold, tie, a, power)


def sample_size(loss: Any, power: float, level: float) -> float:
    """Smallest number of independent releases with which a test of this level has this power."""
    wanted, a = (float(check_probability(name, x)) for name, x in (("power", power), ("level", level)))
    if float(loss.power(a)) >= wanted:
        return 1
    if loss.is_nothing or wanted == 1.0 or (a == 0.0 and not np.isinf(loss.maximum)):
        return np.inf
    low, high = 1, 2
    while float((high * loss).power(a)) < wanted:
        low, high = high, 2 * high
        if high > MOST:
            return np.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if float((middle * loss).power(a)) >= wanted else (middle, high)
    return high
