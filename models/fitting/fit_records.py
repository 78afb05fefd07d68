"""What many fits of one model leave behind: a row of numbers per release, labelled draws, and files to go on from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary.models.enumeration import Conditioned

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

SUMMARY = ("posterior", "complement", "mcse", "r_hat", "ess", "divergences", "passed")
"""What every fit is summed up in, one number each."""


@dataclass(frozen=True)
class Refits:
    """Fits of many releases.

    Parameters
    ----------
    estimate : per release `posterior` = P(target = 1) and `complement` = P(target = 0), both NaN where `status` is not
        "ok"; `mcse`, `r_hat` (largest), `ess` (smallest) and `divergences` (number) of the fit; with continuous latents
        `k_hat`, the shape of the tail of the weights of draws of the prior: below 0.7 the fit agrees with them
    draws : of every latent and of `probability`, P(target = 1 | what it was averaged over), dims (chain, draw, release)
    diverging : which draws diverged, same dims; None for a sampler that does not diverge
    prior : draws of every latent before the release, dims (chain, draw)
    before : (P(target = 1) before the release, its Monte Carlo standard error)
    settled : the same given the releases that are published exactly
    method : what made the draws
    advice : what to do where they cannot be trusted
    """

    estimate: xr.Dataset
    draws: xr.Dataset
    diverging: xr.Dataset | None
    prior: xr.Dataset
    before: tuple[float, float]
    settled: tuple[float, float]
    method: str
    advice: str


@dataclass(frozen=True)
class Layout:
    """The results of one release as one row of numbers, so that a block of releases is one array; shapes by name."""

    shapes: Mapping[str, tuple[int, ...]]

    def packed(self, values: Mapping[str, ArrayLike]) -> Floats:
        """One release's row."""
        return np.concatenate([np.asarray(values[name], dtype=np.float64).ravel() for name in self.shapes])

    def packed_all(self, values: Mapping[str, NDArray[Any]]) -> Floats:
        """Rows of many releases from arrays (release, *shape)."""
        flat = [np.asarray(values[name], dtype=np.float64).reshape(len(values[name]), -1) for name in self.shapes]
        return np.concatenate(flat, axis=1)

    def unpacked(self, rows: Floats) -> Arrays:
        """Arrays (release, *shape) by name."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        parts = np.split(rows, ends, axis=1)
        return {n: p.reshape(-1, *shape) for (n, shape), p in zip(self.shapes.items(), parts, strict=True)}


def estimate(found: Arrays) -> xr.Dataset:
    """Summaries per release; no probability where the fit failed."""
    passed = found["passed"] == 1
    values = {name: found[name] for name in SUMMARY[:-1]}
    for name in ("posterior", "complement"):
        values[name] = np.where(passed, values[name], np.nan)
    result = xr.Dataset({name: ("release", value) for name, value in values.items()})
    return result.assign(status=("release", np.where(passed, "ok", "unreliable")))


def labelled(given: Conditioned, values: Mapping[str, NDArray[Any]], leading: tuple[str, ...]) -> xr.Dataset:
    """Arrays (*leading, *shape) of latents with the model's own dims and coordinates; whole numbers as int64."""
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, array in values.items():
        own = array.ndim - len(leading)
        dims = list(given.model.named_vars_to_dims.get(name) or [f"{name}_dim_{i}" for i in range(own)])
        coords |= {d: list(given.model.coords[d]) for d in dims if given.model.coords.get(d) is not None}
        variables[name] = ((*leading, *dims), array.astype(np.int64) if name in given.latents else array)
    sizes = next(iter(values.values())).shape
    axes = {d: np.arange(n) for d, n in zip(leading, sizes, strict=False) if d in ("chain", "draw")}
    return xr.Dataset(variables, coords={**axes, **coords})


def release_axis_last(array: NDArray[Any]) -> NDArray[Any]:
    """(release, chain, draw, ...) as (chain, draw, release, ...)."""
    return np.moveaxis(array, 0, 2)


def rows_of(observed: Mapping[str, ArrayLike]) -> tuple[Callable[[slice], Arrays], int]:
    """A function from a range of releases to their values, and the number of releases."""
    arrays = {name: np.atleast_1d(np.asarray(value)) for name, value in observed.items()}
    size = next(iter(arrays.values())).shape[0]
    return lambda window: {name: value[window] for name, value in arrays.items()}, size
