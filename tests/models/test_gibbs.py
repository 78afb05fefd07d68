"""The corrected Gibbs step against exact conditionals and posteriors, and the published chain's stationary law."""

from __future__ import annotations

import itertools
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest

from adversary.adversaries.beliefs.belief import Uniform
from adversary.adversaries.path.adversary import Adversary
from adversary.adversaries.plans.plan import Level, Plan
from adversary.adversaries.plans.release import observed
from adversary.literature import ExactGibbs, published_gibbs_probability
from adversary.models import hierarchical_counts
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.privacy import mechanisms
from tests.catalogue import RHO1, RHO2

BLOCK, GROUP = mechanisms.DiscreteGaussian.from_rho(RHO1), mechanisms.DiscreteGaussian.from_rho(RHO2)
TWO = Plan([Level("block", BLOCK, siblings=27), Level("block group", GROUP)])
READER = Adversary(0.5, 0, {"block group": Uniform()})
RELEASE = TWO.observe({"block": 2, "block group": 1}, sibling_sum={"block": -1})


def whole(values: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value).astype(np.int64) for name, value in values.items()}


def test_one_update_draws_from_the_exact_full_conditional() -> None:
    with pm.Model(coords={"cell": [0, 1]}) as model:
        x = pm.Categorical("x", p=np.array([0.2, 0.5, 0.3]), dims="cell")
        y = pm.Bernoulli("y", np.float64(0.4))
        pm.Normal("z", x.sum() - np.float64(1.5) * y, np.float64(1.0), observed=np.float64(0.7))
        step = ExactGibbs([x], rng=3)
    start = {"x": np.array([0, 2]), "y": np.array(1)}
    log_density = model.compile_logp()
    states = list(itertools.product(range(3), repeat=2))
    joint = np.array([[np.exp(log_density({**start, "x": np.array([a, b])})) for b in range(3)] for a in range(3)])
    first = joint[:, 2] / joint[:, 2].sum()
    sweep = first[:, None] * joint / joint.sum(axis=1, keepdims=True)  # cell 0 given the old cell 1, then cell 1
    draws = [tuple(step.step(dict(start))[0]["x"].tolist()) for _ in range(2000)]
    seen = np.array([draws.count(state) for state in states]) / len(draws)
    np.testing.assert_allclose(seen, sweep.ravel(), atol=0.03)
    assert start["x"].tolist() == [0, 2]


def test_the_total_holds_the_count_inside_down() -> None:
    with pm.observe(
        hierarchical_counts(TWO, Adversary(0.5, 0, {"block group": Uniform(6)}), upper=20), whole(observed(RELEASE))
    ) as model:
        step = ExactGibbs([model["others[block group]"]], rng=1)
        point = {"in": np.array(1), "others[block group]": np.array(0)}
        draws = {int(step.step(point)[0]["others[block group]"]) for _ in range(200)}
        assert isinstance(step.step(point)[0]["others[block group]"], np.ndarray)  # compiled code takes no NumPy scalar
    assert max(draws) <= 5
    assert min(draws) >= 0


def test_a_start_of_probability_zero_is_refused() -> None:
    with pm.Model():
        x = pm.Bernoulli("x", np.float64(0.5))
        pm.DiscreteUniform("y", np.float64(5), np.float64(6))
        pm.Potential("never", pm.math.switch(x >= 0, np.float64(-np.inf), np.float64(0)))
        step = ExactGibbs(rng=1)
    with pytest.raises(ValueError, match="start the chain at a point of positive probability"):
        step.step({"x": np.array(0), "y": np.array(5)})


def test_only_discrete_latents_with_a_support_are_sampled() -> None:
    with pm.Model():
        p = pm.Beta("p", 1, 1)
        pm.Poisson("y", 5 * p)
        with pytest.raises(TypeError, match="'p' is continuous"):
            ExactGibbs([p])
        with pytest.raises(ValueError, match="latent 'y' has no finite support"):
            ExactGibbs()
        assert [v.name for v in ExactGibbs(support={"y": range(30)}).vars] == ["y"]


@pytest.mark.slow
def test_sampling_agrees_with_the_exact_posterior() -> None:
    values = observed(RELEASE)
    free = hierarchical_counts(TWO, READER, upper=30)
    model = pm.observe(free, whole(values))
    start = model.initial_point()
    model.check_start_vals(start)
    with model:
        trace = pm.sample(
            draws=1000, tune=0, chains=2, cores=1, step=ExactGibbs(), initvals=start, random_seed=11, progressbar=False,
            compute_convergence_checks=False, quiet=True,
        )  # fmt: skip
    unknown = ["in", "others[block group]"]
    rhat, ess = az.rhat(trace, var_names=unknown), az.ess(trace, var_names=unknown)
    exact = enumerate_posterior(free, values, unknown)
    for name in unknown:
        assert float(rhat[name]) < 1.02, name  # False for NaN, the mark of a chain that never moved
        law = exact[f"probability[{name}]"]
        mean = float((law * law[name]).sum())
        sd = float(((law * law[name] ** 2).sum() - mean**2) ** 0.5)
        assert float(trace.posterior[name].mean()) == pytest.approx(mean, abs=4 * sd / float(ess[name]) ** 0.5), name


def test_published_law_equals_a_chain_solved_by_hand() -> None:
    """The two printed conditionals as one transition matrix on (X1, X2), and its left eigenvector."""
    totals = np.arange(0, 25)
    prior, noisy1, noisy2, total = 0.2, 3, 1, -4
    link = {(k, x): float(BLOCK.total(27).log_prob(total, x - k)) for k in (0, 1) for x in totals}
    inside = np.array([[prior if k else 1 - prior for k in (0, 1)] for _ in totals])
    inside *= np.exp([[BLOCK.log_prob(noisy1, k) + link[k, x] for k in (0, 1)] for x in totals])
    inside /= inside.sum(axis=1, keepdims=True)  # P(X1 | X2) as published: no X1 <= X2
    above = np.exp([[GROUP.log_prob(noisy2, x) + link[k, x] if x >= k else -np.inf for x in totals] for k in (0, 1)])
    above /= above.sum(axis=1, keepdims=True)
    matrix = above @ inside
    expected = matrix[0, 1] / (matrix[0, 1] + matrix[1, 0])
    values = {"noisy[block]": noisy1, "noisy[block group]": noisy2, "sibling_sum[block]": total}
    reader = Adversary(prior, 0, {"block group": Uniform()})
    assert published_gibbs_probability(TWO, reader, values) == pytest.approx(expected, abs=1e-12)


def test_published_law_is_only_for_the_published_setting() -> None:
    with pytest.raises(ValueError, match="two levels"):
        published_gibbs_probability(Plan([Level("block", BLOCK)]), READER, {})
