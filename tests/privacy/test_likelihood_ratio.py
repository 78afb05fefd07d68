"""The likelihood ratio test as an object: level and power are those of its decisions; how many releases it needs."""

import numpy as np
import pytest
from scipy.special import ndtri

import adversary as adv
from adversary.privacy.losses import PrivacyLoss
from tests.catalogue import LOSSES


@pytest.mark.parametrize("name", LOSSES)
def test_a_test_has_its_level_and_its_power(name: str) -> None:
    loss = LOSSES[name]
    for level in (0.003, 0.6):
        found = loss.test(level)
        above, at = np.array(loss.tail(found.threshold)), np.array(loss.tail_from(found.threshold))
        power, level_found = above + found.tie * (at - above)
        if np.isfinite(found.threshold):
            np.testing.assert_allclose(level_found, level, rtol=1e-6)
            np.testing.assert_allclose(power, found.power, rtol=1e-6)
        assert found.power == loss.power(level)
    assert (loss.test(0.0).power, loss.test(1.0).power) == (loss.power(0.0), 1.0)


def test_decisions_at_a_tie_are_randomised() -> None:
    noise = adv.Geometric(1.0)
    found = noise.privacy_loss().test(0.1)
    values = np.arange(-60, 62)
    loss = noise.log_ratio(values, 1, 0)
    decided = found.probability(loss)
    assert decided @ np.exp(noise.log_prob(values, 0)) == pytest.approx(0.1, rel=1e-9)
    assert decided @ np.exp(noise.log_prob(values, 1)) == pytest.approx(found.power, rel=1e-9)


def gaussian_size(mu: float, power: float, level: float) -> int:
    return int(np.ceil(((ndtri(power) - ndtri(level)) / mu) ** 2))


@pytest.mark.parametrize(("mu", "power", "level"), [(0.1, 0.8, 0.05), (1.0, 0.99, 0.001), (0.01, 0.3, 0.1)])
def test_the_sample_size_of_gaussian_noise_is_the_textbook_one(mu: float, power: float, level: float) -> None:
    assert adv.Gaussian(1 / mu).privacy_loss().sample_size(power, level) == gaussian_size(mu, power, level)


def test_one_release_fewer_does_not_do() -> None:
    loss: PrivacyLoss = adv.RandomizedResponse(0.5).privacy_loss()
    size = int(loss.sample_size(0.9, 0.05))
    assert (size * loss).power(0.05) >= 0.9 > ((size - 1) * loss).power(0.05)


def test_no_number_of_releases_of_nothing_or_for_certainty() -> None:
    assert adv.Gaussian(1.0).privacy_loss(0).sample_size(0.9, 0.05) == np.inf
    assert adv.Gaussian(1.0).privacy_loss().sample_size(1.0, 0.05) == np.inf
