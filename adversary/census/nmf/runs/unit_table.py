"""Results of a solved tree as a table, one row for every unit and cell, and as Parquet."""

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

# Columns of the table and their meaning, which the Parquet schema records.
COLUMNS = {
    "geocode": "of the unit",
    "level": "of the spine",
    "name": "GEOID of a block, name of a state or county; null for other units",
    "cell": "flat index in the query's shape",
    "noisy": "published noisy count, also if the count is known exactly; null if there is none",
    "variance": "of its noise; 0 if the count is known exactly, null if it was not measured",
    "bounded": "whether published bounds limit it",
    "mean": "of the posterior, people",
    "sd": "of the posterior, people",
    "hdi_lower": "lowest count of the highest posterior density set",
    "hdi_upper": "highest count of it",
    "hdi_mass": "its probability",
    "p_zero": "posterior probability that nobody is there",
    "known": "number of other people the adversary knows to be in the leaf; null if not known",
    "tail": "posterior probability of a count at least as far off as `known`, on its side",
    "log_odds": "posterior log odds that one more person is in the leaf; null for other units",
    "posterior": "the same as a probability",
    "ratio": "posterior to prior",
    "status": "of the posterior (ok, loose, unresolved) or, in a leaf, of log_odds (mistaken, or one of STATUS)",
    "truncation_bound": "bound on the error of every probability of this posterior",
    "path_rho": "sum of rho = 1 / (2 variance) over the noisy answers of a leaf and of all units above it",
    "path_exact": "whether an exact count is among them",
    "one_query_mean": "posterior mean from one query alone; null if only one query was read",
    "one_query_sd": "its standard deviation",
    "one_query_posterior": "posterior probability of one more person in the leaf, from one query alone",
    "one_query_ratio": "the same over the prior",
    "one_query_status": "status of the leaf's result from one query alone, one of STATUS",
}
TEXTS, WHOLE = ("geocode", "level", "name", "status", "one_query_status"), ("cell", "hdi_lower", "hdi_upper")
TRUE_OR_NOT = ("path_exact", "bounded")
MISTAKEN = "mistaken"
"""Status of a leaf whose known count the release contradicts."""


def path_rho(measurements: Measurements, top: Floats | None = None) -> tuple[Floats, Any]:
    """(unit, cell) sums of `total_precision` along the path from the root, and True if some unit on it has `has_exact`.

    top : (2, cell) both values of the units above the root, for a piece of a larger tree
    """
    tree = measurements.tree
    total, exact = (
        np.array(one.reshape(len(tree), -1)) for one in (measurements.total_precision, measurements.has_exact)
    )
    if top is not None:
        total[0], exact[0] = total[0] + top[0], exact[0] | (top[1] > 0)
    for generation in tree.generations[1:]:
        total[generation] += total[tree.parent[generation]]
        exact[generation] |= exact[tree.parent[generation]]
    return total, exact


def unit_columns(posterior: spine.SpinePosterior, measurements: Measurements, prob: float) -> dict[str, Any]:
    """Columns of all units, cell after cell, with empty columns for the results of leaves.

    posterior : of the cells from all that was read, followed by the same cells from one query alone if there is a
        `single_query`
    prob : probability of the highest posterior density sets
    """
    tree, count = posterior.tree, measurements.cells.size
    rho, published, low, high = (
        getattr(measurements, name).reshape(len(tree), count) for name in ("rho", "published", "low", "high")
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
        "one_query_mean": nothing if measurements.single_query is None else mean[:, count:],
        "one_query_sd": nothing if measurements.single_query is None else sd[:, count:],
    }
    columns = {name: np.ravel(values.T) for name, values in units.items()}
    columns["geocode"] = np.tile(tree.names.astype(object), count)
    columns["level"] = np.tile(np.asarray(tree.levels, dtype=object)[tree.level], count)
    columns["name"] = np.tile(names_of(tree, measurements.states or {}), count)
    columns["cell"] = np.repeat(np.asarray(measurements.cells, dtype=np.int64), len(tree))
    nothing = np.full(columns["cell"].size, np.nan)
    columns["truncation_bound"] = np.repeat(np.atleast_1d(posterior.truncation_bound)[:count], len(tree))
    empty = ("known", "tail", "log_odds", "posterior", "ratio", "path_rho", "one_query_posterior", "one_query_ratio")
    columns |= dict.fromkeys(empty, nothing)
    columns["one_query_status"] = np.full(nothing.size, None, dtype=object)
    return columns | {"path_exact": np.zeros(nothing.size, dtype=bool)}


def with_leaves(
    columns: dict[str, Any], tree: Tree, members: Any, path: tuple[Floats, Any], mistaken: float = 0.0
) -> dict[str, Any]:
    """Columns of `unit_columns`, with the adversary's results in every leaf filled in.

    members : `SpinePosterior.membership`
    path : `path_rho`
    mistaken : tail probability of a known count below which the adversary is taken to be mistaken
    """
    filled, leaves, count = dict(columns), tree.leaves, path[0].shape[1]
    rows = np.ravel((np.arange(count)[:, None] * len(tree)) + leaves)
    words = np.asarray(spine.STATUS, dtype=object)[members["status"].values]
    copied = ("known", "tail", "log_odds", "posterior", "ratio")
    results = {name: members[name].values.reshape(leaves.size, -1) for name in copied}
    answers = {name: values[:, :count] for name, values in results.items()}
    results["status"] = words.reshape(leaves.size, -1)
    answers["status"] = results["status"][:, :count]
    if results["ratio"].shape[1] > count:
        answers |= {f"one_query_{name}": results[name][:, count:] for name in ("posterior", "ratio", "status")}
    answers |= {"path_rho": path[0][tree.leaves], "path_exact": path[1][tree.leaves]}
    answers["status"] = np.where(np.nan_to_num(answers["tail"], nan=1.0) < mistaken, MISTAKEN, answers["status"])
    for name, values in answers.items():
        filled[name] = filled[name].astype(object) if name in TEXTS else filled[name].copy()
        filled[name][rows] = np.ravel(values.T)
    return filled


def as_parquet(columns: dict[str, Any]) -> bytes:
    """Table as the bytes of a Parquet file, equal for equal columns; NaN becomes null.

    Every row group holds one cell, so that programs can read one cell without the others.
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
    """Arrow type of a column."""
    if name in TEXTS:
        return pa.string()
    return pa.bool_() if name in TRUE_OR_NOT else pa.int64() if name in WHOLE else pa.float64()


def _p_zero(solution: Any) -> Floats:
    """(unit,) posterior probability of the count 0."""
    windows = solution.messages.windows
    if not solution.resolved:
        return np.full(windows.size, np.nan)
    first = windows["place"]
    mass = solution.messages.data[first] * solution.outer[first] / solution.mass
    return np.where(windows["low"] == 0, mass, 0.0)
