"""The law of the privacy loss L = log P(release) / Q(release) for one pair, P (target in) against Q (out).

Two tails and an expectation are enough: the profile, bounds on beliefs and checks of a promise are derived from them.
Infinite losses are explicit masses, and tails keep relative accuracy down to exp(-745).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from adversary._numeric import (
    Floats,
    as_array,
    check_non_negative,
    check_whole,
    elementwise,
    labelled,
    scalar_or_array,
)
from adversary.privacy.composition import GRID_BINS, MAX_ATOMS, grid_convolution, merged, product
from adversary.privacy.guarantees import TOLERANCE, Guarantee, loss_bound_from_profile

Expectation = Callable[[Floats], Floats]


class PrivacyLoss(Guarantee):
    """Law of L under P and under Q.

    To write one: `tail(threshold)` = (P(L > t), Q(L > t)) with infinite mass included, `expect(function)` =
    (E under P, E under Q) for a function that accepts infinite losses, `log_moment(order)` = log E_P[e^(order L)],
    and `swapped`, the loss of Q against P. `LatticeLoss` is the example to read.
    """

    __slots__ = ()

    @abstractmethod
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """(P(L > threshold), Q(L > threshold))."""

    @abstractmethod
    def expect(self, function: Expectation) -> tuple[float, float]:
        """(E_P[function(L)], E_Q[function(L)])."""

    @abstractmethod
    def log_moment(self, order: float) -> float:
        """log E_P[exp(order L)], in nats; infinite when P has mass at an infinite loss and order > 0."""

    @property
    @abstractmethod
    def swapped(self) -> PrivacyLoss:
        """The loss of Q against P."""

    @property
    @abstractmethod
    def maximum(self) -> float:
        """Essential supremum of L under P."""

    @property
    def definition(self) -> str:
        return "privacy loss"

    @property
    def bracket(self) -> Bracket:
        """Certified (lower, upper) answers; the two agree for every loss whose law is exact."""
        if isinstance(self, ComposedLoss):
            return Bracket(self.lower, self.upper)
        return Bracket(self, self)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """P(L > epsilon) - e^epsilon Q(L > epsilon), of P against Q."""
        e = as_array(epsilon)
        p, q = self.tail(e)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.where(q > 0, p - np.exp(e + np.log(np.where(q > 0, q, 1.0))), p)
        return scalar_or_array(np.clip(excess, 0.0, 1.0))

    def worst_delta(self, epsilon: ArrayLike) -> Any:
        return scalar_or_array(np.maximum(self.delta(epsilon), self.swapped.delta(epsilon)))

    def renyi(self, alpha: float) -> float:
        """Renyi divergence of order alpha > 1 of P from Q: log E_P[e^((alpha - 1) L)] / (alpha - 1)."""
        return self.log_moment(alpha - 1.0) / (alpha - 1.0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """Worse of the two directions, from the profile (quantiles of L would not survive post-processing)."""
        return max(min(side.maximum, loss_bound_from_profile(side, failure)) for side in (self, self.swapped))

    def group(self, size: int) -> Guarantee:
        """A chain of `size` pairs like this one; `plan.privacy_loss(records=size)` is sharper where it can be asked."""
        return self if check_whole("size", size, minimum=1) == 1 else GroupedLoss(self, size)

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        """Whether `loss` has a profile nowhere above this one's, in either direction."""
        reach = min(60.0, max(self.maximum, loss.maximum, 1e-12))
        e = np.linspace(-reach, reach, 801)
        return all(
            bool(np.all(other.bracket.delta(e)[0] <= mine.bracket.delta(e)[1] * (1 + TOLERANCE) + 1e-15))
            for mine, other in ((self, loss), (self.swapped, loss.swapped))
        )

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """The loss of two independent releases: an exact lattice while it is small, a certified bracket beyond."""
        return composed([self, other])


@dataclass(frozen=True)
class GroupedLoss(Guarantee):
    """What a loss for one record promises of `size` records, each changed in turn.

    With D(e) the worse of its two profiles, delta(E) <= D(e) (1 + e^e + ... + e^((size - 1) e)) at e = E / size.
    """

    loss: PrivacyLoss
    size: int

    @property
    def definition(self) -> str:
        return self.loss.definition

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        e = as_array(epsilon) / self.size
        with np.errstate(over="ignore", invalid="ignore"):
            one = np.maximum(as_array(self.loss.delta(e)), as_array(self.loss.swapped.delta(e)))
            total = one * sum(np.exp(i * np.maximum(e, 0.0)) for i in range(self.size))
        return scalar_or_array(np.where(one > 0, np.minimum(total, 1.0), 0.0))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        certain = self.size * max(self.loss.maximum, self.loss.swapped.maximum)
        return min(certain, loss_bound_from_profile(self, failure))

    def group(self, size: int) -> Guarantee:
        return self.loss.group(self.size * int(check_whole("size", size, minimum=1)))

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        return self.loss.group(1).is_kept_by(loss)


@dataclass(frozen=True)
class Bracket:
    """Two laws between which the true one lies."""

    lower: PrivacyLoss
    upper: PrivacyLoss

    def delta(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """(lower, upper) bounds on the profile."""
        return self.lower.delta(epsilon), self.upper.delta(epsilon)


@dataclass(frozen=True, eq=False)
class LatticeLoss(PrivacyLoss):
    """A loss with countably many values: `losses` ascending, log masses under P and Q, and the two infinite masses.

    Parameters
    ----------
    losses, log_p, log_q : arrays of one length; losses in nats
    infinite_p : P's mass where Q has none (L = +inf)
    infinite_q : Q's mass where P has none (L = -inf)
    bounded : False when the values run on for ever and only masses below exp(-745) were left out
    """

    losses: Floats
    log_p: Floats
    log_q: Floats
    infinite_p: float = 0.0
    infinite_q: float = 0.0
    bounded: bool = True

    @classmethod
    def from_log_probs(cls, log_p: Floats, log_q: Floats, *, bounded: bool = True) -> LatticeLoss:
        """From the log probabilities of each outcome under P and under Q."""
        both = np.isfinite(log_p) & np.isfinite(log_q)
        only_p = float(np.exp(log_p[np.isneginf(log_q) & np.isfinite(log_p)]).sum())
        only_q = float(np.exp(log_q[np.isneginf(log_p) & np.isfinite(log_q)]).sum())
        return cls(*merged(log_p[both] - log_q[both], log_p[both], log_q[both]), only_p, only_q, bounded)

    @cached_property
    def _log_tails(self) -> tuple[Floats, Floats]:
        """Log masses at and beyond each atom, finite part, with -inf behind the last."""

        def behind(log_mass: Floats) -> Floats:
            return np.append(np.logaddexp.accumulate(log_mass[::-1])[::-1], -np.inf)

        return behind(self.log_p), behind(self.log_q)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        first = np.searchsorted(self.losses, as_array(threshold), side="right")
        log_p, log_q = self._log_tails
        # L = -inf, possible under Q only, is never above a threshold
        beyond_p = np.minimum(np.exp(log_p[first]) + self.infinite_p, 1.0)
        return scalar_or_array(beyond_p), scalar_or_array(np.minimum(np.exp(log_q[first]), 1.0))

    def expect(self, function: Expectation) -> tuple[float, float]:
        value = function(self.losses)
        p = float(np.exp(self.log_p) @ value)
        q = float(np.exp(self.log_q) @ value)
        if self.infinite_p:
            p += self.infinite_p * float(function(np.array([np.inf]))[0])
        if self.infinite_q:
            q += self.infinite_q * float(function(np.array([-np.inf]))[0])
        return p, q

    def log_moment(self, order: float) -> float:
        if self.infinite_p and order > 0:
            return float("inf")
        return float(np.logaddexp.reduce(self.log_p + order * self.losses))

    @property
    def swapped(self) -> LatticeLoss:
        mirrored = -self.losses[::-1], self.log_q[::-1], self.log_p[::-1]
        return LatticeLoss(*mirrored, self.infinite_q, self.infinite_p, self.bounded)

    @property
    def maximum(self) -> float:
        if self.infinite_p or not self.bounded:
            return float("inf")
        return float(self.losses[-1]) if self.losses.size else 0.0


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """Loss of a Gaussian mechanism: N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q; mu = sensitivity / sigma."""

    mu: float

    def __post_init__(self) -> None:
        check_non_negative("mu", self.mu)

    def _log_tail(self, threshold: Floats, sign: float) -> Floats:
        if self.mu == 0.0:
            return np.where(threshold < 0, 0.0, -np.inf)
        with np.errstate(over="ignore"):
            return np.asarray(log_ndtr(sign * self.mu / 2.0 - threshold / self.mu), dtype=np.float64)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        t = as_array(threshold)
        return scalar_or_array(np.exp(self._log_tail(t, 1.0))), scalar_or_array(np.exp(self._log_tail(t, -1.0)))

    def expect(self, function: Expectation) -> tuple[float, float]:
        z = np.linspace(-13.0, 13.0, 5201)  # trapezium rule, spectrally accurate for smooth functions
        weight = np.exp(-0.5 * z * z) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
        centre = self.mu**2 / 2.0
        return float(weight @ function(centre + self.mu * z)), float(weight @ function(-centre + self.mu * z))

    def log_moment(self, order: float) -> float:
        return order * (order + 1.0) * self.mu**2 / 2.0

    @property
    def swapped(self) -> GaussianLoss:
        return self

    @property
    def maximum(self) -> float:
        return float("inf") if self.mu > 0 else 0.0


@dataclass(frozen=True)
class LaplaceLoss(PrivacyLoss):
    """Loss of a Laplace mechanism, e = sensitivity / scale.

    Under P: e with probability 1/2, -e with probability e^-e / 2, density exp(-(e - z)/2)/4 between; mirrored under Q.
    """

    epsilon0: float

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon0)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        t, e = as_array(threshold), self.epsilon0
        inside = np.clip(t, -e, e)
        p = 1.0 - 0.5 * np.exp((inside - e) / 2.0)
        q = 0.5 * np.exp(-(inside + e) / 2.0)
        return (
            scalar_or_array(np.where(t >= e, 0.0, np.where(t < -e, 1.0, p))),
            scalar_or_array(np.where(t >= e, 0.0, np.where(t < -e, 1.0, q))),
        )

    def expect(self, function: Expectation) -> tuple[float, float]:
        e = self.epsilon0
        x, w = leggauss(200)
        z = e * x
        ends = function(np.array([-e, e]))
        under_p = 0.5 * ends[1] + 0.5 * np.exp(-e) * ends[0] + (e * w) @ (0.25 * np.exp((z - e) / 2) * function(z))
        under_q = 0.5 * ends[0] + 0.5 * np.exp(-e) * ends[1] + (e * w) @ (0.25 * np.exp((-z - e) / 2) * function(z))
        return float(under_p), float(under_q)

    def log_moment(self, order: float) -> float:
        s, e = order, self.epsilon0
        rate = abs(s + 0.5)  # the middle is exp(-e / 2) sinh(rate e) / (2 rate)
        log_sinh = np.log(e) if rate * e < 1e-9 else rate * e + np.log(-np.expm1(-2 * rate * e)) - np.log(2 * rate)
        terms = [np.log(0.5) + s * e, np.log(0.5) - e - s * e, np.log(0.5) - e / 2 + log_sinh]
        return float(np.logaddexp.reduce(terms))

    @property
    def swapped(self) -> LaplaceLoss:
        return self

    @property
    def maximum(self) -> float:
        return self.epsilon0


@dataclass(frozen=True, eq=False)
class ComposedLoss(PrivacyLoss):
    """Sum of independent losses too large to enumerate: rounded up (more risk) and down on a common grid.

    `bracket` certifies the profile, and P's tails; in these laws Q's mass is p e^-loss, so Q's tails are approximate.
    Moments are exact, as their logs add.
    """

    parts: tuple[PrivacyLoss, ...]

    @cached_property
    def upper(self) -> LatticeLoss:
        """Every loss rounded up to the grid, mass beyond the grid counted as infinite."""
        return _rounded_product(self.parts, up=True)

    @cached_property
    def lower(self) -> LatticeLoss:
        """Every loss rounded down to the grid, mass beyond the grid dropped."""
        return _rounded_product(self.parts, up=False)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        return self.upper.tail(threshold)

    def expect(self, function: Expectation) -> tuple[float, float]:
        """Each law's own masses, its losses rounded up in its own direction."""
        return self.upper.expect(function)[0], self.swapped.upper.expect(lambda loss: function(-loss))[0]

    def log_moment(self, order: float) -> float:
        return sum(part.log_moment(order) for part in self.parts)

    @property
    def swapped(self) -> ComposedLoss:
        return ComposedLoss(tuple(part.swapped for part in self.parts))

    @property
    def maximum(self) -> float:
        return sum(part.maximum for part in self.parts)


def composed(parts: list[PrivacyLoss]) -> PrivacyLoss:
    """The loss of independent releases with these losses; no release at all has loss 0."""
    flat = [q for part in parts for q in (part.parts if isinstance(part, ComposedLoss) else (part,))]
    gaussians = [part for part in flat if isinstance(part, GaussianLoss)]
    rest = [part for part in flat if not isinstance(part, GaussianLoss)]
    if gaussians:
        rest.append(GaussianLoss(float(np.sqrt(sum(part.mu**2 for part in gaussians)))))
    if not rest:
        return LatticeLoss(np.zeros(1), np.zeros(1), np.zeros(1))
    return rest[0] if len(rest) == 1 else reduce(_combined, rest[1:], rest[0])


def repeated(loss: PrivacyLoss, times: int) -> PrivacyLoss:
    """The loss of `times` independent releases with the same loss."""
    return composed([loss] * int(check_whole("times", times, minimum=0)))


def _combined(a: PrivacyLoss, b: PrivacyLoss) -> PrivacyLoss:
    if not (isinstance(a, LatticeLoss) and isinstance(b, LatticeLoss)) or a.losses.size * b.losses.size > MAX_ATOMS:
        parts = [q for part in (a, b) for q in (part.parts if isinstance(part, ComposedLoss) else (part,))]
        return ComposedLoss(tuple(parts))
    atoms = product((a.losses, a.log_p, a.log_q), (b.losses, b.log_p, b.log_q))
    infinite_p = 1.0 - (1.0 - a.infinite_p) * (1.0 - b.infinite_p)
    infinite_q = 1.0 - (1.0 - a.infinite_q) * (1.0 - b.infinite_q)
    return LatticeLoss(*atoms, infinite_p, infinite_q, a.bounded and b.bounded)


def _rounded_product(parts: tuple[PrivacyLoss, ...], *, up: bool) -> LatticeLoss:
    """Round every part to one grid and convolve: p is kept, q = p e^-loss, so the profile moves one way only."""
    edges = [_edges(part) for part in parts]
    step = sum(high - low for low, high in edges) / GRID_BINS
    masses, start, infinite = [], 0.0, 0.0
    for part, (low, high) in zip(parts, edges, strict=True):
        first, last = int(np.floor(low / step)), int(np.ceil(high / step))
        grid = as_array(step * np.arange(first, last + 1))
        beyond = as_array(part.tail(grid)[0])
        inside = -np.diff(beyond)  # P(grid[i] < L <= grid[i + 1])
        mass = np.append(1.0 - beyond[0], inside) if up else np.append(inside, 0.0)
        infinite = 1.0 - (1.0 - infinite) * (1.0 - float(beyond[-1]))
        masses.append(np.maximum(mass, 0.0))
        start += first
    total = grid_convolution(masses)
    losses = as_array(step * (start + np.arange(total.size)))
    if up:  # no sum exceeds the sum of the largest
        losses = np.minimum(losses, sum(part.maximum for part in parts))
    with np.errstate(divide="ignore"):
        log_p = np.log(total)
    atoms = merged(losses, log_p, log_p - losses)
    return LatticeLoss(*atoms, infinite if up else 0.0, 0.0)


def _edges(loss: PrivacyLoss, mass: float = 1e-24) -> tuple[float, float]:
    """Thresholds beyond which either law has at most `mass`, infinite losses aside."""
    t = np.concatenate([-np.geomspace(800, 1e-6, 4000), np.geomspace(1e-6, 800, 4000)])

    def last_live(side: PrivacyLoss) -> float:
        p, q = (as_array(tail) for tail in side.tail(t))
        live = np.flatnonzero(np.maximum(p - side.tail(np.inf)[0], q) > mass)
        return float(t[min(live[-1] + 1, t.size - 1)]) if live.size else float(t[0])

    high, low = last_live(loss), -last_live(loss.swapped)
    return low, max(high, low + 1e-9)
