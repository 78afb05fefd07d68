"""The law of the log Bayes factor over releases under one truth, and the averages that follow from it.

It is a sum of independent parts, so an average over one part is taken analytically at every value of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from adversary._numeric import (
    Floats,
    as_array,
    check_probability,
    log_sum_exp,
    logit,
    scalar_or_array,
    solve_decreasing,
)
from adversary.privacy.losses import PrivacyLoss
from adversary.privacy.posteriors import PosteriorOf, side_of

TIE = 1e-9
"""Log-odds within this (times the smallest step between releases, if smaller) of zero are a tie, decided "out"."""

COINCIDENT = 1e-12
"""Sums of losses this close (times their size, if above 1) are one value reached in several ways."""

_ATOMS = 2_000_000
_EXPIT_WIDTH = 45.0
_SMALL = 2_000


def _dot(weights: Floats, values: Floats) -> float:
    """Sum of products, pairwise: accurate over millions of terms."""
    return float((weights * values).sum())


def _tails(weights: Floats) -> Floats:
    """Sums of the weights from each place on, and 0 past the end."""
    return np.append(np.cumsum(weights[::-1])[::-1], 0.0)


class Atoms:
    """An independent part of the log Bayes factor: sorted values and their weights under the truth."""

    def __init__(
        self, values: Floats, weights: Floats, log_exponential_mean: Callable[[], float] | None = None
    ) -> None:
        self._log_exponential_mean = log_exponential_mean
        order = np.argsort(values, kind="stable")
        self.values, self.weights = values[order], weights[order]
        self._below = np.append(0.0, np.cumsum(self.weights))
        self._above = _tails(self.weights)

    @property
    def log_exponential_mean(self) -> float:
        """log E[exp(part)], infinite where a value is; from its closed form where that is known."""
        if self._log_exponential_mean is not None:
            return self._log_exponential_mean()
        used = self.weights > 0
        return float(log_sum_exp(np.log(self.weights[used]) + self.values[used]))

    def plus(self, other: Atoms) -> Atoms:
        """The sum of two independent parts, coincident values put together."""
        values, weights = outer_sum(self, other)
        return _merged(Atoms(values, weights, lambda: self.log_exponential_mean + other.log_exponential_mean))

    def without(self, lost: float) -> Atoms:
        """The part without its least probable values, which weigh at most `lost` in all."""
        keep = probable(self.weights, lost)
        return self if keep.all() else Atoms(self.values[keep], self.weights[keep], lambda: self.log_exponential_mean)

    @property
    def spacing(self) -> float:
        """Smallest step between values, rounding apart."""
        finite = self.values[np.isfinite(self.values)]
        gaps = np.diff(finite)
        gaps = gaps[gaps > 1e-14 * max(1.0, float(np.abs(finite).max(initial=0.0)))]
        return float(gaps.min()) if gaps.size else 1.0

    def sf(self, threshold: Floats) -> Floats:
        """P(part > threshold)."""
        return self._above[np.searchsorted(self.values, threshold, side="right")]

    def cdf(self, threshold: Floats) -> Floats:
        """P(part < threshold)."""
        return self._below[np.searchsorted(self.values, threshold, side="left")]

    def mean(self, function: Callable[[Floats], Floats], shift: Floats) -> Floats:
        """E[function(shift + part)] for every shift."""
        if shift.size < self.values.size:
            return np.array([_dot(self.weights, function(one + self.values)) for one in shift])
        total = np.zeros_like(shift)
        for value, weight in zip(self.values, self.weights, strict=True):
            total += weight * function(shift + value)
        return total


class LossPart:
    """The same for continuous noise, through its privacy loss, under P (target in) or Q."""

    def __init__(self, loss: PrivacyLoss, target: int) -> None:
        self.loss, self.side, self.spacing = loss, 0 if target else 1, 1e-5

    def sf(self, threshold: Floats) -> Floats:
        return as_array(self.loss.tail(threshold)[self.side])

    @property
    def log_exponential_mean(self) -> float:
        """log E[exp(part)]: 0 under Q, that of the second moment of the ratio under P."""
        return 0.0 if self.side else float(self.loss.log_moment(1.0))

    def cdf(self, threshold: Floats) -> Floats:
        return 1.0 - as_array(self.loss.tail(np.nextafter(threshold, -np.inf))[self.side])

    def mean(self, function: Callable[[Floats], Floats], shift: Floats) -> Floats:
        def at(one: float) -> float:
            return float(self.loss.expect(lambda z: function(one + z))[self.side])

        return np.array([at(float(one)) for one in shift])


NOTHING = Atoms(np.zeros(1), np.ones(1))


@dataclass(frozen=True)
class FactorLaw:
    """Law of the log Bayes factor of "in" over releases, under one truth: `first` plus the independent `rest`.

    `first` is summed analytically; `rest` has values and weights. `draws` is how many simulated releases the weights
    stand for, 0 if they are exact. `separable`: whether `first` is one release, so that the rest's share in decisions
    can be told. `unbounded`: whether log Bayes factors of any size can occur, though the parts list only those that
    carry all but 1e-18 of the mass.
    """

    log_odds: float
    target: int
    first: Any
    rest: Atoms
    draws: int
    spacing: float
    separable: bool
    unbounded: bool = False

    @property
    def prior(self) -> float:
        """Prior probability of "in"."""
        return float(expit(self.log_odds))

    @property
    def simulated(self) -> bool:
        """Whether averages are Monte Carlo estimates."""
        return self.draws > 0

    def _per_rest(self, function: Callable[[Floats], Floats]) -> Floats:
        """E[function(log Bayes factor) | rest], for every value of the rest."""
        if isinstance(self.first, Atoms) and self.first.values.size <= 100:
            return np.asarray(self.first.mean(function, self.rest.values), dtype=np.float64)
        low, high = np.clip([self.rest.values[0] - 1e-9, self.rest.values[-1] + 1e-9], *self._turning)
        low = min(low, high - 1e-6)
        degree = int(
            20 + 12 * (high - low)
        )  # expit's poles at distance pi set the rate, about exp(-2 pi degree / width)
        if degree >= self.rest.values.size:
            return np.asarray(self.first.mean(function, self.rest.values), dtype=np.float64)
        smooth = Chebyshev.interpolate(lambda t: self.first.mean(function, np.asarray(t)), degree, domain=[low, high])
        return np.asarray(smooth(np.clip(self.rest.values, low, high)), dtype=np.float64)

    @property
    def _turning(self) -> tuple[float, float]:
        """Values of the rest outside which the reader is certain, whatever `first` says."""
        finite = (
            self.first.values[np.isfinite(self.first.values)] if isinstance(self.first, Atoms) else np.full(1, 155.0)
        )
        width = _EXPIT_WIDTH + float(np.abs(finite).max(initial=0.0))
        return -self.log_odds - width, -self.log_odds + width

    def _average(self, per_rest: Floats) -> tuple[float, float]:
        mean = _dot(self.rest.weights, per_rest)
        spread = _dot(self.rest.weights, (per_rest - mean) ** 2)
        return mean, float(np.sqrt(spread / self.draws)) if self.simulated else 0.0

    def posterior_mean(self) -> tuple[float, float]:
        """(E[P(target in | release)], its Monte Carlo standard error)."""
        if np.isinf(self.log_odds):
            return self.prior, 0.0
        return self._average(self._per_rest(lambda z: expit(self.log_odds + z)))

    def ratio_mean(self) -> tuple[float, float]:
        """(E[posterior / prior], standard error); its limit E[exp(log Bayes factor)] at prior 0."""
        if self.prior > 0:
            mean, error = self.posterior_mean()
            return mean / self.prior, error / self.prior
        with np.errstate(over="ignore"):
            mean = float(np.exp(self.first.log_exponential_mean + self.rest.log_exponential_mean))
            each = np.exp(self.first.log_exponential_mean + self.rest.values) if self.simulated else np.zeros(1)
        return mean, self._average(each)[1] if self.simulated else 0.0

    def sf(self, threshold: ArrayLike) -> Floats:
        """P(log Bayes factor > threshold), for every threshold."""
        return np.array([self._average(self.first.sf(z - self.rest.values))[0] for z in np.ravel(as_array(threshold))])

    def decided_in(self) -> tuple[float, float]:
        """(P(posterior > 1/2), standard error), strictly: ties are decided "out"."""
        return self._average(self.first.sf(self._tie - self.log_odds - self.rest.values))

    def prob_correct(self) -> tuple[float, float]:
        """(P(the best guess is right), standard error) under this law's truth."""
        inside, error = self.decided_in()
        return inside if self.target else 1.0 - inside, error

    def tie(self) -> tuple[float, float]:
        """(P(posterior = 1/2), standard error), to within the tie tolerance."""
        edge = -self.log_odds - self.rest.values
        return self._average(self.first.sf(np.nextafter(edge - self._tie, -np.inf)) - self.first.sf(edge + self._tie))

    @property
    def _tie(self) -> float:
        return TIE * min(1.0, self.spacing)

    def changed(self) -> tuple[float, float]:
        """(wrong to right, right to wrong): masses where everything above the lowest release changes the decision."""
        alone = self.first.sf(np.full(1, self._tie - self.log_odds))[0]
        gain = self.first.sf(self._tie - self.log_odds - self.rest.values) - alone
        to_in, to_out = (
            _dot(self.rest.weights, np.maximum(gain, 0.0)),
            _dot(self.rest.weights, np.maximum(-gain, 0.0)),
        )
        return (to_in, to_out) if self.target else (to_out, to_in)

    def outside(self, bound: float, centre: float = 0.0) -> tuple[float, float]:
        """(P(|log Bayes factor - centre| > bound), standard error), up to a relative 1e-9 of the bound."""
        if np.isinf(bound) or np.isinf(self.log_odds) or np.isinf(centre):
            return 0.0, 0.0
        edge = bound * (1 + 1e-9) + 1e-12
        rest = self.rest.values - centre
        return self._average(self.first.sf(edge - rest) + self.first.cdf(-edge - rest))

    def loss_bound(self, failure: float) -> float:
        """Smallest e with P(|log Bayes factor| > e) <= failure: a value that |log Bayes factor| takes.

        Infinite for failure 0 where log Bayes factors are unbounded.
        """
        if failure in (0.0, 1.0) and (failure or self.unbounded):
            return 0.0 if failure else float("inf")
        if not isinstance(self.first, Atoms) or self.first.values.size * self.rest.values.size > _ATOMS:
            return solve_decreasing(lambda e: self._mass_beyond(e) - failure * (1.0 + 1e-9), 0.0, 1.0)
        values, weights = outer_sum(self.first, self.rest)
        order = np.argsort(np.abs(values))
        size, above = np.abs(values)[order], _tails(weights[order])
        last = np.searchsorted(size, size + COINCIDENT * np.maximum(1.0, size), side="right")
        enough = int(np.argmax(above[last] <= failure * (1.0 + 1e-9)))
        return float(size[last[enough] - 1])

    def _mass_beyond(self, size: float) -> float:
        """P(|log Bayes factor| > size)."""
        return self._average(self.first.sf(size - self.rest.values) + self.first.cdf(-size - self.rest.values))[0]

    def quantiles(self, levels: ArrayLike) -> Floats:
        """Smallest log Bayes factors z with P(log Bayes factor <= z) >= level.

        Exact where there are fewer than two million atoms, or two large parts; between, the rest is first put into
        20,000 groups of neighbours, which moves a quantile by less than a group is wide.
        """
        level = check_probability("level", levels)
        if isinstance(self.first, Atoms) and min(self.first.values.size, self.rest.values.size) <= _SMALL:
            rest = self.rest if self.first.values.size * self.rest.values.size <= _ATOMS else _grouped(self.rest)
            first = self.first if self.first.values.size * rest.values.size <= _ATOMS else _grouped(self.first, 200)
            values, weights = outer_sum(first, rest)
            order = np.argsort(values)
            cumulative = np.cumsum(weights[order])
            place = np.searchsorted(cumulative, level * cumulative[-1] - 1e-12)
            return np.asarray(values[order][np.minimum(place, values.size - 1)])
        return np.array([self._searched_quantile(float(one)) for one in np.atleast_1d(level)])

    def _searched_quantile(self, level: float) -> float:
        def missing(z: float) -> float:
            return level - 1e-12 - _dot(self.rest.weights, 1.0 - self.first.sf(z - self.rest.values))

        low = -1.0
        if isinstance(self.first, Atoms):
            low = min(low, float(self.first.values[0] + self.rest.values[0]))
        while missing(low) <= 0 and low > -1e12:
            low *= 2.0
        return solve_decreasing(missing, low, 1.0)


@dataclass(frozen=True)
class AuditedPosterior(PosteriorOf):
    """Law of an audited reader's posterior, everybody else as they truly are: the target in, and the target out.

    Parameters
    ----------
    laws : of the log Bayes factor under "in" and under "out"
    """

    laws: tuple[FactorLaw, FactorLaw]

    @property
    def prior(self) -> float:
        """Prior probability of "in"."""
        return self.laws[0].prior

    def mean(self, truth: str) -> float:
        return self.laws[side_of(truth)].posterior_mean()[0]

    def cdf(self, x: ArrayLike, truth: str) -> Any:
        return scalar_or_array(1.0 - self._above(x, truth))

    def quantile(self, q: ArrayLike, truth: str) -> Any:
        law = self.laws[side_of(truth)]
        return scalar_or_array(expit(law.log_odds + law.quantiles(np.ravel(as_array(q)))).reshape(np.shape(q)))

    def decisions(self, least: ArrayLike) -> tuple[Any, Any]:
        """(level, power) of deciding "in" where the posterior exceeds `least`."""
        return scalar_or_array(self._above(least, "out")), scalar_or_array(self._above(least, "in"))

    def _above(self, x: ArrayLike, truth: str) -> Floats:
        law = self.laws[side_of(truth)]
        threshold = logit(check_probability("x", x)) - law.log_odds
        return np.clip(law.sf(threshold), 0.0, 1.0).reshape(np.shape(x))


def outer_sum(a: Atoms, b: Atoms) -> tuple[Floats, Floats]:
    """(values, weights) of every sum of one value of each; -inf and +inf do not meet."""
    with np.errstate(invalid="ignore"):
        values = (a.values[:, None] + b.values[None, :]).ravel()
    weights = (a.weights[:, None] * b.weights[None, :]).ravel()
    keep = ~np.isnan(values)
    return (values, weights) if keep.all() else (values[keep], weights[keep])


def probable(weights: Floats, lost: float) -> NDArray[np.bool_]:
    """All but the least weights, which sum to at most `lost`."""
    ascending = np.sort(weights, axis=None)
    kept: NDArray[np.bool_] = weights >= ascending[np.searchsorted(np.cumsum(ascending), lost)]
    return kept


def _merged(part: Atoms) -> Atoms:
    """The same law with coincident values put together, at their weighted mean."""
    value, weight = part.values, part.weights
    with np.errstate(invalid="ignore"):  # two infinities of one sign are no distance apart
        gap = np.diff(value)
        apart = np.isinf(gap) | (gap > COINCIDENT * np.maximum(1.0, np.abs(value[1:])))
    starts = np.append(0, np.flatnonzero(apart) + 1)
    if starts.size == value.size:
        return part
    first, total = value[starts], np.add.reduceat(weight, starts)
    offset = (
        np.where(np.isfinite(value), value, 0.0)
        - np.where(np.isfinite(first), first, 0.0)[np.cumsum(np.append(False, apart))]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.add.reduceat(offset * weight, starts) / total
    return Atoms(first + np.where(total > 0, shift, 0.0), total, lambda: part.log_exponential_mean)


def _grouped(part: Atoms, groups: int = 20_000) -> Atoms:
    """Neighbouring values put together, with their weights and weighted means."""
    finite = np.isfinite(part.values)
    edges = np.linspace(0, part.values.size, min(groups, part.values.size) + 1).astype(np.int64)[:-1]
    weights = np.add.reduceat(part.weights, edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(np.where(finite, part.values, 0.0) * part.weights, edges) / weights
    ends = np.where(weights > 0, means, part.values[edges])
    return Atoms(np.where(finite[edges], ends, part.values[edges]), weights)
