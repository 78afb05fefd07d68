r"""Probability that the values given for a latent leave out: at their ends, beyond them, and between them.

.. math:: 1 - (1 - e) \, \frac{p_S(y)}{p_W(y)}

e is the posterior probability, within the values S, of an end beyond which the law goes on; p is the evidence of a
release, summed over S and over a wider set W that holds the law. The same of the prior, whichever is larger: a support
that is too short answers for another adversary.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import truncated_graph_inputs
from pytensor.tensor.variable import TensorVariable

from .batched_graphs import NUMPY_MODE, Compiled, compile_batches
from .state_grid import Grid, distinct_rows, log_totals

Floats = NDArray[np.float64]
Values = NDArray[np.int64]

_ROUNDING = 1e-9  # mass by which a law may fall short of one by rounding
_WIDER, _MORE = 10, 10_000  # so many times as many states, and so many more, are looked at beyond a support
_LARGEST_SUM = 20_000  # values whose probabilities are added up
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Ends:
    """Ends of the values given for a latent whose law goes on beyond them.

    Parameters
    ----------
    name, values : the latent, and the values given for each of its cells
    parents : variables that its law depends on
    beyond : from these, (point, *shape) each, to whether the law has mass below the first value and above the last;
        None for a law without a distribution function
    mass : from the same to the probability of the values: of each cell, or of all cells together in a joint law
    """

    name: str
    values: Values
    parents: tuple[str, ...]
    beyond: Compiled | None
    mass: Compiled

    @classmethod
    def of(cls, rv: TensorVariable, given: ArrayLike, moving: Collection[Variable]) -> Ends:
        """Compile for a latent and the values given for it."""
        name, values = rv.name, np.unique(np.asarray(given)).astype(np.int64)
        shape = tuple(int(n) for n in rv.shape.eval(mode=NUMPY_MODE)) if rv.ndim else ()
        rv, parents = given_parents(rv, moving)
        names, each = tuple(v.name for v in parents), dict.fromkeys(parents.values(), (None,))
        mass = _mass(rv, values, shape, [*parents.values()])

        def all_at(value: int) -> TensorVariable:
            return pt.constant(np.full(shape, value))

        try:
            lower = pm.logcdf(rv, all_at(values[0] - 1), warn_rvs=False)
            upper = pm.logcdf(rv, all_at(values[-1]), warn_rvs=False)
        except NotImplementedError:
            return cls(name, values, names, None, mass)
        after = pm.logp(rv, all_at(values[-1] + 1), warn_rvs=False)
        nothing = np.float64(-np.inf)
        graphs = [pt.gt(lower, nothing), pt.or_(pt.lt(upper, -_ROUNDING), pt.gt(after, nothing))]
        return cls(name, values, names, compile_batches(graphs, each), mass)

    def reached(self, draws: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """True where some cell is at an end with mass beyond it, at points (point, *shape) of every latent."""
        own = draws[self.name].reshape(len(draws[self.name]), -1)
        if self.beyond is None:
            missing = ~(self.outside(draws) <= _ROUNDING)[:, None]
            below = above = np.broadcast_to(missing, own.shape)
        else:
            shape = draws[self.name].shape
            parts = self.beyond(*(draws[name] for name in self.parents))
            below, above = (np.broadcast_to(part, shape).reshape(own.shape) for part in parts)
        return np.asarray(((own == self.values[0]) & below | (own == self.values[-1]) & above).any(axis=1))

    def outside(self, draws: Mapping[str, NDArray[Any]]) -> Floats:
        """Probability that some cell is none of the values, at points (point, *shape) of what its law depends on.

        NaN where it cannot be told: of a law that sums to more than one, or of too many values.
        """
        rows = [draws[name].reshape(len(draws[name]), -1) for name in self.parents]
        points = len(next(iter(draws.values())))
        first, place = np.zeros(1, dtype=np.int64), np.zeros(points, dtype=np.int64)
        if rows:
            first, place = distinct_rows(rows)
        width, parts = max(1, _AT_ONCE // (self.values.size * max(1, draws[self.name][0].size))), []
        for start in range(0, first.size, width):
            some = first[start : start + width]
            (mass,) = self.mass(*(draws[name][some] for name in self.parents))
            parts.append(np.broadcast_to(mass, (some.size, *mass.shape[1:])).reshape(some.size, -1))
        mass = np.concatenate(parts)
        mass = np.where(mass > 1.0 + _ROUNDING, np.nan, np.minimum(mass, 1.0))
        return np.asarray((1.0 - mass.prod(axis=1))[place])


def given_parents(rv: TensorVariable, moving: Collection[Variable]) -> tuple[TensorVariable, dict[Any, Any]]:
    """A latent whose law reads free inputs in place of random variables, and these inputs by what they stand for."""
    met = truncated_graph_inputs(rv.owner.inputs, ancestors_to_include=set(moving))
    parents = {v: v.type() for v in met if v in set(moving)}
    if parents:  # the functions of a law copy what is random in it
        (rv,) = graph_replace([rv], parents)
    return rv, parents


def _mass(rv: TensorVariable, values: Values, shape: tuple[int, ...], parents: Sequence[Any]) -> Compiled:
    """The probability of the values: of each cell, or of all cells together where these have one law."""
    joint = rv.owner.op.ndim_supp > 0
    if values.size ** (math.prod(shape) if joint else 1) > _LARGEST_SUM:
        return lambda *unused: [np.full((1, 1), np.nan)]
    cells = itertools.product(values, repeat=math.prod(shape)) if joint else ([v] * math.prod(shape) for v in values)
    states, value = np.array([*cells], dtype=np.int64).reshape(1, -1, *shape), rv.type()
    graph = pm.logp(rv, value, warn_rvs=False)
    log_p = compile_batches([graph], dict.fromkeys(parents, (None, 1)), {value: pt.constant(states)})
    return lambda *given: [np.exp(log_p(*(one[:, None] for one in given))[0]).sum(axis=1)]


def flag_ends(grid: Grid, ends: Sequence[Ends]) -> NDArray[np.int64]:
    """1 for states of a grid where some latent is at an end with mass beyond it, shape (state, 1).

    A law that reads the release is not looked at here: the states of `Outside` say what it has beyond its values.
    """
    flags = np.zeros((grid.size, 1), dtype=np.int64)
    ends = [one for one in ends if set(one.parents) <= set(grid.axes)]
    for start, stop in grid.blocks if ends else []:
        states = {name: s[:, 0] for name, s in zip(grid.axes, grid.states(start, stop), strict=True)}
        flags[start:stop, 0] = np.any([one.reached(states) for one in ends], axis=0)
    return flags


@dataclass(frozen=True)
class Outside:
    """States outside the values given for latents, and what these do not hold either.

    Parameters
    ----------
    pieces : disjoint grids of states with a latent outside its values
    lost : prior probability of neither these states nor those of the values
    short : prior probability of no state of the values; more than `lost` where the pieces hold some of it
    """

    pieces: tuple[Grid, ...]
    lost: float
    short: float

    @classmethod
    def of(
        cls, grid: Grid, bounds: Mapping[str, tuple[Any, Any] | None], log_prior: Callable[[Grid], float]
    ) -> Outside:
        """Look further until the laws are whole, or until there are too many states.

        Parameters
        ----------
        grid : states of the values
        bounds : by name of the latents with given values, the smallest and largest one of their laws where known
        log_prior : log prior probability of the states of a grid
        """
        inside = log_prior(grid)
        pieces: tuple[Grid, ...] = ()
        total, reach = inside, 1
        while total < np.log1p(-_ROUNDING) or not pieces:
            windows = {name: _window(grid.axes[name][0], ends, reach) for name, ends in bounds.items()}
            wider = _pieces(grid, windows)
            if not wider or sum(one.size for one in wider) > _WIDER * grid.size + _MORE:
                break
            if sum(one.size for one in wider) == sum(one.size for one in pieces):
                break
            try:
                total = float(np.logaddexp.reduce([inside, *map(log_prior, wider)]))
            except (IndexError, ValueError):  # a table that has no more values
                break
            pieces, reach = wider, 2 * reach
        lost, short = (float(np.clip(-np.expm1(log_p), 0.0, 1.0)) for log_p in (total, inside))
        return cls(pieces, lost if lost > _ROUNDING else 0.0, short)

    def share(self, log_density: Compiled, batches: list[NDArray[Any]], inside: Floats) -> Floats:
        """Share of a density that is outside the values, given its log inside: (release,)."""
        try:
            with np.errstate(all="ignore"):
                parts = [log_totals(piece, log_density, batches) for piece in self.pieces]
        except (IndexError, ValueError):  # a table of the release that has no more values
            return np.full(inside.shape, self.short)
        beyond = np.logaddexp.reduce(parts, axis=0) if parts else np.full(1, -np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(inside - beyond))) if parts else np.zeros(inside.shape)


def _window(values: Values, bounds: tuple[Any, Any] | None, reach: int) -> Values:
    """The values, and all near them that a law can take."""
    more = reach * (int(values[-1] - values[0]) + 32)
    low, high = (-np.inf, np.inf) if bounds is None else (np.min(bounds[0]), np.max(bounds[1]))
    ends = int(max(values[0] - more, low)), int(min(values[-1] + more, high))
    return np.union1d(values, np.arange(ends[0], ends[1] + 1))


def _pieces(grid: Grid, windows: Mapping[str, Values]) -> tuple[Grid, ...]:
    """Grids of all states in the windows and not in the grid: the first cell outside it, those before inside."""
    cells = [(name, i) for name in windows for i in range(len(grid.axes[name]))]
    grids = []
    for k, (name, _) in enumerate(cells):
        axes = {other: list(own) for other, own in grid.axes.items()}
        for other, i in cells[k + 1 :]:
            axes[other][i] = windows[other]
        name, place = cells[k]
        axes[name][place] = np.setdiff1d(windows[name], grid.axes[name][place])
        if axes[name][place].size:
            grids.append(Grid(axes, grid.shapes))
    return tuple(grids)


def edge_of_draws(
    model: pm.Model,
    support: Mapping[str, ArrayLike],
    prior: Mapping[str, NDArray[Any]],
    posterior: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[Floats, str]:
    """Probability at the edge from draws of all latents within the values: at their ends, or where laws go on beyond.

    Parameters
    ----------
    model : pymc.Model
    support : values by name of a latent
    prior : draws (draw, *shape) of every latent
    posterior : draws (draw, release, *shape), where there are any

    Returns
    -------
    (share, unknown) : (release,), or one number without a posterior, NaN if a latent's cannot be told; and the names of
        these.
    """
    every = [Ends.of(model[name], values, {*model.basic_RVs}) for name, values in support.items()]
    unknown = [one.name for one in every if not set(one.parents) <= set(prior)]
    ends, before = [one for one in every if one.name not in unknown], _points(model, prior, 1)
    held = np.prod([1.0 - one.outside(before) for one in ends], axis=0).mean() if ends else np.nan
    unknown += [one.name for one in ends if np.isnan(one.outside(before)).any()]
    share = np.full((), 1.0 - held)
    if posterior is not None:
        sizes, after = next(iter(posterior.values())).shape[:2], _points(model, posterior, 2)
        inside = np.prod([1.0 - np.nan_to_num(one.outside(after)) for one in ends], axis=0).reshape(sizes)
        at_end = np.any([one.reached(after) for one in ends], axis=0).reshape(sizes).mean(axis=0)
        with np.errstate(divide="ignore"):
            share = np.maximum(share, 1.0 - (1.0 - at_end) / (1.0 / inside).mean(axis=0))
    return np.where(len(unknown) > 0, np.nan, share), ", ".join(unknown)


def _points(model: pm.Model, draws: Mapping[str, NDArray[Any]], axes: int) -> dict[str, NDArray[Any]]:
    """Draws as points (point, *shape) of the model's kinds; 0 in place of a whole number that was not drawn."""
    flat = {name: v.reshape(-1, *v.shape[axes:]) for name, v in draws.items()}
    whole = {name for name in flat if model[name].dtype in discrete_types}
    return {name: np.nan_to_num(v).astype(np.int64) if name in whole else v for name, v in flat.items()}
