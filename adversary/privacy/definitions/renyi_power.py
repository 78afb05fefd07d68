"""Largest power of a test under bounds on Renyi divergences, on plain arrays: Theorem 6.3 of Kifer et al. 2022.

The two outcomes of a test of level a and power r have the distributions (a, 1 - a) and (r, 1 - r), whose divergences,
in both directions, satisfy the bound. Levels are passed as log(a) and log(1 - a), powers returned as log odds, so that
both ends have relative accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

# Rounds of choosing an order and solving for the power at its bound, and steps of a solution in the first round, in
# those between and in the last.
_ROUNDS, _STEPS = 9, (10, 4, 20)

# Steps of the solution for one order.
_ONE_ORDER = 48

# Places in a bracket, as shares of its width: near both ends of a wide one, near the upper end alone of one whose upper
# end is close.
_CLOSER = 4.0 ** -np.arange(1.0, 33.0)
_WIDE, _NARROW = np.concatenate([_CLOSER[::-1], 1.0 - _CLOSER[:14]]), 1.0 - _CLOSER[:14]

# Distances above a solution at which it is tried as an upper bound, in units of the solution or 1.
_NUDGES = 2.0**-50 * 4.0 ** np.arange(8.0)

# Range of rho, which is clipped to it. Below, power - level is less than 1e-15; above, every level that is positive
# in double precision has power 1.
_LEAST_RHO, _MOST_RHO = 1e-30, 1e300


def log_odds_of_one_order(log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Log odds of the largest power under D_alpha <= gamma in both directions, with alpha = 1 + gap; (level,)."""
    share = partial(share_used, log_level=log_level[:, None], log_rest=log_rest[:, None], gap=gap, gamma=gamma)
    low = (log_level - log_rest)[:, None]
    low, high, _ = _crossing(share, low, np.full_like(low, FARTHEST), _WIDE, _ONE_ORDER)
    return _rounded_up(share, low, high)[:, 0]


def log_odds_of_every_order(log_level: Floats, log_rest: Floats, rho: float) -> Floats:
    """Log odds of the largest power under D_alpha <= rho alpha for all alpha > 1, in both directions; (level,).

    Every order gives a valid bound, the limit alpha -> 1 included, so numerical errors overstate the risk. Each round
    takes the order whose bound is tightest at the current power and solves for the power at its bound (Newton's method
    on an envelope), then refines the grid about that order. The error is 1e-9 of power - level.
    """
    level, rest, rho = log_level[:, None], log_rest[:, None], min(max(rho, _LEAST_RHO), _MOST_RHO)
    top = 4.0 + 4.0 * np.sqrt((1.0 - level - rest) / rho)
    widest = np.log(top / _FIRST_GAP) / 32.0
    every = np.concatenate([np.full_like(top, _LIMIT_GAP), _FIRST_GAP * np.exp(widest * np.arange(33.0))], axis=-1)
    least, high = _gaussian(level, rest, rho), np.full_like(level, FARTHEST)
    at, best, width = least, every[:, :1], np.zeros_like(widest)
    first, between, last = _STEPS
    for places, steps in ((_WIDE, first), *[(_NARROW, between)] * (_ROUNDS - 2), (_NARROW, last)):
        gaps = np.concatenate([np.clip(best * np.exp(width * _ZOOM), _LIMIT_GAP, 1e4 * top), every], axis=-1)
        most = np.argmax(share_used(at, level, rest, gaps, rho * (1.0 + gaps)), -1)[:, None]
        best = np.take_along_axis(gaps, most, -1)
        share = partial(share_used, log_level=level, log_rest=rest, gap=best, gamma=rho * (1.0 + best))
        low, high, at = _crossing(share, least, high, places, steps)
        # Narrow the grid about an interior maximum to its two cells; widen it if the maximum is at an edge.
        closer = np.where((most > 0) & (most < _ZOOM.size - 1), 0.125, 2.0)
        width = np.where((most < _ZOOM.size) & (width > 0.0), np.minimum(closer * width, 32.0 * widest), widest)
    return np.asarray(_rounded_up(share, low, high)[:, 0], dtype=np.float64)


def share_used(log_odds: Floats, log_level: Floats, log_rest: Floats, gap: Floats, gamma: Floats) -> Floats:
    """Ratio of divergence to bound at a power: at most 1 if both divergences of order 1 + gap are at most gamma.

    D_alpha <= gamma is equivalent to sum q (r^alpha - 1) <= e^((alpha - 1) gamma) - 1, with r the likelihood ratio.
    Both sides are divided by alpha (alpha - 1), which gives them limits at alpha = 1, and by e^((alpha - 1) gamma),
    which prevents overflow.

    Only the larger divergence is computed: that from the level where power + level <= 1, else that from the power. With
    phi(u) = u^alpha - u^(1 - alpha), the first exceeds the second by a phi(r / a) - (1 - r) phi((1 - a) / (1 - r)),
    and y phi(1 + d / y) decreases in y since phi is convex above 1, where it is 0.
    """
    log_power, log_miss = log_expit(log_odds), log_expit(-log_odds)
    with np.errstate(over="ignore"):
        scale = gap * gamma
    below = log_odds <= log_rest - log_level
    up, down = log_power - log_level, log_miss - log_rest
    ratios = np.stack(np.broadcast_arrays(np.where(below, up, -up), np.where(below, down, -down)))
    weights = np.where(below, log_level, log_power), np.where(below, log_rest, log_miss)
    terms = _excess(ratios, np.stack(np.broadcast_arrays(*weights)), gap, scale)
    with np.errstate(over="ignore"):
        share = (terms[0] + terms[1]) / (-np.expm1(-scale) / (gap * (1.0 + gap)))
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


def _crossing(
    share: Callable[[Floats], Floats], low: Floats, high: Floats, places: Floats, steps: int
) -> tuple[Floats, Floats, Floats]:
    """Bracket (low, high) of the largest log odds with a share of at most 1, and the last of them that was tried.

    Places in the bracket first, then the Illinois rule on the log of the share: a secant through both ends, with half
    the value of an end that was not replaced twice running.

    Parameters
    ----------
    share : increasing function of log odds, (level, place)
    low, high : log odds, (level, 1); the share is at most 1 at `low`
    places : shares of the bracket's width, increasing, strictly between 0 and 1
    steps : of the Illinois rule
    """

    def excess(log_odds: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(share(log_odds))

    ends = np.concatenate([low, low + (high - low) * places, high], axis=-1)
    edge = np.full_like(low, np.inf)
    values = np.concatenate([-edge, excess(ends[:, 1:-1]), edge], axis=-1)
    first = np.argmax(values > 0.0, -1)[:, None]
    low, high = (np.take_along_axis(ends, first - k, -1) for k in (1, 0))
    below, above = (np.take_along_axis(values, first - k, -1) for k in (1, 0))
    at, under, over = high, np.zeros_like(low, dtype=bool), np.zeros_like(low, dtype=bool)
    for _ in range(steps):
        with np.errstate(invalid="ignore"):
            part = below / (below - above)
        at = low + (high - low) * np.where((part > 0.0) & (part < 1.0), part, 0.5)
        value = excess(at)
        within = value <= 0.0
        below = np.where(within, value, np.where(over, 0.5 * below, below))
        above = np.where(within, np.where(under, 0.5 * above, above), value)
        low, high, under, over = np.where(within, at, low), np.where(within, high, at), within, ~within
    return low, high, at


def _rounded_up(share: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Log odds just above the lower end of a bracket, or its upper end, at which the share exceeds 1."""
    places = np.minimum(low + np.maximum(1.0, np.abs(low)) * _NUDGES, high)
    over = np.concatenate([share(places) > 1.0, np.ones_like(low, dtype=bool)], axis=-1)
    return np.take_along_axis(np.concatenate([places, high], axis=-1), np.argmax(over, -1)[:, None], -1)


def _gaussian(log_level: Floats, log_rest: Floats, rho: float) -> Floats:
    """Log odds of the power of a Gaussian mechanism with rho-zCDP: a lower bound on the result, as a starting point."""
    z = np.where(log_level < log_rest, ndtri_exp(log_level), -ndtri_exp(log_rest)) + np.sqrt(2.0 * rho)
    return np.asarray(log_ndtr(z) - log_ndtr(-z), dtype=np.float64)
