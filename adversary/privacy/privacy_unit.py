"""Unit of privacy: the entity whose data a guarantee protects, and the effect of one unit on a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adversary._core import check_non_negative, check_positive, check_whole, one_number, quoted
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss, compose_losses

if TYPE_CHECKING:
    from adversary.privacy.mechanisms import Mechanism

NEIGHBOURS = ("unbounded", "bounded")
"""One unit is added or removed; or one unit is replaced by another."""


@dataclass(frozen=True)
class PrivacyUnit:
    """Entity whose data a guarantee protects, with bounds on its contribution to a release.

    Parameters
    ----------
    name : noun for one unit: "person", "household", "device-day", "report"
    contribution : largest change of one published number by one unit (L-infinity sensitivity), > 0; None for the
        sensitivity that the noise is calibrated for, 1 if the noise names none
    cells : largest number of published numbers of one level or table that change when a unit is added or removed (L0
        sensitivity), >= 1
    neighbours : "unbounded" (a unit is added or removed) or "bounded" (a unit is replaced: it leaves `cells` numbers
        and enters as many others); None for "bounded" in a plan of two cells and "unbounded" otherwise
    periods : number of releases over time that include the same unit, >= 1

    Raises
    ------
    TypeError, ValueError : a name that is not text, a number out of range, an unknown kind of neighbours

    References
    ----------
    Desfontaines and Pejo (2020), "SoK: differential privacies", sections 4 and 5 (dimensions Q and N).

    >>> PrivacyUnit("device-day", contribution=30, cells=10, neighbours="unbounded").changed_cells
    10
    >>> PrivacyUnit(cells=10, neighbours="bounded").changed_cells
    20
    """

    name: str = "person"
    contribution: float | None = None
    cells: int = 1
    neighbours: str | None = None
    periods: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name of the privacy unit must be text, as 'household', got {self.name!r}")
        if not self.name.strip() or not self.name.isprintable():
            raise ValueError(f"name of the privacy unit must be a word, as 'household', got {self.name!r}")
        if self.contribution is not None:
            check_positive("contribution", self.contribution)
            object.__setattr__(self, "contribution", _whole_or_real(one_number("contribution", self.contribution)))
        for field in ("cells", "periods"):
            number = check_whole(field, one_number(field, getattr(self, field)), minimum=1)
            object.__setattr__(self, field, int(number))
        if self.neighbours is not None:
            _check_neighbours(self.neighbours)

    @property
    def is_replaced(self) -> bool:
        """True for bounded neighbours."""
        return self.neighbours == "bounded"

    @property
    def changed_cells(self) -> int:
        """Largest number of published numbers that differ between neighbours: `cells`, or twice that for bounded."""
        return self.cells * (2 if self.is_replaced else 1)

    def resolved(self, neighbours: str | None, default: str = "unbounded") -> PrivacyUnit:
        """The unit with definite neighbours: its own, those of the argument, or the default.

        Raises
        ------
        ValueError : `neighbours` contradicts the neighbours of the unit
        """
        if neighbours is not None:
            _check_neighbours(neighbours)
            if self.neighbours not in (None, neighbours):
                raise ValueError(
                    f"neighbours must be given once, got {neighbours!r} and {self.neighbours!r} in the privacy unit"
                )
        return replace(self, neighbours=self.neighbours or neighbours or default)

    def over_periods(self, guarantee: Guarantee) -> Guarantee:
        """Guarantee of all periods together, for a unit that is present in each.

        >>> from adversary.privacy.definitions import PureDP
        >>> PrivacyUnit(periods=365).over_periods(PureDP(0.1)).epsilon(0.0)
        36.5
        """
        return guarantee if self.periods == 1 else self.periods * guarantee


def units_changed(change: float, contribution: float) -> int:
    """Smallest number of units that can change a published number by `change`: change / contribution, rounded up.

    Parameters
    ----------
    change : difference of the number, >= 0
    contribution : largest change by one unit, > 0; may be infinite

    Returns
    -------
    Whole number of units.

    >>> units_changed(30, 30), units_changed(31, 30), units_changed(0, 30)
    (1, 2, 0)
    """
    check_non_negative("change", one_number("change", change))
    _check_contribution(contribution)
    if not change:
        return 0
    # A quotient that is whole up to rounding must not be rounded up to the next unit.
    return max(1, math.ceil(change / contribution * (1.0 - 1e-12)))


def largest_change(units: int, contribution: float) -> int:
    """Largest change of a published number by several units, rounded up: units * contribution.

    Parameters
    ----------
    units : number of units, >= 0
    contribution : largest change by one unit, > 0; infinite for local reports, whose change is counted in units

    Returns
    -------
    Whole number; `units` for an infinite contribution.

    >>> largest_change(2, 30), largest_change(1, float("inf"))
    (60, 1)
    """
    number = int(check_whole("units", one_number("units", units), minimum=0))
    _check_contribution(contribution)
    return number if math.isinf(contribution) else math.ceil(number * contribution)


def contribution_to(noises: Sequence[Mechanism], unit: PrivacyUnit) -> float:
    """Largest change of one number by one unit: the unit's contribution, or the sensitivity of the noise.

    Infinite if all noise is local and the unit has no contribution: a local report may change to any other.

    Parameters
    ----------
    noises : mechanisms of the levels that are not exact
    unit : unit of privacy

    Raises
    ------
    ValueError : noise of several sensitivities, and a unit without a contribution; a fractional contribution with
        integer noise, or one below 1 with local reports
    """
    if unit.contribution is not None:
        if any(noise.is_local for noise in noises) and unit.contribution < 1:
            raise ValueError(f"contribution must be at least 1, how far answers are apart, got {unit.contribution}")
        integer = any(not noise.noise.is_continuous for noise in noises)
        if integer and not float(unit.contribution).is_integer():
            raise ValueError(
                f"contribution must be a whole number where the noise is on the integers, got {unit.contribution}: "
                "take the next whole number, or continuous noise"
            )
        return unit.contribution
    central = {_whole_or_real(noise.calibration[0]) for noise in noises if not noise.is_local}
    if len(central) > 1:
        raise ValueError(
            f"the noise of the levels was made for sensitivities {', '.join(map(str, sorted(central)))}: say how much "
            "one unit changes a count, PrivacyUnit(contribution=...), or `contribution` under [privacy_unit]"
        )
    return central.pop() if central else math.inf if noises else 1


def unit_loss(noises: Sequence[Mechanism], unit: PrivacyUnit) -> PrivacyLoss:
    """Privacy loss of one unit: `changed_cells` numbers change by the contribution at each level, composed.

    For local reports, the largest loss over all pairs of reports, or over pairs at most the contribution apart.
    Replacing a local report changes one report, not two.

    Parameters
    ----------
    noises : mechanisms of the levels that are not exact
    unit : unit of privacy, with definite neighbours (`PrivacyUnit.resolved`)

    Returns
    -------
    Loss composed over all levels.

    >>> from adversary.privacy.mechanisms import Laplace
    >>> unit_loss([Laplace(10.0)], PrivacyUnit(contribution=2, cells=3)).loss_bound(0.0).__round__(12)
    0.6
    """
    change = contribution_to(noises, unit)
    return compose_losses(
        [
            noise.report_loss(unit.contribution, unit.cells)
            if noise.is_local
            else noise.contribution_loss(change, unit.changed_cells)
            for noise in noises
        ]
    )


def unit_rho(noises: Sequence[Mechanism], unit: PrivacyUnit) -> float:
    """zCDP parameter rho of one unit, in nats: the sum over levels of changed numbers times rho of the contribution.

    Parameters
    ----------
    noises : mechanisms of the levels that are not exact
    unit : unit of privacy, with definite neighbours

    Returns
    -------
    rho; infinite for noise without zCDP.

    >>> from adversary.privacy.mechanisms import Gaussian
    >>> unit_rho([Gaussian(4.0)], PrivacyUnit(contribution=2, cells=3, neighbours="bounded"))
    0.75
    """
    change = contribution_to(noises, unit)
    return float(
        sum(
            unit.cells * noise.report_rho(unit.contribution)
            if noise.is_local
            else unit.changed_cells * noise.contribution_rho(change)
            for noise in noises
        )
    )


def _check_contribution(contribution: float) -> None:
    """Refuse a contribution that is not a positive number; infinity is allowed."""
    if contribution != math.inf:
        check_positive("contribution", one_number("contribution", contribution))


def _check_neighbours(word: str) -> None:
    if word not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {quoted(NEIGHBOURS)}, got {word!r}")


def _whole_or_real(number: float) -> float:
    """The number as an int if it is whole: integer noise requires integer changes."""
    return int(number) if float(number).is_integer() else float(number)
