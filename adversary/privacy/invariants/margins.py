"""Databases that conform to statistics published exactly.

Whoever sees T(X) = t discards every database that does not give t; what remains, D_t, is what privacy can still be
about. `conforming` picks it from a list. `Margins` is the set with given one-way margins, too large to list: every way
to order each feature's column. Both can be given to a guarantee: `guarantee.given(margins)`, and
`guarantee.given(Databases(listed))`.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", sections 3.1 to 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import Integers
from adversary.privacy.invariants.adjacency import check_margins, check_reading, semi_adjacency, semi_adjacency_limits
from adversary.privacy.invariants.spaces import Databases, Space, Unrestricted, check_few, fits, plain

LARGEST_COUNT = 100_000
"""Records beyond which the number of databases is not written out: it has that many digits."""


def conforming(space: Iterable[Any], statistic: Callable[[Any], Any], value: Any) -> list[Any]:
    """The databases of a finite space whose statistic has the published value, in the order of the space.

    Parameters
    ----------
    space : databases, each a sequence of records
    statistic : function of a database; arrays are compared entry by entry
    value : what was published

    Raises
    ------
    ValueError : no database conforms, so that the value cannot have been published

    >>> conforming([(0, 0), (0, 1), (1, 0), (1, 1)], sum, 1)
    [(0, 1), (1, 0)]
    """
    found = [database for database in space if np.array_equal(statistic(database), value)]
    if not found:
        raise ValueError(f"no database conforms: none of the space has the statistic {value!r}")
    return found


@dataclass(frozen=True)
class Margins(Space):
    """Databases with these one-way margins, published exactly: one count vector per published feature.

    A record is a tuple of levels, one per feature. Features that are not published are left out: they ride along.

    Parameters
    ----------
    margins : counts of the levels of each published feature, all adding up to the same n > 0
    reading : "worst" or "literal", of the semi-adjacency

    >>> margins = Margins([[2, 1], [2, 1]])
    >>> margins.databases, margins.semi_adjacency, margins.exact
    (9, 3, True)
    """

    margins: Sequence[ArrayLike]
    reading: str = "worst"

    def __post_init__(self) -> None:
        object.__setattr__(self, "margins", check_margins(self.margins))
        check_reading(self.reading)

    @property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """The margins as whole numbers."""
        return self.margins  # type: ignore[return-value]

    @property
    def n(self) -> int:
        return sum(self.counts[0])

    @property
    def features(self) -> int:
        """Published features."""
        return len(self.counts)

    @cached_property
    def semi_adjacency(self) -> int:
        """a(t) of `semi_adjacency`; 0 where the margins fix every record: total disclosure."""
        return semi_adjacency(self.counts, self.reading)

    @property
    def exact(self) -> bool:
        """Whether `semi_adjacency` is a(t) itself, and not the least known upper bound."""
        least, most = self.limits(self.reading)
        return least == most

    def limits(self, reading: str) -> tuple[int, int]:
        """Lower and upper bound on a(t) in one of the readings; equal where it is known exactly."""
        return semi_adjacency_limits(self.counts, reading)

    @cached_property
    def databases(self) -> int:
        """n! / (t_1! t_2! ...) for each feature, multiplied; refused for more than 100,000 records."""
        if self.n > LARGEST_COUNT:
            raise ValueError(f"the databases of more than {LARGEST_COUNT} records are not counted, got {self.n}")
        return prod(comb(sum(levels[: k + 1]), levels[k]) for levels in self.counts for k in range(len(levels)))

    @property
    def log_databases(self) -> float:
        """Log of the number of databases (nats), for any number of records: sum over features of log n! - log t_k!."""
        return float(sum(gammaln(self.n + 1.0) - gammaln(np.add(levels, 1.0)).sum() for levels in self.counts))

    @cached_property
    def listed(self) -> tuple[Any, ...]:
        check_few(self.databases)
        columns = [_arrangements(levels) for levels in self.counts]
        return tuple(tuple(zip(*chosen, strict=True)) for chosen in product(*columns))

    def reach(self, distance: int) -> int:
        """The largest d with sum over features of (most records, <= d, in which columns can differ) >= d.

        Columns of one feature can differ in exactly c records where sum over levels of min(count, c // 2) >= c: no
        level may be lost more often than others can take it up.
        """
        least = range(min(distance, self.n), 0, -1)
        return next((int(d) for d in least if sum(_widest(levels, d) for levels in self.counts) >= d), 0)

    def contains(self, database: Any) -> bool:
        records = plain(database)
        if len(records) != self.n or not all(fits(record, self.counts) for record in records):
            return False
        columns = zip(*records, strict=True)
        return all(
            np.array_equal(np.bincount(column, minlength=len(levels)), levels)
            for column, levels in zip(columns, self.counts, strict=True)
        )

    def sample(self, rng: int | np.random.Generator) -> Integers:
        """A conforming database, uniformly: levels, shape (n, features), each column in a random order."""
        generator = np.random.default_rng(rng)
        columns = [generator.permutation(np.repeat(np.arange(len(levels)), levels)) for levels in self.counts]
        return np.stack(columns, axis=1).astype(np.int64)


def includes(outer: Space, inner: Space) -> bool:
    """Whether every database of `inner` is one of `outer`."""
    match outer, inner:
        case Margins(), Margins():
            return [_levels_in_use(levels) for levels in outer.counts] == [
                _levels_in_use(levels) for levels in inner.counts
            ]
        case Unrestricted(), Margins():
            highest = [len(_levels_in_use(levels)) for levels in inner.counts]
            return outer.n == inner.n and _no_more(highest, outer.levels)
        case Unrestricted(), Unrestricted():
            return outer.n == inner.n and _no_more(inner.levels, outer.levels)
        case Margins(), Unrestricted() if max(inner.levels) > 1:
            return False
    return (not isinstance(outer, Databases) or inner.databases <= outer.databases) and all(
        map(outer.contains, inner.listed)
    )


def _no_more(some: Sequence[int], others: Sequence[int]) -> bool:
    return len(some) == len(others) and all(a <= b for a, b in zip(some, others, strict=True))


def _levels_in_use(levels: Sequence[int]) -> list[int]:
    """Counts up to the last level in use."""
    return list(levels[: max(k for k, count in enumerate(levels) if count) + 1])


def _widest(levels: Sequence[int], distance: int) -> int:
    """The most records, at most `distance`, in which two columns with these counts differ."""
    most = min(distance, 2 * (sum(levels) - max(levels)))
    return next((c for c in range(most, 1, -1) if sum(min(count, c // 2) for count in levels) >= c), 0)


def _arrangements(levels: Sequence[int]) -> list[tuple[int, ...]]:
    """All columns with these counts."""
    if not any(levels):
        return [()]
    fewer = [(k, [*levels[:k], count - 1, *levels[k + 1 :]]) for k, count in enumerate(levels) if count]
    return [(k, *rest) for k, left in fewer for rest in _arrangements(left)]
