r"""Compiled: Gibbs sampling of histograms along lines, each of which changes a few entries at once.

A direction adds s people to some (leaf, cell) entries and takes s from others. With independent discrete Gaussian noise
the log likelihood along it is -P s^2 + 2 Q s, with P = sum rho d^2 and Q = sum rho d (y - A x) over the rows that it
changes, by d each. The conditional distribution of s, with the prior, is sampled on a window of states around the
present one, placed at random. The sampler stays reversible: from every state of the window, the same window is equally
likely.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

compiled, inner = compilers(__file__)

# Smallest and largest number of states in a window, and half its width in standard deviations of the likelihood.
SHORTEST, LONGEST, SPREAD = 4, 64, 6.0


class LineProblem(NamedTuple):
    """Input of the sampler.

    rows : (query, cell) row that counts each cell, numbered from the first row of the first query
    coordinates : (axis, cell) index of each cell on each axis
    strides : (axis,) cell = coordinates . strides
    path : (leaf, depth) the leaf and all units above it, -1 beyond the root
    rho : (unit, query) 1 / (2 variance), 0 for an exact answer
    exact : (unit, query) True for an exact answer
    slope, start : (leaf, cell) prior(x + 1) / prior(x) = (slope x + start) / (x + 1)
    eta, log_weight, log_norm : (rate,) grid of shared rates, empty for none
    group : (leaf, cell) number of the group of entries that share a rate
    leaves_sharing : (group,) number of entries in each group
    fixed : (leaf,) True if everybody else in the leaf is known
    leaf : leaf of the target, -1: no target
    present, absent : cell of the target if in and if out; absent -1: not counted if out
    log_odds : prior log odds of the target
    """

    rows: Any
    coordinates: Any
    strides: Any
    path: Any
    rho: Any
    exact: Any
    slope: Any
    start: Any
    eta: Any
    log_weight: Any
    log_norm: Any
    group: Any
    leaves_sharing: Any
    fixed: Any
    leaf: int
    present: int
    absent: int
    log_odds: float


@inner
def log_rate_mixture(T, group, total):
    """log sum_j w_j k_j^n exp(eta_j total), the prior factor of a group with a shared rate; 0 without shared rates."""
    if T.eta.size == 0:
        return 0.0
    if total < 0:
        return -np.inf
    top, n = -np.inf, T.leaves_sharing[group]
    for j in range(T.eta.size):
        top = max(top, T.log_weight[j] + n * T.log_norm[j] + T.eta[j] * total)
    value = 0.0
    for j in range(T.eta.size):
        value += math.exp(T.log_weight[j] + n * T.log_norm[j] + T.eta[j] * total - top)
    return top + math.log(value)


@inner
def log_step(T, leaf, cell, count):
    """log prior(count + 1) / prior(count) of one entry, without the factor of the shared rate."""
    return math.log((T.slope[leaf, cell] * count + T.start[leaf, cell]) / (count + 1.0))


@inner
def direction_likelihood(T, gap, leaves, cells, signs, size, delta):
    """(P, Q, True if an exact answer changes) of a direction.

    leaves, cells, signs : the first `size` entries are those that change
    gap : (unit, row) residuals y - A x
    delta : scratch of the same shape, zero before and after
    """
    P, Q, changes_exact = 0.0, 0.0, False
    for turn in range(2):
        for i in range(size):
            for u in T.path[leaves[i]]:
                if u < 0:
                    break
                for q in range(T.rows.shape[0]):
                    row = T.rows[q, cells[i]]
                    if turn == 0:
                        delta[u, row] += signs[i]
                        continue
                    d = delta[u, row]
                    # each row once, also if several entries change it
                    if d != 0.0:
                        P += T.rho[u, q] * d * d
                        Q += T.rho[u, q] * d * gap[u, row]
                        changes_exact |= T.exact[u, q]
                        delta[u, row] = 0.0
    return P, Q, changes_exact


@inner
def update_residuals(T, gap, leaf, cell, people):
    """Update the residuals, in place, for `people` more in an entry."""
    for u in T.path[leaf]:
        if u < 0:
            break
        for q in range(T.rows.shape[0]):
            gap[u, T.rows[q, cell]] -= people


@inner
def draw_step(T, x, totals, gap, leaves, cells, signs, size, delta, logs, rng):
    """Draw the step along a direction from its conditional distribution; update the state in place.

    x : (leaf, cell) counts; totals : (group,) their sums; gap : (unit, row) residuals; delta, logs : scratch
    """
    low, high = -np.inf, np.inf
    for i in range(size):
        if signs[i] > 0:
            low = max(low, -float(x[leaves[i], cells[i]]))
        else:
            high = min(high, float(x[leaves[i], cells[i]]))
    if low == high:
        return
    P, Q, changes_exact = direction_likelihood(T, gap, leaves, cells, signs, size, delta)
    if changes_exact:
        return
    width = LONGEST
    if P > 0.0:
        width = min(max(SHORTEST, math.ceil(2.0 * SPREAD / math.sqrt(2.0 * P))), LONGEST)
    first = -int(rng.random() * width)
    last = int(min(float(first + width - 1), high))
    first = int(max(float(first), low))
    top = -np.inf
    # log prior ratios from the present state upwards, then downwards
    for part in range(2):
        log = 0.0
        if part == 0:
            logs[-first] = 0.0
        for s in range(1, (last if part == 0 else -first) + 1):
            sign = 1 if part == 0 else -1
            for i in range(size):
                rising = signs[i] * sign > 0
                count = x[leaves[i], cells[i]] + (s - 1 if rising else -s)
                log_ratio = log_step(T, leaves[i], cells[i], count)
                log += log_ratio if rising else -log_ratio
            logs[sign * s - first] = log
    for s in range(first, last + 1):
        log = logs[s - first] - P * s * s + 2.0 * Q * s
        if T.eta.size > 0:
            for i in range(size):
                net_sign, earlier = 0, False
                for k in range(size):
                    if T.group[leaves[k], cells[k]] == T.group[leaves[i], cells[i]]:
                        net_sign += signs[k]
                        earlier |= k < i
                if net_sign != 0 and not earlier:
                    group = T.group[leaves[i], cells[i]]
                    log += log_rate_mixture(T, group, totals[group] + net_sign * s)
        logs[s - first] = log
        top = max(top, log)
    total = 0.0
    for k in range(last - first + 1):
        total += math.exp(logs[k] - top)
    remaining, s = rng.random() * total, first
    while s < last:
        remaining -= math.exp(logs[s - first] - top)
        if remaining < 0.0:
            break
        s += 1
    if s != 0:
        for i in range(size):
            x[leaves[i], cells[i]] += signs[i] * s
            totals[T.group[leaves[i], cells[i]]] += signs[i] * s
            update_residuals(T, gap, leaves[i], cells[i], signs[i] * s)


@inner
def with_index_of(T, one, other, axis):
    """Cell `one` with its index on one axis replaced by that of cell `other`."""
    return one + (T.coordinates[axis, other] - T.coordinates[axis, one]) * T.strides[axis]


@inner
def sweep(T, x, totals, gap, delta, logs, rng):
    """One sweep: every entry once, and twice as many random lines that move people between cells, leaves, or both."""
    number, cells = x.shape
    leaf, cell, sign = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64)
    for i in range(number):
        for c in range(cells):
            if not T.fixed[i]:
                leaf[0], cell[0], sign[0] = i, c, 1
                draw_step(T, x, totals, gap, leaf, cell, sign, 1, delta, logs, rng)
    for _ in range(2 * number * cells):
        a, b = int(rng.random() * number), int(rng.random() * number)
        c, d = int(rng.random() * cells), int(rng.random() * cells)
        kind, size = int(rng.random() * 4), 2
        if T.fixed[a] or T.fixed[b]:
            continue
        leaf[:], cell[0], cell[1], sign[0], sign[1] = a, c, d, -1, 1
        if kind == 1:
            leaf[1], cell[1] = b, c
        elif kind == 2:
            size, leaf[2], leaf[3], cell[2], cell[3], sign[2], sign[3] = 4, b, b, c, d, 1, -1
        elif kind == 3:
            axis = int(rng.random() * T.strides.size)
            size, sign[1], sign[2], sign[3] = 4, -1, 1, 1
            cell[2], cell[3] = with_index_of(T, c, d, axis), with_index_of(T, d, c, axis)
        repeated = False
        for i in range(size):
            for k in range(i):
                repeated |= leaf[i] == leaf[k] and cell[i] == cell[k]
        if not repeated:
            draw_step(T, x, totals, gap, leaf, cell, sign, size, delta, logs, rng)


@inner
def log_likelihood_ratio(T, gap, is_in, delta):
    """(log P(release | in) - log P(release | out) given everybody else, True if an exact answer decides)."""
    leaf, cell, sign = np.full(2, T.leaf), np.array([T.present, T.absent]), np.array([1, -1])
    P, Q, changes_exact = direction_likelihood(T, gap, leaf, cell, sign, 1 if T.absent < 0 else 2, delta)
    return (P if is_in else -P) + 2.0 * Q, changes_exact


@inner
def swap_target(T, x, totals, is_in, rng):
    """Metropolis step that swaps the target with another person in its cells; returns the target's new status.

    No answer changes, so the acceptance probability has only prior factors.
    """
    leaving_cell, entering_cell = (T.absent, T.present) if is_in else (T.present, T.absent)
    log = -T.log_odds if is_in else T.log_odds
    if leaving_cell >= 0:
        if x[T.leaf, leaving_cell] == 0:
            return is_in
        group = T.group[T.leaf, leaving_cell]
        log -= log_step(T, T.leaf, leaving_cell, x[T.leaf, leaving_cell] - 1)
        log += log_rate_mixture(T, group, totals[group] - 1) - log_rate_mixture(T, group, totals[group])
    if entering_cell >= 0:
        group = T.group[T.leaf, entering_cell]
        log += log_step(T, T.leaf, entering_cell, x[T.leaf, entering_cell])
        log += log_rate_mixture(T, group, totals[group] + 1) - log_rate_mixture(T, group, totals[group])
    if rng.random() >= math.exp(min(log, 0.0)):
        return is_in
    for cell, people in ((leaving_cell, -1), (entering_cell, 1)):
        if cell >= 0:
            x[T.leaf, cell] += people
            totals[T.group[T.leaf, cell]] += people
    return not is_in


@compiled
def sample_chain(T, x, gap, is_in, draws, burn, cells, rng):
    """Run one chain.

    Parameters
    ----------
    T : LineProblem
    x : (leaf, cell) people without the target, changed in place
    gap : (unit, row) noisy answers minus answers of all people including the target; changed in place
    is_in : whether the target is in, at the start
    draws, burn : recorded sweeps, and sweeps before them
    cells : (some,) cells whose counts are recorded
    rng : numpy Generator

    Returns
    -------
    (counts, states, probability_in) : (draw, leaf, some) people including the target; (draw,) 1 if the target is in;
    (draw,) probability of "in" given everybody else
    """
    totals = np.zeros(T.leaves_sharing.size, np.int64)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            totals[T.group[i, c]] += x[i, c]
    delta, logs = np.zeros(gap.shape), np.zeros(2 * LONGEST)
    counts = np.zeros((draws, x.shape[0], cells.size), np.int32)
    states, probability_in = np.zeros(draws, np.int8), np.zeros(draws)
    for t in range(-burn, draws):
        sweep(T, x, totals, gap, delta, logs, rng)
        p = 0.0
        if T.leaf >= 0:
            if not T.fixed[T.leaf]:
                is_in = swap_target(T, x, totals, is_in, rng)
            ratio, changes_exact = log_likelihood_ratio(T, gap, is_in, delta)
            log = T.log_odds + ratio
            p = 1.0 / (1.0 + math.exp(-log)) if log > -700.0 else 0.0
            if changes_exact:
                p = 1.0 if is_in else 0.0
            new = rng.random() < p
            if new != is_in:
                sign = 1 if new else -1
                update_residuals(T, gap, T.leaf, T.present, sign)
                if T.absent >= 0:
                    update_residuals(T, gap, T.leaf, T.absent, -sign)
                is_in = new
        if t >= 0:
            states[t], probability_in[t] = is_in, p
            for i in range(x.shape[0]):
                for k in range(cells.size):
                    counts[t, i, k] = x[i, cells[k]]
            if T.leaf >= 0:
                for k in range(cells.size):
                    if cells[k] == (T.present if is_in else T.absent):
                        counts[t, T.leaf, k] += 1
    return counts, states, probability_in
