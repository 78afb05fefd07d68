r"""Compiled log densities of noisy statistics of normal data, each with its derivatives.

.. math::
   \int_0^\infty \text{Gamma}(x; a, a / \sigma^2) \, \tfrac{L}{2} e^{-L |y - x|} \, dx, \qquad
   \int N(x; \mu, t) \, \tfrac{L}{2} e^{-L |y - x|} \, dx

are in closed form, for every real y and either sign of :math:`a / \sigma^2 - L`. The incomplete gamma functions are

.. math::
   M(1, a + 1, z) = \cfrac{a}{a - z + \cfrac{z}{a + 1 - z + \cfrac{2 z}{a + 2 - z + \cdots}}}, \qquad
   P(a, z) = \frac{z^a e^{-z}}{\Gamma(a + 1)} M(1, a + 1, z), \qquad
   Q(a, z) = \frac{z^a e^{-z} / \Gamma(a)}{z + 1 - a + \cfrac{a - 1}{z + 3 - a + \cdots}}

for z below a and for z above a, so that nothing underflows.

References
----------
Olver et al., "NIST Digital Library of Mathematical Functions", sections 8.9 and 13.5.
Kazan (2026), chapter 4, Definition 7 and Theorem 16.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from adversary._core import compilers, digest_of

SOURCE = digest_of(Path(__file__).parent)
"""Digest of the modules with compiled functions, which call one another."""
compiled, _ = compilers(__file__)

# Lower bound on a mass between two ends that rounding makes equal: its log stays finite.
_FLOOR = 1e-200

Pair = tuple[float, float]


@compiled
def _scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x) for x >= 0."""
    if x < 4.0:
        return math.exp(x * x) * math.erfc(x)
    f = x
    for k in range(12, 0, -1):
        f = x + 0.5 * k / f
    return 1.0 / (f * math.sqrt(math.pi))


@compiled
def log_tilted(low: float, high: float, mu: float, sd: float, slope: float, corner: float) -> float:
    """Log of the integral of N(y; mu, sd^2) exp(slope (y - corner)) from low to high, without cancellation."""
    if not low < high:
        return -np.inf
    centre = mu + slope * sd * sd
    nearest = min(max(centre, low), high)
    exponent = slope * (nearest - corner) - 0.5 * ((nearest - mu) / sd) ** 2
    a, b = (low - centre) / (sd * math.sqrt(2.0)), (high - centre) / (sd * math.sqrt(2.0))
    if a < 0.0 < b:
        mass = math.erf(b) - math.erf(a)
    else:
        a, b = min(abs(a), abs(b)), max(abs(a), abs(b))
        mass = _scaled_erfc(a) - math.exp((a - b) * (a + b)) * _scaled_erfc(b)
    return exponent + math.log(max(0.5 * mass, _FLOOR))


@compiled
def _kummer_slope(a: float, z: float) -> float:
    """d log M(1, a + 1, z) / dz, z below a; it converges as fast as exp(-(2/3) k^1.5 / sqrt(z)) in its k levels."""
    levels = 40 + int((60.0 * math.sqrt(a)) ** (2.0 / 3.0))
    d = a + levels - z
    for k in range(levels - 1, 0, -1):
        d = a + k - z + (k + 1.0) * z / d
    return 1.0 / d


@compiled
def _tail_fraction(a: float, z: float) -> float:
    """z^a e^-z / Gamma(a, z), z above a."""
    levels = 40 + int(80.0 / z) + int((60.0 * math.sqrt(a)) ** (2.0 / 3.0))
    f = z + 2.0 * levels + 1.0 - a
    for k in range(levels - 1, -1, -1):
        f = z + 2.0 * k + 1.0 - a - (k + 1.0) * (k + 1.0 - a) / f
    return f


@compiled
def log_gammainc(a: float, z: float) -> Pair:
    """Log P(a, z) and its derivative in z, for z > 0."""
    log_density = a * math.log(z) - z - math.lgamma(a)
    if z < a:
        fraction = a - z + z * _kummer_slope(a, z)
        return log_density - math.log(fraction), fraction / z
    fraction = _tail_fraction(a, z)
    q = math.exp(log_density) / fraction
    return math.log1p(-q), fraction * q / (1.0 - q) / z


@compiled
def _gamma_below(y: float, a: float, b: float, rate: float) -> Pair:
    """Log of the integral of Gamma(x; a, b) exp(-rate (y - x)) over x < y, any sign of b - rate; E[x] under it."""
    z = (b - rate) * y
    if z < a:
        slope = _kummer_slope(a, z)
        return a * math.log(b * y) - b * y - math.lgamma(a) - math.log(a - z + z * slope), y * (1.0 - slope)
    log_p, slope = log_gammainc(a, z)
    return a * math.log(b / (b - rate)) + log_p - rate * y, (a - z * slope) / (b - rate)


@compiled
def _gamma_above(y: float, a: float, b: float, rate: float) -> Pair:
    """Log of the integral of Gamma(x; a, b) exp(-rate (x - y)) over x > y; and E[x] under it."""
    z = (b + rate) * y
    if y <= 0.0:
        return a * math.log(b / (b + rate)) + rate * y, a / (b + rate)
    if z < a:
        log_p, slope = log_gammainc(a, z)
        p = math.exp(log_p)
        return a * math.log(b / (b + rate)) + math.log1p(-p) + rate * y, (a + z * slope * p / (1.0 - p)) / (b + rate)
    fraction = _tail_fraction(a, z)
    return a * math.log(b * y) - b * y - math.lgamma(a) - math.log(fraction), (a + fraction) / (b + rate)


@compiled
def gamma_laplace(y: float, a: float, sigma2: float, rate: float) -> tuple[float, float, float]:
    """Log density at y of Gamma(a, a / sigma2) plus Laplace noise, and its derivatives in y and sigma2."""
    above, mean = _gamma_above(y, a, a / sigma2, rate)
    total, share = above, 0.0
    if y > 0.0:
        below, mean_below = _gamma_below(y, a, a / sigma2, rate)
        top = max(below, above)
        total = top + math.log(math.exp(below - top) + math.exp(above - top))
        share = math.exp(below - total)
        mean = share * mean_below + (1.0 - share) * mean
    return math.log(0.5 * rate) + total, rate * (1.0 - 2.0 * share), a * (mean - sigma2) / sigma2**2


@compiled
def normal_laplace(y: float, mu: float, variance: float, rate: float) -> tuple[float, float, float, float]:
    """Log density at y of N(mu, variance) plus Laplace noise, and its derivatives in y, mu and variance."""
    sd = math.sqrt(variance)
    below = log_tilted(-np.inf, y, mu, sd, rate, y)
    above = log_tilted(y, np.inf, mu, sd, -rate, y)
    top = max(below, above)
    total = top + math.log(math.exp(below - top) + math.exp(above - top))
    tilt = rate * (math.exp(below - total) - math.exp(above - total))
    here = math.exp(-0.5 * (y - mu) ** 2 / variance - total) / math.sqrt(2.0 * math.pi * variance)
    return math.log(0.5 * rate) + total, -tilt, tilt, 0.5 * rate * rate - rate * here
