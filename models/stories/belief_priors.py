"""From a reader's belief to the law of other people's counts in a PyMC model: one function for each kind of belief.

Counts of other people are the latents, never the totals: a flat law of the others on {0, ..., U} tends to the improper
flat law of the total as U grows, whatever lies inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

from adversary._core import check_whole
from adversary.reader.beliefs import Belief, Each

from .tabulated import Tabulated

LARGEST_TABLE = 20_000_000
"""Entries of a belief's table beyond which the model is refused."""

Upper = int | Mapping[str, int] | None
Dims = tuple[str, ...] | None


@dataclass(frozen=True)
class Count:
    """A count in the graph and the range it can take."""

    value: TensorVariable
    low: int
    high: int

    @property
    def range(self) -> NDArray[np.int64]:
        """Every value it can take."""
        return np.arange(self.low, self.high + 1)

    def plus(self, others: TensorVariable, low: int, high: int) -> Count:
        """The count with others added, of whom there are `low` to `high`."""
        return Count(self.value + others, self.low + low, self.high + high)


@dataclass(frozen=True)
class Limit:
    """Where unbounded laws of the others are cut; `largest` is the largest possible count at the lowest level."""

    upper: Upper
    largest: int

    def width(self, name: str) -> int:
        """Largest number of others at a level; ValueError where nobody gave a limit."""
        total = self.upper.get(name) if isinstance(self.upper, Mapping) else self.upper
        if total is None:
            raise ValueError(
                f"the belief about level {name!r} is improper: give upper, the largest total to consider, for instance "
                f"hierarchical_counts(plan, reader, upper={self.largest + 60})"
            )
        total = int(check_whole("upper", total))
        if total < self.largest:
            raise ValueError(f"upper at level {name!r} must be at least known + 1 = {self.largest}, got {total}")
        return total - self.largest

    def given(self, name: str) -> bool:
        """Whether there is a limit at a level."""
        return self.upper is not None and (not isinstance(self.upper, Mapping) or name in self.upper)


@dataclass(frozen=True)
class OthersOfLevel:
    """Everybody outside the target's unit at one level, given the count inside.

    Parameters
    ----------
    name : the level
    below : the level inside, None at the lowest
    beliefs : one per cell
    inside : the count inside
    limit : where unbounded laws are cut
    dims : of the count, ("cell",) with two cells
    """

    name: str
    below: str | None
    beliefs: Sequence[Belief]
    inside: Count
    limit: Limit
    dims: Dims


class OthersDraw(NamedTuple):
    """The others, the total, and the counts of single siblings where these are latents of their own."""

    others: TensorVariable
    total: Count
    siblings: TensorVariable | None = None


Law = Callable[[OthersOfLevel], OthersDraw]


def believed(outside: OthersOfLevel) -> OthersDraw:
    """One latent ``others[level]`` at most, from the belief's own log probabilities."""
    if all(_certain(belief) for belief in outside.beliefs):
        return _settled(outside)
    if all(belief.flat for belief in outside.beliefs):
        return _flat(outside)
    return _tabulated(outside)


def _certain(belief: Belief) -> bool:
    return belief.known_count is not None or belief.known_total is not None


def one_by_one(outside: OthersOfLevel) -> OthersDraw:
    """As `believed`, but under `Each` every sibling's count is a latent, ``sibling_count[level below]``."""
    each = [belief.each for belief in outside.beliefs if belief.each is not None]
    if not each:
        return believed(outside)
    if len(each) < len(outside.beliefs):
        raise ValueError(f"level {outside.name!r}: siblings are read one by one in every cell or in none")
    d = each[0].count
    name, dims = f"sibling_count[{outside.below}]", (sibling_dim(str(outside.below)), *(outside.dims or ()))
    pm.modelcontext(None).add_coord(dims[0], range(d))
    if all(belief.law is None for belief in each):
        high = outside.limit.width(outside.name)
        counts = pm.DiscreteUniform(name, np.float64(0), np.float64(high), dims=dims)
    else:
        lows, highs = zip(*(_ends_of_one(belief, outside) for belief in each), strict=True)
        grid, high = np.arange(min(lows), max(highs) + 1), max(highs)
        table = np.stack([np.asarray(belief.log_one(grid.astype(np.float64)), np.float64) for belief in each])
        row = np.broadcast_to(np.arange(len(each)), (d, len(each)))
        counts = Tabulated(name, table, row if outside.dims else row[:, 0], start=int(grid[0]), dims=dims)
    others = counts.sum(axis=0)
    return OthersDraw(others, outside.inside.plus(others, 0, d * high), counts)


def sibling_dim(level: str) -> str:
    """Name of the dim over the siblings of a level's unit."""
    return f"sibling of {level}"


def _ends_of_one(belief: Each, outside: OthersOfLevel) -> tuple[int, int]:
    """Smallest and largest count of one sibling to tabulate."""
    if belief.law is None:
        return 0, outside.limit.width(outside.name)
    low, high = belief.one.bulk()
    if belief.ends_of_one()[1] is None and outside.limit.given(outside.name):
        high = max(high, outside.limit.width(outside.name))
    return low, high


def _settled(outside: OthersOfLevel) -> OthersDraw:
    """No latent: the reader is sure of the others (`Known`) or of the total (`Point`)."""
    beliefs, inside = outside.beliefs, outside.inside
    sure = np.array([belief.known_total is not None for belief in beliefs])
    number = np.array([b.known_count if b.known_total is None else b.known_total for b in beliefs])
    ends = [np.where(sure, number, end + number) for end in (inside.low, inside.high)]
    if outside.dims is None:
        sure, number = sure[0], number[0]
    others = pt.switch(sure, number - inside.value, number) if sure.any() else pt.as_tensor_variable(number)
    if sure.any() and (number[sure] < inside.high).any():
        pm.Potential(f"belief[{outside.name}]", pt.switch(others >= 0, np.float64(0), np.float64(-np.inf)))
    return OthersDraw(others, Count(inside.value + others, int(ends[0].min()), int(ends[1].max())))


def _flat(outside: OthersOfLevel) -> OthersDraw:
    """Every number of others alike, up to the limit."""
    width = outside.limit.width(outside.name)
    others = pm.DiscreteUniform(f"others[{outside.name}]", np.float64(0), np.float64(width), dims=outside.dims)
    return OthersDraw(others, outside.inside.plus(others, 0, width))


def _tabulated(outside: OthersOfLevel) -> OthersDraw:
    """Any belief, through its log probabilities: a row for every count inside, or one row where that is irrelevant."""
    name, beliefs, inside, dims = outside.name, outside.beliefs, outside.inside, outside.dims
    alike = all(belief.independent for belief in beliefs)
    rows = inside.range[:1] if alike else inside.range
    windows = np.array([_window(name, belief, rows, outside.limit) for belief in beliefs])
    start, stop = max(0, int(windows[:, 0].min())), int(windows[:, 1].max()) + 1
    if len(beliefs) * rows.size * (stop - start) > LARGEST_TABLE:
        raise ValueError(f"level {name!r}: a table of {rows.size} counts inside by {stop - start} others is too large")
    totals = rows[:, None] + np.arange(start, stop)
    table = np.stack([np.asarray(belief.log_prob(totals, rows[:, None]), np.float64) for belief in beliefs])
    possible = totals[np.isfinite(table).any(axis=0)]
    if possible.size == 0:
        raise ValueError(f"the belief about level {name!r} excludes every count inside, {inside.low} to {inside.high}")
    cell = rows.size * np.arange(len(beliefs)) if dims else 0
    row = cell if alike else inside.value - inside.low + cell
    others = Tabulated(f"others[{name}]", table.reshape(-1, stop - start), row, start=start, dims=dims)
    spread = inside.high - inside.low if alike else 0
    return OthersDraw(others, Count(inside.value + others, int(possible.min()), int(possible.max()) + spread))


def _window(name: str, belief: Belief, rows: NDArray[np.int64], limit: Limit) -> tuple[int, int]:
    """Smallest and largest number of others to tabulate, over all counts inside."""
    ends = [belief.window(int(k)) for k in rows]
    if any(end is None for end in ends):
        return 0, limit.width(name)
    lower = np.array([belief.support(int(k))[0] for k in rows]) - rows
    upper = np.array(ends)[:, 1] - rows
    if belief.support(int(rows[0]))[1] is None and limit.given(name):
        upper = np.maximum(upper, limit.width(name))
    return int(lower.min()), int(upper.max())
