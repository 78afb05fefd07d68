"""Exact inference from several tables of one population: others' counts are summed out one by one.

Every table counts the people of a file by some of their features, with independent noise. A person is in one cell of
each table. The finest cells are those of all features of any table. Under the adversary's belief, the counts of other
people in the finest cells are independent; a table publishes noisy sums of them. See `elimination`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Floats, as_array, check_probability, check_whole
from adversary.adversaries.tables.elimination import Elimination
from adversary.adversaries.tables.elimination_steps import Weights
from adversary.adversaries.tables.published import PublishedTable
from adversary.adversaries.tables.query import Query
from adversary.privacy.mechanisms import Mechanism

# Largest number of terms for one release; about ten seconds.
MOST_TERMS = 2e9


@dataclass(frozen=True)
class CrossingTables:
    """Tables of one population, and the adversary's belief about others in every finest cell.

    Parameters
    ----------
    tables : the published tables, at least one
    features : number of categories by feature, in the order of the axes of counts
    belief : probabilities of 0, 1, ... others in a finest cell: (count,) for all cells, or (*features, count)

    Raises
    ------
    ValueError : no tables, a table's feature that is not in `features`, or probabilities of a wrong shape or sum

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
        """Log P(all tables | in) - log P(all tables | out) of a target, averaged over the belief about others.

        Parameters
        ----------
        released : noisy counts by table, in their order: (*by), or (release, *by)
        target : the target's category of every feature, in the order of `features`

        Returns
        -------
        Nats, (release,); NaN for a release that is impossible under both hypotheses

        Raises
        ------
        ValueError : counts of a wrong shape, a category out of range, or more than `MOST_TERMS` terms
        """
        counts, cell = self._check(released), self._check_target(target)
        queries = [self._query(table) for table in self.tables]
        shape = tuple(self.features.values())
        place, size = int(np.ravel_multi_index(cell, shape)), self.belief.shape[-1]
        widths = np.full(int(np.prod(shape)), size)
        widths[place] += 1
        index = np.indices(shape).reshape(len(shape), -1).T
        plan = Elimination([query.rows for query in queries], widths, index, MOST_TERMS)
        if plan.terms > MOST_TERMS:
            raise ValueError(
                f"tables that cross take more than {MOST_TERMS:.0e} terms here: leave a table out, or ask about an "
                "adversary who knows everybody else"
            )
        noisy = [self._turned(table, one) for table, one in zip(self.tables, counts, strict=True)]
        belief = np.reshape(self.belief, (-1, size))
        releases = len(counts[0])
        laws = {i: (np.repeat(own[None], releases, axis=0), np.zeros(releases)) for i, own in enumerate(belief)}
        laws[place] = np.pad(laws[place][0], ((0, 0), (0, 1))), np.zeros(releases)
        noises = [table.noise for table in self.tables]
        messages = plan.run(laws, row_likelihoods(noises, noisy))[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            present, out = messages[:, 1:] @ belief[place], messages[:, :-1] @ belief[place]
            log_factor = np.log(present) - np.log(out)
        # A number that no count of its cell can publish makes the release impossible under both hypotheses.
        return np.where(self._possible(queries, noisy, place), log_factor, np.nan)

    def _possible(self, queries: Sequence[Query], noisy: Sequence[Floats], place: int) -> NDArray[np.bool_]:
        """True for releases whose every number some count of its cell can publish, (release,)."""
        possible = np.ones(len(noisy[0]), dtype=bool)
        for query, table, values in zip(queries, self.tables, noisy, strict=True):
            most = (self.belief.shape[-1] - 1) * np.bincount(query.rows, minlength=query.size)
            most[query.rows[place]] += 1
            for row, last in enumerate(most):
                at = table.noise.log_likelihood(values[:, row, None], np.arange(last + 1.0))
                possible &= (np.asarray(at) > -np.inf).any(axis=1)
        return possible

    def log_bayes_factor_known(self, released: Sequence[ArrayLike], target: Sequence[int], others: ArrayLike) -> Floats:
        """Log Bayes factor for an adversary who knows all other records: the sum of the tables' log likelihood ratios.

        Parameters
        ----------
        released, target : as for `log_bayes_factor`
        others : true counts of others in the finest cells, (*features)

        Returns
        -------
        Nats, (release,)
        """
        counts, cell = self._check(released), self._check_target(target)
        known = check_whole("others", others, minimum=0)
        if known.shape != tuple(self.features.values()):
            raise ValueError(f"others must have the shape {tuple(self.features.values())}, got {known.shape}")
        total, place = np.zeros(len(counts[0])), int(np.ravel_multi_index(cell, known.shape))
        for table, noisy in zip(self.tables, counts, strict=True):
            rows = self._query(table).rows
            value = int(known.ravel()[rows == rows[place]].sum())
            total += as_array(table.noise.log_ratio(self._turned(table, noisy)[:, rows[place]], value + 1, value))
        return total

    def _check(self, released: Sequence[ArrayLike]) -> list[Floats]:
        if len(released) != len(self.tables):
            raise ValueError(f"released must be one array for each of {len(self.tables)} tables, got {len(released)}")
        checked = []
        for table, given in zip(self.tables, released, strict=True):
            shape, noisy = tuple(self.features[one] for one in table.by), as_array(given)
            if noisy.shape == shape:
                noisy = noisy[None]
            if noisy.shape[1:] != shape:
                raise ValueError(f"released of table {table.name!r} must have the shape {shape}, got {noisy.shape}")
            checked.append(noisy)
        if len({len(one) for one in checked}) > 1:
            raise ValueError(f"released must have as many releases of every table, got {[len(one) for one in checked]}")
        return checked

    def _query(self, table: PublishedTable) -> Query:
        sizes = self.features.items()
        return Query(table.name, tuple(tuple(range(n)) if name in table.by else (0,) * n for name, n in sizes))

    def _turned(self, table: PublishedTable, noisy: Floats) -> Floats:
        """Noisy counts with axes in the order of the features, flattened, (release, row)."""
        order = [1 + table.by.index(name) for name in self.features if name in table.by]
        return np.transpose(noisy, [0, *order]).reshape(len(noisy), -1)

    def _check_target(self, target: Sequence[int]) -> tuple[int, ...]:
        cell = tuple(int(one) for one in check_whole("target", target, minimum=0))
        if len(cell) != len(self.features) or any(i >= n for i, n in zip(cell, self.features.values(), strict=True)):
            raise ValueError(f"target must be a category of every feature {self.features}, got {cell}")
        return cell


def row_likelihoods(noises: Sequence[Mechanism], noisy: Sequence[Floats]) -> Weights:
    """The likelihood of every row as a function of its sum, for `Elimination.run`; rows are numbered table by table.

    Parameters
    ----------
    noises : the noise of each table
    noisy : releases of each table, (release, row)

    Returns
    -------
    Function of (row, first sum (release,), number of sums), with values (release, sum), scaled to a maximum of 1
    """
    starts = np.cumsum([0, *(one.shape[1] for one in noisy)])

    def weights(row: int, offset: Any, length: int) -> Floats:
        table = int(np.searchsorted(starts, row, side="right")) - 1
        sums = np.asarray(offset)[:, None] + np.arange(length, dtype=np.float64)
        log_weights = noises[table].log_likelihood(noisy[table][:, row - starts[table]][:, None], np.maximum(sums, 0.0))
        log_weights = np.where(sums < 0.0, -np.inf, log_weights)
        top = log_weights.max(axis=1, keepdims=True)
        return np.asarray(np.exp(log_weights - np.where(np.isfinite(top), top, 0.0)))

    return weights
