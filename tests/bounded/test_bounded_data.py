"""The analyst's model of bounded data: its density against plain quadrature, its gradient, draws and answers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, logsumexp
from scipy.stats import invgamma, norm

from adversary import models
from adversary.bounded.bounded_release import BoundedRelease
from adversary.models.enumeration.batched_graphs import NUMPY_MODE
from adversary.models.importance import PriorPredictive
from adversary.models.summaries.bounded_data import LEAST_MASS, DataStatistics, bounded, released_statistics
from adversary.models.summaries.density_operations import gamma_laplace, log_gammainc, normal_laplace
from tests.papers.test_bounded_inference import MOMENTS, PRIORS
from tests.papers.test_bounded_inference import RELEASE as LEAD

Floats = NDArray[np.float64]

INFORMATIVE = PRIORS["informative"]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def log_sum(log_density: Any, edges: Floats) -> float:
    """Log integral of the exponential of a function between sorted edges, 40 nodes in each gap."""
    half = np.diff(edges) / 2
    x = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    keep = half > 0
    return float(logsumexp(log_density(x[keep]) + np.log(half[keep, None] * WEIGHTS)))


def log_z(u: float, n: float, v: float, rate: float, tau: float) -> float:
    """Log of the gamma law of S2 with its Laplace noise, up to u: every scale has its own edges."""
    a, b = (n - 1) / 2, (n - 1) / 2 / v
    peak = max(a - 1, 0.1)
    places = np.array([peak / (b + rate), v, max(tau, 0.0) or v, peak / max(b - rate, b / 50)])
    near = places[:, None] * (1 + np.linspace(-12, 12, 49) / np.sqrt(a))
    steps = np.geomspace(1e-3, 60, 30) / rate
    edges = [[0, u, tau], near.ravel(), np.geomspace(1e-9, 1, 60) * u, tau - steps, tau + steps]
    edges += [u - np.geomspace(1e-8, 1, 40) * u]
    constant = a * np.log(b) - gammaln(a) + np.log(rate / 2)
    return log_sum(
        lambda x: constant + (a - 1) * np.log(x) - b * x - rate * np.abs(tau - x),
        np.unique(np.clip(np.concatenate(edges), 0, u)),
    )


def log_feasible(n: float, mu: float, v: float, l1: float, l2: float, mean: float, variance: float) -> float:
    """Log of the integral over the sample mean, by narrowing a grid to where it matters and cutting that in 40."""
    s = np.sqrt(v / n)

    def one(y: float) -> float:
        noise = np.log(l1 / 2) - l1 * abs(mean - y)
        return float(norm.logpdf(y, mu, s) + noise + log_z(n / (n - 1) * y * (1 - y), n, v, l2, variance))

    def many(y: Floats) -> Floats:
        return np.reshape([one(float(t)) for t in y.ravel()], y.shape)

    ends = np.geomspace(1e-12, 0.5, 40)
    grid = np.concatenate([ends, 1 - ends, mu + s * np.linspace(-9, 9, 41), [mean]])
    for _ in range(3):
        grid = np.unique(np.clip(grid, 1e-13, 1 - 1e-13))
        value = many(grid)
        near = np.flatnonzero(value > value.max() - 38)
        low, high = grid[max(near[0] - 1, 0)], grid[min(near[-1] + 1, len(grid) - 1)]
        grid = np.append(np.linspace(low, high, 41), np.clip(mean, low, high))
    edges = np.unique(np.clip(np.concatenate([grid, ends, 1 - ends]), low, high))  # Z is a power of y or 1 - y there
    half = np.diff(edges) / 2
    x, w = np.polynomial.legendre.leggauss(8)
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * x
    return float(logsumexp(many(nodes) + np.log(half[:, None] * w)))


@pytest.fixture(scope="module")
def feasible() -> Any:
    """(n, mu, sigma2, rates, noisy mean, noisy variance) to the log density and its derivatives in mu and sigma2."""
    inputs = pt.dvectors(*"nmvabys")
    n, mu, v, a, b, y, s = inputs
    value = DataStatistics(n, mu, v, a, b).log_feasible(y, s)
    outputs = [value, *pt.grad(value.sum(), [mu, v])]
    function = pytensor.function(inputs, outputs, mode=NUMPY_MODE)
    return lambda *x: np.squeeze(function(*map(np.atleast_1d, x)))


EXTREMES = [
    (43, 0.3, 0.1, 10.75, 10.75, 0.343, 0.2225),
    (3, 0.9, 0.05, 0.03, 30.0, 1.2, -0.05),
    (3, 0.5, 0.2, 30.0, 0.03, 0.48, 20.0),
    (4, 0.99, 0.0013, 33.0, 8.4, 1.008, 0.19),
    (100, 0.001, 0.0008, 34.0, 34.0, -0.1, 0.3),
    (1000, 0.77, 0.05, 10.0, 3000.0, 0.785, 0.0509),
    (1e5, 0.87, 0.089, 7.85e5, 1.6e4, 0.8715, 0.08977),
    (1e5, 0.01, 0.0098, 1000.0, 1000.0, -0.005, 0.02),
    (1e5, 0.3, 0.1, 1e6, 1e6, 0.301, 0.1005),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", EXTREMES)
def test_the_integral_over_the_sample_mean_is_right(feasible: Any, setting: Any) -> None:
    value, *slopes = feasible(*setting)
    assert value == pytest.approx(log_feasible(*setting), abs=2e-8)
    n, mu, v, *rest = setting
    for i, slope in enumerate(slopes):
        step = 1e-5 * min(mu * (1 - mu), v, np.sqrt(v / n), v / np.sqrt(n))
        up, down = (feasible(n, mu + sign * step * (i == 0), v + sign * step * (i == 1), *rest)[0] for sign in (1, -1))
        assert slope == pytest.approx((up - down) / (2 * step), rel=2e-3, abs=2e-5 * max(1.0, 1e-9 / step))


@pytest.mark.slow
def test_density_and_gradient_are_finite_over_the_whole_region(feasible: Any) -> None:
    for n in (2.0, 3.0, 43.0, 1e5):
        for epsilon in (0.01, 10.0):
            for mu in (1e-6, 0.02, 0.5, 0.999):
                for share in (1e-7, 0.3, 1 - 1e-9):
                    for mean, variance in ((0.4, 0.2), (-0.5, -0.3), (1.3, 0.9)):
                        found = feasible(n, mu, share * mu * (1 - mu), epsilon * n, epsilon * n, mean, variance)
                        assert np.isfinite(found).all(), (n, epsilon, mu, share, mean, variance)


def evaluated(graph: Any) -> Floats:
    return np.asarray(pytensor.function([], graph, mode=NUMPY_MODE)())


def test_closed_forms_have_the_reference_values() -> None:
    """BI2, BI3, BI4, BI6 (nothing is above its u) and BI7."""
    graphs = [
        normal_laplace(0.343, 0.3, 0.04 / 43, 10.75),
        normal_laplace(-0.1, 0.5, 0.004, 12.5),
        gamma_laplace(0.2225, 21, 0.04, 10.75),
        gamma_laplace(-0.05, 24.5, 0.02, 12.5),
        gamma_laplace(0.05, 4.5, 0.2, 30),
    ]
    found = np.exp([evaluated(graph) for graph in graphs])
    expected = [3.444013005, 0.004724854386, 0.7590762764, 2.608690478, 1.353444034]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


SLOPED = [
    (normal_laplace, (0, 1, 2), [(0.3, 0.31, 1e-4, 5.0), (-0.2, 0.9, 1e-3, 400.0), (0.9, 0.3, 0.1, 1e-3)]),
    (gamma_laplace, (0, 2), [(0.2, 21.0, 0.1, 10.0), (-0.1, 0.5, 0.1, 50.0), (0.3, 5e4, 0.2999, 1e4)]),
    (gamma_laplace, (0, 2), [(0.1, 3.0, 0.2, 1e4), (0.2, 0.5, 50.0, 10.0), (5.0, 21.0, 0.1, 10.0)]),
    (log_gammainc, (1,), [(0.5, 0.3), (0.5, 30.0), (21.0, 0.01), (5e4, 4.99e4), (5e4, 5.01e4)]),
]


@pytest.mark.parametrize(("law", "places", "settings"), SLOPED)
def test_slopes_are_those_of_the_value(law: Any, places: tuple[int, ...], settings: list[tuple[float, ...]]) -> None:
    inputs = [pt.dvector() for _ in settings[0]]
    value = law(*inputs)
    function = pytensor.function(inputs, [value, *pt.grad(value.sum(), [inputs[i] for i in places])], mode=NUMPY_MODE)
    points = np.transpose(settings)
    for i, slope in zip(places, function(*points)[1:], strict=True):
        step = np.zeros_like(points)
        step[i] = 1e-6 * np.abs(points[i])
        rise = function(*(points + step))[0] - function(*(points - step))[0]
        np.testing.assert_allclose(slope, rise / (2 * step[i]), rtol=1e-5, atol=1e-3)


def test_the_log_of_an_incomplete_gamma_survives_underflow() -> None:
    a = np.repeat([0.5, 1.0, 5.0, 100.0, 5e4], 6)
    z = a * np.tile([1e-4, 0.1, 0.8, 1.0, 1.3, 50.0], 5)
    log_p = evaluated(log_gammainc(pt.constant(a), pt.constant(z)))
    common = gammainc(a, z) > 1e-280
    np.testing.assert_allclose(log_p[common], np.log(gammainc(a, z)[common]), rtol=1e-9, atol=1e-14)
    edges = np.concatenate([[0.0], np.geomspace(1e-12, 1e3, 200)])
    assert not common.all()
    for i in np.flatnonzero(~common):
        below = log_sum(lambda r, i=i: -a[i] * r - z[i] * np.expm1(-r), edges / np.sqrt(a[i]))
        assert log_p[i] == pytest.approx(a[i] * np.log(z[i]) - z[i] - gammaln(a[i]) + below, rel=1e-11)


def test_the_mass_of_feasible_statistics() -> None:
    """BI13; and the least mass that a normalised model draws with."""
    inputs = pt.dscalars("n", "mu", "v")
    mass = pytensor.function(inputs, pt.exp(DataStatistics(*inputs).log_mass()), mode=NUMPY_MODE)
    assert mass(10.0, 0.1, 0.05) == pytest.approx(0.75876, abs=1e-4)
    assert mass(43.0, 0.3, 0.2) == pytest.approx(0.60356, abs=1e-4)
    for n in (2.0, 3.0, 10.0, 1e3, 1e5):
        for mu in (1e-7, 1e-4, 0.01, 0.2, 0.5, 0.9):
            for share in (1e-4, 0.5, 0.9, 1 - 1e-9):
                assert LEAST_MASS < mass(n, mu, share * mu * (1 - mu)) <= 1 + 1e-9


def density(model: pm.Model, release: BoundedRelease) -> Any:
    """Log density of an observed model as a function of what its sampler moves."""
    given = pm.observe(model, released_statistics(release))
    return given.compile_logp(mode=NUMPY_MODE), given.compile_dlogp(mode=NUMPY_MODE), given


@pytest.mark.slow
def test_the_unconstrained_informative_density_is_prior_times_closed_forms() -> None:
    logp, slope, given = density(bounded(LEAD, INFORMATIVE, constrained=False), LEAD)
    names = [value.name for value in given.value_vars]
    top, scale, kept = 42 / (2 * 43 * 0.25), 0.5 * 0.038**2, []
    for q in (-12.0, -7.0, -4.0, -1.0):
        for z in (-3.0, 0.0, 2.0):
            point = dict(zip(names, (np.array(q), np.array(z)), strict=True))
            root = math.sqrt(scale / top) + math.log1p(math.exp(-q))
            v = scale / root**2
            prior_sd, noise_sd = math.sqrt(v), math.sqrt(2 / 10.75**2 + v / 43)
            sd = prior_sd * noise_sd / math.hypot(prior_sd, noise_sd)
            weight = noise_sd**2 / (prior_sd**2 + noise_sd**2)
            mu = weight * 0.125 + (1 - weight) * LEAD.unit_mean + sd * z
            d, s = LEAD.unit_mean - mu, math.sqrt(v / 43)
            sides = [norm.logcdf(x / s - 10.75 * s) - 10.75 * x for x in (d, -d)]
            expected = logsumexp(sides) + 10.75**2 * v / 86 + log_z(60 * v + 1, 43, v, 10.75, 0.2224800114)
            expected += norm.logpdf(mu, 0.125, prior_sd) + invgamma.logpdf(v, 0.5, scale=scale)
            kept.append(logp(point) - expected - math.log(2 * scale / root**3 / (1 + math.exp(q))) - math.log(sd))
            assert np.isfinite(slope(point)).all()
    np.testing.assert_allclose(kept, kept[0], atol=1e-8)


@pytest.mark.slow
def test_draws_are_worlds_in_which_the_statistics_were_feasible() -> None:
    """Flat, n = 10: kept draws have the law of the event, so E mu = 1/2 by symmetry and all moments agree with it."""
    release = BoundedRelease(0.3, 0.1, n=10, epsilon=(0.5, 0.5))
    model = bounded(release)
    rng = np.random.default_rng(11)
    worlds, accepted = PriorPredictive.of(model, ["mu", "sigma2", "noisy[mean]", "noisy[variance]"]).draw(2000, rng)
    mu = rng.beta(2, 2, 100_000)
    v = rng.random(mu.size) * mu * (1 - mu)
    mean, variance = rng.normal(mu, np.sqrt(v / 10)), rng.gamma(4.5, v / 4.5)
    kept = (mean > 0) & (mean < 1) & (variance < 10 / 9 * mean * (1 - mean))
    assert accepted == pytest.approx(kept.mean(), abs=0.03)
    noise = rng.laplace(0, 0.2, (2, mu.size))
    told = {"mu": mu, "sigma2": v, "noisy[mean]": mean + noise[0], "noisy[variance]": variance + noise[1]}
    for name, expected in told.items():
        error = expected[kept].std() / np.sqrt(2000)
        assert abs(worlds[name].mean() - expected[kept].mean()) < 5 * error, name


def test_a_grid_of_the_constrained_density_finds_the_exact_answers(feasible: Any) -> None:
    x, w = np.polynomial.legendre.leggauss(60)
    mu, share = np.meshgrid((1 + x) / 2, (1 + x) / 2, indexing="ij")
    v = share * mu * (1 - mu)
    told = (LEAD.unit_mean, LEAD.unit_variance)
    settings = np.broadcast_arrays(43.0, mu.ravel(), v.ravel(), 10.75, 10.75, *told)
    mass = np.exp(feasible(*settings)[0]).reshape(mu.shape) * np.outer(w, w) * mu * (1 - mu)
    found = [(mass * value).sum() / mass.sum() for value in (100 * mu, 1e4 * v)]
    np.testing.assert_allclose(found, MOMENTS["flat", True][::2], rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("form", "prior", "seeds"), [("marginal", "informative", (2, 6, 8)), ("joint", "flat", (6,))])
def test_nuts_finds_the_exact_answers_of_the_worked_example(form: str, prior: str, seeds: tuple[int, ...]) -> None:
    """Constrained; the marginal form without a single divergence, whatever the seed."""
    import arviz as az
    import nutpie  # type: ignore[import-untyped]

    law = INFORMATIVE if prior == "informative" else "flat"
    given = pm.observe(bounded(LEAD, law, True, form), released_statistics(LEAD))
    options = {"draws": 500, "tune": 500, "chains": 4, "cores": 1, "target_accept": 0.9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its compiler
        compiled = nutpie.compile_pymc_model(given)
    for seed in seeds:
        tree = nutpie.sample(compiled, progress_bar=False, seed=seed, **options)
        assert int(tree["sample_stats"]["diverging"].sum()) <= (0 if form == "marginal" else 10)  # of 2000
        for name, expected in zip(("mu", "sigma2"), MOMENTS[prior, True][::2], strict=True):
            draws = tree["posterior"][name].values
            assert az.ess(draws) > 400
            assert abs(draws.mean() - expected) < 5 * draws.std() / math.sqrt(az.ess(draws))


def test_gaussian_noise_and_a_single_statistic_are_left_to_the_forms_that_have_them() -> None:
    gaussian = BoundedRelease(0.3, 0.1, n=10, rho=(0.5, 0.5))
    with pytest.raises(ValueError, match='use form="joint"'):
        bounded(gaussian)
    names = {rv.name for rv in bounded(gaussian, form="joint").free_RVs}
    assert names == {"mu", "sigma2", "place[mean]", "place[variance]", "noisy[mean]", "noisy[variance]"}
    alone = bounded(BoundedRelease(None, 0.1, n=10, epsilon=0.5), form="joint")
    assert "noisy[mean]" not in alone.named_vars
    assert released_statistics(BoundedRelease(None, 0.1, n=10, epsilon=0.5)) == {"noisy[variance]": 0.1}


def test_one_compiled_density_serves_many_releases() -> None:
    given = bounded(LEAD, INFORMATIVE, constrained=False, observed=True)
    logp, point = given.compile_logp(mode=NUMPY_MODE), given.initial_point()
    before = logp(point)
    other = BoundedRelease(20.0, 300.0, n=400, epsilon=(0.5, 0.25), bounds=(0, 100))
    moved = {"n": 400.0, "scale[mean]": 0.5, "released[mean]": 20.0, "released[variance]": 300.0}
    with given:
        pm.set_data({**moved, "scale[variance]": 100.0})
    fresh = pm.observe(bounded(other, INFORMATIVE, constrained=False, cap=1e4 * 42 / 21.5), released_statistics(other))
    assert logp(point) == pytest.approx(fresh.compile_logp(mode=NUMPY_MODE)(point), rel=1e-12)
    assert logp(point) != before
    assert models.bounded is bounded
