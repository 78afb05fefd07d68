"""Formulas of papers that nothing in the package asks for, as they are published and with their errata mended.

Liu, He, Chanyaswad, Wang and Mittal 2019 (Laplace thresholds, the classical Gaussian calibration, plausible
deniability); Kazan's thesis (Theorems 31.2 and 35).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import laplace


def laplace_threshold(level: Any, epsilon: float) -> Any:
    """Release above which the best test of this level says "in", in sensitivities; Theorem 3 and Equation 6."""
    return laplace.isf(level) / epsilon


def laplace_loss_threshold(level: Any, epsilon: float) -> Any:
    """Log-likelihood ratio there, Equation 8 with the clipping that it lacks."""
    return np.clip(epsilon * (2.0 * laplace_threshold(level, epsilon) - 1.0), -epsilon, epsilon)


def laplace_rates(threshold: float, epsilon: float) -> tuple[float, float]:
    """(recall, level) of "in" above a release threshold; Equations 9 and 10, signs corrected."""
    return float(laplace.sf(epsilon * (threshold - 1.0))), float(laplace.sf(epsilon * threshold))


def classical_limit(delta: float) -> float:
    """Largest epsilon at which mu = epsilon / sqrt(2 log(1.25 / delta)) is (epsilon, delta)-DP."""

    def excess(epsilon: float) -> float:
        mu = epsilon / math.sqrt(2.0 * math.log(1.25 / delta))
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 1.0, 60.0, xtol=1e-12))


def plausible_deniability(log_likelihoods: Any, source: int, gamma: float) -> int:
    """Largest k: as many records, the source among them, have likelihoods within a factor gamma pairwise."""
    x = np.asarray(log_likelihoods)
    reach = math.log(gamma) + 1e-12
    starts = x[(x <= x[source]) & (x >= x[source] - reach)]
    return int(max(((x >= start) & (x <= start + reach)).sum() for start in starts))


def approximate_epsilon(loss: float, delta: float, failure: float) -> float:
    """Largest epsilon whose (epsilon, delta)-DP guarantees |L| <= loss but for `failure`; Theorem 35 solved for it."""
    return loss + math.log1p(-delta * (1.0 + math.exp(-loss)) / failure)


def approximate_from_difference(epsilon: float, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two (epsilon, delta) implied by |posterior - prior| <= tanh(epsilon / 4) but for delta; Theorem 31.2.

    The second exists below epsilon = 2 log 3 only, a limit the papers omit.
    """
    if epsilon >= 2.0 * math.log(3.0):
        raise ValueError(f"epsilon must be below 2 log 3, got {epsilon}; only (epsilon, 2 delta) remains")
    step = math.expm1(epsilon / 2.0)
    return (epsilon, min(1.0, 2.0 * delta)), (math.log1p(1.5 * step) - math.log1p(-0.5 * step), delta)
