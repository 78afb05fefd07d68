"""The adversary who knows everybody else: the tables' own log ratios at the known counts add."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from adversary._core import Integers, as_array
from adversary.adversaries.tables.published import Joined
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism, PerturbedCount


@lru_cache(maxsize=4096)
def loss_at(noise: Mechanism, others: int) -> PrivacyLoss:
    """Law of the log ratio of one count, that of others and one more against that of others.

    Parameters
    ----------
    noise : of the count
    others : in the same cell, who are known

    Raises
    ------
    ValueError : continuous noise that something is done to, whose releases are neither listed nor have a density

    >>> from adversary.privacy.mechanisms import RandomRounding
    >>> loss_at(RandomRounding(3), 3).infinite_p.__round__(9)
    0.333333333
    """
    if noise.is_additive:
        return noise.privacy_loss(1, 1)
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
    counts : people, (cell,)

    Returns
    -------
    (losses, which of them each cell has)
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
