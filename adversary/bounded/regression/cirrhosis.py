"""Cirrhosis deaths and alcohol consumption in 46 US states: the regression example of the thesis."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr

_FILE = Path(__file__).parents[3] / "data" / "cirrhosis_46_states.csv"


def load_cirrhosis(path: str | PathLike[str] | None = None) -> xr.Dataset:
    """Load the data of 46 states, with the rescaled variables x and y of the thesis's regression.

    Parameters
    ----------
    path : CSV file with columns wine, liquor, deaths; default ``data/cirrhosis_46_states.csv`` of this project, which
        exists in a source checkout, not in an installed wheel

    Returns
    -------
    Dataset, dim state (numbered from 1, in the file's order): wine and liquor (consumption per head, as tabulated),
    deaths (rate of deaths from cirrhosis), x = wine + liquor and y = deaths, each rescaled to [0, 1] by its smallest
    and largest value. The rescaling depends on the data; it is public only if these four numbers are.

    Raises
    ------
    FileNotFoundError : no such file

    References
    ----------
    Brownlee (1965), "Statistical theory and methodology in science and engineering", pp. 464-465.
    """
    file = Path(_FILE if path is None else path)
    if not file.is_file():
        raise FileNotFoundError(
            f"no file {file}: the table of 46 states is in data/ of the source of this project and not in the "
            "installed package; give its path"
        )
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in ("wine", "liquor", "deaths")}
    drink = columns["wine"] + columns["liquor"]
    scaled = {
        name: (values - values.min()) / (values.max() - values.min())
        for name, values in (("x", drink), ("y", columns["deaths"]))
    }
    variables = {name: ("state", values) for name, values in {**columns, **scaled}.items()}
    return xr.Dataset(variables, coords={"state": np.arange(1, len(rows) + 1)})
