r"""Incomplete gamma functions as logarithms, right where the functions themselves underflow.

P and Q are the regularised lower and upper incomplete gammas. Where they are too small for a double, continued
fractions stand in (DLMF 8.9.1 and 8.9.2), which converge in a few steps in exactly those tails.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1, xlog1py, xlogy

from adversary._core import Floats, as_array

_SMALL = 1e-280
_LEVELS = 80
_NARROW = 1e-3
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(6)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_gammainc(a: ArrayLike, x: ArrayLike) -> Floats:
    """log P(a, x), the log probability that a Gamma(a, 1) variable is at most x; a > 0, x >= 0.

    >>> float(log_gammainc(50.0, 1e-8).round(6))
    -1069.511804
    """
    a, x = np.broadcast_arrays(as_array(a), as_array(x))
    p, q = gammainc(a, x), gammaincc(a, x)
    with np.errstate(divide="ignore"):
        log = np.where(p > 0.5, np.log1p(-q), np.log(p))
    tail = (p < _SMALL) & (x > 0.0)
    log[tail] = _log_power(a[tail], x[tail]) + _log_lower_fraction(a[tail], x[tail])
    return np.asarray(log)


def log_gammaincc(a: ArrayLike, x: ArrayLike) -> Floats:
    """log Q(a, x), the log probability that a Gamma(a, 1) variable exceeds x; a > 0, x >= 0."""
    a, x = np.broadcast_arrays(as_array(a), as_array(x))
    p, q = gammainc(a, x), gammaincc(a, x)
    with np.errstate(divide="ignore"):
        log = np.where(q > 0.5, np.log1p(-p), np.log(q))
    tail = (q < _SMALL) & np.isfinite(x)
    log[tail] = _log_power(a[tail], x[tail]) + np.log(a[tail]) - np.log(_upper_fraction(a[tail], x[tail]))
    return np.asarray(log)


def _log_kummer(a: Floats, x: Floats) -> Floats:
    """log M(1, a + 1, x) for x <= 1 of either sign: 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""
    return np.asarray(np.log(hyp1f1(1.0, a + 1.0, x)))


def _log_power(a: Floats, x: Floats) -> Floats:
    """a log x - x - log Gamma(a + 1), without subtracting large numbers: the first factor of both tails."""
    large = a > 20.0
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = xlogy(a, x) - x - gammaln(a + 1.0)
        excess = (x - a) / a
        drop = np.where(np.abs(excess) < 0.5, xlog1py(a, excess) - (x - a), a * np.log(x / a) - (x - a))
        correction = sum(c / a ** (2 * k + 1) for k, c in enumerate(_STIRLING))
        return np.asarray(np.where(large, drop - 0.5 * np.log(2.0 * np.pi * a) - correction, plain))


def _log_lower_fraction(a: Floats, x: Floats) -> Floats:
    """log of Gamma(a + 1) x^-a e^x P(a, x) = M(1, a + 1, x), by its continued fraction; x well below a."""
    tail = a + _LEVELS
    for k in range(_LEVELS, 0, -1):
        numerator = -(a + (k - 1) // 2) * x if k % 2 else (k // 2) * x
        tail = a + k - 1.0 + numerator / tail
    return np.asarray(np.log(a) - np.log(tail))


def _upper_fraction(a: Floats, x: Floats) -> Floats:
    """x^a e^-x / Gamma(a, x), by its continued fraction (DLMF 8.9.2); x well above a."""
    tail = x + 2.0 * _LEVELS + 1.0 - a
    for k in range(_LEVELS, 0, -1):
        tail = x + 2.0 * k - 1.0 - a - k * (k - a) / tail
    return np.asarray(tail)


def log_gamma_between(alpha: Floats, beta: Floats, tilt: Floats, low: Floats, high: Floats) -> Floats:
    """Log of the integral over (low, high] of Gamma(x; alpha, beta) exp(-tilt x); -inf where empty.

    beta + tilt may be negative where `high` is finite.
    """
    arrays = np.broadcast_arrays(alpha, beta, tilt, low, high)
    result = np.full(arrays[0].shape, -np.inf)
    some = arrays[4] > arrays[3]
    result[some] = _log_between(*(x[some] for x in arrays))
    return result


def _log_between(alpha: Floats, beta: Floats, tilt: Floats, low: Floats, high: Floats) -> Floats:
    slope = beta + tilt
    top, bottom = _log_below(alpha, beta, tilt, high), _log_below(alpha, beta, tilt, low)
    result = top + _log1mexp(bottom - top)
    gap = top - bottom
    upper = (slope > 0.0) & (slope * low > alpha)
    if upper.any():
        a, s, start, end = (x[upper] for x in (alpha, slope, low, high))
        first, last = log_gammaincc(a, s * start), log_gammaincc(a, s * end)
        result[upper] = first + _log1mexp(last - first) - a * np.log1p(tilt[upper] / beta[upper])
        gap[upper] = first - last
    narrow = (gap < _NARROW) & (low > 0.0)
    if narrow.any():
        result[narrow] = _log_narrow(*(x[narrow] for x in (alpha, beta, tilt, low, high)))
    return result


def _log_below(alpha: Floats, beta: Floats, tilt: Floats, high: Floats) -> Floats:
    """Log of the integral over (0, high]."""
    slope = beta + tilt
    z = slope * high
    far = z > 1.0
    result = np.full(z.shape, -np.inf)
    a, b, t, h = (x[~far] for x in (alpha, beta, tilt, high))
    with np.errstate(invalid="ignore"):
        series = _log_power(a, b * h) - t * h + _log_kummer(a, z[~far])
    result[~far] = np.where(h > 0.0, series, -np.inf)
    a, b, t = (x[far] for x in (alpha, beta, tilt))
    result[far] = log_gammainc(a, z[far]) - a * np.log1p(t / b)
    return result


def _log_narrow(alpha: Floats, beta: Floats, tilt: Floats, low: Floats, high: Floats) -> Floats:
    """The same by six Gauss nodes, where the two tails would cancel."""
    half = 0.5 * (high - low)
    x = low[:, None] + half[:, None] * (1.0 + _FEW_NODES)
    log = _log_power(alpha[:, None], beta[:, None] * x) - tilt[:, None] * x - np.log(x)
    top = log.max(-1)
    return np.asarray(top + np.log((np.exp(log - top[:, None]) * _FEW_WEIGHTS).sum(-1)) + np.log(half * alpha))


def _log1mexp(x: Floats) -> Floats:
    """log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > -0.7, np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(x))))
