"""The 2020 Census budget, and what part of it each concern is protected by.

A record that changes moves cells of some published queries and leaves the others as they were; only the noise of the
first protects the difference. So "can my race be told?" and "can my block be told from the others of its block group?"
have each their own rho, well below the 2.63 of the whole redistricting release (Kifer et al. 2022, section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary._core import check_whole
from adversary.census.allocation import (
    DETAILED,
    LEVELS,
    PERSONS,
    RHO_STAR,
    dhc_allocation,
    labelled_rho,
    level_name,
    option_named,
    plain,
    query_key,
    query_name,
)
from adversary.privacy.losses import PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import DiscreteGaussian

DETAILED_RHO: Mapping[str, Fraction] = MappingProxyType(
    {level: PERSONS.exact[level, DETAILED] for level in PERSONS.levels}
)
"""rho of one cell of the detailed histogram at each level (Kazan and Reiter 2025, Table 2)."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "race": ("CENRACE",),
        "ethnicity": ("HISPANIC",),
        "voting age": ("VOTINGAGE",),
        "group quarters": ("HHGQ", "HHINSTLEVELS"),
    }
)
"""What of a record each concern is about: the names that a query counted for it contains, one of them at least.

Group quarters are in no scenario of the paper; HHINSTLEVELS groups the categories of HHGQ, so it is counted with it.
"""

SCENARIOS: Mapping[str, tuple[str | None, tuple[str, ...], Fraction]] = MappingProxyType(
    {
        "A": ("block group", (), Fraction("0.1115")),
        "B": ("tract", (), Fraction("0.926")),
        "C": (None, ("race",), Fraction("0.952")),
        "D": (None, ("ethnicity",), Fraction("0.945")),
        "E": ("tract", ("race",), Fraction("1.32")),
        "F": ("block group", ("voting age",), Fraction("0.555")),
        "G": ("block group", ("voting age", "race"), Fraction("0.969")),
        "H": ("block group", ("voting age", "ethnicity"), Fraction("0.968")),
    }
)
"""Scenarios of Kifer et al. 2022, section 8.2: where the location is hidden, hidden attributes, rho as printed.

The printed rho of C to H is not the sum of the printed tables: it falls short by 0.056 to 0.059 (an erratum; the sums
are what this module computes, and larger, so that less is protected than stated).
"""

type Cells = int | Mapping[Any, int]
"""Changed cells of a query: one number, or a mapping of queries or (level, query) pairs."""


class CountedQuery(NamedTuple):
    """A query that changes between two neighbours: rho_star is its rho for two cells, `cells` how many of it change."""

    level: str
    query: str
    rho_star: Fraction
    cells: int

    @property
    def rho(self) -> Fraction:
        """(cells / 2) rho_star."""
        return self.rho_star * self.cells / 2

    @property
    def noise(self) -> DiscreteGaussian:
        """Noise in every cell, sigma^2 = 1 / rho_star exactly."""
        return DiscreteGaussian.from_rho(self.rho_star, cells=2)

    @property
    def loss(self) -> PrivacyLoss:
        """Loss of `cells` counts moved by one each."""
        return self.noise.privacy_loss(1, self.cells)


@dataclass(frozen=True)
class CensusScenario:
    """What is hidden, the queries that would give it away, and what they cost together.

    Parameters
    ----------
    name, concern : a letter of the paper or a name of ours, and the concern in words
    queries : the counted queries, (level, query, rho_star, cells), none of them without budget
    published_rho : the rho printed in the paper for two cells, a constant kept for comparison; None if there is none

    References
    ----------
    Kifer et al. 2022, sections 8.1 and 8.2.

    >>> scenario("A").rho
    Fraction(37477407, 336118000)
    """

    name: str
    concern: str
    queries: tuple[CountedQuery, ...] = field(repr=False)
    published_rho: Fraction | None = None

    @property
    def rho(self) -> Fraction:
        """Sum of (cells / 2) rho_star, from the tables."""
        return sum((query.rho for query in self.queries), Fraction(0))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Loss of all counted queries together, the same in both directions."""
        return compose_losses([query.loss for query in self.queries])

    @property
    def table(self) -> xr.DataArray:
        """Shares of rho that the queries add, in float64, dims (query, level); 0 where one is not counted."""
        levels = list(dict.fromkeys(query.level for query in self.queries))
        names = list(dict.fromkeys(query.query for query in self.queries))
        values = np.zeros((len(names), len(levels)))
        for query in self.queries:
            values[names.index(query.query), levels.index(query.level)] = query.rho
        return labelled_rho(values, names, levels)


def scenario(name: str, cells: Cells = 2) -> CensusScenario:
    """One of the scenarios A to H of Kifer et al. 2022, section 8.2.

    Parameters
    ----------
    name : letter from "A" to "H"
    cells : changed cells of a query, 2 for bounded neighbours; as in `custom_scenario`

    Returns
    -------
    CensusScenario, with the printed rho in `published_rho` if `cells` is 2.

    Raises
    ------
    ValueError : an unknown letter, or `cells` no whole number >= 1

    >>> scenario("A").concern, round(float(scenario("A").rho), 4)
    ('block within the block group', 0.1115)
    """
    name = option_named("scenario", name, SCENARIOS, plain)
    hide_within, attributes, published = SCENARIOS[name]
    made = custom_scenario(hide_within, attributes, cells=cells, name=name)
    return CensusScenario(name, made.concern, made.queries, published if cells == 2 else None)


def custom_scenario(
    hide_within: str | None = None,
    attributes: str | Iterable[str] = (),
    levels: str | Iterable[str] | None = None,
    cells: Cells = 2,
    name: str = "custom",
) -> CensusScenario:
    """A concern of one's own, priced by the rules of the paper.

    Parameters
    ----------
    hide_within : the area within which the location is hidden; all queries of every finer level are counted
    attributes : keys of `ATTRIBUTES`; the person queries that contain one of them are counted
    levels : where the attributes' queries are counted, all six by default
    cells : changed cells of a query, 2 for bounded neighbours; or by query or (level, query), the narrower key first
        and 2 for the rest, where 0 says that the query does not change

    Returns
    -------
    CensusScenario; its rho is exact (Kifer et al. 2022, section 8).

    Raises
    ------
    ValueError : an unknown level, attribute or query, or a bad number of cells

    >>> round(float(custom_scenario(hide_within="county").rho), 10)
    1.3798772038
    """
    hidden = "block" if hide_within is None else level_name(hide_within)
    finer = LEVELS[: LEVELS.index(hidden)]
    chosen = [option_named("attribute", attribute, ATTRIBUTES, plain) for attribute in _several(attributes)]
    parts = {part for attribute in chosen for part in ATTRIBUTES[attribute]}
    where = LEVELS if levels is None else tuple(level_name(level) for level in _several(levels))
    words = [*chosen, *([f"block within the {hidden}"] if finer else [])]
    return CensusScenario(
        name,
        " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "nothing",
        _counted_queries(
            lambda level, query: level in finer or (level in where and bool(parts & query_key(query))), cells
        ),
    )


def pl94(cells: Cells = 2) -> CensusScenario:
    """The whole 2020 redistricting release, persons and housing, if every attribute of a record changes: rho = 2.63.

    71 queries: eleven person queries and one housing query at six levels, except the national total, which has no
    budget. A move that empties one housing unit and fills another changes four occupancy cells below the nation and
    none in it: `cells={"OCCUPANCY STATUS": 4, ("US", "OCCUPANCY STATUS"): 0}`, rho = 2.699.

    Parameters
    ----------
    cells : changed cells of a query, 2 for bounded neighbours; as in `custom_scenario`

    Returns
    -------
    CensusScenario of all queries.

    >>> pl94().rho, len(pl94().queries)
    (Fraction(263, 100), 71)
    """
    everything = _counted_queries(lambda level, query: True, cells)
    return CensusScenario("PL 94-171", "everything", everything, Fraction("2.63") if cells == 2 else None)


def dhc(path: str | PathLike[str], cells: int = 2) -> CensusScenario:
    """All queries of an allocation file with a positive rho, as one scenario.

    Parameters
    ----------
    path : CSV file, as in `dhc_allocation`
    cells : changed cells of every query, whole, >= 1; 2 for bounded neighbours

    Returns
    -------
    CensusScenario, its queries named "query 1", "query 2", ... by their line.

    Raises
    ------
    OSError, ValueError : as of `dhc_allocation`; `cells` no whole number >= 1
    """
    table, changed = dhc_allocation(path), int(check_whole("cells", cells, minimum=1))
    counted = tuple(
        CountedQuery(level, f"query {number}", rho, changed)
        for level, column in zip(table["level"].values.tolist(), table.values.T, strict=True)
        for number, rho in enumerate(column, 1)
        if rho > 0
    )
    return CensusScenario("DHC", "everything on one geographic path", counted)


def _several(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _counted_queries(counts: Callable[[str, str], bool], cells: Cells) -> tuple[CountedQuery, ...]:
    changed = _rows_changed(cells)
    return tuple(
        CountedQuery(level, query, rho, changed(level, query))
        for (level, query), rho in RHO_STAR.items()
        if rho and changed(level, query) and counts(level, query)
    )


def _rows_changed(cells: Cells) -> Callable[[str, str], int]:
    if not isinstance(cells, Mapping):
        everywhere = int(check_whole("cells", cells, minimum=1))
        return lambda level, query: everywhere
    given: dict[object, int] = {}
    for key, count in cells.items():
        whose = query_name(key) if isinstance(key, str) else (level_name(key[0]), query_name(key[1]))
        given[whose] = int(check_whole(f"cells of {key}", count, minimum=0))
    return lambda level, query: given.get((level, query), given.get(query, 2))
