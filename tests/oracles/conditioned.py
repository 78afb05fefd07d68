"""Brute force for readers who know exact totals: databases and tables written out one by one, sums in plain Python.

Nothing is imported from the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

Database = tuple[tuple[int, int], ...]
Table = tuple[tuple[int, ...], ...]


def columns_of(counts: Sequence[int]) -> set[tuple[int, ...]]:
    """Every order of the levels with these counts."""
    return set(itertools.permutations([level for level, count in enumerate(counts) for _ in range(count)]))


def databases(rows: Sequence[int], columns: Sequence[int]) -> list[Database]:
    """Every database of two features with these margins."""
    return sorted(tuple(zip(a, b, strict=True)) for a, b in itertools.product(columns_of(rows), columns_of(columns)))


def table_of(database: Database, shape: tuple[int, int]) -> Table:
    """Its table of counts."""
    r, c = shape
    return tuple(tuple(sum(record == (i, j) for record in database) for j in range(c)) for i in range(r))


def tables(rows: Sequence[int], columns: Sequence[int]) -> set[Table]:
    """Every table with these margins, from the compositions of each row total."""

    def rows_of(total: int) -> Iterator[tuple[int, ...]]:
        return (x for x in itertools.product(range(total + 1), repeat=len(columns)) if sum(x) == total)

    return {
        chosen
        for chosen in itertools.product(*(rows_of(total) for total in rows))
        if all(sum(row[j] for row in chosen) == total for j, total in enumerate(columns))
    }


def record_posterior(
    weight: Callable[[Database], float], likelihood: Callable[[Database], float], listed: Sequence[Database]
) -> dict[tuple[int, int], float]:
    """P(first record = x | release) under these weights of databases."""
    joint = {database: weight(database) * likelihood(database) for database in listed}
    total = math.fsum(joint.values())
    values = {database[0] for database in listed}
    return {x: math.fsum(p for database, p in joint.items() if database[0] == x) / total for x in values}
