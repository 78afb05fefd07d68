"""Terms of a contour sum: generating functions of discrete Gaussian losses at its nodes, kernels, and phases.

A family is n counts with discrete Gaussian noise x, P(x) ~ exp(-v x^2 / 2) (v = 1 / sigma^2), each changed by the
integer a. The loss of one count is L = v (a^2 - 2 a x) / 2, and M(z) = E exp(z L) is entire. Poisson summation gives a
second, fast series, and the shift rule M(z + 2 pi i m / (a v)) = (-1)^(m a) M(z). On the line Re z = s,

    M(s + iu) = exp(rho s (s + 1) + i u rho (2 s + 1)) Phi_s(u),      rho = a^2 v / 2 for one count,

where Phi_s depends on s modulo 1 only. For integer s it is the wrapped Gaussian phi_v(a u), phi_v(u) = E cos(v u x),
real and positive; for every s its absolute value is at most that (triangle inequality, term by term).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats
from adversary.privacy.losses.contour.revivals import Threshold

_BLOCK = 32
_NARROW = 2.0 * np.pi
_TERMS = np.arange(-3, 4)
_FEW = np.arange(-1, 2)


def twisted_product(v: Floats, shift: Floats, count: Floats, u: Floats, residue: Fraction) -> Any:
    """Product over families of Phi_s(u)^count, with s = residue modulo 1; real for residues 0 and 1/2."""
    total: Any = np.ones(u.size)
    for chosen in _alike(v):
        value = tilted_transform(v[chosen], shift[chosen], u, residue)
        total = total * np.multiply.reduce(value ** count[chosen][:, None], axis=0)
    return total


def _alike(v: Floats) -> list[Any]:
    """Indices of families whose series have the same number of terms: very wide, wide, and each narrow noise."""
    wide, very = np.flatnonzero(v <= _NARROW), v < 0.9
    groups = [wide[very[wide]], wide[~very[wide]], *np.flatnonzero(v > _NARROW)[:, None]]
    return [group for group in groups if group.size]


def tilted_transform(v: Floats, shift: Floats, u: Floats, residue: Fraction) -> Any:
    """Phi_s(u) of one count per family, (family, node), for families grouped by `_alike`."""
    v, shift = v[:, None], shift[:, None]
    period = 2.0 * np.pi / (shift * v)
    m = np.rint(u / period)
    d = shift * (u - m * period)
    real = residue.denominator <= 2
    value: Any = 0.0
    if v[0, 0] <= _NARROW:
        rate = 2.0 * np.pi**2 / v
        for k in _FEW if v.max() < 0.9 else _TERMS:
            value = value + _turn(k * shift, residue, real) * np.exp(-0.5 * v * (d + k * (2.0 * np.pi / v)) ** 2)
        value = value / np.exp(-rate * _TERMS * _TERMS).sum(-1, keepdims=True)
    else:
        y = np.arange(-4, 4) + float(int(shift[0, 0]) * residue % 1)
        weight = np.exp(-0.5 * v[0] * y * y) / np.exp(-0.5 * v[0] * _TERMS * _TERMS).sum()
        wave = np.cos if real else lambda angle: np.exp(-1j * angle)
        value = sum(w * wave(d * (v * x)) for x, w in zip(y, weight, strict=True) if w > 1e-19)
    return value * _turn(-m * shift, residue, real) if residue else value


def _turn(times: Any, residue: Fraction, real: bool) -> Any:
    """exp(2 pi i times residue), with the product reduced in integer arithmetic, as `times` may be large."""
    angle = 2.0 * np.pi / residue.denominator * (times * residue.numerator % residue.denominator)
    return np.cos(angle) if real else np.exp(1j * angle)


@lru_cache(maxsize=4096)
def curvature(v: float) -> float:
    """Constant c with phi_v(d) <= exp(-c v d^2 / 2) for |d| <= pi / v, exact at |d| = pi / v.

    -log phi_v(d) / d^2 decreases on the cell. For v <= 12 the triple product writes log(phi_v(d) e^(v d^2 / 2)),
    x = 2 pi d <= X = 2 pi^2 / v, as a sum over odd multiples y of X of log(1 + (cosh x - 1) / (1 + cosh y)), and each
    term over x^2 increases because x (1 + cosh x cosh y) >= sinh x (cosh x + cosh y) for x <= y, y >= 1.615. For
    v >= 2.64 it follows from the product over m of 1 - A_m sin^2(v d / 2), A_m = 1 / cosh^2((2 m - 1) v / 4) <= 2 / 3,
    as sin t / (t (2 + cos t)) decreases. With c = 1 the bound would be false.
    """
    k = np.arange(8.0)
    # At the edge the terms lie at odd multiples of it, in equal pairs; the largest pair is factored out.
    if v <= _NARROW:
        waves = 2.0 * np.exp(-2.0 * np.pi**2 / v * k * (k + 1.0)).sum()
        log_edge = (
            -(np.pi**2) / (2.0 * v) + np.log(waves) - np.log1p(2.0 * np.exp(-2.0 * np.pi**2 / v * k[1:] ** 2).sum())
        )
    else:
        weight = np.exp(-0.5 * v * k * k)
        log_edge = np.log1p(2.0 * ((-1.0) ** k * weight)[1:].sum()) - np.log1p(2.0 * weight[1:].sum())
    return float(-2.0 * v * log_edge / np.pi**2)


class NodesNeeded(NamedTuple):
    """Specification of nodes: largest number, spacing, period, threshold, and bound on the omitted terms."""

    last: float
    spacing: float
    period: float
    threshold: Threshold
    left_out: Floats


class Nodes(NamedTuple):
    """Nodes n times `spacing`, quadrature weights, and wave = 1 - e^(-iuh).

    `whole` is True if no node of a period is omitted; `phi` caches Phi by residue.
    """

    n: Floats
    spacing: float
    weight: Floats
    wave: Any
    whole: bool
    blocks: Blocks
    phi: dict[Fraction, Any]


def decay(s: float, wave: Any, h: float) -> Any:
    """Compute 1 - e^(-(s + iu) h) from wave = 1 - e^(-iuh), without cancellation."""
    return np.exp(-s * h) * wave - np.expm1(-s * h)


def lattice_kernels(s: float, wave: Any, h: float, kind: str) -> list[Any]:
    """Kernels on a lattice: a pair for the profile, weighted by the position in a lattice cell, or one for a tail."""
    if kind == "p":
        return [h / decay(s, wave, h)]
    if kind == "q":
        return [h / decay(s + 1.0, wave, h)]
    both = h / (decay(s, wave, h) * decay(s + 1.0, wave, h))
    return [both, both * (np.exp(-s * h) * (1.0 - wave))]


def smooth_kernels(s: float, u: Floats, kind: str) -> list[Any]:
    """Kernel of a tail, of the profile or of the density of a loss that a Gaussian release makes continuous."""
    z = s + 1j * u
    if kind == "density":
        return [np.ones_like(z)]
    return [{"p": 1.0 / z, "q": 1.0 / (z + 1.0), "delta": 1.0 / (z * (z + 1.0))}[kind]]


class Blocks(NamedTuple):
    """Nodes in blocks of 32: numbers of the non-empty blocks, and each node's block and position in it."""

    number: Any
    block: Any
    place: Any

    @classmethod
    def of(cls, n: Floats) -> Blocks:
        block, place = np.divmod(n.astype(np.int64), _BLOCK)
        first = np.concatenate([[True], np.diff(block) > 0]) if n.size else np.zeros(0, dtype=bool)
        return cls(block[first], np.cumsum(first) - 1, place)


def waves(grid: Nodes, turn: Floats, parts: list[Any]) -> list[Floats]:
    """Real parts of sums over nodes n of part(n) e^(i n spacing turn), per turn.

    On the grid a phase is the product of the phase at the start of a block and the phase inside the block.
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
