"""How benchmarks measure, the one table that ends a run of them, and the plan of the 2020 Census that several read."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, process_time
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


ROWS: list[tuple[str, ...]] = []
"""Lines of the table: item, seconds, peer, its seconds, their ratio, the goal and whether it was missed."""


def record(
    item: str,
    ours: float,
    peer: str = "",
    theirs: float = np.nan,
    *,
    most: float | None = None,
    times: float | None = None,
) -> None:
    """Add a line to the table that `tests/conftest.py` prints: seconds, beside those of a peer or slow twin of the run.

    `most` is the goal in seconds, `times` that for the ratio to the peer.
    """
    ratio = ours / theirs
    missed = ours > (most or np.inf) or ratio > (times or np.inf)
    goals = [_seconds(most)] if most else []
    goals += [f"{times:.2g} times"] if times else []
    theirs_text = _seconds(theirs) if np.isfinite(theirs) else ""
    share = f"{ratio:.3g}" if np.isfinite(ratio) else ""
    ROWS.append((item, _seconds(ours), peer, theirs_text, share, ", ".join(goals), "missed" if missed else ""))


def _seconds(value: float) -> str:
    return f"{1e3 * value:.3g} ms" if value < 0.1 else f"{value:.3g} s"


def table() -> list[str]:
    """The lines recorded, in columns."""
    rows = [("item", "ours", "peer or slow twin", "takes", "ours / its", "at most", ""), *ROWS]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(one.ljust(width) for one, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def processor_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Least processor time over repeats, after one call that does not count."""
    function()
    return min(processor_once(function) for _ in range(repeats))


def processor_once(function: Callable[[], Any]) -> float:
    """Processor seconds of one call."""
    start = process_time()
    function()
    return process_time() - start


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
