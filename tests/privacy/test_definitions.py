"""Trade-offs, worst pairs and moment bounds of the definitions: duals of the profile, sharper theorems, real pairs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

import adversary as adv
from adversary.privacy.definitions.renyi import MomentBound, RenyiDP, renyi_divergence
from adversary.privacy.definitions.renyi_power import log_odds_of_every_order
from adversary.privacy.losses.analytic import GaussianLoss
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import PrivacyLoss
from tests.catalogue import DG, GUARANTEES
from tests.oracles import paths
from tests.tables import over, refusals

LEVELS = np.concatenate([[0.0], np.geomspace(1e-12, 0.4, 12), [0.5, 0.6, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12, 1.0]])
DUAL = {name: g for name, g in GUARANTEES.items() if not isinstance(g, MomentBound)}
MOMENTS = {name: g for name, g in GUARANTEES.items() if isinstance(g, MomentBound)}
PAIRED = {name: g for name, g in DUAL.items() if not isinstance(g, adv.ProbabilisticDP)}


def binary_renyi(alpha: float, a: float, b: float) -> float:
    """Renyi divergence of (a, 1 - a) from (b, 1 - b)."""
    moments = np.logaddexp(
        alpha * math.log(a) + (1 - alpha) * math.log(b), alpha * math.log1p(-a) + (1 - alpha) * math.log1p(-b)
    )
    return float(moments / (alpha - 1))


def random_pair(rng: np.random.Generator, size: int) -> tuple[Any, Any]:
    p, q = rng.dirichlet(np.full(size, 1.5), 2) + 1e-6
    return p / p.sum(), q / q.sum()


# What a leaf says of itself


@over(GUARANTEES)
def test_a_definition_names_its_parameters_and_says_what_it_means(g: adv.Guarantee) -> None:
    assert g.describe().startswith(g.name)
    assert all(f"{name} " in g.describe() for name in g.budget)
    assert g.meaning.endswith(".") or g.vacuous
    assert g.kind in ("", g.definition)
    assert g.kind == "" or type(g)(*g.parameters.values()) == g


@over(GUARANTEES)
def test_an_implied_rho_holds_and_grows_with_the_budget(g: adv.Guarantee) -> None:
    if g.vacuous:
        assert g + adv.ZeroConcentratedDP(0.5) == g
        return
    if isinstance(g, adv.ApproximateZCDP):
        assert g + adv.ZeroConcentratedDP(0.5) == adv.ApproximateZCDP(g.rho + 0.5, g.delta0)
        return
    if isinstance(g, RenyiDP):
        both = g + adv.ZeroConcentratedDP(0.5)
        assert [one.gamma for one in both.orders] == [one.gamma + 0.5 * one.alpha for one in g.orders]
        return
    if g.implied_rho is None:
        with pytest.raises(TypeError, match="do not compose"):
            g + adv.ZeroConcentratedDP(0.5)
        return
    rho = adv.ZeroConcentratedDP(g.implied_rho)
    assert g.kind == "zCDP" or rho.is_satisfied_by(g.worst_pair)
    assert g + adv.ZeroConcentratedDP(0.5) == adv.ZeroConcentratedDP(g.implied_rho + 0.5)
    if isinstance(g, adv.PureDP):
        assert g.implied_rho == pytest.approx(g.epsilon0 * math.tanh(g.epsilon0 / 2), rel=1e-12)
    elif g.kind:
        assert g.scaled(4.0).implied_rho == pytest.approx(4.0 * g.implied_rho, rel=1e-12)


@over(GUARANTEES)
def test_a_definition_implies_itself_and_what_is_left_after_postprocessing(g: adv.Guarantee) -> None:
    later = g.after_postprocessing
    assert later.after_postprocessing is later
    assert np.all(np.asarray(later.delta([0.0, 0.5, 2.0])) <= g.delta([0.0, 0.5, 2.0]))
    assert later.implies(later)


# Trade-offs


@over(GUARANTEES)
def test_level_undoes_power(g: adv.Guarantee) -> None:
    for a in (1e-12, 1e-6, 0.01, 0.3, 0.6):
        power = g.power(a)
        if power < 1 - 1e-6 and power > g.power(a / 2):
            assert g.level(power) == pytest.approx(a, rel=1e-6)
        if (level := g.level(a)) > 0:
            assert g.power(level) >= a * (1 - 1e-6)
    assert g.level(0.0) == 0.0


@over(GUARANTEES)
def test_a_test_and_its_mirror_image_are_promised_alike(g: adv.Guarantee) -> None:
    """Deciding "out" instead exchanges (level, power) with (1 - power, 1 - level)."""
    for a in (0.001, 0.05, 0.4):
        assert g.level(1.0 - a) == pytest.approx(1.0 - float(g.power(a)), abs=1e-9)


@over(GUARANTEES)
def test_the_profile_bounds_power_by_duality(g: adv.Guarantee) -> None:
    """power(a) <= delta(e) + e^e a at every real e, and level(r) >= e^-e (r - delta(e))."""
    e = np.linspace(-6, 8, 57)
    for a in (0.0, 1e-6, 0.05, 0.5, 0.97):
        assert g.power(a) <= np.min(np.asarray(g.delta(e)) + np.exp(e) * a) + 1e-9
        assert g.level(a) >= np.max(np.exp(-e) * (a - np.asarray(g.delta(e)))) - 1e-9


@over(DUAL)
def test_closed_trade_offs_are_the_duals_of_their_profiles(g: adv.Guarantee) -> None:
    for a in (0.0, 1e-6, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0):
        assert g.power(a) == pytest.approx(adv.Guarantee.power(g, a), rel=1e-7, abs=1e-12)
        assert g.level(a) == pytest.approx(adv.Guarantee.level(g, a), rel=1e-6, abs=1e-12)
    corners = g.after_postprocessing.worst_pair.corners
    turns = [0.0] if corners is None else [0.0, *corners[0]]
    levels = np.concatenate([turns, np.geomspace(1e-14, 0.5, 6000), 1 - np.geomspace(0.5, 1e-14, 6000), [1.0]])
    for e in (-1.5, 0.0, 0.3, 0.9, 3.0):
        gap = np.asarray(g.power(levels)) - math.exp(e) * levels
        assert np.max(gap) == pytest.approx(g.delta(e), rel=1e-5, abs=1e-9)


@over(MOMENTS)
def test_theorem_6_3_is_sharper_than_the_profile(g: Any) -> None:
    a = np.concatenate([np.geomspace(1e-12, 0.01, 60), np.linspace(0.01, 1, 199)])
    power = np.asarray(g.power(a))
    few = a[::12]
    assert np.all(power[::12] <= np.asarray(adv.Guarantee.power(g, few)) + 1e-9)
    assert np.all(np.asarray(g.level(few)) >= np.asarray(adv.Guarantee.level(g, few)) - 1e-9)
    assert np.max(power - a) - 1e-12 <= g.advantage <= min(np.max(power - a) * 1.01 + 1e-9, g.delta(0.0))
    for prior, beta in ((0.05, 0.5), (0.5, 1.0), (0.9, 3.0)):
        scores = (1 + beta**2) * prior * power / (prior * power + (1 - prior) * a + beta**2 * prior)
        assert scores.max() - 1e-12 <= g.f_score(prior, beta) <= scores.max() * 1.01 + 1e-9
    assert g.f_score(0.2) <= adv.Guarantee.f_score(g, 0.2) * (1 + 1e-9)


@over(MOMENTS)
def test_probabilistic_bounds_of_a_moment_bound_undo_one_another(g: Any) -> None:
    for epsilon in (0.3, 1.5, 4.0):
        delta = g.pbdp_delta(epsilon)
        if 1e-250 < delta < 0.999:
            assert g.pbdp_epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
            assert math.log(delta / g.level(delta)) <= epsilon * (1 + 1e-9)
    assert g.pbdp_epsilon(0.0) == math.inf


# Worst pairs


@over(PAIRED)
def test_the_worst_pair_says_what_the_definition_says(g: adv.Guarantee) -> None:
    pair, e = g.worst_pair, np.linspace(-3, 5, 33)
    assert isinstance(pair, PrivacyLoss)
    for side in (pair, pair.swapped):
        np.testing.assert_allclose(side.delta(e), g.delta(e), rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(side.power(LEVELS), g.power(LEVELS), rtol=1e-9, atol=1e-14)
    assert g.is_satisfied_by(pair)
    assert pair.worst_pair is pair
    assert pair.auc == pytest.approx(g.auc, rel=1e-4)


def test_worst_pairs_have_explicit_infinite_masses() -> None:
    pair: Any = adv.ApproximateDP(1.0, 0.01).worst_pair
    assert (pair.infinite_p, pair.infinite_q, pair.losses.tolist()) == (0.01, 0.01, [-1.0, 1.0])
    assert pair.tail(1e9) == (0.01, 0.0)
    nothing: Any = adv.NoPrivacy().worst_pair
    assert (nothing.tail(1e9), nothing.delta(5.0), nothing.power(0.0)) == ((1.0, 0.0), 1.0, 1.0)
    assert adv.PureDP(0.0).worst_pair.maximum == 0.0
    assert adv.GaussianDP(0.7).worst_pair.mu == 0.7


@pytest.mark.parametrize("g", [RenyiDP(2.0, 0.1), adv.ZeroConcentratedDP(0.1), adv.ProbabilisticDP(1.0, 0.01)])
def test_definitions_without_a_worst_pair_name_the_conversion(g: adv.Guarantee) -> None:
    with pytest.raises(TypeError, match=rf"{g.definition} has no worst pair.*ApproximateDP\(g\.epsilon\(delta\)"):
        _ = g.worst_pair


# Theorem 6.3


@pytest.mark.parametrize(("alpha", "gamma"), [(1.0001, 0.01), (1.5, 0.3), (2.0, 0.5), (4.0, 1.0), (64.0, 0.05)])
def test_renyi_power_is_where_one_of_two_divergences_meets_gamma(alpha: float, gamma: float) -> None:
    g = RenyiDP(alpha, gamma)
    for a in (1e-9, 1e-3, 0.05, 0.5, 0.95):
        power = g.power(a)
        if power < 1 - 1e-9:
            worse = max(binary_renyi(alpha, a, power), binary_renyi(alpha, power, a))
            assert worse == pytest.approx(gamma, rel=1e-7 if alpha > 1.1 else 1e-3)
        assert g.level(power) == pytest.approx(a, rel=1e-7) or power > 1 - 1e-9


@pytest.mark.parametrize("rho", [1e-3, 0.1115, 1.0, 2.63])
@pytest.mark.parametrize("a", [1e-3, 0.05, 0.382, 0.9])
def test_zcdp_power_is_the_least_over_orders(rho: float, a: float) -> None:
    """Brute force: for each order the root of the definition, and the Kullback-Leibler limit beside them."""

    def root(divergence: Any, bound: float) -> float:
        def over_bound(r: float) -> float:
            return float(max(divergence(a, r), divergence(r, a)) - bound)

        return float(brentq(over_bound, a, 1 - 1e-13, xtol=1e-15)) if over_bound(1 - 1e-13) > 0 else 1.0

    def kl(x: float, y: float) -> float:
        return x * math.log(x / y) + (1 - x) * math.log((1 - x) / (1 - y))

    found = [root(kl, rho)]
    for gap in np.geomspace(1e-3, 3e3, 500):
        alpha = 1 + float(gap)
        found.append(root(lambda x, y, alpha=alpha: binary_renyi(alpha, x, y), rho * alpha))
    power = adv.ZeroConcentratedDP(rho).power(a)
    assert power <= min(found) + 1e-12
    assert power == pytest.approx(min(found), rel=5e-4, abs=1e-12)


@pytest.mark.parametrize(
    ("rho", "a"), [(1e-6, 1e-12), (1e-6, 0.5), (1.1, 0.382), (0.03, 1e-9), (9.0, 1e-5), (0.2, 1 - 1e-9)]
)
def test_zcdp_power_uses_up_the_best_order_in_40_digits(rho: float, a: float) -> None:
    """At the log odds found the largest D_alpha / alpha over orders is rho, to 1e-8 of the way from the level."""
    logit = float(log_odds_of_every_order(np.log([a]), np.log1p([-a]), rho)[0])
    with mpmath.workdps(40):
        level, start = mpmath.mpf(a), mpmath.log(mpmath.mpf(a) / (1 - mpmath.mpf(a)))

        def needed(log_odds: Any) -> Any:
            power = 1 / (1 + mpmath.exp(-log_odds))

            def used(log_gap: Any) -> Any:
                gap = mpmath.exp(log_gap)
                both = [
                    x ** (1 + gap) * y**-gap + (1 - x) ** (1 + gap) * (1 - y) ** -gap
                    for x, y in ((level, power), (power, level))
                ]
                return mpmath.log(max(both)) / (gap * (1 + gap))

            low, high = max(itertools.pairwise(np.linspace(-24, 14, 115)), key=lambda pair: used(sum(pair) / 2))
            low, high = mpmath.mpf(low) - 1, mpmath.mpf(high) + 1
            for _ in range(110):  # golden section
                step = (high - low) * (mpmath.sqrt(5) - 1) / 2
                low, high = (low, low + step) if used(high - step) > used(low + step) else (high - step, high)
            return used(low)

        way = mpmath.mpf(logit) - start
        assert needed(mpmath.mpf(logit) + way * mpmath.mpf("1e-12")) >= rho * (1 - mpmath.mpf("1e-14"))
        assert needed(mpmath.mpf(logit) - way * mpmath.mpf("1e-8")) < rho


@pytest.mark.parametrize("rho", [0.0, 1e-300, 1e-30, 1e4, 1e8])
def test_extreme_zcdp_powers(rho: float) -> None:
    power = np.asarray(adv.ZeroConcentratedDP(rho).power(LEVELS))
    if rho < 1:
        np.testing.assert_allclose(power, LEVELS, rtol=1e-12)
    else:
        assert power.tolist() == [0.0] + [1.0] * (LEVELS.size - 1)


@pytest.mark.parametrize("rho", [0.05, 0.5, 2.63])
def test_mechanisms_that_keep_a_moment_bound_stay_below_its_power(rho: float) -> None:
    a = np.linspace(0, 1, 41)
    for loss in (DG(rho).privacy_loss(), adv.Gaussian.from_rho(rho).privacy_loss()):
        power = np.asarray(loss.power(a))
        assert np.all(power <= np.asarray(adv.ZeroConcentratedDP(rho).power(a)) + 1e-12)
        for alpha in (1.2, 3.0, 20.0):
            assert np.all(power <= np.asarray(RenyiDP(alpha, rho * alpha).power(a)) + 1e-12)


def test_random_pairs_stay_below_their_renyi_bounds() -> None:
    rng = np.random.default_rng(63)
    a, e = np.linspace(0, 1, 21), np.linspace(-3, 4, 29)
    for _ in range(25):
        p, q = random_pair(rng, int(rng.integers(2, 6)))
        alpha = 1 + float(rng.exponential(2.0))
        gamma = max(paths.renyi_divergence(p, q, alpha), paths.renyi_divergence(q, p, alpha))
        g, loss = RenyiDP(alpha, gamma * (1 + 1e-12)), LatticeLoss.from_probs(p, q)
        assert g.is_satisfied_by(loss)
        assert not RenyiDP(alpha, 0.99 * gamma).is_satisfied_by(loss)
        assert np.all(np.asarray(loss.power(a)) <= np.asarray(g.power(a)) + 1e-10)
        assert np.all(np.asarray(loss.delta(e)) <= np.asarray(g.delta(e)) + 1e-12)
        for failure in (0.01, 0.2):
            bound = g.loss_bound(failure)
            assert max(paths.probabilistic_tail(p.tolist(), q.tolist(), bound)) <= failure * (1 + 1e-9)
            assert loss.loss_bound(failure) <= bound * (1 + 1e-6) or loss.maximum <= bound


# Renyi DP


def test_renyi_profile_is_the_tight_conversion_of_one_order() -> None:
    g, e = RenyiDP(6.0, 0.4), np.linspace(0.6, 9, 30)
    np.testing.assert_allclose(g.delta(e), np.exp(5 * (0.4 - e)) * (5 / 6) ** 6 / 5, rtol=1e-12)
    assert g.delta(0.0) == pytest.approx(min(math.sqrt(0.2), math.exp(2.0) * (5 / 6) ** 6 / 5))
    assert RenyiDP(1.5, 3.0).delta(0.0) == pytest.approx(math.exp(1.5) * (1 / 3) ** 1.5 / 0.5, abs=1)
    assert RenyiDP(3.0, 0.0).delta(np.array([0.0, 1.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_renyi_groups_cover_mechanisms_moved_by_that_many(alpha: float, size: int) -> None:
    """Gaussian noise attains alpha mu^2 / 2 of each order; size steps of it multiply mu by size."""
    rho = 0.02
    group: Any = RenyiDP(alpha, rho * alpha).group(size)
    assert 1 < group.alpha < alpha
    assert group.is_satisfied_by(adv.Gaussian.from_rho(size**2 * rho).privacy_loss())
    assert group.gamma >= size**2 * rho * group.alpha * (1 - 1e-9)
    if alpha == 100.0:  # towards zCDP's size^2 rho as orders grow
        assert group.gamma <= size**2 * rho * group.alpha * 1.1


def test_renyi_groups_cover_random_chains() -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        chain = [law for _ in range(2) for law in random_pair(rng, 3)]
        alpha = 1 + float(rng.exponential(2.0))
        gamma = max(
            paths.renyi_divergence(*pair, alpha)
            for x, y in itertools.pairwise(chain)
            for pair in ((x.tolist(), y.tolist()), (y.tolist(), x.tolist()))
        )
        group: Any = RenyiDP(alpha, gamma).group(3)
        assert paths.renyi_divergence(chain[0].tolist(), chain[3].tolist(), group.alpha) <= group.gamma * (1 + 1e-9)


def test_renyi_groups_of_groups_are_groups() -> None:
    g = RenyiDP(5.0, 0.2)
    assert g.group(1) == g
    at_once: Any = g.group(6)
    in_steps: Any = g.group(2).group(3)
    assert isinstance(RenyiDP(1.05, 0.2).group(20), adv.NoPrivacy)
    assert (in_steps.alpha, in_steps.gamma) == pytest.approx((at_once.alpha, at_once.gamma), rel=1e-12)


def test_true_renyi_promises_are_kept_and_false_ones_caught() -> None:
    for noise in (DG(0.3), adv.Gaussian.from_rho(0.3)):
        for alpha in (2.0, 3.0, 17.0):  # at whole orders a discrete Gaussian attains rho alpha
            assert RenyiDP(alpha, 0.3 * alpha).is_satisfied_by(noise.privacy_loss())
            assert not RenyiDP(alpha, 0.29 * alpha).is_satisfied_by(noise.privacy_loss())
    p = float(expit(1.0))
    for alpha in (1.5, 4.0):
        gamma = math.log(p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)) / (alpha - 1)
        for pure in (adv.RandomizedResponse(1.0), adv.Geometric(1.0)):
            assert RenyiDP(alpha, gamma).is_satisfied_by(pure.privacy_loss())
            assert not RenyiDP(alpha, 0.99 * gamma).is_satisfied_by(pure.privacy_loss())
    assert not RenyiDP(2.0, 100.0).is_satisfied_by(adv.Exact().privacy_loss())


# Bad input


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: RenyiDP(1.0, 0.1), r"alpha must be greater than 1, got 1\.0"),
    (lambda: adv.ZeroConcentratedDP(0.1).power(1.1), r"level must be in \[0, 1\], got 1\.1"),
    (lambda: adv.ZeroConcentratedDP(0.1).pbdp_delta(0.0), "epsilon must be positive"),
    (lambda: adv.PureDP(1.0).pbdp_delta(-1.0), "epsilon must be positive"),
)


@over(GUARANTEES)
def test_the_ends_of_probabilistic_bounds(g: adv.Guarantee) -> None:
    """delta 0 is the limit, the largest possible loss; up to the mass of infinite losses no epsilon is small enough."""
    assert g.pbdp_epsilon(0.0) == g.loss_bound(0.0)
    assert g.pbdp_epsilon(1.0) >= 0.0
    if isinstance(g, adv.ApproximateDP) and g.delta0 > 0:
        assert g.pbdp_epsilon(g.delta0) == math.inf
        assert g.pbdp_epsilon(2 * g.delta0) < math.inf


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.07, 2.56, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-4, 0.05, 0.2, 0.5, 0.99])
def test_the_probabilistic_epsilon_of_zcdp_is_what_its_profile_gives(rho: float, delta: float) -> None:
    g = adv.ZeroConcentratedDP(rho)
    assert g.pbdp_epsilon(delta) == pytest.approx(adv.Guarantee.pbdp_epsilon(g, delta), rel=1e-9)


# One tolerance

JUST = {
    "pure": (adv.PureDP(1.0), lambda x: adv.PureDP(x).worst_pair),
    "approximate": (adv.ApproximateDP(1.0, 1e-3), lambda x: adv.ApproximateDP(1.0, 1e-3 * x).worst_pair),
    "probabilistic": (adv.ProbabilisticDP(1.0, 1e-3), lambda x: adv.ApproximateDP(0.9, 1e-3 * x).worst_pair),
    "Renyi": (adv.RenyiDP(2.0, 1.0), lambda x: GaussianLoss(math.sqrt(x))),
    "zCDP": (adv.ZeroConcentratedDP(0.5), lambda x: GaussianLoss(math.sqrt(x))),
    "Gaussian": (adv.GaussianDP(1.0), GaussianLoss),
}
"""A guarantee, and a loss whose parameter is so many times what it allows."""


@pytest.mark.parametrize("name", JUST)
def test_a_loss_counts_as_within_a_guarantee_up_to_one_tolerance(name: str) -> None:
    guarantee, loss = JUST[name]
    assert [guarantee.is_satisfied_by(loss(1.0 + gap)) for gap in (0.0, 1e-10, 1e-7)] == [True, True, False]


def test_a_renyi_curve_is_the_best_of_its_orders() -> None:
    orders, rho, e, a = [64.0, 1.5, 4.0], 0.1, np.linspace(-2.0, 6.0, 33), np.linspace(0.0, 1.0, 21)
    curve = RenyiDP(orders, [rho * order for order in orders])
    single = [RenyiDP(order, rho * order) for order in sorted(orders)]
    assert curve.orders == tuple(single)
    assert curve.delta(e) == pytest.approx(np.min([one.delta(e) for one in single], axis=0), abs=0.0)
    assert curve.power(a) == pytest.approx(np.min([one.power(a) for one in single], axis=0), rel=1e-12)
    assert np.all(curve.delta(e) >= adv.ZeroConcentratedDP(rho).delta(e) - 1e-15)
    assert curve.loss_bound(0.05) <= min(one.loss_bound(0.05) for one in single) * (1.0 + 1e-9)
    assert 3 * curve == curve + curve + curve
    assert curve.group(2).alpha == tuple(one.group(2).alpha for one in single if isinstance(one.group(2), RenyiDP))
    loss = adv.DiscreteGaussian.from_rho(rho).privacy_loss()
    assert curve.is_satisfied_by(loss)
    assert not RenyiDP(orders, [rho * 1.5, rho * 64.0 * 0.98, rho * 4.0]).is_satisfied_by(loss)
    gaussian = RenyiDP(orders, [renyi_divergence(GaussianLoss(1.0), order) for order in orders])
    assert gaussian.gamma == pytest.approx([0.75, 2.0, 32.0], rel=1e-9)
    assert [(curve + adv.PureDP(0.2)).gamma[i] - curve.gamma[i] for i in range(3)] == pytest.approx(
        [adv.PureDP(0.2).worst_pair.renyi(order) for order in sorted(orders)], rel=1e-9
    )


test_renyi_curves_are_refused = refusals(
    (lambda: RenyiDP([2.0, 2.0], [0.1, 0.2]), "alpha must have every order once"),
    (lambda: RenyiDP([2.0, 3.0], [0.1]), "alpha and gamma must be as many numbers"),
    (lambda: RenyiDP([2.0, 1.0], [0.1, 0.2]), "alpha must be greater than 1"),
    (lambda: renyi_divergence(RenyiDP(2.0, 0.1), 3.0), "its orders are lower", TypeError),
    (lambda: renyi_divergence(adv.ApproximateDP(1.0, 1e-6), 3.0), "bounds no Renyi divergence", TypeError),
)


def test_approximate_zcdp_of_a_loss_with_infinite_masses() -> None:
    """Pure DP but for 1e-3: what its finite part satisfies, and no less."""
    pair = adv.ApproximateDP(1.0, 1e-3).worst_pair
    of = adv.ApproximateZCDP.of(adv.ApproximateDP(1.0, 1e-3))
    assert (of.rho, of.delta0) == (pytest.approx(math.tanh(0.5), rel=1e-12), 1e-3)
    assert of.is_satisfied_by(pair)
    assert not adv.ApproximateZCDP(0.99 * of.rho, 1e-3).is_satisfied_by(pair)
    assert not adv.ApproximateZCDP(of.rho, 0.99e-3).is_satisfied_by(pair)
    e = np.linspace(0.0, 3.0, 31)
    assert np.all(of.delta(e) >= pair.delta(e) - 1e-15)
    assert np.all(of.power(LEVELS) >= pair.power(LEVELS) - 1e-12)
    both = of + adv.ZeroConcentratedDP(0.1) + adv.PureDP(0.2)
    assert both.rho == pytest.approx(of.rho + 0.1 + 0.2 * math.tanh(0.1), rel=1e-12)
    assert (3 * of).delta0 == pytest.approx(1.0 - 0.999**3, rel=1e-9)
    assert isinstance(of.group(2), adv.ApproximateDP | type(adv.ApproximateDP(1.0, 1e-3).group(2)))
    with pytest.raises(TypeError, match="implies no approximate zCDP"):
        adv.ApproximateZCDP.of(RenyiDP(2.0, 0.1))
