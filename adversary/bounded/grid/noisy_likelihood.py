r"""Likelihood of a noisy mean and variance with the exact ones integrated out, vectorized over parameters.

.. math::

    g(\mu, v) = \int \mathrm{Gamma}(x; \alpha, \alpha / v)\, q_2(S^* - x) \int_{y (1 - y) \ge x / 4m}
    N(y; \mu, v/n)\, q_1(Y^* - y)\, dy\, dx

with m the largest variance of n values in [0, 1]. Without the bounds the inner integral is over all y, and g is a
product. `log_cut` is the log of the ratio of g to that product; it is smooth, and 0 far from the bounds. The inner
integral is a difference of normal probabilities. The outer one uses Gauss-Legendre points of
:math:`x = m / \cosh^2 \tau`, in panels between its mode, its corners and the points where it has fallen by DEPTH nats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln, log_ndtr

from adversary._core import Floats, log_sum_exp
from adversary.bounded.grid.mixtures import normal_laplace_logpdf

# Nats below the mode at which an integral is cut.
DEPTH = 22.0

# Number of values n below which panels are long; the quadrature rule for these, and for larger n.
_FEW, _RULES = 6.0, (np.polynomial.legendre.leggauss(28), np.polynomial.legendre.leggauss(16))
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)

# Largest |tau|: exp(2 tau) does not overflow.
_FAR = 340.0

# Further panel edges, in noise scales from the released mean, used if a scale is below the sd of a sample mean.
_BREAKS = np.array([-12.0, -3.0, 0.0, 3.0])

# Number of integrals over x per batch.
_AT_ONCE = 4096


Curve = Callable[[Floats], Floats]


class Noise(NamedTuple):
    """A released number and its noise, with log density constant - rate |gap| - precision gap^2 / 2."""

    centre: float
    rate: float
    precision: float
    constant: float

    @classmethod
    def of(cls, kind: float, scale: float, centre: float) -> Noise:
        """Noise by kind: 0 for a number that was not released, 1 for Laplace noise, 2 for Gaussian."""
        if kind == 0.0:
            return cls(0.5, 0.0, 0.0, 0.0)
        if kind == 1.0:
            return cls(centre, 1.0 / scale, 0.0, -float(np.log(2.0 * scale)))
        return cls(centre, 0.0, scale**-2.0, -float(np.log(scale) + _HALF_LOG_2PI))

    def fall(self, x: Floats) -> Floats:
        """Log density at exact values, less its constant."""
        gap = np.abs(x - self.centre)
        return -gap * (self.rate + 0.5 * self.precision * gap)

    def slope(self, x: Floats) -> Floats:
        """Minus the derivative of the log density."""
        gap = x - self.centre
        return self.rate * np.sign(gap) + self.precision * gap


class ReleasedStatistics(NamedTuple):
    """A release: number of values, noise of the mean, noise of the variance."""

    n: float
    mean: Noise
    variance: Noise

    @classmethod
    def of(cls, row: Floats) -> ReleasedStatistics:
        """Release from seven numbers as in `GridInput.seen`."""
        n, *numbers = (float(x) for x in row)
        return cls(n, Noise.of(*numbers[:3]), Noise.of(*numbers[3:]))

    @property
    def nothing(self) -> ReleasedStatistics:
        """Copy with neither statistic released, for the same number of values."""
        return ReleasedStatistics(self.n, Noise.of(0.0, 1.0, 0.5), Noise.of(0.0, 1.0, 0.5))


def log_likelihood(row: Floats, mu: ArrayLike, v: Any, constrained: bool) -> Floats:
    """Log likelihood (nats) of the released numbers at means and variances on [0, 1], which broadcast.

    Parameters
    ----------
    row : seven numbers as in `GridInput.seen`
    mu, v : means, and variances above 0
    constrained : whether the statistics are restricted to those of data in [0, 1]

    Returns
    -------
    Array of the broadcast shape.
    """
    seen = ReleasedStatistics.of(row)
    free = log_free(seen, mu, v)
    return free + log_cut(seen, *np.broadcast_arrays(mu, v)) if constrained else free


def log_free(seen: ReleasedStatistics, mu: ArrayLike, v: Any) -> Floats:
    """Log likelihood (nats) of the released mean and variance without the bounds, at `mu` and sigma2 = `v`.

    Their log likelihoods are added: without bounds, the sample's mean and variance are independent. `mu` and `v` are on
    the unit scale, as in `GridInput.seen`, and broadcast.
    """
    v = np.asarray(v, dtype=np.float64)
    of_variance = _log_variance(seen, v.ravel())[0].reshape(v.shape)
    return np.asarray(of_variance + _log_mean(seen, np.asarray(mu), v) + seen.mean.constant)


def log_cut(seen: ReleasedStatistics, mu: Floats, v: Floats, *, rough: bool = False) -> Floats:
    """Log probability, given parameters and release, that the statistics are feasible; arrays of one shape.

    With `rough` the result is accurate to a few nats only, from the modes of the integrands.
    """
    shape, mu, v = mu.shape, mu.ravel(), v.ravel()
    places = np.array_split(np.arange(mu.size), mu.size // _AT_ONCE + 1)
    parts = [_log_cut(seen, mu[i], v[i], rough) for i in places]
    return np.concatenate(parts).reshape(shape)


def _log_cut(seen: ReleasedStatistics, mu: Floats, v: Floats, rough: bool) -> Floats:
    most = 0.25 * seen.n / (seen.n - 1.0)
    if rough:
        return _log_limited(seen, mu, v, most, rough=True)
    values, back = np.unique(v, return_inverse=True)
    log_z, largest = (x[back] for x in _log_variance(seen, values))
    full = _log_mean(seen, mu, v)
    low = 0.5 * (1.0 - np.sqrt(np.maximum(1.0 - largest / most, 0.0)))
    beyond = np.logaddexp(_log_mean(seen, mu, v, None, low), _log_mean(seen, mu, v, 1.0 - low, None))
    some = np.flatnonzero((largest >= most) | (beyond - full > -DEPTH))
    logs = np.zeros(mu.size)
    if some.size:
        logs[some] = _log_limited(seen, mu[some], v[some], most) - log_z[some] - full[some]
    return logs


def _log_variance(seen: ReleasedStatistics, v: Floats) -> tuple[Floats, Floats]:
    """Log density of the released variance without the bounds, and the largest x with non-negligible weight."""
    noise, alpha = seen.variance, 0.5 * (seen.n - 1.0)
    height, slope, low, high = _without_bounds(seen, v)
    corners = [0.5 * float(np.log(noise.centre))] if noise.rate > 0.0 and noise.centre > 0.0 else []
    edges = _panels(height, _top(slope, low, high), high, corners)
    tau, weights = _points(edges, seen.n)
    with np.errstate(over="ignore"):
        x = np.exp(2.0 * tau)
        logs = alpha * (2.0 * tau - np.log(v)[:, None] - x / v[:, None]) + noise.fall(x) + weights + np.log(2.0)
    constant = alpha * np.log(alpha) - gammaln(alpha) + noise.constant
    return log_sum_exp(logs) + constant, np.exp(2.0 * edges[-1])


def _without_bounds(seen: ReleasedStatistics, v: Floats) -> tuple[Curve, Curve, Floats, Floats]:
    """Integrand over tau, x = exp(2 tau): its log, a function with the sign of its slope, and the ends."""
    noise, alpha = seen.variance, 0.5 * (seen.n - 1.0)

    def height(tau: Floats) -> Floats:
        x = np.exp(2.0 * tau)
        return alpha * (2.0 * tau - np.log(v) - x / v) + noise.fall(x)

    def slope(tau: Floats) -> Floats:
        x = np.exp(2.0 * tau)
        return alpha - x * (alpha / v + noise.slope(x))

    return height, slope, np.full(v.shape, -_FAR), np.full(v.shape, _FAR)


def _log_mean(seen: ReleasedStatistics, mu: Any, v: Any, low: Any = None, high: Any = None) -> Floats:
    """Log integral of N(y; mu, v / n) and the noise of the mean, less its constant, between two sample means."""
    noise, t = seen.mean, np.asarray(v) / seen.n
    if noise.rate == 0.0:
        shrink = 1.0 / (1.0 + noise.precision * t)
        centre, sd = (mu + noise.precision * t * noise.centre) * shrink, np.sqrt(t * shrink)
        logs = -0.5 * noise.precision * shrink * (mu - noise.centre) ** 2 + 0.5 * np.log(shrink)
        return np.asarray(logs + _log_between(low, high, centre, sd))
    if low is None and high is None:
        return np.asarray(normal_laplace_logpdf(noise.centre, mu, t, noise.rate) - noise.constant)
    sd, shift, gap, corner = np.sqrt(t), noise.rate * t, mu - noise.centre, noise.centre
    both = 0.5 * noise.rate * shift
    first = corner if high is None else np.minimum(high, corner)
    last = corner if low is None else np.maximum(low, corner)
    under = both + noise.rate * gap + _log_between(low, first, mu + shift, sd)
    over = both - noise.rate * gap + _log_between(last, high, mu - shift, sd)
    return np.asarray(np.logaddexp(under, over))


def _log_between(low: Any, high: Any, centre: Floats, sd: Floats) -> Any:
    """Log probability of N(centre, sd^2) between two ends, None for none."""
    if low is None and high is None:
        return 0.0
    if low is None or high is None:
        return log_ndtr((high - centre) / sd if low is None else (centre - low) / sd)
    a, b = (low - centre) / sd, (high - centre) / sd
    far = a > 0.0
    upper, lower = log_ndtr(np.where(far, -a, b)), log_ndtr(np.where(far, -b, a))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(high > low, upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0))), -np.inf)


def _log_limited(seen: ReleasedStatistics, mu: Floats, v: Floats, most: float, *, rough: bool = False) -> Floats:
    """Log likelihood under the bounds, less the constant of the mean's noise; if rough, only its modes' log ratio."""
    noise, alpha, worth = seen.variance, 0.5 * (seen.n - 1.0), seen.n / v
    shrink = 1.0 / (1.0 + seen.mean.precision / worth)
    centre, reach = (mu + seen.mean.precision / worth * seen.mean.centre) * shrink, seen.mean.rate / worth * shrink
    # The most likely sample mean given mu, v and the released mean.
    best = np.clip(seen.mean.centre, centre - reach, centre + reach)
    log_v = np.log(v)

    def height(tau: Floats) -> Floats:
        low = expit(2.0 * tau)
        x = 4.0 * most * low * (1.0 - low)
        y = np.clip(best, low, 1.0 - low)
        return np.asarray(
            alpha * (np.log(x) - log_v - x / v) + noise.fall(x) + seen.mean.fall(y) - 0.5 * worth * (y - mu) ** 2
        )

    def slope(tau: Floats) -> Floats:
        low = expit(2.0 * tau)
        x = 4.0 * most * low * (1.0 - low)
        y = np.clip(best, low, 1.0 - low)
        push = worth * (y - mu) + seen.mean.slope(y)
        push = np.where(best < low, push, np.where(best > 1.0 - low, -push, 0.0))
        return np.asarray((1.0 - 2.0 * low) * (alpha - x * (alpha / v + noise.slope(x))) - push * low * (1.0 - low))

    top = _top(slope, np.full(v.shape, -0.5 * _FAR), np.zeros(v.shape))
    if rough:
        x = np.exp(2.0 * _top(*_without_bounds(seen, v)[1:]))
        free = alpha * (np.log(x) - log_v - x / v) + noise.fall(x) + seen.mean.fall(best)
        return np.asarray(np.minimum(height(top) - free + 0.5 * worth * (best - mu) ** 2, 0.0))
    corners, share = list[float](), noise.centre / most
    if noise.rate > 0.0 and 0.0 < share < 1.0:
        corners.append(-float(np.arccosh(share**-0.5)))
    steep = max(seen.mean.rate, seen.mean.precision**0.5)
    # With little noise the inner integral jumps where the limit on the sample mean passes the released mean.
    if steep > worth.min() ** 0.5:
        places = min(seen.mean.centre, 1.0 - seen.mean.centre) + _BREAKS / steep
        corners += [-float(np.arctanh(1.0 - 2.0 * y)) for y in places if 0.0 < y < 0.5]
    edges = _panels(height, top, np.zeros(v.shape), corners)
    tau, weights = _points(edges, seen.n)
    low = expit(2.0 * tau)
    x = 4.0 * most * low * (1.0 - low)
    with np.errstate(divide="ignore", over="ignore"):
        logs = alpha * (np.log(x / v[:, None]) - x / v[:, None]) + noise.fall(x) + weights
        logs = logs + np.log(2.0 * (1.0 - 2.0 * low)) + _log_mean(seen, mu[:, None], v[:, None], low, 1.0 - low)
    return np.asarray(log_sum_exp(logs) + alpha * np.log(alpha) - gammaln(alpha) + noise.constant)


def _top(slope: Curve, low: Floats, high: Floats) -> Floats:
    """Modes of unimodal integrands, by bisection on the signs of their slopes."""
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(38):
            middle = 0.5 * (low + high)
            rises = slope(middle) > 0.0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return 0.5 * (low + high)


def _panels(height: Curve, top: Floats, last: Floats, corners: list[float]) -> Floats:
    """Edges of panels (edge, point): modes, points where integrands have fallen by DEPTH, and corners."""
    ends = []
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        least = height(top) - DEPTH
        # Bisection in the logarithm of the distance from the mode.
        for side in (-1.0, 1.0):
            near, far = np.full(top.shape, np.log(1e-8)), np.full(top.shape, np.log(_FAR))
            for _ in range(9):
                middle = 0.5 * (near + far)
                above = height(np.minimum(top + side * np.exp(middle), last)) > least
                near, far = np.where(above, middle, near), np.where(above, far, middle)
            ends.append(np.minimum(top + side * np.exp(far), last))
    cuts = [np.clip(np.full(top.shape, x), *ends) for x in corners]
    return np.sort([*ends, top, *cuts], 0)


def _points(edges: Floats, n: float) -> tuple[Floats, Floats]:
    """Quadrature nodes of all panels and logs of their weights, (point, node)."""
    half = 0.5 * np.diff(edges, axis=0).T[..., None]
    nodes, shares = _RULES[int(n >= _FEW)]
    tau = edges[:-1].T[..., None] + half * (1.0 + nodes)
    with np.errstate(divide="ignore"):
        weights = np.log(half * shares)
    shape = edges.shape[1], half.shape[1] * nodes.size
    return tau.reshape(shape), weights.reshape(shape)
