"""Staircase noise: its numbers against quadrature, its loss against both densities, and its place among other noise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
import scipy.integrate

import adversary as adv
from adversary.literature import frameworks
from adversary.literature.joint_distribution import JointDistribution
from tests.tables import over, refusals

NOISES: dict[str, adv.Staircase] = {
    "best": adv.Staircase(1.0),
    "strong": adv.Staircase(6.0),
    "weak, three wide": adv.Staircase(0.3, sensitivity=3),
    "high": adv.Staircase(2.0, 0.9, sensitivity=0.5),
    "half": adv.Staircase(2.0, 0.5, sensitivity=3),
    "none high": adv.Staircase(1.5, 0.0),
    "all high": adv.Staircase(1.5, 1.0),
}


def _density(noise: adv.Staircase, x: Any) -> Any:
    """The definition, written from the paper: a(gamma) e^(-k epsilon) on [k, k + gamma), one step less beyond."""
    e, w = noise.epsilon, noise.sensitivity
    g = 1.0 / (1.0 + math.exp(e / 2.0)) if noise.gamma is None else noise.gamma
    peak = (1.0 - math.exp(-e)) / (2.0 * w * (g + math.exp(-e) * (1.0 - g)))
    k = np.floor(np.abs(x) / w)
    return peak * np.exp(-e * np.where(np.abs(x) < (k + g) * w, k, k + 1.0))


def _edges(noise: adv.Staircase, start: float, end: float, *centres: float) -> Any:
    g, w = noise.share, noise.sensitivity
    count = math.ceil((end - start) / w) + 1
    steps = [s * w * (k + part) for k, s, part in itertools.product(range(count), (-1.0, 1.0), (0.0, g))]
    edges = np.unique([start, end, *(centre + step for centre in centres for step in steps)])
    return edges[(edges >= start) & (edges <= end)]


def _integral(noise: adv.Staircase, function: Any, start: float, end: float) -> float:
    edges = _edges(noise, start, end, 0.0)
    parts = [scipy.integrate.quad(function, a, b)[0] for a, b in itertools.pairwise(edges)]
    return math.fsum(parts)


@over(NOISES, "noise")
def test_its_density_tails_and_variance_are_those_of_the_definition(noise: adv.Staircase) -> None:
    w, far = noise.sensitivity, noise.sensitivity * math.ceil(45.0 / noise.epsilon)
    x = w * np.array([0.0, 0.03, 0.2, 0.4, 0.6, 0.97, 1.01, 2.3, 5.55])
    np.testing.assert_allclose(np.exp(noise.log_prob(x, 0)), _density(noise, x), rtol=1e-12)
    assert 2.0 * _integral(noise, lambda t: _density(noise, t), 0.0, far) == pytest.approx(1.0, abs=1e-13)
    square = 2.0 * _integral(noise, lambda t: t * t * _density(noise, t), 0.0, far)
    assert noise.variance == pytest.approx(square, rel=1e-12)
    for at in x[1:]:
        tail = _integral(noise, lambda t: _density(noise, t), float(at), far + float(at))
        assert noise.sf(at, 0) == pytest.approx(tail, rel=1e-12)
        assert noise.cdf(-at, 0) == pytest.approx(tail, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_the_default_share_has_the_least_mean_absolute_error(epsilon: float) -> None:
    """Its error is that of Theorem 3 of Geng and Viswanath, e^(epsilon / 2) / (e^epsilon - 1), below Laplace's."""

    def error(noise: adv.Staircase) -> float:
        far = math.ceil(60.0 / epsilon)
        return 2.0 * _integral(noise, lambda t: t * _density(noise, t), 0.0, far)

    best = adv.Staircase(epsilon)
    assert error(best) == pytest.approx(math.exp(epsilon / 2.0) / math.expm1(epsilon), rel=1e-10)
    for other in (best.share * 0.9, min(best.share * 1.1, 1.0)):
        assert error(adv.Staircase(epsilon, other)) > error(best) * (1.0 + 1e-6)
    assert error(best) < 1.0 / epsilon


@over(NOISES, "noise")
@pytest.mark.parametrize("widths", [1.0, 1.0 / 3.0, 0.999, 2.0, 2.4, 7.0])
def test_its_loss_is_that_of_both_densities(noise: adv.Staircase, widths: float) -> None:
    shift = widths * noise.sensitivity
    far = noise.sensitivity * math.ceil(45.0 / noise.epsilon)
    edges = _edges(noise, -far, far + shift, 0.0, shift)
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    p, q = _density(noise, middle - shift) * width, _density(noise, middle) * width
    loss = noise.privacy_loss(shift, 1)
    for e in (-1.3, 0.0, 0.2, 0.5 * noise.epsilon, 1.7, 2.5 * noise.epsilon):
        assert loss.delta(e) == pytest.approx(float(np.maximum(p - math.exp(e) * q, 0.0).sum()), abs=1e-12)
        assert loss.swapped.delta(e) == pytest.approx(loss.delta(e), abs=1e-14)
    assert loss.maximum == pytest.approx(noise.epsilon * math.ceil(widths), rel=1e-14)
    assert loss.epsilon(0.0) == loss.maximum


@pytest.mark.parametrize("change", [0.3, 0.7, 1.1])
def test_whole_numbers_of_steps_are_whole_after_rounding_too(change: float) -> None:
    """0.3 / 0.1, 0.7 / 0.1 and 1.1 / 0.1 are no whole numbers among doubles."""
    noise = adv.Staircase(2.0, sensitivity=0.1)
    assert noise.privacy_loss(change, 1).maximum == 2.0 * round(10 * change)


@pytest.mark.parametrize("epsilon", [1e-10, 1e-3, 1.0, 40.0, 800.0, 1e5])
@pytest.mark.parametrize("gamma", [None, 0.0, 1e-300, 0.25, 1.0])
def test_tails_and_variance_keep_their_digits_at_extreme_parameters(epsilon: float, gamma: float | None) -> None:
    """Against 60 digits: the tail is P b^k (gamma - t) + P b^(k+1) (1 - gamma) + b^(k+1) / 2, or what is left of it."""
    noise = adv.Staircase(epsilon, gamma)
    with mpmath.workdps(60):
        e, g = mpmath.mpf(epsilon), mpmath.mpf(noise.share)
        b = mpmath.exp(-e)
        peak = -mpmath.expm1(-e) / (2 * (g + b * (1 - g)))
        for x in (0.0, 0.125, 0.5, 1.75, 9.25, 1000.5):
            k = mpmath.floor(x)
            t = mpmath.mpf(x) - k
            tail = peak * b**k * max(g - t, 0) + peak * b ** (k + 1) * (1 - max(g, t)) + b ** (k + 1) / 2
            log_tail = float(mpmath.log(tail))
            assert float(noise.log_survival(np.array(x))) == pytest.approx(log_tail, rel=1e-13, abs=1e-13)
        c = -mpmath.expm1(-e)
        sums = 1 / c, b / c**2, b * (1 + b) / c**3
        high = sums[2] * g + sums[1] * g**2 + sums[0] * g**3 / 3
        low = sums[2] * (1 - g) + sums[1] * (1 - g**2) + sums[0] * (1 - g**3) / 3
        variance = float(2 * peak * (high + b * low))
    assert noise.variance == pytest.approx(variance, rel=1e-12)
    for change in (1, 3):
        loss = noise.privacy_loss(change, 1)
        assert loss.maximum == pytest.approx(epsilon * change, rel=1e-13)
        total = float(mpmath.fsum(mpmath.exp(mpmath.mpf(float(one))) for one in loss.log_p))
        assert total == pytest.approx(1.0, abs=1e-12)


def test_draws_follow_the_law() -> None:
    for noise in NOISES.values():
        drawn = np.abs(noise.sample(0, np.random.default_rng(5), 20_000))
        for at in noise.sensitivity * np.array([0.1, 0.5, 1.2]):
            assert np.mean(drawn > at) == pytest.approx(2.0 * noise.sf(at, 0), abs=0.015)
        assert np.mean(noise.sample(0, np.random.default_rng(6), 20_000) > 0) == pytest.approx(0.5, abs=0.015)


# Where others' losses lie in their tails, its own does not


def test_frameworks_take_the_fall_of_a_step_and_not_the_slope_of_the_tail() -> None:
    law, noise = JointDistribution(np.full((2, 2), 0.25)), adv.Staircase(2.0, 0.5, sensitivity=3)
    assert frameworks.differential_privacy(law, sum, noise) == 2.0
    assert frameworks.dependent(law, sum, noise) == 2.0
    both = JointDistribution([[0.5, 0.0], [0.0, 0.5]])
    assert frameworks.dependent(both, sum, adv.Staircase(2.0, 0.5)) == 4.0
    for noise in NOISES.values():
        assert frameworks.differential_privacy(law, sum, noise) == noise.privacy_loss(1, 1).maximum
    with pytest.raises(NotImplementedError, match="largest ratios of mixtures are not derived for Staircase"):
        frameworks.inferential(law, sum, noise, level="record")


@over(NOISES, "noise")
def test_information_is_that_of_both_densities(noise: adv.Staircase) -> None:
    law = JointDistribution([0.3, 0.7])
    far = noise.sensitivity * math.ceil(45.0 / noise.epsilon)
    edges = _edges(noise, -far, far + 1.0, 0.0, 1.0)
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    f0, f1 = _density(noise, middle), _density(noise, middle - 1.0)
    mixed = 0.3 * f0 + 0.7 * f1
    wanted = float(((0.3 * f0 * np.log(f0 / mixed) + 0.7 * f1 * np.log(f1 / mixed)) * width).sum())
    found = frameworks.mutual_information_privacy(law, np.array([0, 1]), noise, level="record")
    assert found == pytest.approx(wanted, rel=1e-9)


def _log_sum(log_p: Any) -> float:
    return float(np.logaddexp.reduce(log_p))


@pytest.mark.parametrize(
    "belief", [adv.Uniform(), adv.Uniform(30), adv.Others([0.3, 0.4, 0.3]), adv.Each([0.3, 0.4, 0.3])], ids=repr
)
@pytest.mark.parametrize("released", [(3.2, 4.1, 9.3), (0.0, 1.0, 60.0), (2.5, 300.0, 5.0), (30.0, 0.0, 1.0)])
def test_the_posterior_of_a_path_is_that_of_all_counts(belief: Any, released: tuple[float, float, float]) -> None:
    """The window about the releases may not be cut as for log-concave noise; every count up to 2,000 is added up."""
    lower, upper = adv.Staircase(1.2), adv.Staircase(1.5, 0.3, sensitivity=2)
    unit = adv.PrivacyUnit(contribution=1)
    plan = adv.Plan([adv.Level("block", lower, siblings=1), adv.Level("tract", upper)], privacy_unit=unit)
    reader = adv.Adversary(0.3, known=2, beliefs={"tract": belief})
    own, sibling, tract = released
    release = plan.observe({"block": own, "tract": tract}, siblings={"block": [sibling]})
    k = np.arange(2000.0)

    def log_likelihood(count: int) -> float:
        with np.errstate(divide="ignore"):
            if isinstance(belief, adv.Uniform):
                fits = np.ones(k.size) if belief.upper is None else (k + count <= 30) / (31.0 - count)
            else:
                fits = np.where(k < 3, np.take([0.3, 0.4, 0.3], np.minimum(k, 2).astype(int)), 0.0)
            above = np.log(fits) + np.log(_density(lower, sibling - k)) + np.log(_density(upper, tract - count - k))
            return float(np.log(_density(lower, own - count))) + _log_sum(above)

    wanted = math.log(0.3 / 0.7) + log_likelihood(3) - log_likelihood(2)
    found = reader.posterior(plan, release)
    assert float(found["log_odds"]) == pytest.approx(wanted, abs=1e-10)


def test_a_belief_that_leaves_no_bound_on_the_counts_is_refused() -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(1.0), siblings=2), adv.Level("tract", adv.Staircase(1.0))])
    reader = adv.Adversary(0.3, known=2, beliefs={"tract": adv.Each()})
    with pytest.raises(ValueError, match=r"noise must be log-concave beside the belief.*Uniform\(upper\)"):
        reader.posterior(plan, plan.observe({"block": 2, "tract": 9.0}, siblings={"block": [3, 4]}))


@pytest.mark.parametrize("truth", [{"block": 3}, {"block": 2}])
@over({name: NOISES[name] for name in ("best", "half", "weak, three wide")}, "noise")
def test_the_average_posterior_is_the_integral_over_releases(noise: adv.Staircase, truth: dict[str, int]) -> None:
    tree = adv.audit(adv.Plan([adv.Level("block", noise)]), adv.Adversary(0.3, known=2), truth)
    far = noise.sensitivity * math.ceil(45.0 / noise.epsilon)
    edges = _edges(noise, -far, far + 3.0, 2.0, 3.0)
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    f2, f3 = _density(noise, middle - 2.0), _density(noise, middle - 3.0)
    posterior = 0.3 * f3 / (0.3 * f3 + 0.7 * f2)
    wanted = float((posterior * (f3 if truth["block"] == 3 else f2) * width).sum())
    assert float(tree["risk"].posterior_mean) == pytest.approx(wanted, rel=1e-10)
    assert "mcse" not in tree["risk"] or np.isnan(tree["risk"].mcse) or float(tree["risk"].mcse) == 0.0


def test_it_stands_in_scenario_files(tmp_path: Any) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'title = "Staircase"\nneighbours = "unbounded"\n[plan]\n[[plan.level]]\nname = "block"\n'
        'noise = "staircase"\nepsilon = 0.7\nsensitivity = 3\n[truth]\nblock = 2\n[adversary]\nprior = 0.3\nknown = 1\n'
    )
    noise = adv.load_scenario(file).plan.levels[0].mechanism
    assert noise == adv.Staircase(0.7, sensitivity=3)
    assert "gamma = 0.41" in noise.describe()


test_bad_parameters_are_refused = refusals(
    (lambda: adv.Staircase(0.0), "epsilon must be positive and finite, got 0.0"),
    (lambda: adv.Staircase(1.0, 1.2), r"gamma must be in \[0, 1\], got 1.2"),
    (lambda: adv.Staircase(1.0, [0.2, 0.3]), "gamma must be one number", TypeError),  # type: ignore[arg-type]
    (lambda: adv.Staircase(1.0).total(2), "count must be at most 1, got 2: .* belief Each"),
    (lambda: adv.Staircase(1.0).support(0), "Staircase noise is continuous", TypeError),
    (lambda: adv.Staircase(1.0, sensitivity=1e-9).privacy_loss(1), "at most 10,000,000 steps"),
)
