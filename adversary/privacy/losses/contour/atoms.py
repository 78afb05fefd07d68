"""Lattices of losses as plain arrays: normal form, sums of independent losses, repeated sums.

A lattice is three arrays: losses (ascending), log_p and log_q, the log masses of the two hypotheses at each loss.
Masses at an infinite loss live outside the arrays. All sums have positive terms, so relative accuracy is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adversary._core import Floats

MAX_ATOMS = 3_000_000
"""Largest product of explicit lattices that is enumerated."""

MERGED = 3e-14
"""Losses this close, relative to 1 + |loss|, are one; to what they are off by and |loss|, where that is less than 1."""

_NEGLIGIBLE = -745.0

Atoms = tuple[Floats, Floats, Floats]


def merge_atoms(losses: Floats, log_p: Floats, log_q: Floats) -> Atoms:
    """Lattice in normal form: atoms sorted by loss, equal losses (to rounding) merged.

    Atoms below exp(-745) under both laws are dropped, except the least and the largest loss, which decide what is
    certain.

    Parameters
    ----------
    losses : (atoms,), finite privacy losses in nats, in any order
    log_p, log_q : (atoms,), log masses under the two hypotheses

    Returns
    -------
    (losses, log_p, log_q), losses strictly ascending.

    >>> losses, log_p, _ = merge_atoms(np.array([1.0, 0.0, 1.0]), np.log([0.25, 0.5, 0.25]), np.log([0.1, 0.8, 0.1]))
    >>> losses.tolist(), np.exp(log_p).tolist()
    ([0.0, 1.0], [0.5, 0.5])
    """
    return merged_within(losses, log_p, log_q)[0]


def merged_within(losses: Floats, log_p: Floats, log_q: Floats, unit: float = 1.0) -> tuple[Atoms, float]:
    """`merge_atoms`, with the largest step between losses that were merged.

    Parameters
    ----------
    losses : (atoms,), finite privacy losses in nats, in any order
    log_p, log_q : (atoms,), log masses under the two hypotheses
    unit : losses within MERGED (unit + |loss|) of the one before are merged; less than 1 where all losses are small

    Returns
    -------
    ((losses, log_p, log_q), step), losses strictly ascending, step relative to unit + |loss|; 0 where none was merged.
    """
    possible = np.maximum(log_p, log_q) > -np.inf
    losses, log_p, log_q = losses[possible], log_p[possible], log_q[possible]
    keep = np.maximum(log_p, log_q) > _NEGLIGIBLE
    if losses.size:
        keep[[np.argmin(losses), np.argmax(losses)]] = True
    order = np.argsort(losses[keep], kind="stable")
    losses, log_p, log_q = losses[keep][order], log_p[keep][order], log_q[keep][order]
    if losses.size == 0:
        return (losses, log_p, log_q), 0.0
    steps = np.diff(losses) / (unit + np.abs(losses[1:]))
    new = np.concatenate([[True], steps > MERGED])
    starts = np.flatnonzero(new)
    atoms = losses[starts], np.logaddexp.reduceat(log_p, starts), np.logaddexp.reduceat(log_q, starts)
    return atoms, float(steps[~new[1:]].max(initial=0.0))


def product(a: Atoms, b: Atoms, unit: float = 1.0) -> tuple[Atoms, float]:
    """Law of the sum of two independent losses: every pair of atoms, equal losses merged.

    Parameters
    ----------
    a, b : (losses, log_p, log_q), the two lattices, each of arrays (atoms,)
    unit : of the tolerance within which losses are equal, as in `merged_within`

    Returns
    -------
    ((losses, log_p, log_q), step), losses ascending; step the largest between merged losses, relative to unit + |loss|.

    >>> coin = np.array([0.0, 1.0]), np.log([0.5, 0.5]), np.log([0.5, 0.5])
    >>> product(coin, coin)[0][0].tolist()
    [0.0, 1.0, 2.0]
    """
    losses, log_p, log_q = ((x[:, None] + y[None, :]).ravel() for x, y in zip(a, b, strict=True))
    return merged_within(losses, log_p, log_q, unit)


def grid_convolution(pieces: list[Floats]) -> Floats:
    """Convolution of non-negative sequences, by direct sums: an FFT would keep only absolute accuracy.

    Parameters
    ----------
    pieces : masses on a common grid, at least one sequence

    Returns
    -------
    Masses of the sum on the same grid; its size is 1 + the sum of (size - 1) over the pieces.

    >>> grid_convolution([np.array([0.5, 0.5])] * 2).tolist()
    [0.25, 0.5, 0.25]
    """
    total = pieces[0]
    for piece in pieces[1:]:
        total = np.convolve(total, piece)
    return total


def repeat_product[T](base: T, times: int, unit: T, together: Callable[[T, T], T]) -> T:
    """`together` applied to `times` copies of one value, by repeated squaring.

    Parameters
    ----------
    base : value to combine with itself
    times : number of copies, >= 0
    unit : neutral element of `together`, the result for no copies
    together : associative operation of two values

    Returns
    -------
    base combined with itself `times` times.

    >>> repeat_product(3, 4, 1, lambda a, b: a * b)
    81
    """
    total = unit
    while times:
        total = together(total, base) if times & 1 else total
        times >>= 1
        base = together(base, base) if times else base
    return total
