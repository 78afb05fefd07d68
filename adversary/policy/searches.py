"""The smallest epsilon over all readers, by branch and bound on the square of priors.

On a cell [p0, p1] x [q0, q1] where r* is at least r, no reader needs less than the box rule of `RatioOrAbsolute` gives
for that r: a lower bound. Values at readers inside are upper bounds. Cells whose lower bound is no better than the best
reader known are dropped, the rest halved either way. Where r* rises in neither prior its least on a cell is at the
upper corner, and the bracket is certified; elsewhere the least of the corners and the middle stands for it, on a first
grid fine enough (about 2 % of either prior, or a factor of 1.8) to meet every feature that is no smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adversary._numeric import Floats
from adversary.policy.profiles import Binding, RiskProfile
from adversary.policy.risks import epsilon_at

TOLERANCE = 1e-9
"""Width of the bracket, absolute and relative, at which the search stops."""
MOST_CELLS = 200_000
DEEPEST = 300
NEAREST = 1e-12
"""What stands for a prior of 0, where a function cannot be asked."""

type Cells = tuple[Floats, Floats, Floats, Floats]


class Optimum(NamedTuple):
    """Least epsilon between `lower` and the one of `best`; `certified` if the lower end is proved."""

    lower: float
    best: Binding
    certified: bool
    evaluations: int


def least_epsilon(profile: RiskProfile, statistic: str = "any") -> Optimum:
    """Infimum over the profile's domain of the epsilon that each reader needs.

    Raises
    ------
    ValueError : a profile declared decreasing is seen to rise
    """
    cells = _first_cells(profile)
    best, dropped, evaluations = Binding(np.inf, np.nan, np.nan), np.inf, 0
    for _ in range(DEEPEST):
        least, readers = _asked(profile, cells, statistic)
        evaluations += readers.epsilon.size
        at = int(np.argmin(readers.epsilon))
        if readers.epsilon[at] < best.epsilon:
            best = Binding(float(readers.epsilon[at]), float(readers.p[at]), float(readers.q[at]))
        lower = box_epsilon(cells, least, statistic)
        enough = (
            lower >= best.epsilon - TOLERANCE * max(1.0, best.epsilon) if best.epsilon < np.inf else lower == np.inf
        )
        dropped = min(dropped, float(lower[enough].min(initial=np.inf)))
        cells = tuple(side[~enough] for side in cells)  # type: ignore[assignment]
        if not cells[0].size:
            break
        halves = _halved(cells)
        if halves[0].size > MOST_CELLS or halves[0].size == cells[0].size:
            dropped = min(dropped, float(lower[~enough].min()))
            break
        cells = halves
    else:
        dropped = min(dropped, float(lower[~enough].min()))
    return Optimum(min(dropped, best.epsilon), _limit(best, profile), profile.decreasing, evaluations)


def box_epsilon(cells: Cells, ratio: Floats, statistic: str) -> Floats:
    """Least epsilon on each cell under a constant ratio (Equations 3.27 and 3.28), at (p1, q0) or (p0, q0)."""
    p0, p1, q0, _ = cells
    with np.errstate(invalid="ignore"):
        p = np.where((q0 < 1.0 / (ratio + 1.0)) & (statistic == "any"), p1, p0)
    return np.where(np.isinf(ratio), np.inf, epsilon_at(p, q0, ratio, statistic))


class _Readers(NamedTuple):
    epsilon: Floats
    p: Floats
    q: Floats


def _asked(profile: RiskProfile, cells: Cells, statistic: str) -> tuple[Floats, _Readers]:
    """r* bounded below on each cell, and what readers at its corners and middle need."""
    p0, p1, q0, q1 = cells
    low_p, low_q = np.maximum(p0, np.minimum(NEAREST, p1)), np.maximum(q0, np.minimum(NEAREST, q1))
    p = np.array([p1, p1, low_p, low_p, 0.5 * (p0 + p1)])
    q = np.array([q1, low_q, q1, low_q, 0.5 * (q0 + q1)])
    ratio = profile.ratios(p, q)
    if profile.decreasing:
        if (rises := (ratio < ratio[0] * (1.0 - 1e-12))).any():
            at = tuple(np.argwhere(rises)[0])
            raise ValueError(
                f"a profile declared decreasing must not rise: {ratio[at]:g} at ({p[at]:.6g}, {q[at]:.6g}) and "
                f"{ratio[0][at[1]]:g} at ({p1[at[1]]:.6g}, {q1[at[1]]:.6g})"
            )
        least = ratio[0]
    else:
        least = ratio.min(0)
    epsilon = epsilon_at(p, q, ratio, statistic)
    return least, _Readers(epsilon.ravel(), p.ravel(), q.ravel())


def _first_cells(profile: RiskProfile) -> Cells:
    """Where the search starts: two edges, the whole domain, or a first grid of it.

    Of readers with one p q and one r* the one with the largest p needs least: d epsilon / d p < 0 there for r* > 1. So
    a profile of p q alone is searched along q = q0, then p = p1.
    """
    (p0, p1), (q0, q1) = profile.domain
    if profile.of_product:
        return np.array([p0, p1]), np.array([p1, p1]), np.array([q0, q0]), np.array([q0, q1])
    if profile.decreasing:
        return np.array([p0]), np.array([p1]), np.array([q0]), np.array([q1])
    usual = np.union1d(np.geomspace(1e-6, 1.0, 25), np.linspace(0.0, 1.0, 51))
    sides = []
    for low, high in profile.domain:
        edges = np.unique([low, *usual[(usual > low) & (usual < high)], high])
        sides.append((edges[:-1], edges[1:]) if edges.size > 1 else (edges, edges))
    (low_p, high_p), (low_q, high_q) = sides
    rows, columns = np.indices((low_p.size, low_q.size)).reshape(2, -1)
    return low_p[rows], high_p[rows], low_q[columns], high_q[columns]


def _halved(cells: Cells) -> Cells:
    """Each cell cut in two or four, in the middle of every side that has one."""
    (p0, p1), (q0, q1) = _cut(cells[0], cells[1]), _cut(cells[2], cells[3])
    shape = np.broadcast_shapes(p0[:, None].shape, q0[None].shape)
    pair = (np.broadcast_to(x, shape).ravel() for x in (p0[:, None], p1[:, None], q0[None], q1[None]))
    cut = np.stack(list(pair))
    kept = (cut[0] <= cut[1]) & (cut[2] <= cut[3])
    low_p, high_p, low_q, high_q = cut[:, kept]
    return low_p, high_p, low_q, high_q


def _cut(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Lower and upper halves, (2, n); an interval without a middle stays whole and its twin is turned round."""
    middle = 0.5 * (low + high)
    whole = (middle <= low) | (middle >= high)
    lows = np.array([low, np.where(whole, np.inf, middle)])
    highs = np.array([np.where(whole, high, middle), np.where(whole, -np.inf, high)])
    return lows, highs


def _limit(best: Binding, profile: RiskProfile) -> Binding:
    """The reader found, moved to 0 where the search was still on its way there."""
    if not best.epsilon < np.inf:
        return Binding(np.inf, np.nan, np.nan)
    near = 1e3 * NEAREST
    p, q = (
        0.0 if found <= near and low == 0.0 else found
        for found, (low, _) in zip((best.inclusion, best.value), profile.domain, strict=True)
    )
    return Binding(best.epsilon, p, q)
