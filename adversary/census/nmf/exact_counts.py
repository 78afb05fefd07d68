"""Exact information about the cells that are read: constraints of the file, and totals of the states.

A constraint counts sets of cells. If such sets together cover a cell, the sum of their upper bounds limits the cell; if
they lie inside it, the sum of their lower bounds does. A count is exact if its bounds meet or its upper bound is 0:
`total_con` of housing units, facilities that a block lacks, and structural zeros such as minors in nursing homes. The
table `pl94_con` of DHC contains noisy counts, so it is not used.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats, check_whole
from adversary.census.nmf.file_layout import AT_LEAST, AT_MOST, EQUAL, bare
from adversary.census.nmf.products import Category, Product, Shape
from adversary.census.nmf.records import NmfColumn

# Constraints of DHC that published estimates had to satisfy but true counts do not: they are noisy themselves.
NOISY_TABLES = ("pl94_con",)

# File of state totals beside a product folder.
TOTALS = "state_totals.csv"

# Upper bounds from this one on are treated as none: it is the Bureau's cap on the people in one facility.
UNLIMITED = 99_999

Groups = list[tuple[Category, ...]]


class State(NamedTuple):
    """Name and exact resident population of a state."""

    name: str
    population: int


def state_totals(table: str | Path | None, product: Path) -> dict[str, State]:
    """Exact resident population of each state, by its two digits.

    From `table`, else from `state_totals.csv` beside the product folder, else of the 2020 Census. ValueError naming
    file and row.
    """
    own = product.parent / TOTALS
    path = Path(table) if table is not None else own if own.is_file() else None
    source = files("adversary.census.nmf").joinpath("state_population_2020.csv") if path is None else path
    states: dict[str, State] = {}
    for number, row in enumerate(csv.DictReader(source.read_text(encoding="utf-8-sig").splitlines()), 2):
        try:
            code, name = row["state"].strip().zfill(2), row["name"].strip()
            states[code] = State(name, int(check_whole("population", int(row["population"]), minimum=0)))
        except (KeyError, AttributeError, TypeError, ValueError):
            rule = "columns state, name and population, a whole number of people"
            raise ValueError(f"{source}: row {number} must have {rule}, got {dict(row)}") from None
    return states


def category_sets(product: Product, query: str, words: tuple[str, ...], shape: Shape) -> Groups | None:
    """For each axis, the sets of categories that the rows of a query count; None if a grouping is unknown."""
    sets = [product.groups(axis, word, n) for axis, word, n in zip(product.axes, words, shape, strict=True)]
    named = re.fullmatch(r"relgq(\d+)(?:_lt(\d+))?(?:_gt(\d+))?", bare(query))
    if named and "age" in product.axes and sets[(place := list(product.axes).index("age"))] is None:
        last = len(product.axes["age"])
        low, high = int(named[2] or 0), int(named[3] or last)
        sets[place] = (Category(query, frozenset(i for i in range(last) if i < low or i > high)),)
    return None if any(one is None for one in sets) else [one for one in sets if one is not None]


def constraint_limits(
    product: Product,
    column_wanted: NmfColumn,
    known: Mapping[str, NmfColumn],
    units: int,
    rows: Mapping[str, tuple[Any, Any]],
    lowest: bool,
) -> tuple[Floats, Floats, list[str], list[str]]:
    """(unit, cell) smallest and largest counts that the constraints of a level allow, and which constraints bind.

    Parameters
    ----------
    product : levels and axes of the file
    column_wanted : query and cells to limit
    known : constraints by name
    units : number of units of the level
    rows : for each constraint, the units that have a record, and the rows of these records
    lowest : whether these are the smallest units; for others, a constraint counts as used only if it fixes a count

    Returns
    -------
    low, high, names of constraints used, names of those not used
    """
    assert column_wanted.shape is not None
    low, high = np.zeros((units, column_wanted.cells.size)), np.full((units, column_wanted.cells.size), np.inf)
    wanted = category_sets(product, column_wanted.query, column_wanted.words, column_wanted.shape)
    used: list[str] = []
    unused: list[str] = []
    for name, column in known.items():
        constraint_sets = None if column.shape is None else category_sets(product, name, column.words, column.shape)
        if column.shape is None or constraint_sets is None or wanted is None:
            unused.append(name)
            continue
        units_with_record, records = rows[name]
        is_binding = False
        for i, cell in enumerate(column_wanted.cells):
            covering, contained = _cover_and_contents(
                wanted, constraint_sets, column_wanted.shape, column.shape, int(cell)
            )
            values, signs = column.values[records], column.sign[records]
            if covering:
                most = np.where(signs != AT_LEAST, values[:, covering].sum(axis=1), np.inf)
                most = np.where((signs == AT_MOST) & (values[:, covering] >= UNLIMITED).any(axis=1), np.inf, most)
                high[units_with_record, i] = np.minimum(high[units_with_record, i], most)
                is_binding |= bool((most == 0).any() or (lowest and np.isfinite(most).any()))
            if contained:
                least = np.where(signs != AT_MOST, values[:, contained].sum(axis=1), 0.0)
                low[units_with_record, i] = np.maximum(low[units_with_record, i], least)
                is_binding |= bool((least > 0).any() and (lowest or (covering == contained and (signs == EQUAL).any())))
        (used if is_binding else unused).append(name)
    return low, high, used, unused


def first_contradiction(units: Any, least: Floats, most: Floats) -> tuple[str, str] | None:
    """First unit with a lower limit above its upper limit, (unit, cell) each, and a message; None if there is none."""
    if not (empty := np.argwhere(least > most)).size:
        return None
    unit, cell = empty[0]
    bounds = f"at least {least[unit, cell]:.0f} and at most {most[unit, cell]:.0f}"
    return str(units[unit]), f"constraints leave no count possible, {bounds}"


def _cover_and_contents(
    wanted: Groups, sets: Groups, shape: Shape, other: Shape, cell: int
) -> tuple[list[int], list[int]]:
    """Cells of a constraint that together cover one cell of a query (none if they do not), and those inside it."""
    covering, contained, covered = [], [], True
    for groups, constraint_groups, place in zip(wanted, sets, np.unravel_index(cell, shape), strict=True):
        members = groups[int(place)].members
        overlapping = [i for i, one in enumerate(constraint_groups) if one.members & members]
        covered &= members <= frozenset().union(*(constraint_groups[i].members for i in overlapping))
        covering.append(overlapping)
        contained.append([i for i in overlapping if constraint_groups[i].members <= members])

    def flat(places: list[list[int]]) -> list[int]:
        return np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), other).ravel().tolist()

    return flat(covering) if covered else [], flat(contained) if all(contained) else []
