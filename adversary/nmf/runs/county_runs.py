"""Every unit of a Noisy Measurement File at once, county by county: up, across the top, and down again.

Each county's tree says what it knows about the county's count (`rise`), the tree above reads all of these together, and
each county is then solved with what everything outside of it says. Both passes over counties are chunks of `run_chunks`
and may be interrupted; the tree above is small.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary import nmf
from adversary._core import (
    MANIFEST,
    NAME,
    Floats,
    alone,
    arrays_of,
    check_probability,
    check_whole,
    dask_address,
    digest_of_files,
    has_chunks,
    remove_empty,
    run_chunks,
    save_bytes,
)
from adversary.nmf.check import refuse_problems
from adversary.nmf.file_layout import Shape, arrow, levels_of, made_up, meant, opened
from adversary.nmf.runs.unit_table import NOTES, as_parquet, path_rho, unit_columns, with_leaves
from adversary.reader import spine
from adversary.reader.spine import Flat, LeafPrior, NegativeBinomial, Poisson, SharedRate

KINDS: dict[str, tuple[Callable[..., LeafPrior], int]] = {
    "shared-rate": (SharedRate, 0),
    "flat": (Flat, 0),
    "poisson": (Poisson, 1),
    "negative-binomial": (NegativeBinomial, 2),
}
"""Each with its number of parameters."""
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
    told = f"the prior of leaves must be {FORMS}, got {text!r}"
    if kind not in KINDS:
        raise ValueError(told)
    make, count = KINDS[kind]
    try:
        values = [float(part) for part in rest.split(",")] if sign else []
    except ValueError:
        raise ValueError(told) from None
    if len(values) != count:
        raise ValueError(told)
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
    found = {f.name: getattr(prior, f.name) for f in fields(prior) if f.name != "law"}  # type: ignore[arg-type]
    plain = {
        name: value if isinstance(value, str | None) else np.asarray(value).tolist() for name, value in found.items()
    }
    return {"kind": type(prior).__name__, **plain}


UNITS, MESSAGES, ABOVE = "units", "messages", "above.parquet"
"""What a run writes into its directory."""
TEMPORARY = f".*.{'[0-9a-f]' * 32}"
"""What `save_bytes` writes before it is renamed."""
TAUS = (1e-34, 1e-80, 1e-280)
"""Share of mass that one trim of a county's message may drop: at first, and where the ledger is then too large."""
VERSIONS = (NAME, "numpy", "numba", "pyarrow")


@dataclass(frozen=True)
class Question:
    """What is asked of a file.

    Parameters
    ----------
    directory, query, cells : as `nmf.read` takes them
    leaf_prior : of the leaves' counts
    prior, known : of the reader of every leaf, who knows that so many others are in it, as `membership` takes them
    prob : mass of the highest posterior density sets
    tolerance : of the mass dropped
    level : whose units are chunks
    """

    directory: str
    query: str
    cells: Any = None
    leaf_prior: LeafPrior = field(default_factory=SharedRate)
    prior: float = 0.1
    known: int = 0
    prob: float = 0.9
    tolerance: float = 1e-10
    level: str = "County"

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)
        check_whole("known", self.known, minimum=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the directory, as JSON can hold it."""
        cells = self.cells.tolist() if isinstance(self.cells, np.ndarray) else self.cells
        names = ("query", "prior", "known", "prob", "tolerance", "level")
        told = {name: getattr(self, name) for name in names}
        return told | {"cells": cells, "leaf_prior": description(self.leaf_prior)}


@dataclass(frozen=True, eq=False)
class Run:
    """What a run made: its directory, a file for each piece, and the posterior of the tree above, if there is one.

    `kept` are the pieces that were there already, `damaged` those whose file was not as recorded, and was made anew.
    `shape` is that of the query, and `synthetic` whether the file says that nobody in it exists.
    """

    out: Path
    pieces: dict[str, Path]
    above: spine.SpinePosterior | None
    kept: tuple[str, ...]
    damaged: tuple[str, ...]
    shape: Shape = ()
    synthetic: bool = False

    @property
    def files(self) -> list[Path]:
        """Its Parquet files, from the top down."""
        return [self.out / ABOVE] * (self.above is not None) + [self.pieces[name] for name in sorted(self.pieces)]


def run(
    question: Question,
    out: Path | str,
    *,
    resume: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Run:
    """The posterior of every unit, written to `out`: see `spine_units.COLUMNS`.

    `units/County=<geocode>/part.parquet` has a county with all that lies in it, a row group for every cell,
    `above.parquet` what lies above the counties. Numbers do not depend on workers or interruptions.

    Parameters
    ----------
    resume : go on where an earlier run in `out` stopped; it must have been of the same inputs, parameters and versions
    scheduler, workers, progress : as `run_chunks` takes them

    Raises
    ------
    ValueError, OSError : the file has a problem of those that `nmf_contents.contents` lists, wherever in it; `out`
        holds results, or lies inside of the file
    """
    arrow()
    path, target = opened(question.directory), Path(out)
    levels = levels_of(path)
    if question.level not in levels[:-1]:
        said = f"level must be one of {', '.join(levels[:-1])}, got {question.level!r}"
        raise ValueError(f"{path}: {said}{meant(question.level, levels[:-1])}")
    if target.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{target}: results must not lie inside of {path}, which they are made from")
    if not resume and any(has_chunks(one.parent) for one in target.glob(f"*/**/{MANIFEST}")):
        raise ValueError(f"{target} has results already: resume them, or choose another directory")
    refuse_problems(path, progress=progress)
    made = [one for one in (target, *target.parents) if not one.exists()]
    there = {one.name for one in target.glob("*")}
    try:
        with dask_address(scheduler, workers) as address:
            target.mkdir(parents=True, exist_ok=True)
            with alone(target):
                for left in target.rglob(TEMPORARY):
                    left.unlink(missing_ok=True)
                return _run(question, path, levels, target, resume=resume, scheduler=address, progress=progress)
    except (ValueError, TypeError, ArithmeticError):  # refused: whoever resumes it would meet the same
        for name in {UNITS, MESSAGES} - there:
            shutil.rmtree(target / name, ignore_errors=True)
        if ABOVE not in there:
            (target / ABOVE).unlink(missing_ok=True)
        remove_empty(made)
        raise


def _run(question: Question, path: Path, levels: tuple[str, ...], target: Path, **how: Any) -> Run:
    """The same on the workers of a scheduler, or in this process without one."""
    split = levels.index(question.level)
    roots = {one["root"]: one for one in nmf.subtrees(path, question.level)}
    inputs = digest_of_files(path, "*.parquet")

    def go(function: Any, items: Any, stage: str, **more: Any) -> Any:
        parameters = question.parameters | {"stage": stage}
        return run_chunks(
            function, items, out=target / stage, parameters=parameters, inputs=inputs, versions=VERSIONS, **how, **more
        )

    inside = {name: Piece(where, levels[split:]) for name, where in roots.items()}
    above: spine.SpinePosterior | None = None
    damaged: list[str] = []
    top = next(iter(roots.values())) if split == 0 else {}
    upper = nmf.read(path, question.query, question.cells, levels=levels[: split + 1], **top)  # type: ignore[arg-type]
    if split > 0:
        for tau in TAUS:
            raised = go(
                partial(rise_piece, question, tau), inside, f"{MESSAGES}/{tau:g}",
                description=f"{question.level}: up",
            )  # fmt: skip
            above, told = _across(question, upper, raised.files)
            damaged += raised.damaged
            if np.max(above.dropped) <= question.tolerance:
                break
        inside = {name: replace(piece, **told(name)) for name, piece in inside.items()}
        save_bytes(target / ABOVE, told(None))
    found = go(
        partial(solve_piece, question), inside, UNITS, encode=as_parquet,
        file=f"{question.level}={{}}/part.parquet", description=f"{question.level}: down",
    )  # fmt: skip
    return Run(target, found.files, above, found.kept, (*damaged, *found.damaged), upper.shape, made_up(path))


@dataclass(frozen=True, eq=False)
class Piece:
    """A county: where it is read, what all others say about its count, and (2, cell) `path_rho` above it."""

    where: dict[str, str]
    levels: tuple[str, ...]
    outside: tuple[spine.Message, ...] | None = None
    path: Floats | None = None


def rise_piece(question: Question, tau: float, piece: Piece) -> dict[str, Any]:
    """What a county says about its own count: messages of all cells, as arrays."""
    read = _read(question, piece)
    messages = spine.upward_message(read.tree, *_columns(read), question.leaf_prior, tau=tau)
    names = ("lowest", "tilt", "log_scale", "dropped", "bounds")
    arrays = {name: np.array([getattr(message, name) for message in messages]) for name in names}
    return arrays | {f"values_{i}": message.values for i, message in enumerate(messages)}


def solve_piece(question: Question, piece: Piece) -> dict[str, Any]:
    """`spine_units.COLUMNS` of a county and of everything in it."""
    read = _read(question, piece)
    released, rho = _columns(read)
    found = spine.posterior(
        read.tree, released, rho, question.leaf_prior, outside=piece.outside, tolerance=question.tolerance
    )
    members = found.membership(question.prior, question.known)
    columns = unit_columns(found, released, rho, question.prob, read.cells) | {NOTES: read.notes}
    return with_leaves(columns, read.tree, members, path_rho(read.tree, rho, piece.path))


def _read(question: Question, piece: Piece) -> nmf.Measurements:
    return nmf.read(question.directory, question.query, question.cells, levels=piece.levels, **piece.where)  # type: ignore[arg-type]


def _columns(read: nmf.Measurements) -> tuple[Floats, Floats]:
    """(unit, cell) released and rho, of one cell too."""
    return read.released.reshape(len(read.tree), -1), read.rho.reshape(len(read.tree), -1)


def _messages(path: Path) -> tuple[spine.Message, ...]:
    """The inverse of what `rise_piece` gives, from its file."""
    found = arrays_of(path)
    return tuple(
        spine.Message(
            int(found["lowest"][i]), found[f"values_{i}"], float(found["tilt"][i]), float(found["log_scale"][i]),
            float(found["dropped"][i]), (float(found["bounds"][i, 0]), float(found["bounds"][i, 1])),
        )
        for i in range(found["lowest"].size)
    )  # fmt: skip


def _across(
    question: Question, read: nmf.Measurements, files: Mapping[str, Path]
) -> tuple[spine.SpinePosterior, Callable[[str | None], Any]]:
    """The posterior of the tree above, counties its leaves; and what it tells a county, or None: its own rows."""
    released, rho = _columns(read)
    messages = {name: _messages(file) for name, file in files.items()}
    found = spine.posterior(
        read.tree, released, rho, question.leaf_prior, messages=messages, tolerance=question.tolerance
    )
    total, exact = path_rho(read.tree, rho)

    def told(name: str | None) -> Any:
        if name is None:
            upper = np.tile(read.tree.children > 0, rho.shape[1])
            columns = unit_columns(found, released, rho, question.prob, read.cells)
            return as_parquet({key: values[upper] for key, values in columns.items()} | {NOTES: read.notes})
        over = int(read.tree.parent[read.tree.index(name)])
        return {"outside": found.downward_message(name), "path": np.array([total[over], exact[over]])}

    return found, told
