"""Laws moved to a grid of losses, up or down, where a sum of them cannot be exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability, labelled, scalar_or_array
from adversary.privacy.losses.analytic import LaplaceLoss
from adversary.privacy.losses.dominating import lattice_above
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import epsilon_from_profile

GRID_BINS = 2**14
"""Bins of the common grid on which products that cannot be exact are rounded."""

MAX_ATOMS = 3_000_000
"""Largest product of explicit lattices that is enumerated."""


class RoundedLoss(PrivacyLoss):
    """A loss that is known between two laws on a grid: it answers with the upper one.

    To write one: `upper`, a law whose profile is nowhere below, `certain`, the probability of an infinite loss, and
    what any loss needs; `bracket` certifies.
    """

    __slots__ = ()
    route = Route.ROUNDED

    @property
    @abstractmethod
    def upper(self) -> LatticeLoss:
        """A law whose profile is nowhere below."""

    @property
    @abstractmethod
    def certain(self) -> float:
        """The probability of an infinite loss, or more, in the worse direction; 0 where there is none."""

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """From the law above; never more than the largest loss.

        Below what the grid leaves out it is `pbdp_epsilon(delta)`, an upper bound from the moments.
        """
        target = check_probability("delta", delta)
        most = max(self.maximum, self.swapped.maximum)
        least = max(side.upper.infinite_p for side in self.directions if isinstance(side, RoundedLoss))
        found = as_array(epsilon_from_profile(self, target))
        if np.isinf(most) and self.certain == 0.0 and (far := (target > 0.0) & (target <= least)).any():
            found[far] = [self.pbdp_epsilon(float(one)) for one in target[far]]
        return scalar_or_array(np.minimum(found, most))

    def past_ties(self, threshold: Floats) -> Floats:
        return self.upper.past_ties(threshold)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        return self.upper.tail(threshold)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return self.upper.delta(epsilon)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        return self.upper.power(level)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        return self.upper.expect(function)


class Grid(NamedTuple):
    """Masses under P at whole multiples of a step, from `first` on, and the infinite masses."""

    first: int
    mass: Floats
    infinite_p: float
    infinite_q: float


Rounding = Callable[[PrivacyLoss, tuple[float, float], float], Grid]
"""A way to move a loss, ending there, to whole multiples of a step."""


def grid_above(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> Grid:
    """The profile joined by straight lines between grid points."""
    low, high = (int(f(edge / step)) for f, edge in zip((np.floor, np.ceil), ends, strict=True))
    if isinstance(loss, LaplaceLoss) and _fits(loss, step):
        high = round(loss.epsilon0 / step)
        low, stride = -high, 2
    else:
        low, high, stride = min(low, -1), max(high, 1), 1
    nodes = np.arange(low, high + 1, stride)
    nodes = np.union1d(nodes, [0])
    law = lattice_above(loss.rough, as_array(step * nodes))
    mass = np.zeros(high - low + 1)
    mass[np.rint(law.losses / step).astype(np.int64) - low] = np.exp(law.log_p)
    return Grid(low, mass, law.infinite_p, law.infinite_q)


def grid_below(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> Grid:
    """Laplace releases binned, so that losses fall on the grid; others rounded down."""
    if not (isinstance(loss, LaplaceLoss) and _fits(loss, step)):
        return rounded_down(loss, ends, step)
    e, cells = loss.epsilon0, round(loss.epsilon0 / step)
    edges = np.linspace(-e, e, cells + 1)
    mass = np.zeros(2 * cells + 1)
    mass[1::2] = 0.5 * np.exp((edges[:-1] - e) / 2.0) * np.expm1(e / cells)
    mass[[0, -1]] = 0.5 * np.exp(-e), 0.5
    return Grid(-cells, mass, 0.0, 0.0)


def _fits(loss: LaplaceLoss, step: float) -> bool:
    ratio = loss.epsilon0 / step
    return bool(1.0 <= ratio <= GRID_BINS and abs(ratio - round(ratio)) < 1e-9 * ratio)


def rounded_up(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> Grid:
    """Every loss rounded up to the grid; mass beyond it infinite."""
    first, beyond, inside = _grid_masses(loss, ends, step)
    return Grid(first, np.append(1.0 - beyond[0], inside), float(beyond[-1]), 0.0)


def rounded_down(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> Grid:
    """Every loss rounded down to the grid; finite mass beyond it at its end."""
    first, beyond, inside = _grid_masses(loss, ends, step)
    infinite = float(loss.tail(np.inf)[0])
    return Grid(first, np.append(inside, max(0.0, beyond[-1] - infinite)), infinite, 0.0)


def _grid_masses(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> tuple[int, Floats, Floats]:
    """The grid's first point, P(L > point) at each, and P(point < L <= next point)."""
    first, last = int(np.floor(ends[0] / step)), int(np.ceil(ends[1] / step))
    beyond = as_array(loss.tail(as_array(step * np.arange(first, last + 1)))[0])
    return first, beyond, np.maximum(-np.diff(beyond), 0.0)


def add_masses(a: Floats, b: Floats) -> Floats:
    """Law of a sum of independent numbers, directly: an FFT would keep only absolute accuracy."""
    i, j = np.flatnonzero(a), np.flatnonzero(b)
    if 100 * i.size * j.size > a.size * b.size or i.size * j.size > MAX_ATOMS:
        return np.convolve(a, b)
    return np.bincount(np.add.outer(i, j).ravel(), np.outer(a[i], b[j]).ravel(), a.size + b.size - 1)


def edges_of(loss: PrivacyLoss, mass: float = 1e-24) -> tuple[float, float]:
    """Thresholds beyond which either law has at most `mass`, infinite losses aside."""
    t = np.concatenate([-np.geomspace(800, 1e-6, 4000), np.geomspace(1e-6, 800, 4000)])

    def last_live(side: PrivacyLoss) -> float:
        infinite, place = side.tail(np.inf)[0], 0
        for stride in (100, 1):  # tails fall, and may be long to add up
            some = t[place::stride][:100]
            p, q = (as_array(tail) for tail in side.tail(some))
            live = np.flatnonzero(np.maximum(p - infinite, q) > mass)
            if not live.size:
                return float(t[0])
            place += stride * int(live[-1])
        return float(t[min(place + 1, t.size - 1)])

    high, low = last_live(loss), -last_live(loss.swapped)
    if high < low:  # every loss is infinite
        high = low = 0.0
    return low, max(high, low + 1e-9)


def widened(low: Any, high: Any) -> tuple[Any, Any]:
    """By what rounding may have taken from a sum of some thousands of terms."""
    return scalar_or_array(low * (1.0 - 1e-12)), scalar_or_array(np.minimum(high * (1.0 + 1e-12), 1.0))
