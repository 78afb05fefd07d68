"""Renyi differential privacy, and the trade-off implied by bounds on Renyi divergences.

A bound on Renyi divergences applies to the two outcomes of every test, and so bounds its power at a level: Theorem 6.3
of Kifer et al. 2022, "Bayesian and frequentist semantics for common variations of differential privacy". Definition:
Mironov 2017. Profiles: Canonne, Kamath and Steinke 2020, Proposition 12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
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
    """Guarantee by a bound on Renyi divergences in both directions; its trade-off follows from tests of two outcomes.

    Subclasses define `_log_odds(log_level, log_rest)`: log odds of the largest power, from log(level) and
    log(1 - level).
    """

    __slots__ = ()

    @abstractmethod
    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        """Log odds of the largest power, rounded up; levels strictly between 0 and 1, (level,)."""

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Largest r at which both divergences of (r, 1 - r) and (a, 1 - a) satisfy the bound; Theorem 6.3."""
        a = check_probability("level", level)
        return scalar_or_array(np.where(a > 0.0, np.maximum(expit(self._odds(a, rest=False)), a), 0.0))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Inverse of `power`: by symmetry in hypotheses and outcomes, 1 - level is the power at 1 - power."""
        r = check_probability("power", power)
        return scalar_or_array(np.where(r < 1.0, np.minimum(expit(-self._odds(r, rest=True)), r), 1.0))

    @property
    def advantage(self) -> float:
        """Largest power - level on the trade-off; smaller than delta(0), because the profile is a weaker bound."""
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
        """Log odds of the largest power at level `probability` or, if `rest`, at 1 - `probability`."""
        x = np.ravel(probability)
        inside = (x > 0.0) & (x < 1.0)
        log_x, log_rest = np.log(x[inside]), np.log1p(-x[inside])
        levels = (log_rest, log_x) if rest else (log_x, log_rest)
        odds = np.full(x.shape, np.inf)
        pieces = range(0, log_x.size, _ROWS)
        logits = [self._log_odds(*(part[i : i + _ROWS] for part in levels)) for i in pieces]
        odds[inside] = np.concatenate([np.zeros(0), *logits])
        return odds.reshape(probability.shape)


# Initial grid of log odds of levels, refined by `smallest`.
_ODDS = np.concatenate([-np.geomspace(700.0, 1e-3, 30), [0.0], np.geomspace(1e-3, 700.0, 30)])

# power - level is of the order of sqrt(gamma), 1e-140 here; gamma / order^2 is still positive in double precision.
# Smallest gamma used; smaller ones are replaced by this one, which overstates the risk.
_LEAST_GAMMA = 1e-280

# Divergences increase with the order, so a bound at a higher order holds at this one. Losses grow by log(1/level)/1e16.
# Largest order used; higher ones are replaced by this one.
_LARGEST_ORDER = 1e16

# Levels computed at a time: memory is proportional to the levels times the orders.
_ROWS = 4096


@dataclass(frozen=True)
class RenyiDP(MomentBound):
    """(alpha, gamma)-Renyi DP: the Renyi divergence of order alpha is at most gamma, in both directions.

    With several orders (a Renyi curve) each quantity is the best bound over the orders.

    Parameters
    ----------
    alpha : order, > 1; or distinct orders, (order,)
    gamma : nats, >= 0, per order; adds up over releases at the same orders

    >>> round(RenyiDP(2.0, 0.5).power(0.05), 6)
    0.22554
    >>> curve = RenyiDP([2.0, 8.0, 32.0], [0.2, 0.8, 3.2])
    >>> round(curve.epsilon(1e-6), 6), round(min(RenyiDP(a, 0.1 * a).epsilon(1e-6) for a in (2.0, 8.0, 32.0)), 6)
    (2.34305, 2.34305)
    """

    definition = "Renyi DP"
    meaning = "The Renyi divergence of order alpha between P and Q, either way, is at most gamma."
    conversion = (
        "RenyiDP implies ApproximateDP(g.epsilon(delta), delta) at every delta; "
        "a worst pair implies RenyiDP(alpha, g.worst_pair.renyi(alpha))"
    )

    alpha: Any
    gamma: Any

    def __post_init__(self) -> None:
        alpha, gamma = np.asarray(self.alpha), np.asarray(self.gamma)
        if alpha.ndim == 0 or gamma.ndim == 0:
            check_order(self.alpha)
            check_non_negative("gamma", self.gamma)
            for name in ("alpha", "gamma"):
                object.__setattr__(self, name, one_number(name, getattr(self, name)))
            return
        if alpha.ndim != 1 or alpha.shape != gamma.shape or not alpha.size:
            raise ValueError(
                f"alpha and gamma must be as many numbers, one at least, got shapes {alpha.shape} and {gamma.shape}"
            )
        for order in alpha:
            check_order(order)
        check_non_negative("gamma", self.gamma)
        if np.unique(alpha).size < alpha.size:
            raise ValueError(f"alpha must have every order once, got {alpha.tolist()}")
        rows = np.argsort(alpha)
        several = len(rows) > 1
        for name, values in (("alpha", alpha[rows]), ("gamma", gamma[rows])):
            object.__setattr__(self, name, tuple(map(float, values)) if several else float(values[0]))

    @property
    def orders(self) -> tuple[RenyiDP, ...]:
        """The guarantees at single orders."""
        if not isinstance(self.alpha, tuple):
            return (self,)
        return tuple(RenyiDP(a, g) for a, g in zip(self.alpha, self.gamma, strict=True))

    @property
    def name(self) -> str:
        if isinstance(self.alpha, tuple):
            first, last = (format_parameter(self.alpha[i]) for i in (0, -1))
            return f"Renyi differential privacy of {len(self.alpha)} orders from {first} to {last}"
        return f"Renyi differential privacy of order {format_parameter(self.alpha)}"

    @property
    def budget(self) -> dict[str, Any]:
        return {} if isinstance(self.alpha, tuple) else {"gamma": self.gamma}

    def scaled(self, factor: float) -> RenyiDP:
        return self._with([one.gamma * factor for one in self.orders])

    def _with(self, gammas: Sequence[Any]) -> RenyiDP:
        """Renyi DP of the same orders with other gammas."""
        return RenyiDP(self.alpha, gammas if isinstance(self.alpha, tuple) else gammas[0])

    def plus(self, other: Guarantee) -> RenyiDP | None:
        """Composition: gamma adds at each order; also with guarantees that bound divergences of all orders.

        Raises
        ------
        ValueError : Renyi DP of other orders
        """
        if isinstance(other, RenyiDP):
            if self.alpha != other.alpha:
                raise ValueError(
                    f"alpha must be the same for both, got {self.alpha} and {other.alpha}; "
                    "Renyi DP of an order holds at every lower order with the same gamma"
                )
            return self._with([a.gamma + b.gamma for a, b in zip(self.orders, other.orders, strict=True)])
        if other.implied_rho is None:
            return None
        return self._with([one.gamma + renyi_divergence(other, one.alpha) for one in self.orders])

    def multiple(self, times: int) -> RenyiDP:
        return self._with([times * one.gamma for one in self.orders])

    def implies(self, other: Guarantee) -> bool:
        """True for Renyi DP of the same orders with larger gammas; other guarantees by the worst pair."""
        if isinstance(other, RenyiDP) and self.alpha == other.alpha:
            return all(a.gamma <= tolerated(b.gamma) for a, b in zip(self.orders, other.orders, strict=True))
        return Guarantee.implies(self, other)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """exp((alpha - 1)(gamma - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1), or a total variation bound if smaller.

        Total variation is at most sqrt(gamma / 2) (Pinsker) and sqrt(1 - e^-gamma) (Bretagnolle and Huber).
        """
        e = check_number("epsilon", epsilon)
        lowest = np.ones(e.shape)
        for one in self.orders:
            a, g = one._finite_order
            with np.errstate(over="ignore"):
                moment = np.exp(np.minimum((a - 1.0) * (g - np.abs(e)) + one._log_share, 0.0))
            variation = min(np.sqrt(g / 2.0), np.sqrt(-np.expm1(-g)))
            lowest = np.minimum(lowest, np.minimum(moment, variation))
        return scalar_or_array(delta_at_negative(e, lowest))

    @property
    def _finite_order(self) -> tuple[float, float]:
        """(alpha, gamma) within numerical range; they are implied, since divergences increase with the order."""
        return min(self.alpha, _LARGEST_ORDER), max(self.gamma, _LEAST_GAMMA) if self.gamma else 0.0

    @property
    def _log_share(self) -> float:
        """log((1 - 1/alpha)^alpha / (alpha - 1))."""
        a, _ = self._finite_order
        return float(a * np.log1p(-1.0 / a) - np.log(a - 1.0))

    def log_level(self, power: float) -> float:
        """Log of the level from the profile; in closed form if the level underflows, as for orders close to 1.

        e^-e (power - delta(e)) is largest where the moment bound on delta(e) equals power / alpha.
        """
        log_level = super().log_level(power)
        if log_level > -np.inf or power == 0.0:
            return log_level
        if isinstance(self.alpha, tuple):
            return max(one.log_level(power) for one in self.orders)
        a, g = self._finite_order
        log_power = float(np.log(power))
        return float(log_power + np.log1p(-1.0 / a) - g - (self._log_share + np.log(a) - log_power) / (a - 1.0))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """General rule for a profile; for large e it is Markov's inequality, (1 + e^-e) e^((alpha - 1)(gamma - e))."""
        return 0.0 if any(one.gamma == 0.0 for one in self.orders) else loss_bound_from_profile(self, failure)

    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        lowest = np.full(log_level.shape, np.inf)
        for one in self.orders:
            a, g = map(as_array, one._finite_order)
            odds = log_odds_of_one_order(log_level, log_rest, a - 1.0, g) if one.gamma else log_level - log_rest
            lowest = np.minimum(lowest, odds)
        return lowest

    def group(self, size: int) -> Guarantee:
        """1 - 1/alpha becomes (1 - 1/alpha)^size, gamma becomes gamma (alpha - 1)((1 - 1/alpha)^-size - 1).

        Each step uses the weak triangle inequality (Mironov 2017), D_a(P, Q) <= (a - 1/p) / (a - 1) D_pa(P, R) +
        D_(q (a - 1/p))(R, Q) for 1/p + 1/q = 1, with the p at which no order exceeds alpha. It holds at every alpha,
        and gives size^2 rho for zCDP as orders grow. `NoPrivacy` if no order above 1 remains.
        """
        if isinstance(self.alpha, tuple):
            groups = [one for single in self.orders if isinstance(one := single.group(size), RenyiDP)]
            return RenyiDP(*zip(*((one.alpha, one.gamma) for one in groups), strict=True)) if groups else NoPrivacy()
        n, a = int(check_whole("size", size, minimum=1)), float(self.alpha)
        log_share = n * np.log1p(-1.0 / a)
        order = float(-1.0 / np.expm1(log_share))
        if n == 1 or order <= 1.0:
            return self if n == 1 else NoPrivacy()
        return RenyiDP(order, float(self.gamma) * (a - 1.0) * float(np.expm1(-log_share)))

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        return all(
            side.renyi(one.alpha) <= tolerated(one.gamma, 1e-14 / min(one.alpha - 1.0, 1.0))
            for one in self.orders
            for side in loss.directions
        )


def renyi_divergence(guarantee: Guarantee, alpha: float) -> float:
    """Largest Renyi divergence of an order that a guarantee allows, in the worse direction, in nats.

    Parameters
    ----------
    guarantee : pure, concentrated, Gaussian or Renyi DP (of an order at least as high), or a privacy loss
    alpha : order, > 1

    Returns
    -------
    Divergence in nats.

    Raises
    ------
    TypeError : a guarantee that bounds no divergence of this order

    References: Mironov 2017, Proposition 9 (an order bounds every lower one); Bun and Steinke 2016, Definition 1.1.

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> renyi_divergence(ZeroConcentratedDP(0.1), 8.0)
    0.8
    """
    check_order(alpha)
    if isinstance(guarantee, RenyiDP):
        gammas = [one.gamma for one in guarantee.orders if one.alpha >= alpha]
        if gammas:
            return float(min(gammas))
        raise TypeError(f"{guarantee!r} bounds no divergence of order {alpha:g}: its orders are lower")
    if type(guarantee).worst_pair is not Guarantee.worst_pair and np.isfinite(guarantee.loss_bound(0.0)):
        return float(max(one.renyi(alpha) for one in guarantee.worst_pair.directions))
    if guarantee.implied_rho is not None:
        return float(guarantee.implied_rho) * alpha
    if isinstance(guarantee, PrivacyLoss):
        return float(max(one.renyi(alpha) for one in guarantee.directions))
    raise TypeError(
        f"{guarantee.definition} bounds no Renyi divergence{f': {guarantee.conversion}' * bool(guarantee.conversion)}"
    )
