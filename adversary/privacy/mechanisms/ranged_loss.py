"""Privacy loss of noise restricted to a range, for the worst pair of values; folded Laplace and Gaussian distributions.

The loss is increasing in the release, so that tails and profile follow from the point at which it exceeds a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from adversary._core import Floats, above_ties, log_sum_exp, scalar_or_array
from adversary.privacy.losses import LargestLoss
from adversary.privacy.losses.loss import Expectation
from adversary.privacy.mechanisms.additive import log_mass

NODES, WEIGHTS = leggauss(32)
_PANELS = 400

# Images of a folded Gaussian, shifted by multiples of twice the range and mirrored (sign -1), that matter in double
# precision if sigma is at most a third of the range.
_IMAGES, _SIDES = np.array([0.0, 0.0, 1.0, 1.0, -1.0, -1.0, 2.0]), np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0])

# Multiples of twice the range of the intervals that fold onto releases beyond a point.
_GAPS = np.array([-2.0, -1.0, 0.0, 1.0])

# Frequencies of the cosine series of a wider Gaussian.
_WAVES = np.arange(1.0, 16.0)
_SECANTS, _TABLED = 4, 2049


@dataclass(frozen=True)
class RangedLoss(LargestLoss):
    """Smallest loss that dominates the pairs of values (low + shift, low) of noise restricted to a range.

    Parameters
    ----------
    noise : `RangedNoise`
    low : the smaller value of each pair: all of them, or one
    shift : difference of the two values, > 0
    """

    noise: Any
    low: tuple[int, ...]
    shift: int

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        """(larger, smaller) value of each pair, (pair, 1)."""
        low = np.array(self.low, dtype=np.float64)[:, None]
        return low + self.shift, low

    def _ratio(self, place: Floats) -> Floats:
        """Log likelihood ratio at places within the range, (pair, place)."""
        a, b = self._values
        inside = self.noise.mechanism
        if self.noise.ends == "reflected":
            return folded(inside, float(self.noise.largest)).log_ratio(place, a, b)
        if inside.parabola is not None:
            free = inside.parabola[0] * (a - b) * (2.0 * place - a - b)
        else:
            free = inside.laplace_rate * (np.abs(place - b) - np.abs(place - a))
        return np.asarray(free - self._jump)

    @cached_property
    def _jump(self) -> Any:
        """Log ratio of the normalising constants of redrawn noise, which is subtracted from all losses; otherwise 0."""
        if self.noise.ends != "redrawn":
            return 0.0
        a, b = (self.noise.log_fits(value) for value in self._values)
        return a - b

    @cached_property
    def _table(self) -> Floats:
        """Log likelihood ratio on a grid along the range, (pair, place)."""
        return self._ratio(_places(float(self.noise.largest)))

    @cached_property
    def _least_and_most(self) -> tuple[Floats, Floats]:
        """Loss of each pair at the lower and at the upper end of the range, (pair, 1)."""
        ends = np.array([0.0, float(self.noise.largest)])
        if self.noise.ends == "truncated":
            a, b = (self.noise.log_likelihood(ends, value) for value in self._values)
            losses = a - b
        else:
            losses = self._ratio(ends)
        return losses[:, :1], losses[:, 1:]

    def _place(self, threshold: Floats) -> Floats:
        """Place beyond which the loss of each pair exceeds a threshold, (pair, threshold); -1 if it always does."""
        a, b = self._values
        inside, end = self.noise.mechanism, float(self.noise.largest)
        least, most = self._least_and_most
        t = threshold + self._jump
        with np.errstate(invalid="ignore", over="ignore"):
            if self.noise.ends == "reflected":
                place = folded(inside, end).place(threshold, a, b, self._table)
            elif inside.parabola is not None:
                place = 0.5 * (t / (inside.parabola[0] * (a - b)) + a + b)
            else:
                widest = inside.laplace_rate * (a - b)
                place = 0.5 * (np.clip(t, -widest, widest) / inside.laplace_rate + a + b)
        # The upper end of truncated noise has a point mass with its own loss: stay below it.
        inner = np.clip(place, 0.0, np.nextafter(end, 0.0) if self.noise.ends == "truncated" else end)
        return np.where(threshold < least, -1.0, np.where(threshold >= most, end, inner))

    def each_tail(self, threshold: Floats) -> tuple[Floats, Floats]:
        place = self._place(above_ties(threshold))
        a, b = (np.exp(self.noise.log_beyond(place, value)) for value in self._values)
        return a, b

    def each_delta(self, epsilon: Floats) -> Floats:
        place = self._place(epsilon)
        log_p, log_q = (self.noise.log_beyond(place, value) for value in self._values)
        with np.errstate(invalid="ignore"):
            gap = np.where(log_p > -np.inf, epsilon + log_q - log_p, 0.0)
        return np.asarray(np.exp(log_p) * -np.expm1(np.minimum(gap, 0.0)))

    @property
    def pairs(self) -> int:
        return len(self.low)

    @property
    def maximum(self) -> float:
        return float(self._least_and_most[1].max())

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """Expectations of a single pair by Gauss-Legendre quadrature and the point masses; otherwise interpolated."""
        if len(self.low) > 1:
            return LargestLoss.expect(self, function)
        pair = float(self.low[0] + self.shift), float(self.low[0])
        place, width = self._panels(*pair)
        values = function(self._ratio(place)[0])
        under = [values @ (np.exp(self.noise.log_likelihood(place, value)) * width) for value in pair]
        if self.noise.ends == "truncated":
            at = np.array([0.0, float(self.noise.largest)])
            ends = function(np.concatenate([losses[0] for losses in self._least_and_most]))
            for side, value in enumerate(pair):
                under[side] = under[side] + ends @ np.exp(self.noise.log_likelihood(at, value))
        return scalar_or_array(under[0]), scalar_or_array(under[1])

    def log_moment(self, order: float) -> float:
        if len(self.low) > 1:
            return LargestLoss.log_moment(self, order)
        place, width = self._panels(float(self.low[0] + self.shift), float(self.low[0]))
        value, terms = float(self.low[0] + self.shift), order * self._ratio(place)[0] + np.log(width)
        terms = terms + self.noise.log_likelihood(place, value)
        if self.noise.ends == "truncated":
            at = self.noise.log_likelihood(np.array([0.0, float(self.noise.largest)]), value)
            terms = np.append(terms, at + order * np.concatenate([losses[0] for losses in self._least_and_most]))
        return float(log_sum_exp(terms))

    @property
    def kl_divergence(self) -> float:
        return float(self.expect(lambda z: z)[0]) if len(self.low) == 1 else self.above.kl_divergence

    def _panels(self, a: float, b: float) -> tuple[Floats, Floats]:
        """Quadrature nodes and weights within the range; on each panel the loss changes by a few nats only."""
        scale, end = float(np.sqrt(self.noise.mechanism.variance)), float(self.noise.largest)
        step = max(min(3.0 * scale, 8.0 * scale**2 / (a - b)), end / _PANELS)
        cuts = np.unique(np.concatenate([np.linspace(0.0, end, int(np.ceil(end / step)) + 1), [a, b]]))
        half = 0.5 * np.diff(cuts)[:, None]
        return (cuts[:-1, None] + half * (1.0 + NODES)).ravel(), (half * WEIGHTS).ravel()

    @cached_property
    def swapped(self) -> RangedLoss:
        return self if {*self._mirrored.low} == {*self.low} else self._mirrored

    @cached_property
    def _mirrored(self) -> RangedLoss:
        """Loss of the smaller value of each pair against the larger: the mirror image of the range."""
        return RangedLoss(self.noise, tuple(self.noise.largest - self.shift - one for one in self.low), self.shift)

    def each_behind(self, epsilon: Floats) -> Floats:
        return self._mirrored.each_delta(epsilon)


@dataclass(frozen=True)
class FoldedLaplace:
    """Laplace distribution folded into [0, end]: density cosh(min) cosh(end - max) / sinh(end), in units of the scale.

    min and max are those of release and value.

    Parameters
    ----------
    rate : 1 / scale
    end : length of the range, > 0
    """

    rate: float
    end: float

    def log_density(self, y: Floats, value: Floats) -> Floats:
        low, high = np.minimum(y, value), self.end - np.maximum(y, value)
        peaks = _log_cosh(self.rate * low) + _log_cosh(self.rate * high)
        return np.asarray(np.log(self.rate) + peaks - self._log_whole)

    @property
    def _log_whole(self) -> Floats:
        return _log_sinh(np.array(self.rate * self.end))

    def log_between(self, low: Floats, high: Floats, value: Floats) -> Floats:
        """log P(low <= release <= high), as a sum of two terms, one on each side of the value."""
        left = low, np.minimum(high, value)
        right = np.maximum(low, value), high
        parts = [
            _log_sinh_difference(self.rate * left[0], self.rate * left[1]) + _log_cosh(self.rate * (self.end - value)),
            _log_sinh_difference(self.rate * (self.end - right[1]), self.rate * (self.end - right[0]))
            + _log_cosh(self.rate * value),
        ]
        return np.asarray(np.logaddexp(*parts) - self._log_whole)

    def log_beyond(self, place: Floats, value: Floats) -> Floats:
        """log P(release > place)."""
        return self.log_between(place, np.asarray(self.end), value)

    def log_ratio(self, y: Floats, a: Floats, b: Floats) -> Floats:
        return self.log_density(y, a) - self.log_density(y, b)

    def place(self, threshold: Floats, a: Floats, b: Floats, table: Floats) -> Floats:
        """Place y between the values b < a with cosh(y) / cosh(end - y) = e^threshold cosh(b) / cosh(end - a)."""
        del table
        log_r = threshold + _log_cosh(self.rate * b) - _log_cosh(self.rate * (self.end - a))
        whole = self.rate * self.end
        log_r = np.clip(log_r, -whole, whole)
        with np.errstate(divide="ignore"):
            rise = np.log(-np.expm1(-whole - log_r)) - np.log(-np.expm1(log_r - whole))
        middle = 0.5 * (log_r + whole + rise) / self.rate
        return np.asarray(np.clip(middle, b, a))


@dataclass(frozen=True)
class FoldedGaussian:
    """Gaussian distribution folded into [0, end]: a sum over images if it is narrow, over cosines if it is wide.

    Parameters
    ----------
    noise : `Gaussian`
    end : length of the range, > 0
    """

    noise: Any
    end: float

    @property
    def _heights(self) -> Floats | None:
        """Coefficients of the cosine series; None for narrow noise, for which images are used."""
        if 3.0 * self.noise.sigma <= self.end:
            return None
        return np.asarray(np.exp(-0.5 * (_WAVES * np.pi * self.noise.sigma / self.end) ** 2))

    def _excess(self, heights: Floats, y: Floats, value: Floats) -> Floats:
        """Density times the length of the range, minus 1."""
        angle = np.pi / self.end * _WAVES
        return np.asarray(2.0 * (np.cos(angle * y[..., None]) * np.cos(angle * value[..., None])) @ heights)

    def log_density(self, y: Floats, value: Floats) -> Floats:
        if (heights := self._heights) is not None:
            return np.asarray(np.log1p(self._excess(heights, y, value)) - np.log(self.end))
        return log_sum_exp(self.noise.log_noise(2.0 * self.end * _IMAGES + _SIDES * y[..., None] - value[..., None]))

    def log_ratio(self, y: Floats, a: Floats, b: Floats) -> Floats:
        if (heights := self._heights) is not None:
            return np.asarray(np.log1p(self._excess(heights, y, a)) - np.log1p(self._excess(heights, y, b)))
        return self.log_density(y, a) - self.log_density(y, b)

    def log_between(self, low: Floats, high: Floats, value: Floats) -> Floats:
        if (heights := self._heights) is not None:
            angle, middle, half = np.pi / self.end * _WAVES, 0.5 * (high + low), 0.5 * (high - low)
            waves = (
                np.cos(angle * middle[..., None]) * np.sin(angle * half[..., None]) * np.cos(angle * value[..., None])
            )
            return np.asarray(np.log(np.maximum(2.0 * half / self.end + 4.0 * waves @ (heights / _WAVES) / np.pi, 0.0)))
        # Intervals left of the value are mirrored, so that both tails are small.
        left = low + high < 2.0 * value
        low, high = np.where(left, self.end - high, low), np.where(left, self.end - low, high)
        first, last = (self.log_beyond(one, np.where(left, self.end - value, value)) for one in (low, high))
        with np.errstate(invalid="ignore"):
            beside = first + np.log1p(-np.exp(np.where(first > -np.inf, last - first, -np.inf)))
        return np.asarray(beside)

    def log_beyond(self, place: Floats, value: Floats) -> Floats:
        """log P(release > place)."""
        if self._heights is not None:
            return self.log_between(place, np.asarray(self.end), value)
        centre = 2.0 * self.end * _GAPS - value[..., None]
        low, high = centre + place[..., None], centre + (2.0 * self.end - place)[..., None]
        return log_sum_exp(log_mass(self.noise.log_survival, low, high, 0.0))

    def place(self, threshold: Floats, a: Floats, b: Floats, table: Floats) -> Floats:
        """Place at which the increasing log ratio equals the threshold, by table look-up and secant steps."""
        grid = _places(self.end)
        at = np.stack([np.clip(np.searchsorted(row, threshold, "right") - 1, 0, _TABLED - 2) for row in table])
        low, high = grid[at], grid[at + 1]
        under, over = (np.take_along_axis(table, at + one, 1) - threshold for one in (0, 1))
        middle = low
        for _ in range(_SECANTS):
            with np.errstate(invalid="ignore", divide="ignore"):
                middle = np.clip(np.nan_to_num(low - under * (high - low) / (over - under)), low, high)
            excess = self.log_ratio(middle, a, b) - threshold
            left = excess <= 0.0
            # Illinois variant of regula falsi: the value of the retained end is halved, so that both ends converge.
            under, over = np.where(left, excess, 0.5 * under), np.where(left, 0.5 * over, excess)
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return middle


@lru_cache(maxsize=64)
def folded(noise: Any, end: float) -> FoldedLaplace | FoldedGaussian:
    """Distribution of Laplace or Gaussian noise folded into [0, end].

    Parameters
    ----------
    noise : `Laplace` or `Gaussian`
    end : length of the range, > 0

    >>> from adversary.privacy.mechanisms import Laplace
    >>> law = folded(Laplace(1.0), 4.0)
    >>> float(np.exp(law.log_beyond(np.array(2.0), np.array(2.0)))).__round__(12)
    0.5
    """
    return FoldedGaussian(noise, end) if noise.parabola is not None else FoldedLaplace(noise.laplace_rate, end)


def _places(end: float) -> Floats:
    """Grid of places along a range for the table of log ratios, (place,)."""
    return np.linspace(0.0, end, _TABLED)


def _log_cosh(x: Floats) -> Floats:
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0))


def _log_sinh(x: Floats) -> Floats:
    """log sinh(x); -inf for x <= 0."""
    size = np.maximum(x, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(size + np.log(-np.expm1(-2.0 * size)) - np.log(2.0))


def _log_sinh_difference(x: Floats, y: Floats) -> Floats:
    """log(sinh y - sinh x); -inf unless y > x."""
    return np.asarray(np.log(2.0) + _log_cosh(0.5 * (x + y)) + _log_sinh(0.5 * (y - x)))
