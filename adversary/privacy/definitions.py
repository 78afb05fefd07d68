"""The privacy definitions, each a leaf of `Guarantee`: what it promises in two formulas, and what would break it.

Definitions and conversions: Kazan and Reiter 2024, sections 2 and 3; Bun and Steinke 2016; Canonne, Kamath and
Steinke 2020 (Proposition 12) for the tight profile of zCDP; Dong, Roth and Su 2022 for Gaussian DP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from adversary._numeric import (
    as_array,
    check_non_negative,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    scalar_or_array,
    solve_decreasing,
)
from adversary.privacy.guarantees import TOLERANCE, Guarantee, delta_at_negative, loss_bound_from_profile
from adversary.privacy.losses import PrivacyLoss


def _both(loss: PrivacyLoss) -> tuple[PrivacyLoss, PrivacyLoss]:
    return loss, loss.swapped


def _delta_certified(loss: PrivacyLoss, epsilon: float) -> float:
    """A lower bound on the profile, worse direction: what a mechanism certainly fails to keep below."""
    return max(float(side.bracket.delta(epsilon)[0]) for side in _both(loss))


@dataclass(frozen=True)
class PureDP(Guarantee):
    """Pure epsilon-DP: |L| <= epsilon always.

    Parameters
    ----------
    epsilon0 : nats, >= 0

    >>> PureDP(1.0).posterior_bounds(0.5)[1].__round__(6)
    0.731059
    """

    epsilon0: float

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon0)

    @property
    def definition(self) -> str:
        return "pure DP"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        e = as_array(epsilon)
        # the profile of randomised response, the worst mechanism: (e^e0 - e^e) / (1 + e^e0)
        inside = -np.expm1(np.minimum(e, self.epsilon0) - self.epsilon0) / (1.0 + np.exp(-self.epsilon0))
        return scalar_or_array(np.where(e >= -self.epsilon0, inside, -np.expm1(np.minimum(e, 0.0))))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        check_probability("failure", failure)
        return float(self.epsilon0)

    def group(self, size: int) -> PureDP:
        return PureDP(int(check_whole("size", size, minimum=1)) * self.epsilon0)

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        return all(side.maximum <= self.epsilon0 * (1 + TOLERANCE) + 1e-14 for side in _both(loss))


@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S.

    Parameters
    ----------
    epsilon0 : nats, >= 0
    delta0 : probability in [0, 1)
    """

    epsilon0: float
    delta0: float

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon0)
        if not float(check_probability("delta", self.delta0)) < 1.0:
            raise ValueError(f"delta must be in [0, 1), got {self.delta0}")

    @property
    def definition(self) -> str:
        return "approximate DP"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return scalar_or_array(self.delta0 + (1.0 - self.delta0) * as_array(PureDP(self.epsilon0).delta(epsilon)))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """Theorem 3.9: epsilon + log1p(delta (1 + e^-epsilon) / (failure - delta)), for failure > delta."""
        failure = float(check_probability("failure", failure))
        if self.delta0 == 0.0:
            return float(self.epsilon0)
        if failure - self.delta0 <= 1e-15 * self.delta0:
            return float("inf")
        return float(self.epsilon0 + np.log1p(self.delta0 * (1 + np.exp(-self.epsilon0)) / (failure - self.delta0)))

    def group(self, size: int) -> Guarantee:
        """(size epsilon, delta (1 + e^epsilon + ... + e^((size - 1) epsilon)))."""
        n = int(check_whole("size", size, minimum=1))
        delta = self.delta0 * float(np.exp(self.epsilon0 * np.arange(n)).sum())
        return ApproximateDP(n * self.epsilon0, delta) if delta < 1.0 else NoPrivacy()

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        if self.delta0 == 0.0:
            return PureDP(self.epsilon0).is_kept_by(loss)
        return _delta_certified(loss, self.epsilon0) <= self.delta0 * (1 + TOLERANCE) + 1e-300


@dataclass(frozen=True)
class ProbabilisticDP(Guarantee):
    """(epsilon, delta)-probabilistic DP: P(|L| > epsilon) <= delta under both truths, of the release itself.

    Its bounds do not survive post-processing. It implies (epsilon, delta)-DP, which does.
    """

    epsilon0: float
    delta0: float

    def __post_init__(self) -> None:
        ApproximateDP(self.epsilon0, self.delta0)

    @property
    def definition(self) -> str:
        return "probabilistic DP"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return ApproximateDP(self.epsilon0, self.delta0).delta(epsilon)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        return float(self.epsilon0) if float(check_probability("failure", failure)) >= self.delta0 else float("inf")

    def group(self, size: int) -> Guarantee:
        """Through (epsilon, delta)-DP: the probabilistic form itself does not compose over records."""
        return (
            self if check_whole("size", size, minimum=1) == 1 else ApproximateDP(self.epsilon0, self.delta0).group(size)
        )

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        edge = self.epsilon0 * (1 + TOLERANCE)
        if loss.bracket.lower is loss.bracket.upper:
            outside = max(loss.tail(edge)[i] + loss.swapped.tail(edge)[1 - i] for i in (0, 1))
        else:  # a bracket certifies P's tails only: from below, P(L > e) + 1 - P(L >= -e)
            inner = float(np.nextafter(-edge, -np.inf))
            outside = max(
                side.bracket.lower.tail(edge)[0] + 1.0 - side.bracket.upper.tail(inner)[0] for side in _both(loss)
            )
        return bool(outside <= self.delta0 * (1 + TOLERANCE) + 1e-300)


@dataclass(frozen=True)
class ZeroConcentratedDP(Guarantee):
    """rho-zCDP: the Renyi divergence of every order alpha > 1 is at most rho alpha.

    Parameters
    ----------
    rho : nats, >= 0; rho adds up over releases
    """

    rho: float

    def __post_init__(self) -> None:
        check_non_negative("rho", self.rho)

    @property
    def definition(self) -> str:
        return "zCDP"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """inf over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)."""
        e = as_array(epsilon)
        return scalar_or_array(np.minimum(1.0, delta_at_negative(e, np.exp(self._log_delta(np.abs(e))))))

    def _log_delta(self, epsilon: Any) -> Any:
        rho = float(self.rho)
        if rho == 0.0:
            return np.full_like(epsilon, -np.inf)
        centre = np.log(np.maximum(epsilon - rho, 0.0) / (2.0 * rho) + 1.0 / np.sqrt(2.0 * rho))
        gap = np.exp(centre[..., None] + np.linspace(-16.0, 8.0, 481))  # alpha - 1, on a log grid about the minimum

        def value(a: Any) -> Any:
            with np.errstate(over="ignore"):
                return a * ((a + 1) * rho - epsilon[..., None]) - (a + 1) * np.log1p(1.0 / a) - np.log(a)

        for width in (0.05, 5e-4, 5e-6):
            best = np.take_along_axis(gap, np.argmin(value(gap), -1)[..., None], -1)
            gap = best * np.exp(np.linspace(-width, width, 201))
        return np.minimum(value(gap).min(-1), 0.0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """Smallest e > rho with (1 + e^-e) exp(-(e - rho)^2 / (4 rho)) <= failure.

        Markov's inequality on exp((alpha - 1) L), best alpha; it is also what the tight profile gives.
        """
        failure, rho = float(check_probability("failure", failure)), float(self.rho)
        if rho == 0.0 or failure >= 1.0:
            return 0.0
        if failure == 0.0:
            return float("inf")
        return solve_decreasing(
            lambda e: float(np.logaddexp(0.0, -e) - (e - rho) ** 2 / (4 * rho) - np.log(failure)), rho, 2 * rho + 1.0
        )

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(int(check_whole("size", size, minimum=1)) ** 2 * self.rho)

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        """Checks the definition itself: the profile implied by zCDP is above every mechanism's for a while."""
        scaled = np.geomspace(1e-3, 10.0, 60) / np.sqrt(max(self.rho, 1e-300))
        gaps = np.unique(np.concatenate([scaled, np.geomspace(1e-4, 1.0, 30), np.arange(1, 9)]))
        gaps = gaps[gaps < 1e12]
        return all(
            side.renyi(1.0 + a) <= self.rho * (1.0 + a) * (1 + TOLERANCE) + 1e-14 / a
            for side in _both(loss)
            for a in gaps
        )


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-Gaussian DP: no easier to tell P from Q than N(mu, 1) from N(0, 1). A discrete Gaussian has none."""

    mu: float

    def __post_init__(self) -> None:
        check_non_negative("mu", self.mu)

    @property
    def definition(self) -> str:
        return "Gaussian DP"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)."""
        e, mu = as_array(epsilon), self.mu
        if mu == 0.0:
            return scalar_or_array(np.maximum(0.0, -np.expm1(e)))
        upper, lower = log_ndtr(mu / 2 - e / mu), e + log_ndtr(-mu / 2 - e / mu)
        alive = np.isfinite(upper)
        gap = np.where(alive, lower - np.where(alive, upper, 0.0), 0.0)
        return scalar_or_array(np.exp(upper) * -np.expm1(np.minimum(gap, 0.0)))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        return 0.0 if self.mu == 0.0 else loss_bound_from_profile(self, failure)

    def group(self, size: int) -> GaussianDP:
        return GaussianDP(int(check_whole("size", size, minimum=1)) * self.mu)

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        e = self.mu**2 / 2 + max(self.mu, 1e-12) * np.linspace(-8.0, 8.0, 641)
        kept = as_array(self.delta(e)) * (1 + 1e-7) + 1e-14
        return all(bool(np.all(as_array(side.bracket.delta(e)[0]) <= kept)) for side in _both(loss))


@dataclass(frozen=True)
class NoPrivacy(Guarantee):
    """No promise at all: every posterior is possible."""

    @property
    def definition(self) -> str:
        return "no privacy"

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return scalar_or_array(np.ones_like(as_array(epsilon)))

    @elementwise
    def loss_bound(self, failure: float) -> float:
        return 0.0 if float(check_probability("failure", failure)) >= 1.0 else float("inf")

    def group(self, size: int) -> NoPrivacy:
        check_whole("size", size, minimum=1)
        return self

    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        return True
