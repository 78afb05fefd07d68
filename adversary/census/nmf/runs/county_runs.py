"""Every unit of a Noisy Measurement File at once, county by county: up, across the top, and down again.

The file is read once. Each county's tree says what it knows about the county's count (`upward_message`), the tree above
reads all of these together, and each county is then solved with what everything outside of it says. Both passes over
counties are blocks of `write_blocks` and may be interrupted; the tree above is small.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import (
    MANIFEST,
    NAME,
    Floats,
    arrays_of,
    check_probability,
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
from adversary.census.nmf.measurements import ARRAYS, Measurements, read
from adversary.census.nmf.runs.unit_table import as_parquet, path_rho, unit_columns, with_leaves
from adversary.census.nmf.units import geoid
from adversary.census.spine import Flat, LeafPrior, NegativeBinomial, Poisson, SharedRate

KINDS: dict[str, tuple[Callable[..., LeafPrior], int]] = {  # with the number of parameters
    "shared-rate": (SharedRate, 0),
    "flat": (Flat, 0),
    "poisson": (Poisson, 1),
    "negative-binomial": (NegativeBinomial, 2),
}
FORMS = "shared-rate, flat, poisson=MEAN or negative-binomial=SHAPE,MEAN"


def leaf_prior(text: str) -> LeafPrior:
    """The prior of the leaves' counts from its text form.

    Parameters
    ----------
    text : "shared-rate", "flat", "poisson=MEAN" or "negative-binomial=SHAPE,MEAN", MEAN in people per leaf

    Raises
    ------
    ValueError : another form, or parameters out of range

    >>> leaf_prior("poisson=0.7").mean.tolist()
    0.7
    """
    kind, sign, rest = text.strip().partition("=")
    rule = f"the prior of leaves must be {FORMS}, got {text!r}"
    make, count = KINDS.get(kind, (Flat, -1))
    try:
        values = [float(part) for part in rest.split(",")] if sign else []
    except ValueError:
        raise ValueError(rule) from None
    if len(values) != count:
        raise ValueError(rule)
    return make(*values)


def description(prior: LeafPrior) -> dict[str, Any]:
    """Kind and parameters of a prior of the leaves, ready for JSON.

    Parameters
    ----------
    prior : prior of the leaves' counts

    Returns
    -------
    {"kind": name of its class, parameter: number, list, text or None}.

    >>> description(Poisson(0.7))
    {'kind': 'Poisson', 'mean': 0.7}
    """
    values = {f.name: getattr(prior, f.name) for f in fields(prior) if f.name != "law"}  # type: ignore[arg-type]
    plain = {name: x if isinstance(x, str | None) else np.asarray(x).tolist() for name, x in values.items()}
    return {"kind": type(prior).__name__, **plain}


# What a run writes into its directory.
UNITS, MESSAGES, ABOVE = "units", "messages", "above.parquet"
# Share of mass that one trim of a county's message may drop: at first, and where the ledger is then too large.
TAUS = (1e-34, 1e-80, 1e-280)
# Numbers of a message, beside its values.
MESSAGE = ("lowest", "tilt", "log_scale", "truncation_bound", "bounds")
# Units times cells from which on workers are started, for more than one piece: two seconds of work, at least.
WORTHWHILE = 50_000
VERSIONS = (NAME, "numpy", "numba", "pyarrow")
# Of the files of a run, and of how their numbers are worked out: those of another are not gone on with.
LAYOUT = 4


@dataclass(frozen=True)
class RunInput:
    """What is asked of a file.

    Parameters
    ----------
    directory, query, cells, product, root, state, county, totals, queries : as `nmf.read` takes them
    leaf_prior : of the leaves' counts
    prior : of the reader of every leaf
    known : None: that reader does not know the others; how many others there are in every leaf; or a CSV file with
        columns geocode (or GEOID of a block) and known, in which blocks may be left out
    mistaken : posterior probability of what a reader knows below which that is taken to be wrong
    prob : mass of the highest posterior density sets
    tolerance : of the mass dropped
    level : whose units are chunks
    """

    directory: str
    query: str
    cells: Any = None
    leaf_prior: LeafPrior = field(default_factory=SharedRate)
    prior: float = 0.1
    known: int | str | Path | None = None
    mistaken: float = 1e-3
    prob: float = 0.9
    tolerance: float = 1e-10
    level: str = "County"
    product: str | None = None
    root: str | None = None
    state: str | None = None
    county: str | None = None
    totals: str | None = None
    queries: str = "one"

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)
        check_probability("mistaken", self.mistaken)
        if isinstance(self.known, int):
            check_whole("known", self.known, minimum=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the directory, as JSON can hold it."""
        cells = self.cells.tolist() if isinstance(self.cells, np.ndarray) else self.cells
        known = str(self.known) if isinstance(self.known, Path) else self.known
        settings = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("directory", "totals")
        }
        return settings | {"cells": cells, "known": known, "leaf_prior": description(self.leaf_prior)}

    def read(self, *, progress: bool = False) -> Measurements:
        """Measurements of what the question is about, from the file."""
        names = ("product", "root", "state", "county", "totals", "queries")
        where = {name: getattr(self, name) for name in names}
        return read(self.directory, self.query, self.cells, progress=progress, **where)

    def others(self, tree: spine.Tree) -> Floats | None:
        """(leaf,) how many others the reader knows to be there, NaN where not known; None: nowhere."""
        if self.known is None:
            return None
        if isinstance(self.known, int):
            return np.full(tree.leaves.size, float(self.known))
        counts: dict[str, float] = {}
        with Path(self.known).open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                try:
                    counts[row["geocode"].strip()] = float(check_whole("known", float(row["known"]), minimum=0))
                except (KeyError, AttributeError, TypeError, ValueError):
                    rule = f"must have columns geocode and known, a whole number of people, got {dict(row)}"
                    raise ValueError(f"{self.known}: row {number} {rule}") from None
        codes = tree.names[tree.leaves].tolist()
        known_counts = np.array([counts.get(code, counts.get(geoid(code), np.nan)) for code in codes])
        lost = set(counts) - set(codes) - {geoid(code) for code in codes}
        if len(lost) == len(counts):
            raise ValueError(
                f"{self.known}: none of its {len(counts)} geocodes is a block of the file, such as {codes[0]}"
            )
        return known_counts


@dataclass(frozen=True, eq=False)
class Run:
    """What a run made: its directory, a file for each piece, and the posterior of the tree above, if there is one.

    `kept` are the pieces that were there already, `damaged` those whose file was not as recorded, and was made anew;
    `read` is what was read, its units those above the pieces.
    """

    out: Path
    pieces: dict[str, Path]
    above: spine.SpinePosterior | None
    unchanged: tuple[str, ...]
    damaged: tuple[str, ...]
    read: Measurements

    @property
    def files(self) -> list[Path]:
        """Its Parquet files, from the top down."""
        return [self.out / ABOVE] * (self.above is not None) + [self.pieces[name] for name in sorted(self.pieces)]


def run(
    question: RunInput,
    out: Path | str,
    *,
    resume: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Run:
    """The posterior of every unit, written to `out`: see `unit_table.COLUMNS`.

    `units/County=<geocode>/part.parquet` has a county with all that lies in it, a row group for every cell,
    `above.parquet` what lies above the counties. Numbers do not depend on workers or interruptions.

    Parameters
    ----------
    resume : go on where an earlier run in `out` stopped, of the same inputs, parameters and versions
    scheduler, workers, progress : as `write_blocks` takes them; small work is done in this process, whatever `workers`

    Raises
    ------
    ValueError, OSError : the file cannot be read, see `nmf.read`; `out` holds results, or lies inside of the file
    """
    arrow()
    path, target = open_product(question.directory, question.product), Path(out)
    levels = levels_of(path, product_of(path)[0])
    levels = levels[:-1] or levels
    # an extract without counties is one piece
    if question.level not in levels and question.level != RunInput.level:
        rule = f"level must be one of {', '.join(levels)}, got {question.level!r}"
        raise ValueError(f"{path}: {rule}{closest_name(question.level, levels)}")
    if target.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{target}: results must not lie inside of {path}, which they are made from")
    if not resume and any(has_blocks(one.parent) for one in target.glob(f"*/**/{MANIFEST}")):
        raise ValueError(f"{target} has results already: resume them, or choose another directory")
    measurements = question.read(progress=progress)
    others = question.others(measurements.tree)
    of = np.array(measurements.tree.levels)[measurements.tree.level]
    if scheduler is None and (of.size * measurements.cells.size < WORTHWHILE or np.sum(of == question.level) < 2):
        if check_whole("workers", 1 if workers is None else workers, minimum=1) > 1:
            tell_watchers(f"{workers} workers are not used: to start them would take longer than the work")
        workers = None
    made = [one for one in (target, *target.parents) if not one.exists()]
    there = {one.name for one in target.glob("*")}
    try:
        with dask_address(scheduler, workers) as address:
            target.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(target):
                sweep([target, *(one for one in target.rglob("*") if one.is_dir())])
                return _run_pieces(
                    question, measurements, others, target, resume=resume, scheduler=address, progress=progress
                )
    except (ValueError, TypeError, ArithmeticError):  # refused: whoever resumes it would meet the same
        for name in {UNITS, MESSAGES} - there:
            shutil.rmtree(target / name, ignore_errors=True)
        if ABOVE not in there:
            (target / ABOVE).unlink(missing_ok=True)
        remove_empty(made)
        raise


def _run_pieces(question: RunInput, measurements: Measurements, others: Floats | None, target: Path, **how: Any) -> Run:
    """The run on the workers of a scheduler, or in this process without one."""
    tree = measurements.tree
    split = tree.levels.index(question.level) if question.level in tree.levels[:-1] else 0
    roots = np.flatnonzero(tree.level == split)
    inputs = _digest(measurements, others)

    def go(function: Any, items: Any, stage: str, **more: Any) -> Any:
        work = {"layout": LAYOUT, "parameters": question.parameters | {"stage": stage}, "inputs": inputs}
        return write_blocks(function, items, target / stage, work=work, versions=VERSIONS, **how, **more)

    inside = {str(tree.names[node]): _piece(measurements, others, str(tree.names[node])) for node in roots}
    above: spine.SpinePosterior | None = None
    damaged: list[str] = []
    upper = measurements.part(np.arange(roots[-1] + 1), tree.above(split))
    if split > 0:
        for tau in TAUS:
            raised = go(
                partial(rise_piece, question, tau), inside, f"{MESSAGES}/{tau:g}",
                description=f"{question.level}: up",
            )  # fmt: skip
            above, outer_message = _across(question, upper, raised.files)
            damaged += raised.damaged
            if np.max(above.truncation_bound) <= question.tolerance:
                break
        inside = {name: replace(piece, **outer_message(name)) for name, piece in inside.items()}
        save_bytes(target / ABOVE, outer_message(None))
    made = go(
        partial(solve_piece, question), inside, UNITS, encode=as_parquet,
        file=f"{tree.levels[split]}={{}}/part.parquet", description=f"{tree.levels[split]}: down",
    )  # fmt: skip
    return Run(target, made.files, above, made.unchanged, (*damaged, *made.damaged), upper)


def _digest(measurements: Measurements, others: Floats | None) -> str:
    """Of all that was read."""
    digest = hashlib.sha256(json.dumps([measurements.query, measurements.shape, measurements.tree.levels]).encode())
    readings = [measurements] if measurements.alone is None else [measurements, measurements.alone]
    arrays = [getattr(reading, name) for reading in readings for name in ARRAYS]
    for one in (measurements.tree.names, *arrays, measurements.cells, np.zeros(0) if others is None else others):
        digest.update(np.ascontiguousarray(one).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Piece:
    """A county: its measurements, how many others readers know to be in its leaves, what all other counties say about
    its count, and (2, cell) `path_rho` above it.
    """

    read: Measurements
    known: Floats | None
    outside: tuple[spine.Message, ...] | None = None
    path: Floats | None = None


def _piece(measurements: Measurements, others: Floats | None, name: str) -> Piece:
    nodes, tree = measurements.tree.below(name), measurements.tree.subtree(name)
    leaves = nodes[tree.leaves]
    known = None if others is None else others[np.searchsorted(measurements.tree.leaves, leaves)]
    start = measurements.tree.level[nodes[0]]
    tree = replace(tree, level=tree.level - start, levels=tree.levels[start:])
    return Piece(replace(measurements.part(nodes, tree), exact=(), notes=()), known)


def rise_piece(question: RunInput, tau: float, piece: Piece) -> dict[str, Any]:
    """Messages of a county about its own count, of all cells, as arrays."""
    released, rho, bounds = _columns(piece.read)
    messages = spine.upward_message(
        piece.read.tree, released, rho, question.leaf_prior, bounds=bounds, tau=tau, whole=False
    )
    arrays = {name: np.array([getattr(message, name) for message in messages]) for name in MESSAGE}
    return arrays | {f"values_{i}": message.values for i, message in enumerate(messages)}


def solve_piece(question: RunInput, piece: Piece) -> dict[str, Any]:
    """`unit_table.COLUMNS` of a county and of everything in it."""
    read = piece.read
    released, rho, bounds = _columns(read)
    posterior = spine.posterior(
        read.tree, released, rho, question.leaf_prior, bounds=bounds, outside=piece.outside,
        tolerance=question.tolerance, whole=False,
    )  # fmt: skip
    known = None if piece.known is None else np.repeat(piece.known[:, None], rho.shape[1], axis=1)
    members = posterior.membership(question.prior, known)
    columns = unit_columns(posterior, read, question.prob)
    return with_leaves(columns, read.tree, members, path_rho(read, piece.path), question.mistaken)


def _columns(read: Measurements) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """(unit, cell) released, rho and bounds; after the cells under all queries the same under the one."""
    readings = [read] if read.alone is None else [read, read.alone]
    released, rho, low, high = (
        np.concatenate([getattr(one, name).reshape(len(read.tree), -1) for one in readings], axis=1)
        for name in ("released", "rho", "low", "high")
    )
    return released, rho, (low, high)


def _messages(path: Path) -> tuple[spine.Message, ...]:
    """The inverse of what `rise_piece` gives, from its file."""
    arrays = arrays_of(path)
    every = zip(*(arrays[name].tolist() for name in MESSAGE), strict=True)
    return tuple(
        spine.Message(lowest, arrays[f"values_{i}"], tilt, scale, truncation, tuple(bounds))
        for i, (lowest, tilt, scale, truncation, bounds) in enumerate(every)
    )


def _across(
    question: RunInput, read: Measurements, files: Mapping[str, Path]
) -> tuple[spine.SpinePosterior, Callable[[str | None], Any]]:
    """The posterior of the tree above, counties its leaves; and what it tells a county, or None: its own rows."""
    released, rho, bounds = _columns(read)
    messages = {name: _messages(file) for name, file in files.items()}
    posterior = spine.posterior(
        read.tree, released, rho, question.leaf_prior, bounds=bounds, messages=messages,
        tolerance=question.tolerance, whole=False,
    )  # fmt: skip
    total, exact = path_rho(read)
    certain = question.known is not None or question.leaf_prior.distributions(1).pmf is not None

    def outer_message(name: str | None) -> Any:
        if name is None:
            upper = np.tile(read.tree.children > 0, total.shape[1])
            columns = unit_columns(posterior, read, question.prob)
            return as_parquet({key: values[upper] for key, values in columns.items()})
        over = int(read.tree.parent[read.tree.index(name)])
        return {
            "outside": posterior.downward_message(name, known=certain),
            "path": np.array([total[over], exact[over]]),
        }

    return posterior, outer_message
