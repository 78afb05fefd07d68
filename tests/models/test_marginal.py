"""Discrete latents summed out: against loops over states and quadrature, and fitted by nutpie against both."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
import xarray as xr
from pytensor import wrap_py
from scipy.special import expit, logsumexp

from adversary._core.diagnosis import diagnose
from adversary._core.sampler_settings import Sampling
from adversary._core.workers import PerThread
from adversary.models import noise
from adversary.models.fitting import many_fits
from adversary.models.fitting.fitter import Fitter
from adversary.models.fitting.nuts import Nuts
from adversary.models.importance import WeighedPrior
from adversary.privacy import mechanisms

BLOCK, TRACT = mechanisms.DiscreteGaussian.from_rho(0.3), mechanisms.DiscreteGaussian.from_rho(0.5)
NAMES = ("noisy[block]", "sibling_sum[block]", "noisy[tract]")
RELEASES = {
    "noisy[block]": np.array([2, 0, -1, 1]),
    "sibling_sum[block]": np.array([3, 6, 0, 12]),
    "noisy[tract]": np.array([4, 5, 1, 9]),
}
U = 25


def unknown_rate(beta: float = 1) -> pm.Model:
    """The others' rate is unknown, with a gamma prior."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        rate = pm.Gamma("rate", 3, beta)
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


def prior_of(model: pm.Model, names: tuple[str, ...], **options: Any) -> WeighedPrior:
    return WeighedPrior.of(model, names, **{"rng": 1, "draws": 30_000} | options)


def held(data: dict[str, Any]) -> dict[str, Any]:
    """One release as rows of one."""
    return {name: np.asarray(value)[None] for name, value in data.items()}


def log_joint(model: pm.Model, row: dict[str, Any]) -> Any:
    """PyMC's own joint density of one release, compiled by itself."""
    with pm.observe(model, {name: np.asarray(value) for name, value in row.items()}) as given:
        return given.compile_logp(), given


# Against a loop over the model's own density


@pytest.mark.slow_cases("depending_scales-row1")
@pytest.mark.parametrize(
    ("build", "row"),
    [(unknown_rate, {name: int(values[0]) for name, values in RELEASES.items()}), (depending_scales, {"noisy": 1.9})],
)
def test_the_density_is_the_models_own_summed_over_discrete_states(build: Any, row: dict[str, Any]) -> None:
    prior = prior_of(build(), tuple(row), draws=1000)
    terms = prior.terms
    density, given = log_joint(build(), row)
    names, smooth = list(terms.given.latents), list(terms.given.continuous)
    rng = np.random.default_rng(2)
    values = [rng.normal(size=(4, *value.shape[1:])) for value in prior.values]
    present, out = (part[:, 0] for part in terms.hypotheses(values, prior.batched(held(row))))
    places = [given.rvs_to_values[given[name]].name for name in smooth]
    grid = terms.states.components.grid
    states = list(itertools.product(*(np.unique(s) for s in grid.states(0, grid.size))))
    for i in range(4):
        point = {name: value[i] for name, value in zip(places, values, strict=True)}
        logs = np.array([density({**point, **dict(zip(names, map(np.array, s), strict=True))}) for s in states])
        inside = np.array([s[names.index("in")] == 1 for s in states])
        assert present[i] == pytest.approx(logsumexp(logs[inside]), abs=1e-6)  # the twin has 32-bit constants
        assert out[i] == pytest.approx(logsumexp(logs[~inside]), abs=1e-6)
    assert present.dtype == np.float64


def test_discrete_latents_are_drawn_from_their_conditional() -> None:
    prior = prior_of(unknown_rate(), NAMES, draws=1000)
    row = {name: value[0] for name, value in prior.batched(RELEASES).items()}
    values = [np.full(20_000, 0.4)]
    drawn = prior.terms.latents(values, row, np.random.default_rng(5), 20_000)
    rate = float(np.exp(0.4))
    np.testing.assert_allclose(drawn["rate"], rate, rtol=1e-12)
    k = np.arange(U + 1)
    count = np.array([[0], [1]])
    joint = np.array([[0.7], [0.3]]) * st.poisson.pmf(k, rate) * np.exp(BLOCK.log_prob(2, count))
    joint = joint * np.exp(BLOCK.total(3).log_prob(3, k)) * np.exp(TRACT.log_prob(4, count + k))
    joint /= joint.sum()
    seen = np.zeros_like(joint)
    np.add.at(seen, (drawn["in"], drawn["others"]), 1 / 20_000)
    assert np.abs(seen - joint).max() < 4 * np.sqrt(0.25 / 20_000)
    present, out = prior.terms.hypotheses([values[0][:1]], held(row))
    assert expit(present - out)[0, 0] == pytest.approx(joint[1].sum(), abs=1e-12)


@pytest.mark.slow
def test_draws_come_back_on_the_models_own_scale() -> None:
    prior = prior_of(depending_scales(), ("noisy",), draws=1000)
    rng = np.random.default_rng(2)
    values = [rng.normal(size=(50, *value.shape[1:])) for value in prior.values]
    drawn = prior.terms.latents(values, {"noisy": np.array(1.9)}, np.random.default_rng(1), 50)
    assert drawn["part_share"].shape == (50, 3)
    np.testing.assert_allclose(drawn["part_share"].sum(axis=1), 1.0)
    assert ((drawn["share"] > 0) & (drawn["share"] < 1 + drawn["kind"])).all()
    assert (drawn["share"] > 1).any()
    assert (drawn["sigma"] > 0).all()


# The prior


def test_a_prior_that_no_draw_changes_is_exact() -> None:
    assert prior_of(unknown_rate(), NAMES, draws=1000).before() == (
        pytest.approx(0.3, abs=1e-12),
        pytest.approx(0.0, abs=1e-15),
    )


@pytest.mark.slow
def test_a_prior_of_unknown_size_is_averaged_with_its_error() -> None:
    """in | theta ~ Bernoulli(theta), theta ~ Beta(2, 3) tilted by exp(2 theta): E[theta] by quadrature."""
    with pm.Model() as model:
        theta = pm.Beta("theta", 2.0, 3.0)
        pm.Potential("tilt", 2.0 * theta)
        pm.Normal("noisy", pm.Bernoulli("in", theta), 1.0)
    prior = prior_of(model, ("noisy",))
    found, error = prior.before()
    grid = np.linspace(0, 1, 20_001)
    tilted = st.beta(2, 3).pdf(grid) * np.exp(2 * grid)
    assert 0 < error < 0.003
    assert abs(found - (grid * tilted).sum() / tilted.sum()) < 4 * error
    drawn = prior.prior_draws(2000, np.random.default_rng(1))["theta"]
    assert drawn.shape == (2000,)
    assert abs(drawn.mean() - (grid * tilted).sum() / tilted.sum()) < 0.03


@pytest.mark.slow
def test_a_prior_given_an_exact_level_is_the_models_own() -> None:
    """The rate's prior is conditioned too: against the negative binomial law of the others."""
    exact = mechanisms.Exact()
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 1)), upper=U)
        noise.released("noisy[tract]", exact, present + others)
        noise.released("noisy[block]", BLOCK, present)
    prior = prior_of(model, ("noisy[tract]", "noisy[block]"), settled=["noisy[tract]"])
    found, error = prior.before({"noisy[tract]": np.array([4])})
    law = st.nbinom(3, 0.5)
    expected = 0.3 * law.pmf(3) / (0.3 * law.pmf(3) + 0.7 * law.pmf(4))
    assert 0 < error < 0.003
    assert abs(found - expected) < 4 * error


def test_side_data_belong_to_the_prior_and_its_draws() -> None:
    """A survey of the rate and one of the target, densities far from one in scale: against a grid of rates."""
    seen = np.full(40, 130.0)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        present = pm.Bernoulli("in", 1 / (1 + rate))
        pm.Poisson("asked", rate + present, observed=3)
        pm.Normal("far", present, 40.0, observed=seen)
        pm.Normal("noisy", present, 1.0)
    prior = prior_of(model, ("noisy",))
    found, error = prior.before()
    x = np.linspace(1e-4, 60, 60_001)
    far = [st.norm(k, 40).logpdf(seen).sum() for k in (0, 1)]
    assert far[0] < -340  # and with this many nats below one a plain exponential would lose the digits
    joint = [st.gamma(3).pdf(x) * p * st.poisson.pmf(3, x + k) for k, p in ((0, x / (1 + x)), (1, 1 / (1 + x)))]
    joint = [one * np.exp(log - far[0]) for one, log in zip(joint, far, strict=True)]
    expected = joint[1].sum() / sum(joint).sum()
    assert 0 < error < 0.003
    assert abs(found - expected) < 4 * error
    drawn = prior.prior_draws(2000, np.random.default_rng(1))
    total = joint[0] + joint[1]
    assert abs(drawn["rate"].mean() - (x * total).sum() / total.sum()) < 0.25
    assert abs(drawn["in"].mean() - expected) < 0.08


def test_side_data_that_leave_no_draws_are_refused() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        pm.Normal("precise", rate, 1e-4, observed=2.0)
        pm.Normal("noisy", pm.Bernoulli("in", 1 / (1 + rate)), 1.0)
    with pytest.raises(ValueError, match=r"leaves \d+ of 30000 draws.*fewer than 200.*put it into their laws"):
        prior_of(model, ("noisy",)).before()


def test_a_number_of_trials_may_be_data() -> None:
    with pm.Model() as model:
        size, share = pm.Data("n", 3), pm.Beta("share", 2.0, 3.0)
        house = pm.Binomial("house", size, share)
        theta = pm.Beta("theta", 1.0 + house, 2.0)
        pm.Normal("noisy", pm.Bernoulli("in", theta) + house, 1.0)
    prior = prior_of(model, ("noisy",))
    assert prior.latents["house"].max() == 3
    assert prior.latents["house"].mean() == pytest.approx(1.2, abs=0.2)
    k = np.arange(4)
    expected = (st.betabinom(3, 2, 3).pmf(k) * (1 + k) / (3 + k)).sum()
    theta_draws = dict(zip(prior.terms.given.continuous, prior.values, strict=True))["theta"]
    assert expit(theta_draws).mean() == pytest.approx(expected, abs=0.006)


# Refusals


def test_a_law_without_a_gradient_may_not_meet_a_continuous_latent() -> None:
    @wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])  # type: ignore[untyped-decorator]
    def told(shift: Any) -> Any:
        return np.asarray(-np.abs(shift - 0.3))

    with pm.Model() as model:
        shift = pm.Normal("shift", 0.0, 1.0)
        pm.Normal("noisy", pm.Bernoulli("in", 0.5), 1.0)
        pm.Potential("told", told(shift))
    with pytest.raises(TypeError, match=r"no compiled gradient in the continuous latents \['shift'\].*PyTensor"):
        Nuts.of(prior_of(model, ("noisy",), draws=1000))


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
def fitter() -> Fitter:
    return Fitter.of(unknown_rate(), NAMES, rng=1, sampling=Sampling(draws=600, tune=300), nuts="always")


def quadrature(noisy: int, siblings: int, above: int) -> tuple[float, float]:
    """(P(in = 1), E[rate]) by a fine grid of rates."""
    rate, k = np.linspace(1e-5, 40.0, 8001)[:, None], np.arange(U + 1)
    log_others = st.poisson.logpmf(k, rate) - st.poisson.logcdf(U, rate)
    seen = BLOCK.total(3).log_prob(siblings, k) + st.gamma(3).logpdf(rate) + log_others
    parts = [
        p * np.exp(seen + TRACT.log_prob(above, k + i) + float(BLOCK.log_prob(noisy, i)))
        for i, p in ((0, 0.7), (1, 0.3))
    ]
    total = parts[0] + parts[1]
    return float(parts[1].sum() / total.sum()), float((total.sum(axis=1) * rate[:, 0]).sum() / total.sum())


@pytest.mark.slow
def test_nutpie_agrees_with_quadrature(fitter: Fitter) -> None:
    seeds = np.random.SeedSequence(0).spawn(2)
    for i, found in enumerate(fitter.fits({name: value[:2] for name, value in RELEASES.items()}, seeds, 600)):
        present, rate = quadrature(*(int(RELEASES[name][i]) for name in NAMES))
        assert found.passed
        assert found.divergences == 0
        assert abs(found.posterior - present) < 4 * found.mcse < 0.02
        assert abs(found.latents["rate"].mean() - rate) < 4 * diagnose(found.latents["rate"][..., None]).mcse[0]
        assert found.posterior + found.complement == pytest.approx(1.0, abs=1e-12)
        assert abs(found.latents["in"].mean() - present) < 0.05


@pytest.mark.slow
def test_a_fit_too_short_to_judge_is_tried_again_and_then_given_up(
    fitter: Fitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, seeds = {name: value[:1] for name, value in RELEASES.items()}, [np.random.SeedSequence(3)]
    short = replace(fitter, sampling=Sampling(draws=300, tune=50, chains=2))
    short.__dict__["sampler"] = fitter.sampler
    (found,) = short.fits(one, seeds, 50)
    assert found.passed  # of four times as many draws
    assert found.ess > 400
    assert found.chance.shape == (2, 50)
    monkeypatch.setattr(Fitter, "of", lambda *arguments: replace(fitter, sampling=Sampling(draws=10, tune=5, chains=2)))
    monkeypatch.setattr(Nuts, "of", lambda *options: fitter.sampler)
    many = many_fits.fit_many(
        unknown_rate(), RELEASES, nuts="always", sampling=Sampling(10, 5, 2), rng=1, progress=False
    )
    assert set(many.estimate["status"].values.tolist()) == {"unreliable"}
    assert np.isnan(many.estimate["posterior"]).all()
    assert not np.isnan(many.groups["posterior"]["rate"]).any()  # left for whoever wants to look


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    data = {name: rng.integers(-2, 8, 5) for name in NAMES}
    options: dict[str, Any] = {"sampling": Sampling(prior_draws=2000), "rng": 4, "progress": False}
    monkeypatch.setattr(many_fits, "BLOCK", 2)
    whole = many_fits.fit_many(unknown_rate(), data, **options)
    honest, done = Fitter.fits, []

    def interrupted(*arguments: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return honest(*arguments)

    monkeypatch.setattr(Fitter, "fits", interrupted)
    with pytest.raises(KeyboardInterrupt):
        many_fits.fit_many(unknown_rate(), data, store=tmp_path, **options)
    assert len(list(tmp_path.glob("*.npy"))) == 2
    monkeypatch.setattr(Fitter, "fits", honest)
    resumed = many_fits.fit_many(unknown_rate(), data, store=tmp_path, **options)
    assert len(list(tmp_path.glob("*.npy"))) == 3
    assert resumed.estimate.identical(whole.estimate)
    for name, group in whole.groups.items():
        for part in (resumed.groups[name], group):
            part.attrs.pop("created_at", None)
        assert resumed.groups[name].identical(group), name
    some = {name: values[:3] for name, values in data.items()}
    again = many_fits.fit_many(unknown_rate(), some, **options).estimate
    xr.testing.assert_allclose(again, whole.estimate.isel(release=slice(3)), rtol=1e-12)


def densities(compiled: PerThread[Fitter], releases: dict[str, Any]) -> Any:
    """Something that a worker could be asked for."""
    prior = compiled.value.prior
    return prior.at_first_draws(prior.batched(releases))


@pytest.mark.slow
def test_a_model_that_is_sent_to_a_worker_is_compiled_there_to_the_same_numbers() -> None:
    here = PerThread(Fitter.of, unknown_rate(), NAMES, "in", None, (), np.random.SeedSequence(4))
    there = pickle.loads(pickle.dumps(partial(densities, here)))
    np.testing.assert_array_equal(there(RELEASES), densities(here, RELEASES))
    assert there.args[0].value is not here.value


@pytest.mark.slow
def test_files_are_named_after_what_the_model_computes(tmp_path: Path) -> None:
    def files(**more: Any) -> int:
        model, data = more.pop("model", unknown_rate()), more.pop("data", RELEASES)
        options = {"rng": 1, "sampling": Sampling(prior_draws=1000), "progress": False, "store": tmp_path}
        many_fits.fit_many(model, data, **options | more)
        return len(list(tmp_path.glob("*.npy")))

    assert files() == 1
    assert files() == 1
    assert files(rng=2) == 2
    assert files(data={**RELEASES, "noisy[block]": RELEASES["noisy[block]"] + 1}) == 3
    assert files(model=unknown_rate(0.5)) == 4
