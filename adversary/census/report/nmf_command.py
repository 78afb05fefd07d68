"""`adversary nmf`: generate synthetic Noisy Measurement Files, and check the contents of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from adversary._core import join_words
from adversary.census.nmf import arrow, check
from adversary.census.nmf.synthetic import AXES, SHAPE, Recipe, synthesise
from adversary.report.commands.options import SEED, Directory, Product, answering, ended_as_interrupted, extras
from adversary.report.kit import Answer, Document, Section, Summary, attempt, guarded_document, tabulate

# Largest number of problems on the screen and the page; JSON has them all.
SHOWN = 20

nmf_command = typer.Typer(no_args_is_help=True)


@nmf_command.command("synth", epilog="Example: adversary nmf synth county --blocks 2000 --shape 2x2x2x7")
@answering()
def synth_command(
    directory: Annotated[Path, typer.Argument(help="Directory to make.", metavar="OUT_DIR")],
    blocks: Annotated[int, typer.Option(help="Blocks of the made-up state.")] = 5000,
    counties: Annotated[int | None, typer.Option(help="Counties.", show_default="one for every 4,000 blocks")] = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same files.")] = SEED,
    shape: Annotated[
        str, typer.Option(help=f"Categories of {', '.join(AXES)}; 8x2x2x63 in the release of 2020.", metavar="AxBxCxD")
    ] = "x".join(map(str, SHAPE)),
    query: Annotated[
        list[str] | None,
        typer.Option(
            help='A query to measure, such as TOTAL or "HISPANIC*CENRACE"; may be repeated.', show_default="all eleven"
        ),
    ] = None,
    areas: Annotated[
        int | None,
        typer.Option(help="Counties that are American Indian areas.", show_default="one for every four counties"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Take the place of a Noisy Measurement File of that name.")
    ] = False,
) -> Answer:
    """A synthetic population, with noise as in the redistricting release of 2020; nobody in it exists."""
    _need_arrow()
    recipe = Recipe(blocks, counties, seed, _shape(shape), tuple(query or ()), areas)
    start = time.perf_counter()
    with ended_as_interrupted():
        path = synthesise(directory, recipe, overwrite=overwrite, progress=True)
    seconds = time.perf_counter() - start
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    numbers = {
        "blocks": recipe.blocks, "counties": recipe.county_number, "seed": recipe.seed, "areas": recipe.area_number,
        "bytes": size, "seconds": round(seconds, 3), "shape": ("axis", list(recipe.shape)),
        "queries": ("query", [one.file_name for one in recipe.measured_queries]),
    }  # fmt: skip
    tree = xr.DataTree.from_dict({"file": xr.Dataset(numbers, {"axis": list(AXES)})})
    tree.attrs = {"directory": str(path), "synthetic": 1}
    verdict = (
        f"{path}: {recipe.blocks:,} synthetic blocks in {recipe.county_number} counties, "
        f"{len(recipe.measured_queries)} queries, {size / 2**20:,.1f} MiB in {seconds:.1f} s."
    )
    note = "Nobody in it exists. README.md says how it was made; truth.parquet has the counts."
    Summary("Synthetic Noisy Measurement File", ["file"], verdict).on(tree)
    return Answer(tree, lambda tree: Document(tree, lead=[note]))


@nmf_command.command("check", epilog="Example: adversary nmf check county")
@answering()
def check_command(
    directory: Directory,
    product: Product = None,
) -> Answer:
    """Contents of a file: levels, units, queries, shapes, variances; and what is missing or malformed (exit code 1)."""
    _need_arrow()
    return _contents(check.contents(directory, product, progress=True))


def _need_arrow() -> None:
    """Exit with a one-line error if pyarrow is missing."""
    with extras():
        arrow()


def _shape(text: str) -> tuple[int, ...]:
    """Parse --shape."""
    try:
        return tuple(int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        raise ValueError(f"--shape must be four numbers such as 8x2x2x63, got {text!r}") from None


def _contents(listing: dict[str, Any]) -> Answer:
    """Answer from the listing of `nmf.check.contents`; exit code 1 if there are problems."""
    rows = [(level["level"], query) for level in listing["levels"] for query in level["queries"]]
    ends = np.array([query["variance"] or (np.nan, np.nan) for _, query in rows]).reshape(-1, 2)
    columns = {
        "level": [level for level, _ in rows],
        **{name: [query[name] for _, query in rows] for name in ("query", "kind", "units", "measured")},
        "shape": [" x ".join(map(str, query["shape"] or ())) for _, query in rows],
        "least_variance": ends[:, 0],
        "largest_variance": ends[:, 1],
    }
    problems = listing["problems"]
    groups = {
        "levels": xr.Dataset(
            {"units": ("level", [one["units"] for one in listing["levels"]])},
            {"level": [one["level"] for one in listing["levels"]]},
        ),
        "queries": xr.Dataset({name: ("row", np.array(values)) for name, values in columns.items()}),
        "problems": xr.Dataset({"problem": ("place", np.array(problems, dtype=str))}),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {name: listing[name] for name in ("directory", "product", "bytes", "files")}
    tree.attrs["synthetic"] = int(listing["synthetic"])
    tree.attrs["absent"] = join_words(listing["absent"])
    many = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    verdict, status = (f"{many}.", "violated") if problems else ("Nothing is missing or malformed.", "holds")
    warnings = ["This population is synthetic. Nobody in it exists."] * bool(listing["synthetic"])
    Summary(f"{listing['directory']}: {listing['product']}", list(groups), verdict, status, warnings).on(tree)
    return Answer(tree, _document, int(bool(problems)), f"{many}: {problems[0]}" if problems else "")


@guarded_document
def _document(tree: xr.DataTree) -> Document:
    """Document with problems first, then levels and queries."""
    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    problems = [str(one) for one in groups["problems"]["problem"].values]
    heads = {
        "row": ("", "count"), "level": "level", "query": "query", "kind": "kind",
        "shape": "shape", "units": ("units", "count"), "measured": ("measured", "count"),
        "least_variance": ("variance, from", "number"), "largest_variance": ("to", "number"),
    }  # fmt: skip
    problems_shown = [*problems[:SHOWN], *[f"and {len(problems) - SHOWN} more"] * (len(problems) > SHOWN)]
    levels = {"level": "level", "units": ("units", "count")}
    size = f"{tree.attrs['bytes'] / 2**20:,.1f} MiB in {tree.attrs['files']:,} files."
    extract = f"An extract, without {tree.attrs['absent']}." if tree.attrs["absent"] else ""
    return Document(
        tree,
        lead=[size, *[extract] * bool(extract)],
        sections=[
            *[Section("What is missing or malformed", paragraphs=problems_shown)] * bool(problems),
            attempt("Levels", lambda: Section("Levels", tables=[tabulate(groups["levels"], levels, name="levels")])),
            attempt(
                "Queries",
                lambda: Section(
                    "Queries", tables=[tabulate(groups["queries"], heads, name="queries", missing="exact")]
                ),
            ),
        ],
    )
