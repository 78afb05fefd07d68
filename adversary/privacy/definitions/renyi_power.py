"""Largest power of a test under bounds on Renyi divergences, on plain arrays: Theorem 6.3 of Kifer et al. 2022.

The two outcomes of a test of level a and power r have the distributions (a, 1 - a) and (r, 1 - r), whose divergences,
in both directions, satisfy the bound. Levels are passed as log(a) and log(1 - a), powers returned as log odds, so that
both ends have relative accuracy.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri_exp

from adversary._core import Floats

# Log odds from which on a power counts as one.
FARTHEST = 800.0

_FIRST_GAP = 1e-6

# Orders are 1 + gap; at this gap the divergence equals its limit, Kullback-Leibler, up to rounding.
_LIMIT_GAP = 1e-15

_ZOOM = np.linspace(-1.0, 1.0, 17)

# Number of points evaluated per call for few levels; beyond it arithmetic costs more than the calls it saves.
_AT_ONCE = 160

# Range of rho, which is clipped to it. Below, power - level is less than 1e-15; above, every level that is positive
# in double precision has power 1.
_LEAST_RHO, _MOST_RHO = 1e-30, 1e300


def log_odds_of_one_order(log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Log odds of the largest power under D_alpha <= gamma in both directions, with alpha = 1 + gap; (level,)."""
    level, rest = log_level[:, None], log_rest[:, None]
    low = level - rest
    return _largest_within(low, np.full_like(low, FARTHEST), level, rest, gap, gamma, steps=64)[:, 0]


def log_odds_of_every_order(log_level: Floats, log_rest: Floats, rho: float) -> Floats:
    """Log odds of the largest power under D_alpha <= rho alpha for all alpha > 1, in both directions; (level,).

    Every order gives a valid bound, the limit alpha -> 1 included, so numerical errors overstate the risk. Each round
    takes the order whose bound is tightest at the current power and solves for the power at its bound (Newton's method
    on an envelope), then refines the grid about that order. The final spacing of orders is 1e-4, the error 1e-9 of
    power - level.
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
        # Narrow the grid about an interior maximum; widen it if the maximum is at an edge.
        closer = np.where((most > 0) & (most < _ZOOM.size - 1), 0.25, 2.0)
        width = np.where((most < _ZOOM.size) & (width > 0.0), np.minimum(closer * width, 32.0 * widest), widest)
    return np.asarray(log_odds[:, 0], dtype=np.float64)


def share_used(log_odds: Floats, log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Ratio of divergence to bound at a power: at most 1 if both divergences of order 1 + gap are at most gamma.

    D_alpha <= gamma is equivalent to sum q (r^alpha - 1) <= e^((alpha - 1) gamma) - 1, with r the likelihood ratio.
    Both sides are divided by alpha (alpha - 1), which gives them limits at alpha = 1, and by e^((alpha - 1) gamma),
    which prevents overflow.
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
    """Terms q e^-scale (r^alpha - 1 - alpha (r - 1)) / (alpha (alpha - 1)) of a positive sum, without cancellation.

    As gap tends to 0 they tend to q (r log r - r + 1), the terms of a Kullback-Leibler divergence.
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
    """Sum over k >= 2 of t^(k - 2) / k! (1 + alpha + ... + alpha^(k - 2)), to rounding; power = alpha t."""
    inner, term, total = np.ones_like(t), np.ones_like(t), np.full_like(t, 0.5)
    for k in range(3, 11):
        term = term * power
        inner = t * inner + term
        total = total + inner / factorial(k)
    return total


def _largest_within(
    low: Floats, high: Floats, log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats, *, steps: int
) -> Floats:
    """Log odds of the largest power that satisfies the Renyi bound of one order, by bisection, rounded up.

    For few levels several halvings are done per call, by evaluating all points they can reach.

    Parameters
    ----------
    low, high : log odds of powers, (level, 1); `low` satisfies the bound
    log_level, log_rest : logarithms of the level and of 1 - level
    gap : order minus 1
    gamma : bound on the divergence of this order, in both directions
    steps : number of halvings
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
    """Log odds of the power of a Gaussian mechanism with rho-zCDP: a lower bound on the result, as a starting point."""
    z = np.where(log_level < log_rest, ndtri_exp(log_level), -ndtri_exp(log_rest)) + np.sqrt(2.0 * rho)
    return np.asarray(log_ndtr(z) - log_ndtr(-z), dtype=np.float64)
