"""Answers to several queries in several units, checked and converted to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, refuse_rounded
from adversary.adversaries.tables.query import Query, check_queries

# Noise variance above which an answer counts as not measured, as in the spine.
LARGEST_VARIANCE = 1e10


class Answers(NamedTuple):
    """Checked answers, per query (unit, row), and variances (unit, query): infinite for not measured, 0 for exact."""

    queries: tuple[Query, ...]
    shape: tuple[int, ...]
    released: tuple[Floats, ...]
    variance: Floats


def check_answers(
    queries: Sequence[Query], released: Mapping[str, ArrayLike], variance: Mapping[str, ArrayLike]
) -> Answers:
    """Check answers and their variances, and convert them to arrays.

    Parameters
    ----------
    queries : queries of one histogram
    released : by name of the query, (unit, row) or (unit, *shape of the query); ignored where the variance is infinite
    variance : by name of the query, one number or (unit,): variance of the noise of every row, people squared; 0 for
        exact, infinite or NaN for not measured

    Returns
    -------
    Answers

    Raises
    ------
    ValueError : a query without answers, answers without a query, a wrong shape, a negative variance, or a measured
        answer that is not finite
    """
    shape = check_queries(queries, released=released, variance=variance)
    names = [query.name for query in queries]
    units = {name: np.shape(as_array(released[name]))[:1] for name in names}
    if len(set(units.values())) > 1 or () in units.values():
        raise ValueError(f"released must have one row of answers per unit in every query, got units {units}")
    count = units[names[0]][0]
    answers, variances = [], np.empty((count, len(names)))
    for i, query in enumerate(queries):
        refuse_rounded(f"released of {query.name!r}", released[query.name])
        values = as_array(released[query.name])
        if values.shape not in {(count, query.size), (count, *query.shape)}:
            raise ValueError(
                f"released of {query.name!r} must be (unit, {query.size}) or {('unit', *query.shape)}, got shape "
                f"{values.shape}"
            )
        values = values.reshape(count, query.size)
        v = as_array(variance[query.name])
        if v.shape not in {(), (count,)}:
            raise ValueError(f"variance of {query.name!r} must be one number or one per unit, got shape {v.shape}")
        if (v < 0).any():
            raise ValueError(f"variance of {query.name!r} must be non-negative, got {v[v < 0].ravel()[0]}")
        variances[:, i] = np.where(np.isnan(v) | (v > LARGEST_VARIANCE), np.inf, v)
        measured = np.isfinite(variances[:, i])
        wrong = measured & ~np.isfinite(values).all(axis=1)
        if wrong.any():
            raise ValueError(
                f"released of {query.name!r} must be finite where it was measured, unit {np.flatnonzero(wrong)[0]}"
            )
        answers.append(np.where(measured[:, None], values, 0.0))
    return Answers(tuple(queries), shape, tuple(answers), variances)
