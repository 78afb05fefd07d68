"""Sets of databases, listed or described: the scope of a guarantee.

A database is a tuple of n records, and two are as far apart as the records in which they differ. `Databases` lists a
set; `Unrestricted` is all databases of n records, where nothing was published exactly. Those with given one-way margins
are in `conforming`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from adversary._core import check_whole
from adversary.privacy.invariants.adjacency import (
    LARGEST_LIST,
    check_reading,
    distances,
    encode_records,
    plain_record,
    semi_adjacency_of,
)


class Space(ABC):
    """A set of databases of n records each, apart by the number of records that differ."""

    __slots__ = ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Records in each database."""

    @property
    @abstractmethod
    def databases(self) -> int:
        """How many databases there are."""

    @property
    @abstractmethod
    def listed(self) -> tuple[Any, ...]:
        """All of them, each a tuple of records; refused above 5,000."""

    @abstractmethod
    def reach(self, distance: int) -> int:
        """Largest number of records, at most `distance`, in which two of the databases differ."""

    @abstractmethod
    def contains(self, database: Any) -> bool:
        """Whether this is one of them."""


@dataclass(frozen=True, eq=False)
class Databases(Space):
    """Databases that are listed: those that conform to any statistic, or all of a small space.

    Parameters
    ----------
    given : sequences of records, of one length; one listed twice counts once
    reading : "worst" or "literal", of the semi-adjacency

    >>> Databases([(0, 1), (1, 0)]).semi_adjacency
    2
    """

    given: Iterable[Any]
    reading: str = "worst"

    def __post_init__(self) -> None:
        check_reading(self.reading)
        object.__setattr__(self, "given", tuple(dict.fromkeys(plain(database) for database in self.given)))
        encode_records(self.listed)  # refuses none, or several lengths

    @property
    def n(self) -> int:
        return len(self.listed[0])

    @property
    def listed(self) -> tuple[Any, ...]:
        return self.given  # type: ignore[return-value]

    @property
    def databases(self) -> int:
        return len(self.listed)

    def reach(self, distance: int) -> int:
        return int(self._distances[self._distances <= distance].max())

    def contains(self, database: Any) -> bool:
        return plain(database) in self._members

    @cached_property
    def _distances(self) -> Any:
        return distances(encode_records(self.listed))

    @cached_property
    def _members(self) -> frozenset[Any]:
        return frozenset(self.listed)

    @cached_property
    def semi_adjacency(self) -> int:
        """a(t) of `semi_adjacency_of`; 0 where one database is left."""
        return semi_adjacency_of(self.listed, self.reading)

    @property
    def exact(self) -> bool:
        """Whether `semi_adjacency` is a(t) itself: of a list, always."""
        return True


@dataclass(frozen=True)
class Unrestricted(Space):
    """All databases of n records: where no statistic is published exactly.

    Parameters
    ----------
    records : n >= 1
    levels : number of levels of each feature, each >= 1

    >>> Unrestricted(3, [2, 2]).databases
    64
    """

    records: int
    levels: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", int(check_whole("records", self.records, minimum=1)))
        levels = tuple(int(check_whole("levels", count, minimum=1)) for count in self.levels)
        if not levels:
            raise ValueError("levels must be those of at least one feature, got none")
        object.__setattr__(self, "levels", levels)

    @property
    def n(self) -> int:
        return self.records

    @property
    def databases(self) -> int:
        return int(prod(self.levels) ** self.n)

    @cached_property
    def listed(self) -> tuple[Any, ...]:
        check_few(self.databases)
        return tuple(product(product(*map(range, self.levels)), repeat=self.n))

    def reach(self, distance: int) -> int:
        return min(distance, self.n) if max(self.levels) > 1 else 0

    def contains(self, database: Any) -> bool:
        records = plain(database)
        return len(records) == self.n and all(fits(record, [range(k) for k in self.levels]) for record in records)


def fits(record: Any, features: Sequence[Any]) -> bool:
    """Whether a record is a tuple of whole levels, each one of its feature's."""
    return (
        isinstance(record, tuple)
        and len(record) == len(features)
        and all(isinstance(level, int | np.integer) for level in record)
        and all(0 <= level < len(of) for level, of in zip(record, features, strict=True))
    )


def check_few(databases: int) -> None:
    """ValueError above the number of databases that are listed."""
    if databases > LARGEST_LIST:
        raise ValueError(f"at most {LARGEST_LIST} databases are listed, got {databases}")


def plain(database: Iterable[Any]) -> tuple[Any, ...]:
    """A database as a tuple of records that can be compared and hashed.

    Parameters
    ----------
    database : sequence of records, each a number, a string, or a (nested) list, tuple or array

    Returns
    -------
    Tuple of records; lists and arrays in them are tuples.

    >>> plain([[0, 1], [1, 0]])
    ((0, 1), (1, 0))
    """
    return tuple(map(plain_record, database))
