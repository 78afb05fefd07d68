r"""Compiled: both marginals of one posterior, or of many, on panels.

.. math::

    p(t) = \int p(\mu, v) g(\mu, v)\, 1[v \le \mu(1-\mu)]\, ds, \qquad p(s) = \int \dots\, dt

Panels that the edge of the region crosses are integrated up to it through the polynomial of their points. The two
orders of integration are independent of one another: how far their totals differ is the error shown.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.analyst.bounded.quadrature.convolution_panels import new_room
from adversary.analyst.bounded.quadrature.decorator import compiled, compiled_in_place
from adversary.analyst.bounded.quadrature.kernels import fill_column, fill_grid
from adversary.analyst.bounded.quadrature.log_z_table import exps
from adversary.analyst.bounded.quadrature.mean_panels import ends_of_mean, lay_mean
from adversary.analyst.bounded.quadrature.panel_edges import lay_again, lay_closer, snap
from adversary.analyst.bounded.quadrature.panels import (
    COSH,
    EXP,
    ORDER,
    SINH,
    TOLERANCE,
    WITHIN,
    add_weights,
    backward,
    density_of,
    forward,
    jacobian,
    placed,
    unresolved,
)
from adversary.analyst.bounded.quadrature.parameter_lines import CONJUGATE, Belief, Lines, log_prior
from adversary.analyst.bounded.quadrature.sample_variance import NONE, Seen, nothing_of
from adversary.analyst.bounded.quadrature.variance_panels import corner_of, lay_variance

_TURNS = 3
_ENOUGH = 11.0
_FAR = 27.0
"""Nats below the ends of panels at which a point counts no more."""


@compiled
def lines_of(seen, belief, constrained, cap):
    """The lines on which a release is read."""
    centre, spread = 0.5, 0.25
    if seen.mean_noise != NONE:
        centre, spread = seen.mean, seen.mean_scale
    elif belief.kind == CONJUGATE:
        centre, spread = belief.mu0, math.sqrt(belief.s2 / belief.kappa)
    if constrained:
        top = backward(COSH, 0.0, 0.0, min(cap, 0.25))
        return Lines(min(max(centre, 0.0), 1.0), min(spread, 1.0), COSH, top)
    return Lines(centre, spread, EXP, min(0.5 * math.log(cap), 60.0))


@compiled
def last_of(mu):
    """The largest s that is feasible with a mean: v = mu (1 - mu); none outside [0, 1]."""
    return -math.atanh(abs(1.0 - 2.0 * mu)) if 0.0 < mu < 1.0 else -np.inf


@compiled
def integrate(logs, mean_edges, variance_edges, lines, mean_values, variance_values):
    """Both marginals from the log posterior at (mean, variance) points, which is used up; (log mass, mismatch).

    The densities, of t and of s, integrate to 1.
    """
    ts, mean_weights = placed(mean_edges)
    ss, variance_weights = placed(variance_edges)
    work = np.empty(ORDER)
    rows, columns = np.empty(ss.size), np.empty(ts.size)
    for k in range(ss.size):
        rows[k] = math.log(jacobian(lines.kind, 0.0, ss[k]))
        variance_values[k] = 0.0
    top = -np.inf
    for i in range(ts.size):
        log_slope = math.log(jacobian(SINH, lines.spread, ts[i]))
        for k in range(ss.size):
            logs[i, k] += log_slope + rows[k]
            top = max(top, logs[i, k])
    if not top > -np.inf:
        return top, 0.0
    for i in range(ts.size):
        stop = variance_edges[-1]
        if lines.kind == COSH:
            mu = forward(SINH, lines.centre, lines.spread, ts[i])
            stop = last_of(mu)
        add_weights(variance_edges, -np.inf, stop, rows, work)
        total = 0.0
        for k in range(ss.size):
            logs[i, k] -= top
        exps(logs[i], ss.size)
        for k in range(ss.size):
            total += rows[k] * logs[i, k]
        mean_values[i] = max(total, 0.0)
    for k in range(ss.size):
        start, stop = -np.inf, np.inf
        if lines.kind == COSH:
            e = math.exp(2.0 * ss[k])
            start = backward(SINH, lines.centre, lines.spread, e / (1.0 + e))
            stop = backward(SINH, lines.centre, lines.spread, 1.0 / (1.0 + e))
        add_weights(mean_edges, start, stop, columns, work)
        total = 0.0
        for i in range(ts.size):
            total += columns[i] * logs[i, k]
        variance_values[k] = max(total, 0.0)
    first, second = (mean_weights * mean_values).sum(), (variance_weights * variance_values).sum()
    if not (first > 0.0 and second > 0.0):
        return -np.inf, 1.0
    mean_values /= first
    variance_values /= second
    return top + math.log(first), abs(math.log(first / second))


@compiled
def reaches(mean_edges, variance_edges, lines, p, q):
    """Whether panel p of the mean and q of the variance share a point of the region."""
    if lines.kind != COSH:
        return True
    low = forward(SINH, lines.centre, lines.spread, mean_edges[p])
    high = forward(SINH, lines.centre, lines.spread, mean_edges[p + 1])
    mu = min(max(0.5, low), high)
    return variance_edges[q] < last_of(mu)


@compiled
def feasible_rows(mean_edges, variance_edges, lines, k):
    """The first row and the one behind the last that share a panel with column k and a point of the region."""
    first, stop = 0, (mean_edges.size - 1) * ORDER
    while first < stop and not reaches(mean_edges, variance_edges, lines, first // ORDER, k // ORDER):
        first += ORDER
    while first < stop and not reaches(mean_edges, variance_edges, lines, stop // ORDER - 1, k // ORDER):
        stop -= ORDER
    return first, stop


@compiled
def fill_rows(column, heights, mus, v, first, stop, seen, belief, constrained, room):
    """Log of prior times likelihood at some rows of a column; where it is largest with `heights`, and how large."""
    fill_column(column[first:stop], mus[first:stop], v, seen, constrained, room)
    best, most = first, -np.inf
    for i in range(first, stop):
        column[i] += log_prior(mus[i], v, belief)
        if column[i] + heights[i] > most:
            best, most = i, column[i] + heights[i]
    return best, most


@compiled
def fill_posterior(logs, mean_edges, variance_edges, lines, seen, belief, normalised, depth):
    """Log of prior times likelihood at the points of the panels, -inf in those beyond the region.

    Also -inf where it is more than `depth` under the largest, far on the way down: in the mean it is log-concave, so
    that from the middle column outwards the rows of one column tell where those of the next begin and end.
    """
    mus, _ = placed(mean_edges)
    variances, _ = placed(variance_edges)
    heights, columns = np.empty(mus.size), variances.size
    for i in range(mus.size):
        heights[i] = math.log(jacobian(SINH, lines.spread, mus[i]))
        mus[i] = forward(SINH, lines.centre, lines.spread, mus[i])
    logs[:] = -np.inf
    room, column = new_room(), np.empty(mus.size)
    top, near, far = -np.inf, 0, mus.size
    start = (0, 0)
    for turn in range(columns):
        k = columns // 2 - turn
        if k < 0:
            k = turn
        if turn == 0 or k == columns // 2 + 1:
            near, far = (0, mus.size) if turn == 0 else start
        slope = math.log(jacobian(lines.kind, 0.0, variances[k]))
        v = variances[k] = forward(lines.kind, 0.0, 0.0, variances[k])
        low, high = feasible_rows(mean_edges, variance_edges, lines, k)
        if low == high:
            continue
        first, stop = min(max(near - ORDER, low), high - ORDER), max(min(far + ORDER, high), low + ORDER)
        while True:
            best, most = fill_rows(column, heights, mus, v, first, stop, seen, belief, lines.kind == COSH, room)
            top = max(top, most + slope)
            level = top - depth - slope
            before, after = first, stop
            if first > low and (best == first or column[first] + heights[first] > level):
                before = max(low, first - 2 * ORDER)
            if stop < high and (best == stop - 1 or column[stop - 1] + heights[stop - 1] > level):
                after = min(high, stop + 2 * ORDER)
            if before == first and after == stop:
                break
            first, stop = before, after
        near, far = stop, first
        for i in range(first, stop):
            if column[i] + heights[i] > level:
                logs[i, k] = column[i]
                near, far = min(near, i), max(far, i + 1)
        if near >= far:
            near, far = best, best + 1
        if turn == 0:
            start = (near, far)
    if normalised:
        mass = np.empty_like(logs)
        fill_grid(mass, mus, variances, nothing_of(seen.n), True)
        for i in range(mus.size):
            for k in range(variances.size):
                logs[i, k] = logs[i, k] - mass[i, k] if logs[i, k] > -np.inf else -np.inf


@compiled
def goes_on(edges, values, low, high):
    """Whether a density is still high where its panels end, although its line does not end there."""
    level = values.max() * math.exp(-_ENOUGH)
    spare = 1e-6 * (edges[-1] - edges[0])
    return (values[0] > level and edges[0] > low + spare) or (values[-1] > level and edges[-1] < high - spare)


@compiled_in_place
def solve(seen, belief, constrained, normalised, cap, depth, mean_edges, variance_edges, mean_values, variance_values):
    """One posterior: its lines, log mass and mismatch; panels and marginals are filled in.

    Panels are laid by rough values first; where their polynomials do not hold the density, again by the density itself.
    """
    lines = lines_of(seen, belief, constrained, cap)
    lay_variance(variance_edges, lines.kind, lines.top, seen, belief, depth)
    lay_mean(mean_edges, variance_edges, lines, seen, belief, depth)
    logs = np.empty((mean_values.size, variance_values.size))
    counted = np.inf if normalised else depth + _FAR
    log_mass, mismatch = 0.0, 0.0
    for turn in range(_TURNS):
        fill_posterior(logs, mean_edges, variance_edges, lines, seen, belief, normalised, counted)
        log_mass, mismatch = integrate(logs, mean_edges, variance_edges, lines, mean_values, variance_values)
        if not log_mass > -np.inf:
            break
        kind = WITHIN if constrained else SINH
        mean = density_of(kind, lines.centre, lines.spread, mean_edges, mean_values)
        variance = density_of(lines.kind, 0.0, 0.0, variance_edges, variance_values)
        mismatch = max(mismatch, max(unresolved(mean), unresolved(variance)))
        largest = forward(lines.kind, 0.0, 0.0, variance_edges[-1])
        low, high = ends_of_mean(lines, largest, seen, belief)
        short = goes_on(mean_edges, mean_values, low, high)
        short = short or goes_on(variance_edges, variance_values, -np.inf, lines.top)
        if short:
            mismatch = max(mismatch, 1.0)
        if turn == _TURNS - 1 or mismatch < TOLERANCE:
            break
        if short:
            lay_again(mean_edges, mean_values, low, high, depth, mean_edges)
            lay_again(variance_edges, variance_values, -np.inf, lines.top, depth, variance_edges)
        else:
            lay_closer(mean_edges, mean)
            lay_closer(variance_edges, variance)
        snap(mean_edges, 0.0)
        snap(variance_edges, corner_of(lines.kind, seen))
    return lines, log_mass, mismatch


@compiled
def solve_many(seen, beliefs, flags, caps, depth, start, stop, lines, edges, values, totals):
    """`solve` for the rows start to stop of arrays, one release a row.

    `seen` (row, 7) and `beliefs` (row, 5) hold the fields of `Seen` and `Belief`; `lines` (row, 4), `edges` = (mean,
    variance), `values` = (mean, variance) and `totals` (row, 2), log mass and mismatch, are filled in.
    """
    for i in range(start, stop):
        one, belief = seen_of(seen[i]), belief_of(beliefs[i])
        found, log_mass, mismatch = solve(
            one, belief, flags[0], flags[1], caps[i], depth, edges[0][i], edges[1][i], values[0][i], values[1][i]
        )
        lines[i, 0], lines[i, 1], lines[i, 2], lines[i, 3] = found.centre, found.spread, found.kind, found.top
        totals[i, 0], totals[i, 1] = log_mass, mismatch


@compiled
def seen_of(row):
    """A row of numbers as `Seen`.

    Parameters
    ----------
    row : (7,), the fields of `Seen` in their order

    Returns
    -------
    Seen
    """
    return Seen(row[0], int(row[1]), row[2], row[3], int(row[4]), row[5], row[6])


@compiled
def belief_of(row):
    """A row of numbers as `Belief`."""
    return Belief(int(row[0]), row[1], row[2], row[3], row[4])


@compiled
def joint_weights(logs, mean_edges, variance_edges, lines, limit):
    """Weights of the points (mean, variance) for expectations under the log posterior `logs`; they sum to 1.

    With `limit`, mass with v > mu (1 - mu) is left out on a line without bounds as well, before the weights are
    normalised by the whole: their sum is the probability of the region.
    """
    ts, mean_weights = placed(mean_edges)
    ss, variance_weights = placed(variance_edges)
    work, columns = np.empty(ORDER), np.empty(ts.size)
    weights = np.empty_like(logs)
    top = logs.max()
    total = 0.0
    for k in range(ss.size):
        slope = jacobian(lines.kind, 0.0, ss[k])
        v = forward(lines.kind, 0.0, 0.0, ss[k])
        half = math.sqrt(max(0.25 - v, 0.0))
        start, stop = -np.inf, np.inf
        if lines.kind == COSH or limit:
            start = backward(SINH, lines.centre, lines.spread, 0.5 - half)
            stop = backward(SINH, lines.centre, lines.spread, 0.5 + half)
        add_weights(mean_edges, start, stop, columns, work)
        for i in range(ts.size):
            mass = math.exp(logs[i, k] - top) * slope * jacobian(SINH, lines.spread, ts[i]) * variance_weights[k]
            weights[i, k] = columns[i] * mass
            total += (columns[i] if not limit else mean_weights[i]) * mass
    return weights / total
