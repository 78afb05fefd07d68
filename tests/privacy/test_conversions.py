"""Published conversions and composition theorems: inverses undo one another, random mechanisms stay inside."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import adversary as adv
from adversary.privacy import definitions
from adversary.privacy.definitions import composition_rules
from tests.oracles import paths, published
from tests.tables import refusals

EPSILONS = [0.0, 1e-6, 0.1, 1.0, 3.0, 40.0, 800.0]
DELTAS = [0.0, 1e-12, 1e-6, 0.01, 0.3]
LEVELS = np.array([0.0, 1e-12, 0.01, 0.05, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0])


def random_pair(rng: np.random.Generator) -> tuple[list[float], list[float]]:
    """Two pmfs over two to seven outcomes, some outcomes impossible under one of them."""
    size = int(rng.integers(2, 8))
    p, q = rng.dirichlet(np.full(size, 0.7), 2) * (rng.random((2, size)) > 0.05)
    p, q = (law / law.sum() if law.sum() > 0 else np.full(size, 1 / size) for law in (p, q))
    return p.tolist(), q.tolist()


# Power


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_power_bounds_are_theorem_6_2(epsilon: float, delta: float) -> None:
    lower, upper = definitions.power_bounds(epsilon, delta, LEVELS)
    for a, low, high in zip(LEVELS, lower, upper, strict=True):
        with_room = math.exp(epsilon) * a + delta if epsilon < 700 else math.inf if a > 0 else delta
        expected = min(with_room, 1 - math.exp(-epsilon) * (1 - a - delta), 1.0)
        assert high == pytest.approx(expected, rel=1e-13, abs=1e-15)
        other = definitions.power_bounds(epsilon, delta, 1.0 - a)[1]
        assert low == pytest.approx(1.0 - other, rel=1e-9, abs=1e-15)
    assert np.all(lower <= LEVELS)
    assert np.all(upper >= LEVELS)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_level_undoes_power(epsilon: float, delta: float) -> None:
    powers = definitions.power_bounds(epsilon, delta, LEVELS)[1]
    for a, power in zip(LEVELS, powers, strict=True):
        if 0 < power < 1:
            scale = 1e-9 if power > 0.999 else 1e-12  # one minus a power near one keeps few digits
            assert definitions.ApproximateDP(epsilon, delta).level(power) == pytest.approx(a, rel=scale, abs=1e-14)
    assert definitions.ApproximateDP(epsilon, delta).level(delta / 2) == 0.0


def test_power_of_random_tests_stays_inside_its_bounds() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        p, q = random_pair(rng)
        epsilon = float(rng.uniform(0, 2))
        delta = max(paths.privacy_profile(p, q, epsilon), paths.privacy_profile(q, p, epsilon))
        if delta >= 1:
            continue
        accept = rng.random(len(p))
        lower, upper = definitions.power_bounds(epsilon, delta, float(np.clip(accept @ q, 0, 1)))
        assert lower - 1e-12 <= accept @ p <= upper + 1e-12


# Theorem 35


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 1.0, 3.0, 40.0])
@pytest.mark.parametrize(("delta", "failure"), [(1e-7, 0.01), (1e-6, 1e-5), (0.01, 0.010001), (0.3, 1.0)])
def test_theorem_35_and_its_inverse_agree(epsilon: float, delta: float, failure: float) -> None:
    loss = definitions.probabilistic_epsilon(epsilon, delta, failure)
    assert loss == pytest.approx(paths.pdp_epsilon(epsilon, delta, failure), rel=1e-11, abs=1e-14)
    assert published.approximate_epsilon(loss, delta, failure) == pytest.approx(epsilon, abs=1e-11)


def test_theorem_35_falls_with_failure_and_has_no_end_at_delta() -> None:
    failures = 0.01 + np.geomspace(1e-12, 0.99, 60)
    losses = definitions.probabilistic_epsilon(0.5, 0.01, failures)
    assert np.all(np.diff(losses) < 0)
    assert losses[0] > 20
    assert definitions.probabilistic_epsilon(0.5, 1e-300, math.nextafter(1e-300, 1)) > 30
    assert definitions.probabilistic_epsilon(0.5, 0.0, 0.0) == 0.5


def test_random_mechanisms_obey_theorem_35() -> None:
    rng, closest = np.random.default_rng(35), 0.0
    for _ in range(600):
        p, q = random_pair(rng)
        epsilon = float(rng.uniform(0, 2.5))
        delta = max(paths.privacy_profile(p, q, epsilon), paths.privacy_profile(q, p, epsilon))
        if not 0 < delta < 0.99:
            continue
        failure = float(rng.uniform(delta, 1.0))
        loss = definitions.probabilistic_epsilon(epsilon, delta, failure)
        outside = max(paths.probabilistic_tail(p, q, loss * (1 + 1e-12)))
        assert outside <= failure * (1 + 1e-9)
        closest = max(closest, outside / failure)
    assert closest > 0.9


# Priors


@pytest.mark.parametrize("loss", [0.0, 1e-6, 0.1, 2.0, 9.0])
def test_worst_priors_attain_what_they_say(loss: float) -> None:
    grid = np.linspace(0, 1, 1001)
    for criterion, sign in (("difference", 1.0), ("fall", -1.0)):
        prior, value = definitions.worst_prior(loss, criterion)
        assert value == pytest.approx(math.tanh(loss / 4))
        assert sign * (paths.posterior_after(prior, sign * loss) - prior) == pytest.approx(value, abs=1e-12)
        assert max(sign * (paths.posterior_after(p, sign * loss) - p) for p in grid) <= value + 1e-12
    assert definitions.worst_prior(loss, "ratio") == pytest.approx((0.0, math.exp(loss)))


def test_worst_priors_of_an_unbounded_loss_are_the_certain_ones() -> None:
    assert definitions.worst_prior(math.inf) == (0.0, 1.0)
    assert definitions.worst_prior(math.inf, "fall") == (1.0, 1.0)
    assert definitions.worst_prior(math.inf, "ratio") == (0.0, math.inf)
    assert definitions.two_sided_difference(0.2, math.inf) == pytest.approx(0.8)
    assert definitions.two_sided_ratio(0.2, math.inf) == pytest.approx(5.0)
    certain = definitions.two_sided_difference([0.0, 1.0, 0.5], math.inf)  # no loss moves an adversary who is sure
    np.testing.assert_allclose(certain, [0.0, 0.0, 0.5], rtol=1e-15)


@pytest.mark.parametrize("loss", [0.0, 0.3, 2.0, 30.0])
def test_two_sided_criteria_are_symmetric_and_the_larger_of_both_sides(loss: float) -> None:
    prior = np.linspace(0.01, 0.99, 99)
    lower, upper = (np.array([paths.posterior_after(p, z) for p in prior]) for z in (-loss, loss))
    ratio, difference = definitions.two_sided_ratio(prior, loss), definitions.two_sided_difference(prior, loss)
    np.testing.assert_allclose(ratio, np.maximum(upper / prior, (1 - lower) / (1 - prior)), rtol=1e-12)
    np.testing.assert_allclose(difference, np.maximum(upper - prior, prior - lower), atol=1e-14)
    np.testing.assert_allclose(ratio, ratio[::-1], rtol=1e-12)
    np.testing.assert_allclose(difference, difference[::-1], atol=1e-14)


# zCDP and Renyi DP


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.07, 1.0, 2.63, 100.0])
@pytest.mark.parametrize("failure", [1e-9, 0.01, 0.5])
def test_published_loss_bound_is_the_best_on_the_curve_and_the_direct_one_is_sharper(
    rho: float, failure: float
) -> None:
    published = definitions.published_loss_bound(rho, failure)
    curve = failure * np.exp(-np.geomspace(1e-6, 35, 8001))
    losses = definitions.probabilistic_epsilon(definitions.simple_epsilon(rho, curve), curve, failure)
    assert published <= losses.min() * (1 + 1e-12)
    assert published == pytest.approx(losses.min(), rel=1e-5)
    direct = definitions.direct_loss_bound(rho, failure)
    assert direct == pytest.approx(paths.zcdp_direct_epsilon(rho, failure), rel=1e-9)
    assert adv.GaussianDP(math.sqrt(2 * rho)).loss_bound(failure) * (1 - 1e-9) <= direct < published


def test_loss_bounds_of_no_release_and_of_certainty() -> None:
    assert definitions.published_loss_bound(0.0, 0.01) == 0.0
    assert definitions.direct_loss_bound(0.0, 0.0) == 0.0
    assert definitions.direct_loss_bound(0.3, 0.0) == math.inf
    assert definitions.direct_loss_bound(0.3, 1.0) == 0.0


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.63])
def test_the_simple_epsilon_is_above_the_tight_one(rho: float) -> None:
    deltas = np.array([0.3, 0.01, 1e-6, 1e-12])
    simple = definitions.simple_epsilon(rho, deltas)
    np.testing.assert_allclose(simple, [rho + 2 * math.sqrt(rho * math.log(1 / d)) for d in deltas], rtol=1e-14)
    assert all(one > adv.ZeroConcentratedDP(rho).epsilon(float(d)) for one, d in zip(simple, deltas, strict=True))


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.63])
def test_markov_bound_is_the_best_renyi_order_and_never_below_the_profiles(rho: float) -> None:
    g, orders = adv.ZeroConcentratedDP(rho), 1 + np.geomspace(1e-3, 1e3, 4001)
    for epsilon in (0.5 * rho, rho, 1.5 * rho, rho + math.sqrt(rho), rho + 8 * math.sqrt(rho)):
        bound = definitions.pbdp_delta_markov(epsilon, rho=rho)
        pairs = np.stack([orders, rho * orders], axis=-1)
        assert bound <= definitions.pbdp_delta_markov(epsilon, rdp=pairs) * (1 + 1e-12)
        assert bound == pytest.approx(definitions.pbdp_delta_markov(epsilon, rdp=pairs), rel=1e-3, abs=1e-2)
        assert g.pbdp_delta(epsilon) <= bound * (1 + 1e-9)
        if epsilon > rho + math.sqrt(rho):
            assert g.pbdp_delta(epsilon) == pytest.approx(bound, rel=1e-8)
    assert definitions.pbdp_delta_markov(np.array([0.3, 1.0, 2.0]), rdp=(4.0, 1.0)).tolist() == pytest.approx(
        [1.0, 1.0, math.exp(-3)]
    )
    assert definitions.pbdp_delta_markov(0.1, rho=0.0) == 0.0


# Composition


@pytest.mark.parametrize("count", [1, 2, 3, 12, 31])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("each", [0.0, 1e-8, 0.02])
def test_optimal_profile_is_that_of_the_product_of_worst_pairs(count: int, epsilon: float, each: float) -> None:
    loss = count * adv.ApproximateDP(epsilon, each)
    totals = np.linspace(-1.1, 1.3, 25) * count * max(epsilon, 0.1)
    expected = [float(loss.delta(total)) for total in totals]
    found = composition_rules.optimal_profile(totals, epsilon, count, each)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_optimal_composition_inverts_its_profile_and_lies_below_the_others() -> None:
    for epsilon, count, delta, each in itertools.product([0.01, 0.2, 1.5], [1, 7, 60], [1e-9, 1e-3], [0.0, 1e-12]):
        optimal = composition_rules.compose_optimal(epsilon, count, delta, each)
        assert composition_rules.optimal_profile(optimal, epsilon, count, each) <= delta * (1 + 1e-9)
        if 0 < optimal < count * epsilon:
            assert composition_rules.optimal_profile(optimal * (1 - 1e-6), epsilon, count, each) > delta
        slack = 1 + 1e-12
        assert optimal <= composition_rules.compose_lattice(epsilon, count, delta, each) * slack
        assert optimal <= composition_rules.compose_basic([epsilon] * count, each)[0] * slack
        for variant in ("published", "tight", "best"):
            advanced = composition_rules.compose_advanced([epsilon] * count, delta, each, variant=variant)
            assert optimal <= advanced * slack
        assert advanced <= composition_rules.compose_basic([epsilon] * count)[0] * slack


def test_lattice_composition_is_the_first_point_within_reach() -> None:
    for count, delta in ((12, 1e-6), (13, 0.01), (40, 1e-3)):
        for each in (0.0, 1e-9):
            points = [(count - 2 * i) * 0.1 for i in range(count // 2 + 1)]
            kept = [e for e in points if float((count * adv.ApproximateDP(0.1, each)).delta(e)) <= delta]
            assert composition_rules.compose_lattice(0.1, count, delta, each) == pytest.approx(min(kept), abs=1e-12)


def test_composition_with_nothing_to_spare_is_basic() -> None:
    assert composition_rules.compose_optimal(0.3, 5, 0.0) == pytest.approx(1.5)
    assert composition_rules.compose_lattice(0.3, 5, 0.0) == pytest.approx(1.5)
    spent = -math.expm1(5 * math.log1p(-0.01))
    assert composition_rules.compose_optimal(0.3, 5, spent, 0.01) == pytest.approx(1.5)
    assert composition_rules.compose_basic([0.1, 0.4], [0.7, 0.6]) == pytest.approx((0.5, 1.0))


def test_advanced_composition_of_unequal_releases() -> None:
    e, d = np.array([0.1, 0.4, 0.02]), np.array([1e-7, 0.0, 3e-7])
    spread = math.sqrt(2 * float(e @ e) * math.log(1 / (1e-5 - 4e-7)))
    assert composition_rules.compose_advanced(e, 1e-5, d) == pytest.approx(float(e @ np.expm1(e)) + spread)
    assert composition_rules.compose_advanced(e, 1e-5, d, variant="tight") == pytest.approx(
        float(e @ ((np.exp(e) - 1) / (np.exp(e) + 1))) + spread
    )


# Bad input


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: definitions.probabilistic_epsilon(1.0, 0.01, 0.01), "failure must be greater than delta"),
    (lambda: definitions.pbdp_delta_markov(1.0), "exactly one of rho and rdp"),
    (lambda: definitions.pbdp_delta_markov(1.0, rho=1.0, rdp=(2.0, 1.0)), "exactly one of rho and rdp"),
    (lambda: composition_rules.compose_basic([0.1, 0.2], [0.1, 0.1, 0.1]), "one or as many as the 2 epsilons, got 3"),
    (
        lambda: composition_rules.compose_advanced([0.1] * 3, 1e-6, 1e-6),
        "delta must be greater than the .* already spent",
    ),
    (lambda: composition_rules.compose_optimal(0.1, 12, 1e-6, 1e-6), "delta must be at least what 12 releases"),
)
