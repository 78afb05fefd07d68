"""Closed-form privacy losses of continuous noise: the Gaussian mechanism, and Laplace with its two atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.special import bdtrc, erfcx, gammaln, log_ndtr, ndtr, ndtri

from adversary._core import (
    Floats,
    above_ties,
    check_non_negative,
    check_number,
    check_probability,
    exponential_excess,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.losses.loss import Expectation, PrivacyLoss
from adversary.privacy.profiles import delta_at_negative

# Length in nats of a quadrature panel of 200 points; exact to 1e-18 for functions with poles pi from the real line,
# such as the posterior.
_PANEL = 60.0

# The density of losses is proportional to exp(-z / 2), and exp(-1490 / 2) is the smallest double.
# Depth in nats below the largest Laplace loss at which its density underflows.
_DEEPEST = 1490.0


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    """Nodes and weights of the Gauss-Legendre rule of 200 points."""
    return leggauss(200)


_LEGENDRE_8 = leggauss(8)

# Largest number of Laplace losses summed by splines; largest log of a factor of the sum, to stay in double range.
MOST_SPLINES, _HEAVIEST = 200, 600.0

# Omitted probability of more losses between their ends; relative rounding error of the mass from a knot on.
_LEFT_OUT, _ROOM = 1e-30, 1e-12

# Standard deviations beyond which the normal density underflows to 0.
_END = 40.0


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """Loss of a Gaussian mechanism: N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q.

    Parameters
    ----------
    mu : sensitivity / sigma, >= 0
    """

    mu: float

    def __post_init__(self) -> None:
        check_non_negative("mu", self.mu)
        object.__setattr__(self, "mu", one_number("mu", self.mu))

    def _log_tail(self, threshold: Floats, sign: float) -> Floats:
        if self.mu == 0.0:
            return np.where(threshold < 0, 0.0, -np.inf)
        with np.errstate(over="ignore"):
            return np.asarray(log_ndtr(sign * self.mu / 2.0 - threshold / self.mu), dtype=np.float64)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        t = check_number("threshold", threshold)
        return scalar_or_array(np.exp(self._log_tail(t, 1.0))), scalar_or_array(np.exp(self._log_tail(t, -1.0)))

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), computed in log space.

        For small mu, where the two terms nearly cancel: phi(a) times the integral of 1 - x R(x), with R Mills' ratio,
        over x from a = e/mu - mu/2 to a + mu, whose integrand is positive.
        """
        e = check_number("epsilon", epsilon)
        if self.mu == 0.0:
            return scalar_or_array(np.maximum(0.0, 0.0 - np.expm1(np.minimum(e, 0.0))))
        if self.mu <= 1.0:
            size = np.abs(e)
            with np.errstate(over="ignore"):
                start = np.minimum(size / self.mu - self.mu / 2.0, _END)
            nodes, weights = _LEGENDRE_8
            x = start[..., None] + self.mu * 0.5 * (1.0 + nodes)
            falls = 1.0 - x * np.sqrt(np.pi / 2.0) * erfcx(x / np.sqrt(2.0))
            positive = np.exp(-0.5 * start * start) / np.sqrt(2.0 * np.pi) * self.mu * (0.5 * weights * falls).sum(-1)
            return scalar_or_array(delta_at_negative(e, positive))
        e = np.clip(e, -1e300, 1e300)
        upper, lower = self._log_tail(e, 1.0), e + self._log_tail(e, -1.0)
        gap = np.where(np.isfinite(upper), lower - np.where(np.isfinite(upper), upper, 0.0), 0.0)
        return scalar_or_array(np.exp(upper) * -np.expm1(np.minimum(gap, 0.0)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Phi(mu + Phi^-1(level))."""
        a = check_probability("level", level)
        return scalar_or_array(np.maximum(ndtr(self.mu + ndtri(a)), a))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Phi(Phi^-1(power) - mu)."""
        r = check_probability("power", power)
        return scalar_or_array(np.minimum(ndtr(ndtri(r) - self.mu), r))

    def log_level(self, power: float) -> float:
        return float(log_ndtr(ndtri(power) - self.mu))

    @property
    def auc(self) -> float:
        return float(ndtr(self.mu / np.sqrt(2.0)))

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        # Trapezium rule, spectrally accurate for smooth functions; the mass beyond 13 deviations is below 1e-37.
        z = np.linspace(-13.0, 13.0, 5201)
        weight = np.exp(-0.5 * z * z) * (26.0 / 5200.0) / np.sqrt(2 * np.pi)
        centre = self.mu**2 / 2.0
        under = (function(sign * centre + self.mu * z) @ weight for sign in (1.0, -1.0))
        p, q = (scalar_or_array(value) for value in under)
        return p, q

    @property
    def kl_divergence(self) -> float:
        return self.mu**2 / 2.0

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
    """Loss of a Laplace mechanism with e = sensitivity / scale.

    Under P: e with probability 1/2, -e with probability e^-e / 2, density exp(-(e - z)/2)/4 between; mirrored under Q.

    Parameters
    ----------
    epsilon0 : e, nats, >= 0
    """

    epsilon0: float

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon0)
        object.__setattr__(self, "epsilon0", one_number("epsilon", self.epsilon0))

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        t, e = above_ties(check_number("threshold", threshold)), self.epsilon0
        inside = np.clip(t, -e, e)
        p = 1.0 - 0.5 * np.exp((inside - e) / 2.0)
        q = 0.5 * np.exp(-(inside + e) / 2.0)
        return (
            scalar_or_array(np.where(t >= e, 0.0, np.where(t < -e, 1.0, p))),
            scalar_or_array(np.where(t >= e, 0.0, np.where(t < -e, 1.0, q))),
        )

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """1 - exp((epsilon - epsilon0) / 2) between -epsilon0 and epsilon0."""
        e = check_number("epsilon", epsilon)
        inside = -np.expm1((np.minimum(e, self.epsilon0) - self.epsilon0) / 2.0)
        return scalar_or_array(np.where(e < -self.epsilon0, -np.expm1(np.minimum(e, 0.0)), inside))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """e^e a up to a = e^-e / 2, then 1 - e^-e / (4 a) up to 1/2, then 1 - e^-e (1 - a)."""
        e, a = self.epsilon0, check_probability("level", level)
        # For e > 1400 every positive double a has e^e a > 1/2, so that the value of e no longer matters.
        half = np.exp(min(e, 1400.0) / 2.0)
        with np.errstate(over="ignore"):
            first = a * half * half
        middle, last = 1.0 - 0.25 / np.maximum(first, 0.5), 1.0 - np.exp(-e) * (1.0 - a)
        return scalar_or_array(np.where(first <= 0.5, first, np.where(a <= 0.5, middle, last)))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Inverse of `power`: e^-e r to r = 1/2, then e^-e / (4 (1 - r)) to 1 - e^-e / 2, then 1 - e^e (1 - r)."""
        e, r = self.epsilon0, check_probability("power", power)
        edge = max(np.exp(-e) / 2.0, 1e-300)
        middle = np.exp(-e) / (4.0 * np.maximum(1.0 - r, edge))
        last = 1.0 - np.minimum(1.0 - r, edge) / (2.0 * edge)
        return scalar_or_array(np.where(r <= 0.5, np.exp(-e) * r, np.where(1.0 - r >= edge, middle, last)))

    @property
    def auc(self) -> float:
        return float(1.0 - np.exp(-self.epsilon0) * (2.0 + self.epsilon0) / 4.0)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """Gauss-Legendre rule on panels, from the end of largest density to where it underflows."""
        e, depth = self.epsilon0, min(2.0 * self.epsilon0, _DEEPEST)
        panels = max(1, int(np.ceil(depth / _PANEL)))
        x, w = _legendre()
        # Distance of the nodes from that end, in nats.
        fallen = (depth / panels * (np.arange(panels)[:, None] + 0.5 * (1.0 - x))).ravel()
        density = np.tile(w, panels) * np.exp(-0.5 * fallen)
        mass = density * (-0.5 * np.expm1(-e) / density.sum())
        low, high = (function(np.array([end]))[..., 0] for end in (-e, e))
        under_p = 0.5 * high + 0.5 * np.exp(-e) * low + function(e - fallen) @ mass
        under_q = 0.5 * low + 0.5 * np.exp(-e) * high + function(fallen - e) @ mass
        return scalar_or_array(under_p), scalar_or_array(under_q)

    @property
    def kl_divergence(self) -> float:
        """e - 1 + exp(-e)."""
        return float(exponential_excess(-self.epsilon0))

    def log_moment(self, order: float) -> float:
        # The distributions under P and Q are mirror images: orders s and -1 - s have the same moment.
        s, e = max(order, -1.0 - order), self.epsilon0
        # ((s + 1) e^(s e) + s e^(-(s + 1) e)) / (2 s + 1), which is close to 1: compute its excess over 1.
        if s >= 0.0 and s * e <= 1.0:
            excess = (s + 1.0) * exponential_excess(s * e) + s * exponential_excess(-(s + 1.0) * e)
            return float(np.log1p(excess / (2.0 * s + 1.0)))
        # The part between the atoms is exp(-e / 2) sinh(rate e) / (2 rate).
        rate = abs(s + 0.5)
        log_sinh = np.log(e) if rate * e < 1e-9 else rate * e + np.log(-np.expm1(-2 * rate * e)) - np.log(2 * rate)
        terms = [np.log(0.5) + s * e, np.log(0.5) - e - s * e, np.log(0.5) - e / 2 + log_sinh]
        return float(np.logaddexp.reduce(terms))

    @property
    def swapped(self) -> LaplaceLoss:
        return self

    @property
    def maximum(self) -> float:
        return self.epsilon0


@dataclass(frozen=True)
class LaplaceSumLoss:
    """Privacy profile of a sum of identical Laplace losses, by sums of positive terms.

    Under the measure sqrt(P Q), with density e^(-loss / 2) with respect to P, one loss has equal masses at its two ends
    and is uniform between them. A sum of n losses therefore has binomial masses at n + 1 knots, 2 epsilon0 apart, and
    between the knots a mixture of B-splines over the number of losses that lie between their ends.

    Parameters
    ----------
    epsilon0 : largest value of one loss, nats
    count : number of losses, >= 1
    """

    epsilon0: float
    count: int

    @staticmethod
    def fits(epsilon0: float, count: int) -> bool:
        """True if a sum of `count` losses of size `epsilon0` can be computed by splines in double precision."""
        return 1e-9 < epsilon0 <= 4.0 and count <= MOST_SPLINES and count * (0.7 + 0.5 * epsilon0) <= _HEAVIEST

    @cached_property
    def _inside(self) -> int:
        """Largest number of losses between their ends at once, except with probability `_LEFT_OUT`."""
        chances = bdtrc(np.arange(self.count), self.count, -0.5 * np.expm1(-self.epsilon0))
        return int(np.searchsorted(-chances, -_LEFT_OUT)) if chances[-1] <= _LEFT_OUT else self.count

    @cached_property
    def _rule(self) -> tuple[Floats, Floats, Floats]:
        """Quadrature nodes in [0, 1], weights, and barycentric interpolation weights; exact for the splines.

        Twelve more nodes than the degree requires integrate the factor e^loss.
        """
        nodes, weights = leggauss(self._inside + 12)
        signs = (-1.0) ** np.arange(nodes.size)
        between = signs * np.sqrt((1.0 - nodes * nodes) * weights)
        return np.asarray(0.5 * (1.0 + nodes)), np.asarray(0.5 * weights), np.asarray(between)

    @cached_property
    def _density(self) -> Floats:
        """Density under sqrt(P Q) between knots, (cell, node), for cells of width 1; by the B-spline recurrence."""
        e, n, t = self.epsilon0, self.count, self._rule[0]
        log_end, k = np.log(0.5) - 0.5 * e, np.arange(n + 1.0)
        chance = np.exp(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0) + k * (log_end + np.log(e)))
        place = np.arange(n + 1.0)[:, None] + t
        spline, total = np.zeros(place.shape), np.zeros(place.shape)
        spline[0] = 1.0
        for one in range(1, n + 1):
            total = np.exp(log_end) * (total + _moved(total)) if one > 1 else total
            if one <= self._inside:
                spline = (place * spline + (one - place) * _moved(spline)) / (one - 1.0) if one > 1 else spline
                total = total + chance[one] * spline
        return total[:n]

    @cached_property
    def _knots(self) -> Floats:
        return 2.0 * self.epsilon0 * (np.arange(self.count + 1.0) - 0.5 * self.count)

    @cached_property
    def _masses(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Masses at each knot under P; beyond it between knots under P and under Q; at it and beyond under P."""
        n, j = self.count, np.arange(self.count + 1.0)
        log_ends = gammaln(n + 1.0) - gammaln(j + 1.0) - gammaln(n - j + 1.0) - n * (np.log(2.0) + 0.5 * self.epsilon0)
        half = self.epsilon0 * (j[:-1, None] + self._rule[0] - 0.5 * n)
        between = [(self._density * np.exp(sign * half)) @ self._rule[1] for sign in (1.0, -1.0)]
        at = np.exp(log_ends + 0.5 * self._knots)
        p, q = (np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in between)
        return at, p, q, np.cumsum(at[::-1])[::-1] + p

    def bracket(self, epsilon: ArrayLike) -> tuple[Floats, Floats]:
        """Certified (lower, upper) bound on the profile.

        >>> low, high = LaplaceSumLoss(0.1, 100).bracket(4.0)
        >>> float(high - low) < 1e-8 * float(high)
        True
        """
        e = np.asarray(epsilon, dtype=np.float64)
        flat = np.minimum(np.abs(e).ravel(), self._knots[-1])
        at, p, q, whole = self._masses
        t, weights, between = self._rule
        place = np.clip(flat / (2.0 * self.epsilon0) + 0.5 * self.count, 0.0, self.count)
        cell = np.minimum(place.astype(np.int64), self.count - 1)
        start = np.clip(place - cell, 0.0, 1.0)[:, None]
        inside = start + (1.0 - start) * t
        apart = inside[..., None] - t
        share = between / np.where(np.abs(apart) < 1e-15, 1e-15, apart)
        density = np.einsum("ekn,en->ek", share, self._density[cell]) / share.sum(-1)
        half = self.epsilon0 * (cell[:, None] + inside - 0.5 * self.count)
        rest = ((1.0 - start) * weights * density * np.exp(half) * -np.expm1(flat[:, None] - 2.0 * half)).sum(-1)
        ends = (at * np.maximum(-np.expm1(np.minimum(flat[:, None] - self._knots, 0.0)), 0.0)).sum(-1)
        delta = np.maximum(p[cell + 1] - np.exp(flat) * q[cell + 1], 0.0) + rest + ends
        room, beyond = _ROOM * whole[cell], flat >= self._knots[-1]
        low, high = (np.where(beyond, 0.0, x).reshape(e.shape) for x in (delta - room, delta + room + _LEFT_OUT))
        return delta_at_negative(e, np.maximum(low, 0.0)), np.minimum(delta_at_negative(e, high), 1.0)


def _moved(cells: Floats) -> Floats:
    """Cells shifted up by one, the first filled with 0."""
    return np.concatenate([np.zeros((1, cells.shape[1])), cells[:-1]])
