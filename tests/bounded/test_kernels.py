"""The likelihood of noisy statistics against plain sums over fine panels in y and x, also where they contradict.

Nothing is shared with the code: both integrals are done on panels made from all scales there are, in logs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit, gammaln, logsumexp

from adversary.bounded.grid import log_likelihood


class ReleasedStatistics(NamedTuple):
    """A release on [0, 1]: a kind of noise, its scale and the released number of the mean, then of the variance."""

    n: float
    mean_noise: int
    mean_scale: float
    mean: float
    variance_noise: int
    variance_scale: float
    variance: float


X, W = np.polynomial.legendre.leggauss(5)


def log_noise(kind: int, gap: Any, scale: float) -> Any:
    """Log density of Laplace (1) or Gaussian (2) noise; 0 where nothing was released."""
    if kind == 1:
        return -np.abs(gap) / scale - np.log(2.0 * scale)
    if kind == 2:
        return -0.5 * (gap / scale) ** 2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi)
    return np.zeros_like(gap)


def points_in(breaks: Any) -> tuple[Any, Any]:
    """Gauss-Legendre points and weights between consecutive numbers."""
    lo, hi = breaks[:-1, None], breaks[1:, None]
    return (0.5 * (hi + lo) + 0.5 * (hi - lo) * X).ravel(), (0.5 * (hi - lo) * W).ravel()


def log_g(mu: float, v: float, seen: ReleasedStatistics) -> float:
    """Log of the integral over y of N(y; mu, v / n) q1(Y - y) Z(u(y); v)."""
    n, sd, steps = seen.n, np.sqrt(v / seen.n), np.linspace(-40.0, 40.0, 641)
    x = seen.variance + seen.variance_scale * steps
    x = np.concatenate([x, v * np.exp(np.sqrt(2.0 / n) * steps)])
    x = x[(x > 0.0) & (x < 0.25 * n / (n - 1.0))]
    root = np.sqrt(np.maximum(0.25 - (n - 1.0) / n * x, 0.0))
    breaks = [expit(np.linspace(-28.0, 28.0, 6001)), mu + sd * steps, 0.5 - root, 0.5 + root]
    if seen.mean_noise:
        breaks.append(seen.mean + seen.mean_scale * steps)
    found = np.unique(np.concatenate(breaks))
    y, weights = points_in(found[(found > 1e-13) & (found < 1.0 - 1e-13)])
    w = np.log(n / (n - 1.0)) + np.log(y) + np.log1p(-y)
    order = np.argsort(w)
    at, steps_w = points_in(w[order])
    alpha = 0.5 * (n - 1.0)
    size = np.exp(at)
    mass = alpha * at - alpha / v * size + log_noise(seen.variance_noise, seen.variance - size, seen.variance_scale)
    pieces = logsumexp(mass.reshape(-1, X.size), axis=1, b=np.maximum(steps_w.reshape(-1, X.size), 1e-300))
    log_z = np.empty(y.size)
    log_z[order[1:]] = np.logaddexp.accumulate(pieces)
    log_z[order[0]] = -np.inf
    log_z += alpha * np.log(alpha / v) - gammaln(alpha)
    product = log_z + log_noise(seen.mean_noise, seen.mean - y, seen.mean_scale) - 0.5 * ((y - mu) / sd) ** 2
    return float(logsumexp(product, b=weights) - np.log(sd) - 0.5 * np.log(2.0 * np.pi))


def settings() -> list[Any]:
    """Sizes, budgets and releases of all kinds, half of them outside of what data can have."""
    rng = np.random.default_rng(7)
    found = []
    for i in range(20):
        n = max(3.0, float(int(10 ** rng.uniform(0.5, 4.5))))
        scales = 1.0 / (n * 10 ** rng.uniform(-2.0, 1.0, 2))
        kinds = (1 + i % 2, 1 + i % 2) if i % 6 < 4 else ((1, 0) if i % 6 == 4 else (0, 1))
        mean = rng.uniform(-0.2, 1.2) if i % 3 else rng.beta(0.5, 0.5)
        found.append((n, kinds[0], scales[0], mean, kinds[1], scales[1], rng.uniform(-0.1, 0.4)))
    return found


@pytest.mark.parametrize("row", range(20))
def test_the_likelihood_is_its_double_integral(row: int) -> None:
    """Within 2e-5 nats wherever it is not 40 nats below its largest; within 1e-4 of itself below exp(-1e5)."""
    seen = ReleasedStatistics(*settings()[row])
    rng = np.random.default_rng(row)
    for v in 0.25 * rng.beta(0.5, 1.5, 3):
        half = np.sqrt(0.25 - v)
        means = np.sort(np.append(rng.uniform(0.5 - half, 0.5 + half, 3), np.clip(seen.mean, 0.5 - half, 0.5 + half)))
        logs = log_likelihood(np.array(seen), means, v, constrained=True)
        exact = np.array([log_g(mu, v, seen) for mu in means])
        near = exact > exact.max() - 40.0
        loose = 1e-4 if exact.max() < -1e5 else 0.0
        np.testing.assert_allclose(logs[near], exact[near], rtol=loose, atol=2e-5)
