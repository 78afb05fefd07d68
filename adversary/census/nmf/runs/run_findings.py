"""Summary of a run over a whole spine, accumulated file by file.

Screen and page both use one `Findings`, so they agree. Memory grows with the number of blocks only through their
ratios, eight bytes each; everything else is sums, extremes, the worst blocks and a sample of points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import DEFAULT_FAILURE, Floats
from adversary.census.nmf.file_layout import arrow
from adversary.census.nmf.runs.block_results import (
    Columns,
    PathGuarantee,
    blocks,
    column,
    is_proven,
    is_unprotected,
    path_guarantee,
    statuses,
    worst_rows,
)
from adversary.census.nmf.runs.unit_table import MISTAKEN

# Number of listed blocks, with the largest ratios.
WORST = 20

# Largest number of sampled points of a level; every second point is dropped until there are no more.
POINTS = 20_000
WORST_COLUMNS = ("geocode", "name", "status", "noisy", "mean", "sd", "hdi_lower", "hdi_upper", "posterior", "ratio",
        "known", "tail", "one_query_posterior", "one_query_ratio")  # fmt: skip
"""Columns of the worst blocks."""

# Columns that are read from the files.
NEEDED = (
    *WORST_COLUMNS,
    "one_query_status",
    "level",
    "variance",
    "bounded",
    "path_rho",
    "path_exact",
    "truncation_bound",
)


@dataclass
class LevelFindings:
    """Summary of the units of one level.

    units, measured, exact, bounded : number of units, and of those with a noisy count, an exact count, bounds
    replaced, moved : number of exact units with a noisy count, and the sum of (noisy - exact)^2 over them
    variance : smallest and largest variance of the noise
    squares : sum of (noisy - mean)^2 over measured units
    below : number of negative noisy counts
    points : (2, point) noisy counts and posterior means of a sample of measured units; of all if they are few
    """

    units: int = 0
    measured: int = 0
    exact: int = 0
    bounded: int = 0
    replaced: int = 0
    moved: float = 0.0
    variance: tuple[float, float] = (np.inf, 0.0)
    squares: float = 0.0
    below: int = 0
    points: Floats = field(default_factory=lambda: np.zeros((2, 0)))

    def add(self, noisy: Floats, mean: Floats, variance: Floats, bounded: Any) -> None:
        """Add more units; noisy counts are NaN if not measured."""
        measured = np.isfinite(noisy) & ~(variance == 0.0)
        exact = np.isfinite(noisy) & (variance == 0.0)
        self.bounded += int(np.sum(bounded))
        self.replaced += int(exact.sum())
        self.moved += float(((noisy - mean)[exact] ** 2).sum())
        self.units += noisy.size
        self.exact += int((variance == 0.0).sum())
        self.measured += int(measured.sum())
        positive = variance[np.isfinite(variance) & (variance > 0.0)]
        if positive.size:
            self.variance = min(self.variance[0], float(positive.min())), max(self.variance[1], float(positive.max()))
        self.squares += float(np.nansum((noisy - mean)[measured] ** 2))
        self.below += int((noisy[measured] < 0.0).sum())
        self.points = np.concatenate([self.points, np.stack([noisy[measured], mean[measured]])], axis=1)
        while self.points.shape[1] > POINTS:
            self.points = self.points[:, ::2]


@dataclass
class Findings:
    """Summary of one cell of a spine.

    Parameters
    ----------
    guarantee : weakest guarantee of the protected blocks
    ratios : (block,) posterior / prior of all blocks with a proven result
    single_query_ratios : (block,) the same from one query alone, if all queries were read; NaN if not proven
    protected : (block,) True if noise protects the block: exact counts determine neither its count nor the membership
    status, single_query_status : number of blocks by status, from all that was read and from one query alone
    levels : summary of each level by name, from the top down
    worst : columns of the blocks with the largest ratios, the largest first
    leaves, truncation_bound : number of blocks, and the largest truncation bound (None if it was not recorded)
    mistaken : columns of the blocks whose known count the release contradicts most; excluded from all other fields
    """

    guarantee: PathGuarantee
    ratios: Floats = field(default_factory=lambda: np.zeros(0))
    single_query_ratios: Floats = field(default_factory=lambda: np.zeros(0))
    protected: Any = field(default_factory=lambda: np.zeros(0, dtype=bool))
    status: dict[str, int] = field(default_factory=dict)
    single_query_status: dict[str, int] = field(default_factory=dict)
    levels: dict[str, LevelFindings] = field(default_factory=dict)
    worst: dict[str, Any] = field(default_factory=dict)
    leaves: int = 0
    truncation_bound: float | None = None
    mistaken: dict[str, Any] = field(default_factory=dict)

    @property
    def unprotected(self) -> int:
        """Number of proven blocks that no noise protects."""
        return int((~self.protected).sum())

    def at_least(self, ratio: float) -> float:
        """Share of the proven blocks with at least this ratio."""
        return float((self.ratios >= ratio).mean()) if self.ratios.size else 0.0

    def beyond(self, prior: float) -> tuple[float, float]:
        """Shares of the protected blocks with a ratio below and above the bounds of the guarantee."""
        ratios, (low, high) = self.ratios[self.protected], self.guarantee.ratio(prior)
        return (float((ratios < low).mean()), float((ratios > high).mean())) if ratios.size else (0.0, 0.0)


def findings(tables: Iterable[Columns], failure: float = DEFAULT_FAILURE) -> Findings:
    """Summary of one cell, accumulated over the tables of the parts of a spine.

    Parameters
    ----------
    tables : results by column, with the columns `NEEDED`; some may be missing in results from memory
    failure : failure probability of the guarantee, over releases
    """
    total = Findings(PathGuarantee(np.inf, 1, failure))
    ratios, single_query, protected, worst, mistaken = [], [], [], [], []
    for table in tables:
        guarantee = path_guarantee(table, failure)
        if np.isfinite(guarantee.rho) and (np.isinf(total.guarantee.rho) or guarantee.total > total.guarantee.total):
            total.guarantee = guarantee
        ratios.append(blocks(table, "ratio"))
        proven = is_proven(table, "ratio")
        single_query_ratio = (
            column(table, "one_query_ratio") if "one_query_ratio" in table else np.full(proven.size, np.nan)
        )
        single_query.append(single_query_ratio.astype(np.float64)[proven])
        protected.append(~is_unprotected(table)[proven])
        for name, count in statuses(table).items():
            total.status[name] = total.status.get(name, 0) + count
            total.leaves += count
        for name, count in statuses(table, "one_query_status").items() if "one_query_status" in table else ():
            total.single_query_status[name] = total.single_query_status.get(name, 0) + count
        levels_of(table, total.levels)
        worst.append(_largest(table))
        mistaken.append(_most_mistaken(table))
        if "truncation_bound" in table and column(table, "truncation_bound").size:
            largest = float(np.nanmax(column(table, "truncation_bound").astype(np.float64)))
            total.truncation_bound = largest if total.truncation_bound is None else max(total.truncation_bound, largest)
        if len(worst) > 50:
            worst, mistaken = [_largest(_concatenate(worst))], [_most_mistaken(_concatenate(mistaken))]
    total.ratios, total.single_query_ratios = (
        np.concatenate([np.zeros(0), *parts]) for parts in (ratios, single_query)
    )
    total.protected = np.concatenate([[], *protected]).astype(bool)
    total.worst = _largest(_concatenate(worst)) if worst else {}
    total.mistaken = _most_mistaken(_concatenate(mistaken)) if mistaken else {}
    total.status = dict(sorted(total.status.items()))
    return total


def levels_of(table: Columns, levels: dict[str, LevelFindings] | None = None) -> dict[str, LevelFindings]:
    """Summary of a table of results by level, added to that of earlier tables.

    Parameters
    ----------
    table : results by column, (unit,) each, with `level`, `noisy`, `mean` and, optionally, `variance`, `bounded`
    levels : summaries by name of the level, changed in place; default empty

    Returns
    -------
    The summaries by name of the level, in the order in which levels appear.

    Raises
    ------
    ValueError : a column is missing
    """
    levels_so_far = {} if levels is None else levels
    names, count = column(table, "level"), column(table, "level").size
    noisy, mean = (column(table, name).astype(np.float64) for name in ("noisy", "mean"))
    variance = column(table, "variance").astype(np.float64) if "variance" in table else np.full(count, np.nan)
    bounded = column(table, "bounded").astype(bool) if "bounded" in table else np.zeros(count, dtype=bool)
    for name in dict.fromkeys(names.tolist()):
        here = names == name
        levels_so_far.setdefault(str(name), LevelFindings()).add(noisy[here], mean[here], variance[here], bounded[here])
    return levels_so_far


def cells_of(files: Iterable[Path]) -> list[int]:
    """Cells of the query in the files of a run, in the order of the files.

    Parameters
    ----------
    files : Parquet files of a run

    Returns
    -------
    Flat indices of the cells, each once.

    Raises
    ------
    OSError : a file cannot be read
    ImportError : pyarrow is not installed
    """
    pa = arrow()
    cells: dict[int, None] = {}
    for file in files:
        with pa.parquet.ParquetFile(file) as opened:
            cells.update(dict.fromkeys(cell for cell, _ in _groups(opened)))
    return list(cells)


def of_cell(files: Iterable[Path], cell: int, failure: float = DEFAULT_FAILURE) -> Findings:
    """`findings` of one cell from the files of a run, reading only the rows of that cell.

    Parameters
    ----------
    files : Parquet files of a run
    cell : flat index of the cell
    failure : failure probability of the guarantee, over releases, in [0, 1]

    Returns
    -------
    Findings

    Raises
    ------
    OSError, ValueError : a file cannot be read, or lacks columns of results
    ImportError : pyarrow is not installed
    """
    pa = arrow()

    def tables() -> Iterator[Columns]:
        for file in files:
            with pa.parquet.ParquetFile(file) as opened:
                if absent := [name for name in NEEDED if name not in opened.schema_arrow.names]:
                    raise ValueError(f"{file}: column {absent[0]} is absent: it is of another version, or of no run")
                here = [group for one, group in _groups(opened) if one == cell]
                table = opened.read_row_groups(here, columns=list(NEEDED))
            if table.num_rows:
                yield {name: table[name].to_numpy() for name in table.column_names}

    return findings(tables(), failure)


# Columns of `blocks.csv`.
IN_CSV = ("geocode", "name", "cell", "noisy", "variance", "mean", "sd", "hdi_lower", "hdi_upper", "p_zero", "known",
          "tail", "posterior", "ratio", "status", "path_rho", "one_query_mean", "one_query_posterior")  # fmt: skip


def write_blocks_csv(run: Any, path: Path) -> Path:
    """Write every block and cell of a run as one row of a CSV file, with GEOID and description of the cell.

    Parameters
    ----------
    run : `county_runs.Run`
    path : path of the file, which is replaced atomically

    Returns
    -------
    The path
    """
    pa = arrow()
    from pyarrow import csv

    labels = dict(zip(run.measurements.cells.tolist(), run.measurements.labels, strict=True))
    temporary = path.with_name(f".{path.name}.part")
    writer = None
    try:
        for file in run.pieces.values():
            with pa.parquet.ParquetFile(file) as opened:
                for _, group in _groups(opened):
                    table = opened.read_row_group(group, columns=[*IN_CSV])
                    table = table.filter(pa.compute.is_valid(table["path_rho"]))
                    words = pa.array([labels[cell] for cell in table["cell"].to_pylist()], pa.string())
                    table = table.rename_columns(["GEOID" if one == "name" else one for one in IN_CSV])
                    table = table.append_column("label", words)
                    writer = writer or csv.CSVWriter(temporary, table.schema)
                    writer.write_table(table)
        if writer is not None:
            writer.close()
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _groups(opened: Any) -> Iterator[tuple[int, int]]:
    """Yield (cell, row group number) of every row group of a file; a row group has one cell."""
    place = opened.schema_arrow.get_field_index("cell")
    for group in range(opened.num_row_groups):
        limits = opened.metadata.row_group(group).column(place).statistics
        yield int(limits.min), group


def _concatenate(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Tables with the same columns, joined by rows."""
    return {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}


def _largest(table: Columns) -> dict[str, Any]:
    """Rows of the proven blocks with the largest ratios; ties in the order of the table."""
    rows = worst_rows(table, WORST) if is_proven(table, "ratio").any() else []
    return {name: column(table, name)[rows] for name in WORST_COLUMNS if name in table}


def _most_mistaken(table: Columns) -> dict[str, Any]:
    """Rows of the blocks with a mistaken adversary, smallest tail probability first."""
    rows = np.flatnonzero(column(table, "status") == MISTAKEN) if "status" in table else np.zeros(0, dtype=np.int64)
    tail = column(table, "tail")[rows] if "tail" in table else np.zeros(rows.size)
    rows = rows[np.argsort(tail, kind="stable")][:WORST]
    return {name: column(table, name)[rows] for name in WORST_COLUMNS if name in table}
