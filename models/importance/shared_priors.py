r"""Several priors of the same latents with shared draws, and one compiled model if only the priors differ.

Draws come from the mixture of all priors, :math:`\sum_k n_k p_k(\theta) / \sum_k n_k`, so importance weights of every
prior are bounded and every prior is covered. The rest of the model, :math:`p(y, s \mid \theta)`, is computed once for
all priors:

.. math:: \log p_k(\theta, y) = \log p_1(\theta, y) + \log p_k(\theta) - \log p_1(\theta)

References
----------
Owen and Zhou (2000), "Safe and effective importance sampling", Journal of the American Statistical Association 95.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.random.type import RandomType
from scipy.special import logsumexp

from adversary._core import blocks
from adversary.models.enumeration import compile_batches, condition, sum_terms

from .fit_limits import FarPoints, FitLimits
from .prior_predictive import PriorPredictive
from .terms import Terms
from .weighed_prior import WeighedPrior

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


def shared_draws(priors: Sequence[WeighedPrior]) -> list[WeighedPrior]:
    """Replace the draws of several priors by the union of all their draws, with mixture densities.

    Parameters
    ----------
    priors : priors of models whose drawn latents have the same names and shapes, without transforms

    Returns
    -------
    The priors in the same order, with shared draws.
    """
    sizes = [len(one.log_prior) for one in priors]
    if len(priors) == 1 or not priors[0].values:
        return list(priors)
    values = tuple(np.concatenate(parts) for parts in zip(*(one.values for one in priors), strict=True))
    densities = np.stack([one.terms.base(values, far=True) for one in priors])
    shares = np.array(sizes)[:, None] / sum(sizes)
    log_density = logsumexp(densities, axis=0, b=shares)
    draws_by_model = []
    for one, own in zip(priors, densities, strict=True):
        there = [other.terms.base(one.far.values, far=True) for other in priors] if one.far.values else densities[:, :0]
        far = replace(one.far, log_density=logsumexp(there, axis=0, b=shares))
        draws_by_model.append(
            replace(one, values=values, log_prior=own, log_density=log_density, far=far, worked_out=None)
        )
    return draws_by_model


@dataclass(frozen=True)
class Likeness:
    """Fingerprints of a model: one of the prior of the drawn latents, one of the rest.

    Parameters
    ----------
    drawn : names, shapes and dtypes of the latents that may be drawn
    prior, rest : fingerprints, equal for models with the same distributions
    """

    drawn: tuple[tuple[str, tuple[int | None, ...], str], ...]
    prior: Hashable
    rest: Hashable

    @classmethod
    def of(cls, model: pm.Model, target: str) -> Likeness | None:
        """Fingerprints of a model; None if a latent has a transform, or if no latent can be drawn independently."""
        if any(transform is not None for transform in model.rvs_to_transforms.values()):
            return None
        discrete = {rv for rv in model.free_RVs if rv.dtype in discrete_types}
        drawn = [rv for rv in model.free_RVs if rv not in discrete and discrete.isdisjoint(ancestors([rv]))]
        if not drawn:
            return None
        shapes = tuple((str(rv.name), tuple(rv.type.shape), str(rv.dtype)) for rv in drawn)
        places: dict[Any, Hashable] = {rv: ("drawn", rv.name) for rv in drawn}
        observed = [rv for rv in model.observed_RVs if rv not in places]
        others = [*(rv for rv in model.free_RVs if rv not in places), *observed, *model.potentials, model[target]]
        values = [model.rvs_to_values[rv] for rv in observed]
        names = tuple(str(v.name) for v in others)
        return cls(shapes, fingerprint(drawn, {}), (names, fingerprint([*others, *values], places)))


def fingerprint(graphs: Sequence[Any], places: Mapping[Any, Hashable]) -> Hashable:
    """Hashable fingerprint, equal for graphs of the same operations on the same numbers.

    `places` maps variables to names that represent them. An operation that cannot be compared, such as a user's
    function, is equal to itself only.

    >>> import pytensor.tensor as pt
    >>> x = pt.dscalar("x")
    >>> fingerprint([x + 1.0], {x: "x"}) == fingerprint([x + 1.0], {x: "x"}) != fingerprint([x + 2.0], {x: "x"})
    True
    """
    numbers: dict[Any, int] = {}
    lines: list[Hashable] = []

    def number(variable: Any) -> int:
        if variable not in numbers:
            lines.append(places[variable] if variable in places else _leaf(variable))
            numbers[variable] = len(numbers)
        return numbers[variable]

    for node in io_toposort(list(places), list(graphs)):
        read = tuple(number(one) for one in node.inputs)
        mechanism = next((one.tag.mechanism[:2] for one in node.outputs if hasattr(one.tag, "mechanism")), None)
        lines.append((_operation(node.op) if mechanism is None else mechanism, read))
        for i, output in enumerate(node.outputs):
            if output not in places:
                numbers[output] = len(numbers)
                lines.append(i)
    # This must precede the use of `lines`: a graph that is a constant adds its own line here.
    ends = tuple(number(graph) for graph in graphs)
    return tuple(lines), ends


def _leaf(variable: Any) -> Hashable:
    """Fingerprint of an input of a graph: a constant, data, or a generator."""
    if isinstance(variable.type, RandomType):
        return "generator"
    value = getattr(variable, "data", None) if isinstance(variable, Constant) else None
    if value is None and hasattr(variable, "get_value"):
        value = variable.get_value(borrow=True)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return str(variable.type), array.shape, array.dtype.str, array.tobytes()
    return ("value", repr(value)) if isinstance(variable, Constant) and value is None else id(variable)


def _operation(op: Any) -> Hashable:
    """Fingerprint of an operation: itself, or for one with an inner graph that graph."""
    inner = getattr(op, "inner_outputs", None)
    if inner is None:
        return (type(op), op)
    given = {variable: ("input", i) for i, variable in enumerate(op.inner_inputs)}
    own = tuple(sorted((name, value) for name, value in vars(op).items() if isinstance(value, int | str)))
    return type(op), own, fingerprint(inner, given)


@dataclass
class PooledDraws:
    """Draws of the latents of several models, from the mixture of all their priors.

    Parameters
    ----------
    names : names of the latents
    values : draws (draw, *shape) of each latent
    sizes : number of draws from each prior, by the prior's fingerprint
    densities : function to the log density of each prior at values of the latents, by fingerprint
    lost : share of each prior lost to rounding, by fingerprint
    """

    names: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    sizes: dict[Hashable, int]
    densities: dict[Hashable, Callable[[Sequence[NDArray[Any]]], Floats]]
    lost: dict[Hashable, float]

    @classmethod
    def of(cls, models: Mapping[Hashable, pm.Model], names: Sequence[str], draws: int, seed: Any) -> PooledDraws:
        """Draw `draws` times from each prior and drop impossible draws; the models' latents must have no transforms."""
        parts, sizes, lost, densities = [], {}, {}, {}
        for (key, model), child in zip(models.items(), blocks.seed_sequence(seed).spawn(len(models)), strict=True):
            densities[key] = _log_density(model, names)
            latents, _ = PriorPredictive.of(model, (), values=tuple(names)).draw(draws, np.random.default_rng(child))
            own = [latents[name].astype(model.rvs_to_values[model[name]].dtype) for name in names]
            possible = np.isfinite(densities[key](own))
            for value in own:
                possible &= np.isfinite(value.reshape(len(value), -1)).all(axis=1)
            parts.append([value[possible] for value in own])
            sizes[key], lost[key] = int(possible.sum()), 1.0 - float(possible.mean())
        values = tuple(np.concatenate(every) for every in zip(*parts, strict=True))
        return cls(tuple(names), values, sizes, densities, lost)

    @cached_property
    def at_draws(self) -> dict[Hashable, Floats]:
        """Log density of every prior at the draws."""
        return {key: density(self.values) for key, density in self.densities.items()}

    @cached_property
    def everywhere(self) -> Hashable | None:
        """Fingerprint of a prior under which all draws are possible; None if there is none."""
        possible = (key for key, log_p in self.at_draws.items() if np.isfinite(log_p).all())
        return next(possible, None)

    def mixture(self, densities: Mapping[Hashable, Floats]) -> Floats:
        """Log density of the mixture of all priors, from the log density of each."""
        shares = np.array(list(self.sizes.values()))[:, None] / sum(self.sizes.values())
        return np.asarray(logsumexp(np.stack(list(densities.values())), axis=0, b=shares))


def _log_density(model: pm.Model, names: Sequence[str]) -> Callable[[Sequence[NDArray[Any]]], Floats]:
    """Compiled log prior density of some latents at draws (draw, *shape); minus infinity if it is undefined."""
    latents = [model[name] for name in names]
    graphs = model.logp(vars=latents, sum=False)
    compiled = compile_batches([sum_terms(graphs)], {model.rvs_to_values[rv]: (None,) for rv in latents})

    def density(values: Sequence[NDArray[Any]]) -> Floats:
        with np.errstate(all="ignore"):
            (log_density,) = compiled(*values)
        log_density = np.broadcast_to(log_density, len(values[0])).astype(np.float64)
        return np.where(np.isnan(log_density) | (log_density == np.inf), -np.inf, log_density)

    return density


@dataclass
class SharedModel:
    """Model compiled once for several priors of its drawn latents.

    Parameters
    ----------
    first : the model with one of the priors, as if all draws came from it; diagnostics of fit are shared by all priors
    pool : the shared draws, and every prior's density
    key : fingerprint of the prior of `first`
    """

    first: WeighedPrior
    pool: PooledDraws
    key: Hashable
    _known: dict[tuple[bool, Hashable], tuple[Floats, Floats]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: pm.Model,
        key: Hashable,
        pool: PooledDraws,
        observed: Sequence[str],
        target: str,
        support: Mapping[str, Any],
        settled: Sequence[str],
        seed: np.random.SeedSequence,
    ) -> Self | None:
        """Compile; None if the model draws other latents than those of the pool."""
        terms = Terms.of(condition(model, observed, continuous=True), target, support, settled)
        if set(terms.given.continuous) != set(pool.names):
            return None
        order = [pool.names.index(name) for name in terms.given.continuous]
        values = tuple(pool.values[i] for i in order)
        log_prior = terms.base(values, far=True)
        far = FarPoints.around(terms, values, 0.0, np.random.default_rng(seed))
        first = WeighedPrior(model, terms, values, log_prior, log_prior, seed, far, _no_other_support)
        return cls(first, pool, key)

    def prior(self, key: Hashable) -> PriorOfMany:
        """Weighted draws under one of the priors."""
        first, (moved, log_density) = self.first, self._at_draws
        far, (far_moved, far_density) = self.first.far, self._at_far_points
        far_of = FarOfMany(
            far.terms, far.values, far.log_prior + far_moved[key], far_density, shared=self, moved=far_moved[key]
        )
        return PriorOfMany(
            first.model,
            first.terms,
            first.values,
            first.log_prior + moved[key],
            log_density,
            first.rng,
            far_of,
            _no_other_support,
            lost=self.pool.lost[key],
            shared=self,
            moved=moved[key],
        )

    @cached_property
    def _at_draws(self) -> tuple[dict[Hashable, Floats], Floats]:
        """At the draws: log density of every prior less that of the first, and log density of the mixture."""
        moved = {key: log_p - self.pool.at_draws[self.key] for key, log_p in self.pool.at_draws.items()}
        return moved, self.pool.mixture({key: self.first.log_prior + one for key, one in moved.items()})

    @cached_property
    def _at_far_points(self) -> tuple[dict[Hashable, Floats], Floats]:
        """At the far points: log density of every prior less that of the first, and log density of the mixture."""
        named = dict(zip(self.first.terms.given.continuous, self.first.far.values, strict=True))
        values = [named[name] for name in self.pool.names]
        there = {key: density(values) for key, density in self.pool.densities.items()}
        moved = {key: one - there[self.key] for key, one in there.items()}
        return moved, self.pool.mixture({key: self.first.far.log_prior + one for key, one in moved.items()})

    def log_joint(self, released: Arrays, table: Floats | None, far: bool) -> tuple[Floats, Floats]:
        """Log joint density of the draws, or of the far points, under the first prior; cached per release."""
        key = far, tuple((name, value.shape, value.tobytes()) for name, value in released.items())
        if key not in self._known:
            make = self.first.far.joint if far else self.first.log_joint
            self._known[key] = make(dict(released), table)
        return self._known[key]


@dataclass(frozen=True)
class FarOfMany(FarPoints):
    """Far points under one of several priors: `moved` is its log density less that of the first."""

    shared: SharedModel | None = None
    moved: Floats | None = None

    def joint(self, released: Arrays, table: Floats | None = None, every: int = 1) -> tuple[Floats, Floats]:
        """Log joint density under this prior, (point, release) under each hypothesis."""
        assert self.shared is not None
        assert self.moved is not None
        present, out = self.shared.log_joint(released, table, True)
        return present + self.moved[:, None], out + self.moved[:, None]


@dataclass(frozen=True)
class PriorOfMany(WeighedPrior):
    """One of several priors of a `SharedModel`: `moved` is its log density less that of the first."""

    shared: SharedModel | None = None
    moved: Floats | None = None

    @property
    def pure(self) -> Floats:
        """Terms that do not depend on a release, with the first prior's density in place of this one's."""
        assert self.shared is not None
        return self.shared.first.pure

    @property
    def fit_limits(self) -> FitLimits:
        """Limits of fit, shared by all priors."""
        assert self.shared is not None
        return self.shared.first.fit_limits

    def log_joint(self, released: Arrays, table: Floats | None = None) -> tuple[Floats, Floats]:
        """Log joint density of the draws under this prior, (draw, release), with target 1 and with target 0.

        That of the first prior is cached per release, and `moved` is added. `table` is `Terms.table` of the release,
        computed if None.
        """
        assert self.shared is not None
        assert self.moved is not None
        present, out = self.shared.log_joint(released, table, False)
        return present + self.moved[:, None], out + self.moved[:, None]


def _no_other_support(longer: Mapping[str, Any]) -> WeighedPrior:
    raise NotImplementedError("draws of several priors are not made again with other values of a latent")
