"""Slow twins of what invariants do: conforming databases, semi-adjacency, iterated trade-offs, couplings.

Everything is written from the definitions (Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics") and
none of the package is used. Two routes to a(t): `semi_adjacency` loops over all pairs of databases that are listed;
`margins_semi_adjacency` does the same over tables of counts, since with margins the order of records does not matter,
and reaches larger n. Trade-offs run as in the paper: f(alpha) is the least type II error at type I error 1 - alpha.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Margins = Sequence[Sequence[int]]
Record = tuple[int, ...]
Trade = Callable[[float], float]


def apart(x: Sequence[Any], y: Sequence[Any]) -> int:
    """Hamming distance."""
    return sum(a != b for a, b in zip(x, y, strict=True))


def all_databases(n: int, levels: Sequence[int]) -> list[tuple[Record, ...]]:
    """Every database of n records, a record being one level of each feature."""
    return list(itertools.product(itertools.product(*map(range, levels)), repeat=n))


def margins_of(database: Sequence[Record], levels: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Counts of every level of every feature."""
    return tuple(tuple(sum(r[j] == k for r in database) for k in range(size)) for j, size in enumerate(levels))


def databases_with(margins: Margins) -> list[tuple[Record, ...]]:
    """Those of all databases that have these margins."""
    levels, n = [len(counts) for counts in margins], sum(margins[0])
    wanted = tuple(tuple(counts) for counts in margins)
    return [database for database in all_databases(n, levels) if margins_of(database, levels) == wanted]


def semi_adjacency(databases: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """(worst-case, literal) reading of Definition 13, by its loops."""
    worst = literal = 0
    for i in range(len(databases[0])):
        values = {database[i] for database in databases}
        for x, y in itertools.product(values, values):
            starts = [one for one in databases if one[i] == x]
            ends = [one for one in databases if one[i] == y]
            nearest = [min(apart(one, other) for other in ends) for one in starts]
            worst, literal = max(worst, *nearest), max(literal, min(nearest))
    return worst, literal


def tables_with(margins: Margins) -> Iterator[Counter[Record]]:
    """How often each record occurs, in every way the margins allow."""
    cells = list(itertools.product(*(range(len(counts)) for counts in margins)))

    def fill(at: int, left: tuple[tuple[int, ...], ...]) -> Iterator[Counter[Record]]:
        if at == len(cells):
            if not any(map(any, left)):
                yield Counter()
            return
        cell = cells[at]
        for count in range(min(left[j][k] for j, k in enumerate(cell)) + 1):
            fewer = tuple(
                tuple(have - count * (k == cell[j]) for k, have in enumerate(counts)) for j, counts in enumerate(left)
            )
            for rest in fill(at + 1, fewer):
                yield rest + Counter({cell: count})

    return fill(0, tuple(tuple(counts) for counts in margins))


def margins_semi_adjacency(margins: Margins) -> tuple[int, int]:
    """(worst-case, literal) reading for one-way margins: record 1 is taken out, the others are matched cell by cell."""
    tables, n = list(tables_with(margins)), sum(margins[0])
    worst, literal = 0, Counter[tuple[Record, Record]]()
    ends: dict[Record, list[Counter[Record]]] = {}
    for table in tables:
        for cell in table:
            ends.setdefault(cell, []).append(table - Counter([cell]))
    for x, y in itertools.product(ends, ends):
        nearest = [min(n - 1 - (one & other).total() for other in ends[y]) + (x != y) for one in ends[x]]
        worst, literal[x, y] = max(worst, *nearest), min(nearest)
    return worst, max(literal.values())


def hardest_placement(sizes: Sequence[int], points: int) -> int:
    """The most points needed to meet all of some sets of these sizes, over every way to place them."""
    most = 0
    for sets in itertools.product(*(list(itertools.combinations(range(points), size)) for size in sizes)):
        needed = next(
            count
            for count in range(1, len(sizes) + 1)
            if any(
                all(set(chosen) & set(one) for one in sets) for chosen in itertools.combinations(range(points), count)
            )
        )
        most = max(most, needed)
    return most


def approximate(epsilon: float, delta: float = 0.0) -> Trade:
    """f(alpha) = max(0, 1 - delta - e^epsilon + e^epsilon alpha, e^-epsilon (alpha - delta))."""
    e = math.exp(epsilon)
    return lambda alpha: max(0.0, 1.0 - delta - e + e * alpha, (alpha - delta) / e)


def iterate(f: Trade, times: int) -> Trade:
    """f of f of ... of alpha."""

    def value(alpha: float) -> float:
        for _ in range(times):
            alpha = f(alpha)
        return alpha

    return value


def fixed_point(f: Trade) -> float:
    """c with f(1 - c) = c, by bisection."""
    low, high = 0.0, 0.5
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if f(1.0 - middle) > middle else (low, middle)
    return low


def coupled(p: Sequence[float], q: Sequence[float], near: Callable[[int, int], bool]) -> bool:
    """Whether two laws can be coupled on near pairs: Strassen's condition, p(A) <= q(near A) for every set A."""
    atoms = [i for i, mass in enumerate(p) if mass > 0]
    for size in range(1, len(atoms) + 1):
        for chosen in itertools.combinations(atoms, size):
            reached = math.fsum(mass for j, mass in enumerate(q) if any(near(i, j) for i in chosen))
            if math.fsum(p[i] for i in chosen) > reached + 1e-9:
                return False
    return True


def coupling_radius(databases: Sequence[Sequence[Any]], p: Sequence[float], q: Sequence[float]) -> int:
    """Least k with p(A) <= q(all within k of A) for every set A of databases."""
    size = len(databases[0]) + 1
    return next(k for k in range(size) if coupled(p, q, lambda i, j, k=k: apart(databases[i], databases[j]) <= k))


class Scoped(NamedTuple):
    """A guarantee for every two of these databases at most `adjacency` records apart (Definitions 12 and 19)."""

    databases: Sequence[Any]
    adjacency: int
    guarantee: Any

    def pairs(self) -> set[tuple[Any, Any]]:
        """What is protected."""
        every = itertools.product(self.databases, self.databases)
        return {(x, y) for x, y in every if apart(x, y) <= self.adjacency}


def compare(first: Scoped, second: Scoped) -> str | None:
    """Which protects more pairs with a guarantee that implies the other's (Definition 20); None where neither does."""
    stronger = first.pairs() >= second.pairs() and first.guarantee.implies(second.guarantee)
    weaker = second.pairs() >= first.pairs() and second.guarantee.implies(first.guarantee)
    return "equal" if stronger and weaker else "stronger" if stronger else "weaker" if weaker else None
