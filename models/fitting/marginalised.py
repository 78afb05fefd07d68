r"""A model with its discrete latents summed out, so that NUTS can sample the continuous ones; compiled once.

.. math:: \log p(\theta, y) = c(\theta, y) + \log \sum_s \exp\big(m(\theta, s, y) + \ell(s, y)\big)

over every joint state s of the discrete latents. The terms :math:`\ell` that no continuous latent enters are a table of
numbers for each release y, worked out in batches and handed to the compiled sampler as data; so laws without a formula
in PyTensor may stand there. :math:`m` and :math:`c` stay in the graph. :math:`\theta` is on PyMC's unconstrained scale,
with its Jacobian, and in units of its own prior's spread, so that every chain starts and steps at a fair size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors
from scipy.special import logsumexp

from adversary.models.enumeration import Conditioned, Grid, Marginal, Slot, batched, condition, summed, support_of
from adversary.models.importance import Importance

from .marginal_densities import compiled_sampler, latents_met, over_points, parted, restored
from .prior_draws import Priors

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

CAREFUL = 0.95
"""Acceptance that a second try aims at: smaller steps, fewer divergences."""

LARGEST_STATES = 200_000
"""Joint states of the discrete latents beyond which they are not summed out."""
_CELLS_AT_ONCE = 2**20
_CELLS_WEIGHED = 2**22  # draws of the prior times states that they meet, for the weights of one release
_FEWEST_WEIGHED = 1000


@dataclass(frozen=True)
class Settings:
    """Length of a fit: independent chains, steps to tune each, draws kept of each, and the acceptance NUTS aims at."""

    chains: int = 4
    tune: int = 200
    draws: int = 250
    accept: float = 0.8

    def longer(self, times: int) -> Settings:
        """The same number of chains, each so many times as long and in smaller steps."""
        return Settings(self.chains, self.tune * times, self.draws * times, CAREFUL)


@dataclass(frozen=True)
class Marginalised:
    """A compiled model: `tables` of a batch of releases, `sample` of one, and what its draws say about the target.

    The states of the discrete latents form a table (met, apart): latents that meet a continuous one in some term, by
    all the others. `one` says in which of them the target is 1; nowhere without a target.
    """

    conditioned: Conditioned
    priors: Priors
    states: list[NDArray[np.int64]]
    one: NDArray[np.bool_]
    slots: tuple[Slot, ...]
    carried: tuple[str, ...]
    compiled: Any
    _table: Callable[..., Any]
    _density: Callable[..., Any]
    _restore: Callable[..., Any]

    @classmethod
    def of(
        cls,
        model: Any,
        observed: Sequence[str],
        target: str | None = "in",
        support: Mapping[str, ArrayLike] | None = None,
        rng: Any = None,
    ) -> Marginalised:
        """Compile `model` for releases of the variables named in `observed`; `target` may be None.

        Raises
        ------
        ValueError : too many joint states, an infinite support, an improper prior, a target that is not binary
        TypeError : a continuous latent in a term without a gradient
        """
        given = condition(model, observed, continuous=True)
        if target is not None:
            given.values_of(target)
        if target is not None and not given.latents:
            raise ValueError(f"target {target!r} must be a function of discrete latents; the model has none")
        given = _met_first(given)
        supports = {name: support_of(given.model[name], support or {}, given.moving) for name in given.latents}
        grid = Grid.over(supports, LARGEST_STATES)
        one = np.zeros(grid.size, dtype=bool)
        if target is not None:
            marginal = Marginal.over(grid, target, given)
            if marginal.dims or not np.isin(marginal.values, (0, 1)).all():
                raise ValueError(f"target {target!r} must be one number, 0 or 1, got values {marginal.values.tolist()}")
            one = marginal.values[marginal.index[:, 0]] == 1
        smooth, plain = parted(given)
        met = int(np.prod([len(axis) for name in latents_met(given, smooth) for axis in grid.axes[name]]))
        priors = Priors.of(given, rng)
        carried = tuple(n for n, v in given.released.items() if v in ancestors(smooth))
        states = grid.states(0, grid.size)
        few = [s[:: grid.size // met, 0] for s in states]
        return cls(
            given,
            priors,
            states,
            one.reshape(met, -1),
            tuple(Slot(name, v.dtype, v.type.shape) for name, v in given.released.items()),
            carried,
            compiled_sampler(given, smooth, few, priors, carried),
            batched(given, [summed(plain)]),
            over_points(given, smooth, few, priors, carried),
            restored(given, priors, carried),
        )

    def tables(self, observed: Mapping[str, ArrayLike]) -> Floats:
        r"""The terms :math:`\ell(s, y)` of every release, shape (met, apart, releases)."""
        batches = [slot.batch(observed[slot.name])[0] for slot in self.slots]
        releases, size = max(batch.shape[1] for batch in batches), self.one.size
        table = np.empty((size, releases))
        width = max(1, _CELLS_AT_ONCE // size)
        for start in range(0, releases, width):
            window = slice(start, min(start + width, releases))
            part = self._table(*self.states, *(b[:, window] if b.shape[1] > 1 else b for b in batches))[0]
            table[:, window] = np.broadcast_to(part, (size, window.stop - start))
        if np.isnan(table).any() or (table == np.inf).any():
            raise ValueError("the model's log density is not a number, or infinite, in some state of its latents")
        impossible = np.isneginf(table).all(axis=0)
        if impossible.any():
            row = int(np.argmax(impossible))
            raise ValueError(f"every state of the latents is impossible at release {row}: {self.row(observed, row)}")
        return table.reshape(*self.one.shape, releases)

    def row(self, observed: Mapping[str, ArrayLike], i: int) -> Arrays:
        """One release of many, as the model's variables hold it."""
        batches = {slot.name: slot.batch(observed[slot.name])[0][0] for slot in self.slots}
        return {name: batch[min(i, len(batch) - 1)] for name, batch in batches.items()}

    def sample(
        self, table: Floats, row: Arrays, settings: Settings, seed: int, progress: bool = False
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Draws (chain, draw, continuous cell) in the prior's units, and which of them diverged (chain, draw).

        NaN throughout where no chain could be started. An interrupt stops the sampler and is passed on.
        """
        import nutpie  # type: ignore[import-untyped]

        data = {name: row[name] for name in self.carried}
        ready = self.compiled.with_data(log_table=logsumexp(table, axis=1), **data)
        shape = (settings.chains, settings.draws)
        lengths = {"chains": settings.chains, "tune": settings.tune, "draws": settings.draws, "cores": 1, "seed": seed}
        options = {"target_accept": settings.accept, "progress_bar": progress, "save_warmup": False}
        running = None
        try:
            running = nutpie.sample(ready, **lengths, **options, return_raw_trace=True, blocking=False)
            drawn, told = running.wait().get_arrow_trace()
        except RuntimeError:  # no place with a finite density was found to start from
            return np.full((*shape, self.priors.size), np.nan), np.zeros(shape, dtype=bool)
        except KeyboardInterrupt:
            if running is not None:
                running.cancel()
            raise
        kept = [_column(one, "tuning") == 0 for one in told]
        draws = [_column(one, "z")[keep] for one, keep in zip(drawn, kept, strict=True)]
        diverged = [_column(one, "diverging")[keep] for one, keep in zip(told, kept, strict=True)]
        return np.stack(draws).reshape(*shape, -1), np.stack(diverged).reshape(shape) == 1

    def log_density(self, points: Floats, table: Floats, row: Arrays) -> Floats:
        """Marginal log density, up to nothing, at points (point, continuous cell) in the prior's units."""
        met, alone = self._terms(points, row)
        return np.asarray(logsumexp(met + logsumexp(table, axis=1), axis=1) + alone[:, 0])

    def chances(self, points: Floats, table: Floats, row: Arrays) -> tuple[Floats, Floats]:
        """(P(target = 1 | continuous latents, release), P(target = 0 | ...)) at every point."""
        present, out = self._hypotheses(self._terms(points, row)[0], table)
        with np.errstate(invalid="ignore"):
            total = np.logaddexp(present, out)
            return np.exp(present - total), np.exp(out - total)

    def _hypotheses(self, met: Floats, table: Floats) -> tuple[Floats, Floats]:
        """Log density at every point with the target 1, and with the target 0, but for c."""
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [met + logsumexp(np.where(where, table, -np.inf), axis=1) for where in (self.one, ~self.one)]
            present, out = (logsumexp(part, axis=1) for part in parts)
        return present, out

    def importance(self, table: Floats, row: Arrays) -> tuple[Importance, Floats]:
        """Posterior of one release from draws of the prior: their weights, and at each P(target = 1 | continuous
        latents, release) and the `places` of the continuous cells, (draw, 1 + cells)."""
        points, log_prior, fixed = self._weighed
        met, alone = self._terms(points, row) if fixed is None else fixed
        present, out = self._hypotheses(met, table)
        with np.errstate(invalid="ignore"):
            total = np.logaddexp(present, out)
            log_likelihood = np.where(total > -np.inf, total + alone[:, 0] - log_prior, -np.inf)
            chances = np.nan_to_num(np.exp(present - total))
        return Importance.of(log_likelihood), np.column_stack([chances, self.places(points)])

    def places(self, points: Floats) -> Floats:
        """Where the cells of points (..., cell) fall among the draws of the prior, from 0 to 1."""
        pairs = zip(self._sorted, np.moveaxis(points, -1, 0), strict=True)
        return np.stack([np.searchsorted(drawn, cell) / drawn.size for drawn, cell in pairs], axis=-1)

    @cached_property
    def _sorted(self) -> Floats:
        """Every continuous cell's draws from the prior in ascending order, (cell, draw)."""
        return np.sort(self._weighed[0].T, axis=1)

    @cached_property
    def _weighed(self) -> tuple[Floats, Floats, tuple[Floats, Floats] | None]:
        """Draws of the prior, their log prior density, and m and c there where no release enters them."""
        given, priors = self.conditioned, self.priors
        size = max(_FEWEST_WEIGHED, _CELLS_WEIGHED // self.one.shape[0])
        values = np.concatenate([v[:size].reshape(len(v[:size]), -1) for v in priors.many.values()], axis=1)
        points = (values - priors.centre) / priors.scale
        points = points[np.isfinite(points).all(axis=1)]
        smooth, plain = parted(given, given.own_terms())
        few = [s[:: self.one.shape[1], 0] for s in self.states]
        density = over_points(given, smooth, few, priors, ())
        unused = [np.zeros((1, 1, *(n or 0 for n in v.type.shape)), v.dtype) for v in given.released.values()]
        (own,) = batched(given, [summed(plain)])(*self.states, *unused)
        own = np.broadcast_to(own, (self.one.size, 1)).reshape(self.one.shape)
        met, alone = self._terms(points, {}, density)
        log_prior = logsumexp(met + logsumexp(own, axis=1), axis=1) + alone[:, 0]
        return points, log_prior, None if self.carried else self._terms(points, {})

    def latents(self, points: Floats, table: Floats, row: Arrays, rng: np.random.Generator) -> Arrays:
        """Draws of every latent, by name, (point, *shape): the discrete ones from their law given the continuous."""
        met, _ = self._terms(points, row)
        first = _drawn(met + logsumexp(table, axis=1), rng)
        place = first * table.shape[1] + _drawn(table[first], rng)
        discrete = {n: s[place, 0] for n, s in zip(self.conditioned.latents, self.states, strict=True)}
        extra = [row[name][None] for name in self.carried]
        values = [discrete[n].astype(v.dtype) for n, v in self.conditioned.latents.items()]
        smooth = self._restore(*self.priors.split(points), *values, *extra)
        return discrete | {n: np.asarray(v) for n, v in zip(self.conditioned.continuous, smooth, strict=True)}

    def _terms(self, points: Floats, row: Arrays, density: Callable[..., Any] | None = None) -> tuple[Floats, Floats]:
        """m (point, met) and c (point, 1), of the whole density or of another."""
        extra = [row[name][None, None] for name in self.carried] if density is None else []
        density = density or self._density
        width = max(1, _CELLS_AT_ONCE // self.one.shape[0])
        parts = []
        for start in range(0, points.shape[0], width):
            values = [v[:, None] for v in self.priors.split(points[start : start + width])]
            size = values[0].shape[0]
            met, alone = density(*values, *extra)
            parts.append((np.broadcast_to(met, (size, self.one.shape[0])), np.broadcast_to(alone, (size, 1))))
        met, alone = zip(*parts, strict=True)
        return np.concatenate(met), np.concatenate(alone)


def _met_first(given: Conditioned) -> Conditioned:
    met = latents_met(given, parted(given)[0])
    order = [*met, *(name for name in given.latents if name not in met)]
    return replace(given, latents={name: given.latents[name] for name in order})


def _column(table: Any, name: str) -> Floats:
    """A column of nutpie's trace, one row per step."""
    return np.array(table.column(name).to_pylist(), dtype=np.float64)


def _drawn(log_weights: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of unnormalised log weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    threshold = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((cumulative <= threshold[:, None]).sum(axis=1), dtype=np.int64)
