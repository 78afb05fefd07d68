"""Staircase noise: a piecewise constant density, the pure DP mechanism of smallest expected error.

It is symmetric and decreases away from 0, but is not log-concave. For a change that is not a multiple of the step width
the largest loss occurs at a step near 0, not in the tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit

from adversary._core import (
    TAIL_NATS,
    Floats,
    check_non_negative,
    check_positive,
    check_probability,
    check_scale,
    check_whole,
    format_number,
    one_number,
)
from adversary.privacy.definitions import PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms.additive import ContinuousNoise
from adversary.privacy.mechanisms.calibrated import Calibrated, Exact, checked_change
from adversary.privacy.mechanisms.mechanism import MOST_VALUES, Mechanism, root_of

_LOG_HALF = -math.log(2.0)

# Lower limit of the optimal share, which underflows for very little noise.
_LEAST_SHARE = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, repr=False)
class Staircase(Calibrated, ContinuousNoise):
    """Staircase noise: a density that decreases by a factor e^-epsilon from step to step.

    The step width w is the sensitivity. With b = e^-epsilon and k = 0, 1, ... the density is

        f(x) = a b^k        for k w <= |x| < (k + gamma) w,
        f(x) = a b^(k + 1)  for (k + gamma) w <= |x| < (k + 1) w,    a = (1 - b) / (2 w (gamma + b (1 - gamma))).

    The default gamma = 1 / (1 + e^(epsilon / 2)) has the smallest mean absolute error of all epsilon-DP noise for a
    change of w.

    Parameters
    ----------
    epsilon : nats for a change of `sensitivity`, > 0
    gamma : share of a step before the density decreases, in [0, 1]; None for the optimal one
    sensitivity : step width w, in people

    References
    ----------
    Geng and Viswanath (2016), "The optimal noise-adding mechanism in differential privacy", IEEE Transactions on
    Information Theory 62(2), Theorems 3 and 4.

    >>> noise = Staircase(1.0)
    >>> round(noise.variance, 6), noise.privacy_loss().epsilon(0.0)
    (1.919682, 1.0)
    """

    kind = "staircase"
    parameters = ("epsilon",)

    epsilon: float
    gamma: float | None = None

    def __post_init__(self) -> None:
        Calibrated.__post_init__(self)
        object.__setattr__(self, "epsilon", check_scale("epsilon", self.epsilon))
        if self.gamma is not None:
            object.__setattr__(self, "gamma", float(check_probability("gamma", one_number("gamma", self.gamma))))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1, cells: int = 1) -> Self:
        """Noise for which a change of `sensitivity` in each of `cells` counts costs epsilon in all."""
        check_positive("epsilon", epsilon)
        sensitivity, cells = checked_change(sensitivity, cells)
        return cls(float(epsilon) / cells, sensitivity=sensitivity, cells=cells)

    def describe(self) -> str:
        return f"staircase, epsilon = {format_number(self.epsilon)}, gamma = {format_number(self.share)}"

    @property
    def share(self) -> float:
        """Gamma, by default the optimal one."""
        return max(float(expit(-0.5 * self.epsilon)), _LEAST_SHARE) if self.gamma is None else self.gamma

    @property
    def _log_ends(self) -> tuple[float, float]:
        """log gamma and log (1 - gamma)."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.share)), float(np.log1p(-self.share))

    def _log_density(self, falls: Floats) -> Floats:
        """Log density per step width after a number of decreases from the peak, in log space to avoid underflow."""
        (high, low), e = self._log_ends, self.epsilon
        mass = np.log(-np.expm1(-e)) + _LOG_HALF
        peak, fallen = mass - np.logaddexp(high, low - e), mass - np.logaddexp(high + e, low)
        return np.asarray(np.where(falls > 0, fallen - e * (falls - 1.0), peak), dtype=np.float64)

    @property
    def nominal_guarantee(self) -> Guarantee:
        return PureDP(self.epsilon * math.ceil(_widths(1.0, self.sensitivity)))

    @property
    def tail_rate(self) -> float:
        """Epsilon over the step width: the mean decrease of the log density per unit."""
        return float(self.epsilon / self.sensitivity)

    @property
    def variance(self) -> float:
        b, c, g = math.exp(-self.epsilon), -math.expm1(-self.epsilon), self.share
        # Means of the geometric step number k and of k^2.
        first, second = b / c, b * (1.0 + b) / c**2
        log_high, log_low = self._log_ends
        outside = float(expit(log_low - self.epsilon - log_high))
        inner = second + first * g + g**2 / 3.0
        outer = second + first * (1.0 + g) + (1.0 + g + g**2) / 3.0
        return float(self.sensitivity**2 * ((1.0 - outside) * inner + outside * outer))

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return float(self.sensitivity * np.ceil(nats / self.epsilon))

    def breaks(self, end: float) -> Floats:
        steps = np.ceil(end / self.sensitivity) + 1.0
        if steps > MOST_VALUES:
            raise ValueError(f"{self!r} has more than {MOST_VALUES:,} steps up to {end:.3g}: choose a larger epsilon")
        return np.asarray(self.sensitivity * (np.arange(steps) + self.share))

    def log_noise(self, offset: Floats) -> Floats:
        step, place = _step_and_place(offset, self.sensitivity)
        return np.asarray(self._log_density(step + (place >= self.share)) - np.log(self.sensitivity))

    def log_survival(self, offset: Floats) -> Floats:
        """log P(noise >= offset): the rest of a step plus all further steps, as positive terms in log space."""
        far = np.isinf(offset)
        step, place = _step_and_place(np.where(far, 0.0, offset), self.sensitivity)
        _, low = self._log_ends
        with np.errstate(divide="ignore"):
            rest = np.log(np.maximum(self.share - place, 0.0))
            behind = np.where(place >= self.share, np.log1p(-place), low)
        peak, fallen = self._log_density(np.array([0.0, 1.0]))
        lower = np.logaddexp(fallen + behind, _LOG_HALF - self.epsilon)
        near = np.minimum(np.logaddexp(peak + rest, lower), _LOG_HALF) - self.epsilon * step
        outer = np.where(far, -np.inf, near)
        return np.asarray(np.where(np.asarray(offset) >= 0, outer, np.log1p(-np.exp(outer))), dtype=np.float64)

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        """Random noise: a geometric step number, the inner or outer part of the step, a uniform place in it, a sign."""
        high, low = self._log_ends
        step = np.floor(rng.exponential(1.0, shape) / self.epsilon)
        outside = rng.random(shape) < expit(low - self.epsilon - high)
        u = rng.random(shape)
        place = np.where(outside, self.share + (1.0 - self.share) * u, self.share * u)
        return np.asarray(self.sensitivity * (step + place) * rng.choice((-1.0, 1.0), shape))

    def total(self, count: int) -> Mechanism:
        n = int(check_whole("count", count, minimum=0))
        if n > 1:
            raise ValueError(
                f"count must be at most 1, got {n}: the law of a sum of staircase noises is not derived. Read the "
                "siblings one by one, with a belief Each"
            )
        return self if n else Exact()

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon * root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Privacy loss: multiples of epsilon up to the change in step widths, rounded up, listed piece by piece.

        The loss is constant between the steps of both densities. Outside the two peaks it repeats with every step
        width, with masses that decrease by e^-epsilon.
        """
        change, n = self.change(sensitivity, cells)
        moved = _widths(float(check_non_negative("sensitivity", change)), self.sensitivity)
        if moved == 0.0:
            return compose_losses([])
        if moved > MOST_VALUES:
            raise ValueError(f"sensitivity must be at most {MOST_VALUES:,} steps of the noise, got {change}")
        falls_p, falls_q, log_width, outside = _pieces(moved, self.share)
        log_p = self._log_density(falls_p) + log_width
        log_p = np.where(outside, log_p - np.log(-np.expm1(-self.epsilon)), log_p)
        steps, place = np.unique(falls_q - falls_p, return_inverse=True)
        log_mass = np.full(steps.size, -np.inf)
        np.logaddexp.at(log_mass, place, log_p)
        losses = self.epsilon * steps
        return repeat_loss(LatticeLoss.from_losses(losses, log_mass, log_mass - losses), n)


def _widths(change: float, width: float) -> float:
    """Change in units of the step width; a whole number if it is one up to rounding."""
    moved = change / width
    whole = float(np.rint(moved))
    return whole if abs(moved - whole) <= 4e-16 * whole else moved


def _step_and_place(offset: Any, width: float) -> tuple[Floats, Floats]:
    """Number of whole steps in a distance from 0, and the remainder in step widths."""
    x = np.abs(np.asarray(offset, dtype=np.float64)) / width
    return np.floor(x), x - np.floor(x)


def _pieces(moved: float, share: float) -> tuple[Floats, Floats, Floats, Any]:
    """Pieces on which the densities of P, centred at `moved`, and of Q, centred at 0, are both constant.

    They extend from one step width below 0 to one above `moved`. Ends of pieces are stored as a base (a whole number,
    or one relative to `moved`) plus -1, 0 or 1 times the share, so that widths are exact for any share.

    Returns
    -------
    Numbers of decreases of P's and of Q's density from the peak, log widths, and a mask of pieces that repeat outwards.
    """
    last = math.ceil(moved) + 1
    about_q, about_p = np.arange(-last, last + 1.0), moved + np.arange(-last, last + 1.0)
    falls = [(about_q, about_q >= 0.0, 1.0), (about_q, about_q <= 0.0, -1.0)]
    falls += [(about_p, about_p >= moved, 1.0), (about_p, about_p <= moved, -1.0)]
    anchors = np.array([-1.0, 0.0, moved, moved + 1.0])
    base = np.concatenate([anchors, *(place[inside] for place, inside, _ in falls)])
    sign = np.concatenate([np.zeros(4), *(np.full(inside.sum(), one) for _, inside, one in falls)])
    owner = np.repeat(np.arange(5), [4, *(int(inside.sum()) for _, inside, _ in falls)])
    order = np.lexsort((sign, base, base + share * sign))
    base, sign, owner = base[order], sign[order], owner[order]
    width, piece = np.diff(base) + share * np.diff(sign), np.arange(base.size - 1)
    first, peak_q, peak_p, end = np.flatnonzero(owner == 0)
    # Decreases from the peak: steps already passed on its right, steps still ahead on its left.
    q, p = (
        np.cumsum(owner == right)[:-1] + (owner == right + 1).sum() - np.cumsum(owner == right + 1)[:-1]
        for right in (1, 3)
    )
    inside = (width > 0.0) & (piece >= first) & (piece < end)
    outside = (piece < peak_q) | (piece >= peak_p)
    with np.errstate(divide="ignore"):
        log_width = np.log(np.maximum(width, 0.0))
    return p[inside].astype(np.float64), q[inside].astype(np.float64), log_width[inside], outside[inside]
