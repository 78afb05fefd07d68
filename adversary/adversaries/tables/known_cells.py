"""The adversary who knows everybody else: the sum of the tables' log likelihood ratios at the known counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from adversary._core import Integers, as_array
from adversary.adversaries.tables.published import Joined, PublishedTable
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism, PerturbedCount


@lru_cache(maxsize=4096)
def loss_at(noise: Mechanism, others: int) -> PrivacyLoss:
    """Privacy loss of one noisy count between others + 1 and others.

    Parameters
    ----------
    noise : of the count
    others : known number of other people in the cell

    Raises
    ------
    ValueError : post-processed continuous noise, whose releases neither can be listed nor have a density

    >>> from adversary.privacy.mechanisms import RandomRounding
    >>> loss_at(RandomRounding(3), 3).infinite_p.__round__(9)
    0.333333333
    """
    if noise.is_additive or (noise.is_continuous and not noise.steps):
        return noise.pair_loss(others + 1, others)
    if noise.is_continuous:
        raise ValueError(f"{noise.describe()}: such releases cannot be listed; leave the table out, or audit it alone")
    every = np.union1d(noise.support(others), noise.support(others + 1))
    log_p, log_q = (as_array(noise.log_prob(every, value)) for value in (others + 1, others))
    return LatticeLoss.from_log_probs(log_p, log_q)


def known_losses(world: Joined, counts: Integers) -> tuple[Iterator[PrivacyLoss], Integers]:
    """The losses of an adversary who knows everybody else.

    Parameters
    ----------
    world : tables and their finest cells
    counts : true counts of people, (cell,)

    Returns
    -------
    (losses, place): the distinct losses, one after another, and the place of each cell's loss among them, (cell,)
    """
    target = np.minimum(counts, 1)
    known = np.zeros((counts.size, len(world.queries)), dtype=np.int64)
    keys = np.zeros_like(known)
    for i, (query, noise, total) in enumerate(zip(world.queries, world.noises, world.sums(counts), strict=True)):
        if not noise.is_additive:
            known[:, i] = total[query.rows] - target
            keys[:, i] = known[:, i]
            if isinstance(noise, PerturbedCount):
                last = len(noise.transitions[1])
                keys[:, i] = noise.row(known[:, i]) * last + noise.row(known[:, i] + 1)
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)

    def each() -> Iterator[PrivacyLoss]:
        for row in known[first]:
            yield compose_losses([loss_at(noise, int(n)) for noise, n in zip(world.noises, row, strict=True)])

    return each(), place.ravel()


def differenced(world: Joined, tables: Sequence[PublishedTable]) -> NDArray[np.bool_]:
    """Differencing attack on perturbation by cell keys: single people who are the difference of two published cells.

    Cells that hold the same people are perturbed alike. If one cell has all people of another and one more, then
    unequal released numbers reveal that this person is there. Only pairs of cells are examined, of tables with
    `repeat="same"` and the same noise.

    Parameters
    ----------
    world : tables and their finest cells
    tables : the published tables, in the order of `world`

    Returns
    -------
    True for finest cells with such a person, (cell,)

    References
    ----------
    Chipperfield, Gow and Loong 2016, "The Australian Bureau of Statistics and releasing frequency tables via a remote
    server", Statistical Journal of the IAOS 32: keys that depend on who is in a cell.
    """
    exposed = np.zeros(world.size, dtype=bool)
    occupied = np.flatnonzero(world.counts)
    alike = [i for i, owner in enumerate(world.owner) if tables[owner].repeat == "same"]
    for i, j in permutations(alike, 2):
        if world.noises[i] != world.noises[j]:
            continue
        outer, inner = world.queries[i].rows, world.queries[j].rows
        around, size = (np.bincount(rows, world.counts) for rows in (outer, inner))
        first = np.full(size.size, -1)
        first[inner[occupied]] = outer[occupied]
        split = np.zeros(size.size, dtype=bool)
        split[inner[occupied[first[inner[occupied]] != outer[occupied]]]] = True
        inside = (first >= 0) & ~split
        short = np.flatnonzero(inside & (around[first] - size == 1))
        for part in short:
            alone = occupied[(outer[occupied] == first[part]) & (inner[occupied] != part)]
            exposed[alone] = True
    return exposed
