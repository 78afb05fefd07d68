"""One model, thousands of releases: fitted one after another with a single compile, judged, and kept as they finish.

A fit that fails the rule of `diagnostics` is run once more, four times as long, with other random numbers; one that
fails again is marked "unreliable" and gives no probability. Every release has its own child of the seed, so neither the
order of the work nor where it was interrupted changes a number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary import runner
from adversary.reader.enumeration import Grid

from .batched import BatchedGibbs
from .diagnostics import LARGEST_DIVERGENCE, diagnose
from .graphs import Conditioned, condition, support_of
from .marginal import Marginalised, Settings
from .priors import Priors

__all__ = ["BLOCK", "FITS", "GIBBS", "Refits", "refit", "refit_by_gibbs"]

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

BLOCK = 32
"""Releases fitted between two savings."""
FITS = Settings()
GIBBS = Settings(chains=4, tune=50, draws=150)
GIBBS_BLOCK = 1024
LONGER = 4
"""How many times as long the second try of a fit is."""
_SUMMARY = ("posterior", "complement", "mcse", "r_hat", "ess", "divergences", "passed")
_LARGEST_PRIOR = 2_000_000  # joint states up to which a prior is summed rather than drawn


@dataclass(frozen=True)
class Refits:
    """Fits of many releases.

    Parameters
    ----------
    estimate : per release `posterior` = P(target = 1), `complement` = P(target = 0), both NaN where `status` is not
        "ok"; `mcse`, `r_hat` (largest), `ess` (smallest) and `divergences` (number) of its fit
    draws : of every latent and of `probability`, P(target = 1 | continuous latents), dims (chain, draw, release, ...)
    diverging : which draws diverged, dims (chain, draw, release); None for samplers that do not diverge
    prior : draws of every latent before the release, dims (chain, draw, ...)
    before : (P(target = 1) before the release, its standard error)
    settled : the same given the releases that are published exactly
    method : what made the draws
    """

    estimate: xr.Dataset
    draws: xr.Dataset
    diverging: xr.Dataset | None
    prior: xr.Dataset
    before: tuple[float, float]
    settled: tuple[float, float]
    method: str


@dataclass(frozen=True)
class _Layout:
    """Results of one release as one row of numbers, so that a block of them is one array."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def width(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def packed(self, values: Mapping[str, ArrayLike]) -> Floats:
        return np.concatenate([np.asarray(values[name], dtype=np.float64).ravel() for name in self.shapes])

    def unpacked(self, rows: Floats) -> Arrays:
        """Arrays (release, *shape) by name."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        parts = np.split(rows, ends, axis=1)
        return {n: p.reshape(-1, *shape) for (n, shape), p in zip(self.shapes.items(), parts, strict=True)}


def refit(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    settings: Settings = FITS,
    rng: Any = None,
    progress: bool = True,
    store: Path | str | None = None,
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
    progress : show a bar with the time left
    store : folder for finished blocks, from which a later call with the same seed goes on
    """
    root = runner.seed_sequence(rng)
    prior_seed, fit_seed, draw_seed = root.spawn(3)
    fitter = Marginalised.of(model, tuple(observed), target, support, prior_seed)
    table_of, size = _rows(observed), _releases(observed)
    children = fit_seed.spawn(size)
    layout = _layout(fitter, settings)
    blocks = []
    starts = range(0, size, BLOCK)
    for start in runner.track(starts, "releases fitted, in blocks", enabled=progress and len(starts) > 1):
        window = slice(start, min(start + BLOCK, size))
        data = table_of(window)
        tables, seeds = fitter.tables(data), children[window]

        def block(data: Arrays = data, tables: Floats = tables, seeds: Any = seeds) -> Floats:
            rows = [_fitted(fitter, tables[..., i], fitter.row(data, i), settings, seed) for i, seed in enumerate(seeds)]
            return np.stack([layout.packed(row) for row in rows])

        path = None if store is None else _path(store, fitter, data, tables, settings, seeds[0])
        blocks.append(_kept(path, block))
    found = layout.unpacked(np.concatenate(blocks))
    chances = [
        fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one, names, fitter.row(observed, 0))
        for names in ((), tuple(settled))
    ]
    weights = fitter.priors.weights(fitter.conditioned)
    prior = fitter.priors.drawn(weights, (settings.chains, 250), np.random.default_rng(draw_seed))
    names = [*fitter.conditioned.latents, *fitter.conditioned.continuous]
    diverging = xr.Dataset({"diverging": (("chain", "draw", "release"), _last(found["diverging"]).astype(bool))})
    return Refits(
        _estimate(found),
        labelled(fitter.conditioned, {n: _last(found[n]) for n in ["probability", *names]}, ("chain", "draw", "release")),
        diverging,
        labelled(fitter.conditioned, prior, ("chain", "draw")),
        chances[0],
        chances[1],
        "discrete latents summed out, continuous ones sampled by nutpie",
    )


def refit_by_gibbs(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    settings: Settings = GIBBS,
    rng: Any = None,
    progress: bool = True,
    store: Path | str | None = None,
) -> Refits:
    """The same for a model of discrete latents alone, by the Gibbs step of `batched`."""
    prior_seed, fit_seed, draw_seed = runner.seed_sequence(rng).spawn(3)
    sampler = BatchedGibbs.of(model, tuple(observed), target, support or {})
    given = condition(model, tuple(observed))
    rows, size = _rows(observed), _releases(observed)
    shapes = {name: shape for name, (shape, _) in sampler.supports.items()}
    sizes = (settings.chains, settings.draws)
    layout = _Layout({k: () for k in _SUMMARY} | {"probability": sizes} | {n: (*sizes, *s) for n, s in shapes.items()})
    blocks = []
    starts = range(0, size, GIBBS_BLOCK)
    children = fit_seed.spawn(len(starts))
    for start, child in runner.track(
        list(zip(starts, children, strict=True)), "Gibbs sweeps, in blocks", enabled=progress and len(starts) > 1
    ):
        data = {n: v.astype(np.float64) for n, v in rows(slice(start, min(start + GIBBS_BLOCK, size))).items()}

        def block(data: dict[str, Floats] = data, child: Any = child) -> Floats:
            return _swept(sampler, data, settings, child, layout)

        told = (_seed(child), [*sampler.supports], settings, {n: v.tolist() for n, v in data.items()})
        path = None if store is None else _named(store, "gibbs", told, _gibbs_density(sampler, data))
        blocks.append(_kept(path, block))
    found = layout.unpacked(np.concatenate(blocks))
    priors = Priors.of(given, prior_seed)
    chances = [_chance(given, priors, target, support or {}, names, observed) for names in ((), tuple(settled))]
    prior = priors.drawn(priors.weights(given), (settings.chains, 250), np.random.default_rng(draw_seed))
    return Refits(
        _estimate(found).drop_vars("divergences"),
        labelled(given, {n: _last(found[n]) for n in ["probability", *shapes]}, ("chain", "draw", "release")),
        None,
        labelled(given, prior, ("chain", "draw")),
        chances[0],
        chances[1],
        "discrete latents sampled by the Gibbs step",
    )


def labelled(given: Conditioned, values: Mapping[str, NDArray[Any]], leading: tuple[str, ...]) -> xr.Dataset:
    """Arrays (*leading, *shape) of latents with the model's own dims and coordinates; whole numbers as int64."""
    variables, coords = {}, {}
    for name, array in values.items():
        own = array.ndim - len(leading)
        dims = list(given.model.named_vars_to_dims.get(name) or [f"{name}_dim_{i}" for i in range(own)])
        coords |= {d: list(given.model.coords[d]) for d in dims if given.model.coords.get(d) is not None}
        variables[name] = ((*leading, *dims), array.astype(np.int64) if name in given.latents else array)
    sizes = next(iter(values.values())).shape
    axes = {d: np.arange(n) for d, n in zip(leading, sizes, strict=False) if d in ("chain", "draw")}
    return xr.Dataset(variables, coords={**axes, **coords})


def _layout(fitter: Marginalised, settings: Settings) -> _Layout:
    sizes = (settings.chains, settings.draws)
    latents = {name: value.shape[1:] for name, value in fitter.priors.latents.items()}
    traces = {"probability": sizes, "diverging": sizes} | {name: (*sizes, *shape) for name, shape in latents.items()}
    return _Layout({name: () for name in _SUMMARY} | traces)


def _fitted(
    fitter: Marginalised, table: Floats, row: Arrays, settings: Settings, seed: np.random.SeedSequence
) -> dict[str, Any]:
    """One release: a first try, and a longer second one if that fails."""
    attempts = [(settings, 1), (settings.longer(LONGER), LONGER)]
    children = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(len(attempts))
    result: dict[str, Any] = {}
    for (length, thinning), child in zip(attempts, children, strict=True):
        result = fit_once(fitter, table, row, length, child, thinning)
        if result["passed"]:
            break
    return result


def fit_once(
    fitter: Marginalised,
    table: Floats,
    row: Arrays,
    settings: Settings,
    seed: np.random.SeedSequence,
    thinning: int = 1,
) -> dict[str, Any]:
    """One fit of one release: summaries of all its draws, and every `thinning`-th of them (chain, draw, *shape)."""
    z, diverging = fitter.sample(table, row, settings, int(seed.generate_state(1, np.uint64)[0] >> 1))
    sizes = (settings.chains, settings.draws)
    points = z.reshape(-1, fitter.priors.size)
    if not np.isfinite(points).all():
        shapes = {name: value.shape[1:] for name, value in fitter.priors.latents.items()}
        unknown = {name: np.full((*sizes, *shape), -1 if name in fitter.conditioned.latents else np.nan) for name, shape in shapes.items()}
        present = out = np.full(sizes, np.nan)
    else:
        present, out = (p.reshape(sizes) for p in fitter.chances(points, table, row))
        drawn = fitter.latents(points, table, row, np.random.default_rng(seed))
        unknown = {name: value.reshape(*sizes, *value.shape[1:]) for name, value in drawn.items()}
    judged = [present[..., None], *(unknown[n].reshape(*sizes, -1) for n in fitter.conditioned.continuous)]
    diagnosis = diagnose(np.concatenate(judged, axis=-1))
    passed = bool(diagnosis.passed.all() and diverging.mean() <= LARGEST_DIVERGENCE)
    return {
        "posterior": present.mean(),
        "complement": out.mean(),
        "mcse": diagnosis.mcse[0],
        "r_hat": diagnosis.r_hat.max(),
        "ess": diagnosis.ess.min(),
        "divergences": diverging.sum(),
        "passed": passed,
        "probability": present[:, ::thinning],
        "diverging": diverging[:, ::thinning],
        **{name: value[:, ::thinning] for name, value in unknown.items()},
    }


def _swept(
    sampler: BatchedGibbs, data: dict[str, Floats], settings: Settings, seed: np.random.SeedSequence, layout: _Layout
) -> Floats:
    """Rows of one block of releases: all at once, then those that failed once more and longer."""
    first, second = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(2)
    rows = _gibbs_rows(sampler, data, settings, 1, first, layout)
    failed = np.flatnonzero(rows[:, _SUMMARY.index("passed")] == 0)
    if failed.size:
        again = {name: value[failed] for name, value in data.items()}
        rows[failed] = _gibbs_rows(sampler, again, settings.longer(LONGER), LONGER, second, layout)
    return rows


def _gibbs_rows(
    sampler: BatchedGibbs,
    data: dict[str, Floats],
    settings: Settings,
    thinning: int,
    seed: np.random.SeedSequence,
    layout: _Layout,
) -> Floats:
    size = next(iter(data.values())).shape[0]
    lengths = (settings.chains, settings.tune, settings.draws)
    latents, chances = sampler.run(data, size, lengths, np.random.default_rng(seed))
    target = diagnose(chances)
    others = [v.reshape(*v.shape[:3], -1) for n, v in latents.items() if n != sampler.target]
    cells = np.concatenate(others, axis=-1) if others else chances[..., None]
    r_hat = np.maximum(target.r_hat, diagnose(cells).r_hat.max(axis=-1))
    columns = {
        "posterior": chances.mean(axis=(0, 1)),
        "complement": 1.0 - chances.mean(axis=(0, 1)),
        "mcse": target.mcse,
        "r_hat": r_hat,
        "ess": target.ess,
        "divergences": np.zeros(size),
        "passed": target.passed & (r_hat <= 1.05),
        "probability": np.moveaxis(chances[:, ::thinning], 2, 0),
        **{name: np.moveaxis(value[:, ::thinning], 2, 0) for name, value in latents.items()},
    }
    return np.concatenate([np.asarray(columns[n], dtype=np.float64).reshape(size, -1) for n in layout.shapes], axis=1)


def _chance(
    given: Conditioned,
    priors: Priors,
    target: str,
    support: Mapping[str, ArrayLike],
    settled: Sequence[str],
    observed: Mapping[str, ArrayLike],
) -> tuple[float, float]:
    """Prior of the target of a discrete model: over its states, or over draws where there are too many."""
    supports = {name: support_of(given.model[name], support, given.moving) for name in given.latents}
    grid = Grid.over(supports)
    row = {name: np.atleast_1d(np.asarray(value))[0] for name, value in observed.items()}
    if grid.size <= _LARGEST_PRIOR:
        states = grid.states(0, grid.size)
        place = [*given.latents].index(target)
        return priors.chance(given, states, states[place][:, 0] == 1, settled, row)
    weights = priors.weights(given, settled, row)
    inside = priors.latents[target] == 1
    chance = float((weights * inside).mean())
    return chance, float(np.sqrt((weights**2 * (inside - chance) ** 2).sum()) / weights.sum())


def _estimate(found: Arrays) -> xr.Dataset:
    """Summaries per release; no probability where the fit failed."""
    passed = found["passed"] == 1
    values = {name: found[name] for name in _SUMMARY[:-1]}
    for name in ("posterior", "complement"):
        values[name] = np.where(passed, values[name], np.nan)
    result = xr.Dataset({name: ("release", value) for name, value in values.items()})
    return result.assign(status=("release", np.where(passed, "ok", "unreliable")))


def _last(array: NDArray[Any]) -> NDArray[Any]:
    """(release, chain, draw, ...) as (chain, draw, release, ...)."""
    return np.moveaxis(array, 0, 2)


def _rows(observed: Mapping[str, ArrayLike]) -> Callable[[slice], Arrays]:
    arrays = {name: np.atleast_1d(np.asarray(value)) for name, value in observed.items()}
    return lambda window: {name: value[window] for name, value in arrays.items()}


def _releases(observed: Mapping[str, ArrayLike]) -> int:
    return int(np.atleast_1d(np.asarray(next(iter(observed.values())))).shape[0])


def _kept(path: Path | None, make: Callable[[], Floats]) -> Floats:
    """What a file holds, or what is made and then written there."""
    if path is not None and path.exists():
        return np.asarray(np.load(path))
    block = make()
    if path is not None:
        runner.save_array(path, block)
    return block


def _path(
    store: Path | str, fitter: Marginalised, data: Arrays, tables: Floats, settings: Settings, seed: Any
) -> Path:
    """A name made of what the model computes for this block: its tables, its density and its latents at fixed points."""
    points = np.outer([-1.0, 0.0, 1.0], np.ones(fitter.priors.size))
    told = (_seed(seed), [*fitter.priors.latents], settings, version("nutpie"))
    numbers = [tables, fitter.one, fitter.priors.centre, fitter.priors.scale]
    for i in range(tables.shape[-1]):
        row = fitter.row(data, i)
        numbers.append(fitter.log_density(points, tables[..., i], row))
        drawn = fitter.latents(points, tables[..., i], row, np.random.default_rng(0))
        numbers += [drawn[name] for name in fitter.conditioned.continuous]
    return _named(store, "fits", told, numbers)


def _gibbs_density(sampler: BatchedGibbs, data: dict[str, Floats]) -> list[NDArray[Any]]:
    """The log joint density of the releases at a few fixed states, and the target's place."""
    point = {name: np.stack([np.resize(v, len(next(iter(data.values())))) for v in values], -1) for name, (_, values) in sampler.supports.items()}
    shaped = {name: value.reshape(-1, *sampler.supports[name][0]) for name, value in point.items()}
    return [sampler._density(sampler.log_density, shaped, data), np.array([*sampler.target.encode()])]


def _named(store: Path | str, kind: str, told: Any, numbers: Sequence[NDArray[Any]]) -> Path:
    digest = hashlib.sha256(json.dumps(told, default=repr).encode())
    for array in numbers:
        digest.update(np.ascontiguousarray(array).tobytes())
    return Path(store) / f"{kind}-{digest.hexdigest()[:20]}.npy"


def _seed(seed: np.random.SeedSequence) -> list[str]:
    return [str(seed.entropy), str(seed.spawn_key)]
