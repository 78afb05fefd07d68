"""A table of counts as CSV: cells stay words, and every row knows its line."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_counts(path: str | Path) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Read a CSV file whose first line names its columns; cells stay words, which `audit_table` checks.

    Parameters
    ----------
    path : the file, in UTF-8

    Returns
    -------
    (table, what errors call a row, by its place: "line 3").

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is empty, not CSV in UTF-8, or a row has not one cell for each column; the message names the line
    """
    import pandas as pd

    rows, lines = [], []
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"line {reader.line_num + 1}: must be CSV in UTF-8, got {error}") from None
    if not names:
        raise ValueError("the file is empty: its first line must name the columns")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise ValueError(f"line {line}: must have a cell for each of {len(names)} columns, got {len(row)}")
    frame = pd.DataFrame(rows, columns=[name.strip() for name in names], dtype=object)
    return frame, lambda row: f"line {lines[row]}"
