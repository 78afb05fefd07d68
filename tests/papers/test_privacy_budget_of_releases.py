"""Kazan et al. (2025), choosing epsilon for one release and for several: the rows of its examples through `allocate`.

Rows and errata as in `test_disclosure_bounds`, where the formulas behind them are held one by one. Here a profile is
stated and the answer read off. The published route goes through a total (epsilon, delta); the failure asked of the law
of all releases ("exact") leaves more, and both numbers are held.
"""

from __future__ import annotations

import math

import pytest

import adversary as adv
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.release_budget import ReleaseBudget, allocate, release_curve
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.verdict_on_guarantee import verdict

TWENTY_POINTS = recommend_epsilon(RiskProfile.difference(0.2), statistic="count")
"""Example 8: a rise of at most 20 points at any prior, presence being the secret."""

EIGHTY_PERCENT = RiskProfile.point(1.6, inclusion=0.5, value=1.0)
"""Figure 5.3: a posterior of at most 80% at prior 1/2."""


def twelve(composition: str, definition: str = "approximate DP") -> ReleaseBudget:
    """Example 8: twelve releases, delta 1e-8 each and 1e-6 in all, failure 0.01."""
    asked = {"delta": 1e-6, "delta_each": 1e-8} if definition == "approximate DP" else {}
    return allocate(TWENTY_POINTS, definition, failure=0.01, releases=12, composition=composition, **asked)


def test_b11_epsilon_for_twenty_points() -> None:
    assert TWENTY_POINTS.epsilon == pytest.approx(0.810930, abs=1e-6)
    total = allocate(TWENTY_POINTS, "approximate DP", failure=0.01, delta=1e-6)
    assert total.parameter == pytest.approx(0.810786, abs=1e-6)
    assert total.guarantee == adv.ApproximateDP(total.parameter, 1e-6)


@pytest.mark.parametrize(
    ("composition", "each"), [("optimal", 0.067767), ("lattice", 0.067565), ("basic", 0.067565), ("advanced", 0.043078)]
)
def test_b12_epsilon_of_each_of_twelve_releases(composition: str, each: float) -> None:
    """0.135 is printed (F2)."""
    made = twelve(composition)
    assert made.parameter == pytest.approx(each, abs=1e-6)
    assert made.total.epsilon0 == pytest.approx(0.810786, abs=1e-6)
    assert made.total.delta0 == 1e-6


def test_b12_the_law_of_all_releases_leaves_a_quarter_more() -> None:
    """0.067767 through a total (epsilon, 1e-6), 0.085661 where the failure is asked of the twelve themselves."""
    optimal, exact = twelve("optimal").parameter, twelve("exact").parameter
    assert (optimal, exact) == pytest.approx((0.067767, 0.085661), abs=1e-6)
    assert exact / optimal == pytest.approx(1.264, abs=1e-3)
    assert twelve("exact", "pure DP").parameter == pytest.approx(0.085663, abs=1e-6)
    assert exact < 0.135 / 1.5


def test_b14_pure_and_basic() -> None:
    assert twelve("basic", "pure DP").parameter == pytest.approx(0.067578, abs=1e-6)
    assert allocate(TWENTY_POINTS, releases=12).parameter == pytest.approx(0.067578, abs=1e-6)  # for certain


def test_b13_and_f2_twelve_releases_at_the_printed_epsilon_break_the_limit() -> None:
    """Stated: 20 points with 99% probability. At 0.135 the loss bound is 1.2994, not 0.8109: 31.4 points."""
    printed = verdict(TWENTY_POINTS.profile, 12 * adv.PureDP(0.135), 0.01, statistic="count")
    assert printed.status == "broken"
    assert (printed.loss, printed.allowed) == pytest.approx((1.299363, 0.810930), abs=1e-6)
    assert math.tanh(printed.loss / 4) == pytest.approx(0.314, abs=5e-4)
    assert "Broken" in printed.words
    for each in (twelve("optimal").parameter, twelve("exact").parameter):
        assert verdict(TWENTY_POINTS.profile, 12 * adv.PureDP(each), 0.01, statistic="count").status == "kept"
    assert (12 * adv.PureDP(0.135)).delta(6 * 0.135) == pytest.approx(0.00899900, abs=1e-8)  # B13: not 1e-6


def test_example_8_where_values_are_the_secret() -> None:
    """Any statistic, presence and value both in question: half the epsilon, as the reader with prior 1 is two away."""
    values = recommend_epsilon(RiskProfile.difference(0.2))
    assert values.epsilon == pytest.approx(TWENTY_POINTS.epsilon / 2, rel=1e-12)
    asked = {"failure": 0.01, "delta": 1e-6, "delta_each": 1e-8, "releases": 12}
    published, exact = (
        allocate(values, "approximate DP", composition=how, **asked).parameter for how in ("optimal", "exact")
    )
    assert published < twelve("optimal").parameter / 1.98
    assert exact == pytest.approx(0.043170, abs=1e-6)


def test_b05_basic_composition_keeps_80_percent_for_27_releases() -> None:
    """Epsilon 0.05 each, failure 0.05: the 28th breaks it."""
    kept, broken = (allocate(EIGHTY_PERCENT, releases=n, composition="basic").parameter for n in (27, 28))
    assert broken < 0.05 < kept


@pytest.mark.parametrize(("composition", "first"), [("advanced", 26), ("lattice", 42), ("optimal", 45)])
def test_b06_and_f3_releases_until_80_percent(composition: str, first: int) -> None:
    """51 (advanced) and 96 (optimal) are printed; 26 and 42 (lattice) or 45 (between its points) are true."""
    numbers = range(first - 6, first + 1)
    curve = release_curve(EIGHTY_PERCENT, numbers, compositions=(composition,), failure=0.05, delta=1e-6)
    below = curve["parameter"].sel(composition=composition) < 0.05
    assert list(below.values) == [False] * 6 + [True]
    printed = {"advanced": 51, "lattice": 96, "optimal": 96}[composition]
    asked = {"failure": 0.05, "delta": 1e-6, "composition": composition}
    assert allocate(EIGHTY_PERCENT, "approximate DP", releases=printed, **asked).parameter < 0.045


def test_f3_the_law_of_all_releases_keeps_80_percent_for_longer_than_was_printed() -> None:
    """The printed 96 is no answer to (epsilon, 1e-6), but the failure asked of all releases allows 133."""
    asked = {"failure": 0.05, "composition": "exact"}
    assert allocate(EIGHTY_PERCENT, releases=96, **asked).parameter == pytest.approx(0.059123, abs=1e-6)
    last, first = (allocate(EIGHTY_PERCENT, releases=n, **asked).parameter for n in (133, 134))
    assert first < 0.05 <= last


def test_b21_epsilon_for_a_ratio_of_three() -> None:
    """Ratio at most 3 at prior 0.1; delta 1e-6, failure 0.05."""
    profile = RiskProfile.point(3.0, inclusion=0.1, value=1.0)
    assert recommend_epsilon(profile).epsilon == pytest.approx(1.349927, abs=1e-6)
    made = allocate(profile, "approximate DP", failure=0.05, delta=1e-6)
    assert made.parameter == pytest.approx(1.349902, abs=1e-6)


@pytest.mark.parametrize(("composition", "total"), [("optimal", 0.597316), ("lattice", 0.6), ("advanced", 0.945421)])
def test_b28_epsilon_of_approximate_releases_from_their_total(composition: str, total: float) -> None:
    """Twelve at (0.05, 1e-8) have these totals at delta 1e-6; a profile that allows the total gives 0.05 back."""
    loss = adv.ApproximateDP(total + 5e-7, 1e-6).loss_bound(0.01)
    allowed = recommend_epsilon(RiskProfile.difference(math.tanh(loss / 4)), statistic="count")
    asked = {"failure": 0.01, "delta": 1e-6, "delta_each": 1e-8, "releases": 12, "composition": composition}
    assert allocate(allowed, "approximate DP", **asked).parameter == pytest.approx(0.05, abs=2e-7)
