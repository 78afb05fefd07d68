r"""Draws of latents on their own scale and on the scale of their value variables, without loss to rounding.

A beta variable can be so near 1 that it rounds to 1 and its logit is infinite. Distributions with much mass near an end
are therefore drawn on the log scale:

.. math:: \log G_a = \log G_{a + 1} - E / a, \qquad \operatorname{logit} B = \log G_a - \log G_b

with E exponential and :math:`G_a` gamma of shape a. A transform such as `ordered` may restrict the support. The model's
density is zero outside, so draws must not fall there: an exchangeable vector is sorted, other draws are rejected.

References
----------
Liu, Martin and Syring (2017), "Efficient simulation from a gamma distribution with small shape parameter",
Computational Statistics 32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.transforms import ChainedTransform, Ordered, _default_transform
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform, SimplexTransform
from pymc.pytensorf import compile as compile_random
from pytensor.graph.basic import Constant, clone_get_equiv
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.random.basic import BetaRV, DirichletRV, GammaRV
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import NUMPY_MODE

# Shape parameter below which a beta, Dirichlet or gamma variable is drawn on the log scale. Rounding loses a share
# of 1e-8 of a beta distribution at shape 1/2, and of 1e-2 at 0.1.
SMALL_SHAPE = 0.5

_LOG_SCALE: dict[type, tuple[type, Callable[..., Any]]] = {
    BetaRV: (LogOddsTransform, lambda size, a, b: _log_gamma(a, size) - _log_gamma(b, size)),
    GammaRV: (LogTransform, lambda size, a, scale: _log_gamma(a, size) + pt.log(scale)),
    DirichletRV: (SimplexTransform, lambda size, a: _centred(_log_gamma(a, size))),
}


@dataclass(frozen=True)
class LatentDraw:
    """Graphs of the draw of one latent.

    Parameters
    ----------
    own, value : the draw on its own scale, and on that of its value variable
    inside : flag that the draw is in the transform's range; None if the transform does not restrict the support
    log_share : log probability that a draw is in order, for a draw that is sorted instead of rejected; else 0
    """

    own: TensorVariable
    value: TensorVariable
    inside: TensorVariable | None = None
    log_share: float = 0.0

    @classmethod
    def of(cls, model: pm.Model, rv: TensorVariable) -> LatentDraw:
        """The draw of a latent: the model's own variable or a replacement with the same distribution."""
        transform, node = model.rvs_to_transforms[rv], rv.owner
        if transform is None:
            return cls(rv, rv)
        if _is_near_an_end(rv, transform):
            value = _LOG_SCALE[type(node.op)][1](number_shape(rv), *node.op.dist_params(node))
            return cls(transform.backward(value, *node.inputs), value)
        if not _may_cut(rv, transform):
            return cls(rv, transform.forward(rv, *node.inputs))
        drawn, log_share = node.clone().outputs[node.outputs.index(rv)], 0.0
        if _is_exchangeable(rv, transform):
            *vectors, length = number_shape(rv)
            drawn = pt.sort(drawn, axis=-1)
            drawn = drawn if _last(transform).ascending else drawn[..., ::-1]
            log_share = -math.lgamma(length + 1) * math.prod(vectors)
        value = transform.forward(drawn, *node.inputs)
        inside = ~pt.isnan(value).any()
        # Variables that depend on the draw need valid parameters even in a draw that will be rejected.
        possible = transform.backward(pt.where(pt.isnan(value), 0.0, value), *node.inputs)
        return cls(pt.where(inside, drawn, possible), value, inside, log_share)


def with_draws(
    graphs: Sequence[TensorVariable],
    draws: Mapping[TensorVariable, LatentDraw],
    held: Mapping[TensorVariable, TensorVariable],
) -> list[TensorVariable]:
    """Graphs with latents replaced by their draws (also within each other) and held variables by their values."""
    swaps = {rv: draw.own for rv, draw in draws.items() if draw.own is not rv} | dict(held)
    every = [*graphs, *swaps.values()]
    inputs = list(graph_inputs([*every, *swaps]))
    copies = clone_get_equiv(inputs, [*every, *swaps], copy_inputs=False, copy_orphans=False)
    variables = [variable for variable in inputs if not isinstance(variable, Constant)]
    fgraph = FunctionGraph(variables, [copies[variable] for variable in every], clone=False)
    for variable, swap in swaps.items():
        if copies[variable] in fgraph.variables:
            fgraph.replace(copies[variable], copies[swap])
    return list(fgraph.outputs[: len(graphs)])


def cuts_support(model: pm.Model) -> bool:
    """True if a transform may restrict the support of a latent, so that the density depends on the transform.

    Parameters
    ----------
    model : pymc.Model

    >>> from pymc.distributions.transforms import ordered
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", shape=2, transform=ordered)
    >>> cuts_support(model)
    True
    """
    transforms = ((rv, model.rvs_to_transforms[rv]) for rv in model.free_RVs)
    return any(transform is not None and _may_cut(rv, transform) for rv, transform in transforms)


def outside_support(model: pm.Model, rv: TensorVariable, value: TensorVariable) -> TensorVariable:
    """Graph: minus infinity if a value is outside the range of its transform, otherwise 0."""
    transform = model.rvs_to_transforms[rv]
    if transform is None or not _may_cut(rv, transform):
        return pt.constant(np.float64(0.0))
    return log_indicator(~pt.isnan(transform.forward(value, *rv.owner.inputs)).any())


def log_indicator(inside: TensorVariable) -> TensorVariable:
    """Log of an indicator: 0 or minus infinity."""
    return pt.switch(inside, np.float64(0.0), np.float64(-np.inf))


def evaluated(graph: TensorVariable) -> NDArray[Any]:
    """Value of a graph without inputs."""
    return np.asarray(compile_random([], graph, mode=NUMPY_MODE, on_unused_input="ignore")())


def number_shape(variable: TensorVariable) -> tuple[int, ...]:
    """Shape of a variable as numbers, evaluated if it is not static."""
    known = variable.type.shape
    return tuple(int(n) for n in (known if None not in known else evaluated(variable.shape)))


def _log_gamma(shape: TensorVariable, size: tuple[int, ...]) -> TensorVariable:
    """Draw of the log of a gamma variable: log G_(a + 1) - E / a."""
    larger = pm.Gamma.dist(shape + np.float64(1.0), np.float64(1.0), size=size)
    return pt.log(larger) - pm.Exponential.dist(np.float64(1.0), size=size) / shape


def _centred(logs: TensorVariable) -> TensorVariable:
    """Logs of a simplex on the scale of `SimplexTransform`."""
    return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)


def _is_near_an_end(rv: TensorVariable, transform: Any) -> bool:
    """True if a latent can be drawn on the log scale and its shape parameter may be small."""
    kind, _ = _LOG_SCALE.get(type(rv.owner.op), (None, None))
    if kind is None or type(transform) is not kind:
        return False
    shapes = rv.owner.op.dist_params(rv.owner)[: 2 if kind is LogOddsTransform else 1]
    if any(isinstance(v.type, RandomType) for v in ancestors(shapes)):
        return True
    return any(bool((evaluated(shape) < SMALL_SHAPE).any()) for shape in shapes)


def _may_cut(rv: TensorVariable, transform: Any) -> bool:
    """True if a transform may restrict the support: it is not the distribution's default transform."""
    own = _default_transform(rv.owner.op, rv)
    if type(transform) is not type(own):
        return True
    if isinstance(transform, IntervalTransform):
        return bool(transform.args_fn.__code__ is not own.args_fn.__code__)
    return isinstance(transform, ChainedTransform)


def _is_exchangeable(rv: TensorVariable, transform: Any) -> bool:
    """True if an ordered transform applies to a vector of independent, identically distributed cells."""
    op = rv.owner.op
    if not isinstance(_last(transform), Ordered) or getattr(op, "ndims_params", None) is None or op.ndim_supp:
        return False
    parameters = zip(op.dist_params(rv.owner), op.ndims_params, strict=True)
    return all(n == 0 and (p.ndim == 0 or p.type.shape[-1] == 1) for p, n in parameters)


def _last(transform: Any) -> Any:
    """The transform itself, or the last of a chain."""
    return transform.transform_list[-1] if isinstance(transform, ChainedTransform) else transform
