"""One release for ArviZ: draws that are right, groups that its functions read without a warning."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
import xarray as xr

from adversary import Sampling
from adversary.bounded.bounded_posterior import posterior
from adversary.bounded.bounded_release import BoundedRelease
from adversary.models import actual_world, bounded, noise, released_statistics
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.models.fitting import arviz_groups
from adversary.models.fitting.fit_release import fit
from adversary.privacy import mechanisms

BLOCK, TRACT = mechanisms.DiscreteGaussian.from_rho(0.8), mechanisms.DiscreteGaussian.from_rho(0.9)
RELEASE = {"noisy[block]": 2, "sibling_sum[block]": 3, "noisy[tract]": 4}


def story(*, unknown_rate: bool) -> pm.Model:
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.5)
        if unknown_rate:
            others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 1)), upper=30)
        else:
            others = pm.Binomial("others", 12, 0.25)
        noise.released("noisy[block]", BLOCK, present)
        noise.released("sibling_sum[block]", BLOCK, others, 2)
        noise.released("noisy[tract]", TRACT, present + others)
    return model


@pytest.fixture(scope="module")
def listed() -> xr.DataTree:
    return fit(story(unknown_rate=False), RELEASE, rng=2, progress=False)


@pytest.fixture(scope="module")
def sampled() -> xr.DataTree:
    return fit(story(unknown_rate=True), RELEASE, rng=1, progress=False)


@pytest.mark.slow
def test_draws_of_a_discrete_model_are_independent_ones_from_its_posterior(listed: xr.DataTree) -> None:
    exact = enumerate_posterior(story(unknown_rate=False), RELEASE, ["in", "others"])
    assert listed["exact"]["posterior"].item() == pytest.approx(exact["posterior[in]"].item(), abs=1e-12)
    assert listed["exact"]["prior"].item() == pytest.approx(0.5, abs=1e-12)
    posterior = listed["posterior"]
    assert posterior["in"].dims == ("chain", "draw")
    assert posterior["in"].shape == (4, 1000)
    assert abs(posterior["in"].values.mean() - exact["posterior[in]"].item()) < 4 * np.sqrt(0.25 / 4000)
    others = exact["probability[others]"]
    seen = np.array([(posterior["others"].values == k).mean() for k in others["others"].values])
    assert np.abs(seen - others.values).max() < 4 * np.sqrt(0.25 / 4000)
    assert az.ess(listed)["others"].item() > 3000
    assert abs(listed["prior"]["others"].values.mean() - 3.0) < 0.2
    assert not listed["sample_stats"]["diverging"].values.any()


def check_terms(tree: xr.DataTree, log_others: Any) -> None:
    """log_prior and log_likelihood at the draws, against scipy's and the mechanisms' own."""
    present, others = (tree["posterior"][name].values for name in ("in", "others"))
    expected = {
        "log_prior": {"in": np.full(present.shape, np.log(0.5)), "others": log_others(others)},
        "log_likelihood": {
            "noisy[block]": BLOCK.log_prob(2, present),
            "sibling_sum[block]": BLOCK.total(2).log_prob(3, others),
            "noisy[tract]": TRACT.log_prob(4, present + others),
        },
    }
    for group, terms in expected.items():
        assert set(terms) <= set(tree[group].data_vars)
        for name, values in terms.items():
            np.testing.assert_allclose(tree[group][name].values, values, atol=2 * arviz_groups.TIED)
            assert tree[group][name].dtype == np.float64
    total = sum(tree[group][name] for group in expected for name in tree[group].data_vars)
    np.testing.assert_allclose(tree["sample_stats"]["lp"].values, total.values, atol=1e-7)
    assert {name: tree["observed_data"][name].item() for name in RELEASE} == RELEASE


def test_the_terms_of_a_discrete_fit_are_its_log_densities(listed: xr.DataTree) -> None:
    check_terms(listed, st.binom(12, 0.25).logpmf)


@pytest.mark.slow
def test_the_terms_of_a_sampled_fit_are_its_log_densities(sampled: xr.DataTree) -> None:
    rate = sampled["posterior"]["rate"].values
    check_terms(sampled, lambda others: st.poisson.logpmf(others, rate) - st.poisson.logcdf(30, rate))
    np.testing.assert_allclose(
        sampled["log_prior"]["rate"].values, st.gamma(3).logpdf(rate), atol=2 * arviz_groups.TIED
    )  # on its own scale, without the Jacobian
    estimate = sampled["estimate"]
    assert estimate["status"].item() == "ok"
    assert abs(sampled["posterior"]["P(in)"].values.mean() - estimate["posterior"].item()) < 1e-12
    others = np.arange(31)
    marginal = st.nbinom(3, 0.5).pmf(others)
    weights = [
        np.sum(
            np.exp(BLOCK.log_prob(2, k) + BLOCK.total(2).log_prob(3, others) + TRACT.log_prob(4, k + others)) * marginal
        )
        for k in (0, 1)
    ]
    assert abs(estimate["posterior"].item() - weights[1] / sum(weights)) < 4 * estimate["mcse"].item()


def test_a_vector_latent_keeps_its_dims() -> None:
    with pm.Model(coords={"person": ["Ann", "Ben"]}) as model:
        present = pm.Bernoulli("present", np.array([0.2, 0.6]), dims="person")
        pm.Deterministic("in", present[0])
        pm.Normal("noisy", present.sum(), np.float64(1.0))
    tree = fit(model, {"noisy": 1.3}, sampling=Sampling(draws=50, chains=2), rng=1)
    assert tree["posterior"]["present"].dims == ("chain", "draw", "person")
    assert tree["posterior"]["person"].values.tolist() == ["Ann", "Ben"]
    assert tree["log_prior"]["present"].dims == ("chain", "draw")


@pytest.mark.slow
def test_a_model_without_a_target_is_fitted() -> None:
    model = actual_world(1.0, [0.5, 0.3, 0.2], BLOCK, [0, 1, 2])
    tree = fit(model, {"noisy": 1}, sampling=Sampling(draws=500), rng=1)
    assert set(tree["posterior"].data_vars) == {"rest", "record", "answer"}
    assert "posterior" not in tree["exact"]
    exact = enumerate_posterior(model, {"noisy": 1}, "record")["probability"].values
    seen = np.bincount(tree["posterior"]["record"].values.ravel(), minlength=3) / 2000
    assert np.abs(seen - exact).max() < 4 * np.sqrt(0.25 / 2000)
    tree = fit(model, {"noisy": 1}, variables=["answer", "record"], sampling=Sampling(draws=50), rng=1)
    for group in ("posterior", "prior"):
        assert set(tree[group].data_vars) == {"answer", "record"}
        np.testing.assert_array_equal(tree[group]["answer"], tree[group]["record"])


@pytest.mark.slow
def test_a_model_of_continuous_latents_alone_is_fitted() -> None:
    """Against quadrature of the same posterior."""
    release = BoundedRelease(0.3, 0.1, n=10, epsilon=(0.5, 0.5))
    tree = fit(bounded(release), released_statistics(release), variables=["mu", "sigma2"], rng=1, progress=False)
    assert set(tree["estimate"].data_vars) == {"r_hat", "ess", "divergences", "k_hat", "status"}
    assert tree["estimate"]["status"].item() == "ok"
    assert tree["estimate"]["k_hat"].item() < 0.7
    exact = posterior(release)
    for name in ("mu", "sigma2"):
        draws = tree["posterior"][name].values
        assert abs(draws.mean() - float(exact.mean(name))) < 0.1 * draws.std()


@pytest.mark.slow
def test_seeds_reproduce_a_fit() -> None:
    model = story(unknown_rate=False)
    one, two, other = (fit(model, RELEASE, sampling=Sampling(draws=20), rng=seed) for seed in (1, 1, 2))
    assert one["posterior"].to_dataset().equals(two["posterior"].to_dataset())
    assert not one["posterior"].to_dataset().equals(other["posterior"].to_dataset())


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        ({**RELEASE, "noisy[block]": [1, 2]}, {}, r"fit takes one release, got 2 of noisy\[block\]"),
        (RELEASE, {"target": "x"}, "target 'x' is not in the model; did you mean target='in'"),
        ({"noisy": 1}, {}, "observed 'noisy' is not in the model"),
    ],
)
def test_what_cannot_be_fitted_is_refused(release: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(story(unknown_rate=False), release, **options)


@pytest.mark.slow_cases("60-ok")
@pytest.mark.parametrize(("most", "status"), [(5, "unreliable"), (60, "ok")])
def test_a_fit_over_a_support_that_is_too_short_has_no_posterior(most: int, status: str) -> None:
    with pm.Model() as model:
        others = pm.Poisson("others", np.float64(10.0))
        noise.released("noisy", mechanisms.Geometric(1.0), pm.Bernoulli("in", np.float64(0.3)) + others)
    exact = fit(model, {"noisy": 10}, support={"others": range(most + 1)}, rng=1, progress=False)["exact"]
    assert exact["status"].item() == status
    if status == "ok":
        expected = enumerate_posterior(model, {"noisy": 10})["posterior"].item()
        assert exact["posterior"].item() == pytest.approx(expected, abs=1e-9)
        assert exact["edge_mass"].item() < 1e-9
    else:
        assert np.isnan(exact["posterior"])
        assert exact["edge_mass"].item() >= st.poisson.sf(most, 10)
