"""Which posteriors exist: what would leave infinite mass somewhere is refused, with the theorem's reason.

The thesis, Theorems 17 and 18; the second holds for n > 3, not for n = 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._numeric import Floats, one_number
from adversary.analyst.noisy import BoundedRelease
from adversary.analyst.priors import IMPROPER, Flat, NormalInverseGamma, Prior, as_prior

__all__ = ["check_proper", "default_cap", "is_proper", "unit_cap"]

_FEW = (
    "a flat prior needs n >= 3, got n = 2: with one degree of freedom the density of the sample variance is unbounded "
    "at 0. Without the bounds the posterior is improper for n <= 3 (Theorem 18)"
)
_IMPROPER_FLAT = (
    "improper posterior: with a flat prior and without the bounds the likelihood of sigma2 falls like "
    "sigma2^(-(n-1)/2) only, which has a finite integral for n > 3 (Theorem 18), got n = {n}; use the bounds "
    "(constrained=True), an informative prior or a finite cap"
)


def default_cap(release: BoundedRelease) -> Floats:
    """Largest sigma2, on [0, 1], that a posterior without the bounds looks at: (n - 1) / (2 n epsilon2).

    The thesis' cap, below which the gamma and Laplace densities are conjugate. It is a limit of a method, not
    knowledge: where it would rule out what data in the interval can have (epsilon2 >= 2 (n - 1) / n), and for Gaussian
    noise, there is none (infinity).
    """
    n = release.size
    if release.noise != "laplace" or release.variance is None:
        return np.full(release.shape, np.inf)
    cap = (n - 1.0) / (2.0 * n * np.asarray(release.budgets[1], dtype=np.float64))
    return np.broadcast_to(np.where(cap > 0.25, cap, np.inf), release.shape)


def unit_cap(cap: float, release: BoundedRelease) -> float:
    """A cap given in the units of the data, on [0, 1]; infinite for none.

    Raises
    ------
    ValueError : not positive
    """
    value = one_number("cap", cap)
    if not value > 0.0:
        raise ValueError(f"cap must be positive, got {cap!r}")
    return value / release.width**2


def check_proper(release: BoundedRelease, prior: Prior, constrained: bool, cap: float | None) -> None:
    """Refuse a posterior of infinite mass.

    Raises
    ------
    ValueError : a flat prior with n < 3, or with n <= 3 without the bounds (Theorem 18), or where nothing released
        speaks of the mean or variance; a prior that grows like 1 / sigma2 or faster (Theorem 17)
    """
    if isinstance(prior, NormalInverseGamma):
        return
    smallest = int(release.size.min())
    if not isinstance(prior, Flat):
        _check_density(prior, release)
        return
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
    """Whether the posterior has finite mass, by `check_proper`; the prior as in `posterior`."""
    known = as_prior(prior)
    try:
        check_proper(release, known, constrained, cap)
    except ValueError:
        return False
    return True


def _check_density(prior: Prior, release: BoundedRelease) -> None:
    """Theorem 17 for a log density: its slope in log sigma2 as sigma2 -> 0 must exceed -1."""
    assert callable(prior)
    low, width = release.bounds[0], release.width
    mu = np.full(2, low + 0.5 * width)
    v = np.array([1e-12, 1e-9]) * width**2
    with np.errstate(all="ignore"):
        logs = np.broadcast_to(np.asarray(prior(mu, v), dtype=np.float64), (2,))
    if np.isfinite(logs).all() and (logs[1] - logs[0]) / np.log(1e3) <= -1.0 + 1e-9:
        raise ValueError(IMPROPER)
