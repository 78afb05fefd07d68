"""Perturbation tables: three ways to write one, and what their labels say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import adversary as adv
from tests.catalogue import MECHANISMS
from tests.tables import refusals

Table = adv.PerturbationTable
MATRIX = np.array([[1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0.2, 0, 0.4, 0.4, 0], [0, 0, 0.25, 0.5, 0.25]])
"""Rows are true counts 0 to 3, columns published counts 0 to 4; the mean perturbation of every row is 0."""
WIDE = pd.DataFrame(MATRIX, pd.Index(range(4), name="i"), [str(j) for j in range(5)])
LONG = pd.DataFrame([(i, j, p) for (i, j), p in np.ndenumerate(MATRIX) if p], columns=["i", "j", "p"])


def test_a_table_of_transitions_is_the_same_table() -> None:
    noise = MECHANISMS["perturbation table"]
    count, release = (grid.ravel() for grid in np.meshgrid(np.arange(4), np.arange(7), indexing="ij"))
    probs = np.exp(noise.log_prob(release, count))
    kept = probs > 0.0
    made = adv.PerturbationTable.from_columns(count[kept], release[kept], probs[kept])
    np.testing.assert_allclose(np.exp(made.log_prob(release, count)), probs, rtol=1e-14)
    np.testing.assert_allclose(made.log_prob(release + 90, 93), noise.log_prob(release + 90, 93), rtol=1e-14)


def _laws(noise: adv.Mechanism) -> Any:
    """P(published | count) of the counts 0 to 3, and of 9, of which only perturbations are known."""
    return np.exp(noise.log_prob(np.arange(5), np.arange(4)[:, None])), np.exp(noise.log_prob(np.arange(6, 12), 9))


@pytest.mark.parametrize(
    "noise",
    [
        Table.from_transitions(MATRIX),
        Table.from_transitions(MATRIX.tolist()),
        Table.from_transitions(WIDE),
        Table.from_transitions(WIDE.reset_index()),
        Table.from_transitions(WIDE.iloc[::-1, ::-1]),
        Table.from_transitions(xr.DataArray(MATRIX[:, ::-1], coords={"i": range(4), "j": range(4, -1, -1)})),
        Table.from_columns(LONG.i, LONG.j, LONG.p),
        Table.from_columns(LONG.i, LONG.j.sample(frac=1.0, random_state=1), LONG.p),
    ],
    ids=["matrix", "lists", "frame", "frame with a column of counts", "turned", "xarray", "long", "long, shuffled"],
)
def test_transitions_are_read_as_such_however_they_are_written(noise: adv.Mechanism) -> None:
    here, far = _laws(noise)
    np.testing.assert_allclose(here, MATRIX, rtol=1e-15)
    np.testing.assert_allclose(far, [0.0, 0.0, 0.25, 0.5, 0.25, 0.0], rtol=1e-15)
    assert noise.support(3).tolist() == [2, 3, 4]


def test_labels_of_perturbations_say_which_they_are() -> None:
    table = pd.DataFrame([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], columns=[-1, 0, 1])
    for given in (table, table.iloc[::-1, ::-1]):
        assert Table(given) == Table(table.to_numpy(), lowest=-1) == Table(given, lowest=-1)


def test_a_matrix_of_transitions_read_as_perturbations_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"from_transitions; otherwise give lowest"):
        Table(MATRIX)
    with pytest.warns(UserWarning, match="more, by 0.5 on average"):
        Table([[1.0, 0.0], [0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Table([[1.0], [1.0]])
        Table([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], lowest=-1)
        assert Table.from_columns([0, 1], [0, 2], [1.0, 1.0]).support(1).tolist() == [2]


def _drawn_again(epsilon: float, most: int) -> Any:
    """Geometric noise on 0 to `most`, drawn again until it fits (a score that can only be released as a score)."""
    far = np.exp(-epsilon * np.abs(np.subtract.outer(np.arange(most + 1.0), np.arange(most + 1.0))))
    return far / far.sum(1, keepdims=True)


SCORE = _drawn_again(1.0, 4)
PRAM = np.full((3, 3), 0.1) + 0.7 * np.eye(3)


def _listed(matrix: Any, epsilon: Any, apart: int) -> Any:
    """The largest delta of all pairs of answers at most so far apart, pair by pair."""
    pairs = [(a, b) for a in range(len(matrix)) for b in range(len(matrix)) if 0 < abs(a - b) <= apart]
    return np.max([np.maximum(matrix[a] - np.exp(epsilon)[:, None] * matrix[b], 0.0).sum(1) for a, b in pairs], axis=0)


@pytest.mark.parametrize("matrix", [SCORE, PRAM, np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])])
@pytest.mark.parametrize("apart", [1, 2, None])
def test_the_loss_of_a_local_report_is_the_largest_over_all_pairs_of_answers(matrix: Any, apart: int | None) -> None:
    noise, epsilon = Table.from_transitions(matrix, closed=True, local=True), np.linspace(-5.0, 5.0, 201)
    loss = noise.report_loss(apart)
    wanted = _listed(matrix, epsilon, apart or len(matrix))
    np.testing.assert_allclose(loss.delta(epsilon), wanted, atol=1e-12)
    np.testing.assert_allclose(loss.swapped.delta(epsilon), wanted, atol=1e-12)
    assert noise.report_loss(apart, 2).epsilon(0.0) == pytest.approx(2.0 * loss.epsilon(0.0))
    assert loss.renyi(3.0) / 3.0 <= noise.report_rho(apart)


def test_many_pairs_of_answers_have_a_loss_that_is_never_too_small() -> None:
    """Too many different losses for a list of them: straight lines between some, at either end the true ones."""
    matrix = np.random.default_rng(4).dirichlet(np.ones(25), 25)
    loss, epsilon = Table.from_transitions(matrix, closed=True, local=True).report_loss(), np.linspace(0.0, 9.0, 40)
    wanted = _listed(matrix, epsilon, 25)
    found = np.asarray(loss.delta(epsilon))
    assert (found >= wanted - 1e-13).all()
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    ratio = np.log(matrix[:, None] / matrix)
    assert loss.maximum == pytest.approx(float(ratio.max()), rel=1e-12)


@pytest.mark.parametrize(
    ("contribution", "local", "epsilon", "most"),
    [(1, True, 1.20087, 0.76868), (None, True, 4.0, 0.982014), (1, False, 2.40174, 0.916960)],
    ids=["adjacent scores", "any scores", "a count whose record is replaced"],
)
def test_a_score_that_is_only_released_as_a_score(
    contribution: int | None, local: bool, epsilon: float, most: float
) -> None:
    noise = Table.from_transitions(SCORE, closed=True, local=local)
    unit = adv.PrivacyUnit(contribution=contribution, neighbours="bounded")
    plan = adv.Plan([adv.Level("score", noise)], privacy_unit=unit)
    loss = plan.unit_loss()
    assert loss.epsilon(0.0) == pytest.approx(epsilon, rel=1e-5)
    assert loss.posterior_bounds(0.5)[1] == pytest.approx(most, rel=1e-5)
    reader = adv.Adversary(0.5, hypotheses=(3, 4))
    tree = adv.audit(plan, reader, {"score": 4, "in": 1}, also=(), progress=False)
    own = 0.5 * SCORE[4] / (0.5 * SCORE[3] + 0.5 * SCORE[4])
    assert float(tree["risk"].posterior_mean) == pytest.approx(float(own @ SCORE[4]), rel=1e-12)


def test_a_matrix_of_three_answers_over_all_pairs() -> None:
    noise = Table.from_transitions(PRAM, closed=True, local=True)
    assert noise.report_loss().epsilon(0.0) == pytest.approx(np.log(8.0), rel=1e-14)
    epsilon = np.linspace(-3.0, 3.0, 31)
    wanted = adv.RandomizedResponse(np.log(8.0), 3).privacy_loss().delta(epsilon)
    np.testing.assert_allclose(noise.report_loss().delta(epsilon), wanted, atol=1e-14)


def test_a_closed_table_has_no_larger_count() -> None:
    noise = Table.from_transitions(SCORE, closed=True)
    assert noise.log_likelihood(np.array([4.0]), np.array([5.0])) == -np.inf
    assert "0 to 4 and above" in Table.from_transitions(SCORE).describe()
    assert "counts 0 to 4, perturbations -4 to 4" in noise.describe()
    plan, reader = adv.Plan([adv.Level("score", noise)]), adv.Adversary(0.5, known=3)
    assert adv.audit(plan, reader, {"score": 4}, also=(), progress=False)["risk"]["status"] == "ok"
    with pytest.raises(ValueError, match="value must be at most 4, the last row of a closed table, got 5"):
        adv.audit(plan, adv.Adversary(0.5, known=4), {"score": 5}, also=(), progress=False)


def test_a_table_that_spends_a_fixed_rho_has_no_width_for_less() -> None:
    plan = adv.Plan([adv.Level("score", Table.from_transitions(SCORE, closed=True, local=True))])
    assert plan.scaled(1.0) == plan
    with pytest.raises(ValueError, match="no width of the noise gives this plan rho"):
        plan.scaled(0.5)


def _indexed(rows: Any, columns: Any) -> pd.DataFrame:
    return pd.DataFrame([[0.5, 0.5]] * len(rows), rows, columns)


test_tables_with_other_labels_are_refused = refusals(
    (lambda: Table(_indexed([0, 1], [-1, 0]), lowest=-2), "lowest must be the first perturbation, -1.*got -2"),
    (lambda: Table(_indexed([3], [-1, 0])), r"labelled by counts 0, 1, .* got \[3\]"),
    (lambda: Table(_indexed([0, 1], [-1, 1])), "perturbations one apart"),
    (lambda: Table.from_transitions(_indexed([0, 1], ["x", "1"])), "columns of matrix must be labelled by different"),
    (lambda: Table.from_transitions(_indexed([0, 2], [0, 1])), r"those of counts 0, 1, ..., without \[1\]"),
    (lambda: Table.from_transitions([0.5, 0.5]), "must have a row for each count"),
    (lambda: Table.from_transitions(np.ma.array(MATRIX, mask=MATRIX == 1.0)), "matrix must have no masked entries"),
    (lambda: Table(np.ma.array(MATRIX, mask=MATRIX == 1.0)), "probabilities must have no masked entries"),
    (lambda: Table.from_columns(LONG.i, LONG.j, LONG.p[:3]), "must have the same labels|three of one length"),
    (lambda: Table(MATRIX, closed=1), "closed must be True or False, got 1", TypeError),  # type: ignore[arg-type]
    (lambda: Table.from_transitions(SCORE, closed=True).privacy_loss(5), "sensitivity must be at most 4, .* got 5"),
    (lambda: Table.from_transitions(SCORE, closed=True).report_loss(), "is not local", TypeError),
    (lambda: Table.from_transitions(SCORE, local=True).report_loss(0), "apart must be positive"),
    (lambda: Table.from_transitions(np.eye(200), closed=True, local=True).report_loss(), "too many pairs"),
)


@pytest.mark.parametrize("ends", ["redrawn", "truncated", "reflected"])
@pytest.mark.parametrize(
    "noise",
    [adv.Geometric(0.7), adv.DiscreteGaussian(2.5), adv.postprocessing.rounded(adv.Laplace(1.3), 1)],
    ids=["geometric", "discrete gaussian", "rounded laplace"],
)
def test_noise_on_a_range_is_the_noise_put_back_number_by_number(noise: adv.Mechanism, ends: str) -> None:
    largest, draws = 4, np.arange(-200, 201)
    made = Table.on_range(noise, largest, ends)
    for count in range(largest + 1):
        mass = np.zeros(largest + 1)
        for release, probability in zip((count + draws).tolist(), np.exp(noise.log_prob(draws, 0)), strict=True):
            while ends == "reflected" and not 0 <= release <= largest:
                release = -release if release < 0 else 2 * largest - release
            place = min(max(release, 0), largest) if ends == "truncated" else release
            if 0 <= place <= largest:
                mass[place] += probability
        np.testing.assert_allclose(np.exp(made.log_prob(np.arange(5), count)), mass / mass.sum(), rtol=1e-9)
    assert made.largest_count == largest


def test_a_score_that_is_redrawn_has_the_loss_of_its_ends() -> None:
    """From 0 to 4, adjacent and any two scores; a matrix of post randomisation over all pairs."""
    score = Table.on_range(adv.Geometric(1.0), 4, local=True)
    assert score.report_loss(1).epsilon(0.0) == pytest.approx(1.200870, abs=1e-6)
    assert score.report_loss().epsilon(0.0) == pytest.approx(4.0, rel=1e-12)
    pram = Table.from_transitions(np.full((3, 3), 0.1) + 0.7 * np.eye(3), closed=True, local=True)
    assert pram.report_loss().epsilon(0.0) == pytest.approx(np.log(8.0), rel=1e-12)


test_a_range_that_is_none_is_refused = refusals(
    (
        lambda: Table.on_range(adv.Laplace(1.0), 4),
        "additive and of whole numbers.*Laplace.*RangedNoise.*round it",
        TypeError,
    ),
    (lambda: Table.on_range(adv.Geometric(1.0), 0), "largest must be.*at least 1.*0"),
    (lambda: Table.on_range(adv.Geometric(1.0), 4, "wrapped"), "ends must be one of redrawn, .*'wrapped'"),
)


@pytest.mark.parametrize(
    ("count", "law"),
    [
        (1, {0: 0.508333, 2: 0.475, 3: 0.016667}),
        (2, {0: 0.161558, 2: 0.555650, 3: 0.242466, 4: 0.040325}),
        (3, {2: 0.412313, 3: 0.288061, 4: 0.186939, 5: 0.112687}),
        (9, {7: 0.070125, 8: 0.244500, 9: 0.370750, 10: 0.244500, 11: 0.070125}),
    ],
)
def test_the_table_of_largest_entropy_by_its_parameters(count: int, law: dict[int, float]) -> None:
    """Numbers of an independent optimisation, D = 2, V = 1.05, js = 1."""
    releases, probs = Table.from_parameters(D=2, V=1.05, js=1).releases(count)
    assert dict(zip(releases.tolist(), probs.tolist(), strict=True)) == pytest.approx(law, abs=6e-7)


@pytest.mark.parametrize(("most", "variance", "blocked"), [(5, 3.0, 2), (10, 2.5, 0), (3, 0.01, 0), (1, 1.0, 0)])
def test_a_table_of_largest_entropy_has_its_moments(most: int, variance: float, blocked: int) -> None:
    noise = Table.from_parameters(most, variance, blocked)
    steps, probs = noise.transitions
    assert not probs[0, steps != 0].any()
    np.testing.assert_allclose(probs @ steps, 0.0, atol=1e-10)
    np.testing.assert_allclose(probs[1:] @ steps**2.0, variance, rtol=1e-10)
    assert not any(set(noise.support(i)) & {*range(1, blocked + 1)} or noise.support(i).min() < 0 for i in range(12))
    for i in range(1, len(probs)):  # entropy falls along every other law of these moments
        some = np.flatnonzero(probs[i])
        if some.size > 3:
            flat = np.linalg.svd(np.stack([np.ones(some.size), steps[some], steps[some] ** 2.0]))[2][3:]
            np.testing.assert_allclose(flat @ np.log(probs[i, some]), 0.0, atol=1e-6)


def test_the_last_rows_of_a_table_may_repeat() -> None:
    rows = [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    noise = Table(rows, lowest=-1, period=2)
    assert [noise.support(count).tolist() for count in (3, 4, 5, 10)] == [[2, 3], [4, 5], [4, 5], [10, 11]]
    assert "1 to 2 repeated above" in noise.describe()


test_parameters_of_no_table_are_refused = refusals(
    (lambda: Table.from_parameters(2, 2.5, 1), r"V must be from 1 to 2, got 2.5: the perturbations of count 1 \(D = 2"),
    (lambda: Table.from_parameters(2, 2.0, 2), "V must be from 0 to 0, got 2: the perturbations of count 3"),
    (lambda: Table.from_parameters(0, 1.0), "D must be.* at least 1"),
    (lambda: Table.from_parameters(2, -1.0), "V must be positive"),
    (lambda: Table.from_parameters(9000, 1.0), "must have at most 10,000,000 entries"),
    (lambda: Table([[1.0]], period=2), "period must be at most 1, the rows that repeat .* got 2"),
    (lambda: Table.from_transitions(SCORE, closed=True, period=2), "period must be at most 1"),
)
