"""Continuous noise restricted to a range: redrawn, truncated or reflected at both ends.

The distribution of release minus value depends on the value. Redrawn noise has a normalising constant that depends on
the value; truncated noise has the mass of a tail at each end; the density of reflected noise is folded. In all three
cases the likelihood ratio of two values is increasing along the range (composition of totally positive kernels). Losses
above a threshold therefore correspond to releases above a point, and a larger change is never less informative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    as_array,
    check_positive,
    check_whole,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.losses import PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms.additive import ContinuousNoise, log_mass
from adversary.privacy.mechanisms.calibrated import Exact
from adversary.privacy.mechanisms.mechanism import Mechanism
from adversary.privacy.mechanisms.perturbation_table import ENDS
from adversary.privacy.mechanisms.ranged_loss import NODES, WEIGHTS, RangedLoss, folded

# Largest range; all values in it are compared.
MOST_RANGE = 3_000

_HALVINGS = 64

# Smallest double above an end at 0.
_FIRST = 5e-324


@dataclass(frozen=True, slots=True)
class RangedNoise(Mechanism):
    """Laplace or Gaussian noise on whole numbers from 0 to `largest`, restricted to that range.

    `PerturbationTable.on_range` is the counterpart for integer noise. `variance` is the mean square of release minus
    value at the value where it is largest.

    Parameters
    ----------
    mechanism : `Laplace` or `Gaussian`
    largest : largest value, a whole number from 1 to 3,000; for scores from 0 to 4, 4
    ends : "redrawn", noise is drawn again until the release is in the range, with a probability that depends on the
        value; "truncated", releases outside are moved to the nearer end, which then has a point mass; "reflected", y
        below 0 becomes -y and y above the largest value n becomes 2 n - y, repeatedly
    local : a local report: the value is the answer of one unit

    Raises
    ------
    TypeError : other noise; for integer noise use `PerturbationTable.on_range`
    ValueError : a largest value out of range, or an unknown value of `ends`

    References
    ----------
    Holohan, Antonatos, Braghin and Mac Aonghusa (2020), "The bounded Laplace mechanism in differential privacy",
    Journal of Privacy and Confidentiality 10(1), for redrawn noise.
    Karlin (1968), Total Positivity, for the likelihood ratio of folded distributions.

    >>> from adversary.privacy.mechanisms import Laplace
    >>> noise = RangedNoise(Laplace(1.0), 4)
    >>> float(noise.cdf(4, 2)), noise.log_prob(4.5, 2), round(noise.privacy_loss().epsilon(0.0), 6)
    (1.0, -inf, 1.477386)
    """

    is_additive = False
    is_continuous = True

    mechanism: Any
    largest: int
    ends: str = "redrawn"
    local: bool = False

    def __post_init__(self) -> None:
        inside = self.mechanism
        if not isinstance(inside, ContinuousNoise) or (inside.parabola is None and inside.laplace_rate is None):
            raise TypeError(
                f"mechanism must be Laplace or Gaussian noise, got {inside!r}: noise on the whole numbers is for "
                "PerturbationTable.on_range, other noise for adversary.postprocessing.clamped"
            )
        last = int(check_whole("largest", one_number("largest", self.largest), minimum=1))
        if last > MOST_RANGE:
            raise ValueError(f"largest must be at most {MOST_RANGE:,}, got {last:,}: count in larger units")
        if self.ends not in ENDS:
            raise ValueError(f"ends must be one of {', '.join(ENDS)}, got {self.ends!r}")
        if not isinstance(self.local, bool):
            raise TypeError(f"local must be True or False, got {self.local!r}")
        object.__setattr__(self, "largest", last)

    def describe(self) -> str:
        return f"{self.mechanism.describe()}, {self.ends} on 0 to {self.largest}"

    @property
    def smallest_release(self) -> float:
        return 0.0

    @property
    def calibration(self) -> tuple[float, int]:
        return self.mechanism.calibration  # type: ignore[no-any-return]

    @property
    def is_local(self) -> bool:
        return self.local

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        count = check_whole(name, value, minimum=0)
        if (count > self.largest).any():
            raise ValueError(f"{name} must be at most {self.largest}, the end of the range, got {int(count.max())}")
        return count

    def log_between(self, first: Any, last: Any, value: ArrayLike) -> Floats:
        """log P(first <= release <= last) with relative accuracy; -inf outside the range.

        Parameters
        ----------
        first, last : ends of an interval, first < last, infinities allowed
        value : true value as a float, from 0 to `largest`
        """
        inside, end = self.mechanism, float(self.largest)
        first, last, value = as_array(first), as_array(last), as_array(value)
        low, high = np.clip(first, 0.0, end), np.clip(last, 0.0, end)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.ends == "truncated":
                low, high = np.where(first <= 0.0, -np.inf, low), np.where(last >= end, np.inf, high)
                mass = log_mass(inside.log_survival, low - value, high - value, 0.0)
            elif self.ends == "redrawn":
                mass = log_mass(inside.log_survival, low - value, high - value, 0.0) - self.log_fits(value)
            else:
                mass = folded(inside, end).log_between(low, high, value)
        empty = (last < 0.0) | (first > end) | (low >= high)
        return np.where(empty, -np.inf, np.minimum(mass, 0.0))

    def log_fits(self, value: Floats) -> Floats:
        """Log probability that an unrestricted draw lies within the range."""
        return log_mass(self.mechanism.log_survival, -value, self.largest - value, 0.0)

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        y, v = np.broadcast_arrays(as_array(release), as_array(value))
        end, inside = float(self.largest), self.mechanism
        possible = (y >= 0.0) & (y <= end) & (v >= 0.0) & (v <= end) & (v == np.rint(v))
        y, v = np.where(possible, y, 0.0), np.where(possible, v, 0.0)
        if self.ends == "reflected":
            log_p = folded(inside, end).log_density(y, v)
        elif self.ends == "redrawn":
            log_p = as_array(inside.log_noise(y - v)) - self.log_fits(v)
        else:
            log_p = np.where(y <= 0.0, inside.log_survival(v), as_array(inside.log_noise(y - v)))
            log_p = np.where(y >= end, inside.log_survival(end - v), log_p)
        return np.where(possible, log_p, -np.inf)

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self.log_likelihood(_finite(release), self.check_value(value)))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        value = self.check_value(value).astype(np.float64)
        y = _finite(release)
        # P(release <= 0) is a point mass if truncated, otherwise 0.
        at_end = _FIRST if self.ends == "truncated" else -1.0
        return scalar_or_array(np.exp(self.log_between(-np.inf, np.where(y == 0.0, at_end, y), value)))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        value, y = self.check_value(value).astype(np.float64), _finite(release)
        return scalar_or_array(np.exp(self.log_beyond(y, value)))

    def log_beyond(self, place: Floats, value: Any) -> Floats:
        """log P(release > place) for places within or below the range."""
        if self.ends == "reflected":
            law, inside = folded(self.mechanism, float(self.largest)), np.clip(place, 0.0, self.largest)
            with np.errstate(divide="ignore", invalid="ignore"):
                beyond = np.minimum(law.log_beyond(inside, value), 0.0)
        else:
            beyond = self.log_between(np.where(place < 0.0, -np.inf, np.maximum(place, _FIRST)), np.inf, value)
        return np.where(place >= self.largest, -np.inf, beyond)

    @property
    def variance(self) -> float:
        return _largest_square(self)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """`largest`: no value is farther from a release."""
        return float(self.largest)

    def support(self, value: int) -> Integers:
        raise TypeError(f"{self.describe()} is continuous: it has no list of releases")

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        """Simulated releases: truncated or folded noise; redrawn noise by inversion of the cdf with bisection."""
        count = self.check_value(value)
        count = np.broadcast_to(count, count.shape if size is None else size).astype(np.float64)
        end = float(self.largest)
        if self.ends == "redrawn":
            u, low, high = rng.random(count.shape), np.zeros(count.shape), np.full(count.shape, end)
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                under = np.exp(self.log_between(-np.inf, np.maximum(middle, _FIRST), count)) < u
                low, high = np.where(under, middle, low), np.where(under, high, middle)
            return scalar_or_array(high)
        drawn = count + self.mechanism.draw(rng, count.shape)
        if self.ends == "truncated":
            return scalar_or_array(np.clip(drawn, 0.0, end))
        turned = np.mod(drawn, 2.0 * end)
        return scalar_or_array(np.minimum(turned, 2.0 * end - turned))

    def total(self, count: int) -> Mechanism:
        if (count := int(check_whole("count", count, minimum=0))) <= 1:
            return self if count else Exact()
        raise ValueError(
            f"count must be at most 1, got {count}: the noise of such releases depends on the values, so their sum has "
            "no law of its own. Read the siblings one by one, with a belief Each"
        )

    def scaled(self, factor: float) -> Self:
        return replace(self, mechanism=self.mechanism.scaled(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Smallest loss that dominates all values: log P(release | value + sensitivity) / P(release | value).

        Each cell may have its worst value.
        """
        change, cells = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", one_number("sensitivity", change), minimum=0))
        if shift > self.largest:
            raise ValueError(
                f"sensitivity must be at most {self.largest}, the largest difference of two values, got {shift}"
            )
        return self._loss(shift, cells)

    def _loss(self, shift: int, cells: int) -> PrivacyLoss:
        values = tuple(range(self.largest - shift + 1))
        return repeat_loss(RangedLoss(self, values, shift), cells) if shift and cells else compose_losses([])

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """Privacy loss of the largest change up to `most` within the range."""
        shift = int(check_whole("contribution", one_number("contribution", most), minimum=0))
        return self._loss(min(shift, self.largest), cells)

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        if not self.local:
            return Mechanism.report_loss(self, apart, cells)
        most = float(self.largest) if apart is None else one_number("apart", check_positive("apart", apart))
        return self._loss(int(min(most, self.largest)), cells)

    def pair_loss(self, value: int, other: int) -> PrivacyLoss:
        high, low = (int(one_number("value", self.check_value(one))) for one in (value, other))
        if high >= low:
            return RangedLoss(self, (low,), high - low) if high > low else compose_losses([])
        return RangedLoss(self, (high,), low - high).swapped

    @property
    def log_peak(self) -> float:
        """Log density at an end of the range, where it is largest; that of the noise itself if truncated."""
        if self.ends == "truncated":
            return float(self.mechanism.log_peak)
        return max(0.0, float(self.log_likelihood(0.0, 0.0)))


def _finite(release: ArrayLike) -> Floats:
    y = as_array(release)
    if not np.isfinite(y).all():
        raise ValueError(f"release must be finite, got {y[~np.isfinite(y)].ravel()[0]}")
    return y


@lru_cache(maxsize=256)
def _largest_square(noise: RangedNoise) -> float:
    """Largest mean square of release minus value over values.

    The integral of 2 u P(release - value > u); the other side is that of the mirrored value, largest - value.
    """
    values = np.arange(noise.largest + 1.0)[:, None]
    scale = float(np.sqrt(noise.mechanism.variance))
    cuts = np.append(0.0, scale * 2.0 ** np.arange(-2.0, 7.0))
    cuts = np.minimum(np.append(cuts, np.inf), noise.largest - values)
    half = 0.5 * np.diff(cuts, axis=1)[..., None]
    far = cuts[:, :-1, None] + half * (1.0 + NODES)
    beyond = np.exp(noise.log_beyond(values[..., None] + far, values[..., None]))
    side = (2.0 * far * beyond * half * WEIGHTS).sum(axis=(1, 2))
    return float((side + side[::-1]).max())
