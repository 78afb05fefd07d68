"""Histograms and all their queries as PyMC models: enumerated, sampled along lines, and by the library's sampler."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

import adversary as adv
from adversary import models
from adversary.adversaries.tables import Query
from adversary.census.histograms import sample_histograms

GROUP = adv.spine.Tree.of({"g": None, "b1": "g", "b2": "g"})
QUERIES = (Query("total", ((0, 0),)), Query("sex", ((0, 1),)))
VARIANCE = {"total": np.array([1.0, 1.0, np.inf]), "sex": 2.0}
RELEASED = {"total": [[5.0], [2.0], [0.0]], "sex": [[2.0, 2.0], [3.0, 0.0], [0.0, 1.0]]}
NOISY = {"noisy[total]": np.array([[5], [2]]), "noisy[sex]": np.array([[2, 2], [3, 0], [0, 1]])}


def three(name: str, dims: Any) -> Any:
    return pm.Binomial(name, n=3, p=np.float64(0.3), dims=dims)


def test_a_changed_prior_is_enumerated_by_hand() -> None:
    """Binomial counts of at most three people: the model's posterior is the sum over all 256 states."""
    model = models.noisy_histograms(GROUP, QUERIES, VARIANCE, three, target="b1", present=0, absent=1, target_prior=0.3)
    found = adv.enumerate_posterior(model, NOISY)
    from scipy.stats import binom

    weights = []
    for inside in (1, 0):
        x = np.indices((4, 4, 4, 4)).reshape(2, 2, -1)
        log = binom(3, 0.3).logpmf(x).sum(axis=(0, 1))
        x = x.copy()
        x[0, 0 if inside else 1] += 1
        total = x.sum(axis=(0, 1))
        log = log - 0.5 * (5 - total) ** 2 - 0.5 * (2 - x[0].sum(axis=0)) ** 2
        for answers, counts in zip(RELEASED["sex"], (x.sum(axis=0), x[0], x[1]), strict=True):
            log = log - 0.25 * ((np.array(answers)[:, None] - counts) ** 2).sum(axis=0)
        weights.append(np.exp(log).sum() * (0.3 if inside else 0.7))
    assert float(found["posterior"]) == pytest.approx(weights[0] / sum(weights), rel=1e-9)


def by_hand(log_law: Any, seed: int) -> Any:
    """The step's own moves, under a log law of (state, unit, cell) counts that is a plain function."""
    step: Any = object.__new__(models.HistogramGibbs)
    step.rng, step.updates, step.densities = np.random.default_rng(seed), 4, {"others": None}

    def chosen(name: str, states: Any, point: Any) -> Any:
        log = log_law(states)
        total = np.cumsum(np.exp(log - log.max()))
        return states[np.searchsorted(total, step.rng.random() * total[-1], side="right")]

    step.chosen = chosen
    return step


@pytest.mark.parametrize("total", [None, 3])
def test_lines_have_the_means_of_all_histograms_of_three_people(total: int | None) -> None:
    """Two units of 2 cells: three people in all, exactly, or about three; no PyMC density takes part."""
    weights = np.array([[1.0, 0.4], [0.7, 1.6]])

    def log_law(x: Any) -> Any:
        people = x.sum(axis=(1, 2))
        log = (x * np.log(weights) - gammaln(x + 1.0)).sum(axis=(1, 2)) - 0.4 * (x[:, :, 0].sum(axis=1) - 2.0) ** 2
        return log - 0.5 * (people - 3.0) ** 2 if total is None else np.where(people == total, log, -np.inf)

    every = np.array([x for x in itertools.product(range(12), repeat=4) if sum(x) < 12]).reshape(-1, 2, 2)
    p = np.exp(log_law(every))
    expected = np.tensordot(p / p.sum(), every, axes=1)
    steps, point, draws = by_hand(log_law, 5), {"others": np.array([[1, 1], [1, 0]])}, []
    for _ in range(1500):
        point, _ = steps.step(point)
        draws.append(point["others"])
    means = np.array(draws).reshape(50, -1, 2, 2).mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(50)
    assert error.max() < 0.08
    assert (np.abs(means.mean(axis=0) - expected) < 4.0 * error).all()


@pytest.mark.slow
def test_lines_sample_the_enumerated_posterior() -> None:
    model = models.noisy_histograms(
        GROUP, QUERIES, VARIANCE, three, target="b1", present=0, absent=1, target_prior=0.3, released=RELEASED
    )
    free = models.noisy_histograms(GROUP, QUERIES, VARIANCE, three, target="b1", present=0, absent=1, target_prior=0.3)
    exact = adv.enumerate_posterior(free, NOISY, ["in", "others"])
    with model:
        steps = [models.HistogramGibbs(updates=8), adv.literature.ExactGibbs([model["in"]])]
        draws = pm.sample(
            300, tune=30, chains=2, cores=1, step=steps, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    law = exact["probability[others]"]
    means = (law * law["others"]).sum("others")
    np.testing.assert_allclose(draws.posterior["others"].mean(("chain", "draw")), means.values, atol=0.15)
    assert float(draws.posterior["in"].mean()) == pytest.approx(float(exact["posterior[in]"]), abs=0.1)


@pytest.mark.slow
@pytest.mark.thorough
def test_lines_and_the_librarys_sampler_agree_with_exact_totals() -> None:
    """Poisson counts whose group total is exact, and a rate with a law of its own is one more latent."""
    variance: Any = {"total": np.array([0.0, 1.0, np.inf]), "sex": 2.0}
    mean = 1.3

    def prior(name: str, dims: Any) -> Any:
        return pm.Poisson(name, mu=np.float64(mean), dims=dims)

    model = models.noisy_histograms(GROUP, QUERIES, variance, prior, released=RELEASED)
    start = {"others": np.array([[2, 1], [1, 1]])}
    with model:
        draws = pm.sample(
            600, tune=50, chains=2, cores=1, step=models.HistogramGibbs(updates=8), initvals=start, random_seed=2,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    others = draws.posterior["others"]
    assert (others.sum(("leaf", "cell")) == 5).all()
    twin = sample_histograms(GROUP, QUERIES, RELEASED, variance, adv.spine.Poisson(mean), draws=4000, rng=3)
    expected = twin["histogram"].mean(("chain", "draw"))
    np.testing.assert_allclose(others.mean(("chain", "draw")), expected, atol=0.15)
