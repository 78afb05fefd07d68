"""The figures of a guarantee or a concern, and how they are written: all of them whole, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from adversary._core import blocks
from adversary.desk.answers.bounds_answer import certain
from adversary.desk.figures import trade_off_curves
from adversary.desk.figures.belief_bounds import posterior_by_prior
from adversary.desk.kit import (
    naming,
    netcdf,
)
from adversary.policy.census import CensusScenario
from adversary.privacy import Guarantee
from adversary.privacy.definitions import GaussianDP, ZeroConcentratedDP

KINDS = ("svg", "png")
RARE = 1e-4
"""Smallest prior of a figure."""


def of_concern(made: CensusScenario, priors: Sequence[float], failure: float) -> dict[str, Figure]:
    """Trade-off, ladder of epsilons and posterior by prior of the noise of all counted queries."""
    rho = float(made.rho)
    return _drawn(
        {
            "trade_off": lambda: trade_off_curves.trade_off(
                {"exact composition": made.loss, "zCDP": ZeroConcentratedDP(rho)}
            ),
            "epsilon_ladder": lambda: trade_off_curves.epsilon_ladder(rho, {"exact composition": made.loss}),
            "posterior_by_prior": lambda: posterior_by_prior(*certain(made.loss, failure), priors),
        }
    )


def _gaussian(rho: float) -> Guarantee:
    return GaussianDP(float(np.sqrt(2.0 * rho))).worst_pair


def _drawn(figures: Mapping[str, Callable[[], Figure]]) -> dict[str, Figure]:
    return {name: figures[name]() for name in blocks.track(list(figures), "drawing")}


def write(figures: Mapping[str, Figure], folder: Path, data: xr.DataTree | None = None, name: str = "") -> list[Path]:
    """Every figure as SVG and PNG, made in a hidden folder inside this one and moved out when all are whole.

    `data`, if any, is written with them as NetCDF under `name`.
    """
    with TemporaryDirectory(dir=folder, prefix=".") as hidden:
        if data is not None:
            with naming(folder / name):
                (Path(hidden) / name).write_bytes(netcdf(data))
        for name, figure in figures.items():
            for kind in KINDS:
                metadata = {"Date": None} if kind == "svg" else None
                with naming(folder / f"{name}.{kind}"):
                    figure.savefig(Path(hidden) / f"{name}.{kind}", metadata=metadata)
        return [path.replace(folder / path.name) for path in sorted(Path(hidden).iterdir())]
