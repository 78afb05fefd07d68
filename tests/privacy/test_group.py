"""Groups under pure and approximate DP: the trade-off iterated, and what is derived from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.definitions.group import GroupPrivacy
from adversary.privacy.losses import LatticeLoss
from tests.oracles import invariants
from tests.tables import refusals

SETTINGS = [(0.01, 0.0), (1.0, 0.0), (4.0, 0.0), (1.0, 0.05), (0.3, 0.2), (2.5, 1e-4), (0.05, 0.01), (1.2, 0.3)]


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_groups_iterate_the_trade_off(epsilon: float, delta: float, size: int) -> None:
    base = adv.ApproximateDP(epsilon, delta) if delta else adv.PureDP(epsilon)
    group, f = base.group(size), invariants.iterate(invariants.approximate(epsilon, delta), size)
    alphas = np.linspace(0.0, 1.0, 203)
    np.testing.assert_allclose(1.0 - np.asarray(group.power(1.0 - alphas)), [f(a) for a in alphas], atol=1e-12)
    assert (1.0 - group.advantage) / 2.0 == pytest.approx(invariants.fixed_point(f), abs=1e-12)
    if isinstance(group, adv.NoPrivacy):
        assert f(1.0 - 1e-12) == 0.0
        return
    assert isinstance(group, GroupPrivacy)
    e, fine = np.linspace(-3.0, 3.0, 7), np.geomspace(1e-12, 0.5, 4000)
    levels = np.concatenate([[0.0], fine, 1.0 - fine])
    power = 1.0 - np.array([f(1.0 - level) for level in levels])
    gaps = power - np.exp(e)[:, None] * levels
    np.testing.assert_allclose(group.delta(e), gaps.max(axis=1), atol=4e-3)
    assert np.all(np.asarray(group.delta(e)) >= gaps.max(axis=1) - 1e-12)
    assert np.all(np.asarray(group.delta(e)) <= np.asarray(group.implied.delta(e)) + 1e-15)


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_groups_of_groups_are_groups(epsilon: float, delta: float) -> None:
    base = adv.ApproximateDP(epsilon, delta)
    assert base.group(1) is base
    assert base.group(2).group(3) == base.group(6)
    assert base.group(2).group(1) == base.group(2)


def test_a_group_under_pure_dp_is_the_geometric_mechanism_moved() -> None:
    for epsilon, size in ((0.8, 2), (0.3, 5), (12.0, 3)):
        group, loss = adv.PureDP(epsilon).group(size), adv.Geometric(epsilon).privacy_loss(size)
        e = np.linspace(-size * epsilon, size * epsilon, 41)
        np.testing.assert_allclose(group.delta(e), loss.delta(e), rtol=1e-11, atol=1e-14)
        assert group.is_satisfied_by(loss)
        assert not adv.PureDP(0.999 * epsilon).group(size).is_satisfied_by(loss)
        two_point = adv.RandomizedResponse(size * epsilon).privacy_loss()
        assert adv.PureDP(size * epsilon).is_satisfied_by(two_point)
        assert not group.is_satisfied_by(two_point)  # a larger loss than any mechanism has whose records are protected


def test_the_largest_loss_of_a_group_is_its_size_times_epsilon_exactly() -> None:
    for epsilon in (0.1, 1.0 / 3.0, 0.7, 2.63):
        for size in (2, 3, 10):
            group = adv.PureDP(epsilon).group(size)
            assert group.loss_bound(0.0) == size * epsilon
            assert group.posterior_bounds(0.3) == adv.PureDP(size * epsilon).posterior_bounds(0.3)
            assert math.isinf(adv.ApproximateDP(epsilon, 1e-9).group(size).loss_bound(0.0))


def test_a_group_bounds_the_loss_no_worse_than_the_definition_it_implies() -> None:
    for base in (adv.PureDP(1.0), adv.ApproximateDP(0.5, 1e-4), adv.ApproximateDP(1.0, 0.05)):
        group: Any = base.group(3)
        for failure in (0.0, 1e-3, 0.05, 0.4, 0.6, 0.9):
            assert group.loss_bound(failure) <= group.implied.loss_bound(failure)
    assert adv.PureDP(1.0).group(3).loss_bound(0.9) < 3.0  # most outcomes of a group lose less than the largest


def test_groups_without_epsilon_keep_their_definition() -> None:
    assert adv.PureDP(0.0).group(4) == adv.PureDP(0.0)
    assert adv.ApproximateDP(0.0, 0.1).group(4) == adv.ApproximateDP(0.0, 0.4)
    assert isinstance(adv.ApproximateDP(0.0, 0.3).group(4), adv.NoPrivacy)


test_bad_groups_are_refused = refusals(
    (lambda: GroupPrivacy(adv.GaussianDP(1.0), 2), "base must be PureDP or ApproximateDP", TypeError),  # type: ignore[arg-type]
    (lambda: GroupPrivacy(adv.ApproximateDP(5.0, 0.01), 3), "leave something guaranteed, got 3 records"),
    (lambda: adv.PureDP(1.0).group(2).group(0), "size must be at least 1, got 0"),
)


def test_groups_lose_no_level_that_is_no_double() -> None:
    """Levels of exp(-745) and less were one: the loss of the group looked 300 nats smaller than it is."""
    one = 1000 * adv.PureDP(1.0)
    three, apart = one.group(3), 1000 * adv.PureDP(1.0).group(3)
    for delta in (1e-5, 1e-10, 1e-50):  # where the last of the three loses this, the others lose all they can
        assert three.epsilon(delta) == pytest.approx(2000.0 + one.epsilon(delta), rel=1e-12)
        assert three.epsilon(delta) >= apart.epsilon(delta)  # extended and then composed is never weaker
    assert three.loss_bound(0.0) == three.loss_bound(np.array(0.0)) == 3000.0


@pytest.mark.parametrize(
    "loss", [5 * adv.PureDP(0.0), adv.Geometric(1.0).privacy_loss(0), LatticeLoss.from_probs([1.0], [1.0])], ids=repr
)
def test_groups_of_what_tells_nothing_tell_nothing(loss: Any) -> None:
    assert loss.group(2).epsilon(1e-3) == loss.group(2).delta(0.0) == 0.0


@pytest.mark.parametrize(("size", "epsilon"), [(2, 15.0), (3, 20.0), (4, 25.0)])
def test_groups_of_gaussian_losses_bound_the_gaussian_either_way(size: int, epsilon: float) -> None:
    """The swapped profile fell 9% short where masses near one were one minus a sum."""
    group, exact = adv.Gaussian(1.0).privacy_loss().group(size), adv.Gaussian(1.0 / size).privacy_loss().delta(epsilon)
    for side in group.directions:
        assert exact <= side.delta(epsilon) <= 1.002 * exact


def test_losses_rounded_down_keep_their_mass_in_groups() -> None:
    """Levels of a law whose masses add up to more than one end at one."""
    law = LatticeLoss.from_probs([0.7, 0.2, 0.1], [0.1, 0.3, 0.6])
    down = law.losses - 0.01
    group = LatticeLoss(down, law.log_p, law.log_p - down, rounded=True).group(2)
    assert np.exp(group.log_p).sum() == pytest.approx(0.99834, abs=1e-5)
    assert group.delta(0.0) == pytest.approx(0.84783, abs=1e-5)


def test_losses_without_an_end_that_no_double_holds_have_none_in_groups() -> None:
    """All that is listed of noise of sd 0.02 is a loss of 1,250; those beyond have masses below exp(-745)."""
    group = adv.DiscreteGaussian(0.02).privacy_loss().group(2)
    assert group.loss_bound(0.0) == np.inf
    assert group.epsilon(1e-9) >= adv.DiscreteGaussian(0.02).privacy_loss(2).epsilon(1e-9)
