"""Additive noise on the integers: discrete Gaussian, two-sided geometric, and exact sums of either."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    as_array,
    check_budget,
    check_non_negative,
    check_positive,
    check_scale,
    check_whole,
    format_number,
    log_sum_exp,
    log_tail_sum,
    log_theta,
    one_number,
)
from adversary.privacy.definitions import ZeroConcentratedDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import (
    DiscreteGaussianLoss,
    LatticeLoss,
    PrivacyLoss,
    compose_losses,
    repeat_loss,
    repeat_product,
)
from adversary.privacy.mechanisms.additive import IntegerNoise, Summed, summed_tail, tail_radius_of_sum, total_of
from adversary.privacy.mechanisms.calibrated import Calibrated, checked_change
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of

# Relative error up to which a sum of discrete Gaussians is treated as one discrete Gaussian.
#
# For d summands the error is 2 d exp(-pi^2 (1 - 1/d) / rho), from the first terms of the two Poisson summations.
REVIVAL = 1e-15


@dataclass(frozen=True, slots=True, repr=False)
class DiscreteGaussian(Calibrated, IntegerNoise):
    """Discrete Gaussian noise: pmf(k) = exp(-k^2 / (2 sigma^2)) / theta, k any integer.

    Parameters
    ----------
    sigma : parameter, in people; it is close to the standard deviation for sigma of at least about 1
    sigma2 : square of sigma; a Fraction is exact. Either parameter determines the other

    References
    ----------
    Canonne, Kamath and Steinke 2020, Definition 1 and Theorem 4 (a change of s costs s^2 / (2 sigma^2) of zCDP).

    >>> DiscreteGaussian.from_rho(0.5).sigma
    1.0
    """

    log_concave = True
    kind = "discrete gaussian"
    parameters = ("rho", "sigma")

    sigma: float | Fraction = 0.0
    sigma2: Fraction | float | None = None

    def __post_init__(self) -> None:
        Calibrated.__post_init__(self)
        if self.sigma2 is not None and self.sigma == 0.0:
            check_positive("sigma2", self.sigma2)
            object.__setattr__(self, "sigma", math.sqrt(one_number("sigma2", self.sigma2)))
        check_scale("sigma", self.sigma)
        if self.sigma2 is None:
            exact = isinstance(self.sigma, (Fraction, int))
            object.__setattr__(self, "sigma2", Fraction(self.sigma) ** 2 if exact else float(self.sigma) ** 2)
        elif not math.isclose(one_number("sigma2", self.sigma2), float(self.sigma) ** 2, rel_tol=1e-12):
            raise ValueError(f"sigma2 must be sigma squared, got sigma {self.sigma} and sigma2 {self.sigma2}")

    @classmethod
    def from_rho(cls, rho: float | Fraction, sensitivity: float = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs rho in all.

        sigma^2 = cells sensitivity^2 / (2 rho). Use cells = 1 for unbounded neighbours (one count changes) and
        cells = 2 for bounded ones (a record changes its cell).
        """
        sensitivity, cells = checked_change(sensitivity, cells)
        change = cells * sensitivity * sensitivity
        check_budget(rho, change)
        sigma2 = Fraction(change) / (2 * rho) if isinstance(rho, Fraction) else change / (2.0 * float(rho))
        return cls(float(np.sqrt(as_array(sigma2))), sigma2, sensitivity=sensitivity, cells=cells)

    def describe(self) -> str:
        return f"discrete Gaussian, sigma² = {format_number(float(self.sigma) ** 2)}"

    @property
    def curvature(self) -> float:
        """1 / (2 sigma^2): the log pmf at k is this times k^2 below its peak."""
        return 0.5 / float(self.sigma2 or 0.0)

    @property
    def variance(self) -> float:
        """Exact variance, by summation; sigma^2 if that is exact to double precision, otherwise below it."""
        # The relative difference to sigma^2 is of the order of exp(-2 pi^2 sigma^2).
        if np.exp(-(np.pi**2) / self.curvature) < 1e-20:
            return float(self.sigma2 or 0.0)
        k = self.support(0).astype(np.float64)
        return float((k * k) @ np.exp(self.log_noise(k)))

    @property
    def parabola(self) -> tuple[float, float] | None:
        return self.curvature, -float(log_theta(self.curvature))

    def log_noise(self, offset: Any) -> Any:
        return -self.curvature * offset * offset - log_theta(self.curvature)

    def log_survival(self, offset: Integers) -> Floats:
        return np.asarray(log_tail_sum(offset, self.curvature) - log_theta(self.curvature), dtype=np.float64)

    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        return int(np.ceil(np.sqrt(nats / self.curvature)))

    def rho(self, change: float = 1) -> float:
        """change^2 / (2 sigma^2)."""
        return self.curvature * float(check_non_negative("change", change)) ** 2

    def total(self, count: int) -> Mechanism:
        return total_of(self, count, DiscreteGaussianSum)

    def scaled(self, factor: float) -> Self:
        check_positive("factor", factor)
        sigma2 = float(self.sigma2 or 0.0) / factor
        return replace(self, sigma=math.sqrt(sigma2), sigma2=sigma2)

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, n = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", change, minimum=0))
        if not (shift and n):
            return compose_losses([])
        sigma2 = self.sigma2
        return DiscreteGaussianLoss.of(1 / sigma2 if isinstance(sigma2, Fraction) else 2.0 * self.curvature, shift, n)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianSum(Summed, IntegerNoise):
    """Exact distribution of the sum of d = `count` independent discrete Gaussians, at any integer.

    Shifting every summand by a gives h(d a + r) = h(r) exp(-rho (d a^2 + 2 a r)), with rho = 1 / (2 sigma^2). The pmf h
    therefore follows from d of its values, which a convolution of positive terms gives with relative accuracy. For wide
    noise (rho below about 0.25, more for few summands) it equals, up to rounding, one discrete Gaussian with d sigma^2.
    """

    log_concave = True

    @property
    def curvature(self) -> float:
        """Curvature of the log pmf over multiples of `count`: that of one summand divided by `count`."""
        return float(self.single.curvature) / self.count

    def rho(self, change: float = 1) -> float:
        """zCDP parameter: from the curvature if the log pmf is a parabola, otherwise that of one summand."""
        if self.is_quadratic():
            return self.curvature * float(check_non_negative("change", change)) ** 2
        return float(self.single.rho(change))

    @property
    def nominal_guarantee(self) -> Guarantee:
        """zCDP if the log pmf is a parabola, otherwise the mechanism's privacy loss."""
        return ZeroConcentratedDP(self.curvature) if self.is_quadratic() else self.privacy_loss(1, 1)

    def is_quadratic(self) -> bool:
        """True if the log pmf is a parabola up to rounding."""
        d, rho = self.count, self.curvature * self.count
        return d == 1 or 2 * d * math.exp(-(math.pi**2) * (1 - 1 / d) / rho) < REVIVAL

    @property
    def parabola(self) -> tuple[float, float] | None:
        return (self.curvature, -float(log_theta(self.curvature))) if self.is_quadratic() else None

    def log_noise(self, offset: Any) -> Any:
        if self.is_quadratic():
            return -self.curvature * offset * offset - log_theta(self.curvature)
        d, rho = self.count, self.single.curvature
        a = np.round(as_array(offset) / d)
        r = as_array(offset) - d * a
        return _residues(self)[(r + d // 2).astype(np.int64) % d] - rho * (d * a * a + 2 * a * r)

    def log_survival(self, offset: Integers) -> Floats:
        if self.is_quadratic():
            return np.asarray(log_tail_sum(offset, self.curvature) - log_theta(self.curvature), dtype=np.float64)
        return summed_tail(self, offset)

    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        if self.is_quadratic():
            return int(np.ceil(np.sqrt(nats / self.curvature)))
        return tail_radius_of_sum(self, nats, int(np.sqrt(nats / self.curvature)) + 2 * self.count + 2)


@lru_cache(maxsize=64)
def _residues(noise: DiscreteGaussianSum) -> Floats:
    """log h(r) for r = -(d // 2), ..., d - 1 - d // 2, by repeated squaring of direct convolutions.

    In extended precision, for its range of exponents; for narrow noise, which has few values, in log space.
    """
    single, d = noise.single, noise.count
    k = single.tail_radius(60.0)
    log_power = as_array(single.log_noise(np.arange(-k, k + 1, dtype=np.float64)))
    if single.curvature > 5.0:
        total = repeat_product(log_power, d, np.zeros(1), _log_convolve)
        return as_array(_central(total, d))
    total = repeat_product(np.exp(log_power.astype(np.longdouble)), d, np.ones(1, np.longdouble), np.convolve)
    return as_array(np.log(_central(total, d)))


def _central(total: Any, count: int) -> Any:
    """The central `count` entries of an array."""
    start = total.size // 2 - count // 2
    return total[start : start + count]


def _log_convolve(a: Floats, b: Floats) -> Floats:
    """Convolution of two sequences in log space."""
    total = np.full(a.size + b.size - 1, -np.inf)
    for i, value in enumerate(b):
        total[i : i + a.size] = np.logaddexp(total[i : i + a.size], a + value)
    return total


@dataclass(frozen=True, slots=True, repr=False)
class Geometric(Calibrated, IntegerNoise):
    """Two-sided geometric noise: pmf(k) = (1 - a)/(1 + a) a^|k|, a = exp(-epsilon): pure DP for integer counts.

    Parameters
    ----------
    epsilon : nats per unit change of the count, > 0

    References
    ----------
    Ghosh, Roughgarden and Sundararajan 2012, Definition 2.1.
    """

    log_concave = True
    kind = "geometric"
    parameters = ("epsilon",)

    epsilon: float

    def __post_init__(self) -> None:
        Calibrated.__post_init__(self)
        object.__setattr__(self, "epsilon", check_scale("epsilon", self.epsilon))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: int = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs epsilon in all."""
        check_positive("epsilon", epsilon)
        change, cells = checked_change(int(check_whole("sensitivity", sensitivity, minimum=1)), cells)
        return cls(float(epsilon) / (change * cells), sensitivity=change, cells=cells)

    def describe(self) -> str:
        return f"two-sided geometric, epsilon = {format_number(self.epsilon)}"

    @property
    def variance(self) -> float:
        return float(2.0 * np.exp(-self.epsilon) / np.expm1(-self.epsilon) ** 2)

    def rho(self, change: float = 1) -> float:
        """zCDP parameter epsilon (k - 2 a (1 - a^k) / (1 - a^2)) for a change of k: the Kullback-Leibler divergence.

        As for Laplace noise, D_a / a is largest as the order tends to 1; epsilon tanh(epsilon / 2) for a change of 1.
        """
        k, a = int(check_whole("change", one_number("change", change), minimum=0)), math.exp(-self.epsilon)
        # A sum of positive terms: the closed form cancels for small epsilon.
        ends = -np.expm1(-self.epsilon * np.arange(k + 1.0))
        return float(self.epsilon / (1.0 + a) * (ends[1:].sum() + a * ends[:-1].sum()))

    @property
    def laplace_rate(self) -> float:
        return self.epsilon

    def log_noise(self, offset: Any) -> Any:
        return np.log(np.tanh(self.epsilon / 2.0)) - self.epsilon * np.abs(offset)

    def log_survival(self, offset: Integers) -> Floats:
        upper = -self.epsilon * np.maximum(offset, 1 - offset) - np.log1p(np.exp(-self.epsilon))
        return np.asarray(np.where(offset >= 1, upper, np.log1p(-np.exp(upper))), dtype=np.float64)

    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        return int(np.ceil(nats / self.epsilon))

    def draw(self, rng: np.random.Generator, shape: Any) -> Integers:
        """Random noise as a difference of two geometric variables, which needs no table."""
        chance = -np.expm1(-self.epsilon)
        return np.asarray(rng.geometric(chance, shape) - rng.geometric(chance, shape), dtype=np.int64)

    def total(self, count: int) -> Mechanism:
        return total_of(self, count, GeometricSum)

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon * root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Loss with sensitivity + 1 values epsilon (2 k - sensitivity); each extreme value has the mass of a tail."""
        change, cells = self.change(sensitivity, cells)
        s = int(check_whole("sensitivity", change, minimum=0))
        k = np.arange(s + 1)
        p, q = as_array(self.log_noise(k - float(s))), as_array(self.log_noise(k.astype(np.float64)))
        p[0], q[0] = self.log_survival(np.array([s, 0]))
        p[-1], q[-1] = self.log_survival(np.array([0, s]))
        if s == 0:
            p, q = np.zeros(1), np.zeros(1)
        return repeat_loss(LatticeLoss.from_losses(as_array(self.epsilon * (2.0 * k - s)), p, q), cells)


@dataclass(frozen=True, slots=True)
class GeometricSum(Summed, IntegerNoise):
    """Sum of d = `count` two-sided geometric variables: with a = exp(-epsilon), for k >= 0,

        pmf(k) = ((1 - a)/(1 + a))^d a^k sum_{j < d} C(d - 1 + j, j) C(k + d - 1, d - 1 - j) (a^2 / (1 - a^2))^j,

    all terms positive (Pfaff's transformation of the hypergeometric sum over both tails).
    """

    log_concave = True

    @property
    def epsilon(self) -> float:
        """Epsilon of one summand."""
        return float(self.single.epsilon)

    def log_noise(self, offset: Any) -> Any:
        d, eps = self.count, self.epsilon
        k, place = np.unique(np.abs(as_array(offset)), return_inverse=True)
        j = np.arange(d, dtype=np.float64)
        odds = -2 * eps - np.log(-np.expm1(-2 * eps))
        fixed = gammaln(d + j) - gammaln(j + 1) - gammaln(d) - gammaln(d - j) + j * odds
        rising = gammaln(k[:, None] + d) - gammaln(k[:, None] + j + 1)
        value = d * np.log(np.tanh(eps / 2.0)) - eps * k + log_sum_exp(fixed + rising)
        return value[place].reshape(np.shape(offset))

    def log_survival(self, offset: Integers) -> Floats:
        return summed_tail(self, offset)

    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        peak = as_array(self.log_noise(np.zeros(1)))[0]
        high = int(np.ceil(nats / self.epsilon)) + 1
        while as_array(self.log_noise(np.array([float(high)])))[0] >= peak - nats:
            high *= 2
        return tail_radius_of_sum(self, nats, high)
