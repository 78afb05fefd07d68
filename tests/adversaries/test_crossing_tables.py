"""Tables of one population that cross: exact by elimination, by brute force over all counts, and by a PyMC model."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, logit, logsumexp
from scipy.stats import randint

import adversary as adv
from adversary.adversaries.tables import (
    Axis,
    CrossingRisk,
    CrossingTables,
    Joined,
    Population,
    PublishedTable,
    TableAdversary,
)
from adversary.models.enumeration import enumerate_posterior
from adversary.models.noise import released
from adversary.privacy.losses import compose_losses

DG = adv.DiscreteGaussian.from_rho
FEATURES = {"district": 2, "age": 2, "sex": 2}
TABLES = [
    PublishedTable(("district", "age", "sex"), DG(0.3)),
    PublishedTable(("district",), DG(0.1)),
    PublishedTable(("age",), DG(0.1)),
]
WORLD = CrossingTables(TABLES, FEATURES, np.full(7, 1 / 7))
OTHERS = np.array([[[2, 1], [0, 3]], [[1, 0], [2, 2]]])
FIRST = [np.array([[[3, 0], [1, 4]], [[0, 1], [2, 1]]]), np.array([8, 4]), np.array([5, 6])]
SECOND = [np.array([[[1, 2], [-1, 3]], [[2, -2], [3, 2]]]), np.array([5, 6]), np.array([1, 9])]
TARGET = (0, 0, 0)


def after(prior: float, log_factor: Any) -> float:
    return float(expit(logit(prior) + np.ravel(log_factor)[0]))


@pytest.mark.parametrize(
    ("counts", "prior", "expected", "known"),
    [(FIRST, 0.1, 0.09903164, 0.18283983), (FIRST, 0.5, 0.49729849, None), (SECOND, 0.1, 0.05620099, 0.01634707)],
)
def test_the_small_world(counts: Any, prior: float, expected: float, known: float | None) -> None:
    assert after(prior, WORLD.log_bayes_factor(counts, TARGET)) == pytest.approx(expected, abs=5e-9)
    if known is not None:
        assert after(prior, WORLD.log_bayes_factor_known(counts, TARGET, OTHERS)) == pytest.approx(known, abs=5e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "expected"), [(FIRST, 0.09903164), (SECOND, 0.05620099)])
def test_the_small_world_by_brute_force(counts: Any, expected: float) -> None:
    """All 7^8 counts of others at once."""
    cells, total = list(product(range(2), repeat=3)), {0: 0.0, 1: 0.0}
    values = [np.arange(7).reshape([-1 if i == j else 1 for j in range(8)]) for i in range(8)]
    for side in (0, 1):
        people = [x + side * (cell == TARGET) for x, cell in zip(values, cells, strict=True)]
        log: Any = np.zeros((7,) * 8)
        for x, noisy in zip(people, np.ravel(counts[0]), strict=True):
            log = log + TABLES[0].noise.log_prob(int(noisy), x)
        for table, axis, found in ((TABLES[1], 0, counts[1]), (TABLES[2], 1, counts[2])):
            for place, noisy in enumerate(found):
                here = sum(x for x, cell in zip(people, cells, strict=True) if cell[axis] == place)
                log = log + table.noise.log_prob(int(noisy), here)
        total[side] = float(logsumexp(log))
    assert after(0.1, total[1] - total[0]) == pytest.approx(expected, abs=5e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("counts", "expected"), [(FIRST, 0.09903164), (SECOND, 0.05620099)])
def test_the_small_world_by_a_pymc_model(counts: Any, expected: float) -> None:
    """The model's own probabilities of all 7^8 counts of others; some minutes."""
    with pm.Model() as model:
        target = pm.Bernoulli("in", 0.1)
        others = [pm.DiscreteUniform(f"others{i}", 0, 6) for i in range(8)]
        cells = pm.math.stack([others[0] + target, *others[1:]]).reshape((2, 2, 2))
        released("T1", TABLES[0].noise, cells)
        released("T2", TABLES[1].noise, cells.sum(axis=(1, 2)))
        released("T3", TABLES[2].noise, cells.sum(axis=(0, 2)))
    found = enumerate_posterior(model, dict(zip(("T1", "T2", "T3"), counts, strict=True)))
    assert posterior_of(found) == pytest.approx(expected, abs=5e-9)


def test_the_finest_table_alone() -> None:
    alone = CrossingTables(TABLES[:1], FEATURES, np.full(7, 1 / 7))
    assert after(0.1, alone.log_bayes_factor(FIRST[:1], TARGET)) == pytest.approx(0.09834778, abs=5e-9)


def test_an_average_over_releases_where_others_are_known() -> None:
    """The mean of the composed loss's posterior law, and 40,000 draws of all tables."""
    loss = compose_losses([table.noise.privacy_loss(1, 1) for table in TABLES])
    assert float(loss.posterior(0.1).mean("in")) == pytest.approx(0.19348819, abs=5e-9)
    counts = drawn(TABLES, OTHERS, TARGET, 40_000)
    found = expit(logit(0.1) + WORLD.log_bayes_factor_known(counts, TARGET, OTHERS))
    assert found.mean() == pytest.approx(0.19348819, abs=5.0 * found.std() / 200.0)


def test_an_average_over_releases_where_others_are_not_known() -> None:
    counts = drawn(TABLES, OTHERS, TARGET, 400)
    found = expit(logit(0.1) + WORLD.log_bayes_factor(counts, TARGET))
    assert found.mean() == pytest.approx(0.0943, abs=5.0 * found.std() / 20.0)


def drawn(tables: Any, others: Any, target: Any, size: int) -> list[Any]:
    """Releases of every table with the target in."""
    rng, truth = np.random.default_rng(1), others.copy()
    truth[target] += 1
    names = list(FEATURES)
    found = []
    for table in tables:
        gone = tuple(i for i, name in enumerate(names) if name not in table.by)
        count = truth.sum(axis=gone)
        found.append(np.stack([table.noise.sample(count, rng) for _ in range(size)]))
    return found


@pytest.mark.parametrize("knows", ["cell", "nobody"])
def test_all_cells_at_once_are_each_cell_by_itself(knows: str) -> None:
    """One pass back gives every person's factor: those of single worlds, in which the target is that person."""
    axes = tuple(Axis((name,), np.array([["0"], ["1"]])) for name in FEATURES)
    truth = OTHERS.copy()
    truth[TARGET] += 1
    world = Joined.of(Population(axes, truth), TABLES)
    risk = CrossingRisk(world, TableAdversary(0.1, knows, randint(0, 7)), world.counts)
    counts = drawn(TABLES, OTHERS, TARGET, 5)
    (found,) = risk.log_bayes_factors([np.reshape(one, (5, -1)) for one in counts])
    for place, cell in enumerate(product(range(2), repeat=3)):
        belief = np.full((2, 2, 2, 7), 1 / 7)
        if knows == "cell":
            belief[cell] = np.arange(7) == max(truth[cell] - 1, 0)
        alone = CrossingTables(TABLES, FEATURES, belief).log_bayes_factor(counts, cell)
        np.testing.assert_allclose(found[place], alone, atol=1e-10)


# Random worlds


NOISES = (DG(0.4), adv.Geometric(0.7), adv.Gaussian(1.1), adv.Laplace(0.9), adv.RandomRounding(3))


def random_world(seed: int) -> tuple[CrossingTables, list[Any], tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    names = ["a", "b", "c"][: rng.integers(1, 4)]
    features = {name: int(rng.integers(1, 3 if len(names) == 3 else 4)) for name in names}
    tables = []
    for _ in range(int(rng.integers(2, 4))):
        by = [name for name in rng.permutation(names) if rng.random() < 0.6]
        noise = NOISES[rng.integers(len(NOISES))]
        tables.append(PublishedTable(tuple(map(str, by)), noise))
    most = {4: 3, 6: 2}.get(min(size for size in (4, 6, 9) if np.prod(list(features.values())) <= size), 1)
    belief = rng.dirichlet(np.ones(most + 1), size=tuple(features.values()))
    counts = []
    for table in tables:
        shape = tuple(features[one] for one in table.by)
        truth = rng.integers(0, 6, shape)
        counts.append(np.stack([np.asarray(table.noise.sample(truth, rng)) for _ in range(2)]))
    return CrossingTables(tables, features, belief), counts, tuple(int(rng.integers(n)) for n in features.values())


def brute(world: CrossingTables, counts: list[Any], target: tuple[int, ...]) -> Any:
    """Log Bayes factors by going over all counts of all finest cells."""
    names, shape = list(world.features), tuple(world.features.values())
    cells, size = list(product(*map(range, shape))), world.belief.shape[-1]
    terms: dict[int, list[Any]] = {0: [], 1: []}
    for state in product(range(size), repeat=len(cells)):
        mass = sum(np.log(world.belief[cell][x]) for cell, x in zip(cells, state, strict=True))
        for side in (0, 1):
            total = np.full(len(counts[0]), mass)
            for table, noisy in zip(world.tables, counts, strict=True):
                sums: dict[tuple[int, ...], int] = {}
                for cell, x in zip(cells, state, strict=True):
                    place = tuple(cell[names.index(one)] for one in table.by)
                    sums[place] = sums.get(place, 0) + x + (side if cell == target else 0)
                for place, value in sums.items():
                    total = total + np.asarray(table.noise.log_prob(noisy[(slice(None), *place)], value))
            terms[side].append(total)
    with np.errstate(invalid="ignore"):
        return logsumexp(np.array(terms[1]), axis=0) - logsumexp(np.array(terms[0]), axis=0)


@pytest.mark.parametrize("seed", range(10))
def test_random_worlds_by_brute_force(seed: int) -> None:
    world, counts, target = random_world(seed)
    np.testing.assert_allclose(world.log_bayes_factor(counts, target), brute(world, counts, target), atol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10, 200))
def test_many_random_worlds_by_brute_force(seed: int) -> None:
    test_random_worlds_by_brute_force(seed)


def test_a_pymc_model_of_the_same_story_enumerates_to_the_same() -> None:
    features, noise = {"place": 2, "sex": 2}, adv.Geometric(0.8)
    tables = [
        PublishedTable(("place", "sex"), noise),
        PublishedTable(("place",), noise),
        PublishedTable(("sex",), noise),
    ]
    belief = np.array([0.2, 0.5, 0.3])
    counts = [np.array([[1, 0], [3, 1]]), np.array([2, 3]), np.array([5, 0])]
    world = CrossingTables(tables, features, belief)
    with pm.Model() as model:
        target = pm.Bernoulli("in", 0.3)
        others = pm.Categorical("others", p=belief, shape=4).reshape((2, 2))
        cells = pm.math.concatenate([(others[0, :1] + target), others[0, 1:], others[1]]).reshape((2, 2))
        released("both", noise, cells)
        released("places", noise, cells.sum(axis=1))
        released("sexes", noise, cells.sum(axis=0))
    data = dict(zip(("both", "places", "sexes"), counts, strict=True))
    found = enumerate_posterior(model, data)
    assert after(0.3, world.log_bayes_factor(counts, (0, 0))) == pytest.approx(posterior_of(found), abs=1e-10)


def posterior_of(found: Any) -> float:
    """P(in = 1) of an enumerated posterior."""
    return float(np.ravel(found["posterior"])[0])


# Bad input


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="'country' is no feature; there are place"):
        CrossingTables([PublishedTable(("country",), DG(0.1))], {"place": 2}, np.ones(1))
    with pytest.raises(ValueError, match="must name every feature once"):
        PublishedTable(("sex", "sex"), DG(0.1))
    with pytest.raises(TypeError, match="must be a Mechanism"):
        PublishedTable("sex", 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="add up to 1"):
        CrossingTables(TABLES, FEATURES, np.array([0.5, 0.4]))
    with pytest.raises(ValueError, match="one array for each of 3 tables"):
        WORLD.log_bayes_factor(FIRST[:2], TARGET)
    with pytest.raises(ValueError, match="table 'district' must have the shape"):
        WORLD.log_bayes_factor([FIRST[0], np.arange(3), FIRST[2]], TARGET)
    with pytest.raises(ValueError, match="target must be a category of every feature"):
        WORLD.log_bayes_factor(FIRST, (0, 2, 0))
    wide = CrossingTables(
        [PublishedTable(("a",), DG(1.0)), PublishedTable(("b",), DG(1.0))], {"a": 9, "b": 9}, np.full(30, 1 / 30)
    )
    with pytest.raises(ValueError, match=r"tables that cross take .* terms here"):
        wide.log_bayes_factor([np.zeros(9), np.zeros(9)], (0, 0))
