"""Thousands of releases of a model with discrete latents alone, by the Gibbs step of `batched`, judged as fits are.

The second opinion on enumeration, and the only one where there are too many joint states to go through. Where there are
not, the draws must agree with it: chains can all sit in one mode and look converged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import LARGEST_RHAT, PerThread, diagnose
from adversary._core import blocks as runner
from adversary.models.enumeration import LARGEST_GRID, Conditioned, Enumerator, Grid, compile_enumerator, condition

from .batched_sampler import BatchedGibbs
from .fit_records import SUMMARY, Layout, Refits, estimate, labelled, release_axis_last, rows_of
from .fit_releases import LONGER
from .marginalised import Settings

Floats = NDArray[np.float64]
Piece = tuple[dict[str, Floats], np.random.SeedSequence]

SWEEPS = Settings(chains=4, tune=25, draws=100)
BLOCK = 1024
"""Releases swept together, and saved together."""
_LARGEST_PRIOR = 2_000_000  # joint states up to which a prior is summed rather than drawn
_LARGEST_CHECK = 2**27  # joint states, times releases of a block, that are enumerated to check its draws
_ERRORS = 5  # standard errors by which draws may differ from enumeration


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
    """Sample a model of discrete latents for every release by Gibbs steps, thousands of releases at a time.

    R-hat is asked of every latent and of P(target = 1 | rest), effective size of the latter. Where the joint states can
    be enumerated, P(target = 1 | release) must agree with that too, in as many releases of a block as is quick; a
    quantity that never moves passes in no other way. A fit that fails is run once more, four times as long.

    Parameters
    ----------
    model : pymc.Model with its release left free and discrete latents only
    observed : released variables by name, arrays over releases
    target : binary discrete latent, or Deterministic of such
    support : values of latents without a finite support of their own
    settled : released variables that are published exactly, the same in every release
    settings : chains, sweeps to tune and sweeps kept of a first try
    rng : seed
    progress : show a bar with the time left
    store : folder for finished blocks, from which a later call with the same seed goes on
    scheduler, workers : address of a Dask scheduler, or number of local processes; every worker compiles the model

    Returns
    -------
    Refits : estimates per release, draws with dims (chain, draw, release), and the prior.

    Raises
    ------
    ValueError : an unknown name, a target that is not 0 or 1, or a release for which no possible state is found
    TypeError : a latent is continuous
    """
    prior_seed, fit_seed, draw_seed = runner.seed_sequence(rng).spawn(3)
    compiled = PerThread(_Checked.of, model, tuple(observed), target, support or {}, prior_seed)
    sampler, given = compiled.value.sampler, condition(model, tuple(observed))
    rows, size = rows_of(observed)
    sizes = (settings.chains, settings.draws)
    latents = {name: (*sizes, *shape) for name, (shape, _) in sampler.supports.items()}
    layout = Layout(dict.fromkeys(SUMMARY, ()) | {"probability": sizes} | latents)
    starts = range(0, size, BLOCK)
    work: dict[str, Piece] = {}
    for start, child in zip(starts, fit_seed.spawn(len(starts)), strict=True):
        window = rows(slice(start, min(start + BLOCK, size)))
        data = {name: value.astype(np.float64) for name, value in window.items()}
        told = ([*sampler.supports], sampler.target, settings, LONGER)
        numbers = [] if store is None else [*data.values(), *_densities(sampler, data)]
        work[f"sweeps-{runner.work_name(child, told, numbers=numbers)}"] = data, child
    blocks = runner.map_blocks(
        partial(_swept, compiled, settings, layout),
        work,
        store,
        description="releases swept, in blocks",
        progress=progress and len(work) > 1,
        scheduler=scheduler,
        workers=workers,
    )
    found = layout.unpacked(np.concatenate(list(blocks.values())))
    priors = sampler.priors
    row = {name: value[0] for name, value in rows(slice(0, 1)).items()}
    before, after = (_chance(given, sampler, names, row) for names in ((), tuple(settled)))
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


@dataclass(frozen=True)
class _Checked:
    """A sampler, and the enumerator to check it by where there are few enough joint states."""

    sampler: BatchedGibbs
    enumerator: Enumerator | None

    @classmethod
    def of(
        cls, model: Any, observed: tuple[str, ...], target: str, support: Mapping[str, ArrayLike], rng: Any
    ) -> _Checked:
        sampler = BatchedGibbs.of(model, observed, target, support, rng)
        few = _size(sampler.supports) <= LARGEST_GRID
        return cls(sampler, compile_enumerator(model, observed, target, support) if few else None)

    def exact(self, data: Mapping[str, Floats], size: int) -> Floats:
        """P(target = 1 | release) by enumeration; NaN where it is too much."""
        chance = np.full(size, np.nan)
        if self.enumerator is not None:
            quick = slice(0, max(1, _LARGEST_CHECK // self.enumerator.grid.size))
            found = self.enumerator({name: value[quick] for name, value in data.items()})
            chance[quick] = found["posterior"].values
        return chance


def _swept(compiled: PerThread[_Checked], settings: Settings, layout: Layout, piece: Piece) -> Floats:
    """Rows of one block of releases: all at once, then those that failed once more and longer."""
    checked, (data, seed) = compiled.value, piece
    first, second = runner.seed_sequence(seed).spawn(2)
    exact = checked.exact(data, next(iter(data.values())).shape[0])
    rows = _rows(checked.sampler, data, exact, settings, 1, first, layout)
    failed = np.flatnonzero(rows[:, SUMMARY.index("passed")] == 0)
    if failed.size:
        again = {name: value[failed] for name, value in data.items()}
        longer = settings.longer(LONGER)
        rows[failed] = _rows(checked.sampler, again, exact[failed], longer, LONGER, second, layout)
    return rows


def _rows(
    sampler: BatchedGibbs,
    data: dict[str, Floats],
    exact: Floats,
    settings: Settings,
    thinning: int,
    seed: np.random.SeedSequence,
    layout: Layout,
) -> Floats:
    """One try of every release; `exact` is P(target = 1 | release) where it is known, else NaN."""
    lengths = (settings.chains, settings.tune, settings.draws)
    latents, chances = sampler.run(data, exact.size, lengths, np.random.default_rng(seed))
    target, posterior = diagnose(chances), chances.mean(axis=(0, 1))
    free = {n: [len(axis) > 1 for axis in axes] for n, (_, axes) in sampler.supports.items() if n != sampler.target}
    cells = [latents[name].reshape(*chances.shape, -1)[..., moves] for name, moves in free.items()]
    others = diagnose(np.concatenate([chances[..., None], *cells], axis=-1))
    r_hat, stuck = np.fmax.reduce(others.r_hat, axis=-1), others.constant.any(axis=-1)
    off = np.abs(posterior - exact)
    mcse = np.where(target.constant, off, target.mcse)
    rare = 1.0 / (settings.chains * settings.draws)  # a state rarer than one in all draws is seen never or once
    agrees = off <= _ERRORS * np.where(target.constant, 0.0, mcse) + rare
    moved = ~(r_hat > LARGEST_RHAT) & (target.passed | target.constant)
    traces = {"probability": chances, **latents}
    return layout.packed_all(
        {
            "posterior": posterior,
            "complement": (1.0 - chances).mean(axis=(0, 1)),
            "mcse": mcse,
            "r_hat": r_hat,
            "ess": target.ess,
            "divergences": np.zeros(exact.size),
            "passed": moved & np.where(np.isnan(exact), ~stuck, agrees),
            **{name: np.moveaxis(value[:, ::thinning], 2, 0) for name, value in traces.items()},
        }
    )


def _chance(
    given: Conditioned, sampler: BatchedGibbs, settled: Sequence[str], row: Mapping[str, Any]
) -> tuple[float, float]:
    """Prior of the target: over the model's states, or over draws where there are too many."""
    priors = sampler.priors
    if _size(sampler.supports) <= _LARGEST_PRIOR:
        grid = Grid.over(sampler.supports)
        states = grid.states(0, grid.size)
        one = sampler.is_one({name: s[:, 0] for name, s in zip(sampler.supports, states, strict=True)})
        return priors.chance(given, states, one, settled, row)
    weights = priors.weights(given, settled, row)
    inside = sampler.is_one({name: priors.latents[name] for name in sampler.supports})
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
