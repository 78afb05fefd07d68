"""Published tables of one file, the adversary of a person in it, and the finest cells that the tables distinguish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from adversary._core import (
    Integers,
    as_array,
    check_non_negative,
    check_probability,
    check_whole,
    has_default_index,
    has_labels,
    instance_hint,
    one_number,
)
from adversary.adversaries.beliefs import Others, as_law, is_law
from adversary.adversaries.tables.people import Axis, Population
from adversary.adversaries.tables.query import Query
from adversary.privacy.mechanisms import Mechanism

KNOWS = ("cell", "everybody", "nobody")
"""Other people whose records an adversary knows: those in the target's finest cell, all, or none."""
REPEATS = ("fresh", "same")
"""Noise of a table that is published again: independent, or the same for the same cells, as with cell keys."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of counts by some features of people, and its noise.

    Parameters
    ----------
    by : names of its columns, each once; none for a total
    noise : added to every count of the table, independently
    name : name of the table; by default its columns
    releases : number of publications of the same people, >= 1
    repeat : "fresh" for independent noise in every release, "same" for equal noise in equal cells: repetitions then
        add no information

    Raises
    ------
    TypeError, ValueError : a column that is not a name or is repeated, noise that is not a Mechanism, releases below 1

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> PublishedTable(("district", "age"), DiscreteGaussian(2.0)).name
    'district x age'
    """

    by: tuple[str, ...]
    noise: Mechanism
    name: str = ""
    releases: int = 1
    repeat: str = "fresh"

    def __post_init__(self) -> None:
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        if not all(isinstance(one, str) and one for one in by):
            raise TypeError(f"by must be names of features, got {self.by!r}")
        if len(set(by)) < len(by):
            raise ValueError(f"by must name every feature once, got {', '.join(by)}")
        if not isinstance(self.noise, Mechanism):
            got = f"{self.noise!r}{instance_hint(self.noise)}"
            raise TypeError(f"noise of table {self.name or ' x '.join(by)!r} must be a Mechanism, got {got}")
        if self.repeat not in REPEATS:
            raise ValueError(f"repeat must be one of {', '.join(REPEATS)}, got {self.repeat!r}")
        releases = int(check_whole("releases", one_number("releases", self.releases), minimum=1))
        for name, value in (("by", by), ("name", self.name or " x ".join(by) or "total"), ("releases", releases)):
            object.__setattr__(self, name, value)

    @property
    def single_releases(self) -> Iterator[PublishedTable]:
        """The releases with independent noise, one table each."""
        for i in range(self.releases if self.repeat == "fresh" else 1):
            yield replace(self, name=f"{self.name}, release {i + 1}" if i else self.name, releases=1, repeat="fresh")


@dataclass(frozen=True, eq=False)
class TableAdversary:
    """An adversary of any person of a file: the prior, the known records, and the belief about other people.

    Parameters
    ----------
    prior : probability, before the release, that the person is in the file
    knows : "cell" (everybody else in the person's finest cell, but nobody in other cells), "everybody" else in the
        file, or "nobody"
    belief : about the number of others in a finest cell that is not known: None (every count from 0 upwards equally
        likely), a discrete distribution for all cells (frozen scipy.stats or PreliZ, or `Others` of a pmf), or the
        means of Poisson distributions, (*axes), such as last year's counts
    at_least : numbers of others whom the adversary knows to be in the cells, (*axes), such as the rest of the person's
        household; None for nobody

    Raises
    ------
    ValueError : a prior outside [0, 1], another word for `knows`, means below 0, labelled arrays
    TypeError : a belief of another kind

    >>> TableAdversary(0.1, "nobody").knows
    'nobody'
    """

    prior: float = 0.5
    knows: str = "cell"
    belief: Any = None
    at_least: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", float(check_probability("prior", one_number("prior", self.prior))))
        if self.knows not in KNOWS:
            raise ValueError(f"knows must be one of {', '.join(KNOWS)}, got {self.knows!r}")
        for name in ("belief", "at_least"):
            if has_labels(given := getattr(self, name)) and not has_default_index(given):
                raise ValueError(
                    f"{name} must be a plain array over the axes of the Population, which are paired by place: labels "
                    f"would not be read; give {name}.to_numpy() in the order of its axes"
                )
        belief = as_law(self.belief)
        if is_law(belief):
            belief = Others(belief)
        elif belief is not None and not isinstance(belief, Others):
            belief = as_array(check_non_negative("belief", belief))
        object.__setattr__(self, "belief", belief)
        if self.at_least is not None:
            object.__setattr__(self, "at_least", check_whole("at_least", self.at_least, minimum=0))


@dataclass(frozen=True)
class Joined:
    """Tables over their finest cells: categories that no table distinguishes are merged.

    Parameters
    ----------
    population : counts of people in these cells, (*axes)
    queries : map from cells to the rows of a table, one per release
    noises : noise of each release
    owner : place of the table of each release
    names : names of the tables
    summed : per axis, the merged category of each category of the file
    """

    population: Population
    queries: tuple[Query, ...]
    noises: tuple[Mechanism, ...]
    owner: tuple[int, ...]
    names: tuple[str, ...]
    summed: tuple[Integers, ...]

    @classmethod
    def of(cls, population: Population, tables: Sequence[PublishedTable]) -> Joined:
        """The tables of a file, with categories merged that no table distinguishes.

        Raises
        ------
        ValueError : no table, two tables of one name, or a column that is not in the file
        """
        names = [table.name for table in tables]
        if not names:
            raise ValueError("tables must be at least one, got none")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"tables must have different names, got {twice!r} twice: give one a name, or releases=2")
        whole = [population.table(table.by, table.name) for table in tables]
        seen = {column for table in tables for column in table.by}
        axes, summed, groups = [], [], []
        for a, axis in enumerate(population.axes):
            stacked = np.array([query.groups[a] for query in whole])
            _, first, atom = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
            order = np.argsort(np.argsort(first))
            first = np.sort(first)
            summed.append(order[atom.ravel()])
            groups.append(stacked[:, first])
            chosen = [i for i, column in enumerate(axis.columns) if column in seen]
            if chosen:
                axes.append(Axis(tuple(axis.columns[i] for i in chosen), axis.labels[first][:, chosen]))
        used_axes = [a for a, axis in enumerate(population.axes) if seen & set(axis.columns)]
        counts, most = (added(x, summed, used_axes) for x in (population.counts, np.asarray(population.most)))
        if not used_axes:
            axes, used_axes = [Axis(("all",), np.array([["all"]]))], [0]
            counts, most = (x.reshape(1) for x in (counts, most))
        finest = Population(tuple(axes), counts, most, population.understood)
        queries, noises, owner = [], [], []
        for i, table in enumerate(tables):
            for one in table.single_releases:
                queries.append(Query(one.name, tuple(tuple(groups[a][i].tolist()) for a in used_axes)))
                noises.append(one.noise)
                owner.append(i)
        return cls(finest, tuple(queries), tuple(noises), tuple(owner), tuple(names), tuple(summed))

    @property
    def size(self) -> int:
        """Number of finest cells."""
        return int(self.population.counts.size)

    @cached_property
    def counts(self) -> Integers:
        """People, (cell,)."""
        return self.population.counts.ravel()

    def over_cells(self, name: str, given: Any) -> Any:
        """Numbers over the file's axes, summed over the merged cells, (cell,)."""
        values = as_array(given)
        shape = tuple(len(one) for one in self.summed)
        if values.shape != shape:
            raise ValueError(f"{name} must have the shape {shape} of the file's axes, got {values.shape}")
        return added(values, self.summed, range(len(shape))).ravel()

    def cut(self, categories: Sequence[Sequence[int]], counts: Integers) -> Joined:
        """A part of the file: some categories of every axis, with counts (cell,) given for the whole."""
        axes = tuple(
            Axis(axis.columns, axis.labels[list(own)])
            for axis, own in zip(self.population.axes, categories, strict=True)
        )
        people = counts.reshape(self.population.counts.shape)[np.ix_(*categories)]
        queries = tuple(
            Query(
                query.name, tuple(_renumbered(group, own) for group, own in zip(query.groups, categories, strict=True))
            )
            for query in self.queries
        )
        summed = tuple(np.arange(len(own)) for own in categories)
        return replace(self, population=Population(axes, people), queries=queries, summed=summed)

    def sums(self, counts: Any) -> list[Any]:
        """Row totals of each query, (row,) each, for people (cell,)."""
        return [np.bincount(query.rows, counts, query.size) for query in self.queries]


def _renumbered(group: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    """Groups of chosen categories, numbered in the order of first appearance."""
    code: dict[int, int] = {}
    return tuple(code.setdefault(group[i], len(code)) for i in chosen)


def added(values: Any, places: Sequence[Any], used: Any) -> Any:
    """Numbers over categories, summed over the groups of each axis; an axis that is not in `used` is summed out."""
    for axis in reversed(range(values.ndim)):
        if axis not in used:
            values = values.sum(axis=axis)
            continue
        size = int(places[axis].max()) + 1
        if size < values.shape[axis]:
            total = np.zeros((size, *np.moveaxis(values, axis, 0).shape[1:]), dtype=values.dtype)
            np.add.at(total, places[axis], np.moveaxis(values, axis, 0))
            values = np.moveaxis(total, 0, axis)
    return values
