"""Tables of a TOML file, read key by key with checks of type and range; unknown keys are refused.

An error names the file, the key, the rule and the value, and suggests the key that was probably meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from adversary._core import check_probability, closest_name, quoted
from adversary.report.files.kinds import ABOUT
from adversary.report.files.tables.table_data import load_table_data
from adversary.report.files.toml_text import as_toml, written_otherwise

# Range of the size of a parameter: powers of numbers within it are far from the limits of doubles.
LEAST, MOST = 1e-12, 1e12

# Regular expression of a product of fractions.
PRODUCT = r"\s*\d+(\.\d+)?(\s*/\s*\d+)?(\s*\*\s*\d+(\.\d+)?(\s*/\s*\d+)?)*\s*"
_NUMBER = 'a number such as 0.5, or a product of fractions such as "64/25 * 165/4099"'

# Keys of a whole file, which TOML takes for keys of a table if they are written below its name.
_TOP = ("title", "description", "source", "neighbours", "failure")


class Key(NamedTuple):
    """Declaration of a key of a file, used to read it, for the JSON schema and for starting files.

    Parameters
    ----------
    kind : "text", "word" (one of `words`), "whole", "number" (exact), "real", "numbers", "flag", "table", "open" (a
        table whose keys are checked by the function that reads it), "named" (tables by name), "rows" (a list of
        tables), "list" or "any" (checked by the function that reads it)
    about : meaning, in a line
    default : value if it is left out; None: nothing, {}: an empty table, ...: it is required
    words : the choices of a word
    keys : declarations of the keys of its table or tables; "*" stands for names chosen by the file
    example : in a starting file, as TOML; for "*" whole lines, for "rows" the keys of each table
    live : whether a starting file has it although it is not required
    rule : description of a valid value, for errors; by default that of its kind
    make : converter of a value, from (key, value); for a table, from that table; for "list" and "any", from the table
        that has the key, and the key
    """

    kind: str
    about: str
    default: Any = ...
    words: Sequence[str] = ()
    keys: Mapping[str, Any] = {}
    example: Any = ""
    live: bool = False
    rule: str = ""
    make: Callable[..., Any] | None = None


def texts(**more: str) -> dict[str, Key]:
    """Declarations of the text keys of every file (title, description, source), and of others by name and meaning."""
    known = {"title": "what it is about, in a line", "description": "in a few sentences", "source": "of the numbers"}
    return {
        name: Key("text", about, "", example='"..."', live=name == "title") for name, about in (known | more).items()
    }


@dataclass(frozen=True, kw_only=True)
class FileDescription:
    """Title, description and source of a file, which may be empty, and its path."""

    title: str
    description: str
    source: str
    path: Path

    @property
    def name(self) -> str:
        """Its title, or the name of the file without one."""
        return self.title or self.path.name

    @property
    def about(self) -> list[str]:
        """Its description and the source of its numbers, each in a line, if they are given."""
        return [line for line in (self.description, self.source and f"Source: {self.source}") if line]

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """Source of its numbers, if one is given."""
        return [("Source", self.source)] * bool(self.source)


class Keys:
    """A table of a file, read key by key.

    Parameters
    ----------
    values : the table, as the TOML parser returns it
    file : path, for messages
    key : full key of the table, "" for the whole file
    declared : declarations of its keys, all others being refused; without them `finish` refuses keys never read
    """

    def __init__(self, values: Any, file: Path, key: str, declared: Mapping[str, Key] | None = None) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{file}: {key}: must be a table, got {as_toml(values)}")
        self.values, self.file, self.key, self.read_keys, self.declared = values, file, key, set[str](), declared or {}
        if self.declared:
            self._refuse_others(set(self.declared))

    def __getitem__(self, key: str) -> Any:
        """Value of a declared key, checked and converted as its declaration says."""
        one = self.declared[key]
        if one.default is not ... and one.default != {} and not self.has(key):
            return one.default
        whole = int if one.make is None else (int, float)
        read: dict[str, Callable[[], Any]] = {
            "text": lambda: self.text(key),
            "word": lambda: self.one_of(key, tuple(one.words)),
            "whole": lambda: self.get(key, whole, one.rule or "a whole number"),
            "number": lambda: self.number(key),
            "real": lambda: plain(self.number(key)),
            "numbers": lambda: self.numbers(key),
            "flag": lambda: self.get(key, bool, "true or false"),
            "table": lambda: self.table(key),
        }
        if one.kind not in read:
            return one.make and self.build(key, partial(one.make, self, key))
        value = read[one.kind]()
        given = (value,) if one.kind == "table" else (key, value)
        return value if one.make is None else self.build(key, partial(one.make, *given))

    def read(self) -> dict[str, Any]:
        """Values of all declared keys, by key."""
        return {key: self[key] for key in self.declared}

    @classmethod
    def of_file(
        cls, document: Mapping[str, Any], file: Path, kind: str, declared: Mapping[str, Key], at: str = ""
    ) -> Keys:
        """Keys of a whole file, or of its table `at`; an empty file or one of another kind is refused.

        `kind` is the kind of file, for messages; another kind is recognised by its tables.
        """
        if not document and declared and not at:
            raise ValueError(f"{file}: the file is empty: adversary init writes {kind} to begin with")
        for key, other in ABOUT.items():
            if key in document and key not in declared:
                raise ValueError(f"{file}: {key}: this is {other}; {kind} has none")
        return cls(document, file, at, declared)

    def where(self, key: str) -> str:
        """Beginning of an error message: the file and the full key."""
        return f"{self.file}: {self.key + '.' if self.key else ''}{key}"

    def has(self, key: str) -> bool:
        """True if the key is present; marks it as a known key."""
        self.read_keys.add(key)
        return key in self.values

    def get(self, key: str, kinds: type | tuple[type, ...], rule: str, default: Any = ...) -> Any:
        """Value of a key, which must be of one of these types; required unless there is a default.

        `rule` describes a valid value, for errors.
        """
        if not self.has(key):
            if default is ...:
                raise ValueError(f"{self.where(key)}: is required ({self._explain_key(key) or rule})")
            return default
        value = self.values[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            brackets = self.declared[key].kind == "rows" if key in self.declared else False
            hint = f"; write [[{self.key + '.' if self.key else ''}{key}]], in two brackets" * brackets
            raise ValueError(f"{self.where(key)}: must be {rule}, got {as_toml(value)}{hint}")
        return value

    def _explain_key(self, key: str) -> str:
        """Description of a declared key, with an example if there is one."""
        one = self.declared.get(key, Key("any", ""))
        example = one.example if isinstance(one.example, str) else ""
        return f"{one.about}; for instance {key} = {example}" if example else one.about

    def text(self, key: str) -> str:
        """Printable text on one line, "" without the key; newlines and tabs become spaces."""
        given = " ".join(self.get(key, str, "text", "").split())
        if not given.isprintable():
            raise ValueError(f"{self.where(key)}: must be without control characters, got {given!r}")
        return given

    def one_of(self, key: str, choices: tuple[str, ...], default: Any = ...) -> str:
        """Word among a few choices."""
        rule = f"one of {quoted(choices)}"
        value = self.get(key, str, rule, default)
        if value is not None and value not in choices:
            raise ValueError(f"{self.where(key)}: must be {rule}, got {value!r}{closest_name(value, choices)}")
        return value  # type: ignore[no-any-return]

    def only(self, *keys: str) -> None:
        """Refuse any other key, before one of these is reported as missing."""
        self.read_keys.update(keys)
        self.finish()

    def number(self, key: str, default: Any = ...) -> Any:
        """Number, or an exact product of fractions as text ("64/25 * 165/4099")."""
        return self._number(key, self.get(key, (int, float, str), _NUMBER, default))

    def measure(self, key: str, default: Any = ...) -> Any:
        """Number of moderate size: 0, infinite, or of an absolute value between `LEAST` and `MOST`."""
        value = self.number(key, default)
        if value is not None and (0 < abs(value) < LEAST or MOST < abs(value) < float("inf")):
            raise ValueError(f"{self.where(key)}: must be between {LEAST:g} and {MOST:g}, got {float(value):g}")
        return value

    def numbers(self, key: str, default: Any = ...) -> Any:
        """List of at least one number, each as for `number`."""
        values = self.get(key, list, "a list of numbers", default)
        if values == []:
            raise ValueError(f"{self.where(key)}: must hold at least one number, got []")
        for value in values or ():
            if not isinstance(value, (int, float, str)) or isinstance(value, bool):
                raise ValueError(
                    f"{self.where(key)}: must be a list of numbers or products of fractions, got {as_toml(value)}"
                )
        return None if values is None else [self._number(key, value) for value in values]

    def _number(self, key: str, value: Any) -> Any:
        """The value, or the exact fraction that a text stands for."""
        if not isinstance(value, str):
            return value
        if not re.fullmatch(PRODUCT, value):
            raise ValueError(f"{self.where(key)}: must be {_NUMBER}, got {value!r}{written_otherwise(value)}")
        try:
            product = prod(Fraction(factor.replace(" ", "")) for factor in value.split("*"))
            float(product)
        except (ValueError, ArithmeticError):
            raise ValueError(f"{self.where(key)}: is not a fraction, got {value!r}") from None
        return product

    def table(self, key: str) -> Keys:
        """Table under a key, as `Keys`."""
        one = self.declared.get(key, Key("any", ""))
        example = str(one.example)
        rule = one.rule or (f"a table such as {example}" if example.startswith("{") else "a table")
        given = self.get(key, dict, rule, one.default if one.default == {} else ...)
        keys = one.keys if one.kind == "table" else None
        return Keys(given, self.file, f"{self.key + '.' if self.key else ''}{key}", keys)

    def path_of(self, key: str) -> Path:
        """Path of the CSV file under a key, which is relative to the folder of this file."""
        path = self.file.parent / str(self.get(key, str, "the path of a CSV file"))
        if not path.exists():
            raise ValueError(f"{self.where(key)}: must be a CSV file, by its path from this file's: no {path}")
        return path

    def frame(self, key: str, *names: str) -> tuple[Path, Any, Callable[[int], str]]:
        """CSV file under a key: (its path, these columns of it, function from a row's index to its name)."""
        path = self.path_of(key)
        frame, where = load_table_data(path)
        if not frame.columns.is_unique:
            raise ValueError(f"{path}: columns must have different names, got {', '.join(frame.columns)}")
        for name in names:
            if name not in frame.columns:
                raise ValueError(f"{path}: column {name!r} is missing; there are {', '.join(frame.columns)}")
        return path, frame[[*names]].astype(str), where

    def one_or_many(self, one: str, many: str, read: Callable[[Keys], Any]) -> Any:
        """Result of `read` for a single table, or by name for each of several; the file has exactly one of the two."""
        if self.has(one) == self.has(many):
            what = "both are there" if self.has(one) else f"neither is there ({self._explain_key(one)})"
            raise ValueError(f"{self.file}: give either a table [{one}] or several by name, [{many}.NAME]: {what}")
        if one in self.values:
            return read(self.table(one))
        named, inner = self.table(many), self.declared[one].keys if self.declared[one].kind == "table" else None
        if not named.values:
            raise ValueError(f"{self.where(many)}: must hold at least one named table, got none")
        for name in named.values:
            if not name.strip():
                raise ValueError(f"{self.where(many)}: names must not be empty, got {name!r}")
        return {
            name: read(Keys(named.get(name, dict, "a table"), self.file, f"{many}.{name}", inner))
            for name in named.values
        }

    def finish(self) -> None:
        """Refuse keys that have not been read."""
        self._refuse_others(self.read_keys)

    def _refuse_others(self, known: set[str]) -> None:
        """ValueError for a key that is not known, with the remedy."""
        for key in self.values:
            if key not in known:
                parts = {name: one.about.removeprefix("its ").split(" and ") for name, one in self.declared.items()}
                owners = [f'"{name}" = {self.declared[name].example}' for name, its in parts.items() if key in its]
                hint = closest_name(key, sorted({*known, *(() if self.key else ABOUT)}))
                if self.key and key in _TOP:
                    hint = "; it is about the whole file: write it above the first table, the first line in brackets"
                hint = (
                    f"; write {' or '.join(owners)}" if owners else hint or f"; known here: {', '.join(sorted(known))}"
                )
                raise ValueError(f"{self.where(key)}: unknown key, got {key!r}{hint}")

    def build(self, key: str, make: Callable[[], Any]) -> Any:
        """Call `make`; prefix its errors with file and key."""
        try:
            return make()
        except (TypeError, ValueError, ArithmeticError) as error:
            if str(error).startswith(f"{self.file}: "):
                raise
            message = str(error).removeprefix(f"{key}: ")
            raise ValueError(f"{self.where(key) if key else f'{self.file}: {self.key}'}: {message}") from None


def pair(what: str) -> Callable[[str, Any], tuple[float, float]]:
    """Converter of a list to two numbers; ValueError for a list of another length."""

    def made(key: str, values: Any) -> tuple[float, float]:
        del key
        numbers = [plain(x) for x in values]
        if len(numbers) != 2:
            raise ValueError(f"must be two numbers, {what}, got {as_toml(numbers)}")
        return numbers[0], numbers[1]

    return made


def probability(key: str, given: Any) -> float:
    """Probability as a float; ValueError outside [0, 1]. A converter of `Key`."""
    return float(check_probability(key, given))


def plain(number: Any) -> Any:
    """Fraction as a float; None and whole numbers unchanged."""
    return number if number is None or isinstance(number, int) else float(number)
