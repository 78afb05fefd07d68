"""Parts of the 2020 Census budget that bear on one concern, such as race or block.

A change of one attribute of a record changes the cells of some queries only, and only their noise counts. So a
guarantee about race alone, or about the block within its block group, has a rho of its own, well below the 2.63 of the
whole redistricting release (Kifer et al. 2022, section 8).
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
    match_option,
    normalise_name,
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
"""Attributes of a record, and the names in queries that depend on each: a query counts if it contains one of them.

Group quarters are in no scenario of the paper; HHINSTLEVELS groups the categories of HHGQ, so both depend on them.
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
"""Scenarios of Kifer et al. 2022, section 8.2: area that hides the location, hidden attributes, rho as printed.

The printed rho of C to H is smaller than the sum of the printed tables, by 0.056 to 0.059 (an erratum). This module
computes the sums; they are larger, so the protection is weaker than stated.
"""

type Cells = int | Mapping[Any, int]
"""Changed cells of a query: one number, or a mapping of queries or (level, query) pairs."""


class CountedQuery(NamedTuple):
    """Query that differs between two neighbours: its rho for two changed cells, and the number of cells that change."""

    level: str
    query: str
    rho_star: Fraction
    cells: int

    @property
    def rho(self) -> Fraction:
        """rho of the changed cells, (cells / 2) rho_star."""
        return self.rho_star * self.cells / 2

    @property
    def noise(self) -> DiscreteGaussian:
        """Noise in every cell, sigma^2 = 1 / rho_star exactly."""
        return DiscreteGaussian.from_rho(self.rho_star, cells=2)

    @property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of `cells` counts that change by one each."""
        return self.noise.privacy_loss(1, self.cells)


@dataclass(frozen=True)
class CensusScenario:
    """Scenario: a concern, the queries that depend on it, and their total rho.

    Parameters
    ----------
    name, concern : letter in the paper or another name, and the concern in words
    queries : queries that change, (level, query, rho_star, cells), all with a budget
    published_rho : rho printed in the paper for two cells, for comparison; None if there is none

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
        """Sum of (cells / 2) rho_star over the queries, exact."""
        return sum((query.rho for query in self.queries), Fraction(0))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of all queries together, the same in both directions."""
        return compose_losses([query.loss for query in self.queries])

    @property
    def table(self) -> xr.DataArray:
        """rho of each query, in float64, dims (query, level); 0 for a query that does not change."""
        levels = list(dict.fromkeys(query.level for query in self.queries))
        names = list(dict.fromkeys(query.query for query in self.queries))
        values = np.zeros((len(names), len(levels)))
        for query in self.queries:
            values[names.index(query.query), levels.index(query.level)] = query.rho
        return labelled_rho(values, names, levels)


def scenario(name: str, cells: Cells = 2) -> CensusScenario:
    """Scenario A to H of Kifer et al. 2022, section 8.2.

    Parameters
    ----------
    name : letter from "A" to "H"
    cells : number of changed cells of a query, 2 for bounded neighbours; as in `custom_scenario`

    Returns
    -------
    CensusScenario, with the printed rho in `published_rho` if `cells` is 2.

    Raises
    ------
    ValueError : an unknown letter, or `cells` no whole number >= 1

    >>> scenario("A").concern, round(float(scenario("A").rho), 4)
    ('block within the block group', 0.1115)
    """
    name = match_option("scenario", name, SCENARIOS, normalise_name)
    hide_within, attributes, published = SCENARIOS[name]
    computed = custom_scenario(hide_within, attributes, cells=cells, name=name)
    return CensusScenario(name, computed.concern, computed.queries, published if cells == 2 else None)


def custom_scenario(
    hide_within: str | None = None,
    attributes: str | Iterable[str] = (),
    levels: str | Iterable[str] | None = None,
    cells: Cells = 2,
    name: str = "custom",
) -> CensusScenario:
    """Scenario for another concern, by the rules of Kifer et al. 2022, section 8.

    Parameters
    ----------
    hide_within : area within which the location is hidden; all queries at finer levels change
    attributes : keys of `ATTRIBUTES`; the person queries that contain one of them change
    levels : levels at which the attributes' queries change; default all six
    cells : number of changed cells of a query, 2 for bounded neighbours; or a mapping by query or (level, query), of
        which the narrower key applies; 2 for the rest, 0: the query does not change
    name : name of the scenario

    Returns
    -------
    CensusScenario; its rho is exact (Kifer et al. 2022, section 8).

    Raises
    ------
    ValueError : an unknown level, attribute or query, or a bad number of cells

    >>> round(float(custom_scenario(hide_within="county").rho), 10)
    1.3798772038
    """
    area = "block" if hide_within is None else level_name(hide_within)
    finer = LEVELS[: LEVELS.index(area)]
    attribute_names = [
        match_option("attribute", attribute, ATTRIBUTES, normalise_name) for attribute in _as_tuple(attributes)
    ]
    names_of_attributes = {part for attribute in attribute_names for part in ATTRIBUTES[attribute]}
    attribute_levels = LEVELS if levels is None else tuple(level_name(level) for level in _as_tuple(levels))
    words = [*attribute_names, *([f"block within the {area}"] if finer else [])]
    return CensusScenario(
        name,
        " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "nothing",
        _queries_that_change(
            lambda level, query: (
                level in finer or (level in attribute_levels and bool(names_of_attributes & query_key(query)))
            ),
            cells,
        ),
    )


def pl94(cells: Cells = 2) -> CensusScenario:
    """Scenario of the whole 2020 redistricting release, if every attribute of a record changes: rho = 2.63.

    It has 71 queries: eleven person queries and one housing query at six levels, without the national total, which has
    no budget. A move that empties one housing unit and fills another changes four occupancy cells below the nation and
    none in it: `cells={"OCCUPANCY STATUS": 4, ("US", "OCCUPANCY STATUS"): 0}`, rho = 2.699.

    Parameters
    ----------
    cells : number of changed cells of a query, 2 for bounded neighbours; as in `custom_scenario`

    Returns
    -------
    CensusScenario of all queries.

    >>> pl94().rho, len(pl94().queries)
    (Fraction(263, 100), 71)
    """
    everything = _queries_that_change(lambda level, query: True, cells)
    return CensusScenario("PL 94-171", "everything", everything, Fraction("2.63") if cells == 2 else None)


def dhc(path: str | PathLike[str], cells: int = 2) -> CensusScenario:
    """Scenario of all queries of an allocation file that have a positive rho.

    Parameters
    ----------
    path : CSV file, as in `dhc_allocation`
    cells : number of changed cells of every query, whole, >= 1; 2 for bounded neighbours

    Returns
    -------
    CensusScenario with queries "query 1", "query 2", ... in the order of the file.

    Raises
    ------
    OSError, ValueError : as of `dhc_allocation`; `cells` no whole number >= 1
    """
    table, cells_changed = dhc_allocation(path), int(check_whole("cells", cells, minimum=1))
    counted = tuple(
        CountedQuery(level, f"query {number}", rho, cells_changed)
        for level, column in zip(table["level"].values.tolist(), table.values.T, strict=True)
        for number, rho in enumerate(column, 1)
        if rho > 0
    )
    return CensusScenario("DHC", "everything on one geographic path", counted)


def _as_tuple(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def _queries_that_change(counts: Callable[[str, str], bool], cells: Cells) -> tuple[CountedQuery, ...]:
    """Queries with a budget for which `counts(level, query)` is true, and whose number of changed cells is positive."""
    changed = _cells_changed(cells)
    return tuple(
        CountedQuery(level, query, rho, changed(level, query))
        for (level, query), rho in RHO_STAR.items()
        if rho and changed(level, query) and counts(level, query)
    )


def _cells_changed(cells: Cells) -> Callable[[str, str], int]:
    """Function of (level, query) that returns the number of changed cells."""
    if not isinstance(cells, Mapping):
        everywhere = int(check_whole("cells", cells, minimum=1))
        return lambda level, query: everywhere
    given: dict[object, int] = {}
    for key, count in cells.items():
        changed_query = query_name(key) if isinstance(key, str) else (level_name(key[0]), query_name(key[1]))
        given[changed_query] = int(check_whole(f"cells of {key}", count, minimum=0))
    return lambda level, query: given.get((level, query), given.get(query, 2))
