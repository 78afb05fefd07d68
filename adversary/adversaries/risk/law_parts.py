"""Independent parts of a log Bayes factor: listed values with their weights, or a continuous loss.

Averages over one part are computed at many shifts at once: one shift for each value of the other part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, as_array, log_sum_exp
from adversary.adversaries.path import ImpossibleRelease
from adversary.privacy.losses import PrivacyLoss

# Distance (relative, for losses above 1) within which two sums of losses are the same value up to rounding.
COINCIDENT = 1e-12

# Probability below which a release is left out.
UNSEEN = 1e-22

_FEW, _WIDTH, _NODES = 2_000, 0.25, 10
_MANY = 1_000_000


def pairwise_dot(weights: Floats, values: Floats) -> float:
    """Sum of products, pairwise: accurate over millions of terms."""
    return float((weights * values).sum())


def tails(weights: Floats) -> Floats:
    """Sums of the weights from each place on, and 0 past the end."""
    return np.append(np.cumsum(weights[::-1])[::-1], 0.0)


class DiscretePart:
    """An independent part of the log Bayes factor: sorted values and their weights under the truth."""

    def __init__(
        self, values: Floats, weights: Floats, log_exponential_mean: Callable[[], float] | None = None
    ) -> None:
        self._log_exponential_mean = log_exponential_mean
        # Quicksort is faster for many values; it may swap equal ones, which changes sums by rounding only.
        order = np.argsort(values, kind="stable" if values.size <= _MANY else "quicksort")
        self.values, self.weights = values[order], weights[order]

    @cached_property
    def _below(self) -> Floats:
        return np.append(0.0, np.cumsum(self.weights))

    @cached_property
    def _above(self) -> Floats:
        return tails(self.weights)

    @property
    def log_exponential_mean(self) -> float:
        """log E[exp(part)]; infinite if a value is; from its closed form if that is known."""
        if self._log_exponential_mean is not None:
            return self._log_exponential_mean()
        used = self.weights > 0
        return float(log_sum_exp(np.log(self.weights[used]) + self.values[used]))

    def plus(self, other: DiscretePart) -> DiscretePart:
        """The sum of two independent parts, with coincident values merged."""
        return _merge_equal(
            DiscretePart(*outer_sum(self, other), lambda: self.log_exponential_mean + other.log_exponential_mean)
        )

    def without(self, lost: float) -> DiscretePart:
        """The part without its least probable values, whose total weight is at most `lost`."""
        keep = probable(self.weights, lost)
        return (
            self
            if keep.all()
            else DiscretePart(self.values[keep], self.weights[keep], lambda: self.log_exponential_mean)
        )

    @cached_property
    def condensed(self) -> DiscretePart:
        """A part of few values with the same averages of expit(t + part), for every t, to rounding.

        Each weight is spread over the nodes of its interval as Chebyshev interpolation would: expit's poles, a distance
        of pi away, leave an error of about (8 pi / width)^-nodes. Weights may be negative.
        """
        if self.values.size <= _FEW:
            return self
        if not (finite := np.isfinite(self.values)).all():
            inside, rest = DiscretePart(self.values[finite], self.weights[finite]).condensed, ~finite
            values = np.append(inside.values, self.values[rest])
            return DiscretePart(values, np.append(inside.weights, self.weights[rest]))
        place = (self.values - self.values[0]) / _WIDTH
        cell = np.floor(place)
        starts = np.append(0, np.flatnonzero(np.diff(cell)) + 1)
        if starts.size * _NODES >= self.values.size:
            return self
        x = 2.0 * (place - cell) - 1.0
        polynomial, following = np.ones_like(x), x
        moments = np.empty((starts.size, _NODES))
        for k in range(_NODES):
            moments[:, k] = np.add.reduceat(self.weights * polynomial, starts)
            polynomial, following = following, 2.0 * x * following - polynomial
        angle = (np.arange(_NODES) + 0.5) * np.pi / _NODES
        spread = np.cos(np.arange(_NODES)[:, None] * angle) * (2.0 / _NODES)
        spread[0] /= 2.0
        nodes = self.values[0] + _WIDTH * (cell[starts, None] + 0.5 * (1.0 + np.cos(angle)))
        return DiscretePart(nodes.ravel(), (moments @ spread).ravel())

    def gathered(self, groups: int) -> DiscretePart:
        """The part with its values merged into at most `groups` intervals of equal width, each at its mean."""
        if self.values.size <= groups or not np.isfinite(self.values).all():
            return self
        edges = np.linspace(self.values[0], self.values[-1], groups + 1)
        bins = np.clip(np.searchsorted(edges, self.values, side="right") - 1, 0, groups - 1)
        weight = np.bincount(bins, self.weights, groups)
        used = weight > 0
        return DiscretePart(np.bincount(bins, self.weights * self.values, groups)[used] / weight[used], weight[used])

    @property
    def spacing(self) -> float:
        """Smallest step between values, ignoring differences of rounding."""
        finite = self.values[np.isfinite(self.values)]
        gaps = np.diff(finite)
        gaps = gaps[gaps > 1e-14 * max(1.0, float(np.abs(finite).max(initial=0.0)))]
        return float(gaps.min()) if gaps.size else 1.0

    def sf(self, threshold: Floats) -> Floats:
        """P(part > threshold)."""
        return self._above[np.searchsorted(self.values, threshold, side="right")]

    def cdf(self, threshold: Floats) -> Floats:
        """P(part < threshold)."""
        return self._below[np.searchsorted(self.values, threshold, side="left")]

    def mean(self, function: Callable[[Floats], Floats], shift: Floats) -> Floats:
        """E[function(shift + part)] for every shift."""
        if shift.size < self.values.size:
            return np.array([pairwise_dot(self.weights, function(one + self.values)) for one in shift])
        total = np.zeros_like(shift)
        for value, weight in zip(self.values, self.weights, strict=True):
            total += weight * function(shift + value)
        return total


class ContinuousPart:
    """An independent part of the log Bayes factor from continuous noise: its privacy loss under P (target in) or Q."""

    def __init__(self, loss: PrivacyLoss, target: int) -> None:
        self.loss, self.side, self.spacing = loss, 0 if target else 1, 1e-5

    @property
    def condensed(self) -> ContinuousPart:
        """Itself: its averages are integrals."""
        return self

    def gathered(self, groups: int) -> ContinuousPart:
        del groups
        return self

    def sf(self, threshold: Floats) -> Floats:
        return as_array(self.loss.tail(threshold)[self.side])

    @property
    def log_exponential_mean(self) -> float:
        """log E[exp(part)]: 0 under Q, the log second moment of the likelihood ratio under P."""
        return 0.0 if self.side else float(self.loss.log_moment(1.0))

    def cdf(self, threshold: Floats) -> Floats:
        return as_array(self.loss.swapped.tail(-threshold)[1 - self.side])

    def mean(self, function: Callable[[Floats], Floats], shift: Floats) -> Floats:
        def at(one: float) -> float:
            return float(self.loss.expect(lambda z: function(one + z))[self.side])

        return np.array([at(float(one)) for one in shift])


NOTHING = DiscretePart(np.zeros(1), np.ones(1))


type Part = DiscretePart | ContinuousPart


def outer_sum(a: DiscretePart, b: DiscretePart) -> tuple[Floats, Floats]:
    """(values, weights) of all sums of one value of each part."""
    a, b = compatible(a, b)
    return (a.values[:, None] + b.values[None, :]).ravel(), (a.weights[:, None] * b.weights[None, :]).ravel()


def compatible(a: Part, b: DiscretePart) -> tuple[Any, DiscretePart]:
    """Both parts, without opposite infinite values of negligible probability: inf - inf has no sum.

    Raises
    ------
    ImpossibleRelease : one part makes a hypothesis certain and the other excludes it, with probability above `UNSEEN`
    """
    if isinstance(a, ContinuousPart):
        return a, b
    for proof in (np.inf, -np.inf):
        one, other = a.values == proof, b.values == -proof
        if not (one.any() and other.any()):
            continue
        mass, against = float(a.weights[one].sum()), float(b.weights[other].sum())
        if mass * against > UNSEEN:
            raise ImpossibleRelease(
                "releases of this truth are impossible under the adversary's beliefs: "
                "their probability is zero whether the target is in or out"
            )
        if mass < against:
            a = DiscretePart(a.values[~one], a.weights[~one])
        else:
            b = DiscretePart(b.values[~other], b.weights[~other])
    return a, b


def probable(weights: Floats, lost: float) -> NDArray[np.bool_]:
    """Mask of all but the smallest weights, which sum to at most `lost`; approximate, to 2 %, for many weights."""
    if weights.size > _MANY:
        # The leading bits of positive doubles are in the order of the numbers: one pass instead of a sort.
        key = np.ascontiguousarray(weights).view(np.int64) >> 46
        first = int(key.min())
        mass = np.bincount(key.ravel() - first, weights.ravel())
        return np.asarray(key >= first + int(np.searchsorted(np.cumsum(mass), lost)))
    ascending = np.sort(weights, axis=None)
    probable_rows: NDArray[np.bool_] = weights >= ascending[np.searchsorted(np.cumsum(ascending), lost)]
    return probable_rows


def _merge_equal(part: DiscretePart) -> DiscretePart:
    """A part with coincident values merged at their weighted mean."""
    value, weight = part.values, part.weights
    # inf - inf is NaN, which compares as coincident.
    with np.errstate(invalid="ignore"):
        gap = np.diff(value)
        apart = np.isinf(gap) | (gap > COINCIDENT * np.maximum(1.0, np.abs(value[1:])))
    starts = np.append(0, np.flatnonzero(apart) + 1)
    if starts.size == value.size:
        return part
    first, total = value[starts], np.add.reduceat(weight, starts)
    offset = np.where(np.isfinite(value), value, 0.0)
    offset -= np.repeat(np.where(np.isfinite(first), first, 0.0), np.diff(starts, append=value.size))
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.add.reduceat(offset * weight, starts) / total
    return DiscretePart(first + np.where(total > 0, shift, 0.0), total, lambda: part.log_exponential_mean)
