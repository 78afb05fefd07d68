r"""The likelihood of a noisy mean and variance at many parameters, with the exact statistics integrated out.

.. math::

    g(\mu, v) = \int_0^1 N(y; \mu, v/n)\, q_1(Y^* - y)\, Z(u(y); v)\, dy, \qquad
    Z(u; v) = \int_0^u \mathrm{Gamma}(x; \alpha, \alpha/v)\, q_2(S^* - x)\, dx

with :math:`\alpha = (n-1)/2`, :math:`u(y) = n/(n-1)\, y(1-y)` and the densities q of the noise. Z rises from 0 to its
limit over a short range of y near either bound. In these two zones the integral goes over Gauss-Legendre panels, and
between them it is a normal density times noise, a closed form. A column is one v of one release; columns are the first
axis of all arrays. Everything is in logs: a release far outside of what data can have underflows nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from adversary._core import Floats
from adversary.analyst.bounded.quadrature.variance_law import (
    LOG_2PI,
    Seen,
    VarianceLaw,
    energy,
    log_height,
    panel_points,
)

_SHALLOW = 20.0
"""Nats below the top of a product at which its integral over the sample mean ends."""
_X3, _W3 = np.polynomial.legendre.leggauss(3)
_STEEP = 2.0
"""Nats by which the law of the sample variance rises from point to point, beyond which Z is not cumulated."""
_LONG = 18.0
"""Standard deviations of the sample mean in a zone beyond which it has more panels."""
_CLEAR = 6.0
"""Standard deviations of the sample mean about the top of a product beyond which nothing of it counts."""
_LOOKS, _SHARES = 8, (np.arange(7) + 1.0) / 8.0
_AWAY = np.concatenate([np.zeros(1), np.geomspace(1e-9, 1.0, 24)])
_FINER = np.linspace(0.0, 1.0, 7)
_X, _W = np.polynomial.legendre.leggauss(9)
_SHARP, _GRADES = 40.0, (-60.0, -12.0, 12.0, 60.0)
"""Noise scales of the released mean in a zone beyond which it has panels of so many scales about the mean."""
_FALLS = 5.0
"""Length of a zone in units of the distance over which a product falls, beyond which it has more panels."""
_MORE, _LEVELS = 3, 5
"""How many times as many, and how often at most."""
_AT_ONCE = 100_000
"""Points of (column, mean, sample mean) in memory at once."""


def log_bare(seen: Seen, mu: Floats, variance: Floats) -> Floats:
    """Log density of the released mean about mu (column, mean), which has `variance` without the noise."""
    gap = seen.mean[:, None] - mu
    if seen.kinds[0] == "laplace":
        rate, sd = 1.0 / seen.mean_scale[:, None], np.sqrt(variance)
        far = np.abs(gap)
        return np.log(0.5 * rate) + _log_tilted(-far, sd, rate) + 0.0
    if seen.kinds[0] == "gaussian":
        both = variance + seen.mean_scale[:, None] ** 2
        return -0.5 * gap * gap / both - 0.5 * np.log(both) - 0.5 * LOG_2PI
    return np.zeros(mu.shape)


def _log_tilted(gap: Floats, sd: Floats, rate: Floats) -> Floats:
    """Log of E exp(-rate |gap + sd z|), z standard normal, gap <= 0: both sides of the corner."""
    base = -0.5 * (gap / sd) ** 2
    first, second = -gap / sd - rate * sd, gap / sd - rate * sd  # the second is negative
    plain = 0.5 * (rate * sd) ** 2 + rate * gap + log_ndtr(first)
    tail = base + np.log(0.5 * erfcx(np.maximum(-first, 0.0) / np.sqrt(2.0)))
    far = base + np.log(0.5 * erfcx(-second / np.sqrt(2.0)))
    return np.asarray(np.logaddexp(np.where(first > 0.0, plain, tail), far))


def log_between(seen: Seen, mu: Floats, sd: Floats, low: Floats, high: Floats) -> Floats:
    """Log of the integral of N(y; mu, sd^2) q1(Y* - y) over [low, high], (column, mean); the latter (column, 1)."""
    kind, centre, scale = seen.kinds[0], seen.mean[:, None], seen.mean_scale[:, None]
    if kind == "laplace":
        corner, rate = np.clip(centre, low, high), 1.0 / scale
        shift, half = rate * sd * sd, 0.5 * (rate * sd) ** 2
        first = half + rate * (mu - centre) + _log_normal_between(mu + shift, sd, low, corner)
        second = half - rate * (mu - centre) + _log_normal_between(mu - shift, sd, corner, high)
        return np.asarray(log_height(kind, scale) + np.logaddexp(first, second))
    if kind == "gaussian":
        both = sd * sd + scale**2
        middle, narrow = mu + (centre - mu) * sd * sd / both, sd * scale / np.sqrt(both)
        return _log_normal_between(middle, narrow, low, high) + log_bare(seen, mu, sd * sd)
    return _log_normal_between(mu, sd, low, high)


def _log_normal_between(mu: Floats, sd: Floats, low: Floats, high: Floats) -> Floats:
    """log of Phi((high - mu) / sd) - Phi((low - mu) / sd), from the tail that keeps its digits."""
    a, b = (low - mu) / sd, (high - mu) / sd
    flip = a > 0.0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    top = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return top + np.log(-np.expm1(np.minimum(log_ndtr(a) - top, 0.0)))


def log_likelihood(seen: Seen, v: Floats, mu: Floats, constrained: bool) -> Floats:
    """log g of every column at its variance v (column,) and means (column, mean); -inf where mu is NaN."""
    law = VarianceLaw.of(v, seen)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if constrained:
            return _feasible(seen, v, mu)
        return (law.constant + law.log_below(law.far))[:, None] + log_bare(seen, mu, (v / seen.n)[:, None])


def _side(x: Floats, n: Floats) -> Floats:
    """The y in [0, 1/2] with u(y) = x."""
    z = np.minimum((n - 1.0) / n * x, 0.25)
    return z / (0.5 + np.sqrt(0.25 - z))


@dataclass(frozen=True)
class _Product:
    """log of Z(u(y)) N(y; mu, sd^2) q1(Y* - y), roughly: concave in y; arrays (column, 1)."""

    law: VarianceLaw
    seen: Seen
    mu: Floats
    sd: Floats

    def log(self, y: Floats) -> Floats:
        seen, law = self.seen, self.law
        n, scale = seen.n[:, None], seen.mean_scale[:, None]
        w = np.minimum(np.log(n / (n - 1.0) * y * (1.0 - y)), law.peak)
        return law.log(w) - energy(seen.kinds[0], seen.mean[:, None] - y, scale) - 0.5 * ((y - self.mu) / self.sd) ** 2

    def mode(self) -> Floats:
        """By looking closer and closer, in the logit of y."""
        low, width = np.full(self.mu.shape, -34.0), 68.0
        for _ in range(_LOOKS):
            points = low + width * _SHARES
            best = np.argmax(self.log(1.0 / (1.0 + np.exp(-points))), -1)[:, None]
            width *= 2.0 * _SHARES[0]
            low = np.take_along_axis(points, best, -1) - 0.5 * width
        return 1.0 / (1.0 + np.exp(-low - 0.5 * width))

    def end(self, mode: Floats, limit: Floats) -> Floats:
        """Where the product has fallen by _SHALLOW from its mode, or nearly, towards 0 or 1."""
        level, whole = self.log(mode) - _SHALLOW, limit - mode
        away = _AWAY
        for _ in range(2):
            below = self.log(np.clip(mode + whole * away, 1e-300, 1.0 - 1e-16)) < level
            below[:, -1] = True
            first = np.argmax(below, -1)[:, None]
            away = np.broadcast_to(away, below.shape)
            near, far = (np.take_along_axis(away, np.maximum(i, 0), -1) for i in (first - 1, first))
            away = near + (far - near) * _FINER
        return np.asarray((mode + whole * far)[:, 0])


def _feasible(seen: Seen, v: Floats, mu: Floats) -> Floats:
    """log g under the bounds."""
    law, n = VarianceLaw.of(v, seen), seen.n
    sd = np.sqrt(v / n)
    top = law.far[:, 0]
    flat = _side(np.exp(np.minimum(top, 5.0)), n)
    low, high, fall = _window(law, seen, mu, sd)
    found = np.full(mu.shape, -np.inf)
    given = ~np.isnan(mu)
    between = np.flatnonzero((flat < 0.5) & (low < 1.0 - flat) & (high > flat))
    if between.size:
        some, inner = seen.take(between), flat[between, None]
        whole = law.take(between).log_below(top[between, None])
        clear = _clear(some, mu[between], sd[between, None], inner)
        logs = log_between(some, mu[between], sd[between, None], inner, 1.0 - inner)
        found[between] = whole[:, None] + logs
        given[between] &= ~clear
    both = np.tile(np.arange(len(v)), 2)  # the zones at 0, then those at 1, mirrored
    mirrored = np.arange(both.size) >= len(v)
    first, last = np.concatenate([low, 1.0 - high]), np.concatenate([high, 1.0 - low])
    last = np.minimum(last, flat[both])
    ratio = np.maximum(last - first, 0.0) / np.minimum(_LONG * sd, _FALLS * fall)[both]
    level = np.clip(np.ceil(np.log(np.maximum(ratio, 0.5)) / np.log(_MORE)), 0.0, _LEVELS - 1.0)
    sharp = last - first > _SHARP * seen.mean_scale[both]
    logs = np.full((both.size, mu.shape[1]), -np.inf)
    for power, narrow in product(range(_LEVELS), (False, True)):
        some = np.flatnonzero((first < last) & (level == power) & (sharp == narrow))
        if some.size:
            here, turned = seen.take(both[some]), mirrored[some]
            here = replace(here, mean=np.where(turned, 1.0 - here.mean, here.mean))
            means = np.where(turned[:, None], 1.0 - mu[both[some]], mu[both[some]])
            spread = sd[both[some]]
            ends = first[some], last[some]
            y, heights = _zone(law.take(both[some]), here, spread, ends, _MORE**power, narrow)
            rows, columns = np.nonzero(given[both[some]])
            size = max(1, _AT_ONCE // y.shape[1])
            for start in range(0, rows.size, size):
                row, column = rows[start : start + size], columns[start : start + size]
                logs[some[row], column] = _convolved(y, heights, spread, row, means[row, column])
    found = np.logaddexp(found, np.logaddexp(*np.split(logs, 2))) + law.constant[:, None]
    return np.where(np.isnan(mu), -np.inf, found)


def _window(law: VarianceLaw, seen: Seen, mu: Floats, sd: Floats) -> tuple[Floats, Floats, Floats]:
    """The sample means that count: from the low end for the smallest mu of a column to the high end for the largest.

    And the distance over which a product falls by _SHALLOW.
    """
    both = np.tile(np.arange(len(mu)), 2)
    means = np.concatenate([np.nanmin(mu, -1), np.nanmax(mu, -1)])[:, None]
    limits = np.repeat([0.0, 1.0], len(mu))[:, None]
    joint = _Product(law.take(both), seen.take(both), means, sd[both, None])
    mode = joint.mode()
    ends = joint.end(mode, limits)
    low, high = np.split(ends, 2)
    fall = np.minimum(*np.split(np.abs(ends - mode[:, 0]), 2))
    return low, high, np.maximum(fall, 1e-300)


def _clear(seen: Seen, mu: Floats, sd: Floats, flat: Floats) -> Any:
    """Whether all that counts of the normal density at mu times the noise lies where Z is at its limit."""
    top, centre, scale = mu, seen.mean[:, None], seen.mean_scale[:, None]
    if seen.kinds[0] == "laplace":
        top = np.clip(centre, mu - sd * sd / scale, mu + sd * sd / scale)
    elif seen.kinds[0] == "gaussian":
        top = mu + (centre - mu) * sd * sd / (sd * sd + scale * scale)
    return np.minimum(top, 1.0 - top) - _CLEAR * sd > flat


def _zone(
    law: VarianceLaw, seen: Seen, sd: Floats, ends: tuple[Floats, Floats], cuts: int, sharp: bool
) -> tuple[Floats, Floats]:
    """Points between two ends, where Z rises, and log of weight Z(u(y)) q1(Y* - y) there.

    On four times `cuts` panels, and more about the released mean where its noise is `sharp`, narrow beside the zone.
    """
    n, (first, last) = seen.n, ends
    first = np.maximum(first, 1e-16)
    third = (last - first) / 3.0
    corners = (_side(np.exp(np.minimum(w[:, 0], 5.0)), n) for w in (law.corner, law.peak))
    spare = (first + third, last - third, 0.5 * (first + last))
    inner = [np.where((c > first) & (c < last), c, e) for c, e in zip((*corners, seen.mean), spare, strict=True)]
    if sharp:
        inner += [np.clip(seen.mean + times * seen.mean_scale, first, last) for times in _GRADES]
    edges = np.sort(np.stack([first, *inner, last], -1), -1)
    edges = (edges[:, :-1, None] + np.diff(edges)[:, :, None] * np.arange(cuts) / cuts).reshape(len(edges), -1)
    y, weights = panel_points(np.append(edges, last[:, None], -1), _X, _W)
    scale = (n / (n - 1.0))[:, None]
    points, small = panel_points(np.concatenate([first[:, None], y], -1), _X3, _W3)
    rest = points * (1.0 - points)
    logs = law.log(np.log(scale * rest))
    start = law.log_below(np.log(scale * (first * (1.0 - first))[:, None]))
    top = np.maximum(logs.max(-1), start)
    mass = np.exp(logs - top[:, None]) * (1.0 - 2.0 * points) / rest * small
    mass = mass.reshape(len(y), -1, _X3.size).sum(-1)
    mass[:, 0] += np.exp(start - top)
    heights = np.log(np.cumsum(mass, -1)) + top[:, None]
    w = np.log(scale * y * (1.0 - y))
    rise = law.slope(np.exp(w))
    rises = rise * np.diff(w, prepend=w[:, :1]) > _STEEP
    if rises.any():  # there Z is worked out for every point by itself, and cumulated from the last one on
        last_steep = y.shape[1] - 1 - np.argmax(rises[:, ::-1], -1)
        rises = (np.arange(y.shape[1]) <= last_steep[:, None]) & rises.any(-1)[:, None]
        heights[rises] = law.take(np.nonzero(rises)[0]).log_tail(w[rises][:, None], rise[rises][:, None])
        base = np.take_along_axis(heights, last_steep[:, None], -1)
        later = np.log(np.cumsum(np.where(rises, 0.0, mass), -1)) + top[:, None]
        after = ~rises & rises.any(-1)[:, None]
        heights = np.where(after, np.logaddexp(later, base), heights)
    heights += np.log(weights)
    kind, spread = seen.kinds[0], seen.mean_scale[:, None]
    heights += log_height(kind, spread) - energy(kind, seen.mean[:, None] - y, spread)
    return y, heights - (np.log(sd) + 0.5 * LOG_2PI)[:, None]


def _convolved(y: Floats, heights: Floats, sd: Floats, rows: Any, mu: Floats) -> Floats:
    """Log of the sum over y of exp(heights) times the normal density at mu, of pairs (row, mu)."""
    found = y[rows]
    found -= mu[:, None]
    found *= found
    found *= (-0.5 / sd[rows] ** 2)[:, None]
    found += heights[rows]
    best = found.max(-1)
    found -= best[:, None]
    return np.asarray(best + np.log(np.exp(found.astype(np.float32)).sum(-1)))
