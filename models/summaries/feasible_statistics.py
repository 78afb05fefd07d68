"""Mean and variance of n values given the parameters, and the chance that these were values in the unit interval.

References
----------
Kazan (2026), chapter 4, Theorem 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from .density_operations import log_feasible

__all__ = ["LEAST_MASS", "Statistics"]

LEAST_MASS = np.float64(0.25)
"""Below the chance that the statistics are feasible, wherever mean and variance are."""

_ONE, _TWO = np.float64(1.0), np.float64(2.0)


@dataclass(frozen=True)
class Statistics:
    """Mean and variance of n values with these parameters, and the noise of what is released: rates, or None."""

    n: TensorVariable
    mu: TensorVariable
    sigma2: TensorVariable
    rate1: Any = None
    rate2: Any = None

    @property
    def alpha(self) -> TensorVariable:
        """(n - 1) / 2."""
        return (self.n - _ONE) / _TWO

    @property
    def spread(self) -> TensorVariable:
        """sigma^2 / n."""
        return self.sigma2 / self.n

    def largest(self, y: Any) -> TensorVariable:
        """u(y), never quite 0."""
        return pt.maximum(self.n / (self.n - _ONE) * y * (_ONE - y), np.float64(1e-100))

    def log_feasible(self, mean: TensorVariable | None, variance: TensorVariable | None) -> TensorVariable:
        """Log density of the noisy statistics that are released and of feasible exact ones."""
        constant, given = np.float64(0.0), []
        for value, rate in ((mean, self.rate1), (variance, self.rate2)):
            given.append((np.float64(0.0), np.float64(0.0)) if value is None else (rate, value))
            constant = constant if value is None else constant + pt.log(rate / _TWO)
        (rate1, seen1), (rate2, seen2) = given
        return constant + log_feasible(self.n, self.mu, self.sigma2, rate1, rate2, seen1, seen2)

    def log_mass(self) -> TensorVariable:
        """Log of C(mu, sigma2), the chance that the exact statistics are feasible."""
        return self.log_feasible(None, None)
