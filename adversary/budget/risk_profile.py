"""Risk profiles: the largest tolerated rise of an adversary's belief, as a function of the adversary's prior.

A profile maps (inclusion, value) = (p, q) to the largest tolerated ratio r*(p, q) of posterior to prior, in [1, inf];
infinite means no limit for these adversaries. `recommend_epsilon` converts a profile to an epsilon. The kinds are in
`tolerances`: each has `tolerated`, `domain`, and, for some, the binding adversary in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import one_number, over_labels
from adversary.budget.risk_bounds import check_prior
from adversary.budget.tolerances import (
    EVERYBODY,
    Custom,
    Difference,
    Least,
    Range,
    RatioOrAbsolute,
    Tolerance,
    Within,
    prior_range,
)

# Priors that are checked, in this order, for examples outside a profile's domain.
OUTSIDE = (0.01, 0.1, 0.5, 0.9, 0.001)


@dataclass(frozen=True, slots=True)
class RiskProfile:
    """A tolerated ratio r*(inclusion, value), made by one of the constructors below.

    Parameters
    ----------
    tolerance : one of the kinds in `tolerances`
    """

    tolerance: Tolerance

    @staticmethod
    def constant(ratio: float) -> RiskProfile:
        """One ratio for every adversary."""
        return RiskProfile(RatioOrAbsolute(ratio))

    @staticmethod
    def ratio_or_absolute(
        ratio: float, absolute: float, inclusion: float | Range | None = None, value: float | Range | None = None
    ) -> RiskProfile:
        """max(ratio, absolute / (p q)): any posterior up to `absolute` is tolerated, above it the ratio is limited.

        Parameters
        ----------
        ratio : largest ratio of posterior to prior, >= 1
        absolute : posterior probability in [0, 1]; 0 means the ratio only, 1 means no limit
        inclusion, value : priors of the adversaries that are limited, a number or a range (low, high); None for all
        """
        every = RiskProfile(RatioOrAbsolute(ratio, absolute))
        return every.within(*(EVERYBODY[0] if x is None else x for x in (inclusion, value)))

    @staticmethod
    def box(ratio: float, inclusion: Range = (0.0, 1.0), value: Range = (0.0, 1.0)) -> RiskProfile:
        """One ratio for adversaries with priors in a rectangle."""
        return RiskProfile.constant(ratio).within(inclusion, value)

    @staticmethod
    def difference(b: float) -> RiskProfile:
        """Posterior minus prior at most b, in (0, 1), for every adversary: 1 + b / (p q)."""
        return RiskProfile(Difference(b))

    @staticmethod
    def point(ratio: float, inclusion: float, value: float) -> RiskProfile:
        """A ratio for adversaries with exactly these priors."""
        return RiskProfile.constant(ratio).within(one_number("inclusion", inclusion), one_number("value", value))

    @staticmethod
    def custom(function: Callable[[Any, Any], Any], *, decreasing: bool = False) -> RiskProfile:
        """Any function of arrays (inclusion, value) with values in [1, inf].

        Parameters
        ----------
        function : called with arrays that broadcast; a function of single numbers is called for each, slowly
        decreasing : whether the function is known to be non-increasing in both priors, which certifies the optimum; a
            violation at evaluated priors is an error
        """
        return RiskProfile(Custom(function, decreasing))

    @property
    def domain(self) -> tuple[Range, Range]:
        """Ranges of inclusion and value outside of which r* is infinite."""
        return self.tolerance.domain

    @property
    def words(self) -> str:
        """The profile as a clause: "no ratio above 3"."""
        return self.tolerance.words

    @property
    def about_values(self) -> bool:
        """True if the profile covers value priors below 1: the value of a record, not only its inclusion."""
        return self.tolerance.about_values

    def __call__(self, inclusion: ArrayLike, value: ArrayLike) -> Any:
        """Largest tolerated ratio of posterior to prior; arrays broadcast, labels stay."""
        check_prior("inclusion", inclusion)
        check_prior("value", value)
        return over_labels(self.tolerance.ratios, inclusion, value)

    def outsiders(self, priors: Sequence[float] = OUTSIDE) -> list[tuple[float, float]]:
        """Examples of adversaries (inclusion, value) that the profile does not limit, at most one per prior.

        Parameters
        ----------
        priors : candidates for one prior; the other is the largest of the profile's domain

        >>> RiskProfile.ratio_or_absolute(1.0, 0.05, inclusion=(1e-5, 1 / 2000), value=1.0).outsiders()
        [(0.01, 1.0)]
        >>> RiskProfile.difference(0.2).outsiders()
        []
        """
        (_, p), (_, q) = self.domain
        pairs = [[(x, q) for x in priors], [(p, x) for x in priors] if self.about_values else []]
        outside = ([one for one in side if np.isinf(self(*one))] for side in pairs)
        return list(dict.fromkeys(side[0] for side in outside if side))

    def minimum(self, *others: RiskProfile) -> RiskProfile:
        """The stricter of several profiles at every prior."""
        for other in others:
            if not isinstance(other, RiskProfile):
                raise TypeError(f"a profile's minimum must be of other profiles, got {other!r}")
        return RiskProfile(Least(tuple(part for one in (self, *others) for part in one.tolerance.parts)))

    def within(self, inclusion: float | Range = (0.0, 1.0), value: float | Range = (0.0, 1.0)) -> RiskProfile:
        """This tolerance for adversaries with priors in a rectangle, or one prior; others do not matter."""
        return RiskProfile(Within(self.tolerance, prior_range("inclusion", inclusion), prior_range("value", value)))
