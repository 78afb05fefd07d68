r"""Compiled: what everybody but one leaf says about that leaf's count, with a bound on its error.

For leaf b with x people under unit v, whose other children together have y,

.. math::

    \text{out}_b(x) \propto \sum_y S_b(y)\, H_v(y + k)\, L_v(x + y)\, \text{out}_v(x + y)

with the sum S_b of its siblings, the likelihood L_v and, where leaves share a rate, the law H of the total of all
leaves, with the k people whom the reader knows in this one: they are draws of the rate, the person in question, x of
them or not, is none. Every part is known up to something non-negative that was left out: mass at most R of S_b, at most
e_v(X) of out_v at X, and beyond the window on which out_v is kept no more than its largest value. So the truth lies
between what is found and what is found plus the error.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.count_windows import (
    NO_LIMIT,
    WINDOW,
    bystanders,
    combine,
    correlate,
    enlarge,
    largest_of,
    numbers_of,
)
from adversary.census.spine.compiled.layout import (
    UNBOUNDED,
    likelihood_slope,
    log_likelihood,
    log_peak,
    log_peak_within,
    log_rates,
    sharers,
    tilt_above,
    trim_at,
)
from adversary.census.spine.compiled.messages import room_for

compiled, inner = compilers(__file__)

# Units are followed on windows wider than their own by so many times its width on either side.
WIDER = 2
FAR = 200.0
"""Nats below its peak at which a unit's own factor is negligible."""

# Logs beyond which an exponential is not worked out.
HIGHEST = 700.0

# At least what a product of factors up to 1 loses where doubles become subnormal.
UNDERFLOW = 1e-307


class RootMessage(NamedTuple):
    """Message to one unit: from count `low` on, values, what they lack, and the most beyond them."""

    low: Any
    value: Any
    lack: Any
    most: Any


class OutsideMessages(NamedTuple):
    """Messages to internal units: windows, values, what they lack; the most beyond a window, and the log scale."""

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
    """Downward message of the root, 1 everywhere or `top`, and the number of entries in use."""
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
def told_by(L, v, drop, leaves, more, outside):
    """(value, lack, most beyond, log scale) on a unit's window: its message times its own factor, at most 1.

    more : people who are no draws of a rate that is shared here, beside those in settled leaves
    """
    window, apart = outside.windows[v], L.units[v].settled + more
    value, lack = np.full(window.size, -np.inf), np.full(window.size, -np.inf)
    for k in range(window.size):
        total = window.low + k
        if L.units[v].low <= total <= L.units[v].high and total >= apart:
            log = log_likelihood(L, v, total) - drop * total
            if leaves >= 0:
                log += log_rates(L, leaves, total - apart)
            value[k] = log + log_of(outside.value[window.place + k])
            lack[k] = log + log_of(outside.lack[window.place + k])
    # that of the product: the factor's own may lie where the message is zero
    peak = largest_of(value)
    peak = peak if peak > -np.inf else 0.0
    for k in range(window.size):
        value[k], lack[k] = math.exp(value[k] - peak), math.exp(min(lack[k] - peak, HIGHEST))
    beyond = log_beyond(L, v, drop, leaves, more, window) + log_of(outside.most[v]) - peak
    return value, lack, math.exp(min(beyond, HIGHEST)), peak


@inner
def log_of(value):
    """Its log, -inf of 0."""
    return math.log(value) if value > 0.0 else -np.inf


@inner
def log_beyond(L, v, drop, leaves, x, window):
    """`log_peak` over the counts off a window."""
    under = log_peak_within(L, v, drop, leaves, x, np.int64(0), window.low - 1)
    over = log_peak_within(L, v, drop, leaves, x, window.low + window.size, np.int64(UNBOUNDED))
    return max(under, over)


@inner
def falls_off(L, v, drop, window):
    """True if a unit's own likelihood is negligible off its window, so that the others are not needed there."""
    if L.units[v].low == L.units[v].high:
        return window.low <= L.units[v].low < window.low + window.size
    leaves, zero = sharers(L, v), np.int64(0)
    return (
        L.units[v].rho > 0.0 and log_beyond(L, v, drop, leaves, zero, window) < log_peak(L, v, drop, leaves, zero) - FAR
    )


@inner
def most_beyond(outer, others, shift, low, size, beyond):
    """Bound on the sum over z of others[z] outer[i + z + shift], for all i < 0 and all i >= size.

    Beyond its ends outer is at most `beyond`, and within them at most its largest value up to where i = -1 meets it, or
    from where i = size does.
    """
    below, above = 0.0, 0.0
    top, place = beyond, 0
    for z in range(others.size if low > 0 else 0):
        while place < min(z + shift, outer.size):
            top = max(top, outer[place])
            place += 1
        below += others[z] * top
    top, place = beyond, outer.size
    for z in range(others.size - 1, -1, -1):
        while place > max(size + z + shift, 0):
            place -= 1
            top = max(top, outer[place])
        above += others[z] * top
    return max(below, above) + others.size * UNDERFLOW


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
    largest = max(largest_of(value + lack), beyond)
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
        lacks[used + i] += left_out * largest + beyond * (under[first] + over[last])
        lacks[used + i] += others.size * UNDERFLOW
    most = left_out * largest + most_beyond(value + lack, others, shift, to.low, to.size, beyond)
    top = largest_of(values[used : used + to.size])
    scale = top if top > 0.0 else 1.0
    for i in range(to.size):
        values[used + i] /= scale
        lacks[used + i] /= scale
    outside.most[b] = most / scale
    outside.scale[b] = outside.scale[v] + peak + math.log(scale)
    return OutsideMessages(outside.windows, values, lacks, outside.most, outside.scale), used + to.size


@inner
def handed_on(L, b, known, on_way):
    """True if a unit on the way to an answer needs a downward message: it has children, or it is marked (-2)."""
    return on_way[b] and (L.units[b].children > 0 or known[b] < -1)


@compiled
def memberships(L, theta, tau, messages, known, more, top):
    """Likelihood of a leaf's count, and of one more, given everybody but that leaf, with a bound on the error.

    Only units on the way to leaves that are asked about, or marked, are visited.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, from `saddle`
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    known : (unit,) counts of the leaves asked about; -1: not asked, -2: an internal unit whose message is wanted
    more : -1; or, of leaves whose rate is shared above their parent, which count is answered: 0, that known, or 1, one
        more, who is no draw of the rate
    top : Told, the message to the root; without numbers if nothing is outside the tree

    Returns
    -------
    (answer, lacking, outside): log likelihood (unit, 2) at the known count and one more, NaN where not asked, and the
    log of what it may lack, both up to one constant; Outside, the downward messages of internal units
    """
    n = L.units.size
    on_way = known != -1
    for v in range(n - 1, 0, -1):
        if on_way[v]:
            on_way[L.units[v].parent] = True
    answer, lacking = np.full((n, 2), np.nan), np.full((n, 2), np.inf)
    outside, used = at_root(n, messages.windows[0], top)
    room, spare = room_for(L), room_for(L)
    for v in range(n):
        unit = L.units[v]
        if unit.children == 0 or not on_way[v]:
            continue
        trim = trim_at(L, tau, v)
        room = combine(unit.first, unit.children, messages, trim, room)
        drop = tilt_above(L, theta, v) - theta[v]
        inner, queries = 0, 0
        for k in range(unit.children):
            inner += handed_on(L, unit.first + k, known, on_way)
            queries += known[unit.first + k] >= 0
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
            leaves, apart = sharers(L, v), np.int64(more > 0 and unit.sharing > 0)
            value, lack, beyond, peak = told_by(L, v, drop, leaves, apart, outside)
            for k in range(unit.children):
                if handed_on(L, unit.first + k, known, on_way):
                    window = messages.windows[unit.first + k]
                    outside, used = hand_on(L, v, k, value, lack, beyond, peak, spare, window, outside, used)
        if queries > 0:
            ask(L, v, theta, messages.windows[v], spare, known, more, near, outside, answer, lacking)
    return answer, lacking, outside


@inner
def others_weight(L, v, known, count, drop, spare):
    """(lowest, logs): exp(-drop y) H(y + count), y the siblings' total, for all leaves with that count known."""
    start, stop = np.int64(UNBOUNDED), np.int64(0)
    for k in range(L.units[v].children):
        if known[L.units[v].first + k] == count:
            start = min(start, spare.windows[k].low)
            stop = max(stop, spare.windows[k].low + spare.windows[k].size)
    weight = np.empty(stop - start)
    for i in range(weight.size):
        weight[i] = -drop * (start + i)
        if L.units[v].sharing > 0:
            weight[i] += log_rates(L, L.units[v].sharing, start + i + count - L.units[v].settled)
    return start, weight


@inner
def ask(L, v, theta, likely_at, spare, known, more, near, outside, answer, lacking):
    """Fill in the answers of the leaves below one unit, whose total is likely to be in one window.

    exp(-drop y) is split, exp(-steep (x + y)) going with the likelihood and the rest with the others' law, so that
    neither is tiny where their product counts. Over all that the others may have in all, their law's weight still runs
    through more than doubles hold: it is scaled anew for every count, by what meets the likelihood's window. With
    `near`, the others' sums are those that meet the window, and what lies beyond is bounded as if all of them did.
    """
    unit, window = L.units[v], outside.windows[v]
    t = tilt_above(L, theta, v)
    drop = t - theta[v]
    leaves = sharers(L, v)
    value = outside.value[window.place : window.place + window.size]
    lack = outside.lack[window.place : window.place + window.size]
    most = max(outside.most[v], largest_of(value + lack))
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
    scaled, last_known = np.empty(window.size), np.int64(-1)
    start, weight = np.int64(0), np.empty(0)
    for k in range(unit.children):
        b = unit.first + k
        if L.units[b].children > 0 or known[b] < 0:
            continue
        if known[b] != last_known:
            last_known = known[b]
            start, weight = others_weight(L, v, known, last_known, drop - steep, spare)
        others, place = numbers_of(spare, k), spare.windows[k]
        weights = weight[place.low - start : place.low - start + place.size]
        for i in range(2):
            if more >= 0 and i != more:
                continue
            x = known[b] + i
            shift = place.low + x - window.low
            first, last = min(max(0, -shift), place.size), max(0, min(place.size, window.size - shift))
            top = largest_of(weights[first:last] if last > first else weights)
            for z in range(first, last):
                scaled[z - first] = math.exp(weights[z] - top)
            density, miss = overlap(others[first:last], scaled, seen[max(0, shift) :], unseen[max(0, shift) :])
            if near:
                beyond = log_beyond(L, v, drop, leaves, np.int64(i), window) + (drop - steep) * x - top - summit
                miss += outside.most[v] * math.exp(min(beyond, HIGHEST))
            elif outside.most[v] > 0.0:
                for z in range(place.size):
                    total = shift + z + window.low
                    if (z < first or z >= last) and unit.low <= total <= unit.high:
                        log = log_likelihood(L, v, total) - steep * total - summit + weights[z] - top
                        miss += others[z] * outside.most[v] * math.exp(min(log, HIGHEST))
            largest = log_peak(L, v, drop, leaves, np.int64(i)) + (drop - steep) * x - top - summit
            miss += place.dropped * most * math.exp(min(largest, HIGHEST)) + place.size * UNDERFLOW
            scale = outside.scale[v] + top + summit - (t - steep) * x
            answer[b, i], lacking[b, i] = log_of(density) + scale, math.log(miss) + scale


@inner
def overlap(others, weights, seen, unseen):
    """Sums over z of others[z] weights[z] times seen[z] and times unseen[z]."""
    total, miss = 0.0, 0.0
    for z in range(others.size):
        w = others[z] * weights[z]
        total += w * seen[z]
        miss += w * unseen[z]
    return total, miss
