"""Noisy Measurement Files: the published counts of every unit of a geographic spine, and the noise in them.

`read` turns the answers to one query into what the exact engine takes: a tree of units, whole released counts, rho of
each, so that the likelihood of a count x is exp(-rho (released - x)^2), and what is known exactly. Nothing is loaded
whole, and no record is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.nmf.exact_counts import NOISY_TABLES, State, limits, state_totals
from adversary.nmf.file_layout import (
    CONSTRAINTS,
    MEASUREMENTS,
    bare,
    flat_cells,
    folder,
    levels_of,
    meant,
    opened,
    product_of,
    spelled,
)
from adversary.nmf.parquet_source import Source
from adversary.nmf.products import Product, Shape
from adversary.nmf.records import US, Column, collect, label_of
from adversary.nmf.units import (
    WHOLE_STATE,
    Codes,
    in_order,
    levels_below,
    places_of,
    planted,
    root_of,
    whole_states,
)  # fmt: skip
from adversary.reader.spine import Tree

FARTHEST = 12.0
"""Standard deviations of its parts' noise beyond which a state's total is of another population, and not used."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """The answers to one query in every unit of a tree.

    Parameters
    ----------
    tree : the units, parents before children
    released : (node,) or (node, cell) whole numbers, NaN where not measured; the count itself where it is exact
    rho : as `released`; 1 / (2 variance), 0 where not measured, infinite where the count is known exactly
    low, high : as `released`; least and largest counts that published bounds allow
    published : as `released`; the noisy counts, also where the count is known exactly; NaN where not measured
    query, shape : the query, as the file spells it, and the lengths of its axes
    cells, labels : (cell,) flat indices of the cells in the shape, in C order, and the cells in words
    exact : what was used that has no noise, in words
    notes : what the file says of the query and is not used, in words
    states : names and totals of states by their two digits
    product, synthetic : name of the product, and whether the file says that nobody in it exists
    """

    tree: Tree
    released: Floats
    rho: Floats
    low: Floats
    high: Floats
    published: Floats
    query: str
    shape: Shape
    cells: Integers
    labels: tuple[str, ...]
    exact: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    states: Mapping[str, State] | None = None
    product: str = ""
    synthetic: bool = False

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest counts, as `spine.posterior` takes them."""
        return self.low, self.high

    def cell(self, index: int = 0) -> tuple[int, ...]:
        """A cell's place on each axis of the shape."""
        return tuple(map(int, np.unravel_index(int(self.cells[index]), self.shape)))

    def part(self, nodes: Integers, tree: Tree) -> Measurements:
        """The same of some of the units, which make up a tree."""
        names = ("released", "rho", "low", "high", "published")
        return replace(self, tree=tree, **{name: getattr(self, name)[nodes] for name in names})


@dataclass(frozen=True, eq=False)
class Level:
    """Records of a level: of the query by the name that the file has, of constraints by name, and its units."""

    name: str
    measured: dict[str, Column]
    known: dict[str, Column]
    units: Codes

    def named(self, code: str) -> str:
        """File, geocode and query of a record of a unit."""
        for column in (*self.measured.values(), *self.known.values()):
            if (rows := np.flatnonzero(column.geocodes == code)).size:
                return column.named(int(rows[0]))
        return f"geocode {code} of level {self.name}"


def read(
    directory: str | Path,
    query: str,
    cells: Any = None,
    *,
    product: str | None = None,
    root: str | None = None,
    state: str | None = None,
    county: str | None = None,
    totals: str | Path | None = None,
    progress: bool = False,
) -> Measurements:
    """The noisy counts of a query's cells in every unit, and what is known of them exactly.

    Parameters
    ----------
    directory : a product folder, or the archive it lies in
    query : its name, with or without the suffix `_dpq`
    cells : a flat index, a tuple with an index per axis (axes of length one may be left out), a label such as
        "Hispanic, 18 and over", a list of them, or "all"; may be left out where the query has one cell. A list makes
        (node, cell) arrays, one cell (node,)
    product : name of the product folder, or a part of it, where the directory has several
    root : geocode of the unit whose tree is read; the whole file where left out
    state, county : the same by FIPS code: a state of two digits, in both its parts, or a county of five, outside
        American Indian, Alaska Native and Hawaiian areas
    totals : CSV file of exact state totals, see `state_totals`
    progress : show a bar with the time left for every level

    A unit without a record was not measured: rho 0. Bounds that meet, structural zeros and state totals are exact, and
    take the measurement's place; bounds of the smallest units are kept as bounds.

    rho is 1 / (2 variance) as recorded, whichever neighbours the budget was for. The variance of a discrete Gaussian
    and its sigma^2 agree to a relative 1e-6 from sigma = 1 on; files of ours record sigma^2.

    Raises
    ------
    ValueError, OSError : anything is missing or malformed; the message names file, geocode and query
    ImportError : pyarrow is not installed
    """
    path = opened(directory, product)
    kind, synthetic = product_of(path)
    every, code = levels_of(path, kind), root_of(root, state, county)
    lengths = code_lengths(path, every, code)
    names = levels_below(code, lengths, every)
    found = {
        name: gather(path, kind, name, code, query, cells, progress=progress) for name in names if name != WHOLE_STATE
    }
    units = units_by_level(names, found, lengths)
    if units[names[0]].size != 1:
        _refuse_root(path, names[0], units[names[0]], code)
    tree, faults = planted(names, units, lambda level, unit: named_in(found, level, unit))
    if faults:
        raise ValueError(faults[0])
    asked = _asked(path, query, cells, found)
    return _filled(tree, kind, asked, found, state_totals(totals, path), synthetic)


def code_lengths(path: Path, levels: tuple[str, ...], root: str = "") -> dict[str, int]:
    """Number of characters of the geocodes of each level, by the first record in the partitions of a root."""
    found: dict[str, int] = {}
    for level in levels[1:] if root and levels[0] == US else levels:
        sources = (Source(folder(path, level, kind), level, kind, root) for kind in (MEASUREMENTS, CONSTRAINTS))
        codes = (source.first_geocode() for source in sources)
        if (code := next((one for one in codes if one is not None), None)) is not None:
            found[level] = len(code)
    return found


def gather(
    path: Path, product: Product, level: str, root: str, query: str | None, cells: Any = None,
    faults: list[str] | None = None, progress: bool = False,
) -> Level:  # fmt: skip
    """Records of a level: of one query, or the first cell of every one, and of the constraints that are exact."""
    sources = [
        Source(folder(path, level, kind), level, kind, "" if level == US else root)
        for kind in (MEASUREMENTS, CONSTRAINTS)
    ]
    told = f"{level} " * progress
    if query is None:
        measured, known = (collect(one, product, None, [0], faults, told) for one in sources)
    else:
        name = spelled(query, sources[0].query_names())
        measured = collect(sources[0], product, [name], cells, faults, told) if name else {}
        known = collect(sources[1], product, None, "all", faults, told, NOISY_TABLES)
    codes = [column.geocodes for column in (*measured.values(), *known.values())]
    units = np.unique(np.concatenate([np.zeros(0, dtype=np.str_), *codes]))
    made = Level(level, measured, known, units)
    sizes = np.char.str_len(units) if units.size else np.zeros(0, dtype=np.int64)
    if units.size and level != US and (odd := np.flatnonzero(sizes != np.bincount(sizes).argmax())).size:
        said = f"its geocode has {sizes[odd[0]]} characters, the others of level {level} {np.bincount(sizes).argmax()}"
        if faults is None:
            raise ValueError(f"{made.named(str(units[odd[0]]))}: {said}")
        faults.append(f"{made.named(str(units[odd[0]]))}: {said}")
        made = replace(made, units=np.delete(units, odd))
    return made


def units_by_level(names: tuple[str, ...], found: Mapping[str, Level], lengths: Mapping[str, int]) -> dict[str, Codes]:
    """Units of every level; where a level has no constraints to list them, those that its children lie in, too."""
    units: dict[str, Codes] = {}
    for name, below in zip(names[::-1], (None, *names[::-1]), strict=False):
        if name == WHOLE_STATE:
            units[name] = whole_states(units["State"])
            continue
        units[name] = found[name].units
        if below is not None and not found[name].known and name != US:
            above = units[below].astype(f"<U{lengths.get(name, 1)}")
            units[name] = np.unique(np.concatenate([units[name], above]))
        if name == US and not units[name].size:
            units[name] = np.array([US])
    return {name: in_order(codes) for name, codes in units.items()}


def named_in(found: Mapping[str, Level], level: str, code: str) -> str:
    """File, geocode and query of a unit."""
    return found[level].named(code) if level in found else f"geocode {code} of level {level}"


def _refuse_root(path: Path, level: str, units: Codes, root: str) -> None:
    if units.size == 0:
        raise ValueError(f"{path}: there is no unit {root!r} at level {level}" if root else f"{path}: no unit is there")
    raise ValueError(
        f"{path}: level {level} has {units.size} units, {units[0]}, {units[1]}, ...: name the one to read with root, "
        "state or county"
    )


def _asked(path: Path, query: str, cells: Any, found: Mapping[str, Level]) -> Column:
    """The query with its shape, words and cells, as the first level that has it; the same at all levels."""
    columns = [column for level in found.values() for column in level.measured.values() if column.shape is not None]
    if not columns:
        known = [
            column
            for level in found.values()
            for name, column in level.known.items()
            if spelled(query, [name]) and column.shape is not None
        ]
        if not known:
            names: set[str] = set()
            for name in found:
                names |= {
                    bare(one) for one in Source(folder(path, name, MEASUREMENTS), name, MEASUREMENTS).query_names()
                }
            raise ValueError(
                f"{path}: query {query!r} is not there; there are {', '.join(sorted(names)) or 'none'}"
                f"{meant(bare(query), sorted(names))}"
            )
        first = known[0]
        assert first.shape is not None
        chosen, single = flat_cells(cells, first.shape, first.query)
        return replace(first, cells=chosen, single=single)
    first = columns[0]
    for other in columns[1:]:
        one_shape(other, first)
    return first


def one_shape(column: Column, first: Column) -> None:
    """ValueError where a query's shape or axes are not those of its records at another level."""
    for what, mine, theirs in (("query_shape", column.shape, first.shape), ("axes", column.words, first.words)):
        if mine != theirs:
            where = f"{column.paths[0]}: query {column.query}"
            raise ValueError(f"{where} has {what} {mine}, which is {theirs} in {first.paths[0]}")


def _filled(
    tree: Tree, product: Product, asked: Column, found: Mapping[str, Level], states: Mapping[str, State],
    synthetic: bool,
) -> Measurements:  # fmt: skip
    """Answers in the rows of the tree, then what is exact."""
    shape = (len(tree), asked.cells.size)
    released, rho, high = np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.inf)
    low, published = np.zeros(shape), np.full(shape, np.nan)
    limiting: dict[str, list[str]] = {}
    idle: set[str] = set()
    notes: list[str] = []
    starts = np.searchsorted(tree.level, np.arange(len(tree.levels) + 1))
    last = tree.levels[-1]
    for name, start, stop in zip(tree.levels, starts, starts[1:], strict=False):
        here = slice(int(start), int(stop))
        units = tree.names[here]
        if name == WHOLE_STATE:
            continue
        level = found[name]
        for column in level.measured.values():
            place, kept = _places(units, column)
            released[here][place] = published[here][place] = column.values[kept]
            with np.errstate(divide="ignore"):
                rho[here][place] = np.where(np.isfinite(column.variance), 0.5 / column.variance, 0.0)[kept, None]
        if not level.measured:
            notes.append(f"{name}: {asked.query} is not measured at this level")
        rows = {one: _places(units, column) for one, column in level.known.items()}
        least, most, used, unused = limits(product, asked, level.known, units.size, rows, name == last)
        if (wrong := np.argwhere(least > most)).size:
            unit, cell = wrong[0]
            bounds = f"at least {least[unit, cell]:.0f} and at most {most[unit, cell]:.0f}"
            raise ValueError(f"{level.named(str(units[unit]))}: constraints leave no count possible, {bounds}")
        fixed = least == most
        released[here], rho[here] = np.where(fixed, least, released[here]), np.where(fixed, np.inf, rho[here])
        if name == last:
            low[here], high[here] = least, most
        for one in used:
            limiting.setdefault(one, []).append(name)
        idle |= set(unused)
    exact = [f"{one} ({', '.join(levels)})" for one, levels in limiting.items()]
    if idle := idle - set(limiting):
        notes.append(f"constraints that do not limit the cells read: {', '.join(sorted(idle))}")
    if "relgq" in product.axes:
        notes.append(f"{', '.join(NOISY_TABLES)} has noise in it, and is not used")
    for node in np.flatnonzero(tree.level == tree.levels.index(WHOLE_STATE)) if WHOLE_STATE in tree.levels else ():
        said = _state_total(tree, int(node), product, asked, released, rho, states)
        (exact if said.endswith("residents") else notes).extend([said] * bool(said))
    _raise_bounds(tree, rho, low, high)
    rho[np.isnan(released)] = 0.0
    low[rho == np.inf], high[rho == np.inf] = 0.0, np.inf
    assert asked.shape is not None
    made = Measurements(
        tree, released, rho, low, high, published, asked.query, asked.shape, asked.cells,
        tuple(label_of(product, asked, int(cell)) for cell in asked.cells), tuple(exact), tuple(notes), states,
        product.name, synthetic,
    )  # fmt: skip
    if not asked.single:
        return made
    names = ("released", "rho", "low", "high", "published")
    return replace(made, **{name: getattr(made, name)[:, 0] for name in names})


def _raise_bounds(tree: Tree, rho: Floats, low: Floats, high: Floats) -> None:
    """Bounds of only children, which were bypassed, go to the parents that were measured in their place."""
    limited = (low > 0) | np.isfinite(high)
    for unit in np.flatnonzero((limited & (rho == 0)).any(axis=1)):
        v = int(unit)
        while v > 0 and tree.children[tree.parent[v]] == 1 and not (rho[v] > 0).any():
            v = int(tree.parent[v])
        if v != unit and (rho[v] > 0).all():
            low[v], high[v], low[unit], high[unit] = low[unit].copy(), high[unit].copy(), 0.0, np.inf


def _places(units: Codes, column: Column) -> tuple[Integers, Integers]:
    """Places of the units among the sorted ones that records are of, and these records."""
    place = places_of(units, column.geocodes)
    kept = np.flatnonzero(place >= 0)
    return place[kept], kept


def _state_total(
    tree: Tree, node: int, product: Product, asked: Column, released: Floats, rho: Floats, states: Mapping[str, State]
) -> str:
    """Fix a whole state's count where the query has its population; what is to be said of it."""
    assert asked.shape is not None
    state = states.get(str(tree.names[node]))
    total = np.array([label_of(product, asked, int(cell)) == product.total for cell in asked.cells])
    if product.residents is False or not total.any():
        return ""
    if state is None:
        return f"{WHOLE_STATE}: no total of state {tree.names[node]} is known"
    parts = np.flatnonzero(tree.parent == node)
    precision = rho[parts][:, total]
    if (precision > 0).all():
        away = np.abs(released[parts][:, total].sum(axis=0) - state.population)
        if (away > FARTHEST * np.sqrt(0.5 * (1.0 / precision).sum(axis=0)) + 0.5).any():
            return (
                f"{WHOLE_STATE}: the total of {state.name} does not fit the noisy counts of its parts and is not used"
            )
    released[node, total], rho[node, total] = state.population, np.inf
    return f"{WHOLE_STATE}: {state.name} has {state.population:,} residents"
