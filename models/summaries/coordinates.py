r"""Sampling coordinates of the parameters of bounded data: about unit scale, and always within the feasible region.

The mean is standardised by its conditional mean and spread given :math:`\sigma^2`, from prior and release. This removes
the funnel that an informative prior has at small :math:`\sigma^2`. Within an interval, logistic quantiles map the
standardised mean to the whole line: far from the ends the map is close to the identity, so a nearly normal posterior
remains nearly normal, and the ends are at infinity. An inverse gamma density falls like :math:`e^{-\beta / \sigma^2}`,
so steeply in :math:`\log \sigma^2` that a step may overshoot; in the root of :math:`\beta / \sigma^2` it falls like a
normal density.
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
    r"""Transform of an inverse gamma variable with scale beta, bounded above by `top`, to the real line.

    .. math:: \sqrt{\beta / x} = \sqrt{\beta / top} + \log(1 + e^{-q})

    q is close to minus the root of the scaled precision if that is large, and logarithmic near `top`. beta is the last
    parameter of the variable.
    """

    top: float
    name = "root_up_to"
    ndim_supp = 0

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        root, least = pt.sqrt(inputs[-1] / value), pt.sqrt(inputs[-1] / np.float64(self.top))
        # A draw above `top` is rejected by a potential of the model; here it only needs a finite coordinate.
        return -pt.log(pt.expm1(pt.switch(root > least, root - least, _ONE)))

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
    """Centre and spread of mu given sigma2, from a normal prior (mean, sd), a released mean with noise, or both."""
    released = None if scale is None else (mean, pt.sqrt(_TWO * scale**2 + sigma2 / n))
    if prior is None or released is None:
        return prior or released or (middle + pt.zeros_like(sigma2), pt.sqrt(sigma2))
    (m0, s0), (m1, s1) = prior, released
    weight = s1**2 / (s0**2 + s1**2)
    return weight * m0 + (_ONE - weight) * m1, s0 * s1 / pt.sqrt(s0**2 + s1**2)


class Standardised(Transform):
    r"""Transform mu = m + s z(q), with z in (A, B) where :math:`\sigma^2 \le (\mu - a)(b - \mu)`; z = q without bounds.

    .. math:: z = \log \frac{P + Q e^q}{(1 - P) + (1 - Q) e^q}, \qquad P = \frac{1}{1 + e^{-A}}, \;
              Q = \frac{1}{1 + e^{-B}}

    is the quantile of the logistic distribution truncated to (A, B) at the probability with logit q. m, s and sigma2
    are the last three parameters of the variable.
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
        """m, s and the ends (A, B) of z; m is clipped to the interval, so that 0 lies between them."""
        # The last input can be a random generator, which is not a TensorVariable.
        m, s, sigma2 = [x for x in inputs if isinstance(x, TensorVariable)][-3:]
        if self.bounds is None:
            return m, s, None, None
        start, width = np.float64(self.bounds[0]), np.float64(self.bounds[1] - self.bounds[0])
        half = pt.sqrt(pt.maximum(_QUARTER - sigma2 / width**2, np.float64(1e-300)))
        # The lower end 1/2 - half, as v / (1/2 + half): without cancellation.
        near = width * (sigma2 / width**2 / (_HALF + half))
        low, high = start + near, start + width * (_HALF + half)
        m = pt.clip(m, low, high)
        return m, s, (low - m) / s, (high - m) / s


def _log_odds(low: Any, high: Any, q: Any, side: Any) -> TensorVariable:
    """log(P + Q e^q) for side -1, and log((1 - P) + (1 - Q) e^q) for side 1."""
    return pt.logaddexp(-pt.softplus(side * low), q - pt.softplus(side * high))


def _log_gap(low: Any, high: Any) -> TensorVariable:
    """Log of the logistic mass between low and high."""
    return pt.log1mexp(low - high) - pt.softplus(low) - pt.softplus(-high)
