r"""Compiled: the law of a sample variance with its noise, up to the largest one that a sample mean allows.

.. math::

    Z(u; v) = \int_0^u \mathrm{Gamma}(x; \alpha, \alpha/v)\, q_2(S^* - x)\, dx, \qquad \alpha = (n-1)/2

with the density :math:`q_2` of the noise about the released variance :math:`S^*`. The integral goes over w = log x,
where the integrand has one peak. All in logs: a release far outside of what data can have underflows nowhere.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adversary.analyst.bounded.quadrature.decorator import compiled

NONE, LAPLACE, GAUSSIAN = 0, 1, 2
KINDS = {"none": NONE, "laplace": LAPLACE, "gaussian": GAUSSIAN}

DEPTH = 36.0
"""Nats below a peak at which integration ends: a mass of exp(-36) is 2e-16."""
LOG_2PI = math.log(2.0 * math.pi)
_POINTS = 16
_X, _W = np.polynomial.legendre.leggauss(_POINTS)


class Seen(NamedTuple):
    """One release on [0, 1]: a noise kind, its scale and the released number of the mean, then of the variance."""

    n: float
    mean_noise: int
    mean_scale: float
    mean: float
    variance_noise: int
    variance_scale: float
    variance: float


class Law(NamedTuple):
    """The sample variance given v, times the noise: Gamma(x; alpha, beta) q2(centre - x)."""

    alpha: float
    beta: float
    kind: int
    scale: float
    centre: float


@compiled
def nothing_of(n):
    """A release of neither statistic: g is then C(mu, v), the probability that the statistics are feasible.

    Parameters
    ----------
    n : number of values, >= 2

    Returns
    -------
    Seen, whose two noise kinds are NONE
    """
    return Seen(n, NONE, 1.0, 0.5, NONE, 1.0, 0.5)


@compiled
def law_of(v, seen):
    """The law of the sample variance at v."""
    alpha = 0.5 * (seen.n - 1.0)
    return Law(alpha, alpha / v, seen.variance_noise, seen.variance_scale, seen.variance)


@compiled
def energy_of(gap, kind, scale):
    """How far the log density of noise lies at `gap` below its largest; 0 where nothing was released."""
    if kind == LAPLACE:
        return abs(gap) / scale
    if kind == GAUSSIAN:
        return 0.5 * (gap / scale) ** 2
    return 0.0


@compiled
def log_height(kind, scale):
    """The largest log density of noise; 0 where nothing was released."""
    if kind == LAPLACE:
        return -math.log(2.0 * scale)
    if kind == GAUSSIAN:
        return -math.log(scale) - 0.5 * LOG_2PI
    return 0.0


@compiled
def constant_of(law):
    """What `log_mass` is shifted by: of the gamma density and of the noise."""
    return law.alpha * math.log(law.beta) - math.lgamma(law.alpha) + log_height(law.kind, law.scale)


@compiled
def mass_at(x, w, law):
    """Log of x Gamma(x; alpha, beta) q2(centre - x) at x = exp(w), up to `constant_of`: the integrand of Z in w."""
    return law.alpha * w - law.beta * x - energy_of(law.centre - x, law.kind, law.scale)


@compiled
def log_mass(w, law):
    """`mass_at` by w alone."""
    return mass_at(math.exp(w), w, law)


@compiled
def slope_at(x, law, side):
    """Derivative of `log_mass` in w; at the corner of Laplace noise, of its left (side < 0) or right branch."""
    tilt = 0.0
    if law.kind == LAPLACE:
        left = x < law.centre if abs(x - law.centre) > 1e-14 * abs(law.centre) else side < 0
        tilt = (1.0 if left else -1.0) / law.scale
    elif law.kind == GAUSSIAN:
        tilt = (law.centre - x) / law.scale**2
    return law.alpha + x * (tilt - law.beta)


@compiled
def peak_of(law):
    """The w at which `log_mass` is largest; it rises before and falls after."""
    if law.kind == LAPLACE:
        rate = 1.0 / law.scale
        right = law.alpha / (law.beta + rate)
        if right >= law.centre:
            return math.log(right)
        if law.beta > rate and law.alpha / (law.beta - rate) <= law.centre:
            return math.log(law.alpha / (law.beta - rate))
        return math.log(law.centre)
    if law.kind == GAUSSIAN:  # alpha - beta x + (centre - x) x / scale^2 = 0
        b = law.centre - law.beta * law.scale**2
        root = math.sqrt(b * b + 4.0 * law.alpha * law.scale**2)
        x = 0.5 * (b + root) if b > 0.0 else 2.0 * law.alpha * law.scale**2 / (root - b)
        return math.log(x)
    return math.log(law.alpha / law.beta)


@compiled
def fallen(start, down, depth, law):
    """Where `log_mass` has fallen by `depth` (or a little more) from `start`, leftwards (down = -1) or rightwards."""
    level = log_mass(start, law) - depth
    step = 4.0 / math.sqrt(law.alpha)
    far = start + down * step
    near = start
    while log_mass(far, law) > level:
        near = far
        step *= 2.0
        far = near + down * step
    for _ in range(6):
        middle = 0.5 * (near + far)
        if log_mass(middle, law) > level:
            near = middle
        else:
            far = middle
    return far


@compiled
def log_piece(lo, hi, law):
    """Log integral of exp(log_mass) over [lo, hi] in w, by Gauss-Legendre: one smooth piece on one side of the peak."""
    if hi <= lo:
        return -np.inf
    half, middle = 0.5 * (hi - lo), 0.5 * (hi + lo)
    top = max(log_mass(lo, law), log_mass(hi, law))
    total = 0.0
    for i in range(_POINTS):
        total += _W[i] * math.exp(log_mass(middle + half * _X[i], law) - top)
    return top + math.log(half * total)


@compiled
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@compiled
def log_up_to(w, peak, law):
    """log Z(exp(w); v) up to `constant_of`: pieces between the ends of the window, the peak, the corner and w."""
    top = min(w, peak)
    lo = fallen(top, -1.0, DEPTH, law)
    hi = top
    if w > peak:
        hi = min(w, fallen(peak, 1.0, DEPTH, law))
    corner = top
    if law.kind == LAPLACE and law.centre > 0.0:
        corner = min(max(math.log(law.centre), lo), hi)
    first, second = min(top, corner), max(top, corner)
    tail = max(lo + 2.0 / 3.0 * (first - lo), first - 5.0 / math.sqrt(law.alpha))
    total = log_add(log_piece(lo, tail, law), log_piece(tail, first, law))
    total = log_add(total, log_piece(first, second, law))
    return log_add(total, log_piece(second, hi, law))


@compiled
def log_all(v, seen):
    """log Z(infinity; v)."""
    law = law_of(v, seen)
    return constant_of(law) + log_up_to(700.0, peak_of(law), law)


@compiled
def rough_log_z(w, peak, law):
    """log Z(exp(w); v) up to `constant_of`, within a nat or so: the integrand over its steepness or curvature."""
    at = min(w, peak)
    x = math.exp(at)
    slope = slope_at(x, law, -1)
    bend = law.beta * x
    if (law.kind == LAPLACE and w > peak) or law.kind == GAUSSIAN:
        bend += (x / law.scale) ** 2
    width = math.sqrt(2.0 * math.pi) if w > peak else 1.25
    return mass_at(x, at, law) + math.log(width) - 0.5 * math.log(slope * slope + bend)


@compiled
def log_cap(y, n):
    """log u(y), -inf at 0 and 1."""
    if y <= 0.0 or y >= 1.0:
        return -np.inf
    return math.log(n / (n - 1.0) * y * (1.0 - y))


@compiled
def side_of(w, n):
    """The y in [0, 1/2] with log u(y) = w."""
    x = (n - 1.0) / n * math.exp(w)
    return x / (0.5 + math.sqrt(0.25 - x)) if x < 0.25 else 0.5
