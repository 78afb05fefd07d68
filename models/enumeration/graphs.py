"""Access to a PyMC model for enumeration, importance sampling and NUTS: its latents and its density in batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pymc as pm
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from adversary._core import closest_name

from .batched_graphs import Compiled, compile_batches
from .components import Components
from .model_checks import check_density, check_fixed, check_names, missing_target

_RELEASED = re.compile(r"(noisy|sibling_sum|siblings)(\[.*\])?")


@dataclass(frozen=True)
class Conditioned:
    """A model whose released variables are inputs.

    `released`, `latents` (discrete) and `continuous` map names to input variables. A continuous latent's input is its
    value on the unconstrained scale; the Jacobian is part of the model's density.
    """

    model: pm.Model
    released: dict[str, TensorVariable]
    latents: dict[str, TensorVariable]
    continuous: dict[str, TensorVariable] = field(default_factory=dict)

    def log_joint(self) -> list[TensorVariable]:
        """Terms of the log density of latents and release together."""
        return list(self.model.logp(sum=False))

    def log_prior(self, settled: Sequence[str] = ()) -> list[TensorVariable]:
        """Log density terms before the release: the latents' own, the side data, and the released variables named."""
        return [*self.own_terms(), *self.given_terms(settled)]

    def own_terms(self) -> list[TensorVariable]:
        """Log prior of every latent given those before it."""
        return list(self.model.logp(vars=self.model.free_RVs, sum=False))

    def given_terms(self, settled: Sequence[str] = ()) -> list[TensorVariable]:
        """Potentials and observed variables that do not depend on the release, and the released variables named."""
        values = self.model.replace_rvs_by_values(self.model.potentials)
        potentials = [p for p, v in zip(self.model.potentials, values, strict=True) if not self.uses_release(v)]
        known = self._terms_of([*potentials, *(self.model[name] for name in settled)])
        side = self._terms_of([rv for rv in self.model.observed_RVs if rv.name not in self.released])
        return [*known, *(term for term in side if not self.uses_release(term))]

    def _terms_of(self, variables: Sequence[TensorVariable]) -> list[TensorVariable]:
        return list(self.model.logp(vars=list(variables), sum=False)) if variables else []

    @property
    def moving(self) -> set[Variable]:
        """Random and released variables: everything without a fixed value."""
        return {*self.model.basic_RVs, *self.released.values()}

    def uses_release(self, variable: TensorVariable) -> bool:
        """True if a graph reads a released variable."""
        return not set(self.released.values()).isdisjoint(ancestors([variable]))

    def values_of(self, name: str) -> TensorVariable:
        """A latent or Deterministic as a function of the latents' values."""
        if name not in self.model.named_vars:
            known = [*self.latents, *self.continuous, *(str(v.name) for v in self.model.deterministics)]
            raise ValueError(missing_target(name, self.model, known))
        (graph,) = self.model.replace_rvs_by_values([self.model[name]])
        check_fixed(name, graph)
        if self.uses_release(graph):
            raise ValueError(f"target {name} depends on the release; a target must be a function of the latents")
        return graph


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def condition(model: pm.Model, observed: Sequence[str], *, continuous: bool = False) -> Conditioned:
    """Condition a model on the variables named in `observed`, which become inputs of its density.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : names of released variables, and of `pm.Data`
    continuous : whether continuous latents are allowed

    Returns
    -------
    Conditioned : the model, its inputs and its latents by name.

    Raises
    ------
    ValueError : a name that the model lacks or that the results use, a latent whose distribution depends on a release,
        a distribution without a log density, or no latents at all
    TypeError : a latent is continuous and `continuous` is false
    """
    data = {v.name for v in model.data_vars}
    random = {v.name for v in [*model.basic_RVs, *model.deterministics]}
    for name in observed:
        if name not in data | random:
            hint = closest_name(name, random | data)
            raise ValueError(
                f"observed {name!r} is not in the model, which has {_join_names(sorted(random | data))}{hint}"
            )
    check_names(model, [name for name in observed if name in random])
    _refuse_later_latents(model, [name for name in observed if name in random])
    placeholders = {name: model[name].type(name) for name in observed if name in random}
    given = pm.observe(without_starts(model), placeholders) if placeholders else model
    unknown = [rv for rv in given.free_RVs if rv.dtype not in discrete_types]
    if unknown and not continuous:
        raise TypeError(
            f"latent {unknown[0].name!r} is continuous ({unknown[0].dtype}) and cannot be enumerated; "
            "if it was released, name it in observed"
        )
    if not given.free_RVs:
        raise ValueError("the model has no latents left to enumerate")
    check_density(given)
    released = {name: placeholders.get(name, given[name]) for name in observed}
    values = {rv.name: given.rvs_to_values[rv] for rv in given.free_RVs}
    smooth = {rv.name: values.pop(rv.name) for rv in unknown}
    return Conditioned(given, released, values, smooth)


def without_starts(model: pm.Model) -> pm.Model:
    """The model without initial values, which no density depends on.

    PyMC refuses to observe, change or copy a model that has any.

    Parameters
    ----------
    model : pymc.Model, left unchanged

    Returns
    -------
    A shallow copy of the model.

    >>> with pm.Model() as model:
    ...     rate = pm.Gamma("rate", 2.0, 1.0, initval=3.0)
    >>> without_starts(model).rvs_to_initial_values[rate] is None
    True
    """
    # `copy.copy` would go through PyMC's own copy, which refuses initial values.
    bare = object.__new__(type(model))
    bare.__dict__.update(model.__dict__, rvs_to_initial_values=dict.fromkeys(model.rvs_to_initial_values))
    return bare


def _refuse_later_latents(model: pm.Model, released: Sequence[str]) -> None:
    """ValueError for a latent whose distribution depends on a release: its prior is undefined."""
    for rv in model.free_RVs:
        before = set() if rv.name in released else set(ancestors([rv]))
        for name in released:
            if model[name] in before:
                raise ValueError(
                    f"latent {rv.name!r} depends on the release {name!r}; a release must be made from what it tells "
                    f"about: draw {rv.name!r} first, and give {name!r} a law that depends on it"
                )


def compile_batched(
    conditioned: Conditioned, graphs: Sequence[TensorVariable], components: Components | None = None
) -> Compiled:
    """Compile graphs as functions of states (states, 1, *shape) of each latent, then releases (1, releases, *shape).

    With components, the result is the sums of these graphs by component, (states, releases, component).
    """
    read = components.reads if components is not None else {}
    latents = dict.fromkeys(read or conditioned.latents.values(), (None, 1))
    places = {**latents, **dict.fromkeys(conditioned.released.values(), (1, None))}
    if components is None:
        return compile_batches(graphs, places)
    every, summed = components.columns(graphs)
    return compile_batches(every, places, joined=lambda batches: [summed(batches)])


def released_names(model: pm.Model, released: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of the released variables of a model.

    Parameters
    ----------
    model : pymc.Model
    released : their names, to be checked; default: every variable called noisy, sibling_sum or siblings, alone or with
        a level, as in "noisy[block]"

    Returns
    -------
    Names of the released variables.

    Raises
    ------
    ValueError : no variable has such a name, `released` is empty, a name is not in the model, or one is observed in it

    >>> with pm.Model() as model:
    ...     noisy = pm.Normal("noisy[block]", pm.Bernoulli("in", 0.5))
    >>> released_names(model)
    ('noisy[block]',)
    """
    known = [str(v.name) for v in [*model.basic_RVs, *model.deterministics]]
    if released is None:
        names = tuple(name for name in known if _RELEASED.fullmatch(name))
        if not names:
            raise ValueError(
                f"no variable is called noisy: name the released ones in released; the model has {known}"
                f"{closest_name('noisy', known)}"
            )
        _refuse_observed(model, names)
        return names
    names = (released,) if isinstance(released, str) else tuple(released)
    missing = [name for name in names if name not in known]
    if missing or not names:
        hint = closest_name(missing[0], known) if missing else ""
        raise ValueError(f"released must name variables of the model, {known}; got {list(names)}{hint}")
    _refuse_observed(model, names)
    return names


def _refuse_observed(model: pm.Model, released: Sequence[str]) -> None:
    """ValueError for a released variable that the model has observed already."""
    for rv in model.observed_RVs:
        if rv.name in released:
            raise ValueError(
                f"the model's released variable {rv.name!r} is already observed: leave it free, without observed=, or "
                "name the variables to release in released, and it counts as side data"
            )


def latent_names(model: pm.Model, released: Iterable[str]) -> list[str]:
    """Names of the free variables that were not released, in the order of the model.

    Parameters
    ----------
    model : pymc.Model with its release left free
    released : names of the released variables
    """
    return [str(rv.name) for rv in model.free_RVs if rv.name not in set(released)]


def wanted_names(
    model: pm.Model, released: Iterable[str], variables: Sequence[str] | None, target: str | None = None
) -> list[str]:
    """Names of the variables to report: `variables`, after a check, or every latent and the target.

    Parameters
    ----------
    model : pymc.Model with its release left free
    released : names of the released variables
    variables : latents and deterministics to report; None for every latent, and the target if it is a deterministic
    target : name of the target, default "in"; ignored if `variables` is given

    Returns
    -------
    Names of variables.

    Raises
    ------
    ValueError : no variable is named, or a name is neither latent nor deterministic
    """
    latents, derivable = latent_names(model, released), [str(v.name) for v in model.deterministics]
    if variables is None:
        if target not in (None, *latents, *derivable):
            raise ValueError(missing_target(str(target), model, [*latents, *derivable]))
        return [*latents, *(name for name in derivable if name == (target or "in"))]
    names = [variables] if isinstance(variables, str) else list(variables)
    if not names or not set(names) <= {*latents, *derivable}:
        raise ValueError(
            f"variables must be latents or deterministics of the model, {[*latents, *derivable]}; got {names}"
        )
    return names
