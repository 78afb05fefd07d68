"""All releases of a truth with their probabilities if they can be listed, simulated releases otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from adversary._core import Floats, Seed, as_array, blocks
from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan, Released, make_release, release_arrays
from adversary.adversaries.postprocessing import LeastSquares
from adversary.adversaries.risk.law_parts import probable

DRAWS, LEAST_DRAWS = 20_000, 500
"""Default number of simulated releases, and the smallest number if each takes long to evaluate."""

# Counts gone over in a second of processor time, about, by an audit of simulated releases: twice for the laws of both
# truths and once for the posterior of every release.
_MOST_WORK = 3.5e6

# Counts whose work equals that of one published number of a simulated release, and releases drawn to measure windows.
_NUMBER, _PILOTS = 32.0, 16
_TABLE_GRID = 2_000_000
_TABLE_ROWS = 200_000
_TABLE_LOST = 1e-12


class ReleaseColumn(NamedTuple):
    """One published number: the array and place of it in `Released`, its possible values and their probabilities."""

    kind: str
    place: tuple[int, ...]
    values: Floats
    weights: Floats


def affordable_draws(plan: Plan, adversary: Adversary, truth: Truth) -> int:
    """Number of simulated releases that an audit reads in about a second of processor time: 500 to 20,000.

    It is smaller if wide beliefs or noise leave many counts to sum over, or if a release has many numbers.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : checked true counts, from `settle_truth`

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> affordable_draws(Plan([Level("block", Geometric(1.0))]), Adversary(), Truth(np.array([[1]]), 1))
    20000
    """
    return int(np.clip(_MOST_WORK / work_per_release(plan, adversary, truth), LEAST_DRAWS, DRAWS))


def work_per_release(plan: Plan, adversary: Adversary, truth: Truth) -> float:
    """Work of one simulated release and its posterior, in counts gone over."""
    released = release_arrays(plan, plan.release(truth.by_level(plan), np.random.default_rng(0), _PILOTS))
    work = sum(adversary.path(plan, cell).work(released.cell(cell)) for cell in range(plan.cells))
    return float(work + _NUMBER * released.noisy[0].size)


def release_table(plan: Plan, truth: Truth, *, draws: int = DRAWS, rng: Seed = None) -> tuple[xr.Dataset, xr.DataArray]:
    """All releases of this truth with their probabilities; simulated releases if there are too many.

    Parameters
    ----------
    plan : the published counts
    truth : checked true counts, from `settle_truth`
    draws : number of simulated releases, at most 200,000
    rng : their seed or Generator

    Returns
    -------
    (releases, weights): a release Dataset as from `plan.release`, and a DataArray (release) of probabilities. In
    `weights.attrs`, `direction` is "exact" or "estimate" and `mass` is the total probability listed; the least probable
    releases, at most 1e-12 in all, are left out.
    """
    listed = list_releases(plan, truth, _TABLE_GRID)
    if listed is not None:
        released, weights = listed
        keep = np.flatnonzero(probable(weights, _TABLE_LOST))
        if keep.size <= _TABLE_ROWS:
            shown = released.rows(keep)
            weight = xr.DataArray(
                weights[keep], dims="release", attrs={"direction": "exact", "mass": float(weights[keep].sum())}
            )
            return make_release(plan, shown.noisy, shown.sums, shown.siblings), weight
    generator = np.random.default_rng(blocks.seed_sequence(rng))
    size = min(draws, _TABLE_ROWS)
    weight = xr.DataArray(np.full(size, 1.0 / size), dims="release", attrs={"direction": "estimate", "mass": 1.0})
    return plan.release(truth.by_level(plan), generator, size), weight


def columns(plan: Plan, truth: Truth, unread: Collection[int] = ()) -> Iterator[ReleaseColumn]:
    """Every released number, level by level, cell by cell; siblings one by one if the truth lists their counts.

    Parameters
    ----------
    plan : the published counts
    truth : checked true counts
    unread : levels whose own releases are left out; their noise may be continuous

    Raises
    ------
    TypeError : continuous noise has no list of releases
    """
    for i, level in enumerate(plan.levels):
        total = plan.sibling_noise(i)
        for cell in range(plan.cells):
            if i not in unread:
                yield ReleaseColumn("noisy", (i, cell), *level.mechanism.releases(int(truth.counts[i, cell])))
            if level.name in truth.siblings:
                for j, count in enumerate(truth.siblings[level.name][:, cell]):
                    yield ReleaseColumn("siblings", (i, j, cell), *level.mechanism.releases(int(count)))
            elif total is not None:
                others = int(truth.counts[i + 1, cell] - truth.counts[i, cell])
                yield ReleaseColumn("sums", (i, cell), *total.releases(others))


def combine_columns(plan: Plan, numbers: Iterable[ReleaseColumn], limit: int) -> tuple[Released, Floats] | None:
    """All combinations of these numbers with their probabilities; None if there are more than `limit`."""
    every = list(numbers)
    if sum(np.log(column.values.size) for column in every) > np.log(limit):
        return None
    values, weights = grid([(column.values, column.weights) for column in every])
    apart = max((column.place[1] + 1 for column in every if column.kind == "siblings"), default=0)
    shape = len(plan.levels), plan.cells
    released = Released(
        np.full((len(values), *shape), np.nan),
        np.full((len(values), *shape), np.nan),
        np.full((len(values), shape[0], apart, shape[1]), np.nan) if apart else None,
    )
    for column, value in zip(every, values.T, strict=True):
        getattr(released, column.kind)[(slice(None), *column.place)] = value
        if column.kind == "siblings" and plan.sibling_noise(column.place[0]) is not None:
            total = released.sums[:, column.place[0], column.place[-1]]
            total[:] = np.nan_to_num(total) + value
    return released, weights


def list_releases(plan: Plan, truth: Truth, limit: int) -> tuple[Released, Floats] | None:
    """All releases of a truth with their probabilities; None with continuous noise, or if more than `limit`."""
    if plan.postprocessing is not None:
        return _postprocessed_pairs(plan, truth, limit)
    if any(level.mechanism.is_continuous for level in plan.levels):
        return None
    return combine_columns(plan, columns(plan, truth), limit)


def _postprocessed_pairs(plan: Plan, truth: Truth, limit: int) -> tuple[Released, Floats] | None:
    """All pairs (t1, t2) of a post-processed plan, with P(t2 | x2) P(t1 | t2, x1, others); None if too many.

    Also None if the truth lists single siblings and t1 depends on more than their sum.
    """
    (lower, upper), (own, total) = plan.levels, truth.counts[:, 0]
    parents, weight = upper.mechanism.releases(int(total))
    sizes = parents.astype(np.int64) + 1
    summed = isinstance(plan.postprocessing, LeastSquares) or len(truth.siblings.get(lower.name, ())) <= 1
    if plan.postprocessing is None or sizes.sum() > limit or not summed:
        return None
    parent = np.repeat(parents, sizes)
    children = np.concatenate([np.arange(size, dtype=np.float64) for size in sizes])
    log_p = plan.postprocessing.log_prob(
        children, parent, float(own), float(total - own), lower.mechanism, lower.siblings or 0
    )
    noisy = np.stack([children, parent], axis=1)[..., None]
    return Released(noisy, np.full(noisy.shape, np.nan)), np.repeat(weight, sizes) * np.exp(as_array(log_p))


def grid(columns: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """All combinations of independent releases (combination, column), with their probabilities."""
    values, weights = np.zeros((1, 0)), np.ones(1)
    # Not one meshgrid: numpy arrays have at most 64 axes, and a plan may have more releases.
    for value, weight in columns:
        values = np.column_stack([np.repeat(values, value.size, axis=0), np.tile(value, len(values))])
        weights = np.repeat(weights, weight.size) * np.tile(weight, weights.size)
    return values, weights
