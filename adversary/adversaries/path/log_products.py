"""Products of matrices and correlations of rows, in log space: a sum over counts that has no closed form."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adversary._core import Floats, log_sum_exp


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
    (row, n), relatively accurate: sums that lie more than 600 nats below both maxima are added up in log space

    >>> np.exp(log_correlation(np.log([[1.0, 2.0, 4.0]]), np.log([[1.0, 3.0]]))).round(6).tolist()
    [[14.0, 7.0]]
    >>> log_correlation(np.array([[0.0, -800.0, -1600.0]]), np.array([[0.0, -800.0]])).tolist()
    [[-800.0, 0.0]]
    """
    places = log_table.shape[1] - log_message.shape[1]
    told = np.flatnonzero(~np.isneginf(log_message).all(axis=0))
    if told.size:  # the others add nothing, and would be gone over where sums are small
        first, last = int(told[0]), int(told[-1]) + 1
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
    log_sum[row, place] = log_sum_exp(windows[row, place] + log_message[row])
    return np.asarray(log_sum)


def log_convolution(log_a: Floats, log_b: Floats) -> Floats:
    """Convolution of two sequences in log space, relatively accurate however small an entry is.

    Parameters
    ----------
    log_a, log_b : logarithms, (n,) and (m,); -inf for zero

    Returns
    -------
    (n + m - 1,)

    >>> log_convolution(np.array([0.0, -900.0]), np.array([0.0, -900.0])).round(6).tolist()
    [0.0, -899.306853, -1800.0]
    """
    beyond = np.full(log_b.size - 1, -np.inf)
    table = np.concatenate([beyond, log_a, beyond])
    return log_correlation(table[None], log_b[None, ::-1])[0, ::-1]


def _exp_of_most(log_values: Floats) -> Floats:
    """Values of at most 1, without those that change no sum above exp(-600): arithmetic of subnormals is slow."""
    return np.exp(np.where(log_values < -650.0, -np.inf, log_values))


def _correlated(table: Floats, message: Floats) -> Floats:
    """sum_j table[i + j] message[j] for every i, by row; of a table of few values beside a long message, these only."""
    columns = table.shape[1] - message.shape[1] + 1
    used = np.flatnonzero(table.any(axis=0))
    if not used.size or used[-1] - used[0] >= columns:
        return np.array([np.correlate(*pair, mode="valid") for pair in zip(table, message, strict=True)])
    near = table[:, used[0] : used[-1] + 1]
    whole = np.array([np.correlate(*pair, mode="full") for pair in zip(near, message, strict=True)])
    first, result = int(used[0]) - message.shape[1] + 1, np.zeros((len(table), columns))  # where `whole` begins
    inside = slice(max(first, 0), first + whole.shape[1])
    result[:, inside] = whole[:, inside.start - first :][:, : columns - inside.start]
    return result
