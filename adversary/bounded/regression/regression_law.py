r"""Conjugate distribution of intercept, slope and residual variance, and the values feasible for data in [0, 1].

.. math:: y = \theta_0 + \theta_1 x + e, \quad e \sim N(0, \sigma^2), \quad
          \theta \mid \sigma^2 \sim N(\mu_0, \sigma^2 \Lambda_0^{-1}), \quad \sigma^2 \sim IG(a_0, b_0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from adversary._core import Floats, as_array, check_number, check_positive, one_number
from adversary.bounded.regression.sufficient_statistics import statistics

Region = Literal["weak", "tight"]


@dataclass(frozen=True, eq=False)
class RegressionLaw:
    r"""Normal-inverse-gamma distribution of (intercept, slope) and residual variance, as prior or posterior.

    .. math:: \theta \mid \sigma^2 \sim N(\mu_0, \sigma^2 \Lambda_0^{-1}), \quad \sigma^2 \sim IG(a_0, b_0)

    Parameters
    ----------
    mu0 : centre of (intercept, slope)
    Lambda0 : precision in units of 1 / sigma2, 2 x 2, positive definite
    a0, b0 : shape and scale of sigma2, whose mean is b0 / (a0 - 1)

    The defaults are the prior of the thesis's script, for data on [0, 1]: 40 degrees of freedom, which strongly
    influence the posterior from 46 noisy records. (The thesis's text appears to divide the variance by 4 where the
    script multiplies by it.)

    Raises
    ------
    ValueError : wrong shapes, numbers not finite, a0 or b0 not positive, Lambda0 not symmetric and positive definite
    """

    mu0: ArrayLike = (1.0, 0.0)
    Lambda0: ArrayLike = ((0.25, 0.0), (0.0, 0.25))
    a0: float = 20.0
    b0: float = 0.5

    def __post_init__(self) -> None:
        centre, precision = check_number("mu0", self.mu0), check_number("Lambda0", self.Lambda0)
        if centre.shape != (2,) or not np.isfinite(centre).all():
            raise ValueError(f"mu0 must be two finite numbers (intercept, slope), got {self.mu0!r}")
        if precision.shape != (2, 2) or not np.isfinite(precision).all() or not np.allclose(precision, precision.T):
            raise ValueError(f"Lambda0 must be a symmetric 2 x 2 matrix, got {self.Lambda0!r}")
        if np.linalg.eigvalsh(precision)[0] <= 0.0:
            raise ValueError(f"Lambda0 must be positive definite, got {self.Lambda0!r}")
        for name in ("a0", "b0"):
            check_positive(name, one_number(name, getattr(self, name)))

    @property
    def mean(self) -> Floats:
        """E (intercept, slope)."""
        return as_array(self.mu0)

    @property
    def mean_sigma2(self) -> float:
        """E sigma2 = b0 / (a0 - 1); infinite for a0 <= 1."""
        return float(self.b0 / (self.a0 - 1.0)) if self.a0 > 1.0 else float("inf")

    @property
    def covariance(self) -> Floats:
        """Covariance of (intercept, slope): E sigma2 times the inverse of Lambda0."""
        return np.asarray(self.mean_sigma2 * np.linalg.inv(as_array(self.Lambda0)))

    def log_prob(self, intercept: ArrayLike, slope: ArrayLike, sigma2: ArrayLike) -> Floats:
        """Log density over all coefficients and sigma2 > 0, where it integrates to 1."""
        v, precision = as_array(sigma2), as_array(self.Lambda0)
        deviation = np.stack(np.broadcast_arrays(intercept, slope), axis=-1) - self.mean
        square = np.einsum("...i,ij,...j->...", deviation, precision, deviation)
        normal = 0.5 * np.log(np.linalg.det(precision)) - np.log(2.0 * np.pi * v) - square / (2.0 * v)
        variance = self.a0 * np.log(self.b0) - gammaln(self.a0) - (self.a0 + 1.0) * np.log(v) - self.b0 / v
        return np.asarray(normal + variance)

    def after(self, sums: ArrayLike) -> RegressionLaw:
        r"""Posterior given exact sums S = (n, Sx, Sxx, Sy, Sxy, Syy).

        .. math:: \Lambda_n = X'X + \Lambda_0, \quad \mu_n = \Lambda_n^{-1} (X'y + \Lambda_0 \mu_0), \quad
                  a_n = a_0 + n/2, \quad b_n = b_0 + (y'y + \mu_0'\Lambda_0\mu_0 - \mu_n'\Lambda_n\mu_n)/2
        """
        given = check_number("sums", sums)
        if given.shape != (6,):
            raise ValueError(f"sums must be (n, Sx, Sxx, Sy, Sxy, Syy), got shape {given.shape}")
        n, x, xx, y, xy, yy = given
        before = as_array(self.Lambda0)
        precision = before + np.array([[n, x], [x, xx]])
        centre = np.linalg.solve(precision, before @ self.mean + np.array([y, xy]))
        scale = self.b0 + 0.5 * (yy + self.mean @ before @ self.mean - centre @ precision @ centre)
        return RegressionLaw(centre, precision, float(self.a0 + n / 2.0), float(scale))

    def on_unit(self, x_bounds: tuple[float, float], y_bounds: tuple[float, float]) -> RegressionLaw:
        """Distribution for the coefficients of data rescaled from these bounds to [0, 1]."""
        if tuple(x_bounds) == (0.0, 1.0) == tuple(y_bounds):
            return self
        matrix, shift = _from_unit(x_bounds, y_bounds)
        width2 = (y_bounds[1] - y_bounds[0]) ** 2
        centre = np.linalg.solve(matrix, self.mean - shift)
        return RegressionLaw(centre, matrix.T @ as_array(self.Lambda0) @ matrix / width2, self.a0, self.b0 / width2)


def _from_unit(x_bounds: tuple[float, float], y_bounds: tuple[float, float]) -> tuple[Floats, Floats]:
    """Matrix and shift from (intercept, slope) on [0, 1] to those in the units of the data."""
    width, height = x_bounds[1] - x_bounds[0], y_bounds[1] - y_bounds[0]
    matrix = np.array([[height, -height * x_bounds[0] / width], [0.0, height / width]])
    return matrix, np.array([y_bounds[0], 0.0])


def coefficients_in_units(theta: ArrayLike, x_bounds: tuple[float, float], y_bounds: tuple[float, float]) -> Floats:
    """Transform the coefficients of data rescaled to [0, 1] to the units of the data.

    Parameters
    ----------
    theta : (intercept, slope) on the unit scale, (..., 2)
    x_bounds, y_bounds : (lower, upper) of the data, lower < upper

    Returns
    -------
    (intercept, slope) in the units of the data, (..., 2)

    >>> coefficients_in_units([0.5, 1.0], (0.0, 10.0), (0.0, 2.0)).tolist()
    [1.0, 0.2]
    """
    matrix, shift = _from_unit(x_bounds, y_bounds)
    return np.asarray(as_array(theta) @ matrix.T + shift)


def nonprivate_posterior(x: ArrayLike, y: ArrayLike, prior: RegressionLaw | None = None) -> RegressionLaw:
    """Conjugate posterior of the regression given the records themselves.

    Parameters
    ----------
    x, y : the records, in [0, 1], (n,)
    prior : prior on the unit scale; default `RegressionLaw()`

    Returns
    -------
    RegressionLaw

    Raises
    ------
    ValueError : several data sets, values outside [0, 1], fewer than two records, or x all the same

    >>> law = nonprivate_posterior([0.0, 0.5, 1.0], [0.0, 0.5, 0.9])
    >>> law.mean.round(3), law.a0
    (array([0.286, 0.481]), 21.5)
    """
    sums = statistics(x, y).sums
    if sums.ndim != 1:
        raise ValueError(f"x and y must be one data set, got shape {np.shape(x)}")
    return (RegressionLaw() if prior is None else prior).after(sums)


def feasible_coefficients(theta: ArrayLike, region: Region = "weak") -> NDArray[np.bool_] | bool:
    """True if some data in [0, 1]^2 have (intercept, slope) = theta as their regression of y on x.

    Parameters
    ----------
    theta : (intercept, slope), (..., 2)
    region : "weak": the line has a point in [0, 1]^2, min(0, -slope) <= intercept <= max(1, 1 - slope); this holds
        whatever the values of x. "tight": the line is in [0, 1] at x = 0 and x = 1, hence in between, max(0, -slope) <=
        intercept <= min(1, 1 - slope); this holds if the public range of x is attained

    Returns
    -------
    bool, or an array (...)

    Raises
    ------
    ValueError : a last axis other than 2, or an unknown region

    References
    ----------
    The thesis, section 4.5, for the weak form.

    >>> feasible_coefficients([[1.2, -0.9], [-0.4, 0.5], [1.2, 0.1]]), feasible_coefficients([-0.4, 0.5], "tight")
    (array([ True,  True, False]), False)
    """
    tight = check_region(region) == "tight"
    pair = check_number("theta", theta)
    if pair.ndim == 0 or pair.shape[-1] != 2:
        raise ValueError(f"theta must be (intercept, slope), shape (..., 2), got shape {pair.shape}")
    inside = in_region(pair, tight)
    return bool(inside) if inside.ndim == 0 else np.asarray(inside)


def in_region(theta: Floats, tight: bool) -> NDArray[np.bool_]:
    """(...) mask of `feasible_coefficients` for an array (..., 2), unchecked."""
    start, end = theta[..., 0], theta[..., 0] + theta[..., 1]
    below, above = np.minimum(start, end), np.maximum(start, end)
    return np.asarray((below >= 0.0) & (above <= 1.0) if tight else (above >= 0.0) & (below <= 1.0))


def check_region(region: str) -> Region:
    """Check the name of a region of coefficients.

    Parameters
    ----------
    region : "weak" or "tight", see `feasible_coefficients`

    Returns
    -------
    The name itself

    Raises
    ------
    ValueError : another name
    """
    if region not in get_args(Region):
        raise ValueError(f'region must be "weak" or "tight", got {region!r}')
    return cast(Region, region)
