"""Reading of data files: CSV of any separator and encoding, Excel, Parquet, Stata, SPSS.

Entries of CSV and Excel stay words, with the zeros of codes and the marks of counts. Messages name rows by their line
in the file. Lines that are left out (a title, a second line of descriptions) are noted in the frame's `attrs["notes"]`,
the separator in `attrs["separator"]`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adversary._core import closest_name, join_words, missing_extra

if TYPE_CHECKING:
    import pandas as pd

# Separators of columns; of two that fit equally well, the first is chosen.
SEPARATORS = ";\t|,"

# Number of lines from which the separator is inferred.
SAMPLE = 200

# A longer file, if it has no quotes and the same number of columns in every line, is parsed by pandas, which is faster.
MANY = 5000

# Formats whose columns have types: the function of pandas, the library it needs, its options.
TYPED = {
    ".parquet": ("read_parquet", "pyarrow", {}),
    ".pq": ("read_parquet", "pyarrow", {}),
    ".dta": ("read_stata", "", {}),
    ".sav": ("read_spss", "pyreadstat", {}),
    ".zsav": ("read_spss", "pyreadstat", {}),
    ".sas7bdat": ("read_sas", "", {"encoding": "infer"}),
    ".xpt": ("read_sas", "", {"encoding": "infer"}),
}

# Kinds of files that are refused, with the remedy.
OTHERS = {
    ".toml": "a TOML file; adversary tables FILE.toml reads one of several tables",
    ".xls": "a file of Excel before 2007; save it as .xlsx or CSV",
    ".ods": "a spreadsheet of OpenDocument; save it as .xlsx or CSV",
    ".rds": "a file of R; write it with write.csv",
    ".rdata": "a file of R; write it with write.csv",
    ".pkl": "a pickle, which may run code; write it with DataFrame.to_csv",
    ".json": "JSON; write it as CSV",
    ".pdf": "PDF; a table is read from CSV or Excel",
    ".zip": "an archive; give the file inside",
    ".gz": "an archive; give the file inside",
}
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x19\x1c-\x1f]")
_MARKUP = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)

# A single entry with more letters in the last line is taken for a note, not for the name of a place.
LONG = 60

# Beginnings of notes under a table.
NOTES = ("source", "quelle", "note", "notes", "anmerkung", "hinweis", "fuente", "©", "*", "stand:", "erstellt")


def load_table_data(path: str | Path, *, sheet: str | None = None) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Read a file of people or counts.

    Parameters
    ----------
    path : CSV (separated by comma, semicolon, tab or bar; UTF-8, UTF-16 with a byte order mark, or Windows-1252),
        .xlsx, .parquet, .dta, .sav or .sas7bdat
    sheet : of an Excel file with several

    Returns
    -------
    (frame, function from a row's index to its name in messages: "line 3", "row 3 of sheet 'Data'").

    Raises
    ------
    OSError : the file cannot be read
    ValueError : another kind of file, a library that is missing (the message names the extra), an empty file, names
        that are missing, or a row that has not one entry for each column; the message names the line
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix in OTHERS:
        raise ValueError(f"must be CSV, Excel, Parquet, Stata or SPSS, got {OTHERS[suffix]}")
    if suffix in TYPED and sheet is None:
        return _typed(file, *TYPED[suffix]), lambda row: f"row {row + 1}"
    given = file.read_bytes()
    if given.startswith(b"PK\x03\x04"):
        return _from_excel(given, sheet)
    if suffix in (".xlsx", ".xlsm"):
        raise ValueError("must be an Excel file (.xlsx) by its name, got another or a damaged one: save it as CSV")
    if sheet is not None:
        raise ValueError(f"sheet must be left out, as only an Excel file (.xlsx) has sheets, got {sheet!r}")
    if given.startswith((b"PAR1", b"\xd0\xcf\x11\xe0", b"%PDF", b"\x1f\x8b", b"\x89")):
        raise ValueError(f"must be CSV, Excel, Parquet, Stata or SPSS by its name, got {file.suffix or 'no ending'}")
    return _from_text(given)


def _typed(file: Path, function: str, library: str, options: dict[str, Any]) -> pd.DataFrame:
    """Data frame of a file whose columns have types, read by a function of pandas."""
    import pandas as pd

    try:
        return getattr(pd, function)(file, **options)
    except ImportError:
        raise ValueError(str(missing_extra(f"{file.suffix} files need {library}", "tables"))) from None
    except OSError:
        raise
    # each library has errors of its own
    except Exception as error:
        raise ValueError(f"must be a file of the format {file.suffix}, got {error}") from None


def _from_excel(given: bytes, sheet: str | None) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Frame and names of rows of an Excel file: of its only sheet with entries, or the one that is named."""
    import pandas as pd

    try:
        sheets = pd.read_excel(io.BytesIO(given), sheet_name=None, header=None, dtype=str, na_filter=False)
    except ImportError:
        raise ValueError(str(missing_extra("Excel files need openpyxl", "tables"))) from None
    # openpyxl has errors of its own
    except Exception:
        raise ValueError("must be an Excel file (.xlsx), got another or a damaged one: save it as CSV") from None
    full = {str(name): one for name, one in sheets.items() if not one.empty}
    if sheet is not None and sheet not in full:
        there = join_words(list(full)) or "none"
        raise ValueError(f"no sheet {sheet!r} with entries; there are {there}{closest_name(sheet, full)}")
    if sheet is None and len(full) > 1:
        raise ValueError(f"has the sheets {join_words(list(full))}: name one, --sheet {next(iter(full))!r}")
    if not full:
        raise ValueError("the file is empty: its first line must name the columns")
    name = sheet or next(iter(full))
    rows = [[str(entry) for entry in row] for row in full[name].to_numpy()]
    return _frame(rows, [*range(1, len(rows) + 1)], lambda line: f"row {line} of sheet {name!r}", ",", [])


def _from_text(given: bytes) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Frame and names of rows of a text file."""
    text, notes = _decoded(given)
    if _MARKUP.match(text):
        raise ValueError("must be CSV, got a page of HTML or XML, as a site sends in place of a file: fetch it again")
    first, _, rest = text.partition("\n")
    # a line "sep=;" at the top is how Excel names the separator
    if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:
        separator, text = first.strip()[-1], "\n" + rest
    else:
        separator = _separator(text)
    if (every := _evenly(text, separator)) and (long := _from_even_lines(text, every, separator, notes)):
        return long
    rows, lines = [], []
    parsed = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for row in parsed:
            rows.append(row)
            lines.append(parsed.line_num)
    except csv.Error as error:
        raise ValueError(f"line {lines[-1] + 1 if lines else 1}: must be CSV, got {error}") from None
    return _frame(rows, lines, "line {}".format, separator, notes)


def _evenly(text: str, separator: str) -> list[str]:
    """Lines of a long text that all have the same number of columns, no quotes and are not blank; else none."""
    if '"' in text or "\r" in text.replace("\r\n", "\n"):
        return []
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    width = lines[0].count(separator)
    even = len(lines) > MANY and all(line.count(separator) == width and line for line in lines)
    return lines if even else []


def _from_even_lines(
    text: str, lines: list[str], separator: str, notes: list[str]
) -> tuple[pd.DataFrame, Callable[[int], str]] | None:
    """Frame and names of rows of a long file, parsed by pandas; None if it has columns without a name.

    Titles and notes are looked for in its first and last lines alone.
    """
    import pandas as pd

    ends = [*range(SAMPLE), *range(len(lines) - SAMPLE, len(lines))]
    sample, where = _frame([lines[i].split(separator) for i in ends], [i + 1 for i in ends], str, separator, notes)
    first = int(where(0))
    if len(sample.columns) != lines[0].count(separator) + 1:
        return None
    options: dict[str, Any] = {"sep": separator, "header": None, "quoting": csv.QUOTE_NONE, "skip_blank_lines": False}
    frame = pd.read_csv(io.StringIO(text), skiprows=first - 1, dtype=str, na_filter=False, **options)
    frame = frame.set_axis(sample.columns, axis=1)
    frame.attrs |= sample.attrs
    return frame, lambda row: f"line {first + row}"


def _decoded(given: bytes) -> tuple[str, list[str]]:
    """(text of a file, a note if its encoding is not Unicode)."""
    if given.startswith((b"\xff\xfe", b"\xfe\xff")):
        return given.decode("utf-16"), []
    if b"\0" in given:
        raise ValueError("must be text in UTF-8, UTF-16 with a byte order mark, or Windows-1252, got the character NUL")
    if control := _CONTROL.search(given):
        raise ValueError(f"must be a table in text, got the character {control[0][0]:#04x}, which no text has")
    for encoding, name in (("utf-8-sig", ""), ("cp1252", "Windows-1252"), ("latin-1", "Latin-1")):
        try:
            return given.decode(encoding), [f"Encoding: {name}."] if name else []
        except UnicodeDecodeError:
            continue
    raise AssertionError("every file is Latin-1")


def _separator(text: str) -> str:
    """Separator by which most lines have the same number of columns, more than one; a comma if none has."""
    sample = "\n".join(text.splitlines()[:SAMPLE])
    best, chosen = (0.0, 1), ","
    for separator in SEPARATORS:
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(sample), delimiter=separator) if any(row)]
        except csv.Error:
            continue
        if not widths:
            continue
        width, times = max(Counter(widths).items(), key=lambda one: (one[1] * (one[0] > 1), one[0]))
        if width > 1 and (times / len(widths), width) > best:
            best, chosen = (times / len(widths), width), separator
    return chosen


def _frame(
    rows: list[list[str]], lines: list[int], place: Callable[[int], str], separator: str, notes: list[str]
) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Frame with names of columns, without titles above them and a line of descriptions below; and names of rows.

    `lines` are the lines of the rows in the file, `place` the name of a line in messages.
    """
    import pandas as pd

    table = [(row, line) for row, line in zip(rows, lines, strict=True) if any(map(str.strip, row))]
    if not table:
        raise ValueError("the file is empty: its first line must name the columns")
    above = _titles([[one.strip() for one in row] for row, _ in table])
    notes = [*notes, *_left_out([line for _, line in table[:above]], "above the names of the columns")]
    (names, first), *body = table[above:]
    head = [name.strip() for name in names]
    width = max((i + 1 for i, name in enumerate(head) if name), default=0)
    head = head[:width]
    body = [(row if any(map(str.strip, row[width:])) else row[:width], line) for row, line in body]
    # a first column without a name, as in files of R with row names or a table of two features
    if body and not head[0] and all(head[1:]):
        head = ["column 1", *head[1:]]
    if not all(head):
        raise ValueError(
            f"{place(first)}: must name every column, got no name for column {head.index('') + 1}: write the names in "
            "one row, and remove lines above it"
        )
    for row, line in body:
        if len(row) != width:
            other = next((one for one in SEPARATORS if len(row) == 1 < width and one in row[0]), "")
            hint = f": its separator is {separator!r} elsewhere, and may be {other!r} here" if other else ""
            raise ValueError(f"{place(line)}: must have a cell for each of {width} columns, got {len(row)}{hint}")
    _refuse_note(body, width, place)
    frame = pd.DataFrame([row for row, _ in body], columns=head, dtype=object)
    below = _has_descriptions(frame)
    notes += _left_out([body[0][1]] if below else [], "which describe the columns")
    frame = frame.iloc[below:].reset_index(drop=True)
    frame.attrs |= {"separator": separator, "notes": notes}
    numbers = [line for _, line in body[below:]]
    return frame, lambda row: place(numbers[row])


def _left_out(lines: Sequence[int], what: str) -> list[str]:
    """Sentence on lines that are left out, and what they are; none without lines."""
    if not lines:
        return []
    ends = f"Line {lines[0]}" if len(lines) == 1 else f"Lines {lines[0]} to {lines[-1]}"
    verb = "is" if len(lines) == 1 else "are"
    return [f"{ends}, {what.replace('describe', 'describes' if len(lines) == 1 else 'describe')}, {verb} left out."]


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """Number of title lines, with a single entry each, above the names of the columns."""
    filled = [sum(map(bool, row)) for row in rows]
    usual = Counter(filled).most_common(1)[0][0]
    above = next((i for i, n in enumerate(filled) if n > 1), 0)
    return above if usual > 1 else 0


def _refuse_note(body: Sequence[tuple[list[str], int]], width: int, place: Callable[[int], str]) -> None:
    """ValueError for a note under the table, which would otherwise be read as one more place."""
    if not body or width < 2:
        return
    row, line = body[-1]
    alone = bool(row[0].strip()) and not any(map(str.strip, row[1:]))
    text = row[0].strip().casefold()
    if alone and (width > 3 or len(text) > LONG or text.startswith(NOTES) or text[1:2] == ")"):
        raise ValueError(
            f"{place(line)}: has one entry alone, {row[0][:60]!r}: remove the line if it is a note, or fill it in"
        )


def _has_descriptions(frame: pd.DataFrame) -> int:
    """1 if the first row describes the columns, in words where all other rows have numbers (files of NHGIS); else 0."""
    from adversary.driver.columns import read_numbers

    if len(frame) < 2 or not all(frame.iloc[0]):
        return 0
    counted = [i for i in range(frame.shape[1]) if read_numbers(frame.iloc[1:, i]) is not None]
    words = [i for i in counted if read_numbers(frame.iloc[:2, i]) is None and any(map(str.isalpha, frame.iloc[0, i]))]
    return int(words == counted and len(words) > ("GISJOIN" not in frame.columns))
