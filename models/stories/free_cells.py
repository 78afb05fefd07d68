"""Free cells of a table with known margins, as one discrete vector of a PyMC model.

The cells of all rows but the last and all columns but the last are free; the margins determine the others. So every
draw and every step satisfies the margins. A table with a negative cell has probability zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adversary._core import log_sum_exp
from adversary.adversaries.known_totals import TablePrior, cell_bounds, conforming_tables, random_tables
from adversary.models.noise import draws_of, float64

# Number of tables above which prior draws need a uniform distribution over databases.
LARGEST_DRAWN = 200_000

TOO_MANY = (
    f"more than {LARGEST_DRAWN} tables have these margins: too many to draw from before a release, unless every "
    "database is equally likely"
)


def completed_table(free: Any, rows: Any, columns: Any) -> TensorVariable:
    """Graph of the full table (r, c) from its free cells ((r - 1)(c - 1),), row by row.

    Every free cell has one move: +1 there and in the last corner, -1 at the end of its row and of its column. The table
    is written as a sum of products, because PyTensor then knows which batch axes broadcast.
    """
    r, c = rows.type.shape[0], columns.type.shape[0]
    moves = np.einsum("ai,bj->abij", _differences(r), _differences(c)).reshape(-1, r, c)
    in_last_row, in_last_column = np.eye(r, dtype=np.int64)[:, -1:], np.eye(c, dtype=np.int64)[-1]
    last_column = pt.concatenate([rows[:-1], (rows[-1] - columns[:-1].sum())[None]])
    last_row = pt.concatenate([columns[:-1], pt.zeros_like(columns[-1:])])
    return last_column[:, None] * in_last_column + in_last_row * last_row + (free[:, None, None] * moves).sum(0)


def _differences(size: int) -> NDArray[np.int64]:
    """Rows e_a - e_last, for every a but the last."""
    difference = np.eye(size, dtype=np.int64)[:-1]
    difference[:, -1] = -1
    return difference


def free_bounds(rows: Any, columns: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Smallest and largest value of each free cell of a table with known margins (Frechet bounds).

    Parameters
    ----------
    rows, columns : margins, whole numbers of shapes (r,) and (c,) with the same total

    Returns
    -------
    (low, high) : each ((r - 1) (c - 1),), row by row.

    >>> [bound.tolist() for bound in free_bounds([3, 2], [2, 2, 1])]
    [[0, 0], [2, 2]]
    """
    low, high = (bound[:-1, :-1].ravel() for bound in cell_bounds(rows, columns))
    return low, high


class FreeCellsRV(RandomVariable):
    """Draws of `FreeCells`."""

    name = "free_cells"
    signature = "(r),(c),(r,c,n),(),(),(k,f),(k)->(f)"
    dtype = "int64"
    _print_name = ("FreeCells", "\\operatorname{FreeCells}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, *parameters: Any) -> NDArray[np.int64]:
        rows, columns, _, _, uniform, listed, cumulative, size = parameters
        shape = () if size is None else tuple(size)
        number, free = int(np.prod(shape)), listed.shape[-1]
        if np.all(uniform):
            tables = random_tables(rows.reshape(rows.shape[-1]), columns.reshape(columns.shape[-1]), number, rng)
            return tables[:, :-1, :-1].reshape(*shape, free)
        if not cumulative.size:
            raise ValueError(TOO_MANY)
        law = cumulative.reshape(cumulative.shape[-1])
        places = np.searchsorted(law, rng.random(number) * law[-1], side="right")
        return np.asarray(listed.reshape(-1, free)[places]).reshape(*shape, free)


@draws_of(FreeCellsRV)
def _free_cells(
    rng: Any, rows: Any, columns: Any, terms: Any, log_total: float, uniform: int, listed: Any, cumulative: Any
) -> Any:
    """Draw a listed table; under a uniform prior over databases, pair the records' two features at random."""
    if uniform:
        paired, table = np.repeat(np.arange(columns.size), columns), np.zeros((rows.size, columns.size), dtype=np.int64)
        rng.shuffle(paired)
        record = 0
        for i in range(rows.size):
            for _ in range(rows[i]):
                table[i, paired[record]] += 1
                record += 1
        return np.ascontiguousarray(table[:-1, :-1]).ravel()
    if not cumulative.size:
        raise ValueError(TOO_MANY)
    return listed[np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")]


class FreeCells(Discrete):
    r"""Free cells of a table of counts with known margins: :math:`\log P = \sum_{ij} t_{ij}(x_{ij}) - \log Z`.

    Parameters
    ----------
    prior : TablePrior
        Prior with the terms :math:`t_{ij}`; :math:`x \log \pi_{ij} - \log x!` for independent records.
    rows, columns : array_like of int
        Margins (people), at least two of each.

    Notes
    -----
    The distribution is normalised if the tables can be listed or every database is equally likely. Otherwise Z is set
    to 1: the log evidence is then known up to a constant, and prior draws are refused.
    """

    rv_op = FreeCellsRV()

    @classmethod
    def dist(cls, prior: TablePrior, rows: Any, columns: Any, **kwargs: Any) -> TensorVariable:
        r, c = (np.asarray(margin, dtype=np.int64) for margin in (rows, columns))
        terms = prior.cell_terms(int(cell_bounds(r, c)[1].max()))
        total, free = prior.log_total(r, c), (r.size - 1) * (c.size - 1)
        tables = conforming_tables(r, c, LARGEST_DRAWN) if total is None else None
        listed = np.empty((0, free), dtype=np.int64) if tables is None else tables[:, :-1, :-1].reshape(-1, free)
        log_weight = np.empty(0) if tables is None else prior.log_weight(tables)
        if total is None:
            total = 0.0 if tables is None else float(log_sum_exp(log_weight))
        if np.isneginf(total):
            raise ValueError("the prior gives probability 0 to every table with these margins")
        law = [float64(terms), float64(total), pt.constant(np.int64(prior.independent_features))]
        drawn = [pt.constant(listed), float64(np.cumsum(np.exp(log_weight - total)))]
        return super().dist([pt.constant(r), pt.constant(c), *law, *drawn], **kwargs)

    def support_point(rv: Any, size: Any, rows: Any, columns: Any, *rest: Any) -> Any:
        """North-west corner rule: as much as fits in each cell, row by row."""
        del rv, rest
        above, left = pt.cumsum(rows), pt.cumsum(columns)
        filled = pt.minimum(above[:, None], left[None])
        upper = pt.concatenate([pt.zeros_like(filled[:1]), filled[:-1]], axis=0)
        part = filled - upper
        table = part - pt.concatenate([pt.zeros_like(part[:, :1]), part[:, :-1]], axis=1)
        corner = table[:-1, :-1].ravel()
        return corner if rv_size_is_none(size) else pt.full((*size, corner.shape[0]), corner)

    def logp(value: Any, rows: Any, columns: Any, terms: Any, log_total: Any, *drawn: Any) -> TensorVariable:
        del drawn
        table, counts = completed_table(value, rows, columns), terms.shape[-1]
        inside = pt.clip(table, 0, counts - 1)
        first = pt.arange(terms.shape[0] * terms.shape[1]).reshape(terms.shape[:2]) * counts
        total = terms.ravel()[(first + inside).astype("int64")].sum() - log_total
        return pt.switch(pt.all(pt.eq(table, inside)), total, np.float64(-np.inf))
