"""A count whose law is a table: one row of log weights for each thing it may depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.distributions.distribution import Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adversary.models.noise import draws_of, float64


class TabulatedRV(RandomVariable):
    """Draws of `Tabulated`."""

    name = "tabulated"
    signature = "(r,n),(),()->()"
    dtype = "int64"
    _print_name = ("Tabulated", "\\operatorname{Tabulated}")

    @classmethod
    def rng_fn(
        cls, rng: np.random.Generator, log_table: Any, row: Any, start: Any, size: Any = None
    ) -> NDArray[np.int64]:
        shape = np.shape(row) if size is None else tuple(size)
        weights = log_table.reshape(log_table.shape[-2:])[np.broadcast_to(row, shape)]
        top = weights.max(axis=-1, keepdims=True)
        if np.isneginf(top).any():
            raise ValueError("a count was drawn that the next belief rules out: this model has no prior to draw from")
        cumulative = np.cumsum(np.exp(weights - top), axis=-1)
        draws = (cumulative <= rng.random((*shape, 1)) * cumulative[..., -1:]).sum(axis=-1)
        return np.asarray(start + draws, dtype=np.int64)


@draws_of(TabulatedRV)
def _tabulated(rng: Any, log_table: Any, row: int, start: int) -> int:
    weights = log_table[row] - log_table[row].max()
    if not np.isfinite(log_table[row].max()):
        raise ValueError("a count was drawn that the next belief rules out: this model has no prior to draw from")
    cumulative = np.cumsum(np.exp(weights))
    return int(start + np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


class Tabulated(Discrete):
    r"""A count with :math:`\log P(k) = t_{r, k - s}` for k = s, s + 1, ..., s + n - 1: row r of a fixed table.

    Rows are taken as they are, so a row of minus infinities excludes its r, and rows of an improper law may have
    different masses; draws normalise each row.

    Parameters
    ----------
    log_table : array_like, shape (rows, n)
        Log probabilities (nats).
    row : tensor_like of int
        The row r; outside 0..rows-1 nothing is possible.
    start : int
        The first count s.
    """

    rv_op = TabulatedRV()

    @classmethod
    def dist(cls, log_table: ArrayLike, row: Any = 0, *, start: int = 0, **kwargs: Any) -> TensorVariable:
        table = np.atleast_2d(np.asarray(log_table, dtype=np.float64))
        return super().dist([float64(table), pt.as_tensor(row).astype("int64"), pt.constant(np.int64(start))], **kwargs)

    def support_point(rv: Any, size: Any, log_table: Any, row: Any, start: Any) -> TensorVariable:
        del rv
        modes = pt.argmax(log_table, axis=-1).ravel()
        mode = start + pt.take(modes, pt.clip(row, 0, modes.shape[0] - 1))
        return mode if rv_size_is_none(size) else pt.full(size, mode)

    def logp(value: Any, log_table: Any, row: Any, start: Any) -> TensorVariable:
        rows, n = log_table.shape[-2:]
        place = value - start
        possible = (place >= 0) & (place < n) & (row >= 0) & (row < rows)
        index = pt.clip(row, 0, rows - 1) * n + pt.clip(place, 0, n - 1)
        entry = pt.take(log_table.ravel(), index.astype("int64")[..., None])[..., 0]
        return pt.switch(possible, entry, np.float64(-np.inf))
