r"""Compiled: the likelihood of a noisy mean and variance at many parameters, with everything but them integrated out.

.. math::

    g(\mu, v) = \int_0^1 N(y; \mu, v/n)\, q_1(Y^* - y)\, Z(u(y); v)\, dy

with the density :math:`q_1` of the noise about the released mean :math:`Y^*` and :math:`u(y) = n/(n-1)\, y(1-y)`. All
means share the points in y of the variance's sheet. For any of them the top of the product is found panel by panel, and
all that counts lies about it.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.analyst.bounded.quadrature.convolution_panels import (
    BARE,
    CLEAR,
    DEPTH,
    FAR,
    POINTS,
    SPIKE,
    WHOLE,
    new_room,
    sheet_of,
)
from adversary.analyst.bounded.quadrature.decorator import compiled, compiled_freely, compiled_in_place
from adversary.analyst.bounded.quadrature.log_z_table import log_z_at
from adversary.analyst.bounded.quadrature.sample_variance import (
    GAUSSIAN,
    LAPLACE,
    LOG_2PI,
    energy_of,
    log_add,
    log_all,
)

_HERMITE = 12
_XH, _WH = np.polynomial.hermite_e.hermegauss(_HERMITE)


@compiled
def read_panel(p, sheet):
    """Work out the logs at the points of a panel."""
    points, logs, table = sheet.room.points, sheet.room.logs, sheet.table
    for j in range(p * POINTS, (p + 1) * POINTS):
        logs[j] = log_z_at(table, points[j]) - energy_of(sheet.centre - points[j], sheet.kind, sheet.scale)
    sheet.room.read[p] = True


@compiled
def product_at(j, mu, rate, points, logs):
    """Log of the product at a point whose panel was read."""
    z = rate * (points[j] - mu)
    return logs[j] - 0.5 * z * z


@compiled
def log_erfcx(z):
    """Log of exp(z^2) erfc(z)."""
    if z < 20.0:
        return z * z + math.log(math.erfc(z))
    inverse = 0.5 / (z * z)
    series = 1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse)))
    return math.log(series / z) - 0.5 * math.log(math.pi)


@compiled
def log_whole(gap, variance, kind, scale):
    """Log density of N(0, variance) plus the noise of the mean at `gap`: g without any bounds, Z apart."""
    if kind == LAPLACE:
        rate, root, far = 1.0 / scale, math.sqrt(2.0 * variance), abs(gap)
        left, right = (rate * variance - far) / root, (rate * variance + far) / root
        if left < -6.0:  # erfc(left) is 2, and what lies on the other side of the corner is nothing
            return math.log(0.5 * rate) + 0.5 * rate * rate * variance - rate * far
        if right < 20.0 and rate * far < 300.0:  # nothing under- or overflows
            both = math.erfc(left) + math.exp(2.0 * rate * far) * math.erfc(right)
            return math.log(0.25 * rate * both) + 0.5 * rate * rate * variance - rate * far
        base = -((far / root) ** 2)
        near = base + log_erfcx(left) if left > 0.0 else 0.5 * rate * rate * variance - rate * far
        if not left > 0.0:
            near += math.log(math.erfc(left))
        return math.log(0.25 * rate) + log_add(near, base + log_erfcx(right))
    if kind == GAUSSIAN:
        both = variance + scale**2
        return -0.5 * gap * gap / both - 0.5 * math.log(both) - 0.5 * LOG_2PI
    return 0.0


@compiled_freely
def sum_of_products(mu, rate, top, points, weights, logs):
    """Sum of weights exp(logs - z^2 / 2 - top) over points, z = rate (point - mu): what is left of the integral.

    exp(x) is the 64th power of a short series: to 1e-9 relative where |x| is below 10, less exact only where it is too
    small to count. There are no branches, and the index starts at 0, so that several terms are worked out at once.
    """
    total = 0.0
    for j in range(points.size):
        z = rate * (points[j] - mu)
        x = logs[j] - 0.5 * z * z - top
        x = (x if x > -FAR else -FAR) * (1.0 / 64.0)
        e = x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x * (1.0 / 5040.0)))))
        e = 1.0 + x * (1.0 + x * (0.5 + e))
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        total += weights[j] * e
    return total


@compiled
def log_spike(mu, sheet):
    """log g where the normal density is narrower than all else: by Gauss-Hermite about its product with the noise."""
    middle, sd, factor = mu, sheet.sd, math.log(sheet.sd)
    if sheet.kind == GAUSSIAN:
        sd = sheet.sd * sheet.scale / math.hypot(sheet.sd, sheet.scale)
        middle = mu + (sheet.centre - mu) * (sd / sheet.scale) ** 2
        factor = math.log(sd) - 0.5 * (sheet.centre - mu) ** 2 / (sheet.sd**2 + sheet.scale**2)
    top, total = -np.inf, 0.0
    logs = np.empty(_HERMITE)
    for j in range(_HERMITE):
        y = middle + sd * _XH[j]
        logs[j] = log_z_at(sheet.table, y)
        if sheet.kind == LAPLACE:
            logs[j] -= energy_of(sheet.centre - y, LAPLACE, sheet.scale)
        top = max(top, logs[j])
    if not top > -np.inf:
        return -np.inf
    for j in range(_HERMITE):
        total += _WH[j] * math.exp(logs[j] - top)
    return sheet.constant + factor + top + math.log(total)


@compiled
def panel_at(y, points, panels):
    """The panel that holds y, or the one nearest to it."""
    low, high = 0, panels - 1
    while low < high:
        middle = (low + high) // 2
        if points[middle * POINTS + POINTS - 1] < y:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def is_clear(mu, sd, flat, kind, scale, centre):
    """Whether all that counts of the normal density at mu times the noise lies where Z is flat.

    The product falls on both sides of its top faster than the normal density itself.
    """
    top = mu
    if kind == LAPLACE:
        top = min(max(centre, mu - sd * sd / scale), mu + sd * sd / scale)
    elif kind == GAUSSIAN:
        top = mu + (centre - mu) * sd * sd / (sd * sd + scale * scale)
    return min(top, 1.0 - top) - CLEAR * sd > flat


@compiled_in_place
def log_kernel(mu, sheet, panel):
    """log g(mu, v): panel by panel away from one near mu, until the product, which is concave, has fallen by DEPTH.

    Rooms are unpacked here, once: a call that hands on the whole sheet costs more than the sum of a panel.
    """
    if sheet.panels == SPIKE:
        return log_spike(mu, sheet)
    bare, flat = sheet.panels == BARE, sheet.table.flat
    if bare or sheet.panels == WHOLE or is_clear(mu, sheet.sd, flat, sheet.kind, sheet.scale, sheet.centre):
        whole = sheet.table.total + log_whole(sheet.centre - mu, sheet.sd**2, sheet.kind, sheet.scale)
        return whole + log_z_at(sheet.table, min(max(mu, 1e-15), 1.0 - 1e-15)) if bare else whole
    points, logs, read, rate, middle = sheet.room.points, sheet.room.logs, sheet.room.read, 1.0 / sheet.sd, POINTS // 2
    first = final = panel
    if not read[first]:
        read_panel(first, sheet)
    top = product_at(first * POINTS + middle, mu, rate, points, logs)
    while final + 1 < sheet.panels:
        if not read[final + 1]:
            read_panel(final + 1, sheet)
        nearest = product_at((final + 1) * POINTS, mu, rate, points, logs)
        if nearest < top - DEPTH:
            break
        final += 1
        top = max(top, max(nearest, product_at(final * POINTS + middle, mu, rate, points, logs)))
    while first > 0:
        if not read[first - 1]:
            read_panel(first - 1, sheet)
        nearest = product_at(first * POINTS - 1, mu, rate, points, logs)
        if nearest < top - DEPTH:
            break
        first -= 1
        top = max(top, max(nearest, product_at(first * POINTS + middle, mu, rate, points, logs)))
    if not top > -np.inf:
        return -np.inf
    start, stop = first * POINTS, (final + 1) * POINTS
    weights = sheet.room.weights[start:stop]
    total = sum_of_products(mu, rate, top, points[start:stop], weights, logs[start:stop])
    return sheet.constant + top + math.log(total)


@compiled
def log_bare(mu, variance, seen):
    """`log_whole` of the released mean about mu, which has `variance` without the noise."""
    return log_whole(seen.mean - mu, variance, seen.mean_noise, seen.mean_scale)


@compiled
def fill_column(out, mus, v, seen, constrained, room):
    """log g at many means, for one v: fastest where they ascend."""
    if constrained:
        sheet = sheet_of(v, mus.min(), mus.max(), seen, room)
        points, panel = sheet.room.points, 0
        for i in range(mus.size):
            while panel < sheet.panels - 1 and points[panel * POINTS + POINTS - 1] < mus[i]:
                panel += 1
            out[i] = log_kernel(mus[i], sheet, panel)
    else:
        whole = log_all(v, seen)
        for i in range(mus.size):
            out[i] = whole + log_bare(mus[i], v / seen.n, seen)


@compiled
def fill_grid(out, mus, variances, seen, constrained):
    """Fill in log g on a grid of means and variances.

    Parameters
    ----------
    out : (mean, variance), overwritten with log g in nats
    mus : means on [0, 1], (mean,); fastest where they ascend
    variances : population variances v > 0, (variance,)
    seen : the release, `Seen`
    constrained : whether the statistics are restricted to the feasible ones
    """
    room = new_room()
    for k in range(variances.size):
        fill_column(out[:, k], mus, variances[k], seen, constrained, room)
