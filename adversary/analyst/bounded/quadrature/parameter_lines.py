r"""Compiled: the lines on which mean and variance are laid out, and the prior on them.

The line of the mean is t, mu = centre + spread sinh(t), fine about the released mean. The line of the variance is s,
v = 1 / (4 cosh(s)^2) under the bounds, so that v <= mu (1 - mu) reads s <= -|logit mu| / 2, and v = exp(2 s) without.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from adversary.analyst.bounded.quadrature.decorator import compiled

FLAT, CONJUGATE = 0, 1


class Belief(NamedTuple):
    """A prior on [0, 1]: flat, or normal-inverse-gamma with s2 the square of s0."""

    kind: int
    mu0: float
    kappa: float
    nu: float
    s2: float


class Lines(NamedTuple):
    """The lines of mean and variance: mu = centre + spread sinh(t); the kind of map of s, and its upper end."""

    centre: float
    spread: float
    kind: int
    top: float


@compiled
def log_prior(mu, v, belief):
    """Log density of the prior, 0 where it is flat."""
    if belief.kind == FLAT:
        return 0.0
    half = 0.5 * belief.nu
    variance = half * math.log(half * belief.s2) - math.lgamma(half) - (half + 1.0) * math.log(v) - half * belief.s2 / v
    return (
        variance + 0.5 * math.log(belief.kappa / (2.0 * math.pi * v)) - 0.5 * belief.kappa * (mu - belief.mu0) ** 2 / v
    )
