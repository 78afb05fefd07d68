"""The abstract noise laws: any mechanism, additive integer noise, additive continuous noise, and no noise at all.

Integer noise samples itself by inverting a cumulative table with a guide, and has exact tails at any distance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    as_array,
    check_positive,
    check_whole,
    labelled,
    log_sum_exp,
    one_number,
    scalar_or_array,
)
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, asks_for, composed, repeated, way_to_loss

MOST_VALUES = 10_000_000
"""Values of a release that may be listed: with some ten numbers each they take 1 GiB."""

_LOSS_NATS = 745.0
_GUIDE = 4096


class Mechanism(ABC):
    """A noise law.

    To add one: a frozen dataclass with `log_prob`, `cdf`, `sf`, `variance`, `sample`, `total`, `scaled` and
    `privacy_loss`; for additive integer noise inherit from `IntegerNoise` and give `log_noise`, `log_survival`, `reach`
    and `scaled` instead (`Geometric` in `integers` is the shortest example).
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            told = f", which a PrivacyLoss has{way_to_loss(self, name)}" if asks_for(PrivacyLoss, name) else ""
            raise AttributeError(f"{type(self).__name__} has no {name}{told}", name=name, obj=self)

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
        """Simulated releases, for audits. A genuine publication needs an exact sampler on a secure source."""

    @abstractmethod
    def support(self, value: int) -> Integers:
        """Releases that carry all but 1e-18 of the mass, ascending; TypeError for continuous noise."""

    @abstractmethod
    def log_likelihood(self, release: Any, value: Any) -> Floats:
        """`log_prob` without its checks, for float arrays that have passed them; -inf at an impossible value."""

    @abstractmethod
    def reach(self, nats: float = TAIL_NATS) -> float:
        """Distance from the release beyond which a value's log likelihood has fallen by at least that many nats."""

    @property
    def parabola(self) -> tuple[float, float] | None:
        """(rho, log peak) where the log likelihood is log peak - rho (release - value)^2; None elsewhere."""
        return None

    def releases(self, value: int) -> tuple[Floats, Floats]:
        """(support, probabilities) of the releases of a value; shared arrays, not to be changed."""
        return _mass(self, int(value))

    @abstractmethod
    def total(self, count: int) -> Mechanism:
        """The noise of a sum of `count` independent releases, again a mechanism; `Exact()` for none."""

    @abstractmethod
    def scaled(self, factor: float) -> Mechanism:
        """The same kind of noise with its rho multiplied: epsilon times sqrt(factor), width divided by it."""

    @abstractmethod
    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Law of log P(release | value + sensitivity) / P(release | value), `cells` independent releases together.

        What is left out is what the noise was calibrated for (see `calibration`).
        """

    @property
    def calibration(self) -> tuple[float, int]:
        """(sensitivity, cells) of the change that the noise was made for; (1, 1) where none was named."""
        return 1, 1

    def change(self, sensitivity: float | None, cells: int | None) -> tuple[float, int]:
        """(sensitivity, cells) as given to `privacy_loss`, each as calibrated for where it is None."""
        own_sensitivity, own_cells = self.calibration
        n = int(check_whole("cells", own_cells if cells is None else cells, minimum=0))
        return own_sensitivity if sensitivity is None else sensitivity, n

    @property
    @abstractmethod
    def rho(self) -> float:
        """A zCDP parameter for a change of 1, in nats; inf where there is none."""

    def log_ratio(self, release: ArrayLike, value: ArrayLike, other: ArrayLike) -> Any:
        """log P(release | value) - log P(release | other); NaN where both are impossible."""
        if self.parabola:  # without the cancellation of two squares
            a, b = check_whole("value", value), check_whole("other", other)
            return scalar_or_array(self.parabola[0] * (a - b) * (2.0 * as_array(release) - a - b))
        above, below = as_array(self.log_prob(release, value)), as_array(self.log_prob(release, other))
        with np.errstate(invalid="ignore"):
            return scalar_or_array(above - below)


def root_of(factor: float) -> float:
    """Square root of a factor of rho: epsilon grows by it, and the width of noise is divided by it.

    Parameters
    ----------
    factor : by which rho is multiplied, > 0; one number

    Returns
    -------
    sqrt(factor), a float.

    Raises
    ------
    ValueError : a factor that is not positive and finite
    TypeError : more than one number, or none

    >>> root_of(4.0)
    2.0
    """
    check_positive("factor", factor)
    return math.sqrt(one_number("factor", factor))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibrated(Mechanism):
    """Noise that keeps what it was calibrated for, as `from_rho` and `from_epsilon` say it.

    Parameters
    ----------
    sensitivity, cells : a change of `sensitivity` in each of `cells` counts; what `privacy_loss` is asked about unless
        it is told otherwise
    """

    sensitivity: float = 1
    cells: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", checked_change(self.sensitivity, self.cells)[1])

    def __repr__(self) -> str:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        change = {name: value for name in ("sensitivity", "cells") if (value := own.pop(name)) != 1}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in (own | change).items())})"

    @property
    def calibration(self) -> tuple[float, int]:
        return self.sensitivity, self.cells


def checked_change(sensitivity: float, cells: int) -> tuple[float, int]:
    """A positive sensitivity and a number of cells from 1 on, one number each."""
    check_positive("sensitivity", sensitivity)
    one_number("sensitivity", sensitivity)
    return sensitivity, int(check_whole("cells", one_number("cells", cells), minimum=1))


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

    def log_likelihood(self, release: Any, value: Any) -> Floats:
        return np.asarray(self.log_noise(release - value), dtype=np.float64)

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(self.log_noise(offset.astype(np.float64)))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(np.exp(self.log_survival(-offset)))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        offset = check_whole("release", release) - check_whole("value", value)
        return scalar_or_array(np.exp(self.log_survival(offset + 1)))

    def support(self, value: int) -> Integers:
        k = listable(self, self.reach())
        return int(check_whole("value", value)) + np.arange(-k, k + 1)

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """By inverting the cumulative table: exact to double precision, about 20 million draws a second."""
        centre = check_whole("value", value)
        shape = centre.shape if size is None else size
        return scalar_or_array(centre + self.draw(rng, shape))

    def draw(self, rng: np.random.Generator, shape: Any) -> Integers:
        """Noise draws, by inverting the cumulative table."""
        return np.asarray(_invert(self, rng.random(shape)), dtype=np.int64)

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", change, minimum=0))
        k = listable(self, max(self.reach(_LOSS_NATS), 8) + shift)
        offset = np.arange(-k, k + shift + 1, dtype=np.float64)
        p, q = as_array(self.log_noise(offset - shift)), as_array(self.log_noise(offset))
        return repeated(LatticeLoss.from_log_probs(p, q, bounded=shift == 0), cells)


def listable(noise: Mechanism, reach: int, most: int = MOST_VALUES) -> int:
    """The reach of a noise law, checked so that its 2 reach + 1 releases can be listed.

    Parameters
    ----------
    noise : for the message
    reach : largest distance of a release from its value, in units of the value
    most : largest number of releases that may be listed

    Returns
    -------
    `reach`

    Raises
    ------
    ValueError : more than `most` releases
    """
    if 2 * reach + 1 > most:
        raise ValueError(
            f"noise must spread a release over at most {most:,} values, "
            f"got {2.0 * reach + 1.0:.3g} with {noise!r}: "
            "choose a smaller sigma, or a larger rho or epsilon"
        )
    return reach


@lru_cache(maxsize=512)
def _mass(noise: Mechanism, value: int) -> tuple[Floats, Floats]:
    support = noise.support(value)
    return support.astype(np.float64), np.exp(as_array(noise.log_prob(support, value)))


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


def summed_tail(noise: IntegerNoise, offset: Integers) -> Floats:
    """log P(noise >= offset) by adding the pmf outwards from offset, or from its mirror image left of 1."""
    start, place = np.unique(np.maximum(offset, 1 - offset), return_inverse=True)
    width = np.arange(listable(noise, noise.reach(45.0)) + 1, dtype=np.float64)
    tails = np.concatenate(
        [np.zeros(0)] + [[log_sum_exp(as_array(noise.log_noise(s + width)))] for s in start.astype(np.float64)]
    )
    outer = tails[place].reshape(np.shape(offset))
    return np.where(offset >= 1, outer, np.log1p(-np.exp(np.minimum(outer, -1e-300))))


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

    def log_likelihood(self, release: Any, value: Any) -> Floats:
        return self.log_density(release - value)

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self.log_density(_finite(release) - check_whole("value", value)))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(np.exp(self.log_survival(check_whole("value", value) - _finite(release))))

    @labelled
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
class Exact(Mechanism):
    """No noise: the value itself is published, an invariant."""

    def log_likelihood(self, release: Any, value: Any) -> Floats:
        return np.where(release == value, 0.0, -np.inf)

    def reach(self, nats: float = TAIL_NATS) -> float:
        return 0.0

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        same = check_whole("release", release) == check_whole("value", value)
        return scalar_or_array(np.where(same, 0.0, -np.inf))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array((check_whole("release", release) >= check_whole("value", value)).astype(np.float64))

    @labelled
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

    def scaled(self, factor: float) -> Exact:
        """Itself: an invariant has no budget."""
        root_of(factor)
        return self

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        if cells == 0 or int(check_whole("sensitivity", change, minimum=0)) == 0:
            return composed([])
        return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.0)
