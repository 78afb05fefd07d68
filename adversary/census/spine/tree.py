"""A rooted tree of geographic units, each with one parent: the spine along which counts add up.

The parent of each unit is given as data; `adversary.census.nmf` derives it from the geocodes of published files. Units
are numbered breadth first, so the children of a unit are contiguous, a loop in increasing order visits parents before
children, and one in decreasing order children before parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Integers

Names = NDArray[np.str_]


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A rooted tree of units, numbered breadth first; the children of a unit are contiguous.

    Use `Tree.of`, which takes units in any order; this constructor is for arrays that are in order already.

    Parameters
    ----------
    names : (node,) geocodes
    level : (node,) index into `levels`; larger for a child than for its parent
    levels : names of the levels from the root down
    parent : (node,) index of the parent, -1 at the root; non-decreasing

    >>> tree = Tree.of({"g1": "t", "t": None, "b1": "g1", "b2": "g1"}, ("tract", "group", "block"))
    >>> tree
    Tree(1 tract, 1 group, 2 blocks)
    >>> tree.names.tolist(), tree.parent.tolist(), tree.leaves.tolist()
    (['t', 'g1', 'b1', 'b2'], [-1, 0, 1, 1], [2, 3])
    """

    names: Names
    level: Integers
    levels: tuple[str, ...]
    parent: Integers

    @classmethod
    def of(
        cls,
        parents: Mapping[str, str | None] | tuple[Sequence[str] | Names, Sequence[str | None] | Names],
        levels: Sequence[str] | None = None,
    ) -> Self:
        """Tree from a mapping of unit to parent, or from a pair (names, names of their parents), in any order.

        The root's parent is None or an empty string. A unit's level is its distance from the root; `levels` names the
        levels from the root down ("level 0", "level 1", ... by default). Siblings stay in the given order. A repeated
        unit, a parent that is not listed, several roots or a cycle raise a ValueError that names the unit.
        """
        names, parent_names = (
            (list(parents), list(parents.values())) if isinstance(parents, Mapping) else _name_lists(*parents)
        )
        if not names:
            raise ValueError("a tree needs at least one unit, got none")
        index = _index_of_names(names)
        parents_given = _parent_indices(names, parent_names, index)
        order, depth = _breadth_first(names, parents_given)
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        parent = np.where(parents_given[order] < 0, -1, place[parents_given[order]])
        return cls(np.asarray(names, dtype=np.str_)[order], depth, _level_names(levels, int(depth[-1])), parent)

    def __repr__(self) -> str:
        counts = np.bincount(self.level, minlength=len(self.levels))
        words = [f"{n:,} {name}{'s' * (n != 1)}" for n, name in zip(counts.tolist(), self.levels, strict=True) if n]
        return f"Tree({', '.join(words)})"

    def __len__(self) -> int:
        return int(self.parent.size)

    @cached_property
    def children(self) -> Integers:
        """(node,) number of children."""
        return np.bincount(self.parent[1:], minlength=len(self)).astype(np.int64)

    @cached_property
    def first_child(self) -> Integers:
        """(node,) index of the first child; for a leaf, of the next unit's first child."""
        return np.asarray(1 + np.cumsum(self.children) - self.children, dtype=np.int64)

    @cached_property
    def leaves(self) -> Integers:
        """(leaf,) indices of the units without children."""
        return np.flatnonzero(self.children == 0).astype(np.int64)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names.tolist())}

    def index(self, names: str | Iterable[str]) -> Any:
        """Index of one unit, or (name,) indices of several; ValueError naming a unit that is not in the tree."""
        try:
            if isinstance(names, str):
                return self._index[names]
            return np.array([self._index[name] for name in map(str, names)], dtype=np.int64)
        except KeyError as missing:
            raise ValueError(f"the tree has no unit {missing.args[0]!r}") from None

    def sums(self, leaves: ArrayLike) -> Any:
        """(node, ...) sums over the leaves of every unit, from values (leaf, ...) in the order of `leaves`."""
        values = np.asarray(leaves)
        total = np.zeros((len(self), *values.shape[1:]), dtype=values.dtype)
        total[self.leaves] = values
        for v in range(len(self) - 1, 0, -1):
            total[self.parent[v]] += total[v]
        return total

    def below(self, name: str) -> Integers:
        """(node,) indices, increasing, of a unit and all its descendants: the nodes of `subtree(name)`."""
        start = int(self.index(name))
        blocks = [np.array([start], dtype=np.int64)]
        while blocks[-1].size:
            # below one unit, a level is contiguous
            first, last = blocks[-1][0], blocks[-1][-1]
            children = np.arange(self.first_child[first], self.first_child[last] + self.children[last], dtype=np.int64)
            blocks.append(children)
        return np.concatenate(blocks)

    def subtree(self, name: str) -> Tree:
        """The tree of a unit and everything below it; its node i is node `below(name)[i]` of this tree."""
        return self._part(self.below(name))

    def above(self, depth: int) -> Tree:
        """Top of the tree: all units at distance at most `depth` from the root.

        Node i of it is node i of this tree.
        """
        return self._part(np.arange(int(np.searchsorted(self.depth, depth, side="right")), dtype=np.int64))

    @cached_property
    def depth(self) -> Integers:
        """(node,) distance from the root, non-decreasing."""
        depth = np.zeros(len(self), dtype=np.int64)
        start, stop, d = 0, 1, 0
        while stop > start:
            depth[start:stop] = d
            start, stop = stop, int(self.first_child[stop - 1] + self.children[stop - 1]) if stop < len(self) else stop
            d += 1
        return depth

    @cached_property
    def generations(self) -> list[slice]:
        """Slice of the nodes at each distance from the root."""
        ends = np.searchsorted(self.depth, np.arange(self.depth[-1] + 2))
        return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]

    def _part(self, nodes: Integers) -> Tree:
        """Tree of some units, given by increasing indices, the root first."""
        parent = np.searchsorted(nodes, self.parent[nodes])
        parent[0] = -1
        return Tree(self.names[nodes], self.level[nodes], self.levels, parent.astype(np.int64))


def in_order(names: Iterable[Any], values: Any, what: str, dim: str = "unit") -> Any:
    """Put named values in the order of `names`; values without names stay as they are.

    Parameters
    ----------
    names : names in the order of the result
    values : a mapping or pandas Series by name, an xarray object with labels on `dim`, or an array in order already
    what : name of the values in error messages
    dim : the labelled dim of an xarray object

    Returns
    -------
    Array or DataArray, with `dim` first

    Raises
    ------
    ValueError : a name that is missing, unknown or doubled, or an xarray object without `dim`

    >>> in_order(["a", "b"], {"b": 2, "a": 1}, "released").tolist()
    [1.0, 2.0]
    """
    if isinstance(values, Mapping):
        given, values = list(values), np.array(list(values.values()), dtype=np.float64)
    elif hasattr(values, "iloc") and list(values.index) != list(range(len(values))):  # a pandas Series with names
        given, values = list(values.index), values.to_numpy()
    elif not getattr(values, "dims", ()):
        return values
    elif dim not in values.dims:
        raise ValueError(f"{what} must have the dimension {dim!r}, got {list(values.dims)}")
    else:
        values = values.transpose(dim, ...)
        if dim not in values.coords:
            return values
        given = values.coords[dim].values.tolist()
    wanted = [str(name) for name in names]
    try:
        place = _index_of_names([str(name) for name in given])
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    missing = [name for name in wanted if name not in place]
    if missing:
        raise ValueError(f"{what} lacks {dim} {missing[0]!r} ({len(missing)} such)")
    if len(place) > len(wanted):
        raise ValueError(f"{what} names {dim} {next(iter(place.keys() - set(wanted)))!r}, which is not there")
    return values[np.array([place[name] for name in wanted], dtype=np.int64)]


def _name_lists(names: Any, parent_names: Any) -> tuple[list[str], list[Any]]:
    """Names and parents' names as lists of equal length."""
    names, parent_names = ([*a.tolist()] if isinstance(a, np.ndarray) else list(a) for a in (names, parent_names))
    if len(names) != len(parent_names):
        raise ValueError(f"every unit needs one parent: got {len(names)} units and {len(parent_names)} parents")
    return names, parent_names


def _index_of_names(names: list[str]) -> dict[str, int]:
    """Index by name; ValueError naming a repeated one."""
    index = {name: i for i, name in enumerate(names)}
    if len(index) < len(names):
        seen: set[str] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"unit {repeated!r} is listed twice")
    return index


def _parent_indices(names: list[str], parent_names: list[Any], index: dict[str, int]) -> Integers:
    """(node,) index of every unit's parent, -1 at the root."""
    parent = np.array([-1 if not name else index.get(name, -2) for name in parent_names], dtype=np.int64)
    if (orphans := np.flatnonzero(parent == -2)).size:
        name = names[orphans[0]]
        raise ValueError(
            f"unit {name!r} has parent {parent_names[orphans[0]]!r}, which is not listed ({orphans.size} such)"
        )
    roots = np.flatnonzero(parent == -1)
    if roots.size > 1:
        raise ValueError(f"a tree has one root, got {roots.size}: {names[roots[0]]!r}, {names[roots[1]]!r}, ...")
    return parent


def _breadth_first(names: list[str], parent: Integers) -> tuple[Integers, Integers]:
    """Breadth-first order of the units, and the level of each; ValueError if a unit is not below the root."""
    by_parent = np.argsort(parent, kind="stable")
    count = np.bincount(parent[parent >= 0], minlength=parent.size)
    start = np.cumsum(count) - count + int((parent < 0).sum())
    level = np.flatnonzero(parent < 0)
    blocks = []
    while level.size:
        blocks.append(level)
        children = count[level]
        within = np.arange(children.sum()) - np.repeat(np.cumsum(children) - children, children)
        level = by_parent[np.repeat(start[level], children) + within]
    order = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)
    if order.size < parent.size:
        reached = np.zeros(parent.size, dtype=bool)
        reached[order] = True
        raise ValueError(f"unit {names[int(np.flatnonzero(~reached)[0])]!r} hangs on no root: its parents form a cycle")
    return order.astype(np.int64), np.repeat(np.arange(len(blocks)), [b.size for b in blocks]).astype(np.int64)


def _level_names(levels: Sequence[str] | None, deepest: int) -> tuple[str, ...]:
    """Names of the levels, by default "level 0", "level 1", ..."""
    if levels is None:
        return tuple(f"level {i}" for i in range(deepest + 1))
    if len(levels) != deepest + 1:
        raise ValueError(f"the tree has {deepest + 1} levels, got names for {len(levels)}: {list(levels)}")
    return tuple(map(str, levels))
