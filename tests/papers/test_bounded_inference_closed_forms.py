"""Kazan (2026), chapter 4: closed forms behind a noisy mean and variance, BI2 to BI9, BI13, BI14 and erratum E8."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammainc

from adversary.bounded import feasible_mass
from adversary.bounded.grid import TruncatedGammaMixture, gamma_laplace_logz, normal_laplace_logpdf
from tests.oracles.bounded import Oracle, Setting

YSTAR, SSTAR, N = 0.3430268260, 0.2224800114, 43


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((0.343, 0.3, 0.04 / 43, 10.75), 3.444013005), ((-0.1, 0.5, 0.004, 12.5), 0.004724854386)],
    ids=["BI2", "BI3 tail"],
)
def test_bi2_bi3_normal_laplace(arguments: tuple[float, ...], expected: float) -> None:
    assert np.exp(normal_laplace_logpdf(*arguments)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("upper", "sigma2", "n", "epsilon", "centre", "expected", "tolerance"),
    [
        (np.inf, 0.04, 43, 0.25, 0.2225, 0.7590762764, 1e-9),
        (0.2, 0.1, 43, 0.25, 0.2225, 1.481383965, 1e-9),
        (0.1, 0.02, 50, 0.25, -0.05, 2.608690478, 1e-9),
        (np.inf, 0.2, 10, 3.0, 0.05, 1.353444034, 1e-8),
    ],
    ids=["BI4", "BI5 cut below the centre", "BI6 centre below 0", "BI7 beta < lambda"],
)
def test_bi4_to_bi7_gamma_laplace(
    upper: float, sigma2: float, n: int, epsilon: float, centre: float, expected: float, tolerance: float
) -> None:
    found = gamma_laplace_logz(upper, sigma2, n, n * epsilon, centre)
    assert np.exp(found) == pytest.approx(expected, rel=tolerance)


def test_bi8_the_mixture_of_figure_4_6() -> None:
    law = TruncatedGammaMixture(2.0, 2.0, 1.0, 1.0)
    found = [np.exp(law.log_weights[0]), law.pdf(1.0), law.pdf(0.5), law.mean(), law.var(), law.mode()]
    assert found == pytest.approx([0.617757, 0.860048, 0.708989, 0.916977, 0.253696, 1.0], abs=1e-6)


@pytest.mark.slow
def test_bi9_the_flat_posterior_has_the_mass_of_theorem_18() -> None:
    """(n - 1) / (n - 3) times the Laplace mass above zero, no cap: by formula and as an integral over sigma2."""
    rate = 0.25 * N
    formula = (N - 1.0) / (N - 3.0) * (1.0 - 0.5 * np.exp(-rate * SSTAR))
    r = np.linspace(-40.0, 14.0, 5401)  # smooth and vanishing at both ends: the trapezoid rule is exact to rounding
    integral = 0.01 * np.exp(gamma_laplace_logz(np.inf, np.exp(r), N, rate, SSTAR) + r).sum()
    assert formula == pytest.approx(1.001974211, rel=1e-8)
    assert integral == pytest.approx(1.001974211, rel=1e-8)


@pytest.mark.parametrize(
    ("n", "mu", "sigma2", "expected"), [(10, 0.1, 0.05, 0.75876), (43, 0.3, 0.2, 0.60356)], ids=["10", "43"]
)
def test_bi13_feasible_mass(n: int, mu: float, sigma2: float, expected: float) -> None:
    assert feasible_mass(mu, sigma2, n) == pytest.approx(expected, abs=1e-5)
    oracle = Oracle(Setting(None, None, n, (np.inf, np.inf)))
    assert np.exp(oracle.log_feasible(np.array([mu]), sigma2)[0]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_feasible_mass_is_a_double_integral(n: int) -> None:
    """The sum over cells of the sample mean; also where the parameters themselves are not feasible."""
    mu, sigma2 = np.array([0.5, 0.01, -0.3, 1.2]), np.array([[0.24], [0.01], [1.0]])
    found = feasible_mass(mu, sigma2, n)
    assert found.shape == (3, 4)
    for (i, j), value in np.ndenumerate(found):
        sd, beta = np.sqrt(sigma2[i, 0] / n), 0.5 * n / sigma2[i, 0]

        def of(theta: float, mean: float = mu[j], sd: float = sd, beta: float = beta) -> float:
            y = np.sin(theta) ** 2
            inside = gammainc(0.5 * (n - 1.0), beta * y * (1.0 - y))
            return float(np.exp(-0.5 * ((y - mean) / sd) ** 2) / sd / np.sqrt(2.0 * np.pi) * inside * np.sin(2 * theta))

        near = np.arcsin(np.sqrt(np.clip(mu[j] + sd * np.array([-8.0, -3.0, 0.0, 3.0, 8.0]), 0.0, 1.0)))
        ends = np.unique([0.0, *near, 0.5 * np.pi])
        mass = sum(quad(of, a, b, epsabs=0.0, epsrel=1e-10, limit=200)[0] for a, b in pairwise(ends))
        assert value == pytest.approx(mass, rel=1e-6)
    for wrong, message in (((0.5, 0.0, 10), "sigma2 must be positive"), ((np.inf, 0.1, 10), "mu must be finite"),
                           ((0.5, 0.1, 1), "n must be at least 2")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            feasible_mass(*wrong)


@pytest.mark.parametrize(("n", "epsilon", "expected"), [(43, 0.25, 1.953488), (100, 0.1, 4.95)])
def test_bi14_the_cap_is_where_the_lower_gamma_turns_flat(n: int, epsilon: float, expected: float) -> None:
    """(n - 1) / (2 n epsilon): beta = lambda there, and nothing happens to the closed form."""
    cap, rate = (n - 1.0) / (2.0 * n * epsilon), n * epsilon
    assert cap == pytest.approx(expected, rel=1e-6)
    assert 0.5 * (n - 1.0) / cap == pytest.approx(rate, rel=1e-12)
    near = [gamma_laplace_logz(np.inf, cap * k, n, rate, 0.2) for k in (1.0 - 1e-9, 1.0, 1.0 + 1e-9)]
    assert np.diff(near) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("sigma2", [0.01, 0.2, 1.0, 30.0])
@pytest.mark.parametrize("upper", [0.02, 0.3, np.inf])
def test_e8_no_cap_is_needed(sigma2: float, upper: float) -> None:
    """Definition 7 asks for beta > lambda; the closed form holds on both sides (beta = 4.5 / sigma2, lambda = 30)."""
    alpha, beta, rate, centre = 4.5, 4.5 / sigma2, 30.0, 0.05
    constant = beta**alpha / 11.631728396567448 * 0.5 * rate  # Gamma(4.5)
    ends = [0.0, min(centre, upper), min(upper, 2.0)] if upper > centre else [0.0, upper]
    pieces = [
        quad(lambda x: x**3.5 * np.exp(-beta * x - rate * abs(x - centre)), a, b, epsabs=0.0, epsrel=1e-11, limit=200)[
            0
        ]
        for a, b in pairwise(ends)
    ]
    found = gamma_laplace_logz(upper, sigma2, 10, rate, centre)
    assert found == pytest.approx(np.log(constant * sum(pieces)), rel=1e-9, abs=1e-9)
