"""How the benchmarks measure."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median over repeats, after one call that does not count."""
    return float(np.median(all_seconds(function, repeats)))


def all_seconds(function: Callable[[], Any], repeats: int) -> list[float]:
    """Every repeat, after one call that does not count: the least is what the work takes where nothing disturbs it."""
    function()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return times
