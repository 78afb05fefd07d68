"""Sweeps over models: every entry is the exact answer or within its error of it, or says that it is unreliable."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
import xarray as xr
from scipy.special import expit

import adversary as adv
from adversary import Sampling
from adversary.driver.sensitivity import MEASURES, sweep
from adversary.models import noise
from adversary.models.importance import WeighedPrior, shared_draws

ONE = adv.Plan([adv.Level("block", adv.DiscreteGaussian(2.0))])
TWO = adv.Plan(
    [adv.Level("block", adv.DiscreteGaussian.from_rho(0.2), 3), adv.Level("tract", adv.DiscreteGaussian.from_rho(0.4))]
)
TRUTH = {"block": 1, "tract": 3, "in": 1}


def by_chance(chance: Any) -> pm.Model:
    with pm.Model() as model:
        present = pm.Bernoulli("in", pm.Data("chance", chance))
        noise.released("noisy[block]", ONE.levels[0].mechanism, present)
    return model


def unknown_rate(plan: adv.Plan, shape: float) -> pm.Model:
    """Others of a Poisson law with a gamma rate: together a negative binomial law, which the exact engine reads."""
    low, high = (level.mechanism for level in plan.levels)
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.5)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", shape, 1.0)), upper=50)
        noise.released("noisy[block]", low, present)
        noise.released("sibling_sum[block]", low, others, plan.levels[0].siblings or 0)
        noise.released("noisy[tract]", high, present + others)
    return model


@pytest.mark.slow
def test_a_model_by_values_of_its_data_is_the_adversary_with_those_priors() -> None:
    chances, rest = [0.1, 0.6], {"truth": "in", "quantile": 0.5}
    expected = sweep(ONE, adv.Adversary(), {"block": 1}, prior=chances)
    model = by_chance(0.3)
    found = sweep(ONE, model, {"block": 1, "in": 1}, data={"chance": chances})["risk"]
    for measure in (*MEASURES, "posterior_quantile", "ratio_quantile"):
        np.testing.assert_allclose(found[measure].values, expected[measure].values, rtol=1e-9, atol=1e-10)
    assert found["posterior_mean"].dims == ("chance", "truth")
    assert (found["status"] == "ok").all()
    assert float(model["chance"].get_value()) == 0.3  # the model is as it was
    priors = sweep(ONE, model, {"block": 1, "in": 1}, prior=chances)["risk"]
    np.testing.assert_allclose(
        priors["posterior_quantile"].sel(rest).values, expected["posterior_quantile"].sel(rest).values, atol=1e-10
    )
    np.testing.assert_allclose(priors["posterior_mean"].values, expected["posterior_mean"].values, atol=1e-10)


@pytest.mark.slow
def test_an_audit_goes_over_the_inputs_of_a_model() -> None:
    chances, truth = [0.1, 0.6], {"block": 1, "in": 1}
    inputs = {"prior": chances, "data": {"chance": chances}}
    tree = adv.audit(ONE, by_chance(0.3), truth, sensitivity=inputs, rng=1, progress=False)
    expected = adv.audit(ONE, adv.Adversary(0.3), {"block": 1}, sensitivity={"prior": chances}, progress=False)
    for measure in MEASURES:
        for group in ("base", "prior"):
            wanted, found = (one[f"sensitivity/{group}"][measure].values for one in (expected, tree))
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
        for name in ("prior", "chance"):
            wanted = expected["sensitivity/extremes"][measure].sel(input="prior").values
            found = tree["sensitivity/extremes"][measure].sel(input=name).values
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
    assert tree["sensitivity/chance"].attrs["input"] == "chance"
    with pytest.raises(TypeError, match="inputs are prior, rho, siblings, beliefs, data, got 'noise'"):
        adv.audit(ONE, by_chance(0.3), truth, sensitivity={"noise": [1.0]}, rng=1, progress=False)


@pytest.mark.slow
def test_one_set_of_draws_serves_every_prior_of_the_latents_and_every_budget() -> None:
    shapes, totals, priors = [1.0, 2.0, 5.0], [0.3, 1.2], [0.2, 0.5]
    found = sweep(TWO, unknown_rate, TRUTH, rho=totals, prior=priors, data={"shape": shapes}, draws=300, rng=1)["risk"]
    beliefs = {str(shape): {"tract": adv.Others(st.nbinom(shape, 0.5))} for shape in shapes}
    reader = adv.Adversary(beliefs={"tract": adv.Uniform()})
    exact = sweep(TWO, reader, TRUTH, rho=totals, prior=priors, beliefs=beliefs)
    assert found["posterior_mean"].dims == ("prior", "rho", "shape", "truth")
    assert (found["status"] == "ok").all()
    assert (found["anew"] == 0).all()
    assert (found["k_hat"] < 0.7).all()
    for measure, slack in (("posterior_mean", 1e-10), ("difference_mean", 1e-10), ("prob_correct", 0.01)):
        off = abs(found[measure].values - exact[measure].values)
        assert (off <= 4 * found["mcse"].sel(measure=measure).values + slack).all(), measure


@pytest.mark.slow
def test_the_shared_draws_reach_a_mode_that_only_one_prior_has() -> None:
    """A prior with a second mode far from all the others' draws is weighed right, one by one release."""
    laws = {
        "one": lambda: pm.Normal("x", 0.0, 1.0),
        "two": lambda: pm.NormalMixture("x", np.array([0.7, 0.3]), np.array([0.0, 30.0]), sigma=1.0),
        "heavy": lambda: pm.StudentT("x", 4.0, mu=1.0, sigma=0.5),
    }

    def model(name: str) -> pm.Model:
        with pm.Model() as found:
            x = laws[name]()
            present = pm.Bernoulli("in", pm.math.sigmoid(x))
            noise.released("noisy", adv.Gaussian(20.0), x + 10.0 * present)
        return found

    found = sweep(
        None, model, {"in": 1, "x": 0.5}, data={"name": {name: name for name in laws}}, draws=40, rng=2,
        sampling=Sampling(prior_draws=6000),
    )["risk"]  # fmt: skip
    assert (found["status"] == "ok").all()
    x = np.linspace(-60.0, 80.0, 20_001)
    density = {
        "one": st.norm.pdf(x),
        "two": 0.7 * st.norm.pdf(x) + 0.3 * st.norm.pdf(x, 30.0),
        "heavy": st.t(4.0, 1.0, 0.5).pdf(x),
    }
    chance = {name: (law * expit(x)).sum() / law.sum() for name, law in density.items()}
    bare = {name: pm.model.transform.conditioning.remove_value_transforms(model(name)) for name in laws}
    priors = [WeighedPrior.of(one, ["noisy"], rng=i, draws=2000) for i, one in enumerate(bare.values())]
    noisy = np.array([-10.0, 5.0, 20.0, 45.0])
    answered = 0
    for name, prior in zip(laws, shared_draws(priors), strict=True):
        assert prior.before()[0] == pytest.approx(chance[name], abs=4 * prior.before()[1])
        for i, sample in enumerate(prior.weigh({"noisy": noisy}, refine=False)):
            inside = (density[name] * expit(x) * st.norm.pdf(noisy[i], x + 10.0, 20.0)).sum()
            out = (density[name] * expit(-x) * st.norm.pdf(noisy[i], x, 20.0)).sum()
            answered += sample.reliable
            assert abs(sample.answer.present - inside / (inside + out)) <= 4 * sample.answer.mcse, (name, i)
    assert answered >= 6


@pytest.mark.slow
def test_releases_that_no_draw_explains_are_unreliable_and_others_of_the_sweep_are_not() -> None:
    def model(place: float) -> pm.Model:
        with pm.Model() as found:
            x = pm.Normal("x", place, 0.1)
            noise.released("noisy", adv.Gaussian(1.0), x + pm.Bernoulli("in", pm.math.sigmoid(x - place)))
        return found

    found = sweep(None, model, {"in": 1, "x": 0.0}, data={"place": [0.0, 60.0]}, draws=20, rng=1)["risk"]
    assert found["status"].sel(place=0.0).values.tolist() == ["ok", "ok"]
    assert found["status"].sel(place=60.0).values.tolist() == ["unreliable", "unreliable"]
    assert np.isnan(found["posterior_mean"].sel(place=60.0)).all()
    np.testing.assert_allclose(found["anew"].sel(place=60.0), 1.0)


@pytest.mark.slow
def test_arviz_scales_the_powers_of_prior_and_likelihood_of_what_a_sweep_returns() -> None:
    tree = sweep(TWO, unknown_rate, TRUTH, data={"shape": [2.0]}, draws=20, rng=1)
    summary = az.psense_summary(tree, prior_var_names=["rate"], var_names=["rate"])
    assert np.isfinite(summary[["prior", "likelihood"]].values.astype(float)).all()
    assert isinstance(tree, xr.DataTree)


@pytest.mark.slow
def test_releases_too_rare_to_be_explained_are_part_of_the_error_and_errors_of_shared_draws_add_up() -> None:
    """Releases of a share of 1e-5 are not answered; the average is, within its error, which was too small before."""
    with pm.Model() as model:
        noise.released("noisy[block]", ONE.levels[0].mechanism, pm.Bernoulli("in", pm.Beta("chance", 2.0, 5.0)))
    expected = float(adv.audit(ONE, adv.Adversary(2 / 7), {"block": 1})["risk"]["posterior_mean"])
    tree = adv.audit(ONE, model, {"block": 1, "in": 1}, rng=1, progress=False)
    risk, each = tree["risk"].to_dataset(), tree["estimate"]["mcse"] * tree["release"]["weight"]
    assert 0 < float(risk["unreliable_mass"]) < 1e-4
    assert risk["status"].item() == "ok"
    off = abs(float(risk["posterior_mean"]) - expected)
    error = float(risk["mcse"].sel(measure="posterior_mean"))
    assert off <= 4 * error
    assert error >= float(each.sum()) + float(risk["unreliable_mass"])
    assert float(risk["lower"][0]) <= float(risk["posterior_mean"]) <= float(risk["upper"][0])


@pytest.mark.slow
def test_laws_over_data_and_laws_as_arguments() -> None:
    import preliz

    truth = {"block": 1, "in": 1}
    law = st.beta(2, 5)
    found = sweep(ONE, by_chance(0.3), truth, data={"chance": law})["risk"]
    assert found.sizes["chance"] == 20
    expected = sweep(ONE, adv.Adversary(), {"block": 1}, prior=law)
    np.testing.assert_allclose(
        found["posterior_mean"].mean("chance").values, expected["posterior_mean"].mean("prior").values, atol=2e-3
    )

    def elicited(law: Any) -> pm.Model:
        with pm.Model() as model:
            chance = law.to_pymc("chance")
            noise.released("noisy[block]", ONE.levels[0].mechanism, pm.Bernoulli("in", chance))
        return model

    laws = {"rare": preliz.Beta(2, 5), "frequent": preliz.Beta(5, 2)}
    found = sweep(ONE, elicited, truth, data={"law": laws}, draws=200, rng=1)["risk"]
    expected = sweep(ONE, adv.Adversary(), {"block": 1}, prior=[2 / 7, 5 / 7])["posterior_mean"].values
    error = found["mcse"].sel(measure="posterior_mean").values
    assert (abs(found["posterior_mean"].values - expected) <= 4 * error + 1e-10).all()


@pytest.mark.slow
def test_models_and_adversaries_stand_side_by_side() -> None:
    truth = {"block": 1, "in": 1}
    beliefs = {"adversary": adv.Adversary(0.3), "model": by_chance(0.3), "function": lambda: by_chance(0.3)}
    found = sweep(ONE, adv.Adversary(0.3), truth, beliefs=beliefs, prior=[0.3, 0.8])["risk"]["posterior_mean"]
    for name in ("model", "function"):
        np.testing.assert_allclose(found.sel(beliefs=name), found.sel(beliefs="adversary"), atol=1e-10)


@pytest.mark.slow
def test_both_truths_may_be_given_and_impossible_ones_are_marked() -> None:
    both = {"in": {"block": 2}, "out": {"block": 0}}
    given = sweep(ONE, by_chance(0.3), both)["risk"]["posterior_mean"]
    one = sweep(ONE, by_chance(0.3), {"block": 2, "in": 1})["risk"]["posterior_mean"]
    assert float(given.sel(truth="in")) == pytest.approx(float(one.sel(truth="in")), abs=1e-12)
    assert float(given.sel(truth="out")) < float(one.sel(truth="out"))
    found = sweep(ONE, by_chance(0.3), {"block": 0, "in": 1})["risk"]
    assert found["possible"].values.tolist() == [True, False]
    tree = sweep(ONE, by_chance(0.3), {"in": {"block": -1}, "out": {"block": 0}}, rng=1)
    assert tree["risk/possible"].values.tolist() == [False, True]
    assert "posterior" in tree.children


BAD = {
    "data of an adversary": (adv.Adversary(), {"data": {"x": [1.0]}}, "data are of models"),
    "no such data": ("model", {"data": {"chanse": [0.1]}}, "data 'chanse' is no pm.Data of the model"),
    "no such argument": (unknown_rate, {"data": {"rate": [0.1]}}, "data 'rate' is no argument of unknown_rate"),
    "a model's own noise": ("model", {"rho": [0.1]}, "rho is of a plan, and a model has its own noise"),
    "a taken name": ("model", {"data": {"truth": [0.1]}}, "'truth' is the name of another dim"),
    "values twice": ("model", {"data": {"chance": [0.1, 0.1]}}, "chance must hold different values"),
    "a truth that is silent": ("model", {"truth": {"block": 1}}, "truth must say whether the target is in"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_models_cannot_be_asked_is_refused_in_words(what: str) -> None:
    reader, given, message = BAD[what]
    truth = given.get("truth", {"block": 1, "in": 1})
    with pytest.raises(ValueError, match=message):
        sweep(
            ONE, by_chance(0.3) if reader == "model" else reader, truth, **{k: given[k] for k in given if k != "truth"}
        )


def test_a_function_that_builds_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must return a pymc\.Model, got 3"):
        sweep(ONE, lambda: 3, {"block": 1, "in": 1})


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [False, True])
def test_a_sweep_over_a_support_that_is_too_short_has_no_numbers(continuous: bool) -> None:
    """Where it is long enough for one value of the data and not for the other, the other alone."""
    with pm.Model() as model:
        spread = pm.Gamma("spread", 400.0, 400.0) if continuous else 1.0
        others = pm.Poisson("others", spread * pm.Data("mean", 3.0))
        noise.released("noisy[block]", ONE.levels[0].mechanism, pm.Bernoulli("in", 0.3) + others)
    truth, options = {"block": 3, "in": 1}, {"draws": 20, "rng": 1, "progress": False}
    found = sweep(ONE, model, truth, data={"mean": [3.0, 30.0]}, support={"others": range(26)}, **options)["risk"]
    status = found["status"].sel(truth="in").values.tolist()
    assert status == ["ok", "unreliable"]
    assert np.isfinite(found["posterior_mean"].sel(truth="in", mean=3.0))
    assert np.isnan(found["posterior_mean"].sel(truth="in", mean=30.0))


@pytest.mark.slow
def test_bounds_of_models_are_those_of_an_audit_of_each() -> None:
    def model(chance: float) -> pm.Model:
        with pm.Model() as found:
            noise.released("noisy", adv.DiscreteGaussian(2.0), pm.Bernoulli("in", chance) + 3)
        return found

    options: dict[str, Any] = {"guarantee": adv.ZeroConcentratedDP(0.125), "failure": 0.1, "records": 2, "draws": 500}
    found = sweep(None, model, {"in": 1}, data={"chance": [0.2, 0.6]}, rng=1, **options)["risk"]
    for chance in (0.2, 0.6):
        bound = adv.audit_model(model(chance), {"in": 1}, rng=1, **options)["bound"]
        here = found.to_dataset().sel(chance=chance, truth="in")
        np.testing.assert_allclose(here["loss_bound"], bound["loss_bound"], rtol=1e-12)
        np.testing.assert_allclose(here["bound"], bound["posterior"], rtol=1e-12)
        assert here["bound_status"].values.tolist() == bound["status"].values.tolist() == ["holds", "holds"]
    unit = adv.PrivacyUnit("household", 4)
    whole = sweep(None, model, {"in": 1}, data={"chance": [0.2]}, privacy_unit=unit, draws=100, rng=1)["risk"]
    assert float(whole["loss_bound"].max()) > float(found["loss_bound"].max())  # four people at once
