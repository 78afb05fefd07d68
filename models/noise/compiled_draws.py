"""Random draws of this package's distributions in PyTensor's Numba mode, which would otherwise fall back to Python.

Three of PyMC's own distributions that Numba mode lacks are included. In plain NumPy mode `rng_fn` draws; the two modes
give different random numbers with the same distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.discrete import DiscreteUniformRV
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.basic import BetaBinomialRV

from adversary._core import Seed, digest_of


def draws_of(law: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function of (generator, parameters) as the draw of one value in Numba mode.

    Parameters
    ----------
    law : a RandomVariable operation

    Returns
    -------
    The decorator; it returns the compiled function.
    """

    def register(draw: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = draw if hasattr(draw, "py_func") else numba_njit(draw)
        code = getattr(draw, "py_func", draw).__code__
        key = int(digest_of(Path(code.co_filename).parent) + code.co_name.encode().hex(), 16)
        # PyTensor caches machine code by this key: an edited draw must not get the old code.
        numba_core_rv_funcify.register(law)(lambda op, node: (compiled, key))
        return compiled

    return register


@numba_njit  # type: ignore[untyped-decorator]
def discrete_gaussian(rng: Any, mu: float, sigma2: float) -> int:
    """Discrete Gaussian draw by rejection, as in `draw_discrete_gaussian`."""
    centre = np.rint(mu)
    shift, width = mu - centre, np.floor(np.sqrt(sigma2)) + 1.0
    bound = -(shift**2) / (2.0 * sigma2)
    for sign in (-1.0, 1.0):
        peak = shift + sign * sigma2 / width
        for y in (np.floor(peak), np.ceil(peak)):
            bound = max(bound, -((y - shift) ** 2) / (2.0 * sigma2) + abs(y) / width)
    stop = -np.expm1(-1.0 / width)
    while True:
        y = float(rng.geometric(stop)) - float(rng.geometric(stop))
        if np.log(rng.random()) < -((y - shift) ** 2) / (2.0 * sigma2) + abs(y) / width - bound:
            return int(centre + y)


def discrete_gaussian_sum(rng: Seed, value: float, sigma2: float, count: int) -> int:
    """A whole number plus `count` discrete Gaussian variables."""
    total = int(np.rint(value))
    for _ in range(count):
        total += discrete_gaussian(rng, 0.0, sigma2)
    return total


def geometric_sum(rng: Any, value: float, epsilon: float, count: int) -> int:
    """A whole number plus `count` two-sided geometrics: their sum is a difference of two negative binomials."""
    stop = -np.expm1(-epsilon)
    return int(np.rint(value) + rng.negative_binomial(count, stop) - rng.negative_binomial(count, stop))


def laplace_sum(rng: Any, value: float, scale: float, count: int) -> float:
    """A number plus `count` Laplace variables: their sum is a difference of two gamma variables."""
    return float(value + rng.gamma(count, scale) - rng.gamma(count, scale))


@draws_of(DiscreteUniformRV)
def _discrete_uniform(rng: Any, lower: float, upper: float) -> int:
    return int(rng.integers(int(lower), int(upper) + 1))


@draws_of(BetaBinomialRV)
def _beta_binomial(rng: Any, n: float, alpha: float, beta: float) -> int:
    return int(rng.binomial(int(n), rng.beta(alpha, beta)))


@draws_of(TruncatedNormalRV)
def _truncated_normal(rng: Any, mu: float, sigma: float, lower: float, upper: float) -> float:
    """Truncated normal draw by rejection: from a normal, or in a tail from a truncated exponential or a uniform.

    Robert (1995), "Simulation of truncated normal variables", Statistics and Computing 5(2).
    """
    low, high = (lower - mu) / sigma, (upper - mu) / sigma
    if not low <= high:
        raise ValueError("a truncated normal law must have lower <= upper")
    side = -1.0 if low + high < 0.0 else 1.0
    if side < 0.0:
        low, high = -high, -low
    if low < 0.5 and high - low > 1.0:
        z = rng.standard_normal()
        while not low <= z <= high:
            z = rng.standard_normal()
        return float(mu + sigma * side * z)
    rate, width = max(low, 0.0), high - low
    while True:
        u = rng.random()
        z = low + (-np.log1p(u * np.expm1(-rate * width)) / rate if rate > 0.0 else u * width)
        if np.log(rng.random()) < -0.5 * (z - rate) ** 2:
            return float(mu + sigma * side * min(z, high))
