"""The `[guarantee]` of a file: every promise it makes, by the name of its definition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adversary.desk.files.keys import Keys
from adversary.privacy import Guarantee
from adversary.privacy.definitions import ApproximateDP, GaussianDP, ProbabilisticDP, PureDP, ZeroConcentratedDP
from adversary.reader.plans import Plan

DEFINITIONS = ("zCDP", "pure DP", "approximate DP", "probabilistic DP", "Gaussian DP")
SINGLE: dict[str, Callable[[float], Guarantee]] = {
    "zCDP": ZeroConcentratedDP,
    "pure DP": PureDP,
    "Gaussian DP": GaussianDP,
}
"""Definitions with one parameter."""


def read_guarantees(table: Keys, total: Callable[[], float] | None = None) -> dict[str, Guarantee]:
    """Every promise of the table. `zCDP = "sum of levels"` is `total`, where there is such a sum."""
    table.only(*DEFINITIONS)
    promises: dict[str, Guarantee] = {}
    for name in DEFINITIONS:
        if table.has(name):
            promises[name] = table.build(name, partial(_guarantee, table, name, total))
    table.finish()
    if not promises:
        raise ValueError(f"{table.file}: {table.key}: must state at least one of {DEFINITIONS}, got nothing")
    return promises


def _guarantee(table: Keys, name: str, total: Callable[[], float] | None) -> Guarantee:
    if name == "zCDP" and table.values[name] == "sum of levels" and total is not None:
        return ZeroConcentratedDP(total())
    if name in SINGLE:
        return SINGLE[name](float(table.number(name)))
    pair = table.table(name)
    epsilon, delta = float(pair.number("epsilon")), float(pair.number("delta"))
    pair.finish()
    return (ApproximateDP if name == "approximate DP" else ProbabilisticDP)(epsilon, delta)


def spent(plan: Plan) -> float:
    """rho of all noisy levels together, for the neighbours the plan speaks of."""
    moved = 2 if plan.neighbours == "bounded" else 1
    return float(sum(moved * level.mechanism.rho for level in plan.levels if level.mechanism.rho < float("inf")))
