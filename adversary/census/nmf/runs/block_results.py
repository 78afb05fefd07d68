r"""Selections from the results of every unit of a spine, and the guarantee of the noise for each block.

Results are the columns of `unit_table.COLUMNS`, one entry per unit, as a dictionary of arrays, a data frame or a
Parquet table. One person in a block changes the count of every unit above it, so the guarantee about that person
composes the measurements of the whole path,

.. math:: \rho = \sum_{v \text{ on the path}} \frac{1}{2 \sigma_v^2}

If a count on the path is exact, another record must change with the person's, and two paths change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import DEFAULT_FAILURE, Floats, check_non_negative, check_probability, check_whole
from adversary.census.nmf.measurements import Measurements
from adversary.census.nmf.runs.unit_table import path_rho, unit_columns, with_leaves
from adversary.census.spine import Tree, align_labels, in_order
from adversary.privacy import Guarantee
from adversary.privacy.definitions import NoPrivacy, ZeroConcentratedDP

if TYPE_CHECKING:
    import xarray as xr

Columns = Mapping[str, Any]
CERTAIN = "certain"
PROVEN = ("ok", "rerun", CERTAIN)
"""Statuses of blocks with proven numbers."""

# Tail probability of a known count below which the adversary is taken to be mistaken.
MISTAKEN_BELOW = 1e-3
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
"""Probabilities of the quantiles of block ratios, on screen and on the page."""


def results(
    released: Any, rho: ArrayLike, posterior: Any, membership: Any = None, prob: float = 0.9, cell: int = 0,
    mistaken: float = MISTAKEN_BELOW,
) -> Columns:  # fmt: skip
    """Columns of one cell's results, in the order of the tree: `unit_table.COLUMNS`.

    Parameters
    ----------
    released, rho : (unit,) measurements, as given to `spine.posterior`
    posterior : a `SpinePosterior` of one cell
    membership : its `membership`; None: the columns of leaves are empty
    prob : probability of the highest posterior density sets
    cell : flat index of the cell in the query, for the column of that name
    mistaken : tail probability of a known count below which the adversary is taken to be mistaken
    """
    tree = posterior.tree
    released, rho = align_labels(tree, released, rho)
    values = np.asarray(released, dtype=np.float64)
    precision = np.broadcast_to(np.asarray(rho, dtype=np.float64), len(tree))
    nothing = np.zeros(len(tree)), np.full(len(tree), np.inf)
    published = np.where((precision > 0) & np.isfinite(precision), values, np.nan)
    total_precision, has_exact = np.where(np.isinf(precision), 0.0, precision), np.isinf(precision)
    measurements = Measurements(
        tree, values, precision, *nothing, published, total_precision, has_exact, "", (1,), np.array([cell]), ("",)
    )
    columns = unit_columns(posterior, measurements, prob)
    if membership is None:
        return columns
    return with_leaves(columns, tree, membership, path_rho(measurements), mistaken)


def column(table: Columns, name: str) -> Any:
    """One column of the results as an array.

    Parameters
    ----------
    table : results by column, (unit,) each
    name : name of the column

    Raises
    ------
    ValueError : there is no such column; the message lists those there are

    >>> column({"ratio": [1.0, 2.0]}, "ratio").tolist()
    [1.0, 2.0]
    """
    try:
        return np.asarray(table[name])
    except KeyError:
        raise ValueError(f"the results have no column {name!r}, they have {', '.join(map(str, table))}") from None


def is_proven(table: Columns, name: str) -> Any:
    """True where a row has a finite value in a column and, if there is a column `status`, a proven one."""
    known = np.isin(column(table, "status"), PROVEN) if "status" in table else True
    return known & np.isfinite(column(table, name).astype(np.float64))


def blocks(table: Columns, name: str) -> Floats:
    """One column of the blocks that have a proven answer in it.

    Parameters
    ----------
    table : results by column, (unit,) each
    name : name of a numeric column

    Returns
    -------
    (block,) float64; rows that are not proven (`PROVEN`) or not finite are left out.

    Raises
    ------
    ValueError : there is no such column

    >>> blocks({"ratio": [1.5, np.nan, 2.0], "status": ["ok", "ok", "failed"]}, "ratio").tolist()
    [1.5]
    """
    return np.asarray(column(table, name)[is_proven(table, name)], dtype=np.float64)


def is_unprotected(table: Columns) -> Any:
    """True where no noise protects a block: its count is exact, or exact counts determine the membership."""
    is_certain = column(table, "status") == CERTAIN if "status" in table else False
    return np.asarray((column(table, "variance").astype(np.float64) == 0.0) | is_certain)


def worst_rows(table: Columns, count: int) -> Any:
    """Rows of the proven blocks with the largest posterior/prior ratios, the largest first.

    Parameters
    ----------
    table : results by column, (unit,) each, with `ratio`
    count : most rows to return, whole, >= 1

    Returns
    -------
    (row,) whole numbers, into the table; ties in the order of the table.

    Raises
    ------
    ValueError : no block has a proven ratio, or `count` is no whole number >= 1

    >>> worst_rows({"ratio": [1.5, np.nan, 2.0, 1.8]}, 2).tolist()
    [2, 3]
    """
    ratio = column(table, "ratio").astype(np.float64)
    rows = np.flatnonzero(is_proven(table, "ratio"))
    if not rows.size:
        raise ValueError("no block has a proven ratio")
    return rows[np.argsort(-ratio[rows], kind="stable")][: int(check_whole("count", count, minimum=1))]


def statuses(table: Columns, name: str = "status") -> dict[str, int]:
    """Number of blocks with each status; blocks are the rows with a finite `path_rho`, null statuses are skipped."""
    labels = column(table, name)[_leaves(table)]
    names, counts = np.unique(labels[labels != None].astype(str), return_counts=True)  # noqa: E711 (of every entry)
    return dict(zip(map(str, names), counts.tolist(), strict=True))


def _leaves(table: Columns) -> Any:
    """Mask of the rows of leaves, which have a finite `path_rho`."""
    return np.isfinite(column(table, "path_rho").astype(np.float64))


@dataclass(frozen=True)
class PathGuarantee:
    """Guarantee of the noise on the path of one block about one person in it.

    Parameters
    ----------
    rho : sum of 1 / (2 variance) along the path; infinite if the block's own count is exact
    records : 1; 2 if an exact count on the path means that another record must change with the person's
    failure : failure probability of the bounds, over releases, for one person

    >>> path = PathGuarantee(0.25)
    >>> path.guarantee
    ZeroConcentratedDP(rho=0.25)
    >>> round(path.ratio(0.1)[1], 2)
    4.55
    """

    rho: float
    records: int = 1
    failure: float = DEFAULT_FAILURE

    def __post_init__(self) -> None:
        check_non_negative("rho", self.rho, finite=False)
        check_whole("records", self.records, minimum=1)
        check_probability("failure", self.failure)

    @property
    def total(self) -> float:
        """rho of all `records` together."""
        return self.records * self.rho

    @property
    def guarantee(self) -> Guarantee:
        """Zero-concentrated DP of the measurements on the path; it holds after any post-processing."""
        return ZeroConcentratedDP(self.total) if np.isfinite(self.rho) else NoPrivacy()

    def ratio(self, prior: float) -> tuple[float, float]:
        """(smallest, largest) posterior / prior, except with probability `failure`."""
        low, high = self.guarantee.ratio_bounds(prior, self.failure)
        return float(low), float(high)

    def posterior(self, prior: float) -> tuple[float, float]:
        """(smallest, largest) posterior probability, except with probability `failure`."""
        low, high = self.guarantee.posterior_bounds(prior, self.failure)
        return float(low), float(high)


def path_guarantee(table: Columns, failure: float = DEFAULT_FAILURE) -> PathGuarantee:
    """Weakest guarantee of all protected blocks: that of the path with the largest rho times records.

    It covers the queries that were read; other queries of the same release add to what an adversary can learn.

    Parameters
    ----------
    table : results by column, (unit,) each
    failure : failure probability of the bounds
    """
    rho = column(table, "path_rho").astype(np.float64)
    noisy = np.flatnonzero(_leaves(table) & ~is_unprotected(table))
    if not noisy.size:
        return PathGuarantee(np.inf, 1, failure)
    records = 1 + column(table, "path_exact").astype(np.int64)
    worst = noisy[np.argmax((rho * records)[noisy])]
    return PathGuarantee(float(rho[worst]), int(records[worst]), failure)


def errors(tree: Tree, truth: Any, estimates: Mapping[str, Any], prob: float = 0.9) -> xr.Dataset:
    """Errors of estimates against the true counts, and the coverage of their intervals, by level.

    Parameters
    ----------
    tree : the spine
    truth : (unit,) true counts, whole
    estimates : by name: a `SpinePosterior` of one cell, with its highest posterior density sets; a Dataset of `mean`
        and `sd` from `least_squares`, with central Gaussian intervals; or (unit,) numbers, without intervals
    prob : probability of the intervals

    Returns
    -------
    Dataset over (level, estimate): `rmse`, `bias`, `coverage`, and `claimed`, the mean nominal probability of the
    intervals (NaN without intervals)
    """
    import xarray as xr
    from scipy.special import ndtri

    counts = np.asarray(in_order(tree.names, truth, "truth"), dtype=np.float64)
    present = [i for i in range(len(tree.levels)) if (tree.level == i).any()]
    columns = []
    for one in estimates.values():
        if hasattr(one, "covers"):
            mean, covered, claimed = one.mean.values, one.covers(counts.astype(np.int64), prob), one.hdi(prob)["mass"]
        elif hasattr(one, "data_vars"):
            mean, half_width = one["mean"].values, ndtri(0.5 + 0.5 * prob) * one["sd"].values
            covered, claimed = np.abs(mean - counts) <= half_width + 1e-9, np.full(len(tree), prob)
        else:
            mean = np.asarray(in_order(tree.names, one, "an estimate"), dtype=np.float64)
            covered, claimed = (np.full(len(tree), np.nan) for _ in range(2))
        error = mean - counts
        parts = [
            np.sqrt(_by_level(tree, error**2)),
            _by_level(tree, error),
            *(_by_level(tree, x) for x in (covered, claimed)),
        ]
        columns.append(np.array(parts)[:, present])
    coords = {"level": [tree.levels[i] for i in present], "estimate": list(estimates)}
    names = ("rmse", "bias", "coverage", "claimed")
    values = np.stack(columns, axis=-1)
    return xr.Dataset(
        {n: (("level", "estimate"), v) for n, v in zip(names, values, strict=True)}, coords, {"prob": prob}
    )


def _by_level(tree: Tree, values: Any) -> Floats:
    """(level,) means over the finite values of each level; NaN if there are none."""
    given = np.asarray(values, dtype=np.float64)
    has_number = np.isfinite(given)
    count = np.bincount(tree.level[has_number], minlength=len(tree.levels))
    total = np.bincount(tree.level[has_number], given[has_number], minlength=len(tree.levels))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
