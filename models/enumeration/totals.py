r"""Convolution of many independent latents that the rest of the model reads only through their sum.

.. math:: P\Big(\sum_i x_i(s_i) = u\Big) = (p_1 * \dots * p_n)(u), \qquad p_i(v) \propto \sum_{s : x_i(s) = v} f_i(s)

A latent is convolved if the rest of the model reads it only through one such sum, and its own terms read no other
latent that is summed out. The sum becomes a variable of its own in the graph, and its distribution is a running
convolution: twelve binary latents are 13 values instead of 4,096 states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scalar.basic import Add
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorVariable

from .batched_graphs import compile_batches
from .components import Components, split_checks
from .element_reads import Reads, element_reads
from .state_grid import Grid, Places

Floats = NDArray[np.float64]
Graphs = list[TensorVariable]


@dataclass(frozen=True)
class StateTotal:
    """Sum of contributions of several latents, as one axis of the grid.

    Parameters
    ----------
    axis : number of the sum's axis in the grid
    leaves : numbers of the axes that are summed
    shifts : for each leaf, the contribution of each of its values less the smallest one, so at least 0
    start : smallest value of the sum
    """

    axis: int
    leaves: tuple[int, ...]
    shifts: tuple[Places, ...]
    start: int

    @property
    def size(self) -> int:
        """Number of values."""
        return 1 + sum(int(shift.max()) for shift in self.shifts)

    def steps(self, log_weights: Sequence[Floats]) -> list[Floats]:
        """Running convolutions, (draw, value) each, from log weights (draw, state) of every leaf, each leaf's weights
        divided by their maximum."""
        rows = max(len(one) for one in log_weights)
        partial_sums = [np.ones((rows, 1))]
        for weights, shift in zip(_scaled(log_weights)[0], self.shifts, strict=True):
            last = partial_sums[-1]
            law = np.zeros((rows, last.shape[1] + int(shift.max())))
            for state, raised in enumerate(shift.tolist()):
                law[:, raised : raised + last.shape[1]] += weights[:, state : state + 1] * last
            partial_sums.append(law)
        return partial_sums

    def law(self, log_weights: Sequence[Floats]) -> Floats:
        """Log mass (draw, value) of the sum, from log weights (draw, state) of every leaf."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.steps(log_weights)[-1]) + _scaled(log_weights)[1])

    def graph(self, log_weights: Sequence[TensorVariable]) -> TensorVariable:
        """Graph of the log mass (value,) from log weights (state,) of every leaf; scaled masses are at least 1e-300."""
        law, offset, length = pt.ones(1, dtype="float64"), pt.constant(np.float64(0.0)), 1
        for weights, shift in zip(log_weights, self.shifts, strict=True):
            top = weights.max()
            place = np.arange(length + int(shift.max()))[:, None] - shift
            place = np.where((place >= 0) & (place < length), place, length)
            padded = pt.concatenate([law, pt.zeros(1, dtype="float64")])
            law, offset, length = (padded[place] * pt.exp(weights - top)).sum(axis=1), offset + top, len(place)
        return pt.log(pt.maximum(law, np.float64(1e-300))) + offset

    def draw(self, value: Places, log_weights: Sequence[Floats], rng: np.random.Generator) -> list[Places]:
        """Draw states (draw,) of every leaf given the index (draw,) of the sum's value, by backward sampling."""
        steps, scaled = self.steps(log_weights), _scaled(log_weights)[0]
        left, states = np.array(value), []
        for weights, shift, before in zip(scaled[::-1], self.shifts[::-1], steps[-2::-1], strict=True):
            place = left[:, None] - shift
            inside = (place >= 0) & (place < before.shape[1])
            rows = np.broadcast_to(before, (len(left), before.shape[1]))
            chance = np.where(inside, np.take_along_axis(rows, np.where(inside, place, 0), axis=1) * weights, 0.0)
            cumulative = chance.cumsum(axis=1)
            state = (cumulative <= (rng.random(len(left)) * cumulative[:, -1])[:, None]).sum(axis=1)
            states.append(state)
            left = left - shift[state]
        return states[::-1]


def _scaled(log_weights: Sequence[Floats]) -> tuple[list[Floats], Floats]:
    """Weights divided by the maximum of each row, and the sum of the log maxima, (draw, 1)."""
    tops = [np.maximum(one.max(axis=1, keepdims=True), np.finfo(np.float64).min) for one in log_weights]
    return [np.exp(one - top) for one, top in zip(log_weights, tops, strict=True)], sum(tops, start=np.zeros((1, 1)))


@dataclass(frozen=True)
class PlacedTotal:
    """A sum and its place among the components.

    Parameters
    ----------
    total : the sum
    component, numbers : component of its axis, and the index of its value in each state of that component
    leaves : components of the latents that are summed
    """

    total: StateTotal
    component: int
    numbers: Places
    leaves: tuple[int, ...]

    @classmethod
    def all_of(cls, components: Components, totals: Sequence[StateTotal]) -> tuple[PlacedTotal, ...]:
        """Place each sum: the component and value numbers of its axis, and the components of its leaves."""
        placed = []
        for total in totals:
            component, numbers = components.value_numbers(total.axis)
            leaves = tuple(components.value_numbers(leaf)[0] for leaf in total.leaves)
            placed.append(cls(total, component, numbers, leaves))
        return tuple(placed)


@dataclass(frozen=True)
class SummedLeaves:
    """Graphs in which sums of latents are replaced by variables of their own.

    Parameters
    ----------
    grid : values of the latents and of the sums
    values : value variables of the latents, then of the sums
    terms, targets : log density terms (lists of graphs), and targets
    totals : one entry per element of every sum
    """

    grid: Grid
    values: Graphs
    terms: list[Graphs]
    targets: Graphs
    totals: tuple[StateTotal, ...] = ()

    @classmethod
    def of(
        cls, grid: Grid, values: Graphs, terms: Sequence[Graphs], targets: Graphs, released: Sequence[Any]
    ) -> SummedLeaves:
        """Replace sums in lists of terms, the last of which is complete; `released` are the inputs of the releases."""
        plain = cls(grid, values, [list(some) for some in terms], list(targets))
        if not any(isinstance(v.owner.op, Sum) or _is_addition(v) for v in ancestors([*terms[-1]]) if v.owner):
            return plain
        if not values:
            return plain
        every = [*(term for some in terms for term in some), *targets]
        inputs = [v for v in graph_inputs(every) if not isinstance(v, Constant)]
        fgraph = FunctionGraph(inputs, every, clone=True, copy_inputs=False)
        MergeOptimizer().rewrite(fgraph)
        _add_at_once(fgraph)
        reads = Components.axes_of(grid, values)
        sums = _candidates(fgraph, reads, values)
        copy, copies = fgraph.clone_get_equiv()
        stands = {node.outputs[0]: node.outputs[0].type() for node, _ in sums}
        for total, stand in stands.items():
            copy.replace(copies[total], stand, import_missing=True)
        others, goals = _parted(list(copy.outputs), terms, targets)
        leaves = _leaves(
            others[-1],
            goals,
            Components.axes_of(grid, [copies[v] for v in values]),
            [*stands.values()],
            [copies.get(v, v) for v in released],
        )
        leaves &= sum((rows.reshape(-1, leaves.size).sum(axis=0) for _, rows in sums), start=np.zeros(leaves.size)) == 1
        if not leaves.any():
            return plain
        extended, added, totals = _add(fgraph, grid, values, sums, leaves)
        if not totals:
            return plain
        lists, goals = _parted(list(fgraph.outputs), terms, targets)
        return cls(extended, [*values, *added], lists, goals, totals)


def _is_addition(variable: Any) -> bool:
    """True for an integer tensor that is an elementwise sum."""
    node = variable.owner
    return (
        node is not None
        and isinstance(node.op, Elemwise)
        and isinstance(node.op.scalar_op, Add)
        and variable.dtype[0] in "iu"
        and None not in variable.type.shape
    )


def _addends(variable: Any) -> list[Any]:
    """Operands of a chain of + with equal shapes; the variable itself if it is not such a sum."""
    if not _is_addition(variable) or any(one.type.shape != variable.type.shape for one in variable.owner.inputs):
        return [variable]
    return [part for one in variable.owner.inputs for part in _addends(one)]


def _add_at_once(fgraph: FunctionGraph) -> None:
    """Rewrite every chain of + as one Sum over a stacked axis."""
    inner = {one for node in fgraph.apply_nodes if _is_addition(node.outputs[0]) for one in node.inputs}
    for node in fgraph.toposort():
        total = node.outputs[0]
        if total not in inner and len(parts := _addends(total)) > 2:
            stacked = pt.stack([part.astype("int64") for part in parts])
            fgraph.replace(total, stacked.sum(axis=0).astype(total.dtype), import_missing=True)


def _parted(graphs: Graphs, terms: Sequence[Graphs], targets: Graphs) -> tuple[list[Graphs], Graphs]:
    """Split a flat list of graphs into lists with the lengths of `terms`, and `targets`."""
    ends = np.cumsum([len(some) for some in terms]).tolist()
    lists = [graphs[end - len(some) : end] for end, some in zip(ends, terms, strict=True)]
    return lists, graphs[len(graphs) - len(targets) :]


def _candidates(fgraph: FunctionGraph, reads: Mapping[Any, Reads], values: Graphs) -> list[tuple[Any, Reads]]:
    """Sums of integer elements that read at most one axis each, and the mask (*shape of the summands, axis)."""
    candidates = []
    known = set(values)
    for node in fgraph.toposort():
        if not isinstance(node.op, Sum) or node.inputs[0].dtype[0] not in "iub":
            continue
        inputs = [v for v in graph_inputs(node.inputs) if not isinstance(v, Constant | SharedVariable)]
        if not set(inputs) <= known or not inputs:
            continue
        (rows,) = element_reads([node.inputs[0]], reads)
        shape = node.inputs[0].type.shape
        if None in shape or (rows.sum(axis=-1) > 1).any():
            continue
        candidates.append((node, np.broadcast_to(rows, (*shape, rows.shape[-1]))))
    return candidates


def _leaves(
    terms: Graphs, targets: Graphs, reads: Mapping[Any, Reads], stands: Graphs, released: Sequence[Any]
) -> NDArray[np.bool_]:
    """Mask (axis,) of the axes that can be convolved: apart from the sums, only terms that read no other axis and no
    release read them."""
    axes = next(iter(reads.values())).shape[-1]
    graphs, conditions = split_checks(terms)
    hidden = {stand: np.zeros((*(1,) * stand.ndim, axes), dtype=bool) for stand in stands}
    every = [*graphs, *conditions, *targets]
    reads_of_leaves = [rows.reshape(-1, axes) for rows in element_reads(every, {**reads, **hidden})]
    alone = np.ones(axes, dtype=bool)
    for i, (graph, rows) in enumerate(zip(every, reads_of_leaves, strict=True)):
        outside = i >= len(every) - len(targets) or not set(released).isdisjoint(ancestors([graph]))
        alone &= ~(rows if outside else rows[rows.sum(axis=1) > 1]).any(axis=0)
    return alone


def _add(
    fgraph: FunctionGraph, grid: Grid, values: Graphs, sums: list[tuple[Any, Reads]], leaves: NDArray[np.bool_]
) -> tuple[Grid, Graphs, tuple[StateTotal, ...]]:
    """Replace sums by variables: the extended grid, the new variables, and one `StateTotal` per element."""
    axes, shapes = dict(grid.axes), dict(grid.shapes)
    added: Graphs = []
    totals: list[StateTotal] = []
    count = len(grid.lengths)
    for node, rows in sums:
        (terms,), (total,) = node.inputs, node.outputs
        along = tuple(range(terms.ndim)) if node.op.axis is None else node.op.axis
        mask = (rows & leaves).any(axis=-1)
        moved = np.moveaxis(rows & leaves, along, range(terms.ndim - len(along), terms.ndim))
        of_element = moved.reshape(-1, math.prod(terms.type.shape[i] for i in along), rows.shape[-1])
        if not any(_is_shorter(grid, one) for one in of_element):
            continue
        raised = _added_by(grid, values, terms)
        raised = np.moveaxis(raised, [1 + i for i in along], range(1 + terms.ndim - len(along), 1 + terms.ndim))
        raised = raised.reshape(len(raised), *of_element.shape[:2])
        own = []
        for element, one in enumerate(of_element):
            cells = [(int(row.argmax()), i) for i, row in enumerate(one) if row.any()]
            steps = [raised[: grid.lengths[axis], element, i] for axis, i in cells]
            start = sum(int(step.min()) for step in steps)
            shifts = tuple(step - step.min() for step in steps)
            totals.append(StateTotal(count, tuple(axis for axis, _ in cells), shifts, start))
            own.append(np.arange(start, start + totals[-1].size))
            count += 1
        name = f"sum {len(added)}"
        while name in axes:
            name += "'"
        axes[name], shapes[name] = own, tuple(int(n) for n in total.type.shape)
        variable = pt.tensor(name, dtype="int64", shape=shapes[name])
        rest = pt.switch(mask, np.int64(0), terms).sum(axis=along) if not mask.all() else np.int64(0)
        added.append(variable)
        fgraph.replace(total, (variable + rest).astype(total.dtype), import_missing=True)
    return Grid(axes, shapes), added, tuple(totals)


def _is_shorter(grid: Grid, rows: Reads) -> bool:
    """True if a sum of these cells, (cell, axis), has far fewer values than its latents have joint states."""
    lengths = [grid.lengths[int(row.argmax())] for row in rows if row.any()]
    return len(lengths) > 2 and math.prod(lengths) > 4 * sum(lengths)


def _added_by(grid: Grid, values: Graphs, terms: TensorVariable) -> Places:
    """Value of each element in every state of the latent it reads, (state, *shape)."""
    singles = Components(grid, (*((i,) for i in range(len(grid.lengths))), ()), {})
    states = singles.states(0, max(singles.sizes))
    (added,) = compile_batches([terms], dict.fromkeys(values, (None, 1)))(*states)
    return np.asarray(np.broadcast_to(added[:, 0], (max(singles.sizes), *terms.type.shape)), dtype=np.int64)
