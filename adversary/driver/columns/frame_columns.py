"""Columns of a data frame by tidy names, and the matching of names in tables and arguments to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import closest_name, join_words
from adversary.driver.columns.column_names import CENSUS_CODES, PLACES, WHOLE, bare, folded, is_named, tidied
from adversary.driver.columns.file_column import FileColumn

if TYPE_CHECKING:
    import pandas as pd


def columns_of(frame: pd.DataFrame | pd.Series[Any]) -> dict[str, FileColumn]:
    """Columns by name; an index with names becomes columns.

    Parameters
    ----------
    frame : a table, or counts by an index

    Raises
    ------
    TypeError : no table, such as the path of one
    ValueError : no rows or columns, or a name that occurs twice

    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([["N", "S"], ["m", "f"]], names=["district", "sex"])
    >>> list(columns_of(pd.Series([1, 2, 3, 4], index=index)))
    ['district', 'sex', 'count']
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame | pd.Series):
        file = isinstance(frame, str | PathLike)
        hint = f": read it first, as by pandas.read_csv({str(frame)!r})" if file else ""
        raise TypeError(f"data must be a pandas DataFrame or Series, got {frame!r}{hint}")
    table = frame.to_frame("count" if frame.name is None else frame.name) if isinstance(frame, pd.Series) else frame
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    if table.columns.nlevels > 1:
        table = _of_one_line(table)
    table = table.reset_index(drop=True)
    if table.empty:
        raise ValueError("the table is empty: it must have a line of names and a row at least")
    names = [tidied(name) for name in table.columns]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        raise ValueError(f"column {repeated!r} occurs twice: rename one of them")
    return {name: FileColumn(table.iloc[:, i]) for i, name in enumerate(names)}


def _of_one_line(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns have several names each, of which the levels that are named become columns of names.

    Without names of the levels, "F" above "0-17" is one category, "F 0-17": a table by age would then be one by both.
    """
    joined = [" ".join(str(part) for part in name if str(part)) for name in table.columns]
    # "F" above a blank is no key beside "F" above "0-17": it has those of a blank age
    above = {name[0] for name in table.columns if any(str(part) for part in name[1:])}
    keys = [name for name in table.columns if not any(str(part) for part in name[1:]) and name[0] not in above]
    cells = table.set_axis(joined, axis=1).set_index([str(name[0]) for name in keys]) if keys else table
    cells = cells.set_axis(table.columns.drop(keys), axis=1)
    unnamed = [i for i, name in enumerate(cells.columns.names) if name is None]
    of_counts = {name[i] for name in cells.columns for i in unnamed}
    if not keys or len(unnamed) > 1 or len(of_counts) > 1 or len(unnamed) == cells.columns.nlevels:
        return table.set_axis(joined, axis=1)
    levels = [i for i in range(cells.columns.nlevels) if i not in unnamed]
    cells.columns = cells.columns.droplevel(unnamed)
    long = cells.stack(list(range(len(levels))), future_stack=True)
    counts = str(of_counts.pop()) if of_counts else "count"
    names = [*map(str, long.index.names), counts]
    if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ValueError(f"column {repeated[0]!r} occurs twice, once in the lines above the table: rename one of them")
    return long.rename(counts).reset_index()


def find_column(name: str, names: Iterable[str]) -> str | None:
    """Column that a name in a table means, whatever its case and blanks; None if there is none.

    Parameters
    ----------
    name : in a table
    names : of the columns

    >>> find_column("Block group", ["block_group", "age"])
    'block_group'
    """
    all_names = list(names)
    if name in all_names:
        return name
    for key in (folded, bare):
        alike = [one for one in all_names if key(one) == key(name)]
        if len(alike) == 1:
            return alike[0]
    code = f"{bare(name).upper()}A"
    return code if code in all_names else None


def resolve_column(name: str, names: Iterable[str], role: str) -> str:
    """Column that a name in an argument means; ValueError if there is none.

    Parameters
    ----------
    name : as it is given
    names : of the columns
    role : of the argument, for the message

    Raises
    ------
    ValueError : there is none
    """
    all_names = list(names)
    matched = find_column(name, all_names)
    if matched is None:
        raise ValueError(f"{role}: no column {name!r}{closest_name(name, all_names)}; there are {', '.join(all_names)}")
    return matched


def _is_place(name: str, places: Iterable[str]) -> bool:
    """True if a name is declared as a place, or is in the register of places."""
    return name in places or is_named(name, PLACES)


def census_levels(columns: Mapping[str, FileColumn], names: Iterable[str]) -> dict[str, FileColumn]:
    """Columns of larger places that tables name, cut from a column of codes of the United States Census Bureau.

    Parameters
    ----------
    columns : by name
    names : of places, in tables

    Returns
    -------
    dict of name to column; empty if no name is missing or no column has such codes

    >>> import pandas as pd
    >>> blocks = pd.Series(["010010001001000", "010010002001000"])
    >>> census_levels({"GEOID": FileColumn(blocks)}, ["tract", "age"])["tract"].words.tolist()
    ['01001000100', '01001000200']
    """
    import pandas as pd

    missing = [
        name for name in dict.fromkeys(names) if find_column(name, columns) is None and bare(name) in CENSUS_CODES
    ]
    levels: dict[str, FileColumn] = {}
    for name, one in columns.items() if missing else ():
        if not is_named(name, PLACES) or levels:
            continue
        lengths = {len(word) for word in one.words}
        if len(lengths) == 1 and lengths <= {*CENSUS_CODES.values()} and all(word.isdigit() for word in one.words):
            digits = lengths.pop()
            digits_by_level = {each: CENSUS_CODES[bare(each)] for each in missing if CENSUS_CODES[bare(each)] <= digits}
            levels = {
                each: FileColumn(pd.Series([w[:n] for w in one.words], dtype=object)[one.key.codes])
                for each, n in digits_by_level.items()
            }
    return levels


def remaining_rows(columns: Mapping[str, FileColumn], left_out: Sequence[str]) -> np.ndarray[Any, Any]:
    """Indices of the rows that are not left out.

    Parameters
    ----------
    columns : by name
    left_out : rows to leave out, each by a column and a category, as "sex=Total"

    Raises
    ------
    ValueError : no column or no row is called so
    """
    remaining = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for one in left_out:
        name, _, value = one.partition("=")
        own = resolve_column(name, columns, "leave_out")
        if folded(value) not in [folded(word) for word in columns[own].words]:
            raise ValueError(f"leave_out: no row has {own} {value!r}")
        remaining[columns[own].rows_of(value)] = False
    return np.flatnonzero(remaining)


def unnamed_feature(
    names: Iterable[str], columns: Mapping[str, FileColumn], counts: int, default: str, places: Iterable[str] = ()
) -> str:
    """Name that tables give to the feature whose categories are the columns of counts of a wide table.

    Parameters
    ----------
    names : in tables
    columns : by name
    counts : number of columns of counts, which may be its categories
    default : name if tables have none
    places : names of places in tables

    Returns
    -------
    The one name that is neither a column nor the whole file.

    Raises
    ------
    ValueError : a name that is neither, or several
    """
    unknown = [name for name in dict.fromkeys(names) if find_column(name, columns) is None]
    others = [name for name in unknown if bare(name) not in WHOLE]
    is_wide = counts > 1
    if default in others and counts:
        others.remove(default)
        chosen = default
    elif is_wide and len(others) == 1 and not _is_place(others[0], places) and not closest_name(others[0], columns):
        chosen = others.pop()
    else:
        chosen = default
    if others:
        suggestion = closest_name(others[0], columns) if len(others) == 1 else ""
        hint = (
            f"; columns of counts are categories of one feature, {default} unless a table names it" if is_wide else ""
        )
        raise ValueError(
            f"no column{'s' * (len(others) > 1)} {join_words([repr(one) for one in others])}{suggestion}; there are "
            f"{join_words(list(columns))}. The whole file is 'all', as in 'all: age'{hint}"
        )
    return chosen
