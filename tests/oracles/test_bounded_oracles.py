"""The slow twin of the bounded posterior against the notes' table, closed forms, symmetry and a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles.bounded import Oracle, Setting, highest_density, log_sample_variance_part

YSTAR, SSTAR, N, SCALE = 0.3430268260, 0.2224800114, 43, 1.0 / (0.25 * 43)
CAP = 42.0 / (2.0 * 43.0 * 0.25)
INFORMATIVE = (0.125, 1.0, 1.0, 0.038)


def example(*, flat: bool, constrained: bool) -> Oracle:
    prior, cap = None if flat else INFORMATIVE, np.inf if constrained else CAP
    return Oracle(Setting(YSTAR, SSTAR, N, (SCALE, SCALE), prior=prior, constrained=constrained, cap=cap))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("flat", "constrained", "mean", "sd", "square"),
    [
        (False, False, 22.809, 11.960, 572.1),
        (False, True, 22.540, 11.114, 336.6),
        (True, False, 34.303, 15.302, 2626.0),
        (True, True, 38.534, 11.028, 1406.9),
    ],
)
def test_moments_of_example_4(flat: bool, constrained: bool, mean: float, sd: float, square: float) -> None:
    found = example(flat=flat, constrained=constrained).moments
    assert 100.0 * found["mu"] == pytest.approx(mean, abs=6e-4)
    assert 100.0 * found["sd_mu"] == pytest.approx(sd, abs=6e-4)
    assert 1e4 * found["sigma2"] == pytest.approx(square, abs=0.06)


@pytest.mark.slow
@pytest.mark.thorough
def test_infeasible_mass_and_prediction_of_example_4() -> None:
    assert example(flat=False, constrained=False).infeasible == pytest.approx((0.0915, 0.1007), abs=1e-4)
    oracle = example(flat=True, constrained=False)
    assert oracle.infeasible == pytest.approx((0.5927, 0.6115), abs=5e-4)
    found = oracle.predictive
    assert [found["below"], found["above"]] == pytest.approx([0.2427, 0.1014], abs=1e-4)
    assert 100.0 * found["sd"] == pytest.approx(53.48, abs=6e-3)


def test_the_flat_unconstrained_integral_is_theorem_18() -> None:
    oracle = Oracle(Setting(YSTAR, SSTAR, N, (SCALE, SCALE), constrained=False))
    assert np.exp(oracle.log_integral) == pytest.approx(1.001974211, rel=1e-8)
    moments = oracle.moments
    assert moments["mu"] == pytest.approx(YSTAR, abs=1e-10)
    assert moments["sd_mu"] ** 2 == pytest.approx(2.0 * SCALE**2 + moments["sigma2"] / N, rel=1e-8)


def test_intervals_of_example_4() -> None:
    """Of sigma only: those of mu take the slow twin a minute and more."""
    ((low, high),) = example(flat=False, constrained=False).regions("sigma")
    assert [100.0 * low, 100.0 * high] == pytest.approx([0.85, 49.90], abs=6e-3)


@pytest.mark.slow
@pytest.mark.thorough
def test_reflection_changes_nothing() -> None:
    one, other = (Oracle(Setting(y, 0.3, 5, (0.3, 0.4))).moments for y in (-0.2, 1.2))
    assert one["mu"] == pytest.approx(1.0 - other["mu"], abs=1e-8)
    assert one["sigma2"] == pytest.approx(other["sigma2"], rel=1e-8)


def test_without_noise_the_law_of_the_variance_is_a_gamma_law() -> None:
    """No noise on S: the whole gamma law; and its mass below a limit."""
    setting = Setting(None, None, 7, (np.inf, np.inf))
    v = np.array([0.01, 0.2])
    assert log_sample_variance_part(setting, np.array([np.inf]), v) == pytest.approx(0.0, abs=1e-12)
    z = 3.0 * 0.1 / v  # Gamma(3): 1 - exp(-z) (1 + z + z^2 / 2)
    exact = np.log(-np.expm1(-z + np.log1p(z + 0.5 * z * z)))
    assert log_sample_variance_part(setting, np.array([0.1]), v) == pytest.approx(exact, abs=1e-11)


def test_statistics_that_contradict_each_other_move_the_mode() -> None:
    """n = 1e5, eps 10 and 10, Y* = 0, S* = 0.3: neither number can be nearly right; the noise of both must give way."""
    oracle = Oracle(Setting(0.0, 0.3, 100_000, (1e-6, 1e-6)))
    moments = oracle.moments
    assert 0.0 < moments["sd_mu"] < 0.01
    assert 0.0 < moments["sigma2"] < 0.25
    assert np.isfinite(oracle.log_evidence)


@pytest.mark.slow
@pytest.mark.thorough
def test_moments_agree_with_weighted_draws_from_the_prior() -> None:
    """Prior draws, discarded with their statistics unless these are feasible, weighted by the noise: section 3."""
    rng, n, scale = np.random.default_rng(4), 4, 0.25
    mu = rng.beta(2.0, 2.0, 400_000)
    v = rng.random(mu.size) * mu * (1.0 - mu)
    y, square = rng.normal(mu, np.sqrt(v / n)), rng.gamma(1.5, v / 1.5)
    good = (y > 0.0) & (y < 1.0) & (square <= n / (n - 1.0) * y * (1.0 - y))
    weight = np.where(good, np.exp(-(np.abs(0.2 - y) + np.abs(0.1 - square)) / scale), 0.0)
    found = Oracle(Setting(0.2, 0.1, n, (scale, scale))).moments
    weight /= weight.sum()
    for name, value in (("mu", mu), ("sigma2", v), ("sigma", np.sqrt(v))):
        mean = weight @ value
        error = np.sqrt((weight**2) @ (value - mean) ** 2)
        assert found[name] == pytest.approx(mean, abs=4.5 * error)


def test_levels_of_a_normal_density() -> None:
    from scipy.special import ndtr

    x = np.linspace(-6.0, 6.0, 6001)
    ((low, high),) = highest_density(x, np.exp(-0.5 * x * x), ndtr(x), 0.95)
    assert [low, high] == pytest.approx([-1.959964, 1.959964], abs=1e-5)
