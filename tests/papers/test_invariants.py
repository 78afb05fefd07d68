"""Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics": semi-adjacency, guarantees, the 2020 Census.

S01 to S47 are our own numbers for the values checked, here those on conforming databases and on guarantees; E1 and E2
and so on are errata, with what is printed and what is right. Trade-offs f(alpha) are those of the paper: the least type
II error at type I error 1 - alpha, 1 - power(1 - alpha) here.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.definitions.concentrated_bounds import simple_epsilon
from adversary.privacy.losses.lattice import LatticeLoss
from tests.oracles import invariants

inv = adv.invariants
CUBE = list(itertools.product((0, 1), repeat=3))
READINGS = ("worst", "literal")
RECORDS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def trade_off(guarantee: adv.Guarantee, alpha: float) -> float:
    return 1.0 - float(guarantee.power(1.0 - alpha))


def fixed_point(guarantee: adv.Guarantee) -> float:
    """c with f(1 - c) = c: half of what the largest total variation leaves."""
    return (1.0 - guarantee.advantage) / 2.0


# Conforming databases and semi-adjacency


def test_s01_three_databases_have_two_ones() -> None:
    two = inv.conforming(CUBE, sum, 2)
    assert len(two) == 3
    assert {invariants.apart(x, y) for x, y in itertools.combinations(two, 2)} == {2}


def test_s02_example_3() -> None:
    for reading in READINGS:
        assert inv.semi_adjacency_of(inv.conforming(CUBE, sum, 2), reading) == 2
        none = inv.Databases(inv.conforming(CUBE, sum, 0), reading)
        assert none.semi_adjacency == 0
        with pytest.warns(RuntimeWarning, match="every record is disclosed"):
            assert isinstance(adv.PureDP(1.0).given(none), adv.NoPrivacy)


def test_s03_example_5_and_erratum_e1() -> None:
    """E1: the definition as printed gives 2, the text says 3, which is the worst-case reading."""
    margins = [[2, 1], [2, 1]]
    space = inv.Margins(margins)
    assert space.databases == len(space.listed) == len(invariants.databases_with(margins)) == 9
    for answer in (inv.semi_adjacency(margins), inv.semi_adjacency_of(space.listed), space.semi_adjacency):
        assert answer == 3
    assert inv.semi_adjacency(margins, reading="literal") == inv.semi_adjacency_of(space.listed, "literal") == 2


def test_s04_theorem_16() -> None:
    assert [inv.semi_adjacency_bound(features) for features in (1, 2, 5)] == [2, 3, 6]


@pytest.mark.parametrize(
    ("margins", "expected"),
    [
        ([[2, 2], [2, 2]], 2),
        ([[4, 0], [2, 2]], 2),
        ([[4, 0], [4, 0]], 0),
        ([[1, 1], [1, 1]], 2),
    ],
)
def test_s05_small_tables(margins: list[list[int]], expected: int) -> None:
    assert inv.semi_adjacency(margins) == inv.semi_adjacency_of(inv.Margins(margins).listed) == expected


def test_s06_a_second_margin_leaves_fewer_databases_and_a_larger_semi_adjacency() -> None:
    space = invariants.all_databases(3, [2, 2])
    first = inv.conforming(space, lambda x: sum(a for a, _ in x), 1)
    both = inv.conforming(first, lambda x: sum(b for _, b in x), 1)
    assert (len(first), len(both)) == (24, 9)
    assert (inv.semi_adjacency_of(first), inv.semi_adjacency_of(both)) == (2, 3)
    assert inv.semi_adjacency([[2, 1]]) == 2


def test_s07_a_joint_table_counts_as_one_feature() -> None:
    """Remark 17."""
    space = invariants.all_databases(3, [2, 2])
    joint = inv.conforming(space, lambda x: [x.count(cell) for cell in RECORDS], [1, 1, 1, 0])
    assert len(joint) == inv.Margins([[1, 1, 1, 0]]).databases == 6
    assert inv.semi_adjacency_of(joint) == inv.semi_adjacency([[1, 1, 1, 0]]) == 2


def test_s08_the_literal_reading_leaves_a_database_without_a_neighbour() -> None:
    """E1 again: one record differs, says the printed definition, and the last database is five from all others."""
    units = [tuple(int(i == j) for j in range(6)) for i in range(6)]
    databases = [(0,) * 6, *units, (1,) * 6]
    assert inv.semi_adjacency_of(databases, reading="literal") == 1
    assert inv.semi_adjacency_of(databases) == 5
    assert min(invariants.apart(databases[-1], other) for other in databases[:-1]) == 5


@pytest.mark.parametrize(
    ("margins", "databases"),
    [([[3, 2], [3, 2]], 100), ([[3, 1], [2, 2]], 24), ([[3, 2], [4, 1]], 50)],
)
def test_s44_more_tables(margins: list[list[int]], databases: int) -> None:
    space = inv.Margins(margins)
    assert space.databases == len(space.listed) == databases
    for reading, expected in zip(READINGS, (3, 2), strict=True):
        assert inv.semi_adjacency(margins, reading) == inv.semi_adjacency_of(space.listed, reading) == expected


# Guarantees


@pytest.mark.parametrize(
    ("guarantee", "at_90", "fixed"),
    [
        pytest.param(adv.PureDP(1.0).group(2), 0.267879, 0.183940, id="S24"),
        pytest.param(adv.PureDP(1.0).group(3), 0.098547, 0.098938, id="S25"),
        pytest.param(adv.ApproximateDP(1.0, 0.05).group(2), 0.231091, 0.165546, id="S46"),
    ],
)
def test_s24_s25_s46_iterated_trade_offs(guarantee: adv.Guarantee, at_90: float, fixed: float) -> None:
    assert trade_off(guarantee, 0.9) == pytest.approx(at_90, abs=1e-6)
    assert fixed_point(guarantee) == pytest.approx(fixed, abs=1e-6)
    assert trade_off(guarantee, 1.0 - fixed_point(guarantee)) == pytest.approx(fixed_point(guarantee), abs=1e-12)


def test_s24_a_balanced_guess_is_less_often_right_than_twice_epsilon_allows() -> None:
    given = adv.PureDP(1.0).given(inv.Margins([[2, 1]]))
    assert 1.0 - fixed_point(given) == pytest.approx(0.816060, abs=1e-6)
    assert 1.0 - fixed_point(adv.PureDP(2.0)) == pytest.approx(0.880797, abs=1e-6)
    assert given.loss_bound(0.0) == 2.0


def test_s26_gaussian_dp_beside_margins() -> None:
    one = adv.GaussianDP(1.0)
    sizes = (inv.Margins([[5, 4]]), inv.Margins([[5, 1], [5, 1]]))
    deltas = [float(g.delta(1.0)) for g in (one, *(one.given(margins) for margins in sizes))]
    assert deltas == pytest.approx([0.126937, 0.509862, 0.787601], abs=1e-6)


def test_s30_s31_s47_semi_dp_first_promises_more() -> None:
    """Proposition 21."""
    twice = [adv.PureDP(1.0)] * 2
    first, after = inv.extend_then_compose(twice, 2), inv.compose_then_extend(twice, 2)
    assert (trade_off(first, 0.9), trade_off(after, 0.9)) == pytest.approx((0.160417, 0.059261), abs=1e-6)
    assert (first.advantage, after.advantage) == pytest.approx((0.739583, 0.864665), abs=1e-6)
    first, after = inv.extend_then_compose(twice, 3), inv.compose_then_extend(twice, 3)
    assert (first.advantage, after.advantage) == pytest.approx((0.881191, 0.927205), abs=1e-6)
    assert (first.delta(3.0), after.delta(3.0)) == pytest.approx((0.664961, 0.756403), abs=1e-6)


def test_proposition_21_is_an_equality_for_gaussian_dp_and_zcdp() -> None:
    gaussian = [adv.GaussianDP(0.6), adv.GaussianDP(0.8)]
    for compose in (inv.extend_then_compose, inv.compose_then_extend):
        found: Any = compose(gaussian, 3)
        assert found.mu == pytest.approx(3.0)
        found = compose([adv.ZeroConcentratedDP(0.1), adv.ZeroConcentratedDP(0.3)], 3)
        assert found.rho == pytest.approx(3.6)


# The 2020 Census: state totals are exact


STATES = inv.Margins([[39_576_757, 29_183_290, 21_570_527, 240_792_905]])


def test_s32_rho_across_states() -> None:
    assert STATES.semi_adjacency == 2
    assert STATES.exact
    found: Any = adv.ZeroConcentratedDP(2.56).given(STATES)
    assert found.rho == pytest.approx(10.24, rel=1e-15)


@pytest.mark.parametrize(
    ("delta", "within", "across", "tolerance"),
    [
        pytest.param(1e-10, 17.91528, 40.95057, 1e-5, id="S33"),
        pytest.param(1e-5, 13.417825, 31.955649, 1e-5, id="S35"),
    ],
)
def test_s33_s35_epsilon_by_lemma_40(delta: float, within: float, across: float, tolerance: float) -> None:
    found: Any = adv.ZeroConcentratedDP(2.56).given(STATES)
    published = simple_epsilon(2.56, delta), simple_epsilon(found.rho, delta)
    assert published == pytest.approx((within, across), abs=tolerance)
    assert found.epsilon(delta) < published[1]  # the tight conversion


def test_s34_person_and_housing_tables_together() -> None:
    assert (adv.ZeroConcentratedDP(2.56) + adv.ZeroConcentratedDP(0.07)).rho == pytest.approx(2.63, rel=1e-15)


# Which pairs are protected


def responses(database: tuple[int, ...], epsilon: float) -> list[float]:
    """Probability of each output of randomised response to every record of {0, 1}^3."""
    keep = np.exp(epsilon) / (1.0 + np.exp(epsilon))
    return [
        float(np.prod([keep if a == b else 1.0 - keep for a, b in zip(database, out, strict=True)])) for out in CUBE
    ]


def test_proposition_11_every_conforming_pair_is_protected_as_a_group_of_its_distance() -> None:
    one = adv.PureDP(1.0)
    for x, y in itertools.combinations(inv.conforming(CUBE, sum, 2), 2):
        loss = LatticeLoss.from_probs(responses(x, 1.0), responses(y, 1.0))
        assert one.group(2).is_satisfied_by(loss)
        assert not one.is_satisfied_by(loss)  # one record's promise says nothing of them


def test_subspace_privacy_describes_pairs_that_the_invariant_rules_out() -> None:
    """Definition 10: neighbours in one record have other totals, and the joint release tells them apart for certain."""
    for x in CUBE:
        for y in CUBE:
            if invariants.apart(x, y) == 1:
                p, q = (np.outer(np.eye(4)[sum(z)], responses(z, 1.0)).ravel() for z in (x, y))
                joint = LatticeLoss.from_probs(p, q)
                assert joint.advantage == 1.0
                assert joint.power(0.0) == 1.0


def test_example_6_the_same_parameters_on_fewer_pairs_are_weaker() -> None:
    two = adv.PureDP(1.0).group(2)
    everyone = invariants.Scoped(CUBE, 2, two)
    conforming = invariants.Scoped(inv.conforming(CUBE, sum, 2), 2, two)
    assert invariants.compare(everyone, conforming) == "stronger"
    assert invariants.compare(invariants.Scoped(inv.conforming(CUBE, sum, 1), 2, two), conforming) is None
    half = invariants.Scoped(CUBE, 2, adv.PureDP(0.5).group(2))
    assert (invariants.compare(half, everyone), invariants.compare(everyone, everyone)) == ("stronger", "equal")
