"""Conversion of privacy losses from and to other libraries: distributions of dp_accounting, profiles, trade-off curves.

Reading does not import these libraries: attributes of their objects are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_positive, check_probability, paired_arrays, quoted
from adversary.privacy.losses.dominating import lattice_above
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import PrivacyLoss

DIRECTIONS = ("remove", "add")

# Value of a profile at which its nodes end; they also end where the profile becomes constant.
LEFT = 1e-18
FARTHEST = 700.0


def from_pld(pld: Any, direction: str = "remove") -> LatticeLoss:
    """Loss from a `PrivacyLossDistribution` of dp_accounting, in one of its two directions.

    Parameters
    ----------
    pld : distribution of dp_accounting, which Opacus and JAX-Privacy use; composed or not
    direction : "remove" or "add". A distribution that was rounded up bounds the profile of its own direction only

    Returns
    -------
    LatticeLoss with the same atoms, whose `delta` equals that of the distribution up to rounding.

    Raises
    ------
    ValueError : another direction
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {quoted(DIRECTIONS)}, got {direction!r}")
    own, other = (getattr(pld, f"_pmf_{one}") for one in (direction, *({*DIRECTIONS} - {direction})))
    dense = own.to_dense_pmf()
    probs = as_array(dense._probs)
    positive = np.flatnonzero(probs > 0.0)
    losses = (positive + dense._lower_loss) * float(dense._discretization)
    log_p = np.log(probs[positive])
    masses = float(own._infinity_mass), float(other._infinity_mass)
    return LatticeLoss(losses, log_p, log_p - losses, *masses, rounded=True)


def to_pld(loss: PrivacyLoss, interval: float = 1e-4) -> Any:
    """A `PrivacyLossDistribution` of dp_accounting from a loss, in both directions, on a grid.

    Parameters
    ----------
    loss : any loss; listed losses are rounded up to the grid, others replaced by their upper bound on it
    interval : spacing of the grid, nats; multiples of it are preserved exactly

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution, whose profile is an upper bound.

    Raises
    ------
    ImportError : dp_accounting is not installed
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = float(check_positive("interval", interval))
    pmfs = []
    for one in (loss, loss.swapped):
        listed = one if isinstance(one, LatticeLoss) else lattice_above(one.coarse, _grid(one, step))
        places = np.ceil(listed.losses / step - 1e-9).astype(np.int64)
        low = int(places.min(initial=0))
        mass = np.bincount(places - low, np.exp(listed.log_p))
        pmfs.append(pld_pmf.DensePLDPmf(step, low, mass, listed.infinite_p, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)


def _grid(loss: PrivacyLoss, step: float) -> Floats:
    low, high = (int(np.ceil(side.tail_end / step)) for side in (loss.swapped, loss))
    return np.asarray(np.arange(-low, high + 1) * step, dtype=np.float64)


@dataclass(frozen=True)
class _SymmetricProfile:
    """Profile of a definition, symmetric in P and Q."""

    of: Callable[[float], float]

    def delta(self, epsilon: ArrayLike) -> Floats:
        deltas = [
            float(check_probability("delta", self.of(float(e) + 0.0))) for e in np.ravel(epsilon)
        ]  # OpenDP: no -0
        return np.minimum.accumulate(np.array(deltas)).reshape(np.shape(epsilon))

    @property
    def swapped(self) -> _SymmetricProfile:
        return self


def from_delta(function: Callable[[float], float], count: int = 2001) -> LatticeLoss:
    """Loss from a privacy profile, such as that of a measurement of OpenDP.

    Parameters
    ----------
    function : epsilon >= 0 to delta in [0, 1], non-increasing; in the worse direction
    count : number of points at which the function is evaluated, on each side of 0

    Returns
    -------
    LatticeLoss whose profile equals the function at these points and is an upper bound between them.

    >>> import adversary as adv
    >>> profile = from_delta(lambda epsilon: float(adv.GaussianDP(1.0).delta(epsilon)))
    >>> round(profile.epsilon(1e-6), 3), round(adv.GaussianDP(1.0).epsilon(1e-6), 3)
    (4.887, 4.887)
    """
    reach = 1.0
    while reach < FARTHEST and function(reach) > max(LEFT, function(FARTHEST)):
        reach = min(1.25 * reach, FARTHEST)
    side = np.linspace(0.0, reach, count)
    return lattice_above(_SymmetricProfile(function), np.concatenate([-side[:0:-1], side]))  # type: ignore[arg-type]


def from_trade_off(level: ArrayLike, power: ArrayLike, *, linear: bool = False) -> LatticeLoss:
    """Loss from points of a trade-off curve, such as those of riskcal; it errs toward more risk between the points.

    The loss is that of the smallest concave curve above every concave curve through the points: between two of them a
    curve lies below the extended chords of both neighbouring intervals. Before the first positive level nothing else
    bounds the slope, so points close to 0 matter; what they leave open is a probability of an infinite loss.

    Parameters
    ----------
    level : false alarm probabilities, increasing from 0 to 1, (point,)
    power : power of the best test at each level (1 minus its false negative probability), (point,); concave, from
        power[0] at level 0 (the probability of an infinite loss) to 1
    linear : True if the curve is known to be linear between the points, as that of a discrete loss between its corners

    Returns
    -------
    LatticeLoss; exact if `linear`.

    Raises
    ------
    ValueError : the points do not rise from level 0 to (1, 1), or are not concave

    >>> loss = from_trade_off([0.0, 0.25, 1.0], [0.0, 0.75, 1.0], linear=True)
    >>> round(loss.epsilon(0.0), 6), round(loss.power(0.1), 6)
    (1.098612, 0.3)
    >>> round(from_trade_off([0.0, 0.25, 1.0], [0.0, 0.75, 1.0]).power(0.1), 6)
    0.766667
    """
    level, power = paired_arrays({"level": level, "power": power})
    a, b = check_probability("level", level), check_probability("power", power)
    if a.ndim != 1 or a.shape != b.shape or a.size < 2 or a[0] != 0.0 or a[-1] != 1.0 or b[-1] != 1.0:
        raise ValueError("level and power must be points of one curve from level 0 to level 1 and power 1")
    q, p = np.append(0.0, np.diff(a)), np.append(b[0], np.diff(b))
    # Concave: slopes decrease, up to rounding.
    straight = p[2:] * q[1:-1] <= p[1:-1] * q[2:] + 1e-12
    if (q < 0.0).any() or (p < 0.0).any() or not straight.all() or (p[1:][q[1:] == 0.0] > 0.0).any():
        raise ValueError("level and power must rise along a concave curve")
    if linear:
        return LatticeLoss.from_probs(p, q)
    # points at one level have one power, and no chord
    apart = np.append(True, q[1:] > 0.0)
    a, b = _curve_above(a[apart], b[apart])
    return LatticeLoss.from_probs(np.append(b[0], np.diff(b)), np.append(0.0, np.diff(a)))


def _curve_above(level: Floats, power: Floats) -> tuple[Floats, Floats]:
    """Corners of the smallest concave curve above all concave curves through these points."""
    slope = np.diff(power) / np.diff(level)
    # The chord before the first interval is vertical, and that after the last is horizontal: power is at most 1.
    after = np.append(slope[1:], 0.0)
    steep = np.append(np.inf, slope[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = (power[1:] - power[:-1] - after * np.diff(level)) / (steep - after)
    meets = np.where(steep > after, np.clip(meets, 0.0, np.diff(level)), 0.0)
    high = np.minimum(power[1:] - after * (np.diff(level) - meets), 1.0)
    points = np.column_stack([np.append(level, level[:-1] + meets), np.append(power, high)])
    corners: list[Floats] = []
    # Upper hull, from left to right; of points at one level the highest is visited last and replaces the others.
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while corners and corners[-1][0] == point[0]:
            corners.pop()
        while len(corners) > 1 and _is_below(corners[-1], corners[-2], point):
            corners.pop()
        corners.append(point)
    hull = np.array(corners)
    return hull[:, 0], hull[:, 1]


def _is_below(middle: Floats, left: Floats, right: Floats) -> bool:
    """True if a point lies on or below the chord of two others, each (level, power)."""
    (x, y), (x0, y0), (x1, y1) = middle, left, right
    return bool((y - y0) * (x1 - x0) <= (y1 - y0) * (x - x0))
