"""Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics": what readers conclude, with both numbers of E1.

Rows S27 to S29 and S40 of the numbers to reproduce (our numbering; the paper prints none of them), and what follows for
a Bayesian reader from Propositions 11 and 15, Theorem 16 and section 6.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import adversary as adv
from adversary.adversaries import known_totals as cd
from adversary.literature.joint_distribution import JointDistribution
from adversary.privacy.invariants.adjacency import semi_adjacency
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import conditioned as oracle

CUBE = list(itertools.product((0, 1), repeat=3))
RESPONSE = adv.RandomizedResponse(1.0)
PURE = adv.PureDP(1.0)


def listed_law(databases: Any = CUBE, prior: Any = None) -> JointDistribution:
    """A law over these databases and no others; uniform unless given."""
    return JointDistribution.listed(databases, np.full(len(databases), 1 / len(databases)) if prior is None else prior)


def mass(law: JointDistribution, database: Any) -> float:
    return law.mass({f"record {i}": value for i, value in enumerate(database)})


def has_two(database: Any) -> bool:
    return sum(database) == 2


def test_s27_the_bound_that_ignores_the_invariant_is_false() -> None:
    """Example 2: three bits, two of them ones; randomised response answers (0, 1, 1), the truth."""
    law = listed_law()
    known = law.given(has_two)
    assert known.possible.sum() == 3
    assert 1.0 / law.mass(has_two) == pytest.approx(8 / 3)
    found = known.after(adv.literature.record_log_likelihood(RESPONSE, (0, 1, 1), law))
    truth, other = mass(found, (0, 1, 1)), mass(found, (1, 0, 1))
    assert truth == pytest.approx(1 / (1 + 2 * math.exp(-2)), rel=1e-12)
    assert truth == pytest.approx(0.786986, abs=1e-6)
    assert truth / other == pytest.approx(math.exp(2), rel=1e-12)
    assert PURE.posterior_bounds(1 / 3)[1] == pytest.approx(0.576117, abs=1e-6)
    assert truth > PURE.posterior_bounds(1 / 3)[1]  # what the advertised epsilon seems to say
    assert truth == pytest.approx(PURE.group(2).posterior_bounds(1 / 3)[1], rel=1e-9)
    assert PURE.group(2).ratio_bounds()[1] == pytest.approx(math.exp(2), rel=1e-12)


def test_s28_one_record_is_moved_beyond_the_literal_semi_adjacency() -> None:
    """E1: two features, n = 3, margins (2, 1) and (2, 1); a record answers one of four values, the true one e times."""
    listed = [tuple(2 * a + b for a, b in database) for database in oracle.databases([2, 1], [2, 1])]
    assert len(listed) == 9
    answers = list(itertools.product(range(4), repeat=3))
    law = listed_law(listed)
    odds = adv.literature.record_odds(
        law, adv.literature.record_log_likelihood(adv.RandomizedResponse(1.0, 4), answers, law), PURE
    )
    largest = float(np.exp(odds.log_odds_factor.max()))
    assert largest == pytest.approx(2 / (math.exp(-2) + math.exp(-3)), rel=1e-12)
    assert largest == pytest.approx(10.803666, abs=1e-6)
    margins = [[2, 1], [2, 1]]
    literal, worst = (semi_adjacency(margins, reading=reading) for reading in ("literal", "worst"))
    assert (literal, worst) == (2, 3)
    assert math.exp(literal) < largest < math.exp(worst)
    place = odds.log_odds_factor.max("release").argmax(["value", "other"])
    assert {int(i) for i in place.values()} == {0, 3}  # (1, 1) against (2, 2), in either order
    assert int(odds.radius.max()) == worst
    assert (odds.log_odds_factor <= odds.bound + 1e-12).all()


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_s29_all_but_one_record_and_the_margins_leave_nothing_to_learn(epsilon: float) -> None:
    """The paper's section 7: posterior 1 whatever the noise and whatever it answers."""
    told = listed_law().given(lambda database: (sum(database), *database[1:]) == (2, 1, 1))
    for answer in CUBE:
        found = told.after(adv.literature.record_log_likelihood(adv.RandomizedResponse(epsilon), answer, told))
        assert mass(found, (0, 1, 1)) == 1.0
    known = np.array([[3, 1], [2, 2]])
    table = cd.table_posterior(
        ([4, 5], [5, 4]), 9 * (known[::-1] - 1), adv.Geometric(epsilon), known=known, guarantee=adv.PureDP(2 * epsilon)
    )
    assert float(table.posterior[1, 1]) == 1.0
    assert table.attrs["tables"] == 1
    assert float(table.ratio.max()) == 1.0
    assert float(table.invariant_ratio.max()) == 4.0


def test_s40_a_gaussian_table_with_both_margins() -> None:
    """Margins (2, 1) and (2, 1), mu = 1, first cell released as 1.8: the other cells move with it."""
    noise = SpanGaussian(sensitivity_space([2, 1], [2, 1], 3), 1.0)
    found = cd.table_posterior(([2, 1], [2, 1]), [[1.8, 0.2], [0.2, 0.8]], noise)
    assert float(found.given_probability.sel(row=0, column=0, count=1)) == pytest.approx(2 / 3, rel=1e-12)
    assert float(found.probability.sel(row=0, column=0, count=1)) == pytest.approx(0.597040, abs=1e-6)


def test_the_invariant_alone_is_bounded_by_nothing() -> None:
    """Before any noisy release, whatever is promised of it: the ratio to the prior is as large as the prior allows."""
    for count in (10, 1000, 100_000):
        found = cd.table_posterior(([count, 1], [count, 1]), prior=[[0.25, 0.25], [0.25, 0.25]])
        assert float(found.invariant_ratio.max()) > 3.3
    sure = np.array([1e-9, *np.full(7, (1 - 1e-9) / 7)])
    assert 1.0 / listed_law(CUBE, sure).mass(lambda database: sum(database) == 0) == pytest.approx(1e9)


def test_what_gaussian_noise_adds_has_a_tail_below_its_bound() -> None:
    """At exactly eta = k mu, log R ~ N(eta^2 / 2, eta^2) under the truth."""
    s = np.linspace(0.1, 12.0, 60)
    for mu, k in ((0.5, 2), (1.0, 3)):
        eta, promise = k * mu, adv.GaussianDP(mu)
        achieved = norm.cdf(eta / 2 - s / eta)
        assert (achieved <= promise.group(k).pbdp_delta(s) + 1e-15).all()
        assert (1 + promise.group(k).advantage) / 2 == pytest.approx(norm.cdf(eta / 2), rel=1e-9)
        backwards = norm.cdf((-s - eta**2 / 2) / eta)  # P(log R < -s)
        assert (backwards <= np.exp(-s)).all()


def test_pure_guesses_are_limited_by_the_iterated_trade_off() -> None:
    """Proposition 15: 0.816060 for groups of two, not the 0.880797 of two epsilon."""
    assert (1 + PURE.group(2).advantage) / 2 == pytest.approx(0.816060, abs=1e-6)
    assert (1 + adv.PureDP(2.0).advantage) / 2 == pytest.approx(0.880797, abs=1e-6)


def test_the_census_figure_bounds_the_odds_of_moving_a_person_across_states() -> None:
    """Section 6: rho 2.56, two records; except with probability 1e-10 the log odds rise by at most 40.95057."""
    census = adv.ZeroConcentratedDP(2.56)
    printed = 10.24 + 2 * math.sqrt(10.24 * math.log(1e10))
    assert printed == pytest.approx(40.95057, abs=1e-5)
    assert census.group(2).pbdp_delta(printed) == pytest.approx(1e-10, rel=1e-9)
    within = 2.56 + 2 * math.sqrt(2.56 * math.log(1e10))
    assert census.pbdp_delta(within) == pytest.approx(1e-10, rel=1e-9)
    assert census.group(2).pbdp_delta(within) > 1e-3  # the figure without the state totals does not hold across states


def test_a_prior_that_ties_a_record_to_others_widens_the_bound() -> None:
    """Theorem 16 is about databases: a reader who expects all features to follow the first record needs more."""
    listed = [(0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0)]
    tied, free = listed_law(listed, [0.5, 0.5, 0.0, 0.0]), listed_law(listed)
    answers = list(itertools.product((0, 1), repeat=4))
    radii = []
    for known in (tied, free):
        odds = adv.literature.record_odds(known, adv.literature.record_log_likelihood(RESPONSE, answers, known), PURE)
        radii.append(int(odds.radius.max()))
        assert float(odds.log_odds_factor.max()) <= float(odds.bound.max()) + 1e-12
    assert radii == [4, 2]
    assert semi_adjacency([[2, 2]]) == 2


def test_swapping_partners_couples_uniform_readers_within_one_more_than_the_features() -> None:
    """E1 again: the smallest radius is the worst-case reading, never below it, and at most p + 1."""
    for rows, columns in (([2, 1], [2, 1]), ([2, 2], [2, 2]), ([3, 1], [2, 2]), ([3, 2], [4, 1])):
        found = cd.table_posterior((rows, columns), guarantee=PURE)
        assert int(found.radius) == semi_adjacency([rows, columns])
        assert int(found.radius) <= 3


def test_a_reader_who_expects_an_association_is_moved_beyond_every_semi_adjacency() -> None:
    """Independent records, so no record is tied to another; yet more than a(t) = p + 1 = 3 changes are needed.

    Theorem 16 bounds how far conforming databases are apart, not what is learned about a record.
    """
    margins, epsilon = ([1, 1, 1, 1], [2, 2]), 8.0
    pi = np.array([[0.0005, 0.1391], [0.5272, 0.0001], [0.0753, 0.0602], [0.0014, 0.1962]])
    listed = [tuple(2 * a + b for a, b in database) for database in oracle.databases(*margins)]
    weight = np.prod(pi.ravel()[np.array(listed)], axis=1)
    known = listed_law(listed, weight / weight.sum())
    answers = adv.literature.record_log_likelihood(adv.RandomizedResponse(epsilon, 8), listed, known)
    odds = adv.literature.record_odds(known, answers, adv.PureDP(epsilon))
    largest = float(odds.log_odds_factor.max())
    assert semi_adjacency(margins) == 3
    assert largest == pytest.approx(3.72 * epsilon, rel=0.01)
    assert largest > 3 * epsilon + 5.0
    assert int(odds.radius.max()) == 4
    assert (odds.log_odds_factor <= odds.bound + 1e-7).all()
    table = cd.table_posterior(margins, prior=pi / pi.sum(), guarantee=adv.PureDP(epsilon))
    assert int(table.radius) == 4


@pytest.mark.parametrize("side", [2, 3])
def test_noise_made_for_the_margins_keeps_its_epsilon(side: int) -> None:
    """A K-norm mechanism for three records: within its own epsilon, though the advertised one would be tripled."""
    margins = [2] * side, [2] * side
    noise = KNorm(sensitivity_space(*margins, 3), 0.5)
    tables = cd.conforming_tables(*margins)
    assert tables is not None
    rng = np.random.default_rng(side)
    noisy = np.stack([noise.sample(table, rng) for table in tables.astype(float)])
    found = cd.table_posterior(margins, noisy, noise)
    assert float(found.odds_bound) == pytest.approx(0.5, rel=1e-9)
    assert float(abs(found.log_odds_factor).max()) <= 0.5 + 1e-9
