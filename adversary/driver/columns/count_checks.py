"""Checks of columns' roles: numbers that may be codes or years, repeated cells, rows that may not be people."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from adversary._core import join_words
from adversary.driver.columns.column_names import (
    CODES,
    COUNTS,
    ERRORS,
    FEATURES,
    PERIODS,
    PLACES,
    SHARES,
    bare,
    is_named,
    option,
    words_of,
)
from adversary.driver.columns.column_roles import Declared, Roles, Where
from adversary.driver.columns.file_column import FileColumn, KeyColumn, duplicate, lies_in

# Equal or rising numbers are taken for years or codes if they are at least this large: equal small counts are common.
LARGE = 1000

# Nats of evidence from which equal numbers in all rows of each place are taken for a code of the place: that of three
# is a chance of 1 in 20.
CHANCE = 3.0

# Last words of columns that name people, and words of those that name what people share.
IDS, SHARED = {"id", "ids", "uid", "pid"}, {"household", "hh", "family", "dwelling", "building", "address"}
PEOPLE = "person|patient|client|customer|employee|member|participant|pupil|respondent|student|subject|user"

# Rows of one name, at most on average, that may be of one person: more are of a group.
VISITS = 20

# Fewer rows may rise from row to row by chance.
STEPS = 4
_YEAR = re.compile(r"(?<!\d)(19|20)\d\d(?!\d)")


def check_roles(columns: Mapping[str, FileColumn], declared: Declared, where: Where, roles: Roles) -> None:
    """ValueError for roles that are implausible given the values; the message names the remedy.

    Parameters
    ----------
    columns : by name
    declared : declared roles
    where : name of a row in messages, by its index
    roles : of the columns
    """
    _check_named(columns, declared, roles)
    if roles.counts:
        _check_counts(columns, declared, where, roles)
    else:
        _check_people(columns, declared, roles)
    _check_periods(columns, declared, roles)


def _check_counts(columns: Mapping[str, FileColumn], declared: Declared, where: Where, roles: Roles) -> None:
    """ValueError for counts below 0, blanks in names, cells that occur twice, and numbers that are no counts."""
    for name in roles.counts:
        least = roles.numbers[name].least
        if (least < 0).any():
            row = int(np.flatnonzero(least < 0)[0])
            raise ValueError(
                f"{where(row)}: column {name!r}: must be a whole number >= 0, got {columns[name].entry(row)!r}: "
                "counts stand here as they are before noise, which --table names; leave the column out, "
                f"{option('leave_out', name)}, if it holds no counts"
            )
    for name in roles.keys:
        if "" in columns[name].words:
            raise ValueError(
                f"{where(int(columns[name].rows_of('')[0]))}: column {name!r}: must have a name, got nothing: fill it "
                f"in, or leave the column out, {option('leave_out', name)}"
            )
    _check_decimals(declared, roles)
    _check_measures(columns, declared, roles)
    pair = duplicate(columns, roles.keys)
    if pair is not None:
        cell = join_words([f"{name} {columns[name].entry(pair[1])!r}" for name in roles.keys]) or "no name"
        raise ValueError(
            f"{where(pair[1])}: must be another cell than {where(pair[0])}, got {cell} again: correct one of them, "
            "or say --people where each row is a person"
        )
    for name in roles.counts:
        if name not in declared.certain and name not in declared.counts and not is_named(name, COUNTS):
            _check_constant(columns, name, roles)


def _check_decimals(declared: Declared, roles: Roles) -> None:
    """ValueError if more columns have decimals than hold counts, which may then be estimates or shares too."""
    decimals = [name for name, reason in roles.left_out.items() if reason.startswith("decimals")]
    unknown = [name for name in decimals if not {*words_of(name)} & SHARES]
    if (
        len(unknown) > len(roles.counts)
        and not declared.counts
        and not any(is_named(one, COUNTS) for one in roles.counts)
    ):
        raise ValueError(
            f"column {unknown[0]!r} and {len(unknown) - 1} others have decimals, and {join_words(roles.counts)} may "
            f"hold no counts either: leave them out, {option('leave_out', unknown[0])}, or name the counts, "
            f"{option('counts', roles.counts[0])}"
        )


def _check_measures(columns: Mapping[str, FileColumn], declared: Declared, roles: Roles) -> None:
    """ValueError for rows of shares or errors among rows of counts."""
    for name in roles.keys:
        for word in columns[name].words if not is_named(name, PLACES) else ():
            if (is_named(word, ERRORS | SHARES) or word == "%") and f"{name}={word}" not in declared.certain:
                given = f"{name}={word}"
                raise ValueError(
                    f"rows of {name} {word!r} hold no counts by their name: leave them out, "
                    f"{option('leave_out', given)}, or, if they do, {option('yes_these_are_counts', given)}"
                )


def _check_named(columns: Mapping[str, FileColumn], declared: Declared, roles: Roles) -> None:
    """ValueError if a table names a column of counts as a feature, as "block: men" does."""
    known = PLACES | FEATURES | CODES
    others = [name for name in declared.named if not is_named(name, known)]
    numbers = [
        name for name in others if name not in (*declared.places, *declared.features) and columns[name].numbers()
    ]
    if declared.people or not numbers:
        return
    if named_counts := [name for name in numbers if is_named(name, COUNTS)]:
        raise ValueError(
            f"column {named_counts[0]!r} is called a count, and a table is by places and features: write total for the "
            f"number of people, as in 'all: total'; where it is a feature, {option('features', named_counts[0])}"
        )
    if duplicate(columns, [one for one in roles.keys if one not in numbers]) is None:
        raise ValueError(
            f"column {numbers[0]!r} holds numbers that may be counts, and a table is by places and features: columns "
            "of counts are categories of one feature, cell, as in 'all: cell'; where it is a feature, "
            f"{option('features', numbers[0])}"
        )


def _check_constant(columns: Mapping[str, FileColumn], name: str, roles: Roles) -> None:
    """ValueError for a column of counts that looks like a code: one large number, a rising one, one for each place."""
    import pandas as pd

    counts = roles.numbers[name].least
    if len(counts) > 1 and counts.min() == counts.max() >= LARGE:
        raise ValueError(
            f"column {name!r} is {counts[0]} in every row, as a year or a code is: leave it out, "
            f"{option('leave_out', name)}, or, if it holds counts of people, {option('yes_these_are_counts', name)}"
        )
    if counts.min() == counts.max() or len(counts) < STEPS:
        return
    if counts.min() >= LARGE and len(str(counts.min())) == len(str(counts.max())) and (np.diff(counts) > 0).all():
        raise ValueError(
            f"column {name!r} rises from row to row, from {counts[0]} to {counts[-1]}, as a code does: leave it out, "
            f"{option('leave_out', name)}; name it, {option('places', name)}; or, if it holds counts of people, "
            f"{option('yes_these_are_counts', name)}"
        )
    codes, unique = pd.factorize(counts)
    values = KeyColumn(np.asarray(codes, dtype=np.int64), unique, len(unique))
    for place in roles.keys:
        key = columns[place].key
        rows = np.bincount(key.codes)
        evidence = (len(counts) - len(rows)) * np.log(len(unique))
        if len(rows) > 1 and rows.min() > 1 and evidence > CHANCE and lies_in(key, values):
            raise ValueError(
                f"column {name!r} is the same in all rows of each {place}, as a code of {place} is: leave it out, "
                f"{option('leave_out', name)}, or, if it holds counts of people, {option('yes_these_are_counts', name)}"
            )


def _check_people(columns: Mapping[str, FileColumn], declared: Declared, roles: Roles) -> None:
    """ValueError if rows may not be people: no column of counts, and rows all different or with decimals.

    Identifiers with another value in every row are left out.
    """
    size = len(next(iter(columns.values())))
    decimals = [name for name, reason in roles.left_out.items() if reason.startswith("decimals")]
    if decimals and not declared.people and size > 1 and duplicate(columns, roles.keys) is None:
        raise ValueError(
            f"no column of counts is there: {join_words(decimals)} {'has' if len(decimals) == 1 else 'have'} "
            "decimals, and no two rows are alike: say --people where each row is a person"
        )
    for name in [one for one in roles.keys if one not in declared.keys]:
        if size < 2:
            continue
        if duplicate(columns, [name]) is not None:
            _check_visits(name, columns[name])
            continue
        if {*words_of(name)} & {*CODES, "name", "person"} and len(roles.keys) > 1:
            roles.keys.remove(name)
            roles.left_out[name] = "another value in every row"
        elif not columns[name].is_typed and not declared.people and columns[name].numbers() is None:
            raise ValueError(
                f"no column of counts is there, and column {name!r} has another value in every row: say --people where "
                f"each row is a person, {option('leave_out', name)}, or name the counts, --counts COLUMN"
            )


def _check_visits(name: str, column: FileColumn) -> None:
    """ValueError for names of people that stand in several rows: whoever does is in as many counts of each table."""
    words = words_of(name)
    is_id = bool(words) and (words[-1] in IDS or re.fullmatch(f"({PEOPLE})s?ids?", words[-1]) is not None)
    if not is_id or {*words} & SHARED or is_named(name, PLACES | FEATURES):
        return
    rows = np.bincount(column.key.codes)
    if len(column) <= VISITS * len(rows):
        most = column.words[int(rows.argmax())]
        raise ValueError(
            f"column {name!r} has {str(most)!r} in {rows.max()} rows, so that one person may be in as many counts: "
            f"keep one row for each person; or, where it names no people, leave it out, {option('leave_out', name)}, "
            f"or name it, {option('places', name)}"
        )


def _check_periods(columns: Mapping[str, FileColumn], declared: Declared, roles: Roles) -> None:
    """ValueError for a file of several periods, in which people occur several times, unless a table names them."""
    name_by_rest: dict[str, str] = {}
    for name in roles.counts if len(roles.counts) > 1 and not declared.counts else ():
        other = name_by_rest.setdefault(_YEAR.sub("", name), name)
        if other != name and _YEAR.search(name) and name not in declared.certain:
            raise ValueError(
                f"columns {other!r} and {name!r} are of two years, so that people stand in the file several times: "
                f"name one of them, {option('counts', name)}"
            )
    for name in roles.keys:
        values = list(columns[name].words) if bare(name) in PERIODS else []
        if name not in declared.keys and len(values) > 1:
            raise ValueError(
                f"column {name!r} has {len(values)} values, so that people may stand in the file several times: "
                f"leave all but one out, {option('leave_out', f'{name}={values[0]}')}, or name it, "
                f"{option('features', name)}"
            )
