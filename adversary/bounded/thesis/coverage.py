"""Coverage and length of intervals from noisy statistics, and errors of estimates, by simulation.

The simulation study of the thesis (its figures 4.2, 4.8, 4.9 and 4.12), by exact posteriors instead of draws: the
published code took 10 to 20 hours of a core for each cell. Work is cut into blocks of 1024 data sets of a cell, each
with its own seed; how many are done at a time, in which order, or in which session changes no number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import NAME, Floats, Seed, as_array, check_whole, map_blocks, seed_sequence
from adversary.bounded.bounded_posterior import Posterior, posterior
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.thesis.design import PARAMETERS, Analysis, Design, Trial, design
from adversary.bounded.thesis.populations import TruncatedNormal, sample_statistics

DIMS = ("n", "truth", "epsilon", "prior", "constrained")
ESTIMATES = ("mode", "mean")

# Results per data set and analysis: ends of the interval, and two estimates.
COLUMNS = ("low", "high", "mode", "mean")


def coverage_study(
    *,
    n: int | Sequence[int],
    truths: Any,
    epsilon: ArrayLike,
    priors: Any = "flat",
    constrained: bool | Sequence[bool] = (True, False),
    datasets: int = 1000,
    prob: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    parameter: str = "mu",
    population: Any = "truncated normal",
    feasibility: str = "event",
    rng: Seed = None,
    store: Path | str | None = None,
    progress: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
) -> xr.Dataset:
    r"""Frequentist properties of the highest-density interval of a parameter, over simulated data sets.

    Of every cell (n, truth, epsilon) data sets are drawn, their mean and variance released with Laplace noise, and each
    release analysed under every prior, with and without the bounds: these comparisons are paired.

    Parameters
    ----------
    n : sizes of the data sets
    truths : pairs (mu, sigma), parameters of the population in the units of the data; one, several, or a mapping of
        names
    epsilon : budgets. A tuple of two numbers is one cell, (mean, variance); a number e stands for (e, e); a list (or an
        array) holds several cells of either form, so that [1, 2, 3] are three; a tuple of three numbers is refused
    priors : one prior or a mapping of names, as in `posterior`
    constrained : whether posteriors use the bounds
    datasets : in every cell
    prob : mass of the intervals
    bounds : the public interval
    parameter : "mu", "sigma" or "sigma2"
    population : "truncated normal", the normal law given that it falls into the bounds; or a function
        (mu, sigma, size, rng) -> values within the bounds
    feasibility : "event" or "normalised", as in `posterior`
    rng : seed; with a seed, a cell gives the same numbers whatever else is in the study
    store : folder where finished blocks of data sets are stored, for a later call with the same seed to go on from; a
        design that differs in anything a block depends on never takes it. Needs rng
    progress : a bar with the time left, on a terminal
    workers : blocks in work at the same time, each in a thread; a posterior of many releases uses all cores by itself
    scheduler : address of a Dask scheduler whose workers do the blocks instead

    Returns
    -------
    Dataset with dims (n, truth, epsilon, prior, constrained): `coverage`, `length` (mean); with "estimate" last ("mode"
    of the marginal, "mean"): `rmse`, `bias`. Each has its Monte Carlo standard error under its name with `_mcse`. What
    is to be covered is `true_value`, the parameter of the population, and not the same moment of data in the bounds
    (`moment`, known for the truncated normal): erratum E9 of the reference. Attributes hold design, seed and versions.

    Raises
    ------
    ValueError : fewer than one data set, a truth outside the bounds, an analysis without a proper posterior (Theorems
        17 and 18), a store without a seed or that is no folder, and whatever a release or a prior refuses

    References
    ----------
    The thesis, section 4.3; the reference's section 11.

    >>> study = coverage_study(n=50, truths=(0.1, 0.04), epsilon=1.0, datasets=5, rng=1)
    >>> dict(study.sizes)
    {'n': 1, 'truth': 1, 'epsilon': 1, 'prior': 1, 'constrained': 2, 'estimate': 2}
    """
    study = design(n, truths, epsilon, priors, constrained, datasets, prob, bounds, parameter, population, feasibility)
    if store is not None and rng is None:
        raise ValueError("store needs rng: without a seed no later call could go on from what is stored")
    root = seed_sequence(rng)
    values = outcomes(study, root, store=store, progress=progress, workers=workers, scheduler=scheduler)
    parts = averages(values, _true_values(study)[:, None, None, None]) | _of_truths(study)
    return xr.Dataset(parts, _coords(study), _attrs(study, root))


def _true_values(study: Design) -> Floats:
    """True value of the parameter to be covered, for every truth."""
    return np.array([PARAMETERS[study.parameter](mu, sigma) for mu, sigma in study.truths.values()])


def _of_truths(study: Design) -> dict[str, Any]:
    """`true_value`, and `moment` where it is known."""
    parts = {"true_value": ("truth", _true_values(study))}
    if isinstance(study.population, TruncatedNormal):
        moments = [study.population.moments(*pair) for pair in study.truths.values()]
        parts["moment"] = ("truth", np.array([PARAMETERS[study.parameter](*pair) for pair in moments]))
    return parts


def _coords(study: Design) -> dict[str, Any]:
    """Labels: budgets as numbers where mean and variance have the same, else as "0.1 + 0.2"."""
    same = all(first == second for first, second in study.epsilon)
    truth, epsilon = np.array(list(study.truths.values())), np.array(study.epsilon)
    return {
        "n": list(study.n),
        "truth": list(study.truths),
        "epsilon": epsilon[:, 0] if same else [f"{first!r} + {second!r}" for first, second in study.epsilon],
        "prior": list(study.priors),
        "constrained": list(study.constrained),
        "estimate": list(ESTIMATES),
        "mu": ("truth", truth[:, 0]),
        "sigma": ("truth", truth[:, 1]),
        "epsilon_mean": ("epsilon", epsilon[:, 0]),
        "epsilon_variance": ("epsilon", epsilon[:, 1]),
    }


def _attrs(study: Design, root: np.random.SeedSequence) -> dict[str, Any]:
    return {
        "parameter": study.parameter,
        "covers": f"{study.parameter} as a parameter of the population, not as a moment of data within the bounds",
        "population": "truncated normal" if isinstance(study.population, TruncatedNormal) else _named(study.population),
        "prob": study.prob,
        "bounds": list(study.bounds),
        "datasets": study.datasets,
        "feasibility": study.feasibility,
        "priors": json.dumps({name: _named(prior) for name, prior in study.priors.items()}),
        "seed": str(root.entropy),
        "spawn_key": json.dumps(root.spawn_key),
        "versions": json.dumps({name: version(name) for name in (NAME, "numpy", "scipy", "xarray")}),
    }


def _named(given: Any) -> str:
    """A law or prior in words: a function by its name."""
    return str(getattr(given, "__qualname__", None) or repr(given))


def averages(values: Floats, truth: Floats) -> dict[str, Any]:
    """Variables of the study, each with its Monte Carlo standard error.

    Parameters
    ----------
    values : COLUMNS of every data set, shape (*DIMS, data sets, 4)
    truth : what is to be covered, to broadcast against DIMS

    The standard error of a coverage is that of a share with half a success and half a failure more: never 0.
    """
    low, high, *estimates = np.moveaxis(values, -1, 0)
    covered = ((low <= truth[..., None]) & (truth[..., None] <= high)).sum(-1)
    error = np.stack(estimates, axis=-2) - truth[..., None, None]
    rmse = np.sqrt((error**2).mean(-1))
    n = values.shape[-2]
    share = (covered + 0.5) / (n + 1.0)
    return {
        "coverage": (DIMS, covered / n),
        "coverage_mcse": (DIMS, np.sqrt(share * (1.0 - share) / (n + 2.0))),
        "length": (DIMS, (high - low).mean(-1)),
        "length_mcse": (DIMS, _mcse(high - low)),
        "rmse": ((*DIMS, "estimate"), rmse),
        "rmse_mcse": ((*DIMS, "estimate"), _mcse(error**2) / (2.0 * rmse)),
        "bias": ((*DIMS, "estimate"), error.mean(-1)),
        "bias_mcse": ((*DIMS, "estimate"), _mcse(error)),
    }


def _mcse(values: Floats) -> Floats:
    """Standard error of the mean along the last axis; NaN of a single value."""
    n = values.shape[-1]
    return values.std(-1, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[:-1], np.nan)


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
    blocks = map_blocks(partial(_analyse_block, design, root), dict(zip(names, tasks, strict=True)), store, **there)
    values = np.concatenate([blocks[name] for name in names])
    return values.reshape(*design.shape, design.datasets, len(COLUMNS))


def releases(design: Design, cell: Trial, root: np.random.SeedSequence, block: int) -> BoundedRelease:
    """The releases of one block: statistics of fresh data, with fresh noise from a generator of its own."""
    data, noise = (np.random.default_rng(child) for child in cell.seed(root, block).spawn(2))
    size = design.blocks[block]
    mean, variance = sample_statistics(design.population, cell.mu, cell.sigma, cell.n, size, design.bounds, data)
    exact = BoundedRelease(mean, variance, cell.n, cell.epsilon, design.bounds)
    first, second = (scale * noise.laplace(size=size) for scale in exact.unit_scales)
    return exact.with_added_noise(first, second)


def _analyse_block(design: Design, root: np.random.SeedSequence, task: tuple[Trial, Analysis, int]) -> Floats:
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
