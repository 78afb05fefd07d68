"""Noise of statistical offices: the distribution of a release is the row of a table that belongs to the count.

Random rounding is defined here, perturbation tables (the cell-key method) in `perturbation_table`. The distribution of
release minus count depends on the count, so a privacy loss is that of the worst count: it dominates the losses of all
counts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    as_array,
    check_whole,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions import concentrated_rho
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses, lattice_above, repeat_loss
from adversary.privacy.mechanisms.calibrated import Exact
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of

MOST_BASE = 1000
_ROUNDS = 40

# Nats: exp(700) is close to the largest double.
_LARGEST = 700.0

# Distance in nats within which two losses are merged: masses between closer ones are dominated by rounding.
_ROUNDING = 1e-9

# Smallest number of losses at which the pairs of a table are compared; largest number of terms summed for it.
_FEWEST_NODES, _MOST_STEPS = 256, 50_000_000


class TabledReleases(Mechanism):
    """Mechanism whose releases are the whole numbers of a table, with cumulative sums from both ends."""

    __slots__ = ()

    @abstractmethod
    def _mass(self, release: ArrayLike, value: ArrayLike, above: int) -> Floats:
        """P(a release <= `release`) or, if `above` is 1, P(a release > `release`), by sums from that end."""

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self.log_likelihood(check_whole("release", release), self.check_value(value)))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self._mass(release, value, 0))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array(self._mass(release, value, 1))


class PerturbedCount(TabledReleases):
    """Mechanism whose distribution of releases is a row of a table, selected by the count.

    Subclasses are frozen dataclasses with `transitions`, `row` and `describe`. Counts are whole numbers >= 0.
    """

    __slots__ = ()

    is_continuous = False
    is_additive = False

    @property
    @abstractmethod
    def transitions(self) -> tuple[Integers, Floats]:
        """(consecutive perturbations, ascending; their probabilities (row, perturbation)).

        Row i belongs to count i; counts above the last row share one of the rows (see `row`).
        """

    @abstractmethod
    def row(self, value: ArrayLike) -> Any:
        """Index of the row of each count; counts are whole numbers >= 0."""

    @property
    def largest_count(self) -> float:
        """Largest possible count; infinite if every count has a row."""
        return np.inf

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        count = check_whole(name, value, minimum=0)
        if (count > self.largest_count).any():
            raise ValueError(
                f"{name} must be at most {self.largest_count}, the last row of a closed table, got {int(count.max())}"
            )
        return count

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        steps, log_p = _law(self)[:2]
        release, value = np.broadcast_arrays(as_array(release), as_array(value))
        column = release - value - steps[0]
        place = np.clip(column, 0, steps.size - 1).astype(np.int64)
        count = np.maximum(value, 0.0).astype(np.int64)
        possible = (place == column) & (count == value) & (value <= self.largest_count)
        return np.where(possible, log_p[self.row(count), place], -np.inf)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return float(np.abs(_law(self)[0]).max())

    def _mass(self, release: ArrayLike, value: ArrayLike, above: int) -> Floats:
        """Cumulative sums of a row's probabilities, from either end."""
        steps, _, sums = _law(self)
        count = self.check_value(value)
        column = np.clip(check_whole("release", release) - count - steps[0] + 1, 0, steps.size)
        return np.asarray(sums[above][self.row(count), column])

    @property
    def variance(self) -> float:
        """Mean square of release minus count, at the count where it is largest."""
        steps, probs = self.transitions
        return float((probs @ steps.astype(np.float64) ** 2).max())

    @property
    def smallest_release(self) -> float:
        return float(min(self.support(value)[0] for value in range(len(self.transitions[1]))))

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        """Simulated releases, by inversion of the cumulative sums of the row."""
        steps, _, sums = _law(self)
        count = self.check_value(value)
        count = np.broadcast_to(count, count.shape if size is None else size)
        below = sums[0][self.row(count)]
        column = (below[..., 1:] <= rng.random(count.shape)[..., None] * below[..., -1:]).sum(-1)
        return scalar_or_array(count + steps[column])

    def support(self, value: int) -> Integers:
        count = int(one_number("value", self.check_value(value)))
        steps, probs = self.transitions
        return np.asarray(count + steps[probs[self.row(count)] > 0.0])

    def total(self, count: int) -> Mechanism:
        if (count := int(check_whole("count", count, minimum=0))) <= 1:
            return self if count else Exact()
        raise ValueError(
            f"count must be at most 1, got {count}: the noise of such releases depends on the counts, so their sum has "
            "no law of its own. Read the siblings one by one, with a belief Each"
        )

    def scaled(self, factor: float) -> Self:
        """The mechanism itself: a table has no budget."""
        root_of(factor)
        return self

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Smallest loss that dominates all counts: log P(release | count + sensitivity) / P(release | count).

        Releases that are impossible for one of the two counts have infinite loss. Each cell may have its worst count.
        """
        change, cells = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", one_number("sensitivity", change), minimum=0))
        if shift > self.largest_count:
            raise ValueError(
                f"sensitivity must be at most {self.largest_count}, the largest difference of two counts, got {shift}"
            )
        return repeat_loss(worst_loss(self, (shift,)), cells) if shift and cells else compose_losses([])

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """Smallest loss that dominates all counts and all changes up to `most`."""
        largest = int(check_whole("contribution", one_number("contribution", most), minimum=0))
        shifts = tuple(range(1, int(min(largest, self.largest_count)) + 1))
        return repeat_loss(worst_loss(self, shifts), cells) if shifts and cells else compose_losses([])

    def contribution_rho(self, most: float) -> float:
        return concentrated_rho(self.contribution_loss(most))


@lru_cache(maxsize=256)
def _law(noise: PerturbedCount) -> tuple[Integers, Floats, tuple[Floats, Floats]]:
    """Perturbations, log probabilities, and cumulative sums: P(perturbation < step k) and P(perturbation >= step k)."""
    steps, probs = noise.transitions
    with np.errstate(divide="ignore"):
        return steps, np.log(probs), sums_from_either_end(probs)


def sums_from_either_end(probs: Floats) -> tuple[Floats, Floats]:
    """P(place < k) and P(place >= k) for k = 0, ..., number of places, of distributions (row, place)."""
    none = np.zeros((len(probs), 1))
    below = np.concatenate([none, np.cumsum(probs, axis=1)], axis=1)
    above = np.concatenate([np.cumsum(probs[:, ::-1], axis=1)[:, ::-1], none], axis=1)
    return np.minimum(below, 1.0), np.minimum(above, 1.0)


class _Worst:
    """Maximum over pairs of distributions of their profiles; log probabilities (pair, release)."""

    def __init__(self, log_p: Floats, log_q: Floats) -> None:
        self.log_p, self.log_q, self.p = log_p, log_q, np.exp(log_p)
        with np.errstate(invalid="ignore"):
            self.losses = np.nan_to_num(log_p - log_q, nan=-np.inf, posinf=np.inf, neginf=-np.inf)

    def each(self, epsilon: ArrayLike) -> Floats:
        """Profile of every pair, (pair, epsilon)."""
        nodes = np.atleast_1d(np.minimum(as_array(epsilon), _LARGEST))
        deltas = [(self.p * -np.expm1(np.minimum(e - self.losses, 0.0))).sum(-1) for e in nodes]
        return np.stack(deltas, axis=-1)

    def delta(self, epsilon: ArrayLike) -> Floats:
        return np.reshape(self.each(epsilon).max(axis=0), np.shape(epsilon))

    @property
    def swapped(self) -> _Worst:
        return _Worst(self.log_q, self.log_p)


@lru_cache(maxsize=256)
def worst_loss(noise: PerturbedCount, shifts: Sequence[int]) -> LatticeLoss:
    """Smallest loss that dominates the pairs (count + shift, count) of all counts; a negative shift swaps a pair."""
    width = _law(noise)[0].size + max(map(abs, shifts))
    pairs = np.concatenate([_pairs(noise, abs(shift), width)[:, :: 1 if shift > 0 else -1] for shift in shifts])
    # A loss does not depend on the order of releases: sort them, so that equal pairs can be merged.
    ranked = np.lexsort((pairs[:, 1], pairs[:, 0]), axis=-1)
    pairs = np.unique(np.take_along_axis(pairs, ranked[:, None], -1), axis=0)
    return dominating_pairs(pairs[:, :, np.isfinite(pairs).any(axis=(0, 1))])


def _pairs(noise: PerturbedCount, shift: int, width: int) -> Floats:
    """Log probabilities of all releases, (pair, count + shift or count, release)."""
    steps, log_p, _ = _law(noise)
    count = np.arange(int(min(len(log_p), noise.largest_count - shift + 1)))
    both = np.full((count.size, 2, width), -np.inf)
    both[:, 0, shift : shift + steps.size] = log_p[noise.row(count + shift)]
    both[:, 1, : steps.size] = log_p[noise.row(count)]
    return both


def dominating_pairs(pairs: Floats) -> LatticeLoss:
    """Smallest loss that dominates several pairs of distributions: the loss with the maximum of their profiles.

    Each profile is linear in e^epsilon between its losses, so the maximum is linear between all losses and the points
    where two profiles cross (Zhu, Dong and Wang 2022, Proposition 8). If there are too many losses, some are omitted;
    the chords past them lie above the profile.

    Parameters
    ----------
    pairs : log probabilities, (pair, hypothesis, release); the first hypothesis is P
    """
    worst = _Worst(pairs[:, 0], pairs[:, 1])
    nodes = _apart(worst.losses[np.isfinite(worst.losses)])
    most = max(_FEWEST_NODES, _MOST_STEPS // worst.p.size)
    if nodes.size > most:
        # Half of the nodes equally spaced, half at quantiles of the losses.
        even = np.linspace(0.0, 1.0, most // 2)
        some = np.append(nodes[0] + even * np.ptp(nodes), np.quantile(nodes, even))
        return lattice_above(worst, _apart(np.clip(some, nodes[0], nodes[-1])))  # type: ignore[arg-type]
    for _ in range(_ROUNDS):
        sides = (worst, nodes[nodes >= 0.0]), (worst.swapped, -nodes[nodes <= 0.0][::-1])
        (first, right), (second, left) = (_crossings(one, some) for one, some in sides)
        if (alone := first & second).any():
            return LatticeLoss.from_log_probs(*pairs[int(np.argmax(alone))])
        nodes, before = _apart(np.concatenate([nodes, right, -left])), nodes.size
        if nodes.size == before:
            break
    return lattice_above(worst, nodes)  # type: ignore[arg-type]


def _crossings(worst: _Worst, nodes: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Mask of pairs with the largest profile at all nodes >= 0, and losses at which two largest profiles cross."""
    delta = worst.each(nodes)
    best = delta.max(axis=0)
    one, other = delta.argmax(axis=0)[:-1], delta.argmax(axis=0)[1:]
    here, there = np.arange(one.size), np.arange(1, one.size + 1)
    first, last = delta[one, here] - delta[other, here], delta[other, there] - delta[one, there]
    cross = np.flatnonzero((first > 1e-15 * best[:-1]) & (last > 1e-15 * best[1:]))
    share = first[cross] / (first[cross] + last[cross])
    ends = np.exp(nodes)
    crossings = np.log(ends[cross] + share * (ends[cross + 1] - ends[cross]))
    return (delta >= best * (1.0 - 1e-15)).all(axis=1), crossings


def _apart(losses: Floats) -> Floats:
    """Losses and 0, ascending; of losses that differ only by rounding, the farthest from 0 remains."""
    size = np.unique(np.abs(losses))
    size = size[np.diff(size, append=np.inf) > _ROUNDING * np.maximum(size, 1.0)]
    size = np.append(size[:-1][size[:-1] > _ROUNDING], size[-1:])
    place = np.searchsorted(size, np.abs(losses))
    return np.unique(np.append(np.sign(losses) * size[place], 0.0))


@dataclass(frozen=True, slots=True)
class RandomRounding(PerturbedCount):
    """Unbiased random rounding to the multiple of `base` below or above, with probabilities that preserve the mean.

    A count r above a multiple is rounded up with probability r / base; multiples are unchanged. A multiple is never
    released as another one, so that its loss against the neighbouring counts is infinite with probability 1 / base.

    `variance` is the mean square of release minus count at the count where it is largest.

    Parameters
    ----------
    base : whole number from 2 to 1000; usually 3 or 5

    Raises
    ------
    ValueError : a base that is out of range or not a whole number

    >>> RandomRounding(3).support(4).tolist(), RandomRounding(3).log_prob(6, 4) == float(np.log(1 / 3))
    ([3, 6], True)
    """

    kind = "random rounding"
    parameters = ("base",)

    base: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", int(check_whole("base", one_number("base", self.base), minimum=2)))
        if self.base > MOST_BASE:
            raise ValueError(f"base must be at most {MOST_BASE}, got {self.base}")

    def describe(self) -> str:
        return f"unbiased random rounding to multiples of {self.base}"

    @property
    def transitions(self) -> tuple[Integers, Floats]:
        b, rest = self.base, np.arange(self.base)
        probs = np.zeros((b, 2 * b - 1))
        probs[rest, b - 1 - rest] = (b - rest) / b
        probs[rest[1:], 2 * b - 1 - rest[1:]] = rest[1:] / b
        return np.arange(1 - b, b), probs

    def row(self, value: Any) -> Any:
        return value % self.base
