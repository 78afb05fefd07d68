"""Partition of a model's latents into those that are summed out and those that are drawn.

Discrete latents are summed out, component by component. A latent without a largest value is cut where its mass is
negligible at every draw of its parents. If a component has too many states, its largest latents are drawn like
continuous ones, those that the target reads last. A latent with unknown or too many values is drawn too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary.models.enumeration import (
    Components,
    Conditioned,
    Grid,
    PlacedTotal,
    SummedLeaves,
    Tail,
    support_of,
    unbounded_latents,
)

from .latent_draws import number_shape
from .prior_predictive import PriorPredictive

# Largest number of states of a component in a model with continuous latents; above it, its largest latent is drawn.
LARGEST_STATES = 200_000

# As `LARGEST_STATES`, in a model whose latents are all discrete.
LARGEST_JOINT = 2_000_000

# As `LARGEST_STATES`, for the states that must be evaluated for every draw.
LARGEST_MET = 20_000

# As `LARGEST_MET`, if a release depends on a drawn discrete latent: every pair of draw and release is evaluated.
LARGEST_MIXED = 200
# First and largest number of values of a latent without a largest one.
_SHORTEST, _LONGEST = 32, 1024
_DRAWS, _AT_ONCE, _SEED = 4000, 500, 45
# The probabilities of a distribution may fall short of one by as much through rounding.
_ROUNDING = 1e-9
# Log probability below which a value at the end is dropped.
_NOTHING = np.log(1e-15)


@dataclass(frozen=True)
class Parted:
    """Model with its latents partitioned into drawn and summed ones.

    Parameters
    ----------
    given : the model; its `continuous` includes the discrete latents that are drawn
    components : components of the summed latents and of their sums; latents that share a term with a drawn one first
    met : number of states of each component over the latents that share a term with a drawn one
    terms, target : graphs
    totals : sums of latents that replace these latents
    cut : names of latents with a truncated support
    """

    given: Conditioned
    components: Components
    met: tuple[int, ...]
    terms: list[list[TensorVariable]]
    target: TensorVariable
    totals: tuple[PlacedTotal, ...]
    cut: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        given: Conditioned,
        terms: Sequence[list[TensorVariable]],
        target: TensorVariable,
        support: Mapping[str, ArrayLike],
    ) -> Parted:
        """Partition the latents of a model; the last list of terms is that of its joint log density."""
        supports, cut = _supports(given, dict(support))
        gone: list[str] = []
        sizes = {name: math.prod(float(len(axis)) for axis in axes) for name, (_, axes) in supports.items()}
        read = set(ancestors([target]))
        parted, large = cls._summing(given, terms, target, supports)
        while large:
            gone.append(min(large, key=lambda name: (given.latents[name] in read, -sizes[name])))
            parted, large = cls._summing(given, terms, target, {n: v for n, v in supports.items() if n not in gone})
        # Greedy removal can take out too many: drawing the last latent may leave room for some of those before it.
        for name in gone[-2::-1]:
            fewer = [other for other in gone if other != name]
            wider, large = cls._summing(given, terms, target, {n: v for n, v in supports.items() if n not in fewer})
            parted, gone = (parted, gone) if large else (wider, fewer)
        return replace(parted, cut=cut)

    def ends(self) -> list[NDArray[np.bool_]]:
        """Masks (state,) per component of the states in which a truncated latent may be at its largest value."""
        grid = self.components.grid
        masks = [np.zeros(size, dtype=bool) for size in self.components.sizes]
        names = [name for name, axes in grid.axes.items() for _ in axes]
        cut = {axis for axis, name in enumerate(names) if name in self.cut}
        for axis in cut:
            component, numbers = self.components.value_numbers(axis)
            masks[component] |= numbers == grid.lengths[axis] - 1
        for one in self.totals:
            tops = [int(s[-1]) for leaf, s in zip(one.total.leaves, one.total.shifts, strict=True) if leaf in cut]
            if tops:
                masks[one.component] |= one.numbers >= min(tops)
        return masks

    @classmethod
    def _summing(
        cls,
        given: Conditioned,
        terms: Sequence[list[TensorVariable]],
        target: TensorVariable,
        supports: Mapping[str, tuple[tuple[int, ...], list[Any]]],
    ) -> tuple[Parted, list[str]]:
        """Partition that sums out the latents with these supports, and the latents of a component that is too large."""
        latents = {name: value for name, value in given.latents.items() if name in supports}
        drawn = given.continuous | {name: value for name, value in given.latents.items() if name not in supports}
        grid = Grid.over({name: supports[name] for name in latents})
        summed = SummedLeaves.of(grid, list(latents.values()), terms, [target], list(given.released.values()))
        components = Components.of(summed.grid, summed.values, summed.terms[-1], summed.targets)
        values, released = set(drawn.values()), set(given.released.values())
        met_by = [t for t in (*summed.terms[-1], *summed.targets) if not values.isdisjoint(ancestors([t]))]
        own = [axis for total in summed.totals for axis in (total.axis, *total.leaves)]
        components, met = components.with_first(met_by, own)
        leaves = [axis for total in summed.totals for axis in total.leaves]
        components, met = components.possible_ones(summed.terms[-1], met, leaves)
        mixed = any(not released.isdisjoint(ancestors([term])) for term in met_by)
        most = LARGEST_MIXED if mixed and len(latents) < len(given.latents) else LARGEST_MET
        largest = LARGEST_STATES if given.continuous else LARGEST_JOINT
        pairs = zip(components.sizes, met, components.members, strict=True)
        axes = next((own for size, few, own in pairs if size > largest or few > most), ())
        names = [name for name, axes in grid.axes.items() for _ in axes]
        totals = PlacedTotal.all_of(components, summed.totals)
        parted = replace(given, latents=latents, continuous=drawn)
        parted_model = cls(parted, components, met, summed.terms, summed.targets[0], totals)
        return parted_model, list(dict.fromkeys(names[i] for i in axes if i < len(names)))


def _supports(
    given: Conditioned, support: dict[str, ArrayLike]
) -> tuple[dict[str, tuple[tuple[int, ...], list[Any]]], frozenset[str]]:
    """Supports of the discrete latents whose values can be listed, and the names of those that are truncated."""
    supports, known = {}, set(support)
    for name in given.latents:
        rv = given.model[name]
        try:
            for start in (start for _, start in unbounded_latents({name: rv}, support, given.moving).values()):
                support[name] = _cut_values(given, name, start)
            supports[name] = support_of(rv, support, given.moving)
        except ValueError:
            continue
    return supports, frozenset(set(supports).intersection(support) - known)


def _cut_values(given: Conditioned, name: str, start: int) -> NDArray[np.int64]:
    """Truncated support of a latent: values with non-negligible mass at some prior draw of its parents.

    Raises
    ------
    ValueError : the support is too long, or the parents cannot be drawn
    """
    rv = given.model[name]
    tail = Tail.of(rv, number_shape(rv), given.moving)
    parents: list[NDArray[Any]] = []
    if tail.parents:
        try:
            drawn, _ = PriorPredictive.of(given.model, tail.parents, {}).draw(_DRAWS, np.random.default_rng(_SEED))
        except NotImplementedError as error:
            raise ValueError(f"the parents of {name!r} cannot be drawn") from error
        parents = [drawn[parent] for parent in tail.parents]
    draws = _DRAWS if parents else 1
    length = _SHORTEST
    while length <= _LONGEST:
        values = np.arange(start, start + length)
        needed = [_needed(tail, [p[i : i + _AT_ONCE] for p in parents], values) for i in range(0, draws, _AT_ONCE)]
        if max(needed) < length:
            return values[: max(needed) + 1]
        length *= 2
    raise ValueError(f"latent {name!r} may take more than {_LONGEST} values")


def _needed(tail: Tail, parents: list[NDArray[Any]], values: NDArray[np.int64]) -> int:
    """Number of leading values with all non-negligible mass; `values.size` if more mass lies beyond."""
    log_p = tail.table(parents, values, len(parents[0]) if parents else 1)
    with np.errstate(invalid="ignore"):
        lack = -np.expm1(logsumexp(log_p, axis=1))
        some = ~(log_p <= _NOTHING).all(axis=(0, 2))
    return int(np.flatnonzero(some).max()) + 1 if (lack <= _ROUNDING).all() else values.size
