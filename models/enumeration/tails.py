r"""Latents without a largest value, cut where what lies beyond cannot matter.

.. math:: P(N > K \mid y) \le \frac{U(y) \, E[P(N > K \mid \text{parents})]}{p(y)}, \qquad
          U(y) = \sup \, p(y \mid \text{latents})

U is one for a whole-numbered release, and the density at its centre for noise that is shifted. K grows until the bound
is below `LARGEST_CUT` for every release; the bound is part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
from .supports import given_parents

Floats = NDArray[np.float64]

LARGEST_CUT = 1e-12
"""Posterior probability that may lie beyond the values of a latent that has no largest one."""
_FIRST = 32
_SHIFTED = (NormalRV, LaplaceRV, LogisticRV, CauchyRV)  # densities that are highest at their first parameter


@dataclass
class GrowingEnumerator:
    """An `Enumerator` whose unbounded latents reach as far as the releases it is asked about need.

    Parameters
    ----------
    build : from values by name of the unbounded latents, the enumerator over them
    tails : what lies beyond the values of each
    starts : smallest value of each
    ceiling : compiled; log prior of the latents, and log likelihood at most, where an unbounded latent enters it
    """

    build: Callable[[Mapping[str, ArrayLike]], Any]
    tails: tuple[Tail, ...]
    starts: Mapping[str, int]
    ceiling: Compiled
    _tops: dict[str, int] = field(default_factory=dict)
    _current: Any = None

    @property
    def current(self) -> Any:
        """Over the values needed so far."""
        if self._current is None:
            self._tops = {name: start + _FIRST for name, start in self.starts.items()} | self._tops
            self._current = self.build({n: np.arange(self.starts[n], top + 1) for n, top in self._tops.items()})
        return self._current

    @property
    def targets(self) -> Any:
        """As of an `Enumerator`."""
        return self.current.targets

    def __call__(self, observed: Mapping[str, ArrayLike]) -> xr.Dataset:
        """As an `Enumerator`, with `cut_mass` ([release]): at most so much of the posterior lies beyond."""
        while True:
            run = self.current
            batches, place = run.batches(observed)
            beyond, ceiling = self._mass_beyond(run, batches)
            surplus = ceiling - run.log_evidence(batches)
            masses = {name: log_mass + surplus.max() for name, log_mass in beyond.items()}
            if logsumexp(list(masses.values())) <= np.log(LARGEST_CUT):
                found: xr.Dataset = run(observed).drop_vars("edge_mass")
                cut = np.exp(logsumexp(list(beyond.values())) + surplus)
                dims = found["log_evidence"].dims
                return found.assign(cut_mass=(dims, cut[0 if place is None else place], {"direction": "upper"}))
            longer = [name for name, mass in masses.items() if not mass <= np.log(LARGEST_CUT / (2 * len(masses)))]
            self._tops |= {name: self.starts[name] + 2 * (self._tops[name] - self.starts[name]) for name in longer}
            self._current = None

    def _mass_beyond(self, run: Any, batches: list[NDArray[Any]]) -> tuple[dict[str, float], Floats]:
        """Log prior mass beyond the values of each latent, and the log of the largest likelihood of each release."""
        parts: dict[str, list[float]] = {tail.name: [] for tail in self.tails}
        every, top = [], np.full(max((b.shape[1] for b in batches), default=1), -np.inf)
        for start, stop in run.grid.blocks:
            states = run.grid.states(start, stop)
            own, known = self.ceiling(*states, *batches)
            log_own = np.broadcast_to(own, (stop - start, 1))[:, 0]
            every.append(logsumexp(log_own))
            by_name = {name: state[:, 0] for name, state in zip(run.grid.axes, states, strict=True)}
            for tail in self.tails:
                parts[tail.name].append(logsumexp(log_own + tail.beyond(by_name, self._tops[tail.name])))
            top = np.maximum(top, np.broadcast_to(known, (stop - start, top.size)).max(axis=0))
        inside = logsumexp(every)
        return {n: float(logsumexp(p) - inside) for n, p in parts.items()}, top


def growing(
    given: Conditioned,
    open_ended: Mapping[str, tuple[tuple[int, ...], int]],
    build: Callable[[Mapping[str, ArrayLike]], Any],
) -> GrowingEnumerator:
    """Compile what lies beyond the unbounded latents of a model."""
    model, cut = given.model, {given.latents[name] for name in open_ended}
    highest: list[TensorVariable] = []
    for variable in (*model.observed_RVs, *model.potentials):
        terms = model.logp(vars=[variable], sum=False)
        if cut.isdisjoint(ancestors(terms)):
            highest += terms
        elif variable not in model.observed_RVs or variable.dtype not in discrete_types:
            highest.append(_highest(given, variable, cut))
    ceiling = compile_batched(given, [sum_terms(given.own_terms()), sum_terms(highest)])
    tails = tuple(Tail.of(model[name], shape, given.moving) for name, (shape, _) in open_ended.items())
    return GrowingEnumerator(build, tails, {name: low for name, (_, low) in open_ended.items()}, ceiling)


def _highest(given: Conditioned, variable: TensorVariable, cut: Collection[Any]) -> TensorVariable:
    """The log density of a shifted noise at its centre; ValueError for another law that reads an unbounded latent."""
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
    """What lies beyond the largest value of a latent that has none.

    Parameters
    ----------
    name, parents : the latent, and the variables that its law depends on
    log_p : compiled; of the parents' values (state, 1, *shape) and of values (1, value, *shape): (state, value, *shape)
    shape : of the latent
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

    def beyond(self, states: Mapping[str, NDArray[Any]], top: int) -> Floats:
        """Log of the probability that some cell is larger than `top`, at most: (state,).

        The next values are added up; where their probabilities fall by a fixed factor at the end, so does the rest.
        """
        rows = [states[name] for name in self.parents]
        flat = [row.reshape(len(row), -1) for row in rows]
        size = len(next(iter(states.values())))
        first, place = np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
        if flat:
            first, place = distinct_rows(flat)
        values = np.arange(top + 1, 4 * top + 64).reshape(1, -1, *[1] * len(self.shape))
        values = np.broadcast_to(values, (1, values.shape[1], *self.shape)).astype(np.int64)
        (found,) = self.log_p(*(row[first][:, None] for row in rows), values)
        log_p = np.broadcast_to(found, (first.size, values.shape[1], *self.shape)).reshape(
            first.size, values.shape[1], -1
        )
        last, before = log_p[:, -1], log_p[:, -2]
        with np.errstate(invalid="ignore", divide="ignore"):
            fall = np.where(np.isneginf(last), -np.inf, last - before)
            rest = np.where(fall < -1e-3, last + fall - np.log(-np.expm1(fall)) + np.log(2.0), 0.0)
            rest = np.where(np.isneginf(last), -np.inf, rest)
            total = logsumexp(np.concatenate([log_p, rest[:, None]], axis=1), axis=(1, 2))
        return np.asarray(np.minimum(total, 0.0)[place])
