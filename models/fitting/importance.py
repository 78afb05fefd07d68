r"""A posterior by importance sampling from draws of the prior, with the tail of its weights smoothed and judged.

.. math::
   E[f(\theta) \mid y] = \sum_i w_i f(\theta_i), \qquad w_i \propto p(y \mid \theta_i), \quad \theta_i \sim p(\theta)

Draws of the prior are in every mode that has a fair share of it, whatever a chain does. What they cannot do is resolve
a posterior much narrower than the prior: then few weights carry all, as the shape :math:`\hat k` of their tail shows.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling", JMLR 25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]

LARGEST_KHAT = 0.7
"""Shape of the tail of the weights beyond which their averages are not to be trusted (Vehtari et al., section 3)."""
_FEWEST = 100  # possible draws below which no tail is fitted


@dataclass(frozen=True)
class Importance:
    """Smoothed weights of draws of the prior, shape (draw,), that add up to 1, and the shape of their tail."""

    weights: Floats
    k_hat: float

    @classmethod
    def of(cls, log_likelihood: Floats) -> Importance:
        """From the log likelihood of a release at independent draws of the prior, up to a constant."""
        weights, possible = np.zeros(log_likelihood.size), np.flatnonzero(log_likelihood > -np.inf)
        if possible.size < _FEWEST:
            return cls(weights, np.inf)
        kept = log_likelihood[possible] - log_likelihood[possible].max()
        if np.ptp(kept) < 1e-9:  # a release that tells nothing has weights without a tail
            smoothed, k_hat = kept, -np.inf
        else:
            with np.errstate(all="ignore"):
                smoothed, k_hat = array_stats.psislw(-kept)  # type: ignore[no-untyped-call]  # of minus the log weights
        weights[possible] = np.exp(smoothed - logsumexp(smoothed))
        return cls(weights, float(k_hat))

    @property
    def reliable(self) -> bool:
        """Whether averages over these weights may be trusted."""
        return self.k_hat < LARGEST_KHAT

    def mean(self, values: NDArray[Any]) -> tuple[Floats, Floats]:
        """Posterior mean of values (draw, ...) and its Monte Carlo standard error, (...)."""
        mean = np.tensordot(self.weights, values, 1)
        return mean, np.sqrt(np.tensordot(self.weights**2, (values - mean) ** 2, 1))
