"""Counts made to add up to their parent's published count: the likelihood of what is published of one of them.

A unit and its d siblings have noisy counts x and y_1, ..., y_d; the parent's published count t2 is fixed; the unit's
published count t1 is a function of all of these. A reader who knows t2 and thinks of counts X1 (own) and Y (all
siblings together) needs P(t1 | t2, X1, Y). Kazan and Reiter 2025, section 2.11, read least squares; weights and
non-negativity (`simplex`) are what agencies add.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, check_positive, check_whole, log_sum_exp
from adversary.privacy.mechanisms import IntegerNoise, Mechanism
from adversary.reader.postprocessing.rounding import check_rule, last_numerator, nearest
from adversary.reader.postprocessing.weighted_noise import WeightedNoise

SIMPLEST = 1_000_000
"""A weight given as a float is read as the nearest fraction with at most this denominator."""


class Postprocessing(ABC):
    """How a unit's noisy count is changed so that it and its siblings fit their parent's published count.

    To add one: `exact`, `adjusted` (the algorithm), `sample`, and `parts`, from which the likelihood follows.
    """

    __slots__ = ()

    @abstractmethod
    def exact(self, siblings: int) -> bool:
        """Whether `log_prob` is exact with so many siblings; simulated otherwise, in `parts`."""

    @abstractmethod
    def adjusted(self, own: ArrayLike, others: ArrayLike, parent: ArrayLike, siblings: int) -> Integers:
        """The unit's published count t1: the algorithm itself, for arrays of releases.

        Parameters
        ----------
        own : noisy count of the unit
        others : what the algorithm reads of the siblings' noisy counts
        parent : published count of the parent, t2
        siblings : d
        """

    @abstractmethod
    def sample(
        self,
        own: ArrayLike,
        parent: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
        rng: np.random.Generator,
        sibling_counts: ArrayLike | None = None,
    ) -> Integers:
        """t1 for noisy counts of the unit and published counts of the parent: the siblings' noise is drawn here.

        `others` is the siblings' true total; `sibling_counts` (last axis sibling) their true counts one by one, if
        known.
        """

    @abstractmethod
    def parts(
        self,
        release: ArrayLike,
        parent: ArrayLike,
        own: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
    ) -> Floats:
        """`log_prob` from each independent part of a simulation, along a first axis; one part where it is exact."""

    def log_prob(
        self,
        release: ArrayLike,
        parent: ArrayLike,
        own: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
    ) -> Floats:
        """log P(t1 = release | t2 = parent, X1 = own, Y = others), broadcasting; -inf outside 0..t2."""
        parts = self.parts(release, parent, own, others, mechanism, siblings)
        several = len(parts) > 1
        return np.asarray(log_sum_exp(parts, axis=0) - np.log(len(parts)) if several else parts[0], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LeastSquares(Postprocessing):
    """The noisy counts moved as little as possible, in weighted squares, to add up to t2; then rounded and cut off.

        v = x + (t2 - x - ys) (1 / w0) / (1 / w0 + d / w),       ys the sum of the siblings' noisy counts,
        t1 = 0 if v < 0, t2 if v > t2, else the nearest whole number to v.

    With equal weights v = (d x + t2 - ys) / (d + 1) (equations 2.41 and 2.42). The numerator is a whole number, so
    ties are exact. Given the counts it is a constant plus W = a N + b S, where N is the unit's noise, S the
    siblings' in sum, and a / b = d w0 / w in lowest terms. W is tabulated once, and P(t1) is the mass of an interval.

    Parameters
    ----------
    rounding : "half_even", "half_up" or "half_down"
    own_weight, sibling_weight : w0 and w, positive; a float is read as the nearest simple fraction

    References
    ----------
    Kazan and Reiter 2025, section 2.11; the rounding rule is not stated there.

    >>> LeastSquares().adjusted(own=2, others=-1, parent=1, siblings=27).item()
    1
    """

    rounding: str = "half_even"
    own_weight: int | Fraction | float = 1
    sibling_weight: int | Fraction | float = 1

    def __post_init__(self) -> None:
        check_rule("rounding", self.rounding)
        for name in ("own_weight", "sibling_weight"):
            object.__setattr__(self, name, _simple(name, getattr(self, name)))

    def exact(self, siblings: int) -> bool:
        return True

    def shares(self, siblings: int) -> tuple[int, int]:
        """(a, b): v = (a x + b (t2 - ys)) / (a + b), in lowest terms."""
        ratio = siblings * Fraction(self.own_weight) / Fraction(self.sibling_weight)
        return ratio.numerator, ratio.denominator

    def adjusted(self, own: ArrayLike, others: ArrayLike, parent: ArrayLike, siblings: int) -> Integers:
        """The algorithm, with `others` the sum of the siblings' noisy counts."""
        a, b = self.shares(check_siblings(siblings))
        x, ys, t2 = check_whole("own", own), check_whole("others", others), check_parent(parent)
        return np.asarray(np.clip(nearest(a * x + b * (t2 - ys), a + b, self.rounding), 0, t2), dtype=np.int64)

    def sample(
        self,
        own: ArrayLike,
        parent: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
        rng: np.random.Generator,
        sibling_counts: ArrayLike | None = None,
    ) -> Integers:
        noise = check_noise(mechanism).total(check_siblings(siblings))
        total = check_whole("others", others if sibling_counts is None else np.asarray(sibling_counts).sum(-1))
        shape = np.broadcast_shapes(np.shape(own), np.shape(parent), total.shape)
        return self.adjusted(own, noise.sample(total, rng, shape), parent, siblings)

    def parts(
        self,
        release: ArrayLike,
        parent: ArrayLike,
        own: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
    ) -> Floats:
        noise = check_noise(mechanism).total(check_siblings(siblings))
        return self.given_noise(release, parent, own, others, mechanism, siblings, noise)[None]

    def given_noise(
        self,
        release: ArrayLike,
        parent: ArrayLike,
        own: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
        sibling_noise: Mechanism,
    ) -> Floats:
        """`log_prob` with another law of the siblings' summed noise than that of `siblings` times the mechanism."""
        a, b = self.shares(check_siblings(siblings))
        t1, t2 = check_whole("release", release).astype(np.float64), check_parent(parent).astype(np.float64)
        x, y = check_whole("own", own), check_whole("others", others)
        if (a + b) * max(float(np.abs(n).max(initial=0)) for n in (t1, t2, x, y)) > 2**52:
            raise ValueError(f"counts times {a + b} (siblings and weights) must stay below 2^52 to be whole numbers")
        known = a * x + b * (t2 - y)
        low = np.where(t1 <= 0, -np.inf, last_numerator(t1 - 1.0, a + b, self.rounding) + 1.0) - known
        high = np.where(t1 >= t2, np.inf, last_numerator(t1, a + b, self.rounding)) - known
        law = WeightedNoise(check_noise(mechanism), check_noise(sibling_noise), a, b)
        return np.where((t1 >= 0) & (t1 <= t2), law.log_between(low, high), -np.inf)


def check_siblings(siblings: int) -> int:
    """The number of siblings, a whole number of at least 1."""
    return int(check_whole("siblings", siblings, minimum=1))


def check_parent(parent: ArrayLike) -> Integers:
    """Published counts of the parent, whole numbers of at least 0."""
    return check_whole("parent", parent, minimum=0)


def check_noise(mechanism: Mechanism) -> IntegerNoise:
    """The mechanism, or TypeError for continuous noise, an exact count and noise that is clamped or rounded."""
    if not isinstance(mechanism, IntegerNoise):
        raise TypeError(
            "mechanism must be integer noise, such as DiscreteGaussian, not processed one by one: sums of its whole "
            f"numbers are adjusted exactly; got {mechanism!r}"
        )
    return mechanism


def _simple(name: str, weight: Any) -> int | Fraction:
    check_positive(name, weight)
    exact = Fraction(weight)
    simple = exact if isinstance(weight, int | Fraction) else exact.limit_denominator(SIMPLEST)
    if simple == 0:
        raise ValueError(f"{name} must be at least 1 / {SIMPLEST}, got {weight}: give it as a Fraction")
    return simple.numerator if simple.denominator == 1 else simple
