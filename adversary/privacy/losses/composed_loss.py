"""Sums of losses without an exact distribution, bracketed by two distributions on a common grid."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import SMALLEST, Floats, as_array, check_number, labelled, scalar_or_array
from adversary.privacy.losses.analytic import LaplaceLoss, LaplaceSumLoss
from adversary.privacy.losses.contour import DEEPEST, Part, TiltedLaw, TiltedSum
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.dominating import lattice_above
from adversary.privacy.losses.grid_rounding import (
    GRID_BINS,
    LEFT_OUT,
    MOST_GRID_BINS,
    ON_GRID,
    PER_DEVIATION,
    LossGrid,
    RoundedLoss,
    compact,
    edges_of,
    grid_above,
    grid_below,
    law_deviation,
    on_grid,
    rounded_down,
    rounded_up,
    sum_range,
    widened,
)
from adversary.privacy.losses.lattice import LatticeLoss, merge_atoms
from adversary.privacy.losses.loss import PrivacyLoss

# Largest number of losses that are rounded to the grid in one direction, where errors add up.
FEW = 1_000

# Profile below which splines are too inaccurate and the grid is used.
SEEN = 1e-20

DIGITS = 1e-10
"""Tolerance for rounding in the sum of all masses; certified bounds are widened by it."""


@dataclass(frozen=True, eq=False)
class ComposedLoss(RoundedLoss):
    """Sum of independent losses without an exact distribution, bracketed from above and below on a common grid.

    The upper bound interpolates each profile linearly between grid points (connect the dots). The lower bound merges
    neighbouring releases until their average loss is a grid point. Both errors are about (step / deviation)^2 per part.
    `TiltedSum` adds up the losses. `bracket` certifies the profile and the tails under P.

    Parameters
    ----------
    parts : losses of single releases
    times : multiplicities of the parts; 1 each if empty
    """

    parts: tuple[PrivacyLoss, ...]
    times: tuple[int, ...] = ()

    @cached_property
    def counted(self) -> dict[PrivacyLoss, int]:
        """Multiplicity of each distinct part."""
        total = Counter[PrivacyLoss]()
        for part, times in zip(self.parts, self.times or (1,) * len(self.parts), strict=True):
            total[part] += times
        return dict(total)

    @cached_property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """(lowest, highest) loss of every part, except for a mass of `LEFT_OUT` over the number of losses."""
        mass = LEFT_OUT / sum(self.counted.values())
        ends = {part: self._ends_of(part, mass) for part in self.counted}
        return tuple(ends[part] for part in self.parts)

    @staticmethod
    def _ends_of(part: PrivacyLoss, mass: float) -> tuple[float, float]:
        least, most = -part.swapped.maximum, part.maximum
        if math.isfinite(least) and math.isfinite(most):
            return least, most
        low, high = edges_of(part.coarse, mass)
        return max(low, least), min(high, most)

    @cached_property
    def step(self) -> float:
        """Spacing of the grid: a small fraction of the standard deviation of one part, or of the range of the sum.

        It divides the smallest Laplace loss or listed loss that is at least as large, so that these are grid points.
        """
        ends = dict(zip(self.parts, self.ends, strict=True))
        parts = [(_first_law(part, ends[part]), times) for part, times in self.counted.items()]
        parts = [(law, times) for law, times in parts if law.losses.size]
        whole = sum_range(parts)
        fine = min((law_deviation(law) for law, _ in parts), default=0.0) / PER_DEVIATION
        coarse = min(max(min(fine, whole / GRID_BINS), whole / MOST_GRID_BINS), whole / 8.0)
        sharp = [part.epsilon0 / GRID_BINS for part in self.counted if isinstance(part, LaplaceLoss)]
        coarse = max(coarse, *sharp, 1e-300)
        units = [unit for part in self.counted if (unit := _unit(part)) >= coarse]
        if units and all(isinstance(part, LatticeLoss) and on_grid(part, min(units)) for part in self.counted):
            return min(units)
        return min(units) / math.ceil(min(units) / coarse) if units else coarse

    def _sum_of(self, grids: dict[PrivacyLoss, LossGrid]) -> TiltedLaw | None:
        """Distribution of the sum of finite losses; None if a part has only infinite losses."""
        if not all(grid.finite for grid in grids.values()):
            return None
        parts = [Part(grid.place, grid.mass, self.counted[part]) for part, grid in grids.items()]
        infinite = self._once(lambda part: grids[part].infinite_p)
        depth = DEEPEST if infinite == 0.0 else min(DEEPEST, 5.0 - math.log(infinite))
        return TiltedSum(tuple(parts), self.step, depth).law()

    @cached_property
    def _grids_above(self) -> dict[PrivacyLoss, LossGrid]:
        return self._grids(grid_above)

    @cached_property
    def _sum_above(self) -> TiltedLaw | None:
        return self._sum_of(self._grids_above)

    @cached_property
    def upper(self) -> LatticeLoss:
        """Distribution whose profile is an upper bound."""
        return self._with_errors(self._sum_above, self._grids_above)

    def _with_errors(self, law: TiltedLaw | None, grids: dict[PrivacyLoss, LossGrid]) -> LatticeLoss:
        infinite_p = self._once(lambda part: grids[part].infinite_p)
        infinite_q = self._once(lambda part: grids[part].infinite_q)
        if law is None:
            return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), infinite_p, infinite_q, rounded=True)
        log_mass = np.logaddexp(law.log_mass, law.log_error)
        log_mass[0] = np.logaddexp(log_mass[0], np.log(max(law.below, SMALLEST)))
        infinite_p = min(infinite_p + law.above, 1.0)
        excess = float(np.exp(log_mass).sum()) + infinite_p - 1.0
        # Error bounds of all masses can add up to more than 1; certified bounds are widened by `DIGITS` for this.
        if 0.0 < excess < DIGITS:
            log_mass -= math.log1p(excess / max(1.0 - infinite_p, DIGITS))
        return self._lattice(law.first, log_mass, infinite_p, infinite_q)

    @cached_property
    def lower(self) -> LatticeLoss:
        """Distribution whose profile is a lower bound, up to a shift of losses by `_off`."""
        return self._without_infinite(self._grids(grid_below))

    @property
    def proved(self) -> PrivacyLoss:
        return self.lower

    @property
    def _off(self) -> float:
        """Bound on the total shift of losses that were identified with a grid point within `ON_GRID`."""
        most = {part: max(map(abs, ends)) for part, ends in zip(self.parts, self.ends, strict=True)}
        return ON_GRID * sum(times * (most[part] + self.step) for part, times in self.counted.items())

    @cached_property
    def _floor(self) -> LatticeLoss:
        """Lower bounds on the masses of the upper grid's sum: masses minus their errors."""
        infinite = self._once(lambda part: float(part.tail(np.inf)[0]))
        return self._without_errors(self._sum_above, infinite)

    def _without_errors(self, law: TiltedLaw | None, infinite_p: float) -> LatticeLoss:
        if law is None:
            return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), infinite_p, rounded=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = law.log_mass + np.log1p(-np.exp(np.minimum(law.log_error - law.log_mass, 0.0)))
        log_mass[~(law.log_mass > law.log_error)] = -np.inf
        return self._lattice(law.first, log_mass, infinite_p, 0.0)

    def _lattice(self, first: int, log_p: Floats, infinite_p: float, infinite_q: float) -> LatticeLoss:
        losses = as_array(self.step * (first + np.arange(log_p.size)))
        return LatticeLoss(*merge_atoms(losses, log_p, log_p - losses), infinite_p, infinite_q, rounded=True)

    def _once(self, chance: Callable[[PrivacyLoss], float]) -> float:
        """Probability of at least one event among all losses, from its probability for each part."""
        chances = [(min(chance(part), 1.0), times) for part, times in self.counted.items()]
        if any(one == 1.0 for one, _ in chances):
            return 1.0
        return -math.expm1(sum(times * math.log1p(-one) for one, times in chances))

    @property
    def bracket(self) -> Bracket:
        return Bracket(
            self,
            of_delta=self._delta_bracket,
            of_power=lambda level: widened(
                self.lower.power(level) * math.exp(-self._off),
                as_array(self.upper.power(level)) * math.exp(self._off) * (1.0 + DIGITS),
            ),
            of_tail=self._tail_bracket,
        )

    @cached_property
    def _splines(self) -> LaplaceSumLoss | None:
        """Spline representation, if the parts are a moderate number of identical Laplace losses."""
        ((part, times), *others) = self.counted.items()
        laplace = not others and isinstance(part, LaplaceLoss) and LaplaceSumLoss.fits(part.epsilon0, times)
        return LaplaceSumLoss(part.epsilon0, times) if laplace else None  # type: ignore[attr-defined]

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        if self._splines is None:
            return super().delta(epsilon)
        return scalar_or_array(self._by_splines(check_number("epsilon", epsilon))[1])

    def _delta_bracket(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        e = as_array(epsilon)
        if self._splines is not None:
            low, high = self._by_splines(e)
            return scalar_or_array(low), scalar_or_array(high)
        return self._grid_delta(e)

    def _grid_delta(self, e: Floats) -> tuple[Any, Any]:
        above = as_array(self.upper.delta(e - self._off)) * (1.0 + DIGITS)
        return widened(self.lower.delta(e + self._off), above)

    def _by_splines(self, e: Floats) -> tuple[Floats, Floats]:
        """(lower, upper) profile from the splines; from the grid if it is below `SEEN`."""
        assert self._splines is not None
        low, high = self._splines.bracket(e)
        if (deep := (high < SEEN) & (e > 0.0)).any():
            low, high = np.array(low), np.array(high)
            low[deep], high[deep] = self._grid_delta(e[deep])
        return low, high

    def _tail_bracket(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """Bounds on P(L > threshold): from rounded losses and, by `_distances`, from the upper grid's sum."""
        t = check_number("threshold", threshold)
        low, high = np.zeros(t.shape), np.ones(t.shape)
        if sum(self.counted.values()) <= FEW:
            low, high = as_array(self._rounded_down.tail(t)[0]), as_array(self._rounded_up.tail(t)[0])
        for up, down, chance in self._distances:
            low = np.maximum(low, as_array(self._floor.tail(t + up + self._off)[0]) - chance)
            high = np.minimum(high, as_array(self.upper.tail(t - down - self._off)[0]) + chance)
        return widened(low, np.maximum(high, low) * (1.0 + DIGITS))

    @cached_property
    def _rounded_up(self) -> LatticeLoss:
        """Distribution of the sum of losses rounded up to the grid."""
        grids = self._grids(rounded_up)
        return self._with_errors(self._sum_of(grids), grids)

    @cached_property
    def _rounded_down(self) -> LatticeLoss:
        """Distribution of the sum of losses rounded down to the grid."""
        return self._without_infinite(self._grids(rounded_down))

    def _grids(self, rounding: Callable[..., LossGrid]) -> dict[PrivacyLoss, LossGrid]:
        """Distribution of each part on the grid, by one of the rounding functions."""
        ends = dict(zip(self.parts, self.ends, strict=True))
        return {part: compact(rounding(part, ends[part], self.step)) for part in self.counted}

    def _without_infinite(self, grids: dict[PrivacyLoss, LossGrid]) -> LatticeLoss:
        return self._without_errors(self._sum_of(grids), self._once(lambda part: grids[part].infinite_p))

    @cached_property
    def _distances(self) -> list[tuple[float, float, float]]:
        """(above, below, failure probability): bounds on the difference of the split sum and the exact loss.

        A loss split over a gap g changes by less than g, on average by at most +g^2 / 8, and its exponential moments
        are at most e^(s^2 g^2 / 8) (Hoeffding's lemma). Chernoff bounds follow at several failure probabilities.
        """
        parts = [
            (grid.gap, grid.mass / grid.mass.sum(), self.counted[part])
            for part, grid in self._grids_above.items()
            if grid.finite
        ]
        most = sum(times * float(gap.max(initial=0.0)) for gap, _, times in parts)
        scale = math.sqrt(sum(times * float(gap**2 @ mass) for gap, mass, times in parts))
        if scale == 0.0:
            return [(0.0, 0.0, 0.0)]
        distances = [(most, most, 0.0)]
        rates = np.geomspace(0.1, 1000.0, 40) / scale
        for nats in (2.0, 5.0, 10.0, 16.0, 25.0, 40.0, 70.0, 150.0, 400.0, 700.0):
            both = []
            for drift in (1.0, 0.0):
                grown = [
                    sum(times * _log_mean_exp(mass, 0.125 * gap**2 * (s * s + drift * s)) for gap, mass, times in parts)
                    for s in rates.tolist()
                ]
                both.append(float(((np.array(grown) + nats) / rates).min()))
            distances.append((min(both[0], most), min(both[1], most), math.exp(-nats)))
        return distances

    @property
    def certain(self) -> float:
        here = self._once(lambda part: float(part.tail(1e300)[0]))
        return max(here, self._once(lambda part: float(part.swapped.tail(1e300)[0])))

    @property
    def kl_divergence(self) -> float:
        return sum(times * part.kl_divergence for part, times in self.counted.items())

    def log_moment(self, order: float) -> float:
        return sum(times * part.log_moment(order) for part, times in self.counted.items())

    @cached_property
    def swapped(self) -> ComposedLoss:
        turned = tuple(part.swapped for part in self.parts)
        same = all(a is b for a, b in zip(turned, self.parts, strict=True))
        return self if same else ComposedLoss(turned, self.times)

    @property
    def maximum(self) -> float:
        return sum(times * part.maximum for part, times in self.counted.items())


def _log_mean_exp(mass: Floats, x: Floats) -> float:
    top = float(x.max())
    return top + math.log(float(mass @ np.exp(x - top)))


def _first_law(part: PrivacyLoss, ends: tuple[float, float]) -> LatticeLoss:
    """The part itself if listed; otherwise an upper bound on points that are dense near 0."""
    if isinstance(part, LatticeLoss):
        return part
    side = np.geomspace(1e-5, 1.0, 400)
    low, high = min(ends[0], -1e-12), max(ends[1], 1e-12)
    return lattice_above(part.coarse, np.concatenate([low * side[::-1], [0.0], high * side]))


def _unit(part: PrivacyLoss) -> float:
    """Smallest nonzero loss of a Laplace or short listed part, a candidate for the grid's unit; otherwise 0."""
    if isinstance(part, LaplaceLoss):
        return part.epsilon0
    if isinstance(part, LatticeLoss) and part.losses.size <= GRID_BINS:
        size = np.abs(part.losses)
        return float(size[size > 0.0].min(initial=np.inf)) if size.any() else 0.0
    return 0.0
