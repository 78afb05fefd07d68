r"""Tables of counts with known margins: lists of all such tables, and priors over them.

Records are exchangeable: a prior of the table is a product of one term per cell, restricted to the tables with the
margins,

    P(x | margins) ~ prod_ij exp(term_ij(x_ij)),        term_ij(x) = x log pi_ij - log x!  for independent records.

Given the margins only the odds ratios of pi matter; without association the table is multivariate hypergeometric.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", section 5.
Diaconis and Gangolli (1995), "Rectangular arrays with fixed margins".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import Floats, Integers, check_positive, check_probability, check_whole
from adversary.privacy.invariants import Margins

# Largest number of tables that are listed by default.
LARGEST_LIST = 200_000


def table_margins(margins: Any) -> tuple[Integers, Integers]:
    """(row totals, column totals) of `Margins` of two features, or of two lists of counts, checked."""
    checked = margins if isinstance(margins, Margins) else Margins(margins)
    if checked.features != 2:
        raise ValueError(f"a table has two margins, rows and columns, got {checked.features}")
    rows, columns = (np.asarray(counts, dtype=np.int64) for counts in checked.margins)
    return rows, columns


def cell_bounds(rows: ArrayLike, columns: ArrayLike) -> tuple[Integers, Integers]:
    """Smallest and largest count of each cell that the margins allow: max(0, r_i + c_j - n) and min(r_i, c_j).

    These are the Frechet bounds.

    Parameters
    ----------
    rows, columns : row and column totals, whole numbers (r,) and (c,) with the same sum n

    Returns
    -------
    (smallest, largest), each (r, c)

    >>> [bound.tolist() for bound in cell_bounds([3, 1], [2, 2])]
    [[[1, 1], [0, 0]], [[2, 2], [1, 1]]]
    """
    r, c = np.asarray(rows)[:, None], np.asarray(columns)
    return np.maximum(0, r + c - c.sum()), np.minimum(r, c)


def conforming_tables(rows: ArrayLike, columns: ArrayLike, largest: int = LARGEST_LIST) -> Integers | None:
    """Every table with these margins; None if there are too many.

    The list grows cell by cell. The remaining totals of a row and a column bound the next cell, so every choice can be
    completed.

    Parameters
    ----------
    rows, columns : row and column totals, whole numbers (r,) and (c,) with the same sum
    largest : largest number of tables; None is returned if there are more

    Returns
    -------
    Counts (tables, r, c), or None

    >>> conforming_tables([2, 1], [1, 1, 1]).shape
    (3, 2, 3)
    """
    rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    tables = np.zeros((1, rows.size, columns.size), dtype=np.int64)
    left = rows[None].copy()
    for j, total in enumerate(columns[:-1]):
        rest = np.full(len(tables), total)
        for i in range(rows.size - 1):
            low, high = np.maximum(0, rest - left[:, i + 1 :].sum(1)), np.minimum(left[:, i], rest)
            choices = high - low + 1
            if (many := int(choices.sum())) > largest:
                return None
            origin = np.repeat(np.arange(len(tables)), choices)
            chosen = low[origin] + np.arange(many) - np.repeat(np.cumsum(choices) - choices, choices)
            tables, left, rest = tables[origin], left[origin], rest[origin] - chosen
            tables[:, i, j] = chosen
            left[:, i] -= chosen
        tables[:, -1, j] = rest
        left[:, -1] -= rest
    tables[:, :, -1] = left
    return tables


def complete_tables(free: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> Integers:
    """Fill in the last row and column of tables, which the margins determine.

    Parameters
    ----------
    free : counts of the cells outside the last row and column, (..., (r - 1)(c - 1)), row by row
    rows, columns : row and column totals, (r,) and (c,)

    Returns
    -------
    Counts (..., r, c); a cell is negative where no table with these margins has the free cells

    >>> complete_tables([1], [3, 1], [2, 2]).tolist()
    [[1, 2], [1, 0]]
    """
    r, c = np.asarray(rows), np.asarray(columns)
    part = np.asarray(free)
    part = part.reshape(*part.shape[:-1], r.size - 1, c.size - 1)
    wide = np.concatenate([part, (r[:-1] - part.sum(-1))[..., None]], axis=-1)
    return np.concatenate([wide, (c - wide.sum(-2))[..., None, :]], axis=-2)


class TablePrior(ABC):
    """Prior of a table before its margins are known: exchangeable records, one term per cell.

    A subclass defines `cells`, `log_terms` and `given`.
    """

    @property
    @abstractmethod
    def cells(self) -> Floats:
        """Probability of each cell for one unknown record, (r, c)."""

    @abstractmethod
    def log_terms(self, tables: ArrayLike) -> Floats:
        """Terms (..., r, c), nats; their sum over cells is the table's log probability up to a constant of n."""

    @abstractmethod
    def given(self, known: ArrayLike) -> TablePrior:
        """The prior of the other records, given known records with counts (r, c)."""

    @property
    def independent_features(self) -> bool:
        """True if the table given its margins is multivariate hypergeometric: all databases are equally likely."""
        return False

    def log_total(self, rows: ArrayLike, columns: ArrayLike) -> float | None:
        """Log of the sum of the weights over all tables with these margins; None without a formula."""
        return None

    def cell_terms(self, largest: int) -> Floats:
        """Terms of the counts 0, ..., largest in each cell, (r, c, count), nats."""
        counts = np.arange(largest + 1)[:, None, None] + np.zeros(self.cells.shape, dtype=np.int64)
        return np.ascontiguousarray(np.moveaxis(self.log_terms(counts), 0, -1))

    def log_weight(self, tables: ArrayLike) -> Floats:
        """Log probability of tables (..., r, c) up to a constant of n."""
        return np.asarray(self.log_terms(tables).sum((-2, -1)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Independent(TablePrior):
    """Independent records, each in cell (i, j) with probability pi_ij: the table is multinomial.

    Parameters
    ----------
    cell_probabilities : probabilities pi, (r, c), with sum 1

    Examples
    --------
    >>> Independent.from_odds_ratio(4.0).cells.round(4).tolist()
    [[0.3333, 0.1667], [0.1667, 0.3333]]
    """

    cell_probabilities: Floats

    def __post_init__(self) -> None:
        pi = _grid(check_probability("cell_probabilities", self.cell_probabilities), "cell_probabilities")
        if abs(pi.sum() - 1.0) > 1e-9:
            raise ValueError(f"cell_probabilities must add up to 1, got {pi.sum()}")
        object.__setattr__(self, "cell_probabilities", pi / pi.sum())

    @classmethod
    def uniform(cls, rows: int, columns: int) -> Self:
        """Equal cell probabilities: given the margins, every database is equally likely."""
        return cls(np.full((rows, columns), 1.0 / (rows * columns)))

    @classmethod
    def from_odds_ratio(cls, odds_ratio: float) -> Self:
        """A 2 x 2 table with pi_11 pi_22 / (pi_12 pi_21) = odds_ratio and both features balanced.

        Given the margins only the odds ratio matters: Fisher's noncentral hypergeometric distribution. The evidence of
        the margins themselves depends on the balance.
        """
        root = np.sqrt(float(check_positive("odds_ratio", odds_ratio)))
        return cls(np.array([[root, 1.0], [1.0, root]]) / (2.0 * (1.0 + root)))

    @property
    def cells(self) -> Floats:
        return self.cell_probabilities

    @property
    def independent_features(self) -> bool:
        pi = self.cell_probabilities
        return bool(np.allclose(pi, np.outer(pi.sum(1), pi.sum(0)), rtol=1e-12, atol=0.0))

    def log_terms(self, tables: ArrayLike) -> Floats:
        x = np.asarray(tables)
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.where(x == 0, 0.0, x * np.log(self.cell_probabilities))
        return np.asarray(powers - gammaln(x + 1.0), dtype=np.float64)

    def given(self, known: ArrayLike) -> TablePrior:
        return self

    def log_total(self, rows: ArrayLike, columns: ArrayLike) -> float | None:
        """sum_i r_i log a_i + sum_j c_j log b_j + log n! - sum log r_i! - sum log c_j!, where pi_ij = a_i b_j."""
        if not self.independent_features:
            return None
        total = gammaln(np.asarray(rows).sum() + 1.0)
        for axis, counts in ((1, np.asarray(rows)), (0, np.asarray(columns))):
            with np.errstate(divide="ignore"):
                log_share = np.log(self.cell_probabilities.sum(axis)[counts > 0])
            total += log_share @ counts[counts > 0] - gammaln(counts + 1.0).sum()
        return float(total)


@dataclass(frozen=True, eq=False)
class Dirichlet(TablePrior):
    """Dirichlet prior of unknown cell probabilities, with records independent given these.

    term_ij(x) = log Gamma(x + a_ij) - log Gamma(a_ij) - log x!. Known records are informative about the others.

    Parameters
    ----------
    concentration : a, (r, c), positive; the sum is the number of records that the prior knowledge is worth
    """

    concentration: Floats

    def __post_init__(self) -> None:
        a = _grid(check_positive("concentration", self.concentration), "concentration")
        object.__setattr__(self, "concentration", a)

    @property
    def cells(self) -> Floats:
        return np.asarray(self.concentration / self.concentration.sum())

    def log_terms(self, tables: ArrayLike) -> Floats:
        x, a = np.asarray(tables), self.concentration
        return np.asarray(gammaln(x + a) - gammaln(a) - gammaln(x + 1.0), dtype=np.float64)

    def given(self, known: ArrayLike) -> TablePrior:
        return Dirichlet(self.concentration + np.asarray(known))


def table_prior(prior: Any, rows: Integers, columns: Integers) -> TablePrior:
    """The prior of a table from user input, with its shape checked.

    Parameters
    ----------
    prior : a `TablePrior`; cell probabilities (r, c), for `Independent`; or None, for uniform
    rows, columns : row and column totals, (r,) and (c,); only their sizes are used

    Returns
    -------
    TablePrior of an (r, c) table

    Raises
    ------
    ValueError : a prior of another shape, or cell probabilities that do not sum to 1
    """
    shape = (rows.size, columns.size)
    if prior is None:
        return Independent.uniform(*shape)
    checked = prior if isinstance(prior, TablePrior) else Independent(prior)
    if checked.cells.shape != shape:
        raise ValueError(f"the prior is of a {checked.cells.shape} table, the margins of a {shape} one")
    return checked


def unknown_margins(margins: Any, known: Any) -> tuple[Integers, Integers, Integers]:
    """Margins of the records the adversary does not know, after subtracting the known ones.

    Parameters
    ----------
    margins : `Margins` of two features, or (row totals, column totals)
    known : counts of the records the adversary knows, (r, c), or None for none

    Returns
    -------
    (rows, columns, known): margins of the unknown records, (r,) and (c,), and the table of the known ones, (r, c)

    Raises
    ------
    ValueError : a table of another shape or with negative counts, more known records than a margin, or none unknown

    >>> [part.tolist() for part in unknown_margins(([2, 1], [2, 1]), [[1, 0], [0, 0]])]
    [[1, 1], [1, 1], [[1, 0], [0, 0]]]
    """
    rows, columns = table_margins(margins)
    table = np.zeros((rows.size, columns.size), dtype=np.int64) if known is None else check_whole("known", known)
    if table.shape != (rows.size, columns.size):
        raise ValueError(f"known must be a table of shape {(rows.size, columns.size)}, got {table.shape}")
    check_whole("known", table, minimum=0)
    left = rows - table.sum(1), columns - table.sum(0)
    for name, rest in zip(("row", "column"), left, strict=True):
        if (rest < 0).any():
            place = int(np.argmax(rest < 0))
            raise ValueError(
                f"known holds more records of {name} {place} than its margin has: no table conforms to both"
            )
    if left[0].sum() == 0:
        raise ValueError("known holds every record: nothing is left to learn about")
    return left[0], left[1], table


def _grid(values: Floats, name: str) -> Floats:
    if values.ndim != 2:
        raise ValueError(f"{name} must be a table (rows, columns), got {values.ndim} axes")
    return values
