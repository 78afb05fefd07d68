"""Risk that a mechanism attains, next to the bound that its guarantee sets for any mechanism.

The release is that of `evidence`: noisy counts of the people in S and not in S, or the first count only, and an
adversary who knows everybody but the target. Geometric and Laplace noise attain Theorem 4; for other noise the gap is
the part of the budget that the bound wastes. Results are exact for the release itself; the guarantee also covers
anything computed from it. As in all of `budget`, the adversary's belief about everybody else does not depend on the
target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import (
    DEFAULT_FAILURE,
    Floats,
    as_array,
    check_non_negative,
    check_probability,
    over_labels,
)
from adversary.budget.evidence import TIE, TRUTHS, Evidence
from adversary.budget.risk_bounds import (
    SIDES,
    check_prior,
    check_word,
    epsilon_of_room,
    equivalent_epsilon,
    relative_risk_bound,
)
from adversary.privacy import Guarantee
from adversary.privacy.mechanisms import Mechanism


def attained_risk(
    mechanism: Mechanism,
    inclusion: ArrayLike,
    value: ArrayLike,
    side: str = "upper",
    statistic: str = "any",
    *,
    failure: ArrayLike = 0.0,
) -> Any:
    """Largest ("upper") or smallest ("lower") ratio of posterior to prior over all possible releases.

    For geometric and Laplace noise it equals the bound of Theorem 4; for continuous and discrete Gaussian noise it is
    1 / (p q) and 0: some release reveals everything.

    Parameters
    ----------
    mechanism : noise of each count
    inclusion, value : p and q, in (0, 1]; arrays broadcast, DataArrays keep their labels
    side : "upper" or "lower"
    statistic : "any" (two counts) or "count"
    failure : probability of a larger ratio, for side "upper", under every truth: the inverse of `attained_tail` at the
        worst truth, which is always "in S"; rounded up

    Returns
    -------
    Ratio, of the broadcast shape

    >>> from adversary.privacy.mechanisms import DiscreteGaussian, Geometric
    >>> round(attained_risk(Geometric(0.5), 0.5, 0.1), 6), round(attained_risk(Geometric(0.5), 0.5, 0.1, "lower"), 6)
    (1.927484, 0.476738)
    >>> round(attained_risk(DiscreteGaussian(2.0), 0.5, 0.1, failure=0.05), 6)
    2.58159
    """
    law, upper = Evidence.of(mechanism, statistic), check_word("side", side, SIDES) == "upper"
    check_prior("inclusion", inclusion)
    check_prior("value", value)
    if not check_probability("failure", failure).any():
        return over_labels(lambda p, q: _inverse(p * q + law.extreme(p, q, upper)), inclusion, value)
    if not upper:
        raise ValueError(f"failure must be 0 for the smallest ratio, got {failure!r}")
    return over_labels(lambda p, q, f: _inverse(p * q + np.exp(-law.quantile(f, p, q))), inclusion, value, failure)


def _inverse(x: Floats) -> Floats:
    """1 / x, infinite where a product of priors is too small for a double."""
    with np.errstate(divide="ignore"):
        return 1.0 / as_array(x)


def attained_tail(
    mechanism: Mechanism,
    inclusion: ArrayLike,
    value: ArrayLike,
    ratio: ArrayLike,
    truth: str = "in S",
    statistic: str = "any",
) -> Any:
    """P(posterior / prior > ratio) over releases of one truth: exact sums, or quadrature to about 1e-13.

    For discrete Gaussian noise wider than some thousands the error is about 1e-8, since its loss is not listed.

    Parameters
    ----------
    ratio : >= 0, may be infinite; a release whose ratio is equal up to rounding does not exceed it
    truth : "in S", "not in S" or "out"
    mechanism, inclusion, value, statistic : as in `attained_risk`

    Returns
    -------
    Probability, of the broadcast shape
    """
    law = Evidence.of(mechanism, statistic)
    check_word("truth", truth, TRUTHS)
    check_prior("inclusion", inclusion)
    check_prior("value", value)
    check_non_negative("ratio", ratio, finite=False)

    def tail(p: Floats, q: Floats, r: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            # r at most 1 / (p q): nothing is beyond that
            room = 1.0 / r - p * q
            s = np.maximum(-np.log(np.maximum(room, 0.0)), -1e300)
            slack = np.where(r > 0.0, TIE / 4.0 * (1.0 / r + p * q) / room, 0.0)
        return np.where(room > 0.0, law.beyond(np.where(room > 0.0, s + slack, 0.0), p, q, truth), 0.0)

    return over_labels(tail, inclusion, value, ratio)


def attained_profile(
    mechanism: Mechanism,
    inclusion: ArrayLike,
    value: ArrayLike,
    *,
    guarantee: Guarantee | None = None,
    failure: float = DEFAULT_FAILURE,
    statistic: str = "any",
    two: Guarantee | None = None,
) -> xr.Dataset:
    """Grid of adversaries with the ratio that the mechanism attains, the ratio that its guarantee allows, and the gap.

    Parameters
    ----------
    mechanism, statistic : as in `attained_risk`
    inclusion, value : vectors of priors in (0, 1]
    guarantee : the guarantee behind the bound; by default the mechanism's `nominal_guarantee`
    failure : probability with which either ratio may be exceeded
    two : the guarantee for two records, if sharper than `guarantee.group(2)`

    Returns
    -------
    Dataset, dims (inclusion, value): `attained` and `bound`, ratios; `attained_epsilon`, of the pure DP whose bound is
    the attained ratio; `bound_epsilon`, the equivalent epsilon of the guarantee; `wasted` = 1 - attained_epsilon /
    bound_epsilon, NaN if no epsilon is finite (certain adversaries; unbounded noise at failure 0).
    """
    law = Evidence.of(mechanism, statistic)
    p, q = (np.atleast_1d(check_prior(name, x)) for name, x in (("inclusion", inclusion), ("value", value)))
    if p.ndim > 1 or q.ndim > 1:
        raise ValueError(f"inclusion and value must be vectors, got {p.ndim} and {q.ndim} dimensions")
    guarantee = guarantee or mechanism.nominal_guarantee
    rows, columns = p[:, None], q[None, :]
    room = np.exp(-law.quantile(check_probability("failure", failure), rows, columns))
    values = (columns < 1.0) & (statistic == "any")
    worth = {
        flag: equivalent_epsilon(guarantee, failure, values=flag, two=two) for flag in set(values.ravel().tolist())
    }
    allowed = np.broadcast_to(np.where(values, worth.get(True, np.nan), worth.get(False, np.nan)), room.shape)
    equivalent = np.where(room < np.inf, np.maximum(epsilon_of_room(rows, columns, room, statistic), 0.0), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        wasted = np.where(np.isfinite(equivalent), 1.0 - equivalent / allowed, np.nan)
    attained = {
        "attained": 1.0 / (rows * columns + room),
        "bound": as_array(relative_risk_bound(rows, columns, allowed, "upper", statistic)),
        "attained_epsilon": equivalent,
        "bound_epsilon": allowed,
        "wasted": wasted,
    }
    return xr.Dataset(
        {name: (("inclusion", "value"), values) for name, values in attained.items()},
        coords={"inclusion": p, "value": q},
        attrs={
            "mechanism": repr(mechanism),
            "guarantee": guarantee.definition,
            "failure": float(failure),
            "statistic": statistic,
        },
    )
