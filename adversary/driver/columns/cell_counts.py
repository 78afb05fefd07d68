"""Counts of a table by row and column: ranges of suppressed entries, and removal of totals among the counts.

A column or a row that is the sum of others would count people twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Integers, join_words
from adversary.driver.columns.column_names import PLACES, TOTALS, is_named, option, words_of
from adversary.driver.columns.column_roles import Roles
from adversary.driver.columns.file_column import FileColumn, KeyColumn, joint_codes, lies_in
from adversary.driver.columns.text_numbers import NO_LIMIT

# Most finest cells held in memory: 400 MB of counts.
MOST_CELLS = 50_000_000

# Nats of evidence from which a category that equals the sum of others is taken for a total. By chance a count c agrees
# with probability about 1 / (1 + c); three nats are a chance of 1 in 20.
CHANCE = 3.0

# Rows in which runs of summands are searched; a run that agrees in these is then checked in all rows.
SAMPLE = 1000

# Most categories among which runs are searched: their number grows with the square.
MOST_RUNS = 400


@dataclass(frozen=True)
class CellCounts:
    """Counts by row and column of a file, and the columns that name their cells.

    Parameters
    ----------
    keys : columns that name cells
    names : names of the columns of counts; none if each row is a person
    least, most : smallest and largest possible count, (row, column); equal unless suppressed
    hidden : True for suppressed entries, (row, column)
    free : those of them without a limit of their own, which a total may exceed, (row, column)
    totals : totals that were left out, in words

    >>> one = np.array([[1]])
    >>> CellCounts({}, ("n",), one, one, one < 0, one < 0).people
    (1, 1)
    """

    keys: dict[str, KeyColumn]
    names: tuple[str, ...]
    least: Integers
    most: Integers
    hidden: Any
    free: Any
    totals: tuple[str, ...] = field(default=())

    @property
    def people(self) -> tuple[int, int]:
        """Smallest and largest possible number of people in the file."""
        return int(self.least.sum()), int(self.most.sum())

    @classmethod
    def of(
        cls,
        columns: Mapping[str, FileColumn],
        roles: Roles,
        where: Callable[[int], str],
        draw: bool,
        below: int | None,
    ) -> CellCounts:
        """Counts of a table's columns.

        Parameters
        ----------
        columns : by name
        roles : of the columns
        where : name of a row in messages, by its index
        draw : whether suppressed cells may have people; otherwise they have none
        below : the smallest count that is not suppressed, None if entries such as "<5" say so

        Raises
        ------
        ValueError : a suppressed entry without a limit
        """
        keys = {name: columns[name].key for name in roles.keys}
        if not roles.counts:
            ones = np.ones((len(next(iter(columns.values()))), 1), dtype=np.int64)
            return cls(keys, (), ones, ones, ones < 0, ones < 0)
        if below is not None and below < 1:
            raise ValueError(f"suppressed_below must be a whole number >= 1, such as 5, got {below!r}")
        least, most = (
            np.stack([getattr(roles.numbers[name], side) for name in roles.counts], axis=1)
            for side in ("least", "most")
        )
        hidden, no_limit = most != least, most == NO_LIMIT
        if draw and below is None and no_limit.any():
            row, i = (int(one[0]) for one in np.nonzero(no_limit))
            name = roles.counts[i]
            entry = columns[name].entry(row)
            what_hides = f"{entry!r} hides" if entry else "a blank hides"
            entries = "entry hides" if no_limit.sum() == 1 else "entries hide"
            # suggested in the message: the limit of other entries such as "<5"
            limit = int((most - least).max()) + 1
            raise ValueError(
                f"{where(row)}: column {name!r}: {what_hides} a count, and {no_limit.sum()} {entries} one in all: say "
                "from which count on numbers are shown, such as "
                f"{option('suppressed_below', str(limit if limit > 1 else 5))}, or "
                f"{option('suppressed', 'leave out')} for nobody there"
            )
        most = np.where(no_limit, 0 if below is None else below - 1, most)
        most = most if draw else np.where(hidden, 0, most)
        return cls(keys, tuple(roles.counts), least, most, hidden, no_limit)

    def without_names(self, named: Collection[str], left_out: dict[str, str]) -> CellCounts:
        """The counts without key columns that have a single value or repeat another, such as names beside codes.

        Parameters
        ----------
        named : columns that stay
        left_out : reasons by column, to which those left out are added
        """
        keys = dict(self.keys)
        for name, own in self.keys.items():
            if name in named:
                continue
            if own.size == 1 and len(keys) > 1 and not is_named(name, PLACES):
                left_out[name] = f"{own.words[0]} in every row"
                del keys[name]
            elif {*words_of(name)} & {"name", "names", "label", "code", "id", "description"}:
                twins = [one for one, key in keys.items() if one != name and lies_in(own, key) and lies_in(key, own)]
                if twins:
                    left_out[name] = f"one for each {twins[0]}"
                    del keys[name]
        return replace(self, keys=keys)

    def without_totals(
        self, groups: Sequence[Sequence[str]], certain: Sequence[str], is_published: Callable[[Sequence[str]], bool]
    ) -> CellCounts:
        """The counts without columns and rows that are totals of others.

        Parameters
        ----------
        groups : columns of each axis, the finest first
        certain : columns, or rows as "sex=Total", that are no totals although they may look like it
        is_published : whether a table sums over these columns, "" for the columns of counts

        Raises
        ------
        ValueError : a total of which no table is published
        """
        if not self.names:
            return self
        cells = self
        while (fewer := cells._without_column(certain, is_published)) is not cells:
            cells = fewer
        for group in groups:
            while (fewer := cells._without_rows(group, certain, is_published)) is not cells:
                cells = fewer
        return cells

    def _without_column(self, certain: Sequence[str], is_published: Callable[[Sequence[str]], bool]) -> CellCounts:
        """The counts without one column that is the sum of all others; the same object if there is none."""
        allowed = [i for i, name in enumerate(self.names) if name in certain]
        total = find_total(self.least, self.most, self.names, allowed, self.free)
        if total is None:
            return self
        name, parts = self.names[total.category], [self.names[i] for i in total.parts]
        rule = f"is the sum of {_shortened_list(parts)} in every row" if parts else "is called a total"
        if not parts or len(parts) < len(self.names) - 1 or not is_published([""]):
            raise ValueError(
                f"column {name!r} {rule}, so that people are counted twice: leave it out, {option('leave_out', name)}; "
                "publish it as a table of its own, such as --table 'all: total, rho 0.1'; or, if it holds other "
                f"people, {option('yes_these_are_counts', name)}"
            )
        rest = [i for i in range(len(self.names)) if i != total.category]
        return CellCounts(
            self.keys,
            tuple(self.names[i] for i in rest),
            self.least[:, rest],
            self.most[:, rest],
            self.hidden[:, rest],
            self.free[:, rest],
            (*self.totals, f"{name} (the sum of {_shortened_list(parts)})"),
        )

    def _without_rows(
        self, group: Sequence[str], certain: Sequence[str], is_published: Callable[[Sequence[str]], bool]
    ) -> CellCounts:
        """The counts without rows of one category of an axis that is the sum of all others; the same object if none."""
        name = group[0]
        own, others = self.keys[name], [one for one in self.keys if one not in group]
        rows = joint_codes([self.keys[one] for one in others], len(self.least))
        shape = int(rows.max()) + 1, own.size
        if own.size < 2 or shape[0] * shape[1] * len(self.names) > MOST_CELLS:
            return self
        sides = (self.least, self.most, self.free.astype(np.int64))
        least, most, free = (_pivot(side, rows, own.codes, shape) for side in sides)
        allowed = [i for i, word in enumerate(own.words) if f"{name}={word}" in certain]
        total = find_total(least, most, own.words, allowed, free > 0) or self._total_inside(group, rows, allowed)
        if total is None:
            return self
        word, parts = str(own.words[total.category]), [str(own.words[i]) for i in total.parts]
        rule = f"are the sum of {_shortened_list(parts)}" if parts else "are called a total"
        given = f"{name}={word}"
        if not parts or len(parts) < own.size - 1 or not is_published(group):
            raise ValueError(
                f"rows of {name} {word!r} {rule}, so that people are counted twice: leave them out, "
                f"{option('leave_out', given)}; publish them as a table of its own, without {name}; or, if they hold "
                f"other people, {option('yes_these_are_counts', given)}"
            )
        return self._keep_rows(
            np.flatnonzero(own.codes != total.category), f"{given} (the sum of {_shortened_list(parts)})"
        )

    def _total_inside(self, group: Sequence[str], rows: Integers, allowed: Sequence[int]) -> Total | None:
        """A place that is the sum of the others in the same larger place, as a county in a list of its towns.

        `rows` are codes of the combinations of all other axes, by row.
        """
        own = self.keys[group[0]]
        for name in group[1:]:
            above = self.keys[name]
            first = np.unique(joint_codes([above, own], len(rows)), return_index=True)[1]
            inside = np.bincount(above.codes[first], minlength=above.size)
            cell = joint_codes([above, KeyColumn(rows, range(int(rows.max()) + 1), 0)], len(rows))
            low, high = (_sums(values, cell)[cell] - values for values in (self.least, self.most))
            agrees, evidence = _agreement(self.least, self.most, self.free, low, high)
            is_total = np.ones(own.size, dtype=bool)
            is_total[own.codes[~agrees.all(axis=1) | (inside[above.codes] < 3)]] = False
            evidence = np.bincount(own.codes, evidence.sum(axis=1), own.size)
            is_total[[*allowed]] = False
            totals = np.flatnonzero(is_total & (evidence > CHANCE + np.log(own.size)))
            if len(totals):
                place = above.codes[own.codes == totals[0]][0]
                others = np.unique(own.codes[above.codes == place])
                return Total(int(totals[0]), tuple(int(i) for i in others if i != totals[0]))
        return None

    def _keep_rows(self, rest: Integers, total: str) -> CellCounts:
        """The counts of some rows, with words for the total that was left out."""
        keys = {}
        for name, one in self.keys.items():
            used, codes = np.unique(one.codes[rest], return_inverse=True)
            keys[name] = KeyColumn(codes, one.words[used], one.spellings - one.size + len(used))
        sides = (self.least[rest], self.most[rest], self.hidden[rest], self.free[rest])
        return CellCounts(keys, self.names, *sides, (*self.totals, total))


def _shortened_list(names: Sequence[str]) -> str:
    """Names in words: at most three, or two and the number of others."""
    return join_words([*names]) if len(names) <= 3 else f"{names[0]}, {names[1]} and {len(names) - 2} others"


def _pivot(values: Integers, rows: Integers, categories: Integers, shape: tuple[int, int]) -> Integers:
    """Counts (row, column) as an array ((combination of other keys, column of counts), category)."""
    table = _sums(values, rows * shape[1] + categories, shape[0] * shape[1]).reshape(*shape, -1)
    return np.moveaxis(table, -1, 1).reshape(-1, shape[1])


def _sums(values: Integers, codes: Integers, size: int = 0) -> Integers:
    """Sums (code, column) of values (row, column) over rows of the same code; at least `size` codes."""
    sums = np.zeros((max(size, int(codes.max()) + 1), values.shape[1]), dtype=np.int64)
    np.add.at(sums, codes, values)
    return sums


class Total(NamedTuple):
    """Category that is a sum of others.

    Parameters
    ----------
    category : its index
    parts : indices of its summands; none if it is a total by its name alone
    """

    category: int
    parts: tuple[int, ...]


def _agreement(least: Integers, most: Integers, free: Any, low: Integers, high: Integers) -> tuple[Any, Any]:
    """(True for counts that can be sums between `low` and `high`, evidence in nats that they are not so by chance).

    A count suppressed without a limit (`free`) can be any sum from `least` up, and is no evidence; a wide range is less
    evidence than a narrow one.
    """
    agrees = (least <= high) & (free | (most >= low))
    return agrees, np.where(free, 0.0, np.maximum(np.log1p(least) - np.log1p(high - low + most - least), 0.0))


def find_total(
    least: Integers, most: Integers, names: Sequence[Any], allowed: Collection[int] = (), free: Any = False
) -> Total | None:
    """First category that is the sum of others in every row.

    Parameters
    ----------
    least, most : smallest and largest possible counts, (row, category); a category that a row does not list is 0
    names : of the categories
    allowed : indices of categories that are no totals although they may look like it
    free : True for counts suppressed without a limit of their own, (row, category)

    Returns
    -------
    Total : of all others, or of a run of neighbours; else a category named as a total; None without any

    >>> counts = np.array([[3, 4, 7], [0, 5, 5]])
    >>> find_total(counts, counts, ["men", "women", "total"])
    Total(category=2, parts=(0, 1))
    """
    n = len(names)
    named_total = np.array([is_named(name, TOTALS) for name in names], dtype=bool)
    named_total[[*allowed]] = False
    if n > 2:
        low, high = least.sum(axis=1, keepdims=True) - least, most.sum(axis=1, keepdims=True) - most
        free = np.broadcast_to(free, least.shape)
        agrees, evidence = _agreement(least, most, free, low, high)
        candidates = agrees.all(axis=0) & (least.sum(axis=0) > 0) & (named_total | (evidence.sum(axis=0) > CHANCE))
        candidates[[*allowed]] = False
        for j in np.flatnonzero(candidates):
            return Total(int(j), tuple(i for i in range(n) if i != j))
        total = _total_of_run(least[:SAMPLE], most[:SAMPLE], free[:SAMPLE], allowed)
        if total is not None:
            own, parts = total.category, [*total.parts]
            sums = (one[:, parts].sum(axis=1) for one in (least, most))
            if _agreement(least[:, own], most[:, own], free[:, own], *sums)[0].all():
                return total
    return Total(int(named_total.argmax()), ()) if n > 1 and named_total.any() else None


def _total_of_run(least: Integers, most: Integers, free: Any, allowed: Collection[int]) -> Total | None:
    """Category that is the sum of a run of at least two categories just after or just before it; None without any."""
    n = least.shape[1]
    if n > MOST_RUNS:
        return None
    zero = np.zeros((len(least), 1), dtype=np.int64)
    low, high = (np.cumsum(np.concatenate([zero, one], axis=1), axis=1) for one in (least, most))
    # more evidence than for one sum, as about n^2 runs are tried
    enough = CHANCE + 2.0 * np.log(n)
    for j in np.setdiff1d(np.flatnonzero(np.log1p(least).sum(axis=0) > enough), [*allowed]):
        own = least[:, [j]], most[:, [j]], free[:, [j]]
        after = _agreement(*own, *(one[:, j + 3 :] - one[:, [j + 1]] for one in (low, high)))
        before = _agreement(*own, *(one[:, [j]] - one[:, : max(j - 1, 0)] for one in (low, high)))
        ends, starts = (np.flatnonzero(a.all(axis=0) & (e.sum(axis=0) > enough)) for a, e in (after, before))
        if len(ends):
            return Total(int(j), tuple(range(j + 1, j + 3 + int(ends[0]))))
        if len(starts):
            return Total(int(j), tuple(range(int(starts[-1]), int(j))))
    return None
