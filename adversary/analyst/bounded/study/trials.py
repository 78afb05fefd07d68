"""The data sets of a simulation study, one by one: released with noise, and what every analysis says of each.

Work is cut into blocks of 1024 data sets of a cell, each with its own seed; how many are done at a time, in which
order, or in which session changes no number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np

from adversary._core import Floats, as_array, check_whole, in_threads, load_or_compute, map_blocks, sweep, track
from adversary.analyst.bounded.bounded_posterior import Posterior, posterior
from adversary.analyst.bounded.bounded_release import BoundedRelease
from adversary.analyst.bounded.study.design import Analysis, Cell, Design
from adversary.analyst.bounded.study.populations import sample_statistics

COLUMNS = ("low", "high", "mode", "mean")
"""What is kept of each data set and analysis: ends of the interval, and two estimates."""
_BAR = "blocks of data sets"


def outcomes(
    design: Design,
    root: np.random.SeedSequence,
    *,
    store: Path | str | None = None,
    progress: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
) -> Floats:
    """COLUMNS of every data set: shape (*design.shape, datasets, 4), in the units of the data.

    Raises
    ------
    ValueError : an analysis that has no posterior or a store that is no folder, before anything is computed
    """
    threads = 1 if workers is None else int(check_whole("workers", workers, minimum=1))
    folder = None if store is None else _folder(store)
    tasks = list(product(design.cells, range(len(design.blocks))))
    _check_possible(design)
    work = partial(_block, design, root, folder)
    if folder is not None:
        sweep(folder)
    if scheduler is None:
        blocks = list(track(in_threads(work, tasks, threads), _BAR, enabled=progress, total=len(tasks)))
    else:
        blocks = map_blocks(work, tasks, description=_BAR, progress=progress, scheduler=scheduler, workers=workers)
    cells = len(tasks) // len(design.blocks)
    per_cell = [np.concatenate(blocks[i * len(design.blocks) : (i + 1) * len(design.blocks)], 1) for i in range(cells)]
    return np.stack(per_cell).reshape(*design.shape, design.datasets, len(COLUMNS))


def releases(design: Design, cell: Cell, root: np.random.SeedSequence, block: int) -> BoundedRelease:
    """The releases of one block: statistics of fresh data, with fresh noise from a generator of its own."""
    data, noise = (np.random.default_rng(child) for child in cell.seed(root, block).spawn(2))
    size = design.blocks[block]
    mean, variance = sample_statistics(design.population, cell.mu, cell.sigma, cell.n, size, design.bounds, data)
    exact = BoundedRelease(mean, variance, cell.n, cell.epsilon, design.bounds)
    first, second = (scale * noise.laplace(size=size) for scale in exact.unit_scales)
    return exact.shifted(first, second)


def _block(design: Design, root: np.random.SeedSequence, folder: Path | None, task: tuple[Cell, int]) -> Floats:
    """COLUMNS of one block under every analysis: shape (analyses, data sets of the block, 4)."""
    cell, block = task
    released = cache(partial(releases, design, cell, root, block))
    found = []
    for one in design.analyses:
        path = None if folder is None else folder / f"{design.label(root, cell, one, block)}.npy"
        found.append(
            load_or_compute(path, partial(_analysed, design, released, one), (design.blocks[block], len(COLUMNS)))
        )
    return np.stack(found)


def _folder(store: Path | str) -> Path:
    folder = Path(store)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"store must be a folder, got the file {folder}")
    return folder


def _analysed(design: Design, released: Callable[[], BoundedRelease], one: Analysis) -> Floats:
    post = _posterior(design, released(), one)
    ends = as_array(post.hdi(design.parameter, design.prob))
    estimates = np.stack([as_array(post.mode(design.parameter)), as_array(post.mean(design.parameter))], axis=-1)
    return np.concatenate([ends, estimates], axis=-1)


def _posterior(design: Design, release: BoundedRelease, one: Analysis) -> Posterior:
    """Without the bounds nothing is infeasible, and there is one meaning of feasibility."""
    return posterior(release, one.prior, one.constrained, design.feasibility if one.constrained else "event")


def _check_possible(design: Design) -> None:
    """Ask every analysis for one posterior of the smallest data: what is improper is refused before the work."""
    middle, width = (design.bounds[0] + design.bounds[1]) / 2.0, design.bounds[1] - design.bounds[0]
    release = BoundedRelease(middle, width**2 / 12.0, min(design.n), design.epsilon[0], design.bounds)
    for one in design.analyses:
        _posterior(design, release, one)
