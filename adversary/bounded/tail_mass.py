r"""Checks of propriety for a user's log prior: decay of the posterior mass towards the ends of mu and sigma2.

.. math::

    M(v) = v \int p(\mu, v)\, q_1(Y^* - \mu)\, d\mu \cdot Z(v)

is the mass of sigma2 per unit of log v. Its integral towards v = 0, or towards infinity, is finite only if M decreases
there; the same holds for :math:`|\mu|\, p(\mu, v)\, q_1(Y^* - \mu)` towards either end of mu. Only limits of the
likelihood are needed: :math:`Z(v)` tends to a positive constant as v -> 0 (Theorem 17) and decays like
:math:`v^{-(n-1)/2}` as v grows (Theorem 18).

The integrals over mu use points graded about the bounds, the release and the maximum of the integrand, so that a spike
of the prior that narrows with v is resolved. Powers are resolved to 5e-4 in the exponent; a mass that decays only as a
power of log v counts as decaying. A singularity in mu alone is detected only at the lower bound, where floating-point
numbers are dense enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adversary._core import Floats, log_sum_exp
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.grid import normal_laplace_logpdf

LogDensity = Callable[[Floats, Floats], Floats]

# Variances of data on [0, 1] between which the mass must decrease towards 0, the outer one first.
SMALL = 10.0 ** np.array([-22.0, -20.0])

# The same toward infinity.
LARGE = 10.0 ** np.array([22.0, 20.0])
FAR = np.array([1e9, 1e8])
"""Distances of a mean from the bounds, in widths, between which the mass must decrease."""
LEAST = 5e-4
"""Smallest power with which the mass must decrease."""

# Distances of quadrature points from their anchors: 25 decades, eight points each.
_STEPS = 10.0 ** np.arange(-24.0, 1.0, 0.125)

# Iterations of the search for the maximum, each about seven times closer to it.
_REFINED = 16


def decreases_in_variance(log_density: LogDensity, release: BoundedRelease, constrained: bool, *, large: bool) -> bool:
    """True if the mass of sigma2 decreases towards 0, or with `large` towards infinity.

    log_density : log prior of (mu, sigma2) on [0, 1]
    """
    v = LARGE if large else SMALL
    logs = _log_masses(log_density, release, constrained, v)
    if large and release.variance is not None:
        logs = logs - 0.5 * (int(release.size.min()) - 1.0) * np.log(v)
    return _decreases(logs, abs(np.log(v[0] / v[1])))


def decreases_in_mean(log_density: LogDensity, release: BoundedRelease, top: float) -> bool:
    """True if the mass of mu decreases towards both ends, at several sigma2 up to `top`; without the bounds."""
    v = np.minimum(np.array([1e-6, 1e-3, 0.1, 1.0, 1e3])[:, None], top)
    for side in (-FAR, FAR):
        mu = np.broadcast_to(side, (v.size, side.size))
        logs = log_density(mu, np.broadcast_to(v, mu.shape)) + _log_noise_density(release, mu, v) + np.log(np.abs(mu))
        if not all(_decreases(row, np.log(FAR[0] / FAR[1])) for row in logs):
            return False
    return True


def is_constant(log_density: LogDensity) -> bool:
    """True if a log density is constant at scattered points, in the feasible region and outside: a flat prior."""
    steps = np.arange(1.0, 33.0)
    mu = 3.0 * (steps * 0.6180339887 % 1.0) - 1.0
    logs = log_density(mu, 10.0 ** (4.0 - 12.0 * (steps * 0.7548776662 % 1.0)))
    return bool(np.isfinite(logs).all() and np.ptp(logs) == 0.0)


def _decreases(logs: Floats, step: float) -> bool:
    """True if the outer of two log masses is below the inner by more than LEAST times `step`, their log distance.

    A mass that is 0 or NaN at the outer point counts as decreasing; the quadrature decides then.
    """
    last, before = logs
    if np.isnan(last) or last == -np.inf or np.isnan(before):
        return True
    return bool(before - last > LEAST * step)


def _log_masses(log_density: LogDensity, release: BoundedRelease, constrained: bool, v: Floats) -> Floats:
    """(v,) log v plus the log integral over mu of prior times noise density of the mean."""
    low, high = np.zeros(v.size), np.ones(v.size)
    if constrained:
        low = v / (0.5 + np.sqrt(0.25 - v))
        high = np.minimum(1.0 - low, np.nextafter(1.0, 0.0))
    reach = np.sqrt(1.0 + v) * (1.0 if constrained else 1e3)

    def logs(mu: Floats) -> Floats:
        noise = 0.0 if constrained else _log_noise_density(release, mu, v[:, None])
        log_values = log_density(mu, np.broadcast_to(v[:, None], mu.shape)) + noise
        return np.where(np.isfinite(log_values), log_values, -np.inf)  # a pole at one point shows at its neighbours

    def graded(anchors: list[Floats]) -> Floats:
        points = _geometric_points(anchors, reach)
        return np.clip(points, low[:, None], high[:, None]) if constrained else points

    anchors = [low, high]
    if not constrained and release.mean is not None:
        anchors.append(np.full(v.size, float(np.median(release.unit_mean))))
    points = graded(anchors)
    for _ in range(_REFINED):
        best = np.take_along_axis(points, np.argmax(logs(points), 1)[:, None], 1)[:, 0]
        points = graded([best])
    points = graded([*anchors, best])
    log_values = logs(points)
    with np.errstate(divide="ignore"):
        widths = np.log(np.diff(points, axis=1))
    middle = np.logaddexp(log_values[:, 1:], log_values[:, :-1]) - np.log(2.0)
    return np.asarray(log_sum_exp(middle + widths) + np.log(v))


def _geometric_points(anchors: list[Floats], reach: Floats) -> Floats:
    """(v, point) sorted points at geometrically spaced distances up to `reach` (v,) from anchors (v,)."""
    distances = _STEPS * reach[:, None]
    parts = [np.concatenate([a[:, None] - distances, a[:, None], a[:, None] + distances], axis=1) for a in anchors]
    return np.sort(np.concatenate(parts, axis=1), axis=1)


def _log_noise_density(release: BoundedRelease, mu: Floats, v: Floats) -> Floats:
    """Log density of the released mean given mu and v, with one value for all releases; 0 if no mean is released.

    That value has the median of the released means, the widest noise, and the smallest number of records.
    """
    if release.mean is None:
        return np.zeros(mu.shape)
    centre, scale = float(np.median(release.unit_mean)), float(release.unit_scales[0].max())
    t = np.broadcast_to(v / release.size.min(), mu.shape)
    if release.noise == "laplace":
        return np.asarray(normal_laplace_logpdf(centre, mu, t, 1.0 / scale))
    t = t + scale**2
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * t) + (centre - mu) ** 2 / t))
