"""Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential privacy".

Privacy losses, definitions, conversions and the power of tests: sections 4 to 6, Tables 1, 2 and 6. Where the print is
contradicted by its own formula both numbers are held (errata E1, E2, E4, E6).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import adversary as adv
from adversary.privacy import definitions
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.lattice import LatticeLoss

MU2 = 5.26
"""2 rho of the 2020 redistricting release, rho = 2.63."""

LEVELS = np.array([0.01, 0.05, 0.10])


def moments(loss: Any) -> tuple[float, float]:
    """(mean, variance) of a loss under P."""
    mean, square = (float(loss.expect(lambda z, k=k: z**k)[0]) for k in (1, 2))
    return mean, square - mean**2


# Privacy losses


def test_p1_randomized_response_on_one_bit() -> None:
    """Example 4.3, epsilon 1; Example 4.4, geometric noise on a count, has the same law."""
    for loss in (adv.RandomizedResponse(1.0).privacy_loss(), adv.Geometric(1.0).privacy_loss()):
        assert loss.tail(1.0 - 1e-9)[0] == pytest.approx(0.7310585786, abs=1e-10)
        assert moments(loss)[0] == pytest.approx(0.4621171573, abs=1e-10)


def test_p2_two_sided_geometric_noise() -> None:
    """Example 4.4, epsilon 1."""
    noise = adv.Geometric(1.0)
    assert math.exp(noise.log_prob(0, 0)) == pytest.approx(0.4621171573, abs=1e-10)
    assert noise.cdf(0, 0) == pytest.approx(0.7310585786, abs=1e-10)


def test_p3_gaussian_noise_on_a_count() -> None:
    """Example 4.5, sigma 2: N(1/8, 1/4)."""
    assert moments(adv.Gaussian(2.0).privacy_loss()) == pytest.approx((0.125, 0.25), abs=1e-12)


def test_p4_randomized_response_twice() -> None:
    """Example 4.9, epsilon 1: losses 2, 0, -2."""
    loss = 2 * adv.PureDP(1.0)
    beyond = np.asarray(loss.tail(np.array([-9.0, -1.0, 1.0]))[0])
    masses = -np.diff(np.append(beyond, 0.0))[::-1]
    assert masses.tolist() == pytest.approx([0.5344466454, 0.3932238665, 0.0723294881], abs=1e-10)


def test_p5_tails_of_the_loss_do_not_survive_postprocessing() -> None:
    """Example 4.9: P(L > 1/2) of nothing kept, of both answers, of the first answer alone."""
    once = adv.PureDP(1.0).worst_pair
    tails = [float(loss.tail(0.5)[0]) for loss in (0 * adv.PureDP(1.0), once + once, once)]
    assert tails == pytest.approx([0.0, 0.5344466454, 0.7310585786], abs=1e-10)


def test_p6_releasing_a_sample() -> None:
    """Example 4.7: 5 of 100 records, one record differs; seen, it tells all."""
    loss = LatticeLoss.from_probs([0.95, 0.05, 0.0], [0.95, 0.0, 0.05])
    assert (loss.tail(-1e9)[0], loss.tail(0.0)[0]) == pytest.approx((1.0, 0.05), abs=1e-10)
    assert loss.infinite_p == pytest.approx(0.05, abs=1e-10)
    assert loss.power(0.05) == pytest.approx(0.10, abs=1e-10)
    assert loss.pbdp_epsilon(0.06) == pytest.approx(1.7917594692, abs=1e-10)
    assert loss.pbdp_epsilon(0.05) == math.inf


# Conversions


def test_c1_profile_of_a_gaussian() -> None:
    """Example 5.12 and Figure 1."""
    found = adv.GaussianDP(math.sqrt(MU2)).delta(np.array([0.0, 1.0, 2.0]))
    assert found.tolist() == pytest.approx([0.7485086304, 0.6071375908, 0.4474731535], abs=1e-9)


def test_c2_probabilistic_epsilon_of_a_gaussian() -> None:
    """Figures 1 and 4."""
    g = adv.GaussianDP(math.sqrt(MU2))
    assert g.pbdp_epsilon(0.1) == pytest.approx(6.3475671317, abs=1e-8)
    assert g.pbdp_epsilon(0.05) == pytest.approx(7.1055573868, abs=1e-8)


def test_c3_probabilistic_delta_of_a_gaussian_is_not_its_tail() -> None:
    g = adv.GaussianDP(math.sqrt(MU2))
    assert g.pbdp_delta(5.0) == pytest.approx(0.2691261483, abs=1e-9)
    assert g.worst_pair.tail(5.0)[0] == pytest.approx(0.1507155990, abs=1e-9)


def test_c4_probabilistic_delta_of_zcdp() -> None:
    """Section 5.3 and Figure 1: exp(-(5 - rho)^2 / (4 rho))."""
    assert adv.ZeroConcentratedDP(2.63).pbdp_delta(5.0) == pytest.approx(0.5862987216, abs=1e-9)
    assert definitions.pbdp_delta_markov(5.0, rho=2.63) == pytest.approx(0.5862987216, abs=1e-9)


def rare_answer() -> LatticeLoss:
    """M2 of Example 5.8, P = D2 against Q = D1: the answer 1 comes with probability 0.01 under D2, never under D1."""
    return LatticeLoss.from_probs([0.01, 0.99], [0.0, 1.0])


def test_c5_single_point_probabilistic_dp_is_not_convex() -> None:
    """Example 5.8: randomised response or the rare answer, each (1.01, 0.02), by a fair coin that is told."""
    keep = 1.0 / (1.0 + math.exp(-1.0))
    first, second = adv.PureDP(1.0).worst_pair, rare_answer()
    mixed = LatticeLoss.from_probs(
        [0.5 * keep, 0.5 * (1 - keep), 0.005, 0.495], [0.5 * (1 - keep), 0.5 * keep, 0.0, 0.5]
    )
    level, cap = 0.5 * 0.05 * (1 - keep), math.exp(-1.01) * 0.02
    assert (level, cap) == pytest.approx((0.0067235355, 0.0072843796), abs=1e-9)
    assert mixed.power(level) == pytest.approx(0.0232764645, abs=1e-9)
    assert second.power(cap) == pytest.approx(0.0172115358, abs=1e-9)
    assert max(side.pbdp_delta(1.01) for side in (first, second)) <= 0.02 < mixed.pbdp_delta(1.01)


def test_c6_probabilistic_deltas_of_its_two_parts() -> None:
    assert adv.PureDP(1.0).pbdp_delta(1.01) == pytest.approx(0.0, abs=1e-9)
    assert rare_answer().pbdp_delta(1.01) == pytest.approx(0.0156390945, abs=1e-9)


def test_c7_probabilistic_delta_of_pure_dp() -> None:
    """e^epsilon a with a = (1 - e^-1) / (e^epsilon - e^-1)."""
    assert adv.PureDP(1.0).pbdp_delta(0.5) == pytest.approx(0.8136762768, abs=1e-9)
    assert adv.PureDP(1.0).worst_pair.pbdp_delta(0.5) == pytest.approx(0.8136762768, abs=1e-9)


def test_c8_probabilistic_delta_of_randomized_response_twice() -> None:
    assert (2 * adv.PureDP(1.0)).pbdp_delta(1.5) == pytest.approx(0.5948450224, abs=1e-9)


def test_c9_simple_and_tight_epsilon_of_zcdp() -> None:
    for rho, tight, simple in ((2.63, 17.430584, 18.193803), (2.56, 17.158309, 17.915283)):
        assert adv.ZeroConcentratedDP(rho).epsilon(1e-10) == pytest.approx(tight, abs=1e-5)
        assert definitions.simple_epsilon(rho, 1e-10) == pytest.approx(simple, abs=1e-5)


# Power of tests

TABLE_1 = {
    0.01: (0.011052, 0.016487, 0.027183, 0.073891, 0.545982),
    0.05: (0.055259, 0.082436, 0.135914, 0.369453, 0.982600),
    0.10: (0.110517, 0.164872, 0.271828, 0.738906, 0.983516),
}


@pytest.mark.parametrize("level", TABLE_1)
def test_f1_power_against_pure_dp(level: float) -> None:
    """Table 1, by Theorem 6.1."""
    for epsilon, expected in zip((0.1, 0.5, 1.0, 2.0, 4.0), TABLE_1[level], strict=True):
        assert adv.PureDP(epsilon).power(level) == pytest.approx(expected, abs=1e-6)


def test_f2_power_against_approximate_dp() -> None:
    """Theorem 6.2, both sides, epsilon 1, delta 0.01, level 0.05."""
    bounds = definitions.power_bounds(1.0, 0.01, 0.05)
    assert bounds == pytest.approx((0.0147151776, 0.1459140914), abs=1e-9)
    g = adv.ApproximateDP(1.0, 0.01)
    assert (1.0 - g.power(0.95), g.power(0.05)) == pytest.approx(bounds, abs=1e-12)


def test_f3_a_whole_curve_of_epsilons_and_deltas() -> None:
    """The best point of the Gaussian curve gives the Gaussian trade-off; one point alone is weak."""
    mu, g = math.sqrt(MU2), adv.GaussianDP(math.sqrt(MU2))

    def point(epsilon: float) -> float:
        return float(adv.ApproximateDP(epsilon, g.delta(epsilon)).power(0.05))

    best = abs(mu * ndtri(0.05) + MU2 / 2)
    assert best == pytest.approx(1.1424207836, abs=1e-8)
    assert point(best) == pytest.approx(0.7417064880, abs=1e-8)
    assert g.power(0.05) == pytest.approx(0.7417064880, abs=1e-8)
    assert adv.Guarantee.power(g, 0.05) == pytest.approx(0.7417064880, abs=1e-8)
    assert min(point(e) for e in np.linspace(0, 4, 81)) >= g.power(0.05) - 1e-12
    assert point(2.0) == pytest.approx(0.8169259585, abs=1e-8)


def test_f4_gaussian_power_of_the_2020_release() -> None:
    """Table 2: 0.49, 0.74, 0.84."""
    power = adv.GaussianDP(math.sqrt(MU2)).power(LEVELS)
    assert power.tolist() == pytest.approx([0.4868855852, 0.7417064880, 0.8442112309], abs=1e-9)
    assert [round(p, 2) for p in power.tolist()] == [0.49, 0.74, 0.84]


def test_f5_zcdp_power_of_the_2020_release() -> None:
    """Table 2: 0.95, by Theorem 6.3 at the limit of order 1, where kl(power, level) = rho."""
    power = adv.ZeroConcentratedDP(2.63).power(0.05)
    assert power == pytest.approx(0.9465841816, abs=1e-7)
    kl = power * math.log(power / 0.05) + (1 - power) * math.log((1 - power) / 0.95)
    assert kl == pytest.approx(2.63, abs=1e-9)
    assert power < RenyiDP(1.1, 2.63 * 1.1).power(0.05) - 1e-3


def test_f6_gaussian_power_of_a_block_in_its_group() -> None:
    """Table 6, scenario A at its exact rho: 0.03, 0.12, 0.21."""
    rho = 37477407 / 336118000
    power = adv.GaussianDP(math.sqrt(2 * rho)).power(LEVELS)
    assert power.tolist() == pytest.approx([0.0318611729, 0.1204734520, 0.2091651982], abs=1e-9)


def test_f7_zcdp_power_of_a_block_in_its_group() -> None:
    """Table 6: 0.04, at an order of about 6.29."""
    power = adv.ZeroConcentratedDP(0.1115).power(0.01)
    assert power == pytest.approx(0.0373861070, abs=1e-7)
    assert RenyiDP(6.29, 0.1115 * 6.29).power(0.01) == pytest.approx(power, abs=1e-8)


def test_f8_power_against_renyi_dp() -> None:
    """Theorem 6.3, order 2, gamma 1/2."""
    power = RenyiDP(2.0, 0.5).power(LEVELS)
    assert power.tolist() == pytest.approx([0.0901395070, 0.2255399110, 0.3416297050], abs=1e-8)


# Errata


def test_e1_a_misplaced_digit_of_table_1() -> None:
    """Level 0.05, epsilon 0.5: 0.820 is printed, above the next entry of its row; the formula gives 0.0824."""
    printed, found = 0.820, adv.PureDP(0.5).power(0.05)
    assert found == pytest.approx(0.082436, abs=1e-6)
    assert found < adv.PureDP(1.0).power(0.05) < printed


@pytest.mark.parametrize(
    ("level", "epsilon", "printed", "exact"), [(0.01, 4.0, 0.550, 0.545982), (0.05, 2.0, 0.370, 0.369453)]
)
def test_e2_two_cells_of_table_1_are_padded(level: float, epsilon: float, printed: float, exact: float) -> None:
    """Rounded to two digits and written with three."""
    found = adv.PureDP(epsilon).power(level)
    assert found == pytest.approx(exact, abs=1e-6)
    assert round(found, 2) == printed != round(found, 3)


def test_e4_the_variance_in_the_caption_of_figure_1() -> None:
    """One count moves by one: mu^2 = 5.26 needs variance 1 / 5.26. The printed 1 / 2.63 is right for two counts."""
    one: Any = adv.Gaussian(1 / math.sqrt(MU2)).privacy_loss()
    printed: Any = adv.Gaussian(1 / math.sqrt(2.63)).privacy_loss()
    two: Any = printed + printed
    assert one.mu**2 == pytest.approx(MU2)
    assert printed.mu**2 == pytest.approx(2.63)
    assert two.mu**2 == pytest.approx(MU2)


def test_e6_the_event_is_about_the_log_ratio() -> None:
    """The bounds quoted are for L > epsilon; L > e^epsilon, as printed, is far rarer."""
    loss, bound = adv.GaussianDP(math.sqrt(MU2)).worst_pair, definitions.pbdp_delta_markov(3.0, rho=2.63)
    assert bound == pytest.approx(math.exp(-(0.37**2) / (4 * 2.63)), rel=1e-9)
    assert loss.tail(math.exp(3.0))[0] < 1e-13 < loss.tail(3.0)[0] < bound
