"""Vectorization of PyTensor graphs: from one point to batches of points, in double precision.

Enumeration, importance sampling and NUTS share `vectorize`: the model's own log density over batches of states, draws
and releases. PyTensor's float32 and int8 constants are widened, because it would compute their logs in low precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import _vectorize_node
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import graph_inputs, toposort, truncated_graph_inputs
from pytensor.scalar.basic import GE, LE, Exp, Neg, Switch
from pytensor.scalar.math import Log1mexp, Sigmoid, Softplus
from pytensor.tensor.basic import Join, get_underlying_scalar_constant_value
from pytensor.tensor.blas import Dot22
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorConstant, TensorVariable

Compiled = Callable[..., list[NDArray[Any]]]


@node_rewriter([Elemwise])  # type: ignore[untyped-decorator]
def _in_ufuncs(fgraph: Any, node: Any) -> list[Variable] | None:
    """softplus and log1mexp by NumPy functions: PyTensor would call its own in Python per number, 30 times as slow."""
    del fgraph
    x = node.inputs[0]
    match node.op.scalar_op:
        case Softplus():
            return [pt.maximum(x, 0.0) + pt.log1p(pt.exp(-abs(x)))]
        case Log1mexp():
            return [pt.switch(x < -np.log(2.0), pt.log1p(-pt.exp(x)), pt.log(-pt.expm1(x)))]
    return None


@node_rewriter([Elemwise])  # type: ignore[untyped-decorator]
def _chosen_first(fgraph: Any, node: Any) -> list[Variable] | None:
    """switch(c, f(a), f(b)) becomes f(switch(c, a, b)), one call of f: it halves the cost of Bernoulli likelihoods."""
    del fgraph
    if not isinstance(node.op.scalar_op, Switch):
        return None
    condition, *branches = node.inputs
    ops: list[Any] = [one.owner.op if one.owner is not None else None for one in branches]
    alike = all(isinstance(op, Elemwise) and len(one.owner.inputs) == 1 for op, one in zip(ops, branches, strict=True))
    if not alike or ops[0] != ops[1]:
        return None
    chosen = ops[0](pt.switch(condition, *(one.owner.inputs[0] for one in branches)))
    return [chosen] if chosen.dtype == node.outputs[0].dtype else None


@node_rewriter([Elemwise])  # type: ignore[untyped-decorator]
def _always_so(fgraph: Any, node: Any) -> list[Variable] | None:
    """Drop range checks of sigmoid(x) and exp(x), which hold for every x but NaN; x == x keeps the check for NaN."""
    del fgraph
    if not isinstance(node.op.scalar_op, GE | LE):
        return None
    value, limit = node.inputs
    inner = getattr(value.owner, "op", None)
    bound = get_underlying_scalar_constant_value(limit, raise_not_constant=False)
    if not isinstance(inner, Elemwise) or isinstance(bound, Variable):
        return None
    if value.type.broadcastable != node.outputs[0].type.broadcastable:
        return None
    least = isinstance(node.op.scalar_op, GE) and bound <= 0 and isinstance(inner.scalar_op, Sigmoid | Exp)
    most = isinstance(node.op.scalar_op, LE) and bound >= 1 and isinstance(inner.scalar_op, Sigmoid)
    x = value.owner.inputs[0] if least or most else None
    return None if x is None else [pt.eq(x, x)]


@node_rewriter([Elemwise])  # type: ignore[untyped-decorator]
def _with_sign(fgraph: Any, node: Any) -> list[Variable] | None:
    """switch(c, x, -x) with constant c becomes x times a sign: a product takes a fifth of the time of a switch."""
    del fgraph
    if not isinstance(node.op.scalar_op, Switch) or not isinstance(node.inputs[0], TensorConstant):
        return None
    condition, *branches = node.inputs
    for x, other, sign in ((*branches, 1.0), (*branches[::-1], -1.0)):
        inner = getattr(other.owner, "op", None)
        if isinstance(inner, Elemwise) and isinstance(inner.scalar_op, Neg) and other.owner.inputs[0] is x:
            signs = np.where(condition.data != 0, sign, -sign).astype(x.dtype)
            return [x * pt.constant(signs)] if x.dtype == node.outputs[0].dtype and x.dtype[0] == "f" else None
    return None


@node_rewriter([Sum])  # type: ignore[untyped-decorator]
def _all_at_once(fgraph: Any, node: Any) -> list[Variable] | None:
    """sum(switch(c, 0, -inf)) becomes switch(all(c), 0, -inf): a reduction of booleans, not of floats."""
    del fgraph
    inner = getattr(node.inputs[0].owner, "op", None)
    if not isinstance(inner, Elemwise) or not isinstance(inner.scalar_op, Switch):
        return None
    condition, *branches = node.inputs[0].owner.inputs
    ends = [get_underlying_scalar_constant_value(one, raise_not_constant=False) for one in branches]
    if any(isinstance(one, Variable) for one in ends) or [float(one) for one in ends] != [0.0, -np.inf]:
        return None
    if condition.type.broadcastable != node.inputs[0].type.broadcastable or condition.dtype != "bool":
        return None
    holds = pt.all(condition, axis=node.op.axis)
    return [pt.switch(holds, *(pt.constant(np.asarray(one, node.outputs[0].dtype)) for one in ends))]


@node_rewriter([DimShuffle])  # type: ignore[untyped-decorator]
def _transposed(fgraph: Any, node: Any) -> list[Variable] | None:
    """(A B)' becomes B' A', whose rows are contiguous in memory."""
    product = node.inputs[0]
    order = [place for place in node.op.new_order if place != "x"]
    if order != [1, 0] or getattr(product.owner, "op", None) != Dot22() or len(fgraph.clients[product]) > 1:
        return None
    left, right = product.owner.inputs
    turned = [0 if place == 1 else 1 if place == 0 else "x" for place in node.op.new_order]
    return [Dot22()(right.T, left.T).dimshuffle(*turned)]


_OWN = (_chosen_first, _always_so, _with_sign, _all_at_once, _transposed, _in_ufuncs)
NUMPY_MODE = (
    Mode(linker="py", optimizer="fast_run")
    .excluding("fusion")
    .register(*((in2out(one), 47.9 + 0.01 * i) for i, one in enumerate(_OWN)))
)
"""Mode of plain NumPy with all rewrites: it compiles in milliseconds and is as fast as Numba on large arrays."""


def soft_checks(graph: TensorVariable) -> TensorVariable:
    """Replace parameter checks by minus infinity for each state: an exception at one state would fail the whole batch.

    Parameters
    ----------
    graph : a tensor of one point

    Returns
    -------
    A copy of the graph without checks that raise.
    """
    inputs = [i for i in graph_inputs([graph]) if not isinstance(i, Constant)]
    fgraph = FunctionGraph(inputs, [graph], clone=True, copy_inputs=False)
    open_operations(fgraph)
    return fgraph.outputs[0]


def open_operations(fgraph: FunctionGraph) -> None:
    """Inline every operation that is itself a graph (logsumexp, a mixture's draw).

    Failed parameter checks become minus infinity.

    Parameters
    ----------
    fgraph : changed in place
    """
    in2out(local_check_parameter_to_ninf_switch).rewrite(fgraph)
    in2out(_inline_graph, ignore_newtrees=False).rewrite(fgraph)


@node_rewriter([OpFromGraph])  # type: ignore[untyped-decorator]
def _inline_graph(fgraph: Any, node: Any) -> list[Variable]:
    """Inline one operation written as a graph (logsumexp, logaddexp): PyTensor would run its batches item by item."""
    del fgraph
    inner = node.op.fgraph
    new: dict[Any, Any] = dict(zip(inner.inputs, node.inputs, strict=True))
    for part in inner.toposort():
        fixed = {i: pt.constant(i.data, dtype=i.dtype) for i in part.inputs if isinstance(i, TensorConstant)}
        inputs = [new.get(i, fixed.get(i, i)) for i in part.inputs]
        new |= zip(part.outputs, part.op.make_node(*inputs).outputs, strict=True)
    return [new[output] for output in inner.outputs]


_WIDE = {"float16": "float64", "float32": "float64", "int8": "int64", "int16": "int64", "int32": "int64"}


def _in_double(graphs: Sequence[TensorVariable]) -> dict[TensorVariable, TensorVariable]:
    """Small constants and their 64-bit copies: PyTensor stores 2.0 as float32 and 60 as int8, and logs inherit that."""
    constants = {i for i in graph_inputs(graphs) if isinstance(i, TensorConstant) and i.dtype in _WIDE}
    return {c: pt.constant(c.data.astype(_WIDE[c.dtype])) for c in constants}


def sum_terms(terms: Sequence[TensorVariable]) -> TensorVariable:
    """Sum of all entries of all terms, in float64 whatever their type.

    Parameters
    ----------
    terms : tensors of any shape; an empty sequence gives 0

    Returns
    -------
    Scalar float64 tensor.

    >>> float(sum_terms([pt.constant([1.0, 2.0]), pt.constant(3)]).eval())
    6.0
    """
    return sum((pt.sum(term, dtype="float64") for term in terms), start=pt.constant(np.float64(0)))


def vectorize(
    graphs: Sequence[TensorVariable], replacements: Mapping[TensorVariable, TensorVariable]
) -> list[TensorVariable]:
    """Graphs of one point turned into graphs over batches, in double precision.

    Failed parameter checks become minus infinity for their own entry of the batch only.

    Parameters
    ----------
    graphs : tensors of one point
    replacements : input of the graphs to the variable that takes its place, with more leading axes

    Returns
    -------
    One tensor per graph, the batch axes first.

    >>> x, many = pt.dscalar(), pt.dvector()
    >>> vectorize([x**2], {x: many})[0].eval({many: [1.0, 3.0]}).tolist()
    [1.0, 9.0]
    """
    soft = [soft_checks(graph) for graph in graphs]
    replaced = {**_in_double(soft), **replacements}
    inputs = truncated_graph_inputs(soft, ancestors_to_include=replaced)
    new: dict[Any, Any] = {i: replaced.get(i, i) for i in inputs}
    for node in toposort(soft, blockers=inputs):
        new |= zip(node.outputs, vectorized_node(node, [new.get(i, i) for i in node.inputs]), strict=True)
    return [new[graph] for graph in soft]


def compile_batches(
    graphs: Sequence[TensorVariable],
    leading: Mapping[Any, tuple[int | None, ...]],
    held: Mapping[Any, TensorVariable] | None = None,
    joined: Callable[[list[TensorVariable]], list[TensorVariable]] | None = None,
) -> Compiled:
    """Compile graphs of one point for batches, in plain NumPy.

    Parameters
    ----------
    graphs : tensors of one point
    leading : for each input, in the order of the function's arguments, the sizes of its leading axes; None if unknown
    held : replacements of other inputs, with leading axes of their own
    joined : function from the graphs over batches to the outputs of the compiled function; default: those graphs

    Returns
    -------
    A function of arrays (*leading, *shape), one for each input, that returns an array (*leading, *shape) per graph.

    >>> x, y = pt.dscalars("x", "y")
    >>> compile_batches([x + y], {x: (None,)}, {y: pt.constant(1.0)})(np.array([1.0, 3.0]))[0].tolist()
    [2.0, 4.0]
    """
    places = batch_inputs(leading)
    outputs = vectorize(graphs, {**(held or {}), **places})
    outputs = joined(outputs) if joined else outputs
    compiled: Compiled = pytensor.function([*places.values()], outputs, mode=NUMPY_MODE, on_unused_input="ignore")
    return compiled


def batch_inputs(leading: Mapping[Any, tuple[int | None, ...]]) -> dict[Any, TensorVariable]:
    """Inputs over batches, in double precision.

    Parameters
    ----------
    leading : for each input of one point, the sizes of its leading axes; None if unknown

    Returns
    -------
    For each input, a variable with these leading axes before its own.
    """
    kinds = {v: _WIDE.get(v.dtype, v.dtype) for v in leading}
    return {v: pt.tensor(dtype=kinds[v], shape=(*axes, *v.type.shape)) for v, axes in leading.items()}


def vectorized_node(node: Any, batches: Sequence[Any]) -> list[Any]:
    """Outputs of one operation whose inputs have more leading axes.

    Parameters
    ----------
    node : the operation applied to one point
    batches : its inputs, of one point or of many

    Returns
    -------
    One variable per output, the batch axes first.
    """
    own = _looked_up(node, batches) or _joined(node, batches) or _reshaped(node, batches)
    outputs = own or _vectorize_node(node.op, node, *batches)
    return list(getattr(outputs, "outputs", outputs))


def _looked_up(node: Any, batches: Sequence[Any]) -> list[TensorVariable] | None:
    """Indexing of a fixed table by batches of positions, as one array operation: PyTensor would loop over states."""
    if not isinstance(node.op, Subtensor | AdvancedSubtensor) or any(isinstance(i, slice) for i in node.op.idx_list):
        return None
    table, *positions = (pt.as_tensor_variable(b) for b in batches)
    ranks = {getattr(i, "ndim", 0) for i in node.inputs[1:]}
    if table.ndim > node.inputs[0].ndim or len(ranks) != 1 or any(i.dtype == "bool" for i in positions):
        return None
    return [table[tuple(positions)]]


def _joined(node: Any, batches: Sequence[Any]) -> list[TensorVariable] | None:
    """Concatenation of tensors with unequal batch axes, broadcast first: PyTensor would loop over the states."""
    if not isinstance(node.op, Join):
        return None
    lead = max(batch.ndim - old.ndim for batch, old in zip(batches, node.inputs, strict=True))
    pairs = zip(batches, node.inputs, strict=True)
    padded = [pt.expand_dims(one, tuple(range(lead - one.ndim + old.ndim))) for one, old in pairs]
    longest = [next((one for one in padded if not one.type.broadcastable[i]), padded[0]) for i in range(lead)]
    sizes = [one.type.shape[i] or one.shape[i] for i, one in enumerate(longest)]
    whole = [
        pt.alloc(one, *sizes, *(n or one.shape[lead + i] for i, n in enumerate(one.type.shape[lead:])))
        for one in padded
    ]
    return [pt.join(node.op.axis + lead, *whole)]


def _reshaped(node: Any, batches: Sequence[Any]) -> list[TensorVariable] | None:
    """Reshape that records which batch axes have length one: PyTensor loses this, and broadcasting would fail."""
    if not isinstance(node.op, Reshape) or getattr(batches[1], "ndim", 0) != 1:
        return None
    batch, shape = batches
    lead = batch.ndim - node.inputs[0].ndim
    reshaped = batch.reshape([*(batch.shape[i] for i in range(lead)), *(shape[i] for i in range(node.op.ndim))])
    alike = [i for i in range(lead) if batch.type.broadcastable[i]]
    return [pt.specify_broadcastable(reshaped, *alike) if alike else reshaped]
