"""Tables with known margins as PyMC models: against the reader's own engine, brute force, and their sampler."""

from __future__ import annotations

import itertools
import math
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_random
from scipy.special import gammaln

import adversary as adv
from adversary import models
from adversary.adversaries import known_totals as cd
from adversary.adversaries.known_totals.contingency import complete_tables
from adversary.models.enumeration.supports import support_of
from adversary.models.fitting import margin_gibbs
from adversary.models.importance import PriorPredictive
from adversary.models.stories.free_cells import FreeCells
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import conditioned as oracle

MARGINS = ([3, 2, 2], [4, 3])
PI = np.array([[0.3, 0.1], [0.1, 0.2], [0.1, 0.2]])
NOISY = np.array([[3, 1], [0, 2], [1, 1]])
SPACE = sensitivity_space(*MARGINS, 3)


@pytest.mark.slow_cases("geometric")
@pytest.mark.parametrize(
    ("noise", "prior", "known"),
    [
        (adv.DiscreteGaussian(1.2), None, None),
        (adv.Geometric(0.6), PI, None),
        (adv.Laplace(1.5), cd.Dirichlet(3 * PI), [[1, 0], [0, 1], [1, 0]]),
        (adv.postprocessing.clamped(adv.Geometric(0.6)), PI, None),
        (SpanGaussian(SPACE, 0.8), PI, None),
        (KNorm(SPACE, 0.5), None, None),
    ],
    ids=["discrete gaussian", "geometric", "laplace", "clamped", "gaussian on the span", "k-norm"],
)
def test_enumeration_of_the_model_agrees_with_the_reader(noise: Any, prior: Any, known: Any) -> None:
    noisy: Any = np.stack([NOISY, NOISY[::-1], 2 * NOISY])
    if isinstance(noise, SpanGaussian | KNorm):
        noisy = noise.sample(np.array([[2.0, 1], [1, 1], [1, 1]]), np.random.default_rng(4), size=3)
    target = (1, 1)
    exact = cd.table_posterior(MARGINS, noisy, noise, prior, known=known)
    model = models.invariants(MARGINS, noise, prior, known=known, target=target)
    found = adv.enumerate_posterior(model, {"noisy": noisy}, ["in", "table"])
    np.testing.assert_allclose(found["posterior[in]"], exact.posterior.sel(row=1, column=1), rtol=1e-9)
    np.testing.assert_allclose(found["prior[in]"], exact.given.sel(row=1, column=1), rtol=1e-10)
    np.testing.assert_allclose(found.log_evidence, exact.log_evidence, rtol=1e-9)
    law = found["probability[table]"]
    assert law.dims[-3:] == ("row", "column", "table")
    wide = exact.probability.reindex(count=law["table"].values, fill_value=0.0).values
    np.testing.assert_allclose(law.values, wide, atol=1e-11)


def test_every_state_keeps_the_margins() -> None:
    model = models.invariants(MARGINS, adv.Geometric(1.0), PI)
    shape, axes = support_of(model["free_cells"], {}, set(model.basic_RVs))
    assert shape == (2,)
    low, high = cd.cell_bounds(*MARGINS)
    assert [(axis[0], axis[-1]) for axis in axes] == [(low[i, 0], high[i, 0]) for i in (0, 1)]
    log_density = model.compile_logp(vars=[model["free_cells"]])
    mass = 0.0
    for state in itertools.product(*axes):
        table = complete_tables(np.array(state), *MARGINS)
        np.testing.assert_array_equal(table.sum(1), MARGINS[0])
        np.testing.assert_array_equal(table.sum(0), MARGINS[1])
        log_p = float(log_density({"free_cells": np.array(state), "noisy": np.zeros((3, 2), dtype=int)}))
        assert math.isinf(log_p) == bool((table < 0).any())
        mass += math.exp(log_p)
    assert mass == pytest.approx(1.0, rel=1e-12)
    model.check_start_vals(model.initial_point())


@pytest.mark.parametrize("prior", [None, PI], ids=["uniform", "uneven"])
def test_draws_before_a_release_are_those_of_databases_with_the_margins(prior: Any) -> None:
    model = models.invariants(MARGINS, adv.Exact(), prior, target=(0, 0))
    draws, accepted = PriorPredictive.of(model, ["table", "noisy", "in"]).draw(8000, np.random.default_rng(6))
    assert accepted == 1.0
    np.testing.assert_array_equal(draws["table"], draws["noisy"])
    weight = np.full((3, 2), 1 / 6) if prior is None else prior
    expected: dict[Any, float] = {}
    for database in oracle.databases(*MARGINS):
        table = oracle.table_of(database, (3, 2))
        expected[table] = expected.get(table, 0.0) + math.prod(float(weight[record]) for record in database)
    total = math.fsum(expected.values())
    seen = [tuple(map(tuple, table)) for table in draws["table"].tolist()]
    for table, p in expected.items():
        share = p / total
        assert seen.count(table) / 8000 == pytest.approx(share, abs=4.5 * math.sqrt(share / 8000))
    assert draws["in"].mean() == pytest.approx(draws["table"][:, 0, 0].mean() / 7, abs=0.025)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [cd.Independent(np.full((3, 2), 1 / 6)), cd.Independent(PI)], ids=["uniform", "uneven"]
)
def test_draws_in_numba_have_the_law_of_the_free_cells(prior: Any) -> None:
    cells = compile_random([], FreeCells.dist(prior, *MARGINS, size=8000), mode="NUMBA")()
    seen, counts = np.unique(cells, axis=0, return_counts=True)
    law = FreeCells.dist(prior, *MARGINS)
    for state, count in zip(seen, counts, strict=True):
        share = float(pm.logp(law, state).exp().eval())
        assert count / 8000 == pytest.approx(share, abs=4.5 * math.sqrt(share / 8000))


def test_a_published_table_may_be_given_at_once() -> None:
    model = models.invariants(MARGINS, adv.Geometric(0.6), released=NOISY)
    assert [rv.name for rv in model.observed_RVs] == ["noisy"]
    told = adv.enumerate_posterior(model, {}, "table")
    free = adv.enumerate_posterior(models.invariants(MARGINS, adv.Geometric(0.6)), {"noisy": NOISY}, "table")
    np.testing.assert_allclose(told.probability, free.probability, rtol=1e-12)
    with pytest.raises(ValueError, match="released must be a whole number"):
        models.invariants(MARGINS, adv.Geometric(0.6), released=NOISY + 0.5)


def test_an_audit_takes_the_model() -> None:
    model = models.invariants(MARGINS, adv.Geometric(0.6), target=(0, 0))
    tree = models.fit(model, {"noisy": NOISY}, sampling=adv.Sampling(draws=50), rng=1)
    exact = cd.table_posterior(MARGINS, NOISY, adv.Geometric(0.6))
    assert float(tree["exact"]["posterior"]) == pytest.approx(float(exact.posterior[0, 0]), rel=1e-10)
    assert (tree["posterior"]["free_cells"].sizes["draw"], tree["posterior"]["in"].dims) == (50, ("chain", "draw"))


def test_the_step_leaves_the_exact_law_as_it_is() -> None:
    """One update of the exact posterior gives the exact posterior."""
    model = models.invariants(([2, 1, 1], [2, 1, 1]), adv.Geometric(0.9), released=np.eye(3, dtype=int))
    with model:
        step = models.MarginGibbs(updates=1, rng=3)
    exact = cd.table_posterior(([2, 1, 1], [2, 1, 1]), np.eye(3), adv.Geometric(0.9))
    tables = cd.conforming_tables([2, 1, 1], [2, 1, 1])
    assert tables is not None
    places = {
        tuple(table[:-1, :-1].ravel()): i for i, table in enumerate(tables.tolist()) for table in [np.array(table)]
    }
    matrix = np.zeros((len(tables), len(tables)))
    for state, i in places.items():
        for _ in range(150):
            after = step.step({"free_cells": np.array(state)})[0]["free_cells"]
            matrix[i, places[tuple(after.tolist())]] += 1 / 150
    log_p = adv.Geometric(0.9).log_prob(np.eye(3, dtype=int), tables).sum((1, 2)) - gammaln(tables + 1.0).sum((1, 2))
    law = np.exp(log_p - np.logaddexp.reduce(log_p))
    np.testing.assert_allclose(np.tensordot(law, tables, 1), exact["mean"], rtol=1e-12)
    np.testing.assert_allclose(law @ matrix, law, atol=0.03)


def test_the_step_moves_where_single_cells_cannot() -> None:
    """One record in each row and column: no free cell can change alone and keep every count non-negative."""
    ones = [1, 1, 1]
    model = models.invariants((ones, ones), adv.Geometric(0.1), released=np.zeros((3, 3), dtype=int))
    start = {"free_cells": np.array([1, 0, 0, 1])}
    with model:
        step = models.MarginGibbs(rng=1)
    seen = set()
    point = start
    for _ in range(60):
        point = step.step(point)[0]
        seen.add(tuple(point["free_cells"].tolist()))
    assert len(seen) == 6
    assert start["free_cells"].tolist() == [1, 0, 0, 1]


def test_a_long_line_is_looked_at_in_stretches() -> None:
    rng = np.random.default_rng(1)
    for down, up in ((0, 9000), (9000, 0), (5000, 5000), (3, 2), (2000, 2095)):
        steps = margin_gibbs.MarginGibbs._steps(down, up, rng)
        assert 0 in steps
        assert steps[0] >= -down
        assert steps[-1] <= up
        assert steps.size <= margin_gibbs.LONGEST_LINE
    assert margin_gibbs.MarginGibbs._steps(3, 2, rng).tolist() == [-3, -2, -1, 0, 1, 2]


@pytest.mark.slow
def test_sampling_a_large_table_agrees_with_the_list() -> None:
    margins, noisy = ([400, 380], [390, 390]), np.array([[220, 178], [169, 215]])
    model = models.invariants(margins, adv.DiscreteGaussian(20.0), released=noisy)
    with model:
        trace = pm.sample(
            draws=500, tune=50, chains=2, cores=1, step=models.MarginGibbs(), random_seed=3, progressbar=False,
            compute_convergence_checks=False, quiet=True,
        )  # fmt: skip
    exact = cd.table_posterior(margins, noisy, adv.DiscreteGaussian(20.0))
    cell = trace.posterior["free_cells"]
    law = exact.probability[0, 0]
    sd = float(((law * (law["count"] - exact["mean"][0, 0]) ** 2).sum()) ** 0.5)
    assert float(az.rhat(trace, var_names=["free_cells"])["free_cells"].max()) < 1.05
    assert float(cell.mean()) == pytest.approx(float(exact["mean"][0, 0]), abs=4.5 * sd / 800**0.5)
    sums = trace.posterior["table"].sum("row").values
    np.testing.assert_array_equal(np.broadcast_to(margins[1], sums.shape), sums)


def test_only_free_cells_of_tables_are_walked() -> None:
    with pm.Model():
        x = pm.DiscreteUniform("x", 0, 3)
        with pytest.raises(ValueError, match="no free cells"):
            models.MarginGibbs()
        with pytest.raises(TypeError, match="'x' is not such"):
            models.MarginGibbs([x])


def test_too_many_tables_are_drawn_only_where_databases_are_alike() -> None:
    rows = columns = np.full(5, 40)
    uniform = models.invariants((rows, columns), adv.Geometric(1.0))
    table = pm.draw(uniform["table"], random_seed=1)
    np.testing.assert_array_equal(table.sum(0), columns)
    shares = np.random.default_rng(1).dirichlet(np.ones(25)).reshape(5, 5)
    uneven = models.invariants((rows, columns), adv.Geometric(1.0), shares)
    with pytest.raises(ValueError, match="too many to draw from before a release"):
        pm.draw(uneven["table"], random_seed=1)
    cells = FreeCells.dist(cd.Independent(PI), *MARGINS, size=(2, 3))
    assert cells.eval().shape == (2, 3, 2)
