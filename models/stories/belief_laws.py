"""PyMC distributions of other people's counts under a belief: PyMC's own distribution if it has one, otherwise a table.

Counts of other people are the latents, not the totals: a uniform distribution of the others on {0, ..., U} tends to the
improper flat distribution of the total as U grows, for any count inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.distributions.distribution import Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adversary._core import check_whole
from adversary.adversaries.beliefs import Belief, BetaBinomial, GammaPoisson, Others, Uniform
from adversary.models.noise import draws_of, float64

# Number of entries of a belief's table above which the model is refused.
LARGEST_TABLE = 20_000_000

Upper = int | Mapping[str, int] | None
Dims = tuple[str, ...] | None


@dataclass(frozen=True)
class Count:
    """A count as a tensor, with its smallest and largest value and its dims."""

    value: TensorVariable
    low: int
    high: int
    dims: Dims = None

    def __add__(self, other: Count) -> Count:
        return Count(self.value + other.value, self.low + other.low, self.high + other.high, other.dims)

    def total(self) -> Count:
        """Sum of the count over its first dim."""
        size = len(pm.modelcontext(None).coords[(self.dims or ())[0]])
        return Count(self.value.sum(axis=0), size * self.low, size * self.high, (self.dims or ())[1:] or None)

    def named(self, name: str) -> Count:
        """The count as a named Deterministic of the model."""
        return replace(self, value=pm.Deterministic(name, self.value, dims=self.dims))


@dataclass(frozen=True)
class Limit:
    """Truncation of unbounded beliefs; `largest` is the largest possible count at the lowest level."""

    upper: Upper
    largest: int

    def width(self, level: str) -> int:
        """Largest number of others at a level; ValueError if no limit was given."""
        total = self.upper.get(level) if isinstance(self.upper, Mapping) else self.upper
        if total is None:
            raise ValueError(
                f"the belief about level {level!r} is improper: give upper, the largest total to consider, for "
                f"instance hierarchical_counts(plan, adversary, upper={self.largest + 60})"
            )
        total = int(check_whole("upper", total))
        if total < self.largest:
            raise ValueError(f"upper at level {level!r} must be at least known + 1 = {self.largest}, got {total}")
        return total - self.largest

    def at_least(self, level: str, high: int) -> int:
        """The larger of `high` and the limit, if there is one."""
        given = self.upper is not None and (not isinstance(self.upper, Mapping) or level in self.upper)
        return max(high, self.width(level)) if given else high


@dataclass(frozen=True)
class OthersOfLevel:
    """Count of the people outside the target's unit at one level, given the count inside.

    Parameters
    ----------
    level : name of the level
    name : name of the variable
    beliefs : beliefs, one per cell
    inside : count inside the unit
    limit : truncation of unbounded beliefs
    dims : dims of the count, ("cell",) with two cells
    rates : whether unknown rates are latents
    """

    level: str
    name: str
    beliefs: Sequence[Belief]
    inside: Count
    limit: Limit
    dims: Dims
    rates: bool = False

    def counted(self) -> Count:
        """Count of the others: a latent, or a fixed number if the adversary is certain of it."""
        if all(belief.known_count is not None or belief.known_total is not None for belief in self.beliefs):
            return _no_latent(self)
        alike = len({type(belief) for belief in self.beliefs}) == 1
        if self.rates and not alike and any(has_rate(belief) for belief in self.beliefs):
            raise ValueError(f"level {self.level!r}: give both cells the same kind of belief, got {self.beliefs}")
        first = self.beliefs[0]
        if self.rates and has_rate(first):
            return given_rate(first, self)
        return count_law(first, self) if alike else tabulated_count(self)

    @property
    def each(self) -> bool:
        """True if the beliefs are about each sibling of the unit below separately."""
        about = [belief.each is not None for belief in self.beliefs]
        if any(about) and not all(about):
            raise ValueError(f"level {self.level!r}: siblings are read one by one in every cell or in none")
        return all(about)

    def siblings(self, below: str) -> Count:
        """Counts of the siblings of the unit below, one per sibling."""
        each, dims = [belief.each for belief in self.beliefs], (f"sibling of {below}", *(self.dims or ()))
        pm.modelcontext(None).add_coord(dims[0], range(each[0].count))
        laws = [Uniform() if one.law is None else one.sibling_law for one in each]
        one = replace(self, name=f"sibling_count[{below}]", beliefs=laws, inside=_NOBODY, dims=dims)
        return one.counted()

    def fields(self, *names: str) -> list[NDArray[np.float64]]:
        """Parameters of the beliefs by name, each a number or an array (cell,)."""
        return [_per_cell([getattr(belief, name) for belief in self.beliefs]) for name in names]

    def drawn(self, law: Any, high: int, *parameters: Any, **named: Any) -> Count:
        """Count with a PyMC distribution whose largest value is `high`."""
        return Count(law(self.name, *parameters, **named, dims=self.dims), 0, high, self.dims)

    def cut(self, law: TensorVariable) -> Count:
        """Count with an unbounded PyMC distribution, truncated where less than 1e-18 of the mass is left."""
        high = self.limit.at_least(self.level, max(_largest_count(belief) for belief in self.beliefs))
        return self.drawn(pm.Truncated, high, law, upper=np.float64(high))


_NOBODY = Count(pt.constant(np.int64(0)), 0, 0)


def _per_cell(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array(values[0] if len(values) == 1 else values, dtype=np.float64)


def _largest_count(belief: Belief) -> int:
    """Largest count of others with non-negligible mass."""
    bulk = belief.window(0)
    assert bulk is not None
    return bulk[1]


@singledispatch
def count_law(belief: Belief, others: OthersOfLevel) -> Count:
    """Count of the others under beliefs of one type; register one function per belief with a PyMC distribution."""
    del belief
    return tabulated_count(others)


@count_law.register
def _(belief: Uniform, others: OthersOfLevel) -> Count:
    if all(one.flat for one in others.beliefs):
        width = others.limit.width(others.level)
        return others.drawn(pm.DiscreteUniform, width, np.int64(0), np.int64(width))
    if any(one.flat for one in others.beliefs) or (upper := others.fields("upper")[0]).min() < others.inside.high:
        # If a count inside exceeds `upper`, the uniform distribution of the others would be empty: a table excludes it.
        return tabulated_count(others)
    rest = upper.astype(np.int64) - others.inside.value
    return others.drawn(pm.DiscreteUniform, int(upper.max()) - others.inside.low, np.int64(0), rest)


@count_law.register
def _(belief: GammaPoisson, others: OthersOfLevel) -> Count:
    shape, rate, exposure = others.fields("shape", "rate", "exposure")
    return others.cut(pm.NegativeBinomial.dist(n=shape, p=rate / (rate + exposure)))


@count_law.register
def _(belief: BetaBinomial, others: OthersOfLevel) -> Count:
    n, alpha, beta = others.fields("n", "alpha", "beta")
    return others.drawn(pm.BetaBinomial, int(n.max()), n=n.astype(np.int64), alpha=alpha, beta=beta)


@count_law.register
def _(belief: Others, others: OthersOfLevel) -> Count:
    laws = [one.law for one in others.beliefs if isinstance(one, Others)]
    if all(isinstance(law, np.ndarray) for law in laws):
        size = max(law.size for law in laws)
        table = [np.append(law, np.zeros(size - law.size)) for law in laws]
        return others.drawn(pm.Categorical, size - 1, p=_per_cell(table))
    names = {getattr(getattr(law, "dist", None), "name", "") for law in laws}
    build = _SCIPY.get(names.pop()) if len(names) == 1 else None
    if build is None:
        return tabulated_count(others)
    given = [law.dist._parse_args(*law.args, **law.kwds)[:2] for law in laws]
    if any(np.any(np.asarray(shift)) for _, shift in given):
        return tabulated_count(others)
    return build(others, *(_per_cell(column) for column in zip(*(values for values, _ in given), strict=True)))


def _binomial(others: OthersOfLevel, n: Any, p: Any) -> Count:
    return others.drawn(pm.Binomial, int(n.max()), n=n.astype(np.int64), p=p)


# PyMC distributions by the name of the equivalent scipy distribution.
_SCIPY: dict[str, Callable[..., Count]] = {
    "poisson": lambda others, mu: others.cut(pm.Poisson.dist(mu)),
    "binom": _binomial,
    "nbinom": lambda others, n, p: others.cut(pm.NegativeBinomial.dist(n=n, p=p)),
    "geom": lambda others, p: others.cut(pm.Geometric.dist(p)),
}


@singledispatch
def given_rate(belief: Belief, others: OthersOfLevel) -> Count:
    """Count of the others given a latent rate; register one function per belief that has a rate."""
    raise TypeError(f"{belief!r} has no rate")


def has_rate(belief: Belief) -> bool:
    """True if a belief is about an unknown rate."""
    return given_rate.dispatch(type(belief)) is not given_rate.dispatch(object)


@given_rate.register
def _(belief: GammaPoisson, others: OthersOfLevel) -> Count:
    shape, rate, exposure = others.fields("shape", "rate", "exposure")
    each = pm.Gamma(f"rate[{others.level}]", alpha=shape, beta=rate, dims=others.dims)
    return others.cut(pm.Poisson.dist(mu=each * exposure))


@given_rate.register
def _(belief: BetaBinomial, others: OthersOfLevel) -> Count:
    n, alpha, beta = others.fields("n", "alpha", "beta")
    return _binomial(others, n, pm.Beta(f"rate[{others.level}]", alpha=alpha, beta=beta, dims=others.dims))


def _no_latent(others: OthersOfLevel) -> Count:
    """Count without a latent: the adversary is certain of the others (`Known`) or of the total (`Point`)."""
    beliefs, inside = others.beliefs, others.inside
    sure = np.array([belief.known_total is not None for belief in beliefs])
    number = np.array([b.known_count if b.known_total is None else b.known_total for b in beliefs])
    low, high = (np.where(sure, number - end, number) for end in (inside.high, inside.low))
    if others.dims is None:
        sure, number = sure[0], number[0]
    count = pt.switch(sure, number - inside.value, number) if sure.any() else pt.as_tensor_variable(number)
    if low.min() < 0:
        pm.Potential(f"belief[{others.level}]", pt.switch(count >= 0, np.float64(0), np.float64(-np.inf)))
    return Count(count, int(low.min()), int(high.max()), others.dims)


def tabulated_count(others: OthersOfLevel) -> Count:
    """Count under any belief, by a table of log probabilities: a row per count inside, or one row if independent."""
    level, beliefs, inside, dims = others.level, others.beliefs, others.inside, others.dims
    alike = all(belief.independent for belief in beliefs)
    rows = np.arange(inside.low, (inside.low if alike else inside.high) + 1)
    windows = np.array([_window(others, belief, rows) for belief in beliefs])
    start, stop = max(0, int(windows[:, 0].min())), int(windows[:, 1].max()) + 1
    if len(beliefs) * rows.size * (stop - start) > LARGEST_TABLE:
        raise ValueError(f"level {level!r}: a table of {rows.size} counts inside by {stop - start} others is too large")
    totals = rows[:, None] + np.arange(start, stop)
    table = np.stack([np.asarray(belief.log_prob(totals, rows[:, None]), np.float64) for belief in beliefs])
    possible = totals[np.isfinite(table).any(axis=0)]
    if possible.size == 0:
        ends = f"{inside.low} to {inside.high}"
        raise ValueError(f"the belief about level {level!r} excludes every count inside, {ends}")
    cell: Any = rows.size * np.arange(len(beliefs)) if len(beliefs) > 1 else 0
    row = cell if alike else inside.value - inside.low + cell
    count = Tabulated(others.name, table.reshape(-1, stop - start), row, start=start, dims=dims)
    return Count(count, start, stop - 1, dims)


def _window(others: OthersOfLevel, belief: Belief, rows: NDArray[np.int64]) -> tuple[int, int]:
    """Smallest and largest number of others to tabulate, over all counts inside."""
    ends = [belief.window(int(k)) for k in rows]
    if any(end is None for end in ends):
        return 0, others.limit.width(others.level)
    lower = np.array([belief.support(int(k))[0] for k in rows]) - rows
    upper = int((np.array(ends)[:, 1] - rows).max())
    endless = belief.support(int(rows[0]))[1] is None
    return int(lower.min()), others.limit.at_least(others.level, upper) if endless else upper


class TabulatedRV(RandomVariable):
    """Draws of `Tabulated`."""

    name = "tabulated"
    signature = "(r,n),(),()->()"
    dtype = "int64"
    _print_name = ("Tabulated", "\\operatorname{Tabulated}")

    @classmethod
    def rng_fn(
        cls, rng: np.random.Generator, log_table: Any, row: Any, start: Any, size: Any = None
    ) -> NDArray[np.int64]:
        shape = np.shape(row) if size is None else tuple(size)
        weights = log_table.reshape(log_table.shape[-2:])[np.broadcast_to(row, shape)]
        top = weights.max(axis=-1, keepdims=True)
        if np.isneginf(top).any():
            raise ValueError("a count was drawn that the next belief rules out: this model has no prior to draw from")
        cumulative = np.cumsum(np.exp(weights - top), axis=-1)
        draws = (cumulative <= rng.random((*shape, 1)) * cumulative[..., -1:]).sum(axis=-1)
        return np.asarray(start + draws, dtype=np.int64)


@draws_of(TabulatedRV)
def _tabulated(rng: Any, log_table: Any, row: int, start: int) -> int:
    weights = log_table[row] - log_table[row].max()
    if not np.isfinite(log_table[row].max()):
        raise ValueError("a count was drawn that the next belief rules out: this model has no prior to draw from")
    cumulative = np.cumsum(np.exp(weights))
    return int(start + np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


class Tabulated(Discrete):
    r"""Count with :math:`\log P(k) = t_{r, k - s}` for k = s, s + 1, ..., s + n - 1: row r of a fixed table.

    Rows are not normalised: a row of minus infinities excludes its r, and rows of an improper belief may have different
    masses. Draws normalise each row.

    Parameters
    ----------
    log_table : array_like, shape (rows, n)
        Log probabilities (nats).
    row : tensor_like of int
        The row r; outside 0, ..., rows - 1 every count has probability zero.
    start : int
        The first count s (people).
    """

    rv_op = TabulatedRV()

    @classmethod
    def dist(cls, log_table: ArrayLike, row: Any = 0, *, start: int = 0, **kwargs: Any) -> TensorVariable:
        table = np.atleast_2d(np.asarray(log_table, dtype=np.float64))
        return super().dist([float64(table), pt.as_tensor(row).astype("int64"), pt.constant(np.int64(start))], **kwargs)

    def support_point(rv: Any, size: Any, log_table: Any, row: Any, start: Any) -> TensorVariable:
        del rv
        modes = pt.argmax(log_table, axis=-1).ravel()
        mode = start + pt.take(modes, pt.clip(row, 0, modes.shape[0] - 1))
        return mode if rv_size_is_none(size) else pt.full(size, mode)

    def logp(value: Any, log_table: Any, row: Any, start: Any) -> TensorVariable:
        rows, n = log_table.shape[-2:]
        place = value - start
        possible = (place >= 0) & (place < n) & (row >= 0) & (row < rows)
        index = pt.clip(row, 0, rows - 1) * n + pt.clip(place, 0, n - 1)
        entry = pt.take(log_table.ravel(), index.astype("int64")[..., None])[..., 0]
        return pt.switch(possible, entry, np.float64(-np.inf))
