"""Calibration of every model by simulation, and of deliberately wrong readers, who must fail it."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.stats import norm

import adversary as adv
from adversary import models
from adversary.adversaries.beliefs.unknown_rate import BetaBinomial, GammaPoisson
from adversary.models import noise
from adversary.models.calibration import posteriors_to_rank
from adversary.models.calibration.posteriors_to_rank import Enumerated, Ranked, as_law, posterior_of
from adversary.models.calibration.simulation_based import calibrate, uniformity
from adversary.models.importance import PriorPredictive
from adversary.models.stories.belief_laws import Tabulated
from tests.catalogue import DG, MODELS, STORIES

SIMULATIONS = 3000
ELSEWHERE = {"bounded", "regression", "noisy_histograms"}
"""The posterior of `bounded` is calibrated in tests/bounded, draws from `regression` are compared with importance
sampling of its prior, and `noisy_histograms` is calibrated with the sampler of its step method."""
ONE = adv.Plan([adv.Level("block", DG(0.4))])


def levels(**options: Any) -> adv.Plan:
    return adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", DG(0.6))], **options)


def reader(belief: Any, prior: float = 0.4) -> adv.Adversary:
    return adv.Adversary(prior, beliefs={"tract": belief})


def overall(tree: xr.DataTree) -> float:
    return float(uniformity(tree)["overall"])


def test_every_exported_model_is_calibrated_here() -> None:
    functions = {name: value for name in models.__all__ if inspect.isfunction(value := getattr(models, name))}
    built = {n for n, f in functions.items() if inspect.signature(f).return_annotation in ("pm.Model", pm.Model)}
    assert built - ELSEWHERE == {name.split(",")[0] for name in MODELS} - {"skeleton", "field"}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_posterior_of_a_model_is_calibrated(name: str) -> None:
    tree = calibrate(MODELS[name](), simulations=SIMULATIONS, rng=20, progress=False)
    assert set(tree["prior_sbc"].data_vars) == set(tree["likelihood_sbc"].data_vars)
    assert overall(tree) > 1e-3, uniformity(tree)["adjusted"].to_series()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["one block, two cells", "two levels, poisson", "two levels, invariant", "two levels, two cells", "three levels"],
)
def test_the_exact_reader_is_calibrated(name: str) -> None:
    story = STORIES[name]
    model = models.hierarchical_counts(story.plan, story.reader)
    posterior = posterior_of(story.plan, story.reader)
    tree = calibrate(model, variables=["in"], simulations=SIMULATIONS, posterior=posterior, rng=21, progress=False)
    assert overall(tree) > 1e-3, uniformity(tree)["adjusted"].to_series()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("belief", "simulations"),
    [(BetaBinomial(4, 2.0, 3.0), 400), pytest.param(GammaPoisson(2.0, 1.0), 1000, marks=pytest.mark.thorough)],
    ids=["binomial", "poisson"],
)
def test_draws_of_an_unknown_rate_are_calibrated(belief: Any, simulations: int) -> None:
    model = models.hierarchical_counts(levels(), reader(belief), upper=25, rates=True)
    tree = calibrate(model, simulations=simulations, rng=23, progress=False)
    assert tree.attrs["engine"] == "importance"
    assert set(tree["prior_sbc"].data_vars) == {"in", "rate[tract]", "others[tract]"}
    assert overall(tree) > 1e-3


WRONG_PLAN, WRONG_READER = levels(), reader(adv.Uniform(2), 0.5)


def faulty_chain(observed: Any) -> dict[str, Any]:
    """What the published chain says: its update of the count inside forgets that the total is not below it."""
    inside = adv.literature.published_gibbs_probability(WRONG_PLAN, WRONG_READER, observed)
    return {"in": (np.array([0, 1]), np.stack([1 - inside, inside], axis=-1))}


@pytest.mark.slow
def test_the_published_chain_is_not_calibrated() -> None:
    model = models.hierarchical_counts(WRONG_PLAN, WRONG_READER)
    options: dict[str, Any] = {"variables": ["in"], "simulations": 20_000, "rng": 5, "progress": False}
    assert overall(calibrate(model, posterior=faulty_chain, **options)) < 1e-6
    assert overall(calibrate(model, posterior=posterior_of(WRONG_PLAN, WRONG_READER), **options)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.8, 1.25])
def test_a_reader_who_is_told_the_wrong_scale_is_not_calibrated(scale: float) -> None:
    told = adv.Plan([adv.Level("block", adv.DiscreteGaussian(scale * DG(0.4).sigma))])
    model = models.membership(ONE, adv.Adversary(0.5))
    wrong = Enumerated.of(models.membership(told, adv.Adversary(0.5)))
    tree = calibrate(model, simulations=20_000, posterior=wrong, rng=6, progress=False)
    assert uniformity(tree)["adjusted"].sel(quantity="log p(y | in)").max() < 1e-6


def survey(scale: float) -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 1.0)
        pm.Normal("noisy", mean, scale, shape=3)
    return model


def after_survey(scale: float) -> Callable[[Any], dict[str, Any]]:
    """Draws of the mean of `survey` after releases, from its conjugate law."""

    def posterior(observed: Any) -> dict[str, Any]:
        rng, precision = np.random.default_rng(9), 1.0 + 3.0 / scale**2
        centre = observed["noisy"].sum(axis=1) / scale**2 / precision
        return {"mean": rng.normal(centre[:, None], precision**-0.5, (centre.size, 400))}

    return posterior


@pytest.mark.slow
def test_the_likelihood_of_continuous_latents_finds_a_wrong_scale() -> None:
    options: dict[str, Any] = {"simulations": 2000, "rng": 1, "progress": False}
    right = calibrate(survey(1.0), posterior=after_survey(1.0), **options)
    assert set(right["likelihood_sbc"].data_vars) == {"latents"}
    assert overall(right) > 1e-3
    wrong = uniformity(calibrate(survey(1.0), posterior=after_survey(1.5), **options))["adjusted"]
    assert wrong.sel(quantity="log p(y | latents)").max() < 1e-6


@pytest.mark.slow
def test_simuk_ranks_the_same_truths_at_the_same_places() -> None:
    """Its prior draws and releases, its fits by NUTS; ours of the same releases, and the exact cdf."""
    simuk = pytest.importorskip("simuk")
    sampling = {"draws": 500, "tune": 300, "chains": 2, "cores": 1, "nuts_sampler": "pymc"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check = simuk.SBC(
            pm.observe(survey(1.0), {"noisy": np.zeros(3)}),
            num_simulations=5, seed=4, progress_bar=False, sample_kwargs=sampling,
        )  # fmt: skip
        check.run_simulations()
        order = np.random.default_rng(4).choice(5, size=5, replace=False)
        released = check._get_prior_predictive_samples()[1].isel(sample=order)["noisy"]
    releases = {"noisy": released.transpose("sample", ...).values}
    truth = check.ref_params["mean"].values
    draws = posteriors_to_rank.posterior_draws(survey(1.0), ["mean"], None, ["noisy"], 1)(releases)["mean"]
    ours = as_law("mean", draws, truth.shape).place(truth, np.full(5, 0.5))
    exact = norm(releases["noisy"].sum(axis=1) / 4.0, 0.5).cdf(truth)
    theirs = check.simulations["prior_sbc"]["mean"].values.ravel() / 1000
    np.testing.assert_allclose(ours, exact, atol=5 * np.sqrt(0.25 / 400))
    np.testing.assert_allclose(theirs, exact, atol=5 * np.sqrt(0.25 / 200))  # half of its draws count, or fewer


@pytest.mark.slow
def test_only_the_likelihood_finds_a_reader_who_ignores_the_release() -> None:
    """With everybody else known, the counterfactual posterior of a record is its prior, whatever is released."""
    world = (1.0, [0.5, 0.3, 0.2], DG(0.5), [0, 1, 2])
    model, other = models.actual_world(*world), models.counterfactual_world(*world)
    options: dict[str, Any] = {"variables": ["record"], "simulations": SIMULATIONS, "rng": 7, "progress": False}
    adjusted = uniformity(calibrate(model, posterior=Enumerated.of(other, ["record"]), **options))["adjusted"]
    assert adjusted.sel(quantity="record").min() > 1e-3
    assert adjusted.sel(quantity="log p(y | record)").max() < 1e-6
    assert overall(calibrate(other, **options)) > 1e-3


def test_the_place_of_a_truth_is_its_randomised_cdf() -> None:
    rng = np.random.default_rng(1)
    values, pmf = np.array([0, 2, 3]), rng.dirichlet([1.0, 2.0, 3.0], size=(4, 2))
    truth, v = rng.choice(values, size=(4, 2)), rng.random((4, 2))
    expected = [
        sum(p for x, p in zip(values, pmf[i], strict=True) if x < truth[i])
        + v[i] * sum(p for x, p in zip(values, pmf[i], strict=True) if x == truth[i])
        for i in itertools.product(range(4), range(2))
    ]
    np.testing.assert_allclose(Ranked(values, pmf, 0.0).place(truth, v).ravel(), expected, rtol=1e-14)


def test_the_rank_of_a_truth_among_draws_is_uniform_when_it_is_one_of_them() -> None:
    """Every place 1..L+1 of the truth among L draws is equally likely, ties shared out."""
    draws = np.array([0, 1, 1, 2, 5])
    places = []
    for i in range(5):  # the truth is one of the five and the others are its draws
        law = Ranked(np.delete(draws, i)[None])
        ends = [law.place(draws[i : i + 1], np.array([v]))[0] for v in (0.0, 1.0)]
        places.append(ends)
    measure = np.zeros(5)
    for low, high in places:
        cells = slice(round(5 * low), round(5 * high))
        measure[cells] += 1 / (cells.stop - cells.start)
    np.testing.assert_allclose(measure, 1.0, rtol=1e-14)


def test_worlds_follow_the_density_even_where_it_rejects_draws() -> None:
    """A potential excludes states, and rows of unlike mass weigh them: draws are kept in that proportion."""
    with pm.Model() as model:
        inside = pm.Bernoulli("in", p=np.float64(0.4))
        others = Tabulated("others", np.log([[0.2, 0.2, 0.2], [0.1, 0.2, 0.6]]), row=inside)
        pm.Potential("bound", pt.switch(inside + others <= 2, np.float64(0), np.float64(-np.inf)))
        noise.released("noisy", DG(0.5), inside + others)
    worlds, accepted = PriorPredictive.of(model, ["in", "others", "noisy"]).draw(40_000, np.random.default_rng(2))
    masses = np.array([[0.6 * 0.2] * 3, [0.4 * 0.1, 0.4 * 0.2, 0.0]])
    seen = np.histogram2d(worlds["in"], worlds["others"], bins=(2, 3), range=((0, 2), (0, 3)))[0] / 40_000
    np.testing.assert_allclose(seen, masses / masses.sum(), atol=0.01)
    np.testing.assert_allclose(accepted, masses.sum() / 0.9, atol=0.01)
    np.testing.assert_allclose((worlds["noisy"] - worlds["in"] - worlds["others"]).var(), DG(0.5).variance, rtol=0.05)
    tree = calibrate(model, simulations=SIMULATIONS, rng=3, progress=False)
    assert 0.4 < tree.attrs["acceptance"] < 0.6
    assert overall(tree) > 1e-3


@pytest.mark.slow
def test_worlds_drawn_at_once_are_those_drawn_one_by_one() -> None:
    """A law that is a graph of other laws is drawn in a loop; the plain ones, with an axis added, agree with it."""
    with pm.Model(coords={"cell": [0, 1]}) as model:
        rate = pm.Gamma("rate", np.float64(3), np.float64(2), dims="cell")
        count = pm.Poisson("count", rate * np.array([1.0, 4.0]), dims="cell")
        shared = pm.Binomial("shared", np.int64(4), np.float64(0.3))
        noise.released("noisy", DG(0.5), count + shared, dims="cell")
    with pm.Model(coords={"cell": [0, 1]}) as looped:
        rate = pm.Gamma("rate", np.float64(3), np.float64(2), dims="cell")
        law = pm.Poisson.dist(mu=rate * np.array([1.0, 4.0]))
        count = pm.Truncated("count", law, lower=np.float64(0), upper=np.float64(100), dims="cell")
        shared = pm.Binomial("shared", np.int64(4), np.float64(0.3))
        noise.released("noisy", DG(0.5), count + shared, dims="cell")
    names = ["rate", "count", "shared", "noisy"]
    fast, _ = PriorPredictive.of(model, names).draw(20_000, np.random.default_rng(4))
    slow, _ = PriorPredictive.of(looped, names).draw(2_000, np.random.default_rng(5))
    for name in names:
        assert fast[name].shape == (20_000, *slow[name].shape[1:])
        assert fast[name].dtype == slow[name].dtype
        error = fast[name].std(axis=0) / np.sqrt(2_000)
        assert (np.abs(fast[name].mean(axis=0) - slow[name].mean(axis=0)) < 5 * error).all(), name
    together = np.corrcoef(fast["count"][:, 0], fast["noisy"][:, 0])[0, 1]
    np.testing.assert_allclose(together, np.corrcoef(slow["count"][:, 0], slow["noisy"][:, 0])[0, 1], atol=0.08)
    assert abs(np.corrcoef(fast["shared"][:-1], fast["shared"][1:])[0, 1]) < 0.03


@pytest.mark.slow_cases("likelihood_sbc")
@pytest.mark.parametrize("group", ["prior_sbc", "likelihood_sbc"])
def test_arviz_draws_the_result_without_warnings(group: str) -> None:
    import matplotlib.pyplot as plt

    tree = calibrate(MODELS["hierarchical_counts, two levels, two cells"](), simulations=200, rng=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        az.plot_ecdf_pit(tree, group=group, backend="matplotlib")
        az.plot_ecdf_pit(tree, group=group, coverage=True, backend="matplotlib")
    plt.close("all")


def test_uniformity_corrects_for_the_number_of_tests() -> None:
    rng = np.random.default_rng(8)
    even, uneven = rng.random((1, 2000)), rng.random((1, 2000)) ** 1.3
    tree = xr.DataTree.from_dict(
        {"prior_sbc": xr.Dataset({"a": (("chain", "draw"), even), "b": (("chain", "draw"), uneven)})}
    )
    result = uniformity(tree)
    assert result["p_value"].dims == ("quantity", "test")
    p = np.sort(result["p_value"].values, axis=None)
    expected = [min(1.0, max((4 - k) * p[k] for k in range(j + 1))) for j in range(4)]
    np.testing.assert_allclose(np.sort(result["adjusted"].values, axis=None), expected, rtol=1e-14)
    assert float(result["overall"]) == min(1.0, 4 * p[0]) < 1e-6
    assert result["p_value"].sel(quantity="a").min() > 1e-3
    assert result.attrs["simulations"] == 2000


def test_a_posterior_that_excludes_the_truth_is_not_calibrated() -> None:
    """Its probabilities add up to one and a rounding error, and the truth lies above them all."""
    with pm.Model() as model:
        count = pm.DiscreteUniform("count", np.int64(0), np.int64(12))
        noise.released("noisy", DG(0.5), count)
    listed = np.full(10, 0.1)
    assert listed.cumsum()[-1] < 1 < 1 + np.finfo(float).eps

    def blind(observed: Any) -> dict[str, Any]:
        pmf = np.tile(np.append(np.full(10, 0.1), [0.0, 0.0, 1e-15]), (len(observed["noisy"]), 1))
        return {"count": (np.arange(13), pmf)}

    assert overall(calibrate(model, posterior=blind, simulations=2000, rng=1, progress=False)) < 1e-6
    rounded = xr.Dataset({"a": (("chain", "draw"), np.full((1, 200), 1 + 2.3e-16))})
    assert overall(xr.DataTree.from_dict({"prior_sbc": rounded})) < 1e-6


def test_twenty_thousand_simulations_where_they_are_enumerated() -> None:
    """Enough to see a scale of the noise that is off by the square root of two, which a thousand miss."""
    model = models.membership(ONE, adv.Adversary(0.5))
    told = adv.Plan([adv.Level("block", adv.DiscreteGaussian(np.sqrt(2) * DG(0.4).sigma))])
    wrong = Enumerated.of(models.membership(told, adv.Adversary(0.5)))
    tree = calibrate(model, posterior=wrong, rng=6, progress=False)
    assert tree.attrs["simulations"] == 20_000
    assert overall(tree) < 1e-6
    given = calibrate(model, posterior=posterior_of(ONE, adv.Adversary(0.5)), rng=6, progress=False)
    assert given.attrs["simulations"] == 1000


@pytest.mark.slow
def test_models_without_a_target_are_calibrated() -> None:
    tree = calibrate(MODELS["actual_world"](), variables=["record"], simulations=50, rng=1, progress=False)
    assert set(tree["prior_sbc"].data_vars) == {"record"}
    tree = calibrate(MODELS["actual_world"](), target="answer", simulations=50, rng=1, progress=False)
    assert set(tree["prior_sbc"].data_vars) == {"rest", "record", "answer"}
    with pytest.raises(ValueError, match=r"target 'out' is not in the model; name one of \['rest', 'record'"):
        calibrate(MODELS["actual_world"](), target="out", simulations=50)


@pytest.mark.slow
def test_a_model_without_a_discrete_latent_is_calibrated() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", np.float64(3), np.float64(2))
        pm.Deterministic("double", 2 * rate)
        pm.Normal("noisy", rate, np.float64(0.5))
    tree = calibrate(model, variables=["rate", "double"], simulations=40, rng=1, progress=False)
    u = tree["prior_sbc"]
    assert set(u.data_vars) == {"rate", "double"}
    assert np.abs(u["rate"] - u["double"]).max() < 0.02  # the same rank, but for the uniform that breaks ties
    assert overall(tree) > 1e-3


def test_models_that_cannot_be_drawn_are_refused() -> None:
    with pm.Model() as impossible:
        inside = pm.Bernoulli("in", p=np.float64(0.4))
        pm.Potential("never", pt.switch(inside > 1, np.float64(0), np.float64(-np.inf)))
        noise.released("noisy", DG(0.5), inside)
    with pytest.raises(ValueError, match="positive prior probability"):
        PriorPredictive.of(impossible, ["in"]).draw(10, np.random.default_rng(1))
    with pm.Model() as unbounded:
        inside = pm.Bernoulli("in", p=np.float64(0.4))
        pm.Potential("weight", inside * np.float64(2))
        noise.released("noisy", DG(0.5), inside)
    with pytest.raises(ValueError, match="potentials must be at most 0"):
        calibrate(unbounded, simulations=20, rng=1)
    story = STORIES["two levels, flat to 8"]
    excluded = models.hierarchical_counts(story.plan, adv.Adversary(0.2, known=8, beliefs=story.reader.beliefs))
    with pytest.raises(ValueError, match="no prior to draw from"):
        calibrate(excluded, simulations=200, rng=1)
    with pm.Model() as shapeless:
        inside = pm.Bernoulli("in", p=np.float64(0.4))
        pm.CustomDist(
            "noisy",
            inside.astype("float64"),
            logp=lambda value, mu: -((value - mu) ** 2),
            random=lambda mu, rng=None, size=None: rng.normal(),
            signature="()->()",
        )
    with pytest.raises(ValueError, match="as many values as the size it is given"):
        calibrate(shapeless, simulations=20, rng=1)


def test_bad_arguments_are_named() -> None:
    model = models.membership(ONE, adv.Adversary(0.3))
    with pytest.raises(ValueError, match="simulations must be at least 1, got 0"):
        calibrate(model, simulations=0)
    with pytest.raises(ValueError, match=r"released must name variables of the model.*got \['loud'\]"):
        calibrate(model, released=["loud"])
    with pytest.raises(ValueError, match=r"variables must be latents or deterministics.*got \['noisy\[block\]'\]"):
        calibrate(model, variables=["noisy[block]"])
    with pm.Model() as silent:
        pm.Bernoulli("in", p=np.float64(0.5))
    with pytest.raises(ValueError, match="no variable is called noisy"):
        calibrate(silent)
    with pytest.raises(ValueError, match="posterior must give a law of 'in', got"):
        calibrate(model, posterior=lambda observed: {"out": np.zeros((5, 2))}, simulations=5)
    with pytest.raises(ValueError, match="must sum to one in every simulation"):
        as_law("in", (np.array([0, 1]), np.array([[0.5, 0.4]])), (1,))
    with pytest.raises(ValueError, match="pmf of in must have shape"):
        as_law("in", (np.array([0, 1]), np.array([0.5, 0.5])), (1,))
    with pytest.raises(ValueError, match="draws of in must have shape"):
        as_law("in", np.zeros(3), (3,))
    with pytest.raises(ValueError, match="draws of in must have shape"):
        as_law("in", np.zeros((3, 0)), (3,))
    with pytest.raises(ValueError, match="give what calibrate returns"):
        uniformity(xr.DataTree())
    ranks = xr.Dataset({"a": (("chain", "draw"), np.arange(50)[None])})
    with pytest.raises(ValueError, match="a must lie between 0 and 1: divide ranks"):
        uniformity(xr.DataTree.from_dict({"prior_sbc": ranks}))


def test_a_posterior_that_cannot_be_trusted_is_not_ranked() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=40)
        pm.Normal("noisy", x, 0.05)
    few = adv.Sampling(draws=20, tune=10, chains=2, prior_draws=1000)
    with pytest.raises(ValueError, match=r"of 2 posteriors 2 cannot be trusted, the first of \{'noisy'"):
        calibrate(model, simulations=2, sampling=few, rng=1, progress=False)
