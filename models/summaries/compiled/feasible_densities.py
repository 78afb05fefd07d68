r"""Joint density of both noisy statistics and the event that the exact ones are feasible for values in [0, 1].

.. math::
   \int_0^1 N(y; \mu, \sigma^2/n) \, e^{-L_1 |Y^* - y|} \int_0^{u(y)} \text{Gamma}(x; \alpha, \alpha / \sigma^2) \,
   e^{-L_2 |S^* - x|} \, dx \, dy, \qquad u(y) = \tfrac{n}{n-1} y (1 - y)

The order of integration is exchanged. The inner integral is over the mean y, in closed form, between the ends of
:math:`x \le u(y)`. The outer one is over the angle :math:`\phi` of :math:`x = u(\tfrac12) \sin^2 \phi`. For it, the
ends are :math:`\sin^2(\phi / 2)` and :math:`\cos^2(\phi / 2)`. The integrand in x is unimodal: a search locates the
mode and the points where it has fallen by 36 nats. Between these points and the corners of the Laplace density,
Gauss-Legendre panels are halved until they agree with their halves. Derivatives are taken under the integral sign.

References
----------
Kazan (2026), chapter 4, Theorem 16.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .noisy_densities import Pair, compiled, log_tilted

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LEAST_ANGLE = 1e-13
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Nats below the mode at which the integral is cut: about 1e-15 of the whole is omitted.
_DEPTH = 36.0
# Relative difference between a panel and its halves; the error of the halves is then about 1e-11.
_TOLERANCE = 1e-7
# Largest number of panels.
_PANELS = 400

Floats = NDArray[np.float64]
Five = tuple[float, float, float, float, float]


class ReleaseCase(NamedTuple):
    """Parameters and a release, on the unit scale; a rate is 0 if a statistic is not released."""

    n: float
    mu: float
    sigma2: float
    rate1: float
    rate2: float
    mean: float
    variance: float


@compiled
def _means(angle: float, case: ReleaseCase) -> tuple[float, float, float]:
    """Log of the integral over means y with u(y) >= x: below the released mean, above it, and in total."""
    low = math.sin(0.5 * angle) ** 2
    high = 1.0 - low
    sd = math.sqrt(case.sigma2 / case.n)
    below = log_tilted(low, min(high, case.mean), case.mu, sd, case.rate1, case.mean)
    above = log_tilted(max(low, case.mean), high, case.mu, sd, -case.rate1, case.mean)
    top = max(below, above)
    return below, above, top + math.log(math.exp(below - top) + math.exp(above - top))


@compiled
def _log_variance(angle: float, case: ReleaseCase) -> Pair:
    """Log of gamma density times noise density times dx / d angle, up to a constant; and x."""
    most = 0.25 * case.n / (case.n - 1.0)
    sine, cosine = math.sin(angle), math.cos(angle)
    x = most * sine * sine
    rate = 0.5 * (case.n - 1.0) / case.sigma2
    noise = case.rate2 * abs(case.variance - x)
    return (case.n - 2.0) * math.log(sine) + math.log(cosine) - rate * (x - case.sigma2) - noise, x


@compiled
def _log_integrand(log_angle: float, case: ReleaseCase) -> float:
    angle = math.exp(log_angle)
    value: float = _log_variance(angle, case)[0] + _means(angle, case)[2]
    return value


@compiled
def _top(case: ReleaseCase) -> float:
    """Log of the angle at the integrand's mode, by golden section search."""
    low, high = math.log(_LEAST_ANGLE), math.log(0.5 * math.pi) - 1e-9
    while high - low > 1e-9:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _log_integrand(left, case) > _log_integrand(right, case):
            high = right
        else:
            low = left
    return 0.5 * (low + high)


@compiled
def _angle_below_level(inside: float, outside: float, level: float, case: ReleaseCase) -> float:
    """Log of an angle between `inside` and `outside` where the integrand is below a level, or `outside`."""
    if _log_integrand(outside, case) > level:
        return outside
    for _ in range(16):
        middle = 0.5 * (inside + outside)
        if _log_integrand(middle, case) > level:
            inside = middle
        else:
            outside = middle
    return outside


@compiled
def _edges(top: float, peak: float, case: ReleaseCase) -> Floats:
    """Seven sorted angles: the integrand is smooth between them and negligible beyond."""
    edges = np.full(7, math.exp(top))
    for side, end in enumerate((math.log(_LEAST_ANGLE), math.log(0.5 * math.pi) - 1e-12)):
        for i, fall in enumerate((_DEPTH, 1.0)):
            end = _angle_below_level(top, end, peak - fall, case)
            edges[1 + 2 * side + i] = math.exp(end)
    released = 4.0 * case.variance * (case.n - 1.0) / case.n, min(case.mean, 1.0 - case.mean)
    for i in range(2):
        angle = (1 + i) * math.asin(math.sqrt(min(max(released[i], 0.0), 1.0)))
        edges[5 + i] = min(max(angle, edges[1]), edges[3])
    return np.sort(edges)


@compiled
def _slopes(angle: float, case: ReleaseCase) -> Five:
    """Log of the integrand, and its derivatives in mu, sigma2, the released mean and the released variance."""
    log_variance, x = _log_variance(angle, case)
    below, above, both = _means(angle, case)
    spread = case.sigma2 / case.n
    low = math.sin(0.5 * angle) ** 2
    rate = case.rate1

    def share(y: float) -> float:
        """Integrand over the mean at y, divided by its integral."""
        log_density = -0.5 * (y - case.mu) ** 2 / spread - rate * abs(case.mean - y)
        return math.exp(log_density - both) / math.sqrt(2.0 * math.pi * spread)

    tilt = rate * (math.exp(below - both) - math.exp(above - both))
    mu, twice = tilt, rate * rate
    for y, sign in ((low, 1.0), (1.0 - low, -1.0)):
        side = rate if y < case.mean else -rate
        mu += sign * share(y)
        twice += sign * share(y) * ((y - case.mu) / spread + side)
    if low < case.mean < 1.0 - low:
        twice -= 2.0 * rate * share(case.mean)
    alpha = 0.5 * (case.n - 1.0)
    sigma2 = alpha * (x - case.sigma2) / case.sigma2**2 + 0.5 * twice / case.n
    pull = case.rate2 if x > case.variance else -case.rate2
    return log_variance + both, mu, sigma2, -tilt, pull


@compiled
def _panel(low: float, high: float, peak: float, case: ReleaseCase) -> Floats:
    """Integrals over one panel of the integrand and of its derivatives, relative to exp(peak)."""
    totals, half = np.zeros(5), 0.5 * (high - low)
    for i in range(_NODES.size):
        value = _slopes(low + half * (1.0 + _NODES[i]), case)
        weight = half * _WEIGHTS[i] * math.exp(value[0] - peak)
        totals[0] += weight
        for k in range(1, 5):
            totals[k] += weight * value[k]
    return totals


@compiled
def _integrals(top: float, peak: float, case: ReleaseCase) -> Floats:
    """Integrals over all angles by adaptive halving of panels."""
    edges, total = _edges(top, peak, case), np.zeros(5)
    waiting = [(edges[i], edges[i + 1], _panel(edges[i], edges[i + 1], peak, case)) for i in range(6)]
    for _, _, part in waiting:
        total += part
    used = len(waiting)
    while waiting:
        low, high, whole = waiting.pop()
        middle = low + 0.5 * (high - low)
        left, right = _panel(low, middle, peak, case), _panel(middle, high, peak, case)
        total += left + right - whole
        if used < _PANELS and abs(left[0] + right[0] - whole[0]) > _TOLERANCE * total[0]:
            waiting.append((low, middle, left))
            waiting.append((middle, high, right))
            used += 1
    return total


@compiled
def log_feasible(n: float, mu: float, sigma2: float, rate1: float, rate2: float, mean: float, variance: float) -> Five:
    """Log of the module's integral, and its derivatives in mu, sigma2, the released mean and the released variance."""
    if not (sigma2 > 0.0 and math.isfinite(sigma2 + mu)):
        return -np.inf, 0.0, 0.0, 0.0, 0.0
    case = ReleaseCase(n, mu, sigma2, rate1, rate2, mean, variance)
    top = _top(case)
    peak = _log_integrand(top, case)
    total = _integrals(top, peak, case)
    alpha, most = 0.5 * (n - 1.0), 0.25 * n / (n - 1.0)
    constant = alpha * math.log(alpha * most / sigma2) - alpha - math.lgamma(alpha) + math.log(2.0)
    value = constant + peak + math.log(total[0])
    return value, total[1] / total[0], total[2] / total[0], total[3] / total[0], total[4] / total[0]
