"""Export of a posterior as labelled arrays: independent draws, marginals on grids, and summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats, Seed, as_array, check_whole, seed_sequence

# Points of the grid of a marginal density.
GRID = 201

# Posterior probability beyond either end of such a grid.
_TAIL = 1e-4
_MEASURES = ("mean", "sd", "mode", "hdi_low", "hdi_high", "eti_low", "eti_high")


def drawn(posterior: Any, draws: int, rng: Seed) -> xr.DataTree:
    """Independent draws in one chain: mu, sigma2 and sigma, in the units of the data.

    A cell of the joint grid is drawn by its weight. Within the cell, mu and sigma2 are drawn independently by inversion
    of their marginals. The dependence has the resolution of the grid; the marginals are exact.
    """
    size = int(check_whole("draws", draws, minimum=1))
    seed = seed_sequence(rng)
    generator = np.random.default_rng(seed)
    solution = posterior.solutions[0]
    _, _, table = solution.joint()
    cells = np.searchsorted(np.cumsum(table.ravel()), generator.random(size) * table.sum(), side="right")
    rows, columns = np.unravel_index(np.minimum(cells, table.size - 1), table.shape)
    mean_shares = _uniform_in_cell(table.sum(1), rows, generator)
    variance_shares = _uniform_in_cell(table.sum(0), columns, generator)
    unit_mu, unit_v = solution.mean.quantiles(mean_shares), solution.variance.quantiles(variance_shares)
    if posterior.constrained:
        unit_v = np.minimum(unit_v, unit_mu * (1.0 - unit_mu))
    mu, sigma2 = (posterior.in_units(name, unit, 0) for name, unit in (("mu", unit_mu), ("sigma2", unit_v)))
    values = {"mu": mu, "sigma2": sigma2, "sigma": np.sqrt(sigma2)}
    dataset = xr.Dataset({name: (("chain", "draw"), x[None]) for name, x in values.items()})
    dataset = dataset.assign_coords(chain=[0], draw=np.arange(size)).assign_attrs(
        sampling="independent draws by quadrature"
    )
    return xr.DataTree.from_dict({"posterior": dataset})


def _uniform_in_cell(shares: Floats, cells: Any, generator: np.random.Generator) -> Floats:
    """(draw,) cumulative probabilities, uniform within the drawn cells of a marginal with cell masses `shares`."""
    ends = np.concatenate([[0.0], np.cumsum(shares) / shares.sum()])
    return np.asarray(ends[cells] + generator.random(len(cells)) * (ends[cells + 1] - ends[cells]))


def exported(posterior: Any) -> xr.DataTree:
    """DataTree with groups `density` (marginals on GRID points), `summary` (measure by parameter) and `release`."""
    names = ("mu", "sigma2", "sigma")
    labels = posterior.labels.over(len(posterior.shape))
    dims, grids = labels.dims, {name: _grid(posterior, name) for name in names}
    density = xr.Dataset(
        {name: ((*dims, f"{name}_grid"), as_array(posterior.density(name, x))) for name, x in grids.items()},
        {**labels.coords, **{f"{name}_grid": x for name, x in grids.items()}},
    )
    summary = xr.Dataset(
        {name: ((*dims, "measure"), _measures(posterior, name)) for name in names},
        {**labels.coords, "measure": list(_MEASURES)},
    )
    if posterior.quantity == "population":
        predictive = posterior.predictive()
        for name in ("mean", "sd", "below", "above"):
            summary[f"predictive_{name}"] = (dims, as_array(getattr(predictive, name)))
    summary["log_evidence"] = (dims, as_array(posterior.log_evidence))
    summary["quadrature_error"] = (dims, as_array(posterior.quadrature_error))
    release = posterior.release
    released = {"mean": release.mean, "variance": release.variance, "n": release.n}
    release_dataset = xr.Dataset(
        {k: (dims, np.broadcast_to(as_array(v), posterior.shape)) for k, v in released.items() if v is not None},
        labels.coords,
    )
    attrs = {
        "quantity": posterior.quantity,
        "constrained": int(posterior.constrained),
        "feasibility": posterior.feasibility,
        "noise": release.noise,
        "budgets": str(release.budgets),
        "bounds": list(release.bounds),
        "prior": repr(posterior.prior),
        "prob": 0.95,
    }
    tree = {"density": density, "summary": summary, "release": release_dataset}
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **tree})


def _grid(posterior: Any, name: str) -> Floats:
    """Grid over the range of nearly all mass of every posterior; without any posterior, over the feasible range."""
    low, high = (as_array(posterior.quantile(name, q)) for q in (_TAIL, 1.0 - _TAIL))
    width = posterior.release.width
    limits = {"mu": posterior.release.bounds, "sigma": (0.0, width / 2.0), "sigma2": (0.0, width**2 / 4.0)}
    ends: tuple[float, float] = limits[name]
    if low.size:
        ends = float(low.min()) if name == "mu" else 0.0, float(high.max())
    return np.linspace(*ends, GRID)


def _measures(posterior: Any, name: str) -> Floats:
    """Mean, sd, mode, and ends of hdi and eti of a parameter, along a last axis."""
    single = [as_array(getattr(posterior, measure)(name)) for measure in ("mean", "sd", "mode")]
    pairs = [as_array(getattr(posterior, interval)(name)) for interval in ("hdi", "eti")]
    return np.concatenate([np.stack(single, axis=-1), *pairs], axis=-1)
