r"""Several priors of the same latents over one set of draws, and over one compiled model where all else is the same.

A draw has the density :math:`\sum_k n_k p_k(\theta) / \sum_k n_k` of the mixture of all priors, so their weights are
bounded, and none has a part that no draw reaches because another prior made the draws. What is not the prior of the
drawn latents, :math:`p(y, s \mid \theta)`, is then worked out once for all of them:

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

from .prior_predictive import PriorPredictive
from .reach import FarPoints, Reach
from .terms import Terms
from .weighed_prior import WeighedPrior

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


def shared_draws(priors: Sequence[WeighedPrior]) -> list[WeighedPrior]:
    """Several priors over the draws of all of them together.

    Parameters
    ----------
    priors : of models whose drawn latents have the same names and shapes, on their own scale
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
    """Fingerprints of a model: the prior of the latents to be drawn, and all else.

    Parameters
    ----------
    drawn : names, shapes and kinds of the latents that a model may draw
    prior, rest : equal for models with the same laws
    """

    drawn: tuple[tuple[str, tuple[int | None, ...], str], ...]
    prior: Hashable
    rest: Hashable

    @classmethod
    def of(cls, model: pm.Model, target: str) -> Likeness | None:
        """Of a model whose latents are all on their own scale; None where no latent is to be drawn from a law apart."""
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
    """Equal for graphs of the same operations on the same numbers; `places` has variables that count by a name.

    An operation that cannot be compared, such as a function of the user's, is equal to itself only.

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
    ends = tuple(number(graph) for graph in graphs)  # graphs that are numbers themselves add their lines
    return tuple(lines), ends


def _leaf(variable: Any) -> Hashable:
    """A variable that nothing is computed for: a number, data, or a generator."""
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
    """The operation itself, which knows what it equals; of one with a graph of its own also by that graph."""
    inner = getattr(op, "inner_outputs", None)
    if inner is None:
        return (type(op), op)
    given = {variable: ("input", i) for i, variable in enumerate(op.inner_inputs)}
    own = tuple(sorted((name, value) for name, value in vars(op).items() if isinstance(value, int | str)))
    return type(op), own, fingerprint(inner, given)


@dataclass
class PooledDraws:
    """Draws of the latents of several models, made by all their priors together.

    Parameters
    ----------
    names : of the latents
    values : draws (draw, *shape) of each
    sizes : number of draws that each prior made, by what it is compared by
    densities : log density of each prior at any values of the latents
    lost : share of each prior that no draw stands for
    """

    names: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    sizes: dict[Hashable, int]
    densities: dict[Hashable, Callable[[Sequence[NDArray[Any]]], Floats]]
    lost: dict[Hashable, float]

    @classmethod
    def of(cls, models: Mapping[Hashable, pm.Model], names: Sequence[str], draws: int, seed: Any) -> PooledDraws:
        """Make `draws` draws of each prior and drop impossible ones; the models have the latents on their own scale."""
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
        """A prior that all draws are possible under, None where there is none."""
        possible = (key for key, log_p in self.at_draws.items() if np.isfinite(log_p).all())
        return next(possible, None)

    def mixture(self, densities: Mapping[Hashable, Floats]) -> Floats:
        """Log density of all priors together, of their own."""
        shares = np.array(list(self.sizes.values()))[:, None] / sum(self.sizes.values())
        return np.asarray(logsumexp(np.stack(list(densities.values())), axis=0, b=shares))


def _log_density(model: pm.Model, names: Sequence[str]) -> Callable[[Sequence[NDArray[Any]]], Floats]:
    """Log prior density of these latents at draws (draw, *shape) of each; minus infinity where it is no number."""
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
    """All of a model but the prior of its drawn latents, at draws of several such priors.

    Parameters
    ----------
    first : the model with one of the priors, as if it had made all draws; so what its draws explain is what those of
        all priors explain
    pool : the draws, and every prior's density
    key : of the prior of `first`
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
        """Compile; None where other latents of the model are drawn than those of the pool."""
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
        """One of the priors."""
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
        """Log density of every prior less that of the first, and that of all together, at the draws."""
        moved = {key: log_p - self.pool.at_draws[self.key] for key, log_p in self.pool.at_draws.items()}
        return moved, self.pool.mixture({key: self.first.log_prior + one for key, one in moved.items()})

    @cached_property
    def _at_far_points(self) -> tuple[dict[Hashable, Floats], Floats]:
        """Log density of every prior less that of the first, and that of all together, at the far points."""
        named = dict(zip(self.first.terms.given.continuous, self.first.far.values, strict=True))
        values = [named[name] for name in self.pool.names]
        there = {key: density(values) for key, density in self.pool.densities.items()}
        moved = {key: one - there[self.key] for key, one in there.items()}
        return moved, self.pool.mixture({key: self.first.far.log_prior + one for key, one in moved.items()})

    def log_joint(self, released: Arrays, table: Floats | None, far: bool) -> tuple[Floats, Floats]:
        """Log joint density of the draws, or of the far points, under the first prior, each release once."""
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
        """As of all far points."""
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
        """Terms that no release enters, up to the prior's own."""
        assert self.shared is not None
        return self.shared.first.pure

    @property
    def reach(self) -> Reach:
        """That of the draws of all priors."""
        assert self.shared is not None
        return self.shared.first.reach

    def log_joint(self, released: Arrays, table: Floats | None = None) -> tuple[Floats, Floats]:
        """Log joint density of the draws under each hypothesis, (draw, release)."""
        assert self.shared is not None
        assert self.moved is not None
        present, out = self.shared.log_joint(released, table, False)
        return present + self.moved[:, None], out + self.moved[:, None]


def _no_other_support(longer: Mapping[str, Any]) -> WeighedPrior:
    raise NotImplementedError("draws of several priors are not made again with other values of a latent")
