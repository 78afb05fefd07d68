"""Fits of thousands of releases of one model, compiled once, by reweighted prior draws and by NUTS.

Finished blocks can be stored. Every release has its own child of the seed, so neither the order of the work nor an
interruption changes a number. A release that fails its diagnostics is marked "unreliable" and gets no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import KEPT, PerThread, Sampling, Seed
from adversary._core import blocks as runner

from .arviz_groups import Groups
from .expected_cost import seconds_of_releases, tell_cost
from .fitter import CHANCE, Fitter
from .nuts import STATS

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Piece = tuple[Arrays, list[np.random.SeedSequence]]

BLOCK = 256
"""Releases per stored block; a quarter as many if each is sampled by NUTS."""
_NUMBERS = ("posterior", "complement", "mcse", "log_odds_mcse", "r_hat", "ess", "divergences", "k_hat", "explained")

# Summary numbers of every fit.
SUMMARY = (*_NUMBERS, "passed")
AXES = ("chain", "draw", "release")
_LATENT = "latent "
SUMMED = "all latents summed out"
WEIGHED = "draws of the prior, weighed by each release"
SAMPLED = "discrete latents summed out, continuous ones sampled by nutpie"
ADVICE = "more draws of the prior, a prior that explains the release, or another parametrisation may help"


@dataclass(frozen=True)
class Fits:
    """Fits of many releases.

    Parameters
    ----------
    estimate : dim release: `posterior` = P(target = 1) and `complement` = P(target = 0), both NaN unless `status` is
        "ok"; `mcse` of either and `log_odds_mcse` of their log odds; `ess`, `k_hat` and `explained` as in `Fit`; if
        NUTS ran also `r_hat` (largest) and `divergences` (number)
    groups : groups for ArviZ: `posterior`, `posterior_predictive`, `sample_stats`, `log_prior` and `log_likelihood`
        with dims (chain, draw, release), `prior` and `prior_predictive` (chain, draw), `observed_data` and
        `constant_data`. `log_likelihood` has no terms of side data. Without NUTS the energy is -lp. `posterior` and
        `prior` have "P(in)", the target's probability in every draw
    before : (P(target = 1) before the release, its Monte Carlo standard error)
    settled : the same pair, conditional on the variables that are published exactly
    method : method that made the draws, in words
    advice : remedies for unreliable releases, in words
    expected : expected seconds of all work
    """

    estimate: xr.Dataset
    groups: dict[str, xr.Dataset]
    before: tuple[float, float]
    settled: tuple[float, float]
    method: str
    advice: str = ADVICE
    expected: float = 0.0


def fit_many(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    nuts: str = "where needed",
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    sampling: Sampling | None = None,
    rng: Seed = None,
    prior_rng: Any = None,
    progress: bool = True,
    store: Path | str | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    compiled: PerThread[Fitter] | None = None,
) -> Fits:
    """Posterior of a model's target for every release.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : released variables by name, arrays (release, *shape)
    target : name of a latent or Deterministic with values 0 and 1
    nuts : "never", "where needed" (releases with unreliable weights) or "always" (all releases, if a continuous latent
        is left to sample)
    support : values (n,) of latents without a finite support of their own
    settled : released variables that are published exactly, the same in every release
    sampling : numbers and lengths of chains and of prior draws
    rng : seed
    prior_rng : seed of the prior draws, default derived from `rng`; a fixed one gives the same estimate of the prior in
        every call
    progress : whether to show a progress bar, and before it the expected time of long work
    store : folder for finished blocks; a later call with the same seed continues from them
    scheduler, workers : as in `map_unordered`; every worker compiles the model
    compiled : the model compiled with the same arguments, see `compiled_once`

    Returns
    -------
    Fits : estimates per release, and groups of draws.

    Raises
    ------
    ValueError : an improper prior, or a target with values other than 0 and 1
    TypeError : NUTS is needed for a continuous latent in a term without a gradient
    """
    sampling = sampling or Sampling()
    prior_seed, fit_seed, draw_seed = runner.seed_sequence(rng).spawn(3)
    told_prior = prior_seed if prior_rng is None else prior_rng
    compiled = compiled or compiled_once(
        model, tuple(observed), target, support, settled, told_prior, sampling, nuts, progress
    )
    prior = compiled.value.prior
    released = prior.batched(observed)
    size = next(iter(released.values())).shape[0]
    children, kind = fit_seed.spawn(size), _record(compiled.value)
    expected = seconds_of_releases(prior, released, nuts, sampling) if prior.values else 0.0
    tell_cost(expected, f"posteriors of {size} releases", progress)
    width = BLOCK // 4 if nuts == "always" else BLOCK
    work: dict[str, Piece] = {}
    for start in range(0, size, width):
        window = slice(start, min(start + width, size))
        data, seeds = {name: value[window] for name, value in released.items()}, children[window]
        settings = (kind.descr, sampling, nuts, version("nutpie"))
        numbers = [] if store is None else [*data.values(), *prior.at_first_draws(data)]
        work[f"fits-{runner.work_name(seeds[0], settings, numbers=numbers)}"] = data, seeds
    blocks = runner.map_blocks(
        partial(_fit_block, compiled, kind),
        work,
        store,
        description="releases fitted, in blocks",
        progress=progress and len(work) > 1,
        scheduler=scheduler,
        workers=workers,
    )
    records = np.concatenate(list(blocks.values()))
    before = prior.before()
    after = prior.before({name: released[name] for name in settled}) if settled else before
    sampled = ~np.isnan(records["divergences"])
    traces = {name: np.moveaxis(records[_LATENT + name], 0, 2) for name in prior.latents}
    stats = {name: np.moveaxis(records[name], 0, 2) for name in STATS}
    generator = np.random.default_rng(draw_seed)
    drawn, chance = prior.draws_and_chances(prior.known_sample(), {}, sampling.chains * draws_kept(sampling), generator)
    first = {name: value.reshape(sampling.chains, -1, *value.shape[1:]) for name, value in drawn.items()}
    chances = target, np.moveaxis(records[CHANCE], 0, 2), chance.reshape(sampling.chains, -1)
    return Fits(
        _estimate(records),
        _groups(Groups.of(model, tuple(observed)), traces, first, released, stats, generator, chances),
        before,
        after,
        _method(prior, int(sampled.sum()), size),
        expected=compiled.value.expected + expected,
    )


def compiled_once(
    model: Any,
    observed: Sequence[str],
    target: str,
    support: Mapping[str, ArrayLike] | None,
    settled: Sequence[str],
    rng: Seed,
    sampling: Sampling | None,
    nuts: str,
    progress: bool,
) -> PerThread[Fitter]:
    """Model compiled once for several calls of `fit_many`, and once in every worker.

    Parameters
    ----------
    model, observed, target, support, settled, sampling, nuts, progress : as in `fit_many`
    rng : seed of the prior draws

    Returns
    -------
    Fitter that is built on first use, once per thread.
    """
    return PerThread(
        Fitter.of, model, tuple(observed), target, support, tuple(settled), rng, sampling or Sampling(), nuts, progress
    )


def _groups(
    groups: Groups,
    traces: Arrays,
    first: Arrays,
    released: Arrays,
    stats: Arrays,
    rng: np.random.Generator,
    chances: tuple[str, Floats, Floats],
) -> dict[str, xr.Dataset]:
    """ArviZ groups with leading dims (chain, draw, release); missing values for releases without draws."""
    every = np.arange(next(iter(stats.values())).shape[2])
    lost = [np.isnan(v).any(axis=(0, 1, *range(3, v.ndim))) for v in traces.values()]
    drawn = every[~np.any(lost, axis=0)]
    if not drawn.size:
        return {}
    traces = {name: value[:, :, drawn] for name, value in traces.items()}
    here = {n: v[drawn] for n, v in released.items()}, {n: v[:, :, drawn] for n, v in stats.items()}
    of_target = chances[0], chances[1][:, :, drawn], chances[2]
    result = groups.all_of(traces, first, *here, AXES, None, rng, of_target)
    if drawn.size == every.size:
        return result
    by_release = {n: g for n, g in result.items() if "release" in g.dims}
    return result | {n: g.assign_coords(release=drawn).reindex(release=every) for n, g in by_release.items()}


def _method(prior: Any, sampled: int, size: int) -> str:
    """Method that made the draws, in words."""
    if sampled == size:
        return SAMPLED
    return WEIGHED + f"; {sampled} of {size} releases by nutpie" * bool(sampled) if prior.values else SUMMED


def draws_kept(sampling: Sampling) -> int:
    """Number of draws stored per chain and release."""
    return min(KEPT, sampling.draws)


def _fit_block(compiled: PerThread[Fitter], kind: np.dtype[Any], piece: Piece) -> NDArray[Any]:
    """Records of one block of releases."""
    fitter, (data, seeds) = compiled.value, piece
    rows = np.empty(len(seeds), kind)
    for row, one in zip(rows, fitter.fits(data, seeds, draws_kept(fitter.sampling)), strict=True):
        values = {name: getattr(one, name) for name in (*SUMMARY, CHANCE)} | one.stats
        for name, value in (values | {_LATENT + name: value for name, value in one.latents.items()}).items():
            row[name] = value
    return rows


def _record(fitter: Fitter) -> np.dtype[Any]:
    """Record type of one release, so that a block of releases is one structured array."""
    sizes = (fitter.sampling.chains, draws_kept(fitter.sampling))
    latents = [(_LATENT + name, "f8", (*sizes, *value.shape[1:])) for name, value in fitter.prior.latents.items()]
    return np.dtype([(name, "f8") for name in SUMMARY] + [(name, "f8", sizes) for name in (*STATS, CHANCE)] + latents)


def _estimate(records: NDArray[Any]) -> xr.Dataset:
    """Summaries per release, with NaN probabilities for unreliable ones."""
    passed = records["passed"] == 1
    values = {name: records[name] for name in SUMMARY[:-1]}
    for name in ("posterior", "complement"):
        values[name] = np.where(passed, values[name], np.nan)
    if np.isnan(values["divergences"]).all():
        values = {name: value for name, value in values.items() if name not in ("r_hat", "divergences")}
    result = xr.Dataset({name: ("release", value) for name, value in values.items()})
    return result.assign(status=("release", np.where(passed, "ok", "unreliable")))
