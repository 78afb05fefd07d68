"""The distribution of the log Bayes factor over releases under one truth, and averages from it.

The log Bayes factor is a sum of two independent parts. Averages over one part are computed at every value of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from adversary._core import Floats, bisect_safely, check_probability, logit, scalar_or_array, solve_decreasing
from adversary.adversaries.risk.law_parts import DiscretePart, Part, outer_sum, pairwise_dot
from adversary.privacy import tolerated

# Log-odds within this (times the smallest step between releases, if smaller) of zero are a tie, decided "out".
TIE = 1e-9

_EXPIT_WIDTH = 45.0
_SEARCHED = 200_000

# Largest number of sums of two parts' values, and of posteriors of several priors, in memory at a time.
_SUMS = 4_000_000


@dataclass(frozen=True)
class BayesFactorLaw:
    """Distribution of the log Bayes factor of "in" over releases, under one truth: the sum of two independent parts.

    `log_odds` are those of the prior, nats: one number or, for adversaries who differ in their prior only, one each,
    (adversary,), all finite. Mean posteriors and probabilities of decisions then are (adversary,) too. `target` is 1 if
    the truth is "in", else 0. `analytic` is discrete or continuous; `listed` has values and weights. `draws` is the
    number of simulated releases in `listed`, 0 if it is exact. `spacing` is the smallest step between values.
    `separable` is True if `analytic` is one release, so its decisions can be compared with those of both parts.
    `unbounded` is True if the log Bayes factor is unbounded; the parts list all but 1e-18 of the mass.
    """

    log_odds: Any
    target: int
    analytic: Part
    listed: DiscretePart
    draws: int
    spacing: float
    separable: bool
    unbounded: bool = False

    @property
    def prior(self) -> Any:
        """Prior probability of "in"; (adversary,) for several."""
        return scalar_or_array(expit(self.log_odds))

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of quantities that depend on the prior: none, or ("adversary",) for several priors."""
        return ("adversary",) * np.ndim(self.log_odds)

    def at_prior(self, prior: float) -> BayesFactorLaw:
        """This distribution of the log Bayes factor, for an adversary with another prior."""
        return replace(self, log_odds=float(logit(check_probability("prior", prior))))

    @property
    def coarse(self) -> BayesFactorLaw:
        """The distribution with at most 2000 values per part, 200 if simulated: smooth averages to about 1e-5."""
        groups = 200 if self.simulated else 2000
        return replace(self, analytic=self.analytic.gathered(groups), listed=self.listed.gathered(groups))

    @property
    def simulated(self) -> bool:
        """True where averages are Monte Carlo estimates."""
        return self.draws > 0

    def _per_listed(self, function: Callable[[Floats], Floats]) -> Floats:
        """E[function(log Bayes factor) | listed], for every listed value."""
        analytic, values = self.analytic, self.listed.values
        low, high = np.clip([values[0] - 1e-9, values[-1] + 1e-9], *self._turning)
        low = min(low, high - 1e-6)
        # The poles of expit, pi away from the real line, set the interpolation error: about exp(-2 pi degree / width).
        degree = int(20 + 12 * (high - low))
        if degree >= values.size or (isinstance(analytic, DiscretePart) and analytic.values.size <= 100):
            return np.asarray(analytic.mean(function, values), dtype=np.float64)
        smooth = Chebyshev.interpolate(lambda t: analytic.mean(function, np.asarray(t)), degree, domain=[low, high])
        return np.asarray(smooth(np.clip(values, low, high)), dtype=np.float64)

    @property
    def _turning(self) -> tuple[float, float]:
        """Listed values outside which the adversary is certain, for every value of `analytic`."""
        finite = (
            self.analytic.values[np.isfinite(self.analytic.values)]
            if isinstance(self.analytic, DiscretePart)
            else np.full(1, 155.0)
        )
        width = _EXPIT_WIDTH + float(np.abs(finite).max(initial=0.0))
        return -self.log_odds - width, -self.log_odds + width

    def _average(self, per_listed: Floats) -> tuple[float, float]:
        mean = pairwise_dot(self.listed.weights, per_listed)
        if not self.simulated or np.isinf(mean):
            return mean, float("inf") if self.simulated else 0.0
        off = np.abs(per_listed - mean)
        # Deviations are scaled by the largest before squaring, which could overflow.
        most = max(float(off.max()), 1e-300)
        return mean, most * float(np.sqrt(pairwise_dot(self.listed.weights, (off / most) ** 2) / self.draws))

    def _one_by_one(self, measure: Callable[[BayesFactorLaw], tuple[float, float]]) -> tuple[Floats, Floats]:
        """A measure and its standard error for each of several priors, (adversary,) each."""
        rows = [measure(replace(self, log_odds=float(one))) for one in np.ravel(self.log_odds)]
        values, errors = np.array(rows).reshape(-1, 2).T
        return values, errors

    def posterior_mean(self) -> tuple[Any, Any]:
        """(E[P(target in | release)], its Monte Carlo standard error)."""
        if self.dims:
            return self._posterior_means()
        if np.isinf(self.log_odds):
            return self.prior, 0.0
        law = self if self.simulated else replace(self, analytic=self.analytic.condensed, listed=self.listed.condensed)
        return law._average(law._per_listed(lambda z: expit(self.log_odds + z)))

    def _posterior_means(self) -> tuple[Floats, Floats]:
        """`posterior_mean` of several priors, from one common list of condensed values if both parts are listed."""
        first, rest = self.analytic.condensed, self.listed.condensed
        if self.simulated or not isinstance(first, DiscretePart) or first.values.size * rest.values.size > _SUMS:
            return self._one_by_one(BayesFactorLaw.posterior_mean)
        whole, odds = DiscretePart(*outer_sum(first, rest)).condensed, np.ravel(self.log_odds)
        parts = np.array_split(odds, odds.size * whole.values.size // _SUMS + 1)
        means = np.concatenate([expit(part[:, None] + whole.values) @ whole.weights for part in parts])
        return means, np.zeros(odds.size)

    def ratio_mean(self) -> tuple[Any, Any]:
        """(E[posterior / prior], standard error); its limit E[exp(log Bayes factor)] at prior 0."""
        if np.all(self.prior > 0):
            mean, error = self.posterior_mean()
            return mean / self.prior, error / self.prior
        with np.errstate(over="ignore"):
            mean = float(np.exp(self.analytic.log_exponential_mean + self.listed.log_exponential_mean))
            each = np.exp(self.analytic.log_exponential_mean + self.listed.values) if self.simulated else np.zeros(1)
        return mean, self._average(each)[1] if self.simulated else 0.0

    def sf(self, threshold: ArrayLike) -> Floats:
        """P(log Bayes factor > threshold), for every threshold; infinity is not above infinity."""
        outer, inner = replace(self, draws=0)._by_size
        chances = [pairwise_dot(outer.weights, inner.sf(_gap(float(z), outer.values))) for z in np.ravel(threshold)]
        # Weights add up to one only up to rounding.
        return np.minimum(chances, 1.0)

    def _chance(self, given: Callable[[Floats, Part], Floats]) -> tuple[float, float]:
        """(probability, standard error) from conditional probabilities given every value of one part."""
        outer, inner = self._by_size
        chances = given(outer.values, inner)
        return self._average(chances) if outer is self.listed else (pairwise_dot(outer.weights, chances), 0.0)

    def _masses(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """(P(low < log Bayes factor <= high), standard error), (interval,) each."""
        outer, inner = self._by_size
        if self.simulated or outer.values.size > low.size:
            pairs = [self._mass(float(start), float(end)) for start, end in zip(low, high, strict=True)]
            chances, errors = np.array(pairs).reshape(-1, 2).T
            return chances, errors
        total = np.zeros(low.size)
        for value, weight in zip(outer.values, outer.weights, strict=True):
            total += weight * (inner.sf(_gap(low, value)) - inner.sf(_gap(high, value)))
        return total, np.zeros(low.size)

    def _mass(self, low: float, high: float = np.inf) -> tuple[float, float]:
        """(P(low < log Bayes factor <= high), standard error)."""

        def inside(values: Floats, other: Part) -> Floats:
            above = other.sf(_gap(low, values))
            return above - other.sf(_gap(high, values)) if high < np.inf else above

        return self._chance(inside)

    def _prob_beyond(self, bound: float, centre: float = 0.0) -> tuple[float, float]:
        """(P(|log Bayes factor - centre| > bound), standard error)."""
        return self._chance(lambda x, other: other.sf(bound - (x - centre)) + other.cdf(-bound - (x - centre)))

    @property
    def _by_size(self) -> tuple[DiscretePart, Part]:
        """(the part to sum over, the part whose tails are evaluated): the smaller list first, or the simulated one."""
        first = self.analytic
        if self.simulated or not isinstance(first, DiscretePart) or first.values.size > self.listed.values.size:
            return self.listed, first
        return first, self.listed

    def decided_in(self) -> tuple[Any, Any]:
        """(P(posterior > 1/2), standard error); ties are decided "out"."""
        start = self._tie - self.log_odds
        return self._masses(start, np.full_like(start, np.inf)) if self.dims else self._mass(float(start))

    def prob_correct(self) -> tuple[Any, Any]:
        """(P(the best guess is right), standard error) under this truth."""
        inside, error = self.decided_in()
        return inside if self.target else 1.0 - inside, error

    def tie(self) -> tuple[Any, Any]:
        """(P(posterior = 1/2), standard error), to within the tie tolerance."""
        start, end = np.nextafter(-self.log_odds - self._tie, -np.inf), self._tie - self.log_odds
        return self._masses(start, np.asarray(end)) if self.dims else self._mass(float(start), float(end))

    @property
    def _tie(self) -> float:
        return TIE * min(1.0, self.spacing)

    def changed(self) -> tuple[Any, Any]:
        """(wrong to right, right to wrong): P(the other releases change the lowest release's decision), each way."""
        if self.dims:
            return self._changes()
        alone = self.analytic.sf(np.full(1, self._tie - self.log_odds))[0]
        gain = self.analytic.sf(_gap(self._tie - self.log_odds, self.listed.values)) - alone
        to_in, to_out = (
            pairwise_dot(self.listed.weights, np.maximum(gain, 0.0)),
            pairwise_dot(self.listed.weights, np.maximum(-gain, 0.0)),
        )
        return (to_in, to_out) if self.target else (to_out, to_in)

    def _changes(self) -> tuple[Floats, Floats]:
        """`changed` of several priors, as a sum over the lowest release's values."""
        first, limit = self.analytic, self._tie - np.ravel(self.log_odds)
        if not isinstance(first, DiscretePart) or first.values.size > limit.size:
            return self._one_by_one(BayesFactorLaw.changed)
        to_in, to_out = np.zeros(limit.size), np.zeros(limit.size)
        for value, weight in zip(first.values, first.weights, strict=True):
            left, decided = _gap(limit, value), value > limit
            to_in += np.where(decided, 0.0, weight * self.listed.sf(left))
            to_out += np.where(decided, weight * self.listed.cdf(np.nextafter(left, np.inf)), 0.0)
        return (to_in, to_out) if self.target else (to_out, to_in)

    def outside(self, bound: float, centre: float = 0.0) -> tuple[float, float]:
        """(P(|log Bayes factor - centre| > bound), standard error), up to rounding."""
        if np.isinf(bound) or np.any(np.isinf(self.log_odds)) or np.isinf(centre):
            return 0.0, 0.0
        return self._prob_beyond(tolerated(bound, 1e-12), centre)

    def loss_bound(self, failure: float) -> float:
        """Smallest e with P(|log Bayes factor| > e) <= failure, nats; for a discrete distribution one of its values.

        Infinite for failure 0 if the log Bayes factor is unbounded.
        """
        if failure in (0.0, 1.0) and (failure or self.unbounded):
            return 0.0 if failure else float("inf")
        return solve_decreasing(lambda e: self._prob_beyond(e)[0] - tolerated(failure), 0.0, 1.0)

    def quantiles(self, levels: ArrayLike) -> Floats:
        """Quantiles: the smallest z with P(log Bayes factor <= z) >= level, nats, (level,).

        With continuous noise, more than 200,000 listed values are merged into 20,000 groups of neighbours. This moves a
        quantile by less than the width of a group.
        """
        law, level = replace(self, draws=0), check_probability("level", levels)
        if not isinstance(self.analytic, DiscretePart) and self.listed.values.size > _SEARCHED:
            law = replace(law, listed=_group_values(self.listed))
        outer, inner = law._by_size

        allowed = 1.0 - np.atleast_1d(level) + 1e-12

        def within(z: Floats) -> NDArray[np.bool_]:
            above = inner.sf(_gap(z[:, None], outer.values))
            return np.array([pairwise_dot(outer.weights, row) for row in above]) <= allowed

        low, high = np.full(allowed.size, -1.0), np.full(allowed.size, 1.0)
        while (wide := within(low) & (low > -1e12)).any():
            low = np.where(wide, 2.0 * low, low)
        while (short := ~within(high) & (high <= 1e300)).any():
            low, high = np.where(short, np.maximum(low, high), low), np.where(short, 2.0 * high + 1.0, high)
        quantiles = bisect_safely(within, low, high)
        return np.where(within(np.full(allowed.size, -np.inf)), -np.inf, np.where(high > 1e300, np.inf, quantiles))


def _gap(threshold: float | Floats, values: Floats) -> Floats:
    """threshold - values, with inf - inf = inf: an infinite value is not above an equally infinite threshold."""
    with np.errstate(invalid="ignore"):
        gap = threshold - values
    return np.where(np.isnan(gap), np.inf, gap)


def _group_values(part: DiscretePart, groups: int = 20_000) -> DiscretePart:
    """A part with neighbouring values merged at their weighted means; infinite values are merged among themselves."""
    finite = np.isfinite(part.values)
    edges = np.linspace(0, part.values.size, min(groups, part.values.size) + 1).astype(np.int64)[:-1]
    edges = np.union1d(edges, np.flatnonzero(np.diff(finite)) + 1)
    weights = np.add.reduceat(part.weights, edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(np.where(finite, part.values, 0.0) * part.weights, edges) / weights
    return DiscretePart(np.where(finite[edges] & (weights > 0), means, part.values[edges]), weights)
