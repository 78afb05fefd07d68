"""Counts of the people of a file by place and features: every published table is a sum of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Integers, check_whole
from adversary.adversaries.tables.query import Query


@dataclass(frozen=True)
class Axis:
    """Categories of one feature, or of places together with the larger places that contain them.

    Parameters
    ----------
    columns : names of the columns: one for a feature, several for places, the finest first
    labels : words, (category, column); each category once

    Raises
    ------
    ValueError : labels of a wrong shape, or a repeated category

    >>> Axis(("block", "tract"), np.array([["1", "A"], ["2", "A"], ["1", "B"]])).groups(["tract"])
    (0, 0, 1)
    """

    columns: tuple[str, ...]
    labels: NDArray[Any]

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels, dtype=object)
        if labels.ndim != 2 or labels.shape[1] != len(self.columns) or not len(labels):
            raise ValueError(f"labels must be (category, {len(self.columns)}), got the shape {labels.shape}")
        if len({*map(tuple, labels)}) < len(labels):
            raise ValueError(f"categories of {' and '.join(self.columns)} must each stand once")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "labels", labels)

    def groups(self, by: Sequence[str]) -> tuple[int, ...]:
        """The group of every category by these columns only, numbered in the order of first appearance."""
        chosen = [i for i, name in enumerate(self.columns) if name in by]
        code: dict[tuple[Any, ...], int] = {}
        return tuple(code.setdefault(tuple(row[chosen]), len(code)) for row in self.labels)


@dataclass(frozen=True)
class Population:
    """Counts of people in every finest cell of a file.

    Parameters
    ----------
    axes : places and features; every column is on one axis
    counts : people, (*axes); for a suppressed cell the smallest possible count
    most : largest possible counts, (*axes); equal to `counts` unless cells are suppressed
    understood : sentences that describe how the file was read, at most six

    Raises
    ------
    ValueError : a column on two axes, counts of another shape or below 0, or `most` below them

    >>> sex = Axis(("sex",), np.array([["m"], ["f"]]))
    >>> place = Axis(("block", "tract"), np.array([["1", "A"], ["2", "A"]]))
    >>> people = Population((place, sex), np.array([[1, 0], [4, 2]]))
    >>> people.table(["tract", "sex"]).answer(people.counts).tolist(), people.label((1, 0))
    ([5.0, 2.0], {'block': '2', 'tract': 'A', 'sex': 'm'})
    """

    axes: tuple[Axis, ...]
    counts: Integers
    most: Integers | None = None
    understood: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        axes, shape = tuple(self.axes), tuple(len(axis.labels) for axis in self.axes)
        counts = check_whole("counts", self.counts, minimum=0)
        most = counts if self.most is None else check_whole("most", self.most, minimum=0)
        if counts.shape != shape or most.shape != shape:
            raise ValueError(f"counts must have the shape {shape} of the axes, got {counts.shape} and {most.shape}")
        if (most < counts).any():
            raise ValueError("most must not be below counts")
        names = [name for axis in axes for name in axis.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"every column must be on one axis, got {', '.join(names)}")
        for name, value in (("axes", axes), ("counts", counts), ("most", most), ("understood", (*self.understood,))):
            object.__setattr__(self, name, value)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, axis by axis."""
        return tuple(name for axis in self.axes for name in axis.columns)

    @cached_property
    def suppressed(self) -> NDArray[np.bool_]:
        """True for suppressed cells, whose count is not in the file, (*axes)."""
        return np.asarray(np.asarray(self.most) > self.counts)

    def table(self, by: Sequence[str], name: str = "") -> Query:
        """The table by these columns, as a map from the finest cells to its cells."""
        if unknown := [one for one in by if one not in self.columns]:
            raise ValueError(f"table {name or ' x '.join(by)!r}: no column {unknown[0]!r}; there are {self.columns}")
        return Query(name or " x ".join(by) or "total", tuple(axis.groups(by) for axis in self.axes))

    def label(self, cell: Sequence[int]) -> dict[str, str]:
        """The words of a finest cell, by column."""
        words = [str(word) for axis, i in zip(self.axes, cell, strict=True) for word in axis.labels[i]]
        return dict(zip(self.columns, words, strict=True))
