r"""Compiled: upward and downward messages of a tree, on windows, with a bound on the mass outside the windows.

.. math::

    I_v(x) \propto e^{-t_v x} f_v(x) \sum_{x_1 + \dots + x_n = x} \prod_c \text{in}_c(x_c), \qquad
    O_c(x) \propto \sum_y O_v(y) f_v(y) e^{-(t_v - \theta_v) y} \prod_{\text{other children}} I(\cdot)

Factors are scaled to at most 1. R_v, stored as `dropped`, bounds the mass of I_v outside its window as a share of the
mass inside, in the tilt of the message:

    leaf  R = tails / mass inside,   unit  R = (R of its children's convolution + cut) / mass after its factor.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.count_windows import (
    Messages,
    combine_children,
    correlate,
    empty_messages,
    enlarge,
    largest_of,
    numbers_of,
    trim_ends,
)
from adversary.census.spine.compiled.layout import (
    factor_slope,
    log_factor,
    log_factor_bound,
    log_rate_mixture,
    sharing_leaves,
    tilt_above,
    trim_share,
)
from adversary.census.spine.compiled.leaves import approximate_mode, leaf_mode, log_at_mode, trace_leaf_weights
from adversary.census.spine.compiled.tilts import FARTHEST, lowest_tilts

compiled, inner = compilers(__file__)

# Limits for one unit: products to convolve its children (about ten minutes), and numbers held at once (4 GiB).
MOST_PRODUCTS, MOST_NUMBERS = 1e12, 1 << 29

# Tilts are corrected if the mean of the sum of at least `MANY` children is off by more than `APART` of its standard
# deviations, at most `TURNS` times. With fewer children the saddle point approximation errs by less than that.
APART, TURNS, MANY = 1.0, 3, 8


@inner
def append_leaf_message(L, v, t, tau, messages, used, ring):
    """Append a leaf's message, normalised; return (messages, values in use, log of its sum, ring buffer)."""
    mode = leaf_mode(L, v, t, approximate_mode(L, v, t))
    lowest, highest, total, _, _, tails = trace_leaf_weights(L, v, t, mode, tau, ring)
    n = highest - lowest + 1
    if n > ring.size:
        ring = np.empty(2 * n)
        trace_leaf_weights(L, v, t, mode, tau, ring)
    data = enlarge(messages.data, used, used + n)
    messages = Messages(messages.windows, data)
    window = messages.windows[v]
    window.place, window.size, window.low, window.dropped = used, n, lowest, tails / total
    ring[0] = 1.0
    before = mode - lowest
    for k in range(before):
        data[used + k] = ring[ring.size - before + k] / total
    for k in range(n - before):
        data[used + before + k] = ring[k] / total
    return messages, used + n, log_at_mode(L, v, t, mode) + math.log(total), ring


@inner
def append_unit_message(L, v, net_tilt, combined, low, dropped, cut, messages, used):
    """Append the message of a unit: its children's convolution times its factor, trimmed and normalised.

    Returns (messages, values in use, log of the sum before normalisation).
    """
    unit = L.units[v]
    begin = max(0, min(unit.low - low, combined.size))
    stop = max(begin, min(unit.high - low + 1, combined.size))
    n = stop - begin
    data = enlarge(messages.data, used, used + max(n, 1))
    messages = Messages(messages.windows, data)
    window = messages.windows[v]
    # if nothing lies outside the window, the largest value on it replaces the bound on the factor
    lossless = dropped == 0.0
    peak = -np.inf if lossless else log_factor_bound(L, v, net_tilt, sharing_leaves(L, v), np.int64(0))
    for k in range(n if lossless else 0):
        if combined[begin + k] > 0.0:
            x = low + begin + k
            peak = max(peak, math.log(combined[begin + k]) + log_factor(L, v, x) - net_tilt * x)
    total = 0.0
    for k in range(n):
        x = low + begin + k
        log = log_factor(L, v, x) - net_tilt * x - peak
        if not lossless:
            data[used + k] = combined[begin + k] * math.exp(log)
        else:
            data[used + k] = math.exp(math.log(combined[begin + k]) + log) if combined[begin + k] > 0.0 else 0.0
        total += data[used + k]
    if not total > 0.0 or not math.isfinite(total):
        data[used] = 1.0
        window.place, window.size, window.dropped = used, 1, np.inf
        window.low = min(max(low, unit.low), unit.high)
        return messages, used + 1, -np.inf
    first, last, trimmed = trim_ends(data[used : used + n], cut * total)
    remaining = 0.0
    for k in range(first, last):
        remaining += data[used + k]
    for k in range(first, last):
        data[used + k] /= remaining
    window.place, window.size, window.low = used + first, last - first, low + begin + first
    window.dropped = (dropped + trimmed) / remaining
    return messages, used + last, peak + math.log(remaining)


@inner
def workspace_for(L):
    """Workspace with as many entries as the unit with most children needs."""
    most = 1
    for v in range(L.units.size):
        most = max(most, L.units[v].children)
    return empty_messages(2 * most, np.int64(4096))


@inner
def append_message(L, theta, tau, v, messages, used, workspace, ring, without_factor):
    """Append one unit's message, from those of its children.

    With `without_factor` the unit has children, and its message is their convolution without its own factor. Returns
    (messages, values in use, log of the message's sum, workspace, ring buffer).
    """
    t = tilt_above(L, theta, v)
    unit, tau = L.units[v], trim_share(L, tau, v)
    if unit.children > 0:
        workspace = combine_children(unit.first, unit.children, messages, tau, workspace)
        u = 2 * unit.children - 2
        all_children = workspace.windows[u]
        if without_factor:
            messages = Messages(messages.windows, enlarge(messages.data, used, used + all_children.size))
            total = 0.0
            for k in range(all_children.size):
                messages.data[used + k] = workspace.data[all_children.place + k]
                total += workspace.data[all_children.place + k]
            window = messages.windows[v]
            window.place, window.size, window.low, window.dropped = (
                used,
                all_children.size,
                all_children.low,
                all_children.dropped / total,
            )
            return messages, used + all_children.size, 0.0, workspace, ring
        messages, used, log = append_unit_message(
            L, v, t - theta[v], numbers_of(workspace, u), all_children.low, all_children.dropped, tau, messages, used
        )
    elif unit.given_size > 0:
        given = L.given[unit.given_first : unit.given_first + unit.given_size]
        messages, used, log = append_unit_message(
            L, v, t - unit.given_tilt, given, unit.given_low, unit.given_dropped, tau, messages, used
        )
        log += unit.base
    else:
        messages, used, log, ring = append_leaf_message(L, v, t, tau, messages, used, ring)
    return messages, used, log, workspace, ring


@inner
def corrected_tilt(L, theta, least, v, messages):
    """Tilt of a unit recomputed from the means of its children's messages, if their sum is off by more than `APART` sd.

    `find_tilts` approximates a unit's mean by its saddle point; over hundreds of siblings the errors add up. The old
    tilt is returned if a child's factor could grow without end under another one.
    """
    unit = L.units[v]
    fixed = unit.low == unit.high
    if not (unit.rho > 0.0 or fixed) or unit.sharing > 0:
        return theta[v]
    mean, variance = 0.0, 0.0
    for b in range(unit.first, unit.first + unit.children):
        child, window = L.units[b], messages.windows[b]
        if child.children > 0 and not child.rho > 0.0 and child.low < child.high:
            return theta[v]
        if not window.dropped < np.inf:
            return theta[v]
        numbers = numbers_of(messages, b)
        first, second = 0.0, 0.0
        for k in range(numbers.size):
            first += numbers[k] * k
            second += numbers[k] * k * k
        mean += window.low + first
        variance += max(second - first * first, 0.0)
    x = float(unit.low)
    new = theta[v] + (mean - x) / variance if variance > 0.0 else theta[v]
    if not fixed:
        slope, curvature = factor_slope(L, v, mean)
        x = mean + variance * (theta[v] - tilt_above(L, theta, v) - slope) / (1.0 + curvature * variance)
        new = tilt_above(L, theta, v) + slope + curvature * (x - mean)
    is_off = abs(mean - x) > APART * math.sqrt(variance) and abs(new) < FARTHEST and new > least[v]
    return new if is_off else theta[v]


@compiled
def upward(L, theta, tau, without_factor):
    """Upward pass: messages of all units, the root's last.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units; corrected in place where necessary, with the children's messages
        written again
    tau : share of mass that one trim of a window may drop
    without_factor : whether the root's message is the convolution of its children only, without its own factor

    Returns
    -------
    (messages, log scale, -1): Messages, each summing to 1, and the sum of the logs of their totals, nats. Where windows
    would be too large: the messages so far, -inf and the unit whose children have too many counts
    """
    n = L.units.size
    numbers, squares = np.zeros(n), np.zeros(n)
    messages = empty_messages(n, 22 * n + 64)
    workspace = workspace_for(L)
    ring = np.empty(2048)
    logs, least = np.zeros(n), lowest_tilts(L)
    used = np.int64(0)
    for v in range(n - 1, -1, -1):
        first, children, is_bare_root = L.units[v].first, L.units[v].children, v == 0 and without_factor
        for _ in range(TURNS if children >= MANY and not is_bare_root else 0):
            new = corrected_tilt(L, theta, least, v, messages)
            if new == theta[v]:
                break
            theta[v] = new
            # b == v is never true: a literal False would compile `append_message` a second time
            for b in range(first + children - 1, first - 1, -1):
                messages, used, logs[b], workspace, ring = append_message(
                    L, theta, tau, b, messages, used, workspace, ring, b == v
                )
        messages, used, logs[v], workspace, ring = append_message(
            L, theta, tau, v, messages, used, workspace, ring, is_bare_root
        )
        if v == 0:
            break
        parent, size = L.units[v].parent, float(messages.windows[v].size)
        numbers[parent] += size
        squares[parent] += size * size
        rounds = 2.0 + math.log2(L.units[parent].children)
        products = min(numbers[parent] ** 2 - squares[parent], rounds * squares[parent])
        if products > MOST_PRODUCTS or max(2.0 * rounds * numbers[parent], float(used)) > MOST_NUMBERS:
            return messages, -np.inf, parent
    return messages, neumaier_sum(logs), np.int64(-1)


@inner
def neumaier_sum(values):
    """Sum with Neumaier's compensation for the rounding error of each addition."""
    total, compensation = 0.0, 0.0
    for value in values:
        new_total = total + value
        if abs(total) >= abs(value):
            compensation += (total - new_total) + value
        else:
            compensation += (value - new_total) + total
        total = new_total
    return total + compensation if math.isfinite(compensation) else total


@inner
def scale_to_one(values):
    """Divide values by their maximum, in place, if it is positive; return the maximum."""
    top = largest_of(values)
    if top > 0.0:
        for k in range(values.size):
            values[k] /= top
    return top


@compiled
def downward(L, theta, tau, messages, outer, one_more):
    r"""Downward pass: messages O from above to every unit, each scaled to a maximum of 1.

    With `one_more`, one person is in the tree who is not a draw from the leaf priors. Where leaves share a rate, H at
    their total X is then replaced by H at X - 1, and messages change below the unit within which the rate is shared:

    .. math:: O'_b(x) \propto \sum_X O_b(x, X) \frac{H(X - 1)}{H(X)}

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, as `upward` left them
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    outer : values laid out as `messages.data`, given for the root, and with `one_more` for all units (from a call
        without it); the others are filled in, on the same windows
    one_more : whether there is one person who is not a draw from the leaf priors

    Returns
    -------
    (unit,) posterior expectation of H(X - 1) / H(X) at the unit or its ancestor within which a rate is shared; 1 if
    there is none, and without `one_more`
    """
    workspace = workspace_for(L)
    outer_values, logs = np.empty(4096), np.empty(4096)
    expected, below_shift = np.ones(L.units.size), np.zeros(L.units.size, np.bool_)
    for v in range(L.units.size):
        unit = L.units[v]
        n, sharing = unit.children, unit.sharing
        if v > 0:
            expected[v], below_shift[v] = expected[unit.parent], below_shift[unit.parent]
        if n == 0 or (one_more and not below_shift[v] and sharing == 0):
            continue
        net_tilt = tilt_above(L, theta, v) - theta[v]
        workspace = combine_children(unit.first, n, messages, trim_share(L, tau, v), workspace)
        if outer_values.size < workspace.data.size:
            outer_values = np.empty(workspace.data.size)
        if logs.size < messages.windows[v].size:
            logs = np.empty(messages.windows[v].size)
        own, all_children = messages.windows[v], workspace.windows[2 * n - 2]
        for k in range(all_children.size):
            outer_values[all_children.place + k] = 0.0
        # maximum over the counts of the window: the bound on the factor may lie far above its value at every count
        peak = -np.inf
        for k in range(own.size):
            x = own.low + k
            # counts that the children cannot sum to on their windows have message 0
            if 0 <= x - all_children.low < all_children.size:
                logs[k] = log_factor(L, v, x) - net_tilt * x
                peak = max(peak, logs[k])
        mass, shifted = 0.0, 0.0
        for k in range(own.size):
            x = own.low + k
            if 0 <= x - all_children.low < all_children.size:
                ratio = 1.0
                if one_more and sharing > 0:
                    others = x - unit.settled
                    ratio = math.exp(
                        log_rate_mixture(L, sharing, others - 1) - log_rate_mixture(L, sharing, others)
                    ) * (others > 0)
                    mass += messages.data[own.place + k] * outer[own.place + k]
                    shifted += messages.data[own.place + k] * outer[own.place + k] * ratio
                outer_values[all_children.place + x - all_children.low] = (
                    outer[own.place + k] * math.exp(logs[k] - peak) * ratio
                )
        if one_more and sharing > 0:
            below_shift[v], expected[v] = True, shifted / mass
        scale_to_one(outer_values[all_children.place : all_children.place + all_children.size])
        for u in range(2 * n - 2, n - 1, -1):
            left, right = 2 * (u - n), 2 * (u - n) + 1
            split_downward(workspace, outer_values, u, left, right)
            split_downward(workspace, outer_values, u, right, left)
        for k in range(n):
            child, entry = messages.windows[unit.first + k], workspace.windows[k]
            for i in range(child.size):
                outer[child.place + i] = outer_values[entry.place + i]
    return expected


@inner
def split_downward(workspace, outer, u, one, other):
    """Downward message of one of the two parts of entry u, with the other part summed out."""
    combined, part = workspace.windows[u], workspace.windows[one]
    out = outer[part.place : part.place + part.size]
    shift = part.low + workspace.windows[other].low - combined.low
    correlate(outer[combined.place : combined.place + combined.size], numbers_of(workspace, other), shift, out)
    scale_to_one(out)
