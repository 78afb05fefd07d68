r"""Generalised least squares on a tree of counts, the estimator behind published tables, in two passes.

Upward, with the sum e of the children's estimates and the sum V of their variances:

.. math:: w = \frac{1}{1/V + 2\rho}, \qquad \text{estimate } w\,(e/V + 2\rho\,y), \quad \text{variance } w

Downward, each child is adjusted by the share v_c / V of the difference between its parent's estimate and e, with
variance v_c - (v_c / V)^2 (V - variance of the parent). Unbiased and linear; non-negativity of counts is not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, check_number
from adversary.census.spine.problem import check_measurements
from adversary.census.spine.tree import Tree


def least_squares(tree: Tree, released: Any, rho: ArrayLike, *, whole: bool = True) -> Any:
    """Best linear unbiased estimates of every unit's count, by generalised least squares on the tree.

    The noise has variance 1 / (2 rho). Estimates may be negative.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) noisy counts, as for `posterior`; NaN where not measured
    rho : the same shape, or one per unit: 1 / (2 variance); 0: not measured, infinite: exact
    whole : refuse noisy counts that are not whole; False for estimates

    Returns
    -------
    Dataset of `mean` and `sd` over "unit" (and "cell"), in people; a unit that the measurements do not determine has an
    infinite standard deviation

    >>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
    >>> least_squares(tree, [4, 2, -1], [0.25, 0.1, 0.1])["mean"].round(3).values.tolist()
    [3.5, 3.25, 0.25]
    """
    import xarray as xr

    values, precision, single = check_measurements(tree, released, rho, whole)
    mean, variance = two_passes(tree, np.where(precision > 0, values, 0.0), precision)
    coords = {"unit": tree.names, "level": ("unit", np.asarray(tree.levels)[tree.level])}
    dims = ("unit",) if single else ("unit", "cell")
    columns = {"mean": mean, "sd": np.sqrt(np.maximum(variance, 0.0))}
    return xr.Dataset({name: (dims, c[:, 0] if single else c) for name, c in columns.items()}, coords)


def least_squares_combination(
    tree: Tree, released: Any, rho: ArrayLike, coefficients: Any, *, whole: bool = True
) -> Any:
    r"""Generalised least squares of a linear combination of units, such as a sum of units or a difference.

    Given the parent's count, children with variances v_c that sum to V, and with coefficients a_c, add the variance

    .. math:: \sum_c a_c^2 v_c - \Big( \sum_c a_c v_c \Big)^2 / V

    These terms add up over the tree; the root adds its variance times its squared coefficient.

    Parameters
    ----------
    tree : the spine
    released, rho : as for `least_squares`
    coefficients : mapping of unit to number; 0 for units not named
    whole : refuse noisy counts that are not whole; False for estimates

    Returns
    -------
    Dataset of `mean` and `sd`, in people, over "cell" where `released` has cells; sd infinite where the measurements do
    not determine the combination

    Raises
    ------
    ValueError : an unknown unit, a coefficient that is not finite, or none

    >>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
    >>> difference = least_squares_combination(tree, [4, 2, -1], [0.25, 0.1, 0.1], {"a": 1, "b": -1})
    >>> difference["mean"].round(3).item(), difference["sd"].round(3).item()
    (3.0, 3.162)
    """
    import xarray as xr

    values, precision, single = check_measurements(tree, released, rho, whole)
    if not coefficients:
        raise ValueError("coefficients must name at least one unit")
    own = np.zeros(len(tree))
    own[tree.index(list(coefficients))] = [check_number(f"coefficient of {n!r}", a) for n, a in coefficients.items()]
    mean, final = two_passes(tree, np.where(precision > 0, values, 0.0), precision)
    variance = np.empty_like(final[0])
    for cell in range(variance.size):
        variance[cell] = _combined_variance(tree, precision[:, cell], final[:, cell], own)
    estimate = np.where(np.isinf(variance), np.nan, (own[:, None] * mean).sum(axis=0))
    dims = () if single else ("cell",)
    columns = {"mean": estimate, "sd": np.sqrt(np.maximum(variance, 0.0))}
    return xr.Dataset({name: (dims, c[0] if single else c) for name, c in columns.items()})


def _combined_variance(tree: Tree, rho: Floats, final: Floats, own: Floats) -> float:
    """Variance of a linear combination in one cell, from leaves to root.

    final : (unit,) variances of the estimates; own : (unit,) coefficients
    """
    upward, weight, remaining = np.full(len(tree), np.inf), own.copy(), 0.0
    for v in range(len(tree) - 1, -1, -1):
        children = slice(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
        v_c, a = upward[children], weight[children]
        with np.errstate(divide="ignore"):
            below = v_c.sum() if v_c.size else np.inf
            upward[v] = 1.0 / (1.0 / below + 2.0 * rho[v]) if below > 0 else 0.0
        unbounded = np.isinf(v_c)
        if not v_c.size or below == 0.0:
            continue
        if unbounded.any():
            share = a[unbounded][0]
            if np.ptp(a[unbounded]) > 0:
                return np.inf
            weight[v] += share
            remaining += float((v_c[~unbounded] * (a[~unbounded] - share) ** 2).sum())
            continue
        mean = float(a @ v_c / below)
        weight[v] += mean
        remaining += float(v_c @ (a - mean) ** 2)
    return remaining + (weight[0] ** 2 * final[0] if weight[0] else 0.0)


def two_passes(tree: Tree, released: Floats, rho: Floats) -> tuple[Floats, Floats]:
    """(unit, cell) least squares estimates and their variances, from noisy counts and rho of the same shape."""
    estimate, variance = np.zeros_like(rho), np.full_like(rho, np.inf)
    children_sum, children_sum_variance = np.zeros_like(rho), np.zeros_like(rho)
    unbounded_children = np.zeros_like(rho)
    with np.errstate(divide="ignore", invalid="ignore"):
        for level in reversed(tree.generations):
            has_children = (tree.children[level] > 0)[:, None]
            children_variance = np.where(
                has_children & (unbounded_children[level] == 0), children_sum_variance[level], np.inf
            )
            weight = 2.0 * rho[level]
            combined_variance = 1.0 / (1.0 / children_variance + weight)
            combined = combined_variance * (
                np.where(np.isinf(children_variance), 0.0, children_sum[level] / children_variance)
                + weight * released[level]
            )
            exact = np.isinf(rho[level])
            unless_exact = np.where(
                children_variance == 0.0, children_sum[level], np.where(weight == 0.0, children_sum[level], combined)
            )
            estimate[level] = np.where(exact, released[level], unless_exact)
            variance[level] = np.where(exact, 0.0, combined_variance)
            if level.start:
                finite = np.isfinite(variance[level])
                np.add.at(children_sum, tree.parent[level], estimate[level])
                np.add.at(children_sum_variance, tree.parent[level], np.where(finite, variance[level], 0.0))
                np.add.at(unbounded_children, tree.parent[level], ~finite)
        for level in tree.generations[1:]:
            parent, own = tree.parent[level], variance[level].copy()
            parent_unbounded = unbounded_children[parent]
            share_bounded = np.where(children_sum_variance[parent] > 0, own / children_sum_variance[parent], 0.0)
            share = np.where(parent_unbounded > 0, np.isinf(own) / np.maximum(parent_unbounded, 1), share_bounded)
            variance_removed = share**2 * (children_sum_variance[parent] - variance[parent])
            estimate[level] += share * (estimate[parent] - children_sum[parent])
            finite = np.where(np.isinf(own), children_sum_variance[parent] + variance[parent], own - variance_removed)
            variance[level] = np.where(parent_unbounded > 0, np.where(np.isinf(own), finite, own), finite)
            variance[level] = np.where(np.isinf(own) & (parent_unbounded > 1), np.inf, variance[level])
    return estimate, variance
