"""What an audit returns beside the audit: both truths, tests, the baseline, other plans; each law computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.adversaries.beliefs import Point
from adversary.adversaries.counterfactual import unused_record
from adversary.adversaries.path import settle_truth
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.risk import empirical_epsilon
from adversary.driver import EVERYTHING, shared_laws, sweep
from adversary.privacy.mechanisms import DiscreteGaussian, Geometric

PLAN = Plan([Level("block", DiscreteGaussian.from_rho(0.3), siblings=2), Level("tract", Geometric(0.5))])
READERS = {
    "even": adv.Adversary(0.5, 0, {"tract": adv.Uniform(upper=6)}),
    "rare": adv.Adversary(0.1, 0, {"tract": adv.Uniform(upper=6)}),
    "sure": adv.Adversary(0.5, 0, {"tract": Point(3)}),
}
TRUTH = {"block": 1, "tract": 3}


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return adv.audit(PLAN, READERS, TRUTH, also=EVERYTHING, progress=False)


@pytest.mark.slow
def test_both_truths_are_those_of_a_sweep(tree: xr.DataTree) -> None:
    for name, reader in READERS.items():
        found = tree["both_truths"].to_dataset().sel(adversary=name)
        expected = sweep(PLAN, reader, TRUTH, progress=False)
        for measure in ("posterior_mean", "ratio_mean", "prob_correct", "posterior_quantile"):
            for side in ("in", "out"):
                a, b = found[measure].sel(target=side), expected[measure].sel(truth=side)
                np.testing.assert_allclose(a, b, rtol=1e-14)
    assert float(tree["risk"]["posterior_mean"].sel(adversary="even")) == float(
        tree["both_truths"]["posterior_mean"].sel(adversary="even", target="in")
    )


def test_the_own_epsilon_is_the_public_function_s(tree: xr.DataTree) -> None:
    for name, reader in READERS.items():
        expected = empirical_epsilon(PLAN, reader, TRUTH, failure=0.05)
        assert float(tree["empirical"]["epsilon"].sel(adversary=name)) == pytest.approx(expected, rel=1e-12)


def test_the_best_guess_is_right_as_often_as_under_both_truths(tree: xr.DataTree) -> None:
    """The target in with the adversary's prior; at even odds of a listed release, by the sum of the larger terms."""
    found, both = tree["guess"].to_dataset(), tree["both_truths"]["prob_correct"]
    for name, reader in READERS.items():
        prior, one = reader.prior, found.sel(adversary=name)
        wanted = prior * both.sel(adversary=name, target="in") + (1.0 - prior) * both.sel(adversary=name, target="out")
        assert float(one["success"]) == pytest.approx(float(wanted), rel=1e-12)
        assert float(one["baseline"]) == max(prior, 1.0 - prior)
        assert float(one["advantage"]) == pytest.approx(float(one["success"] - one["baseline"]), abs=1e-15)
        assert float(one["advantage"]) >= -1e-12
    noise = Geometric(1.0)
    support = np.arange(-40, 42)
    p, q = (np.exp(noise.log_prob(support, value)) for value in (1, 0))
    alone = adv.audit(Plan([Level("block", noise)]), adv.Adversary(0.3, 0), {"block": 1}, progress=False)["guess"]
    assert float(alone["success"]) == pytest.approx(float(np.maximum(0.3 * p, 0.7 * q).sum()), rel=1e-12)


def test_no_test_beats_the_plan_s_own_loss_for_who_knows_everybody() -> None:
    plan, reader = Plan([Level("block", Geometric(1.0))]), adv.Adversary(0.5, 0)
    tests = adv.audit(plan, reader, {"block": 1}, progress=False)["tests"].to_dataset()
    allowed = plan.privacy_loss().power(tests["level"].values)
    np.testing.assert_allclose(tests["detections"], allowed, rtol=1e-9)  # a threshold of the ratio is the best test


def test_a_failure_below_what_is_listed_is_refused_before_a_law_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(shared_laws, "bayes_factor_law")
    with pytest.raises(ValueError, match="failure must be 0 or at least 1e-14, got 1e-200"):
        adv.audit(PLAN, READERS, TRUTH, failure=1e-200, progress=False)


@pytest.mark.slow
def test_each_law_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    law = shared_laws.bayes_factor_law

    def counted(plan: Plan, reader: Any, truth: Any, **how: Any) -> Any:
        asked.append((plan, tuple(reader.beliefs.items()), reader.known, truth.target, truth.counts.tobytes()))
        return law(plan, reader, truth, **how)

    monkeypatch.setattr(shared_laws, "bayes_factor_law", counted)
    adv.audit(
        PLAN, READERS, TRUTH, also=EVERYTHING, progress=False, sensitivity={"prior": [0.1, 0.5], "rho": [0.1, 0.8]}
    )
    assert len(asked) == len(set(asked))
    budgets, sides, beliefs = 13, 2, 2
    assert len(asked) == beliefs * (sides + budgets - 1) + 2 * sides  # the budget itself is one of the multiples


def test_an_infinite_epsilon_of_simulated_releases_has_no_error() -> None:
    noises = DiscreteGaussian.from_rho(0.1), DiscreteGaussian.from_rho(0.1), Geometric(0.1)
    plan = Plan([Level(name, noise, None if name == "c" else 0) for name, noise in zip("abc", noises, strict=True)])
    reader = adv.Adversary(0.5, 0, {"a": adv.Uniform(upper=0)}, attack="characteristics")
    found = adv.audit(plan, reader, dict.fromkeys("abc", 0), draws=50, rng=1, progress=False)["empirical"]
    assert np.isinf(found["epsilon"]).all()
    assert np.isnan(found["mcse"]).all()


def test_a_reader_who_is_sure_learns_nothing_from_other_records_that_exclude_the_target() -> None:
    plan = Plan([Level("tract", DiscreteGaussian.from_rho(0.1))])
    reader = adv.Adversary(1.0, 0, {"tract": adv.Uniform(upper=0)})
    found = unused_record(plan, reader, settle_truth(plan, reader, {"tract": 0, "in": 0}))
    assert float(found["posterior_mean"]) == pytest.approx(1.0)


def test_a_record_that_is_not_used_teaches_what_other_records_say() -> None:
    noise = DiscreteGaussian.from_rho(0.3)
    plan = Plan([Level("block", noise, siblings=3), Level("tract", DiscreteGaussian.from_rho(0.2))])
    reader = adv.Adversary(0.3, 0, {"tract": Point(4)})
    truth = settle_truth(plan, reader, {"block": 1, "tract": 4})
    found = unused_record(plan, reader, truth)
    assert found["posterior_mean"].attrs["direction"] == "exact"
    out, present = _released(plan, 4), _released(plan, 3)
    weight = present  # in truth three others are there
    posterior = 0.3 * present / (0.3 * present + 0.7 * out)
    assert float(found["posterior_mean"]) == pytest.approx(float((weight * posterior).sum()), rel=1e-9)
    assert float(found["posterior_mean"]) > 0.3


def _released(plan: Plan, others: int) -> Any:
    """P(sum of the siblings' releases, the tract's release) without the target; the block's says nothing."""
    sums, tract = plan.levels[0].mechanism.total(3), plan.levels[1].mechanism
    grid = np.arange(-40, 48)
    return np.exp(np.asarray(sums.log_prob(grid, others))[:, None] + np.asarray(tract.log_prob(grid, others))[None, :])


def test_beliefs_that_say_nothing_of_the_target_leave_the_prior() -> None:
    baseline = adv.audit(PLAN, adv.Adversary(0.2, 0, {"tract": adv.Uniform()}), TRUTH, progress=False)["baseline"]
    assert float(baseline["posterior_mean"]) == 0.2
    assert float(baseline["ratio_mean"]) == 1.0


@pytest.mark.slow
def test_alternatives_are_audits_of_their_own() -> None:
    other = replace(PLAN, levels=(replace(PLAN.levels[0], mechanism=Geometric(2.0)), PLAN.levels[1]))
    tree = adv.audit(PLAN, READERS, TRUTH, alternatives={"sharper": (other, READERS, TRUTH)}, progress=False)
    alone = adv.audit(other, READERS, TRUTH, also=(), progress=False)
    np.testing.assert_array_equal(
        tree["alternatives"]["posterior_mean"].sel(alternative="sharper"), alone["risk"]["posterior_mean"]
    )


def test_a_profile_says_how_far_each_adversary_may_come() -> None:
    plan, reader = Plan([Level("block", Geometric(1.0))]), adv.Adversary(0.5, 0)
    found = adv.audit(plan, reader, {"block": 1}, profile=lambda p, q: 1.2, progress=False)["tolerated"].to_dataset()
    assert float(found["posterior"]) == pytest.approx(0.6)
    assert float(found["outside"]) == pytest.approx(float(np.e / (1.0 + np.e)))  # the releases of 1 and above
    assert "tolerated" not in adv.audit(plan, adv.Adversary(0.0, 0), {"block": 1}, profile=lambda p, q: 2.0).children


def test_the_bound_at_another_budget_is_that_of_its_noise() -> None:
    """Epsilons add up, and the noise of both is narrower alike until rho, the sum of e tanh(e / 2), is the multiple."""
    plan = Plan([Level("block", Geometric(1.0), siblings=0), Level("tract", Geometric(0.5))])
    found = adv.audit(plan, adv.Adversary(), {"block": 1, "tract": 1}, also=["budgets"], progress=False)["budgets"]
    each = np.array([[2.0], [1.0]]) / 3.0 * found["loss_bound"].values
    rho = (each * np.tanh(each / 2.0)).sum(axis=0)
    np.testing.assert_allclose(rho, found["budget"] * (np.tanh(0.5) + 0.5 * np.tanh(0.25)), rtol=1e-9)
    np.testing.assert_allclose(found["rho"], rho, rtol=1e-9)


def test_what_is_asked_for_is_checked() -> None:
    with pytest.raises(ValueError, match="also must be of"):
        adv.audit(PLAN, READERS, TRUTH, also=["capabilities"])
    with pytest.raises(ValueError, match="sensitivity is for one plan"):
        adv.audit({"a": PLAN, "b": PLAN}, READERS, TRUTH, sensitivity={"prior": [0.1]})
