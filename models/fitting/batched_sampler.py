"""The Gibbs sampler of `gibbs`, run for many releases of one model at once.

Every release is its own posterior; the chains of all of them move in step, one array operation per latent and sweep.
Each chain starts from its own stratum of draws of the prior, so that chains that do not meet are seen not to. Where the
model is small, enumeration is exact and faster: this is the second opinion, with its Monte Carlo error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import xarray as xr
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors

from adversary._core import blocks
from adversary.models.enumeration import NUMPY_MODE, Conditioned, condition, support_of, vectorized

from .prior_draws import Priors

Floats = NDArray[np.float64]
Point = dict[str, NDArray[np.int64]]
Cell = tuple[str, tuple[int, ...]]

_CELLS_AT_ONCE = 4_000_000
_TRIES = 500
_STATES = 64  # random states in which a target is looked at
_DIAGNOSTICS = (("r_hat", "rhat"), ("ess", "ess"))


def batched_gibbs(
    model: Any,
    observed: Mapping[str, ArrayLike],
    *,
    target: str = "in",
    support: Mapping[str, ArrayLike] | None = None,
    draws: int = 100,
    tune: int = 25,
    chains: int = 2,
    rng: Any = None,
    progress: bool = True,
) -> xr.Dataset:
    r"""Posterior draws of every discrete latent for every release, each from its exact full conditional.

    Parameters
    ----------
    model : pymc.Model
        With its release left free.
    observed : mapping of variable name to array over releases
    target : name of a binary latent, or of a Deterministic with values 0 and 1
    support : values of latents without a finite support of their own
    draws, tune, chains : kept draws, draws dropped before them, and independent chains
    rng : seed

    Returns
    -------
    xarray.Dataset
        Draws of every latent, dims (chain, draw, release[, cell]), and over draws of
        :math:`P(\text{target} = 1 \mid \text{rest})`: ``probability`` (release), their mean, whose error is smaller
        than that of the target's draws, ``r_hat`` and ``ess`` (NaN where they never vary).

    Notes
    -----
    One latent moves at a time: where two are tied exactly, as by an invariant, the chain cannot leave its start.
    """
    prior_seed, seed = blocks.seed_sequence(rng).spawn(2)
    sampler = BatchedGibbs.of(model, tuple(observed), target, support or {}, prior_seed)
    generator = np.random.default_rng(seed)
    released = {name: np.atleast_1d(np.asarray(value, dtype=np.float64)) for name, value in observed.items()}
    size = next(iter(released.values())).shape[0]
    latents, traces = sampler.run(released, size, (chains, tune, draws), generator, progress=progress)
    variables: dict[str, Any] = {}
    for name, drawn in latents.items():
        dims = ("chain", "draw", "release", *(f"{name}_dim_{i}" for i in range(drawn.ndim - 3)))
        variables[name] = (dims, drawn)
    with np.errstate(invalid="ignore", divide="ignore"):
        diagnostics = {name: ("release", getattr(array_stats, stat)(traces, 0, 1)) for name, stat in _DIAGNOSTICS}
    return xr.Dataset({**variables, "probability": ("release", traces.mean(axis=(0, 1))), **diagnostics})


@dataclass(frozen=True)
class BatchedGibbs:
    """The compiled conditionals of a model, one per latent.

    `states` are draws of the latents from the prior, in the order along which they differ most; none where the prior
    cannot be drawn. `read` are the cells that the target is a function of.
    """

    supports: dict[str, tuple[tuple[int, ...], list[NDArray[np.int64]]]]
    conditionals: dict[str, Callable[..., Any]]
    log_density: Callable[..., Any]
    released: dict[str, str]
    target: str
    targets: Callable[..., Any]
    priors: Priors
    states: Point
    read: frozenset[Cell] = frozenset()

    @classmethod
    def of(
        cls, model: Any, observed: tuple[str, ...], target: str, support: Mapping[str, ArrayLike], rng: Any = None
    ) -> BatchedGibbs:
        given = condition(model, observed)
        supports = {name: support_of(given.model[name], support, given.moving) for name in given.latents}
        terms = {name: _terms(given, value) for name, value in given.latents.items()}
        conditionals = {name: _compiled(given, name, graph) for name, graph in terms.items()}
        dtypes = {name: value.dtype for name, value in given.released.items()}
        density = _compiled(given, None, given.model.logp())
        targets, priors = _of_latents(given, given.values_of(target)), Priors.of(given, rng)
        states = _along_widest({name: priors.latents[name] for name in supports}, supports)
        sampler = cls(supports, conditionals, density, dtypes, target, targets, priors, states)
        return replace(sampler, read=sampler._cells_read(np.random.default_rng(0)))

    def run(
        self,
        released: dict[str, Floats],
        size: int,
        lengths: tuple[int, int, int],
        rng: np.random.Generator,
        *,
        progress: bool = False,
    ) -> tuple[Point, Floats]:
        """Draws of every latent (chain, draw, release, *shape), and P(target = 1 | rest) of each draw.

        `lengths` are the numbers of chains, of sweeps dropped and of sweeps kept of each.
        """
        chains, tune, draws = lengths
        starts = [self.start(released, size, rng, (chain / chains, (chain + 1) / chains)) for chain in range(chains)]
        point = {name: np.concatenate([one[name] for one in starts]) for name in self.supports}
        every = {name: np.concatenate([value] * chains) for name, value in released.items()}
        kept: list[Point] = []
        chances = []
        for sweep in blocks.track(range(-tune, draws), "Gibbs sweeps", enabled=progress and size > 100):
            point, target_probability = self.sweep(point, every, rng)
            if sweep >= 0:
                kept.append(point)
                chances.append(target_probability)
        latents = {name: _by_chain([one[name] for one in kept], chains) for name in self.supports}
        return latents, _by_chain(chances, chains)

    def start(
        self, released: dict[str, Floats], size: int, rng: np.random.Generator, stratum: tuple[float, float]
    ) -> Point:
        """A point of positive probability for every release: draws of a stratum of the prior, tried until all are
        possible, then states from anywhere."""
        first, last = (round(end * len(next(iter(self.states.values())))) for end in stratum)
        point: Point = {}
        impossible = np.ones(size, dtype=bool)
        for attempt in range(_TRIES):
            place = rng.integers(first, last, size) if 2 * attempt < _TRIES and last > first else None
            fresh = self._random(size, rng) if place is None else {n: v[place] for n, v in self.states.items()}
            point = {name: _where(impossible, value, point.get(name, value)) for name, value in fresh.items()}
            impossible = ~np.isfinite(self.density(point, released))
            if not impossible.any():
                return point
        raise ValueError(f"no possible state was found for release {int(np.argmax(impossible))} in {_TRIES} tries")

    def is_one(self, states: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Whether the target is 1 in these states, (state, *shape) of each latent."""
        values = np.asarray(self.targets(*(states[name] for name in self.supports)))
        if values.ndim != 1 or not np.isin(values, (0, 1)).all():
            raise ValueError(
                f"target {self.target!r} must be one number, 0 or 1, got values {np.unique(values)[:10].tolist()}"
            )
        return np.asarray(np.broadcast_to(values == 1, len(next(iter(states.values())))))

    def _cells_read(self, rng: np.random.Generator) -> frozenset[Cell]:
        """The cells whose value can change the target, seen in random states; all of them where none is seen to."""
        states, cells, found = self._random(_STATES, rng), [*self._cells()], set()
        for name, cell, values in cells:
            each = {other: np.repeat(value, values.size, axis=0) for other, value in states.items()}
            each[name][_place(1, cell)] = np.tile(values, _STATES)
            if np.ptp(self.is_one(each).reshape(_STATES, -1).astype(np.int8), axis=1).any():
                found.add((name, cell))
        return frozenset(found or {(name, cell) for name, cell, _ in cells})

    def _cells(self) -> Iterator[tuple[str, tuple[int, ...], NDArray[np.int64]]]:
        """Every cell of every latent: its latent, its place there, and its values."""
        for name, (shape, supports) in self.supports.items():
            for cell, values in zip(np.ndindex(shape), supports, strict=True):
                yield name, cell, values

    def density(self, point: Point, released: dict[str, Floats]) -> Floats:
        """Log joint density of every release at its own state, (release,)."""
        return self._density(self.log_density, point, released)

    def _random(self, size: int, rng: np.random.Generator) -> Point:
        def cells(shape: tuple[int, ...], values: list[NDArray[np.int64]]) -> NDArray[np.int64]:
            return np.stack([rng.choice(v, size) for v in values], axis=-1).reshape(size, *shape)

        return {name: cells(shape, values) for name, (shape, values) in self.supports.items()}

    def _density(self, function: Callable[..., Any], point: Point, released: dict[str, Floats]) -> Floats:
        arrays = [value[None] for value in point.values()]
        data = [released[name].astype(dtype)[None] for name, dtype in self.released.items()]
        shape = (arrays[0].shape[0], next(iter(point.values())).shape[0])
        return np.asarray(np.broadcast_to(function(*arrays, *data), shape)[0])

    def sweep(self, point: Point, released: dict[str, Floats], rng: np.random.Generator) -> tuple[Point, Floats]:
        """Every latent of every release once; also P(target = 1 | rest), the mean over the cells the target reads."""
        point = {name: value.copy() for name, value in point.items()}
        chances = []
        for name, cell, values in self._cells():
            pmf = np.concatenate(list(self._conditional(name, cell, values, point, released)), axis=1)
            cumulative = np.cumsum(pmf, axis=0)
            if (name, cell) in self.read:
                chances.append((pmf * self._ones(name, cell, values, point)).sum(axis=0) / cumulative[-1])
            draw = (cumulative <= rng.random(cumulative.shape[1]) * cumulative[-1]).sum(axis=0)
            point[name][_place(1, cell)] = values[draw]
        return point, np.mean(chances, axis=0)

    def _ones(self, name: str, cell: tuple[int, ...], values: NDArray[np.int64], point: Point) -> NDArray[np.bool_]:
        """Whether the target is 1 for each value of one cell, (value, release)."""
        each = {other: np.concatenate([value] * values.size) for other, value in point.items()}
        each[name][_place(1, cell)] = np.repeat(values, len(point[name]))
        return self.is_one(each).reshape(values.size, -1)

    def _conditional(
        self, name: str, cell: tuple[int, ...], values: NDArray[np.int64], point: Point, released: dict[str, Floats]
    ) -> Iterator[Floats]:
        """Unnormalised law of one cell of one latent, (value, release), in groups of releases that fit in memory."""
        width = max(1, _CELLS_AT_ONCE // values.size)
        for start in range(0, point[name].shape[0], width):
            rows = slice(start, start + width)
            batch = np.repeat(point[name][None, rows], values.size, axis=0)
            batch[_place(2, cell)] = values[:, None]
            arrays = [batch if other == name else value[None, rows] for other, value in point.items()]
            data = [released[other][rows].astype(dtype)[None] for other, dtype in self.released.items()]
            log_p = np.broadcast_to(self.conditionals[name](*arrays, *data), batch.shape[:2])
            yield np.exp(log_p - log_p.max(axis=0))


def _terms(given: Conditioned, value: Any) -> Any:
    """The terms of the log density in which one latent appears."""
    terms = [pt.sum(term) for term in given.model.logp(sum=False) if value in ancestors([term])]
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _of_latents(given: Conditioned, graph: Any) -> Callable[..., Any]:
    """A graph of the latents alone, over states."""
    latents = {v: pt.tensor(dtype=v.dtype, shape=(None, *v.type.shape)) for v in given.latents.values()}
    compiled: Callable[..., Any] = pytensor.function(
        list(latents.values()), vectorized([graph], latents)[0], mode=NUMPY_MODE, on_unused_input="ignore"
    )
    return compiled


def _along_widest(latents: Point, supports: Mapping[str, Any]) -> Point:
    """Those of the draws that lie in the supports, in the order of their largest principal component."""
    cells = {name: value.reshape(len(value), -1) for name, value in latents.items()}
    inside = [np.isin(cells[n][:, i], v) for n, (_, axes) in supports.items() for i, v in enumerate(axes)]
    kept = np.flatnonzero(np.all(inside, axis=0))
    flat = np.concatenate([value[kept] for value in cells.values()], axis=1).astype(np.float64)
    if kept.size:
        spread = flat.std(axis=0)
        scaled = (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        kept = kept[np.argsort(scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0], kind="stable")]
    return {name: value[kept].astype(np.int64) for name, value in latents.items()}


def _where(mask: NDArray[np.bool_], chosen: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return np.where(mask.reshape(-1, *[1] * (chosen.ndim - 1)), chosen, other)


def _compiled(given: Conditioned, moving: str | None, graph: Any) -> Callable[..., Any]:
    """A density over (states, releases): the moving latent has many states, every other one has one."""
    latents = {
        v: pt.tensor(dtype=v.dtype, shape=(None if name == moving else 1, None, *v.type.shape))
        for name, v in given.latents.items()
    }
    released = {v: pt.tensor(dtype=v.dtype, shape=(1, None, *v.type.shape)) for v in given.released.values()}
    inputs = {**latents, **released}
    (output,) = vectorized([graph], inputs)
    compiled: Callable[..., Any] = pytensor.function(
        list(inputs.values()), output, mode=NUMPY_MODE, on_unused_input="ignore"
    )
    return compiled


def _by_chain(sweeps: list[NDArray[Any]], chains: int) -> NDArray[Any]:
    """What every sweep left, each (chain and release, *shape), as (chain, draw, release, *shape)."""
    every = np.stack(sweeps)
    return np.moveaxis(every.reshape(every.shape[0], chains, -1, *every.shape[2:]), 1, 0)


def _place(leading: int, cell: tuple[int, ...]) -> Any:
    """Index of one cell behind so many leading axes."""
    return (*[slice(None)] * leading, *cell)
