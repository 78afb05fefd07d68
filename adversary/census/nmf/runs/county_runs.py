"""Posteriors of every unit of a Noisy Measurement File, in pieces: one per county, and the tree above the counties.

The file is read once. An upward pass computes each county's `upward_message`; the tree above is solved with all of
these; a downward pass solves each county with its `downward_message`. Both passes over counties are blocks of
`write_blocks` and may be interrupted; the tree above is small.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import (
    MANIFEST,
    NAME,
    Floats,
    arrays_of,
    check_whole,
    closest_name,
    dask_address,
    exclusive_lock,
    has_blocks,
    remove_empty,
    save_bytes,
    sweep,
    tell_watchers,
    write_blocks,
)
from adversary.census import spine
from adversary.census.nmf.file_layout import arrow, levels_of, open_product, product_of
from adversary.census.nmf.measurements import ARRAYS, Measurements
from adversary.census.nmf.runs.run_input import RunInput
from adversary.census.nmf.runs.unit_table import as_parquet, path_rho, unit_columns, with_leaves

# Folders and file that a run writes into its directory.
UNITS, MESSAGES, ABOVE = "units", "messages", "above.parquet"

# Share of mass that one trim of a county's message may drop: in the first attempt, and in further ones while the
# truncation bound is too large.
TAUS = (1e-34, 1e-80, 1e-280)

# Fields of a message that are stored beside its values.
MESSAGE_FIELDS = ("lowest", "tilt", "log_scale", "truncation_bound", "bounds")

# Smallest number of units times cells for which workers are started: about two seconds of work.
WORTHWHILE = 50_000

# Packages whose versions must agree for a run to be resumed.
VERSIONS = (NAME, "numpy", "numba", "pyarrow")

# Version of a run's files and of the computation; runs of another version are not resumed.
LAYOUT = 4


@dataclass(frozen=True, eq=False)
class Run:
    """Results of a run.

    out : directory of the run
    pieces : Parquet file of each piece, by geocode
    above : posterior of the tree above the pieces, or None
    unchanged : pieces that were complete before
    damaged : pieces whose file was not as recorded, and was written again
    measurements : those of the units above the pieces, and of their roots
    """

    out: Path
    pieces: dict[str, Path]
    above: spine.SpinePosterior | None
    unchanged: tuple[str, ...]
    damaged: tuple[str, ...]
    measurements: Measurements

    @property
    def files(self) -> list[Path]:
        """Parquet files of the run, from the top down."""
        return [self.out / ABOVE] * (self.above is not None) + [self.pieces[name] for name in sorted(self.pieces)]


def run(
    run_input: RunInput,
    out: Path | str,
    *,
    resume: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Run:
    """Compute the posterior of every unit and write it to `out`, with the columns `unit_table.COLUMNS`.

    `units/County=<geocode>/part.parquet` has the units of a county, a row group for every cell; `above.parquet` has the
    units above the counties. Numbers do not depend on workers or interruptions.

    Parameters
    ----------
    run_input : file, query, beliefs, and tolerances
    out : directory of the results
    resume : continue an earlier run in `out` with the same inputs, parameters and versions
    scheduler, workers, progress : as for `write_blocks`; small work runs in this process, whatever `workers`

    Returns
    -------
    Run

    Raises
    ------
    ValueError, OSError : the file cannot be read, see `nmf.read`; `out` has results, or lies inside the file's folder
    """
    arrow()
    path, target = open_product(run_input.directory, run_input.product), Path(out)
    levels = levels_of(path, product_of(path)[0])
    levels = levels[:-1] or levels
    # an extract without counties is one piece
    if run_input.level not in levels and run_input.level != RunInput.level:
        rule = f"level must be one of {', '.join(levels)}, got {run_input.level!r}"
        raise ValueError(f"{path}: {rule}{closest_name(run_input.level, levels)}")
    if target.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{target}: results must not lie inside of {path}, which they are made from")
    if not resume and any(has_blocks(one.parent) for one in target.glob(f"*/**/{MANIFEST}")):
        raise ValueError(f"{target} has results already: resume them, or choose another directory")
    measurements = run_input.read(progress=progress)
    others = run_input.others(measurements.tree)
    level_of_unit = np.array(measurements.tree.levels)[measurements.tree.level]
    if scheduler is None and (
        level_of_unit.size * measurements.cells.size < WORTHWHILE or np.sum(level_of_unit == run_input.level) < 2
    ):
        if check_whole("workers", 1 if workers is None else workers, minimum=1) > 1:
            tell_watchers(f"{workers} workers are not used: to start them would take longer than the work")
        workers = None
    created = [one for one in (target, *target.parents) if not one.exists()]
    existing = {one.name for one in target.glob("*")}
    try:
        with dask_address(scheduler, workers) as address:
            target.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(target):
                sweep([target, *(one for one in target.rglob("*") if one.is_dir())])
                return _run_pieces(
                    run_input, measurements, others, target, resume=resume, scheduler=address, progress=progress
                )
    except (
        ValueError,
        TypeError,
        ArithmeticError,
    ):  # invalid input: a resumed run would fail again, so its files are removed
        for name in {UNITS, MESSAGES} - existing:
            shutil.rmtree(target / name, ignore_errors=True)
        if ABOVE not in existing:
            (target / ABOVE).unlink(missing_ok=True)
        remove_empty(created)
        raise


def _run_pieces(
    run_input: RunInput, measurements: Measurements, others: Floats | None, target: Path, **how: Any
) -> Run:
    """Both passes over the pieces; `how` has the options of `write_blocks`."""
    tree = measurements.tree
    split = tree.levels.index(run_input.level) if run_input.level in tree.levels[:-1] else 0
    roots = np.flatnonzero(tree.level == split)
    inputs = _digest(measurements, others)

    def write_stage(function: Any, items: Any, stage: str, **more: Any) -> Any:
        work = {"layout": LAYOUT, "parameters": run_input.parameters | {"stage": stage}, "inputs": inputs}
        return write_blocks(function, items, target / stage, work=work, versions=VERSIONS, **how, **more)

    pieces = {str(tree.names[node]): _piece(measurements, others, str(tree.names[node])) for node in roots}
    above: spine.SpinePosterior | None = None
    damaged: list[str] = []
    top_measurements = measurements.part(np.arange(roots[-1] + 1), tree.above(split))
    if split > 0:
        for tau in TAUS:
            upward = write_stage(
                partial(upward_piece, run_input, tau), pieces, f"{MESSAGES}/{tau:g}",
                description=f"{run_input.level}: up",
            )  # fmt: skip
            above, outer_message = _solve_above(run_input, top_measurements, upward.files)
            damaged += upward.damaged
            if np.max(above.truncation_bound) <= run_input.tolerance:
                break
        pieces = {name: replace(piece, **outer_message(name)) for name, piece in pieces.items()}
        save_bytes(target / ABOVE, outer_message(None))
    solved = write_stage(
        partial(solve_piece, run_input), pieces, UNITS, encode=as_parquet,
        file=f"{tree.levels[split]}={{}}/part.parquet", description=f"{tree.levels[split]}: down",
    )  # fmt: skip
    return Run(target, solved.files, above, solved.unchanged, (*damaged, *solved.damaged), top_measurements)


def _digest(measurements: Measurements, others: Floats | None) -> str:
    """SHA-256 of all inputs that were read."""
    digest = hashlib.sha256(json.dumps([measurements.query, measurements.shape, measurements.tree.levels]).encode())
    readings = [measurements] if measurements.single_query is None else [measurements, measurements.single_query]
    arrays = [getattr(reading, name) for reading in readings for name in ARRAYS]
    for one in (measurements.tree.names, *arrays, measurements.cells, np.zeros(0) if others is None else others):
        digest.update(np.ascontiguousarray(one).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Piece:
    """Piece of a run, usually a county.

    measurements : its units
    known : (leaf,) known numbers of other people, or None
    outside : downward messages, one per cell
    path : (2, cell) `path_rho` of the unit above it
    """

    measurements: Measurements
    known: Floats | None
    outside: tuple[spine.Message, ...] | None = None
    path: Floats | None = None


def _piece(measurements: Measurements, others: Floats | None, name: str) -> Piece:
    """Piece below one unit: its measurements, with levels numbered from it, and known counts."""
    nodes, tree = measurements.tree.below(name), measurements.tree.subtree(name)
    leaves = nodes[tree.leaves]
    known = None if others is None else others[np.searchsorted(measurements.tree.leaves, leaves)]
    start = measurements.tree.level[nodes[0]]
    tree = replace(tree, level=tree.level - start, levels=tree.levels[start:])
    return Piece(replace(measurements.part(nodes, tree), exact=(), notes=()), known)


def upward_piece(run_input: RunInput, tau: float, piece: Piece) -> dict[str, Any]:
    """Upward messages of a piece, one per cell, as arrays by name."""
    released, rho, bounds = _columns(piece.measurements)
    messages = spine.upward_message(
        piece.measurements.tree, released, rho, run_input.leaf_prior, bounds=bounds, tau=tau, whole=False
    )
    arrays = {name: np.array([getattr(message, name) for message in messages]) for name in MESSAGE_FIELDS}
    return arrays | {f"values_{i}": message.values for i, message in enumerate(messages)}


def solve_piece(run_input: RunInput, piece: Piece) -> dict[str, Any]:
    """Results of a piece: the columns `unit_table.COLUMNS`."""
    measurements = piece.measurements
    released, rho, bounds = _columns(measurements)
    posterior = spine.posterior(
        measurements.tree, released, rho, run_input.leaf_prior, bounds=bounds, outside=piece.outside,
        tolerance=run_input.tolerance, whole=False,
    )  # fmt: skip
    known = None if piece.known is None else np.repeat(piece.known[:, None], rho.shape[1], axis=1)
    members = posterior.membership(run_input.prior, known)
    columns = unit_columns(posterior, measurements, run_input.prob)
    return with_leaves(columns, measurements.tree, members, path_rho(measurements, piece.path), run_input.mistaken)


def _columns(measurements: Measurements) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """(unit, cell) released, rho and (low, high): cells from all that was read, then from the single query, if any."""
    readings = [measurements] if measurements.single_query is None else [measurements, measurements.single_query]
    released, rho, low, high = (
        np.concatenate([getattr(one, name).reshape(len(measurements.tree), -1) for one in readings], axis=1)
        for name in ("released", "rho", "low", "high")
    )
    return released, rho, (low, high)


def _messages(path: Path) -> tuple[spine.Message, ...]:
    """Upward messages, one per cell, from the file written by `upward_piece`."""
    arrays = arrays_of(path)
    every = zip(*(arrays[name].tolist() for name in MESSAGE_FIELDS), strict=True)
    return tuple(
        spine.Message(lowest, arrays[f"values_{i}"], tilt, scale, truncation, tuple(bounds))
        for i, (lowest, tilt, scale, truncation, bounds) in enumerate(every)
    )


def _solve_above(
    run_input: RunInput, measurements: Measurements, files: Mapping[str, Path]
) -> tuple[spine.SpinePosterior, Callable[[str | None], Any]]:
    """Posterior of the tree above the pieces, whose roots are its leaves, and a function of a piece's name.

    The function returns the downward messages and `path_rho` for a piece; for None, the results of the tree as Parquet.
    """
    released, rho, bounds = _columns(measurements)
    messages = {name: _messages(file) for name, file in files.items()}
    posterior = spine.posterior(
        measurements.tree, released, rho, run_input.leaf_prior, bounds=bounds, messages=messages,
        tolerance=run_input.tolerance, whole=False,
    )  # fmt: skip
    total, exact = path_rho(measurements)
    certain = run_input.known is not None or run_input.leaf_prior.distributions(1).pmf is not None

    def outer_message(name: str | None) -> Any:
        if name is None:
            above_pieces = np.tile(measurements.tree.children > 0, total.shape[1])
            columns = unit_columns(posterior, measurements, run_input.prob)
            return as_parquet({key: values[above_pieces] for key, values in columns.items()})
        parent = int(measurements.tree.parent[measurements.tree.index(name)])
        return {
            "outside": posterior.downward_message(name, known=certain),
            "path": np.array([total[parent], exact[parent]]),
        }

    return posterior, outer_message
