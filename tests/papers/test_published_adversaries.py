"""Numbers of papers, redone by audits of `models.published`: one line for each adversary."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import adversary as adv
from adversary.budget import lee_clifton_epsilon
from adversary.budget.proposals import lee_clifton_changes
from adversary.models import published

RHO1, RHO2 = 2.56 * 165 / 4099 * 3945 / 4097, 2.56 * 1256 / 4099 * 1288 / 4099
"""Of one cell in a block and in a block group, 2020 Census (Kazan and Reiter 2025, Table 2.2)."""


def audited(model: Any, **options: Any) -> Any:
    """An audit with the target in."""
    return adv.audit_model(model, {"in": 1}, rng=1, progress=False, **options)


# Kazan and Reiter (2025)


def test_one_block_is_guessed_right_in_58_89_percent() -> None:
    """Figures 2.5 and 2.6, dashed line: 58.89% of guesses are right, of prior 1/2; the mean posterior is 52.37%."""
    risk = audited(published.kazan_reiter(RHO1))["risk"]
    for measure, right in (("prob_correct", 0.588860), ("posterior_mean", 0.523666)):
        error = float(risk["mcse"].sel(measure=measure))
        assert abs(float(risk[measure]) - right) < 4 * error < 0.02


@pytest.mark.parametrize("attack", ["participation", "misreport", "unknown attribute"])
def test_the_other_attacks_are_the_same_arithmetic(attack: str) -> None:
    """Section 2.6: only the meaning of the prior changes."""
    seen = {"noisy[level 1]": np.arange(-3, 5)}
    one, other = (
        adv.enumerate_posterior(model, seen)["posterior"].values
        for model in (published.kazan_reiter(RHO1, 0.1), published.kazan_reiter(RHO1, 0.1, attack=attack))
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)
    right = 0.1 * np.exp(RHO1 * (2 * np.arange(-3, 5) - 1))
    np.testing.assert_allclose(one, right / (0.9 + right), rtol=1e-10)


def test_a_block_group_that_is_known_adds_its_own_factor() -> None:
    """Equation 2.9 of an adversary sure of everybody outside the block."""
    model = published.kazan_reiter([RHO1, RHO2], 0.2, siblings=1, beliefs={"level 2": [1.0]})
    found = adv.enumerate_posterior(model, {"noisy[level 1]": 2, "noisy[level 2]": 1, "sibling_sum[level 1]": 0})
    odds = 0.25 * math.exp(RHO1 * 3 + RHO2)
    assert float(found["posterior"]) == pytest.approx(odds / (1 + odds), rel=1e-10)


# The census


def test_the_neighbor_of_the_census_reads_two_cells_of_twice_the_variance() -> None:
    """Two cells with sigma^2 = 1 / rho say as much as one with half of that: expected posteriors agree, decisions need
    not (Kifer et al. 2022, section 4; Kazan and Reiter 2025, footnote on bounded neighbors)."""
    k = np.arange(-40, 41)
    noise = np.exp(-RHO1 / 2 * k**2.0)
    noise /= noise.sum()
    pairs = np.array([*itertools.product(k, k)])
    weight = np.outer(noise, noise).ravel()
    found = adv.enumerate_posterior(published.census_neighbor(RHO1), {"noisy[block]": pairs + np.array([1, 0])})[
        "posterior"
    ]
    single = np.exp(-RHO1 * k**2.0)
    single /= single.sum()
    one = adv.enumerate_posterior(published.kazan_reiter(RHO1), {"noisy[level 1]": k + 1})["posterior"]
    assert float(weight @ found.values) == pytest.approx(float(single @ one.values), abs=1e-11)
    assert float(weight @ found.values) == pytest.approx(0.523666, abs=1e-6)


# Denning; Dinur and Nissim


def test_differencing_of_exact_totals_is_certain() -> None:
    """Suppression of one cell beside the total and all others protects nobody."""
    tree = audited(published.differencing(adv.Exact(), 1e-6))
    assert float(tree["risk"]["posterior_mean"]) == 1.0


def test_differencing_of_noisy_totals_is_a_difference_of_two_noises() -> None:
    a, prior = math.exp(-1.0), 0.2
    seen = np.array([[52, 50], [51, 50], [50, 50], [48, 50]])
    model = published.differencing(adv.Geometric(1.0), prior)
    found = adv.enumerate_posterior(model, {"noisy[all]": seen[:, 0], "noisy[rest]": seen[:, 1]})["posterior"].values
    n = np.arange(101)[:, None]
    likelihood = [(a ** np.abs(seen[:, 0] - n - t) * a ** np.abs(seen[:, 1] - n)).sum(axis=0) for t in (0, 1)]
    right = prior * likelihood[1] / (prior * likelihood[1] + (1 - prior) * likelihood[0])
    np.testing.assert_allclose(found, right, rtol=1e-10)


# Lee and Clifton (2011)


def test_lee_and_cliftons_epsilon_keeps_the_posterior_at_a_third() -> None:
    """Population 1, 2, 3, 4, its mean, and a posterior of at most 1/3: epsilon 0.337888, and no less would do."""
    population, limit = [1.0, 2.0, 3.0, 4.0], 1 / 3
    epsilon = lee_clifton_epsilon(population, np.mean, limit)
    assert epsilon == pytest.approx(0.337888, abs=1e-6)
    moved, _ = lee_clifton_changes(population, np.mean)
    model = published.lee_clifton(population, np.mean, adv.Laplace(moved / epsilon), target=0)
    found = adv.enumerate_posterior(model, {"noisy": np.linspace(-20.0, 25.0, 2001)})["posterior"]
    # The others are no further away than the two extremes, so that the bound is not reached by three of them at once.
    assert 0.30 < float(found.max()) <= limit + 1e-12
    two = published.lee_clifton([0.0, 1.0], np.mean, adv.Laplace(1.0 / math.log(2.0)))
    assert float(adv.enumerate_posterior(two, {"noisy": 50.0})["posterior"]) == pytest.approx(2 / 3, rel=1e-12)


def test_absent_person_by_bayes() -> None:
    people = np.array([1.0, 2.0, 3.0, 10.0])
    model = published.lee_clifton(people, np.mean, adv.Laplace(0.5), target=3)
    seen = np.array([1.0, 2.5, 4.0, 6.0])
    found = adv.enumerate_posterior(model, {"noisy": seen})["posterior"].values
    answers = np.array([np.delete(people, i).mean() for i in range(4)])
    likelihood = st.laplace.pdf(seen[:, None], answers, 0.5)
    np.testing.assert_allclose(found, likelihood[:, 3] / likelihood.sum(axis=1), rtol=1e-12)
    tree = audited(model, draws=200)
    assert tree["bound"]["status"].values.tolist() != ["violated"]


# McClure and Reiter (2012)


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_synthetic_data_move_the_odds_by_epsilon_at_most(epsilon: float) -> None:
    """All synthetic records are ones although nobody else's is: the log Bayes factor is epsilon, the most there is."""
    people, prior = 12, 0.3
    seen = np.arange(people + 1)
    most = -np.inf
    for known in (0, 4, people - 1):
        model = published.mcclure_reiter(epsilon, prior, known, people)
        p = adv.enumerate_posterior(model, {"noisy": seen})["posterior"].values
        factor = np.log(p / (1 - p)) - math.log(prior / (1 - prior))
        most = max(most, np.abs(factor).max())
        if known == 0:
            assert factor[-1] == pytest.approx(epsilon, rel=1e-9)
    assert most == pytest.approx(epsilon, rel=1e-9)


def test_the_intruder_learns_next_to_nothing_on_average() -> None:
    """The paper's finding: of 100 records with epsilon 1 the average posterior stays by the prior."""
    model = published.mcclure_reiter(1.0, 0.5, known=50)
    tree = audited(model)
    alpha, n = 100 / math.expm1(1.0), 100
    s = np.arange(n + 1)
    like = [st.betabinom.pmf(s, n, alpha + 50 + t, alpha + n - 50 - t) for t in (0, 1)]
    right = float((like[1] * like[1] / (like[0] + like[1])).sum())
    risk = tree["risk"]
    assert abs(float(risk["posterior_mean"]) - right) < 4 * float(risk["mcse"].sel(measure="posterior_mean")) + 1e-9
    assert right == pytest.approx(0.5, abs=0.001)


# Garfinkel, Abowd and Martindale (2018)


@pytest.mark.parametrize("tables", [[[0], [1]], [[0, 1], [2]], [[0], [1, 2]]])
def test_a_small_block_is_reconstructed_from_exact_tables(tables: list[list[int]]) -> None:
    """The share of all blocks of four that agree with the tables in which the record is the target's, each listed."""
    shares = np.array([0.3, 0.1, 0.05, 0.15, 0.1, 0.1, 0.05, 0.15]).reshape(2, 2, 2)
    model = published.block_reconstruction(shares, 4, tables, adv.Exact(), (0, 1, 0))
    people = np.array([*itertools.product(range(8), repeat=4)])
    counts = np.stack([(people == c).sum(axis=1) for c in range(8)], axis=1).reshape(-1, 2, 2, 2)
    weight = shares.ravel()[people].prod(axis=1)
    block = counts[1234]
    same, seen = np.ones(len(people), dtype=bool), {}
    for table in tables:
        along = tuple(axis for axis in range(3) if axis not in table)
        every, own = counts.sum(axis=tuple(1 + axis for axis in along)), block.sum(axis=along)
        same &= (every == own).reshape(len(people), -1).all(axis=1)
        seen[f"noisy[{' x '.join(map(str, table))}]"] = own
    right = weight[same & (people[:, 0] == 2)].sum() / weight[same].sum()
    assert float(adv.enumerate_posterior(model, seen)["posterior"]) == pytest.approx(right, rel=1e-10, abs=1e-14)


def test_a_table_of_all_features_reconstructs_a_block_of_one() -> None:
    shares = np.full((2, 3), 1 / 6)
    tree = audited(published.block_reconstruction(shares, 1, [[0, 1]], adv.Exact(), (1, 2)), draws=5)
    assert float(tree["risk"]["posterior_mean"]) == 1.0
    noisy = published.block_reconstruction(shares, 3, [[0], [1], []], adv.Geometric(1.0), (1, 2))
    assert 1 / 6 < float(audited(noisy, draws=300)["risk"]["posterior_mean"]) < 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: published.kazan_reiter(0.1, attack="guess"), "attack must be one of"),
        (lambda: published.lee_clifton([1.0], np.mean, adv.Laplace(1.0)), "at least two people"),
        (lambda: published.lee_clifton([1.0, 2.0], np.mean, adv.Laplace(1.0), target=2), "a position among 2 people"),
        (lambda: published.mcclure_reiter(0.0), "epsilon"),
        (lambda: published.mcclure_reiter(1.0, known=100), "known must be at most 99"),
        (lambda: published.block_reconstruction([[0.5, 0.4]], 3, [[0]], adv.Exact(), (0, 0)), "sum to 0.9"),
        (lambda: published.block_reconstruction([[0.5, 0.5]], 3, [[2]], adv.Exact(), (0, 0)), "features 0 to 1"),
        (lambda: published.block_reconstruction([[0.5, 0.5]], 3, [[0]], [], (0, 0)), "mechanism must be one or 1"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
