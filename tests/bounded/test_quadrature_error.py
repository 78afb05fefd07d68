"""`quadrature_error` covers the error: against Theorem 18's closed form and the slow twin at random settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from adversary._core.numeric import Floats
from adversary.bounded import BoundedRelease, NormalInverseGamma, Posterior, posterior
from tests.oracles.bounded import Oracle, Setting

pytestmark = pytest.mark.filterwarnings("ignore:the released:UserWarning")
"""Some releases contradict the bounds, or themselves, by more than noise does: on purpose."""

SHARES = np.array([0.025, 0.5, 0.975])


def closed_evidence(variance: float, n: int, rate: float) -> float:
    """Theorem 18: flat, without bounds and cap."""
    below = math.log(0.5) - rate * abs(variance)  # log of the Laplace mass beyond zero
    return math.log((n - 1) / (n - 3)) + (below if variance < 0.0 else math.log1p(-math.exp(below)))


@pytest.mark.parametrize(
    ("mean", "variance", "n", "epsilon"),
    [(0.0603, -0.0354, 20, (0.0224, 0.9784)), (0.4, 0.03, 10, (0.1, 0.1)), (0.4, 0.03, 10, (1.0, 0.1))],
)
def test_evidence_is_as_close_to_theorem_18_as_it_says(mean: float, variance: float, n: int, epsilon: Any) -> None:
    found = posterior(BoundedRelease(mean, variance, n=n, epsilon=epsilon), constrained=False, cap=math.inf)
    error = abs(found.log_evidence - closed_evidence(variance, n, n * epsilon[1]))
    assert error < found.quadrature_error < 6e-3
    assert error < 2e-4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the quadrature of:RuntimeWarning")
def test_errors_from_theorem_18_are_covered_at_random_settings() -> None:
    rng = np.random.default_rng(1818)
    rows = 25
    n = np.exp(rng.uniform(np.log(6), np.log(10_000), rows)).astype(int)
    epsilon = 10.0 ** rng.uniform(-2.0, 1.0, (2, rows))
    mean, variance = rng.uniform(-0.3, 1.3, rows), rng.uniform(-0.1, 0.4, rows)
    covered = []
    for i in range(rows):
        release = BoundedRelease(mean[i], variance[i], n=int(n[i]), epsilon=(epsilon[0, i], epsilon[1, i]))
        found = posterior(release, constrained=False, cap=math.inf)
        error = found.log_evidence - closed_evidence(variance[i], int(n[i]), n[i] * epsilon[1, i])
        covered.append(abs(error) <= found.quadrature_error)
    assert all(covered)


def setting(i: int) -> tuple[BoundedRelease, Any, bool, float | None]:
    """Random settings; every fifth release of Laplace noise is arbitrary, the others are drawn from the model."""
    rng = np.random.default_rng([18, i])
    constrained = bool(rng.random() < 0.5)
    n = max(round(10.0 ** rng.uniform(0.5, 5.0 if rng.random() < 0.5 else 2.0)), 3 if constrained else 4)
    epsilon = 10.0 ** rng.uniform(-2.0, 1.0, 2)
    mu = rng.uniform(0.0, 1.0)
    v = rng.uniform(0.0, 1.0) * mu * (1.0 - mu)
    laplace = bool(rng.random() < 0.75)
    noise: Any = {"epsilon": tuple(epsilon)} if laplace else {"rho": tuple(epsilon**2 / 2.0)}
    draws = rng.laplace(size=2) if laplace else rng.normal(size=2)
    mean, variance = mu + draws[0] / epsilon[0] / n, v + draws[1] / epsilon[1] / n
    if laplace and rng.random() < 0.2:
        mean, variance = rng.uniform(-0.3, 1.3), rng.uniform(-0.1, 0.4)
    prior: Any = "flat"
    if rng.random() < 0.5:
        s0 = 10.0 ** rng.uniform(-2.0, -0.3)
        prior = NormalInverseGamma(rng.uniform(0, 1), 10 ** rng.uniform(-1, 1.5), 10 ** rng.uniform(-0.5, 1.5), s0)
    cap = None if constrained or rng.random() < 0.5 else math.inf
    return BoundedRelease(mean, variance, n=n, **noise), prior, constrained, cap


def errors_of(found: Posterior) -> dict[str, float]:
    """Of log evidence, probabilities, means in units of the sd, and logs of sds, against the slow twin."""
    flat = found.prior if isinstance(found.prior, NormalInverseGamma) else None
    points: dict[str, Floats] = {name: found.quantile(name, SHARES) for name in ("mu", "sigma2")}
    cap = math.inf if found.constrained else float(found.max_variance)
    how = Setting.of(found.release, flat, constrained=found.constrained, cap=cap)
    twin = Oracle(how)
    exact, cut = twin.moments, Oracle(how, means=tuple(float(x) for x in points["mu"]))
    errors = {
        "evidence": found.log_evidence - (twin.log_evidence if found.constrained else twin.log_integral),
        "P(mu)": np.abs(cut.cdf_mean() - SHARES).max(),
        "P(sigma2)": np.abs(cut.cdf_variance(points["sigma2"]) - SHARES).max(),
    }
    for name in ("mu", "sigma2", "sigma"):
        if np.isfinite(found.sd(name)):
            errors[f"mean {name}"] = (found.mean(name) - exact[name]) / exact[f"sd_{name}"]
            errors[f"sd {name}"] = math.log(found.sd(name) / exact[f"sd_{name}"])
    return {name: abs(float(error)) for name, error in errors.items()}


def excess(i: int) -> tuple[float, str, int]:
    """The largest error of a setting in units of the estimate, and which."""
    release, prior, constrained, cap = setting(i)
    found = posterior(release, prior, constrained, cap=cap)
    errors = errors_of(found)
    name = max(errors, key=lambda key: errors[key])
    return errors[name] / found.quadrature_error, name, i


QUICK = (4, 10, 18)


@pytest.mark.slow
@pytest.mark.parametrize("i", QUICK)
def test_the_estimate_covers_the_error(i: int) -> None:
    assert excess(i)[0] <= 1.0


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the quadrature of:RuntimeWarning")
def test_the_estimate_covers_the_error_in_99_of_100_settings() -> None:
    found = sorted((excess(i) for i in range(300)), reverse=True)
    print(*found[:10], sep="\n")
    assert np.mean([ratio <= 1.0 for ratio, _, _ in found]) >= 0.99


@pytest.mark.slow
def test_a_second_mode_far_from_the_first_is_found() -> None:
    """A prior that the release contradicts: a mode of standard deviation 0.007 by it, 27% of the mass beyond."""
    release = BoundedRelease(0.770558084141, 0.132493653455, n=136, epsilon=(0.22834116179, 7.0445923418))
    prior = NormalInverseGamma(0.229945578634, 3.139177961291, 47.180500011077, 0.0117342611635)
    found = posterior(release, prior)
    exact = Oracle(Setting.of(release, prior, constrained=True, cap=math.inf)).moments
    assert found.quadrature_error < 1e-2
    for name in ("mu", "sigma2"):
        assert found.mean(name) == pytest.approx(exact[name], abs=found.quadrature_error * exact[f"sd_{name}"])
        assert found.sd(name) == pytest.approx(exact[f"sd_{name}"], rel=found.quadrature_error)


def test_a_peak_far_from_where_the_search_begins_is_found_at_once() -> None:
    """Each variance's search begins at the peak of the one before, with its step: on a slope it must go on."""
    found = posterior(BoundedRelease(0.9313611599920546, 0.03855639296728051, n=1000, epsilon=(1.0, 1.0)))
    assert found.quadrature_error < 6e-3
    assert found.log_evidence == pytest.approx(1.79372155, abs=2e-4)  # also by angles, before panels in r
