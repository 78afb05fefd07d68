"""Several published tables of one population, read together exactly: others' counts are summed out one by one.

Every table counts the people of a file by some of their features, each with noise of its own. A person is in one cell
of each table. The counts of other people in the finest cells, those of all features that any table has, are independent
under the adversary's belief; a table publishes noisy sums of them. Summing over the counts goes cell by cell: features
that no further table has are convolved away, a table of all features that are left multiplies what it says of its
cells, and of tables that cross the sums that are still open are carried along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched, permutations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability, check_whole
from adversary.adversaries.tables.published import PublishedTable

MOST_TERMS = 2e9
"""Products that one release may take; some ten seconds."""
SIDES = 2
"""Hypotheses: out, in."""


@dataclass(frozen=True)
class CrossingTables:
    """Tables of one population, and the adversary's belief about others in every finest cell.

    Parameters
    ----------
    tables : at least one
    features : number of categories by feature, in the order of the axes of counts
    belief : probabilities of 0, 1, ... others in a finest cell: (count,) for all alike, or (*features, count)

    Raises
    ------
    ValueError : no tables, a feature that is not among `features`, probabilities of another shape or that do not add up
        to 1

    >>> from adversary.privacy.mechanisms import Geometric
    >>> tables = [PublishedTable(("place", "sex"), Geometric(1.0)), PublishedTable("sex", Geometric(0.5))]
    >>> world = CrossingTables(tables, {"place": 2, "sex": 2}, np.full(4, 0.25))
    >>> released = [np.array([[2, 1], [0, 3]]), np.array([2, 4])]
    >>> [round(float(odds), 6) for odds in world.log_bayes_factor(released, (0, 0))]
    [-0.018769]
    """

    tables: tuple[PublishedTable, ...]
    features: dict[str, int]
    belief: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        if not self.tables:
            raise ValueError("tables must be at least one, got none")
        sizes = {name: int(check_whole(f"categories of {name!r}", n, minimum=1)) for name, n in self.features.items()}
        for table in self.tables:
            if missing := [one for one in table.by if one not in sizes]:
                raise ValueError(f"table {table.name!r}: {missing[0]!r} is no feature; there are {', '.join(sizes)}")
        belief = np.asarray(check_probability("belief", self.belief))
        shape = tuple(sizes.values())
        if belief.ndim == 1:
            belief = np.broadcast_to(belief, (*shape, belief.size))
        if belief.shape[:-1] != shape or not belief.shape[-1]:
            raise ValueError(
                f"belief must be probabilities of counts, for all cells or of shape {shape} and counts, got "
                f"{belief.shape}"
            )
        if not np.allclose(belief.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9):
            raise ValueError("belief must add up to 1 in every finest cell")
        object.__setattr__(self, "features", sizes)
        object.__setattr__(self, "belief", belief)

    def log_bayes_factor(self, released: Sequence[ArrayLike], target: Sequence[int]) -> Floats:
        """Log P(all tables | in) - log P(all tables | out) of a target with these features, others believed in.

        Parameters
        ----------
        released : noisy counts by table, in their order: (*by), or (release, *by)
        target : the category of every feature, in the order of `features`

        Returns
        -------
        Nats, (release,).

        Raises
        ------
        ValueError : counts of another shape, a category out of range, or more terms than `MOST_TERMS`
        """
        names, counts = list(self.features), self._check(released)
        cell = self._check_target(target)
        count = len(counts[0])
        factors = np.broadcast_to(self.belief, (count, SIDES, *self.belief.shape)).astype(np.float64)
        log_scale = np.zeros((count, SIDES))
        left = list(zip(self.tables, counts, strict=True))
        while left:
            union = [name for name in names if any(name in table.by for table, _ in left)]
            for axis in reversed(range(len(names))):  # features that no table left has
                if names[axis] not in union:
                    factors = _convolved_over(factors, axis + 2)
                    cell = cell[:axis] + cell[axis + 1 :]
            names = union
            whole = [one for one in left if len(one[0].by) == len(names)]
            if not whole:
                break
            for table, noisy in whole:
                factors = factors * _likelihoods(table, noisy, names, cell, factors.shape[-1])
            left = [one for one in left if len(one[0].by) < len(names)]
            factors, log_scale = _rescaled(factors, log_scale)
        if left:
            log_scale = log_scale + _eliminated(factors, names, cell, left)
        else:
            with np.errstate(divide="ignore"):
                log_scale = log_scale + np.log(factors.sum(axis=-1)).reshape(count, SIDES, -1).sum(axis=-1)
        with np.errstate(invalid="ignore"):
            return np.asarray(log_scale[:, 1] - log_scale[:, 0])

    def log_bayes_factor_known(self, released: Sequence[ArrayLike], target: Sequence[int], others: ArrayLike) -> Floats:
        """The same for an adversary who knows everybody else: the sum of the tables' own log ratios.

        Parameters
        ----------
        released, target : as for `log_bayes_factor`
        others : true counts of others in the finest cells, (*features)
        """
        names, counts = list(self.features), self._check(released)
        cell = self._check_target(target)
        known = check_whole("others", others, minimum=0)
        if known.shape != tuple(self.features.values()):
            raise ValueError(f"others must have the shape {tuple(self.features.values())}, got {known.shape}")
        total = np.zeros(len(counts[0]))
        for table, noisy in zip(self.tables, counts, strict=True):
            here = table.cell(names, cell)
            collapsed = tuple(axis for axis, name in enumerate(names) if name not in table.by)
            order = [[one for one in names if one in table.by].index(one) for one in table.by]
            value = int(np.transpose(known.sum(axis=collapsed), order)[here])
            total += as_array(table.noise.log_ratio(noisy[cells_at(here)], value + 1, value))
        return total

    def _check(self, released: Sequence[ArrayLike]) -> list[Floats]:
        if len(released) != len(self.tables):
            raise ValueError(f"released must be one array for each of {len(self.tables)} tables, got {len(released)}")
        found = []
        for table, given in zip(self.tables, released, strict=True):
            shape, noisy = tuple(self.features[one] for one in table.by), as_array(given)
            if noisy.shape == shape:
                noisy = noisy[None]
            if noisy.shape[1:] != shape:
                raise ValueError(f"released of table {table.name!r} must have the shape {shape}, got {noisy.shape}")
            found.append(noisy)
        if len({len(one) for one in found}) > 1:
            raise ValueError(f"released must have as many releases of every table, got {[len(one) for one in found]}")
        return found

    def _check_target(self, target: Sequence[int]) -> tuple[int, ...]:
        cell = tuple(int(one) for one in check_whole("target", target, minimum=0))
        if len(cell) != len(self.features) or any(i >= n for i, n in zip(cell, self.features.values(), strict=True)):
            raise ValueError(f"target must be a category of every feature {self.features}, got {cell}")
        return cell


def cells_at(place: tuple[int, ...], leading: int = 1) -> Any:
    """The index of one cell, after so many leading dimensions."""
    return *[slice(None)] * leading, *place


def _likelihoods(
    table: PublishedTable, noisy: Floats, names: Sequence[str], cell: tuple[int, ...], size: int
) -> Floats:
    """P(published | count of others) in every cell of a table of all features left: (release, side, *names, count)."""
    turned = np.moveaxis(noisy, [1 + table.by.index(name) for name in names], range(1, len(names) + 1))
    count = np.arange(size, dtype=np.float64)
    out = table.noise.log_likelihood(turned[..., None], count)
    found = np.repeat(out[:, None], SIDES, axis=1)
    here = cells_at(cell)
    found[:, 1][here] = table.noise.log_likelihood(turned[here][..., None], count + 1.0)
    return np.asarray(np.exp(found - found.max(axis=(1, -1), keepdims=True)), dtype=np.float64)


def _rescaled(factors: Floats, log_scale: Floats) -> tuple[Floats, Floats]:
    """Factors of a largest value 1 in every cell, and the log of what was taken out, by release and side."""
    largest = factors.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        taken = np.log(largest[..., 0]).reshape(*log_scale.shape, -1).sum(axis=-1)
    return factors / np.where(largest > 0.0, largest, 1.0), log_scale + taken


def _convolved(one: Floats, other: Floats) -> Floats:
    """Laws of sums, over the last axis; positive terms, so that nothing cancels."""
    found = np.zeros((*one.shape[:-1], one.shape[-1] + other.shape[-1] - 1))
    for k in range(other.shape[-1]):
        found[..., k : k + one.shape[-1]] += one * other[..., k : k + 1]
    return found


def _convolved_over(factors: Floats, axis: int) -> Floats:
    """The laws of sums over the categories of a feature."""
    parts = [np.asarray(np.take(factors, i, axis=axis), dtype=np.float64) for i in range(factors.shape[axis])]
    while len(parts) > 1:
        parts = [_convolved(*pair) if len(pair) == 2 else pair[0] for pair in batched(parts, 2)]
    return parts[0]


def _eliminated(
    factors: Floats, names: Sequence[str], cell: tuple[int, ...], left: Sequence[tuple[PublishedTable, Floats]]
) -> Floats:
    """Log of the sum over all counts, (release, side), where the tables left cross.

    Cells are added one by one; the state has the sum so far of every table's cell that is still open. A cell of a table
    is closed by what is published of it once its last finest cell is in.
    """
    shape, most = factors.shape[2:-1], factors.shape[-1] - 1
    orders = (_terms(shape, most, names, left, axes) for axes in permutations(range(len(names))))
    terms, order = min(orders, key=lambda one: one[0])
    if terms > MOST_TERMS:
        raise ValueError(
            f"tables that cross take {terms:.2g} terms here, and at most {MOST_TERMS:.0e} are added up: leave a table "
            "out, or ask about an adversary who knows everybody else"
        )
    last = {(i, table.cell(names, at)): k for k, at in enumerate(order) for i, (table, _) in enumerate(left)}
    state, log_scale = np.ones(factors.shape[:2]), np.zeros(factors.shape[:2])
    axes: list[tuple[int, tuple[int, ...]]] = []
    for k, at in enumerate(order):
        touched = [(i, table.cell(names, at)) for i, (table, _) in enumerate(left)]
        for one in touched:
            if one not in axes:
                axes.append(one)
                state = state[..., None]
        law = factors[cells_at(at, 2)]
        places = [2 + axes.index(one) for one in touched]
        state = _added(state, law, places)
        for one in touched:
            if last[one] == k:
                axis = 2 + axes.index(one)
                state = _closed(state, axis, left[one[0]], one[1], one[1] == left[one[0]][0].cell(names, cell))
                axes.remove(one)
        largest = state.reshape(*state.shape[:2], -1).max(axis=-1)
        with np.errstate(divide="ignore"):
            log_scale = log_scale + np.log(largest)
        state = state / np.where(largest > 0.0, largest, 1.0).reshape(*largest.shape, *(1,) * (state.ndim - 2))
    with np.errstate(divide="ignore"):
        return np.asarray(log_scale + np.log(state))


def _added(state: Floats, law: Floats, places: Sequence[int]) -> Floats:
    """The state with one more count, of this law (release, side, count), added to the sums on these axes."""
    most = law.shape[-1] - 1
    shape = [n + most if axis in places else n for axis, n in enumerate(state.shape)]
    found = np.zeros(shape)
    for x in range(most + 1):
        where: Any = tuple(slice(x, x + n) if axis in places else slice(None) for axis, n in enumerate(state.shape))
        found[where] += state * law[..., x].reshape(*law.shape[:2], *(1,) * (state.ndim - 2))
    return found


def _closed(
    state: Floats, axis: int, table: tuple[PublishedTable, Floats], cell: tuple[int, ...], holds_target: bool
) -> Floats:
    """The state without the sum on an axis, weighed by what is published of it."""
    noise, noisy = table[0].noise, table[1][cells_at(cell)][:, None]
    count = np.arange(state.shape[axis], dtype=np.float64)
    sides = [noise.log_likelihood(noisy, count + (holds_target if side else 0.0)) for side in range(SIDES)]
    weight = np.exp(np.stack(sides, axis=1) - np.max(sides, axis=(0, -1))[:, None, None])
    return np.asarray(np.einsum("rs...k,rsk->rs...", np.moveaxis(state, axis, -1), weight))


def _terms(
    shape: tuple[int, ...],
    most: int,
    names: Sequence[str],
    left: Sequence[tuple[PublishedTable, Floats]],
    axes: Sequence[int],
) -> tuple[float, list[tuple[int, ...]]]:
    """How many products an order of the features takes, and the cells in this order."""
    order = []
    for at in product(*(range(shape[axis]) for axis in axes)):
        place = [0] * len(axes)
        for axis, i in zip(axes, at, strict=True):
            place[axis] = i
        order.append(tuple(place))
    last = {(i, table.cell(names, at)): k for k, at in enumerate(order) for i, (table, _) in enumerate(left)}
    open_cells: dict[tuple[int, tuple[int, ...]], int] = {}
    terms = 0.0
    for k, at in enumerate(order):
        touched = [(i, table.cell(names, at)) for i, (table, _) in enumerate(left)]
        for one in touched:
            open_cells[one] = open_cells.get(one, 1) + most
        terms += (most + 1) * float(np.prod([float(n) for n in open_cells.values()]))
        for one in touched:
            if last[one] == k:
                del open_cells[one]
    return terms, order
