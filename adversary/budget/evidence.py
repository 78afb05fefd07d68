"""The evidence of two noisy counts about a target, and its distribution over releases: exact, for any noise.

The release of Theorem 4 consists of noisy counts of the people "in S" and "not in S" (`statistic="any"`), or of the
first only ("count"). The adversary knows everybody but the target. Let U and V be the independent privacy losses of one
more person in the first and in the second count. The ratio of posterior to prior is

    r = 1 / (p q + e^-S),        S = U - log(p (1 - q) e^V + 1 - p)        [one count: S = U - log(1 - p q)].

U has its distribution with the person (P) if the target is in S, and without (Q) otherwise; V has P if the target is in
the data but not in S, and Q otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from adversary._core import Floats, as_array, bisect_safely
from adversary.budget.risk_bounds import check_statistic, weight_or_zero
from adversary.privacy.losses import LaplaceLoss, LatticeLoss, PrivacyLoss
from adversary.privacy.mechanisms import Mechanism

Survival = Callable[[Floats], Floats]

TRUTHS = ("in S", "not in S", "out")

# Relative rounding error within which two values of the evidence are a tie, so that an atom never exceeds itself.
TIE = 2e-15

_P, _Q = 0, 1
_LAWS = {"in S": (_P, _Q), "not in S": (_Q, _P), "out": (_Q, _Q)}
_FARTHEST = 1500.0
_ENTRIES = 1_000_000
_NODES = 5000


@dataclass(frozen=True, eq=False)
class Evidence:
    """Distribution of S, the log-likelihood ratio of "in S" against the prior-weighted alternatives.

    Parameters
    ----------
    loss : privacy loss of one count between one more person and none
    statistic : "any" for two counts, or "count" for one
    """

    loss: PrivacyLoss
    statistic: str = "any"

    @classmethod
    def of(cls, mechanism: Mechanism, statistic: str = "any") -> Evidence:
        """The evidence of counts with this noise.

        Raises
        ------
        TypeError : not a mechanism, or a clamped or rounded one, whose loss depends on the count
        """
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must be a noise law, such as Geometric(1.0), got {mechanism!r}")
        if mechanism.steps:
            raise TypeError("a clamped or rounded count leaks by its value: ask the noise inside, which leaks most")
        loss = mechanism.privacy_loss(1, 1)
        return cls(loss.law, check_statistic(statistic))

    def extreme(self, p: Floats, q: Floats, upper: bool) -> Floats:
        """e^-S at the largest or the smallest S of any release."""
        up, down = self.loss.maximum, -self.loss.swapped.maximum
        u, v = (up, down) if upper else (down, up)
        with np.errstate(over="ignore"):
            if self.statistic == "count":
                return weight_or_zero(_one_minus_product(p, q), np.exp(-u))
            return weight_or_zero(p * (1.0 - q), np.exp(v - u)) + weight_or_zero(1.0 - p, np.exp(-u))

    def beyond(self, s: Floats, p: Floats, q: Floats, truth: str = "in S") -> Floats:
        """P(S > s) under a truth; finite arrays that broadcast."""
        s, p, q = np.broadcast_arrays(s, p, q)
        chances = [self._survival(p[part], q[part], truth)(s[part]) for s, p, q, part in self._pieces(s, p, q)]
        return np.concatenate([np.zeros(0), *chances]).reshape(s.shape)

    def quantile(self, failure: Floats, p: Floats, q: Floats) -> Floats:
        """Smallest s with P(S > s) <= failure under every truth, rounded up.

        It is that of "in S", under which S is stochastically largest: U is larger under P than under Q, and V, which
        lowers S, is smaller under Q.
        """
        failure, p, q = np.broadcast_arrays(failure, p, q)
        with np.errstate(divide="ignore"):
            most, least = (-np.log(self.extreme(p, q, upper)) for upper in (True, False))
        if ((failure == 0.0) | (failure == 1.0)).all():
            return np.where(failure == 0.0, most, least)
        quantiles = [
            _smallest_threshold(self._survival(p[part], q[part], "in S"), failure[part], least[part], most[part])
            for failure, p, q, least, most, part in self._pieces(failure, p, q, least, most)
        ]
        return np.concatenate(quantiles).reshape(failure.shape)

    def _pieces(self, *arrays: Floats) -> list[Any]:
        """Flat arrays, with slices such that adversaries times nodes fit in memory."""
        flat = [np.ravel(x) for x in arrays]
        rows = max(1, _ENTRIES // (self.loss.losses.size + 1 if isinstance(self.loss, LatticeLoss) else _NODES))
        return [(*flat, slice(i, i + rows)) for i in range(0, flat[0].size, rows)]

    def _survival(self, p: Floats, q: Floats, truth: str) -> Survival:
        """P(S > s) for some adversaries, (n,), as a function of s, (n,)."""
        (u, v), loss = _LAWS[truth], self.loss
        with np.errstate(divide="ignore"):
            log_rest, log_other, log_out = (
                np.log(x)[:, None] for x in (_one_minus_product(p, q), p * (1.0 - q), 1.0 - p)
            )
        if self.statistic == "count":
            return lambda s: as_array(loss.tail(_threshold_of(s[:, None], log_rest))[u])[:, 0]
        return _of_two(loss, u, v, log_other, log_out)


def _one_minus_product(p: Floats, q: Floats) -> Floats:
    """1 - p q, without cancellation."""
    return p * (1.0 - q) + (1.0 - p)


def _threshold_of(s: Floats, other: Floats) -> Floats:
    """The value that U must exceed for S > s, with `other` the log likelihood of the alternatives; ties are equal."""
    with np.errstate(invalid="ignore"):
        slack = TIE * (1.0 + np.abs(s) + np.abs(other))
        return s + other + np.where(np.isfinite(slack), slack, 0.0)


def _rest_given(v: Floats, log_other: Floats, log_out: Floats) -> Floats:
    """log(p (1 - q) e^V + 1 - p), with 0 * inf = 0."""
    finite = np.isfinite(log_other)
    return np.logaddexp(np.where(finite, np.where(finite, log_other, 0.0) + v, -np.inf), log_out)


def _exceeding(loss: PrivacyLoss, side: int, s: Floats, log_other: Floats, log_out: Floats) -> Survival:
    """P(S > s) given V, as a function of V."""
    return lambda v: as_array(loss.tail(_threshold_of(s, _rest_given(v, log_other, log_out)))[side])


@singledispatch
def _of_two(loss: PrivacyLoss, u: int, v: int, log_other: Floats, log_out: Floats) -> Survival:
    """P(S > s) for two counts, averaged over V: by `expect`, or by panels for Laplace noise, with atoms and kinks."""
    return lambda s: as_array(loss.expect(_exceeding(loss, u, s[:, None], log_other, log_out))[v])


@_of_two.register
def _(loss: LaplaceLoss, u: int, v: int, log_other: Floats, log_out: Floats) -> Survival:
    return lambda s: _over_laplace(loss, u, v, s[:, None], log_other, log_out)


def _smallest_threshold(survival: Survival, allowed: Floats, least: Floats, most: Floats) -> Floats:
    """Smallest s at which a survival function is at most `allowed`, by bisection between the ends of the support."""
    low, high = np.clip(least - 1.0, -_FARTHEST, _FARTHEST), np.minimum(most, _FARTHEST)
    never = (high < most) & (survival(high) > allowed)
    high = bisect_safely(lambda s: survival(s) <= allowed, low, high, 1.0)
    threshold = np.where(never | (allowed == 0.0), most, np.minimum(high + 8.0 * TIE * (1.0 + np.abs(high)), most))
    return np.where(allowed == 1.0, least, threshold)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    """Nodes and weights of 20 Gauss-Legendre points on [0, 1].

    The error is 1e-16 on panels of 6 nats, since the integrand's poles are pi away from the real line."""
    x, w = leggauss(20)
    return 0.5 * (x + 1.0), 0.5 * w


def _over_laplace(loss: LaplaceLoss, u: int, v: int, s: Floats, log_other: Floats, log_out: Floats) -> Floats:
    """P(S > s) for Laplace noise: two atoms of V, the part where U exceeds with certainty, and panels in between.

    s, log_other and log_out are columns, (n, 1); the result is (n,).
    """
    e, s = loss.epsilon0, _threshold_of(s, np.zeros(1))
    tail = _exceeding(loss, u, s, log_other, log_out)

    def crossing(level: float) -> Floats:
        """V at which U must exceed `level`, within [-e, e]."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.exp(log_out + s - level)
            log_odds = level - s + np.log1p(-share) - log_other
        return np.clip(np.where(share < 1.0, log_odds, -np.inf), -e, e)

    low, high = crossing(-e), crossing(e)
    # Masses of V at -e and e; between them its density is start / 2 e^(sign (V + e)).
    ends = 0.5 * np.exp(np.array([0.0, -e]))[:: 1 if v == _Q else -1]
    sign, start = (-0.5, 0.5) if v == _Q else (0.5, 0.5 * np.exp(-e))
    certain = start * np.abs(np.expm1(sign * (low + e)))
    panels = int(np.ceil(2.0 * e / 6.0))
    x, w = _legendre()
    nodes = low + (high - low) * (np.arange(panels)[:, None] + x).ravel() / panels
    density = 0.5 * start * np.exp(sign * (nodes + e))
    inner = (tail(nodes) * density) @ np.tile(w / panels, panels) * (high - low)[:, 0]
    return as_array(tail(np.array([-e, e])) @ ends + certain[:, 0] + inner)
