r"""The sum over discrete latents as a product of smaller sums, read from the model's graph.

.. math:: \sum_s \prod_k f_k(s_{A_k}) = \prod_c \sum_{s_c} \prod_{k \in c} f_k(s_{A_k})

:math:`f_k` are the elements of the model's density and :math:`A_k` the latents that each reads. Latents that one
element or one target reads jointly belong to the same component c. One evaluation of the model's own graph gives the
terms of all components, because each row puts every component into a state of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.basic import AND, OR, Add, Cast, Invert, Switch
from pytensor.tensor.basic import (
    Alloc,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
    get_underlying_scalar_constant_value,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorVariable

from .batched_graphs import compile_batches, soft_checks
from .element_reads import Reads, element_reads
from .state_grid import Grid, Places, blocks_of

Summed = Callable[[Sequence[TensorVariable]], TensorVariable]

# Number of states of a component above which impossible states are not searched for.
_LARGEST_CHECKED = 2**22


@dataclass(frozen=True)
class Components:
    """Partition of the axes of a grid into components, each summed over by itself.

    Parameters
    ----------
    grid : all axes
    members : numbers of the axes of each component, in the order in which its states are listed. The last component
        has no axes and one state; it collects the elements that read no discrete latent
    reads : for the value of each latent, the grid axis of each of its elements as a mask (*shape, axis)
    possible : for each component, indices of its states that are summed over; None if all are
    """

    grid: Grid
    members: tuple[tuple[int, ...], ...]
    reads: dict[Any, Reads]
    possible: tuple[Places | None, ...] = ()

    @classmethod
    def of(
        cls, grid: Grid, values: Sequence[Any], terms: Sequence[TensorVariable], targets: Sequence[TensorVariable]
    ) -> Components:
        """Connected components of the latents (`values`) that elements of `terms` and `targets` read jointly."""
        reads, count = cls.axes_of(grid, values), len(grid.lengths)
        graphs, conditions = split_checks(terms)
        reads_of_terms = element_reads([*graphs, *conditions, *targets], reads) if reads else []
        label = np.arange(count)
        for rows in reads_of_terms:
            for row in np.unique(rows.reshape(-1, count), axis=0):
                met = np.unique(label[row])
                label[np.isin(label, met[1:])] = met[:1].sum()
        groups = tuple(tuple(np.flatnonzero(label == one).tolist()) for one in np.unique(label))
        return cls(grid, (*groups, ()), reads)

    @staticmethod
    def axes_of(grid: Grid, values: Sequence[Any]) -> dict[Any, Reads]:
        """Mask (*shape, axis) of the grid axis of each element of each latent's value."""
        reads, start, count = {}, 0, len(grid.lengths)
        for value, (name, axes) in zip(values, grid.axes.items(), strict=True):
            sizes = [axis.shape[1] if axis.ndim == 2 else 1 for axis in axes]
            numbers = np.repeat(np.arange(start, start + len(axes)), sizes)
            reads[value] = np.eye(count, dtype=bool)[numbers].reshape(*grid.shapes[name], count)
            start += len(axes)
        return reads

    @classmethod
    def whole(cls, grid: Grid) -> Components:
        """A single component of all axes."""
        return cls(grid, (tuple(range(len(grid.lengths))), ()), {})

    def with_first(self, graphs: Sequence[TensorVariable], also: Sequence[int]) -> tuple[Components, tuple[int, ...]]:
        """Reorder each component: axes in `also` or read by the graphs first, longest last; count their states."""
        reads_of_terms = element_reads(graphs, self.reads) if self.reads else []
        read = np.isin(np.arange(len(self.grid.lengths)), also)
        for rows in reads_of_terms:
            read |= rows.reshape(-1, read.size).any(axis=0)
        lengths = self.grid.lengths
        members = tuple(tuple(sorted(own, key=lambda i: (not read[i], lengths[i], i))) for own in self.members)
        met = tuple(math.prod(lengths[i] for i in own if read[i]) for own in members)
        return replace(self, members=members), met

    def possible_ones(
        self, terms: Sequence[TensorVariable], met: Sequence[int], whole: Sequence[int]
    ) -> tuple[Components, tuple[int, ...]]:
        """Drop states of probability zero whatever else is drawn, such as more successes than trials.

        Parameters
        ----------
        terms : log densities of one point
        met : number of states of each component over its leading axes; a leading state is dropped only if every state
            that extends it is impossible
        whole : axes whose components keep all their states

        Returns
        -------
        (components, met) : without the impossible states, and the numbers of leading states that remain.
        """
        conditions = [one for term in terms for one in _exclusions(term, frozenset(self.reads))]
        conditions = [one for one in conditions if (self.axes_read([one])[0].sum(axis=1) > 1).any()]
        if not conditions or max(self.sizes) > _LARGEST_CHECKED:
            return self, tuple(met)
        graphs, summed = self.columns([pt.switch(one, np.float64(-np.inf), np.float64(0.0)) for one in conditions])
        inputs = dict.fromkeys(self.reads, (None, 1))
        evaluate = compile_batches(graphs, inputs, joined=lambda batches: [summed(batches)])
        blocks = [evaluate(*self.states(start, stop))[0] for start, stop in self.blocks]
        some = np.concatenate([np.broadcast_to(b, (max(b.shape[0], 1), *b.shape[1:])) for b in blocks])[:, 0] == 0.0
        places: list[Places | None] = []
        left = list(met)
        for c, (own, size) in enumerate(zip(self.members, self.sizes, strict=True)):
            rows = some[:size, c].reshape(met[c], -1).any(axis=1)
            if not set(own).isdisjoint(whole) or rows.all() or not rows.any():
                places.append(None)
                continue
            left[c] = int(rows.sum())
            places.append(np.flatnonzero(np.repeat(rows, size // met[c])))
        return replace(self, possible=tuple(places)), tuple(left)

    def value_numbers(self, axis: int) -> tuple[int, Places]:
        """Component of an axis, and the index (state,) of the axis's value in each state of that component."""
        component = next(c for c, own in enumerate(self.members) if axis in own)
        own = self.members[component]
        every = self._places(component, np.arange(self.sizes[component]))
        places = np.unravel_index(every, [self.grid.lengths[i] for i in own])
        return component, places[own.index(axis)]

    def _places(self, component: int, numbers: Places) -> Places:
        """Indices among all states of a component, from indices among those summed over."""
        possible = self.possible[component] if self.possible else None
        return numbers if possible is None else possible[numbers]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each component that are summed over."""
        lengths, possible = self.grid.lengths, self.possible or (None,) * len(self.members)
        pairs = zip(self.members, possible, strict=True)
        return tuple(math.prod(lengths[i] for i in own) if some is None else some.size for own, some in pairs)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of states small enough for one call, up to the size of the largest component."""
        return blocks_of(max(self.sizes))

    def states(self, start: int, stop: int) -> list[NDArray[np.int64]]:
        """States start..stop-1 of every component, (states, 1, *shape); shorter components repeat from their first."""
        rows = np.arange(start, stop)
        return [state[:, None] for state in self.at([rows % size for size in self.sizes])]

    def at(self, places: Sequence[Places]) -> list[NDArray[np.int64]]:
        """Values (place, *shape) of each latent, given the state number (place,) of every component."""
        lengths = self.grid.lengths
        indices: list[Any] = [None] * len(lengths)
        for c, (own, place) in enumerate(zip(self.members, places, strict=True)):
            positions = np.unravel_index(self._places(c, place), [lengths[i] for i in own]) if own else ()
            for i, index in zip(own, positions, strict=True):
                indices[i] = index
        return self.grid.filled(indices)

    def axes_read(self, graphs: Sequence[TensorVariable]) -> list[Reads]:
        """Mask (element, axis) of the axes that each element of some graphs reads; one row if equal for all."""
        count = len(self.grid.lengths)
        if not self.reads:
            return [np.zeros((1, count), dtype=bool) for _ in graphs]
        return [rows.reshape(-1, count) for rows in element_reads(graphs, self.reads)]

    def owners(self, graphs: Sequence[TensorVariable]) -> list[Places]:
        """Component of every element of some graphs; an axis along which it is constant has length one."""
        last = len(self.members) - 1
        if not self.reads:
            return [np.zeros((1,) * graph.ndim, dtype=np.int64) for graph in graphs]
        label = np.empty(len(self.grid.lengths), dtype=np.int64)
        for number, own in enumerate(self.members):
            label[list(own)] = number
        reads_of_terms = element_reads(graphs, self.reads)
        return [np.where(rows.any(axis=-1), label[rows.argmax(axis=-1)], last) for rows in reads_of_terms]

    def columns(self, terms: Sequence[TensorVariable]) -> tuple[list[TensorVariable], Summed]:
        """Sums of log density terms by component: the graphs to vectorize, and the function that sums the result.

        Parameters
        ----------
        terms : log densities of one point, of any shape

        Returns
        -------
        (graphs, summed) : graphs of one point, to be vectorized to (..., *shape); and a function of the vectorized
            graphs that returns the sums (..., component).
        """
        graphs, conditions = split_checks(terms)
        every = [*graphs, *conditions]
        owners, count = self.owners(every), len(self.members)

        def summed(batches: Sequence[TensorVariable]) -> TensorVariable:
            nothing = pt.zeros(count, dtype="float64")
            parts = [
                _by_owner(batch.astype("float64"), owner, graph.ndim, count)
                for batch, owner, graph in zip(batches, owners, every, strict=True)
            ]
            total = sum(parts[: len(graphs)], start=nothing)
            if not conditions:
                return total
            ruled_out = sum(parts[len(graphs) :], start=nothing)
            return pt.switch(ruled_out + ruled_out[..., -1:] < 0, np.float64(-np.inf), total)

        return every, summed


def _by_owner(batch: TensorVariable, owner: Places, rank: int, count: int) -> TensorVariable:
    """Sums (..., component) of the elements (..., *shape) of one term."""
    lead = batch.ndim - rank
    alike = tuple(lead + i for i, n in enumerate(owner.shape) if n == 1)
    reduced = batch.sum(axis=alike, keepdims=True) if alike else batch
    flat, labels = reduced.reshape((*(reduced.shape[i] for i in range(lead)), owner.size)), owner.ravel()
    every = np.unique(labels)
    total: Any = 0.0
    # Elements that read no latent may be many: they are summed directly, since a padded table would be as long.
    if count - 1 in every or every.size == 1:
        (*_, last) = every
        column = flat[..., np.flatnonzero(labels == last)].sum(axis=-1)
        total = pt.switch(np.arange(count) == last, column[..., None], np.float64(0.0))
        every = every[:-1]
    if every.size:
        longest = np.bincount(labels, minlength=count)[every].max()
        table = np.full((count, longest), owner.size)
        for one in every:
            place = np.flatnonzero(labels == one)
            table[one, : place.size] = place
        padded = pt.concatenate([flat, pt.zeros_like(flat[..., :1])], axis=-1)
        in_order = table.shape == (owner.size + 1, 1) and np.array_equal(table[:, 0], np.arange(owner.size + 1))
        total = total + (padded if in_order else padded[..., table].sum(axis=-1))
    return total


def split_checks(terms: Sequence[TensorVariable]) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Split log density terms from their parameter checks, each check as 0 or minus infinity per element.

    PyMC checks all elements at once. Such a check would make every element read all latents and leave one component.

    Parameters
    ----------
    terms : log densities by element, whose sum is wanted

    Returns
    -------
    (graphs, conditions) : the log density is minus infinity if a condition is, and otherwise the sum of the graphs.
    """
    graphs, conditions = [], []
    for term in terms:
        graph, their_checks = _without_checks(term)
        graphs.append(soft_checks(graph))
        open_ones = [one for one in their_checks if not all(isinstance(v, Constant) for v in graph_inputs([one]))]
        conditions += [soft_checks(pt.switch(one, np.float64(0.0), np.float64(-np.inf))) for one in open_ones]
    return graphs, conditions


def _without_checks(term: TensorVariable) -> tuple[TensorVariable, list[TensorVariable]]:
    """A term without the checks at its root, and the conditions of these checks, by element."""
    node = term.owner
    if node is None:
        return term, []
    if isinstance(node.op, Alloc):
        graph, conditions = _without_checks(node.inputs[0])
        return node.op(graph, *node.inputs[1:]) if conditions or graph is not node.inputs[0] else term, conditions
    if not isinstance(node.op, CheckParameterValue):
        return term, []
    graph, conditions = _without_checks(node.inputs[0])
    checks = [one for condition in node.inputs[1:] for one in _each(condition)]
    return graph, [*conditions, *checks]


def _each(condition: Any) -> list[TensorVariable]:
    """The conditions, by element, whose conjunction is this one."""
    node = condition.owner
    if node is not None and isinstance(node.op, ScalarFromTensor):
        return _each(node.inputs[0])
    if node is not None and isinstance(node.op, MakeVector):
        return [one for each in node.inputs for one in _each(each)]
    if node is not None and isinstance(node.op, All) and node.op.axis in (None, tuple(range(node.inputs[0].ndim))):
        return _each(node.inputs[0])
    return [pt.as_tensor_variable(condition)]


def _exclusions(term: TensorVariable, known: frozenset[Any]) -> list[TensorVariable]:
    """Conditions by element, any of which makes a log density minus infinity, in known variables and constants only.

    They come from `switch` with minus infinity and from parameter checks. Finite terms added to minus infinity leave it
    unchanged, so sums and reshapes are searched through.
    """
    graphs, checks = split_checks([term])
    return [one for graph in (*graphs, *checks) for one in _ruled_out(graph, known)]


def _ruled_out(graph: Any, known: frozenset[Any]) -> list[TensorVariable]:
    """`_exclusions` of a graph without checks."""
    node = graph.owner
    if node is None or all(isinstance(v, Constant) for v in graph_inputs([graph])):
        return []
    match node.op:
        case Elemwise(scalar_op=Switch()):
            condition, *branches = node.inputs
            impossible = []
            for branch, other, truth in ((*branches, True), (*branches[::-1], False)):
                if _is_nothing(branch):
                    impossible += [*_met_where(condition, truth, known), *_ruled_out(other, known)]
            return impossible
        case Elemwise(scalar_op=Add()) | MakeVector():
            return [one for part in node.inputs for one in _ruled_out(part, known)]
        case Join():
            return [one for part in node.inputs if part.ndim for one in _ruled_out(part, known)]
        case (
            Elemwise(scalar_op=Cast())
            | DimShuffle()
            | Sum()
            | Alloc()
            | Reshape()
            | SpecifyShape()
            | (TensorFromScalar())
        ):
            return _ruled_out(node.inputs[0], known)
    return []


def _met_where(condition: Any, truth: bool, known: frozenset[Any]) -> list[TensorVariable]:
    """Conditions in known variables, each sufficient for `condition` to have the value `truth`."""
    if all(v in known or isinstance(v, Constant) for v in graph_inputs([condition])):
        return [pt.neq(condition, 0) if truth else pt.eq(condition, 0)]
    node = condition.owner
    match None if node is None else node.op:
        case Elemwise(scalar_op=Invert()):
            return _met_where(node.inputs[0], not truth, known)
        case Elemwise(scalar_op=OR()) if truth:
            return [one for part in node.inputs for one in _met_where(part, True, known)]
        case Elemwise(scalar_op=AND()) if not truth:
            return [one for part in node.inputs for one in _met_where(part, False, known)]
        case DimShuffle() | Elemwise(scalar_op=Cast()):
            return _met_where(node.inputs[0], truth, known)
    return []


def _is_nothing(graph: Any) -> bool:
    """True for a constant minus infinity of any shape."""
    return bool(get_underlying_scalar_constant_value(graph, raise_not_constant=False) == -np.inf)
