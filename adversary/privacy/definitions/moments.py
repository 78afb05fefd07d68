"""Zero-concentrated differential privacy (zCDP) and Gaussian differential privacy.

Definitions: Bun and Steinke 2016; Dong, Roth and Su 2022. Profile of zCDP: Canonne, Kamath and Steinke 2020,
Proposition 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
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
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions.concentrated_bounds import direct_loss_bound
from adversary.privacy.definitions.renyi import MomentBound
from adversary.privacy.definitions.renyi_power import log_odds_of_every_order
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import AttainedGuarantee, GaussianLoss, PrivacyLoss
from adversary.privacy.profiles import delta_at_negative, tolerated


@dataclass(frozen=True)
class ZeroConcentratedDP(MomentBound):
    """rho-zCDP: the Renyi divergence of every order alpha > 1 is at most rho alpha.

    Parameters
    ----------
    rho : nats, >= 0; rho adds up over releases

    >>> round(ZeroConcentratedDP(2.63).epsilon(1e-10), 4)
    17.4306
    """

    definition = kind = "zCDP"
    name = "zero-concentrated differential privacy (zCDP)"
    meaning = "The Renyi divergence of every order alpha > 1 between P and Q, either way, is at most rho alpha."
    conversion = (
        "ZeroConcentratedDP(rho) implies RenyiDP(alpha, rho * alpha) at every alpha > 1 "
        "and ApproximateDP(g.epsilon(delta), delta) at every delta"
    )

    rho: float

    def __post_init__(self) -> None:
        check_non_negative("rho", self.rho)
        rho = one_number("rho", self.rho)
        exact = isinstance(self.rho, Fraction | int) and float(self.rho) == rho
        object.__setattr__(self, "rho", self.rho if exact else rho)

    @property
    def implied_rho(self) -> Any:
        return self.rho

    def scaled(self, factor: float) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(self.rho * factor)

    def plus(self, other: Guarantee) -> ZeroConcentratedDP | None:
        """Composition with any guarantee that implies zCDP: rho adds."""
        rho = other.implied_rho
        return None if rho is None else ZeroConcentratedDP(self.rho + rho)

    def multiple(self, times: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(times * self.rho)

    def implies(self, other: Guarantee) -> bool:
        """True for zCDP with a larger rho; other guarantees by the worst pair."""
        if isinstance(other, ZeroConcentratedDP):
            return bool(self.rho <= tolerated(other.rho))
        return Guarantee.implies(self, other)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """inf over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)."""
        e = check_number("epsilon", epsilon)
        return scalar_or_array(np.minimum(1.0, delta_at_negative(e, np.exp(self._log_delta(np.abs(e))))))

    def _log_delta(self, epsilon: Any) -> Any:
        rho = float(self.rho)
        if rho == 0.0:
            return np.full_like(epsilon, -np.inf)
        # delta <= exp(-(epsilon - rho)^2 / (4 rho)), which is exp(-1600) = 0 at rho + 80 sqrt(rho).
        epsilon = np.minimum(epsilon, rho + 80.0 * np.sqrt(rho))
        # alpha - 1 on a logarithmic grid about (epsilon - rho) / (2 rho), the minimum without the last two terms.
        centre = np.log(np.maximum(epsilon - rho, 0.0) / rho / 2.0 + np.sqrt(0.5) / np.sqrt(rho))
        gap = np.exp(centre[..., None] + np.linspace(-16.0, 8.0, 481))

        def value(a: Any) -> Any:
            with np.errstate(over="ignore"):
                return a * ((a + 1) * rho - epsilon[..., None]) - (a + 1) * np.log1p(1.0 / a) - np.log(a)

        for width in (0.05, 5e-4, 5e-6):
            best = np.take_along_axis(gap, np.argmin(value(gap), -1)[..., None], -1)
            gap = best * np.exp(np.linspace(-width, width, 201))
        return np.minimum(value(gap).min(-1), 0.0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """Smallest e > rho with (1 + e^-e) exp(-(e - rho)^2 / (4 rho)) <= failure, by Markov's inequality."""
        return direct_loss_bound(self.rho, failure)

    @elementwise
    def pbdp_epsilon(self, delta: float) -> float:
        """rho + 2 sqrt(rho log(1 / delta)), Markov's inequality at the best alpha; or the general rule if smaller.

        The two agree for a small delta with epsilon + log(1 - 1 / alpha) >= 0. Otherwise the general rule is sharper,
        but slow, and out of its numerical range for rho of several hundred.
        """
        target = float(check_probability("delta", delta))
        if target == 0.0 or target == 1.0 or self.rho == 0.0:
            return self.loss_bound(0.0) if target == 0.0 else 0.0
        rho, spread = float(self.rho), float(np.sqrt(self.rho) * np.sqrt(-np.log(target)))
        epsilon = rho + 2.0 * spread
        if target < 0.25 and epsilon + np.log(spread / (rho + spread)) >= 0.0:
            return epsilon
        return min(epsilon, float(Guarantee.pbdp_epsilon(self, target)))

    def _log_odds(self, log_level: Floats, log_rest: Floats) -> Floats:
        return log_odds_of_every_order(log_level, log_rest, float(self.rho)) if self.rho else log_level - log_rest

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(int(check_whole("size", size, minimum=1)) ** 2 * self.rho)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        """Compares Renyi divergences with the definition, since the profile implied by zCDP is not attained."""
        scaled = np.geomspace(1e-3, 10.0, 60) / np.sqrt(max(float(self.rho), 1e-300))
        gaps = np.unique(np.concatenate([scaled, np.geomspace(1e-4, 1.0, 30), np.arange(1, 9)]))
        return all(
            side.renyi(1.0 + a) <= tolerated(self.rho * (1.0 + a), 1e-14 / a)
            for side in loss.directions
            for a in gaps[gaps < 1e12].tolist()
        )


@dataclass(frozen=True)
class GaussianDP(AttainedGuarantee):
    """mu-Gaussian DP: distinguishing P from Q is at least as hard as distinguishing N(mu, 1) from N(0, 1).

    delta(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu); power(a) = Phi(mu + Phi^-1(a)), with area Phi(mu / sqrt 2).
    A discrete Gaussian mechanism satisfies it for no mu.

    Parameters
    ----------
    mu : >= 0; squares add up over releases
    """

    definition = kind = "Gaussian DP"
    name = "Gaussian differential privacy"
    meaning = "Distinguishing P from Q is at least as hard as distinguishing N(mu, 1) from N(0, 1)."

    mu: float

    def __post_init__(self) -> None:
        check_non_negative("mu", self.mu)
        object.__setattr__(self, "mu", one_number("mu", self.mu))

    @property
    def implied_rho(self) -> float:
        return self.mu * self.mu / 2

    def scaled(self, factor: float) -> GaussianDP:
        return GaussianDP(self.mu * float(np.sqrt(factor)))

    def plus(self, other: Guarantee) -> GaussianDP | None:
        """Composition with Gaussian DP: mu^2 adds."""
        return GaussianDP(math.hypot(self.mu, other.mu)) if isinstance(other, GaussianDP) else None

    def multiple(self, times: int) -> GaussianDP:
        return GaussianDP(float(np.sqrt(times) * self.mu))

    @property
    def worst_pair(self) -> GaussianLoss:
        return GaussianLoss(self.mu)

    def loss_bound(self, failure: float) -> float:
        return self.worst_pair.loss_bound(failure)

    def group(self, size: int) -> GaussianDP:
        return GaussianDP(int(check_whole("size", size, minimum=1)) * self.mu)

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        e = self.implied_rho + max(self.mu, 1e-12) * np.linspace(-8.0, 8.0, 641)
        most = as_array(GaussianDP(tolerated(self.mu)).delta(e)) + 1e-14
        return all(bool(np.all(as_array(side.bracket.delta(e)[0]) <= most)) for side in loss.directions)
