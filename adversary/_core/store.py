"""Finished blocks of long work, each a file with a checksum, all under one manifest: work goes on where it stopped.

A file is whole or not there: it is written under a temporary name, then renamed, then its checksum is recorded. Blocks
are written by the process that asks for them, whoever makes them. Work that is started again in the same folder goes on
with the blocks that are missing, makes anew those whose file is not as recorded, and refuses to mix with the results of
other inputs, parameters or versions, or to work beside another process. Blocks must not depend on one another; then
neither workers, nor order, nor interruptions change a byte of the result.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np

from adversary._core.distribution import NAME
from adversary._core.workers import map_unordered, track

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
"""Of a folder of blocks: one of another format is refused."""
MANIFEST, RECORDS = "_manifest.json", "_chunks"
"""Names that readers of Parquet datasets pass over."""
VERSIONS = (NAME, "numpy")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
_DIGEST = re.compile(r'"[0-9a-f]{64}"')


@dataclass(frozen=True)
class Written:
    """Files of all blocks by name, and the names of those that were there already, and of those found damaged."""

    files: dict[str, Path]
    unchanged: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def arrays_as_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as an `.npz` file, the same bytes for the same arrays: for `arrays_of`."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array_as_bytes(array))  # dated 1980
    return buffer.getvalue()


def array_as_bytes(array: Any) -> bytes:
    """One array as an `.npy` file."""
    buffer = BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def arrays_of(path: Path) -> dict[str, Any]:
    """Arrays of an `.npz` file, by name.

    Parameters
    ----------
    path : of the file
    """
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def write_blocks[T, R](
    function: Callable[[T], R],
    items: Mapping[str, T],
    out: Path | str,
    *,
    work: Mapping[str, Any] | None = None,
    encode: Callable[[R], bytes] = arrays_as_bytes,  # type: ignore[assignment]
    file: str = "{}.npz",
    versions: tuple[str, ...] = VERSIONS,
    resume: bool = True,
    progress: bool = False,
    description: str = "blocks",
    **workers: Any,
) -> Written:
    """A file in `out` for every item: the encoded result of the function.

    Parameters
    ----------
    function : result of one item, of nothing else: neither time, nor place, nor what else is asked
    items : by names; in names of files, what is neither letter, digit nor one of "_.-~" is percent-encoded
    out : folder, made if need be
    work : whatever JSON can hold that identifies the work and what it reads (a digest); the folder is then for these
        items alone. Without it the names themselves must identify the work, and any works share the folder
    encode : a result as bytes, where it is made
    file : of a block below `out`, "{}" for its name
    versions : distributions on which the result may depend
    resume : go on in a folder with results, which is an error otherwise
    workers : as `map_unordered` takes them

    Raises
    ------
    ValueError : the folder holds results, or those of other work: what differs is named, with both values
    OSError : the disk is full, or the folder cannot be written; nothing is left half-written
    BlockingIOError : another process is at work in the folder
    """
    path = Path(out)
    manifest = _manifest(items, work, versions)
    with _full_disk(path, lambda: "nothing was written"):
        path.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(path):
        _claim(path, manifest, resume)
        store = _Store(path, file, digest(manifest))
        made = partial(_make_block, function, encode, work is not None)
        return store.write_missing(made, items, progress, description, workers)


@dataclass(frozen=True)
class _Store:
    """A folder whose files are blocks of one work: its digest is part of every record."""

    path: Path
    file: str
    work: str

    def place(self, name: str) -> Path:
        """File of a block."""
        return self.path / self.file.format(quote(name, safe=""))

    def record(self, name: str) -> Path:
        """File of its record."""
        return self.path / RECORDS / f"{quote(name, safe='')}.json"

    def content(self, name: str, content: bytes) -> dict[str, Any]:
        """Record of a block: size and checksum, of the work, and of its own place, so that two cannot change places."""
        of = digest({"work": self.work, "chunk": name})
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "of": of}

    def state(self, name: str) -> str:
        """ "whole", "missing" without a record, or "damaged": not as recorded, or of other work."""
        if not self.record(name).exists():
            return "missing"
        try:
            there = json.loads(self.record(name).read_text(encoding="utf-8"))
            same = there == self.content(name, self.place(name).read_bytes())
        except (OSError, ValueError, TypeError, RecursionError):
            return "damaged"
        return "whole" if same else "damaged"

    def save(self, name: str, content: bytes) -> None:
        """Write a block, then its record."""
        save_bytes(self.place(name), content, lasting=False)
        save_bytes(self.record(name), json.dumps(self.content(name, content)).encode(), lasting=False)

    def write_missing[T](
        self, content_of: Callable[[tuple[str, T]], bytes], items: Mapping[str, T], progress: bool, description: str,
        how: Mapping[str, Any],
    ) -> Written:  # fmt: skip
        """Blocks that are missing are made, those that are damaged anew."""
        states = {name: self.state(name) for name in items}
        todo = [name for name in items if states[name] != "whole"]
        sweep({self.path, self.path / RECORDS, *(self.place(name).parent for name in items)})
        work = [(name, items[name]) for name in todo]
        with (
            _full_disk(self.path, lambda: self._status_line(items)),
            closing(map_unordered(content_of, work, **how)) as done,
        ):
            for place, content in track(done, description, enabled=progress, total=len(todo)):
                self.save(todo[place], content)
        whole, damaged = (tuple(n for n in items if states[n] == state) for state in ("whole", "damaged"))
        return Written({name: self.place(name) for name in items}, whole, damaged)

    def _status_line(self, items: Mapping[str, Any]) -> str:
        whole = sum(self.state(name) == "whole" for name in items)
        return f"{whole} of {len(items)} blocks are whole: make room, then resume"


def _make_block[T, R](
    function: Callable[[T], R], encode: Callable[[R], bytes], named: bool, task: tuple[str, T]
) -> bytes:
    """On a worker: the content of one block; errors say which where its name is not a digest."""
    name, item = task
    try:
        return encode(function(item))
    except Exception as error:
        if named:
            error.add_note(f"in block {name!r}")
        raise


def has_blocks(out: Path | str) -> bool:
    """True where a folder holds any block that was recorded.

    Parameters
    ----------
    out : folder, which need not be there
    """
    return any((Path(out) / RECORDS).glob("*.json"))


def digest(manifest: Mapping[str, Any]) -> str:
    """Digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _manifest(items: Mapping[str, Any], work: Mapping[str, Any] | None, versions: tuple[str, ...]) -> dict[str, Any]:
    names = {"number": len(items), "names": hashlib.sha256(json.dumps(list(items)).encode()).hexdigest()}
    made = {} if work is None else {**work, "blocks": names}
    every = {"format": FORMAT, **made, "versions": {name: version(name) for name in versions}}
    plain: dict[str, Any] = json.loads(json.dumps(every))
    return plain


def _claim(path: Path, manifest: dict[str, Any], resume: bool) -> None:
    """Write the manifest, or compare it with that of the blocks that are there."""
    place = path / MANIFEST
    if not has_blocks(path):
        with _full_disk(path, lambda: "nothing was written"):
            save_bytes(place, json.dumps(manifest, indent=2).encode())
        return
    if not resume:
        raise ValueError(f"{path} has results already: resume them, or choose another directory")
    try:
        there = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{place} is gone, or of an earlier version: nobody knows of what the blocks are: delete {path}"
        ) from None
    except ValueError:
        raise ValueError(f"{place} is damaged: delete {path} to begin anew") from None
    if differs := _first_difference("", there, manifest):
        name, old, new = differs
        difference = f"{name} is {old} there, and {new} now"
        if _DIGEST.fullmatch(old) and _DIGEST.fullmatch(new):
            difference = f"its {name} were others, by their digest"
        raise ValueError(f"{path} has results of other work: {difference}: delete it, or choose another directory")


def _first_difference(name: str, old: Any, new: Any) -> tuple[str, str, str] | None:
    """Name and both values of the first entry that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inside = f"{name}.{key}" if name else key
            if difference := _first_difference(inside, old.get(key), new.get(key)):
                return difference
        return None
    return None if old == new else (name, json.dumps(old), json.dumps(new))


@contextmanager
def _full_disk(path: Path, state: Callable[[], str]) -> Iterator[None]:
    """An OSError of a full disk names the folder, and says what is there."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, f"no space is left; {state()}", str(path)) from None


def save_bytes(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file under a temporary name, then rename it; the temporary one does not outlive an error.

    Parameters
    ----------
    path : of the file; its folder is made if need be
    content : of the file
    lasting : wait until it would outlive a loss of power; blocks need not, as their checksums show

    Raises
    ------
    OSError : the disk is full, or the folder cannot be written
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.touch()
        with exclusive_lock(temporary):
            with temporary.open("wb") as file:
                file.write(content)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folders: Iterable[Path]) -> None:
    """Remove what `save_bytes` had begun to write when its process was killed.

    What a living process is writing is locked by it, and stays.

    Parameters
    ----------
    folders : to look in, not below
    """
    for temporary in (path for folder in folders for path in folder.glob(".*")):
        if _TEMPORARY.fullmatch(temporary.name):
            with suppress(OSError), exclusive_lock(temporary):
                temporary.unlink()


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """A block during which nobody else is at work on a file or in a directory; who died there does not count.

    Not looked at where there is no `flock`.

    Parameters
    ----------
    path : of the file or directory, which must exist

    Raises
    ------
    BlockingIOError : another process is at work there
    """
    if fcntl is None:
        yield
        return
    place = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"{path}: another process is at work here: wait for it, or stop it") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(place)


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders that are empty; what cannot be removed stays, silently.

    Parameters
    ----------
    folders : the innermost first
    """
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
