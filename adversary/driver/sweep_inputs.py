"""The inputs of a sweep: the values they take, and the plan and reader at each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adversary._core import Floats, check_positive, check_whole
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan


@dataclass(frozen=True)
class Case:
    """One plan and one reader of a sweep."""

    plan: Plan
    reader: Adversary


@dataclass(frozen=True)
class Range:
    """An input, the values it takes, and what a case becomes at each."""

    dim: str
    values: tuple[Any, ...]
    at: Callable[[Case, Any], Case]


def ranges_of(
    plan: Plan, reader: Adversary, truth: Mapping[str, Any], rho: Any, siblings: Any, beliefs: Any
) -> list[Range]:
    """Every input but the prior, checked."""
    found: list[Range] = []
    if rho is not None:
        values = several("rho", check_positive("rho", rho))
        total = plan.total_rho
        if not 0.0 < total < np.inf:
            raise ValueError(f"rho can be swept only where the plan spends a finite rho, got {total}")
        found.append(Range("rho", tuple(values), lambda case, value: _with_budget(case, value / total)))
    if siblings is not None:
        if "siblings" in truth:
            raise ValueError("siblings cannot be swept where the truth names each sibling's own count")
        by_level = isinstance(siblings, Mapping)
        given = siblings if by_level else {plan.levels[0].unit: siblings}
        for name, numbers in _check_siblings(plan, given).items():
            dim = sibling_dim(name) if by_level else "siblings"
            found.append(Range(dim, numbers, _sibling_setter(name)))
    if beliefs is not None:
        if not isinstance(beliefs, Mapping) or not beliefs:
            raise ValueError(f"beliefs must be a mapping of names to beliefs by level, got {beliefs!r}")
        readers = {str(name): _believing(reader, name, one) for name, one in beliefs.items()}
        found.append(Range("beliefs", tuple(readers), lambda case, name: replace(case, reader=readers[name])))
    return found


def _believing(reader: Adversary, name: Any, beliefs: Any) -> Adversary:
    if not isinstance(beliefs, Mapping):
        raise TypeError(f"beliefs {name!r} must be a mapping of level to belief, got {beliefs!r}")
    return replace(reader, beliefs=beliefs)


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
    """What the dim over one level's siblings is called."""
    return f"siblings[{level}]"


def _sibling_setter(name: str) -> Callable[[Case, int], Case]:
    def at(case: Case, number: int) -> Case:
        levels = (replace(one, siblings=number) if one.name == name else one for one in case.plan.levels)
        return replace(case, plan=replace(case.plan, levels=tuple(levels)))

    return at


def _with_budget(case: Case, factor: float) -> Case:
    return replace(case, plan=case.plan.scaled(factor))


def several(name: str, values: Any) -> Floats:
    """One or more different values, along one axis."""
    array = np.atleast_1d(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must hold at least one value along one axis, got shape {array.shape}")
    if np.unique(array).size < array.size:
        raise ValueError(f"{name} must hold different values, got {array.tolist()}")
    return np.asarray(array)


def case_at(start: Case, ranges: Sequence[Range], chosen: Sequence[Any]) -> Case:
    """The case at these values of the inputs; an error says at which."""
    case = start
    try:
        for one, value in zip(ranges, chosen, strict=True):
            case = one.at(case, value)
        for cell in range(case.plan.cells):
            case.reader.path(case.plan, cell)
    except (ValueError, TypeError) as error:
        raise type(error)(named(ranges, chosen) + str(error)) from None
    return case


def named(ranges: Sequence[Range], chosen: Sequence[Any]) -> str:
    """ "rho 0.1, beliefs 'sure': " before what is wrong there."""
    return "".join(f"{one.dim} {value!r}: " for one, value in zip(ranges, chosen, strict=True))
