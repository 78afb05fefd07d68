"""Uniformly most powerful unbiased private test of association in a 2 x 2 table whose margins are published.

Given both margins a 2 x 2 table has one free cell, x11, which has Fisher's noncentral hypergeometric distribution with
the table's odds ratio. Conforming tables within semi-adjacency differ by at most 1 in x11, so the guarantee limits how
fast the rejection probability may rise with x11, and adding canonical noise to x11 gives the uniformly most powerful
unbiased test (Cho and Awan, Theorem 37). Two errata of the paper are corrected: the odds ratio is that of row 1
against row 2, and x11 is hypergeometric with the total of row 1 first.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import (
    Floats,
    Integers,
    as_array,
    check_number,
    check_positive,
    check_whole,
    labelled,
    log_sum_exp,
    one_number,
    scalar_or_array,
    solve_decreasing,
)
from adversary.literature.canonical import canonical_noise
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.mechanisms import ContinuousNoise


@dataclass(frozen=True)
class OddsRatioTest:
    """Uniformly most powerful unbiased test of "odds ratio <= 1" against "> 1", private beside published margins.

    Rows are binomial with probabilities theta1 and theta2; odds ratio w = theta1 / (1 - theta1) over theta2 /
    (1 - theta2). Of a table with x11 = x it rejects with probability psi(x) = F(x - m), F canonical noise and m the
    `threshold`. The published number U = x11 + noise settles it: reject if U > m, which is p_value(U) < level. For the
    alternative "< 1" exchange the rows: margins (t2., t1., t.1, t.2), and x21 for x11.

    Parameters
    ----------
    margins : (t1., t2., t.1, t.2), totals of row 1, row 2, column 1, column 2
    guarantee : of the release of U, for conforming databases within semi-adjacency
    level : probability of rejecting at odds ratio 1, in (0, 1)

    References: Cho and Awan, Theorem 37 and equation 6; Awan and Slavkovic 2018, for one binomial.
    """

    margins: tuple[int, int, int, int]
    guarantee: Guarantee
    level: float

    def __post_init__(self) -> None:
        counts = check_whole("margins", self.margins, minimum=0)
        if counts.shape != (4,):
            raise ValueError(f"margins must be the four totals (t1., t2., t.1, t.2), got {self.margins!r}")
        t1, t2, c1, c2 = counts.tolist()
        if t1 + t2 != c1 + c2:
            raise ValueError(f"margins must agree, got {t1} + {t2} records in the rows and {c1} + {c2} in the columns")
        level = one_number("level", self.level)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be strictly between 0 and 1, got {level}")
        object.__setattr__(self, "margins", (t1, t2, c1, c2))
        object.__setattr__(self, "level", level)
        # evaluated for its errors: a guarantee without canonical noise is refused at construction
        self.noise  # noqa: B018
        if self.support.size == 1:
            warnings.warn(
                f"the margins {self.margins} fix the whole table: the test rejects with probability {level} whatever "
                "the odds ratio",
                RuntimeWarning,
                stacklevel=3,
            )

    @cached_property
    def noise(self) -> ContinuousNoise:
        """Noise of the release, canonical for the guarantee."""
        return canonical_noise(self.guarantee)

    @property
    def support(self) -> Integers:
        """Values of x11 that conform: max(0, t.1 - t2.) to min(t1., t.1)."""
        t1, t2, c1, _ = self.margins
        return np.arange(max(0, c1 - t2), min(t1, c1) + 1)

    def log_mass(self, odds_ratio: ArrayLike = 1.0) -> Any:
        """Log probability of each x11 in `support` given the margins: C(t1., x) C(t2., t.1 - x) w^x, scaled.

        Fisher's noncentral hypergeometric distribution; shape (..., support) for odds ratios (...).
        """
        w, x, (t1, t2, c1, _) = check_positive("odds_ratio", odds_ratio), self.support, self.margins
        log_tables = -gammaln(x + 1) - gammaln(t1 - x + 1) - gammaln(c1 - x + 1) - gammaln(t2 - c1 + x + 1)
        log_weight = log_tables + x * np.log(w)[..., None]
        return log_weight - log_sum_exp(log_weight)[..., None]

    @cached_property
    def threshold(self) -> float:
        """Critical value m of the release, in units of x11 (not a whole number): reject where the release exceeds it.

        It solves sum over x of P_1(x) F(x - m) = level; rounding leaves the actual level below, never above.
        """
        mass = np.exp(self.log_mass())

        def excess(m: float) -> float:
            return float(mass @ self._reject(self.support, m)) - self.level

        low, step = float(self.support[0]) - 1.0, 1.0
        while excess(low) <= 0.0:
            low, step = low - step, 2.0 * step
        return solve_decreasing(excess, low, float(self.support[-1]) + 1.0)

    @labelled
    def reject_probability(self, x11: ArrayLike) -> Any:
        """psi(x) = F(x - m): probability of rejecting when x11 = x."""
        return scalar_or_array(self._reject(self._check_count(x11), self.threshold))

    @labelled
    def power(self, odds_ratio: ArrayLike) -> Any:
        """Probability of rejecting at these odds ratios, given the margins: sum over x of P_w(x) psi(x)."""
        return scalar_or_array(np.exp(self.log_mass(odds_ratio)) @ self._reject(self.support, self.threshold))

    @labelled
    def nonprivate_power(self, odds_ratio: ArrayLike) -> Any:
        """Power of Fisher's randomised test, the best without privacy: the same with noise uniform on (-1/2, 1/2)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return OddsRatioTest(self.margins, NoPrivacy(), self.level).power(odds_ratio)

    def release(self, x11: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """Simulated releases U = x11 + noise; the test and its p-value are post-processing of U and the margins."""
        return self.noise.sample(self._check_count(x11), rng, size)

    @labelled
    def p_value(self, released: ArrayLike) -> Any:
        """Sum over x of P_1(x) F(x - U): probability, at odds ratio 1, of a release above this one U.

        Uniform on (0, 1) at odds ratio 1; at most `level` with probability psi(x11).
        """
        u = check_number("released", released)
        return scalar_or_array(self._reject(self.support, u[..., None]) @ np.exp(self.log_mass()))

    def _reject(self, x11: Integers, cut: Any) -> Floats:
        """P(x11 + noise > cut)."""
        return as_array(self.noise.sf(cut, x11))

    def _check_count(self, x11: ArrayLike) -> Integers:
        x, inside = check_whole("x11", x11), self.support
        if not ((x >= inside[0]) & (x <= inside[-1])).all():
            raise ValueError(f"x11 must be within [{inside[0]}, {inside[-1]}] beside the margins, got {x11!r}")
        return x


def umpu(margins: ArrayLike, guarantee: Guarantee, level: float) -> OddsRatioTest:
    """Uniformly most powerful unbiased test of the odds ratio of a 2 x 2 table, private beside its published margins.

    Parameters
    ----------
    margins : (t1., t2., t.1, t.2), totals of row 1, row 2, column 1, column 2
    guarantee : pure, approximate or Gaussian DP, or any other determined by a symmetric trade-off
    level : size of the test, in (0, 1)

    Raises
    ------
    ValueError : margins that disagree, negative counts, a level outside (0, 1), a guarantee that allows nothing

    >>> from adversary.privacy.definitions import PureDP
    >>> test = umpu((10, 10, 8, 12), PureDP(1.0), level=0.05)
    >>> round(test.threshold, 6), round(test.power(3.0), 6), round(test.nonprivate_power(3.0), 6)
    (6.912486, 0.169883, 0.30524)
    """
    counts = tuple(np.ravel(check_whole("margins", margins)).tolist())
    return OddsRatioTest(cast("tuple[int, int, int, int]", counts), guarantee, level)
