"""How the benchmarks measure, and the plan of the 2020 Census that several of them read."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import adversary as adv

RHO = [float(adv.census.DETAILED_RHO[level]) for level in ("block", "block group")]
PLAN = adv.Plan(
    [
        adv.Level("block", adv.DiscreteGaussian.from_rho(RHO[0]), siblings=27),
        adv.Level("block group", adv.DiscreteGaussian.from_rho(RHO[1])),
    ]
)


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median over repeats, after one call that does not count."""
    return float(np.median(all_seconds(function, repeats)))


def all_seconds(function: Callable[[], Any], repeats: int) -> list[float]:
    """Every repeat, after one call that does not count: the least is what the work takes where nothing disturbs it."""
    function()
    return [once(function) for _ in range(repeats)]


def once(function: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = perf_counter()
    function()
    return perf_counter() - start
