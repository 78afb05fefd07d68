r"""Feasible means and variances of data in [0, 1]: constraints without any privacy cost.

Kazan (2026), chapter 4, "the thesis" in this wing: Theorem 14 for the moments of a distribution, Theorem 16 for the
statistics of n values. All functions work on the unit interval; `BoundedRelease` rescales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import as_array, check_number, check_positive, check_whole, scalar_or_array
from adversary.bounded.grid import log_likelihood


def largest_variance(mean: ArrayLike) -> Any:
    """Largest variance m (1 - m) of a distribution on [0, 1] with mean m (Theorem 14).

    Parameters
    ----------
    mean : m, any shape

    Returns
    -------
    Variance in [0, 1/4], of the shape of `mean`; 0 outside [0, 1]

    >>> largest_variance(0.5)
    0.25
    """
    m = as_array(mean)
    return scalar_or_array(np.maximum(m * (1.0 - m), 0.0))


def feasible_mass(mu: ArrayLike, sigma2: ArrayLike, n: ArrayLike) -> Any:
    r"""Probability that the sample mean and variance of n normal values are feasible for data in [0, 1].

    .. math:: C(\mu, \sigma^2) = P(S^2 \le \tfrac{n}{n-1} \bar Y (1 - \bar Y),\ 0 \le \bar Y \le 1),
              \quad \bar Y \sim N(\mu, \sigma^2/n),\ S^2 \sim \Gamma(\tfrac{n-1}2, \tfrac{n-1}{2\sigma^2})

    A posterior with feasibility "normalised" divides the sampling density by it: the likelihood of a release of
    neither statistic.

    Parameters
    ----------
    mu : mean of the normal law, on the unit scale; all arguments broadcast
    sigma2 : its variance, > 0
    n : number of values, whole, >= 2

    Returns
    -------
    Probability of the broadcast shape

    Raises
    ------
    ValueError : sigma2 not positive and finite, mu not finite, n below 2

    >>> round(feasible_mass(0.1, 0.05, n=10), 5)
    0.75876
    """
    means, variances = check_number("mu", mu), check_positive("sigma2", sigma2)
    sizes = as_array(check_whole("n", n, minimum=2))
    if not np.isfinite(means).all():
        raise ValueError(f"mu must be finite, got {means[~np.isfinite(means)].ravel()[0]}")
    m, v, size = (np.ravel(x) for x in np.broadcast_arrays(means, variances, sizes))
    logs = np.empty(m.size)
    for i in np.unique(size):
        rows = size == i
        nothing = np.array([i, 0.0, 1.0, 0.5, 0.0, 1.0, 0.5])
        logs[rows] = log_likelihood(nothing, m[rows], v[rows], True)
    return scalar_or_array(np.exp(logs).reshape(np.broadcast_shapes(means.shape, variances.shape, sizes.shape)))
