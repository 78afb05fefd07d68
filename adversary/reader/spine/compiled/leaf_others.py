r"""Compiled: what all others say of a leaf's count where one person more than the leaves' law is in it.

A reader who does not know the others of leaf b expects x of them by the leaf's law. With the person, the count is
x + 1: the law at x + 1 is replaced by that at x. Where leaves share a rate, so is the law H of their total X:

.. math:: \text{lifted}_b(x) = \sum_X \text{out}_b(x, X) \frac{H(X - 1)}{H(X)}

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.reader.spine.compiled.count_windows import combine, correlate, largest_of, numbers_of
from adversary.reader.spine.compiled.decorator import compiled, inner
from adversary.reader.spine.compiled.layout import log_factor, log_rates, tilt_above
from adversary.reader.spine.compiled.messages import room_for, told_to_root


@inner
def scale_both(one, two):
    """Divide two arrays by the largest number of the first, if there is any."""
    top = largest_of(one)
    if top > 0.0:
        for k in range(one.size):
            one[k] /= top
            two[k] /= top


@inner
def tell_both(room, told, lifted, u, one, other):
    """What entry u was told, both ways, handed on to one of its two parts with the other summed out."""
    above, below = room.windows[u], room.windows[one]
    here, there = slice(above.place, above.place + above.size), slice(below.place, below.place + below.size)
    shift = below.low + room.windows[other].low - above.low
    correlate(told[here], numbers_of(room, other), shift, told[there])
    correlate(lifted[here], numbers_of(room, other), shift, lifted[there])
    scale_both(told[there], lifted[there])


@compiled
def one_more(L, theta, tau, messages, top_low, top):
    """Downward messages without and with one person more than the law of the leaves, on one scale for each unit.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, as `upward` left them
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    top_low, top : lowest count, and the numbers from there on, of the message to the root; empty if nothing is outside

    Returns
    -------
    (outer, lifted): numbers laid out as `messages.data`, on the same windows; equal where no rate is shared above
    """
    outer = told_to_root(messages, top_low, top)
    raised = outer.copy()
    room = room_for(L)
    told, lifted = np.empty(4096), np.empty(4096)
    for v in range(L.units.size):
        n = L.units[v].children
        if n == 0:
            continue
        drop = tilt_above(L, theta, v) - theta[v]
        room = combine(L.units[v].first, n, messages, tau, room)
        if told.size < room.data.size:
            told, lifted = np.empty(room.data.size), np.empty(room.data.size)
        own, whole = messages.windows[v], room.windows[2 * n - 2]
        for k in range(whole.size):
            told[whole.place + k] = lifted[whole.place + k] = 0.0
        peak = -np.inf
        for k in range(own.size):
            if 0 <= own.low + k - whole.low < whole.size:
                peak = max(peak, log_factor(L, v, own.low + k) - drop * (own.low + k))
        sharing = L.units[v].sharing
        for k in range(own.size):
            x = own.low + k
            if 0 <= x - whole.low < whole.size:
                factor, i = math.exp(log_factor(L, v, x) - drop * x - peak), whole.place + x - whole.low
                told[i] = outer[own.place + k] * factor
                lifted[i] = raised[own.place + k] * factor
                if sharing > 0:
                    lifted[i] *= math.exp(log_rates(L, sharing, x - 1) - log_rates(L, sharing, x)) if x > 0 else 0.0
        here = slice(whole.place, whole.place + whole.size)
        scale_both(told[here], lifted[here])
        for u in range(2 * n - 2, n - 1, -1):
            left, right = 2 * (u - n), 2 * (u - n) + 1
            tell_both(room, told, lifted, u, left, right)
            tell_both(room, told, lifted, u, right, left)
        for k in range(n):
            child, entry = messages.windows[L.units[v].first + k], room.windows[k]
            for i in range(child.size):
                outer[child.place + i] = told[entry.place + i]
                raised[child.place + i] = lifted[entry.place + i]
    return outer, raised
