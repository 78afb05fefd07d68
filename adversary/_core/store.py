"""Store of the finished blocks of a long computation, so that it can resume: files with checksums, and a manifest.

A file is complete or absent: it is written under a temporary name, then renamed, then its checksum is recorded. The
calling process writes all blocks, wherever they are computed. A computation restarted in the same folder computes the
missing blocks and those that differ from their checksum. It refuses a folder with results of other inputs, parameters
or versions, and a folder in which another process is at work. Blocks must be independent of one another; then the
number of workers, the order and interruptions do not change a byte of the result.
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

# Version of the folder layout; folders of another version are refused.
FORMAT = 2
MANIFEST, RECORDS = "_manifest.json", "_chunks"
"""Names of the manifest and of the folder of checksums. Parquet libraries ignore names that begin with "_"."""
VERSIONS = (NAME, "numpy")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
_DIGEST = re.compile(r'"[0-9a-f]{64}"')


@dataclass(frozen=True)
class Written:
    """Files of all blocks by name; names of blocks that were already complete, and of those that were damaged."""

    files: dict[str, Path]
    unchanged: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def arrays_as_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as the bytes of an `.npz` file, identical for identical arrays; `arrays_of` reads them."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            # ZipInfo dates every entry 1980, so that the bytes do not depend on the time.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array_as_bytes(array))
    return buffer.getvalue()


def array_as_bytes(array: Any) -> bytes:
    """One array as the bytes of an `.npy` file."""
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
    """Write one file per item to a folder: the encoded result of the function.

    Parameters
    ----------
    function : of one item; its result must depend on the item alone
    items : by name; in file names, characters other than letters, digits and "_.-~" are percent-encoded
    out : folder, created if necessary
    work : JSON values that identify the computation and its inputs (by digests); the folder is then reserved for these
        items. Without it the names must identify the computation, and several computations can share the folder
    encode : converts a result to bytes, on the worker
    file : path of a block below `out`, with "{}" for its name
    versions : Python packages whose versions the result may depend on
    resume : continue in a folder that has results; otherwise that is an error
    progress, description : whether to show a progress bar on standard error, and its label
    workers : as `map_unordered` takes them

    Raises
    ------
    ValueError : the folder has results and `resume` is false, or has results of other work; the message names the
        first difference, with both values
    OSError : the disk is full, or the folder cannot be written; no partial file is left
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
    """A folder of blocks of one computation, whose digest is part of every record."""

    path: Path
    file: str
    work: str

    def place(self, name: str) -> Path:
        """File of a block."""
        return self.path / self.file.format(quote(name, safe=""))

    def record(self, name: str) -> Path:
        """File of the record of a block."""
        return self.path / RECORDS / f"{quote(name, safe='')}.json"

    def content(self, name: str, content: bytes) -> dict[str, Any]:
        """Record of a block: its size, its checksum, and a digest of work and name that detects swapped files."""
        of = digest({"work": self.work, "chunk": name})
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "of": of}

    def state(self, name: str) -> str:
        """State of a block: "whole", "missing" (no record), or "damaged" (differs from its record)."""
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
        """Compute and write the blocks that are missing or damaged."""
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
    """Content of one block, computed on a worker; errors name the block unless its name is a digest."""
    name, item = task
    try:
        return encode(function(item))
    except Exception as error:
        if named:
            error.add_note(f"in block {name!r}")
        raise


def has_blocks(out: Path | str) -> bool:
    """True if a folder has at least one recorded block.

    Parameters
    ----------
    out : folder, which need not exist
    """
    return any((Path(out) / RECORDS).glob("*.json"))


def digest(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _manifest(items: Mapping[str, Any], work: Mapping[str, Any] | None, versions: tuple[str, ...]) -> dict[str, Any]:
    names = {"number": len(items), "names": hashlib.sha256(json.dumps(list(items)).encode()).hexdigest()}
    made = {} if work is None else {**work, "blocks": names}
    every = {"format": FORMAT, **made, "versions": {name: version(name) for name in versions}}
    plain: dict[str, Any] = json.loads(json.dumps(every))
    return plain


def _claim(path: Path, manifest: dict[str, Any], resume: bool) -> None:
    """Write the manifest, or compare it with that of the existing blocks."""
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
    """Context in which the OSError of a full disk names the folder and its state."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, f"no space is left; {state()}", str(path)) from None


def save_bytes(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file under a temporary name, then rename it; on an error the temporary file is removed.

    Parameters
    ----------
    path : of the file; its folder is created if necessary
    content : of the file
    lasting : flush to disk (fsync), so that the file survives a power failure; blocks rely on their checksums instead

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
    """Remove temporary files that `save_bytes` left behind when its process was killed.

    Files that a running process is writing are locked, and remain.

    Parameters
    ----------
    folders : folders to clean, without subfolders
    """
    for temporary in (path for folder in folders for path in folder.glob(".*")):
        if _TEMPORARY.fullmatch(temporary.name):
            with suppress(OSError), exclusive_lock(temporary):
                temporary.unlink()


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Context with an exclusive lock on a file or directory, which ends with the process.

    Without effect on systems and file systems that have no `flock`.

    Parameters
    ----------
    path : of the file or directory, which must exist

    Raises
    ------
    BlockingIOError : another process holds the lock
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
        # A file system without locks.
        except OSError:
            pass
        yield
    finally:
        os.close(place)


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove empty folders; others, and those that cannot be removed, remain without an error.

    Parameters
    ----------
    folders : innermost first
    """
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
