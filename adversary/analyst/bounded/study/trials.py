"""The data sets of a simulation study, one by one: released with noise, and what every analysis says of each.

Work is cut into blocks of 1024 data sets of a cell, each with its own seed; how many are done at a time, in which
order, or in which session changes no number.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, as_array, check_whole, map_blocks
from adversary.analyst.bounded.bounded_posterior import Posterior, posterior
from adversary.analyst.bounded.bounded_release import BoundedRelease
from adversary.analyst.bounded.study.design import Analysis, Cell, Design
from adversary.analyst.bounded.study.populations import sample_statistics

COLUMNS = ("low", "high", "mode", "mean")
"""What is kept of each data set and analysis: ends of the interval, and two estimates."""


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
    if store is not None and Path(store).is_file():
        raise ValueError(f"store must be a folder, got the file {store}")
    _check_possible(design)
    tasks = list(product(design.cells, design.analyses, range(len(design.blocks))))
    names = [design.label(root, *task) for task in tasks]
    there: dict[str, Any] = {"threads": threads} if scheduler is None else {"scheduler": scheduler, "workers": workers}
    there |= {"progress": progress, "description": "blocks of data sets"}
    found = map_blocks(partial(_analysed, design, root), dict(zip(names, tasks, strict=True)), store, **there)
    values = np.concatenate([found[name] for name in names])
    return values.reshape(*design.shape, design.datasets, len(COLUMNS))


def releases(design: Design, cell: Cell, root: np.random.SeedSequence, block: int) -> BoundedRelease:
    """The releases of one block: statistics of fresh data, with fresh noise from a generator of its own."""
    data, noise = (np.random.default_rng(child) for child in cell.seed(root, block).spawn(2))
    size = design.blocks[block]
    mean, variance = sample_statistics(design.population, cell.mu, cell.sigma, cell.n, size, design.bounds, data)
    exact = BoundedRelease(mean, variance, cell.n, cell.epsilon, design.bounds)
    first, second = (scale * noise.laplace(size=size) for scale in exact.unit_scales)
    return exact.shifted(first, second)


def _analysed(design: Design, root: np.random.SeedSequence, task: tuple[Cell, Analysis, int]) -> Floats:
    """COLUMNS of one block under one analysis: shape (data sets of the block, 4)."""
    cell, one, block = task
    post = _posterior(design, releases(design, cell, root, block), one)
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
