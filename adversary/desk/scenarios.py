"""Scenario files: TOML in, checked plan, reader, truth and guarantee out.

Nothing in a file is executed. Every key is known, typed and checked; an error names the file, the key, the rule and
the value, and suggests the key that was probably meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from adversary._numeric import check_probability
from adversary.privacy.definitions import (
    ApproximateDP,
    GaussianDP,
    ProbabilisticDP,
    PureDP,
    ZeroConcentratedDP,
)
from adversary.privacy.guarantees import Guarantee
from adversary.privacy.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Mechanism,
    RandomizedResponse,
)
from adversary.reader.beliefs import Belief, Others, Point, Uniform
from adversary.reader.inference import Adversary
from adversary.reader.plans import NEIGHBOURS, Level, Plan
from adversary.reader.risk import settle_truth

LAWS = (
    "poisson",
    "binom",
    "nbinom",
    "geom",
    "betabinom",
    "betanbinom",
    "hypergeom",
    "randint",
    "zipf",
    "logser",
    "planck",
    "boltzmann",
    "bernoulli",
)
"""Discrete laws of `scipy.stats` a scenario may name, with scipy's own parameter names."""

_NOISES = {
    "discrete gaussian": ("rho", "sigma"),
    "gaussian": ("rho", "sigma"),
    "geometric": ("epsilon",),
    "laplace": ("epsilon", "scale"),
    "randomized response": ("epsilon",),
    "exact": (),
}
_PARAMETERS = ("rho", "sigma", "epsilon", "scale")
_ONE_OR_MANY = ("adversary", "adversaries", "truth", "truths")
_DEFINITIONS = ("zCDP", "pure DP", "approximate DP", "probabilistic DP", "Gaussian DP")
_PRODUCT = re.compile(r"\s*\d+(\.\d+)?(\s*/\s*\d+)?(\s*\*\s*\d+(\.\d+)?(\s*/\s*\d+)?)*\s*")


@dataclass(frozen=True)
class Scenario:
    """A scenario file, read and checked.

    `adversary` and `truth` are one each or a mapping of names; `guarantee` maps the name of each promise to it, or is
    None where the file makes none.
    """

    plan: Plan
    adversary: Adversary | dict[str, Adversary]
    truth: dict[str, Any]
    guarantee: dict[str, Guarantee] | None
    title: str
    description: str
    source: str
    failure: float
    path: Path
    document: Mapping[str, Any]

    @property
    def neighbours(self) -> str:
        """Which neighbours the budget speaks of: "unbounded" or "bounded"."""
        return self.plan.neighbours

    def with_neighbours(self, neighbours: str, cells: int = 1) -> Scenario:
        """The same scenario and budget, had it been meant for the other neighbours and read in so many cells.

        Where one cell is left of two, what is known and true of the second is dropped.
        """
        document = {**self.document, "neighbours": neighbours, "plan": {**self.document["plan"], "cells": cells}}
        if cells == 1:
            named = {"adversaries", "truths"} & set(document)
            for key in {"adversary", "truth"} & set(document):
                document[key] = _first_cell(document[key])
            for key in named:
                document[key] = {name: _first_cell(table) for name, table in document[key].items()}
        return _scenario(document, self.path)

    def with_truth(self, counts: Mapping[str, Any]) -> Scenario:
        """The same scenario with some true counts replaced, checked as in a file."""
        key = "truths" if "truths" in self.document else "truth"
        old = self.document[key]
        new = {name: {**one, **counts} for name, one in old.items()} if key == "truths" else {**old, **counts}
        return _scenario({**self.document, key: new}, self.path)


def _first_cell(table: Mapping[str, Any]) -> dict[str, Any]:
    """A reader's or truth's table with the first of every list of counts."""
    return {key: value[0] if isinstance(value, list) and key != "hypotheses" else value for key, value in table.items()}


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range, or the truth is
        impossible; the message names file, key, rule and value
    """
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a TOML file: {error}") from None
    return _scenario(document, file)


class _Table:
    """One table of the file, read key by key; whatever is left over is unknown."""

    def __init__(self, values: Any, file: Path, key: str) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{file}: {key}: must be a table, got {values!r}")
        self.values, self.file, self.key, self.asked = values, file, key, set[str]()

    def where(self, key: str) -> str:
        return f"{self.file}: {self.key + '.' if self.key else ''}{key}"

    def has(self, key: str) -> bool:
        self.asked.add(key)
        return key in self.values

    def get(self, key: str, kinds: type | tuple[type, ...], rule: str, default: Any = ...) -> Any:
        if not self.has(key):
            if default is ...:
                raise ValueError(f"{self.where(key)}: is required ({rule}), and missing")
            return default
        value = self.values[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{self.where(key)}: must be {rule}, got {value!r}")
        return value

    def only(self, *keys: str) -> None:
        """Refuse any other key, before anything is missed."""
        self.asked.update(keys)
        self.finish()

    def number(self, key: str, default: Any = ...) -> Any:
        """A number, or a product of fractions as text ("64/25 * 165/4099"), which is kept exact."""
        value = self.get(
            key, (int, float, str), 'a number, or a product of fractions such as "64/25 * 165/4099"', default
        )
        if not isinstance(value, str):
            return value
        if not _PRODUCT.fullmatch(value):
            raise ValueError(
                f'{self.where(key)}: must be a number or a product of fractions, "64/25 * 165/4099", got {value!r}'
            )
        try:
            product = Fraction(1)
            for factor in value.split("*"):
                product *= Fraction(factor.replace(" ", ""))
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{self.where(key)}: is not a fraction, got {value!r}") from None
        return product

    def table(self, key: str) -> _Table:
        return _Table(self.get(key, dict, "a table"), self.file, f"{self.key + '.' if self.key else ''}{key}")

    def finish(self) -> None:
        """Refuse what was not asked for."""
        for key in self.values:
            if key not in self.asked:
                folded = {name.casefold(): name for name in sorted(self.asked)}
                near = [folded[name] for name in get_close_matches(key.casefold(), folded, 1)]
                hint = f"; did you mean {near[0]!r}?" if near else f"; known here: {sorted(self.asked)}"
                raise ValueError(f"{self.where(key)}: unknown key, got {key!r}{hint}")

    def build(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, its errors told with file and key."""
        try:
            return make()
        except (TypeError, ValueError) as error:
            if str(error).startswith(f"{self.file}: "):
                raise
            message = str(error).removeprefix(f"{key}: ")
            raise ValueError(f"{self.where(key) if key else f'{self.file}: {self.key}'}: {message}") from None


def _scenario(document: Mapping[str, Any], file: Path) -> Scenario:
    top = _Table(document, file, "")
    top.only("title", "description", "source", "neighbours", "failure", "plan", *_ONE_OR_MANY, "guarantee")
    texts = {name: top.get(name, str, "text", "") for name in ("title", "description", "source")}
    neighbours = top.get("neighbours", str, f"one of {NEIGHBOURS}")
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"{top.where('neighbours')}: must be one of {NEIGHBOURS}, got {neighbours!r}")
    failure = float(top.build("failure", lambda: check_probability("failure", top.number("failure", 0.05))))
    plan = _plan(top.table("plan"), neighbours)
    readers = _one_or_many(top, "adversary", "adversaries", lambda table: _adversary(table, plan))
    truths = _one_or_many(top, "truth", "truths", lambda table: _truth(table, plan))
    promises = _guarantees(top.table("guarantee"), plan, neighbours) if top.has("guarantee") else None
    top.finish()
    for reader in readers.values() if isinstance(readers, dict) else [readers]:
        for name, truth in _each(truths):
            top.build(f"truths.{name}" if name else "truth", partial(settle_truth, plan, reader, truth))
    return Scenario(plan, readers, truths, promises, **texts, failure=failure, path=file, document=document)


def _each(truths: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    several = all(isinstance(value, dict) for value in truths.values())
    return list(truths.items()) if several else [("", truths)]


def _one_or_many(top: _Table, one: str, many: str, read: Callable[[_Table], Any]) -> Any:
    if top.has(one) == top.has(many):
        what = "both are" if top.has(one) else "neither is"
        raise ValueError(f"{top.file}: give either a table {one!r} or a table of named ones {many!r}: {what} there")
    if one in top.values:
        return read(top.table(one))
    named = top.table(many)
    if not named.values:
        raise ValueError(f"{top.where(many)}: must hold at least one named table, got none")
    return {name: read(named.table(name)) for name in named.values}


def _plan(table: _Table, neighbours: str) -> Plan:
    table.only("cells", "level")
    cells = table.get("cells", int, "1 or 2", 1)
    rows = table.get("level", list, "a list of [[plan.level]] tables, lowest first")
    levels: list[Level] = []
    for i, row in enumerate(rows):
        part = _Table(row, table.file, f"plan.level[{i + 1}]")
        levels.append(part.build("", partial(_level, part, neighbours)))
        part.finish()
    table.finish()
    made: Plan = table.build("", partial(Plan, levels, cells, neighbours=neighbours))
    return made


def _level(table: _Table, neighbours: str) -> Level:
    table.only("name", "noise", *_PARAMETERS, "sensitivity", "categories", "siblings")
    name = table.get("name", str, "text")
    noise = table.get("noise", str, f"one of {tuple(_NOISES)}", "discrete gaussian")
    if noise not in _NOISES:
        raise ValueError(f"noise must be one of {tuple(_NOISES)}, got {noise!r}")
    given = [key for key in _PARAMETERS if table.has(key)]
    wanted = _NOISES[noise]
    if len(given) != (1 if wanted else 0) or (given and given[0] not in wanted):
        raise ValueError(f"{noise} noise takes {' or '.join(wanted) or 'no parameter'}, got {given or 'nothing'}")
    value: Any = table.number(given[0]) if given else None
    moved = 2 if neighbours == "bounded" else 1
    categories = table.get("categories", int, "a whole number", 2) if noise == "randomized response" else 2
    sensitivity = table.number("sensitivity", 1)
    makers: dict[tuple[str, str | None], Callable[[], Mechanism]] = {
        ("discrete gaussian", "rho"): lambda: DiscreteGaussian.from_rho(value, sensitivity, moved),
        ("discrete gaussian", "sigma"): lambda: DiscreteGaussian(value),
        ("gaussian", "rho"): lambda: Gaussian.from_rho(value, sensitivity, moved),
        ("gaussian", "sigma"): lambda: Gaussian(float(value)),
        ("geometric", "epsilon"): lambda: Geometric.from_epsilon(float(value), sensitivity, moved),
        ("laplace", "epsilon"): lambda: Laplace.from_epsilon(float(value), sensitivity, moved),
        ("laplace", "scale"): lambda: Laplace(float(value)),
        ("randomized response", "epsilon"): lambda: RandomizedResponse(float(value), categories),
        ("exact", None): Exact,
    }
    siblings = table.get("siblings", int, "a whole number", None)
    return Level(name, makers[noise, given[0] if given else None](), siblings)


def _adversary(table: _Table, plan: Plan) -> Adversary:
    table.only("prior", "known", "hypotheses", "beliefs")
    prior = table.number("prior")
    known = table.get("known", (int, list), "a whole number, or one per cell", 0)
    pair = table.get("hypotheses", list, "two whole numbers [out, in]", None)
    beliefs: dict[str, Any] = {}
    if table.has("beliefs"):
        part = table.table("beliefs")
        beliefs = {name: part.build(name, partial(_belief, part, name)) for name in part.values}
    table.finish()

    def make() -> Adversary:
        reader = Adversary(
            prior, tuple(known) if isinstance(known, list) else known, beliefs, tuple(pair) if pair else None
        )
        reader.chain(plan)
        return reader

    made: Adversary = table.build("", make)
    return made


def _belief(parent: _Table, name: str) -> Belief:
    if parent.values[name] == "uniform":
        parent.has(name)
        return Uniform()
    if isinstance(parent.values[name], str):
        raise ValueError(f'a belief is "uniform" or a table such as {{ upper = 10 }}, got {parent.values[name]!r}')
    table = parent.table(name)
    if "law" not in table.values:
        table.only("upper", "total", "probabilities", "law")
    kinds = [kind for kind in ("upper", "total", "probabilities", "law") if table.has(kind)]
    if len(kinds) != 1:
        raise ValueError(
            f"a belief table has exactly one of upper (uniform), total (point), probabilities (pmf) or law, got {kinds}"
        )
    if kinds == ["law"]:
        law = table.get("law", str, f"one of {LAWS}")
        if law not in LAWS:
            raise ValueError(f"law must be one of {LAWS}, got {law!r}")
        import scipy.stats

        parameters = {key: float(table.number(key)) for key in table.values if key != "law"}
        try:
            frozen = getattr(scipy.stats, law)(**parameters)
        except TypeError:
            shapes = getattr(scipy.stats, law).shapes or ""
            raise ValueError(f"law {law!r} takes the parameters {shapes} (and loc), got {sorted(parameters)}") from None
        if not frozen.support()[0] >= 0:
            raise ValueError(f"law {law!r} with {parameters} is not a law of a count")
        return Others(frozen)
    makers: dict[str, Callable[[], Belief]] = {
        "upper": lambda: Uniform(table.get("upper", int, "a whole number")),
        "total": lambda: Point(table.get("total", int, "a whole number")),
        "probabilities": lambda: Others(table.get("probabilities", list, "a list of probabilities")),
    }
    made = makers[kinds[0]]()
    table.finish()
    return made


def _truth(table: _Table, plan: Plan) -> dict[str, Any]:
    table.only(*plan.names, "in")
    truth: dict[str, Any] = {}
    for name in (*plan.names, "in"):
        if name != "in" or table.has(name):
            truth[name] = table.get(name, (int, list) if name != "in" else int, "a whole number, or one per cell")
    table.finish()
    return truth


def _guarantees(table: _Table, plan: Plan, neighbours: str) -> dict[str, Guarantee]:
    """Every promise the file makes. `zCDP = "sum of levels"` adds up what the levels spend."""
    table.only(*_DEFINITIONS)
    promises: dict[str, Guarantee] = {}
    for name in _DEFINITIONS:
        if table.has(name):
            promises[name] = table.build(name, partial(_guarantee, table, name, plan, neighbours))
    table.finish()
    if not promises:
        raise ValueError(f"{table.file}: {table.key}: must state at least one of {_DEFINITIONS}, got nothing")
    return promises


def _guarantee(table: _Table, name: str, plan: Plan, neighbours: str) -> Guarantee:
    if name == "zCDP" and table.values[name] == "sum of levels":
        moved = 2 if neighbours == "bounded" else 1
        return ZeroConcentratedDP(
            float(sum(moved * level.mechanism.rho for level in plan.levels if level.mechanism.rho < float("inf")))
        )
    single: dict[str, Callable[[float], Guarantee]] = {
        "zCDP": ZeroConcentratedDP,
        "pure DP": PureDP,
        "Gaussian DP": GaussianDP,
    }
    if name in single:
        return single[name](float(table.number(name)))
    pair = table.table(name)
    epsilon, delta = float(pair.number("epsilon")), float(pair.number("delta"))
    pair.finish()
    return (ApproximateDP if name == "approximate DP" else ProbabilisticDP)(epsilon, delta)
