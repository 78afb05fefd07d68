"""Quantiles of a truncated gamma mixture: Newton steps on the log of a tail, started by scipy's inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

from adversary._core import Floats, as_array

__all__ = ["invert"]

_MOST_STEPS = 200
_EPS = 2e-15


def invert(law: Any, log_below: Floats, log_above: Floats) -> Floats:
    """Quantiles from the smaller of two tails, the same one throughout: Newton on its log in log x, in a bracket."""
    lower, total = bool(log_below[0] < log_above[0]), law._log_mass(np.inf)
    sign, target = (1.0, log_below) if lower else (-1.0, log_above)

    def miss(x: Floats) -> tuple[Floats, Floats]:
        """sign * (log tail - target), and the step in log x for each unit of it."""
        value = (law._log_mass(x) if lower else law._log_mass(np.inf, x)) - total
        with np.errstate(over="ignore", invalid="ignore"):
            return sign * (value - target), np.exp(value - as_array(law.logpdf(x))) / x

    low, high = np.full(target.shape, 1e-300), _far(law, lambda x: miss(x)[0])
    x = np.clip(_start(law, log_below, log_above), low, high)
    open_, large = np.ones(x.shape, dtype=bool), as_array(law.alpha) + np.abs(as_array(law.rate) * as_array(law.centre))
    noise = _EPS * (1.0 + np.abs(target) + large)  # rounding of the log of a tail
    for _ in range(_MOST_STEPS):
        off, scale = miss(x)
        low, high = np.where(off <= 0.0, x, low), np.where(off >= 0.0, x, high)
        with np.errstate(over="ignore", invalid="ignore"):
            fresh = x * np.exp(-off * scale)
        halved = np.where(high > 2.0 * low, np.sqrt(low) * np.sqrt(high), low + 0.5 * (high - low))
        fresh = np.where((fresh >= low) & (fresh <= high), fresh, halved)
        x, step = np.where(open_, fresh, x), np.abs(fresh - x)
        open_ &= (step > _EPS * x) & (np.abs(off) > noise) & (high - low > _EPS * high)
        if not open_.any():
            break
    return np.asarray(np.minimum(x, law.upper))


def _far(law: Any, miss: Callable[[Floats], Floats]) -> Floats:
    """A point beyond the quantile: the end of the support, or found by doubling."""
    alpha, beta, rate, centre, upper = law._parameters
    x = np.minimum((alpha + 1.0) / (beta + rate) + np.maximum(centre, 0.0), upper)
    for _ in range(_MOST_STEPS):
        short = (miss(x) < 0.0) & (x < upper)
        if not short.any():
            break
        x = np.where(short, np.minimum(2.0 * x, upper), x)
    return np.asarray(x)


def _start(law: Any, log_below: Floats, log_above: Floats) -> Floats:
    """The quantile by scipy's inverse incomplete gammas where these do not underflow; the mode elsewhere."""
    alpha, beta, rate, centre, upper = law._parameters
    middle = np.clip(centre, 0.0, upper)
    weights = law.log_weights
    with np.errstate(all="ignore"):
        share, rest = np.exp(log_below - weights[0]), np.exp(log_above - weights[1])
        slope = np.where(beta > rate, beta - rate, np.nan)
        below = gammaincinv(alpha, gammainc(alpha, slope * middle) * share) / slope
        ends = (gammaincc(alpha, (beta + rate) * x) for x in (middle, upper))
        above = gammainccinv(alpha, sum(part * q for part, q in zip((rest, 1.0 - rest), ends, strict=True)))
        guess = np.where(share < 1.0, below, above / (beta + rate))
    usable = np.isfinite(guess) & (guess > 0.0)
    return np.asarray(np.where(usable, guess, np.maximum(law.mode(), 1e-300)))
