"""Semi-adjacency: in how many records conforming databases must be allowed to differ.

Once a statistic T is published exactly, only databases X with T(X) = t conform, and two of them often differ in more
than one record. With D_t all that conform and D_t^i the values record i takes among them, the worst-case reading is

    a(t) = max over i, X in D_t, y in D_t^i of min { d(X, Y) : Y in D_t, Y_i = y },   d = records that differ:

whatever conforms, any record can become anything it may be, within a(t) changes. The literal reading takes the least
over X as well; it is never larger, and so small that a conforming database may have no neighbour at all.

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
"""How the definition is read; `worst` is what guarantees need."""

LARGEST_LIST = 5_000
"""Databases beyond which all pairs are not compared."""

UNCOUPLED = 1e-9
"""Probability that a coupling may leave over: rounding of the two laws."""


def semi_adjacency(margins: Sequence[ArrayLike], reading: str = "worst") -> int:
    """Semi-adjacency of published one-way margins; 0 where they fix every record, which is total disclosure.

    With q features that have two levels or more in use, least positive counts s_1, ..., s_q and sigma their sum: 0 at
    q = 0, else 1 + the most of the other n - 1 records that can be needed so that each of q sets of them, of sizes s_j,
    has one: q + 1 while sigma <= n - 1. The literal reading is 2 at every q > 0.

    Parameters
    ----------
    margins : counts of the levels of each published feature, all adding up to the same n > 0
    reading : "worst" or "literal"

    Returns
    -------
    int, exact up to 5 features in all that was tried, and often beyond; else the least known upper bound, with a
    RuntimeWarning: too large an a(t) overstates the loss.

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
    """Lower and upper bound on `semi_adjacency`; equal where it is known exactly, (0, 0) where all is disclosed."""
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
    """Upper bound on the semi-adjacency of one-way margins, whatever the counts: features + 1.

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
    """Semi-adjacency of conforming databases that are listed, by comparing all of them.

    Parameters
    ----------
    databases : sequences of records, of one length; at most 5,000, since every pair is compared for every record
    reading : "worst" or "literal"

    Raises
    ------
    ValueError : none given, or too many
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
    """Smallest k such that two laws over databases can be coupled with d(X, Y) <= k for certain.

    The infinity-Wasserstein distance of the laws in records that differ. Of beliefs given X_i = x and given
    X_i = y it is the k for which the group guarantee bounds what an adversary learns about record i: trade-offs bounded
    by one convex curve stay so in mixtures. It may be as large as the diameter; of a prior that rules nothing out,
    the largest over i, x and y is never below a(t).

    Parameters
    ----------
    databases : sequences of records, of one length, at most 5,000
    first, second : a weight for each database; each law is normalised, and 1e-9 of it may be left to rounding

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
    """Smallest k such that two laws can be coupled on pairs of atoms at most k apart (infinity-Wasserstein distance).

    Parameters
    ----------
    apart : (p.size, q.size), distance between each atom of the first law and each of the second, in records
    p, q : probabilities of the atoms, positive, each adding up to 1; 1e-9 may be left to rounding

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
    near = (
        int(radius) for radius in radii[low:-1] if _has_coupling(apart <= radius, p, q)
    )  # the least is mostly enough
    return next(near, int(radii[-1]))


def _has_coupling(near: NDArray[np.bool_], p: Floats, q: Floats) -> bool:
    """True where p can be carried to q along the pairs that are near: a transport problem, as a linear program."""
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
    """Records as whole numbers, equal where the records are: (databases, records)."""
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
    """Records in which each two databases differ; at most 5,000 databases."""
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
    """ "worst" or "literal", or ValueError."""
    if reading not in READINGS:
        raise ValueError(f"reading must be one of {', '.join(map(repr, READINGS))}, got {reading!r}")
    return reading


def check_margins(margins: Sequence[ArrayLike]) -> tuple[tuple[int, ...], ...]:
    """Count vectors of one total, as tuples of whole numbers, or ValueError with the feature and the reason."""
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
    """A record that can be compared and looked up: lists and arrays as tuples."""
    values = record.tolist() if isinstance(record, np.ndarray | np.generic) else record
    return tuple(map(plain_record, values)) if isinstance(values, list | tuple) else values
