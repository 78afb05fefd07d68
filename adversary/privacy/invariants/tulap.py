"""The truncated-uniform-Laplace law, the canonical noise of pure and approximate DP, in closed form.

For epsilon-DP it is a geometric difference plus a uniform on (-1/2, 1/2); for (epsilon, delta)-DP that law cut off
where delta of the mass of a shift is spent (Awan and Slavkovic 2018, "Differentially private uniformly most powerful
tests for binomial data"; Cho and Awan, section 5.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adversary._core import TAIL_NATS, Floats, as_array, check_non_negative, check_probability, one_number
from adversary.privacy.definitions import ApproximateDP, NoPrivacy, PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.canonical import CanonicalLaw
from adversary.privacy.mechanisms import root_of


@dataclass(frozen=True)
class Tulap(CanonicalLaw):
    """Canonical noise of (epsilon, delta)-DP for a count that one record moves by 1.

    With b = e^-epsilon, A = (1 - b + 2 delta b) / (1 + b) and k = |x| to the nearest whole number, the density is A b^k
    while P(noise > |x|) = b^k (1/2 - A (|x| - k) - delta (e^(k epsilon) - 1) / (e^epsilon - 1)) is positive, 0 beyond.

    Parameters
    ----------
    epsilon : nats, >= 0
    delta : probability in [0, 1]; positive where epsilon is 0

    >>> noise = Tulap(1.0)
    >>> round(noise.cdf(1.0, 0), 6), round(noise.cdf(-2.0, 0), 6), round(noise.ppf(noise.cdf(1.0, 0)), 12)
    (0.81606, 0.067668, 1.0)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon)
        check_probability("delta", self.delta)
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, one_number(name, getattr(self, name)))
        if self.epsilon == self.delta == 0.0:
            raise ValueError("epsilon or delta must be positive: at (0, 0) nothing may depend on the data")

    @property
    def promise(self) -> Guarantee:
        if self.delta == 1.0:
            return NoPrivacy()
        return ApproximateDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    @property
    def height(self) -> float:
        """A, the density at 0: the largest total variation of a shift by one."""
        b = np.exp(-self.epsilon)
        return float((-np.expm1(-self.epsilon) + 2.0 * self.delta * b) / (1.0 + b))

    @property
    def bound(self) -> float:
        """Largest value of the noise; infinite at delta 0."""
        return float(self.upper_quantile(np.zeros(()))) if self.delta else float("inf")

    @property
    def variance(self) -> float:
        """2b / (1 - b)^2 + 1/12 at delta 0; the sum over cells elsewhere."""
        if self.delta == 0.0:
            return float(2.0 * np.exp(-self.epsilon) / np.expm1(-self.epsilon) ** 2 + 1.0 / 12.0)
        k = np.arange(min(np.ceil(self.bound + 0.5), self.reach(2.0 * TAIL_NATS) + 1.0))
        inner, outer = np.maximum(k - 0.5, 0.0), np.minimum(k + 0.5, self.bound)
        third = np.maximum(outer**3 - inner**3, 0.0) / 3.0
        return float(2.0 * self.height * (np.exp(-self.epsilon * k) @ third))

    def scaled(self, factor: float) -> Tulap:
        root = root_of(factor)
        return Tulap(self.epsilon * root, min(self.delta * root, 1.0))

    def reach(self, nats: float = TAIL_NATS) -> float:
        steps = np.ceil(nats / self.epsilon) if self.epsilon else np.inf
        return float(min(max(steps - 0.5, 0.5), self.bound))

    def log_survival(self, offset: Floats) -> Floats:
        outer = self._log_beyond(np.abs(as_array(offset)))
        with np.errstate(divide="ignore"):
            inner = np.log1p(-np.exp(outer))
        return np.where(as_array(offset) >= 0.0, outer, inner)

    def log_density(self, offset: Floats) -> Floats:
        x = np.abs(as_array(offset))
        inside = np.isfinite(self._log_beyond(x))
        return np.where(inside, np.log(self.height) - self.epsilon * np.rint(np.where(inside, x, 0.0)), -np.inf)

    def _log_beyond(self, x: Floats) -> Floats:
        """log P(noise > x) for x >= 0."""
        k = np.rint(x)
        with np.errstate(divide="ignore", over="ignore"):
            left = 0.5 - self.height * (x - k) - (self.delta * self._spent(k) if self.delta else 0.0)
            return np.asarray(np.log(np.maximum(left, 0.0)) - self.epsilon * k)

    def _spent(self, k: Floats) -> Floats:
        """1 + e^epsilon + ... + e^((k - 1) epsilon)."""
        if not self.epsilon:
            return k
        below = np.expm1(-k * self.epsilon) / np.expm1(-self.epsilon)
        return np.asarray(np.exp(np.minimum((k - 1.0) * self.epsilon, 709.0)) * below)

    def upper_quantile(self, mass: Floats) -> Floats:
        """Cells k until b^k (c - delta (e^(k epsilon) - 1) / (e^epsilon - 1)) falls to the mass, then along a line."""
        v, c = as_array(mass), 0.5 * (1.0 - self.height)
        gap = np.maximum(c - v, 0.0)
        if self.epsilon:
            with np.errstate(divide="ignore"):
                spread = np.log(self.delta) - self.epsilon - np.log(-np.expm1(-self.epsilon))
                grown = np.log(gap) - np.logaddexp(np.log(v), spread)
            k = np.ceil(np.logaddexp(0.0, grown) / self.epsilon)
        else:
            k = np.ceil(gap / self.delta)
        with np.errstate(divide="ignore"):
            left = np.exp(np.log(v) + self.epsilon * k) + (self.delta * self._spent(k) if self.delta else 0.0)
        return np.asarray(k + (0.5 - left) / self.height)
