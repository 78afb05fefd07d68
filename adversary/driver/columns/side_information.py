"""Side information of an adversary about a file: last year's counts, and households with known members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import Integers
from adversary.adversaries.tables import Axis, Population, PublishedTable
from adversary.driver.columns.column_names import bare, folded
from adversary.driver.columns.population_of_frame import population
from adversary.privacy.mechanisms import DiscreteGaussian

if TYPE_CHECKING:
    import pandas as pd


def counts_of_other_file(people: Population, other: Population, name: str = "the other file") -> Integers:
    """Counts of another file in the finest cells of this one, matched by the names of their categories.

    Parameters
    ----------
    people : this file
    other : of another year, or of other people, by the same columns
    name : of the other file, for messages

    Returns
    -------
    People of the other file, (*axes) of this one; 0 where it has no such category.

    Raises
    ------
    ValueError : the other file lacks a column, or none of its categories is one of this file's

    >>> sex = [Axis(("sex",), np.array([[one] for one in names])) for names in ("mf", "fd")]
    >>> counts_of_other_file(Population(sex[:1], np.array([3, 4])), Population(sex[1:], np.array([5, 6]))).tolist()
    [0, 5]
    """
    other_axes, categories = [], []
    theirs_by = [{*map(bare, one.columns)} for one in other.axes]
    for axis in people.axes:
        index = next((i for i, columns in enumerate(theirs_by) if {*map(bare, axis.columns)} <= columns), None)
        if index is None:
            needed, there = (", ".join(one.columns) for one in (axis, other))
            raise ValueError(f"{name}: must have the columns {needed}, as this file; there are {there}")
        other_axes.append(index)
        categories.append(_categories(axis, other.axes[index], name))
    rest = tuple(i for i in range(len(other.axes)) if i not in other_axes)
    counts = np.transpose(other.counts.sum(axis=rest), np.argsort(np.argsort(other_axes)))
    for a, (own, theirs) in enumerate(categories):
        moved = np.moveaxis(counts, a, 0)
        total = np.zeros((len(people.axes[a].labels), *moved.shape[1:]), dtype=np.int64)
        np.add.at(total, own, moved[theirs])
        counts = np.moveaxis(total, 0, a)
    return np.asarray(counts)


def _categories(axis: Axis, other: Axis, name: str) -> tuple[Integers, Integers]:
    """Indices of the categories that both axes have, (on this one, on the other); `name` is of the other file."""
    columns = [[*map(bare, other.columns)].index(bare(one)) for one in axis.columns]
    own = {tuple(map(folded, row)): i for i, row in enumerate(axis.labels)}
    keys = [tuple(folded(row[c]) for c in columns) for row in other.labels]
    pairs = [(own[key], i) for i, key in enumerate(keys) if key in own]
    if not pairs:
        raise ValueError(
            f"{name}: none of its categories of {', '.join(axis.columns)} is one of this file's, such as "
            f"{', '.join(map(str, axis.labels[0]))}"
        )
    first, second = np.array(pairs).T
    return first, second


def largest_household(
    frame: pd.DataFrame, tables: Sequence[PublishedTable], people: Population, column: str, **options: Any
) -> Integers:
    """Size minus one of the largest household in each finest cell: the others whom a member knows to be there.

    Parameters
    ----------
    frame : microdata, a row for each person
    tables : what is published
    people : the population of the frame under these tables
    column : names the households
    **options : of `population`

    Returns
    -------
    (*axes) of the population, `at_least` of a `TableAdversary`.

    Raises
    ------
    ValueError : no such column, or rows that are not people

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"area": list("AAAB"), "home": ["1", "1", "1", "2"]})
    >>> tables = [PublishedTable("area", DiscreteGaussian(1.0))]
    >>> largest_household(frame, tables, population(frame, tables, people=True), "home").tolist()
    [2, 0]
    """
    # any noise will do: `population` uses the tables' columns only
    noise = DiscreteGaussian(1.0)
    published = [*tables, PublishedTable((column,), noise, f"household {column}")]
    homes = population(frame, published, **options | {"people": True})
    home_axis = next(i for i, axis in enumerate(homes.axes) if any(bare(one) == bare(column) for one in axis.columns))
    axis = homes.axes[home_axis]
    other_columns = [one for one in axis.columns if bare(one) != bare(column)]
    counts = np.moveaxis(homes.counts, home_axis, 0)
    if not other_columns:
        largest = counts.max(axis=0)
        axes = tuple(one for i, one in enumerate(homes.axes) if i != home_axis)
    else:
        groups = np.array(axis.groups(other_columns))
        largest = np.zeros((groups.max() + 1, *counts.shape[1:]), dtype=np.int64)
        np.maximum.at(largest, groups, counts)
        _, first = np.unique(groups, return_index=True)
        columns_left = [axis.columns.index(one) for one in other_columns]
        axes = (
            Axis(tuple(other_columns), axis.labels[first][:, columns_left]),
            *(one for i, one in enumerate(homes.axes) if i != home_axis),
        )
    members = Population(axes, largest)
    return np.maximum(counts_of_other_file(people, members, f"households by {column}") - 1, 0)
