r"""What a prior says of the mean and of the standard deviation, one at a time, to be drawn behind a posterior.

Without the bounds :math:`\mu \sim t_{\nu_0}(\mu_0, s_0^2/\kappa_0)` and
:math:`\sigma^2 \sim IG(\nu_0/2, \nu_0 s_0^2/2)`; with them the same density cut to
:math:`\sigma^2 \le (\mu - a)(b - \mu)`, and, for a flat prior, :math:`\mu \sim Beta(2, 2)` and
:math:`p(\sigma^2) = 12 \sqrt{1/4 - \sigma^2}` on the unit interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaln, ndtr

from adversary._core import Floats, as_array
from adversary.analyst.bounded import Flat, NormalInverseGamma, largest_variance, mean_range

POINTS = 4001


def prior_marginal(
    prior: Any, name: str, x: Floats, bounds: tuple[float, float], *, constrained: bool
) -> Floats | None:
    """Density of "mu" or "sigma" under a prior, at x, in the units of the data.

    None where the prior has none (flat without the bounds), or where it is a function of the user's.
    """
    if isinstance(prior, Flat):
        return _flat(name, x, bounds) if constrained else None
    if not isinstance(prior, NormalInverseGamma):
        return None
    kernel = _mean if name == "mu" else _deviation
    return kernel(prior, x, bounds, constrained) / (_mass(prior, bounds) if constrained else 1.0)


def _flat(name: str, x: Floats, bounds: tuple[float, float]) -> Floats:
    """Uniform over the feasible region, whose area on the unit interval is 1/6."""
    width = bounds[1] - bounds[0]
    if name == "mu":
        return np.asarray(6.0 * largest_variance((x - bounds[0]) / width) / width)
    s = np.maximum(x, 0.0) / width
    return np.asarray(24.0 * s * np.sqrt(np.maximum(0.25 - s**2, 0.0)) / width)


def _numbers(prior: NormalInverseGamma) -> tuple[float, float, float, float]:
    """mu0, kappa0, nu0 and s0 of a single prior."""
    mu0, kappa0, nu0, s0 = (float(as_array(x)) for x in (prior.mu0, prior.kappa0, prior.nu0, prior.s0))
    return mu0, kappa0, nu0, s0


def _mean(prior: NormalInverseGamma, mu: Floats, bounds: tuple[float, float], constrained: bool) -> Floats:
    """Student's t, times the probability of sigma2 <= (mu - a)(b - mu) given mu under the bounds."""
    mu0, kappa0, nu0, s0 = _numbers(prior)
    scale2 = s0**2 / kappa0
    log = gammaln((nu0 + 1.0) / 2.0) - gammaln(nu0 / 2.0) - 0.5 * np.log(np.pi * nu0 * scale2)
    density = np.exp(log - (nu0 + 1.0) / 2.0 * np.log1p((mu - mu0) ** 2 / (nu0 * scale2)))
    if not constrained:
        return np.asarray(density)
    rate = (nu0 * s0**2 + kappa0 * (mu - mu0) ** 2) / 2.0
    room = np.maximum((mu - bounds[0]) * (bounds[1] - mu), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(density * gammaincc((nu0 + 1.0) / 2.0, rate / room))


def _deviation(prior: NormalInverseGamma, sigma: Floats, bounds: tuple[float, float], constrained: bool) -> Floats:
    """Inverse gamma in sigma2, times the probability of a feasible mu given sigma2 under the bounds."""
    mu0, kappa0, nu0, s0 = _numbers(prior)
    rate = nu0 * s0**2 / 2.0
    s = np.maximum(sigma, np.finfo(np.float64).tiny ** 0.25)
    log = np.log(2.0) + nu0 / 2.0 * np.log(rate) - gammaln(nu0 / 2.0) - (nu0 + 1.0) * np.log(s) - rate / s**2
    if not constrained:
        return np.asarray(np.exp(log))
    width = bounds[1] - bounds[0]
    ends = bounds[0] + width * np.nan_to_num(mean_range((s / width) ** 2), nan=0.5)
    z = (ends - mu0) / (s / np.sqrt(kappa0))[..., None]
    return np.asarray(np.exp(log) * (ndtr(z[..., 1]) - ndtr(z[..., 0])))


def _mass(prior: NormalInverseGamma, bounds: tuple[float, float]) -> float:
    """Probability of the feasible region, summed along mu where the prior has its mass."""
    mu0, kappa0, _, s0 = _numbers(prior)
    near = mu0 + s0 / np.sqrt(kappa0) * np.sinh(np.linspace(-8.0, 8.0, POINTS))
    mu = np.union1d(np.linspace(*bounds, POINTS), np.clip(near, *bounds))
    return float(np.trapezoid(_mean(prior, mu, bounds, True), mu))
