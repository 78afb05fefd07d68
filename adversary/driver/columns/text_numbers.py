"""Numbers as offices write them: 1,204 or 1.204 or 1 204, decimal commas, "<5" and marks of suppressed cells.

"1.204" is 1,204 people or a share with three decimals. The column decides with all its entries, then the other columns
of the file; where neither does, the column is unclear and nobody guesses.
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

# The largest count of an entry that says nothing of it.
NO_LIMIT = -1
_SPACES = " \u00a0\u2007\u2009\u202f'’"
_BELOW = re.compile(r"(?P<sign><=|≤|<|under|below|less than|unter)\s*(?P<limit>\d{1,6})", re.IGNORECASE)
_NUMBER = re.compile(
    rf"(?P<sign>[+\-−]\s?)?(?P<whole>\d{{1,3}}(?P<group>[.,{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*|\d+)?"
    r"(?:(?P<mark>[.,])(?P<fraction>\d*))?(?P<power>[eE][+-]?\d{1,2})?(?P<percent>\s?%)?"
)


@dataclass(frozen=True)
class NumberColumn:
    """Whole numbers of a column.

    Parameters
    ----------
    least : by row; of a suppressed entry 0
    most : the largest that each can be; `NO_LIMIT` where the entry does not say
    decimal : the first entry that is no whole number, such as a share, or ""
    unclear : the first entry of which the decimal mark cannot be settled, or ""

    >>> NumberColumn(np.array([3, 0]), np.array([3, 4])).hidden.tolist()
    [False, True]
    """

    least: Integers
    most: Integers
    decimal: str = ""
    unclear: str = ""

    def take(self, codes: Integers) -> NumberColumn:
        """The numbers of rows, from those of different entries."""
        return NumberColumn(self.least[codes], self.most[codes], self.decimal, self.unclear)

    @property
    def hidden(self) -> Any:
        """Entries that are suppressed, by row."""
        return self.most != self.least


@dataclass(frozen=True)
class _Entry:
    """One entry, as it is written."""

    kind: str
    match: Any = None

    @classmethod
    def of(cls, text: str) -> _Entry:
        if text.casefold() in MARKS:
            return cls("mark")
        if below := _BELOW.fullmatch(text):
            return cls("below", below)
        number = _NUMBER.fullmatch(text)
        if number is None or not (number["whole"] or number["fraction"]):
            return cls("words")
        if number["whole"] and number["whole"][0] == "0" and len(number["whole"]) > 1 and not number["group"]:
            return cls("words")  # a code such as 01001
        return cls("number", number)

    @property
    def two_ways(self) -> bool:
        """True of 1.204 and 1,204: one group of three digits and no other mark."""
        m = self.match
        return bool(
            self.kind == "number"
            and m["group"] in (".", ",")
            and len(m["whole"]) <= 7
            and not m["mark"]
            and not m["percent"]
            and m["whole"][0] != "0"
        )

    @property
    def decimal_mark(self) -> str:
        """The decimal mark that the entry shows without a doubt, or ""."""
        if self.kind != "number" or self.two_ways:
            return ""
        m = self.match
        if m["group"] in (".", ",") and m["whole"][0] != "0":
            return "," if m["group"] == "." else "."
        return str(m["mark"] or (m["group"] if m["group"] in (".", ",") else ""))

    def value(self, decimal: str) -> float:
        """The number, with this decimal mark."""
        m = self.match
        whole, fraction = m["whole"] or "0", m["fraction"] or ""
        if m["group"] == decimal or (m["group"] in (".", ",") and whole[0] == "0"):
            whole, _, fraction = whole.partition(m["group"])
        text = re.sub(rf"[.,{_SPACES}]", "", whole) + (f".{fraction}" if fraction else "") + (m["power"] or "")
        return (-1.0 if m["sign"] and m["sign"][0] != "+" else 1.0) * float(text)


def decimal_marks(entries: Iterable[Any]) -> set[str]:
    """The decimal marks that entries of a column show without a doubt.

    Parameters
    ----------
    entries : of a column, words

    Returns
    -------
    A subset of {".", ","}; empty where no entry shows one, or where the column has words.

    >>> decimal_marks(["12,5", "1.204"]), decimal_marks(["1.204.311"]), decimal_marks(["1.204"])
    ({','}, {','}, set())
    """
    parsed = [_Entry.of(one) for one in {str(one).strip() for one in entries}]
    if any(one.kind == "words" for one in parsed):
        return set()
    return {mark for one in parsed if (mark := one.decimal_mark)}


def first_words(entries: Any) -> tuple[int, float]:
    """The first row whose entry is no number, and the share of rows whose entry is one.

    Parameters
    ----------
    entries : of a column, words

    >>> first_words(["3", "12a", "x", "4"])
    (1, 0.5)
    """
    kinds = [_Entry.of(str(one).strip()).kind for one in entries]
    first = kinds.index("words") if "words" in kinds else -1
    return first, kinds.count("number") / max(len(kinds), 1)


def read_numbers(entries: Any, decimal: str | None = None, separator: str = ",") -> NumberColumn | None:
    """The whole numbers of a column; None of a column with other words.

    Parameters
    ----------
    entries : words, or numbers of a typed column
    decimal : the decimal mark of the file where it is known, "." or ","
    separator : of the file's columns: where it is a comma, "1,204" had quotes and is no decimal number

    Returns
    -------
    NumberColumn. None where an entry is neither a number nor a mark, or no entry is a number.

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
    parsed = [_Entry.of(one) for one in unique]
    numbers = [one for one in parsed if one.kind == "number"]
    if not numbers or any(one.kind == "words" for one in parsed):
        return None
    marks = {mark for one in numbers if (mark := one.decimal_mark)}
    own = decimal if not marks else marks.pop() if len(marks) == 1 else None
    unclear = ""
    if own is None:
        doubtful = [(one, text) for one, text in zip(parsed, unique, strict=True) if one.two_ways]
        settled = _settled(numbers, {str(one.match["group"]) for one, _ in doubtful}, separator)
        unclear = "" if settled or not doubtful else str(doubtful[0][1])
        unclear = unclear or (next(t for p, t in zip(parsed, unique, strict=True) if p.decimal_mark) if marks else "")
        own = settled or "."
    least, most, decimal_entry = np.zeros(len(unique), np.int64), np.zeros(len(unique), np.int64), ""
    for i, (one, text) in enumerate(zip(parsed, unique, strict=True)):
        if one.kind == "mark":
            most[i] = NO_LIMIT
        elif one.kind == "below":
            most[i] = int(one.match["limit"]) - (one.match["sign"] not in ("<=", "≤"))
        else:
            value = one.value(own)
            if value % 1.0 or one.match["percent"] or abs(value) > LARGEST:
                decimal_entry = decimal_entry or str(text)
            else:
                least[i] = most[i] = int(value)
    return NumberColumn(least[codes], most[codes], decimal_entry, unclear)


def _settled(numbers: list[_Entry], groups: set[str], separator: str) -> str:
    """The decimal mark of a column with entries such as 1.204 alone and no other evidence in the file, or ""."""
    plain = [len(one.match["whole"]) for one in numbers if not one.match["group"]]
    if len(groups) != 1 or any(digits > 3 for digits in plain):
        return ""
    (group,) = groups
    if group == "," and separator == ",":
        return "."
    return "," if group == "." and separator == ";" and plain else ""


def _typed(series: Any) -> NumberColumn:
    """A column of numbers, read by a format that has types."""
    if series.dtype.kind in "iu" and not series.hasnans:
        whole = series.to_numpy(dtype=np.int64)
        return NumberColumn(whole, whole)
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(values)
    values = np.where(missing, 0.0, values)
    bad = (values % 1.0 != 0.0) | (np.abs(values) > LARGEST)
    whole = np.where(bad, 0.0, values).astype(np.int64)
    first = str(values[np.flatnonzero(bad)[0]]) if bad.any() else ""
    return NumberColumn(whole, np.where(missing, NO_LIMIT, whole), first)
