"""Calibration of noise: Gaussian noise for (epsilon, delta)-DP, and noise families for target risks.

The loss of a Gaussian release depends on mu = sensitivity / sigma alone, and its profile is exact. The classical rule
mu = epsilon / sqrt(2 log(1.25 / delta)) is proved for epsilon < 1 only. It adds too much noise there, and too little
beyond some epsilon, 8.42 at delta 1e-5; Liu, He, Chanyaswad, Wang and Mittal (2019, section 4.3) use it at every
epsilon. A `NoiseFamily` computes the parameter at which the best test reaches a given point, F-score or posterior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from adversary._core import Floats, check_non_negative, over_labels, solve_decreasing
from adversary.privacy.definitions import ApproximateDP, GaussianDP, PureDP, check_delta
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import GaussianLoss

# Relative rounding: a target this little below the smallest attainable risk counts as attainable.
SLACK = 1e-12


def gaussian_mu(epsilon: ArrayLike, delta: ArrayLike, method: str = "exact") -> Any:
    """Largest mu whose Gaussian release is (epsilon, delta)-DP; the standard deviation is sensitivity / mu.

    Parameters
    ----------
    epsilon : nats, >= 0
    delta : in [0, 1); Gaussian noise has no delta of 0, so mu is 0 there
    method : "exact", the root of the exact profile, rounded to the safe side; or "classical", epsilon /
        sqrt(2 log(1.25 / delta)), whose true delta may be far below the argument, or above it

    Returns
    -------
    mu, of the broadcast shape; labels are preserved.

    Raises
    ------
    ValueError : an argument out of range, or an unknown method

    >>> round(1.0 / gaussian_mu(1.0, 1e-5), 6), round(1.0 / gaussian_mu(1.0, 1e-5, method="classical"), 6)
    (3.730632, 4.844805)
    """
    return over_labels(lambda e, d: 1.0 / _scales(e, d, method), epsilon, delta)


def _scales(epsilon: Floats, delta: Floats, method: str) -> Floats:
    """sigma / sensitivity = 1 / mu."""
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, got {method!r}")
    scales = _METHODS[method](check_non_negative("epsilon", epsilon), check_delta("delta", delta))
    return np.asarray(scales, dtype=np.float64)


def _exact(epsilon: float, delta: float) -> float:
    if delta == 0.0:
        return float("inf")
    # At mu = 9 + sqrt(81 + 2 epsilon), mu / 2 - epsilon / mu = 9: the profile is 1 to rounding, Phi(-9) = 1e-19.
    certain = 1.0 / (9.0 + np.sqrt(81.0 + 2.0 * epsilon))
    return solve_decreasing(lambda scale: GaussianLoss(1.0 / scale).delta(epsilon) - delta, certain, 1.0)


def _classical(epsilon: float, delta: float) -> float:
    return float(np.sqrt(2.0 * np.log(1.25 / delta)) / epsilon) if delta > 0 and epsilon > 0 else float("inf")


_METHODS = {
    name: np.vectorize(rule, otypes=[np.float64]) for name, rule in (("exact", _exact), ("classical", _classical))
}


@dataclass(frozen=True)
class NoiseFamily(ABC):
    """Noise with one parameter, in which protection decreases; the formulas invert those of Liu et al. 2019.

    Arguments: r, prior odds against "in"; b2, beta squared; level and power of a test.
    """

    delta: float = 0.0
    unit: ClassVar[str] = "epsilon"

    @abstractmethod
    def through(self, level: Floats, power: Floats) -> Floats:
        """Smallest parameter whose trade-off curve reaches `power` at `level`."""

    @abstractmethod
    def from_odds(self, odds: Floats, r: Floats, b2: Floats) -> Floats:
        """Parameter at which the best F_beta is (1 + b2) o / (1 + (1 + b2) o), for odds o above `floor_odds`."""

    @abstractmethod
    def guarantee(self, parameter: float) -> Guarantee:
        """The guarantee of noise with this parameter."""

    def floor_odds(self, r: Floats, b2: Floats) -> Floats:
        """Odds o (see `from_odds`) of the F-score of the test that always decides "in"."""
        return 1.0 / r

    def capped(self, cap: Floats, r: Floats) -> tuple[Floats, Any]:
        """(largest parameter at which no posterior exceeds the cap, mask of caps for which there is one)."""
        ratio = r * cap / (1.0 - cap)
        return np.log(ratio), ratio >= 1.0 - SLACK

    def guarantee_at(self, parameter: float) -> Guarantee | None:
        """The guarantee of a finite parameter, otherwise None."""
        return self.guarantee(parameter) if np.isfinite(parameter) else None


class LaplaceNoise(NoiseFamily):
    """Laplace noise, with epsilon = sensitivity / scale."""

    def through(self, level: Floats, power: Floats) -> Floats:
        steep, shallow = np.log(power / level), np.log((1.0 - level) / (1.0 - power))
        between = -np.log(4.0 * level * (1.0 - power))
        return np.where(power <= 0.5, steep, np.where(level >= 0.5, shallow, between))

    def from_odds(self, odds: Floats, r: Floats, b2: Floats) -> Floats:
        return np.asarray(np.log(r * odds * (1.0 + b2 * odds)))

    def guarantee(self, parameter: float) -> Guarantee:
        return PureDP(parameter)


class AnyNoise(NoiseFamily):
    """Worst (epsilon, delta)-DP mechanism: power <= e^epsilon level + delta, and the same with hypotheses exchanged."""

    def through(self, level: Floats, power: Floats) -> Floats:
        steep = np.log(np.maximum(power - self.delta, 0.0) / level)
        return np.fmax(steep, np.log(np.maximum(1.0 - self.delta - level, 0.0) / (1.0 - power)))

    def floor_odds(self, r: Floats, b2: Floats) -> Floats:
        """The larger odds of two tests: decide "in" unless certain of "out"; decide "in" only if certain."""
        return np.maximum(1.0 / (r * (1.0 - self.delta)), self.delta / (b2 * (1.0 - self.delta)) if self.delta else 0.0)

    def from_odds(self, odds: Floats, r: Floats, b2: Floats) -> Floats:
        ratio = odds * (r + b2)
        return np.asarray(np.log(ratio - self.delta * (1.0 + ratio)))

    def capped(self, cap: Floats, r: Floats) -> tuple[Floats, Any]:
        epsilon, possible = super().capped(cap, r)
        return epsilon, possible & (self.delta == 0.0)

    def guarantee(self, parameter: float) -> Guarantee:
        return ApproximateDP(parameter, self.delta) if self.delta else PureDP(parameter)


class GaussianNoise(NoiseFamily):
    """Gaussian noise, with mu = sensitivity / sigma."""

    unit = "mu"

    def through(self, level: Floats, power: Floats) -> Floats:
        return np.asarray(ndtri(power) - ndtri(level))

    def from_odds(self, odds: Floats, r: Floats, b2: Floats) -> Floats:
        """The mu whose profile at the best test's threshold t, e^t = r F / (1 + b2 - F), is b2 F / (1 + b2 - F).

        In odds o: e^t = r o / (1 + b2 o), and the profile is b2 o / (1 + b2 o). For t < 0 the mirrored profile is used:
        1 - 1 / (r o) at -t.
        """
        t = np.log(r * odds / (1.0 + b2 * odds))
        delta = np.where(t >= 0.0, b2 * odds / (1.0 + b2 * odds), np.maximum(1.0 - 1.0 / (r * odds), 0.0))
        live = np.isfinite(t) & (delta < 1.0)
        return np.where(live, gaussian_mu(np.where(live, np.abs(t), 0.0), np.where(live, delta, 0.0)), np.inf)

    def capped(self, cap: Floats, r: Floats) -> tuple[Floats, Any]:
        epsilon, possible = super().capped(cap, r)
        return np.zeros_like(epsilon), possible

    def guarantee(self, parameter: float) -> Guarantee:
        return GaussianDP(parameter)


_FAMILIES: dict[str, type[NoiseFamily]] = {"laplace": LaplaceNoise, "any": AnyNoise, "gaussian": GaussianNoise}


def noise_family(mechanism: str, delta: float = 0.0) -> NoiseFamily:
    """Noise family of a name: "laplace", "gaussian" or "any"; only "any" takes a delta above 0."""
    if mechanism not in _FAMILIES:
        raise ValueError(f"mechanism must be one of {', '.join(map(repr, _FAMILIES))}, got {mechanism!r}")
    if check_delta("delta", delta) > 0.0 and mechanism != "any":
        raise ValueError(f'delta must be 0 unless mechanism is "any", got {delta} for {mechanism!r}')
    return _FAMILIES[mechanism](float(delta))
