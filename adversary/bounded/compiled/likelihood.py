r"""Compiled: the likelihood of a noisy mean and variance at many parameters, the exact ones integrated out.

.. math::

    g(\mu, v) = \int \mathrm{Gamma}(x; \alpha, \alpha / v)\, q_2(S^* - x) \int_{u(y) \ge x} N(y; \mu, v/n)\,
    q_1(Y^* - y)\, dy\, dx, \qquad u(y) = 4 m y (1 - y)

with m the largest x; without bounds out of reach, > 1. Noise has log density -rate \|gap\| - precision gap^2 / 2. The
inner integral is closed, from the least sample mean r^2 that x allows to 1 - r^2; the other, log-concave in x and never
wider than a sample mean varies, is done by Gauss-Legendre panels in r about its top, for a group of means.
"""

import math
from collections import namedtuple

import numpy as np
from scipy.special import erfcx

from adversary._core import compilers, inlined

_called, _compiled = compilers(__file__)
_X, _W = np.polynomial.legendre.leggauss(9)
_DEPTH, _CLEAR, _CUT = 26.0, 24.0, 25.0
"""Nats below the top at which panels end; under which what lies beyond the ends does not count."""
_END, _SHARE, _BREAKS, _SHARP = math.sqrt(0.5), 0.36, (-12.0, -3.0, 0.0, 3.0), 3.0
"""The largest r; the share of either side at which it is cut; scales from the released mean at which panels are cut as
well, where that scale is below so many sds of a sample mean."""
_fits = [
    np.polynomial.Chebyshev.interpolate(lambda x: erfcx(4.0 / (x + 1.0) - 2.0) * 2.0 / (x + 1.0), 15),
    np.polynomial.Chebyshev.interpolate(np.exp, 9, [-1.25, 0.0]),
]
_TAIL, _EXP = (fit.convert(kind=np.polynomial.Polynomial).coef[::-1].copy() for fit in _fits)
Case = namedtuple("Case", "half v worth rate precision mean rate2 precision2 variance mu0 weight most low high best")
"""At v: (n - 1) / 2, v, n / v; noise; means in [low, high], N(mu0, 1 / weight); largest x; likeliest sample mean."""


@inlined
def _tail(z):
    """erfcx(z), z >= 0, to 1e-10."""
    t, power = 2.0 / (2.0 + z), 0.0
    for c in _TAIL:
        power = power * (2.0 * t - 1.0) + c
    return t * power


@inlined
def _exp(x):
    """exp(x), x <= 0, to 3e-10 from exp(-40) on, by what a loop does for several points at once."""
    power = 0.0
    for c in _EXP:
        power = power * max(x, -40.0) / 32.0 + c
    return power**32


@_compiled
def _likeliest(mu, var, rate, precision, mean):
    """The likeliest sample mean under N(mu, var) and noise."""
    shrink = 1.0 / (1.0 + precision * var)
    centre, reach = (mu + precision * var * mean) * shrink, rate * var * shrink
    return min(max(mean, centre - reach), centre + reach)


@_compiled
def _case(row, known, v, most, low, high):
    """The case of a row of numbers, or with `known` 0 that without the released mean."""
    half, worth, rate, precision, mean = 0.5 * (row[0] - 1.0), row[0] / v, row[1] * known, row[2] * known, row[3]
    mu0, weight = row[7], row[8] / v
    first = _likeliest(mu0, 1.0 / worth + 1.0 / weight, rate, precision, mean) if weight > 0.0 else mean
    best = min(max((worth * first + weight * mu0) / (worth + weight), low), high)
    best = _likeliest(best, 1.0 / worth, rate, precision, mean)
    return Case(half, v, worth, rate, precision, mean, row[4], row[5], row[6], mu0, weight, most, low, high, best)


@inlined
def _away(y, mu, mean, s):
    """How far below its largest the log of N(y; mu, v / n) times the noise about `mean` lies."""
    return 0.5 * s.worth * (y - mu) ** 2 + s.rate * abs(y - mean) + 0.5 * s.precision * (y - mean) ** 2


@_compiled
def _part(low, s):
    """Log of what of the integrand in r is of x alone and steep, at the least sample mean."""
    share = 4.0 * low * (1.0 - low)
    x = s.most * share
    gap = abs(x - s.variance)
    return (s.half - 0.5) * math.log(share) + s.half * (1.0 - x / s.v) - (s.rate2 + 0.5 * s.precision2 * gap) * gap


@_compiled
def _height(r, s):
    """Log of the integrand in r at the likeliest mean and sample mean."""
    y = min(max(s.best, r * r), 1.0 - r * r) if s.most < 1.0 else s.best
    mu = min(max((s.worth * y + s.weight * s.mu0) / (s.worth + s.weight), s.low), s.high)
    return _part(r * r, s) - _away(y, mu, s.mean, s) - 0.5 * s.weight * (mu - s.mu0) ** 2


@_compiled
def _top(r, step, s):
    """Where `_height`, of one mode, is largest, from a guess and a step; how large; a step that takes 1/5 nat."""
    height, middle, fall = _height(r, s), -1.0, np.inf
    while (fall > 0.2 or r != middle) and step > 1e-14 * r:  # a short step falls little far from the top as well
        middle, fall = r, 0.0
        for place in (max(middle - step, 0.5 * middle), min(middle + step, _END)):
            other = _height(place, s)
            fall = max(fall, abs(height - other))
            if other > height:
                r, height = place, other
        step *= 0.5 if r == middle else 2.0
    return r, height, step


@_compiled
def _lay(top, height, s, lows, logs, weights):
    """Least sample means at points of panels in r, logs of the part in x, weights; how many there are."""
    low = high = top
    for end in (0.0, _END):  # between the top and either end, where `_height` has fallen, or hardly farther
        near, far = top, end
        while abs(far - near) > 0.1 * abs(near - top) + 1e-12 * top:
            middle = 0.5 * (near + far)
            near, far = (middle, far) if _height(middle, s) > height - _DEPTH else (near, middle)
        low, high = high, far
    share, steep = min(max(s.variance / s.most, 0.0), 1.0), max(s.rate, math.sqrt(s.precision))
    corner = math.sqrt(0.5 * share / (1.0 + math.sqrt(1.0 - share))) if s.rate2 > 0.0 else top
    cuts = (low, _SHARE * low + (1.0 - _SHARE) * top, top, _SHARE * high + (1.0 - _SHARE) * top, high, corner)
    edges, panels, count = np.empty(10), 9 if steep * _SHARP > math.sqrt(s.worth) else 5, 0
    for i in range(panels + 1):
        y = min(s.mean, 1.0 - s.mean) + _BREAKS[max(i - 6, 0)] / steep
        k, edge = i, min(max(cuts[i] if i < 6 else math.sqrt(min(max(y, 0.0), 0.5)), low), high)
        while k > 0 and edges[k - 1] > edge:
            edges[k], k = edges[k - 1], k - 1
        edges[k] = edge
    for p in range(panels):
        half = 0.5 * (edges[p + 1] - edges[p])
        for i in range(_X.size if half > 1e-14 * edges[p] else 0):
            lows[count] = (edges[p] + half * (1.0 + _X[i])) ** 2
            logs[count] = _part(lows[count], s)
            weights[count] = half * _W[i] * max(1.0 - 2.0 * lows[count], 1e-300) / math.sqrt(1.0 - lows[count])
            count += 1
    return count


@_compiled
def _gap(y, mu, s):
    """How far below its largest the log density at y of a mean's sample mean lies; negative above that."""
    near = _likeliest(mu, 1.0 / s.worth, s.rate, s.precision, s.mean)
    return math.copysign(_away(y, mu, s.mean, s) - _away(near, mu, s.mean, s), near - y)


@inlined
def _total(mu, s, lows, logs, weights, parts, count, log_z, least):
    """Log of the sum over points of integrals over the sample mean, or -inf below `least`; without points, of one."""
    corner, best = s.mean, _likeliest(mu, 1.0 / s.worth, s.rate, s.precision, s.mean)
    if best > 0.5:  # the mirror image, in which the lower end comes first
        mu, best, corner = 1.0 - mu, 1.0 - best, 1.0 - corner
    var, peak = 1.0 / (s.worth + s.precision), _away(best, mu, corner, s)
    centre, unit = var * (s.worth * mu + corner * s.precision), math.sqrt(0.5 / var)
    left, right, at = centre + s.rate * var, centre - s.rate * var, min(peak - _away(corner, mu, corner, s), 0.0)
    # integrals in units of sqrt(var pi / 2) exp(-peak), below the corner under `left` and above it under `right`
    first, last, here = _tail(abs(left - corner) * unit), _tail(abs(corner - right) * unit), math.exp(at)
    full = here * (first + last) if right <= corner <= left else 2.0 - here * abs(last - first)
    if count == 0:
        return log_z + math.log(full * math.sqrt(var)) - peak
    rest = last - first if left < corner else 0.0  # of both beyond the corner, over exp(at)
    top, total = -np.inf, 0.0
    for j in range(count):
        top = max(top, logs[j] + peak - _away(max(best, lows[j]), mu, corner, s))
    if top - peak + 0.5 * math.log(var) < least:
        return -np.inf
    fall = _away(1.0 - lows[count - 1], mu, corner, s) - _away(max(best, lows[count - 1]), mu, corner, s)
    for side in range(2 if fall < _CUT else 1):  # the upper ends, where anything lies beyond them
        for j in range(count):
            y, weight = lows[j] if side == 0 else 1.0 - lows[j], logs[j] - top
            z = (y - (left if y < corner else right)) * unit
            share, log = (full, weight) if z <= 0.0 else (rest, weight + at)
            share = share if y < corner else (2.0 if z <= 0.0 else 0.0)
            part = _tail(abs(z)) * _exp(weight + peak - _away(y, mu, corner, s))
            part = share * _exp(log) + (part if z > 0.0 else -part)
            parts[j] = part if side == 0 else parts[j] - part
    for j in range(count):
        total += weights[j] * max(parts[j], 0.0)
    return top - peak + math.log(total * math.sqrt(var))


@_called
def fill(rows, most, means, variances, least, rough, out):
    """Log likelihood less the normalisers of its laws, of rows of numbers (row, 9), into `out`; as `log_likelihood`.

    `most` has the largest sample variances (row, variance), `least` what a group must reach (row, group, variance).
    """
    lows, logs, weights, parts = np.empty(81), np.empty(81), np.empty(81), np.empty(81)
    for r in range(rows.shape[0]):
        top, step = 0.25, 0.1
        for k in range(variances.shape[1]):
            v, log_z, low = variances[r, k], np.nan, 0.0
            for g in range(means.shape[1]):
                if not least[r, g, k] < np.inf:
                    continue
                s, count = _case(rows[r], 1.0, v, most[r, k], means[r, g, 0], means[r, g, -1]), 0
                if not rough and log_z != log_z:
                    alone = _case(rows[r], 0.0, v, most[r, k], 0.5, 0.5)
                    top, height, step = _top(top, step, alone)
                    last, total = _lay(top, height, alone, lows, logs, weights) - 1, 0.0
                    for j in range(last + 1):
                        total += weights[j] * math.exp(logs[j] - height)
                    log_z, low = height + math.log(total), lows[last]
                if rough or (s.most < 1.0 and not _gap(low, s.low, s) > _CLEAR > -_CLEAR > _gap(1.0 - low, s.high, s)):
                    top, height, step = _top(top, step, s)
                    level = height - math.log(4.0 * s.worth * math.sqrt(s.most))
                    if rough or not level > least[r, g, k]:
                        out[r, g, 0, k] = level if rough else -np.inf
                        continue
                    count = _lay(top, height, s, lows, logs, weights)
                for i in range(means.shape[2]):
                    mu, lowest = means[r, g, i], least[r, g, k]
                    out[r, g, i, k] = _total(mu, s, lows, logs, weights, parts, count, log_z, lowest)
