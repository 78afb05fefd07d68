"""One estimate of each finest cell: against dense least squares, and against others' counts summed out exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import nbinom

import adversary as adv
from adversary.adversaries.tables import (
    Axis,
    CrossingRisk,
    Joined,
    Population,
    PublishedTable,
    Query,
    TableAdversary,
    effective_risks,
    information,
)
from adversary.adversaries.tables.effective import linear_variances, linear_weights
from adversary.adversaries.tables.effective_risk import believed_estimates

DG = adv.DiscreteGaussian.from_rho
AXES = [Axis((name,), np.array([["0"], ["1"]])) for name in ("district", "age", "sex")]
COUNTS = np.array([[[3, 1], [0, 3]], [[1, 0], [2, 2]]])


def world(size: int = 1, rho: float = 0.3, more: int = 0) -> Joined:
    """The small world, so many people for each of it, and so many more in every cell."""
    tables = [
        PublishedTable(("district", "age", "sex"), DG(rho)),
        PublishedTable("district", DG(rho / 3.0)),
        PublishedTable("age", DG(rho / 3.0)),
    ]
    return Joined.of(Population(tuple(AXES), COUNTS * size + more), tables)


@pytest.mark.parametrize("seed", range(10))
def test_variances_are_those_of_the_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, 3))
    queries = []
    for i in range(4):
        grouped = (rng.integers(0, max(1, n - 1), n) if rng.random() < 0.3 else np.arange(n) for n in shape)
        groups = [np.unique(g * (rng.random() < 0.7), return_inverse=True)[1] for g in grouped]
        queries.append(Query(f"q{i}", tuple(tuple(g.tolist()) for g in groups)))
    variance = rng.uniform(0.5, 3.0, 4)
    expected = linear_weights(queries, variance, np.arange(int(np.prod(shape))))[1]
    np.testing.assert_allclose(linear_variances(queries, variance), expected, rtol=1e-9)


def test_estimates_beside_a_belief_are_those_of_dense_least_squares() -> None:
    joined, rng = world(), np.random.default_rng(0)
    mean, spread = rng.uniform(1.0, 6.0, 8), rng.uniform(0.5, 4.0, 8)
    rows = np.concatenate([np.eye(query.size)[:, query.rows] for query in joined.queries])
    noise = np.concatenate(
        [np.full(query.size, own.variance) for query, own in zip(joined.queries, joined.noises, strict=True)]
    )
    found = np.array(believed_estimates(joined, mean, spread, joined.counts))
    for cell in range(8):
        believed = np.diag(np.where(np.arange(8) == cell, 0.0, 1.0 / spread))
        posterior = np.linalg.inv(believed + rows.T @ (rows / noise[:, None]))
        weights = posterior @ (rows / noise[:, None]).T
        error = (weights @ rows @ joined.counts + posterior @ believed @ mean - joined.counts)[cell]
        expected = [posterior[cell, cell], error, weights[cell] ** 2 @ noise]
        np.testing.assert_allclose(found[:, cell], expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("who", [("cell", None), ("cell", "last"), ("nobody", "last"), ("nobody", nbinom(3, 0.4))])
def test_the_approximation_is_near_the_sums_in_large_cells(who: tuple[str, object]) -> None:
    joined = world(4, more=20)
    knows, belief = who
    adversary = TableAdversary(0.1, knows, COUNTS * 4 + 20.1 if belief == "last" else belief)
    exact = CrossingRisk(joined, adversary, joined.counts).risks(9.0, 1, 32)
    near = effective_risks(joined, adversary, information(joined)[0], joined.counts, 9.0)
    np.testing.assert_allclose(near.posterior_mean, exact.posterior_mean, rtol=0.03)


@pytest.mark.thorough
def test_risks_by_count_and_noise_against_the_sums() -> None:
    """The table of errors that the page of several tables quotes; printed with -s."""
    lines = ["rho   people  exact   estimate  off"]
    for rho in (0.03, 0.3, 3.0):
        for size in (1, 3, 10):
            joined = world(size, rho)
            adversary = TableAdversary(0.1)
            exact = CrossingRisk(joined, adversary, joined.counts).risks(9.0, 1, 32)
            near = effective_risks(joined, adversary, information(joined)[0], joined.counts, 9.0)
            off = near.posterior_mean / exact.posterior_mean - 1.0
            cell = int(np.argmax(np.where(joined.counts > 0, np.abs(off), -1.0)))
            numbers = exact.posterior_mean[cell], near.posterior_mean[cell], off[cell]
            lines.append(f"{rho:<6}{joined.counts[cell]:<8}{numbers[0]:.4f}  {numbers[1]:.4f}    {numbers[2]:+.1%}")
            assert abs(off[cell]) < 0.6
    print("\n".join(lines))
