"""The law of the privacy loss L = log P(release) / Q(release) for one pair, P (target in) against Q (out).

Two tails and an expectation are enough: the profile, the trade-off, bounds on beliefs, the law of the posterior and
checks of a promise are derived from them. Infinite losses are explicit masses, and tails keep relative accuracy down to
exp(-745).
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
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    past_ties,
    scalar_or_array,
    solve_decreasing_each,
)
from adversary.privacy.guarantee import Guarantee, group_of, where_else
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
    """The ways in which losses come to their numbers."""

    FORMULA = "formula"
    LISTED = "listed"
    MIXED = "mixed"
    CONTOUR = "contour"
    SMOOTHED = "smoothed"
    ROUNDED = "rounded"


class PrivacyLoss(Guarantee):
    """Law of L under P and under Q.

    To write one: `tail(threshold)` = (P(L > t), Q(L > t)) with infinite mass included, `expect(function)` =
    (E under P, E under Q) for a function that accepts infinite losses, `log_moment(order)` = log E_P[e^(order L)],
    and `swapped`, the loss of Q against P. `LatticeLoss` is the example to read.
    """

    __slots__ = ()

    definition = name = "privacy loss"
    meaning = "L = log(P / Q) at the release, its law known exactly or bounded from above."

    @abstractmethod
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """(P(L > threshold), Q(L > threshold)), strictly: losses tied with the threshold count as equal."""

    @abstractmethod
    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """(E_P[function(L)], E_Q[function(L)]); the function maps losses (n,) to values (..., n), here (...)."""

    @abstractmethod
    def log_moment(self, order: float) -> float:
        """log E_P[exp(order L)], in nats; infinite when P has mass at an infinite loss and order > 0."""

    def past_ties(self, threshold: Floats) -> Floats:
        """Threshold raised by the rounding error, so that ties do not exceed it; some laws have a wider margin."""
        return past_ties(threshold)

    def tail_from(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """(P(L >= threshold), Q(L >= threshold)): a tail of what ties with the threshold and of all above."""
        t = check_number("threshold", threshold)
        with np.errstate(invalid="ignore"):
            least = t - 2.0 * (self.past_ties(t) - t)  # twice, as `tail` goes past ties from there
        return self.tail(np.where(np.isfinite(t), least, t))

    @property
    @abstractmethod
    def swapped(self) -> PrivacyLoss:
        """The loss of Q against P."""

    @property
    def directions(self) -> tuple[PrivacyLoss, ...]:
        """Itself and the loss of Q against P, once where they are one."""
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
        """Losses of independent releases that it is the sum of, as far as it knows: itself, unless a leaf says more."""
        return (self,)

    @property
    def corners(self) -> tuple[Floats, Floats] | None:
        """(level, power) at the corners of a trade-off that is straight between them; None of any other."""
        return None

    @property
    def law(self) -> PrivacyLoss:
        """The law that answers: itself, unless a leaf has chosen one by cost."""
        return self

    @property
    def route(self) -> Route:
        """The way in which the law that answers comes to its numbers."""
        return Route.FORMULA

    @property
    def rough(self) -> PrivacyLoss:
        """This law, or where each query is slow one above it, `ROUGH` wide: for thousands of queries."""
        return self

    @property
    def reach(self) -> float:
        """A loss beyond which the profile has fallen to its end, or below 1e-18."""
        e = np.geomspace(1e-9, 700.0, 300)
        law = self.rough
        live = np.flatnonzero(law.delta(e) > law.delta(700.0) + 1e-18)
        return float(min(e[min(live[-1] + 1, e.size - 1)], self.maximum)) if live.size else 1e-9

    @property
    def parameters(self) -> dict[str, Any]:
        """None: a loss is a law."""
        return {}

    @property
    def bracket(self) -> Bracket:
        """Certified (lower, upper) answers; the two agree for every loss whose law is exact."""
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
        """P(L > epsilon) - e^epsilon Q(L > epsilon), of P against Q."""
        e = check_number("epsilon", epsilon)
        p, q = self.tail(e)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.where(q > 0, p - np.exp(e + np.log(np.where(q > 0, q, 1.0))), p)
        return scalar_or_array(np.clip(excess, 0.0, 1.0))

    @labelled
    def probabilistic_delta(self, epsilon: ArrayLike) -> Any:
        """Smallest delta with (epsilon, delta)-probabilistic DP of the release itself: P(|L| > epsilon), worse truth.

        Not proof against post-processing; `pbdp_delta` is.
        """
        e = check_non_negative("epsilon", epsilon, finite=False)
        above, below = self.tail(e), self.swapped.tail(e)
        return scalar_or_array(np.minimum(np.maximum(above[0] + below[1], above[1] + below[0]), 1.0))

    @labelled
    def probabilistic_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with (epsilon, delta)-probabilistic DP of the release itself; inf where there is none."""
        target = np.ravel(check_probability("delta", delta))
        epsilon = solve_decreasing_each(lambda e: np.asarray(self.probabilistic_delta(e)) - target, target.size)
        return scalar_or_array(epsilon.reshape(np.shape(delta)))

    def posterior(self, prior: ArrayLike) -> PosteriorLaw:
        """Law of the posterior of a reader with this prior (or these) who knows everything but the target."""
        return PosteriorLaw(self, prior)

    def test(self, level: float) -> LikelihoodRatioTest:
        """The best test of "in" against "out" whose probability of a false alarm is `level`: threshold, tie, power.

        >>> from adversary.privacy.losses import LatticeLoss
        >>> found = LatticeLoss.from_probs([0.75, 0.25], [0.25, 0.75]).test(0.1)
        >>> round(found.threshold, 6), round(found.tie, 6), round(found.power, 6)
        (1.098612, 0.4, 0.3)
        """
        return likelihood_ratio_test(self, level)

    def sample_size(self, power: float, level: float) -> float:
        """Smallest number of independent releases with which a test of this level has this power; inf if none has.

        >>> from adversary.privacy.losses import GaussianLoss
        >>> GaussianLoss(0.1).sample_size(power=0.8, level=0.05)
        619
        """
        return sample_size(self, power, level)

    def log_level(self, power: float) -> float:
        """Also where the level is too small for a double: the best that a Renyi divergence of any order says of it.

        power^alpha level^(1 - alpha) is at most e^((alpha - 1) D), of every order alpha = 1 + s.
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
        """Worse of the two directions, from the profile (quantiles of L would not survive post-processing)."""
        chance = float(check_probability("failure", failure))
        if chance not in self._bounds:
            bounds = (min(side.maximum, loss_bound_from_profile(side, chance)) for side in self.directions)
            self._bounds[chance] = max(bounds)
        return self._bounds[chance]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        """`loss_bound` of failures asked before: every text about a law asks it again."""
        return {}

    def group(self, size: int) -> Guarantee:
        """A chain of `size` pairs like this one; `plan.privacy_loss(records=size)` is sharper where it can be asked."""
        return self if check_whole("size", size, minimum=1) == 1 else group_of(self, int(size))

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """True if the profile of `loss` is nowhere above this one's, in either direction."""
        reach = min(60.0, max(self.maximum, loss.maximum, 1e-12))
        e = np.linspace(-reach, reach, 801)
        return all(
            bool(np.all(other.bracket.delta(e)[0] <= tolerated(mine.bracket.delta(e)[1], 1e-15)))
            for mine, other in ((self, loss), (self.swapped, loss.swapped))
        )


class Attained(Guarantee):
    """A definition whose worst pair attains all that it allows: tests are told what that pair tells.

    To write one: `worst_pair` and what `Guarantee` asks for, but not `delta`.
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
    TypeError : not a Guarantee; the message says how to get one from noise
    """
    if not isinstance(x, Guarantee):
        raise TypeError(f"{name} must be a Guarantee, got {x!r}{way_to_loss(x)}")
    return x


def way_to_loss(x: Any, name: str = "") -> str:
    """Hint that ends an error message: how to get a privacy loss from a definition or from noise.

    Parameters
    ----------
    x : the object given instead of a loss
    name : attribute that was asked of it, if any

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


@where_else.register
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
