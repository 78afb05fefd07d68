"""delta-approximate zCDP: zCDP except for events of probability delta, for example of noise with a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    logit,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions.concentrated_bounds import pure_rho
from adversary.privacy.definitions.conversions import check_delta
from adversary.privacy.definitions.moments import ZeroConcentratedDP
from adversary.privacy.definitions.pure_approximate import ApproximateDP
from adversary.privacy.definitions.renyi import MomentBound
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.profiles import delta_at_negative, loss_bound_from_profile, tolerated

# Renyi orders at which a loss is compared with the definition.
ORDERS = 1.0 + np.geomspace(1e-4, 1e5, 200)


@dataclass(frozen=True)
class ApproximateZCDP(MomentBound):
    """delta-approximate rho-zCDP: P = (1 - delta) P' + delta P'', Q likewise, and P', Q' are rho-zCDP.

    Parameters
    ----------
    rho : nats, >= 0; adds up over releases
    delta0 : in [0, 1); 1 - delta multiplies over releases

    References
    ----------
    Bun and Steinke 2016, Definition 8.1 and Lemma 8.2.

    >>> one = ApproximateZCDP(0.1, 1e-7)
    >>> round(one.epsilon(1e-6), 4), round((one + one).rho, 4), f"{(one + one).delta0:.3g}"
    (2.1518, 0.2, '2e-07')
    """

    definition = kind = "approximate zCDP"
    name = "approximate zero-concentrated differential privacy"
    meaning = (
        "But for probability delta, the Renyi divergence of every order alpha > 1 between P and Q, either way, is at "
        "most rho alpha."
    )
    conversion = "ApproximateZCDP implies ApproximateDP(g.epsilon(delta), delta) at every delta above its own"

    rho: float
    delta0: float

    def __post_init__(self) -> None:
        check_non_negative("rho", self.rho)
        check_delta("delta", self.delta0)
        for name, x in (("rho", self.rho), ("delta0", self.delta0)):
            object.__setattr__(self, name, one_number(name.rstrip("0"), x))

    @classmethod
    def of(cls, guarantee: Guarantee) -> ApproximateZCDP:
        """Approximate zCDP implied by a guarantee.

        Parameters
        ----------
        guarantee : approximate DP, whose worst pair is pure DP except with probability delta; or one that implies zCDP

        Raises
        ------
        TypeError : another guarantee
        """
        if isinstance(guarantee, cls):
            return guarantee
        if isinstance(guarantee, ApproximateDP):
            return cls(pure_rho(float(guarantee.epsilon0)), float(guarantee.delta0))
        if guarantee.implied_rho is None:
            raise TypeError(f"{guarantee.definition} implies no approximate zCDP, got {guarantee!r}")
        return cls(float(guarantee.implied_rho), 0.0)

    @property
    def concentrated(self) -> ZeroConcentratedDP:
        """zCDP at `rho`, the part of the guarantee that holds except with probability delta."""
        return ZeroConcentratedDP(self.rho)

    @property
    def implied_rho(self) -> float | None:
        """rho if delta is 0; otherwise None."""
        return self.rho if self.delta0 == 0.0 else None

    def scaled(self, factor: float) -> ApproximateZCDP:
        return ApproximateZCDP(self.rho * factor, self.delta0)

    def plus(self, other: Guarantee) -> ApproximateZCDP | None:
        """Composition with any guarantee that implies approximate zCDP: rho adds, 1 - delta multiplies."""
        try:
            second = ApproximateZCDP.of(other)
        except TypeError:
            return None
        return ApproximateZCDP(self.rho + second.rho, self.delta0 + (1.0 - self.delta0) * second.delta0)

    def multiple(self, times: int) -> ApproximateZCDP:
        return ApproximateZCDP(times * self.rho, float(-np.expm1(times * np.log1p(-self.delta0))))

    def implies(self, other: Guarantee) -> bool:
        """True for approximate zCDP with larger parameters; other guarantees by the worst pair."""
        if isinstance(other, ApproximateZCDP):
            return bool(self.rho <= tolerated(other.rho) and self.delta0 <= tolerated(other.delta0))
        return Guarantee.implies(self, other)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """delta + (1 - delta) times the profile of zCDP."""
        e = check_number("epsilon", epsilon)
        inside = as_array(self.concentrated.delta(np.abs(e)))
        return scalar_or_array(np.minimum(1.0, delta_at_negative(e, self.delta0 + (1.0 - self.delta0) * inside)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """delta + (1 - delta) times the power of zCDP at level / (1 - delta)."""
        a = check_probability("level", level)
        inside = as_array(self.concentrated.power(np.minimum(a / (1.0 - self.delta0), 1.0)))
        return scalar_or_array(np.clip(self.delta0 + (1.0 - self.delta0) * inside, a, 1.0))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """(1 - delta) times the level of zCDP at (power - delta) / (1 - delta); 0 for powers up to delta."""
        r = check_probability("power", power)
        inside = as_array(self.concentrated.level(np.clip((r - self.delta0) / (1.0 - self.delta0), 0.0, 1.0)))
        return scalar_or_array(np.minimum((1.0 - self.delta0) * inside, r))

    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        level = np.where(log_level < log_rest, np.exp(log_level), -np.expm1(log_rest))
        return np.asarray(logit(as_array(self.power(level))))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        if self.delta0 == 0.0:
            return float(self.concentrated.loss_bound(failure))
        return loss_bound_from_profile(self, failure) if failure > self.delta0 else float("inf")

    def group(self, size: int) -> Guarantee:
        """Group privacy of zCDP if delta is 0; otherwise through (epsilon, 2 delta)-DP."""
        n = int(check_whole("size", size, minimum=1))
        if n == 1:
            return self
        if self.delta0 == 0.0:
            return self.concentrated.group(n)
        spent = min(2.0 * self.delta0, 0.5 * (1.0 + self.delta0))
        return ApproximateDP(float(self.epsilon(spent)), spent).group(n)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """Listed losses: delta covers infinite losses, rho the rest. Others: zCDP alone, a sufficient condition."""
        law = loss.law
        if not isinstance(law, LatticeLoss) or max(law.infinite_p, law.infinite_q) == 0.0:
            return self.concentrated.is_satisfied_by(loss)
        if max(law.infinite_p, law.infinite_q) > tolerated(self.delta0):
            return False
        inside = np.log1p(-law.infinite_p), np.log1p(-law.infinite_q)
        if not np.isfinite(inside).all():
            return True
        finite = LatticeLoss(law.losses + inside[1] - inside[0], law.log_p - inside[0], law.log_q - inside[1])
        return all(
            side.renyi(float(a)) <= tolerated(self.rho * a, 1e-14 / (a - 1.0))
            for side in finite.directions
            for a in ORDERS
        )
