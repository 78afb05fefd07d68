"""The law of the log Bayes factor over releases under one truth, and the averages that follow from it.

It is a sum of independent parts, so an average over one part is taken analytically at every value of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from adversary._core import Floats, check_probability, halved, logit, solve_decreasing
from adversary.adversaries.risk.law_parts import DiscretePart, Part, pairwise_dot
from adversary.privacy import tolerated

TIE = 1e-9
"""Log-odds within this (times the smallest step between releases, if smaller) of zero are a tie, decided "out"."""

_EXPIT_WIDTH = 45.0
_SEARCHED = 200_000


@dataclass(frozen=True)
class BayesFactorLaw:
    """Law of the log Bayes factor of "in" over releases, under one truth: `analytic` plus the independent `listed`.

    `analytic` is summed analytically; `listed` has values and weights. `draws` is how many simulated releases these
    stand for, 0 if they are exact. `separable`: whether `analytic` is one release, so that the listed part's share in
    decisions can be told. `unbounded`: whether log Bayes factors of any size can occur, though the parts list only
    those that carry all but 1e-18 of the mass.
    """

    log_odds: float
    target: int
    analytic: Part
    listed: DiscretePart
    draws: int
    spacing: float
    separable: bool
    unbounded: bool = False

    @property
    def prior(self) -> float:
        """Prior probability of "in"."""
        return float(expit(self.log_odds))

    def at_prior(self, prior: float) -> BayesFactorLaw:
        """This law of the log Bayes factor, for an adversary with another prior."""
        return replace(self, log_odds=float(logit(check_probability("prior", prior))))

    @property
    def coarse(self) -> BayesFactorLaw:
        """The law with each part on at most 2000 values, 200 if simulated: to about 1e-5 in a smooth average."""
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
        degree = int(20 + 12 * (high - low))  # expit's poles, pi away, set the rate: about exp(-2 pi degree / width)
        if degree >= values.size or (isinstance(analytic, DiscretePart) and analytic.values.size <= 100):
            return np.asarray(analytic.mean(function, values), dtype=np.float64)
        smooth = Chebyshev.interpolate(lambda t: analytic.mean(function, np.asarray(t)), degree, domain=[low, high])
        return np.asarray(smooth(np.clip(values, low, high)), dtype=np.float64)

    @property
    def _turning(self) -> tuple[float, float]:
        """Listed values outside which the adversary is certain, whatever `analytic` says."""
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
        most = max(float(off.max()), 1e-300)  # squares of what is nearly infinite would be infinite
        return mean, most * float(np.sqrt(pairwise_dot(self.listed.weights, (off / most) ** 2) / self.draws))

    def posterior_mean(self) -> tuple[float, float]:
        """(E[P(target in | release)], its Monte Carlo standard error)."""
        if np.isinf(self.log_odds):
            return self.prior, 0.0
        law = self if self.simulated else replace(self, analytic=self.analytic.condensed, listed=self.listed.condensed)
        return law._average(law._per_listed(lambda z: expit(self.log_odds + z)))

    def ratio_mean(self) -> tuple[float, float]:
        """(E[posterior / prior], standard error); its limit E[exp(log Bayes factor)] at prior 0."""
        if self.prior > 0:
            mean, error = self.posterior_mean()
            return mean / self.prior, error / self.prior
        with np.errstate(over="ignore"):
            mean = float(np.exp(self.analytic.log_exponential_mean + self.listed.log_exponential_mean))
            each = np.exp(self.analytic.log_exponential_mean + self.listed.values) if self.simulated else np.zeros(1)
        return mean, self._average(each)[1] if self.simulated else 0.0

    def sf(self, threshold: ArrayLike) -> Floats:
        """P(log Bayes factor > threshold), for every threshold; an infinite factor is not above an infinite one."""
        outer, inner = replace(self, draws=0)._by_size
        found = [pairwise_dot(outer.weights, inner.sf(_gap(float(z), outer.values))) for z in np.ravel(threshold)]
        return np.minimum(found, 1.0)  # weights add up to one within rounding

    def _chance(self, given: Callable[[Floats, Part], Floats]) -> tuple[float, float]:
        """(probability, standard error) from that given every value of the part listed, by the other part's tails."""
        outer, inner = self._by_size
        found = given(outer.values, inner)
        return self._average(found) if outer is self.listed else (pairwise_dot(outer.weights, found), 0.0)

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
        """(the part to list, the part whose tails are asked): draws are listed."""
        first = self.analytic
        if self.simulated or not isinstance(first, DiscretePart) or first.values.size > self.listed.values.size:
            return self.listed, first
        return first, self.listed

    def decided_in(self) -> tuple[float, float]:
        """(P(posterior > 1/2), standard error), strictly: ties are decided "out"."""
        return self._mass(self._tie - self.log_odds)

    def prob_correct(self) -> tuple[float, float]:
        """(P(the best guess is right), standard error) under this law's truth."""
        inside, error = self.decided_in()
        return inside if self.target else 1.0 - inside, error

    def tie(self) -> tuple[float, float]:
        """(P(posterior = 1/2), standard error), to within the tie tolerance."""
        return self._mass(float(np.nextafter(-self.log_odds - self._tie, -np.inf)), self._tie - self.log_odds)

    @property
    def _tie(self) -> float:
        return TIE * min(1.0, self.spacing)

    def changed(self) -> tuple[float, float]:
        """(wrong to right, right to wrong): masses where everything above the lowest release changes the decision."""
        alone = self.analytic.sf(np.full(1, self._tie - self.log_odds))[0]
        gain = self.analytic.sf(_gap(self._tie - self.log_odds, self.listed.values)) - alone
        to_in, to_out = (
            pairwise_dot(self.listed.weights, np.maximum(gain, 0.0)),
            pairwise_dot(self.listed.weights, np.maximum(-gain, 0.0)),
        )
        return (to_in, to_out) if self.target else (to_out, to_in)

    def outside(self, bound: float, centre: float = 0.0) -> tuple[float, float]:
        """(P(|log Bayes factor - centre| > bound), standard error), up to rounding."""
        if np.isinf(bound) or np.isinf(self.log_odds) or np.isinf(centre):
            return 0.0, 0.0
        return self._prob_beyond(tolerated(bound, 1e-12), centre)

    def loss_bound(self, failure: float) -> float:
        """Smallest e with P(|log Bayes factor| > e) <= failure: a value that it takes, to the last digits.

        Infinite for failure 0 where log Bayes factors are unbounded.
        """
        if failure in (0.0, 1.0) and (failure or self.unbounded):
            return 0.0 if failure else float("inf")
        return solve_decreasing(lambda e: self._prob_beyond(e)[0] - tolerated(failure), 0.0, 1.0)

    def quantiles(self, levels: ArrayLike) -> Floats:
        """Smallest log Bayes factors z with P(log Bayes factor <= z) >= level, to the last digits.

        Beside continuous noise more than 200,000 listed values are put into 20,000 groups of neighbours, which moves a
        quantile by less than a group is wide.
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
        found = halved(within, low, high)
        return np.where(within(np.full(allowed.size, -np.inf)), -np.inf, np.where(high > 1e300, np.inf, found))


def _gap(threshold: float | Floats, values: Floats) -> Floats:
    """The value that the other part must exceed; infinite where this one is as infinite as the threshold."""
    with np.errstate(invalid="ignore"):
        gap = threshold - values
    return np.where(np.isnan(gap), np.inf, gap)


def _group_values(part: DiscretePart, groups: int = 20_000) -> DiscretePart:
    """Neighbouring values put together, with their weights and weighted means; infinite ones among themselves."""
    finite = np.isfinite(part.values)
    edges = np.linspace(0, part.values.size, min(groups, part.values.size) + 1).astype(np.int64)[:-1]
    edges = np.union1d(edges, np.flatnonzero(np.diff(finite)) + 1)
    weights = np.add.reduceat(part.weights, edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(np.where(finite, part.values, 0.0) * part.weights, edges) / weights
    return DiscretePart(np.where(finite[edges] & (weights > 0), means, part.values[edges]), weights)
