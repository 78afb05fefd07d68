r"""How many records apart a reader's databases are, given two places of one record, in a table with known margins.

The reader's databases given that record i is in cell a, and given that it is in cell b, are two laws. If they can be
coupled so that the two databases always differ in at most k records, a guarantee for one record, iterated k times,
bounds what any release says about a against b. With exchangeable records the distance of two tables x (i in a) and
y (i in b) is that of the best arrangements of the other records,

    1 + |(x - e_a) - (y - e_b)|_1 / 2,        the tables weighted by P(x) x_a and P(y) y_b.

Where the features are independent the radius is the semi-adjacency of the margins. A reader who expects them to go
together may need more than that, and more than one record per feature and one: with the person's cell, the likeliest
arrangement of everybody else changes.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Theorem 16 (for databases, not for readers).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from adversary._core import Floats, Integers
from adversary.privacy.invariants import transport_radius
from adversary.reader.conditioned.table_law import KnownMargins, listed_law

Others = tuple[Integers, Floats]

LARGEST_COUPLED = 200
"""Tables beyond which the smallest radius is not searched for."""

_DUST = 1e-13  # probability that rounding may leave over between two cumulative sums


def record_radius(story: KnownMargins, tables: Integers | None) -> tuple[int, bool]:
    """(radius, whether it is the smallest): over all pairs of cells where an unknown record may be.

    The smallest one, by optimal transport but for 1e-9 of probability, for up to 200 tables. Beyond that an upper
    bound, which overstates what may be learned and never hides it: for a 2 x 2 table that of the coupling in order;
    1 + the number of features that vary, where the features are independent (swap partners drawn uniformly); the number
    of unknown records otherwise.
    """
    if tables is not None and len(tables) <= LARGEST_COUPLED:
        return _over_pairs(story, tables, _smallest), True
    varying = sum(int(np.count_nonzero(margin) > 1) for margin in (story.rows, story.columns))
    bounds = [story.records]
    if story.prior.independent_features:
        bounds.append(varying + 1)
    if tables is not None and tables.shape[1:] == (2, 2):
        bounds.append(_over_pairs(story, tables, _in_order))
    return min(bounds), False


def _over_pairs(story: KnownMargins, tables: Integers, radius: Callable[[Others, Others], int]) -> int:
    """Largest radius over pairs of possible cells; 0 if there is only one."""
    weights = listed_law(story, tables).weights[0]
    cells = [(i, j) for i, j in np.ndindex(*tables.shape[1:]) if weights @ tables[:, i, j] > 0]
    laws = [_others(tables, weights * tables[:, i, j], (i, j)) for i, j in cells]
    return max((radius(*pair) for pair in itertools.combinations(laws, 2)), default=0)


def _others(tables: Integers, law: Floats, cell: tuple[int, int]) -> Others:
    """The other records' tables (table, r c) where the record is in the cell, and their probabilities."""
    kept = np.flatnonzero(law > 0)
    rest = tables[kept].copy()
    rest[:, cell[0], cell[1]] -= 1
    return rest.reshape(kept.size, -1), law[kept] / law[kept].sum()


def _distance(one: Integers, other: Integers) -> Integers:
    """Records in which two databases differ: the target's, and the least for the others' tables."""
    return 1 + np.abs(one - other).sum(-1) // 2


def _smallest(first: Others, second: Others) -> int:
    (one, p), (other, q) = first, second
    return transport_radius(_distance(one[:, None], other), p, q)


def _in_order(first: Others, second: Others) -> int:
    """Of the coupling by quantiles, the tables in the order of their first cell."""
    (one, p), (other, q) = first, second
    above = np.cumsum(p)[:-1], np.cumsum(q)[:-1]
    ends = np.sort(np.concatenate([[0.0, 1.0], *above]))
    middle = (0.5 * (ends[1:] + ends[:-1]))[np.diff(ends) > _DUST]
    i, j = (np.searchsorted(cumulative, middle, side="right") for cumulative in above)
    return int(_distance(one[i], other[j]).max())
