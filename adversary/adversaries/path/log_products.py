"""Matrix products, correlations and convolutions in log space, for sums over counts without a closed form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from adversary._core import Floats, Integers, log_sum_exp

# Nats below its peak at which a factor is cut off, and relative error of accepted entries, exp(-40), in nats.
_KEPT, _RELATIVE = 150.0, 40.0

# Largest number of terms in memory at a time.
_AT_ONCE = 4_000_000

# Largest number of exponential tilts that follow a convolution away from its mode.
_ROUNDS = 400


def log_matrix_product(log_a: Floats, log_b: Floats) -> Floats:
    """Matrix product in log space, log(exp(log_a) @ exp(log_b).T), every row scaled by its maximum.

    Parameters
    ----------
    log_a, log_b : logarithms, (m, k) and (n, k); -inf for zero

    Returns
    -------
    (m, n); -inf where a row is all -inf, NaN where the scaled products fall below exp(-600) and lose their digits

    >>> np.exp(log_matrix_product(np.log([[1.0, 2.0]]), np.log([[3.0, 4.0]]))).round(6).tolist()
    [[11.0]]
    """
    scaled = []
    for log_values in (log_a, log_b):
        top = log_values.max(axis=1)
        safe = np.where(np.isfinite(top), top, 0.0)
        scaled.append((np.exp(log_values - safe[:, None]), safe))
    (a, top_a), (b, top_b) = scaled
    with np.errstate(divide="ignore"):
        log_sum = np.log(a @ b.T)
    empty = ~a.any(axis=1)[:, None] | ~b.any(axis=1)[None, :]
    return np.where((log_sum < -600.0) & ~empty, np.nan, log_sum + top_a[:, None] + top_b[None, :])


def log_correlation(log_table: Floats, log_message: Floats) -> Floats:
    """log sum_j exp(log_table[n - 1 - i + j] + log_message[j]) for i = 0, ..., n - 1, every row about its maxima.

    Parameters
    ----------
    log_table, log_message : logarithms, (row, n + m - 1) and (row, m); -inf for zero

    Returns
    -------
    (row, n), relatively accurate: sums more than 600 nats below both maxima are computed in log space

    >>> np.exp(log_correlation(np.log([[1.0, 2.0, 4.0]]), np.log([[1.0, 3.0]]))).round(6).tolist()
    [[14.0, 7.0]]
    >>> log_correlation(np.array([[0.0, -800.0, -1600.0]]), np.array([[0.0, -800.0]])).tolist()
    [[-800.0, 0.0]]
    """
    places = log_table.shape[1] - log_message.shape[1]
    # Columns of -inf add nothing, but would enter the slow sums in log space below.
    finite_columns = np.flatnonzero(~np.isneginf(log_message).all(axis=0))
    if finite_columns.size:
        first, last = int(finite_columns[0]), int(finite_columns[-1]) + 1
        log_table, log_message = log_table[:, first : places + last], log_message[:, first:last]
    logs = log_table, log_message
    tops = [np.where(np.isfinite(top), top, 0.0) for top in (values.max(axis=1) for values in logs)]
    table, message = (_exp_of_most(values - top[:, None]) for values, top in zip(logs, tops, strict=True))
    with np.errstate(divide="ignore"):
        log_sum = np.log(_correlated(table, message))[:, ::-1]
    windows = sliding_window_view(log_table, log_message.shape[1], axis=1)[:, ::-1]
    some = ~np.isneginf(log_table).all(axis=0)
    reached = sliding_window_view(some, log_message.shape[1])[::-1].any(axis=1)
    row, place = np.nonzero((log_sum < -600.0) & reached)
    log_sum = log_sum + (tops[0] + tops[1])[:, None]
    for one in np.array_split(np.arange(row.size), row.size * log_message.shape[1] // _AT_ONCE + 1):
        log_sum[row[one], place[one]] = log_sum_exp(windows[row[one], place[one]] + log_message[row[one]])
    return np.asarray(log_sum)


def log_convolution(log_a: Floats, log_b: Floats) -> Floats:
    """Convolution of two sequences in log space, relatively accurate for entries of any size.

    Parameters
    ----------
    log_a, log_b : logarithms, (n,) and (m,); -inf for zero

    Returns
    -------
    Logarithms, (n + m - 1,)

    >>> log_convolution(np.array([0.0, -900.0]), np.array([0.0, -900.0])).round(6).tolist()
    [0.0, -899.306853, -1800.0]
    """
    beyond = np.full(log_b.size - 1, -np.inf)
    table = np.concatenate([beyond, log_a, beyond])
    return log_correlation(table[None], log_b[None, ::-1])[0, ::-1]


def log_convolutions(logs: Sequence[Floats], first: int, last: int) -> Floats:
    """Convolution of several sequences in log space at some places, relatively accurate for entries of any size.

    Entries within 150 nats of the peak are convolved as doubles. Entries further away are read near a peak of their
    own: tilting every factor by exp(tilt * place) multiplies the convolution by exp(tilt * place) too. Every factor and
    every product is scaled to a peak of 1 and cut off at exp(-150). No entry then loses more than 2 n m exp(-150) times
    the peak of the result (n factors, m places), so entries exp(40) times as large have a relative error of exp(-40).

    Parameters
    ----------
    logs : logarithms, (n_i,) each; -inf for zero
    first, last : first and last place of the result; place 0 is the product of all first entries

    Returns
    -------
    Logarithms, (last - first + 1,)

    >>> log_convolutions([np.array([0.0, -900.0])] * 3, 0, 3).round(6).tolist()
    [0.0, -898.901388, -1798.901388, -2700.0]
    """
    wanted = np.arange(first, last + 1)
    result = np.full(wanted.size, np.nan)
    tilt, before = 0.0, (-1, -1)
    for _ in range(_ROUNDS):
        places, table, sure = _tilted(logs, tilt)
        near = np.flatnonzero(sure & (places >= first) & (places <= last))
        result[places[near] - first] = table[near]
        left = wanted[np.isnan(result)]
        if not left.size:
            return result
        # The slope between two accurate neighbours is the next tilt: it moves the peak there.
        ready = np.flatnonzero(sure[1:] & sure[:-1])
        if not ready.size:
            break
        apart = np.abs(left[:, None] - places[ready][[0, -1]])
        row, end = np.unravel_index(int(apart.argmin()), apart.shape)
        here = int(ready[[0, -1]][end])
        now = int(left[row]), int(places[here])
        if now == before:
            break
        before = now
        tilt = float(table[here] - table[here + 1])
    whole = reduce(log_convolution, logs)
    return np.where(np.isnan(result), whole[first : last + 1], result)


def _tilted(logs: Sequence[Floats], tilt: float) -> tuple[Integers, Floats, NDArray[np.bool_]]:
    """Places near the peak of a tilted convolution, logarithms without the tilt, and a mask of the accurate ones."""
    start, height, total = 0, 0.0, np.ones(1)
    for part in logs:
        raised = part + tilt * np.arange(part.size)
        top = float(raised.max())
        low, factor = _about_peak(raised - top)
        total = np.convolve(total, factor)
        scale = float(total.max())
        with np.errstate(divide="ignore"):
            skipped, total = _about_peak(np.log(total / scale))
        start, height = start + low + skipped, height + top + float(np.log(scale))
    places = start + np.arange(total.size)
    with np.errstate(divide="ignore"):
        below = np.log(total)
    most = 2.0 * len(logs) * sum(part.size for part in logs)
    return places, below + height - tilt * places, below > _RELATIVE - _KEPT + np.log(most)


def _about_peak(log_values: Floats) -> tuple[int, Floats]:
    """Index of the first logarithm above -150, and exponentials from there to the last one above it; 0 for others.

    The largest logarithm is 0.
    """
    near_peak = np.flatnonzero(log_values > -_KEPT)
    near = log_values[near_peak[0] : near_peak[-1] + 1]
    return int(near_peak[0]), np.where(near > -_KEPT, np.exp(np.maximum(near, -_KEPT)), 0.0)


def _exp_of_most(log_values: Floats) -> Floats:
    """Exponentials, with 0 below exp(-650): such values change no sum above exp(-600), and subnormals are slow."""
    return np.exp(np.where(log_values < -650.0, -np.inf, log_values))


def _correlated(table: Floats, message: Floats) -> Floats:
    """sum_j table[i + j] message[j] for every i, by row."""
    columns = table.shape[1] - message.shape[1] + 1
    # A table with few nonzero columns and a long message: only these columns are correlated.
    used = np.flatnonzero(table.any(axis=0))
    if not used.size or used[-1] - used[0] >= columns:
        return np.array([np.correlate(*pair, mode="valid") for pair in zip(table, message, strict=True)])
    near = table[:, used[0] : used[-1] + 1]
    whole = np.array([np.correlate(*pair, mode="full") for pair in zip(near, message, strict=True)])
    # `whole` begins at the place `first` of the result, which may be negative.
    first, result = int(used[0]) - message.shape[1] + 1, np.zeros((len(table), columns))
    inside = slice(max(first, 0), first + whole.shape[1])
    result[:, inside] = whole[:, inside.start - first :][:, : columns - inside.start]
    return result
