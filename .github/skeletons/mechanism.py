"""Skeleton of a mechanism: copy it to `adversary/privacy/mechanisms/`, then change the law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import log_expit

from adversary._core import TAIL_NATS, Floats, Integers, check_non_negative, check_scale, check_whole, format_number
from adversary.privacy.definitions import PureDP, pure_rho
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, repeat_loss
from adversary.privacy.mechanisms.additive import IntegerNoise, tail_radius_of_sum
from adversary.privacy.mechanisms.calibrated import Exact
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of


@dataclass(frozen=True, slots=True)
class DiscreteLogistic(IntegerNoise):
    """Discrete logistic noise: P(noise >= k) = 1 / (1 + exp((k - 1/2) / s)), k any integer: pure DP of 1 / s.

    Parameters
    ----------
    scale : s > 0, in people

    References
    ----------
    Chakraborty and Chakravarty (2016), "A new discrete probability distribution with integer support on (-oo, oo)",
    Communications in Statistics - Theory and Methods 45.

    >>> noise = DiscreteLogistic(2.0)
    >>> round(noise.privacy_loss().epsilon(0.0), 6)
    0.5
    """

    # What additive noise may say of itself; laws of the catalogue compare it with `log_noise`. Scenario files know the
    # mechanism once it says kind = "logistic" and parameters = ("scale",).
    log_concave = True

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    def describe(self) -> str:
        return f"discrete logistic, scale = {format_number(self.scale)}"

    @property
    def nominal_guarantee(self) -> Guarantee:
        return PureDP(1.0 / self.scale)

    @property
    def tail_rate(self) -> float:
        return 1.0 / self.scale

    def rho(self, change: float = 1) -> float:
        """That of any pure DP."""
        return pure_rho(float(check_non_negative("change", change)) / self.scale)

    @property
    def variance(self) -> float:
        k = self.support(0).astype(np.float64)
        return float((k * k) @ np.exp(self.log_noise(k)))

    def log_noise(self, offset: Any) -> Any:
        sides = log_expit((offset + 0.5) / self.scale) + log_expit((0.5 - offset) / self.scale)
        return sides + np.log(-np.expm1(-1.0 / self.scale))

    def log_survival(self, offset: Integers) -> Floats:
        return np.asarray(log_expit((0.5 - offset) / self.scale), dtype=np.float64)

    def tail_radius(self, nats: float = TAIL_NATS) -> int:
        return tail_radius_of_sum(self, nats, int(np.ceil(self.scale * (nats + 2.0))) + 1)

    def total(self, count: int) -> Mechanism:
        n = int(check_whole("count", count, minimum=0))
        if n > 1:
            raise ValueError(f"count must be at most 1, got {n}: the law of a sum of logistic noises is not derived")
        return self if n else Exact()

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale / root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Listed up to exp(-700); what is left out has no larger loss, as the logarithm is concave."""
        change, n = self.change(sensitivity, cells)
        shift, k = int(check_whole("sensitivity", change, minimum=0)), self.tail_radius(700.0)
        offset = np.arange(-k, k + shift + 1.0)
        return repeat_loss(LatticeLoss.from_log_probs(self.log_noise(offset - shift), self.log_noise(offset)), n)
