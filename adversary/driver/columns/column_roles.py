"""Roles of columns: those that name cells, those of counts, those left out; ambiguous columns are refused.

A file is microdata (a row for each person, no counts), long (a row for each cell and one column of counts) or wide
(several columns of counts). Names suggest a role, values decide: rows differ in the columns that name cells, without
those of counts. A column that could have two roles is refused with the option that settles it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from adversary._core import join_words
from adversary.driver.columns.column_names import (
    CODES,
    COUNTS,
    ERRORS,
    FEATURES,
    NHGIS,
    PLACES,
    SHARES,
    WEIGHTS,
    bare,
    is_named,
    option,
    words_of,
)
from adversary.driver.columns.file_column import FileColumn, duplicate, joint_codes, lies_in
from adversary.driver.columns.text_numbers import NumberColumn, decimal_marks, first_words

# Numbers of so many digits are codes: no count of people is as large.
LONG_CODE = 10

# A column of counts of NHGIS: the code of a table and three digits.
_NHGIS_COUNT = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9]*E?\d{3}")


@dataclass(frozen=True)
class Declared:
    """Roles that tables or arguments declare.

    Parameters
    ----------
    named : columns that tables name
    places, features, counts : columns of these roles
    people : True if each row is a person, False if it is a cell, None if the file decides
    certain : columns confirmed as counts although their names or values speak against it
    decimal : the file's decimal mark, None if entries decide

    >>> Declared(places=("block",)).keys
    {'block'}
    """

    named: Collection[str] = ()
    places: Sequence[str] = ()
    features: Sequence[str] = ()
    counts: Sequence[str] = ()
    people: bool | None = None
    certain: Collection[str] = ()
    decimal: str | None = None

    @property
    def keys(self) -> set[str]:
        """Columns that are declared to name cells."""
        return {*self.named, *self.places, *self.features}


@dataclass
class Roles:
    """Columns by role.

    Parameters
    ----------
    keys : columns that name cells
    counts : columns of counts; none if each row is a person
    numbers : numbers of the columns that may be counts, by column
    left_out : reasons, by column
    """

    keys: list[str]
    counts: list[str]
    numbers: dict[str, NumberColumn]
    left_out: dict[str, str] = field(default_factory=dict)


# Function from the index of a row to its name in messages, such as "row 3".
Where = Callable[[int], str]


def assign_roles(columns: Mapping[str, FileColumn], declared: Declared, where: Where, separator: str = ",") -> Roles:
    """Roles of a table's columns.

    Parameters
    ----------
    columns : by name
    declared : declared roles
    where : name of a row in messages, by its index
    separator : of the file's columns

    Raises
    ------
    ValueError : a declared column of counts that holds none, ambiguous numbers, or an ambiguous layout
    """
    roles = Roles([], [], {})
    candidates = _count_candidates(columns, declared, where, separator, roles)
    if declared.counts:
        other_candidates = [name for name in candidates if name not in declared.counts]
        if duplicate(columns, roles.keys) is not None and duplicate(columns, roles.keys + other_candidates) is None:
            roles.keys += other_candidates
        else:
            roles.left_out |= dict.fromkeys(other_candidates, "numbers, and not among the counts")
        roles.counts = list(declared.counts)
    elif declared.people:
        if called := [name for name in candidates if is_named(name, COUNTS)]:
            raise ValueError(
                f"column {called[0]!r} is called a count, so that a row may be a cell and not a person: leave out "
                f"--people; or leave the column out, {option('leave_out', called[0])}; or name it as a feature, "
                f"{option('features', called[0])}"
            )
        roles.keys += candidates
    else:
        roles.counts = _counts_among(columns, candidates, declared, where, roles)
    return roles


def _count_candidates(
    columns: Mapping[str, FileColumn], declared: Declared, where: Where, separator: str, roles: Roles
) -> list[str]:
    """Names of the columns that may hold counts; the other columns are added to `roles` as keys or left out."""
    text = [one.words for name, one in columns.items() if name not in declared.keys and not one.is_typed]
    marks = {mark for entries in text for mark in decimal_marks(entries)}
    decimal = declared.decimal or (marks.pop() if len(marks) == 1 else None)
    candidates = []
    for name, column in columns.items():
        if name in declared.keys:
            roles.keys.append(name)
            continue
        whole = column.numbers(decimal, separator)
        wanted = name in declared.counts or name in declared.certain
        if wanted:
            _check_wanted(name, column, whole, where)
        if whole is None:
            if column.is_empty:
                roles.left_out[name] = "empty"
            else:
                _check_words(name, column, where)
                roles.keys.append(name)
        elif not wanted and (reason := _reason_against(name, whole, columns, declared)):
            roles.left_out[name] = reason
        elif not wanted and (is_named(name, PLACES) or is_named(name, FEATURES) or _is_long_code(whole)):
            roles.keys.append(name)
        else:
            roles.numbers[name] = whole
            candidates.append(name)
    return candidates


def _check_wanted(name: str, column: FileColumn, whole: NumberColumn | None, where: Where) -> None:
    """ValueError for a declared column of counts that holds something else."""
    if whole is None:
        row = column.rows_of(column.words[max(first_words(column.words)[0], 0)])[0]
        raise ValueError(
            f"{where(int(row))}: column {name!r}: must be a whole number >= 0, got {column.entry(int(row))!r}: "
            "correct it"
        )
    if whole.unclear:
        _refuse_unclear(name, whole)
    if whole.decimal:
        raise ValueError(f"column {name!r}: must be whole numbers >= 0, got {whole.decimal!r}: these are no counts")


def _check_words(name: str, column: FileColumn, where: Where) -> None:
    """ValueError for a column of numbers with a word among them, which would be a name of a cell."""
    if column.is_typed or is_named(name, PLACES) or is_named(name, FEATURES):
        return
    kinds = np.array([first_words([one]) for one in column.words])
    share = kinds[column.key.codes, 1].mean()
    words = column.words[kinds[:, 0] == 0]
    if (share <= 0.5 and not is_named(name, COUNTS)) or all(one.isdigit() for one in words):  # codes such as 01001
        return
    row = int(column.rows_of(words[0])[0])
    raise ValueError(
        f"{where(row)}: column {name!r}: must be a whole number >= 0, got {column.entry(row)!r}: correct it, or name "
        f"it as a feature: {option('features', name)}"
    )


def _reason_against(name: str, whole: NumberColumn, columns: Mapping[str, FileColumn], declared: Declared) -> str:
    """Reason to leave a column of numbers out, "" for none; ValueError if its role is ambiguous."""
    if whole.unclear and not declared.counts:
        _refuse_unclear(name, whole)
    if is_named(name, WEIGHTS) and not declared.counts:
        raise ValueError(
            f"column {name!r} may hold weights of a survey, or a feature: where a row stands for so many people, "
            f"{option('counts', name)}; where it is a feature, {option('features', name)}; else "
            f"{option('leave_out', name)}"
        )
    if (whole.decimal or whole.unclear) and is_named(name, COUNTS) and not declared.counts:
        raise ValueError(
            f"column {name!r}: must be whole numbers >= 0, got {whole.decimal!r}: counts of people are no decimals; "
            f"leave the column out, {option('leave_out', name)}"
        )
    if whole.decimal or whole.unclear:
        return f"decimals such as {whole.decimal or whole.unclear}"
    estimate_names = [name[:-1] + "E" if name.endswith("M") else "", re.sub(r"M(\d{3})$", r"E\1", name)]
    if is_named(name, ERRORS) or any(one != name and one in columns for one in estimate_names):
        return "errors or bases of estimates"
    return "no counts of people" if ({*words_of(name)} & SHARES or "%" in name) and not declared.counts else ""


def _refuse_unclear(name: str, whole: NumberColumn) -> None:
    """ValueError for numbers such as 1.204 whose decimal mark is ambiguous."""
    raise ValueError(
        f"column {name!r}: {whole.unclear!r} can be read with a decimal mark or with thousands: say which mark is the "
        f"decimal one, {option('decimal', '.')} or {option('decimal', ',')}"
    )


def _is_long_code(whole: NumberColumn) -> bool:
    """True if all numbers have at least `LONG_CODE` digits."""
    return bool(whole.least.size and whole.least.min() >= 10 ** (LONG_CODE - 1))


def _counts_among(
    columns: Mapping[str, FileColumn], candidates: list[str], declared: Declared, where: Where, roles: Roles
) -> list[str]:
    """Columns of counts among the candidates, none if each row is a person; the others are added to `roles`."""
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
        if len(named) == 1 < len(counts):
            others = [name for name in counts if name not in named]
            raise ValueError(
                f"column {named[0]!r} is called a count, and {join_words(others)} may hold counts too: name the "
                f"columns of counts, {option('counts', named[0])}"
            )
        if len(named) > 1:
            raise ValueError(
                f"columns {join_words([repr(one) for one in named])} are all called counts, and people may be in "
                f"several of them: name the one of the people who are published, {option('counts', named[0])}"
            )
        if not named:
            _refuse_single_rows(columns, counts, declared, roles)
            _refuse_sparse_rows(columns, counts, declared, roles)
        if named and len(counts) == 1:
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


def _refuse_single_rows(columns: Mapping[str, FileColumn], counts: list[str], declared: Declared, roles: Roles) -> None:
    """ValueError if rows differ only by a column with another value in each, which may name people or places."""
    for name in roles.keys:
        rest = [one for one in roles.keys if one != name]
        known = name in declared.keys or is_named(name, PLACES | FEATURES)
        if known or not rest or declared.people is False:
            continue
        if duplicate(columns, [name]) is None and duplicate(columns, rest) is not None:
            raise ValueError(
                f"column {name!r} has another value in every row, and {join_words(counts)} may be counts or features: "
                f"say --people where each row is a person, or {option('places', name)} where it is a place"
            )


def _refuse_sparse_rows(columns: Mapping[str, FileColumn], counts: list[str], declared: Declared, roles: Roles) -> None:
    """ValueError if no column is named as a count, and rows are less than half of all combinations of categories.

    Rows of a table of cells are most combinations, rows of different people are few.
    """
    size, keys = len(columns[counts[0]]), {name: columns[name].key for name in roles.keys}
    places = [name for name in keys if name in declared.places or is_named(name, PLACES)]
    finer = [name for name in keys if name in declared.keys or name in places]
    inner = [name for name in keys if name not in places]
    inner = [name for name in inner if not any(one != name and lies_in(keys[one], keys[name]) for one in finer)]
    combinations_of_places = int(joint_codes([keys[name] for name in places], size).max()) + 1
    cells = combinations_of_places * prod(keys[name].size for name in inner)
    if 2 * size < cells and declared.people is not False and not {*counts} <= {*declared.certain}:
        raise ValueError(
            f"rows can be people or cells: {size:,} are there of {cells:,} combinations of "
            f"{join_words(places + inner)}, and {join_words(counts)} may be counts or features: say --people where "
            f"each row is a person, or name the counts, such as {option('counts', counts[0])}"
        )


def _leave_out_numbering(
    columns: Mapping[str, FileColumn], candidates: list[str], declared: Declared, roles: Roles
) -> None:
    """Leave out columns that number the rows, and identifiers with another value in every row."""
    for name in list(candidates):
        least = roles.numbers[name].least
        is_numbering = len(least) > 2 and least[0] in (0, 1) and bool((np.diff(least) == 1).all())
        if (
            is_numbering
            and name not in declared.certain
            and (not bare(name) or {*words_of(name)} & {*CODES, "column", "unnamed"})
        ):
            candidates.remove(name)
            roles.left_out[name] = "numbers of rows"
    for name in list(roles.keys):
        is_identifier = {*words_of(name)} & {"id", "uid", "person", "name", "key"} and not is_named(name, PLACES)
        if name in declared.keys or not is_identifier or len(roles.keys) + len(candidates) < 2:
            continue
        rest = [one for one in roles.keys if one != name]
        if rest and duplicate(columns, [name]) is None:
            roles.keys.remove(name)
            roles.left_out[name] = "another value in every row"


def _refuse_code(name: str, whole: NumberColumn) -> None:
    """ValueError for a column of whole numbers that is named as a year or a code."""
    raise ValueError(
        f"column {name!r} is named as a year or a code and holds whole numbers such as {whole.least.max()}: leave it "
        f"out, {option('leave_out', name)}; name it, {option('places', name)} or {option('features', name)}; or, if it "
        f"holds counts of people, {option('yes_these_are_counts', name)}"
    )
