"""Importance sampling from the prior: right where its k-hat is small, and a check on fits that miss a mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from scipy.special import expit

from adversary.models import noise
from adversary.models.fitting import fit_releases
from adversary.models.fitting.marginalised import Marginalised, Settings
from adversary.models.importance import LARGEST_KHAT, Importance
from adversary.privacy.mechanisms.integers import Geometric

NOISE = Geometric(0.1)


@pytest.mark.parametrize(("noisy", "sigma"), [(0.5, 1.0), (3.0, 1.0), (0.0, 100.0)])
def test_averages_over_prior_draws_are_posterior_ones(noisy: float, sigma: float) -> None:
    draws = np.random.default_rng(1).normal(size=30_000)
    found = Importance.of(st.norm(draws, sigma).logpdf(noisy))
    mean, error = found.mean(draws)
    assert found.reliable
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert abs(mean - noisy / (1 + sigma**2)) < 4 * error < 0.1


def test_a_release_that_says_nothing_leaves_the_prior() -> None:
    found = Importance.of(np.zeros(500))
    assert found.reliable
    np.testing.assert_allclose(found.weights, 1 / 500, rtol=1e-12)


@pytest.mark.parametrize(("noisy", "sigma"), [(0.0, 0.001), (6.0, 0.1), (2.0, 0.003)])
def test_a_posterior_that_few_draws_reach_is_not_trusted(noisy: float, sigma: float) -> None:
    draws = np.random.default_rng(1).normal(size=30_000)
    assert not Importance.of(st.norm(draws, sigma).logpdf(noisy)).reliable


def test_impossible_draws_have_no_weight() -> None:
    log_likelihood = np.where(np.arange(1000) % 2, -np.inf, 0.0)
    found = Importance.of(log_likelihood)
    assert found.reliable
    assert (found.weights[1::2] == 0).all()
    assert not Importance.of(np.full(1000, -np.inf)).reliable


@pytest.fixture
def bimodal(monkeypatch: pytest.MonkeyPatch) -> Marginalised:
    """Not compiled for nutpie; with a tenth of the draws of the prior, which a mixture makes one by one."""
    monkeypatch.setattr("adversary.models.fitting.marginalised.compiled_sampler", lambda *arguments: None)
    monkeypatch.setattr("adversary.models.fitting.prior_draws.MANY", 3000)
    with pm.Model() as model:
        v = pm.NormalMixture("v", np.array([0.9, 0.1]), np.array([-3.0, 3.0]), sigma=0.5)
        present = pm.Bernoulli("in", pm.math.sigmoid(v))
        noise.released("noisy", NOISE, present + pm.Binomial("others", 20, 0.4))
    return Marginalised.of(model, ("noisy",), rng=1)


def exact(noisy: int) -> float:
    """P(in = 1 | noisy) by quadrature."""
    v, k = np.linspace(-8, 8, 4001), np.arange(21)
    density = 0.9 * st.norm(-3, 0.5).pdf(v) + 0.1 * st.norm(3, 0.5).pdf(v)
    prior = float((density * expit(v)).sum() / density.sum())
    law = [st.binom(20, 0.4).pmf(k) @ np.exp(NOISE.log_prob(noisy, k + i)) for i in (0, 1)]
    return float(prior * law[1] / (prior * law[1] + (1 - prior) * law[0]))


def test_a_fit_that_misses_a_mode_of_the_prior_does_not_pass(
    bimodal: Marginalised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws from one mode have a perfect R-hat; the others' share of the prior is seen in its draws alone."""
    table, row = bimodal.tables({"noisy": np.array([8])})[..., 0], {"noisy": np.array(8)}
    weighed, values = bimodal.importance(table, row)
    mean, error = weighed.mean(values)
    assert weighed.reliable
    assert abs(mean[0] - exact(8)) < 4 * error[0] < 0.03

    def drawn(where: Any) -> dict[str, Any]:
        def sample(self: Any, table: Any, row: Any, settings: Settings, *ignored: Any) -> Any:
            points = self._weighed[0]
            inside = weighed.weights * where(self.priors.centre + self.priors.scale * points[:, 0])
            size = (settings.chains, settings.draws)
            place = np.random.default_rng(2).choice(len(points), size, p=inside / inside.sum())
            return points[place], np.zeros(size, dtype=bool)

        monkeypatch.setattr(Marginalised, "sample", sample)
        return fit_releases.fit_once(bimodal, table, row, Settings(), np.random.SeedSequence(1))

    whole, part = drawn(lambda v: np.ones(v.size)), drawn(lambda v: v < 0)
    assert whole["k_hat"] == part["k_hat"] < LARGEST_KHAT
    assert whole["passed"]
    assert abs(whole["posterior"] - exact(8)) < 5 * np.hypot(whole["mcse"], error[0])
    assert part["r_hat"] < 1.02
    assert not part["passed"]
    assert part["posterior"] == pytest.approx(0.052, abs=0.005)
