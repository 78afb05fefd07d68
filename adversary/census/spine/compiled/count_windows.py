r"""Compiled: messages on windows of counts, and the pairwise convolution of the children of one unit.

The children are combined in a binary tree: child k of n is entry k; entry u >= n is the convolution of entries
2 (u - n) and 2 (u - n) + 1; the last entry, 2n - 2, is the convolution of all. All numbers are non-negative and all
convolutions direct, so relative accuracy is preserved everywhere, and total masses multiply. With R the mass that a
message lacks, as a share of the mass on its window, and cut the share that a trim drops,

    R of the convolution = R_left + R_right + R_left R_right + cut.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

_, inner = compilers(__file__)


# One message: position and number of its values in `Messages.data`, lowest count, and bound on the mass it lacks.
WINDOW = np.dtype([("place", np.int64), ("size", np.int64), ("low", np.int64), ("dropped", np.float64)])

# Stands for "no limit": larger than any count.
NO_LIMIT = np.int64(1 << 61)


class Messages(NamedTuple):
    """Messages: records of `WINDOW`, and the values of all of them in one array."""

    windows: Any
    data: Any


@inner
def empty_messages(count, numbers):
    """Uninitialised storage for `count` messages with `numbers` values in all."""
    return Messages(np.zeros(count, WINDOW), np.empty(numbers))


@inner
def numbers_of(messages, v):
    """Values of message v, a view."""
    window = messages.windows[v]
    return messages.data[window.place : window.place + window.size]


@inner
def enlarge(data, used, needed):
    """The array itself if it holds at least `needed` values, else a longer one with the first `used` values copied."""
    if needed <= data.size:
        return data
    longer = np.empty(max(needed, data.size + data.size // 2))
    for k in range(used):
        longer[k] = data[k]
    return longer


@inner
def largest_of(values):
    """Maximum of an array, -inf if empty."""
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
    """Convolution, out[k] = sum_i a[i] b[start + k - i], in place.

    Eight rows are added per pass, so `out` is read and written an eighth as often.
    """
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
    """Correlation, out[x] = sum_z other[z] outer[x + z + shift]: the message to a unit with its sibling summed out."""
    convolve(other[::-1].copy(), outer, shift + other.size - 1, out)


@inner
def trim_ends(values, allowed):
    """Range (first, stop) after trimming each end by at most half of the allowed mass, and the mass cut off."""
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
def combine_children(first, n, messages, tau, workspace):
    """Workspace of messages first .. first + n - 1 and their pairwise convolutions, enlarged if necessary."""
    total = 0
    for k in range(n):
        total += messages.windows[first + k].size
    rounds = 2
    while 1 << (rounds - 2) < n:
        rounds += 1
    if workspace.data.size < total * rounds:
        workspace = Messages(workspace.windows, np.empty(2 * total * rounds))
    used = np.int64(0)
    for k in range(n):
        numbers = numbers_of(messages, first + k)
        window = messages.windows[first + k]
        entry = workspace.windows[k]
        entry.place, entry.size, entry.low, entry.dropped = used, window.size, window.low, window.dropped
        for i in range(numbers.size):
            workspace.data[used + i] = numbers[i]
        used += numbers.size
    for u in range(n, 2 * n - 1):
        used = combine_pair(
            workspace, 2 * (u - n), workspace, 2 * (u - n) + 1, workspace, u, used, tau, -NO_LIMIT, NO_LIMIT
        )
    return workspace


@inner
def combine_pair(one, left, two, right, to, u, used, tau, least, most):
    """Write message u of `to`: the convolution of two messages at counts from `least` to `most`, trimmed.

    Returns the number of values of `to` that are then in use.
    """
    a, b = numbers_of(one, left), numbers_of(two, right)
    first, second, window = one.windows[left], two.windows[right], to.windows[u]
    low = first.low + second.low
    start = min(max(least - low, 0), a.size + b.size - 2)
    size = max(min(most - low + 1, a.size + b.size - 1) - start, 1)
    out = to.data[used : used + size]
    convolve(a, b, start, out)
    begin, stop, cut = trim_ends(out, tau)
    window.place, window.size, window.low = used + begin, stop - begin, low + start + begin
    window.dropped = first.dropped + second.dropped + first.dropped * second.dropped + cut
    return used + stop


@inner
def leave_one_out_sums(n, workspace, tau, sibling_sums, wanted, least, most):
    """For each wanted child, the convolution of the messages of all other children.

    Computed from the top of the binary tree down: entry u of the result is the convolution of all children that are
    not part of entry u of `workspace`.

    Parameters
    ----------
    n : number of children
    workspace : their messages and pairwise convolutions, from `combine_children`
    tau : share of mass that one trim may drop
    sibling_sums : workspace that is overwritten
    wanted : (child,) whether the sum without this child is needed
    least, most : (child,) counts of that sum from which and up to which it is needed

    Returns
    -------
    `sibling_sums`, enlarged if necessary; entry k < n belongs to child k
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
                window = workspace.windows[other]
                lowest[u] = min(lowest[u], lowest[one] - window.low - window.size + 1)
                highest[u] = max(highest[u], highest[one] - window.low)
    everything = sibling_sums.windows[2 * n - 2]
    everything.place, everything.size, everything.low, everything.dropped = 0, 1, 0, 0.0
    sibling_sums.data[0] = 1.0
    used = np.int64(1)
    for u in range(2 * n - 2, n - 1, -1):
        left, right = 2 * (u - n), 2 * (u - n) + 1
        if not holds[u]:
            continue
        needed = used + 2 * sibling_sums.windows[u].size + workspace.windows[left].size + workspace.windows[right].size
        sibling_sums = Messages(sibling_sums.windows, enlarge(sibling_sums.data, used, needed))
        if holds[left]:
            used = combine_pair(
                sibling_sums, u, workspace, right, sibling_sums, left, used, tau, lowest[left], highest[left]
            )
        if holds[right]:
            used = combine_pair(
                sibling_sums, u, workspace, left, sibling_sums, right, used, tau, lowest[right], highest[right]
            )
    return sibling_sums
