"""Roles of columns: which name a cell, which hold its counts, which are left out, and what is refused.

A file is microdata (a row for each person, no counts), long (a row for each cell and one column of counts) or wide
(several columns of counts). Names suggest a role, values decide: a column of counts is needed by nobody to tell two
rows apart. What could be read in two ways is refused with the option that settles it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adversary._core import join_words
from adversary.driver.columns.column_names import (
    CODES,
    COUNTS,
    ERRORS,
    FEATURES,
    PERIODS,
    PLACES,
    bare,
    folded,
    is_named,
    option,
    tidied,
    words_of,
)
from adversary.driver.columns.text_numbers import NumberColumn, decimal_marks, first_words, read_numbers

LARGE = 1000
"""A column with one number of this size in every row holds no counts."""
LONG_CODE = 10
"""Digits of a code: no count of people has as many."""
NHGIS = "GISJOIN"
"""The column of places of a file of NHGIS, whose columns of counts are a table's code and three digits."""
_NHGIS_COUNT = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9]*E?\d{3}")


@dataclass(frozen=True)
class Declared:
    """Roles that the tables or the caller name.

    Parameters
    ----------
    named : columns that tables name
    places, features, counts : columns of these roles
    people : True where each row is a person, False where it is a cell, None where the file decides
    leave_out : columns
    certain : columns of counts against which their names or values speak
    decimal : the file's decimal mark

    >>> Declared(places=("block",)).keys
    {'block'}
    """

    named: Collection[str] = ()
    places: Sequence[str] = ()
    features: Sequence[str] = ()
    counts: Sequence[str] = ()
    people: bool | None = None
    leave_out: Collection[str] = ()
    certain: Collection[str] = ()
    decimal: str | None = None

    @property
    def keys(self) -> set[str]:
        """Columns that name cells for certain."""
        return {*self.named, *self.places, *self.features}


@dataclass
class Roles:
    """Columns by role.

    Parameters
    ----------
    keys : columns that name cells
    counts : columns of counts; none where each row is a person
    numbers : the counts, by column
    left_out : why, by column
    """

    keys: list[str]
    counts: list[str]
    numbers: dict[str, NumberColumn]
    left_out: dict[str, str] = field(default_factory=dict)


Where = Callable[[int], str]


def assign_roles(columns: Mapping[str, Any], declared: Declared, where: Where, separator: str = ",") -> Roles:
    """The roles of a table's columns.

    Parameters
    ----------
    columns : series by name
    declared : what is known of them
    where : what messages call a row, by its place
    separator : of the file's columns

    Raises
    ------
    ValueError : a column of counts that is none, numbers that can be read in two ways, or a table that can
    """
    roles = Roles([], [], {})
    candidates = _sorted_out(columns, declared, where, separator, roles)
    if declared.counts:
        spare = [name for name in candidates if name not in declared.counts]
        if duplicate(columns, roles.keys) is not None and duplicate(columns, roles.keys + spare) is None:
            roles.keys += spare
        else:
            roles.left_out |= dict.fromkeys(spare, "numbers, and not among the counts")
        roles.counts = list(declared.counts)
    elif declared.people:
        roles.keys += candidates
    else:
        roles.counts = _counts_among(columns, candidates, declared, where, roles)
    if roles.counts:
        _check_counts(columns, declared, where, roles)
    else:
        _check_people(columns, declared, roles)
    return roles


def labels_of(column: Any) -> Any:
    """The entries of a column as words, blanks as "".

    Parameters
    ----------
    column : a series of any type
    """
    import pandas as pd

    codes, unique = pd.factorize(column)
    words = [tidied(int(one) if isinstance(one, float) and one % 1.0 == 0.0 else one) for one in unique]
    return np.array([*words, ""], dtype=object)[codes]


def duplicate(columns: Mapping[str, Any], keys: Sequence[str]) -> tuple[int, int] | None:
    """The first row that names the cell of an earlier one, and the earlier one; None where there is none.

    Parameters
    ----------
    columns : series by name
    keys : columns that name cells; without any all rows are of one cell
    """
    import pandas as pd

    size = len(next(iter(columns.values())))
    if not keys:
        return (0, 1) if size > 1 else None
    table = pd.DataFrame(
        {i: pd.factorize(pd.Series(labels_of(columns[one])).map(folded))[0] for i, one in enumerate(keys)}
    )
    again = np.flatnonzero(table.duplicated().to_numpy())
    if not len(again):
        return None
    same = (table == table.iloc[again[0]]).all(axis=1).to_numpy()
    return int(np.flatnonzero(same)[0]), int(again[0])


def _sorted_out(
    columns: Mapping[str, Any], declared: Declared, where: Where, separator: str, roles: Roles
) -> list[str]:
    """Columns that may hold counts; those that name cells or are left out go to the roles."""
    text = {name: one for name, one in columns.items() if name not in declared.keys and not _typed(one)}
    marks = {mark for one in text.values() for mark in decimal_marks(one.fillna("").unique())}
    decimal = declared.decimal or (marks.pop() if len(marks) == 1 else None)
    candidates = []
    for name, column in columns.items():
        if name in declared.leave_out:
            roles.left_out[name] = "as you say"
            continue
        if name in declared.keys:
            roles.keys.append(name)
            continue
        wanted = name in declared.counts or name in declared.certain
        found = read_numbers(column, decimal, separator)
        if found is None:
            row, share = first_words(column.fillna("").tolist()) if not _typed(column) else (0, 0.0)
            entry = column.iloc[max(row, 0)]
            if wanted or share > 0.5:
                remedy = f", or name it as a feature: {option('features', name)}" if not wanted else ""
                raise ValueError(
                    f"{where(max(row, 0))}: column {name!r}: must be a whole number >= 0, got {entry!r}: "
                    f"correct it{remedy}"
                )
            if not labels_of(column).astype(bool).any():
                roles.left_out[name] = "empty"
            else:
                roles.keys.append(name)
        elif found.unclear and (wanted or not declared.counts):
            raise ValueError(
                f"column {name!r}: {found.unclear!r} can be read with a decimal mark or with thousands: say which mark "
                f"is the decimal one, {option('decimal', '.')} or {option('decimal', ',')}"
            )
        elif found.decimal and wanted:
            raise ValueError(f"column {name!r}: must be whole numbers >= 0, got {found.decimal!r}: these are no counts")
        elif found.decimal or found.unclear:
            roles.left_out[name] = f"decimals such as {found.decimal or found.unclear}"
        elif not wanted and is_named(name, ERRORS):
            roles.left_out[name] = "errors of estimates"
        elif not wanted and (is_named(name, PLACES) or is_named(name, FEATURES) or _is_long_code(found)):
            roles.keys.append(name)
        else:
            roles.numbers[name] = found
            candidates.append(name)
    return candidates


def _typed(column: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype))


def _is_long_code(found: NumberColumn) -> bool:
    return bool(found.least.size and found.least.min() >= 10 ** (LONG_CODE - 1))


def _counts_among(
    columns: Mapping[str, Any], candidates: list[str], declared: Declared, where: Where, roles: Roles
) -> list[str]:
    """The columns of counts; none where each row is a person."""
    _leave_out_numbering(columns, candidates, declared, roles)
    if NHGIS in columns:
        coded = [name for name in candidates if _NHGIS_COUNT.fullmatch(name)]
        roles.left_out |= {name: "not a count of NHGIS" for name in candidates if name not in coded}
        return coded
    doubtful = [name for name in candidates if {*words_of(name)} & CODES and name not in declared.certain]
    counts = [name for name in candidates if name not in doubtful]
    if not counts:
        roles.keys += doubtful
        return []
    named = [name for name in counts if is_named(name, COUNTS)]
    if duplicate(columns, roles.keys) is None:
        if len(counts) == len(named) == 1:
            roles.left_out |= dict.fromkeys(doubtful, "not needed to tell rows apart")
        elif doubtful:
            _refuse_code(doubtful[0], roles.numbers[doubtful[0]])
        return counts
    others = [name for name in candidates if name not in named]
    if len(named) == 1:
        roles.keys += others
        return named
    if declared.people is False:
        return counts
    pair = duplicate(columns, roles.keys) or (0, 1)
    raise ValueError(
        f"rows can be people or cells: {where(pair[0])} and {where(pair[1])} agree in "
        f"{join_words(roles.keys) or 'all columns of words'}, and {join_words(counts)} may be counts or features: say "
        f"--people where each row is a person, or name the counts, such as {option('counts', counts[0])}"
    )


def _leave_out_numbering(columns: Mapping[str, Any], candidates: list[str], declared: Declared, roles: Roles) -> None:
    """Columns that number the rows, and names of single rows beside other columns, are left out."""
    for name in list(candidates):
        least = roles.numbers[name].least
        steps = len(least) > 2 and least[0] in (0, 1) and bool((np.diff(least) == 1).all())
        if (
            steps
            and name not in declared.certain
            and (not bare(name) or {*words_of(name)} & {*CODES, "column", "unnamed"})
        ):
            candidates.remove(name)
            roles.left_out[name] = "numbers of rows"
    for name in list(roles.keys):
        single = {*words_of(name)} & {"id", "uid", "person", "name", "key"} and not is_named(name, PLACES)
        if name in declared.keys or not single or len(roles.keys) + len(candidates) < 2:
            continue
        rest = [one for one in roles.keys if one != name]
        if rest and duplicate(columns, [name]) is None:
            roles.keys.remove(name)
            roles.left_out[name] = "another value in every row"


def _refuse_code(name: str, found: NumberColumn) -> None:
    raise ValueError(
        f"column {name!r} is named as a year or a code and holds whole numbers such as {found.least.max()}: leave it "
        f"out, {option('leave_out', name)}; name it, {option('places', name)} or {option('features', name)}; or, if it "
        f"holds counts of people, {option('yes_these_are_counts', name)}"
    )


def _check_counts(columns: Mapping[str, Any], declared: Declared, where: Where, roles: Roles) -> None:
    """ValueError for counts below 0, blanks in names, cells that occur twice, and numbers that are no counts."""
    for name in roles.counts:
        least = roles.numbers[name].least
        if (least < 0).any():
            row = int(np.flatnonzero(least < 0)[0])
            raise ValueError(
                f"{where(row)}: column {name!r}: must be a whole number >= 0, got {columns[name].iloc[row]!r}: "
                f"leave the column out, {option('leave_out', name)}, if it holds no counts"
            )
    for name in roles.keys:
        blank = np.flatnonzero(labels_of(columns[name]) == "")
        if len(blank):
            raise ValueError(
                f"{where(int(blank[0]))}: column {name!r}: must have a name, got nothing: fill it in, or leave the "
                f"column out, {option('leave_out', name)}"
            )
    pair = duplicate(columns, roles.keys)
    if pair is not None:
        cell = join_words([f"{name} {labels_of(columns[name])[pair[1]]!r}" for name in roles.keys]) or "no name"
        raise ValueError(
            f"{where(pair[1])}: must be another cell than {where(pair[0])}, got {cell} again: correct one of them, "
            "or say --people where each row is a person"
        )
    for name in roles.counts:
        if name not in declared.certain and name not in declared.counts and len(roles.counts) > 1:
            _check_constant(columns, name, roles)


def _check_constant(columns: Mapping[str, Any], name: str, roles: Roles) -> None:
    """ValueError for a column with one large number, or one number for each place of several rows."""
    import pandas as pd

    counts = roles.numbers[name].least
    if len(counts) > 1 and counts.min() == counts.max() >= LARGE:
        raise ValueError(
            f"column {name!r} is {counts[0]} in every row, as a year or a code is: leave it out, "
            f"{option('leave_out', name)}, or, if it holds counts of people, {option('yes_these_are_counts', name)}"
        )
    if counts.min() == counts.max() or len(counts) < 4:
        return
    for place in roles.keys:
        codes = pd.factorize(labels_of(columns[place]))[0]
        rows = np.bincount(codes)
        if len(rows) > 1 and rows.min() > 1 and _depends_on(counts, codes):
            raise ValueError(
                f"column {name!r} is the same in all rows of each {place}, as a code of {place} is: leave it out, "
                f"{option('leave_out', name)}, or, if it holds counts of people, {option('yes_these_are_counts', name)}"
            )


def _depends_on(values: Any, codes: Any) -> bool:
    """True where each code has one value."""
    return len(np.unique(np.stack([codes, values]), axis=1).T) == len(np.unique(codes))


def _check_people(columns: Mapping[str, Any], declared: Declared, roles: Roles) -> None:
    """ValueError where rows are hardly people, each with a name of its own and no column of counts."""
    size = len(next(iter(columns.values())))
    for name in [one for one in roles.keys if one not in declared.keys]:
        if duplicate(columns, [name]) is not None or size < 2:
            continue
        if {*words_of(name)} & {*CODES, "name", "person"} and len(roles.keys) > 1:
            roles.keys.remove(name)
            roles.left_out[name] = "another value in every row"
        elif not _typed(columns[name]) and not declared.people and read_numbers(columns[name]) is None:
            raise ValueError(
                f"no column of counts is there, and column {name!r} has another value in every row: say --people where "
                f"each row is a person, {option('leave_out', name)}, or name the counts, --counts COLUMN"
            )


def check_periods(columns: Mapping[str, Any], declared: Declared, roles: Roles) -> None:
    """ValueError for a file of several periods, in which people stand several times, unless a table names them.

    Parameters
    ----------
    columns : series by name
    declared : what is known of them
    roles : of the columns
    """
    for name in roles.keys:
        values = list(dict.fromkeys(labels_of(columns[name])))
        if bare(name) in PERIODS and name not in declared.keys and len(values) > 1:
            raise ValueError(
                f"column {name!r} has {len(values)} values, so that people may stand in the file several times: "
                f"leave all but one out, {option('leave_out', f'{name}={values[0]}')}, or name it, "
                f"{option('features', name)}"
            )
