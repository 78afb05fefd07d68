"""Grid of joint states for enumeration, and releases as arrays for the compiled density."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from adversary._core import refuse_rounded

Places = NDArray[np.int64]

# Number of joint states above which enumeration is refused.
LARGEST_GRID = 50_000_000
# States times releases evaluated in one call: a few hundred megabytes at most.
_CELLS_AT_ONCE = 2**18
# PyTensor silently wraps larger counts around.
_INT32 = 2**31


@dataclass(frozen=True)
class Slot:
    """Input of the compiled density for one released variable: an axis over releases, then the variable's own axes."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    @property
    def unused(self) -> NDArray[Any]:
        """Placeholder (1, 1, *shape) for a function that does not read this release."""
        return np.empty((1, 1, *(n or 0 for n in self.shape)), self.dtype)

    def batch(self, value: ArrayLike) -> tuple[NDArray[Any], bool]:
        """The value as an array (1, releases, *shape), and a flag: True if it had a release axis."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"observed {self.name} must be numeric, got {array.ravel()[:1].tolist()}")
        many = array.ndim == len(self.shape) + 1
        wanted = array.shape[many:]
        if len(wanted) != len(self.shape) or any(n not in (None, m) for n, m in zip(self.shape, wanted, strict=True)):
            raise ValueError(f"observed {self.name} must have shape ([releases,] {self.shape}), got {array.shape}")
        self._check(array)
        return array.astype(self.dtype).reshape(1, -1 if many else 1, *wanted), many

    def _check(self, array: NDArray[Any]) -> None:
        if np.isnan(array).any():
            raise ValueError(f"observed {self.name} must not be NaN; leave out what was not released")
        if np.dtype(self.dtype).kind in "iu":
            off = array[array != np.round(array)]
            if off.size:
                raise ValueError(f"observed {self.name} is discrete and must be whole numbers, got {off[0]}")
            refuse_rounded(f"observed {self.name}", array)
            if (np.abs(array.astype(np.float64)) >= _INT32).any():
                raise ValueError(f"observed {self.name} must be below 2^31 in size, got {np.abs(array).max()}")


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct rows: the index of the first occurrence of each, and for every row the number of its distinct row.

    Parameters
    ----------
    columns : arrays (row, column), joined along columns; NaN equals NaN

    Returns
    -------
    (first, place) : row numbers (distinct,), and numbers of distinct rows (row,).

    >>> first, place = distinct_rows([np.array([[3], [1], [3]])])
    >>> first.tolist(), place.tolist()
    ([1, 0], [1, 0, 1])
    """
    first, place = np.zeros(1, dtype=np.int64), np.zeros(len(columns[0]), dtype=np.int64)
    for column in (one for array in columns for one in array.T):
        values, own = np.unique(column, return_inverse=True)
        _, first, place = np.unique(place * values.size + own, return_index=True, return_inverse=True)
    return first, place


def blocks_of(size: int) -> list[tuple[int, int]]:
    """Ranges of states small enough for one call."""
    return [(a, min(a + _CELLS_AT_ONCE, size)) for a in range(0, size, _CELLS_AT_ONCE)]


@dataclass(frozen=True)
class Grid:
    """Every joint state of the latents, in lexicographic order.

    Parameters
    ----------
    axes : by name, the values (value,) of each cell, or (value, cell) of consecutive cells with a joint distribution
    shapes : shape of each latent, by name
    """

    axes: dict[str, list[NDArray[np.int64]]]
    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def over(cls, supports: Mapping[str, tuple[tuple[int, ...], list[NDArray[np.int64]]]]) -> Grid:
        """Cartesian product of supports (shape, values per cell) by name, as `support_of` returns them."""
        return cls({k: axes for k, (_, axes) in supports.items()}, {k: shape for k, (shape, _) in supports.items()})

    def refuse_large(self, size: int) -> None:
        """ValueError if `size` states are more than `LARGEST_GRID`."""
        if size > LARGEST_GRID:
            sizes = {name: tuple(map(len, axes)) for name, axes in self.axes.items()}
            raise ValueError(f"{size:.3g} joint states, more than {LARGEST_GRID:.0e}; values per latent: {sizes}")

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(values) for axes in self.axes.values() for values in axes)

    @property
    def size(self) -> int:
        return math.prod(self.lengths)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of states small enough for one call."""
        return blocks_of(self.size)

    def releases_at_once(self, cells: int) -> int:
        """Number of releases per call if each needs `cells` numbers."""
        return max(1, _CELLS_AT_ONCE // cells)

    def states(self, start: int, stop: int) -> list[NDArray[np.int64]]:
        """States start..stop-1: one array (states, 1, *shape) per latent."""
        return [state[:, None] for state in self.at(np.arange(start, stop))]

    def at(self, places: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """States with these lexicographic numbers: one array (place, *shape) per latent."""
        return self.filled(np.unravel_index(places, self.lengths) if self.lengths else ())

    def filled(self, indices: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Values (place, *shape) of each latent, from the index (place,) of a value on each axis."""
        left = iter(indices)
        states = []
        for name, axes in self.axes.items():
            columns = [values[next(left)] for values in axes]
            flat = [column if column.ndim == 2 else column[:, None] for column in columns]
            states.append(np.concatenate(flat, axis=1).reshape(-1, *self.shapes[name]))
        return states


def log_totals(grid: Grid, log_density: Callable[..., Any], batches: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Log of a density summed over the states of a grid, per release; states with an undefined density count as zero.

    Parameters
    ----------
    grid : the states
    log_density : compiled function of states (state, 1, *shape) of each latent and of the batches
    batches : releases (1, release, *shape), or one (1, 1, *shape)

    Returns
    -------
    Log sums in nats, (release,).
    """
    releases, width = max((b.shape[1] for b in batches), default=1), grid.releases_at_once(grid.size)
    total = np.full(releases, -np.inf)
    for start, stop in grid.blocks:
        states = grid.states(start, stop)
        for first in range(0, releases, width):
            window = slice(first, min(first + width, releases))
            (log_p,) = log_density(*states, *(b[:, window] if b.shape[1] > 1 else b for b in batches))
            log_p = np.broadcast_to(log_p, (stop - start, window.stop - first))
            part = logsumexp(np.where(np.isnan(log_p), -np.inf, log_p), axis=0)
            total[window] = np.logaddexp(total[window], part)
    return total
