r"""Enumeration over latents without a largest value, cut with a bound on the truncated mass.

.. math:: P(N > K \mid y) \le \frac{U(y) \, E[P(N > K \mid \text{parents})]}{p(y)}, \qquad
          U(y) = \sup \, p(y \mid \text{latents})

U is one for a discrete release, and for continuous location noise the density at its centre. The same bound holds for
the prior, with the side data in place of y. K grows until the bounds are below `LARGEST_CUT` for the prior and for
every release; the bound is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pymc.vartypes import discrete_types
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import CauchyRV, LaplaceRV, LogisticRV, NormalRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from .batched_graphs import Compiled, compile_batches, sum_terms
from .graphs import Conditioned, compile_batched
from .state_grid import distinct_rows
from .support_ends import given_parents

Floats = NDArray[np.float64]

# Largest posterior or prior probability that may be cut from latents without a largest value.
LARGEST_CUT = 1e-12
# Values above the smallest one in the first attempt; the range doubles after that.
_FIRST = 32
# The probabilities of a distribution may fall short of one by as much through rounding.
_ROUNDING = 1e-9
# Location families whose density is highest at their first parameter.
_SHIFTED = (NormalRV, LaplaceRV, LogisticRV, CauchyRV)


@dataclass
class GrowingEnumerator:
    """An `Enumerator` that extends its unbounded latents until the cut mass is negligible for the releases given.

    Parameters
    ----------
    build : function from the values (n,) of each unbounded latent, by name, to the enumerator over them
    tails : tail of each unbounded latent
    starts : smallest value of each unbounded latent
    ceiling : compiled function of states and releases, to the log prior of the other latents, upper bounds on the log
        likelihood of release and side data, and of side data alone, and the log prior of each unbounded latent
    """

    build: Callable[[Mapping[str, ArrayLike]], Any]
    tails: tuple[Tail, ...]
    starts: Mapping[str, int]
    ceiling: Compiled
    _tops: dict[str, int] = field(default_factory=dict)
    _current: Any = None

    @property
    def current(self) -> Any:
        """Enumerator over the values needed so far."""
        if self._current is None:
            self._tops = {name: start + _FIRST for name, start in self.starts.items()} | self._tops
            self._current = self.build({n: np.arange(self.starts[n], top + 1) for n, top in self._tops.items()})
        return self._current

    @property
    def targets(self) -> Any:
        """Targets of the current `Enumerator`."""
        return self.current.targets

    def __call__(self, observed: Mapping[str, ArrayLike]) -> xr.Dataset:
        """Dataset of an `Enumerator` and `cut_mass` ([release]), an upper bound on posterior and prior mass cut."""
        while True:
            run = self.current
            batches, place = run.batches(observed)
            beyond, surplus = self._mass_beyond(run, batches)
            masses = {name: log_mass + surplus.max() for name, log_mass in beyond.items()}
            if logsumexp(list(masses.values())) <= np.log(LARGEST_CUT):
                posterior: xr.Dataset = run(observed)
                cut = np.exp(logsumexp(list(beyond.values())) + surplus)
                dims = posterior["log_evidence"].dims
                return posterior.assign(cut_mass=(dims, cut[0 if place is None else place], {"direction": "upper"}))
            longer = [name for name, mass in masses.items() if not mass <= np.log(LARGEST_CUT / (2 * len(masses)))]
            self._tops |= {name: self.starts[name] + 2 * (self._tops[name] - self.starts[name]) for name in longer}
            self._current = None

    def _mass_beyond(self, run: Any, batches: list[NDArray[Any]]) -> tuple[dict[str, float], Floats]:
        """Log prior mass beyond the values of each latent, and the log factor (release,) by which it can grow."""
        parts: dict[str, list[float]] = {tail.name: [] for tail in self.tails}
        every, size = [], max((b.shape[1] for b in batches), default=1)
        tops = np.full((2, size), -np.inf)
        for start, stop in run.grid.blocks:
            states = run.grid.states(start, stop)
            others, *known, cut = self._at(states, batches)
            by_name = {name: state[:, 0] for name, state in zip(run.grid.axes, states, strict=True)}
            weight, beyond = others, {}
            for tail, log_p in zip(self.tails, cut, strict=True):
                within, beyond[tail.name] = tail.masses(by_name, run.grid.axes[tail.name][0])
                # A state represents its parents' values, even if little of the latent's mass is within the values.
                own = np.where(np.isfinite(within), log_p - within, -np.log(run.grid.axes[tail.name][0].size))
                weight = weight + own.sum(axis=1)
            every.append(logsumexp(weight))
            for name, mass in beyond.items():
                parts[name].append(logsumexp(weight + mass))
            tops = np.maximum(tops, [np.broadcast_to(one, (stop - start, size)).max(axis=0) for one in known])
        inside = logsumexp(every)
        surplus = tops - [run.log_evidence(batches), np.broadcast_to(run.log_before(batches), (size,))]
        return {n: float(logsumexp(p) - inside) for n, p in parts.items()}, surplus.max(axis=0)

    def _at(self, states: list[NDArray[Any]], batches: list[NDArray[Any]]) -> tuple[Floats, Floats, Floats, Any]:
        """Terms of `ceiling` at some states: (state,), (state, release) twice, and (state, cell) of each latent."""
        others, likelihood, before, *own = self.ceiling(*states, *batches)
        size = len(states[0])
        rows = [np.broadcast_to(one, (size, *one.shape[1:])).reshape(size, -1) for one in own]
        return np.broadcast_to(others, (size, 1))[:, 0], likelihood, before, rows


def growing(
    given: Conditioned,
    open_ended: Mapping[str, tuple[tuple[int, ...], int]],
    build: Callable[[Mapping[str, ArrayLike]], Any],
    settled: Sequence[str],
) -> GrowingEnumerator:
    """Compile tails and ceiling of a model's unbounded latents; `settled` are releases that the prior includes."""
    model, cut = given.model, {given.latents[name] for name in open_ended}
    highest: list[TensorVariable] = []
    before: list[TensorVariable] = []
    for variable in (*model.observed_RVs, *model.potentials):
        terms = model.logp(vars=[variable], sum=False)
        first = variable.name in settled or not any(given.uses_release(term) for term in terms)
        if not cut.isdisjoint(ancestors(terms)):
            certain = variable in model.observed_RVs and variable.dtype in discrete_types
            terms = [] if certain else [_highest(given, variable, cut)]
        highest += terms
        before += terms if first else []
    own = dict(zip([str(rv.name) for rv in model.free_RVs], given.own_terms(), strict=True))
    others = [term for name, term in own.items() if name not in open_ended]
    sums = [sum_terms(others), sum_terms(highest), sum_terms(before)]
    ceiling = compile_batched(given, [*sums, *(own[name] for name in open_ended)])
    tails = tuple(Tail.of(model[name], shape, given.moving) for name, (shape, _) in open_ended.items())
    return GrowingEnumerator(build, tails, {name: low for name, (_, low) in open_ended.items()}, ceiling)


def _highest(given: Conditioned, variable: TensorVariable, cut: Collection[Any]) -> TensorVariable:
    """Log density of location noise at its centre; ValueError for other distributions of an unbounded latent."""
    if variable.owner is not None and isinstance(variable.owner.op, _SHIFTED):
        centre, *scales = variable.owner.op.dist_params(variable.owner)
        graphs = given.model.replace_rvs_by_values([pm.logp(variable, centre, warn_rvs=False), *scales])
        if set(cut).isdisjoint(ancestors(graphs[1:])):
            return pt.broadcast_to(graphs[0], variable.shape)
    raise ValueError(
        f"{variable.name!r} depends on a latent without a finite support, and how likely it can be is not known: give "
        "that latent's values in support, or bound it with pm.Truncated"
    )


@dataclass(frozen=True)
class Tail:
    """Tail of an unbounded latent beyond the listed values.

    Parameters
    ----------
    name, parents : the latent, and the variables that its distribution depends on
    log_p : compiled log probability (state, value, *shape), a function of the parents' values (state, 1, *shape) and of
        values (1, value, *shape)
    shape : shape of the latent
    """

    name: str
    parents: tuple[str, ...]
    log_p: Compiled
    shape: tuple[int, ...]

    @classmethod
    def of(cls, rv: TensorVariable, shape: tuple[int, ...], moving: Collection[Any]) -> Tail:
        """Compile for a latent."""
        name = rv.name
        rv, parents = given_parents(rv, moving)
        value, leading = rv.type(), dict.fromkeys(parents.values(), (None, 1))
        log_p = compile_batches([pm.logp(rv, value, warn_rvs=False)], {**leading, value: (1, None)})
        return cls(name, tuple(v.name for v in parents), log_p, shape)

    def masses(self, states: Mapping[str, NDArray[Any]], values: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Log probability of the values given, (state, cell), and of any cell being beyond them, (state,).

        The values up to about four times the last are summed; the rest is bounded by a geometric series with the last
        ratio, times two, or by one if the ratio is not clearly below one. The result is at least the mass that the
        values given lack.
        """
        rows = [states[name] for name in self.parents]
        flat = [row.reshape(len(row), -1) for row in rows]
        first, place = np.zeros(1, dtype=np.int64), np.zeros(len(next(iter(states.values()))), dtype=np.int64)
        if flat:
            first, place = distinct_rows(flat)
        own = [row[first] for row in rows]
        top = int(values[-1])
        within = logsumexp(self.table(own, values, first.size), axis=1)
        log_p = self.table(own, np.arange(top + 1, 4 * top + 64), first.size)
        last, before = log_p[:, -1], log_p[:, -2]
        with np.errstate(invalid="ignore", divide="ignore"):
            fall = np.where(np.isneginf(last), -np.inf, last - before)
            rest = np.where(fall < -1e-3, last + fall - np.log(-np.expm1(fall)) + np.log(2.0), 0.0)
            rest = np.where(np.isneginf(last), -np.inf, rest)
            lack = -np.expm1(within)
            rest = np.maximum(rest, np.where(lack > _ROUNDING, np.log(lack), -np.inf))
            total = logsumexp(np.concatenate([log_p, rest[:, None]], axis=1), axis=(1, 2))
        return within[place], np.minimum(total, 0.0)[place]

    def table(self, parents: list[NDArray[Any]], values: NDArray[np.int64], size: int) -> Floats:
        """Log probabilities (state, value, cell), for `size` states of the parents, (state, *shape) each."""
        shaped = values.reshape(1, -1, *[1] * len(self.shape))
        shaped = np.broadcast_to(shaped, (1, values.size, *self.shape)).astype(np.int64)
        (log_p,) = self.log_p(*(row[:, None] for row in parents), shaped)
        return np.broadcast_to(log_p, (size, values.size, *self.shape)).reshape(size, values.size, -1)
