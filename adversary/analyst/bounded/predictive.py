"""One more value of the data after a release: its mean and deviation, and the mass that is beyond the bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from adversary._core import Floats, as_array

if TYPE_CHECKING:
    from adversary.analyst.bounded.bounded_posterior import Posterior

__all__ = ["Predictive", "predicted"]


@dataclass(frozen=True)
class Predictive:
    """A new value of the data: mean and standard deviation in its units, and the mass below and above the bounds."""

    mean: Any
    sd: Any
    below: Any
    above: Any

    @property
    def outside(self) -> Any:
        """Mass outside the bounds: 0 where the posterior uses them."""
        return self.below + self.above


def predicted(posterior: Posterior) -> Predictive:
    """N(mu, sigma2) averaged over a posterior, truncated to the bounds where it uses them."""
    a, b = posterior.release.bounds
    if posterior.constrained:
        first, second = posterior.expectations(lambda m, v: np.stack(_truncated(m, v, a, b)), (2,)).T
        nothing = posterior.shaped(np.zeros(first.size))
        return Predictive(posterior.shaped(first), posterior.shaped(np.sqrt(second - first**2)), nothing, nothing)
    spread = as_array(posterior.sd("mu")) ** 2 + as_array(posterior.mean("sigma2"))
    tails = posterior.expectations(lambda m, v: ndtr(np.stack([a - m, m - b]) / np.sqrt(v)), (2,)).T
    below, above = (posterior.shaped(tail) for tail in tails)
    return Predictive(posterior.mean("mu"), posterior.shaped(np.sqrt(spread).ravel()), below, above)


def _truncated(mu: Floats, v: Floats, a: float, b: float) -> tuple[Floats, Floats]:
    """First and second moment of N(mu, v) truncated to [a, b], for mu within."""
    sd = np.sqrt(v)
    low, high = (a - mu) / sd, (b - mu) / sd
    mass = np.maximum(ndtr(high) - ndtr(low), 1e-300)  # for mu within the bounds it is near 1/2 or more
    at_low, at_high = (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) for z in (low, high))
    first = mu + sd * (at_low - at_high) / mass
    second = mu * mu + v + sd * ((mu + a) * at_low - (mu + b) * at_high) / mass
    return np.asarray(first), np.asarray(second)
