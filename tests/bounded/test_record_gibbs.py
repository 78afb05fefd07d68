"""The record-level sampler: with its normaliser, without it, without constraints, each against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import NormalInverseGamma
from adversary.bounded.thesis import record_gibbs, statistics_gibbs

Floats = NDArray[np.float64]
RELEASE = BoundedRelease(0.15, 0.02, n=4, epsilon=(1.0, 1.0))
PRIOR = NormalInverseGamma(0.4, 2.0, 6.0, 0.2)
SHORT: dict[str, Any] = {"draws": 5000, "burn": 500, "chains": 2, "rng": 5}


def brute_force(release: BoundedRelease, prior: Any, *, normalised: bool) -> dict[str, tuple[float, float]]:
    """Mean and standard error of mu and sigma2: records drawn from the model, weighted by the noise's density."""
    rng, n, size = np.random.default_rng(6), int(release.size), 200_000
    mu = rng.beta(2.0, 2.0, size)
    sigma2 = rng.random(size) * mu * (1 - mu)
    sd = np.sqrt(sigma2)
    low, high = stats.norm.cdf(-mu / sd)[:, None], stats.norm.cdf((1 - mu) / sd)[:, None]
    y = mu[:, None] + sd[:, None] * stats.norm.ppf(low + (high - low) * rng.random((size, n)))
    misfits = zip(
        (release.unit_mean - y.mean(1), release.unit_variance - y.var(1, ddof=1)), release.unit_scales, strict=True
    )
    weight = np.exp(-sum(np.abs(misfit) / scale for misfit, scale in misfits))
    weight *= 1.0 if normalised else (high - low)[:, 0] ** n
    weight *= 1.0 if prior == "flat" else np.exp(prior.log_prob(mu, sigma2))
    means = {name: float(weight @ x / weight.sum()) for name, x in (("mu", mu), ("sigma2", sigma2))}
    errors = [
        float(np.sqrt(weight**2 @ (x - m) ** 2) / weight.sum())
        for x, m in zip((mu, sigma2), means.values(), strict=True)
    ]
    return {name: (mean, error) for (name, mean), error in zip(means.items(), errors, strict=True)}


def error(tree: xr.DataTree, name: str) -> float:
    draws = tree["posterior"][name]
    return float(draws.std()) / float(np.sqrt(draws.attrs["ess"]))


@pytest.mark.parametrize("feasibility", ["normalised", "event"])
@pytest.mark.parametrize("prior", ["flat", PRIOR], ids=["flat", "informative"])
def test_constrained_draws_agree_with_brute_force(feasibility: str, prior: Any) -> None:
    tree = record_gibbs.gibbs_records(RELEASE, prior, feasibility=feasibility, **SHORT)
    for name, (mean, other) in brute_force(RELEASE, prior, normalised=feasibility == "normalised").items():
        assert abs(float(tree["posterior"][name].mean()) - mean) < 5.0 * np.hypot(error(tree, name), other), name


def test_the_factor_left_out_favours_small_variances_and_central_means() -> None:
    kept, lost = (brute_force(RELEASE, "flat", normalised=x) for x in (True, False))
    assert lost["sigma2"][0] < 0.8 * kept["sigma2"][0]
    assert abs(lost["mu"][0] - 0.5) < abs(kept["mu"][0] - 0.5)


@pytest.mark.parametrize("prior", ["flat", PRIOR], ids=["flat", "informative"])
def test_unconstrained_draws_have_the_law_of_the_statistics_level(prior: Any) -> None:
    release = BoundedRelease(0.3, 0.05, n=12, epsilon=(0.5, 0.5))
    here = record_gibbs.gibbs_records(release, prior, constrained=False, **SHORT)
    there = statistics_gibbs.gibbs(release, prior, constrained=False, **SHORT)
    for name in statistics_gibbs.NAMES:
        gap = float(here["posterior"][name].mean() - there["posterior"][name].mean())
        assert abs(gap) < 5.0 * np.hypot(error(here, name), error(there, name)), name


def test_draws_are_feasible_seeded_and_labelled() -> None:
    tree = record_gibbs.gibbs_records(RELEASE, **SHORT)
    draws = tree["posterior"]
    assert (draws["sigma2"] <= draws["mu"] * (1 - draws["mu"]) * (1 + 1e-12)).all()
    top = 4 / 3 * draws["sample_mean"] * (1 - draws["sample_mean"])
    assert (draws["sample_variance"] <= top + 1e-12).all()
    rate = tree["sample_stats"]["acceptance_rate"]
    assert rate.dims == ("chain", "draw")
    assert ((rate >= 0.0) & (rate <= 1.0)).all()
    assert draws.attrs["feasibility"] == "normalised"
    assert (record_gibbs.gibbs_records(RELEASE, **SHORT)["posterior"]["mu"] == draws["mu"]).all()
    assert (record_gibbs.gibbs_records(RELEASE, cap=0.05, **SHORT)["posterior"]["sigma2"] <= 0.05).all()


def test_large_epsilon_needs_no_cap() -> None:
    release = BoundedRelease(0.3, 0.08, 6, (2.0, 3.0))
    here, there = record_gibbs.gibbs_records(release, **SHORT), brute_force(release, "flat", normalised=True)
    for name, (mean, other) in there.items():
        assert abs(float(here["posterior"][name].mean()) - mean) < 5.0 * np.hypot(error(here, name), other), name


def test_too_few_draws_are_called_unreliable() -> None:
    with pytest.warns(UserWarning, match="The draws are unreliable") as caught:
        record_gibbs.gibbs_records(RELEASE, draws=50, thin=1, rng=1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("release", "options", "match"),
    [
        (RELEASE, {"feasibility": "exact"}, 'must be "event" or "normalised", got \'exact\''),
        (BoundedRelease(0.3, 0.1, 43, rho=(0.1, 0.1)), {}, "Laplace noise.*adv.bounded.posterior"),
        (BoundedRelease(0.3, None, 43, 0.1), {}, "variance=None"),
        (BoundedRelease(0.3, 0.1, 3, (0.1, 0.1)), {"constrained": False}, "Theorem 18"),
        (RELEASE, {"prior": lambda mu, sigma2: 0.0 * mu}, "adv.bounded.posterior"),
        (RELEASE, {"cap": -1.0}, "cap must be positive"),
    ],
)
def test_what_the_sampler_cannot_answer_is_refused(
    release: BoundedRelease, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        record_gibbs.gibbs_records(release, **options)
