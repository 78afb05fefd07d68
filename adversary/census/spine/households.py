r"""Persons and housing of one unit: a test of whether noise explains a contradiction, and their joint posterior.

Every occupied housing unit has at least one person, and a household of size s has s people. So there are at least
sum_i w_i h_i persons, given h_i households with at least w_i people each. The published noisy count y of persons can
still fall below that sum of published counts. If the true counts satisfy the inequality,

.. math:: P(\text{gap at least as large}) \le P\Big(N - \sum_i w_i N_i \le y - \sum_i w_i h_i\Big)

with the noise N of the persons and N_i of the households, independent discrete Gaussians, whose weighted sum has an
exactly computed distribution. A small probability indicates a cause other than noise, such as counts of another vintage
or geography.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from adversary._core import Floats, as_array, check_non_negative, check_number
from adversary.privacy.mechanisms import DiscreteGaussian

if TYPE_CHECKING:
    import xarray as xr

# Largest number of values for which the pmf of the sum is computed; a wider one is indistinguishable from a Gaussian.
WIDEST = 1 << 20


def persons_beside_households(
    persons: float,
    variance: float,
    households: ArrayLike,
    household_variance: ArrayLike = 0.0,
    sizes: ArrayLike = 1.0,
) -> xr.Dataset:
    """P-value of published persons falling short of the number that published households imply, by noise alone.

    Parameters
    ----------
    persons : published noisy count of persons in households
    variance : variance of its discrete Gaussian noise (sigma squared, as in the files); 0: exact
    households : (kind,) published counts of households, or of occupied housing units
    household_variance : (kind,) variances of their noise, or one for all; 0: exact
    sizes : (kind,) smallest number of people in each, whole: 1, 2, ..., 7 for "7 or more"; 1 for occupied housing units

    Returns
    -------
    Dataset of `implied`, the smallest number of persons that the households imply; `gap`, persons minus implied; `sd`,
    the standard deviation of the noise in the gap; and `chance`, the probability of a gap at most this large if the
    true number of persons equals the implied one: an upper bound, as more persons make it smaller

    Raises
    ------
    ValueError : negative variances, sizes that are not whole, or lengths that do not fit

    >>> test = persons_beside_households(31, 10.0, [20, 10, 9], 10.0, [1, 2, 3])
    >>> test["implied"].item(), test["gap"].item(), round(test["chance"].item(), 4)
    (67.0, -36.0, 0.0019)
    """
    import xarray as xr

    count, household_variances = (
        as_array(households).ravel(),
        check_non_negative("household_variance", household_variance),
    )
    weights = check_non_negative("sizes", sizes)
    y, person_variance = check_number("persons", persons), float(check_non_negative("variance", variance))
    try:
        household_variances, weights = (np.broadcast_to(one, count.shape) for one in (household_variances, weights))
    except ValueError:
        raise ValueError(
            f"household_variance and sizes must be one number, or as many as households, {count.size}, got "
            f"{np.size(household_variance)} and {np.size(sizes)}"
        ) from None
    if not np.isfinite(count).all() or (weights != np.rint(weights)).any():
        raise ValueError(f"households must be numbers and sizes whole, got {count.tolist()} and {weights.tolist()}")
    implied = float(weights @ count)
    gap, sd = y - implied, float(np.sqrt(person_variance + weights**2 @ household_variances))
    chance = noise_cdf(
        [1, *(-weights.astype(int)).tolist()], [person_variance, *household_variances.tolist()], float(gap)
    )
    values = {"implied": implied, "gap": gap, "sd": sd, "chance": chance}
    return xr.Dataset({name: ((), value) for name, value in values.items()}, attrs={"direction": "upper"})


def noise_cdf(weights: list[int], variances: list[float], limit: float) -> float:
    """Probability that a weighted sum of independent discrete Gaussian noises is at most a number."""
    low, pmf = 0, np.ones(1)
    for weight, variance in sorted(zip(weights, variances, strict=True), key=lambda one: abs(one[0]) * one[1]):
        if variance == 0.0 or weight == 0:
            continue
        noise = DiscreteGaussian(sigma=float(np.sqrt(variance)))
        support = noise.support(0)
        first, last = int(support[0]), int(support[-1])
        if (last - first) * abs(weight) + pmf.size > WIDEST:
            sd = np.sqrt(sum(w**2 * v for w, v in zip(weights, variances, strict=True)))
            return float(ndtr((limit + 0.5) / sd))
        term = np.zeros((last - first) * abs(weight) + 1)
        term[:: abs(weight)] = np.exp(noise.log_prob(np.arange(first, last + 1), 0))
        low += min(first * weight, last * weight)
        pmf = np.convolve(pmf, term if weight > 0 else term[::-1])
    below = pmf[: max(0, int(np.floor(limit)) - low + 1)]
    return float(min(below.sum() / pmf.sum(), 1.0))


def households_and_persons(persons: Any, occupied: Any, only_households: bool = True) -> xr.Dataset:
    """Joint posterior of the persons and the occupied housing units of one unit, beside their separate posteriors.

    The two are independent a priori and were published with independent noise. The joint posterior conditions on at
    least as many persons as occupied units and, if persons are those in households, on no persons where no unit is
    occupied.

    Parameters
    ----------
    persons, occupied : posterior probabilities over "count", as `SpinePosterior.pmf`
    only_households : True if persons are those in households; False if they include people in group quarters

    Returns
    -------
    Dataset over "of" (persons, occupied) and "read" (alone: separate, together: joint posterior) of `mean`, `sd` and
    `p_zero`; and `consistent`, the probability that the condition holds under the separate posteriors

    Raises
    ------
    ValueError : no pair of counts with any probability is consistent

    >>> import xarray as xr
    >>> one, other = (xr.DataArray(p, {"count": [0, 1]}, ("count",)) for p in ([0.5, 0.5], [0.2, 0.8]))
    >>> both = households_and_persons(one, other)
    >>> round(both["consistent"].item(), 3), both["p_zero"].sel(of="persons").round(3).values.tolist()
    (0.5, [0.5, 0.2])
    """
    import xarray as xr

    x, u = (np.asarray(one["count"].values, dtype=np.int64) for one in (persons, occupied))
    p, q = (np.asarray(one.values, dtype=np.float64) for one in (persons, occupied))
    allowed = x[:, None] >= u
    if only_households:
        allowed &= (x[:, None] == 0) == (u == 0)
    table = np.where(allowed, np.multiply.outer(p, q), 0.0)
    consistent = float(table.sum())
    if not consistent > 0.0:
        raise ValueError("persons and occupied housing units contradict each other: no pair of counts is possible")
    table = table / consistent
    posteriors = [(x, p, table.sum(axis=1)), (u, q, table.sum(axis=0))]
    columns = {
        name: (("of", "read"), [[function(counts, law) for law in both] for counts, *both in posteriors])
        for name, function in {"mean": _mean, "sd": _sd, "p_zero": _zero}.items()
    }
    coords = {"of": ["persons", "occupied"], "read": ["alone", "together"]}
    return xr.Dataset({**columns, "consistent": ((), consistent)}, coords)


def _mean(counts: Any, p: Floats) -> float:
    """Mean of counts with weights p."""
    return float(counts @ p / p.sum())


def _sd(counts: Any, p: Floats) -> float:
    """Standard deviation of counts with weights p."""
    mean = _mean(counts, p)
    return float(np.sqrt((counts - mean) ** 2 @ p / p.sum()))


def _zero(counts: Any, p: Floats) -> float:
    """Probability of the count 0, with weights p."""
    return float(p[counts == 0].sum() / p.sum())
