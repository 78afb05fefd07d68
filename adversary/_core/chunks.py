"""Long work in chunks that survives what can go wrong: every chunk a file, a checksum for each, a manifest for all.

A chunk is whole or not there: it is written under a temporary name, then renamed, then its checksum is recorded. Work
that is started again in the same directory goes on with the chunks that are missing, does anew those whose file is not
what was recorded, or was recorded under another manifest, and refuses to mix with the results of other inputs,
parameters or versions, or to work beside another process. Chunks must not depend on one another; then neither workers,
nor order, nor interruptions change a byte of the result.
"""

from __future__ import annotations

import errno
import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from adversary._core.blocks import RECORDS, VERSIONS, alone, digest, recorded, save_bytes, save_recorded, sweep, track
from adversary._core.workers import map_unordered

MANIFEST = "_manifest.json"
"""A name that readers of Parquet datasets pass over."""


@dataclass(frozen=True)
class Chunks:
    """Files of all chunks by name, and the names of those that were there already, and of those found damaged."""

    files: dict[str, Path]
    kept: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def arrays_as_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as an `.npz` file, the same bytes for the same arrays: for `arrays_of`."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            one = BytesIO()
            np.save(one, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), one.getvalue())  # dated 1980
    return buffer.getvalue()


def run_chunks[T, R](
    function: Callable[[T], R],
    items: Mapping[str, T],
    *,
    out: Path | str,
    parameters: Mapping[str, Any],
    inputs: Any = None,
    encode: Callable[[R], bytes] = arrays_as_bytes,  # type: ignore[assignment]
    file: str = "{}.npz",
    versions: tuple[str, ...] = VERSIONS,
    resume: bool = True,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
    description: str = "chunks",
) -> Chunks:
    """A file in `out` for every item: the encoded result of the function.

    Parameters
    ----------
    function : result of one item, of nothing else: neither time, nor place, nor what else is asked
    items : by names; in names of files, what is neither letter, digit nor one of "_.-~" is percent-encoded
    out : directory, made if need be
    parameters, inputs : whatever JSON can hold that identifies the work and what it reads (a digest)
    encode : a result as bytes
    file : of a chunk below `out`, "{}" for its name
    versions : distributions on which the result may depend
    resume : go on in a directory with results, which is an error otherwise
    scheduler, workers : as `map_unordered` takes them

    Raises
    ------
    ValueError : the directory holds results, or those of other work: what differs is named, with both values
    OSError : the disk is full, or the directory cannot be written; nothing is left half-written
    BlockingIOError : another process is at work in the directory
    """
    path = Path(out)
    manifest = _manifest(items, parameters, inputs, versions)
    _no_space_named(path, partial(path.mkdir, parents=True, exist_ok=True))
    with alone(path):
        _claim(path, manifest, resume)
        return _made(function, items, path, file, encode, digest(manifest), scheduler, workers, progress, description)


def has_chunks(out: Path | str) -> bool:
    """Whether a directory holds any chunk that was recorded."""
    return any((Path(out) / RECORDS).glob("*.json"))


def _made[T, R](
    function: Callable[[T], R], items: Mapping[str, T], path: Path, file: str, encode: Callable[[R], bytes], of: str,
    scheduler: str | None, workers: int | None, progress: bool, description: str,
) -> Chunks:  # fmt: skip
    """The chunks that are missing are made, those that are damaged anew."""
    files = {name: path / file.format(_file_name(name)) for name in items}
    states = {name: recorded(files[name], _record(path, name), _of(of, name))[0] for name in items}
    todo = [name for name in items if states[name] != "whole"]
    _sweep(path, files)
    task = partial(_chunk, function, encode, path, of)
    work = [(name, files[name], items[name]) for name in todo]
    try:
        done = map_unordered(task, work, scheduler=scheduler, workers=workers)
        for _ in track(done, description, enabled=progress, total=len(todo)):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        left = sum(recorded(files[name], _record(path, name), _of(of, name))[0] != "whole" for name in todo)
        told = f"no space is left; {len(items) - left} of {len(items)} chunks are whole: make room, then resume"
        raise OSError(errno.ENOSPC, told, str(path)) from None
    finally:
        _sweep(path, files)
    damaged = tuple(name for name in items if states[name] == "damaged")
    return Chunks(files, tuple(name for name in items if states[name] == "whole"), damaged)


def _sweep(path: Path, files: Mapping[str, Path]) -> None:
    """Remove what was begun to be written by who was killed: an earlier process, or a worker of this one."""
    for folder in {path, *(file.parent for file in files.values())}:
        sweep(folder)


def arrays_of(path: Path) -> dict[str, Any]:
    """Arrays of an `.npz` file."""
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def digest_of_files(folder: Path, pattern: str = "*") -> str:
    """Digest of the names, sizes and contents of all files below a folder, read piece by piece."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob(pattern) if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(json.dumps([path.relative_to(folder).as_posix(), path.stat().st_size, content]).encode())
    return digest.hexdigest()


def _manifest(items: Mapping[str, Any], parameters: Any, inputs: Any, versions: tuple[str, ...]) -> dict[str, Any]:
    names = hashlib.sha256(json.dumps(list(items)).encode()).hexdigest()
    made = {
        "inputs": inputs,
        "parameters": dict(parameters),
        "chunks": {"number": len(items), "digest of names": names},
        "versions": {name: version(name) for name in versions},
    }
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


def _claim(path: Path, manifest: dict[str, Any], resume: bool) -> None:
    """Write the manifest, or compare it with that of the chunks that are there."""
    place = path / MANIFEST
    if not has_chunks(path):
        _no_space_named(path, partial(save_bytes, place, json.dumps(manifest, indent=2).encode()))
        return
    if not resume:
        raise ValueError(f"{path} has results already: resume them, or choose another directory")
    try:
        there = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{place} is gone, so that nobody knows of what the chunks are: delete {path}") from None
    except ValueError:
        raise ValueError(f"{place} is damaged: delete {path} to begin anew") from None
    if differs := _first_difference("", there, manifest):
        name, old, new = differs
        raise ValueError(f"{path} has results of other work: {name} is {old} there, and {new} now")


def _no_space_named(path: Path, save: Callable[[], None]) -> None:
    try:
        save()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, "no space is left, and nothing was written", str(path)) from None


def _first_difference(name: str, old: Any, new: Any) -> tuple[str, str, str] | None:
    """Name and both values of the first entry that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inside = f"{name}.{key}" if name else key
            if found := _first_difference(inside, old.get(key), new.get(key)):
                return found
        return None
    return None if old == new else (name, json.dumps(old), json.dumps(new))


def _file_name(name: str) -> str:
    return quote(name, safe="")


def _of(of: str, name: str) -> str:
    """Of what a chunk is recorded to be: of the work, and of its own place, so that two cannot change places."""
    return digest({"work": of, "chunk": name})


def _record(path: Path, name: str) -> Path:
    return path / RECORDS / f"{_file_name(name)}.json"


def _chunk[T, R](
    function: Callable[[T], R], encode: Callable[[R], bytes], path: Path, of: str, task: tuple[str, Path, T]
) -> None:
    """On a worker: a chunk made, written, and recorded; the record comes last."""
    name, file, item = task
    try:
        content = encode(function(item))
    except Exception as error:
        error.add_note(f"in chunk {name!r}")
        raise
    save_recorded(file, _record(path, name), content, _of(of, name))
