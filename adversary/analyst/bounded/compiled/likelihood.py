r"""Compiled: the likelihood of a noisy mean and variance at many parameters, the exact ones integrated out.

.. math::

    g(\mu, v) = \int \mathrm{Gamma}(x; \alpha, \alpha / v)\, q_2(S^* - x) \int_{u(y) \ge x} N(y; \mu, v/n)\,
    q_1(Y^* - y)\, dy\, dx, \qquad u(y) = \tfrac{n}{n-1}\, y (1 - y)

The inner integral is closed, between the ends :math:`\sin^2(\phi/2)` and :math:`\cos^2(\phi/2)` of the sample means
that x allows, with :math:`x = u(\tfrac12) \sin^2 \phi`. In x the integrand is log-concave, and never wider than a
sample mean varies: Gauss-Legendre panels about its top, cut at the corners of Laplace noise, serve a group of means.
Without bounds :math:`x = \phi^2` and both integrals stand apart. Imported inside functions, because it brings numba.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.special import erfcx

_X, _W = np.polynomial.legendre.leggauss(9)
_NONE, _LAPLACE, _GAUSSIAN = 0.0, 1.0, 2.0
_DEPTH, _SHARE = 26.0, 0.36
"""Nats below the top at which panels end; the share of the way there at which each side is cut."""
_CLEAR, _CUT = 24.0, 25.0
"""Nats under which what lies beyond the ends, or a point, does not count."""
_BREAKS, _SHARP = (-12.0, -3.0, 0.0, 3.0), 3.0
"""Scales from the released mean at which panels are cut, where that scale is below so many sds of a sample mean."""
_PANELS, _ROOT2, _HALF_PI = 10, math.sqrt(2.0), 0.5 * math.pi
_SIGNATURE = "void(f8[:,::1], b1, f8[:,:,::1], f8[:,::1], f8[:,:,::1], b1, f8[:,:,:,::1])"


def _series():
    """log(erfcx(z) / t) as a polynomial in x = 2 t - 1, highest power first, t = 2 / (2 + z): to 1e-10 for z >= 0."""
    x = np.cos(np.pi * (np.arange(16) + 0.5) / 16)
    values = np.log(erfcx(4.0 / (x + 1.0) - 2.0) * 2.0 / (x + 1.0))
    return np.polynomial.Polynomial.fit(x, values, 15, domain=[-1, 1]).coef[::-1].copy()


_TAIL = _series()
_options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_compiled = njit(nogil=True, error_model="numpy", **_options)


class Case(NamedTuple):
    """A release, a variance v, means in [least, largest] under N(mu0, v / kappa), and the likeliest sample mean."""

    n: float
    noise: float
    scale: float
    mean: float
    noise2: float
    scale2: float
    variance: float
    mu0: float
    kappa: float
    v: float
    most: float
    least: float
    largest: float
    best: float


@_compiled
def _tail(z, log):
    """exp(log) erfcx(z), z >= 0."""
    t, power = 2.0 / (2.0 + z), 0.0
    for c in _TAIL:
        power = power * (2.0 * t - 1.0) + c
    return t * math.exp(power + log)


@_compiled
def _energy(gap, noise, scale):
    """How far the log density of noise lies below its largest."""
    return abs(gap) / scale if noise == _LAPLACE else (0.5 * (gap / scale) ** 2 if noise == _GAUSSIAN else 0.0)


@_compiled
def _steep(gap, noise, scale):
    """Derivative of `_energy`."""
    return math.copysign(1.0 / scale, gap) if noise == _LAPLACE else (gap / scale**2 if noise == _GAUSSIAN else 0.0)


@_compiled
def _peak_of_product(mu, s):
    """Where N(y; mu, v / n) q1(Y - y) is largest."""
    var = s.v / s.n
    if s.noise == _LAPLACE:
        return min(max(s.mean, mu - var / s.scale), mu + var / s.scale)
    return (mu * s.scale**2 + s.mean * var) / (s.scale**2 + var) if s.noise == _GAUSSIAN else mu


@_compiled
def _nearest(y, s):
    """The likeliest mean of a sample mean."""
    return min(max((s.n * y + s.kappa * s.mu0) / (s.n + s.kappa), s.least), s.largest)


@_compiled
def _pull(y, s):
    """Minus the derivative in y of what noise and means say of a sample mean."""
    return _steep(y - s.mean, s.noise, s.scale) + (y - _nearest(y, s)) * s.n / s.v


@_compiled
def _case(seen, v, most, least, largest):
    """The case of a row of numbers, with its likeliest sample mean."""
    s = Case(
        seen[0], seen[1], seen[2], seen[3], seen[4], seen[5], seen[6], seen[7], seen[8], v, most, least, largest, 0.0
    )  # fmt: skip
    if s.kappa == 0.0:
        best = min(max(s.mean if s.noise != _NONE else 0.5, _peak_of_product(least, s)), _peak_of_product(largest, s))
    else:
        mu = min(max(s.mu0, least), largest)
        low, high = (min(mu, s.mean), max(mu, s.mean)) if s.noise != _NONE else (mu, mu)
        for _ in range(60):
            best = 0.5 * (low + high)
            low, high = (low, best) if _pull(best, s) > 0.0 else (best, high)
        best = 0.5 * (low + high)
    return Case(
        s.n, s.noise, s.scale, s.mean, s.noise2, s.scale2, s.variance, s.mu0, s.kappa, v, most, least, largest, best
    )  # fmt: skip


@_compiled
def _height(angle, s):
    """Log of the integrand in the angle, at the likeliest mean and sample mean; and its part in x alone."""
    sine, y, log = angle, s.best, 0.0
    if s.most < np.inf:
        sine, low = math.sin(angle), math.sin(0.5 * angle) ** 2
        y, log = min(max(s.best, low), 1.0 - low), math.log(max(math.cos(angle), 1e-300))
    x = sine * sine * (s.most if s.most < np.inf else 1.0)
    log += (s.n - 2.0) * math.log(sine) - 0.5 * (s.n - 1.0) * (x / s.v - 1.0)
    log -= _energy(x - s.variance, s.noise2, s.scale2)
    mu = _nearest(y, s)
    away = s.n * (y - mu) ** 2 + s.kappa * (mu - s.mu0) ** 2
    return log - _energy(y - s.mean, s.noise, s.scale) - 0.5 * away / s.v, log


@_compiled
def _slope(x, s):
    """Derivative in x of `_height`."""
    found = 0.5 * (s.n - 2.0) / x - 0.5 * (s.n - 1.0) / s.v - _steep(x - s.variance, s.noise2, s.scale2)
    if s.most == np.inf:
        return found
    root = math.sqrt(max(1.0 - x / s.most, 1e-300))
    low = 0.5 * x / s.most / (1.0 + root)
    if s.best < low:
        found -= _pull(low, s) * 0.25 / s.most / root
    elif s.best > 1.0 - low:
        found += _pull(1.0 - low, s) * 0.25 / s.most / root
    return found - 0.5 / (s.most - x)


@_compiled
def _top(s):
    """The angle at which `_height`, as a function of x concave, is largest: to a tenth of a nat."""
    low, high, rise, fall = math.log(1e-40), math.log(s.most), np.inf, np.inf
    if s.most == np.inf:
        high = math.log(4.0 * (s.v + s.scale2) + abs(s.variance) + 1.0)
    for _ in range(60):
        if (high - low) * max(rise, fall) < 0.1:
            break
        middle = 0.5 * (low + high)
        tilt = math.exp(middle) * _slope(math.exp(middle), s)
        if tilt > 0.0:
            low, rise = middle, tilt
        else:
            high, fall = middle, -tilt
    x = math.exp(0.5 * (low + high))
    return math.asin(math.sqrt(min(x / s.most, 1.0))) if s.most < np.inf else math.sqrt(x)


@_compiled
def _angle_below_level(top, level, step, s):
    """An angle on the side of `step` at which `_height` has fallen to a level, or hardly more."""
    end, near, far = (0.0 if step < 0.0 else (_HALF_PI if s.most < np.inf else np.inf)), top, top + step
    while (end - far) * step > 0.0 and _height(far, s)[0] > level:
        near, step = far, 2.0 * step
        far = top + step
    far = end if (end - far) * step <= 0.0 else far
    for turn in range(50):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if _height(middle, s)[0] > level else (near, middle)
        if turn >= 3 and near != top:
            break
    return far


@_compiled
def _lay(s, lows, logs):
    """Lowest sample means at points in the angle, logs of weight and part in x there; how many, and the top's log."""
    edges, top, step = np.empty(_PANELS), _top(s), 4.0 * math.sqrt(s.v / s.n)
    height = _height(top, s)[0]
    low, high = _angle_below_level(top, height - _DEPTH, -step, s), _angle_below_level(top, height - _DEPTH, step, s)
    edges[0], edges[1], edges[2], edges[3], edges[4] = low, low, top, high, high
    edges[1] += (1.0 - _SHARE) * (top - low)
    edges[3] += (1.0 - _SHARE) * (top - high)
    x, count = s.variance / (s.most if s.most < np.inf else 1.0), 5
    if s.noise2 == _LAPLACE and x > 0.0:
        edges[5], count = math.asin(math.sqrt(min(x, 1.0))) if s.most < np.inf else math.sqrt(x), 6
    if s.most < np.inf and s.noise != _NONE and s.scale < _SHARP * math.sqrt(s.v / s.n):
        for shift in _BREAKS:
            y = min(s.mean, 1.0 - s.mean) + shift * s.scale
            edges[count], count = 2.0 * math.asin(math.sqrt(min(max(y, 0.0), 0.5))), count + 1
    for i in range(count):
        k, edge = i, min(max(edges[i], low), high)
        while k > 0 and edges[k - 1] > edge:
            edges[k], k = edges[k - 1], k - 1
        edges[k] = edge
    points = 0
    for p in range(count - 1):
        half = 0.5 * (edges[p + 1] - edges[p])
        if half > 1e-14 * edges[p]:
            for i in range(_X.size):
                angle = edges[p] + half * (1.0 + _X[i])
                lows[points] = math.sin(0.5 * angle) ** 2
                logs[points] = _height(angle, s)[1] + math.log(half * _W[i])
                points += 1
    return points, height


@_compiled
def _total(mu, s, lows, logs, heights, count, least):
    """Log of the sum over points of the integral over the sample mean; -inf below `least`. Over all, with no points."""
    var, centre, more, rate, corner = s.v / s.n, mu, 0.5 * math.log(_HALF_PI), 0.0, 1e6
    if s.noise == _GAUSSIAN:
        centre, more = _peak_of_product(mu, s), more - 0.5 * (mu - s.mean) ** 2 / (var + s.scale**2)
        var *= s.scale**2 / (var + s.scale**2)
    elif s.noise == _LAPLACE:
        rate, corner = 1.0 / s.scale, s.mean
    best = _peak_of_product(mu, s)
    if best > 0.5:  # the mirror image, in which the lower end comes first
        centre, best, corner = 1.0 - centre, 1.0 - best, (1.0 - corner if rate > 0.0 else corner)
    sd = math.sqrt(var)
    left, right, unit = centre + rate * var, centre - rate * var, 1.0 / (_ROOT2 * sd)
    peak = -0.5 * ((best - centre) / sd) ** 2 - rate * abs(best - corner)
    # integrals in units of sd sqrt(pi / 2) exp(peak), below the corner under `left` and above it under `right`
    full, rest, beyond, at = 2.0, 0.0, 0.0, 0.0
    if rate > 0.0:
        at, below, above = -0.5 * ((corner - centre) / sd) ** 2 - peak, (left - corner) * unit, (corner - right) * unit
        full = _tail(abs(below), at)
        if below < 0.0:
            full = 2.0 - full
        tail = _tail(abs(above), at)
        if above < 0.0:
            beyond, tail = 2.0, 2.0 - tail
        if below < 0.0 < above:  # of the laws beyond the corner, relative to its own exp(at)
            rest = _tail(above, 0.0) - _tail(-below, 0.0)
        full += tail
    if count == 0:
        return more + peak + math.log(full * sd)
    top = -np.inf
    for j in range(count):
        y = max(best, lows[j])
        heights[j] = logs[j] - 0.5 * ((y - centre) / sd) ** 2 - rate * abs(y - corner) - peak
        top = max(top, heights[j])
    if more + peak + top + math.log(sd) < least:
        return -np.inf
    total = 0.0
    for j in range(count):
        if heights[j] > top - _CUT:
            value, weight = 0.0, math.exp(logs[j] - top)
            for side in (1.0, -1.0):
                y = lows[j] if side > 0.0 else 1.0 - lows[j]
                z = (y - (left if y < corner else right)) * unit
                log = -0.5 * ((y - centre) / sd) ** 2 - rate * abs(y - corner) - peak + logs[j] - top
                part = _tail(abs(z), log) if log > -_CUT else 0.0
                if z <= 0.0:
                    part = (full if y < corner else beyond) * weight - part
                elif y < corner and rest != 0.0:
                    part += rest * math.exp(at + logs[j] - top)
                value += side * part
            total += max(value, 0.0)
    return more + peak + top + math.log(total * sd)


@_compiled
def _clear(low, mu, s):
    """Whether hardly any sample mean of a mean lies outside of [low, 1 - low]."""
    near = _peak_of_product(mu, s)
    level = 0.5 * (near - mu) ** 2 * s.n / s.v + _energy(near - s.mean, s.noise, s.scale) + _CLEAR
    first = 0.5 * (low - mu) ** 2 * s.n / s.v + _energy(low - s.mean, s.noise, s.scale)
    last = 0.5 * (1.0 - low - mu) ** 2 * s.n / s.v + _energy(1.0 - low - s.mean, s.noise, s.scale)
    return low < near < 1.0 - low and min(first, last) > level


@njit(_SIGNATURE, nogil=True, error_model="numpy", cache=True)
def fill(rows, bounded, means, variances, least, rough, out):
    """Log likelihood, less the normalisers of its laws, at groups of means and at variances, into `out`.

    Parameters
    ----------
    rows : (row, 9), the first fields of `Case`
    bounded : whether the bounds are used
    means, variances : (row, group, mean), rising in a group, and (row, variance)
    least : (row, group, variance); groups whose largest is lower get -inf
    rough : only the height of the integrand, at the likeliest mean of a group, in place of its first
    out : (row, group, mean, variance)
    """
    size = means.shape[2]
    lows, logs, heights = np.empty(_PANELS * _X.size), np.empty(_PANELS * _X.size), np.empty(_PANELS * _X.size)
    for r in range(rows.shape[0]):
        n = rows[r, 0]
        most = 0.25 * n / (n - 1.0) if bounded else np.inf
        alone = np.empty(9)
        for i in range(9):
            alone[i] = rows[r, i] if i != 1 else _NONE
        for k in range(variances.shape[1]):
            v, log_z, low = variances[r, k], np.nan, 0.0
            for g in range(means.shape[1]):
                for i in range(size):
                    out[r, g, i, k] = -np.inf
                if not least[r, g, k] < np.inf:
                    continue
                s = _case(rows[r], v, most, means[r, g, 0], means[r, g, size - 1])
                if rough:
                    out[r, g, 0, k] = _height(_top(s), s)[0] + math.log(v / n)
                    continue
                if log_z != log_z:
                    count, _ = _lay(_case(alone, v, most, 0.5, 0.5), lows, logs)
                    top, total = -np.inf, 0.0
                    for i in range(count):
                        top, low = max(top, logs[i]), max(low, lows[i])
                    for i in range(count):
                        total += math.exp(logs[i] - top)
                    log_z = top + math.log(total)
                if not bounded or (_clear(low, s.least, s) and _clear(low, s.largest, s)):
                    for i in range(size):
                        out[r, g, i, k] = log_z + _total(means[r, g, i], s, lows, logs, heights, 0, 0.0)
                    continue
                count, height = _lay(s, lows, logs)
                if height + math.log(v / n) > least[r, g, k]:
                    for i in range(size):
                        out[r, g, i, k] = _total(means[r, g, i], s, lows, logs, heights, count, least[r, g, k])
