"""Axes of a population: places with those they lie in, every other column on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adversary.driver.columns.column_names import LEVELS, PLACES, is_named, level_of
from adversary.driver.columns.file_column import KeyColumn, joint_codes, lies_in

ROWS_OF_EACH = 3
"""Rows of a category, on average, from which two features of people are taken to nest; fewer may agree by chance."""


def place_names(
    keys: Sequence[str], places: Sequence[str], features: Sequence[str], wide: bool, is_text: Any
) -> list[str]:
    """Columns of places: declared, called so, or the words beside several columns of counts.

    Parameters
    ----------
    keys : columns that name cells
    places, features : declared
    wide : whether there are several columns of counts
    is_text : whether a column has words, by name
    """
    named = [name for name in keys if name in places or (is_named(name, PLACES) and name not in features)]
    if named or not wide:
        return named
    return [name for name in keys if name not in features and is_text(name)]


def nested(columns: Mapping[str, KeyColumn], places: Sequence[str]) -> list[list[str]]:
    """The columns of each axis, the finest first, places before features.

    Parameters
    ----------
    columns : by name
    places : names of those that are places
    """
    axes, left = [], list(columns)
    order = sorted(columns, key=lambda name: (name not in places, -columns[name].size, _level(name), left.index(name)))
    while order:
        finest = order.pop(0)
        axis = [finest]
        for name in list(order):
            if (name in places) == (finest in places) and _nests(columns, finest, name, finest in places):
                axis.append(name)
                order.remove(name)
        axes.append(axis)
    return sorted(axes, key=lambda axis: (axis[0] not in places, min(left.index(name) for name in axis)))


def _level(name: str) -> int:
    return level_of(name) if level_of(name) >= 0 else len(LEVELS)


def _nests(columns: Mapping[str, KeyColumn], inner: str, outer: str, are_places: bool) -> bool:
    """Whether one column lies in another: by its values, or as a block lies in a tract of whatever name."""
    one, other = columns[inner], columns[outer]
    if are_places:
        by_name = 0 <= level_of(inner) < level_of(outer)
        return lies_in(one, other) or by_name
    enough = len(one.codes) >= ROWS_OF_EACH * one.size
    return enough and 1 < other.size < one.size and lies_in(one, other)


def with_parents(columns: Mapping[str, KeyColumn], axis: Sequence[str]) -> dict[str, KeyColumn]:
    """Columns of an axis where a name that stands in several places above has theirs before it: "A / 1".

    Parameters
    ----------
    columns : by name
    axis : names, the finest first
    """
    made: dict[str, KeyColumn] = {}
    for i in reversed(range(len(axis))):
        own = columns[axis[i]]
        above = [made[name] for name in axis[i + 1 :]]
        if all(lies_in(own, other) for other in above):
            made[axis[i]] = own
            continue
        parent = next(other for other in above if not lies_in(own, other))
        code = joint_codes([own, parent], len(own.codes))
        first = np.unique(code, return_index=True)[1]
        pairs = zip(own.codes[first], parent.codes[first], strict=True)
        words = np.array([f"{parent.words[b]} / {own.words[a]}" for a, b in pairs], dtype=object)
        made[axis[i]] = KeyColumn(code, words, len(words))
    return {name: made[name] for name in axis}
