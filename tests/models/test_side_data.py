"""Observed rows in quantity beside the release: one fit without it gives the draws that every release weighs."""

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
        assert abs(found.answer.present - expit(logs[0] - logs[1])) < 4 * found.answer.mcse < 0.03
