"""Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential privacy", section 7.

Rows B1 to B9 of the numbers to reproduce, the three worked cases, and errata E7 and E8 with both numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import adversary as adv
from adversary.adversaries import counterfactual as cf
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.analytic import GaussianLoss

RHO = 2.63
ZCDP = adv.ZeroConcentratedDP(RHO)


def test_b01_a_mistaken_reader_is_moved_without_bound() -> None:
    """Example 7.2: the reader thinks nobody else is counted, 100 are; weights around exp(-5000)."""
    law = cf.log_likelihood(adv.Gaussian(1.0), [[0, 1]], [101.3])
    worlds = cf.compare_worlds(1.0, [0.99, 0.01], law).sel(record=1, release=101.3)
    assert worlds.log_prob.item() == pytest.approx(math.log(0.01) - 100.3**2 / 2 - math.log(2 * math.pi) / 2, abs=1e-9)
    assert worlds.log_odds.item() == pytest.approx(96.2048801499, abs=1e-9)
    assert math.exp(-worlds.log_odds.item()) == pytest.approx(1.6548e-42, rel=1e-4)
    assert math.exp(worlds.log_ratio.item()) == pytest.approx(100.0, rel=1e-12)
    assert worlds.counterfactual.item() == pytest.approx(0.01, rel=1e-14)
    for prior in (1e-4, 1e-12):
        sure = cf.compare_worlds(1.0, [1 - prior, prior], law).sel(record=1, release=101.3)
        assert math.exp(sure.log_ratio.item()) == pytest.approx(1 / prior, rel=1e-11)


def test_b02_known_rest() -> None:
    """Theorem 7.3, Figure 3."""
    assert cf.known_rest_bound(ZCDP, 3.0) == pytest.approx(0.0491433713, abs=1e-9)
    assert cf.known_rest_epsilon(ZCDP, 0.01) == pytest.approx(4.3303441263, abs=1e-9)
    assert cf.known_rest_bound(ZCDP, RHO) == pytest.approx(0.0720784622, abs=1e-9)


def test_b03_any_prior() -> None:
    """Theorem 7.5, Figure 5."""
    assert cf.true_record_bound(ZCDP, 5.0) == pytest.approx(0.5862987216, abs=1e-9)
    assert cf.true_record_epsilon(ZCDP, 0.05) == pytest.approx(8.2438314472, abs=1e-9)


def test_b04_block_within_its_group() -> None:
    """Figures 7 to 9: rho 0.1115, delta 0.05."""
    z, g = adv.ZeroConcentratedDP(0.1115), adv.GaussianDP(math.sqrt(0.223))
    assert cf.known_rest_epsilon(z, 0.05) == pytest.approx(1.0443964461, abs=1e-8)
    assert cf.functional_epsilon(g, 0.05) == pytest.approx(1.0714002265, abs=1e-8)
    assert cf.true_record_epsilon(z, 0.05) == pytest.approx(1.2673964461, abs=1e-8)


def test_b05_block_within_its_tract() -> None:
    """Figure 11: rho 0.926."""
    assert cf.functional_epsilon(adv.GaussianDP(math.sqrt(1.852)), 0.05) == pytest.approx(3.6308400862, abs=1e-8)


def test_the_gaussian_curve_has_its_closed_form() -> None:
    for rho, delta in ((0.1115, 0.05), (0.926, 0.05), (2.63, 1e-4)):
        closed = math.log(delta) - float(norm.logcdf(norm.ppf(delta) - math.sqrt(2 * rho)))
        g = adv.GaussianDP(math.sqrt(2 * rho))
        assert cf.functional_epsilon(g, delta) == pytest.approx(closed, abs=1e-9)
        assert cf.functional_bound(g, closed) == pytest.approx(delta, rel=1e-9)


def test_b06_a_count_of_two_with_the_other_known() -> None:
    """Derived: one other person counted, P(r = 1) = 0.4, geometric noise, epsilon 1."""
    worlds = cf.compare_worlds(1.0, [0.6, 0.4], cf.log_likelihood(adv.Geometric(1.0), [[1, 2]]))
    ratio = np.exp(worlds.log_ratio.sel(record=1))
    assert ratio.sel(release=slice(None, 1)).values == pytest.approx(0.4923757833, abs=1e-9)
    assert ratio.sel(release=slice(2, None)).values == pytest.approx(1.6110124566, abs=1e-9)
    assert ratio.sel(release=2).item() == pytest.approx(math.e / (0.4 * math.e + 0.6), rel=1e-14)
    assert (abs(worlds.log_ratio) <= 1.0).all()


def test_b07_a_count_of_two_with_the_other_unknown() -> None:
    """Derived: P(h = 1) = 0.3, P(r = 1 | h = 0) = 0.05, P(r = 1 | h = 1) = 0.4."""
    law = cf.log_likelihood(adv.Geometric(1.0), [[0, 1], [1, 2]])
    worlds = cf.compare_worlds([0.7, 0.3], [[0.95, 0.05], [0.6, 0.4]], law).sel(record=1)
    at = worlds.sel(release=1)
    assert at.actual.item() == pytest.approx(0.1571016925, abs=1e-9)
    assert at.counterfactual.item() == pytest.approx(0.2057229379, abs=1e-9)
    assert math.exp(at.log_ratio.item()) == pytest.approx(0.7636566644, abs=1e-9)
    for side in (slice(None, 0), slice(2, None)):
        assert np.ptp(worlds.log_ratio.sel(release=side).values) < 1e-13


def test_b08_two_records_under_gaussian_noise() -> None:
    """Derived: rho 0.1115, prior 0.01, epsilon 0.5, beside Theorems 7.4 and 7.3."""
    first, second = cf.known_rest_tail(GaussianLoss(math.sqrt(0.223)), 0.01, 0.5)
    assert first == pytest.approx(0.2014041240, abs=1e-9)
    assert 0.01 * first + 0.99 * second == pytest.approx(0.0963545177, abs=1e-9)
    assert cf.functional_bound(adv.GaussianDP(math.sqrt(0.223)), 0.5) == pytest.approx(0.4413048165, abs=1e-9)
    assert cf.known_rest_bound(adv.ZeroConcentratedDP(0.1115), 0.5) == pytest.approx(0.4323961415, abs=1e-9)


def test_b09_one_renyi_order() -> None:
    """Theorems 7.3 and 7.5: alpha 4, gamma 1, epsilon 2."""
    assert cf.known_rest_bound(RenyiDP(4.0, 1.0), 2.0) == pytest.approx(0.0067379470, abs=1e-9)
    assert cf.true_record_bound(RenyiDP(4.0, 1.0), 2.0) == pytest.approx(0.0497870684, abs=1e-9)


def test_e07_the_printed_exponent_of_theorem_7_5_is_false() -> None:
    """Section 7.4.2 prints (epsilon - rho^2) for (epsilon - rho)^2: a Gaussian count exceeds what that allows."""
    rho, epsilon = 0.01, 0.1
    printed = math.exp(-(epsilon - rho**2) / (4 * rho))
    assert printed == pytest.approx(0.0822905, abs=1e-6)
    assert cf.true_record_bound(adv.ZeroConcentratedDP(rho), epsilon) == pytest.approx(0.8166865, abs=1e-6)
    achieved = cf.known_rest_tail(GaussianLoss(math.sqrt(2 * rho)), 1e-6, epsilon)[0]
    assert achieved == pytest.approx(0.2622589, abs=1e-6)
    assert printed < achieved


def test_e08_the_last_exponent_of_the_proof_is_a_product() -> None:
    """Appendix C shows (epsilon - rho) / (2 rho) - (rho - epsilon) / 2, above 0; a product is meant."""
    a, b = (5.0 - RHO) / (2 * RHO), (RHO - 5.0) / 2
    assert math.exp(a - b) == pytest.approx(5.1325, abs=1e-3)
    assert math.exp(a * b) == pytest.approx(0.5862987216, abs=1e-9)
    assert cf.true_record_bound(ZCDP, 5.0) == pytest.approx(math.exp(a * b), rel=1e-12)
