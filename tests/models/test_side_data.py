"""Side data that leave few draws of the prior, or several modes: right, with all modes by their masses, or refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from scipy.special import expit, logsumexp

from adversary import Gaussian, Geometric
from adversary.models import noise
from adversary.models.fitting import Fitter

COUNT, SLOPE = Geometric(1.0), Gaussian(0.002)


@pytest.mark.parametrize(
    "rows", [500, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.thorough])], ids="{} rows".format
)
def test_rows_of_a_logistic_regression_count_as_on_a_grid(rows: int) -> None:
    """A count, and the regression's slope so exactly that few draws given the rows are near it: these are refined."""
    rng = np.random.default_rng(1)
    age = rng.normal(size=rows)
    ill = rng.binomial(1, expit(0.8 * age - 0.3))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 10.0)
        pm.Bernoulli("ill", logit_p=slope * age - 0.3, observed=ill)
        present = pm.Bernoulli("in", pm.math.sigmoid(3.0 * slope - 2.4))
        noise.released("count", COUNT, present + 10)
        noise.released("slope of all", SLOPE, slope + 0.003 * present)
    grid = np.linspace(0.0, 1.6, 8001)
    log_p = np.array([(ill * (eta := x * age - 0.3) - np.logaddexp(0, eta)).sum() for x in grid])
    log_p += st.norm(0, 10).logpdf(grid)
    share = np.exp(log_p - logsumexp(log_p))
    middle = share @ grid
    spread = np.sqrt(share @ (grid - middle) ** 2)
    data = {"count": np.array([10, 11, 9]), "slope of all": middle + spread * np.array([0.0, -1.5, 2.0])}
    fitter = Fitter.of(model, tuple(data), rng=1)
    assert fitter.prior.proposal is not None
    for i, found in enumerate(fitter.prior.weigh(data, 2)):
        logs = [
            logsumexp(log_p + np.log(own) + st.norm(grid + 0.003 * x, SLOPE.sigma).logpdf(data["slope of all"][i]))
            + COUNT.log_prob(data["count"][i], 10 + x)
            for x, own in ((1, expit(3.0 * grid - 2.4)), (0, expit(2.4 - 3.0 * grid)))
        ]
        assert found.reliable
        assert abs(found.answer.present - expit(logs[0] - logs[1])) < 4 * found.answer.mcse < 0.06


@pytest.mark.slow
def test_side_data_with_two_modes_weigh_both() -> None:
    """A survey says how large |a| is and nothing of its sign: P(a > 0) stays that of the prior."""
    with pm.Model() as model:
        a = pm.NormalMixture("a", np.array([0.8, 0.2]), np.array([3.0, -3.0]), sigma=0.3)
        pm.Normal("side", pm.math.abs(a), 0.01, observed=np.array([2.98, 3.0, 3.02, 3.01]))
        present = pm.Bernoulli("in", pm.math.switch(a > 0, 0.9, 0.1))
        noise.released("noisy", COUNT, present)
    for seed in range(3):
        prior = Fitter.of(model, ("noisy",), rng=seed).prior
        found, error = prior.before()
        assert abs(found - (0.8 * 0.9 + 0.2 * 0.1)) < 4 * error < 0.02
        (sample,) = prior.weigh({"noisy": np.array([1])})
        odds = found / (1 - found) * np.e
        assert sample.reliable
        assert sample.answer.present == pytest.approx(odds / (1 + odds), abs=1e-9)


@pytest.mark.slow
def test_a_survey_by_randomised_response_of_unknown_direction_weighs_both_directions() -> None:
    with pm.Model() as model:
        rate = pm.Beta("rate", 2.0, 4.0)
        flip = pm.Bernoulli("flip", 0.5)
        pm.Binomial("survey", 6000, pm.math.switch(flip, 1 - rate, rate), observed=1200)
        noise.released("noisy", COUNT, pm.Bernoulli("in", rate) + pm.Binomial("others", 5, rate))
    nodes, weight = np.polynomial.legendre.leggauss(2000)
    x = (nodes + 1) / 2
    law = weight * st.beta(2, 4).pdf(x) * (st.binom.pmf(1200, 6000, x) + st.binom.pmf(1200, 6000, 1 - x))
    for seed in range(3):
        found, error = Fitter.of(model, ("noisy",), rng=seed).prior.before()
        assert abs(found - law @ x / law.sum()) < 4 * error < 0.012


@pytest.mark.slow
def test_chains_that_find_some_of_the_modes_are_refused() -> None:
    """Fourteen cells are too many for a mixture to fill, and two of them may have either sign: chains stay where they
    start, and none may speak for all."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.0, shape=14)
        pm.Normal("side", pm.math.concatenate([pm.math.abs(x[:2]), x[2:]]), 0.02, observed=np.linspace(0.8, 1.2, 14))
        present = pm.Bernoulli("in", pm.math.sigmoid(2.0 * x[0]))
        noise.released("noisy", COUNT, present)
    with pytest.raises(ValueError, match=r"the posterior given the side data could not be sampled.*give a longer"):
        Fitter.of(model, ("noisy",), rng=1)
