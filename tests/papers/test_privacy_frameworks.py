"""Liu, He, Chanyaswad, Wang and Mittal (2019), hypothesis testing of privacy frameworks: section 6 on small laws.

The paper orders the frameworks (Theorem 7, Propositions 1 and 2) and computes none of them; values are derived.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit, logit

import adversary as adv
from adversary.literature import frameworks
from adversary.literature.joint_distribution import JointDistribution

LAPLACE = adv.Laplace(1.0)
COIN = JointDistribution([0.5, 0.5])


def agreeing(chance: float) -> JointDistribution:
    """Two binary records, each 0 or 1 with probability one half, equal with this chance."""
    return JointDistribution(np.array([[chance, 1 - chance], [1 - chance, chance]]) / 2)


def test_ht_87_uniform_binary_record_under_laplace_noise() -> None:
    eps_mp = frameworks.membership_epsilon(0.5, 1.0)
    assert (eps_mp, 2 * eps_mp) == pytest.approx((0.62011, 1.24023), abs=1e-5)
    assert frameworks.membership(COIN, sum, LAPLACE) == pytest.approx(eps_mp, rel=1e-14)
    assert frameworks.mutual_information(LAPLACE.privacy_loss(), 0.5) == pytest.approx(0.08852, abs=1e-5)
    assert frameworks.mutual_information_privacy(COIN, sum, LAPLACE) == pytest.approx(0.08852, abs=1e-5)


def test_ht_88_rare_binary_record_under_laplace_noise() -> None:
    assert frameworks.membership_epsilon(0.2, 1.0) == pytest.approx(0.86484, abs=1e-5)
    assert frameworks.membership(JointDistribution([0.8, 0.2]), sum, LAPLACE) == pytest.approx(0.86484, abs=1e-5)


def test_ht_89_two_records_that_agree_four_times_in_five() -> None:
    law = agreeing(0.8)
    assert frameworks.differential_privacy(law, sum, LAPLACE) == pytest.approx(1.0, abs=1e-5)
    assert frameworks.inferential(law, sum, LAPLACE, "record") == pytest.approx(1.56945, abs=1e-5)
    assert frameworks.dependent(law, sum, LAPLACE) == pytest.approx(2.0, abs=1e-5)
    assert frameworks.blowfish(law, sum, LAPLACE) == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_correlation_enters_the_ratio_of_a_record(epsilon: float) -> None:
    """eps + log(((1-c) + c e^eps) / (c + (1-c) e^eps)): eps when independent, 2 eps when always equal."""
    noise = adv.Laplace(1 / epsilon)
    for c in (0.5, 0.6, 0.8, 0.99, 1.0):
        e = math.exp(epsilon)
        expected = epsilon + math.log(((1 - c) + c * e) / (c + (1 - c) * e))
        assert frameworks.inferential(agreeing(c), sum, noise, "record") == pytest.approx(expected, rel=1e-12)


def test_ht_90_one_of_five_values_against_the_rest() -> None:
    """The null is a mixture: ratio 1.79729, not e; largest precision 0.31002 at prior 1/5."""
    values = [0.0, 0.25, 0.5, 0.75, 1.0]
    law = JointDistribution.independent({"x": dict.fromkeys(values, 0.2)})
    largest = frameworks.largest_loss(law, sum, LAPLACE, {"x": 1.0})
    assert math.exp(largest) == pytest.approx(1.79729, abs=1e-5)
    assert float(expit(logit(law.mass({"x": 1.0})) + largest)) == pytest.approx(0.31002, abs=1e-5)
    assert frameworks.largest_loss(law, sum, LAPLACE, {"x": 1.0}, {"x": 0.0}) == pytest.approx(1.0, rel=1e-14)


def test_theorem_7_on_the_worked_laws() -> None:
    for law in (agreeing(0.8), agreeing(0.55), COIN, JointDistribution([0.8, 0.2])):
        assert bool(frameworks.compare(law, sum, LAPLACE).holds.all())


def test_e16_proposition_2_says_less_than_is_true() -> None:
    """Printed as Proposition 1. For uniform binary records eps_MP = log((1 + e^eps) / 2), so the factor 2 is slack."""
    law = JointDistribution.independent({name: [0.5, 0.5] for name in "abc"})
    for epsilon in (0.1, 1.0, 3.0):
        table = frameworks.compare(law, sum, adv.Laplace(1 / epsilon)).epsilon
        four = table.sel(framework=["DP", "Blowfish", "dependent DP", "inferential"], level="known")
        np.testing.assert_allclose(four, epsilon, rtol=1e-12)
        eps_mp = float(table.sel(framework="membership", level="known"))
        assert eps_mp == pytest.approx(math.log((1 + math.exp(epsilon)) / 2), rel=1e-12)
        assert epsilon / 2 < eps_mp < epsilon
        assert 2 * eps_mp > epsilon * (1 + epsilon / 8)
    extremes = frameworks.membership_epsilon(xr.DataArray([0.0, 1.0], dims="prior"), 1.0)
    assert extremes.values.tolist() == [1.0, 1.0]


def test_divergence_and_largest_information_of_the_laplace_pair() -> None:
    """KL = eps + e^-eps - 1; of all priors, the uniform one tells most."""
    for epsilon in (0.5, 1.0, 3.0):
        loss = adv.Laplace(1 / epsilon).privacy_loss()
        assert loss.kl_divergence == pytest.approx(epsilon + math.exp(-epsilon) - 1, rel=1e-12)
        assert frameworks.mutual_information(loss) == pytest.approx(frameworks.mutual_information(loss, 0.5), rel=1e-12)
