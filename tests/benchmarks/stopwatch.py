"""How the benchmarks measure."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median over repeats, after one call that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return float(np.median(times))
