"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_tables.py -s

Processor seconds of the audit of every cell of nested tables: by levels, and of many cells beside a tenth of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import adversary as adv
from tests.benchmarks.stopwatch import processor_once, processor_seconds, record

NOISE = adv.DiscreteGaussian.from_rho(0.1)
INSIDE = {"group": 4, "tract": 4, "county": 2}
"""Units of the level below inside one of each."""
KINDS = 4


def counts(blocks: int, levels: int, rate: float, inside: dict[str, int]) -> tuple[Any, list[adv.PublishedTable]]:
    """A file of Poisson counts of four kinds of people in every block, and a table of each level by kind."""
    rng = np.random.default_rng(1)
    frame, unit = pd.DataFrame({"block": np.arange(blocks)}), np.arange(blocks)
    for name, number in list(inside.items())[: levels - 1]:
        unit = unit // number
        frame[name] = unit
    names = list(frame)
    every = rng.poisson(rng.gamma(0.5, rate / 0.5, blocks)[:, None], (blocks, KINDS))
    rows = frame.loc[frame.index.repeat(KINDS)].assign(kind=np.tile(np.arange(KINDS), blocks), count=every.ravel())
    return rows, [adv.PublishedTable((name, "kind"), NOISE, name) for name in names]


def test_four_levels_beside_three() -> None:
    """256 cells: three levels share their cumulative sums, four go over the counts of one more."""
    seconds = {}
    for levels in (3, 4):
        what = counts(64, levels, 2.0, INSIDE)
        seconds[levels] = processor_seconds(lambda what=what: adv.audit_tables(*what, rng=1), 3)
    record("tables, 256 cells of 4 levels", seconds[4], "the same of 3 levels", seconds[3], times=3.0)


@pytest.mark.parametrize("cells", [100_000, 1_000_000])
def test_many_cells_of_three_levels(cells: int) -> None:
    """Beside a tenth of the cells, ten times."""
    large, small = (counts(n // KINDS, 3, 1.0, {"group": 25, "tract": 3}) for n in (cells, cells // 10))
    tenth = processor_seconds(lambda: adv.audit_tables(*small, rng=1), 1)
    seconds = processor_once(lambda: adv.audit_tables(*large, rng=1))
    most = 24.0 if cells == 1_000_000 else None
    record(f"tables, {cells:,} cells of 3 levels", seconds, "ten times a tenth of them", 10.0 * tenth, most=most)
