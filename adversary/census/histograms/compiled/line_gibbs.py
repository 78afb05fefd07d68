r"""Compiled: Gibbs sampling of histograms along lines, each of which moves a few people at once.

A direction adds s people to some (leaf, cell) entries and takes s from others. With independent discrete Gaussian noise
the log likelihood along it is -P s^2 + 2 Q s, with P = sum rho d^2 and Q = sum rho d (y - A x) over the rows that it
changes, by d each. The conditional law of s, times the prior, is drawn from on a stretch about the present state,
placed at random: whichever of its states is taken, the same stretch is as likely to be chosen from there.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adversary._core import compilers

compiled, inner = compilers(__file__)

# States of a stretch, at least and at most; standard deviations of the likelihood that it is to hold.
SHORTEST, LONGEST, SPREAD = 4, 64, 6.0


class LineProblem(NamedTuple):
    """What the sampler is given.

    rows : (query, cell) row of each cell's answer, counted from the first row of the first query
    coordinates : (axis, cell) index of each cell on each axis; `strides` (axis,) make the cell of them
    path : (leaf, depth) units of which a leaf is a part, itself first, -1 where there are no more
    rho : (unit, query) 1 / (2 variance); `exact` (unit, query) where an answer is exact
    slope, start : (leaf, cell) prior(x + 1) / prior(x) = (slope x + start) / (x + 1)
    eta, log_weight, log_norm : (rate,) grid of shared rates, empty for none
    group, sharers : (leaf, cell) which entries share one; (group,) how many
    fixed : (leaf,) whose others are known
    leaf, present, absent : of the target; leaf -1: there is none; absent -1: counted nowhere if out
    log_odds : of the target's prior
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
    sharers: Any
    fixed: Any
    leaf: int
    present: int
    absent: int
    log_odds: float


@inner
def log_rates(T, group, total):
    """log sum_j w_j k_j^n exp(eta_j total): the factor of a total whose leaves share a rate; 0 without shared rates."""
    if T.eta.size == 0:
        return 0.0
    if total < 0:
        return -np.inf
    top, n = -np.inf, T.sharers[group]
    for j in range(T.eta.size):
        top = max(top, T.log_weight[j] + n * T.log_norm[j] + T.eta[j] * total)
    value = 0.0
    for j in range(T.eta.size):
        value += math.exp(T.log_weight[j] + n * T.log_norm[j] + T.eta[j] * total - top)
    return top + math.log(value)


@inner
def log_step(T, leaf, cell, count):
    """log prior(count + 1) / prior(count) of one entry, without what is shared."""
    return math.log((T.slope[leaf, cell] * count + T.start[leaf, cell]) / (count + 1.0))


@inner
def along(T, gap, leaves, cells, signs, size, delta):
    """(P, Q, whether an exact answer changes) of a direction; `delta` is scratch of the shape of `gap`, left 0."""
    P, Q, held = 0.0, 0.0, False
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
                    # not again for another entry of the same row
                    if d != 0.0:
                        P += T.rho[u, q] * d * d
                        Q += T.rho[u, q] * d * gap[u, row]
                        held |= T.exact[u, q]
                        delta[u, row] = 0.0
    return P, Q, held


@inner
def shift(T, gap, leaf, cell, people):
    """Residuals after so many people more in an entry."""
    for u in T.path[leaf]:
        if u < 0:
            break
        for q in range(T.rows.shape[0]):
            gap[u, T.rows[q, cell]] -= people


@inner
def move(T, x, totals, gap, leaves, cells, signs, size, delta, logs, rng):
    """Draw the step along a direction from its conditional law; the state changes in place."""
    low, high = -np.inf, np.inf
    for i in range(size):
        if signs[i] > 0:
            low = max(low, -float(x[leaves[i], cells[i]]))
        else:
            high = min(high, float(x[leaves[i], cells[i]]))
    if low == high:
        return
    P, Q, held = along(T, gap, leaves, cells, signs, size, delta)
    if held:
        return
    width = LONGEST
    if P > 0.0:
        width = min(max(SHORTEST, math.ceil(2.0 * SPREAD / math.sqrt(2.0 * P))), LONGEST)
    first = -int(rng.random() * width)
    last = int(min(float(first + width - 1), high))
    first = int(max(float(first), low))
    top = -np.inf
    # from the present state upwards, then downwards
    for part in range(2):
        log = 0.0
        if part == 0:
            logs[-first] = 0.0
        for s in range(1, (last if part == 0 else -first) + 1):
            sign = 1 if part == 0 else -1
            for i in range(size):
                rising = signs[i] * sign > 0
                count = x[leaves[i], cells[i]] + (s - 1 if rising else -s)
                one = log_step(T, leaves[i], cells[i], count)
                log += one if rising else -one
            logs[sign * s - first] = log
    for s in range(first, last + 1):
        log = logs[s - first] - P * s * s + 2.0 * Q * s
        if T.eta.size > 0:
            for i in range(size):
                net, earlier = 0, False
                for k in range(size):
                    if T.group[leaves[k], cells[k]] == T.group[leaves[i], cells[i]]:
                        net += signs[k]
                        earlier |= k < i
                if net != 0 and not earlier:
                    group = T.group[leaves[i], cells[i]]
                    log += log_rates(T, group, totals[group] + net * s)
        logs[s - first] = log
        top = max(top, log)
    total = 0.0
    for k in range(last - first + 1):
        total += math.exp(logs[k] - top)
    left, s = rng.random() * total, first
    while s < last:
        left -= math.exp(logs[s - first] - top)
        if left < 0.0:
            break
        s += 1
    if s != 0:
        for i in range(size):
            x[leaves[i], cells[i]] += signs[i] * s
            totals[T.group[leaves[i], cells[i]]] += signs[i] * s
            shift(T, gap, leaves[i], cells[i], signs[i] * s)


@inner
def swapped(T, one, other, axis):
    """The cell with another one's index on one axis."""
    return one + (T.coordinates[axis, other] - T.coordinates[axis, one]) * T.strides[axis]


@inner
def sweep(T, x, totals, gap, delta, logs, rng):
    """Every entry once, and as many lines that move people between two cells, two leaves, or both."""
    number, cells = x.shape
    leaf, cell, sign = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64)
    for i in range(number):
        for c in range(cells):
            if not T.fixed[i]:
                leaf[0], cell[0], sign[0] = i, c, 1
                move(T, x, totals, gap, leaf, cell, sign, 1, delta, logs, rng)
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
            cell[2], cell[3] = swapped(T, c, d, axis), swapped(T, d, c, axis)
        clash = False
        for i in range(size):
            for k in range(i):
                clash |= leaf[i] == leaf[k] and cell[i] == cell[k]
        if not clash:
            move(T, x, totals, gap, leaf, cell, sign, size, delta, logs, rng)


@inner
def log_ratio_in(T, gap, inside, delta):
    """(log P(release | in) - log P(release | out) given everybody else, whether an exact answer settles it)."""
    leaf, cell, sign = np.full(2, T.leaf), np.array([T.present, T.absent]), np.array([1, -1])
    P, Q, held = along(T, gap, leaf, cell, sign, 1 if T.absent < 0 else 2, delta)
    return (P if inside else -P) + 2.0 * Q, held


@inner
def exchange(T, x, totals, inside, rng):
    """Let the target and one of the others in its cells change places: no answer changes, only the prior's factor."""
    going, coming = (T.absent, T.present) if inside else (T.present, T.absent)
    log = -T.log_odds if inside else T.log_odds
    if going >= 0:
        if x[T.leaf, going] == 0:
            return inside
        group = T.group[T.leaf, going]
        log -= log_step(T, T.leaf, going, x[T.leaf, going] - 1)
        log += log_rates(T, group, totals[group] - 1) - log_rates(T, group, totals[group])
    if coming >= 0:
        group = T.group[T.leaf, coming]
        log += log_step(T, T.leaf, coming, x[T.leaf, coming])
        log += log_rates(T, group, totals[group] + 1) - log_rates(T, group, totals[group])
    if rng.random() >= math.exp(min(log, 0.0)):
        return inside
    for cell, people in ((going, -1), (coming, 1)):
        if cell >= 0:
            x[T.leaf, cell] += people
            totals[T.group[T.leaf, cell]] += people
    return not inside


@compiled
def sample(T, x, gap, inside, draws, burn, cells, rng):
    """One chain.

    Parameters
    ----------
    T : Problem
    x : (leaf, cell) others, changed in place
    gap : (unit, row) noisy answers minus those of everybody, the target with them; changed in place
    inside : whether the target is in, at first
    draws, burn : sweeps kept, and sweeps before them
    cells : (some,) cells whose counts are kept
    rng : numpy Generator

    Returns
    -------
    (counts, inside, probability) : (draw, leaf, some) people, the target with them; (draw,) whether the target is in;
    (draw,) probability of that given everybody else
    """
    totals = np.zeros(T.sharers.size, np.int64)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            totals[T.group[i, c]] += x[i, c]
    delta, logs = np.zeros(gap.shape), np.zeros(2 * LONGEST)
    counts = np.zeros((draws, x.shape[0], cells.size), np.int32)
    states, chance = np.zeros(draws, np.int8), np.zeros(draws)
    for t in range(-burn, draws):
        sweep(T, x, totals, gap, delta, logs, rng)
        p = 0.0
        if T.leaf >= 0:
            if not T.fixed[T.leaf]:
                inside = exchange(T, x, totals, inside, rng)
            ratio, held = log_ratio_in(T, gap, inside, delta)
            log = T.log_odds + ratio
            p = 1.0 / (1.0 + math.exp(-log)) if log > -700.0 else 0.0
            if held:
                p = 1.0 if inside else 0.0
            now = rng.random() < p
            if now != inside:
                sign = 1 if now else -1
                shift(T, gap, T.leaf, T.present, sign)
                if T.absent >= 0:
                    shift(T, gap, T.leaf, T.absent, -sign)
                inside = now
        if t >= 0:
            states[t], chance[t] = inside, p
            for i in range(x.shape[0]):
                for k in range(cells.size):
                    counts[t, i, k] = x[i, cells[k]]
            if T.leaf >= 0:
                for k in range(cells.size):
                    if cells[k] == (T.present if inside else T.absent):
                        counts[t, T.leaf, k] += 1
    return counts, states, chance
