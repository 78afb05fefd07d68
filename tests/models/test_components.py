"""Sums that factorise: what elements read, the components, and answers against sums written out."""

from __future__ import annotations

import itertools
from math import factorial
from typing import Any
from unittest import mock

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.stats as st

import adversary as adv
from adversary.models.enumeration import Components, Grid, compile_enumerator, condition, support_of
from adversary.models.enumeration.components import _exclusions
from adversary.models.enumeration.element_reads import element_reads
from adversary.models.importance import WeighedPrior
from adversary.models.noise import released
from tests.oracles.field import FIELD, SHARE, vectors

ROWS = pt.tensor("rows", shape=(3, 3), dtype="int64")
ONE = pt.lscalar("one")
OWN = {
    ROWS: np.repeat(np.eye(4, dtype=bool)[:3, None], 3, axis=1),  # row i is part i
    ONE: np.eye(4, dtype=bool)[3],
}
READ: dict[str, tuple[Any, list[Any]]] = {
    "sum over an axis": (ROWS.sum(axis=1), [{0}, {1}, {2}]),
    "sum": (ROWS.sum(), {0, 1, 2}),
    "transposed": (ROWS.T[0], [{0}, {1}, {2}]),
    "indexed": (ROWS[1:, 0], [{1}, {2}]),
    "indexed by an array": (ROWS[np.array([2, 0]), 1], [{2}, {0}]),
    "index that is open": (ROWS[0, ONE], {0, 3}),
    "a table at an open place": (pt.constant(np.arange(9.0))[ROWS[:, 0]], [{0}, {1}, {2}]),
    "one row changed at an open place": (
        pt.inc_subtensor(ROWS[0, ONE], 1),
        [[{0, 3}] * 3, [{1}] * 3, [{2}] * 3],
    ),
    "one element replaced": (pt.set_subtensor(ROWS[:, 0][1], ONE), [{0}, {3}, {2}]),
    "stacked": (pt.stack([ROWS[0, 0], ONE]), [{0}, {3}]),
    "concatenated": (pt.concatenate([ROWS[2], [ONE]]), [{2}, {2}, {2}, {3}]),
    "times zero": (ROWS[:, 0] + ONE * np.array([1, 0, 0]), [{0, 3}, {1}, {2}]),
    "fixed choice": (pt.switch(np.array([True, False, True]), ROWS[0], ONE), [{0}, {3}, {0}]),
    "dot with a constant": (pt.dot(np.array([[1.0, 0, 0], [0, 1, 1]]), ROWS[:, 0].astype("float64")), [{0}, {1, 2}]),
    "reshaped": (ROWS.reshape((9,))[4:7], [{1}, {1}, {2}]),
    "running sum, which is not known": (pt.cumsum(ROWS[:, 0]), [{0, 1, 2}] * 3),
    "shape": (ROWS.shape.sum() + ONE, {3}),
}


@pytest.mark.parametrize("name", READ)
def test_what_elements_read(name: str) -> None:
    graph, wanted = READ[name]
    (found,) = element_reads([graph], OWN)
    shape = np.array(wanted, dtype=object).shape
    rows = np.broadcast_to(found, (*shape, 4)).reshape(-1, 4)
    sets = np.array(wanted, dtype=object).ravel() if shape else [wanted]
    assert [set(np.flatnonzero(row)) for row in rows] == list(sets)


SIZES = (3, 5, 4)


NOISE = adv.Geometric(0.7)


def block_groups() -> pm.Model:
    """Counts of three categories in three blocks, and one person's record in the first."""
    with pm.Model() as model:
        record = pm.Categorical("record", p=SHARE)
        others = pm.Multinomial("others", n=np.array(SIZES), p=SHARE, shape=(3, 3))
        pm.Deterministic("in", pm.math.eq(record, 0).astype("int64"))
        released("noisy", NOISE, pt.inc_subtensor(others[0, record], 1))
    return model


def sizes(model: pm.Model, names: list[str], target: str = "in") -> list[int]:
    """Number of states of each component."""
    given = condition(model, names)
    grid = Grid.over({name: support_of(given.model[name], {}, given.moving) for name in given.latents})
    values = [given.values_of(target)]
    return sorted(Components.of(grid, list(given.latents.values()), given.log_joint(), values).sizes[:-1])


def test_blocks_are_components() -> None:
    assert sizes(block_groups(), ["noisy"]) == [15, 21, 30]


def test_a_target_of_several_components_joins_them() -> None:
    with pm.Model() as model:
        a = pm.Binomial("a", 3, 0.4, shape=3)
        pm.Deterministic("in", (a[0] + a[2] > 3).astype("int64"))
        pm.Deterministic("first", a[0])
        released("noisy", adv.Geometric(1.0), a)
    assert sizes(model, ["noisy"]) == [4, 16]
    assert sizes(model, ["noisy"], "first") == [4, 4, 4]


def test_a_parameter_that_a_latent_may_break_counts_in_its_own_component() -> None:
    """Where n - a is negative the law of b is impossible; other components are not."""
    with pm.Model() as model:
        a = pm.Binomial("a", np.array([3, 5]), 0.6)
        b = pm.Binomial("b", np.array([2, 4]) - a, 0.5)
        pm.Deterministic("in", pm.math.eq(b[0], 0).astype("int64"))
        released("noisy", adv.Geometric(1.0), a + b)
    assert sizes(model, ["noisy"]) == [12, 30]
    found = adv.enumerate_posterior(model, {"noisy": [1, 3]})
    law = np.array(
        [
            [st.binom.pmf(x, 3, 0.6) * st.binom.pmf(y, 2 - x, 0.5) * np.exp(-abs(1 - x - y)) for y in range(3 - x)]
            + [0.0] * x
            for x in range(3)
        ]
    )
    assert found["posterior"].item() == pytest.approx(law[:, 0].sum() / law.sum(), abs=1e-12)


def test_enumeration_of_components_is_the_sum_written_out() -> None:
    seen = np.array([[2, 1, 1], [3, 2, 1], [1, -1, 2]])
    right = np.zeros(3)
    for record, counts in itertools.product(range(3), vectors(3, 3)):
        chance = factorial(3) * np.prod([s**k / factorial(k) for s, k in zip(SHARE, counts, strict=True)])
        right[record] += SHARE[record] * chance * np.exp(NOISE.log_prob(seen[0], counts + np.eye(3)[record]).sum())
    evidence = [right.sum()]
    for total, row in zip(SIZES[1:], seen[1:], strict=True):
        law = st.multinomial(total, SHARE)
        evidence.append(sum(law.pmf(c) * np.exp(NOISE.log_prob(row, c).sum()) for c in vectors(total, 3)))
    found = adv.enumerate_posterior(block_groups(), {"noisy": seen}, ["in", "record", "others"])
    np.testing.assert_allclose(found["probability[record]"].values, right / right.sum(), atol=1e-12)
    assert found["posterior[in]"].item() == pytest.approx(right[0] / right.sum(), abs=1e-12)
    assert found["log_evidence"].item() == pytest.approx(np.log(evidence).sum(), abs=1e-10)
    assert found["probability[others]"].dims[:2] == ("others_dim_0", "others_dim_1")
    every = vectors(5, 3)
    masses = st.multinomial(5, SHARE).pmf(every) * np.exp(NOISE.log_prob(seen[1], every).sum(axis=1))
    law = np.bincount(every[:, 1], masses / masses.sum(), minlength=6)
    np.testing.assert_allclose(found["probability[others]"].values[1, 1], law, atol=1e-12)


def test_draws_sum_out_what_enumeration_does() -> None:
    """The same model by weighed draws, of which it needs none: exact too, and its joint draws follow the posterior."""
    model, seen = block_groups(), np.array([[2, 1, 1], [3, 2, 1], [1, -1, 2]])
    prior = WeighedPrior.of(model, ["noisy"], rng=1)
    (sample,) = prior.weigh({"noisy": seen[None]})
    exact = adv.enumerate_posterior(model, {"noisy": seen}, ["in", "others"])
    assert sample.answer.present == pytest.approx(exact["posterior[in]"].item(), abs=1e-12)
    drawn = prior.draws_of(sample, {"noisy": seen}, 4000, np.random.default_rng(2))
    assert (drawn["others"].sum(axis=2) == SIZES).all()
    law = exact["probability[others]"]
    mean = (law * law["others"]).sum("others").values
    spread = np.sqrt((law * law["others"] ** 2).sum("others").values - mean**2)
    assert (np.abs(drawn["others"].mean(axis=0) - mean) < 5.0 * spread / np.sqrt(4000)).all()


def trapped() -> pm.Model:
    """Animals caught once, and of these again; the target was caught the first time."""
    with pm.Model() as model:
        p = pm.Beta("p", 2, 3)
        number = pm.DiscreteUniform("number", 1, 4)
        first = pm.Binomial("first", number, p)
        again = pm.Binomial("again", first, p)
        released("noisy", NOISE, pt.stack([first + pm.Bernoulli("in", p), again]))
    return model


def test_conditions_that_no_drawn_latent_enters_rule_states_out() -> None:
    trials, found, p = pt.lscalar("trials"), pt.lscalar("found"), pt.dscalar("p")
    term = pm.logp(pm.Binomial.dist(trials, p), found) + pm.logp(pm.Poisson.dist(p), found)
    conditions = _exclusions(term, frozenset({trials, found}))
    ruled_out = pytensor.function([trials, found], pt.any(pt.stack(conditions)))
    assert [bool(ruled_out(n, k)) for n, k in ((2, 2), (2, 3), (2, -1), (-1, 0), (0, 0))] == [False, *[True] * 3, False]
    assert not _exclusions(pt.switch(p > 0.5, np.float64(-np.inf), p * found), frozenset({trials, found}))


@pytest.mark.slow
def test_states_that_are_impossible_whatever_is_drawn_are_left_out() -> None:
    """More caught again than at first: of 4 * 5 * 5 counts 34 are left, and the answer is the same."""
    data = {"noisy": np.array([[2, 1], [0, 0], [4, 2]])}
    prior = WeighedPrior.of(trapped(), ["noisy"], rng=1, draws=1000)
    with mock.patch("adversary.models.enumeration.components._LARGEST_CHECKED", 0):
        every = WeighedPrior.of(trapped(), ["noisy"], rng=1, draws=1000)
    possible = sum(1 for n in range(1, 5) for a in range(n + 1) for _ in range(a + 1))
    assert (prior.terms.met.sizes, every.terms.met.sizes) == ((2 * possible, 1), (200, 1))
    np.testing.assert_allclose(prior.log_joint(data), every.log_joint(data), rtol=0, atol=1e-9)
    drawn = prior.draws_of(next(prior.weigh(data)), {"noisy": data["noisy"][0]}, 500, np.random.default_rng(1))
    assert (drawn["again"] <= drawn["first"]).all()
    assert (drawn["first"] <= drawn["number"]).all()


@pytest.mark.parametrize("law", ["Multinomial", "DirichletMultinomial", "HyperGeometric", "Categorical"])
def test_laws_list_their_own_values(law: str) -> None:
    """Everybody else spread over cells, the target in one of them, all cells noisy."""
    noise, prior = adv.DiscreteGaussian(1.5), np.array([0.1, 0.2, 0.3, 0.4])
    with pm.Model() as model:
        where = pm.Categorical("where", prior)
        if law == "Multinomial":
            others: Any = pm.Multinomial("others", 6, [0.4, 0.3, 0.2, 0.1])
            states, pmf = vectors(6, 4), st.multinomial(6, [0.4, 0.3, 0.2, 0.1]).pmf(vectors(6, 4))
        elif law == "DirichletMultinomial":
            others = pm.DirichletMultinomial("others", n=6, a=np.array([4.0, 3.0, 2.0, 1.0]))
            states, pmf = vectors(6, 4), st.dirichlet_multinomial([4, 3, 2, 1], 6).pmf(vectors(6, 4))
        elif law == "HyperGeometric":
            first = pm.HyperGeometric("first", N=9, k=4, n=6)
            others = pt.stack([first, 6 - first, pt.zeros_like(first), pt.zeros_like(first)])
            states = np.array([[k, 6 - k, 0, 0] for k in range(1, 5)])
            pmf = st.hypergeom.pmf(states[:, 0], 9, 4, 6)
        else:
            each = pm.Categorical("each", [0.4, 0.3, 0.2, 0.1], shape=3)
            others = pt.eq(each[:, None], np.arange(4)).sum(axis=0)
            lists = np.array([*itertools.product(range(4), repeat=3)])
            states = np.array([np.bincount(one, minlength=4) for one in lists])
            pmf = np.array([0.4, 0.3, 0.2, 0.1])[lists].prod(axis=1)
        released("noisy", noise, others + pm.math.eq(np.arange(4), where))
    seen = np.array([2, 3, 1, 1])
    right = [prior[w] * (pmf * np.exp(noise.log_prob(seen, states + np.eye(4)[w]).sum(axis=1))).sum() for w in range(4)]
    found = adv.enumerate_posterior(model, {"noisy": seen}, "where")
    np.testing.assert_allclose(found["probability"].values, np.array(right) / sum(right), atol=1e-12)


def test_too_many_vectors_are_refused_with_a_remedy() -> None:
    with pm.Model() as model:
        others = pm.Multinomial("others", 60, np.full(8, 1 / 8))
        pm.Bernoulli("in", 0.5)
        released("noisy", adv.Geometric(1.0), others + model["in"])
    with pytest.raises(ValueError, match=r"'others' has .* values, more than 1e.06 that can be listed: write"):
        adv.enumerate_posterior(model, {"noisy": np.full(8, 7)})


def test_many_cells_are_enumerated_one_by_one() -> None:
    """Thirty counts of up to ten: 11^30 joint states, 30 sums of 11."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Binomial("others", 10, np.linspace(0.1, 0.9, 30))
        released("noisy", adv.Geometric(1.0), others + present * (np.arange(30) == 7))
    noise, seen, k = adv.Geometric(1.0), np.arange(30) // 3, np.arange(11)
    run = compile_enumerator(model, ["noisy"])
    assert run.states == 29 * 11 + 22
    law = st.binom.pmf(k, 10, np.linspace(0.1, 0.9, 30)[7])
    inside, out = (weight * (law * np.exp(noise.log_prob(seen[7], k + t))).sum() for t, weight in ((1, 0.3), (0, 0.7)))
    assert run({"noisy": seen})["posterior"].item() == pytest.approx(inside / (inside + out), abs=1e-12)


@pytest.mark.slow_cases("hypergeometric sample", "Dirichlet-multinomial blocks")
@pytest.mark.parametrize("name", FIELD)
def test_three_routes_agree(name: str) -> None:
    """By enumeration, by weighed draws, and by a list of all states."""
    one = FIELD[name]
    model = one.build()
    shape = tuple(int(n) for n in model["noisy"].shape.eval())
    release = np.random.default_rng(4).integers(-1, 5, size=(6, *shape))
    exact = adv.enumerate_posterior(model, {"noisy": release})["posterior"].values
    drawn = [sample.answer.present for sample in WeighedPrior.of(model, ["noisy"], rng=1).weigh({"noisy": release})]
    right = [one.posterior(row) for row in release]
    np.testing.assert_allclose(exact, right, atol=1e-12)
    np.testing.assert_allclose(drawn, right, atol=1e-12)


def random_model(seed: int) -> pm.Model:
    """Binomials and a target that reach the released cells through a few operations drawn at random."""
    rng = np.random.default_rng(seed)
    ways = [
        lambda x, y, t: x + y[::-1],
        lambda x, y, t: pt.inc_subtensor(x[int(rng.integers(3))], t),
        lambda x, y, t: pt.set_subtensor(x[y[0]], t),
        lambda x, y, t: pt.concatenate([x[1:], [t * y[2]]]),
        lambda x, y, t: pt.dot(np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1]]), x),
        lambda x, y, t: pt.switch(np.array([True, False, True]), x, y * t),
        lambda x, y, t: pt.stack([x.sum(), y[1], t]),
        lambda x, y, t: pt.constant(np.array([0, 2, 1]))[x] + t * np.array([0, 0, 1]),
    ]
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        x = pm.Binomial("x", 2, np.array([0.2, 0.5, 0.7]))
        y = pm.Binomial("y", 2 - x * int(rng.integers(2)), 0.4)
        cells = x
        for way in rng.choice(len(ways), 2):
            cells = ways[way](pt.clip(cells, 0, 2), y, present)
        released("noisy", adv.Geometric(1.0), cells)
    return model


@pytest.mark.slow_cases(*map(str, range(1, 12)))
@pytest.mark.parametrize("seed", range(12))
def test_components_of_random_graphs_are_the_joint_sum(seed: int) -> None:
    seen = {"noisy": np.random.default_rng(seed).integers(-1, 5, size=(4, 3))}
    names = ["in", "x", "y"]
    apart = compile_enumerator(random_model(seed), ["noisy"], names)(seen)
    with mock.patch.object(Components, "of", lambda grid, *unused: Components.whole(grid)):
        joint = compile_enumerator(random_model(seed), ["noisy"], names)(seen)
    for name in apart.data_vars:
        if apart[name].dtype.kind == "f":
            np.testing.assert_allclose(apart[name].values, joint[name].values, atol=1e-10)
