"""Databases that conform to exactly published statistics, and the guarantee of several releases given these.

An adversary who sees T(X) = t excludes all databases with another value; D_t is the set that remains. `conforming`
selects it from a list of databases, and `Databases` holds such a list. `Margins` is the set of databases with given
one-way margins, too large to list: all permutations of each feature's column. `guarantee.given(margins)` takes either.
A database is a tuple of n records.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", sections 3.1 to 3.4, Propositions 15 and 21.
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

from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.adjacency import (
    LARGEST_LIST,
    check_margins,
    check_reading,
    encode_records,
    plain_record,
    semi_adjacency,
    semi_adjacency_limits,
    semi_adjacency_of,
)

LARGEST_COUNT = 100_000
"""Largest number of records for which the number of databases, with about as many digits, is computed exactly."""


def conforming(space: Iterable[Any], statistic: Callable[[Any], Any], value: ArrayLike) -> list[Any]:
    """Databases of a finite space whose statistic has the published value, in the order of the space.

    Parameters
    ----------
    space : databases, each a sequence of records
    statistic : function of a database; arrays are compared elementwise
    value : published value of the statistic

    Returns
    -------
    List of databases.

    Raises
    ------
    ValueError : no database has this value

    >>> conforming([(0, 0), (0, 1), (1, 0), (1, 1)], sum, 1)
    [(0, 1), (1, 0)]
    """
    databases = [database for database in space if np.array_equal(statistic(database), value)]
    if not databases:
        raise ValueError(f"no database conforms: none of the space has the statistic {value!r}")
    return databases


@dataclass(frozen=True, eq=False)
class Databases:
    """List of the databases that conform to exactly published statistics.

    Parameters
    ----------
    given : sequences of records, of one length; duplicates count once
    reading : reading of the semi-adjacency, "worst" or "literal"

    Raises
    ------
    ValueError : no databases, or an unknown reading
    NotImplementedError : databases of several lengths

    >>> Databases([(0, 1), (1, 0)]).semi_adjacency
    2
    """

    given: Iterable[Any]
    reading: str = "worst"

    def __post_init__(self) -> None:
        check_reading(self.reading)
        object.__setattr__(
            self, "given", tuple(dict.fromkeys(tuple(map(plain_record, database)) for database in self.given))
        )
        # Called for its checks: at least one database, all of one length.
        encode_records(self.listed)

    @property
    def listed(self) -> tuple[Any, ...]:
        """The databases, each a tuple of records."""
        return self.given  # type: ignore[return-value]

    @cached_property
    def semi_adjacency(self) -> int:
        """Semi-adjacency a(t), by `semi_adjacency_of`; 0 for a single database."""
        return semi_adjacency_of(self.listed, self.reading)

    @property
    def exact(self) -> bool:
        """True: the semi-adjacency of a list is exact."""
        return True


@dataclass(frozen=True)
class Margins:
    """Databases with given one-way margins, which are published exactly: one vector of counts per published feature.

    A record is a tuple of levels, one per published feature. Other features are unconstrained and omitted.

    Parameters
    ----------
    margins : counts of the levels of each published feature, all adding up to the same n > 0
    reading : reading of the semi-adjacency, "worst" or "literal"

    Raises
    ------
    ValueError, TypeError : counts that are not whole numbers from 0 on, different totals, or an unknown reading

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
        """Number of records in each database."""
        return sum(self.counts[0])

    @property
    def features(self) -> int:
        """Number of published features."""
        return len(self.counts)

    @cached_property
    def semi_adjacency(self) -> int:
        """Semi-adjacency a(t), by `semi_adjacency`; 0 if the margins determine every record."""
        return semi_adjacency(self.counts, self.reading)

    @property
    def exact(self) -> bool:
        """True if `semi_adjacency` is exact, False if it is an upper bound."""
        least, most = self.limits(self.reading)
        return least == most

    def limits(self, reading: str) -> tuple[int, int]:
        """Lower and upper bound on a(t) in one of the readings; equal if it is exact."""
        return semi_adjacency_limits(self.counts, reading)

    @cached_property
    def databases(self) -> int:
        """Number of databases: the product over features of n! / (t_1! t_2! ...); at most 100,000 records."""
        if self.n > LARGEST_COUNT:
            raise ValueError(f"the databases of more than {LARGEST_COUNT} records are not counted, got {self.n}")
        return prod(comb(sum(levels[: k + 1]), levels[k]) for levels in self.counts for k in range(len(levels)))

    @property
    def log_databases(self) -> float:
        """Log of the number of databases (nats), for any number of records: sum over features of log n! - log t_k!."""
        return float(sum(gammaln(self.n + 1.0) - gammaln(np.add(levels, 1.0)).sum() for levels in self.counts))

    @cached_property
    def listed(self) -> tuple[Any, ...]:
        """The databases, each a tuple of records; refused if there are more than 5,000."""
        if self.databases > LARGEST_LIST:
            raise ValueError(f"at most {LARGEST_LIST} databases are listed, got {self.databases}")
        columns = [_arrangements(levels) for levels in self.counts]
        return tuple(tuple(zip(*chosen, strict=True)) for chosen in product(*columns))


def _arrangements(levels: Sequence[int]) -> list[tuple[int, ...]]:
    """All distinct columns of records with these counts of levels."""
    if not any(levels):
        return [()]
    fewer = [(k, [*levels[:k], count - 1, *levels[k + 1 :]]) for k, count in enumerate(levels) if count]
    return [(k, *rest) for k, left in fewer for rest in _arrangements(left)]


def extend_then_compose(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Guarantee of releases given invariants: each extended to groups of `adjacency` records, then composed.

    f_1^a x ... x f_k^a. It is at least as strong as `compose_then_extend`, and equal for Gaussian DP and zCDP. For
    several invariants use their joint semi-adjacency; separate ones cannot be combined.

    Parameters
    ----------
    guarantees : of releases with independent noise, at least one
    adjacency : a(t) >= 1, the joint semi-adjacency of everything published exactly

    Returns
    -------
    Guarantee of all releases, for any two conforming databases at most a(t) records apart.

    Raises
    ------
    ValueError : no guarantees, or an adjacency that is not a whole number >= 1
    TypeError : guarantees with no exact rule for their composition

    References: Cho and Awan, Proposition 21.

    >>> from adversary.privacy.definitions import PureDP
    >>> round(1.0 - extend_then_compose([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.160417
    >>> round(1.0 - compose_then_extend([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.059261
    """
    return _sum(guarantee.group(adjacency) for guarantee in guarantees)


def compose_then_extend(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Guarantee of releases given invariants: composed, then extended to groups of `adjacency` records.

    (f_1 x ... x f_k)^a, for use if only the total over the releases is known; `extend_then_compose` is at least as
    strong.

    Parameters
    ----------
    guarantees : of releases with independent noise, at least one
    adjacency : a(t) >= 1, the semi-adjacency of everything published exactly

    Returns
    -------
    Guarantee of all releases, for any two conforming databases at most a(t) records apart.

    Raises
    ------
    ValueError : no guarantees, or an adjacency that is not a whole number >= 1
    TypeError : guarantees with no exact rule for their composition

    References: Cho and Awan, Proposition 21.

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> compose_then_extend([ZeroConcentratedDP(0.5), ZeroConcentratedDP(0.25)], 2)
    ZeroConcentratedDP(rho=3.0)
    """
    return _sum(guarantees).group(adjacency)


def _sum(guarantees: Iterable[Guarantee]) -> Guarantee:
    listed = list(guarantees)
    if not listed:
        raise ValueError("guarantees must have at least one, got none")
    total: Guarantee = sum(listed[1:], start=listed[0])
    return total
