r"""Hit-and-run steps inside a constrained block of the regression sampler, for chains whose block draws all fail.

Rejection sampling of a block from its normal distribution may never succeed. A step along a line through the current
state always does: the feasible part of the line is an interval (a chord of the region), and the conditional on it is a
truncated normal. Each step leaves the distribution of the block invariant. So does a mixture of block draws and steps,
because the probability that a block draw fails does not depend on the current state: the chain stays exact.

References
----------
Gelfand, Smith and Lee (1992), "Bayesian analysis of constrained parameter and truncated data problems using Gibbs
sampling"; Rodriguez-Yam, Davis and Scharf (2004), for lines along which a truncated normal is uncorrelated.
"""

from __future__ import annotations

import numpy as np

from adversary._core import Floats
from adversary.bounded.regression.regression_law import in_region
from adversary.bounded.regression.sufficient_statistics import MATRIX, satisfied_constraints

# (Sx, Sxx, Sy, Sxy, Syy) / n of records spread evenly over the unit square: well inside the region.
INSIDE = np.array([1 / 2, 1 / 3, 1 / 2, 1 / 4, 1 / 3])

# Linear constraints on (Sx, Sxx, Sy, Sxy, Syy): side . S + n end >= 0.
_SIDES = np.array(
    [
        [1, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, -1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, -1, 0, 0],
        [0, 0, 0, 0, 1], [0, 0, 1, 0, -1], [0, 0, 0, 1, 0], [1, 0, 0, -1, 0], [0, 0, 1, -1, 0],
    ],
    dtype=np.float64,
)  # fmt: skip
_ENDS = np.array([0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0], dtype=np.float64)

# Smallest eigenvalue of a moment matrix, relative to the largest, so that its inverse root is finite.
_FLOOR = 1e-14

# Directions of (intercept, slope) that move the line at x = 0 alone, and at x = 1 alone.
_ACROSS = np.array([[1.0, -1.0], [0.0, 1.0]])


def chord(sums: Floats, direction: Floats, n: float) -> tuple[Floats, Floats]:
    r"""Interval (low, high) of t for which sums + t direction is feasible; sums (..., 5) are feasible themselves.

    The region is convex: eleven half-spaces, and the cone of positive semi-definite moment matrices, in which
    :math:`A + t B \succeq 0` until t reaches -1 over an eigenvalue of :math:`A^{-1/2} B A^{-1/2}`.
    """
    slack, slope = np.maximum(sums @ _SIDES.T + n * _ENDS, 0.0), direction @ _SIDES.T
    matrix, direction_matrix = _moment_matrix(sums, n), _moment_matrix(direction, 0.0)
    values, vectors = np.linalg.eigh(matrix)
    root = vectors / np.sqrt(np.maximum(values, _FLOOR * values[..., -1:]))[..., None, :]
    eigen = np.linalg.eigvalsh(np.swapaxes(root, -1, -2) @ direction_matrix @ root)
    slack, slope = np.concatenate([slack, np.ones_like(eigen)], axis=-1), np.concatenate([slope, eigen], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = -slack / slope
    low = np.where(slope > 0.0, ends, -np.inf).max(axis=-1)
    return low, np.where(slope < 0.0, ends, np.inf).min(axis=-1)


def _moment_matrix(sums: Floats, n: float) -> Floats:
    """(..., 3, 3) moment matrix of sums (..., 5) of n records."""
    return np.concatenate([np.full((*sums.shape[:-1], 1), n), sums], axis=-1)[..., MATRIX]


def hit_and_run_sums(
    sums: Floats, centre: Floats, precision: Floats, root: Floats, n: float, rng: np.random.Generator
) -> Floats:
    """Ten hit-and-run steps of feasible sums (chain, 5), for N(centre, precision^-1) truncated to the region.

    Five lines are the rows of root, with root' root = precision^-1: the normal is uncorrelated along them, so without
    constraints nearby these steps alone give an independent draw. The other five change one sum each.

    Parameters
    ----------
    sums, centre : (chain, 5); precision, root : (chain, 5, 5)
    n : number of records
    rng : Generator
    """
    from adversary.bounded.thesis import truncated_normals

    size = sums.shape[-1]
    lines = [root[:, k] for k in range(size)] + [np.broadcast_to(row, sums.shape) for row in np.eye(size)]
    for line in lines:
        gradient = (precision @ line[..., None])[..., 0]
        curvature = (line * gradient).sum(axis=-1)
        step = truncated_normals(
            ((centre - sums) * gradient).sum(axis=-1) / curvature, curvature**-0.5, *chord(sums, line, n), rng
        )
        moved = sums + step[:, None] * line
        sums = np.where(
            satisfied_constraints(moved, n).all(axis=-1)[:, None], moved, sums
        )  # always accepted, except for rounding errors
    return sums


def hit_and_run_coefficients(
    theta: Floats,
    tau: Floats,
    law: tuple[Floats, Floats, float, Floats],
    smallest_tau: float,
    tight: bool,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    r"""Steps of feasible theta (chain, 2) and tau = 1 / sigma2 >= least (chain,), from their full conditionals.

    .. math:: \theta \mid \tau \sim N(\mu_n, (\tau \Lambda_n)^{-1}), \quad
              \tau \mid \theta \sim \mathrm{Gamma}(a_n + 1,
                  b_n + (\theta - \mu_n)' \Lambda_n (\theta - \mu_n) / 2)

    theta moves by the heights of its line at x = 0 and at x = 1, one at a time: given the other height, each region,
    weak or tight, is an interval. `law` is (mu_n, Lambda_n, a_n, b_n).
    """
    from adversary.bounded.thesis import tilted_gamma, truncated_normals

    centre, precision, shape, scale = law
    for place, line in enumerate(_ACROSS):
        gradient = precision @ line
        curvature = tau * (gradient @ line)
        height, other = theta[:, 0] + place * theta[:, 1], theta[:, 0] + (1 - place) * theta[:, 1]
        low = np.where(tight | (other < 0.0), -height, -np.inf)
        high = np.where(tight | (other > 1.0), 1.0 - height, np.inf)
        step = truncated_normals(
            tau * ((centre - theta) * gradient).sum(axis=-1) / curvature, curvature**-0.5, low, high, rng
        )
        moved = theta + step[:, None] * line
        theta = np.where(in_region(moved, tight)[:, None], moved, theta)  # always accepted, except for rounding errors
    deviation = theta - centre
    rate = scale + 0.5 * np.einsum("...i,...ij,...j->...", deviation, precision, deviation)
    return theta, np.array([tilted_gamma(shape + 1.0, r, 0.0, 0.0, smallest_tau, np.inf, rng) for r in rate])
