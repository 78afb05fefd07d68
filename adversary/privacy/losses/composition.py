"""Privacy losses and how they add up: the loss of independent releases is the sum of their losses.

What can be exact is: explicit lattices are multiplied out, discrete Gaussians go to their certified engine, one lattice
with one law of another kind is a mixture. Only what is left is rounded, up and down, on a grid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability, check_whole, labelled, scalar_or_array
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.losses.dominating import lattice_above
from adversary.privacy.losses.lattice import (
    NOTHING,
    LatticeLoss,
    convolve_lattices,
    either,
    merge_atoms,
    repeat_product,
)
from adversary.privacy.losses.loss import Bracket, Expectation, PrivacyLoss, way_to_loss
from adversary.privacy.losses.mixed import MixedLoss
from adversary.privacy.profiles import epsilon_from_profile

GRID_BINS = 2**14
"""Bins of the common grid on which products that cannot be exact are rounded."""

MAX_ATOMS = 3_000_000
"""Largest product of explicit lattices that is enumerated."""

MIXED_ATOMS = 2_000
"""A lattice with at most so many atoms is mixed exactly with a loss of another kind."""


@dataclass(frozen=True, eq=False)
class ComposedLoss(PrivacyLoss):
    """Sum of independent losses that cannot be exact: dominated from above and from below on a common grid.

    Above, each law's profile is joined by straight lines between grid points; below, each loss is rounded down, or,
    for Laplace noise on a grid that fits, the release is binned. `bracket` certifies the profile and P's tails. It is
    0.2 to 1.3 % wide at delta 1e-2 and up to 4.5 % at 1e-10, over random mixes of Laplace and Gaussian levels, so a
    promise closer to the truth than that is not proved false.
    """

    parts: tuple[PrivacyLoss, ...]

    @property
    def summands(self) -> tuple[PrivacyLoss, ...]:
        return self.parts

    @cached_property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Where the law of each part ends, but for a mass of no consequence."""
        found = {part: _edges(part.lightly) for part in self._alike}
        return tuple(found[part] for part in self.parts)

    def _on_grid(self, rounding: Rounding) -> LatticeLoss:
        """The parts rounded and added up; equal ones, such as repeated releases, are rounded once."""
        ends = dict(zip(self.parts, self.ends, strict=True))
        rounded = [(rounding(part, ends[part], self.step), times) for part, times in self._alike.items()]
        return _convolve(rounded, self.step)

    @cached_property
    def step(self) -> float:
        """Spacing of the grid: the losses' whole range over GRID_BINS, or less, fitted to equal Laplace parts.

        A Laplace part narrower than that does not set it: the grid would have bins without end.
        """
        coarse = sum(high - low for low, high in self.ends) / GRID_BINS
        wide = [part.epsilon0 for part in self.parts if isinstance(part, LaplaceLoss) and part.epsilon0 >= coarse]
        return min(wide) / np.ceil(min(wide) / coarse) if wide else coarse

    @cached_property
    def upper(self) -> LatticeLoss:
        """A law whose profile is nowhere below."""
        return self._on_grid(_grid_above)

    @cached_property
    def lower(self) -> LatticeLoss:
        """A law whose profile is nowhere above."""
        return self._on_grid(_grid_below)

    @property
    def bracket(self) -> Bracket:
        return Bracket(
            of_delta=lambda epsilon: _widen(self.lower.delta(epsilon), self.upper.delta(epsilon)),
            of_power=lambda level: _widen(self.lower.power(level), self.upper.power(level)),
            of_tail=lambda t: (self._rounded_down.tail(t)[0], self._rounded_up.tail(t)[0]),
        )

    @cached_property
    def _rounded_down(self) -> LatticeLoss:
        return self._on_grid(_rounded_down)

    @cached_property
    def _rounded_up(self) -> LatticeLoss:
        return self._on_grid(_rounded_up)

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """From the law above; never more than the largest loss.

        Below what the grid leaves out it is `pbdp_epsilon(delta)`, an upper bound from the moments.
        """
        target = check_probability("delta", delta)
        most = max(self.maximum, self.swapped.maximum)
        least = max(self.upper.infinite_p, self.swapped.upper.infinite_p)
        real = max(float(side.tail(1e300)[0]) for part in self._alike for side in (part, part.swapped))
        found = as_array(epsilon_from_profile(self, target))
        if np.isinf(most) and real == 0.0 and (far := (target > 0.0) & (target <= least)).any():
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

    @cached_property
    def _alike(self) -> Counter[PrivacyLoss]:
        """The parts, and how often each is there, such as repeated releases."""
        return Counter(self.parts)

    @property
    def kl_divergence(self) -> float:
        return sum(times * part.kl_divergence for part, times in self._alike.items())

    def log_moment(self, order: float) -> float:
        return sum(times * part.log_moment(order) for part, times in self._alike.items())

    @cached_property
    def swapped(self) -> ComposedLoss:
        turned = tuple(part.swapped for part in self.parts)
        return self if all(a is b for a, b in zip(turned, self.parts, strict=True)) else ComposedLoss(turned)

    @property
    def maximum(self) -> float:
        return sum(times * part.maximum for part, times in self._alike.items())


def _widen(low: Any, high: Any) -> tuple[Any, Any]:
    """By what rounding may have taken from a sum of some thousands of terms."""
    return scalar_or_array(low * (1.0 - 1e-12)), scalar_or_array(np.minimum(high * (1.0 + 1e-12), 1.0))


def compose_losses(parts: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Privacy loss of independent releases: the sum of their losses.

    Exact where it can be: Gaussian losses add in mu^2, explicit lattices are multiplied out, discrete Gaussians go to
    their certified engine, one small lattice beside one other law is a mixture. Otherwise a bracketed `ComposedLoss`.

    Parameters
    ----------
    parts : privacy losses; none gives the loss that is 0

    Returns
    -------
    PrivacyLoss of all releases together.

    Raises
    ------
    TypeError : a part that is not a PrivacyLoss; the message says how to get one

    >>> compose_losses([GaussianLoss(3.0), GaussianLoss(4.0)])
    GaussianLoss(mu=5.0)
    """
    for part in parts:
        if not isinstance(part, PrivacyLoss):
            raise TypeError(f"losses are composed with losses, got {part!r}{way_to_loss(part)}")
    flat = [q for part in parts for q in part.summands if not q.is_nothing]
    gaussians = [part for part in flat if isinstance(part, GaussianLoss)]
    discrete = [part for part in flat if isinstance(part, DiscreteGaussianLoss)]
    lattices = [part for part in flat if isinstance(part, LatticeLoss)]
    rest: list[PrivacyLoss] = [part for part in flat if isinstance(part, LaplaceLoss)]
    rest += [
        part for part in flat if not isinstance(part, GaussianLoss | DiscreteGaussianLoss | LatticeLoss | LaplaceLoss)
    ]
    variance = float(sum(part.mu**2 for part in gaussians))
    if discrete:
        whole = reduce(DiscreteGaussianLoss.beside, discrete)
        rest.append(DiscreteGaussianLoss(whole.families, variance + whole.variance, whole.goal))
    elif gaussians:
        rest.append(GaussianLoss(float(np.sqrt(variance))))
    listed = _all_multiplied(lattices)
    if not rest and len(listed) <= 1:
        return listed[0] if listed else NOTHING
    if len(rest) == 1 and not listed:
        return rest[0]
    if len(rest) == 1 and len(listed) == 1 and listed[0].losses.size <= MIXED_ATOMS:
        return _compose_lattice(listed[0], rest[0])
    return ComposedLoss((*listed, *rest))


def _compose_lattice(lattice: LatticeLoss, other: PrivacyLoss) -> PrivacyLoss:
    """One more lattice where the other law is listed, a mixture where it is not."""
    atoms = other.exact
    if isinstance(atoms, LatticeLoss) and atoms.losses.size * lattice.losses.size <= MAX_ATOMS // 10:
        return replace(convolve_lattices(lattice, atoms), parts=(lattice, other))
    return MixedLoss(lattice, other)


def repeat_loss(loss: PrivacyLoss, times: int) -> PrivacyLoss:
    """Privacy loss of `times` independent releases with the same loss.

    Lattices are composed by repeated squaring; everything else as in `compose_losses`.

    Parameters
    ----------
    loss : of one release
    times : number of releases, >= 0; none give the loss that is 0

    Returns
    -------
    PrivacyLoss of all releases together.

    Raises
    ------
    ValueError : times negative or not whole
    TypeError : not a PrivacyLoss

    >>> repeat_loss(GaussianLoss(1.0), 4)
    GaussianLoss(mu=2.0)
    """
    n = int(check_whole("times", times, minimum=0))
    if isinstance(loss, DiscreteGaussianLoss) and n:
        return loss.times(n)
    if not isinstance(loss, LatticeLoss) or loss.parts:
        return compose_losses([loss] * n)
    nothing: list[LatticeLoss] = []
    together: list[LatticeLoss] = repeat_product([loss], n, nothing, lambda a, b: _all_multiplied([*a, *b]))
    return compose_losses(together)


def _all_multiplied(parts: list[LatticeLoss]) -> list[LatticeLoss]:
    done: list[LatticeLoss] = []
    for one in parts:
        done = _multiply_lattices(done, one)
    return done


def _multiply_lattices(done: list[LatticeLoss], one: LatticeLoss) -> list[LatticeLoss]:
    """Lattices multiplied together while the products stay small."""
    if done and done[-1].losses.size * one.losses.size <= MAX_ATOMS:
        return [*done[:-1], convolve_lattices(done[-1], one)]
    return [*done, one]


@dataclass(frozen=True)
class _Grid:
    """Masses under P at whole multiples of a step, from `first` on, and the infinite masses."""

    first: int
    mass: Floats
    infinite_p: float
    infinite_q: float


Rounding = Callable[[PrivacyLoss, tuple[float, float], float], _Grid]
"""A way to move a loss, ending there, to whole multiples of a step."""


def _grid_above(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> _Grid:
    """The profile joined by straight lines between grid points."""
    low, high = (int(f(edge / step)) for f, edge in zip((np.floor, np.ceil), ends, strict=True))
    if isinstance(loss, LaplaceLoss) and _fits(loss, step):
        high = round(loss.epsilon0 / step)
        low, stride = -high, 2
    else:
        low, high, stride = min(low, -1), max(high, 1), 1
    nodes = np.arange(low, high + 1, stride)
    nodes = np.union1d(nodes, [0])
    law = lattice_above(loss.lightly, as_array(step * nodes))
    mass = np.zeros(high - low + 1)
    mass[np.rint(law.losses / step).astype(np.int64) - low] = np.exp(law.log_p)
    return _Grid(low, mass, law.infinite_p, law.infinite_q)


def _grid_below(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> _Grid:
    """Laplace releases binned, so that losses fall on the grid; others rounded down."""
    if not (isinstance(loss, LaplaceLoss) and _fits(loss, step)):
        return _rounded_down(loss, ends, step)
    e, cells = loss.epsilon0, round(loss.epsilon0 / step)
    edges = np.linspace(-e, e, cells + 1)
    mass = np.zeros(2 * cells + 1)
    mass[1::2] = 0.5 * np.exp((edges[:-1] - e) / 2.0) * np.expm1(e / cells)
    mass[[0, -1]] = 0.5 * np.exp(-e), 0.5
    return _Grid(-cells, mass, 0.0, 0.0)


def _fits(loss: LaplaceLoss, step: float) -> bool:
    ratio = loss.epsilon0 / step
    return bool(1.0 <= ratio <= GRID_BINS and abs(ratio - round(ratio)) < 1e-9 * ratio)


def _rounded_up(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> _Grid:
    """Every loss rounded up to the grid; mass beyond it infinite."""
    first, beyond, inside = _grid_masses(loss, ends, step)
    return _Grid(first, np.append(1.0 - beyond[0], inside), float(beyond[-1]), 0.0)


def _rounded_down(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> _Grid:
    """Every loss rounded down to the grid; finite mass beyond it at its end."""
    first, beyond, inside = _grid_masses(loss, ends, step)
    infinite = float(loss.tail(np.inf)[0])
    return _Grid(first, np.append(inside, max(0.0, beyond[-1] - infinite)), infinite, 0.0)


def _grid_masses(loss: PrivacyLoss, ends: tuple[float, float], step: float) -> tuple[int, Floats, Floats]:
    """The grid's first point, P(L > point) at each, and P(point < L <= next point)."""
    first, last = int(np.floor(ends[0] / step)), int(np.ceil(ends[1] / step))
    beyond = as_array(loss.tail(as_array(step * np.arange(first, last + 1)))[0])
    return first, beyond, np.maximum(-np.diff(beyond), 0.0)


def _convolve(grids: list[tuple[_Grid, int]], step: float) -> LatticeLoss:
    """The sum of parts, each so many times."""
    total = reduce(_add_up, [repeat_product(grid.mass, times, np.ones(1), _add_up) for grid, times in grids])
    losses = as_array(step * (sum(times * grid.first for grid, times in grids) + np.arange(total.size)))
    with np.errstate(divide="ignore"):
        log_p = np.log(total)
    infinite_p = either(grid.infinite_p for grid, times in grids for _ in range(times))
    infinite_q = either(grid.infinite_q for grid, times in grids for _ in range(times))
    return LatticeLoss(*merge_atoms(losses, log_p, log_p - losses), infinite_p, infinite_q, rounded=True)


def _add_up(a: Floats, b: Floats) -> Floats:
    """Law of a sum of independent numbers, directly: an FFT would keep only absolute accuracy."""
    i, j = np.flatnonzero(a), np.flatnonzero(b)
    if 100 * i.size * j.size > a.size * b.size or i.size * j.size > MAX_ATOMS:
        return np.convolve(a, b)
    return np.bincount(np.add.outer(i, j).ravel(), np.outer(a[i], b[j]).ravel(), a.size + b.size - 1)


def _edges(loss: PrivacyLoss, mass: float = 1e-24) -> tuple[float, float]:
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
