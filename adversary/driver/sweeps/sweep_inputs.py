"""Inputs of a sweep: the values they take, and the plan and adversary at each value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adversary._core import Floats, check_positive, check_whole
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.driver.model_case import is_model

# Number of quantiles by which a distribution over the prior, or over data, is represented: fewer for data, as each
# value compiles a model.
SHARES, DATA_SHARES = 50, 20


@dataclass(frozen=True)
class SweptCase:
    """One plan and one adversary of a sweep: an `Adversary`, a model with its data, or a function that builds one."""

    plan: Any
    adversary: Any
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """True if the adversary is a model, or a function that builds one."""
        return not isinstance(self.adversary, Adversary)

    def settled(self) -> SweptCase:
        """The case after checks, its model built with the data; ValueError for data or a plan that do not fit."""
        if not self.is_model:
            if self.data:
                raise ValueError(f"data are of models, and an Adversary has none: {list(self.data)}")
            if self.plan is None:
                raise ValueError("an Adversary needs a plan, got None")
            for cell in range(self.plan.cells):
                self.adversary.path(self.plan, cell)
            return self
        if not is_model(self.adversary):
            return replace(self, adversary=self._built(), data={})
        import pymc as pm

        from adversary.models.enumeration import without_starts

        known = [str(variable.name) for variable in self.adversary.data_vars]
        if missing := [name for name in self.data if name not in known]:
            raise ValueError(f"data {missing[0]!r} is no pm.Data of the model, which has {known}")
        return replace(self, adversary=pm.do(without_starts(self.adversary), self.data), data={}) if self.data else self

    def _built(self) -> Any:
        """Model that the adversary function returns for the data and, if it has that parameter, the plan."""
        parameters = inspect.signature(self.adversary).parameters
        given = {**self.data, **({"plan": self.plan} if "plan" in parameters else {})}
        if missing := [name for name in self.data if name not in parameters]:
            raise ValueError(
                f"data {missing[0]!r} is no argument of {self.adversary.__name__}, which takes {list(parameters)}"
            )
        model = self.adversary(**given)
        if not is_model(model):
            raise TypeError(f"{self.adversary.__name__} must return a pymc.Model, got {model!r}")
        return model


@dataclass(frozen=True)
class SweptInput:
    """One input of a sweep.

    Parameters
    ----------
    dim : its name, a dim of the result
    values : labels of the values it takes
    at : function of a case and a label that returns the case with this value
    """

    dim: str
    values: tuple[Any, ...]
    at: Callable[[SweptCase, Any], SweptCase]


def swept_inputs(
    plan: Plan | None, adversary: Any, truth: Mapping[str, Any], rho: Any, siblings: Any, beliefs: Any, data: Any = None
) -> list[SweptInput]:
    """Inputs of a sweep other than the prior, after checks.

    Parameters
    ----------
    plan, adversary, truth : of the sweep
    rho, siblings, beliefs, data : values of each input, None if it is fixed

    Returns
    -------
    list of `SweptInput`: one for each input, for each level of `siblings` and for each name of `data`
    """
    ranges: list[SweptInput] = []
    for name, given in (("rho", rho), ("siblings", siblings)):
        if given is not None and (plan is None or is_model(adversary)):
            raise ValueError(f"{name} is of a plan, and a model has its own noise: give a plan and a function of plan")
    if plan is not None and rho is not None:
        values = distinct_values("rho", check_positive("rho", rho))
        total = plan.total_rho
        if not 0.0 < total < np.inf:
            raise ValueError(f"rho can be swept only where the plan spends a finite rho, got {total}")
        ranges.append(SweptInput("rho", tuple(values), lambda case, value: _with_budget(case, value / total)))
    if plan is not None and siblings is not None:
        if "siblings" in truth:
            raise ValueError("siblings cannot be swept where the truth names each sibling's own count")
        by_level = isinstance(siblings, Mapping)
        given = siblings if by_level else {plan.levels[0].unit: siblings}
        for name, numbers in _check_siblings(plan, given).items():
            dim = sibling_dim(name) if by_level else "siblings"
            ranges.append(SweptInput(dim, numbers, _sibling_setter(name)))
    if beliefs is not None:
        if not isinstance(beliefs, Mapping) or not beliefs:
            raise ValueError(f"beliefs must be a mapping of names to beliefs by level, got {beliefs!r}")
        adversaries = {str(name): _believing(adversary, name, one) for name, one in beliefs.items()}
        ranges.append(
            SweptInput("beliefs", tuple(adversaries), lambda case, name: replace(case, adversary=adversaries[name]))
        )
    for name, given in (data or {}).items():
        if name in (*(one.dim for one in ranges), "prior", "truth", "quantile", "measure"):
            raise ValueError(f"data: {name!r} is the name of another dim of the sweep; call it otherwise")
        if isinstance(given, Mapping):
            values_by_name = dict(given)
        else:
            values_by_name = {value: value for value in values_of(name, given, DATA_SHARES).tolist()}
        ranges.append(SweptInput(name, tuple(values_by_name), _data_setter(name, values_by_name)))
    return ranges


def values_of(name: str, given: Any, shares: int) -> Floats:
    """Values of an input: those given, or quantiles of a distribution over them.

    Parameters
    ----------
    name : of the input, for messages
    given : values, or a distribution with `ppf`
    shares : number of quantiles, at the midpoints of so many equal shares

    Returns
    -------
    array (value,) of different values
    """
    return distinct_values(name, given.ppf((np.arange(shares) + 0.5) / shares) if hasattr(given, "ppf") else given)


def _data_setter(name: str, values_by_name: Mapping[Any, Any]) -> Callable[[SweptCase, Any], SweptCase]:
    return lambda case, value: replace(case, data={**case.data, name: values_by_name[value]})


def _believing(adversary: Any, name: Any, beliefs: Any) -> Any:
    """The adversary with these beliefs by level; or `beliefs` itself if it is an adversary, a model or a function."""
    if isinstance(beliefs, Adversary) or is_model(beliefs) or callable(beliefs):
        return beliefs
    if not isinstance(beliefs, Mapping) or not isinstance(adversary, Adversary):
        raise TypeError(
            f"beliefs {name!r} must be a mapping of level to belief, for an Adversary, or a model, got {beliefs!r}"
        )
    return replace(adversary, beliefs=beliefs)


def _check_siblings(plan: Plan, siblings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Numbers of siblings by level, after checks; only levels below the top have siblings."""
    lower = plan.names[:-1]
    if not siblings:
        raise ValueError("siblings must name at least one level, got none")
    for name in siblings:
        if name not in lower:
            raise ValueError(f"siblings: only levels below the top have any, {list(lower)}, got {name!r}")
    return {
        name: tuple(int(n) for n in distinct_values("siblings", check_whole("siblings", numbers, minimum=0)))
        for name, numbers in siblings.items()
    }


def sibling_dim(level: str) -> str:
    """Name of the dim over numbers of one level's siblings, "siblings[level]".

    Parameters
    ----------
    level : name
    """
    return f"siblings[{level}]"


def _sibling_setter(name: str) -> Callable[[SweptCase, int], SweptCase]:
    """Function that sets the number of siblings of the level `name` in a case."""

    def at(case: SweptCase, number: int) -> SweptCase:
        levels = (replace(one, siblings=number) if one.name == name else one for one in case.plan.levels)
        return replace(case, plan=replace(case.plan, levels=tuple(levels)))

    return at


def _with_budget(case: SweptCase, factor: float) -> SweptCase:
    """The case with a plan whose budget is multiplied by a factor."""
    return replace(case, plan=case.plan.scaled(factor))


def distinct_values(name: str, values: Any) -> Floats:
    """Array (value,) of one or more values, which must be different; `name` is of the input, for messages."""
    array = np.atleast_1d(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must hold at least one value along one axis, got shape {array.shape}")
    if np.unique(array).size < array.size:
        raise ValueError(f"{name} must hold different values, got {array.tolist()}")
    return np.asarray(array)


def case_at(start: SweptCase, ranges: Sequence[SweptInput], chosen: Sequence[Any]) -> SweptCase:
    """Case at one value of every swept input; errors begin with these values.

    Parameters
    ----------
    start : case of the sweep, with none of the inputs changed
    ranges : swept inputs
    chosen : a value of each
    """
    case = start
    try:
        for one, value in zip(ranges, chosen, strict=True):
            case = one.at(case, value)
        return case.settled()
    except (ValueError, TypeError) as error:
        raise type(error)(input_words(ranges, chosen) + str(error)) from None


def input_words(ranges: Sequence[SweptInput], chosen: Sequence[Any]) -> str:
    """Beginning of an error message, with the values of the inputs: "rho 0.1: beliefs 'sure': ".

    Parameters
    ----------
    ranges : swept inputs
    chosen : a value of each
    """
    return "".join(f"{one.dim} {value!r}: " for one, value in zip(ranges, chosen, strict=True))
