"""Hitting sets in the worst case: the number of points that may be needed to hit each of q sets of given sizes.

With one-way margins published, a record can take new values only if, for each feature that changes, another record
gives up its value. One record can do so for several features. In the worst database the holders of the required values,
s_j of them for feature j, overlap as little as n - 1 records allow. See Cho and Awan, proof of Theorem 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from adversary._core import Integers

Group = frozenset[int]

# Largest number of sets for which arrangements are searched; counting arguments bound the result for more.
MOST_SETS = 6

# Limit on cases times groups of sets in one search: 500 cases for 5 sets; at most seconds for 6.
MOST_WORK = 16_000


def hardest_cover(sizes: Sequence[int], points: int) -> tuple[int, int]:
    """Bounds, nearly always equal, on the size of the smallest hitting set, for the worst placement of the sets.

    If the q sets fit on the points without overlap, each needs its own point: q. Otherwise some point lies in at least
    s = ceil(sum of sizes / points) sets, and a placement exists in which no point lies in more: at least ceil(q / s)
    points. The upper bound takes such a point repeatedly and leaves the smallest sets. For up to 6 sets a search closes
    the gap between the bounds.

    Parameters
    ----------
    sizes : of the sets, each from 1 to `points`
    points : number of points on which the sets are placed

    Returns
    -------
    (lower, upper) bound.

    >>> hardest_cover([1, 1], 2), hardest_cover([2, 2, 2], 3), hardest_cover([2, 2, 2, 2], 5)
    ((2, 2), (2, 2), (3, 3))
    """
    return _hardest(tuple(sorted(sizes)), points)


@lru_cache(maxsize=1024)
def _hardest(sizes: tuple[int, ...], points: int) -> tuple[int, int]:
    q, total = len(sizes), sum(sizes)
    if total <= points:
        return q, q
    low, high = -(-q // -(-total // points)), _greedy(sizes, points)
    while low < high and q <= MOST_SETS:
        arrangement = arrangeable(sizes, points, high)
        if arrangement is None:
            break
        low, high = (high, high) if arrangement else (low, high - 1)
    return low, high


def _greedy(sizes: tuple[int, ...], points: int) -> int:
    """Upper bound on the hitting set: repeatedly take a point that lies in many sets, and keep the smallest sets."""
    needed = 0
    while sizes and sum(sizes) > points:
        left = len(sizes) + (-sum(sizes) // points)
        sizes = tuple(size for size in sizes[:left] if size < points)
        points, needed = points - 1, needed + 1
    return needed + len(sizes)


def arrangeable(sizes: Sequence[int], points: int, needed: int) -> bool | None:
    """True if sets of these sizes can be placed so that no fewer than `needed` points hit them all; None if unknown.

    A point is identified with the group of sets that contain it. Branch and bound: place the sets on the fewest points,
    and look for fewer than `needed` points whose groups cover all sets. If there are such, branch on which of their
    groups to forbid, with all groups that contain it. None after `MOST_WORK` >> q cases.

    Parameters
    ----------
    sizes : of the sets
    points : number of points
    needed : size of the hitting set to refute
    """
    splits = [split for split in _splits(tuple(range(len(sizes)))) if len(split) < needed]
    cases, seen = [frozenset[Group]()], set[frozenset[Group]]()
    while cases:
        forbidden = cases.pop()
        if forbidden in seen:
            continue
        seen.add(forbidden)
        if len(seen) > MOST_WORK >> len(sizes):
            return None
        groups = _fewest(sizes, points, forbidden)
        if groups is None:
            continue
        easy = next((one for one in splits if all(any(part <= group for group in groups) for part in one)), None)
        if easy is None:
            return True
        cases.extend(_minimal(forbidden | {part}) for part in easy)
    return False


def _fewest(sizes: Sequence[int], points: int, forbidden: frozenset[Group]) -> list[Group] | None:
    """Groups of the fewest points that hold all sets and contain no forbidden group; None if `points` do not suffice.

    Integer program: min sum x_E over whole x_E >= 0 with, for each set j, the sum of x_E over groups E with j at least
    s_j.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    groups = [group for group in _subsets(len(sizes)) if not any(ban <= group for ban in forbidden)]
    groups = [group for group in groups if not any(group < other for other in groups)]
    holds: Integers = np.array([[j in group for group in groups] for j in range(len(sizes))], dtype=np.int64)
    if not holds.size or not holds.any(axis=1).all():
        return None
    solution = milp(
        np.ones(len(groups)),
        constraints=LinearConstraint(holds, lb=np.asarray(sizes)),
        integrality=np.ones(len(groups)),
        bounds=Bounds(0, points),
        options={"mip_rel_gap": 0.0},
    )
    # SciPy's status 2: infeasible.
    if solution.status == 2:
        return None
    if solution.status != 0:
        raise RuntimeError(f"the integer program was not solved: {solution.message}")
    times = np.rint(solution.x).astype(np.int64)
    if (holds @ times < sizes).any():
        raise RuntimeError(f"the integer program gave {times.tolist()}, which has no room for sets of sizes {sizes}")
    return [groups[at] for at in np.flatnonzero(times)] if times.sum() <= points else None


@lru_cache(maxsize=8)
def _subsets(size: int) -> list[Group]:
    return [frozenset(part) for count in range(1, size + 1) for part in combinations(range(size), count)]


def _splits(items: tuple[int, ...]) -> Iterator[list[Group]]:
    """All partitions of the items."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for count in range(len(rest) + 1):
        for others in combinations(rest, count):
            for split in _splits(tuple(item for item in rest if item not in others)):
                yield [frozenset((first, *others)), *split]


def _minimal(groups: frozenset[Group]) -> frozenset[Group]:
    return frozenset(group for group in groups if not any(other < group for other in groups))
