"""Quantities derived from a privacy loss: distribution of the posterior, likelihood ratio test, certified intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    bisect_safely,
    check_probability,
    labelled,
    logit,
    over_labels,
    posterior_after,
    scalar_or_array,
    solve_decreasing,
    solve_decreasing_each,
)

Interval = tuple[Any, Any]

TRUTHS = ("in", "out")


@dataclass(frozen=True, eq=False)
class PosteriorLaw:
    """Distribution over releases of the posterior probability that the target is in, for one or many priors.

    Parameters
    ----------
    loss : PrivacyLoss, the distribution of the log likelihood ratio
    prior : probability or array of probabilities; results broadcast its shape with that of the argument
    """

    loss: Any
    prior: Any

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)

    def mean(self, truth: str) -> Any:
        """Expected posterior if the target is in (releases drawn from P) or out (from Q); `truth` is "in" or "out"."""
        side = side_of(truth)

        def mean(prior: Floats) -> Floats:
            start = logit(prior)[..., None]
            return as_array(self.loss.expect(lambda z: posterior_after(start, z))[side])

        return over_labels(mean, self.prior)

    def cdf(self, x: ArrayLike, truth: str) -> Any:
        """P(posterior <= x) if `truth` is "in" or "out"."""
        side = side_of(truth)

        def cdf(x: Floats, prior: Floats) -> Floats:
            end, start = logit(check_probability("x", x)), logit(prior)
            # Rounding errors of x and of the logits: a posterior equal to x must count as at most x.
            with np.errstate(invalid="ignore", divide="ignore"):
                last = 4e-16 * (np.abs(end) + np.abs(start) + 1.0) + 2.3e-16 / (1.0 - x)
            beyond = self.loss.tail(_difference(end + np.where(np.isfinite(end), last, 0.0), start))[side]
            return np.where(x >= 1.0, 1.0, 1.0 - as_array(beyond))

        return over_labels(cdf, x, self.prior)

    def quantile(self, q: ArrayLike, truth: str) -> Any:
        """Smallest x with P(posterior <= x) >= q if `truth` is "in" or "out"."""
        side = side_of(truth)

        def quantile(q: Floats, prior: Floats) -> Floats:
            least = _smallest_threshold(lambda t: as_array(self.loss.tail(t)[side]), 1.0 - check_probability("q", q))
            return posterior_after(logit(prior), least)

        return over_labels(quantile, q, self.prior)


def side_of(truth: str) -> int:
    """Index of a hypothesis: 0 for "in" (releases drawn from P), 1 for "out" (from Q).

    Parameters
    ----------
    truth : "in" or "out"

    Returns
    -------
    0 or 1.

    Raises
    ------
    ValueError : another word

    >>> side_of("in"), side_of("out")
    (0, 1)
    """
    if truth not in TRUTHS:
        raise ValueError(f'truth must be "in" or "out", got {truth!r}')
    return TRUTHS.index(truth)


def _difference(x: Floats, start: Floats) -> Floats:
    """Loss at which the posterior equals x, from logits of x and prior; +-inf at a certain prior, which never moves."""
    x, start = np.broadcast_arrays(x, start)
    certain = np.isinf(start)
    return np.where(certain, np.where(x >= start, np.inf, -np.inf), x - np.where(certain, 0.0, start))


def _smallest_threshold(tail: Callable[[Floats], Floats], allowed: Floats) -> Floats:
    """Smallest threshold with tail probability at most `allowed`, by bisection; +-inf beyond +-1500 nats."""
    low, high = np.full(np.shape(allowed), -1500.0), np.full(np.shape(allowed), 1500.0)
    beyond, before = tail(high) > allowed, tail(low) <= allowed
    high = bisect_safely(lambda t: tail(t) <= allowed, low, high, 1e-3)
    return np.where(beyond, np.inf, np.where(before, -np.inf, high))


# Nats: losses below minus this have a probability that underflows.
FARTHEST = 800.0
MOST = 2**40
"""Largest sample size that is searched."""


@dataclass(frozen=True)
class LikelihoodRatioTest:
    """Likelihood ratio test: "in" if the loss L exceeds a threshold, and with a fixed probability if it equals it.

    No test of the same level has more power (Neyman and Pearson 1933).

    Parameters
    ----------
    threshold : of the loss, nats
    tie : probability of deciding "in" if L equals the threshold
    level : probability of deciding "in" if the target is out
    power : probability of deciding "in" if the target is in
    """

    threshold: float
    tie: float
    level: float
    power: float

    def probability(self, loss: ArrayLike) -> Any:
        """Probability of deciding "in" for releases with these losses.

        Parameters
        ----------
        loss : log likelihood ratios of releases, nats

        Returns
        -------
        Probabilities, of the same shape.

        >>> LikelihoodRatioTest(threshold=1.0, tie=0.25, level=0.1, power=0.3).probability([0.5, 1.0, 2.0]).tolist()
        [0.0, 0.25, 1.0]
        """
        value, threshold = as_array(loss), as_array(self.threshold)
        above = value > above_ties(threshold)
        tied = ~above & (above_ties(value) >= threshold)
        return scalar_or_array(np.where(above, 1.0, np.where(tied, self.tie, 0.0)))


def likelihood_ratio_test(loss: Any, level: float) -> LikelihoodRatioTest:
    """Likelihood ratio test of a privacy loss with exactly this level."""
    a = float(check_probability("level", level))
    power = float(loss.power(a))
    lowest = max(-float(loss.swapped.maximum), -FARTHEST)
    if a == 0.0:
        return LikelihoodRatioTest(float(loss.maximum), float(np.isinf(loss.maximum)), a, power)
    if a == 1.0:
        return LikelihoodRatioTest(-float(loss.swapped.maximum), 1.0, a, power)
    start = lowest - 1e-9 * (1.0 + abs(lowest))
    # All finite losses decide "in": the rest of the level lies where P has no mass.
    if (finite := float(loss.tail(start)[1])) <= a:
        return LikelihoodRatioTest(-np.inf, (a - finite) / (1.0 - finite) if finite < 1.0 else 0.0, a, power)
    threshold = solve_decreasing(lambda t: float(loss.tail(t)[1]) - a, start, max(1.0, start + 1.0))
    above = float(loss.tail(threshold)[1])
    tied = float(loss.tail_from(threshold)[1]) - above
    tie = float(np.clip((a - above) / tied, 0.0, 1.0)) if tied > 1e-12 * a else 0.0
    return LikelihoodRatioTest(threshold, tie, a, power)


def sample_size(loss: Any, power: float, level: float) -> float:
    """Smallest number of independent releases for which a test of this level has this power; inf if none has."""
    wanted, a = (float(check_probability(name, x)) for name, x in (("power", power), ("level", level)))
    if float(loss.power(a)) >= wanted:
        return 1
    if loss.is_nothing or wanted == 1.0 or (a == 0.0 and not np.isinf(loss.maximum)):
        return np.inf
    low, high = 1, 2
    while float((high * loss).power(a)) < wanted:
        low, high = high, 2 * high
        if high > MOST:
            return np.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if float((middle * loss).power(a)) >= wanted else (middle, high)
    return high


@dataclass(frozen=True)
class Bracket:
    """Certified (lower, upper) bounds on a loss's profile, trade-off and tail.

    Parameters
    ----------
    loss : PrivacyLoss
    of_delta, of_power, of_tail : epsilon, level or threshold to (lower, upper)
    """

    loss: Any
    of_delta: Callable[[ArrayLike], Interval]
    of_power: Callable[[ArrayLike], Interval]
    of_tail: Callable[[ArrayLike], Interval]

    @labelled
    def delta(self, epsilon: ArrayLike) -> Interval:
        """(lower, upper) bound on the profile."""
        return self.of_delta(epsilon)

    @labelled
    def power(self, level: ArrayLike) -> Interval:
        """(lower, upper) bound on the trade-off."""
        return self.of_power(level)

    @labelled
    def tail(self, threshold: ArrayLike) -> Interval:
        """(lower, upper) bound on P(L > threshold)."""
        return self.of_tail(threshold)

    @labelled
    def epsilon(self, delta: ArrayLike) -> Interval:
        """(lower, upper) bound on the smallest epsilon >= 0 for this delta, in the worse direction.

        >>> from adversary.privacy.losses import GaussianLoss, LaplaceLoss
        >>> low, high = (2 * LaplaceLoss(0.5) + GaussianLoss(0.5)).bracket.epsilon(1e-5)
        >>> 0.0 < (high - low) / high < 1e-3
        True
        """
        target = check_probability("delta", delta)
        sides, wanted = [side.bracket for side in self.loss.directions], target[target > 0.0]

        def solved(end: int) -> Floats:
            ends = np.full(target.shape, self.loss.epsilon(0.0) if (target == 0.0).any() else 0.0)
            if wanted.size:
                ends[target > 0.0] = solve_decreasing_each(
                    lambda e: np.max([np.asarray(side.delta(e)[end]) for side in sides], axis=0) - wanted, wanted.size
                )
            return ends

        low, high = solved(0), solved(1)
        high = np.where(np.isfinite(high), high, np.asarray(self.loss.epsilon(target)))
        return scalar_or_array(np.minimum(low, high)), scalar_or_array(high)
