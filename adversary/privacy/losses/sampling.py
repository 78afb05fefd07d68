"""Privacy amplification by sampling: the loss of a mechanism applied to a random sample of the records.

An adversary who does not know whether the target was sampled compares populations with and without the target, which is
sampled with probability q. The pair is q P + (1 - q) Q against Q, and the loss L becomes log(1 - q + q e^L).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    check_number,
    check_positive,
    check_probability,
    exponential_excess,
    labelled,
    log_sum_exp,
    scalar_or_array,
)
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.dominating import LargestLoss
from adversary.privacy.losses.lattice import MARGIN, SUM_TOLERANCE, LatticeLoss, merged_within
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import delta_at_negative

SCHEMES = ("poisson", "without replacement")
# Above 30 nats, log(1 + (e^x - 1) / q) = x - log(q) with an error below 1e-13.
_LARGE = 30.0

# Largest order of a moment computed by the binomial theorem.
MOST_TERMS = 4096.0


def sampled_loss(loss: PrivacyLoss, rate: float, scheme: str = "poisson") -> PrivacyLoss:
    """Loss of a mechanism run on a random sample, for an adversary who does not know the sample.

    Parameters
    ----------
    loss : loss of the mechanism on the sample: for "poisson", of neighbours with and without one record; for "without
        replacement", of neighbours that differ in one record
    rate : probability q in (0, 1] that a record is sampled
    scheme : "poisson", every record independently: q P + (1 - q) Q against Q; or "without replacement", a sample of
        fixed size: the profile q delta(log(1 + (e^epsilon - 1) / q)) in both directions

    Returns
    -------
    PrivacyLoss. For Poisson sampling it is exact: a LatticeLoss if the loss is listed, otherwise a SampledLoss. Without
    replacement it is a FixedSampleLoss, whose profile is exact and whose sums are bracketed. `posterior(prior)` is the
    distribution of this adversary's posterior.

    Raises
    ------
    ValueError : a rate outside (0, 1], or another scheme

    References: Balle, Barthe and Gaboardi 2018, Theorems 8 and 9; Zhu, Dong and Wang 2022, Proposition 30.

    >>> import numpy as np
    >>> from adversary.privacy.losses import GaussianLoss, LatticeLoss
    >>> loss = LatticeLoss.from_probs([0.75, 0.25], [0.25, 0.75])
    >>> round(sampled_loss(loss, 0.1).maximum, 6), round(float(np.log1p(0.1 * 2.0)), 6)
    (0.182322, 0.182322)
    >>> thousand = 1000 * sampled_loss(GaussianLoss(1 / 0.8136), 0.01)
    >>> [round(end, 2) for end in thousand.bracket.epsilon(1e-5)]
    [3.0, 3.0]
    """
    q = float(check_positive("rate", check_probability("rate", rate)))
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    sides = tuple(_poisson(one, q) for one in (loss.directions if scheme == SCHEMES[1] else (loss,)))
    return FixedSampleLoss(sides) if scheme == SCHEMES[1] else sides[0]


def _poisson(loss: PrivacyLoss, q: float) -> PrivacyLoss:
    law = loss.law
    if isinstance(law, LatticeLoss):
        return _subsampled_lattice(law, q)
    return loss if q == 1.0 else SampledLoss(loss, q)


def before_sampling(loss: ArrayLike, rate: float) -> Floats:
    """Inverse of `amplified_loss`: log(1 + (e^loss - 1) / q); -inf up to log(1 - q).

    Parameters
    ----------
    loss : log likelihood ratio without knowledge of the sample, nats, any shape
    rate : probability q in (0, 1] that the target is sampled

    Returns
    -------
    Nats, of the shape of `loss`.

    >>> round(float(before_sampling(amplified_loss(1.0, 0.1), 0.1)), 9)
    1.0
    """
    e, q = as_array(loss), float(rate)
    with np.errstate(divide="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(e, _LARGE)) / q, -1.0))
    return np.where(e <= _LARGE, near, e - np.log(q))


@dataclass(frozen=True)
class SampledLoss(PrivacyLoss):
    """Loss of a Poisson sample: q P + (1 - q) Q against Q, or the reverse, from the loss l of P against Q.

    L = log(1 - q + q e^l) is increasing in l, so that tails and profile follow from those of l.

    Parameters
    ----------
    loss : loss of the mechanism on the sample
    rate : probability q in (0, 1) that a record is sampled
    removed : False for q P + (1 - q) Q against Q, True for Q against it
    """

    loss: PrivacyLoss
    rate: float
    removed: bool = False

    @property
    def _least(self) -> float:
        """log(1 - q), the infimum of the losses."""
        return float(np.log1p(-self.rate))

    def _sides(self, e: Floats) -> tuple[Floats, Floats]:
        """Thresholds on the loss before sampling, in its own direction, and factors of its profile there."""
        before = before_sampling(-e if self.removed else e, self.rate)
        if not self.removed:
            return before, np.full(e.shape, self.rate)
        # q e^(e + u) = 1 - (1 - q) e^e.
        with np.errstate(over="ignore"):
            return -before, np.maximum(-np.expm1(np.minimum(e + self._least, 0.0)), 0.0)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        t, q = above_ties(check_number("threshold", threshold)), self.rate
        before, _ = self._sides(t)
        side = self.loss.swapped if self.removed else self.loss
        with np.errstate(invalid="ignore"):
            p, other = (as_array(tail) for tail in side.tail(before))
        if self.removed:
            beyond = t >= -self._least
            p, other = np.where(beyond, 0.0, p), np.where(beyond, 0.0, q * other + (1.0 - q) * p)
        else:
            under = t < self._least
            p, other = np.where(under, 1.0, q * p + (1.0 - q) * other), np.where(under, 1.0, other)
        return scalar_or_array(p), scalar_or_array(other)

    def _profile(self, epsilon: ArrayLike, delta: Callable[[PrivacyLoss, Floats], Floats]) -> Floats:
        e = check_number("epsilon", epsilon)
        before, weight = self._sides(e)
        amplified = weight * delta(self.loss.swapped if self.removed else self.loss, before)
        if self.removed:
            return amplified
        return np.where(e <= self._least, -np.expm1(np.minimum(e, 0.0)), amplified)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """q delta(u) of the loss before sampling, with e^epsilon = 1 - q + q e^u.

        If `removed`, (1 - (1 - q) e^epsilon) times the profile of Q against P at -u, with e^-epsilon = 1 - q + q e^u.
        """
        return scalar_or_array(self._profile(epsilon, lambda side, u: as_array(side.delta(u))))

    @property
    def bracket(self) -> Bracket:
        """Certified profile from that of the loss before sampling; power and tails without a margin."""
        return Bracket(
            self,
            of_delta=lambda epsilon: (
                scalar_or_array(self._profile(epsilon, lambda side, u: as_array(side.bracket.delta(u)[0]))),
                scalar_or_array(self._profile(epsilon, lambda side, u: as_array(side.bracket.delta(u)[1]))),
            ),
            of_power=lambda level: (self.power(level),) * 2,
            of_tail=lambda threshold: (self.tail(threshold)[0],) * 2,
        )

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        sign, q = -1.0 if self.removed else 1.0, self.rate
        p, out = (as_array(value) for value in self.loss.expect(lambda z: function(sign * amplified_loss(z, q))))
        mixed = q * p + (1.0 - q) * out
        under = (out, mixed) if self.removed else (mixed, out)
        return scalar_or_array(under[0]), scalar_or_array(under[1])

    @property
    def kl_divergence(self) -> float:
        """E_Q of x log x - x + 1, or if `removed` of x - 1 - log x, with x = 1 - q + q e^l; all terms are positive."""
        if not self.removed and self.loss.maximum == np.inf and self.loss.tail(1e300)[0] > 0.0:
            return float("inf")

        def excess(z: Floats) -> Floats:
            loss = amplified_loss(z, self.rate)
            if self.removed:
                return exponential_excess(loss)
            with np.errstate(over="ignore", invalid="ignore"):
                return np.where(loss < 600.0, np.exp(loss) * exponential_excess(-loss), 0.0)

        return float(self.loss.expect(excess)[1])

    def log_moment(self, order: float) -> float:
        """log E_Q[x^a] with x = 1 - q + q e^l and a = 1 + order, or a = -order if `removed`.

        For integer a >= 2 by the binomial theorem; otherwise by `expect`. If numerical integration would miss the mass
        where x^a is large, an upper bound by interpolation between integers, as the logarithm is convex in a.
        """
        a = -order if self.removed else 1.0 + order
        if a in (0.0, 1.0):
            return 0.0
        if a > 1.0 and self.loss.tail(1e300)[0] > 0.0:
            return float("inf")
        if a == np.floor(a) and 2.0 <= a <= MOST_TERMS:
            return self._binomial_moment(int(a))
        if 1.0 < a < MOST_TERMS and not self._is_seen(a):
            low = float(np.floor(a))
            ends = [self.log_moment(self._order(one)) for one in (low, low + 1.0)]
            return ends[0] + (a - low) * (ends[1] - ends[0])

        def excess(z: Floats) -> Floats:
            loss = amplified_loss(z, self.rate)
            with np.errstate(over="ignore"):
                return exponential_excess(a * loss) - a * exponential_excess(loss)

        log_moment = float(np.log1p(self.loss.expect(excess)[1]))
        # No moment exceeds order times the largest loss; this also covers orders at which the sum overflows.
        return min(log_moment, order * self.maximum) if order > 0.0 else log_moment

    def _order(self, a: float) -> float:
        return -a if self.removed else a - 1.0

    def _is_seen(self, a: float) -> bool:
        """True if `expect` of e^(a l) agrees with the exact moment to 1e-9, so that no mass is missed."""
        moment = self.loss.log_moment(a - 1.0)
        with np.errstate(over="ignore"):
            return bool(abs(float(self.loss.expect(lambda z: np.exp(a * z - moment))[1]) - 1.0) < 1e-9)

    def _binomial_moment(self, a: int) -> float:
        """log(1 + sum over k >= 2 of C(a, k) q^k (1 - q)^(a - k) (E_Q[e^(k l)] - 1))."""
        k = np.arange(2, a + 1)
        moments = np.array([self.loss.log_moment(float(one) - 1.0) for one in k])
        log_weight = gammaln(a + 1.0) - gammaln(k + 1.0) - gammaln(a - k + 1.0) + k * np.log(self.rate)
        log_weight += (a - k) * self._least
        with np.errstate(divide="ignore", over="ignore"):
            terms = log_weight + np.where(moments < 700.0, np.log(np.expm1(np.minimum(moments, 700.0))), moments)
        return float(np.logaddexp(0.0, log_sum_exp(terms)))

    @property
    def swapped(self) -> SampledLoss:
        return SampledLoss(self.loss, self.rate, not self.removed)

    @property
    def maximum(self) -> float:
        if self.removed:
            return -float(amplified_loss(-self.loss.swapped.maximum, self.rate))
        return float(amplified_loss(self.loss.maximum, self.rate))

    @property
    def route(self) -> Route:
        return self.loss.route

    @cached_property
    def coarse(self) -> SampledLoss:
        coarse = self.loss.coarse
        return self if coarse is self.loss else SampledLoss(coarse, self.rate, self.removed)


def _subsampled_lattice(law: LatticeLoss, q: float) -> LatticeLoss:
    """Listed loss of q P + (1 - q) Q against Q, atom by atom."""
    with np.errstate(divide="ignore"):
        stay, infinite = np.log1p(-q), np.log(law.infinite_q)
    losses, log_q = amplified_loss(law.losses, q), law.log_q
    log_p = np.logaddexp(np.log(q) + law.log_p, stay + log_q)
    # Releases that are impossible under P have the loss log(1 - q) under the mixture.
    if law.infinite_q and q < 1.0:
        losses = np.append(stay, losses)
        log_p, log_q = np.append(stay + infinite, log_p), np.append(infinite, log_q)
    atoms, spread = merged_within(losses, log_p, log_q)
    infinite_p, infinite_q = q * law.infinite_p, law.infinite_q if q == 1.0 else 0.0
    lost = 1.0 - float(np.exp(atoms[1]).sum()) - infinite_p
    # Masses under Q of a rounded loss add up to less than one; the rest is counted as infinite loss.
    if lost > SUM_TOLERANCE:
        infinite_p += lost
    return LatticeLoss(*atoms, infinite_p, infinite_q, law.bounded, law.rounded, law.blur + spread)


def amplified_loss(loss: ArrayLike, rate: float) -> Floats:
    """Log likelihood ratio without knowledge of the sample: log(1 - q + q e^loss).

    Parameters
    ----------
    loss : log likelihood ratio of a release with the target in the sample to one without, nats, any shape
    rate : probability q in (0, 1] that the target is sampled, independent of all data

    Returns
    -------
    Nats, of the shape of `loss`; `loss` itself at rate 1.

    >>> round(float(amplified_loss(1.0, 0.1)), 6)
    0.158565
    """
    loss, q = as_array(loss), float(rate)
    if q == 1.0:
        return loss
    with np.errstate(over="ignore", divide="ignore"):
        change = q * np.expm1(np.minimum(loss, _LARGE))
        small = np.abs(change) < 0.5
        far = np.logaddexp(np.log1p(-q), np.log(q) + loss)
        return np.asarray(np.where(small, np.log1p(np.where(small, change, 0.0)), far))


@dataclass(frozen=True)
class FixedSampleLoss(LargestLoss):
    """Loss of a sample of fixed size without replacement: it dominates the Poisson losses of both directions.

    At epsilon >= 0 its profile is q delta(log(1 + (e^epsilon - 1) / q)) for the worse direction of the mechanism, that
    of q P + (1 - q) Q against Q; and the same for Q against it.

    Parameters
    ----------
    sides : Poisson losses of P against Q and of Q against P; one if they are equal
    """

    sides: tuple[PrivacyLoss, ...]

    @property
    def pairs(self) -> int:
        return len(self.sides)

    def each_delta(self, epsilon: Floats) -> Floats:
        return np.stack([as_array(side.delta(epsilon)) for side in self.sides])

    def each_behind(self, epsilon: Floats) -> Floats:
        return self.each_delta(epsilon)

    def each_tail(self, threshold: Floats) -> tuple[Floats, Floats]:
        """Tails of q P + (1 - q) Q against Q at thresholds >= 0, of Q against it below 0."""
        ahead, behind = (np.array([one.tail(threshold) for one in some]) for some in (self.sides, self._turned))
        p, q = np.moveaxis(np.where(threshold >= 0.0, ahead, behind), 1, 0)
        return p, q

    @property
    def _turned(self) -> tuple[PrivacyLoss, ...]:
        return tuple(side.swapped for side in self.sides)

    @property
    def bracket(self) -> Bracket:
        """Certified profile from those of the samples, with a margin for rounding; power and tails without a margin."""

        def delta(epsilon: ArrayLike) -> tuple[Any, Any]:
            e = check_number("epsilon", epsilon)
            ends = np.array([side.bracket.delta(np.abs(e)) for side in self.sides]).max(axis=0)
            low, high = (delta_at_negative(e, end) for end in (ends[0] * (1.0 - MARGIN), ends[1] * (1.0 + MARGIN)))
            return scalar_or_array(low), scalar_or_array(np.minimum(high, 1.0))

        return replace(super().bracket, of_delta=delta)

    def log_moment(self, order: float) -> float:
        """Upper bound: log of 1 plus the sum over pairs of moments minus 1, or the moment of `above` if smaller."""
        if -1.0 <= order <= 0.0:
            return super().log_moment(order)
        moments = np.array([side.log_moment(order) for side in (*self.sides, *self._turned)])
        with np.errstate(over="ignore", divide="ignore"):
            excess = np.where(moments < 700.0, np.log(np.maximum(np.expm1(np.minimum(moments, 700.0)), 0.0)), moments)
        return min(float(np.logaddexp(0.0, log_sum_exp(excess))), super().log_moment(order))

    @property
    def kl_divergence(self) -> float:
        """Upper bound: the sum over all pairs, or the divergence of `above` if smaller."""
        return min(sum(side.kl_divergence for side in (*self.sides, *self._turned)), self.above.kl_divergence)

    @property
    def swapped(self) -> FixedSampleLoss:
        return self

    @property
    def maximum(self) -> float:
        return max(side.maximum for side in self.sides)
