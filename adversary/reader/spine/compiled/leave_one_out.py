r"""Compiled: what everybody but one leaf says about that leaf's count, with a bound on its error.

For leaf b with x people under unit v, whose other children together have y,

.. math::

    \text{out}_b(x) \propto \sum_y S_b(y)\, H'_v(y)\, L_v(x + y)\, \text{out}_v(x + y)

with the sum S_b of its siblings, the likelihood L_v and, where leaves share a rate, the law H' of the total of the
others. Every part is known up to something non-negative that was left out: mass at most R of S_b, at most e_v(X) of
out_v at X, and beyond the window on which out_v is kept no more than its largest value. So the truth lies between what
is found and what is found plus the error.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers
from adversary.reader.spine.compiled.count_windows import (
    NO_LIMIT,
    WINDOW,
    bystanders,
    combine,
    correlate,
    enlarge,
    largest_of,
    numbers_of,
)
from adversary.reader.spine.compiled.layout import (
    UNBOUNDED,
    likelihood_slope,
    log_likelihood,
    log_peak,
    log_peak_within,
    log_rates,
    tilt_above,
    trim_at,
)
from adversary.reader.spine.compiled.messages import room_for

compiled, inner = compilers(__file__)

WIDER = 2
"""Units are followed on windows wider than their own by so many times its width on either side."""
FAR = 200.0
"""Nats below its peak at which a unit's own factor need not be told apart from nothing."""
HIGHEST = 700.0
"""Logs beyond which an exponential is not worked out."""
UNDERFLOW = 1e-307
"""At least what a product of factors up to 1 loses where doubles become subnormal."""


class RootMessage(NamedTuple):
    """What one unit is told: from count `low` on, values, what they lack, and the most beyond them."""

    low: Any
    value: Any
    lack: Any
    most: Any


class OutsideMessages(NamedTuple):
    """What internal units are told: windows, values, what they lack; the most beyond a window, and the log scale."""

    windows: Any
    value: Any
    lack: Any
    most: Any
    scale: Any


@inner
def wider(window):
    """(lowest, size) of a window with more room on either side."""
    first = max(0, window.low - WIDER * window.size)
    return first, window.low + window.size + WIDER * window.size - first


@inner
def at_root(n, root, top):
    """What the root is told: nothing, which is 1 everywhere, or `top`; and the numbers in use."""
    windows, most = np.zeros(n, WINDOW), np.ones(n)
    low, size = wider(root)
    if top.value.size > 0:
        low, size, most[0] = top.low, top.value.size, top.most
    windows[0].low, windows[0].size = low, size
    value, lack = np.ones(size + 8 * n), np.zeros(size + 8 * n)
    for k in range(top.value.size):
        value[k], lack[k] = top.value[k], top.lack[k]
    return OutsideMessages(windows, value, lack, most, np.zeros(n)), size


@inner
def told_by(L, v, drop, leaves, gone, outside, peak):
    """(value, lack, most beyond) on a unit's window: what it is told times its own factor, scaled to at most 1."""
    window = outside.windows[v]
    value, lack = np.zeros(window.size), np.zeros(window.size)
    for k in range(window.size):
        total = window.low + k
        if L.units[v].low <= total <= L.units[v].high and total >= gone:
            log = log_likelihood(L, v, total) - drop * total - peak
            if leaves >= 0:
                log += log_rates(L, leaves, total - gone)
            factor = math.exp(log)
            value[k] = outside.value[window.place + k] * factor
            lack[k] = outside.lack[window.place + k] * factor
    return value, lack, outside.most[v] * math.exp(log_beyond(L, v, drop, leaves, gone, window) - peak)


@inner
def log_beyond(L, v, drop, leaves, x, window):
    """`log_peak` over the counts off a window."""
    under = log_peak_within(L, v, drop, leaves, x, np.int64(0), window.low - 1)
    over = log_peak_within(L, v, drop, leaves, x, window.low + window.size, np.int64(UNBOUNDED))
    return max(under, over)


@inner
def falls_off(L, v, drop, window):
    """Whether a unit's own likelihood leaves so little off its window that the others need not be followed there."""
    if L.units[v].low == L.units[v].high:
        return window.low <= L.units[v].low < window.low + window.size
    leaves = L.units[v].sharing if L.units[v].sharing > 0 else np.int64(-1)
    zero = np.int64(0)
    return (
        L.units[v].rho > 0.0 and log_beyond(L, v, drop, leaves, zero, window) < log_peak(L, v, drop, leaves, zero) - FAR
    )


@inner
def hand_on(L, v, k, value, lack, beyond, peak, spare, window, outside, used):
    """Tell child k of a unit, itself with children, what all others say; the arrays and numbers in use."""
    b = L.units[v].first + k
    to = outside.windows[b]
    to.low, to.size = wider(window)
    to.place = used
    values = enlarge(outside.value, used, used + to.size)
    lacks = enlarge(outside.lack, used, used + to.size)
    others, left_out = numbers_of(spare, k), spare.windows[k].dropped
    shift = to.low + spare.windows[k].low - outside.windows[v].low
    correlate(value, others, shift, values[used : used + to.size])
    correlate(lack, others, shift, lacks[used : used + to.size])
    under, over = np.zeros(others.size + 1), np.zeros(others.size + 1)
    for z in range(others.size):
        under[z + 1] = under[z] + others[z]
        over[others.size - 1 - z] = over[others.size - z] + others[others.size - 1 - z]
    for i in range(to.size):
        first = min(max(0, -shift - i), others.size)
        last = min(max(0, value.size - shift - i), others.size)
        lacks[used + i] += left_out * outside.most[v] + beyond * (under[first] + over[last])
        lacks[used + i] += others.size * UNDERFLOW
    largest = 0.0
    for i in range(to.size):
        largest = max(largest, values[used + i])
    scale = largest if largest > 0.0 else 1.0
    for i in range(to.size):
        values[used + i] /= scale
        lacks[used + i] /= scale
    outside.most[b] = outside.most[v] * (1.0 + left_out) / scale
    outside.scale[b] = outside.scale[v] + peak + math.log(scale)
    return OutsideMessages(outside.windows, values, lacks, outside.most, outside.scale), used + to.size


@inner
def handed_on(L, b, known, on_way):
    """Whether a unit is to be told what all others say: it lies on the way to an answer, or it is marked (-2)."""
    return on_way[b] and (L.units[b].children > 0 or known[b] < -1)


@compiled
def memberships(L, theta, tau, messages, known, gone, top):
    """Likelihood of a leaf's count, and of one more, given everybody but that leaf, with a bound on the error.

    Only units on the way to leaves that are asked about, or marked, are visited.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, from `saddle`
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    known : (unit,) counts of the leaves asked about; -1: not asked, -2: an internal unit whose message is wanted
    gone : -1, or a count that leaves are taken to have where their rate is shared above their parent; only leaves with
        that count are then answered
    top : Told, the message to the root; without numbers if nothing is outside the tree

    Returns
    -------
    (answer, error, outside): log likelihood (unit, 2) at the known count and one more, up to a constant, NaN where not
    asked; errors (unit, 2), relative to it; Outside, the downward messages of internal units
    """
    n = L.units.size
    on_way = known != -1
    for v in range(n - 1, 0, -1):
        if on_way[v]:
            on_way[L.units[v].parent] = True
    answer, error = np.full((n, 2), np.nan), np.full((n, 2), np.inf)
    outside, used = at_root(n, messages.windows[0], top)
    room, spare = room_for(L), room_for(L)
    for v in range(n):
        unit = L.units[v]
        if unit.children == 0 or not on_way[v]:
            continue
        trim = trim_at(L, tau, v)
        room = combine(unit.first, unit.children, messages, trim, room)
        drop = tilt_above(L, theta, v) - theta[v]
        inner, asked = 0, 0
        for k in range(unit.children):
            inner += handed_on(L, unit.first + k, known, on_way)
            asked += known[unit.first + k] >= 0
        near = inner == 0 and falls_off(L, v, drop, outside.windows[v])
        least, most = np.full(unit.children, -NO_LIMIT), np.full(unit.children, NO_LIMIT)
        if near:
            window = outside.windows[v]
            for k in range(unit.children):
                least[k] = window.low - known[unit.first + k] - 1
                most[k] = window.low + window.size - 1 - known[unit.first + k]
        wanted = on_way[unit.first : unit.first + unit.children]
        spare = bystanders(unit.children, room, trim, spare, wanted, least, most)
        if inner > 0:
            leaves = unit.sharing - (gone >= 0) if unit.sharing > 0 else np.int64(-1)
            absent = gone if gone > 0 and unit.sharing > 0 else np.int64(0)
            peak = log_peak(L, v, drop, leaves, absent)
            value, lack, beyond = told_by(L, v, drop, leaves, absent, outside, peak)
            for k in range(unit.children):
                if handed_on(L, unit.first + k, known, on_way):
                    window = messages.windows[unit.first + k]
                    outside, used = hand_on(L, v, k, value, lack, beyond, peak, spare, window, outside, used)
        if asked > 0:
            ask(L, v, theta, messages.windows[v], spare, known, gone, near, outside, answer, error)
    return answer, error, outside


@inner
def others_weight(L, v, known, leaves, drop, spare):
    """(lowest, logs): the law of the others' total at their parent, exp(-drop y) H'(y), as used below."""
    start, stop = np.int64(UNBOUNDED), np.int64(0)
    for k in range(L.units[v].children):
        if known[L.units[v].first + k] >= 0:
            start = min(start, spare.windows[k].low)
            stop = max(stop, spare.windows[k].low + spare.windows[k].size)
    weight = np.empty(stop - start)
    for i in range(weight.size):
        weight[i] = -drop * (start + i)
        if leaves >= 0:
            weight[i] += log_rates(L, leaves, start + i)
    return start, weight


@inner
def ask(L, v, theta, likely_at, spare, known, gone, near, outside, answer, error):
    """Fill in the answers of the leaves below one unit, whose total is likely to be in one window.

    exp(-drop y) is split, exp(-steep (x + y)) going with the likelihood and the rest with the others' law, so that
    neither is tiny where their product counts. Over all that the others may have in all, their law's weight still runs
    through more than doubles hold: it is scaled anew for every count, by what meets the likelihood's window. With
    `near`, the others' sums are those that meet the window, and what lies beyond is bounded as if all of them did.
    """
    unit, window = L.units[v], outside.windows[v]
    t = tilt_above(L, theta, v)
    drop = t - theta[v]
    leaves = unit.sharing - 1 if unit.sharing > 0 else np.int64(-1)
    value = outside.value[window.place : window.place + window.size]
    lack = outside.lack[window.place : window.place + window.size]
    most = max(outside.most[v], largest_of(value))
    steep = drop
    if leaves >= 0:
        steep = -likelihood_slope(L, v, likely_at.low + 0.5 * likely_at.size)[0]
    summit = log_peak(L, v, steep, np.int64(-1), np.int64(0))
    seen, unseen = np.zeros(window.size), np.zeros(window.size)
    for j in range(window.size):
        total = j + window.low
        if unit.low <= total <= unit.high:
            likely = math.exp(log_likelihood(L, v, total) - steep * total - summit)
            seen[j], unseen[j] = likely * value[j], likely * lack[j]
    start, weight = others_weight(L, v, known, leaves, drop - steep, spare)
    scaled = np.empty(window.size)
    for k in range(unit.children):
        b = unit.first + k
        if L.units[b].children > 0 or known[b] < 0:
            continue
        others, place = numbers_of(spare, k), spare.windows[k]
        weights = weight[place.low - start : place.low - start + place.size]
        for i in range(2):
            x = known[b] + i
            if gone >= 0 and x != gone:
                continue
            shift = place.low + x - window.low
            first, last = min(max(0, -shift), place.size), max(0, min(place.size, window.size - shift))
            top = largest_of(weights[first:last] if last > first else weights)
            for z in range(first, last):
                scaled[z - first] = math.exp(weights[z] - top)
            found, miss = overlap(others[first:last], scaled, seen[max(0, shift) :], unseen[max(0, shift) :])
            if near:
                beyond = log_beyond(L, v, drop, leaves, x, window) + (drop - steep) * x - top - summit
                miss += outside.most[v] * math.exp(min(beyond, HIGHEST))
            elif outside.most[v] > 0.0:
                for z in range(place.size):
                    total = shift + z + window.low
                    if (z < first or z >= last) and unit.low <= total <= unit.high:
                        log = log_likelihood(L, v, total) - steep * total - summit + weights[z] - top
                        miss += others[z] * outside.most[v] * math.exp(min(log, HIGHEST))
            largest = log_peak(L, v, drop, leaves, x) + (drop - steep) * x - top - summit
            miss += place.dropped * most * math.exp(min(largest, HIGHEST)) + place.size * UNDERFLOW
            answer[b, i] = (
                math.log(found) - (t - steep) * x + outside.scale[v] + top + summit if found > 0.0 else -np.inf
            )
            error[b, i] = miss / found if found > 0.0 else np.inf


@inner
def overlap(others, weights, seen, unseen):
    """Sums over z of others[z] weights[z] times seen[z] and times unseen[z]."""
    found, miss = 0.0, 0.0
    for z in range(others.size):
        w = others[z] * weights[z]
        found += w * seen[z]
        miss += w * unseen[z]
    return found, miss
