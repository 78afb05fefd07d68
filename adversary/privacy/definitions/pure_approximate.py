"""Pure, approximate and probabilistic differential privacy, and the absence of privacy: subclasses of `Guarantee`.

Definitions and conversions: Kazan et al. 2025, sections 2 and 3; trade-offs: Kifer et al. 2022, Theorems 6.1 and
6.2; worst pairs: Kairouz, Oh and Viswanath 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from adversary._core import (
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions.concentrated_bounds import pure_rho
from adversary.privacy.definitions.conversions import check_delta, power_bounds, probabilistic_epsilon
from adversary.privacy.guarantee import Guarantee, group_of, no_privacy
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.profiles import tolerated


def _outside_certified(loss: PrivacyLoss, epsilon: float) -> float:
    """Lower bound on P(|L| > epsilon); exact for losses with an exact distribution."""
    beyond, at_most = loss.bracket.tail(epsilon)
    if beyond == at_most:
        return float(beyond + loss.swapped.tail(epsilon)[1])
    return float(beyond + 1.0 - loss.bracket.tail(-tolerated(epsilon, 1e-14))[1])


class EpsilonDelta(Guarantee):
    """Pure and approximate DP: the definitions by epsilon and delta that compose and survive post-processing."""

    __slots__ = ()

    epsilon0: float
    delta0: float

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon0)
        check_delta("delta", self.delta0)
        for name, x in self.parameters.items():
            object.__setattr__(self, f"{name}0", one_number(name, x))

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """delta + (1 - delta) times the profile of randomised response, (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)."""
        e = check_number("epsilon", epsilon)
        with np.errstate(over="ignore"):
            gap = np.minimum(e, self.epsilon0) - self.epsilon0
        inside = -np.expm1(gap) / (1.0 + np.exp(-self.epsilon0))
        pure = np.where(e >= -self.epsilon0, inside, -np.expm1(np.minimum(e, 0.0)))
        return scalar_or_array(self.delta0 + (1.0 - self.delta0) * pure)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta), 1); Kifer et al., Theorem 6.2 (6.1 at delta 0)."""
        return power_bounds(self.epsilon0, self.delta0, level)[1]

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Inverse of `power`: max(e^-epsilon (r - delta), 1 - delta - e^epsilon (1 - r), 0)."""
        return power_bounds(self.epsilon0, self.delta0, check_probability("power", power))[0]

    @property
    def worst_pair(self) -> LatticeLoss:
        """Randomised response that reveals its input with probability delta: four outcomes, two of infinite loss."""
        e = float(self.epsilon0)
        losses = np.array([-e, e] if e > 0.0 else [0.0])
        log_p = np.log1p(-self.delta0) + (log_expit(losses) if e > 0.0 else losses)
        return LatticeLoss(losses, log_p, log_p[::-1], float(self.delta0), float(self.delta0), blur=0.0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """epsilon + log1p(delta (1 + e^-epsilon) / (failure - delta)), failure > delta; Kazan et al., Theorem 3.9."""
        failure = float(check_probability("failure", failure))
        if self.delta0 > 0.0 and failure <= self.delta0:
            return float("inf")
        return float(probabilistic_epsilon(self.epsilon0, self.delta0, failure))

    @property
    def auc(self) -> float:
        return self.worst_pair.auc

    def group(self, size: int) -> Guarantee:
        """Iterated trade-off: stronger than (size epsilon, delta (1 + e^epsilon + ... + e^((size - 1) epsilon)))-DP."""
        return group_of(self, size)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """Pure DP: no loss exceeds epsilon. Approximate DP: no certified lower bound on the profile exceeds delta."""
        if self.delta0 == 0.0:
            return all(side.maximum <= tolerated(self.epsilon0, 1e-14) for side in loss.directions)
        least = max(float(side.bracket.delta(self.epsilon0)[0]) for side in loss.directions)
        return bool(least <= tolerated(self.delta0))


@dataclass(frozen=True)
class PureDP(EpsilonDelta):
    """Pure epsilon-DP: |L| <= epsilon with certainty.

    Parameters
    ----------
    epsilon0 : nats, >= 0

    >>> PureDP(1.0).posterior_bounds(0.5)[1].__round__(6)
    0.731059
    """

    definition = kind = "pure DP"
    name = "pure differential privacy"
    meaning = "P(S) <= exp(epsilon) Q(S) for every event S, and the same with P and Q exchanged."
    delta0 = 0.0

    epsilon0: float

    @property
    def implied_rho(self) -> float:
        return pure_rho(self.epsilon0)

    def scaled(self, factor: float) -> PureDP:
        return PureDP(self.epsilon0 * float(np.sqrt(factor)))


@dataclass(frozen=True)
class ApproximateDP(EpsilonDelta):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S.

    Parameters
    ----------
    epsilon0 : nats, >= 0
    delta0 : probability in [0, 1)
    """

    definition = kind = "approximate DP"
    name = "approximate differential privacy"
    meaning = "P(S) <= exp(epsilon) Q(S) + delta for every event S, and the same with P and Q exchanged."

    epsilon0: float
    delta0: float

    def scaled(self, factor: float) -> ApproximateDP:
        root = float(np.sqrt(factor))
        return ApproximateDP(self.epsilon0 * root, min(self.delta0 * root, 1.0))


@dataclass(frozen=True)
class ProbabilisticDP(Guarantee):
    """(epsilon, delta)-probabilistic DP: P(|L| > epsilon) <= delta under both hypotheses, for the release itself.

    Its bounds do not survive post-processing. It implies (epsilon, delta)-DP, which does.

    Parameters
    ----------
    epsilon0 : nats, >= 0
    delta0 : probability in [0, 1)
    """

    definition = kind = "probabilistic DP"
    name = "probabilistic differential privacy"
    meaning = "The privacy loss L = log(P / Q) has |L| <= epsilon with probability 1 - delta under either truth."
    conversion = "ProbabilisticDP(epsilon, delta) implies ApproximateDP(epsilon, delta), its `implied`"

    epsilon0: float
    delta0: float

    def __post_init__(self) -> None:
        checked = ApproximateDP(self.epsilon0, self.delta0)
        object.__setattr__(self, "epsilon0", checked.epsilon0)
        object.__setattr__(self, "delta0", checked.delta0)

    @property
    def implied(self) -> ApproximateDP:
        """(epsilon, delta)-DP, which survives post-processing; it supplies `delta`, `power` and `level`."""
        return ApproximateDP(self.epsilon0, self.delta0)

    @property
    def after_postprocessing(self) -> ApproximateDP:
        return self.implied

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return self.implied.delta(epsilon)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        return self.implied.power(level)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        return self.implied.level(power)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        return float(self.epsilon0) if float(check_probability("failure", failure)) >= self.delta0 else float("inf")

    def group(self, size: int) -> Guarantee:
        """Group privacy of `implied`: probabilistic DP itself does not extend to groups."""
        return self if check_whole("size", size, minimum=1) == 1 else self.implied.group(size)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        edge = tolerated(self.epsilon0)
        outside = max(_outside_certified(side, edge) for side in loss.directions)
        return bool(outside <= tolerated(self.delta0))


@dataclass(frozen=True)
class NoPrivacy(Guarantee):
    """No guarantee: every posterior is possible."""

    definition = name = "no privacy"
    meaning = ""
    vacuous = True

    @property
    def worst_pair(self) -> LatticeLoss:
        """Loss of a release that reveals its input: infinite with probability one, under both hypotheses."""
        return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.0)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return scalar_or_array(np.ones_like(check_number("epsilon", epsilon)))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        return 0.0 if float(check_probability("failure", failure)) >= 1.0 else float("inf")

    def plus(self, other: Guarantee) -> NoPrivacy:
        return self

    def group(self, size: int) -> NoPrivacy:
        check_whole("size", size, minimum=1)
        return self

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        return True


@no_privacy.register
def _(guarantee: Guarantee) -> NoPrivacy:
    del guarantee
    return NoPrivacy()
