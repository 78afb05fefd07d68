"""Amplification by sampling: the pair is a mixture, and the profiles are those of the theorems."""

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.losses import LatticeLoss, PrivacyLoss

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 2.0])
LOSSES: dict[str, PrivacyLoss] = {
    "geometric": adv.Geometric(0.8).privacy_loss(),
    "discrete gaussian": adv.DiscreteGaussian(1.5).privacy_loss(),
    "laplace": adv.Laplace(1.0).privacy_loss(),
    "gaussian": adv.Gaussian(1.2).privacy_loss(),
    "some outcomes impossible": LatticeLoss.from_probs([0.5, 0.3, 0.2, 0.0], [0.2, 0.6, 0.0, 0.2]),
}


def amplified(loss: PrivacyLoss, rate: float) -> np.ndarray:
    """Theorem 8 of Balle, Barthe and Gaboardi, at epsilon >= 0."""
    return rate * np.asarray(loss.delta(np.log1p(np.expm1(EPSILONS) / rate)))


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("name", LOSSES)
def test_profiles_are_those_of_the_theorem_and_never_below(name: str, rate: float) -> None:
    loss = LOSSES[name]
    found, wanted = adv.sampled_loss(loss, rate).delta(EPSILONS), amplified(loss, rate)
    np.testing.assert_allclose(found, wanted, rtol=1e-9 if isinstance(loss, LatticeLoss) else 1e-2, atol=1e-7)
    assert (found >= wanted * (1.0 - 1e-12) - 1e-15).all()
    either = np.maximum(wanted, amplified(loss.swapped, rate))
    fixed = adv.sampled_loss(loss, rate, "without replacement")
    for side in fixed.directions:
        assert (side.delta(EPSILONS) >= either * (1.0 - 1e-9) - 1e-13).all()
        np.testing.assert_allclose(side.delta(EPSILONS), either, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_poisson_sampling_is_the_mixture_and_its_reader_is_bayes(rate: float) -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.6, 0.0, 0.2])
    found = adv.sampled_loss(LatticeLoss.from_probs(p, q), rate)
    mixed = LatticeLoss.from_probs(rate * p + (1 - rate) * q, q)
    for one, other in ((found, mixed), (found.swapped, mixed.swapped)):
        np.testing.assert_allclose(one.delta(EPSILONS), other.delta(EPSILONS), rtol=1e-13, atol=1e-16)
    # the adversary who does not know whether the target was sampled, release by release
    prior, sampled = 0.3, rate * p + (1 - rate) * q
    posterior = prior * sampled / (prior * sampled + (1 - prior) * q)
    assert found.posterior(prior).mean("in") == pytest.approx(float(posterior @ sampled), rel=1e-13)


def test_a_rate_or_scheme_that_is_none_is_refused() -> None:
    loss = LOSSES["geometric"]
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match="rate"):
            adv.sampled_loss(loss, rate)
    with pytest.raises(ValueError, match="scheme must be one of poisson, without replacement, got 'shuffled'"):
        adv.sampled_loss(loss, 0.1, "shuffled")
