"""Counts adjusted to add up to their parent's published count: the likelihood of one adjusted count.

A unit and its d siblings have noisy counts x and y_1, ..., y_d; the parent's published count t2 is fixed; the unit's
published count t1 is a function of all of these. An adversary who observes t2 and considers counts X1 (own) and Y (sum
over siblings) needs P(t1 | t2, X1, Y). Kazan and Reiter 2025, section 2.11, treat least squares; agencies also use
weights and non-negativity (`nonnegative`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, as_array, check_positive, check_whole, log_sum_exp
from adversary.adversaries.postprocessing.rounding import check_rule, last_numerator, nearest
from adversary.privacy.mechanisms import IntegerNoise, Mechanism, log_mass

# Largest denominator of the fraction that stands for a weight given as a float.
SIMPLEST = 1_000_000


_REACH_NATS = 80.0
_TAIL_NATS = 45.0
_MAX_TABLE = 20_000_000
_MAX_COST = 2_000_000_000


class Postprocessing(ABC):
    """Adjustment of a unit's noisy count so that it and its siblings add up to their parent's published count.

    A subclass defines `exact`, `adjusted` (the algorithm), `sample`, and `parts`, from which the likelihood follows.
    """

    __slots__ = ()

    @abstractmethod
    def exact(self, siblings: int) -> bool:
        """True if `log_prob` is exact with this number of siblings; otherwise it is simulated, in `parts`."""

    @abstractmethod
    def adjusted(self, own: ArrayLike, others: ArrayLike, parent: ArrayLike, siblings: int) -> Integers:
        """The unit's published count t1: the algorithm itself, for arrays of releases.

        Parameters
        ----------
        own : noisy count of the unit
        others : the siblings' noisy counts along a last axis, or their sum, whichever the algorithm needs
        parent : published count of the parent, t2
        siblings : their number d
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
        """Simulated t1 given the unit's noisy and the parent's published count; the siblings' noise is drawn.

        `others` is the siblings' true total; `sibling_counts` (last axis sibling) are their single true counts, if
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
        """`log_prob` from each independent part of a simulation, along a first axis; one part if it is exact."""

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
    """Weighted least-squares adjustment of the noisy counts to the sum t2, then rounded and clamped to 0..t2.

        v = x + (t2 - x - ys) (1 / w0) / (1 / w0 + d / w),       ys the sum of the siblings' noisy counts,
        t1 = 0 if v < 0, t2 if v > t2, else the nearest whole number to v.

    With equal weights v = (d x + t2 - ys) / (d + 1) (equations 2.41 and 2.42). The numerator is a whole number, so
    ties are exact. Given the counts it is a constant plus W = a N + b S, where N is the unit's noise, S the sum of the
    siblings' noises, and a / b = d w0 / w in lowest terms. W is tabulated once, and P(t1) is the mass of an interval.

    Parameters
    ----------
    rounding : "half_even", "half_up" or "half_down"
    own_weight, sibling_weight : w0 and w, positive; a float stands for the nearest simple fraction

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
        """The unit's published count, with `others` the sum of the siblings' noisy counts."""
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
        """`log_prob` with a given distribution of the siblings' summed noise in place of the exact one."""
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


@dataclass(frozen=True, slots=True)
class WeightedNoise:
    """Distribution of W = a N + b S for two independent integer noises, a and b without a common divisor.

    log P(W = w) = log sum_n P(N = n) P(S = (w - a n) / b) is tabulated. For discrete Gaussian N with rho and S with
    rho / d, a shift of w by t P, with P = a^2 + d b^2, multiplies it by exp(-rho (t^2 P + 2 t w)) (shift N by t a and S
    by t d b). One period of the table then gives all values, at any distance.

    Parameters
    ----------
    own, others : N and S
    a, b : positive whole numbers
    """

    own: IntegerNoise
    others: IntegerNoise
    a: int
    b: int

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """log P(low <= W <= high), broadcasting; the ends are whole numbers or infinite."""
        low, high = np.broadcast_arrays(low, high)
        ends = np.concatenate([low.ravel(), high.ravel()])
        furthest = int(np.abs(ends, where=np.isfinite(ends), out=np.zeros(ends.size)).max(initial=0.0)) + 1
        table = _upper_tails(self, 1 << furthest.bit_length())

        def log_survival(w: Floats) -> Floats:
            outer = np.maximum(w, 1.0 - w)  # left of 1 by symmetry
            tail = table[np.where(np.isfinite(outer), outer, table.size - 1).astype(np.int64)]
            return np.where(w >= 1.0, tail, np.log1p(-np.exp(np.minimum(tail, -1e-300))))

        return log_mass(log_survival, low, high, 1.0)

    def log_pmf(self, size: int) -> Floats:
        """log P(W = w) for w = 0, ..., size."""
        period = self._period()
        if period is None or size < period:
            return self._sum_law(size)
        half = self._sum_law(period // 2)
        w = np.arange(size + 1)
        t = (w + period // 2) // period
        r = w - t * period
        return half[np.abs(r)] - self.own.curvature * (t * t * float(period) + 2.0 * t * r)

    def _period(self) -> int | None:
        if not (self.own.parabola and self.others.summands[0].parabola):
            return None
        own, others = self.own.curvature, self.others.curvature
        d = round(own / others)
        return self.a**2 + d * self.b**2 if np.isclose(own, d * others, rtol=1e-13, atol=0) else None

    def _sum_law(self, size: int) -> Floats:
        a, b, reach = self.a, self.b, int(self.own.tail_radius(_REACH_NATS))
        n = np.arange(-reach, size // a + reach + 1)
        if n.size * (size / b) > _MAX_COST:
            raise ValueError(
                f"the noise is too wide, the weights too uneven (their ratio, siblings counted, is {a} / {b}), or the "
                f"release too far from the counts to tabulate: {n.size} x {size // b} terms"
            )
        # smallest s with 0 <= a n + b s <= size, for any n
        first = -(a * int(n[-1]) // b)
        s = np.arange(first, (size + a * reach) // b + 1, dtype=np.float64)
        log_s, log_n = as_array(self.others.log_noise(s)), as_array(self.own.log_noise(n.astype(np.float64)))
        total = np.full(size + 1, -np.inf)
        for k, log_p in zip(n.tolist(), log_n.tolist(), strict=True):
            low, high = -(a * k // b), (size - a * k) // b
            place = slice(a * k + b * low, a * k + b * high + 1, b)
            total[place] = np.logaddexp(total[place], log_p + log_s[low - first : high - first + 1])
        return total


@lru_cache(maxsize=32)
def _upper_tails(law: WeightedNoise, size: int) -> Floats:
    """log P(W >= w) for w = 0, ..., size, and a final -inf; summed from the far tail inwards, smallest terms first."""
    beyond = int(law.a * law.own.tail_radius(_TAIL_NATS) + law.b * law.others.tail_radius(_TAIL_NATS))
    if size + beyond > _MAX_TABLE:
        raise ValueError(
            f"a table of {size + beyond} values is too large: the noise is too wide, the weights too uneven (their "
            f"ratio, siblings counted, is {law.a} / {law.b}), or the release too far from the counts"
        )
    tails = np.logaddexp.accumulate(law.log_pmf(size + beyond)[::-1])[::-1]
    return np.append(tails[: size + 1], -np.inf)


def check_siblings(siblings: int) -> int:
    """The number of siblings, a whole number of at least 1."""
    return int(check_whole("siblings", siblings, minimum=1))


def check_parent(parent: ArrayLike) -> Integers:
    """Published counts of the parent, whole numbers of at least 0."""
    return check_whole("parent", parent, minimum=0)


def check_noise(mechanism: Mechanism) -> IntegerNoise:
    """The mechanism unchanged; TypeError for continuous noise, an exact count, and clamped or rounded noise."""
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
