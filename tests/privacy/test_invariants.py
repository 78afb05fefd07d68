"""Conforming databases, semi-adjacency and guarantees beside them, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.invariants import hitting_sets
from tests.oracles import invariants
from tests.tables import refusals

inv = adv.invariants


def partitions(n: int, parts: int, most: int | None = None) -> list[tuple[int, ...]]:
    """Counts of n in at most so many parts, the largest first."""
    if n == 0:
        return [()]
    if parts == 0:
        return []
    largest = n if most is None else min(n, most)
    return [(k, *rest) for k in range(largest, 0, -1) for rest in partitions(n - k, parts - 1, k)]


PAIRS = [pair for n in range(1, 7) for pair in itertools.combinations_with_replacement(partitions(n, 3), 2)]
TRIPLES = [
    three for n in range(1, 6) for three in itertools.combinations_with_replacement(partitions(n, 2 if n > 4 else 3), 3)
]
FOURS = [four for n in range(2, 6) for four in itertools.combinations_with_replacement(partitions(n, 2)[1:], 4)]


# Semi-adjacency


def test_the_two_oracles_agree() -> None:
    for n in range(1, 5):
        for pair in itertools.combinations_with_replacement(partitions(n, 3 if n < 4 else 2), 2):
            assert invariants.margins_semi_adjacency(pair) == invariants.semi_adjacency(invariants.databases_with(pair))


@pytest.mark.slow_cases("four features")
@pytest.mark.parametrize("margins", [PAIRS, TRIPLES, FOURS], ids=["two features", "three features", "four features"])
def test_margins_have_the_semi_adjacency_of_brute_force(margins: list[Any]) -> None:
    for one in margins:
        found = tuple(inv.semi_adjacency(one, reading) for reading in ("worst", "literal"))
        assert found == invariants.margins_semi_adjacency(one), one


def test_listed_databases_have_the_semi_adjacency_of_brute_force() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        space = invariants.all_databases(3, [2, 2])
        listed = [space[k] for k in rng.choice(len(space), rng.integers(1, 14), replace=False)]
        found = tuple(inv.semi_adjacency_of(listed, reading) for reading in ("worst", "literal"))
        assert found == invariants.semi_adjacency(listed)


def test_records_may_be_anything_hashable_and_arrays() -> None:
    words = [("a", "b"), ("b", "a")]
    assert inv.semi_adjacency_of(words) == inv.semi_adjacency_of(np.array([[0, 1], [1, 0]])) == 2
    assert inv.semi_adjacency_of(np.array([[[0, 1], [1, 1]], [[1, 1], [0, 1]]])) == 2
    assert inv.semi_adjacency_of([[[0, 1], [1, 1]], [[1, 1], [0, 1]]]) == 2


def test_a_level_that_is_absent_and_a_feature_that_is_fixed_change_nothing() -> None:
    for margins in PAIRS[::5]:
        n = sum(margins[0])
        padded = [(0, *levels, 0) for levels in margins]
        assert inv.semi_adjacency(padded) == inv.semi_adjacency(margins) == inv.semi_adjacency([*margins, (n,)])


def test_semi_adjacency_never_exceeds_the_bound_and_needs_no_list() -> None:
    states = [39_538_223, 29_145_505, 21_538_187]
    n = sum(states)
    assert inv.semi_adjacency([states]) == 2
    assert inv.semi_adjacency([states, [n - 5, 5]]) == 3
    for features in range(1, 9):
        assert inv.semi_adjacency([[n - 1, 1]] * features) == features + 1 == inv.semi_adjacency_bound(features)
        assert inv.semi_adjacency([[1, 1]] * features) == 2
    assert type(inv.semi_adjacency([states])) is int


def test_four_features_and_more_are_searched() -> None:
    """Half of the records in each level of each of q features: one record gives up two values at least."""
    assert [inv.semi_adjacency([[500, 500]] * q) for q in (1, 2, 3, 4, 5)] == [2, 2, 3, 3, 3]


@pytest.mark.parametrize("points", [2, 3, 4])
def test_hardest_covers_are_those_of_every_placement(points: int) -> None:
    for q in (1, 2, 3, 4):
        for sizes in itertools.combinations_with_replacement(range(1, points + 1), q):
            least, most = hitting_sets.hardest_cover(sizes, points)
            assert least == most == invariants.hardest_placement(sizes, points), sizes


def test_an_unfinished_search_says_so_and_errs_towards_more_risk() -> None:
    margins = [[4, 7]] * 8
    with pytest.warns(RuntimeWarning, match="lies between 3 and 5; 5 is used"):
        assert inv.semi_adjacency(margins) == 5
    assert inv.Margins(margins).limits("worst") == (3, 5)
    found = inv.Margins(margins)
    assert not found.exact
    with pytest.warns(RuntimeWarning, match="overstates"):
        assert found.semi_adjacency == 5
    with pytest.warns(RuntimeWarning, match="overstates"):
        assert adv.GaussianDP(1.0).given(inv.Margins(margins)) == adv.GaussianDP(5.0)


# Conforming databases


def test_margins_list_and_count_what_conforms() -> None:
    for margins in (*PAIRS[:40:3], *TRIPLES[:9]):
        space = inv.Margins(margins)
        if space.databases <= 400 and sum(margins[0]) < 5:
            assert sorted(space.listed) == sorted(invariants.databases_with(margins))
            assert len(space.listed) == space.databases


def margins_of(database: Any) -> tuple[tuple[int, ...], ...]:
    return invariants.margins_of(database, [2, 2])


# Guarantees beside invariants


GIVEN = {
    "pure": adv.PureDP(0.7),
    "approximate": adv.ApproximateDP(0.7, 1e-5),
    "probabilistic": adv.ProbabilisticDP(0.7, 1e-5),
    "zCDP": adv.ZeroConcentratedDP(0.2),
    "renyi": RenyiDP(8.0, 0.2),
    "gaussian": adv.GaussianDP(0.6),
    "none": adv.NoPrivacy(),
    "loss": adv.Geometric(0.7).privacy_loss(),
}


@pytest.mark.parametrize("name", GIVEN)
def test_given_margins_is_the_group_of_semi_adjacency(name: str) -> None:
    e = np.linspace(-1.0, 6.0, 30)
    for margins, size in (([[3, 2]], 2), ([[3, 1], [3, 1]], 3)):
        found = GIVEN[name].given(inv.Margins(margins))
        np.testing.assert_array_equal(found.delta(e), GIVEN[name].group(size).delta(e))
    listed = inv.Databases(inv.Margins([[2, 1], [2, 1]]).listed)
    np.testing.assert_array_equal(GIVEN[name].given(listed).delta(e), GIVEN[name].group(3).delta(e))


@pytest.mark.parametrize("name", GIVEN)
def test_one_conforming_database_is_no_privacy(name: str) -> None:
    for alone in (inv.Margins([[4, 0]]), inv.Margins([[4], [4, 0]], reading="literal"), inv.Databases([(0, 1)])):
        assert alone.semi_adjacency == 0
        with pytest.warns(RuntimeWarning, match="every record is disclosed"):
            found = GIVEN[name].given(alone)
        assert isinstance(found, adv.NoPrivacy)
        assert found.advantage == 1.0
        assert found.posterior_bounds(0.3) == (0.0, 1.0)


def test_semi_first_is_never_worse_than_composing_first() -> None:
    a = np.linspace(0.0, 1.0, 101)
    rng = np.random.default_rng(3)
    for _ in range(12):
        each: list[adv.Guarantee] = [
            adv.ApproximateDP(rng.exponential(), 0.02 * rng.random() ** 4 * (rng.random() < 0.5))
            for _ in range(rng.integers(1, 4))
        ]
        size = int(rng.integers(1, 4))
        first, after = inv.extend_then_compose(each, size), inv.compose_then_extend(each, size)
        assert np.all(np.asarray(first.power(a)) <= np.asarray(after.power(a)) + 1e-9)
    for one, size in ((adv.GaussianDP(0.4), 3), (adv.ZeroConcentratedDP(0.3), 2)):
        first, after = inv.extend_then_compose([one, one], size), inv.compose_then_extend([one, one], size)
        np.testing.assert_allclose(first.power(a), after.power(a), rtol=1e-12)


# Which guarantee implies which


ONE = adv.PureDP(1.0)


def test_a_guarantee_implies_what_its_worst_pair_satisfies() -> None:
    assert ONE.implies(adv.ZeroConcentratedDP(0.5))
    assert not ONE.implies(adv.ZeroConcentratedDP(0.2))
    assert ONE.group(2).implies(adv.PureDP(2.0))
    assert not adv.PureDP(2.0).implies(ONE.group(2))
    assert ONE.implies(adv.ApproximateDP(1.0, 0.01))
    assert not adv.NoPrivacy().implies(ONE)


def test_of_two_kinds_without_a_worst_pair_none_is_known_to_imply_the_other() -> None:
    with pytest.raises(TypeError, match="zCDP has no worst pair"):
        adv.ZeroConcentratedDP(0.5).implies(ONE)
    with pytest.raises(TypeError, match="Renyi DP has no worst pair"):
        RenyiDP(2.0, 0.1).implies(RenyiDP(3.0, 0.1))
    assert RenyiDP(2.0, 0.1).implies(RenyiDP(2.0, 0.2))
    assert not RenyiDP(2.0, 0.2).implies(RenyiDP(2.0, 0.1))


# Couplings


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_coupling_radius_is_strassens(data: st.DataObject) -> None:
    space = list(itertools.product((0, 1), repeat=4))
    listed = data.draw(st.lists(st.sampled_from(space), min_size=2, max_size=6, unique=True))
    weights = st.lists(st.integers(0, 4), min_size=len(listed), max_size=len(listed)).filter(any)
    p, q = (np.array(data.draw(weights), dtype=float) for _ in range(2))
    expected = invariants.coupling_radius(listed, (p / p.sum()).tolist(), (q / q.sum()).tolist())
    assert inv.coupling_radius(listed, p, q) == expected


def test_under_a_uniform_prior_the_radius_of_a_record_is_the_semi_adjacency() -> None:
    for margins in ([(2, 1), (2, 1)], [(2, 2), (2, 2)], [(3, 1), (2, 2)], [(2, 1, 1)], [(2, 1), (2, 1), (2, 1)]):
        listed = inv.Margins(margins).listed
        values = sorted({one[0] for one in listed})
        laws = {x: [one[0] == x for one in listed] for x in values}
        weights = {x: np.array(law, dtype=float) for x, law in laws.items()}
        radii = [inv.coupling_radius(listed, weights[x], weights[y]) for x, y in itertools.combinations(values, 2)]
        assert max(radii) == inv.semi_adjacency(margins)


# Bad input


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: inv.semi_adjacency([[2, 1], [2, 2]]), "margins must agree on the number of.*totals 3, 4"),
    (lambda: inv.semi_adjacency([2, 1]), "one list of counts per feature, got 2 for feature 0", TypeError),
    (lambda: inv.semi_adjacency_of([(0,), (0, 1)]), "one number of records", NotImplementedError),
    (lambda: inv.semi_adjacency_of([(k,) for k in range(5001)]), "at most 5000 databases.*5001"),
    (lambda: ONE.given([[2, 1], [2, 1]]), r"invariants must have a semi_adjacency.*\[\[2, 1\]", TypeError),  # type: ignore[arg-type]
    (lambda: inv.conforming([(0, 1)], sum, 5), "no database conforms: none.*statistic 5"),
    (lambda: inv.Margins([[10**6, 1]]).databases, "more than 100000 records are not counted"),
    (lambda: inv.coupling_radius([(0,), (1,)], [1, 0], [0, 0]), "second must have some weight"),
)
