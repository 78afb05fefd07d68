"""Supports of truncated laws, in enumeration and in the law's own density; labels of vector targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st

from adversary.models import batching, supports
from adversary.reader.enumeration import enumerate_posterior


def bounds(build: Any) -> tuple[int, int]:
    """Smallest and largest value of the latent x of a model."""
    with pm.Model() as model:
        build()
    (axis,) = supports.support_of(model["x"], {}, set(model.basic_RVs))[1]
    return int(axis[0]), int(axis[-1])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), upper=7), (0, 7)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), lower=2, upper=7), (2, 7)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), lower=1.5, upper=7.5), (2, 7)),
        (lambda: pm.Truncated("x", pm.NegativeBinomial.dist(alpha=3.0, p=0.5), upper=9), (0, 9)),
        (lambda: pm.Truncated("x", pm.Geometric.dist(0.5), upper=4), (1, 4)),
        (lambda: pm.Truncated("x", pm.Binomial.dist(12, 0.5), lower=3), (3, 12)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(pm.Gamma("rate", 2.0, 1.0)), upper=6), (0, 6)),
        (lambda: pm.Truncated("x", pm.Binomial.dist(pm.DiscreteUniform("n", 2, 5), 0.5), lower=1), (1, 5)),
        (lambda: pm.Binomial("x", 4, pm.Beta("theta", 1.0, 2.0)), (0, 4)),
        (lambda: pm.Bernoulli("x", pm.Beta("theta", 1.0, 2.0)), (0, 1)),
    ],
)
def test_a_support_is_the_laws_own_cut_by_the_truncation(build: Any, expected: tuple[int, int]) -> None:
    assert bounds(build) == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda: pm.Poisson("x", 2.0),
        lambda: pm.Truncated("x", pm.Poisson.dist(2.0), lower=1),
        lambda: pm.Mixture("x", np.array([0.5, 0.5]), [pm.Poisson.dist(1.0), pm.Poisson.dist(2.0)]),
    ],
)
def test_an_infinite_support_is_refused_with_its_remedies(build: Any) -> None:
    with pytest.raises(ValueError, match=r"latent 'x' has no finite support.*pm\.Truncated.*support=\{'x': values\}"):
        bounds(build)


@pytest.mark.parametrize(
    ("law", "twin", "lower", "upper"),
    [
        (lambda: pm.Poisson.dist(2.3), st.poisson(2.3), 0, 12),
        (lambda: pm.Poisson.dist(2.3), st.poisson(2.3), 3, 9),
        (lambda: pm.NegativeBinomial.dist(alpha=3.0, p=0.25), st.nbinom(3, 0.25), 0, 30),
        (lambda: pm.Binomial.dist(20, 0.1), st.binom(20, 0.1), 2, 8),
    ],
)
def test_truncated_laws_have_their_exact_log_probabilities(law: Any, twin: Any, lower: int, upper: int) -> None:
    """To the precision of a double, with constants that PyTensor would read as 32-bit ones."""
    with pm.Model() as model:
        pm.Truncated("x", law(), lower=lower or None, upper=upper)
    values = np.arange(-1, upper + 3)
    (graph,) = batching.vectorized(model.logp(sum=False), {model.rvs_to_values[model["x"]]: pt.constant(values)})
    found = graph.eval(mode=batching.NUMPY_MODE)
    inside = (values >= lower) & (values <= upper)
    mass = twin.cdf(upper) - twin.cdf(lower - 1)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[inside], twin.logpmf(values[inside]) - np.log(mass), rtol=1e-12)
    assert np.isneginf(found[~inside]).all()


def test_a_truncated_latent_is_enumerated() -> None:
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Truncated("others", pm.Poisson.dist(2.0), upper=6)
        pm.Normal("noisy", present + others, 1.5)
    result = enumerate_posterior(model, {"noisy": 2.2})
    k = np.arange(7)
    weights = st.poisson.pmf(k, 2.0) * np.array([[0.7], [0.3]]) * st.norm.pdf(2.2, k + np.array([[0], [1]]), 1.5)
    assert result["posterior"].item() == pytest.approx(weights[1].sum() / weights.sum(), abs=1e-14)


def test_a_vector_target_keeps_the_models_coordinates() -> None:
    with pm.Model(coords={"person": ["Ann", "Ben"], "cell": [10, 20, 30]}) as model:
        present = pm.Bernoulli("in", np.array([0.2, 0.6]), dims="person")
        pm.Deterministic("place", present[:, None] * np.arange(3), dims=("person", "cell"))
        pm.Normal("noisy", present.sum(), np.float64(1.0))
    result = enumerate_posterior(model, {"noisy": 1.3}, ["in", "place"])
    assert result["person"].values.tolist() == ["Ann", "Ben"]
    assert result["cell"].values.tolist() == [10, 20, 30]
    assert result["probability[place]"].dims == ("person", "cell", "place")
    assert result["posterior[in]"].sel(person="Ben").item() > result["posterior[in]"].sel(person="Ann").item()
