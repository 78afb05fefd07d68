"""Tables that nest: every cell of one lies in one cell of the next, so the tables are the levels of a path.

Cells with the same counts and siblings share one distribution, and cells with equal numbers of siblings share their
noise (`laws_of_cells`), so a county takes seconds.
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
    """The places of queries that nest, the finest first; None if two of them cross.

    Parameters
    ----------
    queries : queries of one histogram

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
    """True if the summed noise of a cell's siblings does not depend on their counts, in every table below the top.

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
    """The path of every finest cell upwards through tables that nest.

    Parameters
    ----------
    levels : the tables' names and noise, lowest first, without numbers of siblings
    siblings : number of siblings at each level, -1 at the top, (cell, level)
    totals : people in each level's cell, (cell, level)
    """

    levels: tuple[Level, ...]
    siblings: Integers
    totals: Integers

    @classmethod
    def of(cls, world: Joined, chain: Sequence[int], counts: Integers) -> Nested:
        """The paths of tables over their finest cells.

        Parameters
        ----------
        world : tables and their finest cells
        chain : places of the tables, the finest first, from `chain_of`
        counts : true counts of people, (cell,)
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
        """Names of the levels, lowest first."""
        return [level.name for level in self.levels]

    def adversary(self, who: TableAdversary) -> Adversary:
        """The adversary of the path, with flat beliefs about every unknown total."""
        unknown = self.names if who.knows == "nobody" else self.names[1:]
        return Adversary(who.prior, beliefs={name: Uniform() for name in unknown})

    def positions(self, who: Adversary) -> tuple[Integers, NDArray[np.int64]]:
        """Distinct positions (siblings, target, counts), (position, number), and the position of each cell, (cell,).

        If only differences of counts matter, everybody else in the finest cell is subtracted from all counts.
        """
        target = np.minimum(self.totals[:, :1], 1)
        shift = _shift_invariant(self.levels, who)
        counts = self.totals - (self.totals[:, :1] - target if shift else 0)
        return _distinct(np.concatenate([self.siblings, target, counts], axis=1))

    def laws(
        self, who: Adversary, positions: Integers, unit: PrivacyUnit | None, rng: Seed
    ) -> Iterator[tuple[Integers, Plan, Adversary, list[BayesFactorLaw]]]:
        """Per group of positions with equal numbers of siblings: their places, plan, adversary, and distributions."""
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
        """The level that adds most precision to those below it, without constraints on counts, (position,)."""
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
        """True for levels with an improper belief and few others, whose averages are tilted, (position, level)."""
        size = len(self.levels)
        others = np.diff(positions[:, size + 1 :])
        tilted = np.zeros((len(positions), size), dtype=bool)
        for i in range(1, size):
            belief = who.beliefs.get(self.names[i])
            tilted[:, i] = belief is not None and not belief.proper and others[:, i - 1] < few_others(plan, i)
        return tilted


def _distinct(states: Integers) -> tuple[Integers, NDArray[np.int64]]:
    """Distinct rows of whole numbers, and the place of each row among them."""
    # Rows are coded as single integers if they fit in 62 bits, which is much faster to sort.
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
    """True if only differences of counts matter, given siblings at every level."""
    plan = Plan([*(replace(level, siblings=1) for level in levels[:-1]), replace(levels[-1], siblings=None)])
    return shift_invariant(plan, who)


def _laws(plan: Plan, who: Adversary, states: Integers, knows: bool, rng: Any) -> list[BayesFactorLaw]:
    """The distribution of the log Bayes factor of each state (target, counts)."""
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
    """The truth of a state, checked if a proper belief may rule it out."""
    if any(getattr(belief, "proper", True) for belief in who.beliefs.values()):
        named = dict(zip(plan.names, map(int, state[1:]), strict=True))
        return settle_truth(plan, who, {**named, "in": int(state[0])})
    return Truth(np.asarray(state[1:, None]), int(state[0]))
