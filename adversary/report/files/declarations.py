"""JSON schema of every kind of file, for editors, and starting files: both from the declarations of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from adversary.budget import check_word
from adversary.report.files.keys import PRODUCT, Key
from adversary.report.files.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^({PRODUCT})$"}]}
TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"}, "word": {"type": "string"}, "whole": {"type": "integer"}, "number": NUMBER,
    "real": NUMBER, "numbers": {"type": "array", "items": NUMBER}, "flag": {"type": "boolean"},
    "list": {"type": "array"}, "any": {},
}  # fmt: skip


def keys_of_kind(kind: str) -> Mapping[str, Key]:
    """Declarations of the keys of a kind of file.

    Parameters
    ----------
    kind : one of `KINDS`

    Returns
    -------
    Declarations by key.

    Raises
    ------
    ValueError : there is no such kind

    >>> keys_of_kind("profile")["releases"].about
    'releases of the same data that keep the profile together'
    """
    module = import_module(KINDS[check_word("kind", kind, tuple(KINDS))].module)
    declared: Mapping[str, Key] = module.FILE
    return declared


def schema(kind: str) -> dict[str, Any]:
    """JSON schema of a kind of file.

    Parameters
    ----------
    kind : one of `KINDS`

    Returns
    -------
    Schema of its document: keys, types, words, meanings and required keys. Ranges, and rules that involve several keys,
    are checked only when the file is read.

    Raises
    ------
    ValueError : there is no such kind

    >>> schema("scenario")["properties"]["neighbours"]["enum"]
    ['unbounded', 'bounded']
    """
    return {"$schema": DIALECT, **_object(keys_of_kind(kind)), "title": f"A {kind} file of adversary"}


def _object(keys: Mapping[str, Key]) -> dict[str, Any]:
    """Schema of a table with these keys."""
    named = {name: one for name, one in keys.items() if name != "*"}
    return {
        "type": "object",
        "properties": {name: _schema(one, keys) for name, one in named.items()},
        "required": [name for name, one in named.items() if one.default is ...],
        "additionalProperties": _schema(keys["*"], keys) if "*" in keys else False,
    }


def _schema(one: Key, beside: Mapping[str, Key]) -> dict[str, Any]:
    """Schema of the value of a key."""
    described = {"description": one.about} | ({} if one.default in (..., None, {}, ()) else {"default": one.default})
    if one.kind in ("table", "open"):
        return described | _object(one.keys)
    if one.kind == "named":
        return described | {"type": "object", "additionalProperties": _object(one.keys)}
    if one.kind == "rows":
        return described | {"type": "array", "items": _object(one.keys)}
    return described | TYPES[one.kind] | ({"enum": list(one.words)} if one.words else {})


def starting_file(kind: str, *wanted: str) -> str:
    """Starting file of a kind, as TOML: it is valid, and has every other key as a comment.

    Parameters
    ----------
    kind : one of `KINDS`
    *wanted : optional tables that it has

    Returns
    -------
    str : its lines.

    Raises
    ------
    ValueError : there is no such kind

    >>> starting_file("profile").splitlines()[6]
    'failure = 0.05                       # probability with which a definition that is not certain may fail'
    """
    keys = dict(keys_of_kind(kind))
    keys |= {name: keys[name]._replace(live=True) for name in wanted}
    return "\n".join([f"# A {kind} file. Lines that begin with # are left out.", *_lines(keys, "", True)]) + "\n"


def _lines(keys: Mapping[str, Key], path: str, live: bool, given: Mapping[str, str] | None = None) -> Iterator[str]:
    """Lines of a table: keys with values, then its tables; commented out unless `live` and required or live.

    `path` is the table's full key; with `given`, only these keys, with these values.
    """
    tables = ("table", "open", "named", "rows")
    for name, one in keys.items():
        if one.kind in tables or (given is not None and name not in given):
            continue
        here = live and (given is not None or one.live or one.default is ...)
        value = (given or {}).get(name) or one.example or _toml(one.words[0] if one.words else one.default)
        for text in value if isinstance(value, list) else [f"{_bare(name)} = {value}"]:
            yield _line(here, text, one.about + f": {', '.join(one.words)}" * bool(one.words))
    for name, one in keys.items():
        if one.kind not in tables or one.kind == "named":
            continue
        here, full = live and (one.live or one.default is ...), f"{path}{_bare(name)}"
        if not path:
            yield ""
        if one.kind == "rows":
            yield from _rows(one, full, here)
            continue
        yield _line(here, f"[{full}]", one.about)
        yield from _lines(one.keys, f"{full}.", here) if "*" not in one.keys or one.keys["*"].example else ()


def _rows(one: Key, path: str, live: bool) -> Iterator[str]:
    """Lines of a list of tables: the example's keys in each, and all others as comments in the first."""
    for i, given in enumerate(one.example):
        yield _line(live, f"[[{path}]]", one.about)
        yield from _lines({name: one.keys[name] for name in given}, f"{path}.", live, given)
        if i == 0:
            yield from _lines({name: key for name, key in one.keys.items() if name not in given}, f"{path}.", False)


def _line(live: bool, text: str, about: str) -> str:
    """Line with its meaning as a comment; commented out unless `live`."""
    return f"{'' if live else '# '}{text}".ljust(36) + f" # {about}"


def _bare(name: str) -> str:
    """Key as TOML: bare if possible, else in quotes."""
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'


def _toml(value: Any) -> str:
    """Value as TOML."""
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value}"
