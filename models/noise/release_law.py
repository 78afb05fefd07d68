"""PyMC variables for the releases of mechanisms: `released("noisy[block]", mechanism, count)`.

Every mechanism has a PyMC distribution here. Single noises are written in PyTensor. All others, for instance
post-processed releases or sums of noises, call the mechanism's own `log_prob` and `sample`, which is faster than a
graph of a convolution.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaln

from adversary.privacy import PrivacyUnit, mechanisms
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.invariants import VectorNoise
from adversary.privacy.losses import PrivacyLoss, compose_losses

from .compiled_draws import discrete_gaussian_sum, draws_of, geometric_sum, laplace_sum
from .lattice_laws import DiscreteGaussian, Exact, Geometric, centre, float64, on_lattice

Law = Callable[..., TensorVariable]


def released(
    name: str,
    mechanism: mechanisms.Mechanism,
    value: Any,
    count: int = 1,
    *,
    cells: int | None = None,
    **kwargs: Any,
) -> TensorVariable:
    """Release of `value` plus `count` independent noises of `mechanism`, as a variable of the model in context.

    Parameters
    ----------
    name : str
        Name of the variable.
    mechanism : Mechanism
        The noise of one release.
    value : tensor_like
        The true value, or the sum of `count` true values.
    count : int
        Number of noises that are added; 0 publishes the value itself.
    cells : int, optional
        Number of cells of the release that one person's record changes. Default: the number for which the noise was
        calibrated if it is more than one, otherwise all cells. It does not change the distribution; `released_loss`
        uses it.
    **kwargs
        Passed to the distribution: `dims`, `shape`, `observed`.

    Returns
    -------
    TensorVariable with the shape of `value`.

    Raises
    ------
    TypeError : `mechanism` is not a Mechanism
    ValueError : `count` is not a whole number, or is negative

    Examples
    --------
    >>> from adversary.privacy import PrivacyUnit, mechanisms
    >>> with pm.Model() as model:
    ...     noisy = released("noisy", mechanisms.Geometric(epsilon=1.0), pm.Poisson("count", np.float64(3)))
    """
    variable = law(mechanism, value, count)(name, **kwargs)
    variable.tag.mechanism = (mechanism, int(count), cells)
    return variable


def released_loss(
    model: pm.Model, names: Iterable[str], records: int = 1, unit: PrivacyUnit | None = None
) -> PrivacyLoss | NoPrivacy:
    """Composed privacy loss of released variables, if all their mechanisms are known.

    Parameters
    ----------
    model : pymc.Model
    names : names of released variables
    records : number of privacy units that change, each by the sensitivity that the noise was calibrated for, all in the
        same direction
    unit : change of a number by one privacy unit, and number of cells that it changes; default: the sensitivity that
        the noise was calibrated for, and the `cells` of `released`

    Returns
    -------
    Composed loss of all releases; `NoPrivacy` if one was not made by `released`, or has no noise.

    Examples
    --------
    >>> from adversary.privacy import PrivacyUnit, mechanisms
    >>> with pm.Model() as model:
    ...     noisy = released("noisy", mechanisms.Geometric(epsilon=0.5), pm.Poisson("count", np.float64(3)))
    >>> round(released_loss(model, ["noisy"], 2).epsilon(0.0), 12)
    1.0
    """
    losses = []
    for name in names:
        tag = getattr(model[name].tag, "mechanism", None)
        if tag is None or not tag[1] or tag[0].is_exact:
            return NoPrivacy()
        mechanism, count, cells = tag
        sensitivity, calibrated = mechanism.calibration
        if unit is not None:
            if mechanism.is_local and count == 1:
                losses.append(mechanism.report_loss(unit.contribution, unit.cells))
                continue
            sensitivity, cells = unit.contribution or sensitivity, unit.changed_cells
        if cells is None:
            shape = model[name].shape.eval() if model[name].ndim else ()
            cells = calibrated if calibrated > 1 else int(np.prod(shape))
        noise = mechanism if count == 1 else mechanism.total(count)
        losses.append(noise.privacy_loss(sensitivity * records, cells))
    return compose_losses(losses)


def law(mechanism: mechanisms.Mechanism, value: Any, count: int = 1) -> Law:
    """Distribution of `value` plus `count` noises: a PyMC distribution without its name (`.func.dist` if unnamed).

    Parameters
    ----------
    mechanism : the noise of one release
    value : true value, or sum of `count` true values; a number or tensor of any shape
    count : number of independent noises added, whole, >= 0; 0 publishes the value itself

    Returns
    -------
    A function of the variable's name and of keywords such as `dims`, `shape` and `observed`; see `released`.

    Raises
    ------
    TypeError : `mechanism` is not a Mechanism
    ValueError : `count` is not a whole number, or is negative
    """
    if not isinstance(mechanism, mechanisms.Mechanism):
        raise TypeError(f"mechanism must be a Mechanism, got {mechanism!r}")
    if int(count) != count or count < 0:
        raise ValueError(f"count must be a whole number of noises, got {count}")
    single, many = mechanism.summands if count else (mechanisms.Exact(), 1)
    return _law(single, value, many * int(count))


@dataclass(frozen=True)
class _Unchecked:
    """A mechanism without checks of the true value: an impossible one, which models may propose, gets probability 0."""

    mechanism: mechanisms.Mechanism

    def log_prob(self, release: Any, value: Any) -> Any:
        release, value = (np.asarray(x, dtype=np.float64) for x in (release, value))
        return self.mechanism.log_likelihood(release, value)


@singledispatch
def _law(mechanism: mechanisms.Mechanism, value: Any, count: int) -> Law:
    return _own_law(mechanism if count == 1 else mechanism.total(count), value)


def _own_law(total: mechanisms.Mechanism, value: Any, logp: Any = None, **options: Any) -> Law:
    """Distribution from the mechanism's own draws and, unless `logp` is given, its own log density."""

    def own_logp(release: TensorVariable, true: TensorVariable, *unused: Any) -> TensorVariable:
        del unused
        log_p = OwnLogProb(_Unchecked(total))(release, true)
        return log_p if total.is_continuous else on_lattice(release, log_p)

    def random(true: Any, *unused: Any, rng: np.random.Generator | None = None, size: Any = None) -> Any:
        del unused
        shape = np.shape(true) if size is None else tuple(size)
        return np.asarray(total.sample(np.broadcast_to(true, shape), np.random.default_rng(rng)))

    parameters = [float64(value), *options.pop("parameters", ())]
    dtype = "float64" if total.is_continuous else "int64"
    options |= {"logp": logp or own_logp, "random": random, "dtype": dtype, "class_name": type(total).__name__}
    return lambda name, **kwargs: pm.CustomDist(name, *parameters, **options, **kwargs)


def _sum_law(mechanism: mechanisms.Mechanism, value: Any, scale: float, count: int, draw: Any, logp: Any = None) -> Law:
    """A value plus `count` noises; `draw` is the Numba function of generator, value, scale of one noise and count."""
    parameters = np.float64(scale), np.int64(count)
    unnamed = _own_law(mechanism.total(count), value, logp, parameters=parameters, support_point=centre)

    def named(name: str, **kwargs: Any) -> TensorVariable:
        variable = unnamed(name, **kwargs)
        draws_of(type(variable.owner.op))(draw)
        return variable

    return named


@_law.register
def _(mechanism: mechanisms.DiscreteGaussian, value: Any, count: int) -> Law:
    if count == 1:
        return partial(DiscreteGaussian, mu=value, sigma2=0.5 / mechanism.curvature)
    return _sum_law(mechanism, value, 0.5 / mechanism.curvature, count, discrete_gaussian_sum)


@_law.register
def _(mechanism: mechanisms.Geometric, value: Any, count: int) -> Law:
    if count == 1:
        return partial(Geometric, mu=value, epsilon=mechanism.epsilon)
    return _sum_law(mechanism, value, mechanism.epsilon, count, geometric_sum)


@_law.register
def _(mechanism: mechanisms.Gaussian, value: Any, count: int) -> Law:
    return partial(pm.Normal, mu=float64(value), sigma=np.float64(mechanism.sigma * np.sqrt(count)))


@_law.register
def _(mechanism: mechanisms.Laplace, value: Any, count: int) -> Law:
    if count == 1:
        return partial(pm.Laplace, mu=float64(value), b=np.float64(mechanism.scale))
    return _sum_law(mechanism, value, mechanism.scale, count, laplace_sum, partial(_log_laplace_sum, count))


def _log_laplace_sum(d: int, release: Any, true: Any, b: Any, *unused: Any) -> TensorVariable:
    r"""Log density of a sum of d Laplace variables, with a gradient; Kotz, Kozubowski and Podgorski (2001), 2.3.1.

    With :math:`z = |y - \mu| / b` and :math:`n = d - 1`,

    .. math:: f(y) = \frac{e^{-z}}{b \, n!^2} \sum_{i=0}^{n} \binom{n}{i} \frac{(n + i)!}{2^{d + i}} z^{n - i}
    """
    del unused
    power = np.arange(d - 1.0, -1.0, -1.0)
    i = d - 1.0 - power
    log_c = gammaln(d + i) - gammaln(i + 1) - gammaln(d - i) - (d + i) * np.log(2) - gammaln(d)
    z = pt.abs(release - true) / b
    log_power = pt.switch(power > 0, power * pt.log(z)[..., None], np.float64(0.0))
    return pt.logsumexp(log_c + log_power, axis=-1) - z - pt.log(b)


@_law.register
def _(mechanism: mechanisms.Exact, value: Any, count: int) -> Law:
    del mechanism, count
    return partial(Exact, value=value)


@_law.register
def _(mechanism: mechanisms.RandomizedResponse, value: Any, count: int) -> Law:
    if count != 1:
        raise ValueError(f"randomised response is not additive noise: a sum of {count} releases has no law")
    truth, lie = np.exp([mechanism.log_prob(0, 0), mechanism.log_prob(1, 0)])
    value = pt.as_tensor_variable(value)[..., None]
    row = pt.switch(pt.eq(value, np.arange(mechanism.categories)), truth, lie)
    # An impossible true value has no response: NaN probabilities fail the parameter check of the categorical.
    impossible = pt.or_(value < 0, value >= mechanism.categories)
    return partial(pm.Categorical, p=pt.switch(impossible, np.nan, row))


@dataclass(frozen=True)
class _OfTable:
    """Noise with one joint density of all cells of a table (..., rows, columns)."""

    noise: VectorNoise

    def log_prob(self, release: Any, table: Any) -> Any:
        return self.noise.log_prob(*(x.reshape(*x.shape[:-2], -1) for x in (release, table)))


def released_together(name: str, noise: VectorNoise, table: Any, **kwargs: Any) -> TensorVariable:
    """Noisy table as a variable of the model in context, for noise with one joint density of all cells.

    Parameters
    ----------
    name : name of the variable
    noise : noise of the whole table
    table : true table, tensor (rows, columns)
    **kwargs : passed to `pm.CustomDist`: `dims`, `observed`

    Returns
    -------
    TensorVariable, (rows, columns), float64. Its log density has no gradient.
    """

    def logp(release: TensorVariable, true: TensorVariable) -> TensorVariable:
        return OwnLogProb(_OfTable(noise), 2)(release, true)

    def random(true: Any, rng: np.random.Generator | None = None, size: Any = None) -> Any:
        shape = np.shape(true) if size is None else (*size, *np.shape(true)[-2:])
        cells = np.broadcast_to(true, shape).reshape(*shape[:-2], -1)
        return np.asarray(noise.sample(cells, np.random.default_rng(rng))).reshape(shape)

    kind = type(noise).__name__
    options: dict[str, Any] = {"signature": "(r,c)->(r,c)", "dtype": "float64", "class_name": kind, **kwargs}
    return pm.CustomDist(name, float64(table), logp=logp, random=random, **options)


class OwnLogProb(Op):
    """PyTensor operation that calls an object's NumPy `log_prob`; it has no gradient.

    It broadcasts over all dims but the last `core`, which have one joint density. It is therefore its own vectorized
    version.

    Parameters
    ----------
    law : hashable object with `log_prob(*arrays)`, which broadcasts: a mechanism, a post-processed release
    core : number of trailing dims with one joint density
    """

    __props__ = ("law", "core")

    def __init__(self, law: Any, core: int = 0) -> None:
        self.law, self.core = law, core

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        # Equal ranks, so that batch axes that are added later line up.
        rank = max(x.ndim for x in variables)
        padded = [pt.shape_padleft(x, rank - x.ndim) if x.ndim < rank else x for x in variables]
        shape = tuple(1 if all(x.type.shape[k] == 1 for x in padded) else None for k in range(rank - self.core))
        # `shape` states which axes have length one: PyTensor broadcasts only over these.
        return Apply(self, padded, [pt.tensor(dtype="float64", shape=shape)])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = np.asarray(self.law.log_prob(*inputs), dtype=np.float64)


_vectorize_node.register(OwnLogProb, lambda op, node, *batched: op.make_node(*batched))


@numba_funcify.register(OwnLogProb)  # type: ignore[untyped-decorator]
def _(op: OwnLogProb, node: Apply, **kwargs: Any) -> Any:
    """NumPy fallback in Numba mode, PyTensor's default; it is intended, so the warning is suppressed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Numba will use object mode")
        return generate_fallback_impl(op, node, **kwargs)
