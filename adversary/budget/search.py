"""The smallest epsilon over all adversaries, by branch and bound on the square of priors.

On a cell [p0, p1] x [q0, q1] with r* at least r, the box rule of `RatioOrAbsolute` for that r is a lower bound on every
adversary's epsilon. Values at adversaries inside are upper bounds. Cells whose lower bound is no better than the best
adversary so far are dropped; the others are halved in both directions. If r* is non-increasing in both priors, its
minimum on a cell is at the upper corner, and the bracket is certified. Otherwise the minimum over the corners and the
middle replaces it, on a first grid (2 % of either prior, or a factor of 1.8) whose local minima are refined. A dip
between the points of the grid may then be missed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adversary._core import Floats
from adversary.budget.risk_bounds import epsilon_at, epsilon_of_room
from adversary.budget.tolerances import Binding, Tolerance

TOLERANCE = 1e-9

# Width of the bracket, relative and absolute, at which the search stops.
ROUNDING = 3e-16
MOST_CELLS = 200_000
DEEPEST = 300

# Prior in place of 0, where a function cannot be evaluated.
NEAREST = 1e-12

# Number of local minima of the first grid that are refined, and of those that start a local optimisation.
ZOOMED, FOLLOWED = 30, 6
NOBODY = Binding(np.inf, np.nan, np.nan)

type Cells = tuple[Floats, Floats, Floats, Floats]


class Optimum(NamedTuple):
    """Bracket of the smallest epsilon, from `lower` to that of `best`; `certified` if the lower end is proved."""

    lower: float
    best: Binding
    certified: bool


def least_epsilon(tolerance: Tolerance, statistic: str = "any") -> Optimum:
    """Infimum over the profile's domain of the largest epsilon that satisfies it for each adversary.

    Infinite if no evaluated adversary limits epsilon.

    Raises
    ------
    ValueError : a profile declared decreasing rises between two evaluated priors
    """
    cells, best = _first_cells(tolerance), NOBODY if tolerance.decreasing else _grid_search(tolerance, statistic)
    dropped = np.inf
    for _ in range(DEEPEST):
        ratio, posterior, neediest = _bounds_on_cells(tolerance, cells, statistic)
        best = min(best, neediest, key=_epsilon_needed)
        lower = np.maximum(box_epsilon(cells, ratio, statistic), _epsilon_at_cap(cells, posterior, statistic))
        enough = lower >= best.epsilon * (1.0 - TOLERANCE) - ROUNDING if best.epsilon < np.inf else lower == np.inf
        dropped = min(dropped, float(lower[enough].min(initial=np.inf)))
        cells, lower = tuple(side[~enough] for side in cells), lower[~enough]  # type: ignore[assignment]
        if not lower.size or best.epsilon == -np.inf:
            break
        halves = _split_cells(cells)
        if halves[0].size > MOST_CELLS or halves[0].size == lower.size:
            break
        cells = halves
    best = _limit(best, tolerance)
    dropped = min(dropped, float(lower.min(initial=np.inf)))
    if not tolerance.decreasing:
        # The lower end is not proved; it is used only if it agrees with the best adversary to the tolerance.
        close = dropped >= best.epsilon * (1.0 - TOLERANCE) - 2.0 * ROUNDING
        return Optimum(min(dropped, best.epsilon) if close else best.epsilon, best, False)
    if best.epsilon == np.inf > dropped:
        # No evaluated adversary limits epsilon, but a finite lower bound leaves the possibility of one.
        return Optimum(np.inf, best, False)
    return Optimum(min(dropped, best.epsilon), best, True)


def box_epsilon(cells: Cells, ratio: Floats, statistic: str) -> Floats:
    """Least epsilon on each cell under a constant ratio (Equations 3.27 and 3.28), at (p1, q0) or (p0, q0)."""
    p0, p1, q0, _ = cells
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.where((q0 < 1.0 / (ratio + 1.0)) & (statistic == "any"), p1, p0)
    return np.where(np.isinf(ratio), np.inf, epsilon_at(p, q0, ratio, statistic))


def _epsilon_at_cap(cells: Cells, posterior: Floats, statistic: str) -> Floats:
    """Smallest epsilon on each cell, given a lower bound on the tolerated posterior: at (p1, q1), by Lemma 8."""
    _, p1, _, q1 = cells
    known = posterior > 0.0
    room = p1 * q1 * np.maximum(1.0 - posterior, 0.0) / np.where(known, posterior, 1.0)
    return np.where(known, epsilon_of_room(p1, q1, room, statistic), -np.inf)


def _neediest(epsilon: Floats, p: Floats, q: Floats) -> Binding:
    """The adversary who needs the smallest epsilon."""
    at = np.unravel_index(int(np.argmin(epsilon)), epsilon.shape)
    return Binding(float(epsilon[at]), float(p[at]), float(q[at]))


def _bounds_on_cells(tolerance: Tolerance, cells: Cells, statistic: str) -> tuple[Floats, Floats, Binding]:
    """Lower bounds on r* and on the tolerated posterior r* p q (0 without one) per cell, and the neediest adversary.

    Evaluated adversaries are those at the corners and the middle of the cells.
    """
    p0, p1, q0, q1 = cells
    low_p, low_q = np.maximum(p0, np.minimum(NEAREST, p1)), np.maximum(q0, np.minimum(NEAREST, q1))
    p = np.array([p1, p1, low_p, low_p, 0.5 * (p0 + p1)])
    q = np.array([q1, low_q, q1, low_q, 0.5 * (q0 + q1)])
    ratio = tolerance.ratios(p, q)
    if tolerance.decreasing:
        _refuse_rises(ratio, ratio[0], (p, q), (p1, q1))
    # In a profile that depends on p q only, r* p q is non-decreasing: the lower corner bounds it.
    known = tolerance.of_product & (low_p == p0) & (low_q == q0)
    with np.errstate(invalid="ignore"):
        posterior = np.where(known, np.minimum(ratio[3] * low_p * low_q, 1.0), 0.0)
    least = ratio[0] if tolerance.decreasing else ratio.min(0)
    return least, posterior, _neediest(epsilon_at(p, q, ratio, statistic), p, q)


def _grid_search(tolerance: Tolerance, statistic: str) -> Binding:
    """The neediest adversary near the local minima of the first grid, each refined on nine by nine points."""
    p, q = first_priors(tolerance)
    epsilon = epsilon_at(p[:, None], q[None], tolerance.ratios(p[:, None], q[None]), statistic)
    around = np.pad(epsilon, 1, constant_values=np.inf)
    near = np.lib.stride_tricks.sliding_window_view(around, (3, 3)).min((-1, -2))
    row, column = np.nonzero((epsilon <= near) & (epsilon < np.inf))
    if not row.size:
        return NOBODY
    row, column = (side[np.argsort(epsilon[row, column], kind="stable")[:ZOOMED]] for side in (row, column))
    at = np.array([p[row], q[column]])
    wide = np.array([_spacing(p)[row], _spacing(q)[column]])
    best, steps = epsilon[row, column], np.linspace(-1.0, 1.0, 9)
    for _ in range(45):
        a = np.clip(at[0][:, None, None] + wide[0][:, None, None] * steps[:, None], p[0], p[-1])
        b = np.clip(at[1][:, None, None] + wide[1][:, None, None] * steps, q[0], q[-1])
        a, b = (side.reshape(row.size, -1) for side in np.broadcast_arrays(a, b))
        needed = epsilon_at(a, b, tolerance.ratios(a, b), statistic)
        lowest = needed.argmin(1)[:, None]
        there = np.array([np.take_along_axis(side, lowest, 1)[:, 0] for side in (needed, a, b)])
        better = there[0] < best
        best, at, wide = np.where(better, there[0], best), np.where(better, there[1:], at), 0.5 * wide
    if not best.min() > 0.0:
        # An epsilon of 0 or less: no release satisfies the profile, and the search can stop.
        return _neediest(best, *at)
    return min(
        (_local_search(tolerance, statistic, best[i], *at[:, i]) for i in np.argsort(best)[:FOLLOWED]),
        key=_epsilon_needed,
    )


def _local_search(tolerance: Tolerance, statistic: str, epsilon: float, p: float, q: float) -> Binding:
    """A local minimum near one adversary, by Nelder-Mead, twice, which also follows oblique valleys."""
    from scipy.optimize import minimize

    ends = [(max(low, min(NEAREST, high)), high) for low, high in tolerance.domain]

    def need(priors: Floats) -> float:
        a, b = (np.asarray(np.clip(x, *end)) for x, end in zip(priors, ends, strict=True))
        return max(float(epsilon_at(a, b, tolerance.ratios(a, b), statistic)), -1e300)

    best = Binding(float(epsilon), float(p), float(q))
    for share in (0.05, 0.002):
        start = np.array([best.inclusion, best.value])
        width = share * np.minimum(start, [end[1] - end[0] for end in ends])
        corners = np.array([start, start - [width[0], 0.0], start - [0.0, width[1]]])
        options = {"initial_simplex": corners, "xatol": 1e-10, "fatol": 1e-13}
        # The objective is infinite where the profile tolerates everything: inf - inf in the simplex.
        with np.errstate(invalid="ignore"):
            optimum = minimize(need, start, method="Nelder-Mead", options=options)
        priors = [float(np.clip(x, *end)) for x, end in zip(optimum.x, ends, strict=True)]
        best = min(best, Binding(float(optimum.fun), *priors), key=_epsilon_needed)
    return best


def _epsilon_needed(one: Binding) -> float:
    return one.epsilon


def _spacing(edges: Floats) -> Floats:
    """The wider gap of every point to its neighbours."""
    gaps = np.pad(np.diff(edges), 1)
    return np.maximum(gaps[1:], gaps[:-1])


def _first_cells(tolerance: Tolerance) -> Cells:
    """The first cells of the search: two edges of the domain, all of it, or a grid of it.

    Among adversaries with equal p q and r*, the one with the largest p needs the smallest epsilon: d epsilon / d p < 0
    there for r* > 1. So a profile that depends on p q only is searched along q = q0, then p = p1.
    """
    (p0, p1), (q0, q1) = tolerance.domain
    if tolerance.of_product:
        return np.array([p0, p1]), np.array([p1, p1]), np.array([q0, q0]), np.array([q0, q1])
    if tolerance.decreasing:
        _look_for_rises(tolerance)
        return np.array([p0]), np.array([p1]), np.array([q0]), np.array([q1])
    sides = _first_edges(tolerance)
    (low_p, high_p), (low_q, high_q) = ((side[:-1], side[1:]) if side.size > 1 else (side, side) for side in sides)
    rows, columns = np.indices((low_p.size, low_q.size)).reshape(2, -1)
    return low_p[rows], high_p[rows], low_q[columns], high_q[columns]


def _first_edges(tolerance: Tolerance) -> list[Floats]:
    """Edges of the first grid along either prior, the ends of the domain included."""
    usual = np.union1d(np.geomspace(1e-6, 1.0, 25), np.linspace(0.0, 1.0, 51))
    return [np.unique([low, *usual[(usual > low) & (usual < high)], high]) for low, high in tolerance.domain]


def first_priors(tolerance: Tolerance) -> list[Floats]:
    """First grid edges, with 0 replaced by `NEAREST`."""
    return [np.unique(np.maximum(side, min(NEAREST, side[-1]))) for side in _first_edges(tolerance)]


def _look_for_rises(tolerance: Tolerance) -> None:
    """Refuse a profile declared decreasing that rises between neighbours of the first grid."""
    p, q = first_priors(tolerance)
    rows, columns = np.broadcast_arrays(p[:, None], q[None])
    ratio = tolerance.ratios(rows, columns)
    _refuse_rises(ratio[:-1], ratio[1:], (rows[:-1], columns[:-1]), (rows[1:], columns[1:]))
    _refuse_rises(ratio[:, :-1], ratio[:, 1:], (rows[:, :-1], columns[:, :-1]), (rows[:, 1:], columns[:, 1:]))


def _refuse_rises(low: Floats, high: Floats, at: tuple[Floats, Floats], above: tuple[Floats, Floats]) -> None:
    """ValueError where r* at the lower of two pairs of priors is less than at the upper."""
    low, high, *sides = np.broadcast_arrays(low, high, *at, *above)
    if (rises := low < high * (1.0 - 1e-12)).any():
        p, q, up_p, up_q = (float(side[rises][0]) for side in sides)
        raise ValueError(
            f"a profile declared decreasing must not rise: {low[rises][0]:.10g} at ({p:.6g}, {q:.6g}) and "
            f"{high[rises][0]:.10g} at ({up_p:.6g}, {up_q:.6g})"
        )


def _split_cells(cells: Cells) -> Cells:
    """The cells, each cut in the middle of every side that is long enough: into two or four."""
    (p0, p1), (q0, q1) = _split_interval(cells[0], cells[1]), _split_interval(cells[2], cells[3])
    sides = np.broadcast_arrays(p0[:, None], p1[:, None], q0[None], q1[None])
    low_p, high_p, low_q, high_q = (side.ravel() for side in sides)
    possible = (low_p <= high_p) & (low_q <= high_q)
    return low_p[possible], high_p[possible], low_q[possible], high_q[possible]


def _split_interval(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Lower and upper halves, (2, n); an interval too short to halve stays whole, with an empty second half."""
    middle = 0.5 * (low + high)
    whole = (middle <= low) | (middle >= high)
    lows = np.array([low, np.where(whole, np.inf, middle)])
    highs = np.array([np.where(whole, high, middle), np.where(whole, -np.inf, high)])
    return lows, highs


def _limit(best: Binding, tolerance: Tolerance) -> Binding:
    """The best adversary, with priors within 1e-9 of 0 replaced by their limit 0."""
    if not best.epsilon < np.inf:
        return NOBODY
    near = 1e3 * NEAREST
    p, q = (
        0.0 if prior <= near and low == 0.0 else prior
        for prior, (low, _) in zip((best.inclusion, best.value), tolerance.domain, strict=True)
    )
    return Binding(best.epsilon, p, q)
