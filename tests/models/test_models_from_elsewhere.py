"""Models of Bambi with a release added, other backends of nutpie: the page's own code, and a model like it by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
import xarray as xr
from scipy.special import expit

import adversary as adv
from adversary import Sampling, models

PAGE = Path(__file__).parents[2] / "notebooks/tasks/from_elsewhere/bambi_or_preliz.md"
AGE = np.array([31, 45, 52, 60, 67, 38, 71, 49, 55, 64])
SICK = np.array([0, 0, 1, 0, 1, 0, 1, 0, 1, 1])
SLOPE = 1.0 / AGE.std()
PEOPLE = np.array([33, 48, 58, 70]) - AGE.mean()
NOISE = adv.DiscreteGaussian(1.0)


def by_hand() -> pm.Model:
    """The regression of the page without Bambi: centred predictor, its default priors."""
    with pm.Model() as model:
        intercept, slope = pm.Normal("Intercept", 0.0, 1.5), pm.Normal("age", 0.0, SLOPE)
        pm.Bernoulli("sick", pm.math.sigmoid(intercept + slope * (AGE - AGE.mean())), observed=SICK)
        people = pm.Bernoulli("people", pm.math.sigmoid(intercept + slope * PEOPLE))
        pm.Deterministic("in", people[3])
        models.noise.released("noisy", NOISE, people.sum())
    return model


def posteriors(noisy: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """P(in | release) by a grid over intercept and slope, and the sixteen states of the four people."""
    a, b = np.meshgrid(np.linspace(-7.0, 7.0, 281), np.linspace(-5.0, 5.0, 281) * SLOPE, indexing="ij")
    weight = st.norm(0.0, 1.5).pdf(a) * st.norm(0.0, SLOPE).pdf(b)
    for age, sick in zip(AGE - AGE.mean(), SICK, strict=True):
        weight = weight * expit((1 if sick else -1) * (a + b * age))
    chance = expit(a[..., None] + b[..., None] * PEOPLE)
    parts = np.zeros((2, len(noisy)))
    for state in np.ndindex(2, 2, 2, 2):
        share = (weight * np.where(state, chance, 1.0 - chance).prod(axis=-1)).sum()
        parts[state[3]] += share * np.exp(NOISE.log_prob(noisy, sum(state)))
    return np.asarray(parts[1] / parts.sum(axis=0))


def check(tree: xr.DataTree) -> None:
    estimate, noisy = tree["estimate"].to_dataset(), tree["release"].to_dataset()["noisy"].values
    assert set(estimate["status"].values.tolist()) == {"ok"}
    off = (estimate["posterior"].values - posteriors(noisy)) / estimate["mcse"].values
    assert np.abs(off).max() < 5


@pytest.mark.slow
def test_a_logistic_regression_with_its_survey_is_an_adversary() -> None:
    check(adv.audit_model(by_hand(), {"in": 1}, draws=200, rng=1, progress=False))


@pytest.mark.slow
def test_the_regression_that_bambi_writes_is_the_one_by_hand() -> None:
    bambi = pytest.importorskip("bambi", reason="Bambi is not installed")
    block = next(one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    assert "import bambi as bmb" in block
    names: dict[str, Any] = {"bmb": bambi}
    exec(block, names)
    spread = float(names["regression"].components["p"].common_terms["age"].prior.args["sigma"])
    assert spread == pytest.approx(SLOPE, rel=1e-9)
    check(names["tree"])


def one_rate() -> pm.Model:
    with pm.Model() as model:
        rate = pm.Beta("rate", 2.0, 5.0)
        models.noise.released("noisy", NOISE, pm.Binomial("others", 6, rate) + pm.Bernoulli("in", rate))
    return model


def test_settings_of_the_compilation_reach_nutpie(monkeypatch: pytest.MonkeyPatch) -> None:
    import nutpie  # type: ignore[import-untyped]

    class Reached(Exception):
        pass

    def compile_pymc_model(model: pm.Model, **options: Any) -> None:
        raise Reached(options)

    monkeypatch.setattr(nutpie, "compile_pymc_model", compile_pymc_model)
    settings = {"backend": "jax", "gradient_backend": "jax"}
    with pytest.raises(Reached) as reached:
        models.fit(one_rate(), {"noisy": 3}, sampling=Sampling(compile_kwargs=settings), rng=1, progress=False)
    assert reached.value.args == (settings,)
    with pytest.raises(TypeError, match="compile_kwargs must be a mapping of names to settings, got 'jax'"):
        Sampling(compile_kwargs="jax")  # type: ignore[arg-type]
    assert hash(Sampling(compile_kwargs=settings)) == hash(Sampling())


@pytest.mark.slow
def test_steps_of_ones_own_give_the_answer_of_nuts() -> None:
    """A slice sampler of what is unknown beside the target, which is summed out in every draw all the same."""
    given = []

    def step(model: pm.Model) -> Any:
        given.append(model)
        return [pm.Slice([model["others"]])]

    with pm.Model() as model:
        others = pm.Normal("others", 0.0, 1.0)
        models.noise.released("noisy", adv.Gaussian(1.0), others + 2.0 * pm.Bernoulli("in", 0.3))
    sampling = Sampling(draws=800, tune=200, chains=2)
    tree = models.fit(model, {"noisy": 1.5}, sampling=sampling, step=step, rng=1, progress=False)
    out, present = (st.norm.pdf(1.5, 2.0 * t, np.sqrt(2.0)) * own for t, own in enumerate((0.7, 0.3)))
    found = tree["estimate"]
    assert [rv.name for rv in given[0].observed_RVs] == ["noisy"]
    assert found["status"].item() == "ok"
    assert abs(float(found["posterior"]) - present / (present + out)) < 5 * float(found["mcse"])
    assert tree.attrs["engine"] == tree["posterior"].attrs["inference_library"] == "pymc"


def test_steps_must_have_something_to_move() -> None:
    with pytest.raises(TypeError, match="step must be a function of the model given the release, got 'slice'"):
        models.fit(one_rate(), {"noisy": 3}, step="slice")  # type: ignore[arg-type]
    with pm.Model() as counts:
        models.noise.released("noisy", NOISE, pm.Binomial("others", 3, 0.5) + pm.Bernoulli("in", 0.5))
    with pytest.raises(ValueError, match="step has nothing to move: all latents are summed out"):
        models.fit(counts, {"noisy": 3}, step=lambda given: [])


@pytest.mark.slow
def test_jax_gives_the_draws_of_numba() -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    found = []
    for settings in ({}, {"backend": "jax", "gradient_backend": "jax"}):
        sampling = Sampling(draws=500, compile_kwargs=settings)
        found.append(models.fit(one_rate(), {"noisy": 3}, sampling=sampling, rng=1, progress=False)["estimate"])
    assert found[0]["status"].item() == found[1]["status"].item() == "ok"
    assert float(found[1]["posterior"]) == pytest.approx(float(found[0]["posterior"]), abs=5e-3)
