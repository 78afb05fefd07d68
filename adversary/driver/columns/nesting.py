"""Nesting of columns into axes of a population: places with the larger places they lie in, other columns alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adversary.driver.columns.column_names import LEVELS, PLACES, is_named, level_of, option
from adversary.driver.columns.file_column import KeyColumn, joint_codes, lies_in

# Nats of evidence from which two features of people are taken to nest: the chance that so many rows agree without it
# is e^-12, one in 160,000.
CHANCE = 12.0

# If at most this share of places lies in two larger ones, these are taken for errors of the file; if more, the columns
# are taken not to nest.
STRAY = 0.2


def place_names(
    keys: Sequence[str], places: Sequence[str], features: Sequence[str], wide: bool, is_text: Any
) -> list[str]:
    """Columns of places: those declared or named so, else the columns of words of a wide table.

    Parameters
    ----------
    keys : columns that name cells
    places, features : declared
    wide : whether there are several columns of counts
    is_text : whether a column has words, by name
    """
    # beside blocks or tracts, "group" is a group of blocks
    register = PLACES | LEVELS[1] if any(level_of(name) in (0, 2) for name in keys) else PLACES
    named = [name for name in keys if name in places or (is_named(name, register) and name not in features)]
    if named or not wide:
        return named
    return [name for name in keys if name not in features and is_text(name)]


def nested_axes(columns: Mapping[str, KeyColumn], places: Sequence[str]) -> list[list[str]]:
    """Names of the columns of each axis, the finest first; axes of places before those of features.

    Parameters
    ----------
    columns : by name
    places : names of those that are places
    """
    axes, names = [], list(columns)
    order = sorted(columns, key=lambda name: (name not in places, -columns[name].size, _level(name), names.index(name)))
    while order:
        finest = order.pop(0)
        axis = [finest]
        for name in list(order):
            if (name in places) == (finest in places) and _nests(columns, finest, name, finest in places):
                axis.append(name)
                order.remove(name)
        axes.append(axis)
    return sorted(axes, key=lambda axis: (axis[0] not in places, min(names.index(name) for name in axis)))


def _level(name: str) -> int:
    """Index of a name in `LEVELS`, or their number for a name that is in none."""
    return level_of(name) if level_of(name) >= 0 else len(LEVELS)


def _nests(columns: Mapping[str, KeyColumn], inner: str, outer: str, are_places: bool) -> bool:
    """True if `inner` lies in `outer`: by its values or, for places, by the levels they are named after."""
    one, other = columns[inner], columns[outer]
    if are_places:
        by_name = 0 <= level_of(inner) < level_of(outer)
        return lies_in(one, other) or by_name
    if not 1 < other.size < one.size or not lies_in(one, other):
        return False
    shares = np.bincount(other.codes) / len(other.codes)
    return bool((one.size - len(one.codes)) * np.log((shares**2).sum()) > CHANCE)


def check_strays(columns: Mapping[str, KeyColumn], places: Sequence[str], where: Callable[[int], str]) -> None:
    """ValueError for a place that lies in two larger ones, if all but a few lie in one.

    Parameters
    ----------
    columns : by name
    places : names of those that are places
    where : what messages call a row, by its place
    """
    for inner in places:
        for outer in places:
            one, other = columns[inner], columns[outer]
            if not other.size < one.size or 0 <= level_of(inner) < level_of(outer) or lies_in(one, other):
                continue
            first = np.unique(joint_codes([one, other], len(one.codes)), return_index=True)[1]
            has_several = np.bincount(one.codes[first], minlength=one.size) > 1
            if has_several.mean() > STRAY:
                continue
            first_row, second_row = np.sort(first[one.codes[first] == has_several.argmax()])[:2]
            places_above = [other.words[other.codes[row]] for row in (first_row, second_row)]
            raise ValueError(
                f"{where(int(second_row))}: {inner} {one.words[one.codes[first_row]]!r} must lie in one {outer}, got "
                f"{places_above[1]!r} and, in {where(int(first_row))}, {places_above[0]!r}: "
                f"correct it, or say that {outer} is a feature: {option('features', outer)}"
            )


def with_parents(columns: Mapping[str, KeyColumn], axis: Sequence[str]) -> dict[str, KeyColumn]:
    """Columns of an axis with unique names: one that occurs in several larger places is prefixed by theirs, "A / 1".

    Parameters
    ----------
    columns : by name
    axis : names, the finest first
    """
    renamed: dict[str, KeyColumn] = {}
    for i in reversed(range(len(axis))):
        own = columns[axis[i]]
        above = [renamed[name] for name in axis[i + 1 :]]
        if all(lies_in(own, other) for other in above):
            renamed[axis[i]] = own
            continue
        parent = next(other for other in above if not lies_in(own, other))
        code = joint_codes([own, parent], len(own.codes))
        first = np.unique(code, return_index=True)[1]
        pairs = zip(own.codes[first], parent.codes[first], strict=True)
        repeats = np.bincount(own.codes[first], minlength=own.size) > 1
        words = [f"{parent.words[b]} / {own.words[a]}" if repeats[a] else own.words[a] for a, b in pairs]
        renamed[axis[i]] = KeyColumn(code, np.array(words, dtype=object), len(words))
    return {name: renamed[name] for name in axis}
