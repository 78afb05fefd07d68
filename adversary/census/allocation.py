"""Privacy budgets as tables: a global rho, split by geographic level, then by query, in exact fractions.

Two allocations made the 2020 redistricting (PL 94-171) tables of the US Census: 2.56 on persons, 0.07 on housing units.
Shares are those of Tables 3 to 5 of Kifer et al. 2022; a budget whose columns do not sum to one is refused.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats

Shares = Mapping[str, Fraction]

# The detailed histogram: the person query with a cell for every kind of record.
DETAILED = "HHGQ*VOTINGAGE*HISPANIC*CENRACE"

# The only housing query: occupied or vacant.
OCCUPANCY = "OCCUPANCY STATUS"

_LEVEL_SPELLINGS = {"cbg": "block group", "custom block group": "block group", "us": "nation"}
_LEVEL_SPELLINGS |= {"usa": "nation", "united states": "nation"}
_QUERY_SPELLINGS = {"detailed": DETAILED, "occupancy": OCCUPANCY}


def normalise_name(name: object) -> str:
    """Name in lower case, with runs of spaces and underscores as single spaces."""
    return " ".join(str(name).replace("_", " ").lower().split())


def level_key(level: object) -> str:
    """Common key of all spellings of a level: "block group" for "CBG" and "Block_Group", "nation" for "US"."""
    return _LEVEL_SPELLINGS.get(normalise_name(level), normalise_name(level))


def query_key(query: object) -> frozenset[str]:
    """Common key of all spellings of a query: the set of its attributes, crossed by "*", "x" or a multiplication sign.

    Splitting at "x" is safe because no attribute has an x in its name. "detailed" is the crossing of all four.
    """
    spelled = _QUERY_SPELLINGS.get(normalise_name(query), normalise_name(query).upper())
    return frozenset(part.strip() for part in re.split("[*×X]", spelled))


def match_option(kind: str, name: object, options: Iterable[str], key: Callable[[object], Hashable]) -> str:
    """Option with the same key as `name`; ValueError listing the options if there is none.

    kind : noun for the message
    key : function that maps spellings to keys
    """
    options = list(options)
    for option in options:
        if key(option) == key(name):
            return option
    raise ValueError(f"{kind} must be one of {', '.join(options)}, got {name!r}")


@dataclass(frozen=True)
class Allocation:
    """Allocation of a global rho to levels, and within each level to queries.

    rho_star(level, query) = rho * level_share[level] * query_share[query][level]. Every cell of the query has discrete
    Gaussian noise of sigma^2 = 1 / rho_star, so that two changed cells (bounded neighbours) cost rho_star.

    Parameters
    ----------
    rho : zCDP budget of the whole release, a Fraction >= 0
    level_share : share of each level in rho; they sum to one
    query_share : share of each query in each level's rho; over queries they sum to one at every level

    References
    ----------
    Kifer et al. 2022, section 8.1.

    >>> PERSONS.rho_star("Block", "detailed")
    Fraction(1666368, 16793603)
    """

    rho: Fraction
    level_share: Shares
    query_share: Mapping[str, Shares]

    def __post_init__(self) -> None:
        object.__setattr__(self, "level_share", MappingProxyType(dict(self.level_share)))
        read_only = {query: MappingProxyType(dict(shares)) for query, shares in self.query_share.items()}
        object.__setattr__(self, "query_share", MappingProxyType(read_only))
        if not (isinstance(self.rho, Fraction) and self.rho >= 0):
            raise ValueError(f"rho must be a Fraction and non-negative, got {self.rho!r}")
        for query, shares in self.query_share.items():
            if set(shares) != set(self.levels):
                raise ValueError(f"{query} must have a share at {', '.join(self.levels)}, got {', '.join(shares)}")
        _check_column("level_share", self.level_share)
        for level in self.levels:
            column = {query: shares[level] for query, shares in self.query_share.items()}
            _check_column(f"query_share at {level}", column)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, in the order they were given."""
        return tuple(self.level_share)

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of the queries, in the order they were given."""
        return tuple(self.query_share)

    def rho_star(self, level: str, query: str) -> Fraction:
        """rho of one query at one level, exact; ValueError listing the names for an unknown one."""
        return self.exact[
            match_option("level", level, self.levels, level_key), match_option("query", query, self.queries, query_key)
        ]

    @cached_property
    def exact(self) -> Mapping[tuple[str, str], Fraction]:
        """Exact rho_star by (level, query), all queries of the first level first."""
        level_rho = {level: self.rho * share for level, share in self.level_share.items()}
        return MappingProxyType(
            {(level, query): level_rho[level] * self.query_share[query][level] for level, query in self._pairs}
        )

    @property
    def table(self) -> xr.DataArray:
        """Every rho_star in float64, dims (query, level)."""
        rho = np.array([float(self.exact[pair]) for pair in self._pairs])
        return labelled_rho(rho.reshape(len(self.levels), -1).T, self.queries, self.levels)

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        """All pairs (level, query), queries of the first level first."""
        return list(product(self.levels, self.queries))


def labelled_rho(values: Floats | np.ndarray[Any, Any], queries: Iterable[Any], levels: Iterable[str]) -> xr.DataArray:
    """DataArray of rho, dims (query, level)."""
    coords = {"query": list(queries), "level": list(levels)}
    return xr.DataArray(values, coords, ("query", "level"), name="rho", attrs={"units": "zCDP"})


def _check_column(column: str, shares: Shares) -> None:
    """ValueError unless the shares are Fractions >= 0 that sum to one."""
    for row, share in shares.items():
        if not (isinstance(share, Fraction) and share >= 0):
            raise ValueError(f"{column} must hold Fractions >= 0, got {share!r} for {row}")
    if sum(shares.values()) != 1:
        raise ValueError(f"{column} must sum to one exactly, got {sum(shares.values(), Fraction(0))}")


def _fractions(rows: Mapping[str, tuple[int, ...]], denominators: Mapping[str, int]) -> dict[str, Shares]:
    """Shares by query and level, from numerators by query and denominators by level."""
    return {
        query: {level: Fraction(n, d) for n, (level, d) in zip(row, denominators.items(), strict=True)}
        for query, row in rows.items()
    }


_LEVELS = ("block", "block group", "tract", "county", "state", "nation")

PERSONS = Allocation(
    Fraction(64, 25),
    {level: Fraction(n, 4099) for level, n in zip(_LEVELS, (165, 1256, 687, 447, 1440, 104), strict=True)},
    _fractions(
        {
            "TOTAL": (5, 1705, 1567, 3126, 3773, 0),
            "CENRACE": (9, 3, 8, 10, 6, 52),
            "HISPANIC": (5, 3, 5, 10, 6, 26),
            "VOTINGAGE": (5, 3, 5, 10, 6, 26),
            "HHINSTLEVELS": (5, 3, 5, 10, 6, 26),
            "HHGQ": (5, 3, 5, 10, 6, 26),
            "HISPANIC*CENRACE": (21, 1055, 1933, 28, 12, 130),
            "VOTINGAGE*CENRACE": (21, 9, 20, 28, 12, 130),
            "VOTINGAGE*HISPANIC": (5, 3, 5, 10, 6, 26),
            "VOTINGAGE*HISPANIC*CENRACE": (71, 24, 67, 101, 34, 442),
            DETAILED: (3945, 1288, 482, 754, 230, 3213),
        },
        dict(zip(_LEVELS, (4097, 4099, 4102, 4097, 4097, 4097), strict=True)),
    ),
)
"""The persons tables of the 2020 redistricting release, 2.56 (Kifer et al. 2022, Tables 3 to 5).

"block group" is the custom ("optimized") one that lives inside the disclosure system, not the tabulation block group.
"""

# The housing-unit tables of the same release, 0.07 (Kifer et al. 2022, Tables 3 to 5).
HOUSING = Allocation(
    Fraction(7, 100),
    {level: Fraction(n, 4100) for level, n in zip(_LEVELS, (495, 1759, 1456, 350, 20, 20), strict=True)},
    {OCCUPANCY: dict.fromkeys(_LEVELS, Fraction(1))},
)


def dhc_allocation(path: str | PathLike[str]) -> xr.DataArray:
    """Read a table of per-query rho from a CSV file.

    The first line names the levels; every further line is one query, numbered from 1, with a fraction ("31/1000") or a
    decimal for each level.

    Parameters
    ----------
    path : CSV file, UTF-8

    Returns
    -------
    DataArray, dims (query, level): Fractions exactly as written, in an object array; `.astype(float)` for arithmetic.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : names of levels repeated or empty, a row of the wrong length, or an entry that is not a fraction >= 0;
        the message names row and column
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [[entry.strip() for entry in line] for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise ValueError(f"an allocation must have a line of levels and one for each query, got {len(lines)} lines")
    levels, rows = lines[0], lines[1:]
    if len(set(levels)) < len(levels) or not all(levels):
        raise ValueError(f"levels must have distinct names, got {', '.join(levels)}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(levels):
            raise ValueError(f"row {number} must have {len(levels)} entries, got {len(row)}")
    values = np.empty((len(rows), len(levels)), dtype=object)
    for i, j in product(range(len(rows)), range(len(levels))):
        values[i, j] = _parse_fraction(rows[i][j], f"row {i + 1}, column {levels[j]}")
    return labelled_rho(values, range(1, len(rows) + 1), levels)


def _parse_fraction(text: str, where: str) -> Fraction:
    """Fraction from text; ValueError naming row and column if it is none, or negative."""
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{where} must be a fraction, got {text!r}") from None
    if value < 0:
        raise ValueError(f"{where} must be non-negative, got {text!r}")
    return value


LEVELS = PERSONS.levels
"""The six levels, finest first."""

QUERIES = (*PERSONS.queries, OCCUPANCY)
"""The eleven person queries and the housing query, as the Bureau spells them, crossings with "*"."""

RHO_STAR: Mapping[tuple[str, str], Fraction] = MappingProxyType(
    {pair: (HOUSING if OCCUPANCY in pair else PERSONS).exact[pair] for pair in product(LEVELS, QUERIES)}
)
"""rho of every query of the redistricting release at every level, by (level, query), for two changed cells."""


def level_name(level: str) -> str:
    """Name of a geographic level of the redistricting release as in `LEVELS`, from another spelling ("CBG", "US").

    Parameters
    ----------
    level : name in any understood spelling, upper or lower case

    Raises
    ------
    ValueError : an unknown level; the message lists the levels

    >>> level_name("CBG"), level_name("US")
    ('block group', 'nation')
    """
    return match_option("level", level, LEVELS, level_key)


def query_name(query: str) -> str:
    """Name of a query of the redistricting release as in `QUERIES`, from another spelling.

    Parameters
    ----------
    query : name with "x" or "*" between attributes, in any order; "detailed" means the crossing of all four

    Raises
    ------
    ValueError : an unknown query; the message lists the queries

    >>> query_name("CENRACE x HISPANIC"), query_name("detailed")
    ('HISPANIC*CENRACE', 'HHGQ*VOTINGAGE*HISPANIC*CENRACE')
    """
    return match_option("query", query, QUERIES, query_key)


def rho_star(level: str, query: str) -> Fraction:
    """rho of one query of the 2020 redistricting release at one level, for two changed cells (bounded neighbours).

    Parameters
    ----------
    level, query : names as `level_name` and `query_name` understand them

    Returns
    -------
    Fraction, exact; 0 for a query without budget (Kifer et al. 2022, Tables 3 to 5).

    Raises
    ------
    ValueError : an unknown level or query

    >>> rho_star("US", "TOTAL"), rho_star("county", "OCCUPANCY STATUS")
    (Fraction(0, 1), Fraction(49, 8200))
    """
    return RHO_STAR[level_name(level), query_name(query)]


def budget_table() -> xr.DataArray:
    """rho_star of all twelve queries at all six levels in float64, dims (query, level); they sum to 2.63."""
    return xr.concat([PERSONS.table, HOUSING.table], "query")
