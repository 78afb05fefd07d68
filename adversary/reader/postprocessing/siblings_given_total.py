"""How a total of people falls on several siblings: independent counts from one law, given that they add up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats, Integers, as_array, check_non_negative
from adversary.reader.beliefs import as_law


@dataclass(frozen=True, slots=True)
class Shares:
    """Counts of d siblings, independent draws from a law, under the condition that they add up to a total.

    Without a law every person lives in one of the siblings, evenly and independently of the others: what any Poisson
    law gives.

    Parameters
    ----------
    law : a pmf over 0, 1, 2, ..., a frozen discrete `scipy.stats` or PreliZ law, or None

    >>> np.exp(Shares().log_pair(2)).round(12).tolist()
    [0.25, 0.5, 0.25]
    """

    law: Any = None

    def __post_init__(self) -> None:
        law = as_law(self.law)
        if law is not None and not callable(getattr(law, "logpmf", None)):
            pmf = check_non_negative("law", law)
            if pmf.ndim != 1 or abs(float(pmf.sum()) - 1.0) > 1e-9:
                raise ValueError(f"law must be a pmf over 0, 1, 2, ... that adds up to 1, got {law!r}")
            law = tuple((pmf / pmf.sum()).tolist())
        object.__setattr__(self, "law", law)

    def possible(self, siblings: int, total: int) -> bool:
        """Whether so many draws from the law can add up to the total."""
        return total >= 0 and (self.law is None or bool(_powers(self, siblings, total)[siblings][total] > 0))

    def log_pair(self, total: int) -> Floats:
        """log P(one of two siblings has k | both have `total`), for k = 0, ..., total."""
        k = np.arange(total + 1)
        if self.law is None:
            ways = gammaln(total + 1.0) - gammaln(k + 1.0) - gammaln(total - k + 1.0)
            return np.asarray(ways - total * np.log(2.0), dtype=np.float64)
        one = self.table(total)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(one * one[::-1] / (one * one[::-1]).sum()), dtype=np.float64)

    def draw(self, siblings: int, total: int, draws: int, rng: np.random.Generator) -> Integers:
        """Counts (draw, sibling). From one seed a larger total reuses the random numbers of a smaller one.

        Without a law it only adds people to it.
        """
        counts = np.zeros((draws, siblings), dtype=np.int64)
        if self.law is None:
            for _ in range(total):
                counts[np.arange(draws), rng.integers(siblings, size=draws)] += 1
            return counts
        one, powers = self.table(total), _powers(self, siblings, total)
        uniform, left = rng.random((siblings, draws)), np.full(draws, total)
        for i in range(siblings - 1):
            counts[:, i] = _conditional(one, powers[siblings - 1 - i], left, uniform[i] * (1.0 - 1e-9))
            left = left - counts[:, i]
        counts[:, -1] = left
        return counts

    def table(self, total: int) -> Any:
        """Probabilities of 0, ..., total, up to a constant, in extended precision for its range."""
        if isinstance(self.law, tuple):
            return np.pad(np.array(self.law[: total + 1], np.longdouble), (0, max(0, total + 1 - len(self.law))))
        log_p = as_array(self.law.logpmf(np.arange(total + 1)))
        top = float(log_p.max())
        return np.exp((log_p - (top if np.isfinite(top) else 0.0)).astype(np.longdouble))


@lru_cache(maxsize=32)
def _powers(shares: Shares, siblings: int, total: int) -> list[Any]:
    """Probabilities of 0, ..., total for the sum of 0, 1, ..., `siblings` draws from the law, up to constants."""
    one = shares.table(total)
    powers = [np.append(np.ones(1, np.longdouble), np.zeros(total, np.longdouble))]
    for _ in range(siblings):
        powers.append(np.convolve(powers[-1], one)[: total + 1])
    return powers


def _conditional(one: Any, rest: Any, left: Integers, uniform: Floats) -> Integers:
    """Draws of one count given what is left for it and the rest: P(k | r) proportional to one(k) rest(r - k).

    The cumulative tables for r = 0, 1, ... are laid end to end, each raised by r, and searched at once.
    """
    size = one.size
    gap = np.arange(size)[:, None] - np.arange(size)
    cumulative = np.cumsum(np.where(gap >= 0, one * rest[np.maximum(gap, 0)], 0.0), axis=1)
    last = cumulative[:, -1:]
    table = np.where(last > 0, cumulative / np.where(last > 0, last, 1.0), 1.0).astype(np.float64)
    laid = (table + np.arange(size)[:, None]).ravel()
    return np.asarray(np.searchsorted(laid, left + uniform, side="right") - left * size, dtype=np.int64)
