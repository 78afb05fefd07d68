"""Real releases: what a guarantee lets a belief of 1% become, and what one adversary expects, release by release.

The draft of these numbers gave 53.3% for a household of ten in the Supplemental DHC, with noise calibrated to the
household's ten people. The production library joins people and households, whose sensitivity is 2 x 10 + 2 = 22
(`phsafe/utils.py`; ratios of budgets in the configuration, and the interval lengths that the bureau publishes, agree),
so that the variance is 4.84 times larger and the expectation 50.7%. It is kept as an erratum, both numbers shown.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import adversary as adv

RECORDS = adv.releases.records()
BOUNDS = {
    "wikimedia_russia": 1.10, "us_broadband": 1.22, "wikimedia_views": 1.59, "google_symptoms": 5.14,
    "google_mobility": 12.4, "gboard_spanish": 34.1, "apple_emoji": 35.5, "linkedin_hires": 55.1, "census_sdhc": 63.4,
    "exposure_notifications": 96.8, "census_pl94": 97.5, "israel_births": 99.5, "ctdc_victims": 99.94,
    "census_ddhca": 100.0, "msd_rounding": 100.0, "cdc_wonder": 100.0,
}  # fmt: skip
"""Percent that a belief of 1% can become at most, failing in 5% where the definition is not pure (the draft rounds
35.546 up)."""
EXPECTED = {
    "wikimedia_russia": (0.5, 50.1), "us_broadband": (0.5, 50.1), "wikimedia_views": (0.5, 50.0),
    "exposure_notifications": (0.01, 96.8), "census_ddhca": (0.5, 54.9), "census_sdhc": (0.5, 50.7),
    "msd_rounding": (0.5, 98.3), "cdc_wonder": (0.5, 100.0),
}  # fmt: skip
"""Prior, and percent that the adversary of the record expects with the person in."""


def printed(percent: float, value: float) -> bool:
    """Whether a value is a number of percent to the digits of it."""
    digits = len(f"{percent:g}".partition(".")[2])
    return abs(100.0 * value - percent) <= 0.5 * 10.0**-digits * 1.001


@pytest.mark.parametrize("name", BOUNDS)
def test_a_belief_of_one_percent(name: str) -> None:
    bounds = adv.releases.gallery({name: replace(RECORDS[name], scenario=None)}, priors=[0.01])["bounds"].to_dataset()
    assert printed(BOUNDS[name], float(bounds["posterior"].sel(relation="stated").item()))


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_of_one_adversary(name: str) -> None:
    prior, percent = EXPECTED[name]
    found = adv.releases.gallery({name: RECORDS[name]}, priors=[prior])["scenarios"].to_dataset()
    assert printed(percent, float(found["posterior"].item()))
    assert str(found["status"].item()) == "ok"


@pytest.mark.slow
def test_expected_of_mobility() -> None:
    """One visit at three levels, of numbers of which those below 100 are left out.

    51.1%, with standard error 0.06, of 8,000 simulated releases of two seeds; the draft has 50.8 without its error.
    """
    found = adv.releases.gallery({"x": RECORDS["google_mobility"]}, priors=[0.5])["scenarios"].to_dataset()
    assert float(found["posterior"].item()) == pytest.approx(0.511, abs=3.0 * float(found["mcse"].item()) + 5e-4)


def test_replaced_records() -> None:
    """2.515 and 96.8% for a change of the Supplemental DHC; the redistricting data is for a change already."""
    assert printed(96.8, float(RECORDS["census_sdhc"].replaced_loss.posterior_bounds(0.01, 0.05)[1]))
    assert RECORDS["census_pl94"].replaced_loss is RECORDS["census_pl94"].loss


@pytest.mark.parametrize(("requests", "percent"), [(1, 60), (2, 69), (3, 77), (5, 88), (10, 98.3)])
def test_random_rounding_at_each_request(requests: int, percent: float) -> None:
    """By hand: q = (2/3)^n, mean (1 - q) + q^2 / (1 + q)."""
    noise = adv.RandomRounding(3)
    levels = [adv.Level(f"request {k}", noise, 0 if k < requests else None) for k in range(1, requests + 1)]
    truth = {level.name: 7 for level in levels}
    risk = adv.audit(adv.Plan(levels), adv.Adversary(0.5, known=6), truth, also=())["risk"]
    q = (2 / 3) ** requests
    by_hand = (1 - q) + q**2 / (1 + q)
    assert float(risk["posterior_mean"]) == pytest.approx(by_hand, rel=1e-9)
    assert printed(percent, by_hand)


def test_household_of_ten_as_drafted_and_as_published() -> None:
    def expected(sensitivity: int) -> float:
        noise = adv.DiscreteGaussian.from_rho(0.141622, sensitivity=sensitivity)
        unit = adv.PrivacyUnit("household", contribution=10)
        plan = adv.Plan([adv.Level("state", noise)], privacy_unit=unit)
        who = adv.Adversary(0.5, known=30, hypotheses=(0, 10))
        return float(adv.audit(plan, who, {"state": 40}, also=())["risk"]["posterior_mean"])

    assert printed(53.3, expected(10))
    assert printed(50.7, expected(22))


def test_one_detailed_group_in_one_tract() -> None:
    """50.4%: rho 0.159, of which nine tenths and a ninth for each of nine groups."""
    rho = 0.159 * 0.9 / 9
    plan = adv.Plan([adv.Level("tract", adv.DiscreteGaussian.from_rho(rho))])
    risk = adv.audit(plan, adv.Adversary(0.5, known=3), {"tract": 4}, also=())["risk"]
    assert printed(50.4, float(risk["posterior_mean"]))
