r"""Probability that a user's `support` of a latent omits: at its ends, beyond them, and in its gaps.

.. math:: 1 - (1 - e) \, \frac{p_S(y)}{p_W(y)}

S is the support given and W a wider set with nearly all of the mass. e is the posterior probability, within S, of an
end beyond which the distribution has more mass; p is the evidence of a release, summed over S or W. The same is
computed for the prior, and the larger counts: a support that is too short for the prior describes another adversary.
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

# The probabilities of a distribution may fall short of one by as much through rounding.
_ROUNDING = 1e-9
# At most _WIDER n + _MORE states are evaluated outside a support of n joint states.
_WIDER, _MORE = 10, 10_000
# Largest number of values whose probabilities are summed.
_LARGEST_SUM = 20_000
# Numbers evaluated in one call.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Ends:
    """Ends of the support given for a latent, and the mass of its distribution beyond them.

    Parameters
    ----------
    name, values : the latent, and the values (value,) given for each of its cells
    parents : variables that its distribution depends on
    beyond : compiled function of the parents, (point, *shape) each, to two flags per cell: mass below the first value,
        and mass above the last; None for a distribution without a cdf
    mass : compiled function of the parents to the probability of the values, per cell, or jointly for all cells of a
        multivariate distribution
    """

    name: str
    values: Values
    parents: tuple[str, ...]
    beyond: Compiled | None
    mass: Compiled

    @classmethod
    def of(cls, rv: TensorVariable, given: ArrayLike, moving: Collection[Variable]) -> Ends:
        """Compile for a latent and the support given for it."""
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
        """Flags (point,): some cell is at an end with mass beyond it, at points (point, *shape) of every latent."""
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
        """Probability (point,) that some cell is outside the values, at points (point, *shape) of its parents.

        NaN if it cannot be computed: a pmf that sums to more than one, or too many values.
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
    """A latent with its random ancestors replaced by free inputs, and a dictionary of these inputs by ancestor.

    Replaced are the variables in `moving` that it depends on, directly or through others.
    """
    met = truncated_graph_inputs(rv.owner.inputs, ancestors_to_include=set(moving))
    parents = {v: v.type() for v in met if v in set(moving)}
    # pm.logp and pm.logcdf copy random parents, so these could not be replaced afterwards.
    if parents:
        (rv,) = graph_replace([rv], parents)
    return rv, parents


def _mass(rv: TensorVariable, values: Values, shape: tuple[int, ...], parents: Sequence[Any]) -> Compiled:
    """Compiled probability of the values: per cell, or jointly for a multivariate distribution."""
    joint = rv.owner.op.ndim_supp > 0
    if values.size ** (math.prod(shape) if joint else 1) > _LARGEST_SUM:
        return lambda *unused: [np.full((1, 1), np.nan)]
    cells = itertools.product(values, repeat=math.prod(shape)) if joint else ([v] * math.prod(shape) for v in values)
    states, value = np.array([*cells], dtype=np.int64).reshape(1, -1, *shape), rv.type()
    graph = pm.logp(rv, value, warn_rvs=False)
    log_p = compile_batches([graph], dict.fromkeys(parents, (None, 1)), {value: pt.constant(states)})
    return lambda *given: [np.exp(log_p(*(one[:, None] for one in given))[0]).sum(axis=1)]


def flag_ends(grid: Grid, ends: Sequence[Ends]) -> NDArray[np.int64]:
    """Flags (state, 1): 1 for states of a grid with some latent at an end of its support with mass beyond it.

    Distributions that depend on the release are left to `Outside`, which sums over states beyond the support.
    """
    flags = np.zeros((grid.size, 1), dtype=np.int64)
    ends = [one for one in ends if set(one.parents) <= set(grid.axes)]
    for start, stop in grid.blocks if ends else []:
        states = {name: s[:, 0] for name, s in zip(grid.axes, grid.states(start, stop), strict=True)}
        flags[start:stop, 0] = np.any([one.reached(states) for one in ends], axis=0)
    return flags


@dataclass(frozen=True)
class Outside:
    """States outside the support given for latents, and the prior probability beyond those.

    Parameters
    ----------
    pieces : disjoint grids of states with some latent outside its support
    lost : prior probability outside both the support and the pieces
    short : prior probability outside the support, at least `lost`
    """

    pieces: tuple[Grid, ...]
    lost: float
    short: float

    @classmethod
    def of(
        cls, grid: Grid, bounds: Mapping[str, tuple[Any, Any] | None], log_prior: Callable[[Grid], float]
    ) -> Outside:
        """Widen the pieces until they hold all of the prior mass, or until there are too many states.

        Parameters
        ----------
        grid : joint states within the support
        bounds : smallest and largest value of the distribution of each latent with a support, by name; None if unknown
        log_prior : function from a grid to the log prior probability of its states
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
            # A table in the model can end here: it has no rows for states further out.
            except (IndexError, ValueError):
                break
            pieces, reach = wider, 2 * reach
        lost, short = (float(np.clip(-np.expm1(log_p), 0.0, 1.0)) for log_p in (total, inside))
        return cls(pieces, lost if lost > _ROUNDING else 0.0, short)

    def share(self, log_density: Compiled, batches: list[NDArray[Any]], inside: Floats) -> Floats:
        """Share (release,) of a density's total that lies outside the support, given its log total `inside`."""
        try:
            with np.errstate(all="ignore"):
                parts = [log_totals(piece, log_density, batches) for piece in self.pieces]
        # A table indexed by the latent can end at its support, so states outside cannot be evaluated.
        except (IndexError, ValueError):
            return np.full(inside.shape, self.short)
        beyond = np.logaddexp.reduce(parts, axis=0) if parts else np.full(1, -np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(inside - beyond))) if parts else np.zeros(inside.shape)


def _window(values: Values, bounds: tuple[Any, Any] | None, reach: int) -> Values:
    """The support and all values near it that the distribution can take."""
    more = reach * (int(values[-1] - values[0]) + 32)
    low, high = (-np.inf, np.inf) if bounds is None else (np.min(bounds[0]), np.max(bounds[1]))
    ends = int(max(values[0] - more, low)), int(min(values[-1] + more, high))
    return np.union1d(values, np.arange(ends[0], ends[1] + 1))


def _pieces(grid: Grid, windows: Mapping[str, Values]) -> tuple[Grid, ...]:
    """Disjoint grids of all states in the windows but not in the grid, split by the first cell that is outside."""
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
    """Probability at or beyond the ends of a support, estimated from draws of all latents within it.

    Parameters
    ----------
    model : pymc.Model
    support : values (n,) by name of a latent
    prior : prior draws (draw, *shape) of every latent
    posterior : posterior draws (draw, release, *shape), optional

    Returns
    -------
    (share, unknown) : the probability, (release,) or a scalar without a posterior, NaN if it cannot be computed for
        some latent; and the names of such latents, comma separated.
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
    """Draws as points (point, *shape) with the model's dtypes; missing whole numbers (NaN) become 0."""
    flat = {name: v.reshape(-1, *v.shape[axes:]) for name, v in draws.items()}
    whole = {name for name in flat if model[name].dtype in discrete_types}
    return {name: np.nan_to_num(v).astype(np.int64) if name in whole else v for name, v in flat.items()}
