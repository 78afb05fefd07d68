r"""One effective measurement per unit and cell: generalised least squares over all queries of a unit.

Answers y_q = A_q x + noise of variance v_q have the normal equations

.. math:: \Big( \sum_q A_q^\top A_q / v_q \Big) \hat x = \sum_q A_q^\top y_q / v_q.

Each A_q'A_q is a Kronecker product over axes of matrices that collapse, keep or group the axis. Each axis splits into
two orthogonal spaces: sums over atoms (sets of categories that no grouping distinguishes), and contrasts within atoms.
Only queries that keep the axis in detail measure the contrasts, as an identity. The normal matrix is block diagonal
over the 2^axes products of these spaces, with blocks no larger than the product of the numbers of atoms: 1 for an axis
that is only collapsed or in detail, 3 for persons of the 2020 redistricting file. Without groupings there is a closed
form with one precision per product of means and contrasts: (product of the sizes of the axes that a query collapses) /
variance, summed over the queries that keep every contrast axis.

With the 2020 budget the variance of one detailed cell of a block falls only from 10.1 to 9.8, since the detailed query
has nearly all of a block's budget. Rows of other queries gain far more: the total of a block falls from 7,951 to 2,406,
and the total of one race in an optimised block group from 1,742 to 8.9.

The estimate ignores that other cells are non-negative. `sample_histograms` takes that into account, at a cost that its
page states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers
from adversary.adversaries.tables.answers import check_answers
from adversary.adversaries.tables.query import Query, detailed_query, flat_cell

# Eigenvalues below this fraction of the largest count as 0.
NULL = 1e-11

# Ratio of the smallest to the largest pivot below which a matrix may be singular; its eigenvalues decide.
SINGULAR = 1e-6

# Largest number of products of atoms: the size of the matrices that are decomposed.
MOST_ATOMS = 4_000

# A variance below this fraction of the smallest noise variance is that of an exact count, up to rounding.
SETTLED = 1e-9


def effective_measurements(
    queries: Sequence[Query],
    released: Mapping[str, ArrayLike],
    variance: Mapping[str, ArrayLike],
    cells: Any = "all",
    *,
    of: Query | None = None,
    units: Any = None,
) -> Any:
    """Best linear unbiased estimate of each cell's count from all queries of its unit, and its variance.

    Every unit is estimated alone, so errors of different units are independent. The estimates can be the measurements
    of a tree of one cell, `spine.posterior(tree, result["estimate"], result["rho"], whole=False)`, or of its pieces,
    `spine.upward_message(..., whole=False)`.

    Parameters
    ----------
    queries : queries of one histogram
    released : by name of the query, noisy answers (unit, row); see `check_answers`
    variance : by name of the query, one number or (unit,), people squared: 0 for exact, infinite for not measured
    cells : "all", or a list of flat indices or of tuples with an index per axis
    of : the query whose rows are the cells, such as the total; by default the histogram itself
    units : labels of the units, such as `tree.names`

    Returns
    -------
    Dataset of `estimate` (people), `variance` (people squared) and `rho` = 1 / (2 variance), dims (unit, cell). A cell
    that the answers do not determine has an infinite variance, rho 0 and a NaN estimate; a cell that exact answers
    determine has variance 0 and infinite rho.

    Raises
    ------
    ValueError : answers of a wrong shape, cells outside the histogram, or exact answers that imply a fractional count

    References
    ----------
    Li, Miklau, Hay, McGregor and Rastogi (2015), "The matrix mechanism", VLDB Journal; McKenna et al. (2018),
    "Optimizing error of high-dimensional statistical queries under differential privacy", PVLDB 11, section 7.

    Two axes of two categories; total of variance 1, either axis 2, detailed 4:

    >>> splits = {"total": "**", "a": "d*", "b": "*d", "detailed": "dd"}
    >>> queries = [Query.of(name, (2, 2), [{"d": "detailed"}.get(k, k) for k in ks]) for name, ks in splits.items()]
    >>> released = {"total": [[9]], "a": [[6, 2]], "b": [[3, 6]], "detailed": [[1, 4, 3, 1]]}
    >>> result = effective_measurements(queries, released, {"total": 1, "a": 2, "b": 2, "detailed": 4}, [(0, 0)])
    >>> result["variance"].item(), result["estimate"].round(4).item()
    (1.44, 1.16)
    """
    import xarray as xr

    given = check_answers(queries, released, variance)
    every = isinstance(cells, str) and cells == "all"
    table = detailed_query(given.shape) if of is None else of
    if table.histogram_shape != given.shape:
        raise ValueError(f"of must be about the histogram of the queries, {given.shape}, got {table.histogram_shape}")
    chosen = np.arange(table.size) if every else _flat(cells, table.shape)
    count = given.variance.shape[0]
    estimate, spread = np.full((count, chosen.size), np.nan), np.full((count, chosen.size), np.inf)
    patterns, which = np.unique(given.variance, axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        here = np.flatnonzero(which.ravel() == i)
        weights, own = linear_weights(given.queries, pattern, chosen, table)
        total = sum(y[here] @ w.T for y, w in zip(given.released, weights, strict=True))
        estimate[here] = np.where(np.isfinite(own), total, np.nan)
        spread[here] = own
    _settle(estimate, spread)
    with np.errstate(divide="ignore"):
        rho = 0.5 / spread
    coords = {"cell": chosen} if units is None else {"unit": np.asarray(units), "cell": chosen}
    columns = {"estimate": estimate, "variance": spread, "rho": rho}
    return xr.Dataset({n: (("unit", "cell"), c) for n, c in columns.items()}, coords)


def misstatement(unread: float) -> float:
    """Approximate bound on the error of a probability from effective measurements, in 95 of 100 releases.

    Effective measurements neglect that other cells are non-negative. This information is at most that of knowing the
    other cells, when every answer counts in full. The log Bayes factor of the difference has mean rho and variance
    2 rho under "in".

    Parameters
    ----------
    unread : rho, the sum over a block and the units above it of 1 / (2 variance) of all noisy answers that count a
        person of the cell, minus that of the effective measurements

    Returns
    -------
    Largest difference of probabilities for any prior: between log odds of plus and minus (rho + 2 sqrt(2 rho)) / 2

    >>> round(misstatement(0.02), 3), round(misstatement(0.5), 3)
    (0.105, 0.555)
    """
    rho = max(float(unread), 0.0)
    return float(np.tanh((rho + 2.0 * np.sqrt(2.0 * rho)) / 4.0))


def _flat(cells: Any, shape: tuple[int, ...]) -> Integers:
    listed = cells if isinstance(cells, list | np.ndarray | range) else [cells]
    return np.array([flat_cell(cell, shape) for cell in listed], dtype=np.int64)


def _settle(estimate: Floats, spread: Floats) -> None:
    """Round, in place, the estimates that exact answers determine; ValueError if one is not whole."""
    exact = spread == 0.0
    away = np.abs(estimate - np.rint(estimate))
    if (exact & (away > 1e-6)).any():
        value = estimate[exact & (away > 1e-6)][0]
        raise ValueError(f"the exact answers contradict each other: they settle a cell at {value:.6g} people")
    estimate[exact] = np.rint(estimate[exact])


class _AxisContrasts(NamedTuple):
    """One axis: (category, atom) orthonormal indicators of atoms, and (category, category) projector on contrasts."""

    atoms: Floats
    contrast: Floats

    @property
    def split(self) -> bool:
        return bool(self.atoms.shape[1] < self.atoms.shape[0])


def _axis(groups: Sequence[tuple[int, ...]]) -> _AxisContrasts:
    """Atoms of one axis, and its contrasts, from the groupings of all queries that do not keep it in detail."""
    size = len(groups[0])
    coarse = [group for group in groups if max(group) + 1 < size] or [tuple(range(size))]
    _, atom = np.unique(np.array(coarse), axis=1, return_inverse=True)
    member = np.eye(int(atom.max()) + 1)[atom.ravel()]
    atoms = member / np.sqrt(member.sum(axis=0))
    return _AxisContrasts(atoms, np.eye(size) - atoms @ atoms.T)


def linear_weights(
    queries: Sequence[Query], variance: Floats, cells: Integers, of: Query | None = None
) -> tuple[tuple[Floats, ...], Floats]:
    """Weights of every answer in the best linear unbiased estimates of some cells, and the estimates' variances.

    Parameters
    ----------
    queries : queries of one histogram
    variance : variance of each query's noise, (query,), people squared; 0 for exact, infinite for not measured
    cells : flat indices of the cells, (cell,)
    of : the query whose rows are the cells; by default the histogram itself

    Returns
    -------
    (weights, variance) : per query, (cell, row); and (cell,), infinite for cells that the answers do not determine

    >>> total, halves = Query("total", ((0, 0),)), Query("detailed", ((0, 1),))
    >>> linear_weights([total, halves], np.array([0.0, 2.0]), np.array([0]))
    ((array([[0.5]]), array([[ 0.5, -0.5]])), array([1.]))
    """
    used = [i for i, v in enumerate(variance) if np.isfinite(v)]
    weights = [np.zeros((cells.size, query.size)) for query in queries]
    spread = np.zeros(cells.size)
    if not used:
        return tuple(weights), np.full(cells.size, np.inf)
    table = detailed_query(queries[0].histogram_shape) if of is None else of
    index = np.unravel_index(cells, table.shape)
    picks = [np.equal.outer(i, group).astype(np.float64) for i, group in zip(index, table.groups, strict=True)]
    axes = [_axis([queries[i].groups[a] for i in used]) for a in range(len(picks))]
    for contrast in product(*((False, True) if axis.split else (False,) for axis in axes)):
        seen = [k for k, i in enumerate(used) if _sees(queries[i], contrast)]
        rows = {k: zip(queries[used[k]].groups, axes, contrast, strict=True) for k in seen}
        bases = {k: [_axis_rows(*of) for of in parts] for k, parts in rows.items()}
        wanted, norm = _component(axes, contrast, picks)
        noisy = _normal(bases, contrast, [k for k in seen if variance[used[k]] > 0], variance[used])
        fixed = _normal(bases, contrast, [k for k in seen if variance[used[k]] == 0], np.ones(len(used)))
        w, u, unknown = _solve_normal_equations(noisy, fixed, wanted)
        spread += np.where(unknown & (norm > NULL), np.inf, (w * wanted).sum(axis=1) * norm)
        for k in seen:
            exact = variance[used[k]] == 0
            part = _spread_out(u if exact else w / variance[used[k]], axes, contrast, picks, bases[k])
            weights[used[k]] += part.reshape(cells.size, -1)
    noise = variance[np.isfinite(variance) & (variance > 0)]
    spread[spread <= (SETTLED * noise.min() if noise.size else 0.0)] = 0.0
    return tuple(weights), spread


def _sees(query: Query, contrast: tuple[bool, ...]) -> bool:
    """True of a query that keeps every contrast axis in detail."""
    pairs = zip(query.groups, contrast, strict=True)
    return all(max(group) + 1 == len(group) for group, inside in pairs if inside)


def _axis_rows(group: tuple[int, ...], axis: _AxisContrasts, contrast: bool) -> Floats:
    """A query's rows in terms of an axis' orthonormal atoms, (row, atom), or of its categories, (row, category)."""
    member = np.eye(max(group) + 1)[list(group)]
    return member.T if contrast else member.T @ axis.atoms


def _component(axes: list[_AxisContrasts], contrast: tuple[bool, ...], picks: list[Floats]) -> tuple[Floats, Floats]:
    """The cells' indicators projected on the atoms, (cell, atoms), and squared norms in the contrasts, (cell,)."""
    wanted, norm = np.ones((len(picks[0]), 1)), np.ones(len(picks[0]))
    for a, (axis, inside) in enumerate(zip(axes, contrast, strict=True)):
        if inside:
            norm = norm * ((picks[a] @ axis.contrast) ** 2).sum(axis=1)
        else:
            wanted = (wanted[:, :, None] * (picks[a] @ axis.atoms)[:, None, :]).reshape(len(picks[a]), -1)
    return wanted, norm


def _normal(bases: Mapping[int, list[Floats]], contrast: tuple[bool, ...], seen: list[int], variance: Floats) -> Any:
    """Sum of A'A / variance over the queries, (atoms, atoms); None without queries."""
    total = None
    for k in seen:
        block: Any = np.ones((1, 1))
        for base, inside in zip(bases[k], contrast, strict=True):
            if not inside:
                block = np.kron(block, base.T @ base)
        total = block / variance[k] if total is None else total + block / variance[k]
    return total


def _solve_normal_equations(noisy: Any, fixed: Any, wanted: Floats) -> tuple[Floats, Floats, Any]:
    """Weights w in the noisy normal equations, u in the exact ones, and a mask of undetermined cells."""
    n = wanted.shape[1]
    free, inverse = np.eye(n), np.zeros((n, n))
    if fixed is not None:
        values, vectors = np.linalg.eigh(fixed)
        held = values > NULL * values[-1]
        free = vectors[:, ~held]
        inverse = (vectors[:, held] / values[held]) @ vectors[:, held].T
    noisy = np.zeros((n, n)) if noisy is None else noisy
    values, vectors = np.linalg.eigh(free.T @ noisy @ free)
    known = values > NULL * values.max(initial=0.0)
    parts = wanted @ (free @ vectors)
    unknown = (np.abs(parts[:, ~known]) > 1e-9).any(axis=1)
    w = (parts[:, known] / values[known]) @ (free @ vectors[:, known]).T
    return w, (wanted - w @ noisy) @ inverse, unknown


def _spread_out(
    part: Floats, axes: list[_AxisContrasts], contrast: tuple[bool, ...], picks: Any, bases: list[Floats]
) -> Floats:
    """Weights (cell, atoms), times the cells' contrasts, mapped to the rows of a query, (cell, *rows)."""
    count = part.shape[0]
    sizes = [1 if inside else axis.atoms.shape[1] for axis, inside in zip(axes, contrast, strict=True)]
    out = part.reshape(count, *sizes)
    for a, (axis, inside) in enumerate(zip(axes, contrast, strict=True)):
        if inside:
            ends = [1] * len(axes)
            ends[a] = -1
            out = out * (picks[a] @ axis.contrast @ bases[a].T).reshape(count, *ends)
        else:
            out = np.moveaxis(np.tensordot(out, bases[a], axes=(a + 1, 1)), -1, a + 1)
    return out


def linear_variances(queries: Sequence[Query], variance: Floats) -> Floats:
    """Variances of the best linear unbiased estimates of all cells.

    Cells that no grouping distinguishes share one variance, so an axis may have thousands of categories.

    Parameters
    ----------
    queries : queries of one histogram
    variance : variance of each query's noise, (query,), people squared, above 0; infinite for not measured

    Returns
    -------
    People squared, (cell,); infinite for cells that the answers do not determine

    Raises
    ------
    ValueError : the groups of the axes form more than `MOST_ATOMS` products of atoms

    >>> linear_variances([Query("total", ((0, 0),)), Query("detailed", ((0, 1),))], np.array([1.0, 2.0])).round(9)
    array([1.2, 1.2])
    """
    used = [i for i, v in enumerate(variance) if np.isfinite(v)]
    shape = queries[0].histogram_shape
    if not used:
        return np.full(int(np.prod(shape)), np.inf)
    atoms = [_atoms([queries[i].groups[a] for i in used]) for a in range(len(shape))]
    sizes = [np.bincount(atom) for atom in atoms]
    number = tuple(size.size for size in sizes)
    if np.prod(number) > MOST_ATOMS:
        raise ValueError(f"tables group the categories in {np.prod(number):,} different ways, more than {MOST_ATOMS:,}")
    spread = np.zeros(number)
    for contrast in product(*((False, True) if (size > 1).any() else (False,) for size in sizes)):
        seen = [i for i in used if _sees(queries[i], contrast)]
        outside = [a for a, inside in enumerate(contrast) if not inside]
        normal = np.zeros((int(np.prod([number[a] for a in outside])),) * 2)
        for i in seen:
            block: Any = np.ones((1, 1))
            for a in outside:
                block = np.kron(block, _shared(queries[i].groups[a], atoms[a], sizes[a]))
            normal += block / variance[i]
        part = _inverse_diagonal(normal).reshape([number[a] if a in outside else 1 for a in range(len(shape))])
        for a, size in enumerate(sizes):
            ends = [-1 if b == a else 1 for b in range(len(shape))]
            factor = (1.0 / size if a in outside else 1.0 - 1.0 / size).reshape(ends)
            with np.errstate(invalid="ignore"):
                part = np.where(factor > 0.0, part * factor, 0.0)
        spread = spread + part
    return np.asarray(spread[np.ix_(*atoms)]).ravel()


def _inverse_diagonal(matrix: Floats) -> Floats:
    """Diagonal of the inverse of a positive semidefinite matrix, one connected component at a time.

    If a component is singular, entries of coordinates on which a null vector is not zero are infinite, and the others
    are those of the pseudo-inverse.
    """
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(matrix != 0.0, directed=False)
    if count > 1:
        order = np.argsort(labels, kind="stable")
        diagonal = np.empty(len(matrix))
        for own in np.split(order, np.cumsum(np.bincount(labels))[:-1]):
            diagonal[own] = _inverse_diagonal(matrix[np.ix_(own, own)])
        return diagonal
    if len(matrix) == 1:
        return np.full(1, 1.0 / matrix[0, 0] if matrix[0, 0] > 0.0 else np.inf)
    try:
        root = np.linalg.cholesky(matrix)
        if root.diagonal().min() ** 2 > SINGULAR * root.diagonal().max() ** 2:
            return np.asarray((np.linalg.inv(root) ** 2).sum(axis=0))
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    known = values > NULL * max(values[-1], 0.0)
    own = (vectors[:, known] ** 2 / values[known]).sum(axis=1)
    own[(vectors[:, ~known] ** 2).sum(axis=1) > NULL] = np.inf
    return np.asarray(own)


def _atoms(groups: Sequence[tuple[int, ...]]) -> Integers:
    """The atom of each category, (category,), from the groupings that do not keep the axis in detail."""
    size = len(groups[0])
    coarse = [group for group in groups if max(group) + 1 < size] or [(0,) * size]
    return np.unique(np.array(coarse), axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def _shared(group: tuple[int, ...], atom: Integers, size: Integers) -> Floats:
    """A'A of a query on one axis, in the basis of orthonormal indicators of atoms, (atom, atom)."""
    if max(group) + 1 == len(group):
        return np.eye(size.size)
    of = np.zeros(size.size, dtype=np.int64)
    of[atom] = group
    return np.equal.outer(of, of) * np.sqrt(np.outer(size, size))
