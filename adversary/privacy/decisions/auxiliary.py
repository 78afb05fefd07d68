"""Prior odds of an adversary with auxiliary information about a record: correlated records and its own past.

For an adversary who knows all other records, auxiliary information changes the prior odds r = (1 - pi) / pi against the
positive value, and not the likelihood ratio (Liu, He, Chanyaswad, Wang and Mittal 2019, sections 5.1 to 5.3). This
module computes exact conditional priors of a joint distribution, and the paper's three coefficients, which summarise
the distribution by its worst ratios. Rare targets have r > 1; r is never clipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import Floats, check_non_negative, check_probability, over_labels

# Rounding allowed in a product that must not fall below one.
SLACK = 1e-12


def prior_odds(prior: ArrayLike) -> Any:
    """Prior odds against the positive value, r = (1 - prior) / prior; infinite at prior 0. Labels are preserved."""
    return over_labels(_against, prior)


def prior_from_odds(odds: ArrayLike) -> Any:
    """Prior of the positive value, pi = 1 / (1 + r)."""
    return over_labels(lambda r: 1.0 / (1.0 + check_non_negative("odds", r, finite=False)), odds)


def prior_from_coefficients(rho_p: ArrayLike, rho_c: ArrayLike = 0.0, rho_t: ArrayLike = 0.0) -> Any:
    """Prior of the likelier value, pi = 1 / ((2 - rho_p)(1 - rho_c)(1 - rho_t)).

    Parameters
    ----------
    rho_p : prior coefficient (unevenness of the prior), 1 - min P(v1) / P(v2), in [0, 1]
    rho_c : correlation coefficient, 1 - min P(v) / P(v | correlated records), in [0, 1]
    rho_t : temporal coefficient, 1 - min P(v | correlated records) / P(v | correlated records and the past), in [0, 1]

    Returns
    -------
    Probability in [1/2, 1], of the broadcast shape; labels are preserved.

    Raises
    ------
    ValueError : the coefficients combine to a probability above one: they are the worst cases of different values

    References: Liu et al. 2019, Equations 17, 20 and 23.

    >>> round(prior_from_coefficients(0.2, 0.1), 5)
    0.61728
    """
    return prior_from_odds(odds_from_coefficients(rho_p, rho_c, rho_t))


def odds_from_coefficients(rho_p: ArrayLike, rho_c: ArrayLike = 0.0, rho_t: ArrayLike = 0.0) -> Any:
    """Prior odds against the likelier value, r = (2 - rho_p)(1 - rho_c)(1 - rho_t) - 1; 0 where the value is certain.

    Parameters
    ----------
    rho_p, rho_c, rho_t : prior, correlation and temporal coefficients, each in [0, 1], as in `prior_from_coefficients`;
        numbers, arrays or DataArrays that broadcast

    Returns
    -------
    Odds in [0, 1], of the broadcast shape; labels are preserved.

    Raises
    ------
    ValueError : the product is below 1, so no distribution has these coefficients (see `largest_correlation`); or a
        coefficient outside [0, 1]

    References: Liu et al. 2019, Equations 17, 20 and 23.

    >>> round(odds_from_coefficients(0.2, 0.1, 0.1), 12)
    0.458
    """
    return over_labels(_odds, rho_p, rho_c, rho_t)


def _against(prior: Floats) -> Floats:
    p = check_probability("prior", prior)
    with np.errstate(divide="ignore"):
        return (1.0 - p) / p


def _odds(rho_p: Floats, rho_c: Floats, rho_t: Floats) -> Floats:
    given = {"rho_p": rho_p, "rho_c": rho_c, "rho_t": rho_t}
    p, c, t = np.broadcast_arrays(*(check_probability(name, x) for name, x in given.items()))
    product = (2.0 - p) * (1.0 - c) * (1.0 - t)
    for beyond in np.argwhere(product < 1.0 - SLACK):
        i = tuple(beyond)
        raise ValueError(
            f"(2 - rho_p)(1 - rho_c)(1 - rho_t) must be at least 1, got {product[i]:.6g} "
            f"at rho_p = {p[i]:.6g}, rho_c = {c[i]:.6g}, rho_t = {t[i]:.6g}"
        )
    return np.maximum(product - 1.0, 0.0)


def largest_correlation(rho_p: float, other: float = 0.0) -> float:
    """Largest rho_c (or rho_t) compatible with rho_p and the other coefficient: 1 - 1 / ((2 - rho_p)(1 - other)).

    Parameters
    ----------
    rho_p : prior coefficient, in [0, 1]
    other : the fixed coefficient: rho_t for the largest rho_c, rho_c for the largest rho_t; in [0, 1]

    Returns
    -------
    The coefficient, in [0, 1/2], at which the likelier value is certain (odds 0).

    Raises
    ------
    ValueError : `other` is too large for rho_p, (2 - rho_p)(1 - other) < 1; or a coefficient outside [0, 1]

    >>> round(largest_correlation(0.2), 5), round(largest_correlation(0.2, 0.1), 5)
    (0.44444, 0.38272)
    """
    return 1.0 - float(prior_from_coefficients(rho_p, other))


def coefficients_from_joint(joint: xr.DataArray) -> xr.Dataset:
    """Prior, correlation and temporal coefficients of a finite joint distribution, the odds they imply and exact odds.

    Parameters
    ----------
    joint : probabilities with a dimension "value" (of the target's record), optionally "past" (of its own past), and
        any others (correlated records); they sum to one. Combinations of probability 0 are excluded from all ratios

    Returns
    -------
    Dataset of `rho_p`, `rho_c`, `rho_t`; `odds` by Equations 17, 20 and 23 of Liu et al. 2019, with `status`
    "attained", or NaN with "unattainable" if the coefficients are incompatible; `smallest_odds`, the exact smallest
    odds against any value in any context. The implied odds are at most the smallest ones and may be far below, because
    the three factors are worst cases of different values.
    """
    law = _joint(joint)
    alone, informed, dated = (law.sum([d for d in law.dims if d not in keep]) for keep in _stages(law))
    rho_p = 1.0 - float(alone.min() / alone.max())
    rho_c = _largest_update(alone, informed)
    rho_t = _largest_update(informed, dated)
    feasible = (2.0 - rho_p) * (1.0 - rho_c) * (1.0 - rho_t) >= 1.0 - SLACK
    odds = odds_from_coefficients(rho_p, rho_c, rho_t) if feasible else np.nan
    numbers = {"rho_p": rho_p, "rho_c": rho_c, "rho_t": rho_t, "odds": odds}
    smallest = float(conditional_priors(joint)["odds"].min())
    status = "attained" if feasible else "unattainable"
    return xr.Dataset({**numbers, "status": status, "smallest_odds": smallest})


def conditional_priors(joint: xr.DataArray, pair: tuple[Any, Any] | None = None) -> xr.Dataset:
    """Exact conditional priors of every value in every context.

    Parameters
    ----------
    joint : as in `coefficients_from_joint`
    pair : two values, to which the adversary has narrowed the record. Without it the odds are those of one value
        against all others, and the hypothesis "not this value" is a mixture unless there are two values

    Returns
    -------
    Dataset of `prior` and `odds` over (value, context dimensions), and the probability `context`. Contexts of
    probability 0 have prior NaN.
    """
    law = _joint(joint)
    if pair is not None:
        law = law.sel(value=list(pair))
    context = law.sum("value")
    prior = law / context.where(context > 0)
    with np.errstate(divide="ignore"):
        odds = (1.0 - prior) / prior
    return xr.Dataset({"prior": prior, "odds": odds, "context": context})


def _joint(joint: xr.DataArray) -> xr.DataArray:
    if not isinstance(joint, xr.DataArray) or "value" not in joint.dims:
        raise TypeError(f'joint must be a DataArray with a dimension "value", got {type(joint).__name__}')
    if joint.sizes["value"] < 2:
        raise ValueError(f'joint must have at least two entries along "value", got {joint.sizes["value"]}')
    total = float(np.sum(check_probability("joint", joint.values)))
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"joint must sum to 1, got {total}")
    return joint.astype(np.float64) / total


def _stages(law: xr.DataArray) -> tuple[set[Any], set[Any], set[Any]]:
    """Dimensions of three marginals: the value alone; with correlated records; with correlated records and the past."""
    return {"value"}, set(law.dims) - {"past"}, set(law.dims)


def _largest_update(before: xr.DataArray, after: xr.DataArray) -> float:
    """1 - min P(v | coarser context) / P(v | finer context), over values and contexts of positive probability."""
    first, second = (law / law.sum("value").where(law.sum("value") > 0) for law in (before, after))
    ratio = (first / second.where(second > 0)).values
    return max(0.0, 1.0 - float(np.nanmin(ratio)))
