"""Terms of a model's log density, compiled over many draws, states and releases at once.

Drawn latents have axes (draw, 1, 1, *shape), states of the summed latents are constants (1, row, 1, *shape), and
releases have axes (1, 1, release, *shape). Broadcasting evaluates each term only over the axes that it reads. In every
row each component of the summed latents is in one of its states; `States` has the (row, component) of all states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import (
    NUMPY_MODE,
    Compiled,
    Components,
    Conditioned,
    batch_inputs,
    compile_batches,
    distinct_rows,
    split_checks,
    vectorize,
)

Floats = NDArray[np.float64]

Graphs = list[TensorVariable]

# Largest number of groups into which the elements of a term are split: each group is compiled by itself.
_MOST_KINDS = 12

# Number of joint states of the latents of a term below which the term is not split.
_WORTH_PARTING = 400

# Cells that fit the processor's cache: with 20,000 rows of side data, six draws at once.
_CACHED = 2**17

# Number of elements above which a term is compiled separately.
_MANY_ROWS = 1000


@dataclass(frozen=True)
class States:
    """States of the components of the summed latents, listed component after component.

    Parameters
    ----------
    components : components of the latents
    sizes : number of states of each component that are evaluated
    values : values (row, *shape) of every latent: row k has state k of every component, or a repeated state of a
        component with fewer states
    """

    components: Components
    sizes: tuple[int, ...]
    values: list[NDArray[Any]]

    @classmethod
    def of(cls, components: Components, sizes: Sequence[int], step: Sequence[int]) -> States:
        """`sizes` states of each component, every `step`-th from the first; components with fewer repeat some."""
        rows, largest = np.arange(max(sizes)), components.members[int(np.argmax(sizes))]
        longest = components.grid.lengths[largest[-1]] if largest else 1
        # A component with fewer states repeats values, so that fewer distinct rows have to be evaluated.
        again = rows % longest
        places = [
            np.where(rows < n, rows, np.minimum(again, n - 1)) * apart for n, apart in zip(sizes, step, strict=True)
        ]
        return cls(components, tuple(sizes), components.at(places))

    def grouped(self, terms: Sequence[TensorVariable]) -> list[tuple[list[TensorVariable], tuple[Any, Any]]]:
        """Groups of terms that read the same axes, with the rows of distinct values of these axes (`distinct_rows`)."""
        groups: dict[tuple[int, ...], list[TensorVariable]] = {}
        for term, read in zip(terms, self.components.axes_read(terms), strict=True):
            groups.setdefault(tuple(np.flatnonzero(read.any(axis=0)).tolist()), []).append(term)
        return [(some, self._distinct(read)) for read, some in groups.items()]

    def _distinct(self, axes: Sequence[int] | NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Rows with distinct values of some axes, and for every row the number of its distinct row."""
        read = np.isin(np.arange(len(self.components.grid.lengths)), axes)
        flat = [
            value.reshape(len(value), -1)[:, (own & read).any(axis=-1).ravel()]
            for value, own in zip(self.values, self.components.reads.values(), strict=True)
        ]
        flat = [one for one in flat if one.shape[1]]
        return distinct_rows(flat) if flat else (np.zeros(1, dtype=np.int64), None)

    def by_element(self, terms: Sequence[TensorVariable]) -> tuple[Graphs, Graphs, Graphs]:
        """Split terms whose elements read few latents each, but many together.

        Returns (terms left whole, groups of elements that read the same latents, parameter checks of the split terms).
        """
        whole: Graphs = []
        parted: Graphs = []
        conditions: Graphs = []
        for term in terms:
            graphs, checks = split_checks([term])
            (graph,), (rows,) = graphs, self.components.axes_read(graphs)
            kinds, place = np.unique(rows, axis=0, return_inverse=True)
            together = len(self._distinct(np.flatnonzero(rows.any(axis=0)))[0])
            if not 1 < len(kinds) <= _MOST_KINDS or graph.type.shape.count(None) or together < _WORTH_PARTING:
                whole.append(term)
                continue
            apart = sum([len(self._distinct(np.flatnonzero(kind))[0]) for kind in kinds])
            if 4 * apart > together or rows.shape[0] != int(np.prod(graph.type.shape)):
                whole.append(term)
                continue
            flat = graph.flatten()
            parted += [flat[np.flatnonzero(place.ravel() == kind)] for kind in range(len(kinds))]
            conditions += checks
        return whole, parted, conditions

    @property
    def by_variable(self) -> dict[TensorVariable, NDArray[Any]]:
        """States (row, *shape) by value variable."""
        return dict(zip(self.components.reads, self.values, strict=True))

    @property
    def total(self) -> int:
        """Total number of states."""
        return sum(self.sizes)

    @property
    def slices(self) -> list[slice]:
        """Slice of every component's states in the list of all."""
        ends = np.cumsum(self.sizes)
        return [slice(int(end) - size, int(end)) for end, size in zip(ends, self.sizes, strict=True)]

    @property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and component of every state."""
        rows = np.concatenate([np.arange(size) for size in self.sizes])
        return rows, np.repeat(np.arange(len(self.sizes)), self.sizes)


@dataclass(frozen=True)
class Pure:
    """Terms with a drawn latent and no release, as a function of draws (draw, *shape) to log densities (draw, state).

    `compiled` has pairs (function, number of cells per draw). Side data with many rows are compiled separately, because
    each function is called for as many draws at once as fit the processor's cache. With `far`, an undefined density
    counts as zero: points far from the prior's draws may overflow.
    """

    compiled: tuple[tuple[Compiled, int], ...]
    states: int

    @classmethod
    def of(cls, given: Conditioned, terms: Sequence[TensorVariable], met: States) -> Pure:
        """Compile the terms that depend on a drawn latent."""
        rows, summed = max(met.sizes), set(given.latents.values())
        side = [int(rv.size.eval()) for rv in given.model.observed_RVs if rv.name not in given.released]
        # Stands in for the size of terms whose static shape is not known.
        longest = max(side, default=1)
        least = max((rows * state[0].size for state in met.values), default=1)
        groups: dict[bool, list[TensorVariable]] = {False: [], True: []}
        cells = {False: least, True: 1}
        for term in _smooth(given, terms):
            elements = longest if None in term.type.shape else math.prod(n or 0 for n in term.type.shape)
            own = elements * (1 if summed.isdisjoint(ancestors([term])) else rows)
            groups[elements > _MANY_ROWS].append(term)
            cells[elements > _MANY_ROWS] = max(cells[elements > _MANY_ROWS], own)
        parts = [(some, cells[many]) for many, some in groups.items() if some or not many]
        return cls(tuple((_compile(some, met, _drawn(given, 3)), n) for some, n in parts), met.total)

    @property
    def widest(self) -> int:
        """Largest number of cells per draw of any term."""
        return max(cells for _, cells in self.compiled)

    def __call__(self, draws: Sequence[NDArray[Any]], size: int, far: bool = False) -> Floats:
        sums = np.zeros((size, self.states))
        for compiled, cells in self.compiled:
            width = max(1, _CACHED // cells)
            for start in range(0, size, width):
                (part,) = compiled(*(d[start : start + width, None, None] for d in draws))
                with np.errstate(invalid="ignore"):
                    sums[start : start + width] += part[:, :, 0]
        return _possible(sums, far)


@dataclass(frozen=True)
class TermGroup:
    """Sum of the terms that depend on a release, or on no drawn latent.

    `names` are the released variables they may depend on; `mixed` is true if a term depends on both a drawn latent and
    a release.
    """

    names: tuple[str, ...]
    mixed: bool
    _mixed: Compiled
    _plain: Compiled

    @classmethod
    def of(
        cls,
        given: Conditioned,
        terms: Sequence[TensorVariable],
        met: States,
        every: States,
        names: tuple[str, ...],
    ) -> TermGroup:
        """Compile over draws, states and releases."""
        released = {given.released[name] for name in names}
        smooth = _smooth(given, terms)
        plain = [term for term in terms if term not in smooth]
        mixed = [term for term in smooth if not released.isdisjoint(ancestors([term]))]
        data = [given.released[name] for name in names]
        over_all = {**_drawn(given, 3), **dict.fromkeys(data, (1, 1, None))}
        of_data = dict.fromkeys(data, (1, 1, None))
        return cls(names, bool(mixed), _compile(mixed, met, over_all), _compile(plain, every, of_data))

    def at(
        self, draws: Sequence[NDArray[Any]], pure: Floats, data: Sequence[NDArray[Any]], far: bool = False
    ) -> Floats:
        """Terms with a drawn latent, (draw, state, release or 1); `pure` (draw, state) are those without a release."""
        if not self.mixed:
            return pure[..., None]
        (mixed,) = self._mixed(*(d[:, None, None] for d in draws), *(d[:, None] for d in data))
        return _possible(pure[..., None] + mixed, far)

    def table(self, data: Sequence[NDArray[Any]]) -> Floats:
        """Terms without a drawn latent, (state, release)."""
        (values,) = self._plain(*(d[:, None] for d in data))
        releases = max((d.shape[1] for d in data), default=1)
        return _possible(np.broadcast_to(values[0], (values.shape[1], releases)))


def _compile(terms: Sequence[TensorVariable], states: States, places: Mapping[Any, tuple[int | None, ...]]) -> Compiled:
    """Compile the sums of terms by component, in every state: (draw, state, release)."""
    inputs, (rows, columns) = batch_inputs(places), states.places
    size, count = max(states.sizes), len(states.sizes)

    def added(graphs: Sequence[TensorVariable]) -> TensorVariable:
        total = pt.zeros((1, size, 1, count), dtype="float64")
        for some, (first, place) in states.grouped(graphs):
            own, summed = states.components.columns(some)
            held = {v: _constant(v, s[first][None, :, None]) for v, s in states.by_variable.items()}
            part = summed(vectorize(own, {**held, **inputs}))
            part = pt.shape_padleft(part, 4 - part.ndim)
            total = total + (part if len(first) == 1 else part[:, place])
        return total

    whole, parted, conditions = states.by_element(terms)
    total = added(whole)
    if parted:
        total = total + added(parted)
        if conditions:
            ruled_out = added(conditions)
            total = pt.switch(ruled_out + ruled_out[..., -1:] < 0, np.float64(-np.inf), total)
    flat = total.dimshuffle(0, 1, 3, 2).reshape((total.shape[0], size * count, total.shape[2]))
    outputs = [flat if size * count == 1 else flat[:, rows * count + columns]]
    compiled: Compiled = pytensor.function([*inputs.values()], outputs, mode=NUMPY_MODE, on_unused_input="ignore")
    return compiled


def _smooth(given: Conditioned, terms: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Terms that depend on a drawn latent."""
    drawn = set(given.continuous.values())
    return [term for term in terms if not drawn.isdisjoint(ancestors([term]))]


def _drawn(given: Conditioned, axes: int) -> dict[Any, tuple[int | None, ...]]:
    """Leading axes of the drawn latents: an open axis of draws, then axes of length one."""
    return dict.fromkeys(given.continuous.values(), (None, *[1] * (axes - 1)))


def compiled_target(given: Conditioned, graph: TensorVariable, states: States) -> Compiled:
    """Compile the target's values, (draw or 1, row)."""
    held = {v: _constant(v, s[None]) for v, s in states.by_variable.items()}
    return compile_batches([graph], _drawn(given, 2), held)


def compiled_back(given: Conditioned) -> Compiled:
    """Compile drawn latents on their own scale, from value variables (draw, *shape) and the summed latents."""
    graphs = given.model.replace_rvs_by_values([given.model[name] for name in given.continuous])
    return compile_batches(graphs, dict.fromkeys([*given.continuous.values(), *given.latents.values()], (None,)))


def _possible(log_p: Floats, far: bool = False) -> Floats:
    """Log densities without undefined or infinite ones: these are errors, or minus infinity if points are `far`."""
    broken = np.isnan(log_p) | (log_p == np.inf)
    if not broken.any():
        return log_p
    if far:
        return np.where(broken, -np.inf, log_p)
    raise ValueError("the model's log density is not a number, or infinite, in some state of its latents")


def _constant(variable: TensorVariable, states: NDArray[Any]) -> TensorVariable:
    return pt.constant(states.astype(variable.dtype))
