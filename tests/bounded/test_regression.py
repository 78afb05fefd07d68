"""Regression from noisy sums: the law of one record, each step of the sampler, constraints, and bad input."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adversary.bounded import regression as reg
from adversary.bounded.regression import gibbs_sweeps, regressor_moments, sufficient_statistics

RELEASE = reg.RegressionRelease([9.6, 3.9, 18.7, 3.9, 10.6], [12.2, 4.8, 2.5, 1.7], n=46, epsilon=0.5)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # no noise reaches so far: that is the point
    IMPOSSIBLE = reg.RegressionRelease([9.6, 3.9, -400.0, 3.9, 10.6], [12.2, 4.8, 2.5, 1.7], n=46, epsilon=50.0)
ELSEWHERE = reg.RegressionLaw((30.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), 20.0, 0.5)
SKEWED = reg.RegressionLaw((0.4, 0.3), ((2.0, 0.7), (0.7, 1.5)), 5.0, 0.3)


def records(seed: int = 1, n: int = 30) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.beta(1.5, 3.0, n)
    return x, np.clip(0.2 + 0.5 * x + rng.normal(0.0, 0.1, n), 0.0, 1.0)


def sampler(release: reg.RegressionRelease = RELEASE, law: reg.RegressionLaw | None = None, **told: Any) -> Any:
    """The sampler behind `gibbs`, to look at one step."""
    law = SKEWED if law is None else law
    given: dict[str, Any] = {"constrained": True, "tight": False, "published": False, "tries": 1000, **told}
    m = reg.project_moments(release.noisy_moments / release.n, mixed=0.05)
    centre, precision = law.mean, np.asarray(law.Lambda0)
    noisy = release.noisy_sums[1:]
    return gibbs_sweeps.Sweeps(release.n, noisy, m, release.epsilon, centre, precision, law.a0, law.b0, **given)


# the law of one record


def discrete_record(theta: Any, sigma2: float) -> tuple[Any, Any, Any]:
    """Exact mean and covariance of a record, x on three points and e on three that share a normal's five moments."""
    xs, ps = np.array([0.1, 0.4, 1.0]), np.array([0.5, 0.3, 0.2])
    es, qs = np.sqrt(3.0 * sigma2) * np.array([-1.0, 0.0, 1.0]), np.array([1.0, 4.0, 1.0]) / 6.0
    rows, weights = [], []
    for (x, p), (e, q) in product(zip(xs, ps, strict=True), zip(es, qs, strict=True)):
        y = theta[0] + theta[1] * x + e
        rows.append([1.0, x, x * x, y, x * y, y * y])
        weights.append(p * q)
    t, w = np.array(rows), np.array(weights)
    away = t - w @ t
    return w @ t, (away.T * w) @ away, ps @ xs[:, None] ** np.arange(5)


@pytest.mark.parametrize("theta", [(0.3, 0.5), (-0.2, 1.1), (0.9, -0.7)])
def test_the_law_of_a_record_is_that_of_an_enumerated_one(theta: Any) -> None:
    mean, covariance, m = discrete_record(theta, 0.07)
    found = regressor_moments.record_law(np.array(theta), np.array(0.07), m)
    np.testing.assert_allclose(found[0], mean, atol=1e-14)
    np.testing.assert_allclose(found[1], covariance, atol=1e-14)


def test_records_may_be_many_at_once() -> None:
    rng = np.random.default_rng(2)
    theta, sigma2, m = rng.normal(size=(4, 2)), rng.uniform(0.1, 1.0, 4), np.array([1.0, 0.4, 0.25, 0.2, 0.15])
    for published in (False, True):
        mean, law = regressor_moments.record_law(theta, sigma2, m, published=published)
        for i in range(4):
            one = regressor_moments.record_law(theta[i], sigma2[i], m, published=published)
            np.testing.assert_allclose(mean[i], one[0], rtol=1e-14)
            np.testing.assert_allclose(law[i], one[1], rtol=1e-13, atol=1e-15)


# moments


def test_moments_of_data_are_their_own_projection() -> None:
    m = regressor_moments.power_sums(records()[0]) / 30
    np.testing.assert_allclose(reg.project_moments(m), m, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_a_projection_is_feasible_nearest_and_projects_to_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noisy = np.concatenate([[1.0], rng.normal(0.3, 0.4, 4)])
    m = reg.project_moments(noisy)
    assert m[0] == pytest.approx(1.0, abs=1e-12)
    hankel, inner = m[np.add.outer(range(3), range(3))], m[1:4] - m[2:5]
    assert np.linalg.eigvalsh(hankel)[0] > -1e-9
    assert inner[0] * inner[2] - inner[1] ** 2 > -1e-9
    assert (np.diff(m) <= 1e-12).all()
    np.testing.assert_allclose(reg.project_moments(m), m, atol=1e-5)
    others = rng.dirichlet(np.full(201, 0.02), 500) @ np.linspace(0, 1, 201)[:, None] ** np.arange(5)
    assert np.linalg.norm(m - noisy) <= np.linalg.norm(others - noisy, axis=1).min() + 1e-6
    mixed = reg.project_moments(noisy, mixed=0.05)
    np.testing.assert_allclose(mixed, 0.95 * m + 0.05 / np.arange(1, 6), rtol=1e-12)


# the conjugate law


@pytest.mark.parametrize("prior", [reg.RegressionLaw(), SKEWED])
def test_the_conditional_of_coefficients_and_variance_is_that_of_the_joint(prior: reg.RegressionLaw) -> None:
    x, y = records()
    posterior = reg.nonprivate_posterior(x, y, prior)
    rng = np.random.default_rng(3)
    a, b, v = rng.normal(0.3, 0.5, 50), rng.normal(0.2, 0.5, 50), rng.uniform(0.005, 0.5, 50)
    residual = y - a[:, None] - b[:, None] * x
    joint = prior.log_prob(a, b, v) - 0.5 * len(x) * np.log(2 * np.pi * v) - (residual**2).sum(1) / (2 * v)
    gap = joint - posterior.log_prob(a, b, v)
    assert np.ptp(gap) < 1e-9 * np.abs(joint).max()


def test_the_density_of_a_law_is_its_two_factors() -> None:
    law, v = SKEWED, 0.05
    normal = stats.multivariate_normal(law.mean, v * np.linalg.inv(law.Lambda0))
    expected = normal.logpdf([0.1, 0.9]) + stats.invgamma(law.a0, scale=law.b0).logpdf(v)
    assert law.log_prob(0.1, 0.9, v) == pytest.approx(expected, rel=1e-13)
    assert law.mean_sigma2 == pytest.approx(stats.invgamma(law.a0, scale=law.b0).mean())
    np.testing.assert_allclose(law.covariance, law.mean_sigma2 * np.linalg.inv(law.Lambda0))


def test_a_law_in_other_units_has_the_same_density_up_to_the_jacobian() -> None:
    x_bounds, y_bounds = (2.0, 5.0), (-1.0, 9.0)
    unit = SKEWED.on_unit(x_bounds, y_bounds)
    theta01, v01 = np.array([[0.2, 0.4], [0.9, -1.0]]), np.array([0.02, 0.3])
    theta = reg.coefficients_in_units(theta01, x_bounds, y_bounds)
    np.testing.assert_allclose(theta @ [1.0, 3.5], -1.0 + 10.0 * theta01 @ [1.0, 0.5])
    gap = unit.log_prob(*theta01.T, v01) - SKEWED.log_prob(*theta.T, 100.0 * v01)
    np.testing.assert_allclose(gap, np.log(10.0 * (10.0 / 3.0) * 100.0), rtol=1e-12)
    assert SKEWED.on_unit((0, 1), (0, 1)) is SKEWED


def test_the_sampler_updates_the_law_as_the_law_does() -> None:
    exact = reg.statistics(*records()).sums
    many = np.stack([exact, exact * np.array([1, 1, 1, 1, 0.9, 1])])
    for constrained in (True, False):
        step = sampler(reg.RegressionRelease(exact, np.ones(5), 30, 1.0), constrained=constrained)
        centre, precision, shape, scale = step.conjugate(many[:, 1:])
        for i in range(2):
            law = SKEWED.after(many[i])
            np.testing.assert_allclose(centre[i], law.mean, rtol=1e-9)
            np.testing.assert_allclose(precision[i], law.Lambda0, rtol=1e-9)
            np.testing.assert_allclose([shape, scale[i]], [law.a0, law.b0], rtol=1e-9)


def test_impossible_sums_are_brought_to_the_nearest_moment_matrix_without_constraints() -> None:
    step = sampler(constrained=False)
    _, precision, _, scale = step.conjugate(np.array([[40.0, 3.0, 20.0, -5.0, 2.0]]))
    assert np.linalg.eigvalsh(precision[0] - step.precision)[0] > -1e-9
    assert scale[0] >= step.scale


# the steps of a sweep


def test_sums_given_the_rest_are_normal_with_the_right_mean_and_covariance() -> None:
    """Product of N(n mu, n Sigma) and N(Z, diag w2), in the form of a Kalman filter."""
    step, count = sampler(constrained=False), 20_000
    theta, sigma2, weights = np.array([0.3, 0.2]), 0.05, np.array([0.02, 0.3, 0.05, 0.01, 1.0])
    rows = (np.tile(theta, (count, 1)), np.full(count, sigma2)), np.tile(weights, (count, 1)), np.empty((count, 5))
    drawn = step.sums(*rows, np.random.default_rng(4))
    mean, law = regressor_moments.record_law(theta, np.array(sigma2), step.moments)
    prior = 46 * law[1:, 1:]
    gain = prior @ np.linalg.inv(prior + np.diag(1 / weights))
    centre, spread = 46 * mean[1:] + gain @ (step.noisy - 46 * mean[1:]), prior - gain @ prior
    sd = np.sqrt(np.diag(spread))
    np.testing.assert_array_less(np.abs(drawn.mean(0) - centre) / sd, 5 / np.sqrt(count))
    np.testing.assert_allclose(np.cov(drawn.T) / np.outer(sd, sd), spread / np.outer(sd, sd), atol=5 / np.sqrt(count))


@pytest.mark.parametrize(
    ("shape", "rate", "cut"), [(20.0, 1.0, 4.0), (20.0, 8.0, 4.0), (5.0, 60.0, 4.0), (43.0, 10.0, 4.0)]
)
def test_a_gamma_cut_from_below_has_its_law(shape: float, rate: float, cut: float) -> None:
    draws, kept = gibbs_sweeps.gamma_above(shape, np.full((1, 1), rate), cut, (1, 40_000), np.random.default_rng(5))
    whole = stats.gamma(shape, scale=1 / rate)
    assert kept.sum() > 2000
    assert stats.kstest(draws[kept], lambda x: 1 - whole.sf(x) / whole.sf(cut)).pvalue > 1e-3


@pytest.mark.parametrize(("shape", "rate", "cut"), [(43.0, 12.0, 0.25), (43.0, 200.0, 0.25), (20.0, 0.5, 0.25)])
def test_a_gamma_cut_from_above_has_its_law(shape: float, rate: float, cut: float) -> None:
    draws, kept = gibbs_sweeps.gamma_below(shape, np.full((1, 1), rate), cut, (1, 40_000), np.random.default_rng(6))
    whole = stats.gamma(shape, scale=1 / rate)
    assert kept.sum() > 2000
    assert stats.kstest(draws[kept], lambda x: np.exp(whole.logcdf(x) - whole.logcdf(cut))).pvalue > 1e-3


def test_the_scales_of_the_noise_are_inverse_gaussian() -> None:
    draws = gibbs_sweeps.inverse_gaussian(np.full(40_000, 0.3), 0.25, np.random.default_rng(7))
    assert stats.kstest(draws, stats.invgauss(0.3 / 0.25, scale=0.25).cdf).pvalue > 1e-3
    far = gibbs_sweeps.inverse_gaussian(np.full(1000, 1e11), 0.01, np.random.default_rng(8))
    assert (np.isfinite(far) & (far > 0)).all()  # a sum that equals its release to the last bit


def test_the_first_accepted_of_every_row_is_returned() -> None:
    seen: list[Any] = []

    def propose(pending: Any, block: int) -> Any:
        number = np.arange(sum(seen), sum(seen) + block)
        seen.append(block)
        return number >= 7 * pending[:, None], (np.broadcast_to(number, (pending.size, block)).astype(float),)

    (found,), left = gibbs_sweeps.first_accepted(propose, 3, 100)
    np.testing.assert_array_equal(found, [0, 7, 14])
    assert left.size == 0
    seen.clear()
    (found,), left = gibbs_sweeps.first_accepted(propose, 3, 10)
    np.testing.assert_array_equal(found[:2], [0, 7])
    np.testing.assert_array_equal(left, [2])
    assert sum(seen) == 10


# the sampler


def test_draws_under_constraints_are_feasible() -> None:
    """A prior that would have sigma2 near 2 is kept at most 1/4."""
    wide = reg.RegressionLaw((0.5, 0.0), ((9.0, 0.0), (0.0, 9.0)), 10.0, 20.0)
    for region in ("weak", "tight"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = reg.gibbs(RELEASE, wide, region=region, draws=40, burn=5, chains=8, rng=1)  # type: ignore[arg-type]
        posterior = tree["posterior"].dataset
        assert float(posterior.sigma2.max()) <= 0.25
        assert float(posterior.sigma2.max()) > 0.2
        theta = np.stack([posterior.intercept, posterior.slope], axis=-1)
        assert np.asarray(reg.feasible_coefficients(theta, region)).all()  # type: ignore[arg-type]
        assert np.asarray(reg.feasible_sums(posterior.sums.values, 46)).all()


@pytest.mark.parametrize("constrained", [True, False])
def test_with_next_to_no_noise_the_posterior_is_that_of_the_records(constrained: bool) -> None:
    """Closed form: theta is a t law, sigma2 inverse gamma; the constraints are far from these records."""
    x, y = records(n=46)
    release = reg.RegressionRelease.of(x, y, 1e5, rng=2)
    found = reg.gibbs(release, SKEWED, constrained, draws=50, burn=5, chains=64, rng=3)["posterior"].dataset
    law = reg.nonprivate_posterior(x, y, SKEWED)
    spread = np.sqrt(law.b0 / law.a0 * np.diag(np.linalg.inv(np.asarray(law.Lambda0))))
    for name, centre, scale in zip(("intercept", "slope"), law.mean, spread, strict=True):
        exact = stats.t(2.0 * law.a0, centre, scale)
        assert stats.kstest(found[name].values.ravel(), exact.cdf).pvalue > 1e-3
    assert stats.kstest(found.sigma2.values.ravel(), stats.invgamma(law.a0, scale=law.b0).cdf).pvalue > 1e-3
    together = np.corrcoef(found.intercept.values.ravel(), found.slope.values.ravel())[0, 1]
    inverse = np.linalg.inv(np.asarray(law.Lambda0))
    assert together == pytest.approx(inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1]), abs=0.03)


def simulated(release: reg.RegressionRelease, law: reg.RegressionLaw, constrained: bool, count: int) -> Any:
    """Mean and sd of (intercept, slope, sigma2) by records drawn from the model, x uniform, weighted by the noise."""
    rng, n = np.random.default_rng(11), int(release.n)
    v = stats.invgamma(law.a0, scale=law.b0).rvs(count, random_state=rng)
    root = np.linalg.cholesky(np.linalg.inv(np.asarray(law.Lambda0)))
    theta = law.mean + np.sqrt(v)[:, None] * (rng.normal(size=(count, 2)) @ root.T)
    x = rng.random((count, n))
    y = theta[:, :1] + theta[:, 1:] * x + np.sqrt(v)[:, None] * rng.normal(size=(count, n))
    sums = np.stack([x.sum(1), (x * x).sum(1), y.sum(1), (x * y).sum(1), (y * y).sum(1)], 1)
    log = -release.epsilon * np.abs(sums - release.noisy_sums[1:]).sum(1)
    if constrained:
        sx, _, sy, sxy, syy = sums.T
        start, end = theta[:, 0], theta.sum(1)
        kept = (v <= 0.25) & (np.maximum(start, end) >= 0.0) & (np.minimum(start, end) <= 1.0)
        kept &= (sy >= 0.0) & (sy <= n) & (syy <= sy) & (sxy >= 0.0) & (sxy <= np.minimum(sx, sy))
        log = np.where(kept, log, -np.inf)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    values = np.column_stack([theta, v])
    mean = weight @ values
    return mean, np.sqrt(weight @ (values - mean) ** 2), 1.0 / (weight**2).sum()


@pytest.mark.filterwarnings("ignore:The draws are unreliable")  # many short chains: R-hat asks for long ones
@pytest.mark.parametrize("constrained", [True, False])
def test_at_ordinary_noise_the_sampler_agrees_with_weighted_records(constrained: bool) -> None:
    """Nothing is shared: no law of the sums, no conditional, no moments but those of the uniform law, which are known.

    The sampler takes sums for normal given the line; at n = 46 that moves means by some hundredths of an sd.
    """
    n, law = 46, reg.RegressionLaw((0.3, 0.3), ((4.0, 0.0), (0.0, 4.0)), 4.0, 0.1)
    moments = n / np.arange(2.0, 6.0)
    release = reg.RegressionRelease([24.5, 14.0, 21.0, 12.5, 13.0], moments, n=n, epsilon=0.5)
    mean, sd, size = simulated(release, law, constrained, 60_000)
    found = reg.gibbs(release, law, constrained, draws=60, burn=30, chains=160, rng=5)["posterior"].dataset
    error = 4.0 * np.sqrt(1.0 / size + 1.0 / found.attrs["ess"]) + 0.05
    assert error < 0.25
    draws = np.stack([found.intercept, found.slope, found.sigma2], axis=-1).reshape(-1, 3)
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean) / sd, error)
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.12)


@pytest.mark.filterwarnings("ignore:The draws are unreliable")
def test_results_have_labels_and_a_seed_settles_them() -> None:
    short = {"draws": 6, "burn": 2, "chains": 3, "rng": 9}
    tree = reg.gibbs(RELEASE, **short)
    posterior = tree["posterior"].dataset
    assert {name: v.dims for name, v in posterior.data_vars.items()} == {
        "intercept": ("chain", "draw"),
        "slope": ("chain", "draw"),
        "sigma2": ("chain", "draw"),
        "sums": ("chain", "draw", "statistic"),
    }
    assert posterior.statistic.values.tolist() == ["x", "xx", "y", "xy", "yy"]
    assert posterior.sizes == {"chain": 3, "draw": 6, "statistic": 5}
    assert posterior.equals(reg.gibbs(RELEASE, **short)["posterior"].dataset)
    assert not posterior.equals(reg.gibbs(RELEASE, **{**short, "rng": 10})["posterior"].dataset)
    assert reg.gibbs(RELEASE, constrained=False, **short, published=True)["posterior"].sizes["statistic"] == 6
    alone = reg.gibbs(RELEASE, draws=20, burn=0, chains=1, rng=1)["posterior"].dataset
    assert np.isinf(alone.attrs["r_hat"])


@pytest.mark.filterwarnings("ignore:The draws are unreliable")
def test_results_are_in_the_units_of_the_data() -> None:
    x_bounds, y_bounds = (2.0, 5.0), (-1.0, 9.0)
    theirs = reg.RegressionRelease(RELEASE.sums, RELEASE.moments, 46, 0.5, True, x_bounds, y_bounds)
    short = {"draws": 6, "burn": 2, "chains": 2, "rng": 9}
    unit = reg.gibbs(RELEASE, SKEWED.on_unit(x_bounds, y_bounds), **short)["posterior"].dataset
    found = reg.gibbs(theirs, SKEWED, **short)["posterior"].dataset
    np.testing.assert_allclose(found.slope, unit.slope * 10 / 3, rtol=1e-9)
    np.testing.assert_allclose(found.intercept + 3.5 * found.slope, -1 + 10 * (unit.intercept + 0.5 * unit.slope))
    np.testing.assert_allclose(found.sigma2, 100 * unit.sigma2)
    np.testing.assert_allclose(found.sums, unit.sums)


def test_too_few_draws_are_called_unreliable() -> None:
    with pytest.warns(UserWarning, match="The draws are unreliable .intercept: effective size"):
        reg.gibbs(RELEASE, draws=10, burn=0, chains=2, rng=1)


def test_a_flag_in_place_of_the_prior_is_refused() -> None:
    with pytest.raises(TypeError, match=r"prior must be a RegressionLaw or None, got False.*constrained=False"):
        reg.gibbs(RELEASE, False)  # type: ignore[arg-type]


def test_the_published_sampler_that_cannot_move_says_which_constraint_stops_it() -> None:
    with pytest.raises(reg.SamplerStuck, match=r"no feasible sums in 5000 tries, most often for want of 0 <= Sy <= n"):
        reg.gibbs(IMPOSSIBLE, chains=2, rng=1, max_tries=5000, published=True)
    with pytest.raises(reg.SamplerStuck, match="no coefficients in 200 tries, for want of an intercept and a slope"):
        reg.gibbs(RELEASE, ELSEWHERE, rng=1, max_tries=200, published=True)
    assert issubclass(reg.SamplerStuck, RuntimeError)


# constraints and release


def test_a_line_is_feasible_where_it_meets_the_unit_square() -> None:
    theta = np.random.default_rng(3).uniform(-2, 2, (4000, 2))
    height = theta[:, :1] + theta[:, 1:] * np.linspace(0, 1, 2001)
    inside = (height >= 0) & (height <= 1)
    crosses = (height.min(1) <= 1) & (height.max(1) >= 0)
    np.testing.assert_array_equal(reg.feasible_coefficients(theta), crosses)
    np.testing.assert_array_equal(reg.feasible_coefficients(theta, "tight"), inside.all(1))
    a, b = theta.T  # as section 12 writes it
    up, down = (b > 0) & (-b <= a) & (a <= 1), (b < 0) & (a >= 0) & (a <= 1 - b)
    np.testing.assert_array_equal(reg.feasible_coefficients(theta), up | down)


def test_sums_of_data_are_feasible_and_each_constraint_is_looked_at() -> None:
    rng = np.random.default_rng(4)
    data = rng.beta(0.5, 0.5, (2, 500, 8))
    assert np.asarray(reg.feasible_sums(reg.statistics(*data).sums, 8)).all()
    good = np.array([4.0, 2.5, 5.0, 3.0, 4.0])
    assert reg.feasible_sums(good, 8)
    wrong = {
        0: [(0, 8.5)],
        1: [(1, -0.1), (1, 4.1)],
        2: [(2, -1.0), (2, 8.1)],
        3: [(4, 5.5)],
        4: [(3, -0.2), (3, 4.5)],
        5: [(1, 1.9)],
    }
    for place, changes in wrong.items():
        for i, value in changes:
            bad = good.copy()
            bad[i] = value
            assert not reg.feasible_sums(bad, 8)
            assert not sufficient_statistics.satisfied_constraints(bad, 8.0)[place]


def test_a_release_adds_laplace_noise_to_every_query() -> None:
    x, y = records()
    exact = reg.statistics(x, y)
    release = reg.RegressionRelease.of(x, y, 0.1, rng=5)
    assert (release.queries, release.n) == (9, 30)
    assert release.total_epsilon == pytest.approx(0.9)
    noise = np.concatenate([release.noisy_sums - exact.sums, release.noisy_moments - exact.moments])
    assert noise[0] == noise[6] == 0.0
    drawn = np.random.default_rng(5).laplace(0.0, 10.0, 9)
    np.testing.assert_allclose(noise[[1, 2, 3, 4, 5, 7, 8, 9, 10]], drawn, atol=1e-12)
    noised = reg.RegressionRelease.of(x, y, 0.1, rng=5, n_known=False)
    assert noised.total_epsilon == pytest.approx(1.1)
    assert noised.noisy_sums[0] != 30.0
    scaled = reg.RegressionRelease.of(10 * x + 5, 3 * y, 0.1, 5, x_bounds=(5, 15), y_bounds=(0, 3))
    np.testing.assert_allclose(scaled.noisy_sums, release.noisy_sums, rtol=1e-12)
    assert [len(v) for v in release.observed.values()] == [5, 4]


BAD: dict[str, Any] = {
    r"x must lie in \[0, 1\], got 1.5": lambda: reg.statistics([0.1, 1.5], [0.1, 0.2]),
    r"y must lie in \[0, 1\], got -0.1": lambda: reg.statistics([0.1, 0.5], [-0.1, 0.2]),
    "as many of both": lambda: reg.statistics([0.1, 0.5], [0.1, 0.2, 0.3]),
    "rank-deficient": lambda: reg.statistics([0.5, 0.5], [0.1, 0.2]),
    "sums must be 6 numbers, or 5": lambda: reg.RegressionRelease([1, 2, 3], [1, 2, 3, 4], 46, 0.1),
    "moments must be 5 numbers, or 4": lambda: reg.RegressionRelease([1, 2, 3, 4, 5], [1, 2, 3], 46, 0.1),
    "moments must be 5 numbers, got": lambda: reg.RegressionRelease(np.ones(6), np.ones(4), 46, 0.1, n_known=False),
    "sums must be finite": lambda: reg.RegressionRelease([1, 2, 3, 4, np.inf], [1, 2, 3, 4], 46, 0.1),
    "n must be at least 2": lambda: reg.RegressionRelease([1, 2, 3, 4, 5], [1, 2, 3, 4], 1, 0.1),
    "epsilon must be positive": lambda: reg.RegressionRelease([1, 2, 3, 4, 5], [1, 2, 3, 4], 46, 0.0),
    "x_bounds must be two finite": lambda: reg.RegressionRelease(
        [1, 2, 3, 4, 5], [1, 2, 3, 4], 46, 1.0, x_bounds=(1, 0)
    ),
    r"y must lie within y_bounds=\(0.0, 1.0\), got 7": lambda: reg.RegressionRelease.of([0, 1.0], [0, 7.0], 1.0),
    "m must be five numbers": lambda: reg.project_moments([1.0, 0.5]),
    "the first moment must be 1": lambda: reg.project_moments([46.0, 12, 5, 3, 2]),
    "mixed must be in": lambda: reg.project_moments([1.0, 0.5, 0.3, 0.2, 0.2], mixed=2.0),
    'region must be "weak" or "tight"': lambda: reg.feasible_coefficients([0.1, 0.2], "loose"),  # type: ignore[arg-type]
    r"theta must be \(intercept, slope\)": lambda: reg.feasible_coefficients([0.1, 0.2, 0.3]),
    "sums must be": lambda: reg.feasible_sums([1.0, 2.0], 10),
    "Lambda0 must be positive definite": lambda: reg.RegressionLaw(Lambda0=((1, 2), (2, 1))),
    "Lambda0 must be a symmetric": lambda: reg.RegressionLaw(Lambda0=((1, 0), (0.5, 1))),
    "mu0 must be two finite": lambda: reg.RegressionLaw(mu0=(1.0, np.inf)),
    "b0 must be positive": lambda: reg.RegressionLaw(b0=0.0),
    "a0 must be above 1": lambda: reg.gibbs(RELEASE, reg.RegressionLaw(a0=0.5)),
    "draws must be at least 1": lambda: reg.gibbs(RELEASE, draws=0),
    "max_tries must be at least 1": lambda: reg.gibbs(RELEASE, max_tries=0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BAD[message]()
