"""Sensitivity spaces: the changes of a query that noise must cover, with and without invariants.

A sensitivity space is the set of differences of a query over all pairs of adjacent databases. With a published
invariant only conforming databases are compared. The set then shrinks and no longer spans all cells, so that noise on
its span suffices (Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Definition 4 and Propositions 24
to 26). Tables with published margins are in `two_way_tables`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, check_number, one_number
from adversary.privacy.invariants.convex_hull import Hull

# Largest number of entries in the list of changes of a table, 160 MB.
MOST_ENTRIES = 20_000_000

# Distance from the span, relative to the vector or to 1, within which a vector counts as on it.
_SNAP = 1e-9


# Further tolerance, relative to the numbers whose difference the vector is.
_ROUNDING = 1e-14


class Sensitivities(ABC):
    """A bounded set of changes, symmetric about 0, with its span and convex hull.

    Subclasses define `shape`, `vectors`, `basis`, `norm(order)` and `contains(change)`.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one value of the query: (cells,), or (rows, columns) of a table."""

    @property
    @abstractmethod
    def vectors(self) -> Integers | Floats:
        """The distinct changes, 0 included: (count, cells), tables flattened row by row."""

    @property
    @abstractmethod
    def basis(self) -> Floats:
        """Linearly independent changes that span all others: (rank, cells)."""

    @abstractmethod
    def norm(self, order: float) -> float:
        """The sensitivity Delta_p: largest l_p norm of a change; p = `order` >= 1, infinity included."""

    @abstractmethod
    def contains(self, change: ArrayLike) -> bool:
        """True if the vector is one of the changes."""

    @property
    def cells(self) -> int:
        """Number of entries of one value of the query."""
        return prod(self.shape)

    @property
    def rank(self) -> int:
        """Dimension of the span; 0 if the query is a function of the invariant."""
        return len(self.basis)

    @cached_property
    def orthonormal(self) -> Floats:
        """An orthonormal basis of the span: (rank, cells)."""
        return np.asarray(np.linalg.qr(self.basis.T)[0].T, dtype=np.float64)

    @property
    def projection(self) -> Floats:
        """Orthogonal projection onto the span: (cells, cells).

        Noise P e gives the same guarantee as e: P (value + e) is post-processing, and (I - P) value is equal for
        adjacent databases (Cho and Awan, Proposition 26). P does not increase l_2 norms.
        """
        return self.orthonormal.T @ self.orthonormal

    def on_span(self, change: Floats, size: Any = 0.0) -> Any:
        """Mask (...) of changes (..., cells) on the span, up to the rounding of numbers of magnitude `size`."""
        with np.errstate(invalid="ignore"):
            off = np.abs(change - (change @ self.orthonormal.T) @ self.orthonormal).max(-1, initial=0.0)
            return off <= _SNAP * np.maximum(1.0, np.abs(change).max(-1, initial=0.0)) + _ROUNDING * size

    @cached_property
    def hull(self) -> Hull:
        """Convex hull of the changes in coordinates along `basis`; its gauge is the K-norm."""
        along = self.along(self.vectors)
        return Hull(np.where(np.abs(along - np.rint(along)) < _SNAP, np.rint(along), along))

    def along(self, change: Floats | Integers) -> Floats:
        """Coordinates along `basis`: (..., cells) to (..., rank)."""
        return np.asarray(change @ self._dual, dtype=np.float64)

    @cached_property
    def _dual(self) -> Floats:
        return np.linalg.pinv(self.basis)

    @staticmethod
    def _whole(x: Floats) -> bool:
        return bool((x == np.rint(x)).all())


@dataclass(frozen=True, eq=False)
class SensitivitySpace(Sensitivities):
    """Sensitivity space {phi(X) - phi(Y) : X and Y adjacent} as a list of changes.

    Parameters
    ----------
    changes : (count, cells); `vectors` adds 0 if it is missing, and drops duplicates

    Raises
    ------
    ValueError : no changes, values that are not finite, or a change without its negative

    >>> space = SensitivitySpace([[1, -1, 0], [-1, 1, 0]])
    >>> space.rank, space.norm(1), space.contains([0, 0, 0])
    (1, 2.0, True)
    """

    changes: ArrayLike

    def __post_init__(self) -> None:
        given = check_number("changes", self.changes)
        if given.ndim != 2 or given.size == 0:
            raise ValueError(f"changes must be a list of at least one change over the cells, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise ValueError(f"changes must be finite, got {given[~np.isfinite(given)][0]}")
        held = {tuple(one) for one in (given + 0.0).tolist()}
        alone = [one for one in held if tuple(-x + 0.0 for x in one) not in held]
        if alone:
            raise ValueError(f"changes must hold the opposite of each, got {list(min(alone))} without its own")

    @cached_property
    def vectors(self) -> Integers | Floats:
        given = check_number("changes", self.changes)
        every = np.unique(np.vstack([np.zeros_like(given[:1]), given]) + 0.0, axis=0)
        return every.astype(np.int64) if self._whole(every) else every

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.vectors.shape[1]),)

    @cached_property
    def basis(self) -> Floats:
        """Linearly independent changes, selected by QR with pivoting, longest first."""
        from scipy.linalg import qr

        _, r, order = qr(self.vectors.T.astype(np.float64), mode="economic", pivoting=True)
        size = np.abs(np.diag(r))
        rank = int((size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)).sum())
        return np.asarray(self.vectors[order[:rank]], dtype=np.float64)

    def norm(self, order: float) -> float:
        return float(np.linalg.norm(self.vectors, ord=check_norm_order(order), axis=1).max())

    def contains(self, change: ArrayLike) -> bool:
        return bool((self.vectors == np.ravel(check_number("change", change))).all(1).any())


def check_norm_order(order: float) -> float:
    """Order p of a norm as a float, checked to be at least 1."""
    p = one_number("order", order)
    if not p >= 1.0:
        raise ValueError(f"order must be at least 1, got {p}")
    return p
