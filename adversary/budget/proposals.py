"""Two earlier proposals for choosing or judging an epsilon, for comparison with risk profiles.

In Lee and Clifton (2011, "How much is enough?") a public population has n people, all but one of whom are in the data,
and the adversary wants to know who is absent: the prior of each person is 1/n, the posterior may reach `absolute`, and
the noise is Laplace. Wood et al. (2018, "Differential privacy: a primer for a non-technical audience", corrected 2020)
consider a person's risk of participation: the distance of an adversary's belief from that without the person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_probability,
    check_whole,
    logit,
    over_labels,
    posterior_after,
)
from adversary.budget.risk_bounds import SIDES, check_word

# A number computed from the values of some people.
Statistic = Callable[[NDArray[Any]], Any]

# Smallest population from which two people can be left out.
FEWEST = 3


def inclusion_epsilon(n: int, absolute: ArrayLike) -> Any:
    """Largest epsilon at which no posterior of being the one absent person of n exceeds `absolute`.

    log((n - 1) a / (1 - a)): Theorem 5 with inclusion prior 1/n (of being absent), value prior 1 and an absolute bound,
    whatever the data and the statistic.

    Parameters
    ----------
    n : people in the population, >= 2
    absolute : tolerated posterior, in (1/n, 1); arrays and DataArrays keep their shape

    Returns
    -------
    epsilon in nats, of the shape of `absolute`

    >>> round(inclusion_epsilon(4, 1 / 3), 6)
    0.405465
    """
    people = int(check_whole("n", n, minimum=2))
    _check_absolute(absolute, people)
    return over_labels(lambda a: np.log(people - 1.0) + logit(a), absolute)


def lee_clifton_changes(population: ArrayLike, statistic: Statistic) -> tuple[float, float]:
    """(dT, dv): largest change of a statistic if one more person is left out, and its range over the absent person.

    dT = max |T(Y1) - T(Y2)| over subsets Y2 of Y1 of n - 2 and n - 1 people, dv = max |T(Y1) - T(Y1')| over pairs of
    subsets of n - 1; n (n + 1) / 2 values of the statistic in all. A range within rounding of 0 is 0.

    Parameters
    ----------
    population : values of everybody, one per person along the first axis, at least 3 people
    statistic : a function of such an array that returns one finite number

    Returns
    -------
    (dT, dv), in units of the statistic
    """
    everybody = np.asarray(population)
    if everybody.ndim == 0:
        raise TypeError(f"population must be a list of values, one per person, got {population!r}")
    n = len(everybody)
    if n < FEWEST:
        raise ValueError(f"population must have at least {FEWEST} people, got {n}")
    without = [np.delete(everybody, i, axis=0) for i in range(n)]
    one = np.array([_value(statistic, some) for some in without])
    moved = 0.0
    for i, some in enumerate(without):
        # People i and j + 1 are left out.
        two = np.array([_value(statistic, np.delete(some, j, axis=0)) for j in range(i, n - 1)])
        moved = max(
            moved, float(np.abs(two - one[i]).max(initial=0.0)), float(np.abs(two - one[i + 1 :]).max(initial=0.0))
        )
    ranged = float(one.max() - one.min())
    same = bool((everybody == everybody[0]).all()) or ranged <= 2.0 * float(np.spacing(np.abs(one).max()))
    return moved, 0.0 if same else ranged


def lee_clifton_epsilon(population: ArrayLike, statistic: Statistic, absolute: ArrayLike) -> Any:
    """Lee and Clifton's epsilon: (dT / dv) log((n - 1) a / (1 - a)), for Laplace noise scaled to dT.

    Infinite if dv = 0: the statistic does not depend on the absent person.

    Parameters
    ----------
    population, statistic : as in `lee_clifton_changes`
    absolute : largest tolerated posterior, in (1/n, 1)

    References: Lee and Clifton 2011, section 4.

    >>> round(lee_clifton_epsilon([1, 2, 3, 4], np.mean, 1 / 3), 6)
    0.337888
    """
    moved, ranged = lee_clifton_changes(population, statistic)
    ours = inclusion_epsilon(np.shape(population)[0], absolute)
    return over_labels(lambda e: _relative(moved, ranged) * e, ours)


def participation_bound(absent: ArrayLike, epsilon: ArrayLike, side: str = "upper") -> Any:
    """Largest or smallest belief of an adversary if a person participates, given the belief if not; Wood et al.

    a / (a + e^(-2 epsilon) (1 - a)), and with e^(2 epsilon) the lower side: Theorem 4 at inclusion prior 1.

    Parameters
    ----------
    absent : the belief, in [0, 1], if the person does not participate
    epsilon : nats, >= 0, may be infinite
    side : "upper" or "lower"

    Returns
    -------
    Probability, of the broadcast shape

    >>> round(participation_bound(0.5, 0.1), 6)
    0.549834
    """
    upper = check_word("side", side, SIDES) == "upper"
    check_probability("absent", absent)
    check_non_negative("epsilon", epsilon, finite=False)

    sign = 2.0 if upper else -2.0
    return over_labels(lambda a, e: posterior_after(logit(a), sign * e), absent, epsilon)


def participation_epsilon(absent: ArrayLike, present: ArrayLike) -> Any:
    """Largest epsilon at which participation moves a belief at most from `absent` to `present`; Wood et al., inverted.

    |logit(present) - logit(absent)| / 2; infinite if `absent` is 0 or 1, which no release changes.

    Parameters
    ----------
    absent, present : the belief without participation, and the tolerated one with it, above or below; in [0, 1]

    Returns
    -------
    epsilon in nats, of the broadcast shape
    """
    check_probability("absent", absent)
    check_probability("present", present)

    def epsilon(a: Floats, b: Floats) -> Floats:
        certain = (a == 0.0) | (a == 1.0)
        return np.where(certain, np.inf, 0.5 * np.abs(logit(b) - logit(np.where(certain, 0.5, a))))

    return over_labels(epsilon, absent, present)


def compare_proposals(
    population: ArrayLike, statistic: Statistic | Mapping[str, Statistic], absolutes: ArrayLike
) -> xr.Dataset:
    """Comparison of all proposals: the largest epsilon with posterior of "the absent one" at most `absolute`.

    Parameters
    ----------
    population : as in `lee_clifton_changes`
    statistic : the published statistic, a function; or several, by name
    absolutes : vector of tolerated posteriors, in (1/n, 1)

    Returns
    -------
    Dataset: `inclusion`, by `inclusion_epsilon`, and `participation`, half of it: Wood et al.'s answer if the belief is
    1/n without the person, dims ("absolute",); `lee_clifton` and `relative` = lee_clifton / inclusion, dims
    ("statistic", "absolute"); `moved` and `ranged`, dT and dv, dims ("statistic",).
    """
    named = (
        dict(statistic) if isinstance(statistic, Mapping) else {getattr(statistic, "__name__", "statistic"): statistic}
    )
    a = np.atleast_1d(check_probability("absolute", absolutes))
    if a.ndim > 1:
        raise ValueError(f"absolutes must be a vector, got {a.ndim} dimensions")
    n = np.shape(population)[0] if np.ndim(population) else 0
    changes = np.array([lee_clifton_changes(population, function) for function in named.values()])
    ours = as_array(inclusion_epsilon(n, a))
    relative = np.array([_relative(*change) for change in changes])[:, None] * np.ones_like(ours)
    both = ("statistic", "absolute")
    return xr.Dataset(
        {
            "inclusion": ("absolute", ours),
            "participation": ("absolute", as_array(participation_epsilon(1.0 / n, a))),
            "lee_clifton": (both, relative * ours),
            "relative": (both, relative),
            "moved": ("statistic", changes[:, 0]),
            "ranged": ("statistic", changes[:, 1]),
        },
        coords={"absolute": a, "statistic": list(named)},
        attrs={"population": n},
    )


def _relative(moved: float, ranged: float) -> float:
    return moved / ranged if ranged > 0.0 else float("inf")


def _value(statistic: Statistic, some: NDArray[Any]) -> float:
    """A statistic's value; an error unless it is one finite number."""
    value = np.asarray(statistic(some))
    if value.size != 1:
        raise TypeError(f"statistic must return one number, got shape {value.shape}")
    number = float(value.reshape(()))
    if not np.isfinite(number):
        raise ValueError(f"statistic must be finite for every subset of n - 1 and n - 2 people, got {number}")
    return number


def _check_absolute(absolute: ArrayLike, people: int) -> None:
    a = check_probability("absolute", absolute)
    inside = (a > 1.0 / people) & (a < 1.0)
    if not inside.all():
        raise ValueError(
            f"absolute must be in (1/n, 1) with n = {people}, the prior being 1/n, got {a[~inside].ravel()[0]:g}"
        )
