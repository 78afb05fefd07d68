"""Noise laws: what is released, given the true value.

A mechanism says `log_prob(release, value)` and its tails, samples itself, adds up (`total`) and hands over the law of
its privacy loss. Integer noise is exact in both tails at any distance; continuous noise has its textbook forms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaln, log_ndtr

from adversary._numeric import (
    TAIL_NATS,
    Floats,
    Integers,
    as_array,
    check_positive,
    check_whole,
    log_sum_exp,
    log_tail_sum,
    log_theta,
    scalar_or_array,
)
from adversary.privacy.losses import GaussianLoss, LaplaceLoss, LatticeLoss, PrivacyLoss, composed, repeated

REVIVAL = 1e-15
"""A sum of d discrete Gaussians is one discrete Gaussian to a relative 4 d exp(-pi^2 / rho); below this it is taken as one."""

_LOSS_NATS = 745.0
_GUIDE = 4096


class Mechanism(ABC):
    """A noise law.

    To add one: a frozen dataclass with `log_prob`, `cdf`, `sf`, `variance`, `sample`, `total` and `privacy_loss`;
    for additive integer noise inherit from `IntegerNoise` and give `log_noise`, `log_survival`, `reach` instead
    (`Geometric` is the shortest example).
    """

    __slots__ = ()

    @abstractmethod
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        """Log probability (mass, or density for continuous noise) of a release given the true value; broadcasts."""

    @abstractmethod
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        """P(release' <= release) given the value."""

    @abstractmethod
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        """P(release' > release) given the value, accurate in the tail."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the release about the value."""

    @abstractmethod
    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """Simulated releases, for audits and studies. A genuine publication needs an exact sampler on a secure source."""

    @abstractmethod
    def support(self, value: int) -> Integers:
        """Releases that carry all but 1e-18 of the mass, ascending; TypeError for continuous noise."""

    def releases(self, value: int) -> tuple[Integers, Floats]:
        """(support, probabilities) of the releases of a value; shared arrays, not to be changed."""
        return _mass(self, int(value))

    @abstractmethod
    def total(self, count: int) -> Mechanism:
        """The noise of a sum of `count` independent releases, again a mechanism; `Exact()` for none."""

    @abstractmethod
    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        """Law of log P(release | value + sensitivity) / P(release | value), `cells` independent releases together."""

    @property
    @abstractmethod
    def rho(self) -> float:
        """A zCDP parameter for a change of 1, in nats; inf where there is none."""

    def log_ratio(self, release: ArrayLike, value: ArrayLike, other: ArrayLike) -> Any:
        """log P(release | value) - log P(release | other); 0 where both are impossible."""
        above, below = as_array(self.log_prob(release, value)), as_array(self.log_prob(release, other))
        with np.errstate(invalid="ignore"):
            difference = above - below
        return scalar_or_array(np.where(np.isneginf(above) & np.isneginf(below), 0.0, difference))


class IntegerNoise(Mechanism):
    """Additive noise on the integers, symmetric about 0 and log-concave."""

    __slots__ = ()

    @abstractmethod
    def log_noise(self, offset: Any) -> Any:
        """Log pmf of the noise at whole offsets given as floats."""

    @abstractmethod
    def log_survival(self, offset: Integers) -> Floats:
        """log P(noise >= offset), relatively accurate in both tails."""

    @abstractmethod
    def reach(self, nats: float = TAIL_NATS) -> int:
        """Smallest distance at which the pmf has fallen by at least that many nats from its peak."""

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(self.log_noise(offset.astype(np.float64)))

    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(np.exp(self.log_survival(-offset)))

    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(np.exp(self.log_survival(offset + 1)))

    def support(self, value: int) -> Integers:
        k = self.reach()
        return int(check_whole("value", value)) + np.arange(-k, k + 1)

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """By inverting the cumulative table: exact to double precision, about 20 million draws a second."""
        centre = check_whole("value", value)
        shape = centre.shape if size is None else size
        return scalar_or_array(centre + _invert(self, rng.random(shape)))

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        shift = int(check_whole("sensitivity", sensitivity, minimum=0))
        k = max(self.reach(_LOSS_NATS), 8) + shift
        offset = np.arange(-k, k + shift + 1, dtype=np.float64)
        p, q = as_array(self.log_noise(offset - shift)), as_array(self.log_noise(offset))
        return repeated(LatticeLoss.from_log_probs(p, q, bounded=shift == 0), cells)


@lru_cache(maxsize=512)
def _mass(noise: Mechanism, value: int) -> tuple[Integers, Floats]:
    support = noise.support(value)
    return support, np.exp(as_array(noise.log_prob(support, value)))


@lru_cache(maxsize=256)
def _table(noise: IntegerNoise) -> tuple[int, Floats, Integers]:
    """First offset, cumulative probabilities, and a guide: the first candidate for each of 4096 slices of [0, 1)."""
    offsets = noise.support(0)
    cumulative = np.cumsum(np.exp(as_array(noise.log_noise(offsets.astype(np.float64)))))
    cumulative /= cumulative[-1]
    guide = np.searchsorted(cumulative, np.arange(_GUIDE) / _GUIDE, side="right")
    return int(offsets[0]), cumulative, guide


def _invert(noise: IntegerNoise, uniform: Any) -> Any:
    """Smallest offset whose cumulative probability exceeds the uniform draw."""
    first, cumulative, guide = _table(noise)
    u = np.asarray(uniform, dtype=np.float64)
    index = guide[(u * _GUIDE).astype(np.int64)]
    behind = np.flatnonzero(cumulative[index] <= u)  # the guide is right unless a step falls inside its slice
    if behind.size or u.ndim == 0:
        index = np.atleast_1d(index).ravel() if u.ndim != 1 else index
        flat = u.ravel()
        index.flat[behind] = np.searchsorted(cumulative, flat[behind], side="right")
        index = index.reshape(u.shape)
    return index + first


def _summed_tail(noise: IntegerNoise, offset: Integers) -> Floats:
    """log P(noise >= offset) by adding the pmf outwards from offset, or from its mirror image left of 1."""
    start, place = np.unique(np.maximum(offset, 1 - offset), return_inverse=True)
    width = np.arange(noise.reach(45.0) + 1, dtype=np.float64)
    tails = np.concatenate([[log_sum_exp(as_array(noise.log_noise(s + width)))] for s in start.astype(np.float64)])
    outer = tails[place].reshape(np.shape(offset))
    return np.where(offset >= 1, outer, np.log1p(-np.exp(np.minimum(outer, -1e-300))))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(IntegerNoise):
    """Discrete Gaussian noise: pmf(k) = exp(-k^2 / (2 sigma^2)) / theta, k any integer.

    Parameters
    ----------
    sigma : parameter of the law, in people; not its standard deviation (the two agree from sigma = 1 or so)
    sigma2 : its square, kept exactly when it is a Fraction; made from sigma unless given

    References
    ----------
    Canonne, Kamath and Steinke 2020, Definition 1 and Theorem 4 (a change of s costs s^2 / (2 sigma^2) of zCDP).

    >>> DiscreteGaussian.from_rho(0.5).sigma
    1.0
    """

    sigma: float | Fraction
    sigma2: Fraction | float | None = None

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if self.sigma2 is None:
            exact = isinstance(self.sigma, (Fraction, int))
            object.__setattr__(self, "sigma2", Fraction(self.sigma) ** 2 if exact else float(self.sigma) ** 2)
        elif not math.isclose(float(self.sigma2), float(self.sigma) ** 2, rel_tol=1e-12):
            raise ValueError(f"sigma2 must be sigma squared, got sigma {self.sigma} and sigma2 {self.sigma2}")

    @classmethod
    def from_rho(cls, rho: float | Fraction, sensitivity: float = 1, cells: int = 1) -> Self:
        """sigma^2 = cells sensitivity^2 / (2 rho): the whole change, over all its cells, costs rho of zCDP.

        cells = 1 for unbounded neighbours (one count moves), 2 for bounded ones (a record changes cell).
        """
        check_positive("rho", rho)
        check_positive("sensitivity", sensitivity)
        cells = int(check_whole("cells", cells, minimum=1))
        change = cells * sensitivity * sensitivity
        sigma2 = Fraction(change) / (2 * rho) if isinstance(rho, Fraction) else change / (2.0 * float(rho))
        return cls(float(np.sqrt(float(sigma2))), sigma2)

    @property
    def rho(self) -> float:
        """1 / (2 sigma^2): log pmf falls by rho k^2."""
        return 0.5 / float(self.sigma2 or 0.0)

    @property
    def variance(self) -> float:
        """Exactly the second moment, by the table; close to sigma^2 unless sigma is below 1."""
        if np.exp(-(np.pi**2) / self.rho) < 1e-20:
            return float(self.sigma2 or 0.0)
        k = self.support(0).astype(np.float64)
        return float((k * k) @ np.exp(self.log_noise(k)))

    def log_noise(self, offset: Any) -> Any:
        return -self.rho * offset * offset - log_theta(self.rho)

    def log_survival(self, offset: Integers) -> Floats:
        return log_tail_sum(offset, self.rho) - log_theta(self.rho)

    def reach(self, nats: float = TAIL_NATS) -> int:
        return int(np.ceil(np.sqrt(nats / self.rho)))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        if count <= 1:
            return self if count else Exact()
        return DiscreteGaussianSum(self.sigma, count, self.sigma2)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianSum(IntegerNoise):
    """Sum of `count` independent discrete Gaussians, exactly, at any integer.

    Shifting every summand by a multiplies the joint mass by a power, so with d = count
        h(d a + r) = h(r) exp(-rho (d a^2 + 2 a r)),
    and d values, from one positive (hence relatively accurate) convolution, give all others. For wide noise (rho below
    about 0.25) they are those of one discrete Gaussian with d sigma^2, to rounding.

    Parameters
    ----------
    sigma : parameter of each summand
    count : number of summands, >= 1
    """

    sigma: float | Fraction
    count: int
    sigma2: Fraction | float | None = None

    def __post_init__(self) -> None:
        check_whole("count", self.count, minimum=1)
        object.__setattr__(self, "sigma2", DiscreteGaussian(self.sigma, self.sigma2).sigma2)

    @property
    def single(self) -> DiscreteGaussian:
        """One of the summands."""
        return DiscreteGaussian(self.sigma, self.sigma2)

    @property
    def rho(self) -> float:
        """Curvature of the log pmf over whole periods, rho of one summand over count: the sum's zCDP for a change of 1."""
        return 0.5 / float(self.sigma2 or 0.0) / self.count

    @property
    def variance(self) -> float:
        return self.count * self.single.variance

    def is_quadratic(self) -> bool:
        """Whether the log pmf is a parabola to rounding."""
        return self.count == 1 or 4 * self.count * math.exp(-(math.pi**2) / (self.rho * self.count)) < REVIVAL

    def log_noise(self, offset: Any) -> Any:
        if self.is_quadratic():
            return -self.rho * offset * offset - log_theta(self.rho)
        d, rho = self.count, self.single.rho
        a = np.round(as_array(offset) / d)
        r = as_array(offset) - d * a
        return _residues(self)[(r + d // 2).astype(np.int64) % d] - rho * (d * a * a + 2 * a * r)

    def log_survival(self, offset: Integers) -> Floats:
        if self.is_quadratic():
            return log_tail_sum(offset, self.rho) - log_theta(self.rho)
        return _summed_tail(self, offset)

    def reach(self, nats: float = TAIL_NATS) -> int:
        if self.is_quadratic():
            return int(np.ceil(np.sqrt(nats / self.rho)))
        peak = as_array(self.log_noise(np.zeros(1)))[0]
        k = np.arange(0.0, np.sqrt(nats / self.rho) + 2 * self.count + 2)
        return int(np.argmax(as_array(self.log_noise(k)) < peak - nats))

    def total(self, count: int) -> Mechanism:
        return self.single.total(self.count * int(check_whole("count", count, minimum=0)))


@lru_cache(maxsize=64)
def _residues(noise: DiscreteGaussianSum) -> Floats:
    """log h(r) for r = -(d // 2), ..., d - 1 - d // 2, by repeated squaring of direct convolutions.

    Extended precision, for its range of exponents; narrow noise, of few values, in logs outright.
    """
    single, d = noise.single, noise.count
    k = single.reach(60.0)
    log_power = as_array(single.log_noise(np.arange(-k, k + 1, dtype=np.float64)))
    if single.rho > 5.0:
        total = _power(log_power, d, np.zeros(1), _log_convolve)
    else:
        total = np.log(_power(np.exp(log_power.astype(np.longdouble)), d, np.ones(1, np.longdouble), np.convolve))
    centre = total.size // 2
    return total[centre - d // 2 : centre - d // 2 + d].astype(np.float64)


def _power(base: Any, times: int, unit: Any, convolve: Callable[[Any, Any], Any]) -> Any:
    """Convolution power by repeated squaring."""
    total = unit
    while times:
        total = convolve(total, base) if times & 1 else total
        times >>= 1
        base = convolve(base, base) if times else base
    return total


def _log_convolve(a: Floats, b: Floats) -> Floats:
    """Convolution of two sequences given and returned as logs."""
    total = np.full(a.size + b.size - 1, -np.inf)
    for i, value in enumerate(b):
        total[i : i + a.size] = np.logaddexp(total[i : i + a.size], a + value)
    return total


@dataclass(frozen=True, slots=True)
class Geometric(IntegerNoise):
    """Two-sided geometric noise: pmf(k) = (1 - a)/(1 + a) a^|k|, a = exp(-epsilon): pure DP for integer counts.

    Parameters
    ----------
    epsilon : nats per unit change of the count, > 0

    References
    ----------
    Ghosh, Roughgarden and Sundararajan 2012, Definition 2.1.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: int = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs epsilon in all."""
        check_positive("epsilon", epsilon)
        change = int(check_whole("sensitivity", sensitivity, minimum=1)) * int(check_whole("cells", cells, minimum=1))
        return cls(float(epsilon) / change)

    @property
    def variance(self) -> float:
        return float(0.5 / np.sinh(self.epsilon / 2.0) ** 2)

    @property
    def rho(self) -> float:
        """epsilon^2 / 2, what any epsilon-DP mechanism keeps (Bun and Steinke 2016, Proposition 1.4)."""
        return float(self.epsilon**2 / 2.0)

    def log_noise(self, offset: Any) -> Any:
        return np.log(np.tanh(self.epsilon / 2.0)) - self.epsilon * np.abs(offset)

    def log_survival(self, offset: Integers) -> Floats:
        upper = -self.epsilon * np.maximum(offset, 1 - offset) - np.log1p(np.exp(-self.epsilon))
        return np.where(offset >= 1, upper, np.log1p(-np.exp(upper)))

    def reach(self, nats: float = TAIL_NATS) -> int:
        return int(np.ceil(nats / self.epsilon))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        if count <= 1:
            return self if count else Exact()
        return GeometricSum(self.epsilon, count)

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        """Bounded: the sensitivity + 1 values epsilon (2 k - sensitivity), its ends carrying a whole tail each."""
        s = int(check_whole("sensitivity", sensitivity, minimum=0))
        k = np.arange(s + 1)
        p, q = as_array(self.log_noise(k - float(s))), as_array(self.log_noise(k.astype(np.float64)))
        p[0], q[0] = self.log_survival(np.array([s, 0]))
        p[-1], q[-1] = self.log_survival(np.array([0, s]))
        if s == 0:
            p, q = np.zeros(1), np.zeros(1)
        return repeated(LatticeLoss.from_log_probs(p, q), cells)


@dataclass(frozen=True, slots=True)
class GeometricSum(IntegerNoise):
    """Sum of `count` two-sided geometrics: for d = count, a = exp(-epsilon), k >= 0,

        pmf(k) = ((1 - a)/(1 + a))^d a^k sum_{j < d} C(d - 1 + j, j) C(k + d - 1, d - 1 - j) (a^2 / (1 - a^2))^j,

    all terms positive (Pfaff's transformation of the hypergeometric sum over both tails).
    """

    epsilon: float
    count: int

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_whole("count", self.count, minimum=1)

    @property
    def variance(self) -> float:
        return self.count * Geometric(self.epsilon).variance

    @property
    def rho(self) -> float:
        return float(self.epsilon**2 / 2.0)

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
        return _summed_tail(self, offset)

    def reach(self, nats: float = TAIL_NATS) -> int:
        peak = as_array(self.log_noise(np.zeros(1)))[0]
        high = int(np.ceil(nats / self.epsilon)) + 1
        while as_array(self.log_noise(np.array([float(high)])))[0] >= peak - nats:
            high *= 2
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            fallen = as_array(self.log_noise(np.array([float(middle)])))[0] < peak - nats
            low, high = (low, middle) if fallen else (middle, high)
        return high

    def total(self, count: int) -> Mechanism:
        return Geometric(self.epsilon).total(self.count * int(check_whole("count", count, minimum=0)))


class ContinuousNoise(Mechanism):
    """Additive noise with a density, symmetric about 0."""

    __slots__ = ()

    @abstractmethod
    def log_density(self, offset: Floats) -> Floats:
        """Log density of the noise."""

    @abstractmethod
    def log_survival(self, offset: Floats) -> Floats:
        """log P(noise > offset)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        """Noise draws."""

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self.log_density(_finite(release) - check_whole("value", value)))

    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(np.exp(self.log_survival(check_whole("value", value) - _finite(release))))

    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(np.exp(self.log_survival(_finite(release) - check_whole("value", value))))

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        centre = check_whole("value", value)
        return scalar_or_array(centre + self.draw(rng, centre.shape if size is None else size))

    def support(self, value: int) -> Integers:
        raise TypeError(f"{type(self).__name__} noise is continuous: it has no list of releases")


def _finite(release: ArrayLike) -> Floats:
    array = as_array(release)
    if not np.isfinite(array).all():
        raise ValueError(f"release must be finite, got {array[~np.isfinite(array)].ravel()[0]}")
    return array


@dataclass(frozen=True, slots=True)
class Gaussian(ContinuousNoise):
    """Gaussian noise with standard deviation sigma: density exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)).

    Parameters
    ----------
    sigma : standard deviation, in people, > 0
    """

    sigma: float

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1, cells: int = 1) -> Self:
        """sigma^2 = cells sensitivity^2 / (2 rho)."""
        check_positive("rho", rho)
        return cls(float(np.sqrt(cells * sensitivity**2 / (2.0 * float(rho)))))

    @property
    def variance(self) -> float:
        return self.sigma**2

    @property
    def rho(self) -> float:
        return 0.5 / self.sigma**2

    def log_density(self, offset: Floats) -> Floats:
        return np.asarray(-0.5 * (offset / self.sigma) ** 2 - np.log(self.sigma) - 0.5 * np.log(2 * np.pi))

    def log_survival(self, offset: Floats) -> Floats:
        return np.asarray(log_ndtr(-offset / self.sigma), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(self.sigma * rng.standard_normal(shape))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        return Gaussian(self.sigma * float(np.sqrt(count))) if count else Exact()

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        return GaussianLoss(float(sensitivity / self.sigma * np.sqrt(cells)))


@dataclass(frozen=True, slots=True)
class Laplace(ContinuousNoise):
    """Laplace noise: density exp(-|x| / scale) / (2 scale); epsilon = sensitivity / scale.

    Parameters
    ----------
    scale : mean absolute noise, in people, > 0
    """

    scale: float

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1, cells: int = 1) -> Self:
        """scale = cells sensitivity / epsilon."""
        check_positive("epsilon", epsilon)
        return cls(float(cells * sensitivity / epsilon))

    @property
    def variance(self) -> float:
        return 2.0 * self.scale**2

    @property
    def rho(self) -> float:
        return 0.5 / self.scale**2

    def log_density(self, offset: Floats) -> Floats:
        return np.asarray(-np.abs(offset) / self.scale - np.log(2 * self.scale))

    def log_survival(self, offset: Floats) -> Floats:
        outer = np.log(0.5) - np.abs(offset) / self.scale
        return np.where(offset >= 0, outer, np.log1p(-np.exp(outer)))

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(rng.laplace(0.0, self.scale, shape))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        if count <= 1:
            return self if count else Exact()
        return LaplaceSum(self.scale, count)

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        return composed([LaplaceLoss(float(sensitivity / self.scale))] * cells)


@dataclass(frozen=True, slots=True)
class LaplaceSum(ContinuousNoise):
    """Sum of `count` independent Laplaces: |sum| / scale is a mixture of Gamma(n - j), j < n = count,
    with weights C(n - 1 + j, j) / 2^(n - 1 + j)."""

    scale: float
    count: int

    def _log_weights(self) -> tuple[Floats, Floats]:
        n, j = self.count, np.arange(self.count, dtype=np.float64)
        return n - j, gammaln(n + j) - gammaln(j + 1) - gammaln(n) - (n - 1 + j) * np.log(2.0)

    @property
    def variance(self) -> float:
        return 2.0 * self.count * self.scale**2

    @property
    def rho(self) -> float:
        return 0.5 / self.scale**2

    def log_density(self, offset: Floats) -> Floats:
        shape, weight = self._log_weights()
        x = np.abs(np.asarray(offset, dtype=np.float64))[..., None] / self.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.where(shape == 1, 0.0, (shape - 1) * np.log(x))
        return log_sum_exp(weight + power - x - gammaln(shape)) - np.log(2 * self.scale)

    def log_survival(self, offset: Floats) -> Floats:
        shape, weight = self._log_weights()
        x = np.abs(np.asarray(offset, dtype=np.float64))[..., None] / self.scale
        with np.errstate(divide="ignore"):
            outer = np.log(0.5 * (np.exp(weight) * gammaincc(shape, x)).sum(-1))
        return np.where(np.asarray(offset) >= 0, outer, np.log1p(-np.exp(outer)))

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(self.scale * (rng.gamma(self.count, size=shape) - rng.gamma(self.count, size=shape)))

    def total(self, count: int) -> Mechanism:
        return Laplace(self.scale).total(self.count * int(check_whole("count", count, minimum=0)))

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        raise NotImplementedError("the loss of a sum of Laplace releases is not derived: ask one release's")


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Mechanism):
    """Randomised response over `categories` answers 0, 1, ...: the truth with odds e^epsilon against each other answer.

    Parameters
    ----------
    epsilon : nats, > 0
    categories : number of answers, >= 2
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_whole("categories", self.categories, minimum=2)

    def _answer(self, name: str, x: ArrayLike) -> Integers:
        answer = check_whole(name, x, minimum=0)
        if (answer >= self.categories).any():
            raise ValueError(f"{name} must be below categories = {self.categories}, got {int(answer.max())}")
        return answer

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        truth = self._answer("release", release) == self._answer("value", value)
        lie = -np.log(np.exp(self.epsilon) + self.categories - 1.0)
        return scalar_or_array(np.where(truth, self.epsilon + lie, lie))

    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        y, x = self._answer("release", release), self._answer("value", value)
        lie, truth = np.exp(self.log_prob(1, 0)), np.exp(self.log_prob(0, 0))
        return scalar_or_array((y + 1 - (x <= y)) * lie + (x <= y) * truth)

    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        y, x = self._answer("release", release), self._answer("value", value)
        lie, truth = np.exp(self.log_prob(1, 0)), np.exp(self.log_prob(0, 0))
        return scalar_or_array((self.categories - 1 - y - (x > y)) * lie + (x > y) * truth)

    @property
    def variance(self) -> float:
        """Mean square of release minus value, averaged over values."""
        k = np.arange(self.categories)
        square = (k[:, None] - k[None, :]) ** 2
        return float((square * np.exp(self.log_prob(1, 0))).sum(0).mean())

    @property
    def rho(self) -> float:
        return self.epsilon**2 / 2.0

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        truth = self._answer("value", value)
        shape = truth.shape if size is None else size
        keep = rng.random(shape) < np.exp(self.log_prob(0, 0))
        other = (truth + rng.integers(1, self.categories, shape)) % self.categories
        return scalar_or_array(np.where(keep, truth, other))

    def support(self, value: int) -> Integers:
        self._answer("value", value)
        return np.arange(self.categories)

    def total(self, count: int) -> Mechanism:
        if int(check_whole("count", count, minimum=0)) == 0:
            return Exact()
        if count == 1:
            return self
        raise ValueError(f"randomised response is not additive noise: a sum of {count} releases has no total")

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        answers = np.arange(self.categories)
        other = min(int(check_whole("sensitivity", sensitivity, minimum=0)), self.categories - 1)
        return repeated(LatticeLoss.from_log_probs(self.log_prob(answers, other), self.log_prob(answers, 0)), cells)


@dataclass(frozen=True, slots=True)
class Exact(Mechanism):
    """No noise: the value itself is published, an invariant."""

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        same = check_whole("release", release) == check_whole("value", value)
        return scalar_or_array(np.where(same, 0.0, -np.inf))

    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array((check_whole("release", release) >= check_whole("value", value)).astype(np.float64))

    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array((check_whole("release", release) < check_whole("value", value)).astype(np.float64))

    @property
    def variance(self) -> float:
        return 0.0

    @property
    def rho(self) -> float:
        return float("inf")

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        centre = check_whole("value", value)
        return scalar_or_array(centre if size is None else np.broadcast_to(centre, size).copy())

    def support(self, value: int) -> Integers:
        return check_whole("value", [value])

    def total(self, count: int) -> Exact:
        check_whole("count", count, minimum=0)
        return self

    def privacy_loss(self, sensitivity: int = 1, cells: int = 1) -> PrivacyLoss:
        if int(check_whole("sensitivity", sensitivity, minimum=0)) == 0:
            return composed([])
        return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.0)
