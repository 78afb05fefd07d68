"""Parsing of numbers as offices write them: 1,204 or 1.204 or 1 204, decimal commas, "<5", marks of suppression.

"1.204" is 1,204 people or a share with three decimals. All entries of the column decide, then the other columns of the
file; if neither do, the column is ambiguous ("unclear") and is refused by its user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import Integers

# Entries, in lower case, that stand in place of a count.
MARKS = frozenset(
    (
        "",
        *[
            "x",
            "c",
            "s",
            "z",
            ".",
            "..",
            "...",
            "…",
            "na",
            "n/a",
            "n.a.",
            "nan",
            "<na>",
            "null",
            "none",
            "*",
            "**",
            "***",
            "-",
            "–",
            "—",
            "−",
            ":",
            "/",
            "#",
            "(x)",
            "(c)",
        ],
    )
)

# Beyond it doubles do not hold every whole number.
LARGEST = 2**53

# In place of the largest possible count, for a suppressed entry that does not state it.
NO_LIMIT = -1

# Separators of groups of digits: blanks of several widths and apostrophes.
_SPACES = " \u00a0\u2007\u2009\u202f'’"
_BELOW = re.compile(r"(?P<sign><=|≤|<|under|below|less than|unter)\s*(?P<limit>\d{1,6})", re.IGNORECASE)
_NUMBER = re.compile(
    rf"(?P<sign>[+\-−]\s?)?(?P<whole>\d{{1,3}}(?P<group>[.,{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*|\d+)?"
    r"(?:(?P<mark>[.,])(?P<fraction>\d*))?(?P<power>[eE][+-]?\d{1,2})?(?P<percent>\s?%)?"
)


@dataclass(frozen=True)
class NumberColumn:
    """Whole numbers of a column, as ranges if entries are suppressed.

    Parameters
    ----------
    least : smallest possible number, (row,); 0 for a suppressed entry
    most : largest possible number, (row,); `NO_LIMIT` if the entry does not state it
    decimal : the first entry that is no whole number, such as a share, or ""
    unclear : the first entry whose decimal mark is ambiguous, or ""

    >>> NumberColumn(np.array([3, 0]), np.array([3, 4])).hidden.tolist()
    [False, True]
    """

    least: Integers
    most: Integers
    decimal: str = ""
    unclear: str = ""

    def take(self, codes: Integers) -> NumberColumn:
        """Numbers of rows, from those of different entries and the index of each row's entry."""
        return NumberColumn(self.least[codes], self.most[codes], self.decimal, self.unclear)

    @property
    def hidden(self) -> Any:
        """True for suppressed entries, (row,)."""
        return self.most != self.least


@dataclass(frozen=True)
class _NumberText:
    """A parsed entry: its kind, "mark", "below", "words" or "number", and the match of its pattern."""

    kind: str
    match: Any = None

    @classmethod
    def of(cls, text: str) -> _NumberText:
        if text.casefold() in MARKS:
            return cls("mark")
        if below := _BELOW.fullmatch(text):
            return cls("below", below)
        number = _NUMBER.fullmatch(text)
        if number is None or not (number["whole"] or number["fraction"]):
            return cls("words")
        if number["whole"] and number["whole"][0] == "0" and len(number["whole"]) > 1 and not number["group"]:
            # a code such as 01001
            return cls("words")
        return cls("number", number)

    @property
    def two_ways(self) -> bool:
        """True for 1.204 and 1,204: groups of three digits separated by one kind of mark, and no other mark."""
        groups = self.match
        return bool(
            self.kind == "number"
            and groups["group"] in (".", ",")
            and len(groups["whole"]) <= 7
            and not groups["mark"]
            and not groups["percent"]
            and groups["whole"][0] != "0"
        )

    @property
    def decimal_mark(self) -> str:
        """Decimal mark that the entry implies, or "" if it implies none."""
        if self.kind != "number" or self.two_ways:
            return ""
        groups = self.match
        if groups["group"] in (".", ",") and groups["whole"][0] != "0":
            return "," if groups["group"] == "." else "."
        return str(groups["mark"] or (groups["group"] if groups["group"] in (".", ",") else ""))

    def value(self, decimal: str) -> float:
        """Value of a number, given the decimal mark."""
        groups = self.match
        whole, fraction = groups["whole"] or "0", groups["fraction"] or ""
        if groups["group"] == decimal or (groups["group"] in (".", ",") and whole[0] == "0"):
            whole, _, fraction = whole.partition(groups["group"])
        text = re.sub(rf"[.,{_SPACES}]", "", whole) + (f".{fraction}" if fraction else "") + (groups["power"] or "")
        return (-1.0 if groups["sign"] and groups["sign"][0] != "+" else 1.0) * float(text)


def decimal_marks(entries: Iterable[Any]) -> set[str]:
    """Decimal marks that entries of a column imply.

    Parameters
    ----------
    entries : of a column, words

    Returns
    -------
    A subset of {".", ","}; empty if no entry implies one, or the column has words

    >>> decimal_marks(["12,5", "1.204"]), decimal_marks(["1.204.311"]), decimal_marks(["1.204"])
    ({','}, {','}, set())
    """
    parsed = [_NumberText.of(one) for one in {str(one).strip() for one in entries}]
    if any(one.kind == "words" for one in parsed):
        return set()
    return {mark for one in parsed if (mark := one.decimal_mark)}


def first_words(entries: Any) -> tuple[int, float]:
    """Index of the first entry that is a word, -1 without any; and the share of entries that are numbers.

    Parameters
    ----------
    entries : of a column, words

    >>> first_words(["3", "12a", "x", "4"])
    (1, 0.5)
    """
    kinds = [_NumberText.of(str(one).strip()).kind for one in entries]
    first = kinds.index("words") if "words" in kinds else -1
    return first, kinds.count("number") / max(len(kinds), 1)


def read_numbers(entries: Any, decimal: str | None = None, separator: str = ",") -> NumberColumn | None:
    """Whole numbers of a column; None for a column with other words.

    Parameters
    ----------
    entries : words, or numbers of a typed column
    decimal : decimal mark of the file if it is known, "." or ","
    separator : of the file's columns: if it is a comma, "1,204" was in quotes and is no decimal number

    Returns
    -------
    NumberColumn; None if an entry is neither a number nor a mark of suppression, or no entry is a number

    >>> read_numbers(["1,204", "<5", ""]).most.tolist()
    [1204, 4, -1]
    >>> read_numbers(["1.204", "17"]).unclear, read_numbers(["1.204", "17"], ",").least.tolist()
    ('1.204', [1204, 17])
    """
    import pandas as pd

    series = pd.Series(entries)
    if pd.api.types.is_bool_dtype(series.dtype):
        return None
    if pd.api.types.is_numeric_dtype(series.dtype):
        return _typed(series)
    codes, unique = pd.factorize(series.astype(object).fillna("").astype(str).str.strip())
    parsed = [_NumberText.of(one) for one in unique]
    numbers = [one for one in parsed if one.kind == "number"]
    if not numbers or any(one.kind == "words" for one in parsed):
        return None
    marks = {mark for one in numbers if (mark := one.decimal_mark)}
    decimal_mark = decimal if not marks else marks.pop() if len(marks) == 1 else None
    unclear = ""
    if decimal_mark is None:
        doubtful = [(one, text) for one, text in zip(parsed, unique, strict=True) if one.two_ways]
        settled = _settled(numbers, {str(one.match["group"]) for one, _ in doubtful}, separator)
        unclear = "" if settled or not doubtful else str(doubtful[0][1])
        unclear = unclear or (next(t for p, t in zip(parsed, unique, strict=True) if p.decimal_mark) if marks else "")
        decimal_mark = settled or "."
    least, most, decimal_entry = np.zeros(len(unique), np.int64), np.zeros(len(unique), np.int64), ""
    for i, (one, text) in enumerate(zip(parsed, unique, strict=True)):
        if one.kind == "mark":
            most[i] = NO_LIMIT
        elif one.kind == "below":
            most[i] = int(one.match["limit"]) - (one.match["sign"] not in ("<=", "≤"))
        else:
            value = one.value(decimal_mark)
            if value % 1.0 or one.match["percent"] or abs(value) > LARGEST:
                decimal_entry = decimal_entry or str(text)
            else:
                least[i] = most[i] = int(value)
    return NumberColumn(least[codes], most[codes], decimal_entry, unclear)


def _settled(numbers: list[_NumberText], groups: set[str], separator: str) -> str:
    """Decimal mark of a column that has only entries such as 1.204, from lengths and the separator; "" if unknown.

    `groups` are the marks between groups of three digits.
    """
    plain = [len(one.match["whole"]) for one in numbers if not one.match["group"]]
    if len(groups) != 1 or any(digits > 3 for digits in plain):
        return ""
    (group,) = groups
    if group == "," and separator == ",":
        return "."
    return "," if group == "." and separator == ";" and plain else ""


def _typed(series: Any) -> NumberColumn:
    """Whole numbers of a typed column, such as one of a Parquet file; missing ones are suppressed."""
    if series.dtype.kind in "iu" and not series.hasnans:
        whole = series.to_numpy(dtype=np.int64)
        return NumberColumn(whole, whole)
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(values)
    values = np.where(missing, 0.0, values)
    not_whole = (values % 1.0 != 0.0) | (np.abs(values) > LARGEST)
    whole = np.where(not_whole, 0.0, values).astype(np.int64)
    first = str(values[np.flatnonzero(not_whole)[0]]) if not_whole.any() else ""
    return NumberColumn(whole, np.where(missing, NO_LIMIT, whole), first)
