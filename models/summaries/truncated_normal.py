r"""The normal law cut to an interval, in double precision: PyMC's own has constants in single precision.

.. math:: \log p(x) = \log \phi\left(\frac{x - \mu}{\sigma}\right) - \log \sigma
          - \log\left(\Phi\left(\frac{h - \mu}{\sigma}\right) - \Phi\left(\frac{l - \mu}{\sigma}\right)\right)

The last term is what costs care: it is taken in the tail where the difference is one of small numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import TruncatedNormalRV
from pytensor.tensor.variable import TensorVariable

from adversary.models.noise import float64

__all__ = ["TruncatedNormal", "log_normal_mass"]

_ROOT_HALF = np.float64(np.sqrt(0.5))
_LOG_ROOT_TWO_PI = np.float64(0.5 * np.log(2.0 * np.pi))


def log_normal_mass(low: Any, high: Any, mu: Any, sigma: Any) -> TensorVariable:
    """Log of P(low < X < high) for X normal, low < high: relative accuracy in either tail, and a finite gradient."""
    centre, sd = float64(mu), float64(sigma)
    left, right = (float64(low) - centre) / sd, (float64(high) - centre) / sd
    turned = left + right > np.float64(0)
    below, above = pt.switch(turned, -right, left), pt.switch(turned, -left, right)
    top = _log_ndtr(above)
    return top + pt.log1mexp(_log_ndtr(below) - top)


def _log_ndtr(z: TensorVariable) -> TensorVariable:
    """Log of the standard normal cdf. Each branch sees only arguments it is finite for."""
    one = np.float64(1)
    tail, body = pt.minimum(z, -one), pt.maximum(z, -one)
    small = pt.log(pt.erfcx(-tail * _ROOT_HALF) * np.float64(0.5)) - np.float64(0.5) * tail * tail
    return pt.switch(z < -one, small, pt.log(pt.erfc(-body * _ROOT_HALF) * np.float64(0.5)))


class _TruncatedNormalRV(TruncatedNormalRV):
    """PyMC's, drawn and transformed as it is, with a density of its own."""


class TruncatedNormal(pm.TruncatedNormal):
    """A normal law between `lower` and `upper`; arguments as PyMC's, both bounds given."""

    rv_op = _TruncatedNormalRV()

    @staticmethod
    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> TensorVariable:
        """Log density; minus infinity outside."""
        z = (value - mu) / sigma
        half = np.float64(0.5)
        inside = -half * z * z - _LOG_ROOT_TWO_PI - pt.log(sigma) - log_normal_mass(lower, upper, mu, sigma)
        return pt.switch(pt.or_(value < lower, value > upper), np.float64(-np.inf), inside)
