r"""Moments of the regressor, their projection on moments of distributions on [0, 1], and moments of one record.

With :math:`m_k = E[x^k]`, :math:`X = (1, x)`: :math:`\eta_{ij} = m_{i+j}` and
:math:`\xi_{ijkl} = m_{i+j+k+l} - m_{i+j} m_{k+l}`, so that five moments of x suffice for simple regression.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, check_number

MOMENTS = ("1", "x", "x2", "x3", "x4")
"""Names of the moment sums, x^0 to x^4."""

# Share of the uniform distribution's moments that the sampler mixes in: on the boundary of the feasible moments the
# variance of x can be 0.
MIXED = 0.05

# Support points of the distributions whose moments are feasible, a step of 0.005.
_SUPPORT = 201

# Moments of the uniform distribution on [0, 1].
_UNIFORM = 1.0 / np.arange(1.0, 6.0)


def power_sums(x: ArrayLike) -> Floats:
    """Sums of x^0, ..., x^4 over the last axis, shape (..., 5)."""
    powers = np.asarray(x, dtype=np.float64)[..., None] ** np.arange(5)
    return np.asarray(powers.sum(axis=-2))


def check_moments(name: str, m: ArrayLike) -> Floats:
    """Five finite numbers as an array; ValueError otherwise."""
    moments = check_number(name, m)
    if moments.shape != (5,):
        raise ValueError(f"{name} must be five numbers, of x^0 to x^4, got shape {moments.shape}")
    if not np.isfinite(moments).all():
        raise ValueError(f"{name} must be finite, got {moments}")
    return moments


def project_moments(m: ArrayLike, *, mixed: float = 0.0) -> Floats:
    r"""Project moments to the nearest moments of a distribution on [0, 1], and mix them with the uniform one's.

    .. math:: (1 - w) \, \arg\min_{m' \in M} \|m' - m\| + w \, (1, 1/2, 1/3, 1/4, 1/5)

    M are the moments of distributions on 201 equally spaced points of [0, 1]. Noisy moments mostly belong to no
    distribution, and a sampler that uses them unchanged does not move.

    Parameters
    ----------
    m : (1, E x, E x^2, E x^3, E x^4), shape (5,); the first must be 1
    mixed : w, share of the uniform distribution; if positive, the result is inside the boundary of M

    Raises
    ------
    ValueError : not five finite numbers, the first not 1, w outside [0, 1]

    >>> project_moments([1.0, 0.5, 0.1, 0.2, 0.0]).round(3)
    array([1.   , 0.454, 0.206, 0.093, 0.042])
    """
    from scipy.optimize import nnls

    given = check_moments("m", m)
    if abs(given[0] - 1.0) > 1e-9:
        raise ValueError(f"the first moment must be 1, that of x^0: divide the sums by n, got {given[0]}")
    if not 0.0 <= mixed <= 1.0:
        raise ValueError(f"mixed must be in [0, 1], got {mixed}")
    points = np.linspace(0.0, 1.0, _SUPPORT)
    table = points ** np.arange(5)[:, None]
    # the large weight of the first moment makes the masses sum to 1
    weight = np.array([1e4, 1.0, 1.0, 1.0, 1.0])
    mass, _ = nnls(weight[:, None] * table, weight * given)
    return np.asarray((1.0 - mixed) * table @ (mass / mass.sum()) + mixed * _UNIFORM)


def record_law(theta: ArrayLike, sigma2: ArrayLike, m: ArrayLike, *, published: bool = False) -> tuple[Floats, Floats]:
    r"""Mean and covariance of (1, x, x^2, y, xy, y^2) of one record with y ~ N(theta_0 + theta_1 x, sigma2).

    .. math:: \mathrm{Cov} = \mathrm{Cov}(E[\cdot \mid x]) + E[\mathrm{Cov}(\cdot \mid x)]

    The conditional means are polynomials in x, whose covariance follows from :math:`C_{pq} = m_{p+q} - m_p m_q`; the
    second term concerns only (y, xy, y^2).

    Parameters
    ----------
    theta : (intercept, slope), shape (..., 2)
    sigma2 : shape (...)
    m : moments of x, (1, E x, ..., E x^4)
    published : use the xi of Cov(x_i y, x_j y) with indices ijkl, as in the published script (erratum E3), instead of
        ikjl

    Returns
    -------
    Mean, shape (..., 6), and covariance, shape (..., 6, 6), whose first row is 0.
    """
    line, v, moments = np.asarray(theta, dtype=np.float64), np.asarray(sigma2, dtype=np.float64), np.asarray(m)
    a, b, zeros = line[..., 0], line[..., 1], np.zeros(line.shape[:-1])
    ones, square = zeros + 1.0, np.stack([a * a, 2.0 * a * b, b * b], axis=-1)
    rows = [(ones, zeros, zeros), (zeros, ones, zeros), (zeros, zeros, ones), (a, b, zeros), (zeros, a, b)]
    means = np.stack([*(np.stack(row, axis=-1) for row in rows), square], axis=-2)
    order = np.add.outer(np.arange(3), np.arange(3))
    power_covariance = moments[order] - np.outer(moments[:3], moments[:3])
    covariance, eta = means @ power_covariance @ np.swapaxes(means, -1, -2), moments[order[:2, :2]]
    if published:
        covariance[..., 3:5, 3:5] = (square @ power_covariance)[..., order[:2, :2]]
    height = line @ eta
    covariance[..., 3:5, 3:5] += v[..., None, None] * eta
    cross = 2.0 * v[..., None] * height
    covariance[..., 3:5, 5] += cross
    covariance[..., 5, 3:5] += cross
    level = (line * height).sum(axis=-1)
    covariance[..., 5, 5] += 2.0 * v * v + 4.0 * v * level
    mean = means @ moments[:3]
    mean[..., 5] += v
    return mean, covariance
