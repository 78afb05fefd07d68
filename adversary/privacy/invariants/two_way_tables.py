"""Sensitivity space of a two-way table with both margins published: moves and six-cycles, in closed form.

Proposition 32 of Cho and Awan ("Formal Privacy Guarantees with Invariant Statistics") lists the moves. It omits the
six-cycles, which occur if three records may change in a table of at least three rows and three columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, check_number, check_whole
from adversary.privacy.invariants.sensitivities import MOST_ENTRIES, Sensitivities, check_norm_order


@dataclass(frozen=True)
class TableSpace(Sensitivities):
    """Changes of an r x c table between databases with the same row and column totals, at most k records apart.

    k = 1 allows no change. k = 2 gives the moves: records (i, l), (k, j) become (i, j), (k, l), with +1 in two cells
    and -1 in two. k = 3 adds the six-cycles: three records in three rows and three columns permute their columns.
    Empty rows and columns never change. With r non-empty rows and c columns there are r(r - 1)c(c - 1)/2 moves and
    12 C(r, 3) C(c, 3) six-cycles, and the rank is (r - 1)(c - 1).

    Parameters
    ----------
    rows, columns : the published totals, as tuples of counts
    adjacency : k, 1 to 3, the largest semi-adjacency of two margins

    Raises
    ------
    ValueError : negative or fractional counts, margins without records, or another adjacency

    References: Cho and Awan, Propositions 25 and 32; the six-cycles correct the latter.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    adjacency: int

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            counts = np.atleast_1d(check_whole(name, getattr(self, name), minimum=0))
            if counts.ndim != 1 or not counts.any():
                raise ValueError(f"{name} must be counts of at least one record, got {getattr(self, name)!r}")
            object.__setattr__(self, name, tuple(counts.tolist()))
        object.__setattr__(self, "adjacency", int(check_whole("adjacency", self.adjacency, minimum=1)))
        if self.adjacency > 3:
            raise ValueError(f"adjacency must be 1, 2 or 3 records, got {self.adjacency}")

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), len(self.columns)

    @property
    def records(self) -> int:
        """Number of records that the largest change affects: 0, 2 (moves) or 3 (six-cycles)."""
        reach = min(self.adjacency, len(self._live[0]), len(self._live[1]))
        return reach if reach > 1 else 0

    @property
    def _live(self) -> tuple[Integers, Integers]:
        """Indices of the non-empty rows and columns."""
        return np.flatnonzero(self.rows), np.flatnonzero(self.columns)

    @cached_property
    def vectors(self) -> Integers:
        blocks = [np.zeros((1, self.cells), dtype=np.int64)]
        for records in range(2, self.records + 1):
            blocks.append(self._cycles(records))
        return np.concatenate(blocks)

    def _cycles(self, records: int) -> Integers:
        """Changes of `records` records in distinct rows and columns, none of which stays in its cell."""
        rows, columns = (np.array(list(combinations(live, records))) for live in self._live)
        orders = list(permutations(range(records)))
        pairs = np.array([(a, b) for a in orders for b in orders if all(x != y for x, y in zip(a, b, strict=True))])
        count = len(rows) * len(columns) * len(pairs)
        if count * self.cells > MOST_ENTRIES:
            raise ValueError(
                f"{count} changes of {self.cells} cells are too many to list: use the norms and the projection, "
                "as SpanGaussian does"
            )
        place = rows[:, None, None, :] * self.shape[1] + columns[:, pairs.reshape(-1, records)][None]
        plus, minus = np.moveaxis(place.reshape(len(rows), len(columns), len(pairs), 2, records), 3, 0)
        change = np.zeros((count, self.cells), dtype=np.int64)
        for cells, sign in ((plus, 1), (minus, -1)):
            change[np.arange(count)[:, None], cells.reshape(count, records)] = sign
        return change

    @cached_property
    def basis(self) -> Floats:
        """Moves that involve the first non-empty row and column; coordinates of a change are its other cells."""
        (first, *rows), (start, *columns) = self._live
        moves = np.zeros((len(rows) * len(columns) if self.records else 0, *self.shape))
        for move, (i, j) in zip(moves, ((i, j) for i in rows for j in columns), strict=False):
            move[first, start] = move[i, j] = 1.0
            move[first, j] = move[i, start] = -1.0
        return moves.reshape(-1, self.cells)

    def norm(self, order: float) -> float:
        """(2 k)^(1/p) for the largest change, of k records, whose entries are 0 or +-1."""
        return float(np.linalg.norm(np.ones(2 * self.records), ord=check_norm_order(order))) if self.records else 0.0

    def contains(self, change: ArrayLike) -> bool:
        v = check_number("change", change).reshape(self.shape)
        zero = not v.sum(0).any() and not v.sum(1).any()
        inside = np.zeros(self.shape, dtype=bool)
        inside[np.ix_(*self._live)] = True
        moved = float(np.maximum(v, 0.0).sum())
        return bool(zero and (v == np.rint(v)).all() and not v[~inside].any() and moved <= self.records)


def sensitivity_space(rows: ArrayLike, columns: ArrayLike, adjacency: int) -> TableSpace:
    """Sensitivity space of a two-way table with both margins published: databases at most `adjacency` records apart.

    Parameters
    ----------
    rows, columns : the margins as counts per level; a single int is a number of non-empty levels
    adjacency : number of records that may differ, 1 to 3; usually the semi-adjacency of the margins

    Returns
    -------
    TableSpace.

    Raises
    ------
    ValueError : negative or fractional counts, margins without records or of different totals, or another adjacency

    >>> space = sensitivity_space(2, 3, adjacency=2)
    >>> len(space.vectors), space.rank, [round(space.norm(p), 6) for p in (1, 2, float("inf"))]
    (7, 2, [4.0, 2.0, 1.0])
    """
    space = TableSpace(_counts("rows", rows), _counts("columns", columns), adjacency)
    if np.ndim(rows) and np.ndim(columns) and sum(space.rows) != sum(space.columns):
        raise ValueError(f"rows and columns must have one total, got {sum(space.rows)} and {sum(space.columns)}")
    return space


def _counts(name: str, margin: Any) -> Any:
    return (1,) * int(check_whole(name, margin, minimum=1)) if np.ndim(margin) == 0 else margin
