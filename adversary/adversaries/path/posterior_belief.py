"""Belief after a release: the distribution of the total for every count inside, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, format_number, scalar_or_array
from adversary.adversaries.beliefs import Belief


@dataclass(frozen=True, eq=False)
class PosteriorBelief(Belief):
    """A belief after a release: a table of log probabilities of each total given each count inside.

    Parameters
    ----------
    inside : counts inside, ascending and consecutive, (inside,)
    totals : totals, ascending and consecutive, (total,)
    table : log probabilities, (inside, total); rows are normalised, or all -inf for an excluded count inside
    """

    inside: Floats
    totals: Floats
    table: Floats

    def others_gap(self, gap: int) -> int:
        """Largest distance between quantiles of the rows, tails of 1e-9 apart."""
        if gap == 0:
            return 0
        rows = [self._others(i) for i in range(self.inside.size)]
        pairs = [(a, b) for a, b in zip(rows[:-gap], rows[gap:], strict=True) if a is not None and b is not None]
        return max((_quantile_gap(a, b) for a, b in pairs), default=0)

    def _others(self, i: int) -> tuple[Floats, Floats] | None:
        """(others' counts, cumulative probabilities) given one count inside; None if it is excluded."""
        if np.isneginf(self.table[i]).all():
            return None
        return self.totals - self.inside[i], np.cumsum(np.exp(self.table[i]))

    def log_prob(self, total: ArrayLike, inside: ArrayLike) -> Any:
        i = np.asarray(as_array(inside) - self.inside[0]).astype(np.int64)
        j = np.asarray(as_array(total) - self.totals[0]).astype(np.int64)
        inbound = (i >= 0) & (i < self.inside.size) & (j >= 0) & (j < self.totals.size)
        value = self.table[np.where(inbound, i, 0), np.where(inbound, j, 0)]
        return scalar_or_array(np.where(inbound, value, -np.inf))

    def support(self, inside: int) -> tuple[int, int | None]:
        """Smallest and largest possible total given this count inside; of the whole table if the count is excluded."""
        possible = np.flatnonzero(self.log_prob(self.totals, float(inside)) > -np.inf)
        low, high = self.totals[possible[[0, -1]] if possible.size else [0, -1]]
        return int(low), int(high)

    def window(self, inside: int) -> tuple[int, int] | None:
        return self.support(inside)  # type: ignore[return-value]

    def describe(self, level: str, inside: str) -> str:
        """A clause with the range of the totals and their mean under both hypotheses."""
        means = (np.exp(self.table) * self.totals).sum(axis=1)
        out, present = format_number(means[0]), format_number(means[-1])
        return (
            f"the {level}'s count in the cell is between {int(self.totals[0])} and {int(self.totals[-1])}, {out} on "
            f"average if the target is out and {present} if in"
        )

    proper = True


def _quantile_gap(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> int:
    """Largest distance between the quantiles of two distributions, given as (values, cumulative probabilities)."""
    # The distance changes only where one cdf has a step, so levels just beyond every step and in both tails suffice.
    levels = np.concatenate([a[1], b[1]])
    levels = np.concatenate([levels[(levels > 1e-9) & (levels < 1 - 1e-9)] + 1e-12, [1e-9, 0.5, 1 - 1e-9]])
    quantiles = [values[np.minimum(np.searchsorted(mass, levels), values.size - 1)] for values, mass in (a, b)]
    return int(np.abs(quantiles[0] - quantiles[1]).max())
