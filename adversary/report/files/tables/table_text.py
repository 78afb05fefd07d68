"""Published tables in a line, "district: age x sex, rho 0.3", or as a `[[table]]` of a file.

A line is a place, a colon, features with x between them, and the noise after a comma: the name of a noise, a parameter
and its value. A table of the whole file has no place, or one that is no column. Kinds of noise and their keys are those
of a scenario file.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import closest_name
from adversary.adversaries.tables import REPEATS, PublishedTable
from adversary.privacy import PrivacyUnit
from adversary.report.files.keys import Key, Keys
from adversary.report.files.plan_keys import LEVEL, NOISE, NOISES, OPTIONS, PARAMETERS, processed, read_noise
from adversary.report.files.toml_text import as_toml

TABLE = {
    "of": Key("text", "its places and features in a line, in place of by", "", example='"district: age x sex"'),
    "by": Key("list", "names of its columns; the whole file is not among them", None, example='["district", "age"]'),
    "name": Key("text", "what it is called: its columns unless given", ""),
    **NOISE,
    **{name: LEVEL[name] for name in ("clamp", "round", "ties", "suppress", "releases")},
    "repeat": Key("word", "noise of further releases: fresh, or the same for the same cells", REPEATS[0], REPEATS),
}
"""Declarations of the keys of a `[[table]]`."""

# Further names of noise in a line.
ALIASES = {"cell key": "perturbation table", "cell keys": "perturbation table", "gauss": "gaussian"}

# Words that stand for no features: the table counts all people of each place.
NOTHING = ("total", "totals", "people", "persons", "count", "counts", "all", "everybody")
PROCESSED = ("clamp", "round", "suppress", "ties")
LINE = 'write it as "district: age x sex, rho 0.3"'
_WORDS = sorted((*NOISES, *ALIASES), key=len, reverse=True)
_KEYS = (*PARAMETERS, *OPTIONS, *PROCESSED, "releases", "repeat", "sensitivity")
_CASE = {key.casefold(): key for key in _KEYS}
_CROSS = re.compile(r"\s+[x×]\s+|\s*[*×]\s*", re.IGNORECASE)
_PARTS = {
    "variance": "write its square root, such as sigma 2",
    "sd": "write it as sigma, such as sigma 2",
    "std": "write it as sigma, such as sigma 2",
    "delta": "noise has no delta; write the noise by which it is reached, such as sigma 2, and the guarantee in a file",
}
"""What else noise is known by, and the remedy."""
_NUMBER = re.compile(r"[\d./*\s]+")


def parse_table(text: str, base: str | Path = ".", unit: PrivacyUnit | None = None) -> PublishedTable:
    """Published table that a line describes.

    Parameters
    ----------
    text : such as "district: age x sex, rho 0.3", "country: age, laplace scale 2" or "all: total, cell key keys.csv"
    base : folder in which its files are
    unit : whose data a guarantee protects; a person who is added or removed unless given

    Returns
    -------
    PublishedTable, called as the line begins. A place that is no column stands in `by`, until the data are known.

    Raises
    ------
    ValueError : no features, or noise that is unknown, without its parameter, or twice; the message quotes the line

    >>> table = parse_table("district: age x sex, rho 0.3")
    >>> table.by, table.name
    (('district', 'age', 'sex'), 'district: age x sex')
    >>> parse_table("all: total, geometric epsilon 1").noise
    Geometric(epsilon=1.0)
    """
    file = Path(base) / "table"
    try:
        columns, clauses = _divided(text)
        values = _values(clauses, Path(base))
        part = Keys({"of": columns, **values}, file, "table", TABLE)
        return read_table(part, unit or PrivacyUnit(neighbours="unbounded"))
    except ValueError as error:
        words = str(error).removeprefix(f"{file}: table").removeprefix(".").removeprefix(": ")
        raise ValueError(f"table {text!r}: {words}") from None


def read_table(part: Keys, unit: PrivacyUnit) -> PublishedTable:
    """Published table of a `[[table]]`, every key checked.

    Parameters
    ----------
    part : its keys
    unit : whose data a guarantee protects
    """
    line, given = part["of"], part.get("by", list, 'a list of names of columns, such as ["district", "age"]', None)
    if bool(line) == (given is not None):
        got = "both" if line else "neither"
        either = 'either of = "district: age x sex" or by = ["district", "age"]'
        raise ValueError(f"{part.where('of')}: give {either}, got {got}")
    if given is not None and not all(isinstance(one, str) and one.strip() for one in given):
        raise ValueError(f"{part.where('by')}: must be a list of names of columns, got {as_toml(given)}")
    if "," in line:
        raise ValueError(
            f"{part.where('of')}: must be places and features alone, such as 'district: age x sex', got {line!r}: "
            "noise has keys of its own, such as rho = 0.3"
        )
    by, name = part.build("of", partial(columns_of_line, line)) if line else (tuple(given), "")
    noise = processed(part, part.build("", partial(read_noise, part, unit)))
    options = {key: part[key] for key in ("releases", "repeat") if part.has(key)}
    made: PublishedTable = part.build("", partial(PublishedTable, by, noise, part["name"] or name, **options))
    return made


def columns_of_line(line: str) -> tuple[tuple[str, ...], str]:
    """(columns of a line such as "district: age x sex", the line with single blanks).

    Parameters
    ----------
    line : place and features

    >>> columns_of_line("district:age x  sex")
    (('district', 'age', 'sex'), 'district: age x sex')
    >>> columns_of_line("country: total")
    (('country',), 'country: total')
    """
    place, colon, rest = (part.strip() for part in line.rpartition(":"))
    features = [" ".join(one.split()) for one in _CROSS.split(rest)]
    if not all(features):
        raise ValueError(f"must name its features, or total, got {line!r}: {LINE}")
    if len(features) == 1 and features[0].casefold() in NOTHING:
        features = []
    by = [*([place] if colon else []), *features]
    if colon and not place:
        raise ValueError(f"must name its place, or all for the whole file, got {line!r}: {LINE}")
    name = f"{place}: {' x '.join(features) or 'total'}" if colon else " x ".join(features) or "total"
    return tuple(by), name


def _divided(text: str) -> tuple[str, list[str]]:
    """(place and features of a line, its clauses on noise and post-processing)."""
    head, *clauses = [one.strip() for one in text.replace("=", " ").split(",")]
    place, colon, rest = head.rpartition(":")
    if colon and _is_noise(rest.strip()):  # "district: rho 0.1"
        head, clauses = f"{place}: total", [rest.strip(), *clauses]
    for clause in clauses:
        if _NUMBER.fullmatch(clause):
            raise ValueError(f"numbers have a point, as 0.5, and no comma, got {clause!r} after a comma")
        if not _is_noise(clause):
            words = [*_WORDS, *_KEYS]
            if remedy := _PARTS.get(clause.casefold().split(" ")[0]):
                raise ValueError(f"{clause!r} is no noise: {remedy}")
            near = closest_name(clause, words) or closest_name(clause.split(" ")[0], words)
            raise ValueError(f"{clause!r} is no noise{near or f': {LINE}, with x between features'}")
    if not clauses:
        raise ValueError(f"must say its noise after a comma, such as rho 0.3, or exact: {LINE}")
    return head, clauses


def _is_noise(clause: str) -> bool:
    """True if a clause begins with the name of a noise or of one of its keys."""
    folded = clause.casefold()
    return any(re.match(rf"{re.escape(word)}(\s|$)", folded) for word in (*_WORDS, *_CASE))


def _values(clauses: list[str], base: Path) -> dict[str, Any]:
    """Keys and values of the clauses, as in a file; without the name of a noise, the first with the given parameter."""
    values: dict[str, Any] = {}
    for clause in clauses:
        folded, rest = clause.casefold(), clause
        word = next((one for one in _WORDS if re.match(rf"{re.escape(one)}(\s|$)", folded)), None)
        if word is not None:
            _set(values, "noise", ALIASES.get(word, word))
            rest = clause[len(word) :].strip()
        if rest:
            for key, value in _pairs(rest, values.get("noise"), base):
                _set(values, key, value)
    if "noise" not in values:
        parameter = next((key for key in PARAMETERS if key in values), None)
        fits = [name for name, law in NOISES.items() if parameter in law.parameters]
        values["noise"] = fits[0] if fits else "exact"
    return values


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    """Add a key and its value; ValueError if it is there already."""
    if key in values:
        raise ValueError(f"must have {key} once, got {values[key]!r} and {value!r}")
    values[key] = value


def _pairs(rest: str, noise: str | None, base: Path) -> list[tuple[str, Any]]:
    """(key, value) pairs of a clause, such as "rho 0.3"; a flag has the value True.

    A lone number is the parameter of a noise that has only one. For a noise given by a table, `rest` is the path of an
    existing file relative to `base`, and the path as text is the value.
    """
    tokens = rest.split()
    own = NOISES[noise].parameters if noise else ()
    if noise and NOISES[noise].tables and tokens[0].casefold() not in _CASE:
        if not (base / rest).exists():
            raise ValueError(f"{noise}: no file {base / rest}")
        return [(NOISES[noise].tables[0], rest)]
    if len(tokens) == 1 and len(own) == 1 and tokens[0].casefold() not in _CASE:
        tokens = [own[0], *tokens]
    pairs = []
    while tokens:
        key = _CASE.get(folded := tokens.pop(0).casefold(), folded)
        if key not in _KEYS:
            takes = f"{noise} noise takes {' or '.join(own)}" if own else f"known are {', '.join(_KEYS)}"
            raise ValueError(
                f"{key!r} is no parameter{closest_name(key, _KEYS) or f': {takes}, each before its number'}"
            )
        kind = TABLE[key].kind
        if kind == "flag":
            pairs.append((key, True))
            continue
        if not tokens:
            raise ValueError(f"{key} must have a value, such as {key} {TABLE[key].example or '5'}, got nothing")
        until = next((i for i, one in enumerate(tokens) if one.casefold() in _CASE), len(tokens))
        value = " ".join(tokens[: until or 1])
        pairs.append((key, _typed(value, kind)))
        del tokens[: until or 1]
    return pairs


def _typed(value: str, kind: str) -> Any:
    """Value of a clause as TOML would have it: a whole number, a float, or text."""
    if re.fullmatch(r"[+-]?\d+", value):
        return int(value)
    if kind in ("whole", "word", "text") or "/" in value or "*" in value:
        return value
    try:
        return float(value)
    except ValueError:
        return value
