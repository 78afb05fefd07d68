"""Utility of a choice of epsilon: errors, exact releases and switched decisions, against pmfs and simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.budget.accuracy import (
    RateCounts,
    mechanism_for,
    misclassification_probability,
    prob_exact,
    rate_counts,
    rmse,
    switch_of_rate,
    tradeoff_table,
)
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.release_budget import allocate
from adversary.budget.risk_bounds import equivalent_epsilon
from adversary.budget.risk_profile import RiskProfile

MECHANISMS: dict[str, adv.Mechanism] = {
    "geometric": adv.Geometric(0.7),
    "geometric, strong": adv.Geometric(6.0),
    "discrete gaussian": adv.DiscreteGaussian.from_rho(0.05),
    "discrete gaussian, needle": adv.DiscreteGaussian(0.2),
    "laplace": adv.Laplace(1.4),
    "gaussian": adv.Gaussian(2.1),
    "exact": adv.Exact(),
}
DURHAM: dict[str, Any] = {"base": 4012, "target": "6/1000", "deviations": ["1/4000", "1/2000", "1/1000", "2/1000"]}


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in ("laplace", "gaussian")])
def test_error_and_exact_releases_agree_with_the_pmf(name: str) -> None:
    mechanism = MECHANISMS[name]
    release = mechanism.support(0)
    mass = np.exp(mechanism.log_prob(release, 0))
    assert rmse(mechanism) == pytest.approx(math.sqrt(mass @ release.astype(float) ** 2), rel=1e-12)
    assert prob_exact(mechanism) == pytest.approx(mass[release == 0].item(), rel=1e-14)


@given(st.floats(1e-6, 50.0))
@settings(max_examples=200, deadline=None)
def test_geometric_noise_has_closed_forms_at_every_scale(epsilon: float) -> None:
    noise, x = mechanism_for("geometric", epsilon), math.exp(-epsilon)
    assert prob_exact(noise) == pytest.approx(math.tanh(epsilon / 2.0), rel=1e-13)
    assert rmse(noise) == pytest.approx(math.sqrt(2.0 * x) / -math.expm1(-epsilon), rel=1e-13)
    for steps in (1, 2, 8):
        flipped = x**steps / (1.0 + x)
        assert misclassification_probability(noise, 24 + steps, 24) == pytest.approx(flipped, rel=1e-12)
        assert misclassification_probability(noise, 25 - steps, 24) == pytest.approx(flipped, rel=1e-12)


@pytest.mark.parametrize("name", MECHANISMS)
def test_switched_decisions_agree_with_simulation(name: str) -> None:
    mechanism, rng, draws, threshold = MECHANISMS[name], np.random.default_rng(2), 200_000, 24
    for truth in (18, 22, 23, 24, 25, 26, 30):
        released = mechanism.sample(np.full(draws, truth), rng)
        found = misclassification_probability(mechanism, truth, threshold)
        switched = np.mean((released <= threshold) != (truth <= threshold))
        assert switched == pytest.approx(found, abs=5.0 * math.sqrt(found * (1.0 - found) / draws) + 1e-12)


def test_switching_far_away_keeps_its_digits() -> None:
    found = misclassification_probability(mechanism_for("geometric", 2.0), 300, 24)
    assert found == pytest.approx(math.exp(-2.0 * 276) / (1.0 + math.exp(-2.0)), rel=1e-12)
    assert 0.0 < misclassification_probability(mechanism_for("gaussian", 0.5), 24 + 35, 24) < 1e-250


def test_noise_is_what_it_is_sold_as() -> None:
    assert mechanism_for("geometric", 0.5) == adv.Geometric(0.5)
    assert mechanism_for("laplace", 0.5) == adv.Laplace(2.0)
    assert mechanism_for("gaussian", 0.5) == adv.Gaussian(1.0)
    assert mechanism_for("discrete gaussian", 0.125).rho() == pytest.approx(0.125)
    for kind in ("geometric", "laplace", "gaussian", "discrete gaussian"):
        assert mechanism_for(kind, math.inf) == adv.Exact()
        for bad in (0.0, -1.0, math.nan):
            with pytest.raises(ValueError, match="must be positive"):
                mechanism_for(kind, bad)
    with pytest.raises(ValueError, match="kind must be one of 'geometric', 'laplace'"):
        mechanism_for("uniform", 1.0)


# Rates


@pytest.mark.parametrize(
    ("base", "target", "deviation", "expected"),
    [
        (4012, "6/1000", "1/4000", RateCounts(24, 25, 23)),
        (4012, 0.006, 0.00025, RateCounts(24, 25, 23)),
        (4012, Fraction(6, 1000), Fraction(1, 2000), RateCounts(24, 26, 22)),
        (4012, 0.006, 0.001, RateCounts(24, 28, 20)),
        (4012, 0.006, 0.002, RateCounts(24, 32, 16)),
        (100, 0.29, 0.0, RateCounts(29, 29, 29)),  # 0.29 * 100 is 28.999999999999996 in doubles
        (3, 1 / 3, 1 / 3, RateCounts(1, 2, 0)),
        (1000, 0.006, 0.01, RateCounts(6, 16, None)),
        (10, 0, 0.25, RateCounts(0, 2, None)),  # halves go to the even count
        (10, 0.5, 0.15, RateCounts(5, 6, 4)),
    ],
)
def test_rates_become_counts(base: int, target: Any, deviation: Any, expected: RateCounts) -> None:
    assert rate_counts(base, target, deviation) == expected


def test_a_switched_rate_is_a_switched_count() -> None:
    for name, mechanism in MECHANISMS.items():
        above, below = switch_of_rate(mechanism, 4012, "6/1000", "1/1000")
        limit = 24.072 if name in ("laplace", "gaussian") else 24  # continuous releases are not rounded
        assert above == pytest.approx(misclassification_probability(mechanism, 28, limit), rel=1e-12)
        assert below == pytest.approx(misclassification_probability(mechanism, 20, limit), rel=1e-12)
    above, below = switch_of_rate(adv.Geometric(1.0), 1000, 0.006, 0.01)
    assert above > 0.0
    assert math.isnan(below)


# The table


def test_the_table_is_the_functions_it_names() -> None:
    profiles = {f"{r} or {a}": RiskProfile.ratio_or_absolute(r, a, value=1.0) for r in (1.2, 2, 5) for a in (0, 0.25)}
    table = tradeoff_table(profiles, **DURHAM)
    assert {name: table[name].dims for name in table} == {
        **dict.fromkeys(["epsilon", "status", "parameter", "sd", "rmse", "prob_exact"], ("profile",)),
        "switch": ("profile", "deviation", "side"),
        "true_count": ("deviation", "side"),
    }
    assert table["side"].values.tolist() == ["above", "below"]
    assert table["deviation"].values.tolist() == [0.00025, 0.0005, 0.001, 0.002]
    assert table["true_count"].sel(side="above").values.tolist() == [25, 26, 28, 32]
    assert table.attrs["threshold"] == 24
    for name, profile in profiles.items():
        row, epsilon = table.sel(profile=name), recommend_epsilon(profile).epsilon
        noise = adv.Geometric(epsilon)
        assert row["epsilon"].item() == row["parameter"].item() == epsilon
        assert row["sd"].item() == row["rmse"].item() == rmse(noise)
        assert row["prob_exact"].item() == prob_exact(noise)
        assert row["switch"].values[1].tolist() == list(switch_of_rate(noise, 4012, "6/1000", "1/2000"))


def test_rounding_down_costs_accuracy_and_is_what_is_used() -> None:
    profile = {"difference": RiskProfile.difference(0.1)}
    plain, rounded = (tradeoff_table(profile, **DURHAM, round_down=digits) for digits in (None, 2))
    assert rounded["epsilon"].item() == 0.2
    assert rounded["rmse"].item() == rmse(adv.Geometric(0.2)) > plain["rmse"].item()


@pytest.mark.parametrize("kind", ["gaussian", "discrete gaussian"])
def test_gaussian_noise_has_the_rho_that_keeps_the_profile_but_for_the_failure(kind: str) -> None:
    profile = RiskProfile.ratio_or_absolute(3.0, 0.25)
    table = tradeoff_table({"one": profile}, **DURHAM, noise=kind, failure=0.01)
    rho = table["parameter"].item()
    assert table["parameter"].attrs["units"] == "rho"
    assert rho == allocate(profile, kind, failure=0.01).parameter
    noise = mechanism_for(kind, rho)
    worth = equivalent_epsilon(noise.privacy_loss(), 0.01, two=noise.privacy_loss(cells=2))
    assert worth == pytest.approx(table["epsilon"].item(), rel=1e-6)
    assert table["rmse"].item() == rmse(noise)


def test_profiles_without_a_number_have_a_status() -> None:
    profiles = {"free": RiskProfile.point(3.0, 1.0, 1.0), "nothing": RiskProfile.constant(1.0)}
    for noise in ("geometric", "gaussian"):
        table = tradeoff_table(profiles, **DURHAM, noise=noise)
        assert table["status"].values.tolist() == ["unconstrained", "unattainable"]
        free, nothing = (table.sel(profile=name) for name in profiles)
        assert (free["rmse"].item(), free["prob_exact"].item()) == (0.0, 1.0)
        assert (free["switch"] == 0.0).all()
        assert nothing[["rmse", "sd", "prob_exact"]].to_array().isnull().all()
        assert nothing["switch"].isnull().all()
    tiny = tradeoff_table({"tiny": RiskProfile.constant(1.001)}, **DURHAM, round_down=2)
    assert tiny["epsilon"].item() == 0.0
    assert tiny["rmse"].isnull().all()


# Shapes and bad input


def test_gaussian_noise_keeps_the_rounded_epsilon() -> None:
    asked: dict[str, Any] = {"base": 100, "target": 0.5, "deviations": [0.1], "noise": "gaussian"}
    rounded = tradeoff_table({"one": RiskProfile.difference(0.2)}, round_down=1, **asked)
    exact = tradeoff_table({"one": RiskProfile.difference(0.2)}, **asked)
    assert float(rounded["epsilon"][0]) == 0.4
    assert float(rounded["parameter"][0]) < float(exact["parameter"][0])
    assert np.isnan(tradeoff_table({"one": RiskProfile.difference(0.01)}, round_down=1, **asked)["rmse"]).all()


TOWN = pd.DataFrame(
    {"block": list("abcd"), "tract": list("sstt"), "city": ["x"] * 4, "renters": [4, 9, 0, 7], "owners": [30, 2, 8, 0]}
)
LEVELS = {name: [name, "cell"] for name in ("block", "tract", "city")}
PROFILE = RiskProfile.difference(0.2)


def loss_of(rho: Any, statistic: str = "any", releases: int = 1) -> adv.budget.Verdict:
    """The verdict on a plan of these levels, published so often."""
    noises = [adv.DiscreteGaussian.from_rho(float(one)) for one in rho]
    levels = [adv.Level(f"{i}", noise, 0) for i, noise in enumerate(noises * releases)]
    plan = adv.Plan([*levels[:-1], replace(levels[-1], siblings=None)])
    return adv.budget.own_verdict(plan, PROFILE, 0.05, statistic)


@pytest.mark.slow_cases("count-1")
@pytest.mark.parametrize(("statistic", "releases"), [("any", 1), ("count", 1), ("any", 2)])
def test_a_split_keeps_the_profile_and_a_little_more_does_not(statistic: str, releases: int) -> None:
    found = adv.budget.split_rho(TOWN, LEVELS, PROFILE, statistic=statistic, releases=releases)
    assert found["mean_count"].values.tolist() == [7.5, 15.0, 30.0]
    kept = loss_of(found["rho"].values, statistic, releases)
    assert kept.satisfied
    assert (float(found["loss"]), float(found["allowed"])) == (pytest.approx(kept.loss, rel=1e-9), kept.allowed)
    assert not loss_of(1.001 * found["rho"].values, statistic, releases).satisfied
    assert float(found["total"]) == pytest.approx(float(found["rho"].sum()), rel=1e-15)


def test_no_other_split_of_the_total_has_a_smaller_error() -> None:
    found = adv.budget.split_rho(TOWN, LEVELS, PROFILE)
    least, rng = float((found["error"] ** 2).sum()), np.random.default_rng(0)
    for shares in [np.ones(3) / 3.0, *rng.dirichlet(np.ones(3), 200)]:
        noises = [adv.DiscreteGaussian.from_rho(float(found["total"]) * share) for share in shares]
        errors = np.sqrt([noise.variance for noise in noises]) / found["mean_count"].values
        assert (errors**2).sum() >= least * (1.0 - 1e-3)  # every rho is rounded to four digits
    np.testing.assert_allclose(found["even_error"], np.sqrt(1.5 / found["total"]) / found["mean_count"], rtol=1e-6)


@pytest.mark.parametrize(
    ("profile", "options", "words"),
    [
        (PROFILE, {"failure": 0.0}, "no rho above 0 keeps the profile with failure 0"),
        (RiskProfile.constant(1.0), {}, "no rho is the largest"),
        (PROFILE, {"weights": {"street": 2.0}}, "weights: no table 'street'; there are block, tract, city"),
        (PROFILE, {"weights": {"block": 0.0}}, "weights must be positive"),
    ],
)
def test_a_split_that_does_not_exist_is_refused(profile: RiskProfile, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adv.budget.split_rho(TOWN, LEVELS, profile, **options)
    with pytest.raises(ValueError, match="nobody is in the file"):
        adv.budget.split_rho(TOWN.assign(renters=0, owners=0), {"block": ["block", "cell"]}, PROFILE)
    with pytest.raises(ValueError, match="street"):
        adv.budget.split_rho(TOWN, {"x": ["street", "lane"]}, PROFILE)


def test_a_weight_moves_the_budget_to_its_table_with_the_least_weighed_error() -> None:
    plain, weighed = (adv.budget.split_rho(TOWN, LEVELS, PROFILE, weights=w) for w in (None, {"city": 9.0}))
    share = [float((one["rho"] / one["total"]).sel(table="city")) for one in (plain, weighed)]
    rest = [1.0 / 7.5, 1.0 / 15.0]
    assert share == pytest.approx([w / 30.0 / (sum(rest) + w / 30.0) for w in (1.0, 3.0)], rel=1e-3)
