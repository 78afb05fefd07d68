"""Dependence of each element of a tensor on the parts of a model's latents, from its PyTensor graph.

Parts are numbered. Each element has a row of a boolean array (*shape, part), True for the parts it reads; an axis of
length one stands for elements that read the same parts. For an unknown operation, every element is assumed to read all
parts that any element of its inputs reads: rows may include a part too many, never one too few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce, singledispatch
from typing import Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar.basic import Mul, Switch
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)
from pytensor.tensor.variable import TensorVariable

from .batched_graphs import NUMPY_MODE

Reads = NDArray[np.bool_]


def element_reads(graphs: Sequence[TensorVariable], own: Mapping[Any, Reads]) -> list[Reads]:
    """Parts of the latents that each element of some graphs reads.

    Parameters
    ----------
    graphs : tensors of one point
    own : for each latent's value, a mask (*shape, part) of the part that each of its elements is

    Returns
    -------
    Arrays (*shape, part), one per graph; axes of length one where all elements read alike.

    >>> import pytensor.tensor as pt
    >>> x = pt.lvector("x")
    >>> (reads,) = element_reads([x[1:] + 1], {x: np.eye(3, dtype=bool)})
    >>> reads.astype(int).tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    known: dict[Variable, Reads] = dict(own)
    parts = next(iter(own.values())).shape[-1] if own else 0
    for node in toposort(graphs, blockers=list(own)):
        inputs = [known.get(v) for v in node.inputs]
        if isinstance(node.op, Shape | Shape_i) or all(one is None for one in inputs):
            continue
        rows = _read(node.op, node, inputs)
        known |= dict.fromkeys(node.outputs, _union(inputs, 0)) if rows is None else {node.outputs[0]: rows}
    nothing = np.zeros(parts, dtype=bool)
    return [_of_rank(known.get(graph, nothing), graph) for graph in graphs]


def _of_rank(reads: Reads, variable: Variable) -> Reads:
    """Add axes of length one up to the variable's rank; rows of unknown operations have none."""
    missing = getattr(variable, "ndim", 0) + 1 - reads.ndim
    return reads.reshape((1,) * missing + reads.shape) if missing > 0 else reads


def _union(inputs: Sequence[Reads | None], rank: int) -> Reads:
    """Union of the parts that any element reads, with `rank` leading axes of length one."""
    rows = [one.reshape(-1, one.shape[-1]).any(axis=0) for one in inputs if one is not None]
    every = reduce(np.logical_or, rows)
    return every.reshape((1,) * rank + every.shape)


def _joined(rows: Sequence[Reads | None]) -> Reads | None:
    """Union of the parts that elements in the same place read; None if the shapes do not broadcast."""
    some = [row for row in rows if row is not None]
    try:
        return reduce(np.logical_or, some)
    except ValueError:
        return None


def _whole(reads: Reads | None, variable: Variable, parts: int) -> Reads | None:
    """Broadcast to the variable's shape; None if a length is not known."""
    shape = variable.type.shape
    if reads is None:
        reads = np.zeros((1,) * len(shape) + (parts,), dtype=bool)
    reads = _of_rank(reads, variable)
    lengths = [own if n is None and own > 1 else n for n, own in zip(shape, reads.shape, strict=False)]
    known = [int(n) for n in lengths if n is not None]
    return np.broadcast_to(reads, (*known, parts)) if len(known) == len(lengths) else None


def _fixed(variable: Any) -> NDArray[Any] | None:
    """Value of a graph of constants and data; None for any other."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if all(isinstance(one, Constant | SharedVariable) for one in graph_inputs([variable])):
        return np.asarray(pytensor.function([], variable, mode=NUMPY_MODE)())
    return None


@singledispatch
def _read(op: Any, node: Any, inputs: list[Reads | None]) -> Reads | None:
    """Parts that each element of the output reads, given those of the inputs; None for an unknown operation."""
    if isinstance(op, Blockwise) and not op.batch_ndim(node):
        return _read(op.core_op, node, inputs)
    # The log probability of a scalar distribution broadcasts, as an elementwise operation does.
    if getattr(op, "core", None) == 0:
        return _joined([None if one is None else _of_rank(one, v) for one, v in zip(inputs, node.inputs, strict=True)])
    return None


@_read.register
def _(op: Elemwise, node: Any, inputs: list[Reads | None]) -> Reads | None:
    rows = [None if one is None else _of_rank(one, v) for one, v in zip(inputs, node.inputs, strict=True)]
    fixed = [np.asarray(v.data) if isinstance(v, Constant) else None for v in node.inputs]
    # A factor that is multiplied by a constant zero does not matter, and is not read.
    if isinstance(op.scalar_op, Mul):
        joined = _joined(rows)
        for value in fixed:
            if joined is not None and value is not None and not value.all():
                joined = joined & (value != 0)[..., None]
        return joined
    if isinstance(op.scalar_op, Switch) and fixed[0] is not None:
        chosen = [
            one & mask[..., None]
            for one, mask in zip(rows[1:], (fixed[0] != 0, fixed[0] == 0), strict=True)
            if one is not None
        ]
        return _joined(chosen)
    return _joined(rows)


@_read.register
def _(op: DimShuffle, node: Any, inputs: list[Reads | None]) -> Reads | None:
    reads = _of_rank(inputs[0], node.inputs[0])  # type: ignore[arg-type]
    order = [axis for axis in op.new_order if axis != "x"]
    gone = [axis for axis in range(reads.ndim - 1) if axis not in order]
    reduced = reads.any(axis=tuple(gone), keepdims=True).transpose(*order, *gone, reads.ndim - 1)
    reduced = reduced.reshape(*reduced.shape[: len(order)], -1)
    return np.expand_dims(reduced, tuple(i for i, axis in enumerate(op.new_order) if axis == "x"))


@_read.register
def _(op: CAReduce, node: Any, inputs: list[Reads | None]) -> Reads | None:
    reads = _of_rank(inputs[0], node.inputs[0])  # type: ignore[arg-type]
    axes = range(reads.ndim - 1) if op.axis is None else op.axis
    return np.asarray(reads.any(axis=tuple(axes)))


@_read.register
def _(op: Reshape, node: Any, inputs: list[Reads | None]) -> Reads | None:
    del op
    reads, shape = inputs[0], node.outputs[0].type.shape
    if reads is None:
        return None
    whole = _whole(reads, node.inputs[0], reads.shape[-1])
    if whole is None:
        return None
    size, free = math.prod(whole.shape[:-1]), [i for i, n in enumerate(shape) if n is None]
    if len(free) > 1:
        return None
    known = math.prod(n for n in shape if n is not None)
    return whole.reshape(*(size // known if n is None else n for n in shape), whole.shape[-1])


@_read.register
def _(op: SpecifyShape, node: Any, inputs: list[Reads | None]) -> Reads | None:
    del op, node
    return inputs[0]


@_read.register
def _(op: Alloc, node: Any, inputs: list[Reads | None]) -> Reads | None:
    del op
    return None if inputs[0] is None else _of_rank(inputs[0], node.outputs[0])


@_read.register
def _(op: MakeVector, node: Any, inputs: list[Reads | None]) -> Reads | None:
    del op, node
    nothing = np.zeros_like(_union(inputs, 0))
    return np.stack([nothing if one is None else one for one in inputs])


@_read.register
def _(op: Join, node: Any, inputs: list[Reads | None]) -> Reads | None:
    axis = getattr(op, "axis", None)
    tensors, reads = list(node.inputs), list(inputs)
    if axis is None:
        place = _fixed(tensors.pop(0))
        reads.pop(0)
        if place is None:
            return None
        axis = int(place)
    parts = _union(reads, 0).size
    rows = [_whole(one, v, parts) for one, v in zip(reads, tensors, strict=True)]
    whole = [row for row in rows if row is not None]
    return np.concatenate(whole, axis=axis % tensors[0].ndim) if len(whole) == len(rows) else None


@_read.register
def _(op: Dot, node: Any, inputs: list[Reads | None]) -> Reads | None:
    """Product with a constant matrix: entries multiplied by its zeros are not read."""
    del op
    (left, right), (a, b) = node.inputs, inputs
    if a is not None and b is not None:
        return None
    table = _fixed(left if a is None else right)
    reads = _whole(b, right, b.shape[-1]) if b is not None else None if a is None else _whole(a, left, a.shape[-1])
    if table is None or reads is None:
        return None
    table = table != 0
    if a is None:
        return np.asarray(np.tensordot(table, reads, axes=(-1, 0 if right.ndim == 1 else right.ndim - 2)) > 0)
    joined = np.tensordot(reads, table, axes=(left.ndim - 1, 0)) > 0  # (*rows, part, *columns)
    return np.moveaxis(joined, left.ndim - 1, -1)


def _places(op: Any, node: Any, first: int) -> tuple[list[Any], list[bool]]:
    """Indices as numbers, with the whole axis for an index that is not constant; and flags of the latter."""
    places: list[Any] = []
    opened: list[bool] = []
    for index in indices_from_subtensor(node.inputs[first:], op.idx_list):
        if isinstance(index, slice):
            own = [end for end in (index.start, index.stop, index.step) if end is not None]
            fixed = iter([_fixed(end) for end in own])
            ends = [None if end is None else next(fixed) for end in (index.start, index.stop, index.step)]
            opened.append(sum(end is not None for end in ends) < len(own))
            places.append(slice(None) if opened[-1] else slice(*(None if end is None else int(end) for end in ends)))
        else:
            place = _fixed(index)
            opened.append(place is None)
            places.append(slice(None) if place is None else place if place.ndim else int(place))
    return places, opened


@_read.register(Subtensor)
@_read.register(AdvancedSubtensor)
def _(op: Any, node: Any, inputs: list[Reads | None]) -> Reads | None:
    table, *positions = inputs
    if table is None:
        if isinstance(op, AdvancedSubtensor) and not any(isinstance(one, slice) for one in op.idx_list):
            rows = [
                None if one is None else _of_rank(one, v) for one, v in zip(positions, node.inputs[1:], strict=True)
            ]
            rank = node.outputs[0].ndim
            joined = _joined(
                [None if one is None else one.reshape((1,) * max(0, rank + 1 - one.ndim) + one.shape) for one in rows]
            )
            fits = all(v.ndim == node.inputs[1].ndim for v in node.inputs[1:]) and node.inputs[0].ndim == len(
                op.idx_list
            )
            return joined if fits else None
        return None
    whole = _whole(table, node.inputs[0], table.shape[-1])
    places, opened = _places(op, node, 1)
    if whole is None or (any(opened) and isinstance(op, AdvancedSubtensor)):
        return None
    if any(is_open and isinstance(entry, slice) for is_open, entry in zip(opened, op.idx_list, strict=True)):
        return None
    picked = whole[tuple(places)]
    axes = [is_open for is_open, place in zip(opened, places, strict=True) if isinstance(place, slice)]
    picked = picked.any(axis=tuple(np.flatnonzero(axes).tolist())) if any(axes) else picked
    return picked | _union(positions, 0) if any(one is not None for one in positions) else np.asarray(picked)


@_read.register(IncSubtensor)
@_read.register(AdvancedIncSubtensor)
def _(op: Any, node: Any, inputs: list[Reads | None]) -> Reads | None:
    """Assignment or increment: only elements at places that may change read more than before."""
    table, change, *positions = inputs
    parts = _union(inputs, 0).size
    whole = _whole(table, node.inputs[0], parts)
    if whole is None:
        return None
    places, opened = _places(op, node, 2)
    every = not any(opened)
    if not every and any(isinstance(one, np.ndarray) for one in places):
        places = [slice(None) if isinstance(one, np.ndarray) else one for one in places]
    replaced = np.array(whole)
    if every and all(one is None for one in positions):
        rows = np.zeros(parts, dtype=bool) if change is None else change
        replaced[tuple(places)] = rows if op.set_instead_of_inc else replaced[tuple(places)] | rows
    else:
        replaced[tuple(places)] |= (
            _union([change, *positions], 0) if any(x is not None for x in (change, *positions)) else False
        )
    return replaced
