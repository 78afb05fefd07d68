"""Exact sum of a lattice loss and a loss of another kind: a mixture of the other, shifted by each atom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, labelled, scalar_or_array
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import area_under, level_from_profile


@dataclass(frozen=True, eq=False)
class MixedLoss(PrivacyLoss):
    """Sum of a lattice loss and another loss: a mixture over atoms of the other distribution, shifted.

    All terms are positive, so that relative accuracy is preserved.

    Parameters
    ----------
    lattice : loss whose atoms are the mixture components
    other : any other loss
    """

    lattice: LatticeLoss
    other: PrivacyLoss
    route = Route.MIXED

    @property
    def summands(self) -> tuple[PrivacyLoss, ...]:
        return self.lattice, self.other

    def _mixture_of(self, weights: Floats, values: Any) -> Any:
        return np.tensordot(np.exp(weights), values, axes=(0, 0))

    def _shifts(self, threshold: Floats) -> Floats:
        return np.subtract.outer(-self.lattice.losses, -threshold)

    def above_ties(self, threshold: Floats) -> Floats:
        return self.lattice.above_ties(threshold)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        p, q = (as_array(x) for x in self.other.tail(self._shifts(self.lattice.above_ties(as_array(threshold)))))
        beyond_p = self._mixture_of(self.lattice.log_p, p) + self.lattice.infinite_p
        beyond_q = self._mixture_of(self.lattice.log_q, q)
        return scalar_or_array(np.minimum(beyond_p, 1.0)), scalar_or_array(np.minimum(beyond_q, 1.0))

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """P(infinite) + sum over atoms x of P(x) delta_other(epsilon - x)."""
        mixed = self._mixture_of(self.lattice.log_p, as_array(self.other.delta(self._shifts(as_array(epsilon)))))
        return scalar_or_array(np.clip(mixed + self.lattice.infinite_p, 0.0, 1.0))

    @cached_property
    def coarse(self) -> MixedLoss:
        other = self.other.coarse
        return self if other is self.other else MixedLoss(self.lattice, other)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        return level_from_profile(self.coarse, power)

    @property
    def auc(self) -> float:
        return area_under(self.coarse)

    @property
    def bracket(self) -> Bracket:
        """Certified profile from that of the other loss; power and tails are as exact as the other's."""

        def delta(epsilon: ArrayLike) -> tuple[Any, Any]:
            ends = self.other.bracket.delta(self._shifts(as_array(epsilon)))
            low, high = (self._mixture_of(self.lattice.log_p, as_array(end)) + self.lattice.infinite_p for end in ends)
            return scalar_or_array(np.clip(low, 0.0, 1.0)), scalar_or_array(np.clip(high, 0.0, 1.0))

        return Bracket(
            self,
            of_delta=delta,
            of_power=lambda level: (self.power(level),) * 2,
            of_tail=lambda threshold: (self.tail(threshold)[0],) * 2,
        )

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        def moved(x: float) -> Expectation:
            return lambda z: function(z + x)

        pairs = [self.other.expect(moved(float(x))) for x in self.lattice.losses]
        p, q = (
            self._mixture_of(weights, np.array([as_array(pair[side]) for pair in pairs]))
            for side, weights in enumerate((self.lattice.log_p, self.lattice.log_q))
        )
        if self.lattice.infinite_p:
            p = p + self.lattice.infinite_p * function(np.array([np.inf]))[..., 0]
        if self.lattice.infinite_q:
            q = q + self.lattice.infinite_q * function(np.array([-np.inf]))[..., 0]
        return scalar_or_array(p), scalar_or_array(q)

    @property
    def kl_divergence(self) -> float:
        return self.lattice.kl_divergence + self.other.kl_divergence

    def log_moment(self, order: float) -> float:
        return self.lattice.log_moment(order) + self.other.log_moment(order)

    @cached_property
    def swapped(self) -> MixedLoss:
        return MixedLoss(self.lattice.swapped, self.other.swapped)

    @property
    def maximum(self) -> float:
        return self.lattice.maximum + self.other.maximum
