"""Reading of TOML with limits, errors that name usual mistakes with their remedy, and values as TOML for messages.

Nothing in a file is executed. A file of more than 1 MiB or nested more than 20 deep is refused before it is parsed: the
parser takes quadratic time for long keys, and recurses into brackets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from adversary.report.files.tables.table_data import TYPED

# Limits of a TOML file: its size in bytes, and the depth of nesting.
MOST_BYTES, DEEPEST = 2**20, 20

# Whole numbers of TOML have 64 bits.
_WHOLE = 2**63

# Strings and comments, which are removed before brackets are counted. Possessive quantifiers rule out backtracking.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*+"?|\'[^\'\n]*+\'?|#[^\n]*', re.DOTALL
)

# Tables of which a file may have several, by name.
PLURALS = {"adversary": "adversaries", "truth": "truths", "profile": "profiles"}

# Dotted keys nested deeper than the limit.
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}")

# Usual mistakes in a line, as regular expressions, with their remedy; the first that matches is named.
_SLIPS = {
    r"[“”„‘’]": 'quotes are straight, "..."',
    r"^[{<]": "this looks like another format: a file of adversary is TOML, keys and values as in rho = 0.5",
    r"=\s*-?[\d.]+\s*%": "write 10% as 0.1",
    r"=\s*-?\d+,\d": "numbers have a point, as 0.5, and no comma",
    r"^[\w-]+ +[\w-][\w -]*=": 'a name of several words has quotes, as "my district" = 12',
}


def read_toml(file: Path) -> dict[str, Any]:
    """Read a TOML file with limits on its size, its depth and its whole numbers.

    Parameters
    ----------
    file : path of the file, UTF-8, at most 1 MiB

    Returns
    -------
    Its document: nested dictionaries, lists and values.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, too long, nested more than 20 deep, or has a whole number of more than 64 bits; the
        message names the file
    """
    kind = file.suffix.lower()
    if kind in (".csv", ".tsv", ".xlsx", *TYPED):
        raise ValueError(
            f"{file}: must be a TOML file, got {kind[1:].upper()}; a table of counts is audited by: "
            f'adversary tables {file} --table "PLACE: FEATURES, rho 0.1"'
        )
    with file.open("rb") as opened:
        given = opened.read(MOST_BYTES + 1)
    if len(given) > MOST_BYTES:
        raise ValueError(f"{file}: must be a TOML file of at most {MOST_BYTES:,} bytes (1 MiB), got a longer one")
    try:
        # Windows editors begin a file with a byte order mark
        text = given.decode("utf-8-sig")
        bare = _STRING.sub("s", text)
        depth = max(accumulate((x in "[{") - (x in "]}") for x in re.findall(r"[][{}]", bare)), default=0)
        document = None if depth > DEEPEST or _LONG_KEY.search(bare) else tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = given.count(b"\n", 0, error.start) + 1
        what = "UTF-16" if given.startswith((b"\xff\xfe", b"\xfe\xff")) else f"another encoding in line {line}"
        raise ValueError(f"{file}: not a TOML file: must be in UTF-8, got {what}: save it as UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{file}: not a TOML file: {_slip(given, str(error))}") from None
    if document is None:
        raise ValueError(f"{file}: must be nested at most {DEEPEST} deep, brackets and keys, got more")
    _check_values(document, file)
    return document


def _slip(given: bytes, error: str) -> str:
    """Error of the parser with its line in the file, and the likely mistake."""
    place = re.search(r" \(at line (\d+), column \d+\)", error)
    if place is None:
        return error
    line = given.decode("utf-8-sig").split("\n")[int(place[1]) - 1].strip()[:80]
    if "twice" in error or "overwrite" in error:
        name = line.strip("[] ").partition("=")[0].strip()
        several = f"; several have names, as [{PLURALS[name]}.NAME]" if name in PLURALS else ""
        brackets = "" if "=" in line or several else "; of several each is in two brackets, as [[plan.level]]"
        return f"line {place[1]}: {name!r} stands twice, {line!r}: leave one out{several}{brackets}"
    hints = (hint for slip, hint in _SLIPS.items() if re.search(slip, line))
    hint = next(hints, "words have double quotes, numbers a point")
    return f"line {place[1]}: {error.removesuffix(place[0])}, got {line!r}; {hint}"


def as_toml(value: Any) -> str:
    """Value written as TOML, for messages.

    Parameters
    ----------
    value : of a TOML document

    >>> as_toml({"upper": 10, "flat": [True, "x"]})
    "{ upper = 10, flat = [true, 'x'] }"
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float | str) else str(value)


def _check_values(document: Mapping[str, Any], file: Path) -> None:
    """ValueError for too deep nesting, whole numbers of more than 64 bits, and NUL, which NetCDF cannot store."""
    waiting: list[tuple[str, int, Any]] = [("", 0, document)]
    for key, depth, value in waiting:
        if depth > DEEPEST:
            raise ValueError(f"{file}: {key}: must be nested at most {DEEPEST} deep")
        if "\0" in key or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{file}: {key!r}: must be without the character NUL, got {value!r}")
        if isinstance(value, Mapping):
            waiting += [(f"{key}.{name}" if key else name, depth + 1, one) for name, one in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{key}[{i}]", depth + 1, one) for i, one in enumerate(value, 1)]
        elif isinstance(value, int) and not -_WHOLE <= value < _WHOLE:
            raise ValueError(
                f"{file}: {key}: must be a whole number of at most 64 bits, got one of {value.bit_length()}"
            )


def written_otherwise(text: str) -> str:
    """Remedy for a text that should be a number, to end an error: a percentage or decimal comma written as a number.

    Parameters
    ----------
    text : as it was given

    >>> written_otherwise("10 %"), written_otherwise("0,5"), written_otherwise("ten")
    ('; write 10 % as 0.1', '; write 0,5 as 0.5', '')
    """
    number = text.strip().removesuffix("%").strip().replace(",", ".", 1)
    try:
        value = float(number)
    except ValueError:
        return ""
    return f"; write {text.strip()} as {value / 100 if '%' in text else value:g}"
