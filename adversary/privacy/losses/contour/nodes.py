"""Nodes of a contour sum: which are needed, the kernels at them, and sums of waves over them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats
from adversary.privacy.losses.contour.revivals import Threshold

_BLOCK = 32


class Asked(NamedTuple):
    """Nodes as they are needed: the largest number, spacing, period, threshold, and what that leaves out."""

    last: float
    spacing: float
    period: float
    threshold: Threshold
    left_out: Floats


class Grid(NamedTuple):
    """Whole numbers n, the spacing of the nodes, quadrature weights, 1 - e^(-iuh), whether no node of a period is left
    out, and Phi by residue as far as it was asked for."""

    n: Floats
    spacing: float
    weight: Floats
    wave: Any
    whole: bool
    blocks: Blocks
    phi: dict[Fraction, Any]


def decay(s: float, wave: Any, h: float) -> Any:
    """1 - e^(-(s + iu) h) from wave = 1 - e^(-iuh), without cancellation."""
    return np.exp(-s * h) * wave - np.expm1(-s * h)


def lattice_kernels(s: float, wave: Any, h: float, kind: str) -> list[Any]:
    """Kernels to be shared between the two ends of a lattice cell, or that of one tail."""
    if kind == "p":
        return [h / decay(s, wave, h)]
    if kind == "q":
        return [h / decay(s + 1.0, wave, h)]
    both = h / (decay(s, wave, h) * decay(s + 1.0, wave, h))
    return [both, both * (np.exp(-s * h) * (1.0 - wave))]


def smooth_kernels(s: float, u: Floats, kind: str) -> list[Any]:
    """The kernel of a tail, of the profile or of the density, where a Gaussian release makes the loss continuous."""
    z = s + 1j * u
    if kind == "density":
        return [np.ones_like(z)]
    return [{"p": 1.0 / z, "q": 1.0 / (z + 1.0), "delta": 1.0 / (z * (z + 1.0))}[kind]]


class Blocks(NamedTuple):
    """Nodes in blocks of 32: the numbers of the blocks that hold any, and each node's block and place inside it."""

    number: Any
    block: Any
    place: Any

    @classmethod
    def of(cls, n: Floats) -> Blocks:
        block, place = np.divmod(n.astype(np.int64), _BLOCK)
        first = np.concatenate([[True], np.diff(block) > 0]) if n.size else np.zeros(0, dtype=bool)
        return cls(block[first], np.cumsum(first) - 1, place)


def waves(grid: Grid, turn: Floats, parts: list[Any]) -> list[Floats]:
    """Real parts of the sums over nodes n of part(n) e^(i n spacing turn), for every turn.

    On the grid the phase is geometric: phase at the start of a block times phase inside the block.
    """
    if grid.n.size <= 4 * _BLOCK:
        phase = np.exp(1j * np.multiply.outer(turn, grid.n * grid.spacing))
        return [np.einsum("tn,n->t", phase, part).real for part in parts]
    number, block, place = grid.blocks
    dense = np.zeros((len(parts), number.size, _BLOCK), dtype=complex)
    for i, part in enumerate(parts):
        dense[i, block, place] = part
    totals = np.empty((len(parts), turn.size))
    width = max(1, 400_000 // number.size)
    for first in range(0, turn.size, width):
        some = turn[first : first + width]
        within = np.exp(1j * np.multiply.outer(some, np.arange(_BLOCK) * grid.spacing))
        starts = np.exp(1j * np.multiply.outer(some, number * (_BLOCK * grid.spacing)))
        whole = np.einsum("tr,pbr->tpb", within, dense)
        totals[:, first : first + width] = np.einsum("tpb,tb->pt", whole, starts).real
    return list(totals)
