r"""Variable elimination: the likelihood of crossing tables by summing out the cells' counts one by one.

Tables publish noisy sums y of counts x of people in cells c. The counts are independent beforehand, with weights b of
every count. The likelihood of a release is

.. math:: Z = \sum_x \prod_c b_c(x_c) \prod_r w_r\Big(\sum_{c \in r} x_c\Big), \qquad w_r(s) = P(y_r \mid s).

A row with a single remaining sum is multiplied into it. Sums that belong to the same remaining rows are added up
(convolved). Where rows cross, sums enter a state one by one: the axes of the state are the partial sums that incomplete
rows still need, and a row is multiplied in when it is complete. A backward pass gives the derivatives of Z by every
weight: the likelihood given each count of a cell, for all cells at once. All terms are positive, so nothing cancels. A
factor common to a release is omitted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, permutations
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.adversaries.tables.elimination_steps import Absorb, Fold, Merge, Pass, Step, Weigh, Weights

# Cost of one term outside matrix products, in terms of a matrix product.
ONE_BY_ONE = 8.0

# Number of axis orders tried, and largest number of sums for which the greedy order is tried too.
_ORDERS, _GREEDY = 24, 40


class Elimination:
    """An order of summing out the counts, its steps, and its cost in terms.

    Parameters
    ----------
    rows : by table, the row of each cell, (cell,)
    widths : number of possible counts of each cell, (cell,)
    index : index of each cell on every axis, (cell, axis); cells are summed out in lexical order of some axes
    most : number of terms beyond which the search for an order stops

    >>> plan = Elimination([np.array([0, 1]), np.array([0, 0])], [3, 3], np.arange(2)[:, None], 1e6)
    >>> len(plan.steps), plan.terms
    (4, 83.0)
    """

    def __init__(self, rows: Sequence[Integers], widths: Iterable[int], index: Integers, most: float) -> None:
        starts = np.cumsum([0, *(int(one.max()) + 1 for one in rows)])
        self.steps: list[Step] = []
        self.width = dict(enumerate(map(int, widths)))
        self.terms, self.stored = 0.0, float(sum(self.width.values()))
        self._index, self._most = index, most
        self._open = {
            cell: frozenset(int(start + one[cell]) for start, one in zip(starts, rows, strict=False))
            for cell in self.width
        }
        self._first = dict(zip(self.width, self.width, strict=True))
        self._next = len(self.width)
        self._members: Counter[int] = Counter(row for rows_of in self._open.values() for row in rows_of)
        self._simplify()
        for component in self._components():
            self._take_in(component)
            if self.terms > most:
                return

    def run(self, laws: dict[int, tuple[Floats, Any]], weights: Weights) -> list[Floats]:
        """The likelihood of releases given every count of each cell, (release, count), up to a factor per release.

        Parameters
        ----------
        laws : weights of the counts of each cell (release, count), and the first of these counts, (release,)
        weights : likelihood of a row by the sum of its cells, see `Weights`
        """
        of = Pass(weights)
        for cell, (law, offset) in laws.items():
            of.put(cell, law, [offset])
        releases = len(next(iter(of.value.values())))
        for step in self.steps:
            if isinstance(step, Absorb) and step.state not in of.value:
                of.put(step.state, np.ones(releases), [])
            step.forward(of)
        for step in reversed(self.steps):
            step.backward(of)
        return [of.gradient(cell) for cell in laws]

    def _new(self, width: int) -> int:
        node, self._next = self._next, self._next + 1
        self.width[node], self.stored = width, self.stored + width
        return node

    def _simplify(self) -> None:
        """Multiply in rows with a single sum and add up sums of the same rows, until neither is possible."""
        busy = set(self._open)
        while busy:
            for node in sorted(busy):
                for row in sorted(self._open[node]):
                    if self._members[row] == 1:
                        node = self._weighed(node, row)
            groups: dict[frozenset[int], list[int]] = defaultdict(list)
            for node, rows in self._open.items():
                if rows:
                    groups[rows].append(node)
            busy = set()
            for alike in groups.values():
                if len(alike) > 1:
                    busy.add(self._folded(alike))

    def _weighed(self, node: int, row: int) -> int:
        out = self._new(self.width[node])
        self.steps.append(Weigh(node, out, row))
        self.terms += self.width[node]
        self._open[out], self._first[out] = self._open.pop(node) - {row}, self._first[node]
        del self._members[row]
        return out

    def _folded(self, nodes: list[int]) -> int:
        left = sorted(nodes, key=lambda node: self.width[node])
        while len(left) > 1:
            one, other = sorted(left[:2], key=lambda node: -self.width[node])
            out = self._new(self.width[one] + self.width[other] - 1)
            self.steps.append(Fold(one, other, out))
            self.terms += ONE_BY_ONE * self.width[one] * self.width[other]
            rows = self._open.pop(one)
            del self._open[other]
            self._open[out], self._first[out] = rows, min(self._first[one], self._first[other])
            for row in rows:
                self._members[row] -= 1
            left = sorted([*left[2:], out], key=lambda node: self.width[node])
        return left[0]

    def _components(self) -> list[list[int]]:
        """Connected components of the sums, with an edge between two sums of one row."""
        nodes_of: dict[int, list[int]] = defaultdict(list)
        for node, rows in self._open.items():
            for row in rows:
                nodes_of[row].append(node)
        seen: set[int] = set()
        components = []
        for start, rows in self._open.items():
            if not rows or start in seen:
                continue
            stack, component = [start], []
            seen.add(start)
            while stack:
                component.append(node := stack.pop())
                for row in self._open[node]:
                    for other in nodes_of.pop(row, []):
                        if other not in seen:
                            seen.add(other)
                            stack.append(other)
            components.append(sorted(component, key=lambda node: self._first[node]))
        return components

    def _take_in(self, nodes: list[int]) -> None:
        """Append the cheapest of several orders of a component's sums."""
        orders: list[list[int]] = []
        for axes in islice(permutations(range(self._index.shape[1])), _ORDERS):
            place = {node: tuple(self._index[self._first[node], list(axes)]) for node in nodes}
            ranked = sorted(nodes, key=lambda node: place[node])
            if ranked not in orders:
                orders.append(ranked)
        best: _Order | None = None
        tried: list[list[int] | None] = [*orders, *([None] if len(nodes) <= _GREEDY else [])]
        for order in tried:
            better = _Order(self, nodes, order, self._most if best is None else best.terms)
            if best is None or better.terms < best.terms:
                best = better
        assert best is not None
        self.terms += best.terms
        self.stored += best.stored
        if self.terms <= self._most:
            self.steps += best.steps(self)


class _Order:
    """An order of a component's sums, its cost and steps; with `order` None, greedy by the cost of the next sum."""

    def __init__(self, plan: Elimination, nodes: list[int], order: list[int] | None, most: float) -> None:
        self._members = Counter(row for node in nodes for row in plan._open[node])
        self._axes: list[tuple[frozenset[int], int]] = []
        self._records: list[Any] = []
        self.terms = self.stored = 0.0
        left = list(nodes if order is None else order)
        while left and self.terms <= most:
            if order is None:
                ties = {row for rows, _ in self._axes for row in rows}
                near = [node for node in left if plan._open[node] & ties] or left
                node = min(near, key=lambda one: self._tried(plan, one)[:2])
                left.remove(node)
            else:
                node = left.pop(0)
            size, cost, held, axes, record = self._tried(plan, node)
            self.terms, self.stored = self.terms + cost, self.stored + size + held
            self._axes = axes
            self._records.append((node, record))
            self._members.subtract(plan._open[node])

    def _tried(self, plan: Elimination, node: int) -> tuple[float, float, float, list[tuple[frozenset[int], int]], Any]:
        """(size of the state after one more sum, its cost in terms, temporary numbers, axes, record of the step)."""
        rows, width = plan._open[node], plan.width[node]
        complete = frozenset(row for row in rows if self._members[row] == 1)
        needs = tuple((r, tuple(a for a, (own, _) in enumerate(self._axes) if r in own)) for r in sorted(complete))
        axes = [(own - complete, n) for own, n in self._axes]
        done = tuple(a for a, (own, _) in enumerate(axes) if not own)
        whole = float(np.prod([float(n) for _, n in self._axes])) * width
        pivot = next((a for a in done if {on for _, on in needs if a in on} == {(a,)}), None)
        by_hand = whole if pivot is None else whole / axes[pivot][1]
        cost = whole * (pivot is not None) + by_hand * ONE_BY_ONE * (1 + len({on for _, on in needs} - {(pivot,)}))
        axes = [one for one in axes if one[0]]
        new, joins = rows - complete, None
        if new:
            joins = next((a for a, (own, _) in enumerate(axes) if own == new), -1)
            if joins < 0:
                axes.append((new, width))
            else:
                axes[joins] = new, axes[joins][1] + width - 1
        merges = []
        while pair := _alike(axes):
            one, other = pair
            cost += ONE_BY_ONE * float(np.prod([float(n) for _, n in axes]))
            merges.append(pair)
            axes[one] = axes[one][0], axes[one][1] + axes[other][1] - 1
            del axes[other]
        return float(np.prod([float(n) for _, n in axes])), cost, 2.0 * by_hand, axes, (needs, done, joins, merges)

    def steps(self, plan: Elimination) -> Iterator[Step]:
        """The steps of this order, with new nodes of the plan."""
        state = plan._new(0)
        for node, (needs, done, joins, merges) in self._records:
            yield Absorb(state, node, out := plan._new(0), needs, done, joins)
            state = out
            for one, other in merges:
                yield Merge(state, out := plan._new(0), one, other)
                state = out


def _alike(axes: Sequence[tuple[frozenset[int], int]]) -> tuple[int, int] | None:
    """Two axes that belong to the same rows, the earlier first; None without such a pair."""
    for other in range(len(axes)):
        for one in range(other):
            if axes[one][0] == axes[other][0]:
                return one, other
    return None
