"""Tables that nest: every cell of one lies in one cell of the next, so that the tables are the levels of a path.

Cells of which the adversary is in the same position share their law, and cells with as many siblings their noise
(`laws_of_cells`), so that a county takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Integers, Seed
from adversary.adversaries.beliefs import Uniform
from adversary.adversaries.path import Adversary, Truth, settle_truth
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.risk import BayesFactorLaw, few_others, laws_of_cells, shift_invariant
from adversary.adversaries.tables.published import Joined, TableAdversary
from adversary.adversaries.tables.query import Query
from adversary.privacy import PrivacyUnit


def chain_of(queries: Sequence[Query]) -> tuple[int, ...] | None:
    """The places of queries that nest, the finest first; None where two of them cross.

    Parameters
    ----------
    queries : of one histogram

    >>> chain_of([Query("total", ((0, 0),)), Query("sex", ((0, 1),))]), chain_of([Query("a", ((0, 0, 1),))] * 2)
    ((1, 0), (0, 1))
    """
    order = tuple(sorted(range(len(queries)), key=lambda i: -queries[i].size))
    for lower, upper in pairwise(order):
        for fine, coarse in zip(queries[lower].groups, queries[upper].groups, strict=True):
            if len({*zip(fine, coarse, strict=True)}) > max(fine) + 1:
                return None
    return order


def sums_have_laws(world: Joined, chain: Sequence[int]) -> bool:
    """True where the noise of several cells of a table under the top adds up to noise that depends on no count.

    Parameters
    ----------
    world : tables and their finest cells
    chain : places of the tables, the finest first
    """
    if all(world.noises[i].is_additive for i in chain[:-1]):
        return True
    most = Nested.of(world, chain, world.counts).siblings.max(axis=0)
    return all(n <= 1 or world.noises[i].is_additive for i, n in zip(chain[:-1], most[:-1], strict=True))


@dataclass(frozen=True)
class Nested:
    """Every finest cell's way up through tables that nest.

    Parameters
    ----------
    levels : the tables' names and noise, lowest first, siblings not yet counted
    siblings : of each level in each finest cell, -1 at the top, (cell, level)
    totals : people in each level's cell, (cell, level)
    """

    levels: tuple[Level, ...]
    siblings: Integers
    totals: Integers

    @classmethod
    def of(cls, world: Joined, chain: Sequence[int], counts: Integers) -> Nested:
        """Those of tables over their finest cells, in the order of `chain_of`.

        Parameters
        ----------
        world : tables and their finest cells
        chain : places of the tables, the finest first
        counts : people, (cell,)
        """
        rows = [world.queries[i].rows for i in chain]
        above = []
        for own, upper in pairwise(rows):
            unit = np.unique(own, return_index=True)[1]
            above.append(np.bincount(upper[unit])[upper] - 1)
        totals = [np.bincount(own, counts).astype(np.int64)[own] for own in rows]
        levels = tuple(Level(world.queries[i].name, world.noises[i]) for i in chain)
        return cls(levels, np.stack([*above, np.full(counts.size, -1)], axis=1), np.stack(totals, axis=1))

    @property
    def names(self) -> list[str]:
        """Of the levels, lowest first."""
        return [level.name for level in self.levels]

    def adversary(self, who: TableAdversary) -> Adversary:
        """The adversary of the path, to whom every total is equally likely."""
        unknown = self.names if who.knows == "nobody" else self.names[1:]
        return Adversary(who.prior, beliefs={name: Uniform() for name in unknown})

    def positions(self, who: Adversary) -> tuple[Integers, NDArray[np.int64]]:
        """(siblings, target and counts of each position, (position, number); which of them each cell is in).

        Where only differences of counts matter, counts are those without everybody else in the cell.
        """
        target = np.minimum(self.totals[:, :1], 1)
        shift = _shift_invariant(self.levels, who)
        counts = self.totals - (self.totals[:, :1] - target if shift else 0)
        return _distinct(np.concatenate([self.siblings, target, counts], axis=1))

    def laws(
        self, who: Adversary, positions: Integers, unit: PrivacyUnit | None, rng: Seed
    ) -> Iterator[tuple[Integers, Plan, Adversary, list[BayesFactorLaw]]]:
        """Positions with as many siblings, their plan, the adversary's beliefs about it, and their laws."""
        size = len(self.levels)
        siblings = positions[:, :size]
        knows = who.beliefs.get(self.names[0]) is None
        for one in np.unique(siblings, axis=0):
            counts = [*map(int, one[:-1]), None]
            levels = [replace(level, siblings=n) for level, n in zip(self.levels, counts, strict=True)]
            plan = Plan(levels, privacy_unit=unit)
            same = {above.name for above, n in zip(self.levels[1:], counts[:-1], strict=True) if n == 0}
            beliefs = {name: belief for name, belief in who.beliefs.items() if name not in same}
            rows = np.flatnonzero((siblings == one).all(axis=1))
            believer = replace(who, beliefs=beliefs)
            yield rows, plan, believer, _laws(plan, believer, positions[rows, size:], knows, rng)

    def tells_most(self, positions: Integers) -> Integers:
        """The level that adds most to what those below it say, were counts of any size, (position,)."""
        size, variance = len(self.levels), [level.mechanism.variance for level in self.levels]
        before, gains = np.zeros(len(positions)), []
        for top in range(size):
            own = np.full(len(positions), variance[top])
            for i in reversed(range(top)):
                above = own + positions[:, i] * variance[i]
                own = 1.0 / (1.0 / variance[i] + 1.0 / above)
            gains.append(1.0 / own - before)
            before = 1.0 / own
        return np.argmax(np.round(gains, 12), axis=0)

    def tilted(self, plan: Plan, who: Adversary, positions: Integers) -> NDArray[np.bool_]:
        """Levels with a belief without an end, and few others there, (position, level)."""
        size = len(self.levels)
        others = np.diff(positions[:, size + 1 :])
        tilted = np.zeros((len(positions), size), dtype=bool)
        for i in range(1, size):
            belief = who.beliefs.get(self.names[i])
            tilted[:, i] = belief is not None and not belief.proper and others[:, i - 1] < few_others(plan, i)
        return tilted


def _distinct(states: Integers) -> tuple[Integers, NDArray[np.int64]]:
    """Distinct rows of whole numbers, and which of them each row is."""
    low = states.min(axis=0)
    span = states.max(axis=0) - low + 1
    if np.log2(span.astype(np.float64)).sum() > 62.0:
        rows, place = np.unique(states, axis=0, return_inverse=True)
        return rows, place.ravel()
    code = np.zeros(len(states), dtype=np.int64)
    for column, least, wide in zip(states.T, low, span, strict=True):
        code = code * int(wide) + (column - int(least))
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return states[first], place.ravel()


def _shift_invariant(levels: Sequence[Level], who: Adversary) -> bool:
    """True where only differences of counts matter, as where every level has siblings."""
    plan = Plan([*(replace(level, siblings=1) for level in levels[:-1]), replace(levels[-1], siblings=None)])
    return shift_invariant(plan, who)


def _laws(plan: Plan, who: Adversary, states: Integers, knows: bool, rng: Any) -> list[BayesFactorLaw]:
    """The law of each state, (target, counts)."""
    known = states[:, 1] - states[:, 0] if knows else np.zeros(len(states), dtype=np.int64)
    laws: list[Any] = [None] * len(states)
    for others in np.unique(known):
        rows = np.flatnonzero(known == others)
        one = replace(who, known=int(others))
        batch = laws_of_cells(plan, one, [_truth(plan, one, states[i]) for i in rows], rng=rng)
        for row, law in zip(rows, batch, strict=True):
            laws[row] = law
    return laws


def _truth(plan: Plan, who: Adversary, state: Integers) -> Truth:
    """The truth of a state, checked where a belief may rule it out."""
    if any(getattr(belief, "proper", True) for belief in who.beliefs.values()):
        named = dict(zip(plan.names, map(int, state[1:]), strict=True))
        return settle_truth(plan, who, {**named, "in": int(state[0])})
    return Truth(np.asarray(state[1:, None]), int(state[0]))
