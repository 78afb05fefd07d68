"""Supports of the discrete latents of a PyMC model: the distribution's bounds, a truncation's, or the user's list.

Bounds that depend on other latents are replaced by their hull; impossible combinations get probability zero anyway.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
from numpy.typing import ArrayLike, NDArray
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import _BaseMixtureRV
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.truncated import TruncatedRV
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BetaBinomialRV,
    BinomialRV,
    CategoricalRV,
    GeometricRV,
    HyperGeometricRV,
    MultinomialRV,
    NegBinomialRV,
    PoissonRV,
)
from pytensor.tensor.variable import TensorVariable

from adversary.models.stories import FreeCellsRV, TabulatedRV, free_bounds

from .batched_graphs import NUMPY_MODE

Values = NDArray[np.int64]
Rule = tuple[Callable[..., tuple[Any, Any]], list[TensorVariable]]

# Largest number of joint parent values over which a hull of bounds is taken.
_LARGEST_HULL = 20_000
# Largest number of vectors with a given total that are listed.
_LARGEST_LIST = 1_000_000
_SHARED_TOTAL = (MultinomialRV, DirichletMultinomialRV)

# Per distribution: the number of leading parameters that fix its support, and (smallest, largest) given those.
_BOUNDS: dict[type, tuple[int, Callable[..., tuple[Any, Any]]]] = {
    BernoulliRV: (0, lambda: (0, 1)),
    BinomialRV: (1, lambda n: (0 * n, n)),
    BetaBinomialRV: (1, lambda n: (0 * n, n)),
    HyperGeometricRV: (3, lambda good, bad, drawn: (np.maximum(0, drawn - bad), np.minimum(good, drawn))),
    DiscreteUniformRV: (2, lambda lower, upper: (lower, upper)),
    DiracDeltaRV: (1, lambda c: (c, c)),
    PoissonRV: (0, lambda: (0, np.inf)),
    NegBinomialRV: (0, lambda: (0, np.inf)),
    GeometricRV: (0, lambda: (1, np.inf)),
    FreeCellsRV: (2, free_bounds),
}


def support_of(
    rv: TensorVariable, given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> tuple[tuple[int, ...], list[Values]]:
    """Shape of a latent and the support of each of its cells, in increasing order.

    The support is taken from `given`, else from the bounds of the distribution or of `pm.Truncated`. If these depend on
    other latents, it is the hull over all values of those. Bounds must not depend on the release.

    Parameters
    ----------
    rv : a discrete latent
    given : values by name of a latent, whole numbers of shape (n,), for every cell of it
    moving : variables that are unknown: the model's random ones and the released ones

    Returns
    -------
    (shape, values) : one increasing int64 array per cell, cells in C order; for counts that share a total (multinomial)
        one array (value, cell) per row of cells.

    Raises
    ------
    ValueError : the support is not finite, not known, or too long to be listed

    >>> import pymc as pm
    >>> support_of(pm.Binomial.dist(np.int64(2), 0.5), {}, set())
    ((), [array([0, 1, 2])])
    >>> shape, (rows,) = support_of(pm.Multinomial.dist(np.int64(2), [0.5, 0.5]), {}, set())
    >>> rows.tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    shape = tuple(int(n) for n in _number(rv.shape))
    if rv.name in given:
        return shape, [np.unique(np.asarray(given[rv.name])).astype(np.int64)] * math.prod(shape)
    if isinstance(rv.owner.op, _SHARED_TOTAL):
        return shape, _shared_total(rv, shape, given, moving)
    bounds = law_bounds(rv, given, moving)
    if bounds is None or not np.isfinite(bounds[1]).all():
        raise ValueError(
            f"latent {rv.name!r} has no finite support of its own: bound it with pm.Truncated(..., upper=...), "
            f"give support={{{rv.name!r}: values}}, or name it in observed if it was released"
        )
    lower, upper = (np.broadcast_to(bound, shape).ravel() for bound in bounds)
    return shape, [np.arange(int(a), int(b) + 1) for a, b in zip(lower, upper, strict=True)]


def _shared_total(
    rv: TensorVariable, shape: tuple[int, ...], given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> list[Values]:
    """Vectors of counts with the total of a multinomial distribution, (value, cell) for each row of a latent."""
    total = rv.owner.op.dist_params(rv.owner)[0]
    if set(moving).isdisjoint(ancestors([total])):
        bounds: tuple[Any, Any] | None = (_number(total), _number(total))
    else:
        bounds = _hull(lambda n: (n, n), [total], given, moving)
    if bounds is None:
        raise ValueError(f"latent {rv.name!r} has a total without a finite support: give that one values in support")
    low, high = (np.broadcast_to(bound, shape[:-1]).ravel() for bound in bounds)
    compositions = []
    for least, most in zip(low.astype(int).tolist(), high.astype(int).tolist(), strict=True):
        size = sum(math.comb(n + shape[-1] - 1, shape[-1] - 1) for n in range(least, most + 1))
        if size > _LARGEST_LIST:
            raise ValueError(
                f"latent {rv.name!r} has {size:.3g} values, more than {_LARGEST_LIST:.0e} that can be listed: write "
                "its cells as pm.Binomial, one given those before it, or merge cells"
            )
        compositions.append(np.concatenate([_compositions(n, shape[-1]) for n in range(least, most + 1)]))
    return compositions


def _compositions(total: int, cells: int) -> Values:
    """All vectors of `cells` counts that sum to `total`, in lexicographic order, (vector, cell)."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(cells - 1):
        left = total - rows.sum(axis=1)
        counts = np.concatenate([np.arange(n + 1) for n in left])
        rows = np.column_stack([rows.repeat(left + 1, axis=0), counts])
    return np.column_stack([rows, total - rows.sum(axis=1)])


def _number(graph: Any) -> NDArray[Any]:
    """Value of a graph without random variables."""
    return np.asarray(pytensor.function([], graph, mode=NUMPY_MODE, on_unused_input="ignore")())


def _rule(node: Any) -> Rule | None:
    """Bounds of a distribution as a function of some parameters, and these; None for an unknown distribution."""
    kind, dist_params = type(node.op), getattr(node.op, "dist_params", None)
    if kind is TruncatedRV:
        *base, lower, upper = node.inputs
        whole = _rule(node.op.base_rv_op.make_node(*base))
        return None if whole is None else (_truncate_bounds(whole[0]), [*whole[1], lower, upper])
    parameters = list(dist_params(node)) if dist_params else list(node.inputs[-1:])
    if kind is CategoricalRV:
        size = parameters[0].type.shape[-1]
        return (lambda: (0, size - 1), []) if size else (lambda n: (0, n - 1), [parameters[0].shape[-1]])
    if kind is TabulatedRV:
        table, _, start = parameters
        return (lambda first, size: (first, first + size - 1)), [start, table.shape[-1]]
    if isinstance(node.op, _BaseMixtureRV):
        return _of_components([_rule(component.owner) for component in node.inputs[2:]])
    if kind not in _BOUNDS:
        return None
    count, bounds = _BOUNDS[kind]
    return bounds, parameters[:count]


def _of_components(rules: Sequence[Rule | None]) -> Rule | None:
    """Bounds of a mixture: the hull of its components' bounds."""
    known = [rule for rule in rules if rule is not None]
    if len(known) < len(rules):
        return None

    def bounds(*parameters: Any) -> tuple[Any, Any]:
        left, ends = list(parameters), []
        for one, own in known:
            taken, left = left[: len(own)], left[len(own) :]
            ends.append(one(*taken))
        return np.min([np.min(low) for low, _ in ends]), np.max([np.max(high) for _, high in ends])

    return bounds, [parameter for _, own in known for parameter in own]


def unbounded_latents(
    latents: Mapping[str, TensorVariable], given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shape and smallest value of every latent without a largest value.

    Parameters
    ----------
    latents : discrete free variables by name
    given : values (n,) by name; these latents are skipped
    moving : variables that are unknown, as for `support_of`

    Returns
    -------
    Shape and smallest value, by name.
    """
    unbounded = {}
    for name, rv in latents.items():
        bounds = None if name in given else law_bounds(rv, given, moving)
        if bounds is not None and not np.isfinite(bounds[1]).all():
            unbounded[name] = (tuple(int(n) for n in _number(rv.shape)), int(np.min(bounds[0])))
    return unbounded


def _truncate_bounds(bounds: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """Bounds cut by a truncation, whose ends are the last two parameters."""

    def cut(*parameters: Any) -> tuple[Any, Any]:
        *own, lower, upper = parameters
        low, high = bounds(*own)
        return np.maximum(low, np.ceil(lower)), np.minimum(high, np.floor(upper))

    return cut


def law_bounds(
    rv: TensorVariable, given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> tuple[Any, Any] | None:
    """Smallest and largest value of a discrete distribution, over all values of the latents it depends on.

    Parameters
    ----------
    rv, given, moving : as for `support_of`

    Returns
    -------
    (lower, upper), which broadcast to the shape of the latent; None if the bounds are not known.
    """
    rule = _rule(rv.owner)
    if rule is None:
        return None
    bounds, parameters = rule
    if set(moving).isdisjoint(ancestors(parameters)):
        return bounds(*(_number(p) for p in parameters))
    return _hull(bounds, parameters, given, moving)


def own_bounds(
    rv: TensorVariable, given: Mapping[str, ArrayLike], moving: Collection[Variable]
) -> tuple[Any, Any] | None:
    """Bounds of a latent's distribution, ignoring `given` for the latent itself.

    Parameters
    ----------
    rv, given, moving : as for `support_of`

    Returns
    -------
    (lower, upper), as for `law_bounds`; None if unknown, or if a latent it depends on has no finite support.
    """
    try:
        return law_bounds(rv, {name: values for name, values in given.items() if name != rv.name}, moving)
    except ValueError:
        return None


def _hull(
    bounds: Callable[..., tuple[Any, Any]],
    parameters: Sequence[TensorVariable],
    given: Mapping[str, ArrayLike],
    moving: Collection[Variable],
) -> tuple[Any, Any] | None:
    """Smallest and largest bounds over all values of the latents they depend on; None if these are too many."""
    # Only direct parents count: the values of a parent already include the effect of its own parents.
    met = ancestors(parameters, blockers=set(moving))
    parents = list(dict.fromkeys(v for v in met if v in set(moving)))
    if any(v.owner is None or v.dtype not in discrete_types for v in parents):
        return None
    supports = [support_of(v, given, moving) for v in parents]
    axes = [values for _, cells in supports for values in cells]
    if math.prod(len(axis) for axis in axes) > _LARGEST_HULL:
        return None
    places = [v.type() for v in parents]
    evaluate = pytensor.function(
        places, parameters, givens=list(zip(parents, places, strict=True)), mode=NUMPY_MODE, on_unused_input="ignore"
    )
    ends: list[tuple[Any, Any]] = []
    for state in itertools.product(*axes):
        left = iter(state)
        values = [
            np.array([n for _ in cells for n in np.ravel(next(left))]).reshape(shape) for shape, cells in supports
        ]
        ends.append(bounds(*evaluate(*(v.astype(p.dtype) for v, p in zip(values, places, strict=True)))))
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
