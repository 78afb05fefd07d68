"""What enumeration and the Gibbs step ask of a PyMC model: its latents, their supports, its density in batches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.vartypes import discrete_types
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import _vectorize_node
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors, graph_inputs, toposort, truncated_graph_inputs
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BetaBinomialRV,
    BinomialRV,
    CategoricalRV,
    GeometricRV,
    HyperGeometricRV,
    NegBinomialRV,
    PoissonRV,
)
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorConstant, TensorVariable

from .tables import TabulatedRV

__all__ = [
    "NUMPY_MODE",
    "Conditioned",
    "Values",
    "batched",
    "condition",
    "end_values",
    "summed",
    "support_of",
    "vectorized",
]

Values = NDArray[np.int64]

NUMPY_MODE = Mode(linker="py", optimizer="fast_run").excluding("fusion")
"""Plain NumPy with all rewrites: compiles in milliseconds, and as fast as Numba on large arrays."""

_LARGEST_HULL = 20_000

_BOUNDS: dict[type, Callable[..., tuple[Any, Any]]] = {
    BinomialRV: lambda n, p: (0 * n, n),
    BetaBinomialRV: lambda n, alpha, beta: (0 * n, n),
    HyperGeometricRV: lambda good, bad, drawn: (np.maximum(0, drawn - bad), np.minimum(good, drawn)),
    DiscreteUniformRV: lambda lower, upper: (lower, upper),
    DiracDeltaRV: lambda c: (c, c),
}
"""Smallest and largest value of a finite law from its parameters."""

_STARTS: dict[type, int] = {PoissonRV: 0, NegBinomialRV: 0, GeometricRV: 1}
"""Where a law that is not finite begins by itself."""


@dataclass(frozen=True)
class Conditioned:
    """A model whose released variables are inputs; `released` and `latents` hold the variables to fill in, by name."""

    model: pm.Model
    released: dict[str, TensorVariable]
    latents: dict[str, TensorVariable]

    def log_joint(self) -> TensorVariable:
        """Log density of latents and release together."""
        return summed(self.model.logp(sum=False))

    def log_prior(self) -> TensorVariable:
        """The latents' own terms, and the potentials that do not depend on the release."""
        values = self.model.replace_rvs_by_values(self.model.potentials)
        kept = [p for p, v in zip(self.model.potentials, values, strict=True) if not self.uses_release(v)]
        return summed(self.model.logp(vars=[*self.model.free_RVs, *kept], sum=False))

    @property
    def moving(self) -> set[Variable]:
        """What a support must not depend on."""
        return {*self.model.basic_RVs, *self.released.values()}

    def uses_release(self, variable: TensorVariable) -> bool:
        return not set(self.released.values()).isdisjoint(ancestors([variable]))

    def values_of(self, name: str) -> TensorVariable:
        """A latent or Deterministic as a function of the latents' values."""
        (graph,) = self.model.replace_rvs_by_values([self.model[name]])
        if self.uses_release(graph):
            raise ValueError(f"target {name} depends on the release; a target must be a function of the latents")
        return graph


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def condition(model: pm.Model, observed: Sequence[str]) -> Conditioned:
    """`model` with the variables named in `observed` turned into inputs; every other free variable must be discrete."""
    data = {v.name for v in model.data_vars}
    random = {v.name for v in [*model.basic_RVs, *model.deterministics]}
    for name in observed:
        if name not in data | random:
            raise ValueError(f"observed {name!r} is not in the model, which has {_listed(sorted(random | data))}")
    placeholders = {name: model[name].type(name) for name in observed if name in random}
    given = pm.observe(model, placeholders) if placeholders else model
    for rv in given.free_RVs:
        if rv.dtype not in discrete_types:
            raise TypeError(
                f"latent {rv.name!r} is continuous ({rv.dtype}) and cannot be enumerated; "
                "if it was released, name it in observed"
            )
    if not given.free_RVs:
        raise ValueError("the model has no latents left to enumerate")
    released = {name: placeholders.get(name, given[name]) for name in observed}
    return Conditioned(given, released, {rv.name: given.rvs_to_values[rv] for rv in given.free_RVs})


def _number(graph: Any) -> NDArray[Any]:
    """Value of a graph without random variables."""
    return np.asarray(pytensor.function([], graph, mode=NUMPY_MODE, on_unused_input="ignore")())


def _parameters(rv: TensorVariable) -> list[TensorVariable]:
    node = rv.owner
    dist_params = getattr(node.op, "dist_params", None)
    return list(dist_params(node)) if dist_params else list(node.inputs[-1:])


def support_of(
    rv: TensorVariable, given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> tuple[tuple[int, ...], list[Values]]:
    """Shape of a latent and the values each of its cells may take, in order.

    Taken from `given`, else from the law's own bounds; where these depend on other latents, their hull over all values
    of those. They must not depend on what was released.
    """
    shape = tuple(int(n) for n in _number(rv.shape))
    if rv.name in given:
        values = np.unique(np.asarray(given[rv.name]))
        if values.size == 0 or not np.array_equal(values, np.round(values)):
            raise ValueError(f"support of {rv.name!r} must be a list of whole numbers, got {given[rv.name]!r}")
        return shape, [values.astype(np.int64)] * math.prod(shape)
    lower, upper = (np.broadcast_to(bound, shape).ravel() for bound in _bounds(rv, given, moving))
    return shape, [np.arange(int(a), int(b) + 1) for a, b in zip(lower, upper, strict=True)]


def _bounds(rv: TensorVariable, given: Mapping[str, ArrayLike], moving: Collection[Variable]) -> tuple[Any, Any]:
    kind, parameters = type(rv.owner.op), _parameters(rv)
    if kind is BernoulliRV:
        return 0, 1
    if kind is CategoricalRV:
        return 0, (parameters[0].type.shape[-1] or int(_number(parameters[0].shape[-1]))) - 1
    if kind is TabulatedRV:
        table, _, start = parameters
        return _number(start), _number(start) + int(_number(table.shape[-1])) - 1
    if kind in _BOUNDS and set(moving).isdisjoint(ancestors(parameters)):
        return _BOUNDS[kind](*(_number(p) for p in parameters))
    hull = _hull(_BOUNDS[kind], parameters, given, moving) if kind in _BOUNDS else None
    if hull is not None:
        return hull
    raise ValueError(
        f"latent {rv.name!r} has no finite support of its own: give support={{{rv.name!r}: values}}, "
        "or name it in observed if it was released"
    )


def _hull(
    bounds: Callable[..., tuple[Any, Any]],
    parameters: list[TensorVariable],
    given: Mapping[str, ArrayLike],
    moving: Collection[Variable],
) -> tuple[Any, Any] | None:
    """Smallest and largest bounds over every value of the latents they depend on; None if there are too many."""
    met = truncated_graph_inputs(parameters, ancestors_to_include=set(moving))
    parents = [v for v in met if v in set(moving)]
    if any(v.owner is None or v.dtype not in discrete_types for v in parents):
        return None
    supports = [support_of(v, given, moving) for v in parents]
    axes = [values for _, cells in supports for values in cells]
    if math.prod(len(axis) for axis in axes) > _LARGEST_HULL:
        return None
    places = [v.type() for v in parents]
    evaluate = pytensor.function(
        places, parameters, givens=list(zip(parents, places, strict=True)), mode=NUMPY_MODE, on_unused_input="ignore"
    )
    ends: list[tuple[Any, Any]] = []
    for state in itertools.product(*axes):
        left = iter(state)
        values = [np.array([next(left) for _ in cells]).reshape(shape) for shape, cells in supports]
        ends.append(bounds(*evaluate(*(v.astype(p.dtype) for v, p in zip(values, places, strict=True)))))
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)


def end_values(rv: TensorVariable, values: Values) -> tuple[int, ...]:
    """The ends of a user's support that may cut the law: not the point where a count law starts by itself."""
    start = _STARTS.get(type(rv.owner.op))
    return tuple({int(values[0]), int(values[-1])} - {start})


def _soft_checks(graph: TensorVariable) -> TensorVariable:
    """Parameter checks become minus infinity, state by state: left as they are, one bad state would fail them all."""
    inputs = [i for i in graph_inputs([graph]) if not isinstance(i, Constant)]
    fgraph = FunctionGraph(inputs, [graph], clone=True, copy_inputs=False)
    in2out(local_check_parameter_to_ninf_switch).rewrite(fgraph)
    in2out(_inlined, ignore_newtrees=False).rewrite(fgraph)
    return fgraph.outputs[0]


@node_rewriter([OpFromGraph])  # type: ignore[untyped-decorator]
def _inlined(fgraph: Any, node: Any) -> list[Variable]:
    """An operation written as a graph (logsumexp, logaddexp), opened: in a batch PyTensor would run it item by item."""
    del fgraph
    inner = node.op.fgraph
    new: dict[Any, Any] = dict(zip(inner.inputs, node.inputs, strict=True))
    for part in inner.toposort():
        inputs = [new.get(i, pt.constant(i.data, dtype=i.dtype) if isinstance(i, Constant) else i) for i in part.inputs]
        new |= zip(part.outputs, part.op.make_node(*inputs).outputs, strict=True)
    return [new[output] for output in inner.outputs]


def _in_double(graphs: Sequence[TensorVariable]) -> dict[TensorVariable, TensorVariable]:
    """Small constants and their 64-bit twins: PyTensor reads 2.0 as float32, 60 as int8, and takes their logs so."""
    wide = {"float16": "float64", "float32": "float64", "int8": "int64", "int16": "int64", "int32": "int64"}
    constants = {i for i in graph_inputs(graphs) if isinstance(i, TensorConstant) and i.dtype in wide}
    return {c: pt.constant(c.data.astype(wide[c.dtype])) for c in constants}


def summed(terms: Sequence[TensorVariable]) -> TensorVariable:
    """Sum of all entries of all terms, whatever their type, in float64."""
    return sum((pt.sum(term, dtype="float64") for term in terms), start=pt.constant(np.float64(0)))


def vectorized(
    graphs: Sequence[TensorVariable], replacements: Mapping[TensorVariable, TensorVariable]
) -> list[TensorVariable]:
    """The graphs over batches, in double precision: each key replaced by a variable with added leading axes."""
    soft = [_soft_checks(graph) for graph in graphs]
    replaced = {**_in_double(soft), **replacements}
    inputs = truncated_graph_inputs(soft, ancestors_to_include=replaced)
    new: dict[Any, Any] = {i: replaced.get(i, i) for i in inputs}
    for node in toposort(soft, blockers=inputs):
        batches = [new.get(i, i) for i in node.inputs]
        outputs = _looked_up(node, batches) or _vectorize_node(node.op, node, *batches)
        new |= zip(node.outputs, getattr(outputs, "outputs", outputs), strict=True)
    return [new[graph] for graph in soft]


def _looked_up(node: Any, batches: Sequence[Any]) -> list[TensorVariable] | None:
    """A fixed table indexed by batches of positions, as one array operation: PyTensor would loop over the states."""
    if not isinstance(node.op, Subtensor | AdvancedSubtensor) or any(isinstance(i, slice) for i in node.op.idx_list):
        return None
    table, *positions = (pt.as_tensor_variable(b) for b in batches)
    ranks = {getattr(i, "ndim", 0) for i in node.inputs[1:]}
    if table.ndim > node.inputs[0].ndim or len(ranks) != 1 or any(i.dtype == "bool" for i in positions):
        return None
    return [table[tuple(positions)]]


def batched(conditioned: Conditioned, graphs: Sequence[TensorVariable]) -> Callable[..., list[NDArray[Any]]]:
    """Compile graphs over states and releases.

    Inputs: each latent, shape (states, 1, *shape), then each released variable, (1, releases, *shape). Outputs:
    (states or 1, releases or 1, *shape).
    """
    latents = {v: pt.tensor(dtype=v.dtype, shape=(None, 1, *v.type.shape)) for v in conditioned.latents.values()}
    released = {v: pt.tensor(dtype=v.dtype, shape=(1, None, *v.type.shape)) for v in conditioned.released.values()}
    inputs = {**latents, **released}
    outputs = vectorized(graphs, inputs)
    compiled: Callable[..., list[NDArray[Any]]] = pytensor.function(
        list(inputs.values()), outputs, mode=NUMPY_MODE, on_unused_input="ignore"
    )
    return compiled
