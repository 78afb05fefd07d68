"""Rounding of loss distributions to a grid, up or down, for sums that cannot be computed exactly."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    SMALLEST,
    Floats,
    Integers,
    as_array,
    check_number,
    check_probability,
    labelled,
    log_sum_exp,
    scalar_or_array,
)
from adversary.privacy.losses.analytic import LaplaceLoss
from adversary.privacy.losses.dominating import lattice_above
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import epsilon_from_profile

# Number of bins of the common grid, and largest multiple of a step on which a loss is placed exactly.
GRID_BINS = 2**14
# Largest number of pairs of atoms in the product of two lattices.
MAX_ATOMS = 3_000_000
# Number of grid points on each side of 0 that are all used; farther out, where losses are rare, they are sparser.
DENSE = 8192
# Relative distance within which a loss counts as a grid point.
ON_GRID = 1e-13
# Bins per standard deviation of one part, if the sum then has at most `MOST_GRID_BINS` bins.
PER_DEVIATION = 32

MOST_GRID_BINS = 2**17

LEFT_OUT = 1e-24
"""Mass of a sum beyond the ends of its parts."""

# Number of grid points at the lower end of a distribution among which the last masses may be divided.
LAST_PLACES = 16
# Relative difference of two tails below which it is dominated by rounding; rounding error of a remaining mass.
LOST, ROOM = 1e-9, 1e-14


class RoundedLoss(PrivacyLoss):
    """Loss that is bracketed by two distributions on a grid, and represented by the upper one.

    Subclasses define `upper` and `proved`, an upper and a lower bound on the profile, `certain`, the probability of an
    infinite loss, `bracket`, and the abstract methods of `PrivacyLoss`.
    """

    __slots__ = ()
    route = Route.ROUNDED

    @property
    @abstractmethod
    def upper(self) -> LatticeLoss:
        """Upper bound on the profile, as a distribution on the grid."""

    @property
    @abstractmethod
    def certain(self) -> float:
        """Upper bound on the probability of an infinite loss, in the worse direction; 0 if there is none."""

    @property
    @abstractmethod
    def proved(self) -> PrivacyLoss:
        """Lower bound on the profile, as a distribution."""

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """Epsilon of the upper bound, at most the largest loss.

        For delta below the mass that the grid omits: `pbdp_epsilon(delta)`, an upper bound from the moments.
        """
        target = check_probability("delta", delta)
        most = max(self.maximum, self.swapped.maximum)
        least = max(side.upper.infinite_p for side in self.directions if isinstance(side, RoundedLoss))
        epsilon = as_array(epsilon_from_profile(self, target))
        if np.isinf(most) and self.certain == 0.0 and (far := (target > 0.0) & (target <= least)).any():
            epsilon[far] = [self.pbdp_epsilon(float(one)) for one in target[far]]
        return scalar_or_array(np.minimum(epsilon, most))

    def above_ties(self, threshold: Floats) -> Floats:
        return self.upper.above_ties(threshold)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        return self.upper.tail(threshold)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        e = check_number("epsilon", epsilon)
        # Masses on the grid add up to one only up to rounding; no profile is below 1 - e^epsilon.
        return scalar_or_array(np.maximum(as_array(self.upper.delta(e)), -np.expm1(np.minimum(e, 0.0))))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        a = check_probability("level", level)
        return scalar_or_array(np.clip(as_array(self.upper.power(a)), a, 1.0))

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        return self.upper.expect(function)


class LossGrid(NamedTuple):
    """Masses under P at ascending multiples of a step, the infinite masses, and the largest displacement of a loss."""

    place: Integers
    mass: Floats
    infinite_p: float
    infinite_q: float
    gap: Floats

    @property
    def finite(self) -> bool:
        """True if any mass has a finite loss."""
        return bool((self.mass > 0.0).any())


def grid_places(ends: tuple[float, float], step: float) -> Integers:
    """Multiples of a step between the ends, 0 included: all of them near 0, farther out 4,096 per factor of e."""
    low, high = min(math.floor(ends[0] / step), -1), max(math.ceil(ends[1] / step), 1)
    if high - low <= 2 * DENSE:
        return np.arange(low, high + 1)
    most = max(-low, high)
    far = np.rint(DENSE * np.exp(np.arange(1, math.ceil(4096 * math.log(most / DENSE)) + 2) / 4096)).astype(np.int64)
    side = np.concatenate([np.arange(DENSE + 1), far]) if most > DENSE else np.arange(most + 1)
    both = np.unique(np.concatenate([-side, side, [low, high]]))
    return np.asarray(both[(both >= low) & (both <= high)], dtype=np.int64)


def grid_above(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> LossGrid:
    """Upper bound: the profile interpolated linearly in e^epsilon; each loss is split between two grid points.

    Parameters
    ----------
    ends : range that the grid covers; losses on a lattice, and Laplace losses that end on the grid, have their own
    step : unit of the grid, whose points are all multiples of it near 0 and sparser ones farther out (`grid_places`)
    """
    if isinstance(loss, LatticeLoss):
        return split_atoms(loss, step)
    places = grid_places(ends, step)
    if isinstance(loss, LaplaceLoss) and fits(loss.epsilon0, step):
        high = round(loss.epsilon0 / step)
        places = np.union1d(np.arange(-high, high + 1, 2), [0])
    law = lattice_above(loss.coarse, as_array(step * places))
    mass = np.zeros(places.size)
    mass[np.searchsorted(places, np.rint(law.losses / step).astype(np.int64))] = np.exp(law.log_p)
    return LossGrid(places, mass, law.infinite_p, law.infinite_q, _widest(step * np.diff(places)))


def _widest(gaps: Floats) -> Floats:
    """Larger of the two gaps next to each point."""
    return as_array(np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps)))


def split_atoms(law: LatticeLoss, step: float) -> LossGrid:
    """Atoms split between neighbouring grid points, with the masses under both hypotheses preserved."""
    low, over = _placed(law.losses / step)
    up = np.where(over > 0.0, np.expm1(-step * over) / np.expm1(-step), 0.0)
    mass = np.exp(law.log_p)
    places, at = np.unique(np.concatenate([low, low + 1]), return_inverse=True)
    total = np.bincount(at, np.concatenate([mass * (1.0 - up), mass * up]), places.size)
    moved = np.zeros(places.size)
    moved[at[: low.size][over > 0.0]] = moved[at[low.size :][over > 0.0]] = step
    return compact(LossGrid(places, total, law.infinite_p, law.infinite_q, moved))


def _placed(x: Floats) -> tuple[Integers, Floats]:
    """Grid points at or below x and the distances from them; within `ON_GRID` of a grid point the distance is 0."""
    near = np.rint(x)
    near = np.where(np.abs(x - near) <= ON_GRID * np.maximum(1.0, np.abs(x)), near, np.floor(x))
    return near.astype(np.int64), np.maximum(x - near, 0.0) * (np.abs(x - near) > ON_GRID * np.maximum(1.0, np.abs(x)))


def compact(grid: LossGrid) -> LossGrid:
    """The grid without points of zero mass."""
    live = grid.mass > 0.0
    return grid._replace(
        place=grid.place[live], mass=grid.mass[live], gap=grid.gap[live] if grid.gap.size else grid.gap
    )


def grid_below(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> LossGrid:
    """Lower bound by post-processing: releases are merged until their mean likelihood ratio is that of a grid point."""
    infinite_q = 0.0
    loss = loss.proved if isinstance(loss, RoundedLoss) else loss
    if isinstance(loss, LatticeLoss):
        losses, mass, infinite = loss.losses, np.exp(loss.log_p), loss.infinite_p
    elif isinstance(loss, LaplaceLoss) and fits(loss.epsilon0, step):
        return _binned_laplace(loss, step)
    else:
        losses, mass = _cells(loss, grid_places(ends, step), step)
        infinite = float(loss.tail(np.inf)[0])
    return LossGrid(*_walk_down(losses / step, mass, step), infinite, infinite_q, np.zeros(0))


def _binned_laplace(loss: LaplaceLoss, step: float) -> LossGrid:
    """Laplace releases between the atoms in bins of two steps, whose losses are the grid points inside."""
    e, cells = loss.epsilon0, round(loss.epsilon0 / step)
    edges = np.linspace(-e, e, cells + 1)
    mass = np.zeros(2 * cells + 1)
    mass[1::2] = -0.5 * np.exp((edges[1:] - e) / 2.0) * np.expm1(-e / cells)
    mass[[0, -1]] = 0.5 * np.exp(-e), 0.5
    return compact(LossGrid(np.arange(-cells, cells + 1), mass, 0.0, 0.0, np.zeros(mass.size)))


def _cells(loss: PrivacyLoss, places: Integers, step: float) -> tuple[Floats, Floats]:
    """Losses and masses under P of half-cells between grid points, and of everything beyond the last.

    Cells whose masses are dominated by rounding of the tails are omitted, which reveals less.
    """
    nodes = np.union1d(places, places[:-1] + 0.5 * np.diff(places)) * step
    p, q = (as_array(tail) for tail in loss.tail(nodes))
    below_q, below_p = (as_array(tail) for tail in loss.swapped.tail(-nodes))
    upper, cells = nodes[:-1] >= 0.0, []
    for beyond, below in ((p, below_p), (q, below_q)):
        inner = np.where(upper, beyond[:-1] - beyond[1:], below[1:] - below[:-1])
        sure = inner > LOST * np.where(upper, beyond[:-1], below[1:])
        cells.append(np.where(sure, inner, 0.0))
    inside = (cells[0] > 0.0) & (cells[1] > 0.0)
    last = max(float(p[-1]) - float(loss.tail(np.inf)[0]), 0.0)
    with np.errstate(divide="ignore"):
        losses = np.log(cells[0][inside]) - np.log(cells[1][inside])
    edges = nodes[:-1][inside], nodes[1:][inside]
    # the mean loss of a cell lies within it, up to rounding
    losses = np.clip(losses, edges[0], edges[1])
    at, centre = int(np.searchsorted(losses, 0.0)), int(np.searchsorted(nodes, 0.0))
    # Mass at a loss of exactly 0, which lies in neither tail.
    nothing = max(1.0 - float(p[centre]) - float(below_p[centre]) - ROOM, 0.0)
    losses, mass = (np.insert(x, at, one) for x, one in ((losses, 0.0), (cells[0][inside], nothing)))
    return np.append(losses, nodes[-1]), np.append(mass, last)


def _walk_down(x: Floats, mass: Floats, step: float) -> tuple[Integers, Floats]:
    """Masses under P at whole numbers from atoms at ascending x, each an average of atoms above and below it.

    These are chords of the trade-off curve, from level 0 on, with slopes of the grid. Atoms whose ratio exceeds that
    of the next grid point are balanced by lower ones; the last masses, without lower atoms, are divided between two.
    """
    places, masses, starts = list[int](), list[float](), list[tuple[int, float]]()
    at, size = x[::-1].tolist(), mass[::-1].tolist()
    i, left, short = 0, size[0] if size else 0.0, False
    while i < len(at):
        if left <= 0.0:
            i += 1
            left = size[i] if i < len(at) else 0.0
            continue
        place = math.floor(at[i] + ON_GRID * max(1.0, abs(at[i])))
        starts.append((i, left))
        excess, total = 0.0, 0.0
        while i < len(at):
            ratio = math.expm1(min(step * (place - at[i]), 700.0))
            if ratio <= 0.0 or abs(at[i] - place) <= ON_GRID * max(1.0, abs(place)):
                excess -= left * min(ratio, 0.0)
                total += left
            elif left * ratio <= excess:
                excess -= left * ratio
                total += left
            else:
                part = min(excess / ratio, left)
                total += part
                left -= part
                excess = 0.0
                break
            i += 1
            left = size[i] if i < len(at) else 0.0
        places.append(place)
        masses.append(total)
        short = excess > 0.0
    for back in range(2, min(LAST_PLACES, len(places)) + 1) if short else ():
        first, rest = starts[-back]
        # single losses far apart must not be merged
        if at[first] - at[-1] > 2 * LAST_PLACES:
            break
        if shared := _shared(x[::-1][first:], np.append(rest, mass[::-1][first + 1 :]), step):
            places[-back:], masses[-back:] = shared
            break
    unique_places, at_place = np.unique(np.array(places, dtype=np.int64), return_inverse=True)
    return unique_places, np.bincount(at_place, masses, unique_places.size)


def _shared(x: Floats, mass: Floats, step: float) -> tuple[list[int], list[float]] | None:
    """Atoms at descending x moved to the two grid points next to their mean; None if that would reveal more.

    Two points reveal no more if their profile nowhere exceeds that of the atoms; checking at the atoms suffices.
    """
    q = mass * np.exp(-step * (x - x[0]))
    average = x[0] + math.log(float(mass.sum() / q.sum())) / step
    low = math.floor(average)
    up = math.expm1(step * (low - average)) / math.expm1(-step)
    high_mass = float(mass.sum()) * up
    kinks = x[(x >= low) & (x <= low + 1)]
    above = (mass * np.maximum(-np.expm1(np.minimum(step * (kinks[:, None] - x), 0.0)), 0.0)).sum(1)
    if not (above >= high_mass * -np.expm1(step * (kinks - low - 1.0))).all() or x[0] < low + 1 or x[-1] > low:
        return None
    return [low + 1, low], [high_mass, float(mass.sum()) - high_mass]


def on_grid(law: LatticeLoss, step: float) -> bool:
    """True if all listed losses are multiples of `step`."""
    return not _placed(law.losses / step)[1].any()


def rounded_up(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> LossGrid:
    """Losses rounded up to the grid; mass beyond its end becomes infinite loss."""
    if isinstance(loss, LatticeLoss):
        low, over = _placed(loss.losses / step)
        return _listed(low + (over > 0.0), np.exp(loss.log_p), loss.infinite_p)
    places = grid_places(ends, step)
    beyond, inside = _grid_masses(loss, as_array(step * places))
    mass = np.append(1.0 - beyond[0], inside)
    return LossGrid(places, mass, float(beyond[-1]), 0.0, np.zeros(0))


def rounded_down(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> LossGrid:
    """Losses rounded down to the grid; finite losses beyond its end are moved to the end."""
    if isinstance(loss, LatticeLoss):
        return _listed(_placed(loss.losses / step)[0], np.exp(loss.log_p), loss.infinite_p)
    places, infinite = grid_places(ends, step), float(loss.tail(np.inf)[0])
    beyond, inside = _grid_masses(loss, as_array(step * places))
    return LossGrid(places, np.append(inside, max(0.0, beyond[-1] - infinite)), infinite, 0.0, np.zeros(0))


def _listed(places: Integers, mass: Floats, infinite_p: float) -> LossGrid:
    unique_places, at = np.unique(places, return_inverse=True)
    return LossGrid(unique_places, np.bincount(at, mass, unique_places.size), infinite_p, 0.0, np.zeros(0))


def _grid_masses(loss: PrivacyLoss, nodes: Floats) -> tuple[Floats, Floats]:
    """P(L > node) at each, and P(node < L <= next node)."""
    beyond = as_array(loss.tail(nodes)[0])
    return beyond, np.maximum(-np.diff(beyond), 0.0)


def fits(length: float, step: float) -> bool:
    """True if a loss is a multiple of the step, of at most `GRID_BINS` steps."""
    ratio = length / step
    return bool(1.0 <= ratio <= GRID_BINS and abs(ratio - round(ratio)) < 1e-9 * ratio)


def add_masses(a: Floats, b: Floats) -> Floats:
    """Masses of a sum of two independent variables by direct convolution; an FFT has absolute accuracy only."""
    i, j = np.flatnonzero(a), np.flatnonzero(b)
    if 100 * i.size * j.size > a.size * b.size or i.size * j.size > MAX_ATOMS:
        return np.convolve(a, b)
    return np.bincount(np.add.outer(i, j).ravel(), np.outer(a[i], b[j]).ravel(), a.size + b.size - 1)


def law_deviation(law: LatticeLoss) -> float:
    """Standard deviation of the finite losses under P."""
    mass = np.exp(law.log_p)
    mass = mass / max(float(mass.sum()), SMALLEST)
    return math.sqrt(float(mass @ (law.losses - mass @ law.losses) ** 2))


def sum_range(parts: list[tuple[LatticeLoss, int]]) -> float:
    """Width of a range outside which a sum of listed losses lies with probability e^-42 per side, by Chernoff."""
    widest = sum(times * float(np.ptp(law.losses)) for law, times in parts)
    scale = math.sqrt(sum(times * law_deviation(law) ** 2 for law, times in parts))
    if scale == 0.0 or widest == 0.0:
        return max(widest, 1e-9)
    mean = sum(times * float(np.exp(law.log_p) @ law.losses) for law, times in parts)
    sides = 0.0
    for sign in (-1.0, 1.0):
        rates = sign * np.geomspace(0.1, 100.0, 40) / scale
        grown = np.zeros(rates.size)
        for law, times in parts:
            grown += times * log_sum_exp(law.log_p + rates[:, None] * law.losses)
        sides += float(((grown - rates * mean + 42.0) / np.abs(rates)).min())
    return min(sides, widest)


def edges_of(loss: PrivacyLoss, mass: float = 1e-24) -> tuple[float, float]:
    """Lower and upper threshold beyond which P and Q have at most `mass`, infinite losses excluded."""
    t = np.concatenate([-np.geomspace(800, 1e-9, 5400), np.geomspace(1e-9, 800, 5400)])

    def last_live(side: PrivacyLoss) -> float:
        infinite, place = side.tail(np.inf)[0], 0
        # coarse, then fine: tails may be slow to compute
        for stride in (100, 1):
            some = t[place::stride][:100]
            p, q = (as_array(tail) for tail in side.tail(some))
            live = np.flatnonzero(np.maximum(p - infinite, q) > mass)
            if not live.size:
                return float(t[0])
            place += stride * int(live[-1])
        return float(t[min(place + 1, t.size - 1)])

    high, low = last_live(loss), -last_live(loss.swapped)
    if high < low:  # all losses are infinite
        high = low = 0.0
    return low, max(high, low + 1e-9)


def widened(low: Any, high: Any) -> tuple[Any, Any]:
    """A bracket widened by 1e-12, the rounding error of a sum of some thousands of terms."""
    return scalar_or_array(low * (1.0 - 1e-12)), scalar_or_array(np.minimum(high * (1.0 + 1e-12), 1.0))
