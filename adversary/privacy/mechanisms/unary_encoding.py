"""Local reports of several bits: unary encoding, and RAPPOR with memoised permanent bits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln, logit, xlog1py, xlogy

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    check_positive,
    check_probability,
    check_whole,
    format_number,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions import PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms.calibrated import checked_change
from adversary.privacy.mechanisms.local_reports import LocalReport
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of
from adversary.privacy.mechanisms.perturbation import TabledReleases, sums_from_either_end

# Largest number of pairs of likelihood ratios in the convolution of bits.
MOST_PAIRS = 4_000_000


@dataclass(frozen=True, slots=True)
class UnaryEncoding(LocalReport, TabledReleases):
    """Unary encoding: an answer sets some bits to 1, and independent noise is added to each bit.

    The two answers that an adversary compares, 0 and 1, each set `ones` bits that the other does not; the remaining
    bits have the same distribution under both. A release is a vector of bits, represented by the rank of its likelihood
    ratio, a sufficient statistic: 0 in the middle, positive in favour of answer 1. For one report the rank is the
    number of 1s among the bits of answer 1 minus that among the bits of answer 0.

    With `permanent` = f each bit is first replaced, permanently, by a fair coin with probability f (RAPPOR), and each
    of `reports` reports adds independent noise. The loss of any number of reports is below that of the permanent bits,
    for which stay = 1 and rise = 0. A count-mean sketch is bounded by `ones` = 1: if the hashes of two answers collide,
    no bit differs.

    Parameters
    ----------
    stay : probability that a 1 is reported as 1, above `rise`
    rise : probability that a 0 is reported as 1
    ones : number of bits set by one of two answers and not by the other; for a Bloom filter at most its hash functions
    permanent : f, probability that a bit is replaced by a coin before all reports, below 1
    reports : number of reports on the same permanent bits

    Raises
    ------
    ValueError : a probability out of range, a bit without noise, or too many likelihood ratios to list

    References
    ----------
    Erlingsson, Pihur and Korolova (2014), "RAPPOR: randomized aggregatable privacy-preserving ordinal response",
    section 3; Wang, Blocki, Li and Jha (2017), "Locally differentially private protocols for frequency estimation",
    section 4, for p = `stay` and q = `rise`.

    >>> UnaryEncoding.from_epsilon(2.0, optimised=True).stay
    0.5
    >>> round(UnaryEncoding(permanent=0.5, ones=2).epsilon, 4)
    4.3944
    """

    kind = "unary encoding"
    parameters = ("epsilon", "stay")
    options = MappingProxyType({"rise": "real", "ones": "whole", "permanent": "real", "optimised": "flag"})
    categories = 2

    stay: float = 1.0
    rise: float = 0.0
    ones: int = 1
    permanent: float = 0.0
    reports: int = 1

    def __post_init__(self) -> None:
        for name in ("stay", "rise", "permanent"):
            object.__setattr__(self, name, float(check_probability(name, one_number(name, getattr(self, name)))))
        for name in ("ones", "reports"):
            object.__setattr__(self, name, int(check_whole(name, one_number(name, getattr(self, name)), minimum=1)))
        if self.rise >= self.stay:
            raise ValueError(f"stay must be above rise, got {self.stay} and {self.rise}")
        if self.permanent == 1.0:
            raise ValueError("permanent must be below 1, got 1.0: every bit would be a coin")
        if not self.permanent and (self.stay == 1.0 or self.rise == 0.0):
            raise ValueError(
                f"stay must be below 1 and rise above 0 without permanent noise, got {self.stay} and {self.rise}"
            )
        if math.comb(self.reports + self.ones, self.ones) ** 2 > MOST_PAIRS:
            raise ValueError(
                f"ones and reports must leave at most {MOST_PAIRS:,} pairs of likelihood ratios, got {self.ones} and "
                f"{self.reports}: stay = 1 and rise = 0 bound any number of reports"
            )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: float,
        sensitivity: float = 1,
        cells: int = 1,
        ones: int = 1,
        optimised: bool = False,
        **chances: float,
    ) -> Self:
        """Unary encoding from the total epsilon of all reports of one unit, symmetric or optimised.

        Parameters
        ----------
        epsilon : nats, > 0
        sensitivity : checked, but not used: an answer may change to any other
        cells : number of reports of one unit, among which epsilon is divided equally
        ones : as in the class
        optimised : True for stay = 1/2, which minimises the variance of estimates (optimised unary encoding); False for
            rise = 1 - stay (symmetric, as in basic RAPPOR)
        **chances : not allowed; catches probabilities from scenario files

        Raises
        ------
        ValueError : probabilities given together with an epsilon

        >>> round(UnaryEncoding.from_epsilon(2.0, cells=2, ones=5).epsilon, 9)
        1.0
        """
        if chances:
            raise ValueError(f"{next(iter(chances))} must be left out beside epsilon, which fixes all chances")
        check_positive("epsilon", epsilon)
        bit = float(epsilon) / checked_change(sensitivity, cells)[1] / int(check_whole("ones", ones, minimum=1))
        up, down = (0.0, -bit) if optimised else (bit / 2.0, -bit / 2.0)
        return cls(float(expit(up)), float(expit(down)), ones)

    @classmethod
    def from_stay(
        cls, stay: float, sensitivity: float = 1, cells: int = 1, optimised: bool = False, **options: Any
    ) -> Self:
        """Unary encoding from its probabilities; `sensitivity` and `cells` are ignored, `optimised` is refused."""
        if optimised:
            raise ValueError("optimised must be left out beside stay: it says which chances an epsilon has")
        return cls(stay, **options)

    def memoised(self, releases: int) -> Mechanism:
        """Mechanism of several reports on the same permanent bits; without permanent bits, the mechanism itself."""
        return replace(self, reports=releases) if self.permanent else Mechanism.memoised(self, releases)

    def describe(self) -> str:
        chances = f"a 1 stays with chance {format_number(self.stay)}, a 0 rises with {format_number(self.rise)}"
        before = f", after permanent noise f = {format_number(self.permanent)}" if self.permanent else ""
        many = f", {self.reports} reports" if self.reports > 1 else ""
        return f"unary encoding, {chances}, {2 * self.ones} bits differ{before}{many}"

    @property
    def epsilon(self) -> float:
        """Largest privacy loss, in nats."""
        return float(_law(self).losses[-1])

    @property
    def nominal_guarantee(self) -> Guarantee:
        return PureDP(self.epsilon)

    @property
    def smallest_release(self) -> float:
        return float(_table(self)[0][0])

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        places, log_p, _ = _table(self)
        release, value = np.broadcast_arrays(np.asarray(release, dtype=np.float64), np.asarray(value, dtype=np.float64))
        column = np.clip(release - places[0], 0, places.size - 1).astype(np.int64)
        possible = (places[column] == release) & ((value == 0.0) | (value == 1.0))
        return np.where(possible, log_p[(value == 1.0).astype(np.int64), column], -np.inf)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return float(np.abs(_table(self)[0]).max() + 1)

    def _mass(self, release: ArrayLike, value: ArrayLike, above: int) -> Floats:
        """Cumulative sums of the probabilities, from either end."""
        places, _, sums = _table(self)
        answer = self.check_value(value)
        column = np.clip(check_whole("release", release) - places[0] + 1, 0, places.size)
        return np.asarray(sums[above][answer, column])

    @property
    def variance(self) -> float:
        """Mean square of release minus value, averaged over both values."""
        places, log_p, _ = _table(self)
        return float(np.mean([np.exp(log_p[value]) @ (places - value) ** 2.0 for value in (0, 1)]))

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        """Simulated releases, by inversion of the cumulative sums."""
        places, _, sums = _table(self)
        answer = self.check_value(value)
        answer = np.broadcast_to(answer, answer.shape if size is None else size)
        uniform = rng.random(answer.shape)
        column = [np.searchsorted(row[1:], uniform * row[-1], side="right") for row in sums[0]]
        return scalar_or_array(places[np.where(answer == 1, column[1], column[0])])

    def support(self, value: int) -> Integers:
        self.check_value(value)
        return _table(self)[0]

    def scaled(self, factor: float) -> Self:
        """Mechanism with all log odds, hence epsilon of one report, multiplied by the square root of the factor."""
        root = root_of(factor)
        stay, rise, coin = (float(expit(root * logit(x))) for x in (self.stay, self.rise, self.permanent / 2.0))
        return replace(self, stay=stay, rise=rise, permanent=2.0 * coin)

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        if not int(check_whole("sensitivity", change, minimum=0)) or not cells:
            return compose_losses([])
        return repeat_loss(_law(self), cells)


@lru_cache(maxsize=256)
def _law(report: UnaryEncoding) -> LatticeLoss:
    """Loss of answer 1 against answer 0: `ones` bits change from 1 to 0 and as many from 0 to 1, in all reports.

    The number of 1s of a bit over its reports is a mixture of two binomial distributions, by its permanent value.
    """
    n, count = report.reports, np.arange(report.reports + 1.0)
    ways = gammaln(n + 1.0) - gammaln(count + 1.0) - gammaln(n - count + 1.0)
    with np.errstate(divide="ignore"):
        one, zero = (ways + xlogy(count, x) + xlog1py(n - count, -x) for x in (report.stay, report.rise))
        keeps, turns = np.log1p(-report.permanent / 2.0), np.log(report.permanent / 2.0)
    set_bit, clear = np.logaddexp(keeps + one, turns + zero), np.logaddexp(turns + one, keeps + zero)
    some = np.isfinite(set_bit) | np.isfinite(clear)
    set_bit, clear = set_bit[some], clear[some]
    bit = LatticeLoss.from_losses(set_bit - clear, set_bit, clear)
    fallen = LatticeLoss.from_losses(clear - set_bit, clear, set_bit)
    return _together(_times(bit, report.ones), _times(fallen, report.ones))


def _times(bit: LatticeLoss, count: int) -> LatticeLoss:
    """Loss of `count` bits, by repeated halving."""
    if count == 1:
        return bit
    half = _times(bit, count // 2)
    return _together(_together(half, half), bit) if count % 2 else _together(half, half)


def _together(a: LatticeLoss, b: LatticeLoss) -> LatticeLoss:
    """Loss of two independent reports, from all pairs of likelihood ratios."""
    both = (a.losses, b.losses), (a.log_p, b.log_p), (a.log_q, b.log_q)
    return LatticeLoss.from_losses(*(np.add.outer(x, y).ravel() for x, y in both))


@lru_cache(maxsize=256)
def _table(report: UnaryEncoding) -> tuple[Integers, Floats, tuple[Floats, Floats]]:
    """Releases (ranks), log probabilities (answer, release), and cumulative sums from both ends."""
    law = _law(report)
    middle = int(np.argmin(np.abs(law.losses)))
    log_p = np.stack([law.log_q, law.log_p])
    return np.arange(law.losses.size) - middle, log_p, sums_from_either_end(np.exp(log_p))
