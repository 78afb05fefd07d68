"""Enumeration of PyMC models against explicit loops over every joint state."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.stats as st
import xarray as xr

from adversary.models import noise
from adversary.models.enumeration.batched_graphs import NUMPY_MODE, soft_checks
from adversary.models.enumeration.enumerate import compile_enumerator, enumerate_posterior
from adversary.privacy import mechanisms
from tests.catalogue import RHO1, RHO2

BLOCK, GROUP = mechanisms.DiscreteGaussian.from_rho(RHO1), mechanisms.DiscreteGaussian.from_rho(RHO2)


def gaussian_pmf(k: int, rho: float) -> float:
    return math.exp(-rho * k * k) / sum(math.exp(-rho * j * j) for j in range(-60, 61))


def sum_pmf(rho: float, count: int) -> dict[int, float]:
    """Pmf of a sum of discrete Gaussians, by convolution."""
    single = np.array([gaussian_pmf(k, rho) for k in range(-30, 31)])
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, single)
    return dict(zip(range(-(total.size // 2), total.size // 2 + 1), total.tolist(), strict=True))


@pytest.fixture(scope="module")
def two_levels() -> pm.Model:
    """Model B of the notes, written by hand, with plain Python constants."""
    with pm.Model() as model:
        inside = pm.Bernoulli("in", 0.5)
        others = pm.DiscreteUniform("others", 0, 60)
        total = pm.Deterministic("total", inside + others)
        noise.released("noisy1", BLOCK, inside)
        noise.released("noisy2", GROUP, total)
        noise.released("sum", BLOCK, others, 27)
    return model


def test_one_block_equals_bayes_rule() -> None:
    with pm.Model() as model:
        noise.released("noisy", BLOCK, pm.Bernoulli("in", np.float64(0.1)))
    result = enumerate_posterior(model, {"noisy": 3})
    weights = [0.9 * gaussian_pmf(3, RHO1), 0.1 * gaussian_pmf(2, RHO1)]
    assert result.posterior.dims == ()
    assert result.posterior.item() == pytest.approx(weights[1] / sum(weights), abs=1e-14)
    assert result.log_evidence.item() == pytest.approx(math.log(sum(weights)), abs=1e-13)
    assert result.prior.item() == pytest.approx(0.1, abs=1e-15)
    assert result.edge_mass.item() == 0.0
    assert result.attrs["states"] == 2


def test_two_levels_equal_the_published_exact_values_and_a_loop_over_states(two_levels: pm.Model) -> None:
    result = enumerate_posterior(two_levels, {"noisy1": 2, "noisy2": 1, "sum": -1}, ["in", "total"])
    h = sum_pmf(RHO1, 27)
    joint = {
        (k, y): 0.5 / 61 * gaussian_pmf(2 - k, RHO1) * gaussian_pmf(1 - k - y, RHO2) * h[-1 - y]
        for k, y in itertools.product((0, 1), range(61))
    }
    evidence = sum(joint.values())
    assert result["posterior[in]"].item() == pytest.approx(0.5032878, abs=5e-8)
    assert result["posterior[in]"].item() == pytest.approx(
        sum(p for s, p in joint.items() if s[0]) / evidence, abs=1e-13
    )
    assert result.log_evidence.item() == pytest.approx(math.log(evidence), abs=1e-12)
    pmf = result["probability[total]"]
    assert pmf.dims == ("total",)
    for total in range(8):
        expected = sum(p for s, p in joint.items() if sum(s) == total) / evidence
        assert pmf.sel(total=total).item() == pytest.approx(expected, abs=1e-13)
    np.testing.assert_allclose(pmf[:7], [0.1294, 0.3866, 0.2979, 0.1392, 0.0394, 0.0068, 0.0007], atol=3e-4)


def test_plain_python_constants_do_not_cost_precision(two_levels: pm.Model) -> None:
    with pm.Model() as model:
        pm.Bernoulli("in", 0.5)
        rate = pm.DiscreteUniform("rate", 1, 60)
        pm.Poisson("y", rate * 0.25)
        pm.Normal("z", 2.0 * rate, 5)
    result = enumerate_posterior(model, {"y": 3, "z": 7.5}, "rate")
    rates = np.arange(1, 61)
    joint = np.exp(st.poisson.logpmf(3, rates * 0.25) + st.norm.logpdf(7.5, 2.0 * rates, 5.0)) / 60
    np.testing.assert_allclose(result.probability, joint / joint.sum(), rtol=1e-12)
    assert result.log_evidence.item() == pytest.approx(math.log(joint.sum()), abs=1e-13)
    assert "posterior" not in result
    assert two_levels.logp().dtype == "float64"


def test_releases_are_vectorised_and_keep_their_labels(two_levels: pm.Model) -> None:
    noisy1, noisy2, total = (a.ravel() for a in np.meshgrid([-3, 0, 4], [0, 2], [-9, 5], indexing="ij"))
    observed = {
        "noisy1": xr.DataArray(noisy1, dims="release", coords={"release": np.arange(100, 112)}),
        "noisy2": noisy2,
    }
    run = compile_enumerator(two_levels, ["noisy1", "noisy2", "sum"])
    many = run({**observed, "sum": total.astype(float)})
    assert many.posterior.dims == ("release",)
    assert many.probability.dims == ("release", "in")
    assert many.prior.dims == ()
    assert list(many["release"].values) == list(range(100, 112))
    for i in range(12):
        one = run({"noisy1": noisy1[i], "noisy2": noisy2[i], "sum": total[i]})
        assert many.posterior[i].item() == pytest.approx(one.posterior.item(), rel=1e-13)
    shared = run({"noisy1": noisy1, "noisy2": 0, "sum": -9})
    assert shared.posterior[0].item() == many.posterior[0].item()


def test_many_states_and_many_releases_are_cut_into_chunks(
    monkeypatch: pytest.MonkeyPatch, two_levels: pm.Model
) -> None:
    rng = np.random.default_rng(1)
    observed = {"noisy1": rng.integers(-3, 4, 50), "noisy2": rng.integers(-2, 4, 50), "sum": rng.integers(-9, 9, 50)}
    whole = enumerate_posterior(two_levels, observed, ["in", "total"])
    monkeypatch.setattr("adversary.models.enumeration.state_grid._CELLS_AT_ONCE", 37)
    xr.testing.assert_allclose(enumerate_posterior(two_levels, observed, ["in", "total"]), whole, rtol=1e-12)


@pytest.mark.slow
def test_vector_latents_potentials_and_deterministics() -> None:
    pmf = np.array([0.2, 0.5, 0.3])
    with pm.Model(coords={"cell": ["a", "b"]}) as model:
        x = pm.Categorical("x", p=pmf, dims="cell")
        flag = pm.Bernoulli("flag", p=pt.constant(np.array([0.3, 0.6, 0.9]))[x[0]])
        pm.Deterministic("total", x.sum() + flag)
        pm.Deterministic("shifted", x + 10, dims="cell")
        pm.Potential("tie", pm.math.switch(pm.math.eq(x[0] + x[1], 4), np.float64(-np.inf), np.float64(0.25) * flag))
        pm.Normal("y", x + np.float64(0.5) * flag, np.float64(1.5), dims="cell")
    y = np.array([[0.3, 1.9], [2.0, -1.0]])
    result = enumerate_posterior(model, {"y": y}, ["x", "total", "shifted"])
    for row in range(2):
        joint: dict[tuple[int, int, int], float] = {}
        for a, b, f in itertools.product(range(3), range(3), range(2)):
            chance = [0.3, 0.6, 0.9][a]
            weight = pmf[a] * pmf[b] * (chance if f else 1 - chance) * math.exp(0.25 * f) * (a + b != 4)
            joint[a, b, f] = weight * math.prod(st.norm.pdf(y[row], np.array([a, b]) + 0.5 * f, 1.5))
        evidence = sum(joint.values())
        assert result.log_evidence[row].item() == pytest.approx(math.log(evidence), abs=1e-12)
        law = result["probability[x]"].isel(release=row)
        assert law.dims == ("cell", "x")
        for cell, value in itertools.product(range(2), range(3)):
            expected = sum(p for s, p in joint.items() if s[cell] == value) / evidence
            assert law[cell, value].item() == pytest.approx(expected, abs=1e-13)
        for total in range(5):
            expected = sum(p for s, p in joint.items() if sum(s) == total) / evidence
            assert result["probability[total]"].sel(total=total)[row].item() == pytest.approx(expected, abs=1e-13)
    np.testing.assert_allclose(result["probability[shifted]"], result["probability[x]"])
    assert list(result["shifted"].values) == [10, 11, 12]
    assert result["cell"].values.tolist() == ["a", "b"]


def test_prior_counts_potentials_on_the_latents_alone() -> None:
    with pm.Model() as model:
        x = pm.Bernoulli("in", np.float64(0.25))
        y = pm.Normal("y", x, np.float64(1))
        pm.Potential("on latents", np.log(3.0) * x)
        pm.Potential("on the release", -(y**2) * x)
    result = enumerate_posterior(model, {"y": 1.0})
    assert result.prior.item() == pytest.approx(0.5, abs=1e-14)
    odds = math.exp(0.5 - 1.0)
    assert result.posterior.item() == pytest.approx(odds / (1 + odds), abs=1e-14)


def test_data_containers_can_be_batched_observed_or_left_alone() -> None:
    with pm.Model() as model:
        sigma = pm.Data("sigma", 2.0)
        y = pm.Data("y", np.array([1.0, 0.5]))
        x = pm.Bernoulli("in", np.float64(0.5))
        pm.Normal("noisy", x, sigma, observed=y)
    expected = [
        np.prod(st.norm.pdf([1.0, 0.5], 1, s)) / sum(np.prod(st.norm.pdf([1.0, 0.5], k, s)) for k in (0, 1))
        for s in (1, 2)
    ]
    assert enumerate_posterior(model, {}).posterior.item() == pytest.approx(expected[1], abs=1e-14)
    np.testing.assert_allclose(
        enumerate_posterior(model, {"sigma": np.array([1.0, 2.0])}).posterior, expected, atol=1e-14
    )
    flipped = enumerate_posterior(model, {"y": np.array([[1.0, 0.5], [0.0, 0.5]])}).posterior
    assert float(flipped.sum()) == pytest.approx(1.0, abs=1e-14)
    assert enumerate_posterior(model, {"noisy": np.array([0.0, 0.5])}).posterior.item() == pytest.approx(
        1 - expected[1]
    )


@pytest.mark.slow
def test_an_observed_model_and_a_derived_release() -> None:
    with pm.Model() as model:
        x = pm.Bernoulli("in", np.float64(0.5))
        noise.released("noisy", GROUP, x)
    fixed = enumerate_posterior(pm.observe(model, {"noisy": np.int64(2)}), {})
    assert fixed.posterior.item() == pytest.approx(enumerate_posterior(model, {"noisy": 2}).posterior.item(), abs=1e-15)
    with pm.Model() as model:
        x = pm.Bernoulli("in", np.float64(0.5))
        pm.Deterministic("clamped", pm.math.clip(noise.DiscreteGaussian.dist(x, rho=RHO2), 0, 2))
    clamped = enumerate_posterior(model, {"clamped": np.array([0, 1, 2])})
    weights = [[sum(gaussian_pmf(z - k, RHO2) for z in range(-60, 1)), gaussian_pmf(1 - k, RHO2)] for k in (0, 1)]
    np.testing.assert_allclose(clamped.posterior[:2], [weights[1][i] / (weights[0][i] + weights[1][i]) for i in (0, 1)])


@pytest.mark.slow
def test_given_supports_report_what_lies_at_their_edge() -> None:
    with pm.Model() as model:
        x = pm.Poisson("x", np.float64(4))
        pm.Normal("y", x, np.float64(2))
    run = compile_enumerator(model, ["y"], "x", {"x": np.arange(8)})
    result = run({"y": np.array([0.0, 9.0])})
    x = np.arange(200)
    weights = st.poisson.pmf(x, 4) * st.norm.pdf(9.0, x, 2)
    np.testing.assert_allclose(result.edge_mass, [st.poisson.sf(7, 4), weights[7:].sum() / weights.sum()], rtol=1e-10)
    assert result.status.values.tolist() == ["unreliable", "unreliable"]
    assert enumerate_posterior(model, {"y": 0.0}, "x", {"x": range(40)}).edge_mass.item() < 1e-20
    noise_latent = enumerate_posterior(_noise_latent(), {"y": 0.5}, "x", {"x": [-1, 0, 1]})
    weights = np.exp(-(np.arange(-9.0, 10.0) ** 2)) * st.norm.pdf(0.5, np.arange(-9, 10))
    assert noise_latent.edge_mass.item() == pytest.approx(1.0 - weights[9] / weights.sum(), abs=1e-12)


def _noise_latent() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", noise.DiscreteGaussian("x", 0, 0.5), np.float64(1))
    return model


def test_dependent_bounds_take_the_hull() -> None:
    with pm.Model() as model:
        a = pm.DiscreteUniform("a", np.float64(0), np.float64(3))
        b = pm.DiscreteUniform("b", a, np.float64(5))
        pm.Normal("y", b, np.float64(1))
    result = enumerate_posterior(model, {"y": 2.5}, "a", {"b": range(6)})
    weights = np.array([sum(st.norm.pdf(2.5, b, 1) for b in range(a, 6)) / (6 - a) for a in range(4)])
    np.testing.assert_allclose(result.probability, weights / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(result.prior_probability, np.full(4, 0.25), rtol=1e-12)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown observed": ({"observed": {"nosy": 1}}, ValueError, "observed 'nosy' is not in the model, which has"),
    "unknown target": ({"target": "out"}, ValueError, "target 'out' is not in the model; did you mean target='in'"),
    "observed target": ({"target": "noisy1"}, ValueError, "among the observed"),
    "unknown support": ({"support": {"x": [1]}}, ValueError, "support names 'x', which is not a latent"),
    "fractional support": ({"support": {"others": [0.5]}}, ValueError, "must be a list of whole numbers"),
    "fractional count": ({"observed": {"noisy1": 1.5}}, ValueError, "must be whole numbers, got 1.5"),
    "nan": ({"observed": {"noisy1": np.nan}}, ValueError, "noisy1 must not be NaN"),
    "int32 wrap": ({"observed": {"noisy1": 2.0**31}}, ValueError, "must be below 2\\^31"),
    "text": ({"observed": {"noisy1": "2"}}, TypeError, "must be numeric"),
    "extra axis": ({"observed": {"noisy1": [[1, 2]]}}, ValueError, "must have shape"),
    "lengths": ({"observed": {"noisy1": [1, 2], "noisy2": [1, 2, 3]}}, ValueError, "different numbers of releases"),
    "unobserved release": (
        {"drop": "sum"},
        ValueError,
        "latent 'sum' has no finite support .* support={'sum': values}",
    ),
}


@pytest.mark.slow_cases("lengths")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused(case: str, two_levels: pm.Model) -> None:
    change, error, message = REFUSED[case]
    observed = {"noisy1": 2, "noisy2": 1, "sum": -1} | change.get("observed", {})
    observed.pop(change.get("drop", ""), None)
    with pytest.raises(error, match=message):
        enumerate_posterior(two_levels, observed, change.get("target", "in"), change.get("support"))


def test_too_large_a_grid_is_refused(monkeypatch: pytest.MonkeyPatch, two_levels: pm.Model) -> None:
    monkeypatch.setattr("adversary.models.enumeration.state_grid.LARGEST_GRID", 100)
    with pytest.raises(ValueError, match=r"122 joint states, more than 1e\+02; values per latent: .*'others': \(61,\)"):
        enumerate_posterior(two_levels, {"noisy1": 2, "noisy2": 1, "sum": -1})


def test_continuous_latents_are_refused() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Beta("p", 1, 1), 1)
    with pytest.raises(TypeError, match="latent 'p' is continuous"):
        enumerate_posterior(model, {"y": 0.0}, "p")


def test_an_impossible_release_is_refused_and_named() -> None:
    with pm.Model() as model:
        noise.released("noisy", mechanisms.Exact(), pm.Bernoulli("in", np.float64(0.5)))
    run = compile_enumerator(model, ["noisy"])
    assert run({"noisy": 1}).posterior.item() == 1.0
    with pytest.raises(ValueError, match=r"impossible at release 2: \{'noisy': 7\}"):
        run({"noisy": [0, 1, 7]})
    with pytest.raises(ValueError, match="compiled for releases of"):
        run({})


def test_an_undefined_density_is_refused() -> None:
    with pm.Model() as model:
        x = pm.Bernoulli("in", np.float64(0.5))
        pm.Potential("nan", pm.math.log(x - np.float64(1)))
    with pytest.raises(ValueError, match=r"log density is nan at \{'in': 0\}"):
        enumerate_posterior(model, {})


def test_the_likelihood_of_answers_is_one_function_of_whichever_argument_is_chosen() -> None:
    x, answers = pt.dvector("x"), np.array([1, 0, 1])
    graph = pm.logp(pm.Bernoulli.dist(logit_p=x, shape=3), pt.constant(answers))
    compiled = pytensor.function([x], soft_checks(graph), mode=NUMPY_MODE)
    assert len([node for node in compiled.maker.fgraph.apply_nodes if "Log1p" in str(node.op)]) == 1
    at = np.array([-2.0, 0.5, 3.0])
    np.testing.assert_allclose(compiled(at), -np.log1p(np.exp(np.where(answers == 1, -at, at))), rtol=1e-14)
