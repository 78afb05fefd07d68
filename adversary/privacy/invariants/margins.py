"""Databases that conform to statistics published exactly, and what several releases guarantee beside them.

Whoever sees T(X) = t discards every database that does not give t; what remains, D_t, is what privacy can still be
about. `conforming` picks it from a list, `Databases` is such a list, and `Margins` the set with given one-way margins,
too large to list: every way to order each feature's column. Both can be given to a guarantee:
`guarantee.given(margins)`. A database is a tuple of n records.

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
"""Records beyond which the number of databases is not written out: it has that many digits."""


def conforming(space: Iterable[Any], statistic: Callable[[Any], Any], value: ArrayLike) -> list[Any]:
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
    databases = [database for database in space if np.array_equal(statistic(database), value)]
    if not databases:
        raise ValueError(f"no database conforms: none of the space has the statistic {value!r}")
    return databases


@dataclass(frozen=True, eq=False)
class Databases:
    """Databases that are listed: those that conform to any statistic.

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
        object.__setattr__(
            self, "given", tuple(dict.fromkeys(tuple(map(plain_record, database)) for database in self.given))
        )
        encode_records(self.listed)  # refuses none, or several lengths

    @property
    def listed(self) -> tuple[Any, ...]:
        """All of them, each a tuple of records."""
        return self.given  # type: ignore[return-value]

    @cached_property
    def semi_adjacency(self) -> int:
        """a(t) of `semi_adjacency_of`; 0 where one database is left."""
        return semi_adjacency_of(self.listed, self.reading)

    @property
    def exact(self) -> bool:
        """True where `semi_adjacency` is a(t) itself: of a list, always."""
        return True


@dataclass(frozen=True)
class Margins:
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
        """Records in each database."""
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
        """True where `semi_adjacency` is a(t) itself, and not the least known upper bound."""
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
        """All of them, each a tuple of records; refused above 5,000."""
        if self.databases > LARGEST_LIST:
            raise ValueError(f"at most {LARGEST_LIST} databases are listed, got {self.databases}")
        columns = [_arrangements(levels) for levels in self.counts]
        return tuple(tuple(zip(*chosen, strict=True)) for chosen in product(*columns))


def _arrangements(levels: Sequence[int]) -> list[tuple[int, ...]]:
    """All columns with these counts."""
    if not any(levels):
        return [()]
    fewer = [(k, [*levels[:k], count - 1, *levels[k + 1 :]]) for k, count in enumerate(levels) if count]
    return [(k, *rest) for k, left in fewer for rest in _arrangements(left)]


def extend_then_compose(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Releases beside one invariant: each for `adjacency` records, then composed; Proposition 21.

    f_1^a x ... x f_k^a, iterates and then products: never weaker than `compose_then_extend`, and equal for
    Gaussian DP and zCDP. With several invariants find the adjacency of them jointly: there is no rule to add theirs up.

    Parameters
    ----------
    adjacency : a(t) >= 1, the semi-adjacency of everything published exactly

    >>> from adversary.privacy.definitions import PureDP
    >>> round(1.0 - extend_then_compose([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.160417
    >>> round(1.0 - compose_then_extend([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.059261
    """
    return _sum(guarantee.group(adjacency) for guarantee in guarantees)


def compose_then_extend(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Guarantee of releases beside one invariant: composed, then extended to groups of `adjacency` records.

    (f_1 x ... x f_k)^a, the bound available where only the total over the releases is known; `extend_then_compose` is
    never weaker.

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
