"""Composition theorems for (epsilon, delta)-DP as functions of numbers: basic, advanced, optimal.

`n * guarantee` composes optimally; these published totals serve comparison. Kairouz, Oh and Viswanath 2017, "The
composition theorem for differential privacy"; theorems numbered as in Chapter 5 of Kazan's thesis (Kazan et al. 2025,
"Interpreting differential privacy in terms of disclosure risk", section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_whole,
    log_sum_exp,
    scalar_or_array,
    solve_decreasing,
)
from adversary.privacy.definitions.conversions import check_delta


def compose_basic(epsilons: Sequence[float] | Floats, deltas: ArrayLike = 0.0) -> tuple[float, float]:
    """Basic composition of (epsilon_j, delta_j)-DP releases: epsilons add, deltas add; delta is at most 1.

    Parameters
    ----------
    epsilons : of each release, nats, >= 0; at least one
    deltas : of each release, in [0, 1); one may stand for all

    Returns
    -------
    (epsilon, delta) of all releases together.

    Raises
    ------
    ValueError : no epsilons, a number out of range, or a number of deltas other than one or one per epsilon

    >>> compose_basic([0.5, 1.0], 1e-6)
    (1.5, 2e-06)
    """
    e, d = _total_epsilon_delta(epsilons, deltas)
    return float(e.sum()), min(1.0, float(d.sum()))


def compose_advanced(
    epsilons: Sequence[float] | Floats, delta: float, deltas: ArrayLike = 0.0, *, variant: str = "published"
) -> float:
    """Total epsilon by advanced composition: sum e_j (exp(e_j) - 1) + sqrt(2 sum e_j^2 log(1 / (delta - sum delta_j))).

    For few releases it may exceed basic composition. `n * PureDP(epsilon)` composes optimally.

    Parameters
    ----------
    epsilons : of each release, nats, >= 0; at least one
    delta : in total, greater than the sum of `deltas`
    deltas : of each release, in [0, 1); one may stand for all
    variant : "published"; "tight" has (e^e_j - 1) / (e^e_j + 1) instead of e^e_j - 1 (Kairouz, Oh and Viswanath 2017,
        Theorem 3.4); "best" is the smaller of "tight" and the sum of epsilons

    Returns
    -------
    Total epsilon in nats.

    Raises
    ------
    ValueError : a delta that the releases have already spent, an unknown variant, or an argument out of range

    References: Kazan's thesis, Theorem 25.2.
    """
    e, d = _total_epsilon_delta(epsilons, deltas)
    room = float(check_delta("delta", delta, zero=False)) - float(d.sum())
    if not room > 0.0:
        raise ValueError(f"delta must be greater than the {d.sum()} already spent, got {delta}")
    spread = float(np.sqrt(2.0 * (e @ e) * -np.log(room)))
    tight = float(e @ np.tanh(e / 2.0)) + spread
    with np.errstate(over="ignore"):
        variants = {"published": float(e @ np.expm1(e)) + spread, "tight": tight, "best": min(tight, float(e.sum()))}
    if variant not in variants:
        raise ValueError(f"variant must be one of {', '.join(variants)}, got {variant!r}")
    return variants[variant]


def compose_lattice(epsilon: float, count: int, delta: float, delta_each: float = 0.0) -> float:
    """Total epsilon of `count` releases with (epsilon, delta_each)-DP, among the values listed in the theorem.

    The smallest (count - 2 l) epsilon, l = 0, 1, ..., whose delta is at most the total; `compose_optimal` applies the
    same theorem at all real epsilons.

    Parameters
    ----------
    epsilon : of each release, nats, >= 0
    count : number of releases, >= 1
    delta : in total, in [0, 1), at least 1 - (1 - delta_each)^count
    delta_each : of each release, in [0, 1)

    Returns
    -------
    Total epsilon in nats, never below that of `compose_optimal`.

    Raises
    ------
    ValueError : a total delta below what the releases already spend, or an argument out of range

    References: Kairouz, Oh and Viswanath 2017, Theorem 3.3; Theorem 25.3 of Kazan's thesis.

    >>> compose_lattice(0.5, 10, 0.1), round(compose_optimal(0.5, 10, 0.1), 6)
    (3.0, 2.558497)
    """
    e, n = _homogeneous(epsilon, count)
    totals = (n - 2.0 * np.arange(n // 2 + 1)) * e
    enough = as_array(optimal_profile(totals, e, n)) <= _remaining_delta(n, delta, delta_each)
    return float(totals[enough].min())


def compose_optimal(epsilon: float, count: int, delta: float, delta_each: float = 0.0) -> float:
    """Smallest total epsilon of `count` releases with (epsilon, delta_each)-DP at a total delta: optimal composition.

    It inverts `optimal_profile` by bisection, rounded up.

    Parameters
    ----------
    epsilon, count, delta, delta_each : as in `compose_lattice`

    Returns
    -------
    Total epsilon in nats, at most count * epsilon.

    References: Kairouz, Oh and Viswanath 2017, Theorem 3.3.

    >>> round(compose_optimal(0.5, 10, 1e-3), 6)
    4.878372
    """
    e, n = _homogeneous(epsilon, count)
    need = _remaining_delta(n, delta, delta_each)
    if need == 0.0:
        return n * e
    return min(n * e, solve_decreasing(lambda total: optimal_profile(total, e, n) - need, 0.0, 1.0))


def optimal_profile(total: ArrayLike, epsilon: float, count: int, delta_each: float = 0.0) -> Any:
    """Smallest total delta of `count` releases with (epsilon, delta_each)-DP at a total epsilon: the optimal profile.

    1 - (1 - delta_each)^n (1 - sum_j C(n, j) max(0, e^((n - j) epsilon) - e^(total + j epsilon)) / (1 + e^epsilon)^n),
    the profile of n randomised responses, each of which reveals its input with probability delta_each. It is the closed
    form of `(n * ApproximateDP(epsilon, delta_each)).delta`.

    Parameters
    ----------
    total : total epsilon in nats, any real number; a number or an array
    epsilon : of each release, nats, >= 0
    count : number n of releases, >= 1
    delta_each : of each release, in [0, 1)

    Returns
    -------
    Total delta, of the shape of `total`.

    Raises
    ------
    ValueError : an argument out of range

    References: Kairouz, Oh and Viswanath 2017, Theorem 3.3, written for every real total.

    >>> round(optimal_profile(1.0, 0.5, 10), 6)
    0.331678
    """
    e, n = _homogeneous(epsilon, count)
    # Log probability that no input is revealed.
    log_hidden = n * np.log1p(-float(check_delta("delta_each", delta_each)))
    j = np.arange(n + 1.0)
    log_p = gammaln(n + 1.0) - gammaln(j + 1.0) - gammaln(n - j + 1.0) + (n - j) * e - n * np.logaddexp(0.0, e)
    gap = np.minimum(check_number("total", total)[..., None] - (n - 2.0 * j) * e, 0.0)
    with np.errstate(divide="ignore"):
        log_delta = log_sum_exp(log_p + np.log(-np.expm1(gap)))
    delta = np.minimum(np.exp(log_delta), 1.0)
    return scalar_or_array(-np.expm1(log_hidden) + np.exp(log_hidden) * delta)


def _total_epsilon_delta(epsilons: Any, deltas: ArrayLike) -> tuple[Floats, Floats]:
    e = np.ravel(check_non_negative("epsilons", epsilons))
    if e.size == 0:
        raise ValueError("epsilons must not be empty: there is nothing to compose")
    d = np.ravel(check_delta("deltas", deltas))
    if d.size not in (1, e.size):
        raise ValueError(f"deltas must be one or as many as the {e.size} epsilons, got {d.size}")
    return e, np.broadcast_to(d, e.shape)


def _homogeneous(epsilon: float, count: int) -> tuple[float, int]:
    return float(check_non_negative("epsilon", epsilon)), int(check_whole("count", count, minimum=1))


def _remaining_delta(count: int, delta: float, delta_each: float) -> float:
    """Share of the total delta that remains for the finite losses: 1 - (1 - delta) / (1 - delta_each)^count."""
    total, each = float(check_delta("delta", delta)), float(check_delta("delta_each", delta_each))
    need = float(-np.expm1(np.log1p(-total) - count * np.log1p(-each)))
    if need < -1e-15:
        raise ValueError(f"delta must be at least what {count} releases of delta {each} already spend, got {delta}")
    return max(need, 0.0)
