"""An audit of any model, without a plan: as the audit of the same story with one, for releases of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from scipy.special import expit

import adversary as adv
from adversary.models import noise
from adversary.models.importance import releases_under
from tests.catalogue import DG

ONE = adv.Plan([adv.Level("block", DG(0.4))])


def one_block(prior: float = 0.3) -> pm.Model:
    with pm.Model() as model:
        noise.released("noisy[block]", ONE.levels[0].mechanism, pm.Bernoulli("in", np.float64(prior)))
    return model


def over_years(mechanism: Any = None, **options: Any) -> pm.Model:
    """A trait that comes and goes, two others who have it for certain, and a count of all three years."""
    with pm.Model(coords={"year": [2020, 2021, 2022]}) as model:
        first = pm.Bernoulli("first", np.float64(0.3))
        second = pm.Bernoulli("second", pt.switch(first, np.float64(0.8), np.float64(0.1)))
        third = pm.Bernoulli("third", pt.switch(second, np.float64(0.8), np.float64(0.1)))
        pm.Deterministic("in", third)
        counts = pm.Deterministic("counts", pt.stack([first, second, third]) + 2, dims="year")
        noise.released("noisy", mechanism or adv.DiscreteGaussian(1.0), counts, dims="year", **options)
    return model


def test_a_model_answers_without_a_plan_as_with_one() -> None:
    truth, options = {"in": 1}, {"guarantee": adv.ZeroConcentratedDP(0.4), "rng": 1}
    found = adv.audit_model(one_block(), truth, draws=20_000, **options)
    exact = adv.audit(ONE, adv.Adversary(0.3), {"block": 1, "in": 1}, **options)
    for name in ("posterior_mean", "ratio_mean", "difference_mean", "prob_correct"):
        error = float(found["risk"]["mcse"].sel(measure=name))
        assert abs(float(found["risk"][name] - exact["risk"][name])) < 4 * error < 0.1
    assert set(found.children) == {"release", "exact", "risk", "bound"}
    for name in ("posterior", "ratio", "difference", "loss_bound", "k", "failure"):
        np.testing.assert_allclose(found["bound"][name], exact["bound"][name], rtol=1e-12)
    assert found["bound"]["definition"].values.tolist() == exact["bound"]["definition"].values.tolist()
    assert found["bound"]["status"].values.tolist() == ["holds", "holds"]
    assert float(found["release"]["weight"].sum()) == pytest.approx(1.0, abs=1e-12)
    noisy = found["release"]["noisy[block]"].values
    assert len(np.unique(noisy)) == noisy.size
    law = ONE.levels[0].mechanism
    odds = 0.3 / 0.7 * np.exp(law.log_prob(noisy, 1) - law.log_prob(noisy, 0))
    np.testing.assert_allclose(found["exact"]["posterior"], odds / (1 + odds), rtol=1e-12)


def test_the_seed_that_was_drawn_is_the_seed_that_is_recorded() -> None:
    drawn = adv.audit_model(one_block(), {"in": 1}, draws=50)
    again = adv.audit_model(one_block(), {"in": 1}, draws=50, rng=int(drawn.attrs["seed"]))
    assert again["release"].to_dataset().identical(drawn["release"].to_dataset())


def test_a_hidden_markov_model_over_years_reads_its_panel() -> None:
    """Counts 3, 2, 3: the states of all years by brute force, the loss of three releases of one person."""
    model = over_years()
    tree = adv.audit_model(model, {"in": 1}, simulate=lambda rng, size: {"noisy": np.tile([3, 2, 3], (size, 1))})
    law, parts = adv.DiscreteGaussian(1.0), np.zeros(2)
    for a, b, c in np.ndindex(2, 2, 2):
        chance = (0.3 if a else 0.7) * st.bernoulli(0.8 if a else 0.1).pmf(b) * st.bernoulli(0.8 if b else 0.1).pmf(c)
        parts[c] += chance * np.exp(law.log_prob(np.array([3, 2, 3]), 2 + np.array([a, b, c])).sum())
    assert tree["exact"]["posterior"].item() == pytest.approx(parts[1] / parts.sum(), abs=1e-14)
    assert tree["release"]["noisy"].dims == ("release", "year")
    assert tree["release"]["year"].values.tolist() == [2020, 2021, 2022]
    three = sum([law.privacy_loss()] * 2, law.privacy_loss())
    assert float(tree["bound"]["loss_bound"][0]) == pytest.approx(three.loss_bound(0.05), rel=1e-9)
    single = adv.audit_model(over_years(cells=1), {"in": 1}, draws=10, rng=1)
    assert float(single["bound"]["loss_bound"][0]) == pytest.approx(law.privacy_loss().loss_bound(0.05), rel=1e-9)


def test_what_the_truth_leaves_open_is_drawn_given_what_it_says() -> None:
    """P(first | third = 1) by Bayes' rule, not its prior: also where the target is a Deterministic."""
    joint = {
        (a, c): (0.3 if a else 0.7)
        * sum(st.bernoulli(0.8 if a else 0.1).pmf(b) * st.bernoulli(0.8 if b else 0.1).pmf(c) for b in (0, 1))
        for a in (0, 1)
        for c in (0, 1)
    }
    expected = joint[1, 1] / (joint[0, 1] + joint[1, 1])
    exact = over_years(adv.DiscreteGaussian(0.05))  # so little noise that the release is the count
    for truth in ({"in": 1}, {"third": 1}):
        found = releases_under(exact, truth, ["noisy"], 4000, np.random.default_rng(1))["noisy"]
        assert (found[:, 2] == 3).all()
        assert abs((found[:, 0] == 3).mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)
    named = releases_under(exact, {"first": 1, "second": 0, "third": 1}, ["noisy"], 50, np.random.default_rng(1))
    assert (named["noisy"] == [3, 2, 3]).all()


def test_side_data_count_in_what_the_truth_leaves_open() -> None:
    with pm.Model() as model:
        rate = pm.Beta("rate", 1.0, 1.0)
        pm.Binomial("survey", 20, rate, observed=15)
        present = pm.Bernoulli("in", rate)
        pm.Normal("noisy", rate + 0 * present, np.float64(1e-6))
    found = releases_under(model, {"in": 1}, ["noisy"], 4000, np.random.default_rng(1))["noisy"]
    assert found.mean() == pytest.approx(17 / 23, abs=4 * st.beta(17, 6).std() / np.sqrt(2000))


@pytest.mark.slow
def test_real_valued_releases_of_a_continuous_model_are_weighed() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        present = pm.Bernoulli("in", pm.math.sigmoid(mu))
        noise.released("total", adv.Laplace(1.0), mu + present)
        noise.released("count", adv.DiscreteGaussian(2.0), present + pm.Binomial("others", 4, np.float64(0.5)))
    truth = {"in": 1, "mu": 0.5}
    tree = adv.audit_model(model, truth, released=["total", "count"], draws=40, rng=2, progress=False)
    x, k, release = np.linspace(-12, 12, 8001), np.arange(5), tree["release"]
    expected = []
    for total, count in zip(release["total"].values, release["count"].values, strict=True):
        parts = [
            (st.norm(0, 2).pdf(x) * p * st.laplace(x + i).pdf(total)).sum()
            * (st.binom(4, 0.5).pmf(k) @ np.exp(adv.DiscreteGaussian(2.0).log_prob(count, k + i)))
            for i, p in ((1, expit(x)), (0, expit(-x)))
        ]
        expected.append(parts[0] / sum(parts))
    estimate = tree["estimate"]
    assert set(estimate["status"].values.tolist()) == {"ok"}
    off = (estimate["posterior"].values - expected) / estimate["mcse"].values
    assert np.abs(off).max() < 4
    assert tree["risk"]["status"].item() == "ok"
    assert estimate.attrs["method"] == "draws of the prior, weighed by each release"
    assert tree["posterior"]["mu"].dims == ("chain", "draw", "release")
    assert tree["prior"]["others"].dtype == np.int64
    np.testing.assert_allclose(tree["risk"]["lower"], tree["risk"]["upper"])


def test_releases_that_fail_count_as_anything_between_nothing_and_certainty() -> None:
    """One release in four comes from a place that no draw of the prior and no far point is near to."""
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([1 - 1e-8, 1e-8]), np.array([0.0, 900.0]), sigma=1.0)
        present = pm.Bernoulli("in", pm.math.sigmoid(place))
        noise.released("noisy", adv.Gaussian(5.0), place + present)

    def simulate(rng: np.random.Generator, size: int) -> dict[str, Any]:
        return {"noisy": np.array([-1.0, 0.0, 2.0, 900.0])[:size]}

    tree = adv.audit_model(model, {"in": 1}, simulate=simulate, draws=4, rng=1, progress=False)
    risk, kept = tree["risk"], tree["estimate"]["posterior"].values
    assert tree["estimate"]["status"].values.tolist().count("unreliable") == 1
    assert risk["status"].item() == "unreliable"
    assert np.isnan(risk["posterior_mean"])
    low, high = (risk[side].sel(measure="posterior_mean").item() for side in ("lower", "upper"))
    assert low == pytest.approx(np.nansum(kept) / 4)
    assert high == pytest.approx(np.nansum(kept) / 4 + 0.25)
    assert risk["upper"].sel(measure="ratio_mean").item() == pytest.approx(high / risk["prior"].item())
    assert risk["lower"].sel(measure="prob_correct").item() == pytest.approx((kept > 0.5).sum() / 4)


def test_a_model_whose_noise_is_not_recognised_needs_a_guarantee_to_have_a_bound() -> None:
    with pm.Model() as model:
        pm.Normal("noisy", pm.Bernoulli("in", np.float64(0.5)), np.float64(1.0))
    bound = adv.audit_model(model, {"in": 1}, draws=20, rng=1)["bound"]
    assert np.isinf(bound["loss_bound"]).all()
    told = adv.audit_model(model, {"in": 1}, draws=20, rng=1, guarantee=adv.GaussianDP(1.0))["bound"]
    assert np.isfinite(told["loss_bound"].values[0])


def unknown_rate() -> pm.Model:
    """Others are about ten, of a rate that is not known for certain."""
    with pm.Model() as model:
        others = pm.Poisson("others", pm.Gamma("rate", np.float64(20.0), np.float64(2.0)))
        noise.released("noisy", adv.Geometric(1.0), pm.Bernoulli("in", np.float64(0.3)) + others)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exact", "importance"])
@pytest.mark.parametrize("build", ["rate", "second mode", "discrete"])
def test_a_support_that_is_too_short_has_no_averages(build: str, engine: str) -> None:
    """Also where the mass it hides lies far beyond its ends, which no draw reaches."""

    def model() -> pm.Model:
        if build == "rate":
            return unknown_rate()
        with pm.Model() as other:
            present, chance = pm.Bernoulli("in", np.float64(0.3)), pm.Beta("chance", 2.0, 2.0)
            chance = np.array([0.5, 0.5]) if build == "discrete" else pt.stack([chance, 1.0 - chance])
            others = pm.Mixture("others", chance, [pm.Binomial.dist(4, 0.5), pm.Poisson.dist(np.float64(60.0))])
            noise.released("noisy", adv.Geometric(1.0), present + others)
        return other

    options: dict[str, Any] = {"engine": engine, "draws": 10, "rng": 1, "progress": False}
    truth = {"in": 1, "others": 10 if build == "rate" else 2}
    short = adv.audit_model(model(), truth, support={"others": range(6 if build == "rate" else 20)}, **options)["risk"]
    assert short["edge_mass"].item() > 0.3
    assert short["status"].item() == "unreliable"
    assert np.isnan(short["posterior_mean"])
    assert (short["lower"].values[0], short["upper"].values[0]) == (0.0, 1.0)
    assert "give a wider support" in short.attrs["reason"]


@pytest.mark.slow
def test_a_support_that_is_long_enough_gives_the_average() -> None:
    """By quadrature over the rate: a negative binomial law of the others."""
    tree = adv.audit_model(
        unknown_rate(),
        {"in": 1, "others": 10},
        support={"others": range(80)},
        draws=200,
        rng=1,
        progress=False,
    )
    k, noisy = np.arange(200), tree["release"]["noisy"].values[:, None]
    law = st.nbinom(20, 2.0 / 3.0).pmf(k)
    joint = [c * (law * np.exp(-np.abs(noisy - k - i))).sum(axis=1) for i, c in ((0, 0.7), (1, 0.3))]
    off = tree["estimate"]["posterior"].values - joint[1] / (joint[0] + joint[1])
    assert np.abs(off / tree["estimate"]["mcse"].values).max() < 4.5
    assert tree["risk"]["status"].item() == "ok"
    assert tree["risk"]["edge_mass"].item() < 1e-6
    assert tree["risk"]["edge_mass"].attrs["direction"] == "estimate"


@pytest.mark.parametrize(
    ("truth", "options", "message"),
    [
        ({}, {}, "truth must say whether the target is in: add 'in'"),
        ({"in": 2}, {}, '"in" must be 0 or 1, got 2'),
        ({"in": 1, "frist": 1}, {}, "truth names 'frist'.*did you mean 'first'"),
        ({"in": 1, "noisy": [1, 2, 3]}, {}, "truth names 'noisy', which is no latent"),
        ({"in": 1, "first": [1, 0]}, {}, "'first' must have 0 dimensions"),
        ({"in": 1, "first": 0.5}, {}, "'first' is discrete and must be a whole number, got 0.5"),
        ({"in": 1, "first": 2}, {}, "'first' must be from 0 to 1, as its law has it, got 2"),
        ({"in": 1, "first": np.nan}, {}, "'first' must be finite, got nan: leave it out"),
        ({"in": 1, "first": "1"}, {}, "'first' must be a number, got '1'"),
        ({"in": 1, "counts": [3, 2.5, 3]}, {}, "'counts' is discrete and must be a whole number"),
        ({"in": 1, "counts": [3, 2]}, {}, r"'counts' must have shape \(3,\), got \[3, 2\]"),
        ({"in": np.array([1, 0])}, {}, r'"in" must be 0 or 1, got array'),
        ({"in": 1}, {"released": ["nosy"]}, r"released must name variables of the model.*did you mean 'noisy'\?"),
        ({"in": 1}, {"support": {"secnd": range(2)}}, r"support names 'secnd', which is not a latent.*mean 'second'\?"),
        ({"in": 1}, {"support": {"second": "01"}}, "support of 'second' must be a list of whole numbers, got '01'"),
        ({"in": 1}, {"engine": "exactly"}, "engine must be one of"),
        ({"in": 1}, {"simulate": lambda rng, size: {"x": 1}}, r"simulate must return \['noisy'\]"),
        (
            {"in": 1},
            {"simulate": lambda rng, size: {"noisy": np.zeros(3)}},
            r"noisy must have shape \(5, 3\), got \(3,\)",
        ),
        (
            {"in": 1},
            {"simulate": lambda rng, size: {"noisy": np.zeros((5, 2))}},
            r"must have shape \(5, 3\), got \(5, 2\)",
        ),
        ({"in": 1}, {"simulate": lambda rng, size: np.zeros((5, 3))}, "simulate must return a mapping .* got ndarray"),
        ({"in": 1}, {"sampling": 3}, "sampling must be an adversary.Sampling, got 3"),
    ],
)
def test_what_cannot_be_audited_is_refused(truth: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        adv.audit_model(over_years(), truth, draws=5, rng=1, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ({"rate": 1.5}, "'rate' = 1.5 has probability 0 under its law"),
        ({"others": 4, "size": 3}, "'others' must be from 0 to 3"),
        ({"others": 2.7}, "'others' is discrete and must be a whole number, got 2.7"),
        ({"size": -1}, "'size' must be at least 0, as its law has it, got -1"),
        ({"others": 2, "nobody": 1}, "truth names 'nobody'"),
    ],
)
@pytest.mark.parametrize("simulate", [None, lambda rng, size: {"noisy": np.zeros(size, dtype=int)}])
def test_a_value_of_a_truth_that_its_law_rules_out_is_refused_whoever_makes_the_releases(
    truth: dict[str, Any], message: str, simulate: Any
) -> None:
    with pm.Model() as model:
        size, rate = pm.Poisson("size", 3.0), pm.Beta("rate", 2.0, 2.0)
        others = pm.Binomial("others", size, rate)
        noise.released("noisy", adv.Geometric(1.0), pm.Bernoulli("in", 0.3) + others)
    with pytest.raises(ValueError, match=message):
        adv.audit_model(model, {"in": 1, **truth}, simulate=simulate, draws=5, rng=1, progress=False)


def test_a_release_that_is_observed_already_is_refused_or_counts_as_side_data() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", np.float64(0.3))
        noise.released("noisy[2020]", adv.Geometric(1.0), present, observed=2)
        noise.released("noisy[2021]", adv.Geometric(1.0), present)
    with pytest.raises(ValueError, match=r"'noisy\[2020\]' is already observed: leave it free.* released"):
        adv.audit_model(model, {"in": 1}, draws=5, rng=1)
    tree = adv.audit_model(model, {"in": 1}, released="noisy[2021]", draws=5, rng=1)
    assert float(tree["risk"]["prior"]) == pytest.approx(0.3 / (0.3 + 0.7 / np.e), abs=1e-12)


def test_a_truth_that_the_model_rules_out_is_refused() -> None:
    with pm.Model() as model:
        count = pm.Binomial("count", 3, np.float64(0.5))
        pm.Deterministic("in", pt.gt(count, 3).astype("int64"))
        noise.released("noisy", adv.DiscreteGaussian(1.0), count)
    with pytest.raises(ValueError, match=r"of \d+ worlds of the model only 0 are as the truth says"):
        adv.audit_model(model, {"in": 1}, draws=5, rng=1)


def test_several_models_and_truths_become_dims_and_read_the_same_releases() -> None:
    models, truths = {"rare": one_block(0.1), "common": one_block(0.6)}, {"yes": {"in": 1}, "no": {"in": 0}}
    options: dict[str, Any] = {"guarantee": adv.ZeroConcentratedDP(0.4), "draws": 400, "rng": 1, "progress": False}
    tree = adv.audit_model(models, truths, **options)
    assert tree["risk"]["posterior_mean"].dims == ("truth", "adversary")
    assert tree["exact"]["posterior"].dims == ("truth", "adversary", "release")
    assert tree["release"]["noisy[block]"].dims == ("truth", "release")
    assert tree["bound"]["status"].dims == ("truth", "adversary", "definition")
    for name, truth in truths.items():
        alone = adv.audit_model(models["rare"], truth, **options)
        for group, variable in (("risk", "posterior_mean"), ("bound", "loss_bound")):
            one = tree[group].to_dataset()[variable].sel(truth=name, adversary="rare")
            np.testing.assert_array_equal(one, alone[group][variable])
    common = tree["exact"].to_dataset()["log_odds"].sel(adversary="common")
    np.testing.assert_allclose(
        common - tree["exact"].to_dataset()["log_odds"].sel(adversary="rare"), np.log(13.5), atol=1e-9
    )  # log Bayes factors are the same: only the priors differ


def test_what_several_models_cannot_share_is_refused() -> None:
    with pm.Model() as other:
        noise.released("noisy[tract]", ONE.levels[0].mechanism, pm.Bernoulli("in", np.float64(0.5)))
    with pytest.raises(ValueError, match=r"models must release the same variables: 'a' has \['noisy\[block\]'\]"):
        adv.audit_model({"a": one_block(), "b": other}, {"in": 1})
    with pytest.raises(TypeError, match="or a mapping of names to them, got 3"):
        adv.audit_model({"a": 3}, {"in": 1})
    with pytest.raises(ValueError, match="model must not be an empty mapping"):
        adv.audit_model({}, {"in": 1})


def test_data_of_a_model_become_dims_and_the_releases_stay() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", pm.Data("chance", 0.3))
        noise.released("noisy[block]", ONE.levels[0].mechanism, present)
    options: dict[str, Any] = {"guarantee": adv.ZeroConcentratedDP(0.4), "draws": 300, "rng": 1, "progress": False}
    tree = adv.audit_model(model, {"in": 1}, data={"chance": [0.1, 0.3]}, **options)
    assert tree["risk"]["posterior_mean"].dims == ("chance",)
    assert tree["risk"]["chance"].values.tolist() == [0.1, 0.3]
    alone = adv.audit_model(model, {"in": 1}, **options)
    for group, variable in (("risk", "posterior_mean"), ("bound", "loss_bound"), ("exact", "posterior")):
        np.testing.assert_allclose(
            tree[group].to_dataset()[variable].sel(chance=0.3), alone[group][variable], rtol=1e-9
        )
    np.testing.assert_array_equal(tree["release"]["weight"], alone["release"]["weight"])
    with pytest.raises(ValueError, match=r"data 'rate' is no pm.Data of the model, which has \['chance'\]"):
        adv.audit_model(model, {"in": 1}, data={"rate": [0.1]}, **options)
    with pytest.raises(ValueError, match="data: 'chance' must have at least one value, got none"):
        adv.audit_model(model, {"in": 1}, data={"chance": {}}, **options)
