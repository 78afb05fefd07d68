"""A belief about each sibling of a unit, not about their total: the adversary can use the siblings' single releases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats, check_whole
from adversary.adversaries.beliefs.belief import BESIDE, IndependentBelief, Others
from adversary.adversaries.beliefs.elicited import describe_law, looked_up
from adversary.privacy.losses import repeat_product

# Largest number of products in the convolution of long distributions; seconds.
_MOST_PRODUCTS = 4e9


@dataclass(frozen=True, eq=False, repr=False)
class Each(IndependentBelief):
    """Independent and identically distributed counts of the siblings of the unit below.

    The total of d siblings has the d-fold convolution of the distribution. Without one, every count 0, 1, 2, ... is
    equally likely for each sibling. The total is then not flat: total - inside = j has weight C(j + d - 1, d - 1), the
    number of ways to distribute j people over d units.

    Parameters
    ----------
    law : a pmf over 0, 1, 2, ..., a frozen discrete `scipy.stats` or PreliZ distribution, or None: flat and improper
    siblings : their number d; None until a plan fills it in

    >>> round(float(np.exp(Each([0.5, 0.5]).with_count(2).log_prob(1, 0))), 12)
    0.5
    """

    law: Any = None
    siblings: int | None = None

    def __post_init__(self) -> None:
        if self.law is not None:
            object.__setattr__(self, "law", Others(self.law).law)
        if self.siblings is not None:
            object.__setattr__(self, "siblings", int(check_whole("siblings", self.siblings, minimum=1)))

    def __repr__(self) -> str:
        return "Each()" if self.law is None else repr(Others(self.law)).replace("Others(", "Each(", 1)

    def __reduce__(self) -> tuple[type[Each], tuple[Any, int | None]]:
        law = None if self.law is None else self.sibling_law.__reduce__()[1][0]
        return Each, (law, self.siblings)

    def with_count(self, siblings: int) -> Each:
        """This belief with the number of siblings filled in."""
        return Each(self.law, siblings)

    @cached_property
    def sibling_law(self) -> Others:
        """The distribution of one sibling's count; ValueError if it is flat."""
        if self.law is None:
            raise ValueError("a flat belief about each sibling has no law")
        return Others(self.law)

    @property
    def count(self) -> int:
        """Number of siblings; ValueError before a plan has given it."""
        if self.siblings is None:
            raise ValueError(
                "Each is about the siblings of a unit: a plan says how many; use Each(law).with_count(siblings)"
            )
        return self.siblings

    @property
    def each(self) -> Each:
        return self

    def describe(self, level: str, inside: str) -> str:
        if self.law is None:
            return f"each other unit of the {level} holds any number of people, all equally likely"
        return f"each other unit of the {level} holds a number of its own, all after {describe_law(self.law)}"

    def log_one(self, count: Floats) -> Floats:
        """Log probability of one sibling's count, nats; 0 for every count if flat."""
        return np.where(count >= 0, 0.0, -np.inf) if self.law is None else self.sibling_law.log_pmf(count)

    def ends_of_one(self) -> tuple[int, int | None]:
        """Smallest and largest count of one sibling."""
        return (0, None) if self.law is None else self.sibling_law.outside()

    def log_pmf(self, count: Floats) -> Floats:
        d = self.count
        if self.law is None:
            j = np.maximum(count, 0.0)
            return np.where(count >= 0, gammaln(j + d) - gammaln(j + 1.0) - gammaln(float(d)), -np.inf)
        first, table = self._total
        return looked_up(table, count - first)

    def outside(self) -> tuple[int, int | None]:
        low, high = self.ends_of_one()
        return self.count * low, None if high is None else self.count * high

    def bulk(self) -> tuple[int, int] | None:
        if self.law is None:
            return None
        low, high = self.sibling_law.bulk()
        return self.count * low, self.count * high

    @cached_property
    def _total(self) -> tuple[int, Floats]:
        """First total and log probabilities of the siblings' total, by convolution of non-negative terms."""
        start, log_p = self.sibling_law.followed()
        if log_p.size > BESIDE + 1 and (self.count * log_p.size) ** 2 > _MOST_PRODUCTS:
            raise ValueError(
                f"each of {self.count} units follows a law over {log_p.size} counts, too many to add up: believe in "
                "their total instead, as Others(law) does"
            )
        total = repeat_product(np.exp(log_p.astype(np.longdouble)), self.count, np.ones(1, np.longdouble), np.convolve)
        with np.errstate(divide="ignore"):
            return self.count * start, np.log(total).astype(np.float64)
