"""The record-level model of a regression known by noisy sums: its density, its prior, and one posterior by sampling."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.conditioning import remove_value_transforms
from scipy import stats

from adversary.bounded import regression as reg
from adversary.models.importance import PriorPredictive
from adversary.models.summaries.regression_model import log_normal_mass, regression

X, Y = np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.4, 0.9])
RELEASE = reg.RegressionRelease.of(X, Y, 1.0, rng=1)
SKEWED = reg.RegressionLaw((0.4, 0.3), ((2.0, 0.7), (0.7, 1.5)), 5.0, 0.3)
KINDS = [(True, "weak"), (True, "tight"), (False, "weak")]
LATENT = ("intercept", "slope", "sigma2", "x", "y")


def points(kind: tuple[bool, str], count: int) -> list[dict[str, Any]]:
    """Random latents inside the region, quantile for sigma2 where the model has it."""
    constrained, region = kind
    rng, found = np.random.default_rng(2), []
    while len(found) < count:
        theta = rng.normal(0.3, 0.5, 2)
        if constrained and not reg.feasible_coefficients(theta, region):  # type: ignore[arg-type]
            continue
        y = rng.random(3) if constrained else rng.normal(size=3)
        point = {"intercept": theta[0], "slope": theta[1], "x": rng.random(3), "y": y}
        found.append({**point, **({"quantile": rng.random()} if constrained else {"sigma2": rng.uniform(0.01, 1)})})
    return found


def log_density(point: dict[str, Any], constrained: bool, covariate: tuple[float, float]) -> float:
    """The story of the module in plain scipy, up to nothing."""
    x, y, theta = point["x"], point["y"], np.array([point["intercept"], point["slope"]])
    variance = stats.invgamma(SKEWED.a0, scale=SKEWED.b0)
    total = 0.0
    if constrained:
        v = float(1.0 / stats.gamma(SKEWED.a0, scale=1 / SKEWED.b0).isf(point["quantile"] * variance.cdf(0.25)))
    else:
        v = point["sigma2"]
        total += variance.logpdf(v)
    total += stats.multivariate_normal(SKEWED.mean, v * np.linalg.inv(SKEWED.Lambda0)).logpdf(theta)
    line, s = theta[0] + theta[1] * x, np.sqrt(v)
    law = stats.truncnorm(-line / s, (1 - line) / s, line, s) if constrained else stats.norm(line, s)
    total += law.logpdf(y).sum() + stats.beta(*covariate).logpdf(x).sum()
    exact = np.concatenate(
        [[x.sum(), (x**2).sum(), y.sum(), (x * y).sum(), (y**2).sum()], [(x**k).sum() for k in (1, 2, 3, 4)]]
    )
    noisy = np.concatenate(list(RELEASE.observed.values()))
    return float(total + stats.laplace(exact, 1.0).logpdf(noisy).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_the_density_is_that_of_the_story(kind: tuple[bool, str]) -> None:
    covariate = (1.5, 2.0)
    model = regression(RELEASE, SKEWED, *kind, covariate=covariate)  # type: ignore[arg-type]
    logp = remove_value_transforms(pm.observe(model, RELEASE.observed)).compile_logp()
    for point in points(kind, 8):
        assert float(logp(point)) == pytest.approx(log_density(point, kind[0], covariate), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_can_be_drawn_and_keeps_the_constraints(kind: tuple[bool, str]) -> None:
    constrained, region = kind
    model = regression(RELEASE, SKEWED, *kind)  # type: ignore[arg-type]
    worlds, share = PriorPredictive.of(model, [*LATENT, *RELEASE.observed]).draw(4000, np.random.default_rng(3))
    theta = np.stack([worlds["intercept"], worlds["slope"]], axis=-1)
    rng = np.random.default_rng(4)
    v = stats.invgamma(SKEWED.a0, scale=SKEWED.b0).rvs(40_000, random_state=rng)
    root = np.linalg.cholesky(np.linalg.inv(SKEWED.Lambda0))
    whole = SKEWED.mean + np.sqrt(v)[:, None] * (rng.normal(size=(v.size, 2)) @ root.T)
    if constrained:
        kept = (v <= 0.25) & reg.feasible_coefficients(whole, region)  # type: ignore[arg-type]
        assert share == pytest.approx(kept.sum() / (v <= 0.25).sum(), abs=0.05)
        assert np.asarray(reg.feasible_coefficients(theta, region)).all()  # type: ignore[arg-type]
        assert worlds["sigma2"].max() <= 0.25
        assert ((worlds["y"] >= 0) & (worlds["y"] <= 1)).all()
        whole, v = whole[kept], v[kept]
    for found, law in ((theta[:, 0], whole[:, 0]), (theta[:, 1], whole[:, 1]), (worlds["sigma2"], v)):
        assert stats.ks_2samp(found, law).pvalue > 1e-3
    noise = worlds["noisy[sums]"][:, 0] - worlds["x"].sum(1)
    assert stats.kstest(noise, stats.laplace(0, 1.0).cdf).pvalue > 1e-3


def test_the_release_is_free_and_labelled() -> None:
    model = regression(RELEASE)
    names = {variable.name for variable in model.free_RVs}
    assert {"noisy[sums]", "noisy[moments]", "quantile", "slope", "intercept", "x", "y"} == names
    assert {name: tuple(model.named_vars_to_dims[name]) for name in ("x", "y", *RELEASE.observed)} == {
        "x": ("record",),
        "y": ("record",),
        "noisy[sums]": ("statistic",),
        "noisy[moments]": ("moment",),
    }
    assert list(model.coords["statistic"]) == ["x", "xx", "y", "xy", "yy"]
    assert {v.dtype for v in model.value_vars} == {"float64"}
    assert {v.name for v in pm.observe(model, RELEASE.observed).observed_RVs} == set(RELEASE.observed)


def test_the_mass_of_an_interval_is_accurate_in_either_tail_with_its_gradient() -> None:
    import mpmath
    import pytensor
    import pytensor.tensor as pt

    low, width = pt.dscalar("low"), pt.dscalar("width")
    mass = log_normal_mass(low, low + width, np.float64(0.3), np.float64(0.2))
    function = pytensor.function([low, width], [mass, *pt.grad(mass, [low, width])])
    for at in (-20.0, -8.0, -1.0, 0.1, 0.29, 2.0, 15.0):
        for wide in (1e-3, 0.5, 2.0, 30.0):
            with mpmath.workdps(60):
                ends = [(mpmath.mpf(at) - mpmath.mpf(0.3)) / mpmath.mpf(0.2)]
                ends.append(ends[0] + mpmath.mpf(wide) / mpmath.mpf(0.2))
                signs = -1 if ends[0] > 0 else 1  # the tail where the difference has digits
                exact = signs * (
                    mpmath.erfc(-signs * ends[1] / mpmath.sqrt(2)) - mpmath.erfc(-signs * ends[0] / mpmath.sqrt(2))
                )
                expected = float(mpmath.log(exact / 2))
            found, *slopes = (float(x) for x in function(at, wide))
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
            assert np.isfinite(slopes).all()


def weighted_prior(count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draws (intercept, slope, sigma2) of the constrained prior, and the likelihood of the release with its records."""
    v = 1.0 / np.maximum(rng.gamma(SKEWED.a0, 1.0 / SKEWED.b0, count), 1e-9)
    theta = SKEWED.mean + np.sqrt(v)[:, None] * (
        rng.normal(size=(count, 2)) @ np.linalg.cholesky(np.linalg.inv(SKEWED.Lambda0)).T
    )
    kept = (v <= 0.25) & np.asarray(reg.feasible_coefficients(theta))
    theta, v = theta[kept], v[kept]
    x = rng.random((v.size, 3))
    line, s = theta[:, :1] + theta[:, 1:] * x, np.sqrt(v)[:, None]
    y = stats.truncnorm.rvs(-line / s, (1 - line) / s, line, s, random_state=rng)
    exact = [x.sum(1), (x**2).sum(1), y.sum(1), (x * y).sum(1), (y**2).sum(1), *((x**k).sum(1) for k in (1, 2, 3, 4))]
    noisy = np.concatenate(list(RELEASE.observed.values()))
    return np.column_stack([theta, v]), np.exp(-np.abs(np.stack(exact, axis=1) - noisy).sum(1))


@pytest.mark.slow
@pytest.mark.thorough
def test_draws_agree_with_importance_sampling_and_no_chain_is_stuck() -> None:
    values, weight = weighted_prior(400_000, np.random.default_rng(6))
    weight = weight / weight.sum()
    mean = weight @ values
    sd = np.sqrt(weight @ (values - mean) ** 2)
    assert 1 / (weight**2).sum() > 5000
    import nutpie  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its compiler
        compiled = nutpie.compile_pymc_model(pm.observe(regression(RELEASE, SKEWED), RELEASE.observed))
        tree = nutpie.sample(compiled, draws=1000, tune=500, chains=2, seed=1, progress_bar=False)
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    for i, name in enumerate(("intercept", "slope", "sigma2")):
        draws = tree["posterior"][name].values
        ess = float(array_stats.ess(draws, chain_axis=0, draw_axis=1))
        assert float(array_stats.rhat(draws, chain_axis=0, draw_axis=1)) < 1.05
        assert ess > 200
        assert abs(draws.mean() - mean[i]) < 5 * sd[i] * (ess**-0.5 + 5000**-0.5)
        assert draws.std() == pytest.approx(sd[i], rel=0.15)
    assert int(tree["sample_stats"]["diverging"].sum()) < 40
