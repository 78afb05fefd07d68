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

from adversary.reader.spine_code import inner

WINDOW = np.dtype([("place", np.int64), ("size", np.int64), ("low", np.int64), ("dropped", np.float64)])
"""A message: where its numbers stand, how many they are, the lowest count, and the bound on the mass left out."""


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
def grown(data, used, needed):
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
def convolve(a, b, out):
    """out[k] = sum_i a[i] b[k - i]."""
    if a.size > b.size:
        a, b = b, a
    for k in range(out.size):
        out[k] = 0.0
    n = b.size
    for i in range(a.size):
        c = a[i]
        row = out[i : i + n]
        for j in range(n):
            row[j] += c * b[j]


@inner
def correlate(outer, other, shift, out):
    """out[x] = sum_z other[z] outer[x + z + shift]: what a unit is told when its sibling is summed out."""
    for x in range(out.size):
        out[x] = 0.0
    for z in range(other.size):
        c = other[z]
        d = z + shift
        first, last = max(0, -d), min(out.size, outer.size - d)
        if last > first:
            row = out[first:last]
            from_outer = outer[first + d : last + d]
            for x in range(last - first):
                row[x] += c * from_outer[x]


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
        used = combine_pair(room, 2 * (u - n), room, 2 * (u - n) + 1, room, u, used, tau)
    return room


@inner
def combine_pair(one, left, two, right, to, u, used, tau):
    """Message u of a room from messages of two others; the numbers then in use."""
    a, b = numbers_of(one, left), numbers_of(two, right)
    out = to.data[used : used + a.size + b.size - 1]
    convolve(a, b, out)
    begin, stop, cut = ends(out, tau)
    first, second, window = one.windows[left], two.windows[right], to.windows[u]
    window.place, window.size, window.low = used + begin, stop - begin, first.low + second.low + begin
    window.dropped = first.dropped + second.dropped + first.dropped * second.dropped + cut
    return used + stop


@inner
def bystanders(n, room, tau, spare, wanted):
    """For the messages of a combined room that hold a child that is wanted, the sum of all that are not part of it."""
    holds = np.zeros(2 * n - 1, np.bool_)
    holds[:n] = wanted
    for u in range(n, 2 * n - 1):
        holds[u] = holds[2 * (u - n)] or holds[2 * (u - n) + 1]
    last = spare.windows[2 * n - 2]
    last.place, last.size, last.low, last.dropped = 0, 1, 0, 0.0
    spare.data[0] = 1.0
    used = np.int64(1)
    for u in range(2 * n - 2, n - 1, -1):
        left, right = 2 * (u - n), 2 * (u - n) + 1
        if not holds[u]:
            continue
        needed = used + 2 * spare.windows[u].size + room.windows[left].size + room.windows[right].size
        spare = Messages(spare.windows, grown(spare.data, used, needed))
        if holds[left]:
            used = combine_pair(spare, u, room, right, spare, left, used, tau)
        if holds[right]:
            used = combine_pair(spare, u, room, left, spare, right, used, tau)
    return spare
