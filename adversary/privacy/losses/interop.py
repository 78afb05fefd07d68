"""Privacy losses from and to other libraries: loss distributions of dp_accounting, profiles, trade-off curves.

None of these libraries is needed to read: their objects are asked for what they hold.
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
LEFT = 1e-18
"""Where a profile has fallen to this, or falls no further, its nodes end."""
FARTHEST = 700.0


def from_pld(pld: Any, direction: str = "remove") -> LatticeLoss:
    """The loss that a `PrivacyLossDistribution` of dp_accounting holds, in one of its two directions.

    Parameters
    ----------
    pld : of dp_accounting, and so of Opacus and JAX-Privacy; composed or not
    direction : "remove" or "add". A distribution that was rounded up bounds the profile of that direction only; the
        other has its own

    Returns
    -------
    LatticeLoss with the same atoms: `delta` is the distribution's own to rounding.

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
    """A loss as a `PrivacyLossDistribution` of dp_accounting, both directions, on its grid.

    Parameters
    ----------
    loss : of any kind; listed losses are rounded up to the grid, others joined from above between its points
    interval : distance of the grid's points, nats; losses that are multiples of it are kept as they are

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution, never below the loss's own profile.

    Raises
    ------
    ImportError : dp_accounting is not installed
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = float(check_positive("interval", interval))
    pmfs = []
    for one in (loss, loss.swapped):
        listed = one if isinstance(one, LatticeLoss) else lattice_above(one.rough, _grid(one, step))
        places = np.ceil(listed.losses / step - 1e-9).astype(np.int64)
        low = int(places.min(initial=0))
        mass = np.bincount(places - low, np.exp(listed.log_p))
        pmfs.append(pld_pmf.DensePLDPmf(step, low, mass, listed.infinite_p, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)


def _grid(loss: PrivacyLoss, step: float) -> Floats:
    low, high = (int(np.ceil(side.reach / step)) for side in (loss.swapped, loss))
    return np.asarray(np.arange(-low, high + 1) * step, dtype=np.float64)


@dataclass(frozen=True)
class _Profile:
    """The profile of a definition, which is the same in both directions."""

    of: Callable[[float], float]

    def delta(self, epsilon: ArrayLike) -> Floats:
        deltas = [
            float(check_probability("delta", self.of(float(e) + 0.0))) for e in np.ravel(epsilon)
        ]  # OpenDP: no -0
        return np.minimum.accumulate(np.array(deltas)).reshape(np.shape(epsilon))

    @property
    def swapped(self) -> _Profile:
        return self


def from_delta(function: Callable[[float], float], count: int = 2001) -> LatticeLoss:
    """A guarantee from its privacy profile, such as that of a measurement of OpenDP.

    Parameters
    ----------
    function : delta of every epsilon >= 0, in [0, 1], never rising; of the worse direction
    count : points at which it is asked, on each side of 0

    Returns
    -------
    LatticeLoss whose profile meets the function at these points and lies above it between them: more risk.

    >>> import adversary as adv
    >>> profile = from_delta(lambda epsilon: float(adv.GaussianDP(1.0).delta(epsilon)))
    >>> round(profile.epsilon(1e-6), 3), round(adv.GaussianDP(1.0).epsilon(1e-6), 3)
    (4.887, 4.887)
    """
    reach = 1.0
    while reach < FARTHEST and function(reach) > max(LEFT, function(FARTHEST)):
        reach = min(1.25 * reach, FARTHEST)
    side = np.linspace(0.0, reach, count)
    return lattice_above(_Profile(function), np.concatenate([-side[:0:-1], side]))  # type: ignore[arg-type]


def from_trade_off(level: ArrayLike, power: ArrayLike) -> LatticeLoss:
    """A loss from points of its trade-off curve, such as those of riskcal: exact where the curve is straight between.

    Parameters
    ----------
    level : false alarm probabilities, rising from 0 to 1
    power : detections of the best test at each; 1 minus the false negative probability. Concave, from power[0] at
        level 0 (the probability of a release that settles the question) to 1

    Returns
    -------
    LatticeLoss

    Raises
    ------
    ValueError : the points do not rise from level 0 to (1, 1), or are not concave

    >>> loss = from_trade_off([0.0, 0.25, 1.0], [0.0, 0.75, 1.0])
    >>> round(loss.epsilon(0.0), 6), round(loss.power(0.1), 6)
    (1.098612, 0.3)
    """
    level, power = paired_arrays({"level": level, "power": power})
    a, b = check_probability("level", level), check_probability("power", power)
    if a.ndim != 1 or a.shape != b.shape or a.size < 2 or a[0] != 0.0 or a[-1] != 1.0 or b[-1] != 1.0:
        raise ValueError("level and power must be points of one curve from level 0 to level 1 and power 1")
    q, p = np.append(0.0, np.diff(a)), np.append(b[0], np.diff(b))
    straight = p[2:] * q[1:-1] <= p[1:-1] * q[2:] + 1e-12  # slopes that fall, up to rounding
    if (q < 0.0).any() or (p < 0.0).any() or not straight.all() or (p[1:][q[1:] == 0.0] > 0.0).any():
        raise ValueError("level and power must rise along a concave curve")
    return LatticeLoss.from_probs(p, q)
