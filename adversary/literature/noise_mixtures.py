"""Mixtures of the noise distributions around finitely many answers: largest log ratios and mutual information.

Under a hypothesis that leaves other records open, the query has each answer with some weight, and the release has
density sum_a weight_a f(o | a). The largest log ratio of two such mixtures is exact, without a grid of outputs; mutual
information is by quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import kl_div

from adversary._core import TAIL_NATS, Floats, as_array, log_sum_exp
from adversary.privacy.mechanisms import ContinuousNoise, IntegerNoise, Mechanism

# Absolute gap, in nats, at which the search for a largest log ratio under Gaussian noise stops.
RESOLUTION = 1e-12

# Gauss-Legendre nodes of a panel, which is at most one standard deviation wide: a Gaussian density is integrated to
# rounding error.
_PANEL_NODES = 12


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Releases of a query with finitely many answers, and the mixtures of their distributions.

    Largest log ratio of two mixtures over all releases o:

    - Laplace and geometric noise: between neighbouring answers both densities are A e^(-o/b) + B e^(o/b), a ratio of
      linear functions of e^(2o/b) and so monotone; beyond the outermost answers it is constant. Attained at an answer.
    - Gaussian and discrete Gaussian noise: far out the extreme answers dominate, so it is infinite if the first mixture
      has an answer beyond all of the second's; otherwise it is computed by branch and bound, see `_branch_and_bound`.
    - Randomised response, no noise and other finite mechanisms: all releases are enumerated.

    Largest log ratio of two single answers that differ by d: d times the tail rate where the noise is log-concave, else
    the maximum of the mechanism's privacy loss.

    Parameters
    ----------
    mechanism : any noise distribution; for sums of Laplace or geometric noise only single answers can be compared
    answers : distinct answers, ascending, in units of the query
    """

    mechanism: Mechanism
    answers: Floats

    @classmethod
    def of(cls, mechanism: Mechanism, answers: Any) -> tuple[Mixtures, Any]:
        """Mixtures over the distinct answers of a query, and the index of each given answer among them.

        Answers that the mechanism cannot take (fractions under integer noise, infinities) are refused.
        """
        array = as_array(answers) if mechanism.is_continuous else mechanism.check_value(answers, "query")
        if not np.isfinite(array).all():
            raise ValueError(f"query must answer with finite numbers, got {array[~np.isfinite(array)].ravel()[0]}")
        distinct, place = np.unique(array.astype(np.float64), return_inverse=True)
        return cls(mechanism, distinct), place.reshape(array.shape)

    @cached_property
    def pairwise(self) -> Floats:
        """Largest log f(o | a) / f(o | b) over releases o, for every two answers [a, b]."""
        if isinstance(self.mechanism, IntegerNoise | ContinuousNoise):
            distance = np.abs(self.answers[:, None] - self.answers)
            if self.mechanism.log_concave:
                return np.where(distance > 0, self.mechanism.tail_rate * np.maximum(distance, 1e-300), 0.0)
            differences, place = np.unique(distance, return_inverse=True)
            losses = np.array([self.mechanism.privacy_loss(float(difference), 1).maximum for difference in differences])
            return np.asarray(losses[place].reshape(distance.shape), dtype=np.float64)
        log_f = self._log_likelihood(self._turning_points)
        return np.asarray(_log_ratio(log_f[:, :, None], log_f[:, None, :]).max(0), dtype=np.float64)

    def largest_log_ratio(self, first: Floats, second: Floats) -> float:
        """sup over releases of log(sum_a first_a f(o | a) / sum_a second_a f(o | a)), in nats; inf where unbounded."""
        if np.count_nonzero(first) == np.count_nonzero(second) == 1:
            return float(self.pairwise[np.argmax(first), np.argmax(second)])
        if self.mechanism.parabola:
            return self._branch_and_bound(first, second)
        with np.errstate(divide="ignore"):
            v, w = np.log(first), np.log(second)
        log_f = self._log_likelihood(self._turning_points)
        return float(_log_ratio(log_sum_exp(log_f + v), log_sum_exp(log_f + w)).max())

    def largest_absolute_log_ratio(self, first: Floats, second: Floats) -> float:
        """sup over releases of the absolute log ratio of two mixtures, in nats; inf where unbounded."""
        forward = self.largest_log_ratio(first, second)
        return forward if np.isposinf(forward) else max(forward, self.largest_log_ratio(second, first))

    def information(self, prior: Floats, weights: Floats) -> float:
        """Mutual information, in nats, between the hypothesis and the release.

        `prior` (hypothesis,) are the probabilities of the hypotheses, `weights` (hypothesis, answer) their mixtures.
        """
        return float(prior @ self._divergences(prior, weights))

    def capacity(self, weights: Floats) -> float:
        """Mutual information under the worst prior over the hypotheses, from above (within about 1e-8 nats).

        The largest divergence from the mixture under any prior is an upper bound, the mean one a lower bound, and
        they meet at the worst prior (its Kuhn-Tucker conditions): the bound at the best prior found is returned.
        """
        from scipy.optimize import minimize

        size = len(weights)
        uniform = np.full(size, 1.0 / size)
        scale = float(self._divergences(uniform, weights).max())
        if scale <= 0.0:
            return 0.0
        optimum = minimize(
            lambda prior: -(prior @ self._divergences(prior, weights)) / scale,
            uniform,
            jac=lambda prior: -self._divergences(prior, weights) / scale,
            # a prior of 0 would make the divergence of that hypothesis from the mixture infinite
            bounds=[(1e-15, 1.0)] * size,
            constraints={"type": "eq", "fun": lambda prior: prior.sum() - 1.0},
            method="SLSQP",
            options={"ftol": 1e-15},
        )
        prior = np.maximum(optimum.x, 1e-15)
        return min(scale, float(self._divergences(prior / prior.sum(), weights).max()))

    def _divergences(self, prior: Floats, weights: Floats) -> Floats:
        """Kullback-Leibler divergence of each hypothesis' releases from their mixture under the prior."""
        density, node_weight = self._density
        each = weights @ density
        return np.asarray(kl_div(each, prior @ each) @ node_weight, dtype=np.float64)

    @cached_property
    def _density(self) -> tuple[Floats, Floats]:
        """Density of the release given each answer at the nodes of a quadrature, [answer, node], and their weights.

        Integer noise: every release but 1e-18 of the mass. Continuous noise: Gauss-Legendre panels of at most one
        standard deviation, with edges where the density of any answer jumps or has a kink, as far as it falls by 41.5
        nats.
        """
        if isinstance(self.mechanism, ContinuousNoise):
            unit, end = float(np.sqrt(self.mechanism.variance)), self.mechanism.tail_radius()
            kinks = self.mechanism.breaks(end)
            whole = unit * np.arange(-np.ceil(end / unit), np.ceil(end / unit) + 1)
            steps = np.concatenate([whole, kinks, -kinks])
            edges = np.unique(self.answers[:, None] + steps)
            x, w = leggauss(_PANEL_NODES)
            half = np.diff(edges)[:, None] / 2.0
            nodes, node_weight = (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()
        else:
            nodes = np.unique(np.concatenate([self.mechanism.support(int(a)) for a in self.answers])).astype(np.float64)
            node_weight = np.ones(nodes.size)
        return np.exp(self._log_likelihood(nodes).T), node_weight

    @cached_property
    def _turning_points(self) -> Floats:
        """Finitely many releases, at one of which the largest ratio of any two mixtures is attained."""
        if self.mechanism.laplace_rate is not None or self.mechanism.is_exact:
            return self.answers
        if isinstance(self.mechanism, IntegerNoise | ContinuousNoise):
            raise NotImplementedError(
                f"largest ratios of mixtures are not derived for {self.mechanism!r}: give the noise of one release"
            )
        support = np.unique(np.concatenate([self.mechanism.support(int(a)) for a in self.answers]))
        beyond = self._log_likelihood(as_array([support[0] - 1, support[-1] + 1]))
        if not np.isneginf(beyond).all():
            raise NotImplementedError(
                f"{self.mechanism!r} is neither additive noise nor finite: give the noise inside it, "
                "whose value is an upper bound after post-processing"
            )
        return support.astype(np.float64)

    def _log_likelihood(self, releases: Floats) -> Floats:
        """log f(o | a), [release, answer]."""
        log_f = self.mechanism.log_likelihood(releases[:, None], self.answers[None, :])
        return np.asarray(log_f, dtype=np.float64)

    def _branch_and_bound(self, first: Floats, second: Floats) -> float:
        """Largest log ratio under log f = -rho (o - a)^2 + constant, up to 1e-12 nats, by branch and bound.

        The log ratio g has g'(o) = 2 rho (E_first[a | o] - E_second[a | o]), and both means rise with o. On [s, t]
        therefore g <= g(s) + 2 rho (t - s) max(0, E_first[a | t] - E_second[a | s]), and likewise from t. Nor is g
        above its larger end by more than c (t - s)^2 / 8, c = (rho (max a - min a))^2 min(1, e^d - 1) where the
        weights' log ratios lie within d of one another (g'' is 4 rho^2 times a difference of variances). Intervals
        that cannot beat the best value seen are dropped, the others halved, down to neighbours for integer noise.
        Outside the first interval the extreme answers hold all but e^-41.5 of either mixture: g is at its limit or,
        where that is -inf, monotone.
        """
        assert self.mechanism.parabola is not None
        rho, whole = self.mechanism.parabola[0], not self.mechanism.is_continuous
        used = (first > 0) | (second > 0)
        a, v, w = self.answers[used], first[used], second[used]
        best = max(_limit(a, v, w), _limit(-a[::-1], v[::-1], w[::-1]))
        with np.errstate(divide="ignore"):
            log_v, log_w = np.log(v), np.log(w)
        top = float((log_v - log_w).max())
        if best >= top - RESOLUTION:
            return best
        margin = (TAIL_NATS - min(log_v[v > 0].min(), log_w[w > 0].min())) / (2.0 * rho * np.diff(a).min())
        curvature = (rho * (a[-1] - a[0])) ** 2 * np.expm1(min(np.log(2.0), np.ptp(log_v - log_w)))

        def at(o: Floats) -> tuple[Floats, Floats, Floats]:
            """(g, E_first[a | o], E_second[a | o]) at releases o."""
            # exponents relative to those of the nearest answer: the largest is near 0, so exp does not underflow
            near = a[np.abs(o[:, None] - a).argmin(1)][:, None]
            nats = rho * (a - near) * (2.0 * o[:, None] - a - near)
            top_v, top_w = log_sum_exp(nats + log_v), log_sum_exp(nats + log_w)
            return top_v - top_w, np.exp(nats + log_v - top_v[:, None]) @ a, np.exp(nats + log_w - top_w[:, None]) @ a

        s, t = np.array([np.floor(a[0] - margin)]), np.array([np.ceil(a[-1] + margin)])
        while s.size:
            (g_s, v_s, w_s), (g_t, v_t, w_t) = at(s), at(t)
            best = max(best, float(g_s.max()), float(g_t.max()))
            rise, fall = (2.0 * rho * (t - s) * np.maximum(0.0, gap) for gap in (v_t - w_s, w_t - v_s))
            bulge = np.maximum(g_s, g_t) + curvature * (t - s) ** 2 / 8.0
            bound = np.minimum(np.minimum(g_s + rise, g_t + fall), np.minimum(bulge, top))
            middle = np.floor((s + t) / 2.0) if whole else (s + t) / 2.0
            live = (bound > best + RESOLUTION) & (s < middle) & (middle < t)
            s, t = np.append(s[live], middle[live]), np.append(middle[live], t[live])
        return best


def _limit(answers: Floats, first: Floats, second: Floats) -> float:
    """Limit of the log ratio of two mixtures under Gaussian noise as the release goes to +infinity.

    The mixture with the larger largest answer dominates; if these are equal, the ratio of their weights remains.
    """
    i, j = np.flatnonzero(first)[-1], np.flatnonzero(second)[-1]
    if i != j:
        return float("inf") if answers[i] > answers[j] else float("-inf")
    return float(np.log(first[i]) - np.log(second[j]))


def _log_ratio(above: Floats, below: Floats) -> Floats:
    """Difference of two arrays of log densities, with -inf where the first is -inf (even if both are)."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(above), -np.inf, above - below)
