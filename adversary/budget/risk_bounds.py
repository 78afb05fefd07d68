"""Bounds on posterior over prior under epsilon-DP, for an adversary unsure of both inclusion and value.

An adversary gives probability p = `inclusion` to "the target is in the data" and q = `value` to "their record is one of
S, given that it is in"; S is what would do harm. The ratio r is their posterior of both over the prior p q. Three
things can be true, in and in S, in and not in S, out, and the last two differ from the first by a factor e^(2 epsilon)
and e^epsilon at most, so (Kazan's thesis, chapter 3, Theorem 4 and its lower companion)

    1 / (p q + e^(2 epsilon) p (1 - q) + e^epsilon (1 - p))  <=  r  <=  1 / (p q + e^(-2 epsilon) p (1 - q)
                                                                             + e^-epsilon (1 - p)).

The noise is for unbounded neighbours (a record is added or removed). Everything here assumes that the adversary knows
the mechanism, and believes the same of everybody else's records whether the target is in, and whatever theirs is:
without the second, learning about the population alone may move r without limit.

`statistic` says what may be published: "any" thing at all, or only one "count" of the people in S, which a person
outside S and an absent one move equally: r <= 1 / (p q + e^-epsilon (1 - p q)). Both bounds are attained by geometric
noise, with two counts (in S, not in S) and with one.

A profile bounds the privacy loss, and its epsilon is that bound. A definition that bounds the loss but for a `failure`
probability keeps the profile but for that probability, once the loss it bounds so is small enough: its equivalent
epsilon (Kazan et al. 2025, section 4.3, for questions of inclusion).

Where values are in question there are three laws of a release: P (the target is in, and in S), N (in, not in S) and O
(out). P and O, and N and O, are one record apart; P and N two. A release beyond R(p, q, e) of Theorem 4 is an event A
with u e^(2e) N(A) + (1 - u) e^e O(A) < P(A) for a weight u, so e^e O(A) < P(A) or e^(2e) N(A) < P(A). Let t1 and t2 be
the bounds, for every such event and after any post-processing, on P(L > e) one record apart and P(L > 2e) two apart.
Then either P(A) <= t1 and O(A) < e^-e t1, or P(A) <= t2 and N(A) < e^(-2e) t2, and the third law follows from its
neighbour: the chance of such a release is at most the larger of t1 and t2, not their sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    closest_name,
    over_labels,
    quoted,
)
from adversary.privacy import Guarantee
from adversary.privacy.losses import check_guarantee

if TYPE_CHECKING:
    import xarray as xr

STATISTICS = ("any", "count")
SIDES = ("upper", "lower")

# Default number of priors of a surface along either axis.
GRID = 101


def relative_risk_bound(
    inclusion: ArrayLike, value: ArrayLike, epsilon: ArrayLike, side: str = "upper", statistic: str = "any"
) -> Any:
    """Largest ("upper") or smallest ("lower") posterior over prior after any release under epsilon-DP; Theorem 4.

    Adversaries know the mechanism, and their belief about everybody else's records does not depend on the target.

    Parameters
    ----------
    inclusion, value : priors p of being in the data and q of a record in S given that, in (0, 1]
    epsilon : nats, >= 0; if infinite, the ratio is 1 / (p q)
    side : "upper" or "lower" bound
    statistic : "any" published statistic, or one "count" of the people in S

    Returns
    -------
    Ratio; arrays broadcast, DataArrays keep their labels

    >>> round(relative_risk_bound(0.5, 0.1, 0.5), 6), round(relative_risk_bound(0.5, 0.1, 0.5, "lower"), 6)
    (1.927484, 0.476738)
    """
    sign = 1.0 if check_word("side", side, SIDES) == "upper" else -1.0
    check_statistic(statistic)
    check_prior("inclusion", inclusion)
    check_prior("value", value)
    check_non_negative("epsilon", epsilon, finite=False)
    return over_labels(lambda p, q, e: _risk(*_distinguished(p, q, statistic), sign * e), inclusion, value, epsilon)


def absolute_risk_bound(
    inclusion: ArrayLike, value: ArrayLike, epsilon: ArrayLike, side: str = "upper", statistic: str = "any"
) -> Any:
    """Bound on the posterior probability of "in the data, and in S" after any epsilon-DP release.

    It is p q `relative_risk_bound`, at most 1 (Kazan's thesis, Theorem 4), with the same assumptions.

    Parameters
    ----------
    inclusion, value : p and q, in (0, 1]; arrays broadcast, DataArrays keep their labels
    epsilon : nats, >= 0, may be infinite
    side : "upper" or "lower" bound
    statistic : "any" or "count"

    Returns
    -------
    Probability, of the broadcast shape.

    Raises
    ------
    ValueError : an argument out of its range, or an unknown side or statistic

    >>> round(absolute_risk_bound(0.5, 0.1, 0.5), 6)
    0.096374
    """
    bound = relative_risk_bound(inclusion, value, epsilon, side, statistic)
    return over_labels(lambda p, q, r: np.minimum(p * q * r, 1.0), inclusion, value, bound)


def epsilon_for_risk(inclusion: ArrayLike, value: ArrayLike, ratio: ArrayLike, statistic: str = "any") -> Any:
    """Largest epsilon at which no release raises this adversary's belief by more than a factor `ratio`; Theorem 5.

    With c = 1 / ratio - p q, log(((1 - p) + sqrt((1 - p)^2 + 4 p (1 - q) c)) / (2 c)), and infinite where c <= 0: a
    belief never passes 1. The published form is 0/0 on its boundaries; this one is its conjugate. Adversaries are those
    of `relative_risk_bound`.

    Parameters
    ----------
    inclusion, value : p and q, in (0, 1]
    ratio : > 0; 1 gives 0 (nothing may be learned), and below 1 the answer is minus the epsilon whose lower bound it is
    """
    check_statistic(statistic)
    check_prior("inclusion", inclusion)
    check_prior("value", value)
    wanted = check_number("ratio", ratio)
    if not (wanted > 0.0).all():
        raise ValueError(f"ratio must be positive, got {wanted[~(wanted > 0.0)].ravel()[0]}")
    return over_labels(lambda p, q, r: epsilon_at(p, q, r, statistic), inclusion, value, ratio)


def epsilon_at(p: Floats, q: Floats, ratio: Floats, statistic: str = "any") -> Floats:
    """`epsilon_for_risk` without checks, for priors in [0, 1]; the limit at 0, and -inf for unattainably low ratios."""
    with np.errstate(divide="ignore"):
        epsilon = epsilon_of_room(p, q, 1.0 / np.asarray(ratio) - p * q, statistic)
    if np.min(ratio, initial=np.inf) > 1.0:
        # rounding of a ratio just above 1
        return np.maximum(epsilon, 0.0, out=epsilon)
    epsilon = np.where((ratio == 1.0) & (p * q < 1.0), 0.0, epsilon)
    epsilon = np.where(np.asarray(ratio) > 0.0, epsilon, -np.inf)
    return np.where((ratio > 1.0) & (epsilon < 0.0), 0.0, epsilon)


def epsilon_of_room(p: Floats, q: Floats, room: Floats, statistic: str = "any") -> Floats:
    """Epsilon from c = 1 / ratio - p q, for callers who can compute c without cancellation."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # as of inclusion p q at value prior 1, where the root is 1 - p q too
        if statistic == "count":
            return np.where(room > 0.0, np.log((1.0 - p * q) / room), np.inf)
        out = 1.0 - p
        root = np.sqrt(out * out + (4.0 * p * (1.0 - q)) * room)
        return np.where(room > 0.0, np.log((out + root) / (2.0 * room)), np.inf)


def _distinguished(p: Any, q: Any, statistic: str) -> tuple[Any, Any]:
    """The priors that a statistic distinguishes: one count depends on p q alone, as on inclusion at value prior 1."""
    return (p, q) if statistic == "any" else (p * q, 1.0)


def _risk(p: Any, q: Any, epsilon: Any) -> Any:
    """1 / (p (q + x^2 (1 - q)) + x (1 - p)), x = e^-epsilon; a sum of positive terms, infinite x allowed."""
    with np.errstate(over="ignore", divide="ignore"):
        x = np.exp(-as_array(epsilon))
        return 1.0 / (p * (q + weight_or_zero(1.0 - q, x * x)) + weight_or_zero(1.0 - p, x))


def weight_or_zero(weight: Floats, size: Any) -> Floats:
    """weight times size, with 0 * inf = 0."""
    if np.isfinite(size).all():
        return np.asarray(weight * size)
    with np.errstate(invalid="ignore"):
        return np.where(weight == 0.0, 0.0, weight * size)


def risk_surface(
    what: Any, inclusion: ArrayLike | None = None, value: ArrayLike | None = None, statistic: str = "any"
) -> xr.Dataset:
    """Grid of adversaries with the risk that an epsilon allows, or that a profile tolerates.

    Parameters
    ----------
    what : an epsilon, for the variables `ratio` and `posterior` (upper bounds); or a `RiskProfile`, for `tolerated` (a
        ratio) and `epsilon` (the largest that keeps it for this adversary alone, infinite where every one does)
    inclusion, value : vectors of priors in (0, 1]; by default 101 of each, evenly spaced from 0.001
    statistic : "any" or "count", as for `relative_risk_bound`

    Returns
    -------
    Dataset, dims (inclusion, value)
    """
    import xarray as xr

    check_statistic(statistic)
    usual = np.linspace(0.001, 1.0, GRID)
    p = np.atleast_1d(check_prior("inclusion", usual if inclusion is None else inclusion))
    q = np.atleast_1d(check_prior("value", usual if value is None else value))
    if p.ndim > 1 or q.ndim > 1:
        raise ValueError(f"inclusion and value must be vectors, got {p.ndim} and {q.ndim} dimensions")
    rows, columns = p[:, None], q[None, :]
    if callable(what):
        tolerated = what(rows, columns)
        surface = {"tolerated": tolerated, "epsilon": epsilon_at(rows, columns, tolerated, statistic)}
    else:
        epsilon = float(check_non_negative("epsilon", what, finite=False))
        ratio = _risk(*_distinguished(rows, columns, statistic), epsilon)
        surface = {"ratio": ratio, "posterior": np.minimum(rows * columns * ratio, 1.0)}
    dims = ("inclusion", "value")
    return xr.Dataset(
        {name: (dims, values) for name, values in surface.items()},
        coords={"inclusion": p, "value": q},
        attrs={"statistic": statistic},
    )


def check_prior(name: str, x: ArrayLike) -> Floats:
    """Array of probabilities in (0, 1], or ValueError naming the argument: no ratio is defined at prior 0."""
    array = check_number(name, x)
    inside = (array > 0.0) & (array <= 1.0)
    if not inside.all():
        raise ValueError(f"{name} must be in (0, 1], got {array[~inside].ravel()[0]}")
    return array


def check_word(name: str, word: str, words: tuple[str, ...]) -> str:
    """The word, if it is one of those allowed.

    Parameters
    ----------
    name : name of the argument, for the message
    word, words : the value given, and the values allowed

    Raises
    ------
    ValueError : naming the argument, the allowed words and the value

    >>> check_word("side", "upper", SIDES)
    'upper'
    """
    if word not in words:
        raise ValueError(f"{name} must be one of {quoted(words)}, got {word!r}{closest_name(str(word), words)}")
    return word


def check_statistic(statistic: str) -> str:
    """The statistic, if it is "any" release or one "count" of the people in S, or ValueError."""
    return check_word("statistic", statistic, STATISTICS)


def equivalent_epsilon(
    guarantee: Guarantee, failure: float = 0.0, *, values: bool = True, two: Guarantee | None = None
) -> float:
    """Equivalent epsilon: that of the pure DP whose bounds on a rise hold here except with a failure probability.

    For inclusion only it is `guarantee.loss_bound(failure)`, which also bounds a fall. For values it is at least the
    smallest e at which the larger of t1 and t2 is within the failure: max(t(guarantee), t(two) / 2), with t =
    `pbdp_epsilon` at the failure probability.

    Parameters
    ----------
    guarantee : the guarantee for one record, or a privacy loss
    failure : probability, under every truth, of a release beyond the bounds
    values : whether the value of a record matters, or its inclusion only
    two : the guarantee for hypotheses two records apart; by default `guarantee.group(2)`

    Returns
    -------
    epsilon in nats; infinite if there is none

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> round(equivalent_epsilon(ZeroConcentratedDP(0.03), 0.05), 6)
    0.669604
    """
    chance = float(check_probability("failure", failure))
    if chance == 1.0:
        return 0.0
    guarantee = check_guarantee("guarantee", guarantee).after_postprocessing
    bound = float(guarantee.loss_bound(chance))
    if not values or bound == np.inf:
        return bound
    pair = guarantee.group(2) if two is None else two.after_postprocessing
    return max(bound, float(guarantee.pbdp_epsilon(chance)), 0.5 * float(pair.pbdp_epsilon(chance)))
