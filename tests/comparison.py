"""Every answer of the command line, recorded at one commit and compared with those of another.

    python tests/comparison.py record BEFORE      # in a checkout of the first commit, with a copy of this file
    python tests/comparison.py record AFTER       # in one of the second
    python tests/comparison.py compare BEFORE AFTER --map tests/comparison.toml

`record` runs every command on every file of data/ that it takes (what it refuses is recorded as well) and on a small
synthetic Noisy Measurement File: JSON, screen, and with --out the page without its figures, NetCDF and Parquet.
`compare` walks through both folders; numbers may differ by 1e-9 of their size, everything else must be the same. The
map, where keys or words change on purpose, has a table `keys` (JSON keys; variables, dimensions and attributes of
NetCDF) and a table `words` (texts), each from old to new.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

TOLERANCE = 1e-9
ROOT = Path(__file__).parents[1]
_ROOM = next(name for name in ("report", "desk") if (ROOT / "adversary" / name / "commands").is_dir())
ON_FILES = ("audit", "sensitivity", "invariants", "epsilon", "infer")
GIVEN = {
    "bounds": [
        f"bounds {of}" for of in ("--rho 2.63 --prior 0.1", "--epsilon 1", "--epsilon 1 --delta 1e-6", "--mu 0.5")
    ],
    "census": [
        "census scenario",
        *(f"census scenario {name}" for name in "ABCDEFGH"),
        "census release",
        "census dhc data/census2020_dhc_path_1.csv",
    ],
    "explain": ["explain --epsilon 1 --audience all", "explain --rho 0.01 --releases 12 --audience all"],
    "nmf": ["nmf check county"],
    "spine": [f"spine county --query {of} --out out" for of in ("HISPANIC --cell 0", "TOTAL --leaf-prior flat")],
}
NO_FIGURES = ("census scenario", "nmf check county", *GIVEN["explain"])
COUNTY = "nmf synth county --blocks 60"
KEPT = (".html", ".nc", ".parquet", ".json")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def cases() -> list[str]:
    """Command lines, as somebody would type them beside data/."""
    files = sorted(f"data/{path.name}" for path in (ROOT / "data").glob("*.toml"))
    plain = [f"{command} {file}" for command in ON_FILES for file in files]
    given = [line for lines in GIVEN.values() for line in lines]
    told = [f"explain {file} --audience all" for file in files]
    with_figures = [line for line in (*plain, *given) if "--out" not in line and line not in NO_FIGURES]
    return [
        *plain, *given, *told,
        *(f"{line} --json" for line in (*plain, *given, *told)),
        *(f"{line} --out out" for line in with_figures),
    ]  # fmt: skip


def record(into: Path, jobs: int) -> None:
    """What every case prints and writes, in one folder a case: each a fork of this process, as imports take longest."""
    os.environ.update(COLUMNS="160", NO_COLOR="1", TERM="dumb")
    program = _program()
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        _finished([_begun(program, Path(made), COUNTY, Path(made))], 0)
        running: list[int] = []
        for case in cases():
            running = _finished(running, jobs - 1)
            running.append(
                _begun(program, Path(made) / "county", case, into / case.replace("/", "_").replace(" ", "_"))
            )
        _finished(running, 0)
    codes = [path.read_text() for path in into.glob("*/exit.txt")]
    if codes.count("0") < len(codes) / 4:
        raise SystemExit(f"{codes.count('0')} of {len(codes)} commands answer: the program does not run here")


def _program() -> Callable[[], None]:
    """The command line, with what all commands import."""
    # dask first: the program leaves it out, which fails once others have imported it in part
    for name in ("dask.base", "matplotlib.figure", "jinja2", "scipy.stats", "arviz", "pyarrow.parquet"):
        import_module(name)
    main: Callable[[], None] = import_module(f"adversary.{_ROOM}.commands.cli").main
    return main


def _finished(running: list[int], most: int) -> list[int]:
    """Those of the processes that still run, once there are at most so many."""
    while len(running) > most:
        pid, _ = os.wait()
        running = [one for one in running if one != pid]
    return running


def _begun(program: Callable[[], None], county: Path, case: str, place: Path) -> int:
    """A process that works a case out in a folder of its own and keeps what it prints and writes."""
    if pid := os.fork():
        return pid
    code = 1
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = place if case == COUNTY else Path(name)
        if case != COUNTY:
            (folder / "data").symlink_to(ROOT / "data")
            shutil.copytree(county, folder / "county")
        for number, stream in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(place / f"{stream}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        sys.argv = ["adversary", *case.split()]
        try:
            program()
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else int(bool(stopped.code))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        (place / "exit.txt").write_text(str(code))
        for path in sorted((folder / "out").rglob("*")):
            if path.suffix in KEPT and path.is_file():
                target = place / "out" / path.relative_to(folder / "out")
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".html":
                    target.write_text(_without_figures(path.read_text()))
                else:
                    shutil.copy(path, target)
    os._exit(0)


def _without_figures(page: str) -> str:
    return re.sub(r"<svg.*?</svg>|data:image/[^\"')]*|<style.*?</style>", "", page, flags=re.DOTALL)


class Renamed:
    """Names as the new commit writes them."""

    def __init__(self, keys: Mapping[str, str], words: Mapping[str, str]) -> None:
        self.keys, self.words = keys, words

    def key(self, name: Any) -> Any:
        return self.keys.get(name, name)

    def text(self, text: str) -> str:
        for old, new in self.words.items():
            text = text.replace(old, new)
        return text


def differences(before: Path, after: Path, renamed: Renamed) -> Iterator[str]:
    """Every place in which two recorded folders differ."""
    old, new = ({str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()} for top in (before, after))
    yield from (f"{name}: only before" for name in sorted(old - new))
    yield from (f"{name}: only after" for name in sorted(new - old))
    for name in sorted(old & new):
        for found in _of_files(before / name, after / name, renamed):
            yield f"{name}: {found}"


def _of_files(old: Path, new: Path, renamed: Renamed) -> Iterator[str]:
    if old.suffix == ".nc":
        yield from _of_trees(xr.load_datatree(old), xr.load_datatree(new), renamed)
    elif old.suffix == ".parquet":
        yield from _of_tables(old, new, renamed)
    elif (values := _json(old)) is not None:
        yield from _of_values(values, _json(new), "", renamed)
    else:
        yield from _of_texts(renamed.text(old.read_text()), new.read_text())


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        return None


def _of_trees(old: xr.DataTree, new: xr.DataTree, renamed: Renamed) -> Iterator[str]:
    groups = {renamed.key(path): node.to_dataset() for path, node in old.subtree_with_keys}
    others = {path: node.to_dataset() for path, node in new.subtree_with_keys}
    if groups.keys() != others.keys():
        yield f"groups {sorted(groups)} became {sorted(others)}"
    for path in groups.keys() & others.keys():
        one, other = groups[path], others[path]
        one = one.rename({name: renamed.key(name) for name in (*one.variables, *one.dims) if renamed.key(name) != name})
        if set(one.variables) != set(other.variables):
            yield f"{path}: variables {sorted(map(str, set(one.variables) ^ set(other.variables)))} in one only"
        for name in set(one.variables) & set(other.variables):
            if one[name].dims != other[name].dims or not _same_array(one[name].values, other[name].values, renamed):
                yield f"{path}/{name} differs"
        yield from _of_values(_attributes(one), _attributes(other), f"{path} attributes ", renamed)


def _attributes(data: xr.Dataset) -> dict[str, Any]:
    return {str(name): np.asarray(value).tolist() for name, value in data.attrs.items() if name != "versions"}


def _same_array(old: np.ndarray, new: np.ndarray, renamed: Renamed) -> bool:
    if old.shape != new.shape:
        return False
    if old.dtype.kind in "OUS":
        return [renamed.text(str(value)) for value in old.ravel()] == [str(value) for value in new.ravel()]
    return bool(np.allclose(old.astype(float), new.astype(float), rtol=TOLERANCE, atol=1e-300, equal_nan=True))


def _of_tables(old: Path, new: Path, renamed: Renamed) -> Iterator[str]:
    import pyarrow.parquet as parquet

    one, other = (parquet.read_table(path).to_pandas() for path in (old, new))
    one.columns = [renamed.key(name) for name in one.columns]
    if [*one.columns] != [*other.columns] or len(one) != len(other):
        yield f"{len(one)} rows of {[*one.columns]} became {len(other)} of {[*other.columns]}"
        return
    for name in one.columns:
        if not _same_array(one[name].to_numpy(), other[name].to_numpy(), renamed):
            yield f"column {name} differs"


def _of_values(old: Any, new: Any, path: str, renamed: Renamed) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        named = {renamed.key(key): value for key, value in old.items()}
        if named.keys() != new.keys():
            yield f"{path} keys {sorted(map(str, named.keys() ^ new.keys()))} in one only"
        for key in named.keys() & new.keys():
            yield from _of_values(named[key], new[key], f"{path}.{key}", renamed)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _of_values(one, other, f"{path}[{place}]", renamed)
    elif isinstance(old, str) and isinstance(new, str):
        for found in _of_texts(renamed.text(old), new):
            yield f"{path}: {found}"
    elif not _same(old, new):
        yield f"{path}: {old!r} became {new!r}"


def _of_texts(old: str, new: str) -> Iterator[str]:
    one, other = ([" ".join(line.split()) for line in text.splitlines()] for text in (old, new))
    if len(one) != len(other):
        yield f"{len(one)} lines became {len(other)}"
    for place, (line, its) in enumerate(zip(one, other, strict=False), 1):
        numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (line, its)]
        if NUMBER.sub("#", line) != NUMBER.sub("#", its) or not all(map(_same, *numbers)):
            yield f"line {place}: {line[:200]!r} became {its[:200]!r}"


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, (int, float)) and not isinstance(new, bool):
        return old == new or (math.isnan(old) and math.isnan(new)) or math.isclose(old, new, rel_tol=TOLERANCE)
    return bool(old == new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    recording = what.add_parser("record")
    recording.add_argument("into", type=Path)
    recording.add_argument("--jobs", type=int, default=2)
    comparing = what.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--map", type=Path)
    asked = parser.parse_args()
    if asked.what == "record":
        record(asked.into.absolute(), asked.jobs)
        return
    names = {} if asked.map is None else tomllib.loads(asked.map.read_text())
    found = list(differences(asked.before, asked.after, Renamed(names.get("keys", {}), names.get("words", {}))))
    print(*found, f"{len(found)} differences", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
