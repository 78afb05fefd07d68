"""Privacy loss of composed discrete Gaussians by contour sums with proved error bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    check_number,
    check_probability,
    labelled,
    log_theta,
    scalar_or_array,
)
from adversary.privacy.losses.contour import EASY, LIGHT, RESOLUTION, ROUGH, Composition, Family
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.dominating import default_nodes, lattice_above, lattice_below
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import area_under

# Largest number of lattice points used as nodes of an expectation.
LISTED_POINTS = 20_000

_DIGITS = 2.3e-16


@dataclass(frozen=True, eq=False)
class ContourLoss(PrivacyLoss):
    """Loss of independent discrete Gaussian releases, and of one Gaussian, by a certified contour.

    Parameters
    ----------
    kinds : families (v, shift, copies) of discrete Gaussian releases, as in `DiscreteGaussianLoss`
    variance : mu^2 of a Gaussian release; 0 for none
    composition : the contour sum
    coarser : the loss of the same releases with relative width `ROUGH`
    """

    kinds: tuple[Family, ...]
    variance: float
    composition: Composition
    coarser: PrivacyLoss

    @property
    def route(self) -> Route:
        return Route.SMOOTHED if self.composition.smoothing else Route.CONTOUR

    @property
    def coarse(self) -> PrivacyLoss:
        light = self.composition.goal >= ROUGH or self.composition.work.fits(LIGHT)
        return self if light else self.coarser

    @property
    def bracket(self) -> Bracket:
        return Bracket(self, self._delta, self._power, lambda t: (self.tail(t)[0],) * 2)

    def _delta(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        low, high = self.composition.delta(check_number("epsilon", epsilon))
        return scalar_or_array(low), scalar_or_array(high)

    def _power(self, level: ArrayLike) -> tuple[Any, Any]:
        low, high = self.composition.power(check_probability("level", level))
        return scalar_or_array(low), scalar_or_array(high)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        return scalar_or_array(self.composition.upper(check_number("epsilon", epsilon)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        return self._power(level)[1]

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon >= 0 at which the upper bound on the profile is at most delta; inf at 0.

        For delta below the numerical resolution, `RESOLUTION`: `pbdp_epsilon(delta)`, an upper bound from the moments.
        """
        target = check_probability("delta", delta)
        epsilon = np.full(target.shape, np.inf)
        inner, beyond = target >= RESOLUTION, (target > 0.0) & (target < RESOLUTION)
        if inner.any():
            epsilon[inner] = self.composition.epsilon(target[inner])
        small: Any = target[beyond]
        if small.size:
            epsilon[beyond] = self.pbdp_epsilon(small)
        return scalar_or_array(epsilon)

    @property
    def auc(self) -> float:
        return area_under(self, 401)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        return scalar_or_array(self.composition.level(check_probability("power", power)))

    @property
    def tail_end(self) -> float:
        return chernoff_tail_end(self.composition.rho)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        # Tails need more revivals than the profile, hence more time.
        if not self.composition.work.fits(EASY):
            return self.coarse.tail(threshold)
        p, q = self.composition.tails(self.above_ties(check_number("threshold", threshold)))
        return scalar_or_array(p), scalar_or_array(q)

    def above_ties(self, threshold: Floats) -> Floats:
        return above_ties(threshold, _DIGITS * self.composition.rho)

    @cached_property
    def _cells(self) -> tuple[LatticeLoss, LatticeLoss]:
        nodes, step, rho = default_nodes(self), self.composition.contour.step, self.composition.rho
        # With every lattice point as a node the distribution is exact.
        if step and (nodes[-1] - nodes[0]) / step <= LISTED_POINTS:
            index = np.ceil((nodes[[0, -1]] - rho) / step)
            points = rho + step * np.arange(index[0], index[1] + 1.0)
            whole = lattice_above(self, np.union1d(points[np.abs(points) > 1e-6 * step], [0.0]))
            return whole, whole
        return lattice_below(self, 0.5 * (nodes[1:] + nodes[:-1])), lattice_above(self, nodes)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """Weighted mean of the lower and the upper bound, whose leading errors are in the ratio -1 to 2."""
        below, above = (law.expect(function) for law in self._cells)
        p, q = ((2.0 * as_array(x) + as_array(y)) / 3.0 for x, y in zip(below, above, strict=True))
        return scalar_or_array(p), scalar_or_array(q)

    def log_moment(self, order: float) -> float:
        return log_moment(self.kinds, self.variance, order)

    @property
    def swapped(self) -> ContourLoss:
        return self

    @property
    def maximum(self) -> float:
        return float("inf")


def chernoff_tail_end(rho: float) -> float:
    """Epsilon beyond which delta is below 1e-18 under rho-zCDP, by Chernoff's bound: rho + 2 sqrt(41.5 rho)."""
    return rho + 2.0 * float(np.sqrt(41.5 * rho))


def log_moment(kinds: Sequence[Family], variance: float, order: float) -> float:
    """Log moment of the loss: sum of v a^2 order (order + 1) / 2 + log(Theta(a order) / Theta(0)) over releases.

    Theta is the theta series of a discrete Gaussian, with period 1; `variance` adds half of it times order (order + 1).
    """
    total = 0.5 * variance * order * (order + 1.0)
    for v, shift, count in kinds:
        half = float(v) / 2.0
        fraction = shift * order - round(shift * order)
        waves = float(log_theta(half, float(fraction))) - float(log_theta(half))
        total += count * (half * shift**2 * order * (order + 1.0) + min(waves, 0.0))
    return total
