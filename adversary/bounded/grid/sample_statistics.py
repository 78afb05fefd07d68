r"""Density of the mean and variance of the data themselves, with those of the population integrated out.

.. math::

    p(\bar y, S) \propto q_1(Y^* - \bar y)\, q_2(S^* - S) \iint p(\mu, v)\, N(\bar y; \mu, v/n)\,
    \mathrm{Gamma}(S; \tfrac{n-1}2, \tfrac{n-1}{2v})\, d\mu\, dv

With :math:`u = S (n-1)/n`, the variance with divisor n, the feasible statistics of n values in [0, 1] are those with
:math:`u \le \bar y (1 - \bar y)`: the same region as that of mu and sigma2, and so the same lines and panels. The
integral over mu is a difference of normal probabilities. The integral over v is a gamma integral in :math:`x = R / v`,
by Gauss-Legendre panels if the region truncates it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import exp1, gammaincc, gammainccinv, gammaincinv, gammaln, log_ndtr

from adversary._core import Floats, log_sum_exp
from adversary.bounded.grid.grid_input import GridInput
from adversary.bounded.grid.noisy_likelihood import ReleasedStatistics

_RULE, _ROUGH = np.polynomial.legendre.leggauss(10), np.polynomial.legendre.leggauss(2)

# Gamma tail probabilities at panel edges, in both tails; the mass beyond the smallest is omitted.
_SHARES = np.array([1e-20, 1e-10, 1e-4])

# Panel edges about the variance at which the region starts to truncate, in widths of that transition.
_AWAY = np.array([-9.0, -3.0, 0.0, 3.0, 9.0])

# Number of integrals over v per batch.
_AT_ONCE = 20_000


def log_statistics(
    grid_input: GridInput, y: Floats, u: Floats, *, rough: bool = False, free: bool = False
) -> tuple[Floats, Floats]:
    """Log prior density (mean, variance) of the mean and variance (divisor n) of the data, for one row.

    It is returned in two parts: the density without the bounds, and the log probability of the bounds given the
    statistics.

    Parameters
    ----------
    grid_input : a row with a flat or conjugate prior
    y : (mean, 1) on [0, 1]
    u : (variance,) above 0
    rough, free : whether the second part may have an error of about a tenth, or is not computed (0)

    Returns
    -------
    Two arrays (mean, variance), in nats.
    """
    n = float(grid_input.seen[0])
    s, cap, constrained = np.ravel(u) * n / (n - 1.0), float(grid_input.caps), grid_input.constrained
    alpha, (informed, mu0, kappa, nu, s2) = 0.5 * (n - 1.0), grid_input.beliefs
    power, centre, weight = alpha - 1.0, y, n
    rate = alpha * s + 0.0 * y
    constant = alpha * np.log(alpha) + (alpha - 1.0) * np.log(s) - gammaln(alpha) + np.log(n / (n - 1.0))
    if informed:
        half, wide = 0.5 * nu, 1.0 / n + 1.0 / kappa
        power, centre, weight = alpha + half + 0.5, (n * y + kappa * mu0) / (n + kappa), n + kappa
        rate = rate + half * s2 + 0.5 * (y - mu0) ** 2 / wide
        constant = constant + half * np.log(half * s2) - gammaln(half) - 0.5 * np.log(2.0 * np.pi * wide)
    limited = constrained and power > 0.0
    whole = gammaln(power) + 0.0 * rate if limited else _log_upper_gamma(power, rate / cap)
    cut = _log_cut(power, rate, cap, centre, weight, rough) - whole if constrained and not free else 0.0 * rate
    return constant - power * np.log(rate) + whole, np.minimum(cut, 0.0)


def log_noise(grid_input: GridInput, y: Floats, u: Floats) -> Floats:
    """Log density of the released numbers given mean and variance (divisor n) of the data."""
    seen = ReleasedStatistics.of(grid_input.seen)
    s = u * seen.n / (seen.n - 1.0)
    return np.asarray(seen.mean.fall(y) + seen.variance.fall(s) + seen.mean.constant + seen.variance.constant)


def _log_upper_gamma(power: float, start: Floats) -> Floats:
    """Log of the integral of x^(power - 1) exp(-x) from `start` to infinity, power at least 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(exp1(start)) if power == 0.0 else np.log(gammaincc(power, start)) + gammaln(power))


def _log_cut(power: float, rate: Floats, cap: float, centre: Floats, weight: float, rough: bool) -> Floats:
    """Log integral of x^(power - 1) exp(-x) P(x) over v = rate / x up to the cap, shape of `rate` (mean, variance).

    P(x) is the mass of N(centre, v / weight) on the means that are feasible with variance v.
    """
    rates, centres = rate.ravel(), np.broadcast_to(centre, rate.shape).ravel()
    places = np.array_split(np.arange(rates.size), rates.size // _AT_ONCE + 1)
    cuts = [_log_cut_of(power, rates[i], cap, centres[i], weight, rough) for i in places]
    return np.concatenate(cuts).reshape(rate.shape)


def _log_cut_of(power: float, rate: Floats, cap: float, centre: Floats, weight: float, rough: bool) -> Floats:
    """`_log_cut` of points in a row, by panels in log x."""
    # variance at which the edge of the region passes the centre, if that is within [0, 1]
    v = np.maximum(centre * (1.0 - centre), 0.0)
    beyond = np.maximum(np.abs(centre - 0.5) - 0.5, 0.0)
    # outside, the tail of the normal distribution adds to the rate
    shift = np.log1p(0.5 * weight * beyond**2 / rate)[:, None]
    with np.errstate(divide="ignore"):
        shape = max(power, 0.5)
        bulk = np.log([*gammaincinv(shape, _SHARES), shape, *gammainccinv(shape, _SHARES[::-1])])
        bulk[0] = bulk[0] if power > 0.0 else -np.inf
        width = 2.0 * np.abs(centre - 0.5) / np.sqrt(np.where(v > 0.0, v, 1.0) * weight)
        corner = np.where(v > 0.0, np.log(rate / v), bulk[-1])[:, None] + width[:, None] * _AWAY
    edges = np.concatenate([bulk - shift, corner], 1)
    low = np.maximum(np.where(bulk[0] > -np.inf, edges.min(1), -np.inf), np.log(rate / cap))[:, None]
    edges = np.sort(np.clip(edges, low, np.maximum(bulk[-1], low) + 20.0), 1)
    half, (nodes, shares) = 0.5 * np.diff(edges)[..., None], _ROUGH if rough else _RULE
    x = (edges[:, :-1, None] + half * (1.0 + nodes)).reshape(rate.size, -1)
    with np.errstate(divide="ignore", under="ignore"):
        weights = np.log(half * shares).reshape(rate.size, -1)
        v = rate[:, None] * np.exp(-x)
        reach, sd = np.sqrt(np.maximum(0.25 - v, 0.0)), np.sqrt(v / weight)
        # by symmetry about 1/2, both limits are below the centre, which avoids cancellation
        off = np.abs(centre[:, None] - 0.5)
        upper, lower = log_ndtr((reach - off) / sd), log_ndtr((-reach - off) / sd)
        mass = upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0)))
    return np.asarray(log_sum_exp(power * x - np.exp(x) + mass + weights))
