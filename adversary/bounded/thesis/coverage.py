"""Coverage and length of intervals from noisy statistics, and errors of estimates, by simulation.

The simulation study of the thesis (its figures 4.2, 4.8, 4.9 and 4.12), with exact posteriors instead of draws: the
published code took 10 to 20 core hours per cell. Work is split into blocks of 1024 data sets of a cell, each with its
own seed; numbers do not depend on the number of workers, the order of blocks, or interruptions.
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

    For every cell (n, truth, epsilon), data sets are drawn, their mean and variance are released with Laplace noise,
    and each release is analysed under every prior, with and without the bounds: these comparisons are paired.

    Parameters
    ----------
    n : sizes of the data sets
    truths : pairs (mu, sigma), parameters of the population in the units of the data; one, several, or a mapping by
        name
    epsilon : budgets. A tuple of two numbers is one cell, (mean, variance); a number e stands for (e, e); a list (or
        array) has several cells of either form, so [1, 2, 3] are three; a tuple of three numbers is an error
    priors : one prior, or a mapping by name, as for `posterior`
    constrained : whether posteriors use the bounds; one or both values
    datasets : number of data sets per cell
    prob : probability of the intervals
    bounds : public range of the data
    parameter : "mu", "sigma" or "sigma2"
    population : "truncated normal", a normal distribution truncated to the bounds; or a function
        (mu, sigma, size, rng) -> values within the bounds
    feasibility : "event" or "normalised", as for `posterior`
    rng : seed; with a seed, the numbers of a cell do not depend on the other cells of the study
    store : folder for finished blocks of data sets, from which a later call with the same seed continues; blocks of a
        design with other inputs are not used. Needs rng
    progress : show a bar with the time left, on a terminal
    workers : number of blocks computed at the same time, in threads; one posterior of many releases uses all cores
    scheduler : address of a Dask scheduler whose workers compute the blocks instead

    Returns
    -------
    Dataset with dims (n, truth, epsilon, prior, constrained): `coverage`, `length` (mean); with "estimate" last ("mode"
    of the marginal, "mean"): `rmse`, `bias`. Each has its Monte Carlo standard error under its name with `_mcse`. The
    true value is `true_value`, the parameter of the population, not the same moment of data within the bounds
    (`moment`, known for the truncated normal): erratum E9 of the reference. Attributes: design, seed and versions.

    Raises
    ------
    ValueError : fewer than one data set, a truth outside the bounds, an analysis without a proper posterior (Theorems
        17 and 18), a store without a seed or that is no folder, and errors of releases and priors

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
    parts = averages(values, _true_values(study)[:, None, None, None]) | _truth_variables(study)
    return xr.Dataset(parts, _coords(study), _attrs(study, root))


def _true_values(study: Design) -> Floats:
    """(truth,) true values of the parameter."""
    return np.array([PARAMETERS[study.parameter](mu, sigma) for mu, sigma in study.truths.values()])


def _truth_variables(study: Design) -> dict[str, Any]:
    """Variables over "truth": `true_value`, and `moment` if it is known."""
    parts = {"true_value": ("truth", _true_values(study))}
    if isinstance(study.population, TruncatedNormal):
        moments = [study.population.moments(*pair) for pair in study.truths.values()]
        parts["moment"] = ("truth", np.array([PARAMETERS[study.parameter](*pair) for pair in moments]))
    return parts


def _coords(study: Design) -> dict[str, Any]:
    """Coordinates; budgets are numbers if mean and variance have the same, else text such as "0.1 + 0.2"."""
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


def _attrs(study: Design, seed: np.random.SeedSequence) -> dict[str, Any]:
    """Attributes of the result: design, seed and versions."""
    return {
        "parameter": study.parameter,
        "covers": f"{study.parameter} as a parameter of the population, not as a moment of data within the bounds",
        "population": "truncated normal" if isinstance(study.population, TruncatedNormal) else _named(study.population),
        "prob": study.prob,
        "bounds": list(study.bounds),
        "datasets": study.datasets,
        "feasibility": study.feasibility,
        "priors": json.dumps({name: _named(prior) for name, prior in study.priors.items()}),
        "seed": str(seed.entropy),
        "spawn_key": json.dumps(seed.spawn_key),
        "versions": json.dumps({name: version(name) for name in (NAME, "numpy", "scipy", "xarray")}),
    }


def _named(given: Any) -> str:
    """Name of a distribution or prior; for a function, its qualified name."""
    return str(getattr(given, "__qualname__", None) or repr(given))


def averages(values: Floats, truth: Floats) -> dict[str, Any]:
    """Coverage, mean length, RMSE and bias, each with its Monte Carlo standard error.

    Parameters
    ----------
    values : `COLUMNS` of every data set, shape (*DIMS, data sets, 4)
    truth : true values, to broadcast against DIMS

    The standard error of a coverage adds half a success and half a failure, so it is never 0.
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
    """Standard error of the mean along the last axis; NaN for a single value."""
    n = values.shape[-1]
    return values.std(-1, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[:-1], np.nan)


def outcomes(
    study: Design,
    root: np.random.SeedSequence,
    *,
    store: Path | str | None = None,
    progress: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
) -> Floats:
    """Results `COLUMNS` of every data set, shape (*design.shape, datasets, 4), in the units of the data.

    Raises
    ------
    ValueError : an analysis that has no posterior or a store that is no folder, before anything is computed
    """
    threads = 1 if workers is None else int(check_whole("workers", workers, minimum=1))
    if store is not None and Path(store).is_file():
        raise ValueError(f"store must be a folder, got the file {store}")
    _check_proper_posteriors(study)
    tasks = list(product(study.cells, study.analyses, range(len(study.blocks))))
    names = [study.label(root, *task) for task in tasks]
    options: dict[str, Any] = (
        {"threads": threads} if scheduler is None else {"scheduler": scheduler, "workers": workers}
    )
    options |= {"progress": progress, "description": "blocks of data sets"}
    blocks = map_blocks(partial(_analyse_block, study, root), dict(zip(names, tasks, strict=True)), store, **options)
    values = np.concatenate([blocks[name] for name in names])
    return values.reshape(*study.shape, study.datasets, len(COLUMNS))


def releases(study: Design, cell: Trial, root: np.random.SeedSequence, block: int) -> BoundedRelease:
    """Releases of one block: statistics of new data, with noise from a separate generator."""
    data, noise = (np.random.default_rng(child) for child in cell.seed(root, block).spawn(2))
    size = study.blocks[block]
    mean, variance = sample_statistics(study.population, cell.mu, cell.sigma, cell.n, size, study.bounds, data)
    exact = BoundedRelease(mean, variance, cell.n, cell.epsilon, study.bounds)
    first, second = (scale * noise.laplace(size=size) for scale in exact.unit_scales)
    return exact.with_added_noise(first, second)


def _analyse_block(study: Design, root: np.random.SeedSequence, task: tuple[Trial, Analysis, int]) -> Floats:
    """Results `COLUMNS` of one block under one analysis, shape (data sets of the block, 4)."""
    cell, analysis, block = task
    post = _posterior(study, releases(study, cell, root, block), analysis)
    ends = as_array(post.hdi(study.parameter, study.prob))
    estimates = np.stack([as_array(post.mode(study.parameter)), as_array(post.mean(study.parameter))], axis=-1)
    return np.concatenate([ends, estimates], axis=-1)


def _posterior(study: Design, release: BoundedRelease, analysis: Analysis) -> Posterior:
    """Posterior of releases under one analysis; without the bounds, `feasibility` has no effect."""
    return posterior(
        release, analysis.prior, analysis.constrained, study.feasibility if analysis.constrained else "event"
    )


def _check_proper_posteriors(study: Design) -> None:
    """ValueError if an analysis has no proper posterior, tested on the smallest data set before the work starts."""
    middle, width = (study.bounds[0] + study.bounds[1]) / 2.0, study.bounds[1] - study.bounds[0]
    release = BoundedRelease(middle, width**2 / 12.0, min(study.n), study.epsilon[0], study.bounds)
    for analysis in study.analyses:
        _posterior(study, release, analysis)
