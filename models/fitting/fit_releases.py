"""One model, thousands of releases: fitted one after another with a single compile, judged, and kept as they finish.

A fit that fails the rule of `diagnostics`, or that disagrees with importance sampling from the prior where that can be
trusted, is run once more, four times as long, with other random numbers; one that fails again is marked "unreliable"
and gives no probability. Every release has its own child of the seed, so neither the order of the work nor where it was
interrupted changes a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import LARGEST_DIVERGENCE, PerThread, diagnose
from adversary._core import blocks as runner
from adversary.models.importance import Importance

from .fit_records import SUMMARY, Layout, Refits, estimate, labelled, release_axis_last, rows_of
from .marginalised import Marginalised, Settings

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Piece = tuple[Arrays, list[np.random.SeedSequence]]

BLOCK = 32
"""Releases fitted between two savings."""
FITS = Settings()
LONGER = 4
"""How many times as long the second try of a fit is."""
_ERRORS = 5  # standard errors by which a fit may differ from importance sampling


def refit(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    settings: Settings = FITS,
    rng: Any = None,
    prior_rng: Any = None,
    progress: bool = True,
    store: Path | str | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> Refits:
    """Fit a model with continuous latents to every release by nutpie, its discrete latents summed out.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : released variables by name, arrays over releases
    target : binary discrete latent, or Deterministic of such
    support : values of latents without a finite support of their own
    settled : released variables that are published exactly, the same in every release
    settings : length of a first try
    rng : seed
    prior_rng : seed of the draws before the release, from `rng` unless given: with the same one the prior is the same
        number whatever is fitted
    progress : show a bar with the time left
    store : folder for finished blocks, from which a later call with the same seed goes on
    scheduler, workers : as `map_unordered` takes them; the model is compiled by every worker
    """
    prior_seed, fit_seed, draw_seed = runner.seed_sequence(rng).spawn(3)
    told_prior = prior_seed if prior_rng is None else prior_rng
    compiled = PerThread(Marginalised.of, model, tuple(observed), target, support, told_prior)
    fitter = compiled.value
    given, priors = fitter.conditioned, fitter.priors
    rows, size = rows_of(observed)
    children, layout = fit_seed.spawn(size), _layout(fitter, settings)
    work: dict[str, Piece] = {}
    for start in range(0, size, BLOCK):
        window = slice(start, min(start + BLOCK, size))
        data, seeds = rows(window), children[window]
        told = ([*priors.latents], settings, LONGER, version("nutpie"))
        numbers = [] if store is None else _fingerprint(fitter, data)
        work[f"fits-{runner.work_name(seeds[0], told, numbers=numbers)}"] = data, seeds
    blocks = runner.map_blocks(
        partial(_fitted, compiled, settings, layout),
        work,
        store,
        description="releases fitted, in blocks",
        progress=progress and len(work) > 1,
        scheduler=scheduler,
        workers=workers,
    )
    found = layout.unpacked(np.concatenate(list(blocks.values())))
    row = fitter.row(observed, 0)
    before = priors.chance(given, fitter.states, fitter.one)
    after = priors.chance(given, fitter.states, fitter.one, tuple(settled), row) if settled else before
    prior = priors.drawn(priors.weights(given), (settings.chains, 250), np.random.default_rng(draw_seed))
    traces = {name: release_axis_last(found[name]) for name in ("probability", "diverging", *priors.latents)}
    diverging = xr.Dataset({"diverging": (("chain", "draw", "release"), traces.pop("diverging").astype(bool))})
    return Refits(
        estimate(found).assign(k_hat=("release", found["k_hat"])),
        labelled(given, traces, ("chain", "draw", "release")),
        diverging,
        labelled(given, prior, ("chain", "draw")),
        before,
        after,
        "discrete latents summed out, continuous ones sampled by nutpie",
        "look at their draws in the groups posterior and sample_stats; a tighter prior of the continuous latents, or "
        "another parametrisation, may help",
    )


def _fitted(compiled: PerThread[Marginalised], settings: Settings, layout: Layout, piece: Piece) -> Floats:
    """Rows of one block of releases."""
    fitter, (data, seeds) = compiled.value, piece
    tables = fitter.tables(data)
    found = [fit_twice(fitter, tables[..., i], fitter.row(data, i), settings, seed) for i, seed in enumerate(seeds)]
    return np.stack([layout.packed(one) for one in found])


def fit_once(
    fitter: Marginalised,
    table: Floats,
    row: Arrays,
    settings: Settings,
    seed: np.random.SeedSequence,
    thinning: int = 1,
    progress: bool = False,
) -> dict[str, Any]:
    """One fit of one release: summaries of all its draws, and every `thinning`-th of them, (chain, draw, *shape)."""
    z, diverging = fitter.sample(table, row, settings, int(seed.generate_state(1, np.uint64)[0] >> 1), progress)
    sizes, shapes = (settings.chains, settings.draws), {n: v.shape[1:] for n, v in fitter.priors.latents.items()}
    points = z.reshape(-1, fitter.priors.size)
    if np.isfinite(points).all():
        present, out = (p.reshape(sizes) for p in fitter.chances(points, table, row))
        drawn = fitter.latents(points, table, row, np.random.default_rng(seed))
        drawn = {name: drawn[name].reshape(*sizes, *shape) for name, shape in shapes.items()}
    else:
        present = out = np.full(sizes, np.nan)
        nothing = {name: -1.0 if name in fitter.conditioned.latents else np.nan for name in shapes}
        drawn = {name: np.full((*sizes, *shape), nothing[name]) for name, shape in shapes.items()}
    target = diagnose(present[..., None])
    smooth = diagnose(np.concatenate([drawn[n].reshape(*sizes, -1) for n in fitter.conditioned.continuous], axis=-1))
    weighed, error, agrees = _against_prior(fitter, table, row, z, present)
    open_target = fitter.one.any() and not fitter.one.all()
    settled = not open_target or (target.constant[0] and weighed.reliable)
    return {
        "posterior": present.mean(),
        "complement": out.mean(),
        "mcse": error if settled else target.mcse[0],
        "r_hat": np.fmax(target.r_hat[0], smooth.r_hat.max()),
        "ess": min(smooth.ess.min(), np.inf if settled else target.ess[0]),
        "divergences": diverging.sum(),
        "passed": (settled or target.passed[0])
        and smooth.passed.all()
        and agrees
        and diverging.mean() <= LARGEST_DIVERGENCE,
        "k_hat": weighed.k_hat,
        "probability": present[:, ::thinning],
        "diverging": diverging[:, ::thinning],
        "points": z[:, ::thinning],
        **{name: value[:, ::thinning] for name, value in drawn.items()},
    }


def _against_prior(
    fitter: Marginalised, table: Floats, row: Arrays, z: Floats, present: Floats
) -> tuple[Importance, float, bool]:
    """Importance sampling of one release, its error of P(target = 1), and whether the fit agrees with it.

    It agrees where importance sampling is not reliable.
    """
    weighed, values = fitter.importance(table, row)
    expected, error = weighed.mean(values)
    if not weighed.reliable or not np.isfinite(z).all():
        return weighed, float(error[0]), True
    drawn = np.concatenate([present[..., None], fitter.places(z)], axis=-1)
    slack = _ERRORS * np.hypot(error, np.nan_to_num(diagnose(drawn).mcse)) + 1.0 / present.size
    return weighed, float(error[0]), bool((np.abs(drawn.mean(axis=(0, 1)) - expected) <= slack).all())


def fit_twice(
    fitter: Marginalised,
    table: Floats,
    row: Arrays,
    settings: Settings,
    seed: np.random.SeedSequence,
    progress: bool = False,
) -> dict[str, Any]:
    """One release: `fit_once`, and if that fails once more and longer."""
    first, second = runner.seed_sequence(seed).spawn(2)
    found = fit_once(fitter, table, row, settings, first, progress=progress)
    return found if found["passed"] else fit_once(fitter, table, row, settings.longer(LONGER), second, LONGER, progress)


def _layout(fitter: Marginalised, settings: Settings) -> Layout:
    sizes = (settings.chains, settings.draws)
    latents = {name: (*sizes, *value.shape[1:]) for name, value in fitter.priors.latents.items()}
    return Layout(dict.fromkeys((*SUMMARY, "k_hat"), ()) | {"probability": sizes, "diverging": sizes} | latents)


def _fingerprint(fitter: Marginalised, data: Arrays) -> list[NDArray[Any]]:
    """What the model computes for these releases: tables, and densities and latents at fixed points."""
    points = np.outer([-1.0, 0.0, 1.0], np.ones(fitter.priors.size))
    tables = fitter.tables(data)
    numbers = [tables, fitter.one, fitter.priors.centre, fitter.priors.scale]
    for i in range(tables.shape[-1]):
        row = fitter.row(data, i)
        drawn = fitter.latents(points, tables[..., i], row, np.random.default_rng(0))
        numbers.append(fitter.log_density(points, tables[..., i], row))
        numbers += [drawn[name] for name in fitter.conditioned.continuous]
    return numbers
