"""Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics": tables with published margins, their mechanisms,
canonical noise and the test of the odds ratio, with the errata.

Labels S09 to S45 are our numbering of the numbers printed there or derived exactly from it; E2 to E15 of its slips,
for which both the printed and the correct statement stand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import adversary as adv
from adversary.literature.canonical import CanonicalNoise, Tulap, canonical_noise
from adversary.literature.odds_ratio import umpu
from adversary.privacy.invariants.noise_costs import compare_costs, naive_costs, naive_sensitivity
from adversary.privacy.invariants.sensitivities import SensitivitySpace
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian, chi_mean
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import invariant_tables

INF = float("inf")
ORDERS = (1, 2, INF)
MARGINS = (10, 10, 8, 12)


def norms(space: SensitivitySpace) -> list[float]:
    return [space.norm(order) for order in ORDERS]


# Sections 5.1 and 5.2: what changes


def test_s09_moves_of_example_7() -> None:
    """E11: the "two combinations" of indices are four, and give two matrices."""
    space = sensitivity_space((2, 1), (2, 1), 3)
    assert {tuple(v) for v in space.vectors.tolist()} == {(0, 0, 0, 0), (1, -1, -1, 1), (-1, 1, 1, -1)}


@pytest.mark.parametrize(("rows", "columns", "moves"), [(2, 2, 2), (2, 3, 6), (3, 3, 18), (7, 6, 630)])
def test_s10_number_of_moves(rows: int, columns: int, moves: int) -> None:
    """Proposition 32: r(r - 1)c(c - 1) / 2."""
    assert len(sensitivity_space(rows, columns, 2).vectors) == moves + 1


def test_s11_to_s13_sensitivities() -> None:
    for rows, columns in ((2, 2), (3, 4), (7, 6)):
        assert norms(sensitivity_space(rows, columns, 2)) == [4.0, 2.0, 1.0]  # type: ignore[arg-type]
    assert norms(invariant_tables.group_space(4)) == pytest.approx([2.0, math.sqrt(2), 1.0], rel=1e-15)
    group = invariant_tables.group_space(4, size=3)
    assert norms(group) == pytest.approx([6.0, 3 * math.sqrt(2), 3.0], rel=1e-15)
    assert norms(group) == pytest.approx([naive_sensitivity(3, order) for order in ORDERS], rel=1e-15)


@pytest.mark.parametrize(("adjacency", "count", "square"), [(2, 19, 4.0), (3, 31, 6.0)])
def test_s14_and_e2_six_cycles(adjacency: int, count: int, square: float) -> None:
    """Proposition 32 lists the moves as all changes under A_3: with three rows and columns there are twelve more."""
    space = sensitivity_space((1, 1, 1), (1, 1, 1), adjacency)
    brute = invariant_tables.sensitivity_space((1, 1, 1), (1, 1, 1), adjacency)
    assert len(space.vectors) == len(brute) == count
    assert max(sum(x * x for x in v) for v in brute) == square
    assert space.norm(2) ** 2 == pytest.approx(square, rel=1e-15)


def test_e9_what_projection_leaves_is_constant_on_components_only() -> None:
    """Lemma 42 says "for all X": over databases that no chain of neighbours joins, the rest of phi is told exactly.

    Two islands, each of two neighbours that trade the same unit; phi counts three cells.
    """
    islands = [[(3, 0, 0), (2, 1, 0)], [(0, 0, 5), (-1, 1, 5)]]
    changes = [tuple(np.subtract(x, y)) for island in islands for x in island for y in island if x != y]
    space = SensitivitySpace(changes)
    rest = [[np.asarray(x) - space.projection @ x for x in island] for island in islands]
    for one, other in rest:
        np.testing.assert_allclose(one, other, atol=1e-14)
    assert np.abs(rest[0][0] - rest[1][0]).max() > 1


def test_e10_a_true_margin_makes_the_space_flat_and_no_margin_does_not() -> None:
    """Proposition 25 asks that the kernel of L is not the set of databases; L = 0 meets that, and nothing is flat."""
    space = sensitivity_space((2, 1), (2, 1), 3)
    rows_kept = np.kron(np.eye(2), np.ones(2))
    assert np.abs(space.vectors @ rows_kept.T).max() == 0
    assert space.rank < space.cells
    free = SensitivitySpace(np.vstack([np.eye(4), -np.eye(4)]))  # people come and go: only L = 0 is kept
    assert free.rank == free.cells


def test_e15_k_norm_density_is_of_the_argument() -> None:
    """Printed with u in cK for an argument v: the density falls with the norm of the change itself."""
    noise = KNorm(sensitivity_space((2, 1), (2, 1), 3), 1.0)
    step = np.array([[1, -1], [-1, 1]])
    near, far = (float(noise.log_prob(k * step, 0 * step)) for k in (1, 2))
    assert near - far == pytest.approx(1.0, rel=1e-12)


def test_e2_noise_for_moves_only_promises_less_under_three_records() -> None:
    moves, all_changes = sensitivity_space(3, 3, 2), sensitivity_space(3, 3, 3)
    assert SpanGaussian(moves, 1.0).under(all_changes) == adv.GaussianDP(math.sqrt(6) / 2)
    k_norm = KNorm(moves, 1.0).under(all_changes)
    cycle = all_changes.vectors[np.abs(all_changes.vectors).sum(1) == 6][0]
    assert k_norm.loss_bound(0.0) == pytest.approx(invariant_tables.k_norm(moves.vectors, cycle), rel=1e-9)
    assert k_norm.loss_bound(0.0) > 1.0


def test_s15_and_s16_projection() -> None:
    """Example 8, and P = (I - J / r) x (I - J / c)."""
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    np.testing.assert_allclose(sensitivity_space(2, 2, 3).projection, np.outer(signs, signs) / 4.0, atol=1e-12)
    for rows, columns, rank in ((3, 3, 4), (3, 4, 6)):
        space = sensitivity_space(rows, columns, 2)
        centre = [np.eye(n) - np.full((n, n), 1.0 / n) for n in (rows, columns)]
        np.testing.assert_allclose(space.projection, np.kron(*centre), atol=1e-12)
        assert space.rank == rank


def test_s43_move_of_figure_1() -> None:
    move = np.zeros((7, 6), dtype=int)
    move[1, 1] = move[4, 4] = 1
    move[1, 4] = move[4, 1] = -1
    space = sensitivity_space(7, 6, 2)
    assert space.contains(move)
    assert (space.vectors == move.ravel()).all(1).sum() == 1


# Section 5.2: what noise costs


def test_s17_scale_of_own_and_usual_noise() -> None:
    own, usual = SpanGaussian(sensitivity_space(2, 2, 3), 1.0), naive_costs(4, 3, 1.0, 1.0)["gaussian"] / chi_mean(4)
    assert own.scale == 2.0
    assert usual == pytest.approx(3 * math.sqrt(2), rel=1e-15)
    assert own.scale / usual == pytest.approx(0.471405, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "own", "usual"), [(2, 1.595769, 7.976042), (3, 3.759942, 12.379931), (5, 7.876051, 21.002184)]
)
def test_s18_s19_s45_gaussian_costs_of_figure_2(k: int, own: float, usual: float) -> None:
    """The paper sets moves (Delta_2 = 2) against usual noise for three records: like for like at k = 2 only."""
    costs = compare_costs(k, k)
    ours, theirs = costs["own"].sel(mechanism="gaussian"), costs["naive"].sel(baseline="gaussian")
    assert float(ours.sel(adjacency=2)) == pytest.approx(own, abs=1e-6)
    assert float(theirs.sel(adjacency=3)) == pytest.approx(usual, abs=1e-6)
    assert float(costs["published_ratio"]) == pytest.approx(own / usual, abs=1e-6)
    like_for_like = [math.sqrt(0.5), 2 / (3 * math.sqrt(2)) if k == 2 else math.sqrt(6) / (3 * math.sqrt(2))]
    dimensions = float(theirs.sel(adjacency=2)) / (2 * math.sqrt(2)), own / 2.0
    expected = np.array(like_for_like) * dimensions[1] / dimensions[0]
    np.testing.assert_allclose(costs["ratio"], expected, rtol=1e-6)
    if k == 5:
        assert float(costs["published_ratio"]) == pytest.approx(0.375011, abs=1e-6)


@pytest.mark.parametrize(("k", "sd"), [(2, 1.2056), (3, 1.3649)])
def test_thirty_replicates_as_in_figure_2(k: int, sd: float) -> None:
    noise = SpanGaussian(sensitivity_space(k, k, 2), 1.0)
    table = np.random.default_rng(k).multinomial(500, np.full(k * k, 1.0 / k**2)).reshape(k, k)
    lengths = np.linalg.norm((noise.sample(table, np.random.default_rng(1), 30) - table).reshape(30, -1), axis=1)
    assert lengths.mean() == pytest.approx(noise.expected_cost, abs=4 * sd / math.sqrt(30))
    spread = np.trace(noise.covariance) - noise.expected_cost**2
    assert math.sqrt(spread) == pytest.approx(sd, abs=1e-4)


def test_s20_pure_costs_of_figure_3() -> None:
    costs = compare_costs(2, 2)
    assert float(costs["own"].sel(adjacency=3, mechanism="k-norm")) == pytest.approx(2.0, abs=1e-9)
    usual = costs["naive"].sel(adjacency=3, baseline=["l1", "l2", "l infinity"])
    np.testing.assert_allclose(usual, [15.05741, 16.97056, 16.82849], atol=1e-5)


def test_s21_algorithm_3_on_two_by_three() -> None:
    noise = KNorm(sensitivity_space(2, 3, 2), 1.0)
    assert noise.space.hull.volume == pytest.approx(3.0, rel=1e-12)
    assert noise.acceptance == pytest.approx(0.75, rel=1e-12)
    assert noise.expected_cost == pytest.approx(2 + 1.5 * math.log(3), abs=1e-9)
    assert noise.expected_cost == pytest.approx(3.647918, abs=1e-6)


def test_e5_sign_of_the_k_norm_density() -> None:
    """Proposition 7 prints exp(+ ...): the density falls with the norm, by epsilon a unit."""
    noise = KNorm(sensitivity_space(2, 2, 2), 0.7)
    move = noise.space.vectors[1]
    at = noise.log_prob(np.arange(4)[:, None] * move, np.zeros(4))
    np.testing.assert_allclose(np.diff(at), -0.7, rtol=1e-12)
    # every cell moves by the same Laplace of scale 1 / epsilon; along the diagonal, 2 units of length a cell
    assert at[0] == pytest.approx(math.log(0.7 / 2.0 / 2.0))


def test_e6_gaussian_covariance_is_a_square() -> None:
    """Proposition 6 prints sigma I for noise of standard deviation sigma."""
    np.testing.assert_allclose(
        SpanGaussian(sensitivity_space(2, 2, 2), 0.5).covariance, 16 * sensitivity_space(2, 2, 2).projection
    )


def test_e7_projecting_the_sensitivity_space_out_leaves_nothing() -> None:
    """Definition 10 prints the span of the sensitivity space where the row space of the invariant is meant."""
    space = sensitivity_space(2, 3, 2)
    margins = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], *np.hstack([np.eye(3), np.eye(3)])])
    off_rows = np.eye(6) - np.linalg.pinv(margins) @ margins
    np.testing.assert_allclose(off_rows, space.projection, atol=1e-12)
    assert np.abs(space.vectors @ (np.eye(6) - space.projection)).max() < 1e-12


def test_s42_and_e8_projection_can_lengthen_in_the_largest_entry() -> None:
    """Said after Proposition 26 of every norm; it is so of l_2."""
    p = SensitivitySpace([[2, 1], [-2, -1]]).projection
    assert np.abs(p @ [1.0, 1.0]).max() == pytest.approx(1.2, abs=1e-12)
    assert np.linalg.norm(p @ [1.0, 1.0]) < math.sqrt(2)


# Section 5.3: canonical noise and the test


def test_s22_and_s23_canonical_noise() -> None:
    """Lemma 36, for epsilon 1 and for mu 1."""
    pure, gaussian = adv.PureDP(1.0), adv.GaussianDP(1.0)
    for noise in (Tulap(1.0), CanonicalNoise(pure)):
        assert 0.5 * (1.0 - noise.nominal_guarantee.advantage) == pytest.approx(0.268941, abs=1e-6)
        assert noise.cdf(1.0, 0) == pytest.approx(0.816060, abs=1e-6)
        assert noise.cdf(-2.0, 0) == pytest.approx(0.067668, abs=1e-6)
    noise = CanonicalNoise(gaussian)
    assert noise.sf(0.5, 0) == pytest.approx(0.308538, abs=1e-6)
    assert noise.cdf(1.0, 0) == pytest.approx(0.841345, abs=1e-6)
    assert noise.cdf(0.25, 0) != pytest.approx(float(ndtr(0.25)), abs=1e-4), "a second canonical noise of G_1"


def test_s36_and_s37_power_of_the_test() -> None:
    """Theorem 37, beside the linear program and the test without privacy."""
    test = umpu(MARGINS, adv.PureDP(1.0), 0.05)
    assert test.threshold == pytest.approx(6.912486, abs=1e-6)
    power = test.power([0.5, 1.0, 2.0, 3.0, 5.0])
    np.testing.assert_allclose(power, [0.021106, 0.05, 0.111958, 0.169883, 0.265721], atol=1e-6)
    for odds, mine in zip((2.0, 3.0, 5.0), power[2:], strict=True):
        assert mine == pytest.approx(invariant_tables.largest_power(MARGINS, odds, 0.05, 1.0, 0.0), abs=1e-8)
    np.testing.assert_allclose(test.nonprivate_power([2.0, 3.0, 5.0]), [0.179258, 0.305240, 0.494169], atol=1e-6)


def test_s38_p_values() -> None:
    """Equation 6 with F = N(0, 1)."""
    test = umpu(MARGINS, adv.GaussianDP(1.0), 0.05)
    assert test.noise == canonical_noise(adv.GaussianDP(1.0)) == adv.Gaussian(1.0)
    np.testing.assert_allclose(test.p_value([6.0, 7.5]), [0.092250, 0.009771], atol=1e-6)


@pytest.mark.parametrize(("rows", "size"), [((20, 10), 0.603719), ((10, 20), 0.00022)])
def test_s39_and_e4_rows_of_the_hypergeometric_law(rows: tuple[int, int], size: float) -> None:
    """Lemma 46 and the proof of Theorem 37 take the law of x21 for that of x11, whose threshold has another size."""
    margins = (*rows, 9, 21)
    mixed = umpu((rows[1], rows[0], 9, 21), adv.GaussianDP(1.0), 0.05).threshold
    x, mass = invariant_tables.fisher(margins, 1.0)
    assert float(mass @ ndtr(np.array(x) - mixed)) == pytest.approx(size, abs=1e-5)
    test = umpu(margins, adv.GaussianDP(1.0), 0.05)
    assert float(mass @ ndtr(np.array(x) - test.threshold)) == pytest.approx(0.05, abs=1e-12)


def test_s41_and_e3_orientation_of_the_odds_ratio() -> None:
    """Section 5.3 prints odds(theta2) / odds(theta1), the reciprocal of what its law of x11 uses."""
    margins, theta = (7, 9, 6, 10), (0.3, 0.6)
    odds = theta[0] / (1 - theta[0]) / (theta[1] / (1 - theta[1]))
    assert odds == pytest.approx(1 / 3.5)
    exact = invariant_tables.two_binomials(margins, theta)
    test = umpu(margins, adv.PureDP(1.0), 0.05)
    np.testing.assert_allclose(np.exp(test.log_mass(odds)), exact, atol=1e-12)
    assert np.abs(np.exp(test.log_mass(1 / odds)) - exact).max() > 0.1
