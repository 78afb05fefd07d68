"""Discrete latents summed out: against loops over states and quadrature, and fitted by nutpie against both."""

from __future__ import annotations

import itertools
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from adversary._core.diagnosis import diagnose
from adversary._core.workers import PerThread
from adversary.models import noise
from adversary.models.enumeration.graphs import condition
from adversary.models.fitting import fit_releases
from adversary.models.fitting.marginalised import Marginalised, Settings
from adversary.models.fitting.prior_draws import MANY, Priors
from adversary.privacy import mechanisms

BLOCK, TRACT = mechanisms.DiscreteGaussian.from_rho(0.3), mechanisms.DiscreteGaussian.from_rho(0.5)
NAMES = ("noisy[block]", "sibling_sum[block]", "noisy[tract]")
RELEASES = {
    "noisy[block]": np.array([2, 0, -1, 1]),
    "sibling_sum[block]": np.array([3, 6, 0, 12]),
    "noisy[tract]": np.array([4, 5, 1, 9]),
}
U = 25


def unknown_rate() -> pm.Model:
    """The others' rate is unknown, with a gamma prior."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        rate = pm.Gamma("rate", 3, 1)
        others = pm.Truncated("others", pm.Poisson.dist(rate), upper=U)
        noise.released("noisy[block]", BLOCK, present)
        noise.released("sibling_sum[block]", BLOCK, others, 3)
        noise.released("noisy[tract]", TRACT, present + others)
    return model


def depending_scales() -> pm.Model:
    """A continuous prior that depends on a discrete latent, bounds that do, an unknown noise scale, a vector."""
    with pm.Model(coords={"part": ["a", "b"]}) as model:
        present = pm.Bernoulli("in", 0.4)
        kind = pm.Categorical("kind", np.array([0.2, 0.5, 0.3]))
        others = pm.Binomial("others", 4, pm.math.invlogit(pm.Normal("slope", kind - 1.0, 0.7)))
        share = pm.Uniform("share", 0, 1 + kind)
        part = pm.Dirichlet("part_share", np.array([1.0, 2.0, 1.5]))
        weight = pm.Exponential("weight", 2.0, dims="part")
        pm.Normal("noisy", present + share * others + weight.sum() * part[0], pm.HalfNormal("sigma", 2.0))
        pm.Potential("belief", -0.3 * weight[0] * present)
        pm.Normal("side", others, 1.5, observed=1.7)
    return model


@pytest.fixture
def without_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but nutpie's compilation, which takes seconds."""
    monkeypatch.setattr("adversary.models.fitting.marginalised.compiled_sampler", lambda *arguments: None)


def log_joint(model: pm.Model, row: dict[str, Any]) -> Any:
    """PyMC's own joint density of one release, compiled by itself."""
    with pm.observe(model, {name: np.asarray(value) for name, value in row.items()}) as given:
        return given.compile_logp(), given


# Against a loop over the model's own density


@pytest.mark.usefixtures("without_sampler")
@pytest.mark.parametrize(
    ("build", "row"),
    [(unknown_rate, {name: int(values[0]) for name, values in RELEASES.items()}), (depending_scales, {"noisy": 1.9})],
)
def test_the_density_is_the_models_own_summed_over_discrete_states(build: Any, row: dict[str, Any]) -> None:
    fitter = Marginalised.of(build(), tuple(row), rng=1)
    density, given = log_joint(build(), row)
    points = np.random.default_rng(2).normal(size=(4, fitter.priors.size))
    table = fitter.tables({name: np.array([value]) for name, value in row.items()})[..., 0]
    held = fitter.row({name: np.array([value]) for name, value in row.items()}, 0)
    found = fitter.log_density(points, table, held)
    present, out = fitter.chances(points, table, held)
    values = fitter.priors.split(points)
    smooth = [given.rvs_to_values[given[name]].name for name in fitter.conditioned.continuous]
    names = list(fitter.conditioned.latents)
    states = list(itertools.product(*(np.unique(s) for s in fitter.states)))
    for i in range(4):
        point = {name: value[i] for name, value in zip(smooth, values, strict=True)}
        terms = np.array([density({**point, **dict(zip(names, map(np.array, s), strict=True))}) for s in states])
        assert found[i] == pytest.approx(logsumexp(terms), abs=1e-6)  # the compiled twin has 32-bit constants
        inside = np.array([s[names.index("in")] == 1 for s in states])
        assert present[i] == pytest.approx(np.exp(logsumexp(terms[inside]) - logsumexp(terms)), abs=1e-6)
        assert present[i] + out[i] == pytest.approx(1.0, abs=1e-14)
    assert found.dtype == present.dtype == np.float64


@pytest.mark.usefixtures("without_sampler")
def test_discrete_latents_are_drawn_from_their_conditional() -> None:
    fitter = Marginalised.of(unknown_rate(), NAMES, rng=1)
    table, row = fitter.tables(RELEASES)[..., 0], fitter.row(RELEASES, 0)
    points = np.repeat([[0.4]], 20_000, axis=0)
    drawn = fitter.latents(points, table, row, np.random.default_rng(5))
    rate = float(np.exp(fitter.priors.split(points[:1])[0][0]))
    np.testing.assert_allclose(drawn["rate"], rate, rtol=1e-12)
    k = np.arange(U + 1)
    count = np.array([[0], [1]])
    joint = np.array([[0.7], [0.3]]) * st.poisson.pmf(k, rate) * np.exp(BLOCK.log_prob(2, count))
    joint = joint * np.exp(BLOCK.total(3).log_prob(3, k)) * np.exp(TRACT.log_prob(4, count + k))
    joint /= joint.sum()
    seen = np.zeros_like(joint)
    np.add.at(seen, (drawn["in"], drawn["others"]), 1 / 20_000)
    assert np.abs(seen - joint).max() < 4 * np.sqrt(0.25 / 20_000)
    assert fitter.chances(points[:1], table, row)[0][0] == pytest.approx(joint[1].sum(), abs=1e-12)


@pytest.mark.usefixtures("without_sampler")
def test_draws_come_back_on_the_models_own_scale() -> None:
    fitter = Marginalised.of(depending_scales(), ("noisy",), rng=1)
    data = {"noisy": np.array([1.9])}
    points = np.random.default_rng(2).normal(size=(50, fitter.priors.size))
    drawn = fitter.latents(points, fitter.tables(data)[..., 0], fitter.row(data, 0), np.random.default_rng(1))
    assert drawn["part_share"].shape == (50, 3)
    np.testing.assert_allclose(drawn["part_share"].sum(axis=1), 1.0)
    assert ((drawn["share"] > 0) & (drawn["share"] < 1 + drawn["kind"])).all()
    assert (drawn["share"] > 1).any()
    assert (drawn["sigma"] > 0).all()


# The prior


@pytest.mark.usefixtures("without_sampler")
def test_a_prior_that_no_draw_changes_is_exact() -> None:
    fitter = Marginalised.of(unknown_rate(), NAMES, rng=1)
    assert fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one) == (pytest.approx(0.3, abs=1e-12), 0.0)


@pytest.mark.usefixtures("without_sampler")
def test_a_prior_of_unknown_size_is_averaged_with_its_error() -> None:
    """in | theta ~ Bernoulli(theta), theta ~ Beta(2, 3) tilted by exp(2 theta): E[theta] by quadrature."""
    with pm.Model() as model:
        theta = pm.Beta("theta", 2.0, 3.0)
        pm.Potential("tilt", 2.0 * theta)
        pm.Normal("noisy", pm.Bernoulli("in", theta), 1.0)
    fitter = Marginalised.of(model, ("noisy",), rng=1)
    found, error = fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one)
    grid = np.linspace(0, 1, 20_001)
    tilted = st.beta(2, 3).pdf(grid) * np.exp(2 * grid)
    assert 0 < error < 0.003
    assert abs(found - (grid * tilted).sum() / tilted.sum()) < 4 * error
    weights = fitter.priors.weights(fitter.conditioned)
    drawn = fitter.priors.drawn(weights, (4, 500), np.random.default_rng(1))["theta"]
    assert drawn.shape == (4, 500)
    assert abs(drawn.mean() - (grid * tilted).sum() / tilted.sum()) < 0.03


@pytest.mark.usefixtures("without_sampler")
def test_a_prior_given_an_exact_level_is_the_models_own() -> None:
    """The rate's prior is conditioned too: against the negative binomial law of the others."""
    exact = mechanisms.Exact()
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 1)), upper=U)
        noise.released("noisy[tract]", exact, present + others)
        noise.released("noisy[block]", BLOCK, present)
    fitter = Marginalised.of(model, ("noisy[tract]", "noisy[block]"), rng=1)
    row = {"noisy[tract]": np.int64(4), "noisy[block]": np.int64(1)}
    found, error = fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one, ["noisy[tract]"], row)
    law = st.nbinom(3, 0.5)
    expected = 0.3 * law.pmf(3) / (0.3 * law.pmf(3) + 0.7 * law.pmf(4))
    assert 0 < error < 0.003
    assert abs(found - expected) < 4 * error


@pytest.mark.usefixtures("without_sampler")
def test_side_data_belong_to_the_prior_and_its_draws() -> None:
    """A survey of the rate and one of the target, densities far from one in scale: against a grid of rates."""
    seen = np.full(40, 130.0)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        present = pm.Bernoulli("in", 1 / (1 + rate))
        pm.Poisson("asked", rate + present, observed=3)
        pm.Normal("far", present, 40.0, observed=seen)
        pm.Normal("noisy", present, 1.0)
    fitter = Marginalised.of(model, ("noisy",), rng=1)
    found, error = fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one)
    x = np.linspace(1e-4, 60, 60_001)
    far = [st.norm(k, 40).logpdf(seen).sum() for k in (0, 1)]
    assert far[0] < -340  # and with this many nats below one a plain exponential would lose the digits
    joint = [st.gamma(3).pdf(x) * p * st.poisson.pmf(3, x + k) for k, p in ((0, x / (1 + x)), (1, 1 / (1 + x)))]
    joint = [one * np.exp(log - far[0]) for one, log in zip(joint, far, strict=True)]
    expected = joint[1].sum() / sum(joint).sum()
    assert 0 < error < 0.003
    assert abs(found - expected) < 4 * error
    drawn = fitter.priors.drawn(fitter.priors.weights(fitter.conditioned), (4, 500), np.random.default_rng(1))
    total = joint[0] + joint[1]
    assert abs(drawn["rate"].mean() - (x * total).sum() / total.sum()) < 0.25
    assert abs(drawn["in"].mean() - expected) < 0.08


@pytest.mark.usefixtures("without_sampler")
def test_side_data_that_leave_no_draws_are_refused() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        pm.Normal("precise", rate, 1e-4, observed=2.0)
        pm.Normal("noisy", pm.Bernoulli("in", 1 / (1 + rate)), 1.0)
    fitter = Marginalised.of(model, ("noisy",), rng=1)
    with pytest.raises(ValueError, match=r"leaves \d+ of 30000 draws.*fewer than 200.*put it into their laws"):
        fitter.priors.chance(fitter.conditioned, fitter.states, fitter.one)


@pytest.mark.parametrize("build", [depending_scales, unknown_rate])
def test_few_draws_and_many_follow_one_law(build: Any) -> None:
    priors = Priors.of(condition(build(), NAMES if build is unknown_rate else ("noisy",), continuous=True), 5)
    for name, few in priors.values.items():
        many = priors.many[name]
        assert many.shape == (MANY, *few.shape[1:])
        error = few.std(axis=0) / np.sqrt(len(few))
        assert (np.abs(many.mean(axis=0) - few.mean(axis=0)) < 4.5 * error).all(), name
        np.testing.assert_allclose(many.std(axis=0), few.std(axis=0), rtol=0.2)
    again = Priors.of(condition(build(), NAMES if build is unknown_rate else ("noisy",), continuous=True), 5)
    assert all(np.array_equal(many, again.many[name]) for name, many in priors.many.items())
    if build is depending_scales:  # the slope's mean is the kind less one: spread of both together
        assert priors.many["slope"].std() == pytest.approx(np.sqrt(0.49 + 0.49), rel=0.02)


def test_a_number_of_trials_may_be_data() -> None:
    with pm.Model() as model:
        size, share = pm.Data("n", 3), pm.Beta("share", 2.0, 3.0)
        house = pm.Binomial("house", size, share)
        theta = pm.Beta("theta", 1.0 + house, 2.0)
        pm.Normal("noisy", pm.Bernoulli("in", theta) + house, 1.0)
    priors = Priors.of(condition(model, ("noisy",), continuous=True), 1)
    assert priors.latents["house"].max() == 3
    assert priors.latents["house"].mean() == pytest.approx(1.2, abs=0.15)
    k = np.arange(4)
    expected = (st.betabinom(3, 2, 3).pmf(k) * (1 + k) / (3 + k)).sum()
    assert (1 / (1 + np.exp(-priors.many["theta"]))).mean() == pytest.approx(expected, abs=0.006)


# Refusals


def test_too_many_joint_states_are_refused_with_their_sizes() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        each = pm.Truncated("each", pm.Poisson.dist(rate), upper=99, shape=3)
        pm.Normal("noisy", pm.Bernoulli("in", 0.5) + each.sum(), 1.0)
    with pytest.raises(
        ValueError, match=r"2e\+06 joint states, more than 2e\+05; values per latent: \{'each': \(100, 10"
    ):
        Marginalised.of(model, ("noisy",))


def test_a_law_without_a_gradient_may_not_meet_a_continuous_latent() -> None:
    with pm.Model() as model:
        shift = pm.Normal("shift", 0.0, 1.0)
        noise.released("noisy", mechanisms.RandomizedResponse(1.0), pm.Bernoulli("in", 0.5))
        pm.Potential("told", noise.own_log_prob(mechanisms.Laplace(1.0), np.float64(0.3), shift))
    with pytest.raises(TypeError, match=r"no compiled gradient in the continuous latents \['shift'\].*PyTensor"):
        Marginalised.of(model, ("noisy",))


# Diagnostics


def test_diagnosis_tells_constant_stuck_broken_and_mixed_draws_apart() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 200, 5))
    draws[..., 1] = 0.37  # the same in every draw: a certainty, or one mode of several
    draws[..., 2] = np.arange(4)[:, None]  # stuck
    draws[0, 0, 3] = np.nan  # broken
    draws[..., 4] += np.arange(4)[:, None]  # chains apart
    found = diagnose(draws)
    assert found.passed.tolist() == [True, False, False, False, False]
    assert found.constant.tolist() == [False, True, False, False, False]
    assert np.isnan(found.r_hat[1])
    assert np.isnan(found.ess[1])
    assert np.isnan(found.mcse[[1, 3]]).all()
    assert found.mcse[0] == pytest.approx(1 / np.sqrt(800), rel=0.3)


# Fits


@pytest.fixture(scope="module")
def fitter() -> Marginalised:
    return Marginalised.of(unknown_rate(), NAMES, rng=1)


def quadrature(table: NDArray[np.float64], one: NDArray[np.bool_]) -> tuple[float, float]:
    """(P(in = 1), E[rate]) by a fine grid of rates: `table` (others, in) holds the terms without the rate."""
    rate = np.linspace(1e-5, 40.0, 40_001)[:, None]
    k = np.arange(U + 1)
    log_others = st.poisson.logpmf(k, rate) - st.poisson.logcdf(U, rate)
    joint = np.exp(st.gamma(3).logpdf(rate) + log_others)[:, :, None] * np.exp(table)[None]
    total = joint.sum()
    return float(joint[:, one].sum() / total), float((joint.sum(axis=(1, 2)) * rate[:, 0]).sum() / total)


@pytest.mark.slow
def test_nutpie_agrees_with_quadrature(fitter: Marginalised) -> None:
    tables = fitter.tables(RELEASES)
    for i in range(4):
        row = fitter.row(RELEASES, i)
        found = fit_releases.fit_once(fitter, tables[..., i], row, Settings(4, 300, 1000), np.random.SeedSequence(i))
        present, rate = quadrature(tables[..., i], fitter.one)
        assert found["passed"]
        assert abs(found["posterior"] - present) < 4 * found["mcse"]
        assert abs(found["rate"].mean() - rate) < 4 * diagnose(found["rate"][..., None]).mcse[0]
        assert found["posterior"] + found["complement"] == pytest.approx(1.0, abs=1e-12)
        assert abs(found["in"].mean() - present) < 0.03


@pytest.mark.slow
def test_a_fit_too_short_to_judge_is_tried_again_and_then_given_up(
    fitter: Marginalised, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, row = fitter.tables(RELEASES)[..., 0], fitter.row(RELEASES, 0)
    short = fit_releases.fit_once(fitter, table, row, Settings(2, 10, 20), np.random.SeedSequence(3))
    assert not short["passed"]
    longer = fit_releases.fit_twice(fitter, table, row, Settings(2, 60, 50), np.random.SeedSequence(3))
    assert longer["passed"]
    assert longer["probability"].shape == (2, 50)  # of four times as many, every fourth
    assert longer["ess"] > 50
    monkeypatch.setattr(Marginalised, "of", lambda *arguments: fitter)
    found = fit_releases.refit(unknown_rate(), RELEASES, settings=Settings(2, 5, 3), rng=1, progress=False)
    assert set(found.estimate["status"].values.tolist()) == {"unreliable"}
    assert np.isnan(found.estimate["posterior"]).all()
    assert not np.isnan(found.draws["rate"]).any()  # left for whoever wants to look


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_numbers(
    fitter: Marginalised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Marginalised, "of", lambda *arguments: fitter)
    rng = np.random.default_rng(1)
    data = {name: rng.integers(-2, 8, 5) for name in NAMES}
    options: dict[str, Any] = {"settings": Settings(4, 150, 100), "rng": 4, "progress": False}
    monkeypatch.setattr(fit_releases, "BLOCK", 2)
    whole = fit_releases.refit(unknown_rate(), data, **options)
    honest, done = fit_releases.fit_twice, []

    def interrupted(*arguments: Any) -> Any:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(1)
        return honest(*arguments)

    monkeypatch.setattr(fit_releases, "fit_twice", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_releases.refit(unknown_rate(), data, store=tmp_path, **options)
    assert len(list(tmp_path.glob("*.npy"))) == 1  # one block of two is whole; the third release is not kept alone
    monkeypatch.setattr(fit_releases, "fit_twice", honest)
    resumed = fit_releases.refit(unknown_rate(), data, store=tmp_path, **options)
    assert len(list(tmp_path.glob("*.npy"))) == 3
    for name in ("estimate", "draws", "diverging", "prior"):
        assert getattr(resumed, name).identical(getattr(whole, name)), name
    some = {name: values[:3] for name, values in data.items()}
    assert fit_releases.refit(unknown_rate(), some, **options).estimate.identical(whole.estimate.isel(release=slice(3)))


def first_of_tables(compiled: PerThread[Marginalised], releases: dict[str, Any]) -> Any:
    """Something that a worker could be asked for."""
    return compiled.value.tables(releases)


@pytest.mark.usefixtures("without_sampler")
def test_a_model_that_is_sent_to_a_worker_is_compiled_there_to_the_same_numbers() -> None:
    here = PerThread(Marginalised.of, unknown_rate(), NAMES, "in", None, np.random.SeedSequence(4))
    there = pickle.loads(pickle.dumps(partial(first_of_tables, here)))
    np.testing.assert_array_equal(there(RELEASES), first_of_tables(here, RELEASES))
    priors = [one.value.priors for one in (here, there.args[0])]
    assert there.args[0].value is not here.value
    np.testing.assert_array_equal(priors[0].centre, priors[1].centre)


@pytest.mark.usefixtures("without_sampler")
def test_files_are_named_after_what_the_model_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fit(fitter: Marginalised, *arguments: Any) -> dict[str, Any]:
        shapes = fit_releases._layout(fitter, Settings(1, 1, 2)).shapes
        return {name: np.zeros(shape) for name, shape in shapes.items()}

    monkeypatch.setattr(fit_releases, "fit_twice", no_fit)
    monkeypatch.setattr("adversary.models.fitting.marginalised.compiled_sampler", lambda *_: None)
    options: dict[str, Any] = {"settings": Settings(1, 1, 2), "progress": False, "store": tmp_path}

    def files(**more: Any) -> int:
        model, data = more.pop("model", unknown_rate()), more.pop("data", RELEASES)
        fit_releases.refit(model, data, **{"rng": 1, **options, **more})
        return len(list(tmp_path.glob("*.npy")))

    assert files() == 1
    assert files() == 1
    assert files(rng=2) == 2
    assert files(data={**RELEASES, "noisy[block]": RELEASES["noisy[block]"] + 1}) == 3
    with pm.Model() as wider:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 0.5)), upper=U)
        noise.released("noisy[block]", BLOCK, present)
        noise.released("sibling_sum[block]", BLOCK, others, 3)
        noise.released("noisy[tract]", TRACT, present + others)
    assert files(model=wider) == 4
