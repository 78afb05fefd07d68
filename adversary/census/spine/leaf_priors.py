r"""Priors of the leaves: an adversary's beliefs about the counts of the smallest units before the release.

The prior decides the answer where the noise is large. An improper uniform prior on every leaf is informative about
sums: n leaves give a total s weight s^(n - 1). So is one common mean, if it is wrong. `SharedRate`, the default, has an
unknown mean that is shared within a block group: leaves inform one another, and the measurements decide the sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from adversary._core import Floats, Integers, check_non_negative, check_positive
from adversary.adversaries.beliefs import Others
from adversary.census.spine.tree import Tree

# Means of the default prior, people per leaf: from nearly empty leaves to those of 40, a factor of 2.6 apart.
MEANS = np.geomspace(0.003, 40.0, 11)


class LeafDistributions(NamedTuple):
    """Prior pmfs of leaves as arrays, each (leaf,): prior(x + 1) / prior(x) = (slope x + start) / (x + 1).

    `base` = log prior(0). With `pmf`, (count,), that list is the prior of every leaf instead.
    """

    slope: Floats
    start: Floats
    base: Floats
    pmf: Floats | None = None


class LeafPrior(ABC):
    """Prior of the counts of the leaves, independent given a shared rate, if there is one."""

    @abstractmethod
    def distributions(self, leaves: int) -> LeafDistributions:
        """Prior pmfs of `leaves` leaves."""

    def part(self, leaves: Integers) -> LeafPrior:
        """Prior of some of the leaves, given by their positions in `tree.leaves`."""
        return self


def _per_leaf(name: str, values: Floats, leaves: int) -> Floats:
    """(leaf,) values, from one number or one per leaf."""
    if values.ndim and values.size != leaves:
        raise ValueError(f"{name} has {values.size} entries for {leaves} leaves")
    return np.broadcast_to(values, (leaves,)).astype(np.float64)


@dataclass(frozen=True)
class Flat(LeafPrior):
    """Improper uniform prior: weight 1 for every count 0, 1, 2, ..."""

    def distributions(self, leaves: int) -> LeafDistributions:
        ones = np.ones(leaves)
        return LeafDistributions(ones, ones, np.zeros(leaves))


@dataclass(frozen=True, eq=False)
class Poisson(LeafPrior):
    """Poisson counts: exp(-mean) mean^x / x!.

    Parameters
    ----------
    mean : people, > 0; one number or (leaf,) in the order of `tree.leaves`
    """

    mean: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check_positive("mean", self.mean))

    def distributions(self, leaves: int) -> LeafDistributions:
        mean = _per_leaf("mean", np.asarray(self.mean), leaves)
        return LeafDistributions(np.zeros(leaves), mean, -mean)

    def part(self, leaves: Integers) -> Poisson:
        mean = np.asarray(self.mean)
        return Poisson(mean[leaves]) if mean.ndim else self


@dataclass(frozen=True, eq=False)
class NegativeBinomial(LeafPrior):
    """Negative binomial counts: Gamma(x + a) / (Gamma(a) x!) (a / (a + mean))^a (mean / (a + mean))^x.

    Parameters
    ----------
    shape : a > 0; below 1 most leaves are empty and few are large
    mean : people, > 0
        each one number or (leaf,) in the order of `tree.leaves`
    """

    shape: ArrayLike
    mean: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_positive("shape", self.shape))
        object.__setattr__(self, "mean", check_positive("mean", self.mean))

    def distributions(self, leaves: int) -> LeafDistributions:
        shape, mean = (_per_leaf(name, np.asarray(getattr(self, name)), leaves) for name in ("shape", "mean"))
        slope = mean / (shape + mean)
        return LeafDistributions(slope, slope * shape, -shape * np.log1p(mean / shape))

    def part(self, leaves: Integers) -> NegativeBinomial:
        shape, mean = np.asarray(self.shape), np.asarray(self.mean)
        return NegativeBinomial(*(x[leaves] if x.ndim else x for x in (shape, mean)))


@dataclass(frozen=True, eq=False)
class Pmf(LeafPrior):
    """Any discrete distribution on 0, 1, 2, ..., the same for every leaf.

    Parameters
    ----------
    law : (count,) pmf over 0, 1, 2, ..., or a frozen discrete `scipy.stats` or PreliZ distribution, listed over the
        counts that have nearly all of its mass; ValueError if these are more than 65,536
    """

    law: Any
    pmf: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first, log_p = Others(self.law).followed()
        pmf = np.concatenate([np.zeros(first), np.exp(log_p)])
        object.__setattr__(self, "pmf", pmf)

    def distributions(self, leaves: int) -> LeafDistributions:
        ones = np.ones(leaves)
        return LeafDistributions(ones, ones, np.zeros(leaves), self.pmf)


@dataclass(frozen=True, eq=False)
class SharedRate(LeafPrior):
    r"""Mixture prior: an unknown mean from a grid, shared by the leaves of each parent and summed over exactly.

    Given the mean mu_j, leaves are negative binomial of a fixed shape (or Poisson). For different means, their pmfs
    differ by a factor exp(eta_j x) k_j only, so the mixture is a function of the total X of the n leaves:

    .. math:: H(X) = \sum_j w_j k_j^n e^{\eta_j X}

    with eta = log(mu / (a + mu)), k = (a / (a + mu))^a (Poisson: eta = log mu, k = exp(-mu)).

    A leaf whose count is determined without noise (its own count is exact, or exact counts and bounds allow one value)
    does not share the mean; it has a mean of its own, from the same grid. So blocks that have exactly nobody, because
    they have no facility, do not lower the estimate for a block that has one.

    Parameters
    ----------
    means : (rate,) grid of means, people per leaf, > 0
    weights : (rate,) prior weights, normalised to sum to 1; default equal
    shape : a > 0, or None for Poisson leaves
    within : "parent": every parent of leaves has its own rate; "tree": one rate for all; or the name of a level: one
        rate in each of its units
    """

    means: ArrayLike = field(default_factory=MEANS.copy)
    weights: ArrayLike | None = None
    shape: float | None = 0.5
    within: str = "parent"

    def __post_init__(self) -> None:
        means = np.atleast_1d(check_positive("means", self.means))
        weights = np.ones(means.size) if self.weights is None else check_non_negative("weights", self.weights)
        if weights.shape != means.shape:
            raise ValueError(f"weights must be as many as means, {means.size}, got {weights.size}")
        if not weights.sum() > 0:
            raise ValueError(f"weights must have a positive sum, got {weights.tolist()}")
        if self.shape is not None:
            check_positive("shape", self.shape)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "weights", weights / weights.sum())

    def distributions(self, leaves: int) -> LeafDistributions:
        ones, zeros = np.ones(leaves), np.zeros(leaves)
        return (
            LeafDistributions(zeros, ones, zeros)
            if self.shape is None
            else LeafDistributions(ones, self.shape * ones, zeros)
        )

    @property
    def eta(self) -> Floats:
        """(rate,) natural parameters, per person."""
        means = np.asarray(self.means)
        return np.log(means) if self.shape is None else -np.log1p(self.shape / means)

    @property
    def log_norm(self) -> Floats:
        """(rate,) log k_j, the log probability of an empty leaf."""
        means = np.asarray(self.means)
        return -means if self.shape is None else -self.shape * np.log1p(means / self.shape)

    @property
    def log_weight(self) -> Floats:
        """(rate,) log prior weights."""
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.weights))

    def _log_mixture(self, counts: Floats) -> Floats:
        """(count,) log of sum_j w_j k_j exp(eta_j x)."""
        log_p = (self.log_weight + self.log_norm)[:, None]
        return np.asarray(logsumexp(log_p + np.multiply.outer(self.eta, counts), axis=0))

    def log_mass_alone(self, counts: Floats) -> Floats:
        """(leaf,) log prior probability of counts of leaves that each have a mean of their own."""
        shape = 1.0 if self.shape is None else self.shape
        ways = gammaln(counts + shape) - gammaln(shape) if self.shape is not None else 0.0
        return np.asarray(self._log_mixture(counts) + ways - gammaln(counts + 1.0))

    def log_ratio_alone(self, counts: Floats) -> Floats:
        """(leaf,) log p(x - 1) / p(x) at counts x >= 1, for leaves that each have a mean of their own."""
        one = self.distributions(1)
        step = np.log(counts / (one.slope * (counts - 1.0) + one.start))
        return self._log_mixture(counts - 1.0) - self._log_mixture(counts) + step

    def weighted(self, weights: ArrayLike) -> SharedRate:
        """Prior with the same grid and other weights."""
        return SharedRate(self.means, weights, self.shape, self.within)


def sharing_units(tree: Tree, prior: SharedRate, messages: Mapping[str, Any]) -> Integers:
    """(leaf,) index of the unit within which each leaf shares its rate; -1 for a leaf replaced by a message.

    ValueError if the prior's `within` does not fit the tree.
    """
    own = tree.children == 0
    own[[tree.index(name) for name in messages]] = False
    if own[0]:
        raise ValueError(
            f"a rate is shared by several units, got {str(tree.names[0])!r} alone: give its count a prior of its own, "
            "flat or negative binomial"
        )
    above = np.where(own, tree.parent, -1)[tree.leaves]
    if prior.within == "parent":
        count = np.bincount(above[above >= 0], minlength=len(tree))
        mixed = (count > 0) & (count < tree.children)
        if mixed.any():
            raise ValueError(
                f"unit {str(tree.names[np.flatnonzero(mixed)[0]])!r} has both leaves, which share a rate, and units "
                "with children of their own: put its leaves into a unit between, or share the rate within='tree'"
            )
        return above
    if messages:
        raise ValueError("a tree with messages of subtrees needs rates shared within parents")
    if prior.within == "tree":
        return np.zeros_like(above)
    if prior.within not in tree.levels:
        raise ValueError(
            f"within must be 'parent', 'tree' or one of the levels {list(tree.levels)}, got {prior.within!r}"
        )
    level = tree.levels.index(prior.within)
    for _ in tree.generations:
        above = np.where((above > 0) & (tree.level[above] > level), tree.parent[above], above)
    if (tree.level[above] != level).any():
        name = str(tree.names[tree.leaves[tree.level[above] != level][0]])
        raise ValueError(f"within must be a level above every leaf, {name!r} lies below no unit of {prior.within!r}")
    return above


def default_prior(tree: Tree, messages: Mapping[str, Any]) -> LeafPrior:
    """Default prior: `SharedRate` within parents, or within the tree if some leaves have siblings with children.

    `Flat` for a tree of one unit: it has no other leaves from which to estimate a mean, so any mean would decide.
    """
    if len(tree) == 1:
        return Flat()
    leaves = np.bincount(tree.parent[tree.leaves], minlength=len(tree))
    mixed = ((leaves > 0) & (leaves < tree.children)).any()
    return SharedRate(within="tree") if mixed and not messages else SharedRate()
