"""Long simulations in blocks: one seed per block, and resumption from stored blocks.

Draws come in fixed blocks of 1024, each with its own child of one `numpy.random.SeedSequence`. The grouping, order and
resumption of blocks, and the worker that computes each, therefore never change a result.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core.argument_checks import check_whole
from adversary._core.numeric import Floats
from adversary._core.store import VERSIONS, array_as_bytes, write_blocks
from adversary._core.workers import map_unordered
from adversary._core.workers import track as track

# Part of every simulated result: another size would change the draws that a seed gives.
BLOCK = 1024

# Python packages whose versions stored draws may depend on.
ARRAYS = (*VERSIONS, "scipy")


def seed_sequence(rng: Any) -> np.random.SeedSequence:
    """A fresh seed sequence for a source of random numbers.

    Parameters
    ----------
    rng : None, a seed >= 0, a SeedSequence (copied), or a Generator, whose next draw becomes the seed

    Raises
    ------
    ValueError : anything else

    >>> seed_sequence(1).entropy
    1
    """
    # A copy: spawning children changes the state of a SeedSequence, which belongs to the caller.
    if isinstance(rng, np.random.SeedSequence):
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
    """Draws of `function(size, generator)` in blocks, concatenated along the first axis.

    Parameters
    ----------
    function : returns `size` draws, (size, ...), made with the generator
    draws : total number of draws
    rng : seed; with a seed, results do not depend on the number of workers or on interruptions
    description, progress : label of a progress bar on standard error, and whether to show it
    store : folder of finished blocks; a later call with the same seed and key continues from them. Ignored without a
        seed
    key : JSON value that identifies the function and its inputs, so that blocks of other work are not reused
    scheduler, workers : as `map_unordered` takes them

    Raises
    ------
    ValueError : an invalid number of draws, seed or number of workers
    ImportError, OSError, ChildProcessError : as `map_unordered` and `write_blocks`
    """
    total = int(check_whole("draws", draws, minimum=1))
    root = seed_sequence(rng)
    sizes = [min(BLOCK, total - start) for start in range(0, total, BLOCK)]
    label, work = work_name(root, total, key), zip(sizes, root.spawn(len(sizes)), strict=True)
    items = {f"{label}-{i:06d}": one for i, one in enumerate(work)}
    blocks = map_blocks(
        partial(_block, function),
        items,
        None if rng is None else store,
        description=description,
        progress=progress and len(items) > 2,
        scheduler=scheduler,
        workers=workers,
    )
    return np.concatenate(list(blocks.values()))


def _block(function: Callable[[int, np.random.Generator], Floats], task: tuple[int, np.random.SeedSequence]) -> Floats:
    """Draws of one block, from its own generator."""
    size, child = task
    return function(size, np.random.default_rng(child))


def work_name(seed: np.random.SeedSequence, *parts: Any, numbers: Sequence[NDArray[Any]] = ()) -> str:
    """Digest that identifies a computation by its seed, parameters and arrays: 24 hexadecimal digits.

    Parameters
    ----------
    seed : of the draws
    *parts : JSON values; other objects enter by their repr
    numbers : arrays, which enter by their bytes

    >>> work_name(seed_sequence(1), "prior") == work_name(seed_sequence(2), "prior")
    False
    """
    text = json.dumps([str(seed.entropy), seed.spawn_key, seed.pool_size, *parts], default=repr)
    digest = hashlib.sha256(text.encode())
    for array in numbers:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:24]


def map_blocks[T](
    function: Callable[[T], Floats],
    items: Mapping[str, T],
    store: Path | str | None = None,
    *,
    description: str = "blocks",
    progress: bool = False,
    **workers: Any,
) -> dict[str, Floats]:
    """Results of the function per item, by name, in the order of the items.

    With a store, finished blocks are read from it, and new ones written to it at once. A block that differs from its
    checksum is named in a RuntimeWarning and computed again.

    Parameters
    ----------
    function : of one item, to an array
    items : by name; with a store, a name must identify everything that its block depends on
    store : folder of finished blocks, or None
    description, progress : label of a progress bar on standard error, and whether to show it
    workers : as `map_unordered` takes them

    Raises
    ------
    ImportError, OSError, ChildProcessError, ValueError : as `map_unordered` and `write_blocks`

    >>> {name: block.tolist() for name, block in map_blocks(np.ones, {"a": 1, "b": 2}).items()}
    {'a': [1.0], 'b': [1.0, 1.0]}
    """
    if store is None:
        done = map_unordered(function, list(items.values()), **workers)
        results = dict(track(done, description, enabled=progress, total=len(items)))
        return {name: results[place] for place, name in enumerate(items)}
    how = {"progress": progress, "description": description, **workers}
    written = write_blocks(function, items, store, encode=array_as_bytes, file="{}.npy", versions=ARRAYS, **how)
    for name in written.damaged:
        damage = f"{written.files[name]} was damaged, or a block of other work: it is made again"
        warnings.warn(damage, RuntimeWarning, stacklevel=2)
    return {name: np.load(path, allow_pickle=False) for name, path in written.files.items()}
