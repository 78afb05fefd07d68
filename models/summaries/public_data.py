"""Public facts about bounded data as `pm.Data` of a model, and the parameters with their prior.

Both are parts of the model of `bounded_data`. The sampling coordinates of the parameters are those of `coordinates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval
from pytensor.tensor.variable import TensorVariable

from adversary.bounded import BoundedRelease, Flat, NormalInverseGamma

from .coordinates import RootUpTo, Standardised, pool_normal

_TWO = np.float64(2.0)
_NEVER = np.float64(-np.inf)


@dataclass(frozen=True)
class PublicData:
    """Public facts (n, noise scales, released values) as `pm.Data` of the model in context, in units of the data."""

    release: BoundedRelease
    n: TensorVariable
    scales: dict[str, TensorVariable]
    values: dict[str, TensorVariable]
    observed: bool

    @classmethod
    def of(cls, release: BoundedRelease, observed: bool) -> PublicData:
        widths = {"mean": release.width, "variance": release.width**2}
        scales = dict(zip(widths, release.unit_scales, strict=True))
        names = [name for name in widths if getattr(release, name) is not None]
        return cls(
            release,
            _data("n", release.size),
            {name: _data(f"scale[{name}]", scales[name] * widths[name]) for name in names},
            {name: _data(f"released[{name}]", getattr(release, name)) for name in names},
            observed,
        )

    @property
    def names(self) -> list[str]:
        return list(self.scales)

    def rate(self, name: str) -> TensorVariable | None:
        """Laplace rate on the unit scale."""
        width = np.float64(self.release.width ** (1 if name == "mean" else 2))
        return width / self.scales[name] if name in self.scales else None

    def seen(self, name: str) -> TensorVariable | None:
        """The released value if it is observed, else None."""
        return self.values[name] if self.observed else None

    def on_unit(self, name: str, value: TensorVariable) -> TensorVariable:
        """Convert a mean or a variance from the units of the data to the unit scale."""
        low, width = np.float64(self.release.bounds[0]), np.float64(self.release.width)
        return (value - low) / width if name == "mean" else value / width**2

    @property
    def middle(self) -> np.float64:
        """Midpoint of the bounds."""
        return np.float64(sum(self.release.bounds) / 2.0)


def _data(name: str, value: Any) -> TensorVariable:
    return pm.Data(name, np.asarray(value, dtype=np.float64))


def parameters(public: PublicData, law: Any, constrained: bool, top: float) -> tuple[TensorVariable, TensorVariable]:
    """mu and sigma2 with their prior, in the units of the data; sigma2 at most `top`."""
    if isinstance(law, NormalInverseGamma):
        mu, sigma2 = _informative(public, law, constrained, top)
    elif constrained:
        mu, sigma2 = _feasible(public)
    else:
        mu, sigma2 = _flat_prior(public, top)
    pm.Deterministic("sigma", pt.sqrt(sigma2))
    if not isinstance(law, (Flat, NormalInverseGamma)):
        pm.Potential("log_prior", law(mu, sigma2))
    return mu, sigma2


def _feasible(public: PublicData) -> tuple[TensorVariable, TensorVariable]:
    """Flat prior on all (mu, sigma2) that are possible for data within the bounds."""
    low, high = (np.float64(end) for end in public.release.bounds)
    inside = Interval(bounds_fn=lambda *_: (pt.constant(low), pt.constant(high)))
    mu = pm.CustomDist(
        "mu", dist=lambda size: low + (high - low) * pm.Beta.dist(_TWO, _TWO, size=size), default_transform=inside
    )
    return mu, pm.Uniform("sigma2", np.float64(0.0), (mu - low) * (high - mu))


def _flat_prior(public: PublicData, top: float) -> tuple[TensorVariable, TensorVariable]:
    """Flat prior on mu, and on sigma2 up to `top`; it is improper and cannot be drawn from."""
    ends = np.float64(0.0), np.float64(top)
    sigma2 = pm.HalfFlat("sigma2") if math.isinf(top) else pm.Uniform("sigma2", *ends)
    place = pool_normal(public.n, public.scales.get("mean"), public.values.get("mean"), sigma2, public.middle)
    mu = pm.CustomDist(
        "mu",
        *place,
        sigma2,
        logp=lambda value, m, s, v: pt.zeros_like(value),
        dist=lambda m, s, v, size: pm.Flat.dist(size=size),
        support_point=lambda rv, size, m, s, v: m,
        default_transform=Standardised(None),
        class_name="Flat",
    )
    return mu, sigma2


def _informative(
    public: PublicData, law: NormalInverseGamma, constrained: bool, top: float
) -> tuple[TensorVariable, TensorVariable]:
    """Conjugate prior. Sampling coordinates respect the feasible region; a potential restricts prior draws to it."""
    mu0, kappa0, nu0, s0 = (_data(name, getattr(law, name)) for name in ("mu0", "kappa0", "nu0", "s0"))
    sigma2 = pm.InverseGamma("sigma2", alpha=nu0 / _TWO, beta=nu0 * s0**2 / _TWO, default_transform=RootUpTo(top))
    prior = mu0, pt.sqrt(sigma2 / kappa0)
    place = pool_normal(public.n, public.scales.get("mean"), public.values.get("mean"), sigma2, public.middle, prior)
    mu = pm.CustomDist(
        "mu",
        *prior,
        *place,
        sigma2,
        logp=lambda value, centre, sd, m, s, v: pm.logp(pm.Normal.dist(centre, sd), value),
        dist=lambda centre, sd, m, s, v, size: pm.Normal.dist(centre, sd, size=size),
        support_point=lambda rv, size, centre, sd, m, s, v: m,
        default_transform=Standardised(public.release.bounds if constrained else None),
        class_name="Normal",
    )
    low, high = (np.float64(end) for end in public.release.bounds)
    largest = (mu - low) * (high - mu) if constrained else np.float64(top)
    if constrained or not math.isinf(top):
        pm.Potential("region", pt.switch(sigma2 <= largest, np.float64(0.0), _NEVER))
    return mu, sigma2
