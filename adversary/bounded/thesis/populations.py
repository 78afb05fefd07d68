r"""Populations of a simulation study: distributions on the public interval, and statistics of many samples.

.. math:: Y_i \sim N(\mu, \sigma^2) \text{ given } a \le Y_i \le b

The mean of this distribution is not its parameter mu (erratum E9 of the thesis's study): N(0.1, 0.04^2) truncated to
[0, 1] has mean 0.100706. Data are drawn by inverse cdf, in pieces, and only their sufficient statistics are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from adversary._core import Floats, as_array

Population = Callable[[float, float, tuple[int, ...], np.random.Generator], ArrayLike]
"""(mu, sigma, size, rng) -> values in the bounds: an array of that size."""

# Values in memory at once, or one data set if that is larger. Changing it changes draws: a piece is one call.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal distribution with parameters mu and sigma, truncated to `bounds`.

    >>> TruncatedNormal((0, 100))(50.0, 40.0, (3,), np.random.default_rng(1)).round(1)
    array([50.9, 92.4, 19. ])
    """

    bounds: tuple[float, float] = (0.0, 1.0)

    def __call__(self, mu: float, sigma: float, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Values by inverse cdf: mu + sigma Phi^-1(Phi(l) + U (Phi(h) - Phi(l))), l and h the standardised bounds."""
        low, high = ndtr((np.array(self.bounds) - mu) / sigma)
        values = rng.random(size)
        values *= high - low
        values += low
        ndtri(values, out=values)
        values *= sigma
        values += mu
        return np.clip(values, *self.bounds, out=values)

    def moments(self, mu: float, sigma: float) -> tuple[float, float]:
        """(mean, standard deviation) of the truncated distribution.

        >>> round(TruncatedNormal().moments(0.1, 0.04)[0], 6)
        0.100706
        """
        ends = (np.array(self.bounds) - mu) / sigma
        mass = ndtr(ends[1]) - ndtr(ends[0])
        density = np.exp(-0.5 * ends**2) / np.sqrt(2.0 * np.pi) / mass
        shift = density[0] - density[1]
        variance = 1.0 + ends[0] * density[0] - ends[1] * density[1] - shift**2
        return float(mu + sigma * shift), float(sigma * np.sqrt(variance))


def as_population(population: Any, bounds: tuple[float, float]) -> Population:
    """Population by name, or the function itself.

    Raises
    ------
    ValueError : no known name
    TypeError : neither a name nor a function
    """
    if isinstance(population, str):
        if population == "truncated normal":
            return TruncatedNormal(bounds)
        raise ValueError(f'population must be "truncated normal" or a function, got "{population}"')
    if not callable(population):
        raise TypeError(f"population must be a function (mu, sigma, size, rng) -> values, got {population!r}")
    function: Population = population
    return function


def sample_statistics(
    population: Population,
    mu: float,
    sigma: float,
    n: int,
    datasets: int,
    bounds: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Sample means and sample variances (divisor n - 1) of data sets of n values: two arrays of length `datasets`.

    Raises
    ------
    ValueError : the law draws another shape than requested, or values outside the bounds
    """
    means, variances = np.empty(datasets), np.empty(datasets)
    rows = max(1, _AT_ONCE // n)
    for start in range(0, datasets, rows):
        piece = slice(start, min(start + rows, datasets))
        values = as_array(population(mu, sigma, (piece.stop - start, n), rng))
        if values.shape != (piece.stop - start, n):
            raise ValueError(f"population must draw arrays of the requested size, {(piece.stop - start, n)}, "
                             f"got {values.shape}")  # fmt: skip
        if not (values.min() >= bounds[0] and values.max() <= bounds[1]):
            outside = values[~((values >= bounds[0]) & (values <= bounds[1]))][0]
            raise ValueError(f"population must draw values within bounds={bounds}, got {outside}")
        means[piece], variances[piece] = values.mean(-1), values.var(-1, ddof=1)
    return means, variances
