"""A solved tree as rows, one for every unit and cell, and those rows as Parquet."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

from adversary._core import Floats
from adversary.census import spine
from adversary.census.nmf.file_layout import arrow
from adversary.census.nmf.measurements import Measurements
from adversary.census.nmf.units import names_of
from adversary.census.spine import Tree

# Of every row, with what it means.
COLUMNS = {
    "geocode": "of the unit",
    "level": "of the spine",
    "name": "what the unit is called: GEOID of a block, name of a state; null where the spine has no name for it",
    "cell": "flat index in the query's shape",
    "noisy": "published count, also where the count is known exactly; null where there is none",
    "variance": "of its noise; 0 where the count is known exactly, null where nothing is known",
    "bounded": "whether published bounds limit it",
    "mean": "of the posterior, people",
    "sd": "of the posterior, people",
    "hdi_lower": "lowest count of the highest posterior density set",
    "hdi_upper": "highest count of it",
    "hdi_mass": "its probability",
    "p_zero": "posterior probability that nobody is there",
    "known": "how many others the adversary of a leaf knows to be there; null where they are not known",
    "tail": "posterior probability of counts as far off as that",
    "log_odds": "of one more person, for the adversary of this leaf; null where no leaf",
    "posterior": "the same as a probability",
    "ratio": "posterior to prior",
    "status": "of the posterior (ok, loose, unresolved) or, in a leaf, of log_odds (mistaken, or one of STATUS)",
    "truncation_bound": "bound on the error of every probability of this posterior",
    "path_rho": "sum of rho = 1 / (2 variance) of all noisy answers read of a leaf and of all above it",
    "path_exact": "whether an exact count is among them",
    "one_query_mean": "posterior mean under one query alone; null where all of this is",
    "one_query_sd": "its standard deviation",
    "one_query_posterior": "what the adversary of this leaf concludes from one query alone",
    "one_query_ratio": "the same over the prior",
    "one_query_status": "of what is concluded in this leaf from one query alone: one of STATUS",
}
TEXTS, WHOLE = ("geocode", "level", "name", "status", "one_query_status"), ("cell", "hdi_lower", "hdi_upper")
TRUE_OR_NOT = ("path_exact", "bounded")
MISTAKEN = "mistaken"
"""Status of a leaf where the release contradicts what the reader knows."""


def path_rho(read: Measurements, top: Floats | None = None) -> tuple[Floats, Any]:
    """(unit, cell) sums of `moved` from the root down to each unit, and whether anything `settled` is among them.

    top : (2, cell) the same of what lies above the root
    """
    tree = read.tree
    total, exact = (np.array(one.reshape(len(tree), -1)) for one in (read.moved, read.settled))
    if top is not None:
        total[0], exact[0] = total[0] + top[0], exact[0] | (top[1] > 0)
    for here in tree.generations[1:]:
        total[here] += total[tree.parent[here]]
        exact[here] |= exact[tree.parent[here]]
    return total, exact


def unit_columns(posterior: spine.SpinePosterior, read: Measurements, prob: float) -> dict[str, Any]:
    """Columns of all units, cell after cell; those of leaves are empty.

    posterior : of the cells under all that was read, and after them, where there is an `alone`, under the query alone
    """
    tree, count = posterior.tree, read.cells.size
    rho, published, low, high = (
        getattr(read, name).reshape(len(tree), count) for name in ("rho", "published", "low", "high")
    )
    sets = posterior.hdi(prob)
    with np.errstate(divide="ignore"):
        variance = np.where(rho > 0, 0.5 / rho, np.nan)
    estimates = (posterior.mean, posterior.sd, sets["lower"], sets["upper"], sets["mass"])
    mean, sd, lower, upper, mass = (one.values.reshape(len(tree), -1) for one in estimates)
    nothing = np.full(rho.shape, np.nan)
    units = {
        "noisy": published,
        "variance": variance,
        "bounded": (low > 0) | np.isfinite(high),
        "mean": mean[:, :count],
        "sd": sd[:, :count],
        "hdi_lower": lower[:, :count],
        "hdi_upper": upper[:, :count],
        "hdi_mass": mass[:, :count],
        "p_zero": np.stack([_p_zero(solution) for solution in posterior.solutions[:count]], axis=-1),
        "status": np.broadcast_to(np.atleast_1d(posterior.status)[:count], rho.shape),
        "one_query_mean": nothing if read.alone is None else mean[:, count:],
        "one_query_sd": nothing if read.alone is None else sd[:, count:],
    }
    columns = {name: np.ravel(values.T) for name, values in units.items()}
    columns["geocode"] = np.tile(tree.names.astype(object), count)
    columns["level"] = np.tile(np.asarray(tree.levels, dtype=object)[tree.level], count)
    columns["name"] = np.tile(names_of(tree, read.states or {}), count)
    columns["cell"] = np.repeat(np.asarray(read.cells, dtype=np.int64), len(tree))
    nothing = np.full(columns["cell"].size, np.nan)
    columns["truncation_bound"] = np.repeat(np.atleast_1d(posterior.truncation_bound)[:count], len(tree))
    empty = ("known", "tail", "log_odds", "posterior", "ratio", "path_rho", "one_query_posterior", "one_query_ratio")
    columns |= dict.fromkeys(empty, nothing)
    columns["one_query_status"] = np.full(nothing.size, None, dtype=object)
    return columns | {"path_exact": np.zeros(nothing.size, dtype=bool)}


def with_leaves(
    columns: dict[str, Any], tree: Tree, members: Any, path: tuple[Floats, Any], mistaken: float = 0.0
) -> dict[str, Any]:
    """The columns with what an adversary learns in every leaf: `SpinePosterior.membership`, and `path_rho`.

    mistaken : posterior probability of what the reader knows below which that is taken to be wrong
    """
    made, leaves, count = dict(columns), tree.leaves, path[0].shape[1]
    rows = np.ravel((np.arange(count)[:, None] * len(tree)) + leaves)
    words = np.asarray(spine.STATUS, dtype=object)[members["status"].values]
    given = ("known", "tail", "log_odds", "posterior", "ratio")
    every = {name: members[name].values.reshape(leaves.size, -1) for name in given}
    answers = {name: values[:, :count] for name, values in every.items()}
    every["status"] = words.reshape(leaves.size, -1)
    answers["status"] = every["status"][:, :count]
    if every["ratio"].shape[1] > count:
        answers |= {f"one_query_{name}": every[name][:, count:] for name in ("posterior", "ratio", "status")}
    answers |= {"path_rho": path[0][tree.leaves], "path_exact": path[1][tree.leaves]}
    answers["status"] = np.where(np.nan_to_num(answers["tail"], nan=1.0) < mistaken, MISTAKEN, answers["status"])
    for name, values in answers.items():
        made[name] = made[name].astype(object) if name in TEXTS else made[name].copy()
        made[name][rows] = np.ravel(values.T)
    return made


def as_parquet(columns: dict[str, Any]) -> bytes:
    """Columns as a Parquet file, the same bytes for the same columns; NaN becomes null.

    A row group has one cell, so that a reader of one reads nothing of the others.
    """
    pa = arrow()
    arrays = [pa.array(columns[name], _kind(pa, name), from_pandas=True) for name in COLUMNS]
    fields = [
        pa.field(name, array.type, metadata={"is": COLUMNS[name]}) for name, array in zip(COLUMNS, arrays, strict=True)
    ]
    buffer = BytesIO()
    table = pa.table(arrays, schema=pa.schema(fields))
    cells = table["cell"].to_numpy()
    with pa.parquet.ParquetWriter(buffer, table.schema, compression="zstd") as file:
        for start, stop in pairwise([*np.flatnonzero(np.diff(cells, prepend=-1)), cells.size]):
            file.write_table(table.slice(start, stop - start), row_group_size=max(stop - start, 1))
    return buffer.getvalue()


def _kind(pa: Any, name: str) -> Any:
    if name in TEXTS:
        return pa.string()
    return pa.bool_() if name in TRUE_OR_NOT else pa.int64() if name in WHOLE else pa.float64()


def _p_zero(solution: Any) -> Floats:
    """(unit,) posterior probability of 0."""
    windows = solution.messages.windows
    if not solution.resolved:
        return np.full(windows.size, np.nan)
    first = windows["place"]
    mass = solution.messages.data[first] * solution.outer[first] / solution.mass
    return np.where(windows["low"] == 0, mass, 0.0)
