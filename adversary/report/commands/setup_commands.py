"""`adversary doctor`, `schema` and `init`: the installation, JSON schemas of files, and starting files."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer
import xarray as xr

import adversary
from adversary._core import NAME, __version__
from adversary.budget import check_word
from adversary.report.commands.cli import MODULES
from adversary.report.commands.options import COMPILED, answering, one_line_errors
from adversary.report.files import KINDS, schema, starting_file
from adversary.report.kit import RESULT, Answer, Document, Section, Summary, Table, guarded_document, tabulate

MISSING = "not installed"

# Arguments of `starting_file` by command, and by kind of file: the kind, and the optional tables that it needs.
STARTS = {
    **{command: (kind, *tables) for kind, one in KINDS.items() for command, tables in one.commands.items()},
    **{kind: (kind,) for kind in KINDS},
}
COMPILER = "none: models that PyMC samples itself run slower"


def schema_command(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join((*KINDS, 'result'))}.", metavar="KIND")],
) -> None:
    """The JSON schema of a kind of file, so that an editor completes keys, or of what --json prints."""
    with one_line_errors():
        check_word("kind", kind, (*KINDS, "result"))
        print(json.dumps(RESULT if kind == "result" else schema(kind), indent=2))


def init_command(
    command: Annotated[str, typer.Argument(help=f"One of {', '.join(STARTS)}.", metavar="COMMAND")],
    path: Annotated[Path | None, typer.Argument(help="File to make.", metavar="[FILE.toml]")] = None,
) -> None:
    """A commented file for a command to begin with."""
    with one_line_errors():
        text = starting_file(*STARTS[check_word("command", command, tuple(STARTS))])
        if path is None:
            print(text, end="")
        else:
            if path.exists():
                raise ValueError(f"{path}: is there already, and is not overwritten: give another name")
            with path.open("x", encoding="utf-8") as file:
                file.write(text)


@answering()
def doctor_command() -> Answer:
    """Versions, cores, caches and optional extras of this installation."""
    for module in sorted(set(MODULES.values())):
        # a missing package is listed in the table, and no error here
        with suppress(ModuleNotFoundError):
            import_module(module)
    for compile_ahead in COMPILED:
        with suppress(ModuleNotFoundError):
            compile_ahead()
    return Answer(examine(), document)


def examine() -> xr.DataTree:
    """Tree of the installation: groups `machine`, `packages` (version and extra of each) and `caches` (folders)."""
    installed, places = packages(), caches()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    compiler = shutil.which("g++") or shutil.which("clang++") or ""
    machine = {"cores": cores, "python": platform.python_version(), "system": platform.system(), "compiler": compiler}
    each = {"version": [_version_of(name) for name in installed], "extra": [*installed.values()]}
    writable = [_writable(folder) for folder in places.values()]
    folders = {"folder": [*map(str, places.values())], "writable": writable}
    groups = {
        "machine": xr.Dataset(machine),
        "packages": xr.Dataset({name: ("package", x) for name, x in each.items()}, {"package": [*installed]}),
        "caches": xr.Dataset({name: ("cache", x) for name, x in folders.items()}, {"cache": [*places]}),
    }
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"version": __version__}), **groups})
    extras = sorted({extra for extra, number in zip(each["extra"], each["version"], strict=True) if number == MISSING})
    warnings = [f"Extra `{name}` is not installed: pip install '{NAME}[{name}]'." for name in extras if name]
    again = [name for name, lasts in zip(places, writable, strict=True) if not lasts]
    warnings += [f"Code compiled by {name} is compiled again in every run." for name in again]
    verdict = "Something optional is missing." if warnings else "Everything is installed."
    return Summary(f"adversary {__version__}", list(groups), verdict, "holds", warnings).on(tree)


def packages() -> dict[str, str]:
    """Required packages of this distribution, each with the extra that needs it; "" for those always needed."""
    installed = {}
    for line in requires(NAME) or []:
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        assert name
        installed[name[0]] = extra[1] if extra else ""
    return installed


def _version_of(name: str) -> str:
    """Version of an installed package, or `MISSING`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return MISSING


def caches() -> dict[str, Path]:
    """Folders of compiled code, by the package that writes it."""
    # by default numba writes beside the sources
    numba = os.environ.get("NUMBA_CACHE_DIR") or Path(adversary.__file__).parent
    flags = re.search(r"(?:base_)?compiledir=([^,]+)", os.environ.get("PYTENSOR_FLAGS", ""))
    return {"numba": Path(numba), "PyTensor": Path(flags[1] if flags else "~/.pytensor").expanduser()}


def _writable(folder: Path) -> bool:
    """True if a folder is writable, or can be created."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    return os.access(there, os.W_OK)


@guarded_document
def document(tree: xr.DataTree) -> Document:
    """Document of the tree of `examine`."""
    machine, packs, places = (tree[name].to_dataset() for name in ("machine", "packages", "caches"))
    heads = {"package": "package", "version": "version", "extra": "needed for"}
    installed = tabulate(packs, heads, name="packages", called={"extra": {"": "everything"}})
    folders = {"cache": "compiled by", "folder": "folder", "writable": "writable"}
    caches_table = tabulate(places, folders, name="caches", called={"writable": {True: "yes", False: "no"}})
    compiler = str(machine["compiler"].values)
    known = {"cores": "cores", "python": "Python", "system": "system"}
    here = Table(["", "value"], [(head, str(machine[name].item())) for name, head in known.items()], name="machine")
    here.add("C++ compiler", compiler or COMPILER)
    return Document(
        tree,
        sections=[
            Section("Machine", tables=[here]),
            Section("Packages", tables=[installed]),
            Section("Caches of compiled code", tables=[caches_table]),
        ],
    )
