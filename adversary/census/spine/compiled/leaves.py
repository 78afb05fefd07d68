r"""Compiled: the tilted distribution of one leaf's count, traced outwards from its mode, with a bound on both tails.

.. math::

    w(x) = \text{prior}(x) \exp(-\rho (y - x)^2 - \alpha |y - x| - t x)

has the ratio w(x+1)/w(x) = exp(rho (2y - 2x - 1) - t) (slope x + start) / (x + 1) for alpha = 0. The first factor
shrinks by exp(-2 rho) per step, so one exponential per leaf is enough. A geometric series with the last ratio bounds
either tail; where the prior's ratio still grows towards its limit, the limit replaces it.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.layout import UNBOUNDED, log_likelihood

_, inner = compilers(__file__)

# Steps after which the exponential is computed afresh, so that rounding errors do not accumulate.
FRESH = 16
LEAST = 1e-300
"""Smallest bound on a tail that is not empty: a bound that underflows to 0 would claim that the tail is empty."""

# Steps after which the trace stops with a large tail bound: two windows of this size are too large to convolve.
LONGEST = 1 << 20


@inner
def log_ratio(L, v, t, x):
    """log w(x + 1) / w(x) of a leaf under tilt t."""
    side = L.units[v].alpha if x >= L.units[v].released else -L.units[v].alpha
    slope = L.units[v].rho * (2.0 * (L.units[v].released - x) - 1.0) - side - t
    return slope + math.log((L.units[v].slope * x + L.units[v].start) / (x + 1.0))


@inner
def leaf_mode(L, v, t, x):
    """A local maximum of w, by doubling steps from x and then bisection."""
    low, high = L.units[v].low, L.units[v].high
    x = min(max(x, low), high)
    step = 1
    if x < high and log_ratio(L, v, t, x) > 0.0:
        while x + step < high and step < UNBOUNDED and log_ratio(L, v, t, x + step) > 0.0:
            x += step
            step *= 2
        above = min(x + step, high)
        while above - x > 1:
            middle = (x + above) // 2
            if log_ratio(L, v, t, middle) > 0.0:
                x = middle
            else:
                above = middle
        return above
    while x > low and log_ratio(L, v, t, x - 1) <= 0.0:
        below = max(x - step, low)
        if below > low and log_ratio(L, v, t, below - 1) <= 0.0:
            x = below
            step *= 2
            continue
        while x - below > 1 and log_ratio(L, v, t, x - 1) <= 0.0:
            middle = (x + below) // 2
            if log_ratio(L, v, t, middle - 1) <= 0.0:
                x = middle
            else:
                below = middle
        if x - below == 1 and log_ratio(L, v, t, below) <= 0.0:
            x = below
        break
    return x


@inner
def approximate_mode(L, v, t):
    """Approximate mode of a leaf's distribution under tilt t."""
    if L.units[v].rho > 0.0:
        guess = L.units[v].released - t / (2.0 * L.units[v].rho)
    elif L.units[v].alpha > 0.0:
        guess = L.units[v].released
    else:
        decay = math.exp(-t)
        guess = (
            (L.units[v].start * decay - 1.0) / (1.0 - L.units[v].slope * decay)
            if L.units[v].slope * decay < 1.0
            else float(L.units[v].high)
        )
    return int(min(max(guess, 0.0), 1e15))


@inner
def trace_leaf_weights(L, v, t, mode, tau, out):
    """Trace w / w(mode) from the mode outwards until the bound on each tail is below tau / 4 of the sum.

    Returns (lowest, highest, sum, first moment, second moment, tails): ends of the window, moments about the mode, and
    the bound on the mass outside. `out` is filled as a ring buffer that begins at the mode,
    out[(x - mode) % out.size] = w(x) / w(mode); it holds the whole window if it is no shorter.
    """
    rho, alpha, released = L.units[v].rho, L.units[v].alpha, L.units[v].released
    slope, start, low, high = L.units[v].slope, L.units[v].start, L.units[v].low, L.units[v].high
    shrink = math.exp(-2.0 * rho)
    rising, falling = math.exp(alpha), math.exp(-alpha)
    total, first, second, tails = 1.0, 0.0, 0.0, 0.0
    x, w, decay, k = mode, 1.0, 0.0, 0
    steep_limit = slope
    while x < high:
        if k % FRESH == 0:
            decay = math.exp(rho * (2.0 * (released - x) - 1.0) - t)
        side = 1.0
        if alpha > 0.0:
            side = falling if x >= released else rising
        factor = (slope * x + start) / (x + 1.0)
        bound = decay * side * max(factor, steep_limit)
        if (bound < 1.0 and w * bound <= 0.25 * tau * total * (1.0 - bound)) or k > LONGEST:
            tails += max(w * bound / (1.0 - bound), LEAST) if bound < 1.0 else np.inf
            break
        w *= decay * side * factor
        x += 1
        k += 1
        decay *= shrink
        total += w
        first += k * w
        second += float(k) * k * w
        if out.size > 0 and k < out.size:
            out[k] = w
    highest = x
    x, w, k = mode, 1.0, 0
    flat = 1.0 / start
    while x > low:
        if k % FRESH == 0:
            decay = math.exp(-(rho * (2.0 * (released - x) + 1.0) - t))
        side = 1.0
        if alpha > 0.0:
            side = rising if x > released else falling
        factor = x / (slope * (x - 1.0) + start)
        bound = decay * side * max(factor, flat)
        if (bound < 1.0 and w * bound <= 0.25 * tau * total * (1.0 - bound)) or k > LONGEST:
            tails += max(w * bound / (1.0 - bound), LEAST) if bound < 1.0 else np.inf
            break
        w *= decay * side * factor
        x -= 1
        k += 1
        decay *= shrink
        total += w
        first -= k * w
        second += float(k) * k * w
        if out.size > 0 and k < out.size:
            out[out.size - k] = w
    return x, highest, total, first, second, tails


@inner
def log_at_mode(L, v, t, mode):
    """log w(mode), including the normalising constant of the prior."""
    slope, start = L.units[v].slope, L.units[v].start
    prior = L.units[v].base
    if mode > 0 and not (slope == 1.0 and start == 1.0):
        if slope > 0.0:
            a = start / slope
            prior += mode * math.log(slope) + math.lgamma(mode + a) - math.lgamma(a) - math.lgamma(mode + 1.0)
        else:
            prior += mode * math.log(start) - math.lgamma(mode + 1.0)
    return prior + log_likelihood(L, v, mode) - t * mode
