"""Thousands of releases of a model with discrete latents alone, by the Gibbs step of `batched`, judged as fits are.

The second opinion on enumeration, and the only one where there are too many joint states to go through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary import runner
from adversary.executors import Remade
from adversary.reader.enumeration import LARGEST_GRID, Grid

from .batched import BatchedGibbs
from .diagnostics import LARGEST_RHAT, diagnose
from .graphs import Conditioned, condition
from .marginal import Settings
from .priors import Priors
from .records import SUMMARY, Layout, Refits, estimate, file_for, labelled, release_axis_last, rows_of
from .refits import LONGER

__all__ = ["BLOCK", "SWEEPS", "refit_by_gibbs"]

Floats = NDArray[np.float64]
Piece = tuple[dict[str, Floats], np.random.SeedSequence]

SWEEPS = Settings(chains=4, tune=25, draws=100)
BLOCK = 1024
"""Releases swept together, and saved together."""
_LARGEST_PRIOR = 2_000_000  # joint states up to which a prior is summed rather than drawn


def refit_by_gibbs(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    settings: Settings = SWEEPS,
    rng: Any = None,
    progress: bool = True,
    store: Path | str | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> Refits:
    """Sample a model of discrete latents for every release; arguments as in `refits.refit`.

    R-hat is asked of every latent and of P(target = 1 | rest), effective size of the latter. A fit that fails is run
    once more, four times as long.
    """
    prior_seed, fit_seed, draw_seed = runner.seed_sequence(rng).spawn(3)
    compiled = Remade(BatchedGibbs.of, model, tuple(observed), target, support or {})
    sampler, given = compiled.value, condition(model, tuple(observed))
    rows, size = rows_of(observed)
    sizes = (settings.chains, settings.draws)
    latents = {name: (*sizes, *shape) for name, (shape, _) in sampler.supports.items()}
    layout = Layout(dict.fromkeys(SUMMARY, ()) | {"probability": sizes} | latents)
    starts = range(0, size, BLOCK)
    work: list[Piece] = []
    files = []
    for start, child in zip(starts, fit_seed.spawn(len(starts)), strict=True):
        window = rows(slice(start, min(start + BLOCK, size)))
        data = {name: value.astype(np.float64) for name, value in window.items()}
        told = ([*sampler.supports], sampler.target, settings, LONGER)
        numbers = [] if store is None else [*data.values(), *_densities(sampler, data)]
        files.append(file_for(store, "sweeps", child, told, numbers))
        work.append((data, child))
    blocks = runner.gathered(
        partial(_swept, compiled, settings, layout),
        work,
        files,
        description="releases swept, in blocks",
        progress=progress and len(work) > 1,
        scheduler=scheduler,
        workers=workers,
    )
    found = layout.unpacked(np.concatenate(blocks))
    priors = Priors.of(given, prior_seed)
    row = {name: value[0] for name, value in rows(slice(0, 1)).items()}
    before, after = (_chance(given, priors, target, sampler.supports, names, row) for names in ((), tuple(settled)))
    prior = priors.drawn(priors.weights(given), (settings.chains, 250), np.random.default_rng(draw_seed))
    traces = {name: release_axis_last(found[name]) for name in ("probability", *latents)}
    return Refits(
        estimate(found).drop_vars("divergences"),
        labelled(given, traces, ("chain", "draw", "release")),
        None,
        labelled(given, prior, ("chain", "draw")),
        before,
        after,
        "discrete latents sampled by the Gibbs step",
        'engine "enumerate" needs no draws here' if _size(sampler.supports) <= LARGEST_GRID else "look at their draws",
    )


def _swept(compiled: Remade[BatchedGibbs], settings: Settings, layout: Layout, piece: Piece) -> Floats:
    """Rows of one block of releases: all at once, then those that failed once more and longer."""
    sampler, (data, seed) = compiled.value, piece
    first, second = runner.seed_sequence(seed).spawn(2)
    rows = _rows(sampler, data, settings, 1, first, layout)
    failed = np.flatnonzero(rows[:, SUMMARY.index("passed")] == 0)
    if failed.size:
        again = {name: value[failed] for name, value in data.items()}
        rows[failed] = _rows(sampler, again, settings.longer(LONGER), LONGER, second, layout)
    return rows


def _rows(
    sampler: BatchedGibbs,
    data: dict[str, Floats],
    settings: Settings,
    thinning: int,
    seed: np.random.SeedSequence,
    layout: Layout,
) -> Floats:
    """One try of every release."""
    size = next(iter(data.values())).shape[0]
    lengths = (settings.chains, settings.tune, settings.draws)
    latents, chances = sampler.run(data, size, lengths, np.random.default_rng(seed))
    target = diagnose(chances)
    others = [v.reshape(*v.shape[:3], -1) for name, v in latents.items() if name != sampler.target]
    r_hats = [target.r_hat, *(diagnose(cells).r_hat.max(axis=-1) for cells in others)]
    r_hat = np.max(r_hats, axis=0)
    traces = {"probability": chances, **latents}
    return layout.packed_all(
        {
            "posterior": chances.mean(axis=(0, 1)),
            "complement": (1.0 - chances).mean(axis=(0, 1)),
            "mcse": target.mcse,
            "r_hat": r_hat,
            "ess": target.ess,
            "divergences": np.zeros(size),
            "passed": target.passed & (r_hat <= LARGEST_RHAT),
            **{name: np.moveaxis(value[:, ::thinning], 2, 0) for name, value in traces.items()},
        }
    )


def _chance(
    given: Conditioned,
    priors: Priors,
    target: str,
    supports: Mapping[str, tuple[tuple[int, ...], list[NDArray[np.int64]]]],
    settled: Sequence[str],
    row: Mapping[str, Any],
) -> tuple[float, float]:
    """Prior of the target: over the model's states, or over draws where there are too many."""
    if _size(supports) <= _LARGEST_PRIOR:
        grid = Grid.over(supports)
        states = grid.states(0, grid.size)
        return priors.chance(given, states, states[[*supports].index(target)][:, 0] == 1, settled, row)
    weights, inside = priors.weights(given, settled, row), priors.latents[target] == 1
    chance = float((weights * inside).mean())
    return chance, float(np.sqrt((weights**2 * (inside - chance) ** 2).sum()) / weights.sum())


def _size(supports: Mapping[str, tuple[tuple[int, ...], list[NDArray[np.int64]]]]) -> float:
    """Number of joint states."""
    return float(np.prod([float(len(axis)) for _, axes in supports.values() for axis in axes]))


def _densities(sampler: BatchedGibbs, data: dict[str, Floats]) -> list[Floats]:
    """The model's log joint density of these releases at two fixed states each."""
    size = next(iter(data.values())).shape[0]

    def at(first: int) -> Floats:
        point = {
            name: np.stack([np.resize(np.roll(v, first), size) for v in values], axis=-1).reshape(size, *shape)
            for name, (shape, values) in sampler.supports.items()
        }
        return sampler.density(point, data)

    return [at(0), at(1)]
