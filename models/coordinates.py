r"""Coordinates in which a sampler moves: the parameters of bounded data at about unit scale, never outside the region.

The mean is measured from where prior and release put it given :math:`\sigma^2`, in units of its spread there; so the
narrow end that an informative prior has at small :math:`\sigma^2` is as wide as the rest. Within an interval the
quantiles of Cauchy's law stretch that distance to the whole line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pytensor.tensor.variable import TensorVariable

__all__ = ["LogUpTo", "Standardised", "pooled"]

_HALF, _ONE, _TWO, _QUARTER = (np.float64(x) for x in (0.5, 1.0, 2.0, 0.25))


@dataclass(frozen=True)
class LogUpTo(Transform):
    """q = log x - log(top - x); log x where top is infinite."""

    top: float
    name = "log_up_to"
    ndim_supp = 0

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        del inputs
        if np.isinf(self.top):
            return pt.log(value)
        start = pt.switch(value < np.float64(self.top), value, np.float64(self.top / 2))  # of a prior that is cut there
        return pt.log(start) - pt.log(np.float64(self.top) - start)

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        del inputs
        return pt.exp(value) if np.isinf(self.top) else np.float64(self.top) * pt.sigmoid(value)

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        del inputs
        if np.isinf(self.top):
            return value
        return np.log(np.float64(self.top)) - pt.softplus(value) - pt.softplus(-value)


def pooled(
    n: Any, rate1: Any, mean: Any, sigma2: TensorVariable, prior: tuple[Any, Any] | None = None
) -> tuple[TensorVariable, TensorVariable]:
    """Centre and spread of mu given sigma2 by a normal prior (mean, sd), a noisy mean, or both; as if normal."""
    told = None if rate1 is None else (mean, pt.sqrt(_TWO / rate1**2 + sigma2 / n))
    if prior is None or told is None:
        return prior or told or (_HALF + pt.zeros_like(sigma2), pt.sqrt(sigma2))
    (m0, s0), (m1, s1) = prior, told
    weight = s1**2 / (s0**2 + s1**2)
    return weight * m0 + (_ONE - weight) * m1, s0 * s1 / pt.sqrt(s0**2 + s1**2)


class Standardised(Transform):
    r"""mu = m + s tan(theta), theta in the interval that keeps :math:`\sigma^2 \le \mu (1 - \mu)`; or mu = m + s q.

    m, s and sigma2 are the last three parameters of the variable.
    """

    name = "standardised"
    ndim_supp = 0

    def __init__(self, constrained: bool) -> None:
        self.constrained = constrained

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        m, s, first, width = self._ends(inputs)
        if not self.constrained:
            return (value - m) / s
        share = (pt.arctan((value - m) / s) - first) / width
        share = pt.switch((share > 0) & (share < 1), share, _HALF)
        return pt.log(share) - pt.log1p(-share)

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        m, s, first, width = self._ends(inputs)
        return m + s * (pt.tan(first + width * pt.sigmoid(value)) if self.constrained else value)

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        _, s, first, width = self._ends(inputs)
        if not self.constrained:
            return pt.log(s) + pt.zeros_like(value)
        bend = pt.log1p(pt.tan(first + width * pt.sigmoid(value)) ** 2)
        return pt.log(s) + pt.log(width) + bend - pt.softplus(value) - pt.softplus(-value)

    def _ends(self, inputs: Any) -> tuple[Any, Any, Any, Any]:
        """m, s, the least theta and the width of its interval."""
        m, s, sigma2 = inputs[-3:]
        if not self.constrained:
            return m, s, None, None
        half = pt.sqrt(pt.maximum(_QUARTER - sigma2, np.float64(1e-300)))
        m = pt.clip(m, _HALF - half, _HALF + half)
        first = pt.arctan((_HALF - half - m) / s)
        return m, s, first, pt.arctan((_HALF + half - m) / s) - first
