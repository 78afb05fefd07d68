r"""The joint density of a mean and standard deviation on a grid of one's own, and of a new value, to be drawn.

.. math:: p(\mu, \sigma) \propto 2 \sigma\, p_0(\mu, \sigma^2)\, g(\mu, \sigma^2)

with g the likelihood of the release. Where the bounds are used it is 0 beyond sigma^2 = (mu - a)(b - mu).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from adversary._core import Floats, as_array
from adversary.analyst.bounded import Flat, NormalInverseGamma, Prior, largest_variance

if TYPE_CHECKING:
    from adversary.analyst.bounded import Posterior

POINTS = (240, 160)
"""Along mu and sigma, where a new value is averaged over both."""
DEEP = 1e-6
"""Probability left out at either end of that grid."""


def joint_density(one: Posterior, mu: Floats, sigma: Floats) -> Floats:
    """Density at every (mu, sigma), shape (mu, sigma), relative to the largest; units of the data, one release.

    Parameters
    ----------
    mu, sigma : increasing, sigma above 0
    """
    low, width = float(one.release.bounds[0]), float(one.release.width)
    u, v = (as_array(mu) - low) / width, (as_array(sigma) / width) ** 2
    feasible = v <= as_array(largest_variance(u))[:, None] if one.constrained else np.ones((u.size, v.size), bool)
    logs = one.solution.log_likelihood(0, np.clip(u, 0.0, 1.0) if one.constrained else u, v)
    where = as_array(mu)[:, None], as_array(sigma) ** 2 + np.zeros((u.size, 1))
    logs = logs + _log_prior(one.prior, *where) + np.log(2.0 * as_array(sigma))
    feasible &= sigma <= float(one.quantile("sigma", 1.0 - 1e-12))  # a cap ends there
    logs = np.where(feasible, logs, -np.inf)
    return np.asarray(np.exp(logs - logs.max()))


def _log_prior(prior: Prior, mu: Floats, sigma2: Floats) -> Floats:
    if isinstance(prior, (Flat, NormalInverseGamma)):
        return prior.log_prob(mu, sigma2)
    return as_array(prior(mu, sigma2))


def next_value(one: Posterior, edges: Floats) -> Floats:
    """Predictive density in cells of values, normal or, with the bounds, truncated to them; shape (edges - 1,)."""
    mu = _middles(np.linspace(*_ends(one, "mu"), POINTS[0] + 1))
    sigma = _middles(_spread(*_ends(one, "sigma"), POINTS[1] + 1))
    weights = joint_density(one, mu, sigma) * np.gradient(sigma)
    s = np.sqrt(sigma**2 + (mu[1] - mu[0]) ** 2 / 12.0)  # a mean is anywhere in its cell
    a, b = (float(end) for end in one.release.bounds)
    weights /= (_below(b, mu, s) - _below(a, mu, s) if one.constrained else 1.0) * weights.sum()
    inside = np.clip(edges, a, b) if one.constrained else edges
    return np.diff([float((weights * _below(float(y), mu, s)).sum()) for y in inside]) / np.diff(edges)


def _below(y: float, mu: Floats, s: Floats) -> Floats:
    return np.asarray(ndtr((y - mu[:, None]) / s))


def _ends(one: Posterior, name: str) -> tuple[float, float]:
    low, high = (float(one.quantile(name, q)) for q in (DEEP, 1.0 - DEEP))
    return low, high


def _spread(low: float, high: float, count: int) -> Floats:
    """Points from low to high: half of them equally spaced, half in equal ratios."""
    low = max(low, 1e-6 * high)
    return np.unique(np.concatenate([np.linspace(low, high, count // 2), np.geomspace(low, high, count // 2)]))


def _middles(edges: Floats) -> Floats:
    return np.asarray((edges[1:] + edges[:-1]) / 2.0)
