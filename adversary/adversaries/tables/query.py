"""Published queries of a histogram: a map from the cells of the detailed table to the rows of an answer.

A histogram counts people in the cells of several axes. A query is a marginal of it: every axis is collapsed, held in
detail, or recoded into groups, so that each cell falls into exactly one row of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, as_array, check_whole

# Words of a Noisy Measurement File for an axis that a query sums over, or keeps in detail.
COLLAPSED, DETAILED = "*", "detailed"


@dataclass(frozen=True)
class Query:
    """One query of a histogram: the group of every category, axis by axis.

    Parameters
    ----------
    name : as published
    groups : one tuple per axis with the group 0, 1, ... of each of its categories; every group has a category

    >>> Query("by sex", ((0, 1), (0, 0, 0))).answer([[1, 0, 2], [0, 3, 1]]).tolist()
    [3.0, 4.0]
    """

    name: str
    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError(f"query {self.name!r} must have at least one axis")
        checked = []
        for axis, given in enumerate(self.groups):
            group = check_whole(f"groups of axis {axis} of query {self.name!r}", given, minimum=0)
            if group.ndim != 1 or not group.size or not np.array_equal(np.unique(group), np.arange(group.max() + 1)):
                raise ValueError(
                    f"groups of axis {axis} of query {self.name!r} must be 0, 1, ... without gaps, one per category, "
                    f"got {given}"
                )
            checked.append(tuple(group.tolist()))
        object.__setattr__(self, "groups", tuple(checked))

    @classmethod
    def of(
        cls,
        name: str,
        shape: Sequence[int],
        recodes: Sequence[str],
        groupings: Mapping[str, Sequence[int]] | None = None,
    ) -> Query:
        """A query from a Noisy Measurement File's description of each axis.

        Parameters
        ----------
        name : as published
        shape : number of categories on each axis of the histogram
        recodes : for each axis "*" (collapsed), "detailed", or the name of a grouping
        groupings : group of each category, by name of the grouping

        >>> Query.of("HHINSTLEVELS", (8, 2), ("hhinstlevels", "*"), {"hhinstlevels": (0, 1, 1, 1, 1, 2, 2, 2)}).shape
        (3, 1)
        """
        if len(recodes) != len(shape):
            raise ValueError(f"query {name!r} must have a recode for each of {len(shape)} axes, got {list(recodes)}")
        known = {key.lower(): group for key, group in (groupings or {}).items()}
        groups: list[tuple[int, ...]] = []
        for axis, (size, recode) in enumerate(zip(shape, recodes, strict=True)):
            if recode in (COLLAPSED, DETAILED):
                groups.append(tuple(range(size)) if recode == DETAILED else (0,) * size)
                continue
            if recode.lower() not in known:
                raise ValueError(f"query {name!r}: axis {axis} has the grouping {recode!r}, known are {sorted(known)}")
            groups.append(tuple(known[recode.lower()]))
            if len(groups[-1]) != size:
                raise ValueError(f"grouping {recode!r} has {len(groups[-1])} categories, axis {axis} has {size}")
        return cls(name, tuple(groups))

    @property
    def histogram_shape(self) -> tuple[int, ...]:
        """Number of categories on each axis of the histogram."""
        return tuple(len(group) for group in self.groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of groups on each axis: the shape of an answer."""
        return tuple(max(group) + 1 for group in self.groups)

    @property
    def size(self) -> int:
        """Number of rows of an answer."""
        return int(np.prod(self.shape))

    @cached_property
    def rows(self) -> Integers:
        """Row of the answer that counts each cell of the histogram, (cell,); both flat in C order."""
        index = np.indices(self.histogram_shape).reshape(len(self.groups), -1)
        grouped = [np.asarray(group)[i] for group, i in zip(self.groups, index, strict=True)]
        return np.ravel_multi_index(grouped, self.shape).astype(np.int64)

    def answer(self, histogram: ArrayLike) -> Floats:
        """The query's exact answer.

        Parameters
        ----------
        histogram : people, (..., *histogram_shape) or (..., cell) flat in C order

        Returns
        -------
        Sums in people, (..., row)
        """
        counts = as_array(histogram)
        axes = self.histogram_shape
        if counts.shape[-len(axes) :] == axes and len(axes) > 1:
            counts = counts.reshape(*counts.shape[: -len(axes)], -1)
        if not counts.ndim or counts.shape[-1] != self.rows.size:
            raise ValueError(f"histogram must have {self.rows.size} cells, {axes}, got shape {counts.shape}")
        total = np.zeros((self.size, *counts.shape[:-1]))
        np.add.at(total, self.rows, np.moveaxis(counts, -1, 0))
        return np.moveaxis(total, 0, -1)


def check_queries(queries: Sequence[Query], **given: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of the histogram of all queries; ValueError if their shapes differ, or two share a name.

    Every mapping in `given` must have one entry for each query.
    """
    if not queries:
        raise ValueError("queries must be at least one, got none")
    names = [query.name for query in queries]
    if len(set(names)) < len(names):
        raise ValueError(f"queries must have distinct names, got {names}")
    shapes = {query.histogram_shape for query in queries}
    if len(shapes) > 1:
        raise ValueError(f"queries must be about one histogram, got the shapes {sorted(shapes)}")
    for what, entries in given.items():
        if set(entries) != set(names):
            odd = sorted(set(entries) ^ set(names))
            raise ValueError(f"{what} must have one entry for each query, {names}; wrong or missing: {odd}")
    return queries[0].histogram_shape


def detailed_query(shape: Sequence[int]) -> Query:
    """The histogram itself as a query: a row for every cell.

    >>> detailed_query((2, 3)).size
    6
    """
    return Query.of(DETAILED, shape, [DETAILED] * len(shape))


def flat_cell(cell: Any, shape: tuple[int, ...], name: str = "cell") -> int:
    """Flat index of a cell.

    Parameters
    ----------
    cell : flat index, or one index per axis
    shape : of the histogram
    name : of the argument, for messages

    Returns
    -------
    Index in C order

    Raises
    ------
    ValueError, TypeError : a cell outside the histogram, or not a whole number

    >>> flat_cell((1, 0), (2, 3))
    3
    """
    size, index = int(np.prod(shape)), check_whole(name, cell)
    places = np.array([size]) if not index.ndim else np.array(shape)
    if index.ndim > 1 or np.size(index) != places.size or (index < 0).any() or (index >= places).any():
        raise ValueError(f"{name} must lie in a histogram of shape {shape}, got {cell}")
    return int(index) if not index.ndim else int(np.ravel_multi_index(tuple(index.tolist()), shape))


def pl94_persons() -> tuple[Query, ...]:
    """The eleven person queries of the 2020 redistricting release, of 8 x 2 x 2 x 63 cells.

    Axes: HHGQ (households, four kinds of institutional group quarters, three of noninstitutional ones), VOTINGAGE,
    HISPANIC, CENRACE. HHINSTLEVELS groups the first into these three.

    Returns
    -------
    Queries, named as in the allocation of the budget.

    References
    ----------
    Kifer et al. 2022, Tables 3 to 5.

    >>> [query.size for query in pl94_persons()]
    [1, 63, 2, 2, 3, 8, 126, 126, 4, 252, 2016]
    """
    axes = {"HHGQ": 8, "VOTINGAGE": 2, "HISPANIC": 2, "CENRACE": 63}
    shape = tuple(axes.values())
    names = ["TOTAL", "CENRACE", "HISPANIC", "VOTINGAGE", "HHINSTLEVELS", "HHGQ", "HISPANIC*CENRACE"]
    names += ["VOTINGAGE*CENRACE", "VOTINGAGE*HISPANIC", "VOTINGAGE*HISPANIC*CENRACE", "*".join(axes)]
    groupings = {"HHINSTLEVELS": (0, 1, 1, 1, 1, 2, 2, 2)}
    queries = []
    for name in names:
        axis_names = name.split("*")
        recodes = [DETAILED if axis in axis_names else COLLAPSED for axis in axes]
        queries.append(
            Query.of(name, shape, ["HHINSTLEVELS", *recodes[1:]] if name in groupings else recodes, groupings)
        )
    return tuple(queries)
