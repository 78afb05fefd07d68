"""The figures of a guarantee or a concern, and how they are written: all of them whole, or none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr
from matplotlib.figure import Figure

from adversary.desk.kit import (
    naming,
    netcdf,
)

KINDS = ("svg", "png")


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
