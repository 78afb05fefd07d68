"""Output of a command: its answer printed, and page, numbers, tables and figures written, all or none.

JSON is printed from the numbers alone. A document is made only if it is shown or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import xarray as xr

from adversary.report.kit.answer import left_out, to_json
from adversary.report.kit.safe_text import netcdf, print_error, printable, safe_names

if TYPE_CHECKING:
    from adversary.report.kit.document import Document

PAGE, DATA, WORKBOOK = "report.html", "data.nc", "tables.xlsx"
FORMS = ("text", "json", "csv", "md")


class Answer(NamedTuple):
    """Answer of a command.

    Parameters
    ----------
    tree : labelled numbers with their `Summary`
    document : function that makes a document of the tree
    code, problem : exit code of the command, and one line with the reason if it is not 0
    """

    tree: xr.DataTree
    document: Callable[[xr.DataTree], Document]
    code: int = 0
    problem: str = ""


def write(document: Document, folder: Path) -> list[Path]:
    """Write the page, the numbers, a CSV file for every table and an SVG file for every figure.

    All are made in a hidden folder inside this one and moved out when they are complete. If the page cannot be made,
    the numbers are written alone, since they took long to compute, unless a page of earlier numbers is there.

    Parameters
    ----------
    document : the answer
    folder : an existing directory

    Returns
    -------
    paths of the files.

    Raises
    ------
    OSError : a file cannot be written; it is named
    """
    with TemporaryDirectory(dir=folder, prefix=".") as name:
        hidden = Path(name)
        numbers = _write(hidden, folder, DATA, netcdf(document.data))
        try:
            made = [_write(hidden, folder, file, content) for file, content in _render(document)]
        except Exception as error:
            if not (folder / PAGE).exists():
                error.add_note(f"(the numbers are in {numbers.replace(folder / DATA)}, without a page)")
            raise
        return [path.replace(folder / path.name) for path in (numbers, *made)]


def _render(document: Document) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of the page, of the tables and of the figures that could be drawn."""
    # imported late: JSON needs neither screen nor page
    from adversary.report.kit.rendering import to_csv, to_html, to_workbook

    document.draw_once()
    yield PAGE, to_html(document).encode()
    tables, figures = document.tables, document.figures
    names = _file_names([table.name or table.title or "table" for table in tables])
    yield from ((f"{name}.csv", to_csv(table).encode()) for name, table in zip(names, tables, strict=True))
    if document.workbook:
        yield WORKBOOK, to_workbook(dict(zip(names, tables, strict=True)))
    for name, figure in zip(_file_names([figure.name for figure in figures]), figures, strict=True):
        if isinstance(figure.svg, bytes):
            yield f"{name}.svg", figure.svg


def _file_names(names: list[str]) -> list[str]:
    """Unique file names for these names: repeated ones are numbered."""
    seen = [names[: i + 1].count(name) for i, name in enumerate(names)]
    return list(safe_names(f"{name} {n}" if n > 1 else name for name, n in zip(names, seen, strict=True)).values())


def _write(hidden: Path, folder: Path, name: str, content: bytes) -> Path:
    """Write a file into the hidden folder; an OSError names the path that it was to have."""
    try:
        (hidden / name).write_bytes(content)
    except OSError as error:
        raise OSError(f"cannot write {folder / name}: {error.strerror or error}") from None
    return hidden / name


def deliver(
    answer: Answer, form: str = "text", out: Path | None = None, *, quiet: bool = False, full: bool = False
) -> None:
    """Write an answer into a directory, if one is given, and print it in one of `FORMS`.

    Parameters
    ----------
    answer : its document is made if it is written, or printed in another form than JSON
    form : one of `FORMS`
    out : an existing directory
    quiet : print nothing but warnings
    full : print every section as text; otherwise the card, one table and the cautions
    """
    missing = [f"{name}: {why}" for name, why in left_out(answer.tree).items()]
    if out is not None or not (quiet or form == "json"):
        document = answer.document(answer.tree)
        missing = document.failures
    if out is not None:
        write(document, out)
        missing += [f"{one.name}: {one.svg}" for one in document.figures if isinstance(one.svg, str)]
    for line in missing:
        print_error(f"warning: {line}")
    if form == "json" and not quiet:
        print(to_json(answer.tree))
    elif not quiet:
        _print(document, form, full)
    if out is not None:
        print_error(f"page, tables, figures and numbers in {out}")


def _print(document: Document, form: str, full: bool) -> None:
    """Print a document as text, as Markdown, or its tables as CSV."""
    from adversary.report.kit.rendering import show, to_csv, to_markdown

    if form == "text":
        show(document, full=full)
    elif form == "md":
        print(to_markdown(document), end="")
    else:
        tables = [f"# {printable(one.title or one.name)}\n{to_csv(one)}" for one in document.tables]
        print("\n".join(tables), end="")


def check_directory(directory: str | Path) -> Path:
    """Directory to write into, made if necessary and tested by a temporary file.

    Parameters
    ----------
    directory : path of the directory

    Returns
    -------
    Path : the directory.

    Raises
    ------
    OSError : it cannot be made or written into; the message says why
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror or error
        raise OSError(f"cannot write into {folder}: {why}") from None


def check_form(form: str) -> str:
    """Name of a form of output, after a check that it is one of `FORMS`.

    Parameters
    ----------
    form : of the option `--format`

    Raises
    ------
    ValueError : another word
    """
    if form not in FORMS:
        raise ValueError(f"--format must be one of {', '.join(FORMS)}, got {form!r}")
    return form
