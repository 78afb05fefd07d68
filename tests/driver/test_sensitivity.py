"""Sweeps over prior, rho, siblings and beliefs are audits of other plans and readers, and always tell both truths."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
import xarray as xr

import adversary as adv
from adversary.adversaries.risk.averages import prob_correct
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.driver.sensitivity import MEASURES, base_and_sweeps, extremes, one_at_a_time, sweep
from adversary.literature.canonical import Tulap
from adversary.models import noise

RHO1, RHO2 = 64 / 25 * 165 / 4099 * 3945 / 4097, 64 / 25 * 1256 / 4099 * 1288 / 4099
TRUTH = {"block": 1, "block group": 1}


def two_levels(rho1: float = RHO1, rho2: float = RHO2, siblings: int = 27, neighbours: str | None = None) -> adv.Plan:
    levels = [
        adv.Level("block", adv.DiscreteGaussian.from_rho(rho1), siblings),
        adv.Level("block group", adv.DiscreteGaussian.from_rho(rho2)),
    ]
    return adv.Plan(levels, neighbours=neighbours)


def reader(prior: float = 0.5, belief: Any = None) -> adv.Adversary:
    return adv.Adversary(prior, 0, {"block group": adv.Uniform() if belief is None else belief})


def averages(plan: adv.Plan, one: adv.Adversary, truth: dict[str, int]) -> xr.Dataset:
    return adv.audit(plan, one, truth)["risk"].to_dataset()


@pytest.mark.slow
def test_every_entry_is_the_audit_of_that_plan_reader_and_truth() -> None:
    beliefs = {"flat": adv.Uniform(), "sure": adv.Point(3), "proper": adv.Uniform(6)}
    plan = two_levels(0.3, 0.4, 3)
    found = sweep(
        plan, reader(), {"block": 1, "block group": 4}, prior=[0.1, 0.6], rho=[0.35, 1.4],
        beliefs={name: {"block group": one} for name, one in beliefs.items()},
    )  # fmt: skip
    assert found["posterior_mean"].dims == ("prior", "rho", "beliefs", "truth")
    assert bool(found["possible"].all())
    for prior in (0.1, 0.6):
        for rho in (0.35, 1.4):
            scaled = two_levels(0.3 * rho / 0.7, 0.4 * rho / 0.7, 3)
            for name, one in beliefs.items():
                for side, truth in (("in", {"block": 1, "block group": 4}), ("out", {"block": 0, "block group": 3})):
                    entry = found.sel(prior=prior, rho=rho, beliefs=name, truth=side)
                    expected = averages(scaled, reader(prior, one), truth)
                    for measure in MEASURES:
                        assert float(entry[measure]) == pytest.approx(float(expected[measure]), abs=1e-9), measure
                    np.testing.assert_allclose(
                        entry["posterior_quantile"], expected["posterior_quantile"], rtol=1e-6, atol=1e-9
                    )


@pytest.mark.parametrize(
    "noise",
    [
        adv.DiscreteGaussian(2.0).total(3),
        adv.Geometric(0.5).total(2),
        Tulap(0.5),
        adv.postprocessing.clamped(adv.DiscreteGaussian(2.0).total(3)),
    ],
    ids=str,
)
def test_another_budget_is_another_answer_whatever_the_noise(noise: adv.Mechanism) -> None:
    plan = adv.Plan([adv.Level("block", noise)])
    total = noise.rho()
    found = sweep(plan, adv.Adversary(), {"block": 1}, rho=[total / 4, total], draws=2000, rng=1)
    low, high = found["posterior_mean"].sel(truth="in").values
    assert high > low + 0.005


def test_every_prior_is_read_from_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    quantiles = BayesFactorLaw.quantiles
    monkeypatch.setattr(BayesFactorLaw, "quantiles", lambda law, levels: asked.append(1) or quantiles(law, levels))
    found = sweep(two_levels(), reader(), TRUTH, prior=np.linspace(0.05, 0.9, 12))
    assert len(asked) == 2  # one law for each truth
    alone = sweep(two_levels(), reader(0.05), TRUTH)
    np.testing.assert_allclose(found["posterior_quantile"][0], alone["posterior_quantile"], rtol=1e-12)


def test_a_law_over_the_prior_probability_is_averaged_over() -> None:
    import preliz

    law = st.beta(2, 5)
    x, w = np.polynomial.legendre.leggauss(40)
    at = sweep(two_levels(), reader(), TRUTH, prior=(x + 1) / 2)
    weights = xr.DataArray(w / 2 * law.pdf((x + 1) / 2), dims="prior")
    for one in (law, preliz.Beta(2, 5)):
        found = sweep(two_levels(), reader(), TRUTH, prior=one)
        for measure in ("posterior_mean", "difference_mean"):
            np.testing.assert_allclose(found[measure].mean("prior"), (at[measure] * weights).sum("prior"), atol=5e-4)
    with pytest.raises(ValueError, match=r"prior must be in \[0, 1\]"):
        sweep(two_levels(), reader(), TRUTH, prior=st.norm(0.5, 1))


def test_laws_of_scipy_and_preliz_are_beliefs_of_a_sweep() -> None:
    import preliz

    laws = {"scipy": st.poisson(3), "preliz": preliz.Poisson(3), "belief": adv.Others(st.poisson(3))}
    found = sweep(two_levels(), reader(), TRUTH, beliefs={k: {"block group": v} for k, v in laws.items()})
    correct = found["prob_correct"]
    for name in ("scipy", "preliz"):
        np.testing.assert_allclose(correct.sel(beliefs=name), correct.sel(beliefs="belief"), atol=1e-10)


def test_models_are_swept_as_named_adversaries_and_by_values_of_their_data() -> None:
    plan, chances = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(RHO1))]), [0.1, 0.6]
    expected = sweep(plan, adv.Adversary(), {"block": 1}, prior=chances)["posterior_mean"].sel(truth="in").values

    def story(chance: float) -> pm.Model:
        with pm.Model() as model:
            present = pm.Bernoulli("in", pm.Data("chance", chance))
            noise.released("noisy[block]", plan.levels[0].mechanism, present)
        return model

    found = adv.audit(plan, {str(chance): story(chance) for chance in chances}, {"block": 1, "in": 1})
    np.testing.assert_allclose(found["risk"]["posterior_mean"].values, expected, atol=1e-10)
    model = story(0.3)
    for chance, mean in zip(chances, expected, strict=True):
        with model:
            pm.set_data({"chance": chance})
        found = adv.audit(plan, model, {"block": 1, "in": 1})
        assert float(found["risk"]["posterior_mean"]) == pytest.approx(mean, abs=1e-10)


def test_rho_is_that_of_the_whole_plan_and_every_level_gets_the_same_factor() -> None:
    plan = two_levels()
    found = sweep(plan, reader(), TRUTH, rho=[0.2, plan.total_rho])
    np.testing.assert_allclose(found["budget"], [0.2 / (RHO1 + RHO2), 1.0])
    expected = prob_correct(plan.scaled(0.2 / (RHO1 + RHO2)), reader(), TRUTH)
    assert float(found["prob_correct"].sel(rho=0.2, truth="in")) == pytest.approx(expected, abs=1e-12)
    assert two_levels(neighbours="bounded").total_rho == pytest.approx(2 * (RHO1 + RHO2))
    mixed = adv.Plan(
        [adv.Level("a", adv.Geometric(1.0), 0), adv.Level("b", adv.Exact(), 0), adv.Level("c", adv.Laplace(1.0))]
    )
    assert mixed.total_rho == pytest.approx(math.tanh(0.5) + math.exp(-1.0))
    assert mixed.scaled(3.0).total_rho == pytest.approx(3.0 * mixed.total_rho)


@pytest.mark.slow
def test_siblings_are_swept_for_the_lowest_level_or_by_name() -> None:
    levels = [adv.Level(name, adv.DiscreteGaussian.from_rho(0.3), d) for name, d in (("a", 2), ("b", 3), ("c", None))]
    plan, truth = adv.Plan(levels), {"a": 1, "b": 2, "c": 4}
    one = adv.Adversary(0.5, 0, {"b": adv.Uniform(4), "c": adv.Uniform(6)})
    lowest = sweep(plan, one, truth, siblings=[1, 5], progress=False)
    named = sweep(plan, one, truth, siblings={"a": [1, 5], "b": [3]}, progress=False)
    assert set(named.dims) >= {"siblings[a]", "siblings[b]"}
    np.testing.assert_allclose(lowest["posterior_mean"], named["posterior_mean"].isel({"siblings[b]": 0}), atol=1e-12)
    by_hand = adv.Plan([adv.Level("a", levels[0].mechanism, 5), *levels[1:]])
    assert float(lowest["posterior_mean"].sel(siblings=5, truth="in")) == pytest.approx(
        float(averages(by_hand, one, truth)["posterior_mean"]), abs=1e-9
    )


def test_a_truth_that_a_belief_rules_out_is_marked_and_missing() -> None:
    found = sweep(
        two_levels(), reader(), {"block": 1, "block group": 3}, prior=[0.1, 0.5],
        beliefs={"fits": {"block group": adv.Uniform(9)}, "too small": {"block group": adv.Uniform(2)}},
    )  # fmt: skip
    assert found["possible"].sel(truth="in").values.tolist() == [True, False]
    assert found["possible"].sel(truth="out").values.tolist() == [True, True]
    for measure in MEASURES:
        missing = np.isnan(found[measure]).any("prior").transpose(*found["possible"].dims)
        np.testing.assert_array_equal(missing, ~found["possible"])
    assert "too small" in found.attrs["impossible"]
    assert "outside the adversary's belief" in found.attrs["impossible"]


def test_an_exact_total_leaves_a_sure_reader_one_truth() -> None:
    levels = [adv.Level("block", adv.DiscreteGaussian.from_rho(0.2), 2), adv.Level("tract", adv.Exact())]
    found = sweep(adv.Plan(levels), adv.Adversary(0.5, 0, {"tract": adv.Point(2)}), {"block": 1, "tract": 2})
    assert found["possible"].values.tolist() == [True, False]
    with pytest.raises(ValueError, match="sure of 5"):
        sweep(adv.Plan(levels), adv.Adversary(0.5, 0, {"tract": adv.Point(5)}), {"block": 1, "tract": 2})


def test_nothing_possible_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no truth is possible.*beliefs 'none'.*outside the adversary's belief"):
        sweep(
            two_levels(), reader(), {"block": 1, "block group": 9},
            beliefs={"none": {"block group": adv.Others([1.0])}},
        )  # fmt: skip


BAD = {
    "prior above one": ({"prior": [0.5, 1.5]}, r"prior must be in \[0, 1\], got 1.5"),
    "no prior": ({"prior": []}, "prior must hold at least one value"),
    "the same prior twice": ({"prior": [0.5, 0.5]}, "prior must hold different values"),
    "rho zero": ({"rho": [0.0]}, "rho must be positive"),
    "negative siblings": ({"siblings": [-1]}, "siblings must be at least 0, got -1"),
    "siblings at the top": ({"siblings": {"block group": [1]}}, "only levels below the top"),
    "no siblings": ({"siblings": {}}, "at least one level"),
    "no siblings but a belief": ({"siblings": [0]}, "siblings 0: .*takes no belief"),
    "no beliefs": ({"beliefs": {}}, "beliefs must be a mapping of names"),
    "a belief about nothing": ({"beliefs": {"x": {"county": adv.Uniform()}}}, "beliefs 'x'.*unknown level 'county'"),
    "a missing belief": ({"beliefs": {"x": {}}}, "beliefs 'x'.*'block group' needs one"),
    "no draws": ({"draws": 0}, "draws"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_swept_is_refused_in_words(what: str) -> None:
    given, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        sweep(two_levels(), reader(), TRUTH, **given)


def test_siblings_told_one_by_one_fix_their_number() -> None:
    truth = {"block": 1, "block group": 2, "siblings": {"block": [0, 1]}}
    with pytest.raises(ValueError, match="names each sibling"):
        sweep(two_levels(siblings=2), reader(), truth, siblings=[1, 3])


def test_a_tornado_holds_the_range_of_each_input_with_the_base_inside() -> None:
    found = one_at_a_time(
        two_levels(), reader(), TRUTH, prior=[0.1, 0.9], siblings=[27],
        beliefs={"sure of 25": {"block group": adv.Point(25)}},
    )  # fmt: skip
    base, swept = base_and_sweeps(two_levels(), reader(), TRUTH, prior=[0.1, 0.9], siblings=[27])
    assert found["input"].values.tolist() == ["prior", "siblings", "beliefs"]
    for measure in MEASURES:
        low, middle, high = (found[measure].sel(end=end) for end in ("low", "base", "high"))
        assert bool(((low <= middle) & (middle <= high)).all())
        np.testing.assert_allclose(middle.sel(input="prior"), base[measure])
        over = swept["prior"][measure]
        np.testing.assert_allclose(low.sel(input="prior"), np.minimum(over.min("prior"), base[measure]))
        np.testing.assert_allclose(high.sel(input="prior"), np.maximum(over.max("prior"), base[measure]))
    at = found["at_posterior_mean"].sel(truth="in")
    assert at.sel(input="prior").values.tolist() == ["0.1", "as it is", "0.9"]
    assert at.sel(input="siblings").values.tolist() == ["as it is"] * 3
    assert at.sel(input="beliefs").values.tolist() == ["as it is", "as it is", "sure of 25"]
    alone = extremes(base, swept)
    xr.testing.assert_allclose(alone, found.sel(input=["prior", "siblings"]))


def test_a_mapping_of_siblings_is_one_input_for_each_level() -> None:
    swept = base_and_sweeps(two_levels(), reader(), TRUTH, siblings={"block": [3, 27]})[1]
    assert list(swept) == ["siblings[block]"]


def test_simulated_sweeps_carry_their_errors_and_repeat_with_the_seed() -> None:
    levels = [adv.Level("block", adv.Laplace(2.0), 2), adv.Level("tract", adv.Laplace(2.0))]
    plan, one = adv.Plan(levels), adv.Adversary(0.5, 0, {"tract": adv.Uniform(5)})
    found = [sweep(plan, one, {"block": 1, "tract": 2}, prior=[0.2, 0.5], draws=500, rng=3) for _ in range(2)]
    xr.testing.assert_identical(*found)
    assert found[0]["posterior_mean"].attrs["direction"] == "estimate"
    assert bool((found[0]["mcse"].sel(measure="posterior_mean") > 0).all())


def test_coarse_laws_are_close_to_exact_ones() -> None:
    exact, coarse = (sweep(two_levels(), reader(), TRUTH, prior=[0.01, 0.5], coarse=flag) for flag in (False, True))
    np.testing.assert_allclose(coarse["posterior_mean"], exact["posterior_mean"], atol=1e-5)
    np.testing.assert_allclose(coarse["posterior_quantile"], exact["posterior_quantile"], atol=2e-2)


def test_bounds_stand_beside_the_averages_as_in_an_audit() -> None:
    """At every prior and budget, under both truths; a guarantee that the noise breaks is violated."""
    plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    promises = {"paid": adv.ZeroConcentratedDP(0.1), "wished": adv.PureDP(0.01)}
    options: dict[str, Any] = {"guarantee": promises, "failure": 0.1}
    found = sweep(plan, adv.Adversary(), {"block": 1}, prior=[0.1, 0.5], rho=[0.1, 0.4], **options)
    assert found["bound_status"].dims == ("prior", "rho", "truth", "definition")
    assert found["bound"].dims == ("prior", "rho", "truth", "definition", "side")
    for prior, rho, side in itertools.product([0.1, 0.5], [0.1, 0.4], [1, 0]):
        noisy = plan.scaled(rho / 0.1)
        tree = adv.audit(noisy, adv.Adversary(prior), {"block": side, "in": side}, also=(), progress=False, **options)
        bound, here = tree["bound"], found.sel(prior=prior, rho=rho, truth=["out", "in"][side])
        assert here["bound_status"].values.tolist() == bound["status"].values.tolist()
        np.testing.assert_allclose(here["loss_bound"], bound["loss_bound"], rtol=1e-9)
        np.testing.assert_allclose(here["outside"], bound["outside"], atol=1e-12)
        np.testing.assert_allclose(here["bound"], bound["posterior"], rtol=1e-9)
    assert "bound" not in sweep(plan, adv.Adversary(), {"block": 1}, prior=[0.1])
    with pytest.raises(ValueError, match="privacy_unit is for models without a plan"):
        sweep(plan, adv.Adversary(), {"block": 1}, prior=[0.1], privacy_unit=adv.PrivacyUnit())
