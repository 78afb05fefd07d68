"""What every function refuses, by the names of its arguments: numbers of docstrings' examples, out of their domains.

Arguments of one name have one domain all over the house, so the examples are a catalogue of calls: a function with an
example is tested here without a line of its own.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.test_house import DOORS, PATHS, door

PROBABILITIES = "prior failure level power delta recall precision inclusion absent cap f chance target_prior"
SIZES = "rho loss beta gamma sensitivity sigma sigma2 scale shape rate factor odds_ratio width"
COUNTS = "count known n size siblings cells records draws releases times categories features"
OUTSIDE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(PROBABILITIES.split(), (-0.1, 1.2)),
    **dict.fromkeys(SIZES.split(), (-0.1,)),
    **dict.fromkeys(COUNTS.split(), (-1, 1.5)),
}
"""Beside NaN and a word, which are no number of any argument."""

ELSEWHERE = ("spine", "queries", "contour")
"""Rooms whose examples compile, and one that others go through."""

ANSWERED = {
    "IndependentBelief.log_prob": "counts of a belief in the inner loop",
    "Limit": "a record of numbers that were checked",
    "LikelihoodRatioTest": "a record of numbers that were computed",
    "Truth": "a record of numbers that were checked",
    "compose_then_extend": "refused as the size of a group",
    "conforming": "a value of any kind",
    "epsilon_lower_bound_from_counts": "refused as successes and trials",
    "extend_then_compose": "refused as the size of a group",
    "largest_correlation": "refused as the coefficient it is",
    "repeat_product": "values of any kind",
    "tolerated": "limits that are checked where they are set",
    "releases_within": "a threshold is the caller's",
}
"""What answers, or refuses by another name, and why."""

MODULES = [
    name
    for name, path in PATHS.items()
    if name.split(".")[1:2] in (["privacy"], ["reader"], ["policy"])
    and not {*name.split(".")} & {*ELSEWHERE}
    and ">>>" in path.read_text()
]
EXPORTED = {exported for room in DOORS for exported in door(room)}


class Argument(NamedTuple):
    """A number in a call of an example."""

    of: str
    name: str
    number: float
    call: Callable[[Any], Any]


def arguments(source: str, names: dict[str, Any]) -> Iterator[Argument]:
    """Every number that an example hands to a function of ours by itself."""
    for call in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]:
        try:
            function = eval(ast.unparse(call.func), names)
            parameters = list(inspect.signature(function).parameters.values())
        except (NameError, TypeError, ValueError):
            continue
        if str(getattr(function, "__qualname__", "")).split(".")[0] not in EXPORTED:
            continue
        placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        given = [(name, call.args, i) for i, name in zip(range(len(call.args)), placed, strict=False)]
        for name, holder, i in given:
            if (number := _number(holder[i])) is not None:
                yield Argument(function.__qualname__, name, number, _with(call, holder, i, names))
        for keyword in call.keywords:
            if keyword.arg and (number := _number(keyword.value)) is not None:
                yield Argument(function.__qualname__, keyword.arg, number, _with(call, keyword, "value", names))


def _number(node: ast.AST) -> float | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) in (int, float) else None


def _with(call: ast.Call, holder: Any, place: Any, names: dict[str, Any]) -> Callable[[Any], Any]:
    """The call with another value in a place."""

    def ask(value: Any) -> Any:
        kept = holder[place] if isinstance(holder, list) else holder.value
        other = ast.Name("_other", ast.Load())
        if isinstance(holder, list):
            holder[place] = other
        else:
            holder.value = other
        source = ast.unparse(call)
        if isinstance(holder, list):
            holder[place] = kept
        else:
            holder.value = kept
        return eval(source, {**names, "_other": value})

    return ask


def is_refused(argument: Argument, value: Any) -> bool:
    """Whether there is an error, and a number that is outside is named."""
    try:
        argument.call(value)
    except (TypeError, ValueError) as error:
        return value == "x" or re.search(rf"\b{argument.name.strip('_0')}", str(error)) is not None
    return False


@pytest.mark.parametrize("name", MODULES)
def test_numbers_outside_their_domain_are_refused_by_name(name: str) -> None:
    answered = []
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder().find(module):
        for example in test.examples:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                for argument in arguments(example.source, test.globs):
                    outside = OUTSIDE.get(argument.name.strip("_0"), ())
                    answered += [
                        f"{argument.of}({argument.name}={value})"
                        for value in (math.nan, "x", *outside)
                        if not is_refused(argument, value)
                    ]
                exec(compile(example.source, name, "single"), test.globs)
    assert [one for one in answered if one.partition("(")[0] not in ANSWERED] == []
