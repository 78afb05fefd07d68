"""Side data that leave few draws of the prior, or several modes: right, with all modes by their masses, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from scipy.special import expit, logsumexp

from adversary import Gaussian, Geometric, audit_model
from adversary.models import noise
from adversary.models.enumeration import NUMPY_MODE, compile_batches
from adversary.models.fitting import Fitter, expected_cost
from adversary.models.fitting.expected_cost import tell_cost

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


def test_rows_of_a_logistic_regression_are_a_few_operations_each() -> None:
    """No chance is worked out to see that it lies between 0 and 1, no row is chosen by its answer, and rows lie next to
    each other; the numbers are those of SciPy's law."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(7, 2)), np.array([0, 1, 1, 0, 0, 1, 0])
    slope = pt.dvector("slope")
    term = pm.logp(pm.Bernoulli.dist(logit_p=pt.dot(x, slope)), y)
    draws = np.concatenate([rng.normal(size=(5, 2)), [[400.0, -900.0], [0.0, 0.0]]])
    run: Any = compile_batches([term], {slope: (None,)}, joined=lambda parts: [parts[0].sum(axis=-1)])
    wanted = [st.bernoulli.logpmf(y, expit(x @ one)).sum() for one in draws[:5]]
    np.testing.assert_allclose(run(draws)[0][:5], wanted, rtol=1e-12)
    assert run(draws)[0][6] == pytest.approx(7 * np.log(0.5))
    assert np.isfinite(run(draws)[0][5])
    names = {str(node.op) for node in run.maker.fgraph.toposort()}
    assert {"Sigmoid", "Ge", "Le"}.isdisjoint(names)
    assert not any("inf" in name for name in run(np.full((1, 2), np.nan))[0].astype(str) if name != "-inf")


@pytest.mark.parametrize(
    ("graph", "function"),
    [
        (lambda x: pt.ge(pt.sigmoid(x), 0.0), lambda x: ~np.isnan(x)),
        (lambda x: pt.le(pt.sigmoid(x), 0.5), lambda x: x <= 0),
        (lambda x: pt.ge(pt.exp(x), 0.0), lambda x: ~np.isnan(x)),
        (lambda x: pt.ge(pt.exp(x), 1.0), lambda x: x >= 0),
        (lambda x: pt.ge(pt.exp(x[:1]), np.zeros(4)), lambda x: np.repeat(~np.isnan(x[:1]), 4)),
        (lambda x: pt.switch(np.array([1, 0, 1, 0]), -x, x), lambda x: x * [-1.0, 1.0, -1.0, 1.0]),
        (lambda x: pt.switch(np.array([1, 0, 1, 0]), x, -x), lambda x: x * [1.0, -1.0, 1.0, -1.0]),
        (lambda x: pt.switch(x > -1.0, 0.0, -np.inf).sum(), lambda x: 0.0 if (x > -1.0).all() else -np.inf),
        (lambda x: pt.dot(pt.outer(x, x), pt.outer(x, x)).T, lambda x: (np.outer(x, x) @ np.outer(x, x)).T),
    ],
)
def test_operations_in_place_of_slower_ones_are_the_same(graph: Any, function: Any) -> None:
    x = pt.dvector("x", shape=(4,))
    run = pytensor.function([x], graph(x), mode=NUMPY_MODE)
    for value in ([0.5, -0.25, 800.0, 0.0], [-3.0, 1.0, -800.0, 2.0], [np.nan, 1.0, np.inf, -np.inf]):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(run(np.array(value)), function(np.array(value)), rtol=1e-12)


def test_what_takes_long_is_said_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(expected_cost, "tell_watchers", lines.append)
    tell_cost(9.0, "posteriors of 5 releases")
    tell_cost(400.0, "posteriors of 5 releases", shown=False)
    tell_cost(400.0, "posteriors of 5 releases")
    assert lines == ["posteriors of 5 releases: about 6.7 min of processor time"]


@pytest.mark.slow
def test_an_audit_with_many_rows_says_first_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before releases are drawn, which need the side data too; nothing is compiled twice."""
    rng = np.random.default_rng(2)
    age = rng.normal(size=1500)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 10.0)
        pm.Bernoulli("ill", logit_p=slope * age, observed=rng.binomial(1, expit(age)))
        noise.released("noisy", COUNT, pm.Bernoulli("in", pm.math.sigmoid(slope)) + pm.Binomial("others", 4, 0.3))
    lines: list[str] = []
    compiled: list[str] = []
    of = Fitter.of
    monkeypatch.setattr(expected_cost, "tell_watchers", lines.append)
    for place in ("adversary.models.fitting.expected_cost.LONG", "adversary.models.fitting.LONG"):
        monkeypatch.setattr(place, 1e-6)
    monkeypatch.setattr(Fitter, "of", lambda *given: (compiled.append("one"), of(*given))[1])
    tree = audit_model(model, {"ill": {"in": 1}, "well": {"in": 0}}, released="noisy", draws=50, rng=1)
    assert lines[0].startswith("draws of the latents given the side data: about")
    assert "posteriors of " in lines[1]
    assert tree.attrs["expected_seconds"] >= 0
    assert compiled == ["one"]
    assert (tree["risk"]["status"].values == "ok").all()


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
