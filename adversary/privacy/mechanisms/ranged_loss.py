"""The privacy loss of noise within a range: that of the worst pair of values, by the place where a loss is exceeded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from adversary._core import Floats, log_sum_exp, past_ties, scalar_or_array
from adversary.privacy.losses import LargestLoss
from adversary.privacy.losses.loss import Expectation
from adversary.privacy.mechanisms.folded import folded, places

NODES, WEIGHTS = leggauss(32)
_PANELS = 400


@dataclass(frozen=True)
class RangedLoss(LargestLoss):
    """The largest loss of the pairs (low + shift, low) of values, by the place from which a loss is exceeded.

    Parameters
    ----------
    noise : `RangedNoise`
    low : the smaller value of every pair; all there are, or one
    shift : > 0
    """

    noise: Any
    low: tuple[int, ...]
    shift: int

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        """(larger, smaller) value of every pair, (pair, 1)."""
        low = np.array(self.low, dtype=np.float64)[:, None]
        return low + self.shift, low

    def _ratio(self, place: Floats) -> Floats:
        """log P / Q at places within the range, (pair, place)."""
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
        """log of the ratio of the chances to fit: of noise drawn again, what all losses are smaller by."""
        if self.noise.ends != "redrawn":
            return 0.0
        a, b = (self.noise.log_fits(value) for value in self._values)
        return a - b

    @cached_property
    def _table(self) -> Floats:
        """The ratio along the range, (pair, place)."""
        return self._ratio(places(float(self.noise.largest)))

    @cached_property
    def _least_and_most(self) -> tuple[Floats, Floats]:
        """Loss of every pair at the lower end and at the upper, (pair, 1)."""
        ends = np.array([0.0, float(self.noise.largest)])
        if self.noise.ends == "truncated":
            a, b = (self.noise.log_likelihood(ends, value) for value in self._values)
            losses = a - b
        else:
            losses = self._ratio(ends)
        return losses[:, :1], losses[:, 1:]

    def _place(self, threshold: Floats) -> Floats:
        """Where every pair has its losses above a threshold, beyond: -1 before the range, (pair, threshold)."""
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
        # an end with a mass: beyond the last place that has a density, and short of its own loss
        inner = np.clip(place, 0.0, np.nextafter(end, 0.0) if self.noise.ends == "truncated" else end)
        return np.where(threshold < least, -1.0, np.where(threshold >= most, end, inner))

    def each_tail(self, threshold: Floats) -> tuple[Floats, Floats]:
        place = self._place(past_ties(threshold))
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
        """Of one pair, by Legendre's rule along the range and the masses at its ends."""
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
        """Nodes and weights within the range, its panels short enough for a few nats of the loss each."""
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
        """Of the smaller value of every pair against the larger: the same seen from the other end of the range."""
        return RangedLoss(self.noise, tuple(self.noise.largest - self.shift - one for one in self.low), self.shift)

    def each_behind(self, epsilon: Floats) -> Floats:
        return self._mirrored.each_delta(epsilon)
