"""Skeleton of a guarantee: copy it to `adversary/privacy/definitions/`, then change the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    check_number,
    check_probability,
    check_whole,
    elementwise,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.profiles import tolerated


@dataclass(frozen=True)
class TotalVariation(Guarantee):
    """Total variation privacy: |P(S) - Q(S)| <= distance for every event S, which is (0, distance)-DP.

    Parameters
    ----------
    distance : in [0, 1)

    References
    ----------
    Ghazi and Issa (2024), "Total variation meets differential privacy", IEEE Journal on Selected Areas in Information
    Theory 5.

    >>> TotalVariation(0.2).power(0.05)
    0.25
    """

    definition = "total variation"
    name = "total variation privacy"
    meaning = "|P(S) - Q(S)| <= distance for every event S."

    distance: float

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "distance", float(check_probability("distance", one_number("distance", self.distance)))
        )

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """distance from epsilon 0 on; below it, by the symmetry of profiles."""
        e = check_number("epsilon", epsilon)
        return scalar_or_array(
            np.where(e >= 0.0, self.distance, 1.0 - np.exp(np.minimum(e, 0.0)) * (1.0 - self.distance))
        )

    @property
    def worst_pair(self) -> LatticeLoss:
        """The input revealed with probability `distance`, and nothing otherwise."""
        nothing = np.log1p(np.array([-self.distance]))
        return LatticeLoss(np.zeros(1), nothing, nothing, self.distance, self.distance, blur=0.0)

    @elementwise
    def loss_bound(self, failure: float) -> float:
        """log1p(2 distance / (failure - distance)) for failure > distance: Theorem 3.9 of Kazan et al. at epsilon 0."""
        failure = float(check_probability("failure", failure))
        if self.distance == 0.0:
            return 0.0
        return float(np.log1p(2.0 * self.distance / (failure - self.distance))) if failure > self.distance else np.inf

    def group(self, size: int) -> Guarantee:
        distance = int(check_whole("size", size, minimum=1)) * self.distance
        return type(self)(distance) if distance < 1.0 else NoPrivacy()

    def is_satisfied_by(self, loss: PrivacyLoss) -> bool:
        least = max(float(side.bracket.delta(0.0)[0]) for side in loss.directions)
        return bool(least <= tolerated(self.distance))
