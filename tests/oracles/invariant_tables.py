"""Slow twins for tables with published margins: lists of databases, linear programs, sums and samples.

Databases are tuples of records (row, column); a table is their count. Distances are Hamming distances.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb, exp
from typing import Any

import numpy as np
from scipy.optimize import linprog

from adversary.privacy.invariants.sensitivities import SensitivitySpace
from tests.oracles.conditioned import databases

Table = tuple[int, ...]


def everything(cells: int, records: int) -> list[tuple[int, ...]]:
    """Every database of so many records over so many cells."""
    return list(product(range(cells), repeat=records))


def table_of(database: tuple[Any, ...], shape: tuple[int, int]) -> Table:
    """Counts of the cells, row by row."""
    seen = Counter(database)
    return tuple(seen[i, j] for i in range(shape[0]) for j in range(shape[1]))


def differences(listed: list[tuple[Any, ...]], tables: list[Table], adjacency: int) -> set[Table]:
    """Differences of tables over all pairs of databases at most `adjacency` records apart."""
    found = set()
    for x, one in zip(listed, tables, strict=True):
        for y, other in zip(listed, tables, strict=True):
            if sum(a != b for a, b in zip(x, y, strict=True)) <= adjacency:
                found.add(tuple(a - b for a, b in zip(one, other, strict=True)))
    return found


def sensitivity_space(rows: tuple[int, ...], columns: tuple[int, ...], adjacency: int) -> set[Table]:
    """Differences of tables over conforming databases."""
    listed = databases(rows, columns)
    tables = [table_of(x, (len(rows), len(columns))) for x in listed]
    return differences(listed, tables, adjacency)


def group_space(cells: int, size: int = 1) -> SensitivitySpace:
    """Changes of a table of which up to `size` records change, only their number being published."""
    listed = everything(cells, size)
    return SensitivitySpace(list(differences(listed, [tuple(x.count(k) for k in range(cells)) for x in listed], size)))


def usual_noise(
    rng: np.random.Generator, count: int, cells: int, adjacency: int, mu: float, epsilon: float
) -> dict[str, np.ndarray]:
    """Draws of the noise on every cell that covers any change of `adjacency` records."""
    z = rng.standard_normal((count, cells))
    direction = z / np.linalg.norm(z, axis=1, keepdims=True)
    radius = rng.gamma(cells + 1, adjacency / epsilon, (count, 1))
    return {
        "gaussian": adjacency * 2**0.5 / mu * z,
        "l1": rng.laplace(0.0, 2 * adjacency / epsilon, (count, cells)),
        "l2": 2**0.5 * radius * rng.random((count, 1)) ** (1.0 / cells) * direction,
        "l infinity": radius * rng.uniform(-1.0, 1.0, (count, cells)),
    }


def k_norm(vectors: Any, v: Any) -> float:
    """Smallest sum of weights that make v of the vectors; infinite where none do."""
    s = np.asarray(vectors, dtype=float).T
    found = linprog(np.ones(s.shape[1]), A_eq=s, b_eq=np.ravel(v))
    return float(found.fun) if found.success else float("inf")


def fisher(margins: tuple[int, int, int, int], odds_ratio: float) -> tuple[list[int], np.ndarray]:
    """(support, probabilities) of x11 given both margins."""
    t1, t2, c1, _ = margins
    x = [k for k in range(t1 + 1) if 0 <= c1 - k <= t2]
    weight = np.array([comb(t1, k) * comb(t2, c1 - k) * odds_ratio**k for k in x], dtype=float)
    return x, weight / weight.sum()


def two_binomials(margins: tuple[int, int, int, int], theta: tuple[float, float]) -> np.ndarray:
    """Law of x11 given the column total, from the binomial of each row."""
    t1, t2, c1, _ = margins

    def binomial(n: int, p: float, k: int) -> float:
        return comb(n, k) * p**k * (1 - p) ** (n - k)

    joint = [binomial(t1, theta[0], k) * binomial(t2, theta[1], c1 - k) for k in range(t1 + 1) if 0 <= c1 - k <= t2]
    return np.array(joint) / sum(joint)


def largest_power(
    margins: tuple[int, int, int, int], odds_ratio: float, level: float, epsilon: float, delta: float
) -> float:
    """Largest power of a test of this level at odds ratio 1, (epsilon, delta)-DP in x11: a linear program."""
    x, null = fisher(margins, 1.0)
    mass, rows, limits = fisher(margins, odds_ratio)[1], [], []
    for i in range(len(x)):
        for j in (i - 1, i + 1):
            if 0 <= j < len(x):
                rejecting, accepting = np.zeros(len(x)), np.zeros(len(x))
                rejecting[[i, j]] = 1.0, -exp(epsilon)  # psi_i <= delta + e^epsilon psi_j
                accepting[[i, j]] = exp(epsilon), -1.0  # 1 - psi_j <= delta + e^epsilon (1 - psi_i)
                rows += [rejecting, accepting]
                limits += [delta, delta + exp(epsilon) - 1.0]
    constraints = {"A_ub": np.array(rows), "b_ub": limits} if rows else {}
    found = linprog(-mass, A_eq=null[None], b_eq=[level], bounds=(0.0, 1.0), **constraints)
    return float(-found.fun)
