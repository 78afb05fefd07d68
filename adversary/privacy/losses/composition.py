"""Privacy losses and how they add up: the loss of independent releases is the sum of their losses.

What can be exact is: explicit lattices are multiplied out, discrete Gaussians go to their certified engine, one lattice
with one law of another kind is a mixture. Only what is left is rounded, up and down, on a grid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from adversary._core import as_array, check_whole
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.losses.grid_rounding import (
    GRID_BINS,
    MAX_ATOMS,
    Grid,
    RoundedLoss,
    Rounding,
    add_masses,
    edges_of,
    grid_above,
    grid_below,
    rounded_down,
    rounded_up,
    widened,
)
from adversary.privacy.losses.lattice import (
    NOTHING,
    LatticeLoss,
    convolve_lattices,
    either,
    merge_atoms,
    repeat_product,
)
from adversary.privacy.losses.loss import Bracket, PrivacyLoss, way_to_loss
from adversary.privacy.losses.mixed import MixedLoss
from adversary.privacy.losses.repetition import MANY, RepeatedLoss

MOST_RHO = 1e9
"""zCDP beyond which a contour takes too long: nothing is guaranteed there."""

MIXED_ATOMS = 2_000
"""A lattice with at most so many atoms is mixed exactly with a loss of another kind."""


@dataclass(frozen=True, eq=False)
class ComposedLoss(RoundedLoss):
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
        found = {part: edges_of(part.rough) for part in self._alike}
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
        return self._on_grid(grid_above)

    @cached_property
    def lower(self) -> LatticeLoss:
        """A law whose profile is nowhere above."""
        return self._on_grid(grid_below)

    @property
    def bracket(self) -> Bracket:
        return Bracket(
            of_delta=lambda epsilon: widened(self.lower.delta(epsilon), self.upper.delta(epsilon)),
            of_power=lambda level: widened(self.lower.power(level), self.upper.power(level)),
            of_tail=lambda t: (self._rounded_down.tail(t)[0], self._rounded_up.tail(t)[0]),
        )

    @cached_property
    def _rounded_down(self) -> LatticeLoss:
        return self._on_grid(rounded_down)

    @cached_property
    def _rounded_up(self) -> LatticeLoss:
        return self._on_grid(rounded_up)

    @property
    def certain(self) -> float:
        return max(float(side.tail(1e300)[0]) for part in self._alike for side in (part, part.swapped))

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
    atoms = other.law
    if isinstance(atoms, LatticeLoss) and atoms.losses.size * lattice.losses.size <= MAX_ATOMS // 10:
        return replace(convolve_lattices(lattice, atoms), parts=(lattice, other))
    return MixedLoss(lattice, other)


def repeat_loss(loss: PrivacyLoss, times: int) -> PrivacyLoss:
    """Privacy loss of `times` independent releases with the same loss.

    Lattices are composed by repeated squaring; everything else as in `compose_losses`. More than `MANY` releases, whose
    law is no longer listed, are bracketed.

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
        few = max(1, int(MOST_RHO / loss.rho)) if loss.rho > 0.0 else n
        return loss.times(n) if n <= few or n == 1 else RepeatedLoss(loss, n, loss.times(few))
    if n > MANY and loss.is_nothing:
        return NOTHING
    if n > MANY and isinstance(loss, GaussianLoss):
        return GaussianLoss(float(loss.mu * np.sqrt(n)))
    if n > MANY and loss.summands != (loss,):
        return compose_losses([repeat_loss(part, n) for part in loss.summands])
    if n > MANY:
        return RepeatedLoss(loss, n, repeat_loss(loss, MANY))
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


def _convolve(grids: list[tuple[Grid, int]], step: float) -> LatticeLoss:
    """The sum of parts, each so many times."""
    total = reduce(add_masses, [repeat_product(grid.mass, times, np.ones(1), add_masses) for grid, times in grids])
    losses = as_array(step * (sum(times * grid.first for grid, times in grids) + np.arange(total.size)))
    with np.errstate(divide="ignore"):
        log_p = np.log(total)
    infinite_p = either(grid.infinite_p for grid, times in grids for _ in range(times))
    infinite_q = either(grid.infinite_q for grid, times in grids for _ in range(times))
    return LatticeLoss(*merge_atoms(losses, log_p, log_p - losses), infinite_p, infinite_q, rounded=True)
