"""Samplers and models against the quadrature at random settings: n = 3, n = 100,000, releases outside the region.

The settings are those of `test_posteriors`, where quadrature meets the sampler of the statistics, and its likelihood
the integral behind the marginal PyMC model. Here are the sampler of the records and the PyMC models themselves.

The normaliser of the record-level sampler makes records truncated normal; `feasibility="normalised"` of the quadrature
cuts the law of their mean and variance to what any records have. These are two models, and agree where records hardly
reach the bounds; elsewhere the sampler is held to records drawn by brute force.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest

from adversary.bounded import BoundedRelease, NormalInverseGamma, posterior
from adversary.bounded.thesis.record_gibbs import gibbs_records
from adversary.models.enumeration.batched_graphs import NUMPY_MODE
from adversary.models.summaries.bounded_data import bounded
from adversary.models.summaries.compiled.feasible_densities import log_feasible
from adversary.models.summaries.compiled.noisy_densities import gamma_laplace, normal_laplace
from tests.bounded.test_bounded_posterior import SETTINGS, setting
from tests.bounded.test_record_gibbs import brute_force

pytestmark = pytest.mark.filterwarnings("ignore:the released:UserWarning")
"""Some releases contradict the bounds, or themselves, by more than noise does: on purpose."""

LENGTHS: dict[str, Any] = {"draws": 4000, "burn": 1000, "chains": 4, "thin": 20}
CAP = 5.0
TIGHT = NormalInverseGamma(0.5, 50.0, 50.0, 0.04)
"""Records within a few hundredths of 1/2: the bounds are far away."""


def check(drawn: Any, expected: float, name: str, other: float = 0.0) -> None:
    """A mean of draws within five standard errors of a number, which has one too."""
    error = float(drawn[name].std()) / math.sqrt(drawn[name].attrs["ess"])
    assert drawn[name].attrs["ess"] > 400
    assert abs(float(drawn[name].mean()) - expected) < 5.0 * math.hypot(error, other), name


@pytest.mark.slow_cases("0")
@pytest.mark.parametrize("i", [0, 3, 12, 18])
def test_records_and_quadrature_agree_without_the_bounds(i: int) -> None:
    """n is 3, 5, 3 and 10."""
    release, prior, constrained = setting(i)
    assert not constrained
    drawn = gibbs_records(release, prior, False, rng=i, cap=CAP, **LENGTHS)["posterior"]
    found = posterior(release, prior, False, cap=CAP)
    for name in ("mu", "sigma2"):
        check(drawn, found.mean(name), name)


@pytest.mark.parametrize(
    "release",
    [BoundedRelease(0.45, 0.004, n=3, epsilon=(5.0, 8.0)), BoundedRelease(1.2, -0.1, n=5, epsilon=(0.5, 10.0))],
    ids=["within", "outside"],
)
def test_records_with_their_normaliser_and_quadrature_agree_away_from_the_bounds(release: BoundedRelease) -> None:
    drawn = gibbs_records(release, TIGHT, rng=1, **LENGTHS)["posterior"]
    found = posterior(release, TIGHT, feasibility="normalised")
    for name in ("mu", "sigma2"):
        check(drawn, found.mean(name), name)


@pytest.mark.parametrize("i", [1, 10, 13])
def test_records_with_their_normaliser_are_truncated_normal_ones(i: int) -> None:
    """n is 5, 5 and 10; in the second the release is outside, and the quadrature's E mu 0.28 for 0.22 here."""
    release, prior, constrained = setting(i)
    assert constrained
    drawn = gibbs_records(release, prior, rng=i, **LENGTHS)["posterior"]
    for name, (expected, error) in brute_force(release, prior, normalised=True).items():
        check(drawn, expected, name, error)


FIRST = {("flat", True): 1, ("flat", False): 9, ("informative", True): 2, ("informative", False): 0}
"""A setting with this prior, with the bounds or without; its numbers are moved to those of the others."""


@cache
def model_density(prior: str, constrained: bool) -> tuple[Any, Any]:
    """A marginal model whose numbers are data, and its log density, mu and sigma2."""
    release, law, _ = setting(FIRST[prior, constrained])
    model = bounded(release, law, constrained, cap=None if constrained else CAP, observed=True)
    parameters = model.replace_rvs_by_values([model["mu"], model["sigma2"]])
    outputs = [model.logp(jacobian=False), *parameters]
    return model, pytensor.function(model.value_vars, outputs, mode=NUMPY_MODE)


@pytest.mark.slow_cases("0", "1")
@pytest.mark.parametrize("i", range(SETTINGS))
def test_the_marginal_model_has_the_density_of_prior_and_likelihood(i: int) -> None:
    release, prior, constrained = setting(i)
    model, function = model_density("flat" if prior == "flat" else "informative", constrained)
    n, (scale1, scale2) = float(release.size), (float(x) for x in release.unit_scales)
    mean, variance = float(release.unit_mean), float(release.unit_variance)
    told = {"n": n, "scale[mean]": scale1, "scale[variance]": scale2}
    with model:
        pm.set_data(told | {"released[mean]": mean, "released[variance]": variance})
    rng, gaps = np.random.default_rng(i), []
    for point in rng.normal(0.0, 1.5, (12, 2)):
        logp, mu, v = (float(x) for x in function(*point))
        rates = 1.0 / scale1, 1.0 / scale2
        if constrained:
            expected = log_feasible(n, mu, v, *rates, mean, variance)[0]
        else:
            expected = normal_laplace(mean, mu, v / n, rates[0])[0]
            expected += gamma_laplace(variance, 0.5 * (n - 1.0), v, rates[1])[0]
        if prior != "flat":
            expected += float(prior.log_prob(mu, v))
        gaps.append(logp - expected)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6 * max(1.0, np.abs(gaps[0])))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("form", ["marginal", "joint"])
def test_both_models_sampled_agree_with_the_quadrature(form: str) -> None:
    """Three settings with the bounds and a flat prior: n is 5, 100 and 10."""
    import arviz as az
    import nutpie  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its compiler
        compiled = nutpie.compile_pymc_model(bounded(setting(1)[0], "flat", True, form, observed=True))
    for i in (1, 7, 13):
        release, prior, constrained = setting(i)
        assert (prior, constrained) == ("flat", True)
        scale1, scale2 = (np.asarray(x, dtype=np.float64) for x in release.unit_scales)
        numbers = {"n": release.size, "scale[mean]": scale1, "scale[variance]": scale2}
        numbers |= {"released[mean]": release.unit_mean, "released[variance]": release.unit_variance}
        told = compiled.with_data(**{name: np.asarray(x, dtype=np.float64) for name, x in numbers.items()})
        options = {"draws": 500, "tune": 400, "chains": 4, "cores": 1, "seed": i, "target_accept": 0.95}
        draws = nutpie.sample(told, progress_bar=False, **options)["posterior"]
        found = posterior(release)
        for name in ("mu", "sigma2"):
            values = draws[name].values
            size = float(az.ess(values))
            assert size > 400
            assert abs(values.mean() - found.mean(name)) < 5.0 * values.std() / math.sqrt(size), (i, name)
