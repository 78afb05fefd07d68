"""The inputs of a sweep: the values they take, and the plan and adversary at each."""

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

SHARES, DATA_SHARES = 50, 20
"""Values that stand for a law over the prior probability, and for one over data, each of which compiles a model."""


@dataclass(frozen=True)
class SweptCase:
    """One plan and one adversary of a sweep: an `Adversary`, a model with its data, or a function that builds one."""

    plan: Any
    adversary: Any
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """True where the adversary is a model, or builds one."""
        return not isinstance(self.adversary, Adversary)

    def settled(self) -> SweptCase:
        """The case checked, its model built with these data."""
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
        """The model that a function makes of the data and, if it asks for it, the plan."""
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
class Range:
    """An input, the values it takes, and what a case becomes at each."""

    dim: str
    values: tuple[Any, ...]
    at: Callable[[SweptCase, Any], SweptCase]


def ranges_of(
    plan: Plan | None, adversary: Any, truth: Mapping[str, Any], rho: Any, siblings: Any, beliefs: Any, data: Any = None
) -> list[Range]:
    """Every input but the prior, checked.

    Parameters
    ----------
    plan, adversary, truth : of the sweep
    rho, siblings, beliefs, data : values of each input, None where it stays
    """
    ranges: list[Range] = []
    for name, given in (("rho", rho), ("siblings", siblings)):
        if given is not None and (plan is None or is_model(adversary)):
            raise ValueError(f"{name} is of a plan, and a model has its own noise: give a plan and a function of plan")
    if plan is not None and rho is not None:
        values = several("rho", check_positive("rho", rho))
        total = plan.total_rho
        if not 0.0 < total < np.inf:
            raise ValueError(f"rho can be swept only where the plan spends a finite rho, got {total}")
        ranges.append(Range("rho", tuple(values), lambda case, value: _with_budget(case, value / total)))
    if plan is not None and siblings is not None:
        if "siblings" in truth:
            raise ValueError("siblings cannot be swept where the truth names each sibling's own count")
        by_level = isinstance(siblings, Mapping)
        given = siblings if by_level else {plan.levels[0].unit: siblings}
        for name, numbers in _check_siblings(plan, given).items():
            dim = sibling_dim(name) if by_level else "siblings"
            ranges.append(Range(dim, numbers, _sibling_setter(name)))
    if beliefs is not None:
        if not isinstance(beliefs, Mapping) or not beliefs:
            raise ValueError(f"beliefs must be a mapping of names to beliefs by level, got {beliefs!r}")
        readers = {str(name): _believing(adversary, name, one) for name, one in beliefs.items()}
        ranges.append(Range("beliefs", tuple(readers), lambda case, name: replace(case, adversary=readers[name])))
    for name, given in (data or {}).items():
        if name in (*(one.dim for one in ranges), "prior", "truth", "quantile", "measure"):
            raise ValueError(f"data: {name!r} is the name of another dim of the sweep; call it otherwise")
        if isinstance(given, Mapping):
            named = dict(given)
        else:
            named = {value: value for value in values_of(name, given, DATA_SHARES).tolist()}
        ranges.append(Range(name, tuple(named), _data_setter(name, named)))
    return ranges


def values_of(name: str, given: Any, shares: int) -> Floats:
    """Different values: those given, or of a law over them the middles of so many equal shares.

    Parameters
    ----------
    name : of the input, for messages
    given : values, or a law with `ppf`
    shares : of a law
    """
    return several(name, given.ppf((np.arange(shares) + 0.5) / shares) if hasattr(given, "ppf") else given)


def _data_setter(name: str, named: Mapping[Any, Any]) -> Callable[[SweptCase, Any], SweptCase]:
    return lambda case, value: replace(case, data={**case.data, name: named[value]})


def _believing(adversary: Any, name: Any, beliefs: Any) -> Any:
    """The adversary with other beliefs by level; or another one, a model or a function that builds one."""
    if isinstance(beliefs, Adversary) or is_model(beliefs) or callable(beliefs):
        return beliefs
    if not isinstance(beliefs, Mapping) or not isinstance(adversary, Adversary):
        raise TypeError(
            f"beliefs {name!r} must be a mapping of level to belief, for an Adversary, or a model, got {beliefs!r}"
        )
    return replace(adversary, beliefs=beliefs)


def _check_siblings(plan: Plan, siblings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    lower = plan.names[:-1]
    if not siblings:
        raise ValueError("siblings must name at least one level, got none")
    for name in siblings:
        if name not in lower:
            raise ValueError(f"siblings: only levels below the top have any, {list(lower)}, got {name!r}")
    return {
        name: tuple(int(n) for n in several("siblings", check_whole("siblings", numbers, minimum=0)))
        for name, numbers in siblings.items()
    }


def sibling_dim(level: str) -> str:
    """Name of the dim over one level's siblings.

    Parameters
    ----------
    level : name
    """
    return f"siblings[{level}]"


def _sibling_setter(name: str) -> Callable[[SweptCase, int], SweptCase]:
    def at(case: SweptCase, number: int) -> SweptCase:
        levels = (replace(one, siblings=number) if one.name == name else one for one in case.plan.levels)
        return replace(case, plan=replace(case.plan, levels=tuple(levels)))

    return at


def _with_budget(case: SweptCase, factor: float) -> SweptCase:
    return replace(case, plan=case.plan.scaled(factor))


def several(name: str, values: Any) -> Floats:
    """One or more different values, along one axis."""
    array = np.atleast_1d(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must hold at least one value along one axis, got shape {array.shape}")
    if np.unique(array).size < array.size:
        raise ValueError(f"{name} must hold different values, got {array.tolist()}")
    return np.asarray(array)


def case_at(start: SweptCase, ranges: Sequence[Range], chosen: Sequence[Any]) -> SweptCase:
    """The case at these values of the inputs; an error says at which.

    Parameters
    ----------
    start : the case before
    ranges : inputs that change
    chosen : a value of each
    """
    case = start
    try:
        for one, value in zip(ranges, chosen, strict=True):
            case = one.at(case, value)
        return case.settled()
    except (ValueError, TypeError) as error:
        raise type(error)(input_words(ranges, chosen) + str(error)) from None


def input_words(ranges: Sequence[Range], chosen: Sequence[Any]) -> str:
    """ "rho 0.1, beliefs 'sure': " before what is wrong there.

    Parameters
    ----------
    ranges : inputs
    chosen : a value of each
    """
    return "".join(f"{one.dim} {value!r}: " for one, value in zip(ranges, chosen, strict=True))
