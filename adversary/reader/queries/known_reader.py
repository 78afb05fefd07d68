r"""The reader who knows other people's records: every query of every unit on the target's path, exactly.

Given everybody else, the answer to row j of a query moves by 1 between the hypotheses where j is the row of the cell in
which the target is if in, or of the one in which the target is if out, and these two are not the same row. Noise is
independent, so log Bayes factors add, over queries and over units:

.. math:: \log \text{BF} = \sum_{u, q} \log \frac{P(y_{u,q,j} \mid o_j + 1)}{P(y_{u,q,j} \mid o_j)}
          + \log \frac{P(y_{u,q,i} \mid o_i)}{P(y_{u,q,i} \mid o_i + 1)}

with o the answer without the target. `path_loss` is the law of this sum over releases. A reader who knows nobody above
the target's block reads upper levels through one cell, and all queries of the block: what is known of the block makes
its other queries independent of everything above, so their factors multiply the path's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._core import as_array, check_whole, posterior_ratio
from adversary.privacy.losses import PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism
from adversary.reader.path import Adversary
from adversary.reader.path import log_bayes_factor as path_log_bayes_factor
from adversary.reader.plans import Plan, release_arrays
from adversary.reader.queries.query import Query, check_queries, flat_cell

if TYPE_CHECKING:
    import xarray as xr

Noise = Mapping[str, Mechanism | Sequence[Mechanism]]


def log_bayes_factor(
    queries: Sequence[Query],
    released: Mapping[str, ArrayLike],
    noise: Noise,
    others: ArrayLike,
    present: Any,
    absent: Any = None,
) -> Any:
    """Log Bayes factor of one release for the reader who knows everybody else in these units.

    Parameters
    ----------
    queries : of one histogram; those of `released` and `noise` only
    released : by name of the query, noisy answers (row,) of one unit or (unit, row) of the units on the target's path
    noise : by name of the query, one mechanism, or one per unit
    others : people other than the target, (cell,) or (unit, cell), cells flat or as axes
    present : cell of the target if in, flat or with an index per axis
    absent : cell of the target if out; None: the target is then counted nowhere

    Returns
    -------
    Nats, log P(release | in) - log P(release | out): one number, or (unit,), to be summed over the units of the path.
    NaN where both are impossible.

    Raises
    ------
    ValueError : queries without answers or noise, wrong shapes, counts that are not whole or negative

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> total, sexes = Query("total", ((0, 0),)), Query("sex", ((0, 1),))
    >>> noise = {"total": DiscreteGaussian(1.0), "sex": DiscreteGaussian(2.0)}
    >>> log_bayes_factor([total, sexes], {"total": [4], "sex": [2, 1]}, noise, [1, 1], present=0)
    1.625
    """
    shape = check_queries(queries)
    names = [query.name for query in queries]
    for what, given in (("released", released), ("noise", noise)):
        if set(given) != set(names):
            odd = sorted(set(given) ^ set(names))
            raise ValueError(f"{what} must have one entry for each query, {names}; wrong or missing: {odd}")
    known = check_whole("others", others, minimum=0)
    known = known.reshape(*known.shape[: known.ndim - len(shape)], -1) if known.shape[-len(shape) :] == shape else known
    if known.ndim not in (1, 2) or known.shape[-1] != int(np.prod(shape)):
        raise ValueError(f"others must be (cell,) or (unit, cell) of a histogram of shape {shape}, got {known.shape}")
    units = 1 if known.ndim == 1 else known.shape[0]
    factor = np.zeros(units)
    for query in queries:
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
    """Law over releases of the log Bayes factor of the reader who knows everybody else.

    Parameters
    ----------
    queries : of one histogram
    noise : by name of the query, one mechanism, or one per unit on the target's path
    present, absent : cells of the target if in and if out, as for `log_bayes_factor`

    Returns
    -------
    PrivacyLoss, composed of one loss per row that moves; `.posterior(prior)` is the law of the posterior

    References
    ----------
    Kifer et al. 2022, section 8: rows that both cells share do not move.

    >>> from adversary.privacy.mechanisms import Gaussian
    >>> queries = [Query("total", ((0, 0),)), Query("sex", ((0, 1),))]
    >>> round(path_loss(queries, {"total": Gaussian(1.0), "sex": Gaussian(1.0)}, present=0, absent=1).mu, 4)
    1.4142
    """
    check_queries(queries)
    names = [query.name for query in queries]
    if set(noise) != set(names):
        raise ValueError(f"noise must have one entry for each query, {names}, got {sorted(noise)}")
    return compose_losses(
        [
            mechanism.privacy_loss(sensitivity=1, cells=moved)
            for query in queries
            if (moved := len(_rows_that_differ(query, present, absent)))
            for mechanism in _noise_by_unit(query.name, noise, None)
        ]
    )


def known_block_posterior(
    plan: Plan,
    reader: Adversary,
    release: xr.Dataset,
    queries: Sequence[Query],
    released: Mapping[str, ArrayLike],
    noise: Mapping[str, Mechanism],
    others: ArrayLike,
    present: Any,
    absent: Any = None,
) -> xr.Dataset:
    """Posterior of the reader who knows the target's block: all its queries, and upper levels through one cell.

    Parameters
    ----------
    plan, reader, release : what `Adversary.posterior` takes: one published release, of the cell that the plan is about
        at every level; at the lowest one the reader knows everybody else
    queries : the block's other queries; the one that the plan's lowest level publishes must not be among them
    released : by name of the query, (row,) noisy answers in the block
    noise : by name of the query, its mechanism in the block
    others : people other than the target in the block, (cell,) or as axes
    present, absent : cells of the target if in and if out

    Returns
    -------
    Dataset of `posterior`, `log_odds` and `ratio`, as of `Adversary.posterior`, and `log_bayes_factor` of the other
    queries alone.

    Raises
    ------
    ValueError : the reader does not know the block, several releases, or arguments of `log_bayes_factor`

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.reader.plans import Level
    >>> plan, reader = Plan([Level("block", DiscreteGaussian(2.0))]), Adversary(prior=0.1, known=1)
    >>> total = Query("total", ((0, 0),))
    >>> release, noise = plan.observe({"block": 2}), {"total": DiscreteGaussian(1.0)}
    >>> found = known_block_posterior(plan, reader, release, [total], {"total": [4]}, noise, [1, 2], present=0)
    >>> found["log_bayes_factor"].item(), found["posterior"].round(4).item()
    (0.5, 0.1719)
    """
    import xarray as xr

    if "release" in release.dims:
        raise ValueError("known_block_posterior takes one release: select it with release.isel(release=i)")
    lowest = plan.levels[0].unit
    _check_known(plan, reader)
    cells = [cell for cell in (present, absent) if cell is not None]
    shape = check_queries(queries)
    histogram = np.asarray(check_whole("others", others, minimum=0)).ravel()
    known = reader.known if isinstance(reader.known, tuple) else (reader.known,)
    told = tuple(int(histogram[flat_cell(cell, shape)]) for cell in cells)
    if told[: plan.cells] != known[: plan.cells]:
        raise ValueError(f"the adversary knows {known} others in the plan's cells of {lowest!r}, others has {told}")
    more = log_bayes_factor(queries, released, noise, histogram, present, absent)
    factor = path_log_bayes_factor(plan, reader, release_arrays(plan, release)) + more
    odds = reader.updated(factor)
    values = {"posterior": expit(odds), "log_odds": odds, "ratio": posterior_ratio(reader.prior, factor)}
    found = xr.Dataset({name: ((), value[0]) for name, value in values.items()})
    return found.assign(log_bayes_factor=more)


def known_block_loss(
    plan: Plan,
    reader: Adversary,
    queries: Sequence[Query],
    noise: Mapping[str, Mechanism],
    present: Any,
    absent: Any = None,
) -> PrivacyLoss:
    """Law over releases of the same reader's log Bayes factor, the counts above the block drawn from the beliefs.

    Parameters
    ----------
    plan, reader : as for `Adversary.privacy_loss`, with proper beliefs, and a known block
    queries, noise, present, absent : the block's other queries, as for `known_block_posterior`

    Returns
    -------
    PrivacyLoss; `.posterior(prior)` is the law of the posterior

    >>> from adversary.privacy.mechanisms import Gaussian
    >>> from adversary.reader.plans import Level
    >>> plan, total = Plan([Level("block", Gaussian(2.0))]), Query("total", ((0, 0),))
    >>> round(known_block_loss(plan, Adversary(), [total], {"total": Gaussian(2.0)}, present=0).mu, 4)
    0.7071
    """
    _check_known(plan, reader)
    return compose_losses([reader.privacy_loss(plan), path_loss(queries, noise, present, absent)])


def _check_known(plan: Plan, reader: Adversary) -> None:
    if plan.levels[0].unit in reader.beliefs:
        raise ValueError(
            f"an adversary must know everybody else in {plan.levels[0].unit!r}: they have a belief about it"
        )
    if reader.hypotheses != (0, 1):
        raise ValueError(f"hypotheses must be (0, 1), one person out or in, got {reader.hypotheses}")


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
