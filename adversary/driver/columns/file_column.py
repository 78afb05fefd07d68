"""A column of a file, as categories and as numbers; each different entry is parsed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from adversary._core import Integers
from adversary.driver.columns.column_names import folded, tidied
from adversary.driver.columns.text_numbers import NumberColumn, read_numbers


@dataclass(frozen=True, eq=False)
class KeyColumn:
    """Categories of a column that names cells.

    Parameters
    ----------
    codes : index of each row's category
    words : name of each category, to show; "" for blanks
    spellings : number of different spellings in the file, at least that of categories

    >>> import pandas as pd
    >>> KeyColumn.of(pd.Series(["North", "north ", "South"])).words.tolist()
    ['North', 'South']
    """

    codes: Integers
    words: Any
    spellings: int

    @classmethod
    def of(cls, series: Any) -> KeyColumn:
        """Categories of a series; names that differ in blanks, case or Unicode form alone are one."""
        import pandas as pd

        raw, unique = pd.factorize(series)
        words = [tidied(int(one) if isinstance(one, float) and one % 1.0 == 0.0 else one) for one in unique]
        if (raw < 0).any():
            raw = np.where(raw < 0, len(words), raw)
            words.append("")
        same = pd.factorize(np.array([folded(word) for word in words], dtype=object))[0]
        first = np.unique(same, return_index=True)[1]
        return cls(np.asarray(same[raw], dtype=np.int64), np.array(words, dtype=object)[first], len(words))

    @property
    def size(self) -> int:
        """Number of categories."""
        return len(self.words)


class FileColumn:
    """Column of a file, a pandas Series whose categories and numbers are parsed when they are needed.

    Parameters
    ----------
    series : its entries, words or numbers

    >>> import pandas as pd
    >>> column = FileColumn(pd.Series(["1,204", "<5"]))
    >>> column.numbers().most.tolist(), column.entry(1)
    ([1204, 4], '<5')
    """

    def __init__(self, series: Any) -> None:
        self.series = series

    def __len__(self) -> int:
        return len(self.series)

    @cached_property
    def key(self) -> KeyColumn:
        """Its categories."""
        return KeyColumn.of(self.series)

    @property
    def words(self) -> Any:
        """Names of its categories."""
        return self.key.words

    @cached_property
    def is_typed(self) -> bool:
        """True if pandas has the column as numbers or booleans, False for words."""
        import pandas as pd

        kinds = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype
        return any(kind(self.series.dtype) for kind in kinds)

    @property
    def is_empty(self) -> bool:
        """True if every entry is blank."""
        return bool(self.series.isna().all()) if self.is_typed else not any(self.words)

    def entry(self, row: int) -> str:
        """The entry of a row as text; "" for a missing one."""
        one = self.series.iloc[row]
        return "" if one is None or one != one else tidied(one)

    def rows_of(self, word: str) -> Integers:
        """Indices of the rows of a category."""
        code = [folded(one) for one in self.words].index(folded(word))
        return np.flatnonzero(self.key.codes == code)

    def numbers(self, decimal: str | None = None, separator: str = ",") -> NumberColumn | None:
        """Its whole numbers, as `read_numbers` returns them; None if it has other words."""
        if self.is_typed:
            return read_numbers(self.series)
        numbers = read_numbers(self.words, decimal, separator)
        return None if numbers is None else numbers.take(self.key.codes)


def joint_codes(columns: Sequence[KeyColumn], size: int) -> Integers:
    """Code of each row's combination of categories, numbered in the order of appearance.

    Parameters
    ----------
    columns : of the same rows
    size : number of rows
    """
    import pandas as pd

    code = np.zeros(size, dtype=np.int64)
    for one in columns:
        code = np.asarray(pd.factorize(code * one.size + one.codes)[0], dtype=np.int64)
    return code


def duplicate(columns: Mapping[str, FileColumn], keys: Sequence[str]) -> tuple[int, int] | None:
    """Indices (earlier, later) of the first two rows of the same cell; None if all cells are different.

    Parameters
    ----------
    columns : by name
    keys : columns that name cells; without any all rows are of one cell
    """
    import pandas as pd

    size = len(next(iter(columns.values())))
    code = joint_codes([columns[one].key for one in keys], size)
    repeats = np.flatnonzero(pd.Series(code).duplicated().to_numpy())
    return (int(np.flatnonzero(code == code[repeats[0]])[0]), int(repeats[0])) if len(repeats) else None


def lies_in(inner: KeyColumn, outer: KeyColumn) -> bool:
    """True if every category of the inner column occurs with one category of the outer one only.

    Parameters
    ----------
    inner, outer : columns of the same rows

    >>> import pandas as pd
    >>> block, tract = (KeyColumn.of(pd.Series(one)) for one in (["1", "2", "3"], ["A", "A", "B"]))
    >>> lies_in(block, tract), lies_in(tract, block)
    (True, False)
    """
    pairs = joint_codes([inner, outer], len(inner.codes))
    return int(pairs.max()) == int(joint_codes([inner], len(inner.codes)).max())
