"""Brute force for trees of counts: every vector of leaf counts written out on one grid, all factors multiplied.

Nothing is imported from the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp


def flat(x: Any) -> Any:
    """Weight one per count."""
    return np.zeros(np.shape(x))


def poisson(mean: float) -> Callable[[Any], Any]:
    """Log pmf."""
    return lambda x: x * np.log(mean) - mean - gammaln(x + 1.0)


def negative_binomial(shape: float, mean: float) -> Callable[[Any], Any]:
    """Log pmf by shape and mean."""
    q = mean / (shape + mean)
    return lambda x: gammaln(x + shape) - gammaln(shape) - gammaln(x + 1.0) + x * np.log(q) + shape * np.log1p(-q)


def listed(pmf: Sequence[float]) -> Callable[[Any], Any]:
    """Log of a pmf over 0, 1, ..."""
    table = np.concatenate([np.asarray(pmf, dtype=float), [0.0]])

    def log_pmf(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(table[np.minimum(np.asarray(x).astype(int), table.size - 1)])

    return log_pmf


@dataclass
class Enumeration:
    """A tree by its parents (-1 at the root), one cell, leaf counts up to `most`.

    `log_like` are functions of a unit's count, None where nothing was measured. `groups` are lists of leaves that share
    one of several equally long lists of laws: (leaves, log weights, laws). A leaf that has one count in all vectors
    that are possible is no draw of what others share: it has one of these laws by itself.
    """

    parents: Sequence[int]
    log_like: Sequence[Callable[[Any], Any] | None]
    most: int
    groups: Sequence[tuple[Sequence[int], Sequence[float], Sequence[Callable[[Any], Any]]]]

    @cached_property
    def leaves(self) -> list[int]:
        return [v for v in range(len(self.parents)) if v not in self.parents]

    @cached_property
    def counts(self) -> Any:
        """(unit, vector) counts of all units in every vector of leaf counts."""
        grid = np.indices((self.most + 1,) * len(self.leaves)).reshape(len(self.leaves), -1)
        counts = np.zeros((len(self.parents), grid.shape[1]))
        for leaf, values in zip(self.leaves, grid, strict=True):
            v = leaf
            while v >= 0:
                counts[v] += values
                v = self.parents[v]
        return counts

    @cached_property
    def settled(self) -> list[int]:
        likes = [like(x) for like, x in zip(self.log_like, self.counts, strict=True) if like is not None]
        possible = self.counts[:, np.isfinite(sum(likes, np.zeros(self.counts.shape[1])))]
        return [leaf for leaf in self.leaves if possible.size and np.ptp(possible[leaf]) == 0.0]

    @cached_property
    def draws(self) -> list[Any]:
        """The groups, settled leaves by themselves."""
        alone = [([leaf], *laws) for leaves, *laws in self.groups for leaf in leaves if leaf in self.settled]
        rest = [([leaf for leaf in leaves if leaf not in self.settled], *laws) for leaves, *laws in self.groups]
        return [*(group for group in rest if group[0]), *alone]

    def log_weights(self, known: int = -1, more: int = 0) -> Any:
        """(vector,) log weight; without the measurement of one leaf, if it is known, with so many people in it who are
        there whatever its law says.
        """
        total = np.zeros(self.counts.shape[1])
        for v, log_like in enumerate(self.log_like):
            if log_like is not None and v != known:
                total = total + log_like(self.counts[v])
        for leaves, weights, laws in self.draws:
            own = [
                leaf for leaf in leaves if len(laws) > 1 or leaf != known
            ]  # of a law that is known, nothing is learned
            drawn = [self.counts[leaf] - more * (leaf == known) for leaf in own]
            with np.errstate(invalid="ignore"):
                rates = [w + sum(np.where(x < 0, -np.inf, law(np.maximum(x, 0.0))) for x in drawn)
                         for w, law in zip(weights, laws, strict=True)]  # fmt: skip
            total = total + logsumexp(np.array([np.broadcast_to(r, total.shape) for r in rates]), axis=0)
        return total

    @cached_property
    def log_evidence(self) -> float:
        return float(logsumexp(self.log_weights()))

    def pmf(self, unit: int) -> Any:
        """Posterior pmf of a unit's count, over 0, 1, ..."""
        return np.bincount(self.counts[unit].astype(int), np.exp(self.log_weights() - self.log_evidence))

    def mean(self, unit: int) -> float:
        p = self.pmf(unit)
        return float(p @ np.arange(p.size))

    def log_bayes_factor(self, leaf: int, known: int) -> float:
        """Log evidence with one more than known in the leaf minus that with the known alone, who are draws of its law;
        its own measurement included.
        """
        here = self.counts[leaf]
        both = [float(logsumexp(self.log_weights(leaf, i)[here == known + i])) for i in (0, 1)]
        own = self.log_like[leaf]
        measured = 0.0 if own is None else float(own(np.array(known + 1.0)) - own(np.array(float(known))))
        return both[1] - both[0] + measured
