"""`adversary nmf`: Noisy Measurement Files made up for trying things out, and what is in one."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from adversary.desk.commands.options import SEED, Json, extras, one_line_errors
from adversary.desk.kit import screen, tell
from adversary.nmf import arrow, check
from adversary.nmf.synthetic import AXES, SHAPE, Recipe, synthesise

SHOWN = 20
"""Problems on the screen; `--json` has them all."""

nmf_command = typer.Typer(no_args_is_help=True)


@nmf_command.command("synth", epilog="Example: adversary nmf synth county --blocks 2000 --shape 2x2x2x7")
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
    as_json: Json = False,
) -> None:
    """A made-up population, with noise as in the redistricting release of 2020; nobody in it exists."""
    with one_line_errors():
        _need_arrow()
        recipe = Recipe(blocks, counties, seed, _shape(shape), tuple(query or ()), areas)
        began = time.perf_counter()
        made = synthesise(directory, recipe, overwrite=overwrite, progress=True)
        seconds = time.perf_counter() - began
        size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
    answer = {
        "directory": str(made), "synthetic": True, "blocks": recipe.blocks, "counties": recipe.county_number,
        "seed": recipe.seed, "shape": list(recipe.shape), "queries": [one.file_name for one in recipe.asked],
        "areas": recipe.area_number, "bytes": size, "seconds": round(seconds, 3),
    }  # fmt: skip
    tell(answer, _show, as_json)


@nmf_command.command("check", epilog="Example: adversary nmf check county")
def check_command(
    directory: Annotated[Path, typer.Argument(help="Noisy Measurement File, a directory.", metavar="NMF_DIR")],
    product: Annotated[
        str | None, typer.Option(help="Product folder, where the archive has several, such as US_Person_PL_PROD.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What a file holds: levels, units, queries, shapes, variances; and what is missing or malformed (exit code 1)."""
    with one_line_errors():
        _need_arrow()
        found = check.contents(directory, product, progress=True)
    tell(found, _show_contents, as_json)
    if found["problems"]:
        print(f"{len(found['problems'])} problems", file=sys.stderr)
        raise typer.Exit(1)


def _need_arrow() -> None:
    """Without pyarrow, the same line that any other error in what is given gets."""
    with extras():
        arrow()


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        raise ValueError(f"--shape must be four numbers such as 8x2x2x63, got {text!r}") from None


def _show(answer: dict[str, Any], console: Console) -> None:
    console.print(
        Text(
            f"{answer['directory']}: {answer['blocks']:,} made-up blocks in {answer['counties']} counties, "
            f"{len(answer['queries'])} queries, {answer['bytes'] / 2**20:,.1f} MiB in {answer['seconds']:.1f} s"
        )
    )
    console.print(Text("SYNTHETIC: nobody in it exists. README.md says how it was made; truth.parquet has the counts."))


def _show_contents(found: dict[str, Any], console: Console) -> None:
    """Print it."""
    size = f"{found['bytes'] / 2**20:,.1f} MiB in {found['files']:,} files"
    made_up = "; SYNTHETIC, its population is made up" if found["synthetic"] else ""
    console.print(Text(f"{found['directory']}: {found['product']}, {size}{made_up}"))
    for level in found["levels"]:
        units = f"{level['units']:,}"
        table = screen.table(
            f"{level['level']}: {units} units", ("query", "kind", "shape"), ("units", "measured", "variance")
        )
        for query in level["queries"]:
            shape = " x ".join(map(str, query["shape"] or ()))
            screen.add(
                table, query["query"], query["kind"], shape, f"{query['units']:,}", f"{query['measured']:,}",
                _range(query["variance"]),
            )  # fmt: skip
        screen.put(table, console)
    problems = found["problems"]
    console.print("", Text(f"{len(problems)} problems" if problems else "nothing is missing or malformed"), sep="\n")
    for problem in problems[:SHOWN]:
        console.print(Text(problem), soft_wrap=True)
    if len(problems) > SHOWN:
        console.print(Text(f"and {len(problems) - SHOWN} more"))


def _range(variance: list[float] | None) -> str:
    if variance is None:
        return "exact"
    low, high = (f"{one:.4g}" for one in variance)
    return low if low == high else f"{low} to {high}"
