"""The unit of privacy: whose data a guarantee protects, and how much of a release one of them can change."""

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
    """Whose data a guarantee protects, and by how much one of them changes what is published.

    Parameters
    ----------
    name : what one of them is called: "person", "household", "device-day", "report"
    contribution : the most by which one unit changes one published number (the L-infinity sensitivity), > 0; None for
        the sensitivity that the noise was calibrated for, 1 where none is named
    cells : the most numbers of one level or table that one unit changes when it is added or removed (the L0
        sensitivity), >= 1
    neighbours : "unbounded" (a unit is added or removed) or "bounded" (a unit is replaced, so that it leaves `cells`
        numbers and enters as many others); None for "bounded" in a plan of two cells and "unbounded" elsewhere
    periods : number of periods, each with a release of its own, over which the same unit is present, >= 1

    Raises
    ------
    TypeError, ValueError : a name that is no text, a number out of range, another word for the neighbours

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
        """The most numbers of one level or table that differ between neighbours: `cells`, twice that if replaced."""
        return self.cells * (2 if self.is_replaced else 1)

    def resolved(self, neighbours: str | None, default: str = "unbounded") -> PrivacyUnit:
        """The unit with its neighbours settled: its own, those given beside it, or the default.

        Raises
        ------
        ValueError : neighbours beside a unit with others
        """
        if neighbours is not None:
            _check_neighbours(neighbours)
            if self.neighbours not in (None, neighbours):
                raise ValueError(
                    f"neighbours must be given once, got {neighbours!r} and {self.neighbours!r} in the privacy unit"
                )
        return replace(self, neighbours=self.neighbours or neighbours or default)

    def over_periods(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee of all periods together, for a unit present in each of them.

        >>> from adversary.privacy.definitions import PureDP
        >>> PrivacyUnit(periods=365).over_periods(PureDP(0.1)).epsilon(0.0)
        36.5
        """
        return guarantee if self.periods == 1 else self.periods * guarantee


def units_changed(change: float, contribution: float) -> int:
    """Units that a number has to differ by, where one changes it by at most `contribution`: the quotient, rounded up.

    Parameters
    ----------
    change : by how much the number differs, >= 0
    contribution : > 0, infinite where one unit may change it by anything

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
    return max(1, math.ceil(change / contribution * (1.0 - 1e-12)))


def largest_change(units: int, contribution: float) -> int:
    """By how much so many units change a number at most, rounded up; the units themselves where anything may change.

    Parameters
    ----------
    units : number of units, >= 0
    contribution : of each, > 0; infinite for local answers of any kind

    Returns
    -------
    Whole number.

    >>> largest_change(2, 30), largest_change(1, float("inf"))
    (60, 1)
    """
    number = int(check_whole("units", one_number("units", units), minimum=0))
    _check_contribution(contribution)
    return number if math.isinf(contribution) else math.ceil(number * contribution)


def contribution_to(noises: Sequence[Mechanism], unit: PrivacyUnit) -> float:
    """The most by which one unit changes one number: as the unit says, else what the noise was calibrated for.

    Infinite where all noise is local, and the unit says nothing: an answer may change to any other.

    Parameters
    ----------
    noises : of the levels that are not exact
    unit : of privacy

    Raises
    ------
    ValueError : noise of several sensitivities, and a unit without a contribution; a fractional contribution to noise
        on the integers, or one below 1 to local answers
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
    """The privacy loss of one unit: of each noise, as many numbers changed by the contribution as the unit changes.

    Of local noise, the largest over all pairs of answers, or over those at most a stated contribution apart; a replaced
    answer is one answer, so that nothing is doubled.

    Parameters
    ----------
    noises : of the levels that are not exact
    unit : of privacy, its neighbours settled

    Returns
    -------
    The composition over all levels.

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
    """The zCDP of one unit, in nats: that of the contribution times the numbers changed, added up; may be infinite.

    Parameters
    ----------
    noises : of the levels that are not exact
    unit : of privacy, its neighbours settled

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
    """A positive number, which may be infinite."""
    if contribution != math.inf:
        check_positive("contribution", one_number("contribution", contribution))


def _check_neighbours(word: str) -> None:
    if word not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {quoted(NEIGHBOURS)}, got {word!r}")


def _whole_or_real(number: float) -> float:
    """An int where the number is whole, since noise on the integers takes whole changes."""
    return int(number) if float(number).is_integer() else float(number)
