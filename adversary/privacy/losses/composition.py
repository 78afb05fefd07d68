"""Composition of privacy losses: the loss of independent releases is the sum of their losses.

Exact where possible: explicit lattices are convolved, discrete Gaussians use their certified engine, and one lattice
plus one loss of another kind is a mixture. All other sums are bracketed on a grid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from adversary._core import check_whole
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from adversary.privacy.losses.composed_loss import ComposedLoss
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.losses.grid_rounding import (
    MAX_ATOMS,
)
from adversary.privacy.losses.lattice import NOTHING, LatticeLoss, convolve_lattices, repeat_product
from adversary.privacy.losses.loss import PrivacyLoss, way_to_loss
from adversary.privacy.losses.mixed import MixedLoss
from adversary.privacy.losses.repetition import FEWER, MANY, RepeatedLoss

# Largest rho of a contour sum, which takes too long beyond; such releases give practically no guarantee.
MOST_RHO = 1e9

# Largest number of atoms of a lattice that is mixed exactly with a loss of another kind.
MIXED_ATOMS = 2_000


def compose_losses(parts: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Privacy loss of independent releases: the sum of their losses.

    Exact where possible: Gaussian losses add mu^2, explicit lattices are convolved, discrete Gaussians use their
    certified engine, and one small lattice plus one other loss is a mixture. Otherwise a bracketed `ComposedLoss`.

    Parameters
    ----------
    parts : privacy losses; an empty sequence gives the loss 0

    Returns
    -------
    PrivacyLoss of all releases together.

    Raises
    ------
    TypeError : a part that is not a PrivacyLoss; the message names the conversion

    >>> compose_losses([GaussianLoss(3.0), GaussianLoss(4.0)])
    GaussianLoss(mu=5.0)
    """
    for part in parts:
        if not isinstance(part, PrivacyLoss):
            raise TypeError(f"losses are composed with losses, got {part!r}{way_to_loss(part)}")
    counted, first = Counter[PrivacyLoss](), dict[Any, PrivacyLoss]()
    for part in parts:
        for one in part.summands:
            for q, times in one.counted.items() if isinstance(one, ComposedLoss) else [(one, 1)]:
                # Equal lattices count as one loss with a multiplicity, which repeated squaring composes.
                alike = first.setdefault(q.fingerprint, q) if isinstance(q, LatticeLoss) else q
                counted[alike] += 0 if q.is_nothing else times
    return _compose(+counted)


def _compose(counted: Counter[PrivacyLoss]) -> PrivacyLoss:
    """Sum of losses with their multiplicities."""
    gaussians = {part: times for part, times in counted.items() if isinstance(part, GaussianLoss)}
    discrete = [part.times(times) for part, times in counted.items() if isinstance(part, DiscreteGaussianLoss)]
    lattices = {part: times for part, times in counted.items() if isinstance(part, LatticeLoss)}
    rest = [
        *((part, times) for part, times in counted.items() if isinstance(part, LaplaceLoss)),
        *(
            (part, times)
            for part, times in counted.items()
            if not isinstance(part, GaussianLoss | DiscreteGaussianLoss | LatticeLoss | LaplaceLoss)
        ),
    ]
    variance = float(sum(times * part.mu**2 for part, times in gaussians.items()))
    if discrete:
        whole = reduce(DiscreteGaussianLoss.beside, discrete)
        rest.append((DiscreteGaussianLoss(whole.families, variance + whole.variance, whole.goal), 1))
    elif gaussians:
        rest.append((GaussianLoss(float(np.sqrt(variance))), 1))
    listed = _multiplied(lattices)
    few = len(rest) == 1 and rest[0][1] == 1
    if not rest and len(listed) <= 1 and all(times == 1 for _, times in listed):
        return listed[0][0] if listed else NOTHING
    if few and not listed:
        return rest[0][0]
    if few and len(listed) == 1 and listed[0][1] == 1 and listed[0][0].losses.size <= MIXED_ATOMS:
        return _compose_lattice(listed[0][0], rest[0][0])
    every = [*listed, *rest]
    return ComposedLoss(tuple(part for part, _ in every), tuple(times for _, times in every))


def _compose_lattice(lattice: LatticeLoss, other: PrivacyLoss) -> PrivacyLoss:
    """Sum of a lattice and another loss: a lattice if the other is listed and short, otherwise a mixture."""
    atoms = other.law
    if isinstance(atoms, LatticeLoss) and atoms.losses.size * lattice.losses.size <= MAX_ATOMS // 10:
        return replace(convolve_lattices(lattice, atoms), parts=(lattice, other))
    return MixedLoss(lattice, other)


def repeat_loss(loss: PrivacyLoss, times: int) -> PrivacyLoss:
    """Privacy loss of `times` independent releases with the same loss.

    Lattices are composed by repeated squaring while the products are short; other losses as by `compose_losses`. For
    more than `MANY` releases a grid whose spacing grows with their number is used.

    Parameters
    ----------
    loss : loss of one release
    times : number of releases, >= 0; 0 gives the loss 0

    Returns
    -------
    PrivacyLoss of all releases together.

    Raises
    ------
    ValueError : times negative or not whole
    TypeError : not a PrivacyLoss

    >>> repeat_loss(GaussianLoss(1.0), 4)
    GaussianLoss(mu=2.0)
    """
    n = int(check_whole("times", times, minimum=0))
    if not isinstance(loss, PrivacyLoss):
        raise TypeError(f"losses are composed with losses, got {loss!r}{way_to_loss(loss)}")
    if isinstance(loss, DiscreteGaussianLoss) and n:
        few = max(1, int(MOST_RHO / loss.rho)) if loss.rho > 0.0 else n
        return loss.times(n) if n <= few or n == 1 else RepeatedLoss(loss, n, loss.times(few))
    if n == 0 or loss.is_nothing:
        return NOTHING
    if n == 1:
        return loss
    if isinstance(loss, GaussianLoss):
        return GaussianLoss(float(loss.mu * np.sqrt(n)))
    if loss.summands != (loss,):
        return compose_losses([repeat_loss(part, n) for part in loss.summands])
    if isinstance(loss, ComposedLoss):
        return compose_losses([repeat_loss(part, n * times) for part, times in loss.counted.items()])
    if n > MANY:
        return RepeatedLoss(loss, n, repeat_loss(loss, FEWER))
    return _compose(Counter({loss: n}))


def _multiplied(lattices: dict[LatticeLoss, int]) -> list[tuple[LatticeLoss, int]]:
    """Lattices convolved while the products are short; longer ones keep their multiplicities."""
    done: list[tuple[LatticeLoss, int]] = []
    for lattice, times in lattices.items():
        power = _listed_power(lattice, times)
        if power is None:
            done.append((lattice, times))
        elif done and done[-1][1] == 1 and done[-1][0].losses.size * power.losses.size <= MAX_ATOMS:
            done[-1] = (convolve_lattices(done[-1][0], power), 1)
        else:
            done.append((power, 1))
    return done


def _listed_power(lattice: LatticeLoss, times: int) -> LatticeLoss | None:
    """Sum of `times` copies as a list, by repeated squaring; None if the products get too long."""

    def together(a: LatticeLoss | None, b: LatticeLoss | None) -> LatticeLoss | None:
        if a is None or b is None or a.losses.size * b.losses.size > MAX_ATOMS:
            return None
        return convolve_lattices(a, b)

    # The sum has at least that many atoms, and the last product multiplies two sums of half the copies.
    if times * (lattice.losses.size - 1) > 4 * math.isqrt(MAX_ATOMS):
        return None
    start: LatticeLoss | None = lattice
    return lattice if times == 1 else repeat_product(start, times - 1, lattice, together)
