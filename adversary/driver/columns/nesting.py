"""Axes of a population: places with those they lie in, every other column on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import Integers
from adversary.driver.columns.column_names import LEVELS, PLACES, folded, is_named, level_of
from adversary.driver.columns.column_roles import labels_of

ROWS_OF_EACH = 3
"""Rows of a category, on average, from which two features of people are taken to nest; fewer may agree by chance."""


@dataclass(frozen=True)
class KeyColumn:
    """A column that names cells.

    Parameters
    ----------
    codes : the category of each row
    words : of each category, as they are shown
    spellings : how many ways of writing were in the file

    >>> import pandas as pd
    >>> KeyColumn.of(pd.Series(["North", "north ", "South"])).words.tolist()
    ['North', 'South']
    """

    codes: Integers
    words: Any
    spellings: int

    @classmethod
    def of(cls, column: Any) -> KeyColumn:
        """The categories of a column; names that differ in blanks, case or Unicode form are one."""
        import pandas as pd

        labels = pd.Series(labels_of(column))
        code, shown = pd.factorize(labels)
        same, _ = pd.factorize(pd.Series([folded(word) for word in shown], dtype=object))
        first = np.unique(same, return_index=True)[1]
        raw = column.nunique() if labels.size else 0
        return cls(same[code], np.asarray(shown, dtype=object)[first], int(max(raw, len(shown))))

    @property
    def size(self) -> int:
        """Number of categories."""
        return len(self.words)


def lies_in(inner: KeyColumn, outer: KeyColumn) -> bool:
    """True where every category of one column occurs with one of the other.

    Parameters
    ----------
    inner, outer : columns of the same rows

    >>> import pandas as pd
    >>> block, tract = (KeyColumn.of(pd.Series(one)) for one in (["1", "2", "3"], ["A", "A", "B"]))
    >>> lies_in(block, tract), lies_in(tract, block)
    (True, False)
    """
    pairs = inner.codes.astype(np.int64) * outer.size + outer.codes
    return len(np.unique(pairs)) == len(np.unique(inner.codes))


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
        pairs, code = np.unique(np.stack([own.codes, parent.codes]), axis=1, return_inverse=True)
        words = np.array([f"{parent.words[b]} / {own.words[a]}" for a, b in pairs.T], dtype=object)
        made[axis[i]] = KeyColumn(code.ravel(), words, len(words))
    return {name: made[name] for name in axis}
