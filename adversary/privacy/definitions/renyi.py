"""Renyi DP, and what any bound on Renyi divergences says of a test.

A bound on Renyi divergences bounds those of every test's two outcomes, hence its power at a level: Theorem 6.3 of
Kifer et al. 2022, "Bayesian and frequentist semantics for common variations of differential privacy". Definition:
Mironov 2017. Profiles: Canonne, Kamath and Steinke 2020, Proposition 12.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    elementwise,
    format_parameter,
    labelled,
    one_number,
    scalar_or_array,
    smallest,
)
from adversary.privacy.definitions.concentrated_bounds import check_order
from adversary.privacy.definitions.pure_approximate import NoPrivacy
from adversary.privacy.definitions.renyi_power import log_odds_of_one_order
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss
from adversary.privacy.profiles import delta_at_negative, level_from_profile, loss_bound_from_profile, tolerated


class MomentBound(Guarantee):
    """A bound on Renyi divergences, both directions: what it says of a test with two outcomes is its trade-off.

    To write one: `_log_odds(log_level, log_rest)`, the log odds of the largest power at levels given by the
    logarithms of themselves and of one minus themselves.
    """

    __slots__ = ()

    @abstractmethod
    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        """Log odds of the largest power, errors towards more; levels strictly between 0 and 1, one axis."""

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Theorem 6.3: the largest r for which both divergences of (r, 1 - r) and (a, 1 - a) are within the bound."""
        a = check_probability("level", level)
        return scalar_or_array(np.where(a > 0.0, np.maximum(expit(self._odds(a, rest=False)), a), 0.0))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """The inverse curve; as the bound treats both hypotheses and both outcomes alike, 1 - level is the power at
        1 - power."""
        r = check_probability("power", power)
        return scalar_or_array(np.where(r < 1.0, np.minimum(expit(-self._odds(r, rest=True)), r), 1.0))

    @property
    def advantage(self) -> float:
        """Largest power - level on the trade-off, below delta(0): the profile is a weaker bound here."""
        return max(0.0, float(-smallest(lambda odds: expit(odds) - as_array(self.power(expit(odds))), _ODDS)))

    def profile_level(self, power: ArrayLike) -> Any:
        return level_from_profile(self, power)

    @labelled
    def f_score(self, prior: ArrayLike, beta: float = 1.0) -> Any:
        """Largest (1 + beta^2) T / (T + r a + beta^2) on the trade-off, T the power at level a, r = (1 - p) / p."""
        p, b2 = check_probability("prior", prior)[..., None], check_non_negative("beta", beta)[..., None] ** 2

        def lost(odds: Floats) -> Floats:
            true, false = as_array(self.power(expit(odds))), expit(odds)
            score = (1.0 + b2) * p * true / (p * true + (1.0 - p) * false + b2 * p + (p == 0.0))
            return np.asarray(-score, dtype=np.float64)

        return scalar_or_array(np.clip(-smallest(lost, _ODDS), 0.0, 1.0))

    def _odds(self, probability: Floats, *, rest: bool) -> Floats:
        """Log odds of the largest power at a level of this probability, or of one minus it."""
        x = np.ravel(probability)
        inside = (x > 0.0) & (x < 1.0)
        log_x, log_rest = np.log(x[inside]), np.log1p(-x[inside])
        levels = (log_rest, log_x) if rest else (log_x, log_rest)
        found = np.full(x.shape, np.inf)
        pieces = range(0, log_x.size, _ROWS)
        logits = [self._log_odds(*(part[i : i + _ROWS] for part in levels)) for i in pieces]
        found[inside] = np.concatenate([np.zeros(0), *logits])
        return found.reshape(probability.shape)


_ODDS = np.concatenate([-np.geomspace(700.0, 1e-3, 30), [0.0], np.geomspace(1e-3, 700.0, 30)])
"""A first grid of log odds of levels."""

_LEAST_GAMMA = 1e-280
"""A smaller gamma is answered as this one: power - level is below 1e-140, gamma / order^2 still a double above 0."""

_LARGEST_ORDER = 1e16
"""A higher order is answered as this one: losses grow by log(1 / level) / 1e16."""

_ROWS = 4096
"""Levels answered at once: memory grows with their number times that of the orders tried."""


@dataclass(frozen=True)
class RenyiDP(MomentBound):
    """(alpha, gamma)-Renyi DP: the Renyi divergence of order alpha is at most gamma, in either direction.

    Parameters
    ----------
    alpha : order, > 1
    gamma : nats, >= 0; adds up over releases at one order

    >>> round(RenyiDP(2.0, 0.5).power(0.05), 6)
    0.22554
    """

    definition = "Renyi DP"
    meaning = "The Renyi divergence of order alpha between P and Q, either way, is at most gamma."
    conversion = (
        "RenyiDP implies ApproximateDP(g.epsilon(delta), delta) at every delta; "
        "a worst pair implies RenyiDP(alpha, g.worst_pair.renyi(alpha))"
    )

    alpha: float
    gamma: float

    def __post_init__(self) -> None:
        check_order(self.alpha)
        check_non_negative("gamma", self.gamma)
        for name in ("alpha", "gamma"):
            object.__setattr__(self, name, one_number(name, getattr(self, name)))

    @property
    def name(self) -> str:
        return f"Renyi differential privacy of order {format_parameter(self.alpha)}"

    @property
    def budget(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    def scaled(self, factor: float) -> RenyiDP:
        return RenyiDP(self.alpha, self.gamma * factor)

    def plus(self, other: Guarantee) -> RenyiDP | None:
        """Of one order: the gammas add up.

        Raises
        ------
        ValueError : Renyi DP of another order
        """
        if not isinstance(other, RenyiDP):
            return None
        if self.alpha != other.alpha:
            raise ValueError(
                f"alpha must be one order for both, got {self.alpha} and {other.alpha}; "
                "Renyi DP of an order holds at every lower order with the same gamma"
            )
        return RenyiDP(self.alpha, self.gamma + other.gamma)

    def multiple(self, times: int) -> RenyiDP:
        return RenyiDP(self.alpha, times * self.gamma)

    def implies(self, other: Guarantee) -> bool:
        """Of one order the smaller gamma implies the larger."""
        if isinstance(other, RenyiDP) and self.alpha == other.alpha:
            return bool(self.gamma <= tolerated(other.gamma))
        return Guarantee.implies(self, other)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """exp((alpha - 1)(gamma - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1), or the total variation if less.

        By Pinsker's and Bretagnolle and Huber's inequalities that is at most sqrt(gamma / 2) and sqrt(1 - e^-gamma).
        """
        (a, g), e = self._finite_order, check_number("epsilon", epsilon)
        with np.errstate(over="ignore"):
            moment = np.exp(np.minimum((a - 1.0) * (g - np.abs(e)) + self._log_share, 0.0))
        variation = min(np.sqrt(g / 2.0), np.sqrt(-np.expm1(-g)))
        return scalar_or_array(delta_at_negative(e, np.minimum(moment, variation)))

    @property
    def _finite_order(self) -> tuple[float, float]:
        """(alpha, gamma) that are answered, in doubles: they hold as well, since divergences rise with the order."""
        return min(self.alpha, _LARGEST_ORDER), max(self.gamma, _LEAST_GAMMA) if self.gamma else 0.0

    @property
    def _log_share(self) -> float:
        """log((1 - 1/alpha)^alpha / (alpha - 1))."""
        a, _ = self._finite_order
        return float(a * np.log1p(-1.0 / a) - np.log(a - 1.0))

    def log_level(self, power: float) -> float:
        """Also where the level is too small for a double, as for orders close to 1: the profile's own, by its formula.

        e^-e (power - delta(e)) is largest where delta(e), by its moment, has fallen to power / alpha.
        """
        found, (a, g) = super().log_level(power), self._finite_order
        if found > -np.inf or power == 0.0:
            return found
        log_power = float(np.log(power))
        return float(log_power + np.log1p(-1.0 / a) - g - (self._log_share + np.log(a) - log_power) / (a - 1.0))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """The rule for any profile; far out it is Markov's inequality, (1 + e^-e) e^((alpha - 1)(gamma - e))."""
        return 0.0 if self.gamma == 0.0 else loss_bound_from_profile(self, failure)

    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        a, g = map(as_array, self._finite_order)
        return log_odds_of_one_order(log_level, log_rest, a - 1.0, g) if self.gamma else log_level - log_rest

    def group(self, size: int) -> Guarantee:
        """1 - 1/alpha becomes (1 - 1/alpha)^size, gamma becomes gamma (alpha - 1)((1 - 1/alpha)^-size - 1).

        The weak triangle inequality (Mironov 2017) at each step, D_a(P, Q) <= (a - 1/p) / (a - 1) D_pa(P, R) +
        D_(q (a - 1/p))(R, Q) for 1/p + 1/q = 1, with the p at which no order exceeds alpha. Valid at every alpha, and
        size^2 rho for zCDP as orders grow. No privacy where no order above 1 is left.
        """
        n, a = int(check_whole("size", size, minimum=1)), float(self.alpha)
        log_share = n * np.log1p(-1.0 / a)
        order = float(-1.0 / np.expm1(log_share))
        if n == 1 or order <= 1.0:
            return self if n == 1 else NoPrivacy()
        return RenyiDP(order, float(self.gamma) * (a - 1.0) * float(np.expm1(-log_share)))

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        most = tolerated(self.gamma, 1e-14 / min(self.alpha - 1.0, 1.0))
        return all(side.renyi(self.alpha) <= most for side in loss.directions)
