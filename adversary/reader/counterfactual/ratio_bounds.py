"""Bounds on the ratio of the actual to the counterfactual posterior: what a guarantee says to a reader with a prior.

By Renyi divergence gamma of order alpha, epsilon in nats, e^epsilon the ratio:

    rest known, release as the reader expects it:  exp(-(epsilon - gamma) alpha - gamma)    (Theorem 7.3)
    any prior, release given the true record:      exp((alpha - 1)(gamma - epsilon))        (Theorem 7.5)

so at the best order of zCDP, alpha = (epsilon + rho) / (2 rho), for both; by trade-off, rest known and release given
the true record, the probabilistic-bound curve (Theorem 7.4). All three survive post-processing.

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


THEOREMS = ("7.3", "7.4", "7.5")


class RatioBound:
    """Bound on P(actual / counterfactual posterior >= e^epsilon) that a guarantee gives by one theorem.

    - "7.3": rest known, any record, release as the reader expects it. The least, over the Renyi orders of the
      guarantee, of exp(-(epsilon - gamma) alpha - gamma); for zCDP exp(-(epsilon + rho)^2 / (4 rho)) where
      epsilon > rho. At order 1 it is Markov's e^-epsilon, true of any mechanism.
    - "7.4": P(ratio > e^epsilon) of the true record, rest known, release given that record. The probabilistic-bound
      curve `pbdp_delta` of any guarantee; 0 from its largest loss on, 1 at epsilon = 0.
    - "7.5": the true record, any prior, release given that record. The least of exp((alpha - 1)(gamma - epsilon)) over
      the Renyi orders; for zCDP exp(-(epsilon - rho)^2 / (4 rho)) where epsilon > rho; 1 where no order gives less.
      Never below "7.3" at the same guarantee.

    Parameters
    ----------
    guarantee : of a change of the target's record; several (Renyi pairs, say) give the best of them
    theorem : "7.3", "7.4" or "7.5"

    Raises
    ------
    TypeError : `guarantee` is not one, or several
    ValueError : another theorem

    >>> census = RatioBound(ZeroConcentratedDP(2.63), "7.3")
    >>> round(census.probability(3.0), 10), round(census.epsilon(0.01), 6)
    (0.0491433713, 4.330344)
    >>> RatioBound(PureDP(1.0), "7.4").probability([0.0, 0.5, 1.0]).round(4).tolist()
    [1.0, 0.8137, 0.0]
    """

    def __init__(self, guarantee: Guarantees, theorem: str) -> None:
        if theorem not in THEOREMS:
            raise ValueError(f"theorem must be one of {THEOREMS}, got {theorem!r}")
        self.guarantees, self.theorem = guarantees_of(guarantee), theorem

    @property
    def largest(self) -> float:
        """Largest loss that the guarantees allow, nats."""
        return min(float(g.loss_bound(0.0)) for g in self.guarantees)

    @labelled
    def probability(self, epsilon: ArrayLike) -> Any:
        """The bound at epsilon >= 0, nats, any shape, labels kept."""
        e = check_non_negative("epsilon", epsilon)
        if self.theorem != "7.4":
            return scalar_or_array(np.exp(self._log_probability(e)))
        positive: Any = np.where(e > 0, e, 1.0)
        best = np.where(e > 0, np.min([as_array(g.pbdp_delta(positive)) for g in self.guarantees], axis=0), 1.0)
        return scalar_or_array(np.where(e >= self.largest, 0.0, best))

    @elementwise
    def epsilon(self, delta: Any) -> Any:
        """Smallest epsilon, nats, whose bound is at most a probability delta; at 0 the largest loss allowed.

        For zCDP rho + 2 sqrt(rho log(1/delta)) by 7.5; by 7.3 2 sqrt(rho log(1/delta)) - rho where that exceeds rho.
        """
        target = float(check_probability("delta", delta))
        if self.theorem == "7.4":
            return min(float(g.pbdp_epsilon(target)) for g in self.guarantees)
        if target == 0.0:
            return self.largest
        return solve_decreasing(lambda e: float(self._log_probability(np.asarray(e)) - np.log(target)), 0.0, 1.0)

    def _log_probability(self, epsilon: Floats) -> Floats:
        """By the best of the Renyi orders."""
        alpha, gamma = self._orders(epsilon)
        e = epsilon[..., None]
        if self.theorem == "7.3":
            return np.asarray((-(e - gamma) * alpha - gamma).min(axis=-1))
        return np.asarray(((alpha - 1.0) * np.where(alpha > 1.0, gamma - e, 0.0)).min(axis=-1))

    def _orders(self, epsilon: Floats) -> Orders:
        """Candidate Renyi orders at each epsilon, on a new last axis; order 1 where one is of no use."""
        e = epsilon[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = [np.broadcast_arrays(*renyi_orders(g)(e), e)[:2] for g in self.guarantees]
        alpha, gamma = (np.concatenate(part, axis=-1) for part in zip(*pairs, strict=True))
        useful = (alpha > 1.0) & (gamma < e)
        return np.where(useful, alpha, 1.0), np.where(useful, gamma, 0.0)


def guarantees_of(guarantee: Any) -> tuple[Guarantee, ...]:
    """One guarantee, or several, as a tuple."""
    several = guarantee if isinstance(guarantee, Iterable) else ()
    each = (guarantee,) if isinstance(guarantee, Guarantee) else tuple(several)
    if not each or not all(isinstance(g, Guarantee) for g in each):
        raise TypeError(f"guarantee must be one, or several, got {guarantee!r}{way_to_loss(guarantee)}")
    return each


@singledispatch
def renyi_orders(guarantee: Guarantee) -> Curve:
    """Function of epsilon giving orders alpha and Renyi divergences gamma that the guarantee allows at them.

    A largest loss is the divergence of infinite order: all that is asked of a guarantee of another kind.
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
    """epsilon^2 / 2 of zCDP, and the largest loss."""
    quadratic, epsilon0 = renyi_orders(ZeroConcentratedDP(guarantee.epsilon0**2 / 2.0)), float(guarantee.epsilon0)

    def orders(epsilon: Any) -> Orders:
        alpha, gamma = quadratic(epsilon)
        infinite = np.full_like(alpha, np.inf), np.full_like(gamma, epsilon0)
        return np.concatenate([alpha, infinite[0]], axis=-1), np.concatenate([gamma, infinite[1]], axis=-1)

    return orders


@renyi_orders.register
def _(guarantee: GroupPrivacy) -> Curve:
    return renyi_orders(guarantee.worst_pair)


@renyi_orders.register
def _(guarantee: PrivacyLoss) -> Curve:
    """The worse direction's own divergences; every order is valid, so a grid of them errs towards more risk."""
    curve = _renyi_curve(guarantee)
    return lambda epsilon: curve


@lru_cache(maxsize=64)
def _renyi_curve(loss: PrivacyLoss) -> Orders:
    sides = loss.directions
    gamma = [max(side.renyi(1.0 + gap) for side in sides) for gap in _GAPS]
    return np.append(1.0 + _GAPS, np.inf), np.append(gamma, max(side.maximum for side in sides))
