"""Sums of the discrete Gaussian in log space: Jacobi theta functions and their tails.

Poisson summation turns a slowly converging sum over the integers into a fast one, so that no truncation is needed.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial.hermite_e import herme2poly
from numpy.typing import ArrayLike
from scipy.special import bernoulli, erfcx, factorial

from adversary._core.numeric import Floats, Integers, as_array, scalar_or_array

# Where a tail is summed in closed form: rho, of sigma above 3.2, and the largest fall of its logarithm a term.
# A correction is about (fall / 2 pi)^2 or 1 / (2 pi sigma)^2 of the one before: after nine, 1e-15 of the sum is left.
_SMOOTH_RHO, _SMOOTH_FALL, _CORRECTIONS = 0.05, 1.0, 9
# At rho = pi the fifth term is exp(-20 pi) = 5e-28 of the sum or less, in either form of the series.
_THETA_TERMS = np.arange(1, 5)
# Lagrange interpolation at six nodes errs by 0.005 h^6 times the sixth derivative: 1.5e-14 of it at h = 0.012.
# Spacing h of an interpolation table, in standard deviations or, if smaller, in decay lengths of the tail.
_SMOOTH = 0.012

# Number of tails summed in one array, because grouping them by start would take longer, and the most in memory at once.
_FEW, _PIECE = 2_000, 40_000


def log_theta(rho: float, fraction: float | Floats = 0.0) -> Any:
    """Log of the theta series: sum over all integers k of exp(-rho (k + fraction)^2).

    Direct sum for rho > pi, Poisson summation otherwise. Omitted terms are below 1e-27 of the sum.

    Parameters
    ----------
    rho : positive; 1 / (2 sigma^2) of a discrete Gaussian
    fraction : in [-1/2, 1/2], of any shape

    >>> round(log_theta(1.0), 6)
    0.572468
    """
    if isinstance(fraction, float):
        return _log_theta_scalar(float(rho), fraction)
    return scalar_or_array(_log_theta(float(rho), np.asarray(fraction, dtype=np.float64)))


@lru_cache(maxsize=1024)
def _log_theta_scalar(rho: float, fraction: float) -> float:
    return float(_log_theta(rho, np.asarray(fraction)))


def _log_theta(rho: float, fraction: Floats) -> Floats:
    f, k = fraction[..., None], _THETA_TERMS
    if rho > np.pi:
        near = np.exp(-rho * (k * k + 2 * k * f)) + np.exp(-rho * (k * k - 2 * k * f))
        return np.asarray(-rho * f[..., 0] ** 2 + np.log1p(near.sum(-1)))
    heights = 2 * np.exp(-(np.pi**2) * k * k / rho)
    seen = heights > 1e-30
    waves = heights[seen] * np.cos(2 * np.pi * k[seen] * f)
    return np.asarray(0.5 * np.log(np.pi / rho) + np.log1p(waves.sum(-1)))


def log_tail_sum(start: ArrayLike, rho: float) -> Floats:
    """Log of sum_{i >= 0} exp(-rho (start + i)^2): the tail of a discrete Gaussian, unnormalised.

    Relative error below 1e-13 in either tail. For a start left of the peak, the left tail is subtracted from the theta
    sum. Right of the peak the terms are added directly or, if they fall slowly (sigma above 3.2, and less than a nat
    from the first to the second), summed by the midpoint Euler-Maclaurin formula with nine corrections.

    Parameters
    ----------
    start : any real numbers, of any shape
    rho : positive; 1 / (2 sigma^2) of a discrete Gaussian

    >>> float(log_tail_sum(3.0, 1.0).round(6))
    -8.999088
    """
    x = np.atleast_1d(as_array(start))
    result = np.empty_like(x)
    right = x > 0.5
    result[right] = _log_right_tail(x[right], rho)
    left = x[~right]
    if left.size:
        fraction = left - np.round(left)
        total = np.asarray(log_theta(rho, fraction), dtype=np.float64)
        # The left tail is a part of the sum; rounding must not make their log ratio 0.
        gap = np.minimum(_log_right_tail(1.0 - left, rho) - total, -1e-300)
        result[~right] = total + np.log1p(-np.exp(gap))
    return result.reshape(np.shape(start))


def log_tail_sums(start: Floats, step: float, count: int, rho: float) -> Floats:
    """`log_tail_sum` at start, start + step, ..., start + (count - 1) step, with error below 1e-13.

    For many points, values are interpolated from six neighbours in one table, fine enough for the same accuracy.

    Parameters
    ----------
    start : any real numbers (start,)
    step : positive
    count : number of points per start
    rho : positive; 1 / (2 sigma^2) of a discrete Gaussian

    Returns
    -------
    Logs (start, count).

    >>> log_tail_sums(np.array([3.0]), 1.0, 2, 1.0).round(6).tolist()
    [[-8.999088, -15.999877]]
    """
    fine = int(np.ceil(step * max(np.sqrt(2.0 * rho), 2.0 * rho) / _SMOOTH))
    step, span = step / fine, fine * (count - 1) + 1
    place = start / step
    low = np.floor(place.min()) - 2.0
    first = np.floor(place - low).astype(np.int64)
    length = int(first.max()) + span + 3
    if length > start.size * count / 4:
        return log_tail_sum(start[:, None] + step * fine * np.arange(count), rho)
    rows = sliding_window_view(log_tail_sum(step * (low + np.arange(length)), rho), span)[:, ::fine]
    apart, nodes = place - low - first, np.arange(-2, 4)
    gaps = [apart - node for node in nodes]
    result = np.zeros((start.size, count))
    for k, node in enumerate(nodes):
        weight = reduce(np.multiply, gaps[:k] + gaps[k + 1 :]) / float(np.prod(node - nodes[nodes != node]))
        result += weight[:, None] * rows[first + node]
    return result


def _log_right_tail(x: Floats, rho: float) -> Floats:
    """log_tail_sum for x >= 1/2."""
    result = np.empty_like(x)
    smooth = (rho <= _SMOOTH_RHO) & (2.0 * rho * x <= _SMOOTH_FALL)
    for here in _pieces(np.flatnonzero(smooth), _PIECE):
        result[here] = _log_right_tail_smooth(x[here], rho)
    direct = np.flatnonzero(~smooth)
    groups = [direct] if direct.size else []
    # Terms below exp(-40) = 4e-18 of the first do not count. Term i is at most exp(-rho i^2) and exp(-2 rho x i) of it:
    # sqrt(40 / rho) terms, or 40 / (2 rho x), are enough.
    if direct.size >= _FEW:
        octave = np.frexp(np.maximum(x[direct], 0.5))[1]
        # Tails that start farther out need fewer terms: sum them in groups of similar start.
        groups = [direct[octave == power] for power in np.unique(octave)]
    for group in groups:
        terms = int(min(np.sqrt(40.0 / rho), 40.0 / (2.0 * rho * max(float(x[group].min()), 0.5)))) + 2
        i = np.arange(terms, dtype=np.float64)
        for here in _pieces(group, _PIECE):
            y = x[here]
            result[here] = -rho * y * y + np.log(np.exp(-rho * (i * i + 2.0 * np.outer(y, i))).sum(1))
    return result


def _log_right_tail_smooth(x: Floats, rho: float) -> Floats:
    """Midpoint Euler-Maclaurin: the integral from x - 1/2, and corrections with its odd derivatives there."""
    z, polynomial = (x - 0.5) * np.sqrt(2.0 * rho), np.zeros_like(x)
    square = z * z
    for one in _corrections(rho):
        polynomial = polynomial * square + one
    series = np.sqrt(np.pi / 2) * erfcx(z / np.sqrt(2)) + z * polynomial
    return np.asarray(-0.5 * square - 0.5 * np.log(2.0 * rho) + np.log(series), dtype=np.float64)


@lru_cache(maxsize=64)
def _corrections(rho: float) -> tuple[float, ...]:
    """Coefficients of z^16, z^14, ..., 1 in the sum over k of B_2k(1/2) / (2k)! He_{2k-1}(z) / z / sigma^2k."""
    orders = 2 * np.arange(1, _CORRECTIONS + 1)
    # B_n(1/2) = (2^(1 - n) - 1) B_n, and sigma^2 = 1 / (2 rho).
    halves = (2.0 ** (1.0 - orders) - 1.0) * bernoulli(orders[-1])[orders] / factorial(orders)
    hermite = np.zeros(2 * _CORRECTIONS)
    hermite[1::2] = halves * (2.0 * rho) ** (orders // 2)
    return tuple(herme2poly(hermite)[:0:-2])


def _pieces(x: Integers, size: int) -> list[Integers]:
    return [x[i : i + size] for i in range(0, x.size, size)]
