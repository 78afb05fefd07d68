"""Long work in blocks: a seed for each, a progress bar with time left, and resumption where it stopped.

Draws come in fixed blocks of 1024, each with its own child of one `numpy.random.SeedSequence`. How blocks are grouped,
ordered or resumed, and who makes them, therefore never changes a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from adversary._core.distribution import NAME
from adversary._core.numeric import Floats, check_whole
from adversary._core.workers import map_unordered

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

BLOCK = 1024
RECORDS = "_chunks"
"""Folder of the checksums of stored files; readers of Parquet datasets pass over it."""
VERSIONS = (NAME, "numpy")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
T = TypeVar("T")


def track[T](items: Iterable[T], description: str, *, enabled: bool = True, total: int | None = None) -> Iterator[T]:
    """The items, with a progress bar and the time left on standard error; silent when not a terminal or not enabled.

    `total` is their number, where they cannot tell themselves.
    """
    if not enabled:
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def notify_after(message: str, after: float = 2.0) -> Iterator[None]:
    """Say on standard error what is going on if it takes longer than `after` seconds; silent where nobody watches."""
    from rich.console import Console

    console = Console(stderr=True)
    timer = Timer(after, console.print, args=(message,))
    timer.daemon = True
    if console.is_terminal or console.is_jupyter:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def seed_sequence(rng: Any) -> np.random.SeedSequence:
    """A seed sequence from None, a seed, a sequence or a Generator (whose next draw seeds it)."""
    if isinstance(rng, np.random.SeedSequence):  # a fresh copy: spawning would use up the caller's
        return np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size)
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(int(rng.integers(2**63)))
    if rng is None:
        return np.random.SeedSequence()
    if not isinstance(rng, (int, np.integer)) or isinstance(rng, bool) or rng < 0:
        raise ValueError(f"rng must be None, a seed >= 0 or a numpy Generator, got {rng!r}")
    return np.random.SeedSequence(int(rng))


def simulate(
    function: Callable[[int, np.random.Generator], Floats],
    draws: int,
    rng: Any = None,
    *,
    description: str = "draws",
    progress: bool = False,
    store: Path | str | None = None,
    key: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> Floats:
    """`function(size, generator)` over blocks of draws, joined along the first axis.

    Parameters
    ----------
    function : makes `size` draws with the generator it is given
    draws : number in all
    rng : seed; with a seed, results do not depend on how the work was cut or whether it was resumed
    store : folder where finished blocks are kept; a later call with the same seed and key continues from them.
        Every file is written under a temporary name and renamed, and its checksum is recorded: a block that is not as
        recorded is named in a RuntimeWarning and made again.
    key : anything JSON can hold that identifies the work, so that blocks of another are never taken for it
    scheduler, workers : as `map_unordered` takes them; blocks are kept here, not where they are made

    Raises
    ------
    ValueError : an argument that is not as it must be
    ImportError, OSError, ChildProcessError : of workers, as `map_unordered` says
    """
    total = int(check_whole("draws", draws, minimum=1))
    root = seed_sequence(rng)
    sizes = [min(BLOCK, total - start) for start in range(0, total, BLOCK)]
    label = hashlib.sha256(
        json.dumps([str(root.entropy), root.spawn_key, total, key], default=str).encode()
    ).hexdigest()[:16]
    paths = [None if store is None or rng is None else Path(store) / f"{label}-{i:06d}.npy" for i in range(len(sizes))]
    work = list(zip(sizes, root.spawn(len(sizes)), strict=True))
    blocks = map_blocks(
        partial(_block, function),
        work,
        paths,
        lengths=sizes,
        description=description,
        progress=progress and len(work) > 2,
        scheduler=scheduler,
        workers=workers,
    )
    return np.concatenate(blocks)


def _block(function: Callable[[int, np.random.Generator], Floats], asked: tuple[int, np.random.SeedSequence]) -> Floats:
    """So many draws with a generator of their own."""
    size, child = asked
    return function(size, np.random.default_rng(child))


def map_blocks[T](
    function: Callable[[T], Floats],
    items: Sequence[T],
    paths: Sequence[Path | None] = (),
    *,
    lengths: Sequence[int] = (),
    description: str = "blocks",
    progress: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
) -> list[Floats]:
    """The function of every item, in their order; `scheduler` and `workers` as `map_unordered` takes them.

    What is whole at the path of an item is read instead, if its first axis has the length it must have; what is made is
    written there, by this process, as soon as it is done.
    """
    places = list(paths) or [None] * len(items)
    for folder in {path.parent for path in places if path is not None}:
        sweep(folder)
    shapes: list[tuple[int, ...]] = [(length,) for length in lengths] or [()] * len(items)
    stored = {i: load_array(path, shapes[i]) for i, path in enumerate(places) if path is not None}
    found = {i: block for i, block in stored.items() if block is not None}
    todo = [i for i in range(len(items)) if i not in found]
    done = map_unordered(function, [items[i] for i in todo], scheduler=scheduler, workers=workers)
    for place, block in track(done, description, enabled=progress, total=len(todo)):
        i = todo[place]
        if (path := places[i]) is not None:
            save_array(path, block)
        found[i] = block
    return [found[i] for i in range(len(items))]


def load_or_compute(path: Path | None, make: Callable[[], Floats], shape: tuple[int, ...] | None = None) -> Floats:
    """What a file holds, or what is made and then written there; without a path, what is made."""
    found = None if path is None else load_array(path, shape or (), complete=shape is not None)
    if found is not None:
        return found
    block = make()
    if path is not None:
        save_array(path, block)
    return block


def load_array(path: Path, shape: tuple[int, ...] = (), *, complete: bool = False) -> Floats | None:
    """Numbers written by `save_array` whose first axes have these lengths, all of them and no NaN if `complete`.

    None where there are none. A file that is damaged, without a record, or recorded of other work, is named in a
    RuntimeWarning; nothing in it is unpickled.
    """
    if not path.exists():
        return None
    state, content = recorded(path, _record_beside(path), _work_of(path))
    if state == "whole":
        try:
            block = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
            fits = block.dtype == np.float64 and block.shape[: len(shape)] == shape
            if fits and not (complete and (block.ndim > len(shape) or np.isnan(block).any())):
                return block
        except Exception:  # recorded bytes that are no array: numpy's reader has no error of its own
            pass
    what = "has no record of its checksum" if state == "missing" else "is damaged, or a block of other work"
    warnings.warn(f"{path} {what}: it is made again", RuntimeWarning, stacklevel=2)
    return None


def save_array(path: Path, array: Floats) -> None:
    """Write an array and its record, so that a file is whole or not there."""
    buffer = BytesIO()
    np.save(buffer, np.asarray(array, dtype=np.float64), allow_pickle=False)
    save_recorded(path, _record_beside(path), buffer.getvalue(), _work_of(path))


def _record_beside(path: Path) -> Path:
    return path.parent / RECORDS / f"{path.name}.json"


def _work_of(path: Path) -> str:
    """Digest of the work of a block: its name, which identifies it in any store, and the versions that made it."""
    return digest({"block": path.name, "versions": {name: version(name) for name in (*VERSIONS, "scipy")}})


def digest(manifest: Mapping[str, Any]) -> str:
    """Digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def recorded(file: Path, record: Path, of: str) -> tuple[str, bytes]:
    """("whole", content) of a file, "missing" without a record, or "damaged": not as recorded, or of other work."""
    if not record.exists():
        return "missing", b""
    try:
        told = json.loads(record.read_text(encoding="utf-8"))
        if file.stat().st_size != told["size"]:
            return "damaged", b""
        content = file.read_bytes()
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return "damaged", b""
    return ("whole", content) if told == _record_of(content, of) else ("damaged", b"")


def save_recorded(file: Path, record: Path, content: bytes, of: str) -> None:
    """Write a file, then its record."""
    save_bytes(file, content)
    save_bytes(record, json.dumps(_record_of(content, of)).encode())


def _record_of(content: bytes, of: str) -> dict[str, Any]:
    """Record of a file: its size and checksum, and the digest of the work it is of."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "of": of}


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it; the temporary one does not outlive an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.touch()
        with alone(temporary):
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what `save_bytes` had begun to write here, or for records of it, when its process was killed.

    What a living process is writing is locked by it, and stays.
    """
    for temporary in (*folder.glob(".*"), *(folder / RECORDS).glob(".*")):
        if _TEMPORARY.fullmatch(temporary.name):
            with suppress(OSError), alone(temporary):
                temporary.unlink()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else is at work on a file or in a directory; who died there does not count.

    Not looked at where there is no `flock`. BlockingIOError where somebody is.
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
    """Those of the folders that are empty, the innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
