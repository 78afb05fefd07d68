"""Composition of lattice losses on plain arrays: exact while the product stays small, a certified bracket beyond.

A lattice is three arrays: losses (ascending), log_p and log_q, the log masses of the two hypotheses at each loss.
Masses at an infinite loss live outside the arrays. All sums have positive terms, so relative accuracy is kept.
"""

from __future__ import annotations

import numpy as np

from adversary._numeric import Floats

MAX_ATOMS = 3_000_000
"""Largest product that is enumerated exactly."""

GRID_BINS = 2**14
"""Bins of the common grid on which larger products are rounded."""

_NEGLIGIBLE = -745.0


def merged(losses: Floats, log_p: Floats, log_q: Floats) -> tuple[Floats, Floats, Floats]:
    """Atoms sorted by loss, equal losses (to 1e-12 relative) merged, atoms below exp(-745) under both laws dropped."""
    keep = np.maximum(log_p, log_q) > _NEGLIGIBLE
    order = np.argsort(losses[keep], kind="stable")
    losses, log_p, log_q = losses[keep][order], log_p[keep][order], log_q[keep][order]
    if losses.size == 0:
        return losses, log_p, log_q
    new = np.concatenate([[True], np.diff(losses) > 1e-12 * (1.0 + np.abs(losses[1:]))])
    starts = np.flatnonzero(new)
    return losses[starts], np.logaddexp.reduceat(log_p, starts), np.logaddexp.reduceat(log_q, starts)


def product(a: tuple[Floats, Floats, Floats], b: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Law of the sum of two independent losses: every pair of atoms, exactly."""
    losses, log_p, log_q = ((x[:, None] + y[None, :]).ravel() for x, y in zip(a, b, strict=True))
    return merged(losses, log_p, log_q)


def grid_convolution(pieces: list[Floats]) -> Floats:
    """Direct convolution of positive sequences (an FFT would keep only absolute accuracy)."""
    total = pieces[0]
    for piece in pieces[1:]:
        total = np.convolve(total, piece)
    return total
