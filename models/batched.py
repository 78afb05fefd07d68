"""The Gibbs sampler of `gibbs`, run for many releases of one model at once.

Every release is its own posterior; the chains of all of them move in step, one array operation per latent and sweep.
Where the model is small, enumeration is exact and faster: this is the second opinion, with its Monte Carlo error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import xarray as xr
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors

from adversary import runner

from .batching import NUMPY_MODE, vectorized
from .graphs import Conditioned, condition
from .supports import support_of

__all__ = ["BatchedGibbs", "batched_gibbs"]

Floats = NDArray[np.float64]
Point = dict[str, NDArray[np.int64]]

_CELLS_AT_ONCE = 4_000_000
_TRIES = 500
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
    target : name of a binary latent
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
    sampler = BatchedGibbs.of(model, tuple(observed), target, support or {})
    generator = np.random.default_rng(runner.seed_sequence(rng))
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
    """The compiled conditionals of a model, one per latent."""

    supports: dict[str, tuple[tuple[int, ...], list[NDArray[np.int64]]]]
    conditionals: dict[str, Callable[..., Any]]
    log_density: Callable[..., Any]
    released: dict[str, str]
    target: str

    @classmethod
    def of(cls, model: Any, observed: tuple[str, ...], target: str, support: Mapping[str, ArrayLike]) -> BatchedGibbs:
        given = condition(model, observed)
        supports = {name: support_of(given.model[name], support, given.moving) for name in given.latents}
        if target not in supports or supports[target][0] != () or list(supports[target][1][0]) != [0, 1]:
            raise ValueError(f"target must be a latent with values 0 and 1, got {target!r} of {sorted(supports)}")
        terms = {name: _terms(given, value) for name, value in given.latents.items()}
        conditionals = {name: _compiled(given, name, graph) for name, graph in terms.items()}
        dtypes = {name: value.dtype for name, value in given.released.items()}
        return cls(supports, conditionals, _compiled(given, None, given.model.logp()), dtypes, target)

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
        starts = [self.start(released, size, rng) for _ in range(chains)]
        point = {name: np.concatenate([one[name] for one in starts]) for name in self.supports}
        every = {name: np.concatenate([value] * chains) for name, value in released.items()}
        kept: list[Point] = []
        chances = []
        for sweep in runner.track(range(-tune, draws), "Gibbs sweeps", enabled=progress and size > 100):
            point, target_probability = self.sweep(point, every, rng)
            if sweep >= 0:
                kept.append(point)
                chances.append(target_probability)
        latents = {name: _by_chain([one[name] for one in kept], chains) for name in self.supports}
        return latents, _by_chain(chances, chains)

    def start(self, released: dict[str, Floats], size: int, rng: np.random.Generator) -> Point:
        """A point of positive probability for every release: random states, tried until all are possible."""
        point = self._random(size, rng)
        for _ in range(_TRIES):
            impossible = ~np.isfinite(self.density(point, released))
            if not impossible.any():
                return point
            fresh = self._random(size, rng)
            for name, value in point.items():
                value[impossible] = fresh[name][impossible]
        raise ValueError(f"no possible state was found for release {int(np.argmax(impossible))} in {_TRIES} tries")

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
        """Every latent of every release once; also P(target = 1 | rest) at the moment it was drawn."""
        point = {name: value.copy() for name, value in point.items()}
        probability = np.zeros(0)
        for name, (shape, supports) in self.supports.items():
            for cell, values in zip(np.ndindex(shape), supports, strict=True):
                pmf = np.concatenate(list(self._conditional(name, cell, values, point, released)), axis=1)
                cumulative = np.cumsum(pmf, axis=0)
                draw = (cumulative <= rng.random(cumulative.shape[1]) * cumulative[-1]).sum(axis=0)
                point[name][_place(1, cell)] = values[draw]
                if name == self.target:
                    probability = pmf[1] / cumulative[-1]
        return point, probability

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
