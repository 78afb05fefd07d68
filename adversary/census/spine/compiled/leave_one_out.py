r"""Compiled: leave-one-out messages, the likelihood of one leaf's count given all other leaves, with an error bound.

For leaf b with x people under unit v, whose other children together have y,

.. math::

    \text{out}_b(x) \propto \sum_y S_b(y)\, H_v(y + k)\, L_v(x + y)\, \text{out}_v(x + y)

with the convolution S_b of its siblings' messages, the likelihood L_v and, where leaves share a rate, the mixture H at
the total of all leaves. That total includes the k people whom the adversary knows to be in leaf b, since they are draws
of the rate; the target is not a draw. Truncation only ever leaves out non-negative terms: mass of at most R in S_b, at
most e_v(X) in out_v at X on its window, and at most the largest value of out_v outside it. So the exact value lies
between the computed one and the computed one plus the error.

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
    combine_children,
    correlate,
    enlarge,
    largest_of,
    leave_one_out_sums,
    numbers_of,
)
from adversary.census.spine.compiled.layout import (
    UNBOUNDED,
    likelihood_slope,
    log_factor_bound,
    log_factor_bound_within,
    log_likelihood,
    log_rate_mixture,
    sharing_leaves,
    tilt_above,
    trim_share,
)
from adversary.census.spine.compiled.messages import workspace_for

compiled, inner = compilers(__file__)

# Downward messages are computed on windows extended by this multiple of the width on either side: the adversary may
# know counts that the release makes unlikely.
WIDER = 2
FAR = 200.0
"""Nats below its maximum at which a unit's factor is negligible: exp(-200) is far below every error reported."""

# Exponents are capped here: exp overflows doubles at 709.
HIGHEST = 700.0

# Upper bound on what a product of factors of at most 1 loses to underflow (doubles are subnormal below 2.2e-308).
UNDERFLOW = 1e-307


class RootMessage(NamedTuple):
    """Message to one unit: lowest count, values, bounds on the error of each value, bound on values off the window."""

    low: Any
    value: Any
    missing: Any
    most: Any


class OutsideMessages(NamedTuple):
    """Messages to internal units: windows, values, bounds on their errors; bound off each window, and log scale."""

    windows: Any
    value: Any
    missing: Any
    most: Any
    scale: Any


@inner
def widened(window):
    """(lowest, size) of a window extended by `WIDER` times its size on either side."""
    first = max(0, window.low - WIDER * window.size)
    return first, window.low + window.size + WIDER * window.size - first


@inner
def root_messages(n, root, root_message):
    """Downward message of the root, 1 everywhere or `root_message`, and the number of entries in use."""
    windows, most = np.zeros(n, WINDOW), np.ones(n)
    low, size = widened(root)
    if root_message.value.size > 0:
        low, size, most[0] = root_message.low, root_message.value.size, root_message.most
    windows[0].low, windows[0].size = low, size
    value, missing = np.ones(size + 8 * n), np.zeros(size + 8 * n)
    for k in range(root_message.value.size):
        value[k], missing[k] = root_message.value[k], root_message.missing[k]
    return OutsideMessages(windows, value, missing, most, np.zeros(n)), size


@inner
def message_times_factor(L, v, net_tilt, leaves, extra, outside):
    """A unit's downward message times its own factor, on its window.

    extra : people in the unit, beside those in settled leaves, who are not draws of the rate shared within it

    Returns (value, missing, beyond, log scale): values scaled to a maximum of 1, bounds on their errors, and the bound
    outside the window.
    """
    window, undrawn = outside.windows[v], L.units[v].settled + extra
    value, missing = np.full(window.size, -np.inf), np.full(window.size, -np.inf)
    for k in range(window.size):
        total = window.low + k
        if L.units[v].low <= total <= L.units[v].high and total >= undrawn:
            log = log_likelihood(L, v, total) - net_tilt * total
            if leaves >= 0:
                log += log_rate_mixture(L, leaves, total - undrawn)
            value[k] = log + log_or_minus_inf(outside.value[window.place + k])
            missing[k] = log + log_or_minus_inf(outside.missing[window.place + k])
    # maximum of the product: the factor alone may be largest where the message is zero
    peak = largest_of(value)
    peak = peak if peak > -np.inf else 0.0
    for k in range(window.size):
        value[k], missing[k] = math.exp(value[k] - peak), math.exp(min(missing[k] - peak, HIGHEST))
    beyond = log_beyond(L, v, net_tilt, leaves, extra, window) + log_or_minus_inf(outside.most[v]) - peak
    return value, missing, math.exp(min(beyond, HIGHEST)), peak


@inner
def log_or_minus_inf(value):
    """log(value), -inf for 0."""
    return math.log(value) if value > 0.0 else -np.inf


@inner
def log_beyond(L, v, net_tilt, leaves, undrawn, window):
    """`log_factor_bound` over the counts outside a window."""
    under = log_factor_bound_within(L, v, net_tilt, leaves, undrawn, np.int64(0), window.low - 1)
    over = log_factor_bound_within(L, v, net_tilt, leaves, undrawn, window.low + window.size, np.int64(UNBOUNDED))
    return max(under, over)


@inner
def negligible_off_window(L, v, net_tilt, window):
    """True if a unit's own factor is negligible outside its window: sums of siblings are then not needed there."""
    if L.units[v].low == L.units[v].high:
        return window.low <= L.units[v].low < window.low + window.size
    leaves, zero = sharing_leaves(L, v), np.int64(0)
    return (
        L.units[v].rho > 0.0
        and log_beyond(L, v, net_tilt, leaves, zero, window) < log_factor_bound(L, v, net_tilt, leaves, zero) - FAR
    )


@inner
def bound_off_window(outer, others, shift, low, size, beyond):
    """Bound on the sum over z of others[z] outer[i + z + shift], for all i < 0 and all i >= size.

    Outside its ends, `outer` is at most `beyond`; inside, for i < 0 at most its maximum over the entries that i = -1
    can meet, and for i >= size at most its maximum over those that i = size can meet.
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
def pass_to_child(L, v, k, value, missing, beyond, peak, sibling_sums, window, outside, used):
    """Append the downward message of child k of a unit; return the messages and the number of entries in use."""
    b = L.units[v].first + k
    child = outside.windows[b]
    child.low, child.size = widened(window)
    child.place = used
    values = enlarge(outside.value, used, used + child.size)
    lacks = enlarge(outside.missing, used, used + child.size)
    others, left_out = numbers_of(sibling_sums, k), sibling_sums.windows[k].dropped
    largest = max(largest_of(value + missing), beyond)
    shift = child.low + sibling_sums.windows[k].low - outside.windows[v].low
    correlate(value, others, shift, values[used : used + child.size])
    correlate(missing, others, shift, lacks[used : used + child.size])
    under, over = np.zeros(others.size + 1), np.zeros(others.size + 1)
    for z in range(others.size):
        under[z + 1] = under[z] + others[z]
        over[others.size - 1 - z] = over[others.size - z] + others[others.size - 1 - z]
    for i in range(child.size):
        first = min(max(0, -shift - i), others.size)
        last = min(max(0, value.size - shift - i), others.size)
        lacks[used + i] += left_out * largest + beyond * (under[first] + over[last])
        lacks[used + i] += others.size * UNDERFLOW
    most = left_out * largest + bound_off_window(value + missing, others, shift, child.low, child.size, beyond)
    top = largest_of(values[used : used + child.size])
    scale = top if top > 0.0 else 1.0
    for i in range(child.size):
        values[used + i] /= scale
        lacks[used + i] /= scale
    outside.most[b] = most / scale
    outside.scale[b] = outside.scale[v] + peak + math.log(scale)
    return OutsideMessages(outside.windows, values, lacks, outside.most, outside.scale), used + child.size


@inner
def needs_message(L, b, known, on_way):
    """True if a unit on the way to an answer needs a downward message: it has children, or it is marked (-2)."""
    return on_way[b] and (L.units[b].children > 0 or known[b] < -1)


@compiled
def known_count_likelihoods(L, theta, tau, messages, known, which_count, root_message):
    """Likelihood of a leaf's count, and of one which_count, given everybody but that leaf, with a bound on the error.

    Only ancestors of leaves with a known count, and of marked units, are visited.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, from `find_tilts`
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    known : (unit,) known counts of leaves; -1: not wanted, -2: a unit whose downward message is wanted
    which_count : -1: both counts, in one pass. If a rate is shared above the parents of leaves, one pass is needed per
        count: 0 for the known count, 1 for one more person, who is not a draw of the rate
    root_message : RootMessage; with empty arrays if the tree is no part of a larger one

    Returns
    -------
    (answer, lacking, outside): (unit, 2) log likelihood of the known count and of one more, NaN where not wanted; log
    of the bounds on what these lack, up to the same constant; OutsideMessages of internal units
    """
    n = L.units.size
    on_way = known != -1
    for v in range(n - 1, 0, -1):
        if on_way[v]:
            on_way[L.units[v].parent] = True
    answer, lacking = np.full((n, 2), np.nan), np.full((n, 2), np.inf)
    outside, used = root_messages(n, messages.windows[0], root_message)
    workspace, sibling_sums = workspace_for(L), workspace_for(L)
    for v in range(n):
        unit = L.units[v]
        if unit.children == 0 or not on_way[v]:
            continue
        trim = trim_share(L, tau, v)
        workspace = combine_children(unit.first, unit.children, messages, trim, workspace)
        net_tilt = tilt_above(L, theta, v) - theta[v]
        inner_children, queries = 0, 0
        for k in range(unit.children):
            inner_children += needs_message(L, unit.first + k, known, on_way)
            queries += known[unit.first + k] >= 0
        window_suffices = inner_children == 0 and negligible_off_window(L, v, net_tilt, outside.windows[v])
        least, most = np.full(unit.children, -NO_LIMIT), np.full(unit.children, NO_LIMIT)
        if window_suffices:
            window = outside.windows[v]
            for k in range(unit.children):
                least[k] = window.low - known[unit.first + k] - 1
                most[k] = window.low + window.size - 1 - known[unit.first + k]
        wanted = on_way[unit.first : unit.first + unit.children]
        sibling_sums = leave_one_out_sums(unit.children, workspace, trim, sibling_sums, wanted, least, most)
        if inner_children > 0:
            leaves, undrawn = sharing_leaves(L, v), np.int64(which_count > 0 and unit.sharing > 0)
            value, missing, beyond, peak = message_times_factor(L, v, net_tilt, leaves, undrawn, outside)
            for k in range(unit.children):
                if needs_message(L, unit.first + k, known, on_way):
                    window = messages.windows[unit.first + k]
                    outside, used = pass_to_child(
                        L, v, k, value, missing, beyond, peak, sibling_sums, window, outside, used
                    )
        if queries > 0:
            fill_leaf_likelihoods(
                L,
                v,
                theta,
                messages.windows[v],
                sibling_sums,
                known,
                which_count,
                window_suffices,
                outside,
                answer,
                lacking,
            )
    return answer, lacking, outside


@inner
def siblings_log_weight(L, v, known, count, net_tilt, sibling_sums):
    """(lowest y, logs) of exp(-net_tilt y) H(y + count), y the siblings' totals of all leaves with that known count."""
    start, stop = np.int64(UNBOUNDED), np.int64(0)
    for k in range(L.units[v].children):
        if known[L.units[v].first + k] == count:
            start = min(start, sibling_sums.windows[k].low)
            stop = max(stop, sibling_sums.windows[k].low + sibling_sums.windows[k].size)
    weight = np.empty(stop - start)
    for i in range(weight.size):
        weight[i] = -net_tilt * (start + i)
        if L.units[v].sharing > 0:
            weight[i] += log_rate_mixture(L, L.units[v].sharing, start + i + count - L.units[v].settled)
    return start, weight


@inner
def fill_leaf_likelihoods(
    L, v, theta, typical_window, sibling_sums, known, which_count, window_suffices, outside, answer, lacking
):
    """Fill `answer` and `lacking` for the leaves below unit v.

    The sum over the siblings' total y has the terms S(y) H(y + k) exp(-net_tilt y) L(x + y) out(x + y). The exponential
    is split: exp(-likelihood_tilt (x + y)) goes with the likelihood L, the rest with the mixture H, so that neither
    factor underflows where their product matters. Over the whole window of y, H still covers more orders of magnitude
    than doubles have; so it is scaled for every x by its maximum over the y that meet the window of L.

    typical_window : window of the unit's own message, where its total is likely to lie
    window_suffices : the siblings' sums are limited to those that meet the window; the bound on the rest is then as if
        all of them lay outside
    """
    unit, window = L.units[v], outside.windows[v]
    t = tilt_above(L, theta, v)
    net_tilt = t - theta[v]
    leaves = sharing_leaves(L, v)
    value = outside.value[window.place : window.place + window.size]
    missing = outside.missing[window.place : window.place + window.size]
    most = max(outside.most[v], largest_of(value + missing))
    likelihood_tilt = net_tilt
    if leaves >= 0:
        likelihood_tilt = -likelihood_slope(L, v, typical_window.low + 0.5 * typical_window.size)[0]
    summit = log_factor_bound(L, v, likelihood_tilt, np.int64(-1), np.int64(0))
    value_weight, missing_weight = np.zeros(window.size), np.zeros(window.size)
    for j in range(window.size):
        total = j + window.low
        if unit.low <= total <= unit.high:
            likely = math.exp(log_likelihood(L, v, total) - likelihood_tilt * total - summit)
            value_weight[j], missing_weight[j] = likely * value[j], likely * missing[j]
    scaled, last_known = np.empty(window.size), np.int64(-1)
    start, weight = np.int64(0), np.empty(0)
    for k in range(unit.children):
        b = unit.first + k
        if L.units[b].children > 0 or known[b] < 0:
            continue
        if known[b] != last_known:
            last_known = known[b]
            start, weight = siblings_log_weight(L, v, known, last_known, net_tilt - likelihood_tilt, sibling_sums)
        others, place = numbers_of(sibling_sums, k), sibling_sums.windows[k]
        weights = weight[place.low - start : place.low - start + place.size]
        for i in range(2):
            if which_count >= 0 and i != which_count:
                continue
            x = known[b] + i
            shift = place.low + x - window.low
            first, last = min(max(0, -shift), place.size), max(0, min(place.size, window.size - shift))
            top = largest_of(weights[first:last] if last > first else weights)
            for z in range(first, last):
                scaled[z - first] = math.exp(weights[z] - top)
            likelihood, shortfall = weighted_sums(
                others[first:last], scaled, value_weight[max(0, shift) :], missing_weight[max(0, shift) :]
            )
            if window_suffices:
                beyond = (
                    log_beyond(L, v, net_tilt, leaves, np.int64(i), window)
                    + (net_tilt - likelihood_tilt) * x
                    - top
                    - summit
                )
                shortfall += outside.most[v] * math.exp(min(beyond, HIGHEST))
            elif outside.most[v] > 0.0:
                for z in range(place.size):
                    total = shift + z + window.low
                    if (z < first or z >= last) and unit.low <= total <= unit.high:
                        log = log_likelihood(L, v, total) - likelihood_tilt * total - summit + weights[z] - top
                        shortfall += others[z] * outside.most[v] * math.exp(min(log, HIGHEST))
            largest = (
                log_factor_bound(L, v, net_tilt, leaves, np.int64(i)) + (net_tilt - likelihood_tilt) * x - top - summit
            )
            shortfall += place.dropped * most * math.exp(min(largest, HIGHEST)) + place.size * UNDERFLOW
            scale = outside.scale[v] + top + summit - (t - likelihood_tilt) * x
            answer[b, i], lacking[b, i] = log_or_minus_inf(likelihood) + scale, math.log(shortfall) + scale


@inner
def weighted_sums(others, weights, value_weight, missing_weight):
    """Sums over z of others[z] weights[z] times value_weight[z] and times missing_weight[z]."""
    total, missing = 0.0, 0.0
    for z in range(others.size):
        w = others[z] * weights[z]
        total += w * value_weight[z]
        missing += w * missing_weight[z]
    return total, missing
