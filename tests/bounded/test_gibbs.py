"""The Gibbs sampler of a noisy mean and variance: its draws, its conditionals, and brute force beside it."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import gammaln, log_ndtr

from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import NormalInverseGamma
from adversary.bounded.thesis import chains, statistics_gibbs

Floats = NDArray[np.float64]
DRAWS = 2500
RELEASE = BoundedRelease(0.3430268260, 0.2224800114, n=43, epsilon=(0.25, 0.25))
PRIOR = NormalInverseGamma(0.125, 1.0, 1.0, 0.038)
SHORT: dict[str, Any] = {"draws": 2000, "burn": 200, "chains": 2, "rng": 7}

SHORT_RUN = pytest.mark.filterwarnings("ignore:The draws are unreliable")


def uniform(u: Floats) -> bool:
    """Kolmogorov's statistic, which a true uniform sample exceeds once in 1,500 times."""
    return bool(stats.kstest(u, "uniform").statistic < 2.0 / np.sqrt(u.size))


@pytest.mark.parametrize(
    ("centre", "sd", "low", "high"),
    [
        (0.0, 1.0, -np.inf, np.inf),
        (0.3, 0.2, 0.0, 1.0),
        (0.3, 2.0, 0.0, 1.0),
        (-0.1, 0.5, 0.0, 1.0),
        (0.0, 1.0, 0.5, np.inf),
        (0.0, 1.0, 30.0, np.inf),
        (1.6, 0.02, 0.0, 1.0),
        (-0.6, 0.02, 0.0, 1.0),
        (0.0, 1.0, 30.0, 30.01),
        (0.0, 1.0, -3.0, -0.1),
    ],
)
def test_truncated_normal_draws_follow_their_law(centre: float, sd: float, low: float, high: float) -> None:
    rng = np.random.default_rng(11)
    x = np.array([chains.truncated_normal(centre, sd, low, high, rng) for _ in range(DRAWS)])
    assert ((x >= low) & (x <= high)).all()
    a, b, z = (low - centre) / sd, (high - centre) / sd, (x - centre) / sd
    if a > 0.0:  # the upper tail is the lower one of the mirror image
        a, b, z = -b, -a, -z
    log_mass = log_ndtr(b) + np.log(-np.expm1(log_ndtr(a) - log_ndtr(b)))
    assert uniform(np.exp(log_ndtr(z) - log_mass) - np.exp(log_ndtr(a) - log_mass))


def tilted_cdf(x: Floats, alpha: float, beta: float, rate: float, tau: float, low: float, high: float) -> Floats:
    """Distribution function of the tilted gamma law, by trapezoids on log x."""
    wide = np.linspace(np.log(max(low, 1e-30)), np.log(min(high, 1e12)), 100_001)

    def height(t: Floats) -> Floats:
        return np.asarray(alpha * t - beta * np.exp(t) - rate * np.abs(np.exp(t) - tau))

    kept = wide[height(wide) > height(wide).max() - 45.0]
    t = np.union1d(np.linspace(kept[0], kept[-1], 100_001), np.clip(np.log(max(tau, 1e-30)), kept[0], kept[-1]))
    mass = integrate.cumulative_trapezoid(np.exp(height(t) - height(t).max()), t, initial=0.0)
    return np.asarray(np.interp(np.log(x), t, mass / mass[-1]))


@pytest.mark.parametrize(
    ("alpha", "beta", "rate", "tau", "low", "high"),
    [
        (2.0, 2.0, 1.0, 1.0, 0.0, np.inf),  # Figure 4.6
        (21.0, 525.0, 10.75, 0.2225, 0.0, np.inf),
        (21.0, 525.0, 10.75, 0.2225, 0.0, 0.02),
        (4.5, 22.5, 30.0, 0.05, 0.0, np.inf),  # beta < rate
        (4.5, 22.5, 30.0, 0.9, 0.0, 0.27),
        (4.5, 22.5, 22.5, 0.9, 0.0, np.inf),  # beta = rate
        (1.0, 5.0, 5.0, 0.7, 0.0, np.inf),
        (1.0, 5.0, 2.0, 0.7, 0.0, np.inf),
        (0.5, 2.0, 1.0, 0.3, 0.0, 0.5),  # n = 2: log-concave in log x only
        (0.5, 2.0, 1.0, -0.3, 0.0, np.inf),
        (4.5, 22.5, 5.0, -0.5, 0.0, np.inf),
        (50.0, 500.0, 4000.0, 0.3, 0.0, np.inf),  # noise far sharper than the sample
    ],
)
def test_tilted_gamma_draws_follow_their_law(
    alpha: float, beta: float, rate: float, tau: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(12)
    x = np.array([chains.tilted_gamma(alpha, beta, rate, tau, low, high, rng) for _ in range(DRAWS)])
    assert ((x >= low) & (x <= high)).all()
    assert uniform(tilted_cdf(x, alpha, beta, rate, tau, low, high))


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 20.0, 500.0, 5e4])
@pytest.mark.parametrize("deviations", [-30.0, -1.0, 0.0, 3.0, 30.0])
def test_truncated_gamma_draws_follow_scipy(shape: float, deviations: float) -> None:
    """Above the cut for cuts above the mean, below it for the others, so that the law is always a tail."""
    rng, law = np.random.default_rng(13), stats.gamma(shape, scale=0.01)
    cut = law.mean() * np.exp(deviations / np.sqrt(shape)) if deviations < 0.0 else law.mean() + deviations * law.std()
    low, high = (cut, np.inf) if deviations >= 0.0 else (0.0, cut)
    x = np.array([chains.tilted_gamma(shape, 100.0, 0.0, 0.0, low, high, rng) for _ in range(DRAWS // 2)])
    assert uniform(law.sf(x) / law.sf(cut) if deviations >= 0.0 else law.cdf(x) / law.cdf(cut))


def test_gamma_draws_above_a_cut_exist_for_shapes_that_are_not_positive() -> None:
    """sigma2 of two values with a flat prior: shape 0, proper only because sigma2 is bounded."""
    rng = np.random.default_rng(14)
    for shape, low in [(0.0, 4.0), (0.0, 1e-6), (-0.5, 4.0)]:
        x = np.array([chains.tilted_gamma(shape, 0.7, 0.0, 0.0, low, np.inf, rng) for _ in range(DRAWS)])
        assert uniform(tilted_cdf(x, shape, 0.7, 0.0, 0.0, low, np.inf))


@pytest.mark.parametrize(("mean", "shape"), [(1.0, 3.0), (50.0, 2.0), (0.02, 100.0)])
def test_inverse_gaussian_draws_follow_scipy(mean: float, shape: float) -> None:
    rng = np.random.default_rng(15)
    x = np.array([chains.inverse_gaussian(mean, shape, rng) for _ in range(DRAWS)])
    assert uniform(stats.invgauss(mean / shape, scale=shape).cdf(x))


def test_inverse_gaussian_draws_stay_positive_where_the_usual_formula_cancels() -> None:
    rng = np.random.default_rng(16)
    x = np.array([chains.inverse_gaussian(1e14, 100.0, rng) for _ in range(DRAWS)])
    assert (x > 0.0).all()
    assert uniform(stats.levy(scale=100.0).cdf(x))  # its limit as the mean grows


def log_joint(
    mu: Floats, sigma2: Floats, ybar: Floats, s2: Floats, precision: Floats, release: BoundedRelease, prior: Any
) -> Floats:
    """Log density of everything on [0, 1] and the release, written from the model: no conditional enters."""
    n, (first, second) = int(release.size), release.unit_scales
    sampling = stats.norm.logpdf(ybar, mu, np.sqrt(sigma2 / n))
    alpha, beta = (n - 1) / 2, (n - 1) / (2 * sigma2)
    sampling = sampling + alpha * np.log(beta) - gammaln(alpha) + (alpha - 1) * np.log(s2) - beta * s2
    noise = stats.norm.logpdf(release.unit_mean, ybar, precision**-0.5) - 1 / (2 * first**2 * precision)
    noise = noise - 2 * np.log(precision) - np.abs(release.unit_variance - s2) / second
    return np.asarray(sampling + noise + (0.0 if prior == "flat" else prior.log_prob(mu, sigma2)))


def log_conditionals(
    point: dict[str, Any], values: Floats, release: BoundedRelease, prior: Any, *, printed: bool = False
) -> dict[str, Floats]:
    """Log densities, up to constants, of each variable at `values` given the others, as the sampler draws them."""
    problem = statistics_gibbs.chain_input(release, prior, True, published=printed)
    n, (ystar, sstar, rate1, rate2), (mu0, kappa0, *_) = problem.n, problem.release, problem.prior
    mu, sigma2, ybar, s2, precision = (point[name] for name in ("mu", "sigma2", "ybar", "s2", "precision"))
    centre, variance = chains.mean_conditional(ybar, sigma2, n, mu0, kappa0)
    shape, scale = chains.variance_conditional(mu, ybar, s2, n, problem.prior)
    middle, spread = chains.sample_mean_conditional(mu, sigma2, precision, n, ystar)
    alpha, beta = chains.sample_variance_conditional(sigma2, n)
    mean, lam = chains.precision_conditional(ybar, ystar, rate1)
    return {
        "mu": stats.norm.logpdf(values, centre, variance**0.5),
        "sigma2": stats.invgamma.logpdf(values, shape, scale=scale),
        "ybar": stats.norm.logpdf(values, middle, spread**0.5),
        "s2": (alpha - 1) * np.log(values) - beta * values - rate2 * np.abs(values - sstar),
        "precision": stats.invgauss.logpdf(1e3 * values, mean / lam, scale=lam),
    }


def spread(name: str, point: dict[str, Any], prior: Any, *, printed: bool = False) -> float:
    """Range, over values of one variable, of log(joint / conditional): 0 for a true full conditional."""
    values = np.array([0.01, 0.03, 0.05, 0.1, 0.2])
    moved = {**point, name: 1e3 * values if name == "precision" else values}
    ratio = log_joint(**moved, release=RELEASE, prior=prior)
    return float(np.ptp(ratio - log_conditionals(point, values, RELEASE, prior, printed=printed)[name]))


def random_points(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(17)
    names = ("mu", "sigma2", "ybar", "s2", "precision")
    return [dict(zip(names, rng.uniform(0.02, 0.24, 5) * (1, 1, 1, 1, 1000), strict=True)) for _ in range(count)]


@pytest.mark.parametrize(
    "prior", ["flat", PRIOR, NormalInverseGamma(0.4, 5.0, 12.0, 0.2)], ids=["flat", "weak", "firm"]
)
@pytest.mark.parametrize("name", ["mu", "sigma2", "ybar", "s2", "precision"])
def test_every_conditional_is_the_joint_up_to_a_constant(name: str, prior: Any) -> None:
    assert max(spread(name, point, prior) for point in random_points(5)) < 1e-9


def test_the_printed_conditional_of_sigma2_is_not_that_of_the_joint() -> None:
    point = random_points(1)[0]
    assert spread("sigma2", point, PRIOR, printed=True) > 0.1
    assert spread("sigma2", point, "flat", printed=True) < 1e-9


def brute_force(release: BoundedRelease, prior: Any, size: int = 400_000) -> dict[str, tuple[float, float]]:
    """Mean and standard error of mu and sigma2, constrained: draws of the model weighted by the noise's density."""
    rng, n = np.random.default_rng(18), int(release.size)
    mu = rng.beta(2.0, 2.0, size)
    sigma2 = rng.random(size) * mu * (1 - mu)
    ybar, s2 = rng.normal(mu, np.sqrt(sigma2 / n)), sigma2 * rng.chisquare(n - 1, size) / (n - 1)
    first, second = release.unit_scales
    log_weight = -np.abs(release.unit_mean - ybar) / first - np.abs(release.unit_variance - s2) / second
    log_weight += 0.0 if prior == "flat" else prior.log_prob(mu, sigma2)
    weight = np.exp(log_weight - log_weight.max()) * (s2 <= n / (n - 1) * ybar * (1 - ybar))
    return weighted(weight, mu, sigma2)


def weighted(weight: Floats, mu: Floats, sigma2: Floats) -> dict[str, tuple[float, float]]:
    def answer(x: Floats) -> tuple[float, float]:
        mean = float(weight @ x / weight.sum())
        return mean, float(np.sqrt((weight**2) @ (x - mean) ** 2) / weight.sum())

    return {"mu": answer(mu), "sigma2": answer(sigma2)}


def agrees(tree: xr.DataTree, name: str, mean: float, error: float = 0.0) -> bool:
    """Whether a posterior mean is within five standard errors of a number that has one too."""
    draws = tree["posterior"][name]
    mcse = float(draws.std()) / np.sqrt(draws.attrs["ess"])
    return abs(float(draws.mean()) - mean) < 5.0 * np.hypot(mcse, error)


@pytest.mark.parametrize(
    ("release", "prior", "cap"),
    [
        (BoundedRelease(0.2, 0.05, 10, (0.5, 0.5)), "flat", None),
        (BoundedRelease(0.2, 0.05, 10, (0.5, 0.5)), NormalInverseGamma(0.4, 2.0, 6.0, 0.2), None),
        (BoundedRelease(-0.3, 0.4, 5, (0.5, 0.5)), "flat", None),
        (BoundedRelease(0.7, -0.1, 3, (0.5, 1.0)), "flat", None),
        (BoundedRelease(0.3, 0.2, 2, (1.0, 0.9)), NormalInverseGamma(0.4, 2.0, 6.0, 0.2), None),
        (BoundedRelease(0.3, 0.08, 10, (1.0, 3.0)), "flat", np.inf),
    ],
    ids=["flat", "informative", "outside", "three values", "two values", "large epsilon"],
)
def test_constrained_draws_agree_with_brute_force(release: BoundedRelease, prior: Any, cap: float | None) -> None:
    tree = statistics_gibbs.gibbs(release, prior, draws=5000, burn=1000, chains=2, rng=3, cap=cap)
    for name, (mean, error) in brute_force(release, prior).items():
        assert agrees(tree, name, mean, error), name


def test_flat_unconstrained_moments_of_mu_are_those_in_closed_form() -> None:
    release = BoundedRelease(0.343, 0.06, 43, (0.25, 0.25))
    tree = statistics_gibbs.gibbs(release, constrained=False, draws=10_000, chains=2, rng=4)
    draws = tree["posterior"].to_dataset()
    assert agrees(tree, "mu", 0.343)
    closed = 2.0 * float(release.unit_scales[0]) ** 2 + float(draws["sigma2"].mean()) / 43
    assert float(draws["mu"].var()) == pytest.approx(closed, rel=0.1)


def test_draws_depend_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    both = statistics_gibbs.gibbs(RELEASE, **SHORT)["posterior"]
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    alone = statistics_gibbs.gibbs(RELEASE, **SHORT)["posterior"]
    more = statistics_gibbs.gibbs(RELEASE, **{**SHORT, "chains": 3})["posterior"]
    other = statistics_gibbs.gibbs(RELEASE, **{**SHORT, "rng": 8})["posterior"]
    assert (both["mu"] == alone["mu"]).all()
    assert (both["mu"].values == more["mu"].values[:2]).all()
    assert not (both["mu"] == other["mu"]).any()
    assert not (both["mu"][0].values == both["mu"][1].values).any()


@SHORT_RUN
def test_draws_return_to_the_units_of_the_data() -> None:
    wide = BoundedRelease(10 + 25 * RELEASE.unit_mean, 625 * RELEASE.unit_variance, 43, (0.25, 0.25), (10, 35))
    prior = NormalInverseGamma(10 + 25 * 0.125, 1.0, 1.0, 25 * 0.038)
    here, there = (statistics_gibbs.gibbs(r, p, **SHORT)["posterior"] for r, p in ((RELEASE, PRIOR), (wide, prior)))
    for name, low, factor in [("mu", 10, 25), ("sigma2", 0, 625), ("sample_mean", 10, 25), ("sample_variance", 0, 625)]:
        np.testing.assert_allclose(there[name], low + factor * here[name], rtol=1e-6)


def test_constrained_draws_are_feasible_and_capped() -> None:
    draws = statistics_gibbs.gibbs(BoundedRelease(-0.4, 0.5, 20, (0.2, 0.2)), cap=0.1, **SHORT)["posterior"]
    assert (draws["sigma2"] <= np.minimum(draws["mu"] * (1 - draws["mu"]), 0.1) * (1 + 1e-12)).all()
    top = 20 / 19 * draws["sample_mean"] * (1 - draws["sample_mean"])
    assert (draws["sample_variance"] <= top * (1 + 1e-12)).all()
    free = statistics_gibbs.gibbs(RELEASE, constrained=False, **SHORT)["posterior"]
    assert 1.0 < free["sigma2"].max() <= 42 / (2 * 43 * 0.25)


def test_the_result_opens_in_arviz() -> None:
    tree = statistics_gibbs.gibbs(RELEASE, **SHORT)
    draws = tree["posterior"]
    assert set(draws.data_vars) == {"mu", "sigma2", "sample_mean", "sample_variance"}
    assert draws["mu"].dims == ("chain", "draw")
    assert draws.sizes == {"chain": 2, "draw": 2000}
    row = az.summary(tree, round_to="none").loc["mu"]
    assert row["ess_bulk"] == pytest.approx(draws["mu"].attrs["ess"])
    assert row["r_hat"] == pytest.approx(draws["mu"].attrs["r_hat"])


@SHORT_RUN
def test_printed_conditionals_coincide_for_a_flat_prior_only() -> None:
    for prior, same in (("flat", True), (PRIOR, False)):
        with_e1 = statistics_gibbs.gibbs(RELEASE, prior, published=True, **SHORT)["posterior"]
        without = statistics_gibbs.gibbs(RELEASE, prior, **SHORT)["posterior"]
        assert bool((with_e1["mu"] == without["mu"]).all()) is same
    assert "E1" in with_e1.attrs["sampler"]


def test_too_few_draws_are_called_unreliable() -> None:
    with pytest.warns(UserWarning, match="The draws are unreliable.*size must reach 400") as caught:
        statistics_gibbs.gibbs(RELEASE, PRIOR, draws=200, thin=1, rng=1)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="R-hat inf"):
        statistics_gibbs.gibbs(RELEASE, draws=3, rng=1)


@pytest.mark.parametrize(
    ("release", "options", "match"),
    [
        (BoundedRelease(0.3, 0.1, 43, rho=(0.1, 0.1)), {}, "adv.bounded.posterior"),
        (BoundedRelease(None, 0.1, 43, 0.1), {}, "mean=None.*adv.bounded.posterior"),
        (BoundedRelease([0.3, 0.4], 0.1, 43, (0.1, 0.1)), {}, r"one release, got shape \(2,\)"),
        (RELEASE, {"prior": "jeffreys"}, "improper"),
        (BoundedRelease(0.3, 0.1, 3, (0.1, 0.1)), {"constrained": False}, "Theorem 18.*n = 3"),
        (BoundedRelease(0.3, 0.1, 10, (0.1, 1.8)), {}, r"below 2 \(n - 1\) / n = 1.8.*quadrature.*cap="),
        (BoundedRelease(0.3, 0.1, 2, (0.1, 1.5)), {"cap": 1.0, "prior": PRIOR}, "cap must be at most"),
        (BoundedRelease(0.3, 0.1, 2, (0.1, 0.5)), {}, "a flat prior needs n >= 3, got n = 2"),
    ],
)
def test_what_the_sampler_cannot_answer_is_refused(
    release: BoundedRelease, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        statistics_gibbs.gibbs(release, **options)
