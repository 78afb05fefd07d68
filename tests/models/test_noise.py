"""The noise distributions against plain sums in 40 digits, against the exact engine's mechanisms, and inside PyMC."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from pymc.pytensorf import compile as compile_random
from pytensor.tensor.random.variable import shared_rng

from adversary.adversaries.postprocessing import clamped, suppressed
from adversary.models import noise
from adversary.models.enumeration.batched_graphs import NUMPY_MODE
from adversary.models.stories.belief_laws import Tabulated
from adversary.privacy import mechanisms
from tests.catalogue import CELL_KEY, RHO2, SCORES

LATTICE: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, float, float], Any], list[float]]] = {
    "discrete gaussian": (
        lambda mu, scale: noise.DiscreteGaussian.dist(mu, scale),
        lambda k, mu, s2: mpmath.exp(-((mpmath.mpf(k) - mpmath.mpf(mu)) ** 2) / (2 * mpmath.mpf(s2))),
        [0.005, 0.159, 0.16, 1.0, 25.1, 99.0, 101.0],
    ),
    "geometric": (
        lambda mu, scale: noise.Geometric.dist(mu, scale),
        lambda k, mu, eps: mpmath.exp(-mpmath.mpf(eps) * abs(mpmath.mpf(k) - mpmath.mpf(mu))),
        [0.1, 1.0, 5.0],
    ),
}


def sum_law(mechanism: mechanisms.Mechanism, count: int, value: float = 3, **size: Any) -> Any:
    """A value plus so many noises, as a variable of no model."""
    with pm.Model():
        return noise.law(mechanism, value, count)("sum", **size)


SUMS: dict[str, mechanisms.Mechanism] = {
    **{f"discrete gaussian {rho}": mechanisms.DiscreteGaussian.from_rho(rho) for rho in (0.05, 0.15, RHO2, 1.0, 5.0)},
    **{f"geometric {eps}": mechanisms.Geometric(eps) for eps in (0.5, 3.0)},
}


def compiled(dist: Any, *parameters: Any) -> Callable[..., Any]:
    """logp, logcdf and logccdf, a function of values and of parameters left open."""
    value = pt.dvector()
    graphs = [pm.logp(dist, value), pm.logcdf(dist, value), pm.logprob.logccdf(dist, value)]
    return pytensor.function([value, *parameters], graphs, mode=NUMPY_MODE)  # type: ignore[no-any-return]


def evaluated(dist: Any, values: Any) -> list[Any]:
    """logp, logcdf and logccdf at float values."""
    return list(compiled(dist)(np.asarray(values, dtype=np.float64)))


@cache
def at_any_parameters(name: str) -> Callable[..., Any]:
    """A lattice law, compiled once for every centre and scale."""
    mu, scale = pt.dscalars("mu", "scale")
    return compiled(LATTICE[name][0](mu, scale), mu, scale)


@pytest.mark.parametrize("mu", [0.0, -2.0, 0.5, 1.49])
@pytest.mark.parametrize("name", LATTICE)
def test_lattice_laws_equal_plain_sums_in_both_tails(name: str, mu: float) -> None:
    _, weight, scales = LATTICE[name]
    for scale in scales:
        width = np.sqrt(scale) if name == "discrete gaussian" else 1 / scale
        ks = np.unique(np.round(mu + np.array([-15, -5, -1, 0, 1, 5, 15]) * max(width, 0.4)))
        reach = int((60 if name == "geometric" else 25) * max(width, 1)) + 5
        grid = [weight(k, mu, scale) for k in range(-reach, reach + 1)]
        total = mpmath.fsum(grid)
        exact = [
            (grid[k + reach], mpmath.fsum(grid[: k + reach + 1]), mpmath.fsum(grid[k + reach + 1 :]))
            for k in ks.astype(int)
        ]
        got = np.transpose(at_any_parameters(name)(ks, mu, scale))
        for row, masses in zip(got, exact, strict=True):
            expected = [float(mpmath.log(m / total)) if m else -np.inf for m in masses]
            assert row[0] == pytest.approx(expected[0], rel=1e-13, abs=1e-13)
            np.testing.assert_allclose(row[1:], expected[1:], rtol=2e-9, atol=2e-9)


def test_no_mass_between_the_integers() -> None:
    value = pt.dscalar()
    for dist in (
        noise.DiscreteGaussian.dist(0, 1.0),
        noise.Geometric.dist(0, 1.0),
        sum_law(mechanisms.DiscreteGaussian.from_rho(1.0), 2, 0),
        sum_law(mechanisms.Geometric(1.0), 2, 0),
    ):
        assert pm.logp(dist, value).eval({value: 0.5}) == -np.inf


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("name", SUMS)
def test_sums_equal_brute_force_convolution(name: str, count: int) -> None:
    mechanism = SUMS[name]
    reach = mechanism.support(0)[-1] * 2 + 20
    single = np.exp(mechanism.log_prob(np.arange(-reach, reach + 1), 0))
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, single)
    ks = np.arange(-12, 13)
    expected = np.log(total[total.size // 2 + ks])
    np.testing.assert_allclose(pm.logp(sum_law(mechanism, count), ks + 3.0).eval(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SUMS)
def test_sums_agree_with_the_exact_engine_far_out(name: str) -> None:
    ks = np.array([-2000, -301, -28, 0, 29, 500, 100_000])
    got = pm.logp(sum_law(SUMS[name], 27), ks + 3.0).eval()
    np.testing.assert_allclose(got, SUMS[name].total(27).log_prob(ks, 0), rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5, 27])
def test_sum_of_laplaces_is_a_density_and_equals_the_exact_engine(count: int) -> None:
    y = np.linspace(-30, 30, 61)
    got = pm.logp(sum_law(mechanisms.Laplace(1.5), count, 0.5), y + 0.5).eval()
    np.testing.assert_allclose(got, mechanisms.Laplace(1.5).total(count).log_prob(y, 0), rtol=1e-12, atol=1e-12)
    fine = np.linspace(-150, 150, 30_001)
    area = np.trapezoid(np.exp(pm.logp(sum_law(mechanisms.Laplace(1.5), count, 0.0), fine).eval()), fine)
    assert area == pytest.approx(1.0, abs=1e-5)


@pytest.mark.slow_cases("<lambda>0")
@pytest.mark.parametrize("base", [lambda: noise.DiscreteGaussian.dist(1, 4.0), lambda: noise.Geometric.dist(1, 0.5)])
def test_truncated_and_censored_versions_are_exact(base: Callable[[], Any]) -> None:
    ks = np.arange(0.0, 5.0)
    logp, _, logsf = evaluated(base(), ks)
    truncated = pm.logp(pm.Truncated.dist(base(), lower=0, upper=4), ks).eval()
    np.testing.assert_allclose(np.exp(truncated), np.exp(logp) / np.exp(logp).sum(), rtol=1e-10)
    censored = pm.logp(pm.Censored.dist(base(), lower=None, upper=4), ks).eval()
    np.testing.assert_allclose(censored, [*logp[:-1], np.logaddexp(logp[-1], logsf[-1])], rtol=1e-10)
    draws = pm.draw(pm.Truncated.dist(base(), lower=0, upper=4, size=500), random_seed=3)
    assert draws.min() >= 0
    assert draws.max() <= 4


def test_discrete_gaussian_has_gradients_in_both_parameters() -> None:
    mu, sigma2 = pt.dscalars("mu", "sigma2")
    logp = pm.logp(noise.DiscreteGaussian.dist(mu, sigma2), np.float64(2))
    function = pytensor.function([mu, sigma2], [logp, *pytensor.grad(logp, [mu, sigma2])], mode=NUMPY_MODE)
    for m, s in [(0.3, 0.05), (1.2, 0.4), (-1.1, 30.0)]:
        _, by_mu, by_sigma2 = function(m, s)
        h = 1e-6
        assert by_mu == pytest.approx((function(m + h, s)[0] - function(m - h, s)[0]) / (2 * h), rel=1e-5)
        assert by_sigma2 == pytest.approx((function(m, s + h)[0] - function(m, s - h)[0]) / (2 * h), rel=1e-5)


MECHANISMS: dict[str, tuple[mechanisms.Mechanism, tuple[int, ...]]] = {
    "discrete gaussian": (mechanisms.DiscreteGaussian(1.5), (0, 1, 3)),
    "discrete gaussian sum": (mechanisms.DiscreteGaussian(0.8).total(3), (1, 2)),
    "geometric": (mechanisms.Geometric(0.7), (0, 1, 3)),
    "geometric sum": (mechanisms.Geometric(0.7).total(2), (1, 2)),
    "gaussian": (mechanisms.Gaussian(1.3), (0, 1, 3)),
    "laplace": (mechanisms.Laplace(1.3), (0, 1, 3)),
    "laplace sum": (mechanisms.Laplace(1.3).total(2), (1, 2)),
    "exact": (mechanisms.Exact(), (0, 1, 4)),
    "randomised response": (mechanisms.RandomizedResponse(1.0, 4), (1,)),
    "unary encoding": (mechanisms.UnaryEncoding(0.75, 0.5, permanent=0.4, reports=2), (1,)),
    "perturbation table, closed": (SCORES, (1,)),
    "laplace on a range": (mechanisms.RangedNoise(mechanisms.Laplace(1.5), 12), (1,)),
    "gaussian on a range": (mechanisms.RangedNoise(mechanisms.Gaussian(1.5), 12, "truncated"), (1,)),
    "clamped": (clamped(mechanisms.Geometric(0.9)), (1,)),
    "random rounding": (mechanisms.RandomRounding(3), (1,)),
    "perturbation table": (CELL_KEY, (1,)),
    "suppressed": (suppressed(mechanisms.Exact(), 2), (1,)),
}


@pytest.mark.parametrize("cells", [None, 2])
@pytest.mark.parametrize("name", MECHANISMS)
def test_released_has_the_law_of_its_mechanism(name: str, cells: int | None) -> None:
    mechanism, counts = MECHANISMS[name]
    most = getattr(mechanism, "categories", 4) - 1
    for count in counts:
        with pm.Model() as model:
            value = pm.DiscreteUniform("value", np.float64(0), np.float64(most), shape=cells)
            noise.released("noisy", mechanism, value, count)
        logp = model.compile_fn(model.logp(vars=[model["noisy"]]))
        total = mechanism.total(count) if count != 1 else mechanism
        for true in (0, min(2, most)):
            for release in (0, 1, 3):
                point = {"value": np.full(cells or (), true), "noisy": np.full(cells or (), release)}
                point["noisy"] = point["noisy"].astype(model["noisy"].dtype)
                expected = (cells or 1) * np.asarray(total.log_prob(release, true)).item()
                assert logp(point) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert model.logp().dtype == "float64"
        drawn = pm.draw(model["noisy"], draws=3, random_seed=1)
        assert drawn.shape == (3, *((cells,) if cells else ()))


def test_released_refuses_what_has_no_law() -> None:
    with pytest.raises(ValueError, match="not additive noise"):
        noise.law(mechanisms.RandomizedResponse(1.0), 0, 2)
    with pytest.raises(ValueError, match="whole number of noises, got -1"):
        noise.law(mechanisms.Geometric(1.0), 0, -1)
    with pytest.raises(TypeError, match="must be a Mechanism, got 3"):
        noise.law(3, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (mechanisms.RandomizedResponse(1.0, 3), 5),
        (mechanisms.RandomRounding(3), -1),
        (mechanisms.UnaryEncoding(0.7, 0.3), 2),
        (mechanisms.PerturbationTable([[0.5, 0.5], [0.5, 0.5]], lowest=-1, closed=True), 2),
    ],
)
def test_a_value_without_releases_is_impossible(mechanism: mechanisms.Mechanism, value: int) -> None:
    with pm.Model() as model:
        true = pm.DiscreteUniform("value", np.float64(-9), np.float64(9))
        noise.released("noisy", mechanism, true)
    assert model.compile_logp()({"value": np.array(value), "noisy": np.array(0)}) == -np.inf


def test_two_invariants_of_one_count_stay_two_variables() -> None:
    with pm.Model() as model:
        value = pm.Bernoulli("value", np.float64(0.5))
        noise.released("a", mechanisms.Exact(), value)
        noise.released("b", mechanisms.Exact(), value)
    point = {"value": np.array(1), "a": np.array(1), "b": np.array(1)}
    assert model.compile_logp()(point) == pytest.approx(np.log(0.5))
    assert model.compile_logp()({**point, "b": np.array(0)}) == -np.inf


ENDS = [(-np.inf, np.inf), (-1.0, 2.0), (0.2, 0.5), (-np.inf, 0.0), (0.5, 1.5), (4.0, np.inf), (-9.0, -8.9)]
"""Truncated about the centre and on either side, in either tail."""


def assert_drawn(draws: Any, law: Any, name: str) -> None:
    """Whole numbers drawn are as often what they are as their law says."""
    values, counts = np.unique(draws, return_counts=True)
    expected = draws.size * np.exp(pm.logp(law, pt.as_tensor(values)[:, None]).eval()[:, 0])
    often = expected >= 5
    rest = [counts[~often].sum(), draws.size - expected[often].sum()]
    errors = (counts[often] - expected[often]) ** 2 / expected[often]
    assert errors.sum() < st.chi2(often.sum()).isf(1e-6), name
    assert abs(rest[0] - rest[1]) < 5 * np.sqrt(rest[1] + 1) + 5, name


@pytest.mark.parametrize("name", SUMS)
def test_draws_of_sums_in_numpy_follow_their_law(name: str) -> None:
    for d in (1, 2, 5, 27):
        draws = compile_random([], sum_law(SUMS[name], d, shape=20_000), mode=NUMPY_MODE, random_seed=d)()
        assert_drawn(draws, sum_law(SUMS[name], d), f"{name}, {d}")


@pytest.mark.parametrize("law", [noise.DiscreteGaussian, noise.Geometric])
def test_draws_about_any_centre_follow_their_law(law: Any) -> None:
    assert_drawn(pm.draw(law.dist(0.3, 0.8, size=40_000), random_seed=2), law.dist(0.3, 0.8), law.__name__)


@pytest.mark.slow
def test_draws_in_numba_have_the_same_laws_and_do_not_fall_back_to_python() -> None:
    """PyTensor warns where they would, and warnings are errors."""
    size = 20_000
    laws = {
        "narrow": noise.DiscreteGaussian.dist(0.3, sigma2=0.02, size=size),
        "wide": noise.DiscreteGaussian.dist(-1.5, sigma2=9.0, size=size),
        "geometric": noise.Geometric.dist(0.3, 0.8, size=size),
        "exact": noise.Exact.dist(4, size=size),
        "sum": sum_law(mechanisms.DiscreteGaussian.from_rho(0.3), 3, 2, shape=size),
        "geometric sum": sum_law(mechanisms.Geometric(0.7), 3, 2, shape=size),
        "uniform": pm.DiscreteUniform.dist(2, 5, size=size),
        "beta binomial": pm.BetaBinomial.dist(n=6, alpha=1.3, beta=2.0, size=size),
    }
    laws["table"] = Tabulated.dist(np.log([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]]), 1, start=4, size=size)
    laplace = sum_law(mechanisms.Laplace(1.2), 3, 2.0, shape=size)
    truncated = [pm.TruncatedNormal.dist(0.3, 0.5, lower=low, upper=high, size=size) for low, high in ENDS]
    found = compile_random([], [*laws.values(), laplace, *truncated], mode="NUMBA")()
    drawn, continuous = found[: len(laws)], found[len(laws)]
    for (name, law), draws in zip(laws.items(), drawn, strict=True):
        assert_drawn(draws, law, name)
    assert continuous.mean() == pytest.approx(2.0, abs=5 * np.sqrt(6 * 1.44 / size))
    assert continuous.var() == pytest.approx(6 * 1.44, rel=0.1)
    for (low, high), draws in zip(ENDS, found[len(laws) + 1 :], strict=True):
        law = st.truncnorm((low - 0.3) / 0.5, (high - 0.3) / 0.5, 0.3, 0.5)
        assert st.kstest(draws, law.cdf).pvalue > 1e-4, (low, high)


def test_machine_code_of_an_edited_draw_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from adversary.models.noise import draws_of\n"
        "from pytensor.tensor.random.op import RandomVariable\n"
        "class EditedRV(RandomVariable):\n    name, signature, dtype = 'edited', '()->()', 'int64'\n"
        "@draws_of(EditedRV)\ndef draw(rng, value):\n    return step + int(value)\nstep = "
    )
    for step in (1, 2):
        (folder := tmp_path / str(step)).mkdir()
        (folder / "edited.py").write_text(source + str(step))
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "edited", raising=False)
        module = importlib.import_module("edited")
        _, drawn = module.EditedRV()(np.float64(3), rng=shared_rng(seed=1), return_next_rng=True)
        assert compile_random([], drawn, mode="NUMBA")() == 3 + step
