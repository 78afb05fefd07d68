"""Releases: labelled noisy counts, as an `xarray.Dataset` with a fixed schema.

Variables `noisy` and `sibling_sum`, float64, dims ([release,] level[, cell]); `sibling_sum` is NaN where no sum of
siblings is published. If siblings are read one by one, there is also `siblings`, dims ([release,] level, sibling[,
cell]). Releases of integer mechanisms must be whole numbers; other values are refused, never rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adversary._core import Floats, check_whole, refuse_rounded

type Layout = Any
"""A `Plan`: its levels, cells, noise and names. The class itself imports this file."""


@dataclass(frozen=True)
class Released:
    """Released numbers of many releases as plain arrays.

    Parameters
    ----------
    noisy : (release, level[, cell])
    sums : sums of the siblings' releases (release, level[, cell]), NaN where none is published
    siblings : releases of single siblings (release, level, sibling[, cell]), padded with NaN; None if not published
    """

    noisy: Floats
    sums: Floats
    siblings: Floats | None = None

    def __len__(self) -> int:
        return int(self.noisy.shape[0])

    def rows(self, index: Any) -> Released:
        """The releases at these row numbers."""
        return self._map(lambda array: array[index])

    def cell(self, i: int) -> Released:
        """One cell's numbers, without the cell axis."""
        return self._map(lambda array: array[..., i])

    def _map(self, part: Callable[[Floats], Floats]) -> Released:
        return Released(part(self.noisy), part(self.sums), None if self.siblings is None else part(self.siblings))

    def individual(self, level: int, count: int) -> Floats | None:
        """Releases of the siblings of a level's unit in one cell, (release, sibling); None where not given."""
        if self.siblings is None or np.isnan(self.siblings[:, level, :count]).any():
            return None
        return self.siblings[:, level, :count]


def make_release(
    plan: Layout, noisy: Any, sibling_sum: Any, siblings: Any = None, labels: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Check releases against the plan and label them.

    Parameters
    ----------
    plan : the published counts
    noisy : released counts, (release, level, cell)
    sibling_sum : sums of the siblings' released counts, (release, level, cell); NaN where none is published
    siblings : released counts of single siblings, (release, level, sibling, cell), padded with NaN; None if not
        published
    labels : of releases and cells, by dimension; none unless given

    Returns
    -------
    Dataset of `noisy` and `sibling_sum` (release, level[, cell]), and `siblings` (release, level, sibling[, cell]);
    without the dim cell where the plan has one cell

    Raises
    ------
    ValueError : values that are not finite, not whole though the noise is, or excluded by the plan's postprocessing
    """
    if not all(level.mechanism.is_continuous for level in plan.levels):
        refuse_rounded("noisy", noisy)
        refuse_rounded("sibling_sum", sibling_sum)
    each = None if siblings is None else np.asarray(siblings, dtype=np.float64)
    given = Released(np.asarray(noisy, dtype=np.float64), np.asarray(sibling_sum, dtype=np.float64), each)
    for i, level in enumerate(plan.levels):
        columns = [(f"noisy of level {level.name!r}", given.noisy[:, i])]
        if plan.sibling_noise(i) is not None:
            columns.append((f"sibling_sum of level {level.name!r}", given.sums[:, i]))
        if given.siblings is not None and level.siblings and not np.isnan(given.siblings[:, i]).all():
            columns.append((f"siblings of level {level.name!r}", given.siblings[:, i, : level.siblings]))
        for name, column in columns:
            if not level.mechanism.is_continuous:
                check_whole(name, column)
            elif not np.isfinite(column).all():
                raise ValueError(f"{name} must be finite, got {column[~np.isfinite(column)][0]}")
    if plan.postprocessing is not None:
        _check_adjusted(plan, given.noisy)
    single = plan.cells == 1
    dims: tuple[str, ...] = ("release", "level") if single else ("release", "level", "cell")
    arrays = given.cell(0) if single else given
    variables: dict[str, Any] = {"noisy": (dims, arrays.noisy), "sibling_sum": (dims, arrays.sums)}
    if arrays.siblings is not None:
        variables["siblings"] = (("release", "level", "sibling", "cell")[: 3 if single else 4], arrays.siblings)
    attrs = {"cells": plan.cells, "neighbours": plan.neighbours}
    coords = {dim: (dim, labels[dim]) for dim in ("release", "cell") if labels and dim in labels and dim in dims}
    return xr.Dataset(variables, coords={**coords, "level": list(plan.names)}, attrs=attrs)


def _check_adjusted(plan: Layout, noisy: Floats) -> None:
    """ValueError unless adjusted children's counts lie between 0 and their parent's published count."""
    own, parent = noisy[:, 0], noisy[:, 1]
    lower, upper = plan.names
    if (parent < 0).any():
        raise ValueError(f"noisy of level {upper!r} must be at least 0 after post-processing, got {parent.min():g}")
    off = (own < 0) | (own > parent)
    if off.any():
        raise ValueError(
            f"noisy of level {lower!r} must be between 0 and that of {upper!r} after post-processing, "
            f"got {own[off][0]:g} and {parent[off][0]:g}"
        )


def release_arrays(plan: Layout, release: xr.Dataset) -> Released:
    """Arrays of a labelled release, checked against the plan: the inverse of `make_release`.

    Parameters
    ----------
    plan : the published counts
    release : Dataset from `plan.release` or `plan.observe`, dims ([release,] level[, cell])

    Returns
    -------
    Released, with arrays (release, level, cell); a single release gets an axis of length 1

    Raises
    ------
    TypeError : not a Dataset with `noisy` and `sibling_sum`
    ValueError : levels or cells differ from the plan's, or a value is impossible under it
    """
    if not isinstance(release, xr.Dataset) or not {"noisy", "sibling_sum"} <= set(release.data_vars):
        raise TypeError(
            "release must be a Dataset with variables noisy and sibling_sum: see plan.release and plan.observe"
        )
    if tuple(release["level"].values) != plan.names:
        levels = ", ".join(map(str, release["level"].values))
        raise ValueError(f"the release has levels {levels}, the plan has {', '.join(plan.names)}")
    if others := sorted({str(dim) for dim in release["noisy"].dims} - {"release", "level", "cell"}):
        remedy = f"rename it, release.rename({others[0]}='release')"
        if "release" in release.dims:
            remedy = f"take one of it, release.isel({others[0]}=0)"
        raise ValueError(f"the release has the dim {others[0]!r}, and its dims are release, level and cell: {remedy}")
    if int(release.sizes.get("cell", 1)) != plan.cells:
        raise ValueError(f"the release has {release.sizes.get('cell', 1)} cells, the plan has {plan.cells}")
    if "release" not in release.dims:
        release = release.expand_dims("release")
    if plan.cells == 1:
        release = release.expand_dims("cell", axis=-1)
    siblings = None
    if "siblings" in release:
        siblings = release["siblings"].transpose("release", "level", "sibling", "cell").values
    release = release.transpose("release", "level", ..., "cell")
    numbers = Released(release["noisy"].values, release["sibling_sum"].values, siblings)
    make_release(plan, numbers.noisy, numbers.sums, numbers.siblings)
    return numbers


def observed(release: xr.Dataset, individually: bool = False) -> dict[str, NDArray[Any]]:
    """The released variables by the names that every model in `adversary.models` gives them.

    Parameters
    ----------
    release : Dataset from `plan.release` or `plan.observe`
    individually : whether single siblings' releases are returned as "siblings[block]" in place of their sum

    Returns
    -------
    {"noisy[block]": ..., "sibling_sum[block]": ...}: arrays ([release][, cell]), and "siblings[block]" ([release,]
    sibling[, cell]), for `pm.observe` and `enumerate_posterior`. Unpublished variables are left out. Whole numbers are
    int64, which PyMC requires of discrete variables.
    """
    if not isinstance(release, xr.Dataset):
        raise TypeError(
            f"release must be a Dataset, as plan.observe({{...}}) makes of published counts, got {release!r}"
        )
    result: dict[str, NDArray[Any]] = {}
    for level in release["level"].values:
        one = release.sel(level=level)
        apart = individually and "siblings" in one and not bool(one["siblings"].isnull().all())
        for name in ("noisy", "siblings" if apart else "sibling_sum"):
            column = one[name].dropna("sibling", how="all") if name == "siblings" else one[name]
            values: NDArray[Any] = np.asarray(column.values)
            if not np.isnan(values).all():
                whole = np.array_equal(values, np.rint(values))
                result[f"{name}[{level}]"] = values.astype(np.int64) if whole else values
    return result
