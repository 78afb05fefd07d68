"""How many releases pass a limit, and what each of several may have: inverses of composition."""

from collections.abc import Callable

import numpy as np
import pytest

import adversary as adv

FAMILIES: dict[str, Callable[[float], adv.Guarantee]] = {
    "pure DP": adv.PureDP,
    "approximate DP": lambda x: adv.ApproximateDP(x, 1e-8),
    "zCDP": adv.ZeroConcentratedDP,
    "Gaussian DP": adv.GaussianDP,
    "Laplace noise": lambda x: adv.Laplace(1.0 / x).privacy_loss(),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_inverse_of_composition_keeps_the_limit_attains_it_and_rises_with_delta(name: str) -> None:
    family = FAMILIES[name]
    found = []
    for delta in (1e-6, 1e-4):
        each = adv.budget.largest_each(family, 3, lambda g, delta=delta: g.epsilon(delta), 1.0)
        assert (3 * family(each)).epsilon(delta) <= 1.0 < (3 * family(each * 1.0001)).epsilon(delta)
        found.append(each)
    assert found[0] <= found[1]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_release_that_passes_a_limit(name: str) -> None:
    one = FAMILIES[name](0.05)
    first = adv.budget.releases_until(one, lambda g: g.power(0.05), 0.08)
    assert (int(first) * one).power(0.05) > 0.08 >= ((int(first) - 1) * one).power(0.05)


def test_a_limit_that_no_number_of_releases_passes() -> None:
    assert adv.budget.releases_until(adv.PureDP(0.1), lambda g: g.power(0.05), 1.0, most=64) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "sigma"), [(3.0, 0.8136), (20.0, 0.4420)])
def test_the_noise_of_a_thousand_sampled_releases(epsilon: float, sigma: float) -> None:
    """Opacus's question: 1,000 steps at rate 0.01 and delta 1e-5."""
    assert adv.budget.noise_multiplier(epsilon, 1e-5, 1000, 0.01) == pytest.approx(sigma, abs=2e-4)


def test_noise_without_sampling_is_that_of_the_gaussian_curve() -> None:
    sigma = adv.budget.noise_multiplier(1.0, 1e-6, releases=4)
    assert adv.GaussianDP(2.0 / sigma).epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert adv.budget.noise_multiplier(1.0, 1e-6, rate=0.1) < adv.budget.noise_multiplier(1.0, 1e-6)
