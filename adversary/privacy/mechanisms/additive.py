"""Abstract classes of additive noise, on the integers and with a density, and of sums of noise.

Integer noise is sampled by inverting a cumulative table, and has exact tails at any distance.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    as_array,
    check_whole,
    labelled,
    log_sum_exp,
    one_number,
    scalar_or_array,
)
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, repeat_loss
from adversary.privacy.mechanisms.calibrated import Exact
from adversary.privacy.mechanisms.mechanism import Mechanism, listable

# exp(-745) is the smallest double.
_LOSS_NATS = 745.0

# Number of slices of [0, 1] in the index that speeds up the inversion of a cumulative table.
_SLICES = 4096


class Additive(Mechanism):
    """Additive noise: a release is the value plus noise whose distribution does not depend on the value.

    Contract, tested for every mechanism of the catalogue: the distribution is symmetric about 0 and non-increasing away
    from 0; beyond a zero it stays zero. Noise without these properties inherits from `Mechanism`. Log-concavity
    (`log_concave`) and bounded support are not assumed.
    """

    __slots__ = ()

    @abstractmethod
    def log_noise(self, offset: Any) -> Any:
        """Log pmf of the noise at integer offsets, passed as floats; or its log density."""

    @abstractmethod
    def log_survival(self, offset: Any) -> Floats:
        """log P(noise >= offset), with relative accuracy in both tails."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: Any) -> Any:
        """Random noise of a shape."""

    @abstractmethod
    def offset(self, release: ArrayLike, value: ArrayLike) -> Any:
        """Release minus value, both checked."""

    def log_likelihood(self, release: Any, value: Any) -> Floats:
        return np.asarray(self.log_noise(release - value), dtype=np.float64)

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self.log_noise(as_array(self.offset(release, value))))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(np.exp(self.log_survival(-self.offset(release, value))))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(np.exp(self.log_survival(self.offset(release, value) + (not self.is_continuous))))

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        centre = check_whole("value", value)
        return scalar_or_array(centre + self.draw(rng, centre.shape if size is None else size))


class IntegerNoise(Additive):
    """Additive noise on the integers."""

    __slots__ = ()

    is_continuous = False

    @abstractmethod
    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        """Smallest distance at which the pmf is at least `nats` below its peak, in nats."""

    def offset(self, release: ArrayLike, value: ArrayLike) -> Integers:
        return check_whole("release", release) - check_whole("value", value)

    def support(self, value: int) -> Integers:
        k = listable(self, self.tail_radius())
        return int(check_whole("value", value)) + np.arange(-k, k + 1)

    def draw(self, rng: np.random.Generator, shape: Any) -> Integers:
        """The smallest offset whose cumulative probability exceeds a uniform draw: exact to double precision."""
        offsets, cumulative, guide = _table(self)
        u = np.asarray(rng.random(shape))
        steps = np.asarray(guide[(u * _SLICES).astype(np.int64)])
        # The slice of u contains a step of the table: search it.
        behind = cumulative[steps] <= u
        steps[behind] = np.searchsorted(cumulative, u[behind], side="right")
        return np.asarray(offsets[steps])

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", change, minimum=0))
        k = listable(self, max(self.tail_radius(_LOSS_NATS), 8) + shift)
        offset = np.arange(-k, k + shift + 1, dtype=np.float64)
        p, q = as_array(self.log_noise(offset - shift)), as_array(self.log_noise(offset))
        return repeat_loss(LatticeLoss.from_log_probs(p, q, bounded=shift == 0), cells)


@lru_cache(maxsize=256)
def _table(noise: IntegerNoise) -> tuple[Integers, Floats, Integers]:
    """Offsets, cumulative probabilities, and the index of the first offset of each slice of [0, 1]."""
    offsets = noise.support(0)
    cumulative = np.cumsum(np.exp(as_array(noise.log_noise(offsets.astype(np.float64)))))
    cumulative /= cumulative[-1]
    return offsets, cumulative, np.searchsorted(cumulative, np.arange(_SLICES) / _SLICES, side="right")


def tail_radius_of_sum(noise: IntegerNoise, nats: float, high: int) -> int:
    """`IntegerNoise.tail_radius` by bisection, from a distance `high` that is large enough."""

    def log_pmf(distance: int) -> float:
        return float(as_array(noise.log_noise(np.full(1, float(distance))))[0])

    low, least = -1, log_pmf(0) - nats
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_pmf(middle) < least else (middle, high)
    return high


def summed_tail(noise: IntegerNoise, offset: Integers) -> Floats:
    """log P(noise >= offset) by summing the pmf outwards; for offsets below 1 by symmetry."""
    start, place = np.unique(np.maximum(offset, 1 - offset), return_inverse=True)
    width = np.arange(listable(noise, noise.tail_radius(45.0)) + 1, dtype=np.float64)
    tails = np.concatenate(
        [np.zeros(0)] + [[log_sum_exp(as_array(noise.log_noise(s + width)))] for s in start.astype(np.float64)]
    )
    outer = tails[place].reshape(np.shape(offset))
    return np.where(offset >= 1, outer, np.log1p(-np.exp(np.minimum(outer, -1e-300))))


class ContinuousNoise(Additive):
    """Additive noise with a density, which is smooth except at its `breaks`, where integrals are split."""

    __slots__ = ()

    is_continuous = True

    def breaks(self, end: float) -> Floats:
        """Distances from 0 up to about `end` at which the density or its slope jumps; by default only 0."""
        del end
        return np.zeros(1)

    @property
    def log_peak(self) -> float:
        return max(0.0, float(self.log_noise(np.zeros(()))))

    def offset(self, release: ArrayLike, value: ArrayLike) -> Floats:
        y = as_array(release)
        if not np.isfinite(y).all():
            raise ValueError(f"release must be finite, got {y[~np.isfinite(y)].ravel()[0]}")
        return np.asarray(y - check_whole("value", value))

    def support(self, value: int) -> Integers:
        raise TypeError(f"{type(self).__name__} noise is continuous: it has no list of releases")


def log_mass(log_survival: Callable[[Floats], Floats], low: Floats, high: Floats, step: float) -> Floats:
    """log P(low <= noise <= high) of symmetric noise, from log P(noise >= x) and the step between its values.

    On one side of 0 it is a difference of tails on that side, so that small masses are accurate. For an interval that
    contains 0 it is 1 minus both tails.

    Parameters
    ----------
    log_survival : x -> log P(noise >= x), elementwise, in nats
    low, high : ends of the interval, both included, low <= high; arrays that broadcast
    step : distance between neighbouring values of the noise: 1 on the whole numbers, 0 for continuous noise

    Returns
    -------
    Log probabilities in nats, of the broadcast shape; -inf for an interval without mass.
    """
    left = high < 0
    low, high = np.where(left, -high, low), np.where(left, -low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        outer, inner = log_survival(high + step), log_survival(low)
        # Beyond the end of bounded noise both tails are -inf, and so is the mass.
        beside = inner + np.log1p(-np.exp(np.where(inner > -np.inf, outer - inner, -np.inf)))
        about = np.log1p(-np.exp(outer) - np.exp(log_survival(step - low)))
    return np.where(low > 0, beside, about)


@dataclass(frozen=True, slots=True)
class Summed(Mechanism):
    """Noise of a sum of independent releases; subclasses define the distribution of the sum.

    Parameters
    ----------
    single : mechanism of each summand
    count : number of summands, >= 1
    """

    single: Any
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", int(check_whole("count", one_number("count", self.count), minimum=1)))

    @property
    def calibration(self) -> tuple[float, int]:
        return self.single.calibration  # type: ignore[no-any-return]

    @property
    def summands(self) -> tuple[Mechanism, int]:
        return self.single, self.count

    def describe(self) -> str:
        return f"sum of {self.count}: {self.single.describe()}"

    @property
    def variance(self) -> float:
        return self.count * float(self.single.variance)

    def rho(self, change: float = 1) -> float:
        """zCDP parameter of one summand: the others are post-processing."""
        return float(self.single.rho(change))

    def total(self, count: int) -> Mechanism:
        return total_of(self.single, self.count * int(check_whole("count", count, minimum=0)), type(self))

    def scaled(self, factor: float) -> Mechanism:
        return type(self)(self.single.scaled(factor), self.count)


def total_of(single: Mechanism, count: int, law: type[Summed]) -> Mechanism:
    """Noise of a sum of `count` releases: `Exact()` for 0, `single` for 1, otherwise an instance of `law`."""
    n = int(check_whole("count", count, minimum=0))
    return law(single, n) if n > 1 else single if n else Exact()
