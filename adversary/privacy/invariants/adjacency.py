"""Semi-adjacency: the number of records that may have to change together among databases with the same invariants.

If a statistic T is published exactly, only databases X with T(X) = t conform, and two of them often differ in more than
one record. Let D_t be the set of conforming databases and D_t^i the values of record i in them. The worst-case reading
of the definition is

    a(t) = max over i, X in D_t, y in D_t^i of min { d(X, Y) : Y in D_t, Y_i = y },   d = records that differ:

in every conforming database, any record can take any of its values with at most a(t) changes. The literal reading takes
the minimum over X as well. It is never larger, and may be so small that a conforming database has no neighbour.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Definition 13 (the literal reading), Theorem 16
(one-way margins). The worst-case reading is the one that the text, the examples and the proofs there use.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Floats, Integers, check_non_negative, check_whole
from adversary.privacy.invariants.hitting_sets import hardest_cover

READINGS = ("worst", "literal")
"""Readings of the definition; guarantees need `worst`."""

# All pairs of 5,000 databases take 100 MB.
# Largest number of databases that are compared pair by pair.
LARGEST_LIST = 5_000

# Probability that a coupling may leave unassigned, for rounding in the two distributions.
UNCOUPLED = 1e-9


def semi_adjacency(margins: Sequence[ArrayLike], reading: str = "worst") -> int:
    """Semi-adjacency a(t) of published one-way margins; 0 if they determine every record (total disclosure).

    In every database with these margins, any record can take any of its possible values if at most a(t) records change,
    this one included, so that the margins stay the same.

    Let q be the number of features with at least two non-empty levels, s_1, ..., s_q their smallest positive counts and
    sigma the sum of these. At q = 0 the result is 0. Otherwise it is 1 plus the largest number of the other n - 1
    records that can be needed to hit each of q sets of sizes s_j (`hardest_cover`): q + 1 if sigma <= n - 1. The
    literal reading is 2 for every q > 0.

    Parameters
    ----------
    margins : counts of the levels of each published feature, all adding up to the same n > 0
    reading : "worst" or "literal"

    Returns
    -------
    int; exact in all tested cases of up to 5 features, and often beyond. Otherwise the best known upper bound, with a
    RuntimeWarning; it overstates the privacy loss.

    >>> semi_adjacency([[2, 1], [2, 1]]), semi_adjacency([[2, 1], [2, 1]], reading="literal")
    (3, 2)
    """
    least, most = semi_adjacency_limits(margins, reading)
    if least < most:
        warnings.warn(
            f"semi-adjacency of these margins lies between {least} and {most}; {most} is used, which overstates the "
            "privacy loss if it is not exact",
            RuntimeWarning,
            stacklevel=2,
        )
    return most


def semi_adjacency_limits(margins: Sequence[ArrayLike], reading: str = "worst") -> tuple[int, int]:
    """Lower and upper bound on `semi_adjacency`; equal if it is exact, (0, 0) if the margins determine every record."""
    counts = check_margins(margins)
    in_use = [[count for count in levels if count] for levels in counts]
    least = [min(levels) for levels in in_use if len(levels) > 1]
    if not least:
        return 0, 0
    if check_reading(reading) == "literal":
        return 2, 2
    low, high = hardest_cover(least, sum(counts[0]) - 1)
    return 1 + low, 1 + high


def semi_adjacency_bound(features: int) -> int:
    """Upper bound on the semi-adjacency of one-way margins for any counts: features + 1.

    Parameters
    ----------
    features : number of features with published margins, >= 1

    Returns
    -------
    Number of records.

    Raises
    ------
    ValueError : fewer than one feature, or not a whole number

    References: Cho and Awan, Theorem 16.

    >>> semi_adjacency_bound(2)
    3
    """
    return int(check_whole("features", features, minimum=1)) + 1


def semi_adjacency_of(databases: Iterable[Any], reading: str = "worst") -> int:
    """Semi-adjacency of a list of conforming databases, by comparing all pairs.

    Parameters
    ----------
    databases : sequences of records, of one length; at most 5,000, since every pair is compared for every record
    reading : "worst" or "literal"

    Returns
    -------
    Number of records; 0 for a single database.

    Raises
    ------
    ValueError : no databases, or too many
    NotImplementedError : databases of several lengths, for which the definition is not stated

    >>> semi_adjacency_of([(0, 1, 1), (1, 0, 1), (1, 1, 0)])
    2
    """
    literal = check_reading(reading) == "literal"
    codes = encode_records(databases)
    apart, most = distances(codes), 0
    for record in codes.T:
        order = np.argsort(record, kind="stable")
        starts = np.unique(record[order], return_index=True)[1]
        least = np.minimum.reduceat(apart[:, order], starts, axis=1)
        most = max(most, int((np.minimum.reduceat(least[order], starts, axis=0) if literal else least).max()))
    return most


def coupling_radius(databases: Iterable[Any], first: ArrayLike, second: ArrayLike) -> int:
    """Smallest k such that two distributions over databases have a coupling with d(X, Y) <= k with certainty.

    This is their infinity-Wasserstein distance in records that differ. Applied to an adversary's beliefs given X_i = x
    and given X_i = y, it is the group size whose guarantee bounds the adversary's inference about record i: a convex
    bound on trade-offs also holds for mixtures. It is at most the diameter of the databases. For a prior with full
    support the maximum over i, x and y is at least a(t).

    Parameters
    ----------
    databases : sequences of records, of one length, at most 5,000
    first, second : weights of the databases, (database,); normalised, with 1e-9 allowed for rounding

    Returns
    -------
    k, in records.

    >>> coupling_radius([(0, 0), (0, 1), (1, 1)], [1, 1, 0], [0, 1, 1])
    1
    """
    codes = encode_records(databases)
    laws = [_law(name, weight, len(codes)) for name, weight in (("first", first), ("second", second))]
    live = [np.flatnonzero(law) for law in laws]
    apart = distances(codes)[np.ix_(*live)].astype(np.int64)
    p, q = (law[at] for law, at in zip(laws, live, strict=True))
    return transport_radius(apart, p, q)


def transport_radius(apart: Integers, p: Floats, q: Floats) -> int:
    """Smallest k such that two distributions can be coupled on pairs of atoms at most k apart: infinity-Wasserstein.

    Parameters
    ----------
    apart : (p.size, q.size), distances in records between atoms of the first and of the second distribution
    p, q : positive probabilities of the atoms, each adding up to 1, with 1e-9 allowed for rounding

    Returns
    -------
    k, in records.

    Raises
    ------
    RuntimeError : the linear program of the coupling was not solved

    >>> transport_radius(np.array([[0, 2], [1, 1]]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    1
    """
    radii = np.unique(apart)
    low = int(np.searchsorted(radii, max(apart.min(axis=1).max(), apart.min(axis=0).max())))
    # The first candidate mostly suffices, so that a linear search is faster than bisection.
    near = (int(radius) for radius in radii[low:-1] if _has_coupling(apart <= radius, p, q))
    return next(near, int(radii[-1]))


def _has_coupling(near: NDArray[np.bool_], p: Floats, q: Floats) -> bool:
    """True if p can be transported to q along the allowed pairs; solved as a linear program."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    row, column = np.nonzero(near)
    ones, pair = np.ones(row.size), np.arange(row.size)
    leaving = csr_array((ones, (row, pair)), shape=(p.size, row.size))
    arriving = csr_array((ones, (column, pair)), shape=(q.size, row.size))
    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(
        -ones, A_ub=vstack([leaving, arriving]), b_ub=np.append(p, q), method="highs", options=tolerances
    )
    if solution.status != 0:
        raise RuntimeError(f"the transport problem was not solved: {solution.message}")
    return bool(-solution.fun >= 1.0 - UNCOUPLED)


def _law(name: str, weight: ArrayLike, size: int) -> Floats:
    law = check_non_negative(name, weight)
    if law.shape != (size,):
        raise ValueError(f"{name} must have one weight per database, {size}, got shape {law.shape}")
    if not law.sum() > 0.0:
        raise ValueError(f"{name} must have some weight on the databases, got 0 in total")
    return np.asarray(law / law.sum())


def encode_records(databases: Iterable[Any]) -> Integers:
    """Records as integer codes, equal for equal records: (database, record)."""
    numbers: dict[Any, int] = {}
    rows = [[numbers.setdefault(plain_record(record), len(numbers)) for record in database] for database in databases]
    if not rows:
        raise ValueError("no database conforms: at least one must be given")
    if len({len(row) for row in rows}) > 1:
        raise NotImplementedError("databases must have one number of records: semi-adjacency is defined for no others")
    if not rows[0]:
        raise ValueError("databases must have records, got none")
    return np.array(rows, dtype=np.int64)


def distances(codes: Integers) -> NDArray[np.int32]:
    """Number of records in which each pair of databases differs, (database, database); at most 5,000 databases."""
    if len(codes) > LARGEST_LIST:
        raise ValueError(
            f"at most {LARGEST_LIST} databases can be compared, got {len(codes)}; for one-way margins `semi_adjacency` "
            "needs no list"
        )
    apart = np.zeros((len(codes), len(codes)), dtype=np.int32)
    for record in codes.T:
        apart += record[:, None] != record
    return apart


def check_reading(reading: str) -> str:
    """The reading, checked to be "worst" or "literal"."""
    if reading not in READINGS:
        raise ValueError(f"reading must be one of {', '.join(map(repr, READINGS))}, got {reading!r}")
    return reading


def check_margins(margins: Sequence[ArrayLike]) -> tuple[tuple[int, ...], ...]:
    """Margins as tuples of whole numbers, checked to have one total; errors name the feature."""
    counts = tuple(_levels(j, levels) for j, levels in enumerate(margins))
    if not counts:
        raise ValueError("margins must have at least one feature, got none")
    totals = [sum(levels) for levels in counts]
    if len(set(totals)) > 1:
        raise ValueError(f"margins must agree on the number of records, got totals {', '.join(map(str, totals))}")
    if totals[0] == 0:
        raise ValueError("margins must count at least one record, got 0")
    return counts


def _levels(feature: int, levels: ArrayLike) -> tuple[int, ...]:
    if np.ndim(levels) != 1:
        raise TypeError(f"margins must be one list of counts per feature, got {levels!r} for feature {feature}")
    return tuple(int(count) for count in check_whole(f"counts of feature {feature}", levels, minimum=0))


def plain_record(record: Any) -> Any:
    """A record in hashable form: lists and arrays as tuples."""
    values = record.tolist() if isinstance(record, np.ndarray | np.generic) else record
    return tuple(map(plain_record, values)) if isinstance(values, list | tuple) else values
