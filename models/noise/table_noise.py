"""The release of a whole table by a mechanism that has one density for all its cells, as a PyMC variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from pytensor.tensor.variable import TensorVariable

from adversary.privacy.invariants import VectorNoise

from .lattice_laws import float64


class TableLogProb(Op):
    """`mechanism.log_prob(release, table)` of tables (..., rows, columns) in a graph, in NumPy; its own batch version.

    It returns (...), broadcast. No gradient.
    """

    __props__ = ("mechanism",)

    def __init__(self, mechanism: VectorNoise) -> None:
        self.mechanism = mechanism

    def make_node(self, release: TensorVariable, table: TensorVariable) -> Apply:
        inputs = [pt.as_tensor_variable(x) for x in (release, table)]
        rank = max(x.ndim for x in inputs)
        padded = [pt.shape_padleft(x, rank - x.ndim) if x.ndim < rank else x for x in inputs]
        shape = tuple(1 if all(x.type.shape[k] == 1 for x in padded) else None for k in range(rank - 2))
        return Apply(self, padded, [pt.tensor(dtype="float64", shape=shape)])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        release, table = (x.reshape(*x.shape[:-2], -1) for x in inputs)
        outputs[0][0] = np.asarray(self.mechanism.log_prob(release, table), dtype=np.float64)


def _batch(op: TableLogProb, node: Apply, *batched: TensorVariable) -> Apply:
    del node
    return op.make_node(*batched)


_vectorize_node.register(TableLogProb, _batch)


def released_together(name: str, mechanism: VectorNoise, table: Any, **kwargs: Any) -> TensorVariable:
    """The noisy table as a variable of the model in context, for a mechanism with one joint density of all cells.

    Parameters
    ----------
    name : name of the variable
    mechanism : noise of the whole table, its shape (rows, columns)
    table : true table, tensor (rows, columns)
    **kwargs : passed to `pm.CustomDist`: `dims`, `observed`

    Returns
    -------
    TensorVariable, (rows, columns), float64. Its log density is that of `mechanism`, without a gradient.
    """

    def logp(release: TensorVariable, true: TensorVariable) -> TensorVariable:
        return TableLogProb(mechanism)(release, true)

    def random(true: Any, rng: np.random.Generator | None = None, size: Any = None) -> Any:
        shape = np.shape(true) if size is None else (*size, *np.shape(true)[-2:])
        cells = np.broadcast_to(true, shape).reshape(*shape[:-2], -1)
        return np.asarray(mechanism.sample(cells, np.random.default_rng(rng))).reshape(shape)

    return pm.CustomDist(
        name, float64(table), logp=logp, random=random, signature="(r,c)->(r,c)", dtype="float64",
        class_name=type(mechanism).__name__, **kwargs,
    )  # fmt: skip
