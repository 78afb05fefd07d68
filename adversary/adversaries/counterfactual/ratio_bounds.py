"""Bounds from a guarantee, for any prior, on the ratio of the actual to the counterfactual posterior.

With Renyi divergence gamma of order alpha and ratio e^epsilon (epsilon in nats), the bounds are

    rest known, release as the adversary expects it:  exp(-(epsilon - gamma) alpha - gamma)    (Theorem 7.3)
    any prior, release given the true record:      exp((alpha - 1)(gamma - epsilon))        (Theorem 7.5)

The best order for zCDP is alpha = (epsilon + rho) / (2 rho) in both. With the rest known and the release given the true
record, Theorem 7.4 gives the probabilistic-bound curve from trade-off functions. All three hold after post-processing.

References
----------
Kifer et al. (2022), section 7.4. Section 7.4.2 prints the exponent of 7.5 for zCDP with epsilon - rho^2, and Appendix C
a difference of two fractions where their product is meant; its final bound, -(epsilon - rho)^2 / (4 rho), is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_probability,
    elementwise,
    labelled,
    scalar_or_array,
    solve_decreasing,
)
from adversary.privacy import Guarantee
from adversary.privacy.definitions import GaussianDP, GroupPrivacy, PureDP, RenyiDP, ZeroConcentratedDP
from adversary.privacy.losses import PrivacyLoss, way_to_loss

Guarantees = Guarantee | Iterable[Guarantee]
Orders = tuple[Any, Any]
Curve = Callable[[Any], Orders]

_GAPS = np.geomspace(1e-3, 1e3, 121)


@labelled
def known_rest_bound(guarantee: Any, epsilon: ArrayLike) -> Any:
    """Theorem 7.3: bound on P(ratio >= e^epsilon), rest known, any record, release as the adversary expects it.

    The minimum of exp(-(epsilon - gamma) alpha - gamma) over the Renyi orders of the guarantee; for zCDP
    exp(-(epsilon + rho)^2 / (4 rho)) if epsilon > rho. At order 1 it is Markov's e^-epsilon, valid for any mechanism.

    Parameters
    ----------
    guarantee : for a change of the target's record; of several (such as Renyi pairs) the best bound is used
    epsilon : log of the ratio, nats, >= 0

    Returns
    -------
    Probability in [0, 1], of the shape of `epsilon`, with its labels

    >>> round(known_rest_bound(ZeroConcentratedDP(2.63), 3.0), 10)
    0.0491433713
    """
    return scalar_or_array(np.exp(_log_known_rest(_orders(guarantee), check_non_negative("epsilon", epsilon))))


@labelled
def true_record_bound(guarantee: Any, epsilon: ArrayLike) -> Any:
    """Theorem 7.5: bound on P(ratio >= e^epsilon) of the true record, any prior, release given that record.

    The minimum of exp((alpha - 1)(gamma - epsilon)) over the Renyi orders of the guarantee; for zCDP
    exp(-(epsilon - rho)^2 / (4 rho)) if epsilon > rho; 1 if no order gives a bound below 1. Never below
    `known_rest_bound` for the same guarantee.

    Parameters
    ----------
    guarantee : for a change of the target's record; of several (such as Renyi pairs) the best bound is used
    epsilon : log of the ratio, nats, >= 0

    Returns
    -------
    Probability in [0, 1], of the shape of `epsilon`, with its labels

    Raises
    ------
    ValueError : a negative epsilon
    TypeError : `guarantee` is neither a Guarantee nor several

    >>> round(true_record_bound(ZeroConcentratedDP(2.63), 5.0), 10)
    0.5862987216
    """
    return scalar_or_array(np.exp(_log_true_record(_orders(guarantee), check_non_negative("epsilon", epsilon))))


@labelled
def functional_bound(guarantee: Any, epsilon: ArrayLike) -> Any:
    """Theorem 7.4: bound on P(ratio > e^epsilon) of the true record, rest known, release given that record.

    The probabilistic-bound curve `pbdp_delta` of the guarantee; 0 from its largest loss on, 1 at epsilon = 0.

    Parameters
    ----------
    guarantee, epsilon : as in `true_record_bound`

    Returns
    -------
    Probability in [0, 1], of the shape of `epsilon`, with its labels

    >>> functional_bound(PureDP(1.0), [0.0, 0.5, 1.0]).round(4).tolist()
    [1.0, 0.8137, 0.0]
    """
    e, each = check_non_negative("epsilon", epsilon), guarantees_of(guarantee)
    positive: Any = np.where(e > 0, e, 1.0)
    best = np.where(e > 0, np.min([as_array(g.pbdp_delta(positive)) for g in each], axis=0), 1.0)
    return scalar_or_array(np.where(e >= min(float(g.loss_bound(0.0)) for g in each), 0.0, best))


@elementwise
def known_rest_epsilon(guarantee: Any, delta: Any) -> Any:
    """Smallest epsilon whose `known_rest_bound` is at most delta: the inverse of Theorem 7.3.

    For zCDP 2 sqrt(rho log(1/delta)) - rho, if this exceeds rho.

    Parameters
    ----------
    guarantee : for a change of the target's record; of several the best bound is used
    delta : probability in [0, 1]; at 0 the result is the largest loss under the guarantee, infinite for most

    Returns
    -------
    epsilon in nats, of the shape of `delta`

    Raises
    ------
    ValueError : delta outside [0, 1]
    TypeError : `guarantee` is neither a Guarantee nor several

    >>> round(known_rest_epsilon(ZeroConcentratedDP(0.1), 1e-5), 6)
    2.045966
    """
    return _inverse(_log_known_rest, guarantee, delta)


@elementwise
def true_record_epsilon(guarantee: Any, delta: Any) -> Any:
    """Smallest epsilon whose `true_record_bound` is at most delta: the inverse of Theorem 7.5.

    For zCDP rho + 2 sqrt(rho log(1/delta)).

    Parameters
    ----------
    guarantee, delta : as in `known_rest_epsilon`

    Returns
    -------
    epsilon in nats, of the shape of `delta`

    >>> round(true_record_epsilon(ZeroConcentratedDP(0.1), 1e-5), 6)
    2.245966
    """
    return _inverse(_log_true_record, guarantee, delta)


@elementwise
def functional_epsilon(guarantee: Any, delta: Any) -> Any:
    """Smallest epsilon whose `functional_bound` is at most delta, `pbdp_epsilon(delta)`: the inverse of Theorem 7.4.

    Parameters
    ----------
    guarantee, delta : as in `known_rest_epsilon`

    Returns
    -------
    epsilon in nats, of the shape of `delta`

    >>> functional_epsilon(PureDP(1.0), 0.0)
    1.0
    """
    return min(float(g.pbdp_epsilon(delta)) for g in guarantees_of(guarantee))


def guarantees_of(guarantee: Any) -> tuple[Guarantee, ...]:
    """One guarantee, or several, as a tuple."""
    several = guarantee if isinstance(guarantee, Iterable) else ()
    each = (guarantee,) if isinstance(guarantee, Guarantee) else tuple(several)
    if not each or not all(isinstance(g, Guarantee) for g in each):
        raise TypeError(f"guarantee must be one, or several, got {guarantee!r}{way_to_loss(guarantee)}")
    return each


def _orders(guarantee: Any) -> Curve:
    """Candidate Renyi orders and divergences at each epsilon, on a new last axis; order 1 in place of useless ones."""
    curves = [renyi_orders(g) for g in guarantees_of(guarantee)]

    def orders(epsilon: Floats) -> Orders:
        e = epsilon[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = [np.broadcast_arrays(*curve(e), e)[:2] for curve in curves]
        alpha, gamma = (np.concatenate(part, axis=-1) for part in zip(*pairs, strict=True))
        useful = (alpha > 1.0) & (gamma < e)
        return np.where(useful, alpha, 1.0), np.where(useful, gamma, 0.0)

    return orders


def _log_known_rest(orders: Curve, epsilon: Floats) -> Floats:
    alpha, gamma = orders(epsilon)
    return np.asarray((-(epsilon[..., None] - gamma) * alpha - gamma).min(axis=-1))


def _log_true_record(orders: Curve, epsilon: Floats) -> Floats:
    alpha, gamma = orders(epsilon)
    gap = np.where(alpha > 1.0, gamma - epsilon[..., None], 0.0)
    return np.asarray(((alpha - 1.0) * gap).min(axis=-1))


def _inverse(log_bound: Callable[..., Floats], guarantee: Any, delta: float) -> float:
    """Smallest epsilon >= 0 at which a bound has fallen to delta."""
    target, orders = float(check_probability("delta", delta)), _orders(guarantee)
    if target == 0.0:
        return min(float(g.loss_bound(0.0)) for g in guarantees_of(guarantee))
    return solve_decreasing(lambda e: float(log_bound(orders, np.asarray(e)) - np.log(target)), 0.0, 1.0)


@singledispatch
def renyi_orders(guarantee: Guarantee) -> Curve:
    """Function of epsilon that returns orders alpha and upper bounds gamma on the Renyi divergences at them.

    For guarantees of other classes it is the infinite order only, with the largest loss as its divergence.
    """
    largest = float(guarantee.loss_bound(0.0))
    return lambda epsilon: (np.inf, largest)


@renyi_orders.register
def _(guarantee: ZeroConcentratedDP) -> Curve:
    rho = float(guarantee.rho)
    return lambda epsilon: ((epsilon + rho) / (2.0 * rho), (epsilon + rho) / 2.0)


@renyi_orders.register
def _(guarantee: GaussianDP) -> Curve:
    return renyi_orders(ZeroConcentratedDP(guarantee.mu**2 / 2.0))


@renyi_orders.register
def _(guarantee: RenyiDP) -> Curve:
    return lambda epsilon: (guarantee.alpha, guarantee.gamma)


@renyi_orders.register
def _(guarantee: PureDP) -> Curve:
    """The orders of (epsilon^2 / 2)-zCDP, which pure DP implies, and the infinite order with the largest loss."""
    quadratic, epsilon0 = renyi_orders(ZeroConcentratedDP(guarantee.epsilon0**2 / 2.0)), float(guarantee.epsilon0)

    def orders(epsilon: ArrayLike) -> Orders:
        alpha, gamma = quadratic(epsilon)
        infinite = np.full_like(alpha, np.inf), np.full_like(gamma, epsilon0)
        return np.concatenate([alpha, infinite[0]], axis=-1), np.concatenate([gamma, infinite[1]], axis=-1)

    return orders


@renyi_orders.register
def _(guarantee: GroupPrivacy) -> Curve:
    return renyi_orders(guarantee.worst_pair)


@renyi_orders.register
def _(guarantee: PrivacyLoss) -> Curve:
    """The larger divergence of both directions; a bound is valid at any order, so a grid errs towards more risk."""
    curve = _renyi_curve(guarantee)
    return lambda epsilon: curve


@lru_cache(maxsize=64)
def _renyi_curve(loss: PrivacyLoss) -> Orders:
    sides = loss.directions
    gamma = [max(side.renyi(1.0 + gap) for side in sides) for gap in _GAPS]
    return np.append(1.0 + _GAPS, np.inf), np.append(gamma, max(side.maximum for side in sides))
