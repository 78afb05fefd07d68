"""Compiled: posterior moments of every unit, and its highest posterior density set.

The posterior of a unit is the product of its two messages, normalised.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.count_windows import numbers_of
from adversary.census.spine.compiled.layout import log_rate_mixture

compiled, inner = compilers(__file__)


@compiled
def posterior_moments(messages, outer):
    """Posterior mean and variance of every unit's count.

    Parameters
    ----------
    messages : Messages from below, from `upward`
    outer : numbers from above, from `downward`

    Returns
    -------
    (mean, variance, mass), each (unit,): in people, people squared, and the sum of the product of the unit's two
    messages
    """
    n = messages.windows.size
    mean, variance, mass = np.zeros(n), np.zeros(n), np.zeros(n)
    for v in range(n):
        window = messages.windows[v]
        inner_values, outer_values = numbers_of(messages, v), outer[window.place : window.place + window.size]
        total, first, second = 0.0, 0.0, 0.0
        for k in range(window.size):
            p = inner_values[k] * outer_values[k]
            total += p
            first += p * k
        centre = first / total
        for k in range(window.size):
            second += inner_values[k] * outer_values[k] * (k - centre) ** 2
        mean[v], variance[v], mass[v] = window.low + centre, second / total, total
    return mean, variance, mass


@inner
def place_of_largest(values):
    """Index of the maximum, the first one of equals."""
    place = 0
    for k in range(values.size):
        if values[k] > values[place]:
            place = k
    return place


@compiled
def highest_density(messages, outer, prob, counts):
    """Highest posterior density set of every unit: the smallest set of counts with at least `prob` of the mass.

    Counts are added in order of decreasing probability.

    Parameters
    ----------
    messages : Messages from below, from `upward`
    outer : numbers from above, from `downward`
    prob : posterior probability of the set, in (0, 1]
    counts : (unit,) counts whose membership in the sets is tested

    Returns
    -------
    (lowest, highest, mass, gaps, holds), each (unit,): ends of the set, its probability, the number of counts between
    the ends that are not in it, and whether the unit's entry of `counts` is in it
    """
    n = messages.windows.size
    ends = np.zeros((3, n), np.int64)
    mass = np.zeros(n)
    holds = np.zeros(n, np.bool_)
    for v in range(n):
        window = messages.windows[v]
        pmf = numbers_of(messages, v).copy()
        total = 0.0
        for k in range(window.size):
            pmf[k] *= outer[window.place + k]
            total += pmf[k]
        held, taken, lowest, highest = 0.0, 0, window.size, -1
        while taken < window.size and (taken == 0 or held < prob * total):
            k = place_of_largest(pmf)
            held += pmf[k]
            pmf[k] = -1.0
            lowest, highest = min(lowest, k), max(highest, k)
            holds[v] |= window.low + k == counts[v]
            taken += 1
        ends[0, v], ends[1, v], ends[2, v] = window.low + lowest, window.low + highest, highest - lowest + 1 - taken
        mass[v] = held / total
    return ends[0], ends[1], mass, ends[2], holds


@compiled
def rate_posteriors(L, messages, outer):
    """Posterior weights of the rates in every unit within which leaves share one.

    Parameters
    ----------
    L : Layout of one cell
    messages : Messages from below, from `upward`
    outer : numbers from above, from `downward`

    Returns
    -------
    (unit, rate): probabilities, each row summing to 1; NaN where no leaf is a draw of a shared rate
    """
    weights = np.full((L.units.size, L.rates.size), np.nan)
    for v in range(L.units.size):
        n = L.units[v].sharing
        if n == 0:
            continue
        weights[v] = 0.0
        window = messages.windows[v]
        inner_values, outer_values = numbers_of(messages, v), outer[window.place : window.place + window.size]
        for k in range(window.size):
            x = window.low + k - L.units[v].settled
            log = log_rate_mixture(L, n, x)
            for j in range(L.rates.size):
                rate = L.rates[j]
                share = math.exp(rate.log_weight + n * rate.log_norm + rate.eta * x - log)
                weights[v, j] += inner_values[k] * outer_values[k] * share
        weights[v] /= weights[v].sum()
    return weights
