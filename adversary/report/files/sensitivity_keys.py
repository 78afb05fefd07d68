"""Table `[sensitivity]` of a scenario file: values of inputs for a one-at-a-time sensitivity analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from adversary._core import check_positive, check_probability, check_whole, quoted
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.report.files.belief_keys import BELIEF, read_beliefs
from adversary.report.files.keys import Key, Keys
from adversary.report.files.plan_keys import check_siblings


def _values(check: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[float, ...]]:
    """Converter of a list of numbers, from a check of each (key, number); the numbers must differ."""
    return lambda key, values: _different(tuple(float(check(key, float(value))) for value in values))


def _different[T: float](values: tuple[T, ...]) -> tuple[T, ...]:
    """The values; ValueError if two are equal, as each is one row or one point of a curve."""
    for value in values:
        if (times := values.count(value)) > 1:
            raise ValueError(f"values must differ, got {value:g} {'twice' if times == 2 else f'{times} times'}")
    return values


SENSITIVITY = {
    "prior": Key("numbers", "probabilities that the target is in", (), example="[0.1, 0.5, 0.9]", live=True,
                 make=_values(check_probability)),
    "rho": Key("numbers", "budgets of the whole plan", (), example="[0.1, 0.5, 1.5]", make=_values(check_positive)),
    "siblings": Key("any", "numbers of siblings of the lowest level, or by level", None, example="[1, 10]"),
    "beliefs": Key(
        "open",
        "beliefs by name, in place of the adversary's own",
        None,
        keys={"*": Key("open", "", keys={"*": BELIEF})},
    ),
}  # fmt: skip
INPUTS = tuple(SENSITIVITY)


@dataclass(frozen=True)
class Ranges:
    """Values of the inputs of a sensitivity analysis; an empty input is not swept.

    Parameters
    ----------
    prior : probabilities that the target is in
    rho : zCDP budgets of the whole plan, in nats
    siblings : numbers of other units of the lowest level; or such numbers by level
    beliefs : named beliefs by level, each in place of the adversary's own
    """

    prior: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()
    siblings: tuple[int, ...] | Mapping[str, tuple[int, ...]] = ()
    beliefs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """Inputs with values, by name, as `adversary.driver.sensitivity` takes them."""
        return {name: getattr(self, name) for name in INPUTS if len(getattr(self, name))}


def read_ranges(table: Keys, plan: Plan, adversary: Adversary) -> Ranges:
    """Ranges of a table `[sensitivity]`, checked against the plan and, for beliefs, against the adversary."""
    siblings = table.build("siblings", partial(_siblings, table, plan)) if table.has("siblings") else ()
    beliefs: dict[str, Mapping[str, Any]] = {}
    if table.has("beliefs"):
        named = table.table("beliefs")
        for name in named.values:
            part = named.table(name)
            beliefs[name] = read_beliefs(part)
            part.build("", partial(replace(adversary, beliefs=beliefs[name]).level_beliefs, plan))
    ranges = Ranges(table["prior"], table["rho"], siblings, beliefs)
    if not ranges.given:
        raise ValueError(
            f"{table.file}: {table.key}: must name at least one of {quoted(INPUTS)} to go over, got nothing"
        )
    return ranges


def _siblings(table: Keys, plan: Plan) -> Any:
    """Numbers of siblings of the lowest level, from a list; or by level, from a table."""
    if isinstance(table.values["siblings"], list):
        return _whole(table)
    part = table.table("siblings")
    part.only(*plan.names[:-1])
    return {name: part.build(name, partial(_whole, part, name)) for name in part.values}


def _whole(table: Keys, key: str = "siblings") -> tuple[int, ...]:
    """Different numbers of siblings, from a list."""
    counts = (int(check_whole(key, value, minimum=0)) for value in table.numbers(key))
    return _different(tuple(check_siblings(table.where(key), count) for count in counts))
