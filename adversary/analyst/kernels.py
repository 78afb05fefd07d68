r"""Compiled: the likelihood of a noisy mean and variance at many parameters, with everything but them integrated out.

.. math::

    g(\mu, v) = \int_0^1 N(y; \mu, v/n)\, q_1(Y^* - y)\, Z(u(y); v)\, dy, \qquad
    Z(u; v) = \int_0^u \mathrm{Gamma}(x; \alpha, \alpha/v)\, q_2(S^* - x)\, dx

with :math:`\alpha = (n-1)/2`, :math:`u(y) = n/(n-1)\, y(1-y)` and noise densities :math:`q_1, q_2`. Z is tabulated once
for each v, as the log of a cumulative integral in w = log x, where the integrand has one peak, and read between its
nodes by quintic Hermite polynomials; y goes by Gauss-Legendre between the corner of Laplace noise and the ends of a
window. All in logs: a release far outside of what data can have underflows nowhere.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from adversary.analyst.compiled import compiled
from adversary.analyst.panels import GOLDEN

NONE, LAPLACE, GAUSSIAN = 0, 1, 2
KINDS = {"none": NONE, "laplace": LAPLACE, "gaussian": GAUSSIAN}

DEPTH = 36.0
"""Nats below a peak at which integration ends: a mass of exp(-36) is 2e-16."""
_INNER_DEPTH = 15.0
_POINTS, _HERMITE = 16, 12
_APART = 22.0
_UNDERFLOW = 500.0
_STEEP = 5.0
SEGMENT = 24
"""Intervals of a table between two corners."""

_X, _W = np.polynomial.legendre.leggauss(_POINTS)
_X3, _W3 = np.polynomial.legendre.leggauss(3)
_XH, _WH = np.polynomial.hermite_e.hermegauss(_HERMITE)
_LOG_2PI = math.log(2.0 * math.pi)


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
    """A release of neither statistic: g is then C(mu, v), the mass over the feasible statistics."""
    return Seen(n, NONE, 1.0, 0.5, NONE, 1.0, 0.5)


@compiled
def law_of(v, seen):
    """The law of the sample variance at v."""
    alpha = 0.5 * (seen.n - 1.0)
    return Law(alpha, alpha / v, seen.variance_noise, seen.variance_scale, seen.variance)


@compiled
def log_noise(kind, scale, gap):
    """Log density of noise at `gap`; 0 where nothing was released."""
    if kind == LAPLACE:
        return -abs(gap) / scale - math.log(2.0 * scale)
    if kind == GAUSSIAN:
        return -0.5 * (gap / scale) ** 2 - math.log(scale) - 0.5 * _LOG_2PI
    return 0.0


@compiled
def constant_of(law):
    """What `log_mass` is shifted by: of the gamma density and of the noise."""
    return law.alpha * math.log(law.beta) - math.lgamma(law.alpha) + log_noise(law.kind, law.scale, 0.0)


@compiled
def mass_at(x, w, law):
    """Log of x Gamma(x; alpha, beta) q2(centre - x) at x = exp(w), up to `constant_of`: the integrand of Z in w."""
    value = law.alpha * w - law.beta * x
    if law.kind == LAPLACE:
        return value - abs(law.centre - x) / law.scale
    if law.kind == GAUSSIAN:
        return value - 0.5 * ((law.centre - x) / law.scale) ** 2
    return value


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
    tail = max(lo, first - 5.0 / math.sqrt(law.alpha))
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


@compiled
def rough_log_h(y, peak, law, seen):
    """Log of q1(Y* - y) Z(u(y); v), up to constants and roughly."""
    w = log_cap(y, seen.n)
    if w == -np.inf:
        return -np.inf
    gap = abs(seen.mean - y) / seen.mean_scale
    cost = 0.0
    if seen.mean_noise == LAPLACE:
        cost = gap
    elif seen.mean_noise == GAUSSIAN:
        cost = 0.5 * gap * gap
    return rough_log_z(w, peak, law) - cost


@compiled
def rough_top(peak, law, seen):
    """The sample mean at which `rough_log_h` is largest: between the released one and 1/2, as it is concave."""
    best = min(max(seen.mean, 0.0), 1.0) if seen.mean_noise != NONE else 0.5
    if log_cap(best, seen.n) >= peak:
        return best
    lo, hi = min(best, 0.5), max(best, 0.5)
    a, b = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
    at_a, at_b = rough_log_h(a, peak, law, seen), rough_log_h(b, peak, law, seen)
    while hi - lo > 1e-9:
        if abs(at_a - at_b) < 0.05 and rough_log_h(0.5 * (a + b), peak, law, seen) < max(at_a, at_b) + 0.1:
            break
        if at_a > at_b:
            hi, b, at_b = b, a, at_a
            a = hi - GOLDEN * (hi - lo)
            at_a = rough_log_h(a, peak, law, seen)
        else:
            lo, a, at_a = a, b, at_b
            b = lo + GOLDEN * (hi - lo)
            at_b = rough_log_h(b, peak, law, seen)
    found = a if at_a > at_b else b
    return found if rough_log_h(found, peak, law, seen) > rough_log_h(best, peak, law, seen) else best


@compiled
def fall_of_h(top, step, limit, peak, law, seen):
    """Where `rough_log_h` has fallen by DEPTH and a little from the sample mean `top`, in growing steps."""
    level = rough_log_h(top, peak, law, seen) - DEPTH - 2.0
    near, far = top, top + step
    while (limit - far) * step > 0.0 and rough_log_h(far, peak, law, seen) > level:
        near = far
        step *= 2.0
        far = near + step
    if (limit - far) * step <= 0.0:  # at 0 and 1 the logarithm has no end: approach it by shares
        gap = near - limit
        while rough_log_h(limit + gap, peak, law, seen) > level and abs(gap) > 1e-15:
            gap *= 0.25
        return limit + gap
    for _ in range(8):
        middle = 0.5 * (near + far)
        if rough_log_h(middle, peak, law, seen) > level:
            near = middle
        else:
            far = middle
    return far


@compiled
def lowest_of(peak, law, seen):
    """The w down to which log Z is tabulated: where q1(Y* - y) Z(u(y); v), or Z alone, has fallen by DEPTH."""
    top = rough_top(peak, law, seen)
    step = min(0.05, 4.0 * seen.mean_scale) if seen.mean_noise != NONE else 0.05
    low, high = fall_of_h(top, -step, 0.0, peak, law, seen), fall_of_h(top, step, 1.0, peak, law, seen)
    alone = fallen(min(peak, log_cap(0.5, seen.n)), -1.0, DEPTH, law)
    return min(alone, min(log_cap(low, seen.n), log_cap(high, seen.n)))


@compiled
def new_tables(count):
    """Empty tables and their ends."""
    return np.zeros((count, 3 * SEGMENT, 6)), np.zeros((count, 13))


@compiled
def fill_segment(table, row, lo, hi, z, law, offset):
    """Quintic coefficients of log Z on SEGMENT equal intervals of [lo, hi], from Z at lo; returns Z at hi.

    `offset` is taken off every log, so that exponentials stay in range.
    """
    h = (hi - lo) / SEGMENT
    x, ratio = math.exp(lo), math.exp(h)
    near = np.empty(3)
    for j in range(3):
        near[j] = math.exp(0.5 * h * (1.0 + _X3[j]))
    first = math.exp(mass_at(x, lo, law) - offset) / z
    second = first * (slope_at(x, law, 1) - first)
    value = math.log(z)
    for i in range(SEGMENT):
        w = lo + i * h
        total = 0.0
        for j in range(3):
            at = w + 0.5 * h * (1.0 + _X3[j])
            total += _W3[j] * math.exp(mass_at(x * near[j], at, law) - offset)
        z += 0.5 * h * total
        x *= ratio
        next_first = math.exp(mass_at(x, w + h, law) - offset) / z
        next_second = next_first * (slope_at(x, law, -1) - next_first)
        next_value = math.log(z)
        c1, c2 = first * h, 0.5 * second * h * h
        rise, d1, d2 = next_value - value - c1 - c2, next_first * h - c1 - 2.0 * c2, next_second * h * h - 2.0 * c2
        table[row + i, 0] = value
        table[row + i, 1] = c1
        table[row + i, 2] = c2
        table[row + i, 3] = 10.0 * rise - 4.0 * d1 + 0.5 * d2
        table[row + i, 4] = -15.0 * rise + 7.0 * d1 - d2
        table[row + i, 5] = 6.0 * rise - 3.0 * d1 + 0.5 * d2
        value, first, second = next_value, next_first, next_second
    return z


@compiled
def fill_table(table, ends, v, seen):
    """log Z(exp(w); v) from `lowest_of` up to where it stops growing or u ends, relative to the last one.

    Three segments: a tail, where log Z is nearly straight, and both sides of the corner. `ends`: w at the four ends,
    intervals per unit of w of each segment, the y in [0, 1/2] of the last end, log Z there.
    """
    law = law_of(v, seen)
    peak = peak_of(law)
    last = min(fallen(peak, 1.0, DEPTH, law), log_cap(0.5, seen.n))
    lo = min(lowest_of(peak, law, seen), last - 1e-6)
    if log_mass(lo, law) < log_mass(min(peak, last), law) - _UNDERFLOW:
        lo = max(lo, fallen(min(peak, last), -1.0, _UNDERFLOW, law))
    corner = math.log(law.centre) if law.kind == LAPLACE and law.centre > 0.0 else last
    tail = peak - 5.0 / math.sqrt(law.alpha)
    ends[0], ends[3] = lo, last
    ends[1] = min(max(min(tail, corner), lo), last)
    ends[2] = min(max(max(tail, corner), lo), last)
    start = log_up_to(lo, peak, law)
    offset = max(start, log_mass(min(max(peak, lo), last), law))
    z = math.exp(start - offset)
    for i in range(3):
        span = ends[i + 1] - ends[i]
        ends[4 + i] = SEGMENT / span if span > 0.0 else 0.0
        if span > 0.0:
            row = i * SEGMENT
            z = fill_segment(table, row, ends[i], ends[i + 1], z, law, offset)
    top = math.log(z)
    table[:, 0] -= top
    ends[7] = side_of(last, seen.n)
    ends[11] = side_of(corner, seen.n) if lo < corner < last else -1.0
    ends[12] = law.scale
    ends[8] = constant_of(law) + offset + top
    ends[9] = table[0, 1] * ends[4] if ends[1] > lo else table[SEGMENT, 1] * ends[5]
    ends[10] = table[0, 0] if ends[1] > lo else table[SEGMENT, 0]
    if ends[2] <= lo:
        ends[9], ends[10] = table[2 * SEGMENT, 1] * ends[6], table[2 * SEGMENT, 0]


@compiled
def read_table(table, ends, y, n):
    """log Z(u(y)) relative to the table's last; below its start along a straight line in log u."""
    if ends[7] <= y <= 1.0 - ends[7]:
        return 0.0
    w = log_cap(y, n)
    if w < ends[0]:
        return ends[10] + (w - ends[0]) * ends[9]
    if w >= ends[2]:
        place, row = (w - ends[2]) * ends[6], 2 * SEGMENT
    elif w >= ends[1]:
        place, row = (w - ends[1]) * ends[5], SEGMENT
    else:
        place, row = (w - ends[0]) * ends[4], 0
    i = min(int(place), SEGMENT - 1)
    t = place - i
    i += row
    return table[i, 0] + t * (table[i, 1] + t * (table[i, 2] + t * (table[i, 3] + t * (table[i, 4] + t * table[i, 5]))))


@compiled
def sum_inside(mean, sd, lo, hi, shift, n, table, ends):
    """The integral of exp(shift - z^2 / 2) Z(u(y)) over z = (y - mean) / sd, for y in [lo, hi], by Gauss-Legendre."""
    if hi <= lo:
        return 0.0
    start, pace = (0.5 * (hi + lo) - mean) / sd, 0.5 * (hi - lo) / sd
    total = 0.0
    for i in range(_POINTS):
        z = start + pace * _X[i]
        total += _W[i] * math.exp(read_table(table, ends, mean + sd * z, n) - 0.5 * z * z + shift)
    return pace * total


@compiled
def product_at(y, mean, sd, n, table, ends):
    """Log of Z(u(y)) exp(-z^2 / 2): concave in y."""
    return read_table(table, ends, y, n) - 0.5 * ((y - mean) / sd) ** 2


@compiled
def log_steep(mean, sd, lo, hi, n, table, ends):
    """`log_inside` where Z and the normal density pull apart: about the top of their product, which is looked for."""
    low, high = lo, hi
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a, at_b = product_at(a, mean, sd, n, table, ends), product_at(b, mean, sd, n, table, ends)
    for _ in range(40):
        if at_a > at_b:
            high, b, at_b = b, a, at_a
            a = high - GOLDEN * (high - low)
            at_a = product_at(a, mean, sd, n, table, ends)
        else:
            low, a, at_a = a, b, at_b
            b = low + GOLDEN * (high - low)
            at_b = product_at(b, mean, sd, n, table, ends)
        if high - low < 1e-3 * sd and abs(at_a - at_b) < 0.01:
            break
    top = a if at_a > at_b else b
    peak = max(at_a, at_b)
    if not peak > -np.inf:
        return -np.inf
    limits = (lo, hi)
    pieces = 0.0
    for side in range(2):
        near, far = top, limits[side]
        if product_at(far, mean, sd, n, table, ends) < peak - _INNER_DEPTH - 3.0:
            for _ in range(30):
                middle = 0.5 * (near + far)
                if product_at(middle, mean, sd, n, table, ends) < peak - _INNER_DEPTH:
                    far = middle
                else:
                    near = middle
                if abs(far - near) < 0.1 * abs(far - top):
                    break
        a, b = min(top, far), max(top, far)
        for corner in (ends[11], 1.0 - ends[11]):
            if ends[11] > 0.0 and a < corner < b:
                pieces += sum_inside(mean, sd, a, corner, -peak, n, table, ends)
                a = corner
        pieces += sum_inside(mean, sd, a, b, -peak, n, table, ends)
    return peak + math.log(pieces) - 0.5 * _LOG_2PI if pieces > 0.0 else -np.inf


@compiled
def log_inside(mean, sd, lo, hi, n, table, ends):
    """Log of the integral of N(y; mean, sd^2) Z(u(y)) over [lo, hi], Z relative to the table's last.

    Where Z turns at its corner faster than the normal density does, the stretch is cut there.
    """
    if hi <= lo:
        return -np.inf
    whole = _XH[_HERMITE - 1] * sd
    nearest, inmost = min(max(mean, lo), hi), min(max(0.5, lo), hi)
    floor = 0.5 * ((nearest - mean) / sd) ** 2
    here = read_table(table, ends, nearest, n)
    if read_table(table, ends, inmost, n) - here > _STEEP or here < -600.0:
        return log_steep(mean, sd, lo, hi, n, table, ends)
    reach = sd * math.sqrt(2.0 * (floor + _INNER_DEPTH))
    start, stop = max(lo, mean - reach), min(hi, mean + reach)
    drop = here - min(read_table(table, ends, start, n), read_table(table, ends, stop, n))
    if drop > _STEEP:
        return log_steep(mean, sd, lo, hi, n, table, ends)
    first, second = ends[11], 1.0 - ends[11]
    sharp = first > 0.0 and ends[12] < 2.0 * sd and (start < first < stop or start < second < stop)
    if lo <= mean - whole and mean + whole <= hi and not sharp:  # no end in reach: Gauss-Hermite
        total = 0.0
        for i in range(_HERMITE):
            total += _WH[i] * math.exp(read_table(table, ends, mean + _XH[i] * sd, n))
        return math.log(total) - 0.5 * _LOG_2PI
    shift = floor - here
    total = 0.0
    if sharp:
        for corner in (first, second):
            if start < corner < stop:
                total += sum_inside(mean, sd, start, corner, shift, n, table, ends)
                start = corner
    total += sum_inside(mean, sd, start, stop, shift, n, table, ends)
    return math.log(total) - shift - 0.5 * _LOG_2PI if total > 0.0 else -np.inf


@compiled
def most(mean, sd, lo, hi):
    """More than the log of what `log_inside` integrates to, as Z is at most its last: minus the least energy."""
    return -0.5 * ((min(max(mean, lo), hi) - mean) / sd) ** 2 if hi > lo else -np.inf


@compiled
def value_near(mean, sd, lo, hi, n, table, ends):
    """The log of what `log_inside` integrates, at the y nearest to the mean."""
    return product_at(min(max(mean, lo), hi), mean, sd, n, table, ends) if hi > lo else -np.inf


@compiled
def log_convolved(mu, v, seen, table, ends, floor):
    """log g(mu, v), the table of Z(.; v) given; -inf where it is clearly below `floor`."""
    n, scale, gap = seen.n, seen.mean_scale, seen.mean - mu
    sd = math.sqrt(v / n)
    if seen.mean_noise == LAPLACE:
        shift, tilt = v / n / scale, gap / scale
        corner = min(max(seen.mean, 0.0), 1.0)
        common = ends[8] + 0.5 * shift / scale - math.log(2.0 * scale)
        most_left = most(mu + shift, sd, 0.0, corner) - tilt
        most_right = most(mu - shift, sd, corner, 1.0) + tilt
        if common + max(most_left, most_right) < floor:
            return -np.inf
        left, right = -np.inf, -np.inf
        if most_left > most_right - _APART or most_left > tilt - _APART + value_near(
            mu - shift, sd, corner, 1.0, n, table, ends
        ):
            left = log_inside(mu + shift, sd, 0.0, corner, n, table, ends) - tilt
        if most_right > left - _APART:
            right = log_inside(mu - shift, sd, corner, 1.0, n, table, ends) + tilt
        return common + log_add(left, right)
    if seen.mean_noise == GAUSSIAN:
        both = v / n + scale**2
        mean, width = mu + gap * v / n / both, sd * scale / math.sqrt(both)
        factor = -0.5 * gap * gap / both - 0.5 * math.log(both) - 0.5 * _LOG_2PI
        return ends[8] + factor + log_inside(mean, width, 0.0, 1.0, n, table, ends)
    return ends[8] + log_inside(mu, sd, 0.0, 1.0, n, table, ends)


@compiled
def log_erfcx(z):
    """Log of exp(z^2) erfc(z)."""
    if z < 20.0:
        return z * z + math.log(math.erfc(z))
    inverse = 0.5 / (z * z)
    series = 1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse)))
    return math.log(series / z) - 0.5 * math.log(math.pi)


@compiled
def log_whole(gap, variance, seen):
    """Log density of N(0, variance) plus the noise of the mean at `gap`: g without any bounds, Z apart."""
    scale = seen.mean_scale
    if seen.mean_noise == LAPLACE:
        rate, root = 1.0 / scale, math.sqrt(2.0 * variance)
        both_sides = log_add(log_erfcx((rate * variance - gap) / root), log_erfcx((rate * variance + gap) / root))
        return math.log(0.25 * rate) - (gap / root) ** 2 + both_sides
    if seen.mean_noise == GAUSSIAN:
        both = variance + scale**2
        return -0.5 * gap * gap / both - 0.5 * math.log(both) - 0.5 * _LOG_2PI
    return 0.0


@compiled
def fill_grid(out, mus, variances, seen, constrained):
    """log g at every (mu, v), shape (mu, v)."""
    tables, rows = new_tables(1)
    table, ends = tables[0], rows[0]
    for k in range(variances.size):
        v = variances[k]
        if constrained:
            fill_table(table, ends, v, seen)
            for i in range(mus.size):
                out[i, k] = log_convolved(mus[i], v, seen, table, ends, -np.inf)
        else:
            z = log_all(v, seen)
            for i in range(mus.size):
                out[i, k] = z + log_whole(seen.mean - mus[i], v / seen.n, seen)
