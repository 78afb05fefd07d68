"""Densities of noisy statistics as PyTensor operations: one node each, whose further outputs are its derivatives.

So a model that holds them compiles in seconds, whatever the work inside. The formulas are in `noisy_densities` and
`feasible_densities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad_undefined
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
from pytensor.scalar.basic import ScalarOp, float64
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from .compiled import SOURCE, feasible_densities, noisy_densities

_ONE, _TWO = np.float64(1.0), np.float64(2.0)
_ROOT = np.sqrt(_TWO)


class Sloped(ScalarOp):
    """A compiled function of `count` numbers: its value, then its derivatives in the inputs at the places `slopes`."""

    def __init__(self, function: Callable[..., Any], count: int, slopes: tuple[int, ...]) -> None:
        self.function, self.nin, self.nout, self.slopes = function, count, 1 + len(slopes), slopes
        super().__init__(lambda *types: [float64] * (1 + len(slopes)), name=function.__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sloped) and other.function is self.function

    def __hash__(self) -> int:
        return hash((Sloped, self.function))

    def impl(self, *inputs: Any) -> Any:
        return self.function(*map(float, inputs))

    def pullback(self, inputs: Any, outputs: Any, grads: Any) -> list[Any]:
        gradients = dict(zip(self.slopes, outputs[1:], strict=True))
        return [
            grads[0] * gradients[i] if i in gradients else grad_undefined(self, i, x, "this input is data")
            for i, x in enumerate(inputs)
        ]


@register_scalar_funcify(Sloped)  # type: ignore[untyped-decorator]
def _(op: Any, node: Any, **kwargs: Any) -> Any:
    del node, kwargs
    return op.function, scalar_op_cache_key(op, function=op.name, source=SOURCE)


_normal_laplace = Elemwise(Sloped(noisy_densities.normal_laplace, 4, (0, 1, 2)))
_gamma_laplace = Elemwise(Sloped(noisy_densities.gamma_laplace, 4, (0, 2)))
_log_gammainc = Elemwise(Sloped(noisy_densities.log_gammainc, 2, (1,)))
_log_feasible = Elemwise(Sloped(feasible_densities.log_feasible, 7, (1, 2, 5, 6)))


def _value(operation: Any, *inputs: Any) -> TensorVariable:
    return operation(*(pt.cast(x, "float64") for x in inputs))[0]


def normal_laplace(y: Any, mu: Any, variance: Any, rate: Any) -> TensorVariable:
    """Log density at y of a normal variable plus Laplace noise; the rate is data."""
    return _value(_normal_laplace, y, mu, variance, rate)


def gamma_laplace(y: Any, a: Any, sigma2: Any, rate: Any) -> TensorVariable:
    """Log density at y of a gamma variable of shape a and mean sigma2 plus Laplace noise; shape and rate are data."""
    return _value(_gamma_laplace, y, a, sigma2, rate)


def log_gammainc(a: Any, z: Any) -> TensorVariable:
    """Log P(a, z), z > 0; the shape is data."""
    return _value(_log_gammainc, a, z)


def log_feasible(n: Any, mu: Any, sigma2: Any, rate1: Any, rate2: Any, mean: Any, variance: Any) -> TensorVariable:
    """Log density of noisy statistics and the event that the exact ones were feasible, without the constants L / 2 of
    the noise; a rate is 0 where a statistic is not released; n and the rates are data."""
    return _value(_log_feasible, n, mu, sigma2, rate1, rate2, mean, variance)


def log_ndtr(z: TensorVariable) -> TensorVariable:
    """Log of the standard normal cdf; each side only sees arguments it is finite for."""
    low, high = pt.minimum(z, -_ONE), pt.maximum(z, -_ONE)
    tail = pt.log(pt.erfcx(-low / _ROOT) / _TWO) - low**2 / _TWO
    return pt.switch(z < -_ONE, tail, pt.log1p(-pt.erfc(high / _ROOT) / _TWO))
