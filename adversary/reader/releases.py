"""Labelled noisy values: an `xarray.Dataset` with a known schema.

Variables `noisy` and `sibling_sum`, float64, dims ([release,] level[, cell]); `sibling_sum` is NaN where no sibling
publishes. Releases of integer mechanisms must be whole numbers; they are refused otherwise, never rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adversary._numeric import Floats, check_whole
from adversary.privacy.mechanisms import ContinuousNoise

if TYPE_CHECKING:
    from adversary.reader.plans import Plan


def make_release(plan: Plan, noisy: Any, sibling_sum: Any) -> xr.Dataset:
    """Dataset of releases from arrays (release, level, cell), checked against the plan."""
    arrays = [np.asarray(noisy, dtype=np.float64), np.asarray(sibling_sum, dtype=np.float64)]
    for i, level in enumerate(plan.levels):
        columns = [(f"noisy of level {level.name!r}", arrays[0][:, i])]
        if level.siblings:
            columns.append((f"sibling_sum of level {level.name!r}", arrays[1][:, i]))
        for name, column in columns:
            if not isinstance(level.mechanism, ContinuousNoise):
                check_whole(name, column)
            elif not np.isfinite(column).all():
                raise ValueError(f"{name} must be finite, got {column[~np.isfinite(column)][0]}")
    dims: tuple[str, ...] = ("release", "level", "cell")
    coords = {"level": list(plan.names)}
    if plan.cells == 1:
        arrays, dims = [array[..., 0] for array in arrays], dims[:2]
    variables = {"noisy": (dims, arrays[0]), "sibling_sum": (dims, arrays[1])}
    return xr.Dataset(variables, coords=coords, attrs={"cells": plan.cells, "neighbours": plan.neighbours})


def release_arrays(plan: Plan, release: xr.Dataset) -> tuple[Floats, Floats]:
    """(noisy, sibling_sum) as arrays (release, level, cell) of a release of this plan, checked."""
    if not isinstance(release, xr.Dataset) or not {"noisy", "sibling_sum"} <= set(release.data_vars):
        raise TypeError(
            "release must be a Dataset with variables noisy and sibling_sum: see plan.release and plan.observe"
        )
    if tuple(release["level"].values) != plan.names:
        raise ValueError(f"the release has levels {release['level'].values.tolist()}, the plan has {list(plan.names)}")
    if int(release.sizes.get("cell", 1)) != plan.cells:
        raise ValueError(f"the release has {release.sizes.get('cell', 1)} cells, the plan has {plan.cells}")
    if "release" not in release.dims:
        release = release.expand_dims("release")
    if plan.cells == 1:
        release = release.expand_dims("cell", axis=-1)
    release = release.transpose("release", "level", "cell")
    make_release(plan, release["noisy"].values, release["sibling_sum"].values)
    return release["noisy"].values, release["sibling_sum"].values


def observed(release: xr.Dataset) -> dict[str, NDArray[Any]]:
    """The released variables as every model in `adversary.models` names them.

    {"noisy[block]": ..., "sibling_sum[block]": ...}: arrays ([release][, cell]), ready for `pm.observe` and
    `enumerate_posterior`; sums that are not published are left out. Whole numbers come as int64, which PyMC asks of
    discrete variables.
    """
    result: dict[str, NDArray[Any]] = {}
    for level in release["level"].values:
        for name in ("noisy", "sibling_sum"):
            values = np.asarray(release[name].sel(level=level).values)
            if not np.isnan(values).all():
                whole = np.array_equal(values, np.rint(values))
                result[f"{name}[{level}]"] = values.astype(np.int64) if whole else values
    return result
