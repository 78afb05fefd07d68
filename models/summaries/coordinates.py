r"""Coordinates in which a sampler moves: the parameters of bounded data at about unit scale, never outside the region.

The mean is measured from where prior and release put it given :math:`\sigma^2`, in units of its spread there; so the
narrow end that an informative prior has at small :math:`\sigma^2` is as wide as the rest. Within an interval the
quantiles of the logistic law stretch that distance to the whole line: far from the ends they leave it as it is, so that
what is nearly normal stays nearly normal, and an end lies at infinity. An inverse gamma law falls off like
:math:`e^{-\beta / \sigma^2}`, a wall in :math:`\log \sigma^2` that a step may overshoot; in the root of
:math:`\beta / \sigma^2` it is the side of a normal law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pytensor.tensor.variable import TensorVariable

_HALF, _ONE, _TWO, _QUARTER = (np.float64(x) for x in (0.5, 1.0, 2.0, 0.25))


@dataclass(frozen=True)
class RootUpTo(Transform):
    r"""Of an inverse gamma variable with scale beta, below top: a root of the precision, its logarithm where small.

    .. math:: \sqrt{\beta / x} = \sqrt{\beta / top} + \log(1 + e^{-q})

    beta is the last parameter of the variable.
    """

    top: float
    name = "root_up_to"
    ndim_supp = 0

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        root, least = pt.sqrt(inputs[-1] / value), pt.sqrt(inputs[-1] / np.float64(self.top))
        return -pt.log(pt.expm1(pt.switch(root > least, root - least, _ONE)))  # of a prior that is cut there

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        return inputs[-1] / self._root(value, inputs[-1]) ** 2

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        beta = inputs[-1]
        return pt.log(_TWO * beta) - 3 * pt.log(self._root(value, beta)) - pt.softplus(value)

    def _root(self, value: Any, beta: Any) -> TensorVariable:
        return pt.sqrt(beta / np.float64(self.top)) + pt.softplus(-value)


def pool_normal(
    n: Any, scale: Any, mean: Any, sigma2: TensorVariable, middle: Any, prior: tuple[Any, Any] | None = None
) -> tuple[TensorVariable, TensorVariable]:
    """Centre and spread of mu given sigma2 by a normal prior (mean, sd), a mean with noise of this scale, or both."""
    released = None if scale is None else (mean, pt.sqrt(_TWO * scale**2 + sigma2 / n))
    if prior is None or released is None:
        return prior or released or (middle + pt.zeros_like(sigma2), pt.sqrt(sigma2))
    (m0, s0), (m1, s1) = prior, released
    weight = s1**2 / (s0**2 + s1**2)
    return weight * m0 + (_ONE - weight) * m1, s0 * s1 / pt.sqrt(s0**2 + s1**2)


class Standardised(Transform):
    r"""mu = m + s z, z of a real q in (A, B), where :math:`\sigma^2 \le (\mu - a)(b - \mu)`; or z = q, without bounds.

    .. math:: z = \log \frac{P + Q e^q}{(1 - P) + (1 - Q) e^q}, \qquad P = \frac{1}{1 + e^{-A}}, \;
              Q = \frac{1}{1 + e^{-B}}

    is the quantile, of the logistic law cut to (A, B), at the probability whose logit is q. m, s and sigma2 are the
    last three parameters of the variable.
    """

    name = "standardised"
    ndim_supp = 0

    def __init__(self, bounds: tuple[float, float] | None) -> None:
        self.bounds = bounds

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        m, s, low, high = self._ends(inputs)
        z = (value - m) / s
        if self.bounds is None:
            return z
        z = pt.switch((z > low) & (z < high), z, _HALF * (low + high))
        return _log_gap(low, z) - _log_gap(z, high)

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        m, s, low, high = self._ends(inputs)
        if self.bounds is None:
            return m + s * value
        inside = m + s * (_log_odds(low, high, value, -_ONE) - _log_odds(low, high, value, _ONE))
        return pt.clip(inside, m + s * low, m + s * high)

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        _, s, low, high = self._ends(inputs)
        if self.bounds is None:
            return pt.log(s) + pt.zeros_like(value)
        sides = _log_odds(low, high, value, -_ONE) + _log_odds(low, high, value, _ONE)
        return pt.log(s) + _log_gap(low, high) + value - sides

    def _ends(self, inputs: Any) -> tuple[Any, Any, Any, Any]:
        """m, s and the ends of z, between which 0 is."""
        m, s, sigma2 = [x for x in inputs if isinstance(x, TensorVariable)][-3:]  # a generator comes last
        if self.bounds is None:
            return m, s, None, None
        start, width = np.float64(self.bounds[0]), np.float64(self.bounds[1] - self.bounds[0])
        half = pt.sqrt(pt.maximum(_QUARTER - sigma2 / width**2, np.float64(1e-300)))
        near = width * (sigma2 / width**2 / (_HALF + half))  # of the ends: without the cancellation of 1/2 - half
        low, high = start + near, start + width * (_HALF + half)
        m = pt.clip(m, low, high)
        return m, s, (low - m) / s, (high - m) / s


def _log_odds(low: Any, high: Any, q: Any, side: Any) -> TensorVariable:
    """log(A + B e^q) for side -1, log((1 - A) + (1 - B) e^q) for side 1."""
    return pt.logaddexp(-pt.softplus(side * low), q - pt.softplus(side * high))


def _log_gap(low: Any, high: Any) -> TensorVariable:
    """Log of the mass of the logistic law between low and high."""
    return pt.log1mexp(low - high) - pt.softplus(low) - pt.softplus(-high)
