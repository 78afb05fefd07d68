"""Marginals of targets: their values, and log densities summed over the states in which they take each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array
from scipy.special import logsumexp

from .batched_graphs import compile_batches
from .components import Components
from .graphs import Conditioned
from .state_grid import Grid, Slot
from .totals import PlacedTotal

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MarginalPiece:
    """Cells of a target that depend on one component only; `index` (state, cell) is the number of the value taken."""

    component: int
    cells: tuple[int, ...]
    index: NDArray[Any]

    def membership(self, start: int, stop: int, values: int) -> csr_array:
        """0-1 matrix (cells x values, states) that sums states into marginal probabilities."""
        cells = len(self.cells)
        rows = (self.index[start:stop].astype(np.int64) + values * np.arange(cells)).ravel()
        columns = np.repeat(np.arange(len(rows) // cells), cells)
        return csr_array((np.ones(rows.size), (rows, columns)), shape=(cells * values, len(rows) // cells))


@dataclass(frozen=True)
class Marginal:
    """Values of a target and the states in which it takes each; `dims` are (name, size) pairs."""

    name: str
    dims: tuple[tuple[str, int], ...]
    values: NDArray[Any]
    pieces: tuple[MarginalPiece, ...]
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def over(cls, components: Components, name: str, graph: TensorVariable, conditioned: Conditioned) -> Marginal:
        """Evaluate the target in every state, by blocks; values are stored as indices of the smallest integer type."""
        latents = list(components.reads or conditioned.latents.values())
        places = {**dict.fromkeys(latents, (None, 1)), **dict.fromkeys(conditioned.released.values(), (1, None))}
        evaluate = compile_batches([graph], places)
        unused = [Slot(n, v.dtype, v.type.shape).unused for n, v in conditioned.released.items()]

        def table(start: int, stop: int) -> NDArray[Any]:
            (values,) = evaluate(*components.states(start, stop), *unused)
            return np.broadcast_to(values, (stop - start, 1, *values.shape[2:]))[:, 0]

        values = np.unique(np.concatenate([np.unique(table(*block)) for block in components.blocks]))
        shape = table(0, 1).shape[1:]
        (owner,) = components.owners([graph])
        owners = np.broadcast_to(owner, shape).ravel()
        kind = np.min_scalar_type(values.size - 1)
        parts = {int(c): np.flatnonzero(owners == c) for c in np.unique(owners)}
        index = {c: np.empty((components.sizes[c], own.size), dtype=kind) for c, own in parts.items()}
        for start, stop in components.blocks:
            at = np.searchsorted(values, table(start, stop).reshape(stop - start, -1)).astype(kind)
            for c, own in parts.items():
                size = max(0, min(stop, components.sizes[c]) - start)
                index[c][start : start + size] = at[:size, own]
        labels = conditioned.model.named_vars_to_dims.get(name) or [f"{name}_dim_{k}" for k in range(len(shape))]
        values = values if values.dtype.kind == "f" else values.astype(np.int64)
        coords = {dim: conditioned.model.coords.get(dim) for dim in labels}
        known = {dim: list(along) for dim, along in coords.items() if along is not None}
        pieces = tuple(MarginalPiece(c, tuple(own.tolist()), index[c]) for c, own in parts.items())
        return cls(name, tuple(zip(labels, shape, strict=True)), values, pieces, known)

    def pmf(self, log_mass: Floats) -> xr.DataArray:
        """Pmf of each element (cell) of the target, (release, *dims, value), from log masses.

        Rows of `log_mass` (cells x values, releases) have the values fastest. It is normalised over each cell's values.
        """
        shaped = log_mass.T.reshape(-1, *(size for _, size in self.dims), len(self.values))
        law = np.exp(shaped - logsumexp(shaped, axis=-1, keepdims=True))
        dims = ("release", *(dim for dim, _ in self.dims), self.name)
        return xr.DataArray(law, dims=dims, coords={**self.coords, self.name: self.values})

    def one(self, pmf: xr.DataArray) -> xr.DataArray | None:
        """P(target = 1); None for a target with values other than 0 and 1."""
        if not np.isin(self.values, (0, 1)).all():
            return None
        return pmf.where(pmf[self.name] == 1, 0.0).sum(self.name)


def log_masses(
    components: Components,
    log_density: Callable[..., Any],
    batches: list[NDArray[Any]],
    marginals: Sequence[Marginal],
    sums: Sequence[PlacedTotal] = (),
) -> tuple[Floats, list[Floats]]:
    """Log of a density summed over states.

    Parameters
    ----------
    components : components of the latents
    log_density : compiled function of states and releases, to (state, release, component) in nats
    batches : releases, (1, release, *shape) each
    marginals : targets
    sums : sums of latents that replace these latents in the components

    Returns
    -------
    (totals, masses) : log sums over all states, (release,); and for each target, log sums over the states in which a
        cell takes a value, (cells x values, release).

    Raises
    ------
    ValueError : the density is infinite, or no number, at some state
    """
    releases, sizes = max((b.shape[1] for b in batches), default=1), components.sizes
    width = components.grid.releases_at_once(max(sizes) * len(sizes))
    pieces = [(m, piece) for m in marginals for piece in m.pieces]
    parts = [(m, piece, np.full((len(piece.cells) * len(m.values), releases), -np.inf)) for m, piece in pieces]
    leaves = {leaf for one in sums for leaf in one.leaves}
    laws: list[Floats] = []
    totals = np.full((len(sizes), releases), -np.inf)
    totals[list(leaves)] = 0.0
    for start, stop in components.blocks:
        states = components.states(start, stop)
        members = [piece.membership(start, stop, len(m.values)) for m, piece, _ in parts]
        for first in range(0, releases, width):
            window = slice(first, min(first + width, releases))
            batch = [b[:, window] if b.shape[1] > 1 else b.repeat(window.stop - first, axis=1) for b in batches]
            log_p = np.broadcast_to(log_density(*states, *batch)[0], (stop - start, window.stop - first, len(sizes)))
            _refuse_undefined(components.grid, log_p, states)
            if start == 0 and first == 0:
                laws = [_law(one, log_p, sizes) for one in sums]
            for c, size in enumerate(sizes):
                if size <= start or c in leaves:
                    continue
                own = log_p[: size - start, :, c]
                for law in (law for one, law in zip(sums, laws, strict=True) if one.component == c):
                    own = own + law[start : min(stop, size), None]
                # The finite floor avoids inf - inf for releases that every state rules out.
                top = np.maximum(own.max(axis=0), np.finfo(np.float64).min)
                weights = np.exp(own - top)
                with np.errstate(divide="ignore"):
                    totals[c, window] = np.logaddexp(totals[c, window], np.log(weights.sum(axis=0)) + top)
                    for (_, piece, total), member in zip(parts, members, strict=True):
                        if piece.component == c:
                            total[:, window] = np.logaddexp(total[:, window], np.log(member @ weights) + top)
    return totals.sum(axis=0), [_whole(m, [t for o, _, t in parts if o is m]) for m in marginals]


def _law(one: PlacedTotal, log_p: Floats, sizes: Sequence[int]) -> Floats:
    """Log probability of a sum in every state of its component, from the log density (state, release, component)."""
    return np.asarray(one.total.law([log_p[: sizes[leaf], 0, leaf][None] for leaf in one.leaves])[0, one.numbers])


def _whole(marginal: Marginal, totals: list[Floats]) -> Floats:
    """Log masses of all cells of a target, joined from those of its pieces."""
    values = len(marginal.values)
    table = np.empty((sum(len(piece.cells) for piece in marginal.pieces), values, totals[0].shape[1]))
    for piece, total in zip(marginal.pieces, totals, strict=True):
        table[list(piece.cells)] = total.reshape(len(piece.cells), values, -1)
    return table.reshape(-1, table.shape[-1])


def _refuse_undefined(grid: Grid, log_p: Floats, states: list[NDArray[np.int64]]) -> None:
    bad = np.isnan(log_p) | (log_p == np.inf)
    if bad.any():
        state = int(np.argwhere(bad)[0, 0])
        values = {name: s[state, 0].tolist() for name, s in zip(grid.axes, states, strict=True)}
        raise ValueError(f"the model's log density is {log_p[bad][0]} at {values}")
