r"""Persons beside housing in one unit: whether noise explains that they contradict each other, and both together.

Every occupied housing unit has somebody in it, and a household of size s has s people. So published counts h of
households, with people w in each at least, imply that persons are no fewer than the sum of w h. Noise makes the
published persons y fall short of that all the same. With persons as many as implied, or more,

.. math:: P(\text{gap at least as large}) \le P\Big(N - \sum_i w_i N_i \le y - \sum_i w_i h_i\Big)

with the noise N of the persons and N_i of the households, independent discrete Gaussians: their law is worked out
exactly. A small chance says that something else than noise is at work, such as another vintage or geography.
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

# Values of a sum of noises that are listed; beyond, it is taken to be Gaussian, as nobody can tell it from one.
WIDEST = 1 << 20


def persons_beside_households(
    persons: float,
    variance: float,
    households: ArrayLike,
    household_variance: ArrayLike = 0.0,
    sizes: ArrayLike = 1.0,
) -> xr.Dataset:
    """Chance that noise alone puts published persons so far below what published households imply, or farther.

    Parameters
    ----------
    persons : published noisy count of persons in households
    variance : of its discrete Gaussian noise (sigma squared, as files record it); 0: exact
    households : (kind,) published counts of households, or of occupied housing units
    household_variance : (kind,) variances of their noise, or one for all; 0: exact
    sizes : (kind,) people in each at least, whole, such as 1, 2, ..., 7 for "7 or more"; 1 of an occupied housing unit

    Returns
    -------
    Dataset of `implied`, the persons that the households imply at least; `gap`, persons less that; `sd`, the standard
    deviation of the noise in the gap; and `chance`: the probability of such a gap, or one farther below 0, where
    persons are exactly as many as implied. Where they are more it is smaller: the chance is an upper bound

    Raises
    ------
    ValueError : negative variances, sizes that are not whole, or lengths that do not fit

    >>> found = persons_beside_households(31, 10.0, [20, 10, 9], 10.0, [1, 2, 3])
    >>> found["implied"].item(), found["gap"].item(), round(found["chance"].item(), 4)
    (67.0, -36.0, 0.0019)
    """
    import xarray as xr

    count, spread = as_array(households).ravel(), check_non_negative("household_variance", household_variance)
    weights = check_non_negative("sizes", sizes)
    y, own = check_number("persons", persons), float(check_non_negative("variance", variance))
    try:
        spread, weights = (np.broadcast_to(one, count.shape) for one in (spread, weights))
    except ValueError:
        raise ValueError(
            f"household_variance and sizes must be one number, or as many as households, {count.size}, got "
            f"{np.size(household_variance)} and {np.size(sizes)}"
        ) from None
    if not np.isfinite(count).all() or (weights != np.rint(weights)).any():
        raise ValueError(f"households must be numbers and sizes whole, got {count.tolist()} and {weights.tolist()}")
    implied = float(weights @ count)
    gap, sd = y - implied, float(np.sqrt(own + weights**2 @ spread))
    chance = noise_at_most([1, *(-weights.astype(int)).tolist()], [own, *spread.tolist()], float(gap))
    values = {"implied": implied, "gap": gap, "sd": sd, "chance": chance}
    return xr.Dataset({name: ((), value) for name, value in values.items()}, attrs={"direction": "upper"})


def noise_at_most(weights: list[int], variances: list[float], limit: float) -> float:
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
        own = np.zeros((last - first) * abs(weight) + 1)
        own[:: abs(weight)] = np.exp(noise.log_prob(np.arange(first, last + 1), 0))
        low += min(first * weight, last * weight)
        pmf = np.convolve(pmf, own if weight > 0 else own[::-1])
    below = pmf[: max(0, int(np.floor(limit)) - low + 1)]
    return float(min(below.sum() / pmf.sum(), 1.0))


def households_and_persons(persons: Any, occupied: Any, only_households: bool = True) -> xr.Dataset:
    """Posteriors of the persons and the occupied housing units of one unit, each alone and given one another.

    The two were published with independent noise and have independent priors; together they are what is left where
    persons are at least as many as occupied units and, if they are those in households, nobody is where none is
    occupied.

    Parameters
    ----------
    persons, occupied : posterior probabilities over "count", as `SpinePosterior.pmf`
    only_households : whether the persons are those in households; otherwise people in group quarters are among them

    Returns
    -------
    Dataset over "of" (persons, occupied) and "read" (alone, together) of `mean`, `sd` and `p_zero`; and `consistent`,
    the probability under both alone that they do not contradict each other

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
    laws = [(x, p, table.sum(axis=1)), (u, q, table.sum(axis=0))]
    columns = {
        name: (("of", "read"), [[function(counts, law) for law in both] for counts, *both in laws])
        for name, function in {"mean": _mean, "sd": _sd, "p_zero": _zero}.items()
    }
    coords = {"of": ["persons", "occupied"], "read": ["alone", "together"]}
    return xr.Dataset({**columns, "consistent": ((), consistent)}, coords)


def _mean(counts: Any, law: Floats) -> float:
    return float(counts @ law / law.sum())


def _sd(counts: Any, law: Floats) -> float:
    mean = _mean(counts, law)
    return float(np.sqrt((counts - mean) ** 2 @ law / law.sum()))


def _zero(counts: Any, law: Floats) -> float:
    return float(law[counts == 0].sum() / law.sum())
