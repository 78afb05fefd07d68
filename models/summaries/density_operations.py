"""PyTensor operations for densities of noisy statistics: one node each, with its derivatives as further outputs.

A model with such nodes compiles in seconds, because their inner work is not part of the graph. The formulas are in
`noisy_densities` and `feasible_densities`.
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
    """Scalar operation of a compiled function of `count` numbers: its value, and derivatives in the inputs `slopes`."""

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
    """Log density at y of a normal variable plus Laplace noise; no gradient in the rate."""
    return _value(_normal_laplace, y, mu, variance, rate)


def gamma_laplace(y: Any, a: Any, sigma2: Any, rate: Any) -> TensorVariable:
    """Log density at y of a gamma variable (shape a, mean sigma2) plus Laplace noise; no gradient in a and rate."""
    return _value(_gamma_laplace, y, a, sigma2, rate)


def log_gammainc(a: Any, z: Any) -> TensorVariable:
    """Log P(a, z), z > 0; no gradient in a."""
    return _value(_log_gammainc, a, z)


def log_feasible(n: Any, mu: Any, sigma2: Any, rate1: Any, rate2: Any, mean: Any, variance: Any) -> TensorVariable:
    """Log joint density of noisy statistics and feasible exact ones, without the constants L / 2 of the noise.

    A rate is 0 if a statistic is not released. There is no gradient in n and the rates.
    """
    return _value(_log_feasible, n, mu, sigma2, rate1, rate2, mean, variance)


def log_ndtr(z: TensorVariable) -> TensorVariable:
    """Log of the standard normal cdf; arguments are clipped per branch, so that both branches have finite gradients."""
    low, high = pt.minimum(z, -_ONE), pt.maximum(z, -_ONE)
    tail = pt.log(pt.erfcx(-low / _ROOT) / _TWO) - low**2 / _TWO
    return pt.switch(z < -_ONE, tail, pt.log1p(-pt.erfc(high / _ROOT) / _TWO))
