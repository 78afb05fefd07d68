r"""PyMC model of the mean and variance of data in a public interval, from noisy statistics left free.

.. math::
   (\mu, \sigma^2) &\sim \text{prior, where } \sigma^2 \le (\mu - a)(b - \mu) \\
   \bar Y \mid \mu, \sigma^2 &\sim N(\mu, \sigma^2/n), \qquad
   S^2 \mid \sigma^2 \sim \text{Gamma}\big(\tfrac{n-1}{2}, \tfrac{n-1}{2 \sigma^2}\big) \\
   \text{noisy[mean]} &= \bar Y + \text{noise}, \qquad \text{noisy[variance]} = S^2 + \text{noise}

With constraints, the statistics are those of n values in the interval: :math:`0 \le \bar Y \le 1` and
:math:`S^2 \le \frac{n}{n-1} \bar Y (1 - \bar Y)` on the unit scale. With ``feasibility="event"`` the model conditions
on this event: a potential is the log probability of the event given the release. With "normalised" the distribution of
the statistics is truncated to the event: that probability is divided by :math:`C(\mu, \sigma^2)`, its average.
Potentials are log probabilities, so `calibrate` draws the prior exactly by rejection; `pm.sample_prior_predictive`
ignores potentials.

References
----------
Kazan (2026), chapter 4: sections 4.2 and 4.3, Theorems 13, 14, 16 and 18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from adversary.bounded import BoundedRelease, Flat, as_prior, check_proper, default_cap

from .density_operations import gamma_laplace, log_feasible, log_gammainc, log_ndtr, normal_laplace
from .public_data import PublicData, parameters

# Lower bound on the probability that the statistics are feasible, over all means and variances.
LEAST_MASS = np.float64(0.25)

_ZERO, _ONE, _TWO = np.float64(0.0), np.float64(1.0), np.float64(2.0)


@dataclass(frozen=True)
class DataStatistics:
    """Parameters of the exact mean and variance of n values in [0, 1], and the Laplace rates of their noise or None."""

    n: TensorVariable
    mu: TensorVariable
    sigma2: TensorVariable
    rate1: Any = None
    rate2: Any = None

    @property
    def alpha(self) -> TensorVariable:
        """Shape (n - 1) / 2 of the gamma distribution of S^2."""
        return (self.n - _ONE) / _TWO

    @property
    def spread(self) -> TensorVariable:
        """Variance sigma^2 / n of the sample mean."""
        return self.sigma2 / self.n

    def largest(self, y: Any) -> TensorVariable:
        """Largest sample variance u(y) = n / (n - 1) y (1 - y), at least 1e-100 so that its log is finite."""
        return pt.maximum(self.n / (self.n - _ONE) * y * (_ONE - y), np.float64(1e-100))

    def log_feasible(self, mean: TensorVariable | None, variance: TensorVariable | None) -> TensorVariable:
        """Log density of the released noisy statistics jointly with the event that the exact ones are feasible."""
        released = [(r, y) for r, y in ((self.rate1, mean), (self.rate2, variance)) if y is not None]
        constant = sum((pt.log(rate / _TWO) for rate, _ in released), start=_ZERO)
        rate1, seen1 = (_ZERO, _ZERO) if mean is None else (self.rate1, mean)
        rate2, seen2 = (_ZERO, _ZERO) if variance is None else (self.rate2, variance)
        return constant + log_feasible(self.n, self.mu, self.sigma2, rate1, rate2, seen1, seen2)

    def log_mass(self) -> TensorVariable:
        """Log of C(mu, sigma2), the probability that the exact statistics are feasible."""
        return self.log_feasible(None, None)


# Per unconstrained statistic: log density with noise, from two parameters and the rate; and distribution without.
_LAWS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean": (normal_laplace, lambda mu, variance, size: pm.Normal.dist(mu, pt.sqrt(variance), size=size)),
    "variance": (gamma_laplace, lambda a, sigma2, size: pm.Gamma.dist(a, a / sigma2, size=size)),
}


def bounded(
    release: BoundedRelease,
    prior: Any = "flat",
    constrained: bool = True,
    form: str = "marginal",
    *,
    feasibility: str = "event",
    cap: float | None = None,
    observed: bool = False,
) -> pm.Model:
    """PyMC model of the mean and variance of bounded data and of their noisy release.

    Parameters
    ----------
    release : BoundedRelease
        One release. The model takes n, noise and bounds from it; if the release is left free, its values only set the
        sampler's coordinates.
    prior : "flat", NormalInverseGamma or callable
        A callable maps (mu, sigma2), PyTensor variables in the units of the data, to the log density up to a constant.
        To draw from such a model, the log density must be at most 0.
    constrained : bool
        Whether parameters and statistics are restricted to those of data within the bounds.
    form : "marginal" or "joint"
        "marginal" has the two parameters only, with the exact statistics integrated out; it needs Laplace noise.
        "joint" has the exact statistics as latents, each by its uniform quantile in its (truncated) distribution.
    feasibility : "event" or "normalised"
        See the module; ignored without constraints.
    cap : float, optional
        Upper bound on sigma2 without constraints, in squared units of the data; `math.inf` for none. Default:
        (n - 1) / (2 n epsilon2) on the unit scale if that is above 1/4, as in the thesis, otherwise none.
    observed : bool
        Whether the release is observed, with its values as the model's data ``released[...]``. A model can then be
        compiled once for many releases: `pm.set_data`, or nutpie's ``with_data``, changes n, scales, values and prior.

    Returns
    -------
    pymc.Model
        Free: ``mu``, ``sigma2``, in the joint form the quantiles ``place[mean]``, ``place[variance]``, and the released
        ``noisy[mean]``, ``noisy[variance]``. Deterministic: ``sigma``, and in the joint form ``sample_mean``,
        ``sample_variance``. All but the quantiles are in the units of the data. Data: ``n``, ``scale[...]`` (Laplace
        scale, or standard deviation), ``released[...]``, and the parameters of an informative prior.

    Notes
    -----
    Observe a free release with ``pm.observe(model, released_statistics(release))``. Bounds, form and cap are fixed when
    the model is built.

    Raises
    ------
    ValueError : an improper posterior, several releases, Gaussian noise in the marginal form, or an unknown option

    Examples
    --------
    >>> release = BoundedRelease(0.343, 0.2225, n=43, epsilon=(0.25, 0.25))
    >>> sorted(rv.name for rv in bounded(release).free_RVs)
    ['mu', 'noisy[mean]', 'noisy[variance]', 'sigma2']
    """
    law = as_prior(prior)
    _check(release, law, form, feasibility)
    top = _largest(release, constrained, cap)
    if isinstance(law, Flat):
        check_proper(release, law, constrained, cap)
    with pm.Model() as model:
        public = PublicData.of(release, observed)
        mu, sigma2 = parameters(public, law, constrained, top * release.width**2)
        unit = public.on_unit("mean", mu), public.on_unit("variance", sigma2)
        statistics = DataStatistics(public.n, *unit, public.rate("mean"), public.rate("variance"))
        (_marginal if form == "marginal" else _joint)(public, statistics, constrained)
        if constrained and feasibility == "normalised":
            pm.Potential("one_over_mass", pt.log(LEAST_MASS) - statistics.log_mass())
    return model


def released_statistics(release: BoundedRelease) -> dict[str, float]:
    """Values of the released variables of `bounded` for `pm.observe`.

    Parameters
    ----------
    release : one release; a statistic that is None is left out

    Returns
    -------
    {"noisy[mean]": value, "noisy[variance]": value}, in the units of the data and their square.

    >>> released_statistics(BoundedRelease(34.3, None, n=43, epsilon=0.25, bounds=(0, 100)))
    {'noisy[mean]': 34.3}
    """
    values = {"noisy[mean]": release.mean, "noisy[variance]": release.variance}
    return {name: float(np.asarray(value)) for name, value in values.items() if value is not None}


def _marginal(public: PublicData, statistics: DataStatistics, constrained: bool) -> None:
    """Add the released statistics, with the exact ones integrated out and the log probability of feasibility."""
    low, width = np.float64(public.release.bounds[0]), np.float64(public.release.width)
    own = {
        "mean": (low + width * statistics.mu, width**2 * statistics.spread),
        "variance": (statistics.alpha, width**2 * statistics.sigma2),
    }
    noisy = {name: _noisy(public, name, own[name]) for name in public.names}
    if constrained:
        places = {
            "mean": (statistics.mu, statistics.spread, statistics.rate1),
            "variance": (statistics.alpha, statistics.sigma2, statistics.rate2),
        }
        unit = {name: public.on_unit(name, value) for name, value in noisy.items()}
        free = sum(_LAWS[name][0](value, *places[name]) for name, value in unit.items())
        pm.Potential("feasible", statistics.log_feasible(unit.get("mean"), unit.get("variance")) - free)


def _noisy(public: PublicData, name: str, parameters: tuple[Any, Any]) -> TensorVariable:
    """Unconstrained statistic plus Laplace noise, in the units of the data."""
    density, exact = _LAWS[name]
    return pm.CustomDist(
        f"noisy[{name}]",
        *parameters,
        public.scales[name],
        logp=lambda value, first, second, scale: density(value, first, second, _ONE / scale),
        dist=lambda first, second, scale, size: exact(first, second, size) + pm.Laplace.dist(_ZERO, scale, size=size),
        observed=public.seen(name),
    )


def _joint(public: PublicData, statistics: DataStatistics, constrained: bool) -> None:
    """Add the exact statistics, by their quantiles, and the released ones given these."""
    mean, mass = _sample_mean(statistics, constrained)
    variance, rest = _sample_variance(statistics, statistics.largest(mean) if constrained else None)
    if constrained:
        pm.Potential("feasible", mass + rest)
    low, width = np.float64(public.release.bounds[0]), np.float64(public.release.width)
    exact = {
        "mean": pm.Deterministic("sample_mean", low + width * mean),
        "variance": pm.Deterministic("sample_variance", width**2 * variance),
    }
    for name in public.names:
        scale = public.scales[name]
        if public.release.noise == "laplace":
            pm.Laplace(f"noisy[{name}]", mu=exact[name], b=scale, observed=public.seen(name))
        else:
            pm.Normal(f"noisy[{name}]", mu=exact[name], sigma=scale, observed=public.seen(name))


def _sample_mean(statistics: DataStatistics, constrained: bool) -> tuple[TensorVariable, TensorVariable]:
    """Sample mean at a uniform quantile of its distribution truncated to (0, 1), and the log mass of (0, 1)."""
    place, sd = pm.Uniform("place[mean]", np.float64(0.0), _ONE), pt.sqrt(statistics.spread)
    if not constrained:
        return statistics.mu + sd * _normal_quantile(place), pt.constant(np.float64(0.0))
    low, high = pt.exp(log_ndtr(-statistics.mu / sd)), pt.exp(log_ndtr((_ONE - statistics.mu) / sd))
    inside = statistics.mu + sd * _normal_quantile(low + place * (high - low))
    return pt.clip(inside, np.float64(0.0), _ONE), pt.log(high - low)


def _normal_quantile(p: TensorVariable) -> TensorVariable:
    edge = np.float64(1e-15)
    return np.sqrt(_TWO) * pt.erfinv(_TWO * pt.clip(p, edge, _ONE - edge) - _ONE)


def _sample_variance(statistics: DataStatistics, upper: TensorVariable | None) -> tuple[TensorVariable, TensorVariable]:
    """Sample variance at a uniform quantile of its distribution truncated to (0, upper), and the log mass of that."""
    place, k = pm.Uniform("place[variance]", np.float64(0.0), _ONE), statistics.alpha
    if upper is None:
        return statistics.sigma2 / k * pt.gammaincinv(k, place), pt.constant(np.float64(0.0))
    end = k * upper / statistics.sigma2
    quantile = pt.gammaincinv(k, pt.maximum(place * pt.gammainc(k, end), np.float64(1e-290)))
    return statistics.sigma2 / k * quantile, log_gammainc(k, end)


def _largest(release: BoundedRelease, constrained: bool, cap: float | None) -> float:
    """Upper bound on sigma2, on the unit scale."""
    if constrained:
        if cap is not None:
            raise ValueError("cap is for constrained=False: constrained, sigma2 is at most (mu - a)(b - mu)")
        return 0.25
    if cap is not None:
        if not cap > 0:
            raise ValueError(f"cap must be positive, got {cap}")
        return float(cap) / release.width**2
    return float(default_cap(release))


def _check(release: BoundedRelease, law: Any, form: str, feasibility: str) -> None:
    for name, value, known in (
        ("form", form, ("marginal", "joint")),
        ("feasibility", feasibility, ("event", "normalised")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")
    if release.shape or getattr(law, "shape", ()):
        raise ValueError(f"a model is of one release and one prior, got shape {release.shape or law.shape}")
    if form == "marginal" and release.noise != "laplace":
        raise ValueError('the marginal form has closed forms for Laplace noise only: use form="joint"')
