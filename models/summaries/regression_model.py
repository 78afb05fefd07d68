r"""PyMC model of simple regression from noisy sums, with every record a latent.

This is the exact distribution that samplers of the sums approximate.

.. math::
   \sigma^2 &\sim IG(a_0, b_0), \qquad \theta \mid \sigma^2 \sim N(\mu_0, \sigma^2 \Lambda_0^{-1}) \\
   x_i &\sim \text{Beta}(\alpha, \beta), \qquad y_i \mid x_i \sim N(\theta_0 + \theta_1 x_i, \sigma^2) \\
   \text{noisy}_j &= \sum_i t_j(x_i, y_i) + \text{Laplace}(1 / \epsilon)

With constraints, the prior of (theta, sigma2) is truncated to sigma2 <= 1/4 and the region of coefficients, and the
distribution of y_i to [0, 1], renormalised: (theta, sigma2) are then parameters of a truncated normal, not moments.

References
----------
Bernstein and Sheldon (2019), "Differentially private Bayesian linear regression"; Kazan (2026), section 4.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import TruncatedNormalRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaincc

from adversary._core import as_array, check_positive
from adversary.bounded.regression import MOMENTS, SUMS, Region, RegressionLaw, RegressionRelease, check_region
from adversary.models.noise import float64, released
from adversary.privacy.mechanisms import Laplace

from .density_operations import log_ndtr

_LOG_ROOT_TWO_PI = np.float64(0.5 * np.log(2.0 * np.pi))


def log_normal_mass(low: Any, high: Any, mu: Any, sigma: Any) -> TensorVariable:
    """Log P(low < X < high) of a normal X, low < high, accurate in both tails and with a finite gradient."""
    centre, sd = float64(mu), float64(sigma)
    left, right = (float64(low) - centre) / sd, (float64(high) - centre) / sd
    turned = left + right > np.float64(0)
    below, above = pt.switch(turned, -right, left), pt.switch(turned, -left, right)
    top = log_ndtr(above)
    return top + pt.log1mexp(log_ndtr(below) - top)


class _TruncatedNormalRV(TruncatedNormalRV):
    """PyMC's truncated normal operation, under its own type so that `TruncatedNormalPrior` can define the density."""


class TruncatedNormalPrior(pm.TruncatedNormal):
    """Normal distribution truncated to `lower` and `upper`; arguments as in PyMC, both bounds required."""

    rv_op = _TruncatedNormalRV()

    @staticmethod
    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> TensorVariable:
        """Log density; minus infinity outside the bounds."""
        z = (value - mu) / sigma
        half = np.float64(0.5)
        inside = -half * z * z - _LOG_ROOT_TWO_PI - pt.log(sigma) - log_normal_mass(lower, upper, mu, sigma)
        return pt.switch(pt.or_(value < lower, value > upper), np.float64(-np.inf), inside)


# Largest number of records: every one is a latent.
LARGEST_N = 200

_LARGEST_SIGMA2 = 0.25


def regression(
    release: RegressionRelease,
    prior: RegressionLaw | None = None,
    constrained: bool = True,
    region: Region = "weak",
    *,
    covariate: tuple[float, float] = (1.0, 1.0),
) -> pm.Model:
    """PyMC model of the records behind a release of noisy sums, the release left free.

    Parameters
    ----------
    release : RegressionRelease
        Release whose n (at most 200), epsilon and bounds the model uses. Observe its values with
        ``pm.observe(model, release.observed)``.
    prior : RegressionLaw, optional
        Prior of (intercept, slope) and sigma2 in the units of the data; default: `RegressionLaw()` for rescaled data.
    constrained : bool
        Whether y is restricted to [0, 1] after rescaling: see the module. x is in (0, 1) in either case.
    region : "weak" or "tight"
        Region of the coefficients under the constraints: see `feasible_coefficients`.
    covariate : (float, float)
        Parameters of the Beta distribution of every x; default: uniform. The choice matters if epsilon is small.

    Returns
    -------
    pymc.Model
        All variables refer to the data rescaled to [0, 1]. Free: ``intercept``, ``slope``; ``sigma2``, or, with
        constraints, ``quantile``, from which ``sigma2`` is computed; ``x`` and ``y``, dim ``record``; the release
        ``noisy[sums]``, dim ``statistic`` (x, xx, y, xy, yy), and ``noisy[moments]``, dim ``moment`` (x, x2, x3, x4).
        Potential ``region``, with constraints: log mass of the truncated prior of the coefficients given sigma2.

    Raises
    ------
    ValueError
        More than 200 records, an unknown region, or parameters of the covariate that are not positive.

    Examples
    --------
    >>> release = RegressionRelease([1.5, 1.1, 1.5, 1.0, 1.1], [1.5, 1.1, 0.9, 0.7], n=3, epsilon=1.0)
    >>> sorted(rv.name for rv in regression(release).free_RVs)
    ['intercept', 'noisy[moments]', 'noisy[sums]', 'quantile', 'slope', 'x', 'y']
    """
    if release.n > LARGEST_N:
        raise ValueError(f"every record is a latent: n must be at most {LARGEST_N}, got {release.n}; use gibbs")
    law = RegressionLaw() if prior is None else prior.on_unit(release.x_bounds, release.y_bounds)
    alpha, beta = (np.float64(value) for value in check_positive("covariate", covariate))
    tight = check_region(region) == "tight"
    coords = {"record": np.arange(1, release.n + 1), "statistic": list(SUMS[1:]), "moment": list(MOMENTS[1:])}
    with pm.Model(coords=coords) as model:
        intercept, slope, sigma2 = _bounded(law, tight) if constrained else _free(law)
        x = pm.Beta("x", alpha=alpha, beta=beta, dims="record")
        line, sigma = intercept + slope * x, pt.sqrt(sigma2)
        if constrained:
            y = TruncatedNormalPrior("y", line, sigma, lower=np.float64(0), upper=np.float64(1), dims="record")
        else:
            y = pm.Normal("y", line, sigma, dims="record")
        noise = Laplace(scale=1.0 / float(release.epsilon))
        sums = [x.sum(), (x * x).sum(), y.sum(), (x * y).sum(), (y * y).sum()]
        released("noisy[sums]", noise, pt.stack(sums), dims="statistic")
        moments = [(x**k).sum() for k in (1, 2, 3, 4)]
        released("noisy[moments]", noise, pt.stack(moments), dims="moment")
    return model


def _free(law: RegressionLaw) -> tuple[Any, Any, Any]:
    sigma2 = pm.InverseGamma("sigma2", alpha=np.float64(law.a0), beta=np.float64(law.b0))
    slope = pm.Normal("slope", *_slope(law, sigma2))
    return pm.Normal("intercept", *_intercept(law, slope, sigma2)), slope, sigma2


def _bounded(law: RegressionLaw, tight: bool) -> tuple[Any, Any, Any]:
    """Joint prior truncated to the region: factors are truncated normals; a potential removes their normalisation."""
    share = np.float64(gammaincc(law.a0, law.b0 / _LARGEST_SIGMA2))
    if not share > 0.0:
        raise ValueError(f"the prior gives sigma2 <= {_LARGEST_SIGMA2} no mass: a0 = {law.a0:g}, b0 = {law.b0:g}")
    precision = pt.gammainccinv(np.float64(law.a0), pm.Uniform("quantile", np.float64(0), np.float64(1)) * share)
    sigma2 = pm.Deterministic("sigma2", np.float64(law.b0) / precision)
    zero, one = np.float64(0), np.float64(1)
    log_mass = zero
    centre, sd = _slope(law, sigma2)
    if tight:
        slope = TruncatedNormalPrior("slope", centre, sd, lower=-one, upper=one)
        log_mass = log_mass + log_normal_mass(-one, one, centre, sd)
        low, high = pt.maximum(zero, -slope), pt.minimum(one, one - slope)
    else:
        slope = pm.Normal("slope", centre, sd)
        low, high = pt.minimum(zero, -slope), pt.maximum(one, one - slope)
    centre, sd = _intercept(law, slope, sigma2)
    intercept = TruncatedNormalPrior("intercept", centre, sd, lower=low, upper=high)
    pm.Potential("region", log_mass + log_normal_mass(low, high, centre, sd))
    return intercept, slope, sigma2


def _slope(law: RegressionLaw, sigma2: TensorVariable) -> tuple[Any, TensorVariable]:
    """Mean and standard deviation of the slope given sigma2."""
    return np.float64(law.mean[1]), pt.sqrt(sigma2 * np.linalg.inv(as_array(law.Lambda0))[1, 1])


def _intercept(law: RegressionLaw, slope: TensorVariable, sigma2: TensorVariable) -> tuple[TensorVariable, Any]:
    """Mean and standard deviation of the intercept given the slope and sigma2."""
    precision = as_array(law.Lambda0)
    centre = np.float64(law.mean[0]) - (slope - np.float64(law.mean[1])) * (precision[0, 1] / precision[0, 0])
    return centre, pt.sqrt(sigma2 / precision[0, 0])
