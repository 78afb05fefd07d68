"""Power of a test when Renyi divergences are bounded, on plain arrays: Theorem 6.3 of Kifer et al. 2022.

The two outcomes of a test of level a and power r have laws (a, 1 - a) and (r, 1 - r), whose divergences, either way,
are within the bound. Levels come as the logarithms of themselves and of one minus themselves, powers go as log odds, so
both ends keep relative accuracy.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri_exp

from adversary._core import Floats

FARTHEST = 800.0
"""Log odds beyond which a power counts as one."""

_FIRST_GAP = 1e-6
_LIMIT_GAP = 1e-15
"""Orders are 1 + gap; at this one the divergence is that of Kullback and Leibler, the limit, to rounding."""

_ZOOM = np.linspace(-1.0, 1.0, 17)

_AT_ONCE = 160
"""Places tried in one go where levels are few: beyond it arithmetic costs more than the calls that are saved."""

_LEAST_RHO, _MOST_RHO = 1e-30, 1e300
"""A smaller rho is answered as the first: power - level is below 1e-15. With a larger than the second every test with a
level that a double holds has power 1, as with the second."""


def log_odds_of_one_order(log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Log odds of the largest power when D_alpha <= gamma, alpha = 1 + gap, both ways."""
    level, rest = log_level[:, None], log_rest[:, None]
    low = level - rest
    return _largest_within(low, np.full_like(low, FARTHEST), level, rest, gap, gamma, steps=64)[:, 0]


def log_odds_of_every_order(log_level: Floats, log_rest: Floats, rho: float) -> Floats:
    """Log odds of the largest power when D_alpha <= rho alpha for every alpha > 1, both ways; levels on one axis.

    Every order gives a valid bound, the limit alpha -> 1 included, so errors are towards more risk. Each round takes
    the order most used up at the power found so far and solves for its own bound (Newton's method on an envelope),
    then looks closer about that order as well as at all: spacings end at 1e-4, and errors at 1e-9 of power - level.
    """
    level, rest, rho = log_level[:, None], log_rest[:, None], min(max(rho, _LEAST_RHO), _MOST_RHO)
    top = 4.0 + 4.0 * np.sqrt((1.0 - level - rest) / rho)
    widest = np.log(top / _FIRST_GAP) / 32.0
    every = np.concatenate([np.full_like(top, _LIMIT_GAP), _FIRST_GAP * np.exp(widest * np.arange(33.0))], axis=-1)
    least, log_odds = _gaussian(level, rest, rho), np.full_like(level, FARTHEST)
    at, best, width = least, every[:, :1], np.zeros_like(widest)
    for steps in (24, *[14] * 9, 56):
        gaps = np.concatenate([np.clip(best * np.exp(width * _ZOOM), _LIMIT_GAP, 1e4 * top), every], axis=-1)
        most = np.argmax(share_used(at, level, rest, gaps, rho * (1.0 + gaps)), -1)[:, None]
        best = np.take_along_axis(gaps, most, -1)
        at = log_odds = _largest_within(least, log_odds, level, rest, best, rho * (1.0 + best), steps=steps)
        closer = np.where((most > 0) & (most < _ZOOM.size - 1), 0.25, 2.0)  # the best at an edge: look farther
        width = np.where((most < _ZOOM.size) & (width > 0.0), np.minimum(closer * width, 32.0 * widest), widest)
    return np.asarray(log_odds[:, 0], dtype=np.float64)


def share_used(log_odds: Floats, log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Share of the bound that a power uses up: at most 1 where both divergences of order 1 + gap are at most gamma.

    D_alpha <= gamma says sum q (r^alpha - 1) <= e^((alpha - 1) gamma) - 1, with r the likelihood ratio; both sides
    over alpha (alpha - 1), where they have limits at alpha = 1, and over e^((alpha - 1) gamma), so nothing overflows.
    """
    log_power, log_miss = log_expit(log_odds), log_expit(-log_odds)
    with np.errstate(over="ignore"):
        scale = gap * gamma
    up, down = log_level - log_power, log_rest - log_miss
    ratios = np.stack([up, down, -up, -down])
    weights = np.stack(np.broadcast_arrays(log_power, log_miss, log_level, log_rest))
    terms = _excess(ratios, weights, gap, scale)
    with np.errstate(over="ignore"):
        share = np.maximum(terms[0] + terms[1], terms[2] + terms[3]) / (-np.expm1(-scale) / (gap * (1.0 + gap)))
    return np.asarray(share, dtype=np.float64)


def _excess(log_ratio: Floats, log_weight: Floats, gap: Floats, scale: Floats) -> Floats:
    """q e^-scale (r^alpha - 1 - alpha (r - 1)) / (alpha (alpha - 1)), without cancellation: terms of a positive sum.

    As gap tends to 0, q (r log r - r + 1), the term of a Kullback-Leibler divergence.
    """
    t, alpha, log_near = log_ratio, 1.0 + gap, log_weight - scale
    near, step = np.exp(log_near), gap * t
    with np.errstate(over="ignore", divide="ignore"):
        log_step = np.maximum(step, 0.0) + np.log(-np.expm1(-np.abs(step))) - np.log(gap)
        rise = np.sign(t) * np.exp(log_near + t + log_step)
    shift = np.where(t > 1.0, np.exp(log_near + t) - near, near * np.expm1(np.minimum(t, 1.0)))
    power, excess = alpha * t, (rise - shift) / alpha
    if (small := np.abs(power) < 0.05).any():
        every = np.broadcast_to(t, small.shape)[small]
        excess[small] = near[small] * every * every * _series(every, power[small])
    return np.asarray(excess, dtype=np.float64)


def _series(t: Floats, power: Floats) -> Floats:
    """Sum over k >= 2 of t^(k - 2) / k! (1 + alpha + ... + alpha^(k - 2)), power = alpha t, down to rounding."""
    inner, term, total = np.ones_like(t), np.ones_like(t), np.full_like(t, 0.5)
    for k in range(3, 11):
        term = term * power
        inner = t * inner + term
        total = total + inner / factorial(k)
    return total


def _largest_within(
    low: Floats, high: Floats, log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats, *, steps: int
) -> Floats:
    """Log odds at which the bound of one order is used up, between `low` and `high`: bisection that ends above.

    Few levels are halved several times in one go, at every place that can be reached.
    """
    halvings = max(1, min(5, int(np.log2(max(1, _AT_ONCE // low.size)))))
    while steps > 0:
        halvings, steps = min(halvings, steps), steps - halvings
        places = low + (high - low) * np.arange(1, 2**halvings) / 2.0**halvings
        within = share_used(places, log_level, log_rest, gap, gamma) <= 1.0
        first = np.argmin(np.concatenate([within, np.zeros_like(low, dtype=bool)], axis=-1), -1)[:, None]
        ends = np.concatenate([low, places, high], axis=-1)
        low, high = np.take_along_axis(ends, first, -1), np.take_along_axis(ends, first + 1, -1)
    return high


def _gaussian(log_level: Floats, log_rest: Floats, rho: float) -> Floats:
    """Log odds of the power of a Gaussian mechanism with rho-zCDP: a first guess, below every order's bound."""
    z = np.where(log_level < log_rest, ndtri_exp(log_level), -ndtri_exp(log_rest)) + np.sqrt(2.0 * rho)
    return np.asarray(log_ndtr(z) - log_ndtr(-z), dtype=np.float64)
