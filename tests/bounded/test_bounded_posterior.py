"""The posterior by quadrature: laws, a slow twin's numbers, samplers and models at extremes, and what is refused."""

from __future__ import annotations

import math
import sys
from typing import Any

import arviz as az
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import adversary as adv
from adversary.bounded import BoundedRelease, NormalInverseGamma, gibbs, is_proper, posterior
from adversary.bounded.prior import IMPROPER
from tests.oracles.bounded import Oracle, Setting

pytestmark = pytest.mark.filterwarnings("ignore:the released:UserWarning")
"""Some releases contradict the bounds, or themselves, by more than noise does: on purpose."""

INFORMATIVE = NormalInverseGamma(0.2, 2.0, 3.0, 0.1)

LEAD = (43, (0.25, 0.25), 0.343026826, 0.2224800114)
PRIOR = (0.125, 1.0, 1.0, 0.038)
TWIN: list[tuple[Any, ...]] = [
    # n, budgets, mean, variance; prior, constrained; E mu, sd mu, E sigma2 of tests/oracles/bounded.py
    (*LEAD, PRIOR, True, 0.2253957, 0.1111391, 0.0336641),
    (*LEAD, PRIOR, False, 0.2280887, 0.1195964, 0.0572115),
    (*LEAD, None, True, 0.3853392, 0.1102781, 0.1406856),
    (100, (0.1, 0.1), 0.1, 0.0016, None, True, 0.1802841, 0.1107798, 0.0485648),
    (6, (1.59981, 0.0743454), 0.978069, 0.0783108, None, True, 0.7744337, 0.1439835, 0.0700980),
    (2, (0.3, 0.3), 0.4, 0.05, (0.3, 2, 3, 0.15), True, 0.3206445, 0.1132163, 0.0343929),
    # values at the ends alone: the variance is the largest that the mean allows, or cannot be so large
    (160996, (0.2911823, 30.1985249), 0.7240087998, 0.1998200576, None, True, 0.7234778215, 9.871313e-4, 0.1993683007),
    (172564, (0.1370477, 43.9751654), 0.8104420572, 0.1741935875, None, True, 0.7747517632, 8.438657e-4, 0.1738581262),
]


@pytest.mark.parametrize("row", TWIN, ids=str)
def test_moments_are_those_of_the_slow_twin(row: tuple[Any, ...]) -> None:
    n, budgets, mean, variance, prior, constrained, *expected = row
    belief = "flat" if prior is None else NormalInverseGamma(*prior)
    found = posterior(BoundedRelease(mean, variance, n=n, epsilon=budgets), belief, constrained)
    assert found.mean("mu") == pytest.approx(expected[0], abs=3e-4 * expected[1])
    assert found.sd("mu") == pytest.approx(expected[1], rel=3e-4)
    assert found.mean("sigma2") == pytest.approx(expected[2], rel=2e-4)


def variance_without_bounds(released: float, scale: float, n: int) -> tuple[float, float]:
    """Mean and sd of sigma2 under a flat prior, by a grid and points of the chi-squared law."""
    law = stats.gamma(0.5 * (n - 1), scale=2.0 / (n - 1))
    points, weights = np.polynomial.legendre.leggauss(400)
    low, high = law.ppf(1e-14), law.isf(1e-14)
    share = 0.5 * (high - low) * points + 0.5 * (high + low)
    weights = 0.5 * (high - low) * weights * law.pdf(share)
    v = np.concatenate([np.geomspace(1e-9, 1e-4, 400), np.linspace(1e-4, 0.25, 20_000)[1:]])
    density = np.exp(-np.abs(released - v[:, None] * share) / scale) @ weights
    mass, first, second = (np.trapezoid(v**k * density, v) for k in range(3))
    return first / mass, math.sqrt(second / mass - (first / mass) ** 2)


@pytest.mark.parametrize("constrained", [True, False])
def test_the_corner_of_the_noise_on_the_variance_is_met(constrained: bool) -> None:
    """Among many records it is sharp: panels that run over it are off by a thousandth of sd and do not notice."""
    found = posterior(BoundedRelease(0.5038446723, 0.0236291483, n=1000, epsilon=(0.1, 0.1)), "flat", constrained)
    mean, sd = variance_without_bounds(0.0236291483, 0.01, 1000)
    assert found.mean("sigma2") == pytest.approx(mean, abs=1e-4 * sd)
    assert found.sd("sigma2") == pytest.approx(sd, rel=1e-4)


def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for quantity in ("population", "data"):
        found = posterior(BoundedRelease(0.3, 0.05, n=30, epsilon=(0.3, 0.3)), quantity=quantity)
        assert np.isfinite([found.mean("mu"), *found.hdi("sigma")]).all()


def test_feasible_masses_beyond_the_region_do_not_count() -> None:
    """There the normalised density grows without end: a grid that follows it leaves the posterior."""
    release = BoundedRelease(0.40755326, 0.05301111, n=68, epsilon=(1.00430874, 1.60423972))
    found, event = posterior(release, feasibility="normalised"), posterior(release)
    assert found.mean("mu") == pytest.approx(event.mean("mu"), abs=1e-3)
    assert found.mean("sigma2") == pytest.approx(event.mean("sigma2"), rel=1e-2)


def test_mirrored_releases_have_mirrored_posteriors() -> None:
    one = posterior(BoundedRelease(0.2, 0.05, n=20, epsilon=(0.3, 0.4)))
    other = posterior(BoundedRelease(0.8, 0.05, n=20, epsilon=(0.3, 0.4)))
    assert one.mean("mu") == pytest.approx(1.0 - other.mean("mu"), abs=1e-7)
    assert one.hdi("sigma") == pytest.approx(other.hdi("sigma"), abs=1e-6)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)


def test_units_change_nothing() -> None:
    """Theorem 13: rescaling to [0, 25] and back."""
    unit = posterior(BoundedRelease(0.4, 0.03, n=30, epsilon=(0.3, 0.3)), INFORMATIVE)
    wide = posterior(
        BoundedRelease(-5.0 + 25.0 * 0.4, 625.0 * 0.03, n=30, epsilon=(0.3, 0.3), bounds=(-5, 20)),
        NormalInverseGamma(-5.0 + 25.0 * 0.2, 2.0, 3.0, 2.5),
    )
    assert wide.mean("mu") == pytest.approx(-5.0 + 25.0 * unit.mean("mu"), rel=1e-9)
    assert wide.hdi("sigma") == pytest.approx(25.0 * unit.hdi("sigma"), rel=1e-7)
    assert wide.density("mu", 5.0) == pytest.approx(unit.density("mu", 0.4) / 25.0, rel=1e-7)
    assert wide.log_evidence == pytest.approx(unit.log_evidence - 3.0 * math.log(25.0), abs=1e-8)


def test_flat_posterior_without_bounds_is_symmetric_about_the_release() -> None:
    found = posterior(BoundedRelease(0.3, 0.1, n=43, epsilon=(0.25, 0.25)), constrained=False)
    assert found.mean("mu") == pytest.approx(0.3, abs=1e-6)
    variance = 2.0 / (0.25 * 43) ** 2 + found.mean("sigma2") / 43
    assert found.sd("mu") ** 2 == pytest.approx(variance, rel=1e-4)
    assert found.cdf("mu", 0.3) == pytest.approx(0.5, abs=1e-6)


def test_bounds_hardly_matter_once_there_is_much_data() -> None:
    release = BoundedRelease(0.4, 0.04, n=20_000, epsilon=(1.0, 1.0))
    one, other = posterior(release), posterior(release, constrained=False)
    assert one.hdi("mu") == pytest.approx(other.hdi("mu"), abs=1e-6)
    assert one.hdi("sigma") == pytest.approx(other.hdi("sigma"), abs=1e-6)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("name", ["mu", "sigma2", "sigma"])
def test_intervals_hold_what_they_say(name: str, constrained: bool) -> None:
    found = posterior(BoundedRelease(0.25, 0.02, n=25, epsilon=(0.5, 0.4)), INFORMATIVE, constrained)
    for prob in (0.5, 0.95):
        low, high = found.hdi(name, prob)
        assert found.cdf(name, high) - found.cdf(name, low) == pytest.approx(prob, abs=1e-5)
        bottom, _ = found.eti(name, prob)
        assert found.cdf(name, bottom) == pytest.approx((1 - prob) / 2, abs=1e-6)
        below = np.linspace(0.0, 1.0 - prob, 201)
        lengths = found.quantile(name, below + prob) - found.quantile(name, below)
        assert high - low <= np.nanmin(lengths) * (1.0 + 1e-4)
    low, high = found.hdi(name, 0.5)
    assert found.density(name, low) == pytest.approx(found.density(name, high), rel=1e-3)
    assert found.regions(name, 0.5) == [pytest.approx((low, high), abs=1e-9)]
    grid = np.linspace(*found.quantile(name, [1e-6, 1 - 1e-6]), 4001)
    assert np.trapezoid(found.density(name, grid), grid) == pytest.approx(1.0, abs=1e-3)


INCOMES = BoundedRelease(31240.5, 2.1e8, n=500, epsilon=(0.5, 0.5), bounds=(0, 150_000))
LEAD_RELEASE = BoundedRelease(34.3026826, 2224.800114, n=43, epsilon=(0.25, 0.25), bounds=(0, 100))


@pytest.mark.parametrize(
    ("release", "constrained", "shortest"),
    [
        (INCOMES, False, (6247.8, 22390.6)),  # by the slow twin, as all of these; the roots of sigma2's: 0 and 20,674
        (INCOMES, True, (6247.7, 22390.4)),
        (LEAD_RELEASE, False, (20.1025, 78.0528)),
        (LEAD_RELEASE, True, (17.2292, 49.8468)),
    ],
)
def test_the_shortest_interval_of_a_deviation_is_that_of_its_own_density(
    release: BoundedRelease, constrained: bool, shortest: tuple[float, float]
) -> None:
    found = posterior(release, "flat", constrained)
    length = shortest[1] - shortest[0]
    assert found.hdi("sigma") == pytest.approx(shortest, abs=1e-4 * length)
    low, high = np.sqrt(found.hdi("sigma2"))
    assert high - low > 1.02 * length


def test_a_deviation_has_the_interval_and_the_mode_of_the_slow_twin() -> None:
    found = posterior(INCOMES, "flat", False)
    cap = float(found.max_variance) / INCOMES.width**2
    twin = Oracle(Setting.of(INCOMES, None, constrained=False, cap=cap))
    ends = np.array(twin.regions("sigma")) * INCOMES.width
    assert found.hdi("sigma") == pytest.approx(ends[0], rel=1e-4)
    v, density, _ = twin.variance_grid
    assert found.mode("sigma") == pytest.approx(np.sqrt(v[np.argmax(density * np.sqrt(v))]) * INCOMES.width, rel=1e-3)


@pytest.mark.slow
def test_many_releases_are_many_posteriors() -> None:
    means, variances = np.array([0.1, 0.5, 0.9, -0.2]), np.array([0.02, 0.1, 0.3, -0.05])
    many = posterior(BoundedRelease(means, variances, n=12, epsilon=(0.4, 0.4)))
    assert many.hdi("mu").shape == (4, 2)
    for i in range(4):
        one = posterior(BoundedRelease(means[i], variances[i], n=12, epsilon=(0.4, 0.4)))
        assert many.mean("mu")[i] == pytest.approx(one.mean("mu"), rel=1e-12)
        assert many.hdi("sigma")[i] == pytest.approx(one.hdi("sigma"), rel=1e-12)
        assert many.predictive().mean[i] == pytest.approx(one.predictive().mean, rel=1e-12)


def test_many_priors_are_many_posteriors() -> None:
    release = BoundedRelease(0.4, 0.05, n=12, epsilon=(0.4, 0.4))
    many = posterior(release, NormalInverseGamma(np.array([0.2, 0.6]), 2.0, 3.0, 0.1))
    assert many.mean("mu")[1] == posterior(release, NormalInverseGamma(0.6, 2.0, 3.0, 0.1)).mean("mu")
    grid = posterior(
        BoundedRelease(np.full((3, 1), 0.4), 0.05, n=12, epsilon=(0.4, 0.4)), NormalInverseGamma([0.2, 0.6], 2, 3, 0.1)
    )
    assert grid.mean("mu").shape == (3, 2)


def test_results_do_not_depend_on_how_many_are_solved_at_once() -> None:
    rng = np.random.default_rng(3)
    mean, variance = rng.uniform(0, 1, 6), rng.uniform(0, 0.3, 6)
    many = posterior(BoundedRelease(mean, variance, n=9, epsilon=(0.5, 0.5))).mean("sigma")
    part = posterior(BoundedRelease(mean[4:], variance[4:], n=9, epsilon=(0.5, 0.5))).mean("sigma")
    np.testing.assert_array_equal(many[4:], part)


@pytest.mark.parametrize("constrained", [True, False])
def test_a_log_density_of_ones_own_is_a_prior(constrained: bool) -> None:
    release = BoundedRelease(0.4, 0.05, n=20, epsilon=(0.4, 0.4))
    own = posterior(release, INFORMATIVE.log_prob, constrained, cap=1.0)
    known = posterior(release, INFORMATIVE, constrained, cap=1.0)
    assert own.mean("mu") == pytest.approx(known.mean("mu"), abs=1e-4)
    assert own.sd("mu") == pytest.approx(known.sd("mu"), rel=1e-3)
    assert own.mean("sigma2") == pytest.approx(known.mean("sigma2"), rel=2e-3)


@pytest.mark.parametrize("missing", ["mean", "variance"])
def test_one_statistic_alone_is_enough(missing: str) -> None:
    """A statistic released with hardly any budget is as good as none."""
    given = {"mean": (None, 0.05, (None, 0.4)), "variance": (0.4, None, (0.4, None))}[missing]
    weak = {"mean": (0.5, 0.05, (1e-5, 0.4)), "variance": (0.4, 0.1, (0.4, 1e-5))}[missing]
    alone = posterior(BoundedRelease(given[0], given[1], n=20, epsilon=given[2]), INFORMATIVE)
    nearly = posterior(BoundedRelease(weak[0], weak[1], n=20, epsilon=weak[2]), INFORMATIVE)
    assert alone.mean("mu") == pytest.approx(nearly.mean("mu"), abs=2e-4)
    assert alone.mean("sigma2") == pytest.approx(nearly.mean("sigma2"), rel=2e-3)


def test_gaussian_noise_with_much_budget_leaves_the_statistics() -> None:
    found = posterior(BoundedRelease(0.4, 0.04, n=50, rho=(1e6, 1e6)), constrained=False)
    assert found.mean("mu") == pytest.approx(0.4, abs=1e-3 * found.sd("mu"))
    assert found.sd("mu") ** 2 == pytest.approx(found.mean("sigma2") / 50, rel=1e-3)
    assert found.mean("sigma2") == pytest.approx(0.04 * 49 / 45, rel=1e-3)  # IG((n-3)/2, (n-1) s2 / 2)


def test_draws_open_in_arviz_and_agree_with_the_numbers() -> None:
    found = posterior(BoundedRelease(0.4, 0.05, n=20, epsilon=(0.4, 0.4)))
    drawn = found.sample(20_000, rng=7)
    table = az.summary(drawn, kind="stats")
    assert list(table.index) == ["mu", "sigma2", "sigma"]
    mu = drawn["posterior"]["mu"].values
    assert mu.mean() == pytest.approx(found.mean("mu"), abs=5 * found.sd("mu") / np.sqrt(mu.size) + 1e-3)
    assert (drawn["posterior"]["sigma2"].values <= (mu * (1 - mu)) + 1e-12).all()
    xr.testing.assert_equal(drawn["posterior"].to_dataset(), found.sample(20_000, rng=7)["posterior"].to_dataset())


def test_labelled_arrays_survive_a_file(tmp_path: Any) -> None:
    tree = posterior(BoundedRelease(0.4, 0.05, n=20, epsilon=(0.4, 0.4))).to_xarray()
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as read:
        assert float(read["summary"]["mu"].sel(measure="mean")) == float(tree["summary"]["mu"].sel(measure="mean"))
        density = read["density"]["mu"]
        assert float(density.integrate("mu_grid")) == pytest.approx(1.0, abs=1e-3)


SETTINGS = 20


def setting(i: int) -> tuple[BoundedRelease, Any, bool]:
    """Random settings, extreme ones included; every fourth is one."""
    rng = np.random.default_rng([6, i])
    n = int([3, 100_000, 3, 40, 100_000][i % 5] if i % 4 == 0 else rng.choice([5, 10, 43, 100, 1000]))
    epsilon = tuple(10.0 ** rng.uniform(-2.0, 1.0, 2)) if i % 4 else (0.01, 10.0)
    mean, variance = rng.uniform(-0.3, 1.3), rng.uniform(-0.1, 0.4)
    constrained = i % 3 > 0
    prior = "flat" if i % 2 and (constrained or n > 5) else NormalInverseGamma(0.3, 2.0, 3.0, 0.15)
    return BoundedRelease(mean, variance, n=n, epsilon=epsilon), prior, constrained


@pytest.mark.slow_cases("0")
@pytest.mark.parametrize("i", range(SETTINGS))
@pytest.mark.filterwarnings("ignore:The draws are unreliable")
def test_quadrature_and_the_corrected_sampler_agree(i: int) -> None:
    release, prior, constrained = setting(i)
    cap = None if constrained else 5.0
    found = posterior(release, prior, constrained, cap=cap)
    drawn = gibbs(release, prior, constrained, draws=4_000, burn=1_000, chains=4, thin=20, rng=i, cap=5.0)["posterior"]
    assert found.quadrature_error < 6e-3
    for name in ("mu", "sigma2"):
        values = drawn[name].values
        size = float(np.asarray(az.ess(values)))
        if size < 100:  # a chain that hardly moves says nothing
            continue
        error = values.std() / np.sqrt(size)
        assert found.mean(name) == pytest.approx(values.mean(), abs=5.0 * error + 1e-4 * values.std()), name
        assert found.sd(name) == pytest.approx(values.std(), rel=8.0 / np.sqrt(size) + 0.02), name


@pytest.mark.slow_cases("0")
@pytest.mark.parametrize("i", range(SETTINGS))
def test_two_quadratures_of_the_likelihood_agree(i: int) -> None:
    """The one behind `posterior` and that of the PyMC model, which halves panels until they agree."""
    from adversary.bounded.grid import log_likelihood
    from adversary.models.summaries.compiled.feasible_densities import log_feasible

    release, prior, _ = setting(i)
    found = posterior(release, prior)
    n, (scale1, scale2) = int(release.size), (float(x) for x in release.unit_scales)
    mean, variance = float(release.unit_mean), float(release.unit_variance)
    mu, v = found.quantile("mu", [0.1, 0.5, 0.9]), found.quantile("sigma2", [0.1, 0.5, 0.9])
    logs = log_likelihood(found.grid_input.seen[0], mu[:, None], v, constrained=True)
    other = np.array([[log_feasible(n, m, x, 1 / scale1, 1 / scale2, mean, variance)[0] for x in v] for m in mu])
    other -= math.log(2.0 * scale1) + math.log(2.0 * scale2)
    np.testing.assert_allclose(logs, other, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 2}, "n >= 3.*Theorem 18"),
        ({"n": 3, "constrained": False}, "improper posterior.*Theorem 18"),
        ({"prior": "jeffreys"}, "improper posterior.*Theorem 17"),
        ({"prior": lambda mu, v: -np.log(v)}, "improper posterior.*Theorem 17"),
        ({"prior": "normal"}, "prior must be"),
        ({"epsilon": (0.0, 1.0)}, "epsilon of the mean must be positive"),
        ({"epsilon": (1.0, -1.0)}, "epsilon of the variance must be positive"),
        ({"bounds": (1, 0)}, "a < b"),
        ({"n": 2.5}, "n must be a whole number"),
        ({"n": 1}, "n must be at least 2"),
        ({"mean": math.inf}, "mean must be finite"),
        ({"mean": None, "epsilon": (None, 0.3), "constrained": False}, "nothing limits mu"),
        ({"variance": None, "epsilon": (0.3, None), "constrained": False}, "nothing limits sigma2"),
        ({"feasibility": "always"}, "feasibility must be one of"),
        ({"feasibility": "normalised", "constrained": False}, "needs constrained=True"),
        ({"cap": -1.0}, "cap must be positive"),
    ],
)
def test_what_has_no_posterior_is_refused_with_the_reason(arguments: dict[str, Any], message: str) -> None:
    given = {"mean": 0.4, "variance": 0.05, "n": 20, "epsilon": (0.3, 0.3), "bounds": (0, 1)} | arguments
    how = {name: given.pop(name) for name in ("prior", "constrained", "feasibility", "cap") if name in given}
    with pytest.raises(ValueError, match=message):
        posterior(BoundedRelease(**given), **how)


@pytest.mark.parametrize("name", ["kappa0", "nu0", "s0"])
def test_a_prior_worth_nothing_is_refused(name: str) -> None:
    numbers = {"mu0": 0.3, "kappa0": 1.0, "nu0": 1.0, "s0": 0.1} | {name: 0.0}
    with pytest.raises(ValueError, match="improper posterior"):
        NormalInverseGamma(**numbers)


def test_a_prior_near_the_improper_one_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="Theorem 17"):
        NormalInverseGamma(0.3, 1.0, 0.05, 0.1)


def test_forgotten_bounds_are_noticed() -> None:
    with pytest.warns(UserWarning, match="did you forget bounds"):
        BoundedRelease(34.3, 2224.8, n=43, epsilon=(0.25, 0.25))


def test_shares_must_be_shares() -> None:
    found = posterior(BoundedRelease(0.4, 0.05, n=20, epsilon=(0.3, 0.3)))
    for prob in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="prob must be strictly between 0 and 1"):
            found.hdi("mu", prob)
    with pytest.raises(ValueError, match="name must be one of mu, sigma2, sigma"):
        found.mean("sigma3")


def test_noise_may_carry_a_release_anywhere() -> None:
    found = posterior(BoundedRelease(np.array([-0.4, 1.5, 0.5]), np.array([-0.1, 0.6, 0.9]), n=30, epsilon=(0.2, 0.2)))
    assert ((found.mean("mu") > 0) & (found.mean("mu") < 1) & (found.mean("sigma2") < 0.25)).all()


def test_propriety_can_be_asked_for() -> None:
    few = BoundedRelease(0.4, 0.05, n=3, epsilon=(0.3, 0.3))
    assert is_proper(few, adv.bounded.Flat())
    assert not is_proper(few, adv.bounded.Flat(), constrained=False)
    assert "Theorem 17" in IMPROPER
