"""Additive noise with a density: Gaussian, Laplace, and exact sums of Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.special import gammaincc, gammaln, log_ndtr

from adversary._core import (
    TAIL_NATS,
    Floats,
    check_budget,
    check_non_negative,
    check_positive,
    check_scale,
    check_whole,
    format_number,
    log_sum_exp,
)
from adversary.privacy.losses import GaussianLoss, LaplaceLoss, PrivacyLoss, compose_losses
from adversary.privacy.mechanisms.additive import ContinuousNoise, Summed, total_of
from adversary.privacy.mechanisms.calibrated import Calibrated, Exact, checked_change
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of


@dataclass(frozen=True, slots=True, repr=False)
class Gaussian(Calibrated, ContinuousNoise):
    """Gaussian noise with standard deviation sigma: density exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)).

    Parameters
    ----------
    sigma : standard deviation, in people, > 0
    """

    log_concave = True
    kind = "gaussian"
    parameters = ("rho", "sigma")

    sigma: float

    def __post_init__(self) -> None:
        Calibrated.__post_init__(self)
        object.__setattr__(self, "sigma", check_scale("sigma", self.sigma))

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs rho in all.

        sigma^2 = cells sensitivity^2 / (2 rho).
        """
        sensitivity, cells = checked_change(sensitivity, cells)
        check_budget(rho, cells * sensitivity**2)
        sigma = float(np.sqrt(cells * sensitivity**2 / (2.0 * float(rho))))
        return cls(sigma, sensitivity=sensitivity, cells=cells)

    def describe(self) -> str:
        return f"Gaussian, sigma = {format_number(self.sigma)}"

    @property
    def variance(self) -> float:
        return self.sigma**2

    @property
    def curvature(self) -> float:
        return 0.5 / self.sigma**2

    def rho(self, change: float = 1) -> float:
        """change^2 / (2 sigma^2)."""
        return 0.5 * (float(check_non_negative("change", change)) / self.sigma) ** 2

    @property
    def parabola(self) -> tuple[float, float] | None:
        return self.curvature, float(self.log_noise(np.zeros(())))

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return self.sigma * float(np.sqrt(2.0 * nats))

    def log_noise(self, offset: Floats) -> Floats:
        return np.asarray(-0.5 * (offset / self.sigma) ** 2 - np.log(self.sigma) - 0.5 * np.log(2 * np.pi))

    def log_survival(self, offset: Floats) -> Floats:
        return np.asarray(log_ndtr(-offset / self.sigma), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(self.sigma * rng.standard_normal(shape))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        return replace(self, sigma=self.sigma * float(np.sqrt(count))) if count else Exact()

    def scaled(self, factor: float) -> Self:
        return replace(self, sigma=self.sigma / root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, n = self.change(sensitivity, cells)
        change = float(check_non_negative("sensitivity", change))
        return GaussianLoss(float(change / float(self.sigma) * np.sqrt(n)))


@dataclass(frozen=True, slots=True, repr=False)
class Laplace(Calibrated, ContinuousNoise):
    """Laplace noise: density exp(-|x| / scale) / (2 scale); epsilon = sensitivity / scale.

    Parameters
    ----------
    scale : mean absolute noise, in people, > 0
    """

    log_concave = True
    kind = "laplace"
    parameters = ("epsilon", "scale")

    scale: float

    def __post_init__(self) -> None:
        Calibrated.__post_init__(self)
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs epsilon in all.

        scale = cells sensitivity / epsilon.
        """
        check_positive("epsilon", epsilon)
        sensitivity, cells = checked_change(sensitivity, cells)
        return cls(float(cells * sensitivity / float(epsilon)), sensitivity=sensitivity, cells=cells)

    def describe(self) -> str:
        return f"Laplace, scale = {format_number(self.scale)}"

    @property
    def variance(self) -> float:
        return 2.0 * self.scale**2

    def rho(self, change: float = 1) -> float:
        """zCDP parameter e - 1 + exp(-e) at e = change / scale: D_a / a is largest as the order a tends to 1."""
        e = float(check_non_negative("change", change)) / self.scale
        return e + float(np.expm1(-e)) if e > 1e-4 else e * e / 2.0

    @property
    def laplace_rate(self) -> float:
        return 1.0 / self.scale

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return self.scale * nats

    def log_noise(self, offset: Floats) -> Floats:
        return np.asarray(-np.abs(offset) / self.scale - np.log(2 * self.scale))

    def log_survival(self, offset: Floats) -> Floats:
        outer = np.log(0.5) - np.abs(offset) / self.scale
        return np.asarray(np.where(offset >= 0, outer, np.log1p(-np.exp(outer))), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(rng.laplace(0.0, self.scale, shape))

    def total(self, count: int) -> Mechanism:
        return total_of(self, count, LaplaceSum)

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale / root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, n = self.change(sensitivity, cells)
        return compose_losses([LaplaceLoss(float(check_non_negative("sensitivity", change)) / float(self.scale))] * n)


@dataclass(frozen=True, slots=True)
class LaplaceSum(Summed, ContinuousNoise):
    """Sum of n = `count` independent Laplace variables.

    |sum| / scale is a mixture of Gamma(n - j), j = 0, ..., n - 1, with weights C(n - 1 + j, j) / 2^(n - 1 + j).
    """

    log_concave = True

    @property
    def scale(self) -> float:
        """Scale of one summand."""
        return float(self.single.scale)

    def _log_weights(self) -> tuple[Floats, Floats]:
        n, j = self.count, np.arange(self.count, dtype=np.float64)
        return n - j, gammaln(n + j) - gammaln(j + 1) - gammaln(n) - (n - 1 + j) * np.log(2.0)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return self.scale * _radius_of_sum(self.count, nats)

    def log_noise(self, offset: Floats) -> Floats:
        shape, weight = self._log_weights()
        x = np.abs(np.asarray(offset, dtype=np.float64)) / self.scale
        # Log coefficients of x^(shape - 1), all positive; evaluated directly where no power can overflow.
        coefficient = weight - gammaln(shape)
        if self.count * max(1.0, float(np.log1p(x.max(initial=0.0)))) < 100.0:
            polynomial = np.log(np.polyval(np.exp(coefficient), x))
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                power = np.where(shape == 1, 0.0, (shape - 1) * np.log(x[..., None]))
            polynomial = log_sum_exp(coefficient + power)
        return np.asarray(polynomial - x - np.log(2 * self.scale), dtype=np.float64)

    def log_survival(self, offset: Floats) -> Floats:
        shape, weight = self._log_weights()
        x = np.abs(np.asarray(offset, dtype=np.float64))[..., None] / self.scale
        with np.errstate(divide="ignore"):
            outer = np.log(0.5 * (np.exp(weight) * gammaincc(shape, x)).sum(-1))
        return np.asarray(np.where(np.asarray(offset) >= 0, outer, np.log1p(-np.exp(outer))), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(self.scale * (rng.gamma(self.count, size=shape) - rng.gamma(self.count, size=shape)))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        raise NotImplementedError("the loss of a sum of Laplace releases is not derived: ask one release's")


@lru_cache(maxsize=4096)
def _radius_of_sum(count: int, nats: float) -> float:
    """Distance at which the density of a sum of Laplace variables of scale 1 is `nats` below its peak; rounded up."""
    unit = LaplaceSum(Laplace(1.0), count)
    peak = float(unit.log_noise(np.zeros(())))

    def nearer(x: float) -> float:
        """Fixed-point step: the density is exp(-x) times a polynomial, whose logarithm is concave."""
        return x + float(unit.log_noise(np.array(x))) - peak + nats

    last = nats + count
    while nearer(last) > last:
        last *= 2.0
    for _ in range(60):
        near = nearer(last)
        if last - near <= 1e-6 * last:
            break
        last = near
    return last
