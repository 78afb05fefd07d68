"""Any PyMC model as an adversary: it answers as the Adversary of the same story does, or says why it cannot."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
import xarray as xr

import adversary as adv
from adversary.driver import model_case
from adversary.models import hierarchical_counts, membership, noise
from tests.catalogue import DG

SCALARS = ("prior", "posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass")
ONE = adv.Plan([adv.Level("block", DG(0.4))])
TWO = adv.Plan([adv.Level("block", DG(3.0), siblings=1), adv.Level("tract", DG(3.0))])
LAW = [0.1, 0.4, 0.3, 0.2]
READER = adv.Adversary(0.3, 0, {"tract": adv.Others(LAW)})
TRUTH = {"block": 1, "tract": 2, "in": 1}


def one_block(name: str = "noisy[block]", prior: float = 0.3, **options: Any) -> pm.Model:
    with pm.Model() as model:
        noise.released(name, ONE.levels[0].mechanism, pm.Bernoulli("in", np.float64(prior)), **options)
    return model


def two_levels(plan: adv.Plan = TWO, *, sums: bool = True) -> pm.Model:
    low, high = (level.mechanism for level in plan.levels)
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        others = pm.Categorical("others", np.array(LAW))
        noise.released("noisy[block]", low, present)
        if sums:
            noise.released("sibling_sum[block]", low, others, 1)
        noise.released("noisy[tract]", high, present + others)
    return model


def agree(found: xr.DataTree, expected: xr.DataTree) -> None:
    for name in SCALARS:
        assert float(found["risk"][name]) == pytest.approx(float(expected["risk"][name]), abs=1e-9)
    for name in ("posterior", "log_odds", "ratio"):
        np.testing.assert_allclose(found["exact"][name], expected["exact"][name], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found["risk"]["posterior_quantile"].values, expected["risk"]["posterior_quantile"].values, atol=1e-9
    )
    xr.testing.assert_allclose(
        found["bound"].to_dataset().drop_vars("status"), expected["bound"].to_dataset().drop_vars("status")
    )
    assert found["bound"]["status"].values.tolist() == expected["bound"]["status"].values.tolist()
    xr.testing.assert_equal(found["release"].to_dataset(), expected["release"].to_dataset())


# The same story told twice


@pytest.mark.parametrize("name", ["noisy", "noisy[block]"])
@pytest.mark.parametrize("target", [0, 1])
def test_one_block_as_a_model_is_one_block(name: str, target: int) -> None:
    truth = {"block": target, "in": target}
    found = adv.audit(ONE, one_block(name), truth, guarantee=adv.ZeroConcentratedDP(0.4), progress=False)
    agree(found, adv.audit(ONE, adv.Adversary(0.3), truth, guarantee=adv.ZeroConcentratedDP(0.4), progress=False))
    assert found["exact"].attrs["method"] == "enumeration of the model"


@pytest.mark.parametrize("engine", ["exact", "enumerate"])
def test_two_levels_as_a_model_are_two_levels(engine: str) -> None:
    options: dict[str, Any] = {"guarantee": {"zCDP": adv.ZeroConcentratedDP(6.0), "false": adv.ZeroConcentratedDP(1.0)}}
    found = adv.audit(TWO, two_levels(), TRUTH, engine=engine, **options)
    agree(found, adv.audit(TWO, READER, TRUTH, **options))
    assert found["bound"]["status"].values.tolist() == ["holds", "violated", "holds"]


def test_the_builders_of_the_toolkit_are_models_like_any_other() -> None:
    agree(adv.audit(TWO, hierarchical_counts(TWO, READER), TRUTH), adv.audit(TWO, READER, TRUTH))


def test_what_a_model_leaves_unread_it_does_not_learn_from() -> None:
    """Without the sibling sum, the exact twin has no sums to read: siblings that publish nothing but noise."""
    found = adv.audit(TWO, two_levels(sums=False), TRUTH)
    noisy = found["release"]["noisy"].values
    low, high = (level.mechanism for level in TWO.levels)
    others = np.arange(4)
    likelihood = [
        np.exp(low.log_prob(noisy[:, 0], k))
        * np.sum(np.array(LAW) * np.exp(high.log_prob(noisy[:, 1, None], k + others)), axis=1)
        for k in (0, 1)
    ]
    expected = 0.3 * likelihood[1] / (0.3 * likelihood[1] + 0.7 * likelihood[0])
    np.testing.assert_allclose(found["exact"]["posterior"].values, expected, rtol=1e-10)
    weight = found["release"]["weight"].values
    assert float(found["risk"]["posterior_mean"]) == pytest.approx(float(weight @ expected), abs=1e-12)


def test_a_target_may_be_a_deterministic_under_any_name() -> None:
    with pm.Model() as model:
        others = pm.Binomial("others", 3, np.float64(0.5))
        pm.Deterministic("alone", pm.math.eq(others, 0).astype("int64"))
        noise.released("noisy", ONE.levels[0].mechanism, others)
    tree = adv.audit(ONE, model, {"block": 0, "alone": 1}, target="alone")
    noisy, k = tree["release"]["noisy"].values[:, 0], np.arange(4)
    joint = st.binom(3, 0.5).pmf(k) * np.exp(ONE.levels[0].mechanism.log_prob(noisy[:, None], k))
    np.testing.assert_allclose(tree["exact"]["posterior"].values, joint[:, 0] / joint.sum(axis=1), rtol=1e-10)
    assert float(tree["risk"]["prior"]) == pytest.approx(1 / 8, abs=1e-15)
    assert tree.attrs["target"] == "alone"


def test_log_odds_keep_their_precision_near_certainty() -> None:
    plan = adv.Plan([adv.Level("block", DG(20.0))])
    with pm.Model() as model:
        noise.released("noisy", plan.levels[0].mechanism, pm.Bernoulli("in", np.float64(0.5)))
    found, expected = (adv.audit(plan, who, {"block": 1, "in": 1}) for who in (model, adv.Adversary(0.5)))
    assert expected["exact"]["log_odds"].values.max() > 50
    np.testing.assert_allclose(found["exact"]["log_odds"].values, expected["exact"]["log_odds"].values, rtol=1e-12)


def test_two_cells_are_arrays_in_the_model() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4))], cells=2)
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noise.released("noisy", plan.levels[0].mechanism, pm.math.stack([present, 1 - present]))
    truth = {"block": [1, 0], "in": 1}
    agree(adv.audit(plan, model, truth), adv.audit(plan, adv.Adversary(0.3, (0, 0)), truth))


@pytest.mark.slow
def test_siblings_may_be_read_one_by_one() -> None:
    plan = adv.Plan([adv.Level("block", DG(8.0), siblings=2), adv.Level("tract", DG(8.0))])
    law = st.binom(2, 0.4)
    reader = adv.Adversary(0.3, 0, {"tract": adv.Each(law)})
    truth = {"block": 1, "tract": 2, "in": 1, "siblings": {"block": [0, 1]}}
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        each = pm.Binomial("each", 2, np.float64(0.4), shape=2)
        noise.released("noisy[block]", plan.levels[0].mechanism, present)
        noise.released("siblings[block]", plan.levels[0].mechanism, each)
        noise.released("noisy[tract]", plan.levels[1].mechanism, present + each.sum())
    found, expected = adv.audit(plan, model, truth), adv.audit(plan, reader, truth)
    np.testing.assert_allclose(found["exact"]["posterior"], expected["exact"]["posterior"], atol=1e-9)
    assert float(found["risk"]["posterior_mean"]) == pytest.approx(float(expected["risk"]["posterior_mean"]), abs=1e-9)


@pytest.mark.slow
def test_exact_levels_condition_the_prior_of_a_model() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=1), adv.Level("tract", adv.Exact())])
    truth = {"block": 1, "tract": 2, "in": 1}
    tree = adv.audit(plan, two_levels(plan), truth, records=2)
    agree(tree, adv.audit(plan, READER, truth))
    base = 0.3 * LAW[1] / (0.3 * LAW[1] + 0.7 * LAW[2])
    assert float(tree["risk"]["prior"]) == pytest.approx(base, abs=1e-12)
    assert float(tree["risk"]["invariant_ratio"]) == pytest.approx(base / 0.3, abs=1e-12)


@pytest.mark.slow
def test_models_and_adversaries_are_audited_together(tmp_path: Path) -> None:
    readers = {"model": two_levels(), "told": READER, "half": adv.Adversary(0.5, 0, READER.beliefs)}
    tree = adv.audit(TWO, readers, {"a": TRUTH, "b": {"block": 0, "tract": 2, "in": 0}})
    risk = tree["risk"]
    assert dict(risk["posterior_mean"].sizes) == {"truth": 2, "adversary": 3}
    np.testing.assert_allclose(
        risk["posterior_mean"].sel(adversary="model"), risk["posterior_mean"].sel(adversary="told")
    )
    assert "adversary" not in tree["release"].dims
    assert "wrong_to_right" in risk
    tree.to_netcdf(tmp_path / "audit.nc")


def test_records_of_a_model_are_what_one_says() -> None:
    promise = adv.ZeroConcentratedDP(6.0)
    tree = adv.audit(TWO, two_levels(), TRUTH, guarantee=promise, records=3)
    bound = tree["bound"].sel(definition="zCDP")
    assert int(bound["k"]) == 3
    np.testing.assert_allclose(bound["posterior"], promise.group(3).posterior_bounds(0.3, failure=0.05), rtol=1e-12)


@pytest.mark.slow
def test_an_infinite_latent_is_cut_where_nothing_is_lost_or_where_one_says() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        others = pm.Poisson("others", np.float64(1.2))
        noise.released("noisy[block]", TWO.levels[0].mechanism, present)
        noise.released("sibling_sum[block]", TWO.levels[0].mechanism, others, 1)
        noise.released("noisy[tract]", TWO.levels[1].mechanism, present + others)
    reader = adv.Adversary(0.3, 0, {"tract": adv.Others(st.poisson(1.2))})
    agree(adv.audit(TWO, model, TRUTH), adv.audit(TWO, reader, TRUTH))
    tree = adv.audit(TWO, model, TRUTH, support={"others": range(30)})
    agree(tree, adv.audit(TWO, reader, TRUTH))
    assert float(tree["exact"]["edge_mass"].max()) < 1e-12


def test_simulated_releases_of_a_model_carry_their_error() -> None:
    plan = adv.Plan([adv.Level("block", adv.Gaussian(1.2))])
    with pm.Model() as model:
        noise.released("noisy", plan.levels[0].mechanism, pm.Bernoulli("in", np.float64(0.5)))
    tree = adv.audit(plan, model, {"block": 1, "in": 1}, draws=4000, rng=3)
    exact = float(adv.audit(plan, adv.Adversary(0.5), {"block": 1})["risk"]["posterior_mean"])
    error = float(tree["risk"]["mcse"].sel(measure="posterior_mean"))
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "estimate"
    assert 0 < error < 0.01
    assert abs(float(tree["risk"]["posterior_mean"]) - exact) < 4 * error


@pytest.mark.slow_cases("person-importance")
@pytest.mark.parametrize("engine", ["enumerate", "mcmc", "importance"])
@pytest.mark.parametrize("dims", [None, "person"])
def test_a_release_may_be_a_vector_of_length_one(engine: str, dims: str | None) -> None:
    with pm.Model(coords={"person": ["Ann"]}) as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noise.released("noisy", ONE.levels[0].mechanism, present * np.ones(1, dtype=np.int64), dims=dims)
    options: dict[str, Any] = {"engine": engine, "rng": 1, "progress": False}
    found = adv.audit(ONE, model, {"block": 1, "in": 1}, **options)
    expected = adv.audit(ONE, one_block(), {"block": 1, "in": 1}, **options)
    assert float(found["risk"]["posterior_mean"]) == pytest.approx(float(expected["risk"]["posterior_mean"]), abs=1e-12)


@pytest.mark.parametrize("engine", ["enumerate", "importance"])
def test_of_a_law_that_does_not_sum_to_one_the_support_is_compared_with_more_values_or_not_checked(engine: str) -> None:
    def logp(value: Any) -> Any:
        return pt.switch(pt.ge(value, 0), -np.float64(0.5) * value, -np.inf)

    with pm.Model() as model:
        others = pm.CustomDist("others", logp=logp, dtype="int64", signature="->()")
        noise.released("noisy", ONE.levels[0].mechanism, pm.Bernoulli("in", np.float64(0.3)) + others)
    options: dict[str, Any] = {"engine": engine, "progress": False, "rng": 1}
    risk = adv.audit(ONE, model, {"block": 1, "in": 1}, support={"others": range(3)}, **options)["risk"]
    assert risk["status"].item() == "unreliable"
    assert np.isnan(risk["posterior_mean"])
    if engine == "enumerate":
        assert risk["edge_mass"].item() > np.exp(-1.5)
        assert "is 0.6" in risk.attrs["reason"]
    else:
        assert np.isnan(risk["edge_mass"])
        assert risk["edge_mass"].attrs["not_checked"] == "others"
        assert "of others is not known: give a wider support" in risk.attrs["reason"]


# What is held before the release


def with_side_data() -> pm.Model:
    """Someone asked around first: a survey whose mean is the count and one."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        pm.Poisson("survey", np.float64(1) + present, observed=4)
        noise.released("noisy", ONE.levels[0].mechanism, present)
    return model


@pytest.mark.slow_cases("importance")
@pytest.mark.parametrize("engine", ["enumerate", "mcmc", "importance"])
def test_side_data_of_a_model_belong_to_its_prior(engine: str) -> None:
    survey = st.poisson([1, 2]).pmf(4)
    prior = 0.3 * survey[1] / (0.3 * survey[1] + 0.7 * survey[0])
    assert prior == pytest.approx(0.7161, abs=1e-4)
    options: dict[str, Any] = {"guarantee": adv.ZeroConcentratedDP(0.4), "progress": False, "rng": 1}
    found = adv.audit(ONE, with_side_data(), {"block": 1, "in": 1}, engine=engine, **options)
    assert float(found["risk"]["prior"]) == pytest.approx(prior, abs=1e-12)
    expected = adv.audit(ONE, adv.Adversary(prior), {"block": 1}, **options)
    if engine == "enumerate":
        agree(found, expected)
    assert found["bound"]["status"].values.tolist() == ["holds", "holds"]
    given = adv.enumerate_posterior(with_side_data(), {"noisy": 2})
    assert float(given.prior) == pytest.approx(prior, abs=1e-12)


def test_side_data_that_read_the_release_are_no_part_of_the_prior() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noisy = noise.released("noisy", ONE.levels[0].mechanism, present)
        pm.Normal("reply", np.float64(0.5) * noisy + present, np.float64(1), observed=2.0)
    result = adv.enumerate_posterior(model, {"noisy": 1})
    assert float(result.prior) == pytest.approx(0.3, abs=1e-12)
    joint = [
        chance * np.exp(float(ONE.levels[0].mechanism.log_prob(1, k))) * st.norm(0.5 + k).pdf(2.0)
        for k, chance in ((0, 0.7), (1, 0.3))
    ]
    assert float(result.posterior) == pytest.approx(joint[1] / sum(joint), abs=1e-12)


@pytest.mark.slow
def test_a_support_that_is_too_short_shows_in_the_risk_group() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        others = pm.Poisson("others", np.float64(2))
        noise.released("noisy", ONE.levels[0].mechanism, present + others)
    short, long = (
        adv.audit(ONE, model, {"block": 3, "in": 1}, support={"others": range(n)}, progress=False) for n in (3, 40)
    )
    noisy, weight = (short["release"][name].values for name in ("noisy", "weight"))
    joint = np.array(
        [
            [c * st.poisson(2).pmf(k) * np.exp(ONE.levels[0].mechanism.log_prob(noisy[:, 0], i + k)) for k in range(60)]
            for i, c in ((0, 0.7), (1, 0.3))
        ]
    )
    beyond = joint[:, 2:].sum(axis=(0, 1)) / joint.sum(axis=(0, 1))
    expected = float(weight @ np.maximum(beyond, st.poisson(2).sf(2)))
    assert float(short["risk"]["edge_mass"]) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.7
    assert float(long["risk"]["edge_mass"]) < 1e-12
    assert short["risk"]["edge_mass"].attrs["direction"] == "exact"
    assert (short["risk"]["status"].item(), long["risk"]["status"].item()) == ("unreliable", "ok")
    assert np.isnan(short["risk"]["posterior_mean"])
    assert "give a wider support" in short["risk"].attrs["reason"]
    assert set(short["bound"]["status"].values.tolist()) == {"unreliable"}
    assert np.isnan(short.attrs["truncation_mass"])
    assert adv.audit(ONE, one_block(), {"block": 1, "in": 1}).attrs["truncation_mass"] == 1e-12
    options: dict[str, Any] = {"engine": "mcmc", "rng": 1, "progress": False}
    swept = adv.audit(ONE, model, {"block": 3, "in": 1}, support={"others": range(3)}, **options)
    assert float(swept["risk"]["edge_mass"]) == pytest.approx(expected, abs=0.05)
    assert swept["risk"]["edge_mass"].attrs["direction"] == "estimate"
    assert swept["risk"]["status"].item() == "unreliable"


def test_clamped_continuous_releases_are_real_numbers() -> None:
    plan = adv.Plan([adv.Level("block", adv.postprocessing.clamped(adv.Laplace(2.0)))])
    assert model_case.released_names(plan, membership(plan, adv.Adversary(0.3, 1)), ()) == ["noisy[block]"]
    with pytest.raises(ValueError, match=r"'noisy' is discrete .*publishes real numbers"):
        model_case.released_names(plan, one_block("noisy"), ())


# Refusals: the reason and the remedy


def build(*released: Any, latents: bool = True) -> pm.Model:
    with pm.Model() as model:
        count = pm.Bernoulli("in", 0.5) if latents else 1
        for make in released:
            make(count)
    return model


def block(name: str, **options: Any) -> Any:
    return lambda count: noise.released(name, ONE.levels[0].mechanism, count, **options)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            build(block("other")),
            {},
            r"leaves no release free. Its free variables are \['in', 'other'\]; name.*noisy\[bl",
        ),
        (build(block("noisy[block]", observed=2)), {}, r"'noisy\[block\]' is already observed: leave it free"),
        (build(lambda x: pm.Deterministic("noisy", x + 1)), {}, "'noisy' is not random: give it the distribution"),
        (build(block("noisy[blocks]")), {}, r"'noisy\[blocks\]' is not in the plan: did you mean 'noisy\[block\]'"),
        (build(block("noisy"), latents=False), {}, "no latents besides its release.*pm.Bernoulli"),
        (
            build(lambda x: pm.Normal("noisy", x)),
            {},
            r"'noisy' is continuous \(float64\), but the plan publishes whole",
        ),
        (
            build(block("noisy"), lambda x: pm.Categorical("k", np.ones(3) / 3)),
            {"target": "k"},
            "must be 0 or 1.*0, 1, 2",
        ),
        (
            build(block("noisy"), lambda x: pm.Potential("p", -0.1 * pm.Poisson("k", 2.0))),
            {},
            "'p' depends on a latent without a finite support.*pm.Truncated",
        ),
        (build(block("noisy")), {"truth": {"block": 1}}, "truth must say whether the target is in: add 'in' = 1 or 0"),
    ],
)
def test_models_that_cannot_be_audited_are_refused(model: pm.Model, options: dict[str, Any], message: str) -> None:
    truth = {"block": 1, "in": 1, options.get("target", "in"): 1}
    truth = options.pop("truth", truth)
    with pytest.raises(ValueError, match=message):
        adv.audit(ONE, model, truth, progress=False, **options)


def test_a_target_that_reads_the_release_is_refused() -> None:
    with pm.Model() as model:
        noisy = noise.released("noisy", ONE.levels[0].mechanism, pm.Bernoulli("in", 0.5))
        pm.Deterministic("large", (noisy > 2).astype("int64"))
    with pytest.raises(
        ValueError, match="target large depends on the release; a target must be a function of the latents"
    ):
        adv.audit(ONE, model, {"block": 1, "large": 1}, target="large")


def test_a_latent_that_follows_the_release_is_refused() -> None:
    with pm.Model() as model:
        noisy = noise.released("noisy", ONE.levels[0].mechanism, pm.Binomial("others", 2, 0.5))
        pm.Bernoulli("in", pm.math.sigmoid(noisy))
    message = "latent 'in' depends on the release 'noisy'; a release must be made from what it tells about: draw 'in'"
    with pytest.raises(ValueError, match=message):
        adv.audit(ONE, model, {"block": 1, "in": 1})
    with pytest.raises(ValueError, match=message):
        adv.enumerate_posterior(model, {"noisy": 1})
    with pytest.raises(ValueError, match=message):
        adv.audit(ONE, model, {"block": 1, "in": 1}, engine="importance")
    with pytest.raises(ValueError, match=message):  # of any latent, not of the target alone
        adv.enumerate_posterior(model, {"noisy": 1}, target="others")


def test_what_is_made_from_a_release_may_use_it() -> None:
    """A clipped copy and a potential: the potential counts as evidence and is no part of the prior."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noisy = noise.released("noisy", ONE.levels[0].mechanism, present)
        pm.Deterministic("shown", pm.math.clip(noisy, 0, 9))
        pm.Potential("belief", np.float64(0.2) * noisy * present)
    found = adv.enumerate_posterior(model, {"noisy": 2})
    law = np.exp(ONE.levels[0].mechanism.log_prob(2, np.arange(2)))
    odds = 0.3 / 0.7 * law[1] / law[0] * np.exp(0.4)
    assert float(found.posterior) == pytest.approx(odds / (1 + odds), abs=1e-12)
    assert float(found.prior) == pytest.approx(0.3, abs=1e-12)


@pytest.mark.slow
def test_a_continuous_target_is_weighed_and_not_fitted() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Deterministic("high", (rate > 1).astype("int64"))
        noise.released("noisy", ONE.levels[0].mechanism, pm.Bernoulli("in", rate / (1 + rate)))
    truth, options = {"block": 1, "high": 1}, {"target": "high", "draws": 10, "rng": 1, "progress": False}
    tree = adv.audit(ONE, model, truth, **options)
    x = np.linspace(0, 60, 600_001)
    parts = [(st.gamma(2).pdf(x) * p * (x > 1)).sum() for p in (x / (1 + x), 1 / (1 + x))]
    whole = [(st.gamma(2).pdf(x) * p).sum() for p in (x / (1 + x), 1 / (1 + x))]
    seen = np.exp(ONE.levels[0].mechanism.log_prob(tree["release"]["noisy"].values, np.array([1, 0])))
    off = tree["estimate"]["posterior"].values - (seen @ parts) / (seen @ whole)
    assert (np.abs(off) < 4 * tree["estimate"]["mcse"].values).all()


def test_an_impossible_release_is_said_to_be_impossible() -> None:
    """The model is sure that there are nine people; the plan publishes the true two exactly."""
    plan = adv.Plan([adv.Level("block", DG(3.0), siblings=1), adv.Level("tract", adv.Exact())])
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noise.released("noisy[block]", plan.levels[0].mechanism, present)
        noise.released("noisy[tract]", plan.levels[1].mechanism, present + 9)
    with pytest.raises(ValueError, match=re.escape("every state of the latents is impossible at release 0")):
        adv.audit(plan, model, {"block": 1, "tract": 2, "in": 1})


# Sampling


def with_a_rate() -> pm.Model:
    """Somebody who may be counted, and others whose share is unknown."""
    with pm.Model() as model:
        share = pm.Beta("share", 2.0, 2.0)
        present = pm.Bernoulli("in", np.float64(0.2))
        noise.released("noisy", ONE.levels[0].mechanism, present + pm.Binomial("others", 2, share))
    return model


@pytest.mark.parametrize("target", ["first", "several"])
def test_a_deterministic_target_is_sampled_as_it_is_enumerated(target: str) -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("present", np.array([0.3, 0.6]))
        pm.Deterministic("first", present[0])
        pm.Deterministic("several", (present.sum() > 1).astype("int64"))
        noise.released("noisy", ONE.levels[0].mechanism, present.sum())
    truth, options = {"block": 2, target: 1}, {"target": target, "rng": 1, "progress": False}
    exact, found = (adv.audit(ONE, model, truth, engine=engine, **options) for engine in ("exact", "mcmc"))
    assert found["risk"]["status"].item() == "ok"
    assert float(found["risk"]["prior"]) == pytest.approx(float(exact["risk"]["prior"]), abs=1e-12)
    off = float(found["risk"]["posterior_mean"] - exact["risk"]["posterior_mean"])
    assert abs(off) < 4 * float(found["risk"]["mcse"].sel(measure="posterior_mean"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mcmc", "importance"])
def test_with_nothing_left_to_sample_the_answer_is_exact_and_has_draws(engine: str) -> None:
    exact = adv.audit(TWO, two_levels(), TRUTH)
    tree = adv.audit(TWO, two_levels(), TRUTH, engine=engine, rng=1, draws=400, progress=False)
    risk, error = tree["risk"], tree["risk"]["mcse"]
    assert risk["status"].item() == "ok"
    assert float(risk["prior"]) == pytest.approx(0.3, abs=1e-12)
    for name in ("posterior_mean", "ratio_mean", "prob_correct"):
        assert abs(float(risk[name] - exact["risk"][name])) <= 4 * float(error.sel(measure=name)) + 1e-12
    assert {"posterior", "prior", "estimate", "release", "risk", "bound", "diagnostics"} <= set(tree.children)
    assert tree["estimate"].attrs["method"] == "all latents summed out"
    assert (tree["estimate"]["mcse"] < 1e-12).all()
    noisy = tree["release"]["noisy"].values
    assert len(np.unique(np.column_stack([noisy, tree["release"]["sibling_sum"].values[:, 0]]), axis=0)) == len(noisy)
    assert float(tree["release"]["weight"].sum()) == pytest.approx(1.0, abs=1e-12)
    off = tree["posterior"]["in"].mean(["chain", "draw"]).values - tree["estimate"]["posterior"].values
    assert np.abs(off).max() < 5 * np.sqrt(0.25 / 400)


def test_small_tables_of_releases_keep_their_exact_weights() -> None:
    tree = adv.audit(ONE, one_block(), {"block": 1, "in": 1}, engine="mcmc", rng=1, progress=False)
    assert tree["release"]["weight"].attrs["direction"] == "exact"
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "estimate"
    exact = adv.audit(ONE, adv.Adversary(0.3), {"block": 1, "in": 1})
    np.testing.assert_allclose(tree["estimate"]["posterior"].values, exact["exact"]["posterior"].values, atol=1e-12)


@pytest.mark.slow
def test_failed_fits_leave_the_word_and_no_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("adversary.models.importance.smoothing.SMALLEST_ESS", 1e9)
    readers = {"swept": with_a_rate(), "told": adv.Adversary(0.2, beliefs={"block": st.binom(2, 0.5)})}
    options: dict[str, Any] = {"rng": 1, "progress": False, "guarantee": adv.ZeroConcentratedDP(6.0)}
    monkeypatch.setattr("adversary.models.fitting.fitter.Fitter._to_be_sampled", lambda *arguments: False)
    monkeypatch.setattr("adversary.models.importance.refinement.STAGES", 1)
    tree = adv.audit(ONE, readers, {"block": 1, "in": 1}, engine="importance", draws=20, **options)
    risk = tree["risk"].sel(adversary="swept")
    assert risk["status"].item() == "unreliable"
    assert float(risk["unreliable_mass"]) == pytest.approx(1.0)
    for name in SCALARS[1:]:
        assert np.isnan(risk[name])
    assert np.isnan(risk["mcse"].sel(measure="posterior_mean"))
    assert re.search("share of 1 failed .*more draws of the prior", tree["risk"].attrs["reason"])
    estimate = tree["estimate"].sel(adversary="swept")
    assert set(estimate["status"].values.tolist()) == {"unreliable"}
    assert np.isnan(estimate["posterior"]).all()
    assert np.isnan(estimate["log_odds"]).all()
    assert set(tree["bound"]["status"].sel(adversary="swept").values.tolist()) == {"unreliable"}
    assert np.isnan(tree["bound"]["outside"].sel(adversary="swept")).all()
    tree.to_netcdf(tmp_path / "audit.nc")


def test_some_failed_fits_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.models.fitting import Fitter

    honest = Fitter.fits

    def first_fails(*arguments: Any) -> Any:
        found = honest(*arguments)
        return [replace(found[0], passed=False), *found[1:]]

    monkeypatch.setattr(Fitter, "fits", first_fails)
    tree = adv.audit(ONE, one_block(), {"block": 1, "in": 1}, engine="mcmc", rng=1, progress=False)
    assert tree["estimate"]["status"].values.tolist().count("unreliable") == 1
    assert float(tree["risk"]["unreliable_mass"]) == float(tree["release"]["weight"][0])
    assert tree["risk"]["status"].item() == "unreliable"
    assert np.isnan(tree["risk"]["posterior_mean"])
    assert not np.isnan(tree["estimate"]["posterior"].values[1:]).any()


@pytest.mark.slow
def test_a_model_with_a_continuous_rate_is_sampled_and_agrees_with_its_exact_twin(tmp_path: Path) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.8), siblings=2), adv.Level("tract", DG(0.9))])
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.5)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 1)), upper=40)
        noise.released("noisy[block]", plan.levels[0].mechanism, present)
        noise.released("sibling_sum[block]", plan.levels[0].mechanism, others, 2)
        noise.released("noisy[tract]", plan.levels[1].mechanism, present + others)
    twin = adv.Adversary(0.5, 0, {"tract": adv.Others(st.nbinom(3, 0.5))})
    truth = {"block": 1, "tract": 4, "in": 1}
    options: dict[str, Any] = {"engine": "mcmc", "rng": 1, "draws": 12, "progress": False, "store": tmp_path}
    tree = adv.audit(plan, model, truth, **options)
    exact = twin.posterior(plan, tree["release"].to_dataset()[["noisy", "sibling_sum"]])
    off = (tree["estimate"]["posterior"].values - exact["posterior"].values) / tree["estimate"]["mcse"].values
    assert np.abs(off).max() < 4
    assert tree["estimate"].attrs["method"] == "discrete latents summed out, continuous ones sampled by nutpie"
    risk = tree["risk"]
    assert risk["status"].item() == "ok"
    assert risk["prior"].attrs["direction"] == "exact"
    expected = float(tree["release"]["weight"].values @ exact["posterior"].values)
    assert float(risk["posterior_mean"]) == pytest.approx(expected, abs=4 * 0.005)
    assert tree["posterior"]["rate"].dims == ("chain", "draw", "release")
    assert tree["prior"]["rate"].dims == ("chain", "draw")
    assert az.summary(tree, var_names=["rate"]).shape[0] == tree["release"].sizes["release"]
    assert sorted(az.summary(tree, group="prior").index) == ["P(in)", "in", "others", "rate"]
    assert tree["posterior"]["others"].dtype == np.int64
    assert len(list(tmp_path.glob("*.npy"))) == 1
    assert int(tree["diagnostics"]["divergences"]) == 0
    assert float(tree["diagnostics"]["r_hat"]) <= 1.01


@pytest.mark.slow
def test_a_weighed_model_has_one_prior_whatever_the_truth_and_the_plan() -> None:
    """With side data too: the survey moves the rate and the target."""
    with pm.Model() as model:
        rate = pm.Beta("rate", 1.5, 4.0)
        present = pm.Bernoulli("in", rate)
        others = pm.Binomial("others", 5, rate)
        pm.Poisson("survey", 1.0 + present, observed=4)
        noise.released("noisy", ONE.levels[0].mechanism, present + others)
    truths = {"in": {"block": 2, "in": 1}, "out": {"block": 1, "in": 0}}
    plans = {"a": ONE, "b": adv.Plan([adv.Level("block", DG(0.6))])}
    tree = adv.audit(plans, model, truths, rng=1, draws=4, progress=False)
    prior = tree["risk"]["prior"].values
    assert prior.shape == (2, 2)
    assert len(np.unique(prior)) == 1
    survey, before = st.poisson([1, 2]).pmf(4), 1.5 / 5.5
    exact = before * survey[1] / (before * survey[1] + (1 - before) * survey[0])
    error = tree["risk"]["mcse"].sel(measure="prior").values.max()
    assert 0 < error < 0.006
    assert abs(prior[0, 0] - exact) < 4 * error
