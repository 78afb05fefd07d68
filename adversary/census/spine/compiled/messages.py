r"""Compiled: messages up and down a tree, on windows, with the ledger of what the windows leave out.

.. math::

    I_v(x) \propto e^{-t_v x} f_v(x) \sum_{x_1 + \dots + x_n = x} \prod_c \text{in}_c(x_c), \qquad
    O_c(x) \propto \sum_y O_v(y) f_v(y) e^{-(t_v - \theta_v) y} \prod_{\text{other children}} I(\cdot)

Factors are scaled to at most 1 and the ledger R_v bounds (full - kept) / kept mass of I_v in its tilt:

    leaf  R = tails / kept,   unit  R = (R of its children combined + cut) / kept mass after its factor.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary._core import compilers
from adversary.census.spine.compiled.count_windows import (
    Messages,
    combine,
    correlate,
    empty_messages,
    ends,
    enlarge,
    largest_of,
    numbers_of,
)
from adversary.census.spine.compiled.layout import (
    log_factor,
    log_peak,
    log_rates,
    sharers,
    slope_of,
    tilt_above,
    trim_at,
)
from adversary.census.spine.compiled.leaves import first_guess, log_at_mode, mode_of, walk
from adversary.census.spine.compiled.tilts import FARTHEST, domains

compiled, inner = compilers(__file__)

# What the children of one unit may take to combine, about ten minutes; and numbers to be held at once, 4 GiB.
MOST_PRODUCTS, MOST_NUMBERS = 1e12, 1 << 29

# How many standard deviations of their sum children may be off, corrections at most, and children from which on.
APART, TURNS, MANY = 1.0, 3, 8


@inner
def write_leaf(L, v, t, tau, messages, used, ring):
    """Append a leaf's message; (messages, numbers in use, log of its sum, ring)."""
    mode = mode_of(L, v, t, first_guess(L, v, t))
    lowest, highest, total, _, _, tails = walk(L, v, t, mode, tau, ring)
    n = highest - lowest + 1
    if n > ring.size:
        ring = np.empty(2 * n)
        walk(L, v, t, mode, tau, ring)
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
def write_unit(L, v, drop, combined, low, dropped, cut, messages, used):
    """Append the message of a unit whose children are combined: times its factor, ends cut; log of its sum."""
    unit = L.units[v]
    begin = max(0, min(unit.low - low, combined.size))
    stop = max(begin, min(unit.high - low + 1, combined.size))
    n = stop - begin
    data = enlarge(messages.data, used, used + max(n, 1))
    messages = Messages(messages.windows, data)
    window = messages.windows[v]
    # nothing lies off the window: its own largest number takes the place of the bound
    whole = dropped == 0.0
    peak = -np.inf if whole else log_peak(L, v, drop, sharers(L, v), np.int64(0))
    for k in range(n if whole else 0):
        if combined[begin + k] > 0.0:
            x = low + begin + k
            peak = max(peak, math.log(combined[begin + k]) + log_factor(L, v, x) - drop * x)
    total = 0.0
    for k in range(n):
        x = low + begin + k
        log = log_factor(L, v, x) - drop * x - peak
        if not whole:
            data[used + k] = combined[begin + k] * math.exp(log)
        else:
            data[used + k] = math.exp(math.log(combined[begin + k]) + log) if combined[begin + k] > 0.0 else 0.0
        total += data[used + k]
    if not total > 0.0 or not math.isfinite(total):
        data[used] = 1.0
        window.place, window.size, window.dropped = used, 1, np.inf
        window.low = min(max(low, unit.low), unit.high)
        return messages, used + 1, -np.inf
    first, last, lost = ends(data[used : used + n], cut * total)
    amount = 0.0
    for k in range(first, last):
        amount += data[used + k]
    for k in range(first, last):
        data[used + k] /= amount
    window.place, window.size, window.low = used + first, last - first, low + begin + first
    window.dropped = (dropped + lost) / amount
    return messages, used + last, peak + math.log(amount)


@inner
def room_for(L):
    """A room with as many entries as the unit with most children needs."""
    most = 1
    for v in range(L.units.size):
        most = max(most, L.units[v].children)
    return empty_messages(2 * most, np.int64(4096))


@inner
def write(L, theta, tau, v, messages, used, room, ring, bare):
    """Append one unit's message from those of its children; (messages, numbers in use, log of its sum, room, ring).

    With `bare` it is that of a unit with children, without its own factor.
    """
    t = tilt_above(L, theta, v)
    unit, tau = L.units[v], trim_at(L, tau, v)
    if unit.children > 0:
        room = combine(unit.first, unit.children, messages, tau, room)
        u = 2 * unit.children - 2
        whole = room.windows[u]
        if bare:
            messages = Messages(messages.windows, enlarge(messages.data, used, used + whole.size))
            total = 0.0
            for k in range(whole.size):
                messages.data[used + k] = room.data[whole.place + k]
                total += room.data[whole.place + k]
            window = messages.windows[v]
            window.place, window.size, window.low, window.dropped = used, whole.size, whole.low, whole.dropped / total
            return messages, used + whole.size, 0.0, room, ring
        messages, used, log = write_unit(
            L, v, t - theta[v], numbers_of(room, u), whole.low, whole.dropped, tau, messages, used
        )
    elif unit.given_size > 0:
        given = L.given[unit.given_first : unit.given_first + unit.given_size]
        messages, used, log = write_unit(
            L, v, t - unit.given_tilt, given, unit.given_low, unit.given_dropped, tau, messages, used
        )
        log += unit.base
    else:
        messages, used, log, ring = write_leaf(L, v, t, tau, messages, used, ring)
    return messages, used, log, room, ring


@inner
def better_tilt(L, theta, least, v, messages):
    """The tilt that the children's messages themselves ask for, where their sum is off by more than `APART` sd.

    The search for tilts takes a unit's mean to be at its saddle point; over hundreds of siblings that adds up. A tilt
    stays where a child's factor would grow without end in another.
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
        slope, curvature = slope_of(L, v, mean)
        x = mean + variance * (theta[v] - tilt_above(L, theta, v) - slope) / (1.0 + curvature * variance)
        new = tilt_above(L, theta, v) + slope + curvature * (x - mean)
    far = abs(mean - x) > APART * math.sqrt(variance) and abs(new) < FARTHEST and new > least[v]
    return new if far else theta[v]


@compiled
def upward(L, theta, tau, bare):
    """Upward pass: messages of all units, the root's last.

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units; those that prove to be off are corrected in place, and the children's
        messages written again
    tau : share of mass that one trim of a window may drop
    bare : whether the root's message is without its own factor: the sum of its children

    Returns
    -------
    (messages, log scale, -1): Messages, each summing to 1, and the sum of the logs of their totals, nats. Where windows
    would be too large: the messages so far, -inf and the unit whose children have too many counts
    """
    n = L.units.size
    numbers, squares = np.zeros(n), np.zeros(n)
    messages = empty_messages(n, 22 * n + 64)
    room = room_for(L)
    ring = np.empty(2048)
    logs, least = np.zeros(n), domains(L)
    used = np.int64(0)
    for v in range(n - 1, -1, -1):
        first, children, without = L.units[v].first, L.units[v].children, v == 0 and bare
        for _ in range(TURNS if children >= MANY and not without else 0):
            new = better_tilt(L, theta, least, v, messages)
            if new == theta[v]:
                break
            theta[v] = new
            # none is v: a plain False would compile `write` twice
            for b in range(first + children - 1, first - 1, -1):
                messages, used, logs[b], room, ring = write(L, theta, tau, b, messages, used, room, ring, b == v)
        messages, used, logs[v], room, ring = write(L, theta, tau, v, messages, used, room, ring, without)
        if v == 0:
            break
        above, size = L.units[v].parent, float(messages.windows[v].size)
        numbers[above] += size
        squares[above] += size * size
        rounds = 2.0 + math.log2(L.units[above].children)
        products = min(numbers[above] ** 2 - squares[above], rounds * squares[above])
        if products > MOST_PRODUCTS or max(2.0 * rounds * numbers[above], float(used)) > MOST_NUMBERS:
            return messages, -np.inf, above
    return messages, accurate_sum(logs), np.int64(-1)


@inner
def accurate_sum(values):
    """Neumaier's sum: what each addition rounds away is kept apart."""
    total, rest = 0.0, 0.0
    for value in values:
        both = total + value
        if abs(total) >= abs(value):
            rest += (total - both) + value
        else:
            rest += (value - both) + total
        total = both
    return total + rest if math.isfinite(rest) else total


@inner
def scale_to_one(values):
    """Divide by the largest, if there is any."""
    top = largest_of(values)
    if top > 0.0:
        for k in range(values.size):
            values[k] /= top
    return top


@compiled
def downward(L, theta, tau, messages, outer, lift):
    r"""Downward pass: messages O from above to every unit, each scaled to at most 1.

    With `lift` they are those of one person more than the law of the leaves. Where leaves share a rate, the law H of
    their total X is then replaced by that of X - 1, and messages change below the unit where the rate is shared:

    .. math:: O'_b(x) \propto \sum_X O_b(x, X) \frac{H(X - 1)}{H(X)}

    Parameters
    ----------
    L : Layout of one cell
    theta : (unit,) tilts of internal units, as `upward` left them
    tau : share of mass that one trim of a window may drop
    messages : Messages from below, from `upward`
    outer : numbers laid out as `messages.data`, those of the root filled in, and with `lift` of all units; the others
        are filled in, on the same windows
    lift : whether one person more is there than the law of the leaves has

    Returns
    -------
    (unit,) posterior expectation of H(X - 1) / H(X) at the unit above, or this one, where a rate is shared; 1 where
    none is, and without `lift`
    """
    room = room_for(L)
    outer_values, logs = np.empty(4096), np.empty(4096)
    expected, lifted = np.ones(L.units.size), np.zeros(L.units.size, np.bool_)
    for v in range(L.units.size):
        unit = L.units[v]
        n, sharing = unit.children, unit.sharing
        if v > 0:
            expected[v], lifted[v] = expected[unit.parent], lifted[unit.parent]
        if n == 0 or (lift and not lifted[v] and sharing == 0):
            continue
        drop = tilt_above(L, theta, v) - theta[v]
        room = combine(unit.first, n, messages, trim_at(L, tau, v), room)
        if outer_values.size < room.data.size:
            outer_values = np.empty(room.data.size)
        if logs.size < messages.windows[v].size:
            logs = np.empty(messages.windows[v].size)
        own, whole = messages.windows[v], room.windows[2 * n - 2]
        for k in range(whole.size):
            outer_values[whole.place + k] = 0.0
        # that of the window: the factor's own may lie between two counts, and all of them far below it
        peak = -np.inf
        for k in range(own.size):
            x = own.low + k
            # not where nothing is possible on the windows
            if 0 <= x - whole.low < whole.size:
                logs[k] = log_factor(L, v, x) - drop * x
                peak = max(peak, logs[k])
        mass, moved = 0.0, 0.0
        for k in range(own.size):
            x = own.low + k
            if 0 <= x - whole.low < whole.size:
                ratio = 1.0
                if lift and sharing > 0:
                    others = x - unit.settled
                    ratio = math.exp(log_rates(L, sharing, others - 1) - log_rates(L, sharing, others)) * (others > 0)
                    mass += messages.data[own.place + k] * outer[own.place + k]
                    moved += messages.data[own.place + k] * outer[own.place + k] * ratio
                outer_values[whole.place + x - whole.low] = outer[own.place + k] * math.exp(logs[k] - peak) * ratio
        if lift and sharing > 0:
            lifted[v], expected[v] = True, moved / mass
        scale_to_one(outer_values[whole.place : whole.place + whole.size])
        for u in range(2 * n - 2, n - 1, -1):
            left, right = 2 * (u - n), 2 * (u - n) + 1
            tell(room, outer_values, u, left, right)
            tell(room, outer_values, u, right, left)
        for k in range(n):
            child, entry = messages.windows[unit.first + k], room.windows[k]
            for i in range(child.size):
                outer[child.place + i] = outer_values[entry.place + i]
    return expected


@inner
def tell(room, outer, u, one, other):
    """Pass the downward message of entry u on to one of its two parts, with the other summed out."""
    above, below = room.windows[u], room.windows[one]
    out = outer[below.place : below.place + below.size]
    shift = below.low + room.windows[other].low - above.low
    correlate(outer[above.place : above.place + above.size], numbers_of(room, other), shift, out)
    scale_to_one(out)
