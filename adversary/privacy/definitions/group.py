"""Group privacy of pure and approximate DP: the iterated trade-off for hypotheses that differ in several records.

If the trade-off F (level to power) holds for one record, then F o ... o F (k times) holds for k records, and no smaller
curve does (Dong, Roth and Su 2022, Theorem 2.14). For (epsilon, delta)-DP it is piecewise linear with k + 1 slopes, and
lies below the trade-off of the usual (k epsilon, delta_k)-DP: the largest loss is the same, most losses are smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from adversary._core import SMALLEST, Floats, as_array, check_whole, elementwise
from adversary.privacy.definitions.pure_approximate import ApproximateDP, EpsilonDelta, NoPrivacy, PureDP
from adversary.privacy.guarantee import Guarantee, group_of
from adversary.privacy.losses import AttainedGuarantee, LatticeLoss, PrivacyLoss
from adversary.privacy.profiles import tolerated

# Largest group whose iterated trade-off is listed segment by segment.
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class GroupPrivacy(AttainedGuarantee):
    """Pure or approximate DP for hypotheses that differ in `size` records, as `base.group(size)` returns it.

    power(level) = F(F(... F(level))), with F the power curve of `base`. `epsilon0` and `delta0` summarise it less
    sharply: the largest finite loss, in nats, and the probability of an infinite one.

    Parameters
    ----------
    base : guarantee for one record, PureDP or ApproximateDP with epsilon > 0
    size : number of records, >= 2, below the number at which nothing is guaranteed

    >>> two = PureDP(1.0).group(2)
    >>> round(two.power(0.1), 6), round(PureDP(2.0).power(0.1), 6)
    (0.732121, 0.738906)
    >>> two.loss_bound(0.0)
    2.0
    """

    base: EpsilonDelta
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.base, EpsilonDelta) or not self.base.epsilon0 > 0.0:
            raise TypeError(f"base must be PureDP or ApproximateDP with a positive epsilon, got {self.base!r}")
        object.__setattr__(self, "size", int(check_whole("size", self.size, minimum=2)))
        if not self.worst_pair.losses.size:
            raise ValueError(f"size must leave something guaranteed, got {self.size} records for {self.base!r}")

    @property
    def definition(self) -> str:
        return f"{self.base.definition}, groups of {self.size}"

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def meaning(self) -> str:
        return f"{self.base.meaning} That is of one record; {self.size} of them are {self.size} such steps."

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of `implied`: epsilon and, unless it is 0, delta."""
        return self.implied.parameters

    @property
    def budget(self) -> dict[str, float]:
        return self.base.budget

    def describe(self) -> str:
        return f"{self.base.describe()}, for groups of {self.size} records"

    @property
    def implied_rho(self) -> Any:
        return self.implied.implied_rho

    @cached_property
    def worst_pair(self) -> LatticeLoss:
        """Loss that attains the trade-off: steps of 2 epsilon from -size epsilon to size epsilon.

        For pure DP it is the loss of the geometric mechanism at counts that differ by `size`.
        """
        return _pair(self.base.epsilon0, self.base.delta0, self.size)

    @property
    def epsilon0(self) -> float:
        """Largest finite loss: size epsilon, or less if delta covers the largest losses."""
        return float(self.worst_pair.losses[-1])

    @property
    def delta0(self) -> float:
        """Probability of an infinite loss, delta (1 + e^epsilon + ... + e^((size - 1) epsilon)) while that is small."""
        return float(self.worst_pair.infinite_p)

    @property
    def implied(self) -> PureDP | ApproximateDP:
        """Guarantee of the same kind that follows, with a larger epsilon and delta."""
        return PureDP(self.epsilon0) if self.base.delta0 == 0.0 else ApproximateDP(self.epsilon0, self.delta0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """The smaller of the bounds from the profile and from `implied`; size epsilon at failure 0 of pure DP."""
        return min(float(self.worst_pair.loss_bound(failure)), float(self.implied.loss_bound(failure)))

    def group(self, size: int) -> Guarantee:
        return self.base.group(int(check_whole("size", size, minimum=1)) * self.size)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """Compares profiles at the losses of the worst pair: between them this profile is linear, any other convex."""
        at = self.worst_pair.losses
        most = tolerated(as_array(self.delta(at)), 1e-15)
        return self.implied.is_satisfied_by(loss) and all(
            bool(np.all(as_array(side.bracket.delta(at)[0]) <= most)) for side in loss.directions
        )


@group_of.register
def _(base: EpsilonDelta, size: int) -> Guarantee:
    """Guarantee of `base` for `size` records: itself for one, `NoPrivacy` if some test is always right.

    For more than `MOST_STEPS` records the usual (k epsilon, delta_k), which is weaker.
    """
    k = int(check_whole("size", size, minimum=1))
    epsilon, delta = base.epsilon0, base.delta0
    if k == 1 or epsilon == delta == 0.0:
        return base
    if epsilon == 0.0:
        return ApproximateDP(0.0, k * delta) if k * delta < 1.0 else NoPrivacy()
    if k > MOST_STEPS:
        with np.errstate(over="ignore"):
            infinite = float(delta * np.expm1(k * epsilon) / np.expm1(epsilon)) if delta else 0.0
        if infinite >= 1.0:
            return NoPrivacy()
        return ApproximateDP(k * epsilon, infinite) if delta else PureDP(k * epsilon)
    return GroupPrivacy(base, k) if _pair(epsilon, delta, k).losses.size else NoPrivacy()


def _pair(epsilon: float, delta: float, size: int) -> LatticeLoss:
    """The pair whose power is the k-fold iterate of F(a) = min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta), 1).

    F turns at c = (1 - delta) / (1 + e^epsilon), where it is 1 - c. The iterate turns at a_j = e^(-j epsilon) (c -
    delta (1 + ... + e^((j - 1) epsilon))), those j < k where that is positive, m of them; between a_j and a_(j-1) the
    loss is (2 j - k) epsilon, and j runs from k - m to m. The mass there is e^(w_j - j epsilon) under Q and
    e^(w_j - (k - j) epsilon) under P, w_j = w_(k - j), so that neither tail is a difference of masses near one.
    """
    k = size
    powers = epsilon * np.arange(k)
    with np.errstate(divide="ignore", over="ignore"):
        log_sums = np.log(delta) + np.append(-np.inf, np.logaddexp.accumulate(powers))
        log_corner = np.log1p(-delta) + log_expit(-epsilon)
        room = 1.0 - np.exp(log_sums[:k] - log_corner)
    m = int(np.count_nonzero(room > 0.0))
    j = np.arange(k - m, m + 1)
    # tanh(epsilon / 2) underflows to 0 for the smallest epsilon, but a mass of 0 has no logarithm.
    inner = np.log(max(np.tanh(epsilon / 2.0) + 2.0 * delta * expit(-epsilon), SMALLEST))
    weight = np.full(j.size, inner)
    if 2 * m > k:
        weight[[0, -1]] = np.log1p(-delta) + log_expit(epsilon) + np.log(room[m - 1])
    elif 2 * m == k:
        twice = min(2.0 * float(np.exp(log_sums[m])), 1.0)
        weight, j = (np.full(1, np.log1p(-twice)), j) if twice < 1.0 else (weight[:0], j[:0])
    log_p, log_q = weight - (k - j) * epsilon, weight - j * epsilon
    infinite = float(np.exp(log_sums[k])) if m == k else _remaining_mass(log_q)
    if infinite >= 1.0:
        j, log_p, log_q = j[:0], log_p[:0], log_q[:0]
    return LatticeLoss(as_array((2.0 * j - k) * epsilon), log_p, log_q, infinite, infinite, blur=0.0)


def _remaining_mass(log_mass: Floats) -> float:
    return max(0.0, 1.0 - float(np.exp(log_mass).sum()))
