"""How guarantees add up: one kind adds its parameter, worst pairs compose optimally, the rest is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.definitions.composition_rules import optimal_profile
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.composition import compose_losses
from adversary.privacy.losses.loss import PrivacyLoss
from tests.catalogue import DG, GUARANTEES
from tests.tables import refusals

EPSILONS = np.linspace(-2.5, 4.0, 27)
ADDITIVE = (adv.ZeroConcentratedDP, adv.GaussianDP, RenyiDP)


def same_profile(a: adv.Guarantee, b: adv.Guarantee, tolerance: float = 1e-12) -> None:
    for one, other in ((a, b), (a.swapped, b.swapped)):
        np.testing.assert_allclose(one.delta(EPSILONS), other.delta(EPSILONS), rtol=1e-9, atol=tolerance)


# One kind


def test_parameters_of_one_kind_add_up() -> None:
    assert adv.ZeroConcentratedDP(0.25) + adv.ZeroConcentratedDP(0.5) == adv.ZeroConcentratedDP(0.75)
    assert adv.GaussianDP(3.0) + adv.GaussianDP(4.0) == adv.GaussianDP(5.0)
    assert RenyiDP(3.0, 0.25) + RenyiDP(3.0, 0.5) == RenyiDP(3.0, 0.75)
    exact = adv.ZeroConcentratedDP(Fraction(1, 3)) + adv.ZeroConcentratedDP(Fraction(1, 6))  # type: ignore[arg-type]
    assert exact.rho == Fraction(1, 2)


def test_multiples_of_one_kind() -> None:
    assert 4 * adv.ZeroConcentratedDP(0.25) == adv.ZeroConcentratedDP(1.0)
    assert 4 * adv.GaussianDP(0.25) == adv.GaussianDP(0.5)
    assert 4 * RenyiDP(3.0, 0.25) == RenyiDP(3.0, 1.0)
    assert adv.GaussianDP(0.5) * 4 == adv.GaussianDP(1.0)
    assert (3 * adv.ZeroConcentratedDP(Fraction(1, 7))).rho == Fraction(3, 7)  # type: ignore[arg-type]


def test_pure_and_gaussian_count_beside_zcdp() -> None:
    zcdp = adv.ZeroConcentratedDP(0.25)
    pure = math.tanh(0.5)
    assert zcdp + adv.PureDP(1.0) == adv.PureDP(1.0) + zcdp == adv.ZeroConcentratedDP(0.25 + pure)
    assert zcdp + adv.GaussianDP(0.5) == adv.GaussianDP(0.5) + zcdp == adv.ZeroConcentratedDP(0.375)
    assert adv.ZeroConcentratedDP(pure).is_satisfied_by(adv.Geometric(1.0).privacy_loss())
    together = adv.Geometric(1.0).privacy_loss() + DG(0.25).privacy_loss() + adv.Gaussian(2.0).privacy_loss()
    assert sum([zcdp, adv.PureDP(1.0), adv.GaussianDP(0.5)]) == adv.ZeroConcentratedDP(0.375 + pure)
    assert adv.ZeroConcentratedDP(0.375 + pure).is_satisfied_by(together)


def test_no_privacy_absorbs() -> None:
    for g in (*GUARANTEES.values(), DG(0.3).privacy_loss()):
        assert adv.NoPrivacy() + g == g + adv.NoPrivacy() == adv.NoPrivacy()
    assert 7 * adv.NoPrivacy() == adv.NoPrivacy()


# Sums and multiples of anything


@pytest.mark.parametrize("g", GUARANTEES.values(), ids=GUARANTEES.keys())
def test_zero_one_and_sum(g: adv.Guarantee) -> None:
    assert 0 + g is g
    assert g + 0 is g
    assert sum([g]) is g
    same_profile(1 * g, g)
    nothing = 0 * g
    assert nothing.delta(0.0) == 0.0
    assert nothing.loss_bound(0.0) == 0.0
    if isinstance(g, ADDITIVE):
        assert type(nothing) is type(g)
        same_profile(nothing + g, g)


@pytest.mark.parametrize("g", [adv.PureDP(0.7), adv.ApproximateDP(0.4, 1e-3), adv.GaussianDP(0.8)])
def test_multiples_are_repeated_sums(g: adv.Guarantee) -> None:
    same_profile(3 * g, g + g + g)
    total: Any = sum([g, g, g])
    same_profile(3 * g, total)
    same_profile(2 * g + 3 * g, 5 * g)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.7, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.02])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_multiples_are_the_closed_homogeneous_profile(epsilon: float, delta: float, count: int) -> None:
    g = count * (adv.ApproximateDP(epsilon, delta) if delta else adv.PureDP(epsilon))
    e = np.linspace(-1.2, 1.2, 31) * count * max(epsilon, 0.1)
    np.testing.assert_allclose(g.delta(e), optimal_profile(e, epsilon, count, delta), rtol=1e-10, atol=1e-15)
    same_profile(g, g.swapped)


def test_a_definition_beside_a_loss_composes_with_its_worst_pair() -> None:
    loss = DG(0.3).privacy_loss()
    for g in (adv.PureDP(0.5), adv.ApproximateDP(0.5, 0.01), adv.GaussianDP(0.5)):
        same_profile(g + loss, compose_losses([g.worst_pair, loss]), 1e-10)
        assert isinstance(g + loss, PrivacyLoss)
    same_profile(adv.PureDP(0.0) + loss, loss, 1e-10)


# Refusals


test_what_does_not_compose_is_refused_with_the_conversion_to_use = refusals(
    (
        lambda: adv.ZeroConcentratedDP(0.1) + DG(0.3).privacy_loss(),
        r"zCDP and privacy loss do not compose as they are: ZeroConcentratedDP\(rho\) implies RenyiDP\(alpha, "
        r"rho \* alpha\) at every alpha > 1 and ApproximateDP\(g\.epsilon\(delta\), delta\)",
    ),
    (
        lambda: RenyiDP(2.0, 0.1) + adv.ApproximateDP(0.1, 1e-9),
        r"Renyi DP and approximate DP.*RenyiDP implies ApproximateDP",
    ),
    (
        lambda: adv.ProbabilisticDP(1.0, 0.1) + adv.PureDP(0.1),
        r"probabilistic DP and pure DP.*ProbabilisticDP\(epsilon, delta\) implies ApproximateDP\(epsilon, delta\)",
    ),
    (lambda: adv.PureDP(1.0) + 1, "unsupported operand"),
    error=TypeError,
)


test_multiples_are_whole_and_orders_agree = refusals(
    (lambda: RenyiDP(2.0, 0.1) + RenyiDP(3.0, 0.1), r"alpha must be the same for both, got 2\.0 and 3\.0"),
    (lambda: 2.5 * adv.ZeroConcentratedDP(1.0), r"times must be a whole number.*2\.5"),  # type: ignore[operator]
)


@pytest.mark.parametrize(("count", "epsilon"), [(3000, 0.05), (10_000, 1e-6), (365, 50.0)])
def test_what_is_certain_stays_certain_over_thousands_of_releases(count: int, epsilon: float) -> None:
    """All releases at their worst are rarer than exp(-745), and possible."""
    together = count * adv.PureDP(epsilon)
    assert together.loss_bound(0.0) == pytest.approx(count * epsilon, rel=1e-12)
    assert together.epsilon(1e-6) <= together.loss_bound(0.0)
    assert float(together.delta(0.999 * count * epsilon)) >= 0.0
    assert together.epsilon(0.01) <= together.epsilon(1e-6)
