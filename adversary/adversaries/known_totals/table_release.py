r"""The likelihood of a noisy table, cell by cell or of all cells at once.

A `Mechanism` adds independent noise to every cell; a `VectorNoise` (`KNorm`, `SpanGaussian`) has one density for the
whole table, on the span of the changes that leave the margins fixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._core import Floats, Integers
from adversary.privacy.invariants import VectorNoise
from adversary.privacy.mechanisms import Mechanism

_AT_ONCE = 4_000_000  # numbers worked on together


def released_tables(released: Any, shape: tuple[int, int]) -> tuple[Floats, bool]:
    """(tables (release, r, c), whether there was a release axis)."""
    tables = np.asarray(released, dtype=np.float64)
    if tables.shape[-2:] != shape or tables.ndim not in (2, 3):
        raise ValueError(f"released must be a table ([release,] {shape[0]}, {shape[1]}), got shape {tables.shape}")
    if not np.isfinite(tables).all():
        raise ValueError(f"released must be finite, got {tables[~np.isfinite(tables)][0]}")
    return tables.reshape(-1, *shape), tables.ndim == 3


def table_likelihood(mechanism: Any, released: Floats, tables: Integers) -> Floats:
    """log p(release | table), (release, table), of releases (release, r, c) and tables (table, r, c)."""
    if not isinstance(mechanism, Mechanism | VectorNoise):
        raise TypeError(f"mechanism must be a Mechanism or a VectorNoise, got {mechanism!r}")
    each = _cell_by_cell if isinstance(mechanism, Mechanism) else _together
    size = max(1, _AT_ONCE // tables.size)
    parts = [each(mechanism, released[i : i + size], tables) for i in range(0, len(released), size)]
    return np.concatenate(parts)


def cell_likelihood(mechanism: Mechanism, released: Floats, low: Integers, reach: int) -> Floats:
    """log p(released cell | count) for counts low, ..., low + reach: (release, r, c, reach + 1)."""
    counts = low[..., None] + np.arange(reach + 1)
    return np.asarray(mechanism.log_prob(released[..., None], counts), dtype=np.float64)


def _cell_by_cell(mechanism: Any, released: Floats, tables: Integers) -> Floats:
    """log p(release | table) as a sum over cells; each cell's likelihood is computed once per count and looked up."""
    low = tables.min(0)
    laws = cell_likelihood(mechanism, released, low, int((tables.max(0) - low).max()))
    total = np.zeros((len(released), len(tables)))
    for i, j in np.ndindex(*low.shape):
        total += laws[:, i, j][:, tables[:, i, j] - low[i, j]]
    return total


def _together(mechanism: Any, released: Floats, tables: Integers) -> Floats:
    noisy, values = released.reshape(len(released), 1, -1), tables.reshape(len(tables), -1)
    return np.asarray(mechanism.log_prob(noisy, values), dtype=np.float64)
