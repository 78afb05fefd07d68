"""Losses from other libraries' objects, and to them: the same profile."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.losses import interop

EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])


@dataclass
class Pmf:
    """What a pmf of dp_accounting holds."""

    _lower_loss: int
    _probs: Any
    _discretization: float = 0.5
    _infinity_mass: float = 0.0

    def to_dense_pmf(self) -> "Pmf":
        return self


@dataclass
class Pld:
    _pmf_remove: Pmf
    _pmf_add: Pmf


def test_a_loss_distribution_is_read_in_either_direction() -> None:
    p = np.array([0.2, 0.0, 0.7])
    pld = Pld(Pmf(-1, p, _infinity_mass=0.1), Pmf(-1, np.array([0.5, 0.5])))
    loss = interop.from_pld(pld)
    np.testing.assert_allclose(loss.delta(0.25), 0.1 + 0.7 * -np.expm1(0.25 - 0.5), rtol=1e-14)
    assert loss.infinite_p == 0.1
    assert interop.from_pld(pld, "add").losses.tolist() == [-0.5, 0.0]
    with pytest.raises(ValueError, match="direction"):
        interop.from_pld(pld, "replace")


@pytest.mark.parametrize("guarantee", [adv.GaussianDP(0.7), adv.PureDP(1.0), adv.ApproximateDP(0.5, 1e-3)])
def test_a_guarantee_is_its_profile(guarantee: adv.Guarantee) -> None:
    asked: list[float] = []
    found = interop.from_delta(lambda epsilon: asked.append(epsilon) or float(guarantee.delta(epsilon)))
    assert min(np.copysign(1.0, asked)) == 1.0  # OpenDP refuses a negative zero
    given, met = guarantee.delta(EPSILONS), found.delta(EPSILONS)
    assert (met >= given * (1 - 1e-9) - 1e-12).all()
    np.testing.assert_allclose(met, given, rtol=1e-4, atol=1e-6)


def test_a_loss_is_its_trade_off_curve() -> None:
    loss = adv.RandomizedResponse(1.3, 4).privacy_loss()
    level, power = loss.corners
    found = interop.from_trade_off(level, power, linear=True)
    np.testing.assert_allclose(found.delta(EPSILONS), loss.delta(EPSILONS), rtol=1e-12, atol=1e-15)
    assert (interop.from_trade_off(level, power).delta(EPSILONS) >= loss.delta(EPSILONS) - 1e-15).all()
    with pytest.raises(ValueError, match="concave"):
        interop.from_trade_off([0.0, 0.5, 1.0], [0.0, 0.2, 1.0])


@pytest.mark.parametrize("points", [3, 7, 60, 400])
@pytest.mark.parametrize("loss", [adv.Gaussian(0.7).privacy_loss(), adv.Laplace(0.4).privacy_loss()], ids=str)
def test_between_points_of_a_curve_the_risk_is_not_less_than_that_of_any_curve_through_them(
    loss: adv.PrivacyLoss, points: int
) -> None:
    level = np.r_[0.0, np.geomspace(1e-7, 1.0, points - 1)]
    above = interop.from_trade_off(level, loss.power(level))
    assert (above.delta(EPSILONS) >= loss.delta(EPSILONS) - 1e-15).all()
    every = np.linspace(0.0, 1.0, 501)
    assert (above.power(every) >= loss.power(every) - 1e-14).all()
    # at a kink of the curve, as that of Laplace noise has, the error falls with the distance of the points only
    error = 60.0 / points**2 if isinstance(loss, type(adv.Gaussian(1.0).privacy_loss())) else 2.0 / points
    assert points < 60 or (above.power(every) <= loss.power(every) + error).all()


def test_the_curve_above_two_lines_meets_where_their_neighbours_do() -> None:
    # between 0.2 and 0.5 a concave curve is below both chords beside it, 2.5 x and 0.6 + 0.4 x
    level, power = np.array([0.0, 0.2, 0.5, 1.0]), np.array([0.0, 0.5, 0.8, 1.0])
    above = interop.from_trade_off(level, power)
    crossing = (0.6 / (2.5 - 0.4), 2.5 * 0.6 / (2.5 - 0.4))
    assert above.power(crossing[0]) >= crossing[1] - 1e-15
    assert above.power(0.0) == pytest.approx(0.3)  # the second chord, 0.3 + x, at level 0
    assert above.power(0.7) == pytest.approx(1.0)  # it reaches 1 there
    # the ends alone leave everything open
    assert interop.from_trade_off([0.0, 1.0], [0.0, 1.0]).power(0.0) == 1.0


def test_scores_of_an_attack_prove_an_epsilon_whose_error_is_controlled() -> None:
    rng = np.random.default_rng(8)
    proven = []
    for _ in range(200):
        out, present = rng.random(400) < 0.2, rng.random(400) < 0.5
        scores = rng.random((2, 400))  # ties broken at random: thresholds are chosen from the data
        found = adv.decisions.epsilon_lower_bound_from_scores(present + scores[0], out + scores[1], failure=0.2)
        proven.append(found.epsilon)
    true = np.log(0.5 / 0.2)
    assert np.mean(np.array(proven) > true) <= 0.2
    assert np.median(proven) > 0.3
    worse = adv.decisions.epsilon_lower_bound_from_scores(rng.random(50), rng.random(50))
    assert worse.epsilon == 0.0
