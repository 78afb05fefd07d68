r"""Priors of the mean and variance of bounded data.

Informative: :math:`\sigma^2 \sim IG(\nu_0/2, \nu_0 s_0^2/2)`,
:math:`\mu \mid \sigma^2 \sim N(\mu_0, \sigma^2/\kappa_0)`. Flat: :math:`p(\mu, \sigma^2) \propto 1`. A prior
proportional to :math:`1/\sigma^2` has an improper posterior, with or without the bounds (Theorem 17): the likelihood of
the release tends to a positive constant as :math:`\sigma^2 \to 0`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, log_ndtr, logsumexp

from adversary._core import Floats, Labels, as_array, broadcast_arguments, check_number, common_shape
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.grid import GridInput

LogDensity = Callable[[Floats, Floats], Any]
IMPROPER = (
    "improper posterior: with a prior proportional to 1/sigma2 the likelihood of the release tends to a positive "
    "constant as sigma2 -> 0, so that the posterior has infinite mass there, with or without the bounds (Theorem 17)"
)
# Degrees of freedom below which a prior is nearly improper, and warns.
_WEAK = 0.1
_IMPROPER_NAMES = ("jeffreys", "reference", "1/sigma2", "improper")


@dataclass(frozen=True)
class Flat:
    """p(mu, sigma2) proportional to 1; over the feasible region a proper prior, mean of sigma2 0.1, mu ~ Beta(2, 2)."""

    def log_prob(self, mu: ArrayLike, sigma2: ArrayLike) -> Floats:
        """Log density, up to a constant: 0."""
        return np.zeros(np.broadcast_shapes(np.shape(mu), np.shape(sigma2)))


@dataclass(frozen=True, eq=False)
class NormalInverseGamma:
    r"""Conjugate normal-inverse-gamma prior, in the units of the data.

    .. math:: \sigma^2 \sim IG(\nu_0/2, \nu_0 s_0^2/2), \quad \mu \mid \sigma^2 \sim N(\mu_0, \sigma^2/\kappa_0)

    Parameters
    ----------
    mu0 : prior centre of the mean
    kappa0 : prior sample size of mu0, positive
    nu0 : prior degrees of freedom of s0, positive; below 0.1 the prior is close to the improper one, with a warning
    s0 : prior standard deviation, positive

    Arrays are many priors at once and broadcast against releases; with labels (xarray) by names of dimensions.
    """

    mu0: ArrayLike
    kappa0: ArrayLike
    nu0: ArrayLike
    s0: ArrayLike

    def __post_init__(self) -> None:
        if not np.isfinite(check_number("mu0", self.mu0)).all():
            raise ValueError(f"mu0 must be finite, got {self.mu0!r}")
        for name in ("kappa0", "nu0", "s0"):
            value = check_number(name, getattr(self, name))
            if not (np.isfinite(value) & (value > 0.0)).all():
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)!r}: {IMPROPER}")
        if (as_array(self.nu0) < _WEAK).any():
            warnings.warn(
                f"nu0 = {np.min(as_array(self.nu0)):g} is below {_WEAK:g}: the prior nears one whose posterior is "
                "improper (Theorem 17), and the answer is mostly about values of sigma2 near 0",
                stacklevel=3,
            )
        self._set(broadcast_arguments(self.numbers))
        _ = self.shape

    @property
    def numbers(self) -> dict[str, Any]:
        """The four parameters by name."""
        return {"mu0": self.mu0, "kappa0": self.kappa0, "nu0": self.nu0, "s0": self.s0}

    def with_numbers(self, numbers: Mapping[str, Any]) -> NormalInverseGamma:
        """Copy with other `numbers`, without checks."""
        changed = copy.copy(self)
        changed._set(numbers)
        return changed

    def _set(self, numbers: Mapping[str, Any]) -> None:
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of the four numbers."""
        return common_shape(self.numbers)

    @property
    def labels(self) -> Labels:
        """Labels of the parameters that have any (xarray)."""
        return Labels.of(*self.numbers.values())

    def log_prob(self, mu: ArrayLike, sigma2: ArrayLike) -> Floats:
        """Log density at mu and sigma2, in the units of the data; it integrates to 1 over all mu and sigma2 > 0."""
        distance, v = as_array(mu) - as_array(self.mu0), as_array(sigma2)
        kappa, half, s2 = as_array(self.kappa0), as_array(self.nu0) / 2.0, as_array(self.s0) ** 2
        variance = half * np.log(half * s2) - gammaln(half) - (half + 1.0) * np.log(v) - half * s2 / v
        return np.asarray(variance + 0.5 * np.log(kappa / (2.0 * np.pi * v)) - kappa * distance**2 / (2.0 * v))

    def on_unit(self, bounds: tuple[float, float]) -> NormalInverseGamma:
        """Prior for data rescaled from `bounds` to [0, 1]: mu0 as a mean, s0 as a standard deviation."""
        width = bounds[1] - bounds[0]
        mu0, s0 = (as_array(self.mu0) - bounds[0]) / width, as_array(self.s0) / width
        return self.with_numbers({"mu0": mu0, "kappa0": self.kappa0, "nu0": self.nu0, "s0": s0})


Prior = Flat | NormalInverseGamma | LogDensity
"""`Flat`, `NormalInverseGamma`, or a function (mu, sigma2) -> log density (data units, up to a constant)."""


def as_prior(prior: Any) -> Prior:
    """Prior from "flat", an object of this module, or a log density.

    Parameters
    ----------
    prior : "flat", `Flat`, `NormalInverseGamma`, or a function (mu, sigma2) -> log density in nats

    Returns
    -------
    Prior

    Raises
    ------
    ValueError : a name that means an improper posterior (Theorem 17), or an unknown name
    TypeError : any other object

    >>> as_prior("flat")
    Flat()
    """
    if isinstance(prior, str):
        if prior == "flat":
            return Flat()
        if prior.casefold() in _IMPROPER_NAMES:
            raise ValueError(f'prior="{prior}": {IMPROPER}')
        near = get_close_matches(prior.casefold(), ("flat",), 1)
        raise ValueError(
            f'prior must be "flat", a NormalInverseGamma or a function (mu, sigma2) -> log density, got "{prior}"'
            + (f'; did you mean "{near[0]}"?' if near else "")
        )
    if isinstance(prior, (Flat, NormalInverseGamma)) or callable(prior):
        known: Prior = prior
        return known
    raise TypeError(f'prior must be "flat", a NormalInverseGamma or a log density, got {prior!r}')


def align_priors(release: BoundedRelease, prior: Prior) -> tuple[BoundedRelease, Prior, Labels]:
    """Releases and priors broadcast by the names of dimensions, if they have any, and their common labels."""
    if not isinstance(prior, NormalInverseGamma):
        return release, prior, release.labels
    if release.shape == () == prior.shape:
        return release, prior, Labels()
    if release.labels.dims or prior.labels.dims:
        numbers = broadcast_arguments(release.numbers | prior.numbers)
        release = release.with_numbers({name: numbers[name] for name in release.numbers})
        prior = prior.with_numbers({name: numbers[name] for name in prior.numbers})
    common_shape({"release": np.empty(release.shape), "prior": np.empty(prior.shape)})
    return release, prior, Labels.of(*release.numbers.values(), *prior.numbers.values())


# Density of the flat prior over the feasible region: one over its area, the integral of mu (1 - mu).
_FLAT_DENSITY = 6.0


def log_prior_mass(
    prior: Prior, bounds: tuple[float, float], constrained: bool, shape: tuple[int, ...]
) -> Floats | float:
    """Log prior mass of the feasible region, one row per release; 0 for a user's log density.

    Without the bounds it is 0: the density integrates to 1, or is flat with value 1 on [0, 1].
    """
    if not constrained:
        return 0.0
    if isinstance(prior, NormalInverseGamma):
        return _log_mass_on_region(prior.on_unit(bounds), shape)
    return -float(np.log(_FLAT_DENSITY)) if isinstance(prior, Flat) else 0.0


def _log_mass_on_region(unit: NormalInverseGamma, shape: tuple[int, ...]) -> Floats:
    """Log prior probability of the feasible region: quadrature over v = 1 / (4 cosh(s)^2), closed form in mu."""
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
    # by symmetry about 1/2, both limits are below the mean, where log_ndtr is accurate
    side = np.abs(mu0 - 0.5)
    upper, lower = log_ndtr((reach - side) / sd), log_ndtr((-reach - side) / sd)
    with np.errstate(divide="ignore"):
        log_mean = upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0)))
        return np.asarray(logsumexp(log_variance + log_mean + np.log(2.0 * v * np.tanh(-s) * ds), axis=-1))


def grid_rows(
    release: BoundedRelease, prior: Prior, constrained: bool, normalised: bool, caps: Floats
) -> tuple[GridInput, tuple[int, ...]]:
    """`GridInput` with releases and priors broadcast against one another, in rows, and the broadcast shape."""
    unit = prior.on_unit(release.bounds) if isinstance(prior, NormalInverseGamma) else None
    shape = np.broadcast_shapes(release.shape, () if unit is None else unit.shape)
    kind = {"laplace": 1.0, "gaussian": 2.0}[release.noise]
    kinds = [kind if x is not None else 0.0 for x in (release.mean, release.variance)]
    centres = [np.where(np.isnan(x), 0.5, x) for x in (release.unit_mean, release.unit_variance)]
    scales = [np.where(np.isfinite(x), x, 1.0) for x in release.unit_scales]
    seen = (release.size, kinds[0], scales[0], centres[0], kinds[1], scales[1], centres[1])
    belief = (0, 0.5, 1.0, 1.0, 1.0) if unit is None else (1, unit.mu0, unit.kappa0, unit.nu0, as_array(unit.s0) ** 2)
    return GridInput(
        _rows(seen, shape),
        _rows(belief, shape),
        _rows((caps,), shape)[:, 0].copy(),
        constrained,
        normalised,
        None if isinstance(prior, (Flat, NormalInverseGamma)) else _on_unit(prior, release.bounds),
    ), shape


def _rows(columns: tuple[Any, ...], shape: tuple[int, ...]) -> Floats:
    """(row, column) array of columns broadcast to `shape`."""
    rows = np.empty((*shape, len(columns)))
    for j, column in enumerate(columns):
        rows[..., j] = column
    return rows.reshape(-1, len(columns))


def _on_unit(prior: Prior, bounds: tuple[float, float]) -> Callable[[Floats, Floats], Floats]:
    """A user's log density on [0, 1], without the constant of the change of units."""
    low, width = bounds[0], bounds[1] - bounds[0]
    assert callable(prior)

    def log_density(mu: Floats, v: Floats) -> Floats:
        shape = np.broadcast_shapes(mu.shape, v.shape)
        logs = np.asarray(prior(low + width * mu, width**2 * v), dtype=np.float64)
        if np.isnan(logs).any():
            raise ValueError("the prior's log density is not a number somewhere in the region")
        return np.broadcast_to(logs, shape)

    return log_density
