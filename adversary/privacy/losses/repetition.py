"""Composition of very many identical releases by repeated squaring, on a grid whose spacing grows with the sum.

A distribution on a grid of spacing s is moved to spacing 2 s without decreasing its profile: an atom l between two
coarse grid points l - s and l + s is split between them, with the share e^s / (1 + e^s) moved up. The masses under both
hypotheses are preserved, and the profile, convex in e^epsilon, is replaced by chords. A split adds at most s^2 to the
variance of a loss whose standard deviation is hundreds of s. Both grow in proportion to the number of releases, so the
relative error remains small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from adversary._core import Floats, as_array, scalar_or_array
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.grid_rounding import RoundedLoss, add_masses, edges_of, grid_above, widened
from adversary.privacy.losses.lattice import LatticeLoss, either, merge_atoms, repeat_product
from adversary.privacy.losses.loss import PrivacyLoss

# Number of releases from which a loss without a formula is composed on a growing grid.
MANY = 2**18

# Number of releases from which the lower bound is computed.
FEWER = 2**16

_BINS = 4096

# Mass at the upper end that is moved to infinite loss; mass at the lower end that is moved up to a larger loss.
_TOP, _BOTTOM = 1e-290, 1e-25


@dataclass(frozen=True, eq=False)
class RepeatedLoss(RoundedLoss):
    """Sum of very many independent, identical losses, bounded on a grid.

    Parameters
    ----------
    loss : loss of one release
    times : number of releases
    fewer : loss of `FEWER` releases, a lower bound, because further releases never reveal less
    """

    loss: PrivacyLoss
    times: int
    fewer: PrivacyLoss

    @cached_property
    def upper(self) -> LatticeLoss:
        step = _step(self.loss)
        first = _Law(0, _trimmed(_dense(self.loss, step)))
        nothing = _Law(0, Dense(0, np.ones(1), 0.0, 0.0))

        def together(one: _Law, other: _Law) -> _Law:
            return _added(one, other, step)

        level, grid = repeat_product(first, self.times, nothing, together)
        losses = as_array(step * 2.0**level * (grid.first + np.arange(grid.mass.size)))
        with np.errstate(divide="ignore"):
            log_p = np.log(grid.mass)
        atoms = merge_atoms(losses, log_p, log_p - losses)
        return LatticeLoss(*atoms, grid.infinite_p, grid.infinite_q, rounded=True)

    @property
    def proved(self) -> PrivacyLoss:
        return self.fewer.proved if isinstance(self.fewer, RoundedLoss) else self.fewer

    @property
    def bracket(self) -> Bracket:
        lower = self.fewer.bracket
        return Bracket(
            self,
            of_delta=lambda epsilon: widened(lower.delta(epsilon)[0], self.upper.delta(epsilon)),
            of_power=lambda level: widened(lower.power(level)[0], self.upper.power(level)),
            of_tail=lambda threshold: (
                scalar_or_array(np.zeros(np.shape(threshold))),
                scalar_or_array(np.ones(np.shape(threshold))),
            ),
        )

    @property
    def certain(self) -> float:
        one = max(float(side.tail(1e300)[0]) for side in (self.loss, self.loss.swapped))
        return -math.expm1(self.times * math.log1p(-one)) if one < 1.0 else 1.0

    @property
    def kl_divergence(self) -> float:
        return self.times * self.loss.kl_divergence

    def log_moment(self, order: float) -> float:
        return self.times * self.loss.log_moment(order)

    @cached_property
    def swapped(self) -> RepeatedLoss:
        turned = self.loss.swapped
        return self if turned is self.loss else RepeatedLoss(turned, self.times, self.fewer.swapped)

    @property
    def maximum(self) -> float:
        return self.times * self.loss.maximum


class Dense(NamedTuple):
    """Masses under P at consecutive multiples of a step, from `first` on, and the infinite masses."""

    first: int
    mass: Floats
    infinite_p: float
    infinite_q: float


class _Law(NamedTuple):
    """Distribution on the grid of spacing step * 2^level."""

    level: int
    grid: Dense


def _dense(loss: PrivacyLoss, step: float) -> Dense:
    """One loss on the grid, with all grid points between its ends."""
    grid = grid_above(loss, edges_of(loss.coarse), step)
    first = int(grid.place[0]) if grid.place.size else 0
    mass = np.bincount(grid.place - first, grid.mass, minlength=1)
    return Dense(first, mass, grid.infinite_p, grid.infinite_q)


def _step(loss: PrivacyLoss) -> float:
    """Spacing of the grid: the smallest gap of a short list of losses, otherwise 1/4096 of the range."""
    low, high = edges_of(loss.coarse)
    fine = (high - low) / _BINS
    law = loss.law
    if isinstance(law, LatticeLoss) and law.losses.size <= _BINS:
        ends = np.abs(np.append(law.losses, np.diff(law.losses)))
        return max(float(ends[ends > 0.0].min(initial=np.inf)), fine) if ends.any() else fine
    return fine


def _added(one: _Law, other: _Law, step: float) -> _Law:
    """Distribution of the sum, on a grid of at most `_BINS` points."""
    level = max(one.level, other.level)
    a, b = (_coarsened(law, level, step) for law in (one, other))
    infinite = either([a.infinite_p, b.infinite_p]), either([a.infinite_q, b.infinite_q])
    total = _trimmed(Dense(a.first + b.first, add_masses(a.mass, b.mass), *infinite))
    while total.mass.size > _BINS:
        total, level = _coarsened(_Law(level, total), level + 1, step), level + 1
    return _Law(level, total)


def _coarsened(law: _Law, level: int, step: float) -> Dense:
    grid = law.grid
    for fine in range(law.level, level):
        place = grid.first + np.arange(grid.mass.size)
        low, first = place // 2, int(grid.first // 2)
        up = np.where(place % 2 == 1, expit(step * 2.0**fine), 0.0)
        size = int(low[-1]) - first + 2
        mass = np.bincount(low - first, grid.mass * (1.0 - up), size) + np.bincount(
            low - first + 1, grid.mass * up, size
        )
        grid = grid._replace(first=first, mass=mass)
    return grid


def _trimmed(grid: Dense) -> Dense:
    """Distribution without negligible masses at both ends, which are moved up; normalised, since squaring would
    multiply rounding errors of the total."""
    above, below = np.cumsum(grid.mass[::-1])[::-1], np.cumsum(grid.mass)
    last = int(np.flatnonzero(above > _TOP)[-1]) if (above > _TOP).any() else 0
    first = min(int(np.flatnonzero(below > _BOTTOM)[0]) if (below > _BOTTOM).any() else 0, last)
    mass: Floats = grid.mass[first : last + 1].copy()
    mass[0] += below[first] - grid.mass[first]
    beyond = float(above[last + 1]) if last + 1 < above.size else 0.0
    infinite = min(grid.infinite_p + beyond, 1.0)
    total = float(mass.sum())
    mass = mass * ((1.0 - infinite) / total) if total > 0.0 else mass
    return grid._replace(first=grid.first + first, mass=mass, infinite_p=infinite)
