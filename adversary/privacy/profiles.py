"""Quantities derived from a privacy profile alone: epsilon, level, area under the trade-off, bound on the loss.

Each is the best of many valid bounds, one per real epsilon, so that numerical errors overstate the risk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from adversary._core import (
    Floats,
    as_array,
    check_probability,
    scalar_or_array,
    smallest,
    solve_decreasing,
    solve_decreasing_each,
)


class Profile(Protocol):
    """Interface of guarantees used in this module; see `Guarantee`."""

    @property
    def swapped(self) -> Profile: ...
    @property
    def at_losses(self) -> Floats: ...
    def delta(self, epsilon: ArrayLike) -> Any: ...
    def worst_delta(self, epsilon: ArrayLike) -> Any: ...
    def power(self, level: ArrayLike) -> Any: ...
    def log_level(self, power: float) -> float: ...
    def loss_bound(self, failure: float) -> float: ...


TOLERANCE = 1e-9
"""Relative slack within which a guarantee counts as satisfied, so that rounding never rejects a true one."""


def tolerated(limit: Any, rounding: float = 0.0) -> Any:
    """Limit with a margin for rounding: values up to it count as within the limit.

    Parameters
    ----------
    limit : bound on a loss (nats), a probability or a divergence; any shape
    rounding : absolute rounding error, in the units of the limit

    Returns
    -------
    limit (1 + `TOLERANCE`) + rounding

    >>> tolerated(1.0) > 1.0 + 5e-10, tolerated(0.0)
    (True, 0.0)
    """
    return limit * (1.0 + TOLERANCE) + rounding


# exp(700) is close to the largest double. Neighbours differ by 12 %, and `smallest` refines between them.
_OUTER = np.geomspace(1e-9, 700.0, 240)

# Initial grid of losses in nats, symmetric and geometric about 0.
LOSSES = np.concatenate([-_OUTER[::-1], [0.0], _OUTER])


def epsilon_from_profile(guarantee: Profile, delta: ArrayLike) -> Any:
    """Smallest epsilon >= 0 at which the profile is at most delta, in the worse direction."""
    target = check_probability("delta", delta)
    wanted = target[target > 0.0]
    epsilon = np.full(target.shape, guarantee.loss_bound(0.0) if (target == 0.0).any() else 0.0)
    if wanted.size:
        epsilon[target > 0.0] = solve_decreasing_each(
            lambda e: as_array(guarantee.worst_delta(e)) - wanted, wanted.size
        )
    return scalar_or_array(epsilon)


def profile_both_signs(guarantee: Profile, e: Floats) -> Floats:
    """Profile of P against Q at e >= 0, of Q against P at -e otherwise; each computed only where needed."""
    value, ahead = np.empty(e.shape), e >= 0.0
    value[ahead], value[~ahead] = guarantee.delta(e[ahead]), guarantee.swapped.delta(-e[~ahead])
    return value


def smallest_over_losses(guarantee: Profile, bound: Callable[[Floats, Floats], Floats]) -> Floats:
    """Minimum over real e of a bound that depends on e and the profile at e, refined from `LOSSES`."""
    return smallest(lambda e: bound(e, profile_both_signs(guarantee, e)), LOSSES, bound(LOSSES, guarantee.at_losses))


def level_from_profile(guarantee: Profile, power: ArrayLike) -> Any:
    """Smallest level of a test with this power, from the profile alone: the maximum of exp(-e) (power - delta(e))."""
    r = check_probability("power", power)
    most = r[..., None]

    def bound(e: Floats, delta: Floats) -> Floats:
        size = np.exp(-e)
        return -np.where(e >= 0.0, size * (most - delta), 1.0 - delta - (1.0 - most) * size)

    return scalar_or_array(np.clip(-smallest_over_losses(guarantee, bound), 0.0, r))


def area_under(guarantee: Profile, points: int = 2601) -> float:
    """Integral of power over level = Phi(z) by the trapezium rule in z, spectrally accurate for smooth curves."""
    every = np.linspace(-13.0, 13.0, points)
    # The mass beyond is 2e-17.
    z = every[np.abs(every) <= 8.5]
    weight = np.exp(-0.5 * z * z) * (every[1] - every[0]) / np.sqrt(2.0 * np.pi)
    return float(np.clip(weight @ as_array(guarantee.power(ndtr(z))), 0.5, 1.0))


def tail_bound(side: Profile, epsilon: float) -> float:
    """Minimum of delta(e) / (1 - e^(e - epsilon)) over e < epsilon, in one direction."""

    def bound(log_gap: Floats) -> Floats:
        gap = np.exp(log_gap)
        return np.asarray(as_array(side.delta(epsilon - gap)) / -np.expm1(-gap))

    gaps = np.geomspace(1e-10 * max(1.0, abs(epsilon)), 2.0 * abs(epsilon) + 20.0, 400)
    return min(float(smallest(bound, np.log(gaps))), 1.0)


def loss_bound_from_profile(guarantee: Profile, failure: float) -> float:
    """Smallest e with (1 + e^-e) pbdp_delta(e) <= failure: the rule for a guarantee without a sharper theorem.

    One tail of the loss is at most pbdp_delta(e), the other at most e^-e times that (Kazan et al. 2025, proof of
    Theorem 3.9).
    """
    failure = float(check_probability("failure", failure))
    if failure >= 1.0:
        return 0.0
    # Half of the smallest double is 0 as well.
    if failure / 2.0 == 0.0:
        return float("inf")

    def needed(e: float) -> float:
        """pbdp_epsilon, in one direction, at the upper tail's share of the failure probability."""
        return tail_loss_bound(guarantee, failure / (1.0 + np.exp(-e)))

    # `needed` is decreasing, so the root lies between these two values, and `high` is never too small.
    low, high = needed(float("inf")), needed(0.0)
    for _ in range(60):
        if not high - low > 1e-15 * high:
            break
        secant = needed(high)
        low, high = max(low, secant), min(high, needed(max(low, secant)))
    return high


def tail_loss_bound(guarantee: Profile, share: float) -> float:
    """Largest loss up to probability `share`, log(share / level(share)), in one direction; rounded up."""
    start = float(np.log(share))
    return max(0.0, start - guarantee.log_level(share) + 4.5e-16 * abs(start))


def delta_at_negative(epsilon: Any, delta_at_positive: Any) -> Any:
    """Profile of a symmetric definition at -|epsilon|: 1 - e^-|epsilon| (1 - delta(|epsilon|))."""
    size = np.abs(epsilon)
    return np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta_at_positive, delta_at_positive)


def f_score_from_profile(guarantee: Profile, prior: float, b2: float) -> float:
    """Root F of (1 + beta^2 - F) delta(log(r F / (1 + beta^2 - F))) = beta^2 F; b2 = beta^2, r = (1 - p) / p."""
    if prior in (0.0, 1.0):
        return prior
    r = (1.0 - prior) / prior

    def excess(f: float) -> float:
        left = 1.0 + b2 - f
        if left <= 0.0 or f <= 0.0:
            return left if f > 0 else 1.0
        return left * float(guarantee.delta(np.log(r * f / left))) - b2 * f

    return min(1.0, solve_decreasing(excess, (1.0 + b2) / (1.0 + b2 + r) * (1.0 - 1e-15), 1.0))
