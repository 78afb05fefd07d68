"""What a run over a whole spine found, taken together file by file: nothing of it grows with the units but the ratios.

The summary and the page both speak from one `Findings`, so that they cannot disagree. A nation's is its blocks' ratios,
eight bytes each; of everything else only sums, extremes, the worst blocks and a sample of points are kept.
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

# Blocks with the largest ratios that are kept.
WORST = 20

# Units of a level that are kept as points, at most; every second is left out until so few are left.
POINTS = 20_000
KEPT = ("geocode", "name", "status", "noisy", "mean", "sd", "hdi_lower", "hdi_upper", "posterior", "ratio",
        "known", "tail", "one_query_posterior", "one_query_ratio")  # fmt: skip
"""Columns of the worst blocks."""

# Columns that are read.
NEEDED = (*KEPT, "one_query_status", "level", "variance", "bounded", "path_rho", "path_exact", "truncation_bound")


@dataclass
class LevelFindings:
    """Units of a level: how many, measured, exact or bounded, least and largest variance; noisy counts and means.

    `moved` sums (noisy - exact)^2 over the `replaced` noisy counts of exact units, `squares` sums (noisy - mean)^2 over
    measured units, `below` counts noisy counts below zero; `points` is a sample, (noisy, mean), of all measured units
    where there are few.
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
        """Take in some more units; NaN where there is no measurement."""
        here = np.isfinite(noisy) & ~(variance == 0.0)
        fixed = np.isfinite(noisy) & (variance == 0.0)
        self.bounded += int(np.sum(bounded))
        self.replaced += int(fixed.sum())
        self.moved += float(((noisy - mean)[fixed] ** 2).sum())
        self.units += noisy.size
        self.exact += int((variance == 0.0).sum())
        self.measured += int(here.sum())
        spread = variance[np.isfinite(variance) & (variance > 0.0)]
        if spread.size:
            self.variance = min(self.variance[0], float(spread.min())), max(self.variance[1], float(spread.max()))
        self.squares += float(np.nansum((noisy - mean)[here] ** 2))
        self.below += int((noisy[here] < 0.0).sum())
        self.points = np.concatenate([self.points, np.stack([noisy[here], mean[here]])], axis=1)
        while self.points.shape[1] > POINTS:
            self.points = self.points[:, ::2]


@dataclass
class Findings:
    """One cell of a spine.

    Parameters
    ----------
    ratios : (block,) posterior over prior, of all blocks with an answer that is proven
    alone : (block,) the same under one query, where all of them were read; NaN where not proven
    protected : (block,) whether noise protects it: neither its count nor what the reader asks is settled exactly
    status, status_alone : blocks by status; the same under one query, where all of them were read
    levels : by name, from the top down
    worst : the blocks with the largest ratios by column, the largest first
    promised : the weakest guarantee of the protected blocks
    leaves, truncation_bound : number of blocks, and the largest bound on what was left out (None if it was not kept)
    mistaken : the blocks whose readers the release contradicts most, by column; they are in none of the others
    """

    promised: PathGuarantee
    ratios: Floats = field(default_factory=lambda: np.zeros(0))
    alone: Floats = field(default_factory=lambda: np.zeros(0))
    protected: Any = field(default_factory=lambda: np.zeros(0, dtype=bool))
    status: dict[str, int] = field(default_factory=dict)
    status_alone: dict[str, int] = field(default_factory=dict)
    levels: dict[str, LevelFindings] = field(default_factory=dict)
    worst: dict[str, Any] = field(default_factory=dict)
    leaves: int = 0
    truncation_bound: float | None = None
    mistaken: dict[str, Any] = field(default_factory=dict)

    @property
    def unprotected(self) -> int:
        """Proven blocks that no noise protects."""
        return int((~self.protected).sum())

    def at_least(self, ratio: float) -> float:
        """Share of all proven blocks with this ratio or a larger one."""
        return float((self.ratios >= ratio).mean()) if self.ratios.size else 0.0

    def beyond(self, prior: float) -> tuple[float, float]:
        """Shares of the protected blocks below and above what is promised."""
        ratios, (low, high) = self.ratios[self.protected], self.promised.ratio(prior)
        return (float((ratios < low).mean()), float((ratios > high).mean())) if ratios.size else (0.0, 0.0)


def findings(tables: Iterable[Columns], failure: float = DEFAULT_FAILURE) -> Findings:
    """Everything of one cell, from its results by column, one part of the spine after the other.

    Parameters
    ----------
    tables : with the columns `NEEDED`, `sd` and `truncation_bound` where there are any
    failure : with which the guarantee may fail
    """
    merged = Findings(PathGuarantee(np.inf, 1, failure))
    ratios, alone, protected, worst, wrong = [], [], [], [], []
    for table in tables:
        promised = path_guarantee(table, failure)
        if np.isfinite(promised.rho) and (np.isinf(merged.promised.rho) or promised.total > merged.promised.total):
            merged.promised = promised
        ratios.append(blocks(table, "ratio"))
        proven = is_proven(table, "ratio")
        one = column(table, "one_query_ratio") if "one_query_ratio" in table else np.full(proven.size, np.nan)
        alone.append(one.astype(np.float64)[proven])
        protected.append(~is_unprotected(table)[proven])
        for name, count in statuses(table).items():
            merged.status[name] = merged.status.get(name, 0) + count
            merged.leaves += count
        for name, count in statuses(table, "one_query_status").items() if "one_query_status" in table else ():
            merged.status_alone[name] = merged.status_alone.get(name, 0) + count
        levels_of(table, merged.levels)
        worst.append(_largest(table))
        wrong.append(_most_mistaken(table))
        if "truncation_bound" in table and column(table, "truncation_bound").size:
            largest = float(np.nanmax(column(table, "truncation_bound").astype(np.float64)))
            merged.truncation_bound = (
                largest if merged.truncation_bound is None else max(merged.truncation_bound, largest)
            )
        if len(worst) > 50:
            worst, wrong = [_largest(_concat_tables(worst))], [_most_mistaken(_concat_tables(wrong))]
    merged.ratios, merged.alone = (np.concatenate([np.zeros(0), *parts]) for parts in (ratios, alone))
    merged.protected = np.concatenate([[], *protected]).astype(bool)
    merged.worst = _largest(_concat_tables(worst)) if worst else {}
    merged.mistaken = _most_mistaken(_concat_tables(wrong)) if wrong else {}
    merged.status = dict(sorted(merged.status.items()))
    return merged


def levels_of(table: Columns, levels: dict[str, LevelFindings] | None = None) -> dict[str, LevelFindings]:
    """Summary of a table of results level by level, added to that of earlier tables.

    Parameters
    ----------
    table : results by column, (unit,) each, with `level`, `noisy`, `mean` and, where there is one, `variance`
    levels : summaries by name of the level, changed in place; none yet where left out

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
    """Cells of the query that the files of a run hold, in the order in which they were asked for.

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
    """`findings` of one cell from the files of a run; of each file only the rows of the cell are read.

    Parameters
    ----------
    files : Parquet files of a run
    cell : flat index of the cell
    failure : probability in [0, 1] that the bound on blocks may fail

    Returns
    -------
    Findings

    Raises
    ------
    OSError, ValueError : a file cannot be read, or has not the columns of results
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
    """Every block and cell of a run as one CSV file: a row each, with its GEOID, and the cell in words.

    Parameters
    ----------
    run : of `county_runs.run`
    path : of the file, which is replaced whole

    Returns
    -------
    The path
    """
    pa = arrow()
    from pyarrow import csv

    labels = dict(zip(run.read.cells.tolist(), run.read.labels, strict=True))
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
    """(cell, row group) of every row group of a file; a row group has one cell."""
    place = opened.schema_arrow.get_field_index("cell")
    for group in range(opened.num_row_groups):
        limits = opened.metadata.row_group(group).column(place).statistics
        yield int(limits.min), group


def _concat_tables(tables: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}


def _largest(table: Columns) -> dict[str, Any]:
    """Rows of the proven blocks with the largest ratios; ties in the order of the table."""
    rows = worst_rows(table, WORST) if is_proven(table, "ratio").any() else []
    return {name: column(table, name)[rows] for name in KEPT if name in table}


def _most_mistaken(table: Columns) -> dict[str, Any]:
    """Rows of the blocks whose readers are mistaken, those whom the release contradicts most first."""
    rows = np.flatnonzero(column(table, "status") == MISTAKEN) if "status" in table else np.zeros(0, dtype=np.int64)
    tail = column(table, "tail")[rows] if "tail" in table else np.zeros(rows.size)
    rows = rows[np.argsort(tail, kind="stable")][:WORST]
    return {name: column(table, name)[rows] for name in KEPT if name in table}
