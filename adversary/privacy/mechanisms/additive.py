"""The abstract laws of additive noise, on the integers and with a density.

Integer noise samples itself by inverting a cumulative table, and has exact tails at any distance.
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

_LOSS_NATS = 745.0
_SLICES = 4096
"""Of [0, 1], each of which says where the search of a uniform draw begins in a table of cumulative probabilities."""


class Additive(Mechanism):
    """A release is the value and noise that does not depend on it.

    Taken for granted everywhere, and laws of the catalogue: the law is symmetric about 0 and nowhere rises away from
    it; where it is zero it stays zero outwards. A law that breaks these is a `Mechanism` of its own. Not taken for
    granted, and asked where it matters: `log_concave`, and whether the noise ends.
    """

    __slots__ = ()

    @abstractmethod
    def log_noise(self, offset: Any) -> Any:
        """Log pmf of the noise at whole offsets given as floats, or its log density."""

    @abstractmethod
    def log_survival(self, offset: Any) -> Floats:
        """log P(noise >= offset), relatively accurate in both tails."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: Any) -> Any:
        """Noise draws."""

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
    def reach(self, nats: float = TAIL_NATS) -> int:
        """Smallest distance at which the pmf has fallen by at least that many nats from its peak."""

    def offset(self, release: ArrayLike, value: ArrayLike) -> Integers:
        return check_whole("release", release) - check_whole("value", value)

    def support(self, value: int) -> Integers:
        k = listable(self, self.reach())
        return int(check_whole("value", value)) + np.arange(-k, k + 1)

    def draw(self, rng: np.random.Generator, shape: Any) -> Integers:
        """The smallest offset whose cumulative probability exceeds a uniform draw: exact to double precision."""
        offsets, cumulative, guide = _table(self)
        u = np.asarray(rng.random(shape))
        steps = np.asarray(guide[(u * _SLICES).astype(np.int64)])
        behind = cumulative[steps] <= u  # a step of the table falls inside the slice
        steps[behind] = np.searchsorted(cumulative, u[behind], side="right")
        return np.asarray(offsets[steps])

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", change, minimum=0))
        k = listable(self, max(self.reach(_LOSS_NATS), 8) + shift)
        offset = np.arange(-k, k + shift + 1, dtype=np.float64)
        p, q = as_array(self.log_noise(offset - shift)), as_array(self.log_noise(offset))
        return repeat_loss(LatticeLoss.from_log_probs(p, q, bounded=shift == 0), cells)


@lru_cache(maxsize=256)
def _table(noise: IntegerNoise) -> tuple[Integers, Floats, Integers]:
    """Offsets, cumulative probabilities, and the place of the offset at the start of each of equal slices of [0, 1]."""
    offsets = noise.support(0)
    cumulative = np.cumsum(np.exp(as_array(noise.log_noise(offsets.astype(np.float64)))))
    cumulative /= cumulative[-1]
    return offsets, cumulative, np.searchsorted(cumulative, np.arange(_SLICES) / _SLICES, side="right")


def summed_reach(noise: IntegerNoise, nats: float, high: int) -> int:
    """Smallest distance at which a pmf has fallen by at least that many nats, from one, `high`, at which it has."""

    def log_pmf(distance: int) -> float:
        return float(as_array(noise.log_noise(np.full(1, float(distance))))[0])

    low, least = -1, log_pmf(0) - nats
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_pmf(middle) < least else (middle, high)
    return high


def summed_tail(noise: IntegerNoise, offset: Integers) -> Floats:
    """log P(noise >= offset) by adding the pmf outwards from offset, or from its mirror image left of 1."""
    start, place = np.unique(np.maximum(offset, 1 - offset), return_inverse=True)
    width = np.arange(listable(noise, noise.reach(45.0)) + 1, dtype=np.float64)
    tails = np.concatenate(
        [np.zeros(0)] + [[log_sum_exp(as_array(noise.log_noise(s + width)))] for s in start.astype(np.float64)]
    )
    outer = tails[place].reshape(np.shape(offset))
    return np.where(offset >= 1, outer, np.log1p(-np.exp(np.minimum(outer, -1e-300))))


class ContinuousNoise(Additive):
    """Additive noise with a density.

    Integrals are split at its `breaks`: everywhere else the density is smooth.
    """

    __slots__ = ()

    is_continuous = True

    def breaks(self, end: float) -> Floats:
        """Distances from 0, at most a little beyond `end`, where the density or its slope jumps; only 0 unless said."""
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

    An interval on one side of 0 is a difference of two tails on that side, so that small masses far out stay accurate.
    One that contains 0 is 1 minus both tails.

    Parameters
    ----------
    log_survival : x -> log P(noise >= x), elementwise, in nats
    low, high : ends of the interval, both included, low <= high; shapes that broadcast
    step : distance between neighbouring values of the noise: 1 on the whole numbers, 0 for continuous noise

    Returns
    -------
    ndarray, log probabilities in nats, of the shape of the broadcast ends; -inf where the interval has no mass
    """
    left = high < 0
    low, high = np.where(left, -high, low), np.where(left, -low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        outer, inner = log_survival(high + step), log_survival(low)
        beside = inner + np.log1p(-np.exp(np.where(inner > -np.inf, outer - inner, -np.inf)))  # bounded noise ends
        about = np.log1p(-np.exp(outer) - np.exp(log_survival(step - low)))
    return np.where(low > 0, beside, about)


@dataclass(frozen=True, slots=True)
class Summed(Mechanism):
    """Noise of a sum of independent releases; to write one: the law of the sum.

    Parameters
    ----------
    single : one of the summands
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
        """That of one of the summands: the others are noise added afterwards."""
        return float(self.single.rho(change))

    def total(self, count: int) -> Mechanism:
        return total_of(self.single, self.count * int(check_whole("count", count, minimum=0)), type(self))

    def scaled(self, factor: float) -> Mechanism:
        return type(self)(self.single.scaled(factor), self.count)


def total_of(single: Mechanism, count: int, law: type[Summed]) -> Mechanism:
    """The noise of a sum of `count` releases: none at all, one, or this law of a sum."""
    n = int(check_whole("count", count, minimum=0))
    return law(single, n) if n > 1 else single if n else Exact()
