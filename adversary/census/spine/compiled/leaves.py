r"""Compiled: the law of one leaf's count in a tilt, walked out from its top with a bound on what is left out.

.. math::

    w(x) = \text{prior}(x) \exp(-\rho (y - x)^2 - \alpha |y - x| - t x)

has the ratio w(x+1)/w(x) = exp(rho (2y - 2x - 1) - t) (slope x + start) / (x + 1), whose first factor shrinks by
exp(-2 rho) per step: one exponential per leaf. A geometric series with the last ratio bounds either tail; where the
prior's factor is not monotone the wrong way, its limit takes its place.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.layout import UNBOUNDED, log_likelihood

_, inner = compilers(__file__)

# Steps after which the exponential is worked out anew, so that its rounding does not add up.
FRESH = 16
LEAST = 1e-300
"""Of a tail that is not empty, however small: one that underflows would be taken for none, and bound nothing."""

# Steps after which a walk gives up, its tail large: two windows of so many counts are more than can be combined.
LONGEST = 1 << 20


@inner
def log_ratio(L, v, t, x):
    """log w(x + 1) / w(x)."""
    side = L.units[v].alpha if x >= L.units[v].released else -L.units[v].alpha
    steep = L.units[v].rho * (2.0 * (L.units[v].released - x) - 1.0) - side - t
    return steep + math.log((L.units[v].slope * x + L.units[v].start) / (x + 1.0))


@inner
def mode_of(L, v, t, x):
    """A count from which w falls on both sides, sought in growing steps from x."""
    low, high = L.units[v].low, L.units[v].high
    x = min(max(x, low), high)
    step = 1
    if x < high and log_ratio(L, v, t, x) > 0.0:
        while x + step < high and step < UNBOUNDED and log_ratio(L, v, t, x + step) > 0.0:
            x += step
            step *= 2
        far = min(x + step, high)
        while far - x > 1:
            middle = (x + far) // 2
            if log_ratio(L, v, t, middle) > 0.0:
                x = middle
            else:
                far = middle
        return far
    while x > low and log_ratio(L, v, t, x - 1) <= 0.0:
        near = max(x - step, low)
        if near > low and log_ratio(L, v, t, near - 1) <= 0.0:
            x = near
            step *= 2
            continue
        while x - near > 1 and log_ratio(L, v, t, x - 1) <= 0.0:
            middle = (x + near) // 2
            if log_ratio(L, v, t, middle - 1) <= 0.0:
                x = middle
            else:
                near = middle
        if x - near == 1 and log_ratio(L, v, t, near) <= 0.0:
            x = near
        break
    return x


@inner
def first_guess(L, v, t):
    """Approximate mode of a leaf's law under the tilt t."""
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
def walk(L, v, t, mode, tau, out):
    """(lowest, highest, sum, first, second moment about the mode, tails) of w / w(mode).

    A walk ends where the bound on its tail is below tau / 4 of the sum. `out` is filled as a ring that begins at the
    mode, out[(x - mode) % out.size] = w(x) / w(mode): whole if it is no shorter than the window.
    """
    rho, alpha, released = L.units[v].rho, L.units[v].alpha, L.units[v].released
    slope, start, low, high = L.units[v].slope, L.units[v].start, L.units[v].low, L.units[v].high
    shrink = math.exp(-2.0 * rho)
    rising, falling = math.exp(alpha), math.exp(-alpha)
    total, first, second, tails = 1.0, 0.0, 0.0, 0.0
    x, w, e, k = mode, 1.0, 0.0, 0
    steep_limit = slope
    while x < high:
        if k % FRESH == 0:
            e = math.exp(rho * (2.0 * (released - x) - 1.0) - t)
        side = 1.0
        if alpha > 0.0:
            side = falling if x >= released else rising
        factor = (slope * x + start) / (x + 1.0)
        bound = e * side * max(factor, steep_limit)
        if (bound < 1.0 and w * bound <= 0.25 * tau * total * (1.0 - bound)) or k > LONGEST:
            tails += max(w * bound / (1.0 - bound), LEAST) if bound < 1.0 else np.inf
            break
        w *= e * side * factor
        x += 1
        k += 1
        e *= shrink
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
            e = math.exp(-(rho * (2.0 * (released - x) + 1.0) - t))
        side = 1.0
        if alpha > 0.0:
            side = rising if x > released else falling
        factor = x / (slope * (x - 1.0) + start)
        bound = e * side * max(factor, flat)
        if (bound < 1.0 and w * bound <= 0.25 * tau * total * (1.0 - bound)) or k > LONGEST:
            tails += max(w * bound / (1.0 - bound), LEAST) if bound < 1.0 else np.inf
            break
        w *= e * side * factor
        x -= 1
        k += 1
        e *= shrink
        total += w
        first -= k * w
        second += float(k) * k * w
        if out.size > 0 and k < out.size:
            out[out.size - k] = w
    return x, highest, total, first, second, tails


@inner
def log_at_mode(L, v, t, mode):
    """log w(mode), the prior's own constant with it."""
    slope, start = L.units[v].slope, L.units[v].start
    prior = L.units[v].base
    if mode > 0 and not (slope == 1.0 and start == 1.0):
        if slope > 0.0:
            a = start / slope
            prior += mode * math.log(slope) + math.lgamma(mode + a) - math.lgamma(a) - math.lgamma(mode + 1.0)
        else:
            prior += mode * math.log(start) - math.lgamma(mode + 1.0)
    return prior + log_likelihood(L, v, mode) - t * mode
