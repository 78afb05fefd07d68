r"""Compiled: messages on windows, and the children of one unit combined two by two, with what trims drop.

Child k of n is entry k; entry u >= n is the sum of entries 2 (u - n) and 2 (u - n) + 1, the last one, 2n - 2, that of
all. Messages are products of non-negative numbers only: convolutions are direct, so that relative accuracy is kept
everywhere, and masses multiply, which is what the ledger rests on:

    combination  R = R_l + R_r + R_l R_r + cut.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

_, inner = compilers(__file__)


# A message: where its numbers stand, how many they are, the lowest count, and the bound on the mass left out.
WINDOW = np.dtype([("place", np.int64), ("size", np.int64), ("low", np.int64), ("dropped", np.float64)])

# A count that none reaches.
NO_LIMIT = np.int64(1 << 61)


class Messages(NamedTuple):
    """Messages as records of `WINDOW` and their numbers, one after another."""

    windows: Any
    data: Any


@inner
def empty_messages(count, numbers):
    """Room for so many messages and numbers."""
    return Messages(np.zeros(count, WINDOW), np.empty(numbers))


@inner
def numbers_of(messages, v):
    """The numbers of message v."""
    window = messages.windows[v]
    return messages.data[window.place : window.place + window.size]


@inner
def enlarge(data, used, needed):
    """The numbers with place for more behind those in use."""
    if needed <= data.size:
        return data
    longer = np.empty(max(needed, data.size + data.size // 2))
    for k in range(used):
        longer[k] = data[k]
    return longer


@inner
def largest_of(values):
    """The largest of non-negative numbers or of logs."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    return top


@inner
def add_row(c, b, place, out, least, most):
    """Add c b[k - place] to out[k], for k from `least` up to `most`."""
    first, stop = max(least, place), min(most, place + b.size)
    if stop > first:
        row, other = out[first:stop], b[first - place : stop - place]
        for j in range(row.size):
            row[j] += c * other[j]


@inner
def convolve(a, b, start, out):
    """out[k] = sum_i a[i] b[start + k - i]; eight rows at a time, so that `out` is gone through an eighth as often."""
    if a.size > b.size:
        a, b = b, a
    for k in range(out.size):
        out[k] = 0.0
    together = a.size - a.size % 8 if b.size > 32 else 0
    for i in range(0, together, 8):
        first = min(max(0, i + 7 - start), out.size)
        stop = max(first, min(out.size, i - start + b.size))
        if stop > first:
            row, other = out[first:stop], b[first + start - i - 7 : stop + start - i]
            c0, c1, c2, c3, c4, c5, c6, c7 = a[i], a[i + 1], a[i + 2], a[i + 3], a[i + 4], a[i + 5], a[i + 6], a[i + 7]
            for j in range(row.size):
                row[j] += (c0 * other[j + 7] + c1 * other[j + 6] + c2 * other[j + 5] + c3 * other[j + 4]) + (
                    c4 * other[j + 3] + c5 * other[j + 2] + c6 * other[j + 1] + c7 * other[j]
                )
        for place in range(i - start, i - start + 8):
            add_row(a[place + start], b, place, out, 0, first)
            add_row(a[place + start], b, place, out, stop, out.size)
    for i in range(together, a.size):
        add_row(a[i], b, i - start, out, 0, out.size)


@inner
def correlate(outer, other, shift, out):
    """out[x] = sum_z other[z] outer[x + z + shift]: the message to a unit when its sibling is summed out."""
    convolve(other[::-1].copy(), outer, shift + other.size - 1, out)


@inner
def ends(values, allowed):
    """(first, stop, cut): what is left when either end is cut while its mass stays within half of what is allowed."""
    first, stop = 0, values.size
    low, high = 0.0, 0.0
    while first < stop - 1 and low + values[first] <= 0.5 * allowed:
        low += values[first]
        first += 1
    while stop > first + 1 and high + values[stop - 1] <= 0.5 * allowed:
        high += values[stop - 1]
        stop -= 1
    return first, stop, low + high


@inner
def combine(first, n, messages, tau, room):
    """A room with messages first .. first + n - 1 and their combinations; that given, or one with more numbers."""
    total = 0
    for k in range(n):
        total += messages.windows[first + k].size
    rounds = 2
    while 1 << (rounds - 2) < n:
        rounds += 1
    if room.data.size < total * rounds:
        room = Messages(room.windows, np.empty(2 * total * rounds))
    used = np.int64(0)
    for k in range(n):
        numbers = numbers_of(messages, first + k)
        window = messages.windows[first + k]
        to = room.windows[k]
        to.place, to.size, to.low, to.dropped = used, window.size, window.low, window.dropped
        for i in range(numbers.size):
            room.data[used + i] = numbers[i]
        used += numbers.size
    for u in range(n, 2 * n - 1):
        used = combine_pair(room, 2 * (u - n), room, 2 * (u - n) + 1, room, u, used, tau, -NO_LIMIT, NO_LIMIT)
    return room


@inner
def combine_pair(one, left, two, right, to, u, used, tau, least, most):
    """Message u of a room from messages of two others, for counts from `least` to `most`; the numbers then in use."""
    a, b = numbers_of(one, left), numbers_of(two, right)
    first, second, window = one.windows[left], two.windows[right], to.windows[u]
    low = first.low + second.low
    start = min(max(least - low, 0), a.size + b.size - 2)
    size = max(min(most - low + 1, a.size + b.size - 1) - start, 1)
    out = to.data[used : used + size]
    convolve(a, b, start, out)
    begin, stop, cut = ends(out, tau)
    window.place, window.size, window.low = used + begin, stop - begin, low + start + begin
    window.dropped = first.dropped + second.dropped + first.dropped * second.dropped + cut
    return used + stop


@inner
def bystanders(n, room, tau, spare, wanted, least, most):
    """For the messages of a combined room that hold a child that is wanted, the sum of all that are not part of it.

    least, most : (child,) counts of that sum from which and up to which it is needed
    """
    holds = np.zeros(2 * n - 1, np.bool_)
    lowest, highest = np.full(2 * n - 1, NO_LIMIT), np.full(2 * n - 1, -NO_LIMIT)
    for k in range(n):
        holds[k] = wanted[k]
        if holds[k]:
            lowest[k], highest[k] = least[k], most[k]
    for u in range(n, 2 * n - 1):
        left, right = 2 * (u - n), 2 * (u - n) + 1
        holds[u] = holds[left] or holds[right]
        for one, other in ((left, right), (right, left)):
            if holds[one]:
                window = room.windows[other]
                lowest[u] = min(lowest[u], lowest[one] - window.low - window.size + 1)
                highest[u] = max(highest[u], highest[one] - window.low)
    last = spare.windows[2 * n - 2]
    last.place, last.size, last.low, last.dropped = 0, 1, 0, 0.0
    spare.data[0] = 1.0
    used = np.int64(1)
    for u in range(2 * n - 2, n - 1, -1):
        left, right = 2 * (u - n), 2 * (u - n) + 1
        if not holds[u]:
            continue
        needed = used + 2 * spare.windows[u].size + room.windows[left].size + room.windows[right].size
        spare = Messages(spare.windows, enlarge(spare.data, used, needed))
        if holds[left]:
            used = combine_pair(spare, u, room, right, spare, left, used, tau, lowest[left], highest[left])
        if holds[right]:
            used = combine_pair(spare, u, room, left, spare, right, used, tau, lowest[right], highest[right])
    return spare
