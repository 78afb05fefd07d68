"""Promises in every form: the largest parameter that keeps a profile, and clear words where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import adversary as adv
from adversary.budget.forms import COMPOSITIONS, Form
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.release_budget import FORMS, allocate, budget_table, largest, release_curve
from adversary.budget.risk_bounds import equivalent_epsilon
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.verdict_on_guarantee import verdict

TWENTY = RiskProfile.difference(0.2)
INCLUSION = RiskProfile.ratio_or_absolute(3.0, 0.25, value=1.0)
PROFILES = {
    "values": recommend_epsilon(TWENTY),
    "one count": recommend_epsilon(TWENTY, statistic="count"),
    "inclusion": recommend_epsilon(INCLUSION),
}
FAILURE, DELTA = 0.05, 1e-6


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("definition", "composition"), FORMS)
def test_the_parameter_is_the_largest_that_keeps_the_profile(profile: str, definition: str, composition: str) -> None:
    found = PROFILES[profile]
    asked = {"failure": FAILURE, "releases": 3, "delta": DELTA, "composition": composition}
    made = allocate(found, definition, **asked)
    values = profile == "values"
    assert made.status == "bounded"
    assert equivalent_epsilon(made.total, FAILURE, values=values, two=made.two) <= found.loss
    form = Form(definition, composition, 3, DELTA)
    assert form.equivalent(made.parameter * (1 + 1e-6), FAILURE, values) > found.loss
    judged = verdict(found.profile, made.total, FAILURE, statistic=found.statistic, two=made.two)
    assert judged.satisfied
    assert judged.allowed == found.loss


@pytest.mark.parametrize("found", PROFILES.values(), ids=PROFILES)
def test_one_release_of_pure_dp_is_the_recommendation(found: adv.Recommendation) -> None:
    made = allocate(found)
    assert made.parameter == pytest.approx(found.loss, rel=1e-10)
    assert made.parameter <= found.loss
    assert (made.unit, made.definition, made.guarantee) == ("epsilon", "pure DP", adv.PureDP(made.parameter))


def test_a_profile_is_asked_about_any_statistic() -> None:
    assert (
        allocate(TWENTY, "zCDP", failure=0.1).parameter == allocate(PROFILES["values"], "zCDP", failure=0.1).parameter
    )


def test_basic_composition_divides_epsilon() -> None:
    found = PROFILES["values"]
    assert allocate(found, releases=12, composition="basic").parameter == pytest.approx(found.loss / 12, rel=1e-10)
    assert allocate(found, releases=12).parameter == pytest.approx(found.loss / 12, rel=1e-10)


def test_a_noise_with_its_own_loss_is_allowed_at_least_what_its_definition_is() -> None:
    """rho of a Gaussian's own loss against zCDP's; a geometric count is the worst of its definition."""
    assert _each("gaussian", 1) > _each("zCDP", 1)
    assert _each("discrete gaussian", 1) == pytest.approx(_each("gaussian", 1), rel=0.05)
    assert _each("geometric", 3) == pytest.approx(_each("pure DP", 3), rel=1e-9)
    assert _each("laplace", 3) >= _each("pure DP", 3)


def test_zcdp_in_closed_form() -> None:
    """About values: the root of 2 rho + 2 sqrt(rho log(1 / f)) = epsilon, where that asks for more than one record."""
    found = recommend_epsilon(RiskProfile.constant(np.exp(12.0)))
    root = 0.5 * (np.sqrt(2.0 * found.loss - np.log(FAILURE)) - np.sqrt(-np.log(FAILURE)))
    assert allocate(found, "zCDP", failure=FAILURE).parameter == pytest.approx(root**2, rel=1e-9)


@pytest.mark.parametrize("definition", ["zCDP", "Gaussian DP", "discrete gaussian", "gaussian"])
def test_nothing_is_kept_for_certain_where_losses_have_no_end(definition: str) -> None:
    made = allocate(TWENTY, definition)
    assert (made.status, made.parameter, made.total) == ("unattainable", 0.0, None)
    assert "above 0 keeps this profile for certain" in made.words


def test_a_failure_within_delta_is_unattainable() -> None:
    made = allocate(TWENTY, "approximate DP", failure=1e-6, delta=1e-6)
    assert made.status == "unattainable"
    assert np.isnan(made.parameter)
    assert made.guarantee is None


def test_a_failure_may_be_enough_for_one_record_and_not_for_two() -> None:
    """Two records apart the delta is delta (1 + e^epsilon), above 2 delta."""
    loose = RiskProfile.constant(1e6)
    values, count = (
        allocate(recommend_epsilon(loose, statistic=statistic), "approximate DP", failure=1.7e-3, delta=1e-3)
        for statistic in ("any", "count")
    )
    assert (values.status, count.status) == ("unattainable", "bounded")


def test_a_profile_that_asks_nothing_leaves_every_parameter() -> None:
    made = allocate(RiskProfile.point(4.0, 0.5, 0.5), "zCDP", failure=0.1)
    assert (made.status, made.parameter, made.guarantee) == ("unconstrained", np.inf, None)
    assert made.words.startswith("Every rho of zCDP keeps this profile")
    assert allocate(TWENTY, failure=1.0).status == "unconstrained"


def test_a_profile_that_no_release_keeps_leaves_none() -> None:
    made = allocate(RiskProfile.constant(1.0), failure=0.1)
    assert (made.status, made.parameter) == ("unattainable", 0.0)


def test_rounding_is_down_and_the_guarantee_is_the_rounded_one() -> None:
    made = allocate(TWENTY, "zCDP", failure=FAILURE, releases=4, round_down=4)
    exact = allocate(TWENTY, "zCDP", failure=FAILURE, releases=4)
    assert made.parameter <= exact.parameter < made.parameter + 1e-4
    assert made.guarantee == adv.ZeroConcentratedDP(made.parameter)
    coarse = allocate(TWENTY, "zCDP", failure=FAILURE, round_down=1)
    assert (coarse.parameter, coarse.status, coarse.guarantee) == (0.0, "bounded", None)


def test_delta_is_shared_out_where_none_is_given_for_each() -> None:
    made = allocate(TWENTY, "approximate DP", failure=FAILURE, delta=1e-6, releases=4)
    assert made.guarantee == adv.ApproximateDP(made.parameter, 2.5e-7)
    given = allocate(TWENTY, "approximate DP", failure=FAILURE, delta=1e-6, releases=4, delta_each=1e-8)
    assert given.guarantee == adv.ApproximateDP(given.parameter, 1e-8)
    assert given.parameter > made.parameter
    basic = allocate(TWENTY, "approximate DP", failure=FAILURE, delta=1e-6, releases=4, composition="basic")
    assert basic.guarantee == adv.ApproximateDP(basic.parameter, 2.5e-7)
    assert basic.total == adv.ApproximateDP(4 * basic.parameter, 1e-6)


def test_budget_table_has_a_row_for_every_form() -> None:
    table = budget_table(TWENTY, 2, failure=FAILURE)
    assert table.sizes == {"form": len(FORMS)}
    assert set(table.data_vars) == {"parameter", "unit", "status", "definition", "composition"}
    assert (table["status"] == "bounded").all()
    row = table.sel(form="zCDP")
    assert (str(row["unit"].values), str(row["composition"].values)) == ("rho", "exact")
    assert float(row["parameter"]) == allocate(TWENTY, "zCDP", failure=FAILURE, releases=2).parameter
    assert float(table["parameter"].sel(form="pure DP, basic")) == pytest.approx(table.attrs["epsilon"] / 2, rel=1e-9)
    assert (table.attrs["releases"], table.attrs["failure"]) == (2, FAILURE)


def test_release_curve_has_a_line_for_every_composition() -> None:
    curve = release_curve(TWENTY, (1, 5, 20), failure=FAILURE)
    assert curve["parameter"].dims == ("composition", "releases")
    assert list(curve["composition"].values) == list(COMPOSITIONS)
    assert list(curve["releases"].values) == [1, 5, 20]
    assert (curve["parameter"].diff("releases") < 0).all()
    assert curve["parameter"].attrs["units"] == "epsilon"
    alone = release_curve(TWENTY, (1, 5), "Gaussian DP", failure=FAILURE)
    assert list(alone["composition"].values) == ["exact"]
    ratio = alone["parameter"].sel(releases=1) / alone["parameter"].sel(releases=5)
    assert float(ratio.item()) == pytest.approx(np.sqrt(5), rel=1e-9)


def test_the_largest_is_found_from_either_side_and_across_a_jump() -> None:
    for start in (1e-6, 1.0, 1e6):
        assert largest(lambda x: x**2, 9.0, start) == pytest.approx(3.0, rel=1e-10)
        assert largest(lambda x: x if x < 2.0 else 10.0 * x, 5.0, start) == pytest.approx(2.0, rel=1e-10)
    assert largest(lambda x: 10.0, 5.0, 1.0) == 0.0
    assert largest(lambda x: 1.0, 5.0, 1.0) == np.inf


def _each(definition: str, releases: int, composition: str = "exact", failure: float = FAILURE) -> float:
    made = allocate(
        PROFILES["values"], definition, failure=failure, delta=DELTA, releases=releases, composition=composition
    )
    return made.parameter


@pytest.mark.parametrize("tolerance", [1e-9, 1e-30, 1e-120, 1e-160, 1e-290])
@pytest.mark.parametrize("form", [("pure DP", "exact"), ("pure DP", "basic")], ids="-".join)
def test_the_smallest_tolerances_have_their_epsilon(form: tuple[str, str], tolerance: float) -> None:
    for releases in (1, 3):
        made = allocate(RiskProfile.difference(tolerance), form[0], releases=releases, composition=form[1])
        assert made.parameter == pytest.approx(2.0 * tolerance / releases, rel=1e-10)


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_a_tolerance_too_small_for_doubles_leaves_nothing_rather_than_an_error(form: tuple[str, str]) -> None:
    name, how = form
    delta = 1e-6 if name == "approximate DP" else 0.0
    made = allocate(RiskProfile.difference(1e-225), name, failure=0.05, delta=delta, composition=how)
    assert made.status == ("bounded" if name == "pure DP" else "unattainable")
