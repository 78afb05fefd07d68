"""Kazan (2026), section 4.5: regression on the cirrhosis data (BI18 to BI23), and errors of its figure (E2, E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adversary.bounded import regression as reg
from adversary.bounded.regression import samplers
from adversary.bounded.regression.regressor_moments import record_law

DATA = reg.load_cirrhosis()
X, Y = DATA.x.values, DATA.y.values
FIXTURE = reg.RegressionRelease(
    (46.0822, 9.56667, 3.94216, 18.6849, -3.92079, 3.61874),
    (40.00454, 6.15444, 7.43941, 0.99294, 5.27982),
    n=46,
    epsilon=0.1,
    n_known=False,
)
"""BI22: the authors' release, seed 10."""


def test_bi18_sums() -> None:
    expected = [46, 12.23129, 4.80420, 16.02257, 5.73571, 7.96366]
    np.testing.assert_allclose(reg.statistics(X, Y).sums, expected, atol=1e-5)


def least_squares(x: Any, y: Any) -> tuple[float, float, float]:
    """Intercept, slope and residual variance (divisor n - 2), from the sums."""
    n, sx, sxx, sy, sxy, syy = reg.statistics(x, y).sums
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    intercept = (sy - slope * sx) / n
    return intercept, slope, (syy - intercept * sy - slope * sxy) / (n - 2)


def test_bi19_least_squares() -> None:
    np.testing.assert_allclose(least_squares(X, Y), [0.09554, 0.95065, 0.022277], atol=1e-5)


def test_bi20_least_squares_with_49_for_149() -> None:
    """The copy in another repository; the thesis's figure has 149."""
    liquor = DATA.liquor.values.copy()
    (place,) = np.flatnonzero(liquor == 149)
    liquor[place] = 49
    drink = DATA.wine.values + liquor
    x = (drink - drink.min()) / np.ptp(drink)
    np.testing.assert_allclose(least_squares(x, Y)[:2], [0.07834, 0.63630], atol=1e-5)


def test_bi21_posterior_without_privacy() -> None:
    law = reg.nonprivate_posterior(X, Y)
    np.testing.assert_allclose(law.mean, [0.14366, 0.78717], atol=1e-5)
    np.testing.assert_allclose([law.a0, law.b0, law.mean_sigma2], [43, 1.18045, 0.028106], atol=1e-5)


def test_bi22_release_costs_what_the_thesis_says() -> None:
    assert FIXTURE.queries == 11
    assert FIXTURE.total_epsilon == pytest.approx(1.1)


def test_bi23_moment_projection() -> None:
    m = FIXTURE.noisy_moments / 46
    m[0] = 1.0
    np.testing.assert_allclose(reg.project_moments(m), [1, 0.1450, 0.1121, 0.0930, 0.0818], atol=0.002)


# E2


def spread(tree: Any, name: str) -> tuple[float, float]:
    draws = tree["posterior"][name]
    return float(draws.mean()), float(draws.std())


@pytest.fixture(scope="module")
def published() -> Any:
    return reg.gibbs(FIXTURE, draws=200, burn=50, chains=64, rng=1, max_tries=100_000, published=True)


def test_e2_the_published_figure_shows_sigma2_above_4(published: Any) -> None:
    """Plotted: intercept 0.368 +- 0.367, slope 0.026 +- 1.116, Sy 16.14 +- 5.31, Syy 11.68 +- 5.34."""
    assert float(published["posterior"].sigma2.min()) >= 4.0
    np.testing.assert_allclose(spread(published, "intercept"), (0.364, 0.369), atol=0.02)
    np.testing.assert_allclose(spread(published, "slope"), (0.053, 1.130), atol=0.05)
    sums = published["posterior"].sums.sel(statistic=["y", "yy"])
    np.testing.assert_allclose(sums.mean(("chain", "draw")), [16.1, 11.7], atol=0.4)
    np.testing.assert_allclose(sums.std(("chain", "draw")), [5.3, 5.5], atol=0.4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the draws are unreliable")  # many short chains: R-hat sees each one's few draws
def test_e2_constraints_narrow_the_slope_where_the_thesis_says_they_widen_it(published: Any) -> None:
    """Standard deviation of the slope: 1.13 as published, 0.34 without constraints, 0.30 with sigma2 <= 1/4."""
    longer: dict[str, Any] = {"draws": 800, "burn": 200, "chains": 128, "rng": 2}
    free, weak = (reg.gibbs(FIXTURE, constrained=constrained, **longer) for constrained in (False, True))
    assert float(weak["posterior"].sigma2.max()) <= 0.25
    assert min(tree["posterior"].attrs["ess"] for tree in (free, weak)) > 500
    sd = {name: spread(tree, "slope")[1] for name, tree in (("free", free), ("weak", weak), ("published", published))}
    assert sd["published"] == pytest.approx(1.13, abs=0.05)
    assert sd["free"] == pytest.approx(0.34, abs=0.03)
    assert sd["weak"] == pytest.approx(0.30, abs=0.03)
    assert sd["weak"] < sd["free"] < sd["published"]


# E3


def test_e3_the_covariance_of_xy_has_its_indices_in_the_order_ik_jl() -> None:
    """As published, Var(y) is sigma2 alone: 0.0223 where 0.0528 is right, and the whole is no covariance matrix."""
    m = reg.statistics(X, Y).moments / 46
    theta, sigma2 = np.array([0.09554, 0.95065]), np.array(0.022277)
    wrong, right = (record_law(theta, sigma2, m, published=published)[1] for published in (True, False))
    xi = m[np.add.outer(*[np.add.outer(range(2), range(2))] * 2)]
    eta = m[np.add.outer(range(2), range(2))]
    xi = xi - np.multiply.outer(eta, eta)
    np.testing.assert_allclose(wrong[3:5, 3:5], sigma2 * eta + np.einsum("k,l,ijkl", theta, theta, xi), rtol=1e-12)
    np.testing.assert_allclose(right[3:5, 3:5], sigma2 * eta + np.einsum("k,l,ikjl", theta, theta, xi), rtol=1e-12)
    np.testing.assert_allclose([wrong[3, 3], right[3, 3]], [0.022277, 0.052767], atol=1e-6)
    assert np.linalg.eigvalsh(wrong)[0] == pytest.approx(-0.01561, abs=1e-5)
    assert np.linalg.eigvalsh(right)[0] > -1e-12


def test_e3_the_rate_of_the_noise_depends_on_the_constraints_in_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 without and 0.12 with, where the script released the sums at 1.1 / 6 each, a scale of 5.45."""
    told: list[float] = []

    class Spy(samplers.Sweeps):
        def run(self, *args: Any) -> Any:
            told.append(self.rate)
            raise reg.SamplerStuck

    monkeypatch.setattr(samplers, "Sweeps", Spy)
    for constrained in (False, True):
        with pytest.raises(reg.SamplerStuck):
            reg.gibbs(FIXTURE, constrained=constrained, published=True)
    np.testing.assert_allclose(told, [0.1, 0.12])
    np.testing.assert_allclose(6 / 1.1, 5.45, atol=0.01)
