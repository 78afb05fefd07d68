"""Long work in blocks: a seed for each, a progress bar with time left, and resumption where it stopped.

Draws come in fixed blocks of 1024, each with its own child of one `numpy.random.SeedSequence`. How blocks are grouped,
ordered or resumed therefore never changes a result.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from adversary._numeric import Floats, check_whole

BLOCK = 1024
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

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def told(message: str, after: float = 2.0) -> Iterator[None]:
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
) -> Floats:
    """`function(size, generator)` over blocks of draws, joined along the first axis.

    Parameters
    ----------
    function : makes `size` draws with the generator it is given
    draws : number in all
    rng : seed; with a seed, results do not depend on how the work was cut or whether it was resumed
    store : folder where finished blocks are kept; a later call with the same seed and key continues from them.
        Every file is written under a temporary name and renamed.
    key : anything JSON can hold that identifies the work, so that blocks of another are never taken for it
    """
    total = int(check_whole("draws", draws, minimum=1))
    root = seed_sequence(rng)
    sizes = [min(BLOCK, total - start) for start in range(0, total, BLOCK)]
    blocks = []
    work = list(zip(range(len(sizes)), sizes, root.spawn(len(sizes)), strict=True))
    label = hashlib.sha256(
        json.dumps([str(root.entropy), root.spawn_key, total, key], default=str).encode()
    ).hexdigest()[:16]
    for i, size, child in track(work, description, enabled=progress and len(work) > 2):
        path = None if store is None or rng is None else Path(store) / f"{label}-{i:06d}.npy"
        blocks.append(kept(path, partial(function, size, np.random.default_rng(child))))
    return np.concatenate(blocks)


def kept(path: Path | None, make: Callable[[], Floats]) -> Floats:
    """What a file holds, or what is made and then written there; without a path, what is made."""
    if path is not None and path.exists():
        return np.asarray(np.load(path))
    block = make()
    if path is not None:
        save_array(path, block)
    return block


def save_array(path: Path, array: Floats) -> None:
    """Write an array with `save_bytes`, so that a file is whole or not there."""
    buffer = BytesIO()
    np.save(buffer, array)
    save_bytes(path, buffer.getvalue())


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it; the temporary one does not outlive an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
