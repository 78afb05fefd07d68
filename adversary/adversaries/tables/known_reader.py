r"""The adversary who knows all other records: every query of every unit on the target's path, exactly.

Given everybody else, a query's answer differs by 1 between the hypotheses in two rows: the row of the target's cell if
in, and the row of the target's cell if out. If both are the same row, nothing differs. Noise is independent, so log
Bayes factors add over queries and units:

.. math:: \log \text{BF} = \sum_{u, q} \log \frac{P(y_{u,q,j} \mid o_j + 1)}{P(y_{u,q,j} \mid o_j)}
          + \log \frac{P(y_{u,q,i} \mid o_i)}{P(y_{u,q,i} \mid o_i + 1)}

with o the answer without the target, j the row if in and i the row if out. `path_loss` is the distribution of this sum
over releases. For an adversary who knows the target's block only, use a plan with `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import as_array, check_whole, refuse_rounded
from adversary.adversaries.tables.query import Query, check_queries, flat_cell
from adversary.privacy.losses import PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism

Noise = Mapping[str, Mechanism | Sequence[Mechanism]]


def log_bayes_factor(
    queries: Sequence[Query],
    released: Mapping[str, ArrayLike],
    noise: Noise,
    others: ArrayLike,
    present: Any,
    absent: Any = None,
) -> Any:
    """Log Bayes factor of one release for the adversary who knows everybody else in these units.

    Parameters
    ----------
    queries : queries of one histogram, the same as in `released` and `noise`
    released : by name of the query, noisy answers (row,) of one unit or (unit, row) of the units on the target's path
    noise : by name of the query, one mechanism, or one per unit
    others : counts of people other than the target, (cell,) or (unit, cell), cells flat or as axes
    present : cell of the target if in, a flat index or one index per axis
    absent : cell of the target if out; None if the target is then counted nowhere

    Returns
    -------
    Nats, log P(release | in) - log P(release | out): one number, or (unit,), to be summed over the units of the path.
    NaN if both probabilities are zero

    Raises
    ------
    ValueError : queries without answers or noise, wrong shapes, counts that are negative or not whole

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> total, sexes = Query("total", ((0, 0),)), Query("sex", ((0, 1),))
    >>> noise = {"total": DiscreteGaussian(1.0), "sex": DiscreteGaussian(2.0)}
    >>> log_bayes_factor([total, sexes], {"total": [4], "sex": [2, 1]}, noise, [1, 1], present=0)
    1.625
    """
    shape = check_queries(queries, released=released, noise=noise)
    known = check_whole("others", others, minimum=0)
    known = known.reshape(*known.shape[: known.ndim - len(shape)], -1) if known.shape[-len(shape) :] == shape else known
    if known.ndim not in (1, 2) or known.shape[-1] != int(np.prod(shape)):
        raise ValueError(f"others must be (cell,) or (unit, cell) of a histogram of shape {shape}, got {known.shape}")
    units = 1 if known.ndim == 1 else known.shape[0]
    factor = np.zeros(units)
    for query in queries:
        refuse_rounded(f"released of {query.name!r}", released[query.name])
        answers = as_array(released[query.name]).reshape(-1, query.size)
        if answers.shape[0] != units:
            raise ValueError(f"released of {query.name!r} must be of {units} units, got {answers.shape[0]}")
        without = query.answer(np.atleast_2d(known))
        for row, sign in _rows_that_differ(query, present, absent):
            for u, mechanism in enumerate(_noise_by_unit(query.name, noise, units)):
                one = mechanism.log_ratio(answers[u, row], without[u, row] + 1, without[u, row])
                factor[u] += sign * float(one)
    return float(factor[0]) if known.ndim == 1 else factor


def path_loss(queries: Sequence[Query], noise: Noise, present: Any, absent: Any = None) -> PrivacyLoss:
    """Distribution over releases of the log Bayes factor of the adversary who knows everybody else.

    Parameters
    ----------
    queries : queries of one histogram
    noise : by name of the query, one mechanism, or one per unit on the target's path
    present, absent : cells of the target if in and if out, as for `log_bayes_factor`

    Returns
    -------
    PrivacyLoss, composed of one loss per row that differs; `.posterior(prior)` is the distribution of the posterior

    References
    ----------
    Kifer et al. 2022, section 8: rows that both cells share do not differ.

    >>> from adversary.privacy.mechanisms import Gaussian
    >>> queries = [Query("total", ((0, 0),)), Query("sex", ((0, 1),))]
    >>> round(path_loss(queries, {"total": Gaussian(1.0), "sex": Gaussian(1.0)}, present=0, absent=1).mu, 4)
    1.4142
    """
    check_queries(queries, noise=noise)
    return compose_losses(
        [
            mechanism.privacy_loss(sensitivity=1, cells=moved)
            for query in queries
            if (moved := len(_rows_that_differ(query, present, absent)))
            for mechanism in _noise_by_unit(query.name, noise, None)
        ]
    )


def _rows_that_differ(query: Query, present: Any, absent: Any) -> list[tuple[int, int]]:
    """(row, sign) of the rows in which the hypotheses differ: +1 where the target is counted if in."""
    shape = query.histogram_shape
    rows = [(int(query.rows[flat_cell(present, shape, "present")]), 1)]
    if absent is not None:
        rows.append((int(query.rows[flat_cell(absent, shape, "absent")]), -1))
    return rows if len({row for row, _ in rows}) == len(rows) else []


def _noise_by_unit(name: str, noise: Noise, units: int | None) -> list[Mechanism]:
    """The noise of a query in every unit."""
    given = noise[name]
    several = [given] * (units or 1) if isinstance(given, Mechanism) else list(given)
    for mechanism in several:
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"noise of {name!r} must be a Mechanism, got {mechanism!r}")
    if units is not None and len(several) != units:
        raise ValueError(f"noise of {name!r} must be one mechanism, or one for each of {units} units")
    return several
