"""Importance sampling from the prior: right where its k-hat is small, and a check on fits that miss a mode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from arviz_stats.base import array_stats
from scipy.special import expit

from adversary._core import Sampling, diagnose
from adversary.models import noise
from adversary.models.fitting.fitter import Fit, Fitter
from adversary.models.fitting.nuts import Nuts, Trace
from adversary.models.importance import LARGEST_KHAT, Hypotheses, Importance, WeighedPrior
from adversary.privacy.mechanisms.integers import Geometric

NOISE = Geometric(0.1)


@pytest.mark.parametrize(("noisy", "sigma"), [(0.5, 1.0), (3.0, 1.0), (0.0, 100.0)])
def test_averages_over_prior_draws_are_posterior_ones(noisy: float, sigma: float) -> None:
    draws = np.random.default_rng(1).normal(size=30_000)
    found = Importance.of(st.norm(draws, sigma).logpdf(noisy))
    mean = found.weights @ draws
    error = np.sqrt(found.weights**2 @ (draws - mean) ** 2)
    assert found.k_hat < LARGEST_KHAT
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert abs(mean - noisy / (1 + sigma**2)) < 4 * error < 0.1


@pytest.mark.parametrize("sigma", [0.02, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [400, 10_000])
def test_smoothing_the_tail_alone_is_arvizs_smoothing_of_all(sigma: float, size: int) -> None:
    log_weights = st.norm(np.random.default_rng(1).normal(size=size), sigma).logpdf(1.3)
    found = Importance.of(log_weights)
    expected, k_hat = array_stats.psislw(-log_weights)
    assert found.k_hat == pytest.approx(float(k_hat), abs=1e-10)
    np.testing.assert_allclose(found.weights, np.exp(expected), rtol=1e-9, atol=1e-300)


def test_a_release_that_says_nothing_leaves_the_prior() -> None:
    found = Importance.of(np.zeros(500))
    assert found.k_hat < LARGEST_KHAT
    np.testing.assert_allclose(found.weights, 1 / 500, rtol=1e-12)


@pytest.mark.parametrize(("noisy", "sigma"), [(0.0, 0.001), (6.0, 0.1), (2.0, 0.003)])
def test_a_posterior_that_few_draws_reach_is_not_trusted(noisy: float, sigma: float) -> None:
    draws = np.random.default_rng(1).normal(size=30_000)
    assert Importance.of(st.norm(draws, sigma).logpdf(noisy)).k_hat > LARGEST_KHAT


def heavy_tailed(shape: float) -> Hypotheses:
    """Weights 1/2 to 1 of 9,700 draws, and above these the quantiles of 300 draws of a generalised Pareto law."""
    tail = np.expm1(-shape * np.log1p(-(np.arange(300) + 0.5) / 300)) / shape
    log_weights = np.log(np.append(np.linspace(0.5, 1.0, 9700), 1.0 + 0.05 * tail))
    return Hypotheses.of(log_weights, np.log(np.linspace(0.5, 1.0, 10_000)))


@pytest.mark.parametrize(("shape", "trusted"), [(0.6, True), (0.8, False), (0.95, False)])
def test_the_tail_of_the_weights_alone_can_forbid_an_answer(shape: float, trusted: bool) -> None:
    found = heavy_tailed(shape)
    assert found.k_hat == pytest.approx(shape, abs=0.03)
    assert found.ess > 5000
    assert found.reliable == trusted


def test_a_release_whose_weights_have_a_heavy_tail_is_not_answered() -> None:
    """The noise's own scale is unknown, and may be tiny: a release at its centre has weights with a Pareto tail."""
    with pm.Model() as model:
        x = pm.Exponential("x", np.float64(1.0))
        present = pm.Bernoulli("in", pm.math.sigmoid(x))
        pm.Normal("noisy", 0.0 * present, 1 / (1 + np.float64(0.05) * pm.math.expm1(0.85 * x)))
    prior = WeighedPrior.of(model, ("noisy",), rng=0, draws=10_000)
    (sample,) = prior.weigh({"noisy": np.zeros(1)}, refine=False)
    assert 0.7 < sample.answer.k_hat < 1.0
    assert sample.answer.ess > 1000
    assert not sample.answer.reliable


def test_chains_that_mix_and_are_too_short_do_not_pass() -> None:
    draws = np.random.default_rng(1).normal(size=(4, 60, 1))
    found = diagnose(draws)
    assert abs(found.r_hat[0] - 1.0) < 0.009
    assert 100 < found.ess[0] < 300
    assert not found.passed[0]
    assert diagnose(np.random.default_rng(1).normal(size=(4, 600, 1))).passed[0]


def test_impossible_draws_have_no_weight() -> None:
    log_likelihood = np.where(np.arange(1000) % 2, -np.inf, 0.0)
    found = Importance.of(log_likelihood)
    assert found.k_hat < LARGEST_KHAT
    assert (found.weights[1::2] == 0).all()
    assert Importance.of(np.full(1000, -np.inf)).k_hat > LARGEST_KHAT


def exact(noisy: int) -> float:
    """P(in = 1 | noisy) by quadrature."""
    v, k = np.linspace(-8, 8, 4001), np.arange(21)
    density = 0.9 * st.norm(-3, 0.5).pdf(v) + 0.1 * st.norm(3, 0.5).pdf(v)
    prior = float((density * expit(v)).sum() / density.sum())
    law = [st.binom(20, 0.4).pmf(k) @ np.exp(NOISE.log_prob(noisy, k + i)) for i in (0, 1)]
    return float(prior * law[1] / (prior * law[1] + (1 - prior) * law[0]))


@pytest.mark.slow
def test_a_fit_that_misses_a_mode_of_the_prior_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws from one mode have a perfect R-hat; the others' share of the prior is seen in its draws alone."""
    with pm.Model() as model:
        v = pm.NormalMixture("v", np.array([0.9, 0.1]), np.array([-3.0, 3.0]), sigma=0.5)
        present = pm.Bernoulli("in", pm.math.sigmoid(v))
        noise.released("noisy", NOISE, present + pm.Binomial("others", 20, 0.4))
    fitter = Fitter.of(model, ("noisy",), rng=1)
    row = {"noisy": np.array(8)}
    (sample,) = fitter.prior.weigh({"noisy": np.array([8])})
    assert sample.reliable
    assert abs(sample.answer.present - exact(8)) < 4 * sample.answer.mcse < 0.03

    def drawn(where: Any) -> Fit:
        def sampled(row: Any, starts: Any, sampling: Sampling, seed: int, progress: bool) -> Trace:
            points = fitter.prior.points(sample.values)
            inside = sample.answer.weights * where(points[:, 0])
            size = (sampling.chains, sampling.draws)
            rng = np.random.default_rng(2)
            place = rng.choice(len(points), size, p=inside / inside.sum())
            return Trace(points[place], {"diverging": np.zeros(size), "energy": rng.normal(size=size)})

        monkeypatch.setattr(Nuts, "of", lambda *options: SimpleNamespace(sample=sampled))
        return fitter.fit_once(sample, row, Sampling(), np.random.SeedSequence(1), 100)

    whole = drawn(lambda v: np.ones(v.size))
    del fitter.__dict__["sampler"]
    part = drawn(lambda v: v < 0)
    assert whole.k_hat == part.k_hat < LARGEST_KHAT
    assert whole.passed
    assert abs(whole.posterior - exact(8)) < 5 * np.hypot(whole.mcse, sample.answer.mcse)
    assert part.r_hat < 1.01
    assert not part.passed
    assert part.posterior == pytest.approx(0.052, abs=0.005)


def test_elements_that_read_few_of_the_latents_that_belong_together_are_summed_as_all_are() -> None:
    """Two counts of one number of animals: 900 joint states, of which each element reads 90."""
    with pm.Model() as model:
        p, number = pm.Beta("p", 3.0, 2.0), pm.DiscreteUniform("number", 1, 9)
        counts = pm.Binomial("counts", number, p, shape=2)
        noise.released("noisy", Geometric(1.0), counts + pm.Bernoulli("in", 0.3))
    prior = WeighedPrior.of(model, ["noisy"], rng=1, draws=50)
    seen = np.array([[2, 4], [7, 6]])
    chance = 1.0 / (1.0 + np.exp(-prior.values[0]))
    k = np.arange(10)
    for masses, own, t in zip(prior.log_joint({"noisy": seen}), (0.3, 0.7), (1, 0), strict=True):
        right = np.zeros((chance.size, 2))
        for n in range(1, 10):
            law = st.binom.pmf(k, n, chance[:, None])
            kernel = [np.exp(Geometric(1.0).log_prob(seen[:, j], k[:, None] + t)) for j in (0, 1)]
            right += own / 9 * (law @ kernel[0]) * (law @ kernel[1])
        np.testing.assert_allclose(masses - prior.log_prior[:, None], np.log(right), rtol=0, atol=1e-10)
