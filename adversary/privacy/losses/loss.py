"""Privacy loss L = log P(release) / Q(release) of one pair of hypotheses, P (target in) against Q (target out).

Subclasses define two tails and an expectation. Profile, trade-off, bounds on beliefs, distribution of the posterior and
checks of a guarantee are derived from them. Infinite losses are explicit masses, and tails have relative accuracy down
to exp(-745).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    above_ties,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    scalar_or_array,
    solve_decreasing_each,
)
from adversary.privacy.guarantee import Guarantee, group_of, owner_hint
from adversary.privacy.losses.derived_answers import (
    Bracket,
    LikelihoodRatioTest,
    PosteriorLaw,
    likelihood_ratio_test,
    sample_size,
)
from adversary.privacy.profiles import loss_bound_from_profile, tolerated

Expectation = Callable[[Floats], Floats]


class Route(StrEnum):
    """Methods of computation of a privacy loss."""

    FORMULA = "formula"
    LISTED = "listed"
    MIXED = "mixed"
    CONTOUR = "contour"
    SMOOTHED = "smoothed"
    ROUNDED = "rounded"


class PrivacyLoss(Guarantee):
    """Distribution of the privacy loss L under P and under Q.

    Subclasses define `tail(threshold)` = (P(L > t), Q(L > t)), infinite losses included; `expect(function)` = (E under
    P, E under Q) of a function that accepts infinite losses; `log_moment(order)` = log E_P[e^(order L)]; `maximum`; and
    `swapped`, the loss of Q against P. `LatticeLoss` is an example.
    """

    __slots__ = ()

    definition = name = "privacy loss"
    meaning = "L = log(P / Q) at the release, its distribution known exactly or bounded from above."

    @abstractmethod
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """(P(L > threshold), Q(L > threshold)); losses equal to the threshold up to rounding do not exceed it."""

    @abstractmethod
    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """(E_P[function(L)], E_Q[function(L)]); the function maps losses (n,) to values (..., n), here (...)."""

    @abstractmethod
    def log_moment(self, order: float) -> float:
        """log E_P[exp(order L)], in nats; infinite if P has mass at an infinite loss and order > 0."""

    def above_ties(self, threshold: Floats) -> Floats:
        """Threshold plus the rounding error of losses, so that ties do not exceed it; subclasses may widen it."""
        return above_ties(threshold)

    def tail_from(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """(P(L >= threshold), Q(L >= threshold)): the tail that includes ties with the threshold."""
        t = check_number("threshold", threshold)
        with np.errstate(invalid="ignore"):
            # Twice the margin: `tail` adds it once.
            least = t - 2.0 * (self.above_ties(t) - t)
        return self.tail(np.where(np.isfinite(t), least, t))

    @property
    @abstractmethod
    def swapped(self) -> PrivacyLoss:
        """The loss of Q against P."""

    @property
    def directions(self) -> tuple[PrivacyLoss, ...]:
        """The loss and its `swapped`; one of them if they are the same object."""
        return (self,) if self.swapped is self else (self, self.swapped)

    @property
    @abstractmethod
    def maximum(self) -> float:
        """Essential supremum of L under P."""

    @property
    def is_nothing(self) -> bool:
        """True if the loss is 0 with certainty: nothing was released."""
        return self.maximum == 0.0 == self.swapped.maximum

    @property
    def summands(self) -> tuple[PrivacyLoss, ...]:
        """Losses of independent releases whose sum this is; by default the loss itself."""
        return (self,)

    @property
    def corners(self) -> tuple[Floats, Floats] | None:
        """(level, power) at the corners of a piecewise linear trade-off; otherwise None."""
        return None

    @property
    def law(self) -> PrivacyLoss:
        """The representation used for computation: itself, unless a subclass chooses one by cost."""
        return self

    @property
    def route(self) -> Route:
        """Method of computation."""
        return Route.FORMULA

    @property
    def coarse(self) -> PrivacyLoss:
        """Version for thousands of queries: the loss itself or, if queries are slow, a bracket of width `ROUGH`."""
        return self

    @property
    def tail_end(self) -> float:
        """Loss in nats beyond which the profile is within 1e-18 of its limit."""
        e = np.geomspace(1e-9, 700.0, 300)
        coarse = self.coarse
        live = np.flatnonzero(coarse.delta(e) > coarse.delta(700.0) + 1e-18)
        return float(min(e[min(live[-1] + 1, e.size - 1)], self.maximum)) if live.size else 1e-9

    @property
    def parameters(self) -> dict[str, Any]:
        """Empty: a loss is a distribution, without parameters."""
        return {}

    @property
    def bracket(self) -> Bracket:
        """Certified (lower, upper) bounds; equal for exact losses."""
        return Bracket(
            self,
            of_delta=lambda epsilon: (self.delta(epsilon),) * 2,
            of_power=lambda level: (self.power(level),) * 2,
            of_tail=lambda threshold: (self.tail(threshold)[0],) * 2,
        )

    @property
    def worst_pair(self) -> PrivacyLoss:
        return self

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Privacy profile of P against Q: P(L > epsilon) - e^epsilon Q(L > epsilon)."""
        e = check_number("epsilon", epsilon)
        p, q = self.tail(e)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.where(q > 0, p - np.exp(e + np.log(np.where(q > 0, q, 1.0))), p)
        return scalar_or_array(np.clip(excess, 0.0, 1.0))

    @labelled
    def probabilistic_delta(self, epsilon: ArrayLike) -> Any:
        """Smallest delta with (epsilon, delta)-probabilistic DP: P(|L| > epsilon) under the worse hypothesis.

        It holds for the release itself and does not survive post-processing; `pbdp_delta` does.
        """
        e = check_non_negative("epsilon", epsilon, finite=False)
        above, below = self.tail(e), self.swapped.tail(e)
        return scalar_or_array(np.minimum(np.maximum(above[0] + below[1], above[1] + below[0]), 1.0))

    @labelled
    def probabilistic_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with (epsilon, delta)-probabilistic DP of the release itself; inf if there is none."""
        target = np.ravel(check_probability("delta", delta))
        epsilon = solve_decreasing_each(lambda e: np.asarray(self.probabilistic_delta(e)) - target, target.size)
        return scalar_or_array(epsilon.reshape(np.shape(delta)))

    def posterior(self, prior: ArrayLike) -> PosteriorLaw:
        """Distribution of the posterior of an adversary who knows everything except the target, per prior."""
        return PosteriorLaw(self, prior)

    def test(self, level: float) -> LikelihoodRatioTest:
        """Likelihood ratio test of "in" against "out" with false alarm probability `level`.

        >>> from adversary.privacy.losses import LatticeLoss
        >>> test = LatticeLoss.from_probs([0.75, 0.25], [0.25, 0.75]).test(0.1)
        >>> round(test.threshold, 6), round(test.tie, 6), round(test.power, 6)
        (1.098612, 0.4, 0.3)
        """
        return likelihood_ratio_test(self, level)

    def sample_size(self, power: float, level: float) -> float:
        """Smallest number of independent releases for which a test of this level has this power; inf if none has.

        >>> from adversary.privacy.losses import GaussianLoss
        >>> GaussianLoss(0.1).sample_size(power=0.8, level=0.05)
        619
        """
        return sample_size(self, power, level)

    def log_level(self, power: float) -> float:
        """Log of `profile_level`; if that underflows, the best lower bound from Renyi divergences D of all orders.

        power^alpha level^(1 - alpha) <= e^((alpha - 1) D) for every order alpha = 1 + s.
        """
        log_level = super().log_level(power)
        if log_level > -np.inf or power == 0.0:
            return log_level
        from scipy.optimize import minimize_scalar

        def loss(log_order: float) -> float:
            order = float(np.exp(log_order))
            return (self.log_moment(order) - log_power) / order

        log_power = float(np.log(power))
        return log_power - float(minimize_scalar(loss, bounds=(-12.0, 12.0), method="bounded").fun)

    @property
    def kl_divergence(self) -> float:
        """Kullback-Leibler divergence of P from Q, E_P[L], in nats."""
        return float("inf") if self.tail(1e300)[0] > 0 else float(self.expect(_finite)[0])

    def renyi(self, alpha: float) -> float:
        """Renyi divergence of order alpha > 1 of P from Q, in nats: log E_P[e^((alpha - 1) L)] / (alpha - 1).

        Order 1 is the Kullback-Leibler divergence E_P[L], infinity the largest loss.
        """
        if not alpha >= 1.0:
            raise ValueError(f"alpha must be at least 1, got {alpha}")
        if alpha == 1.0:
            return self.kl_divergence
        if alpha == np.inf:
            return self.maximum
        return self.log_moment(alpha - 1.0) / (alpha - 1.0)

    def never_exceeds(self, epsilon: float) -> bool:
        within = super().never_exceeds(epsilon)
        return within or (self.loss_bound(0.0) < np.inf and all(x.tail(epsilon)[0] == 0.0 for x in self.directions))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """Bound from the profile, worse direction; quantiles of L would not survive post-processing."""
        chance = float(check_probability("failure", failure))
        if chance not in self._bounds:
            bounds = (min(side.maximum, loss_bound_from_profile(side, chance)) for side in self.directions)
            self._bounds[chance] = max(bounds)
        return self._bounds[chance]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        """Cache of `loss_bound` by failure probability, since reports request the same bound repeatedly."""
        return {}

    def group(self, size: int) -> Guarantee:
        """Guarantee of `size` steps with this loss; `plan.privacy_loss(records=size)` is sharper if there is a plan."""
        return self if check_whole("size", size, minimum=1) == 1 else group_of(self, int(size))

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """True if the profile of `loss` nowhere exceeds this one, in both directions."""
        reach = min(60.0, max(self.maximum, loss.maximum, 1e-12))
        e = np.linspace(-reach, reach, 801)
        return all(
            bool(np.all(other.bracket.delta(e)[0] <= tolerated(mine.bracket.delta(e)[1], 1e-15)))
            for mine, other in ((self, loss), (self.swapped, loss.swapped))
        )


class AttainedGuarantee(Guarantee):
    """Guarantee that its worst pair attains: profile and trade-off are those of the pair.

    Subclasses define `worst_pair` and the abstract methods of `Guarantee` except `delta`.
    """

    __slots__ = ()

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return self.worst_pair.delta(epsilon)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        return self.worst_pair.power(level)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        return self.worst_pair.level(power)

    def log_level(self, power: float) -> float:
        return float(self.worst_pair.log_level(power))

    def never_exceeds(self, epsilon: float) -> bool:
        return bool(self.worst_pair.never_exceeds(epsilon))

    @property
    def auc(self) -> float:
        return float(self.worst_pair.auc)


def check_guarantee(name: str, x: Any) -> Guarantee:
    """The argument itself, checked to be a Guarantee (a definition or a privacy loss).

    Parameters
    ----------
    name : of the argument, for the message
    x : anything

    Returns
    -------
    x

    Raises
    ------
    TypeError : not a Guarantee; for a mechanism the message names the method that returns one
    """
    if not isinstance(x, Guarantee):
        raise TypeError(f"{name} must be a Guarantee, got {x!r}{way_to_loss(x)}")
    return x


def way_to_loss(x: Any, name: str = "") -> str:
    """Suffix of an error message: the attribute of a definition or mechanism that returns a privacy loss.

    Parameters
    ----------
    x : the object given instead of a loss
    name : attribute that was requested, if any

    Returns
    -------
    ": ask its .worst_pair" or ": ask its .privacy_loss()", with `.name` after it; the conversion to use for a
    definition without a worst pair; empty for everything else, and for a name that no loss has.
    """
    if name:
        known = not name.startswith("_") and hasattr(PrivacyLoss, name)
        return f", which a PrivacyLoss has{_way(x, f'.{name}')}" if known else ""
    return _way(x, "")


def _way(x: Any, addition: str) -> str:
    """Hint for `way_to_loss`, with the requested attribute at its end."""
    if isinstance(x, Guarantee) and type(x).worst_pair is Guarantee.worst_pair:
        return f", and {x.definition} has no worst pair: convert it first, as ApproximateDP(g.epsilon(delta), delta)"
    for way in ("worst_pair", "privacy_loss"):
        if hasattr(type(x), way):
            return f": ask its .{way}{'()' if way == 'privacy_loss' else ''}{addition}"
    return ""


@owner_hint.register
def _(guarantee: Guarantee, name: str) -> str:
    return way_to_loss(guarantee, name)


def check_loss(name: str, x: Any) -> PrivacyLoss:
    """The argument itself, checked to be a PrivacyLoss, as `check_guarantee` does.

    Parameters
    ----------
    name, x : as in `check_guarantee`
    """
    if not isinstance(x, PrivacyLoss):
        raise TypeError(f"{name} must be a PrivacyLoss, got {x!r}{way_to_loss(x)}")
    return x


def _finite(loss: Floats) -> Floats:
    return np.where(np.isfinite(loss), loss, 0.0)
