"""Numbers of several groups of an audit side by side, for its tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary.desk.kit import Column

AVERAGES = {
    "in": Column("expected posterior, in", "probability"),
    "out": Column("expected posterior, out", "probability"),
    "ratio": Column("expected ratio, in", "number"),
}
"""Columns of `both_targets`."""
RULED_OUT = {None: "ruled out"}
"""In the place of an average under a truth that the adversary holds impossible."""


def group(tree: xr.DataTree, name: str) -> xr.Dataset | None:
    """A group; None where there is none."""
    return tree[name].to_dataset() if name in tree.children else None


def joined(risk: xr.Dataset, **arrays: tuple[xr.Dataset | None, str]) -> xr.Dataset:
    """Arrays of groups by new names, with their errors: NaN for what there is not, or not of an adversary of `risk`."""
    found: dict[str, Any] = {}
    errors: dict[str, xr.DataArray] = {}
    for new, (one, name) in arrays.items():
        if one is None:
            found[new] = np.nan
            continue
        if "adversary" in one.dims:
            one = one.reindex(adversary=risk["adversary"])
        found[new] = one[name]
        if "mcse" in one and name in one["measure"].values:
            errors[new] = one["mcse"].sel(measure=name, drop=True).fillna(0.0)
    made = xr.Dataset(found)
    return made.assign(mcse=xr.Dataset(errors).to_dataarray("measure")) if errors else made


def both_targets(risk: xr.Dataset, one: xr.Dataset, **more: tuple[xr.Dataset | None, str]) -> xr.Dataset:
    """Averages of a group over "target" under `AVERAGES`, and other arrays as of `joined`."""
    inside, outside = (one.sel(target=side, drop=True) for side in ("in", "out"))
    mean = {"in": (inside, "posterior_mean"), "out": (outside, "posterior_mean"), "ratio": (inside, "ratio_mean")}
    return joined(risk, **mean, **more)
