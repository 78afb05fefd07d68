"""Two earlier ways to choose or to judge an epsilon, beside the one of risk profiles.

Lee and Clifton (2011, "How much is enough?") ask of a public population of n, all but one of whom are in the data, who
is absent: the adversary's prior for each person is 1/n, their posterior may reach `absolute`, and the noise is
Laplace's. Wood et al. (2018, "Differential privacy: a primer for a non-technical audience", corrected 2020) ask what a
person risks by taking part: how far an adversary's belief can be from what it would be without them.
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

Statistic = Callable[[NDArray[Any]], Any]
"""A number computed from the values of some people."""

FEWEST = 3
"""People in the smallest population of whom two can be left out."""


def inclusion_epsilon(n: int, absolute: ArrayLike) -> Any:
    """Largest epsilon at which nobody is seen to be the one absent of n with a posterior above `absolute`.

    log((n - 1) a / (1 - a)): Theorem 5 with inclusion prior 1/n (of being absent), value prior 1 and an absolute bound,
    whatever the data and the statistic.

    Parameters
    ----------
    n : people in the population, >= 2
    absolute : posterior allowed, in (1/n, 1); arrays and DataArrays keep their shape

    >>> round(inclusion_epsilon(4, 1 / 3), 6)
    0.405465
    """
    people = int(check_whole("n", n, minimum=2))
    _check_absolute(absolute, people)
    return over_labels(lambda a: np.log(people - 1.0) + logit(a), absolute)


def lee_clifton_changes(population: ArrayLike, statistic: Statistic) -> tuple[float, float]:
    """(dT, dv): how far a statistic moves when one more person leaves, and how far it ranges over who is absent.

    dT = max |T(Y1) - T(Y2)| over subsets Y2 of Y1 of n - 2 and n - 1 people, dv = max |T(Y1) - T(Y1')| over pairs of
    subsets of n - 1; n (n + 1) / 2 values of the statistic in all. A range within rounding of 0 is 0.

    Parameters
    ----------
    population : values of everybody, one per person along the first axis, at least 3 people
    statistic : a function of such an array, with one finite number as its value
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
        two = np.array([_value(statistic, np.delete(some, j, axis=0)) for j in range(i, n - 1)])  # i and j + 1 are out
        moved = max(
            moved, float(np.abs(two - one[i]).max(initial=0.0)), float(np.abs(two - one[i + 1 :]).max(initial=0.0))
        )
    ranged = float(one.max() - one.min())
    same = bool((everybody == everybody[0]).all()) or ranged <= 2.0 * float(np.spacing(np.abs(one).max()))
    return moved, 0.0 if same else ranged


def lee_clifton_epsilon(population: ArrayLike, statistic: Statistic, absolute: ArrayLike) -> Any:
    """Lee and Clifton's epsilon: (dT / dv) log((n - 1) a / (1 - a)), for Laplace noise scaled to dT.

    Infinite where dv = 0: the statistic cannot tell who is absent.

    Parameters
    ----------
    population, statistic : as in `lee_clifton_changes`
    absolute : largest posterior allowed, in (1/n, 1)

    References: Lee and Clifton 2011, section 4.

    >>> round(lee_clifton_epsilon([1, 2, 3, 4], np.mean, 1 / 3), 6)
    0.337888
    """
    moved, ranged = lee_clifton_changes(population, statistic)
    ours = inclusion_epsilon(np.shape(population)[0], absolute)
    return over_labels(lambda e: _relative(moved, ranged) * e, ours)


def participation_bound(absent: ArrayLike, epsilon: ArrayLike, side: str = "upper") -> Any:
    """Largest or smallest belief of an adversary if a person takes part, from what it is if they do not; Wood et al.

    a / (a + e^(-2 epsilon) (1 - a)), and with e^(2 epsilon) the lower side: Theorem 4 at inclusion prior 1.

    Parameters
    ----------
    absent : the belief, in [0, 1], if the person stays out
    epsilon : nats, >= 0, may be infinite
    side : "upper" or "lower"

    >>> round(participation_bound(0.5, 0.1), 6)
    0.549834
    """
    upper = check_word("side", side, SIDES) == "upper"
    check_probability("absent", absent)
    check_non_negative("epsilon", epsilon, finite=False)

    sign = 2.0 if upper else -2.0
    return over_labels(lambda a, e: posterior_after(logit(a), sign * e), absent, epsilon)


def participation_epsilon(absent: ArrayLike, present: ArrayLike) -> Any:
    """Largest epsilon at which taking part moves a belief no farther than from `absent` to `present`: the inverse.

    |logit(present) - logit(absent)| / 2; infinite where `absent` is certain, which nothing moves.

    Parameters
    ----------
    absent, present : the belief if the person stays out, and the one tolerated if they take part, above it or below
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
    """One question put to all proposals: which epsilon keeps the posterior of "the one absent" at or below `absolute`?

    Parameters
    ----------
    population : as in `lee_clifton_changes`
    statistic : what is published; or several, by name
    absolutes : vector of posteriors, in (1/n, 1)

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
    """A statistic's value, or an error saying what it must be."""
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
