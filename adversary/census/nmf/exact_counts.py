"""What is known without noise of the cells that are read: constraints of the file, and totals of the states.

A constraint counts sets of cells. Where these sets cover a cell, their upper bounds limit it; where they lie in it,
their lower bounds do. Bounds that meet, and upper bounds of 0, fix a count: `total_con` of housing units, facilities
that a block has not, and structural zeros such as minors in nursing homes. The table that DHC calls `pl94_con` was
published, but with noise in it: it says nothing exact, and is left out.
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

# Constraints of DHC that the estimates had to meet, and the true counts do not.
NOISY_TABLES = ("pl94_con",)

# Beside the folders of a product: its own table of state totals.
TOTALS = "state_totals.csv"

# From here on an upper bound stands for none: the Bureau's cap for each facility.
UNLIMITED = 99_999

Groups = list[tuple[Category, ...]]


class State(NamedTuple):
    """A state as the table of totals has it."""

    name: str
    population: int


def state_totals(table: str | Path | None, product: Path) -> dict[str, State]:
    """Exact resident population of each state by its two digits: of a table, of the product's own beside its folder, or
    of the 2020 Census; ValueError naming file and row.
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


def groups_of(product: Product, query: str, words: tuple[str, ...], shape: Shape) -> Groups | None:
    """Sets of categories that a query counts, by axis; None where one is not known."""
    sets = [product.groups(axis, word, n) for axis, word, n in zip(product.axes, words, shape, strict=True)]
    named = re.fullmatch(r"relgq(\d+)(?:_lt(\d+))?(?:_gt(\d+))?", bare(query))
    if named and "age" in product.axes and sets[(place := list(product.axes).index("age"))] is None:
        last = len(product.axes["age"])
        low, high = int(named[2] or 0), int(named[3] or last)
        sets[place] = (Category(query, frozenset(i for i in range(last) if i < low or i > high)),)
    return None if any(one is None for one in sets) else [one for one in sets if one is not None]


def limits(
    product: Product,
    column_wanted: NmfColumn,
    known: Mapping[str, NmfColumn],
    units: int,
    rows: Mapping[str, tuple[Any, Any]],
    lowest: bool,
) -> tuple[Floats, Floats, list[str], list[str]]:
    """(unit, cell) least and largest counts that constraints of a level allow, and names of those used and not used.

    Bounds are kept of the `lowest` units; of others only what fixes a count is used.
    """
    assert column_wanted.shape is not None
    low, high = np.zeros((units, column_wanted.cells.size)), np.full((units, column_wanted.cells.size), np.inf)
    wanted = groups_of(product, column_wanted.query, column_wanted.words, column_wanted.shape)
    used: list[str] = []
    unused: list[str] = []
    for name, column in known.items():
        sets = None if column.shape is None else groups_of(product, name, column.words, column.shape)
        if column.shape is None or sets is None or wanted is None:
            unused.append(name)
            continue
        here, records = rows[name]
        bound = False
        for i, cell in enumerate(column_wanted.cells):
            over, within = _cells(wanted, sets, column_wanted.shape, column.shape, int(cell))
            values, signs = column.values[records], column.sign[records]
            if over:
                most = np.where(signs != AT_LEAST, values[:, over].sum(axis=1), np.inf)
                most = np.where((signs == AT_MOST) & (values[:, over] >= UNLIMITED).any(axis=1), np.inf, most)
                high[here, i] = np.minimum(high[here, i], most)
                bound |= bool((most == 0).any() or (lowest and np.isfinite(most).any()))
            if within:
                least = np.where(signs != AT_MOST, values[:, within].sum(axis=1), 0.0)
                low[here, i] = np.maximum(low[here, i], least)
                bound |= bool((least > 0).any() and (lowest or (over == within and (signs == EQUAL).any())))
        (used if bound else unused).append(name)
    return low, high, used, unused


def excluded(units: Any, least: Floats, most: Floats) -> tuple[str, str] | None:
    """The first unit that limits leave no count, (unit, cell) each, and what is wrong; None where there is none."""
    if not (wrong := np.argwhere(least > most)).size:
        return None
    unit, cell = wrong[0]
    bounds = f"at least {least[unit, cell]:.0f} and at most {most[unit, cell]:.0f}"
    return str(units[unit]), f"constraints leave no count possible, {bounds}"


def _cells(wanted: Groups, sets: Groups, shape: Shape, other: Shape, cell: int) -> tuple[list[int], list[int]]:
    """Cells of a constraint that together cover one cell of a query (none if they do not), and those within it."""
    over, within, covered = [], [], True
    for groups, theirs, place in zip(wanted, sets, np.unravel_index(cell, shape), strict=True):
        mine = groups[int(place)].members
        meets = [i for i, one in enumerate(theirs) if one.members & mine]
        covered &= mine <= frozenset().union(*(theirs[i].members for i in meets))
        over.append(meets)
        within.append([i for i in meets if theirs[i].members <= mine])

    def flat(places: list[list[int]]) -> list[int]:
        return np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), other).ravel().tolist()

    return flat(over) if covered else [], flat(within) if all(within) else []
