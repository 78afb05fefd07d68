"""Checks of a user's `pymc.Model`; each error names the variable and the remedy in one line.

A model that fails one of them would silently get the answer of another model: a distribution without a density is
evaluated at new draws every time, and a variable named like a dimension of the result replaces that dimension.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.simulator import SimulatorRV
from pymc.logprob.utils import CheckParameterValue
from pymc.pytensorf import rvs_in_graph
from pymc.vartypes import discrete_types
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.random.basic import BernoulliRV
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.variable import TensorVariable

from adversary._core import closest_name, refuse_rounded

from .batched_graphs import NUMPY_MODE
from .supports import own_bounds

Arrays = dict[str, NDArray[Any]]

# Dimensions of every result, not allowed as names of variables or dimensions of a model.
OWN_DIMS = ("chain", "draw", "release")


def check_density(model: pm.Model) -> None:
    """Refuse a model whose log density is unknown, or random.

    Parameters
    ----------
    model : pymc.Model

    Raises
    ------
    ValueError : a distribution without a log density (`pm.Simulator`, `pm.CustomDist` without logp), or a distribution,
        potential or density that draws a random variable that is not in the model
    """
    for rv in model.basic_RVs:
        if isinstance(getattr(rv.owner, "op", None), SimulatorRV):
            raise ValueError(
                f"{rv.name!r} is a pm.Simulator, which has no log density (its stand-in is drawn anew at each "
                "evaluation): give it a law with one, such as adversary.models.noise.released or "
                "pm.CustomDist(..., logp=...)"
            )
    for rv in model.free_RVs:
        if isinstance(getattr(rv.owner, "op", None), DiracDeltaRV) and rv.dtype not in discrete_types:
            raise ValueError(
                f"{rv.name!r} is a pm.DiracDelta over the real numbers, which has no density: use the value itself, or "
                "pm.Deterministic"
            )
    variables = [*model.basic_RVs, *model.potentials]
    try:
        terms = model.logp(vars=variables, sum=False) if variables else []
    except (NotImplementedError, RuntimeError, ValueError) as error:
        remedy = "a release gets its noise by adversary.models.noise.released, not by pm.Deterministic"
        said = _broken_law(model) or f"the model has no log density: {_first_line(error)}: {remedy}"
        raise ValueError(said) from error
    for variable, term in zip(variables, terms, strict=True):
        if rvs_in_graph(term):
            raise ValueError(_unnamed_draw(variable.name, rvs_in_graph(term)))
    _refuse_parameters([str(variable.name) for variable in variables], terms)


def _refuse_parameters(names: Sequence[str], terms: Sequence[TensorVariable]) -> None:
    """ValueError for a distribution with a constant parameter out of range, such as a probability of 1.3."""
    rules: list[tuple[str, str]] = []
    conditions: list[Variable] = []
    for name, term in zip(names, terms, strict=True):
        for variable in ancestors([term]):
            if variable.owner and isinstance(variable.owner.op, CheckParameterValue):
                fixed = [one for one in variable.owner.inputs[1:] if _is_fixed(one)]
                conditions += fixed
                rules += [(name, variable.owner.op.msg)] * len(fixed)
    if conditions:
        held = pytensor.function([], conditions, mode=NUMPY_MODE)()
        for (name, rule), holds in zip(rules, held, strict=True):
            if not np.all(holds):
                raise ValueError(f"the law of {name!r} has a parameter out of its range: it must have {rule}")


def _is_fixed(graph: Variable) -> bool:
    """True if a graph reads constants and data only."""
    return all(isinstance(one, Constant | SharedVariable) for one in graph_inputs([graph]))


def check_fixed(name: str, graph: TensorVariable) -> None:
    """Refuse a quantity that is random even if every variable of the model is given.

    Parameters
    ----------
    name : name of the quantity, for the message
    graph : the quantity as a function of the values of the model's variables

    Raises
    ------
    ValueError : the graph draws a random variable that is not in the model
    """
    if draws := rvs_in_graph(graph):
        raise ValueError(_unnamed_draw(name, draws))


def _unnamed_draw(name: str, draws: Collection[Variable]) -> str:
    """Message for a random variable that is not in the model."""
    law = next(iter(draws)).owner.op
    kind = str(getattr(law, "name", None) or type(law).__name__)
    return (
        f"{name!r} reads a random variable ({kind}) that is not in the model, and has no fixed value given the others: "
        "give that variable a name in the model, instead of .dist(...)"
    )


def _broken_law(model: pm.Model) -> str:
    """Message for the first variable whose distribution has no log density; "" if each has one."""
    every = set(model.basic_RVs)
    for rv in model.basic_RVs:
        try:
            graph = pm.logp(rv, rv.type(), warn_rvs=False)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            return (
                f"the law of {rv.name!r} has no log density that PyMC can derive ({_first_line(error)}): write it with "
                "laws of PyMC, or as pm.CustomDist(..., logp=...)"
            )
        drawn = [v for v in ancestors([graph], blockers=every) if v.owner and isinstance(v.owner.op, RNGConsumerOp)]
        if unknown := [v for v in drawn if v not in every]:
            return _unnamed_draw(str(rv.name), unknown)
    return ""


def _first_line(error: Exception) -> str:
    """First sentence of an error of PyMC."""
    return str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".:")


def check_drawable(graphs: Iterable[Variable]) -> None:
    """Refuse variables that cannot be drawn from their own distribution.

    Parameters
    ----------
    graphs : variables to be drawn

    Raises
    ------
    ValueError : an improper distribution, or a `pm.CustomDist` without random
    """
    for variable in ancestors(list(graphs)):
        law = getattr(variable.owner, "op", None)
        if isinstance(law, FlatRV | HalfFlatRV):
            kind = "pm.Flat" if isinstance(law, FlatRV) else "pm.HalfFlat"
            raise ValueError(
                f"{variable.name!r} has no proper law ({kind}), and cannot be drawn: give it one that can, such as a "
                "wide pm.Normal or pm.HalfNormal"
            )
        if isinstance(law, CustomDistRV) and "default_not_implemented" in type(law)._random_fn.__qualname__:
            raise ValueError(
                f"{variable.name!r} is a pm.CustomDist without random=, and has to be drawn: give it a function of "
                "(its parameters, rng, size), or the release by simulate="
            )


def check_names(model: pm.Model, released: Collection[str]) -> None:
    """Refuse names of variables and dimensions that the results use for something else.

    Parameters
    ----------
    model : pymc.Model
    released : names of the released variables

    Raises
    ------
    ValueError : a variable or dimension called chain, draw or release, or a released one called weight
    """
    refuse_names([*model.named_vars], "variable", OWN_DIMS)
    refuse_names(dims_of(model, model.named_vars), "dimension", OWN_DIMS)
    refuse_names(released, "released variable", ("weight",))
    refuse_names(dims_of(model, released), "dimension", ("weight",))


def dims_of(model: pm.Model, names: Iterable[str]) -> list[str]:
    """Dimensions that the variables of these names have in a model."""
    return [str(dim) for name in names for dim in model.named_vars_to_dims.get(name) or () if dim is not None]


def refuse_names(names: Iterable[str], kind: str, taken: Collection[str]) -> None:
    """Refuse names that are taken.

    Parameters
    ----------
    names : names of variables or dimensions of a model
    kind : "variable", "dimension" or the like, for the message
    taken : names of parts of the result

    Raises
    ------
    ValueError : a name is taken
    """
    for name in names:
        if name in taken:
            raise ValueError(f"{kind} {name!r} of the model has the name of a part of the result: rename it")


def missing_target(target: str, model: pm.Model, known: Sequence[str]) -> str:
    """Message for a target that a model lacks, with the likely variable if one is similar, or all of them.

    Parameters
    ----------
    target : the unknown name
    model : pymc.Model
    known : names of its latents and deterministics

    >>> with pm.Model() as model:
    ...     member = pm.Bernoulli("member", 0.5)
    >>> missing_target("in", model, ["member"])
    "target 'in' is not in the model; did you mean target='member'?"
    """
    close = closest_name(target, known)
    binary = [n for n in known if isinstance(getattr(model[n].owner, "op", None), BernoulliRV) and not model[n].ndim]
    if not close and len(binary) == 1:
        close = f"; did you mean {binary[0]!r}?"
    hint = close.replace("mean ", "mean target=") or f"; name one of {[*known]} with target="
    return f"target {target!r} is not in the model{hint}"


def check_potentials(model: pm.Model, released: Sequence[str]) -> None:
    """Refuse a potential that depends on a release to be drawn.

    Parameters
    ----------
    model : pymc.Model
    released : names of the released variables

    Raises
    ------
    ValueError : a potential reads a release. Forward draws ignore potentials, so drawn releases would not follow the
        model's density
    """
    for potential in model.potentials:
        before: set[Any] = set(ancestors([potential]))
        for name in released:
            if model[name] in before:
                raise ValueError(
                    f"pm.Potential {potential.name!r} reads the release {name!r}: releases drawn from the model do not "
                    f"follow it, and the prior does not count it. Put it into the law of {name!r}"
                )


def check_truth(model: pm.Model, truth: Mapping[str, Any], released: Collection[str]) -> tuple[Arrays, Arrays]:
    """Values of a truth as arrays, each checked against its variable.

    Parameters
    ----------
    model : pymc.Model with its release left free
    truth : values of latents and deterministics, by name
    released : names of the released variables

    Returns
    -------
    (latents, deterministics) : the values of each, by name.

    Raises
    ------
    ValueError : a name that is neither latent nor deterministic, a value of the wrong shape or kind, or one that has
        probability zero
    """
    latents = {str(rv.name): rv for rv in model.free_RVs if rv.name not in released}
    derived = {str(v.name): v for v in model.deterministics if v.name not in released}
    for name in truth:
        if name not in latents | derived:
            hint = closest_name(name, [*latents, *derived]).removeprefix("; ") or f"it has {[*latents, *derived]}"
            raise ValueError(f"truth names {name!r}, which is no latent of the model and no deterministic: {hint}")
    values = {name: _true_value(name, value, (latents | derived)[name]) for name, value in truth.items()}
    held = {name: value for name, value in values.items() if name in latents}
    for name in held:
        _refuse_impossible(model, name, held)
    return held, {name: value for name, value in values.items() if name in derived}


def _true_value(name: str, value: Any, variable: TensorVariable) -> NDArray[Any]:
    """One value of a truth as an array of the variable's kind."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"truth: {name!r} must be a number, got {value!r}")
    if array.ndim != variable.ndim:
        raise ValueError(f"truth: {name!r} must have {variable.ndim} dimensions, got {value!r}")
    shape = tuple(int(n) for n in variable.shape.eval(mode=NUMPY_MODE)) if array.ndim else ()
    if array.shape != shape:
        raise ValueError(f"truth: {name!r} must have shape {shape}, got {value!r}")
    if not np.isfinite(array).all():
        raise ValueError(f"truth: {name!r} must be finite, got {value!r}: leave it out where it is not known")
    if variable.dtype in discrete_types and (array != np.round(array)).any():
        raise ValueError(f"truth: {name!r} is discrete and must be a whole number, got {value!r}")
    if variable.dtype in discrete_types:
        refuse_rounded(f"truth: {name!r}", array)
    return array.astype(variable.dtype)


def _refuse_impossible(model: pm.Model, name: str, held: Mapping[str, NDArray[Any]]) -> None:
    """ValueError for a value that its distribution rules out for every value of the latents that are not held."""
    rv, value = model[name], held[name]
    if rv.dtype in discrete_types:
        bounds = own_bounds(rv, held, set(model.basic_RVs))
        if bounds is not None and not ((value >= bounds[0]) & (value <= bounds[1])).all():
            low, high = np.min(bounds[0]), np.max(bounds[1])
            rule = f"from {low:g} to {high:g}" if np.isfinite(high) else f"at least {low:g}"
            raise ValueError(f"truth: {name!r} must be {rule}, as its law has it, got {value.tolist()!r}")
    others = {model[n]: model[n].type.filter_variable(v) for n, v in held.items() if n != name}
    (graph,) = graph_replace([pm.logp(rv, value, warn_rvs=False)], others, strict=False)
    if not rvs_in_graph(graph) and np.isneginf(graph.eval(mode=NUMPY_MODE)).any():
        raise ValueError(f"truth: {name!r} = {value.tolist()!r} has probability 0 under its law: give a possible value")


def check_support(latents: Collection[str], support: Mapping[str, Any]) -> None:
    """Refuse a support with values that are not whole numbers, or of a variable that is not a latent.

    Parameters
    ----------
    latents : names of the latents
    support : values (n,) by name of a latent

    Raises
    ------
    ValueError : the support is not valid

    >>> check_support(["others"], {"others": range(3)})
    """
    for name, given in support.items():
        if name not in latents:
            raise ValueError(
                f"support names {name!r}, which is not a latent; the latents are {[*latents]}"
                f"{closest_name(name, latents)}"
            )
        values = np.asarray(given)
        if values.dtype.kind not in "iuf" or not values.size or not np.array_equal(values, np.round(values)):
            raise ValueError(f"support of {name!r} must be a list of whole numbers, got {given!r}")
