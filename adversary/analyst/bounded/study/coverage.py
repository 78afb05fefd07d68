"""How often intervals from noisy statistics cover, how long they are, and how far estimates are from the truth.

The simulation study of the thesis (its figures 4.2, 4.8, 4.9 and 4.12), by exact posteriors instead of draws: the
published code took 10 to 20 hours of a core for each cell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import NAME, Floats, seed_sequence
from adversary.analyst.bounded.study.design import PARAMETERS, Design, design
from adversary.analyst.bounded.study.populations import TruncatedNormal
from adversary.analyst.bounded.study.trials import outcomes

DIMS = ("n", "truth", "epsilon", "prior", "constrained")
ESTIMATES = ("mode", "mean")


def coverage_study(
    *,
    n: int | Sequence[int],
    truths: Any,
    epsilon: Any,
    priors: Any = "flat",
    constrained: bool | Sequence[bool] = (True, False),
    datasets: int = 1000,
    prob: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    parameter: str = "mu",
    population: Any = "truncated normal",
    feasibility: str = "event",
    rng: Any = None,
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
    store : folder where finished blocks of data sets are kept, for a later call with the same seed to go on from; a
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

    >>> study = coverage_study(n=50, truths=(0.1, 0.04), epsilon=1.0, datasets=20, rng=1)
    >>> dict(study.sizes)
    {'n': 1, 'truth': 1, 'epsilon': 1, 'prior': 1, 'constrained': 2, 'estimate': 2}
    """
    asked = design(n, truths, epsilon, priors, constrained, datasets, prob, bounds, parameter, population, feasibility)
    if store is not None and rng is None:
        raise ValueError("store needs rng: without a seed no later call could go on from what is kept")
    root = seed_sequence(rng)
    values = outcomes(asked, root, store=store, progress=progress, workers=workers, scheduler=scheduler)
    parts = averages(values, _true_values(asked)[:, None, None, None]) | _of_truths(asked)
    return xr.Dataset(parts, _coords(asked), _attrs(asked, root))


def _true_values(asked: Design) -> Floats:
    """The parameter that is to be covered, of every truth."""
    return np.array([PARAMETERS[asked.parameter](mu, sigma) for mu, sigma in asked.truths.values()])


def _of_truths(asked: Design) -> dict[str, Any]:
    """`true_value`, and `moment` where it is known."""
    parts = {"true_value": ("truth", _true_values(asked))}
    if isinstance(asked.population, TruncatedNormal):
        moments = [asked.population.moments(*pair) for pair in asked.truths.values()]
        parts["moment"] = ("truth", np.array([PARAMETERS[asked.parameter](*pair) for pair in moments]))
    return parts


def _coords(asked: Design) -> dict[str, Any]:
    """Labels: budgets as numbers where mean and variance have the same, else as "0.1 + 0.2"."""
    same = all(first == second for first, second in asked.epsilon)
    truth, epsilon = np.array(list(asked.truths.values())), np.array(asked.epsilon)
    return {
        "n": list(asked.n),
        "truth": list(asked.truths),
        "epsilon": epsilon[:, 0] if same else [f"{first!r} + {second!r}" for first, second in asked.epsilon],
        "prior": list(asked.priors),
        "constrained": list(asked.constrained),
        "estimate": list(ESTIMATES),
        "mu": ("truth", truth[:, 0]),
        "sigma": ("truth", truth[:, 1]),
        "epsilon_mean": ("epsilon", epsilon[:, 0]),
        "epsilon_variance": ("epsilon", epsilon[:, 1]),
    }


def _attrs(asked: Design, root: np.random.SeedSequence) -> dict[str, Any]:
    return {
        "parameter": asked.parameter,
        "covers": f"{asked.parameter} as a parameter of the population, not as a moment of data within the bounds",
        "population": "truncated normal" if isinstance(asked.population, TruncatedNormal) else _told(asked.population),
        "prob": asked.prob,
        "bounds": list(asked.bounds),
        "datasets": asked.datasets,
        "feasibility": asked.feasibility,
        "priors": json.dumps({name: _told(prior) for name, prior in asked.priors.items()}),
        "seed": str(root.entropy),
        "spawn_key": json.dumps(root.spawn_key),
        "versions": json.dumps({name: version(name) for name in (NAME, "numpy", "scipy", "xarray")}),
    }


def _told(given: Any) -> str:
    """A law or prior in words: a function by its name."""
    return str(getattr(given, "__qualname__", None) or repr(given))


def averages(values: Floats, truth: Floats) -> dict[str, Any]:
    """Variables of the study, each with its Monte Carlo standard error.

    Parameters
    ----------
    values : `trials.COLUMNS` of every data set, shape (*DIMS, data sets, 4)
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
