r"""Compiled: where the posterior of a variance lies, and panels that fit it.

For a given s the posterior is log-concave in the sample mean, which is what makes the searches here safe: a top found
between its neighbours is the top. Values are right to a nat or two; edges of panels need no more.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math

import numpy as np

from adversary.analyst.bounded.quadrature.convolution_panels import rough_log_h
from adversary.analyst.bounded.quadrature.decorator import compiled
from adversary.analyst.bounded.quadrature.kernels import log_bare
from adversary.analyst.bounded.quadrature.panel_edges import COARSE, about_top, share_out, snap, space
from adversary.analyst.bounded.quadrature.panels import COSH, GOLDEN, backward, forward, jacobian
from adversary.analyst.bounded.quadrature.parameter_lines import CONJUGATE
from adversary.analyst.bounded.quadrature.sample_variance import LAPLACE, NONE, law_of, log_all, peak_of

_MANY = 50.0
"""Records from which on the gamma law of the sample variance is narrow beside a panel."""


@compiled
def rough_slice(y, v, peak, law, seen, belief):
    """Log of the joint density of (y, v) with mu and S2 integrated out, roughly: concave in y."""
    value = rough_log_h(y, peak, law, seen)
    middle, sd = y, math.sqrt(v / seen.n)
    if belief.kind == CONJUGATE:
        worth = seen.n + belief.kappa
        middle, sd = (seen.n * y + belief.kappa * belief.mu0) / worth, math.sqrt(v / worth)
        both = v * (1.0 / seen.n + 1.0 / belief.kappa)
        value -= 0.5 * (y - belief.mu0) ** 2 / both + 0.5 * math.log(both)
    half = math.sqrt(max(0.25 - v, 0.0))
    out = max(abs(middle - 0.5) - half, 0.0) / sd
    return value - 0.5 * out * out - math.log1p(out) + math.log(min(1.0, 2.0 * half / (2.5 * sd) + 1e-300))


@compiled
def sample_mean_at(t, seen):
    """The sample mean on its line: geometric about the released mean, whose noise may be far narrower than [0, 1]."""
    return seen.mean + seen.mean_scale * math.sinh(t) if seen.mean_noise != NONE else t


@compiled
def best_slice(v, law, seen, belief):
    """The largest `rough_slice` over sample means, by golden section."""
    peak = peak_of(law)
    lo, hi = 0.0, 1.0
    top = -np.inf
    if seen.mean_noise != NONE:
        lo, hi = math.asinh(-seen.mean / seen.mean_scale), math.asinh((1.0 - seen.mean) / seen.mean_scale)
        if 0.0 < seen.mean < 1.0:
            top = rough_slice(seen.mean, v, peak, law, seen, belief)
    first, second = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
    below = rough_slice(sample_mean_at(first, seen), v, peak, law, seen, belief)
    above = rough_slice(sample_mean_at(second, seen), v, peak, law, seen, belief)
    for _ in range(24):
        if abs(above - below) < 0.05:
            between = rough_slice(sample_mean_at(0.5 * (first + second), seen), v, peak, law, seen, belief)
            if between < max(above, below) + 0.1:
                break
        if below > above:
            hi, second, above = second, first, below
            first = hi - GOLDEN * (hi - lo)
            below = rough_slice(sample_mean_at(first, seen), v, peak, law, seen, belief)
        else:
            lo, first, below = first, second, above
            second = lo + GOLDEN * (hi - lo)
            above = rough_slice(sample_mean_at(second, seen), v, peak, law, seen, belief)
    return max(top, max(below, above))


@compiled
def rough_profile(s, kind, seen, belief):
    """Log density of s, roughly: under the bounds, that of the likeliest sample mean; otherwise in closed form."""
    if kind == COSH:
        s = min(s, -1e-6)
    v = forward(kind, 0.0, 0.0, s)
    value = math.log(jacobian(kind, 0.0, s))
    if belief.kind == CONJUGATE:
        value -= (0.5 * belief.nu + 1.0) * math.log(v) + 0.5 * belief.nu * belief.s2 / v
    law = law_of(v, seen)
    if kind == COSH:
        return value + law.alpha * math.log(law.beta) + best_slice(v, law, seen, belief)
    value += log_all(v, seen)
    if belief.kind == CONJUGATE:
        value += log_bare(belief.mu0, v * (1.0 / seen.n + 1.0 / belief.kappa), seen)
    return value


@compiled
def lay_variance(edges, kind, top, seen, belief, depth):
    """Edges of the panels of s, below `top`: from the profile of the density, to `depth` nats under its peak."""
    points, logs = np.empty(COARSE), np.empty(COARSE)
    lo, hi = -20.0, top
    if belief.kind == CONJUGATE:
        lo = min(lo, 0.5 * math.log(belief.s2) - 6.0)
    deepest, best = lo - 20.0, 0
    for _ in range(40):
        space(points, lo, hi)
        for i in range(COARSE):
            logs[i] = rough_profile(points[i], kind, seen, belief)
        best, lo, hi, steep = about_top(points, logs)
        if not steep:
            break
    level, gap = logs[best] - depth, points[1] - points[0]
    low = fall_of_profile(points[best], -gap, deepest, level, kind, seen, belief)
    high = fall_of_profile(points[best], gap, top, level, kind, seen, belief)
    space(points, low, high)
    closer = np.empty(COARSE)
    for turn in range(2):
        for i in range(COARSE):
            logs[i] = rough_profile(points[i], kind, seen, belief)
        if turn == 0:  # once more where it turns
            share_out(points, logs, closer)
            points[:] = closer
    share_out(points, logs, edges)
    snap(edges, corner_of(kind, seen))


@compiled
def corner_of(kind, seen):
    """The s at which v is the released variance: there its density has a corner, which few records round off."""
    if seen.variance_noise != LAPLACE or not seen.variance > 0.0 or seen.n < _MANY:
        return np.inf
    return backward(kind, 0.0, 0.0, seen.variance)


@compiled
def fall_of_profile(start, step, limit, level, kind, seen, belief):
    """Where the profile of s falls below a level, going from `start` in growing steps, no further than `limit`."""
    near, far = start, start + step
    while (limit - far) * step > 0.0 and rough_profile(far, kind, seen, belief) > level:
        near = far
        step *= 2.0
        far = near + step
    if (limit - far) * step <= 0.0:
        if rough_profile(limit, kind, seen, belief) > level:
            return limit
        far = limit
    for _ in range(5):
        middle = 0.5 * (near + far)
        if rough_profile(middle, kind, seen, belief) > level:
            near = middle
        else:
            far = middle
    return far
