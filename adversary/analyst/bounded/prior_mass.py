"""How much of a prior lies on the feasible region: what its density is divided by under the bounds."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from adversary._core import Floats, as_array
from adversary.analyst.bounded.prior import Flat, NormalInverseGamma, Prior

__all__ = ["log_prior_mass"]

_FLAT_DENSITY = 6.0
"""Of the flat prior over the feasible region, whose area is the integral of mu (1 - mu)."""


def log_prior_mass(
    prior: Prior, bounds: tuple[float, float], constrained: bool, shape: tuple[int, ...]
) -> Floats | float:
    """Log mass on what is looked at, of releases of this shape in rows; 0 for a log density of the user's.

    Without the bounds 0: of a density that integrates to 1, or of a flat one that is 1 on [0, 1].
    """
    if not constrained:
        return 0.0
    if isinstance(prior, NormalInverseGamma):
        return _log_mass_on_region(prior.on_unit(bounds), shape)
    return -float(np.log(_FLAT_DENSITY)) if isinstance(prior, Flat) else 0.0


def _log_mass_on_region(unit: NormalInverseGamma, shape: tuple[int, ...]) -> Floats:
    """Log probability of the feasible region under the prior: over v = 1 / (4 cosh(s)^2), mu by formula."""
    mu0, kappa, half, s2 = (
        np.broadcast_to(as_array(x), shape).ravel()[:, None]
        for x in (unit.mu0, unit.kappa0, 0.5 * as_array(unit.nu0), as_array(unit.s0) ** 2)
    )
    deepest = np.minimum(-12.0, 0.5 * np.log(s2.min()) - 8.0)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(float(deepest), 0.0, 257)
    width = 0.5 * np.diff(edges)[:, None]
    s, ds = (edges[:-1, None] + width * (1.0 + nodes)).ravel(), (width * weights).ravel()
    v = 0.25 / np.cosh(s) ** 2
    log_variance = half * np.log(half * s2) - gammaln(half) - (half + 1.0) * np.log(v) - half * s2 / v
    sd, reach = np.sqrt(v / kappa), 0.5 * np.tanh(-s)
    side = np.abs(mu0 - 0.5)  # symmetric about 1/2: both limits below the mean, where logs keep their accuracy
    upper, lower = log_ndtr((reach - side) / sd), log_ndtr((-reach - side) / sd)
    with np.errstate(divide="ignore"):
        log_mean = upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0)))
        return np.asarray(logsumexp(log_variance + log_mean + np.log(2.0 * v * np.tanh(-s) * ds), axis=-1))
