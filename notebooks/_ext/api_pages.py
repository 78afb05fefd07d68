"""Pages of the reference: one for each public object, under the path by which users reach it, and one for each room.

They are written before a build, and again only where one changed, so that nothing unchanged is read twice.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache, reduce
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import docstrings
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

import adversary

FOLDER = Path(__file__).parents[1] / "reference/api"


class Entry(NamedTuple):
    """A public name of a room: the path of the object, and whether it is described there and not at a shorter path."""

    path: str
    value: Any
    first: bool


@cache
def rooms() -> dict[str, list[Entry]]:
    """Rooms by their public path, the package itself first, and what each hands out."""
    found, waiting = dict[str, list[Entry]](), [("adversary", adversary)]
    paths, modules = dict[int, str](), {id(adversary)}
    while waiting:
        place, room = waiting.pop(0)
        found[place] = []
        for name in public(room):
            value = getattr(room, name)
            if isinstance(value, ModuleType):
                if id(value) not in modules and not is_file_of(room, value):
                    modules.add(id(value))
                    waiting.append((f"{place}.{name}", value))
            else:
                path = f"{place}.{name}"
                known = (
                    paths.setdefault(id(value), path)
                    if is_described(value)
                    else path
                )
                found[place].append(Entry(known, value, known == path))
    return found


def is_file_of(room: ModuleType, module: ModuleType) -> bool:
    """True of a file of a room that hands out names of the file itself."""
    handed = [getattr(room, name) for name in public(room)]
    return any(
        getattr(one, "__module__", "") == module.__name__ for one in handed
    )


def place_of(path: str) -> ModuleType:
    """The room at a public path."""
    room: ModuleType = reduce(getattr, path.split(".")[1:], adversary)
    return room


def public(room: ModuleType) -> list[str]:
    """Names that a room hands out, or that a module without a list defines."""
    own = [
        name
        for name, value in vars(room).items()
        if getattr(value, "__module__", None) == room.__name__
    ]
    return sorted(
        name
        for name in getattr(room, "__all__", own)
        if not name.startswith("_")
    )


def is_described(value: Any) -> bool:
    """True of a class or a function, which has a page of its own; constants stand on the page of their room."""
    return inspect.isclass(value) or inspect.isroutine(value)


def objects() -> dict[str, Any]:
    """Every class and function by its public path."""
    return {
        one.path: one.value
        for room in rooms().values()
        for one in room
        if is_described(one.value)
    }


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of every page."""
    for place, entries in rooms().items():
        if place != "adversary":
            yield place, _room(place, entries)
    for path, value in objects().items():
        yield (
            path,
            _class(path, value) if inspect.isclass(value) else _function(path),
        )


def write(*_: object) -> None:
    """Write pages that are new or changed, and remove those of names that are gone."""
    FOLDER.mkdir(exist_ok=True)
    wanted = {f"{name}.rst": text for name, text in pages()}
    for stale in {path.name for path in FOLDER.glob("*.rst")} - set(wanted):
        (FOLDER / stale).unlink()
    for name, text in wanted.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _heading(path: str) -> str:
    title = path.replace("adversary", "adv", 1)
    return f"{title}\n{'=' * len(title)}\n\n"


def _table(paths: list[str]) -> str:
    rows = "\n".join(f"   {path}" for path in paths)
    return f".. autosummary::\n   :nosignatures:\n\n{rows}\n\n" if paths else ""


def _room(place: str, entries: list[Entry]) -> str:
    own = [one for one in entries if is_described(one.value)]
    groups = {
        "Classes": [
            f"~{one.path}" for one in own if inspect.isclass(one.value)
        ],
        "Functions": [
            f"~{one.path}" for one in own if not inspect.isclass(one.value)
        ],
    }
    constants = [
        one.path.rpartition(".")[2]
        for one in entries
        if not is_described(one.value)
    ]
    text = (
        _heading(place)
        + f".. automodule:: {place}\n   :no-members:\n   :no-index:\n\n.. currentmodule:: None\n\n"
    )
    for title, paths in groups.items():
        text += (
            f"{title}\n{'-' * len(title)}\n\n{_table(paths)}" if paths else ""
        )
    if constants:
        text += "Constants\n---------\n\n"
        text += "".join(_constant(place, name) for name in constants)
    hidden = "\n".join(f"   {one.path}" for one in own if one.first)
    return text + (f".. toctree::\n   :hidden:\n\n{hidden}\n" if hidden else "")


def _constant(place: str, name: str) -> str:
    """Its name, and the docstring below it where it is defined."""
    home = origin(place_of(place), name)
    lines = (
        ModuleAnalyzer.for_module(home.__name__)
        .find_attr_docs()
        .get(("", name), [])
    )
    body = "\n".join(
        f"   {line}" if line else "" for line in docstrings.rst(lines)
    )
    return f".. py:data:: {name}\n   :module: {place}\n\n{body}\n"


def origin(room: ModuleType, name: str) -> ModuleType:
    """The module that defines a name, through the lists of all the rooms that hand it on."""
    listed = Path(str(room.__file__)).with_suffix(".pyi")
    text = listed.read_text(encoding="utf-8") if listed.exists() else ""
    line = re.search(rf"^from (\S+) import {name} as", text, flags=re.MULTILINE)
    return (
        origin(importlib.import_module(line[1], room.__name__), name)
        if line
        else room
    )


def _function(path: str) -> str:
    room, _, name = path.rpartition(".")
    return (
        _heading(path)
        + f".. currentmodule:: {room}\n\n.. autofunction:: {name}\n"
    )


def _class(path: str, value: type) -> str:
    """Members of its own, and of bases without a page; those of other public classes in a table that links to them."""
    room, _, name = path.rpartition(".")
    homes = {id(one): home for home, one in objects().items()}
    own, inherited = list[str](), list[str]()
    for member in sorted(dir(value)):
        base = next(
            (base for base in value.__mro__ if member in vars(base)), object
        )
        if member.startswith("_") or not base.__module__.startswith(
            "adversary"
        ):
            continue
        if not inspect.getdoc(getattr(base, member)) or not _documented(
            vars(base)[member]
        ):
            continue
        home = homes.get(id(base))
        (own if base is value or home is None else inherited).append(
            f"{home or path}.{member}"
        )
    text = _heading(path) + f".. currentmodule:: {room}\n\n"
    names = ", ".join(one.rpartition(".")[2] for one in own)
    text += (
        f".. autoclass:: {name}\n"
        + (f"   :members: {names}\n" if names else "")
        + "\n"
    )
    for home, members in groupby(
        sorted(inherited), key=lambda one: one.rpartition(".")[0]
    ):
        links = ", ".join(
            f":py:obj:`{one.rpartition('.')[2]} <{one}>`" for one in members
        )
        text += f".. rubric:: Inherited from {home.replace('adversary', 'adv', 1)}\n\n{links}\n\n"
    return text


def _documented(member: Any) -> bool:
    """Methods and properties; a field of a dataclass is described among the parameters."""
    return (
        isinstance(member, property | classmethod | staticmethod)
        or inspect.isroutine(member)
        or bool(getattr(member, "func", None))
    )


@cache
def short_names() -> dict[str, str]:
    """The path of every object by its name and by the ends of its path, where only one has them."""
    found = dict[str, set[str]]()
    for path in objects():
        parts = path.split(".")
        for i in range(1, len(parts)):
            found.setdefault(".".join(parts[i:]), set()).add(path)
    return {
        name: next(iter(paths))
        for name, paths in found.items()
        if len(paths) == 1
    }


def resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A word in back-quotes, such as `Level` or `adv.Level`, links to the page of what bears the name."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("adv.").removeprefix("adversary.")
    path = (
        f"adversary.{target}"
        if f"adversary.{target}" in objects()
        else short_names().get(target)
    )
    page = f"reference/api/{path}"
    if path is None or node["refdoc"] == page:
        return None
    return make_refnode(app.builder, node["refdoc"], page, path, content, path)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    app.connect("missing-reference", resolve)
