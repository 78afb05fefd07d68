"""Population of a data frame of any layout: a row for each person, a row for each cell, or a column for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import Integers, join_words, refuse_rounded
from adversary.adversaries.tables import Axis, Population, PublishedTable
from adversary.driver.columns.cell_counts import MOST_CELLS, CellCounts
from adversary.driver.columns.column_names import PERIODS, WHOLE, bare, option
from adversary.driver.columns.column_roles import Declared, assign_roles
from adversary.driver.columns.count_checks import check_roles
from adversary.driver.columns.file_column import FileColumn, KeyColumn, joint_codes
from adversary.driver.columns.frame_columns import (
    census_levels,
    columns_of,
    find_column,
    remaining_rows,
    resolve_column,
    unnamed_feature,
)
from adversary.driver.columns.nesting import check_strays, nested_axes, place_names, with_parents

if TYPE_CHECKING:
    import pandas as pd

# Name of the feature whose categories are the columns of counts of a wide table, unless a table names it.
CELL = "cell"

# Treatments of suppressed cells: all counts that they can have equally likely, or nobody in them.
SUPPRESSED = ("draw", "leave out")


def population(
    frame: pd.DataFrame,
    tables: Iterable[PublishedTable] | None = None,
    *,
    places: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    counts: str | Sequence[str] = (),
    people: bool | None = None,
    leave_out: str | Sequence[str] = (),
    yes_these_are_counts: str | Sequence[str] = (),
    decimal: str | None = None,
    suppressed: str = "draw",
    suppressed_below: int | None = None,
    where: Callable[[int], str] = "row {}".format,
) -> Population:
    """Population of a table: numbers of people by places and features.

    Parameters
    ----------
    frame : microdata (a row for each person), long (a row for each cell, a column of counts) or wide (a column for each
        cell); cells that are not listed have nobody
    tables : published tables; columns that none of them names are summed over. By default every column is an axis
    places, features, counts : columns of these roles, if their names do not suggest them
    people : True if each row is a person, False if it is a cell; by default the columns decide
    leave_out : columns, or rows as "sex=Total"
    yes_these_are_counts : columns of counts, or rows, that would be refused as codes, years or totals
    decimal : decimal mark, "." or ",", if it is ambiguous in numbers such as 1.204
    suppressed : "draw", or "leave out" for nobody in suppressed cells
    suppressed_below : the smallest count that is not suppressed; cells such as "x" have from 0 to one less
    where : name of a row in messages, by its index

    Returns
    -------
    Population : `understood` has at most six sentences on how the columns were understood

    Raises
    ------
    ValueError : a column of ambiguous role, an entry that is no count, a repeated cell, a total among the cells,
        suppressed cells without a limit, or a table of an unknown column; the message names the remedy

    >>> import pandas as pd
    >>> town = pd.DataFrame({"block": ["1", "2"], "tract": ["A", "A"], "renters": [1, 7], "owners": [0, 3]})
    >>> people = population(town)
    >>> people.columns, people.counts.tolist()
    (('block', 'tract', 'cell'), [[1, 0], [7, 3]])
    >>> people.understood[-1]
    'People: 11.'
    """
    if suppressed not in SUPPRESSED:
        raise ValueError(f"suppressed must be one of {', '.join(map(repr, SUPPRESSED))}, got {suppressed!r}")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal must be '.' or ',', the mark before decimals, got {decimal!r}")
    published = None if tables is None else [(one.name, tuple(one.by)) for one in tables]
    columns, left_out = columns_of(frame), _as_list(leave_out)
    rows = remaining_rows(columns, [one for one in left_out if "=" in one])
    if len(rows) < len(next(iter(columns.values()))):
        columns = {name: FileColumn(one.series.iloc[rows].reset_index(drop=True)) for name, one in columns.items()}
    by = [name for _, names in published or () for name in names]
    first_names = [names[0] for line, names in published or () if names and line.startswith(f"{names[0]}:")]
    dropped_columns = [resolve_column(one, columns, "leave_out") for one in left_out if "=" not in one]
    columns = {name: one for name, one in columns.items() if name not in dropped_columns}
    if not columns or not len(rows):
        raise ValueError(f"leave_out: must leave a column and a row, got {join_words(left_out)}")
    roles_given = {"places": _as_list(places), "features": _as_list(features), "counts": _as_list(counts)}
    columns |= census_levels(columns, [*by, *roles_given["places"]])
    certain = _as_list(yes_these_are_counts)
    lists = roles_given | {"certain": [one for one in certain if "=" not in one]}
    given = {key: [resolve_column(one, columns, key) for one in names] for key, names in lists.items()}
    table_columns = [own for name in by if (own := find_column(name, columns)) is not None]
    given["certain"] += [one for one in certain if "=" in one]
    declared = Declared(table_columns, people=people, decimal=decimal, **given)
    place_columns = [own for name in first_names if (own := find_column(name, columns)) is not None]

    def name_of_row(row: int) -> str:
        return where(int(rows[row]))

    roles = assign_roles(columns, declared, name_of_row, str(frame.attrs.get("separator", ",")))
    for name in roles.counts:
        refuse_rounded(f"column {name!r}", columns[name].series)
    check_roles(columns, declared, name_of_row, roles)
    roles.left_out |= dict.fromkeys(left_out, "as you say")
    cells = CellCounts.of(columns, roles, name_of_row, suppressed == "draw", suppressed_below)
    cells = cells.without_names(declared.keys, roles.left_out)
    default = CELL if find_column(CELL, columns) is None else "column"
    feature = unnamed_feature(by, columns, len(roles.counts), default, first_names)
    tables_by = None if published is None else [_resolved(names, [*columns, feature]) for _, names in published]
    known_places = [*declared.places, *(name for name in place_columns if name not in declared.features)]
    wide = len(cells.names) > 1
    is_place = place_names(
        list(cells.keys), known_places, declared.features, wide, lambda key: not columns[key].is_typed
    )
    check_strays(cells.keys, is_place, name_of_row)
    whole_file_names = [name for name in dict.fromkeys(by) if find_column(name, [*columns, feature]) is None]
    layout = _PopulationLayout.of(cells, is_place, feature, tables_by, whole_file_names)
    return layout.population(roles.left_out, [str(one) for one in frame.attrs.get("notes", ())], certain)


def population_of_data(data: Any, tables: Iterable[PublishedTable]) -> Population:
    """The people of a data frame without further options; an error that names some says where Python has them.

    Parameters
    ----------
    data : table, as of `population`
    tables : what is published
    """
    try:
        return population(data, tables)
    except ValueError as error:
        if " --" in str(error):
            where = "adversary.driver.columns.population(data, tables, ...), whose result audit_tables takes"
            error.add_note(f"In Python these options are arguments, such as leave_out=..., of {where}.")
        raise


def resolve_tables(tables: Iterable[PublishedTable], people: Population) -> list[PublishedTable]:
    """Tables with the names of a population's columns; a name of the whole file that is no column is dropped.

    Parameters
    ----------
    tables : as they are written
    people : with the columns

    Returns
    -------
    Tables of the same names and noise.

    Raises
    ------
    ValueError : a table names a column that is not there, or two tables have the same name
    """
    resolved = [replace(one, by=_resolved(one.by, people.columns), name=one.name) for one in tables]
    names = [one.name for one in resolved]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        raise ValueError(f"tables must have different names, got {repeated!r} twice")
    return resolved


def _resolved(by: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Columns of a table, under their own names."""
    names = list(columns)
    return tuple(
        resolve_column(one, names, "table")
        for one in by
        if find_column(one, names) is not None or bare(one) not in WHOLE
    )


def _as_list(given: str | Sequence[str]) -> list[str]:
    """Names as a list, from one or several."""
    return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class _PopulationLayout:
    """Columns of a file arranged into the axes of a population.

    Parameters
    ----------
    cells : counts of the rows
    axes : columns of every axis, the finest first, with names unique on it
    places : columns of places
    used : columns that a table names, or all
    feature : name of the feature whose categories are columns of counts, "" if these are summed
    tables : columns of every table, or None
    whole : names of the whole file in tables
    """

    cells: CellCounts
    axes: list[dict[str, KeyColumn]]
    places: list[str]
    used: list[str]
    feature: str
    tables: list[tuple[str, ...]] | None
    whole: list[str]

    @classmethod
    def of(
        cls,
        cells: CellCounts,
        places: list[str],
        feature: str,
        tables: list[tuple[str, ...]] | None,
        whole: list[str],
    ) -> _PopulationLayout:
        wide = len(cells.names) > 1
        axes = [with_parents(cells.keys, axis) for axis in nested_axes(cells.keys, places)]
        names = {name for by in tables for name in by} if tables is not None else None
        used = [name for name in cells.keys if names is None or name in names]
        shown_feature = feature if (wide and names is None) or (names is not None and feature in names) else ""
        return cls(cells, axes, places, used, shown_feature, tables, whole)

    def _is_published(self, group: Sequence[str]) -> bool:
        """True if some table sums over all of these columns."""
        summed_over = {name or self.feature for name in group}
        return self.tables is not None and any(not summed_over & {*by} for by in self.tables)

    def population(self, left_out: Mapping[str, str], notes: Sequence[str], certain: Sequence[str]) -> Population:
        """Population of the file: limits of its counts by axis, and sentences on how the columns were understood.

        Parameters
        ----------
        left_out : reason for each column that is left out
        notes : sentences to add
        certain : columns, or rows as "sex=Total", that are no totals although they may look like it

        Raises
        ------
        ValueError : a total of which no table is published, nothing to count by, too many cells, or nobody in the file
        """
        groups = [list(axis) for axis in self.axes]
        cells = self.cells.without_totals(groups, certain, self._is_published)
        keys = {name: one for group in groups for name, one in with_parents(cells.keys, group).items()}
        axes, codes = [], []
        for group in groups:
            used_names = [name for name in group if name in self.used]
            if used_names:
                labels, code = _categories([keys[name] for name in used_names])
                axes.append(Axis(tuple(used_names), labels))
                codes.append(code)
        shape = [len(axis.labels) for axis in axes] + [len(cells.names)] * bool(self.feature)
        if not shape:
            raise ValueError(
                f"there is nothing to count by: the columns are {join_words([*cells.names, *left_out])}, and a table "
                "has a place or a feature at least"
            )
        if (size := prod(shape)) > MOST_CELLS:
            names = [axis.columns[0] for axis in axes]
            raise ValueError(
                f"{join_words(names)} have {size:.3g} finest cells, and at most {MOST_CELLS:,} are held: leave a "
                f"column out, {option('leave_out', names[-1])}"
            )
        if self.feature:
            axes.append(Axis((self.feature,), np.array([[name] for name in cells.names], dtype=object)))
        if not cells.most.any():
            raise ValueError(f"nobody is in the file: {join_words([*cells.names])} must add up to 1 at least, got 0")
        counts, most = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for table, side in ((counts, cells.least), (most, cells.most)):
            counts_of_rows = side if self.feature else side.sum(axis=1)
            if codes:
                np.add.at(table, tuple(codes), counts_of_rows)
            else:
                table += counts_of_rows.sum(axis=0)
        return Population(tuple(axes), counts, most, self._understood(cells, axes, left_out, notes))

    def _understood(
        self, cells: CellCounts, axes: Sequence[Axis], left_out: Mapping[str, str], notes: Sequence[str]
    ) -> tuple[str, ...]:
        """Sentences: places, features, counts, what is left out, people."""
        on_axis = {name: len({*axis.labels[:, i]}) for axis in axes for i, name in enumerate(axis.columns)}
        places = [list(axis.columns) for axis in axes if axis.columns[0] in self.places]
        inside = [" in ".join(f"{name} ({on_axis[name]:,})" for name in names) for names in places]
        others = [name for name in self.whole if name.casefold() != "all"]
        also = f"; {join_words(others)} {'is' if len(others) == 1 else 'are'} the whole file" if others else ""
        features = [f"{name} ({on_axis[name]:,})" for name in on_axis if name not in self.places]
        lines = [
            f"Places: {join_words(inside) if inside else 'the whole file'}{also}.",
            f"Features: {join_words(features) if features else 'none, people are counted'}.",
            self._counts_line(cells),
            self._left_line(cells, left_out),
            " ".join([*notes, *self._cautions(cells)]),
            self._people_line(cells),
        ]
        return tuple(line for line in lines if line)

    def _counts_line(self, cells: CellCounts) -> str:
        """Sentence on the columns of counts."""
        if not cells.names:
            return "Counts: each row is a person."
        if len(cells.names) == 1:
            return f"Counts: column {cells.names[0]}; cells that are not listed have nobody."
        role = f"the categories of {self.feature}" if self.feature else "summed"
        return f"Counts: {len(cells.names)} columns, {_shortened(cells.names)}, {role}."

    def _left_line(self, cells: CellCounts, left_out: Mapping[str, str]) -> str:
        reasons = [f"{name} ({reason})" for name, reason in left_out.items()] + list(cells.totals)
        unused = [name for name in cells.keys if name not in self.used]
        parts = [f"Left out: {join_words(reasons)}."] if reasons else []
        return " ".join(parts + [f"Summed over: {join_words(unused)}, which no table names."] * bool(unused))

    def _cautions(self, cells: CellCounts) -> list[str]:
        """Sentences on names that were merged, or prefixed by those of larger places."""
        alike = [name for name, one in cells.keys.items() if one.spellings > one.size]
        sentences = [
            f"Caution: names of {join_words(alike)} that differ in blanks, case or Unicode form alone are taken as one."
        ] * bool(alike)
        changed = {name: one for axis in self.axes for name, one in axis.items() if one is not self.cells.keys[name]}
        for name, one in changed.items():
            example = next(word for word in one.words if word not in self.cells.keys[name].words)
            sentences.append(f"Names of {name} that repeat in places above have theirs before them: {example!r}.")
        for name in self.used:
            if bare(name) in PERIODS and cells.keys[name].size > 1:
                sentences.append(
                    f"Caution: one person is taken to be in the file at one {name} only; who is there at several is in "
                    "as many counts of each table, and the losses of all of them add."
                )
        return sentences

    @staticmethod
    def _people_line(cells: CellCounts) -> str:
        """Sentence on the number of people, a range if counts are suppressed."""
        least, most = cells.people
        hidden = int(cells.hidden.sum())
        if not hidden:
            return f"People: {least:,}."
        if most == least:
            return f"People: {least:,}, and nobody in {hidden:,} suppressed cell{'s' * (hidden > 1)}."
        return f"People: {least:,} to {most:,}, as {hidden:,} count{'s are' if hidden > 1 else ' is'} suppressed."


def _shortened(names: Sequence[str]) -> str:
    """Names in words: at most six, or the first three and the last."""
    return join_words([*names]) if len(names) <= 6 else f"{', '.join(names[:3])}, ... {names[-1]}"


def _categories(columns: Sequence[KeyColumn]) -> tuple[Any, Integers]:
    """(labels of every combination of categories that occurs (category, column), its index for each row)."""
    code = joint_codes(columns, len(columns[0].codes))
    first = np.unique(code, return_index=True)[1]
    labels = np.stack([one.words[one.codes[first]] for one in columns], axis=1)
    return labels.astype(object), code
