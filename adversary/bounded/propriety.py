"""Propriety of posteriors: a posterior with infinite mass is refused, with the theorem's reason.

The thesis, Theorems 17 and 18; the second holds for n > 3, not for n = 3. A user's log density is checked against the
same limits of the likelihood, from its values in the tails (`tail_mass`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._core import Floats, one_number
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import Flat, NormalInverseGamma, Prior, as_prior
from adversary.bounded.tail_mass import decreases_in_mean, decreases_in_variance, is_constant

_FEW = (
    "a flat prior needs n >= 3, got n = 2: with one degree of freedom the density of the sample variance is unbounded "
    "at 0. Without the bounds the posterior is improper for n <= 3 (Theorem 18)"
)
_IMPROPER_FLAT = (
    "improper posterior: with a flat prior and without the bounds the likelihood of sigma2 falls like "
    "sigma2^(-(n-1)/2) only, which has a finite integral for n > 3 (Theorem 18), got n = {n}; use the bounds "
    "(constrained=True), an informative prior or a finite cap"
)
_IMPROPER_NEAR = (
    "improper posterior: this prior grows like 1/sigma2 or faster as sigma2 -> 0, where the likelihood of the release "
    "tends to a positive constant, so that the posterior has infinite mass there, with or without the bounds "
    "(Theorem 17)"
)
_IMPROPER_FAR = (
    "improper posterior: without the bounds {falls}, and this prior does not fall fast enough beside it for a finite "
    "integral (as a flat one for n <= 3, Theorem 18); use the bounds (constrained=True), another prior or a finite cap"
)
_IMPROPER_MEAN = (
    "improper posterior: without the bounds this prior and the release together do not limit mu ({seen}); use the "
    "bounds (constrained=True) or a prior that falls in mu"
)


def default_cap(release: BoundedRelease) -> Floats:
    """Largest sigma2, on [0, 1], of a posterior without the bounds: (n - 1) / (2 n epsilon2).

    Below the thesis' cap the gamma and Laplace densities are conjugate. The cap is a limit of the method, not prior
    knowledge: there is none if it would exclude feasible variances (epsilon2 >= 2 (n - 1) / n).

    Parameters
    ----------
    release : noisy mean and variance; epsilon2 is the variance's budget

    Returns
    -------
    Array of the release's shape; infinite for no cap, Gaussian noise or no noisy variance
    """
    n = release.size
    if release.noise != "laplace" or release.variance is None:
        return np.full(release.shape, np.inf)
    cap = (n - 1.0) / (2.0 * n * np.asarray(release.budgets[1], dtype=np.float64))
    return np.broadcast_to(np.where(cap > 0.25, cap, np.inf), release.shape)


def unit_cap(cap: float, release: BoundedRelease) -> float:
    """Cap on [0, 1], from a cap in squared units of the data; infinite for none.

    Raises
    ------
    ValueError : not positive
    """
    value = one_number("cap", cap)
    if not value > 0.0:
        raise ValueError(f"cap must be positive, got {cap!r}")
    return value / release.width**2


def variance_limits(release: BoundedRelease, constrained: bool, cap: float | None) -> Floats:
    """Upper limit of sigma2 in the posterior of each release, for data scaled to [0, 1].

    With the bounds it is 1/4, the largest variance on [0, 1], or the cap if that is smaller. Without them it is the
    cap, or `default_cap` if none is given.

    Parameters
    ----------
    release : noisy mean and variance
    constrained : whether the posterior uses the bounds of the data
    cap : limit in squared units of the data; None for the default
    """
    if cap is None:
        return np.full(release.shape, 0.25) if constrained else default_cap(release)
    unit = unit_cap(cap, release)
    return np.full(release.shape, min(unit, 0.25) if constrained else unit)


def check_proper(release: BoundedRelease, prior: Prior, constrained: bool, cap: float | None) -> None:
    """Refuse a posterior of infinite mass.

    Parameters
    ----------
    release : noisy mean and variance
    prior : `Flat`, `NormalInverseGamma` or a log density (mu, sigma2) -> nats
    constrained : whether the bounds of the data restrict mu and sigma2
    cap : largest sigma2, in the units of the data squared; None for the default

    Raises
    ------
    ValueError : a flat prior with n < 3, or with n <= 3 without the bounds (Theorem 18), or where nothing released
        depends on the mean or variance; a log density that is constant, where the flat prior is refused; one that grows
        like 1 / sigma2 or faster toward 0 (Theorem 17) or, without the bounds, does not fall fast enough toward
        infinity
    """
    if isinstance(prior, NormalInverseGamma) or not release.size.size:
        return
    if isinstance(prior, Flat):
        _check_flat(release, constrained, cap)
    else:
        _check_density(prior, release, constrained, cap)


def _check_flat(release: BoundedRelease, constrained: bool, cap: float | None) -> None:
    smallest = int(release.size.min())
    if smallest < 3:
        raise ValueError(_FEW)
    if constrained:
        return
    if release.mean is None:
        raise ValueError(
            "improper posterior: with a flat prior and without the bounds nothing limits mu, as no mean was released"
        )
    if cap is None and smallest <= 3:
        raise ValueError(_IMPROPER_FLAT.format(n=smallest))
    if release.variance is None and (cap is None or not np.isfinite(cap)):
        raise ValueError(
            "improper posterior: with a flat prior and without the bounds nothing limits sigma2, as no variance was "
            "released; use the bounds (constrained=True), an informative prior or cap="
        )


def is_proper(release: BoundedRelease, prior: Any, constrained: bool = True, cap: float | None = None) -> bool:
    """True if the posterior has finite mass, by `check_proper` (Theorems 17 and 18).

    Parameters
    ----------
    release : noisy mean and variance
    prior : as in `posterior`: "flat", a `NormalInverseGamma` or a function (mu, sigma2) -> log density
    constrained : whether the bounds of the data restrict mu and sigma2
    cap : largest sigma2, in the units of the data squared; None for the default

    Returns
    -------
    bool

    Raises
    ------
    ValueError : an unknown prior
    TypeError : an object that is not a prior
    """
    known = as_prior(prior)
    try:
        check_proper(release, known, constrained, cap)
    except ValueError:
        return False
    return True


def _check_density(prior: Prior, release: BoundedRelease, constrained: bool, cap: float | None) -> None:
    """Check a user's log density by Theorems 17 and 18."""
    assert callable(prior)
    low, width = release.bounds[0], release.width

    def log_density(mu: Floats, v: Floats) -> Floats:
        with np.errstate(all="ignore"):
            logs = np.asarray(prior(low + width * mu, width**2 * v), dtype=np.float64)
        return np.broadcast_to(logs, np.shape(mu))

    if is_constant(log_density):
        _check_flat(release, constrained, cap)
        return
    if not decreases_in_variance(log_density, release, constrained, large=False):
        raise ValueError(_IMPROPER_NEAR)
    if constrained:
        return
    top = np.inf if cap is None else unit_cap(cap, release)
    if not decreases_in_mean(log_density, release, top):
        seen = "no mean was released" if release.mean is None else "the prior grows faster than the noise falls"
        raise ValueError(_IMPROPER_MEAN.format(seen=seen))
    if top == np.inf and not decreases_in_variance(log_density, release, constrained, large=True):
        n = int(release.size.min())
        falls = f"the likelihood of sigma2 falls like sigma2^(-(n-1)/2) only, n = {n}"
        raise ValueError(
            _IMPROPER_FAR.format(falls="no released variance limits sigma2" if release.variance is None else falls)
        )
