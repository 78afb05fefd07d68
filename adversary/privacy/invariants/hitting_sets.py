"""The hardest sets to hit: how many points, at most, are needed to meet every one of q sets of given sizes.

With one-way margins published, moving a record to new values takes, for each feature that changes, another record that
gives its value up. One record can help with several features; the worst database is the one in which the holders of the
wanted values, s_j of them for feature j, share as little as n - 1 records allow. See Cho and Awan, proof of Theorem 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from adversary._core import Integers

Group = frozenset[int]

MOST_SETS = 6
"""Sets up to which arrangements are searched; beyond, counting bounds the answer."""

MOST_WORK = 16_000
"""Cases tried in one search, times the number of groups of sets: 500 cases for 5 sets, seconds at most for 6."""


def hardest_cover(sizes: Sequence[int], points: int) -> tuple[int, int]:
    """Bounds, nearly always equal, on the points needed to meet each of several sets, placed as badly as can be.

    All q sets need a point of their own while they fit beside each other. Otherwise some point meets s of them, s =
    ceil(sum of sizes / points), and no point need meet more: at least ceil(q / s). At most what is needed when such a
    point is taken again and again, the smallest sets being left each time. Between the two, up to 6 sets, a search.

    Parameters
    ----------
    sizes : of the sets, each from 1 to `points`
    points : there are to place them on

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
    """Upper bound: sets, ascending in size, left without a point when one that is in many of them is taken."""
    needed = 0
    while sizes and sum(sizes) > points:
        left = len(sizes) + (-sum(sizes) // points)
        sizes = tuple(size for size in sizes[:left] if size < points)
        points, needed = points - 1, needed + 1
    return needed + len(sizes)


def arrangeable(sizes: Sequence[int], points: int, needed: int) -> bool | None:
    """True where sets of these sizes can be placed so that no fewer than `needed` points meet them all.

    A point is the group of sets it lies in. Of the fewest points that have room for all sets, look for fewer than
    `needed` whose groups hold every set between them; if there are such, each way to forbid one of these groups, and
    all that contain it, is a case of its own. None where that takes too many of them.
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
    """Groups of the fewest points with room for all sets and no forbidden group inside; None if `points` are too few.

    min sum x_E with x_E >= 0 whole and sum of x_E over groups E with j in E >= s_j, a small integer program.
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
    if solution.status == 2:  # infeasible
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
    """All ways to split items into groups."""
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
